"""Spark in local mode, several partitions: the numbers of pandas, and no row on the driver."""

from __future__ import annotations

import pickle
import shutil
import sys
import warnings
from collections.abc import Callable
from typing import Any

import cases
import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession, functions, types

import evalreg as er
from evalreg import errors
from evalreg.covariance.sparsity import sparsity
from evalreg.covariance.summed_leverages import SummedProducts
from evalreg.data import engine_groups, engine_spark, engine_spark_work
from evalreg.scores import lazy_spark
from evalreg.scores.lazy_spark import SparkScores
from evalreg.scores.spark_differences import SparkDifferences

OPTIONS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.ansi.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def session(builder: SparkSession.Builder, folder: str) -> SparkSession:
    """A session with strict types whose driver has 512 MB."""
    for name, value in {**OPTIONS, "spark.sql.warehouse.dir": folder}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def maker(spark: SparkSession) -> cases.Make:
    """Frames of Spark in four partitions; floats keep NaN, which Spark does not take for null."""

    def make(frame: pd.DataFrame) -> DataFrame:
        known = {"f": types.DoubleType(), "i": types.LongType(), "b": types.BooleanType()}
        fields, columns = [], []
        for name in frame.columns:
            column = frame[name]
            present = [one for one in column if one is not None]
            kind = known.get(column.dtype.kind) or types._infer_type(present[0])
            fields.append(types.StructField(name, kind, True))
            columns.append(column.tolist() if column.dtype.kind in known else list(column))
        rows = [tuple(None if one is pd.NA else one for one in row) for row in zip(*columns, strict=True)]
        made = spark.createDataFrame(rows, types.StructType(fields)).repartition(4)
        if "judge" in frame and "score" in frame:  # Null in some rows and NaN in others.
            null = functions.isnan("score") & (functions.col("judge") != "x")
            made = made.withColumn("score", functions.when(~null, functions.col("score")))
        return made

    return make


# Boards whose clusters stay in Spark however few rows there are; in the second some pairs met on one prompt alone.
STAYING = {
    "crossed": {"groups": "prompt + judge"},
    "thin": {"groups": "prompt"},
    "CR1": {"groups": "prompt + judge", "cov": "CR1"},
    "as sampled": {"groups": "prompt + judge", "opponents": "as_sampled"},
    "jackknife": {"groups": "prompt + judge", "cov": "jackknife"},
    "observed strata": {"groups": "prompt + judge", "by": "language", "standardise": "observed"},
    "weighted strata, CR3": {"groups": "prompt", "by": "language", "weights": "weight", "cov": "CR3"},
}


# Means whose clusters stay: one cell and several, and means of several cells.
STAYING_MEANS = {
    "one mean, joint ids": {"groups": "subject:judge"},
    "weighted means, crossed": {"by": "model", "groups": "passage + judge", "weights": "weight"},
    "means, strata, CR1": {"by": "model", "strata": "subject", "groups": "passage", "cov": "CR1"},
}


# Ratios whose clusters stay; in the second all rows of a model have the same.
STAYING_RATIOS = {
    "weighted ratios, crossed": {"by": "model", "groups": "passage + judge", "weights": "weight"},
    "a flat ratio, CR1": {"by": "model", "groups": "passage", "cov": "CR1"},
}


# Queries of a call, as docs/guide/engines.md has them.
QUERIES = {
    "two models": 9,
    "weighted ratios, crossed": 16,
    "a flat ratio, CR1": 10,
    "differences": 12,
    "differences, crossed, CR1": 13,
    "contrasts": 14,
    "contrasts, pairs": 4,
    "factors, CR1": 6,
    "weighted, on numbers, crossed, CR2": 11,
    "powers, CR0": 6,
    "powers, CR3": 6,
    "ratings, CR1": 10,
    "ratings, CR2": 10,
    "ratings, jackknife": 10,
}


def assert_queries(name: str, n_queries: int) -> None:
    """A call asks as often as it is said to, where that is said."""
    assert n_queries == QUERIES.get(name, n_queries), (name, n_queries)


def check_staying_means(make: cases.Make) -> None:
    """The numbers of pandas from sums over clusters that Spark makes, and those of a difference of two parameters."""
    frame = cases.answers()
    flat = frame.assign(right=frame["score"] * frame["right"].where(frame["model"] != "ada", 0.5))
    frames = {name: (one, make(one)) for name, one in (("answers", frame), ("flat", flat))}
    calls: dict[str, tuple[str, Callable[[Any], Any]]] = {
        name: ("answers", lambda data, options=options: er.mean(data, **options))
        for name, options in STAYING_MEANS.items()
    }
    for name, options in STAYING_RATIOS.items():
        which = "flat" if "flat" in name else "answers"
        calls[name] = (which, lambda data, options=options: er.ratio(data, "right", "score", **options))
    for name, (which, call) in calls.items():
        frame, data = frames[which]
        with cases.collected() as lines:
            found = call(data)
            n_queries = len(lines)
            summary = str(found.summary())
            expected = call(frame)
            worst = cases.assert_same(found, expected)
            if len(expected.params) > 1:
                ours, pandas = (one.contrast("ada - bob") for one in (found, expected))
                cases.assert_numbers(ours, pandas)
                assert str(ours.summary()) == str(pandas.summary())
        assert summary == str(expected.summary())
        assert isinstance(found.estimate.scores, SparkScores)
        assert not found.estimate.scores._queries, "clusters came to the driver"
        n = expected.estimate.cells.count.size
        # The first query tells which rows are in use, and another one for which of three reasons others are not.
        assert max(lines[1:]) <= max(n * (n + 1) // 2, 4), (name, lines)
        assert_queries(name, n_queries)
        print(f"{name:24} errors differ by {worst:.1e}, {n_queries} queries, at most {max(lines)} lines", flush=True)


# Regressions whose clusters stay; what stands beside numbers is in one cluster alone, which gives it no variance.
STAYING_FITS = {
    "factors, CR1": ("right ~ model * C(attempt) + subject", {"groups": "passage", "cov": "CR1"}),
    "weighted, on numbers, crossed, CR2": (
        "score ~ odd + model * weight",
        {"groups": "passage + judge", "weights": "weight"},
    ),
    "powers, CR0": ("score ~ subject + weight + I(weight ** 2)", {"groups": "passage", "cov": "CR0"}),
    "powers, CR3": ("score ~ subject + weight + I(weight ** 2)", {"groups": "passage", "cov": "CR3"}),
}


def check_staying_fits(make: cases.Make) -> None:
    """The numbers of pandas; no cluster leaves Spark, but under CR2 where its workers cannot run this code."""
    frame = cases.answers()
    frame["odd"] = np.where(frame["passage"] == "p03", "yes", "no")
    data = make(frame)
    for name, (formula, options) in STAYING_FITS.items():
        with cases.collected() as lines:
            found = er.fit(formula, data, **options)
            n_queries = len(lines)
            early = pickle.dumps(found)
            summary = str(found.summary())
        expected = er.fit(formula, frame, **options)
        worst = cases.assert_same(found, expected)
        assert summary == str(expected.summary())
        scores = found.estimate.scores.inner
        assert isinstance(scores, SparkScores)
        assert not scores._queries, "clusters came to the driver"
        k, n_cells = len(expected.params), scores.n_cells
        # The first query tells which rows are in use, for which reason others are not; in one cluster lies an effect.
        assert max(lines[1:]) <= max(1 + k**2 + SummedProducts.size(k), 2 * n_cells), (name, lines)
        str(pickle.loads(pickle.dumps(found)).summary())
        unknown = pickle.loads(early)
        cases.refused(errors.NotAvailableError, "before you pickle a result", unknown.icc)
        assert "ICC" in summary
        assert "ICC" not in str(unknown.summary())
        assert_queries(name, n_queries)
        print(f"{name:34} errors differ by {worst:.1e}, {n_queries} queries, at most {max(lines)} lines", flush=True)
    check_other_workers(data, frame)


def check_other_workers(data: Any, frame: pd.DataFrame) -> None:
    """Clusters come to the driver, which is said, where the workers have another evalreg."""
    formula, own = "score ~ subject + weight", engine_spark_work.fingerprint
    engine_spark_work._ABLE.clear()
    engine_spark_work.fingerprint = lambda: "another"  # type: ignore[assignment]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found, expected = (er.fit(formula, one, groups="passage") for one in (data, frame))
        later = er.fit(formula, data, groups="passage", cov="CR1").with_cov(cov="CR2")
    engine_spark_work.fingerprint = own
    texts = [str(one.message) for one in said if one.category is errors.EngineWarning]
    assert len(texts) == 2, texts
    assert all("their evalreg is another version" in text for text in texts), texts
    for one in (found, later):
        cases.assert_numbers(one, expected)
        assert list(one.estimate.scores.inner._queries) == [("passage",)], "CR2 takes each cluster"
    other = {"groups": "author", "cov": "CR1"}
    cases.assert_numbers(found.with_cov(**other), expected.with_cov(**other))
    assert list(found.estimate.scores.inner._queries) == [("passage",)]
    most, lazy_spark.MOST_SENT = lazy_spark.MOST_SENT, 1000
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = er.fit(formula, data, groups="passage")
    lazy_spark.MOST_SENT = most
    assert [one.category for one in said].count(errors.EngineWarning) == 1, said
    cases.assert_numbers(found, expected)
    assert list(found.estimate.scores.inner._queries) == [("passage",)], "the design is too large to be sent"
    print("clusters come where workers have another evalreg, or would be sent too much", flush=True)


def check_staying_samples(make: cases.Make) -> None:
    """Answers put together by question in Spark: what leaves is as large as the models are many."""
    once = cases.answers()
    frame = pd.concat(
        [once, once.assign(attempt=once["attempt"] + 2, right=once["right"].where(once["weight"] < 1, 1))]
    )
    frame = frame.reset_index(drop=True)
    data, roles = make(frame), {"by": "model", "item": "question", "sample": "attempt", "groups": "passage"}
    calls: dict[str, Callable[[Any], Any]] = {
        "pass_at_k": lambda one: er.pass_at_k(one, "right", k=2, **roles),
        "means of samples": lambda one: er.mean(one, **roles),
    }
    for name, call in calls.items():
        with cases.collected() as lines:
            found = call(data)
            n_queries = len(lines)
            worst = cases.assert_same(found, call(frame))
        assert isinstance(found.estimate.scores, SparkScores)
        assert not found.estimate.scores._queries, "clusters came to the driver"
        # The first tell of models and reasons, and of the answers to five questions; eight are the pairs of c and n.
        assert max(lines[2:]) <= 8, (name, lines)
        assert_queries(name, n_queries)
        print(f"{name}: errors differ by {worst:.1e}, {n_queries} queries, at most {max(lines)} lines", flush=True)
    lost = pickle.loads(pickle.dumps(found))
    cases.refused(errors.NotAvailableError, "`pairwise()` before you pickle a result", lost.pairwise)
    before = found.pairwise()["se"]
    np.testing.assert_allclose(pickle.loads(pickle.dumps(found)).pairwise()["se"], before)
    other = {"groups": "author"}
    cases.assert_numbers(found.with_cov(**other), call(frame).with_cov(**other))
    cases.refused(errors.DataError, "have fewer (the fewest 2", lambda: er.pass_at_k(data, "right", k=3, **roles))
    cases.refused(errors.AlignmentError, "differs within", lambda: found.with_cov(groups="judge"))
    doubled = make(pd.concat([frame, frame[:3]]))
    cases.refused(errors.DuplicateRowsError, "an earlier one", lambda: er.mean(doubled, **roles))


def assert_stayed(found: Any) -> None:
    """No sum of a cluster, or of a question, came to the driver."""
    scores = found.results.estimate.scores
    assert isinstance(scores, SparkDifferences)
    assert not scores._queries, "clusters came to the driver"
    assert not scores.questions._queries, "clusters came to the driver"


# Differences whose questions stay: of two models that hardly differ, of one that has other questions than the rest.
STAYING_DIFFERENCES = {
    "differences": {"groups": "passage"},
    "differences, questions": {"baseline": "a", "adjust": "holm"},
    "differences, crossed, CR1": {"groups": "passage + subject", "cov": "CR1", "baseline": "b"},
    "differences, strata": {"groups": "passage", "strata": "subject", "baseline": "a"},
}


def check_staying_differences(make: cases.Make) -> None:
    """The numbers of pandas, tests of wins and what was not seen included; what leaves are counts of pairs."""
    frame = cases.questions()
    data, kept = make(frame), dict[str, tuple[Any, Any]]()
    for name, options in STAYING_DIFFERENCES.items():
        with cases.collected() as lines:
            found = er.compare(data, item="question", **options)
            expected = er.compare(frame, item="question", **options)
            n_queries = len(lines)
            worst = cases.assert_same(found, expected)
            for test in ("sign_test", "mcnemar"):
                ours, pandas = (getattr(one, test)() for one in (found, expected))
                pd.testing.assert_frame_equal(ours, pandas, rtol=cases.SAME, check_dtype=False)
        assert_stayed(found)
        n = expected.results.estimate.cells.count.size
        assert max(lines) <= n * (n + 1) // 2, (name, lines)
        assert_queries(name, n_queries)
        kept[name] = found, expected
        print(f"{name:26} errors differ by {worst:.1e}, {n_queries} queries, at most {max(lines)} lines", flush=True)
    found, expected = kept["differences"]
    for name, change in {"not seen": {"icc": 0.1}, "others": {"groups": "subject", "cov": "CR3", "icc": None}}.items():
        worst = cases.assert_same(found.with_cov(**change), expected.with_cov(**change))
        print(f"differences, {name}: errors differ by {worst:.1e}", flush=True)
    again = pickle.loads(pickle.dumps(found))
    assert str(again.summary()) == str(expected.summary())
    pd.testing.assert_frame_equal(again.sign_test(), expected.sign_test(), rtol=cases.SAME, check_dtype=False)
    cases.refused(errors.NotAvailableError, "no longer has its source rows", lambda: again.with_cov(groups="subject"))
    alone = {"item": "question", "groups": "passage", "paired": False}
    cases.assert_same(er.compare(data, **alone), er.compare(frame, **alone))


# Means of the questions that all models answered, and how few of them tell two models apart.
STAYING_CONTRASTS = {
    "contrasts": {"groups": "passage"},
    "contrasts, questions": {},
    "contrasts, crossed": {"groups": "passage + subject", "cov": "CR1"},
    "contrasts, strata": {"groups": "passage", "strata": "subject"},
}


def check_staying_contrasts(make: cases.Make) -> None:
    """Shared questions are found in Spark, and what two models differ on is counted there."""
    frame = cases.questions().query("model != 'd'").reset_index(drop=True)
    data = make(frame)
    for name, options in STAYING_CONTRASTS.items():
        roles = {"by": "model", "item": "question", "questions": "shared"} | options
        with cases.collected() as lines:
            found, expected = (er.mean(one, **roles) for one in (data, frame))
            n_queries = len(lines)
            worst = cases.assert_same(found, expected)
            counted = len(lines)
            for table in ("pairwise", "ranks"):
                ours, pandas = (getattr(one, table)() for one in (found, expected))
                pd.testing.assert_frame_equal(ours, pandas, rtol=1e-8)
            n_more = len(lines) - counted
            assert found.sentence() == expected.sentence()
        assert not found.estimate.scores._queries, "clusters came to the driver"
        n = expected.estimate.cells.count.size
        assert max(lines) <= n * (n + 1) // 2, (name, lines)
        again = pickle.loads(pickle.dumps(found))
        pd.testing.assert_frame_equal(again.pairwise(), expected.pairwise(), rtol=1e-8)
        assert_queries(name, n_queries)
        assert_queries(f"{name}, pairs", n_more)
        told = f"{n_queries} queries, {n_more} of pairs, at most {max(lines)} lines"
        print(f"{name:26} errors differ by {worst:.1e}, {told}", flush=True)
    apart = make(cases.questions())
    roles = {"by": "model", "item": "question", "questions": "shared"}
    cases.refused(errors.DataError, 'Leave out "d": the others share 224', lambda: er.mean(apart, **roles))
    # Where answers to a question lie in several clusters, questions are looked at one by one.
    answered = cases.answers().query("attempt == 0 and question > 'q020'").dropna().reset_index(drop=True)
    roles |= {"groups": "judge", "score": "right"}
    found, expected = (er.mean(one, **roles) for one in (make(answered), answered))
    pd.testing.assert_frame_equal(found.pairwise(), expected.pairwise(), rtol=1e-8)


def check_refused_differences(make: cases.Make) -> None:
    """What is wrong with questions is said of those in Spark as well."""
    frame = cases.questions().query("model in ['a', 'c']")
    roles = {"item": "question", "groups": "passage"}
    moved = frame.assign(passage=frame["passage"].where((frame["model"] != "a") | (frame["question"] != "q7"), "other"))
    differing = "it differs within 1 of 'question', such as \"q7\""
    cases.refused(errors.AlignmentError, differing, lambda: er.compare(make(moved), **roles))
    held = er.compare(make(moved), item="question")
    cases.refused(errors.AlignmentError, differing, lambda: held.with_cov(groups="passage"))
    doubled = make(pd.concat([frame, frame[:2]]))
    cases.refused(errors.DuplicateRowsError, "2 rows repeat", lambda: er.compare(doubled, **roles))
    one = make(frame[frame["model"] == "a"])
    cases.refused(errors.DataError, "at least two models", lambda: er.compare(one, **roles))
    drawn = {"target": "the full benchmark", "n_population": {"passage": 500}}
    data = make(frame)
    cases.assert_same(er.compare(data, **roles, **drawn), er.compare(frame, **roles, **drawn))
    cases.refused(errors.MissingColumnError, '"c"', lambda: er.compare(data, **roles, baseline="e"))
    fewer = cases.questions().query("model != 'd' and (model != 'b' or passage != 'p3')")
    cases.refused(errors.NotAvailableError, "rows in memory", lambda: er.compare(make(fewer), **roles, **drawn))
    print("differences that are refused", flush=True)


def check_many_answers(spark: SparkSession, folder: str) -> None:
    """Of more answers than come to the driver, with nothing changed for the test."""
    rng = np.random.default_rng(5)
    n, frames = 60_000, []
    skill = rng.normal(size=n // 10)[np.arange(n) // 10] + rng.normal(size=n)
    for model, more in (("new", 0.05), ("old", 0.0)):
        right = (skill + more + rng.normal(size=n) > 0).astype(float)
        frames.append(
            pd.DataFrame({"model": model, "question": np.arange(n), "passage": np.arange(n) // 10, "score": right})
        )
    frame = pd.concat(frames, ignore_index=True)
    frame.loc[7, "score"] = np.nan
    frame.to_parquet(f"{folder}/answers.parquet")
    data, roles = spark.read.parquet(f"{folder}/answers.parquet"), {"item": "question", "groups": "passage"}
    with cases.collected() as lines:
        found = er.compare(data, **roles)
        n_queries = len(lines)
        worst = cases.assert_same(found, er.compare(frame, **roles))
        found.sign_test()
        of_means, pandas = (er.mean(one, by="model", **roles).pairwise() for one in (data.dropna(), frame.dropna()))
    pd.testing.assert_frame_equal(of_means, pandas, rtol=1e-8)
    assert_stayed(found)
    assert_queries("two models", n_queries)
    # The first counts what is missing by model.
    assert max(lines[1:]) <= 3, lines
    print(f"{len(frame)} answers: errors differ by {worst:.1e}, {n_queries} queries, {sum(lines)} lines", flush=True)


def check_staying_ratings(make: cases.Make) -> None:
    """The same of ratings, whose CR1 takes sums over clusters for each two models, and others a matrix of each."""
    frame = cases.duels()
    data, roles = make(frame), cases.VERDICTS["words"] | {"groups": "prompt + judge", "weights": "weight"}
    for cov in ("CR1", "CR2", "jackknife"):
        name = f"ratings, {cov}"
        with cases.collected() as lines:
            found = er.bradley_terry(data, **roles, cov=cov)
            n_queries = len(lines)
            summary = str(found.summary())
        expected = er.bradley_terry(frame, **roles, cov=cov)
        worst = cases.assert_same(found, expected)
        assert summary == str(expected.summary())
        scores, k = found.estimate.scores.inner, len(found.params) - 1
        assert isinstance(scores, SparkScores)
        assert not scores._queries, "clusters came to the driver"
        assert max(lines[1:]) <= max(1 + (k + 1) ** 2 + SummedProducts.size(k), 2 * scores.n_cells), (name, lines)
        assert_queries(name, n_queries)
        print(f"{name}: errors differ by {worst:.1e}, {n_queries} queries, at most {max(lines)} lines", flush=True)
        lost = pickle.loads(pickle.dumps(found))
        np.testing.assert_allclose(lost.pairwise()["se"], expected.pairwise()["se"], rtol=1e-8)
    cases.assert_numbers(found.with_cov(cov="CR3"), expected.with_cov(cov="CR3"))
    assert not scores._queries, "clusters came to the driver"


def check_many(spark: SparkSession, folder: str) -> None:
    """More than 100,000 rows from files: clusters stay without being told to, few or many."""
    frame = cases.duels(6, 5000, 130_000)
    frame["length"] = np.round(np.random.default_rng(3).lognormal(size=len(frame)), 3)
    frame.to_parquet(f"{folder}/many")
    data, roles = spark.read.parquet(f"{folder}/many"), cases.VERDICTS["words"]
    calls: dict[str, Callable[[Any], Any]] = {
        "CR2 of a regression": lambda one: er.fit("points ~ length + language", one, groups="prompt"),
        "CR2 of ratings": lambda one: er.bradley_terry(one, **roles, groups="prompt"),
    }
    for name, call in calls.items():
        with cases.collected() as lines:
            found = call(data)
            summary = str(found.summary())
        expected = call(frame)
        worst = cases.assert_same(found, expected)
        assert summary == str(expected.summary())
        assert not found.estimate.scores.inner._queries, "clusters came to the driver"
        assert max(lines) < 1000 < found.n_clusters["prompt"], (name, lines)
        print(
            f"{name}, {found.nobs} rows in {found.n_clusters['prompt']} clusters: errors differ by {worst:.1e}, "
            f"at most {max(lines)} lines",
            flush=True,
        )


def check_staying(make: cases.Make) -> None:
    """The numbers of pandas, and what leaves Spark is as large as the pairs of models are many; no cluster does."""
    few, engine_spark.FEW_ROWS = engine_spark.FEW_ROWS, 0
    check_staying_means(make)
    check_staying_fits(make)
    check_staying_ratings(make)
    check_staying_samples(make)
    check_staying_differences(make)
    check_refused_differences(make)
    check_staying_contrasts(make)
    frames = {"thin": cases.duels(8, 12, 140)}
    data = make(cases.duels())
    for name, options in STAYING.items():
        frame = frames.get(name, cases.duels())
        roles = cases.VERDICTS["words"] | options
        with cases.collected() as lines:
            found = er.win_rate(make(frame) if name in frames else data, **roles)
            early = pickle.dumps(found)
            summary = str(found.summary())
        expected = er.win_rate(frame, **roles)
        worst = cases.assert_same(found, expected)
        scores = getattr(found.estimate.scores, "inner", found.estimate.scores)
        assert isinstance(scores, SparkScores)
        assert not scores._queries, "clusters came to the driver"
        pairs = expected.estimate.cells.count.size
        single = int(np.sum(sparsity(expected.estimate, expected.cov.axes[0]).single > 0))
        assert (single > 0) is (name == "thin")
        # The first query is that of the pairs with their verdicts; clusters come that some pair rests on alone.
        most = max(pairs * (pairs + 1) // 2, len(frame) // 2 if name == "thin" else 0)
        assert max(lines[1:]) <= most, (name, lines)
        assert summary == str(expected.summary())
        again = pickle.loads(pickle.dumps(found))
        assert again.n_clusters == expected.n_clusters
        np.testing.assert_allclose(again.icc(), expected.icc(), rtol=cases.SAME)
        unknown = pickle.loads(early)
        cases.refused(errors.NotAvailableError, "before you pickle a result", unknown.icc)
        for call in (lambda lost=unknown: lost.with_cov(cov="CR0"), lambda lost=unknown: lost.influence(by="prompt")):
            cases.refused(errors.NotAvailableError, "no longer has its source rows", call)
        assert "ICC" in summary
        assert "ICC" not in str(unknown.summary())
        print(f"{name:20} errors differ by {worst:.1e}, {len(lines)} queries, at most {max(lines)} lines", flush=True)
    roles = cases.VERDICTS["words"] | {"groups": "prompt"}
    board, held = er.win_rate(data, **roles), er.win_rate(cases.duels(), **roles)
    cases.assert_numbers(board.with_cov(groups="language"), held.with_cov(groups="language"))
    assert not board.estimate.scores._queries
    cases.refused(errors.MissingLabelsError, "have none", lambda: board.with_cov(groups="judge"))
    np.testing.assert_allclose(board.head_to_head()["se"], held.head_to_head()["se"], rtol=1e-8)
    engine_spark.FEW_ROWS = few
    limits = engine_groups.LINES_AT_ONCE, engine_groups.MOST_LINES
    engine_groups.LINES_AT_ONCE, engine_groups.MOST_LINES = 100, 200
    cases.refused(errors.NotAvailableError, "a relation of DuckDB", lambda: er.bradley_terry(data, **roles))
    engine_groups.LINES_AT_ONCE, engine_groups.MOST_LINES = limits


def check(spark: SparkSession, folder: str, engine: str) -> None:
    """All calls, ids and scores, and decimals."""
    make = maker(spark)
    cases.check_numbers(make, engine)
    check_staying(make)
    check_many(spark, folder)
    check_many_answers(spark, folder)
    cases.check_labels(make)
    cases.check_scores(make)

    def collated(frame: pd.DataFrame) -> DataFrame:
        return make(frame).withColumn("label", functions.collate("label", "UTF8_LCASE_RTRIM"))

    assert collated(pd.DataFrame({"label": ["a", "A "]})).distinct().count() == 1
    cases.check_labels(collated, ["text"])
    dotted = make(cases.answers().rename(columns={"model": "meta.model"}))
    cases.refused(errors.ArgumentError, "Rename first", lambda: er.mean(dotted, by="meta.model", groups="passage"))
    renamed = dotted.withColumnRenamed("meta.model", "model")
    cases.assert_numbers(er.mean(renamed, by="model"), er.mean(cases.answers(), by="model"))
    broken = make(cases.answers()).withColumn("score", functions.col("model").cast("double"))
    cases.refused(errors.EngineError, "did not finish a query", lambda: er.mean(broken))
    make(cases.answers()).write.parquet(f"{folder}/lost")
    lost = spark.read.parquet(f"{folder}/lost")
    shutil.rmtree(f"{folder}/lost")
    cases.refused(errors.EngineError, "did not", lambda: er.mean(lost))
    cached = make(cases.answers()).persist()
    er.mean(cached, groups="passage")
    assert cached.storageLevel.useMemory, "a frame of the caller is no longer cached"
    cached.unpersist()
    print("text under a collation, values that cannot be cast, files that are gone", flush=True)
    frame = cases.answers()
    frame["score"] = frame["score"].round(3)
    exact = functions.col("score").cast("decimal(10, 3)")
    data = make(frame).withColumn("exact", functions.when(~functions.isnan("score"), exact))
    found, expected = er.mean(data, "exact", groups="passage"), er.mean(frame, groups="passage")
    np.testing.assert_allclose(found.bse, expected.bse, rtol=cases.SAME)
    print("scores in decimals", flush=True)


def main() -> None:
    cases.prepare()
    spark = session(SparkSession.builder.master("local[2]").appName("evalreg"), sys.argv[1])
    assert maker(spark)(cases.answers()).rdd.getNumPartitions() == 4
    check(spark, sys.argv[1], "Spark, local mode")
    spark.stop()


if __name__ == "__main__":
    main()

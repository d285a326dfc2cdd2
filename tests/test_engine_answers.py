"""Comparisons of rows that stay in an engine: the numbers of pandas, two queries, and refusals that say what to do."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import pytest
from engines.cases import SAME
from engines.lazy import LAZY, in_duckdb, in_engines, in_one_engine, readable

import evalreg as er
from evalreg.errors import (
    AlignmentError,
    ArgumentTypeError,
    DataError,
    DuplicateRowsError,
    EmptyDataError,
    MissingLabelsError,
    NonFiniteError,
    NonNumericError,
    NotAvailableError,
    TooLargeError,
)

pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@pytest.fixture(scope="module")
def log():
    """Four models on 90 questions in 20 passages, two answers to each; some rows and values are missing."""
    rng = np.random.default_rng(5)
    home = np.sort(rng.integers(0, 20, 90))
    hard, frames = rng.normal(size=20)[home] + rng.normal(size=90), []
    for model, skill in (("ada", 0.0), ("bob", 0.5), ("cyd", -0.4), ("dan", 0.1)):
        latent = skill + hard[:, None] + rng.normal(size=(90, 2))
        columns = {
            "model": model,
            "question": np.repeat([f"q{i:02d}" for i in range(90)], 2),
            "attempt": np.tile([0, 1], 90),
            "passage": np.repeat([f"p{i}" for i in home], 2),
            "subject": np.repeat(np.where(home % 3 == 0, "law", "math"), 2),
            "author": np.repeat([f"a{i}" for i in rng.integers(0, 8, 90)], 2) if not frames else frames[0]["author"],
            "score": 1 / (1 + np.exp(-latent.ravel())),
            "right": (latent.ravel() > 0).astype(int),
        }
        frames.append(pd.DataFrame(columns))
    frame = pd.concat(frames, ignore_index=True)
    frame = frame[~((frame["model"] == "dan") & frame["question"].between("q10", "q24"))]
    frame = frame.sample(frac=1, random_state=3, ignore_index=True)
    a, b, c, d, e = frame.index[frame["attempt"] == 0][:5]
    for column, rows in {"score": [a, b], "right": [a, b], "passage": [b, c], "model": [d], "question": [e]}.items():
        frame[column] = frame[column].where(~frame.index.isin(rows), None if frame[column].dtype == object else np.nan)
    return frame


ROLES = {
    "answers averaged": {"sample": "attempt"},
    "clusters": {"sample": "attempt", "groups": "passage"},
    "of 0 and 1": {"score": "right", "groups": "passage", "baseline": "ada", "first": True},
    "CR1": {"groups": "passage", "cov": "CR1", "first": True},
    "crossed": {"sample": "attempt", "groups": "passage + author"},
    "joint": {"sample": "attempt", "groups": "subject:author", "cov": "CR3"},
    "strata": {"sample": "attempt", "groups": "passage", "strata": "subject"},
    "unpaired": {"sample": "attempt", "groups": "passage", "paired": False},
    "adjusted": {"sample": "attempt", "groups": "passage", "adjust": "single-step"},
    "what was seen": {"score": "right", "icc": None, "first": True},
    "benchmark": {"target": "the full benchmark", "n_population": 500, "first": True},
}


IN_MEMORY = {}  # comparisons of the log in pandas and what they tell, made once for all engines
# What is made of the same two queries as for others.
LIKE_OTHERS = ("CR1", "unpaired", "adjusted", "benchmark", "what was seen")


def _compared(data, **roles):
    return er.compare(data, roles.pop("score", "score"), item="question", **roles)


@pytest.mark.parametrize(
    ("engine", "roles"),
    [
        pytest.param(make, roles, id=f"{engine}-{name}", marks=[pytest.mark.slow] if slow else [])
        for engine, make in LAZY.items()
        for name, roles in ROLES.items()
        for slow in [engine == "duckdb" and name in LIKE_OTHERS]
    ],
)
def test_comparisons_are_those_of_pandas(log, engine, roles):
    roles = dict(roles)
    frame = log[log["attempt"] == 0].reset_index(drop=True) if roles.pop("first", False) else log
    asked = repr(roles)
    if asked not in IN_MEMORY:
        made = _compared(frame, **roles)
        IN_MEMORY[asked] = made, str(made.summary())
    found, (expected, told) = _compared(engine(frame), **roles), IN_MEMORY[asked]
    assert expected.results.dropped.sum() > 0
    pd.testing.assert_frame_equal(found.table, expected.table, rtol=SAME, atol=1e-14)
    np.testing.assert_allclose(found.results.cov_params(), expected.results.cov_params(), rtol=SAME, atol=1e-16)
    assert str(found.summary()) == told
    assert found.results.dropped.to_dict() == expected.results.dropped.to_dict()
    if roles.get("paired", True):
        pd.testing.assert_frame_equal(found.sign_test(), expected.sign_test(), rtol=1e-8)
    # Another clustering is asked of the engine as the first was: of some comparisons is enough.
    for groups in ("author", "subject:author") if "strata" in roles or "cov" in roles else ():
        other, same = (one.with_cov(groups=groups, cov="CR1").table for one in (found, expected))
        np.testing.assert_allclose(other["se"], same["se"], rtol=SAME)
    if "passage" not in roles.get("groups", ""):
        for one in (found, expected):
            with pytest.raises(MissingLabelsError, match='groups="passage"` must give an id to every row'):
                one.with_cov(groups="passage")


IDS = {
    "days": [datetime.date(2024, 1, 1 + i) for i in range(30)],
    "bytes": [bytes([255, i]) for i in range(30)],
    "single precision": [np.float32(i / 10) for i in range(30)],
}


@pytest.mark.parametrize("kind", IDS)
@in_engines
def test_models_and_questions_may_be_called_by_ids_of_any_kind(engine, kind):
    models, questions = ([IDS[kind][one] for one in codes] for codes in (np.arange(90) % 3, np.arange(90) // 3))
    scores = np.random.default_rng(1).normal(size=90)
    frame = pd.DataFrame({"score": scores, "question": questions, "model": models})
    baseline = str(IDS[kind][1])
    found, expected = (_compared(data, baseline=baseline) for data in (engine(frame), frame))
    assert str(found.summary()) == str(expected.summary())
    pd.testing.assert_frame_equal(found.table, expected.table, rtol=SAME)
    plain = frame.assign(question=np.arange(90) // 3, model=np.array(["a", "b", "c"])[np.arange(90) % 3])
    np.testing.assert_allclose(found.table["se"], _compared(plain, baseline="b").table["se"], rtol=SAME)
    # No row of it is gone.
    assert "no row is in use" not in str(expected.summary())


NESTED = {
    "lists": pl.Series([[i % 3, 0] for i in range(90)]),
    "lists with nulls": pl.Series([[i % 3, None] for i in range(90)]),
    "structures": pl.Series([{"of": i % 3, "in": "a"} for i in range(90)]),
}
LABELLED = {
    "mean": lambda data, name: er.mean(data, groups=name),
    "model": lambda data, name: er.mean(data, by=name),
    "compare": lambda data, name: er.compare(data, model="model", item=name),
    "ratio": lambda data, name: er.ratio(data, "score", "words", groups=name),
    "regression": lambda data, name: er.fit("score ~ model", data, groups=name),
    "board": lambda data, name: er.win_rate(data, left="model", right="other", score="score", groups=name),
}


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("name", LABELLED)
def test_lists_and_structures_are_no_labels(name, kind):
    """Under a rule of memory: one value a row, which can be a key."""
    scores, models = np.arange(90) % 2 * 1.0, np.array(["a", "b"])[np.arange(90) // 3 % 2]
    frame = pl.DataFrame({"score": scores, "model": models, "other": "c", "words": 2, "nested": NESTED[kind]})
    for data in (frame, frame.to_arrow(), frame.lazy(), readable(duckdb.from_arrow(frame.to_arrow()))):
        with pytest.raises(
            ArgumentTypeError, match=r"one value a row .*'nested' holds (List|Struct).*Make a column of text"
        ):
            LABELLED[name](data, "nested")


UNION = "UNION(number BIGINT, name VARCHAR)"
OF_SEVERAL = {
    "values of several types": f"CASE WHEN i < 9 THEN i::BIGINT::{UNION} ELSE ('p' || i % 3)::VARCHAR::{UNION} END",
    "maps": "MAP([i % 3], [1])",
}


@pytest.mark.parametrize("kind", OF_SEVERAL)
@pytest.mark.parametrize("name", [*LABELLED, "term"])
def test_values_of_several_types_and_maps_are_no_labels(name, kind):
    query = f"""SELECT (i % 2)::DOUBLE AS score, CASE WHEN i // 3 % 2 = 0 THEN 'a' ELSE 'b' END AS model, 'c' AS other,
        2 AS words, {OF_SEVERAL[kind]} AS nested FROM range(90) AS t(i)"""
    relation, call = duckdb.sql(query), LABELLED.get(name, lambda data, column: er.fit(f"score ~ {column}", data))
    for data in (relation, relation.to_arrow_table()):
        with pytest.raises(ArgumentTypeError, match=rf"one value a row .*'nested' holds {kind}.*Make a column of text"):
            call(data, "nested")
    with pytest.raises(NonNumericError, match="`score` must hold numbers; column 'nested' holds"):
        er.mean(relation.to_arrow_table(), "nested")


@pytest.mark.parametrize("lazy", [False, True])
def test_scores_that_are_lists_are_refused(lazy):
    frame = pl.DataFrame({"score": [[1.0], [0.0]], "passage": ["a", "b"]})
    for data in (frame.lazy(),) if lazy else (frame, frame.to_arrow(), frame.to_pandas()):
        with pytest.raises(NonNumericError, match="`score` must hold numbers; column 'score'"):
            er.mean(data, groups="passage")


@in_engines
def test_a_difference_is_the_paired_t_test_of_scipy(engine):
    from scipy import stats

    rng = np.random.default_rng(2)
    scores = rng.normal(size=(50, 2)) + rng.normal(size=(50, 1))
    frame = pd.DataFrame({"model": ["a", "b"] * 50, "item": np.repeat(np.arange(50), 2), "score": scores.ravel()})
    test = stats.ttest_rel(scores[:, 0], scores[:, 1])
    row = er.compare(engine(frame), baseline="b").table.loc[("a", "b")]
    np.testing.assert_allclose([row["p_value"], row["dof"]], [test.pvalue, test.df], rtol=SAME)
    interval = test.confidence_interval(0.95)
    np.testing.assert_allclose([row["lower"], row["upper"]], [interval.low, interval.high], rtol=SAME)


@in_one_engine
def test_a_comparison_is_two_queries_whatever_the_clusters(log, engine, collected):
    frame = log[log["attempt"] == 0].dropna().reset_index(drop=True)
    found = er.compare(engine(frame), item="question", groups="passage + author")
    found.summary()
    found.sign_test()
    found.with_cov(groups="passage", cov="CR1")
    # Models by reason of what is missing; a line for each model and question.
    assert len(collected) == 2
    assert collected == [4, len(frame)]
    found.with_cov(groups="subject").summary()
    assert len(collected) == 3


@in_one_engine
def test_repeated_answers_are_averaged_before_they_leave(log, engine, collected):
    complete = log.dropna()
    er.compare(engine(complete), item="question", sample="attempt", groups="passage")
    assert len(collected) == 2
    assert collected[1] == complete.groupby(["model", "question"]).ngroups


@in_one_engine
def test_bad_rows_are_refused_with_what_to_do(log, engine):
    first = log[log["attempt"] == 0].dropna().reset_index(drop=True)
    with pytest.raises(DuplicateRowsError, match=r"3 rows repeat .* Name the column of repeated answers in `sample`"):
        er.compare(engine(pd.concat([first, first.iloc[:3]])), item="question")
    copies = pd.concat([log, log.dropna().iloc[:2]])
    with pytest.raises(DuplicateRowsError, match=r"at least 2 rows repeat .* Remove the copies in the engine"):
        er.compare(engine(copies), item="question", sample="attempt")
    moved = first.assign(passage=first["passage"].where(first.index != 4, "elsewhere"))
    with pytest.raises(AlignmentError, match="'passage' must be the same for all answers"):
        er.compare(engine(moved), item="question", groups="passage")
    twice = log.dropna().reset_index(drop=True)
    twice = twice.assign(passage=twice["passage"].where(twice.index != 4, "elsewhere"))
    with pytest.raises(AlignmentError, match="differs within 1 of 'model' and 'question'"):
        er.compare(engine(twice), item="question", sample="attempt", groups="passage")
    roles = {"by": "model", "item": "question", "strata": "passage", "groups": "passage"}
    with pytest.raises(AlignmentError, match="'passage' must be the same in all of them; it differs within 1"):
        er.mean(engine(twice), sample="attempt", questions="shared", **roles)
    # Rows are repeats whatever their labels.
    answers = {"item": "question", "groups": "passage"}
    repeats = len(twice) - len(twice.drop_duplicates(["model", "question"]))
    with pytest.raises(DuplicateRowsError, match=f"; {repeats} rows repeat"):
        er.compare(engine(twice), **answers)
    with pytest.raises(AlignmentError, match="differs within 1 of 'model' and 'question'"):
        er.compare(engine(twice), item="question", sample="attempt").with_cov(groups="passage")
    with pytest.raises(NonFiniteError, match="holds infinities"):
        er.compare(engine(first.assign(score=first["score"].where(first.index != 2, np.inf))), item="question")
    gap = first.assign(passage=first["passage"].where(first.index != 2, None))
    with pytest.raises(NonFiniteError, match=r"1 of .* rows have no group"):
        er.compare(engine(gap), item="question", groups="passage", missing="raise")
    with pytest.raises(NonNumericError, match="must hold numbers"):
        er.compare(engine(first), "passage", item="question")
    with pytest.raises(EmptyDataError):
        er.compare(engine(first.assign(score=np.nan)), item="question")
    with pytest.raises(DataError, match="at least two models"):
        er.compare(engine(first[first["model"] == "ada"]), item="question")
    with pytest.raises(er.errors.ArgumentTypeError, match=r"must name columns here.*add the labels as a column"):
        er.compare(engine(first), item="question", groups=np.arange(len(first)))


@in_engines
def test_too_few_answers_are_told_of_the_model_and_the_question_as_in_memory(log, engine):
    frame = log.dropna().sort_values(["model", "question", "attempt"], ignore_index=True)
    frame = frame.drop(index=frame.index[(frame["model"] == "bob") & frame["question"].between("q20", "q21")][[0, 2]])
    frame = frame[frame.groupby(["model", "question"])["question"].transform("size").gt(1) | frame["model"].eq("bob")]
    roles = {"item": "question", "sample": "attempt", "k": 2, "by": ["subject", "model"], "groups": "passage"}
    said = []
    for data in (frame, engine(frame)):
        with pytest.raises(DataError, match=r'"(law|math):bob:q2') as refused:
            er.pass_at_k(data, "right", **roles)
        said.append(str(refused.value))
    assert said[0] == said[1]


@in_one_engine
def test_a_model_without_a_row_in_use_is_named(log, engine):
    first = log[log["attempt"] == 0].dropna().reset_index(drop=True)
    lost = first.assign(score=first["score"].where(first["model"] != "cyd"))
    for data in (lost, engine(lost)):
        assert 'Of "cyd" no row is in use' in str(er.compare(data, item="question").summary())


@in_one_engine
def test_what_does_not_fit_into_memory_is_refused(log, engine, monkeypatch):
    monkeypatch.setattr("evalreg.data.engine_answers.LINE", 2**45)
    first = log[log["attempt"] == 0].dropna()
    with pytest.raises(TooLargeError, match=rf"{len(first)} answers by model and question .* Compare fewer models"):
        er.compare(engine(first), item="question")
    with pytest.raises(TooLargeError, match="Compare fewer models"):
        er.compare(engine(log), item="question", sample="attempt")


def test_a_table_that_changed_in_its_engine_is_refused(log):
    in_duckdb(log)
    database = duckdb.connect()
    database.register("frame", log[log["attempt"] == 0].dropna())
    database.execute("CREATE TABLE log AS SELECT * FROM frame")
    found = er.compare(database.table("log"), item="question")
    database.execute("DELETE FROM log WHERE question = 'q01'")
    with pytest.raises(DataError, match="have changed since the comparison was made"):
        found.with_cov(groups="passage")


@pytest.mark.parametrize("absent", [(), ("duckdb",), ("duckdb", "polars")], ids=["duckdb", "polars", "neither"])
def test_datasets_of_pyarrow_are_read_by_an_engine(log, tmp_path, monkeypatch, absent):
    import importlib.util

    dataset = pytest.importorskip("pyarrow.dataset")
    in_duckdb(log)
    for i, part in enumerate(np.array_split(np.arange(len(log)), 3)):
        log.iloc[part].to_parquet(tmp_path / f"{i}.parquet", index=False)
    files, find = dataset.dataset(tmp_path), importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name in absent else find(name, *more))
    roles = {"item": "question", "sample": "attempt", "groups": "passage"}
    if len(absent) == 2:
        with pytest.raises(NotAvailableError, match=r"read by DuckDB or polars.*data.to_table\(columns="):
            er.compare(files, **roles)
        return
    np.testing.assert_allclose(er.compare(files, **roles).table["se"], er.compare(log, **roles).table["se"], rtol=SAME)
    found, expected = (er.mean(data, by="model", groups="passage") for data in (files, log))
    np.testing.assert_allclose(found.cov_params(), expected.cov_params(), rtol=SAME, atol=1e-16)
    assert found.dropped.to_dict() == expected.dropped.to_dict()


@in_one_engine
def test_a_mean_is_a_query_and_one_for_each_clustering(log, engine, collected):
    # Sums of cells and their squares, with how many rows are in use and why others are not; then each clustering.
    for groups, n_clusterings in (("passage", 1), ("passage + author", 3)):
        collected.clear()
        er.mean(engine(log), by="model", groups=groups).summary()
        assert len(collected) <= 2 * (1 + n_clusterings)


@in_engines
def test_answers_to_questions_that_not_all_answered_are_counted_not_their_averages(log, engine):
    roles = {"by": "model", "item": "question", "sample": "attempt", "groups": "passage", "questions": "shared"}
    found, expected = (er.mean(data, **roles) for data in (engine(log), log))
    assert found.dropped.to_dict() == expected.dropped.to_dict()
    assert found.dropped["unshared"] > 60


@in_engines
def test_averages_of_equal_answers_do_not_vary_by_their_rounding(engine):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"model": np.repeat(["a", "b"], 90), "question": np.tile(np.repeat(np.arange(30), 3), 2)})
    frame = frame.assign(sample=np.tile([0, 1, 2], 60), passage=frame["question"] // 3)
    frame = frame.assign(score=np.where(frame["model"] == "a", 0.7, rng.uniform(size=180)))
    frame = frame[rng.uniform(size=180) > 0.2].reset_index(drop=True)
    for data in (frame, engine(frame)):
        found = er.mean(data, by="model", item="question", sample="sample", groups="passage")
        assert found.bse["a"] == 0
        assert np.isnan(found.pvalues["a"])
        assert found.bse["b"] > 0.01
    duels = pd.DataFrame({"a": "ada", "b": rng.choice(list("xyz"), 200), "score": 0.7, "prompt": np.arange(200) % 12})
    for data in (duels, engine(duels)):
        assert (er.win_rate(data, left="a", right="b", score="score", groups="prompt").bse == 0).all()

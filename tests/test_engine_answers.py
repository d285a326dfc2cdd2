"""Comparisons of rows that stay in an engine: the numbers of pandas, two queries, and refusals that say what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from engines.cases import SAME
from engines.lazy import in_duckdb, in_engines, in_one_engine, readable

import evalreg as er
from evalreg.errors import ArgumentTypeError, DuplicateRowsError, NotAvailableError, TooLargeError

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
            ArgumentTypeError, match=r"one value a row .*'nested' holds (List|Struct).*Make text or numbers of it"
        ):
            LABELLED[name](data, "nested")


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
def test_what_does_not_fit_into_memory_is_refused(log, engine, monkeypatch):
    monkeypatch.setattr("evalreg.data.engine_rows.ANSWER_BYTES", 2**45)
    first = log[log["attempt"] == 0].dropna()
    with pytest.raises(TooLargeError, match=rf"{len(first)} answers by model and question .* Compare fewer models"):
        er.compare(engine(first), item="question")
    with pytest.raises(TooLargeError, match="Compare fewer models"):
        er.compare(engine(log), item="question", sample="attempt")


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


@in_engines
def test_copies_of_samples_are_counted_as_in_memory(log, engine):
    rows = log.dropna()
    rows = pd.concat([rows, rows, rows[rows["question"] == rows["question"].iloc[0]]], ignore_index=True)
    for data in (rows, engine(rows)):
        with pytest.raises(DuplicateRowsError) as error:
            er.compare(data, item="question", sample="attempt")
        assert error.value.count == rows.duplicated(["model", "question", "attempt"]).sum()

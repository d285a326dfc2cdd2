"""A path in the place of a frame: the table that the command line reads, and a refusal of everything else."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import FunctionType
from typing import Any

import pandas as pd
import pytest
from test_promptfoo_log import document, results

import evalreg as er
from evalreg.cli import main as cli
from evalreg.errors import ArgumentTypeError, EvalregError, LogFormatError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
# Models and clusters that a reader of CSV would take for numbers or for nothing.
MODELS, PASSAGES = {"new": "007", "old": "NA"}, "0{:02d}"


@pytest.fixture
def frame() -> pd.DataFrame:
    """Two models on questions in passages, all ids as text."""
    log = er.datasets.paired(n_passages=12, seed=1)
    return log.assign(
        model=log["model"].map(MODELS),
        passage=log["passage"].rank(method="dense").astype(int).map(PASSAGES.format),
        question=log["question"].astype(str),
    )


def written(frame: pd.DataFrame, folder: Path, kind: str) -> Path:
    path = folder / f"log.{kind}"
    if kind == "parquet":
        frame.to_parquet(path)
    elif kind == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_every_kind_of_table_gives_the_numbers_of_its_frame(frame, tmp_path, kind):
    path = written(frame, tmp_path, kind)
    by = {"by": "model", "item": "question", "groups": "passage"}
    for given in (path, str(path)):
        found = er.mean(given, **by)
        pd.testing.assert_frame_equal(found.to_frame(), er.mean(frame, **by).to_frame())
        assert sorted(found.params.index) == ["007", "NA"]
    pd.testing.assert_frame_equal(
        er.compare(data=path, item="question", groups="passage").table,
        er.compare(frame, item="question", groups="passage").table,
    )
    formula = "score ~ C(model)"
    pd.testing.assert_frame_equal(
        er.fit(formula, path, groups=["passage"]).to_frame(), er.fit(formula, frame, groups=["passage"]).to_frame()
    )
    # A condition on a column read as text compares text.
    found = er.mean(path, by="model", item="question", subset="model == '007'")
    assert list(found.params.index) == ["007"]


def test_pairs_and_plans_read_paths_too(tmp_path):
    log = er.datasets.judge_log(n_prompts=40, n_judges=4, seed=0)
    path = written(log, tmp_path, "csv")
    asked: dict[str, Any] = {"left": "left", "right": "right", "winner": "winner", "groups": "prompt"}
    for estimator in (er.win_rate, er.bradley_terry):
        pd.testing.assert_frame_equal(estimator(path, **asked).to_frame(), estimator(log, **asked).to_frame())
    scores = er.datasets.paired(n_passages=12, seed=1)
    path = written(scores, tmp_path, "parquet")
    pd.testing.assert_frame_equal(
        er.components(path, facets="model x question").table, er.components(scores, facets="model x question").table
    )


def test_a_path_is_read_as_the_command_line_reads_it(frame, tmp_path, capsys):
    path = written(frame, tmp_path, "csv")
    assert cli.main(["mean", str(path), "--by", "model", "--item", "question", "--format", "json"]) == 0
    there = json.loads(capsys.readouterr().out)["parameters"]
    here = er.mean(path, by="model", item="question")
    assert {row["parameter"]: row["estimate"] for row in there} == pytest.approx(here.params.to_dict())


def test_every_function_of_rows_takes_a_path_or_is_named():
    takers = [getattr(er, name) for name in er.__all__ if isinstance(getattr(er, name), FunctionType)]
    with_data = {f.__name__ for f in takers if "data" in inspect.signature(f).parameters}
    assert with_data >= {"mean", "compare", "fit", "win_rate", "quantile", "ratio", "noise", "summarise"}
    for f in takers:
        if f.__name__ in with_data - {"bootstrap", "by_eval", "from_influence"}:
            named = [p for p in inspect.signature(f).parameters.values() if p.default is p.empty and p.name != "data"]
            arguments = {p.name: "score ~ 1" if p.name == "formula" else "x" for p in named if p.kind != p.VAR_KEYWORD}
            with pytest.raises(EvalregError, match="no-such-file"):
                f(data="no-such-file.csv", **arguments)


def test_logs_of_harnesses_folders_and_sums_are_sent_to_their_readers(frame, tmp_path):
    log = document(tmp_path / "promptfoo.json", results())
    with pytest.raises(LogFormatError, match=r"a log of the format 'promptfoo'. Read it by er.read_log\("):
        er.mean(log)
    with pytest.raises(LogFormatError, match="is a folder"):
        er.mean(tmp_path)
    sums = tmp_path / "sums.parquet"
    er.summarise(frame, by="model", item="question", groups="passage", path=sums)
    with pytest.raises(LogFormatError, match=r"holds sums\. Read it by er\.merged\(\[.*\]\)\.") as refused:
        er.fit("score ~ 1", sums)
    call = str(refused.value).partition("Read it by er.")[2].rstrip(".")
    assert eval(f"er.{call}", {"er": er}).n_rows == len(frame)
    with pytest.raises(ArgumentTypeError, match="`data` must be a data frame"):
        er.mean("score ~ 1")


def test_patterns_are_sent_to_what_takes_several_files(frame, tmp_path):
    pytest.importorskip("pyarrow")
    by = {"by": "model", "groups": "passage"}
    odd = frame["passage"].isin(frame["passage"].unique()[::2])
    for i, part in enumerate((frame[odd], frame[~odd])):
        part.to_parquet(tmp_path / f"log{i}.parquet", index=False)
        part.to_csv(tmp_path / f"log{i}.csv", index=False)
        er.summarise(part, **by, path=tmp_path / f"sums{i}.parquet")
    rows, sums = str(tmp_path / "log?.parquet"), str(tmp_path / "sums*.parquet")
    with pytest.raises(LogFormatError, match=r"2 files match\. Read them by er\.read_log.*FROM '") as caught:
        er.mean(rows, **by)
    expected = er.mean(frame, **by).bse
    # Each piece of advice, done.
    advice = str(caught.value).split("Read them by ")[1]
    log = eval(advice.split(", or")[0], {"er": er})
    assert len(log.frame) == len(frame)
    duckdb = pytest.importorskip("duckdb")
    try:
        relation = eval(advice.split("there: ")[1].rstrip("."), {"duckdb": duckdb})
        pd.testing.assert_series_equal(er.mean(relation, **by).bse, expected, rtol=1e-10)
    except ModuleNotFoundError:
        pass  # of a narwhals that cannot read this DuckDB
    with pytest.raises(LogFormatError, match=r"2 files match, of sums. Read them by er.merged\(\[") as caught:
        er.mean(sums, **by)
    merged = eval(str(caught.value).split("Read them by ")[1].rstrip("."), {"er": er})
    pd.testing.assert_series_equal(er.mean(merged, **by).bse, expected, rtol=1e-10)
    with pytest.raises(LogFormatError, match=r"2 files match. Read them by er.read_log\('.*csv'\)\.$"):
        er.compare(tmp_path / "log*.csv", item="question")
    with pytest.raises(er.errors.ArgumentError, match=r"is a pattern, which 2 match\. er\.read_log takes"):
        er.read_table(rows)
    with pytest.raises(er.errors.ArgumentError, match="there is no"):
        er.mean(tmp_path / "other*.csv")


def test_sums_of_a_table_by_its_path_are_written_to_another(frame, tmp_path):
    log, sums = written(frame, tmp_path, "csv"), tmp_path / "sums.parquet"
    roles = {"by": "model", "item": "question", "groups": "passage"}
    for call in (
        lambda: er.summarise(log, **roles, path=sums),
        lambda: er.summarise(data=str(log), **roles, path=sums),
    ):
        sums.unlink(missing_ok=True)
        call()
        pd.testing.assert_frame_equal(er.merged([sums]).lines, er.summarise(frame, **roles).lines)


def test_paths_with_a_tilde_are_paths(frame, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    frame.to_csv(tmp_path / "log.csv", index=False)
    frame.to_csv(tmp_path / "log~1.csv", index=False)
    expected = er.mean(frame, by="model", item="question").params
    for path in ("~/log.csv", str(tmp_path / "log~1.csv"), tmp_path / "log~1.csv"):
        pd.testing.assert_series_equal(er.mean(path, by="model", item="question").params, expected)

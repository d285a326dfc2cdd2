"""Logs of lm-evaluation-harness: filters and metrics chosen, contents checked, and broken files refused."""

from __future__ import annotations

import gzip
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evalreg as er
from evalreg.errors import ArgumentError, LogFormatError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

TIME = "2025-06-01T10-20-30.123456"
N = 40


def line(doc: int, task: str, filter: str = "none", **scores: Any) -> dict[str, Any]:
    """A line with the keys that version 0.4 writes."""
    return {
        "doc_id": doc,
        "doc": {"question": f"{task} {doc}?", "passage": f"p{doc // 4}", "meta": {"level": doc % 3}, "options": ["a"]},
        "target": "1",
        "arguments": {"gen_args_0": {"arg_0": f"{task} {doc}?"}},
        "resps": [["lol"]],
        "filtered_resps": ["lol"],
        "filter": filter,
        "metrics": list(scores),
        "doc_hash": f"{doc:064x}",
        "prompt_hash": f"{doc + 7:064x}",
        "target_hash": "0" * 64,
        **scores,
    }


def write(
    folder: Path, lines: dict[str, list[dict[str, Any]]], model: str = "org/base", time: str = TIME, **more: Any
) -> Path:
    """The folder of one run: a samples file a task, and the results."""
    folder.mkdir(exist_ok=True)
    for task, rows in lines.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"samples_{task}_{time}.jsonl").write_text(text, encoding="utf-8")
    results = {
        "results": {task: {"alias": task} for task in lines},
        "configs": {task: {"metric_list": [{"metric": "f1", "aggregation": "f1"}]} for task in lines},
        "versions": dict.fromkeys(lines, 1.0),
        "n-shot": dict.fromkeys(lines, 0),
        "config": {"model": "hf", "model_args": f"pretrained={model}", "fewshot_seed": 1234},
        "model_source": "hf",
        "model_name": model,
        **more,
    }
    (folder / f"results_{time}.json").write_text(json.dumps(results, indent=2), encoding="utf-8")
    return folder


def one(task: str = "birds", seed: int = 1, **more: Any) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [line(doc, task, acc=float(rng.random() < 0.6), **more) for doc in range(N)]


def two_filters() -> list[dict[str, Any]]:
    rng = random.Random(3)
    return [
        line(doc, "sums", name, exact_match=float(rng.random() < share))
        for name, share in (("strict", 0.3), ("flexible", 0.7))
        for doc in range(N)
    ]


def test_a_results_folder_is_read_with_its_model_and_fields(tmp_path):
    log = er.read_log(write(tmp_path, {"birds": one()}))
    assert (log.format, log.roles, len(log.frame)) == ("lm_eval", ("model", "task", "item", "score"), N)
    assert set(log.frame["model"]) == {"org/base"}
    assert [name for name in log.frame if name.startswith("doc.")] == ["doc.passage", "doc.meta.level"]
    scores = np.array([row["acc"] for row in one()])
    np.testing.assert_allclose(log.mean().bse, scores.std(ddof=1) / math.sqrt(N), rtol=1e-12)
    assert log.mean(groups="doc.passage").n_clusters == {"doc.passage": N // 4}
    (run,) = log.runs
    assert (run.model, run.task, run.details["version"], run.details["time"]) == ("org/base", "birds", 1.0, TIME)


def test_two_filters_or_metrics_are_a_choice_and_the_advice_works(tmp_path):
    folder = write(tmp_path, {"sums": two_filters()})
    with pytest.raises(ArgumentError, match=r"'strict' \(40\).*'flexible' \(40\).*pass filter=.str"):
        er.read_log(folder)
    for name in ("strict", "flexible"):
        expected = np.mean([row["exact_match"] for row in two_filters() if row["filter"] == name])
        for asked in ({"filter": name}, {"metric": f"exact_match,{name}"}):
            log = er.read_log(folder, **asked)
            assert (len(log.frame), log.left_out.to_dict()) == (N, {})
            assert log.mean().params.iloc[0] == pytest.approx(expected)
    with pytest.raises(ArgumentError, match='Did you mean "strict"'):
        er.read_log(folder, filter="strickt")
    both = write(tmp_path / "two", {"birds": [row | {"metrics": ["acc", "acc_norm"], "acc_norm": 1} for row in one()]})
    assert er.read_log(both, metric="acc_norm").frame["score"].eq(1).all()


def test_the_metric_that_groups_are_reported_by_is_the_log_s_own(tmp_path):
    tasks = {name: [r | {"metrics": ["acc", "acc_norm"], "acc_norm": 1.0} for r in one(name)] for name in ("a", "b")}
    groups = {"group_subtasks": {"all": ["some"], "some": ["a", "b"]}, "groups": {"all": {"acc,none": 0.5}}}
    log = er.read_log(write(tmp_path, tasks, **groups))
    assert set(log.frame["metric"]) == {"acc"}
    assert 'Read: acc for "a", "b", as the log declares it.' in log.notes
    assert log.frame[["group", "subgroup"]].drop_duplicates().to_numpy().tolist() == [["all", "some"]]
    assert log.mean(by="group", strata="task").params.index.tolist() == ["all"]
    assert log.mean(by="group", groups="task").n_clusters == {"task": 2}


def test_a_group_s_error_is_that_of_strata_with_one_spread_for_all(tmp_path):
    """The harness pools variances by n - 1; strata keep each its own. Equal sizes: equal figures."""
    log = er.read_log(write(tmp_path, {"a": one("a", 1), "b": one("b", 2)}, group_subtasks={"g": ["a", "b"]}))
    ses = log.mean().bse.to_numpy()
    pooled = math.sqrt(sum((N - 1) * se**2 * N for se in ses) / (2 * N - 2) / (2 * N))
    np.testing.assert_allclose(log.mean(by="group", strata="task").bse, pooled, rtol=1e-12)


def test_values_that_are_no_scores_are_refused_by_name(tmp_path):
    folder = write(tmp_path, {"birds": one(f1=[1, 0])})
    (note,) = er.read_log(folder).notes
    assert note.startswith('Not read: "f1"')
    with pytest.raises(ArgumentError):
        er.read_log(folder, metric="f1")
    only = write(tmp_path / "only", {"birds": [line(doc, "birds", acc_all={"q": [1, 0]}) for doc in range(5)]})
    with pytest.raises(LogFormatError, match=r"'an object' \(5\)"):
        er.read_log(only)
    texts = [row | ({"acc": "1.0"} if row["doc_id"] < 2 else {}) for row in one()]
    folder = write(tmp_path / "text", {"birds": texts})
    with pytest.raises(LogFormatError):
        er.read_log(folder)
    assert er.read_log(folder, broken="skip").left_out.to_dict() == {"unparsed": 2}


def test_lines_that_occur_twice_are_counted_and_others_refused(tmp_path):
    rows = one()
    log = er.read_log(write(tmp_path, {"birds": rows + rows[:7]}))
    assert (len(log.frame), log.left_out.to_dict()) == (N, {"duplicate": 7})
    other = [rows[3] | {"acc": 1 - rows[3]["acc"]}]
    with pytest.raises(LogFormatError):
        er.read_log(write(tmp_path / "b", {"birds": rows + other}))
    nameless = [{k: v for k, v in row.items() if k not in ("filter", "metrics")} for row in two_filters()]
    with pytest.raises(LogFormatError):
        er.read_log(write(tmp_path / "old", {"sums": nameless}))


def test_the_harness_s_figures_are_kept_and_differences_told(tmp_path):
    figures = {"birds": {"alias": "birds", "acc,none": 0.25, "acc_stderr,none": 0.1}}
    log = er.read_log(write(tmp_path, {"birds": one()}, results=figures, **{"n-samples": {"birds": {"effective": 50}}}))
    assert log.runs[0].details["reported"] == {"acc,none": 0.25, "acc_stderr,none": 0.1}
    assert any("reports acc 0.25 for" in note for note in log.notes)
    assert any(note.startswith("The harness ran 50 documents") for note in log.notes)
    repeats = [row | {"resps": [["a", "b", "c"]]} for row in one()]
    (note,) = er.read_log(write(tmp_path / "b", {"birds": repeats})).notes
    assert "3 answers to each document" in note


def test_what_is_missing_or_broken_is_counted(tmp_path):
    rows = one()
    rows[1]["acc"], rows[2]["acc"] = None, math.nan
    folder = write(tmp_path, {"birds": rows})
    file = next(folder.glob("samples*"))
    assert er.read_log(folder).left_out.to_dict() == {"unscored": 2}
    whole = file.read_text(encoding="utf-8")
    file.write_text(whole[:-30], encoding="utf-8")
    with pytest.raises(LogFormatError, match=r"line 40 of .*cut off"):
        er.read_log(folder)
    assert er.read_log(folder, broken="skip").left_out.to_dict() == {"unscored": 2, "broken": 1}
    file.write_text(whole.replace('"doc_id": 5,', '"doc_id": 5, "doc_id": 6,'), encoding="utf-8")
    with pytest.raises(LogFormatError):
        er.read_log(folder)
    file.unlink()
    with gzip.open(f"{file}.gz", "wb") as packed:
        packed.write(b"\xef\xbb\xbf" + whole.encode())
    assert len(er.read_log(folder).frame) == N - 2

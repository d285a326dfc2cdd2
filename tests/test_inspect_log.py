"""Logs of Inspect, as its writer makes them: what is a score, what is none and why, and what is refused."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evalreg as er
from evalreg.errors import ArgumentError, EvalregError, LogFormatError
from evalreg.logs import inspect_log
from evalreg.logs.inspect_log import as_number

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


NUMBERS = {"C": 1, "I": 0, "P": 0.5, "N": 0, True: 1, False: 0, 3: 3, 0.25: 0.25, "yes": 1, "False": 0, "0.5": 0.5}
BROKEN: list[Any] = [None, 3, {}, {"id": None}, {"id": 1, "epoch": 0}, {"id": 1, "epoch": "1"}]
BROKEN += [{"id": 1, "epoch": 1, "scores": scores} for scores in ([1], {"match": 1}, {"match": {}})]


def summary(identity: Any, epoch: int = 1, scores: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """One sample as summaries hold it; `scores` from name to value."""
    held = {
        name: value if isinstance(value, dict) and "value" in value else {"value": value, "history": []}
        for name, value in (scores or {}).items()
    }
    base = {"id": identity, "epoch": epoch, "input": f"question {identity}", "target": "yes"}
    return {**base, "metadata": {"passage": f"p{identity}"}, "scores": held, "completed": True, **more}


def header(status: str = "success", results: Any = None, **spec: Any) -> dict[str, Any]:
    """What a log says of itself."""
    run = {
        "eval_id": "e1",
        "run_id": "r1",
        "task_id": "t1",
        "created": "2026-01-01",
        "task": "passages",
        "model": "m/one",
    }
    run |= {"task_version": 1, "task_args": {}, "dataset": {"sample_ids": None}, "config": {"epochs": 1}}
    return {"version": 2, "status": status, "eval": {**run, **spec}, "results": results, "stats": {}}


def accuracy(value: float, name: str = "match", scorer: str = "match", **more: Any) -> dict[str, Any]:
    metrics = {"accuracy": {"name": "accuracy", "value": value, "params": {}}}
    return {"name": name, "scorer": scorer, "metrics": metrics, **more}


def write_eval(path: Path, head: dict[str, Any], samples: list[Any], whole: list[Any] | None = None) -> Path:
    """A `.eval` log compressed with deflate."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", json.dumps({key: head[key] for key in ("version", "eval")}))
        for sample in whole or []:
            archive.writestr(f"samples/{sample['id']}_epoch_{sample['epoch']}.json", json.dumps(sample))
        archive.writestr("summaries.json", json.dumps(samples))
        archive.writestr("header.json", json.dumps(head))
    return path


def write_json(path: Path, head: dict[str, Any], samples: list[Any] | None) -> Path:
    path.write_text(json.dumps({**head, "samples": samples}))
    return path


def write_zstd(path: Path, members: dict[str, bytes]) -> Path:
    """A zip file of method 93, put together by hand, since Python's own writer does not know it before 3.14."""
    zstandard = pytest.importorskip("zstandard")
    parts, directory = b"", b""
    for name, data in members.items():
        packed = zstandard.compress(data)
        common = b"\x14\0\0\0\x5d\0\0\0\x21\x00" + zlib.crc32(data).to_bytes(4, "little")
        common += len(packed).to_bytes(4, "little") + len(data).to_bytes(4, "little")
        common += len(name).to_bytes(2, "little") + b"\0\0"
        directory += b"PK\x01\x02\x14\0" + common + b"\0" * 10 + len(parts).to_bytes(4, "little") + name.encode()
        parts += b"PK\x03\x04" + common + name.encode() + packed
    count = len(members).to_bytes(2, "little")
    end = b"PK\x05\x06\0\0\0\0" + count * 2 + len(directory).to_bytes(4, "little") + len(parts).to_bytes(4, "little")
    path.write_bytes(parts + directory + end + b"\0\0")
    return path


def scores_of(log: er.Log) -> list[float]:
    return [float(score) for score in log.frame["score"]]


@pytest.mark.parametrize(
    ("name", "scores", "left_out"),
    [
        ("2024-11-05T13-32-37-05-00_input-task_hxs4q9azL3ySGkjJirypKZ.eval", [1], {}),
        ("2025-02-11T15-17-00-05-00_popularity_dPiJifoWeEQBrfWsAopzWr.eval", [], {"unscored": 10}),
        ("2025-02-11T15-18-04-05-00_popularity_mj7khqpMM4GBCfVQozKgzB.eval", [0] * 2 + [1] * 8, {}),
        ("2025-05-12T20-28-13-04-00_no-samples.json", [], {}),
        ("2025-05-12T20-28-13-04-00_popularity.json", [0, 1, 1], {}),
        ("2025-05-12T20-28-26-04-00_security-guide.json", [1, 1, 1], {}),
        ("log_formats.eval", [0], {}),
        ("log_formats.json", [0], {}),
        ("log_read_sample.eval", [1], {}),
        ("log_streaming.eval", [0, 1, 1, 1], {}),
        ("mmlu-no-summary-choices.eval", [0], {}),
        ("mmlu-summary-choices.eval", [0], {}),
    ],
)
def test_real_logs_read_to_their_counts_and_to_the_figures_in_their_headers(shared, name, scores, left_out):
    log = er.read_log(shared / "data" / "original" / "inspect_ai" / name)
    assert (log.format, sorted(scores_of(log)), dict(log.left_out)) == ("inspect", scores, left_out)
    reported = log.runs[0].details["reported"]
    if scores:
        np.testing.assert_allclose(log.frame.groupby("item")["score"].mean().mean(), reported["accuracy"], rtol=1e-12)
        assert log.frame["sample"].min() == 1
    if len(scores) > 1 and log.frame["item"].nunique() > 1 and reported["stderr"] > 0:
        np.testing.assert_allclose(log.mean(cov="CR1").bse, reported["stderr"], rtol=1e-12)


@pytest.mark.parametrize(
    ("value", "number"),
    list(NUMBERS.items()) + [(value, None) for value in ("c", "maybe", "inf", "nan", "", [1], {}, math.inf, 10**400)],
)
def test_values_are_those_of_value_to_float_and_what_it_calls_zero_for_want_of_better_is_refused(value, number):
    assert as_number(value) == number


def test_both_files_of_a_log_read_alike(tmp_path):
    samples = [summary(i, k, {"match": "C" if i % 2 else "I"}) for i in range(1, 5) for k in (1, 2)]
    zipped = er.read_log(write_eval(tmp_path / "a.eval", header(), samples))
    plain = er.read_log(write_json(tmp_path / "a.json", header(), samples))
    assert zipped.frame.equals(plain.frame)
    assert list(zipped.frame.columns) == ["model", "task", "item", "sample", "score", "metadata.passage"]
    assert list(zipped.frame["sample"]) == [1, 2] * 4
    assert (zipped.frame["item"].iloc[0], zipped.frame["model"].iloc[0]) == ("1", "m/one")


def test_zstd_members_are_read(tmp_path):
    members = {"header.json": json.dumps(header()).encode()}
    members["summaries.json"] = json.dumps([summary(1, 1, {"match": "C"})]).encode()
    path = write_zstd(tmp_path / "a.eval", members)
    assert scores_of(er.read_log(path)) == [1.0]
    data = bytearray(path.read_bytes())
    data[len(b"header.json") + 40] ^= 0xFF
    (tmp_path / "b.eval").write_bytes(data)
    with pytest.raises(LogFormatError, match="damaged"):
        er.read_log(tmp_path / "b.eval")


def test_the_three_ways_of_having_no_score_are_told_apart(tmp_path):
    nan = float("nan")
    samples = [
        summary(1, 1, {"match": 1.0}),
        summary(2, 1, {"match": {"value": nan, "reason": "grader_failed"}}),
        summary(3, 1, {"match": {"value": nan}}),
        summary(4, 1, {}),
        summary(5, 1, {"match": {"value": None, "metadata": {"unscored_reason": "refusal"}}}),
        summary(6, 1, {"match": {"value": "I", "reason": "no_response"}}),
        summary(7, 1, {}, error="RuntimeError('no tool')"),
    ]
    log = er.read_log(write_eval(tmp_path / "a.eval", header(), samples))
    assert scores_of(log) == [1.0, 0.0]
    assert dict(log.left_out) == {"errored": 1, "unscored": 4}
    (unscored,) = [note for note in log.notes if "unscored" in note]
    for reason in ("1 grader_failed", "1 not a number (NaN)", "1 without a score", "1 refusal"):
        assert reason in unscored


def test_scores_before_an_error_are_read_by_the_rule_that_is_asked_for(tmp_path):
    samples = [summary(1, 1, {"match": "C"}), summary(2, 1, {"match": "I"})]
    samples += [summary(3, 1, {"match": "C"}, error="ValueError('grader down')"), summary(4, 1, {}, error="OSError()")]
    head = header(results={"scores": [accuracy(2 / 3)]})
    path = write_eval(tmp_path / "a.eval", head, samples)
    expected = {"drop": ([1, 0], 2), "keep": ([1, 0, 1], 1), "zero": ([1, 0, 0, 0], 0)}
    for failed, (scores, errored) in expected.items():
        log = er.read_log(path, failed=failed)
        assert (scores_of(log), log.left_out.get("errored", 0)) == (scores, errored)
        (note,) = log.notes
        assert "2 samples" in note
        assert '0.6667 with failed="keep", 0.5 with failed="drop", 0.25 with failed="zero"' in note
        assert 'reports is that of "keep"' in note
        assert f'This is failed="{failed}".' in note


def test_several_scorers_are_not_averaged_over(tmp_path):
    samples = [summary(i, 1, {"match": "C", "exact": "I"}) for i in (1, 2)]
    path = write_eval(tmp_path / "a.eval", header(), samples)
    assert scores_of(er.read_log(path, scorer="exact")) == [0.0, 0.0]
    unscored = write_eval(tmp_path / "c.eval", header(), [summary(1, 1, {"match": None, "exact": None})])
    assert er.read_log(unscored, scorer="exact").measures == {"passages": "exact"}
    with pytest.raises(ArgumentError, match=r"scorers of the log: 'match' \(0\), 'exact' \(0\)"):
        er.read_log(unscored, scorer="exakt")
    declared = write_eval(tmp_path / "b.eval", header(headline_metric={"scorer": "match"}), samples)
    log = er.read_log(declared)
    assert scores_of(log) == [1.0, 1.0]
    assert "declares" in log.notes[0]


def test_entries_of_a_score_are_not_averaged_over_and_nan_among_them_stays_missing(tmp_path):
    values = [{"a": 1, "b": 0.5}, {"a": 0, "b": float("nan")}, {"a": 1}]
    samples = [summary(i, 1, {"parts": {"value": value}, "match": "C"}) for i, value in enumerate(values, 1)]
    path = write_eval(tmp_path / "a.eval", header(), samples)
    with pytest.raises(ArgumentError, match="scorer='match' and metric='a' are of no score together"):
        er.read_log(path, scorer="match", metric="a")
    assert scores_of(er.read_log(path, metric="a")) == [1, 0, 1]
    log = er.read_log(path, metric="b")
    assert (scores_of(log), dict(log.left_out)) == ([0.5], {"unscored": 2})
    single = write_eval(tmp_path / "b.eval", header(), [summary(1, 1, {"match": "C"})])
    for log_path, metric in ((path, "c"), (single, "accuracy")):
        with pytest.raises(ArgumentError):
            er.read_log(log_path, metric=metric)


def test_edits_by_hand_are_counted_and_the_latest_value_read(tmp_path):
    edited = {"value": "C", "history": [{"value": "I"}, {"value": "C", "provenance": {"author": "me"}}]}
    whole = [{**summary(1, 1, {"match": edited}), "messages": []}, summary(2, 1, {"match": "I"})]
    for path in (
        write_eval(tmp_path / "a.eval", header(), [summary(1, 1, {"match": "C"}), whole[1]], whole),
        write_json(tmp_path / "a.json", header(), whole),
    ):
        log = er.read_log(path)
        assert (scores_of(log), log.runs[0].details["edited"]) == ([1.0, 0.0], 1)
        assert "edited by hand" in log.notes[0]


def test_runs_that_ended_early_say_what_is_missing(tmp_path):
    spec = {"dataset": {"sample_ids": [1, 2, 3]}, "config": {"epochs": 2}}
    cancelled = summary(2, 1, {}, error="CancelledError('Cancelled via cancel scope')")
    path = write_eval(tmp_path / "a.eval", header("cancelled", **spec), [summary(1, 1, {"match": "C"}), cancelled])
    log = er.read_log(path, failed="zero")
    assert (scores_of(log), dict(log.left_out)) == ([1.0], {"cancelled": 5})
    assert "status 'cancelled': 2 of 6" in log.notes[0]
    with zipfile.ZipFile(tmp_path / "b.eval", "w") as archive:
        archive.writestr("_journal/start.json", json.dumps({"version": 2, "eval": header(**spec)["eval"]}))
        for part, result in ((10, "C"), (2, "I")):
            archive.writestr(f"_journal/summaries/{part}.json", json.dumps([summary(1, 1, {"match": result})]))
    log = er.read_log(tmp_path / "b.eval")
    assert (scores_of(log), log.left_out["duplicate"], log.runs[0].details["status"]) == ([1.0], 1, "started")


def test_older_versions_keep_metadata_and_errors_in_whole_samples_alone(tmp_path):
    full = [summary(1, 1, {"match": "C"}), summary(2, 1, {"match": "C"}, error={"message": "OSError()"})]
    for sample in full:
        del sample["completed"]
    short = [{key: sample[key] for key in ("id", "epoch", "input", "target", "scores")} for sample in full]
    log = er.read_log(write_eval(tmp_path / "a.eval", header(), short, full))
    assert (list(log.frame["metadata.passage"]), dict(log.left_out)) == (["p1"], {"errored": 1})


def test_fields_cut_short_in_summaries_are_read_from_the_samples_or_left_out(tmp_path):
    removed = "Key removed from summary (> 1k)"
    full = [summary(i, 1, {"match": "C"}, metadata={"text": f"{i}" * 2000}, store={"n": i}) for i in (1, 2)]
    short = [summary(i, 1, {"match": "C"}, metadata={"text": removed}) for i in (1, 2)]
    path = write_eval(tmp_path / "a.eval", header(), short, full)
    assert "metadata.text" not in er.read_log(path).frame
    found = er.read_log(path, columns=["metadata.text", "store.n"]).frame
    assert list(found["metadata.text"]) == ["1" * 2000, "2" * 2000]
    assert list(found["store.n"]) == [1, 2]


def test_runs_of_one_model_are_kept_apart_by_what_differs(tmp_path):
    samples = [summary(i, 1, {"match": "C"}) for i in (1, 2)]
    write_eval(tmp_path / "a.eval", header(task_args={"cot": True, "n": 3}), samples)
    write_eval(tmp_path / "b.eval", header(eval_id="e2", task_args={"cot": False, "n": 3}), samples)
    assert set(er.read_log(tmp_path).frame["model"]) == {"m/one (cot=true)", "m/one (cot=false)"}


def test_members_outside_the_log_and_members_too_large_are_refused(tmp_path, monkeypatch):
    path = write_eval(tmp_path / "a.eval", header(), [summary(1, 1, {"match": "C"})])
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("../escape.json", "{}")
    with pytest.raises(LogFormatError, match="stay inside"):
        er.read_log(path)
    monkeypatch.setattr(inspect_log, "LIMIT", 1 << 20)
    large = write_eval(tmp_path / "b.eval", header(), [summary(1, 1, {"match": "C"}, note="x" * (2 << 20))])
    assert large.stat().st_size < 10_000
    with pytest.raises(LogFormatError, match="may expand to 1 MB"):
        er.read_log(large)
    with pytest.raises(LogFormatError):
        er.read_log(write_json(tmp_path / "c.json", header(), [{"x": "x" * (2 << 20)}]))


def mutations(value: Any) -> Any:
    """The JSON value with each of its parts removed, or turned into something else."""
    if isinstance(value, dict):
        for key, held in value.items():
            rest = {other: value[other] for other in value if other != key}
            yield rest
            for new in (None, 7, "\ud800", [], {"a": {"a": 1}}, [[1]], 1e308, True):
                yield {**rest, key: new}
            for new in mutations(held):
                yield {**value, key: new}
    elif isinstance(value, list) and value:
        for new in mutations(value[0]):
            yield [new, *value[1:]]


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_whatever_the_bytes_are_the_errors_are_evalregs_own(tmp_path, every):
    head = header(results={"total_samples": 2, "scores": [accuracy(1.0)]}, model_roles={"grader": {"model": "g"}})
    samples = [summary(1, 1, {"match": "C"}), summary(2, 1, {"match": {"value": {"a": 1}}}, error="E()")]
    text = json.dumps({**head, "samples": samples})
    path = tmp_path / "a.json"

    def reads() -> None:
        for broken in ("raise", "skip"):
            with contextlib.suppress(EvalregError):
                assert len(er.read_log(path, format="inspect", broken=broken, failed="keep").frame) <= 2

    for changed in itertools.islice(mutations(json.loads(text)), 0, None, every):
        path.write_text(json.dumps(changed))
        reads()
    for length in range(0, len(text), 67 * every):
        path.write_text(text[:length])
        reads()
    path = write_eval(tmp_path / "b.eval", head, samples, samples)
    data = path.read_bytes()
    for place in range(0, len(data), 23 * every):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        reads()
        path.write_bytes(data[:place])
        reads()


def test_points_of_one_task_are_not_averaged_with_shares_of_another(tmp_path):
    for task, scorer, values in (("law", "match", "CI"), ("maths", "grade", (7, 9)), ("art", "choice", "IC")):
        samples = [summary(f"q{i}", 1, {scorer: values[i % 2]}) for i in range(6)]
        for model in ("m/one", "m/two"):
            write_eval(
                tmp_path / f"{task}-{model[2:]}.eval", header(task=task, model=model, eval_id=task + model), samples
            )
    log = er.read_log(tmp_path)
    for ask in (log.compare, lambda: log.mean(by="model")):
        with pytest.raises(er.errors.NotAvailableError, match=r'match of "law" \(12 scores\).*grade of "maths"'):
            ask()
    assert len(log.mean(by=["model", "task"]).params) == 6
    assert len(log.compare(subset='task in ["law", "art"]').table) == 1


def test_a_scorer_that_did_not_score_a_sample_wrote_no_nan(tmp_path):
    samples = [summary(f"q{i}", 1, {"match": "C", **({"grade": 0.5} if i < 4 else {})}) for i in range(9)]
    log = er.read_log(write_eval(tmp_path / "a.eval", header(), samples), scorer="grade")
    assert any(note.endswith("unscored: 5 without a score.") for note in log.notes)
    assert log.left_out.to_dict() == {"unscored": 5}


def test_doctor_weighs_questions_of_unequal_answers_alike(tmp_path):
    samples = [summary(f"q{i}", epoch, {"match": "CI"[i % 2]}) for i in range(6) for epoch in range(1, 2 + i % 2)]
    diagnosis = er.read_log(write_eval(tmp_path / "a.eval", header(), samples)).doctor()
    assert diagnosis.models["mean"].tolist() == [0.5]
    assert not any("fit(" in command for command in diagnosis.commands)

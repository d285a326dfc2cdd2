"""Logs of OpenAI evals: events of samples, scores that are chosen, grades that could not be read."""

from __future__ import annotations

import json

import numpy as np
import pytest

import evalreg as er
from evalreg.errors import LogFormatError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

N = 20


def event(number, sample, kind, data):
    return {"run_id": "r", "event_id": number, "sample_id": sample, "type": kind, "data": data, "created_by": ""}


def log_lines(*, model="org/a", seed=1, report=True, run="240101AAAA"):
    """A run of matches, as evals' recorder writes it (held against the recorder itself in tests/harnesses)."""
    rng = np.random.default_rng(seed)
    spec = {"completion_fns": [model], "eval_name": "quiz.dev.v0", "base_eval": "quiz", "split": "dev", "run_id": run}
    lines = [{"spec": spec | {"run_config": {"seed": 1}, "created_by": "", "created_at": "2024-01-01"}}]
    right = rng.integers(2, size=N).astype(bool).tolist()
    for i in rng.permutation(N).tolist():
        sample = f"quiz.dev.{i}"
        lines.append(event(len(lines), sample, "raw_sample", {"input": "x" * 300, "passage": f"p{i // 4}"}))
        lines.append(event(len(lines), sample, "sampling", {"prompt": f"q{i}", "sampled": ["a"]}))
        lines.append(event(len(lines), sample, "match", {"correct": right[i], "expected": "a", "picked": "a"}))
    return lines + ([{"final_report": {"accuracy": float(np.mean(right))}, "run_id": run}] if report else [])


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_matches_read_to_the_final_report(tmp_path):
    log = er.read_log(write(tmp_path / "a.jsonl", log_lines()))
    assert (log.format, log.roles, len(log.frame)) == ("openai_evals", ("model", "task", "item", "score"), N)
    run = log.runs[0]
    assert (run.model, run.task, run.id, run.details["seed"]) == ("org/a", "quiz.dev.v0", "240101AAAA", 1)
    assert log.mean(groups="passage").params.iloc[0] == pytest.approx(run.details["reported"]["accuracy"])
    assert log.frame["sample.passage"].nunique() == 5
    assert "sample.input" not in log.frame
    assert not log.notes


def test_two_scores_that_agree_throughout_are_one(tmp_path):
    lines = log_lines(report=False)
    matches = [(line["sample_id"], line["data"]["correct"]) for line in lines[1:] if line["type"] == "match"]
    same = [event(1000 + k, item, "metrics", {"accuracy": float(c)}) for k, (item, c) in enumerate(matches)]
    assert len(er.read_log(write(tmp_path / "same.jsonl", [*lines, *same])).frame) == N


def test_what_is_no_score_is_counted_by_reason(tmp_path):
    lines = log_lines()
    of = {i: [line for line in lines if line.get("sample_id") == f"quiz.dev.{i}"][-1] for i in range(3)}
    lines.remove(of[0])
    lines.remove(of[1])
    lines.insert(-1, event(1000, "quiz.dev.1", "error", {"type": "ValueError", "message": "too long"}))
    lines.append(of[2])
    path = write(tmp_path / "a.jsonl", lines)
    log = er.read_log(path)
    assert log.left_out.to_dict() == {"errored": 1, "unscored": 1, "duplicate": 1}
    assert len(log.frame) == N - 2
    assert er.read_log(path, failed="zero").frame.set_index("item").loc["quiz.dev.1", "score"] == 0


def test_grades_that_could_not_be_read_are_no_scores_and_kept_they_give_the_report(tmp_path):
    lines = log_lines(report=False)[:1]
    scores = {"A": 1.0, "B": 0.5, "__invalid__": 0.0}
    choices = ["A", "B", "__invalid__", "A", "B", "B"]
    for i, choice in enumerate(choices):
        lines.append(event(i, f"quiz.dev.{i}", "metrics", {"choice": choice, "score": scores[choice]}))
    own = float(np.mean([scores[choice] for choice in choices]))
    path = write(tmp_path / "a.jsonl", [*lines, {"final_report": {"score": own}}])
    log = er.read_log(path)
    assert log.left_out.to_dict() == {"unparsed": 1}
    assert '0.5833 with failed="keep"' in log.notes[0]
    kept = er.read_log(path, failed="keep")
    assert kept.mean().params.iloc[0] == pytest.approx(own) == pytest.approx(kept.runs[0].details["reported"]["score"])


def test_a_second_run_in_one_file_is_refused(tmp_path):
    with pytest.raises(LogFormatError, match=r"line 63 of .* begins another"):
        er.read_log(write(tmp_path / "a.jsonl", [*log_lines(), *log_lines(seed=2)]))

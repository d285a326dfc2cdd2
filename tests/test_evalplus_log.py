"""Results of EvalPlus and BigCodeBench: solutions are samples, base and plus tests two metrics."""

from __future__ import annotations

import json

import pytest

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# Of each task, base and plus of its solutions: plus without base is no pass.
TASKS = {
    "HumanEval/0": [("pass", "pass"), ("pass", "fail")],
    "HumanEval/1": [("fail", "pass"), ("timeout", "fail")],
    "HumanEval/2": [("pass", "pass"), ("pass", "pass")],
}
BASE, PLUS = (1 + 0 + 1) / 3, (0.5 + 0 + 1) / 3


def results(path, layout="present"):
    if layout == "present":
        tasks = {
            task: [{"task_id": task, "solution": "...", "base_status": b, "plus_status": p} for b, p in solutions]
            for task, solutions in TASKS.items()
        }
    else:
        tasks = {
            task: [{"solution": "...", "status": b, "details": {}} for b, _ in both] for task, both in TASKS.items()
        }
    path.write_text(
        json.dumps({"date": "2026-01-01", "hash": "x", "eval": tasks, "pass_at_k": {"base": {"pass@1": BASE}}})
    )
    return path


def test_base_and_plus_are_pass_at_1(tmp_path):
    path = results(tmp_path / "model_temp_0.8_eval_results.json")
    log = er.read_log(path, metric="base")
    assert (log.format, log.runs[0].model) == ("evalplus", "model_temp_0.8")
    assert log.mean().params.iloc[0] == pytest.approx(log.runs[0].details["reported"]["base"]["pass@1"])
    assert er.read_log(path, metric="plus").mean().params.iloc[0] == pytest.approx(PLUS)
    assert log.frame["sample"].tolist() == [1, 2] * 3


def test_bigcodebench_has_one_kind_of_tests(tmp_path):
    (tmp_path / "model").mkdir()
    log = er.read_log(results(tmp_path / "model" / "eval_results.json", "bigcodebench"))
    assert (log.runs[0].model, log.mean().params.iloc[0]) == ("model", pytest.approx(BASE))


def test_two_models_are_compared(tmp_path):
    results(tmp_path / "a_eval_results.json")
    results(tmp_path / "b_eval_results.json")
    assert er.read_log(tmp_path, metric="plus").compare().table["n"].iloc[0] == 3

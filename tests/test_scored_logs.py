"""Reports of pydantic-evals and test runs of DeepEval: one of several scores is chosen, errors are counted."""

from __future__ import annotations

import json

import pytest

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def result(name, value, source="Graded"):
    return {"name": name, "value": value, "reason": None, "source": {"name": source, "arguments": None}}


def evals_case(number, close, right, run=None, **more):
    """A case; without `close` the evaluator Graded failed."""
    name = f"q{number}"
    graded = close is not None
    return {
        "name": name if run is None else f"{name} [{run}/2]",
        "inputs": {"text": f"question {number}"},
        "metadata": {"passage": f"p{number // 2}", "deep": {"level": number % 2}},
        "expected_output": "yes",
        "output": "no",
        "metrics": {},
        "attributes": {},
        "scores": {"closeness": result("closeness", close)} if graded else {},
        "labels": {"tone": result("tone", "kind")} if graded else {},
        "assertions": {"equal": result("equal", right, "Equals")},
        "task_duration": 0.1,
        "total_duration": 0.2,
        "source_case_name": None if run is None else name,
        "evaluator_failures": [] if graded else [{"name": "Graded", "error_message": "", "source": {"name": "Graded"}}],
    } | more


def evals_report(path, cases, failures=(), name="answer"):
    whole = {"name": name, "cases": list(cases), "failures": list(failures)}
    whole |= {"analyses": [{"type": "scalar", "title": "F1", "value": 0.5}], "experiment_metadata": None}
    path.write_text(json.dumps(whole))
    return path


def failure(number, run=None):
    case = evals_case(number, 0.0, True, run)
    kept = ("name", "inputs", "metadata", "expected_output", "source_case_name")
    return {key: case[key] for key in kept} | {"error_message": "RuntimeError", "error_stacktrace": "..."}


def case_of_deepeval(number, scores, name=None, **more):
    """A test case of DeepEval; a score of None is a metric that ended in error."""
    metrics = [
        {"name": metric, "threshold": 0.5, "success": score is not None and score >= 0.5, "flaky": False}
        | ({"error": "ValueError"} if score is None else {"score": score})
        for metric, score in scores.items()
    ]
    passed = all(metric["success"] for metric in metrics)
    found = {"name": name or f"test_case_{number}", "input": f"question {number}", "expectedOutput": "yes"}
    return (
        found
        | {"flaky": False, "success": passed, "metricsData": metrics, "metadata": {"passage": f"p{number // 2}"}}
        | more
    )


def deepeval_run(path, cases, model=None):
    whole = {"testCases": cases, "conversationalTestCases": [], "runDuration": 1.0, "official": False}
    names = dict.fromkeys(metric["name"] for case in cases for metric in case["metricsData"])
    whole["metricsScores"] = [{"metric": name, "scores": [], "passes": 1, "fails": 1, "errors": 0} for name in names]
    whole |= {"testPassed": sum(case["success"] for case in cases), "testFailed": 1}
    path.write_text(json.dumps(whole | ({"hyperparameters": {"model": model}} if model else {})))
    return path


# pydantic-evals


@pytest.fixture
def report(tmp_path):
    """Six cases, of which an evaluator failed in one and the task in another."""
    cases = [evals_case(i, 0.25 * i if i != 3 else None, i % 2 == 0) for i in range(5)]
    return evals_report(tmp_path / "report.json", cases, [failure(5)])


def test_what_is_no_score_in_a_report_is_counted(report):
    log = er.read_log(report, metric="closeness")
    assert (log.format, log.runs[0].model, log.runs[0].details["reported"]) == ("pydantic_evals", "answer", {"F1": 0.5})
    assert log.left_out.to_dict() == {"errored": 2}
    assert dict(zip(log.frame["item"], log.frame["score"], strict=True)) == {"q0": 0, "q1": 0.25, "q2": 0.5, "q4": 1}
    assert log.frame["metadata.deep.level"].tolist() == [0, 1, 0, 0]
    assert er.read_log(report, metric="equal").mean().params.iloc[0] == pytest.approx(3 / 5)
    assert er.read_log(report, metric="equal", failed="zero").mean().params.iloc[0] == pytest.approx(3 / 6)


def test_a_score_that_nobody_gave_or_that_is_no_number_is_unscored(tmp_path):
    cases = [evals_case(i, 0.5, True) for i in range(4)]
    cases[1]["scores"] = {}
    cases[2]["scores"]["closeness"]["value"] = None  # pydantic writes NaN so
    log = er.read_log(evals_report(tmp_path / "r.json", cases), metric="closeness")
    assert log.left_out.to_dict() == {"unscored": 2}


def test_runs_of_a_case_are_samples_and_averaged_first(tmp_path):
    cases = [evals_case(0, 1.0, True, 1), evals_case(0, 0.0, False, 2), evals_case(1, 1.0, True, 2)]
    log = er.read_log(evals_report(tmp_path / "r.json", cases, [failure(1, 1)]), metric="closeness")
    rows = log.frame[["item", "sample", "score"]].to_numpy().tolist()
    assert rows == [["q0", 1, 1.0], ["q0", 2, 0.0], ["q1", 2, 1.0]]
    # The report's averages are those of the means of the cases.
    assert log.mean().params.iloc[0] == pytest.approx((0.5 + 1) / 2)
    assert log.left_out.to_dict() == {"errored": 1}


def test_a_score_and_an_assertion_of_one_name_are_told_apart(tmp_path):
    cases = [evals_case(i, 0.5, True) for i in range(3)]
    for case in cases:
        case["assertions"]["closeness"] = result("closeness", False)
    path = evals_report(tmp_path / "r.json", cases)
    assert er.read_log(path, metric="assertions.closeness").frame["score"].sum() == 0


def test_two_reports_of_one_name_are_two_models_and_questions_that_changed_do_not_meet(tmp_path):
    cases = [evals_case(i, 0.5, True) for i in range(4)]
    evals_report(tmp_path / "a.json", cases)
    changed = [cases[0] | {"inputs": {"text": "another question"}}, *cases[1:]]
    evals_report(tmp_path / "b.json", changed)
    log = er.read_log(tmp_path, metric="closeness")
    assert set(log.frame["model"]) == {"answer (a)", "answer (b)"}
    assert "Several files are runs of 'answer'" in log.notes[0]
    assert (log.frame.groupby("item")["model"].nunique() == 2).sum() == 3
    evals_report(tmp_path / "b.json", cases, name="other")
    assert set(er.read_log(tmp_path, metric="closeness").frame["model"]) == {"answer", "other"}


# DeepEval

SCORES = [{"early": a, "late": b} for a, b in ((0.0, 0.5), (0.4, 0.9), (0.9, None), (0.6, 0.6))]


@pytest.fixture
def run_of_deepeval(tmp_path):
    return deepeval_run(tmp_path / "test_run_1.json", [case_of_deepeval(i, one) for i, one in enumerate(SCORES)], "m-1")


def test_a_metric_of_a_test_run_in_error_is_no_score(run_of_deepeval):
    log = er.read_log(run_of_deepeval, metric="late")
    assert (log.format, log.runs[0].model, log.left_out.to_dict()) == ("deepeval", "m-1", {"errored": 1})
    assert log.frame["score"].tolist() == [0.5, 0.9, 0.6]
    assert log.frame["item"].tolist() == ["question 0", "question 1", "question 3"]
    assert er.read_log(run_of_deepeval, metric="late.success").frame["score"].tolist() == [1, 1, 1]
    assert er.read_log(run_of_deepeval, metric="late", failed="zero").frame["score"].tolist() == [0.5, 0.9, 0, 0.6]


def test_the_pass_rate_of_deepeval_counts_errors_as_failures(run_of_deepeval):
    own = er.read_log(run_of_deepeval, metric="success").runs[0].details["reported"]["testPassed"] / len(SCORES)
    kept = er.read_log(run_of_deepeval, metric="success", failed="keep")
    assert kept.mean().params.iloc[0] == pytest.approx(own)
    log = er.read_log(run_of_deepeval, metric="success")
    assert "1 sample of" in log.notes[0]
    assert log.mean().params.iloc[0] == pytest.approx(1 / 3)


def test_a_flaky_metric_in_error_does_not_spoil_the_case(tmp_path):
    cases = [case_of_deepeval(i, one) for i, one in enumerate(SCORES)]
    cases[2]["metricsData"][1]["flaky"] = True
    cases[2]["success"] = True
    log = er.read_log(deepeval_run(tmp_path / "r.json", cases), metric="success")
    assert (len(log.frame), log.frame["score"].sum()) == (4, 2)


def test_conversations_and_the_latest_run_are_read(tmp_path):
    path = deepeval_run(tmp_path / "r.json", [])
    whole = json.loads(path.read_text())
    whole["conversationalTestCases"] = [
        {"name": f"conversational_test_case_{i}", "success": bool(i), "scenario": f"s{i}", "turns": []}
        | {"metricsData": [{"name": "kept", "success": bool(i), "score": float(i)}]}
        for i in range(2)
    ]
    path.write_text(json.dumps({"testRunData": whole}))
    assert er.read_log(path).frame["item"].tolist() == ["s0", "s1"]

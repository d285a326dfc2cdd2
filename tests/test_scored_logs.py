"""Reports of pydantic-evals and test runs of DeepEval: one of several scores is chosen, errors are counted."""

from __future__ import annotations

import json

import pytest

import evalreg as er
from evalreg.cli.main import main
from evalreg.errors import ArgumentError, LogFormatError, MissingColumnError

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


def test_a_score_or_an_assertion_of_a_report_is_chosen_from_a_list_with_counts(report):
    with pytest.raises(ArgumentError):
        er.read_log(report)
    with pytest.raises(ArgumentError):
        er.read_log(report, metric="tone")
    with pytest.raises(ArgumentError, match="one of the scores of the log"):
        er.read_log(report, metric="none")


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
    with pytest.raises(ArgumentError):
        er.read_log(path)
    assert er.read_log(path, metric="assertions.closeness").frame["score"].sum() == 0


def test_two_reports_of_one_name_are_two_models_and_questions_that_changed_do_not_meet(tmp_path):
    cases = [evals_case(i, 0.5, True) for i in range(4)]
    evals_report(tmp_path / "a.json", cases)
    changed = [cases[0] | {"inputs": {"text": "another question"}}, *cases[1:]]
    evals_report(tmp_path / "b.json", changed)
    log = er.read_log(tmp_path, metric="closeness")
    assert set(log.frame["model"]) == {"answer (a)", "answer (b)"}
    assert "Several files are runs of 'answer'" in log.notes[0]
    shared = log.frame.groupby("item")["model"].nunique()
    assert (shared == 2).sum() == 3
    evals_report(tmp_path / "b.json", cases, name="other")
    assert set(er.read_log(tmp_path, metric="closeness").frame["model"]) == {"answer", "other"}


def test_a_case_that_occurs_twice_without_a_number_is_refused(tmp_path):
    path = evals_report(tmp_path / "r.json", [evals_case(0, 0.5, True), evals_case(0, 0.7, True)])
    with pytest.raises(LogFormatError):
        er.read_log(path, metric="closeness")


def test_a_broken_case_is_named_or_counted(tmp_path):
    cases = [evals_case(i, 0.5, True) for i in range(3)]
    cases[1]["scores"]["closeness"]["value"] = "much"
    path = evals_report(tmp_path / "r.json", cases)
    with pytest.raises(LogFormatError):
        er.read_log(path, metric="closeness")
    log = er.read_log(path, metric="closeness", broken="skip")
    assert (len(log.frame), log.left_out.to_dict()) == (2, {"broken": 1})


def test_a_data_set_of_pydantic_evals_is_no_report(tmp_path):
    whole = {"name": "x", "cases": [{"name": "a", "inputs": 1, "evaluators": []}], "evaluators": []}
    (tmp_path / "set.json").write_text(json.dumps(whole))
    with pytest.raises(LogFormatError):
        er.read_log(tmp_path / "set.json")


# DeepEval

SCORES = [
    {"early": 0.0, "late": 0.5},
    {"early": 0.4, "late": 0.9},
    {"early": 0.9, "late": None},
    {"early": 0.6, "late": 0.6},
]


@pytest.fixture
def run_of_deepeval(tmp_path):
    return deepeval_run(tmp_path / "test_run_1.json", [case_of_deepeval(i, one) for i, one in enumerate(SCORES)], "m-1")


def test_a_metric_of_a_test_run_is_chosen_from_a_list_with_counts(run_of_deepeval):
    with pytest.raises(ArgumentError, match=r"'early' \(4\), 'early.success' \(4\), 'late' \(3\).*'success' \(3\)"):
        er.read_log(run_of_deepeval)
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


def test_one_metric_that_says_pass_or_fail_needs_no_choice(tmp_path):
    path = deepeval_run(tmp_path / "r.json", [case_of_deepeval(i, {"exact": float(i % 2)}) for i in range(4)])
    log = er.read_log(path)
    assert log.frame["score"].tolist() == [0, 1, 0, 1]
    assert (log.runs[0].model, log.notes[-1][:24]) == ("r", "Models are named by the ")


def test_cases_of_the_same_text_are_samples_and_own_names_are_kept(tmp_path):
    same = [case_of_deepeval(i, {"exact": 1.0}, input="again") for i in range(2)]
    other = [case_of_deepeval(3, {"exact": 0.0}, name="capital")]
    log = er.read_log(deepeval_run(tmp_path / "r.json", [*same, *other]))
    assert log.frame[["item", "sample"]].to_numpy().tolist() == [["again", 1], ["again", 2], ["capital", 1]]


def test_two_metrics_of_one_name_are_numbered(tmp_path):
    cases = [case_of_deepeval(i, {"GEval": 0.2 * i}) for i in range(3)]
    for case in cases:
        case["metricsData"] += [case["metricsData"][0] | {"score": 1.0, "success": True}]
    with pytest.raises(ArgumentError, match=r"'GEval \(1\)' \(3\).*'GEval \(2\)' \(3\)"):
        er.read_log(deepeval_run(tmp_path / "r.json", cases))


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


def test_fields_are_kept_by_name(run_of_deepeval):
    log = er.read_log(run_of_deepeval, metric="early", columns=["metadata.passage", "expectedOutput"])
    assert log.frame["expectedOutput"].unique().tolist() == ["yes"]
    assert log.mean(groups="passage").n_clusters == {"passage": 2}
    with pytest.raises(MissingColumnError):
        er.read_log(run_of_deepeval, metric="early", columns=["none"])


@pytest.mark.parametrize("letter", ["x", "é", "\ud800"])
def test_whole_texts_in_metadata_are_no_clusters_in_any_script(tmp_path, letter):
    cases = [case_of_deepeval(number, {"right": number % 2}) for number in range(4)]
    for number, case in enumerate(cases):
        case["metadata"] |= {"text": f"{number} {letter * 300}", "some": letter * (300 if number else 3)}
    frame = er.read_log(deepeval_run(tmp_path / "run.json", cases)).frame
    assert "metadata.text" not in frame
    assert frame["metadata.some"].nunique() == 2
    frame["metadata.some"].str.encode("utf-8")


def test_commands_read_test_runs(run_of_deepeval, capsys):
    assert main(["mean", str(run_of_deepeval), "--metric", "late"]) == 0
    assert "errored" in capsys.readouterr().out
    assert main(["mean", str(run_of_deepeval)]) == 3
    assert "'early.success' (4)" in capsys.readouterr().err

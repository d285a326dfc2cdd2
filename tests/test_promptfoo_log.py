"""Results of promptfoo: questions, repeats, prompts and providers told apart, errors from failures."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import evalreg as er
from evalreg.errors import ArgumentError, LogFormatError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

PROVIDERS = ({"id": "echo", "label": "model-a"}, {"id": "echo"})
PROMPTS = ("short", "long")
REPEATS = 2


def result(test, question, provider, prompt):
    """One result as version 3 writes it; `test` counts on over repeats."""
    passed = (question + prompt + (provider and question % 2) + test) % 3 > 0
    known = {"gradingResult": {"componentResults": [{"pass": passed}]}, "id": f"{test}-{provider}-{prompt}"}
    known |= {"latencyMs": 5, "prompt": {"raw": f"text {question}", "label": PROMPTS[prompt]}}
    known |= {"promptId": f"{prompt:064x}", "promptIdx": 2 * provider + prompt, "provider": PROVIDERS[provider]}
    known |= {"score": float(passed), "success": passed, "namedScores": {}, "failureReason": int(not passed)}
    variables = {"question": f"question {question}", "passage": f"p{question // 2}"}
    case = {"vars": variables, "assert": [{"type": "equals", "value": question}], "metadata": {"subject": "maths"}}
    error = {} if passed else {"error": "Expected output to equal"}
    return known | {"testCase": case, "testIdx": test, "vars": variables} | error


def results(n_questions=8, providers=(0, 1), prompts=(0, 1), change=None):
    """A run; `change(question, repeat, provider, prompt)` gives the fields that differ."""
    rows = []
    for question, repeat, provider, prompt in itertools.product(range(n_questions), range(REPEATS), providers, prompts):
        more = change(question, repeat, provider, prompt) if change else {}
        rows.append(result(REPEATS * question + repeat, question, provider, prompt) | (more or {}))
    # Answers come as they are ready.
    return sorted(rows, key=lambda row: row["id"][::-1])


def document(path, rows, version=3, **more):
    head = [{"id": "x", "label": "short", "provider": "model-a", "metrics": {"testPassCount": 3, "namedScores": {}}}]
    body = {"version": version, "timestamp": "2026-01-01", "prompts": head, "results": rows}
    path.write_text(json.dumps({"evalId": "eval-1", "results": body, "config": {}} | more, indent=2))
    return path


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("write", [document, lines])
def test_questions_are_variables_and_samples_their_order_among_equals(write, tmp_path):
    log = er.read_log(write(tmp_path / "out.json", results()))
    assert (log.format, log.roles) == ("promptfoo", ("model", "item", "sample", "score", "prompt"))
    frame = log.frame
    assert len(frame) == 8 * REPEATS * 4
    assert (frame.groupby(["model", "prompt", "item"])["sample"].agg(set) == {1, 2}).all()
    assert sorted(frame["model"].unique()) == ["echo", "model-a"]
    assert sorted(frame["prompt"].unique()) == ["long", "short"]
    assert {"vars.passage", "metadata.subject"} <= set(frame.columns)
    cells = frame.groupby(["model", "prompt"])["score"].mean()
    np.testing.assert_allclose(log.mean(groups="vars.passage").params.to_numpy(), cells.to_numpy())


def test_a_repeat_in_error_keeps_the_number_of_the_others(tmp_path):
    errored = {"failureReason": 2, "gradingResult": None, "score": 0, "success": False}
    path = document(tmp_path / "out.json", results(change=lambda q, repeat, *_: errored if q == repeat == 0 else {}))
    log = er.read_log(path)
    assert log.left_out.to_dict() == {"errored": 4}
    first = log.frame[log.frame["item"].str.contains("question 0")]
    assert first["sample"].tolist() == [2, 2, 2, 2]
    for failed, said in {"drop": "no scores", "zero": "as here"}.items():
        (note,) = (note for note in er.read_log(path, filter="short", failed=failed).notes if "own pass rate" in note)
        assert "errors (2) as failures" in note and said in note  # noqa: PT018
    zero = er.read_log(path, failed="zero")
    assert len(zero.frame) == 8 * REPEATS * 4
    assert zero.frame["score"].sum() == log.frame["score"].sum()


def test_an_assertion_that_failed_or_threw_is_a_score_though_it_has_an_error_text(tmp_path):
    threw = {"failureReason": 1, "error": "Custom function threw", "score": 0, "success": False}
    log = er.read_log(document(tmp_path / "out.json", results(change=lambda *_: threw)))
    assert log.frame["score"].eq(0).all()
    assert log.left_out.empty


def test_a_test_without_an_assertion_is_no_score(tmp_path):
    bare = {"testCase": {"vars": {"question": "bare"}, "assert": []}, "gradingResult": {"pass": True}}
    bare |= {"success": True, "score": 1}
    log = er.read_log(document(tmp_path / "out.json", results(change=lambda q, *_: bare if q == 3 else {})))
    assert log.left_out.to_dict() == {"unscored": 8}
    assert any("without an assertion (8) as passed" in note for note in log.notes)


@pytest.mark.parametrize("place", ["", [1], None])
def test_a_column_that_is_no_number_is_refused(tmp_path, place):
    rows = results()
    path = document(tmp_path / "out.json", [rows[0] | {"promptIdx": place}, *rows[1:]])
    with pytest.raises(LogFormatError, match="'promptIdx', where a whole number is needed"):
        er.read_log(path)


def test_scores_that_differ_are_chosen_from(tmp_path):
    half = document(tmp_path / "half.json", results(change=lambda q, *_: {"score": 0.5} if q == 2 else {}))
    assert er.read_log(half, metric="score").frame["score"].eq(0.5).sum() == 8
    assert set(er.read_log(half, metric="success").frame["score"]) == {0, 1}
    named = results(change=lambda q, *_: {"namedScores": {"tone": q / 8}} if q else {})
    path = document(tmp_path / "named.json", named)
    tone = er.read_log(path, metric="tone")
    assert (len(tone.frame), tone.left_out.to_dict()) == (56, {"unscored": 8})


def test_prompts_are_not_averaged_unasked(tmp_path):
    log = er.read_log(document(tmp_path / "out.json", results()))
    assert len(log.mean().params) == 4
    with pytest.raises(ArgumentError, match=r"2 prompts: .*\. Pass by=\['model', 'prompt'\]"):
        log.mean(by="model")
    with pytest.raises(ArgumentError, match=r'2 models: .*, or subset=.model == "model-a"'):
        log.compare(model="prompt")
    path = tmp_path / "out.json"
    assert er.read_log(path, filter="short").compare().table["n"].iloc[0] == 8
    one = er.read_log(document(path, results(providers=(0,))))
    assert one.compare(model="prompt").table["n"].iloc[0] == 8


def test_one_question_with_two_assertions_is_two_items(tmp_path):
    def change(question, repeat, provider, prompt):
        same = {"question": "same"}
        case = {"assert": [{"type": "equals", "value": question}]}
        return {"vars": same, "testCase": case} if question < 2 else {}

    log = er.read_log(document(tmp_path / "out.json", results(change=change)))
    assert log.frame["item"].nunique() == 8
    assert log.frame["sample"].max() == REPEATS

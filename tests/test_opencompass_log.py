"""Results of OpenCompass in the layouts that its releases wrote: details by place, by index, and with repeats."""

from __future__ import annotations

import json

import numpy as np
import pytest

import evalreg as er
from evalreg.errors import ArgumentError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

RIGHT = [1, 0, 1, 1, 0, 1, 0, 1, 1, 1]
# One, two and three of the four answers to an example.
REPEATS = [[True, False, True, False], [True] * 4, [False, False, False, True], [True, True, True, False]]


def results(folder, layout, *, model="a-7b", right=RIGHT, run="20240101_000000", answers="A"):
    """Write a file of results; layouts after the writer of OpenCompass 0.5 and of its older releases."""
    path = folder / run / "results" / model / "quiz.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    accuracy = {"accuracy": 100 * float(np.mean(right))}
    if layout == "list":
        details = [{"pred": "x", "answer": f"{answers}{i}", "correct": bool(one)} for i, one in enumerate(right)]
    elif layout == "index":
        details = {
            str(i): {"prompt": "p", "origin_prediction": "x", "predictions": "x", "references": f"{answers}{i}"}
            | {"correct": bool(one)}
            for i, one in enumerate(right)
        }
        accuracy["type"] = "GEN"
    elif layout == "present":
        details = [
            {"example_abbr": f"quiz_{i}", "pred": ["x"], "answer": [f"{answers}{i}"], "correct": [bool(one)]}
            for i, one in enumerate(right)
        ]
    else:
        details = [
            {"example_abbr": f"quiz_{i}", "G-Pass@4_0.5": 1.0, "pred": ["x"] * 4, "answer": ["A"] * 4, "correct": four}
            for i, four in enumerate(REPEATS)
        ]
        accuracy = {"accuracy (4 runs average)": 100 * float(np.mean(REPEATS))}
    path.write_text(json.dumps(accuracy | {"details": details}, indent=4))
    predictions = folder / run / "predictions" / model / "quiz.json"
    predictions.parent.mkdir(parents=True, exist_ok=True)
    predictions.write_text(json.dumps({"0": {"origin_prompt": "p", "prediction": "x", "gold": "A"}}, indent=4))
    return path


@pytest.mark.parametrize("layout", ["list", "index", "present"])
def test_details_read_to_the_accuracy_of_opencompass(layout, tmp_path):
    results(tmp_path, layout)
    log = er.read_log(tmp_path)
    assert (log.format, log.roles) == ("opencompass", ("model", "task", "item", "score"))
    run = log.runs[0]
    assert (run.model, run.task, run.id) == ("a-7b", "quiz", "20240101_000000")
    assert 100 * log.mean().params.iloc[0] == pytest.approx(run.details["reported"]["accuracy"])
    assert log.frame["score"].tolist() == RIGHT


def test_repeats_are_samples_and_other_figures_of_an_example_a_choice(tmp_path):
    path = results(tmp_path, "repeats")
    with pytest.raises(ArgumentError, match=r"'G-Pass@4_0\.5' \(16\), 'correct' \(16\)"):
        er.read_log(path)
    log = er.read_log(path, metric="correct")
    assert log.frame["sample"].tolist() == [1, 2, 3, 4] * 4
    assert log.frame["subdivision"].unique().tolist() == ["quiz"]
    mean = log.mean()
    own = log.runs[0].details["reported"]["accuracy (4 runs average)"]
    assert (100 * mean.params.iloc[0], mean.n_clusters) == (pytest.approx(own), {"item": 4})


def test_no_verdict_is_unscored_and_no_score_at_all_is_said(tmp_path):
    path = results(tmp_path, "list")
    whole = json.loads(path.read_text())
    whole["details"][0]["correct"] = None
    path.write_text(json.dumps(whole))
    assert er.read_log(path).left_out.to_dict() == {"unscored": 1}
    for one in whole["details"]:
        del one["correct"]
    path.write_text(json.dumps(whole))
    nothing = er.read_log(path)
    assert (len(nothing.frame), nothing.left_out.to_dict()) == (0, {"unscored": len(whole["details"])})

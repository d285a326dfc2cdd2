"""OpenAI evals' own recorder: matches, graded answers, an error, and a final report by evals' own functions."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

# evals makes a client when it is imported; no request is sent.
os.environ.setdefault("OPENAI_API_KEY", "none")

from evals.base import RunSpec
from evals.elsuite.modelgraded.classify_utils import INVALID_STR, get_choice_score
from evals.metrics import get_accuracy
from evals.record import LocalRecorder

import evalreg as er
from evalreg.errors import ArgumentError


def spec(name: str) -> RunSpec:
    return RunSpec(
        completion_fns=["org/model"],
        eval_name=f"{name}.dev.v0",
        base_eval=name,
        split="dev",
        run_config={"seed": 1, "completion_fns": ["org/model"]},
        created_by="",
    )


def matches(path: Path) -> float:
    """A log of matches and F1 scores, and evals' own accuracy."""
    rng = np.random.default_rng(1)
    recorder = LocalRecorder(str(path), spec("quiz"))
    for number in range(40):
        with recorder.as_default_recorder(f"quiz.dev.{number}"):
            recorder.record_sampling(prompt=f"question {number}", sampled=["a"])
            if number == 7:
                recorder.record_error("no answer", ValueError("too long"))
                continue
            right = bool(rng.integers(2))
            recorder.record_match(right, expected="a", picked="a" if right else None)
            recorder.record_metrics(accuracy=float(right), f1_score=float(rng.random()))
    recorder.flush_events()
    own = get_accuracy(recorder.get_events("match"))
    recorder.record_final_report({"accuracy": own})
    return own


def grades(path: Path) -> float:
    """A log of graded answers, some of whose grades cannot be read, and the score that evals reports."""
    recorder = LocalRecorder(str(path), spec("graded"))
    scores = {"A": 1.0, "B": 0.5, "C": 0.0}
    for number in range(30):
        choice = INVALID_STR if number % 10 == 3 else "ABC"[number % 3]
        with recorder.as_default_recorder(f"graded.dev.{number}"):
            recorder.record_metrics(choice=choice, score=get_choice_score(choice, "ABC", scores))
    recorder.flush_events()
    values = [one["score"] for one in recorder.get_metrics()]
    recorder.record_final_report({"score": sum(values) / len(values)})
    return sum(values) / len(values)


def main(folder: Path) -> None:
    own = matches(folder / "quiz.jsonl")
    try:
        er.read_log(folder / "quiz.jsonl")
        raise AssertionError("two metrics were read as one")
    except ArgumentError as error:
        assert "'correct' (39), 'accuracy' (39), 'f1_score' (39)" in str(error), error
    log = er.read_log(folder / "quiz.jsonl", metric="correct")
    assert (log.format, log.left_out.to_dict()) == ("openai_evals", {"errored": 1})
    np.testing.assert_allclose([log.mean().params.iloc[0], log.runs[0].details["reported"]["accuracy"]], own)
    graded = grades(folder / "graded.jsonl")
    kept = er.read_log(folder / "graded.jsonl", failed="keep")
    np.testing.assert_allclose([kept.mean().params.iloc[0], kept.runs[0].details["reported"]["score"]], graded)
    assert er.read_log(folder / "graded.jsonl").left_out.to_dict() == {"unparsed": 3}
    print(f"evals: {own}, {graded}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

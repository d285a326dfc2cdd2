"""Frames of Inspect's samples as logs: what is missing is counted, what cannot be told is said."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import ArgumentError, LogFormatError, MissingColumnError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

LETTERS = ["C", "I", "P", "N", "C", None, "C", None]
VALUES = [1, 0, 0.5, 0, 1, None, 1, None]


@pytest.fixture
def samples():
    """Four questions, two epochs, in the columns that samples_df gives; one failed sample has a score."""
    n = len(LETTERS)
    return pd.DataFrame(
        {
            "sample_id": [f"s{i}" for i in range(n)],
            "eval_id": "e1",
            "log": "/logs/a.eval",
            "id": [f"q{i % 4}" for i in range(n)],
            "epoch": [1 + i // 4 for i in range(n)],
            "input": [f"question {i % 4}" for i in range(n)],
            "target": "yes",
            "metadata_passage": [f"p{i % 4 // 2}" for i in range(n)],
            "metadata_about": [json.dumps({"level": i % 2}) for i in range(n)],
            "score_letter": LETTERS,
            "error": ["", "", "", "", "", "RuntimeError('no tool')", "ValueError('grader')", ""],
        }
    )


def values(log):
    return log.frame["score"].tolist()


@pytest.mark.parametrize("engine", ["pandas", "pyarrow", "polars"])
def test_scores_are_read_by_the_rules_of_inspect_and_what_is_missing_is_counted(samples, engine):
    frame = samples
    if engine == "pyarrow":
        pytest.importorskip("pyarrow")
        frame = samples.convert_dtypes(dtype_backend="pyarrow")
    elif engine == "polars":
        frame = pytest.importorskip("polars").from_pandas(samples)
    log = er.log_frame(frame)
    assert (log.roles, log.format) == (("item", "sample", "score"), "inspect")
    assert values(log) == [1, 0, 0.5, 0, 1]
    assert log.left_out.to_dict() == {"errored": 2, "unscored": 1}
    assert log.frame["metadata.about.level"].tolist() == [0, 1, 0, 1, 0]
    assert log.runs[0].path == "/logs/a.eval"
    # q0: (1 + 1) / 2, q1: 0, q2: .5, q3: 0
    assert log.mean(groups="passage").params.iloc[0] == pytest.approx((1 + 0 + 0.5 + 0) / 4)


def test_scores_of_failed_samples_follow_the_rule(samples):
    kept = er.log_frame(samples, failed="keep")
    assert (values(kept), kept.left_out.to_dict()) == ([1, 0, 0.5, 0, 1, 1], {"errored": 1, "unscored": 1})
    zero = er.log_frame(samples, failed="zero")
    assert (values(zero), zero.left_out.to_dict()) == ([1, 0, 0.5, 0, 1, 0, 0], {"unscored": 1})


def test_what_a_frame_cannot_tell_is_said(samples):
    notes = er.log_frame(samples).notes
    assert notes[0].startswith("1 sample without an error has no score of 'letter'; the frame gives no reason.")
    assert "never came to" in notes[1]
    told = er.log_frame(samples.assign(score_letter_reason=[None] * 7 + ["grader_failed"])).notes[0]
    assert "Inspect gives a reason for 1 of them: grader_failed (1)" in told
    with pytest.raises(MissingColumnError, match='"error" which samples failed'):
        er.log_frame(samples.drop(columns="error"))
    unknown = er.log_frame(samples.drop(columns="error"), failed="keep")
    assert "does not say which samples ended in error" in unknown.notes[1]


def test_several_scorers_and_entries_are_chosen_from(samples):
    frame = samples.assign(score_other=0.5, score_other_answer="x")
    with pytest.raises(ArgumentError, match=r"2 scorers: 'letter' \(6\), 'other' \(8\)"):
        er.log_frame(frame)
    assert set(values(er.log_frame(frame, scorer="other"))) == {0.5}
    frame["score_parts"] = [json.dumps({"a": i % 2, "b": float("nan")}) for i in range(8)]
    with pytest.raises(ArgumentError, match=r"2 entries of the scores 'parts': 'a' \(8\), 'b' \(8\)"):
        er.log_frame(frame, scorer="parts")
    assert values(er.log_frame(frame, scorer="parts", metric="a")) == [0, 1, 0, 1, 0, 1]
    with pytest.raises(LogFormatError, match="all 8 of 'parts' are missing"):
        er.log_frame(frame, scorer="parts", metric="b")
    with pytest.raises(ArgumentError, match="single values"):
        er.log_frame(frame, scorer="letter", metric="a")


def test_several_runs_need_names(samples):
    other = samples.assign(eval_id="e2", score_letter="C")
    both = pd.concat([samples, other])
    with pytest.raises(ArgumentError, match=r"'the frame' has 2: e1 \(8 samples\), e2 \(8 samples\)"):
        er.log_frame(both)
    named = both.assign(model=np.where(both["eval_id"] == "e1", "a", "b"), task_name="t")
    assert er.log_frame(named).compare(baseline="a").table["n"].iloc[0] == 4
    with pytest.raises(ArgumentError, match=r"'a on t' has 2"):
        er.log_frame(named.assign(model="a"))
    with pytest.raises(ArgumentError, match=r"'t' is there in 2"):
        er.log_frame(named.assign(task_version=named["model"]))
    changed = named.assign(input=np.where(named["model"] == "b", "another", named["input"]))
    with pytest.raises(LogFormatError, match="4 differ under one id, such as 'q0'"):
        er.log_frame(changed)


def test_a_sample_that_occurs_again_is_counted_and_with_another_score_refused(samples):
    log = er.log_frame(pd.concat([samples, samples.head(3)]))
    assert (len(log.frame), log.left_out["duplicate"]) == (5, 3)
    with pytest.raises(LogFormatError, match=r"1 occur again with another one, the first with eval_id 'e1', id 'q0'"):
        er.log_frame(pd.concat([samples, samples.head(1).assign(score_letter="I")]))


def test_a_second_model_with_the_same_scores_is_no_repeat_where_the_runs_have_no_ids(samples):
    one = samples.drop(columns="eval_id").assign(model="a")
    log = er.log_frame(pd.concat([one, one.assign(model="b")], ignore_index=True))
    assert log.frame["model"].value_counts().to_dict() == {"a": 5, "b": 5}
    assert "duplicate" not in log.left_out


def test_values_that_are_no_numbers_are_listed(samples):
    with pytest.raises(LogFormatError, match=r"'maybe' \(2\), 'good' \(1\)"):
        er.log_frame(samples.assign(score_letter=["maybe", "maybe", "good", *LETTERS[3:]]))


@pytest.mark.parametrize("missing", ["id", "epoch", "score_letter"])
def test_a_frame_of_something_else_is_refused(samples, missing):
    with pytest.raises(MissingColumnError, match="A frame of samples has"):
        er.log_frame(samples.drop(columns=missing))

"""Metrics for Inspect: what they give, and that they never raise once a task is made."""

from __future__ import annotations

import logging
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg import inspect
from evalreg.errors import ArgumentError, ArgumentTypeError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def scored(i: int, value: Any, **metadata: Any) -> SimpleNamespace:
    """What a metric of Inspect is given for a sample."""
    return SimpleNamespace(sample_id=i, sample_metadata=metadata, score=SimpleNamespace(value=value))


@pytest.fixture
def scores() -> list[SimpleNamespace]:
    rng = np.random.default_rng(4)
    values = rng.choice(["C", "I", "P"], size=60)
    return [scored(i, str(value), passage=i // 6, about={"language": i % 5}) for i, value in enumerate(values)]


def test_figures_are_those_of_mean(scores):
    number = {"C": 1.0, "I": 0.0, "P": 0.5}
    frame = pd.DataFrame({"score": [number[s.score.value] for s in scores], "passage": np.arange(60) // 6})
    frame["language"] = np.arange(60) % 5
    one = er.mean(frame, groups="passage")
    assert inspect._stderr(["passage"])(scores) == {"stderr_passage": one.bse.iloc[0]}
    low, high = one.conf_int(0.1).iloc[0]
    assert inspect._ci(["passage"], 0.1)(scores) == {"ci_passage_lower": low, "ci_passage_upper": high}
    both = er.mean(frame, groups="passage + language")
    found = inspect._stderr(["passage", "about.language"])(scores)
    np.testing.assert_allclose(found["stderr_passage_about.language"], both.bse.iloc[0], rtol=1e-12)
    np.testing.assert_allclose(inspect._stderr([])(scores)["stderr"], er.mean(frame).bse.iloc[0], rtol=1e-12)


def test_scores_of_one_question_are_not_independent_where_epochs_are_not_reduced(scores):
    twice = inspect._stderr([], "CR1")([*scores, *scores])["stderr"]
    np.testing.assert_allclose(twice, inspect._stderr([], "CR1")(scores)["stderr"], rtol=1e-12)


BAD: dict[str, list[Any]] = {
    "no scores": [],
    "one": [scored(1, "C", passage=1)],
    "one passage": [scored(i, "C", passage=1) for i in range(9)],
    "text": [scored(i, "maybe", passage=i) for i in range(9)],
    "dicts": [scored(i, {"a": 1}, passage=i) for i in range(9)],
    "infinite": [scored(i, math.inf, passage=i) for i in range(9)],
    "no metadata": [SimpleNamespace(sample_id=1, sample_metadata=None, score=SimpleNamespace(value=1))] * 9,
    "some without": [scored(i, i % 2, **({"passage": i} if i else {})) for i in range(9)],
    "missing ids": [scored(i, i % 2, passage=math.nan if i == 3 else i) for i in range(9)],
    "constant": [scored(i, 7.5, passage=i) for i in range(9)],
    "no samples": [None, 3],
    "no list": None,  # type: ignore[dict-item]
}


@pytest.mark.parametrize("name", BAD)
def test_nothing_raises_while_a_run_lasts_and_each_reason_is_told_once(name, caplog):
    caplog.set_level(logging.INFO, logger="evalreg.inspect")
    for measure in (inspect._stderr(["passage"]), inspect._ci(["passage"])):
        caplog.clear()
        for _ in range(50):
            assert all(math.isnan(value) for value in measure(BAD[name]).values())
        assert len(caplog.records) == 1
        young = name in ("no scores", "one", "one passage")
        assert caplog.records[0].levelno == (logging.INFO if young else logging.WARNING)


def test_a_young_run_has_figures_from_two_clusters_on(scores):
    measure = inspect._stderr(["passage"])
    known = [n for n in range(len(scores)) if not math.isnan(measure(scores[:n])["stderr_passage"])]
    assert known[0] <= 12
    assert known == list(range(known[0], len(scores)))


def test_warnings_as_errors_do_not_turn_figures_into_nan(scores, recwarn):
    assert inspect._stderr(["passage"])(scores)["stderr_passage"] > 0
    assert not recwarn.list


def test_wrong_arguments_are_refused_while_the_task_is_made(monkeypatch):
    monkeypatch.setattr(inspect, "_REGISTERED", {"stderr": inspect._stderr, "ci": inspect._ci})
    assert callable(inspect.stderr(["passage", "language"], cov="CR1"))
    for wrong in ([3], ["a", "a"], ""):
        with pytest.raises((ArgumentError, ArgumentTypeError), match="`groups` must be"):
            inspect.stderr(wrong)
    with pytest.raises(ArgumentError, match="`alpha`"):
        inspect.ci("passage", alpha=95)
    with pytest.raises(ArgumentError, match="`cov` must be one of"):
        inspect.ci("passage", cov="CR9")
    monkeypatch.setattr(inspect, "_REGISTERED", {})
    with pytest.raises(ArgumentError, match=r"evalreg\[inspect\]"):
        inspect.stderr("passage")

"""Questions of a log that are alike, and were taken to be independent: the field that says so is named."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import IndependenceWarning

ALIKE = "Questions are taken to be independent, but those with one value of"


def log_of(seed: int, spread: float, n_passages: int = 30, n_models: int = 1) -> er.Log:
    """Eight questions about each passage, whose difficulty varies by passage; a level that means nothing beside it."""
    rng = np.random.default_rng(seed)
    passage = np.repeat(np.arange(n_passages), 8)
    parts = []
    for model in range(n_models):
        p = np.clip(0.6 + spread * rng.normal(size=n_passages), 0.02, 0.98)[passage]
        score = (rng.random(passage.size) < p).astype(float)
        parts.append(pd.DataFrame({"model": f"m{model}", "item": np.arange(passage.size), "score": score}))
        parts[-1]["metadata.passage"] = [f"p{k}" for k in passage]
        parts[-1]["metadata.level"] = [f"l{k % 12}" for k in range(passage.size)]
    return er.Log(pd.concat(parts, ignore_index=True))


def said(log: er.Log) -> list[str]:
    return [text for text in log.doctor().remarks if text.startswith(ALIKE)]


def test_the_doctor_names_the_field_with_what_it_does_to_the_error_bar_and_a_mean_does_not_search():
    log = log_of(1, 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", IndependenceWarning)
        results = log.mean()
    ratio = float(log.mean(groups="passage").bse.iloc[0] / results.bse.iloc[0])
    (text,) = said(log)
    assert f'"metadata.passage" are alike: clustered by it (30 values) standard errors are {ratio:.2f} times' in text


def named(n_logs: int, spread: float) -> list[bool]:
    """Whether a field of 12, 30 or 60 values is named; with a spread, the scores vary by it.

    It is proposed for `groups` whenever it widens the error bar: left out by chance, it would make it too short.
    """
    found = []
    for seed in range(n_logs):
        rng = np.random.default_rng(seed)
        field = rng.integers(0, (12, 30, 60)[seed % 3], 240)
        p = np.clip(0.6 + spread * rng.normal(size=60), 0.02, 0.98)[field]
        rows = pd.DataFrame({"item": np.arange(240), "score": (rng.random(240) < p).astype(float), "field": field})
        page = er.Log(rows).doctor()
        assert ("groups=" in page.commands[0]) == (page.clusters.loc["field", "design_effect"] > 1)
        found.append(any(text.startswith(ALIKE) for text in page.remarks))
    return found


def test_a_field_is_seldom_named_by_chance_and_mostly_where_scores_vary_by_it():
    assert sum(named(15, 0.0)) <= 1
    assert sum(named(15, 0.3)) >= 13


@pytest.mark.slow
def test_independent_questions_are_seldom_called_alike():
    # Two fields, each by chance in about one log of a hundred.
    assert sum(bool(said(log_of(seed, 0.0))) for seed in range(120)) <= 8

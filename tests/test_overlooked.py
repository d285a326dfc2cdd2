"""Questions of a log that are alike, and were taken to be independent: the field that says so is named."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import IndependenceWarning
from evalreg.logs.overlooked import overlooked

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


def independence(results: er.Results) -> list[str]:
    return [text for kind, text in results.notes if kind is IndependenceWarning]


def test_the_field_is_named_with_what_it_does_to_the_error_bar():
    log = log_of(1, 0.3)
    with pytest.warns(IndependenceWarning, match=ALIKE):
        results = log.mean()
    (said,) = independence(results)
    wider = log.mean(groups="metadata.passage")
    ratio = float(wider.bse.iloc[0] / results.bse.iloc[0])
    assert f'"metadata.passage" are alike: clustered by it (30 values) standard errors are {ratio:.2f} times' in said
    assert " ".join(said.split()) in " ".join(results.summary().as_text().split())
    assert not independence(wider)


def test_what_was_asked_for_is_not_called_overlooked():
    log = log_of(1, 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", IndependenceWarning)
        log.mean(groups="item")
        log.mean(strata="metadata.passage")
        log.mean(groups="metadata.passage")


def named(n_logs: int, spread: float) -> list[bool]:
    """Whether each of 15 fields of a log is named, of 12, 30 or 60 values; with a spread, scores vary by it."""
    found = []
    for seed in range(n_logs):
        rng = np.random.default_rng(seed)
        fields = {f"field {k}": rng.integers(0, (12, 30, 60)[k % 3], 240) for k in range(15)}
        for asked in [[one] for one in fields] if spread else [list(fields)]:
            p = np.clip(0.6 + spread * rng.normal(size=60), 0.02, 0.98)[fields[asked[0]]]
            results = er.mean(
                pd.DataFrame({"item": np.arange(240), "score": rng.random(240) < p, **fields}), item="item"
            )
            found += [bool(overlooked(results, [one])) for one in asked]
    return found


def test_a_field_is_seldom_named_by_chance_and_mostly_where_scores_vary_by_it():
    # By chance one of 500 fields is; with two standard errors in the place of three it would be one of 30.
    assert sum(named(8, 0.0)) <= 2
    assert sum(named(1, 0.3)) >= 13


@pytest.mark.slow
def test_independent_questions_are_seldom_called_alike():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = [bool(independence(log_of(seed, 0.0).mean())) for seed in range(120)]
    # Two fields, each by chance in about one log of a hundred.
    assert sum(told) <= 8


def test_of_differences_it_is_their_own_likeness_that_counts():
    log = log_of(3, 0.3, n_models=2)
    with pytest.warns(IndependenceWarning, match=ALIKE):
        assert independence(log.compare().results)
    # Both models are right on the same questions: no difference depends on the passage.
    frame = log.frame
    first = frame["model"] == "m0"
    noise = (np.random.default_rng(0).random(int(first.sum())) < 0.1).astype(float)
    frame.loc[~first, "score"] = np.abs(frame.loc[first, "score"].to_numpy() - noise)
    frame.loc[~first & (frame["score"] > 1), "score"] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same = er.Log(frame)
        assert independence(same.mean())
        assert not independence(same.compare().results)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A log of eight questions about each passage, and a file of its roles."""
    folder = tmp_path_factory.mktemp("alike")
    roles = "".join(f'{role} = "{role}"\n' for role in ("model", "item", "score"))
    (folder / "roles.toml").write_text(roles)
    log_of(1, 0.3).frame.to_csv(folder / "log.csv", index=False)
    return folder

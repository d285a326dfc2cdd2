"""Dummies of levels that lie in one cluster each: solved apart, with the numbers of the whole regression."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalreg as er

REFERENCE = Path(__file__).parent / "reference"
R = json.loads((REFERENCE / "absorbed_dummies.json").read_text())
# R's numbers are printed to 17 digits.
OURS = 1e-10
# Two ways through the same arithmetic.
SAME = 1e-9

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def _log(share: float, n: int = 60) -> pd.DataFrame:
    """Questions, four to a passage and ten to a subject, by five models, of which a share is there."""
    rng = np.random.default_rng(5)
    log = pd.DataFrame({"question": np.repeat(np.arange(n), 5), "model": np.tile(list("abcde"), n)})
    log["passage"], log["subject"] = log.question // 4, log.question // 10
    log["judge"] = rng.integers(0, 7, len(log))
    log["x"] = rng.normal(size=len(log)) + 0.02 * log.question
    log["tokens"] = 1e8 + 1e6 * rng.normal(size=len(log))
    log["w"] = rng.uniform(0.3, 3, len(log))
    log["score"] = rng.normal(size=n)[log.question] + 0.3 * log.x + rng.normal(size=len(log))
    log["right"] = (rng.random(len(log)) < 0.3 + 0.1 * (log.model == "a") + 0.02 * log.subject).astype(int)
    # One question is seen in two passages.
    log["shifted"] = np.where((log.question == 3) & (log.model > "b"), 5, log.passage)
    return log[rng.random(len(log)) < share].sample(frac=1, random_state=1).reset_index(drop=True)


@pytest.mark.parametrize("right", ["model + x", "model * x", "model + tokens", "model + x + C(judge)"])
@pytest.mark.parametrize("groups", ["question", "passage", "subject", "shifted", "judge"])
@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("share", [1.0, 0.6])
@pytest.mark.pairwise
def test_dummies_have_the_errors_and_degrees_of_freedom_of_absorbed_levels(right, groups, weights, share):
    log = _log(share, 40)
    options = {"groups": groups, "weights": weights, "cov": "CR2"}
    dummies = er.fit(f"score ~ {right} + C(question)", log, **options)
    within = er.fit(f"score ~ {right} | question", log, **options)
    names = within.params.index
    np.testing.assert_allclose(dummies.bse[names], within.bse, rtol=SAME)
    np.testing.assert_allclose(dummies.dof[names], within.dof, rtol=SAME)
    np.testing.assert_allclose(dummies.conf_int().loc[names], within.conf_int(), rtol=SAME, atol=SAME)


@pytest.mark.parametrize("by", ["question", "passage", "judge"])
@pytest.mark.parametrize("factors", ["question", "both"])
def test_dummies_have_the_errors_and_degrees_of_freedom_of_r(factors: str, by: str) -> None:
    log = pd.read_csv(REFERENCE / "absorbed.csv").query("question != 1000")
    dummies = "C(question)" if factors == "question" else "C(question) + C(judge)"
    found = er.fit(f"score ~ x + model + {dummies}", log, groups=by)
    theirs, names = R[f"{factors}.{by}.CR2"], ["x", "model[T.b]", "model[T.c]"]
    np.testing.assert_allclose(found.bse[names], theirs["se"], rtol=OURS)
    np.testing.assert_allclose(found.dof[names], theirs["dof"], rtol=OURS)


def test_effects_of_levels_keep_their_values_and_have_no_error() -> None:
    log = _log(1.0)
    found = er.fit("score ~ model + x + C(question)", log, groups="passage")
    levels = [name for name in found.params.index if name.startswith("C(question)")]
    design = pd.get_dummies(log[["question", "model"]].astype(str), drop_first=False, dtype=float)
    X = np.column_stack([design, log["x"]])
    assert len(levels) == 59
    # Fitted values tell the effects, whatever the coding.
    fitted = X @ np.linalg.lstsq(X, log["score"].to_numpy(), rcond=None)[0]
    np.testing.assert_allclose(found.statsmodels.fittedvalues, fitted, atol=1e-10)
    assert found.bse[levels].isna().all()
    assert np.isfinite(found.dof).all()
    # Two levels that lie in one passage: their difference moves with that passage alone.
    assert np.isnan(found.contrast({levels[0]: 1, levels[1]: -1}).bse).all()

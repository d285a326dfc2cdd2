"""Dummies of levels that lie in one cluster each: solved apart, with the numbers of the whole regression."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.covariance import absorbed
from evalreg.covariance.absorbed import Directions, _columns_of

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


def _whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on nothing is set apart: matrices of all coefficients."""

    def every(estimate: object, by: object, known: Directions | None) -> object:
        return _columns_of(estimate, by, None)  # type: ignore[arg-type]

    monkeypatch.setattr(absorbed, "_columns_of", every)


DESIGNS = {
    "clusters are the levels": ("score ~ model + x + C(question)", "question", {}),
    "levels in clusters": ("score ~ model + x + C(question)", "passage", {}),
    "clusters of many rows": ("score ~ model + x + C(question)", "subject", {}),
    "weights": ("score ~ model + x + C(question)", "passage", {"weights": "w"}),
    "no constant": ("score ~ 0 + C(question) + x", "passage", {}),
    "interaction": ("score ~ model * x + C(question)", "passage", {}),
    "levels of an interaction": ("score ~ model + x:C(question)", "passage", {}),
    "units": ("score ~ model + tokens + C(question)", "passage", {}),
    "a level in two clusters": ("score ~ model + x + C(question)", "shifted", {}),
    "absorbed beside": ("score ~ model + x + C(question) | judge", "passage", {}),
    "crossed": ("score ~ model + x + C(question)", "question + judge", {}),
    "crossed, both factors": ("score ~ model + x + C(question) + C(judge)", "passage + judge", {}),
    "levels span clusters": ("score ~ model + x + C(question)", "judge", {}),
    "logit": ("right ~ model + C(subject)", "subject", {"family": "binomial"}),
}


# Every second design with all rows, the others with a share of them; the rest of the product is slow.
SHARES = [
    pytest.param(name, share, marks=[pytest.mark.slow] if (share == 1.0) == bool(i % 2) else [], id=f"{name}-{share}")
    for i, name in enumerate(DESIGNS)
    for share in (1.0, 0.6)
]


@pytest.mark.parametrize(("name", "share"), SHARES)
def test_every_number_is_that_of_the_whole_regression(name: str, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    formula, groups, options = DESIGNS[name]
    dof = None if "+" in groups else "satterthwaite"
    # A Wald test asks for more clusters than it has coefficients.
    n = 60 if groups == "subject" or "model * x" in formula else 40
    fitted = er.fit(formula, _log(share, n), groups=groups, dof=dof, **options)
    apart = {cov: fitted.with_cov(cov=cov, dof=dof) for cov in ("CR1", "CR2", "CR3")}
    _whole(monkeypatch)
    # From the estimate, so that nothing that was set apart is used again.
    again = er.infer(fitted.estimate, groups=groups, dof=dof)
    for cov, own in apart.items():
        _agree(own, again.with_cov(cov=cov, dof=dof))


def _agree(apart: er.Results, whole: er.Results) -> None:
    assert apart.params.index.tolist() == whole.params.index.tolist()
    assert apart.bse.notna().tolist() == whole.bse.notna().tolist()
    np.testing.assert_allclose(apart.bse, whole.bse, rtol=SAME)
    known = whole.bse.notna()
    np.testing.assert_allclose(apart.dof[known], whole.dof[known], rtol=SAME)
    np.testing.assert_allclose(apart.conf_int(), whole.conf_int(), rtol=SAME, atol=SAME)
    np.testing.assert_allclose(apart.cov_params(), whole.cov_params(), rtol=SAME, atol=SAME * np.nanmax(whole.bse) ** 2)
    found = [not name.startswith(("Intercept", "C(question)")) for name in apart.params.index]
    chosen = np.eye(len(found))[np.array(found) & apart.bse.notna().to_numpy()]
    one, other = apart.wald_test(chosen), whole.wald_test(chosen)
    assert float(np.ravel(one.statistic)[0]) == pytest.approx(float(np.ravel(other.statistic)[0]), rel=1e-7)
    assert one.df_denom == pytest.approx(other.df_denom, rel=SAME)


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

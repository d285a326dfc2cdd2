"""What a panel of judges is worth: its definition worked out, and numerical derivatives."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

JUDGES = ["ann", "ben", "cat"]


def verdicts(rng: np.random.Generator, n: int = 400, sizes: tuple[float, ...] = (1.0, 1.0, 1.0)) -> pd.DataFrame:
    """Verdicts whose errors share a half of their variance, in clusters of four that share some too."""
    item = np.arange(n)
    label = rng.normal(size=n)
    shared = rng.normal(size=n // 4 + 1)[item // 4] + rng.normal(size=n)
    errors = {name: size * (shared + np.sqrt(2) * rng.normal(size=n)) for name, size in zip(JUDGES, sizes, strict=True)}
    return pd.DataFrame({name: label + error for name, error in errors.items()} | {"label": label, "suite": item // 4})


def worked(frame: pd.DataFrame, weights: np.ndarray, human: bool = True) -> np.ndarray:
    """All values from a weighted covariance of errors, as the definitions say."""
    errors = frame[JUDGES].to_numpy() - (frame["label"].to_numpy()[:, None] if human else 0)
    S = np.cov(errors.T, aweights=weights, ddof=0)
    J = len(JUDGES)
    mean = (S / np.sqrt(np.outer(np.diag(S), np.diag(S))))[np.triu_indices(J, 1)].mean()

    def variance(of: list[int]) -> float:
        return 1 / np.linalg.inv(S[np.ix_(of, of)]).sum()

    inverse = np.linalg.inv(S)
    worth = [1 - variance(list(range(J))) / variance([k for k in range(J) if k != j]) for j in range(J)]
    return np.array([J / (1 + (J - 1) * mean), mean, *(inverse.sum(axis=1) / inverse.sum()), *worth])


@pytest.mark.parametrize("human", [True, False])
def test_values_and_covariance_are_those_of_numerical_derivatives(rng, human):
    frame = verdicts(rng, 200, (1.0, 2.0, 0.5))
    found = er.panel(frame, judges=JUDGES, human="label" if human else None, groups="suite", cov="CR0")
    one = np.ones(len(frame))
    names = [f"{kind}:{judge}" for kind in ("weight", "worth") for judge in JUDGES]
    assert found.params.index.tolist() == ["n_eff", "correlation", *names]
    assert found.params.to_numpy() == pytest.approx(worked(frame, one, human), abs=1e-10)
    step = 1e-5
    influence = np.array(
        [worked(frame, one + step * row, human) - worked(frame, one - step * row, human) for row in np.eye(len(frame))]
    )
    T = pd.DataFrame(influence / (2 * step)).groupby(frame["suite"].to_numpy()).sum().to_numpy()
    assert found.cov_params().to_numpy() == pytest.approx(T.T @ T, rel=1e-4, abs=1e-9)


@pytest.mark.parametrize("cov", ["CR2", "CR1", "HC0", "HC3", None])
def test_intervals_are_those_of_the_regression_and_on_fishers_scale(rng, cov):
    frame = verdicts(rng, 60, (1.0, 1.2, 4.0))
    errors = frame[JUDGES].sub(frame["label"], axis=0)
    less = errors.assign(ann=errors["cat"] - errors["ann"], ben=errors["cat"] - errors["ben"], suite=frame["suite"])
    groups = "suite" if cov in ("CR2", "CR1") else None
    fitted = er.fit("cat ~ ann + ben", less, groups=groups, cov=cov or "HC2").conf_int(0.1)
    found = er.panel(frame, judges=JUDGES, human="label", groups=groups, cov=cov)
    ends, half = found.conf_int(0.1), found.conf_int(0.1, method="wald")[1] - found.params
    for judge in ("ann", "ben"):
        assert ends.loc[f"weight:{judge}"].to_numpy() == pytest.approx(fitted.loc[judge].to_numpy())
    r = found.params["correlation"]
    z = np.log((1 + 2 * r) / (1 - r)) + np.array([-3, 3]) * half["correlation"] / ((1 + 2 * r) * (1 - r))
    assert ends.loc["correlation"].to_numpy() == pytest.approx((np.exp(z) - 1) / (np.exp(z) + 2))
    assert ends.loc["n_eff"].to_numpy() == pytest.approx(3 / (1 + 2 * ends.loc["correlation"].to_numpy()[::-1]))
    # A judge is worth a square, which may be nothing just where the weight may be 0.
    for judge in JUDGES:
        low, high = ends.loc[f"worth:{judge}"]
        assert (low == 0) == ((ends.loc[f"weight:{judge}"] > 0).nunique() > 1)
        assert 0 <= low < high < 1

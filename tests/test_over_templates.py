"""The spread of a mean over templates: known spreads, analysis of variance by hand, influence, refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

ROLES = {"over": "template", "item": "item"}


def grid(rng: np.random.Generator, n_templates: int = 20, n_items: int = 60, sd: float = 0.3) -> pd.DataFrame:
    """Scores of all items under all templates: template and item effects, and noise."""
    template, item = (part.ravel() for part in np.indices((n_templates, n_items)))
    effects = sd * rng.normal(size=n_templates)[template] + 0.5 * rng.normal(size=n_items)[item]
    score = 2 + effects + rng.normal(size=template.size)
    return pd.DataFrame({"template": [f"t{i:02d}" for i in template], "item": item, "score": score})


def anova(log: pd.DataFrame) -> tuple[np.ndarray, float, float]:
    """Template means, their variance, and the mean square of template by item over items."""
    table = log.pivot(index="template", columns="item", values="score").to_numpy()
    residual = table - table.mean(axis=1, keepdims=True) - table.mean(axis=0) + table.mean()
    MS = (residual**2).sum() / ((table.shape[0] - 1) * (table.shape[1] - 1))
    return table.mean(axis=1), table.mean(axis=1).var(ddof=1), MS / table.shape[1]


def test_values_are_those_of_an_analysis_of_variance(rng):
    log = grid(rng)
    found = er.mean(log, **ROLES, q=(0.05, 0.5, 0.95)).params
    means, raw, noise = anova(log)
    sd = np.sqrt(raw - noise)
    assert found.index.tolist() == ["mean", "sd", "q0.05", "q0.5", "q0.95"]
    assert found["mean"] == pytest.approx(log["score"].mean())
    assert found["sd"] == pytest.approx(sd)
    shrunk = means.mean() + (means - means.mean()) * sd / np.sqrt(raw)
    assert found[["q0.05", "q0.5", "q0.95"]].to_numpy() == pytest.approx(np.quantile(shrunk, (0.05, 0.5, 0.95)))


def test_items_and_templates_are_both_drawn_by_default(rng):
    log = grid(rng)
    crossed = er.mean(log, **ROLES)
    assert set(crossed.n_clusters) == {"item", "template", "item:template"}
    assert crossed.bse["mean"] == pytest.approx(er.mean(log, groups="item + template").bse.iloc[0], rel=1e-9)
    assert er.mean(log, **ROLES, groups="item").bse["sd"] < crossed.bse["sd"]
    # Templates that lie evenly tell of their variance no more than as many of a normal distribution.
    even = log.assign(score=log["template"].str[1:].astype(int) + rng.normal(size=len(log)))
    (_, raw, noise), drawn, fixed = anova(even), er.mean(even, **ROLES), er.mean(even, **ROLES, groups="item")
    limits = drawn.conf_int().loc["sd"].to_numpy() ** 2 + noise
    assert limits == pytest.approx(19 * raw / stats.chi2.ppf([0.975, 0.025], 19), rel=1e-9)
    assert np.ptp(fixed.conf_int().loc["sd"]) < np.ptp(drawn.conf_int().loc["sd"]) / 2


@pytest.mark.parametrize("by", ["template", "item"])
def test_the_influence_of_a_cluster_is_the_derivative_of_the_spread(rng, by):
    log = grid(rng, 12, 30)
    table = log.pivot(index="template", columns="item", values="score").to_numpy()
    T, n = table.shape

    def spread(weights: np.ndarray) -> float:
        """The sd where templates, or items, count with these weights, of which the degrees of freedom do not know."""
        w, v = (weights / T, np.full(n, 1 / n)) if by == "template" else (np.full(T, 1 / T), weights / n)
        w, v = w / w.sum(), v / v.sum()
        m, of_item = table @ v, w @ table
        residual = table - m[:, None] - of_item + w @ m
        raw = w @ (m - w @ m) ** 2 * T / (T - 1)
        MS = w @ residual**2 @ v * T * n / ((T - 1) * (n - 1))
        return float(np.sqrt(raw - MS / n))

    size, step = (T, 1e-5) if by == "template" else (n, 1e-5)
    change = [spread(1 + step * row) - spread(1 - step * row) for row in np.eye(size)]
    found = er.mean(log, **ROLES, groups=by, cov="CR0").bse["sd"]
    assert found == pytest.approx(np.sqrt(np.sum((np.array(change) / (2 * step)) ** 2)), rel=2e-2)


def test_a_spread_that_is_all_noise_is_0_with_an_interval(rng):
    for _ in range(20):
        log = grid(rng, 6, 10, 0.0)
        spread = er.mean(log, **ROLES, q=[0.05, 0.5])
        if spread.params["sd"] == 0:
            break
    ends, (means, raw, _) = spread.conf_int(), anova(log)
    assert spread.params["sd"] == 0
    assert ends.loc["sd", 0] == 0 < ends.loc["sd", 1]
    assert spread.params[["q0.05", "q0.5"]].to_numpy() == pytest.approx(spread.params["mean"])
    # A template in twenty may lie as far below as the spread may be large: MOVER by hand.
    below = (np.quantile(means, 0.05) - means.mean()) / np.sqrt(raw) * ends.loc["sd", 1]
    half = spread.params["mean"] - ends.loc["mean", 0]
    assert spread.params["mean"] - ends.loc["q0.05", 0] == pytest.approx(np.hypot(half, below), rel=1e-9)
    assert ends.loc["q0.05", 1] == pytest.approx(ends.loc["mean", 1], rel=1e-9)
    assert er.mean(log.assign(score=log["item"] % 2), **ROLES).params.to_list() == [0.5, 0, 0.5, 0.5, 0.5]

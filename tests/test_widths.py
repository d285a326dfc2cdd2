"""Widths of crossed contrasts: the rule by hand, monotone in axes and levels, and no certainty from a noise axis."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import evalreg as er
from evalreg.covariance.crossed import Widths, crossed_widths, dof_of_quantile, subset_signs, t_pvalues, t_quantile

TWO = [(0,), (1,), (0, 1)]
THREE = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
ROUNDING = 1e-10

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def random_widths(rng: np.random.Generator, m: int, dims: list[tuple[int, ...]], repair: str) -> Widths:
    """Pieces as effects of axes and of intersections give them, an axis without variance among them."""
    effects = rng.gamma(0.5, 1.0, (len(dims), m)) * (rng.uniform(size=(len(dims), m)) < 0.8)
    pieces = np.array([sum(e for e, of in zip(effects, dims, strict=True) if set(A) <= set(of)) for A in dims])
    dofs = np.array([rng.uniform(1.0, 30.0, m) if len(A) == 1 else np.full(m, 400.0) for A in dims])
    signs = subset_signs(dims) if repair == "max" else np.array([[float(len(A) == 1) for A in dims]])
    return crossed_widths(np.max(signs @ pieces, axis=0), pieces, dofs, dims, repair)


def half_by_hand(widths: Widths, column: int, level: float) -> float:
    """H from scipy's distribution of t, one contrast."""
    t = [stats.t.isf(level / 2, d) for d in widths.dofs[:, column]]
    sums = widths.signs @ (np.square(t) * widths.terms[:, column])
    return float(np.sqrt(max(sums.max(), 0.0)))


@pytest.mark.parametrize("repair", ["max", "two-term"])
@pytest.mark.parametrize("dims", [TWO, THREE])
def test_half_widths_and_p_values_are_those_of_the_formula(
    rng: np.random.Generator, dims: list[tuple[int, ...]], repair: str
) -> None:
    widths = random_widths(rng, 20, dims, repair)
    known = np.flatnonzero(widths.variance > 0)
    for level in (0.3, 0.05, 1e-4):
        np.testing.assert_allclose(
            widths.half(level)[known], [half_by_hand(widths, i, level) for i in known], rtol=ROUNDING
        )
    x = np.sqrt(np.where(widths.variance > 0, widths.variance, 1.0)) * rng.uniform(0.1, 6.0, widths.variance.size)
    p = widths.pvalues(x)
    for i in known:
        root = optimize.brentq(lambda u, i=i: half_by_hand(widths, i, np.exp(u)) - x[i], -60.0, 0.0, xtol=1e-13)
        assert p[i] == pytest.approx(np.exp(root), rel=1e-8)
    assert np.isnan(p[widths.variance == 0]).all()


def test_students_t_agrees_with_scipy() -> None:
    dof = np.array([0.7, 1.0, 3.3, 30.0, 1e4, 1e9, np.inf])
    for level in (0.9, 0.05, 1e-9):
        t = t_quantile(level, dof)
        np.testing.assert_allclose(t[:-1], stats.t.isf(level / 2, dof[:-1]), rtol=1e-9)
        assert t[-1] == pytest.approx(stats.norm.isf(level / 2), rel=1e-12)
        np.testing.assert_allclose(t_pvalues(t, dof), level, rtol=1e-8)
        np.testing.assert_allclose(dof_of_quantile(t[:4], level), dof[:4], rtol=1e-6)


def unequal_log(seed: int) -> pd.DataFrame:
    """Scores of two models in 12 clusters of which one holds half the rows, and a column of noise."""
    rng = np.random.default_rng(seed)
    repo, model = np.tile(np.repeat(np.arange(12), [120, *[11] * 11]), 2), np.repeat(["a", "b"], 241)
    score = 0.3 * (model == "b") * (1 + 4 * rng.normal(0, 0.3, 12)[repo]) + rng.normal(size=482)
    return pd.DataFrame({"model": model, "repo": repo, "score": score, "noise": rng.integers(0, 12, 482)})


def test_repairs_by_name_have_the_widths_of_their_rule() -> None:
    results = er.mean(unequal_log(5), by="model", groups="repo + noise")
    C = np.array([[-1.0, 1.0]])
    for repair in ("eigen", "none", "two-term", "max"):
        cov = results.with_cov(cov="CR2", repair=repair).cov
        axes = cov.one_way
        t2 = np.array([stats.t.isf(0.025, piece.dof(C)[0]) ** 2 for piece in axes])
        V = np.array([piece.variance(C)[0] for piece in axes])
        expected = cov.variance(C)[0] * np.sum(t2 * V) / V.sum()
        if repair == "two-term":
            expected = np.sum(t2 * V)
        if repair == "max":
            both = cov.pieces[2]
            whole = np.sum(t2 * V) - stats.t.isf(0.025, both.dof(C)[0]) ** 2 * both.variance(C)[0]
            expected = max(whole, *(t2 * V))
        assert cov.half_width(C)[0] == pytest.approx(np.sqrt(expected), rel=1e-9), repair

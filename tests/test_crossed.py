"""Crossed clusters: the sum over all sets of axes and its floor by a slow obvious version, and the defaults."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
import scipy.stats

import evalreg as er
from evalreg.checks import muted

EXACT = 1e-10
pytestmark = pytest.mark.filterwarnings(
    "ignore::evalreg.errors.FewClustersWarning", "ignore::evalreg.errors.DominantClusterWarning"
)
AXES = ("passage", "judge", "prompt")


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(12)
    n = 240
    log = pd.DataFrame({name: rng.integers(0, size, n) for name, size in zip(AXES, (15, 5, 4), strict=True)})
    of_each = [rng.normal(size=size)[log[name]] for name, size in zip(AXES, (15, 5, 4), strict=True)]
    # Passages and judges depend together: pairs of axes then decide.
    together = rng.normal(size=(15, 5))[log["passage"], log["judge"]]
    log["x"] = rng.normal(size=n)
    log["score"] = of_each[0] + 0.3 * of_each[1] + 0.2 * of_each[2] + together + rng.normal(size=n)
    return log


def _sets(axes):
    return [one for size in range(1, len(axes) + 1) for one in combinations(axes, size)]


def _term(log, columns, adjusted):
    """V_A from the residuals of one cluster after the other: (I - H_gg)^(-1/2) e_g under CR2."""
    X = np.column_stack([np.ones(len(log)), log["x"]])
    M = np.linalg.inv(X.T @ X)
    e = log["score"].to_numpy() - X @ M @ X.T @ log["score"].to_numpy()
    total, n_clusters = np.zeros((2, 2)), 0
    for rows in log.groupby(list(columns)).indices.values():
        own, n_clusters = X[rows], n_clusters + 1
        values, axes = np.linalg.eigh(np.eye(len(rows)) - own @ M @ own.T)
        turned = (axes * values**-0.5) @ axes.T @ e[rows] if adjusted else e[rows]
        influence = M @ own.T @ turned
        total += np.outer(influence, influence)
    factor = 1.0 if adjusted else n_clusters / (n_clusters - 1) * (len(log) - 1) / (len(log) - 2)
    return factor * total


@pytest.mark.parametrize("cov", ["CR1", "CR2"])
def test_three_axes_take_the_largest_sum_over_every_set_of_axes(log, cov):
    terms = {one: _term(log, one, cov == "CR2") for one in _sets(AXES)}
    sums = [sum((-1) ** (len(A) + 1) * terms[A] for A in _sets(some)) for some in _sets(AXES)]
    results = er.fit("score ~ x", log, groups=list(AXES), cov=cov)
    np.testing.assert_allclose(results.cov.raw, sums[-1], rtol=EXACT)
    C = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.5], [1.0, 2.0]])
    each = np.array([np.diag(C @ V @ C.T) for V in sums])
    np.testing.assert_allclose(results.cov.variance(C), each.max(axis=0), rtol=EXACT)
    # Two axes together give more here than any alone, and than all three.
    assert np.any(each[3:6].max(axis=0) > 1.01 * np.delete(each, [3, 4, 5], axis=0).max(axis=0))


@pytest.mark.parametrize("groups", ["passage + judge", "passage + judge + prompt"])
def test_to_name_the_default_changes_nothing(log, groups):
    plain, named = (er.fit("score ~ x", log, groups=groups, **asked) for asked in ({}, {"cov": "CR2"}))
    pd.testing.assert_frame_equal(plain.conf_int(), named.conf_int())
    assert (plain.bse.tolist(), plain.dof.tolist()) == (named.bse.tolist(), named.dof.tolist())


@pytest.mark.parametrize("cov", ["CR0", "CR1", "CR3"])
def test_no_covariance_of_more_axes_is_smaller_than_of_fewer(log, cov):
    three = er.mean(log, groups=list(AXES), cov=cov).bse.iloc[0]
    assert all(three >= er.mean(log, groups=list(some), cov=cov).bse.iloc[0] for some in combinations(AXES, 2))


def test_on_a_board_too_naming_the_default_changes_nothing():
    log = er.datasets.judge_log(n_models=4, n_prompts=30, n_judges=4, seed=2)
    asked = {"left": "left", "right": "right", "winner": "winner", "groups": "prompt + judge"}
    plain, named = er.win_rate(log, **asked), er.win_rate(log, **asked, cov="CR2")
    pd.testing.assert_frame_equal(plain.conf_int(), named.conf_int())


def test_more_than_six_axes_are_refused():
    rng = np.random.default_rng(1)
    log = pd.DataFrame({f"axis{i}": rng.integers(0, 4, 60) for i in range(7)} | {"score": rng.normal(size=60)})
    with pytest.raises(er.errors.ArgumentError, match="at most 6") as caught:
        er.fit("score ~ 1", log, groups=[f"axis{i}" for i in range(7)])
    assert caught.value.count == 7
    assert er.fit("score ~ 1", log, groups=[f"axis{i}" for i in range(4)]).bse.iloc[0] > 0


def test_the_intraclass_correlation_of_a_weighted_mean_by_hand():
    rng = np.random.default_rng(4)
    log = pd.DataFrame({"passage": np.repeat(np.arange(12), 5), "w": rng.uniform(0.2, 3.0, 60)})
    log["score"] = rng.normal(size=12)[log["passage"]] + rng.normal(size=60)
    results = er.mean(log, groups="passage", weights="w")
    # Analysis of variance with weights that add up to the rows (Snedecor and Cochran 1989, section 13.3).
    w = log["w"] * 60 / log["w"].sum()
    e = log["score"] - np.average(log["score"], weights=w)
    size, total, total_squares = (one.groupby(log["passage"]).sum() for one in (w, w * e, w * e**2))
    between = (total**2 / size).sum()
    msb, msw = between / 11, (total_squares.sum() - between) / 48
    m0 = (60 - (size**2).sum() / 60) / 11
    assert results.dependence()["icc"].iloc[0] == pytest.approx((msb - msw) / (msb + (m0 - 1) * msw), rel=EXACT)


def test_in_a_crossed_score_interval_judges_keep_their_design_effect():
    """By hand: prompts by Wilson's growth, judges and combinations times x(1 - x) over mean (1 - mean), t^2 V each."""
    rng, P, J = np.random.default_rng(4), 30, 5
    taste = np.array([0.0, 0.1, -0.05, 0.15, -0.2])
    y = (rng.random((P, J)) < 0.8 + 0.5 * rng.normal(0, 0.2, (P, 1)) + taste) * 1.0
    prompt, judge = np.indices((P, J)).reshape(2, -1)
    frame = pd.DataFrame({"prompt": prompt, "judge": judge, "score": y.ravel()})
    with muted():
        low, high = er.mean(frame, groups="prompt + judge").conf_int().iloc[0]
    n, p = P * J, y.mean()
    e = (y - p) / n
    V = np.array([np.sum(e.sum(axis=1) ** 2) / (1 - 1 / P), np.sum(e.sum(axis=0) ** 2) / (1 - 1 / J)])
    V_cells = np.sum(e**2) * n / (n - 1)
    t2 = [scipy.stats.t.ppf(0.975, dof) ** 2 for dof in (P - 1, J - 1, n - 1)]
    rarer = np.minimum(y.sum(axis=1), J - y.sum(axis=1))
    u = 0.5 / (0.5 + rarer)
    naive = p * (1 - p) / (n - 1)
    deff = max(V[0] / naive, 1.0)
    E = np.mean(u * (1 + 0.2 * (J - 1)) + (1 - u) * deff)
    base = V[0] + u.mean() * max(naive - V[0], 0.0)

    def half(x):
        v, now = x * (1 - x), p * (1 - p)
        of_prompts = base * min(v / now, 1.0) + E * max(v - now, 0.0) / n
        of_judges, of_cells = V[1] * v / now, V_cells * v / now
        crossed = t2[0] * of_prompts + t2[1] * of_judges - t2[2] * of_cells
        return np.sqrt(max(crossed, t2[0] * of_prompts, t2[1] * of_judges))

    expected = [scipy.optimize.brentq(lambda x: abs(x - p) - half(x), p, end) for end in (1e-9, 1 - 1e-9)]
    np.testing.assert_allclose([low, high], expected, atol=1e-9)
    assert V[1] * t2[1] > V[0] * t2[0]  # judges matter here, so that the test would see them stand still

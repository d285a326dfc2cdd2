"""Simultaneous intervals, adjusted p-values and the table of pairs, against other software and closed forms."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, special, stats
from statsmodels.stats.multitest import multipletests

import evalreg as er
from evalreg.errors import FormulaError
from evalreg.inference.simultaneous import family_of, pairwise_table, simultaneous

# Five standard errors of the simulation, which is at most 0.004 in a critical value.
CRITICAL = 0.02
# A share of 130,000 draws has a standard error below 0.0014.
SHARE = 0.006


def correlated(rng, n):
    A = rng.standard_normal((n, n + 3))
    return A @ A.T / n


# Reference values


@pytest.mark.pairwise
@pytest.mark.parametrize(
    ("estimate", "reference"), [("uniform", "z"), ("uniform", "t"), ("count", "z"), ("count", "t"), ("bt", "z")]
)
@pytest.mark.parametrize("name", ["d5_judges3", "d5_judges12"])
def test_all_pairs_agree_with_multcomp(golden, name, estimate, reference):
    g = golden(name)
    key = f"multi.{estimate}_prompt.{reference}"
    models = g.facts["models"]
    if estimate == "bt":
        theta, V = np.r_[0.0, g.value("bt.theta")], np.zeros((len(models), len(models)))
        V[1:, 1:] = g.value("bt.cov_prompt")
    else:
        theta, V = g.value(f"{estimate}.S"), g.value(f"{estimate}.cov_prompt")
    dof = np.inf if reference == "z" else g.facts["n_prompts"] - 1.0
    params = pd.Series(theta, index=models)
    bands = simultaneous(params, V, contrasts="pairs", dof=dof)
    assert [list(pair) for pair in bands.index] == g.facts["pair_order"]
    g.check(f"{key}.diff", bands["estimate"])
    g.check(f"{key}.se", bands["se"])
    g.check(f"{key}.crit95", bands.attrs["critical_value"])
    np.testing.assert_allclose(bands["p_adjusted"], g.value(f"{key}.p_single_step"), atol=SHARE)
    g.check(f"{key}.sim_ci_lo", bands["lower"])
    g.check(f"{key}.sim_ci_hi", bands["upper"])
    for method, known in [("holm", "holm"), ("fdr_bh", "bh"), ("bonferroni", "bonferroni")]:
        table = pairwise_table(params, V, method, dof=dof)
        g.check(f"{key}.p_raw", table["p_value"])
        if f"{key}.{known}" in g.values:
            g.check(f"{key}.{known}", table["p_adjusted"])
    single = pairwise_table(params, V, "single-step", dof=dof)
    np.testing.assert_allclose(single["p_adjusted"], g.value(f"{key}.p_single_step"), atol=SHARE)
    g.check(f"{key}.sim_ci_lo", single["lower"])


# Closed forms

# Each number of means and each number of degrees of freedom is among those of the default run.
MORE_OF_TUKEY = [(3, 4.0), (8, 30.0), (3, np.inf)]


@pytest.mark.parametrize(
    ("n", "dof"),
    [(8, 4.0), (3, 30.0), (8, np.inf), *(pytest.param(*one, marks=pytest.mark.slow) for one in MORE_OF_TUKEY)],
)
def test_all_pairs_of_independent_means_give_tukey(n, dof):
    theta = np.linspace(0, 4, n)
    bands = simultaneous(theta, np.eye(n), contrasts="pairs", dof=dof)
    tukey = stats.studentized_range.ppf(0.95, n, 1e5 if np.isinf(dof) else dof) / np.sqrt(2)
    assert bands.attrs["critical_value"] == pytest.approx(tukey, abs=CRITICAL)
    q = np.abs(bands["estimate"].to_numpy())[:: n - 2]
    p = [stats.studentized_range.sf(value, n, 1e5 if np.isinf(dof) else dof) for value in q]
    np.testing.assert_allclose(bands["p_adjusted"].iloc[:: n - 2], p, atol=SHARE)


def test_comparisons_with_a_baseline_give_dunnett():
    n = 5
    bands = simultaneous(np.zeros(n), np.eye(n), contrasts=np.column_stack([-np.ones(n - 1), np.eye(n - 1)]))
    c = bands.attrs["critical_value"]

    def inside(x):  # given the baseline at x, the others are independent
        return stats.norm.pdf(x) * (special.ndtr(x + c * np.sqrt(2)) - special.ndtr(x - c * np.sqrt(2))) ** (n - 1)

    assert integrate.quad(inside, -9, 9)[0] == pytest.approx(0.95, abs=SHARE)


def test_correlated_t_agrees_with_the_multivariate_t_of_scipy(rng):
    V = correlated(rng, 3)
    c = simultaneous(np.zeros(3), V, dof=6.0).attrs["critical_value"]
    R = V / np.sqrt(np.outer(np.diag(V), np.diag(V)))
    inside = stats.multivariate_t(shape=R, df=6, seed=0).cdf(np.full(3, c), lower_limit=np.full(3, -c))
    assert inside == pytest.approx(0.95, abs=SHARE)


@pytest.mark.parametrize("dof", [1.0, 7.5, np.inf])
def test_two_models_or_one_contrast_give_plain_t_exactly(dof):
    V = np.array([[0.04, 0.01], [0.01, 0.09]])
    plain = special.ndtri(0.975) if np.isinf(dof) else special.stdtrit(dof, 0.975)
    both = simultaneous([1.0, 0.2], V, contrasts="pairs", dof=dof)
    one = simultaneous([1.0, 0.2], V, contrasts=[1.0, 2.0], dof=dof)
    single = simultaneous([1.0], [[0.04]], dof=dof)
    for bands in (both, one, single):
        assert bands.attrs["critical_value"] == pytest.approx(plain, rel=1e-9)
        assert bands.attrs["monte_carlo_error"] < 1e-12
    table = pairwise_table([1.0, 0.2], V, dof=dof)
    np.testing.assert_allclose(both["p_adjusted"], table["p_value"], rtol=1e-9)
    np.testing.assert_allclose(both["lower"], table["lower"], rtol=1e-9)


# Degrees of freedom of each contrast


def test_own_degrees_of_freedom_are_mapped_on_both_sides(rng):
    V, dof = correlated(rng, 3), np.array([3.0, 12.0, np.inf])
    normal = simultaneous([1.0, -2.0, 0.5], V)
    bands = simultaneous([1.0, -2.0, 0.5], V, dof=dof)
    c = normal.attrs["critical_value"]
    assert bands.attrs["critical_value"] == c
    assert bands.attrs["dof"] is None
    half = (bands["upper"] - bands["lower"]).to_numpy() / 2 / bands["se"].to_numpy()
    # The chance beyond the half-width in the contrast's own t is that beyond c in the normal.
    np.testing.assert_allclose(stats.t.sf(half, dof), stats.norm.sf(c), rtol=1e-9)
    z = stats.norm.isf(stats.t.sf(np.abs(bands["estimate"] / bands["se"]), dof))
    again = simultaneous(z * np.sqrt(np.diag(V)), V)
    # Another order of the estimates draws other numbers.
    np.testing.assert_allclose(bands["p_adjusted"], again["p_adjusted"], atol=SHARE)


def test_a_p_value_below_alpha_is_an_interval_without_zero(rng):
    V, theta = correlated(rng, 6), 2.5 * rng.standard_normal(6)
    for dof in (np.inf, 9.0, rng.uniform(3, 40, 15)):
        bands = simultaneous(theta, V, contrasts="pairs", dof=dof)
        np.testing.assert_array_equal(bands["p_adjusted"] < 0.05, (bands["lower"] > 0) | (bands["upper"] < 0))


def test_far_tails_keep_their_order_and_stay_probabilities():
    bands = simultaneous([3.0, 12.0, 45.0, 1e6], np.eye(4), dof=[8.0, 50.0, 9.0, np.inf])
    p = bands["p_adjusted"].to_numpy()
    assert np.all((p >= 0) & (p <= 1))
    assert p[1] < 1e-10 < p[0]


# Covariance objects


@pytest.fixture(scope="module")
def board():
    log = pd.concat(
        [
            er.datasets.paired(n_passages=20, seed=seed).replace({"model": {"new": f"n{seed}", "old": f"o{seed}"}})
            for seed in (1, 2)
        ]
    )
    return er.mean(log, by="model", item="question", groups="passage")


def test_bands_are_the_intervals_of_single_contrasts_at_the_joint_level(board):
    bands = simultaneous(board.params, board.cov, contrasts="pairs")
    C = family_of(board.params, board.cov, "pairs").matrix
    np.testing.assert_allclose(bands["se"], np.sqrt(board.cov.variance(C)))
    ends = board.cov.limits(C @ board.params.to_numpy(), C, bands.attrs["level"])
    np.testing.assert_allclose(bands[["lower", "upper"]], ends)


@pytest.mark.parametrize(
    "seed",
    [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))],  # of two shapes, each twice
)
def test_one_log_never_says_two_things(seed):
    """Bands, single-step p-values, rank sets, letters and the best agree on which pairs are told apart."""
    rng = np.random.default_rng(seed)
    models = [f"m{i}" for i in range(6)]
    shape = (40, 3, 6) if seed % 2 else (15, 6, 6)
    rows = pd.MultiIndex.from_product([range(shape[0]), range(shape[1]), models], names=["prompt", "judge", "model"])
    taste = 0.1 * rng.standard_normal((1, shape[1], 6))
    log = pd.DataFrame({"score": (rng.standard_normal(shape) + taste + np.arange(6) * 0.6).ravel()}, index=rows)
    with pytest.warns(er.errors.FewClustersWarning):
        results = er.mean(log.reset_index(), by="model", groups="prompt + judge")
    bands = results.simultaneous(contrasts="pairs")
    apart = (bands["lower"] > 0) | (bands["upper"] < 0)
    pairs = results.pairwise("single-step")
    np.testing.assert_array_equal(apart, bands["p_adjusted"] <= 0.05)
    np.testing.assert_array_equal(apart, pairs["p_adjusted"] <= 0.05)
    np.testing.assert_array_equal(apart, (pairs["lower"] > 0) | (pairs["upper"] < 0))
    # Tests step down from there; rank sets, letters and the best are those of the tests.
    holm = results.pairwise("step-down")
    decided = holm["p_adjusted"] <= 0.05
    assert not (apart & ~decided).any() or ranks_by_bands(results)
    letters, ranks, params = results.leaderboard()["letters"], results.ranks(), results.params
    above = dict.fromkeys(models, 0)
    for left, right in decided.index[decided]:
        above[left if params[left] < params[right] else right] += 1
    for left, right in decided.index:
        assert decided[left, right] == (not set(letters[left]) & set(letters[right]))
    assert ranks["lower"].to_dict() == {name: 1 + count for name, count in above.items()}
    # Holm by hand is never surer, whatever decided.
    plain = multipletests(holm["p_value"], method="holm")[1]
    assert np.all(holm["p_adjusted"] <= plain + 1e-12)


def ranks_by_bands(results):
    return results.ranks().attrs["by"] == "bands"


# Step-down and deterministic adjustments


def test_step_down_rejects_no_less_and_ends_at_the_plain_p_value():
    theta = np.array([0.5, 1.5, 2.5, 4.0])
    single = simultaneous(theta, np.eye(4))["p_adjusted"]
    stepped = simultaneous(theta, np.eye(4), stepdown=True)["p_adjusted"]
    plain = 2 * special.ndtr(-theta)
    assert np.all(stepped <= single)
    holm = multipletests(plain, method="holm")[1]
    np.testing.assert_allclose(stepped, np.minimum(single, holm), rtol=1e-12)
    assert np.all(np.diff(stepped) <= 0)


# What is not in the family


def test_a_pair_without_variance_is_left_out_with_a_reason():
    V = np.array([[1.0, 1.0, 0.2], [1.0, 1.0, 0.2], [0.2, 0.2, 1.0]])
    params = pd.Series([1.0, 0.5, 0.0], index=["a", "b", "c"])
    bands = simultaneous(params, V, contrasts="pairs", stepdown=True)
    assert bands.attrs["left_out"] == {("a", "b"): "its variance is not positive"}
    assert bands.attrs["n_left_out"] == 1
    assert bands.loc[("a", "b"), "estimate"] == 0.5
    assert bands.loc[("a", "b"), ["se", "lower", "upper", "p_adjusted"]].isna().all()
    # The two others are one and the same statistic.
    assert bands.attrs["critical_value"] == pytest.approx(special.ndtri(0.975), rel=1e-9)
    table = pairwise_table(params, V, "bonferroni")
    np.testing.assert_allclose(table["p_adjusted"].iloc[1:], np.minimum(2 * table["p_value"].iloc[1:], 1))


# Seeds, order, arguments


def test_the_stated_error_is_the_spread_over_seeds():
    runs = [simultaneous(np.arange(2.0), np.eye(2), seed=seed).attrs for seed in range(20)]
    stated = np.mean([run["monte_carlo_error"] for run in runs])
    # The standard deviation of 20 runs is within a third of the truth, but for one time in 25.
    assert np.std([run["critical_value"] for run in runs], ddof=1) == pytest.approx(stated, rel=0.33)
    assert stated < 0.004


def test_intervals_hold_together_at_their_stated_rate(rng):
    V = correlated(rng, 4)
    c = simultaneous(np.zeros(4), V, contrasts="pairs", dof=6.0).attrs["critical_value"]
    root = np.linalg.cholesky(V)
    hits, runs = 0, 4000
    for _ in range(runs):
        draws = rng.standard_normal((7, 4)) @ root.T  # the mean of seven, and their covariance with 6 dof
        centre, S = draws.mean(axis=0), V / 7
        scale = rng.chisquare(6) / 6
        gaps, se = centre[:, None] - centre, np.sqrt(scale * (np.diag(S)[:, None] + np.diag(S) - 2 * S))
        hits += bool(np.all(np.abs(gaps) <= c * se + 1e-12))
    low, high = stats.binom.ppf([0.0005, 0.9995], runs, 0.95)
    assert low <= hits <= high


@pytest.mark.filterwarnings("ignore::evalreg.errors.IndependenceWarning")
@pytest.mark.parametrize("groups", [None, "prompt"])
@pytest.mark.parametrize("estimator", [er.win_rate, er.bradley_terry])
def test_bands_of_models_that_met_equally_often_do_not_depend_on_the_order_of_rows(rng, estimator, groups):
    sides = [(a, b) for a in "abcdef" for b in "abcdef" if a != b for _ in range(10)]
    log = pd.DataFrame(sides, columns=["left", "right"]).assign(score=lambda log: rng.integers(0, 2, len(log)) * 1.0)
    log["prompt"] = rng.integers(0, 200, len(log))
    boards = [estimator(rows, left="left", right="right", score="score", groups=groups) for rows in (log, log[::-1])]
    pd.testing.assert_frame_equal(*(board.simultaneous() for board in boards), rtol=1e-12)


def test_statements_about_all_models_neither_answer_for_a_text_nor_keep_their_covariance():
    log = er.datasets.paired(n_passages=20, seed=1)
    results = er.mean(log, by="model", item="question", groups="passage")
    results.leaderboard()
    with pytest.raises(FormulaError):
        results.simultaneous(contrasts="None")
    cov = weakref.ref(results.cov)
    gc.disable()
    del results
    gc.enable()
    assert cov() is None

"""Draws aimed at the tail of the largest of many statistics: their weights, their error, the tail that they tell."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special, stats

from evalreg.inference import multiplicity
from evalreg.inference.aimed import aimed_draws
from evalreg.inference.contrast_family import STEPDOWN_DRAWS, ContrastFamily
from evalreg.inference.largest import LargestStatistic
from evalreg.inference.levels import LargestLevel
from evalreg.inference.make_family import make_family
from evalreg.inference.multiplicity import beyond, simulate_largest

# A seed gives one draw of the error: with so many standard errors a right value is outside once in 15,000.
SURE = 4.0


@pytest.fixture
def dear(monkeypatch):
    """Draws are taken to cost much, as those of many more statistics do."""
    monkeypatch.setattr(multiplicity, "CHEAP_WORK", 0)


def found(family: ContrastFamily, *, aimed: bool = True, alpha: float = 0.05, base: int = 0) -> LargestStatistic:
    rank, count = family.factor.shape[1], int(family.inside.sum())
    target = family if aimed else None
    how = {"alpha": alpha, "dof": family.draw_dof, "base": base, "target": target}
    return simulate_largest(family.largest, rank, count, **how)[0]


def unlike(rng: np.random.Generator, n: int) -> np.ndarray:
    """A covariance with correlations of .5 on average, twins, and standard errors that differ tenfold."""
    A = rng.standard_normal((n, 100)) + 0.7 * rng.standard_normal(100)
    A[1], A[3] = A[0], A[2] + 0.01 * rng.standard_normal(100)
    return A @ A.T * np.outer(*[np.exp(0.5 * rng.standard_normal(n))] * 2)


def range_of_normals(n: int, alpha: float) -> float:
    """Quantile of the largest difference of n independent normals, over the root of 2."""
    x = np.linspace(-9, 9, 4001)

    def missed(w: float) -> float:
        inner = (special.ndtr(x + w) - special.ndtr(x)) ** (n - 1)
        return np.trapezoid(n * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi) * inner, x) - (1 - alpha)

    return optimize.brentq(missed, 1, 15) / np.sqrt(2)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
def test_all_pairs_of_many_independent_normals_have_the_quantile_of_their_range(alpha):
    largest = found(make_family(np.zeros(150), np.eye(150), "pairs"), alpha=alpha)
    assert largest.n_aimed > 0
    assert largest.quantile_error(alpha) <= 0.004
    truth = range_of_normals(150, alpha)
    assert largest.quantile(alpha) == pytest.approx(truth, abs=SURE * largest.quantile_error(alpha))


def test_all_pairs_of_many_means_with_one_variance_give_tukey():
    largest = found(make_family(np.zeros(100), np.eye(100), "pairs", 20.0))
    assert largest.n_aimed > 0
    tukey = stats.studentized_range.ppf(0.95, 100, 20.0) / np.sqrt(2)
    assert largest.quantile(0.05) == pytest.approx(tukey, abs=SURE * largest.quantile_error(0.05))


def test_many_independent_means_give_sidak(dear):
    largest = found(make_family(np.zeros(300), np.eye(300)))
    assert largest.n_aimed > 0
    sidak = -special.ndtri((1 - 0.95 ** (1 / 300)) / 2)
    assert largest.quantile(0.05) == pytest.approx(sidak, abs=SURE * largest.quantile_error(0.05))


@pytest.mark.parametrize("contrasts", [None, "pairs"])
def test_the_mean_weight_is_the_probability_of_what_was_aimed_at(rng, contrasts):
    family = make_family(np.zeros(45), unlike(rng, 45), contrasts)
    z = rng.standard_normal((20_000, family.factor.shape[1]))
    z /= np.sqrt((z**2).sum(axis=1))[:, None]
    plain, least = family.largest(z)[:, 0], 0.45
    extent, weight = aimed_draws(family, z.shape[1], least, 4000, rng)
    assert extent.min() > least * (1 - 1e-6)
    for value in (least, 0.5, 0.55):
        aimed, share = weight * (extent > value), np.mean(plain > value)
        error = np.hypot(aimed.std() / np.sqrt(4000), np.sqrt(share * (1 - share) / plain.size))
        assert aimed.mean() == pytest.approx(share, abs=SURE * error)


def test_the_whole_tail_is_that_of_plain_draws(rng, dear):
    family = make_family(np.zeros(90), unlike(rng, 90), "pairs")
    aimed, plain = found(family), found(family, aimed=False)
    assert plain.n_aimed == 0 < aimed.n_aimed
    assert aimed.n_draws < plain.n_draws
    for alpha in (0.9, 0.5, 0.2, 0.05, 0.01):
        error = np.hypot(plain.drawn_error(alpha), aimed.drawn_error(alpha))
        assert aimed.quantile(alpha) == pytest.approx(plain.quantile(alpha), abs=SURE * error)
    assert aimed.weight.sum() == pytest.approx(1.0, abs=1e-12)


def test_the_stated_error_of_aimed_draws_is_the_spread_over_seeds(dear):
    family = make_family(np.zeros(36), unlike(np.random.default_rng(1), 36), "pairs")
    drawn = [found(family, base=seed) for seed in range(30)]
    assert all(one.n_aimed > 0 for one in drawn)
    quantiles = [one.quantile(0.05) for one in drawn]
    stated = np.mean([one.quantile_error(0.05) for one in drawn])
    # The standard deviation of 30 is right to 13%.
    assert 0.6 < np.std(quantiles, ddof=1) / stated < 1.4


def test_plain_draws_decide_where_twins_make_aimed_ones_tell_little(dear):
    vendor = np.arange(60) // 6
    V = (vendor[:, None] == vendor) * np.exp(vendor / 3) + 1e-3 * np.eye(60)
    family = make_family(np.zeros(60), V, "pairs")
    largest, plain = found(family), found(family, aimed=False)
    assert largest.quantile_error(0.05) <= 0.004
    assert largest.n_draws <= 1.5 * plain.n_draws
    error = np.hypot(largest.quantile_error(0.05), plain.quantile_error(0.05))
    assert largest.quantile(0.05) == pytest.approx(plain.quantile(0.05), abs=SURE * error)


def test_a_seed_gives_plain_and_aimed_draws_again():
    family = make_family(np.zeros(100), np.eye(100), "pairs")
    first, again, other = (found(family, base=seed).quantile(0.05) for seed in (3, 3, 4))
    assert first == again != other


def test_statistics_beyond_a_value_are_counted_as_one_by_one(rng):
    directions, statistics = rng.standard_normal((30, 8)), rng.standard_normal((50, 8))
    values = np.abs(directions @ statistics.T)
    largest, number = beyond(directions, statistics.astype(np.float32), 2.0)
    np.testing.assert_allclose(largest, values.max(axis=1), rtol=1e-6)
    np.testing.assert_array_equal(number, (values > 2.0).sum(axis=1))


def test_few_statistics_that_cost_little_are_drawn_as_they_come():
    assert found(make_family(np.zeros(20), np.eye(20), "pairs")).n_aimed == 0


def test_step_down_has_as_many_plain_draws_as_it_takes(rng, dear):
    family = make_family(rng.standard_normal(60), np.eye(60), "pairs")
    level = LargestLevel(found(family))
    assert 0 < level.largest.n_aimed <= level.n_draws < STEPDOWN_DRAWS
    counted = family.stepdown(0, level) * (1 + STEPDOWN_DRAWS)
    np.testing.assert_allclose(counted, np.rint(counted), rtol=0, atol=1e-6)
    assert (counted >= 1 - 1e-6).all()

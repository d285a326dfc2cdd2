"""Planning with clusters, costs, judges and simulation: other software, grids searched in full, simulated truth."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

import evalreg as er
from evalreg.planning.power import t_power, t_units
from evalreg.planning.separation import CrossedPilot, crossed_power, expected_error, grid

SIGMAS = 4
VARIANCES: dict[str, Any] = {"omega2": 1 / 9, "sigma2_a": 1 / 6, "sigma2_b": 1 / 6}
INF = float("inf")


# --- the t distribution in place of the normal ------------------------------------------------------------------------


@pytest.mark.parametrize("dof", [1, 2.5, 7, 60, 3000])
@pytest.mark.parametrize("shift", [0.0, 0.7, 2.8, 6.0])
@pytest.mark.parametrize("alpha", [0.05, 0.001])
def test_power_is_that_of_the_noncentral_t(dof, shift, alpha):
    critical = stats.t.ppf(1 - alpha / 2, dof)
    # The lower tail as the upper tail of the mirrored distribution: scipy's own is NaN for some arguments.
    with np.errstate(all="ignore"):
        expected = stats.nct.sf(critical, dof, shift) + stats.nct.sf(critical, dof, -shift)
    np.testing.assert_allclose(t_power(shift, dof, alpha), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(("effect", "alpha", "power"), [(0.5, 0.05, 0.8), (0.2, 0.01, 0.9), (1.2, 0.05, 0.95)])
def test_units_are_those_of_statsmodels_rounded_up(effect, alpha, power):
    expected = TTestPower().solve_power(effect_size=effect, alpha=alpha, power=power, alternative="two-sided")
    assert t_units(1.0, effect, alpha, power) == math.ceil(expected)


@pytest.mark.parametrize(("alpha", "power"), [(0.05, 0.8), (0.01, 0.9), (0.1, 0.5), (0.05, 0.99)])
@pytest.mark.parametrize("n", [2, 3, 5, 10, 30, 100, 200, 1000])
def test_independent_questions_have_the_power_asked_for_of_a_t_test(n, alpha, power):
    detected = er.plan.mde(n=n, omega2=0.3, alpha=alpha, power=power)
    real = t_power(detected / math.sqrt(0.3 / n), n - 1, alpha)
    # Above it by what is rejected at the wrong side, which eq. 10 leaves out.
    assert power - 0.026 * min(power, 1 - power) < real < power + 1e-4
    if n <= 30:
        np.testing.assert_allclose(real, power, rtol=1e-6)
        assert detected == er.plan.mde(n=n, n_clusters=n, omega2=0.3, alpha=alpha, power=power)
    assert er.plan.sample_size(delta=detected, omega2=0.3, alpha=alpha, power=power) == n


# --- clusters of a given size -----------------------------------------------------------------------------------------


def test_clusters_follow_the_design_effect():
    for size, icc in itertools.product((1, 4, 30), (0.0, 0.2, 1.0)):
        effect = 0.06 / math.sqrt((1 + (size - 1) * icc) / 9 / size)
        expected = TTestPower().solve_power(effect_size=effect, alpha=0.05, power=0.8, alternative="two-sided")
        assert er.plan.clusters(delta=0.06, cluster_size=size, omega2=1 / 9, icc=icc) == math.ceil(expected)


# --- simulation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("icc", [0.0, 0.3])
@pytest.mark.parametrize("n_clusters", [5, 40])
def test_with_equal_clusters_simulated_power_is_that_of_t(n_clusters, icc):
    found = er.plan.power(delta=0.1, cluster_sizes=[5] * n_clusters, icc=icc, draws=20_000, seed=3, **VARIANCES)
    per_cluster = ((1 + 4 * icc) / 9 + 1 / 3) / 5
    expected = t_power(0.1 / math.sqrt(per_cluster / n_clusters), n_clusters - 1, 0.05)
    assert abs(found.power - expected) < SIGMAS * found.standard_error
    assert math.isclose(found.dof, n_clusters - 1)


@pytest.mark.parametrize("n", [50, pytest.param(200, marks=pytest.mark.slow)])
def test_the_simulated_test_is_the_one_that_mean_makes(rng, n):
    sizes = np.array([1, 1, 2, 3, 9, 4, 2])
    found = er.plan.power(delta=0.4, cluster_sizes=sizes, omega2=0.2, icc=0.4, draws=20_000, seed=1)
    passage, rejections = np.repeat(np.arange(7), sizes), 0
    for _ in range(n):
        effect = rng.normal(0, math.sqrt(0.08), 7)[passage]
        frame = pd.DataFrame({"g": passage, "score": 0.4 + effect + rng.normal(0, math.sqrt(0.12), passage.size)})
        with pytest.warns(er.errors.EvalregWarning):
            results = er.mean(frame, groups="g")
        rejections += results.pvalues["mean"] < 0.05
    assert math.isclose(found.dof, results.dof["mean"], rel_tol=1e-9)
    assert abs(found.power - rejections / n) < SIGMAS * math.sqrt(0.25 / n)


# --- answers and their costs ------------------------------------------------------------------------------------------


@given(st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 50), st.floats(0.05, 5), st.floats(0.05, 5))
def test_no_whole_numbers_of_answers_are_cheaper(omega2, sigma2_a, sigma2_b, question, cost_a, cost_b):
    variances = {"omega2": omega2, "sigma2_a": sigma2_a, "sigma2_b": sigma2_b}
    costs = {"cost_question": question, "cost_a": cost_a, "cost_b": cost_b}
    # As many questions as no array holds are planned as fewer are.
    plan, _ = (er.plan.answers(delta=delta, **variances, **costs) for delta in (0.001, 1e-6))

    def price(k_a: int, k_b: int) -> float:
        return (omega2 + sigma2_a / k_a + sigma2_b / k_b) * (question + cost_a * k_a + cost_b * k_b)

    k = np.arange(1, 400)
    grid = (omega2 + sigma2_a / k[:, None] + sigma2_b / k) * (question + cost_a * k[:, None] + cost_b * k)
    assert price(plan.k_a, plan.k_b) <= grid.min() * (1 + 1e-9)


@pytest.mark.parametrize("cluster_size", [None, 1, 7.5, 20])
def test_no_neighbour_is_cheaper_where_questions_are_few(cluster_size):
    rng = np.random.default_rng(3)
    for _ in range(2):
        omega2, sigma2_a, sigma2_b = rng.uniform(0.02, 1, 3)
        question, delta = rng.uniform(0, 30), rng.choice([0.1, 0.3, 1.0])
        costs = dict(zip(("cost_a", "cost_b"), rng.uniform(0.5, 5, 2), strict=True))
        test = {"delta": delta, "omega2": omega2, "sigma2_a": sigma2_a, "sigma2_b": sigma2_b}
        plan = er.plan.answers(**test, cost_question=question, cluster_size=cluster_size, **costs)
        k = range(1, max(plan.k_a, plan.k_b) + 3)
        for k_a, k_b in itertools.product(k, k):
            n = er.plan.sample_size(**test, k_a=k_a, k_b=k_b, cluster_size=cluster_size)
            assert plan.cost <= n * (question + costs["cost_a"] * k_a + costs["cost_b"] * k_b) * (1 + 1e-12)
        assert plan.cost <= plan.cost_one_answer
        n = er.plan.sample_size(**test, k_a=plan.k_a, k_b=plan.k_b, cluster_size=cluster_size)
        assert plan.n == n


# --- prompts and judges -----------------------------------------------------------------------------------------------


def known_board(parts: tuple[float, float, float], prompts: int, judges: int) -> tuple[CrossedPilot, np.ndarray]:
    design, twice = grid(prompts, judges), (2 * parts[0], 2 * parts[1], 2 * parts[2])
    return CrossedPilot(design, twice, twice, (INF, INF)), design


def test_the_variance_of_a_difference_on_a_board_is_the_simulated_one(rng):
    parts, prompts, judges, n = (0.3, 0.1, 0.5), 12, 4, 4000
    hard, strict = rng.normal(size=(n, 1, prompts, 1)), rng.normal(size=(n, 1, 1, judges))
    ratings = (
        hard
        + strict
        + rng.normal(0, math.sqrt(parts[0]), (n, 2, prompts, 1))
        + rng.normal(0, math.sqrt(parts[1]), (n, 2, 1, judges))
        + rng.normal(0, math.sqrt(parts[2]), (n, 2, prompts, judges))
    )
    means = ratings.mean(axis=(2, 3))
    variance = expected_error(*known_board(parts, prompts, judges), 0.05)[0] ** 2
    assert abs(np.var(means[:, 0] - means[:, 1]) / variance - 1) < SIGMAS * math.sqrt(2 / n)


@pytest.mark.parametrize(("prompts", "judges"), [(30, 4), (200, 3), (6, 9)])
def test_degrees_of_freedom_of_a_board_are_those_of_its_three_pieces(prompts, judges):
    parts = (0.3, 0.02, 0.5)
    by_prompt, by_judge, rest = (
        2 * part / n for part, n in zip(parts, (prompts, judges, prompts * judges), strict=True)
    )
    # The sample variance of all ratings about their mean, over their number, holds a part of all three.
    cells = prompts * judges
    within = ((prompts - 1) * by_prompt + (judges - 1) * by_judge + (cells - 1) * rest) / (cells - 1)
    pieces = (by_prompt + rest, by_judge + rest, within)
    dofs = (prompts - 1, judges - 1, prompts * judges - 1)
    terms = [stats.t.isf(0.025, d) ** 2 * v for v, d in zip(pieces, dofs, strict=True)]
    half = math.sqrt(max(terms[0] + terms[1] - terms[2], *terms[:2]))
    se, dof = expected_error(*known_board(parts, prompts, judges), 0.05)
    assert se**2 == pytest.approx(by_prompt + by_judge + rest, rel=1e-12)
    shown = math.sqrt(max(pieces[0] + pieces[1] - pieces[2], *pieces[:2]))
    assert stats.t.isf(0.025, dof) * shown == pytest.approx(half, rel=1e-9)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize("n", [40, pytest.param(160, marks=pytest.mark.slow)])
def test_the_planned_board_has_about_the_power_asked_for_under_the_default_test(rng, n):
    parts, judges = (0.05, 0.001, 0.1), 10
    prompts = next(n for n in range(2, 9999) if crossed_power(*known_board(parts, n, judges), 0.1, 0.05) >= 0.8)
    prompt, judge = np.repeat(np.arange(prompts), judges), np.tile(np.arange(judges), prompts)
    sd = [math.sqrt(2 * part) for part in parts]
    rejections = 0
    for _ in range(n):
        effects = rng.normal(0, sd[0], prompts)[prompt] + rng.normal(0, sd[1], judges)[judge]
        score = 0.1 + effects + rng.normal(0, sd[2], prompt.size)
        found = er.mean({"score": score, "prompt": prompt, "judge": judge}, groups="prompt + judge")
        rejections += found.pvalues["mean"] < 0.05
    assert 0.8 - SIGMAS * math.sqrt(0.16 / n) < rejections / n < 0.8 + SIGMAS * math.sqrt(0.16 / n)


# --- the half-width of one score --------------------------------------------------------------------------------------


def half_width(rate: float | None, deff: float, effect: float, n: float, dof: float) -> float:
    """By t, or of the score interval: (rate - x)^2 = t^2 V(x) on either side, rates above a half."""
    t, spread = stats.t.isf(0.025, dof), 0.3 if rate is None else rate * (1 - rate)
    by_t = t * math.sqrt(deff * spread / n)
    if rate is None:
        return by_t
    # V(x) = (deff spread + effect (x (1 - x) - spread))/n towards 1/2, where it grows; deff x (1 - x)/n beyond.
    sides = ((deff - effect) * spread, effect), (0.0, deff)
    roots = [np.roots([1 + t**2 * E / n, -2 * rate - t**2 * E / n, rate**2 - t**2 * at_0 / n]) for at_0, E in sides]
    return max(by_t, (max(roots[1]) - min(roots[0])) / 2)


@pytest.mark.parametrize("wanted", [0.02, 0.1])
@pytest.mark.parametrize(
    ("rate", "known", "deff"),
    [
        (0.7, {"rate": 0.7}, 1.0),
        (0.98, {"rate": 0.98, "deff": 2.5}, 2.5),
        (0.9, {"rate": 0.9, "icc": 0.2, "cluster_size": 5}, 1.8),
        (0.98, {"rate": 0.98, "icc": 0.05, "cluster_size": 100}, 5.95),
        (None, {"variance": 0.3}, 1.0),
        (None, {"variance": 0.3, "deff": 2.0, "cluster_size": 10}, 2.0),
    ],
)
def test_a_precision_is_had_from_the_fewest_rows_whose_interval_has_it(rate, known, deff, wanted):
    plan = er.plan.precision(half_width=wanted, **known)
    step, effect, normal = known.get("cluster_size", 1), deff, known.keys() <= {"rate", "deff"}
    if "icc" in known:
        # What clusters are expected not to show is granted an ICC of 0.2.
        k, shape = np.arange(step + 1), 1 / known["icc"] - 1
        chance = stats.betabinom.pmf(k, step, rate * shape, (1 - rate) * shape)
        unseen = chance @ (0.5 / (0.5 + np.minimum(k, step - k)))
        effect = unseen * (1 + 0.2 * (step - 1)) + (1 - unseen) * deff
    halves = [half_width(rate, deff, effect, n, INF if normal else n / step - 1) for n in (plan.n - step, plan.n)]
    assert halves[1] <= wanted < halves[0]
    assert plan.expected == pytest.approx(halves[1], rel=1e-9)
    assert (plan.effective, plan.deff) == (pytest.approx(plan.n / deff), pytest.approx(deff))


def test_a_pilot_needs_as_many_rows_as_it_has_for_the_interval_that_it_has():
    pilot = er.datasets.passages(n_passages=12, questions_per_passage=100, mean=0.97, icc=0.1, seed=4)
    score = er.mean(pilot, groups="passage")
    assert er.plan.precision(half_width=np.ptp(score.conf_int()) / 2 * (1 + 1e-9), pilot=score).n == 1200
    # A difference from a fixed value is planned with the standard error, whatever interval the mean has.
    by_t = er.mean(pilot, groups="passage", icc=None)
    pd.testing.assert_frame_equal(*(er.plan.from_pilot(results, delta=0.05) for results in (score, by_t)))

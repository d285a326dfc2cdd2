"""From a pilot to a number of questions: reference values, consistency with eq. 9 and 10, simulated truth."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from statsmodels.stats.power import TTestPower

import evalreg as er
from evalreg.errors import ArgumentError
from evalreg.planning.power import t_power, t_shift

SAME = 1e-11
SIGMAS = 4


@pytest.fixture(scope="module")
def pilot() -> pd.DataFrame:
    return er.datasets.sampled(n_questions=300, n_samples=4, n_models=2, correlation=0.5, icc=0.3, seed=2)


@pytest.fixture(scope="module")
def found(pilot) -> pd.DataFrame:
    return er.plan.components(pilot, item="question", groups="passage")


@pytest.fixture(scope="module")
def difference(pilot) -> er.Results:
    return er.mean(pilot, by="model", item="question", sample="sample", groups="passage").contrast("model-1 - model-2")


@pytest.mark.parametrize("corrected", [True, False])
def test_each_row_is_planned_from_its_components(found, corrected):
    plan = er.plan.from_pilot(found, delta=0.05, k_a=2, k_b=7, corrected=corrected)
    for name in ("plain", "clustered"):
        row = found.loc[name]
        omega2 = row["omega2" if corrected else "omega2_uncorrected"]
        variances = {"omega2": omega2, "sigma2_a": row["sigma2_a"], "sigma2_b": row["sigma2_b"], "k_a": 2, "k_b": 7}
        assert plan.loc[name, "n_eq9"] == er.plan.sample_size(delta=0.05, **variances)
        G, size = row["n_clusters"], row["n"] / row["n_clusters"]
        # Cluster sums were centred at their mean, the noise of answers was not.
        factor = row["omega2_uncorrected"] / (G - 1) if name == "clustered" else 0.0
        variance = omega2 + row["sigma2_a"] / 2 + row["sigma2_b"] / 7 + factor
        np.testing.assert_allclose(plan.loc[name, "variance"], variance, rtol=SAME)
        assert plan.loc[name, "n"] == plan.loc[name, "n_clusters"] * size
        # More than with a variance that is known for sure, and not by much from 60 clusters or 300 questions.
        known = er.plan.sample_size(delta=0.05, omega2=variance, cluster_size=size)
        assert known < plan.loc[name, "n"] < known * (1 + 5 / G)
        assert plan.loc[name, "mde"] > er.plan.mde(n=int(row["n"]), n_clusters=int(G), omega2=variance)


def test_an_average_over_pilots_is_that_of_julious_and_owen():
    # With a test that knows its variance: the noncentral t with the degrees of freedom of the pilot, their eq. 4.
    for dof in (2, 9, 59):
        expected = stats.nct.ppf(0.8, dof, stats.norm.ppf(0.975))
        # Theirs leaves out what is rejected at the wrong side.
        assert expected * 0.998 < t_shift(1e9, 0.05, 0.8, dof) <= expected * (1 + 1e-6)


def normal_pilots(rng, n_clusters: int, n: int) -> np.ndarray:
    """Variances, as appendix C has them, of pilots whose clusters have normal sums; the truth is 1."""
    totals = rng.normal(size=(n, n_clusters))
    return np.mean((totals - totals.mean(axis=1, keepdims=True)) ** 2, axis=1)


def table_of(variance: float, n_clusters: int, size: int = 5) -> pd.DataFrame:
    """Components as `er.plan.components` gives them, of clusters that are all alike inside."""
    row = {"omega2": variance * size, "omega2_uncorrected": variance * size, "sigma2_a": 0.0, "sigma2_b": 0.0}
    row |= {"k_a": 2.0, "k_b": 2.0, "n": n_clusters * size, "n_clusters": n_clusters}
    return pd.DataFrame([row | {"n_clusters": row["n"]}, row], ["plain", "clustered"])


@pytest.mark.slow
@pytest.mark.parametrize("n_clusters", [5, 10])
def test_plans_of_small_pilots_have_the_power_asked_for_on_average(rng, n_clusters):
    delta, powers = 0.5, []
    for variance in normal_pilots(rng, n_clusters, 100):
        units = er.plan.from_pilot(table_of(variance, n_clusters), delta=delta).loc["clustered", "n_clusters"]
        powers.append(t_power(delta * math.sqrt(units), units - 1, 0.05))
    # The number of clusters is whole: with 30 or so one more is half a percent of power.
    assert abs(np.mean(powers) - 0.8) < SIGMAS * np.std(powers) / math.sqrt(len(powers)) + 0.005


@pytest.mark.parametrize("assurance", [0.5, 0.9])
def test_an_assurance_is_the_share_of_pilots_whose_plan_has_the_power(rng, assurance):
    n_clusters, delta, n = 10, 0.1, 50
    enough = er.plan.sample_size(delta=delta, omega2=1.0, cluster_size=1)
    found = [
        er.plan.from_pilot(table_of(variance, n_clusters), delta=delta, assurance=assurance).loc[
            "clustered", "n_clusters"
        ]
        for variance in normal_pilots(rng, n_clusters, n)
    ]
    error = math.sqrt(assurance * (1 - assurance) / n)
    assert abs(np.mean(np.array(found) >= enough) - assurance) < SIGMAS * error


@pytest.mark.parametrize("k", [1, 10])
def test_an_assurance_allows_for_the_error_of_the_pilots_noise_by_hand(k):
    log = er.datasets.sampled(n_questions=40, n_samples=3, n_models=2, correlation=0.5, seed=0)
    table = er.plan.components(log, item="question")
    row = table.loc["plain"]
    variance = row["omega2"] + (row["sigma2_a"] + row["sigma2_b"]) / k
    # Satterthwaite: the variance seen has n - 1 degrees of freedom, the noise put in place of the pilot's 2 n.
    error = row["omega2_uncorrected"] ** 2 / (row["n"] - 1)
    error += sum(((1 / k - 1 / 3) * row[name]) ** 2 for name in ("sigma2_a", "sigma2_b")) / (row["n"] * 2)
    dof = variance**2 / error
    effect = 0.05 / math.sqrt(variance * dof / stats.chi2.ppf(0.1, dof))
    needed = TTestPower().solve_power(effect_size=effect, alpha=0.05, power=0.8)
    plan = er.plan.from_pilot(table, delta=0.05, k_a=k, k_b=k, assurance=0.9)
    assert plan.loc["plain", "n"] == math.ceil(needed)


def test_components_with_their_factor_are_the_default_variance_of_a_paired_difference(pilot):
    # CR2 of equal clusters is G/(G - 1) times the sums of squares.
    found = er.plan.components(pilot, item="question", groups="passage").loc["clustered"]
    paired = er.compare(pilot, item="question", sample="sample", groups="passage").results
    factor = found["n_clusters"] / (found["n_clusters"] - 1)
    np.testing.assert_allclose(factor * found["omega2_uncorrected"], 300 * paired.bse.iloc[0] ** 2, rtol=SAME)


@pytest.mark.parametrize(("row", "name"), [("clustered", "clustered"), ("plain", "unclustered_naive")])
@pytest.mark.parametrize(("k_a", "k_b"), [(1, 1), (4, 4), (2, 7)])
def test_reference_pilots_give_the_reference_numbers(golden, row, name, k_a, k_b):
    reference = golden("d2_paired")
    tall = reference.frame.melt(["question", "passage", "k"], ["a_cont", "b_cont"], "model", "score")
    found = er.plan.components(tall, item="question", sample="k", groups="passage")
    plan = er.plan.from_pilot(found, delta=0.04, k_a=k_a, k_b=k_b, corrected=False)
    key = f"cont.components.n_eq9_{name}_K{k_a}_{k_b}_delta0.04"
    assert plan.loc[row, "n_eq9"] == math.ceil(reference.value(key))


def test_a_difference_is_planned_with_its_own_standard_error_as_the_true_difference_has_it(pilot, difference):
    plan = er.plan.from_pilot(difference, delta=0.05)
    answers = pilot.pivot_table(index="question", columns="model", values="score")
    d = answers["model-1"] - answers["model-2"]
    d = d * np.sign(d.mean())
    size, square, theta = d.abs().mean(), (d**2).mean(), d.mean()

    def unlikely(rate):
        """Minus Tango's log-likelihood of so many gains and losses, were the difference 0.05."""
        gains, losses = (size + theta) / 2, (size - theta) / 2
        shares = (rate + 0.05) / 2, (rate - 0.05) / 2, 1 - rate
        return -np.dot([gains, losses, 1 - size], np.log(shares))

    found = optimize.minimize_scalar(unlikely, bounds=(0.0501, 0.9999), method="bounded", options={"xatol": 1e-10})
    ratio = (square / size * found.x - 0.05**2) / (square - theta**2)
    variance = difference.bse.iloc[0] ** 2 * 300 * ratio
    np.testing.assert_allclose(plan.loc["clustered", "variance"], variance, rtol=1e-6)
    assert plan.loc["clustered", "n"] == 5 * plan.loc["clustered", "n_clusters"]
    # What the pilot's own clusters detect needs just these.
    again = er.plan.from_pilot(difference, delta=plan.loc["clustered", "mde"] * (1 + 1e-6))
    assert again.loc["clustered", "n_clusters"] == difference.n_clusters["passage"]


@pytest.mark.filterwarnings("ignore::evalreg.errors.UnequalQuestionsWarning")
def test_a_contrast_counts_its_own_questions_and_clusters(pilot, difference):
    others = [pilot[pilot["model"] == "model-1"].assign(model=f"other-{i}") for i in range(6)]
    # Three models answered only some of the questions, and one the questions of another benchmark.
    others = [other[other["question"] < f"question-{40 * i + 40:04d}"] for i, other in enumerate(others)]
    others[0] = others[0].assign(question="new " + others[0]["question"], passage="new " + others[0]["passage"])
    board = er.mean(pd.concat([pilot, *others]), by="model", item="question", sample="sample", groups="passage")
    assert board.nobs > 1000
    alone = er.plan.from_pilot(difference, delta=0.05)
    pd.testing.assert_frame_equal(er.plan.from_pilot(board.contrast("model-1 - model-2"), delta=0.05), alone, rtol=1e-9)
    # The paired differences of `compare` say the same, and so do items that are the clusters.
    paired = er.plan.from_pilot(er.compare(pilot, item="question", sample="sample", groups="passage"), delta=0.05)
    pd.testing.assert_frame_equal(paired, alone, rtol=1e-9)
    by_item = board.with_cov(groups="question").contrast("model-1 - model-2")
    pd.testing.assert_frame_equal(er.plan.from_pilot(by_item, delta=0.05), alone.loc[["plain"]], rtol=1e-9)


def few_of(wins: int, losses: int, n: int) -> pd.DataFrame:
    """Two models that differ on some of n independent questions."""
    score = np.zeros((2, n))
    score[:, n // 2 :] = 1.0
    score[0, :wins], score[0, n - losses :] = 1.0, 0.0
    return pd.DataFrame(
        {"model": np.repeat(["new", "old"], n), "item": np.tile(np.arange(n), 2), "score": score.ravel()}
    )


@pytest.mark.parametrize(("wins", "losses", "n"), [(6, 2, 200), (10, 1, 300), (4, 3, 400)])
@pytest.mark.parametrize("delta", [0.02, 0.04])
def test_a_plan_from_few_differences_has_the_power_of_the_test_that_allows_for_more(rng, wins, losses, n, delta):
    pilot = er.compare(few_of(wins, losses, n), item="item", baseline="old")
    planned = int(er.plan.from_pilot(pilot, delta=delta).loc["plain", "n"])
    # Tango's likeliest rate of questions that differ, were the difference `delta`.
    rate, theta = (wins + losses) / n, (wins - losses) / n
    B, C = (2 - theta) * delta - rate, delta * (1 - delta) * (rate - theta) / 2
    rate = max(delta + (math.sqrt(B * B + 8 * C) - B) / 2, delta)
    counts = rng.multinomial(planned, [(rate + delta) / 2, (rate - delta) / 2, 1 - rate], 4000).astype(float)
    found, share = (counts[:, 0] - counts[:, 1]) / planned, (counts[:, 0] + counts[:, 1]) / planned
    # Under no difference Tango's variance is (b + c)/n^2; never below Wald's.
    wald = (share - found**2) / (planned - 1)
    statistic = found / np.sqrt(np.maximum(wald + np.maximum(found**2, 0) / planned, 1e-300))
    power = np.mean(np.abs(statistic) > stats.t.ppf(0.975, planned - 1))
    # Four standard errors of 4,000 logs are 0.025; counts of few wins are skewed to the safe side.
    assert 0.775 < power < 0.93
    # A larger difference needs more questions that differ than the pilot had: its own variance would plan too few.
    assert planned > er.plan.sample_size(delta=delta, omega2=rate - delta**2)


def test_a_corrected_omega2_at_or_below_zero_is_refused_with_the_reason():
    small = er.datasets.sampled(n_questions=12, n_samples=2, n_models=2, correlation=0.9, seed=1)
    found = er.plan.components(small, item="question")
    with pytest.raises(
        ArgumentError, match=r'row "plain" must be positive.*-0\.1212.*before: 0\.1287.*corrected=False'
    ):
        er.plan.from_pilot(found, delta=0.05)
    assert er.plan.from_pilot(found, delta=0.05, corrected=False).loc["plain", "n"] > 0


@pytest.mark.parametrize("plan", [er.plan.from_pilot, er.plan.separate])
def test_a_difference_of_more_than_one_is_refused_of_scores_up_to_one(difference, plan):
    with pytest.raises(ArgumentError, match=r"at most 1.*got 5"):
        plan(difference, delta=5)

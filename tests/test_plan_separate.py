"""Prompts and judges until two named models separate: brute force, simulated truth, consistency, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import evalreg as er
from evalreg.planning import separation as crossed_powers
from evalreg.planning.power import fewest
from evalreg.planning.separation import CrossedPilot, _crossed_pilot, crossed_power, expected_terms, grid, split

SIGMAS = 4
SAME = 1e-10
# Variance parts of a difference in one combination: prompts, judges, the rest.
WORLDS = [(0.05, 0.0, 0.1), (0.05, 0.002, 0.1), (0.05, 0.05, 0.1), (0.0, 0.01, 0.1)]
# So many degrees of freedom in the pilot that its variances are known.
KNOWN = 1e9

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def drawn(rng, parts, prompts, judges, n):
    """Means of simulated grids around 0, and their three CR2 terms, from the scores themselves."""
    sizes = ((prompts, 1), (1, judges), (prompts, judges))
    y = sum(rng.normal(0, np.sqrt(part), (n, *size)) for part, size in zip(parts, sizes, strict=True))
    mean = y.mean(axis=(1, 2))
    d = y - mean[:, None, None]
    cells = prompts * judges
    terms = [
        (d.mean(axis=2) ** 2).sum(axis=1) / (prompts * (prompts - 1)),
        (d.mean(axis=1) ** 2).sum(axis=1) / (judges * (judges - 1)),
        (d**2).sum(axis=(1, 2)) / (cells * (cells - 1)),
    ]
    return mean, np.array(terms)


def half_width(terms, prompts, judges, alpha):
    """H of the test, written out."""
    t = [stats.t.ppf(1 - alpha / 2, n - 1) for n in (prompts, judges, prompts * judges)]
    p, j, both = (t_**2 * V for t_, V in zip(t, terms, strict=True))
    return np.sqrt(np.maximum.reduce([p + j - both, p, j]))


@pytest.fixture(scope="module")
def board():
    log = er.datasets.judge_log(n_models=4, n_prompts=60, n_judges=10, judge_sd=0.4, seed=1)
    return er.win_rate(log, left="left", right="right", winner="winner", groups="prompt + judge")


@pytest.fixture
def coarse(monkeypatch):
    """Integrals of few nodes, where both sides of a claim take the same ones."""
    monkeypatch.setattr(crossed_powers, "NODES", 7)


@pytest.fixture(scope="module")
def means():
    log = er.datasets.paired(n_passages=40, difference=0.05, seed=2)
    return er.mean(log, by="model", item="question", groups="passage")


@pytest.mark.parametrize("judges", [3, 10])
@pytest.mark.parametrize("parts", WORLDS)
def test_the_power_for_known_parts_is_that_of_simulated_logs(parts, judges):
    n, prompts, delta = 8000, 30, 0.15
    mean, terms = drawn(np.random.default_rng(5), parts, prompts, judges, n)
    found = np.mean(np.abs(mean + delta) > half_width(terms, prompts, judges, 0.05))
    design = grid(prompts, judges)
    # A pilot so large that its variances are known, of the same mix of sizes.
    large = grid(KNOWN, KNOWN)
    pilot = CrossedPilot(large, parts, parts, (KNOWN - 1, KNOWN - 1), "max")
    power = crossed_power(pilot, design, delta, 0.05)
    assert abs(found - power) < SIGMAS * np.sqrt(power * (1 - power) / n) + 0.004


# Where not all judge all, a large part of judges shows in the term by prompt.
@pytest.mark.parametrize(("share", "parts"), [(1.0, (0.05, 0.02, 0.1)), (0.5, (0.05, 0.5, 0.1))])
def test_parts_are_found_from_terms_without_bias_on_full_grids_and_at_random(share, parts):
    prompts, judges, rng = 30, 6, np.random.default_rng(8)
    seen = []
    for _ in range(30):
        y = (
            rng.normal(0, np.sqrt(parts[0]), (prompts, 1))
            + rng.normal(0, np.sqrt(parts[1]), (1, judges))
            + rng.normal(0, np.sqrt(parts[2]), (prompts, judges))
        )
        p, j = np.nonzero(rng.permutation(prompts * judges).reshape(prompts, judges) < share * prompts * judges)
        frame = pd.DataFrame({"prompt": p, "judge": j, "score": y[p, j]})
        results = er.fit("score ~ 1", frame, groups="prompt + judge")
        terms = results.cov.widths().terms[:, 0]
        solved = split(terms, np.array([len(set(p)), len(set(j)), len(frame)]))[1]
        seen.append(solved)
    error = np.std(seen, axis=0) / np.sqrt(len(seen))
    # Clusters of unlike sizes are not quite what their number says.
    slack = 0.0 if share == 1 else 0.05 * np.array(parts)
    assert (np.abs(np.mean(seen, axis=0) - parts) < SIGMAS * error + slack).all()


def test_the_terms_of_a_grid_are_those_of_an_anova():
    terms, design = np.array([0.004, 0.003, 0.0011]), grid(20, 5)
    weights = expected_terms(design)
    np.testing.assert_allclose(weights @ np.array(split(terms, design)[1]), terms, rtol=SAME)
    # MS_P = J V_P P, MS_J = P V_J J; the rest from the sums of squares: Searle, Casella and McCulloch (1992), ch. 4.
    ms_p, ms_j = 5 * 20 * terms[0], 20 * 5 * terms[1]
    ss = terms[2] * 100 * 99
    ms_r = (ss - 19 * ms_p - 4 * ms_j) / (19 * 4)
    np.testing.assert_allclose(split(terms, design)[1], [(ms_p - ms_r) / 5, (ms_j - ms_r) / 20, ms_r], rtol=SAME)


def test_the_plan_has_the_power_asked_for_and_one_prompt_less_has_not(board):
    plan = er.plan.separate(board, "model-01", "model-02", judges=[20], delta=0.2)
    pilot, names = _crossed_pilot(board.contrast("`model-01` - `model-02`"), None)
    assert names == ("prompt", "judge")
    assert dict(plan.design) == {"prompt": 60, "judge": 10}
    prompts = int(plan.table["prompts"][0])
    powers = [crossed_power(pilot, grid(n, 20), 0.2, 0.05) for n in (prompts - 1, prompts)]
    assert powers[0] < 0.8 <= powers[1] + 1e-9
    assert crossed_power(pilot, pilot.design, plan.detectable, 0.05) == pytest.approx(0.8, abs=1e-5)
    assert crossed_power(pilot, pilot.design, 0.2, 0.05) == plan.power_now


@pytest.mark.slow
@pytest.mark.parametrize("judges", [3, 5, 10])
def test_real_power_is_that_asked_for_on_average_over_pilots(judges):
    parts, prompts, delta, new, n = (0.05, 0.002, 0.1), 60, 0.2, 10, 60
    _, terms = drawn(np.random.default_rng(judges), parts, prompts, judges, n)
    design, powers = grid(prompts, judges), []
    large = CrossedPilot(grid(KNOWN, KNOWN), parts, parts, (KNOWN - 1, KNOWN - 1), "max")
    for column in terms.T:
        kept, solved = split(column, design)
        pilot = CrossedPilot(design, kept, solved, (prompts - 1.0, judges - 1.0), "max")
        count = fewest(lambda c, p=pilot: crossed_power(p, grid(c, new), delta, 0.05) >= 0.8, 2, 1_000_000)
        powers.append(crossed_power(large, grid(count, new), delta, 0.05) if count else np.nan)
    powers = np.array(powers)
    assert np.nanmean(powers) > 0.78


def test_one_way_plans_are_those_of_the_pilot(means):
    plan = er.plan.separate(means, "new", "old", delta=0.05)
    expected = er.plan.from_pilot(means.contrast("new - old"), delta=0.05).loc["clustered"]
    row = plan.table.iloc[0]
    assert (row["prompts"], row["ratings"]) == (expected["n_clusters"], expected["n"])
    assert plan.detectable == pytest.approx(expected["mde"], rel=SAME)
    assert pd.isna(row["judges"])
    assert plan.parts is None
    # The pilot itself, at what it detects, has the power.
    again = er.plan.separate(means, "new", "old", delta=plan.detectable)
    assert again.power_now == pytest.approx(0.8, abs=1e-6)


def test_a_comparison_plans_as_means_do_and_two_models_by_their_baseline():
    rng = np.random.default_rng(1)
    chance = {"A": 0.5, "B": 0.55, "C": 0.6}
    log = pd.DataFrame(
        [(q, q // 5, m, float(rng.normal(p))) for q in range(200) for m, p in chance.items()],
        columns=["item", "passage", "model", "score"],
    )
    of_means = er.plan.separate(er.mean(log, by="model", item="item", groups="passage"), "B", "C", delta=0.1)
    for options in ({}, {"baseline": "A"}, {"baseline": "B"}):
        plan = er.plan.separate(er.compare(log, groups="passage", **options), "B", "C", delta=0.1)
        pd.testing.assert_frame_equal(plan.table, of_means.table, rtol=SAME)
        assert plan.estimate == pytest.approx(of_means.estimate, rel=SAME)
        assert plan.name == "B - C"


def test_assurance_asks_for_more(board, means, coarse):
    for results, names in ((board, ("model-01", "model-02")), (means, ("new", "old"))):
        judges = {"judges": [20]} if results is board else {}
        plain, sure = (
            er.plan.separate(results, *names, delta=0.25, assurance=share, **judges).table["prompts"][0]
            for share in (None, 0.9)
        )
        assert plain < sure

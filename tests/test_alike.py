"""Judges taken to differ alike over models: the rule from arrays of scores, what it leaves alone, and refusals."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.stats

import evalreg as er

ROLES = {"left": "left", "right": "right", "groups": "prompt + judge"}
GRADE = 0.02
ROUNDING = 1e-9
WARNED = "ignore::evalreg.errors.EvalregWarning"
pytestmark = pytest.mark.filterwarnings(WARNED)


def scores(n_models=5, n_prompts=30, n_judges=3, taste=0.3, seed=0):
    """Scores of every prompt, judge and model."""
    rng = np.random.default_rng(seed)
    shape = (n_prompts, n_judges, n_models)
    return 0.2 * np.arange(n_models) + taste * rng.standard_normal(shape[1:]) + rng.standard_normal(shape)


def comparisons(values):
    """Graded verdicts of all pairs, one half and a multiple of the difference of two scores."""
    P, J, K = values.shape
    rows = [
        {"prompt": p, "judge": f"j{j}", "left": f"m{a}", "right": f"m{b}", "score": 0.5 + GRADE * gap}
        for p in range(P)
        for j in range(J)
        for a in range(K)
        for b in range(a + 1, K)
        for gap in [values[p, j, a] - values[p, j, b]]
    ]
    return pd.DataFrame(rows)


def by_hand(values, alpha):
    """Differences of models and their half-widths: t_{P-1}^2 V_P + t_{(J-1)(K-1)}^2 max(V_J(c), 2 tr(V_J)/(K - 1))."""
    P, J, K = values.shape
    size = GRADE * K / (K - 1)
    centred = size * (values - values.mean(axis=2, keepdims=True))
    V_P = np.cov(centred.mean(axis=1).T) / P
    V_J = np.cov(centred.mean(axis=0).T) / J
    t = [scipy.stats.t.isf(alpha / 2, d) for d in (P - 1, (J - 1) * (K - 1))]
    found = []
    for a in range(K):
        for b in range(a + 1, K):
            c = np.eye(K)[a] - np.eye(K)[b]
            own = max(c @ V_J @ c, 2 * np.trace(V_J) / (K - 1))
            found.append((c @ centred.mean(axis=(0, 1)), np.sqrt(t[0] ** 2 * (c @ V_P @ c) + t[1] ** 2 * own)))
    return np.array(found)


@pytest.fixture(scope="module")
def log():
    return er.datasets.judge_log(n_models=5, n_prompts=40, n_judges=3, judge_sd=0.3, seed=1)


def rate(log, **more):
    return er.win_rate(log, winner="winner", **ROLES, **more)


@pytest.mark.parametrize("alpha", [0.05, 1e-4])
@pytest.mark.parametrize(("n_judges", "taste"), [(2, 0.5), (3, 0.0), (5, 1.0)])
def test_intervals_and_p_values_of_pairs_are_those_of_the_rule_by_hand(n_judges, taste, alpha):
    values = scores(n_judges=n_judges, taste=taste)
    board = er.win_rate(comparisons(values), score="score", **ROLES, alike="judge")
    pairs, wanted = board.pairwise(alpha=alpha), by_hand(values, alpha)
    np.testing.assert_allclose(pairs["difference"], wanted[:, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose((pairs["upper"] - pairs["lower"]) / 2, wanted[:, 1], rtol=1e-7)
    for place, p in enumerate(pairs["p_value"]):  # the level at which the interval ends at zero
        assert by_hand(values, p)[place, 1] == pytest.approx(abs(wanted[place, 0]), rel=1e-6)


def test_the_width_is_never_below_that_of_prompts_alone(log):
    board = rate(log, alike="judge")
    prompts = board.with_cov(groups="prompt")
    one, other = board.pairwise(), prompts.pairwise()
    assert np.all(one["upper"] - one["lower"] >= other["upper"] - other["lower"])
    one, other = board.conf_int(), prompts.conf_int()
    assert np.all(one[1] - one[0] >= other[1] - other[0])


def test_pairs_of_ratings_depend_on_neither_the_reference_nor_the_scale(log):
    found = [
        er.bradley_terry(log, winner="winner", **ROLES, alike="judge", **more).pairwise()
        for more in ({}, {"reference": "model-02"}, {"scale": "elo"})
    ]
    for other in found[1:]:
        np.testing.assert_allclose(other["p_value"], found[0]["p_value"], rtol=ROUNDING)


def test_bands_pairs_ranks_and_letters_decide_alike():
    board = er.win_rate(comparisons(scores(n_prompts=100, taste=0.05)), score="score", **ROLES, alike="judge")
    holm, bands = board.pairwise("holm"), board.simultaneous(contrasts="pairs")
    decided = holm["p_adjusted"] <= 0.05
    assert 0 < decided.sum() < decided.size
    assert np.all(decided[(bands["lower"] > 0) | (bands["upper"] < 0)])
    ranks = board.ranks()
    assert (ranks["upper"] - ranks["lower"]).sum() == 2 * (~decided).sum()
    letters = board.leaderboard()["letters"]
    for (left, right), apart in decided.items():
        assert apart == (not set(letters[left]) & set(letters[right]))


def test_a_covariate_keeps_the_variance_and_the_degrees_of_freedom_of_its_own(log):
    board = er.bradley_terry(log, winner="winner", formula="1", **ROLES, alike="judge")
    one_way = [piece for piece in board.with_cov(alike=None).cov.pieces if len(piece.dims) == 1]
    c = np.eye(6)[[5]]
    H = sum(scipy.stats.t.isf(0.025, piece.dof(c)) ** 2 * piece.variance(c) for piece in one_way)
    np.testing.assert_allclose(board.cov.half_width(c), np.sqrt(H), rtol=ROUNDING)


def test_win_rates_with_a_common_part_are_pooled_in_their_differences_only(log):
    board = rate(log.iloc[:-200], opponents="as_sampled", alike="judge")
    judge = board.cov.pieces[1]
    assert np.all(judge.dof(np.eye(5)) <= 2 + ROUNDING)
    assert np.all(judge.dof(np.eye(5)[:1] - np.eye(5)[1:]) > 4)


def test_means_strata_contrasts_and_odds_are_refused(log):
    board = rate(log, alike="judge")
    means = er.mean(log.assign(score=1.0 * (log["winner"] == "left")), by="left", groups="prompt + judge")
    data = log.assign(language=np.where(log["prompt"].str[-1].isin(list("02468")), "en", "ko"))
    with pytest.raises(er.errors.NotAvailableError, match="all models of one leaderboard"):
        means.with_cov(alike="judge")
    with pytest.raises(er.errors.NotAvailableError, match="without strata"):
        rate(data, by="language", alike="judge")
    for derived in (board.contrast("model-01 - model-02"), board.odds(), board.net_benefit()):
        with pytest.raises(er.errors.NotAvailableError, match="a contrast of a board is taken after"):
            derived.with_cov(alike="judge")
    assert rate(data, by="language", standardise="uniform", alike="judge").requested.alike == "judge"

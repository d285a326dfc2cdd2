"""Win odds and net benefits have the intervals and the tests of the win rates, carried through."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import evalreg as er

# Rounding of a few operations.
EXACT = 1e-12
# p-values of two tests that are solved by bisection.
ROOT = 1e-8
# Critical values of bands are drawn, of differently scaled parameters.
SIMULATED = 0.02
SCALES = {
    "odds": (lambda S: S / (1 - S), lambda board: board.odds()),
    "net_benefit": (lambda S: 2 * S - 1, lambda board: board.net_benefit()),
}


@pytest.fixture(scope="module", params=["prompt", "prompt + judge", None])
def board(request):
    log = er.datasets.judge_log(n_models=4, n_prompts=40, seed=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return er.win_rate(log, left="left", right="right", winner="winner", groups=request.param)


@pytest.fixture(params=list(SCALES))
def scale(request):
    return SCALES[request.param]


def test_intervals_of_odds_are_those_of_independent_0_1_rows_by_hand():
    wins, n = 36, 40
    log = pd.DataFrame({"left": "a", "right": "b", "score": np.arange(n) < wins})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        board = er.win_rate(log.astype({"score": float}), left="left", right="right", score="score")
    p = wins / n
    # Wilson's, with t and n - 1: where p (1 - p) is larger than in the log it grows by 1/n of that.
    t2, v = stats.t.isf(0.025, n - 1) ** 2, p * (1 - p)

    def excess(x):
        now = x * (1 - x)
        return (p - x) ** 2 - t2 * (min(now, v) / (n - 1) + max(now - v, 0) / n)

    ends = np.array([optimize.brentq(excess, p, end, xtol=1e-15) for end in (0.5, 1.0)])
    np.testing.assert_allclose(board.odds().conf_int().loc["a"], ends / (1 - ends), rtol=ROOT)
    np.testing.assert_allclose(board.net_benefit().conf_int().loc["a"], 2 * ends - 1, rtol=ROOT)
    said = " ".join(str(board.odds().summary(details=True)).split())
    assert "Intervals are those of the win rates, carried through." in said
    assert "t and p test each against 1." in said


@pytest.mark.parametrize("alpha", [0.01, 0.2])
def test_ends_are_the_function_of_the_ends_of_the_rates(board, scale, alpha):
    function, made = scale
    np.testing.assert_allclose(made(board).conf_int(alpha), function(board.conf_int(alpha)), rtol=EXACT)
    ends = made(board).to_frame(alpha)[["lower", "upper"]]
    np.testing.assert_allclose(ends, function(board.conf_int(alpha)), rtol=EXACT)


def test_a_value_is_tested_as_the_rate_behind_it(board, scale):
    function, made = scale
    theirs, ours = board.t_test("`model-02` = 0.6"), made(board).t_test(f"`model-02` = {function(0.6)!r}")
    assert np.isclose(ours.pvalue, theirs.pvalue, rtol=ROOT)
    np.testing.assert_allclose(ours.conf_int(0.1), function(theirs.conf_int(0.1)), rtol=EXACT)
    assert np.isclose(ours.tvalue, theirs.tvalue, rtol=ROOT)
    # Against 1 and 0, as rates against a half.
    np.testing.assert_allclose(made(board).pvalues, board.pvalues, rtol=ROOT)
    wald = made(board).t_test(f"`model-02` = {function(0.6)!r}", method="wald")
    assert np.isclose(
        np.squeeze(wald.tvalue), (made(board).params["model-02"] - function(0.6)) / made(board).bse["model-02"]
    )


def test_bands_and_ranks_are_those_of_the_rates(board, scale):
    function, made = scale
    found = made(board)
    ends = ["lower", "upper"]
    np.testing.assert_allclose(found.simultaneous()[ends], function(board.simultaneous()[ends]), rtol=SIMULATED)
    assert found.ranks().equals(board.ranks())
    ours, theirs = found.leaderboard(), board.leaderboard()
    assert ours["letters"].equals(theirs["letters"])
    joint = ["joint_lower", "joint_upper"]
    np.testing.assert_allclose(ours[ends], function(theirs[ends]), rtol=EXACT)
    np.testing.assert_allclose(ours[joint], function(theirs[joint]), rtol=SIMULATED)
    assert found.winner().method == "projection"  # the board itself knows more


def test_a_model_that_lost_all_has_the_interval_of_its_rate():
    frame = er.datasets.judge_log(n_models=3, n_prompts=30, n_judges=1, seed=2)
    lost = {"left": "zero", "right": "model-01", "winner": "right"}
    more = pd.DataFrame(lost | {"prompt": frame["prompt"].unique()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        board = er.win_rate(pd.concat([frame, more]), left="left", right="right", winner="winner", groups="prompt")
        ends = board.conf_int().loc["zero"]
        assert ends[0] == 0 < ends[1]
        for function, made in SCALES.values():
            np.testing.assert_allclose(made(board).conf_int().loc["zero"], function(ends), rtol=EXACT, atol=EXACT)
            p = made(board).pvalues["zero"]
            assert np.isclose(p, board.pvalues["zero"], rtol=ROOT)
            np.testing.assert_allclose(board.conf_int(p).loc["zero", 1], 0.5, rtol=ROOT)

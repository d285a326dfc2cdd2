"""What t and p of win rates and odds are against, in every table that shows them."""

import math
import warnings

import numpy as np
import pytest
from scipy import optimize, stats

import evalreg as er

# Roots are found to this.
ROOT = 1e-6


@pytest.fixture(params=["prompt", "prompt + judge", None])
def board(request):
    log = er.datasets.judge_log(n_models=4, n_prompts=40, n_judges=6, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return er.win_rate(log, left="left", right="right", winner="winner", groups=request.param)


def test_p_of_a_win_rate_is_the_level_at_which_its_interval_ends_at_a_half(board):
    for name, p in board.pvalues.items():
        rate = board.params[name]

        def gap(level, name=name, side=0 if rate > 0.5 else 1):
            return board.conf_int(level).loc[name, side] - 0.5

        # Levels above one half are not asked for.
        if 1e-9 < p < 0.5:
            assert math.isclose(optimize.brentq(gap, 1e-12, 0.5, xtol=1e-14), p, rel_tol=ROOT)


def test_one_cluster_a_row_is_the_logit_test_by_hand():
    log = er.datasets.judge_log(n_models=2, n_prompts=300, n_judges=1, ties=0.0, spread=0.2, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        board = er.win_rate(log, left="left", right="right", winner="winner")
    rate = board.params["model-01"]
    t = math.log(rate / (1 - rate)) * rate * (1 - rate) / board.bse["model-01"]
    assert math.isclose(board.tvalues["model-01"], t, rel_tol=ROOT)
    p = 2 * stats.t.sf(abs(t), board.dof["model-01"])
    assert math.isclose(board.pvalues["model-01"], p, rel_tol=ROOT)


def test_odds_are_tested_against_1_and_net_benefit_against_0(board):
    odds, benefit = board.odds(), board.net_benefit()
    np.testing.assert_allclose(odds.tvalues, (odds.params - 1) / odds.bse)
    np.testing.assert_allclose(benefit.tvalues, benefit.params / benefit.bse)
    assert "against 1." in str(odds.summary())


def test_frames_summaries_and_stored_results_show_the_same_test(board):
    frame, stored = board.to_frame(), er.read_results(board.to_json())
    for shown in (frame["p_value"], stored.pvalues):
        np.testing.assert_allclose(shown, board.pvalues[shown.index])
    np.testing.assert_allclose(frame["t"], board.tvalues)
    assert "test each against 0.5" in " ".join(str(board.summary()).split())


def test_differences_of_win_rates_are_tested_against_0(board):
    difference = board.contrast("model-01 - model-02")
    np.testing.assert_allclose(difference.tvalues, difference.params / difference.bse)


def test_t_test_with_a_half_says_the_same(board):
    test = board.t_test("model-02 = 0.5")
    assert math.isclose(float(test.pvalue), board.pvalues["model-02"], rel_tol=ROOT)

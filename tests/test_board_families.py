"""Statements of a board about all models rest on one covariance, which is made once."""

from __future__ import annotations

import warnings

import pandas as pd
import pytest

import evalreg as er
from evalreg.boards import board as boards


@pytest.mark.parametrize("estimator", [er.win_rate, er.bradley_terry])
def test_what_a_leaderboard_rests_on_is_made_once(monkeypatch, estimator):
    calls = []
    whole = boards.ranked_cov
    monkeypatch.setattr(boards, "ranked_cov", lambda *args: calls.append(args) or whole(*args))
    log = er.datasets.judge_log(n_models=8, n_prompts=40, n_judges=3, pairs_per_prompt=6, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        board = estimator(log, left="left", right="right", winner="winner", groups="prompt + judge")
        first = board.leaderboard()
        pd.testing.assert_frame_equal(board.leaderboard(), first)
        for again in (board.ranks, board.simultaneous):
            again()
        assert len(calls) == 1
        # Another covariance is asked for anew.
        assert not board.with_cov(groups="prompt").leaderboard().equals(first)
        assert len(calls) == 2

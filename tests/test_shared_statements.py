"""Statements about many models that share one family of contrasts, and adjusted p-values by the public peer."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import evalreg as er

# What few judges say is not the point here.
pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.FewClustersWarning")

STATEMENTS: dict[str, Callable[[er.Results], Any]] = {
    "bands": lambda board: board.simultaneous(),
    "pairs": lambda board: board.simultaneous(contrasts="pairs"),
    "stepdown": lambda board: board.simultaneous(contrasts="pairs", stepdown=True),
    "at another level": lambda board: board.simultaneous(contrasts="pairs", alpha=0.2),
    "holm": lambda board: board.pairwise(adjust="holm"),
    "single-step": lambda board: board.pairwise(adjust="single-step"),
    "ranks": lambda board: board.ranks(),
    "each by itself": lambda board: board.ranks(joint=False),
    "of another seed": lambda board: board.ranks(seed=7),
    "leaderboard": lambda board: board.leaderboard(),
}


def _board(judges: int) -> er.Results:
    log = er.datasets.judge_log(n_models=6, n_prompts=30, n_judges=judges, seed=4)
    groups = "prompt + judge" if judges > 1 else "prompt"
    return er.win_rate(log, left="left", right="right", winner="winner", groups=groups)


def _same(one: Any, other: Any) -> None:
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, rtol=0, atol=0)
        assert one.attrs == other.attrs
    elif isinstance(one, pd.Series):
        pd.testing.assert_series_equal(one, other)
    else:
        assert one == other


@pytest.mark.parametrize("judges", [1, 3])
def test_a_statement_does_not_depend_on_those_before_it(judges: int) -> None:
    alone = {name: say(_board(judges)) for name, say in STATEMENTS.items()}
    for order in (list(STATEMENTS), list(STATEMENTS)[::-1]):
        board = _board(judges)
        for name in order:
            _same(STATEMENTS[name](board), alone[name])


def test_parameters_changed_under_one_covariance_are_seen() -> None:
    board = _board(3)
    shifted = board.params + np.linspace(0, 0.3, board.params.size)
    for params in (board.params, shifted, shifted.rename(lambda name: f"{name}"), board.params):
        fresh = pickle.loads(pickle.dumps(board.cov))
        _same(er.rank_sets(params, board.cov), er.rank_sets(params, fresh))
        _same(er.simultaneous(params, board.cov), er.simultaneous(params, fresh))
    assert er.simultaneous(board.params.rename_axis("model"), board.cov).index.name == "model"

"""Comparisons that stay in an engine: the numbers of pandas, what is refused, and that no row leaves."""

import functools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from engines import cases
from engines.cases import SAME
from engines.lazy import in_polars, readable

import evalreg as er
from evalreg.errors import ScoreRangeError

duckdb = pytest.importorskip("duckdb")


@functools.cache
def _connected():
    """A connection for all tests: older releases close one with its last reference."""
    return duckdb.connect()


@pytest.fixture(autouse=True, scope="module")
def _closed():
    yield
    _connected().close()
    _connected.cache_clear()


def _duckdb(frame):
    return readable(_connected().from_df(frame))


LAZY = {"polars lazy": in_polars, "duckdb": _duckdb}


@pytest.fixture(scope="module")
def comparisons():
    return cases.duels().drop(columns="named").rename(columns={"points": "score"})


@pytest.mark.parametrize("engine", LAZY)
@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_verdicts_may_name_models_of_any_type(engine):
    log = er.datasets.judge_log(n_models=4, n_prompts=30, seed=1)
    won = np.where(log["winner"] == "left", log["left"], np.where(log["winner"] == "right", log["right"], "tie"))
    named = log.assign(winner=won)
    number = {name: i for i, name in enumerate(sorted(set(log["left"])))}
    numbers = named.assign(left=named["left"].map(number), right=named["right"].map(number))
    numbers["winner"] = [str(number.get(name, "tie")) for name in numbers["winner"]]
    roles = {"left": "left", "right": "right", "winner": "winner", "groups": "prompt"}
    expected = er.win_rate(log, **roles)
    parts = log.assign(**{f"{side}{i}": log[side].str.split("-").str[i] for side in ("left", "right") for i in (0, 1)})
    for frame, sides in ((named, {}), (numbers, {}), (parts, {"left": "left0:left1", "right": "right0:right1"})):
        found = er.win_rate(LAZY[engine](frame), **roles | sides)
        np.testing.assert_allclose([found.params, found.bse], [expected.params, expected.bse], rtol=SAME)
        assert list(found.params.index) == list(er.win_rate(frame, **roles | sides).params.index)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_an_engine_is_asked_once_for_the_pairs_and_once_for_each_clustering(comparisons, collected):
    board = er.win_rate(_duckdb(comparisons), left="a", right="b", score="score", groups="prompt + judge")
    assert len(collected) == 4  # the pairs, prompt, judge, and (prompt, judge)
    # A pair of models is one line, whichever stood on the left.
    used = comparisons.dropna(subset=["a", "b", "score", "prompt", "judge"])
    pair = used[["a", "b"]].min(axis=1) + "|" + used[["a", "b"]].max(axis=1)
    assert used.assign(pair=pair).groupby(["prompt", "judge", "pair"]).ngroups in collected
    board.summary()
    board.head_to_head(0.05)
    board.with_cov(cov="CR1")
    board.with_cov(groups="judge")
    assert len(collected) == 4


@pytest.mark.parametrize("engine", ["polars lazy", "duckdb"])
@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_a_score_of_nan_is_missing_although_engines_call_it_larger_than_one(comparisons, engine):
    frame = comparisons.drop(columns="winner").dropna(subset=["a", "b", "prompt", "weight"])
    native = pl.from_pandas(frame, nan_to_null=False)
    assert native["score"].is_nan().sum() > 5
    _duckdb(frame.head())
    data = native.lazy() if engine == "polars lazy" else _connected().from_arrow(native.to_arrow())
    for board, more in ((er.win_rate, {"weights": "weight"}), (er.bradley_terry, {})):
        roles = {"left": "a", "right": "b", "score": "score", "groups": "prompt", **more}
        cases.assert_numbers(board(data, **roles), board(frame, **roles))
    over = native.with_columns(
        score=pl.when(pl.col("number") == int(frame["number"].iloc[3])).then(2.0).otherwise("score")
    )
    data = over.lazy() if engine == "polars lazy" else _connected().from_arrow(over.to_arrow())
    with pytest.raises(ScoreRangeError, match=r"does not in 1 row .*to 2\)"):
        er.win_rate(data, left="a", right="b", score="score")


def test_pairs_of_a_board_of_an_engine_keep_their_degrees_of_freedom_in_a_pickle():
    """The parameters' degrees of freedom are known from the first pass; those of differences are asked for later."""
    duckdb = pytest.importorskip("duckdb")
    log = er.datasets.judge_log(n_models=6, n_prompts=40, n_judges=12, seed=2)
    roles = {"left": "left", "right": "right", "winner": "winner", "groups": "prompt + judge"}
    expected = er.win_rate(log, **roles)
    with duckdb.connect() as connection:
        board = er.win_rate(connection.from_df(log), **roles)
        stored = pickle.dumps(board)
        pd.testing.assert_frame_equal(board.pairwise(), expected.pairwise(), rtol=1e-9)
    again = pickle.loads(stored)
    pd.testing.assert_series_equal(again.dof, expected.dof, rtol=1e-9)
    pd.testing.assert_frame_equal(again.pairwise(), expected.pairwise(), rtol=1e-9)

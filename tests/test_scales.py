"""Files that do not go together: shares and percentages, and ids in two spellings."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import (
    AlignmentError,
    FewCarriersWarning,
    IndependenceWarning,
    SkewedScoresWarning,
    UnlikeScalesWarning,
)

duckdb = pytest.importorskip("duckdb")
pl = pytest.importorskip("polars")

HELD = {
    "pandas": lambda log: log,
    "lazy": lambda log: pl.from_pandas(log).lazy(),
    "duckdb": lambda log: duckdb.from_df(log),
    "sums": lambda log: er.summarise(log, by="model", groups="item + passage"),
}
CALLS = {
    "mean": lambda rows: er.mean(rows, by="model", groups="passage"),
    "compare": lambda rows: er.compare(rows, item="item", groups="passage"),
}


@pytest.fixture
def log(rng):
    """Three models, right on six of ten of 80 questions."""
    rows = [(model, f"q{i}", f"p{i // 4}") for model in ("ada", "bob", "cid") for i in range(80)]
    frame = pd.DataFrame(rows, columns=["model", "item", "passage"])
    return frame.assign(score=(rng.random(len(frame)) < 0.6).astype(float))


def times(log, factors):
    return log.assign(score=log["score"] * log["model"].map(factors))


def said(call):
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in issued if one.category is UnlikeScalesWarning]


@pytest.mark.parametrize("held", HELD)
@pytest.mark.parametrize("call", CALLS)
def test_percentages_beside_shares_are_warned_of(log, call, held):
    mixed = HELD[held](times(log, {"ada": 1, "bob": 100, "cid": 1}))
    (text,) = said(lambda: CALLS[call](mixed))
    assert text.startswith('scores of "bob" reach 100, and those of "ada" and "cid" lie in [0, 1].')
    assert "divide them by 100" in text


def test_percentages_of_few_failures_or_differences_have_no_score_interval(log):
    ada = 100 * log.loc[log["model"] == "ada", "score"].to_numpy()
    both = log[log["model"] != "cid"].assign(score=np.concatenate([ada, 100 - ada[:3], ada[3:]]))
    with pytest.warns(FewCarriersWarning, match=r"bob: hardly.*\(3 of 80\).*divide percentages by 100"):
        er.compare(both, item="item", baseline="bob")
    with pytest.warns(SkewedScoresWarning, match="divide them by 100"):
        er.mean(log.assign(score=np.where(log.index % 60, 100, 0)), groups="passage")


@pytest.mark.parametrize(
    "factors",
    [
        {"ada": 1, "bob": 1, "cid": 1},
        {"ada": 100, "bob": 100, "cid": 100},
        # A rubric of 0 to 10 on which one model never had more than 1, and one that counts tokens.
        {"ada": 1, "bob": 10, "cid": 10},
        {"ada": 1, "bob": 1500, "cid": 1500},
        # Nothing right is nothing right on either scale.
        {"ada": 0, "bob": 100, "cid": 100},
        {"ada": -1, "bob": 100, "cid": 100},
    ],
)
def test_other_scales_are_left_alone(log, factors):
    mixed = times(log, factors)
    if factors["ada"] == 0:
        mixed.loc[0, "score"] = 0.0
        assert not said(lambda: CALLS["compare"](mixed))
        return
    assert not [text for call in CALLS.values() for text in said(lambda call=call: call(mixed))]


def test_ids_in_two_spellings_are_named_where_nothing_is_paired_for_it(log):
    bob = log["model"] == "bob"
    trailing = log.assign(item=log["item"].where(~bob, log["item"] + " "))
    with pytest.warns(IndependenceWarning, match=r'"q0" and "q0 " differ by blanks or case alone'):
        er.compare(trailing, item="item")
    other = log.assign(item=log["item"].where(~bob, "other " + log["item"]))
    with pytest.warns(IndependenceWarning, match=r"must be the same\.$"):
        er.compare(other, item="item")
    upper = log.assign(passage=log["passage"].where(~bob, log["passage"].str.upper()))
    with pytest.raises(AlignmentError, match=r'differ by blanks or case alone, such as "p0" and "P0"'):
        er.compare(upper, item="item", groups="passage")
    mixed = log.assign(passage=np.where(bob, "x", "y"))
    with pytest.raises(AlignmentError, match=r"use a coarser cluster\.$"):
        er.compare(mixed, item="item", groups="passage")

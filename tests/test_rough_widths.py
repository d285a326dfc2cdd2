"""Decisions on many pairs of models take bounds of degrees of freedom first, and are those of the exact ones."""

from __future__ import annotations

import io
import sys
from itertools import combinations

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.covariance import row_leverages
from evalreg.inference import make_family, multiplicity
from evalreg.inference.multiplicity import adjust_pvalues
from evalreg.inference.rough_widths import RoughWidths
from evalreg.numerics import progress

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    monkeypatch.setattr(multiplicity, "CHEAP_BLOCKS", 0)
    monkeypatch.setattr(multiplicity, "WANTED_ERROR", 0.02)


def _log(seed, *, n_models=12, prompts=60, pairs=4, judges=40, spread=1.0, uneven=False):
    rng = np.random.default_rng(seed)
    sizes = rng.geometric(1 / pairs, prompts) if uneven else np.full(prompts, pairs)
    prompt = np.repeat(np.arange(prompts), sizes)
    first = rng.integers(0, n_models, prompt.size)
    second = (first + rng.integers(1, n_models, prompt.size)) % n_models
    skill = spread * np.linspace(-1, 1, n_models) + 0.7 * rng.standard_normal((prompts, n_models))
    apart = skill[prompt, first] - skill[prompt, second]
    names = np.array([f"model {i:02d}" for i in range(n_models)])
    return pd.DataFrame(
        {
            "prompt": prompt,
            "judge": rng.integers(0, judges, prompt.size),
            "left": names[first],
            "right": names[second],
            "score": (rng.random(prompt.size) < 1 / (1 + np.exp(-apart))) * 1.0,
            "words": rng.standard_normal(prompt.size),
            "weight": rng.uniform(0.2, 3.0, prompt.size),
        }
    )


LOGS = {
    "a few pairs a prompt": ({}, {}),
    "many pairs a prompt": ({"pairs": 30, "prompts": 25}, {}),
    "uneven prompts": ({"uneven": True, "prompts": 90}, {}),
    "fewer prompts than models": ({"prompts": 9, "pairs": 40}, {}),
    "one pair a prompt": ({"pairs": 1, "prompts": 700}, {}),
    "two clusterings": ({"prompts": 90, "pairs": 8}, {"groups": "prompt + judge"}),
    "a few judges": ({"prompts": 80, "pairs": 8, "judges": 6}, {"groups": "prompt + judge"}),
    "judges that differ alike": (
        {"prompts": 80, "pairs": 8, "judges": 4},
        {"groups": "prompt + judge", "alike": "judge"},
    ),
    "weights": ({}, {"weights": "weight"}),
    "another covariate": ({}, {"formula": "~ words"}),
    "CR3": ({}, {"cov": "CR3", "dof": "satterthwaite"}),
    "CR1": ({}, {"cov": "CR1", "dof": "satterthwaite"}),
}


def _board(name, seed=0, **how):
    about, options = LOGS[name]
    options = {"groups": "prompt", **options}
    return er.bradley_terry(_log(seed, **{**about, **how}), left="left", right="right", score="score", **options)


def _pairs(n):
    rows = np.zeros((n * (n - 1) // 2, n))
    for row, (i, j) in zip(rows, combinations(range(n), 2), strict=True):
        row[i], row[j] = 1.0, -1.0
    return rows


@pytest.mark.parametrize(("name", "seed"), list(zip(LOGS, range(len(LOGS)), strict=True)))
def test_degrees_of_freedom_lie_between_their_bounds(name, seed, monkeypatch):
    monkeypatch.setattr(row_leverages, "DEAR", 0)
    for each in (0, np.inf):  # from sums over models, and over pairs
        monkeypatch.setattr(row_leverages, "PAIRS_OF_CLUSTERS", each)
        cov = _board(name, seed).cov
        C = _pairs(len(cov.names))
        for term in cov.pieces:
            least, most = term.dof_bounds(C)
            exact = term.dof(C)
            known = np.isfinite(exact)
            assert np.array_equal(known, np.isfinite(least))
            assert np.all(least[known] >= 1)
            assert np.all(least[known] <= exact[known] * (1 + 1e-9))
            assert np.all(most[known] >= exact[known] * (1 - 1e-9))
        rough = [term.rough is not None for term in cov.pieces]
        assert any(rough) == (name != "CR1")  # without an adjustment the trace has no such bound


@pytest.mark.parametrize("name", LOGS)
def test_p_values_lie_between_their_bounds(name, monkeypatch):
    monkeypatch.setattr(row_leverages, "DEAR", 0)
    board = _board(name)
    C = _pairs(len(board.params))
    found = board.cov.width_bounds(C)
    assert (found is None) == (name == "CR1")
    if found is None:
        return
    distance = C @ board.params.to_numpy()
    low, p, high = (one.pvalues(distance) for one in (found[0], board.cov.widths(C), found[1]))
    known = np.isfinite(p)
    assert known.any()
    assert np.all((low[known] <= p[known] * (1 + 1e-9)) & (p[known] <= high[known] * (1 + 1e-9)))
    assert np.any(low[known] < 0.99 * high[known])


def _said(board):
    """All that is decided about pairs of models."""
    params, cov = board._ranked
    tables = [
        board.leaderboard(),
        board.ranks(),
        board.ranks(joint=False),
        er.rank_sets(params, cov, stepdown=True),
        board.tiers().to_frame(),
        board.pairwise(adjust="holm"),
    ]
    return [*tables, *(pd.Series(table.attrs.get("critical_value")) for table in tables[:4])]


@pytest.mark.parametrize(
    ("name", "spread"),
    [
        ("a few pairs a prompt", 0.3),
        ("many pairs a prompt", 1.2),
        ("fewer prompts than models", 1.2),
        ("two clusterings", 1.2),
        ("a few judges", 1.2),
        ("judges that differ alike", 0.3),
        ("another covariate", 0.6),
    ],
)
def test_decisions_are_those_of_exact_degrees_of_freedom(name, spread, monkeypatch):
    monkeypatch.setattr(row_leverages, "DEAR", np.inf)
    exact = _said(_board(name, spread=spread))
    monkeypatch.setattr(row_leverages, "DEAR", 0)
    for one, other in zip(_said(_board(name, spread=spread)), exact, strict=True):
        if isinstance(one, pd.DataFrame):
            pd.testing.assert_frame_equal(one, other, rtol=1e-9)
        else:
            pd.testing.assert_series_equal(one, other, rtol=1e-9)


def test_a_board_asks_for_the_exact_ones_of_a_few_pairs(monkeypatch):
    monkeypatch.setattr(row_leverages, "DEAR", 0)
    asked = []
    exact = row_leverages.RowLeverage.dof

    def counted(self, contrasts):
        asked.append(contrasts.shape[0])
        return exact(self, contrasts)

    monkeypatch.setattr(row_leverages.RowLeverage, "dof", counted)
    board = _board("many pairs a prompt", prompts=200, pairs=8, n_models=24)
    board.summary()
    own = sum(asked)
    board.leaderboard()
    board.ranks()
    assert sum(asked) - own < 276 / 10
    assert len(board.pairwise()) == 276
    assert sum(asked) - own > 276  # a table of all of them needs all


@pytest.mark.parametrize("terminal", [True, False])
def test_all_pairs_show_on_a_terminal_how_far_they_are(terminal, monkeypatch):
    class Stream(io.StringIO):
        def isatty(self):
            return terminal

    board = _board("many pairs a prompt", n_models=20)
    monkeypatch.setattr(progress, "SILENT_SECONDS", -1.0)
    monkeypatch.setattr(sys, "stderr", Stream())
    board.pairwise()
    written = sys.stderr.getvalue()
    assert (" of 190 degrees of freedom (" in written) == terminal
    assert written == "" or written.endswith(" \r")


class _Widths:
    """Stands for widths whose p-values are known."""

    def __init__(self, p):
        self.p = p

    def pvalues(self, distance):
        assert distance.shape == self.p.shape
        return self.p.copy()


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("width", [0.01, 1.0, 30.0])
def test_rules_decide_between_bounds_as_they_do_by_exact_p_values(seed, width):
    rng = np.random.default_rng(seed)
    m = int(rng.integers(1, 60))
    p = np.exp(-12 * rng.random(m))
    low, high = (np.minimum(p * np.exp(side * width * rng.random(m)), 1.0) for side in (-1, 1))
    p[rng.random(m) < 0.1] = np.nan
    low[np.isnan(p)] = high[np.isnan(p)] = np.nan
    asked = []

    def exact(rows):
        asked.extend(rows)
        return _Widths(p[rows])

    for level in (0.05, 0.003):
        rough = RoughWidths(_Widths(low), _Widths(high), np.zeros(m), exact)
        for rule in (lambda p, at=level: p <= at, lambda p, at=level: adjust_pvalues(p, "holm") <= at):
            decided = rough.decided(rule)
            assert np.array_equal(decided, rule(p))
            assert rough.largest(decided) == np.max(p[decided], initial=0.0)
    assert len(asked) == 0 or set(asked) <= set(np.flatnonzero(~np.isnan(p)))


def test_few_contrasts_are_exact_at_once(monkeypatch):
    monkeypatch.setattr(row_leverages, "DEAR", 0)
    board = _board("a few pairs a prompt", n_models=5)
    assert not isinstance(make_family.make_family(*board._ranked, "pairs").held, RoughWidths)
    board = _board("a few pairs a prompt", prompts=600)
    assert isinstance(make_family.make_family(*board._ranked, "pairs").held, RoughWidths)

"""Statements about many models, on results and on benchmark tables that others published."""

from __future__ import annotations

import copy
import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.stats

import evalreg as er
from benchmarks.simulations import boards
from evalreg.inference import simultaneous


@pytest.mark.parametrize("judges", [1, 3, pytest.param(5, marks=pytest.mark.slow)])
def test_pairs_bands_ranks_and_letters_of_sparse_boards_decide_alike(judges: int) -> None:
    design, decided = boards.schedule("sparse", 5, 50), 0
    for seed in range(2):
        quality = np.array([0.0, 0.6, 1.2, 1.8, 2.4])
        log = boards.draw(np.random.default_rng([judges, seed]), design, judges, 0.1, quality)
        groups = "prompt" if judges == 1 else "prompt + judge"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", er.errors.EvalregWarning)
            board = er.win_rate(log, left="left", right="right", score="score", groups=groups)
        holm, ranks = board.pairwise("step-down"), board.ranks()
        bands = board.simultaneous(contrasts="pairs").loc[holm.index]
        sure = (holm["p_adjusted"] <= 0.05).to_numpy()
        banded = (bands["lower"] > 0) | (bands["upper"] < 0)
        # Where the intervals of the models are the sharper statement, these decide.
        assert ranks.attrs["by"] == "bands" or not np.any(banded.to_numpy() & ~sure)
        np.testing.assert_allclose(holm["se"], bands["se"], rtol=1e-12)
        if judges > 1:
            first = np.where(holm["difference"] > 0, *(holm.index.get_level_values(side) for side in (0, 1)))
            last = np.where(holm["difference"] > 0, *(holm.index.get_level_values(side) for side in (1, 0)))
            lower = {model: 1 + int(np.sum(sure & (last == model))) for model in ranks.index}
            upper = {model: 5 - int(np.sum(sure & (first == model))) for model in ranks.index}
            assert ranks["lower"].to_dict() == lower
            assert ranks["upper"].to_dict() == upper
            letters = board.leaderboard()["letters"]
            apart = [not set(letters[a]) & set(letters[b]) for a, b in holm.index]
            assert apart == sure.tolist()
        decided += int(sure.sum())
    assert decided > 0


def _many(n_models: int, n_questions: int) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    names = np.array([f"model {i:03d}" for i in range(n_models)])
    log = pd.DataFrame({"model": np.repeat(names, n_questions), "item": np.tile(np.arange(n_questions), n_models)})
    easy = rng.normal(size=n_questions)
    return log.assign(score=easy[log["item"]] + rng.normal(size=len(log)), judge=rng.integers(0, 8, len(log)))


def test_each_pair_of_many_models_is_the_paired_t_test_of_scipy() -> None:
    # So many pairs that the contrasts are held by their entries.
    n_models, n_questions = 130, 40
    log = _many(n_models, n_questions)
    results = er.mean(log, by="model", item="item")
    assert n_models**2 * (n_models - 1) / 2 > simultaneous.HELD / 4
    table = results.pairwise()
    scores = log["score"].to_numpy().reshape(n_models, n_questions)
    left, right = np.triu_indices(n_models, 1)
    told = scipy.stats.ttest_rel(scores[left], scores[right], axis=1)
    np.testing.assert_allclose(table["p_value"], told.pvalue, rtol=1e-8)
    np.testing.assert_allclose(table["difference"] / table["se"], told.statistic, rtol=1e-9)
    ends = told.confidence_interval(0.95)
    np.testing.assert_allclose(table[["lower", "upper"]], np.column_stack([ends.low, ends.high]), rtol=1e-8, atol=1e-9)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize(
    "kind",
    [
        "scores",
        "some missing",
        "crossed",
        "win rates",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("right or wrong", "CR1", "ratings")),
    ],
)
def test_contrasts_held_by_their_entries_give_the_same_numbers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _board_of(kind)

    def made() -> list[pd.DataFrame]:
        results = copy.copy(whole)  # without what the first time is kept
        return [
            results.pairwise("holm"),
            results.simultaneous(contrasts="pairs"),
            results.ranks(),
            results.ranks(joint=False),
        ]

    expected = made()
    monkeypatch.setattr(simultaneous, "HELD", 0)
    for own, other in zip(made(), expected, strict=True):
        pd.testing.assert_frame_equal(own, other, rtol=1e-12, atol=1e-14)
        assert own.attrs.keys() == other.attrs.keys()


def _board_of(kind: str) -> er.Results:
    log = _many(8, 50)
    if kind in ("ratings", "win rates"):
        n = np.random.default_rng(3).integers(0, 8, (2, 500))
        pairs = pd.DataFrame({"left": n[0], "right": np.where(n[0] == n[1], (n[1] + 1) % 8, n[1])}).astype(str)
        pairs["score"], pairs["item"] = np.random.default_rng(4).integers(0, 2, 500), np.arange(500) // 10
        board = er.bradley_terry if kind == "ratings" else er.win_rate
        return board(pairs, left="left", right="right", score="score", groups="item")
    if kind == "scores":
        return er.mean(log, by="model", item="item")
    if kind == "CR1":
        return er.mean(log, by="model", item="item", cov="CR1")
    if kind == "crossed":
        return er.mean(log, by="model", groups="item + judge")
    log["score"] = (log["score"] > 1).astype(float)
    return er.mean(log.sample(frac=0.9, random_state=1) if kind == "some missing" else log, by="model", item="item")


def test_pairs_of_many_models_take_no_matrix_of_pairs_by_models() -> None:
    n = 500
    results = er.mean(_many(n, 10), by="model", item="item")
    tracemalloc.start()
    try:
        results.pairwise()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.6 * 8 * n * n * (n - 1) / 2

"""Statements about many models, on results and on benchmark tables that others published."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from benchmarks.coverage import boards


@pytest.fixture(scope="module")
def board() -> er.Results:
    log = er.datasets.sampled(n_questions=300, n_samples=1, n_models=2, seed=4)
    third = log[log["model"] == log["model"].iloc[0]].assign(model="third")
    # Half of the third model's answers are turned round, so that it is worse by far.
    third["score"] = np.where(np.arange(len(third)) % 2, 0.0, third["score"])
    return er.mean(pd.concat([log, third]), by="model", item="question", groups="passage")


def test_results_say_what_the_functions_say(board: er.Results) -> None:
    pd.testing.assert_frame_equal(board.ranks(seed=3), er.rank_sets(board.params, board.cov, seed=3))
    bands = board.simultaneous(contrasts="pairs", seed=3)
    pd.testing.assert_frame_equal(bands, er.simultaneous(board.params, board.cov, contrasts="pairs", seed=3))


def test_pairs_are_the_contrasts_one_by_one(board: er.Results) -> None:
    table = board.pairwise()
    for left, right in table.index:
        one = board.contrast({left: 1, right: -1})
        np.testing.assert_allclose(table.loc[(left, right), "se"], one.bse.iloc[0], rtol=1e-10)
        np.testing.assert_allclose(table.loc[(left, right), "p_value"], one.pvalues.iloc[0], rtol=1e-8)


def test_a_model_that_is_worse_by_far_shares_no_letter_and_no_rank(board: er.Results) -> None:
    groups, ranks = board.letters(), board.ranks()
    for other in board.params.index.drop("third"):
        assert not set(groups["third"]) & set(groups[other])
        assert ranks.loc["third", "lower"] > ranks.loc[other, "upper"]
    assert "third" not in board.tau_best()


def test_nineteen_models_on_fifteen_problems_leave_many_ranks_open(shared: Path) -> None:
    rows = pd.read_csv(shared / "data" / "matharena_aime2025_II_scores.csv.gz")
    board = er.mean(rows, "correct", by="model", item="question_id", sample="sample")
    ranks = board.ranks()
    assert board.nobs == 15 * 19
    assert len(ranks) == 19
    assert ((ranks["lower"] <= ranks["rank"]) & (ranks["rank"] <= ranks["upper"])).all()
    assert (ranks["upper"] - ranks["lower"]).median() >= 5
    with pytest.raises(er.errors.TooFewClustersError, match="hypotheses"):
        board.with_cov(cov="CR1").wald_test(np.eye(19)[1:] - np.eye(19)[0])


def test_a_benchmark_with_unequal_question_sets_is_ranked(shared: Path) -> None:
    rows = pd.read_csv(shared / "data" / "livebench_scores.csv.gz")
    with pytest.raises(er.errors.DuplicateRowsError) as caught:
        er.mean(rows, by="model", item="question_id")
    assert caught.value.count == 590
    once = rows.drop_duplicates(["model", "question_id"], keep=False)
    with pytest.warns(er.errors.UnequalQuestionsWarning, match="_failsafe lacks 1086 of 1136"):
        board = er.mean(once, by="model", item="question_id")
    ranks = board.ranks()
    assert len(ranks) == 93
    assert ranks.loc[board.params.idxmax(), "lower"] == 1
    assert set(board.tau_best()) >= {board.params.idxmax()}


@pytest.mark.parametrize("judges", [1, 3, 5])
def test_pairs_bands_ranks_and_letters_of_sparse_boards_decide_alike(judges: int) -> None:
    design, decided = boards.schedule("sparse", 5, 50), 0
    for seed in range(6):
        quality = np.array([0.0, 0.3, 0.6, 0.9, 1.2])
        log = boards.draw(np.random.default_rng([judges, seed]), design, judges, 0.1, quality)
        groups = "prompt" if judges == 1 else "prompt + judge"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", er.errors.EvalregWarning)
            board = er.win_rate(log, left="left", right="right", score="score", groups=groups)
        holm, ranks = board.pairwise("holm"), board.ranks()
        bands = board.simultaneous(contrasts="pairs").loc[holm.index]
        sure = (holm["p_adjusted"] <= 0.05).to_numpy()
        banded = (bands["lower"] > 0) | (bands["upper"] < 0)
        assert not np.any(banded.to_numpy() & ~sure)
        np.testing.assert_allclose(holm["se"], bands["se"], rtol=1e-12)
        if judges > 1:
            first = np.where(holm["difference"] > 0, *(holm.index.get_level_values(side) for side in (0, 1)))
            last = np.where(holm["difference"] > 0, *(holm.index.get_level_values(side) for side in (1, 0)))
            lower = {model: 1 + int(np.sum(sure & (last == model))) for model in ranks.index}
            upper = {model: 5 - int(np.sum(sure & (first == model))) for model in ranks.index}
            assert ranks["lower"].to_dict() == lower
            assert ranks["upper"].to_dict() == upper
            letters = board.letters()
            apart = [not set(letters[a]) & set(letters[b]) for a, b in holm.index]
            assert apart == sure.tolist()
        decided += int(sure.sum())
    assert decided > 0

"""Results made from results: linear, transform, stack and concat, against derivatives and sandwiches by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from statsmodels.stats._delta_method import NonlinearDeltaCov

import evalreg as er
from evalreg.boards.board import Board
from evalreg.errors import ArgumentError, NotAvailableError

# The same sums in another order.
EXACT = 1e-12
# Central differences of step 6e-6 leave about this much of a derivative.
DIFFERENCES = 1e-8


@pytest.fixture(scope="module")
def models():
    log = er.datasets.paired(n_passages=30, seed=1)
    return er.mean(log, by="model", item="question", groups="passage")


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(5)
    frame = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    return frame.assign(x=rng.standard_normal(len(frame)), other=frame["score"] + rng.standard_normal(len(frame)))


@pytest.fixture(scope="module")
def board():
    verdicts = er.datasets.judge_log(n_models=4, n_prompts=60, seed=1)
    return er.win_rate(verdicts, left="left", right="right", winner="winner", groups="prompt")


def _ratio_and_log(p):
    return {"ratio": p["new"] / p["old"], "log odds": np.log(p["new"] / (1 - p["new"]))}


def test_transform_is_the_delta_method_of_statsmodels(models):
    moved = models.transform(_ratio_and_log)

    def of_array(p):
        return np.array([p[0] / p[1], np.log(p[0] / (1 - p[0]))])

    theirs = NonlinearDeltaCov(of_array, models.params.to_numpy(), models.cov_params().to_numpy())
    assert moved.params.index.tolist() == ["ratio", "log odds"]
    np.testing.assert_allclose(moved.params, of_array(models.params.to_numpy()), rtol=EXACT)
    np.testing.assert_allclose(moved.cov_params(), theirs.cov(), rtol=DIFFERENCES)


def test_a_derivative_given_and_a_numerical_one_agree(models):
    S = models.params.to_numpy()
    J = np.array([[1 / S[1], -S[0] / S[1] ** 2], [1 / (S[0] * (1 - S[0])), 0.0]])
    given, found = models.transform(_ratio_and_log, derivative=J), models.transform(_ratio_and_log)
    np.testing.assert_allclose(given.cov_params(), J @ models.cov_params().to_numpy() @ J.T, rtol=EXACT)
    np.testing.assert_allclose(found.bse, given.bse, rtol=DIFFERENCES)
    np.testing.assert_allclose(found.dof, given.dof, rtol=DIFFERENCES)
    np.testing.assert_allclose(found.with_cov(cov="CR1").bse, given.with_cov(cov="CR1").bse, rtol=DIFFERENCES)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize("estimator", [er.win_rate, er.bradley_terry])
@pytest.mark.parametrize("groups", ["prompt", "prompt + judge"])
def test_what_models_add_up_to_is_a_constant_and_no_finding(estimator, groups):
    verdicts = er.datasets.judge_log(n_models=4, n_prompts=60, seed=1)
    board = estimator(verdicts, left="left", right="right", winner="winner", groups=groups)
    for cov in ("CR0", "CR1", "CR2", "CR3"):
        under = board.with_cov(cov=cov)
        total = under.contrast(dict.fromkeys(board.params.index, 1.0))
        for found in (total, total.with_cov(cov="CR1"), under.contrast(np.ones((1, 4)))):
            assert found.bse.tolist() == [0.0]
            assert found.pvalues.isna().all()
            assert found.conf_int().isna().all(axis=None)
        # The others are as they were.
        both = under.contrast([[1.0, 1, 1, 1], [1, -1, 0, 0]])
        np.testing.assert_allclose(both.bse.iloc[1], under.contrast([[1.0, -1, 0, 0]]).bse.iloc[0], rtol=EXACT)


def test_odds_and_net_benefit_are_a_transform_and_a_linear_map(board):
    odds = board.transform(lambda S: S / (1 - S))
    benefit = board.contrast(2 * np.eye(4), board.params.index, constant=-1)
    np.testing.assert_allclose(odds.bse, board.odds().bse, rtol=DIFFERENCES)
    np.testing.assert_array_equal(benefit.cov_params(), board.net_benefit().cov_params())
    np.testing.assert_array_equal(benefit.params, board.net_benefit().params)
    assert isinstance(odds, Board)
    with pytest.raises(NotAvailableError, match="pairs of models"):
        odds.head_to_head()


def _sandwich(parts, codes):
    """CR0 of regressions of the same rows as one system of estimating equations, by explicit sums."""
    scores = np.hstack([X * (y - X @ b)[:, None] for X, y, b in parts])
    size = scores.shape[1]
    A, start = np.zeros((size, size)), 0
    for X, _, b in parts:
        own = slice(start, start + b.size)
        A[own, own] = np.linalg.inv(X.T @ X)
        start = own.stop
    T = pd.DataFrame(scores).groupby(codes).sum().to_numpy()
    return A @ T.T @ T @ A


def test_stacked_regressions_have_the_covariance_of_one_system(log):
    one = er.fit("score ~ n_words", log, groups="passage", cov="CR0")
    two = er.fit("other ~ n_words + x", log, groups="passage", cov="CR0")
    names = ["a0", "a1", "b0", "b1", "b2"]
    both = one.stack(two, names)
    constant = np.ones(len(log))
    X1 = np.column_stack([constant, log["n_words"]])
    X2 = np.column_stack([X1, log["x"]])
    parts = [(X1, log["score"].to_numpy(), one.params.to_numpy()), (X2, log["other"].to_numpy(), two.params.to_numpy())]
    np.testing.assert_allclose(both.cov_params(), _sandwich(parts, log["passage"].to_numpy()), rtol=1e-8)
    np.testing.assert_allclose(both.bse[:2], one.bse, rtol=1e-10)
    assert both.params.index.tolist() == names
    assert "OLS" in both.estimate.about.model


ORDERS = {
    "reversed": lambda log: log.iloc[::-1],
    "clusters in another order": lambda log: log.sort_values("label", kind="stable"),
    "rows of clusters in another order": lambda log: log.iloc[np.arange(len(log)) ^ 1],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("groups", ["passage", "passage + x", None])
def test_rows_in_another_order_are_not_stacked(log, order, groups):
    log = log.assign(x=np.arange(len(log)) % 20, label=log["passage"].factorize()[0] * 7 % 60)
    score, other = er.mean(log, groups=groups), ORDERS[order](log)
    with pytest.raises(ArgumentError, match="same order"):
        score.stack(er.mean(other, "other", groups=groups), ["score", "other"])
    if "rows" not in order:  # Without an index clusters still tell, also those that are asked for later.
        without = er.mean(other.reset_index(drop=True), "other", groups=groups)
        with pytest.raises(ArgumentError, match="same clusters"):
            score.stack(without, ["score", "other"]).with_cov(groups="passage")


def test_concatenated_results_have_no_covariance_between_them():
    spring, autumn = (
        er.mean(er.datasets.passages(n_passages=20, seed=seed), groups="passage", cov="CR1") for seed in (1, 2)
    )
    both = spring.concat(autumn, ["spring", "autumn"])
    assert both.cov_params().loc["spring", "autumn"] == 0.0
    assert both.n_clusters == {"passage": 40}
    # Of 40 clusters together, and not twice 20, is the factor G/(G - 1).
    alone = np.array([spring.bse.iloc[0], autumn.bse.iloc[0]]) * np.sqrt((40 / 39) / (20 / 19))
    np.testing.assert_allclose(both.bse, alone, rtol=1e-10)


def same_numbers(found, wanted):
    np.testing.assert_allclose(
        found.select_dtypes("number").to_numpy(float), wanted.select_dtypes("number").to_numpy(float), rtol=1e-9
    )


@pytest.fixture(scope="module")
def answers():
    """Answers of three models, mostly right, so that few questions tell two of them apart; two columns of clusters."""
    rng = np.random.default_rng(0)
    question, model = np.repeat(np.arange(60), 3), np.tile(list("abc"), 60)
    score = (rng.random(180) < 0.9 - 0.1 * (model == "c")).astype(float)
    return pd.DataFrame({"model": model, "question": question, "passage": question // 4, "other": question % 7}).assign(
        score=score
    )


def test_a_linear_function_has_the_tests_and_intervals_of_its_contrast(models, answers):
    differences = er.compare(answers, item="question", groups="passage").results
    for results, C in ((models, [[1, -1], [0.4, 0.6], [1 / 3, 0]]), (differences, [[1, -1, 0], [2, 0, 0]])):
        names = list("xyz")[: len(C)]
        found = results.transform(lambda p, C=C: np.array(C) @ p + 0.25, names)
        same_numbers(found.to_frame(), results.contrast(C, names, constant=0.25).to_frame())


# A name of their own, and one that a column has with other values.
@pytest.mark.parametrize("name", ["mine", "other"])
def test_labels_given_later_make_the_clusters_of_all_that_follows(answers, name):
    wanted = er.mean(answers, by="model", item="question", groups="passage")
    plain, labels = er.mean(answers, by="model", item="question"), answers["passage"].rename(name)
    for groups in (labels, {name: labels.to_numpy()}):
        found = plain.with_cov(groups=groups)
        same_numbers(found.pairwise(adjust="holm"), wanted.pairwise(adjust="holm"))
        same_numbers(found.leaderboard(), wanted.leaderboard())
        same_numbers(found.contrast("a - b").to_frame(), wanted.contrast("a - b").to_frame())
        same_numbers(plain.contrast("a - b").with_cov(groups=groups).to_frame(), wanted.contrast("a - b").to_frame())
    differences, later = (er.compare(answers, item="question", groups=g).results for g in ("passage", None))
    same_numbers(later.with_cov(groups=labels).to_frame(), differences.to_frame())


@pytest.mark.parametrize("frame_of", [pl.from_pandas, pa.Table.from_pandas])
def test_columns_of_any_frame_count_by_name(models, frame_of):
    difference = pd.DataFrame({"old": [-1.0], "new": [1.0]})
    assert list(models.params.index) == ["new", "old"]
    for weights in (difference, frame_of(difference)):
        assert models.contrast(weights).params.iloc[0] == pytest.approx(np.subtract(*models.params), abs=EXACT)
        assert models.t_test(weights).effect.item() == pytest.approx(np.subtract(*models.params), abs=EXACT)
        moved = models.transform(lambda p: p["new"] - p["old"], "new - old", derivative=weights)
        assert moved.bse.iloc[0] == pytest.approx(models.contrast("new - old").bse.iloc[0], rel=EXACT)
    influence = pd.DataFrame(models.influence(), columns=list(models.params.index))[["old", "new"]]
    errors = [
        er.infer(er.from_influence(models.params, rows), cov="HC0").bse for rows in (influence, frame_of(influence))
    ]
    pd.testing.assert_series_equal(*errors)

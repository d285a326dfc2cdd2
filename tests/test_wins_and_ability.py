"""Comparisons made of scores, and Rasch abilities: by hand, against a conditional logit, and refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# Newton's iterations of either side.
SOLVED, NEAR = 1e-8, 0.12


def answers(n_items: int = 300, models: tuple[str, ...] = ("ada", "bob", "cyd", "dan"), seed: int = 0) -> pd.DataFrame:
    """0/1 scores of models on items of unlike difficulty, a few of each in a suite; some models skip some items."""
    rng = np.random.default_rng(seed)
    difficulty = rng.normal(size=n_items)
    parts = []
    for place, model in enumerate(models):
        chance = 1 / (1 + np.exp(difficulty - 0.4 * place))
        score = (rng.uniform(size=n_items) < chance).astype(float)
        suite = np.arange(n_items) // 6
        part = pd.DataFrame({"model": model, "item": np.arange(n_items), "suite": suite, "score": score})
        parts.append(part[rng.uniform(size=n_items) < 0.9])
    return pd.concat(parts, ignore_index=True).assign(tokens=lambda log: np.arange(len(log)))


def test_wins_are_those_counted_by_hand_on_three_models():
    log = {
        "model": ["a", "b", "c", "a", "b", "a", "c"],
        "item": ["x", "x", "x", "y", "y", "z", "z"],
        "score": [3.0, 0.1 + 0.2, 0.3, 2.0, np.nan, 0.0, 5.0],  # 0.3 but for rounding
        "suite": ["s", "s", "s", "t", "t", "t", "t"],
    }
    wins = er.wins(log)
    assert wins.columns.tolist() == ["left", "right", "score", "item", "suite"]
    assert wins.to_numpy().tolist() == [
        ["a", "b", 1.0, "x", "s"],
        ["a", "c", 1.0, "x", "s"],
        ["b", "c", 0.5, "x", "s"],
        ["a", "c", 0.0, "z", "t"],
    ]


def test_win_rates_of_wins_are_the_mean_win_rate_and_bordas_count():
    log = answers(60)
    whole = log.groupby("item")["model"].transform("size") == log["model"].nunique()
    log = log[whole].reset_index(drop=True)
    table = log.pivot(index="item", columns="model", values="score")
    others = {m: table.drop(columns=m) for m in table}
    rate = {
        m: ((others[m].lt(table[m], axis=0) + 0.5 * others[m].eq(table[m], axis=0)).to_numpy().mean()) for m in table
    }
    board = er.win_rate(er.wins(log), left="left", right="right", score="score", groups="item")
    assert board.params.to_dict() == pytest.approx(rate, abs=1e-12)
    # Borda's count of an item: others below, ties by halves, which is the rank from below less 1.
    borda = (table.rank(axis=1) - 1).sum()
    assert (board.params * len(table) * (table.shape[1] - 1)).to_numpy() == pytest.approx(borda.to_numpy(), abs=1e-9)


def test_wins_of_joint_items_and_of_wider_clusters_work_as_groups():
    log = answers(60)  # six items a suite
    pairs = er.wins(log.assign(item=log["item"] % 6), item="suite:item")
    again = er.wins(log)
    assert er.ability(log.assign(item=log["item"] % 6), item="suite:item").n_clusters == {
        "suite:item": er.ability(log).n_clusters["item"]
    }
    assert sorted(pairs["score"]) == sorted(again["score"])
    er.win_rate(again, left="left", right="right", score="score", groups="suite")


def test_the_abilities_of_two_models_are_the_log_of_their_discordant_pairs():
    log = answers(models=("ada", "bob"))
    both = log.pivot(index="item", columns="model", values="score").dropna()
    n10, n01 = (both["ada"] > both["bob"]).sum(), (both["ada"] < both["bob"]).sum()
    found = er.ability(log)
    assert found.params["ada"] - found.params["bob"] == pytest.approx(np.log(n10 / n01), abs=SOLVED)
    assert found.params.sum() == pytest.approx(0, abs=SOLVED)
    assert found.nobs == n10 + n01


@pytest.mark.parametrize(("models", "error"), [(("ada", "bob"), 1e-6), (("ada", "bob", "cyd", "dan"), NEAR)])
def test_abilities_are_those_of_a_conditional_logit(models, error):
    from statsmodels.discrete.conditional_models import ConditionalLogit

    log = answers(models=models)
    X = pd.get_dummies(log["model"], dtype=float)[list(models[1:])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # items that all models solved, or none, are left out
        solved = ConditionalLogit(log["score"], X, groups=log["item"]).fit(disp=0, method="newton")
    theta = np.append(0.0, solved.params)
    assert er.ability(log).params.to_numpy() == pytest.approx(theta - theta.mean(), abs=error)


def test_the_covariance_of_abilities_is_the_sum_over_clusters_of_the_influence_by_hand():
    log = answers()
    found = er.ability(log, groups="suite", cov="CR0")
    pairs = er.wins(log).query("score != 0.5")
    models = found.params.index
    design = np.array([pairs["left"].eq(m).to_numpy(float) - pairs["right"].eq(m).to_numpy(float) for m in models]).T
    p = 1 / (1 + np.exp(-design @ found.params.to_numpy()))
    bread = np.linalg.pinv((design * (p * (1 - p))[:, None]).T @ design)
    influence = design * (pairs["score"].to_numpy() - p)[:, None] @ bread
    sums = pd.DataFrame(influence).groupby(pairs["suite"].to_numpy()).sum().to_numpy()
    assert found.cov_params().to_numpy() == pytest.approx(sums.T @ sums, rel=1e-5, abs=1e-9)
    # Pairs of one item share answers, whenever no groups are named.
    by_item = er.ability(log, cov="CR0")
    for some, same in ((found, by_item), (found.contrast("ada - bob"), by_item.contrast("ada - bob"))):
        pd.testing.assert_frame_equal(some.with_cov(groups=None).cov_params(), same.cov_params())
    # Answers given anew pair by their number, as the refusal says.
    twice = pd.concat([log, log]).assign(sample=np.repeat([0, 1], len(log)))
    with pytest.raises(er.errors.DuplicateRowsError, match="and cluster by 'item'"):
        er.ability(twice)
    again = er.ability(twice, item="sample:item", groups="item", cov="CR0")
    assert again.cov_params().to_numpy() == pytest.approx(by_item.cov_params().to_numpy(), rel=1e-6, abs=1e-12)
    without = er.ability(log.assign(suite=log["suite"].where(log["suite"] > 3)), groups="suite")
    assert without.dropped["group"] == (log["suite"] <= 3).sum()


def test_abilities_rest_on_comparisons():
    results = er.ability(er.datasets.paired(n_passages=30, seed=1), item="question", groups="passage")
    assert f"{results.nobs} comparisons in " in " ".join(str(results.summary()).split())

"""Boards of means over different questions: what is said of them, and the questions that all models answered."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import DataError, UnequalQuestionsWarning

SAME = 1e-12


def board_log(rng: np.random.Generator, n_items: int = 120, n_models: int = 5) -> pd.DataFrame:
    """Models of one ability on questions of unlike difficulty, in passages of four."""
    difficulty = rng.normal(size=n_items)
    item, model = (part.ravel() for part in np.meshgrid(np.arange(n_items), np.arange(n_models), indexing="ij"))
    score = (rng.normal(size=item.size) < difficulty[item]).astype(float)
    return pd.DataFrame(
        {
            "item": [f"q{i}" for i in item],
            "passage": item // 4,
            "model": [f"m{m}" for m in model],
            "score": score,
            "hard": difficulty[item] < -0.3,
        }
    )


def uneven(log: pd.DataFrame) -> pd.DataFrame:
    """Without the hard questions of m2, and without three questions of m4."""
    skipped = (log["model"] == "m2") & log["hard"]
    return log[~skipped & ~((log["model"] == "m4") & log["item"].isin(["q1", "q2", "q3"]))]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def said(log, **roles) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        er.mean(log, by="model", **roles)
    texts = [str(one.message) for one in caught if one.category is UnequalQuestionsWarning]
    assert len(texts) <= 1
    return texts[0] if texts else ""


def test_the_model_that_lacks_most_is_named_with_how_many_it_lacks(rng):
    log = uneven(board_log(rng))
    n_hard = board_log(np.random.default_rng(11)).query("model == 'm2'")["hard"].sum()
    text = said(log, item="item", groups="passage")
    assert f"m2 lacks {n_hard} of 120 (1 other lacks some too)" in text
    by_hand = log[log["model"] != "m2"]
    easy = by_hand[by_hand["item"].isin(log.loc[log["model"] == "m2", "item"])]
    shift = (easy.groupby("model")["score"].mean() - by_hand.groupby("model")["score"].mean()).mean()
    assert f"the others score {shift:.3g} higher" in text
    counts = log.groupby("item")["model"].nunique()
    assert f"the {(counts == 5).sum()} that all 5 answered" in text
    # The text depends on neither the order of the rows nor the clusters.
    assert said(log.sample(frac=1, random_state=1), item="item") == text


def test_what_others_score_on_questions_is_told_of_those_who_answered_enough_of_them():
    # One model answered questions 0 to 24; of these a second answered `shared` and a third all.
    def told(shared, third=False):
        asked = {"few": range(25), "second": range(25 - shared, 60), "third": range(60) if third else ()}
        rows = [(model, i, float(i % 3 == 0 or i < 25)) for model, items in asked.items() for i in items]
        return said(pd.DataFrame(rows, columns=["model", "item", "score"]), item="item")

    assert "On " not in told(1)
    assert "On " not in told(9)
    assert "On 10 of the 25 that it answered second scores 0.533 higher than on all its questions." in told(10)
    assert "On the 25 that it answered third scores 0.4 higher than on all its questions." in told(9, third=True)


@pytest.mark.parametrize("weight", [0.3, 1.0, 2.5])
def test_clusters_are_questions_where_no_model_has_two_rows_of_one_whatever_these_weigh(rng, weight):
    log = uneven(board_log(rng)).assign(weight=weight)
    alone = {"groups": "item", "weights": "weight"}
    assert "m2 lacks" in said(log, **alone)
    assert "Questions are the item clusters here" in said(log, **alone)
    assert said(pd.concat([log, log]), **alone) == ""


def test_shared_questions_are_those_that_a_merge_of_all_models_keeps(rng):
    log = uneven(board_log(rng)).sample(frac=1, random_state=3)
    wide = log.pivot(index="item", columns="model", values="score").dropna()
    kept = log[log["item"].isin(wide.index)]
    for roles in ({}, {"groups": "passage"}, {"groups": "passage", "cov": "CR3"}):
        results = er.mean(log, by="model", item="item", questions="shared", **roles)
        by_hand = er.mean(kept, by="model", item="item", **roles)
        np.testing.assert_allclose(results.to_frame(), by_hand.to_frame(), rtol=SAME)
        np.testing.assert_allclose(results.params, wide.mean(), rtol=SAME)
        assert results.dropped["unshared"] == len(log) - len(kept)
        assert results.notes == ()
        assert f"Questions: the {len(wide)} of 120 that all 5 models answered; m2 lacks" in str(results.summary())
    # What is looked up afterwards is aligned with the rows that are left.
    again = results.with_cov(groups="passage", cov="CR1")
    np.testing.assert_allclose(
        again.bse, er.mean(kept, by="model", item="item", groups="passage", cov="CR1").bse, rtol=SAME
    )
    assert list(results.influence().index) == [int(i) for i in np.flatnonzero(log["item"].isin(wide.index))]


def test_questions_that_no_model_shares_are_refused_with_the_models_that_cost_most(rng):
    log = board_log(rng, n_models=6)
    number = log["item"].str[1:].astype(int)
    part = log[~((log["model"] == "m3") & (number >= 30)) & ~((log["model"] == "m5") & (number < 80))]
    with pytest.raises(DataError, match="of 120 there is none") as caught:
        er.mean(part, by="model", item="item", questions="shared")
    text = str(caught.value)
    assert '"m3 (30)"' in text
    assert 'Leave out "m3", "m5": the others share 120.' in text
    # The advice leads to what it says.
    left = er.mean(part[~part["model"].isin(["m3", "m5"])], by="model", item="item", questions="shared")
    assert left.to_frame()["n"].tolist() == [120] * 4
    assert 'leave out "m3", "m5" and use `mean` with questions="shared" for the 120' in said(part, item="item").replace(
        "L", "l"
    )


@pytest.mark.slow
def test_models_of_equal_ability_are_told_apart_by_what_they_skipped_and_not_on_shared_questions():
    """A hundred boards: skipping hard questions wins on own questions, and wins nothing on shared ones."""
    own = shared = 0
    for seed in range(100):
        log = uneven(board_log(np.random.default_rng(seed), n_items=200, n_models=3).replace({"model": {"m0": "m4"}}))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnequalQuestionsWarning)
            board = er.mean(log, by="model", item="item")
        own += board.contrast("m2 - m1").pvalues.iloc[0] < 0.05
        even = er.mean(log, by="model", item="item", questions="shared")
        shared += even.contrast("m2 - m1").pvalues.iloc[0] < 0.05
    assert own >= 80
    assert shared <= 12  # binomial(100, .05) is above 12 in 1 of 1,000


def test_a_benchmark_with_a_model_that_skipped_questions(shared: Path):
    log = pd.read_csv(shared / "data" / "mmlu_pro_scores.csv.gz")
    with pytest.warns(UnequalQuestionsWarning, match="DeepSeek-Coder-V2 lacks 1681 of 12032"):
        own = er.mean(log, "correct", by="model", item="question_id", groups="passage")
    first = own.contrast("gemini-1.5-flash-002 - DeepSeek-Coder-V2")
    assert first.params.iloc[0] == pytest.approx(0.0047, abs=5e-5)
    assert first.pvalues.iloc[0] > 0.3
    part = log[log["model"].isin(["gemini-1.5-flash-002", "DeepSeek-Coder-V2"])]
    both = er.mean(part, "correct", by="model", item="question_id", groups="passage", questions="shared")
    second = both.contrast("gemini-1.5-flash-002 - DeepSeek-Coder-V2")
    assert second.params.iloc[0] == pytest.approx(0.0217, abs=5e-5)
    assert second.pvalues.iloc[0] < 1e-5
    pair = er.compare(part, "correct", item="question_id", groups="passage").table.iloc[0]
    np.testing.assert_allclose([second.params.iloc[0], second.bse.iloc[0]], pair[["difference", "se"]].astype(float))


def test_other_estimates_than_means_say_so_too(rng):
    whole = board_log(rng).assign(cost=lambda frame: 1 + rng.random(len(frame)), truth=lambda frame: 1 * frame["hard"])
    for estimator, arguments in (
        (er.quantile, {"score": "cost", "by": "model", "groups": "item"}),
        (er.ratio, {"numerator": "score", "denominator": "cost", "by": "model", "groups": "item"}),
        (er.classification, {"truth": "truth", "predicted": "score", "by": "model", "groups": "item"}),
        (er.frontier, {"metrics": {"score": "max", "cost": "min"}}),
    ):
        for data, lacks in ((uneven(whole), True), (whole, False)):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                estimator(data, **arguments)
            texts = [str(entry.message) for entry in caught if entry.category is UnequalQuestionsWarning]
            assert len(texts) == lacks
            assert all(
                re.search(r"m2 lacks \d+ of 120 .*Keep the rows of the \d+ that all 5 answered", t) for t in texts
            )

"""Randomisation tests: scipy's permutation test, every assignment by hand, and simulated assignments."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import evalreg as er
from evalreg.errors import ArgumentError, DataError, EvalregWarning, TooFewClustersError, UnknownLabelError

SAME = 1e-9


def made_log(rng, sizes, treated, effect=0.0, pair=None):
    """A row an answer: passages of these sizes, the treated ones under the prompt "new"."""
    passage = np.repeat(np.arange(len(sizes)), sizes)
    score = rng.normal(size=len(sizes))[passage] + rng.normal(size=passage.size)
    treated = np.asarray(treated, dtype=bool)
    frame = pd.DataFrame(
        {
            "passage": [f"p{g}" for g in passage],
            "prompt": np.where(treated, "new", "base")[passage],
            "score": score + effect * treated[passage],
        }
    )
    return frame if pair is None else frame.assign(pair=np.asarray(pair)[passage])


def by_hand(frame, treated):
    """Difference of the rows' means and its t, from the rows, were these passages treated."""
    arms = [frame[frame["passage"].isin(treated)], frame[~frame["passage"].isin(treated)]]
    variance = 0.0
    for arm in arms:
        left = (arm["score"] - arm["score"].mean()).groupby(arm["passage"]).sum()
        variance += len(left) / (len(left) - 1) * (left**2).sum() / len(arm) ** 2
    difference = arms[0]["score"].mean() - arms[1]["score"].mean()
    return difference, difference / np.sqrt(variance)


@pytest.mark.parametrize("treated", [[1, 1, 1, 0, 0, 0, 0], [1, 0, 1, 0, 1, 0, 1]])
def test_p_values_are_those_of_every_assignment_by_hand(rng, treated):
    frame = made_log(rng, [3, 8, 2, 5, 12, 4, 6], treated, effect=0.9)
    passages = list(dict.fromkeys(frame["passage"]))
    own = [name for name, is_treated in zip(passages, treated, strict=True) if is_treated]
    everything = np.array([by_hand(frame, some) for some in combinations(passages, len(own))])
    difference, t = by_hand(frame, own)
    found = er.randomisation_test(frame, treatment="prompt", groups="passage")
    assert (found.draws, found.enumerated, found.name) == (35, True, "new - base")
    np.testing.assert_allclose([found.estimate, found.t], [difference, t], rtol=SAME)
    assert found.p_value == np.mean(np.abs(everything[:, 1]) >= abs(t) * (1 - SAME))


def test_the_interval_holds_the_effects_that_are_not_rejected(rng):
    treated = [1, 0, 1, 1, 0, 0, 1, 0, 0]
    frame = made_log(rng, [3, 8, 2, 5, 12, 4, 6, 3, 7], treated, effect=0.9)
    asked = {"treatment": "prompt", "groups": "passage", "alpha": 0.1}
    low, high = er.randomisation_test(frame, **asked).interval

    def p(effect):
        moved = frame.assign(score=frame["score"] - effect * (frame["prompt"] == "new"))
        return er.randomisation_test(moved, **asked).p_value

    step = 1e-6 * (high - low)
    assert p(low + step) > 0.1 >= p(low - step)
    assert p(high - step) > 0.1 >= p(high + step)


def test_of_equal_clusters_it_is_the_permutation_test_of_scipy(rng):
    frame = made_log(rng, [4] * 10, [1, 1, 1, 1, 0, 0, 0, 0, 0, 0], effect=0.7)
    means = frame.groupby(["prompt", "passage"])["score"].mean()

    def welch(x, y, axis):
        return stats.ttest_ind(x, y, axis=axis, equal_var=False).statistic

    theirs = stats.permutation_test((means["new"], means["base"]), welch, n_resamples=10**5)
    found = er.randomisation_test(frame, treatment="prompt", groups="passage")
    np.testing.assert_allclose(found.t, theirs.statistic, rtol=SAME)
    assert found.p_value == np.mean(np.abs(theirs.null_distribution) >= abs(theirs.statistic) * (1 - SAME))


def test_of_pairs_it_is_the_paired_t_under_all_signs(rng):
    pair = np.repeat(np.arange(7), 2)
    frame = made_log(rng, [5] * 14, [1, 0] * 7, effect=0.6, pair=pair)
    found = er.randomisation_test(frame, treatment="prompt", groups="passage", strata="pair")
    means = frame.pivot_table(index="pair", columns="prompt", values="score")
    gap = (means["new"] - means["base"]).to_numpy()
    expected = stats.ttest_1samp(gap, 0)
    np.testing.assert_allclose([found.t, found.estimate], [expected.statistic, gap.mean()], rtol=SAME)
    signs = np.array(list(product([1, -1], repeat=7)))
    every = stats.ttest_1samp(signs * gap, 0, axis=1).statistic
    assert found.draws == 128
    assert found.p_value == np.mean(np.abs(every) >= abs(expected.statistic) * (1 - SAME))


def test_strata_of_several_clusters_are_least_squares_with_neyman_errors(rng):
    treated, block = [1, 1, 0, 0, 0, 1, 1, 1, 0, 0], [0] * 5 + [1] * 5
    sizes = [3, 8, 2, 5, 12, 4, 6, 3, 7, 5]
    frame = made_log(rng, sizes, treated, effect=0.5, pair=block)
    asked = {"treatment": "prompt", "groups": "passage", "strata": "pair"}
    found = er.randomisation_test(frame, **asked)
    fit = smf.ols("score ~ C(prompt, Treatment('base')) + C(pair)", frame).fit()
    np.testing.assert_allclose(found.estimate, fit.params.iloc[1], rtol=SAME)
    assert found.draws == 100
    # The effects of the blocks, weighted as least squares weights them.
    weights, variances = [], []
    for _, part in frame.groupby("pair"):
        names = part.loc[part["prompt"] == "new", "passage"].unique()
        difference, t = by_hand(part, names)
        share = (part["prompt"] == "new").mean()
        weights.append(len(part) * share * (1 - share))
        variances.append((difference / t) ** 2)
    expected = np.sqrt(np.sum(np.square(weights) * variances)) / np.sum(weights)
    np.testing.assert_allclose(found.se, expected, rtol=SAME)
    # Another order of rows, and another engine, change nothing.
    shuffled = frame.sample(frac=1, random_state=1)
    assert er.randomisation_test(pl.from_pandas(shuffled), **asked).p_value == found.p_value


def test_drawn_assignments_are_near_the_enumerated_and_the_same_for_a_seed(rng):
    treated = [1, 0] * 6
    frame = made_log(rng, rng.integers(1, 9, 12), treated, effect=0.6, pair=[0] * 4 + [1] * 8)
    asked = {"treatment": "prompt", "groups": "passage", "strata": "pair"}
    exact = er.randomisation_test(frame, **asked)
    assert exact.enumerated
    assert exact.draws == 6 * 70
    drawn = er.randomisation_test(frame, **asked, draws=400)
    assert not drawn.enumerated
    assert drawn.p_value * 401 == pytest.approx(round(drawn.p_value * 401))
    # Five standard errors of 400 draws.
    assert abs(drawn.p_value - exact.p_value) < 5 * np.sqrt(0.25 / 400)
    assert er.randomisation_test(frame, **asked, draws=400).p_value == drawn.p_value


@pytest.mark.parametrize("n", [6, pytest.param(8, marks=pytest.mark.slow)])
def test_the_level_is_exact_over_all_assignments(rng, n):
    # Whatever the scores, p <= alpha in at most that share of the assignments.
    scores = made_log(rng, [2, 30, 4, 1, 7, 11, 3, 5][:n], ([1, 0] * 4)[:n])
    passages = list(dict.fromkeys(scores["passage"]))
    p_values = []
    for some in combinations(passages, n // 2):
        frame = scores.assign(prompt=np.where(scores["passage"].isin(some), "new", "base"))
        # Of few assignments none has a p-value below .1; the level is for the interval alone.
        p_values.append(er.randomisation_test(frame, treatment="prompt", groups="passage", alpha=0.2).p_value)
    for alpha in (0.05, 0.1, 0.3):
        assert alpha - 2 / len(p_values) < np.mean(np.array(p_values) <= alpha) <= alpha


def test_one_treated_cluster_is_refused(rng):
    frame = made_log(rng, [4] * 25, [1] + [0] * 24, effect=9)
    with pytest.raises(TooFewClustersError, match='"new" has 1 of the 25'):
        er.randomisation_test(frame, treatment="prompt", groups="passage")


def test_treatment_within_clusters_is_refused_with_counts_and_the_advice_works(rng):
    frame = made_log(rng, [6] * 8, [1, 0] * 4)
    mixed = frame.assign(prompt=np.where(np.arange(len(frame)) % 2, "new", "base"))
    mixed.loc[mixed["passage"] == "p3", "prompt"] = "new"
    with pytest.raises(
        DataError, match=r'varies within 7 of 8 passage clusters \("p0", "p1", "p2", \.\.\.\)'
    ) as caught:
        er.randomisation_test(mixed, treatment="prompt", groups="passage")
    assert caught.value.count == 7
    with pytest.warns(EvalregWarning, match="1 of 8 values of passage have one label"):
        found = er.randomisation_test(mixed, treatment="prompt", groups=None, strata="passage", draws=199)
    kept = mixed[mixed["passage"] != "p3"]
    expected = smf.ols("score ~ C(prompt, Treatment('base')) + C(passage)", kept).fit().params.iloc[1]
    np.testing.assert_allclose(found.estimate, expected, rtol=SAME)
    alone = er.randomisation_test(kept, treatment="prompt", groups=None, strata="passage", draws=199)
    assert replace(found, notes=()) == replace(alone, notes=())


def test_three_labels_need_two_named_and_the_rest_stays_aside(rng):
    frame = made_log(rng, [3] * 15, [1, 0, 0] * 5)
    frame.loc[frame["passage"].isin([f"p{g}" for g in range(1, 15, 3)]), "prompt"] = "third"
    with pytest.raises(ArgumentError, match='"base", "new", "third"'):
        er.randomisation_test(frame, treatment="prompt", groups="passage")
    with pytest.warns(EvalregWarning, match='15 rows under "third" left aside'):
        found = er.randomisation_test(frame, treatment="prompt", groups="passage", levels=("base", "new"))
    alone = frame[frame["prompt"] != "third"]
    other = er.randomisation_test(alone, treatment="prompt", groups="passage")
    assert found.name == "base - new"
    np.testing.assert_allclose([found.estimate, found.p_value], [-other.estimate, other.p_value], rtol=SAME)
    with pytest.raises(UnknownLabelError, match="Did you mean"):
        er.randomisation_test(frame, treatment="prompt", groups="passage", levels=("bose", "new"))

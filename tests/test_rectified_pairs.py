"""Rectified win rates: slow loops, er.win_rate where all is labelled, symmetry, and simulated truth."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import EvalregWarning

SAME = 1e-10
ROLES = {"left": "left", "right": "right", "judge": "judge", "human": "human"}
ABILITY = np.array([0.0, 0.5, 1.0, 1.4])


def world(seed=1, n_prompts=60, share=0.3, whole=False, n_models=4, pairs_per_prompt=4) -> pd.DataFrame:
    """A log of its own of those that are drawn once."""
    return drawn(seed, n_prompts, share, whole, n_models, pairs_per_prompt).copy()


@functools.cache
def drawn(seed: int, n_prompts: int, share: float, whole: bool, n_models: int, pairs_per_prompt: int) -> pd.DataFrame:
    """Verdicts that depend on the prompt, by humans and by a judge that favours the left side and the last model."""
    rng = np.random.default_rng(seed)
    a, b = np.triu_indices(n_models, 1)
    # Matchmaking: neighbours meet more often, so that opponents weigh differently in the two schedules.
    odds = 1.0 / (b - a) / np.sum(1.0 / (b - a))
    chosen = [rng.choice(a.size, min(pairs_per_prompt, a.size), replace=False, p=odds) for _ in range(n_prompts)]
    prompt = np.repeat(np.arange(n_prompts), [part.size for part in chosen])
    pair = np.concatenate(chosen)
    strength = ABILITY[:n_models] + 0.8 * rng.normal(size=(n_prompts, n_models))
    flip = rng.random(pair.size) < 0.5
    left, right = np.where(flip, b[pair], a[pair]), np.where(flip, a[pair], b[pair])
    edge = strength[prompt, left] - strength[prompt, right]
    noise = rng.logistic(size=pair.size)
    bias = 0.5 + 1.5 * (left == n_models - 1) - 1.5 * (right == n_models - 1)
    verdicts = [np.where(gap > 0.3, 1.0, np.where(gap < -0.3, 0.0, 0.5)) for gap in (edge + noise, edge + noise + bias)]
    names = np.array([f"m{k}" for k in range(n_models)])
    log = pd.DataFrame({"prompt": prompt, "left": names[left], "right": names[right]})
    log["judge"] = np.where(rng.random(pair.size) < 0.15, 1 - verdicts[1], verdicts[1])
    log["truth"] = verdicts[0]
    drawn = rng.random(n_prompts)[prompt] < share if whole else rng.random(pair.size) < share
    log["human"] = log["truth"].where(drawn)
    return log


def rectified(log, **options) -> er.Results:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvalregWarning)
        return er.rectified_win_rate(log, **{**ROLES, **options})


def by_model(log: pd.DataFrame, opponents: str) -> dict[str, pd.DataFrame]:
    """The comparisons of each model seen from its side, with weights, by plain selection."""
    sides = {}
    for model in sorted(set(log["left"]) | set(log["right"])):
        first, second = log[log["left"] == model].copy(), log[log["right"] == model].copy()
        first["other"], second["other"] = first["right"], second["left"]
        second[["judge", "human"]] = 1 - second[["judge", "human"]]
        own = pd.concat([first, second])
        own["w"] = 1.0 if opponents == "as_sampled" else 1.0 / own.groupby("other")["judge"].transform("size")
        sides[model] = own
    return sides


def pieces(own: pd.DataFrame):
    """Means, and what each prompt adds to the human mean and to the gap of the judge's means."""
    has = own["human"].notna()
    W_l, W_u = own["w"][has].sum(), own["w"][~has].sum()
    y = (own["w"] * own["human"])[has].sum() / W_l
    f_l, f_u = (own["w"] * own["judge"])[has].sum() / W_l, (own["w"] * own["judge"])[~has].sum() / W_u
    human = (own["w"] * (own["human"] - y)).where(has, 0.0) / W_l
    gap = np.where(has, own["w"] * (own["judge"] - f_l) / W_l, -own["w"] * (own["judge"] - f_u) / W_u)
    return y, f_l - f_u, human.groupby(own["prompt"]).sum(), pd.Series(gap, own.index).groupby(own["prompt"]).sum()


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("opponents", ["uniform", "as_sampled"])
def test_estimates_are_those_of_the_slow_loop(opponents, whole):
    log = world(whole=whole)
    results = rectified(log, groups="prompt", opponents=opponents, cov="CR1")
    parts = {model: pieces(own) for model, own in by_model(log, opponents).items()}
    lam = sum((h * d).sum() for _, _, h, d in parts.values()) / sum((d**2).sum() for _, _, _, d in parts.values())
    assert 0.05 < lam < 0.95  # otherwise the cut to [0, 1] is all that is compared
    G = log["prompt"].nunique()
    np.testing.assert_allclose(results.to_frame()["lambda"], lam, rtol=SAME)
    influence = {model: (h - lam * d).reindex(range(G), fill_value=0.0) for model, (_, _, h, d) in parts.items()}
    for model, (y, gap, _, _) in parts.items():
        assert results.params[model] == pytest.approx(y - lam * gap, rel=SAME)
        assert results.bse[model] ** 2 == pytest.approx(G / (G - 1) * (influence[model] ** 2).sum(), rel=SAME)
    shared = G / (G - 1) * (influence["m0"] * influence["m3"]).sum()
    assert results.cov_params().loc["m0", "m3"] == pytest.approx(shared, rel=1e-8)
    alone = results.to_frame()
    np.testing.assert_allclose(alone["human_mean"], [y for y, *_ in parts.values()], rtol=SAME)


@pytest.mark.parametrize("opponents", ["uniform", "as_sampled"])
def test_with_every_row_labelled_they_are_the_win_rates_of_the_humans(opponents):
    log = world().assign(human=lambda log: log["truth"])
    board = er.win_rate(log, left="left", right="right", score="truth", groups="prompt", opponents=opponents, cov="CR1")
    results = rectified(log, groups="prompt", opponents=opponents, cov="CR1")
    np.testing.assert_allclose(results.params, board.params, rtol=SAME)
    if opponents == "as_sampled":
        np.testing.assert_allclose(results.cov_params(), board.cov_params(), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("cov", [None, "naive", "HC0", "HC1", "HC2", "HC3", "CR3"])
def test_two_models_mirror_each_other(cov):
    results = rectified(world(n_models=2, pairs_per_prompt=1, n_prompts=200), cov=cov)
    assert results.params.sum() == pytest.approx(1.0, rel=SAME)
    # The two rows of a comparison are never independent, so that the two are exactly opposed.
    assert results.contrast("m1 - m0").bse.iloc[0] == pytest.approx(2 * results.bse["m1"], rel=1e-8)
    assert results.with_cov(cov="CR2", groups="comparison").n_clusters == {"comparison": 200}


def test_verdicts_in_words_are_the_scores():
    log = world()
    words = {1.0: "A", 0.0: "B", 0.5: "tie"}
    said = log.assign(judge=log["judge"].map(words), human=log["human"].map(words))
    one, two = rectified(log, groups="prompt"), rectified(said, groups="prompt", labels={"A": "left", "B": "right"})
    pd.testing.assert_frame_equal(one.to_frame(), two.to_frame(), rtol=1e-12)
    mixed = rectified(log.assign(human=said["human"]), groups="prompt", labels={"A": "left", "B": "right"})
    pd.testing.assert_frame_equal(one.to_frame(), mixed.to_frame(), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
def test_intervals_hold_the_truth_and_the_judge_narrows_them(whole):
    large = world(seed=99, n_prompts=15_000)
    truth = er.win_rate(large, left="left", right="right", score="truth", groups="prompt").params
    held, ratio, off = [], [], []
    for seed in range(120):
        results = rectified(world(seed=seed, n_prompts=80, whole=whole), groups="prompt")
        ends = results.conf_int()
        held.append((ends[0] <= truth) & (truth <= ends[1]))
        off.append(results.params - truth)
        table = results.to_frame()
        ratio.append((table["se"] / table["human_se"]).mean())
    # 480 intervals, four of them of one log: three standard errors of a share of 250 independent ones.
    assert np.mean(held) > 0.95 - 0.04
    assert np.mean(ratio) < 0.95
    # The judge alone is off for its favourite; the correction takes that out.
    judged = er.win_rate(large, left="left", right="right", score="judge", groups="prompt").params
    assert abs(judged["m3"] - truth["m3"]) > 0.05
    assert np.abs(np.mean(off, axis=0)).max() < 3.5 * np.std(off, axis=0).max() / np.sqrt(len(off))


@pytest.mark.parametrize("groups", [None, "prompt"])
def test_rates_and_their_intervals_stay_between_0_and_1(groups):
    for seed in range(5):
        log = world(seed, n_prompts=20, share=0.3, n_models=3)
        log["human"] = log["human"].where(log["left"] != "m2", 1.0 * (log["human"] >= 0)).where(log["human"].notna())
        log["human"] = log["human"].where(log["right"] != "m2", 0.0 * log["human"])
        results = rectified(log, groups=groups)
        ends = results.conf_int()
        assert ends.stack().between(0, 1).all(), ends
        assert (ends[1] > ends[0]).all()
        assert (results.conf_int(method="wald").loc["m2"].isna() | (results.params["m2"] > 0.8)).any()

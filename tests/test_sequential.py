"""Confidence sequences: a slow loop over looks, the formula by hand, numerical minima and simulated miss rates."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar

import evalreg as er
from evalreg.errors import ConstantScoreError, DataError
from evalreg.inference.sequential import mixture_rho, mixture_width

# Running sums against sums made anew at every look.
SAME = 1e-9


def growing(seed=2, n_clusters=60) -> pd.DataFrame:
    """Two models on the questions of unequal clusters, cluster after cluster; one of them skips some questions."""
    rng = np.random.default_rng(seed)
    rows = []
    for g in range(n_clusters):
        easy = rng.normal()
        for q in range(rng.integers(1, 7)):
            for model in ("new", "old"):
                if model == "old" and q == 3:
                    continue
                score = 5.0 + easy + rng.normal() + 0.2 * (model == "new")
                rows.append({"passage": f"p{(g * 7) % n_clusters:03d}", "model": model, "question": q, "score": score})
    return pd.DataFrame(rows)


def slow_half_width(t: int, alpha: float, t0: int) -> float:
    rho2 = (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / t0
    return math.sqrt(2 * (t * rho2 + 1) / (t**2 * rho2) * math.log(math.sqrt(t * rho2 + 1) / alpha))


def slow_looks(log: pd.DataFrame, parts: dict[str, float], alpha: float, t0: int, start: int) -> pd.DataFrame:
    """Every look from its own rows: means, each cluster's influence, and the formula."""
    clusters = list(dict.fromkeys(log["passage"]))
    model, passage, score = (log[name].to_numpy() for name in ("model", "passage", "score"))
    found = {}
    for t in range(start, len(clusters) + 1):
        seen = np.isin(passage, clusters[:t])
        estimate, influence, rows = 0.0, np.zeros(t), 0
        for name, sign in parts.items():
            mine = seen & (model == name)
            mean = score[mine].mean()
            estimate += sign * mean
            rows += mine.sum()
            for i, cluster in enumerate(clusters[:t]):
                own = score[mine & (passage == cluster)]
                influence[i] += sign * (own.sum() - mean * len(own)) / (mine.sum() / t)
        spread = math.sqrt(sum(influence**2) / t)
        half = spread * slow_half_width(t, alpha, t0)
        found[t] = (estimate, spread / math.sqrt(t), estimate - half, estimate + half, rows)
    return pd.DataFrame.from_dict(found, orient="index", columns=["estimate", "se", "lower", "upper", "n"])


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")  # looks from the first clusters on
def test_looks_at_a_mean_are_those_of_the_slow_loop():
    log = growing().query("model == 'new'")
    found = er.confidence_sequence(log, groups="passage", alpha=0.1, t0=40, start=5)
    slow = slow_looks(log, {"new": 1.0}, 0.1, 40, 5)
    np.testing.assert_allclose(found, slow, rtol=SAME)
    assert found.index.tolist() == slow.index.tolist()
    assert (found.index.name, list(found.columns)) == ("n_clusters", ["estimate", "se", "lower", "upper", "n"])


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")  # looks from the first clusters on
def test_looks_at_a_difference_are_those_of_the_slow_loop():
    log = growing()
    found = er.confidence_sequence(log, groups="passage", model="model", pair=("new", "old"), start=3)
    slow = slow_looks(log, {"new": 1.0, "old": -1.0}, 0.05, 50, 3)
    np.testing.assert_allclose(found, slow, rtol=1e-7, atol=1e-12)
    # The other way round is the mirror image.
    back = er.confidence_sequence(log, groups="passage", model="model", pair=("old", "new"), start=3)
    np.testing.assert_allclose(back[["lower", "upper"]], -found[["upper", "lower"]], rtol=1e-9)


def test_two_models_on_the_same_rows_are_the_sequence_of_paired_differences():
    log = er.datasets.paired(n_passages=50, seed=4).sort_values("passage", kind="stable")
    wide = log.pivot(index=["passage", "question"], columns="model", values="score").reset_index()
    wide["gain"] = wide["new"] - wide["old"]
    both = er.confidence_sequence(log, groups="passage", model="model", pair=("new", "old"))
    one = er.confidence_sequence(wide, "gain", groups="passage")
    columns = ["estimate", "se", "lower", "upper"]
    np.testing.assert_allclose(both[columns], one[columns], rtol=SAME, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.1])
@pytest.mark.parametrize("t0", [30, 50, 400])
def test_the_width_is_within_a_hair_of_the_narrowest_at_t0(alpha, t0):
    def width(log_rho):
        return float(mixture_width(np.array([float(t0)]), math.exp(log_rho), alpha)[0])

    best = minimize_scalar(width, bounds=(-8, 2), method="bounded").fun
    chosen = width(math.log(mixture_rho(t0, alpha)))
    assert best <= chosen <= 1.001 * best


def test_the_boundary_is_crossed_by_brownian_motion_about_as_often_as_alpha():
    """For normal scores of known spread the statement is exact: at most alpha over all times from the start on."""
    rng = np.random.default_rng(41)
    t = np.arange(1, 4001)
    alpha = 0.2
    bound = mixture_width(t.astype(float), mixture_rho(50, alpha), alpha)
    crossed = 0
    for _ in range(600):
        crossed += bool(np.any(np.abs(np.cumsum(rng.normal(size=t.size)) / t) > bound))
    # In discrete time up to 4000 it stays below alpha, and is not far below.
    assert 0.08 <= crossed / 600 <= alpha + 3 * math.sqrt(alpha * (1 - alpha) / 600)


@pytest.mark.filterwarnings("ignore::evalreg.errors.SkewedScoresWarning")
def test_logit_intervals_are_the_formula_on_the_logit_scale():
    log = er.datasets.passages(n_passages=40, questions_per_passage=3, mean=0.9, seed=6)
    found = er.confidence_sequence(log, groups="passage")
    # Scores outside [0, 1] have plain ones.
    wald = er.confidence_sequence(log.assign(score=log["score"] + 10), groups="passage")
    assert (found.attrs["method"], wald.attrs["method"]) == ("logit", "wald")
    for t, look in found.iterrows():
        theta, half = look["estimate"], wald.loc[t, "upper"] - wald.loc[t, "estimate"]
        odds, step = math.log(theta / (1 - theta)), half / (theta * (1 - theta))
        ends = [1 / (1 + math.exp(-(odds - step))), 1 / (1 + math.exp(-(odds + step)))]
        assert [look["lower"], look["upper"]] == pytest.approx(ends, rel=1e-9)


def test_scores_of_one_so_far_leave_everything_open_until_they_vary():
    score = np.ones(60)
    score[44:] = np.tile([0.0, 1.0], 8)
    found = er.confidence_sequence({"score": score})
    assert found.loc[30:44, ["lower", "upper"]].eq([0.0, 1.0]).all(axis=None)
    assert found.loc[30:44, "estimate"].eq(1.0).all()
    assert (found.loc[45:, "lower"] > 0.3).all()


def test_the_rows_of_a_cluster_must_come_together():
    log = growing().query("model == 'new'").reset_index(drop=True)
    with pytest.raises(DataError, match="must come together"):
        er.confidence_sequence(log.sample(frac=1, random_state=1), groups="passage")


def test_all_that_is_possible_is_shown_until_scores_vary():
    log = growing().query("model == 'new'").reset_index(drop=True)
    for value in (7.0, 1.1):
        with pytest.raises(ConstantScoreError, match="alike in all 60 clusters"):
            er.confidence_sequence(log.assign(score=value), groups="passage")
    same = er.confidence_sequence(log.assign(score=0.1), groups="passage")
    assert same[["lower", "upper"]].drop_duplicates().to_numpy().tolist() == [[0.0, 1.0]]
    # Two models alike until cluster 40: nothing is raised, and the interval is [-1, 1] so far.
    rows = pd.DataFrame({"cluster": np.repeat(np.arange(60), 2), "model": ["a", "b"] * 60, "score": 1.0})
    rows.loc[(rows["cluster"] == 40) & (rows["model"] == "b"), "score"] = 0.0
    looks = er.confidence_sequence(rows, groups="cluster", model="model", pair=("a", "b"))
    assert looks.loc[:40, ["lower", "upper"]].drop_duplicates().to_numpy().tolist() == [[-1.0, 1.0]]
    assert (looks.loc[41:, "upper"] < 0.5).all()
    scaled = rows.assign(score=100 + 50 * rows["score"])
    with pytest.warns(er.errors.SkewedScoresWarning):
        looks = er.confidence_sequence(scaled, groups="cluster", model="model", pair=("a", "b"))
    assert looks.loc[:40, ["lower", "upper"]].drop_duplicates().to_numpy().tolist() == [[-np.inf, np.inf]]


def missed(draw, truth: float, runs: int, **options) -> tuple[float, float]:
    """Shares of logs of 400 rows that miss at some look, and of those that miss without a warning."""
    rng, wrong, unsaid = np.random.default_rng(8), 0, 0
    for _ in range(runs):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            looks = er.confidence_sequence({"score": draw(rng)}, **options)
        miss = bool(((looks["lower"] > truth) | (looks["upper"] < truth)).any())
        wrong += miss
        unsaid += miss and not caught
    return wrong / runs, unsaid / runs


def test_sequences_of_skewed_scores_miss_and_say_so():
    """Lognormal costs miss in a tenth to a third of the logs; hardly any of these is without a warning."""
    for sigma in (1.0, 1.5):
        wrong, unsaid = missed(lambda rng, s=sigma: np.exp(s * rng.normal(size=400)), np.exp(sigma**2 / 2), 60)
        assert wrong > 0.05
        assert unsaid <= 0.05
    assert missed(lambda rng: rng.normal(size=400), 0.0, 50)[1] <= 0.12

"""Simulated logs are what they say: reproducible, tidy, and with the truth that is stated."""

import math

import numpy as np
import pandas as pd
import pytest

from evalreg import datasets

MAKERS = [datasets.passages, datasets.judge_log, datasets.paired, datasets.sampled]

# A mean of batches is nearly normal; one seed in 150 000 lies beyond 4.5 standard errors.
SIGMAS = 4.5
# Arithmetic on a handful of numbers.
ROUNDING = 1e-12


N_BATCHES = 60


def batches(log, by):
    """Parts of a log that share no cluster."""
    codes, clusters = pd.factorize(log[by])
    return [part for _, part in log.groupby(codes * N_BATCHES // len(clusters))]


def coded(log, *names):
    """The log with ids as numbers, in whose groups sums are fast."""
    return log.assign(**{name: pd.factorize(log[name])[0] for name in names})


def assert_mean_is(truth, estimates):
    """Independent unbiased estimates have the truth as their mean, within Monte Carlo error."""
    estimates = np.asarray(estimates, dtype=float)
    error = estimates.std(ddof=1) / math.sqrt(len(estimates))
    assert error > 0
    assert abs(estimates.mean() - truth) < SIGMAS * error, (estimates.mean(), truth, error)


def anova_iccs(score, clusters):
    """Intraclass correlation of each batch by the one-way analysis of variance (Snedecor and Cochran)."""
    codes, labels = pd.factorize(clusters)
    size, total, squares = (np.bincount(codes, values) for values in (np.ones(len(score)), score, score**2))
    batch = np.arange(len(labels)) * N_BATCHES // len(labels)
    n, n_groups = np.bincount(batch, size), np.bincount(batch)
    of_means = np.bincount(batch, total**2 / size)
    between = (of_means - np.bincount(batch, total) ** 2 / n) / (n_groups - 1)
    within = (np.bincount(batch, squares) - of_means) / (n - n_groups)
    mean_size = (n - np.bincount(batch, size**2) / n) / (n_groups - 1)
    return (between - within) / (between + (mean_size - 1) * within)


def squared_error_terms(error, clusters):
    """Terms whose mean is the variance of the mean of `error`, when clusters are independent and the truth is known."""
    totals = error.groupby(clusters).sum()
    return totals**2 * len(totals) / len(error) ** 2


def oriented(log):
    """Each comparison twice, as seen by either model: model, opponent, score, prompt, judge."""
    score = log["winner"].map({"left": 1.0, "tie": 0.5, "right": 0.0}).to_numpy()
    there = pd.DataFrame({"model": log["left"], "opponent": log["right"], "score": score})
    back = pd.DataFrame({"model": log["right"], "opponent": log["left"], "score": 1 - score})
    keys = log[["prompt", "judge"]]
    return pd.concat([there.join(keys), back.join(keys)], ignore_index=True)


def win_rates(log):
    """Mean over opponents of the mean score against each."""
    return oriented(log).groupby(["model", "opponent"])["score"].mean().groupby("model").mean()


# What all four share


@pytest.mark.parametrize("maker", MAKERS)
def test_a_seed_gives_the_same_log_again(maker):
    pd.testing.assert_frame_equal(maker(seed=5), maker(seed=5))
    assert maker(seed=5).attrs == maker(seed=5).attrs
    assert not maker(seed=5).equals(maker(seed=6))


# passages


@pytest.mark.pairwise
@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize(("mean", "icc"), [(0.7, 0.2), (0.4, 0.6)])
def test_scores_of_passages_have_the_stated_mean_variance_and_icc(mean, icc, binary, unequal):
    log = datasets.passages(n_passages=9_000, mean=mean, icc=icc, binary=binary, unequal=unequal, seed=1)
    truth, log = log.attrs["truth"], coded(log[["passage", "score"]], "passage")
    assert log["score"].between(0, 1).all()
    assert_mean_is(mean, log["score"].groupby(log["passage"]).mean())
    batch = log["passage"] * N_BATCHES // (log["passage"].max() + 1)
    assert_mean_is(truth["variance"], ((log["score"] - mean) ** 2).groupby(batch).mean())
    assert_mean_is(icc, anova_iccs(log["score"], log["passage"]))
    assert truth["mean"] == mean
    assert truth["icc"] == icc


@pytest.mark.parametrize(
    ("binary", "unequal"),
    [
        (True, False),
        (False, True),
        pytest.param(True, True, marks=pytest.mark.slow),
        pytest.param(False, False, marks=pytest.mark.slow),
    ],
)
def test_the_standard_error_of_passages_is_that_of_the_mean(binary, unequal):
    log = datasets.passages(n_passages=30_000, unequal=unequal, binary=binary, seed=2)
    truth, log = log.attrs["truth"], coded(log, "passage")
    # In units of the stated variance, so that the spread of the terms is on the scale of 1.
    terms = squared_error_terms(log["score"] - truth["mean"], log["passage"]) / truth["standard_error"] ** 2
    if not unequal:
        assert_mean_is(1, terms)
    # The truth holds the sizes as drawn; within a size the terms are independent and identically distributed.
    sizes = log.groupby("passage").size()
    design = 1 + (sizes - 1) * truth["icc"]
    expected = sizes * design * truth["variance"] * len(sizes) / len(log) ** 2 / truth["standard_error"] ** 2
    assert expected.mean() == pytest.approx(1, rel=ROUNDING * len(sizes))
    assert_mean_is(0, terms - expected)
    inflation = (truth["standard_error"] / truth["naive_standard_error"]) ** 2
    assert inflation == pytest.approx(truth["design_effect"], rel=ROUNDING)


# judge_log


def test_a_judge_log_is_the_complete_grid_once():
    log = datasets.judge_log(n_models=5, n_prompts=12, n_judges=4)
    assert list(log.columns) == ["prompt", "judge", "left", "right", "winner"]
    assert len(log) == 12 * 4 * 10
    pair = log["left"].where(log["left"] < log["right"], log["right"]) + log["left"].where(
        log["left"] > log["right"], log["right"]
    )
    assert pair.nunique() == 10
    assert not pd.DataFrame({"pair": pair, "prompt": log["prompt"], "judge": log["judge"]}).duplicated().any()
    assert (log["left"] != log["right"]).all()
    assert set(log["winner"]) == {"left", "right", "tie"}


# Prompts alone, then judges alone: in each world the other axis has nothing to vary, so its clusters are independent.
ONE_AXIS = [
    ("prompt", {"n_prompts": 4000, "n_judges": 1, "judge_sd": 0.0, "prompt_sd": 1.0}),
    ("judge", {"n_prompts": 1, "n_judges": 4000, "judge_sd": 0.7, "prompt_sd": 0.0}),
]


@pytest.mark.parametrize(("axis", "world"), ONE_AXIS)
@pytest.mark.parametrize("position_effect", [0.0, 0.8])
def test_psi_win_rates_and_ties_are_those_of_many_independent_clusters(axis, world, position_effect):
    log = datasets.judge_log(n_models=3, ties=0.25, spread=1.2, position_effect=position_effect, seed=5, **world)
    truth, rows = log.attrs["truth"], oriented(log)
    for (model, opponent), part in rows.groupby(["model", "opponent"]):
        assert_mean_is(truth["psi"][model][opponent], part.groupby(axis)["score"].mean())
    for model, part in rows.groupby("model"):
        assert_mean_is(truth["win_rate"][model], part.groupby(axis)["score"].mean())
    assert_mean_is(truth["tie_share"], (log["winner"] == "tie").groupby(log[axis]).mean())
    left = log["winner"].map({"left": 1.0, "tie": 0.5, "right": 0.0})
    assert_mean_is(truth["left_score"], left.groupby(log[axis]).mean())
    assert (truth["left_score"] > 0.55) == (position_effect > 0)


@pytest.mark.slow
def test_win_rates_hold_over_new_prompts_and_new_judges_and_naive_errors_understate_them():
    logs = [datasets.judge_log(n_models=4, n_prompts=30, seed=seed) for seed in range(250)]
    boards = pd.DataFrame([win_rates(log) for log in logs])
    for model, truth in logs[0].attrs["truth"]["win_rate"].items():
        assert_mean_is(truth, boards[model])
    cells = [oriented(log).groupby(["model", "opponent"])["score"] for log in logs[:50]]
    naive = pd.DataFrame([(cell.var() / cell.size()).groupby("model").sum() / 9 for cell in cells]).mean()
    # 250 logs know a standard deviation to 4.5%.
    assert (boards.std() / np.sqrt(naive) > 2).all()


# paired


PAIRED_WORLDS = [
    {},
    {"mean": 0.5, "difference": -0.2, "correlation": 0.9, "icc": 0.5},
    {"mean": 0.3, "difference": 0.1, "correlation": -0.6, "icc": 0.3},
]


@pytest.mark.parametrize("world", PAIRED_WORLDS)
def test_paired_scores_have_the_stated_means_correlation_icc_and_errors(world):
    log = datasets.paired(n_passages=12_000, seed=8, **world)
    truth = log.attrs["truth"]
    ids = coded(log, "passage", "question")
    scores = ids.pivot(index=["passage", "question"], columns="model", values="score").reset_index()
    passage, parts = scores["passage"], batches(scores, "passage")
    for model in ("old", "new"):
        error = scores[model] - truth["mean"][model]
        assert_mean_is(0, error.groupby(passage).mean())
        assert_mean_is(truth["icc"][model], anova_iccs(scores[model], passage))
        assert_mean_is(1, squared_error_terms(error, passage) / truth["standard_error"][model] ** 2)
    difference = scores["new"] - scores["old"] - truth["difference"]
    assert_mean_is(0, difference.groupby(passage).mean())
    assert_mean_is(1, squared_error_terms(difference, passage) / truth["difference_standard_error"] ** 2)
    assert_mean_is(truth["correlation"], [part["old"].corr(part["new"]) for part in parts])
    assert truth["mean"]["new"] - truth["mean"]["old"] == pytest.approx(truth["difference"], abs=ROUNDING)


# sampled


@pytest.mark.parametrize("icc", [0.0, 0.4])
def test_sampled_answers_have_the_variances_of_miller_section_3(icc):
    log = datasets.sampled(n_questions=30_000, n_samples=4, icc=icc, seed=10)
    truth = log.attrs["truth"]
    questions = (
        coded(log, "passage", "question").groupby(["passage", "question"])["score"].agg(["mean", "var"]).reset_index()
    )
    sigma2 = questions["var"].groupby(questions["passage"]).mean()
    assert truth["sigma2"] == pytest.approx(1 / 6, rel=ROUNDING)
    assert truth["var_x"] == pytest.approx(1 / 12, rel=ROUNDING)
    assert_mean_is(1 / 6, sigma2)
    around = (questions["mean"] - 0.5) ** 2 - questions["var"] / 4
    assert_mean_is(1 / 12, around.groupby(questions["passage"]).mean())
    error = questions["mean"] - 0.5
    assert_mean_is(1, squared_error_terms(error, questions["passage"]) / truth["standard_error"]["model-1"] ** 2)


@pytest.mark.parametrize(("correlation", "icc"), [(0.5, 0.0), (-0.4, 0.3), (0.8, 0.5)])
def test_two_sampled_models_correlate_as_stated(correlation, icc):
    log = datasets.sampled(n_questions=30_000, n_samples=2, n_models=2, correlation=correlation, icc=icc, seed=12)
    truth = log.attrs["truth"]
    ids = coded(log, "passage", "question")
    means = ids.pivot_table(index=["passage", "question"], columns="model", values="score").reset_index()
    passage = means["passage"]
    a, b = means["model-1"] - 0.5, means["model-2"] - 0.5
    # Answer noise is independent between models, so products see the correlation of x.
    assert_mean_is(correlation / 12, (a * b).groupby(passage).mean())
    # Miller section 5: uniform x of correlation 0.5 give omega^2 = 1/12.
    assert truth["omega2"] == pytest.approx((1 - correlation) / 6, rel=ROUNDING)
    terms = squared_error_terms(a - b, passage)
    assert_mean_is(1, terms / truth["difference_standard_error"] ** 2)
    for model, error in (("model-1", a), ("model-2", b)):
        assert_mean_is(1, squared_error_terms(error, passage) / truth["standard_error"][model] ** 2)
    if icc:
        totals = a.groupby(passage).sum() ** 2 - (a**2).groupby(passage).sum()
        assert_mean_is(icc / 12, totals / 20)

"""Ratios, classification metrics, pass@k and quantiles: closed forms, slow loops, bootstrap, simulated truth."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import evalreg as er

# Unequal clusters are what these frames are made of; their warnings have tests of their own.
pytestmark = pytest.mark.filterwarnings(
    "ignore::evalreg.errors.FewClustersWarning", "ignore::evalreg.errors.DominantClusterWarning"
)

# Sums of a few hundred terms in another order.
SAME = 1e-11
SIGMAS = 4

TRUTH = {"truth": "truth", "predicted": "guess"}


def log(n_clusters: int = 120, seed: int = 0) -> pd.DataFrame:
    """Two models on the same questions in unequal clusters, with costs, labels of three classes, and successes."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, n_clusters)
    passage = np.repeat(np.arange(n_clusters), sizes)
    effect = rng.normal(size=n_clusters)[passage]
    truth = np.array(list("abc"))[np.clip(np.round(effect + rng.normal(size=passage.size) + 1), 0, 2).astype(int)]
    parts = []
    for model, noise in (("new", 0.25), ("old", 0.45)):
        changed = rng.uniform(size=passage.size) < noise + 0.1 * (effect > 0)
        words = np.round(np.exp(4 + 0.4 * effect + 0.5 * rng.normal(size=passage.size)))
        part = {
            "passage": passage,
            "question": np.arange(passage.size),
            "model": model,
            "truth": truth,
            "guess": np.where(changed, rng.choice(list("abc"), passage.size), truth),
            "words": words,
            "errors": rng.binomial(words.astype(int), 1 / (1 + np.exp(3 - effect))).astype(float),
            "cost": np.exp(0.5 * effect + rng.normal(size=passage.size)),
            "solved": (effect + rng.normal(size=passage.size) > 0).astype(float),
            "judge": rng.choice(list("uvwxyz"), passage.size),
        }
        parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


ONE = log().query("model == 'new'").reset_index(drop=True)


def f1(truth: Any, guess: Any, label: str) -> float:
    """F1 as it is usually written: the harmonic mean of precision and recall."""
    truth, guess = np.asarray(truth) == label, np.asarray(guess) == label
    precision, recall = truth[guess].mean(), guess[truth].mean()
    return float(2 * precision * recall / (precision + recall))


Columns: TypeAlias = dict[str, Any]


# --- ratio ------------------------------------------------------------------------------------------------------------


def test_a_ratio_has_the_linearized_variance_of_survey_statistics():
    results = er.ratio(ONE, "errors", "words", groups="passage", cov="CR1")
    R = ONE["errors"].sum() / ONE["words"].sum()
    residual = ONE["errors"] - R * ONE["words"]
    totals = residual.groupby(ONE["passage"]).sum()
    G = len(totals)
    variance = G / (G - 1) * (totals**2).sum() / ONE["words"].sum() ** 2
    np.testing.assert_allclose([results.params["ratio"], results.bse["ratio"]], [R, np.sqrt(variance)], rtol=SAME)
    assert results.dof["ratio"] == G - 1
    n = len(ONE)
    naive = n / (n - 1) * (residual**2).sum() / ONE["words"].sum() ** 2
    alone = er.ratio(ONE, "errors", "words")
    np.testing.assert_allclose(alone.bse["ratio"], np.sqrt(naive), rtol=SAME)
    assert alone.dof["ratio"] == n - 1


@pytest.mark.filterwarnings("ignore::evalreg.errors.SkewedScoresWarning")
@pytest.mark.filterwarnings("ignore::evalreg.errors.DenominatorWarning")
@pytest.mark.parametrize("cov", ["CR3", "jackknife"])
def test_leaving_out_clusters_solves_the_ratio_anew(cov):
    frame = log(12)
    results = er.ratio(frame, "cost", "solved", by="model", groups="passage", cov=cov)
    sums = frame.groupby(["model", "passage"])[["cost", "solved"]].sum()
    for model in ("new", "old"):
        total = sums.loc[model].sum()
        left = (total - sums.loc[model]).eval("cost / solved")
        ratio = total["cost"] / total["solved"]
        expected = np.sqrt(11 / 12 * ((left - ratio) ** 2).sum())
        np.testing.assert_allclose([results.params[model], results.bse[model]], [ratio, expected], rtol=SAME)


# --- classification ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("metric", "given"), [("precision", "guess"), ("recall", "truth")])
@pytest.mark.parametrize("options", [{}, {"groups": "passage"}, {"groups": "passage", "cov": "CR0"}], ids=str)
def test_precision_and_recall_are_means_over_the_rows_they_speak_of(metric, given, options):
    results = er.classification(ONE, **TRUTH, metric=metric, positive="a", **options)
    subset = ONE[ONE[given] == "a"].assign(hit=lambda frame: (frame["truth"] == frame["guess"]).astype(float))
    mean = er.mean(subset, "hit", **options)
    np.testing.assert_allclose(results.params.to_numpy(), mean.params, rtol=SAME)
    np.testing.assert_allclose(results.bse.to_numpy(), mean.bse, rtol=SAME)
    if options.get("cov") != "CR0":
        np.testing.assert_allclose(results.dof.to_numpy(), mean.dof, rtol=1e-9)
        np.testing.assert_allclose(results.conf_int().to_numpy(), mean.conf_int(), rtol=1e-9)


def test_f1_by_class_macro_and_micro_are_those_of_their_definitions():
    by_class = er.classification(ONE, **TRUTH, groups="passage")
    expected = [f1(ONE["truth"], ONE["guess"], label) for label in "abc"]
    assert list(by_class.params.index) == list("abc")
    np.testing.assert_allclose(by_class.params, expected, rtol=SAME)
    macro = er.classification(ONE, **TRUTH, average="macro", groups="passage")
    np.testing.assert_allclose(macro.params["f1"], np.mean(expected), rtol=SAME)
    for metric in ("f1", "precision", "recall"):
        micro = er.classification(ONE, **TRUTH, metric=metric, average="micro", groups="passage")
        accuracy = er.mean(ONE.assign(hit=ONE["truth"] == ONE["guess"]), "hit", groups="passage")
        np.testing.assert_allclose(micro.to_frame(), accuracy.to_frame(), rtol=1e-9)
    positive = er.classification(ONE, **TRUTH, positive="b", groups="passage")
    np.testing.assert_allclose(positive.bse["f1"], by_class.bse["b"], rtol=SAME)


def test_a_macro_average_is_the_mean_of_its_classes_with_their_covariance():
    for groups in ("question", "passage"):
        by_class = er.classification(ONE, **TRUTH, groups=groups, cov="CR0")
        macro = er.classification(ONE, **TRUTH, average="macro", groups=groups, cov="CR0")
        third = np.full(3, 1 / 3)
        V = by_class.cov_params().to_numpy()
        np.testing.assert_allclose(macro.bse["f1"] ** 2, third @ V @ third, rtol=1e-9)


# --- pass@k -----------------------------------------------------------------------------------------------------------


def answers(seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    counts = rng.integers(3, 7, 40)
    question = np.repeat(np.arange(40), counts)
    chance = rng.beta(1, 1, 40)[question]
    sample = np.concatenate([np.arange(n) for n in counts])
    return pd.DataFrame(
        {
            "question": question,
            "passage": question // 4,
            "sample": sample,
            "score": (rng.uniform(size=question.size) < chance).astype(float),
        }
    )


def test_pass_at_1_is_the_mean_of_question_means():
    frame = answers()
    for require in ("any", "all"):
        one = er.pass_at_k(frame, item="question", sample="sample", k=1, require=require)
        np.testing.assert_allclose(
            one.to_frame(), er.mean(frame, item="question", sample="sample").to_frame(), rtol=1e-9
        )
        assert one.n_clusters == {"question": 40}


# --- quantiles --------------------------------------------------------------------------------------------------------


def test_the_interval_is_that_of_the_share_below_read_off_the_sample():
    results = er.quantile(ONE, "cost", 0.8, groups="passage")
    theta = results.params["quantile"]
    share = er.mean(ONE.assign(below=(ONE["cost"] <= theta).astype(float)), "below", groups="passage")
    t = share.to_frame()["dof"].iloc[0]
    half = stats.t.ppf(0.975, t) * share.bse["mean"]
    logit = 1 / (1 + np.exp(-(np.log(4.0) + np.array([-half, half]) / (0.8 * 0.2))))
    plain = 0.8 + np.array([-half, half])
    # Of a high quantile the lower end is that of the logit scale, the upper one the plain one.
    assert logit[0] < plain[0]
    assert logit[1] < plain[1] < 1
    ends = np.array([logit[0], plain[1]])
    expected = np.quantile(ONE["cost"], ends, method="averaged_inverted_cdf")
    np.testing.assert_allclose(results.conf_int().loc["quantile"], expected, rtol=1e-9)
    wald = results.conf_int(method="wald").loc["quantile"]
    np.testing.assert_allclose(wald[1] - theta, stats.t.ppf(0.975, t) * results.bse["quantile"], rtol=1e-9)


def test_an_end_that_the_sample_does_not_reach_is_infinite():
    results = er.quantile(ONE.head(20), "cost", 0.9)
    low, high = results.conf_int().loc["quantile"]
    assert np.isfinite(low)
    assert high == np.inf


@pytest.mark.filterwarnings("ignore::evalreg.errors.IndependenceWarning")
@pytest.mark.parametrize("q", [0.9, 0.1])
def test_intervals_of_far_quantiles_miss_seldom_on_the_long_side(rng, q):
    """Of 100 rows those below the quantile are binomial; on the logit scale alone 5.8% end before it."""
    n, side = 1000, int(q > 0.5)
    # Each sample is a model of its own, whose interval rests on its rows alone: one call in the place of a thousand.
    draws = pd.DataFrame({"x": rng.uniform(size=100 * n), "draw": np.repeat(np.arange(n), 100)})
    ends = er.quantile(draws, "x", q, by="draw").conf_int()
    alone = er.quantile(draws[draws["draw"] == 7], "x", q).conf_int()
    np.testing.assert_allclose(ends.loc["7"], alone.loc["quantile"], rtol=1e-12)
    missed = np.sum(ends[side] < q if side else ends[side] > q)
    # P(96 or more of 100 below) = .024
    assert missed / n < 0.024 + SIGMAS * np.sqrt(0.024 * 0.976 / n)


# --- every engine, and what is refused --------------------------------------------------------------------------------


def test_many_successes_over_large_sizes_are_not_called_few():
    passages = er.datasets.passages()
    assert "scores tell" not in str(er.ratio(passages, "score", "n_words", groups="passage").summary())
    few = passages.assign(score=(np.arange(len(passages)) < 4) * 1.0)
    assert "scores tell" in str(er.ratio(few, "score", "n_words", groups="passage").summary())


@pytest.mark.parametrize("engine", [lambda frame: frame, lambda frame: pl.from_pandas(frame).lazy()])
def test_a_row_of_another_model_does_not_decide_how_a_ratio_is_bounded(engine):
    log = er.datasets.paired(n_passages=20, seed=4).assign(words=2.0)
    asked = {"numerator": "score", "denominator": "words", "by": "model", "groups": "passage"}
    share = er.ratio(engine(log), **asked)
    log.loc[log.index[log["model"] == "new"][0], ["score", "words"]] = 1.0, 0.5
    beside = er.ratio(engine(log), **asked)
    np.testing.assert_allclose(beside.conf_int().loc["old"], share.conf_int().loc["old"], rtol=1e-12)
    half = beside.conf_int().loc["new"] - beside.params["new"]
    assert half[0] == pytest.approx(-half[1])

"""Means about a benchmark that the questions were drawn from."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import ArgumentError, FewClustersWarning

FULL = "the full benchmark"


@pytest.fixture
def log():
    return er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)


@pytest.mark.parametrize(("n_population", "factor"), [({"passage": 50}, 0.2), (400, 0.5)])
@pytest.mark.parametrize("cov", ["CR0", "CR1", "CR2", "CR3"])
def test_variances_are_multiplied_by_what_was_not_drawn(log, n_population, factor, cov):
    plain = er.mean(log, groups="passage", cov=cov)
    found = er.mean(log, groups="passage", cov=cov, target=FULL, n_population=n_population)
    np.testing.assert_allclose(found.bse**2, factor * plain.bse**2, rtol=1e-12)
    np.testing.assert_allclose(
        found.with_cov(cov="CR1").bse ** 2, factor * plain.with_cov(cov="CR1").bse ** 2, rtol=1e-12
    )
    assert any(FULL in sentence for sentence in found.summary().sentences)


def test_the_variance_of_clusters_drawn_whole_is_that_of_all_possible_draws():
    # Brute force: every way to draw 3 of 6 passages; the mean estimated variance is the variance of the means.
    from itertools import combinations

    rng = np.random.default_rng(1)
    passage = np.repeat(np.arange(6), 3)
    score = rng.normal(size=18) + rng.normal(size=6)[passage]
    frame = pd.DataFrame({"score": score, "passage": passage})
    means, variances = [], []
    for drawn in combinations(range(6), 3):
        part = frame[frame["passage"].isin(drawn)]
        with pytest.warns(FewClustersWarning):
            found = er.mean(part, groups="passage", target=FULL, n_population={"passage": 6})
        means.append(found.params["mean"])
        variances.append(found.bse["mean"] ** 2)
    assert np.mean(variances) == pytest.approx(np.var(means), rel=1e-10)


@pytest.mark.filterwarnings("ignore:.*of the benchmark (is|are) not here")
def test_the_variance_of_questions_drawn_one_by_one_is_that_of_all_possible_draws():
    from itertools import combinations

    score = np.random.default_rng(2).normal(size=6)
    means, variances = [], []
    for drawn in combinations(range(6), 3):
        frame = pd.DataFrame({"score": score[list(drawn)]})
        found = er.mean(frame, target=FULL, n_population=6)
        means.append(found.params["mean"])
        variances.append(found.bse["mean"] ** 2)
    assert np.mean(variances) == pytest.approx(np.var(means), rel=1e-10)


@pytest.mark.filterwarnings("ignore::evalreg.errors.IndependenceWarning")
def test_strata_of_questions_have_the_noise_of_the_answers():
    # By hand: the variance of the answers to each question over their number, averaged.
    log = er.datasets.sampled(n_models=2, seed=3)
    found = er.mean(log, by="model", strata="question", strata_weights="macro")
    each = log.groupby(["model", "question"])["score"].agg(["var", "count"])
    by_hand = (each["var"] / each["count"]).groupby("model").sum() / 100**2
    np.testing.assert_allclose(found.bse**2, by_hand, rtol=1e-12)
    np.testing.assert_allclose(found.params, er.mean(log, by="model", item="question", sample="sample").params)


def answered(drawn, right, k, passage=None):
    """Rows of questions with k answers each, of which so many are right."""
    question = np.repeat(drawn, k)
    score = np.concatenate([np.arange(k) < r for r in right]).astype(float)
    frame = pd.DataFrame({"question": question, "score": score, "answer": np.tile(np.arange(k), len(drawn))})
    return frame if passage is None else frame.assign(passage=passage[question])


@pytest.mark.parametrize("whole", [False, True], ids=["questions", "passages"])
def test_the_variance_with_answers_is_that_of_all_draws_of_questions_and_answers(whole):
    # Brute force: all draws of the first stage times all numbers of right answers with their binomial chances.
    from itertools import combinations, product

    from scipy.stats import binom

    p = np.array([0.9, 0.8, 0.35, 0.2, 0.6, 0.5])[: 6 if whole else 4]
    passage = np.arange(p.size) // 2
    units, n = (3, 2) if whole else (4, 3)

    @functools.cache
    def moments(right):
        """The mean and its variance: the same whatever the questions and passages are called."""
        size = {"n_population": {"passage": units}, "groups": "passage"} if whole else {"n_population": units}
        log = answered(np.arange(len(right)), right, 2, passage)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", er.errors.EvalregWarning)
            found = er.mean(log, item="question", sample="answer", target=FULL, **size)
        return found.params["mean"], found.cov_params().iloc[0, 0]

    chances, means, variances = [], [], []
    for some in combinations(range(units), n):
        drawn = np.flatnonzero(np.isin(passage, some)) if whole else np.array(some)
        for right in product(range(3), repeat=drawn.size):
            size = 2 if whole else 1
            apart = sorted(tuple(sorted(right[i : i + size])) for i in range(0, drawn.size, size))
            mean, variance = moments(sum(apart, ()))
            chances.append(np.prod(binom.pmf(right, 2, p[drawn])))
            means.append(mean)
            variances.append(variance)
    chance = np.array(chances) / np.sum(chances)
    truth = chance @ (np.array(means) - chance @ means) ** 2
    assert chance @ means == pytest.approx(p.mean(), rel=1e-12)
    assert chance @ variances == pytest.approx(truth, rel=1e-10)


@pytest.mark.filterwarnings("ignore:.*of the benchmark (is|are) not here")
def test_the_variance_of_strata_is_that_of_all_draws_within_them():
    from itertools import combinations

    rng = np.random.default_rng(4)
    subject = np.repeat(["law", "algebra"], [4, 3])
    score = rng.normal(size=7) + 2.0 * (subject == "law")
    means, variances = [], []
    for law in combinations(range(4), 3):
        for algebra in combinations(range(4, 7), 2):
            kept = [*law, *algebra]
            log = pd.DataFrame({"score": score[kept], "subject": subject[kept]})
            found = er.mean(log, strata="subject", target=FULL, n_population={"law": 4, "algebra": 3})
            means.append(found.params["mean"])
            variances.append(found.bse["mean"] ** 2)
    assert np.mean(means) == pytest.approx(score.mean(), rel=1e-12)
    assert np.mean(variances) == pytest.approx(np.var(means), rel=1e-10)


def two_samples(N, n_a, n_b, n_ab):
    """All pairs of samples of a benchmark of N units, of which so many are in common."""
    from itertools import combinations

    for first in combinations(range(N), n_a):
        others = [unit for unit in range(N) if unit not in first]
        for common in combinations(first, n_ab):
            for more in combinations(others, n_b - n_ab):
                yield first, (*common, *more)


def answers_to(score, samples, start=0, subject="law"):
    """Rows of models that were asked these units of two questions each; score (n_units, 2, n_models)."""
    parts = []
    for model, units in zip("abc", samples, strict=False):
        unit, question = np.repeat(units, 2), np.tile([0, 1], len(units))
        rows = {"passage": start + unit, "question": 2 * (start + unit) + question, "subject": subject}
        parts.append(pd.DataFrame({"model": model, **rows, "score": score[unit, question, ord(model) - ord("a")]}))
    return pd.concat(parts, ignore_index=True)


def covariance_of_draws(n_a, n_b, n_ab, N, S):
    """Of all simple random samples with so many units in common; and the share of it that CR2 has on average."""
    lost = (1 - 1 / n_a - 1 / n_b + n_ab / (n_a * n_b)) / np.sqrt((1 - 1 / n_a) * (1 - 1 / n_b))
    return S * (n_ab / (n_a * n_b) - 1 / N), lost


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize(
    ("whole", "N", "n_a", "n_b", "n_ab"),
    [(False, 4, 3, 2, 2), (True, 4, 3, 2, 2), (False, 5, 3, 3, 2)],
    ids=["nested questions", "nested passages", "overlapping questions"],
)
def test_samples_of_two_models_are_those_of_all_possible_draws(whole, N, n_a, n_b, n_ab):
    # Brute force: the mean estimated covariance is that of the means over all pairs of samples. CR2 of samples that
    # differ has a little less than all of a covariance, with a finite benchmark and without.
    rng = np.random.default_rng(6)
    score = rng.normal(size=(N, 1, 1)) + rng.normal(size=(N, 2, 2))
    score = score if whole else score.mean(axis=1, keepdims=True).repeat(2, axis=1)
    means, found = [], []
    for samples in two_samples(N, n_a, n_b, n_ab):
        log = answers_to(score, samples)
        log, size = (log, {"groups": "passage", "n_population": {"passage": N}}) if whole else (log[::2], {})
        results = er.mean(log, by="model", item="question", target=FULL, **({"n_population": N} | size))
        means.append(results.params)
        found.append(results.cov_params())
    truth, expected = np.cov(np.array(means).T, bias=True), np.mean(found, axis=0)
    between, lost = covariance_of_draws(n_a, n_b, n_ab, N, np.cov(score.mean(axis=1).T)[0, 1])
    assert truth[0, 1] == pytest.approx(between, rel=1e-10)
    np.testing.assert_allclose(expected, truth * [[1, lost], [lost, 1]], rtol=1e-10)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
# That questions of strata have the factors of their sizes is reckoned by hand above.
@pytest.mark.parametrize(
    "whole", [pytest.param(False, marks=pytest.mark.slow, id="questions"), pytest.param(True, id="passages")]
)
def test_samples_within_strata_are_those_of_all_possible_draws(whole):
    from itertools import product

    rng = np.random.default_rng(7)
    law, art = (rng.normal(size=(n, 1, 1)) + rng.normal(size=(n, 2, 2)) for n in (4, 3))
    law, art = (part if whole else part.mean(axis=1, keepdims=True).repeat(2, axis=1) for part in (law, art))
    means, found = [], []
    for first, second in product(two_samples(4, 3, 2, 2), two_samples(3, 2, 2, 2)):
        log = pd.concat([answers_to(law, first), answers_to(art, second, 10, "art")])
        sizes = {"law": 4, "art": 3}
        size = {"groups": "passage", "n_population": {"passage": sizes}} if whole else {"n_population": sizes}
        log = log if whole else log[log["question"] % 2 == 0]
        results = er.mean(log, by="model", item="question", strata="subject", target=FULL, **size)
        means.append(results.params)
        found.append(results.cov_params())
    truth, expected = np.cov(np.array(means).T, bias=True), np.mean(found, axis=0)
    parts = [
        (n / 7) ** 2 * np.array(covariance_of_draws(*drawn, n, np.cov(score.mean(axis=1).T)[0, 1]))
        for n, drawn, score in [(4, (3, 2, 2), law), (3, (2, 2, 2), art)]
    ]
    shares = [part[1] / (n / 7) ** 2 for part, n in zip(parts, (4, 3), strict=True)]
    assert truth[0, 1] == pytest.approx(parts[0][0] + parts[1][0], rel=1e-10)
    assert expected[0, 1] == pytest.approx(parts[0][0] * shares[0] + parts[1][0] * shares[1], rel=1e-10)
    np.testing.assert_allclose(np.diag(expected), np.diag(truth), rtol=1e-10)


def some_of(log, model, keep):
    return log[(log["model"] != model) | log["question"].isin(keep)]


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_with_no_question_or_one_in_common_every_contrast_has_its_widest_reading():
    # By hand: S_ab between 0 and s_a s_b, whichever makes the contrast of the two means vary more.
    log = er.datasets.paired(n_passages=20, questions_per_passage=3, seed=1)
    question = log["question"].unique()
    apart = some_of(some_of(log, "old", question[:25]), "new", question[25:])
    asked = {"by": "model", "target": FULL, "n_population": 70}
    found = er.mean(apart, item="question", **asked)
    s, n = apart.groupby("model")["score"].std(), pd.Series({"new": 35, "old": 25})
    own = s**2 * (1 / n - 1 / 70)
    np.testing.assert_allclose(found.bse**2, own, rtol=1e-12)
    widest = own.sum() + 2 * s.prod() / 70
    assert found.contrast("new - old").bse.iloc[0] ** 2 == pytest.approx(widest, rel=1e-12)
    assert found.contrast({"new": 0.5, "old": 0.5}).bse.iloc[0] ** 2 == pytest.approx(own.sum() / 4, rel=1e-12)
    assert found.pairwise()["se"].iloc[0] ** 2 == pytest.approx(widest, rel=1e-12)
    assert "the widest error bar is taken" in " ".join(found.summary().sentences)
    # With one in common, which tells next to nothing, it is 1/N - 1/(n_a n_b) of the same.
    one = pd.concat([apart, log[(log["model"] == "old") & (log["question"] == question[-1])]])
    near = er.mean(one, item="question", **asked)
    s, n = one.groupby("model")["score"].std(), n + pd.Series({"new": 0, "old": 1})
    own = s**2 * (1 / n - 1 / 70)
    widest_of_one = own.sum() + 2 * s.prod() * (1 / 70 - 1 / n.prod())
    assert near.contrast("new - old").bse.iloc[0] ** 2 == pytest.approx(widest_of_one, rel=1e-12)
    assert near.contrast({"new": 0.5, "old": 0.5}).bse.iloc[0] ** 2 == pytest.approx(own.sum() / 4, rel=1e-12)
    # Questions without a name may be the same or not.
    unnamed = er.mean(apart, **asked)
    assert unnamed.contrast("new - old").bse.iloc[0] ** 2 == pytest.approx(widest, rel=1e-12)
    assert "name the questions in `item`" in " ".join(unnamed.summary(details=True).sentences)
    # All of the benchmark between them, none of it known of both.
    assert er.mean(apart, item="question", **(asked | {"n_population": 60})).contrast("new - old").bse.iloc[0] > 0
    with pytest.raises(ArgumentError, match="which has 60 questions"):
        er.mean(apart, item="question", **(asked | {"n_population": 50}))

"""Means about a benchmark that the questions were drawn from."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import FewClustersWarning, NotAvailableError

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


def answers_to(score, units, start=0, subject="law"):
    """Rows of two models that were asked these units of two questions each; score (n_units, 2, n_models)."""
    parts = []
    for place, model in enumerate("ab"):
        unit, question = np.repeat(units, 2), np.tile([0, 1], len(units))
        rows = {"passage": start + unit, "question": 2 * (start + unit) + question, "subject": subject}
        parts.append(pd.DataFrame({"model": model, **rows, "score": score[unit, question, place]}))
    return pd.concat(parts, ignore_index=True)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
@pytest.mark.parametrize("whole", [False, True], ids=["questions", "passages"])
@pytest.mark.parametrize("stratified", [False, True])
def test_covariances_of_two_models_are_those_of_all_possible_draws(whole, stratified):
    # Brute force: the mean estimated covariance is that of the means over all samples, in which both models are.
    from itertools import combinations, product

    rng = np.random.default_rng(6)
    scores = [rng.normal(size=(N, 1, 1)) + rng.normal(size=(N, 2, 2)) for N in (4, 3)[: 1 + stratified]]
    scores = [score if whole else score.mean(axis=1, keepdims=True).repeat(2, axis=1) for score in scores]
    means, found = [], []
    for units in product(*(combinations(range(len(score)), len(score) - 1) for score in scores)):
        drawn = zip(scores, units, (0, 10), ("law", "art"), strict=False)
        log = pd.concat([answers_to(score, some, start, subject) for score, some, start, subject in drawn])
        sizes = {"law": 4, "art": 3} if stratified else 4
        asked = {"groups": "passage", "n_population": {"passage": sizes}} if whole else {"n_population": sizes}
        if stratified:
            asked["strata"] = "subject"
        log = log if whole else log[log["question"] % 2 == 0]
        results = er.mean(log, by="model", item="question", target=FULL, **asked)
        means.append(results.params)
        found.append(results.cov_params())
    np.testing.assert_allclose(np.mean(found, axis=0), np.cov(np.array(means).T, bias=True), rtol=1e-10)


@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_models_that_answered_different_questions_are_refused_with_what_works():
    log = er.datasets.paired(n_passages=20, questions_per_passage=3, seed=1)
    some = log[(log["model"] == "new") | (log["question"] != log["question"].iloc[0])]
    asked = {"item": "question", "target": FULL, "n_population": 70}
    for call in (
        lambda: er.mean(some, by="model", **asked),
        lambda: er.mean(log, by="model", target=FULL, n_population=70),
        lambda: er.compare(pd.concat([some, log[log["model"] == "new"].assign(model="third")]), **asked),
    ):
        with pytest.raises(NotAvailableError, match="the same questions for all models"):
            call()
    shared = er.mean(some, by="model", questions="shared", **asked)
    each = some[some["question"] != log["question"].iloc[0]].groupby("model")["score"]
    np.testing.assert_allclose(shared.bse**2, each.var() / 59 * (1 - 59 / 70), rtol=1e-12)
    alone = er.mean(some[some["model"] == "new"], **asked)
    assert alone.bse.iloc[0] ** 2 == pytest.approx(some[some["model"] == "new"]["score"].var() / 60 * (1 - 60 / 70))
    pair = er.compare(some, **asked).table["se"].iloc[0]
    wide = some.pivot(index="question", columns="model", values="score").dropna()
    assert pair**2 == pytest.approx((wide["new"] - wide["old"]).var() / 59 * (1 - 59 / 70))
    new = log[log["model"] == "new"]
    first, second, clusters = (
        er.mean(new, groups="passage", target=FULL, n_population=size) for size in (70, 80, {"passage": 30})
    )
    for other in (second, clusters):
        with pytest.raises(NotAvailableError, match="one sampling"):
            first.stack(other)

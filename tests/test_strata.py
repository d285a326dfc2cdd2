"""Means over strata with shares known and shares estimated: survey's numbers, sums written out, simulated truth."""

from __future__ import annotations

import functools
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

import evalreg as er

REFERENCE = Path(__file__).parent / "reference"
# R prints 17 digits.
SAME = 1e-12

pytestmark = pytest.mark.filterwarnings(
    "ignore::evalreg.errors.FewClustersWarning", "ignore::evalreg.errors.DominantClusterWarning"
)


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Three subjects with clusters of very unequal size; see reference/strata.py."""
    return pd.read_csv(REFERENCE / "strata.csv")


@pytest.fixture(scope="module")
def survey() -> dict:
    """What survey says of it; see reference/strata.R."""
    return json.loads((REFERENCE / "strata.json").read_text())


@pytest.mark.parametrize("weights", [None, "weight"])
@pytest.mark.parametrize(("how", "key"), [("micro", "known"), ("as_sampled", "estimated")])
def test_both_readings_of_the_shares_are_surveys(log, survey, weights, how, key):
    expected = survey["weighted" if weights else "plain"]
    results = er.mean(log, strata="subject", strata_weights=how, groups="passage", weights=weights, cov="CR1", ssc="G")
    assert results.params["mean"] == pytest.approx(expected["mean"], rel=SAME)
    assert results.bse["mean"] == pytest.approx(expected[key], rel=SAME)
    assert results.dof["mean"] == expected["dof"]
    if key == "estimated":
        ends = results.conf_int(method="wald").loc["mean"]
        np.testing.assert_allclose(ends, [expected["lower"], expected["upper"]], rtol=SAME)
    # What stood under survey's name was the other one.
    assert expected["estimated"] > 1.5 * expected["known"]


def written_out(log: pd.DataFrame, power: float) -> float:
    """Stratified variance of the linearized cluster totals, with each stratum's (G/(G - 1))^power."""
    z = ((log["score"] - log["score"].mean()) / len(log)).groupby([log["subject"], log["passage"]]).sum()
    by = z.groupby(level=0)
    G = by.transform("size")
    return float(np.sum((G / (G - 1)) ** power * (z - by.transform("mean")) ** 2))


@pytest.mark.parametrize(("cov", "power"), [("CR0", 0), ("CR1", 1), ("CR2", 1)])
def test_estimated_shares_centre_the_linearized_totals_within_strata(log, cov, power):
    results = er.mean(log, strata="subject", strata_weights="as_sampled", groups="passage", cov=cov)
    assert results.bse["mean"] ** 2 == pytest.approx(written_out(log, power), rel=SAME)


def test_models_have_their_own_shares_and_a_joint_covariance(log):
    both = pd.concat([log.assign(model="a"), log.assign(model="b", score=1 - log["score"])])
    results = er.mean(both, by="model", strata="subject", strata_weights="as_sampled", groups="passage", cov="CR1")
    np.testing.assert_allclose(results.bse**2, written_out(log, 1), rtol=SAME)
    np.testing.assert_allclose(results.contrast({"a": 1, "b": 1}).params, 1.0)
    one, options = log.assign(subject="all"), {"groups": "passage", "cov": "CR1"}
    whole = er.mean(one, strata="subject", strata_weights="as_sampled", **options)
    np.testing.assert_allclose(whole.conf_int(), er.mean(log, **options).conf_int(), rtol=1e-9)
    assert results.cov_params().loc["a", "b"] == pytest.approx(-written_out(log, 1), rel=SAME)


@pytest.mark.slow
def test_estimated_shares_cover_the_mean_of_the_population_and_known_ones_do_not():
    # 200 logs at .95 are above .9 but once in a thousand.
    rng, hits = np.random.default_rng(12), {"micro": 0, "as_sampled": 0}
    for _ in range(200):
        parts = []
        for subject, mean in (("a", 0.9), ("b", 0.55), ("c", 0.2)):
            sizes = rng.geometric(0.2, 20)
            p = rng.beta(9 * mean, 9 * (1 - mean), 20).repeat(sizes)
            place, score = np.char.add(subject, np.arange(20).repeat(sizes).astype(str)), 1.0 * (rng.random(p.size) < p)
            parts.append(pd.DataFrame({"subject": subject, "passage": place, "score": score}))
        log = pd.concat(parts)
        for how in hits:
            low, high = er.mean(log, strata="subject", strata_weights=how, groups="passage").conf_int().loc["mean"]
            hits[how] += low <= 0.55 <= high
    assert hits["as_sampled"] > 180
    assert hits["micro"] < 175


SIZES = {"drawn": {"history": 15, "law": 40, "physics": 22}, "all_of_one": {"history": 12, "law": 40, "physics": 22}}
FULL = {"strata": "subject", "groups": "passage", "target": "the full benchmark"}


@pytest.mark.parametrize("which", list(SIZES))
@pytest.mark.parametrize("cov", [{"cov": "CR1", "ssc": "G"}, {"cov": "CR2"}])
def test_passages_drawn_whole_within_subjects_are_surveys(log, survey, which, cov):
    # svydesign(ids = ~passage, strata = ~subject, fpc = ~N), svymean and svycontrast; see reference/strata.R.
    expected, asked = survey[which], FULL | {"n_population": {"passage": SIZES[which]}} | cov
    alone = er.mean(log, **asked)
    assert alone.params["mean"] == pytest.approx(expected["mean"], rel=SAME)
    assert alone.bse["mean"] == pytest.approx(expected["se"], rel=SAME)
    if cov["cov"] == "CR1":
        assert alone.dof["mean"] == expected["dof"]
        np.testing.assert_allclose(
            alone.conf_int(method="wald").loc["mean"], [expected["lower"], expected["upper"]], rtol=SAME
        )
    other = log.assign(model="other", score=1 - log["score"] * log["weight"] / 2)
    both = er.mean(pd.concat([log.assign(model="score"), other]), by="model", **asked)
    np.testing.assert_allclose(both.params, [expected["other"], expected["mean"]], rtol=SAME)
    np.testing.assert_allclose(both.bse, [expected["other_se"], expected["se"]], rtol=SAME)
    assert both.contrast("score - other").bse.iloc[0] == pytest.approx(expected["difference_se"], rel=SAME)


@pytest.mark.parametrize("which", list(SIZES))
def test_stated_shares_of_subjects_are_surveys_post_stratification(log, survey, which):
    asked = FULL | {"n_population": {"passage": SIZES[which]}, "cov": "CR1", "ssc": "G"}
    found = er.mean(log, **asked, strata_weights={"history": 300, "law": 500, "physics": 200})
    assert found.params["mean"] == pytest.approx(survey[which]["stated"], rel=SAME)
    assert found.bse["mean"] == pytest.approx(survey[which]["stated_se"], rel=SAME)


@pytest.mark.parametrize("answers", [False, True])
def test_the_variance_of_passages_within_subjects_is_that_of_all_draws(answers):
    # Brute force: passages of two questions, 2 of 3 of law, 2 of 4 of algebra and the one of art; or passages of one
    # question, 2 of 3 of law and the one of algebra, and of two answers to each question all numbers of right ones.
    from itertools import combinations, product

    from scipy.stats import binom

    rng, m = np.random.default_rng(5), 1 if answers else 2
    sizes = {"law": 3, "algebra": 1} if answers else {"law": 3, "algebra": 4, "art": 1}
    subject = np.repeat(list(sizes), list(sizes.values()))
    p = rng.uniform(0.2, 0.9, (subject.size, m))

    @functools.cache
    def moments(score, some):
        """The mean and its variance, of the scores of each question of some passages."""
        k = len(score) // (len(some) * m)
        question = np.repeat(np.arange(len(some) * m), k)
        frame = pd.DataFrame({"score": score, "question": question, "passage": np.repeat(some, m)[question]})
        frame = frame.assign(subject=subject[frame["passage"]], answer=frame.groupby("question").cumcount())
        named = {"item": "question", "sample": "answer"} if answers else {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", er.errors.EvalregWarning)
            found = er.mean(frame, **FULL, **named, n_population={"passage": sizes}, cov="CR2")
        return found.params["mean"], found.cov_params().iloc[0, 0]

    chances, means, variances = [], [], []
    last = p.shape[0] - 1
    for law, algebra in product(combinations(range(3), 2), [()] if answers else combinations(range(3, last), 2)):
        some = np.array([*law, *algebra, last])
        for right in product(range(3), repeat=some.size) if answers else [None]:
            if right is None:
                chance, of = 1.0, moments(tuple(p[some].ravel()), tuple(some))
            else:
                # The same whatever the passages of law are called.
                apart = np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)])[[*sorted(right[:2]), right[2]]]
                chance, of = np.prod(binom.pmf(right, 2, p[some, 0])), moments(tuple(apart.ravel()), (0, 1, last))
            chances.append(chance)
            means.append(of[0])
            variances.append(of[1])
    chance = np.array(chances) / np.sum(chances)
    assert chance @ means == pytest.approx(p.mean(), rel=1e-10)
    assert chance @ variances == pytest.approx(chance @ (np.array(means) - chance @ means) ** 2, rel=1e-10)


def small_stratum(failures: int = 0, seed: int = 1) -> pd.DataFrame:
    """Two subjects of 200 questions, and one of 10 of which so many are wrong."""
    score = (np.random.default_rng(seed).random(410) < 0.9).astype(float)
    score[400:] = np.arange(10) >= failures
    return pd.DataFrame({"subject": np.repeat(["a", "b", "c"], [200, 200, 10]), "item": np.arange(410), "score": score})


def score_ends(log: pd.DataFrame, shares: np.ndarray, dof: float, V: float, left: np.ndarray) -> list[float]:
    """Ends of the score interval of independent rows, each by a root of its own."""
    by = log.groupby("subject")["score"]
    p, n, s2 = by.mean().to_numpy(), by.size().to_numpy(), by.var().to_numpy()
    unseen = 0.5 / (0.5 + n * np.minimum(p, 1 - p))
    pooled = (s2 * (n - 1)).sum() / (n - 1).sum()
    each = shares**2 * left / n
    naive = (each * ((1 - unseen) * s2 + unseen * pooled)).sum()
    theta, count, base = (shares * p).sum(), 1 / (shares**2 / n).sum(), max(V, naive)
    phi = naive * (count - 1) / (theta * (1 - theta))

    def excess(x: float) -> float:
        """Of |theta - x| over t times the standard error under x, with E = 1 as rows are independent."""
        now, then = theta * (1 - theta), x * (1 - x)
        variance = base * min(then / now, 1.0) + phi * max(then - now, 0.0) / count
        return abs(theta - x) - stats.t.ppf(0.975, dof) * np.sqrt(variance)

    return [optimize.brentq(excess, 1e-9, theta), optimize.brentq(excess, theta, 1 - 1e-9)]


@pytest.mark.parametrize("failures", [0, 1, 3])
@pytest.mark.parametrize(
    ("shares", "asked"),
    [
        ([1 / 3, 1 / 3, 1 / 3], {"strata_weights": "macro"}),
        ([20 / 41, 20 / 41, 1 / 41], {}),
        ([0.2, 0.3, 0.5], {"strata_weights": {"a": 2.0, "b": 3.0, "c": 5.0}}),
        ([4 / 9, 2 / 9, 3 / 9], {"target": "the full benchmark", "n_population": {"a": 800, "b": 400, "c": 600}}),
    ],
)
def test_score_intervals_over_strata_are_their_formula(failures, shares, asked):
    log = small_stratum(failures)
    results = er.mean(log, item="item", strata="subject", **asked)
    sizes = asked.get("n_population")
    left = np.ones(3) if sizes is None else 1 - np.array([200, 200, 10]) / np.array(list(sizes.values()))
    expected = score_ends(log, np.array(shares), results.dof["mean"], results.bse["mean"] ** 2, left)
    np.testing.assert_allclose(results.conf_int().loc["mean"], expected, rtol=1e-9)
    assert float(results.t_test(f"mean = {expected[0]}").pvalue) == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize("groups", [None, "passage"])
def test_a_small_stratum_of_large_weight_that_shows_no_failure_is_as_uncertain_as_one_that_shows_some(groups):
    def ends(failures: int) -> np.ndarray:
        log = small_stratum(failures).assign(passage=np.arange(410) // 2)
        return (
            er.mean(log, item="item", strata="subject", strata_weights="macro", groups=groups).conf_int().to_numpy()[0]
        )

    lower, upper = np.array([ends(failures) for failures in range(4)]).T
    assert np.all(np.diff(lower) < 0)
    # Two failures of one passage say more of dependence than of the level.
    assert groups == "passage" or np.all(np.diff(upper) < 0)
    assert upper[0] - lower[0] > 0.9 * (upper[1] - lower[1])


def test_a_stratum_that_says_nothing_changes_nothing():
    log = er.datasets.paired(n_passages=20, seed=11).assign(all="all")
    log = pd.concat(
        [log, log[log["model"] == "old"].assign(model="other", score=lambda rows: rows["score"][::-1].values)]
    )
    plain, within = (er.compare(log, item="question", groups="passage", **asked) for asked in ({}, {"strata": "all"}))
    pd.testing.assert_frame_equal(within.table.iloc[:, :6], plain.table.iloc[:, :6], rtol=1e-12)
    means = [er.mean(log, by="model", item="question", groups="passage", **asked) for asked in ({}, {"strata": "all"})]
    C = [[1, 0, 0], [1, -1, 0], [0.5, 0.25, 0.25], [1, -0.5, -0.5]]
    np.testing.assert_allclose(means[1].contrast(C).conf_int(), means[0].contrast(C).conf_int(), rtol=1e-12)


def test_means_of_strata_make_the_mean_over_strata():
    log = er.datasets.passages(n_passages=24, questions_per_passage=5, seed=3)
    log = log.assign(subject=np.array(list("xyz"))[pd.factorize(log["passage"])[0] % 3])
    shares = {"x": 0.2, "y": 0.3, "z": 0.5}
    by_hand = er.mean(log, by="subject", groups="passage").contrast(shares)
    expected = er.mean(log, strata="subject", strata_weights=shares, groups="passage")
    np.testing.assert_allclose(by_hand.conf_int(), expected.conf_int(), rtol=1e-9)

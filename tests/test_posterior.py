"""Posteriors of success rates: two-dimensional integration by another route, closed forms, simulated truth."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

import evalreg as er
from evalreg.inference.posterior import beta_binomial

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

TAILS = np.array([0.025, 0.5, 0.975])


def brute_force(successes, sizes, prior=(1, 1), icc=(1, 1), n=400):
    """Density at the midpoints of squares of (mu, rho), the likelihood by Beta functions, cluster by cluster."""
    middle = (np.arange(n) + 0.5) / n
    mu, rho = middle[:, None], middle[None, :]
    phi = (1 - rho) / rho
    height = stats.beta(*prior).logpdf(mu) + stats.beta(*icc).logpdf(rho)
    alike, counts = np.unique(np.column_stack([successes, sizes]), axis=0, return_counts=True)
    for (s, m), count in zip(alike, counts, strict=True):
        height = height + count * special.betaln(mu * phi + s, (1 - mu) * phi + m - s)
    height = height - len(sizes) * special.betaln(mu * phi, (1 - mu) * phi)
    mass = np.exp(height - height.max())
    mass /= mass.sum()
    by_rate = mass.sum(axis=1)
    quantiles = np.interp(TAILS, np.append(0, np.cumsum(by_rate)), np.arange(n + 1) / n)
    return by_rate @ middle, mass.sum(axis=0) @ middle, quantiles


def log_of(successes, sizes):
    """One row a trial."""
    rows = [(f"g{g}", float(i < s)) for g, (s, m) in enumerate(zip(successes, sizes, strict=True)) for i in range(m)]
    return pd.DataFrame(rows, columns=["passage", "score"])


CASES = {
    "unequal": ([3, 5, 0, 2, 1], [5, 6, 4, 2, 1]),
    "hardly mixed": ([8, 0, 8, 0, 8, 1], [8] * 6),
    "even": ([4, 4, 4, 4], [8] * 4),
    "many": (np.random.default_rng(3).binomial(7, np.random.default_rng(4).beta(2, 1, 60)), [7] * 60),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("priors", [((1, 1), (1, 1)), ((2, 3), (1, 4))])
def test_the_posterior_is_that_of_a_plain_integration(case, priors):
    successes, sizes = (np.asarray(part) for part in CASES[case])
    rate, correlation = beta_binomial(successes, sizes, prior=priors[0], icc=priors[1])
    mean, icc, quantiles = brute_force(successes, sizes, *priors)
    assert rate.mean == pytest.approx(mean, abs=2e-5)
    assert correlation.mean == pytest.approx(icc, abs=2e-5)
    np.testing.assert_allclose(rate.quantiles(TAILS), quantiles, atol=5e-5)


@pytest.mark.parametrize(("successes", "size"), [([140, 141, 139], 200), ([1391, 1402, 1410, 1398, 1422], 2000)])
def test_a_few_large_clusters_that_are_alike_are_resolved(successes, size):
    # A narrow top at small rho with a tail that reaches to one: an integration on logarithmic scales.
    rho = np.exp(np.linspace(np.log(1e-9), np.log(1 - 1e-6), 180))
    z = 12 * np.sinh(np.linspace(-7, 7, 801)) / np.sinh(7) + np.log(0.7 / 0.3)
    mu = 1 / (1 + np.exp(-z[:, None]))
    phi = (1 - rho) / rho
    height = np.log(mu * (1 - mu)) + np.log(rho)
    for s in successes:
        height = height + special.betaln(mu * phi + s, (1 - mu) * phi + size - s)
    height = height - len(successes) * special.betaln(mu * phi, (1 - mu) * phi)
    mass = np.exp(height - height.max()) * np.gradient(z)[:, None]
    mass /= mass.sum()
    by_rate = mass.sum(axis=1)
    found, correlation = beta_binomial(np.array(successes), np.full(len(successes), size), prior=(1, 1), icc=(1, 1))
    assert found.mean == pytest.approx((by_rate @ mu).item(), abs=1e-6)
    assert correlation.mean == pytest.approx(mass.sum(axis=0) @ rho, rel=1e-3)
    quantiles = np.interp(TAILS, np.cumsum(by_rate) - by_rate / 2, mu[:, 0])
    np.testing.assert_allclose(found.quantiles(TAILS), quantiles, atol=2e-5)


@pytest.mark.parametrize("prior", [(1.0, 1.0), (0.5, 0.5), (3.0, 1.0)])
@pytest.mark.parametrize("wins", [0, 3, 20])
def test_without_groups_it_is_the_beta_posterior(prior, wins):
    posterior = er.posterior(er.mean(log_of([wins], [20])), prior=prior)
    exact = stats.beta(prior[0] + wins, prior[1] + 20 - wins)
    assert posterior.mean["mean"] == pytest.approx(exact.mean(), abs=1e-7)
    assert posterior.median["mean"] == pytest.approx(exact.median(), abs=1e-7)
    np.testing.assert_allclose(posterior.interval(0.1).to_numpy()[0], exact.ppf([0.05, 0.95]), atol=1e-7)
    assert posterior.probability(above=0.5)["mean"] == pytest.approx(exact.sf(0.5), abs=1e-7)
    assert posterior.icc.isna().all()


def test_rows_that_are_clusters_of_their_own_are_independent_rows():
    log = log_of([1, 0, 1, 1, 0, 1], [1] * 6)
    alone = er.posterior(er.mean(log, groups="passage"))
    pd.testing.assert_frame_equal(alone.to_frame(), er.posterior(er.mean(log)).to_frame(), rtol=1e-12)


@pytest.mark.parametrize("weight", np.geomspace(1e4, 1e9, 11))
def test_priors_sharp_at_a_bound_are_followed_to_it(weight):
    successes, sizes = np.array([3, 5, 1, 2]), np.array([6, 6, 3, 2])
    rate, correlation = beta_binomial(successes, sizes, prior=(1, 1), icc=(1, weight))
    prior = stats.beta(1, weight)
    assert correlation.mean == pytest.approx(prior.mean(), rel=1e-4)
    np.testing.assert_allclose(correlation.quantiles(TAILS), prior.ppf(TAILS), rtol=1e-3)
    np.testing.assert_allclose(rate.quantiles(TAILS), stats.beta(12, 7).ppf(TAILS), atol=1 / weight + 1e-7)
    # Each mixed cluster takes one more factor 1 - rho.
    _, correlation = beta_binomial(successes, sizes, prior=(1, 1), icc=(weight, 1))
    assert 1 - correlation.mean == pytest.approx(4 / weight, rel=2e-3)


def test_a_prior_at_full_correlation_counts_clusters():
    log = log_of([6, 0, 3, 2, 5], [6, 6, 3, 2, 5])
    posterior = er.posterior(er.mean(log, groups="passage"), icc_prior=(1e7, 1))
    exact = stats.beta(1 + 4, 1 + 1)
    np.testing.assert_allclose(posterior.interval().to_numpy()[0], exact.ppf([0.025, 0.975]), atol=1e-5)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_scores_that_do_not_vary_leave_doubt(share):
    posterior = er.posterior(er.mean(log_of([int(5 * share)] * 8, [5] * 8), groups="passage"))
    low, high = posterior.interval().to_numpy()[0]
    # Wider than forty independent rows, no wider than eight.
    forty, eight = (stats.beta(1 + n * share, 1 + n * (1 - share)).ppf([0.025, 0.975]) for n in (40, 8))
    assert np.diff(forty)[0] < high - low < np.diff(eight)[0]


@pytest.mark.slow
@pytest.mark.parametrize(("n_clusters", "size", "mu", "rho"), [(8, 5, 0.7, 0.3), (12, 10, 0.9, 0.1), (30, 4, 0.5, 0.2)])
def test_intervals_hold_simulated_truth(n_clusters, size, mu, rho):
    rng, phi = np.random.default_rng(8), (1 - rho) / rho
    drawn = rng.binomial(size, rng.beta(mu * phi, (1 - mu) * phi, (200, n_clusters)))
    sizes = np.full(n_clusters, size)
    ends = [beta_binomial(one, sizes, prior=(1, 1), icc=(1, 1))[0].quantiles(TAILS) for one in drawn]
    held = np.mean([low <= mu <= high for low, _, high in ends])
    # Three standard errors of a share from 200 logs below 0.95; a little wide at a small correlation is no fault.
    assert held > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200)


def test_scores_that_are_not_0_or_1_are_counted():
    log = log_of([3, 1, 4], [5, 5, 5])
    log.loc[[2, 9], "score"] = 0.5
    with pytest.raises(
        er.errors.ScoreRangeError, match=r"0 and 1.*\"mean\" \(rows 2, 9 of those in use\).*conf_int"
    ) as caught:
        er.posterior(er.mean(log, groups="passage"))
    assert (caught.value.rows, caught.value.count, caught.value.column) == ([2, 9], 2, "score")
    with pytest.raises(er.errors.ScoreRangeError, match="0 and 1"):
        er.posterior(er.mean(log.assign(score=log["score"] * 3), groups="passage"))


def _never_worse(log):
    best = log.groupby("question")["score"].transform("max")
    return log.assign(score=log["score"].where(log["model"] == "old", best))


def test_what_has_no_posterior_says_why():
    log = er.datasets.paired(n_passages=8, seed=1).assign(w=2.0)
    results = er.mean(log, by="model", item="question", groups="passage")
    refused = er.errors.NotAvailableError
    crossed = er.mean(log.assign(topic=np.arange(len(log)) % 3), groups="passage + topic")
    with pytest.raises(refused, match=r'one clustering; got "passage", "topic" crossed.*rows that share a cluster'):
        er.posterior(crossed)
    with pytest.raises(refused, match="weights"):
        er.posterior(er.mean(log, groups="passage", weights="w"))
    others = (
        results.contrast("new - old"),
        er.mean(log, strata="model", groups="passage"),
        er.fit("score ~ model", log, groups="passage"),
        er.ratio(log, "score", "w", groups="passage"),
        results.contrast(np.eye(2), constant=0.1),
        results.transform(lambda p: p + 0.1),
        # No question tells against the better of the two: a difference is no rate for that.
        er.compare(_never_worse(log), item="question", groups="passage").results,
    )
    for other in others:
        with pytest.raises(refused, match=r"plain mean of rows of its own; this is .*score"):
            er.posterior(other)

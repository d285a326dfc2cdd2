"""Influence that was computed elsewhere gives the covariances of its rows, and results give theirs back."""

from __future__ import annotations

import numpy as np
import pytest

import evalreg as er
from evalreg.errors import NotAvailableError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# The same sums in another order.
SAME = 1e-12
LOG = er.datasets.passages(n_passages=25, questions_per_passage=4, seed=4)
LOG = LOG.assign(judge=np.arange(len(LOG)) % 7).sample(frac=1, random_state=2)
FITS = {
    "least squares": lambda **k: er.fit("score ~ n_words", LOG, **k),
    "logistic": lambda **k: er.fit("score ~ n_words", LOG, family="binomial", **k),
    "mean": lambda **k: er.mean(LOG, **k),
    "weighted mean": lambda **k: er.mean(LOG, weights="n_words", **k),
}


def _close(found, expected):
    expected = np.asarray(expected, dtype=float)
    np.testing.assert_allclose(found, expected, rtol=SAME, atol=SAME * np.abs(expected).max())


@pytest.mark.parametrize("name", ["d5_judges3", "d5_judges12"])
@pytest.mark.parametrize("weights", ["uniform", "count"])
def test_win_rates_of_the_reference_from_its_influence(golden, name, weights):
    g = golden(name)
    influence = g.table(f"{name}_influence_{weights}.csv")
    S = g.value(f"{weights}.S")
    estimate = er.from_influence(dict(zip(influence.columns, S, strict=True)), influence.iloc[:, ::-1], data=g.frame)
    for groups, key in (("prompt", "prompt"), ("judge", "judge"), ("prompt + judge", "twoway")):
        V = er.infer(estimate, groups=groups, cov="CR0", repair="none").cov.raw
        g.check(f"{weights}.cov_{key}", V)
    for groups, key in (("prompt", "prompt_G1"), ("prompt + judge", "twoway_G1")):
        found = er.infer(estimate, groups=groups, cov="CR1", ssc="G", repair="none")
        g.check(f"{weights}.cov_{key}", found.cov.raw)
    # The reference has no factor for independent rows.
    g.check(f"{weights}.cov_naive", er.infer(estimate, cov="HC0").cov_params().to_numpy())


@pytest.mark.parametrize("kind", FITS)
@pytest.mark.parametrize("groups", ["passage", "passage + judge", "passage:judge", None])
def test_what_results_give_out_comes_back_with_the_same_errors(kind, groups):
    there = FITS[kind](groups=groups)
    k = there.estimate.n_coefficients
    back = er.from_influence(there.params, there.influence(), data=LOG, n_coefficients=k)
    for cov in ("CR0", "CR1") if groups else ("naive", "HC0", "HC1"):
        for options in ({}, {"repair": "max"}, {"dof": "normal"}):
            one, two = there.with_cov(cov=cov, **options), er.infer(back, groups=groups, cov=cov, **options)
            _close(two.cov_params(), one.cov_params())
            if groups:
                _close(two.dof, one.dof)
            _close(two.params, one.params)
    again = er.infer(back, groups=groups).influence()
    _close(again, there.influence())


def test_rows_that_were_left_out_stay_out():
    holes = LOG.assign(score=LOG["score"].where(np.arange(len(LOG)) % 9 != 4))
    there = er.fit("score ~ n_words", holes, groups="passage", cov="CR1")
    assert there.nobs < len(LOG)
    back = er.from_influence(there.params, there.influence(), data=holes, n_coefficients=2)
    _close(er.infer(back, groups="passage").bse, there.bse)
    _close(er.infer(back, groups=holes["passage"]).bse, there.bse)
    shuffled = er.from_influence(
        there.params, there.influence().sample(frac=1, random_state=1), data=holes, n_coefficients=2
    )
    _close(er.infer(shuffled, groups="passage").bse, there.bse)


def test_the_wild_bootstrap_is_refused_and_the_rest_of_results_works():
    results = er.infer(er.from_influence(**_given(), data=LOG), groups="passage")
    with pytest.raises(NotAvailableError):
        results.wild_test("theta0 = 0.5")
    assert results.cov.options.cov == "CR1"
    assert "Influence of rows, as given" in str(results.summary())
    assert results.with_cov(groups="judge").n_clusters == {"judge": 7}
    assert results.conf_int().shape == (1, 2)


def _given(scale=1.0):
    score = LOG["score"].to_numpy()
    return {"params": [score.mean()], "influence": scale * (score - score.mean()) / score.size}

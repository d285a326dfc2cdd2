"""Tests by term: statsmodels' table under CR1, single coefficients, and clusters that are too few."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import statsmodels.formula.api as smf
from scipy import stats

import evalreg as er
from evalreg.errors import NotAvailableError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
FORMULA = "score ~ C(subject) * n_words"


@pytest.fixture
def log():
    return er.datasets.passages(n_passages=40, questions_per_passage=5, unequal=True, seed=18)


@pytest.mark.parametrize("dof", [None, "normal"])
def test_under_cr1_they_are_those_of_statsmodels(log, dof):
    codes = log["passage"].factorize()[0]
    theirs = smf.ols(FORMULA, log).fit(cov_type="cluster", cov_kwds={"groups": codes}, use_t=dof is None)
    expected = theirs.wald_test_terms(scalar=True).table
    found = er.fit(FORMULA, log, groups="passage", cov="CR1", dof=dof).wald_test_terms()
    assert list(found.index) == list(expected.index)
    np.testing.assert_allclose(found["p_value"], expected["pvalue"].astype(float), rtol=1e-8)
    np.testing.assert_array_equal(found["df_num"], expected["df_constraint"])
    per = 1 if dof is None else found["df_num"]
    np.testing.assert_allclose(found["F"] * per, expected["statistic"].astype(float), rtol=1e-8)
    naive = er.fit(FORMULA, log).with_cov(cov="naive").wald_test_terms()
    assert (naive["df_denom"] == len(log) - 8).all()


def test_each_is_the_joint_test_of_its_coefficients(log):
    results = er.fit(FORMULA, log, groups="passage")
    found = results.wald_test_terms(alpha=0.1)
    test = results.wald_test(", ".join(f"{name} = 0" for name in results.params.index if name.endswith(":n_words")))
    row = found.loc["C(subject):n_words"]
    np.testing.assert_allclose([row["F"], row["df_denom"], row["p_value"]], [test.fvalue, test.df_denom, test.pvalue])
    np.testing.assert_allclose(row["critical"], stats.f.ppf(0.9, 3, test.df_denom), rtol=1e-8)
    # One coefficient: the square of its t.
    np.testing.assert_allclose(found.loc["n_words", "p_value"], results.pvalues["n_words"], rtol=1e-8)
    np.testing.assert_allclose(found.loc["n_words", "df_denom"], results.dof["n_words"], rtol=1e-8)


def test_few_clusters_have_a_large_critical_value_or_a_reason(log):
    few = log[log["passage"].isin(log["passage"].unique()[:6])].assign(part=lambda frame: np.arange(len(frame)) % 7)
    assert er.fit("score ~ C(part)", few, groups="passage", cov="CR1").wald_test_terms().loc["C(part)"].isna()["F"]
    table = er.fit("score ~ C(part)", few, groups="passage").wald_test_terms()
    assert "cannot test 6 contrasts jointly" in table.loc["C(part)", "reason"]
    some = er.fit("score ~ C(part > 3)", few, groups="passage").wald_test_terms().iloc[1]
    assert some["critical"] > 5 > stats.chi2.ppf(0.95, 1)
    with pytest.raises(NotAvailableError, match="tests by term need a formula"):
        copy.copy(er.fit(FORMULA, log, groups="passage")).wald_test_terms()
    with pytest.raises(NotAvailableError, match="tests by term need a formula"):
        er.fit("score ~ n_words | subject", log, groups="passage").wald_test_terms()

"""Tests of all differences at once and by the wild bootstrap: against statsmodels, and through the command line."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import evalreg as er
from evalreg.errors import ArgumentError, NotAvailableError

pytestmark = pytest.mark.filterwarnings(
    "ignore::evalreg.errors.FewClustersWarning", "ignore::evalreg.errors.FewCarriersWarning"
)
# The same sums in another order.
ROUNDING = 1e-9


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Four models on questions in 24 unequal passages; scores are continuous."""
    rng = np.random.default_rng(5)
    passage = np.repeat(np.arange(24), rng.integers(2, 9, 24))
    hard, n = rng.normal(size=24)[passage], passage.size
    parts = [
        pd.DataFrame(
            {
                "model": name,
                "question": np.arange(n),
                "passage": passage,
                "score": gain + hard + rng.normal(size=24)[passage] + rng.normal(size=n),
            }
        )
        for name, gain in (("ada", 0.0), ("bob", 0.2), ("cyd", 0.4), ("dan", 0.9))
    ]
    return pd.concat(parts, ignore_index=True)


def f_of(test) -> tuple[float, float, float]:
    return float(np.squeeze(test.fvalue)), float(test.df_num), float(test.df_denom)


@pytest.mark.parametrize("baseline", [None, "ada", "dan"])
def test_the_joint_test_is_statsmodels_wald_test_of_the_models(log, baseline):
    # On balanced questions the coefficients of models are the paired differences, and CR0 has no factor to differ in.
    fitted = smf.ols("score ~ C(model)", log).fit(
        cov_type="cluster", cov_kwds={"groups": log["passage"], "use_correction": False}, use_t=True
    )
    wanted = fitted.wald_test(np.eye(4)[1:], scalar=True)
    comparison = er.compare(log, item="question", groups="passage", baseline=baseline, cov="CR0", dof="min")
    found = comparison.joint_test()
    F, q, dof = f_of(found)
    np.testing.assert_allclose(F, float(wanted.statistic), rtol=ROUNDING)
    assert (q, dof) == (3, 23)
    assert float(found.pvalue) == pytest.approx(float(wanted.pvalue), rel=ROUNDING)


def test_the_joint_test_does_not_depend_on_names_or_on_the_baseline(log):
    found = [er.compare(log, item="question", groups="passage", baseline=one).joint_test() for one in (None, "bob")]
    for order in itertools.islice(itertools.permutations("wxyz"), 0, 24, 7):
        renamed = log.assign(model=log["model"].map(dict(zip(["ada", "bob", "cyd", "dan"], order, strict=True))))
        found.append(er.compare(renamed, item="question", groups="passage").joint_test())
    np.testing.assert_allclose([f_of(test) for test in found], [f_of(found[0])] * len(found), rtol=1e-8)


def test_one_difference_has_no_joint_test(log):
    two = log[log["model"].isin(["ada", "bob"])]
    with pytest.raises(ArgumentError, match="two or more differences; here is one"):
        er.compare(two, item="question").joint_test()


def test_pairs_about_unlike_questions_ask_for_a_baseline_and_with_it_there_is_a_test(log):
    some = log.drop(index=log.index[-3:])
    with pytest.raises(NotAvailableError, match=r"3 of 6 pairs leave some out.*`baseline`"):
        er.compare(some, item="question", groups="passage").joint_test()
    test = er.compare(some, item="question", groups="passage", baseline="ada").joint_test()
    assert 0 < float(test.pvalue) < 1
    kept = some.groupby("question").filter(lambda part: len(part) == 4)
    assert f_of(er.compare(kept, item="question", groups="passage").joint_test())[1] == 3


def test_unpaired_differences_have_a_joint_test_whatever_was_answered(log):
    some = log.drop(index=log.index[-3:])
    free = er.compare(some, item="question", groups="passage", paired=False)
    named = er.compare(some, item="question", groups="passage", paired=False, baseline="bob")
    np.testing.assert_allclose(f_of(free.joint_test()), f_of(named.joint_test()), rtol=1e-8)


# The command line


# Where nothing is to be said, nothing is said in any format: text and JSON stand for all.

"""The test of nested regressions, against statsmodels and against hypotheses that are written out."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from engines.lazy import in_polars

import evalreg as er
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    ArgumentTypeError,
    EvalregError,
    FewClustersWarning,
    NotAvailableError,
)

LOG = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
_rng = np.random.default_rng(7)
LOG = LOG.assign(
    a=_rng.normal(size=len(LOG)) * 100 + 2026,
    b=_rng.normal(size=len(LOG)),
    w=_rng.uniform(0.5, 2, size=len(LOG)),
    judge=_rng.integers(0, 4, len(LOG)).astype(str),
).assign(ab=lambda frame: frame["a"] + frame["b"])

PAIRS = [
    ("score ~ a + subject", "score ~ a"),
    ("score ~ a + subject", "score ~ 1"),
    ("score ~ a * subject", "score ~ a + subject"),
    ("score ~ a + b", "score ~ ab"),
    ("score ~ 0 + subject + b", "score ~ b"),
    ("score ~ a + I(a**2) + I(a**3)", "score ~ a"),
]


@pytest.mark.filterwarnings("ignore:.*few of the rows tell:evalreg.errors.FewClustersWarning")
@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize(("full", "restricted"), PAIRS)
def test_the_classical_test_is_that_of_statsmodels(full: str, restricted: str, weights: str | None) -> None:
    test = er.ftest(*(er.fit(text, LOG, weights=weights) for text in (full, restricted)))
    fits = [
        (smf.ols(text, LOG) if weights is None else smf.wls(text, LOG, weights=LOG["w"])).fit()
        for text in (full, restricted)
    ]
    F, p, q = fits[0].compare_f_test(fits[1])
    tight = 1e-10 if "**" not in full else 1e-6
    assert test.classical_statistic == pytest.approx(F, rel=tight)
    assert test.classical_pvalue == pytest.approx(p, rel=tight)
    assert (test.df_num, test.classical_df_denom) == (q, fits[0].df_resid)


@pytest.mark.parametrize("options", [{}, {"cov": "CR1"}, {"cov": "CR1", "dof": "normal"}, {"cov": "CR3"}], ids=str)
def test_it_is_the_joint_test_of_what_is_left_out(options: dict[str, Any]) -> None:
    full, restricted = (er.fit(text, LOG, groups="passage", **options) for text in PAIRS[0])
    test = er.ftest(full, restricted)
    names = [name for name in full.params.index if name.startswith("subject")]
    expected = full.wald_test(", ".join(f"{name} = 0" for name in names))
    assert test.left_out == tuple(names)
    assert test.pvalue == pytest.approx(float(expected.pvalue), rel=1e-10)
    assert ("inf" in str(test)) == ("dof" in options)


def test_clustered_it_is_statsmodels_wald_test() -> None:
    full, restricted = (er.fit(text, LOG, groups="passage", cov="CR1") for text in PAIRS[0])
    codes = pd.factorize(LOG["passage"])[0]
    theirs = smf.ols(PAIRS[0][0], LOG).fit(cov_type="cluster", cov_kwds={"groups": codes}, use_t=True)
    expected = theirs.wald_test(np.eye(5)[1:4], use_f=True, scalar=True)
    test = er.ftest(full, restricted)
    assert test.statistic == pytest.approx(float(expected.fvalue), rel=1e-10)
    assert (test.df_num, test.df_denom) == (expected.df_num, expected.df_denom)


@pytest.mark.parametrize("groups", ["passage", None])
def test_a_combination_is_tested_as_it_would_be_written(groups: str | None) -> None:
    full, restricted = (er.fit(text, LOG, groups=groups) for text in PAIRS[3])
    test, expected = er.ftest(full, restricted), full.wald_test("a = b")
    assert test.left_out == ()
    assert test.statistic == pytest.approx(float(expected.fvalue), rel=1e-8)
    assert test.df_denom == pytest.approx(float(expected.df_denom), rel=1e-8)
    assert "1 restriction on combinations" in str(test)


@pytest.mark.parametrize("weights", [None, "w"])
def test_absorbed_factors_are_dummies(weights: str | None) -> None:
    kinds: dict[str, Any] = {"groups": "passage", "weights": weights, "cov": "CR1"}
    test = er.ftest(er.fit("score ~ a + b | subject", LOG, **kinds), er.fit("score ~ a | subject", LOG, **kinds))
    slow = er.ftest(er.fit("score ~ a + b + subject", LOG, **kinds), er.fit("score ~ a + subject", LOG, **kinds))
    assert test.left_out == slow.left_out == ("b",)
    assert test.pvalue == pytest.approx(slow.pvalue, rel=1e-8)
    assert test.classical_pvalue == pytest.approx(slow.classical_pvalue, rel=1e-8)
    assert test.classical_df_denom == slow.classical_df_denom


def test_a_glm_has_its_joint_test_alone() -> None:
    kinds: dict[str, Any] = {"groups": "passage", "family": "binomial", "cov": "CR1", "dof": "normal"}
    test = er.ftest(*(er.fit(text, LOG, **kinds) for text in PAIRS[0]))
    assert np.isinf(test.df_denom)
    codes = pd.factorize(LOG["passage"])[0]
    model = smf.glm(PAIRS[0][0], LOG, family=sm.families.Binomial())
    expected = model.fit(tol=1e-12, cov_type="cluster", cov_kwds={"groups": codes}).wald_test(
        np.eye(5)[1:4], scalar=True
    )
    assert test.statistic * 3 == pytest.approx(float(expected.statistic), rel=1e-6)
    assert test.to_frame().index.tolist() == ["as reported"]


def test_few_clusters_are_told() -> None:
    few = LOG[LOG["passage"].isin(LOG["passage"].unique()[:10])]
    with pytest.warns(FewClustersWarning):
        fits = [er.fit(text, few, groups="passage + judge") for text in ("score ~ a + b", "score ~ 1")]
    with pytest.warns(FewClustersWarning, match="4 judge clusters leave .* to test 2 contrasts jointly"):
        test = er.ftest(*fits)
    assert test.note in " ".join(str(test.summary().sentences).split())


def test_formats_and_copies() -> None:
    test = er.ftest(*(er.fit(text, LOG, groups="passage") for text in PAIRS[0]))
    assert pickle.loads(pickle.dumps(test)) == test
    for text in (str(test), test.to_markdown(), test.to_html(), test.to_latex()):
        assert "independent rows" in text
    assert max(map(len, str(test).splitlines())) <= 80


FULL = er.fit("score ~ a + b", LOG, groups="passage")


def fitted(formula: str = "score ~ a", log: pd.DataFrame = LOG, **options: Any) -> er.Results:
    return er.fit(formula, log, **({"groups": "passage"} | options))


@pytest.mark.parametrize(
    ("restricted", "kind", "match"),
    [
        (lambda: fitted("score ~ w"), ArgumentError, 'nested in `full`; "w" is no combination'),
        (lambda: fitted("score ~ a + I(b + 1e-4 * w)"), ArgumentError, "no combination"),
        (lambda: fitted("score ~ b + a"), ArgumentError, "both have 3"),
        (lambda: fitted(groups=None), AlignmentError, "`full` has 40 passage, `restricted` none"),
        (lambda: fitted(groups="subject"), AlignmentError, "40 passage, `restricted` 4 subject"),
        (
            lambda: fitted(log=LOG.assign(passage=np.roll(LOG["passage"], 1))),
            AlignmentError,
            "of the same name but with other rows",
        ),
        (lambda: fitted(weights="w"), AlignmentError, "same weights; they differ in rows 0"),
        (lambda: fitted("a ~ b"), AlignmentError, "same scores; they differ in rows 0"),
        (lambda: fitted(log=LOG[::-1]), AlignmentError, "same scores"),
        (lambda: fitted(log=LOG[5:]), AlignmentError, "uses 200 and `restricted` 195: 5 are in `full` alone"),
        (
            lambda: fitted(log=LOG.assign(a=LOG["a"].where(LOG.index != 3))),
            AlignmentError,
            r"1 are in `full` alone \(the first is row 3\).*dropna",
        ),
        (lambda: fitted(family="binomial"), ArgumentError, "one family"),
        (lambda: fitted("score ~ a | subject"), ArgumentError, r"`full` absorbs nothing, `restricted` subject \(4 lev"),
        (lambda: er.mean(LOG, groups="passage"), NotAvailableError, "`restricted` does not hold the design"),
        (lambda: fitted().contrast("a"), NotAvailableError, "`restricted` does not hold"),
        (lambda: fitted(log=in_polars(LOG)), NotAvailableError, "rows in an engine do not hold it.*of rows in memory"),
        (lambda: fitted("score ~ a + b | subject").contrast("a - b"), NotAvailableError, "does not hold"),
        (lambda: "score ~ a", ArgumentTypeError, "`restricted` must be results"),
    ],
)
@pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
def test_what_is_not_comparable_is_refused(restricted: Any, kind: type[EvalregError], match: str) -> None:
    with pytest.raises(kind, match=match):
        er.ftest(FULL, restricted())


def test_the_advice_for_missing_covariates_gives_the_test() -> None:
    log = LOG.assign(b=LOG["b"].where(LOG.index != 3))
    with pytest.raises(AlignmentError, match="dropna"):
        er.ftest(fitted("score ~ a + b", log), fitted("score ~ a", log))
    kept = log.dropna(subset=["a", "b"])
    test = er.ftest(fitted("score ~ a + b", kept), fitted("score ~ a", kept))
    assert test.pvalue == pytest.approx(float(fitted("score ~ a + b", log).wald_test("b = 0").pvalue), rel=1e-10)
    part = er.ftest(*(fitted(text, LOG, subset="w > 1") for text in ("score ~ a + b", "score ~ a")))
    assert part.nobs == int((LOG["w"] > 1).sum())

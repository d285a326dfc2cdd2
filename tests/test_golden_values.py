"""Numbers computed by R and other packages, on the same small data sets."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from golden import Golden

import evalreg as er
from evalreg.errors import ConstantScoreError, TooFewClustersError

DIMENSIONS = {"d3_regression": ("prompt", "judge", "lang"), "d3_psd": ("prompt", "judge")}
FEW = ("d4_few_g5", "d4_few_g8", "d4_few_g12")

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@pytest.mark.parametrize("score", ["score", "score_f1"])
def test_means_agree_with_r_on_one_clustering(golden: Callable[[str], Golden], score: str) -> None:
    g = golden("d1_clustered")
    naive = er.mean(g.frame, score)
    g.check(f"{score}.n", naive.nobs)
    g.check(f"{score}.mean", naive.params.iloc[0])
    g.check(f"{score}.se_clt", naive.bse.iloc[0])
    g.check(f"{score}.ci95_clt_t", naive.conf_int(method="wald").to_numpy().ravel())
    g.check(f"{score}.ci95_clt_z", naive.with_cov(dof="normal").conf_int(method="wald").to_numpy().ravel())
    one = er.mean(g.frame, score, groups="cluster", cov="CR0", icc=None)
    g.check(f"{score}.se_cr0", one.bse.iloc[0])
    g.check(f"{score}.reg.CR0", one.cov_params().to_numpy())
    # Equation 4 to the letter: Appendix A plus SE_CLT^2 / n.
    g.check(f"{score}.se_miller_eq4", np.sqrt(one.bse.iloc[0] ** 2 + naive.bse.iloc[0] ** 2 / naive.nobs))
    cr1 = one.with_cov(cov="CR1")
    g.check(f"{score}.se_cameron_miller", cr1.bse.iloc[0])
    g.check(f"{score}.reg.CR1", cr1.cov_params().to_numpy())
    g.check(f"{score}.reg.CR1_G", cr1.with_cov(ssc="G").cov_params().to_numpy())
    g.check(f"{score}.reg.CR1.tG1_p", cr1.pvalues.to_numpy())
    g.check(f"{score}.icc_anova", cr1.dependence()["icc"].iloc[0])
    g.check(f"{score}.deff_ratio_clt", cr1.to_frame()["design_effect"].iloc[0])
    g.check(f"{score}.kish_clusters", cr1.diagnostics().loc["cluster", "effective_clusters"])
    g.check(f"{score}.reg.CR2", one.with_cov(cov="CR2").cov_params().to_numpy())
    G = one.n_clusters["cluster"]
    g.check(f"{score}.reg.CV3", one.with_cov(cov="CR3").cov_params().to_numpy())
    g.check(f"{score}.reg.CR3", one.with_cov(cov="CR3").cov_params().to_numpy() * G / (G - 1))
    for cov in ("CR1", "CR2", "CR3"):
        _check_satterthwaite(
            g, f"{score}.reg.{cov}", er.fit(f"{score} ~ 1", g.frame, groups="cluster", cov=cov, dof="satterthwaite")
        )


def test_proportions_without_clusters_are_statsmodels_own(golden: Callable[[str], Golden]) -> None:
    g = golden("d1_clustered")
    results = er.mean(g.frame)
    g.check("score.clopper_pearson", results.conf_int(method="clopper-pearson").to_numpy().ravel())
    g.check("score.wilson", results.conf_int(method="wilson").to_numpy().ravel())


def _check_satterthwaite(g: Golden, key: str, results: er.Results) -> None:
    """Degrees of freedom always; p and limits where R used the same matrix (its CR3 has no (G - 1)/G, its CR1 none)."""
    g.check(f"{key}.satt_df", results.dof.to_numpy())
    if key.endswith("CR2"):
        g.check(f"{key}.satt_p", results.pvalues.to_numpy())
        g.check(f"{key}.satt_ci_lo", results.conf_int()[0].to_numpy())
        g.check(f"{key}.satt_ci_hi", results.conf_int()[1].to_numpy())


def _one_way(g: Golden, formula: str, dimension: str) -> None:
    results = er.fit(formula, g.frame, groups=dimension, cov="CR0")
    V = results.cov_params().to_numpy()
    n, k, G = results.nobs, len(results.params), results.n_clusters[dimension]
    g.check("coef", results.params.to_numpy())
    g.check(f"{dimension}.G", G)
    g.check(f"{dimension}.CR0", V)
    for ssc, key in (("statsmodels", "CR1"), ("G", "CR1_G"), ("none", "CR0")):
        g.check(f"{dimension}.{key}", results.with_cov(cov="CR1", ssc=ssc).cov_params().to_numpy())
    g.check(f"{dimension}.CR2", results.with_cov(cov="CR2").cov_params().to_numpy())
    cr3 = results.with_cov(cov="CR3").cov_params().to_numpy()
    # The factors that turn our CR3 into clubSandwich's and pyfixest's.
    g.check(f"{dimension}.CV3", cr3)
    g.check(f"{dimension}.CR3", cr3 * G / (G - 1))
    g.check(f"{dimension}.CR3_pyfixest_default", cr3 * (G / (G - 1)) ** 2 * (n - 1) / (n - k))
    g.check(f"{dimension}.CV3", results.with_cov(cov="jackknife").cov_params().to_numpy())
    g.check(f"{dimension}.CR1.tG1_p", results.with_cov(cov="CR1").pvalues.to_numpy())
    for cov in ("CR1", "CR2", "CR3"):
        _check_satterthwaite(g, f"{dimension}.{cov}", results.with_cov(cov=cov, dof="satterthwaite"))
    _joint_tests(g, results, dimension, k, G)


def _joint_tests(g: Golden, results: er.Results, dimension: str, k: int, G: int) -> None:
    slopes = np.eye(k)[[1, 2]]
    cr1 = results.with_cov(cov="CR1")
    if len(slopes) > G - 1:
        with pytest.raises(TooFewClustersError):
            cr1.wald_test(slopes)
    else:
        test = cr1.wald_test(slopes)
        g.check(f"{dimension}.wald.F_CR1", test.fvalue)
        g.check(f"{dimension}.wald.p_F_G1", test.pvalue)
        g.check(f"{dimension}.wald.p_chi2", cr1.with_cov(dof="normal").wald_test(slopes).pvalue)
    htz = results.with_cov(cov="CR2").wald_test(slopes)
    g.check(f"{dimension}.wald.CR2_HTZ_F", htz.fvalue)
    g.check(f"{dimension}.wald.CR2_HTZ_p", htz.pvalue)
    g.check(f"{dimension}.wald.CR2_HTZ_df", htz.df_denom)


@pytest.mark.parametrize("name", DIMENSIONS)
def test_regressions_agree_with_r_on_each_clustering(golden: Callable[[str], Golden], name: str) -> None:
    g = golden(name)
    for dimension in DIMENSIONS[name]:
        _one_way(g, g.facts["formula"], dimension)


@pytest.mark.parametrize("name", FEW)
def test_regressions_with_few_clusters_agree_with_r(golden: Callable[[str], Golden], name: str) -> None:
    g = golden(name)
    _one_way(g, g.facts["formula"], "cluster")


@pytest.mark.parametrize("name", [*DIMENSIONS, *FEW])
def test_naive_regression_is_hc1(golden: Callable[[str], Golden], name: str) -> None:
    g = golden(name)
    g.check("HC1", er.fit(g.facts["formula"], g.frame).cov_params().to_numpy())


@pytest.mark.parametrize("name", [*DIMENSIONS, *FEW])
@pytest.mark.parametrize("cov", ["HC0", "HC1", "HC2", "HC3"])
def test_covariances_of_independent_rows_agree_with_r(golden: Callable[[str], Golden], name: str, cov: Any) -> None:
    g = golden(name)
    g.check(cov, er.fit(g.facts["formula"], g.frame, cov=cov).cov_params().to_numpy())


@pytest.mark.parametrize("cov", ["HC0", "HC1", "HC2", "HC3"])
def test_covariances_of_independent_rows_of_a_logistic_regression_agree_with_r(
    golden: Callable[[str], Golden], cov: Any
) -> None:
    g = golden("d3_regression")
    weight = 1 + g.frame["x1"].abs()
    g.check(f"glm.{cov}", er.fit("treat ~ x1 + x2", g.frame, family="binomial", cov=cov).cov_params().to_numpy())
    weighted = er.fit("treat ~ x1 + x2", g.frame, family="binomial", weights=weight, cov=cov)
    g.check(f"glm_weighted.{cov}", weighted.cov_params().to_numpy())


@pytest.mark.parametrize("name", DIMENSIONS)
@pytest.mark.parametrize("ways", [2, 3])
def test_crossed_clusterings_agree_with_r(golden: Callable[[str], Golden], name: str, ways: int) -> None:
    g, dimensions = golden(name), DIMENSIONS[name][:ways]
    if len(dimensions) < ways:
        return
    key = {2: "twoway", 3: "threeway"}[ways]
    plain = er.fit(g.facts["formula"], g.frame, groups=list(dimensions), cov="CR0", repair="none")
    for ssc, name_there in (("none", "plain"), ("statsmodels", "own"), ("G", "own_G"), ("fixest", "min")):
        raw = plain.with_cov(cov="CR1", ssc=ssc).cov.raw
        g.check(f"{key}.{name_there}", raw)
    eigen = plain.with_cov(cov="CR1", ssc="statsmodels", repair="eigen")
    g.check(f"{key}.own.psd_fix", eigen.cov_params().to_numpy())
    g.check(f"{key}.plain.psd_fix", plain.with_cov(repair="eigen").cov_params().to_numpy())
    g.check(f"{key}.df", eigen.dof.iloc[0])


def test_intersections_are_pairs_and_not_pasted_text(golden: Callable[[str], Golden]) -> None:
    g = golden("d6_id_collision")
    score = next(name for name in g.frame.columns if name not in ("prompt", "judge"))
    results = er.fit(f"{score} ~ 1", g.frame, groups="prompt + judge", cov="CR0", repair="none")
    g.check("cells", results.n_clusters["prompt:judge"])
    g.check("var_twoway_plain", results.cov.raw)
    g.check("var_twoway_own", results.with_cov(cov="CR1").cov.raw)


@pytest.mark.parametrize("name", ["d6_singletons", "d6_giant"])
def test_extreme_clusterings_agree_with_r(golden: Callable[[str], Golden], name: str) -> None:
    g = golden(name)
    score = next(column for column in g.frame.columns if column.startswith("s") or column == "y")
    results = er.fit(f"{score} ~ 1", g.frame, groups="cluster")
    G = results.n_clusters["cluster"]
    g.check("mean", results.params.iloc[0])
    g.check("se_clt", results.with_cov(groups=None).bse.iloc[0])
    g.check("G", G)
    g.check("var_cr0", results.with_cov(cov="CR0").cov_params().iloc[0, 0])
    g.check("var_cr1", results.with_cov(cov="CR1").cov_params().iloc[0, 0])
    g.check("var_cr2", results.cov_params().iloc[0, 0])
    g.check("var_cr3", results.with_cov(cov="CR3").cov_params().iloc[0, 0] * G / (G - 1))
    g.check("cr2_satt_df", results.dof.iloc[0])
    if "icc_anova" in g.values:
        g.check("icc_anova", results.dependence()["icc"].iloc[0])


def test_one_cluster_is_refused(golden: Callable[[str], Golden]) -> None:
    g = golden("d6_one_cluster")
    with pytest.raises(TooFewClustersError, match="has 1 distinct value"):
        er.mean(g.frame, groups="cluster")


def test_constant_scores_have_no_variance_and_no_p_value(golden: Callable[[str], Golden]) -> None:
    g = golden("d6_constant")
    results = er.mean(g.frame, groups="cluster")
    g.check("mean", results.params.iloc[0])
    assert results.bse.iloc[0] == 0
    assert np.isnan(results.pvalues.iloc[0])
    low, high = results.conf_int().iloc[0]
    assert low < results.params.iloc[0] <= high
    with pytest.raises(ConstantScoreError, match=r"one number \(3, 5\) in each part"):
        er.mean({"score": [3, 3, 5, 5], "model": ["a", "a", "b", "b"]}, by="model")


@pytest.mark.parametrize("kind", ["bin", "cont"])
def test_paired_differences_agree_with_r(golden: Callable[[str], Golden], kind: str) -> None:
    g = golden("d2_paired")
    long = g.frame.melt(
        id_vars=["question", "passage", "k"],
        value_vars=[f"a_{kind}", f"b_{kind}"],
        var_name="model",
        value_name="score",
    )
    for key, rows, sample in ((f"{kind}.k1", long[long["k"] == 1], None), (f"{kind}.kmean", long, "k")):
        models = er.mean(rows, by="model", item="question", sample=sample, groups="passage", cov="CR0")
        a, b = models.estimate.names
        g.check(f"{key}.mean_a", models.params[a])
        g.check(f"{key}.se_a_clustered", models.bse[a])
        difference = models.contrast({a: 1, b: -1})
        g.check(f"{key}.diff", difference.params.iloc[0])
        g.check(f"{key}.se_paired_clustered", difference.bse.iloc[0])
        by_question = er.mean(rows, by="model", item="question", sample=sample)
        g.check(f"{key}.se_paired", by_question.contrast({a: 1, b: -1}).bse.iloc[0])
        cr2 = models.with_cov(cov="CR2").contrast({a: 1, b: -1})
        g.check(f"{key}.se_paired_clustered_CR2", cr2.bse.iloc[0])
        g.check(f"{key}.CR2.satt_df", cr2.dof.iloc[0])
        # R has the plain t test, of what was seen alone.
        g.check(f"{key}.CR2.satt_p", float(cr2.t_test(np.eye(1), method="wald").pvalue))
        g.check(f"{key}.CR2.satt_ci_lo", cr2.conf_int(method="wald").iloc[0, 0])
        g.check(f"{key}.se_paired_clustered_CR1", models.with_cov(cov="CR1").contrast({a: 1, b: -1}).bse.iloc[0])


def test_bradley_terry_as_a_glm_agrees_with_r(golden: Callable[[str], Golden]) -> None:
    import pandas as pd
    import statsmodels.api as sm

    g = golden("d5_judges12")
    models = g.facts["models"]
    X = np.zeros((len(g.frame), len(models)))
    for sign, column in ((1, "model_a"), (-1, "model_b")):
        X[np.arange(len(X)), [models.index(name) for name in g.frame[column]]] += sign
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = sm.GLM(g.frame["score_a"], pd.DataFrame(X[:, 1:], columns=models[1:]), sm.families.Binomial()).fit(
            tol=1e-12
        )
    estimate = er.from_statsmodels(fitted)
    results = er.infer(estimate, groups=g.frame["prompt"].to_numpy(), cov="CR0")
    g.check("bt.theta", results.params.to_numpy())
    g.check("bt.cov_prompt", results.cov_params().to_numpy())
    g.check("bt.cov_prompt_G1", results.with_cov(cov="CR1", ssc="sandwich").cov_params().to_numpy())
    g.check("bt.cov_prompt_CR1_statsmodels", results.with_cov(cov="CR1").cov_params().to_numpy())

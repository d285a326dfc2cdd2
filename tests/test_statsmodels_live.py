"""The installed statsmodels says the same, where it has the same convention; and its own results carry our errors."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels
import statsmodels.api as sm
import statsmodels.formula.api as smf
from statsmodels.sandbox.regression.gmm import IV2SLS
from statsmodels.stats import sandwich_covariance

import evalreg as er
from evalreg.errors import ConvergenceError, NotAvailableError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# The same sums in another order, mapped by the same bread.
SAME = 1e-12
# p-values far in the tail: t distributions of two libraries, whose argument has the error above.
TAIL = 1e-10
# Two fits of one likelihood by different iterations.
REFITTED = 1e-7
VERSION = tuple(int(part) for part in statsmodels.__version__.split(".")[:2])


@pytest.fixture
def log(rng):
    n = 240
    passage = rng.integers(0, 18, n)
    words = rng.normal(size=n) + 0.5 * rng.normal(size=18)[passage]
    model = rng.choice(["ada", "bob", "cyd"], n)
    latent = 0.3 * words + 0.7 * rng.normal(size=18)[passage] + 0.4 * (model == "bob") + rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "passage": [f"p{i}" for i in passage],
            "judge": [f"j{i}" for i in rng.integers(0, 7, n)],
            "model": model,
            "words": words,
            "weight": rng.uniform(0.5, 2.0, n),
            "score": latent,
            "right": (latent > 0).astype(float),
            "count": rng.poisson(np.exp(0.2 + 0.3 * words)).astype(float),
            "burst": rng.poisson(np.exp(0.2 + 0.3 * words) * rng.gamma(1.5, 1 / 1.5, n)).astype(float),
            "grade": np.clip(np.round(latent), -1, 1) + 1,
        }
    )
    return frame.sample(frac=1, random_state=3)  # with an index that is no range


def _codes(labels):
    return pd.factorize(labels)[0]


def _close(found, expected, rtol=SAME):
    # statsmodels gives a single contrast's standard error as a 1 x 1 matrix.
    found, expected = np.squeeze(np.asarray(found, dtype=float)), np.squeeze(np.asarray(expected, dtype=float))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max(initial=0.0))


def _ours(kind, formula, log, **options):
    if kind == "WLS":
        options["weights"] = "weight"
    if kind in ("binomial", "poisson"):
        options["family"] = kind
    return er.fit(formula, log, **options)


def _theirs(kind, formula, log, **options):
    if kind == "OLS":
        return smf.ols(formula, log).fit(**options)
    if kind == "WLS":
        return smf.wls(formula, log, weights=log["weight"]).fit(**options)
    families = {"binomial": sm.families.Binomial(), "poisson": sm.families.Poisson()}
    return smf.glm(formula, log, family=families[kind]).fit(**options)


OUTCOME = {"OLS": "score", "WLS": "score", "binomial": "right", "poisson": "count"}
KINDS = list(OUTCOME)


def _formula(kind, right="words + C(model)"):
    return f"{OUTCOME[kind]} ~ {right}"


# Covariances


@pytest.mark.parametrize(
    "right",
    ["1", *(pytest.param(one, marks=pytest.mark.slow) for one in ("words", "words + C(model)")), "words * C(model)"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_one_way_cr1_is_the_cluster_covariance_of_statsmodels(log, kind, right):
    formula = _formula(kind, right)
    keywords = {"groups": _codes(log["passage"])}
    theirs = _theirs(kind, formula, log, cov_type="cluster", cov_kwds=keywords, use_t=True)
    ours = _ours(kind, formula, log, groups="passage", cov="CR1")
    _close(ours.params, theirs.params)
    _close(ours.cov_params(), theirs.cov_params())
    _close(ours.bse, theirs.bse)
    _close(ours.tvalues, theirs.tvalues, TAIL)
    _close(ours.pvalues, theirs.pvalues, TAIL)
    _close(ours.conf_int(0.1), theirs.conf_int(0.1))
    assert list(ours.params.index) == list(theirs.params.index)
    assert ours.dof.unique().tolist() == [theirs.df_resid_inference] == [17.0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_normal_reference_is_that_of_statsmodels_without_t(log, kind):
    keywords = {"groups": _codes(log["passage"])}
    theirs = _theirs(kind, _formula(kind), log, cov_type="cluster", cov_kwds=keywords, use_t=False)
    ours = _ours(kind, _formula(kind), log, groups="passage", cov="CR1", dof="normal")
    _close(ours.pvalues, theirs.pvalues, TAIL)
    _close(ours.conf_int(), theirs.conf_int())
    joint, other = (
        ours.wald_test("words = 0, C(model)[T.bob] = 0"),
        theirs.wald_test("words = 0, C(model)[T.bob] = 0", use_f=False, scalar=True),
    )
    assert joint.distribution == other.distribution == "chi2"
    _close(joint.statistic, other.statistic, TAIL)
    _close(joint.pvalue, other.pvalue, TAIL)


@pytest.mark.parametrize("kind", KINDS)
def test_two_way_cr1_is_that_of_statsmodels(log, kind):
    both = np.column_stack([_codes(log["passage"]), _codes(log["judge"])])
    theirs = _theirs(kind, _formula(kind), log, cov_type="cluster", cov_kwds={"groups": both}, use_t=True)
    ours = _ours(kind, _formula(kind), log, groups="passage + judge", cov="CR1", repair="none")
    _close(ours.cov_params(), theirs.cov_params())
    _close(ours.pvalues, theirs.pvalues, TAIL)
    _close(ours.conf_int(), theirs.conf_int())
    plain = _theirs(kind, _formula(kind), log)
    V, first, second = sandwich_covariance.cov_cluster_2groups(plain, both)
    _close(ours.cov_params(), V)
    for piece, V in zip(ours.cov.pieces, (first, second), strict=False):
        _close(piece.matrix, V)


ROWS = ["HC0", "HC1", "HC2", "HC3"]


@pytest.mark.pairwise
@pytest.mark.parametrize("cov", ROWS)
@pytest.mark.parametrize("right", ["1", "words + C(model)"])
@pytest.mark.parametrize("kind", ["OLS", "WLS"])
def test_covariances_of_independent_rows_are_those_of_statsmodels(log, kind, right, cov):
    theirs = _theirs(kind, _formula(kind, right), log, cov_type=cov, use_t=True)
    here = _ours(kind, _formula(kind, right), log, cov=cov)
    there = er.infer(er.from_statsmodels(theirs), cov=cov)
    back = _ours(kind, _formula(kind, right), log, groups="passage").with_cov(groups=None, cov=cov)
    for ours in (here, there, back):
        _close(ours.cov_params(), theirs.cov_params())
        _close(ours.pvalues, theirs.pvalues, TAIL)
        _close(ours.conf_int(), theirs.conf_int())
        assert ours.cov.options.cov == cov
        assert f"{cov} (rows independent)" in str(ours.summary())


@pytest.mark.parametrize("kind", ["binomial", "poisson"])
def test_those_of_a_glm_have_the_leverages_of_its_working_fit(log, kind):
    # statsmodels gives HC0 under all four names; its leverages are those of the working regression.
    fitted = _theirs(kind, _formula(kind), log, tol=1e-15, maxiter=50)
    n, k, h = len(log), fitted.params.size, fitted.get_hat_matrix_diag()
    M, estimate = np.asarray(fitted.normalized_cov_params), er.from_statsmodels(fitted)
    for cov in ROWS:
        power = {"HC2": 0.5, "HC3": 1.0}.get(cov, 0.0)
        scores = np.asarray(fitted.model.score_obs(fitted.params)) / ((1 - h) ** power)[:, None]
        expected = (n / (n - k) if cov == "HC1" else 1.0) * (M @ scores.T @ scores @ M)
        _close(er.infer(estimate, cov=cov).cov_params(), expected, 1e-10)
        _close(_ours(kind, _formula(kind), log, cov=cov).cov_params(), expected, REFITTED)
        if cov == "HC0":
            again = _theirs(kind, _formula(kind), log, cov_type=cov, tol=1e-15, maxiter=50)
            _close(again.cov_params(), expected, 1e-10)


def test_a_model_without_a_design_has_hc0_and_hc1_and_says_so_of_the_others(log):
    fitted = smf.negativebinomial("burst ~ words", log).fit(disp=False, maxiter=200)
    estimate = er.from_statsmodels(fitted)
    params = np.asarray(fitted.params)
    scores, hessian = fitted.model.score_obs(params), fitted.model.hessian(params)
    expected = np.linalg.inv(hessian) @ (scores.T @ scores) @ np.linalg.inv(hessian)
    n, k = len(log), len(fitted.params)
    _close(er.infer(estimate, cov="HC0").cov_params(), expected, 1e-8)
    _close(er.infer(estimate, cov="HC1").cov_params(), n / (n - k) * expected, 1e-8)
    for cov in ("HC2", "HC3"):
        with pytest.raises(NotAvailableError, match=r'needs the leverages of the rows.*"HC0" and "HC1"'):
            er.infer(estimate, cov=cov)


@pytest.mark.parametrize("cov", ROWS)
def test_a_row_that_alone_determines_a_coefficient_gives_it_no_error_bar(log, cov):
    one = log.assign(odd=(np.arange(len(log)) == 5).astype(float))
    found = er.fit("score ~ words + odd", one, cov=cov)
    assert np.isnan(found.bse["odd"])
    without = er.fit("score ~ words", one[one["odd"] == 0], cov=cov)
    factor = np.sqrt((len(log) - 1 - 2) / (len(log) - 3) * len(log) / (len(log) - 1)) if cov == "HC1" else 1.0
    _close(found.bse[:2], factor * without.bse, 1e-10)


@pytest.mark.parametrize("kind", ["OLS", "WLS"])
def test_one_way_cr3_is_that_of_statsmodels(log, kind):
    if VERSION < (0, 15):
        pytest.skip(f'cov_type="cluster-crv3" came with statsmodels 0.15; this is {statsmodels.__version__}')
    keywords = {"groups": _codes(log["passage"])}
    theirs = _theirs(kind, _formula(kind), log, cov_type="cluster-crv3", cov_kwds=keywords, use_t=True)
    ours = _ours(kind, _formula(kind), log, groups="passage", cov="CR3")
    _close(ours.cov_params(), theirs.cov_params())
    _close(ours.pvalues, theirs.pvalues, TAIL)
    jackknife = _theirs(kind, _formula(kind), log, cov_type="cluster-jk", cov_kwds=keywords)
    # statsmodels' "jk" is about the mean of the leave-out estimates, ours about the estimate.
    assert np.all(ours.with_cov(cov="jackknife").bse > 0.99 * jackknife.bse)


# Tests


@pytest.mark.parametrize("kind", KINDS)
def test_t_and_f_tests_are_those_of_statsmodels_under_cr1(log, kind):
    keywords = {"groups": _codes(log["passage"])}
    theirs = _theirs(kind, _formula(kind), log, cov_type="cluster", cov_kwds=keywords, use_t=True)
    ours = _ours(kind, _formula(kind), log, groups="passage", cov="CR1")
    for contrast in ("words = 0.2", "C(model)[T.bob] - C(model)[T.cyd]", np.array([[1, 0.5, 0, 0], [0, 0, 1, -1.0]])):
        one, two = ours.t_test(contrast), theirs.t_test(contrast)
        _close(one.effect, two.effect)
        _close(one.sd, two.sd)
        _close(one.tvalue, two.tvalue, TAIL)
        _close(one.pvalue, two.pvalue, TAIL)
        _close(one.conf_int(), two.conf_int())
        assert np.all(np.asarray(one.df_denom) == two.df_denom)
        assert "P>|t|" in str(one)
    for hypotheses in ("C(model)[T.bob] = C(model)[T.cyd] = 0", "words = 0.1, Intercept = 0"):
        one, two = ours.wald_test(hypotheses), theirs.wald_test(hypotheses, use_f=True, scalar=True)
        _close(np.squeeze(one.statistic), np.squeeze(two.statistic), TAIL)
        _close(one.pvalue, two.pvalue, TAIL)
        assert (one.df_num, one.df_denom) == (two.df_num, two.df_denom) == (2, 17)


# statsmodels' own results with our covariance


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("right", ["1", "words + C(model)"])
def test_results_come_back_as_those_of_statsmodels(log, kind, right):
    ours = _ours(kind, _formula(kind, right), log, groups="passage")
    theirs = ours.statsmodels
    plain = _theirs(kind, _formula(kind, right), log)
    assert type(theirs) is type(plain)
    _close(theirs.params, ours.params)
    _close(theirs.bse, ours.bse)
    _close(theirs.tvalues, ours.tvalues)
    _close(theirs.cov_params(), ours.cov_params())
    _close(theirs.fittedvalues, plain.fittedvalues, REFITTED)
    # statsmodels has one number of degrees of freedom; ours is the smallest of the coefficients'.
    least = ours.with_cov(dof=float(ours.dof.min()))
    _close(theirs.pvalues, least.pvalues, TAIL)
    _close(theirs.conf_int(), least.conf_int())
    if right != "1":
        one, two = theirs.t_test("words = 0"), least.t_test("words = 0")
        _close(one.sd, two.sd)
        _close(one.pvalue, two.pvalue, TAIL)
        F = theirs.wald_test("words = 0, C(model)[T.bob] = 0", use_f=True, scalar=True)
        assert F.df_denom == ours.dof.min()


def test_marginal_effects_use_our_covariance(log):
    marginaleffects = pytest.importorskip("marginaleffects")
    # That package takes factors as categories. Counts and lengths are whole here: marginaleffects 0.6 asks whether a
    # column of floats is all 0 and 1 in a way that polars 2 refuses.
    whole = pd.DataFrame(
        {
            "count": log["count"].astype(int),
            "words": (10 * log["words"]).round().astype(int),
            "model": log["model"].astype("category"),
            "passage": log["passage"].astype("category"),
        }
    )
    fitted = smf.ols("count ~ words + C(model)", whole).fit()
    ours = er.infer(er.from_statsmodels(fitted), groups="passage")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        slopes = marginaleffects.avg_slopes(ours.statsmodels, variables="words")
        predictions = marginaleffects.avg_predictions(ours.statsmodels)
    numeric = 1e-3  # its derivatives are numerical; 4e-4 off in 0.6.1
    _close(_column(slopes, "estimate"), ours.params["words"], numeric)
    _close(_column(slopes, "std_error"), ours.bse["words"], numeric)
    x = fitted.model.exog.mean(axis=0)[None]
    _close(_column(predictions, "std_error"), np.sqrt(ours.cov.variance(x)), numeric)
    assert not np.isclose(ours.bse["words"], fitted.bse["words"], rtol=0.01)


def _column(table, name):
    table = getattr(table, "data", table)
    return np.asarray(table[name])


# Fits made by hand


def _fitted(name, data, missing="none"):
    options = {"missing": missing}
    if name == "OLS":
        return smf.ols("score ~ words", data, **options).fit()
    if name == "WLS":
        return smf.wls("score ~ words", data, weights=data["weight"], **options).fit()
    if name == "GLM":
        return smf.glm("right ~ words", data, family=sm.families.Binomial(), **options).fit()
    if name == "GLM with probit link":
        return smf.glm(
            "right ~ words", data, family=sm.families.Binomial(link=sm.families.links.Probit()), **options
        ).fit()
    if name == "GLM gamma":
        family = sm.families.Gamma(link=sm.families.links.Log())
        return smf.glm("weight ~ words", data, family=family, **options).fit()
    quiet = {"disp": False, "maxiter": 200}
    formula = {"Poisson": "count ~ words", "NegativeBinomial": "burst ~ words", "MNLogit": "grade ~ words"}
    model = {
        "Logit": smf.logit,
        "Probit": smf.probit,
        "Poisson": smf.poisson,
        "NegativeBinomial": smf.negativebinomial,
        "MNLogit": smf.mnlogit,
    }[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model(formula.get(name, "right ~ words"), data, **options).fit(**quiet)


FITTED: dict = {}


@pytest.fixture
def fitted_by_hand(log):
    """Fits of the log by name, made once for all tests: none of them may change a fit."""

    def fitted(name):
        if name not in FITTED:
            FITTED[name] = _fitted(name, log)
        return FITTED[name]

    return fitted


LEAST_SQUARES = ["OLS", "WLS"]
LIKELIHOODS = ["GLM", "GLM with probit link", "Logit", "Probit", "Poisson", "NegativeBinomial", "MNLogit"]


@pytest.mark.parametrize("name", [*LEAST_SQUARES, *LIKELIHOODS, "GLM gamma"])
def test_fits_made_by_hand_have_the_cluster_covariance_of_statsmodels(log, fitted_by_hand, name):
    fitted = fitted_by_hand(name)
    # Likelihoods: statsmodels inverts the Hessian, here and there by another route.
    rtol = SAME if name in LEAST_SQUARES else 1e-9
    results = er.infer(er.from_statsmodels(fitted), groups="passage", cov="CR1")
    keywords = {"groups": _codes(log["passage"])}
    if name in LEAST_SQUARES:
        theirs = np.asarray(fitted.get_robustcov_results(cov_type="cluster", **keywords).cov_params())
    else:
        k = len(results.params)
        # Some of its models count k without what is not a coefficient, so its own factor is left out.
        theirs = np.asarray(sandwich_covariance.cov_cluster(fitted, keywords["groups"], use_correction=False))
        theirs = theirs * 18 / 17 * (len(log) - 1) / (len(log) - k)
    _close(results.cov_params(), theirs, rtol)
    flat = np.asarray(fitted.params)
    _close(results.params, flat.ravel(order="F") if flat.ndim > 1 else flat)
    assert results.n_clusters == {"passage": 18}
    assert results.params.index.is_unique


# Rows that a fit left out


@pytest.fixture
def holes(log):
    """Some scores and covariates missing, in a frame with its own index."""
    frame = log.copy()
    frame.iloc[[3, 50, 77], frame.columns.get_loc("words")] = np.nan
    for column in ("score", "right", "count", "burst", "grade"):
        frame.iloc[[10, 50], frame.columns.get_loc(column)] = np.nan
    return frame


NAMES = ["OLS", "WLS", "GLM", "Logit", "Probit", "Poisson", "NegativeBinomial", "MNLogit"]


@pytest.mark.parametrize("name", NAMES)
def test_labels_follow_the_rows_that_the_fit_used(holes, name):
    used = holes.dropna()
    fitted, complete = _fitted(name, holes, "drop"), _fitted(name, used)
    expected = er.infer(er.from_statsmodels(complete), groups="passage")
    assert expected.nobs == len(used) == len(holes) - 4
    estimate = er.from_statsmodels(fitted)
    series = holes["passage"]
    forms: dict = {
        "column": "passage",
        "array of used length": used["passage"].to_numpy(),
        "array of original length": series.to_numpy(),
        "Series by index": series.iloc[::-1],
        "Series of the used rows": used["passage"].sample(frac=1, random_state=1),
        "codes": _codes(series),
        "dict": {"passage": series},
    }
    # How labels are matched is the same for all models: some of them are asked in every form.
    asked = forms if name in ("OLS", "GLM", "Logit") else ("column", "array of original length")
    for form in asked:
        results = er.infer(estimate, groups=forms[form])
        assert results.nobs == len(used), form
        np.testing.assert_allclose(results.cov_params(), expected.cov_params(), rtol=REFITTED, err_msg=form)
    crossed = er.infer(estimate, groups=["passage", "judge"])
    _close(
        crossed.cov_params(), er.infer(er.from_statsmodels(complete), groups="passage + judge").cov_params(), REFITTED
    )


# What is refused


def test_a_fit_that_did_not_converge_is_refused(log):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [
            smf.logit("right ~ words", log).fit(disp=False, maxiter=1),
            smf.glm("right ~ words", log, family=sm.families.Binomial()).fit(maxiter=1),
        ]
    for fitted in fits:
        with pytest.raises(ConvergenceError, match="did not converge"):
            er.from_statsmodels(fitted)


def test_models_whose_residuals_are_not_their_scores_are_refused(log):
    # A quantile regression has `wexog` and `wresid` as least squares has, but minimises something else.
    with pytest.raises(NotAvailableError):
        er.from_statsmodels(smf.quantreg("score ~ words", log).fit())
    X = sm.add_constant(log[["words"]])
    fits = [
        sm.RLM(log["score"], X).fit(),
        sm.GEE(log["score"], X, groups=_codes(log["passage"])).fit(),
        IV2SLS(log["score"], X, X.assign(words=log["words"] + log["weight"])).fit(),
    ]
    for fitted in fits:
        with pytest.raises(NotAvailableError):
            er.from_statsmodels(fitted)


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("fresh_index", [False, True])
def test_a_frame_sorted_after_a_statsmodels_fit_is_not_matched_by_position(fresh_index):
    log = er.datasets.passages(n_passages=30, seed=2)
    log["words"] = np.arange(len(log)) % 7.0
    log.loc[5, "words"] = np.nan
    right = er.infer(er.from_statsmodels(smf.ols("score ~ words", log).fit()), groups="passage").bse
    frame = log.copy()
    fitted = smf.ols("score ~ words", frame).fit()
    estimate = er.from_statsmodels(fitted)
    frame.sort_values("score", inplace=True, ignore_index=fresh_index)
    # What was made before holds the rows as they were; what is made now cannot know their order.
    pd.testing.assert_series_equal(er.infer(estimate, groups="passage").bse, right)
    with pytest.raises(er.errors.AlignmentError, match="than when it was fitted"):
        er.infer(er.from_statsmodels(fitted), groups="passage")
    labels = log["passage"].drop(5).to_numpy()
    found = er.infer(er.from_statsmodels(fitted), groups=labels).bse
    pd.testing.assert_series_equal(found, right)


def test_equations_of_a_multinomial_logit_go_by_their_categories(log):
    named = log.assign(kind=np.array(["bad", "fair", "very good"])[log["grade"].astype(int)])
    fits = {
        ("fair", "very good"): sm.MNLogit(named["kind"], sm.add_constant(named[["words"]])).fit(disp=False),
        ("1", "2"): smf.mnlogit("grade ~ words", named).fit(disp=False),
    }
    for categories, fitted in fits.items():
        shown = str(fitted.summary())
        constant = fitted.params.index[0]
        estimate = er.from_statsmodels(fitted)
        assert estimate.names == tuple(f"{one}: {name}" for one in categories for name in (constant, "words"))
        results = er.infer(estimate, groups=named["passage"])
        for place, category in enumerate(categories):
            # Where statsmodels prints the name of the equation, its own coefficients follow.
            assert f"={category}" in shown
            np.testing.assert_allclose(
                results.params[f"{category}: words"], fitted.params.loc["words", place], rtol=1e-6
            )
        first, second = (f"{category}: words" for category in categories)
        difference = results.contrast(f"{second} - {first}")
        _close(difference.params, results.params[second] - results.params[first], 1e-10)


FAMILIES = {
    "probit": ("right", sm.families.Binomial(link=sm.families.links.Probit())),
    "cloglog": ("right", sm.families.Binomial(link=sm.families.links.CLogLog())),
    "gamma": ("weight", sm.families.Gamma(link=sm.families.links.Log())),
    "log mean": ("weight", sm.families.Gaussian(link=sm.families.links.Log())),
    "negative binomial": ("burst", sm.families.NegativeBinomial(alpha=0.7)),
    "logit": ("right", sm.families.Binomial()),
    "poisson": ("count", sm.families.Poisson()),
    "gaussian": ("score", sm.families.Gaussian()),
}


# Weights for every other family; where the outcome is the weight there are none.
@pytest.mark.parametrize(
    ("name", "weighted"),
    [
        pytest.param(name, weighted, marks=[pytest.mark.slow] if i % 2 and weighted else [])
        for i, name in enumerate(FAMILIES)
        for weighted in (False, True)
        if not (weighted and FAMILIES[name][0] == "weight")
    ],
)
def test_a_family_of_statsmodels_brings_its_link(log, name, weighted):
    outcome, family = FAMILIES[name]
    formula = f"{outcome} ~ words + C(model)"
    weights = log["weight"] if weighted else None
    model = smf.glm(formula, log, family=family, var_weights=weights)
    theirs = model.fit(tol=1e-14, tol_criterion="params", maxiter=100)
    ours = er.fit(formula, log, family=family, groups="passage", cov="CR0", weights=weights)
    _close(ours.params, theirs.params)
    scores, hessian = (np.asarray(part(np.asarray(theirs.params))) for part in (model.score_obs, model.hessian))
    totals = pd.DataFrame(scores).groupby(log["passage"].to_numpy()).sum().to_numpy()
    expected = np.linalg.inv(hessian) @ (totals.T @ totals) @ np.linalg.inv(hessian)
    _close(ours.cov_params(), expected, 1e-10)
    assert list(ours.params.index) == list(theirs.params.index)
    _close(ours.predict().iloc[:, 0], theirs.predict(), 1e-10)

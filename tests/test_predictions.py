"""Predictions and average slopes: statsmodels' delta method, numerical derivatives, and the t of each contrast."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy import stats

import evalreg as er
from evalreg.errors import DataError, NotAvailableError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

# Another fit of a GLM, and central differences of its design.
REFITTED = 1e-7
SAME = 1e-11


@pytest.fixture
def log(rng):
    """Answers of three models in 14 unequal passages, with a curved covariate, a boolean and weights."""
    sizes = rng.integers(2, 12, 14)
    passage = np.repeat(np.arange(14), sizes)
    n = passage.size
    words = rng.normal(size=n) + 0.5 * rng.normal(size=14)[passage]
    latent = 0.4 + 0.5 * words + rng.normal(size=14)[passage] + rng.normal(size=n)
    return pd.DataFrame(
        {
            "passage": passage,
            "model": rng.choice(["ada", "bob", "cyd"], n),
            "long": rng.random(n) < 0.4,
            "words": words,
            "score": latent,
            "right": (latent > 0).astype(float),
            "count": rng.poisson(np.exp(0.3 * words)).astype(float),
            "weight": rng.uniform(0.5, 2, n),
        }
    )


def _close(found, expected, rtol=REFITTED):
    np.testing.assert_allclose(np.asarray(found, dtype=float), np.asarray(expected, dtype=float), rtol=rtol, atol=1e-12)


def _clustered(model, log):
    return model.fit(cov_type="cluster", cov_kwds={"groups": log["passage"]})


GLMS = [("right", "binomial", sm.families.Binomial), ("count", "poisson", sm.families.Poisson)]


# --- average slopes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outcome", "family", "theirs"), GLMS)
def test_average_slopes_of_glms_are_the_marginal_effects_of_statsmodels(log, outcome, family, theirs):
    # It takes differences of columns of 0 and 1, which is the same for a factor of two levels.
    formula = "words + long"
    discrete = {"binomial": smf.logit, "poisson": smf.poisson}[family]
    fit = discrete(f"{outcome} ~ {formula}", log).fit(
        disp=False, cov_type="cluster", cov_kwds={"groups": log["passage"]}, tol=1e-14
    )
    expected = fit.get_margeff(dummy=True)
    ours = er.fit(f"{outcome} ~ {formula}", log, groups="passage", family=family, cov="CR1", ssc="statsmodels")
    slopes = ours.avg_slopes().params[["long[True - False]", "words"]]
    _close(slopes, expected.margeff)
    _close(ours.avg_slopes().bse[slopes.index], expected.margeff_se)
    by_name = ours.avg_slopes("words")
    assert list(by_name.params.index) == ["words"]
    # The same from the statsmodels fit.
    _close(er.infer(er.from_statsmodels(fit), groups="passage", cov="CR1").avg_slopes().bse, ours.avg_slopes().bse)


FORMULAS = [
    ("score", "gaussian", "words * C(model) + np.exp(words / 3) + long"),
    ("right", "binomial", "words * C(model) + I(words**2) + long"),
    ("count", "poisson", "cr(words, df=3, constraints='center') + C(model, Treatment('bob'))"),
]


# Weights of GLMs enter as in least squares.
@pytest.mark.parametrize(
    ("outcome", "family", "right", "weights"), [*((*formula, None) for formula in FORMULAS), (*FORMULAS[0], "weight")]
)
def test_average_slopes_are_those_of_numbers_put_in_and_averaged(log, outcome, family, right, weights):
    results = er.fit(f"{outcome} ~ {right}", log, family=family, groups="passage", weights=weights)
    share = np.ones(len(log)) if weights is None else log["weight"].to_numpy()
    share = share / share.sum()
    model = results.statsmodels.model

    designs = []  # in the order in which they are asked for, alike every time

    def averages(params):
        made = iter(designs[:])

        def mean(frame):
            design = next(made, None)
            if design is None:
                designs.append(design := _design(results, frame))
            return share @ np.asarray(model.predict(params, design))

        h = 1e-3
        found = {
            "words": (mean(log.assign(words=log["words"] + h)) - mean(log.assign(words=log["words"] - h))) / (2 * h)
        }
        first = mean(log.assign(model="ada"))
        found |= {f"model[{name} - ada]": mean(log.assign(model=name)) - first for name in ("bob", "cyd")}
        if "long" in right:
            found["long[True - False]"] = mean(log.assign(long=True)) - mean(log.assign(long=False))
        return found

    params = results.params.to_numpy()
    expected = averages(params)
    slopes = results.avg_slopes()
    assert set(slopes.params.index) == set(expected)
    _close(slopes.params[list(expected)], list(expected.values()), 1e-4)
    # The delta method by numerical derivatives, from the covariance that is shown.
    steps = np.diag(np.full(params.size, 1e-5))
    J = np.array(
        [
            [
                (up - down) / 2e-5
                for up, down in zip(averages(params + e).values(), averages(params - e).values(), strict=True)
            ]
            for e in steps
        ]
    ).T
    _close(slopes.bse[list(expected)] ** 2, np.diag(J @ results.cov_params().to_numpy() @ J.T), 1e-3)
    _close(slopes.dof[list(expected)], results.cov.dof(J), 1e-2)


def _design(results, frame):
    import patsy

    data = results.statsmodels.model.data
    info = getattr(data, "design_info", None) or data.model_spec
    return np.asarray(patsy.dmatrix(info, frame))


def test_slopes_of_a_straight_line_are_its_coefficients_with_their_dof(log):
    results = er.fit("score ~ words + long", log, groups="passage")
    slopes = results.avg_slopes()
    for slope, name in (("words", "words"), ("long[True - False]", "long[T.True]")):
        for found, expected in ((slopes.params, results.params), (slopes.bse, results.bse), (slopes.dof, results.dof)):
            _close(found[slope], expected[name], 1e-9)
        _close(slopes.conf_int().loc[slope], results.conf_int().loc[name], 1e-8)


# --- predictions ------------------------------------------------------------------------------------------------------


def test_predictions_have_the_t_of_their_own_row(log):
    results = er.fit("score ~ words + long", log, groups="passage")
    new = pd.DataFrame({"words": [0.0, 6.0, -1.0], "long": [True, False, True]}, index=["x", "y", "z"])
    table = results.predict(new)
    assert list(table.index) == ["x", "y", "z"]
    C = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 6.0], [1.0, 1.0, -1.0]])
    contrast = results.contrast(C)
    _close(table["estimate"], contrast.params, SAME)
    _close(table["se"], contrast.bse, SAME)
    _close(table["dof"], contrast.dof, SAME)
    _close(table[["lower", "upper"]], contrast.conf_int(), SAME)
    assert table["dof"].nunique() == 3
    _close(results.predict()["estimate"], results.statsmodels.fittedvalues, SAME)
    _close(results.predict(log), results.predict(), 1e-9)


def test_get_prediction_of_statsmodels_has_the_same_intervals(log):
    results = er.fit("score ~ words", log, groups="passage")
    new = pd.DataFrame({"words": [0.0, 1.0, 5.0]})
    for given in (new, None):
        ours, theirs = results.predict(given), results.statsmodels.get_prediction(given).summary_frame()
        _close(theirs["mean_se"], ours["se"], SAME)
        _close(theirs[["mean_ci_lower", "mean_ci_upper"]], ours[["lower", "upper"]], 1e-9)
    frame = results.statsmodels.get_prediction(np.array([[1.0, 5.0]]), transform=False).summary_frame(alpha=0.1)
    _close(
        frame[["mean_ci_lower", "mean_ci_upper"]], results.predict(new, alpha=0.1).iloc[[2]][["lower", "upper"]], 1e-9
    )
    # The user's own fit keeps its reference.
    fitted = smf.ols("score ~ words", log).fit()
    before = fitted.get_prediction(new).summary_frame()
    er.infer(er.from_statsmodels(fitted), groups="passage").statsmodels.get_prediction(new)
    pd.testing.assert_frame_equal(fitted.get_prediction(new).summary_frame(), before)


def test_what_statsmodels_would_compute_with_other_degrees_of_freedom_is_refused(log):
    glm = er.fit("right ~ words", log, groups="passage", family="binomial")
    with pytest.raises(NotAvailableError, match=r"`get_prediction` of statsmodels.*`results\.predict\(data\)`"):
        glm.statsmodels.get_prediction()
    logit = er.infer(er.from_statsmodels(smf.logit("right ~ words", log).fit(disp=False)), groups="passage")
    with pytest.raises(NotAvailableError, match=r"`get_margeff` of statsmodels.*`results\.avg_slopes\(\)`"):
        logit.statsmodels.get_margeff()


@pytest.mark.parametrize(("outcome", "family", "theirs"), GLMS)
def test_predictions_of_glms_are_those_of_statsmodels_with_t_on_the_link(log, outcome, family, theirs):
    formula = f"{outcome} ~ words + C(model)"
    results = er.fit(formula, log, groups="passage", family=family, cov="CR1")
    fit = _clustered(smf.glm(formula, log, family=theirs()), log)
    expected = fit.get_prediction(log.iloc[:9]).summary_frame()
    table = results.predict(log.iloc[:9])
    _close(table["estimate"], expected["mean"])
    # n - 1 over n - k in the factor of a GLM is statsmodels' own.
    _close(table["se"], expected["mean_se"] * results.bse["words"] / fit.bse["words"])
    link = theirs().link
    eta = link(table["estimate"])
    half = stats.t.ppf(0.975, 13) * table["se"] / link.inverse_deriv(eta)
    _close(table["lower"], link.inverse(eta - half))
    _close(table["upper"], link.inverse(eta + half))


def test_crossed_predictions_are_intervals_of_the_crossed_contrast(log, rng):
    judged = log.assign(judge=rng.integers(0, 5, len(log)))
    results = er.fit("score ~ words", judged, groups="passage + judge")
    table = results.predict({"words": [1.0, 3.0]})
    contrast = results.contrast([[1.0, 1.0], [1.0, 3.0]])
    _close(table[["lower", "upper"]], contrast.conf_int(), 1e-9)


@pytest.mark.parametrize("kind", ["object", "category"])
def test_labels_are_predicted_by_value_and_rows_without_one_are_not(log, kind):
    frame = log.assign(kind=pd.Series(np.resize(["b", "a", "c"], len(log)), log.index, dtype=kind))
    results = er.fit("score ~ words + kind", frame, groups="passage")
    new = pd.DataFrame({"words": [2, 2, None], "kind": pd.Categorical(["c", None, "a"], categories=["c", "a"])})
    _close(results.predict(new)["estimate"], [results.params @ [1, 0, 1, 2], np.nan, np.nan], SAME)
    with pytest.raises(DataError) as caught:
        results.predict(new.assign(words="100"))
    assert caught.value.column == "words"
    averages = results.avg_predictions(variables={"words": [2, 2.0000001]})
    assert list(averages.params.index) == ["2", "2.0000001"]

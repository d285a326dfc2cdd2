"""Average comparisons and predictions: marginaleffects, values put in by hand, regressions by hand."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import evalreg as er

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")

SAME = 1e-9


@pytest.fixture
def log(rng):
    """Answers of three models in 14 unequal passages; whole numbers, as marginaleffects asks for."""
    passage = np.repeat(np.arange(14), rng.integers(2, 12, 14))
    n = passage.size
    words = rng.integers(1, 40, 14)[passage] + rng.integers(0, 5, n)
    latent = 0.05 * words + rng.normal(size=14)[passage] + rng.normal(size=n)
    return pd.DataFrame(
        {
            "passage": pd.Categorical(passage.astype(str)),
            "model": pd.Categorical(rng.choice(["ada", "bob", "cyd"], n)),
            "subject": pd.Categorical(rng.choice(["law", "art"], 14)[passage]),
            "words": words,
            "level": rng.integers(1, 4, n),
            "score": np.round(10 * latent).astype(int),
            "right": (latent > 1).astype(int),
            "weight": rng.uniform(0.5, 2, n),
        }
    )


def _column(table, name):
    return np.asarray(getattr(table, "data", table)[name])


def _theirs(function, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = function(*args, **options)
    return _column(found, "estimate"), _column(found, "std_error")


def _agree(ours, theirs, rtol=1e-5):
    np.testing.assert_allclose(ours.params, theirs[0], rtol=rtol)
    np.testing.assert_allclose(ours.bse, theirs[1], rtol=rtol)


@pytest.fixture
def marginaleffects(monkeypatch):
    """The package with derivatives by differences: those of JAX are compiled anew at every call."""
    monkeypatch.setenv("MARGINALEFFECTS_AUTODIFF", "0")
    monkeypatch.setitem(sys.modules, "jax", None)
    return pytest.importorskip("marginaleffects")


@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_numbers_are_compared_as_by_marginaleffects(log, family, marginaleffects):
    outcome, theirs = ("score", sm.families.Gaussian()) if family == "gaussian" else ("right", sm.families.Binomial())
    fitted = smf.glm(f"{outcome} ~ words * C(model) + I(words**2)", log, family=theirs).fit()
    ours = er.infer(er.from_statsmodels(fitted), groups="passage")
    # What a contrast puts in does not depend on the family.
    contrast, asked = (5, 5) if family == "gaussian" else ((20, 5), [5, 20])
    found = ours.avg_comparisons({"words": contrast})
    _agree(found, _theirs(marginaleffects.avg_comparisons, ours.statsmodels, variables={"words": asked}))
    if family == "binomial":
        theirs = _theirs(marginaleffects.avg_comparisons, ours.statsmodels, variables="words")
        _agree(ours.avg_comparisons("words"), theirs)
        _agree(ours.avg_predictions(), _theirs(marginaleffects.avg_predictions, ours.statsmodels))
    _agree(ours.avg_predictions("model"), _theirs(marginaleffects.avg_predictions, ours.statsmodels, by="model"))


@pytest.mark.parametrize("weights", [None, "weight"])
def test_comparisons_are_values_put_in_and_averaged(log, weights):
    results = er.fit("right ~ words * C(model) + C(level)", log, family="binomial", groups="passage", weights=weights)
    share = np.ones(len(log)) if weights is None else log["weight"].to_numpy()
    fitted, designs = results.statsmodels, {}

    def averages(params, by=None, **values):
        # Derivatives ask for the same rows many times.
        asked = repr({name: list(value) if np.ndim(value) else value for name, value in values.items()})
        if asked not in designs:
            designs[asked] = _design(fitted.model, log.assign(**values))
        predicted = fitted.model.predict(params, designs[asked])
        if by is None:
            return np.average(predicted, weights=share)
        return np.array(
            [np.average(predicted[log[by] == one], weights=share[log[by] == one]) for one in ("art", "law")]
        )

    def against(found, function):
        np.testing.assert_allclose(found.params, function(results.params.to_numpy()), rtol=SAME)
        steps = 1e-5 * np.eye(results.params.size)
        b = results.params.to_numpy()
        J = np.array([(function(b + e) - function(b - e)) / 2e-5 for e in steps]).T
        expected = np.sqrt(np.diag(J @ results.cov_params().to_numpy() @ J.T))
        np.testing.assert_allclose(found.bse, expected, rtol=1e-4)
        np.testing.assert_allclose(found.dof, results.cov.dof(J), rtol=1e-3)

    def models(b, *pairs):
        at = {name: averages(b, model=pd.Categorical([name] * len(log))) for name in ("ada", "bob", "cyd")}
        return np.array([at[high] - at[low] for high, low in pairs])

    found = results.avg_comparisons("model")
    assert list(found.params.index) == ["model[bob - ada]", "model[cyd - ada]"]
    against(found, lambda b: models(b, ("bob", "ada"), ("cyd", "ada")))
    against(results.avg_comparisons({"model": ("ada", "cyd")}), lambda b: models(b, ("ada", "cyd")))
    # Numbers that stand in C(...) are labels.
    levels = results.avg_comparisons("level")
    assert list(levels.params.index) == ["level[2 - 1]", "level[3 - 1]"]
    against(levels, lambda b: np.array([averages(b, level=one) - averages(b, level=1) for one in (2, 3)]))
    np.testing.assert_allclose(results.avg_slopes("level").params, levels.params, rtol=SAME)
    by = results.avg_comparisons({"words": 2.0}, by="subject")
    assert list(by.params.index) == ["art: words[+2]", "law: words[+2]"]
    up, down = {"words": log["words"] + 1}, {"words": log["words"] - 1}
    against(by, lambda b: averages(b, by="subject", **up) - averages(b, by="subject", **down))
    put = results.avg_predictions(variables={"words": [5, 10], "level": [2]}, by="subject")
    assert list(put.params.index) == ["art:5:2", "law:5:2", "art:10:2", "law:10:2"]
    against(put, lambda b: np.concatenate([averages(b, by="subject", words=w, level=2) for w in (5, 10)]))


def _design(model, frame):
    import patsy

    info = getattr(model.data, "design_info", None) or model.data.model_spec
    return np.asarray(patsy.dmatrix(info, frame))


def test_of_a_straight_line_a_comparison_is_its_coefficient_with_its_degrees_of_freedom(log):
    results = er.fit("score ~ words + model", log, groups="passage")
    found = results.avg_comparisons()
    for mine, theirs in (("words[+1]", "words"), ("model[cyd - ada]", "model[T.cyd]")):
        for name in ("params", "bse", "dof", "pvalues"):
            np.testing.assert_allclose(getattr(found, name)[mine], getattr(results, name)[theirs], rtol=1e-7)
    # The levels of a saturated model are means, with the covariance of `er.mean` by CR2.
    plain = er.fit("score ~ model", log, groups="passage").avg_predictions(variables="model")
    means = er.mean(log, "score", by="model", groups="passage")
    np.testing.assert_allclose(plain.bse, means.bse, rtol=SAME)
    np.testing.assert_allclose(plain.dof, means.dof, rtol=SAME)
    assert "Model: Average comparisons of OLS" in str(found.summary(details=True))
    assert found.with_cov(cov="CR1").bse.iloc[0] > 0


def test_intervals_of_probabilities_stay_between_0_and_1_and_are_those_of_predict(log):
    results = er.fit("right ~ words", log, family="binomial", groups="passage")
    found = results.avg_predictions(variables={"words": [-20, 20, 70]})
    expected = results.predict({"words": [-20, 20, 70]})
    np.testing.assert_allclose(found.conf_int().to_numpy(), expected[["lower", "upper"]].to_numpy(), rtol=1e-6)
    np.testing.assert_allclose(found.bse, expected["se"], rtol=SAME)
    assert np.isfinite(results.avg_predictions(variables={"words": [20, 300]}).conf_int().iloc[0]).all()

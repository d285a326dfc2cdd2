"""Numbers that are right whatever the units, offsets and powers of covariates, or refused by name."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from engines.lazy import in_engines

import evalreg as er
from evalreg.errors import (
    ArgumentError,
    CollinearityError,
    ConvergenceError,
    FormulaError,
    NotAvailableError,
)
from evalreg.numerics.basis import LARGEST_CONDITION, basis_of, exact_product

# What double precision may lose against exact arithmetic.
EXACT = 1e-9
quiet = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")
pytestmark = quiet

COVARIATES = {
    "epoch milliseconds": "score ~ ms",
    "epoch milliseconds by model": "score ~ 0 + C(model) + ms",
    "epoch milliseconds and a model's own drift": "score ~ C(model) * ms",
    "a quartic in tokens": "score ~ tokens + I(tokens**2) + I(tokens**3) + I(tokens**4)",
    "a quartic far from zero": "score ~ near + I(near**2) + I(near**3) + I(near**4)",
    "units of 1e-9 and 1e9": "score ~ I(tokens * 1e9) + I(near * 1e-9)",
}


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Scores with times in milliseconds, whole tokens, and clusters."""
    rng = np.random.default_rng(3)
    n = 72
    return pd.DataFrame(
        {
            "score": rng.integers(0, 9, n) / 8,
            "right": rng.integers(0, 2, n).astype(float),
            "count": rng.poisson(2.0, n).astype(float),
            "weight": rng.integers(1, 6, n) / 4,
            "passage": [f"p{i}" for i in rng.integers(0, 9, n)],
            "model": rng.choice(["ada", "bob"], n),
            # The spread of an afternoon.
            "ms": 1.7e12 + rng.integers(0, 10_000_000, n),
            "tokens": rng.integers(100, 5000, n).astype(float),
            "near": rng.integers(1000, 1100, n).astype(float),
        }
    )


def solved(A: list[list[Fraction]]) -> list[list[Fraction]]:
    """Right sides of a system of equations (augmented), solved exactly."""
    k = len(A)
    A = [row[:] for row in A]
    for i in range(k):
        pivot = next(j for j in range(i, k) if A[j][i] != 0)
        A[i], A[pivot] = A[pivot], A[i]
        A[i] = [value / A[i][i] for value in A[i]]
        for j in range(k):
            if j != i and A[j][i] != 0:
                factor = A[j][i]
                A[j] = [u - factor * v for u, v in zip(A[j], A[i], strict=True)]
    return [row[k:] for row in A]


def exact_fit(X: np.ndarray, y: np.ndarray, w: np.ndarray, groups: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and CR0 standard errors of least squares in rational arithmetic."""
    rows = [[Fraction(float(v)) for v in row] for row in X]
    ys, ws = [Fraction(float(v)) for v in y], [Fraction(float(v)) for v in w]
    k = X.shape[1]
    gram = [[sum(q * r[i] * r[j] for q, r in zip(ws, rows, strict=True)) for j in range(k)] for i in range(k)]
    right = [sum(q * r[i] * v for q, r, v in zip(ws, rows, ys, strict=True)) for i in range(k)]
    eye = [[Fraction(int(i == j)) for j in range(k)] for i in range(k)]
    solution = solved([[*gram[i], right[i], *eye[i]] for i in range(k)])
    beta, inverse = [row[0] for row in solution], [row[1:] for row in solution]
    totals: dict[str, list[Fraction]] = {}
    for q, row, v, g in zip(ws, rows, ys, groups, strict=True):
        error = q * (v - sum(b * x for b, x in zip(beta, row, strict=True)))
        total = totals.setdefault(g, [Fraction(0)] * k)
        totals[g] = [t + error * x for t, x in zip(total, row, strict=True)]
    variance = [
        sum(sum(inverse[j][i] * total[i] for i in range(k)) ** 2 for total in totals.values()) for j in range(k)
    ]
    return np.array([float(b) for b in beta]), np.sqrt([float(v) for v in variance])


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        pytest.param(name, weights, marks=[pytest.mark.slow] if weights and i % 2 == 0 else [])
        for i, name in enumerate(COVARIATES)
        for weights in (None, "weight")
    ],
)
def test_least_squares_agree_with_rational_arithmetic(log, name, weights):
    results = er.fit(COVARIATES[name], log, groups="passage", weights=weights, cov="CR0")
    X = smf.ols(COVARIATES[name], log).exog
    w = np.ones(len(log)) if weights is None else log[weights].to_numpy()
    params, bse = exact_fit(X, log["score"].to_numpy(), w, log["passage"].to_numpy())
    np.testing.assert_allclose(results.params, params, rtol=EXACT)
    np.testing.assert_allclose(results.bse, bse, rtol=EXACT)
    shown = results.statsmodels
    np.testing.assert_allclose(shown.params, params, rtol=EXACT)
    np.testing.assert_allclose(shown.bse, bse, rtol=EXACT)


@pytest.mark.parametrize("weights", [None, "weight"])
def test_statsmodels_shows_the_right_residuals_and_scale(log, weights):
    """As statsmodels gives them for times that count from the first, where it has all digits."""
    shown = er.fit("score ~ ms", log, weights=weights).statsmodels
    centred = log.assign(ms=log["ms"] - log["ms"].min())
    if weights is None:
        expected = smf.ols("score ~ ms", centred).fit()
    else:
        expected = smf.wls("score ~ ms", centred, weights=log[weights]).fit()
    for attribute in ("resid", "fittedvalues", "ssr", "scale", "rsquared", "df_resid", "df_model", "llf"):
        np.testing.assert_allclose(getattr(shown, attribute), getattr(expected, attribute), rtol=EXACT, atol=1e-12)
    np.testing.assert_allclose(shown.model.pinv_wexog[1], expected.model.pinv_wexog[1], rtol=EXACT, atol=1e-20)


@pytest.mark.parametrize("weights", [None, "weight"])
@pytest.mark.parametrize(("outcome", "family"), [("right", "binomial"), ("count", "poisson")])
def test_glms_of_times_are_those_of_times_from_the_first(log, outcome, family, weights):
    results = er.fit(f"{outcome} ~ ms", log, groups="passage", family=family, weights=weights)
    start = float(log["ms"].min())
    kind = {"binomial": sm.families.Binomial(), "poisson": sm.families.Poisson()}[family]
    # Seconds from the first: nothing here is out of scale.
    seconds = log.assign(ms=(log["ms"] - start) / 1000)
    given = None if weights is None else log[weights]
    fitted = smf.glm(f"{outcome} ~ ms", seconds, family=kind, var_weights=given).fit(tol=1e-14)
    expected = er.infer(er.from_statsmodels(fitted), groups=log["passage"])
    slope = fitted.params["ms"] / 1000
    np.testing.assert_allclose(results.params, [fitted.params.iloc[0] - slope * start, slope], rtol=EXACT)
    np.testing.assert_allclose(results.bse["ms"] * 1000, expected.bse["ms"], rtol=EXACT)
    np.testing.assert_allclose(results.dof["ms"], expected.dof["ms"], rtol=EXACT)
    shown = results.statsmodels
    np.testing.assert_allclose(shown.params, results.params, rtol=1e-14)
    np.testing.assert_allclose(shown.fittedvalues, fitted.fittedvalues, rtol=EXACT)
    np.testing.assert_allclose(shown.llf, fitted.llf, rtol=EXACT)
    np.testing.assert_allclose(shown.deviance, fitted.deviance, rtol=EXACT)
    assert (shown.df_resid, shown.df_model) == (fitted.df_resid, fitted.df_model)


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
@pytest.mark.parametrize("unit", [1e-300, 1e-12, 1e-6, 1e6, 1e12, 1e300])
def test_what_weights_add_up_to_changes_nothing(log, family, unit):
    outcome = {"gaussian": "score", "binomial": "right", "poisson": "count"}[family]
    expected, found = (
        er.fit(f"{outcome} ~ near", log.assign(weight=log["weight"] * scale), weights="weight", family=family)
        for scale in (1.0, unit)
    )
    np.testing.assert_allclose(found.params, expected.params, rtol=EXACT)
    np.testing.assert_allclose(found.bse, expected.bse, rtol=EXACT)


@pytest.mark.parametrize(
    ("formula", "named"),
    [
        # What a square of milliseconds adds is below the rounding of the square.
        ("score ~ ms + I(ms**2)", r"I\(ms \*\* 2\)"),
        ("score ~ tokens + I(2 * tokens)", r"I\(2 \* tokens\)"),
        ("score ~ tokens + I(tokens + 1e-9 * near)", r"I\(tokens"),
        ("score ~ C(model) + I(1.0 * (model == 'ada'))", "I"),
        ("score ~ I(0 * tokens)", "tokens"),
        ("score ~ I(3.0 + 1e-16 * tokens)", "3"),
    ],
)
@pytest.mark.parametrize("family", ["gaussian", "binomial"])
def test_covariates_that_hardly_differ_are_named_with_their_condition_number(log, formula, named, family):
    brief = log.assign(ms=1.7e12 + log["ms"] % 5000)
    with pytest.raises(CollinearityError, match=rf'"[^"]*{named}.*condition number') as caught:
        er.fit(formula, brief, family=family)
    assert caught.value.column


def test_the_advice_of_the_error_leads_to_a_fit(log):
    log = log.assign(ms=1.7e12 + log["ms"] % 5000)
    with pytest.raises(CollinearityError, match="subtract a typical value"):
        er.fit("score ~ ms + I(ms**2)", log)
    start = float(log["ms"].min())
    results = er.fit(f"score ~ ms + I((ms - {start:.0f})**2)", log, cov="CR0", groups="passage")
    X = np.column_stack([np.ones(len(log)), log["ms"], (log["ms"] - start) ** 2])
    params, bse = exact_fit(X, log["score"].to_numpy(), np.ones(len(log)), log["passage"].to_numpy())
    np.testing.assert_allclose(results.params, params, rtol=EXACT)
    np.testing.assert_allclose(results.bse, bse, rtol=EXACT)


def test_conditions_up_to_the_largest_allowed_are_right_to_nine_digits(rng):
    n = 40
    x, noise, y = rng.integers(0, 1000, n), rng.integers(-500, 500, n), rng.integers(0, 2, n).astype(float)
    for power in range(2, 10):
        X = np.column_stack([np.ones(n), x, x + noise * 2.0 ** round(-3.2 * power)])
        basis = basis_of(X, ["one", "x", "near"])
        assert basis.condition < LARGEST_CONDITION
        results = er.infer(er.from_statsmodels(sm.OLS(y, X).fit()), groups=np.arange(n) // 4, cov="CR0")
        params, bse = exact_fit(X, y, np.ones(n), np.arange(n) // 4)
        np.testing.assert_allclose(results.params, params, rtol=EXACT)
        np.testing.assert_allclose(results.bse, bse, rtol=EXACT)


@pytest.mark.filterwarnings("ignore:The design matrix is rank-deficient")
def test_a_fit_of_statsmodels_that_is_not_least_squares_is_refused_or_put_right(log):
    """Its pseudo-inverse drops what milliseconds tell beside the constant."""
    fitted = smf.ols("score ~ ms", log.assign(ms=1.7e12 + (log["ms"] - 1.7e12) // 10_000)).fit()
    with pytest.raises(NotAvailableError, match=r"not those of least squares.*evalreg\.fit"):
        er.infer(er.from_statsmodels(fitted))
    scaled = log.assign(tokens=log["tokens"] * 1e9)
    expected = er.fit("score ~ tokens + near", scaled, groups="passage")
    found = er.infer(er.from_statsmodels(smf.ols("score ~ tokens + near", scaled).fit()), groups=log["passage"])
    np.testing.assert_allclose(found.params, expected.params, rtol=EXACT)
    np.testing.assert_allclose(found.bse, expected.bse, rtol=EXACT)


def test_orthonormal_columns_are_combinations_of_the_design(rng):
    X = np.column_stack([np.ones(50), 1e9 + rng.normal(size=50), 1e-9 * rng.normal(size=50)])
    w = rng.uniform(0.1, 3, 50)
    basis = basis_of(X, ["a", "b", "c"], w)
    np.testing.assert_allclose(basis.rows.T @ basis.rows, np.eye(3), atol=1e-14)
    np.testing.assert_allclose(np.sqrt(w)[:, None] * exact_product(X, basis.map), basis.rows, atol=1e-16 * 1e9 * 10)


def test_products_hold_twice_the_digits(rng):
    A = np.column_stack([1e8 + rng.normal(size=3000), rng.normal(size=3000)])
    B = np.array([[1.0, 3.0], [1e8, -1e-8]])
    expected = [
        [float(sum(Fraction(a) * Fraction(b) for a, b in zip(row, col, strict=True))) for col in B.T] for row in A
    ]
    np.testing.assert_array_equal(exact_product(A, B), expected)


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_a_level_without_doubt_is_separation_in_any_unit(log, family):
    # Only zeros where the covariate is large, in whatever unit.
    outcome = np.where(log["near"] > 1090, 0.0, log["right"])
    for unit in (1e-9, 1.0, 1e9):
        frame = log.assign(right=outcome, late=(log["near"] > 1090) * unit)
        with pytest.raises(ConvergenceError, match="separate the outcomes"):
            er.fit("right ~ late", frame, family=family)


# What is leverage 1, and what is not


def test_a_cluster_with_nearly_all_of_a_level_has_a_variance_of_its_closed_form():
    """Two clusters of a level, one with 1e8 times the weight: leverage 1 - 1e-8, and CR2 by its definition."""
    heavy = 1e8
    frame = pd.DataFrame(
        {
            "score": [0.0, 1.0, 0.2, 0.9, 0.4, 0.7],
            "level": ["a", "a", "a", "a", "b", "b"],
            "g": ["p", "q", "r", "s", "p", "q"],
            "w": [1.0, 1.0, 1.0, 1.0, heavy, 1.0],
        }
    )
    results = er.fit("score ~ 0 + level", frame, groups="g", weights="w")
    share = np.array([heavy, 1.0]) / (heavy + 1)
    values = np.array([0.4, 0.7])
    mean = share @ values
    # The leverage of a cluster is its share of the level: 1 - h is the other's share.
    expected = np.sum((share * (values - mean)) ** 2 / share[::-1])
    assert results.bse["level[b]"] == pytest.approx(np.sqrt(expected), rel=1e-7)


@pytest.mark.parametrize("n", [3, 300, 30_000])
def test_rounding_in_sums_of_many_rows_is_leverage_one_all_the_same(n):
    rng = np.random.default_rng(n)
    level = np.repeat(["a", "b"], n)
    frame = pd.DataFrame(
        {
            "score": rng.normal(size=2 * n),
            "x": rng.normal(size=2 * n) * 1e7,
            "level": level,
            "w": 10 ** rng.uniform(-6, 6, 2 * n),
            "g": np.where(level == "b", 0, np.arange(2 * n) % 3),
        }
    )
    for cov in ("CR0", "CR1", "CR2", "CR3", "jackknife"):
        results = er.fit("score ~ level + x", frame, groups="g", weights="w", cov=cov)
        assert np.isnan(results.bse["level[T.b]"])
        assert results.bse["x"] > 0


# What one cluster, or one row, alone tells


@pytest.mark.parametrize(("groups", "text"), [("passage", "single cluster"), (None, "single row")])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_a_level_of_one_cluster_or_row_has_no_error_bar_and_others_have(log, groups, text, family):
    only = np.arange(len(log)) == 5 if groups is None else log["passage"] == "p4"
    frame = log.assign(level=np.where(only, "solo", log["model"]))
    covs = ["naive"] if groups is None else ["CR0", "CR1", "CR2", "CR3"]
    for cov in covs:
        results = er.fit("count ~ level", frame, groups=groups, cov=cov, family=family)
        assert results.bse.isna().to_dict() == {"Intercept": False, "level[T.bob]": False, "level[T.solo]": True}
        assert any(text in note for _, note in results.notes)
        # As reference level it takes all differences from it along, but not those of the others.
        first = er.fit("count ~ C(level, Treatment('solo'))", frame, groups=groups, cov=cov, family=family)
        assert first.bse.isna().all()
        ada, bob = first.params.index[1:]
        difference = first.contrast({bob: 1, ada: -1})
        assert difference.bse.iloc[0] == pytest.approx(results.bse["level[T.bob]"], rel=1e-8)
        assert difference.dof.iloc[0] == pytest.approx(results.dof["level[T.bob]"], rel=1e-8)


def test_fits_of_statsmodels_with_a_level_of_one_cluster_have_no_error_bar(log):
    frame = log.assign(level=np.where(log["passage"] == "p4", "solo", log["model"]))
    for fitted in (smf.ols("score ~ level", frame).fit(), smf.logit("right ~ level", frame).fit(disp=False)):
        for cov in ("CR0", "CR1", "CR2", "CR3"):
            results = er.infer(er.from_statsmodels(fitted), groups="passage", cov=cov)
            assert np.isnan(results.bse["level[T.solo]"])
            assert results.bse["level[T.bob]"] > 0


def test_a_level_that_one_judge_alone_saw_has_no_error_bar_across_judges(log, rng):
    """Means and regressions alike: the passages cannot tell how other judges would have scored that level."""
    frame = log.assign(judge=rng.choice(["j1", "j2", "j3", "j4", "j5"], len(log)))
    frame.loc[frame["model"] == "bob", "judge"] = "j1"
    means = er.mean(frame, by="model", groups="passage + judge")
    dummies = er.fit("score ~ 0 + model", frame, groups="passage + judge")
    assert means.bse.isna().tolist() == dummies.bse.isna().tolist() == [False, True]


def test_dominance_counts_weight_where_rows_have_weights(log):
    heavy = log.assign(weight=np.where(log["passage"] == "p4", 50.0, 1.0))
    for make in (
        lambda: er.fit("score ~ near", heavy, groups="passage", weights="weight"),
        lambda: er.fit("right ~ near", heavy, groups="passage", weights="weight", family="binomial"),
        lambda: er.infer(
            er.from_statsmodels(smf.wls("score ~ near", heavy, weights=heavy["weight"]).fit()), groups="passage"
        ),
        lambda: er.mean(heavy, groups="passage", weights="weight"),
    ):
        results = make()
        assert any('"p4" holds 91%' in text and "of the weight" in text for _, text in results.notes), results.notes
    even = er.fit("score ~ near", heavy, groups="passage")
    assert not any("holds" in text for _, text in even.notes)


@pytest.mark.parametrize("power", [4, 6, 8, 9])
def test_means_with_nearly_all_weight_in_one_cluster_have_a_variance_and_with_all_have_none(power):
    heavy = 10.0**power
    frame = pd.DataFrame(
        {
            "score": [0.1, 0.9, 0.3, 0.8, 0.4, 0.7],
            "model": ["a", "a", "a", "a", "b", "b"],
            "g": ["p", "q", "r", "s", "p", "q"],
            "w": [1.0, 1.0, 1.0, 1.0, heavy, 1.0],
        }
    )
    found = er.mean(frame, by="model", groups="g", weights="w")
    share = np.array([heavy, 1.0]) / (heavy + 1)
    values = np.array([0.4, 0.7])
    expected = np.sum((share * (values - share @ values)) ** 2 / share[::-1])
    assert found.bse["b"] == pytest.approx(np.sqrt(expected), rel=1e-5)
    alone = er.mean(frame.assign(g=["p", "q", "r", "s", "p", "p"]), by="model", groups="g", weights="w")
    assert alone.bse.isna().to_dict() == {"a": False, "b": True}


@pytest.mark.parametrize("cov", ["CR0", "CR1", "CR2", "CR3", "jackknife"])
def test_sums_of_many_weights_in_one_cluster_are_all_of_a_mean(cov):
    rng = np.random.default_rng(7)
    n = 20_000
    frame = pd.DataFrame(
        {
            "score": rng.uniform(size=2 * n),
            "model": np.repeat(["a", "b"], n),
            "w": 10 ** rng.uniform(-6, 6, 2 * n),
            "g": np.where(np.arange(2 * n) < n, np.arange(2 * n) % 5, 0),
        }
    ).sample(frac=1, random_state=1)
    assert er.mean(frame, by="model", groups="g", weights="w", cov=cov).bse.isna().to_dict() == {"a": False, "b": True}


# Covariates of the two sides of a comparison


@pytest.fixture(scope="module")
def duels() -> pd.DataFrame:
    """Verdicts on pairs of answers whose lengths lie far from zero."""
    rng = np.random.default_rng(8)
    n, names = 400, np.array(["ada", "bob", "cyd"])
    left = rng.integers(0, 3, n)
    right = (left + rng.integers(1, 3, n)) % 3
    longer = rng.integers(900, 1100, n).astype(float)
    chance = 1 / (1 + np.exp(-(0.4 * (left - right) + 0.01 * (longer - 1000) + 0.2)))
    return pd.DataFrame(
        {
            "left": names[left],
            "right": names[right],
            "longer": longer,
            "score": np.where(rng.random(n) < 0.1, 0.5, (rng.random(n) < chance).astype(float)),
            "prompt": rng.integers(0, 40, n),
        }
    )


ROLES = {"left": "left", "right": "right", "score": "score"}


def test_ratings_beside_powers_far_from_zero_are_those_of_a_logistic_regression_on_centred_powers(duels):
    powers = "1 + longer + I(longer**2) + I(longer**3)"
    board = er.bradley_terry(duels, formula=powers, groups="prompt", reference="ada", **ROLES)
    d = (duels["longer"] - 1000) / 100
    sides = {name: (duels["left"] == name) * 1.0 - (duels["right"] == name) for name in ("bob", "cyd")}
    X = pd.DataFrame({**sides, "one": 1.0, "d": d, "d2": d**2, "d3": d**3})
    fitted = sm.GLM(duels["score"], X, family=sm.families.Binomial()).fit(tol=1e-14)
    expected = er.infer(er.from_statsmodels(fitted), groups=duels["prompt"])
    found = board.params[["bob", "cyd", "I(longer ** 3)"]].to_numpy() * [1, 1, 1e6]
    np.testing.assert_allclose(found, fitted.params[["bob", "cyd", "d3"]], rtol=EXACT)
    errors = board.bse[["bob", "cyd", "I(longer ** 3)"]].to_numpy() * [1, 1, 1e6]
    np.testing.assert_allclose(errors, expected.bse[["bob", "cyd", "d3"]], rtol=EXACT)


@pytest.mark.parametrize("estimator", [er.bradley_terry, er.controlled_win_rate])
def test_covariates_of_sides_that_hardly_differ_are_refused(duels, estimator):
    with pytest.raises(CollinearityError, match=r'"I\(longer \+ 1e-9 \* prompt\)".*condition number'):
        estimator(duels, formula="0 + longer + I(longer + 1e-9 * prompt)", groups="prompt", **ROLES)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e9])
@pytest.mark.parametrize("ties", ["half", "davidson"])
def test_verdicts_that_a_covariate_decides_are_refused_by_name(duels, ties, unit):
    always = duels.assign(score=1.0)
    with pytest.raises(ConvergenceError, match=r"the left side wins every comparison.*'position'"):
        er.bradley_terry(always, formula="1", ties=ties, **ROLES)
    decided = duels.assign(longer=(duels["longer"] - 999.5) * unit, score=(duels["longer"] < 999.5).astype(float))
    with pytest.raises(ConvergenceError, match="the side with the smaller 'longer' wins every comparison"):
        er.bradley_terry(decided, formula="0 + longer", ties=ties, **ROLES)
    if ties == "half":
        with pytest.raises(ConvergenceError, match="the left side wins every comparison"):
            er.controlled_win_rate(always, formula="1", **ROLES)
        # Decided by two covariates together, and by neither alone.
        both = decided.assign(half=decided["longer"] / 2 + duels["prompt"] * unit, rest=duels["prompt"] * unit)
        with pytest.raises(ConvergenceError, match="some combination of the covariates"):
            er.bradley_terry(both, formula="0 + half + rest", **ROLES)


def test_ties_alone_say_nothing_of_how_often_models_tie(duels):
    with pytest.raises(er.errors.ArgumentError, match=r'all 400 verdicts are ties.*ties="half"'):
        er.bradley_terry(duels.assign(score=0.5), ties="davidson", **ROLES)
    board = er.bradley_terry(duels.assign(score=0.5), ties="half", groups="prompt", **ROLES)
    np.testing.assert_allclose(board.params, 0.0, atol=1e-12)


def test_ratings_of_a_model_of_one_prompt_have_no_error_bar_and_others_differ_with_one(duels):
    part = duels[~((duels["left"] == "cyd") | (duels["right"] == "cyd")) | (duels["prompt"] == 3)]
    part = pd.concat([part, part.tail(1).assign(left="cyd", right="ada", score=1.0, prompt=3)])
    part = pd.concat([part, part.tail(1).assign(left="cyd", right="ada", score=0.0, prompt=3)])
    for cov in (None, "CR0", "CR1", "CR2", "CR3"):
        board = er.bradley_terry(part, groups="prompt", cov=cov, **ROLES)
        assert board.bse.isna().all()
        assert any('"cyd": only one prompt tells of it' in text for _, text in board.notes)
        relative = er.bradley_terry(part, groups="prompt", cov=cov, reference="ada", **ROLES)
        assert relative.bse.isna().to_dict() == {"ada": False, "bob": False, "cyd": True}
        difference = board.contrast("bob - ada")
        assert difference.bse.iloc[0] == pytest.approx(relative.bse["bob"], rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("closeness", [1.0, 3.0, 30.0, 300.0, 900.0, 3e4])
def test_a_basis_is_orthonormal_however_it_was_made(closeness: float, weighted: bool) -> None:
    # On both sides of each bound between one pass over sums of products, two, and Householder's QR.
    rng = np.random.default_rng(7)
    X = np.column_stack([np.ones(5000), rng.normal(size=(5000, 3))]) * [1.0, 1e-6, 1e4, 1e4]
    X[:, 3] = X[:, 2] + X[:, 3] / closeness
    weights = rng.uniform(0.2, 3.0, 5000) if weighted else None
    basis = basis_of(X, ["one", "a", "b", "c"], weights)
    # A pass too few leaves condition squared times 2e-16, 8e-13 at a closeness of 30. The sums of 5,000 products round
    # too: by 2e-14 in one release of the linear algebra where a slow exact sum finds 8e-15.
    assert np.abs(basis.rows.T @ basis.rows - np.eye(4)).max() < 1e-13
    root = 1.0 if weights is None else np.sqrt(weights)[:, None]
    back = np.linalg.qr(root * X * [1.0, 1e6, 1e-4, 1e-4])
    ours, theirs = np.linalg.inv(basis.map), back[1] * [1.0, 1e-6, 1e4, 1e4]
    # Two bases of one space have the same X'WX.
    assert np.allclose(ours.T @ ours, theirs.T @ theirs, rtol=1e-12, atol=0) or closeness > 1e4
    assert np.abs(basis.rows @ ours - root * X).max() / np.abs(X).max() < 1e-12


FAR_WEIGHTS = {
    "mean": lambda data: er.mean(data, weights="weight"),
    "means by model": lambda data: er.mean(data, by="model", groups="passage", weights="weight"),
    "CR1": lambda data: er.mean(data, "near", by="model", groups="passage + model", weights="weight", cov="CR1"),
    "ratio": lambda data: er.ratio(data, "score", "tokens", by="model", groups="passage", weights="weight"),
    "factors": lambda data: er.fit("score ~ model", data, groups="passage", weights="weight"),
    "HC3": lambda data: er.fit("score ~ model", data, weights="weight", cov="HC3"),
    "numbers": lambda data: er.fit("score ~ model + tokens", data, groups="passage", weights="weight"),
    "numbers, HC2": lambda data: er.fit("score ~ tokens", data, weights="weight", cov="HC2"),
    "pairs": lambda data: er.win_rate(
        data, left="model", right="other", score="score", groups="passage", weights="weight"
    ),
    "verdicts": lambda data: er.win_rate(data, left="model", right="other", winner="winner", weights="weight"),
    "ratings": lambda data: er.bradley_terry(
        data, left="model", right="other", score="score", groups="passage", weights="weight"
    ),
}


# What pandas makes of them, made once for all engines.
IN_MEMORY: dict[tuple[str, float], Any] = {}


@pytest.mark.pairwise
@pytest.mark.parametrize(
    "unit", [1e-300, 1e60, *(pytest.param(unit, marks=pytest.mark.slow) for unit in (1e-60, 1e300))]
)
@pytest.mark.parametrize("name", FAR_WEIGHTS)
@in_engines
def test_weights_of_an_engine_may_add_up_to_anything(log, engine, name, unit):
    """Numbers are those of pandas, and of weights near 1."""
    frame = log.assign(score=log["score"] / 1.25, other=np.where(log["model"] == "ada", "bob", "cyd"))
    frame["winner"] = np.array(["left", "right", "tie"])[np.arange(len(log)) % 3]
    frame["weight"] = frame["weight"].where(frame.index != 4)
    far = frame.assign(weight=frame["weight"] * unit)
    for factor, data in ((unit, far), (1.0, frame)):
        if (name, factor) not in IN_MEMORY:
            IN_MEMORY[name, factor] = FAR_WEIGHTS[name](data)
    found, expected, near = FAR_WEIGHTS[name](engine(far)), IN_MEMORY[name, unit], IN_MEMORY[name, 1.0]
    assert found.dropped.to_dict() == expected.dropped.to_dict()
    assert expected.dropped["covariate"] == 1
    for one in (expected, near):
        np.testing.assert_allclose(found.params, one.params, rtol=EXACT, atol=1e-12)
        np.testing.assert_allclose(found.cov_params(), one.cov_params(), rtol=EXACT, atol=1e-14)
    assert str(found.summary()) == str(expected.summary())
    if found.n_clusters:
        again = [one.with_cov(groups="model", cov="CR1").bse for one in (found, expected)]
        np.testing.assert_allclose(*again, rtol=EXACT)


@in_engines
@pytest.mark.parametrize("cov", ["naive", "HC0", "HC1", "HC3"])
def test_weighted_scores_of_an_engine_that_are_alike_have_no_rounding_for_an_error(log, engine, cov):
    """A single row has no error, as in memory, and scores of 0.3 have that of zero."""
    model = log["model"].where(log.index != 3, "one")
    weight = np.random.default_rng(1).uniform(0.1, 9.0, len(log))
    log = log.assign(model=model, score=log["score"].where(model != "ada", 0.3), weight=weight)
    found, expected = (er.mean(data, by="model", weights="weight", cov=cov) for data in (engine(log), log))
    assert expected.bse["ada"] == found.bse["ada"] == 0
    assert np.isnan([expected.bse["one"], found.bse["one"]]).all()
    np.testing.assert_allclose(found.bse, expected.bse, rtol=EXACT)


@in_engines
def test_weights_of_an_engine_that_are_too_far_from_each_other_are_refused(log, engine):
    far = log.assign(weight=np.where(log.index == 3, 1e-120, log["weight"]))
    for call in (FAR_WEIGHTS["mean"], FAR_WEIGHTS["numbers"]):
        for data in (far, engine(far)):
            with pytest.raises(ArgumentError, match=r"within a factor of 1e\+100 of each other"):
                call(data)
    # What is light and not so light is taken, as in memory.
    light = log.assign(weight=np.where(log.index == 3, 1e-70, log["weight"]))
    found, expected = (FAR_WEIGHTS["numbers"](data) for data in (engine(light), light))
    np.testing.assert_allclose(found.bse, expected.bse, rtol=EXACT)


WHOLE = ["I(ms ** 2)", "I(tokens ** 5)", "I(ms * ms)", "np.square(ms)", "I(tokens - 4000)", "I(-tokens)"]


KINDS = ["int64", "uint64", "uint16", "int32", "Int64", "UInt32"]
# Each term of the widest kind and of another, those below zero of unsigned ones.
BESIDE_INT64 = dict(zip(WHOLE, ["uint64", "int32", "Int64", "UInt32", "uint16", "UInt32"], strict=True))


@pytest.fixture(scope="module")
def of_floats(log):
    """Fits of the terms to columns of floats, by term."""
    made = {}

    def fitted(term):
        if term not in made:
            made[term] = er.fit(f"score ~ {term} + C(model)", log, groups="passage")
        return made[term]

    return fitted


@pytest.mark.parametrize(
    ("term", "kind"),
    [
        pytest.param(term, kind, marks=[] if kind in ("int64", BESIDE_INT64[term]) else [pytest.mark.slow])
        for term in WHOLE
        for kind in KINDS
    ],
)
def test_whole_numbers_do_not_wrap_in_a_formula(log, of_floats, term, kind):
    """Powers beyond 2^63, and unsigned numbers below zero, are those of floats, in predictions too."""
    held = kind if "ms" not in term else {"uint16": "uint64", "int32": "int64", "UInt32": "UInt64"}.get(kind, kind)
    name = "ms" if "ms" in term else "tokens"
    whole = log.assign(**{name: log[name].astype("int64").astype(held)})
    found, expected = er.fit(f"score ~ {term} + C(model)", whole, groups="passage"), of_floats(term)
    pd.testing.assert_series_equal(found.params, expected.params, rtol=1e-12)
    np.testing.assert_allclose(found.bse, expected.bse, rtol=1e-12)
    ahead = [one.predict(data.head(5)) for one, data in ((found, whole), (expected, log))]
    np.testing.assert_allclose(np.asarray(ahead[0], dtype=float), np.asarray(ahead[1], dtype=float), rtol=1e-12)


@pytest.mark.parametrize("kind", ["int64", "uint8"])
def test_whole_numbers_stay_names_of_levels(log, kind):
    whole = log.assign(level=(np.arange(len(log)) % 3).astype(kind))
    found = er.fit("score ~ C(level) + I(level - 5):weight", whole, groups="passage")
    expected = er.fit("score ~ C(level) + I(level - 5):weight", whole.astype({"level": "int64"}), groups="passage")
    assert "C(level)[T.2]" in found.params.index
    pd.testing.assert_series_equal(found.params, expected.params, rtol=1e-12)


@pytest.mark.parametrize(
    "term", ["C(tokens) + I(tokens ** 6)", "C(tokens > 2500) + np.power(tokens, 6):weight", "C(tokens ** 6)"]
)
def test_whole_numbers_that_are_levels_too_are_refused_where_they_would_wrap(log, term):
    """The copy that the message advises has the numbers of floats; smaller powers are those of floats as they are."""
    whole = log.assign(tokens=(log["tokens"] // 1000 * 1000).astype("int64"))
    with pytest.raises(FormulaError, match="Make a copy of the column as floats"):
        er.fit(f"score ~ {term}", whole, groups="passage")
    floats = whole.assign(copy=whole["tokens"].astype(float))
    advised = "score ~ C(tokens > 2500) + I(copy ** 6)"
    found, expected = er.fit(advised, floats), er.fit(advised, floats.astype({"tokens": float}))
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-12)


@pytest.mark.parametrize(
    ("term", "kind"),
    [
        pytest.param(term, kind, marks=[pytest.mark.slow] if (i + j) % 2 else [])
        for i, term in enumerate(["I(tokens ** 4)", "I(tokens - 4000)", "np.square(tokens) + np.log(tokens)"])
        for j, kind in enumerate(["int32", "int64", "uint64", "UInt16"])
    ],
)
def test_whole_numbers_that_are_levels_too_are_those_of_floats_below_that(log, term, kind):
    whole = log[["score", "tokens"]].astype({"score": "int64", "tokens": kind})
    found, expected = (
        er.fit(f"score ~ C(tokens > 2500) + {term}", one) for one in (whole, log.assign(score=whole.score))
    )
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-9)
    ahead = found.predict(whole.head(5).astype({"tokens": "int32"})), expected.predict(log.head(5))
    np.testing.assert_allclose(*ahead, rtol=1e-9)


def test_predictions_of_whole_numbers_are_refused_where_they_would_wrap(log):
    whole = log.astype({"tokens": "int64"})
    results = er.fit("score ~ C(tokens > 2500) + I(tokens ** 4)", whole)
    with pytest.raises(FormulaError, match=r"I\(tokens \*\* 4\)"):
        results.predict(pd.DataFrame({"tokens": [100_000]}))


@pytest.mark.parametrize("groups", [None, "passage", "passage + judge"])
@pytest.mark.parametrize("cov", ["first", "second", "third"])
def test_a_far_score_of_one_model_leaves_the_digits_of_the_others(groups: str | None, cov: str) -> None:
    """The difference of two models does not depend on the scores of a third, and neither does its error."""
    kinds = {"first": ("HC1", "CR1"), "second": ("HC2", "CR2"), "third": ("HC3", "CR3")}[cov]
    rng = np.random.default_rng(0)
    n = 600
    log = pd.DataFrame(
        {
            "score": rng.integers(0, 2, n).astype(float),
            "model": rng.choice(["a", "b", "c"], n),
            "passage": rng.integers(0, 40, n),
            "judge": rng.integers(0, 30, n),
        }
    )
    far = log.copy()
    far.loc[far.index[far["model"] == "c"][0], "score"] = 1e8
    options: dict[str, Any] = {"groups": groups, "cov": kinds[groups is not None]}
    near, with_far = (er.fit("score ~ model", data, **options) for data in (log, far))
    assert with_far.bse["model[T.b]"] == pytest.approx(near.bse["model[T.b]"], rel=1e-8)

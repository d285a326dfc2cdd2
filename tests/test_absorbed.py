"""Absorbed factors: pyfixest's numbers, clubSandwich's of the dummies, the dummy regression, and what is refused."""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.numerics import basis
from evalreg.numerics.basis import Partition, redundant_levels, within

REFERENCE = Path(__file__).parent / "reference"
FIXEST = json.loads((REFERENCE / "absorbed.json").read_text())
DUMMIES = json.loads((REFERENCE / "absorbed_dummies.json").read_text())
NAMES = FIXEST["coefficients"]
FACTORS = {"question": "question", "both": "question + judge", "joint": "question:judge"}
# Other software's numbers are printed to 17 digits; its factors are taken out by iteration to 1e-12.
OURS = 1e-10
# Both are computed here, by different ways through the same arithmetic.
SAME = 1e-9

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Answers by question and judge, of which one question has a single row; see reference/absorbed.py."""
    return pd.read_csv(REFERENCE / "absorbed.csv")


@pytest.fixture(scope="module")
def crossed() -> pd.DataFrame:
    """Questions inside passages, crossed with judges, weights unequal."""
    rng, n = np.random.default_rng(1), 300
    question = np.concatenate([np.arange(40), np.arange(40), rng.integers(0, 40, n - 80)])
    frame = pd.DataFrame({"question": question, "judge": rng.integers(0, 5, n), "x": rng.normal(size=n)})
    frame["passage"], frame["w"] = frame.question // 3, rng.uniform(0.5, 2, n)
    frame["model"] = rng.choice(["a", "b", "c"], n)
    frame["score"] = 0.3 * frame.x + rng.normal(size=40)[frame.question] + rng.normal(size=n)
    return frame


def dummies(formula: str) -> str:
    covariates, factors = formula.split(" | ")
    return covariates + " + " + " + ".join(f"C({name})" for name in factors.split(" + "))


@pytest.mark.parametrize("case", list(FIXEST["values"]))
def test_coefficients_and_cr1_are_those_of_pyfixest(log, case):
    name, by, weights = case.split(".")
    there, groups = FIXEST["values"][case], {"two": "question + judge", "rows": None}.get(by, by)
    options = {} if groups is None else {"cov": "CR1", "ssc": "fixest"}
    if by == "two":
        options["repair"] = "none"
    weights = None if weights == "plain" else weights
    found = er.fit(f"score ~ x + model | {FACTORS[name]}", log, groups=groups, weights=weights, **options)
    np.testing.assert_allclose(found.params[NAMES], there["coef"], rtol=OURS)
    np.testing.assert_allclose(found.bse[NAMES], there["se"], rtol=OURS)
    assert found.nobs == there["n"]


@pytest.mark.parametrize("case", [key for key in DUMMIES if "." in key])
def test_cr0_cr2_and_satterthwaite_are_clubsandwichs_of_the_dummies(log, case):
    name, by, cov = case.split(".")
    found = er.fit(f"score ~ x + model | {FACTORS[name]}", log, groups=by, cov=cov, dof="satterthwaite")
    np.testing.assert_allclose(found.bse[NAMES], DUMMIES[case]["se"], rtol=OURS)
    np.testing.assert_allclose(found.dof[NAMES], DUMMIES[case]["dof"], rtol=OURS)


@pytest.mark.pairwise
@pytest.mark.parametrize("cov", ["CR0", "CR1", "CR2", "CR3", "jackknife"])
@pytest.mark.parametrize("groups", ["question", "passage", "judge", "model", "question + judge"])
@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("formula", ["score ~ x + model | question", "score ~ x + model | question + judge"])
def test_every_covariance_is_that_of_the_regression_on_dummies(crossed, formula, groups, weights, cov):
    options = {"groups": groups, "weights": weights, "cov": cov, "repair": "max"}
    slow, fast = er.fit(dummies(formula), crossed, **options), er.fit(formula, crossed, **options)
    names = list(fast.params.index)
    np.testing.assert_allclose(fast.params, slow.params[names], rtol=SAME)
    np.testing.assert_allclose(fast.bse, slow.bse[names], rtol=SAME)
    np.testing.assert_allclose(fast.dof, slow.dof[names], rtol=SAME)
    np.testing.assert_allclose(fast.conf_int(), slow.conf_int().loc[names], rtol=SAME, atol=1e-12)


@pytest.mark.pairwise
@pytest.mark.parametrize("cov", ["naive", "HC0", "HC2", "HC3"])
@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("formula", ["score ~ x + model | question", "score ~ x + model | question + judge"])
def test_independent_rows_have_the_leverage_of_their_levels_too(crossed, formula, weights, cov):
    slow, fast = (er.fit(f, crossed, weights=weights, cov=cov) for f in (dummies(formula), formula))
    np.testing.assert_allclose(fast.bse, slow.bse[fast.params.index], rtol=SAME)


@pytest.mark.parametrize("groups", ["question", "judge"])
def test_joint_tests_and_clusters_left_out_are_those_of_the_dummies(crossed, groups):
    formula = "score ~ x + model | question"
    slow, fast = er.fit(dummies(formula), crossed, groups=groups), er.fit(formula, crossed, groups=groups)
    both = "model[T.b] = 0, model[T.c] = 0"
    assert fast.wald_test(both).pvalue == pytest.approx(slow.wald_test(both).pvalue, rel=SAME)
    gone = str(fast.diagnostics().loc[groups, "most_influential"])
    left = crossed[crossed[groups].astype(str) != gone]
    without = fast.diagnostics().loc[groups, "params_without"]
    again = er.fit(formula, left, groups=groups).params
    np.testing.assert_allclose([without[name] for name in again.index], again, rtol=SAME)


def test_ignoring_levels_that_span_clusters_would_differ(crossed):
    # The condition of Pustejovsky and Tipton fails here: the covariates' own leverage is not that of the design.
    formula = "score ~ x + model | question"
    found = er.fit(formula, crossed, groups="judge")
    blind = found.estimate.__class__(
        **{name: getattr(found.estimate, name) for name in found.estimate.__dataclass_fields__ if name != "absorbed"}
    )
    assert np.max(np.abs(er.infer(blind, groups="judge").bse / found.bse - 1)) > 0.01


def test_means_of_levels_are_taken_out_whichever_way_the_equations_are_solved(monkeypatch, rng):
    n = 1500
    factors = [Partition(rng.permutation(np.arange(n) % size), size) for size in (250, 60, 30)]
    weights, columns = rng.uniform(0.2, 3, n), rng.normal(size=(n, 3)) + np.array([0, 100, 0])
    D = np.hstack([np.eye(one.n_levels)[one.codes] for one in factors]) * np.sqrt(weights)[:, None]
    y = columns * np.sqrt(weights)[:, None]
    expected = (y - D @ np.linalg.lstsq(D, y, rcond=None)[0]) / np.sqrt(weights)[:, None]
    direct = within(factors, weights)
    monkeypatch.setattr(basis, "DIRECT", 0)
    iterated = within(factors, weights)
    for found in (direct(columns), iterated(columns)):
        np.testing.assert_allclose(found, expected, atol=1e-11)
    assert np.linalg.matrix_rank(D) == 340 - redundant_levels(factors, direct)[0]
    # Without the eigenvalues at most one too few is counted for the third factor; never too many.
    assert redundant_levels(factors, iterated)[0] <= redundant_levels(factors, direct)[0]
    assert not redundant_levels(factors, iterated)[1]


def test_two_factors_that_fall_apart_count_their_components(rng):
    # Three blocks of questions, each with judges of its own: three levels are redundant, and not one.
    n = 600
    block = np.arange(n) % 3
    frame = pd.DataFrame({"question": block * 10 + rng.integers(0, 10, n), "judge": block * 4 + rng.integers(0, 4, n)})
    frame["x"], frame["score"] = rng.normal(size=n), rng.normal(size=n)
    fast = er.fit("score ~ x | question + judge", frame)
    assert fast.estimate.absorbed.rank == 30 + 12 - 3
    slow = np.linalg.matrix_rank(
        np.column_stack([pd.get_dummies(frame.question), pd.get_dummies(frame.judge), frame.x])
    )
    assert fast.dof.iloc[0] == n - slow


def test_rows_alone_in_a_level_are_left_out_again_and_again(rng):
    frame = pd.DataFrame({"question": [0, 0, 0, 0, 1, 1, 2], "judge": ["a", "b", "a", "b", "a", "c", "b"]})
    frame["x"], frame["score"] = rng.normal(size=7), rng.normal(size=7)
    # The last row is alone in its question; judge c's row in its judge, which leaves question 1 with one row.
    found = er.fit("score ~ x | question + judge", frame, missing="drop")
    assert found.nobs == 4
    assert found.dropped["singleton"] == 3
    assert "3 alone in an absorbed level" in " ".join(str(found.summary(details=True)).split())


def test_a_row_that_alone_determines_a_coefficient_gives_no_error_bar(crossed):
    # Its residual is zero, and so would be its share of a variance that counts rows as independent.
    frame = crossed.assign(spike=(np.arange(len(crossed)) == 7).astype(float))
    for formula in ("score ~ x + spike | question", "score ~ x + spike | question + judge"):
        found = er.fit(formula, frame)
        assert np.isnan(found.bse["spike"])
        assert found.bse["x"] > 0
        for groups in ("question", "judge"):
            assert np.isnan(er.fit(formula, frame, groups=groups).bse["spike"])
    assert er.fit("score ~ x + spike | question", frame).bse["x"] == pytest.approx(
        er.fit("score ~ x + spike + C(question)", frame).bse["x"], rel=SAME
    )


def test_other_families_predictions_and_the_way_back_are_refused_by_name(crossed):
    binary = crossed.assign(score=(crossed.score > 0).astype(float))
    with pytest.raises(er.errors.NotAvailableError, match=r"conditional logit"):
        er.fit("score ~ x | question", binary, family="binomial")
    found = er.fit("score ~ x | question", crossed, groups="judge")
    with pytest.raises(er.errors.NotAvailableError, match=r"effects of the levels"):
        found.predict()
    with pytest.raises(AttributeError, match=r"factors are absorbed"):
        _ = found.statsmodels
    for asked in (found.wild_test, lambda: found.bootstrap(draws=50)):
        with pytest.raises(er.errors.NotAvailableError, match=r'"question" span clusters'):
            asked()
    assert pickle.loads(pickle.dumps(found)).bse.equals(found.bse)


def test_the_wild_test_is_that_of_the_dummies_where_levels_lie_in_clusters(crossed):
    few = crossed.assign(passage=crossed.passage % 8, question=crossed.question + 100 * (crossed.passage % 8))
    slow, fast = (er.fit(f, few, groups="passage") for f in ("score ~ x + C(question)", "score ~ x | question"))
    a, b = (one.wild_test("x = 0", weights="rademacher", draws=256) for one in (slow, fast))
    assert (a.p_value, a.interval[0]) == (b.p_value, pytest.approx(b.interval[0], rel=1e-6))
    ratio = np.sqrt((slow.nobs - slow.params.size) / (fast.nobs - fast.estimate.n_coefficients))
    assert a.statistic == pytest.approx(b.statistic * ratio, rel=SAME)


def test_more_levels_than_can_be_adjusted_for_are_refused_with_what_works(monkeypatch, crossed):
    monkeypatch.setattr("evalreg.scores.rows.MOST_CUBES", 10.0)
    with pytest.raises(er.errors.NotAvailableError, match=r'"question" .40. span clusters of .judge.*cov="CR1"'):
        er.fit("score ~ x | question", crossed, groups="judge")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert er.fit("score ~ x | question", crossed, groups="judge", cov="CR1").bse["x"] > 0
    assert er.fit("score ~ x | question", crossed, groups="question").bse["x"] > 0


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("cov", ["CR1", "CR2", "CR3"])
def test_an_absorbed_factor_of_one_level_adds_nothing(rng, cov, weights):
    columns = {"item": np.arange(120) // 5, "model": np.arange(120) % 5, "one": "t", "y": rng.normal(size=120)}
    log = pd.DataFrame(columns)
    log = log.assign(w=rng.choice([0.5, 1.0, 2.0], 120), group=log["item"] // 3)
    options = {"groups": "group", "weights": weights, "cov": cov}
    alone, beside = (er.fit(f"y ~ model | {factors}", log, **options) for factors in ("item", "item + one"))
    np.testing.assert_allclose([beside.bse, beside.dof], [alone.bse, alone.dof], rtol=1e-10)

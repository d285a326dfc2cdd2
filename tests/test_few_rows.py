"""Warnings where an estimate rests on few rows or clusters, and a mean on a few large scores."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from engines.lazy import in_duckdb
from scipy import stats

import evalreg as er
from evalreg.errors import FewClustersWarning, SkewedScoresWarning

# Numbers in messages have two digits.
SHOWN = 0.06


def said(kind, call):
    """The texts of the warnings of a kind that a call issues."""
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in issued if one.category is kind]


def treated(rng, n_treated, n=40, size=1):
    row = np.repeat(np.arange(n), size)
    return pd.DataFrame({"y": rng.normal(size=n * size), "t": (row < n_treated) * 1.0, "row": row})


def number_before(words, text):
    return float(re.findall(rf"([\d.]+){words}", text)[0])


def test_a_coefficient_of_three_treated_rows_is_said_to_rest_on_few(rng):
    log = treated(rng, 3)
    (text,) = said(FewClustersWarning, lambda: er.fit("y ~ t", log))
    # Three rows count a third each, the other 37 a thirty-seventh.
    dof = (1 / 3 + 1 / 37) ** 2 / (1 / 27 + 1 / 37**3)
    assert abs(number_before(" degrees of freedom", text) - dof) < SHOWN
    assert text.startswith('"t" rests on few of the rows')
    assert "t takes 38" in text
    clustered = er.fit("y ~ t", log, groups="row")
    # Bell and McCaffrey's, about the fitted values of so few rows, are fewer by about one.
    assert dof - 1.5 < clustered.dof["t"] < dof
    assert not said(FewClustersWarning, lambda: er.fit("y ~ x", log[:20].assign(x=rng.normal(size=20))))


@pytest.mark.parametrize("cov", ["CR0", "CR1", "CR3"])
@pytest.mark.parametrize("formula", ["y ~ t", "y ~ t + u", "y ~ t * bs(u, 3)", "y ~ t | level", "engine", "mean"])
def test_what_rests_on_few_clusters_is_said_once_where_t_counts_all(rng, cov, formula):
    log = treated(rng, 3, size=6).assign(u=rng.uniform(size=240), level=np.tile(np.arange(6), 40))
    effective = 3 if formula == "mean" else (1 / 3 + 1 / 37) ** 2 / (1 / 27 + 1 / 37**3)
    data, formula = (in_duckdb(log), "y ~ t + u") if formula == "engine" else (log, formula)

    def estimated(**how):
        return er.mean(log, "y", by="t", **how) if formula == "mean" else er.fit(formula, data, **how)

    assert not said(FewClustersWarning, lambda: estimated(groups="row"))
    assert not said(FewClustersWarning, lambda: estimated(groups="row", cov=cov, dof=1.0))
    (text,) = said(FewClustersWarning, lambda: estimated(groups="row", cov=cov))
    assert "on few of the 40 row clusters" in text
    assert "t takes 39 degrees of freedom" in text
    assert "u" in formula or abs(number_before(" equal ones", text) - effective) < SHOWN


def test_weights_of_a_regression_count_as_those_of_the_mean(rng):
    n = 60
    log = pd.DataFrame({"y": rng.normal(size=n), "w": rng.lognormal(0, 2, n)})
    w = log["w"].to_numpy()
    dof = np.sum(w**2) ** 2 / np.sum(w**4)
    assert dof < 10
    for call in (lambda: er.fit("y ~ 1", log, weights="w"), lambda: er.mean(log, "y", weights="w")):
        (text,) = said(FewClustersWarning, call)
        assert abs(number_before(" degrees of freedom", text) - dof) < SHOWN


def test_the_skewness_of_a_mean_is_that_of_its_rows_over_the_root_of_their_number(rng):
    cost = rng.lognormal(0, 1.5, 100)
    (text,) = said(SkewedScoresWarning, lambda: er.mean(pd.DataFrame({"cost": cost}), "cost"))
    assert abs(number_before(", and up to", text) - stats.skew(cost) / 10) < SHOWN
    assert "this mean rests on a few high scores" in text
    (text,) = said(SkewedScoresWarning, lambda: er.mean(pd.DataFrame({"cost": -cost}), "cost"))
    assert "too short on the low side" in text


def test_the_skewness_of_a_clustered_mean_is_that_of_the_clusters_totals(rng):
    n = 60
    log = pd.DataFrame({"cost": rng.lognormal(0, 0.3, 5 * n), "passage": np.repeat(np.arange(n), 5)})
    log.loc[log["passage"] == 7, "cost"] += 20.0
    (text,) = said(SkewedScoresWarning, lambda: er.mean(log, "cost", groups="passage"))
    totals = (log["cost"] - log["cost"].mean()).groupby(log["passage"]).sum()
    assert abs(number_before(", and up to", text) - np.sum(totals**3) / np.sum(totals**2) ** 1.5) < SHOWN
    assert "passage clusters" in text


@pytest.mark.parametrize("scores", ["normal", "exponential", "unit", "t"])
def test_scores_of_ordinary_tails_are_not_warned_of(rng, scores):
    n = 200
    score = {
        "normal": rng.normal(size=n),
        "exponential": rng.exponential(size=n),
        "unit": (rng.uniform(size=n) < 0.02) * 1.0,
        "t": rng.standard_t(6, size=n),
    }[scores]
    log = pd.DataFrame({"score": score, "passage": np.arange(n) // 4})
    assert not said(SkewedScoresWarning, lambda: er.mean(log))
    assert not said(SkewedScoresWarning, lambda: er.mean(log, groups="passage"))


def labelled(rng, sizes):
    truth = np.repeat([f"class {i}" for i in range(len(sizes))], sizes)
    wrong = rng.uniform(size=truth.size) < 0.2
    return pd.DataFrame({"truth": truth, "answer": np.where(wrong, rng.permutation(truth), truth)})


def test_a_mean_over_classes_that_rests_on_a_rare_one_is_warned_of(rng):
    log = labelled(rng, [60, 30, 7, 3])

    def macro(log, **options):
        return er.classification(log, truth="truth", predicted="answer", average="macro", **options)

    (text,) = said(FewClustersWarning, lambda: macro(log))
    part = 1 / np.array([60, 30, 7, 3])
    assert number_before(" degrees of freedom", text) == round(part.sum() ** 2 / np.sum(part**3))
    assert 'rows of class "class 3": 3.' in text
    assert not said(FewClustersWarning, lambda: macro(labelled(rng, [25, 25, 25, 25])))
    assert not said(FewClustersWarning, lambda: macro(log, classes=["class 0", "class 1"]))
    both = pd.concat([log.assign(model="thin"), labelled(rng, [30, 30, 30, 30]).assign(model="even")])
    (text,) = said(FewClustersWarning, lambda: macro(both, by="model"))
    assert "the mean over classes of thin rests" in text

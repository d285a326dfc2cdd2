"""The power of a gate, against published figures, sums of binomials and simulation; the split of labels."""

from __future__ import annotations

import math

import numpy as np
import pytest

import evalreg as er
from evalreg.errors import ArgumentError, ArgumentTypeError

pytestmark = pytest.mark.filterwarnings("ignore::evalreg.errors.EvalregWarning")


def test_the_power_of_a_published_gate_is_what_was_reported():
    power = er.plan.gate(score=0.88, n=1319, margin=0.08)["power"]
    assert power[0.05] == pytest.approx(0.0024, abs=5e-5)
    assert power[0.08] == pytest.approx(0.5, abs=0.02)
    assert er.plan.gate(score=0.89, n=1319, margin=0.03)["power"][0.05] == pytest.approx(0.976, abs=0.004)
    assert (power.index.name, *power.index) == ("drop", 0, 0.01, 0.02, 0.03, 0.05, 0.08, 0.1)


@pytest.mark.parametrize(
    ("score", "n", "margin", "drop"), [(0.9, 20, 0.1, 0.15), (0.5, 11, 0.05, 0.0), (1.0, 7, 0.2, 0.3)]
)
def test_the_power_is_the_sum_of_the_chances_of_all_runs_below_the_bar(score, n, margin, drop):
    truth = score - drop
    below = [k for k in range(n + 1) if round(k - n * (score - margin), 9) < 0]
    expected = sum(math.comb(n, k) * truth**k * (1 - truth) ** (n - k) for k in below)
    found = er.plan.gate(score=score, n=n, margin=margin, drop=[drop])["power"]
    assert found.to_list() == pytest.approx([expected], abs=1e-12)


def test_a_run_right_on_the_bar_is_not_below_it():
    # 8 of 10 is score - margin itself.
    assert er.plan.gate(score=0.9, n=10, margin=0.1, drop=[0.9])["power"].to_list() == [1.0]
    assert er.plan.gate(score=1.0, n=10, margin=0.2, drop=[0.0])["power"].to_list() == [0.0]
    assert er.plan.gate(score=0.05, n=10, margin=0.2, drop=[0.01])["power"].to_list() == [0.0]
    assert np.isnan(er.plan.gate(score=0.05, n=10, margin=0.02, drop=[0.1])["power"]).all()


def test_the_gate_of_results_knows_their_clusters():
    log = er.datasets.passages(n_passages=40, seed=1)
    for groups in (None, "passage"):
        results = er.mean(log, groups=groups)
        power = er.plan.gate(results, margin=0.05, drop=(0.0, 0.05, 0.2))["power"]
        assert power[0.05] == pytest.approx(0.5)
        z = (0.2 - 0.05) / results.bse.iloc[0]
        assert power[0.2] == pytest.approx(0.5 * math.erfc(-z / math.sqrt(2)))


def test_a_gate_is_that_of_one_mean():
    two = er.mean(er.datasets.paired(n_passages=20, seed=1), by="model", groups="passage")
    for results, more in ((two, {}), (two.contrast("new"), {"n": 10})):
        with pytest.raises(ArgumentError, match="results"):
            er.plan.gate(results, margin=0.03, **more)
    er.plan.gate(two.contrast("new - old"), margin=0.03)


@pytest.mark.parametrize(
    ("prevalence", "sensitivity", "specificity"), [(0.2, 0.9, 0.95), (0.7, 0.6, 0.99), (0.5, 1.0, 0.8)]
)
def test_the_split_of_labels_has_the_smallest_variance(prevalence, sensitivity, specificity):
    n = 400
    found = er.plan.labels(prevalence=prevalence, sensitivity=sensitivity, specificity=specificity, n=n)
    assert (found.sum(), found.min() >= 1) == (n, True)
    # Variance of (p + q0 - 1)/(q0 + q1 - 1) from the labels alone, by the delta method, at every split.
    negative = np.arange(1, n)
    variance = (1 - prevalence) ** 2 * specificity * (1 - specificity) / negative
    variance = variance + prevalence**2 * sensitivity * (1 - sensitivity) / (n - negative)
    assert abs(found["negative"] - negative[np.argmin(variance)]) <= 1


def test_a_judge_without_errors_has_labels_split_evenly_and_shares_out_of_range_are_refused():
    assert er.plan.labels(prevalence=0.1, sensitivity=1, specificity=1, n=10).tolist() == [5, 5]
    # A calibration set needs both kinds.
    assert er.plan.labels(prevalence=0.01, sensitivity=0.9, specificity=0.9, n=10).tolist() == [9, 1]
    good = {"prevalence": 0.2, "sensitivity": 0.9, "specificity": 0.9, "n": 100}
    for name, value in (("prevalence", 0.0), ("sensitivity", 1.2), ("specificity", 0.0), ("n", 1), ("n", 2.5)):
        with pytest.raises(ArgumentError, match=f"`{name}`"):
            er.plan.labels(**(good | {name: value}))
    with pytest.raises(ArgumentTypeError, match="`sensitivity`"):
        er.plan.labels(**(good | {"sensitivity": "high"}))

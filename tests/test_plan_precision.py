"""Rows for a half-width: statsmodels, Wilson's interval, simulated logs, the command line and bad input."""

from __future__ import annotations

import io
import json
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint, samplesize_confint_proportion

import evalreg as er
from evalreg.cli import main as cli
from evalreg.errors import ArgumentError

DELIVERED = 1e-9


@pytest.mark.parametrize("rate", [0.3, 0.5, 0.7])
@pytest.mark.parametrize("half_width", [0.02, 0.05])
def test_rows_of_a_rate_are_those_of_statsmodels(rate, half_width):
    wanted = samplesize_confint_proportion(rate, half_width, alpha=0.05, method="normal")
    assert er.plan.precision(half_width=half_width, rate=rate).n == math.ceil(wanted)


def test_a_design_effect_multiplies_rows_and_not_what_they_say():
    plan = er.plan.precision(half_width=0.03, rate=0.7, deff=2.5)
    assert (plan.n, round(plan.effective)) == (2241, 896)


@pytest.mark.parametrize(("rate", "half_width"), [(0.99, 0.03), (0.02, 0.02), (0.999, 0.01), (0.97, 0.05)])
def test_near_the_ends_wilsons_interval_by_statsmodels_has_the_half_width(rate, half_width):
    def half(n):
        low, high = proportion_confint(rate * n, n, method="wilson")
        return (high - low) / 2

    n = er.plan.precision(half_width=half_width, rate=rate).n
    assert half(n) <= half_width * (1 + DELIVERED) < half(n - 1)


def test_other_scores_have_the_t_of_their_rows():
    n = er.plan.precision(half_width=0.5, variance=1.4).n
    half = [stats.t.ppf(0.975, rows - 1) * math.sqrt(1.4 / rows) for rows in (n - 1, n)]
    assert half[1] <= 0.5 < half[0]


def test_simulated_clusters_have_the_half_width_that_was_planned():
    plan = er.plan.precision(half_width=0.05, rate=0.7, icc=0.2, cluster_size=10)
    rng, found = np.random.default_rng(1), []
    a, b = 0.7 * 4, 0.3 * 4  # beta, whose intraclass correlation is 1/(a + b + 1)
    for _ in range(50):
        share = np.repeat(rng.beta(a, b, plan.n_clusters), 10)
        log = {"passage": np.arange(plan.n) // 10, "score": (rng.random(plan.n) < share).astype(float)}
        low, high = er.mean(log, groups="passage").conf_int().iloc[0]
        found.append((high - low) / 2)
    assert abs(np.mean(found) - 0.05) < 4 * np.std(found) / np.sqrt(len(found)) + 0.0005


def test_a_pilot_plans_with_its_clusters_and_the_plan_delivers():
    pilot = er.mean(er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3), groups="passage")
    plan = er.plan.precision(half_width=0.03, pilot=pilot)
    se = float(pilot.bse.iloc[0]) * math.sqrt(40 / plan.n_clusters)
    assert stats.t.ppf(0.975, plan.dof) * se <= 0.03 * (1 + DELIVERED)
    fewer = float(pilot.bse.iloc[0]) * math.sqrt(40 / (plan.n_clusters - 1))
    assert stats.t.ppf(0.975, plan.dof - 1) * fewer > 0.03
    assert er.plan.precision(half_width=0.03, pilot=pilot, assurance=0.9).n > plan.n


@pytest.mark.parametrize(("rate", "half_width"), [(0.99, 0.01), (0.98, 0.015), (0.7, 0.03)])
@pytest.mark.parametrize("times", [1, 4])
def test_near_the_ends_a_pilot_plans_as_its_rate_does(rate, half_width, times):
    # By t alone 0.99 +- 0.01 took 384 rows, whose interval had a half-width of 0.0124.
    score = (np.arange(1000) >= round(1000 * (1 - rate))).astype(float)
    log = {"passage": np.repeat(np.arange(1000), times), "score": np.repeat(score, times)}
    plan = er.plan.precision(half_width=half_width, pilot=er.mean(log, groups="passage"))
    alone = er.plan.precision(half_width=half_width, rate=rate)
    assert plan.n == pytest.approx(times * alone.n, rel=0.01)
    z2 = stats.norm.ppf(0.975) ** 2
    n = plan.n / times
    assert math.sqrt(z2 * rate * (1 - rate) / n + z2**2 / (4 * n**2)) / (1 + z2 / n) <= half_width * 1.001


def test_a_difference_is_no_proportion():
    comparison = er.compare(er.datasets.paired(n_passages=40, difference=0.25, seed=1), item="question")
    plan = er.plan.precision(half_width=0.2, pilot=comparison)
    se = float(comparison.results.bse.iloc[0]) * math.sqrt(comparison.table["n"].iloc[0] / plan.n)
    assert plan.expected == pytest.approx(stats.t.ppf(0.975, plan.dof) * se, rel=1e-9)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "needs one of"),
        ({"rate": 0.7, "variance": 1}, "needs one of"),
        ({"rate": 1.2}, "rate"),
        ({"rate": 0.7, "icc": 0.2}, "goes with `cluster_size`"),
        ({"rate": 0.7, "cluster_size": 5}, "needs `icc`"),
        ({"rate": 0.7, "deff": 0.5}, "at least 1"),
        ({"rate": 0.7, "icc": -0.1, "cluster_size": 5}, "between 0 and 1"),
        ({"rate": 0.7, "half_width": 0}, "positive"),
        ({"rate": 0.7, "half_width": 1e-9}, "below"),
        ({"rate": 0.7, "assurance": 0.9}, "needs `pilot`"),
        ({"rate": 0.7, "pilot": 3}, "contradict"),
    ],
)
def test_numbers_that_do_not_go_together_are_refused(options, says):
    with pytest.raises(ArgumentError, match=says):
        er.plan.precision(**{"half_width": 0.03} | options)


ASKED = ("plan", "precision", "--half-width", "0.03", "--rate", "0.7", "--deff", "2.5")


def test_the_command_prints_the_numbers_of_the_library(capsys):
    assert cli.main([*ASKED]) == 0
    assert " 2241 " in capsys.readouterr().out
    assert cli.main([*ASKED, "--format", "csv"]) == 0
    row = pd.read_csv(io.StringIO(capsys.readouterr().out)).iloc[0]
    assert (row["n"], row["deff"]) == (2241, 2.5)
    assert cli.main([*ASKED, "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["kind"], document["plan"]["n"], document["options"]["rate"]) == ("plan precision", 2241, 0.7)


@pytest.mark.parametrize("form", ["md", "latex", "html"])
def test_every_format_has_the_number(form, capsys):
    assert cli.main([*ASKED, "--format", form]) == 0
    assert "2241" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "is_wilson"),
    [
        ("--rate 0.97", True),
        ("--rate 0.97 --alpha 0.01", True),
        ("--rate 0.5 --alpha 0.01", False),
        ("--rate 0.9 --icc 0.2 --cluster-size 40", False),  # few clusters: it is t that asks for more rows
    ],
)
def test_wilson_is_named_where_the_number_is_his(capsys, options, is_wilson):
    assert cli.main(["plan", "precision", "--half-width", "0.03", *options.split()]) == 0
    assert ("Wilson" in capsys.readouterr().out) == is_wilson


@pytest.mark.parametrize(("options", "says"), [("", "got neither"), ("--rate 0.7 --variance 0.2", "got both")])
def test_the_command_says_by_its_own_options_what_it_needs(capsys, options, says):
    assert cli.main(["plan", "precision", "--half-width", "0.03", *options.split()]) == 3
    assert f"needs one of --rate (of 0/1 scores) and --variance (of one row); {says}" in capsys.readouterr().err

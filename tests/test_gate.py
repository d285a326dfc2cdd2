"""Gates on a score or a difference: what they decide, and what they refuse."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import evalreg as er
from evalreg.checks import muted
from evalreg.errors import ArgumentError, FormulaError, MissingColumnError


@pytest.fixture(scope="module")
def comparison() -> er.Comparison:
    """Two models on 400 questions of 80 passages; one is 0.10 better in truth."""
    log = er.datasets.paired(n_passages=80, difference=0.10, correlation=0.8, seed=4)
    return er.compare(log, item="question", groups="passage", icc=None)


CLAIMS = ["new - old > -0.01", "old - new < 0.01", "new - old > 0.3", "old - new > 0", "new - old < 0"]
CLAIMS += ["new - old > 0.09", "  new - old>0.09 "]


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_gate_is_two_one_sided_t_tests(comparison, claim):
    (row,), gate = comparison.table.to_dict("records"), comparison.gate(claim)
    sign = 1 if claim.strip().startswith("new") else -1
    operator, bound = ("<" if "<" in claim else ">"), float(claim.replace("<", ">").split(">")[1])
    above = stats.t.sf((sign * row["difference"] - bound) / row["se"], row["dof"])
    shown, fails = (above, 1 - above) if operator == ">" else (1 - above, above)
    assert gate.verdict == ("shown" if shown < 0.05 else "shown to fail" if fails < 0.05 else "cannot tell")
    assert gate.status == {"shown": 0, "shown to fail": 1, "cannot tell": 2}[gate.verdict]
    assert (gate.estimate, gate.n) == (pytest.approx(sign * row["difference"]), 400)
    assert " ".join(claim.split()) in gate.line


@pytest.mark.parametrize("claim", ["mean > 0.5", "mean < 0.5", "mean > 0.7", "mean < 0.9"])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
def test_a_gate_on_a_mean_is_its_interval_at_twice_the_level(claim, alpha):
    results = er.mean(er.datasets.passages(n_passages=40, seed=3), groups="passage")
    low, high = results.conf_int(2 * alpha).loc["mean"]
    _, operator, number = claim.split()
    sides = (low > float(number), high < float(number))
    shown, fails = sides if operator == ">" else sides[::-1]
    verdict = results.gate(claim, alpha=alpha).verdict
    assert verdict == ("shown" if shown else "shown to fail" if fails else "cannot tell")


def test_what_cannot_be_told_says_how_many_clusters_could_tell(comparison):
    gate, (row,) = comparison.gate("new - old > 0.09"), comparison.table.to_dict("records")
    wanted = gate.wanted["passage"]

    def power(factor: float) -> float:
        """Of the shifted t, on so many times the passages."""
        distance = abs(row["difference"] - 0.09) * np.sqrt(factor) / row["se"]
        return float(stats.norm.cdf(distance - stats.t.ppf(0.95, row["dof"] * factor)))

    assert power((wanted - 1) / 80) < 0.8 + 1e-9
    assert power(wanted / 80) > 0.8 - 1e-9


def test_no_number_could_tell_at_the_bound_itself():
    rows = pd.DataFrame({"score": np.arange(100) % 8 > 3, "passage": np.arange(100) // 5}).astype(int)[:80]
    assert er.mean(rows, groups="passage").gate("mean > 0.5").wanted == {}


def test_a_claim_on_one_name_is_not_that_of_a_difference_from_a_model_called_none():
    log = er.datasets.paired(n_passages=20, seed=1).replace({"model": {"new": "None"}})
    with pytest.raises(MissingColumnError, match='"old", which is not estimated'):
        er.compare(log, item="question").gate("old > 0")


def test_two_means_are_compared_and_names_stand_in_backticks():
    log = er.datasets.paired(n_passages=40, difference=0.2, seed=4).replace({"model": {"new": "gpt > 4 - mini"}})
    results = er.mean(log, by="model", item="question", groups="passage")
    gate = results.gate("`gpt > 4 - mini` - old > -0.5")
    assert gate.verdict == "shown"
    assert gate.estimate == pytest.approx(results.params["gpt > 4 - mini"] - results.params["old"])
    assert results.contrast("`gpt > 4 - mini` - old").gate("`gpt > 4 - mini` - old > -0.5").estimate == gate.estimate


def test_a_comparison_of_two_with_a_third_decides_between_the_two():
    log = er.datasets.paired(n_passages=20, seed=1)
    third = log[log["model"] == "new"].assign(model="third", score=lambda rows: rows["score"].to_numpy()[::-1])
    pairs = er.compare(pd.concat([log, third]), item="question", groups="passage", baseline="old", icc=None)
    expected = pairs.results.contrast("`new - old` - `third - old`")
    gate = pairs.gate("new - third > -0.1")
    assert (gate.estimate, gate.se) == (expected.params.iloc[0], expected.bse.iloc[0])
    # With questions of their own A - C less B - C is another number than A - B.
    fewer = pd.concat([log, third.iloc[:40]])
    assert er.compare(fewer, item="question").gate("new - third > -1").n == 40
    pairs = er.compare(fewer, item="question", baseline="old")
    with pytest.raises(MissingColumnError, match="Compare the two with each other"):
        pairs.gate("new - third > -1")
    with pytest.raises(ArgumentError, match="Compare the two with each other"):
        er.plan.separate(pairs, "new", "third")


def test_what_a_claim_rests_on_is_the_rows_of_its_estimates_and_not_all():
    log = er.datasets.paired(n_passages=40, difference=0.2, seed=4)
    log = log[(log["model"] != "old") | log["passage"].isin(log["passage"].unique()[:30])].reset_index(drop=True)
    log = pd.concat([log, log.assign(model="apart " + log["model"], passage="apart " + log["passage"].astype(str))])
    log = log.assign(minutes=2.0 ** (np.arange(len(log)) % 5))
    claims = {"old": (150, 30), "new": (200, 40), "new - old": (350, 40), "new - `apart new`": (400, 80)}
    kinds = er.mean(log, by="model", groups="passage"), er.horizon(log, "score", groups="passage")
    fits = (er.fit("score ~ 0 + model", log, groups="passage", family=name) for name in ("gaussian", "binomial"))
    for results in (*kinds, *(fit.contrast(np.eye(4), sorted(set(log["model"]))) for fit in fits)):
        for claim in claims if results in kinds else list(claims)[2:]:
            gate, (n, clusters) = results.gate(f"{claim} > 0"), claims[claim]
            assert (gate.n, gate.n_clusters["passage"]) == (n, clusters)
            line = " ".join(str(results.contrast(claim).summary()).split())
            assert f"{n} rows in {clusters} passage clusters" in line


@pytest.mark.parametrize(
    "claim",
    [
        *("", " ", "new", "new + old > 0", "new - old", "new - old = 0", "new - old >= 0", "new - old > "),
        *("new - old > 1%", "new - old > zero", "new - old > 0 and more", "new - new > 0", "`new - old > 0"),
        *("new - old - base > 0", "new - old < 1e999"),
    ],
)
def test_a_claim_that_cannot_be_read_is_refused(comparison, claim):
    with pytest.raises(FormulaError) as caught:
        comparison.gate(claim)
    assert caught.value.parameter == "claim"


@pytest.mark.parametrize("losses", [0, 1, 2])
def test_one_failure_does_not_pass_a_gate(losses):
    """300 questions and a margin of 0.01; the exact tests have 0.049, 0.198 and 0.42."""
    n = 300
    score = np.append(np.arange(n) >= losses, np.ones(n, dtype=bool)).astype(int)
    frame = pd.DataFrame({"model": np.repeat(["new", "old"], n), "item": np.tile(np.arange(n), 2), "score": score})
    with muted():
        gate = er.compare(frame).gate("new - old > -0.01")
    exact = stats.binom.cdf(losses, n, 0.01)
    assert gate.verdict == ("shown" if exact < 0.05 else "cannot tell")
    assert (gate.lower > -0.01) == (exact < 0.05)
    if losses == 0:  # Tango's lower limit without a difference, with the quantile of t
        t = stats.t.ppf(0.95, n - 1)
        assert gate.lower == pytest.approx(-(t**2) / (n + t**2), rel=0.02)


def test_names_that_a_summary_shows_can_be_typed():
    results = er.fit("score ~ C(model)", er.datasets.paired(n_passages=20, seed=2), groups="passage")
    assert "model=old" in str(results.summary())
    assert results.gate("`model=old` < 0.5").estimate == results.params["C(model)[T.old]"]
    for contrast in ("`model=old` = 0", {"model=old": 1}):
        assert results.t_test(contrast).effect == pytest.approx([results.params["C(model)[T.old]"]])

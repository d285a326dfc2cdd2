"""Means over strata with shares known and shares estimated: survey's numbers, sums written out, simulated truth."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.errors import ArgumentError, NotAvailableError, TooFewClustersError

REFERENCE = Path(__file__).parent / "reference"
# R prints 17 digits.
SAME = 1e-12

pytestmark = pytest.mark.filterwarnings(
    "ignore::evalreg.errors.FewClustersWarning", "ignore::evalreg.errors.DominantClusterWarning"
)


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    """Three subjects with clusters of very unequal size; see reference/strata.py."""
    return pd.read_csv(REFERENCE / "strata.csv")


@pytest.fixture(scope="module")
def survey() -> dict:
    """What survey says of it; see reference/strata.R."""
    return json.loads((REFERENCE / "strata.json").read_text())


@pytest.mark.parametrize("weights", [None, "weight"])
@pytest.mark.parametrize(("how", "key"), [("micro", "known"), ("as_sampled", "estimated")])
def test_both_readings_of_the_shares_are_surveys(log, survey, weights, how, key):
    expected = survey["weighted" if weights else "plain"]
    results = er.mean(log, strata="subject", strata_weights=how, groups="passage", weights=weights, cov="CR1", ssc="G")
    assert results.params["mean"] == pytest.approx(expected["mean"], rel=SAME)
    assert results.bse["mean"] == pytest.approx(expected[key], rel=SAME)
    assert results.dof["mean"] == expected["dof"]
    if key == "estimated":
        ends = results.conf_int(method="wald").loc["mean"]
        np.testing.assert_allclose(ends, [expected["lower"], expected["upper"]], rtol=SAME)
    # What stood under survey's name was the other one.
    assert expected["estimated"] > 1.5 * expected["known"]


def written_out(log: pd.DataFrame, power: float) -> float:
    """Stratified variance of the linearized cluster totals, with each stratum's (G/(G - 1))^power."""
    z = ((log["score"] - log["score"].mean()) / len(log)).groupby([log["subject"], log["passage"]]).sum()
    by = z.groupby(level=0)
    G = by.transform("size")
    return float(np.sum((G / (G - 1)) ** power * (z - by.transform("mean")) ** 2))


@pytest.mark.parametrize(("cov", "power"), [("CR0", 0), ("CR1", 1), ("CR2", 1)])
def test_estimated_shares_centre_the_linearized_totals_within_strata(log, cov, power):
    results = er.mean(log, strata="subject", strata_weights="as_sampled", groups="passage", cov=cov)
    assert results.bse["mean"] ** 2 == pytest.approx(written_out(log, power), rel=SAME)


def test_clusters_of_one_size_leave_nothing_between_the_readings():
    log = er.datasets.passages(n_passages=24, questions_per_passage=4, icc=0.3, seed=1)
    for groups in ("passage", None):
        known, drawn = (
            er.mean(log, strata="subject", strata_weights=w, groups=groups) for w in ("micro", "as_sampled")
        )
        np.testing.assert_allclose(known.bse, drawn.bse, rtol=SAME)
        np.testing.assert_allclose(known.dof, drawn.dof, rtol=1e-9)


def test_independent_rows_do_not_know_the_difference(log):
    known, drawn = (er.mean(log, strata="subject", strata_weights=w) for w in ("micro", "as_sampled"))
    np.testing.assert_allclose(known.bse, drawn.bse, rtol=SAME)


def test_models_have_their_own_shares_and_a_joint_covariance(log):
    both = pd.concat([log.assign(model="a"), log.assign(model="b", score=1 - log["score"])])
    results = er.mean(both, by="model", strata="subject", strata_weights="as_sampled", groups="passage", cov="CR1")
    np.testing.assert_allclose(results.bse**2, written_out(log, 1), rtol=SAME)
    np.testing.assert_allclose(results.contrast({"a": 1, "b": 1}).params, 1.0)
    assert results.cov_params().loc["a", "b"] == pytest.approx(-written_out(log, 1), rel=SAME)


@pytest.mark.parametrize("library", ["polars", "lazy"])
def test_other_engines_give_the_same_numbers(log, library):
    pl = pytest.importorskip("polars")
    data = pl.from_pandas(log) if library == "polars" else pl.from_pandas(log).lazy()
    roles = {"strata": "subject", "strata_weights": "as_sampled", "groups": "passage"}
    np.testing.assert_allclose(er.mean(data, **roles).conf_int(), er.mean(log, **roles).conf_int(), rtol=1e-10)


def test_the_summary_says_which_reading_it_is(log):
    texts = {
        how: er.mean(log, strata="subject", strata_weights=how, groups="passage")
        .summary()
        .as_text()
        .replace("\n    ", " ")
        for how in ("micro", "as_sampled", "macro")
    }
    assert "shares of the rows are taken as known" in texts["micro"]
    assert "shares are estimated from the clusters drawn" in texts["as_sampled"]
    assert "they count alike" in texts["macro"]


def test_copies_and_further_clusterings_keep_the_reading(log):
    results = er.mean(log, strata="subject", strata_weights="as_sampled", groups="passage")
    for again in (copy.deepcopy(results), pickle.loads(pickle.dumps(results)), results.with_cov(groups="passage")):
        np.testing.assert_allclose(again.bse, results.bse, rtol=SAME)
    later = er.mean(log, strata="subject", strata_weights="as_sampled").with_cov(groups="passage")
    np.testing.assert_allclose(later.bse, results.bse, rtol=SAME)
    np.testing.assert_allclose(results.influence(by="passage").pow(2).sum(), written_out(log, 0), rtol=1e-10)


def test_what_does_not_fit_says_so(log):
    with pytest.raises(ArgumentError, match="as_sampled"):
        er.mean(log, strata="subject", strata_weights="sampled", groups="passage")
    with pytest.raises(NotAvailableError, match="jackknife"):
        er.mean(log, strata="subject", strata_weights="as_sampled", groups="passage", cov="jackknife")
    with pytest.raises(NotAvailableError, match="shares of strata are estimated"):
        er.mean(log, strata="subject", strata_weights="as_sampled", groups="passage").influence()
    single = log[(log["subject"] != "law") | (log["passage"] == "law passage-001")]
    with pytest.raises(TooFewClustersError, match="law"):
        er.mean(single, strata="subject", strata_weights="as_sampled", groups="passage", cov="CR1")


@pytest.mark.slow
def test_estimated_shares_cover_the_mean_of_the_population_and_known_ones_do_not():
    # 200 logs at .95 are above .9 but once in a thousand.
    rng, hits = np.random.default_rng(12), {"micro": 0, "as_sampled": 0}
    for _ in range(200):
        parts = []
        for subject, mean in (("a", 0.9), ("b", 0.55), ("c", 0.2)):
            sizes = rng.geometric(0.2, 20)
            p = rng.beta(9 * mean, 9 * (1 - mean), 20).repeat(sizes)
            passage = np.char.add(subject, np.arange(20).repeat(sizes).astype(str))
            parts.append(
                pd.DataFrame({"subject": subject, "passage": passage, "score": 1.0 * (rng.random(p.size) < p)})
            )
        log = pd.concat(parts)
        for how in hits:
            low, high = er.mean(log, strata="subject", strata_weights=how, groups="passage").conf_int().loc["mean"]
            hits[how] += low <= 0.55 <= high
    assert hits["as_sampled"] > 180
    assert hits["micro"] < 175


def test_effective_rows_of_a_model_are_out_of_its_own():
    log = er.datasets.paired(n_passages=40, questions_per_passage=5, seed=1)
    log["subject"] = np.where(log["passage"] < "passage-015", "law", "algebra")
    both = er.mean(log, by="model", item="question", strata="subject", groups="passage")
    for model, rows in log.groupby("model"):
        alone = er.mean(rows, item="question", strata="subject", groups="passage")
        np.testing.assert_allclose(both.n_eff()[model], alone.n_eff().iloc[0], rtol=1e-10)

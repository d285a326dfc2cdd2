"""A kind of scores of a few lines, not of the package: covariances and diagnostics ask it for nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

import evalreg as er
from evalreg.data.clusters import Labels, as_codes, factorize
from evalreg.errors import NotAvailableError
from evalreg.numerics.matrices import compressed
from evalreg.scores.base import Block, LabelledScores

RTOL = 1e-12


@dataclass(frozen=True, eq=False)
class WeightedScores(LabelledScores):
    """Scores of one weighted mean, w (y - mean)."""

    y: np.ndarray
    mean: float
    labels: Labels
    weights: np.ndarray

    @property
    def n_columns(self):
        return 1

    def cells(self, by):
        codes = self.labels.codes(by)
        totals = np.bincount(codes.codes, self.weights * (self.y - self.mean))
        yield Block(compressed(totals[:, None]), compressed(np.bincount(codes.codes, self.weights)[:, None]))


@pytest.fixture
def log(rng):
    n = 120
    return pd.DataFrame(
        {"y": rng.random(n), "w": 0.5 + rng.random(n), "p": rng.integers(0, 14, n), "j": rng.integers(0, 11, n)}
    ).astype({"p": str, "j": str})


@pytest.fixture
def estimate(log):
    y, w = log["y"].to_numpy(), log["w"].to_numpy()
    mean = float(y @ w / w.sum())
    labels = Labels(len(log), {name: as_codes(*factorize(log[name])) for name in ("p", "j")})
    scores = WeightedScores(y, mean, labels, w)
    return er.Estimate(("mean",), np.array([mean]), scores, np.array([[1 / w.sum()]]), "mean")


def _total_squares(estimate, by):
    """Squares of the influence of clusters, summed, by pandas."""
    scores = estimate.scores
    influence = pd.Series(scores.weights * (scores.y - scores.mean) / scores.weights.sum())
    return float((influence.groupby(by).sum() ** 2).sum())


def test_rows_are_independent_without_clusters(estimate, log):
    n = len(log)
    variance = er.infer(estimate).cov_params().to_numpy()
    np.testing.assert_allclose(variance, _total_squares(estimate, np.arange(n)) * n / (n - 1), rtol=RTOL)


def test_one_clustering_sums_within_clusters(estimate, log):
    one, G = er.infer(estimate, groups="p", cov="CR1"), log["p"].nunique()
    expected = _total_squares(estimate, log["p"]) * G / (G - 1)
    np.testing.assert_allclose(one.cov_params().to_numpy(), expected, rtol=RTOL)


def test_two_clusterings_add_and_subtract(estimate, log):
    both = er.infer(estimate, groups="p + j", cov="CR0", repair="none")
    p, j = (_total_squares(estimate, log[name]) for name in ("p", "j"))
    joint = _total_squares(estimate, log["p"] + ":" + log["j"])
    np.testing.assert_allclose(both.cov_params().to_numpy(), p + j - joint, rtol=RTOL)


def test_diagnostics_and_labels_need_no_more(estimate, log):
    results = er.infer(estimate, groups="p", cov="CR1")
    assert results.diagnostics()["n_clusters"].tolist() == [log["p"].nunique()]
    ratio = results.cov_params().to_numpy() / er.infer(estimate).cov_params().to_numpy()
    np.testing.assert_allclose(results.design_effect(), ratio.ravel(), rtol=RTOL)
    assert results.icc().isna().all()
    again = results.with_cov(groups=np.asarray(log["j"]))
    np.testing.assert_allclose(again.bse, er.infer(estimate, groups="j").bse, rtol=RTOL)
    np.testing.assert_allclose(results.influence(by="p").pow(2).sum(), _total_squares(estimate, log["p"]), rtol=RTOL)


def test_what_was_not_said_is_refused(estimate):
    results = er.infer(estimate, groups="p", cov="CR1")
    with pytest.raises(NotAvailableError, match="name a clustering"):
        results.influence()
    with pytest.raises(NotAvailableError, match="needs the design"):
        results.with_cov(cov="CR2")


def test_it_stacks_with_a_mean_of_the_package(estimate, log):
    other = er.mean(log, "y", groups="p").estimate.linear([[1]], ["plain"])
    both = er.infer(estimate.stack(other), groups="p", cov="CR0").cov_params().to_numpy()
    alone = er.infer(estimate, groups="p", cov="CR0").cov_params().to_numpy()
    np.testing.assert_allclose(both[0, 0], alone[0, 0], rtol=RTOL)

"""Simulated scores with known truth: many logs at once, one column each.

Rows of a cluster stand together. Every world has an exact mean and an exact intraclass correlation, so that coverage is
measured against the truth and not against an average of estimates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

ROWS_PER_CLUSTER = 8
# Share of the rows in the largest cluster of a "dominant" log.
DOMINANT = 0.4
# Variance of fractional scores, as a share of the largest possible, mean (1 - mean).
FRACTION_SPREAD = 0.3
DIGITS = 6
# Clusters of sizes 1 to 500: this share has one row, the others are evenly spaced on the log scale.
SINGLE_ROWS, MOST_ROWS = 0.7, 500
# Standard deviation of scores that hardly vary, by mean.
LOW_SPREAD = {0.01: 0.004, 0.05: 0.05, 0.95: 0.02}
# Scores of most rows and of the rare ones; the scores of a zero-inflated world that are not 0 are uniform.
USUAL, RARE = 0.01, 0.9


@dataclass(frozen=True, eq=False)
class Clusters:
    """Rows in clusters, the rows of a cluster together.

    Parameters
    ----------
    sizes : ndarray of int, shape (G,)
        Rows of each cluster.
    """

    sizes: IntArray

    @property
    def codes(self) -> IntArray:
        """Cluster of each row."""
        return np.repeat(np.arange(self.sizes.size), self.sizes)

    @property
    def effective(self) -> float:
        """Kish's effective number of clusters."""
        return float(self.sizes.sum() ** 2 / np.sum(self.sizes**2))

    def sums(self, values: FloatArray) -> FloatArray:
        """Sums over the rows of each cluster, along the first axis."""
        starts = np.concatenate([[0], np.cumsum(self.sizes)[:-1]])
        return np.add.reduceat(values, starts, axis=0)


def cluster_sizes(kind: str, n_clusters: int) -> IntArray:
    """Sizes of clusters, eight rows on average but for the dominant one.

    "balanced": all equal. "unequal": quantiles of a lognormal with sigma 1, so that about half of the clusters count
    (G* near G/2.5). "dominant": equal but for one that holds 40% of the rows. "single": one row each. "1to500": 70%
    with one row, the others from 2 to 500. A number: all of that size.
    """
    if kind.isdigit():
        return np.full(n_clusters, int(kind), dtype=np.int64)
    if kind == "single":
        return np.ones(n_clusters, dtype=np.int64)
    if kind == "1to500":
        n_single = round(SINGLE_ROWS * n_clusters)
        rest = np.rint(np.geomspace(2, MOST_ROWS, n_clusters - n_single)).astype(np.int64)
        return np.concatenate([np.ones(n_single, dtype=np.int64), rest])
    if kind == "unequal":
        quantiles = np.exp(special.ndtri((np.arange(n_clusters) + 0.5) / n_clusters))
        return np.maximum(np.rint(quantiles / quantiles.mean() * ROWS_PER_CLUSTER), 1).astype(np.int64)
    sizes = np.full(n_clusters, ROWS_PER_CLUSTER, dtype=np.int64)
    if kind == "dominant":
        sizes[-1] = round(DOMINANT / (1 - DOMINANT) * sizes[:-1].sum())
    return sizes


def clustered_scores(
    rng: np.random.Generator, clusters: Clusters, kind: str, mean: FloatArray | float, icc: float, n_logs: int
) -> FloatArray:
    """Scores of many logs, shape (n_rows, n_logs).

    Parameters
    ----------
    rng : Generator
        Source of the draws.
    clusters : Clusters
        Which rows belong together.
    kind : {"binary", "fraction", "normal", "skewed"}
        Beta-binomial 0/1 scores; Beta scores around the cluster's Beta mean; normal with variance 1; sums of two
        centred exponentials with variance 1 and skewness up to 2.
    mean : float or ndarray, shape (G,)
        Expected score, the same for all clusters or one for each.
    icc : float
        Intraclass correlation.
    n_logs : int
        Logs.

    Returns
    -------
    ndarray, shape (n_rows, n_logs)
        Independent columns.
    """
    G, codes = clusters.sizes.size, clusters.codes
    n_rows = codes.size
    if kind in ("normal", "skewed"):
        draw = rng.standard_normal if kind == "normal" else lambda size: rng.standard_exponential(size) - 1.0
        between, within = draw((G, n_logs)), draw((n_rows, n_logs))
        centre = np.broadcast_to(np.asarray(mean), (G,))[codes]
        return centre[:, None] + np.sqrt(icc) * between[codes] + np.sqrt(1 - icc) * within
    between_share = icc if kind == "binary" else icc * FRACTION_SPREAD
    precision = 1 / between_share - 1
    centre = np.broadcast_to(np.asarray(mean, dtype=float), (G,))[:, None]
    p = rng.beta(centre * precision, (1 - centre) * precision, (G, n_logs))[codes]
    if kind == "binary":
        return (rng.random((n_rows, n_logs)) < p).astype(np.float64)
    # Within a cluster the variance is p (1 - p)/(k + 1); this k gives the intraclass correlation.
    k = precision * icc / (1 - icc) - 1
    p = np.clip(p, 1e-9, 1 - 1e-9)
    # Graders do not write more digits, and scores within rounding of 1 would be a world of their own.
    return np.round(rng.beta(p * k, (1 - p) * k), DIGITS)


def scores_near_an_end(
    rng: np.random.Generator, clusters: Clusters, kind: str, level: float, icc: float, n_logs: int
) -> tuple[FloatArray, float]:
    """Scores in [0, 1] that are no 0/1 trials, shape (n_rows, n_logs), and their expected score.

    "low_spread": Beta scores with mean `level` and the standard deviation of `LOW_SPREAD`, around the cluster's Beta
    mean. "zero_inflated": uniform where a 0/1 draw with mean `level` is 1, and 0 elsewhere. "rare_large": .9 where it
    is 1, and .01 elsewhere. Other kinds are those of `clustered_scores`, with mean `level`. With clusters of one row
    each the intraclass correlation tells nothing.
    """
    if kind in ("binary", "fraction"):
        return clustered_scores(rng, clusters, kind, level, icc, n_logs), level
    if kind == "low_spread":
        total = level * (1 - level) / LOW_SPREAD[level] ** 2
        k = total / icc - 1
        p = rng.beta(level * k, (1 - level) * k, (clusters.sizes.size, n_logs))
        p = np.clip(p, 1e-9, 1 - 1e-9)[clusters.codes]
        k = k * icc / (1 - icc) - 1
        return np.round(rng.beta(p * k, (1 - p) * k), DIGITS), level
    seldom = clustered_scores(rng, clusters, "binary", level, icc, n_logs)
    if kind == "zero_inflated":
        return np.round(seldom * rng.random(seldom.shape), DIGITS), level / 2
    return np.where(seldom == 1, RARE, USUAL), USUAL + (RARE - USUAL) * level


@dataclass(frozen=True, eq=False)
class Design:
    """A regression on an intercept, a covariate of clusters and a covariate of rows.

    Parameters
    ----------
    clusters : Clusters
        Which rows belong together.
    X : ndarray, shape (n_rows, 3)
        Ones, treated, x.
    treated : ndarray of bool, shape (G,)
        Treated clusters.
    """

    clusters: Clusters
    X: FloatArray
    treated: npt.NDArray[np.bool_]


def regression_design(rng: np.random.Generator, sizes: IntArray, treated_share: float) -> Design:
    """Return a design drawn anew: at least two clusters treated and two not, and x a third between clusters."""
    G = sizes.size
    clusters = Clusters(rng.permutation(sizes))
    n_treated = min(max(round(treated_share * G), 2), G - 2)
    treated = np.zeros(G, dtype=bool)
    treated[rng.permutation(G)[:n_treated]] = True
    codes = clusters.codes
    x = np.sqrt(0.3) * rng.standard_normal(G)[codes] + np.sqrt(0.7) * rng.standard_normal(codes.size)
    return Design(clusters, np.column_stack([np.ones(codes.size), treated[codes], x]), treated)


def paired_scores(
    rng: np.random.Generator, clusters: Clusters, kind: str, means: tuple[float, float], icc: float, n_logs: int
) -> tuple[FloatArray, FloatArray]:
    """Scores of two models on the same questions, each (n_rows, n_logs).

    The latent score of a model on a question is a sum of normals with total variance 1: of the passage, `icc`, half of
    it shared by the models; of the question, half of the rest, shared by the models; and noise. A 0/1 score says
    whether it lies below the quantile that gives the model its mean.
    """
    codes, G = clusters.codes, clusters.sizes.size
    shared = np.sqrt(icc / 2) * rng.standard_normal((G, n_logs))[codes]
    shared += np.sqrt((1 - icc) / 2) * rng.standard_normal((codes.size, n_logs))
    scores = []
    for mean in means:
        own = np.sqrt(icc / 2) * rng.standard_normal((G, n_logs))[codes]
        latent = shared + own + np.sqrt((1 - icc) / 2) * rng.standard_normal((codes.size, n_logs))
        scores.append(mean + latent if kind == "normal" else (latent < special.ndtri(mean)).astype(np.float64))
    return scores[0], scores[1]


# Variance shares of the latent score of a prompt under a judge; the rest is their interaction and noise.
PROMPT_SHARE = 0.3


def crossed_mask(rng: np.random.Generator, n_prompts: int, n_judges: int, grid: str) -> npt.NDArray[np.bool_]:
    """Which judge sees which prompt: all, or each prompt a random half of the judges (at least two).

    "unequal": the first prompt meets all, and every other a random tenth; of a dozen, the first holds half the rows.
    """
    if grid == "complete":
        return np.ones((n_prompts, n_judges), dtype=bool)
    rank = rng.random((n_prompts, n_judges)).argsort(axis=1).argsort(axis=1)
    if grid == "unequal":
        mask = rank < max(2, n_judges // 10)
        mask[0] = True
        return mask
    return rank < max(2, -(-n_judges // 2))


def crossed_scores(
    rng: np.random.Generator, shape: tuple[int, int], kind: str, mean: float, judge_share: float, n_logs: int
) -> FloatArray:
    """Scores of every prompt under every judge, shape (n_prompts, n_judges, n_logs); 0/1 by a normal threshold."""
    P, J = shape
    latent = np.sqrt(1 - PROMPT_SHARE - judge_share) * rng.standard_normal((P, J, n_logs))
    latent += np.sqrt(PROMPT_SHARE) * rng.standard_normal((P, 1, n_logs))
    latent += np.sqrt(judge_share) * rng.standard_normal((1, J, n_logs))
    return mean + latent if kind == "normal" else (latent < special.ndtri(mean)).astype(np.float64)


def many_models(rng: np.random.Generator, n_questions: int, truth: FloatArray, icc: float) -> FloatArray:
    """0/1 scores of models on the same questions, shape (n_questions, n_models), correlated within a question."""
    latent = np.sqrt(icc) * rng.standard_normal((n_questions, 1))
    latent = latent + np.sqrt(1 - icc) * rng.standard_normal((n_questions, truth.size))
    return (latent < special.ndtri(truth)).astype(np.float64)

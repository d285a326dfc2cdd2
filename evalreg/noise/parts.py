"""How much of a variance is the sampling of answers: of means of models, and of differences of pairs of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, quotient
from evalreg.covariance.crossed import t_quantile
from evalreg.data.answers import AnswerTable
from evalreg.data.clusters import Codes
from evalreg.numerics.limits import EQUAL, HELD, ROUNDING
from evalreg.numerics.matrices import Matrix

# A share of the variance below which more answers buy next to nothing.
ENOUGH = 0.05
# With fewer questions (clusters) than this whose mean is not the usual one, the share has no interval.
FEWEST_APART = 8


@dataclass(frozen=True, eq=False)
class Parts:
    """What the answers say about each column, a model or a pair of models, shape (m,) each."""

    sigma2: FloatArray  # variance of one answer of each model, averaged over questions and added over the two models
    prediction: FloatArray  # variance of the estimate that is the sampling of answers
    share: FloatArray  # the same over the variance of the estimate
    share_se: FloatArray  # NaN where too few clusters differ from the usual one
    share_dof: FloatArray
    n: IntArray  # questions
    n_clusters: IntArray
    n_single: IntArray  # questions with a single answer of the model, or of one of the two

    @property
    def k(self) -> FloatArray:
        """Answers to each question that would leave as much noise as these; NaN where answers do not vary."""
        return quotient(self.sigma2, self.n * self.prediction)

    def shares(self, alpha: float) -> FloatArray:
        """Intervals of the shares, shape (m, 2), by t with `share_dof` degrees of freedom; not cut off.

        They hold both the interval of the share itself and, where it lies between 0 and 1, that of its log odds: either
        alone is too short where few questions carry the noise, or where noise is nearly all.
        """
        t = t_quantile(alpha, self.share_dof)
        inside = (self.share > 0) & (self.share < 1)
        share = np.where(inside, self.share, 0.5)
        half = np.minimum(t * self.share_se / (share * (1 - share)), 500.0)
        odds = share / (1 - share) * np.exp([-half, half])
        ends = self.share + np.array([-1.0, 1.0])[:, None] * t * self.share_se
        other = np.where(inside, odds / (1 + odds), ends)
        return np.stack([np.minimum(ends[0], other[0]), np.maximum(ends[1], other[1])], axis=1)

    def enough(self, share: FloatArray) -> FloatArray:
        """Answers at which noise keeps `ENOUGH` of the variance, if it has `share` of it now; infinite from 1 on.

        Miller (2024), arXiv:2411.00640, section 3.1: sigma2/K over omega2 + sigma2/K, with omega2 = (1/share - 1)
        sigma2/K at the K in use.
        """
        share = np.where(np.isnan(share), np.nan, np.clip(share, 0.0, 1.0))
        k = np.where(np.isnan(self.k) & (self.prediction == 0), 1.0, self.k)
        with np.errstate(divide="ignore"):
            needed = k * share / (1 - share) * (1 - ENOUGH) / ENOUGH
        return np.maximum(np.ceil(needed * (1 - EQUAL)), 1.0)


def noise_parts(answers: AnswerTable, left: IntArray, right: IntArray, cluster: Codes | None = None) -> Parts:
    """Parts of each column, left less right over the questions of both; where `right` is `NOBODY`, left alone.

    Answers are taken to be independent of each other given their questions, so that the noise of a mean over n
    questions is (1/n^2) sum_i sigma2_i/K_i whatever the clusters. It is over the variance between clusters as CR2 has
    it, sum_g T_g^2/(1 - n_g/n)/n^2, which without clusters is the variance of question means over n. The error of the
    quotient is that of a ratio of two sums over clusters. Shapes: left, right (m,); cluster codes of questions.
    """
    # NOBODY is the last row: it answered everything, without noise.
    n_questions = answers.mean.shape[1]
    nobody = np.zeros(n_questions)
    mean = np.vstack([answers.mean, nobody])
    present = np.vstack([answers.count > 0, nobody == 0])
    single = np.vstack([answers.count == 1, nobody > 0])
    sigma2 = np.vstack([answers.sigma2, nobody])
    noise = np.vstack([answers.noise, nobody])
    member = None
    if cluster is not None:
        place = (np.arange(n_questions), cluster.codes)
        member = sparse.csr_array((np.ones(n_questions), place), (n_questions, cluster.n_clusters))
    columns = []
    for part in np.array_split(np.arange(left.size), left.size * n_questions // HELD + 1):
        a, b = left[part], right[part]
        inside = present[a] & present[b]
        of_one, of_mean = (np.where(inside, of[a] + of[b], 0.0) for of in (sigma2, noise))
        difference = np.where(inside, mean[a] - mean[b], 0.0)
        columns.append(_parts(difference, of_one, of_mean, inside, single[a] | single[b], member))
    return Parts(*(np.concatenate(arrays) for arrays in zip(*columns, strict=True)))


def _parts(
    d: FloatArray, variance: FloatArray, noise: FloatArray, inside: BoolArray, single: BoolArray, member: Matrix | None
) -> tuple[FloatArray | IntArray, ...]:
    """The fields of `Parts`, shape (m,) each, from (m, n_questions) arrays that are 0 outside."""
    n = inside.sum(axis=1)
    some = np.maximum(n, 1)[:, None]
    centred = np.where(inside, d - d.sum(axis=1, keepdims=True) / some, 0.0)
    sums = [noise, centred, inside.astype(float)]
    top, totals, sizes = sums if member is None else [np.asarray(each @ member) for each in sums]
    n_clusters = np.count_nonzero(sizes, axis=1)
    rest = 1 - sizes / some
    bottom = quotient(totals**2, rest, 0.0)
    below, scale = bottom.sum(axis=1), np.max(np.abs(d), axis=1, initial=0.0)
    # Differences that are all alike leave rounding.
    flat = below <= ROUNDING**2 * some[:, 0] * scale**2
    below = np.where((n_clusters < 2) | flat, np.nan, below)
    share = top.sum(axis=1) / below
    apart = top - share[:, None] * bottom
    factor = n_clusters / np.maximum(n_clusters - 1, 1)
    share_se = np.sqrt(factor * np.einsum("mg,mg->m", apart, apart)) / below
    means = quotient(totals, sizes)
    # Columns without any cluster have no middle. The middle mean is that of most where nearly all scores are alike.
    means[n_clusters == 0] = 0.0
    unusual = np.abs(means - np.nanmedian(means, axis=1, keepdims=True)) > EQUAL * scale[:, None]
    share_se = np.where(np.count_nonzero(unusual, axis=1) < FEWEST_APART, np.nan, share_se)
    worth = np.minimum(_effective(apart**2), _effective(bottom))
    return (
        variance.sum(axis=1) / some[:, 0],
        noise.sum(axis=1) / some[:, 0] ** 2,
        share,
        share_se,
        np.clip(2 * worth - 1, 1.0, np.maximum(n_clusters - 1.0, 1.0)),
        n,
        n_clusters,
        (inside & single).sum(axis=1),
    )


def _effective(squares: FloatArray) -> FloatArray:
    """How many equal clusters would make a sum of squares as these do, shape (m,); 1 where there are none."""
    return quotient(squares.sum(axis=1) ** 2, np.einsum("mg,mg->m", squares, squares), 1.0)


# Columns of the tables

OF_PAIRS = ("z", "p_value", "wins", "losses", "sign_p_value", "detectable", "paired")


def noise_columns(parts: Parts, variance: FloatArray, alpha: float) -> dict[str, FloatArray]:
    """Columns of both tables."""
    total = np.where(variance > 0, variance, np.nan)
    data = total - parts.prediction
    low, high = parts.shares(alpha).T
    columns = {"se_prediction": np.sqrt(parts.prediction), "se_data": _root(data), "se_total": np.sqrt(total)}
    columns |= {"prediction_share": parts.share, "share_lower": np.maximum(low, 0.0), "share_upper": high}
    columns["share_upper"] = np.maximum(np.minimum(high, 1.0), columns["share_lower"])
    for name, share in (("answers", parts.share), ("lower", low), ("upper", high)):
        columns[f"enough_{name}"] = parts.enough(share)
    columns |= {"sigma2": parts.sigma2, "data_variance": data, "se_one_answer": _root(data + parts.sigma2 / parts.n)}
    return columns | {"n": parts.n, "n_clusters": parts.n_clusters, "n_single": parts.n_single}


def _root(variance: FloatArray) -> FloatArray:
    return np.sqrt(np.where(variance > 0, variance, np.nan))


def middle(column: pd.Series[float]) -> float:
    """The median of what is known, the upper one where infinite values are among it; NaN where nothing is."""
    known = column.to_numpy(dtype=float)
    known = known[~np.isnan(known)]
    if not known.size:
        return float("nan")
    return float(np.quantile(known, 0.5, method="higher" if np.isinf(known).any() else "linear"))

"""The spread of a mean over prompt templates, the noise of items taken out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import chdtri

from evalreg.checks import FloatArray, IntArray, MissingName, fraction, listed
from evalreg.covariance.options import CovOptions
from evalreg.data.groups import Groups
from evalreg.data.questions import shared_rows
from evalreg.errors import ArgumentError
from evalreg.estimate import About, Estimate
from evalreg.estimators.cells import Split
from evalreg.estimators.functions_of_means import from_row_influence
from evalreg.estimators.wins import answers_of
from evalreg.inference.behind import Behind
from evalreg.results.results import Results, results_of


@dataclass(frozen=True, eq=False)
class Spread(Behind):
    """A standard deviation among other values, the root of the variance behind it less a noise.

    The interval is that of a chi-squared with as many degrees of freedom as the error of the variance shows,
    2 v^2/Var(v) (Satterthwaite 1946, Biometrics Bulletin 2), less the noise and turned to roots.
    """

    noise: float

    def ends(self, estimate: Estimate, cov: Any, alpha: float) -> FloatArray:
        """Wald's ends; of the spread the roots of those of its square, at least 0."""
        theta, half = np.array(estimate.params), cov.critical(alpha=alpha) * np.sqrt(cov.variance())
        limits = np.column_stack([theta - half, theta + half])
        raw = float(self.behind.params[0])
        nu = 2 * raw**2 / self.covariance(cov).variance()
        square = nu * raw / chdtri(nu, np.array([alpha / 2, 1 - alpha / 2])) - self.noise
        limits[self.at == 1] = np.sqrt(np.maximum(square, 0.0))
        return limits


def mean_over(
    data: Any, score: str, over: str, item: str | None, q: Any, groups: Groups, missing: MissingName, asked: CovOptions
) -> Results:
    """Mean, spread and quantiles of the means of templates, whose items are all the same."""
    if item is None:
        raise ArgumentError("`over` needs `item`, the column of the items that all templates were put to.")
    shares = [fraction("q", one) for one in np.atleast_1d(np.asarray(q, dtype=object))]
    if len(set(shares)) < len(shares):
        raise ArgumentError(f"`q` must name each quantile once; got {listed(shares)}.")
    clusters = [item, over] if groups is None else groups
    rows, names, template = answers_of(data, {"score": score}, {"over": over, "item": item}, missing, clusters)
    kept, line = shared_rows(rows.used[over], names, rows.used[item], item)
    if not kept.all():
        rows, template = rows.only(kept, "unshared"), template[kept]
    split = Split(rows, ("mean",), None)
    y, codes, n_items = rows.values["score"], rows.used[item].codes, rows.used[item].n_clusters
    value, influence, raw, noise, of_square = _spread(y, template, codes, (len(names), n_items), np.array(shares))
    labels = ("mean", "sd", *(f"q{share:g}" for share in shares))
    said = f"{score} over {len(names)} templates ({over}); the noise of {n_items} items is taken out of the spread."
    about = About(f"Mean over {over}", score, lines=(line, said))
    behind = from_row_influence(split, np.array([raw]), of_square[:, None], ["variance"], about)
    estimate = from_row_influence(split, value, influence, labels, about)
    family = Spread(behind, np.arange(value.size), noise)
    return results_of(replace(estimate, family=family), rows.axes, asked)


def _spread(
    y: FloatArray, template: IntArray, item: IntArray, shape: tuple[int, int], q: FloatArray
) -> tuple[FloatArray, FloatArray, float, float, FloatArray]:
    """Mean, sd and quantiles, and N times the influence of each row; the variance, its noise, and that on it less this.

    The variance is that of template means less MS/n, MS the mean square of template by item (Searle, Casella and
    McCulloch 1992, section 4.3). Added over a template the influence is that of the template, over an item that of the
    item.
    """
    T, n = shape
    N, m, of_item = T * n, np.bincount(template, y) / n, np.bincount(item, y) / T
    mean, raw = float(m.mean()), float(m.var(ddof=1))
    residual = y - m[template] - of_item[item] + mean
    MS = float(residual @ residual) / ((T - 1) * (n - 1))
    square = raw - MS / n
    apart, within = (m - mean)[template], y - m[template]
    of_raw = N * (2 * apart * within + apart**2) / ((T - 1) * n) - raw
    of_square = of_raw - (N * residual**2 / ((T - 1) * (n - 1)) - MS) / n
    sd, top = np.sqrt(max(square, 0.0)), np.sqrt(raw)
    of_sd = of_square / (2 * sd if sd > 0 else 2 * top)
    # Template means shrunk to the spread that is left: mean + (m - mean) sd/top.
    shrink = sd / top
    of_shrink = (of_sd - shrink * of_raw / (2 * top)) / top if sd > 0 else np.zeros(N)
    values, influence = [mean, sd], [y - mean, of_sd]
    for share in q:
        at = np.quantile(m, share)
        # Of a quantile each template has (share - (m <= at)) times the slope of the quantiles: Woodruff (1952).
        h = np.sqrt(share * (1 - share) / T)
        low, high = max(share - h, 0.0), min(share + h, 1.0)
        slope = float(np.diff(np.quantile(m, [low, high]))[0] / (high - low))
        of_templates = slope * (np.mean(m <= at) - (m <= at))[template]
        of_quantile = (y - mean - apart) * shrink + shrink * of_templates + (1 - shrink) * (y - mean)
        values.append(mean + (at - mean) * shrink)
        influence.append(of_quantile + (at - mean) * of_shrink)
    return np.array(values), np.column_stack(influence), raw, MS / n, of_square

"""Many contrasts judged together: one level for all, from draws of their largest statistic or from their number.

Every contrast has an interval and a p-value by its own rule. The family puts one level alpha* in place of alpha, so
that all intervals hold together: the p-value of one contrast at the 1 - alpha quantile of the largest of jointly normal
statistics, and never below alpha over their number (Bonferroni), which is all there is with few clusters or very many
models. Adjusted p-values are those of that level, and by step-down the smaller of these and Holm's.
"""

from __future__ import annotations

import bisect
import numbers
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import scipy

from evalreg.checks import BoolArray, FloatArray, IntArray, adjustment, fraction, listed, real_numbers
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.crossed import Widths, t_quantile
from evalreg.covariance.leverage import quadratic
from evalreg.data.frame import by_name
from evalreg.errors import AlignmentError, ArgumentError, ArgumentTypeError, NonFiniteError
from evalreg.inference.wald import parse_contrasts
from evalreg.numerics.limits import BLOCK, HELD, ROUNDING, SMALLEST_P
from evalreg.numerics.matrices import Matrix, dense, difference_rows, squared_entries

AdjustName: TypeAlias = Literal["holm", "fdr_bh", "bh", "bonferroni"]
ADJUSTMENTS: tuple[AdjustName, ...] = ("holm", "fdr_bh", "bonferroni")


def adjust_pvalues(p: FloatArray, method: AdjustName | Literal["fdr_by"]) -> FloatArray:
    """P-values adjusted for their number.

    NaN where `p` is. `method`: the names of statsmodels. Holm and Bonferroni bound the chance of any false rejection
    under any dependence; "fdr_bh" bounds the expected share of false ones, for independent or positively dependent
    statistics, "fdr_by" under any dependence. Holm (1979), Scandinavian Journal of Statistics 6, 65-70; Benjamini and
    Hochberg (1995), JRSS B 57, 289-300; Benjamini and Yekutieli (2001), Annals of Statistics 29, 1165-1188, theorem
    1.3. The same numbers as statsmodels' `multipletests`, which clears the memory of Python at every call. Shapes: p
    (m,); returns (m,).
    """
    adjusted = np.array(p, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(adjusted))
    rising = known[np.argsort(adjusted[known], kind="stable")]
    m, place = rising.size, np.arange(rising.size)
    # Each p times the nulls still standing (Holm), all of them, or their number over its rank (Benjamini, Hochberg).
    factor = {"holm": m - place, "bonferroni": np.full(m, m)}.get(method, m / (1 + place))
    if method == "fdr_by":
        factor = factor * np.sum(1 / (1 + place))
    each = np.minimum(adjusted[rising] * factor, 1.0)
    # A larger p is never adjusted to a smaller one.
    falling = method not in ("holm", "bonferroni")
    adjusted[rising] = np.minimum.accumulate(each[::-1])[::-1] if falling else np.maximum.accumulate(each)
    return adjusted


def base_seed(seed: object) -> tuple[int, int | None]:
    """A whole number to start from, and the seed to print (None for a Generator, which gives its next number)."""
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63)), None
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral):
        raise ArgumentTypeError(f"`seed` must be a whole number or a numpy.random.Generator; got {seed!r}.")
    if seed < 0:
        raise ArgumentError(f"`seed` must be 0 or more; got {seed!r}.")
    return int(seed), int(seed)


def block_stream(base: int, block: int) -> np.random.Generator:
    """The random numbers of one block, the same whatever else is drawn."""
    return np.random.default_rng(np.random.SeedSequence(base, spawn_key=(block,)))


Seed: TypeAlias = int | np.random.Generator

# Fewer degrees of freedom on some axis are few: each contrast then has an uncertain denominator of its own, of which
# the largest normal knows nothing (Bonferroni loses little there; docs/decisions/joint-statements.md).
LIKE_NORMAL = 50
# Draws of the largest statistic: the joint level is right to a few per cent. Of more models none are made (limits).
DRAWS, MOST_MODELS = 1 << 14, 200


def simultaneous(
    params: Any,
    cov: Any,
    *,
    contrasts: Any = None,
    alpha: float = 0.05,
    dof: Any = np.inf,
    stepdown: bool = False,
    seed: Seed = 0,
) -> pd.DataFrame:
    """Intervals valid for all contrasts at once, and p-values adjusted for all of them.

    Every contrast is judged at one level, at most alpha, by its own interval and p-value; `attrs["level"]` has it.
    The level is that of the largest of jointly normal statistics (of a multivariate t where one number of degrees of
    freedom serves all), by a fixed number of draws. With few clusters (an axis with less than 50 degrees of freedom) or
    more than 200 parameters it is alpha over the number of contrasts, without draws.

    Parameters
    ----------
    params : Series or array_like, shape (n_params,)
        Estimates.
    cov : Covariance, DataFrame or array_like, shape (n_params, n_params)
        Their covariance; a matrix must be positive semi-definite.
    contrasts : None, "pairs", str, dict, DataFrame or array_like, shape (n_contrasts, n_params), optional
        None, the default, is the parameters themselves; "pairs" all differences left - right; otherwise contrasts as
        in `Results.contrast`.
    alpha : float, optional
        One minus the joint confidence level, 0.05 by default.
    dof : float or array_like, shape (n_contrasts,), optional
        For a matrix, one number (the normal by default) or one for each contrast. A Covariance brings its own, and
        this is ignored.
    stepdown : bool, optional
        Whether `p_adjusted` is by step-down (the smaller of Holm's and that of the level), which rejects more. The
        intervals stay single-step.
    seed : int or Generator, optional
        Of the simulation, 0 by default.

    Returns
    -------
    DataFrame
        One row a contrast, columns `estimate se lower upper p_adjusted`. `attrs` has `level` (of each contrast),
        `critical_value` (of t with `dof`, or of the normal where degrees of freedom differ), its `monte_carlo_error`,
        `draws` (0 where contrasts are counted), `seed`, `dof`, and `left_out`, the reason for each contrast without a
        p-value: it is NaN and not in the family.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If an option breaks its rule, or a matrix is not positive semi-definite.
    AlignmentError
        If `params`, `cov` and `contrasts` do not fit each other.

    References
    ----------
    Hothorn, Bretz and Westfall (2008), Biometrical Journal 50(3), 346-363, sections 3 and 4; Holm (1979), Scandinavian
    Journal of Statistics 6, 65-70.

    Examples
    --------
    >>> rates = pd.Series({"x": 0.71, "y": 0.66, "z": 0.60})
    >>> bands = simultaneous(rates, np.eye(3) * 0.02**2, contrasts="pairs", dof=40.0)
    >>> print(bands.round(2).to_string())
                estimate    se  lower  upper  p_adjusted
    left right
    x    y          0.05  0.03  -0.02   0.12        0.19
         z          0.11  0.03   0.04   0.18        0.00
    y    z          0.06  0.03  -0.01   0.13        0.10
    >>> round(bands.attrs["critical_value"], 1)
    2.4
    """
    alpha = fraction("alpha", alpha)
    base, printed = base_seed(seed)
    family = family_of(params, cov, contrasts, dof, base)
    p, at = family.stepdown() if stepdown else family.adjusted(), family.level(alpha)
    estimate = family.matrix @ family.params.to_numpy()
    ends = np.where(family.inside[:, None], family.widths.limits(estimate, at), np.nan)
    columns = {"estimate": estimate, "se": family.se, "lower": ends[:, 0], "upper": ends[:, 1]}
    table = pd.DataFrame(columns | {"p_adjusted": p}, index=family.names)
    table.attrs = {
        "critical_value": family.critical(alpha),
        "level": at,
        "monte_carlo_error": family.error(alpha),
        "draws": DRAWS if family.drawn else 0,
        "seed": printed,
        "alpha": alpha,
        "dof": None if np.isinf(family.draw_dof) else family.draw_dof,
        "left_out": dict(family.reasons),
        "n_left_out": len(family.reasons),
    }
    return table


@dataclass(frozen=True, eq=False)
class Largest:
    """The distribution of the largest absolute of several normals, or of t statistics that share one scale.

    A normal vector is a length times a direction, independent of each other. Directions are drawn; over the length,
    and over the scale of t, the probability is exact, so that one contrast leaves nothing to chance. Deak (1980),
    Numerische Mathematik 35, 371-380.
    """

    extent: FloatArray  # (n_draws,): largest absolute statistic in a direction of length 1
    rank: int
    dof: float

    def beyond(self, value: FloatArray, extent: FloatArray) -> FloatArray:
        """P(length times extent >= value) of each value (rows) and extent."""
        square = (value[:, None] / np.maximum(extent, ROUNDING)) ** 2
        if np.isinf(self.dof):
            return np.asarray(scipy.special.chdtrc(self.rank, square))
        return np.asarray(scipy.special.fdtrc(self.rank, self.dof, square / self.rank))

    @cached_property
    def _bins(self) -> FloatArray:
        """Neighbours among the draws count as one: far below the error of the simulation."""
        return np.asarray(np.sort(self.extent).reshape(-1, 64).mean(axis=1))

    def _interpolated(self, nodes: Any) -> tuple[FloatArray, FloatArray]:
        """Logarithms of p-values of one contrast at some nodes, in rising order, and those of the largest there.

        Both are interpolated between neighbours. Of one contrast they are the same, and nothing is lost.
        """
        p = np.geomspace(SMALLEST_P, 1.0, BLOCK)[nodes]
        tail = self.beyond(t_quantile(p, np.full(p.shape, self.dof)), self._bins).mean(axis=1)
        return np.log(p), np.log(np.maximum(tail, p))

    def adjusted(self, p: FloatArray) -> FloatArray:
        """P(largest statistic >= that with the p-value); NaN where a p-value is."""
        log_p = np.log(np.maximum(p, SMALLEST_P))
        above = np.searchsorted(np.log(np.geomspace(SMALLEST_P, 1.0, BLOCK)), log_p)
        nodes = np.unique(np.clip([above - 1, above], 0, BLOCK - 1))
        return np.exp(np.interp(log_p, *self._interpolated(nodes)))

    def level(self, alpha: float) -> float:
        """The p-value whose adjusted one is alpha."""
        # By bisection of the nodes: ten of them are evaluated, and not all.
        above = bisect.bisect(range(BLOCK), np.log(alpha), key=lambda node: self._interpolated([node])[1][0])
        each, largest = self._interpolated([max(above - 1, 0), min(above, BLOCK - 1)])
        return float(np.exp(np.interp(np.log(alpha), largest, each)))

    def error(self, level: float) -> float:
        """The standard error of the critical value at that p-value, by the delta method."""
        c = t_quantile(level, np.array([self.dof]))[0]
        below, at, above = self.beyond(np.array([0.999, 1.0, 1.001]) * c, self.extent)
        slope = float(np.mean(below - above)) / (0.002 * c) if c > 0 else 0.0
        return float(np.std(at)) / np.sqrt(at.size) / slope if slope > 0 else 0.0


@dataclass(frozen=True, eq=False)
class ContrastFamily:
    """Contrasts judged together."""

    params: pd.Series[float]  # the parameters, by name
    names: pd.Index[Any]  # of the contrasts; (left, right) for pairs
    matrix: Matrix  # (m, n_params): C, sparse for the pairs of many parameters
    effect: FloatArray  # (m,): contrasts less their values under the null
    widths: Widths  # of the contrasts one by one
    inside: BoolArray  # (m,): contrasts with a p-value
    reasons: dict[Any, str]  # why a contrast is outside the family, by name
    draw_dof: float  # of the multivariate t; inf where contrasts are mapped to normals
    factor: FloatArray | None  # maps independent normals to the contrasts, or to the models of pairs; None: no draws
    pairs: bool
    base: int  # the root of the random streams

    @property
    def drawn(self) -> bool:
        """Whether the level is drawn; otherwise contrasts are counted."""
        return self.factor is not None

    @property
    def count(self) -> int:
        """Contrasts in the family."""
        return int(np.count_nonzero(self.inside))

    @cached_property
    def se(self) -> FloatArray:
        """Standard errors, shape (m,), NaN outside the family."""
        return np.where(self.inside, np.sqrt(self.widths.variance), np.nan)

    @cached_property
    def p_value(self) -> FloatArray:
        """Of each contrast by itself, shape (m,); NaN outside the family."""
        return np.where(self.inside, self.widths.pvalues(self.effect), np.nan)

    def level(self, alpha: float) -> float:
        """alpha*, at which each contrast is judged so that all hold together; at most alpha."""
        if not self.count:
            return float("nan")
        drawn = self.largest.level(alpha) if self.drawn else 0.0
        return min(max(alpha / self.count, drawn), alpha)

    def critical(self, alpha: float) -> float:
        """The critical value of t with `draw_dof` at that level."""
        return float(t_quantile(self.level(alpha), np.array([self.draw_dof]))[0])

    def error(self, alpha: float) -> float:
        """Standard error of the critical value from the simulation; 0 where contrasts are counted."""
        if not self.count:
            return float("nan")
        return self.largest.error(self.largest.level(alpha)) if self.drawn else 0.0

    def adjusted(self, p: FloatArray | None = None) -> FloatArray:
        """Single-step p-values: p_adjusted <= alpha just where p, by default that of each contrast, <= level(alpha)."""
        p = self.p_value if p is None else p
        single = np.minimum(self.count * p, 1.0)
        if self.drawn and self.count:
            single = np.minimum(single, self.largest.adjusted(p))
        return np.maximum(single, p)

    def stepdown(self) -> FloatArray:
        """Step-down p-values: Holm's, or those of the joint level where they are smaller.

        A true null is rejected only below alpha over their number, or below the joint level: the larger holds alone.
        """
        return np.fmin(adjust_pvalues(self.p_value, "holm"), self.adjusted())

    @cached_property
    def largest(self) -> Largest:
        """The distribution of the largest statistic, drawn once for all statements of this family."""
        assert self.factor is not None
        rank, spread, extents = self.factor.shape[1], _spreads(self.factor, pairs=self.pairs), []
        varies = self.inside & (spread > 0)
        weight = np.where(varies, 1 / np.sqrt(np.where(varies, spread, 1.0)), 0.0)[:, None]
        for block in range(DRAWS // BLOCK):
            normals = block_stream(self.base, block).standard_normal((BLOCK, rank))
            normals /= np.sqrt(np.einsum("ij,ij->i", normals, normals))[:, None]
            values = self.factor @ normals.T
            extents.append(_widest(values, weight) if self.pairs else np.max(np.abs(values) * weight, axis=0))
        return Largest(np.concatenate(extents), rank, self.draw_dof)


def _widest(values: FloatArray, weight: FloatArray) -> FloatArray:
    """The largest weighted gap between two rows in each column; `weight` (n_pairs, 1)."""
    n, largest, start = len(values), np.zeros(values.shape[1]), 0
    for a in range(n - 1):
        gap = values[a + 1 :] - values[a]
        np.abs(gap, out=gap)
        gap *= weight[start : start + n - 1 - a]
        np.maximum(largest, gap.max(axis=0), out=largest)
        start += n - 1 - a
    return largest


def _spreads(factor: FloatArray, *, pairs: bool) -> FloatArray:
    """Variances of what is drawn of each contrast."""
    if not pairs:
        return np.asarray(np.einsum("ij,ij->i", factor, factor))
    products, (left, right) = factor @ factor.T, pair_positions(len(factor))
    variances = np.diag(products)
    return np.maximum(variances[left] + variances[right] - 2 * products[left, right], 0.0)


def pair_positions(n: int) -> tuple[IntArray, IntArray]:
    """Positions of the left and right of all pairs, left before right."""
    return np.triu_indices(n, 1)


def family_of(params: Any, cov: Any, contrasts: Any = None, dof: Any = np.inf, base: int = 0) -> ContrastFamily:
    """The family of contrasts, from parameters and their covariance; arguments are those of `simultaneous`.

    Contrasts without a p-value are outside it, with a reason. Bands, ranks, letters and pairs of the same results rest
    on one family, and on the same draws.
    """
    theta = _check_params(params, cov)
    if not (isinstance(cov, Covariance) and (contrasts is None or isinstance(contrasts, str))):
        return _family(theta, cov, contrasts, dof, base)
    name = f"family of {contrasts!r} from {base}"
    held: ContrastFamily | None = cov.cache.get(name)
    if held is None or not (held.params.index.identical(theta.index) and np.array_equal(held.params, theta)):
        held = cov.cache[name] = _family(theta, cov, contrasts, dof, base)
    return held


def _family(theta: pd.Series[float], cov: Any, contrasts: Any, dof: Any, base: int) -> ContrastFamily:
    names, C, null = _check_contrasts(contrasts, theta.index)
    cov = _check_cov(cov, theta.index)
    effect, pairs = C @ theta.to_numpy() - null, isinstance(contrasts, str) and contrasts == "pairs"
    if isinstance(cov, Covariance):
        widths = cov.widths(None if contrasts is None else C)
        dofs, root = np.min(widths.dofs, axis=0), max(cov.one_way, key=lambda term: term.n_clusters).matrix
        fixed = cov.options.dof != "satterthwaite"
    else:
        widths, dofs, fixed, root = *_of_matrix(cov, C, dof), cov
    scored = np.zeros(effect.size, dtype=bool)
    if widths.scored is not None:
        scored[widths.scored.rows] = True
    inside = ((widths.variance > 0) | scored) & (dofs > 0)
    outside = np.flatnonzero(~inside)
    texts = cov.reasons(dense(C[outside])) if isinstance(cov, Covariance) and outside.size else [""] * outside.size
    plain = {True: "its variance is not known", False: "its variance is not positive"}
    reasons = {
        names[int(i)]: text or plain[bool(np.isnan(widths.variance[i]))] for i, text in zip(outside, texts, strict=True)
    }
    shared = float(dofs[inside][0]) if fixed and inside.any() and np.all(dofs[inside] == dofs[inside][0]) else np.inf
    factor = None
    if theta.size <= MOST_MODELS and not _few(cov, widths, inside) and widths.reach is None:
        values: Any = theta.to_numpy()
        factor = _factor(root, values, centred=pairs or bool(np.all(np.abs(C.sum(axis=1)) < ROUNDING)))
        if not pairs:  # in as many directions as there are
            axes, size, _ = np.linalg.svd(np.asarray(C @ factor), full_matrices=False)
            positive = size > ROUNDING * max(float(size[0]), np.finfo(float).tiny)
            factor = (axes * size)[:, positive] if positive.any() else np.zeros((len(axes), 1))
        scale = squared_entries(C) @ np.nan_to_num(np.diag(root))
        # A contrast that varies on no axis but a smaller one, or not at all, cannot be drawn: contrasts are counted.
        if np.any(inside & ~(_spreads(factor, pairs=pairs) > ROUNDING * scale)):
            factor = None
    draw_dof = np.inf if factor is None else shared
    return ContrastFamily(theta, names, C, effect, widths, inside, reasons, draw_dof, factor, pairs, base)


def _few(cov: Any, widths: Widths, inside: BoolArray) -> bool:
    """Whether some axis has few degrees of freedom, by the median over the contrasts."""
    if not isinstance(cov, Covariance) or cov.options.dof not in ("satterthwaite", "min") or not inside.any():
        return False
    axes = widths.dofs[: max(len(cov.axes), 1) if cov.summed else 1, inside]
    return bool(np.min(np.median(axes, axis=1)) < LIKE_NORMAL * (1 - ROUNDING))


def _of_matrix(cov: FloatArray, C: Matrix, dof: Any) -> tuple[Widths, FloatArray, bool]:
    """Widths and degrees of freedom of contrasts, and whether one number of these serves all."""
    dofs = np.asarray(pd.to_numeric(np.ravel(dof), errors="coerce"), dtype=np.float64)
    if np.ndim(dof) > 1 or dofs.size not in (1, C.shape[0]) or not np.all(dofs > 0):
        raise ArgumentError(f"`dof` must be a positive number, or one for each of {C.shape[0]} contrasts.")
    variance = quadratic(C, np.where(np.isfinite(cov), cov, 0.0))
    variance[variance <= ROUNDING * (squared_entries(C) @ np.nan_to_num(np.diag(cov)))] = 0.0
    variance[(C != 0) @ ~np.isfinite(np.diag(cov))] = np.nan
    each = np.broadcast_to(dofs, C.shape[:1])
    return Widths.one_t(variance, each), each, np.ndim(dof) == 0


def _factor(matrix: FloatArray, values: FloatArray, *, centred: bool) -> FloatArray:
    """A with A A' the matrix, shape (n_params, rank); for contrasts that sum to zero, of the centred matrix."""
    known = np.isfinite(np.diag(matrix))
    # Parameters enter by size, so that neither their order nor their names change the draws; and without the digits in
    # which the order of rows shows, since it turns the axes of eigenvalues that are equal.
    values, matrix = _to_rounding(values), _to_rounding(np.where(np.isfinite(matrix), matrix, 0.0))
    order = np.lexsort((np.diag(matrix), values))
    order = order[known[order]]  # the others keep a row of zeros
    factor = np.zeros((len(matrix), max(order.size, 1)))
    if not order.size:
        return factor
    S = matrix[np.ix_(order, order)]
    if centred:
        S = S - S.mean(axis=0) - S.mean(axis=1)[:, None] + S.mean()
    values, axes = np.linalg.eigh((S + S.T) / 2)
    # A sign of their own, which eigenvectors lack: the same draws on every machine.
    axes = axes * np.where(axes[np.argmax(np.abs(axes), axis=0), np.arange(len(values))] < 0, -1.0, 1.0)
    positive = values > ROUNDING * max(values[-1], 0.0)
    factor[order, : int(positive.sum())] = axes[:, positive] * np.sqrt(values[positive])
    return factor[:, : max(int(positive.sum()), 1)]


def _to_rounding(values: FloatArray) -> FloatArray:
    """Numbers to ROUNDING of the largest, in a power of two as unit: the same bits where they are equal but for it."""
    unit = np.exp2(np.frexp(np.max(np.abs(values), initial=0.0))[1])
    return np.asarray(np.round(values / unit / ROUNDING) * ROUNDING * unit)


def _check_params(params: Any, cov: Any) -> pd.Series[float]:
    theta = params if isinstance(params, pd.Series) else pd.Series(np.asarray(params).ravel())
    labels = _labels(cov)
    if not isinstance(params, pd.Series) and labels is not None and len(labels) == theta.size:
        theta.index = pd.Index(labels)
    try:
        theta = pd.Series(real_numbers(theta), theta.index)
    except (TypeError, ValueError):
        raise ArgumentTypeError("`params` must hold one number for each model or parameter.") from None
    if theta.size == 0 or not theta.index.is_unique:
        raise ArgumentError("`params` must hold at least one number, each under a name of its own.")
    if not np.isfinite(theta).all():
        raise NonFiniteError(f"`params` must be finite; {listed(theta.index[~np.isfinite(theta)])} is not.")
    return theta


def _labels(cov: Any) -> list[Any] | None:
    if isinstance(cov, Covariance):
        return list(cov.names)
    return list(cov.index) if isinstance(cov, pd.DataFrame) else None


def _check_cov(cov: Any, names: pd.Index[Any]) -> Covariance | FloatArray:
    cov = by_name(cov)
    labels = _labels(cov)
    square = not isinstance(cov, pd.DataFrame) or list(cov.columns) == labels
    if labels is not None and len(labels) == len(names) and not (square and labels == list(names)):
        raise AlignmentError(f"`cov` and `params` must name the same parameters in one order; got {listed(labels)}.")
    if isinstance(cov, Covariance):
        if len(cov.names) != len(names):
            raise AlignmentError(f"`cov` is of {len(cov.names)} parameters and `params` has {len(names)}.")
        return cov
    try:
        V = real_numbers(cov)
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"`cov` must be a matrix of numbers; got {cov!r:.200}.") from None
    if V.shape != (len(names), len(names)):
        raise AlignmentError(f"`cov` must have shape {(len(names), len(names))}, as `params`; got {V.shape}.")
    known = np.isfinite(np.diag(V))
    if not np.allclose(V[known][:, known], V[known][:, known].T, rtol=1e-8, atol=0, equal_nan=False):
        raise ArgumentError("`cov` must be a symmetric matrix.")
    values = np.linalg.eigvalsh(V[known][:, known])
    if values.size and values[0] < -1e-8 * np.abs(values).max():
        raise ArgumentError(
            f"`cov` must be positive semi-definite; its smallest eigenvalue is {values[0]:.3g}. "
            "Pass the Covariance itself, which keeps the pieces of a crossed covariance."
        )
    return V


def _check_contrasts(contrasts: Any, params: pd.Index[Any]) -> tuple[pd.Index[Any], Matrix, FloatArray]:
    """Names, C, and the values under the null; C is sparse for the pairs of many parameters."""
    K = len(params)
    if contrasts is None:
        return params, np.eye(K), np.zeros(K)
    if isinstance(contrasts, str) and contrasts == "pairs":
        left, right = pair_positions(K)
        C = difference_rows(left, right, K)
        C = dense(C) if C.shape[0] * K <= HELD // 4 else C
        # Each name is sorted once, however many pairs it is in: the last is on no left side, the first on no right one.
        each: Any = pd.MultiIndex.from_arrays([params[:-1], params[1:]], names=["left", "right"])
        codes: Any = [np.asarray(each.codes[0])[left], np.asarray(each.codes[1])[right - 1]]
        return pd.MultiIndex(each.levels, codes, names=each.names, verify_integrity=False), C, np.zeros(left.size)
    contrasts = by_name(contrasts)
    if isinstance(contrasts, pd.DataFrame) and list(contrasts.columns) != list(params):
        raise AlignmentError("`contrasts` must have one column for each parameter, in the order of `params`.")
    parsed = parse_contrasts(contrasts, tuple(params))
    names = contrasts.index if isinstance(contrasts, pd.DataFrame) else pd.Index(parsed.names)
    return names, parsed.matrix, parsed.value


# All pairs, ranks, letters and tiers

PairAdjustName: TypeAlias = Literal["holm", "fdr_bh", "bh", "bonferroni", "single-step", "step-down"]
PAIR_ADJUSTMENTS: tuple[PairAdjustName, ...] = (*ADJUSTMENTS, "single-step", "step-down")


def pairwise_table(
    params: Any,
    cov: Any,
    adjust: PairAdjustName | None = None,
    alpha: float = 0.05,
    *,
    dof: Any = np.inf,
    seed: Seed = 0,
) -> pd.DataFrame:
    """Differences between all pairs of models.

    Indexed by (left, right), columns `difference se lower upper p_value`, and `p_adjusted` where p-values are adjusted;
    ``attrs["n_pairs"]`` is the number of pairs, and ``attrs["note"]`` says where nothing was adjusted. Each interval
    stands by itself, except under "single-step", where they hold together. A pair without a positive variance is NaN,
    is not counted in the adjustment, and stands with its reason in ``attrs["left_out"]``. `adjust`: how `p_adjusted`
    allows for the number of pairs; None, the default, leaves it out. "step-down" decides rank sets and letters.
    Hothorn, Bretz and Westfall (2008), Biometrical Journal 50(3), for "single-step". Shapes: params (n_models,), cov
    (n_models, n_models).
    """
    alpha = fraction("alpha", alpha)
    adjust = adjustment("adjust", adjust, PAIR_ADJUSTMENTS)
    base, printed = base_seed(seed)
    family = family_of(params, cov, "pairs", dof, base)
    at = family.level(alpha) if adjust == "single-step" else alpha
    ends = np.where(family.inside[:, None], family.widths.limits(family.effect, at), np.nan)
    columns = {"difference": family.effect, "se": family.se, "lower": ends[:, 0], "upper": ends[:, 1]}
    table = pd.DataFrame(columns | {"p_value": family.p_value}, index=family.names)
    if adjust == "single-step":
        table["p_adjusted"] = family.adjusted()
    elif adjust == "step-down":
        table["p_adjusted"] = deciding(family, cov, alpha)[0]
    elif adjust is not None:
        table["p_adjusted"] = adjust_pvalues(family.p_value, adjust)
    note = unadjusted_text(family.count) if adjust is None else ""
    table.attrs = {"adjust": adjust, "alpha": alpha, "seed": printed, "left_out": dict(family.reasons)}
    table.attrs |= {"n_pairs": family.count, "note": note}
    return table


def unadjusted_text(n_pairs: int) -> str:
    """What to say about p-values of several pairs that are not adjusted; empty for one."""
    if n_pairs < 2:
        return ""
    return (
        f"p is of each of {n_pairs} differences by itself: of {n_pairs} with nothing behind them about "
        f'{0.05 * n_pairs:.2g} would have p < .05. adjust="holm" allows for their number.'
    )


def rank_sets(
    params: Any, cov: Any, *, alpha: float = 0.05, joint: bool = True, dof: Any = np.inf, seed: Seed = 0
) -> pd.DataFrame:
    """Ranks of models, with the ranks that the data do not exclude.

    A model's rank is one more than the number of models above it. Its set runs from one more than the number of models
    surely above it, to the number of models less those surely below it. Pairs are decided by the p-values of
    `pairwise(adjust="step-down")`: Holm's or those of the joint level of all pairs, whichever is smaller; and, where
    the joint intervals of the models are the sharper statement by their widths (few clusters, many models), the level
    at which those of the two stop overlapping, if that is smaller still. Two whose joint intervals lie apart at `alpha`
    are always separated.

    Parameters
    ----------
    params : Series or array_like, shape (n_models,)
        Estimates; larger is better.
    cov : Covariance, DataFrame or array_like, shape (n_models, n_models)
        Their covariance.
    alpha : float, optional
        One minus the confidence level, 0.05 by default.
    joint : bool, optional
        True, the default: all sets together contain the true ranks. False: each by itself, from the differences with
        that model alone.
    dof : float or array_like, shape (n_pairs,), optional
        For a matrix, one number (the normal by default) or one for each pair; a Covariance brings its own.
    seed : int or Generator, optional
        Of the simulation, 0 by default.

    Returns
    -------
    DataFrame
        Indexed by model, integer columns `rank lower upper`. `attrs` has `critical_value`, `monte_carlo_error`,
        `seed`, `by` ("pairs" or "bands"), and `undecided`, the pairs without a p-value, with the reason.

    Raises
    ------
    ArgumentError, AlignmentError
        If an option is unknown, or the arguments do not fit each other.

    References
    ----------
    Mogstad, Romano, Shaikh and Wilhelm (2024), Review of Economic Studies 91(1), 476-518; Holm (1979), Scandinavian
    Journal of Statistics 6, 65-70.

    Examples
    --------
    >>> rates = pd.Series({"x": 0.71, "y": 0.66, "z": 0.60})
    >>> rank_sets(rates, np.eye(3) * 0.02**2).to_dict("index")["z"]
    {'rank': 3, 'lower': 2, 'upper': 3}
    """
    alpha = fraction("alpha", alpha)
    base, printed = base_seed(seed)
    family = family_of(params, cov, "pairs", dof, base)
    theta, by, error = family.params.to_numpy(np.float64), "pairs", 0.0
    if joint:
        p, by = deciding(family, cov, alpha)
        above = below = _square(family, p) <= alpha
        error = family.error(alpha)
    else:  # by Holm among the differences with the row, and with the column
        above = np.array([adjust_pvalues(row, "holm") for row in _square(family, family.p_value)]) <= alpha
        below = above.T
    ahead = theta[:, None] > theta
    table = pd.DataFrame(
        {
            "rank": 1 + np.count_nonzero(ahead, axis=0),
            "lower": 1 + np.count_nonzero(below & ahead, axis=0),
            "upper": theta.size - np.count_nonzero(above & ahead, axis=1),
        },
        index=family.params.index,
    )
    table.attrs = {"critical_value": family.critical(alpha), "monte_carlo_error": error, "alpha": alpha}
    table.attrs |= {"seed": printed, "joint": joint, "by": by, "undecided": dict(family.reasons)}
    return table


def deciding(family: ContrastFamily, cov: Any, alpha: float) -> tuple[FloatArray, str]:
    """The adjusted p-values that decide all pairs everywhere, and what these come from: "pairs" or "bands".

    Where the joint intervals of the models are the sharper statement by widths, which do not know who is ahead (an
    interval is one of K, a pair one of K (K - 1)/2), a pair takes the smaller of both; and two models whose joint
    intervals lie apart at `alpha` have no p-value above it, so that ranks leave nothing open that the intervals shown
    beside them exclude. Intervals of equal models lie apart in so few logs (.007 at most where .05 is asked) that the
    two together keep the level (docs/decisions/joint-statements.md). So no p-value is above Holm's.
    """
    n, p, by = family.params.size, family.stepdown(), "pairs"
    if isinstance(cov, Covariance) and family.count and n > 2:
        each, (left, right) = family_of(family.params, cov, base=family.base), pair_positions(n)
        if each.count == n:
            single, of_pairs = each.widths.at_estimates(), family.widths.at_estimates().half(family.level(alpha))
            both = np.sum(single.half(each.level(alpha))[[left, right]], axis=0)
            known = (of_pairs > 0) & np.isfinite(both)
            if known.any() and np.median(both[known] / of_pairs[known]) < 1:
                apart = each.adjusted(_overlap_levels(single, np.abs(family.effect), left, right))
                # What a pair by itself does not show, intervals of its models do not either.
                p, by = np.minimum(p, np.maximum(apart, family.p_value)), "bands"
            low, high = each.widths.limits(np.array(family.params, dtype=np.float64), each.level(alpha)).T
            open_still = ((low[left] > high[right]) | (low[right] > high[left])) & (p > alpha)
            p, by = np.where(open_still, alpha, p), "bands" if open_still.any() else by
    return p, by


def _overlap_levels(widths: Widths, gap: FloatArray, left: IntArray, right: IntArray) -> FloatArray:
    """The smallest levels at which the intervals of two models do not overlap, shape (n_pairs,)."""
    levels = np.geomspace(SMALLEST_P, 1.0, BLOCK)
    half = np.array([widths.half(float(level)) for level in levels])
    smallest = np.ones(gap.shape)
    for part in np.array_split(np.arange(gap.size), gap.size * BLOCK // HELD + 1):
        apart = half[:, left[part]] + half[:, right[part]] < gap[part]
        smallest[part] = np.where(apart.any(axis=0), levels[np.argmax(apart, axis=0)], 1.0)
    return smallest


def _square(family: ContrastFamily, of_pairs: FloatArray) -> FloatArray:
    """Numbers of all pairs as a symmetric matrix, NaN on its diagonal."""
    square, places = np.full((family.params.size,) * 2, np.nan), pair_positions(family.params.size)
    square[places] = square[places[::-1]] = of_pairs
    return square


def separated(params: Any, cov: Any, *, alpha: float = 0.05, seed: Seed = 0) -> pd.DataFrame:
    """Which models are separated, as rank sets have it, in two columns by model; a pair without a p-value is not.

    "letters": two models share one exactly if they are not separated; "a" holds the largest estimate. With more than 26
    groups names go on with "aa", and a space stands between those of one model. Groups are as large as can be, and no
    more than the pairs need. Piepho (2004), Journal of Computational and Graphical Statistics 13(2), 456-466. "tier",
    from 1: each model of a tier is separated from each model of the tiers below it, so that models of different tiers
    share no letter. Shapes: params (n_models,), cov (n_models, n_models).
    """
    alpha = fraction("alpha", alpha)
    family = family_of(params, cov, "pairs", base=base_seed(seed)[0])
    names, theta = family.params.index, family.params.to_numpy(np.float64)
    order = sorted(range(theta.size), key=lambda i: (-theta[i], str(names[i])))
    decided = _square(family, deciding(family, cov, alpha)[0]) <= alpha
    apart = (decided & (theta[:, None] != theta))[np.ix_(order, order)]
    groups = groups_of_unseparated(apart)
    between = " " if len(groups) > 26 else ""
    shown = [between.join(_letter(i) for i, group in enumerate(groups) if k in group) for k in range(len(order))]
    return pd.DataFrame({"letters": shown, "tier": tiers_of(apart)}, index=order).sort_index().set_axis(names)


def tiers_of(apart: BoolArray) -> IntArray:
    """Tiers of models that are sorted from the best down, from 1; the most there can be.

    A new one begins where every model above is apart from every model below. Shapes: apart (n_models, n_models).
    """
    n = apart.shape[0]
    # The last model that each is not apart from, itself at least.
    reach = n - 1 - np.argmax(~apart[:, ::-1], axis=1)
    begins = np.ones(n, dtype=bool)
    begins[1:] = np.maximum.accumulate(reach)[:-1] < np.arange(1, n)
    return np.cumsum(begins).astype(np.intp)


def groups_of_unseparated(apart: BoolArray) -> list[tuple[int, ...]]:
    """Largest sets of models without two that are separated, so that every two that are not share one.

    In lexicographic order; models stand from the best down. Each set begins with the first two that share none yet and
    takes in, best first, what fits: those that share none yet with the first, then any. Of the largest sets of all
    there can be millions. Shapes: apart (n_models, n_models).
    """
    # A set is a number whose bits are its models; of each model those that it is not separated from, itself too.
    near = [sum(1 << int(other) for other in np.flatnonzero(~row)) for row in apart]
    sets: list[int] = []
    shared = [0] * len(near)
    for model, others in enumerate(near):
        while alone := others & ~shared[model]:
            group, fits = 1 << model, others & ~(1 << model)
            while fits:
                chosen = fits & alone or fits
                best = chosen & -chosen  # the lowest bit
                group, fits = group | best, fits & near[best.bit_length() - 1] & ~best
            for member in _members(group):
                shared[member] |= group
            sets.append(group)
    return sorted(map(_members, sets))


def _members(group: int) -> tuple[int, ...]:
    return tuple(place for place, bit in enumerate(reversed(bin(group)[2:])) if bit == "1")


def _letter(i: int) -> str:
    return _letter(i // 26 - 1) + chr(97 + i % 26) if i >= 26 else chr(97 + i)

"""Contrasts judged together: simultaneous intervals and single-step p-values (Hothorn, Bretz and Westfall 2008)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, fraction, listed
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.widths import Widths, joined, one_t
from evalreg.errors import AlignmentError, ArgumentError, ArgumentTypeError, NonFiniteError
from evalreg.inference.contrasts import parse_contrasts
from evalreg.inference.levels import LIKE_NORMAL, CountedLevel, LargestLevel, Level, critical, studentized_draws
from evalreg.inference.multiplicity import (
    CHUNK,
    adjust_pvalues,
    base_seed,
    largest_of_pairs,
    simulate_largest,
    stepdown_pvalues,
)
from evalreg.numerics.student import t_quantile

# A variance below this fraction of its terms is rounding.
ROUNDING = 1e-12
# With fewer clusters on the finest axis, for each parameter, its correlations are too uncertain to draw from.
CLUSTERS_PER_PARAM = 2
Seed: TypeAlias = int | np.random.Generator
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class ContrastFamily:
    """Contrasts judged together, with what it takes to draw them from their joint distribution."""

    params: pd.Series[float]  # the parameters, by name
    names: pd.Index[Any]  # of the contrasts; (left, right) for pairs
    matrix: FloatArray  # (m, n_params): C
    effect: FloatArray  # (m,): contrasts less their values under the null, and standard errors (NaN outside the family)
    se: FloatArray
    shared_dof: float  # of the multivariate t; NaN where each contrast has its own and is mapped to the normal
    # of the axis with the fewest, where denominators are few enough to count as chance themselves; NaN otherwise
    few_dof: float
    drawn: bool  # whether the correlation is known well enough to draw from it; otherwise contrasts are counted
    reasons: dict[Any, str]  # why a contrast is outside the family, by name
    widths: Widths  # half-widths and p-values of the contrasts one by one
    # (m, rank): maps independent normals to the contrasts; for pairs to the parameters whose differences they are
    factor: FloatArray
    weight: FloatArray  # (m,): one over the standard deviation of what is drawn; zero outside the family
    pairs: bool  # whether the contrasts are all pairs

    @property
    def inside(self) -> BoolArray:
        """Contrasts in the family, shape (m,)."""
        return ~np.isnan(self.se)

    @property
    def few(self) -> bool:
        """Whether denominators are drawn or contrasts counted."""
        return not np.isnan(self.few_dof)

    @property
    def draw_dof(self) -> float:
        """Degrees of freedom of the statistics that are drawn together."""
        return float("inf") if np.isnan(self.shared_dof) else self.shared_dof

    @cached_property
    def p_value(self) -> FloatArray:
        """Of each contrast by itself, shape (m,)."""
        return self.widths.pvalues(self.effect)

    @property
    def statistic(self) -> FloatArray:
        """Size of the t, or of the normal, that has the p-value of each contrast."""
        return t_quantile(self.p_value, np.full(self.se.size, self.draw_dof))

    def of_pairs(self, values: FloatArray, rows: IntArray) -> FloatArray:
        """Absolute statistics of the contrasts in `rows`, from factor @ normals: shape (n_rows, n_draws)."""
        if not self.pairs:
            return np.abs(values[rows]) * self.weight[rows, None]
        left, right = pair_codes(self.params.size)
        return np.abs(values[left[rows]] - values[right[rows]]) * self.weight[rows, None]

    def largest(self, normals: FloatArray) -> FloatArray:
        """Largest absolute statistic in each draw, shape (n_draws, 1)."""
        if self.pairs:
            return largest_of_pairs(self.factor @ normals.T, square_of_pairs(self.weight, self.params.size))[:, None]
        result = np.zeros(normals.shape[0])
        for rows in np.array_split(np.arange(self.effect.size), self.effect.size // CHUNK + 1):
            part = np.abs(self.factor[rows] @ normals.T) * self.weight[rows, None]
            np.maximum(result, part.max(axis=0, initial=0.0), out=result)
        return result[:, None]

    def joint(self, alpha: float, base: int) -> Level:
        """The level of each contrast at which all hold together, and the p-values that go with it."""
        return self.once("joint", (alpha, base), lambda: self._joint(alpha, base))

    def once(self, name: str, how: tuple[float, int], make: Callable[[], T]) -> T:
        """What `make` returns, kept until it is asked for by other arguments."""
        held = self._kept.get(name)
        if held is None or held[0] != how:
            held = self._kept[name] = (how, make())
        return cast("T", held[1])

    @cached_property
    def _kept(self) -> dict[str, tuple[tuple[float, int], Any]]:
        return {}

    def _joint(self, alpha: float, base: int) -> Level:
        count = int(self.inside.sum())
        if not self.few:
            return LargestLevel(
                simulate_largest(self.largest, self.factor.shape[1], count, alpha=alpha, dof=self.draw_dof, base=base)[
                    0
                ]
            )
        return CountedLevel(count, self.few_dof, self.studentized(base) if self.drawn else None)

    def studentized(self, base: int, *, by_model: bool = False) -> FloatArray:
        """Draws of the largest studentized statistic, of all contrasts or of those of each model."""
        whole = max(int(self.few_dof), 1)
        return studentized_draws(self.factor, self.weight, whole, pairs=self.pairs, base=base, by_model=by_model)

    def counted(self, level: Level) -> FloatArray:
        """P-values by Holm, or by the joint level where that gives less, shape (m,)."""
        # A true null is rejected only below alpha over their number, or below the joint level: the larger holds alone.
        return np.fmin(adjust_pvalues(self.p_value, "holm"), level.adjusted(self.p_value))

    def stepdown(self, base: int, level: Level) -> FloatArray:
        """P-values by step-down, shape (m,): free, or Holm's where contrasts are counted; NaN outside the family."""
        rows, p = np.flatnonzero(self.inside), np.full(self.se.size, np.nan)
        if self.few:
            return self.counted(level)
        p[rows] = stepdown_pvalues(
            lambda values, places: self.of_pairs(values, rows[places]),
            self.statistic[rows],
            self.factor,
            dof=self.draw_dof,
            base=base,
            n_draws=level.n_draws,
        )
        return p


def make_family(params: Any, cov: Any, contrasts: Any = None, dof: Any = np.inf) -> ContrastFamily:
    """The family of contrasts, from parameters and their covariance.

    Arguments are those of `simultaneous`. Contrasts without a positive variance are outside it, with a reason.
    """
    theta = _check_params(params, cov)
    if not isinstance(cov, Covariance) or not (
        contrasts is None or (isinstance(contrasts, str) and contrasts == "pairs")
    ):
        return _made(theta, cov, contrasts, dof)
    # Bands, ranks, letters and pairs of the same results rest on one family, and on the same draws.
    held = cov.kept.get(f"family of {contrasts}")
    if held is None or not (held.params.index.identical(theta.index) and np.array_equal(held.params, theta)):
        held = cov.kept[f"family of {contrasts}"] = _made(theta, cov, contrasts, dof)
    return held


def _made(theta: pd.Series[float], cov: Any, contrasts: Any, dof: Any) -> ContrastFamily:
    names, C, null = _check_contrasts(contrasts, theta.index)
    found = _moments(_check_cov(cov, theta.index), C, dof)
    variance, root, together = found.widths.variance, found.root, found.together
    known = np.isfinite(np.diag(together))
    safe = np.where(np.outer(known, known), root, 0.0)
    pairs = isinstance(contrasts, str) and contrasts == "pairs"
    values = np.asarray(theta, dtype=np.float64)
    factor = _factor(safe, values, known, centred=bool(np.all(np.abs(C.sum(axis=1)) < 1e-12)))
    standard = C @ factor
    spread, scale = np.sum(standard**2, axis=1), C**2 @ np.diag(np.where(np.outer(known, known), together, 0.0))
    flat = ~(spread > ROUNDING * scale)
    out = ~(variance > 0) | ((C != 0) @ ~known) | ~(scale > 0) | ~(found.dof > 0)
    # A contrast that varies on no axis but a smaller one cannot be drawn, so that contrasts are counted.
    undrawn = bool(np.any(flat & ~out)) and isinstance(cov, Covariance) and cov.crossed
    out |= flat & (not undrawn)
    weight = np.where(out | flat, 0.0, 1 / np.sqrt(np.where(out | flat, 1.0, spread)))
    if not pairs and C.shape[0] < factor.shape[1]:  # fewer contrasts than dimensions
        standard = np.transpose(np.linalg.qr(standard.T, mode="r"))
    plain = np.where(np.isnan(variance), "its variance is not known", "its variance is not positive")
    texts = [text or str(other) for text, other in zip(found.texts, plain, strict=True)]
    widths = replace(found.widths, variance=np.where(out, np.nan, variance))
    few, drawn = _few(cov, widths, int(np.any(C != 0, axis=0).sum()))
    if undrawn and np.isnan(few):
        few = float(LIKE_NORMAL)
    return ContrastFamily(
        params=theta,
        names=names,
        matrix=C,
        effect=C @ theta.to_numpy() - null,
        se=np.sqrt(widths.variance),
        shared_dof=found.shared,
        few_dof=few,
        drawn=drawn and not undrawn,
        reasons={names[int(i)]: texts[i] for i in np.flatnonzero(out)},
        widths=widths,
        factor=factor if pairs else standard,
        weight=weight,
        pairs=pairs,
    )


def _few(cov: Any, widths: Widths, n_params: int) -> tuple[float, bool]:
    """Degrees of freedom of the smallest axis if few (else NaN), and whether a correlation can be drawn from."""
    if not isinstance(cov, Covariance) or not cov.axes or cov.options.dof not in ("satterthwaite", "min"):
        return float("nan"), True
    inside = widths.variance > 0
    axes = widths.dofs[: len(cov.axes) if cov.summed else 1, inside]
    if not axes.size:
        return float("nan"), True
    smallest = float(np.min(np.median(axes, axis=1)))
    if smallest >= LIKE_NORMAL:
        return float("nan"), True
    finest = max(term.n_clusters for term in cov.one_way)
    return max(np.floor(smallest), 1.0), finest >= CLUSTERS_PER_PARAM * n_params


def _check_params(params: Any, cov: Any) -> pd.Series[float]:
    theta = params if isinstance(params, pd.Series) else pd.Series(np.asarray(params).ravel())
    labels = _labels(cov)
    if not isinstance(params, pd.Series) and labels is not None and len(labels) == theta.size:
        theta.index = pd.Index(labels)
    try:
        theta = theta.astype(np.float64)
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
    labels = _labels(cov)
    square = not isinstance(cov, pd.DataFrame) or list(cov.columns) == labels
    if labels is not None and len(labels) == len(names) and not (square and labels == list(names)):
        raise AlignmentError(f"`cov` and `params` must name the same parameters in one order; got {listed(labels)}.")
    if isinstance(cov, Covariance):
        if len(cov.names) != len(names):
            raise AlignmentError(f"`cov` is of {len(cov.names)} parameters and `params` has {len(names)}.")
        return cov
    V = np.asarray(cov, dtype=np.float64)
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


def _check_contrasts(contrasts: Any, params: pd.Index[Any]) -> tuple[pd.Index[Any], FloatArray, FloatArray]:
    """Names, C, and the values under the null."""
    K = len(params)
    if contrasts is None:
        return params, np.eye(K), np.zeros(K)
    if isinstance(contrasts, str) and contrasts == "pairs":
        left, right = pair_codes(K)
        C = np.zeros((left.size, K))
        C[np.arange(left.size), left], C[np.arange(left.size), right] = 1.0, -1.0
        arrays = [params[left], params[right]]
        return pd.MultiIndex.from_arrays(arrays, names=["left", "right"]), C, np.zeros(left.size)
    if isinstance(contrasts, pd.DataFrame) and list(contrasts.columns) != list(params):
        raise AlignmentError("`contrasts` must have one column for each parameter, in the order of `params`.")
    parsed = parse_contrasts(contrasts, tuple(params))
    names = contrasts.index if isinstance(contrasts, pd.DataFrame) else pd.Index(parsed.names)
    return names, parsed.matrix, parsed.value


def pair_codes(n: int) -> tuple[IntArray, IntArray]:
    """Positions of the left and right of all pairs, left before right."""
    return np.triu_indices(n, 1)


@dataclass(frozen=True, eq=False)
class _Moments:
    """What is known of contrasts: widths, dof, those of a multivariate t (or NaN), matrices, why a variance is none."""

    widths: Widths
    dof: FloatArray
    shared: float
    root: FloatArray
    together: FloatArray
    texts: list[str]


def _moments(cov: Covariance | FloatArray, C: FloatArray, dof: Any) -> _Moments:
    """Of the contrasts; `root` is the positive semi-definite matrix whose correlation is drawn from."""
    if not isinstance(cov, Covariance):
        own = np.asarray(dof, dtype=np.float64)
        if own.ndim > 1 or own.size not in (1, C.shape[0]) or not np.all(own > 0):
            raise ArgumentError(f"`dof` must be a positive number, or one for each of {C.shape[0]} contrasts.")
        variance = np.sum((C @ np.where(np.isfinite(cov), cov, 0.0)) * C, axis=1)
        variance[variance <= ROUNDING * (C**2 @ np.nan_to_num(np.diag(cov)))] = 0.0
        variance[(C != 0) @ ~np.isfinite(np.diag(cov))] = np.nan
        shared = float(own) if own.ndim == 0 else float("nan")
        own = np.broadcast_to(own, C.shape[:1])
        return _Moments(one_t(variance, own), own, shared, cov, cov, [""] * C.shape[0])
    widths = _by_chunks(cov, C)
    none = np.flatnonzero(~(widths.variance > 0))
    texts = [""] * C.shape[0]
    for i, text in zip(none, cov.reasons(C[none]) if none.size else [], strict=True):
        texts[i] = text
    own = np.min(widths.dofs, axis=0)
    used = own[widths.variance > 0]
    same = cov.options.dof != "satterthwaite" and used.size > 0 and bool(np.all(used == used[0]))
    shared = float(used[0]) if same else float("nan")
    # Of one axis: a sum of terms has hardly more dimensions than the axis that dominates it has clusters.
    finest = max(cov.one_way, key=lambda term: term.n_clusters)
    return _Moments(widths, own, shared, finest.matrix, cov.sum_one_way, texts)


def _by_chunks(cov: Covariance, C: FloatArray) -> Widths:
    """Widths of many contrasts, some at a time, which bounds the memory."""
    parts = [part for part in np.array_split(C, C.shape[0] // 2000 + 1) if part.shape[0]]
    return joined([cov.widths(part) for part in parts or [C]])


def _factor(matrix: FloatArray, values: FloatArray, known: BoolArray, *, centred: bool) -> FloatArray:
    """A with A A' the matrix, shape (n_params, rank); for contrasts that sum to zero, of the centred matrix."""
    # Parameters enter by size, so that neither their order nor their names change the draws.
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
    kept = values > 1e-14 * len(values) * max(values[-1], 0.0)
    factor[order, : int(kept.sum())] = axes[:, kept] * np.sqrt(values[kept])
    return factor[:, : max(int(kept.sum()), 1)]


def square_of_pairs(values: FloatArray, n: int) -> FloatArray:
    """Values of all pairs as a symmetric matrix with a zero diagonal, shape (n, n)."""
    square = np.zeros((n, n))
    square[pair_codes(n)] = values
    return square + square.T


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
    """Intervals that hold for all contrasts at once, and p-values adjusted for all of them.

    Every contrast is judged at one level, at most alpha, by its own interval and p-value; `attrs["level"]` holds it.
    The estimates are taken to be jointly normal. One number of degrees of freedom gives the multivariate t. Where each
    contrast has its own (CR2), the level is that of the largest of normals. With few clusters (an axis with less than
    50 degrees of freedom) each contrast has an uncertain denominator of its own: the level is that of the largest
    studentized statistic, whose correlation is that of the axis with the most clusters, and alpha over the number of
    contrasts where that axis has fewer than two clusters for each parameter.

    Parameters
    ----------
    params : Series or array_like, shape (n_params,)
        Estimates.
    cov : Covariance, DataFrame or array_like, shape (n_params, n_params)
        Their covariance; a matrix must be positive semi-definite.
    contrasts : None, "pairs", str, dict, DataFrame or array_like, optional
        None, the default, is the parameters themselves; "pairs" all differences left - right; otherwise contrasts as
        in `Results.contrast`.
    alpha : float, optional
        One minus the joint confidence level, 0.05 by default.
    dof : float or array_like, optional
        For a matrix, one number (the normal by default) or one for each contrast. A Covariance brings its own, and
        this is ignored.
    stepdown : bool, optional
        Whether `p_adjusted` is by free step-down, which rejects more. The intervals stay single-step.
    seed : int or Generator, optional
        Of the simulation, 0 by default.

    Returns
    -------
    DataFrame
        One row a contrast, columns `estimate se lower upper p_adjusted`. `attrs` holds `level` (of each contrast),
        `critical_value` (of t with `dof`, or of the normal where degrees of freedom differ), its `monte_carlo_error`,
        `draws` (0 where contrasts are counted), `seed`, `dof`, and `left_out`, the reason for each contrast without a
        positive variance: it is NaN and not in the family.

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If an option breaks its rule, or a matrix is not positive semi-definite.
    AlignmentError
        If `params`, `cov` and `contrasts` do not fit each other.

    References
    ----------
    Hothorn, Bretz and Westfall (2008), Biometrical Journal 50(3), 346-363, sections 3 and 4; for crossed covariances
    MacKinnon, Nielsen and Webb (2024), arXiv:2406.08880.

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
    >>> round(bands.attrs["critical_value"], 2)
    2.43
    """
    alpha = fraction("alpha", alpha)
    base, printed = base_seed(seed)
    family = make_family(params, cov, contrasts, dof)
    nothing = np.full(family.effect.size, np.nan)
    level: Level = CountedLevel(1, float("nan"))
    at, p = float("nan"), nothing
    if family.inside.any():
        level = family.joint(alpha, base)
        at, p = level.level(alpha), level.adjusted(family.p_value)
        if stepdown:
            p = np.fmin(p, family.stepdown(base, level))
    estimate = family.matrix @ family.params.to_numpy()
    ends = family.widths.limits(estimate, at)
    columns = {"estimate": estimate, "se": family.se, "lower": ends[:, 0], "upper": ends[:, 1]}
    table = pd.DataFrame(columns | {"p_adjusted": p}, index=family.names)
    table.attrs = {
        "critical_value": critical(level, alpha) if family.inside.any() else float("nan"),
        "level": at,
        "monte_carlo_error": level.error(alpha) if family.inside.any() else float("nan"),
        "draws": level.n_draws,
        "seed": printed,
        "alpha": alpha,
        "dof": family.few_dof if family.few else None if np.isnan(family.shared_dof) else family.shared_dof,
        "left_out": dict(family.reasons),
        "n_left_out": len(family.reasons),
    }
    return table

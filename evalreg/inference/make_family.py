"""The family of contrasts that parameters and their covariance give."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, listed
from evalreg.covariance.covariance import USUAL_LEVEL, Covariance
from evalreg.covariance.dof import quadratic
from evalreg.covariance.widths import Widths, joined, one_t
from evalreg.errors import AlignmentError, ArgumentError, ArgumentTypeError, NonFiniteError
from evalreg.inference.contrast_family import ContrastFamily, pair_positions
from evalreg.inference.contrasts import parse_contrasts
from evalreg.inference.levels import LIKE_NORMAL
from evalreg.inference.rough_widths import RoughWidths
from evalreg.numerics.matrices import Matrix, dense, difference_rows, squared_entries
from evalreg.numerics.student import NORMAL

# A variance below this fraction of its terms is rounding.
ROUNDING = 1e-12
# Degrees of freedom of equal clusters are whole numbers up to this fraction of them, and count as these.
DOF_ROUNDING = 1e-9

# Contrasts of up to so many entries are held with their zeros, and so many are looked at together.
DENSE_ENTRIES, CHUNK_ENTRIES = 1 << 20, 1 << 23

# A matrix of so many parameters and far fewer clusters is looked at in the directions that it has, which must leave no
# more than this of it.
MANY_PARAMS, SPANNED = 100, 1e-13

# From so many pairs for each parameter on, bounds of their degrees of freedom come before exact ones.
MANY_PAIRS = 4

# With fewer clusters on the finest axis, for each parameter, its correlations are too uncertain to draw from.
CLUSTERS_PER_PARAM = 2


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
    effect = C @ theta.to_numpy() - null
    pairs = isinstance(contrasts, str) and contrasts == "pairs"
    found = _moments(_check_cov(cov, theta.index), C, dof, own_params=contrasts is None, pairs=pairs)
    variance, root, together = found.widths.variance, found.root, found.together
    known = np.isfinite(np.diag(together))
    safe = np.where(np.outer(known, known), root, 0.0)
    values = np.asarray(theta, dtype=np.float64)
    centred = pairs or bool(np.all(np.abs(C.sum(axis=1)) < 1e-12))
    factor = _factor(safe, values, known, found.rank, centred=centred)
    spread = _spread_of_pairs(factor) if pairs else _by_rows(C, lambda part: np.sum((part @ factor) ** 2, axis=1))
    scale = squared_entries(C) @ np.diag(np.where(np.outer(known, known), together, 0.0))
    flat = ~(spread > ROUNDING * scale)
    out = ~(variance > 0) | ((C != 0) @ ~known) | ~(scale > 0) | ~(found.dof > 0)
    # A contrast that varies on no axis but a smaller one cannot be drawn, so that contrasts are counted.
    undrawn = bool(np.any(flat & ~out)) and isinstance(cov, Covariance) and cov.crossed
    out |= flat & (not undrawn)
    weight = np.where(out | flat, 0.0, 1 / np.sqrt(np.where(out | flat, 1.0, spread)))
    drawn_from = factor
    if not pairs:
        drawn_from = C @ factor
        if C.shape[0] < factor.shape[1]:  # fewer contrasts than dimensions
            drawn_from = np.transpose(np.linalg.qr(drawn_from.T, mode="r"))
    plain = {True: "its variance is not known", False: "its variance is not positive"}
    held, few, drawn = _held(cov, C, found, out, effect)
    if undrawn and np.isnan(few):
        few = float(LIKE_NORMAL)
    return ContrastFamily(
        params=theta,
        names=names,
        matrix=C,
        effect=effect,
        inside=~out,
        shared_dof=found.shared,
        few_dof=few,
        drawn=drawn and not undrawn,
        reasons={
            names[int(i)]: found.texts.get(int(i)) or plain[bool(np.isnan(variance[i]))] for i in np.flatnonzero(out)
        },
        held=held,
        factor=drawn_from,
        weight=weight,
        pairs=pairs,
    )


def _held(
    cov: Any, C: Matrix, found: _Moments, out: BoolArray, effect: FloatArray
) -> tuple[Widths | RoughWidths, float, bool]:
    """Widths of the contrasts, NaN of those that are out, and what `_few` says of them."""
    n_params = np.unique(C.nonzero()[1]).size

    def without(widths: Widths, some: BoolArray) -> Widths:
        return replace(widths, variance=np.where(some, np.nan, widths.variance))

    if found.narrow is not None:

        def exact(rows: IntArray) -> Widths:
            return without(_by_chunks(cov.widths, C[rows]), out[rows])

        narrow, wide = without(found.narrow, out), without(found.widths, out)
        bounds = _few(cov, wide, n_params), _few(cov, narrow, n_params)
        if bounds[0] == bounds[1] or np.isnan(bounds[0][0]):
            return RoughWidths(narrow, wide, effect, exact), *bounds[0]
        found = replace(found, widths=exact(np.arange(effect.size)))
    widths = without(found.widths, out)
    return widths, *_few(cov, widths, n_params)


def _spread_of_pairs(factor: FloatArray) -> FloatArray:
    """Variance of what is drawn of each pair, from the products of two models."""
    products = factor @ factor.T
    own, (left, right) = np.diag(products), pair_positions(len(factor))
    return np.asarray(np.maximum(own[left] + own[right] - 2 * products[left, right], 0.0))


def _few(cov: Any, widths: Widths, n_params: int) -> tuple[float, bool]:
    """Degrees of freedom of the smallest axis if few (else NaN), and whether a correlation can be drawn from."""
    if not isinstance(cov, Covariance) or not cov.axes or cov.options.dof not in ("satterthwaite", "min"):
        return float("nan"), True
    inside = widths.variance > 0
    axes = widths.dofs[: len(cov.axes) if cov.summed else 1, inside]
    if not axes.size:
        return float("nan"), True
    smallest = float(np.min(np.median(axes, axis=1))) * (1 + DOF_ROUNDING)
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


def _check_contrasts(contrasts: Any, params: pd.Index[Any]) -> tuple[pd.Index[Any], Matrix, FloatArray]:
    """Names, C, and the values under the null; C is sparse for the pairs of many parameters."""
    K = len(params)
    if contrasts is None:
        return params, np.eye(K), np.zeros(K)
    if isinstance(contrasts, str) and contrasts == "pairs":
        left, right = pair_positions(K)
        C = difference_rows(left, right, K)
        C = dense(C) if C.shape[0] * K <= DENSE_ENTRIES else C
        return _names_of_pairs(params, left, right), C, np.zeros(left.size)
    if isinstance(contrasts, pd.DataFrame) and list(contrasts.columns) != list(params):
        raise AlignmentError("`contrasts` must have one column for each parameter, in the order of `params`.")
    parsed = parse_contrasts(contrasts, tuple(params))
    names = contrasts.index if isinstance(contrasts, pd.DataFrame) else pd.Index(parsed.names)
    return names, parsed.matrix, parsed.value


def _names_of_pairs(params: pd.Index[Any], left: IntArray, right: IntArray) -> pd.MultiIndex:
    """Names of all pairs; each name is sorted once, however many pairs it is in."""
    # The last is on no left side, and the first on no right one.
    each: Any = pd.MultiIndex.from_arrays([params[:-1], params[1:]], names=["left", "right"])
    codes: Any = [np.asarray(each.codes[0])[left], np.asarray(each.codes[1])[right - 1]]
    return pd.MultiIndex(each.levels, codes, names=each.names, verify_integrity=False)


@dataclass(frozen=True, eq=False)
class _Moments:
    """What is known of contrasts: widths, dof, those of a multivariate t (or NaN), matrices, why a variance is none."""

    widths: Widths
    narrow: Widths | None  # where only bounds are known, of which `widths` are the wide ones
    dof: FloatArray
    shared: float
    root: FloatArray
    rank: int  # that `root` can have
    together: FloatArray
    texts: dict[int, str]  # by contrast, of those that have one


def _moments(cov: Covariance | FloatArray, C: Matrix, dof: Any, *, own_params: bool, pairs: bool) -> _Moments:
    """Of contrasts or the parameters themselves; from the correlation of `root`, positive semi-definite, is drawn."""
    if not isinstance(cov, Covariance):
        own = np.asarray(dof, dtype=np.float64)
        if own.ndim > 1 or own.size not in (1, C.shape[0]) or not np.all(own > 0):
            raise ArgumentError(f"`dof` must be a positive number, or one for each of {C.shape[0]} contrasts.")
        variance = quadratic(C, np.where(np.isfinite(cov), cov, 0.0))
        variance[variance <= ROUNDING * (squared_entries(C) @ np.nan_to_num(np.diag(cov)))] = 0.0
        variance[(C != 0) @ ~np.isfinite(np.diag(cov))] = np.nan
        shared = float(own) if own.ndim == 0 else float("nan")
        own = np.broadcast_to(own, C.shape[:1])
        return _Moments(one_t(variance, own), None, own, shared, cov, len(cov), cov, {})
    # A covariance keeps those of its parameters, which tables and intervals ask for.
    narrow, widths = None, cov.widths() if own_params else None
    if widths is None:
        widths = _by_chunks(cov.widths, C)
    none = np.flatnonzero(~(widths.variance > 0))
    texts = dict(zip(none.tolist(), cov.reasons(dense(C[none])) if none.size else [], strict=True))
    own = np.min(widths.dofs, axis=0)
    used = own[widths.variance > 0]
    same = cov.options.dof != "satterthwaite" and used.size > 0 and bool(np.all(used == used[0]))
    shared = float(used[0]) if same else float("nan")
    # Of one axis: a sum of terms has hardly more dimensions than the axis that dominates it has clusters.
    finest = max(cov.one_way, key=lambda term: term.n_clusters)
    root, together, rank = finest.matrix, cov.sum_one_way, finest.n_clusters
    if cov.ends is not None and widths.reach is not None:
        more = cov.ends.variance(np.eye(len(cov.names)), USUAL_LEVEL, NORMAL)
        root, together, rank = root + more, together + more, rank + cov.ends.which.size
    return _Moments(widths, narrow, own, shared, root, rank, together, texts)


def _by_chunks(of: Callable[[Matrix], Widths], C: Matrix) -> Widths:
    """Widths of many contrasts, some at a time, which bounds the memory."""
    return joined([of(part) for part in _chunks(C)])


def _by_rows(C: Matrix, make: Callable[[Matrix], FloatArray]) -> FloatArray:
    """One number of each contrast, of some at a time."""
    return np.concatenate([make(part) for part in _chunks(C)])


def _chunks(C: Matrix) -> list[Matrix]:
    """Some contrasts at a time, of so many entries as if all were there."""
    step = max(CHUNK_ENTRIES // C.shape[1], 2000)
    return [C[first : first + step] for first in range(0, C.shape[0], step)] or [C]


def _factor(matrix: FloatArray, values: FloatArray, known: BoolArray, rank: int, *, centred: bool) -> FloatArray:
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
    values, axes = _eigen((S + S.T) / 2, rank)
    # A sign of their own, which eigenvectors lack: the same draws on every machine.
    axes = axes * np.where(axes[np.argmax(np.abs(axes), axis=0), np.arange(len(values))] < 0, -1.0, 1.0)
    kept = values > 1e-14 * len(values) * max(values[-1], 0.0)
    factor[order, : int(kept.sum())] = axes[:, kept] * np.sqrt(values[kept])
    return factor[:, : max(int(kept.sum()), 1)]


def _eigen(S: FloatArray, rank: int) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues in rising order and their vectors, of a matrix whose rank is likely at most `rank`."""
    if len(S) < MANY_PARAMS or rank > len(S) // 3:
        return np.linalg.eigh(S)
    # Any so many combinations of the columns span them all. Halko, Martinsson and Tropp (2011), SIAM Review 53, 4.1.
    mixed = np.random.default_rng(0).standard_normal((len(S), rank + 10))
    Q = np.linalg.qr(S @ mixed)[0]
    inner = Q.T @ S @ Q
    if np.max(np.abs(S - Q @ inner @ Q.T)) > SPANNED * np.max(np.abs(S)):
        return np.linalg.eigh(S)
    values, axes = np.linalg.eigh((inner + inner.T) / 2)
    return values, Q @ axes

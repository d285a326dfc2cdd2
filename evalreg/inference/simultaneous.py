"""Contrasts judged together: simultaneous intervals and single-step p-values (Hothorn, Bretz and Westfall 2008)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import scipy

from evalreg.checks import BoolArray, FloatArray, IntArray, fraction, listed
from evalreg.covariance import Covariance
from evalreg.errors import AlignmentError, ArgumentError, ArgumentTypeError, NonFiniteError
from evalreg.inference.contrasts import parse_contrasts
from evalreg.inference.multiplicity import (
    CHUNK,
    LargestStatistic,
    base_seed,
    largest_of_pairs,
    simulate_largest,
    stepdown_pvalues,
)
from evalreg.student import t_pvalues
from evalreg.widths import Widths, joined, one_t

# A variance below this fraction of its terms is rounding.
ROUNDING = 1e-12
Seed: TypeAlias = int | np.random.Generator


@dataclass(frozen=True, eq=False)
class Family:
    """Contrasts judged together, with what it takes to draw them from their joint distribution.

    Parameters
    ----------
    params : Series
        The parameters, by name.
    names : Index
        Of the contrasts; (left, right) for pairs.
    matrix : ndarray, shape (m, n_params)
        C.
    effect, se, dof : ndarray, shape (m,)
        Contrasts less their values under the null, standard errors (NaN outside the family), degrees of freedom.
    shared_dof : float
        Of the multivariate t; NaN where each contrast has its own and is mapped to the normal.
    reasons : dict
        Why a contrast is outside the family, by name.
    widths : Widths
        Half-widths and p-values of the contrasts one by one.
    factor : ndarray, shape (m, rank), or (n_params, rank) for pairs
        Maps independent normals to the contrasts; for pairs to the parameters whose differences they are.
    weight : ndarray, shape (m,)
        One over the standard deviation of what is drawn; zero outside the family.
    pairs : bool
        Whether the contrasts are all pairs.
    """

    params: pd.Series[float]
    names: pd.Index[Any]
    matrix: FloatArray
    effect: FloatArray
    se: FloatArray
    dof: FloatArray
    shared_dof: float
    reasons: dict[Any, str]
    widths: Widths
    factor: FloatArray
    weight: FloatArray
    pairs: bool

    @property
    def inside(self) -> BoolArray:
        """Contrasts in the family, shape (m,)."""
        return ~np.isnan(self.se)

    @property
    def draw_dof(self) -> float:
        """Degrees of freedom of the statistics that are drawn."""
        return float("inf") if np.isnan(self.shared_dof) else self.shared_dof

    @property
    def statistic(self) -> FloatArray:
        """Signed statistics on the scale of the critical value: t, or the normal value with the p-value of t."""
        t = self.effect / self.se
        if not np.isnan(self.shared_dof):
            return t
        return np.asarray(np.sign(t) * np.abs(scipy.special.ndtri(t_pvalues(t, self.dof) / 2)))

    def multipliers(self, critical: float | FloatArray) -> FloatArray:
        """Half-widths of intervals in standard errors, shape (m,)."""
        critical = np.broadcast_to(np.asarray(critical, dtype=np.float64), self.se.shape)
        if not np.isnan(self.shared_dof):
            return critical
        finite = np.where(np.isinf(self.dof), 1.0, self.dof)
        return np.where(np.isinf(self.dof), critical, -scipy.special.stdtrit(finite, scipy.special.ndtr(-critical)))

    def drawn(self, values: FloatArray, rows: IntArray) -> FloatArray:
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

    def simulate(self, alpha: float, base: int) -> LargestStatistic:
        """The distribution of the largest absolute statistic."""
        count = int(self.inside.sum())
        return simulate_largest(self.largest, self.factor.shape[1], count, alpha=alpha, dof=self.draw_dof, base=base)[0]

    def stepdown(self, base: int, n_draws: int) -> FloatArray:
        """P-values by free step-down, shape (m,); NaN outside the family."""
        rows, p = np.flatnonzero(self.inside), np.full(self.se.size, np.nan)
        observed = np.abs(self.statistic[rows])
        p[rows] = stepdown_pvalues(
            lambda values, places: self.drawn(values, rows[places]),
            observed,
            self.factor,
            dof=self.draw_dof,
            base=base,
            n_draws=n_draws,
        )
        return p


def make_family(params: Any, cov: Any, contrasts: Any = None, dof: Any = np.inf) -> Family:
    """The family of contrasts, from parameters and their covariance.

    Arguments are those of `simultaneous`. Contrasts without a positive variance are outside it, with a reason.
    """
    theta = _check_params(params, cov)
    names, C, null = _check_contrasts(contrasts, theta.index)
    widths, own_dof, shared, root, texts = _moments(_check_cov(cov, theta.index), C, dof)
    variance = widths.variance
    known = np.isfinite(np.diag(root))
    safe = np.where(np.outer(known, known), root, 0.0)
    pairs = isinstance(contrasts, str) and contrasts == "pairs"
    values = np.asarray(theta, dtype=np.float64)
    factor = _factor(safe, values, known, centred=bool(np.all(np.abs(C.sum(axis=1)) < 1e-12)))
    standard = C @ factor
    spread = np.sum(standard**2, axis=1)
    out = ~(variance > 0) | ((C != 0) @ ~known) | ~(spread > ROUNDING * (C**2 @ np.diag(safe))) | ~(own_dof > 0)
    weight = np.where(out, 0.0, 1 / np.sqrt(np.where(out, 1.0, spread)))
    if not pairs and C.shape[0] < factor.shape[1]:  # fewer contrasts than dimensions
        standard = np.transpose(np.linalg.qr(standard.T, mode="r"))
    plain = np.where(np.isnan(variance), "its variance is not known", "its variance is not positive")
    texts = [text or str(other) for text, other in zip(texts, plain, strict=True)]
    return Family(
        params=theta,
        names=names,
        matrix=C,
        effect=C @ theta.to_numpy() - null,
        se=np.sqrt(np.where(out, np.nan, variance)),
        dof=own_dof,
        shared_dof=shared,
        reasons={names[int(i)]: texts[i] for i in np.flatnonzero(out)},
        widths=replace(widths, variance=np.where(out, np.nan, variance)),
        factor=factor if pairs else standard,
        weight=weight,
        pairs=pairs,
    )


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


def _moments(
    cov: Covariance | FloatArray, C: FloatArray, dof: Any
) -> tuple[Widths, FloatArray, float, FloatArray, list[str]]:
    """Widths, degrees of freedom, those of a multivariate t (or NaN), a PSD matrix, and why a variance is none."""
    if not isinstance(cov, Covariance):
        own = np.asarray(dof, dtype=np.float64)
        if own.ndim > 1 or own.size not in (1, C.shape[0]) or not np.all(own > 0):
            raise ArgumentError(f"`dof` must be a positive number, or one for each of {C.shape[0]} contrasts.")
        variance = np.sum((C @ np.where(np.isfinite(cov), cov, 0.0)) * C, axis=1)
        variance[variance <= ROUNDING * (C**2 @ np.nan_to_num(np.diag(cov)))] = 0.0
        variance[(C != 0) @ ~np.isfinite(np.diag(cov))] = np.nan
        shared = float(own) if own.ndim == 0 else float("nan")
        own = np.broadcast_to(own, C.shape[:1])
        return one_t(variance, own), own, shared, cov, [""] * C.shape[0]
    widths = _by_chunks(cov, C)
    variance, own = widths.variance, widths.dof(0.05)
    none = np.flatnonzero(~(variance > 0))
    texts = [""] * C.shape[0]
    for i, text in zip(none, cov.reasons(C[none]) if none.size else [], strict=True):
        texts[i] = text
    rule = cov.options.dof
    used = own[variance > 0]
    if cov.crossed and rule == "satterthwaite":
        # A small estimated variance brings a large dof: a dof for each contrast does not hold with few judges.
        shared = float(cov.smallest_dof)
    else:
        same = rule != "satterthwaite" and used.size > 0 and bool(np.all(used == used[0]))
        shared = float(used[0]) if same else float("nan")
    return widths, own, shared, cov.sum_one_way, texts


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

    The estimates are taken to be jointly normal. One number of degrees of freedom gives the multivariate t. Where each
    contrast has its own (CR2), its interval is as far out in its t as the critical value is in the normal. A crossed
    covariance gives the multivariate t with min G - 1, unless its `dof` was asked to be "normal" or a number.

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
        One row a contrast, columns `estimate se lower upper p_adjusted`. `attrs` holds `critical_value` (of t, or of
        the normal where degrees of freedom differ), its `monte_carlo_error`, `draws`, `seed`, `dof`, and
        `left_out`, the reason for each contrast without a positive variance: it is NaN and not in the family.

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
    critical, error, draws, p = float("nan"), float("nan"), 0, nothing
    if family.inside.any():
        largest = family.simulate(alpha, base)
        critical, error, draws = largest.quantile(alpha), largest.quantile_error(alpha), largest.n_draws
        p = largest.tail(np.abs(family.statistic))
        if stepdown:
            p = np.fmin(p, family.stepdown(base, draws))
    estimate = family.matrix @ family.params.to_numpy()
    half = family.multipliers(critical) * family.se
    columns = {"estimate": estimate, "se": family.se, "lower": estimate - half, "upper": estimate + half}
    table = pd.DataFrame(columns | {"p_adjusted": p}, index=family.names)
    table.attrs = {
        "critical_value": critical,
        "monte_carlo_error": error,
        "draws": draws,
        "seed": printed,
        "alpha": alpha,
        "dof": None if np.isnan(family.shared_dof) else family.shared_dof,
        "left_out": family.reasons,
        "n_left_out": len(family.reasons),
    }
    return table

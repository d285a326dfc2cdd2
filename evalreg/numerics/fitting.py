"""Newton's method, roots and least squares."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TextIO, TypeAlias

import numpy as np

from evalreg.checks import FloatArray, IntArray, quotient
from evalreg.choices import FamilyName
from evalreg.errors import CollinearityError, ConvergenceError
from evalreg.numerics.basis import Basis, basis_of
from evalreg.numerics.limits import ROUNDING, SETTLED, SINGULAR
from evalreg.numerics.matrices import inverse_root, parts_of

# Rows whose variance, or working weight, is below this fraction of the largest are fitted without error.
SEPARATED = 1e-6
# Iterations go on until coefficients move by less than this, relative to their size.
STILL = 1e-13
MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class Fitted:
    """A regression solved in a basis, and what its covariances need.

    Parameters
    ----------
    params : ndarray, shape (k,)
        Coefficients of the design's own columns.
    basis : Basis
        Of the design with its weights, times the working weights of a GLM.
    scores : ndarray, shape (n_rows, k)
        Of the rows, in the basis.
    mean : ndarray, shape (n_rows,)
        Fitted values.
    residual : ndarray, shape (n_rows,), optional
        Of least squares, times the square root of the weights.
    index : ndarray, shape (n_rows,), optional
        Linear predictor of a GLM.
    """

    params: FloatArray
    basis: Basis
    scores: FloatArray
    mean: FloatArray
    residual: FloatArray | None = None
    index: FloatArray | None = None

    @property
    def inverse(self) -> FloatArray:
        """(X'WX)^-1, shape (k, k)."""
        return self.basis.map @ self.basis.map.T


def least_squares(
    design: FloatArray, outcome: FloatArray, names: Sequence[str], weights: FloatArray | None = None
) -> Fitted:
    """Least squares from orthonormal columns of X, shape (n_rows, k), with residuals; refuses collinear columns."""
    basis = basis_of(design, names, weights)
    root = None if weights is None else np.sqrt(weights)
    turned, residual = residuals_of(basis, outcome if root is None else outcome * root)
    off = residual if root is None else quotient(residual, root, 0.0)
    return Fitted(basis.map @ turned, basis, basis.rows * residual[:, None], outcome - off, residual)


def residuals_of(basis: Basis, outcome: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coefficients of the basis, and residuals; those that are rounding of their row's terms are zero.

    By statsmodels' OLS of Q'y on the triangle R, rows compressed to as many as columns (Miller 1992, Applied Statistics
    41(2), algorithm AS 274): the same fit as of all rows, of which it takes singular values, in a tenth of the
    processor time or less. Rows times the roots of their weights make it WLS.
    """
    from statsmodels.regression.linear_model import OLS

    turned = basis.triangle @ np.asarray(OLS(basis.rows.T @ outcome, basis.triangle, hasconst=False).fit().params)
    residual = outcome - basis.rows @ turned
    # Once more takes away what rounding left.
    rest = basis.rows.T @ residual
    turned, residual = turned + rest, residual - basis.rows @ rest
    return turned, without_rounding(residual, outcome, lambda rows: np.abs(basis.rows[rows]) @ np.abs(turned))


def without_rounding(residual: FloatArray, outcome: FloatArray, terms: Callable[[IntArray], FloatArray]) -> FloatArray:
    """Residuals with those that are rounding of their row's terms set to zero, so that no variance is made of them.

    `terms` gives the sum of the sizes of what is added to the fitted value of some rows.
    """
    largest = max(float(end) for column in (residual, outcome) for end in (column.max(), -column.min()))
    parts, bound = parts_of(residual.size), ROUNDING * largest
    small = np.concatenate([rows.start + np.flatnonzero(np.abs(residual[rows]) <= bound) for rows in parts])
    if not small.size:
        return residual
    cleaned = residual.copy()
    cleaned[small[np.abs(residual[small]) <= ROUNDING * (np.abs(outcome[small]) + terms(small))]] = 0.0
    return cleaned


def canonical(
    design: FloatArray, outcome: FloatArray, names: Sequence[str], family: FamilyName, weights: FloatArray | None = None
) -> Fitted:
    """A GLM with its canonical link (logit or log) by statsmodels, where the (quasi-)likelihood is largest.

    In the basis of X times the square roots of the working weights. McCullagh and Nelder (1989), Generalized Linear
    Models, section 2.5.
    """
    from statsmodels.genmod.families import Binomial, Poisson
    from statsmodels.genmod.generalized_linear_model import GLM

    # What the weights add up to is no information; the likelihood counts rows.
    weight = np.ones(outcome.size) if weights is None else weights / np.mean(weights)
    basis = basis_of(design, names, weight)
    root, scale = np.sqrt(weight), np.sqrt(outcome.size)
    columns = np.divide(basis.rows, root[:, None], out=design @ basis.map, where=(root > 0)[:, None]) * scale
    kind = Binomial() if family == "binomial" else Poisson()
    model = GLM(outcome, columns, family=kind, var_weights=weight, hasconst=False)
    # Where the link is linear in the outcome half way to its mean. By Newton's steps, which are those of IRLS here:
    # IRLS warns of means of cells that are fitted as they are.
    middle = (outcome + float(weight @ outcome) / float(weight.sum())) / 2
    start = basis.rows.T @ (root * kind.link(middle)) / scale
    try:
        with np.errstate(all="ignore"):
            fit = model.fit(start, method="newton", maxiter=MOST_STEPS, disp=False, warn_convergence=False)
    except (ValueError, FloatingPointError, np.linalg.LinAlgError, Warning) as error:
        raise ConvergenceError(f"statsmodels' GLM failed: {error}.") from None
    turned = np.asarray(fit.params)
    index = columns @ turned
    if not fit.mle_retvals["converged"] or not np.isfinite(index).all():
        raise ConvergenceError("statsmodels' GLM does not converge.")
    mean, variance = mean_and_variance(index, family)
    try:
        working = basis_of(columns, names, weight * variance)
    except CollinearityError:  # The columns are independent: it is the weights that vanish.
        raise ConvergenceError("the working weights of statsmodels' GLM vanish.") from None
    T = basis.map @ (working.map * scale)
    scores = (columns @ working.map) * (weight * residual_of(outcome, index, family))[:, None]
    if weights is not None:
        # In the units of the weights as given.
        unit = np.sqrt(np.mean(weights))
        T, scores = T / unit, scores * unit
    return Fitted(basis.map @ turned * scale, replace(working, map=T), scores, mean, index=index)


def mean_and_variance(index: FloatArray, family: FamilyName) -> tuple[FloatArray, FloatArray]:
    """Mean and variance at each linear predictor; one minus a mean near one would have no digits left."""
    from scipy import special

    if family == "poisson":
        mean = np.exp(index)
        return mean, mean
    mean = special.expit(index)
    return mean, mean * special.expit(-index)


def residual_of(outcome: FloatArray, index: FloatArray, family: FamilyName) -> FloatArray:
    """Outcome less its mean, likewise."""
    from scipy import special

    if family == "poisson":
        return np.asarray(outcome - np.exp(index))
    return np.asarray(outcome * special.expit(-index) - (1 - outcome) * special.expit(index))


# Steps as small as this that no longer shrink are rounding.
SMALL_STEP = 1e-8

Evaluate: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray, FloatArray]]
"""Log likelihood, its gradient and its information (minus the second derivative) at some coefficients."""


def newton(evaluate: Evaluate, n_coefficients: int, start: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Where a concave log likelihood of p coefficients is largest, and the inverse of its information there.

    There a whole Newton step, the gradient in units of the information, is nothing; raises where steps do not settle.
    """
    beta = np.zeros(n_coefficients) if start is None else start
    value, gradient, information = evaluate(beta)
    last = np.inf
    for _ in range(MOST_STEPS):
        inverse = _inverse(information)
        if inverse is None:
            break
        step = inverse @ gradient
        reach = float(np.max(np.abs(step), initial=0.0) / (1 + np.max(np.abs(beta), initial=0.0)))
        if reach < SETTLED or last / 2 < reach < SMALL_STEP:
            return beta + step, inverse
        last = reach
        size, moved = 1.0, evaluate(beta + step)
        # The likelihood is concave: a step that lowers it is too long, never in a wrong direction.
        while not moved[0] >= value - 1e-12 * abs(value) and size > 1e-8:
            size /= 2
            moved = evaluate(beta + size * step)
        beta = beta + size * step
        value, gradient, information = moved
    raise ConvergenceError(
        "the fit does not converge: some combination of the covariates separates wins from losses, so that no finite "
        f"coefficient is the best (the largest is {np.max(np.abs(beta)):.3g} and grows). Leave out the covariate that "
        "decides the verdict."
    )


def _inverse(information: FloatArray) -> FloatArray | None:
    """Inverse by way of unit diagonals, whatever the units of the coefficients; None where there is none."""
    if not np.all(np.isfinite(information)):
        return None
    root = inverse_root(information, SINGULAR)
    return None if np.isnan(root).any() else root @ root.T


SILENT_SECONDS = 2.0


class Progress:
    """A line on a terminal (stderr) that counts what is done, once it has taken two seconds; silent elsewhere."""

    def __init__(
        self, total: int, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic, unit: str = "draws"
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._visible = bool(getattr(self._stream, "isatty", lambda: False)())
        self._total, self._done, self._clock, self._unit = total, 0, clock, unit
        self._next, self._written = clock() + SILENT_SECONDS, False
        self._lock = threading.Lock()

    def advance(self, n: int) -> None:
        """Count `n` more."""
        if not self._visible:
            return
        with self._lock:
            self._done += n
            if self._clock() >= self._next:
                self._next, self._written = self._clock() + 0.2, True
                self._stream.write(f"\r{self._done} of {self._total} {self._unit} ({self._done / self._total:.0%})")
                self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._written:
            # Erased, so that what is printed next starts on a clean line.
            self._stream.write("\r" + " " * 60 + "\r")
            self._stream.flush()

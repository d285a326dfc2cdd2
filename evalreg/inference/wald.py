"""t statistics, their p-values, and joint tests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from evalreg.checks import FloatArray, listed, nearest
from evalreg.errors import ArgumentError, FormulaError, MissingColumnError

if TYPE_CHECKING:
    from statsmodels.stats.contrast import ContrastResults


def t_pvalues(statistic: FloatArray, dof: FloatArray) -> FloatArray:
    """Two-sided p-values of t, of the normal where dof is infinite.

    Parameters
    ----------
    statistic, dof : ndarray, shape (m,)
        t statistics and degrees of freedom.

    Returns
    -------
    ndarray, shape (m,)
        Accurate in the tails; NaN where an input is.

    Examples
    --------
    >>> t_pvalues(np.array([2.0, 2.0]), np.array([10.0, np.inf])).round(4).tolist()
    [0.0734, 0.0455]
    """
    tail = -np.abs(statistic)
    finite = np.where(np.isinf(dof), 1.0, dof)
    return 2 * np.where(np.isinf(dof), special.ndtr(tail), special.stdtr(finite, tail))


@dataclass(frozen=True)
class JointTest:
    """A test that several contrasts are zero.

    Parameters
    ----------
    statistic : float
        F; NaN where the reference has no degrees of freedom left.
    df_num, df_denom : float
        Degrees of freedom; df_denom is inf for a chi-squared reference.
    reason : str
        Why the statistic is NaN; empty otherwise.
    """

    statistic: float
    df_num: int
    df_denom: float
    reason: str = ""


def wald_quadratic(effect: FloatArray, covariance: FloatArray) -> float:
    """The Wald statistic W = effect' V^-1 effect.

    Parameters
    ----------
    effect : ndarray, shape (q,)
        Contrasts less their values under the null.
    covariance : ndarray, shape (q, q)
        Their covariance.

    Returns
    -------
    float
        NaN where the covariance is not positive definite to working precision.

    Examples
    --------
    >>> wald_quadratic(np.array([1.0, 2.0]), np.eye(2))
    5.0
    """
    scale = np.sqrt(np.diag(covariance))
    if not np.all(scale > 0):
        return float("nan")
    values, axes = np.linalg.eigh(covariance / np.outer(scale, scale))
    if values[0] <= 1e-12 * values[-1]:
        return float("nan")
    turned = axes.T @ (effect / scale)
    return float(np.sum(turned**2 / values))


def f_test(effect: FloatArray, covariance: FloatArray, dof: float) -> JointTest:
    """F = W/q, referred to F(q, dof).

    Parameters
    ----------
    effect : ndarray, shape (q,)
        Contrasts less their values under the null.
    covariance : ndarray, shape (q, q)
        Their covariance.
    dof : float
        Denominator degrees of freedom; inf for chi-squared.

    Returns
    -------
    JointTest
        The test.

    Examples
    --------
    >>> f_test(np.array([1.0, 2.0]), np.eye(2), 10.0).statistic
    2.5
    """
    q = effect.size
    W = wald_quadratic(effect, covariance)
    reason = "the covariance of these contrasts is singular" if np.isnan(W) else ""
    return JointTest(W / q, q, dof, reason)


def hotelling_test(effect: FloatArray, covariance: FloatArray, eta: float) -> JointTest:
    """Approximate Hotelling T^2 test (HTZ): F = (eta - q + 1)/(eta q) W, referred to F(q, eta - q + 1).

    Parameters
    ----------
    effect : ndarray, shape (q,)
        Contrasts less their values under the null.
    covariance : ndarray, shape (q, q)
        Their CR2 covariance.
    eta : float
        Degrees of freedom of the approximating Wishart distribution.

    Returns
    -------
    JointTest
        NaN with the reason where eta <= q - 1.

    References
    ----------
    Pustejovsky and Tipton (2018), JBES 36(4), section 3.2.

    Examples
    --------
    >>> hotelling_test(np.array([1.0, 2.0]), np.eye(2), 11.0).df_denom
    10.0
    """
    q = effect.size
    if not eta > q - 1:
        text = f"{eta:.3g} degrees of freedom cannot test {q} contrasts jointly"
        return JointTest(float("nan"), q, float("nan"), text)
    W = wald_quadratic(effect, covariance)
    reason = "the covariance of these contrasts is singular" if np.isnan(W) else ""
    return JointTest((eta - q + 1) / (eta * q) * W, q, eta - q + 1, reason)


def as_contrast_results(test: JointTest) -> ContrastResults:
    """The joint test as statsmodels' ContrastResults.

    Parameters
    ----------
    test : JointTest
        The test.

    Returns
    -------
    ContrastResults
        With an F reference, or chi-squared where df_denom is infinite.
    """
    from statsmodels.stats.contrast import ContrastResults

    if np.isinf(test.df_denom):
        result: Any = ContrastResults(
            statistic=test.statistic * test.df_num, df_denom=test.df_num, distribution="chi2", dist_args=(test.df_num,)
        )
    else:
        result = ContrastResults(F=test.statistic, df_num=test.df_num, df_denom=test.df_denom)
    result.reason = test.reason
    return result


def as_t_results(effect: FloatArray, se: FloatArray, dof: FloatArray, value: FloatArray) -> ContrastResults:
    """t tests of contrasts as statsmodels' ContrastResults.

    Parameters
    ----------
    effect, se, dof, value : ndarray, shape (m,)
        Contrasts, standard errors, degrees of freedom and values under the null.

    Returns
    -------
    ContrastResults
        `df_denom` has one entry a contrast; p-values are NaN where a standard error is 0 or unknown.
    """
    from statsmodels.stats.contrast import ContrastResults

    se = np.where(se > 0, se, np.nan)
    return ContrastResults(effect=effect, t=(effect - value) / se, sd=se, df_denom=dof)


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Linear combinations of parameters.

    Parameters
    ----------
    matrix : ndarray, shape (q, n_params)
        C.
    value : ndarray, shape (q,)
        Values under the null.
    names : tuple of str
        One for each row.
    """

    matrix: FloatArray
    value: FloatArray
    names: tuple[str, ...]


def parse_contrasts(contrasts: Any, names: tuple[str, ...]) -> Contrasts:
    """Contrasts from text, a mapping or an array.

    Parameters
    ----------
    contrasts : str, dict or array_like, shape (q, n_params) or (n_params,)
        "A - B", "A = B, C = 0", {"A": 1, "B": -1} or coefficients.
    names : tuple of str
        Names of the parameters.

    Returns
    -------
    Contrasts
        The matrix C, the values under the null, and names.

    Raises
    ------
    FormulaError
        If the text does not parse (with patsy's caret under the place).
    MissingColumnError
        If a name is not a parameter.
    ArgumentError
        If the shape does not fit, or a row is zero.

    Examples
    --------
    >>> parse_contrasts("a - b", ("a", "b")).matrix.tolist()
    [[1.0, -1.0]]
    """
    if isinstance(contrasts, str):
        parsed = _parse_text(contrasts, names)
    elif isinstance(contrasts, dict):
        parsed = _parse_mapping(contrasts, names)
    else:
        C = _as_matrix(contrasts)
        if C.ndim != 2 or C.shape[1] != len(names):
            raise ArgumentError(
                f"contrasts must have one column for each of the {len(names)} parameters; got shape {C.shape}."
            )
        parsed = Contrasts(C, np.zeros(C.shape[0]), tuple(f"c{i}" for i in range(C.shape[0])))
    if not np.isfinite(parsed.matrix).all():
        raise ArgumentError(f"the coefficients of a contrast must be finite; got {contrasts!r}.")
    if not np.all(np.any(parsed.matrix != 0, axis=1)):
        raise ArgumentError(f"a contrast must involve some parameter; got all zeros in {contrasts!r}.")
    return parsed


def _as_matrix(contrasts: Any) -> FloatArray:
    try:
        return np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
    except (TypeError, ValueError):
        raise ArgumentError(
            f"a contrast as an array must hold numbers; got {contrasts!r}. Several hypotheses as text go into one "
            "string, with commas between them."
        ) from None


def _parse_text(text: str, names: tuple[str, ...]) -> Contrasts:
    import patsy

    if not text.strip():
        raise FormulaError(f"the contrast is an empty text. The parameters are {listed(names)}.")
    try:
        constraint = patsy.DesignInfo(list(names)).linear_constraint(text)
    except patsy.PatsyError as error:
        _refuse_unknown_name(text, error, names)
        raise FormulaError(f"the contrast does not parse: {error}\nThe parameters are {listed(names)}.") from None
    C = np.asarray(constraint.coefs, dtype=np.float64)
    parts = [part.strip() for part in text.split(",")]
    labels = tuple(parts) if len(parts) == C.shape[0] else tuple(f"{text} [{i}]" for i in range(C.shape[0]))
    return Contrasts(C, np.asarray(constraint.constants, dtype=np.float64).ravel(), labels)


def _refuse_unknown_name(text: str, error: Any, names: tuple[str, ...]) -> None:
    """Name the parameter that was meant, where the place that does not parse is nearly one."""
    start = getattr(getattr(error, "origin", None), "start", None)
    found = None if start is None else re.match(r"[^\s+\-*/=,]+", text[start:])
    hint = "" if found is None else nearest(found[0], names)
    if found is not None and hint and found[0] not in names:
        raise MissingColumnError(f'"{found[0]}" is not a parameter.{hint}', column=found[0]) from None


def _parse_mapping(contrasts: dict[str, Any], names: tuple[str, ...]) -> Contrasts:
    C = np.zeros((1, len(names)))
    for name, coefficient in contrasts.items():
        if name not in names:
            hint = nearest(name, names) or f" The parameters are {listed(names)}."
            raise MissingColumnError(f'"{name}" is not a parameter.{hint}', column=str(name))
        if not isinstance(coefficient, int | float | np.number):
            raise ArgumentError(f"the coefficients of a contrast must be numbers; got {coefficient!r} for {name!r}.")
        C[0, names.index(name)] = coefficient
    terms = [
        f"{'-' if c < 0 else '+'} {'' if abs(c) == 1 else f'{abs(c):g}*'}{name}" for name, c in contrasts.items() if c
    ]
    label = " ".join(terms)
    return Contrasts(
        C, np.zeros(1), (label.removeprefix("+ ").replace("- ", "-", 1) if label[:1] == "-" else label[2:],)
    )

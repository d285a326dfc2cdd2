"""Wald tests and contrasts, and what a joint test with few degrees of freedom can show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import special

from evalreg.checks import FloatArray, listed, nearest, nearest_or_all, passed
from evalreg.covariance.covariance import Covariance, contrast_matrix, with_width
from evalreg.covariance.crossed import NORMAL, USUAL_LEVEL, t_quantile
from evalreg.covariance.crossed import t_pvalues as t_pvalues
from evalreg.covariance.reach import Ends
from evalreg.data.formula import full_name
from evalreg.data.frame import by_name
from evalreg.errors import (
    ArgumentError,
    FewClustersWarning,
    FormulaError,
    MissingColumnError,
    Note,
    TooFewClustersError,
)
from evalreg.numerics.limits import ROUNDING, SMALLEST_LEVEL
from evalreg.numerics.matrices import inverse_root

if TYPE_CHECKING:
    from statsmodels.stats.contrast import ContrastResults


_QUOTED = re.compile("`([^`]+)`")


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Linear combinations of parameters."""

    matrix: FloatArray  # (q, n_params): C
    value: FloatArray  # (q,): values under the null
    names: tuple[str, ...]  # one for each row


def parse_contrasts(contrasts: Any, names: tuple[str, ...]) -> Contrasts:
    """Contrasts from text, a mapping or an array of shape (q, n_params) or (n_params,).

    `contrasts`: "A - B", "A = B, C = 0", {"A": 1, "B": -1} or coefficients; (coefficients, values), as statsmodels has
    it, with a value under the null for each row. Backticks may quote a name: "`A (high)` = 0.5". Labels of a Series and
    columns of a DataFrame are parameters, in any order.
    """
    if isinstance(contrasts, Contrasts):
        return contrasts
    contrasts = by_name(contrasts)
    if isinstance(contrasts, pd.Series) and not _is_numbered(contrasts.index):
        if not contrasts.index.is_unique:
            raise ArgumentError(f"a contrast names each parameter once; got {listed(contrasts.index)}.")
        contrasts = contrasts.to_dict()
    if _with_values(contrasts):
        parsed = replace(parse_contrasts(contrasts[0], names), value=contrast_matrix(contrasts[1]).ravel())
    elif isinstance(contrasts, str):
        parsed = _parse_text(contrasts, names)
    elif isinstance(contrasts, dict):
        parsed = _parse_mapping(contrasts, names)
    elif not isinstance(contrasts, list | tuple) and np.ndim(contrasts) == 0:
        raise ArgumentError(
            f"a contrast says which parameter is tested; got the number {contrasts!r}. To test a value write "
            f'"{_as_text(names[0])} = {contrasts}"; coefficients go into a list, one for each parameter.'
        )
    else:
        labelled = isinstance(contrasts, pd.DataFrame) and not _is_numbered(contrasts.columns)
        rows = in_order(contrasts, names, "contrast") if labelled else contrasts
        C = with_width(contrast_matrix(rows), len(names))
        named = labelled and not _is_numbered(contrasts.index)
        labels = tuple(map(str, contrasts.index)) if named else tuple(f"c{i}" for i in range(C.shape[0]))
        parsed = Contrasts(C, np.zeros(C.shape[0]), labels)
    if not (np.isfinite(parsed.matrix).all() and np.isfinite(parsed.value).all()):
        raise ArgumentError(f"the numbers of a contrast must be finite; got {contrasts!r}.")
    if not np.all(np.any(parsed.matrix != 0, axis=1)):
        raise ArgumentError(f"a contrast must involve some parameter; got all zeros in {contrasts!r}.")
    return parsed


def _with_values(contrasts: Any) -> bool:
    """Whether it is a pair of coefficients, with one row or more, and as many values."""
    if not isinstance(contrasts, tuple) or len(contrasts) != 2 or np.ndim(contrasts[0]) == 0:
        return False
    return np.ndim(contrasts[1]) < 2 and np.size(contrasts[1]) == len(np.atleast_2d(contrasts[0]))


def _is_numbered(labels: pd.Index[Any]) -> bool:
    """Whether labels are the numbers that pandas gives by itself, so that places count."""
    return isinstance(labels, pd.RangeIndex)


def in_order(matrix: pd.DataFrame, names: tuple[str, ...], argument: str) -> pd.DataFrame:
    """A frame whose columns are the parameters, with these in their order."""
    columns = [str(column) for column in matrix.columns]
    if sorted(columns) != sorted(names):
        raise ArgumentError(
            f"the columns of `{argument}` must be the parameters {listed(names)}; got {listed(columns)}."
        )
    return matrix.iloc[:, [columns.index(name) for name in names]]


def _as_text(name: str) -> str:
    """A name as a contrast writes it."""
    return name if name.isidentifier() else f"`{name}`"


def _parse_text(text: str, names: tuple[str, ...]) -> Contrasts:
    import patsy

    if not text.strip():
        raise FormulaError(f"the contrast is an empty text.{nearest_or_all('', names)}")
    full = _QUOTED.sub(lambda quoted: f"`{full_name(quoted[1], names)}`", text)
    quoted = set(_QUOTED.findall(full))
    for name in quoted.difference(names):
        raise MissingColumnError(f'"{name}" is not a parameter.{nearest_or_all(name, names)}', column=name)
    try:
        as_written = [f"`{name}`" if name in quoted else name for name in names]
        constraint = patsy.DesignInfo(as_written).linear_constraint(full)
    except RecursionError:
        raise FormulaError(
            f"the contrast has too many signs or parentheses inside each other: {text[:60]!r}."
        ) from None
    except patsy.PatsyError as error:
        start = getattr(getattr(error, "origin", None), "start", None)
        match = None if start is None else re.match(r"[^\s+\-*/=,]+", text[start:])
        # The parameter that was meant, where the place that does not parse is nearly one.
        if match and match[0] not in names and (hint := nearest(match[0], names)):
            raise MissingColumnError(f'"{match[0]}" is not a parameter.{hint}', column=match[0]) from None
        raise FormulaError(f"the contrast does not parse: {error}\n{nearest_or_all('', names).strip()}") from None
    C = np.asarray(constraint.coefs, dtype=np.float64)
    parts = [part.strip() for part in text.split(",")]
    labels = tuple(parts) if len(parts) == C.shape[0] else tuple(f"{text} [{i}]" for i in range(C.shape[0]))
    return Contrasts(C, np.asarray(constraint.constants, dtype=np.float64).ravel() + 0.0, labels)  # patsy has -0


def _parse_mapping(contrasts: dict[str, Any], names: tuple[str, ...]) -> Contrasts:
    C = np.zeros((1, len(names)))
    for key, coefficient in contrasts.items():
        name = full_name(key, names)
        if name not in names:
            hint = nearest_or_all(name, names)
            raise MissingColumnError(f'"{name}" is not a parameter.{hint}', column=str(name))
        if not isinstance(coefficient, int | float | np.number):
            raise ArgumentError(f"the coefficients of a contrast must be numbers; got {coefficient!r} for {name!r}.")
        C[0, names.index(name)] = coefficient
    terms = [
        f"{'-' if c < 0 else '+'} {'' if abs(c) == 1 else f'{abs(c):g}*'}{name}" for name, c in contrasts.items() if c
    ]
    label = " ".join(terms).removeprefix("+ ")
    return Contrasts(C, np.zeros(1), (f"-{label[2:]}" if label.startswith("- ") else label,))


def difference_of(names: Sequence[str], left: str, right: str, by_third: bool = False) -> dict[str, float]:
    """The contrast of parameters that is left less right: their difference or its opposite, or both.

    Empty where no parameters are that. With `by_third` also both less a third: only where all have the same questions
    is A - C less B - C the same as A - B.
    """
    thirds = [name.removeprefix(f"{left} - ") for name in names if by_third and name.startswith(f"{left} - ")]
    contrasts = [{f"{left} - {right}": 1.0}, {f"{right} - {left}": -1.0}, {left: 1.0, right: -1.0}]
    contrasts += [{f"{left} - {third}": 1.0, f"{right} - {third}": -1.0} for third in thirds]
    return next((contrast for contrast in contrasts if contrast.keys() <= set(names)), {})


def refuse_dependent(contrasts: FloatArray) -> None:
    """Raise if hypotheses, shape (q, n_params), follow from each other."""
    q, rank = contrasts.shape[0], int(np.linalg.matrix_rank(contrasts))
    if rank < q:
        raise ArgumentError(
            f"hypotheses of a joint test must not follow from each other, as A = C from A = B and B = C; of these {q} "
            f"no more than {rank} do not. Give {rank} of them, such as those that compare with one model."
        )


# Of a test for which no degrees of freedom are left.
NO_DOF = "degrees of freedom cannot test"


@dataclass(frozen=True)
class JointTest:
    """A test that several contrasts are zero."""

    statistic: float  # F; NaN where the reference has no degrees of freedom left
    df_num: int  # degrees of freedom; df_denom is inf for a chi-squared reference
    df_denom: float
    reason: str = ""  # why the statistic is NaN; empty otherwise
    note: str = ""  # what so few clusters do to the test; empty where they are enough


def wald_quadratic(effect: FloatArray, covariance: FloatArray) -> FloatArray:
    """The Wald statistic W = effect' V^-1 effect of each of (..., q) and (..., q, q); NaN where there is no V^-1."""
    turned = np.einsum("...i,...ij->...j", effect, inverse_root(covariance))
    return np.asarray(np.sum(turned**2, axis=-1))


def singular(covariance: FloatArray) -> str:
    """Why a joint test has no statistic, shape (q, q): how many of its contrasts are told apart."""
    scale = np.sqrt(np.maximum(np.diag(covariance), 0))
    q = scale.size
    if not np.all(scale > 0):
        return "the covariance of these contrasts is singular"
    values = np.linalg.eigvalsh(covariance / np.outer(scale, scale))
    rank = np.count_nonzero(values > 1e-12 * values[-1])
    return (
        f"the covariance of these contrasts is singular (rank {rank} of {q}): some follow from others, as A - C from "
        f"A - B and B - C, or clusters are too few. Test {rank} that do not, such as the differences from one model"
    )


def f_test(effect: FloatArray, covariance: FloatArray, dof: float, factor: float = 1.0) -> JointTest:
    """F = factor W/q, referred to F(q, dof). Shapes: effect (q,), covariance (q, q)."""
    q, W = effect.size, float(wald_quadratic(effect, covariance))
    return JointTest(factor * W / q, q, dof, singular(covariance) if np.isnan(W) else "")


def as_contrast_results(test: JointTest) -> ContrastResults:
    """The joint test as statsmodels' ContrastResults.

    With an F reference, or chi-squared where df_denom is infinite.
    """
    from statsmodels.stats.contrast import ContrastResults

    if np.isinf(test.df_denom):
        result: Any = ContrastResults(
            statistic=test.statistic * test.df_num, df_denom=test.df_num, distribution="chi2", dist_args=(test.df_num,)
        )
    else:
        result = ContrastResults(F=test.statistic, df_num=test.df_num, df_denom=test.df_denom)
    result.reason, result.note = test.reason, test.note
    return result


def joint_test_p(test: JointTest) -> float:
    """The p-value of a joint test; NaN where there is none."""
    q, dof, F = test.df_num, test.df_denom, test.statistic
    return float(special.chdtrc(q, F * q) if np.isinf(dof) else special.fdtrc(q, dof, F))


def few_notes(test: JointTest) -> list[Note]:
    """The warning of a joint test that few clusters keep from showing much; none otherwise."""
    return [(FewClustersWarning, test.note)] if test.note else []


def with_notes(test: JointTest, cov: Covariance, C: FloatArray) -> JointTest:
    """The test with what so few clusters keep it from showing."""
    if cov.axes and NO_DOF in test.reason:
        return replace(test, reason=f"{test.reason} ({thin_axis(cov, C)})")
    if not cov.axes or test.reason or test.note or share_shown(test.df_num, test.df_denom) >= LITTLE:
        return test
    return replace(test, note=little_shown(test.df_num, test.df_denom, thin_axis(cov, C)))


def joint_by_rule(cov: Covariance, C: FloatArray, effect: FloatArray) -> JointTest:
    """The test that effects are zero, by the rule of the covariance in use."""
    q = C.shape[0]
    refuse_dependent(C)
    reasons = [reason for reason in cov.reasons(C) if reason]
    if reasons:
        return JointTest(float("nan"), q, float("nan"), f"a contrast has no variance, because {reasons[0]}")
    if cov.ends is None or cov.reach(C, together=True) is None:
        return _by_rule(cov, C, effect, np.zeros((q, q)))
    return _allowing(cov, C, effect, cov.ends)


def _allowing(cov: Covariance, C: FloatArray, effect: FloatArray, ends: Ends) -> JointTest:
    """The test whose p-value is the level at which means without a variance have the errors that it allows them."""
    test = _by_rule(cov, C, effect, ends.variance(C, USUAL_LEVEL, NORMAL))
    if test.reason:
        return test
    log_level = np.log(USUAL_LEVEL)
    for _ in range(200):  # levels are looked for in so many steps, and not nearer to one
        level = float(np.exp(log_level))
        critical = float(t_quantile(level, np.array([test.df_denom]))[0])
        test = _by_rule(cov, C, effect, ends.variance(C, level, critical))
        reached = np.log(np.clip(joint_test_p(test), SMALLEST_LEVEL, 0.9999))
        if abs(reached - log_level) < ROUNDING:
            break
        # A smaller level allows for more: halfway, as whole steps may go to and fro.
        log_level = (log_level + reached) / 2
    return test


def _by_rule(cov: Covariance, C: FloatArray, effect: FloatArray, more: FloatArray) -> JointTest:
    """The test by the rule of the covariance in use, whose contrasts have `more` covariance than it shows.

    With degrees of freedom for each contrast it is the approximate Hotelling T^2 test (HTZ): (eta - q + 1)/(eta q) W is
    referred to F(q, eta - q + 1). Pustejovsky and Tipton (2018), JBES 36(4), section 3.2. Crossed, the
    sum of the one-way terms, which is never below one of them, takes the smallest of their eta, so that no axis makes
    another surer.
    """
    q, rule = C.shape[0], cov.options.dof
    if cov.summed or (cov.axes and not cov.crossed and rule == "satterthwaite"):
        eta = min(term.hotelling(C) for term in cov.one_way)
        if not eta > q - 1:
            return JointTest(float("nan"), q, float("nan"), f"{eta:.3g} {NO_DOF} {q} contrasts jointly")
        left = eta - q + 1
        return f_test(effect, C @ cov.sum_one_way @ C.T + more, left, left / eta)
    middle = cov.sum_one_way if cov.repaired is None or cov.options.kind.dof == "satterthwaite" else cov.repaired
    dof = np.inf if rule == "normal" else rule if isinstance(rule, float) else cov.smallest_dof
    if cov.axes and q > cov.smallest_dof:
        raise TooFewClustersError(
            f"a joint test needs more clusters than hypotheses; got {q} hypotheses, and {cov.smallest_dof:.0f} "
            f"degree{'' if cov.smallest_dof == 1 else 's'} of freedom between clusters. Test fewer at a time.",
            count=q,
        )
    test = f_test(effect, C @ middle @ C.T + more, dof)
    if not cov.axes or test.reason or falsely_shown(q, dof, cov.smallest_dof) <= 2 * USUAL_LEVEL:
        return test
    return replace(test, note=too_sure(q, dof, cov.smallest_dof, thin_axis(cov, C)))


# The usual power (Cohen, 1988): effects that a test with many clusters shows in this share of logs.
POWER = 0.8
# A test that shows less than this share of them is warned of.
LITTLE = 0.5


def critical_value(q: int, dof: float, alpha: float) -> float:
    """The F from which a test of q contrasts rejects; with an infinite dof that of chi-squared over q."""
    return float(special.chdtri(q, alpha) / q if np.isinf(dof) else special.fdtri(q, dof, 1 - alpha))


def share_shown(q: int, dof: float) -> float:
    """How often F(q, dof) rejects where chi-squared(q) does in 80%: effects of that noncentrality, by noncentral F."""
    if np.isinf(dof):
        return POWER
    noncentrality = float(special.chndtrinc(float(special.chdtri(q, USUAL_LEVEL)), q, 1 - POWER))
    return float(1 - special.ncfdtr(q, dof, noncentrality, critical_value(q, dof, USUAL_LEVEL)))


def falsely_shown(q: int, dof: float, cluster_dof: float) -> float:
    """How often F(q, dof) rejects where there is nothing, with variances and covariances from equal normal clusters.

    (v - q + 1)/(v q) W of v = `cluster_dof` is then F(q, v - q + 1) (Hotelling, 1931).
    """
    left = cluster_dof - q + 1
    return float(special.fdtrc(q, left, critical_value(q, dof, USUAL_LEVEL) * left / cluster_dof)) if left > 0 else 1.0


def thin_axis(cov: Covariance, C: FloatArray) -> str:
    """The axis that has the fewest degrees of freedom for some contrasts, as in "5 judge clusters"."""
    if not cov.axes:
        return "independent rows"
    satterthwaite = cov.options.dof == "satterthwaite"
    thinnest = min(cov.one_way, key=lambda term: term.hotelling(C) if satterthwaite else term.n_clusters)
    return f"{thinnest.n_clusters} {thinnest.name} cluster{'' if thinnest.n_clusters == 1 else 's'}"


def too_sure(q: int, dof: float, cluster_dof: float, axis: str) -> str:
    """What a joint test that takes the covariance for known does with so few clusters."""
    return (
        f"the joint test of {q} contrasts takes their covariance for known, but it is estimated from {axis}. At 5% it "
        f"rejects about {falsely_shown(q, dof, cluster_dof):.0%} of the time where there is nothing, and more often "
        f"where clusters are of unlike size. Use {passed(cov='CR2', dof='satterthwaite')}, or test fewer contrasts."
    )


def little_shown(q: int, dof: float, axis: str) -> str:
    """What a joint test with so few degrees of freedom on an axis cannot tell."""
    what = "one contrast" if q == 1 else f"{q} contrasts jointly"
    degrees = f"{dof:.3g} degree{'' if f'{dof:.3g}' == '1' else 's'}"
    return (
        f"{axis} leave {degrees} of freedom to test {what}. The test rejects at 5% from F = "
        f"{critical_value(q, dof, USUAL_LEVEL):.3g}; with the same error bars from many clusters it would reject from "
        f"{critical_value(q, np.inf, USUAL_LEVEL):.3g}. Effects that it would then find {POWER:.0%} of the time, it "
        f"now finds {share_shown(q, dof):.0%} of the time. Without a rejection it cannot tell no effect from a large "
        f"one. {'Add' if q == 1 else 'Test fewer contrasts, or add'} clusters."
    )

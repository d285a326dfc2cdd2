"""What a regression says beyond its coefficients: slopes, comparisons, predictions at chosen values, tests of terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, product
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import FloatArray, fraction, issue, listed, nearest
from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import known_columns
from evalreg.data.rows import joint_names
from evalreg.errors import (
    ArgumentError,
    ConstantScoreError,
    MissingColumnError,
    MissingLabelsError,
    NotAvailableError,
    TooFewClustersError,
)
from evalreg.estimate import Estimate
from evalreg.inference.wald import NO_DOF, JointTest, critical_value, few_notes, joint_test, joint_test_p
from evalreg.results.fitted import (
    Mean,
    asked_covariates,
    design_at,
    design_info,
    frame_of,
    holds_labels,
    mean_of,
    model_of,
    row_shares,
)

Contrast: TypeAlias = str | float | tuple[Any, Any]
OF_LABELS = ("reference", "pairwise", "sequential")
OF_NUMBERS = ("sd", "iqr", "minmax")

# Averages of the mean over rows, shape (n_groups,), and their derivatives, shape (n_groups, k).
Averages: TypeAlias = tuple[FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class FittedMean:
    """A fitted regression whose mean is averaged over groups of its rows."""

    model: Any
    frame: pd.DataFrame
    mean: Mean
    b: FloatArray
    shares: Any  # sparse, (n_groups, n_rows): weights of the rows, which sum to one in each group
    groups: tuple[tuple[str, ...], ...]  # labels of each group; one empty tuple for all rows

    def labels(self, name: str) -> bool:
        """Whether a covariate holds labels."""
        return holds_labels(self.model, self.frame, name)

    def at(self, **values: Any) -> Averages:
        """Averages with every row's covariates put at these values, each one value or an array."""
        n, index = len(self.frame), self.frame.index
        columns = {
            name: pd.Series(
                value if np.ndim(value) else [value] * n,
                index=index,
                dtype=self.frame[name].dtype if self.labels(name) else np.float64,
            )
            for name, value in values.items()
        }
        X = design_at(self.model, self.frame.assign(**columns)) if values else np.asarray(self.model.exog)
        eta = X @ self.b
        return self.shares @ self.mean.at(eta), self.shares @ (self.mean.slope(eta)[:, None] * X)


def fitted_groups(estimate: Estimate, by: str | list[str] | None) -> FittedMean:
    """The regression of an estimate, over all rows or over the rows of each joint value of `by`."""
    model = model_of(estimate)
    frame = frame_of(model)
    share = row_shares(model, len(frame))
    codes, groups = np.zeros(len(frame), dtype=np.intp), ((),)
    if by is not None:
        codes, groups = _rows_by(estimate, by)
    whole = np.bincount(codes, weights=share, minlength=len(groups))
    rows = np.arange(len(frame))
    shares = sparse.csr_array((share / whole[codes], (codes, rows)), shape=(len(groups), len(frame)))
    return FittedMean(model, frame, mean_of(model), np.array(estimate.params), shares, groups)


def _rows_by(estimate: Estimate, by: str | list[str]) -> tuple[Any, Any]:
    """Group of each row, and the labels of each, sorted as text."""
    names = known_columns(by, estimate.scores.columns, "by")
    labels = estimate.scores.row_labels()
    if labels is None:
        raise NotAvailableError("`by` needs rows in memory. Leave it out, or fit data that are in memory.")
    try:
        found = labels.codes(names)
    except MissingLabelsError as error:
        raise MissingLabelsError(
            f"`by` must have a label in every row in use; {error.column!r} has none in {error.count}. Leave these rows "
            "out of the fit, or give them a label.",
            column=error.column,
            rows=error.rows,
            count=error.count,
        ) from None
    parts = found.parts or (found,)
    groups = [tuple(part.label(int(part.codes[row])) for part in parts) for row in found.first]
    order = sorted(range(len(groups)), key=groups.__getitem__)
    place = np.empty(len(groups), dtype=np.intp)
    place[order] = np.arange(len(groups))
    return place[found.codes], tuple(groups[i] for i in order)


def average_predictions(
    fitted: FittedMean, variables: str | Sequence[str] | Mapping[str, Any] | None
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Average expected scores of groups of rows, at each joint value of `variables`; derivatives and names."""
    asked = values_asked(fitted, variables)
    found, names = [], []
    for values in product(*asked.values()):
        found.append(fitted.at(**dict(zip(asked, values, strict=True))))
        names += [
            (*group, *(f"{value:g}" if isinstance(value, float) else str(value) for value in values))
            for group in fitted.groups
        ]
    return (*_together(found), joint_names(names) if asked or fitted.groups != ((),) else ("average",))


def values_asked(fitted: FittedMean, variables: str | Sequence[str] | Mapping[str, Any] | None) -> dict[str, list[Any]]:
    """Values at which the covariates are put."""
    if variables is None:
        return {}
    given = variables if isinstance(variables, Mapping) else {}
    found = {}
    for name in asked_covariates(fitted.model, fitted.frame, _as_list(variables)):
        column = fitted.frame[name]
        if name in given:
            several = isinstance(given[name], Sequence | np.ndarray) and not isinstance(given[name], str)
            values = list(given[name]) if several else [given[name]]
            if not values:
                raise ArgumentError(f'`variables` gives no value for "{name}".')
            found[name] = [_level(fitted, name, value) for value in values]
        elif not fitted.labels(name):
            raise ArgumentError(
                f'`variables` must say at which values of the number "{name}" predictions are wanted, such as '
                f'{{"{name}": [{column.min():g}, {column.max():g}]}}.'
            )
        else:
            found[name] = _levels(column)
    return found


# Step of a central difference, in standard deviations; its square is the relative error of a curved term.
STEP = 1e-4


def average_slopes(
    fitted: FittedMean, variables: str | list[str] | None
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Average slopes of numbers, and differences of labels to the first; their derivatives and names."""
    found, names = [], []
    for name in asked_covariates(fitted.model, fitted.frame, variables):
        if fitted.labels(name):
            for label, (value, slope), (other, other_slope) in _between_levels(fitted, name, None):
                found.append((value - other, slope - other_slope))
                names.append(f"{name}[{label}]")
        else:
            found.append(_derivative(fitted, name))
            names.append(name)
    return (*_together(found), tuple(names))


def _derivative(fitted: FittedMean, name: str) -> Averages:
    """Mean derivative with respect to a number: d/dx of the mean is slope(x'b) times dx'b."""
    x = fitted.frame[name].to_numpy(dtype=float)
    step, low, high = STEP * (np.std(x) or 1.0), x.min(), x.max()
    if high == low:
        low, high = low - step, high + step
    # Not beyond the data, where a spline is not defined.
    above, below = np.minimum(x + step, high), np.maximum(x - step, low)
    ends = [design_at(fitted.model, fitted.frame.assign(**{name: end})) for end in (above, below)]
    D, X = (ends[0] - ends[1]) / (above - below)[:, None], np.asarray(fitted.model.exog)
    eta, moved = X @ fitted.b, D @ fitted.b
    slope, curve = fitted.mean.slope(eta), fitted.mean.curve(eta)
    return fitted.shares @ (slope * moved), fitted.shares @ (slope[:, None] * D + (curve * moved)[:, None] * X)


def average_comparisons(
    fitted: FittedMean, variables: str | Sequence[str] | Mapping[str, Any] | None, contrast: Contrast | None
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Average differences of expected scores between two values of a covariate; their derivatives and names."""
    given = dict(variables) if isinstance(variables, Mapping) else {}
    names_asked = asked_covariates(fitted.model, fitted.frame, _as_list(variables))
    labels = {name: fitted.labels(name) for name in names_asked}
    if contrast is not None:
        fits = [name for name in names_asked if name not in given and _fits(contrast, labels[name])]
        if not fits:
            what = "labels" if _fits(contrast, True) else "numbers"
            raise ArgumentError(
                f"`contrast={contrast!r}` compares {what}, and is none for {listed(names_asked)}. Of labels it is one "
                f"of {listed(OF_LABELS)} or (level, other level), of numbers a step, (high, low) or one of "
                f"{listed(OF_NUMBERS)}."
            )
        given |= dict.fromkeys(fits, contrast)
    found, names = [], []
    for name in names_asked:
        of_name = _between_levels if labels[name] else _between_numbers
        for label, (value, slope), (other, other_slope) in of_name(fitted, name, given.get(name)):
            found.append((value - other, slope - other_slope))
            names += [f"{':'.join(group)}{': ' if group else ''}{name}[{label}]" for group in fitted.groups]
    return (*_together(found), tuple(names))


def _fits(contrast: Any, labels: bool) -> bool:
    """Whether a contrast is one of labels, or of numbers."""
    if isinstance(contrast, str):
        return contrast in (OF_LABELS if labels else OF_NUMBERS)
    if isinstance(contrast, int | float | np.number) and not isinstance(contrast, bool):
        return not labels
    return labels or all(isinstance(end, int | float | np.number) for end in contrast)


def _between_levels(fitted: FittedMean, name: str, contrast: Any) -> list[tuple[str, Averages, Averages]]:
    """Averages at two levels of labels each."""
    levels = _levels(fitted.frame[name])
    pairs: list[tuple[Any, Any]]
    if contrast is None or (isinstance(contrast, str) and contrast == "reference"):
        pairs = [(level, levels[0]) for level in levels[1:]]
    elif isinstance(contrast, str) and contrast in OF_LABELS:
        pairs = [(b, a) for a, b in (combinations(levels, 2) if contrast == "pairwise" else pairwise(levels))]
    else:
        high, low = _two_ends(name, contrast, f"one of {listed(OF_LABELS)}, or (level, other level)")
        pairs = [(_level(fitted, name, high), _level(fitted, name, low))]
    if not pairs:
        raise ConstantScoreError(f'"{name}" has one level, {levels[0]!r}, and nothing to compare it with.', column=name)
    at = {level: fitted.at(**{name: level}) for level in dict.fromkeys(end for pair in pairs for end in pair)}
    return [(f"{high} - {low}", at[high], at[low]) for high, low in pairs]


def _between_numbers(fitted: FittedMean, name: str, contrast: Any) -> list[tuple[str, Averages, Averages]]:
    """Averages at two values of a number."""
    x = fitted.frame[name].to_numpy(dtype=float)
    how = f"a step, (high, low), or one of {listed(OF_NUMBERS)}"
    label, ends = "+1", (x + 0.5, x - 0.5)
    if isinstance(contrast, str):
        if contrast not in OF_NUMBERS:
            hint = nearest(contrast, OF_NUMBERS)
            raise ArgumentError(f'the contrast of the number "{name}" must be {how}; got {contrast!r}.{hint}')
        label, ends = _SPANS[contrast](x)
    elif isinstance(contrast, int | float | np.number) and not isinstance(contrast, bool):
        if not (np.isfinite(contrast) and contrast != 0):
            raise ArgumentError(f'the step of "{name}" must be finite and not 0; got {contrast!r}.')
        label, ends = f"{contrast:+g}", (x + contrast / 2, x - contrast / 2)
    elif contrast is not None:
        high, low = (_level(fitted, name, end) for end in _two_ends(name, contrast, how))
        label, ends = f"{high:g} - {low:g}", (high, low)
    return [(label, fitted.at(**{name: ends[0]}), fitted.at(**{name: ends[1]}))]


def _sd(x: FloatArray) -> tuple[str, tuple[Any, Any]]:
    half = np.std(x, ddof=1) / 2
    return "+sd", (x + half, x - half)


_SPANS: dict[str, Callable[[FloatArray], tuple[str, tuple[Any, Any]]]] = {
    "sd": _sd,
    "iqr": lambda x: ("Q3 - Q1", (float(np.quantile(x, 0.75)), float(np.quantile(x, 0.25)))),
    "minmax": lambda x: ("max - min", (float(x.max()), float(x.min()))),
}


def _two_ends(name: str, contrast: Any, how: str) -> tuple[Any, Any]:
    if isinstance(contrast, tuple | list) and len(contrast) == 2:
        return contrast[0], contrast[1]
    raise ArgumentError(f'the contrast of "{name}" must be {how}; got {contrast!r}.')


def _together(found: list[Averages]) -> tuple[FloatArray, FloatArray]:
    return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])


def _as_list(variables: Any) -> Any:
    return list(variables) if isinstance(variables, Mapping) else variables


def _levels(column: pd.Series) -> list[Any]:
    """Levels of labels, in the order of the formula."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return list(column.cat.categories)
    return sorted(column.unique().tolist())


def _level(fitted: FittedMean, name: str, value: Any) -> Any:
    """A value that a covariate can be put at."""
    if not fitted.labels(name):
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not np.isfinite(value):
            raise ArgumentError(f'values of "{name}" must be finite numbers; got {value!r}.')
        return float(value)
    levels = _levels(fitted.frame[name])
    if value not in levels:
        hint = nearest(value, levels) or f" They are {listed(levels)}."
        raise MissingColumnError(f'"{name}" has no level {value!r}.{hint}', column=name)
    return value


# Terms

COLUMNS = ("F", "df_num", "df_denom", "p_value", "critical", "reason")


def term_tests(estimate: Estimate, cov: Covariance, alpha: float) -> pd.DataFrame:
    """The table of `wald_test_terms`: for each term the test that all its coefficients are zero."""
    fraction("alpha", alpha)
    info = None if estimate.fitted is None or estimate.absorbed is not None else design_info(estimate.fitted().model)
    if info is None:
        raise NotAvailableError(
            "tests by term need a formula and its fit: results of `fit` without absorbed factors, or of "
            "`from_statsmodels` by formula (contrasts, copies, unpickled results and fits of rows in an engine hold "
            "none). `wald_test` takes any coefficients by name."
        )
    unit = np.eye(estimate.n_params)
    tests = {name: _tested(estimate, cov, unit[part]) for name, part in info.term_name_slices.items()}
    issue([(kind, f'term "{name}": {text}') for name, test in tests.items() for kind, text in few_notes(test)])
    rows = {name: _row(test, alpha) for name, test in tests.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS))


def _tested(estimate: Estimate, cov: Covariance, C: FloatArray) -> JointTest:
    """The joint test, with the reason where clusters are too few for any."""
    try:
        return joint_test(estimate, cov, C)
    except TooFewClustersError:
        q, dof = C.shape[0], float(cov.smallest_dof)
        text = f"{dof:.3g} {NO_DOF} {q} contrasts jointly"
        return JointTest(float("nan"), q, float("nan"), text)


def _row(test: JointTest, alpha: float) -> tuple[float | int | str, ...]:
    """One row: F with its reference, its p-value, and the F from which it is significant."""
    q, dof, F = test.df_num, test.df_denom, test.statistic
    return F, q, dof, joint_test_p(test), critical_value(q, dof, alpha), test.reason

"""What a regression says beyond its coefficients: slopes, comparisons, predictions at chosen values, tests of terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, pairwise, product
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
    chosen_covariates,
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

Variables: TypeAlias = str | Sequence[str] | Mapping[str, Any] | None
# Averages of the mean over rows, shape (n_groups,), and their derivatives, shape (n_groups, k).
Averages: TypeAlias = tuple[FloatArray, FloatArray]
# Several, with their names.
NamedAverages: TypeAlias = tuple[FloatArray, FloatArray, tuple[str, ...]]


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
        codes = labels.codes(names)
    except MissingLabelsError as error:
        raise MissingLabelsError(
            f"`by` must have a label in every row in use; {error.column!r} has none in {error.count}. Leave these rows "
            "out of the fit, or give them a label.",
            column=error.column,
            rows=error.rows,
            count=error.count,
        ) from None
    parts = codes.parts or (codes,)
    groups = [tuple(part.label(int(part.codes[row])) for part in parts) for row in codes.first]
    order = sorted(range(len(groups)), key=groups.__getitem__)
    place = np.empty(len(groups), dtype=np.intp)
    place[order] = np.arange(len(groups))
    return place[codes.codes], tuple(groups[i] for i in order)


def average_predictions(fitted: FittedMean, variables: Variables) -> NamedAverages:
    """Average expected scores of groups of rows, at each joint value of `variables`."""
    grid = covariate_values(fitted, variables)
    averages, names = [], []
    for values in product(*grid.values()):
        averages.append(fitted.at(**dict(zip(grid, values, strict=True))))
        texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
        names += [(*group, *texts) for group in fitted.groups]
    return _together(averages, joint_names(names) if grid or fitted.groups != ((),) else ("average",))


def covariate_values(fitted: FittedMean, variables: Variables) -> dict[str, list[Any]]:
    """Values at which the covariates are put."""
    values = {}
    for name, value in _by_covariate(fitted, variables).items() if variables is not None else ():
        column = fitted.frame[name]
        if value is not None:
            several = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
            values[name] = [_level(fitted, name, each) for each in (value if several else [value])]
            if not values[name]:
                raise ArgumentError(f'`variables` gives no value for "{name}".')
        elif fitted.labels(name):
            values[name] = _levels(column)
        else:
            raise ArgumentError(
                f'`variables` must say at which values of the number "{name}" predictions are wanted, such as '
                f'{{"{name}": [{column.min():g}, {column.max():g}]}}.'
            )
    return values


def _by_covariate(fitted: FittedMean, variables: Variables) -> dict[str, Any]:
    """The covariates that are asked for, with what was given for each, None without."""
    values = variables if isinstance(variables, Mapping) else {}
    names: Any = list(variables) if isinstance(variables, Mapping) else variables
    return {name: values.get(name) for name in chosen_covariates(fitted.model, fitted.frame, names)}


# Step of a central difference, in standard deviations; its square is the relative error of a curved term.
STEP = 1e-4


def average_slopes(fitted: FittedMean, variables: str | list[str] | None) -> NamedAverages:
    """Average slopes of numbers, and differences of labels to the first."""
    averages, names = [], []
    for name in _by_covariate(fitted, variables):
        each = _differences(fitted, name, None) if fitted.labels(name) else [(name, _derivative(fitted, name))]
        names += [label for label, _ in each]
        averages += [average for _, average in each]
    return _together(averages, names)


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


def average_comparisons(fitted: FittedMean, variables: Variables, contrast: Contrast | None) -> NamedAverages:
    """Average differences of expected scores between two values of a covariate."""
    contrasts = _by_covariate(fitted, variables)
    if contrast is not None:
        fits = [name for name, value in contrasts.items() if value is None and _fits(contrast, fitted.labels(name))]
        if not fits:
            what = "labels" if _fits(contrast, True) else "numbers"
            raise ArgumentError(
                f"`contrast={contrast!r}` compares {what}, and is none for {listed(contrasts)}. Of labels it is one "
                f"of {listed(OF_LABELS)} or (level, other level), of numbers a step, (high, low) or one of "
                f"{listed(OF_NUMBERS)}."
            )
        contrasts |= dict.fromkeys(fits, contrast)
    averages, names = [], []
    for name, of_name in contrasts.items():
        for label, average in _differences(fitted, name, of_name):
            averages.append(average)
            names += [f"{':'.join(group)}{': ' if group else ''}{label}" for group in fitted.groups]
    return _together(averages, names)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _fits(contrast: Any, labels: bool) -> bool:
    """Whether a contrast is one of labels, or of numbers."""
    if isinstance(contrast, str):
        return contrast in (OF_LABELS if labels else OF_NUMBERS)
    if _is_number(contrast):
        return not labels
    return labels or (np.ndim(contrast) == 1 and all(map(_is_number, contrast)))


def _differences(fitted: FittedMean, name: str, contrast: Any) -> list[tuple[str, Averages]]:
    """Differences of the averages between two levels of labels, or two values of a number, each under its name."""
    if fitted.labels(name):
        pairs = _level_pairs(fitted, name, contrast)
        at = {level: fitted.at(**{name: level}) for level in dict.fromkeys(chain.from_iterable(pairs))}
        ends = [(f"{high} - {low}", at[high], at[low]) for high, low in pairs]
    else:
        label, high, low = _two_values(fitted, name, contrast)
        ends = [(label, fitted.at(**{name: high}), fitted.at(**{name: low}))]
    return [(f"{name}[{label}]", (high[0] - low[0], high[1] - low[1])) for label, high, low in ends]


def _level_pairs(fitted: FittedMean, name: str, contrast: Any) -> list[tuple[Any, Any]]:
    """The levels that are compared, the first less the second."""
    levels = _levels(fitted.frame[name])
    if contrast is not None and not (isinstance(contrast, str) and contrast in OF_LABELS):
        high, low = _two_ends(name, contrast, f"one of {listed(OF_LABELS)}, or (level, other level)")
        return [(_level(fitted, name, high), _level(fitted, name, low))]
    if len(levels) < 2:
        raise ConstantScoreError(f'"{name}" has one level, {levels[0]!r}, and nothing to compare it with.', column=name)
    if contrast is None or contrast == "reference":
        return [(level, levels[0]) for level in levels[1:]]
    return [(b, a) for a, b in (combinations(levels, 2) if contrast == "pairwise" else pairwise(levels))]


def _two_values(fitted: FittedMean, name: str, contrast: Any) -> tuple[str, Any, Any]:
    """What a contrast of numbers is called, and its two values, each one number or one a row."""
    x = fitted.frame[name].to_numpy(dtype=float)
    how = f"a step, (high, low), or one of {listed(OF_NUMBERS)}"
    if isinstance(contrast, str):
        if contrast not in OF_NUMBERS:
            hint = nearest(contrast, OF_NUMBERS)
            raise ArgumentError(f'the contrast of the number "{name}" must be {how}; got {contrast!r}.{hint}')
        if contrast == "iqr":
            return "Q3 - Q1", float(np.quantile(x, 0.75)), float(np.quantile(x, 0.25))
        if contrast == "minmax":
            return "max - min", float(x.max()), float(x.min())
        half = np.std(x, ddof=1) / 2
        return "+sd", x + half, x - half
    if contrast is None or _is_number(contrast):
        step = 1.0 if contrast is None else contrast
        if not (np.isfinite(step) and step != 0):
            raise ArgumentError(f'the step of "{name}" must be finite and not 0; got {step!r}.')
        return f"{step:+g}", x + step / 2, x - step / 2
    high, low = (_level(fitted, name, end) for end in _two_ends(name, contrast, how))
    return f"{high:g} - {low:g}", high, low


def _two_ends(name: str, contrast: Any, how: str) -> tuple[Any, Any]:
    if isinstance(contrast, tuple | list) and len(contrast) == 2:
        return contrast[0], contrast[1]
    raise ArgumentError(f'the contrast of "{name}" must be {how}; got {contrast!r}.')


def _together(averages: list[Averages], names: Sequence[str]) -> NamedAverages:
    values, derivatives = zip(*averages, strict=True)
    return np.concatenate(values), np.concatenate(derivatives), tuple(names)


def _levels(column: pd.Series) -> list[Any]:
    """Levels of labels, in the order of the formula."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return list(column.cat.categories)
    return sorted(column.unique().tolist())


def _level(fitted: FittedMean, name: str, value: Any) -> Any:
    """A value that a covariate can be put at."""
    if not fitted.labels(name):
        if not _is_number(value) or not np.isfinite(value):
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
    tests = {}
    for name, part in info.term_name_slices.items():
        C = np.eye(estimate.n_params)[part]
        try:
            tests[name] = joint_test(estimate, cov, C)
        except TooFewClustersError:
            text = f"{float(cov.smallest_dof):.3g} {NO_DOF} {len(C)} contrasts jointly"
            tests[name] = JointTest(float("nan"), len(C), float("nan"), text)
    issue([(kind, f'term "{name}": {text}') for name, test in tests.items() for kind, text in few_notes(test)])
    rows = {}
    for name, test in tests.items():
        q, dof = test.df_num, test.df_denom
        rows[name] = test.statistic, q, dof, joint_test_p(test), critical_value(q, dof, alpha), test.reason
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(COLUMNS))

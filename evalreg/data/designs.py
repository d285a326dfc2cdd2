"""Columns of a formula as patsy takes them, of rows in use; and those of a regression with absorbed factors."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from evalreg.checks import BoolArray, FloatArray, Names, listed
from evalreg.data.clusters import Axes, Codes, Groups, axis_name, factorize, joint, occurring, rows_where
from evalreg.data.formula import ParsedFormula, absorbed_factors, formula_columns, names_in, terms_of
from evalreg.data.frame import Table, Values, are_numbers, object_floats, refuse_larger
from evalreg.data.rows import ReadRows, Roles, read_rows
from evalreg.errors import EmptyDataError, FormulaError, NonFiniteError, NonNumericError
from evalreg.numerics.limits import DESIGNS, GRAMS

NEITHER = {
    "complex": "complex numbers",
    "date": "dates",
    "datetime": "dates and times",
    "datetime64": "dates and times",
    "interval": "intervals",
    "period": "periods",
    "time": "times of day",
    "timedelta": "lengths of time",
    "timedelta64": "lengths of time",
}
"""What pandas infers of values that are neither numbers nor labels, and what messages call them."""


def for_formula(column: pd.Series, name: str, plain: bool) -> Any:
    """A column of rows in use as patsy takes it: numbers and truth values by their type, anything else as labels.

    A `plain` column, used outside of ``C(...)``, holds no times or the like, nor numbers among other things.
    """
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        # As pandas' `remove_unused_categories`, which sorts the codes of all rows.
        used = occurring(np.asarray(column.cat.codes), len(dtype.categories))
        return column if used.all() else column.cat.set_categories(dtype.categories[used])
    if pd.api.types.is_bool_dtype(dtype):
        return column.to_numpy(dtype=bool)
    if pd.api.types.is_integer_dtype(dtype):
        unsigned = pd.api.types.is_unsigned_integer_dtype(dtype) and not (plain and column.max() < 2**63)
        return column.to_numpy(dtype=np.uint64 if unsigned else np.int64)
    if pd.api.types.is_numeric_dtype(dtype) and dtype.kind != "c":
        return column.to_numpy(dtype=np.float64)
    if isinstance(dtype, pd.StringDtype):
        return column
    return _of_objects(column.astype(object), name, plain)


def _of_objects(values: pd.Series, name: str, plain: bool) -> Any:
    """Numbers of one type where all are numbers; otherwise labels, unless the formula takes them for more than that."""
    kind = infer_dtype(values, skipna=True)
    numbers = are_numbers(values, kind)
    if numbers.all():
        return _of_numbers(values, kind)
    if plain and (kind in NEITHER or numbers.any()):
        rows = rows_where(~numbers)
        held = f"both numbers and {listed(values[~numbers].unique()[:3])}, in {rows} of those in use"
        held = f"{NEITHER[kind]}, which are neither numbers nor labels" if kind in NEITHER else held
        raise NonNumericError(
            f"`formula` takes {name!r} as it is, and the column holds {held}. Make it a column of numbers first, or "
            f"write C({name}) for a level of its own for each value.",
            column=name,
            rows=rows,
        )
    return values


def as_labels(values: Any, whole: bool) -> Any:
    """Text as categories in patsy's order, so that patsy walks over no rows; where a formula takes it `whole`."""
    text = isinstance(values, pd.Series) and isinstance(values.dtype, pd.StringDtype)
    if not (whole and (text or (isinstance(values, pd.Series) and values.dtype == object))):
        return values.astype(object) if text else values
    codes, levels = factorize(values if text else values.to_numpy())
    levels = np.asarray(levels, dtype=object)
    if not all(type(level) is str for level in levels):
        return values
    order = sorted(range(len(levels)), key=levels.__getitem__)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    kind = pd.CategoricalDtype(pd.Index(levels[order], dtype=object))
    return pd.Series(pd.Categorical.from_codes(place[codes], dtype=kind), index=values.index, name=values.name)


def _of_numbers(values: pd.Series, kind: str) -> Values:
    if kind == "boolean":
        return values.to_numpy(dtype=bool)
    if kind == "integer":
        try:
            return values.to_numpy(dtype=np.int64)
        except OverflowError:
            pass
    return object_floats(values)


# Below so many combinations of levels, columns are not counted before they are made.
MANY_LEVELS = 200


DesignColumns: TypeAlias = dict[str, "pd.Series[Any]"]
"""Columns of a formula, of rows in use, by name."""


def design_columns(rows: ReadRows, names: Names, parsed: ParsedFormula) -> DesignColumns:
    """Columns of the formula of rows in use as patsy takes them: numbers, objects, categories without unused levels.

    Whole numbers are floats where the formula computes with them: these would wrap at 2^63. Those of ``C(...)`` stay as
    they are, as levels have their names.
    """
    columns, computed = rows.source.table.series(names, rows.source.keep), parsed.plain - parsed.factors - parsed.whole
    for name, column in columns.items():
        values: Any = column
        if name == parsed.outcome and "score" in rows.values:
            values = rows.values["score"]
        elif column.dtype not in (np.dtype(np.float64), np.dtype(np.int64)):
            values = as_labels(for_formula(column, name, name in parsed.plain), name in parsed.whole)
        if name in computed and values.dtype.kind in "iu":
            values = values.astype(np.float64)
        if values is not column:
            columns[name] = pd.Series(values, index=column.index, name=name, copy=False)
    return columns


def refuse_large_design(parsed: ParsedFormula, columns: DesignColumns, n_rows: int, n_clusters: int) -> None:
    """Raise if the columns of a formula do not fit into memory, before they are made; with the factor of most levels.

    `n_clusters` is that of the finest clustering asked for; 0 without groups.
    """
    import patsy

    levels = {
        name: len(columns[name].cat.categories) if columns[name].dtype == "category" else int(columns[name].nunique())
        for name in parsed.covariate_names
        if name in parsed.factors or not pd.api.types.is_numeric_dtype(columns[name])
    }
    if math.prod(levels.values()) < MANY_LEVELS:
        return
    widest = max(levels, key=levels.__getitem__)
    remedy = f'Leave out or merge levels of "{widest}", which has {levels[widest]:,}.'
    terms = patsy.ModelDesc([], terms_of(parsed.text).rhs_termlist)
    # What is far too large takes long to count alone.
    fewest = max(_fewest(term, levels) for term in terms.rhs_termlist)
    _refuse_columns(fewest, "at least ", parsed, n_rows, n_clusters, remedy)
    try:
        with np.errstate(all="ignore"):
            design = patsy.incr_dbuilder(terms, lambda: iter([columns]), eval_env=0)
    except Exception:
        return  # The fit says what is wrong, and where.
    _refuse_columns(len(design.column_names), "", parsed, n_rows, n_clusters, remedy)


def _fewest(term: Any, levels: dict[str, int]) -> int:
    """Columns that a term has at the least: the levels of its factors, less one each."""
    names = [names_in([factor.code]).columns & set(levels) for factor in term.factors]
    return math.prod(max(levels[name] for name in columns) - 1 for columns in names if columns)


def _refuse_columns(k: int, about: str, parsed: ParsedFormula, n_rows: int, n_clusters: int, remedy: str) -> None:
    what = f"{parsed.text!r} has {about}{k:,} columns, which for {n_rows:,} rows"
    in_clusters = f" in {n_clusters:,} clusters" if n_clusters else ""
    # Only clusters of k rows or more need a matrix of k by k, and at most n / k have so many.
    grams = GRAMS * min(n_clusters * k, n_rows)
    refuse_larger(8.0 * k * (DESIGNS * n_rows + grams), what + in_clusters, remedy)


@contextmanager
def evaluating() -> Iterator[None]:
    """Put an error of ours in the place of any that a formula raises, whose text is the user's code."""
    import patsy

    try:
        with np.errstate(all="ignore"):
            yield
    except Exception as error:
        kind = "" if isinstance(error, patsy.PatsyError) else f"{type(error).__name__}: "
        raise FormulaError(f"`formula` cannot be evaluated: {kind}{error}") from None


TERMS = "terms of the formula"


def refuse_nonfinite(columns: Iterable[tuple[str, FloatArray]]) -> None:
    """Name the first term of a formula that is not finite, and its rows."""
    for name, column in columns:
        with np.errstate(all="ignore"):
            total = column.sum()
        # A sum that is finite is one of finite numbers.
        if not np.isfinite(total):
            rows = rows_where(~np.isfinite(column))
            is_so = f"missing or infinite in {rows} of those in use" if rows.count else "too large to be summed"
            raise NonFiniteError(
                f"{TERMS} must be finite; {name!r} is {is_so}. Leave such rows out, or change the transformation.",
                column=name,
                rows=rows,
            )


def sides_design(parsed: ParsedFormula, frame: pd.DataFrame, n_rows: int) -> tuple[Names, FloatArray]:
    """Names and columns, shape (n_rows, n_terms), of what differs between the sides, left minus right.

    The constant is the position; `n_rows` is what a formula without columns cannot tell.
    """
    import patsy

    # A formula without columns takes its length from the index of the frame.
    frame = frame if frame.shape[1] else pd.DataFrame(index=range(n_rows))
    with evaluating():
        keep_all = patsy.NAAction(on_NA="drop", NA_types=[])
        design = patsy.dmatrix(parsed.text, frame, eval_env=0, NA_action=keep_all, return_type="dataframe")
    columns = design.to_numpy(dtype=np.float64)
    refuse_nonfinite(zip(map(str, design.columns), columns.T, strict=True))
    names = tuple("position" if name == "Intercept" else str(name) for name in design.columns)
    return names, columns


FormulaColumns: TypeAlias = tuple[Names, Names]
"""Columns of the left and of the right side of a formula."""


def absorbed_columns(parsed: ParsedFormula, names: Names) -> tuple[FormulaColumns, Axes]:
    """Columns of a formula and of its absorbed factors, which contain the constant, of a frame with these names."""
    if not parsed.has_constant:
        raise FormulaError(
            f'`formula` leaves out the constant, which absorbed factors contain; got {parsed.text!r}. Leave out "0 +" '
            'or "- 1".'
        )
    if parsed.intercept_only:
        raise FormulaError(
            f"`formula` has nothing to estimate: the absorbed {parsed.absorbed!r} contains the constant. Name a "
            f'covariate before the bar, or write "{parsed.outcome} ~ 1" for the mean.'
        )
    columns, factors = formula_columns(parsed, names), absorbed_factors(parsed.absorbed, names)
    for name in (name for factor in factors for name in factor):
        if name in columns[0]:
            raise FormulaError(f'`formula` absorbs "{name}", which is its score.')
    return columns, factors


def read_design(
    parsed: ParsedFormula, table: Table, columns: FormulaColumns, roles: Roles, groups: Groups, factors: Axes = ()
) -> tuple[ReadRows, DesignColumns]:
    """Rows with a score, covariates, levels of absorbed factors and clusters, and the columns of the formula.

    Rows alone in a level tell nothing and are left out.
    """
    left, right = columns
    levels, plain = dict.fromkeys((name for factor in factors for name in factor), "formula"), parsed.outcome in left
    rows = read_rows(
        table,
        {"score": parsed.outcome} if plain else {},
        absent={
            "score": {} if plain else {name: table.missing(name) for name in left},
            "covariate": {name: table.missing(name) for name in right},
        },
        labels=levels,
        weights=roles.weights,
        groups=groups,
        missing=roles.missing,
        split=(*right, *levels),
    )
    recurring = _not_alone(levels_of(rows, factors)) if factors else None
    if recurring is not None and not recurring.any():
        names = listed([axis_name(factor) for factor in factors])
        raise EmptyDataError(
            f"every one of the {rows.n_rows} rows is alone in a level of the absorbed {names}, so that nothing is left "
            "to compare. Absorb a column whose values recur, or name it in `groups` instead.",
            count=rows.n_rows,
        )
    if recurring is not None:
        rows = rows.only(recurring, "singleton")
    design = design_columns(rows, (*left, *right), parsed)
    finest = max((len(rows.used[name].labels) for name in rows.held), default=0)
    refuse_large_design(parsed, design, rows.n_rows, finest)
    return rows, design


def levels_of(rows: ReadRows, factors: Axes) -> tuple[Codes, ...]:
    """Level of each row in each factor."""
    return tuple(joint([rows.used[name] for name in factor]) for factor in factors)


def _not_alone(factors: Sequence[Codes]) -> BoolArray | None:
    """Rows that are not alone in a level, shape (n_rows,): those that are go, until none is; None if all stay."""
    recurring = np.ones(factors[0].codes.size, dtype=bool)
    while True:
        single = np.zeros_like(recurring)
        for factor in factors:
            counts = np.bincount(factor.codes[recurring], minlength=factor.n_clusters)
            single |= counts[factor.codes] == 1
        single &= recurring
        if not single.any():
            return None if recurring.all() else recurring
        recurring &= ~single

"""Values of a column: which are numbers, the same for scores, weights and covariates, and of which type."""

from __future__ import annotations

import re
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import infer_dtype

from evalreg.checks import BoolArray, FloatArray, listed
from evalreg.data.clusters import factorize
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.errors import ArgumentTypeError, NonNumericError

NUMERIC_OBJECTS = ("integer", "floating", "mixed-integer-float", "boolean", "decimal", "empty")
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

Values: TypeAlias = npt.NDArray[Any]


def nested_labels(name: str, what: object) -> ArgumentTypeError:
    """What is said of a column of labels that holds lists or structures."""
    return ArgumentTypeError(
        f"labels must be one value a row (text, numbers, days); column {name!r} holds {what}. Make a column of text or "
        "numbers of it first."
    )


def refuse_nested(name: str, kind: Any, native: object = "") -> None:
    """Raise if a column of labels is of lists, structures or several types by its type, here or in its own library."""
    if kind in (nw.List, nw.Array, nw.Struct):
        raise nested_labels(name, kind)
    if several := _of_several(native):
        raise nested_labels(name, several)


def _of_several(native: object) -> str:
    """What a type that narwhals has no name for is called, where its values are of several types, or maps."""
    kind = str(native).lower()
    if kind.startswith(("union", "sparse_union", "dense_union")):
        return "values of several types (a union)"
    return "maps" if kind.startswith("map") else ""


def type_outside(series: nw.Series[Any]) -> object:
    """The type of a column in its own library, where that is pyarrow."""
    return getattr(series.to_native(), "type", "")


def as_floats(series: nw.Series[Any], name: str, argument: str) -> FloatArray:
    """A copy of a column as float64, NaN where it is missing; of numbers, truth values or objects that are numbers."""
    native = series.to_native()
    if several := _of_several(type_outside(series)):
        raise NonNumericError(
            f"`{argument}` must hold numbers; column {name!r} holds {several}. Convert the column first, or "
            "name another.",
            column=name,
        )
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        if not isinstance(native, pd.Series):
            return _of_present(series, np.float64, np.nan)
        if native.dtype.kind != "c":
            return np.array(native.to_numpy(dtype=np.float64, na_value=np.nan))
    values = pd.Series(series.to_numpy(), dtype=object)
    wrong = ~are_numbers(values)
    if not wrong.any():
        return object_floats(values)
    rows, count = row_list(wrong)
    commas = all(isinstance(value, str) and re.fullmatch(r"\s*[-+]?\d*,\d+\s*", value) for value in values[wrong])
    advice = "Write decimal points, not commas" if commas else "Convert the column first, or name another"
    raise NonNumericError(
        f"`{argument}` must hold numbers; column {name!r} holds {listed(_some_of(values[wrong]))} in "
        f"{rows_text(rows, count)}. {advice}.",
        column=name,
        rows=rows,
        count=count,
    )


def _some_of(values: pd.Series) -> list[Any]:
    """Up to three of the values, each once; lists as their text, as they cannot be told apart by a key."""
    try:
        return list(values.unique()[:3])
    except TypeError:
        return list(dict.fromkeys(str(one) for one in values[:100]))[:3]


def _of_present(series: nw.Series[Any], dtype: Any, absent: Any) -> Values:
    """Values of a column outside pandas: a null among integers would turn all of them to floats."""
    present = ~series.is_null().to_numpy().astype(bool)
    if present.all():
        return np.array(series.to_numpy(), dtype=dtype)
    values = np.full(present.size, absent, dtype=dtype)
    values[present] = np.asarray(series.filter(~series.is_null()).to_numpy()).astype(dtype)
    return values


def are_numbers(values: pd.Series) -> BoolArray:
    """True where an object is a real number or missing."""
    return _are_numbers(values, infer_dtype(values, skipna=True))


def _are_numbers(values: pd.Series, kind: str) -> BoolArray:
    """The same of values of a kind that pandas has inferred."""
    if kind in NUMERIC_OBJECTS:
        return np.ones(len(values), dtype=bool)
    if kind == "string":
        return np.asarray(values.isna().to_numpy(dtype=bool))
    known = {kind: issubclass(kind, Real | Decimal | np.bool_) for kind in set(map(type, values))}
    return np.asarray(values.map(type).map(known).to_numpy(dtype=bool) | values.isna().to_numpy(dtype=bool))


def object_floats(values: pd.Series) -> FloatArray:
    """Objects that are real numbers as float64, NaN where missing, infinite where they are too large for it."""
    present = values.notna().to_numpy(dtype=bool)
    result = np.full(len(values), np.nan)
    try:
        result[present] = values[present].to_numpy(dtype=np.float64)
    except OverflowError:
        result[present] = [_bounded(value) for value in values[present]]
    return result


def array_floats(values: Any) -> FloatArray:
    """A copy of numbers that were given as an array; a TypeError or ValueError for anything else."""
    column = pd.Series(values)
    if column.dtype == object and are_numbers(column).all():
        return object_floats(column)
    if not pd.api.types.is_numeric_dtype(column.dtype) or column.dtype.kind == "c":
        raise TypeError
    return np.array(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _bounded(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def outside_pandas(series: nw.Series[Any]) -> Values:
    """A column of another library as pandas holds it; a row where it is missing has some value, and is not in use."""
    if series.dtype == nw.Boolean:
        return _of_present(series, bool, False)
    if series.dtype.is_integer():
        return _of_present(series, np.int64 if series.dtype.is_signed_integer() else np.uint64, 0)
    if series.dtype.is_numeric():
        return _of_present(series, np.float64, np.nan)
    refuse_nested(series.name, series.dtype, type_outside(series))
    values = np.asarray(series.to_numpy())
    # As objects, lengths of time in nanoseconds would be plain integers.
    return values if values.dtype.kind in "mM" else values.astype(object)


def for_formula(column: pd.Series, name: str, plain: bool) -> Any:
    """A column of rows in use as patsy takes it: numbers and truth values by their type, anything else as labels.

    A `plain` column, used outside of ``C(...)``, holds no times or the like, nor numbers among other things.
    """
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return column.cat.remove_unused_categories()
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
    numbers = _are_numbers(values, kind)
    if numbers.all():
        return _of_numbers(values, kind)
    if plain and kind in NEITHER:
        raise NonNumericError(
            f"`formula` takes {name!r} as it is, and the column holds {NEITHER[kind]}, which are neither numbers nor "
            f"labels. Make a column of numbers first, or write C({name}) for a level of its own for each value.",
            column=name,
            count=len(values),
        )
    if plain and numbers.any():
        rows, count = row_list(~numbers)
        raise NonNumericError(
            f"`formula` takes {name!r} as it is, and the column holds both numbers and "
            f"{listed(values[~numbers].unique()[:3])}, in {rows_text(rows, count)} of those in use. Make it a column "
            f"of numbers first, or write C({name}) for a level of its own for each value.",
            column=name,
            rows=rows,
            count=count,
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

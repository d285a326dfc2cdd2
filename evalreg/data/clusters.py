"""What rows are called: names of columns, labels as integer codes, clusterings and the text that names them."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias, TypeVar

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import infer_dtype
from scipy import sparse

from evalreg.checks import (
    MOST_LISTED,
    BoolArray,
    IntArray,
    Names,
    held_property,
    hold,
    listed,
    nearest_or_all,
    passed,
    repeated,
)
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    ArgumentTypeError,
    DuplicateRowsError,
    MissingColumnError,
    MissingLabelsError,
    NotAvailableError,
    RowList,
)
from evalreg.numerics.limits import TABLE_PER_ROW
from evalreg.numerics.matrices import parts_of


def spelled_alike(labels: Iterable[object]) -> list[tuple[str, str]]:
    """Pairs of an earlier label and a later one that is spelled alike, or the same number; only texts are looked at."""
    first: dict[object, str] = {}
    pairs = []
    for label in labels:
        if isinstance(label, str):
            text = "".join(unicodedata.normalize("NFKC", label).casefold().split())
            spelled: object = text
            with suppress(InvalidOperation):  # Decimal takes underscores for nothing
                number = Decimal(text.replace("_", " "))
                spelled = number if number.is_finite() else text
            earlier = first.setdefault(spelled, label)
            if earlier != label:
                pairs.append((earlier, label))
    return pairs


def quoted_pair(pair: tuple[str, str]) -> str:
    """The two spellings, in quotes: "p0" and "p0 "."""
    return " and ".join(json.dumps(label, ensure_ascii=False) for label in pair)


# How the names of columns begin that an engine or sums add.
RESERVED = "__"


def names_are_parsed() -> bool:
    """Whether the DuckDB that is loaded reads "a.b" as column b of table a, and quotes, as releases before 2 do."""
    duckdb = sys.modules.get("duckdb")
    return duckdb is not None and str(duckdb.__version__).partition(".")[0] in ("0", "1")


def is_parsed(name: str) -> bool:
    """Whether such a DuckDB takes a name for something else than a column of that name."""
    return "." in name or '"' in name


def known_column(name: object, columns: Sequence[str], argument: str) -> str:
    """Return `name` if it is a column; otherwise raise with the nearest names."""
    if not isinstance(name, str):
        raise ArgumentTypeError(f"`{argument}` must be the name of a column; got {type(name).__name__}.")
    if name not in columns:
        raise no_column(name, columns, argument)
    return name


def known_columns(names: object, columns: Sequence[str], argument: str) -> Names:
    """Return one name or a list of distinct names as a tuple, if they are columns; none for None."""
    if names is None:
        return ()
    if isinstance(names, str):
        names = (names,)
    if not isinstance(names, list | tuple) or not names:
        raise ArgumentTypeError(
            f"`{argument}` must be the name of a column or a list of names; got {type(names).__name__} {names!r}."
        )
    known = tuple(known_column(name, columns, argument) for name in names)
    if twice := repeated(known):
        raise ArgumentError(f"`{argument}` names {listed(twice)} twice; each column once.", column=twice[0])
    return known


def refuse_ambiguous(name: str, columns: Sequence[str], argument: str) -> None:
    """Raise where a name is that of a column and joins or crosses others too."""
    pieces = [piece.strip() for piece in re.split(r"[:+]", name)]
    if len(pieces) > 1 and name in columns and set(pieces) <= set(columns):
        raise ArgumentError(
            f'`{argument}="{name}"` names a column, and also the columns {listed(pieces)}, joined or crossed. Write '
            f"`{name}` in backticks for the column, or rename it.",
            column=name,
        )


def no_column(name: str, columns: Sequence[str], argument: str, what: str = "not a column") -> MissingColumnError:
    """The error for a name that is not a column, with the nearest that are."""
    hint = nearest_or_all(name, columns, "column")
    if name.startswith(RESERVED):
        hint += f' Engines and sums leave out columns whose names begin with "{RESERVED}", as their own do: '
        hint += "rename it first."
    elif is_parsed(name) and names_are_parsed():
        hint += (
            " DuckDB before version 2 is read without columns whose names have a dot or a double quote: upgrade, or "
            "rename it."
        )
    return MissingColumnError(f'`{argument}` names "{name}", which is {what}.{hint}', column=name)


@contextmanager
def or_one_model(model: str | None) -> Iterator[None]:
    """Let the refusal of a column of models say how rows of one model are read."""
    try:
        yield
    except MissingColumnError as error:
        if model is None or not str(error).startswith("`model` names"):
            raise
        raise MissingColumnError(
            f"{error} If all rows are of one model, write {passed(model=None)}.", column=error.column
        ) from None


def refuse_same(named: Mapping[str, str | Sequence[str] | None]) -> None:
    """Raise if two arguments name the same column; one that is None names none."""
    taken: dict[str, str] = {}
    for argument, names in named.items():
        for name in (names,) if isinstance(names, str) else names or ():
            if name in taken:
                raise ArgumentError(
                    f'`{taken[name]}` and `{argument}` must be different columns; both name "{name}".', column=name
                )
            taken[name] = argument


def rows_where(mask: npt.ArrayLike, positions: IntArray | None = None) -> RowList:
    """The rows where a mask is true; `positions` are those in the data, of rows in use."""
    rows = np.flatnonzero(np.asarray(mask))
    first = rows[:MOST_LISTED] if positions is None else positions[rows[:MOST_LISTED]]
    return RowList(tuple(first.tolist()), rows.size)


Axis: TypeAlias = Names
"""The columns whose joint values identify the clusters of one dimension."""
Axes: TypeAlias = tuple[Axis, ...]
Column: TypeAlias = tuple[IntArray, Any]
"""A column of labels: the code of each row, -1 where it is missing, and the label of each code."""


def repeated_rows(
    columns: Sequence[str], column: str | None, rows: RowList | int, remedy: str, shown: str = ""
) -> DuplicateRowsError:
    """The error for rows that repeat an earlier one in all of some columns, of which `column` may be wrong."""
    rows = RowList((), rows) if isinstance(rows, int) else rows
    where = f" ({rows})" if rows.first else f", such as of {shown}" if shown else ""
    return DuplicateRowsError(
        f"there must be one row for each {' and '.join(map(repr, columns))}; {rows.count} "
        f"row{'s repeat' if rows.count > 1 else ' repeats'} an earlier one{where}. {remedy}",
        column=column,
        rows=rows,
    )


@dataclass(frozen=True, eq=False)
class Codes:
    """A partition of the rows.

    Parameters
    ----------
    codes : ndarray of int, shape (n_rows,)
        Cluster of each row, from 0 to n_clusters - 1, every code present.
    n_clusters : int
        Number of clusters.
    labels : sequence, optional
        Label of each code; None for joint codes.
    parts : tuple of Codes
        What joint codes were made from.
    """

    codes: IntArray
    n_clusters: int
    labels: Any = None
    parts: tuple[Codes, ...] = ()

    @held_property
    def counts(self) -> IntArray:
        """Number of rows of each cluster, shape (n_clusters,)."""
        return np.bincount(self.codes, minlength=self.n_clusters)

    @held_property
    def first(self) -> IntArray:
        """The first row of each cluster, shape (n_clusters,)."""
        first = np.empty(self.n_clusters, dtype=np.intp)
        first[self.codes[::-1]] = np.arange(self.codes.size - 1, -1, -1)
        return first

    @held_property
    def order(self) -> tuple[IntArray, IntArray]:
        """Rows sorted by cluster, and where each cluster starts (with the end appended)."""
        n_rows = self.codes.size
        # Rows of a compressed sparse matrix are filled by a counting sort: linear, and stable.
        rows = sparse.coo_array(
            (np.ones(n_rows, dtype=np.int8), (self.codes, np.arange(n_rows))), shape=(self.n_clusters, max(n_rows, 1))
        ).tocsr()
        return rows.indices.astype(np.intp), rows.indptr.astype(np.intp)

    def same(self, other: Codes) -> bool:
        """Whether the rows of both are, one by one, in clusters of the same labels."""
        if self.parts or other.parts:
            return len(self.parts) == len(other.parts) and all(map(Codes.same, self.parts, other.parts))
        labels, others = (None if part.labels is None else np.asarray(part.labels, object) for part in (self, other))
        return np.array_equal(self.codes, other.codes) and (
            labels is None or others is None or np.array_equal(labels, others)
        )

    def label(self, code: int) -> str:
        """Return the label of one cluster, joint labels with a colon."""
        if self.parts:
            row = int(self.first[code])
            return ":".join(part.label(int(part.codes[row])) for part in self.parts)
        return str(code if self.labels is None else self.labels[code])


# Before 3.0 pandas compares text up to its first zero byte, so that two labels would be one.
CUTS_AT_NUL = len(pd.factorize(np.array(["a\0b", "a\0c"], dtype=object))[1]) < 2


def factorize(values: Any, name: str = "") -> Column:
    """Codes of labels of any kind in order of appearance, -1 where missing, and the label of each code.

    `name` is that of their column, if they are one.
    """
    if isinstance(values, list | tuple | range):
        array = np.empty(len(values), dtype=object)
        array[:] = values
        values = array
    else:
        values = _without_twins(values)
    try:
        codes, labels = _by_table(values) or pd.factorize(values)
        if CUTS_AT_NUL and any(isinstance(label, str) and "\0" in label for label in labels):
            codes, labels = _factorize_one_by_one(np.asarray(values, dtype=object))
    except TypeError:
        raise nested_labels(name, "lists or the like") from None
    refuse_inexact(np.asarray(labels), name)
    return codes.astype(np.intp, copy=False), labels


def _without_twins(values: Any) -> Any:
    """The same where NaN is missing, -0 is 0 and every category occurs; times as pandas spells them, zoned in UTC."""
    kind: Any = getattr(values, "dtype", None)
    of_numpy = getattr(kind, "numpy_dtype", kind)  # of nullable types and those of Arrow
    if of_numpy is not kind and of_numpy.kind == "f":
        return values.to_numpy(dtype=of_numpy, na_value=np.nan)
    if isinstance(kind, pd.ArrowDtype) and str(kind).startswith("dictionary"):
        return values.astype(object)
    # Engines hold the moment, and spell it in the zone of the session.
    if isinstance(kind, pd.DatetimeTZDtype):
        return pd.Series(values).dt.tz_convert("UTC")
    times = isinstance(kind, np.dtype) and kind.kind in "mM" and np.datetime_data(kind)[0] != "D"
    return pd.Series(values) if times else values


def _by_table(values: Any) -> Column | None:
    """The same of whole numbers that lie close together, in a third of the time of hashing; None of others."""
    if getattr(values.dtype, "kind", "O") != "i" or not isinstance(values.dtype, np.dtype) or not values.size:
        return None
    numbers = np.asarray(values)
    low, size = int(numbers.min()), int(numbers.max()) - int(numbers.min()) + 1
    if size > numbers.size:
        return None
    table, labels, codes = np.full(size, -1), np.zeros(0, np.intp), np.empty(numbers.size, np.intp)
    for part in parts_of(numbers.size):
        offsets = np.subtract(numbers[part], low, dtype=np.intp)
        codes[part] = table[offsets]
        if codes[part].min() < 0:
            new = pd.unique(offsets[codes[part] < 0])
            table[new] = np.arange(labels.size, labels.size + new.size)
            labels, codes[part] = np.append(labels, new), table[offsets]
    return codes, (labels + low).astype(numbers.dtype)


def refuse_inexact(labels: Any, name: str = "") -> None:
    """Raise if labels are floats so large that neighbours are one: as doubles 2^53 and 2^53 + 1 read alike."""
    if labels.dtype.kind == "O":
        labels = np.array([label for label in labels if isinstance(label, float)])
    digits = np.finfo(labels.dtype).nmant + 1 if labels.dtype.kind == "f" else 0
    if digits and np.any(np.abs(labels) >= 2.0**digits):
        raise ArgumentTypeError(
            f"ids that are floats{name and f' (column {name!r})'} must be below 2^{digits}, beyond which different ids "
            f"become one; got {np.nanmax(np.abs(labels)):.0f}. Read the column as whole numbers or as text.",
            column=name or None,
        )


def _factorize_one_by_one(values: Any) -> Column:
    """The same, label by label."""
    code: dict[Any, int] = {}
    missing = pd.isna(values)
    codes = [-1 if gone else code.setdefault(value, len(code)) for value, gone in zip(values, missing, strict=True)]
    labels = np.empty(len(code), dtype=object)
    labels[:] = list(code)
    return np.asarray(codes, dtype=np.intp), labels


def occurring(codes: IntArray, size: int) -> BoolArray:
    """Which of the codes below `size` occur; the first rows mostly have all, and the others are not looked at."""
    present = np.zeros(size, dtype=bool)
    for part in parts_of(codes.size):
        present[codes[part]] = True
        if present.all():
            break
    return present


def as_codes(codes: IntArray, labels: Any = None) -> Codes:
    """Codes numbered anew without gaps, in their order; the labels are of all values, used or not."""
    present, numbers = ordered(codes) if codes.size else (codes, codes)
    if numbers is codes or labels is None:
        return Codes(numbers, present.size, labels)
    return Codes(numbers, present.size, np.asarray(labels, dtype=object)[present])


def joint(parts: Sequence[Codes]) -> Codes:
    """Codes of the combinations of several partitions of the same rows, as far as they occur."""
    if len(parts) == 1:
        return parts[0]
    codes, n_clusters = parts[0].codes, parts[0].n_clusters
    for part in parts[1:]:
        # Re-numbered after each pairing, so that the product of two counts cannot overflow.
        present, codes = ordered(codes.astype(np.int64) * part.n_clusters + part.codes)
        n_clusters = present.size
    return Codes(codes, n_clusters, None, tuple(parts))


def joint_labels(columns: Sequence[Column]) -> Column:
    """Codes of the joint values of some columns, -1 where one is missing, and their texts, "task:question"."""
    missing = np.any([codes < 0 for codes, _ in columns], axis=0)
    parts = [Codes(np.where(missing, 0, codes), len(labels), labels) for codes, labels in columns]
    both = joint(parts)
    texts = [as_text(part.labels)[part.codes[both.first]] for part in parts]
    joined = [":".join(row) for row in zip(*texts, strict=True)]
    return np.where(missing, -1, both.codes), np.array(joined, dtype=object)


def ordered(key: IntArray) -> tuple[IntArray, IntArray]:
    """The distinct values of whole numbers in their order, and the place of each entry among them."""
    size = int(np.max(key)) + 1
    if size > TABLE_PER_ROW * key.size + 1024:
        codes, distinct = pd.factorize(key)
        order = np.argsort(distinct)
        number = np.empty(order.size, dtype=np.intp)
        number[order] = np.arange(order.size)
        return distinct[order], number[codes]
    present = np.flatnonzero(occurring(key, size))
    if present.size == size:
        return present, key
    # Half the memory of the table, which is the largest array here.
    number = np.zeros(size, dtype=np.int32 if present.size < 2**31 else np.intp)
    number[present] = np.arange(present.size)
    return present, number[key].astype(np.intp)


def restricted(codes: Codes, rows: BoolArray) -> Codes:
    """Labels of some of the rows, every code present."""
    chosen = as_codes(codes.codes[rows], codes.labels)
    return replace(chosen, parts=tuple(restricted(part, rows) for part in codes.parts)) if codes.parts else chosen


def missing_ids(name: str, rows: RowList | int, counted: str) -> MissingLabelsError:
    """The error for rows in use without an id."""
    rows = RowList((), rows) if isinstance(rows, int) else rows
    return MissingLabelsError(
        f"`{passed(groups=name)}` must give an id to every row in use; {counted}. Leave these rows out of the data, or "
        "fit again with those groups, which drops and counts them.",
        column=name,
        rows=rows,
    )


def used_codes(name: str, codes: IntArray, labels: Any, every_row: bool = False) -> Codes:
    """Codes of rows in use, none of which may be missing; `every_row` says that each code occurs."""
    if int(np.min(codes, initial=0)) < 0:
        rows = rows_where(codes < 0)
        raise missing_ids(name, rows, f"{rows.count} of {codes.size} have none ({rows} of those in use)")
    return Codes(codes, len(labels), labels) if every_row else as_codes(codes, labels)


def union(*axes: Axis) -> Axis:
    """Return the columns of several axes, each once."""
    return tuple(dict.fromkeys(name for axis in axes for name in axis))


def axis_name(axis: Axis) -> str:
    """Return the columns of an axis joined by a colon, as in ``n_clusters``."""
    return ":".join(axis)


def find_axis(name: object, axes: Sequence[Axis]) -> Axis:
    """Return the axis of that name among `axes`."""
    names = [axis_name(axis) for axis in axes]
    if isinstance(name, str) and name in names:
        return axes[names.index(name)]
    hint = nearest_or_all(name, names, "clustering")
    raise MissingColumnError(f'"{name}" is not among the clusterings.{hint}', column=str(name))


def as_text(labels: Any) -> Any:
    """Labels as an array of text; pandas would read bytes as letters."""
    kind = infer_dtype(labels, skipna=False)
    if kind == "string":
        return np.asarray(labels, dtype=object)
    texts = pd.Series(labels)
    return np.asarray((texts.map(str) if kind == "bytes" else texts).astype(str), dtype=object)


def nested_labels(name: str, what: object) -> ArgumentTypeError:
    """What is said of labels, those of a column if it has a name, that are lists or structures."""
    return ArgumentTypeError(
        f"labels must be one value a row (text, numbers, days); {f'column {name!r}' if name else 'one'} holds {what}. "
        "Make text or numbers of it first.",
        column=name or None,
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


# What has columns by name, in memory or in an engine, and takes joint ids of them.
AnyTable = TypeVar("AnyTable", bound=Any)

_PIECE = re.compile(r"\s*`([^`]+)`\s*|([^`:]+)")


def joint_parts(name: object) -> Names:
    """Columns that a joint id names, a and "b:c" of "a:`b:c`"; none where it is not a joint id."""
    if not isinstance(name, str) or not (":" in name or "`" in name):
        return ()
    pieces = list(_PIECE.finditer(name))
    if ":".join(piece.group() for piece in pieces) != name:
        return ()
    return tuple(quoted or bare.strip() for quoted, bare in (piece.groups() for piece in pieces))


def with_roles(
    table: AnyTable, numbers: Mapping[str, str], *, by: object = None, **labels: str | None
) -> tuple[AnyTable, Names]:
    """The table with its joint ids, and the names in `by`; a role that names nothing of the table is refused.

    Numbers, by argument, are columns; labels, and those of `by`, columns or joint ids of them.
    """
    table = with_joint_ids(table, by=by, **labels)
    known = names_of(table)
    by_columns = known_columns(by, known, "by")
    for argument, name in numbers.items():
        known_column(name, table.columns, argument)
    for argument, label in labels.items():
        if label is not None:
            known_column(label, known, argument)
    return table, by_columns


def with_joint_ids(table: AnyTable, **roles: object) -> AnyTable:
    """The table with labels for every joint id among the names of roles; a column of that very name comes first."""
    for argument, value in roles.items():
        for name in value if isinstance(value, list | tuple) else (value,):
            parts = joint_parts(name)
            if isinstance(name, str):
                refuse_ambiguous(name, table.columns, argument)
            if not parts or name in names_of(table):
                continue
            for part in parts:
                known_column(part, table.columns, argument)
            if len(set(parts)) < len(parts):
                raise ArgumentError(f"`{argument}` joins different columns; {name!r} names one twice.")
            table = table.with_joint(str(name), parts, argument)
    return table


def names_of(table: AnyTable) -> Names:
    """Names that a role may take: the columns, and the joint ids that were made."""
    return (*table.columns, *table.joint_ids)


Groups: TypeAlias = Any
# A plus outside of backticks, which an even number of them follows.
_CROSS = re.compile(r"\+(?=(?:[^`]*`[^`]*`)*[^`]*$)")


def parse_groups(groups: object, columns: Sequence[str], argument: str = "groups") -> Axes:
    """Axes named by "prompt + language:question", (('prompt',), ('language', 'question')), or by a list of such names.

    Plus crosses, the colon joins; backticks go around a name that contains either.
    """
    if isinstance(groups, str):
        crossed = [groups] if groups in columns else _CROSS.split(groups)
        axes = [_parse_axis(part, columns, groups, argument) for part in crossed]
    elif isinstance(groups, list | tuple) and not groups:
        raise ArgumentError(f"`{argument}` is an empty list; pass {argument}=None for independent rows.")
    elif isinstance(groups, list | tuple) and all(isinstance(name, str) for name in groups):
        axes = [_parse_axis(name, columns, name, argument) for name in groups]
    else:
        raise ArgumentTypeError(
            f'`{argument}` must name columns here, as "prompt + judge" or a list does; got {type(groups).__name__}. '
            "Rows in an engine, and sums, have no order that labels could follow: add them as a column, and name that."
        )
    sets = [frozenset(axis) for axis in axes]
    repeated = [axis_name(axis) for i, axis in enumerate(axes) if sets[i] in sets[:i] or len(sets[i]) < len(axis)]
    if repeated:
        raise ArgumentError(f"`{argument}` names {listed(repeated)} twice; each dimension once.")
    return tuple(axes)


def _parse_axis(text: str, columns: Sequence[str], whole: str, argument: str) -> Axis:
    text = text if text in columns else text.strip()
    refuse_ambiguous(text, columns, argument)
    if text in columns:
        return (text,)
    parts = joint_parts(text) or ((text,) if text and not set(text) & set(":`") else ())
    pieces = re.split(r"[\s,;&*]+(?:and\s+|x\s+)?", text)
    if len(pieces) > 1 and set(pieces) <= set(columns):
        crossed = passed(**{argument: " + ".join(pieces)})
        rule = f'`{argument}` crosses columns by a plus between them; got "{whole}"'
        raise ArgumentError(f"{rule}. Pass {crossed} instead.")
    if not parts:
        raise ArgumentError(f'`{argument}` must read like "prompt + judge" or "language:question"; got "{whole}".')
    return tuple(known_column(name, columns, argument) for name in parts)


def same_partition(codes: IntArray, other: IntArray) -> bool:
    """Whether codes of rows say the same of which rows go together, and of which have none."""
    return codes is other or np.array_equal(pd.factorize(codes)[0], pd.factorize(other)[0])


def name_in_use(name: str, argument: str) -> ArgumentError:
    """What is said of labels for `groups` that are called as a column with another role is."""
    return ArgumentError(
        f'`groups` holds labels called "{name}", as the column of `{argument}` is, and they are others. Give them a '
        'name of their own: groups={"cluster": labels}.',
        column=name,
    )


def axes_of(groups: Groups, columns: Sequence[str]) -> tuple[Axes, dict[str, Any]]:
    """Axes of groups that are not None, and labels by name; none where columns are named."""
    if isinstance(groups, str) or (isinstance(groups, list | tuple) and all(isinstance(g, str) for g in groups)):
        return parse_groups(groups, columns), {}
    labels = as_label_dict(groups)
    return tuple((name,) for name in labels), labels


def as_label_dict(groups: Groups) -> dict[str, Any]:
    """Labels by name, of an array, a Series or a dict of them; an unnamed array is called "groups"."""
    # Names of pandas may be anything.
    is_pandas = isinstance(groups, pd.DataFrame)
    frame: Any = groups if is_pandas else nw.from_native(groups, eager_only=True, pass_through=True)
    if is_pandas or isinstance(frame, nw.DataFrame):
        groups = {str(name): nw.to_native(frame[name], pass_through=True) for name in frame.columns}
    if isinstance(groups, list | tuple) and any(isinstance(part, pd.Series | np.ndarray) for part in groups):
        raise ArgumentTypeError(
            'a list for `groups` names columns; got arrays in it. Pass a dict of arrays, such as {"judge": judges}.'
        )
    if isinstance(groups, dict):
        if not groups:
            raise ArgumentError("`groups` is an empty dict; pass groups=None for independent rows.")
        if names := [value for value in groups.values() if isinstance(value, str)]:
            raise ArgumentTypeError(
                "a dict for `groups` holds labels, one a row, and not column names; got str. Name columns in a list: "
                f"groups={names[:3]}."
            )
        return {str(key): _one_a_row(key, value) for key, value in groups.items()}
    name = getattr(groups, "name", None)
    return {"groups" if name in (None, "") else str(name): _one_a_row("groups", groups)}


def _one_a_row(name: object, labels: Any) -> Any:
    if isinstance(labels, pd.MultiIndex):
        raise ArgumentTypeError(
            "`groups` must hold one label a row; a MultiIndex holds several. Pass a dict of its levels to cross them, "
            'such as {"prompt": index.get_level_values(0), "judge": index.get_level_values(1)}.'
        )
    if isinstance(labels, str | bytes | dict) or not (hasattr(labels, "__len__") and hasattr(labels, "__getitem__")):
        raise ArgumentTypeError(f"`groups` must hold one label a row; got {type(labels).__name__} for {str(name)!r}.")
    dimensions = getattr(labels, "ndim", 1)
    if dimensions != 1:
        raise ArgumentTypeError(
            f"`groups` must be one-dimensional; got {dimensions} dimensions. Pass a dict of one array each."
        )
    return labels_in_python(labels)


def labels_in_python(labels: Any) -> Any:
    """Labels that pandas takes: a column of pyarrow or polars as a list, everything else as it is."""
    if hasattr(labels, "to_pylist"):
        return labels.to_pylist()
    return labels.to_list() if type(labels).__module__.partition(".")[0] == "polars" else labels


def align_labels(name: str, labels: Any, n_rows: int, index: pd.Index | None, argument: str = "groups") -> Any:
    """Labels in the order of the rows: a Series by the index of the data, anything else by its length; or raise."""
    expected = pd.RangeIndex(len(labels)) if index is None else index
    if isinstance(labels, pd.Series) and not labels.index.equals(expected):
        if index is None or not (labels.index.is_unique and index.is_unique):
            unmatched = "index differs from the data's and has repeats, so that rows cannot be matched"
            unmatched = "index the data have none to align with" if index is None else unmatched
            raise AlignmentError(
                f"`{argument}`{_quoted(name)} is a Series whose {unmatched}. Pass an array in the order of the rows, "
                "or a column's name.",
                column=name,
            )
        absent = ~index.isin(labels.index)
        if absent.any():
            rows = rows_where(absent)
            raise AlignmentError(
                f"`{argument}`{_quoted(name)} is a Series and is aligned by index; the data's {rows} "
                f"({listed(index[absent][:3])}) are not in its index. Pass an array, or reindex the Series.",
                column=name,
                rows=rows,
            )
        return labels.reindex(index)
    if len(labels) != n_rows:
        what = "label" if argument == "groups" else "weight"
        raise AlignmentError(
            f"`{argument}`{_quoted(name)} must have one {what} for each row; got {len(labels)} for {n_rows}.",
            column=name,
            count=len(labels),
        )
    return labels


def _quoted(name: str) -> str:
    """The name of labels for a message, unless it says no more than the argument."""
    return "" if name in ("groups", "weights") else f" {name!r}"


@dataclass(frozen=True, eq=False)
class Labels:
    """Codes of the rows in use by column, made when first asked for and then kept.

    Parameters
    ----------
    n_rows : int
        Number of rows in use.
    held : dict of str to Codes
        Columns made so far.
    source : UsedRows or the like, optional
        Makes the codes of further columns; dropped by pickle and copy.
    rows : ndarray of int, shape (n_rows,), optional
        Positions of the rows in the data, kept where the source is dropped.
    """

    n_rows: int
    held: dict[str, Codes] = field(default_factory=dict)
    source: Any = None
    joined: dict[Axis, Codes] = field(default_factory=dict)
    rows: IntArray | None = None

    @property
    def columns(self) -> Names:
        """Names that `codes` knows."""
        more = () if self.source is None else self.source.columns
        return tuple(dict.fromkeys((*self.held, *more)))

    def codes(self, axis: Axis) -> Codes:
        """Return the codes of the joint values of the columns of an axis."""
        if axis not in self.joined:
            for name in (name for name in axis if name not in self.held):
                if self.source is None:
                    raise no_source(name, tuple(self.held))
                self.held[name] = self.source.codes(name)
            self.joined[axis] = joint([self.held[name] for name in axis])
            hold(self.joined[axis])
        return self.joined[axis]

    def align(self, name: str, labels: Any) -> Codes:
        """Return the codes of labels given as an array (by length) or a Series (by index)."""
        if self.source is not None:
            aligned: Codes = self.source.align(name, labels)
            return aligned
        if isinstance(labels, pd.Series):
            raise NotAvailableError(
                f'`groups` "{name}" is a Series, which is aligned by the index of the data, and this result no '
                "longer holds the data (copied or unpickled). Pass an array in the order of the rows in use.",
                column=name,
            )
        return used_codes(name, *factorize(align_labels(name, labels, self.n_rows, None)))

    def positions(self) -> IntArray:
        """Positions of the rows in the data, shape (n_rows,)."""
        if self.source is not None:
            return np.asarray(self.source.positions())
        return np.arange(self.n_rows) if self.rows is None else self.rows

    @property
    def index(self) -> pd.Index | None:
        """Index of the rows in use, where the data are of pandas and at hand."""
        return getattr(self.source, "index", None)

    def with_held(self, more: dict[str, Codes]) -> Labels:
        """Return labels that hold some more columns, which win over the source's of that name."""
        held = {**self.held, **more}
        joined = {axis: codes for axis, codes in self.joined.items() if not set(axis) & set(more)}
        return replace(self, held=held, joined=joined)

    def detached(self) -> Labels:
        """Return the labels already held, without their source."""
        return replace(self, source=None, rows=self.positions())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "source": None, "rows": self.positions()}


def no_source(name: str, held: Sequence[str], argument: str = "groups") -> NotAvailableError:
    """Return the error for a clustering that a result cannot look up any more."""
    return NotAvailableError(
        f'`{argument}` names "{name}", which this result does not hold: it no longer has its source rows (it was '
        f"copied or unpickled, or made of sums).{nearest_or_all(name, held, 'held column')} For others fit again, of "
        "rows, or of sums that were made with them in `groups`.",
        column=name,
        parameter=argument,
    )

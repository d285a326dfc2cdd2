"""One row for each model and question: repeats that are declared are averaged, others are told what they may be."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from evalreg.checks import FloatArray
from evalreg.data.clusters import Codes, as_codes, factorize, joint
from evalreg.data.frame import Table, UsedRows, codes_of_items, restrict
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.data.rows import ReadRows
from evalreg.errors import DuplicateRowsError

# A search for the column that tells repeats apart looks at so many columns, and at pairs of so many.
MOST_COLUMNS, MOST_IN_PAIRS = 40, 8


@dataclass(frozen=True)
class Told:
    """By which columns rows are told apart.

    Parameters
    ----------
    key : tuple of str
        The columns of `by`, and last that of the items.
    sample : str or None
        Repeated answers.
    score, weights : str
        What is not a label.
    """

    key: tuple[str, ...]
    sample: str | None
    score: str
    weights: str

    @property
    def item(self) -> str:
        """The column of the items."""
        return self.key[-1]


def one_row_an_item(rows: ReadRows, told: Told, combine: Callable[[FloatArray, Codes], FloatArray] | None) -> ReadRows:
    """Average declared repeats within (by, item), or combine them; refuse undeclared ones."""
    values, weights, used = rows.values["score"], rows.weights, rows.used
    key = joint([used[name] for name in told.key])
    if told.sample is None and key.n_clusters == values.size:
        return rows
    full = key if told.sample is None else joint([key, used[told.sample]])
    if full.n_clusters < values.size:
        raise _repeats(full, values, told, rows.source)
    means = np.bincount(key.codes, values) / key.counts if combine is None else combine(values, key)
    by_item = {name: codes_of_items(name, codes, key) for name, codes in used.items() if name != told.sample}
    if weights is not None:
        codes_of_items("weights", as_codes(factorize(weights)[0]), key)
        weights = weights[key.first]
    source = replace(rows.source, item=key)
    return replace(rows, values={"score": means}, weights=weights, used=by_item, source=source)


# Repeats: what would tell them apart.


# Columns by which one answer has several rows, as it was read or scored in several ways: these are no repeats.
_READINGS = frozenset({"filter", "metric", "scorer"})


def _repeats(key: Codes, values: FloatArray, told: Told, source: UsedRows) -> DuplicateRowsError:
    """The error for repeats, with the column that tells them apart."""
    again = np.ones(key.codes.size, dtype=bool)
    again[key.first] = False
    rows, count = row_list(again)
    columns = told.key if told.sample is None else (*told.key, told.sample)
    what = " and ".join(repr(name) for name in columns)
    return DuplicateRowsError(
        f"there must be one row for each {what}; {count} row{'s repeat' if count > 1 else ' repeats'} an earlier one "
        f"({rows_text(rows, count)} of those in use). {_remedy(key, values, told, source)}",
        column=told.item,
        rows=rows,
        count=count,
    )


def _remedy(key: Codes, values: FloatArray, told: Told, source: UsedRows) -> str:
    """What to write, where one column or two tell the repeats apart."""
    others = dict(_label_columns(told, source, key.codes.size))
    for name, codes in others.items():
        if joint([key, codes]).n_clusters == key.codes.size:
            return _advice(name, told)
    for first, second in itertools.combinations(list(others)[:MOST_IN_PAIRS], 2):
        if joint([key, others[first], others[second]]).n_clusters == key.codes.size:
            return (
                f"{first!r} and {second!r} tell them apart together. Where the ids in {told.item!r} start anew in one "
                f'of them, join them, as in item="{_joined(first, told.item)}"; name the other in `by` or `sample`.'
            )
    if told.sample is not None:
        return "Remove the copies, or give each answer its own sample id."
    anew = "Answers that were given anew need a column that numbers them, named in `sample`."
    other = int((values != values[key.first][key.codes]).sum())
    if other:
        return (
            f"No other column tells them apart, and {other} of them {'has' if other == 1 else 'have'} another score "
            f"than the first: find out which one holds before you remove the rest. {anew}"
        )
    return f"No other column tells them apart, so that they look like copies: remove them. {anew}"


def _label_columns(told: Told, source: UsedRows, n_rows: int) -> Iterator[tuple[str, Codes]]:
    """Other columns that could tell rows apart: neither fractions nor an id of every row."""
    table: Table = source.table
    taken = {*told.key, told.sample, told.score, told.weights}
    for name in [name for name in table.columns if name not in taken][:MOST_COLUMNS]:
        if table.frame.get_column(name).dtype.is_float():
            continue
        try:
            codes, labels = table.labels(name, "item")
        except (TypeError, ValueError):
            continue
        codes = restrict(codes, source.keep)
        if codes.min() >= 0 and 2 <= len(labels) <= n_rows / 2:
            yield name, as_codes(codes, labels)


def _advice(name: str, told: Told) -> str:
    """What to write where one column tells repeats apart."""
    if name.rpartition(".")[2] in _READINGS:
        each = f', or have an estimate for each, with by="{name}"' if len(told.key) == 1 else ""
        return (
            f"{name!r} tells them apart: one answer that is scored in several ways is still one answer. Keep the "
            f"rows of one {name!r}{each}."
        )
    joined = f'item="{_joined(name, told.item)}"'
    if told.sample is not None:
        return f"{name!r} tells them apart: where the ids in {told.item!r} start anew in each, join them, {joined}."
    model = "" if len(told.key) > 1 else f' Or by="{name}" for a mean of each.'
    return (
        f"{name!r} tells them apart. Where the ids in {told.item!r} start anew in each {name!r}, join them: {joined}. "
        f'Where they are answers to the same questions: sample="{name}"; `sample` averages them first.{model}'
    )


def _joined(first: str, second: str) -> str:
    """A joint id of two names, in backticks where one holds a colon; a joint id stays as it is."""
    return ":".join(
        f"`{name}`" if ":" in name and "`" not in name and name == first else name for name in (first, second)
    )

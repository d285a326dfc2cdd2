"""One row for each model and question: repeats that are declared are averaged, others are told what they may be."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import fdtrc, fdtri

from evalreg.checks import FloatArray, IntArray
from evalreg.data.clusters import Codes, as_codes, factorize, joint
from evalreg.data.frame import Table, UsedRows, codes_of_items, restrict
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.data.rows import ReadRows
from evalreg.errors import ArgumentError, DuplicateRowsError

# Levels differ, and answers to one question are alike, when chance would show it this rarely.
LEVELS_DIFFER, ALIKE = 1e-4, 1e-3
# Shares of the variance between questions: answers to the same question are more alike than the first, and an upper
# limit (99%) under the second says that rows of levels that differ are no answers to the same questions.
HARDLY_ALIKE, AT_MOST_ALIKE = 0.05, 0.2
# A level with less than this share of the questions of the fullest one holds other questions.
MANY_MISSING = 0.8
# A search for the column that tells repeats apart looks at so many columns, and at pairs of so many.
MOST_COLUMNS, MOST_IN_PAIRS = 40, 8

RepeatKind: TypeAlias = Literal["questions", "answers", "unclear"]


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
        raise _repeats(full, values, used, told, rows.source)
    if told.sample is not None:
        by = [used[name] for name in told.key[:-1]]
        names = (told.item, told.sample)
        refuse_questions(values, joint(by) if by else None, used[told.item], used[told.sample], names)
    means = np.bincount(key.codes, values) / key.counts if combine is None else combine(values, key)
    by_item = {name: codes_of_items(name, codes, key) for name, codes in used.items() if name != told.sample}
    if weights is not None:
        codes_of_items("weights", as_codes(factorize(weights)[0]), key)
        weights = weights[key.first]
    source = replace(rows.source, item=key)
    return replace(rows, values={"score": means}, weights=weights, used=by_item, source=source)


# What the values of a column are: answers to one question, or questions under one id.


def kind_of(values: FloatArray, by: Codes | None, item: Codes, level: Codes) -> RepeatKind:
    """Whether rows of one item at different levels are answers to one question, or different questions.

    Answers to one question are alike: its difficulty is in all of them. Where an id such as 1, 2, 3 starts anew at each
    level, rows with one id are no more alike than others, while the levels (subjects, files) differ in difficulty, or
    hold different numbers of questions. Both are told by the two F ratios of an analysis of variance of the (item,
    level) means, each after the other effect.

    Parameters
    ----------
    values : ndarray, shape (n_rows,)
        Scores.
    by : Codes or None
        Models, whose means are taken out first.
    item, level : Codes
        Of the rows.

    Returns
    -------
    {"questions", "answers", "unclear"}
        "unclear" where the scores tell neither.

    References
    ----------
    Searle, Casella and McCulloch (1992), Variance Components, section 4.5 (the intraclass correlation's limits).

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> item, level = (Codes(codes.ravel(), n) for codes, n in zip(np.indices((100, 4)), (100, 4)))
    >>> hard = rng.normal(size=100)
    >>> kind_of(hard[item.codes] + rng.normal(size=400), None, item, level)
    'answers'
    >>> kind_of(hard[level.codes] + rng.normal(size=400), None, item, level)
    'questions'
    """
    cell = joint([item, level])
    rows, columns = item.codes[cell.first], level.codes[cell.first]
    of_model = [] if by is None else [by]
    within_level = _cell_means(values - _means(values, joint([*of_model, level])), cell)
    within_item = _cell_means(values - (values.mean() if by is None else _means(values, by)), cell)
    within_item = within_item - (np.bincount(rows, within_item) / np.bincount(rows))[rows]
    n_error = cell.n_clusters - item.n_clusters - level.n_clusters + 1
    if n_error < 1 or min(item.n_clusters, level.n_clusters) < 2:
        return "unclear"
    ratio, p_items = _f_ratio(within_level, rows, item.n_clusters - 1, n_error)
    _, p_levels = _f_ratio(within_item, columns, level.n_clusters - 1, n_error)
    per_item = cell.n_clusters / item.n_clusters
    highest = ratio / float(fdtri(item.n_clusters - 1, n_error, 0.01))
    alike, at_most = ((r - 1) / (r - 1 + per_item) for r in (ratio, highest))
    sizes = np.bincount(columns)
    differ = p_levels < LEVELS_DIFFER and at_most < AT_MOST_ALIKE
    uneven = sizes.min() < MANY_MISSING * sizes.max() and at_most < HARDLY_ALIKE
    if differ or uneven:
        return "questions"
    return "answers" if p_items < ALIKE and alike >= HARDLY_ALIKE else "unclear"


def _means(values: FloatArray, codes: Codes) -> FloatArray:
    """Mean of the cluster of each row."""
    return np.asarray((np.bincount(codes.codes, values) / codes.counts)[codes.codes])


def _cell_means(values: FloatArray, cell: Codes) -> FloatArray:
    return np.asarray(np.bincount(cell.codes, values) / cell.counts)


def _f_ratio(values: FloatArray, group: IntArray, n_between: int, n_error: int) -> tuple[float, float]:
    """F of the means of groups, and its p-value; 1 and 1 where nothing varies."""
    count = np.bincount(group)
    total = np.bincount(group, values)
    between = float(total @ (total / count))
    error = float(values @ values) - between
    if not error > 1e-12 * float(values @ values):
        return (np.inf, 0.0) if between > 0 else (1.0, 1.0)
    ratio = (between / n_between) / (error / n_error)
    return ratio, float(fdtrc(n_between, n_error, ratio))


def refuse_questions(values: FloatArray, by: Codes | None, item: Codes, level: Codes, names: tuple[str, str]) -> None:
    """Refuse a `sample` whose values hold different questions: their average is not an answer to any; see `kind_of`."""
    if kind_of(values, by, item, level) != "questions":
        return
    of_item, sample = names
    raise ArgumentError(
        f"the values of `sample` must be repeated answers to the same questions; those of {sample!r} hold different "
        f"ones: rows with the same {of_item!r} are no more alike than others, while the values of {sample!r} differ. "
        f"Averaging them would make {item.n_clusters} questions of {joint([item, level]).n_clusters}. Write "
        f'item="{_joined(sample, of_item)}" and leave out `sample`. (Where they are the same questions all the same, '
        "average the answers first.)",
        column=sample,
    )


# Repeats: what would tell them apart.


# Columns by which one answer has several rows, as it was read or scored in several ways: these are no repeats.
_READINGS = frozenset({"filter", "metric", "scorer"})


def _repeats(
    key: Codes, values: FloatArray, used: dict[str, Codes], told: Told, source: UsedRows
) -> DuplicateRowsError:
    """The error for repeats, with the column that tells them apart."""
    again = np.ones(key.codes.size, dtype=bool)
    again[key.first] = False
    rows, count = row_list(again)
    columns = told.key if told.sample is None else (*told.key, told.sample)
    what = " and ".join(repr(name) for name in columns)
    return DuplicateRowsError(
        f"there must be one row for each {what}; {count} row{'s repeat' if count > 1 else ' repeats'} an earlier one "
        f"({rows_text(rows, count)} of those in use). {_remedy(key, values, used, told, source)}",
        column=told.item,
        rows=rows,
        count=count,
    )


def _remedy(key: Codes, values: FloatArray, used: dict[str, Codes], told: Told, source: UsedRows) -> str:
    """What to write, where one column or two tell the repeats apart."""
    others = dict(_label_columns(told, source, key.codes.size))
    single = [name for name, codes in others.items() if joint([key, codes]).n_clusters == key.codes.size]
    by = [used[name] for name in told.key[:-1]]
    if single:
        found = [(name, kind_of(values, joint(by) if by else None, used[told.item], others[name])) for name in single]
        found.sort(key=lambda one: ("questions", "answers", "unclear").index(one[1]))
        name, kind = found[0]
        nested = joint([others[name], used[told.item]]).n_clusters == others[name].n_clusters
        return _advice(name, kind, nested, told)
    for first, second in itertools.combinations(list(others)[:MOST_IN_PAIRS], 2):
        pair = (others[first], others[second])
        if joint([key, *pair]).n_clusters == key.codes.size:
            kinds = [kind_of(values, joint([*by, rest]), used[told.item], one) for one, rest in (pair, pair[::-1])]
            if kinds[1] == "questions" and kinds[0] != "questions":
                first, second, kinds = second, first, kinds[::-1]
            return _advice_of_two(first, second, kinds[0], told)
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


def _advice(name: str, kind: RepeatKind, nested: bool, told: Told) -> str:
    """What to write where one column tells repeats apart."""
    if name.rpartition(".")[2] in _READINGS:
        each = f', or have an estimate for each, with by="{name}"' if len(told.key) == 1 else ""
        return (
            f"{name!r} tells them apart: one answer that is scored in several ways is still one answer. Keep the "
            f"rows of one {name!r}{each}."
        )
    joined = f'item="{_joined(name, told.item)}"'
    model = "" if len(told.key) > 1 else f' Or by="{name}" for a mean of each.'
    if kind == "questions":
        return f"The ids in {told.item!r} start anew in each {name!r}: join them, {joined}.{model}"
    repeated = f'sample="{name}"; `sample` averages them first'
    if told.sample is None and nested:
        return (
            f"{name!r} tells them apart, each in one {told.item!r}. Where those are the questions: "
            f'item="{name}", groups="{told.item}". Where they are answers to the same question: {repeated}.'
        )
    if told.sample is not None:
        return f"{name!r} tells them apart: where the ids in {told.item!r} start anew in each, join them, {joined}."
    if kind == "answers":
        return f"{name!r} tells them apart, as answers to the same questions: {repeated}.{model}"
    return (
        f"{name!r} tells them apart. Where the ids in {told.item!r} start anew in each {name!r}, join them: {joined}. "
        f"Where they are answers to the same questions: {repeated}.{model}"
    )


def _advice_of_two(first: str, second: str, kind: RepeatKind, told: Told) -> str:
    """Two columns tell rows apart; the first may be a part of the question's id."""
    joined = f'item="{_joined(first, told.item)}"'
    rest = f'by="{second}" for a mean of each, or sample="{second}" where they are answers to the same questions'
    rest = f'sample="{second}", which averages them first' if len(told.key) > 1 else rest
    if kind == "questions":
        return f"The ids in {told.item!r} start anew in each {first!r}: join them, {joined}; and {rest}."
    return (
        f"{first!r} and {second!r} tell them apart together. Where the ids in {told.item!r} start anew in one of them, "
        f"join them, as in {joined}; name the other in `by` or `sample`."
    )


def _joined(first: str, second: str) -> str:
    """A joint id of two names, in backticks where one holds a colon; a joint id stays as it is."""
    return ":".join(
        f"`{name}`" if ":" in name and "`" not in name and name == first else name for name in (first, second)
    )

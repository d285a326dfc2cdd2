"""Comparisons of models: verdicts, rules, and cells by pair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, Names, listed, nearest, passed, repeated, without_none
from evalreg.choices import MissingName
from evalreg.data.clusters import (
    Codes,
    Column,
    Groups,
    as_text,
    joint,
    known_column,
    known_columns,
    names_of,
    ordered,
    parse_groups,
    refuse_same,
    repeated_rows,
    rows_where,
    with_joint_ids,
)
from evalreg.data.designs import design_columns, sides_design
from evalreg.data.engine import Query
from evalreg.data.engine_rows import refuse_arrays_of_weights
from evalreg.data.formula import ParsedFormula, formula_columns
from evalreg.data.frame import Table, collected_at_most, open_frame
from evalreg.data.rows import ReadRows, alike_as_text, read_rows
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    RowList,
    ScoreRangeError,
    SelfComparisonError,
    UnknownLabelError,
)

SIDES = {"left": 1.0, "right": 0.0, "tie": 0.5}
# What other logs write for the sides and for ties, to be offered and never taken silently.
SPELLINGS = {
    "left": ("left", "first", "a", "model_a", "model_1", "model1", "1", "win"),
    "right": ("right", "second", "b", "model_b", "model_2", "model2", "2", "loss"),
    "tie": ("tie", "draw", "equal", "both", "tie (bothbad)", "0.5", "c"),
}


@dataclass(frozen=True)
class PairRoles:
    """Which column of a log of comparisons plays which role.

    Parameters
    ----------
    left, right : str
        The two models of a row.
    score : str, optional
        Score of the left model, in [0, 1].
    winner : str, optional
        Verdicts; exactly one of `score` and `winner`.
    labels : mapping, optional
        From verdicts to "left", "right", "tie" or None (no verdict).
    key : tuple of str
        Columns that, with the two models, identify a comparison.
    strata : str, optional
        Column of strata, whose pairs are cells of their own.
    weights : str or ndarray, optional
        Sampling weights.
    missing : {"drop", "raise"}
        What to do about missing values.
    sides : ParsedFormula, optional
        What differs between the two sides.
    """

    left: str
    right: str
    score: str | None = None
    winner: str | None = None
    labels: Mapping[Any, str | None] | None = None
    key: Names = ()
    strata: str | None = None
    weights: Any = None
    missing: MissingName = "drop"
    sides: ParsedFormula | None = None


def left_scores(table: Table, roles: PairRoles, sides: tuple[IntArray, IntArray], models: list[str]) -> FloatArray:
    """Score of the left model in each row, NaN where there is no verdict, shape (n_rows,)."""
    if roles.winner is not None:
        return verdict_scores(table.labels(roles.winner, "winner"), roles, sides, models)[0]
    values = table.floats(str(roles.score), "score")
    outside = (values < 0) | (values > 1)
    if outside.any():
        raise outside_scores(roles, float(np.nanmin(values)), float(np.nanmax(values)), rows_where(outside))
    return values


def verdict_scores(
    verdicts: Column,
    roles: PairRoles,
    sides: tuple[IntArray, IntArray],
    models: list[str],
    n_rows: FloatArray | None = None,
) -> tuple[FloatArray, IntArray]:
    """Score of the left model, NaN where there is no verdict, and the model that a verdict names, -1 for none.

    Of rows, or of kinds of rows, `n_rows` of each. `sides` are codes of the left and the right model.
    """

    def rows(mask: BoolArray) -> RowList:
        return rows_where(mask) if n_rows is None else RowList((), int(n_rows[mask].sum()))

    of, labels = verdicts
    score, named, unknown = _verdicts(list(labels), roles, models)
    if unknown[of].any():
        counts = np.bincount(of[of >= 0], None if n_rows is None else n_rows[of >= 0], len(labels))
        raise _unknown_label(roles, counts, labels, unknown, models, rows(unknown[of]))
    winner, (left, right) = named[of], sides
    stranger = (winner >= 0) & (winner != left) & (winner != right) & (left >= 0) & (right >= 0)
    if stranger.any():
        where = rows(stranger)
        raise UnknownLabelError(
            "a verdict that names a model must name one of the row's two; "
            f"{listed(sorted({models[code] for code in winner[stranger]}))} won without being compared ({where}). "
            "Correct the rows, or map the name in `labels`.",
            column=roles.winner,
            rows=where,
        )
    return np.where(winner >= 0, winner == left, score[of]), winner


def _verdicts(verdicts: list[Any], roles: PairRoles, models: list[str]) -> tuple[FloatArray, IntArray, BoolArray]:
    """Score of the left model that each verdict means, the model that it names, and whether it means nothing known.

    NaN and -1 for none; one entry more, of a missing verdict, which the code -1 finds.
    """
    meaning = _meanings(roles, verdicts, models)
    number = {name: code for code, name in enumerate(models)}
    score, unknown = np.full(len(verdicts) + 1, np.nan), np.zeros(len(verdicts) + 1, dtype=bool)
    named = np.full(len(verdicts) + 1, -1, dtype=np.intp)
    for code, verdict in enumerate(verdicts):
        side = meaning.get(verdict, verdict)
        if _is_side(side):
            if verdict not in meaning and side in number:
                raise _ambiguous(side, roles)
            score[code] = SIDES[side]
        elif side is not None:
            named[code] = number.get(as_name(side), -1)
            unknown[code] = named[code] < 0
    return score, named, unknown


def _usual_side(label: Any) -> str | None:
    return next((side for side, words in SPELLINGS.items() if str(label).strip().lower() in words), None)


def _is_side(value: Any) -> bool:
    return isinstance(value, str) and value in SIDES


def _ambiguous(side: str, roles: PairRoles) -> DataError:
    """The error for a verdict that is a side and the name of a model."""
    return DataError(
        f'a model is called "{side}", so that the verdict "{side}" could mean it or the side. Say in `labels` that it '
        f'means the side, labels={{"{side}": "{side}"}}, or rename the model.',
        column=roles.winner,
        count=1,
    )


def _meanings(roles: PairRoles, verdicts: list[Any], models: list[str]) -> dict[Any, Any]:
    """What each verdict stands for, as declared; what is not declared stands for itself."""
    if roles.labels is None:
        return {}
    if not hasattr(roles.labels, "items"):
        raise ArgumentTypeError(
            '`labels` must map verdicts to "left", "right", "tie" or None, such as '
            f"{passed(labels={'A': 'left', 'B': 'right', 'error': None})}; got {roles.labels!r}."
        )
    meanings = dict(roles.labels)
    of_missing = (value for label, value in meanings.items() if np.ndim(label) == 0 and bool(pd.isna(label)))
    absent_to = [value for value in of_missing if value is not None]
    if absent_to:
        raise ArgumentError(
            f"`labels` cannot say that a missing verdict means {listed(absent_to)}: rows without a verdict are dropped "
            "and counted. Fill the column in first, with a verdict of its own."
        )
    _refuse_one_sided(meanings)
    others = {label: value for label, value in meanings.items() if not (value is None or _is_side(value))}
    # A model that this log does not have may be named, as long as no row asks for it.
    wrong = [
        value for label, value in others.items() if not value or (label in verdicts and as_name(value) not in models)
    ]
    if wrong:
        raise ArgumentError(
            f'`labels` must map verdicts to "left", "right", "tie", a model\'s name or None; got {listed(wrong)}.'
            f"{nearest(wrong[0], [*SIDES, *models])}"
        )
    absent = [label for label in meanings if label not in verdicts and meanings[label] is not None]
    if absent and len(absent) == sum(value is not None for value in meanings.values()):
        raise UnknownLabelError(
            f"`labels` names {listed(absent)}, none of which is in column {roles.winner!r}, which holds "
            f"{listed(verdicts)}. Labels must match exactly, letter by letter.",
            column=roles.winner,
            count=len(absent),
        )
    return meanings


def _refuse_one_sided(meanings: dict[Any, Any]) -> None:
    """Raise where words that stand for the two sides are sent to one of them."""
    usual = {label: side for label in meanings if (side := _usual_side(label)) in ("left", "right")}
    for side in ("left", "right"):
        words = [label for label in usual if meanings[label] == side]
        if len({usual[label] for label in words}) == 2:
            raise ArgumentError(
                f'`labels` must not send the words of both sides to one; {listed(words)} all mean "{side}", so '
                "that this side would win every comparison. Give one of them the other side, or None for no verdict."
            )


def _unknown_label(
    roles: PairRoles, counts: Any, verdicts: Any, unknown: BoolArray, models: list[str], rows: RowList
) -> UnknownLabelError:
    """The error for verdicts that stand for no side, with the usual spellings offered.

    `counts` is how many rows have each verdict; `rows` are those in question.
    """
    # Numbers of numpy print their type.
    which = sorted(np.flatnonzero(unknown[:-1]), key=lambda code: str(verdicts[code]))
    names = [plain_label(verdicts[code]) for code in which]
    each = ", ".join(f"{name!r} ({counts[code]:.0f})" for name, code in zip(names[:5], which[:5], strict=True))
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    guess: dict[Any, str | None] = {name: side for name in names if (side := _usual_side(name))}
    rest = [name for name in names if name not in guess]
    numbers = pd.to_numeric(pd.Series(map(str, names)), errors="coerce")
    nothing = passed(labels={names[0]: None})
    advice = f"Say in `labels` what that means, by {nothing} that it is no verdict.{nearest(str(names[0]), models)}"
    if numbers.between(0, 1).all() or (len(names) > 5 and numbers.notna().all()):
        guess, advice = {}, f"If they are scores of the left model: {passed(score=roles.winner)}."
    elif guess and numbers.notna()[[name not in guess for name in names]].any():
        guess = {}  # a number beside them may be a tie, another side or no verdict
    if guess:
        guess |= dict.fromkeys(rest)
        none = f", if {listed(rest)} {'is not a verdict' if len(rest) == 1 else 'are not verdicts'}" * bool(rest)
        advice = f"Say in `labels` what these mean. Perhaps {passed(labels=guess)}{none}."
    error = UnknownLabelError(
        f'`winner` must hold "left", "right", "tie" or the name of one of the two models; column {roles.winner!r} also '
        f"holds {each}{more}, in {rows}. {advice}",
        column=roles.winner,
        rows=rows,
    )
    error.labels = guess or None
    return error


def outside_scores(roles: PairRoles, low: float, high: float, rows: RowList) -> ScoreRangeError:
    """The error for scores of the left model outside [0, 1]."""
    hint = " Preferences from 1 to 2 are scores once 1 is taken from them." if low >= 1 and high <= 2 else ""
    return ScoreRangeError(
        f"`score` must lie in [0, 1], the score of the left model; column {roles.score!r} does not in "
        f"{rows} (from {low:g} to {high:g}).{hint} Rescale it, or name verdicts in `winner`.",
        column=roles.score,
        rows=rows,
    )


def plain_label(value: Any) -> Any:
    """A label as Python has it: numbers of numpy print their type, and engines do not know them."""
    return value.item() if isinstance(value, np.generic) else value


def as_name(value: Any) -> str:
    """Name of a model as text; a whole number is the same model however its column stores it."""
    # pandas turns a column of integers with a missing value into floats.
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def as_names(names: str | list[str] | None) -> Names:
    """One name or several as a tuple; whether they are columns is checked where the data are."""
    if names is None:
        return ()
    return tuple(names) if isinstance(names, list | tuple) else (names,)


def sides_of(sides: tuple[Column, Column], roles: PairRoles) -> tuple[tuple[IntArray, IntArray], list[str]]:
    """Codes of the left and right models in one list of names, sorted as text; -1 where missing."""
    values = [list(np.asarray(labels, dtype=object)) for _, labels in sides]
    kinds = [sorted({_kind(value) for value in column}) for column in values]
    refuse_unlike_names(" and ".join(kinds[0]), " and ".join(kinds[1]), roles)
    distinct = {(_kind(value), as_name(value)) for column in values for value in column}
    texts = [text for _, text in distinct]
    if alike := repeated(texts):
        raise alike_as_text(alike, (roles.left, roles.right))
    models = sorted(texts)
    number = {name: code for code, name in enumerate(models)}
    codes = []
    for (of, _), names in zip(sides, values, strict=True):
        # One entry more, so that the code -1 of a missing name finds -1.
        place = np.array([*(number[as_name(name)] for name in names), -1], dtype=np.intp)
        codes.append(place[of])
    return (codes[0], codes[1]), models


def refuse_unlike_names(left: str, right: str, roles: PairRoles) -> None:
    """Raise where the two sides hold names of unlike types; empty where a side has none."""
    if left and right and left != right:
        raise DataError(
            f"`left` and `right` must hold models' names of one type; column {roles.left!r} holds {left} and column "
            f"{roles.right!r} {right}, so that no model on one side would equal one on the other. Convert one of them.",
            column=roles.right,
        )


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool | np.bool_):
        return "truth values"
    return "numbers" if isinstance(value, int | float | np.number) else type(value).__name__


def self_comparison(names: set[str], rows: RowList, roles: PairRoles) -> SelfComparisonError:
    """The error for models compared with themselves."""
    where = f"; {rows} of those in use" if rows.first else ""
    return SelfComparisonError(
        f"a row must compare two different models; {rows.count} row{'s compare' if rows.count > 1 else ' compares'} a "
        f"model with itself ({listed(sorted(names))}{where}). Leave such rows out: they say nothing about a "
        "difference.",
        column=roles.right,
        rows=rows,
    )


# What to do about repeats of a declared key.
OTHER_KEY = "Remove the copies, or name in `key` what tells them apart."


@dataclass(frozen=True, eq=False)
class PairCells:
    """Comparisons in cells, one a pair of models (of each stratum), scored for the model that sorts first.

    Entries are rows, lines of sums, or kinds of rows of an engine.

    Parameters
    ----------
    models : tuple of str
        Those that are compared, sorted as text.
    strata : tuple of str
        Those that occur, sorted as text; one unnamed without strata.
    first, second, stratum : ndarray of int, shape (n_cells,)
        The models of each cell, in memory first before second in the order of their text, and its stratum.
    cell : ndarray of int, shape (n_entries,)
        Cell of each entry, in the order of (stratum, first, second).
    swapped : ndarray of bool, shape (n_entries,)
        Whether an entry's left model is the cell's second.
    alike : int
        Rows that equal an earlier one in all named columns, where no `key` says what a comparison is.
    side_names : tuple of str
        Terms that differ between the two sides.
    sides : ndarray, shape (n_entries, n_terms)
        Those terms, left minus right.
    """

    models: Names
    strata: Names
    first: IntArray
    second: IntArray
    stratum: IntArray
    cell: IntArray
    swapped: BoolArray
    alike: int = 0
    side_names: Names = ()
    sides: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))


def pair_cells(left: IntArray, right: IntArray, names: list[str], strata: Codes | None) -> PairCells:
    """The cells of rows, from the codes of their models, whose names are sorted, and those of their strata."""
    present = np.zeros(len(names), dtype=bool)
    present[left] = present[right] = True
    number, n = np.cumsum(present) - 1, int(np.count_nonzero(present))
    key = number[np.minimum(left, right)] * n + number[np.maximum(left, right)]
    texts: Names = ("",)
    if strata is not None:
        labels = as_text(strata.labels)
        used = sorted(np.unique(strata.codes).tolist(), key=labels.__getitem__)
        rank = np.empty(len(labels), dtype=np.intp)
        rank[used] = np.arange(len(used))
        texts = tuple(str(labels[code]) for code in used)
        key = key + rank[strata.codes] * n**2
    keys, cell = ordered(key)
    pair = keys % n**2
    models = tuple(names[i] for i in np.flatnonzero(present))
    return PairCells(models, texts, pair // n, pair % n, keys // n**2, cell, left > right)


def read_pairs(table: Table, roles: PairRoles, groups: Groups) -> tuple[PairCells, ReadRows, FloatArray]:
    """Comparisons in cells, the rows in use, and the scores of their cells' first models."""
    codes, names = sides_of(_sides(table, roles), roles)
    verdict = str(roles.score or roles.winner)
    labels = {name: "key" if name in roles.key else "by" for name in without_none(*roles.key, roles.strata)}
    covariates = () if roles.sides is None else formula_columns(roles.sides, table.columns)[1]
    sides = {name: side < 0 for name, side in zip((roles.left, roles.right), codes, strict=True)}
    rows = read_rows(
        table,
        {verdict: left_scores(table, roles, codes, names)},
        labels=labels,
        absent={"covariate": sides | {name: table.missing(name) for name in covariates}},
        weights=roles.weights,
        groups=groups,
        missing=roles.missing,
    )
    values, (left, right) = rows.values[verdict], (rows.restrict(side) for side in codes)
    if (same := left == right).any():
        raise self_comparison({names[code] for code in np.unique(left[same])}, rows_where(same), roles)
    strata = None if roles.strata is None else rows.used[roles.strata]
    alike = _check_repeats(left, right, len(names), rows.used, roles)
    cells = replace(pair_cells(left, right, names, strata), alike=alike)
    if roles.sides is not None:
        frame = pd.DataFrame(design_columns(rows, covariates, roles.sides))
        side_names, terms = sides_design(roles.sides, frame, rows.n_rows)
        cells = replace(cells, side_names=side_names, sides=terms)
    return cells, rows, np.where(cells.swapped, 1.0 - values, values)


def read_scores(table: Table, roles: PairRoles) -> FloatArray:
    """Score of the left model in each row of a table in memory, in [0, 1], NaN where there is none."""
    roles = _checked(names_of(table), roles)
    return left_scores(table, roles, *sides_of(_sides(table, roles), roles))


def _sides(table: Table, roles: PairRoles) -> tuple[Column, Column]:
    return table.labels(roles.left, "left"), table.labels(roles.right, "right")


def open_pairs(
    data: Any, roles: PairRoles, groups: Groups, needs_rows: str | None = None
) -> tuple[Table | Query, PairRoles]:
    """The table and the roles, checked; rows in an engine stay there.

    Where `needs_rows` says what needs them in memory, as the argument is written, the columns named are collected, up
    to MOST_COLLECTED rows.
    """
    table = open_frame(data)
    table = with_joint_ids(table, left=roles.left, right=roles.right, by=roles.strata)
    roles = _checked(names_of(table), roles)
    if not isinstance(table, Query):
        return table, roles
    refuse_arrays_of_weights(roles.weights)
    if needs_rows is None:
        return table, roles
    named = [roles.left, roles.right, roles.score, roles.winner, roles.strata, *roles.key, roles.weights]
    named += [] if roles.sides is None else formula_columns(roles.sides, table.columns)[1]
    if groups is not None:
        named += [name for axis in parse_groups(groups, table.columns) for name in axis]
    return collected_at_most(table, list(dict.fromkeys(name for name in named if name)), needs_rows), roles


def _checked(columns: Names, roles: PairRoles) -> PairRoles:
    if (roles.score is None) == (roles.winner is None):
        what = "neither" if roles.score is None else "both"
        raise ArgumentError(
            f"exactly one of `score` (a number in [0, 1] for the left model) and `winner` (a verdict) must be given; "
            f"got {what}."
        )
    if roles.labels is not None and roles.winner is None:
        raise ArgumentError("`labels` says what the verdicts in `winner` mean; it has no bearing on `score`.")
    by_argument = {"left": roles.left, "right": roles.right, "by": roles.strata}
    verdict = {"score": roles.score, "winner": roles.winner}
    for argument, name in (by_argument | verdict).items():
        if name is not None:
            known_column(name, columns, argument)
    refuse_same(by_argument | ({} if roles.strata is None else verdict))
    return replace(roles, key=known_columns(roles.key or None, columns, "key"))


def _check_repeats(left: IntArray, right: IntArray, n_models: int, used: dict[str, Codes], roles: PairRoles) -> int:
    """Refuse repeats of a declared key; without one, count rows alike in all named columns."""
    named = [used[name] for name in (roles.key or tuple(used))]
    sides = [Codes(side, n_models) for side in (left, right)]
    key = joint([*sides, *named])
    n_alike = left.size - key.n_clusters
    if not roles.key or not n_alike:
        return n_alike if not roles.key and named else 0
    again = np.ones(left.size, dtype=bool)
    again[key.first] = False
    rows = rows_where(again)
    raise repeated_rows((roles.left, roles.right, *roles.key), roles.key[0], rows, OTHER_KEY)

"""Verdicts of a log of comparisons, turned into scores of the left model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, MissingName, listed, nearest
from evalreg.data.formula import ParsedFormula
from evalreg.data.frame import Table
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.errors import ArgumentError, ArgumentTypeError, DataError, ScoreRangeError, UnknownLabelError

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
    key: tuple[str, ...] = ()
    strata: str | None = None
    weights: Any = None
    missing: MissingName = "drop"
    sides: ParsedFormula | None = None


def left_scores(
    table: Table, roles: PairRoles, codes: tuple[IntArray, IntArray], models: list[str]
) -> tuple[FloatArray, BoolArray]:
    """Score of the left model in each row, NaN where there is no verdict, and where that is; shape (n_rows,) each."""
    if roles.winner is not None:
        values = _from_verdicts(table, roles, codes, models)
        return values, np.isnan(values)
    assert roles.score is not None
    values = table.floats(roles.score, "score")
    outside = (values < 0) | (values > 1)
    if outside.any():
        rows, count = row_list(outside)
        raise outside_scores(roles, float(np.nanmin(values)), float(np.nanmax(values)), rows, count)
    return values, np.isnan(values)


@dataclass(frozen=True, eq=False)
class Meanings:
    """What each verdict means, with one entry more for a missing one, which the code -1 finds.

    Parameters
    ----------
    score : ndarray, shape (n_verdicts + 1,)
        Of the left model; NaN where there is none, or where a model is named.
    named : ndarray of int, shape (n_verdicts + 1,)
        Model that is named, -1 for none.
    unknown : ndarray of bool, shape (n_verdicts + 1,)
        Whether it means nothing that is known.
    """

    score: FloatArray
    named: IntArray
    unknown: BoolArray


def read_verdicts(verdicts: Any, roles: PairRoles, models: list[str]) -> Meanings:
    """What each verdict of a log means."""
    meaning = _meanings(roles, list(verdicts), models)
    number = {name: code for code, name in enumerate(models)}
    score = np.full(len(verdicts) + 1, np.nan)
    named = np.full(len(verdicts) + 1, -1, dtype=np.intp)
    unknown = np.zeros(len(verdicts) + 1, dtype=bool)
    for code, verdict in enumerate(verdicts):
        side = meaning.get(verdict, verdict)
        if side is None:
            continue
        if _is_side(side):
            if verdict not in meaning and side in number:
                raise _ambiguous(side, roles)
            score[code] = SIDES[side]
        elif as_name(side) in number:
            named[code] = number[as_name(side)]
        else:
            unknown[code] = True
    return Meanings(score, named, unknown)


def _from_verdicts(table: Table, roles: PairRoles, codes: tuple[IntArray, IntArray], models: list[str]) -> FloatArray:
    """Scores of the left model from verdicts; NaN where there is no verdict."""
    assert roles.winner is not None
    of, labels = table.labels(roles.winner, "winner")
    found = read_verdicts(labels, roles, models)
    if found.unknown.any():
        rows, count = row_list(found.unknown[of])
        counts = np.bincount(of[of >= 0], minlength=len(labels))
        raise unknown_label(roles, counts, labels, found.unknown, models, rows, count)
    values, winner = found.score[of], found.named[of]
    is_named = winner >= 0
    if is_named.any():
        stranger = is_stranger(codes, winner)
        if stranger.any():
            rows, count = row_list(stranger)
            raise strange_winner(roles, {models[code] for code in np.unique(winner[stranger])}, rows, count)
        values[is_named] = (winner == codes[0])[is_named]
    return values


def _is_missing(label: Any) -> bool:
    return bool(np.ndim(label) == 0 and pd.isna(label))


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
            '`labels` must map verdicts to "left", "right", "tie" or None, such as {"A": "left", "B": "right"}; got '
            f"{type(roles.labels).__name__}."
        )
    meanings = dict(roles.labels)
    absent_to = [value for label, value in meanings.items() if value is not None and _is_missing(label)]
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
    usual = {
        label: side for label in meanings for side in ("left", "right") if str(label).strip().lower() in SPELLINGS[side]
    }
    for side in ("left", "right"):
        words = [label for label in usual if meanings[label] == side]
        if len({usual[label] for label in words}) == 2:
            raise ArgumentError(
                f'`labels` must not send the words of both sides to one; {listed(words)} all mean "{side}", so '
                "that this side would win every comparison. Give one of them the other side, or None for no verdict."
            )


def unknown_label(
    roles: PairRoles, counts: Any, verdicts: Any, unknown: BoolArray, models: list[str], rows: Any, count: int
) -> UnknownLabelError:
    """The error for verdicts that stand for no side, with the usual spellings offered.

    `counts` is how many rows have each verdict; `rows` are those in question, none where they have no order.
    """
    # Numbers of numpy print their type.
    which = np.flatnonzero(unknown[:-1])
    names = [_plain(verdicts[code]) for code in which]
    each = ", ".join(f"{name!r} ({counts[code]:.0f})" for name, code in zip(names[:5], which[:5], strict=True))
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    guess: dict[Any, str | None] = {
        name: side for name in names for side, known in SPELLINGS.items() if str(name).strip().lower() in known
    }
    rest = [name for name in names if name not in guess]
    offered = nearest(str(names[0]), models)
    if guess:
        guess |= dict.fromkeys(rest)
        offered = f" Perhaps labels={guess!r}" + (f", if {listed(rest)} {_no_verdict(len(rest))}." if rest else ".")
    error = UnknownLabelError(
        f'`winner` must hold "left", "right", "tie" or the name of one of the two models; column {roles.winner!r} also '
        f"holds {each}{more}, in {where_text(rows, count)}. Say in `labels` what that means, None for no verdict."
        f"{offered}",
        column=roles.winner,
        rows=rows,
        count=count,
    )
    error.labels = guess or None
    return error


def _no_verdict(count: int) -> str:
    return "is not a verdict" if count == 1 else "are not verdicts"


def is_stranger(codes: tuple[IntArray, IntArray], winner: IntArray) -> BoolArray:
    """Whether a verdict names a model that is none of the row's two, both of which are known."""
    left, right = codes
    return np.asarray((winner >= 0) & (winner != left) & (winner != right) & (left >= 0) & (right >= 0))


def strange_winner(roles: PairRoles, found: set[str], rows: Any, count: int) -> UnknownLabelError:
    """The error for verdicts that name a model which is none of the row's two."""
    return UnknownLabelError(
        f"a verdict that names a model must name one of the row's two; {listed(sorted(found))} won without being "
        f"compared ({where_text(rows, count)}). Correct the rows, or map the name in `labels`.",
        column=roles.winner,
        rows=rows,
        count=count,
    )


def outside_scores(roles: PairRoles, low: float, high: float, rows: Any, count: int) -> ScoreRangeError:
    """The error for scores of the left model outside [0, 1]."""
    hint = " Preferences from 1 to 2 are scores once 1 is taken from them." if low >= 1 and high <= 2 else ""
    return ScoreRangeError(
        f"`score` must lie in [0, 1], the score of the left model; column {roles.score!r} does not in "
        f"{where_text(rows, count)} (from {low:g} to {high:g}).{hint} Rescale it, or name verdicts in `winner`.",
        column=roles.score,
        rows=rows,
        count=count,
    )


def where_text(rows: Any, count: int) -> str:
    """Which rows, or how many where they have no order, in an engine."""
    return f"{count} row{'s' if count != 1 else ''}" if rows is None else rows_text(rows, count)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def as_name(value: Any) -> str:
    """Name of a model as text; a whole number is the same model however its column stores it."""
    # pandas turns a column of integers with a missing value into floats.
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def as_names(names: str | list[str] | None) -> tuple[str, ...]:
    """One name or several as a tuple; whether they are columns is checked where the data are."""
    if names is None:
        return ()
    return tuple(names) if isinstance(names, list | tuple) else (names,)

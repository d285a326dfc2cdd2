"""Which columns of a table have which role, as a team writes it down in a file beside its logs."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from evalreg.checks import listed, nearest
from evalreg.data.names import known_column
from evalreg.errors import ArgumentError, DataError
from evalreg.logs.reading import JUDGED, SCORED, TableRoles

ROLES = (*SCORED, *JUDGED)
_EXAMPLE = 'model = "system", score = "correct"'
_LARGEST = 1_000_000
# How tables often call what has a role here; a message proposes them, and nothing else reads them.
_USUAL = {
    "model": ("model_name", "model_id", "system", "llm"),
    "item": ("item_id", "question_id", "question", "task_id", "instance_id", "example_id", "doc_id", "prompt_id", "id"),
    "sample": ("epoch", "trial", "attempt", "repeat"),
    "score": (
        *("accuracy", "acc", "correct", "is_correct", "passed", "pass", "success", "resolved", "reward", "rating"),
        *("exact_match", "points", "grade", "value"),
    ),
    "left": ("model_a", "model_1", "model_left", "model_first", "left_model", "first_model"),
    "right": ("model_b", "model_2", "model_right", "model_second", "right_model", "second_model"),
}


def as_roles(given: Any) -> TableRoles:
    """Roles from a mapping or from a TOML file."""
    if isinstance(given, Mapping):
        return _checked(given, "`roles`")
    if not isinstance(given, str | os.PathLike):
        raise ArgumentError(f"`roles` must be a TOML file or a mapping from role to column; got {given!r}.")
    path = Path(given)
    try:
        if path.stat().st_size > _LARGEST:
            raise ArgumentError(f'`roles` must be a short TOML file; "{path}" has more than {_LARGEST} bytes.')
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(f'`roles` must be a file that can be read; "{path}" cannot: {reason}.') from error
    try:
        return _checked(tomllib.loads(text), str(path))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ArgumentError(f"`roles` must be a TOML file such as {_EXAMPLE}; {path} is not: {error}.") from error


def _checked(given: Mapping[Any, Any], name: str) -> TableRoles:
    def refuse(problem: str) -> NoReturn:
        raise ArgumentError(f"{name} must hold lines such as {_EXAMPLE}, a list `key` and a table `labels`; {problem}")

    rest = dict(given)
    labels, key = rest.pop("labels", {}), rest.pop("key", [])
    for role, column in rest.items():
        if role not in ROLES:
            refuse(f'"{role}" is not a role.{nearest(str(role), ROLES) or f" Roles are {listed(ROLES)}."}')
        if not isinstance(column, str) or not column:
            refuse(f"{role} is {column!r}, not the name of a column.")
    if not isinstance(key, list | tuple) or not all(isinstance(column, str) for column in key):
        refuse(f"key is {key!r}, not a list of names.")
    if not isinstance(labels, Mapping) or not all(isinstance(text, str | None) for text in labels.values()):
        refuse('labels is not a table of texts, such as A = "left".')
    meanings = {str(verdict): meaning or None for verdict, meaning in labels.items()}
    if meanings and "winner" not in rest:
        refuse("labels say what verdicts mean, and no winner is named.")
    return TableRoles(rest, meanings, tuple(key))


def likely_roles(frame: pd.DataFrame, roles: Sequence[str] = ("model", "item", "sample", "score")) -> dict[str, str]:
    """Columns that may have these roles by their names, of roles that no column is called; scores are numbers."""
    found: dict[str, str] = {}
    by_name = {str(column).lower(): str(column) for column in frame.columns}
    for role in roles:
        names = [by_name[name] for name in _USUAL[role] if name in by_name and role not in frame.columns]
        if role == "score":
            names = [name for name in names if pd.api.types.is_numeric_dtype(frame[name])]
        if names:
            found[role] = names[0]
    return found


BATTLES = {"model_a": "left", "model_b": "right", "tie": "tie", "tie (bothbad)": "tie"}


def are_battles(frame: pd.DataFrame) -> bool:
    """Whether the verdicts name the sides as Chatbot Arena does."""
    return {"model_a", "model_b", "winner"} <= set(frame.columns) and set(frame["winner"].dropna()) <= set(BATTLES)


def with_roles(frame: pd.DataFrame, named: Mapping[str, str], argument: str | None = None) -> pd.DataFrame:
    """The rows with each named column under the name of its role too.

    A column that is called like another role has its new name alone: `model = "task"` leaves no task. `argument` is
    where the names were given, if not each as the argument of its role.
    """
    columns = [str(column) for column in frame.columns]
    added, other = {}, {name for role, name in named.items() if name != role and name in ROLES and name not in named}
    for role, name in named.items():
        known_column(name, columns, argument or role)
        if name != role and role in columns:
            raise DataError(
                f'`{role}` names the column "{name}", but the frame has a column "{role}" too, which the role '
                f'would mean everywhere else. Rename or drop "{role}".',
                column=role,
            )
        if name != role:
            added[role] = frame[name]
    return frame.assign(**added).drop(columns=list(other))


def with_meanings(frame: pd.DataFrame, roles: TableRoles) -> tuple[pd.DataFrame, int]:
    """The rows with verdicts by their meaning, and how many had none."""
    if not roles.labels:
        return frame, 0
    winner = frame["winner"]
    silent = winner.isin([verdict for verdict, meaning in roles.labels.items() if meaning is None])
    meant = winner.map({verdict: meaning for verdict, meaning in roles.labels.items() if meaning is not None})
    kept = frame.assign(winner=meant.where(meant.notna(), winner))[~silent]
    return kept.reset_index(drop=True), int(silent.sum())

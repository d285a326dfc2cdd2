"""Names of columns: one that is there, several, and what is said of one that is not."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from evalreg.checks import listed, nearest
from evalreg.errors import ArgumentError, ArgumentTypeError, MissingColumnError

# How the names of columns begin that are made in an engine.
MADE = "__"


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


def known_columns(names: object, columns: Sequence[str], argument: str) -> tuple[str, ...]:
    """Return one name or a list of distinct names as a tuple, if they are columns; none for None."""
    if names is None:
        return ()
    if isinstance(names, str):
        names = (names,)
    if not isinstance(names, list | tuple) or not names:
        raise ArgumentTypeError(
            f"`{argument}` must be the name of a column or a list of names; got {type(names).__name__} {names!r}."
        )
    found = tuple(known_column(name, columns, argument) for name in names)
    twice = [name for i, name in enumerate(found) if name in found[:i]]
    if twice:
        raise ArgumentError(f"`{argument}` names {listed(twice)} twice; each column once.", column=twice[0])
    return found


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
    hint = nearest(name, columns) or f" The columns are {listed(columns)}."
    if name.startswith(MADE):
        hint += (
            f' Engines and sums leave out columns whose names begin with "{MADE}", as their own do: rename it first.'
        )
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
            f"{error} If all rows are of one model, write model=None.", column=error.column
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

"""Linear combinations of parameters, from text, mappings and arrays."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, listed, nearest
from evalreg.errors import ArgumentError, FormulaError, MissingColumnError

_QUOTED = re.compile("`([^`]+)`")


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Linear combinations of parameters."""

    matrix: FloatArray  # (q, n_params): C
    value: FloatArray  # (q,): values under the null
    names: tuple[str, ...]  # one for each row


def parse_contrasts(contrasts: Any, names: tuple[str, ...]) -> Contrasts:
    """Contrasts from text, a mapping or an array of shape (q, n_params) or (n_params,).

    `contrasts`: "A - B", "A = B, C = 0", {"A": 1, "B": -1} or coefficients. Backticks may quote a name: "`A (high)` =
    0.5". Labels of a Series and columns of a DataFrame are parameters, in any order.
    """
    if isinstance(contrasts, Contrasts):
        return contrasts
    if isinstance(contrasts, pd.Series) and not _is_numbered(contrasts.index):
        if not contrasts.index.is_unique:
            raise ArgumentError(f"a contrast names each parameter once; got {listed(contrasts.index)}.")
        contrasts = contrasts.to_dict()
    if isinstance(contrasts, str):
        parsed = _parse_text(contrasts, names)
    elif isinstance(contrasts, dict):
        parsed = _parse_mapping(contrasts, names)
    elif np.ndim(contrasts) == 0:
        raise ArgumentError(
            f"a contrast says which parameter is tested; got the number {contrasts!r}. To test a value write "
            f'"{_as_text(names[0])} = {contrasts}"; coefficients go into a list, one for each parameter.'
        )
    else:
        labelled = isinstance(contrasts, pd.DataFrame) and not _is_numbered(contrasts.columns)
        C = _as_matrix(in_order(contrasts, names, "contrast") if labelled else contrasts)
        if C.ndim != 2 or C.shape[1] != len(names):
            raise ArgumentError(
                f"contrasts must have one column for each of the {len(names)} parameters; got shape {C.shape}."
            )
        rows = contrasts.index if labelled and not _is_numbered(contrasts.index) else None
        labels = tuple(f"c{i}" for i in range(C.shape[0])) if rows is None else tuple(map(str, rows))
        parsed = Contrasts(C, np.zeros(C.shape[0]), labels)
    if not (np.isfinite(parsed.matrix).all() and np.isfinite(parsed.value).all()):
        raise ArgumentError(f"the numbers of a contrast must be finite; got {contrasts!r}.")
    if not np.all(np.any(parsed.matrix != 0, axis=1)):
        raise ArgumentError(f"a contrast must involve some parameter; got all zeros in {contrasts!r}.")
    return parsed


def _is_numbered(labels: pd.Index[Any]) -> bool:
    """Whether labels are the numbers that pandas gives by itself, so that places count."""
    return isinstance(labels, pd.RangeIndex)


def in_order(matrix: pd.DataFrame, names: tuple[str, ...], argument: str) -> pd.DataFrame:
    """A frame whose columns are the parameters, with these in their order."""
    columns = [str(column) for column in matrix.columns]
    if sorted(columns) != sorted(names):
        raise ArgumentError(
            f"the columns of `{argument}` must be the parameters {listed(names)}; got {listed(columns)}."
        )
    return matrix.iloc[:, [columns.index(name) for name in names]]


def _as_text(name: str) -> str:
    """A name as a contrast writes it."""
    return name if name.isidentifier() else f"`{name}`"


def _as_matrix(contrasts: Any) -> FloatArray:
    try:
        return np.atleast_2d(np.asarray(contrasts, dtype=np.float64))
    except (TypeError, ValueError):
        raise ArgumentError(
            f"a contrast as an array must hold numbers; got {_shortened(contrasts)}. Several hypotheses as text "
            "go into one string, with commas between them."
        ) from None


def _shortened(contrasts: Any) -> str:
    """A value for a message; of a long list the beginning."""
    return listed(contrasts) if isinstance(contrasts, list | tuple) else repr(contrasts)[:200]


def _parse_text(text: str, names: tuple[str, ...]) -> Contrasts:
    import patsy

    if not text.strip():
        raise FormulaError(f"the contrast is an empty text. The parameters are {listed(names)}.")
    quoted = set(_QUOTED.findall(text))
    for name in quoted.difference(names):
        hint = nearest(name, names) or f" The parameters are {listed(names)}."
        raise MissingColumnError(f'"{name}" is not a parameter.{hint}', column=name)
    try:
        as_written = [f"`{name}`" if name in quoted else name for name in names]
        constraint = patsy.DesignInfo(as_written).linear_constraint(text)
    except RecursionError:
        raise FormulaError(
            f"the contrast has too many signs or parentheses inside each other: {text[:60]!r}."
        ) from None
    except patsy.PatsyError as error:
        _refuse_unknown_name(text, error, names)
        raise FormulaError(f"the contrast does not parse: {error}\nThe parameters are {listed(names)}.") from None
    C = np.asarray(constraint.coefs, dtype=np.float64)
    parts = [part.strip() for part in text.split(",")]
    labels = tuple(parts) if len(parts) == C.shape[0] else tuple(f"{text} [{i}]" for i in range(C.shape[0]))
    return Contrasts(C, np.asarray(constraint.constants, dtype=np.float64).ravel(), labels)


def _refuse_unknown_name(text: str, error: Any, names: tuple[str, ...]) -> None:
    """Name the parameter that was meant, where the place that does not parse is nearly one."""
    start = getattr(getattr(error, "origin", None), "start", None)
    found = None if start is None else re.match(r"[^\s+\-*/=,]+", text[start:])
    hint = "" if found is None else nearest(found[0], names)
    if found is not None and hint and found[0] not in names:
        raise MissingColumnError(f'"{found[0]}" is not a parameter.{hint}', column=found[0]) from None


def _parse_mapping(contrasts: dict[str, Any], names: tuple[str, ...]) -> Contrasts:
    C = np.zeros((1, len(names)))
    for name, coefficient in contrasts.items():
        if name not in names:
            hint = nearest(name, names) or f" The parameters are {listed(names)}."
            raise MissingColumnError(f'"{name}" is not a parameter.{hint}', column=str(name))
        if not isinstance(coefficient, int | float | np.number):
            raise ArgumentError(f"the coefficients of a contrast must be numbers; got {coefficient!r} for {name!r}.")
        C[0, names.index(name)] = coefficient
    terms = [
        f"{'-' if c < 0 else '+'} {'' if abs(c) == 1 else f'{abs(c):g}*'}{name}" for name, c in contrasts.items() if c
    ]
    label = " ".join(terms)
    return Contrasts(
        C, np.zeros(1), (label.removeprefix("+ ").replace("- ", "-", 1) if label[:1] == "-" else label[2:],)
    )


def refuse_dependent(contrasts: FloatArray) -> None:
    """Raise if hypotheses, shape (q, n_params), follow from each other."""
    q, rank = contrasts.shape[0], int(np.linalg.matrix_rank(contrasts))
    if rank < q:
        raise ArgumentError(
            f"hypotheses of a joint test must not follow from each other, as A = C from A = B and B = C; of these {q} "
            f"no more than {rank} do not. Give {rank} of them, such as those that compare with one model."
        )

"""Results as strict JSON: what is written in place of a number that JSON has not, and how it is read back."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Any, cast

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, T
from evalreg.errors import LogFormatError
from evalreg.report.tables import Grid, Summary
from evalreg.versions import version_of

SCHEMA_VERSION = 1
PACKAGES = ("evalreg", "narwhals", "numpy", "pandas", "patsy", "scipy", "statsmodels")
# Lists without text and without lists inside. A text holds no end of a line, so that none is taken for a list.
_INNERMOST = re.compile(r'\[\n\s+([^\[\]{}"]*?)\n\s*\]')


def versions() -> dict[str, str]:
    """Versions of the packages that results rest on."""
    return {name: version_of(name) for name in PACKAGES}


def plain(value: Any) -> Any:
    """A value with None for NaN and text for infinities, all through; numpy's numbers and arrays become Python's."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float):
        return None if math.isnan(value) else str(value) if math.isinf(value) else float(value)
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    return [plain(entry) for entry in value] if isinstance(value, list | tuple) else value


def as_json(document: Mapping[str, Any]) -> str:
    """Strict JSON in ASCII with sorted keys; lists of numbers are on one line."""
    text = json.dumps(plain(document), indent=2, sort_keys=True, allow_nan=False)
    return _INNERMOST.sub(lambda match: f"[{' '.join(match[1].split())}]", text)


def numbers(values: Sequence[Any]) -> FloatArray:
    """The numbers that `plain` wrote; `LogFormatError` for what it never writes."""
    floats = []
    for value in values:
        if isinstance(value, bool) or not (value is None or isinstance(value, int | float) or value in ("inf", "-inf")):
            raise LogFormatError(f'a number must be a number, null, "inf" or "-inf"; got {value!r}.')
        floats.append(math.nan if value is None else float(value))
    return np.array(floats, dtype=np.float64)


def records(table: pd.DataFrame, *index: str) -> list[dict[str, Any]]:
    """The rows of a table, its index under these names first."""
    return [
        {str(key): entry for key, entry in row.items()}
        for row in table.reset_index(names=list(index)).to_dict("records")
    ]


def read_summary(document: Mapping[str, Any]) -> Summary:
    """The summary whose fields these are."""
    grids = tuple(_of_fields(Grid, grid) for grid in document["grids"])
    facts = tuple((str(label), str(value)) for label, value in document["facts"])
    sentences = tuple(map(str, document["sentences"]))
    return _of_fields(Summary, {**document, "facts": facts, "grids": grids, "sentences": sentences})


def _of_fields(kind: type[T], document: Mapping[str, Any]) -> T:
    """An object of a dataclass from its fields; those of later versions are passed over."""
    known = {
        field.name: document[field.name]
        for field in fields(cast(Any, kind))
        if field.name in document or field.default is MISSING
    }
    return kind(**known)


def as_compact_json(document: Mapping[str, Any]) -> str:
    """The same document on one line."""
    return json.dumps(plain(document), sort_keys=True, allow_nan=False, separators=(",", ":"))

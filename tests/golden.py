"""Reference values computed by other software, and the rule by which a number is accepted as equal to one.

A reference is a pair of files: `<name>.json` with values, tolerances and sources, and usually a csv with the data
they were computed from. The README beside the files describes both.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True, eq=False)
class Golden:
    """One data set with its reference values.

    `facts` is everything in the json file except the values (`coefficient_order`, `models`, `expectations`, ...).
    """

    name: str
    folder: Path
    facts: dict[str, Any]
    values: dict[str, dict[str, Any]]

    @property
    def frame(self) -> pd.DataFrame:
        """The data, read anew at each access; id columns are text."""
        return self.table(self.facts["csv"])

    def table(self, csv: str) -> pd.DataFrame:
        """A csv file of the same folder. Only an empty field is missing: a label may be "NA"."""
        text = dict.fromkeys(self.facts.get("id_columns", ()), str)
        path = self.folder / csv
        frame = pd.read_csv(path, dtype=text, keep_default_na=False, na_values=[""])
        # pandas before 3.1 reads one float in four off by a unit in the last place; Python's float reads all exactly.
        fields = pd.read_csv(path, dtype=str, keep_default_na=False)
        floats = frame.select_dtypes("float").columns
        return frame.assign(**{column: [float(field or "nan") for field in fields[column]] for column in floats})

    def value(self, key: str) -> np.ndarray:
        """A reference value as an array of float (of no dimension for a plain number)."""
        return _floats(self.values[key]["value"])

    def check(self, key: str, x: Any) -> None:
        """Fail unless `x` is the reference value of `key`, within the tolerance stored with it."""
        __tracebackhide__ = True
        entry = self.values[key]
        problem = difference(x, entry["value"], rtol=entry.get("rtol", 0.0), atol=entry.get("atol"))
        if problem is not None:
            raise AssertionError(f"{self.name}: {key} ({entry.get('formula', 'no formula given')}): {problem}")


def load(folder: Path, name: str) -> Golden:
    """The reference `name` of a folder."""
    content = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    values = content.pop("values")
    return Golden(name=name, folder=folder, facts=content, values=values)


def difference(x: Any, value: Any, *, rtol: float, atol: float | None = None) -> str | None:
    """Why `x` is not accepted as `value`, or None.

    Accepted are max|x - value| <= rtol max|value| and, with `atol`, max|x - value| <= atol; the maxima run over the
    whole array. NaN (null in the file) and infinities have to stand in the same places.
    """
    found, expected = _floats(x), _floats(value)
    if expected.ndim == 0 and found.size == 1:
        found = found.reshape(())  # a 1 x 1 matrix is stored as a plain number
    if found.shape != expected.shape:
        return f"the shape is {found.shape}; expected {expected.shape}"
    finite = np.isfinite(expected)
    same = np.array_equal(np.where(finite, 0.0, expected), np.where(np.isfinite(found), 0.0, found), equal_nan=True)
    if not same:
        return f"NaN or infinity in other places\n  found    {found}\n  expected {expected}"
    if not finite.any():
        return None
    error = np.where(finite, np.abs(np.subtract(found, expected, where=finite, out=np.zeros_like(found))), 0.0)
    largest = float(error.max())
    allowed = max(rtol * float(np.abs(expected[finite]).max()), atol or 0.0)
    if largest <= allowed:
        return None
    at = tuple(int(i) for i in np.unravel_index(int(error.argmax()), error.shape))
    where = f" at {list(at)}" if at else ""
    return (
        f"off by {largest:.3g}{where}, where {allowed:.3g} is allowed (rtol {rtol:g}, atol {atol})\n"
        f"  found    {float(found[at])!r}\n  expected {float(expected[at])!r}"
    )


def _floats(value: Any) -> np.ndarray:
    """Numbers as float; None is NaN and "Infinity" is infinity, at any depth of a list."""
    if isinstance(value, list | tuple):
        return np.array([_floats(item) for item in value])
    if value is None:
        return np.array(np.nan)
    return np.asarray(value, dtype=float)

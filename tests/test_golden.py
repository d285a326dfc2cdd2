"""The rule that accepts a number as equal to a reference value is itself tested, on values written here."""

from __future__ import annotations

import json

import numpy as np
import pytest
from golden import Golden, load


@pytest.fixture
def small(tmp_path) -> Golden:
    values = {
        "number": {"value": 2.0, "rtol": 1e-9, "formula": "one plus one"},
        "matrix": {"value": [[1.0, None], ["Infinity", -100.0]], "rtol": 1e-3},
        "drawn": {"value": [0.5, 0.25], "rtol": 0.0, "atol": 0.01},
    }
    content = {"name": "small", "csv": "small.csv", "id_columns": ["item", "judge"], "models": ["a", "b"]}
    (tmp_path / "small.json").write_text(json.dumps(content | {"values": values}), encoding="utf-8")
    (tmp_path / "small.csv").write_text("item,judge,score\n12e45678,NA,0.1\n007,None,\n", encoding="utf-8")
    return load(tmp_path, "small")


def test_a_number_beyond_rtol_fails_and_the_message_shows_both(small):
    with pytest.raises(AssertionError, match=r"(?s)small: number \(one plus one\).*found    2\.5.*expected 2\.0"):
        small.check("number", 2.5)


def test_the_tolerance_is_relative_to_the_largest_value_of_the_array(small):
    small.check("matrix", [[1.09, np.nan], [np.inf, -100.0]])
    with pytest.raises(AssertionError, match=r"off by 0\.11 at \[0, 0\], where 0\.1 is allowed"):
        small.check("matrix", [[1.11, np.nan], [np.inf, -100.0]])

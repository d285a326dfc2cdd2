"""Cells of printed tables: a p-value keeps its side, and names show what they hold."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pytest

from evalreg.tables import p_value

LEVELS = ("0.05", "0.01", "0.001")


def near(level):
    """Numbers around a level, from far to the next float."""
    value = float(level)
    steps = [10.0**-k for k in range(2, 18)]
    around = [value + sign * step for step in steps for sign in (-1, 1)]
    return [p for p in (*around, np.nextafter(value, 0), np.nextafter(value, 1), value) if 0 < p < 1]


@pytest.mark.parametrize("alpha", ["0.05", "0.1", "0.025", "0.005"])
def test_a_printed_p_value_keeps_its_side_of_every_level(alpha):
    for level in (*LEVELS, alpha):
        for p in near(level):
            shown = p_value(p, float(alpha))
            if shown == "<.001":
                assert p < 0.001
                continue
            assert re.fullmatch(r"0\.\d{3,6}|1\.000", shown)
            for against in (*LEVELS, alpha):
                printed, bound = Decimal(shown), Decimal(against)
                assert (printed < bound, printed > bound) == (p < float(against), p > float(against)), (p, shown)


def test_three_decimals_are_the_rule():
    values = np.random.default_rng(1).random(2000)
    assert np.mean([len(p_value(p)) == len("0.123") for p in values]) > 0.99
    assert [p_value(p) for p in (0.0499, 0.0503, 0.05, 0.0104, 0.0009999, 0.999999, 1.0)] == [
        "0.0499", "0.0503", "0.050", "0.0104", "<.001", "1.000", "1.000",
    ]  # fmt: skip

"""Cells of printed tables: a p-value keeps its side, and names show what they hold."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pytest

from evalreg.report.tables import NO_LIMIT, Grid, fixed, limits, number, p_value

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


@pytest.mark.parametrize("value", [-0.0, -1e-12, -0.004, 0.0, 1e-12, 0.004])
def test_what_rounds_to_zero_has_no_sign(value):
    assert fixed(value, 2) == "0.00"
    assert number(-0.0) == "0.0000"
    assert [number(x) for x in (9.87654, -36.8677, 495.4162, 1234.5)] == ["9.8765", "-36.868", "495.42", "1234"]


def test_ends_of_intervals_that_are_next_to_nothing_or_far_out_are_said_by_one_rule():
    assert limits(7.61e-192, 1.0, 0.77) == ("0.0000", "1.0000")
    assert limits(1e-7, 5e-7, 3e-7) == ("1.00e-07", "5.00e-07")  # costs of a token: as far as the estimate
    assert limits(-964.9, 968.5, 1.8, reach=13.8) == (NO_LIMIT, NO_LIMIT)
    assert limits(-9.6, 13.2, 1.8, reach=13.8) == ("-9.6000", "13.200")
    assert limits(-np.inf, np.nan, 1.8, reach=13.8) == ("-inf", "nan")


def test_a_block_of_columns_leaves_out_the_rows_that_are_empty_in_it():
    rows = (("mean", "0.1", "0.2"), ("", "(0.3)", "(0.4)"), ("slope", "", "0.5"), ("", "", "(0.6)"), ("Rows", "7", "8"))
    first, second = Grid(("", "first", "second"), rows, blocks=True, rule=4).text(16).split("\n\n")
    lines = first.splitlines()
    assert "slope" not in first
    assert set(lines[lines.index(next(line for line in lines if line.startswith("Rows"))) - 1]) == {"-"}
    assert "slope" in second
    assert "(0.6)" in second


@pytest.mark.parametrize("width", [60, 80, 100, 160])
@pytest.mark.parametrize("names", [["new", "old"], [f"lab/model-{size}-of-long-name" * 2 for size in "ab"], ["a" * 90]])
def test_a_table_is_no_wider_than_its_page_and_tells_its_names_apart(width, names):
    cells = ("0.5000", "0.4000 to 0.6000", "0.3000 to 0.7000", "400")
    grid = Grid(("", "estimate", "alone", "joint", "n"), tuple((name, *cells) for name in names), spare=("n", "joint"))
    *lines, last = grid.text(width).splitlines()
    assert max(map(len, (*lines, last))) <= width
    shown = [line.split()[0] for line in (*lines, last)[2:]][: len(names)]
    assert len(set(shown)) == len(names)
    if sum(map(len, cells)) + max(map(len, names)) + 8 <= width:
        assert shown == names
        assert last.startswith(names[-1])
    assert lines[0].endswith("n") or last.startswith("Left out")


def test_the_two_names_of_a_difference_are_not_cut_to_the_same():
    names = [f"lab/many-letters-{number}-and-more-2024-10-22" for number in ("one", "two")]
    assert all(name in Grid(("", "n"), ((" - ".join(names), "400"),)).text(70) for name in names)

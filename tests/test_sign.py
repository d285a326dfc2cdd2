"""The exact sign test: reference values, and a loop over outcomes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalreg.estimators.comparison import sign_test

# Sums of at most a few hundred positive terms, by the incomplete beta function on the other side.
SAME = 1e-11

counts = st.integers(0, 60)


def slow_p(wins: int, losses: int) -> float:
    """Add up the outcomes as far from the middle as the one seen, in whole numbers."""
    n, low, high = wins + losses, min(wins, losses), max(wins, losses)
    return sum(math.comb(n, x) for x in range(n + 1) if x <= low or x >= high) / 2**n


@pytest.mark.parametrize("pair", ["0_0", "1_0", "5_5", "8_2", "10_0", "20_10", "37_21", "130_96"])
def test_p_values_are_the_reference_ones(golden, pair):
    found = sign_test(*map(int, pair.split("_")))
    golden("scalars").check(f"sign_test.{pair}", found.p_value)


@given(counts, counts)
def test_the_p_value_adds_up_the_outcomes_at_least_as_far_from_the_middle(wins, losses):
    found = sign_test(wins, losses)
    assert found.p_value == pytest.approx(slow_p(wins, losses), rel=SAME)
    assert (found.statistic, found.n) == (wins, wins + losses)


def test_many_comparisons_a_hair_from_even_keep_their_own_p_value():
    # The probability of the one outcome in the middle, by Stirling's series, is all that is missing from 1.
    half = 500_000_000
    missing = (1 - 1 / (8 * half)) / math.sqrt(math.pi * half)
    # At a billion trials scipy 1.13 keeps seven digits of the binomial distribution.
    assert sign_test(half - 1, half + 1).p_value == pytest.approx(1 - missing, abs=1e-7)


@given(st.integers(0, 40))
def test_no_p_value_of_so_many_comparisons_is_smaller_than_is_said(n):
    found = [sign_test(wins, n - wins) for wins in range(n + 1)]
    assert min(one.p_value for one in found) == pytest.approx(found[0].smallest_p, rel=SAME)

"""Tolerances of rounding, one for each kind of sum, and the memory that one step takes."""

from __future__ import annotations

# Of single operations on doubles of 53 bits: what is left of numbers this many times as large is rounding.
LAST_DIGITS = 1e-14
# A column that varies by less than this fraction of its size is a constant with rounding.
CONSTANT = 1e-13
# Information whose smallest eigenvalue is this fraction of its largest, coordinates scaled, says nothing of some
# combination of the coefficients.
SINGULAR = 1e-13
# What cancels to this fraction of its terms is rounding, here and wherever sums and squares are compared.
ROUNDING = 1e-12
# Newton steps, in units of the information, are this small where they have settled.
SETTLED = 1e-11
# Eigenvalues below this fraction of the largest are zero, where levels of absorbed factors are redundant.
REDUNDANT = 1e-11
# 1 - leverage below this is leverage 1: rounding in sums of some 1e6 terms, with room.
FULL_LEVERAGE = 1e-10
# What is left of a column that others contain, as a fraction of its spread, is rounding.
IN_SPAN = 1e-9
# Numbers this near are equal: sums of the same rows in another order, and estimates on the scale of their errors.
EQUAL = 1e-9
# The root of what cancels to `ROUNDING`: errors, and lengths of directions, this small are not seen from 0.
ROOT_OF_ROUNDING = 1e-6
# Scores that add up to more than this many standard errors are not those of a fit that solves its equations.
OFF = 1e-3
# Sums of products keep `ROUNDING` up to this condition number of the scaled columns, whose square they lose.
SQUARED_CONDITION = 1e2

# Entries of the arrays that one step holds at a time, 32 MiB of doubles.
HELD = 1 << 22

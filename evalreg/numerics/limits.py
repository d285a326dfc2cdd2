"""Tolerances of rounding, one for each kind of sum; what floats hold; and limits of memory and time."""

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
# Below this share of the squares of two models, those of their difference have lost digits that matter.
CLOSE = 1e-3
# Of residuals with less than this share of the squares of the scores, sums are made of the residuals themselves.
NEARLY_PERFECT = 1e-4
# Sums of products keep `ROUNDING` up to this condition number of the scaled columns, whose square they lose.
SQUARED_CONDITION = 1e2

# What floats hold: not every whole number beyond this.
EXACT = 2.0**53
# Squares of weights between this and its inverse, summed over many rows, are still floats.
FAR = 1e50
# Below this level quantiles of t are not sought; p-values there are those of the widest single term.
SMALLEST_LEVEL = 1e-280
# Smaller p-values are adjusted by their number alone.
SMALLEST_P = 1e-15

# Memory: entries of the arrays that one step holds at a time, 32 MiB of doubles.
HELD = 1 << 22
# A gibibyte, and what is free where the system does not say.
GIB = 2.0**30
SUPPOSED = 8 * GIB
# Matrices that exist at once, as measured: of columns by columns for each cluster of a regression, on 300 columns; of
# its rows by columns, on 600 columns; of parameters by parameters, on means of 2,000 models.
GRAMS = 6
DESIGNS = 10
COVARIANCES = 14
# Bytes of an answer while a comparison reads it, those that the engine sorts it in included: 640 on a million lines of
# DuckDB with ids of 13 characters.
ANSWER_BYTES = 700
# Bytes of the blocks of one clustering that are held; of more, the engine is asked whenever they are needed.
HELD_BYTES = 1 << 29
# Lines of sums that are read at a time, and that a block of whole clusters has at least; and in a batch of DuckDB's.
LINES = 1 << 20
BATCH = 1 << 14
# Rows of an engine that are collected for an option that needs them; of more the caller is to know.
MOST_COLLECTED = 1_000_000
# Draws come in blocks of this many, each with a stream of its own.
BLOCK = 1024

# Time: up to this many entries per row, a table of what is present is faster than hashing.
TABLE_PER_ROW = 16
# From so many columns on, a product for each cluster costs less than a pass over all rows for each pair of columns.
MANY_COLUMNS = 16
# Up to this norm of L the binomial series of (I - L)^-p needs at most 13 terms for all digits, which cost less than
# eigenvectors: of 20,000 clusters and 30 columns .8 s, and 1.4 s without it.
SERIES_NORM = 0.05
# The same, 33 terms, where it is wanted in fewer columns than L has, whose products cost less.
FEW_COLUMNS_NORM = 0.3
# Absorbed levels that span clusters are adjusted for up to this sum of cubes of cluster sizes.
MOST_CUBES = 2e10
# So many rows, those of the largest leverage, are looked at.
MOST_LOOKED_AT = 256

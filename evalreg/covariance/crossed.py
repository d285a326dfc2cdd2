"""Inclusion-exclusion over crossed axes: its signs, its sum, its floor and its repair.

Cameron, Gelbach and Miller (2011), JBES 29(2), eq. 2.13; the max rule of MacKinnon, Nielsen and Webb (2024),
arXiv:2406.08880.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np

from evalreg.checks import BoolArray, FloatArray, RepairName
from evalreg.numerics.matrices import sum_blocks

Dims: TypeAlias = tuple[int, ...]
"""The axes that a term intersects; one for an axis itself, none for independent rows."""


def subsets(n_axes: int) -> list[tuple[int, ...]]:
    """Non-empty subsets of the axes, the axes themselves first."""
    return [dims for size in range(1, n_axes + 1) for dims in combinations(range(n_axes), size)]


def sign(dims: Dims) -> int:
    """(-1)^(|A|+1); 1 for independent rows."""
    return 1 if len(dims) % 2 or not dims else -1


def subset_signs(dims: list[tuple[int, ...]]) -> FloatArray:
    """Inclusion-exclusion over each non-empty set of axes, shape (n_sets, n_terms).

    The variance and the width of several axes are the largest over these sets, so that none is smaller than fewer axes
    alone give.
    """
    axes = sorted({axis for one in dims for axis in one})
    sets = [set(chosen) for size in range(1, len(axes) + 1) for chosen in combinations(axes, size)]
    return np.array([[(-1.0) ** (len(one) + 1) if set(one) <= chosen else 0.0 for one in dims] for chosen in sets])


def sums_of(dims: Sequence[Dims], repair: str) -> FloatArray:
    """Signs of the sums of which the largest is the variance, shape (n_sums, n_terms)."""
    if repair == "two-term":
        return np.array([[float(len(one) == 1) for one in dims]])
    signs = subset_signs(list(dims))
    # The last set is that of all axes.
    return signs if repair == "max" else signs[-1:]


def crossed_variance(each: FloatArray, dims: Sequence[Dims], repair: RepairName) -> FloatArray:
    """Variances of contrasts, shape (m,), from those of the terms, shape (n_terms, m).

    The sum can be too small, or negative; under "max" no set of fewer axes gives more. The eigenvalue of a single
    variance is that variance, so that "eigen" is "none" here.
    """
    return np.asarray(np.max(sums_of(dims, repair) @ each, axis=0))


@dataclass(frozen=True, eq=False)
class Centring:
    """Maps from parameters to others that do not depend on which model is the reference, and back, both (n, n)."""

    there: FloatArray
    back: FloatArray


def centring_of(rated: BoolArray, zero: int | None, units: FloatArray) -> Centring:
    """To ratings in log-odds that sum to zero.

    `rated` are the parameters that are ratings, shape (n,), `zero` is the one that is 0 (None: they sum to zero) and
    `units` that of a log-odds in each parameter, shape (n,).
    """
    n_rated = np.count_nonzero(rated)
    there, back = np.eye(rated.size), np.eye(rated.size)
    there[np.ix_(rated, rated)] -= 1.0 / n_rated
    if zero is None:
        back = there.copy()
    else:
        back[rated, zero] -= 1.0
    return Centring(there / units, back * units[:, None])


def crossed_matrix(
    matrices: Sequence[FloatArray], dims: Sequence[Dims], repair: RepairName, centring: Centring | None = None
) -> tuple[FloatArray | None, str]:
    """The matrix that variances come from, shape (n, n), or None (from the terms); and what the repair changed.

    Eigenvalues depend on the parameters that they are of; `centring` has those in which they are cut.
    """
    raw = sum_blocks(sign(one) * V for one, V in zip(dims, matrices, strict=True))
    if repair == "none":
        return raw, ""
    if repair == "two-term":
        one_way = (V for one, V in zip(dims, matrices, strict=True) if len(one) == 1)
        return sum_blocks(one_way), "the intersection terms were left out"
    if repair == "max":
        largest = crossed_variance(np.array([np.diag(V) for V in matrices]), dims, "max")
        raised = int(np.sum(np.diag(raw) < largest * (1 - 1e-12)))
        fewer = "one-way variance" if max(map(len, dims)) == 2 else "variance of fewer axes"
        return None, f"{raised} of {raw.shape[0]} variances were raised to the largest {fewer}" if raised else ""
    centred = raw if centring is None else centring.there @ raw @ centring.there.T
    values, axes = np.linalg.eigh((centred + centred.T) / 2)
    # Win rates add up to a constant, whose eigenvalue of zero is rounding of either sign.
    negative = values < -1e-14 * max(values[-1], 0.0)
    if not negative.any():
        return raw, ""
    cut = int(np.sum(negative))
    share = -values[values < 0].sum() / np.abs(values).sum()
    repaired = (axes * np.clip(values, 0.0, None)) @ axes.T
    if centring is not None:
        repaired = centring.back @ repaired @ centring.back.T
    return repaired, f"{cut} negative eigenvalue{'s' if cut > 1 else ''} ({share:.2g} of the total) set to zero"

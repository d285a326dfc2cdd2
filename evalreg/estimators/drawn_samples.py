"""Which units of a finite benchmark each model was asked: as many for all, or samples that differ."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.data.clusters import Axis
from evalreg.estimate import Estimate, Samples
from evalreg.numerics.matrices import Matrix, compressed


@dataclass(frozen=True, eq=False)
class UnitsDrawn:
    """Units behind the columns of the scores of an estimate: questions, or clusters that were drawn whole."""

    # (n_columns,): units of each column, and the stratum that they were drawn within.
    n: FloatArray
    part: IntArray
    # (n_parts,): units of all columns of a stratum together; the most of one where those in common are not known.
    of_all: FloatArray
    # Units of each distinct sample, (n_units, n_samples), and the sample of each column; None where all columns of a
    # stratum have the same.
    members: Matrix | None = None
    of: IntArray | None = None
    # Whether the units that columns have in common are known.
    known: bool = True

    def samples(self, size: FloatArray) -> Samples | None:
        """The samples, of strata that have so many units (n_parts,); None where columns do not differ in them."""
        if self.members is None or self.of is None:
            return None
        return Samples(self.members, self.of, self.part, size[self.part])

    def whole(self, estimate: Estimate, size: FloatArray) -> list[str]:
        """Parameters of models that were asked all of their populations, which have so many units (n_parts,)."""
        left = compressed(abs(compressed(estimate.coefficient_map))) @ (self.n < size[self.part]).astype(float)
        return [name for name, some in zip(estimate.names, left, strict=True) if some == 0]

    def here(self, apiece: str) -> str:
        """How many of the units are here, and of each model where that is not the same."""
        low, high = np.min(self.n), np.max(self.n)
        some = f"{low:.0f} to {high:.0f} of each {apiece}"
        total = f"{self.of_all.sum():.0f} are here"
        if self.of_all.size > 1 or low == high:
            return total
        return f"{total}, {some}" if self.known else f"{some} are here"

    def in_common(self, unit: str, size: FloatArray) -> str:
        """What is said of the covariances of models with different samples; empty where there are none."""
        if self.members is None:
            return ""
        if not self.known:
            return (
                f" Which {unit} models have in common is not known (name the questions in `item`), so that covariances "
                "are taken as they are without any, and the error bar of a difference is its widest."
            )
        assert self.of is not None
        together = (self.members.T @ self.members).toarray()[np.ix_(self.of, self.of)]
        few = (self.part[:, None] == self.part) & (together < np.outer(self.n, self.n) / size[self.part])
        none = (
            " Of two with none in common, or fewer than by chance, it is not known and may be as small as none or as "
            "large as can be: the widest error bar is taken."
            if np.any(few)
            else ""
        )
        return f" Covariances count the {unit} in common.{none}"


def questions_drawn(estimate: Estimate, axes: tuple[Axis, ...] | None, item: str | None, part: IntArray) -> UnitsDrawn:
    """Questions behind each column, which have a row each; in common where they or the clusters tell them apart."""
    assert estimate.cells is not None
    n, scores = estimate.cells.count.astype(float), estimate.scores
    most = np.zeros(int(part.max()) + 1)
    np.maximum.at(most, part, n)
    if np.all(np.bincount(part) == 1):
        return UnitsDrawn(n, part, most)
    by = (item,) if item is not None else max(axes, key=scores.n_clusters) if axes else None
    if by is not None:
        if np.array_equal(n, most[part]) and most.sum() == _n_distinct(estimate, by):
            return UnitsDrawn(n, part, most)
        found = clusters_drawn(estimate, by, part)
        if np.array_equal(found.n, n):
            return found
    ends = np.concatenate([[0.0], np.cumsum(n)]).astype(np.intp)
    of_unit = np.repeat(np.arange(n.size), n.astype(np.intp))
    members = sparse.csr_array((np.ones(ends[-1]), of_unit, np.arange(ends[-1] + 1)), (ends[-1], n.size))
    return UnitsDrawn(n, part, most, members, np.arange(n.size), known=False)


def _n_distinct(estimate: Estimate, by: Axis) -> int:
    return estimate.scores.n_distinct(by)


def clusters_drawn(estimate: Estimate, by: Axis, part: IntArray) -> UnitsDrawn:
    """Clusters behind each column."""
    members, of = estimate.scores.samples(by)
    n = np.asarray(members.sum(axis=0), dtype=np.float64).ravel()[of]
    of_part = sparse.csr_array((np.ones(of.size), (of, part)), (members.shape[1], int(part.max()) + 1))
    inside = compressed(members @ of_part)
    of_all = np.bincount(inside.indices[inside.data > 0], minlength=inside.shape[1]).astype(float)
    alike = np.array_equal(n, of_all[part])
    return UnitsDrawn(n, part, of_all) if alike else UnitsDrawn(n, part, of_all, members, of)

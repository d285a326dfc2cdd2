"""Factors whose levels a regression absorbed: what they count, and how they meet clusters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from evalreg.checks import BoolArray, FloatArray, SscName, listed
from evalreg.data.clusters import Axis, Codes, axis_name, pair_codes
from evalreg.errors import NotAvailableError
from evalreg.numerics.demean import Partition, Within, within

# Entries of the dummies that are made where levels span clusters, and eigendecompositions (of the size of a cluster, or
# of the levels) in cubes: about a minute.
MOST_ENTRIES = 1e8
MOST_CUBES = 2e10
# Eigenvalues below this fraction of the largest are zero.
REDUNDANT = 1e-10
# Rows whose own leverage is below this are not looked at; and how many are at most.
LOOKED_AT = 0.05
MOST_LOOKED_AT = 256
FULL = 1e-9


@dataclass(frozen=True, eq=False)
class Absorbed:
    """The absorbed factors of a regression.

    Parameters
    ----------
    factors : tuple of Axis
        Columns of each; joint levels have several.
    codes : tuple of Codes
        Level of each row in use.
    weights : ndarray, shape (n_rows,), optional
        Sampling weights.
    n_covariates : int
        Coefficients besides the levels.
    rank : int
        Levels that count as coefficients: all less those that others determine.
    exact : bool
        Whether `rank` is exact; otherwise it is at most that.
    r2_within : float
        Share of the variation within levels that the covariates explain.
    """

    factors: tuple[Axis, ...]
    codes: tuple[Codes, ...]
    weights: FloatArray | None
    n_covariates: int
    rank: int
    exact: bool
    r2_within: float
    project: Within = field(repr=False)

    @property
    def text(self) -> str:
        """Factors with their numbers of levels."""
        pairs = zip(self.factors, self.codes, strict=True)
        return ", ".join(f"{axis_name(factor)} ({codes.n_clusters:,} levels)" for factor, codes in pairs)

    def nested(self, by: Codes) -> BoolArray:
        """Whether every level of each factor lies inside one cluster, shape (n_factors,)."""
        return np.array([bool(np.all(by.codes[one.first][one.codes] == by.codes)) for one in self.codes])

    def n_coefficients(self, ssc: SscName, axes: Sequence[Codes]) -> int:
        """K of (n - 1)/(n - K).

        fixest counts all levels but one for each further factor, and one for a factor that is nested in some axis;
        the other conventions count what the regression on dummies does.
        """
        if ssc != "fixest":
            return self.n_covariates + self.rank
        levels = np.array([one.n_clusters for one in self.codes])
        inside = np.any([self.nested(by) for by in axes], axis=0) if axes else np.zeros(levels.size, dtype=bool)
        return int(self.n_covariates + levels.sum() - (levels.size - 1) - np.sum(levels[inside] - 1))

    def least_alone(self, by: Codes) -> float:
        """The least leverage in the covariates of a cluster that alone determines a direction; 0 if that is not known.

        With w in that cluster alone, and s its largest share of a level of the one factor, the levels take at most s of
        |w|^2, which is all that there is outside the cluster: 1 - s/(1 - s) of what is left lies inside.
        """
        if len(self.codes) > 1:
            return 0.0
        level, joint = self.codes[0], pair_codes(by.codes, by.n_clusters, self.codes[0].codes, self.codes[0].n_clusters)
        of = np.empty(joint.n_clusters, dtype=np.intp)
        of[joint.codes] = level.codes
        share = np.bincount(joint.codes, self.weights) / np.bincount(level.codes, self.weights)[of]
        s = float(share.max())
        return 1.0 - s / (1.0 - s) if s < 0.5 else 0.0

    def affordable(self, by: Codes) -> bool:
        """Whether the dummies of factors whose levels span clusters are few enough to adjust for."""
        m = sum(one.n_clusters for one, inside in zip(self.codes, self.nested(by), strict=True) if not inside)
        sizes = np.minimum(by.counts, m + self.n_covariates).astype(np.float64)
        return m == 0 or bool(by.codes.size * m <= MOST_ENTRIES and np.sum(sizes**3) <= MOST_CUBES)

    def outside(self, by: Codes, name: str) -> FloatArray | None:
        """Orthonormal columns of what factors whose levels span clusters add to the others, (n_rows, m); None if none.

        Factors whose levels each lie in one cluster change neither the adjustment of CR2 and CR3 nor its degrees of
        freedom (Pustejovsky and Tipton 2018, theorem 2 as corrected in 2022); the others do.
        """
        inside = self.nested(by)
        if inside.all():
            return None
        spanning = [i for i in range(inside.size) if not inside[i]]
        if not self.affordable(by):
            names = listed([axis_name(self.factors[i]) for i in spanning])
            levels = sum(self.codes[i].n_clusters for i in spanning)
            raise NotAvailableError(
                f"levels of the absorbed {names} ({levels:,}) span clusters of {name!r}, so that CR2, CR3 and their "
                f"degrees of freedom need the leverage of every level: too much for {by.codes.size:,} rows. Use "
                'cov="CR1", or clusters that hold whole levels.'
            )
        columns = [np.eye(self.codes[i].n_clusters)[self.codes[i].codes] for i in spanning]
        D = np.hstack(columns)
        if inside.any():
            D = within([_partition(self.codes[i]) for i in np.flatnonzero(inside)], self.weights)(D)
        if self.weights is not None:
            D = D * np.sqrt(self.weights)[:, None]
        size = np.sqrt(np.einsum("ij,ij->j", D, D))
        D = D[:, size > 0] / size[size > 0]
        values, axes = np.linalg.eigh(D.T @ D)
        kept = values > REDUNDANT * values[-1]
        Z = D @ (axes[:, kept] / np.sqrt(values[kept]))
        # Once more takes away what the square of the condition number cost.
        return np.asarray(np.linalg.qr(Z)[0]) if values[kept][0] < 1e-3 else Z

    def row_leverages(self) -> FloatArray:
        """Leverage of the levels in each row, shape (n_rows,), which adds to that of the covariates."""
        found = self.project.leverages()
        if found is None:
            raise NotAvailableError(
                f"leverages of rows need those of the levels, too many of which are absorbed ({self.text}); use cov "
                '"HC0" or "HC1", or clusters.'
            )
        return found

    def lone_rows(self, design: FloatArray, residual: FloatArray) -> FloatArray:
        """Rows of the design of leverage 1 once levels count, shape (k, n_found): each alone determines something."""
        leverage = np.einsum("ij,ij->i", design, design)
        size = np.sqrt(np.mean(residual**2))
        found = np.flatnonzero((leverage > LOOKED_AT) & (np.abs(residual) <= FULL * size))
        found = found[np.argsort(-leverage[found], kind="stable")[:MOST_LOOKED_AT]]
        root = np.ones(residual.size) if self.weights is None else np.sqrt(self.weights)
        lone = []
        for rows in np.array_split(found, found.size // 32 + 1):
            unit = np.zeros((residual.size, rows.size))
            unit[rows, np.arange(rows.size)] = 1.0 / root[rows]
            left = self.project(unit) * root[:, None]
            lone.append(rows[np.einsum("ij,ij->j", left, left) <= leverage[rows] + FULL])
        rows = np.concatenate(lone)
        return np.asarray((design[rows] / np.sqrt(leverage[rows])[:, None]).T)


def _partition(codes: Codes) -> Partition:
    return Partition(codes.codes, codes.n_clusters)

"""Scores of a regression whose rows lie in an engine, from sums of moments by (cluster, cell)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import FloatArray, listed
from evalreg.data.clusters import Axis
from evalreg.data.engine import CellKeys, Sums, changed_rows
from evalreg.errors import NotAvailableError
from evalreg.numerics.matrices import Matrix, dense, square
from evalreg.scores.base import ResidualSums
from evalreg.scores.engine import MOST_CELLS, TOTAL, WEIGHT, EngineScores, Measured, by_cell, of_cell
from evalreg.scores.moments import PairSums, roots, rows_of, totals_of
from evalreg.scores.rows import ByClusterRows, ClusterRows
from evalreg.scores.shared_rows import SharedRows

# One less a leverage below this is too near to rounding for a power of it.
FULL = 1e-6
ALONE = 1e-10


@dataclass(frozen=True, eq=False)
class MeasuredNumbers(Measured):
    """Rows that have numbers beside their value: u is 1 and these."""

    numbers: tuple[nw.Expr, ...] = ()

    def summed(self, cells: CellKeys, centre: FloatArray) -> dict[str, nw.Expr]:
        """Sums of w, w u u' and w u (y - centre); with weights also those of their roots, for residuals."""
        sums, y = super().summed(cells, centre), self.value - of_cell(cells, centre)
        w = nw.lit(1.0) if self.weight is None else self.weight
        parts = (nw.lit(1.0), *self.numbers)
        for j, z in enumerate(self.numbers, 1):
            sums |= {f"y{j}": w * z * y, f"u0,{j}": w * z}
        for i, j in combinations_with_replacement(range(1, len(parts)), 2):
            sums[f"u{i},{j}"] = w * parts[i] * parts[j]
        if self.weight is not None:
            root = self.weight.sqrt()
            sums |= {"r": root * y} | {f"r{j}": root * z for j, z in enumerate(parts)}
        return sums


def squares_of(sums: Sums, K: int, name: str = "u") -> FloatArray:
    """Sums of products of parts, (n_lines, K, K); those of 1 and 1 are the weights unless they have a name."""
    M = np.empty((sums.n.size, K, K))
    for i, j in combinations_with_replacement(range(K), 2):
        own = sums.totals.get(f"{name}{i},{j}")
        M[:, i, j] = M[:, j, i] = sums.totals.get(WEIGHT, sums.n) if own is None else own
    return M


@dataclass(frozen=True, eq=False)
class EngineMoments(ByClusterRows, SharedRows):
    """Scores w e u'B_c of rows in cells, in an engine.

    Parameters
    ----------
    inner : EngineScores
        Of the cells; its rows are `MeasuredNumbers`.
    basis : ndarray, shape (n_cells, K, k)
        B.
    fitted : ndarray, shape (n_cells, K)
        Of u, less the centre of the inner scores.
    terms : tuple of (CellKeys, ndarray)
        The same as a sum of functions of few columns each: of the joint values of these, shape (n_own, K).
    left : float
        Sum of w e^2.
    reach : ndarray, shape (K,)
        The largest size of each part.
    """

    inner: EngineScores
    basis: FloatArray
    fitted: FloatArray
    terms: tuple[tuple[CellKeys, FloatArray], ...]
    left: float
    reach: FloatArray
    _made: dict[float, FloatArray] = field(default_factory=dict)

    @property
    def whose(self) -> EngineScores:
        """Scores of the same rows."""
        return self.inner

    def each(self, change: Callable[[Any], Any]) -> EngineMoments:
        """The same with a change made to the scores of the cells."""
        return replace(self, inner=change(self.inner))

    @property
    def n_columns(self) -> int:
        """Columns of the scores."""
        return int(self.basis.shape[2])

    def clusters(self, by: Axis) -> Iterator[ClusterRows]:
        """Rows with the squares and products of those of a cluster in a cell."""
        first = 0
        for sums in self.inner.blocks(by):
            pairs = self._pairs(sums)
            yield from rows_of(pairs, self.basis, first)
            first += sums.n_clusters

    def _pairs(self, sums: Sums) -> PairSums:
        K = self.basis.shape[1]
        M = squares_of(sums, K)
        m = np.column_stack([sums.totals[TOTAL], *(sums.totals[f"y{j}"] for j in range(1, K))])
        m = m - np.einsum("lij,lj->li", M, self.fitted[sums.cell])
        return PairSums(sums.cell, np.searchsorted(sums.cluster, np.arange(sums.n_clusters + 1)), M, m)

    def turned(self, turn: FloatArray) -> EngineMoments:
        """The same in other columns."""
        return replace(self, basis=self.basis @ turn)

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', block by block: a stream has no array for statsmodels to square."""
        B, n = self.basis @ dense(bread), bread.shape[1]
        if by is None:
            R = roots(self._squared())
            return square((R @ B).reshape(-1, n), np.eye(n))
        blocks = (totals_of(self._pairs(sums), B) for sums in self.inner.blocks(by))
        return np.asarray(sum(square(totals, np.eye(n)) for totals in blocks))

    def scaled_meat(self, power: float, bread: Matrix) -> FloatArray:
        """The same of rows, each over (1 - h)^power of its leverage: HC2 and HC3."""
        B, n = self.basis @ dense(bread), bread.shape[1]
        return square((roots(self._squared(power)) @ B).reshape(-1, n), np.eye(n))

    def _squared(self, power: float = 0.0) -> FloatArray:
        """Sums of w^2 e^2 u u' of each cell, over (1 - h)^(2 power), (n_cells, K, K); one query."""
        forms, K = self.basis @ np.swapaxes(self.basis, 1, 2), self.basis.shape[1]
        if K == 1:
            return self._squares_of_cells(forms[:, 0, 0], power)[:, None, None]
        if power not in self._made:
            measured = self._measured("errors and leverages of independent rows")
            w = nw.lit(1.0) if measured.weight is None else measured.weight
            residual = self._residual(measured)
            squared = w * w * residual * residual
            if power:
                rest = 1.0 - w * self._form(measured, forms)
                self._refuse_full(measured, rest)
                squared = squared / (rest if power == 0.5 else rest * rest)
            self._made[power] = self._products(measured, squared)
            self._made[power].setflags(write=False)
        return self._made[power]

    def _squares_of_cells(self, leverage: FloatArray, power: float) -> FloatArray:
        """The same of factors alone; a row of leverage 1 is fitted without error and counts nothing."""
        if power and self.inner.weighted:
            self._measured("leverages of independent rows")
            return self.inner.scaled_squares(leverage, power)
        rest = 1.0 - leverage
        scale = np.where(rest > ALONE, np.where(rest > ALONE, rest, 1.0) ** (-2 * power), 0.0) if power else 1.0
        return np.asarray(self.inner.row_moments()[0] * scale)

    def _products(self, measured: MeasuredNumbers, factor: nw.Expr) -> FloatArray:
        parts, n = (nw.lit(1.0), *measured.numbers), len(self.inner.of.labels)
        K = len(parts)
        asked = {f"q{i},{j}": factor * parts[i] * parts[j] for i, j in combinations_with_replacement(range(K), 2)}
        (sums,) = measured.engine.sums((), self.inner.of, asked)
        if not np.array_equal(by_cell(sums, sums.n, n), self.inner.sums.count):
            raise changed_rows(f"its {self.n_rows} rows are now {int(sums.n.sum())}, or in other cells")
        M = np.zeros((n, K, K))
        M[sums.cell] = squares_of(sums, K, "q")
        return M

    def _measured(self, what: str) -> MeasuredNumbers:
        rows = self.inner.rows
        if rows is None:
            raise NotAvailableError(
                f"{what} need the rows, which this result does not hold any more (copied or unpickled). Fit again."
            )
        assert isinstance(rows, MeasuredNumbers)
        return rows

    def _residual(self, measured: MeasuredNumbers) -> nw.Expr:
        """e of a row."""
        found = measured.value - float(self.inner.centre[0])
        for cells, maps in self.terms:
            for j, z in enumerate((None, *measured.numbers)):
                if np.any(maps[:, j] != 0):
                    own = of_cell(cells, maps[:, j])
                    found = found - (own if z is None else own * z)
        return found

    def _form(self, measured: MeasuredNumbers, forms: FloatArray) -> nw.Expr:
        """u'F_c u of a row, F (n_cells, K, K)."""
        cells = self.inner.of
        if np.count_nonzero(np.any(forms != 0, axis=(1, 2))) > MOST_CELLS:
            raise NotAvailableError(
                f"leverages of single rows are computed in an engine for at most {MOST_CELLS} joint values of factors; "
                f"{listed(cells.columns)} have {len(cells.labels):,}. Merge levels, or collect the columns first; "
                'clusters, and cov "HC0" and "HC1", need no leverages.'
            )
        parts, found = (nw.lit(1.0), *measured.numbers), nw.lit(0.0)
        for i, j in combinations_with_replacement(range(len(parts)), 2):
            times = forms[:, i, j] * (1.0 if i == j else 2.0)
            found = found + of_cell(cells, times) * parts[i] * parts[j]
        return found

    def _refuse_full(self, measured: MeasuredNumbers, rest: nw.Expr) -> None:
        full = nw.when(rest < FULL).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
        (sums,) = measured.engine.sums((), CellKeys(), {"n": full})
        count = int(sums.totals["n"].sum())
        if count:
            raise NotAvailableError(
                f"{count} {'row has' if count == 1 else 'rows have'} a leverage of 1 or so near it that sums of an "
                "engine leave no digits: one row alone determines a coefficient. Leave such rows or their columns "
                'out, collect the columns first, or use cov "HC0" or "HC1".',
                count=count,
            )

    def rows_above(self, root: FloatArray, above: float) -> Iterator[FloatArray]:
        """Rows whose leverage is more than that; looked for where the farthest row could reach it."""
        B = self.basis @ root
        far = np.einsum("j,cjk->ck", self.reach, np.abs(B))
        heaviest = self.inner.heaviest_rows()
        cells = np.flatnonzero(heaviest * np.einsum("ck,ck->c", far, far) > above)
        for first in range(0, cells.size, MOST_CELLS):
            some = cells[first : first + MOST_CELLS]
            measured = self._measured("whether single rows determine a coefficient")
            w = nw.lit(1.0) if measured.weight is None else measured.weight
            forms = np.zeros((B.shape[0], B.shape[1], B.shape[1]))
            forms[some] = (B @ np.swapaxes(B, 1, 2))[some]
            heavy = nw.when(w * self._form(measured, forms) > above).then(w).otherwise(nw.lit(0.0))
            R = roots(self._products(measured, heavy)[some])
            yield from (rows[np.any(rows != 0, axis=1)] for rows in R @ B[some] if np.any(rows != 0))

    def residual_sums(self, by: Axis) -> ResidualSums:
        """Sums of residuals within clusters."""
        K, counts, totals = self.basis.shape[1], [], []
        for sums in self.inner.blocks(by):
            f = self.fitted[sums.cell]
            if self.inner.weighted:
                e = sums.totals["r"] - np.einsum("jl,lj->l", np.array([sums.totals[f"r{j}"] for j in range(K)]), f)
            else:
                e = self._pairs(sums).totals[:, 0]
            counts.append(np.bincount(sums.cluster, sums.n))
            totals.append(np.bincount(sums.cluster, e))
        return ResidualSums.of(np.concatenate(counts).astype(float), np.concatenate(totals), self.left)

    def row_influence(self, bread: Matrix) -> FloatArray:
        """Refused: rows stay in the engine."""
        raise NotAvailableError("influence of rows needs them in memory, and these stay in an engine; name clusters.")

    @property
    def rounding(self) -> float:
        """Squares of rows come as sums, whose last digits are of the largest rows."""
        return 1e-14

    def uncancelled(self, bread: Matrix) -> FloatArray:
        """Bounds of the sums of squares of the influence of rows if its parts did not cancel."""
        sums, centre = self.inner.sums, self.inner.centre
        y = np.maximum(np.abs(sums.low - centre), np.abs(sums.high - centre))
        size = y + np.abs(self.fitted) @ self.reach
        far = np.einsum("j,cjk->ck", self.reach, np.abs(self.basis @ dense(bread)))
        return np.asarray((sums.count * (self.inner.heaviest_rows() * size) ** 2) @ far**2)


def first_moments(
    measured: MeasuredNumbers, cells: CellKeys, centre: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Of each cell the sums of w u u' and of w u y, and that of w y^2 over all, y less the centre; one query."""
    y = measured.value - of_cell(cells, centre)
    w = nw.lit(1.0) if measured.weight is None else measured.weight
    (sums,) = measured.engine.sums((), cells, measured.summed(cells, centre) | {"yy": w * y * y})
    K, n = len(measured.numbers) + 1, len(cells.labels)
    M, m = np.zeros((n, K, K)), np.zeros((n, K))
    M[sums.cell] = squares_of(sums, K)
    m[sums.cell] = np.column_stack([sums.totals[TOTAL], *(sums.totals[f"y{j}"] for j in range(1, K))])
    return M, m, float(sums.totals["yy"].sum())

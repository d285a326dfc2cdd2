"""Adjusted totals and leverages of a regression, added up over clusters wherever their sums lie."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evalreg.checks import FloatArray, IntArray
from evalreg.covariance.corrections import inverse_power_times
from evalreg.covariance.dof import quadratic, ratio, whiten
from evalreg.covariance.row_leverages import LeveragePart, NarrowLeverage, WideLeverage, adjust_narrow, new_room
from evalreg.data.clusters import Axis
from evalreg.numerics.matrices import Matrix, is_identity, square
from evalreg.scores.base import Scores


@dataclass(frozen=True, eq=False)
class Adjusting:
    """What adjusts the totals of clusters for their leverages L_g.

    Parameters
    ----------
    by : tuple of str
        The clustering.
    root : ndarray, shape (k, k)
        R, with which L_g = R'X_g'W X_g R.
    bread : ndarray or sparse array, shape (k, n_params)
        From adjusted totals to the parameters.
    power : float
        p of (I - L_g)^-p.
    keep : bool
        Whether leverages are wanted beside the squares.
    """

    by: Axis
    root: FloatArray
    bread: Matrix
    power: float
    keep: bool

    def of(self, scores: Scores) -> tuple[FloatArray, tuple[LeveragePart, ...]]:
        """Sum of squares of the parameters' adjusted totals, and the leverages of all clusters where they are kept."""
        n_params = self.bread.shape[1]
        matrix, parts = np.zeros((n_params, n_params)), list[WideLeverage | NarrowLeverage]()
        for clusters, blocks in scores.narrow(self.by):
            if clusters is not None:
                matrix += square(adjust_narrow(clusters, self.root, self.power), self.bread)
                if self.keep:
                    parts.append(NarrowLeverage(clusters, self.root, self.power))
            for block in blocks:
                assert block.gram is not None
                L = block.gram if is_identity(self.root) else self.root.T @ block.gram @ self.root
                adjusted = inverse_power_times(L, self.power, (block.totals @ self.root)[:, :, None])[:, :, 0]
                matrix += square(adjusted, self.bread)
                if self.keep:
                    parts.append(WideLeverage(L, self.power))
        return matrix, tuple(parts)

    def __call__(self, scores: Scores) -> FloatArray:
        """The same as one array of sums over clusters."""
        matrix, parts = self.of(scores)
        sums = SummedProducts.of(parts, self.root.shape[1]).array if self.keep else np.zeros(0)
        return np.append(matrix.ravel(), sums)

    @property
    def n_sums(self) -> int:
        """Length of the array of sums."""
        return int(self.bread.shape[1]) ** 2 + (SummedProducts.size(self.root.shape[1]) if self.keep else 0)

    @property
    def n_entries(self) -> int:
        """Numbers that are held of each cluster meanwhile."""
        return int(self.root.shape[1]) ** 2

    def split(self, array: FloatArray, turn: FloatArray) -> tuple[FloatArray, SummedLeverage | None]:
        """The sum of squares and the leverages of such an array; `turn` leads from contrasts to the columns of R."""
        n_params = self.bread.shape[1]
        matrix, rest = array[: n_params**2].reshape(n_params, n_params), array[n_params**2 :]
        return matrix, SummedLeverage(SummedProducts.of_array(rest, turn.shape[1]), turn) if self.keep else None


@dataclass(frozen=True, eq=False)
class SummedProducts:
    """Sums over clusters of what the leverages of all contrasts are made of.

    With A = (I - L)^-p of a cluster, D = ALA, E = LA and U = EE, all symmetric (k, k); S^ are the entries of S on and
    above the diagonal, one after the other.
    """

    # Of D - U, (k, k).
    expected: FloatArray
    # Of D^(D - 2U)^', made symmetric, and of E^E^', both (k (k + 1) / 2,) squared.
    squares: FloatArray
    products: FloatArray

    @classmethod
    def of(cls, parts: Iterable[LeveragePart], k: int) -> SummedProducts:
        """Add them up."""
        upper = np.triu_indices(k)
        n = upper[0].size
        expected, squares, products = np.zeros((k, k)), np.zeros((n, n)), np.zeros((n, n))
        for part in parts:
            for left, right, E in part.halves(np.eye(k), new_room(k, k)):
                D, U = np.swapaxes(left, 1, 2) @ right, np.swapaxes(E, 1, 2) @ E
                expected += np.sum(D - U, axis=0)
                d, u, e = (S[:, *upper] for S in (D, U, E))
                squares += d.T @ (d - 2 * u)
                products += e.T @ e
        return cls(expected, (squares + squares.T) / 2, products)

    @staticmethod
    def size(k: int) -> int:
        """How many numbers they are, of k columns."""
        n = k * (k + 1) // 2
        return n + n * (n + 1)

    @property
    def array(self) -> FloatArray:
        """All of them, each once."""
        return np.concatenate([S[np.triu_indices(S.shape[0])] for S in (self.expected, self.squares, self.products)])

    @classmethod
    def of_array(cls, array: FloatArray, k: int) -> SummedProducts:
        """The same of such an array."""
        n = k * (k + 1) // 2
        ends = np.cumsum([n, n * (n + 1) // 2])
        sizes = (k, n, n)
        return cls(*(_symmetric(own, m) for own, m in zip(np.split(array, ends), sizes, strict=True)))


def _symmetric(entries: FloatArray, n: int) -> FloatArray:
    """The matrix of its entries on and above the diagonal."""
    matrix = np.zeros((n, n))
    i, j = np.triu_indices(n)
    matrix[i, j] = matrix[j, i] = entries
    return matrix


@dataclass(frozen=True, eq=False)
class SummedLeverage:
    """The same leverages as `RowLeverage`, whose clusters are not held: quadratic forms of their sums.

    Parameters
    ----------
    sums : SummedProducts
        Over clusters.
    root : ndarray, shape (n_coefficients, k)
        As in `RowLeverage`.
    """

    sums: SummedProducts
    root: FloatArray

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """Satterthwaite degrees of freedom, one for each row of `contrasts` (m, k); as in `RowLeverage`."""
        turned = contrasts @ self.root
        x = self._forms(turned, turned)
        expected = quadratic(turned, self.sums.expected)
        # Sum over clusters of the u u' of each contrast, its entries on and above the diagonal, (m, n).
        products = x @ self._products.T
        squares = quadratic(x, self.sums.squares) + np.sum(products**2 * self._times, axis=1)
        return ratio(expected**2, squares)

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of the approximate Hotelling test of `contrasts` (q, k), PT 2018 section 3.2; as in `RowLeverage`."""
        q, whole = contrasts.shape[0], contrasts @ self.root
        turned = whiten(contrasts, whole @ self.sums.expected @ whole.T) @ self.root
        s, t = (own.ravel() for own in np.indices((q, q)))
        x = self._forms(turned[s], turned[t])
        total = x[s == t].sum(axis=0)
        variance = float(total @ self.sums.squares @ total + np.sum(quadratic(x, self.sums.squares)))
        pairs = np.einsum("iajb,sa,tb->isjt", self._full, turned, turned, optimize=True)
        variance += float(np.sum(pairs**2) + np.einsum("isjt,itjs->", pairs, pairs))
        return float(q * (q + 1) / variance)

    @property
    def _upper(self) -> tuple[IntArray, IntArray]:
        i, j = np.triu_indices(self.root.shape[1])
        return i, j

    @property
    def _times(self) -> FloatArray:
        """How often each entry on and above the diagonal occurs in a symmetric matrix."""
        i, j = self._upper
        return np.where(i == j, 1.0, 2.0)

    def _forms(self, first: FloatArray, second: FloatArray) -> FloatArray:
        """What makes a'Sb of the entries of S on and above its diagonal, for each row of two arrays."""
        i, j = self._upper
        return (first[:, i] * second[:, j] + first[:, j] * second[:, i]) * (self._times / 2)

    @cached_property
    def _full(self) -> FloatArray:
        """Sum over clusters of E_ia E_jb, shape (k, k, k, k)."""
        k = self.root.shape[1]
        place = np.asarray(_symmetric(np.arange(k * (k + 1) // 2), k), dtype=np.intp)
        return np.asarray(self.sums.products[place[:, :, None, None], place[None, None, :, :]])

    @cached_property
    def _products(self) -> FloatArray:
        """What makes the sum of u u' of what `_forms` gives: of E_ia E_jb, for i <= j by a <= b, made symmetric."""
        i, j = self._upper
        full = self._full
        own = full[i[:, None], i[None, :], j[:, None], j[None, :]]
        return (own + full[i[:, None], j[None, :], j[:, None], i[None, :]]) / 2

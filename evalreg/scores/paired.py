"""How much two models differ on the questions that both answered, from the scores of an estimate."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import Axis
from evalreg.data.model_pairs import TIED
from evalreg.errors import ArgumentError, ArgumentTypeError
from evalreg.numerics.anova import anova_icc
from evalreg.numerics.matrices import Matrix, compressed, dense, of_columns
from evalreg.scores.base import ENTRIES, Scores
from evalreg.scores.unseen import dependence_granted, enough_at_most

# Coefficients of a difference agree but for rounding.
ALIKE = 1e-12

Sides: TypeAlias = tuple[IntArray, IntArray, IntArray, FloatArray]
"""Contrasts that are differences of two models, their two columns (-1: there is one only), what multiplies them."""


@dataclass(frozen=True, eq=False)
class Differing:
    """Differences of two models that rest on few questions, one entry each."""

    rows: IntArray  # (m,): which of the contrasts they are
    scale: FloatArray  # (m,): what multiplies the difference in the contrast, 1 or -1 for most; below, it is taken out
    # (m,): means of d, of its size and of d^2 over the shared questions
    theta: FloatArray
    size: FloatArray
    square: FloatArray
    # (m,): shares of the shared questions with a d that is not 0, and with one of 1 or -1
    differ: FloatArray
    whole: FloatArray
    # (m,): shares of the shared questions in clusters whose d are all 0, and all 1 or -1, the largest over the
    # clusterings
    silent: FloatArray
    silent_whole: FloatArray
    n: FloatArray  # (m,): shared questions
    clusters: FloatArray  # (m,): Kish's effective number of clusters, the smallest over the clusterings
    # (m,): variance that the intraclass correlation of d and the sizes of the clusters imply, the largest over the
    # clusterings; 0 where the correlation is not defined
    alike: FloatArray


@dataclass(frozen=True, eq=False)
class Paired(ABC):
    """Scores in [0, 1] that models have on the same questions: of columns that are means, or differences of two."""

    scores: Scores  # of an estimate
    # (n_columns,): mean of each column, its rows, and their sum of squares about it
    means: FloatArray
    count: FloatArray
    squares: FloatArray
    contrasts: Matrix  # (n_params, n_columns): the parameters as contrasts of the columns
    icc: float  # correlation that differences not seen are taken to have within a cluster

    def linear(self, contrasts: Matrix) -> Paired:
        """The same for contrasts of the parameters."""
        return replace(self, contrasts=compressed(contrasts) @ compressed(self.contrasts))

    def __getstate__(self) -> dict[str, Any]:
        return {one.name: getattr(self, one.name) for one in fields(self)} | {"scores": self.scores.detached()}

    def differing(self, contrasts: Matrix | None, variance: FloatArray, axes: tuple[Axis, ...]) -> Differing:
        """Which contrasts are differences of two models on the same questions, and may rest on few of them.

        Parameters
        ----------
        contrasts : ndarray or sparse array, shape (m, n_params), or None
            C; None is the parameters themselves.
        variance : ndarray, shape (m,)
            In use; NaN or 0 where there is none.
        axes : tuple of Axis
            Clusterings in use.

        Returns
        -------
        Differing
            Without those of which so many questions tell, by their d^2 alone, that nothing is added to their variance.
        """
        rows, first, second, scale = self._sides(contrasts)
        n, theta = self.count[first], self._theta(first, second)
        square = self._square(first, second)
        # Without a difference of two models no clusters are looked up, which may be in an engine.
        kish = np.array([self._kish(axis)[first] if n.size else n for axis in axes]) if axes else n[None, :]
        clusters = kish.min(axis=0)
        naive = np.maximum(square - theta**2, 0.0) / np.maximum(n - 1, 1)
        own = np.nan_to_num(variance[rows]) / scale**2
        most = enough_at_most(n, clusters, own, naive, dependence_granted(n, clusters, self.icc))
        few = (n * square < most) | (n * (1 - np.abs(theta)) < most)
        rows, first, second, scale = rows[few], first[few], second[few], scale[few]
        n, theta, square, kish, naive = n[few], theta[few], square[few], kish[:, few], naive[few]
        passed = self._passed(first, second, axes)
        # Where all questions differ and none by 1, there is no room for more, and no clusters have to be compared.
        room = np.any([passed[2] < 1, *(passed[3:] > 0)], axis=0)
        rows, first, second, scale = rows[room], first[room], second[room], scale[room]
        n, theta, kish, naive = n[room], theta[room], kish[:, room], naive[room]
        size, square, differ, whole, silent, silent_whole = passed[:, room]
        between, counts = self._between(first, second, axes)
        # Of axes without repetition within clusters the correlation is not defined.
        alike, spread = np.zeros(n.size), naive * n
        for k in range(len(axes)):
            total = n * np.maximum(square - theta**2, 0.0)
            rho = anova_icc(between[k], total, n, counts[k], n**2 / kish[k])
            rho = np.clip(np.nan_to_num(rho), 0.0, 1.0)
            alike = np.fmax(alike, np.where(rho > 0, (1 - rho) * naive + rho * spread / kish[k], 0.0))
        shares = differ, whole, silent, silent_whole
        return Differing(rows, scale, theta, size, square, *shares, n, kish.min(axis=0), alike)

    @property
    def covered(self) -> IntArray:
        """Which parameters are differences of two models on the same questions."""
        return self._sides(None)[0]

    def apart(self, contrasts: Matrix) -> IntArray:
        """Which contrasts are of two models that were not asked the same questions."""
        return np.setdiff1d(self._held(contrasts, 2)[1], self._sides(contrasts)[0])

    def _held(self, contrasts: Matrix | None, n_columns: int) -> tuple[Matrix, IntArray, IntArray]:
        """Contrasts of the columns, which of them hold so many, and where the entries of these start."""
        A = self._of_columns(contrasts)
        A.sum_duplicates()
        A.eliminate_zeros()
        rows = np.flatnonzero(np.diff(A.indptr) == n_columns)
        return A, rows, A.indptr[rows]

    def _of_columns(self, contrasts: Matrix | None) -> Matrix:
        """Contrasts of the parameters as contrasts of the columns; no other array shares the entries."""
        if contrasts is None:
            return self._compressed.copy()
        return of_columns(compressed(contrasts), self._compressed)

    @cached_property
    def _compressed(self) -> Matrix:
        return compressed(self.contrasts)

    @abstractmethod
    def _sides(self, contrasts: Matrix | None) -> Sides:
        """Contrasts that are multiples of a difference of two models on the same questions."""

    @abstractmethod
    def _square(self, first: IntArray, second: IntArray) -> FloatArray:
        """Means of d^2."""

    @abstractmethod
    def _kish(self, axis: Axis) -> FloatArray:
        """Kish's effective number of clusters of each column."""

    @abstractmethod
    def _passed(self, first: IntArray, second: IntArray, axes: tuple[Axis, ...]) -> FloatArray:
        """Means of |d| and d^2, shares of questions that differ and that differ by 1, and those of silent clusters.

        The last two are the shares of questions in clusters where none differs, or all differ by 1: the larger of each
        over the clusterings. Shape (6, m).
        """

    @abstractmethod
    def _between(self, first: IntArray, second: IntArray, axes: tuple[Axis, ...]) -> tuple[FloatArray, FloatArray]:
        """Sums of squares between clusters, and numbers of clusters, shape (n_axes, m)."""

    def _theta(self, first: IntArray, second: IntArray) -> FloatArray:
        return np.asarray(self.means[first] - np.where(second < 0, 0.0, self.means[second]))


class PairedQuestions(Paired):
    """The same of which the scores of each question are at hand."""

    @abstractmethod
    def _homes(self, axes: tuple[Axis, ...]) -> list[IntArray]:
        """Cluster of each question by axis; empty where that is not known."""

    @abstractmethod
    def _present(self, first: IntArray) -> FloatArray | None:
        """Which questions the columns have, shape (m, n_questions); None where `_each` tells."""

    @abstractmethod
    def _within(self, totals: Matrix, gram: Matrix, first: IntArray, second: IntArray) -> tuple[FloatArray, FloatArray]:
        """Sums of d within clusters and their questions, shape (n_clusters, m)."""

    @abstractmethod
    def _each(self, first: IntArray, second: IntArray) -> Iterator[tuple[IntArray, FloatArray, BoolArray | None]]:
        """Differences by question, of a few contrasts at a time, and which questions they are (None: all)."""

    def _apart(self, axis: Axis) -> bool:
        """Whether each question is known to be a cluster of its own."""
        if axis not in self._apart_by_axis:
            homes = self._homes((axis,))
            self._apart_by_axis[axis] = len(homes) == 1 and np.unique(homes[0]).size == homes[0].size
        return self._apart_by_axis[axis]

    @cached_property
    def _apart_by_axis(self) -> dict[Axis, bool]:
        return {}

    def _passed(self, first: IntArray, second: IntArray, axes: tuple[Axis, ...]) -> FloatArray:
        """Means of |d| and d^2, shares of questions that differ and that differ by 1, and `_silent`, shape (6, m)."""
        found = np.zeros((6, first.size))
        if not first.size:  # No clusters are looked up in vain either.
            return found
        homes = self._homes(axes)
        for at, d, member in self._each(first, second):
            far, count = np.abs(d), self.count[first[at]]
            differ, whole = far > TIED, far > 1 - TIED
            sums = far.sum(axis=1), np.einsum("mn,mn->m", d, d), differ.sum(axis=1), whole.sum(axis=1)
            found[:4, at] = np.array(sums) / count
            # Without clusters each question is its own.
            found[4, at], found[5, at] = 1 - found[2, at], found[3, at]
            if homes:
                present = self._present(first[at])
                found[4:, at] = _silent(
                    differ, whole, present, [home if member is None else home[member] for home in homes]
                )
        return found

    def _between(self, first: IntArray, second: IntArray, axes: tuple[Axis, ...]) -> tuple[FloatArray, FloatArray]:
        """Sums of squares between clusters, and numbers of clusters, shape (n_axes, m)."""
        m = first.size
        between, counts = np.zeros((len(axes), m)), np.zeros((len(axes), m))
        for k, axis in enumerate(axes):
            if m and self._apart(axis):  # nothing lies between rows of a cluster, and nothing is made of the sums
                counts[k] = self.count[first]
                continue
            for block in self.scores.cells(axis) if m else ():
                totals, gram = pickable(block.totals), pickable(block.gram)
                step = max(ENTRIES // max(totals.shape[0], 1), 1)
                for at in np.array_split(np.arange(m), m // step + 1):
                    T, N = self._within(totals, gram, first[at], second[at])
                    between[k, at] += np.sum(T**2 / np.where(N > 0, N, 1.0), axis=0)
                    counts[k, at] += np.count_nonzero(N, axis=0)
        return between, counts


def pickable(matrix: Matrix) -> Matrix:
    """Return an array whose columns are quickly picked: dense where there is room, else in compressed columns."""
    return compressed(matrix).tocsc() if matrix.shape[0] * matrix.shape[1] > ENTRIES else dense(matrix)


def _silent(differ: BoolArray, whole: BoolArray, present: FloatArray | None, homes: list[IntArray]) -> FloatArray:
    """Shares of questions in clusters where none differs, or all differ by 1; the largest by axis, shape (2, m)."""
    count = differ.shape[1] if present is None else present.sum(axis=1)
    some = ~whole if present is None else (present > 0) & ~whole
    known = [[in_differing_clusters(one, present, home) for one in (differ, some)] for home in homes]
    return np.asarray(1 - np.min(known, axis=0) / count)


def in_differing_clusters(differ: BoolArray, present: FloatArray | None, home: IntArray) -> FloatArray:
    """Questions in clusters where at least one differs, shape (m,).

    Shapes: differ and present (m, n_questions), present 1 for the questions of a pair (None: all); home (n_questions,).
    """
    order = np.argsort(home, kind="stable")
    starts = np.flatnonzero(np.diff(home[order], prepend=-1))
    if starts.size == home.size:  # every question a cluster of its own
        own = differ if present is None else differ & (present > 0)
        return np.asarray(np.count_nonzero(own, axis=1), dtype=np.float64)
    differs = np.logical_or.reduceat(differ[:, order], starts, axis=1)
    if present is None:
        return np.asarray(differs @ np.diff(starts, append=home.size).astype(float))
    return np.asarray(np.sum(differs * np.add.reduceat(present[:, order], starts, axis=1), axis=1))


def checked_icc(icc: object) -> float | None:
    """Return `icc` if it is a number from 0 to 1, or None."""
    if icc is None:
        return None
    if isinstance(icc, bool) or not isinstance(icc, numbers.Real):
        raise ArgumentTypeError(f"`icc` must be a number from 0 to 1, or None; got {type(icc).__name__} {icc!r}.")
    if not 0 <= float(icc) <= 1:
        raise ArgumentError(
            f"`icc` must lie between 0 and 1: the correlation, within a cluster, of differences that were not seen; "
            f"got {float(icc):g}. Leave it out for 0.5, which is careful."
        )
    return float(icc)

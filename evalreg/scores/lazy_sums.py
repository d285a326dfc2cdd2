"""Sums by (cluster, cell) that came out of an engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.data.clusters import Axis
from evalreg.data.engine_groups import joint_codes, ordered
from evalreg.numerics.matrices import Matrix, in_rows, with_entries
from evalreg.scores.sums import Block

# Places of (cluster, cell) for each entry up to which a table of them is faster than sorting.
TABLE_PER_ENTRY = 4
# Whole numbers of so many bytes, and what they hold.
WIDTHS = ((np.uint8, 1 << 8), (np.uint16, 1 << 16), (np.uint32, 1 << 32))


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters in their order: by column the code of each cluster's label, and the labels as text.

    The labels of a million clusters are made when one is asked for.
    """

    codes: dict[str, IntArray]
    labels: dict[str, Any]
    n_clusters: int

    def __len__(self) -> int:
        return self.n_clusters

    def label(self, code: int) -> str:
        """Label of one cluster."""
        return ":".join(str(self.labels[name][own[code]]) for name, own in self.codes.items())

    def apart(self, by: Axis, where: slice = slice(None)) -> tuple[Clusters, IntArray]:
        """Joint values of some columns in some clusters, in the order of labels, and which of them each cluster has."""
        own = {name: self.codes[name][where] for name in by}
        n = next(iter(own.values())).size
        # Not every label occurs in some clusters only.
        place, n_found = ordered(*joint_codes([(codes, len(self.labels[name])) for name, codes in own.items()], n))
        some = np.empty(n_found, dtype=np.intp)
        some[place] = np.arange(n)
        codes = {name: one[some] for name, one in own.items()}
        return Clusters(codes, {name: self.labels[name] for name in by}, n_found), place


def joined(parts: Sequence[Clusters]) -> Clusters:
    """Clusters of several parts, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    codes, labels = {}, {}
    for name in parts[0].codes:
        every = np.concatenate([one.labels[name] for one in parts])
        number, found = pd.factorize(every)
        order = np.argsort(found, kind="stable")
        place = np.empty(order.size, dtype=np.int32)
        place[order] = np.arange(order.size)
        own = np.split(place[number], np.cumsum([len(one.labels[name]) for one in parts])[:-1])
        codes[name] = np.concatenate([to[one.codes[name]] for to, one in zip(own, parts, strict=True)])
        labels[name] = np.asarray(found)[order]
    return Clusters(codes, labels, sum(map(len, parts)))


@dataclass(frozen=True, eq=False)
class Held:
    """Sums by (cluster, cell) of some whole clusters, entry by entry, each in as few bytes as hold it exactly.

    `cell` and `starts` are the indices of a sparse array in compressed rows, shape (n_clusters, n_cells). `totals` are
    sums of values times 1 and each part, shape (n_entries, K), `weights` those of the products of these, shape
    (n_entries, K (K + 1) / 2). `rooted`, where asked for: rows, and sums of roots of weights times the value, 1 and
    each part.
    """

    cell: IntArray
    starts: IntArray
    n_cells: int
    totals: Any
    weights: Any
    rooted: Any = None

    @property
    def n_clusters(self) -> int:
        """Clusters of this part."""
        return int(self.starts.size - 1)

    @property
    def nbytes(self) -> int:
        """Bytes that are held."""
        arrays = (self.cell, self.starts, self.totals, self.weights, self.rooted)
        return sum(int(one.nbytes) for one in arrays if one is not None)

    def like(self, numbers: FloatArray) -> Matrix:
        """One number for each entry, shape (n_clusters, n_cells)."""
        made = in_rows(numbers, self.cell, self.starts, (self.n_clusters, self.n_cells))
        made.has_canonical_format = True
        return made

    def about(self, fitted: FloatArray) -> Block:
        """Sums of residuals, those of a cell side by side; both have the same entries."""
        cell, K = self.cell, self.totals.shape[1]
        if K == 1:
            weight = self.weights[:, 0].astype(float)
            totals = self.like(self.totals[:, 0] - weight * fitted.ravel()[cell])
            return Block(totals, with_entries(totals, weight))
        weights = self.weights.astype(float, copy=False)
        return Block(self._beside(self.totals - self._fitted(weights, fitted)), self._beside(weights))

    @property
    def _all_there(self) -> bool:
        """Whether each cluster has each cell."""
        return self.cell.size == self.n_clusters * self.n_cells

    def _fitted(self, weights: FloatArray, fitted: FloatArray) -> FloatArray:
        """Sums of what is fitted times 1 and each part, shape (n_entries, K)."""
        K = self.totals.shape[1]
        place = product_places(K)
        if self._all_there:
            maps = np.zeros((self.n_cells, weights.shape[1], K))
            for u in range(K):
                maps[:, place[u], u] = fitted
            by_cell = weights.reshape(self.n_clusters, self.n_cells, -1).swapaxes(0, 1)
            return np.asarray((by_cell @ maps).swapaxes(0, 1).reshape(-1, K))
        of = fitted[self.cell]
        return np.column_stack([sum(weights[:, place[u, v]] * of[:, v] for v in range(K)) for u in range(K)])

    def _beside(self, numbers: FloatArray) -> Matrix:
        """Several numbers for each entry, those of a cell side by side in the row of its cluster."""
        each = numbers.shape[1]
        shape = self.n_clusters, self.n_cells * each
        if self._all_there:
            return numbers.reshape(shape)
        columns = (self.cell[:, None].astype(np.int64) * each + np.arange(each)).ravel()
        return sparse.csr_array((numbers.ravel(), columns, self.starts.astype(np.int64) * each), shape)

    def residuals(self, fitted: FloatArray) -> FloatArray:
        """Rows of each cluster, and sums of residuals times the roots of the weights, shape (2, n_clusters)."""
        K = self.totals.shape[1]
        if self.rooted is None:
            # Of rows without weights.
            rows, total, of = self.weights[:, 0], self.totals[:, 0], self.weights[:, :K]
        else:
            rows, total, of = self.rooted[:, 0], self.rooted[:, 1], self.rooted[:, 2:]
        left = total - np.einsum("ei,ei->e", of.astype(float), fitted.reshape(-1, K)[self.cell])
        return np.array([np.bincount(self.of_entry, one, self.n_clusters) for one in (rows, left)])

    @property
    def of_entry(self) -> IntArray:
        """Cluster of each entry."""
        every: IntArray = np.arange(self.n_clusters, dtype=np.int32)
        return np.repeat(every, np.diff(self.starts))

    def by_cell(self) -> tuple[FloatArray, FloatArray]:
        """Totals and weights of each cell."""

        def summed(numbers: FloatArray) -> FloatArray:
            return np.column_stack([np.bincount(self.cell, column, self.n_cells) for column in numbers.T])

        return summed(self.totals), summed(self.weights)

    def moved(self, place: IntArray, n_clusters: int) -> Held:
        """The same sums in other clusters: each of these goes to the one that `place` says."""
        numbers = self.totals, self.weights, self.rooted
        return hold(place[self.of_entry], self.cell, n_clusters, self.n_cells, *numbers)


def added(parts: Sequence[Held]) -> Held:
    """Parts of the same clusters, added up."""
    if len(parts) == 1:
        return parts[0]
    first = parts[0]
    cluster, cell = (np.concatenate([getattr(one, name) for one in parts]) for name in ("of_entry", "cell"))
    numbers = [
        None if getattr(first, name) is None else np.concatenate([getattr(one, name) for one in parts])
        for name in ("totals", "weights", "rooted")
    ]
    return hold(cluster, cell, first.n_clusters, first.n_cells, *numbers)


def hold(
    cluster: IntArray, cell: IntArray, n_clusters: int, n_cells: int, totals: Any, weights: Any, rooted: Any = None
) -> Held:
    """Entries in the order of clusters and cells, those of the same cluster and cell added up."""
    index: Any = np.int32 if cluster.size < 2**31 else np.int64
    order, starts, apart = _in_order(cluster, cell, n_clusters, n_cells, index)
    cell = _narrow(cell)[order]
    first = None if apart else _first_ones(cell, starts)
    if first is not None:
        starts, cell = np.searchsorted(first, starts).astype(index), cell[first]

    def summed(numbers: Any) -> Any:
        if numbers is None:
            return None
        # In few bytes before they move: of millions of entries that takes half of the time.
        ordered = _exact(numbers).take(order, axis=0)
        return ordered if first is None else _exact(np.add.reduceat(ordered.astype(float), first, axis=0))

    return Held(cell, starts, n_cells, summed(totals), summed(weights), summed(rooted))


def _first_ones(cell: IntArray, starts: IntArray) -> IntArray | None:
    """The first entry of each (cluster, cell) among entries in their order; None where each has one."""
    new = np.ones(cell.size, dtype=bool)
    new[1:] = cell[1:] != cell[:-1]
    new[starts[:-1][np.diff(starts) > 0]] = True
    return None if new.all() else np.flatnonzero(new)


def _in_order(
    cluster: IntArray, cell: IntArray, n_clusters: int, n_cells: int, index: Any
) -> tuple[IntArray, IntArray, bool]:
    """Entries by cluster and cell, where each cluster begins (with the end appended), and whether all surely differ."""
    n_table = n_clusters * n_cells
    if n_table <= TABLE_PER_ENTRY * cell.size:
        # Where each has an entry of its own, a table has them in their order: a third of the time of sorting.
        table = np.full(n_table, -1, dtype=index)
        table[cluster.astype(np.intp) * n_cells + cell] = np.arange(cell.size, dtype=index)
        there = table >= 0
        order = table[there]
        if order.size == cell.size:
            sizes = np.count_nonzero(there.reshape(n_clusters, n_cells), axis=1)
            return order, np.append(0, np.cumsum(sizes)).astype(index), True
    by_cell = np.argsort(_narrow(cell), kind="stable").astype(index)
    # An array with one entry a row, by columns: its rows in the order of the clusters.
    alone = (np.zeros(cell.size, dtype=np.int8), cluster[by_cell], np.arange(cell.size + 1, dtype=index))
    by_cluster = sparse.csr_array(alone, (cell.size, n_clusters)).tocsc()
    return by_cell[by_cluster.indices], by_cluster.indptr.astype(index, copy=False), False


def _narrow(whole: IntArray) -> IntArray:
    """Whole numbers from zero in as few bytes as hold them."""
    most = int(whole.max(initial=0))
    return whole.astype(next(kind for kind, above in WIDTHS if most < above), copy=False)


def _exact(numbers: Any) -> Any:
    """Numbers in as few bytes as hold them without rounding."""
    if numbers.dtype.kind == "f" and numbers.size and np.all(numbers >= 0) and numbers.max() < WIDTHS[-1][1]:
        whole = _narrow(numbers)
        if np.array_equal(whole, numbers):
            return whole
    # Most that are not short are told by the first of them.
    if numbers.dtype == np.float64 and _short(numbers[:1]) is not None:
        short = _short(numbers)
        return numbers if short is None else short
    return numbers


def _short(numbers: Any) -> Any:
    """The same numbers in four bytes; None where some of them are rounded."""
    with np.errstate(over="ignore"):
        short = numbers.astype(np.float32)
    return short if np.array_equal(short, numbers) else None


def product_places(n: int) -> IntArray:
    """Place of the product of u and v among those with u <= v, shape (n, n)."""
    place = np.zeros((n, n), dtype=np.intp)
    upper = np.triu_indices(n)
    place[upper] = np.arange(upper[0].size)
    return np.maximum(place, place.T)


def same_products(powers: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
    """For each product of two parts u <= v, in order, the first that is the same: x times x^3 is x^2 times x^2.

    `powers` are the numbers that are multiplied in each part; the first part is 1, of none.
    """
    first = dict[tuple[int, ...], tuple[int, int]]()
    pairs = [(int(u), int(v)) for u, v in zip(*np.triu_indices(len(powers)), strict=True)]
    return [first.setdefault(tuple(sorted(powers[u] + powers[v])), (u, v)) for u, v in pairs]


@dataclass(frozen=True, eq=False)
class Entries:
    """Sums by (cluster, cell) as an engine gave them; a pair of models may occur once for either order.

    `weights`, `totals` and `rooted` are those of `Held`.
    """

    clusters: Clusters
    cluster: IntArray
    cell: IntArray
    rows: FloatArray
    weights: FloatArray
    totals: FloatArray
    rooted: FloatArray | None = None
    # Rows of each entry whose sides the engine has exchanged, where it does.
    exchanged: FloatArray | None = None

    @property
    def weight(self) -> FloatArray:
        """Weight of each entry."""
        return self.weights[:, 0]

    @property
    def n_entries(self) -> int:
        """Joint values of the clusters' columns and those of the cells, either order of two sides by itself."""
        if self.exchanged is None:
            return int(self.cluster.size)
        return int(np.count_nonzero(self.exchanged) + np.count_nonzero(self.rows != self.exchanged))

    def by_cell(self, n_cells: int) -> FloatArray:
        """Rows and sums of values of each cell, shape (2, n_cells)."""
        return np.array([np.bincount(self.cell, one, n_cells) for one in (self.rows, self.totals[:, 0])])

    def block(self, n_cells: int) -> Held:
        """The same in rows of clusters."""
        numbers = self.totals, self.weights, self.rooted
        return hold(self.cluster, self.cell, len(self.clusters), n_cells, *numbers)


@dataclass(frozen=True, eq=False)
class Clustering:
    """What is kept of a clustering that was asked for."""

    clusters: Clusters
    sizes: FloatArray
    n_entries: int
    # Conditions on rows, which put whole clusters into parts; None is all.
    ranges: tuple[nw.Expr | None, ...]
    # None where there are too many.
    held: tuple[Held, ...] | None

    def coarser(self, by: Axis) -> Clustering | None:
        """The clustering by some of the columns, made of these sums; None where they are not held."""
        if self.held is None:
            return None
        ends = np.cumsum([one.n_clusters for one in self.held])
        slices = [slice(end - one.n_clusters, end) for one, end in zip(self.held, ends, strict=True)]
        if next(iter(self.clusters.codes)) in by:
            # Parts are whole in the first column.
            found = [self.clusters.apart(by, where) for where in slices]
            clusters = joined([one for one, _ in found])
            held = tuple(one.moved(place, len(own)) for one, (own, place) in zip(self.held, found, strict=True))
        else:
            clusters, place = self.clusters.apart(by)
            held = (added([one.moved(place[at], len(clusters)) for one, at in zip(self.held, slices, strict=True)]),)
        sizes = np.concatenate([np.bincount(one.of_entry, one.weights[:, 0], one.n_clusters) for one in held])
        return Clustering(clusters, sizes, sum(one.cell.size for one in held), (None,), held)

"""Scores of two estimates together: side by side on the same rows, or one below the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray
from evalreg.data.clusters import Axis, Codes, Labels
from evalreg.errors import NotAvailableError
from evalreg.scores.sums import Block, CellScores, Matrix, RowScores, Scores, compressed, dense, square, sum_blocks


@dataclass(frozen=True, eq=False)
class StackedScores:
    """Scores of two estimates of the same rows, side by side.

    Parameters
    ----------
    first, second : Scores
        In memory, with the same rows in the same order.
    """

    first: InMemory
    second: InMemory

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return self.first.n_rows

    @property
    def labels(self) -> Labels:
        """Cluster labels of the rows."""
        return self.first.labels

    @property
    def n_columns(self) -> int:
        """Columns of both."""
        return self.first.n_columns + self.second.n_columns

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of labels that can be clustered on."""
        return self.first.columns

    @property
    def has_source(self) -> bool:
        """Whether further columns can be looked up."""
        return self.first.has_source

    def n_clusters(self, by: Axis) -> int:
        """Observed joint values of some columns."""
        return self.first.n_clusters(by)

    def sizes(self, by: Axis) -> FloatArray:
        """Weight of each cluster, shape (n_clusters,)."""
        return self.first.sizes(by)

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""
        return self.first.label(by, code)

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within clusters of both, all clusters in one block."""
        yield Block(*(_beside(parts) for parts in zip(_whole(self.first, by), _whole(self.second, by), strict=True)))

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        if by is not None:
            return sum_blocks(square(block.totals, bread) for block in self.cells(by))
        if isinstance(self.first, CellScores) and isinstance(self.second, CellScores):
            return _meat_of_cell_rows((self.first, self.second), bread)
        every_row = {"": Codes(np.arange(self.n_rows), self.n_rows)}
        return self.with_held(every_row).meat(("",), bread)

    def same_rows(self) -> bool:
        """Whether both use the same rows of their data."""
        return np.array_equal(self.first.labels.positions(), self.second.labels.positions())

    def with_held(self, held: dict[str, Codes]) -> StackedScores:
        """The same scores with codes of further columns."""
        return StackedScores(*(_with_held(part, held) for part in (self.first, self.second)))

    def with_labels(self, more: dict[str, Any]) -> StackedScores:
        """The same scores with further label columns."""
        return StackedScores(self.first.with_labels(more), self.second.with_labels(more))


def _meat_of_cell_rows(parts: tuple[CellScores, CellScores], bread: Matrix) -> FloatArray:
    """Sum over rows of (B' s)(B' s)', each row having one score in either part: products summed by pairs of cells."""
    n_rows = parts[0].n_rows
    cells = [np.zeros(n_rows, dtype=np.intp) if part.cell is None else part.cell for part in parts]
    own = [np.bincount(cell, part.row_scores**2, part.n_columns) for cell, part in zip(cells, parts, strict=True)]
    shape = (parts[0].n_columns, parts[1].n_columns)
    crossed = sparse.coo_array((parts[0].row_scores * parts[1].row_scores, (cells[0], cells[1])), shape).tocsr()
    middle: Matrix = sparse.block_array(
        [[sparse.diags_array(own[0]), crossed], [crossed.T, sparse.diags_array(own[1])]], format="csr"
    )
    return dense(bread.T @ (middle @ bread))


InMemory: TypeAlias = "CellScores | RowScores | StackedScores"


def _with_held(scores: InMemory, held: dict[str, Codes]) -> InMemory:
    if isinstance(scores, StackedScores):
        return scores.with_held(held)
    return replace(scores, labels=scores.labels.with_held(held))


def _whole(scores: InMemory, by: Axis) -> tuple[Matrix, Matrix | None]:
    """Totals and grams of all clusters; rows' grams are left out, as they have no diagonal form."""
    blocks = list(scores.cells(by))
    if isinstance(scores, RowScores):
        return np.concatenate([block.totals for block in blocks]), None
    return blocks[0].totals, blocks[0].gram


def _beside(parts: tuple[Matrix | None, Matrix | None]) -> Matrix | None:
    if parts[0] is None or parts[1] is None:
        return None
    return sparse.hstack([compressed(part) for part in parts]).tocsr()


@dataclass(frozen=True, eq=False)
class ConcatScores:
    """Scores of two estimates of independent rows, one below the other.

    Parameters
    ----------
    first, second : Scores
        Of different rows; no cluster is shared.
    """

    first: Scores
    second: Scores

    @property
    def n_rows(self) -> int:
        """Rows of both."""
        return self.first.n_rows + self.second.n_rows

    @property
    def n_columns(self) -> int:
        """Columns of both."""
        return self.first.n_columns + self.second.n_columns

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of labels that both have."""
        return tuple(name for name in self.first.columns if name in self.second.columns)

    @property
    def has_source(self) -> bool:
        """Whether further columns can be looked up."""
        return self.first.has_source and self.second.has_source

    def n_clusters(self, by: Axis) -> int:
        """Clusters of both."""
        return self.first.n_clusters(by) + self.second.n_clusters(by)

    def sizes(self, by: Axis) -> FloatArray:
        """Weight of each cluster, shape (n_clusters,)."""
        return np.concatenate([self.first.sizes(by), self.second.sizes(by)])

    def label(self, by: Axis, code: int) -> str:
        """Label of one cluster."""
        n_first = self.first.n_clusters(by)
        return self.first.label(by, code) if code < n_first else self.second.label(by, code - n_first)

    def cells(self, by: Axis) -> Iterator[Block]:
        """Sums within clusters, zero in the other's columns."""
        for scores, before, after in ((self.first, 0, self.second.n_columns), (self.second, self.first.n_columns, 0)):
            for block in scores.cells(by):
                gram = block.gram if sparse.issparse(block.gram) else None
                yield Block(
                    _padded(block.totals, before, after), None if gram is None else _padded(gram, before, after)
                )

    def meat(self, by: Axis | None, bread: Matrix) -> FloatArray:
        """Sum over clusters of (B' T_g)(B' T_g)', shape (n_params, n_params)."""
        split = self.first.n_columns
        return self.first.meat(by, bread[:split]) + self.second.meat(by, bread[split:])

    def with_labels(self, more: dict[str, Any]) -> ConcatScores:
        """Refused: an array cannot say which rows it labels."""
        raise NotAvailableError("labels of concatenated estimates are columns that both hold; arrays cannot be added.")


def _padded(matrix: Matrix, before: int, after: int) -> Matrix:
    """A matrix with empty columns on either side."""
    empty = [sparse.csr_array((matrix.shape[0], width)) for width in (before, after)]
    return sparse.hstack([empty[0], compressed(matrix), empty[1]]).tocsr()


def stack_scores(first: Scores, second: Scores) -> StackedScores:
    """Scores of the same rows side by side.

    Parameters
    ----------
    first, second : Scores
        In memory.

    Returns
    -------
    StackedScores
        With the columns of both.

    Raises
    ------
    NotAvailableError
        If either lives in an engine.
    """
    known = (CellScores, RowScores, StackedScores)
    if not isinstance(first, known) or not isinstance(second, known):
        raise NotAvailableError("`stack` needs means, win rates or regressions whose rows are in memory.")
    return StackedScores(first, second)


def concat_scores(first: Scores, second: Scores) -> Scores:
    """Scores of independent rows, one below the other.

    Parameters
    ----------
    first, second : Scores
        Of different rows.

    Returns
    -------
    Scores
        With the columns and the clusters of both.
    """
    return ConcatScores(first, second)


def detached(scores: Any) -> Any:
    """The same scores without the source of further labels, as pickle and copy keep them.

    Parameters
    ----------
    scores : Scores
        Of any kind.

    Returns
    -------
    Scores
        That knows only the clusterings already held.
    """
    if isinstance(scores, CellScores | RowScores):
        return replace(scores, labels=scores.labels.detached())
    if isinstance(scores, StackedScores | ConcatScores):
        return replace(scores, first=detached(scores.first), second=detached(scores.second))
    return scores.detached()

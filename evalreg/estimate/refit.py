"""What leaving clusters out needs of an estimate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from evalreg.checks import FloatArray
from evalreg.numerics.matrices import Matrix
from evalreg.scores.sums import Block


class LeaveOut(Protocol):
    """Solves an estimate again without each cluster."""

    def __call__(self, block: Block) -> FloatArray:
        """theta_(g) - theta, shape (n_clusters, n_params); NaN where nothing is left to solve from."""

    def resolve(self, moved: FloatArray, weight: FloatArray) -> FloatArray:
        """Parameters for mean residuals and weights of cells, both (n_cells, m): shape (m, n_params)."""

    def shares(self, of: FloatArray, weight: FloatArray) -> FloatArray | None:
        """What each cell's mean weighs in a combination of the parameters, where cells have these weights.

        None where parameters are no linear map of the means. Shapes: of (n_params,), weight and what is returned
        (n_cells, m).
        """


@dataclass(frozen=True, eq=False)
class Ratings:
    """Which parameters are ratings, of which only differences are known."""

    names: tuple[str, ...]
    # The one that is zero; None where they sum to zero.
    zero: str | None
    # A log-odds in the units of each parameter, (n_params,); of what differs between sides, for a usual difference.
    units: FloatArray


@dataclass(frozen=True, eq=False)
class Refit:
    """What leaving clusters out needs besides the scores' grams."""

    # (n_columns,) or (n_columns, n_columns): M = (X'WX)^-1; a vector where it is diagonal (cells)
    inverse_gram: FloatArray
    linear: bool = True  # whether leaving out a cluster is exact (least squares, means) rather than one Newton step
    # solves again without each cluster, where that is more than the leverages tell (weights that change, or a
    # likelihood)
    leave_out: LeaveOut | None = None
    # (n_params, n_solved): the parameters as contrasts of those that `leave_out` solves for; None where they are the
    # same
    contrasts: Matrix | None = None
    delta: bool = False  # whether the parameters are a smooth function of what is solved for, by the delta method
    # whether one Newton step stands for solving again, as for likelihoods of comparisons
    step: bool = False
    ratings: Ratings | None = None

    @property
    def exact(self) -> bool:
        """Whether leaving out a cluster is solving again without its rows, or the step that stands for it."""
        return (self.linear or self.step or self.leave_out is not None) and not self.delta

    def map(self, C: Matrix) -> Refit:
        """The same for contrasts of the parameters."""
        if self.leave_out is None:
            return self if self.ratings is None else replace(self, ratings=None)
        return replace(self, contrasts=C if self.contrasts is None else C @ self.contrasts)

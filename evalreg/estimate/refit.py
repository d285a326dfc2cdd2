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


class AtInfinity(Protocol):
    """Parameters, some of them infinite, where a likelihood has no finite best."""

    @property
    def rated(self) -> tuple[str, ...]:
        """Models whose ratings are among the parameters."""

    @property
    def zero(self) -> str | None:
        """Model whose rating is zero; None where ratings are centred."""

    @property
    def units(self) -> FloatArray:
        """A log-odds in the units of each parameter, where ratings are among these, shape (n_params,).

        Of what differs between sides, a log-odds for a difference of usual size.
        """

    def map(self, C: Matrix) -> AtInfinity:
        """The same for contrasts of the parameters."""

    def __call__(self, moved: FloatArray, weight: FloatArray) -> FloatArray:
        """Parameters for mean residuals and weights of cells, both (n_values, m): shape (m, n_params)."""


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
    at_infinity: AtInfinity | None = None  # parameters where `leave_out` finds none

    @property
    def exact(self) -> bool:
        """Whether leaving out a cluster is what solving again without its rows gives."""
        return (self.linear or self.leave_out is not None) and not self.delta

    def map(self, C: Matrix) -> Refit:
        """The same for contrasts of the parameters."""
        if self.leave_out is None:
            return self
        far = None if self.at_infinity is None else self.at_infinity.map(C)
        return replace(self, contrasts=C if self.contrasts is None else C @ self.contrasts, at_infinity=far)

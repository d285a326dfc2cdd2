"""What a covariance would take, counted before it is begun."""

from __future__ import annotations

from evalreg.covariance.options import ResolvedCov
from evalreg.data.clusters import Axis
from evalreg.data.memory import GRAMS, refuse_larger
from evalreg.estimate import Estimate

# Matrices of parameters by parameters that exist at once, as measured on means of 2,000 models.
COVARIANCES = 14


def refuse_parameters(size: int) -> None:
    """Raise if the covariances of so many parameters do not fit into memory."""
    refuse_larger(
        COVARIANCES * 8.0 * size**2,
        f"the covariance of {size:,} parameters",
        "Ask for fewer at a time: some of the values of `by`, or some of the models.",
    )


def refuse_covariance(estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov) -> None:
    """Raise if the covariances, or the squares and products of the design in each cluster, do not fit into memory."""
    scores = estimate.scores
    refuse_parameters(estimate.n_params)
    adjusted = options.kind.adjusts or options.dof == "satterthwaite"
    if axes and adjusted:
        n_clusters = max(scores.n_clusters(axis) for axis in axes)
        refuse_larger(
            GRAMS * 8.0 * max(scores.gram_entries(axis) for axis in axes),
            f"the covariance of {scores.n_columns:,} coefficients in {n_clusters:,} clusters",
            "Leave out or merge levels of the factors of the formula, or cluster by something coarser.",
        )

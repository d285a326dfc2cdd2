"""What a pilot says of the variance of a difference: components, or results with their clusters."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeGuard

import numpy as np
import pandas as pd

from evalreg.covariance.assembly import assemble
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.options import CovOptions, resolve_cov
from evalreg.data.clusters import axis_name
from evalreg.errors import ArgumentError, ArgumentTypeError, NotAvailableError
from evalreg.estimate import Estimate
from evalreg.numerics.matrices import compressed
from evalreg.planning.components import COLUMNS
from evalreg.planning.power import unit_variance
from evalreg.planning.t_power import REACHED
from evalreg.scores.score_interval import NullVariance


class Estimated(Protocol):
    """What a plan asks of results."""

    @property
    def estimate(self) -> Estimate:
        """Parameters and scores."""

    @property
    def cov(self) -> Covariance:
        """Their covariance."""

    @property
    def params(self) -> pd.Series:
        """Estimates."""

    @property
    def bse(self) -> pd.Series:
        """Standard errors."""

    @property
    def dof(self) -> pd.Series:
        """Degrees of freedom."""

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values."""

    def conf_int(self, alpha: float = 0.05) -> pd.DataFrame:
        """Intervals, one by one."""

    def linear(self, matrix: Any, names: list[str]) -> Estimated:
        """Combinations of the parameters."""


def is_estimated(results: Any) -> TypeGuard[Estimated]:
    """Whether these are results with their estimate and covariance, as those that are read from a file are not."""
    held = getattr(results, "__dict__", {})
    return isinstance(held.get("estimate"), Estimate) and isinstance(held.get("cov"), Covariance)


@dataclass(frozen=True)
class Pilot:
    """What a pilot says about the variance of a difference."""

    variance: float  # variance of the difference times the number of questions, at the numbers of answers planned
    published: float  # the same as eq. 9 takes it, without a factor for the number of clusters
    dof: float  # degrees of freedom of a t test on the pilot's own clusters
    variance_dof: float  # degrees of freedom of the estimated variance
    n: int  # questions, and clusters of them
    n_clusters: int
    few: NullVariance | None = None  # of a difference of two models on the same questions, where few of these differ

    @property
    def size(self) -> float:
        """Mean number of questions of a cluster."""
        return self.n / self.n_clusters

    def dof_at(self, n_clusters: float) -> float:
        """Degrees of freedom on another number of clusters of the same mix of sizes; one less than equal clusters."""
        return max((self.dof + 1) * n_clusters / self.n_clusters - 1, REACHED)


def of_components(found: pd.DataFrame, k_a: float | None, k_b: float | None, corrected: bool) -> dict[str, Pilot]:
    """What each row of a table of components says."""
    absent = [name for name in COLUMNS if name not in found.columns]
    if absent or not {"plain", "clustered"} <= set(found.index):
        raise ArgumentError(
            "`pilot` must be the table that `er.plan.components` gives, or results of one difference; this frame is "
            "neither. Pass the log to `er.plan.components` first."
        )
    rows = {}
    for name in ("plain", "clustered"):
        row = {column: float(found[column][name]) for column in COLUMNS}
        if name == "clustered" and row["n_clusters"] == row["n"]:
            continue
        # What the table has in it of the factor G/(G - 1), which the published equations leave out.
        factor = name == "clustered" and found.attrs.get("ssc") == "G"
        extra = row["omega2_uncorrected"] / row["n_clusters"] if factor else 0.0
        row["omega2_uncorrected"] -= extra
        omega2 = row["omega2"] - extra if corrected else row["omega2_uncorrected"]
        if omega2 <= 0:
            raise ArgumentError(
                f'`omega2` of the row "{name}" must be positive; the pilot\'s is {omega2:g} once the noise of its '
                f"answers is taken out (before: {row['omega2_uncorrected']:g}). The noise hides how questions differ: "
                "add questions or answers to the pilot, or plan with corrected=False, which errs upwards."
            )
        k = (row["k_a"] if k_a is None else k_a, row["k_b"] if k_b is None else k_b)
        published = unit_variance(omega2, row["sigma2_a"], row["sigma2_b"], *k)
        rows[name] = _with_factor(row, published, k, name == "clustered", corrected)
    return rows


def _with_factor(
    row: dict[str, float], published: float, k: tuple[float, float], clustered: bool, corrected: bool
) -> Pilot:
    """A row of components with its factor, and the degrees of freedom of what is planned with."""
    n, G = int(row["n"]), int(row["n_clusters"])
    seen = row["omega2_uncorrected"]
    more = seen / (G - 1) if clustered else 0.0
    total = published + more
    # Satterthwaite: the variance seen has G - 1, the noise that is put in the place of the pilot's n (K - 1) each.
    error = (seen + more) ** 2 / (G - 1)
    for sigma2, times, planned in ((row["sigma2_a"], row["k_a"], k[0]), (row["sigma2_b"], row["k_b"], k[1])):
        change = 1 / planned - (1 / times if corrected else 0.0)
        error += (change * sigma2) ** 2 / (n * max(times - 1, 1e-3))
    return Pilot(total, published, G - 1.0, total**2 / error, n, G)


def pilot_of(results: Any) -> dict[str, Pilot]:
    """What the results of a difference say, with independent questions and in their clusters."""
    results = getattr(results, "results", results)
    if not is_estimated(results):
        raise ArgumentTypeError(
            "`pilot` must be the table that `er.plan.components` gives, or results of one difference; got "
            f"{type(results).__name__}."
        )
    if results.estimate.population is not None:
        raise NotAvailableError(
            "a plan takes its questions from a population without end, and these results are about "
            '"the full benchmark". Take results without `target` for it.'
        )
    if len(results.params) != 1:
        raise ArgumentError(
            f"`pilot` must have one parameter, the difference to be planned for; it has {len(results.params)}. Pass "
            'results.contrast("A - B").'
        )
    if results.cov.crossed:
        names = " + ".join(axis_name(axis) for axis in results.cov.axes)
        raise ArgumentError(
            f"`pilot` must be clustered in one way, since crossed designs have two numbers to plan; got {names}. Use "
            "`er.plan.board` for prompts and judges."
        )
    estimate = results.estimate
    item = estimate.item if estimate.item and set(estimate.item) <= set(estimate.scores.columns) else ()
    n = touched(estimate, item) if item else _rows(estimate)
    plain = assemble(estimate, (item,), resolve_cov(CovOptions(), True, default="CR2")) if item else None
    variance = float(results.cov.naive[0, 0] if plain is None else plain.variance()[0])
    clustered = float(results.bse.iloc[0]) ** 2
    if not (variance > 0 and np.isfinite(clustered) and clustered > 0):
        raise ArgumentError("`pilot` must have a standard error above 0; this one says nothing about the variance.")
    rows = {"plain": Pilot(variance * n, variance * n, n - 1.0, n - 1.0, n, n, _few(plain))}
    for axis in results.cov.axes:
        count, dof = touched(estimate, axis), float(results.dof.iloc[0])
        if count < n:
            rows["clustered"] = Pilot(
                clustered * n, clustered * n, dof, min(dof, count - 1.0), n, count, _few(results.cov)
            )
    return rows


def _few(cov: Covariance | None) -> NullVariance | None:
    """What was not seen of the one difference, if few questions tell of it and it is of two models once each.

    Which of the two is first does not matter: a plan is for a true difference in the direction that was seen.
    """
    scored = None if cov is None else cov.widths().scored
    if scored is None or not math.isclose(abs(scored.scale[0]), 1.0):
        return None
    null = scored.null
    return replace(null, theta=np.abs(null.theta)) if null.signed[0] else null


def _rows(estimate: Estimate) -> int:
    """Rows that enter an estimate."""
    if estimate.cells is None or estimate.cells.count.size != estimate.scores.n_columns:
        return estimate.n_rows
    return round(float(estimate.cells.count[_columns(estimate)].sum()))


def _columns(estimate: Estimate) -> Any:
    """Which columns of the scores enter an estimate."""
    return np.asarray(abs(compressed(estimate.bread)).sum(axis=1)).ravel() > 0


def touched(estimate: Estimate, axis: tuple[str, ...]) -> int:
    """Clusters with rows that enter an estimate."""
    if estimate.refit is None or estimate.refit.inverse_gram.ndim > 1:
        return estimate.scores.n_clusters(axis)
    entering, count = _columns(estimate), 0
    for block in estimate.scores.cells(axis):
        rows = compressed(block.gram)[:, entering]
        count += int(np.count_nonzero(np.asarray(rows.sum(axis=1)).ravel()))
    return count

"""The covariances there are: one record each, which everything asks that depends on the one chosen.

A new covariance is a line of `KINDS` and its name in `CovName`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from evalreg.checks import REPAIRS, CovName, DofName, RepairName, SscName
from evalreg.covariance.corrections import Counts, cr1_factor, jackknife_factor

Factor: TypeAlias = Callable[[Counts, SscName], float]


def no_factor(counts: Counts, ssc: SscName) -> float:
    """1."""
    return 1.0


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One covariance."""

    name: CovName
    # What it does about few clusters, for the summary; empty where that is the factor asked for.
    words: str
    # p of (I - H)^-p, by which totals of clusters are adjusted.
    power: float = 0.0
    # What multiplies the sum of squares.
    factor: Factor = no_factor
    # The rule of degrees of freedom, where none is asked for.
    dof: DofName = "min"
    # Whether there must be groups; what leaving clusters out takes (`Estimate.refit`); and an estimate that is solved
    # again without each cluster.
    needs_clusters: bool = True
    needs_refit: bool = False
    needs_exact_refit: bool = False
    # Whether squares of independent rows are multiplied by n/(n-1) (each mean by its own), or n/(n-k).
    row_factor: bool = False
    # Whether the factor can be chosen.
    takes_ssc: bool = False
    # What a note adds about parameters that rest on a single cluster.
    single: str = ""
    # What does for clusters what this one does for rows, where rows are its clusters and there may be no groups.
    clustered: CovName | None = None

    @property
    def adjusts(self) -> bool:
        """Whether totals are corrected for the leverage of their cluster, so that weights are not held fixed."""
        return self.power > 0

    @property
    def leaves_out(self) -> bool:
        """Whether clusters are left out whole: what rests on a single one has no variance then."""
        return self.power == 1

    @property
    def takes_satterthwaite(self) -> bool:
        """Whether leverages give degrees of freedom."""
        return self.needs_clusters and not self.needs_exact_refit

    @property
    def repairs(self) -> tuple[RepairName, ...]:
        """What may be done to a crossed one: the three terms of the jackknife, say, can be negative."""
        return ("max",) if self.needs_exact_refit else REPAIRS


_ALL = (
    Kind(name="naive", words="n/(n-1), or n/(n-k) for regressions", needs_clusters=False, row_factor=True),
    Kind(name="HC0", words="none", needs_clusters=False, clustered="CR0"),
    Kind(
        name="HC1",
        words="n/(n-1), or n/(n-k) for regressions",
        needs_clusters=False,
        row_factor=True,
        clustered="CR1",
    ),
    Kind(
        name="HC2",
        words="(1-h)^(-1/2) for each row",
        power=0.5,
        needs_clusters=False,
        needs_refit=True,
        clustered="CR2",
    ),
    Kind(
        name="HC3",
        words="(1-h)^(-1) for each row",
        power=1.0,
        needs_clusters=False,
        needs_refit=True,
        clustered="CR3",
    ),
    Kind(name="CR0", words="none"),
    Kind(name="CR1", words="", factor=cr1_factor, takes_ssc=True),
    Kind(
        name="CR2",
        words="(1-h)^(-1/2) in each cluster",
        power=0.5,
        dof="satterthwaite",
        needs_refit=True,
        single="; such a cluster adds nothing to the variance",
    ),
    Kind(
        name="CR3",
        words="(G-1)/G, (1-h)^(-1) in each cluster",
        power=1.0,
        factor=jackknife_factor,
        needs_refit=True,
        single="; there is no CR3 variance",
    ),
    Kind(
        name="jackknife",
        words="(G-1)/G",
        power=1.0,
        factor=jackknife_factor,
        needs_refit=True,
        needs_exact_refit=True,
        single="; there is no jackknife variance",
    ),
)
KINDS: dict[CovName, Kind] = {kind.name: kind for kind in _ALL}

# The factors of CR1 in words.
SSC_WORDS: dict[SscName, str] = {
    "statsmodels": "G/(G-1), and (n-1)/(n-k) for regressions",
    "fixest": "smallest G/(G-1), and (n-1)/(n-k)",
    "sandwich": "G/(G-1), and (n-1)/(n-k) for least squares",
    "G": "G/(G-1)",
    "none": "none",
}

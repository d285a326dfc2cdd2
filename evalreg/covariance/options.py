"""What may be asked of a covariance, checked once at the door, and the defaults filled in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evalreg.checks import COVS, DOFS, REPAIRS, SSCS, CovName, DofName, RepairName, SscName, listed, option
from evalreg.covariance.corrections import Counts
from evalreg.covariance.kinds import KINDS, SSC_WORDS, Kind
from evalreg.errors import ArgumentError, ArgumentTypeError
from evalreg.hints import covariance_hint


@dataclass(frozen=True)
class CovOptions:
    """What was asked of the covariance, as in `evalreg.fit`, before defaults are filled in; None is "not asked"."""

    cov: CovName | None = None
    ssc: SscName | None = None
    dof: DofName | float | None = None
    repair: RepairName | None = None
    alike: str | None = None

    @property
    def needs_clusters(self) -> bool:
        """Whether the covariance named, if one is, cannot do without groups."""
        return self.cov is not None and KINDS[self.cov].needs_clusters


@dataclass(frozen=True)
class ResolvedCov:
    """What is computed: every option filled in."""

    cov: CovName
    ssc: SscName
    dof: DofName | float
    repair: RepairName
    # Whether nothing was named that goes with CR2 alone: a board with pairs that met under one cluster then takes the
    # jackknife.
    left_open: bool = False
    # The axis whose clusters are taken to differ alike over models.
    alike: str | None = None

    @property
    def kind(self) -> Kind:
        """The record of the covariance."""
        return KINDS[self.cov]

    @property
    def own_dof(self) -> bool:
        """Whether each axis has degrees of freedom of its own: Satterthwaite's, or G - 1 under the jackknife."""
        return self.dof == "satterthwaite" or (self.kind.needs_exact_refit and self.dof == "min")

    @property
    def factor_words(self) -> str:
        """What is done about few clusters, for the summary."""
        return f"{SSC_WORDS[self.ssc]} ({self.ssc})" if self.kind.takes_ssc else self.kind.words

    def factor(self, counts: Counts) -> float:
        """What multiplies the sum of squares of a term."""
        return self.kind.factor(counts, self.ssc)


def takes_ssc(cov: object) -> bool:
    """Whether a covariance of that name has a factor that can be chosen."""
    return any(kind.takes_ssc and kind.name == cov for kind in KINDS.values() if isinstance(cov, str))


def takes_each_cluster(asked: CovOptions) -> bool:
    """Whether the covariance of a regression in clusters takes a matrix of each of them, as CR2 and CR3 do."""
    options = resolve_cov(asked, clustered=True)
    return options.kind.adjusts or options.dof == "satterthwaite"


def check_cov_options(cov: Any, ssc: Any, dof: Any, repair: Any, alike: Any = None) -> CovOptions:
    """Check the covariance keywords against their tables.

    `ssc` goes with "CR1" alone, and `alike` with none of the others.
    """
    if cov is not None:
        option("cov", cov, COVS, covariance_hint(cov))
    if ssc is not None:
        option("ssc", ssc, SSCS)
        if not takes_ssc(cov):
            raise ArgumentError(
                f'`ssc` is a factor of `cov="CR1"`; got ssc={ssc!r} with cov={cov!r}. '
                'Pass cov="CR1", or leave out `ssc`.'
            )
    if repair is not None:
        option("repair", repair, REPAIRS)
    others = {"cov": cov, "ssc": ssc, "dof": dof, "repair": repair}
    _check_alike(alike, {name: value for name, value in others.items() if value is not None})
    return CovOptions(cov, ssc, _check_dof(dof), repair, alike)


def _check_alike(alike: Any, others: dict[str, Any]) -> None:
    if alike is None:
        return
    if not isinstance(alike, str):
        raise ArgumentTypeError(
            f'`alike` must be the name of a clustering, such as "judge", or None; got {type(alike).__name__}.'
        )
    if others:
        got = " and ".join(f"{name}={value!r}" for name, value in others.items())
        raise ArgumentError(
            f'`alike="{alike}"` has a variance, degrees of freedom and a sum of pieces of its own (CR2); got {got}. '
            "Leave these out, or `alike`."
        )


def _check_dof(dof: Any) -> DofName | float | None:
    if dof is None or (isinstance(dof, str) and dof in DOFS):
        return dof
    if isinstance(dof, int | float | np.integer | np.floating) and not isinstance(dof, bool) and float(dof) > 0:
        return float(dof)
    raise ArgumentError(f"`dof` must be one of {listed(DOFS)} or a positive number; got {dof!r}.")


def resolve_cov(asked: CovOptions, clustered: bool, default: CovName = "CR2") -> ResolvedCov:
    """Fill in the defaults: CR2 with Satterthwaite dof for clusters, naive without; dof "min" with other covariances.

    `default` is the covariance where there are groups and none is named.
    """
    cov = asked.cov or (default if clustered else "naive")
    kind = KINDS[cov]
    if kind.needs_clusters and not clustered:
        raise ArgumentError(
            f'`cov="{cov}"` needs clusters; got no `groups`. Pass groups="column", or cov="naive" for independent rows.'
        )
    if kind.clustered is not None and clustered:
        raise ArgumentError(
            f'`cov="{cov}"` takes rows to be independent, but here they are in clusters (of `groups`, or answers to '
            f'the same questions). For clusters use cov="{kind.clustered}"; for independent rows leave `groups` out.'
        )
    dof = asked.dof if asked.dof is not None else kind.dof
    if dof == "satterthwaite" and not kind.takes_satterthwaite:
        raise ArgumentError(f'`dof="satterthwaite"` goes with cov "CR0" to "CR3"; got cov="{cov}". Use dof="min".')
    default_repair: RepairName = "max" if asked.cov is None or "eigen" not in kind.repairs else "eigen"
    if asked.alike is not None and not clustered:
        raise ArgumentError(
            f'`alike="{asked.alike}"` must be one of two clusterings that cross; got no `groups`. Pass two columns, '
            'such as groups="prompt + judge", and as `alike` the one of few clusters, "judge"; or leave `alike` out.'
        )
    if asked.repair is not None and asked.repair not in kind.repairs:
        raise ArgumentError(
            f'`cov="{cov}"` goes with repair="max" only, since its three-term form can be negative; got '
            f'repair="{asked.repair}". Leave out `repair`.'
        )
    plain = asked.cov is None and asked.dof != "satterthwaite" and asked.repair in (None, "max") and asked.alike is None
    return ResolvedCov(cov, asked.ssc or "statsmodels", dof, asked.repair or default_repair, plain, asked.alike)

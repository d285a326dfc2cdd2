"""What may be asked of a covariance: its kinds, options with their defaults, and `groups`, checked once at the door.

A new covariance is a line of `KINDS` and its name in `CovName`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from textwrap import indent
from typing import Any, TypeVar, cast

import numpy as np

from evalreg.checks import covariance_hint, listed, option, passed
from evalreg.choices import COVS, DOFS, REPAIRS, SSCS, CovName, DofName, EstimatorOptions, RepairName, SscName
from evalreg.data.clusters import Axis, as_label_dict, axes_of, axis_name, name_in_use, no_source, same_partition, union
from evalreg.data.clusters import Groups as Groups
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    MissingColumnError,
    NestedClustersWarning,
    Note,
    TooFewClustersError,
)
from evalreg.estimate import Estimate
from evalreg.scores.base import Scores

# Inclusion-exclusion over k axes has 2^k - 1 terms, each with a pass over the rows: 63 here, and hours at a dozen.
MOST_AXES = 6


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One covariance."""

    name: CovName
    # What it does about few clusters, for the summary; empty where that is the factor asked for.
    words: str
    # p of (I - H)^-p, by which totals of clusters are adjusted.
    power: float = 0.0
    # The rule of degrees of freedom, where none is asked for.
    dof: DofName = "min"
    # Whether the factor can be chosen.
    takes_ssc: bool = False
    # Whether there must be groups, and whether the estimate is solved again without each cluster.
    needs_clusters: bool = True
    needs_exact_refit: bool = False
    # Whether squares of independent rows are multiplied by n/(n-1) (each mean by its own), or n/(n-k).
    row_factor: bool = False
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


_ROWS = "n/(n-1), or n/(n-k) for regressions"
_ALL = (
    Kind(name="naive", words=_ROWS, needs_clusters=False, row_factor=True),
    Kind(name="HC0", words="none", needs_clusters=False, clustered="CR0"),
    Kind(name="HC1", words=_ROWS, needs_clusters=False, row_factor=True, clustered="CR1"),
    Kind(name="HC2", words="(1-h)^(-1/2) for each row", power=0.5, needs_clusters=False, clustered="CR2"),
    Kind(name="HC3", words="(1-h)^(-1) for each row", power=1.0, needs_clusters=False, clustered="CR3"),
    Kind(name="CR0", words="none"),
    Kind(name="CR1", words="", takes_ssc=True),
    Kind(
        name="CR2",
        words="(1-h)^(-1/2) in each cluster",
        power=0.5,
        dof="satterthwaite",
        single="; such a cluster adds nothing to the variance",
    ),
    Kind(name="CR3", words="(G-1)/G, (1-h)^(-1) in each cluster", power=1.0, single="; there is no CR3 variance"),
    Kind(
        name="jackknife", words="(G-1)/G", power=1.0, needs_exact_refit=True, single="; there is no jackknife variance"
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
    def dof_by_axis(self) -> bool:
        """Whether each axis has degrees of freedom of its own: Satterthwaite's, or G - 1 under the jackknife."""
        return self.dof == "satterthwaite" or (self.kind.needs_exact_refit and self.dof == "min")

    @property
    def factor_words(self) -> str:
        """What is done about few clusters, for the summary."""
        return f"{SSC_WORDS[self.ssc]} ({self.ssc})" if self.kind.takes_ssc else self.kind.words

    def factor(self, n_clusters: int, smallest: int, n_rows: int, k: int = 1, least_squares: bool = True) -> float:
        """What multiplies the sum of squares of a term of so many clusters, `smallest` being the fewest of an axis.

        (G - 1)/G where clusters are left out. CR1 has G/(G - 1), times (n - 1)/(n - k) where the convention has it:
        Cameron and Miller (2015), JHR 50(2), section II.C, equation 12; k is 1 of means.
        """
        if not self.kind.takes_ssc:
            return (n_clusters - 1) / n_clusters if self.kind.leaves_out and self.kind.needs_clusters else 1.0
        if self.ssc == "none":
            return 1.0
        G = smallest if self.ssc == "fixest" else n_clusters
        of_clusters = self.ssc == "G" or (self.ssc == "sandwich" and not least_squares)
        return G / (G - 1) * (1.0 if of_clusters else (n_rows - 1) / (n_rows - k))


def takes_ssc(cov: object) -> bool:
    """Whether a covariance of that name has a factor that can be chosen."""
    return isinstance(cov, str) and any(kind.takes_ssc for name, kind in KINDS.items() if name == cov)


def check_cov_options(
    cov: Any = None, ssc: Any = None, dof: Any = None, repair: Any = None, alike: Any = None
) -> CovOptions:
    """Check the covariance keywords against their tables: `ssc` goes with "CR1" alone, `alike` with no other."""
    if cov is not None:
        option("cov", cov, COVS, covariance_hint(cov))
    if ssc is not None:
        option("ssc", ssc, SSCS)
        if not takes_ssc(cov):
            raise ArgumentError(
                f'`ssc` is a factor of `cov="CR1"`; got ssc={ssc!r} with cov={cov!r}. '
                f"Pass {passed(cov='CR1')}, or leave out `ssc`."
            )
    if repair is not None:
        option("repair", repair, REPAIRS)
    if alike is not None and not isinstance(alike, str):
        raise ArgumentTypeError(
            f'`alike` must be the name of a clustering, such as "judge", or None; got {type(alike).__name__}.'
        )
    others = {"cov": cov, "ssc": ssc, "dof": dof, "repair": repair}
    got = " and ".join(f"{name}={value!r}" for name, value in others.items() if value is not None)
    if alike is not None and got:
        raise ArgumentError(
            f'`alike="{alike}"` has a variance, degrees of freedom and a sum of pieces of its own (CR2); got {got}. '
            "Leave these out, or `alike`."
        )
    return CovOptions(cov, ssc, _check_dof(dof), repair, alike)


def requested_options(options: EstimatorOptions) -> CovOptions:
    """What an estimator was asked about its covariance; `subset` was taken before."""
    return check_cov_options(**cast("Any", options))


def _check_dof(dof: Any) -> DofName | float | None:
    if dof is None or (isinstance(dof, str) and dof in DOFS):
        return dof
    if isinstance(dof, int | float | np.integer | np.floating) and not isinstance(dof, bool) and float(dof) > 0:
        return float(dof)
    raise ArgumentError(f"`dof` must be one of {listed(DOFS)} or a positive number; got {dof!r}.")


def resolve_cov(requested: CovOptions, clustered: bool, default: CovName = "CR2") -> ResolvedCov:
    """Fill in the defaults: CR2 with Satterthwaite dof for clusters, naive without; dof "min" with other covariances.

    `default` is the covariance where there are groups and none is named; to name it changes nothing.
    """
    cov = requested.cov or (default if clustered else "naive")
    kind = KINDS[cov]
    if kind.needs_clusters and not clustered:
        raise ArgumentError(
            f'`cov="{cov}"` needs clusters; got no `groups`. Pass {passed(groups="column")}, or {passed(cov="naive")} '
            "for independent rows."
        )
    if kind.clustered is not None and clustered:
        raise ArgumentError(
            f'`cov="{cov}"` takes rows to be independent, but here they are in clusters (of `groups`, or answers to '
            f"the same questions). For clusters use {passed(cov=kind.clustered)}; for independent rows pass "
            f"{passed(groups=None)}."
        )
    dof = requested.dof if requested.dof is not None else kind.dof
    if dof == "satterthwaite" and not kind.takes_satterthwaite:
        raise ArgumentError(
            f'`dof="satterthwaite"` goes with cov "CR0" to "CR3"; got cov="{cov}". Use {passed(dof="min")}.'
        )
    if requested.alike is not None and not clustered:
        raise ArgumentError(
            f'`alike="{requested.alike}"` must be one of two clusterings that cross; got no `groups`. Pass two '
            f'columns, such as {passed(groups="prompt + judge")}, and as `alike` the one of few clusters, "judge"; or '
            "leave `alike` out."
        )
    if requested.repair is not None and requested.repair not in kind.repairs:
        raise ArgumentError(
            f'`cov="{cov}"` goes with repair="max" only, since its three-term form can be negative; got '
            f'repair="{requested.repair}". Leave out `repair`.'
        )
    repair = requested.repair or "max"
    plain = requested.cov is None and requested.alike is None and requested.dof != "satterthwaite" and repair == "max"
    return ResolvedCov(cov, requested.ssc or "statsmodels", dof, repair, plain, requested.alike)


def grouped(estimate: Estimate, groups: Groups) -> tuple[Estimate, tuple[Axis, ...]]:
    """Axes named by `groups`, and the estimate with the labels that it may hold; models held apart share no cluster."""
    scores, axes = resolve_groups(estimate.scores, groups)
    family = estimate.family
    if scores is not estimate.scores:
        _refuse_other_questions(estimate, scores)
        family = family.with_labels(as_label_dict(groups))
    apart = tuple((*axis, *(name for name in estimate.apart if name not in axis)) for axis in axes)
    return replace(estimate, scores=scores, family=family), apart


def _refuse_other_questions(estimate: Estimate, scores: Scores) -> None:
    """Refuse labels that come under the name of the questions of an estimate, and are not theirs."""
    before, after = estimate.scores.row_labels(), scores.row_labels()
    if before is None or after is None:
        return
    for name in estimate.item:
        if after.held.get(name) is before.held.get(name):
            continue
        unnamed = before.source is None and name not in before.held
        if unnamed or not same_partition(before.codes((name,)).codes, after.codes((name,)).codes):
            raise name_in_use(name, "item")


def resolve_groups(scores: Scores, groups: Groups) -> tuple[Scores, tuple[Axis, ...]]:
    """Axes named by `groups`, none for None; labels given as arrays become columns of the scores that come back."""
    if groups is None:
        return scores, ()
    try:
        axes, labels = axes_of(groups, scores.columns)
    except MissingColumnError as error:
        if scores.has_source and not scores.columns:
            raise MissingColumnError(
                f'`groups` names "{error.column}", and this estimate was made without a data frame. Pass the '
                f'labels themselves, groups=data["{error.column}"], one for each row.',
                column=error.column,
            ) from None
        if scores.has_source:
            raise
        raise no_source(error.column or str(groups), scores.columns) from None
    return scores.with_labels(labels) if labels else scores, axes


def refuse_many_axes(axes: tuple[Axis, ...]) -> None:
    """Raise if more clusterings are crossed than have a covariance in a reasonable time."""
    if len(axes) > MOST_AXES:
        raise ArgumentError(
            f"`groups` may cross at most {MOST_AXES} clusterings, whose {2**MOST_AXES - 1} combinations are each a "
            f"covariance; got {len(axes)}: {listed(map(axis_name, axes))}. Cross those along which rows are likely to "
            f"depend, such as {passed(groups='prompt + judge')}, and leave out those that lie inside another.",
            count=len(axes),
        )


def drop_nested(scores: Scores, axes: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], list[Note]]:
    """Leave out axes whose clusters each lie inside one cluster of another axis, and say which."""
    coarsest = list(axes)
    notes: list[Note] = []
    for axis in reversed(axes):
        for other in [other for other in coarsest if other != axis]:
            joint = union(*sorted((axis, other), key=axes.index))
            if scores.n_clusters(joint) != scores.n_clusters(axis):
                continue
            fine, coarse = scores.n_clusters(axis), scores.n_clusters(other)
            text = (
                f'"{axis_name(axis)}" and "{axis_name(other)}" are the same {fine} clusters; one is used.'
                if fine == coarse
                else f'"{axis_name(axis)}" lies inside "{axis_name(other)}" ({fine} clusters in {coarse}): '
                "clustering by the coarser one alone covers both."
            )
            coarsest.remove(axis)
            notes.append((NestedClustersWarning, text))
            break
    return tuple(coarsest), notes


def check_two_clusters(scores: Scores, axis: Axis, axes: tuple[Axis, ...]) -> None:
    """Raise if an axis has a single cluster, offering what is left of the groups."""
    n_clusters = scores.n_clusters(axis)
    if n_clusters >= 2:
        return
    others = " + ".join(axis_name(other) for other in axes if other != axis)
    instead = (
        f"Use {passed(groups=others)}, which holds this {axis_name(axis)} fixed" if others else "Name a finer column"
    )
    raise TooFewClustersError(
        f"`{passed(groups=axis_name(axis))}` has {n_clusters} distinct value; at least 2 are needed. "
        f"{instead}, or pass {passed(groups=None)} to treat rows as independent.",
        column=axis_name(axis),
        count=n_clusters,
    )


@contextmanager
def clustered_by_items(estimate: Estimate, item: str | None) -> Iterator[None]:
    """Let the refusal of a single cluster speak of `item`, whose questions are the clusters for want of `groups`."""
    try:
        yield
    except TooFewClustersError as error:
        if item is None or estimate.scores.n_clusters((item,)) > 1:
            raise
        raise TooFewClustersError(
            f"all rows are of one question by {item!r}, so there is no error bar: it comes from how scores differ "
            f"between questions. Read more questions; or, if another column tells them apart, pass "
            f"{passed(item='COLUMN')} with its name.",
            column=item,
            count=error.count,
        ) from None


F = TypeVar("F", bound=Callable[..., object])


def _choice(values: tuple[str, ...]) -> str:
    return "{" + ", ".join(f'"{value}"' for value in values) + "}"


# The parameters of a covariance in docstrings: their text is here once, and functions say where it goes.
ENTRIES = {
    "cov": f"cov : {_choice(COVS)}, optional",
    "cov in one step": f"cov : {_choice(tuple(c for c in COVS if not KINDS[c].needs_exact_refit))}, optional",
    "ssc": f"ssc : {_choice(SSCS)}, optional\n    Factor of CR1.",
    "dof": f"dof : {_choice(DOFS)} or float, optional",
    "repair": f"repair : {_choice(REPAIRS)}, optional\n"
    "    What is done to a crossed covariance that is not positive semi-definite.",
    "alike": "alike : str, optional\n"
    '    Of two crossed clusterings the one, "judge" say, whose few clusters are taken to differ alike over models, '
    "so\n    that they are learnt from together. Too sure for a model on which they differ more; a warning says so.",
}
_PLACE = re.compile(rf"^( *)<({'|'.join(ENTRIES)})>$", re.MULTILINE)


def documented(function: F) -> F:
    """The function, with the entries of `ENTRIES` in its docstring where lines such as ``<ssc>`` stand for them."""
    if function.__doc__ is not None:  # python -OO has none
        function.__doc__ = _PLACE.sub(lambda line: indent(ENTRIES[line[2]], line[1]), function.__doc__)
    return function

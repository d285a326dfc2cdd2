"""A covariance, with what is fragile about it: few or unequal clusters, estimates far from normal, no variance."""

from __future__ import annotations

from itertools import compress

import numpy as np

from evalreg.checks import BoolArray, FloatArray, few_of, issue, listed, passed
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.crossed import t_quantile
from evalreg.covariance.options import CovOptions, resolve_cov
from evalreg.covariance.special import FEW_CLUSTERS, LARGEST_SHARE
from evalreg.covariance.terms import assemble
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import (
    CovarianceWarning,
    DominantClusterWarning,
    FewClustersWarning,
    Note,
    SkewedScoresWarning,
    ZeroVarianceWarning,
)
from evalreg.estimate import Estimate, cluster_sizes
from evalreg.inference.dependence import clusters_worth, short_tails, skewness
from evalreg.numerics.matrices import nonzero_entries
from evalreg.scores.score_interval import FEW_EXPECTED

# Thresholds below which a clustered result is valid but fragile.
FEW_CROSSED = 5
# Of a few equal clusters each has a large share; one dominates whose share is above this multiple of 1/G.
TIMES_EQUAL = 1.5


def assembled(
    estimate: Estimate, axes: tuple[Axis, ...] | None, requested: CovOptions, notes: tuple[Note, ...] = ()
) -> tuple[Covariance, tuple[Note, ...]]:
    """The covariance that was asked for, and all notes, which are issued; `axes` is None for independent rows."""
    options = resolve_cov(requested, axes is not None, default="CR1" if estimate.refit is None else "CR2")
    cov = assemble(estimate, axes or (), options)
    fragile = (*few_or_unequal(estimate, cov), *_few_left(estimate, cov), *_skewed_means(estimate, cov))
    fragile = (*cov.notes, *fragile, *variance_notes(cov))
    if requested.cov is None and cov.axes and estimate.lost:  # of the parts the default was CR2
        text = (
            f"the covariance is CR1, and not CR2, since {estimate.lost}: with few or unequal clusters its standard "
            "errors are too small. Take the estimates one by one for CR2, or fit them as one model."
        )
        notes = (*notes, (CovarianceWarning, text))
    all_notes = (*notes, *fragile)
    issue(all_notes)
    return cov, all_notes


def variance_notes(cov: Covariance) -> tuple[Note, ...]:
    """Parameters without a positive variance, by reason."""
    by_reason: dict[tuple[str, bool, bool], list[str]] = {}
    scored = None if np.all(cov.variance() > 0) else cov.widths().scored
    tested = set() if scored is None else {cov.names[i] for i in scored.rows}
    for name, reason, variance in zip(cov.names, cov.reasons(), cov.variance(), strict=True):
        if reason:
            by_reason.setdefault((reason, bool(variance == 0), name in tested), []).append(name)
    notes = []
    for (reason, is_zero, is_tested), names in by_reason.items():
        some = few_of(names)
        text = f"{some}: no test, because {reason}; t and p are NaN."
        if is_tested:
            text = f"{some}: no standard error, because {reason}; the interval and tests are by the score test alone."
        elif cov.bounded and is_zero:
            text = (
                f"{some}: {reason}, so the standard error is 0, and the interval and the tests are Clopper-Pearson on "
                "the effective number of clusters."
            )
            if cov.ends is not None and cov.paired is None:
                text += " Differences from others allow for the end of such an interval, so that they are not too sure."
        notes.append((ZeroVarianceWarning, text))
    reach = None if cov.bounded else cov.reach(np.eye(len(cov.names)))
    if reach is not None:
        some = few_of([cov.names[i] for i in np.unique(reach.row)])
        text = (
            f"{some}: one model is at an end of the scale. The standard error and the interval allow for the end of "
            "Clopper and Pearson's interval on its effective clusters."
        )
        notes.append((ZeroVarianceWarning, text))
    return tuple(notes)


def few_or_unequal(estimate: Estimate, cov: Covariance) -> list[Note]:
    """One warning an axis of few, unequal or dominant clusters; and of estimates that rest on few of them or rows."""
    notes: list[Note] = []
    if not cov.axes and estimate.absorbed is None:
        # Of a normal covariate the rows are worth a third of their number.
        notes += [(FewClustersWarning, text) for text in _rests_on_few(estimate, cov, None, cov.dof() / 4)]
    for axis in cov.axes:
        name, size = axis_name(axis), cluster_sizes(estimate, axis)
        G, effective = size.n_clusters, size.effective_clusters
        few = G < FEW_CLUSTERS and name != cov.options.alike
        dominant = size.largest_share > max(LARGEST_SHARE, TIMES_EQUAL / G)
        rests: list[str] = []
        if cov.options.dof != "satterthwaite" and estimate.refit is not None and estimate.kind != "board":
            rests = _rests_on_few(estimate, cov, axis, np.minimum(G, cov.dof() + 1) / 2)
        texts = [_few_text(name, G, estimate, cov)] if few else []
        if dominant:
            sizes = estimate.scores.sizes(axis)
            largest = estimate.scores.label(axis, int(np.argmax(sizes)))
            what = "rows" if sizes.sum() == estimate.n_rows and np.all(sizes % 1 == 0) else "weight"
            texts.append(
                f'The {name} "{largest}" holds {size.largest_share:.0%} of '
                f"the {what}: the error bar rests on how that one cluster compares with the others."
            )
        elif effective < G / 2 and not few and not rests:
            texts.append(
                f"{G} {name} clusters differ so much in size that they are worth {effective:.1f} equal ones "
                f"(G* = {effective:.1f}). Expect a rough interval."
            )
        n_coefficients = estimate.n_coefficients if estimate.absorbed is None else estimate.absorbed.n_covariates
        # Of 12 clusters and 16 coefficients .60 of CR1's 95% intervals held the truth of a covariate between clusters.
        if n_coefficients >= G and estimate.kind not in ("mean", "board") and not cov.options.kind.adjusts:
            texts.append(
                f"{G} {name} clusters for {n_coefficients} coefficients: {cov.options.cov} intervals of covariates "
                f"between clusters may be far too short. Use {passed(cov='CR2')}, whose degrees of freedom "
                "allow for that."
            )
        if texts := texts + rests:
            notes.append((DominantClusterWarning if dominant else FewClustersWarning, " ".join(texts)))
    return notes


def _few_text(name: str, n_clusters: int, estimate: Estimate, cov: Covariance) -> str:
    dof = cov.dof()
    smallest = f"{np.min(dof[np.isfinite(dof)], initial=np.inf):.3g}"
    text = f"{n_clusters} {name} clusters: t intervals use {smallest} degree{'' if smallest == '1' else 's'} of freedom"
    if smallest == "inf":
        text = f"{n_clusters} {name} clusters: few to learn a variance from"
    if cov.crossed and n_clusters < FEW_CROSSED:
        return (
            f'{text}. So few values of "{name}" say little about others; without it in `groups` the result holds them '
            f"fixed and is about these {n_clusters} only.{_models_text(name, n_clusters, estimate, cov)}"
        )
    return f"{text}, and may still be too short."


def _models_text(name: str, n_clusters: int, estimate: Estimate, cov: Covariance) -> str:
    """How far apart two of many models must lie where a few clusters decide, and what pools these over models."""
    pairs, text = estimate.n_params * (estimate.n_params - 1) // 2, ""
    if pairs > 1 and estimate.kind in ("mean", "board"):
        far = float(t_quantile(0.05 / pairs, np.array([n_clusters - 1.0]))[0])
        text = f" Where they differ, one of {pairs} pairs is separated only at {far:.0f} standard errors or more."
    if not (estimate.about.one_board and estimate.about.n_models > 2 and len(cov.axes) == 2):
        return text
    pooled = passed(alike=name)
    return f"{text} {pooled} learns from all models together, where values of {name} differ alike over models."


def _rests_on_few(estimate: Estimate, cov: Covariance, axis: Axis | None, limit: FloatArray) -> list[str]:
    """What to say of parameters whose clusters (None: rows) are worth fewer than `limit`, and t counts more.

    Without Satterthwaite's degrees of freedom t counts all of them, and CR1's variance is too small besides: of dummies
    that are 1 in 2, 3 and 4 of 30 clusters .72, .82 and .87 of 95% intervals held the truth (G* = 2.3, 3.7 and 5.3).
    """
    effective = clusters_worth(estimate, axis)
    few = (effective < FEW_CLUSTERS) & (effective < limit) & (cov.variance() > 0)
    if not few.any():
        return []
    worst = int(np.argmin(np.where(few, effective, np.inf)))
    single = np.count_nonzero(few) == 1
    example = "" if single else f" for {estimate.names[worst]}"
    rest = f"{listed(compress(estimate.names, few))} rest{'s' if single else ''} on few of the"
    dof, worth = float(np.broadcast_to(cov.dof(), few.shape)[worst]), f"{max(effective[worst], 1.0):.1f}"
    counted = "inf" if np.isinf(dof) else f"{dof:.0f}"
    if axis is None:
        return [
            f"{rest} rows, by their weights or covariates. The standard error has about {worth} degrees of "
            f"freedom{example}, and t takes {counted}, so that the interval may be too short. Number the rows in a "
            "column and name it in `groups`: the degrees of freedom of CR2 allow for that."
        ]
    return [
        f"{rest} {cov.n_clusters[axis_name(axis)]} {axis_name(axis)} clusters, by their sizes or covariates. They are "
        f"worth {worth} equal ones{example}, and t takes {counted} degrees of freedom, so that the {cov.options.cov} "
        f"interval may be far too short. Use {passed(cov='CR2', dof='satterthwaite')}, which allows for that."
    ]


# Means that are far from normal

# A mean of larger skewness has 95% intervals that hold the truth in less than .93 of logs, by and large.
SKEWED = 0.25
# The skewness of few normal totals is larger by chance.
SKEWED_OF_FEW = 8.0


def _few_left(estimate: Estimate, cov: Covariance) -> list[Note]:
    """A warning where hardly anything of a finite benchmark is left out: a few questions are far from normal."""
    population, cells, A = estimate.population, estimate.cells, estimate.coefficient_map
    if population is None or population.noise is not None or cells is None or A is None:
        return []
    n, what = cells.count, "questions"
    for axis in (axis for axis in cov.axes if axis_name(axis) in population.axes):
        members, of = estimate.scores.samples(axis)
        n, what = np.asarray(members.sum(axis=0), dtype=np.float64).ravel()[of], f"{axis_name(axis)} clusters"
    rest = population.scale**2
    if n.size != rest.size or np.any(rest >= 1):
        return []
    left = nonzero_entries(A) @ (n * rest / (1 - rest))
    few = (left > 0.5) & (left < FEW_EXPECTED - 0.5)
    if not few.any():
        return []
    fewest = round(float(np.min(left[few])))
    text = (
        f"{listed(compress(estimate.names, few))}: only {fewest} of the {what} of the benchmark "
        f"{'is' if fewest == 1 else 'are'} not here. The error is all in these, and they are too few for a normal "
        "approximation: of 0/1 scores 95% intervals held the truth in as few as .80 of the samples that left out one "
        "of 100, .84 with three, .91 with five. Ask the rest, and the score is known."
    )
    return [(FewClustersWarning, text)]


def _skewed_means(estimate: Estimate, cov: Covariance) -> list[Note]:
    """A warning of means of scores without bounds to which a few clusters (or rows) add far more than the others.

    The t interval is then too short on the side of the long tail (Johnson 1978). Of independent rows only where these
    are in memory.
    """
    if estimate.bounded or estimate.about.interval == "wald":
        return []
    notes: list[Note] = []
    for axis in cov.axes or (None,):
        if axis is None and (estimate.scores.row_labels() is None or short_tails(estimate, SKEWED)):
            continue
        skew, count = skewness(estimate, axis)
        # Few clusters have a warning of their own.
        many = (count >= FEW_CLUSTERS) | (axis is None)
        far = many & (np.abs(skew) > np.maximum(SKEWED, SKEWED_OF_FEW / np.maximum(count, 1)))
        if far.any():
            notes.append((SkewedScoresWarning, _skewed_text(estimate, axis, skew, far)))
    return notes


def _skewed_text(estimate: Estimate, axis: Axis | None, skew: FloatArray, far: BoolArray) -> str:
    worst = int(np.argmax(np.where(far, np.abs(skew), 0.0)))
    side = "high" if skew[worst] > 0 else "low"
    what = "scores" if axis is None else f"{axis_name(axis)} clusters"
    example = "" if np.count_nonzero(far) == 1 else f" for {estimate.names[worst]}"
    return (
        f"{listed(compress(estimate.names, far))}: this mean rests on a few {side} {what} (its "
        f"skewness is {abs(skew[worst]):.2f}{example}, and up to {SKEWED} is safe), so that its interval is too "
        f"short on the {side} side. 95% intervals of such means contained the truth in .65 to .93 of simulated logs. "
        "Quantiles and means of logarithms do not have this fault, and more rows mend it."
    )

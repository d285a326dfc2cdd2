"""The covariance of an estimate and what is to be warned of, put together."""

from __future__ import annotations

import numpy as np

from evalreg.checks import few_of
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.options import CovOptions, resolve_cov
from evalreg.covariance.terms import assemble
from evalreg.data.clusters import Axis
from evalreg.errors import CovarianceWarning, Note, ZeroVarianceWarning, issue
from evalreg.estimate import Estimate
from evalreg.inference.fragile import few_left, few_rows, fragility, skewed_means


def assembled(
    estimate: Estimate, axes: tuple[Axis, ...] | None, asked: CovOptions, notes: tuple[Note, ...] = ()
) -> tuple[Covariance, tuple[Note, ...]]:
    """The covariance that was asked for, and all notes, which are issued; `axes` is None for independent rows."""
    options = resolve_cov(asked, axes is not None, default="CR1" if estimate.refit is None else "CR2")
    cov = assemble(estimate, axes or (), options)
    thin = (*few_rows(estimate, cov), *few_left(estimate, cov), *skewed_means(estimate, cov))
    fragile = (*cov.notes, *fragility(estimate, cov), *thin, *variance_notes(cov))
    found = (*notes, *_lost_notes(estimate, cov, asked), *fragile)
    issue(found)
    return cov, found


def _lost_notes(estimate: Estimate, cov: Covariance, asked: CovOptions) -> tuple[Note, ...]:
    """Say that the default is not CR2 here, as it was of the parts."""
    if asked.cov is not None or not cov.axes or not estimate.lost:
        return ()
    text = (
        f"the covariance is CR1, and not CR2, since {estimate.lost}: with few or unequal clusters its standard errors "
        "are too small. Take the estimates one by one for CR2, or fit them as one model."
    )
    return ((CovarianceWarning, text),)


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
                f"{some}: {reason}, so the standard error is 0, t and p are NaN, and the interval is Clopper-Pearson "
                "on the effective number of clusters."
            )
            if cov.ends is not None and cov.paired is None:
                text += " Differences from others allow for the end of such an interval, so that they are not too sure."
        notes.append((ZeroVarianceWarning, text))
    return tuple(notes)

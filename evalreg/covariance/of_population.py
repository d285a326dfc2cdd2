"""The finite-population correction: of a sample that is a good part of all there is."""

from __future__ import annotations

from dataclasses import replace

from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import axis_name
from evalreg.errors import NotAvailableError
from evalreg.estimate import Estimate


def of_population(cov: Covariance, estimate: Estimate) -> Covariance:
    """Variances times 1 - n/N where a finite population is named: Cochran (1977), eq. 2.8; 9.10 for whole clusters."""
    population = estimate.population
    if population is None:
        return cov
    if cov.crossed:
        raise NotAvailableError(
            'target="the full benchmark" is defined for one clustering; '
            f"{' + '.join(map(axis_name, cov.axes))} are crossed, and judges or prompts are not part of a benchmark. "
            "Cluster by what was drawn from it."
        )
    found = [axis_name(axis) for axis in cov.axes]
    if population.axis and found != [population.axis]:
        raise NotAvailableError(
            f"`n_population` counts {population.axis} clusters, which were drawn whole; clustered by "
            f"{found[0] if found else 'nothing'} their share is not defined. Use groups={population.axis!r}."
        )
    factor = population.factor
    terms = tuple(replace(term, matrix=factor * term.matrix) for term in cov.pieces)
    repaired = None if cov.repaired is None else factor * cov.repaired
    return replace(cov, pieces=terms, naive=factor * cov.naive, repaired=repaired)

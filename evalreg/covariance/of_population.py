"""The finite-population correction: of a sample that is a good part of all there is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy import sparse

from evalreg.covariance.covariance import Covariance
from evalreg.covariance.one_way import scale_rows
from evalreg.data.clusters import axis_name
from evalreg.errors import NotAvailableError
from evalreg.estimate import Estimate, Population
from evalreg.numerics.matrices import Matrix, compressed, dense


def as_drawn(estimate: Estimate, population: Population) -> Estimate:
    """The same with each column times sqrt(1 - n/N): Cochran (1977), eq. 2.8, 5.6 by stratum, 9.10 for clusters.

    Columns of different strata are independent, and those of one stratum share its factor.
    """
    A = estimate.coefficient_map
    scaled: Matrix | None = None
    if A is not None:
        scale = population.scale
        scaled = compressed(A) @ sparse.diags_array(scale) if sparse.issparse(A) else np.asarray(A) * scale
    return replace(
        estimate, bread=scale_rows(estimate.bread, population.scale), coefficient_map=scaled, population=None
    )


def of_population(cov: Covariance, estimate: Estimate, population: Population) -> Covariance:
    """Refuse clusters that were not drawn, and add what answers make: Cochran (1977), eq. 10.15, of endless answers.

    The degrees of freedom stay those of the questions, which are fewer than those of the answers.
    """
    if cov.crossed:
        raise NotAvailableError(
            'target="the full benchmark" is defined for one clustering; '
            f"{' + '.join(map(axis_name, cov.axes))} are crossed, and judges or prompts are no part of a benchmark, so "
            "that nothing says how many of them there are. Cluster by what was drawn from it."
        )
    found = tuple(axis_name(axis) for axis in cov.axes)
    if population.axes and found != population.axes:
        raise NotAvailableError(
            f"`n_population` counts {population.axes[0]} clusters, which were drawn whole; clustered by "
            f"{found[0] if found else 'nothing'} their share is not defined. Use groups={population.axes[0]!r}."
        )
    if population.noise is None:
        return cov
    noise = dense(estimate.bread.T @ compressed(population.noise) @ estimate.bread)
    terms = tuple(replace(term, matrix=term.matrix + noise) for term in cov.pieces)
    repaired = None if cov.repaired is None else cov.repaired + noise
    return replace(cov, pieces=terms, naive=cov.naive + noise, repaired=repaired)

"""Whole clusters drawn within the strata of a finite benchmark, and shares of strata that are estimated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, StrataWeightsName, listed
from evalreg.data.clusters import Axis, axis_name, find_axis
from evalreg.data.groups import Groups
from evalreg.errors import AlignmentError, ArgumentError
from evalreg.estimate import Cells, Estimate, same_questions
from evalreg.estimators.drawn_samples import clusters_drawn
from evalreg.estimators.targets import (
    PopulationSize,
    SampleFacts,
    answer_words,
    factor_words,
    is_count,
    populated,
    whole_words,
)
from evalreg.numerics.matrices import Matrix, compressed, dense
from evalreg.scores.paired_means import paired_answers
from evalreg.scores.strata import SampledShares


def counts_clusters(n_population: PopulationSize | None, groups: Groups) -> bool:
    """Whether the sizes are those of the clusters: {"passage": {"law": 40, ...}}, or {"passage": 896} in all."""
    if not isinstance(n_population, Mapping):
        return False
    if any(isinstance(size, Mapping) for size in n_population.values()):
        return True
    (name, *others) = n_population or ("",)
    named = groups in (name, [name]) if isinstance(groups, str | list) else getattr(groups, "name", None) == name
    return not others and (named or (isinstance(groups, dict) and list(groups) == [name]))


def estimated_shares(estimate: Estimate, weight: FloatArray | None = None) -> Estimate:
    """Means whose strata have the shares that the clusters drawn from each give; `weight` is that of the cells."""
    cells, A = estimate.cells, dense(estimate.coefficient_map)
    assert cells is not None
    if weight is not None:
        A = (A != 0) * weight
        A = A / A.sum(axis=1, keepdims=True)
        estimate = replace(estimate, params=A @ cells.mean, bread=(A / cells.weight).T, coefficient_map=A)
    away = cells.mean - estimate.params[np.argmax(A != 0, axis=0)]
    # Without a cluster the shares would be others, which no leverage tells.
    refit = estimate.refit and replace(estimate.refit, linear=False)
    return replace(estimate, scores=SampledShares(estimate.scores, away, cells.weight), refit=refit)


def with_clusters_in_strata(
    estimate: Estimate,
    axes: tuple[Axis, ...] | None,
    n_population: PopulationSize,
    shares: StrataWeightsName | Mapping[str, float],
    drawn: SampleFacts,
) -> Estimate:
    """The estimate of clusters drawn whole, so many of those of each stratum of the benchmark.

    With shares of the strata that are not stated, a cluster of stratum s stands for N_s/G_s of them, which makes the
    mean a ratio of two estimated totals: Cochran (1977), section 6.12 (combined ratio), 9.10 and 5.6; survey's
    `svymean` with `fpc`. With stated ones each stratum has a ratio of its own (section 6.10).
    """
    cells = estimate.cells
    assert isinstance(n_population, Mapping)
    assert cells is not None
    assert cells.stratum is not None
    if len(n_population) != 1:
        raise ArgumentError(f"`n_population` names one clustering; got {dict(n_population)!r}.")
    (name, given), *_ = n_population.items()
    axis = find_axis(name, axes or ())
    unit = axis_name(axis)
    _refuse_spanning(estimate, axis, _within_strata(_clusters_of_cells(estimate, axis), cells))
    own = clusters_drawn(estimate, axis, cells.stratum)
    n = own.of_all
    sizes = _sizes(cells.strata, n, given, shares, unit)
    short = [f"{s} ({has:.0f} of {size:g})" for s, has, size in zip(cells.strata, n, sizes, strict=True) if size < has]
    whole = own.whole(estimate, sizes) if drawn.noise is None else []
    if short or whole:
        raise ArgumentError(
            f"`n_population` must not be below the sample in any stratum, and above it in one; "
            f"{f'{unit} clusters of {listed(short)}' if short else whole_words(estimate, whole)}. Of a sample that is "
            "all of it the score is known, and has no error bar for questions."
        )
    factor = 1.0 - own.n / sizes[cells.stratum]
    if shares in ("micro", "as_sampled"):
        plain = estimate.scores
        estimate = estimated_shares(estimate, sizes[cells.stratum] / own.n * cells.weight)
        # Differences of models on the same questions are those of the rows only where all rows count alike.
        if estimate.family.paired is not None:
            item = axis if drawn.item is None else (drawn.item,)
            answers = paired_answers(replace(estimate, scores=plain), item)
            estimate = replace(estimate, family=same_questions(answers))
    line = (
        f"Target: the full benchmark of {sizes.sum():g} {unit} clusters in {n.size} strata, of which "
        f"{own.here(drawn.apiece)} (whole clusters drawn at random within strata). {factor_words(drawn)} times "
        f"{factor.min():.3f} to {factor.max():.3f}, by stratum. {answer_words(drawn)}"
        f"{own.in_common(f'{unit} clusters', sizes)}"
    )
    return populated(estimate, np.sqrt(factor), drawn.noise, (unit,), line, own.samples(sizes))


def _clusters_of_cells(estimate: Estimate, axis: Axis) -> sparse.csr_array:
    """Whether a cluster has rows in a cell, shape (n_clusters, n_cells)."""
    return sparse.csr_array(sparse.vstack([compressed(block.gram) > 0 for block in estimate.scores.cells(axis)]))


def _within_strata(member: Matrix, cells: Cells) -> sparse.csr_array:
    """Whether a cluster has rows in a stratum, shape (n_clusters, n_strata)."""
    assert cells.stratum is not None
    of = sparse.coo_array((np.ones(cells.stratum.size), (np.arange(cells.stratum.size), cells.stratum)))
    return sparse.csr_array((member.astype(float) @ of.tocsr()) > 0)


def _refuse_spanning(estimate: Estimate, axis: Axis, within: Matrix) -> None:
    """Clusters that were drawn within strata lie in one of them."""
    spans: BoolArray = np.asarray(within.sum(axis=1)).ravel() > 1
    if not spans.any():
        return
    first, name = estimate.scores.label(axis, int(np.argmax(spans))), axis_name(axis)
    raise AlignmentError(
        f"clusters drawn whole within strata lie in one stratum each; {np.count_nonzero(spans)} of {spans.size} "
        f"{name} clusters ({first!r}) have rows in several. Where ids are used again in another stratum, a joint id "
        f'tells them apart, as groups="subject:{name}".',
        column=name,
        count=int(np.count_nonzero(spans)),
    )


def _sizes(
    strata: tuple[str, ...],
    n: FloatArray,
    given: int | Mapping[str, int],
    shares: StrataWeightsName | Mapping[str, float],
    unit: str,
) -> FloatArray:
    """Clusters of each stratum of the benchmark."""
    if isinstance(given, Mapping):
        named = {str(name): size for name, size in given.items()}
        if set(named) != set(strata) or not all(map(is_count, named.values())):
            raise ArgumentError(
                f"`n_population` must name each stratum once, with the number of its {unit} clusters; the strata are "
                f"{listed(strata)}; got {dict(given)!r}."
            )
        return np.array([float(named[name]) for name in strata])
    if not is_count(given) or isinstance(shares, Mapping) or shares == "macro":
        raise ArgumentError(
            f"`n_population` must say how many {unit} clusters each stratum has, as "
            f'{{"{unit}": {{"{strata[0]}": 40, ...}}}}; one whole number is enough where they were drawn in the '
            f"proportions of the benchmark and no shares are stated; got {given!r}."
        )
    return np.asarray(given * n / n.sum())

"""The only door to variances: from an estimate and its clusterings, term by term, to a covariance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evalreg.checks import BoolArray, FloatArray
from evalreg.covariance.absorbed import directions_of
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.crossed import (
    Centring,
    Term,
    centring_of,
    crossed_matrix,
    subsets,
)
from evalreg.covariance.ends import ends_of
from evalreg.covariance.options import (
    Groups,
    ResolvedCov,
    check_cov_options,
    check_estimate,
    check_two_clusters,
    documented,
    drop_nested,
    grouped,
    refuse_many_axes,
    resolve_cov,
)
from evalreg.covariance.special import (
    alike_note,
    as_drawn,
    check_alike,
    each_column,
    of_samples,
    one_way_notes,
    pool_models,
    refuse_undrawn,
    term_notes,
    thin_notes,
    with_answers,
)
from evalreg.covariance.terms import axis_dof, check_strata, naive_term, one_term, term_of_rows
from evalreg.data.clusters import Axis, axis_name
from evalreg.data.frame import GRAMS, refuse_larger
from evalreg.errors import Note, issue
from evalreg.estimate import Estimate
from evalreg.numerics.matrices import (
    compressed,
    dense,
    without_zeros,
)


@documented
def covariance(
    estimate: Estimate,
    groups: Groups = None,
    *,
    cov: str | None = None,
    ssc: str | None = None,
    dof: str | float | None = None,
    repair: str | None = None,
) -> Covariance:
    """Covariance of an estimate when rows within a cluster may be dependent.

    Rows that share a cluster in no dimension are taken to be independent.

    Parameters
    ----------
    estimate : Estimate
        From any estimator, or `from_statsmodels`.
    groups : str, list of str, array, Series or dict, optional
        Clusters: a column, columns crossed by "+" or joined by ":", or labels. None is independent rows.
    <cov>
        "CR2" by default with groups, "naive" without.
    ssc : {"statsmodels", "fixest", "sandwich", "G", "none"}, optional
        Factor of CR1; "statsmodels" by default.
    <dof>
        Satterthwaite under CR2, min over dimensions of G - 1 otherwise.
    repair : {"max", "eigen", "two-term", "none"}, optional
        What is done to a crossed covariance; "max" by default.

    Returns
    -------
    Covariance
        With its terms by axis, `matrix`, `raw`, `variance(C)` and `dof(C)`.

    Raises
    ------
    TooFewClustersError
        If a dimension has one cluster.
    NotAvailableError
        If the estimate cannot give that covariance.
    ArgumentError
        If an option is unknown.

    References
    ----------
    Cameron, Gelbach and Miller (2011), JBES 29(2), eq. 2.13; Bell and McCaffrey (2002), Survey Methodology 28;
    MacKinnon, Nielsen and Webb (2024), arXiv:2406.08880.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=20, seed=1)
    >>> er.covariance(er.mean(log).estimate, "passage").options.cov
    'CR2'
    """
    asked = check_cov_options(cov, ssc, dof, repair)
    check_estimate(estimate)
    options = resolve_cov(asked, groups is not None, default="CR1" if estimate.refit is None else "CR2")
    result = assemble(*grouped(estimate, groups), options)
    issue(result.notes)
    return result


def assemble(estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov) -> Covariance:
    """The terms of every non-empty subset of the axes, put together; warnings are in its notes, not issued."""
    refuse_many_axes(axes)
    population = estimate.population
    if population is None:
        return _assembled(estimate, axes, options)
    drawn = as_drawn(estimate, population)
    cov = _assembled(drawn, axes, options)
    refuse_undrawn(cov, population)
    if population.samples is not None:
        columns = _assembled(each_column(estimate, population.scale), axes, options)
        cov = of_samples(cov, columns, estimate, population)
    return with_answers(cov, estimate, population)


def _assembled(estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov) -> Covariance:
    """The same for a population without end."""
    if options.kind.needs_clusters:
        for axis in axes:
            check_two_clusters(estimate, axis, axes)
    axes, notes = drop_nested(estimate.scores, axes)
    refuse_covariance(estimate, axes, options)
    if options.alike is not None:
        check_alike(estimate, axes, options.alike)
    naive = naive_term(estimate)
    if not axes or not options.kind.needs_clusters:
        rows = _of_rows(estimate, axes, options, naive, notes)
        if estimate.kind != "board" and (notes := one_way_notes(estimate, rows)):
            rows = replace(rows, notes=(*rows.notes, *notes))
        return _floored(rows, estimate, axes, options)
    terms = [one_term(estimate, axes, dims, options, naive.matrix) for dims in subsets(len(axes))]
    if options.left_open and _has_lone_pairs(estimate, terms):
        options = replace(options, cov="jackknife", dof="min" if options.dof == "satterthwaite" else options.dof)
        terms = [one_term(estimate, axes, dims, options, naive.matrix) for dims in subsets(len(axes))]
    n_clusters = {term.name: term.n_clusters for term in terms}
    if options.alike is not None:
        terms = pool_models(estimate, axes, terms, options.alike)
        notes = [*notes, alike_note(options.alike, n_clusters[options.alike], estimate.about.n_models)]
    repaired, change = _repaired(estimate, terms, options)
    result = Covariance(
        names=estimate.names,
        options=options,
        axes=axes,
        n_clusters=n_clusters,
        pieces=tuple(terms),
        naive=naive.matrix,
        smallest_dof=min(axis_dof(estimate, axis) for axis in axes),
        bounded=estimate.bounded and _has_bounds(estimate),
        fixed=_constants(estimate),
        repaired=repaired,
        change=change,
        means=estimate.kind == "mean",
        paired=estimate.family.paired,
        single=estimate.family.single,
        within=_within(estimate),
    )
    if estimate.kind == "board":
        notes = [*notes, *thin_notes(estimate, axes, options)]
    notes = [*notes, *one_way_notes(estimate, result)]
    # What has no variance of its own has none in a difference either, where the other's would stand for both.
    unknown = np.isnan(result.variance()) & result._in_one_cell(np.eye(estimate.n_params))
    if unknown.any():
        result = replace(result, withheld=unknown)
    if notes := [*notes, *term_notes(result)]:
        result = replace(result, notes=tuple(notes))
    return _floored(result, estimate, axes, options)


def _has_lone_pairs(estimate: Estimate, terms: list[Term]) -> bool:
    """Whether a board has pairs that met under one cluster, for which CR2 does not exist and the jackknife does."""
    solved_again = estimate.kind == "board" and estimate.refit is not None and estimate.refit.leave_out is not None
    return solved_again and any(bool(term.lost.any()) for term in terms if len(term.dims) == 1)


def _of_rows(
    estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov, naive: Term, notes: list[Note]
) -> Covariance:
    """The covariance of independent rows."""
    check_strata(estimate)
    term, alone = term_of_rows(estimate, options, naive), directions_of(estimate, None)
    return Covariance(
        names=estimate.names,
        options=replace(options, cov="naive") if options.kind.needs_clusters else options,
        axes=(),
        n_clusters={axis_name(axis): estimate.scores.n_clusters(axis) for axis in axes},
        pieces=(replace(term, blind=None if alone is None else alone.moves(estimate)),),
        naive=naive.matrix,
        smallest_dof=float(np.min(naive.dof(np.eye(estimate.n_params)))),
        bounded=estimate.bounded and _has_bounds(estimate),
        fixed=_constants(estimate),
        repaired=term.matrix,
        paired=estimate.family.paired,
        single=estimate.family.single,
        within=_within(estimate),
        notes=tuple(notes),
    )


def _floored(cov: Covariance, estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov) -> Covariance:
    """The covariance with what differences allow for, where intervals are not made from standard errors."""
    whole, C = estimate.family.source(estimate)
    if C is not None:
        found = assemble(replace(whole, scores=estimate.scores), axes, options)
        floor, ends = found.floor, found.ends
        return replace(
            cov,
            floor=None if floor is None else floor.linear(dense(C), cov.names),
            ends=None if ends is None else ends.linear(C),
        )
    if cov.bounded:
        cov = replace(cov, ends=ends_of(estimate, cov.variance(), axes))
    inverted = estimate.family.inverted
    if inverted is None or estimate.n_params < 2:
        return cov
    return replace(cov, floor=inverted.floor(estimate.params, cov, inverted.limits))


def _within(estimate: Estimate) -> str:
    """Within what scores are centred, where a parameter is made of several means; empty for one mean each."""
    A = estimate.coefficient_map
    if estimate.cells is None or A is None or np.all(np.diff(without_zeros(compressed(A)).indptr) <= 1):
        return ""
    if estimate.kind == "board":
        return " within its pairs of models (a pair that met once has one verdict)"
    return " within strata" if estimate.kind == "mean" else ""


def _has_bounds(estimate: Estimate) -> bool:
    """Whether an interval in [0, 1] can take the place of a variance of zero: of means of cells, or by its family."""
    return estimate.cells is not None or estimate.family.own_range


def _constants(estimate: Estimate) -> BoolArray | None:
    """Parameters that no coefficient enters; None where there is none."""
    if estimate.coefficient_map is None:
        return None
    fixed = ~np.any(dense(estimate.coefficient_map) != 0, axis=1)
    return fixed if fixed.any() else None


def _repaired(estimate: Estimate, terms: list[Term], options: ResolvedCov) -> tuple[FloatArray | None, str]:
    if options.alike is not None:
        return None, f"two terms, that of {options.alike} pooled over models"
    if len(terms) == 1:
        return terms[0].matrix, ""
    matrices, dims = [term.matrix for term in terms], [term.dims for term in terms]
    return crossed_matrix(matrices, dims, options.repair, _centring(estimate))


def _centring(estimate: Estimate) -> Centring | None:
    """To ratings that sum to zero, whatever their reference and scale; None where parameters are no ratings."""
    ratings = None if estimate.refit is None else estimate.refit.ratings
    if ratings is None:
        return None
    zero = None if ratings.zero is None else estimate.names.index(ratings.zero)
    return centring_of(np.isin(estimate.names, ratings.names), zero, ratings.units)


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

"""What some covariances have besides: axes that differ alike, finite populations, and notes on thin boards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import compress

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, frozen, listed, passed, quotient
from evalreg.covariance.covariance import Covariance, Term, touching
from evalreg.covariance.leverage import quadratic
from evalreg.covariance.options import ResolvedCov
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import AlikeWarning, ArgumentError, FewCarriersWarning, NotAvailableError, Note, SparseBoardWarning
from evalreg.estimate import Estimate, Population
from evalreg.numerics.limits import FULL_LEVERAGE, ROUNDING
from evalreg.numerics.matrices import (
    Matrix,
    absolute_entries,
    compressed,
    dense,
    identity,
    nonzero_entries,
    scale_rows,
    times,
    transposed,
    without_zeros,
)
from evalreg.scores.base import Cells


@dataclass(frozen=True, eq=False, kw_only=True)
class AlikeTerm(Term):
    """A term whose variance over models is pooled: V(c) = max(c'V c, c'c tr(V)/(K - 1)), V centred to sum zero."""

    # Covariance of the models if all differ alike over the clusters, (n_params, n_params).
    pooled: FloatArray
    # Standard deviation of what all models have in common, which is not pooled.
    common: FloatArray
    # Parameters that are models; covariates are not.
    of_models: BoolArray
    n_models: int

    def _applies(self, C: Matrix) -> BoolArray:
        """Contrasts that are differences of models, shape (m,)."""
        pooled, common = quadratic(C, self.pooled), (C @ self.common) ** 2
        return np.asarray(~touching(C, ~self.of_models) & (pooled > 0) & (common <= ROUNDING * pooled))

    def variance(self, C: Matrix) -> FloatArray:
        """The larger of the contrast's own variance and the pooled one."""
        unpooled = super().variance(C)
        return np.where(self._applies(C), np.maximum(unpooled, quadratic(C, self.pooled)), unpooled)

    def dof(self, C: Matrix) -> FloatArray:
        """(J - 1)(K - 1): the contrast's own degrees of freedom times the differences of models that tell."""
        return super().dof(C) * np.where(self._applies(C), self.n_models - 1.0, 1.0)

    def linear(self, C: FloatArray) -> Term:
        """The same term for contrasts of the parameters."""
        term = super().linear(C)
        assert isinstance(term, AlikeTerm)
        of_models = ~touching(C, ~self.of_models)
        return replace(term, pooled=C @ self.pooled @ C.T, common=C @ self.common, of_models=of_models)


def pool_models(estimate: Estimate, axes: tuple[Axis, ...], terms: Sequence[Term], name: str) -> list[Term]:
    """The one-way terms of two crossed axes, that of `name` pooled over models; no intersection.

    Pooled is tr(V)/(K - 1) on the differences of models, as centred ratings or from a reference's.
    """
    one_way, place = [term for term in terms if len(term.dims) == 1], list(map(axis_name, axes)).index(name)
    n, K, term = estimate.n_params, estimate.about.n_models, one_way[place]
    V = np.asarray(term.matrix)[:K, :K]
    assert estimate.coefficient_map is not None
    fixed = ~np.any(dense(abs(estimate.coefficient_map)) > 0, axis=1)[:K]
    # Ratings from a reference's are theta_k - theta_ref; the centred V is the same.
    M = np.eye(K) - fixed[None, :] if fixed.any() else np.eye(K)
    centred = M - M.mean(axis=1, keepdims=True)
    share = max(float(np.trace(V) - V.sum() / K), 0.0) / max(K - 1, 1)
    pooled, common = np.zeros((n, n)), np.zeros(n)
    pooled[:K, :K] = share * centred @ centred.T
    common[:K] = M.sum(axis=1) * np.sqrt(max(float(V.sum()), 0.0)) / K
    held = {field.name: getattr(term, field.name) for field in fields(Term)}
    one_way[place] = AlikeTerm(
        **held, pooled=frozen(pooled), common=frozen(common), of_models=np.arange(n) < K, n_models=K
    )
    return one_way


def check_alike(estimate: Estimate, axes: tuple[Axis, ...], name: str) -> None:
    """Raise if the clusters of that axis cannot be taken to differ alike over models."""
    if not estimate.about.one_board:
        raise NotAvailableError(
            f'`alike="{name}"` is of all models of one leaderboard (`win_rate` without strata, `bradley_terry`, '
            f"`controlled_win_rate`), since it compares how clusters differ over models; this is "
            f"{estimate.about.model}. Leave it out, or pass {passed(alike=None)}; a contrast of a board is taken after "
            "`alike` is."
        )
    names = [axis_name(axis) for axis in axes]
    if len(axes) != 2:
        crossed = listed(names) if names else "none"
        raise NotAvailableError(
            f'`{passed(alike=name)}` must be one of two clusterings that cross, such as "judge" of '
            f"{passed(groups='prompt + judge')}; got {len(axes)} ({crossed}) after any that lies inside "
            f"another. Leave it out, or pass {passed(alike=None)}."
        )
    if name not in names:
        raise ArgumentError(
            f"`alike` must name one of the crossed clusterings, {listed(names, joiner=' or ')}; got {name!r}."
        )


def alike_note(name: str, n_clusters: int, n_models: int) -> Note:
    """What a result says that takes clusters to differ alike over models."""
    text = (
        f'alike="{name}": the {n_clusters} {name} clusters are taken to differ alike over the {n_models} models, and '
        "what they say of all models is pooled. Differences are at their level only where that holds. They are too "
        f"sure for a model on which values of {name} differ more than on others."
    )
    return AlikeWarning, text


def as_drawn(estimate: Estimate, population: Population) -> Estimate:
    """The same with each column times sqrt(1 - n/N): Cochran (1977), eq. 2.8, 5.6 by stratum, 9.10 for clusters.

    Columns of different strata are independent, and those of one stratum and one sample share its factor.
    """
    A = estimate.coefficient_map
    scaled: Matrix | None = None
    if A is not None:
        scale = population.scale
        scaled = compressed(A) @ sparse.diags_array(scale) if sparse.issparse(A) else np.asarray(A) * scale
    return replace(
        estimate,
        bread=scale_rows(estimate.bread, population.scale),
        coefficient_map=scaled,
        family=estimate.family.drawn(population.scale),
        population=None,
    )


def refuse_undrawn(cov: Covariance, population: Population) -> None:
    """Refuse clusters that were not drawn from the population."""
    if cov.crossed:
        raise NotAvailableError(
            '`target="the full benchmark"` is defined for one clustering; '
            f"{' + '.join(map(axis_name, cov.axes))} are crossed, and judges or prompts are no part of a benchmark, so "
            "that nothing says how many of them there are. Cluster by what was drawn from it."
        )
    axes = tuple(axis_name(axis) for axis in cov.axes)
    if population.axes and axes != population.axes:
        raise NotAvailableError(
            f"`n_population` counts {population.axes[0]} clusters, which were drawn whole; clustered by "
            f"{axes[0] if axes else 'nothing'} their share is not defined. Use groups={population.axes[0]!r}."
        )


def with_answers(cov: Covariance, estimate: Estimate, population: Population) -> Covariance:
    """Add what answers make: Cochran (1977), eq. 10.15, of endless answers.

    The degrees of freedom stay those of the questions, which are fewer than those of the answers.
    """
    if population.noise is None:
        return cov
    noise = dense(estimate.bread.T @ compressed(population.noise) @ estimate.bread)
    terms = tuple(replace(term, matrix=term.matrix + noise) for term in cov.pieces)
    repaired = None if cov.repaired is None else cov.repaired + noise
    return replace(cov, pieces=terms, independent=partial(np.array, cov.naive + noise), repaired=repaired)


# Above either, covariances that hold weights fixed and do not correct for leverage miss too often to be shown.
LARGEST_CONCENTRATION, LARGEST_SINGLE = 0.12, 0.02
# With fewer clusters every pair is concentrated, and their number says so.
FEW_CLUSTERS = 10
# Below this a board does not rank; below twice as many it warns.
TOO_FEW_EFFECTIVE = 3.0
LARGEST_SHARE = 0.30


@dataclass(frozen=True, eq=False)
class Sparsity:
    """How the weight of each parameter lies on the clusters of one axis. All arrays have shape (n_params,)."""

    # H: the weighted mean over the cells of a parameter of sum over clusters of h^2, h a cluster's share of a cell.
    concentration: FloatArray
    # Effective number of clusters, one over the sum of squared shares (Kish).
    effective: FloatArray
    # The largest share of one cluster.
    largest_share: FloatArray
    # Share of the weight on cells that rest on a single cluster.
    single: FloatArray

    @property
    def unsafe(self) -> BoolArray:
        """Parameters whose fixed-weight CR0 and CR1 are not shown."""
        return (self.concentration > LARGEST_CONCENTRATION) | (self.single > LARGEST_SINGLE)


def sparsity(estimate: Estimate, axis: Axis) -> Sparsity:
    """Concentration of the weight of each parameter on the clusters of an axis. Kish (1965), Survey Sampling."""
    assert estimate.cells is not None
    assert estimate.coefficient_map is not None
    weights = absolute_entries(estimate.coefficient_map)
    # A parameter's weights sum to one over its cells, whatever the scale of the parameter.
    weights = scale_rows(weights, 1.0 / np.maximum(weights @ np.ones(weights.shape[1]), 1e-300))
    share = scale_rows(identity(estimate.cells.weight.size), 1.0 / estimate.cells.weight)
    of_cells = estimate.scores.column_sums(axis, share)
    single = (1.0 - of_cells.largest < FULL_LEVERAGE).astype(float)
    mapped = times(share, transposed(weights))
    of_params = estimate.scores.column_sums(axis, mapped)
    squares = np.asarray(of_params.squares)
    # What rests on no cell, as the sum of all win rates, rests on no few clusters.
    effective = quotient(1.0, squares, np.inf)
    return Sparsity(weights @ of_cells.squares, effective, of_params.largest, weights @ single)


# What becomes of pairs that met under one cluster alone, by whether estimates are solved again without it.
SAID_OF_LONE_PAIRS = {
    False: "such pairs add nothing to the variance",
    True: "CR2 does not exist for such pairs, so that errors are those of the jackknife, which leaves out each "
    "cluster. Bradley-Terry ratings pool thin pairs",
}


def thin_notes(estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov) -> Iterator[Note]:
    """What to say about the models of a board that are too thinly covered for its covariance."""
    kind, finest = options.kind, max(axes, key=estimate.scores.n_clusters)
    solved_again = estimate.refit is not None and estimate.refit.leave_out is not None
    for axis in axes:
        shares, name = sparsity(estimate, axis), axis_name(axis)
        # An axis of a few judges is thin for every pair alike, which the number of its clusters tells.
        guarded = axis == finest and estimate.scores.n_clusters(axis) >= FEW_CLUSTERS
        if kind.adjusts:
            thin = (shares.single > 0) & (options.left_open or not kind.needs_exact_refit)
            end = SAID_OF_LONE_PAIRS[kind.needs_exact_refit]
        else:
            thin = shares.unsafe & guarded
            end = f'{options.cov} is far too small there; leave out `cov` for the default, or use "jackknife"'
        if solved_again and thin.any():
            text = (
                f"{listed(compress(estimate.names, thin))}: up to {np.max(shares.single[thin]):.0%} of the weight lies "
                f"on pairs that met under a single {name} ({LARGEST_SINGLE:.0%} is safe), and two comparisons of a "
                f"pair share their {name} in up to {np.max(shares.concentration[thin]):.0%} of cases (H; "
                f"{LARGEST_CONCENTRATION:.0%} is safe); {end}."
            )
            yield SparseBoardWarning, text
        few = (shares.effective < 2 * TOO_FEW_EFFECTIVE) | (shares.largest_share > LARGEST_SHARE)
        if guarded and few.any():
            text = (
                f"{listed(compress(estimate.names, few))}: the weight lies on as few as "
                f"{np.min(shares.effective[few]):.1f} effective {name} clusters, up to "
                f"{np.max(shares.largest_share[few]):.0%} of it on one. For a model with fewer than "
                f"{TOO_FEW_EFFECTIVE:.0f} every rank is left open. Bradley-Terry ratings pool thin pairs and hold "
                "better there."
            )
            yield SparseBoardWarning, text


# Of rows that are alike, this over their number may be at the other end: the rule of three.
RULE_OF_THREE = 3.0
# What would make a standard error larger by less than a tenth is not said.
MATTERS = 1.1


def one_way_notes(estimate: Estimate, cells: Cells, cov: Covariance) -> Iterator[Note]:
    """What to say about win rates and means over strata of which some pair or stratum shows no variance.

    With w the weight of a pair (a stratum) of n rows and s^2 the variance within those of the mean, pooled, it would
    have V + sum w^2 s^2/n over such pairs, and no more than the sum over all its pairs; times the design effect.
    """
    board = estimate.kind == "board"
    flat, count = (cells.low == cells.high) & (cells.count > 0), np.maximum(cells.count, 1.0)
    for axis in cov.axes if board and flat.any() else ():  # The jackknife leaves out a pair that met under one cluster.
        share = scale_rows(identity(flat.size), 1.0 / cells.weight)
        flat &= 1 - estimate.scores.column_sums(axis, share).largest >= FULL_LEVERAGE
    if not flat.any():
        return
    A = without_zeros(compressed(estimate.coefficient_map))
    part, each = nonzero_entries(A), A.multiply(A).tocsr()
    which = (part @ flat > 0) & (part @ (~flat & (cells.count > 0)) > 0)
    if not which.any():
        return
    within = part @ (cells.count * cells.scatter) / np.maximum(part @ (count - 1.0), 1.0)
    starts = np.minimum(A.indptr[:-1], A.nnz - 1)
    span = np.maximum.reduceat(cells.high[A.indices], starts) - np.minimum.reduceat(cells.low[A.indices], starts)
    alike = np.minimum(within, RULE_OF_THREE * span**2 / np.maximum(part @ (flat * count), 1.0))
    V, naive = cov.variance(), np.diag(cov.naive)
    inflation = np.maximum(quotient(V, naive, 1.0), 1.0)
    larger = np.minimum(
        each @ ((cells.count > 0) / count) * within * inflation, V + each @ (flat / count) * alike * inflation
    )
    which &= (V > 0) & (np.nan_to_num(larger) > MATTERS**2 * V)
    for axis in cov.axes if board else ():  # Models of a sparse board have a warning of their own.
        which &= ~sparsity(estimate, axis).unsafe
    if not which.any():
        return
    some, times_larger = listed(compress(estimate.names, which)), f"{np.sqrt(np.max(larger[which] / V[which])):.1f}"
    if board or cells.stratum is None:
        text = (
            f"{some}: against some opponent all comparisons went one way, so that they add nothing to the standard "
            f"error, which would be larger if they varied as others do (up to {times_larger} times as large). "
            "Intervals and ranks may be too sure. Bradley-Terry ratings pool such pairs, and with "
            'opponents="as_sampled" they count as often as they met.'
        )
        yield SparseBoardWarning, text
        return
    inside = (part[np.flatnonzero(which)].sum(axis=0) > 0) & flat
    names = [cells.strata[k] for k in np.unique(cells.stratum[np.asarray(inside).ravel()]).tolist()]
    text = (
        f"{some}: all scores within {listed(names)} are alike, so that {'it adds' if len(names) == 1 else 'they add'} "
        "nothing to the standard error, which would be larger if they varied as in other strata (up to "
        f"{times_larger} times as large). The interval may be too short. More rows in such strata mend it, or weights "
        "that are as their rows."
    )
    yield FewCarriersWarning, text

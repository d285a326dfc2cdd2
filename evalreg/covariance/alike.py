"""A crossed axis of few clusters, judges say, that are taken to differ alike over the models of a board."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from evalreg.checks import BoolArray, FloatArray, frozen, listed
from evalreg.covariance.dof import quadratic
from evalreg.covariance.terms import Term
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import AlikeWarning, ArgumentError, NotAvailableError, Note
from evalreg.estimate import Estimate
from evalreg.numerics.matrices import Matrix, dense

# Of a contrast that is not a difference of models, what is left of their common part is rounding below this.
ROUNDING = 1e-10


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
        of_others = np.asarray((C != 0) @ ~self.of_models, dtype=bool)
        own = quadratic(C, self.pooled)
        return np.asarray(~of_others & (own > 0) & ((C @ self.common) ** 2 <= ROUNDING * own))

    def variance(self, C: Matrix) -> FloatArray:
        """The larger of the contrast's own variance and the pooled one."""
        own = super().variance(C)
        return np.where(self._applies(C), np.maximum(own, quadratic(C, self.pooled)), own)

    def dof(self, C: Matrix) -> FloatArray:
        """(J - 1)(K - 1): the contrast's own degrees of freedom times the differences of models that tell."""
        return super().dof(C) * self._times(C)

    def dof_bounds(self, C: Matrix) -> tuple[FloatArray, FloatArray]:
        """Likewise."""
        least, most = super().dof_bounds(C)
        return least * self._times(C), most * self._times(C)

    def _times(self, C: Matrix) -> FloatArray:
        return np.where(self._applies(C), self.n_models - 1.0, 1.0)

    def linear(self, C: FloatArray) -> Term:
        """The same term for contrasts of the parameters."""
        made = super().linear(C)
        assert isinstance(made, AlikeTerm)
        of_models = ~np.asarray((C != 0) @ ~self.of_models, dtype=bool)
        return replace(made, pooled=C @ self.pooled @ C.T, common=C @ self.common, of_models=of_models)


def pool_models(estimate: Estimate, axes: tuple[Axis, ...], terms: Sequence[Term], name: str) -> list[Term]:
    """The one-way terms of two crossed axes, that of `name` pooled over models; no intersection.

    Needs all models of one board, CR2 terms, and axes of which none is inside the other.
    """
    check_alike(estimate, axes, name)
    place = [axis_name(axis) for axis in axes].index(name)
    one_way = [term for term in terms if len(term.dims) == 1]
    one_way[place] = _pooled(estimate, one_way[place])
    return one_way


def _pooled(estimate: Estimate, term: Term) -> AlikeTerm:
    """tr(V)/(K - 1) on the differences of models, as centred ratings or from a reference's."""
    n, K = estimate.n_params, estimate.about.n_models
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
    held = {one.name: getattr(term, one.name) for one in fields(Term)}
    return AlikeTerm(**held, pooled=frozen(pooled), common=frozen(common), of_models=np.arange(n) < K, n_models=K)


def check_alike(estimate: Estimate, axes: tuple[Axis, ...], name: str) -> None:
    """Raise if the clusters of that axis cannot be taken to differ alike over models."""
    if not estimate.about.one_board:
        raise NotAvailableError(
            f'`alike="{name}"` is of all models of one leaderboard (`win_rate` without strata, `bradley_terry`, '
            f"`controlled_win_rate`), since it compares how clusters differ over models; this is "
            f"{estimate.about.model}. Leave it out, or pass alike=None; a contrast of a board is taken after "
            "`alike` is."
        )
    names = [axis_name(axis) for axis in axes]
    if len(axes) != 2:
        found = listed(names) if names else "none"
        raise NotAvailableError(
            f'`alike="{name}"` must be one of two clusterings that cross, such as "judge" of groups="prompt + judge"; '
            f"got {len(axes)} ({found}) after any that lies inside another. Leave it out, or pass alike=None."
        )
    if name not in names:
        raise ArgumentError(
            f"`alike` must name one of the crossed clusterings, {listed(names, joiner=' or ')}; got {name!r}."
        )


def alike_note(name: str, n_clusters: int, n_models: int) -> Note:
    """What a result says that takes clusters to differ alike over models."""
    text = (
        f'alike="{name}": the {n_clusters} {name} clusters are taken to differ alike over the {n_models} models, and '
        "what they tell of all models is pooled. Differences are at their level only where that holds. They are too "
        f"sure for a model on which values of {name} differ more than on others."
    )
    return AlikeWarning, text

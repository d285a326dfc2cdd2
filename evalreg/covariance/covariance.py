"""The Covariance value: naive, one-way and crossed clusterings, their repair, and the only door to variances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, frozen, listed
from evalreg.covariance.alike import alike_note, check_alike, pool_models
from evalreg.covariance.groups import Groups, check_estimate, check_two_clusters, drop_nested, resolve_groups
from evalreg.covariance.options import ResolvedCov, check_cov_options, resolve_cov
from evalreg.covariance.sparsity import (
    FEW_CLUSTERS,
    FEW_EFFECTIVE,
    LARGEST_SHARE,
    effective_text,
    sparse_text,
    sparsity,
)
from evalreg.covariance.terms import (
    NO_VARIANCE,
    Piece,
    axis_dof,
    blind_directions,
    check_strata,
    naive_piece,
    one_piece,
    subsets,
)
from evalreg.covariance.widths import Few, Widths, crossed_widths, one_t, subset_signs
from evalreg.data.clusters import Axis, axis_name
from evalreg.data.memory import GRAMS, refuse_larger, refuse_parameters
from evalreg.errors import LeverageWarning, Note, RepairWarning, SparseBoardWarning, issue
from evalreg.estimate import Estimate
from evalreg.scores.paired import Paired
from evalreg.scores.sums import RowScores, compressed, dense, quadratic, sum_blocks
from evalreg.scores.unseen import unseen


class Floor(Protocol):
    """Variances below which others may not lie."""

    def variance(self, contrasts: FloatArray) -> FloatArray:
        """Return the least variance of each contrast, shape (n_contrasts,)."""

    def linear(self, contrasts: FloatArray, names: Sequence[str]) -> Floor:
        """Return the same for contrasts of the parameters."""


# A parameter that moves by more than this share of the one that moves most is what a cluster alone tells of; others are
# measured from it.
MOSTLY = 0.6


@dataclass(frozen=True, eq=False)
class Covariance:
    """Covariance of parameters, with its pieces by axis; made by `covariance`.

    Parameters
    ----------
    names : tuple of str
        Names of the parameters.
    options : ResolvedCov
        cov, ssc, dof and repair as computed.
    axes : tuple of Axis
        The clusterings used; empty for independent rows.
    n_clusters : mapping of str to int
        Clusters of each axis and intersection, by name.
    pieces : tuple of Piece
        Terms of inclusion-exclusion, axes first.
    naive : ndarray, shape (n_params, n_params)
        The covariance for independent rows.
    smallest_dof : float
        min over axes of G - 1 (G - S with strata); n - k without groups.
    bounded : bool
        Whether the parameters are means of scores in [0, 1].
    repaired : ndarray, shape (n_params, n_params), optional
        The matrix after "eigen", "two-term" or "none"; None where variances come from the pieces.
    change : str
        What the repair changed, in words; empty if nothing.
    fixed : ndarray of bool, shape (n_params,), optional
        Parameters that are constants, such as the rating of the reference; their variance is zero.
    floor : Floor, optional
        Below which no variance may lie: another covariance of the same parameters, say.
    withheld : ndarray of bool, shape (n_params,), optional
        Parameters whose rows are too thinly spread to say anything of them.
    means : bool
        Whether the parameters are made of means of cells: one that rests on a single cluster of some axis has no
        variance then, even where another axis gives one.
    paired : Paired, optional
        Scores in [0, 1] of models on the same questions; where few of them tell of a difference, what was not seen is
        allowed for.
    within : str
        Where scores that give no variance do not vary, if they may differ elsewhere: within pairs, or within strata.
    notes : tuple of (category, text)
        What a reader should know.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=20, seed=1)
    >>> V = er.covariance(er.mean(log).estimate, "passage", cov="CR1")
    >>> V.matrix.shape, V.dof().tolist()
    ((1, 1), [19.0])
    """

    names: tuple[str, ...]
    options: ResolvedCov
    axes: tuple[Axis, ...]
    n_clusters: Mapping[str, int]
    pieces: tuple[Piece, ...]
    naive: FloatArray
    smallest_dof: float
    bounded: bool = False
    repaired: FloatArray | None = None
    change: str = ""
    fixed: BoolArray | None = None
    floor: Floor | None = None
    withheld: BoolArray | None = None
    means: bool = False
    paired: Paired | None = None
    within: str = ""
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "naive", frozen(self.naive))
        object.__setattr__(self, "n_clusters", MappingProxyType(dict(self.n_clusters)))
        if self.repaired is not None:
            object.__setattr__(self, "repaired", frozen(self.repaired))

    def __getstate__(self) -> dict[str, Any]:
        # Views of mappings cannot be pickled, and what is kept can be made again.
        own = {name: value for name, value in self.__dict__.items() if name != "kept"}
        return {**own, "n_clusters": dict(self.n_clusters)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"n_clusters": MappingProxyType(state["n_clusters"])})

    @cached_property
    def kept(self) -> dict[str, Any]:
        """What statements about many contrasts make of it and share, by name; neither pickled nor copied."""
        return {}

    @property
    def crossed(self) -> bool:
        """Whether there are two or more axes."""
        return len(self.axes) > 1

    @property
    def summed(self) -> bool:
        """Whether widths are sums of t^2 V over pieces, so that no single t serves all levels."""
        return self.crossed and self.options.dof == "satterthwaite"

    @property
    def raw(self) -> FloatArray:
        """The sum of the pieces with their signs, before any repair, shape (n_params, n_params)."""
        return sum_blocks(iter([piece.sign * piece.matrix for piece in self.pieces]))

    @property
    def one_way(self) -> tuple[Piece, ...]:
        """The pieces of single axes (or the naive piece)."""
        return tuple(piece for piece in self.pieces if len(piece.dims) <= 1)

    @property
    def sum_one_way(self) -> FloatArray:
        """Sum over axes of V_d, positive semi-definite, shape (n_params, n_params)."""
        return sum_blocks(iter([piece.matrix for piece in self.one_way]))

    @property
    def matrix(self) -> FloatArray:
        """The covariance shown, shape (n_params, n_params); its diagonal is the square of the standard errors.

        Under ``repair="max"`` it is D R D, D^2 the variances and R the correlation of the summed one-way pieces.
        """
        variance = self.variance()
        if self.repaired is not None:
            matrix = self.repaired.copy()
            np.fill_diagonal(matrix, variance)
        else:
            together = self.sum_one_way
            spread = np.sqrt(np.diag(together))
            scale = np.divide(np.sqrt(variance), spread, out=np.zeros_like(spread), where=spread > 0)
            matrix = together * np.outer(scale, scale)
            np.fill_diagonal(matrix, variance)
        unknown = np.isnan(variance)
        matrix[unknown, :] = matrix[:, unknown] = np.nan
        return frozen(matrix)

    def variance(self, contrasts: FloatArray | None = None) -> FloatArray:
        """Variances of contrasts of the parameters.

        Parameters
        ----------
        contrasts : ndarray, shape (n_contrasts, n_params), optional
            The parameters themselves by default.

        Returns
        -------
        ndarray, shape (n_contrasts,)
            0 where the scores do not vary; NaN where the data give no variance (`reasons` says why).
        """
        C = self._contrasts(contrasts)
        value = self._unsettled(C)
        scale = C**2 @ np.diag(self.naive)
        none = ~(value > NO_VARIANCE * scale) | (scale == 0)
        # Zero is a variance only where the bounds of the scores give an interval in its place.
        flat = (scale == 0) | ((value >= 0) & (not self.crossed))
        constant = none & flat & self.bounded & ~self._lost(C)
        undetermined = self._in_one_cell(C) & (none | self.means | self.options.kind.leaves_out)
        undetermined |= self._undetermined(C)
        unknown = none | undetermined | self._withheld(C)
        if self.floor is not None:
            value = np.fmax(value, self.floor.variance(C))
        settled = (constant & ~self._withheld(C)) | self._fixed(C)
        return np.where(settled, 0.0, np.where(unknown, np.nan, value))

    def _unsettled(self, C: FloatArray) -> FloatArray:
        if self.repaired is not None:
            return quadratic(C, self.repaired)
        # MNW 2024: from the stored pieces, never from a repaired matrix; no set of fewer axes gives more.
        each = np.array([piece.variance(C) for piece in self.pieces])
        return np.asarray(np.max(subset_signs([piece.dims for piece in self.pieces]) @ each, axis=0))

    def _lost(self, C: FloatArray) -> BoolArray:
        return self._in_one_cell(C) | self._undetermined(C)

    def _in_one_cell(self, C: FloatArray) -> BoolArray:
        lost = np.any([piece.lost for piece in self.one_way], axis=0)
        return np.asarray((C != 0) @ lost, dtype=bool)

    def _undetermined(self, C: FloatArray) -> BoolArray:
        return np.asarray(np.any([piece.undetermined(C) for piece in self.one_way], axis=0))

    def _fixed(self, C: FloatArray) -> BoolArray:
        if self.fixed is None:
            return np.zeros(C.shape[0], dtype=bool)
        return ~np.asarray((C != 0) @ ~self.fixed, dtype=bool)

    def _withheld(self, C: FloatArray) -> BoolArray:
        if self.withheld is None:
            return np.zeros(C.shape[0], dtype=bool)
        return np.asarray((C != 0) @ self.withheld, dtype=bool)

    def reasons(self, contrasts: FloatArray | None = None) -> list[str]:
        """Why a variance is zero or NaN, one text for each contrast; empty where it is positive.

        Parameters
        ----------
        contrasts : ndarray, shape (n_contrasts, n_params), optional
            The parameters themselves by default.

        Returns
        -------
        list of str
            One for each contrast.
        """
        C = self._contrasts(contrasts)
        variance, lost, scale = self.variance(C), self._lost(C), C**2 @ np.diag(self.naive)
        totals_vary = np.max([piece.variance(C) for piece in self.one_way], axis=0) > NO_VARIANCE * scale
        texts = []
        for value, is_lost, size, vary, thin in zip(variance, lost, scale, totals_vary, self._withheld(C), strict=True):
            if value > 0 or (value == 0 and self.fixed is not None):
                texts.append("")
            elif thin and not is_lost:
                texts.append("it rests on too few clusters")
            elif is_lost:
                texts.append("it rests on a single cluster" if self.axes else "it rests on a single row")
            elif size == 0:
                texts.append(f"the scores do not vary{self.within}")
            elif not vary:
                texts.append("the cluster totals do not vary")
            else:
                texts.append(f'the crossed variance is not positive under repair="{self.options.repair}"')
        return texts

    def half_width(self, contrasts: FloatArray | None = None, alpha: float | FloatArray = 0.05) -> FloatArray:
        """Half-widths of two-sided t intervals of contrasts of the parameters: estimate +- half-width.

        Crossed, H with H^2 = sum over pieces of t^2 V, each piece with its own degrees of freedom, and never less than
        any set of fewer axes gives.

        Parameters
        ----------
        contrasts : ndarray, shape (n_contrasts, n_params), optional
            The parameters themselves by default.
        alpha : float or ndarray, shape (n_contrasts,), optional
            Level; 0.05 gives 95% intervals.

        Returns
        -------
        ndarray, shape (n_contrasts,)
            0 where the variance is, NaN where there is none.

        References
        ----------
        Banerjee (1960), Sankhya 22, 359-362; Cameron, Gelbach and Miller (2011), JBES 29(2), eq. 2.13.
        """
        return self._widths(self._contrasts(contrasts)).half(alpha)

    def limits(
        self, estimate: FloatArray, contrasts: FloatArray | None = None, alpha: float | FloatArray = 0.05
    ) -> FloatArray:
        """Ends of two-sided t intervals of contrasts of the parameters: the values that a test at `alpha` keeps.

        Parameters
        ----------
        estimate : ndarray, shape (n_contrasts,)
            Contrasts of the estimates.
        contrasts : ndarray, shape (n_contrasts, n_params), optional
            The parameters themselves by default.
        alpha : float or ndarray, shape (n_contrasts,), optional
            Level; 0.05 gives 95% intervals.

        Returns
        -------
        ndarray, shape (n_contrasts, 2)
            Estimate +- half-width, NaN without a variance. For differences of scores in [0, 1] of which few questions
            tell, differences that were not seen are allowed for, also where there is no variance.
        """
        return self.widths(contrasts).limits(np.asarray(estimate, dtype=np.float64), alpha)

    def pvalues(self, contrasts: FloatArray | None, distance: FloatArray) -> FloatArray:
        """Two-sided p-values of contrasts that lie so far from their values under the null.

        Parameters
        ----------
        contrasts : ndarray, shape (n_contrasts, n_params), or None
            None is the parameters themselves.
        distance : ndarray, shape (n_contrasts,)
            Estimate less value under the null.

        Returns
        -------
        ndarray, shape (n_contrasts,)
            The levels at which the half-width is the distance; NaN where the variance is 0 or unknown.
        """
        return self.widths(contrasts).pvalues(distance)

    def critical(self, contrasts: FloatArray | None = None, alpha: float | FloatArray = 0.05) -> FloatArray:
        """Half-widths in standard errors; where there is none, the critical value of t.

        Parameters
        ----------
        contrasts : ndarray, shape (n_contrasts, n_params), optional
            The parameters themselves by default.
        alpha : float or ndarray, shape (n_contrasts,), optional
            Level.

        Returns
        -------
        ndarray, shape (n_contrasts,)
            Without units.
        """
        return self._widths(self._contrasts(contrasts)).critical(alpha)

    def dof(self, contrasts: FloatArray | None = None, alpha: float = 0.05) -> FloatArray:
        """Degrees of freedom of contrasts of the parameters.

        Crossed they depend a little on the level: t with so many has the half-width of that level.

        Parameters
        ----------
        contrasts : ndarray, shape (n_contrasts, n_params), optional
            The parameters themselves by default.
        alpha : float, optional
            Level, for crossed clusters.

        Returns
        -------
        ndarray, shape (n_contrasts,)
            inf where the normal is the reference.
        """
        C = self._contrasts(contrasts)
        return self._widths(C).dof(alpha) if self.summed else self._one_dof(C)

    def widths(self, contrasts: FloatArray | None = None) -> Widths:
        """Variances and degrees of freedom of contrasts, from which every interval and p-value comes.

        Parameters
        ----------
        contrasts : ndarray, shape (n_contrasts, n_params), optional
            The parameters themselves by default.

        Returns
        -------
        Widths
            With `half(alpha)`, `limits(estimate, alpha)`, `pvalues(distance)`, `critical(alpha)` and `dof(alpha)`.
        """
        plain = self._widths(self._contrasts(contrasts))
        return plain if self.paired is None else replace(plain, few=self._few(contrasts, plain.variance))

    def _few(self, contrasts: FloatArray | None, variance: FloatArray) -> Few | None:
        """Differences of two models of which few questions tell."""
        assert self.paired is not None
        C = None if contrasts is None else self._contrasts(contrasts)
        found = self.paired.differing(C, variance, self.axes)
        rows, V = found.rows, np.nan_to_num(variance[found.rows]) / found.scale**2
        alone = self._lost(self._contrasts(C)[rows]) | self._withheld(self._contrasts(C)[rows])
        of = unseen(
            found.theta,
            V,
            found.size,
            found.square,
            found.differ,
            found.whole,
            found.silent,
            found.silent_whole,
            found.n,
            found.clusters,
            found.alike,
            self.paired.icc,
        )
        held = np.flatnonzero(of.active & ((V > 0) | (~alone & (of.share > 0))))
        return Few(rows[held], found.scale[held], of.chosen(held)) if held.size else None

    def _widths(self, C: FloatArray) -> Widths:
        if not self.summed:
            return one_t(self.variance(C), self._one_dof(C))
        dofs = np.array([piece.dof(C) for piece in self.pieces])
        variances = np.array([piece.variance(C) for piece in self.pieces])
        return crossed_widths(
            self.variance(C), variances, dofs, [piece.dims for piece in self.pieces], self.options.repair
        )

    def _one_dof(self, C: FloatArray) -> FloatArray:
        """Degrees of freedom where one t serves all levels."""
        rule = self.options.dof
        if rule == "normal":
            return np.full(C.shape[0], np.inf)
        if isinstance(rule, float):
            return np.full(C.shape[0], rule)
        if rule == "min" and self.axes:
            return np.full(C.shape[0], self.smallest_dof)
        return self.pieces[0].dof(C)

    def linear(self, contrasts: FloatArray, names: Sequence[str]) -> Covariance:
        """The covariance of C theta, from the same pieces.

        Parameters
        ----------
        contrasts : ndarray, shape (n_contrasts, n_params)
            C.
        names : sequence of str
            A name for each contrast.

        Returns
        -------
        Covariance
            Of the contrasts.
        """
        C = np.asarray(contrasts, dtype=float)
        picks = bool(np.all((np.count_nonzero(C, axis=1) == 1) & (C.sum(axis=1) == 1)))
        return replace(
            self,
            names=tuple(names),
            pieces=tuple(piece.linear(C) for piece in self.pieces),
            naive=C @ self.naive @ C.T,
            bounded=self.bounded and picks,
            fixed=None if self.fixed is None else self._fixed(C),
            floor=None if self.floor is None else self.floor.linear(C, names),
            withheld=None if self.withheld is None else self._withheld(C),
            paired=None if self.paired is None else self.paired.linear(C),
            repaired=None if self.repaired is None else C @ self.repaired @ C.T,
        )

    def to_frame(self) -> pd.DataFrame:
        """The matrix with both axes named.

        Returns
        -------
        DataFrame
            One row and one column a parameter.
        """
        return pd.DataFrame(self.matrix, index=list(self.names), columns=list(self.names))

    def _contrasts(self, contrasts: FloatArray | None) -> FloatArray:
        return np.eye(len(self.names)) if contrasts is None else np.atleast_2d(np.asarray(contrasts, dtype=float))


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
    cov : {"naive", "CR0", "CR1", "CR2", "CR3", "jackknife"}, optional
        "CR2" by default with groups, "naive" without.
    ssc : {"statsmodels", "fixest", "sandwich", "G", "none"}, optional
        Factor of CR1; "statsmodels" by default.
    dof : {"satterthwaite", "min", "normal"} or float, optional
        Satterthwaite under CR2, min over dimensions of G - 1 otherwise.
    repair : {"max", "eigen", "two-term", "none"}, optional
        What is done to a crossed covariance; "max" by default, "eigen" where `cov` is named.

    Returns
    -------
    Covariance
        With its pieces by axis, `matrix`, `raw`, `variance(C)` and `dof(C)`.

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
    scores, axes = resolve_groups(estimate.scores, groups)
    result = assemble(replace(estimate, scores=scores), axes, options)
    issue(result.notes)
    return result


def assemble(estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov) -> Covariance:
    """Pieces of every non-empty subset of the axes, put together.

    Parameters
    ----------
    estimate : Estimate
        Whose covariance.
    axes : tuple of Axis
        Dimensions as asked.
    options : ResolvedCov
        Options with defaults filled in.

    Returns
    -------
    Covariance
        Warnings are in its notes, not issued.
    """
    if options.kind.needs_clusters:
        for axis in axes:
            check_two_clusters(estimate, axis, axes)
    _refuse_larger(estimate, axes, options)
    axes, notes = drop_nested(estimate.scores, axes)
    if options.alike is not None:
        check_alike(estimate, axes, options.alike)
    naive = naive_piece(estimate)
    if not axes or not options.kind.needs_clusters:
        check_strata(estimate)
        counts = {axis_name(axis): estimate.scores.n_clusters(axis) for axis in axes}
        smallest = float(np.min(naive.dof(np.eye(estimate.n_params))))
        independent = Covariance(
            names=estimate.names,
            options=replace(options, cov="naive"),
            axes=(),
            n_clusters=counts,
            pieces=(replace(naive, blind=blind_directions(estimate, None)),),
            naive=naive.matrix,
            smallest_dof=smallest,
            bounded=estimate.bounded,
            fixed=_constants(estimate),
            repaired=naive.matrix,
            paired=estimate.paired,
            within=_within(estimate),
            notes=tuple(notes),
        )
        return _floored(independent, estimate, axes, options)
    pieces = [one_piece(estimate, axes, dims, options, naive.matrix) for dims in subsets(len(axes))]
    n_clusters = {piece.name: piece.n_clusters for piece in pieces}
    if options.alike is not None:
        pieces = pool_models(estimate, axes, pieces, options.alike)
        notes = [*notes, alike_note(options.alike, n_clusters[options.alike], estimate.about.n_models)]
    repaired, change = _repair(pieces, options) if len(axes) > 1 else (pieces[0].matrix, "")
    result = Covariance(
        names=estimate.names,
        options=options,
        axes=axes,
        n_clusters=n_clusters,
        pieces=tuple(pieces),
        naive=naive.matrix,
        smallest_dof=min(axis_dof(estimate, axis) for axis in axes),
        bounded=estimate.bounded,
        fixed=_constants(estimate),
        repaired=repaired,
        change=change,
        means=estimate.kind == "mean",
        paired=estimate.paired,
        within=_within(estimate),
    )
    if estimate.kind == "board":
        notes = [*notes, *_thin_notes(estimate, axes, options)]
    # What has no variance of its own has none in a difference either, where the other's would stand for both.
    unknown = np.isnan(result.variance()) & result._in_one_cell(np.eye(estimate.n_params))
    result = replace(result, withheld=unknown if unknown.any() else None)
    return _floored(replace(result, notes=(*notes, *_piece_notes(result))), estimate, axes, options)


def _refuse_larger(estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov) -> None:
    """Raise if the covariances, or the squares and products of the design in each cluster, do not fit into memory."""
    scores = estimate.scores
    refuse_parameters(estimate.n_params)
    adjusted = options.kind.adjusts or options.dof == "satterthwaite"
    if isinstance(scores, RowScores) and axes and adjusted:
        n_clusters = max(scores.n_clusters(axis) for axis in axes)
        refuse_larger(
            GRAMS * 8.0 * n_clusters * scores.n_columns**2,
            f"the covariance of {scores.n_columns:,} coefficients in {n_clusters:,} clusters",
            "Leave out or merge levels of the factors of the formula, or cluster by something coarser.",
        )


def _floored(cov: Covariance, estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov) -> Covariance:
    """The covariance with the least variances of differences, where intervals are not made from standard errors."""
    if estimate.origin is not None:
        whole, C = estimate.origin
        floor = assemble(replace(whole, scores=estimate.scores), axes, options).floor
        return cov if floor is None else replace(cov, floor=floor.linear(dense(C), cov.names))
    if estimate.inversion is None or estimate.n_params < 2:
        return cov
    return replace(cov, floor=estimate.inversion.floor(estimate.params, cov, estimate.inversion.limits))


def _within(estimate: Estimate) -> str:
    """Within what scores are centred, where a parameter is made of several means; empty for one mean each."""
    A = estimate.coefficient_map
    if estimate.cells is None or A is None or np.all((compressed(A) != 0).sum(axis=1) <= 1):
        return ""
    if estimate.kind == "board":
        return " within its pairs of models (a pair that met once has one verdict)"
    return " within strata" if estimate.kind == "mean" else ""


def _constants(estimate: Estimate) -> BoolArray | None:
    """Parameters that no coefficient enters; None where there is none."""
    if estimate.coefficient_map is None:
        return None
    fixed = ~np.any(dense(abs(estimate.coefficient_map)) > 0, axis=1)
    return fixed if fixed.any() else None


def _thin_notes(estimate: Estimate, axes: tuple[Axis, ...], options: ResolvedCov) -> list[Note]:
    """What to say of the models of a board that are too thinly covered for its covariance."""
    notes: list[Note] = []
    finest = max(axes, key=estimate.scores.n_clusters)
    for axis in axes:
        found = sparsity(estimate, axis)
        # An axis of a few judges is thin for every pair alike, which the number of its clusters tells.
        guarded = axis == finest and estimate.scores.n_clusters(axis) >= FEW_CLUSTERS
        fixed = estimate.refit is not None and estimate.refit.leave_out is not None
        if not options.kind.adjusts and guarded and fixed and found.unsafe.any():
            text = f'{options.cov} is far too small there; leave out `cov` for the default, or use "jackknife"'
            notes.append((SparseBoardWarning, f"{sparse_text(found, estimate.names, found.unsafe)}; {text}."))
        elif options.kind.adjusts and not options.kind.needs_exact_refit and fixed and found.single.any():
            how = "what such pairs add to the variance is centred by Bradley-Terry strengths without that cluster"
            how = how if options.stand_in else "such pairs add nothing to the variance"
            notes.append((SparseBoardWarning, f"{sparse_text(found, estimate.names, found.single > 0)}; {how}."))
        few = (found.effective < FEW_EFFECTIVE) | (found.largest_share > LARGEST_SHARE)
        if guarded and few.any():
            notes.append((SparseBoardWarning, effective_text(found, estimate.names, few)))
    return notes


def _repair(pieces: list[Piece], options: ResolvedCov) -> tuple[FloatArray | None, str]:
    """The matrix that variances come from (None: from the pieces), and what was changed."""
    if options.alike is not None:
        return None, f"two terms, that of {options.alike} pooled over models"
    raw = sum_blocks(iter([piece.sign * piece.matrix for piece in pieces]))
    if options.repair == "none":
        return raw, ""
    one_way = sum_blocks(iter([piece.matrix for piece in pieces if len(piece.dims) == 1]))
    if options.repair == "two-term":
        return one_way, "the intersection terms were left out"
    if options.repair == "max":
        each = np.array([np.diag(piece.matrix) for piece in pieces])
        largest = np.max(subset_signs([piece.dims for piece in pieces]) @ each, axis=0)
        raised = int(np.sum(np.diag(raw) < largest * (1 - 1e-12)))
        if not raised:
            return None, ""
        fewer = "one-way variance" if max(len(piece.dims) for piece in pieces) == 2 else "variance of fewer axes"
        return None, f"{raised} of {raw.shape[0]} variances were raised to the largest {fewer}"
    values, axes = np.linalg.eigh((raw + raw.T) / 2)
    if values[0] >= -1e-14 * max(values[-1], 0.0):
        return raw, ""
    cut = int(np.sum(values < 0))
    share = -values[values < 0].sum() / np.abs(values).sum()
    repaired = (axes * np.clip(values, 0.0, None)) @ axes.T
    return repaired, f"{cut} negative eigenvalue{'s' if cut > 1 else ''} ({share:.2g} of the total) set to zero"


def _piece_notes(cov: Covariance) -> list[Note]:
    notes: list[Note] = []
    notes.extend(_one_cluster_notes(cov))
    thin = cov._in_one_cell(np.eye(len(cov.names)))
    lost = [name for name, is_lost in zip(cov.names, thin, strict=True) if is_lost]
    if lost:
        text = (
            f"{listed(lost)}: some cluster alone determines {'it' if len(lost) == 1 else 'each of them'} (leverage 1)"
        )
        notes.append((LeverageWarning, f"{text}{cov.options.kind.single}."))
    if cov.change and cov.options.repair == "eigen":
        notes.append((RepairWarning, f"the crossed covariance was not positive semi-definite: {cov.change}."))
    return notes


def _one_cluster_notes(cov: Covariance) -> list[Note]:
    """Parameters of a regression that one cluster alone determines, and those measured from them."""
    size = np.zeros(len(cov.names))
    for piece in cov.one_way:
        if piece.blind is not None:
            moved = np.abs(piece.blind)
            size = np.maximum(size, np.max(moved / np.max(moved, axis=0), axis=1))
    alone = [name for name, part in zip(cov.names, size, strict=True) if part > MOSTLY]
    if not alone:
        return []
    which = cov.one_way[0].name if len(cov.one_way) == 1 else "cluster"
    text = f"{listed(alone)}: only one {which if cov.axes else 'row'} tells of {'it' if len(alone) == 1 else 'them'}"
    text += f" (leverage 1), so that {'it has no error bar' if len(alone) == 1 else 'they have no error bars'}."
    rest = [name for name, part in zip(cov.names, size, strict=True) if 0 < part <= MOSTLY]
    if rest:
        verbs = ("is", "has") if len(rest) == 1 else ("are", "have")
        text += f" {listed(rest)} {verbs[0]} measured from there and {verbs[1]} none either."
    text += " Differences without it have theirs. Merge it with another level, or leave its rows out."
    return [(LeverageWarning, text)]

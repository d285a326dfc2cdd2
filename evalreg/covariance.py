"""The Covariance value: naive, one-way and crossed clusterings, their repair, and the only door to variances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Protocol, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, ResolvedCov, check_cov_options, frozen, listed, resolve_cov
from evalreg.clusters import Axis, axis_name, no_source, parse_groups
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    LeverageWarning,
    MissingColumnError,
    NestedClustersWarning,
    NotAvailableError,
    Note,
    RepairWarning,
    TooFewClustersError,
    issue,
)
from evalreg.estimate import Cells, Estimate
from evalreg.scores import Block, Matrix, RowScores, Scores, compressed, dense, square, sum_blocks
from evalreg.small_sample import (
    POWER,
    RowLeverage,
    adjust_cell_totals,
    cell_leverage,
    cr1_factor,
    full_leverage_cells,
    full_leverage_rows,
    inverse_power_times,
    satterthwaite_combine,
    symmetric_root,
)

# A variance below this fraction of the naive one is rounding, not a variance.
NO_VARIANCE = 1e-14
# Sums that cancel to this fraction of their terms are rounding.
ROUNDING = 1e-12


class Leverage(Protocol):
    """Degrees of freedom of contrasts of the coefficients."""

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """One for each row of `contrasts`."""

    def hotelling(self, contrasts: FloatArray) -> float:
        """eta of a joint test of `contrasts`."""


@dataclass(frozen=True, eq=False)
class FixedDof:
    """The same degrees of freedom for every contrast.

    Parameters
    ----------
    value : float
        n - k, or G - 1.
    """

    value: float

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """Return `value` for each contrast."""
        return np.full(contrasts.shape[0], self.value)

    def hotelling(self, contrasts: FloatArray) -> float:
        """Return `value`."""
        return self.value


@dataclass(frozen=True, eq=False)
class WelchDof:
    """Degrees of freedom of contrasts of independent means: n_m - 1 for one, Welch-Satterthwaite for several.

    Parameters
    ----------
    variance : ndarray, shape (n_cells,)
        Variance of each mean.
    counts : ndarray, shape (n_cells,)
        Rows of each cell.
    """

    variance: FloatArray
    counts: FloatArray

    def dof(self, contrasts: FloatArray) -> FloatArray:
        """v^2 / sum_m v_m^2/(n_m - 1), with v_m the part of each mean."""
        parts = contrasts**2 * self.variance
        # A mean without variance adds nothing; with none at all the smallest n_m - 1 is left.
        rows = np.where(contrasts != 0, np.maximum(self.counts - 1, 1.0), np.inf)
        below = np.sum(parts**2 / np.maximum(self.counts - 1, 1.0), axis=1)
        exact = np.count_nonzero(contrasts, axis=1) == 1
        ratio = parts.sum(axis=1) ** 2 / np.where(below > 0, below, 1.0)
        return np.asarray(np.where(exact | (below <= 0), rows.min(axis=1), ratio))

    def hotelling(self, contrasts: FloatArray) -> float:
        """Return the smallest n_m - 1 of the means involved."""
        return float(np.min(self.counts[np.any(contrasts != 0, axis=0)]) - 1)


@dataclass(frozen=True, eq=False)
class Piece:
    """The covariance on one clustering, a term of inclusion-exclusion.

    Parameters
    ----------
    by : Axis
        Columns whose joint values are the clusters.
    dims : tuple of int
        The axes that it intersects; one for an axis itself, none for the naive covariance.
    n_clusters : int
        G_A.
    matrix : ndarray, shape (n_params, n_params)
        V_A with its small-sample factor.
    leverage : Leverage, optional
        Degrees of freedom of contrasts of the coefficients.
    contrasts : ndarray or sparse array, shape (n_params, n_columns), optional
        The parameters as contrasts of the coefficients.
    lost : ndarray of bool, shape (n_params,)
        Parameters that some cluster alone determines, wholly or in part.
    """

    by: Axis
    dims: tuple[int, ...]
    n_clusters: int
    matrix: FloatArray
    leverage: Leverage | None
    contrasts: Matrix | None
    lost: BoolArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", frozen(self.matrix))

    @property
    def name(self) -> str:
        """Columns joined by a colon; "rows" for the naive covariance."""
        return axis_name(self.by) if self.by else "rows"

    @property
    def sign(self) -> int:
        """(-1)^(|A|+1)."""
        return 1 if len(self.dims) % 2 or not self.dims else -1

    @property
    def dof_name(self) -> str:
        """What the degrees of freedom are, in a word."""
        if isinstance(self.leverage, WelchDof):
            single = self.contrasts is None or bool(np.all(np.count_nonzero(dense(self.contrasts), axis=1) == 1))
            return "n - 1" if single else "Welch-Satterthwaite"
        return "n - k" if isinstance(self.leverage, FixedDof) else "G - 1"

    def variance(self, C: FloatArray) -> FloatArray:
        """Diagonal of C V_A C'."""
        return quadratic(C, self.matrix)

    def dof(self, C: FloatArray) -> FloatArray:
        """Degrees of freedom of each contrast of the parameters."""
        if self.leverage is None:
            return np.full(C.shape[0], float(self.n_clusters - 1))
        return self.leverage.dof(C if self.contrasts is None else np.asarray(C @ self.contrasts))

    def hotelling(self, C: FloatArray) -> float:
        """eta of the approximate Hotelling test of contrasts of the parameters; G - 1 without leverages."""
        if self.leverage is None:
            return float(self.n_clusters - 1)
        return self.leverage.hotelling(C if self.contrasts is None else np.asarray(C @ self.contrasts))

    def linear(self, C: FloatArray) -> Piece:
        """The same piece for contrasts of the parameters."""
        contrasts = None if self.contrasts is None else C @ self.contrasts
        return replace(self, matrix=C @ self.matrix @ C.T, contrasts=contrasts, lost=(C != 0) @ self.lost)


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
    n_clusters : dict of str to int
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
    n_clusters: dict[str, int]
    pieces: tuple[Piece, ...]
    naive: FloatArray
    smallest_dof: float
    bounded: bool = False
    repaired: FloatArray | None = None
    change: str = ""
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "naive", frozen(self.naive))
        if self.repaired is not None:
            object.__setattr__(self, "repaired", frozen(self.repaired))

    @property
    def crossed(self) -> bool:
        """Whether there are two or more axes."""
        return len(self.axes) > 1

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
        return matrix

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
        undetermined = self._lost(C) & (none | np.isin(self.options.cov, ("CR3", "jackknife")))
        return np.where(constant, 0.0, np.where(none | undetermined, np.nan, value))

    def _unsettled(self, C: FloatArray) -> FloatArray:
        if self.repaired is not None:
            return quadratic(C, self.repaired)
        # MNW 2024: from the stored pieces, never from a repaired matrix.
        each = [quadratic(C, self.raw), *(piece.variance(C) for piece in self.one_way)]
        return np.asarray(np.max(each, axis=0))

    def _lost(self, C: FloatArray) -> BoolArray:
        lost = np.any([piece.lost for piece in self.one_way], axis=0)
        return np.asarray((C != 0) @ lost, dtype=bool)

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
        for value, is_lost, size, vary in zip(variance, lost, scale, totals_vary, strict=True):
            if value > 0:
                texts.append("")
            elif is_lost:
                texts.append("it rests on a single cluster" if self.axes else "it rests on a single row")
            elif size == 0:
                texts.append("the scores do not vary")
            elif not vary:
                texts.append("the cluster totals do not vary")
            else:
                texts.append(f'the crossed variance is not positive under repair="{self.options.repair}"')
        return texts

    def dof(self, contrasts: FloatArray | None = None) -> FloatArray:
        """Degrees of freedom of contrasts of the parameters.

        Parameters
        ----------
        contrasts : ndarray, shape (n_contrasts, n_params), optional
            The parameters themselves by default.

        Returns
        -------
        ndarray, shape (n_contrasts,)
            inf where the normal is the reference.
        """
        C = self._contrasts(contrasts)
        rule = self.options.dof
        if rule == "normal":
            return np.full(C.shape[0], np.inf)
        if isinstance(rule, float):
            return np.full(C.shape[0], rule)
        if not self.axes:
            return self.pieces[0].dof(C)
        if rule == "min":
            return np.full(C.shape[0], self.smallest_dof)
        if not self.crossed:
            return self.pieces[0].dof(C)
        dofs = np.array([piece.dof(C) for piece in self.pieces])
        upper = np.sum([dof for dof, piece in zip(dofs, self.pieces, strict=True) if len(piece.dims) == 1], axis=0)
        variances = np.array([piece.variance(C) for piece in self.pieces])
        return satterthwaite_combine(self.variance(C), variances, dofs, self.smallest_dof, upper)

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


def quadratic(C: FloatArray, matrix: FloatArray) -> FloatArray:
    """Diagonal of C V C', shape (n_contrasts,)."""
    return np.asarray(np.sum((C @ matrix) * C, axis=1))


Groups: TypeAlias = Any


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


def check_estimate(estimate: object) -> None:
    """Raise unless it is an Estimate.

    Parameters
    ----------
    estimate : object
        As passed by the user.

    Raises
    ------
    ArgumentTypeError
        If it is something else.
    """
    if not isinstance(estimate, Estimate):
        hint = " Pass its `.estimate`." if hasattr(estimate, "estimate") else ""
        raise ArgumentTypeError(f"`estimate` must be an Estimate; got {type(estimate).__name__}.{hint}")


def resolve_groups(scores: Scores, groups: Groups) -> tuple[Scores, tuple[Axis, ...]]:
    """Axes named by `groups`; labels given as arrays become columns of the scores.

    Parameters
    ----------
    scores : Scores
        Of the rows in use.
    groups : str, list of str, array, Series, dict or None
        As in `covariance`.

    Returns
    -------
    scores : Scores
        With the labels given.
    axes : tuple of Axis
        Empty for None.

    Raises
    ------
    ArgumentError, MissingColumnError, AlignmentError
        If names are unknown or labels do not fit the rows.
    """
    if groups is None:
        return scores, ()
    if isinstance(groups, str) or (isinstance(groups, list | tuple) and all(isinstance(g, str) for g in groups)):
        try:
            return scores, parse_groups(groups, scores.columns)
        except MissingColumnError as error:
            if scores.has_source:
                raise
            raise no_source(error.column or str(groups), scores.columns) from None
    labels = as_label_dict(groups)
    return scores.with_labels(labels), tuple((name,) for name in labels)


def as_label_dict(groups: Groups) -> dict[str, Any]:
    """Labels by name: of an array, a Series, or a dict of them.

    Parameters
    ----------
    groups : array, Series or dict of str to them
        Cluster labels.

    Returns
    -------
    dict
        One entry for each dimension; an unnamed array is called "groups".

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there are none, or they are two-dimensional.
    """
    if isinstance(groups, pd.DataFrame):
        groups = {str(name): groups[name] for name in groups.columns}
    if isinstance(groups, dict):
        if not groups:
            raise ArgumentError("`groups` is an empty dict; pass groups=None for independent rows.")
        if any(isinstance(value, str) for value in groups.values()):
            names = [value for value in groups.values() if isinstance(value, str)]
            raise ArgumentTypeError(
                "a dict for `groups` holds labels, one a row, and not column names; got str. Name columns in a list: "
                f"groups={names[:3]}."
            )
        return {name: labels for one, value in groups.items() for name, labels in _named(str(one), value).items()}
    return _named("groups", groups)


def _named(name: str, labels: Any) -> dict[str, Any]:
    if isinstance(labels, pd.MultiIndex) or (isinstance(labels, pd.Index) and labels.nlevels > 1):
        raise ArgumentTypeError(
            "`groups` must hold one label a row; a MultiIndex holds several. Pass a dict of its levels to cross them, "
            'such as {"prompt": index.get_level_values(0), "judge": index.get_level_values(1)}.'
        )
    if isinstance(labels, str | bytes | dict) or not (hasattr(labels, "__len__") and hasattr(labels, "__getitem__")):
        raise ArgumentTypeError(f"`groups` must hold one label a row; got {type(labels).__name__} for {name!r}.")
    dimensions = getattr(labels, "ndim", 1)
    if dimensions != 1:
        raise ArgumentTypeError(
            f"`groups` must be one-dimensional; got {dimensions} dimensions. Pass a dict of one array each."
        )
    own = getattr(labels, "name", None)
    return {str(own) if name == "groups" and own is not None else name: labels}


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
    if options.cov != "naive":
        for axis in axes:
            _check_two_clusters(estimate, axis, axes)
    axes, notes = drop_nested(estimate.scores, axes)
    naive = naive_piece(estimate)
    if not axes or options.cov == "naive":
        counts = {axis_name(axis): estimate.scores.n_clusters(axis) for axis in axes}
        smallest = float(np.min(naive.dof(np.eye(estimate.n_params))))
        return Covariance(
            names=estimate.names,
            options=replace(options, cov="naive"),
            axes=(),
            n_clusters=counts,
            pieces=(naive,),
            naive=naive.matrix,
            smallest_dof=smallest,
            bounded=estimate.bounded,
            repaired=naive.matrix,
            notes=tuple(notes),
        )
    pieces = [_piece(estimate, axes, dims, options) for dims in subsets(len(axes))]
    repaired, change = _repair(pieces, options) if len(axes) > 1 else (pieces[0].matrix, "")
    result = Covariance(
        names=estimate.names,
        options=options,
        axes=axes,
        n_clusters={piece.name: piece.n_clusters for piece in pieces},
        pieces=tuple(pieces),
        naive=naive.matrix,
        smallest_dof=min(_axis_dof(estimate, axis) for axis in axes),
        bounded=estimate.bounded,
        repaired=repaired,
        change=change,
    )
    return replace(result, notes=(*notes, *_piece_notes(result)))


def subsets(n_axes: int) -> list[tuple[int, ...]]:
    """Non-empty subsets of the axes, the axes themselves first."""
    return [dims for size in range(1, n_axes + 1) for dims in combinations(range(n_axes), size)]


def drop_nested(scores: Scores, axes: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], list[Note]]:
    """Leave out axes whose clusters each lie inside one cluster of another axis.

    Parameters
    ----------
    scores : Scores
        Of the rows in use.
    axes : tuple of Axis
        Dimensions as asked.

    Returns
    -------
    axes : tuple of Axis
        Those that remain.
    notes : list of (category, text)
        Which were left out.
    """
    kept = list(axes)
    notes: list[Note] = []
    for axis in reversed(axes):
        for other in [other for other in kept if other != axis]:
            joint = _union(*sorted((axis, other), key=axes.index))
            if scores.n_clusters(joint) == scores.n_clusters(axis):
                fine, coarse = scores.n_clusters(axis), scores.n_clusters(other)
                if fine == coarse:
                    text = f'"{axis_name(axis)}" and "{axis_name(other)}" are the same {fine} clusters; one is used.'
                else:
                    text = (
                        f'"{axis_name(axis)}" lies inside "{axis_name(other)}" ({fine} clusters in {coarse}): '
                        "clustering by the coarser one alone covers both."
                    )
                kept.remove(axis)
                notes.append((NestedClustersWarning, text))
                break
    return tuple(kept), notes


def _union(*axes: Axis) -> Axis:
    return tuple(dict.fromkeys(name for axis in axes for name in axis))


def _check_two_clusters(estimate: Estimate, axis: Axis, axes: tuple[Axis, ...]) -> None:
    n_clusters = estimate.scores.n_clusters(axis)
    if n_clusters >= 2:
        return
    others = " + ".join(axis_name(other) for other in axes if other != axis)
    instead = f'Use groups="{others}", which holds this {axis_name(axis)} fixed' if others else "Name a finer column"
    raise TooFewClustersError(
        f'`groups="{axis_name(axis)}"` has {n_clusters} distinct value; at least 2 are needed. '
        f"{instead}, or pass groups=None to treat rows as independent.",
        column=axis_name(axis),
        count=n_clusters,
    )


def naive_piece(estimate: Estimate) -> Piece:
    """The covariance for independent rows: CR1 with every row its own cluster.

    Parameters
    ----------
    estimate : Estimate
        Whose covariance.

    Returns
    -------
    Piece
        For means, each with its own n_m/(n_m - 1) (Miller 2024, eq. 1); for a regression HC1.
    """
    n, bread, cells = estimate.n_rows, estimate.bread, estimate.cells
    no_loss = np.zeros(estimate.n_params, dtype=bool)
    if cells is None or estimate.kind != "mean":
        factor = n / (n - estimate.n_coefficients)
        matrix = factor * estimate.scores.meat(None, bread)
        rounding = _rounding(estimate, np.diag(matrix))
        matrix[rounding, :] = matrix[:, rounding] = 0.0
        return Piece((), (), n, matrix, FixedDof(float(n - estimate.n_coefficients)), None, no_loss)
    single = () if cells.stratum is None else np.array(cells.strata)[cells.stratum[cells.count < 2]].tolist()
    if single:
        raise TooFewClustersError(
            f"`strata` needs at least 2 rows in every stratum; {listed(single)} has one. Merge it with another.",
            count=len(single),
        )
    scale = np.sqrt(cells.count / np.maximum(cells.count - 1, 1))
    matrix = estimate.scores.meat(None, _scale_rows(bread, scale))
    variance = cells.squares / cells.weight**2 * scale**2
    lost = _touches(estimate, cells.count < 2)
    return Piece((), (), n, matrix, WelchDof(variance, cells.count), estimate.coefficient_map, lost)


def _touches(estimate: Estimate, columns: BoolArray) -> BoolArray:
    """Parameters that some of the coefficients enter."""
    assert estimate.coefficient_map is not None
    return np.asarray((estimate.coefficient_map != 0) @ columns, dtype=bool)


def _rounding(estimate: Estimate, variance: FloatArray) -> BoolArray:
    """Parameters whose rows' influences cancel to rounding, so that their variance would be rounding too."""
    scores, refit = estimate.scores, estimate.refit
    none = np.zeros(variance.size, dtype=bool)
    if not isinstance(scores, RowScores) or refit is None or refit.inverse_gram.ndim == 1:
        return none
    residual = 1.0 if scores.residual is None else float(np.mean(scores.residual**2))
    model = quadratic(dense(estimate.coefficient_map), refit.inverse_gram) * residual
    if not np.any(variance <= ROUNDING * model):
        return none
    size = np.sum((np.abs(scores.values) @ np.abs(dense(estimate.bread))) ** 2, axis=0)
    return np.asarray(variance <= ROUNDING**2 * size)


def _scale_rows(bread: Matrix, scale: FloatArray) -> Matrix:
    return sparse.diags_array(scale).tocsr() @ compressed(bread) if sparse.issparse(bread) else scale[:, None] * bread


def _piece(estimate: Estimate, axes: tuple[Axis, ...], dims: tuple[int, ...], options: ResolvedCov) -> Piece:
    by = _union(*(axes[d] for d in dims))
    n_clusters = estimate.scores.n_clusters(by)
    if POWER[options.cov] == 0:
        matrix = _unadjusted(estimate, axes, by, n_clusters, options)
        wants_dof = options.dof == "satterthwaite" and len(dims) == 1
        leverage = _adjusted(estimate, by, options, keep=True)[1] if wants_dof else None
        lost = _lost_without_variance(estimate, by, matrix)
    else:
        keep = options.dof == "satterthwaite" and len(dims) == 1
        matrix, leverage, lost = _adjusted(estimate, by, options, keep)
        if options.cov in ("CR3", "jackknife"):
            matrix = (n_clusters - 1) / n_clusters * matrix
    contrasts = None if leverage is None else estimate.coefficient_map
    return Piece(by, dims, n_clusters, matrix, leverage, contrasts, lost)


def _lost_without_variance(estimate: Estimate, by: Axis, matrix: FloatArray) -> BoolArray:
    """Parameters without a variance because one cluster determines them; looked for only where a variance is zero."""
    none = np.diag(matrix) <= NO_VARIANCE * np.diag(naive_piece(estimate).matrix)
    if estimate.refit is None or not none.any():
        return np.zeros(estimate.n_params, dtype=bool)
    work = _adjust_cells if estimate.refit.inverse_gram.ndim == 1 else _adjust_rows
    lost = work(estimate, by, 1.0, False)[2]
    return _touches(estimate, lost) & none


def _unadjusted(
    estimate: Estimate, axes: tuple[Axis, ...], by: Axis, n_clusters: int, options: ResolvedCov
) -> FloatArray:
    """CR0, or CR1 with its factor; with strata each stratum has the factor of its own clusters."""
    if options.cov == "CR0":
        return estimate.scores.meat(by, estimate.bread)
    cells = estimate.cells
    if cells is not None and cells.stratum is not None and options.ssc != "none":
        per_stratum = _clusters_per_stratum(estimate.scores, cells, by)
        scale = np.sqrt(per_stratum / (per_stratum - 1))[cells.stratum]
        return estimate.scores.meat(by, _scale_rows(estimate.bread, scale))
    smallest = min(estimate.scores.n_clusters(axis) for axis in axes)
    counted = smallest if options.ssc == "fixest" else n_clusters
    least_squares = estimate.kind != "likelihood"
    factor = cr1_factor(counted, estimate.n_rows, estimate.n_coefficients, options.ssc, least_squares)
    return factor * estimate.scores.meat(by, estimate.bread)


def _clusters_per_stratum(scores: Scores, cells: Cells, by: Axis) -> FloatArray:
    """Clusters of each stratum; one with a single cluster has no variance."""
    assert cells.stratum is not None
    n_strata = len(cells.strata)
    member = sparse.csr_array(
        (np.ones(cells.stratum.size), (np.arange(cells.stratum.size), cells.stratum)),
        shape=(cells.stratum.size, n_strata),
    )
    counts = np.zeros(n_strata)
    for block in scores.cells(by):
        present = compressed(block.gram) @ member
        counts += np.bincount(present.indices[present.data > 0], minlength=n_strata)
    single = [name for name, count in zip(cells.strata, counts, strict=True) if count < 2]
    if single:
        raise TooFewClustersError(
            f"`strata` needs at least 2 clusters of {axis_name(by)!r} in every stratum; {listed(single)} "
            f"{'has' if len(single) == 1 else 'have'} one. Merge strata, or cluster by the strata instead.",
            column=axis_name(by),
            count=len(single),
        )
    return counts


def _axis_dof(estimate: Estimate, axis: Axis) -> float:
    """G - 1; G - S with strata."""
    if estimate.cells is not None and estimate.cells.stratum is not None:
        return float(np.sum(_clusters_per_stratum(estimate.scores, estimate.cells, axis) - 1))
    return float(estimate.scores.n_clusters(axis) - 1)


Adjusted: TypeAlias = tuple[FloatArray, Leverage | None, BoolArray]


def _adjusted(
    estimate: Estimate, by: Axis, options: ResolvedCov, keep: bool
) -> tuple[FloatArray, Leverage | None, BoolArray]:
    """Sum of squares of adjusted totals, with the leverages for dof and the parameters that a cluster determines."""
    refit = estimate.refit
    if refit is None:
        raise NotAvailableError(
            f'`cov="{options.cov}"` with dof={options.dof!r} needs the design of the model, which this estimate '
            'does not have. Available are cov "naive", "CR0" and "CR1" with dof "min", "normal" or a number.'
        )
    if options.cov == "jackknife" and not refit.linear:
        raise NotAvailableError(
            '`cov="jackknife"` solves the estimate again without each cluster, which is there for means and least '
            'squares. Use cov="CR3", which takes one Newton step for each cluster.'
        )
    work = _adjust_cells if refit.inverse_gram.ndim == 1 else _adjust_rows
    matrix, leverage, lost = work(estimate, by, POWER[options.cov], keep)
    return matrix, leverage, _touches(estimate, lost)


def _adjust_cells(
    estimate: Estimate, by: Axis, power: float, keep: bool
) -> tuple[FloatArray, Leverage | None, BoolArray]:
    assert estimate.refit is not None
    inverse = estimate.refit.inverse_gram
    blocks: list[Block] = list(estimate.scores.cells(by))
    shares = [compressed(block.gram) @ sparse.diags_array(inverse) for block in blocks]
    parts = (
        square(adjust_cell_totals(block.totals, share.tocsr(), power), estimate.bread)
        for block, share in zip(blocks, shares, strict=True)
    )
    matrix = sum_blocks(parts)
    share = sparse.vstack(shares).tocsr() if len(shares) > 1 else shares[0].tocsr()
    lost = full_leverage_cells(share) if power else np.zeros(inverse.size, dtype=bool)
    return matrix, cell_leverage(share, 1.0 / inverse, power) if keep else None, lost


def _adjust_rows(
    estimate: Estimate, by: Axis, power: float, keep: bool
) -> tuple[FloatArray, Leverage | None, BoolArray]:
    assert estimate.refit is not None
    root, inverse_root = symmetric_root(estimate.refit.inverse_gram)
    matrix = np.zeros((estimate.n_params, estimate.n_params))
    lost, kept = np.zeros(root.shape[0], dtype=bool), []
    for block in estimate.scores.cells(by):
        assert block.gram is not None
        L = root @ block.gram @ root
        adjusted = inverse_power_times(L, power, (block.totals @ root)[:, :, None])[:, :, 0] @ inverse_root
        matrix += square(adjusted, estimate.bread)
        if power:
            lost |= full_leverage_rows(L, root)
        if keep:
            kept.append(L)
    leverage = RowLeverage(np.concatenate(kept), root, power) if keep else None
    return matrix, leverage, lost


def _repair(pieces: list[Piece], options: ResolvedCov) -> tuple[FloatArray | None, str]:
    """The matrix that variances come from (None: from the pieces), and what was changed."""
    raw = sum_blocks(iter([piece.sign * piece.matrix for piece in pieces]))
    if options.repair == "none":
        return raw, ""
    one_way = sum_blocks(iter([piece.matrix for piece in pieces if len(piece.dims) == 1]))
    if options.repair == "two-term":
        return one_way, "the intersection terms were left out"
    if options.repair == "max":
        largest = np.max([np.diag(piece.matrix) for piece in pieces if len(piece.dims) == 1], axis=0)
        raised = int(np.sum(np.diag(raw) < largest * (1 - 1e-12)))
        if not raised:
            return None, ""
        return None, f"{raised} of {raw.shape[0]} variances were raised to the largest one-way variance"
    values, axes = np.linalg.eigh((raw + raw.T) / 2)
    if values[0] >= -1e-14 * max(values[-1], 0.0):
        return raw, ""
    cut = int(np.sum(values < 0))
    share = -values[values < 0].sum() / np.abs(values).sum()
    repaired = (axes * np.clip(values, 0.0, None)) @ axes.T
    return repaired, f"{cut} negative eigenvalue{'s' if cut > 1 else ''} ({share:.2g} of the total) set to zero"


def _piece_notes(cov: Covariance) -> list[Note]:
    notes: list[Note] = []
    lost = [name for name, is_lost in zip(cov.names, cov._lost(np.eye(len(cov.names))), strict=True) if is_lost]
    if lost:
        text = (
            f"{listed(lost)}: some cluster alone determines {'it' if len(lost) == 1 else 'each of them'} (leverage 1)"
        )
        ends = {
            "CR2": "; it adds nothing to the variance",
            "CR3": "; no CR3 variance",
            "jackknife": "; no jackknife variance",
        }
        notes.append((LeverageWarning, text + ends.get(cov.options.cov, "") + "."))
    if cov.change and cov.options.repair == "eigen":
        notes.append((RepairWarning, f"the crossed covariance was not positive semi-definite: {cov.change}."))
    return notes

"""The Covariance value: variances, degrees of freedom and half-widths of contrasts, from the terms that it keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import compress
from types import MappingProxyType
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, frozen, hold, listed, passed, quotient, real_numbers
from evalreg.covariance.crossed import USUAL_LEVEL, Scored, Widths, crossed_variance, crossed_widths, sign
from evalreg.covariance.leverage import CellLeverage, CountedDof, Leverage, Projected, WelchDof, fixed_dof, quadratic
from evalreg.covariance.options import ResolvedCov
from evalreg.covariance.reach import Ends, MoverFloor, Reach
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import ArgumentError, LeverageWarning, Note, RepairWarning
from evalreg.estimate import selects
from evalreg.numerics.limits import HELD, LAST_DIGITS, ROOT_OF_ROUNDING
from evalreg.numerics.matrices import (
    DENSE_SHARE,
    Matrix,
    compressed,
    dense,
    is_identity,
    of_columns,
    parts_of,
    squared_entries,
)
from evalreg.scores.score_interval import Paired, SingleMeans, UnpairedMeans

T = TypeVar("T")


def touching(C: Matrix, which: BoolArray | None) -> BoolArray:
    """Contrasts (m, n_params) that some of these parameters enter, shape (m,); None is none of them."""
    if which is None or not which.any():
        return np.zeros(C.shape[0], dtype=bool)
    return np.asarray((C != 0) @ which, dtype=bool)


@dataclass(frozen=True, eq=False)
class Term:
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
        Parameters with cells that rest on a single cluster.
    blind : ndarray, shape (n_params, n_directions), optional
        What single clusters alone determine in a regression: how the parameters move along each such direction. A
        contrast that moves has no variance; one in which it cancels has.
    counted : float, optional
        Degrees of freedom without leverages, n - k of the naive covariance; G - 1 by default.
    """

    by: Axis
    dims: tuple[int, ...]
    n_clusters: int
    matrix: FloatArray
    leverage: Leverage | None
    contrasts: Matrix | None
    lost: BoolArray
    blind: FloatArray | None = None
    counted: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "matrix", frozen(self.matrix))

    @property
    def name(self) -> str:
        """Columns joined by a colon; "rows" for the naive covariance."""
        return axis_name(self.by) if self.by else "rows"

    @property
    def sign(self) -> int:
        """(-1)^(|A|+1)."""
        return sign(self.dims)

    @property
    def dof_name(self) -> str:
        """What the degrees of freedom are, in a word."""
        if isinstance(self.leverage, WelchDof):
            single = self.contrasts is None or bool(np.all(np.count_nonzero(dense(self.contrasts), axis=1) == 1))
            return "n - 1" if single else "Welch-Satterthwaite"
        return "G - 1" if self.by else "n - k"

    def variance(self, C: Matrix) -> FloatArray:
        """Diagonal of C V_A C'."""
        return quadratic(C, self.matrix)

    @property
    def _fixed_dof(self) -> float:
        return float(self.n_clusters - 1) if self.counted is None else self.counted

    def dof(self, C: Matrix) -> FloatArray:
        """Degrees of freedom of each contrast of the parameters."""
        if self.leverage is None or C.shape[0] == 0:
            return np.full(C.shape[0], self._fixed_dof)
        # Some at a time, of so many entries as if all were there.
        return np.concatenate([self._dof(C[some]) for some in parts_of(C.shape[0], max(2 * HELD // C.shape[1], 2000))])

    def _dof(self, C: Matrix) -> FloatArray:
        assert self.leverage is not None
        if self.contrasts is None:
            return self.leverage.dof(dense(C))
        dof = None
        if isinstance(self.leverage, CellLeverage):
            if self.leverage.parameters is not None and is_identity(C):
                return self.leverage.parameters
            # Of more combinations than contrasts, of one or two each, as all differences of a board are.
            if sparse.issparse(self.contrasts) and C.shape[0] > C.shape[1]:
                of_two = np.isin(np.diff(compressed(C).indptr), (1, 2)).all()
                dof = self.leverage.of_pairs(C, self._projected) if of_two else None
        return self.leverage.dof(self._product(C)) if dof is None else dof

    def _product(self, C: Matrix) -> Matrix:
        """C times the contrasts; sparse where both may be, as differences of many models touch few of the cells."""
        if sparse.issparse(self.contrasts) or (sparse.issparse(C) and self._thin is not None):
            return of_columns(compressed(C), self._thin)
        if C.size > 1 << 14 and self._thin is not None and np.count_nonzero(C) < DENSE_SHARE * C.size:
            return dense(of_columns(compressed(C), self._thin))  # the parameters themselves, of which there are many
        return C @ self.contrasts

    @cached_property
    def _thin(self) -> Matrix | None:
        """The contrasts in compressed sparse rows; None where they are dense."""
        contrasts: Matrix = self.contrasts
        if not sparse.issparse(contrasts) and np.count_nonzero(contrasts) >= DENSE_SHARE * contrasts.size:
            return None
        return compressed(contrasts)

    @cached_property
    def _projected(self) -> Projected:
        assert isinstance(self.leverage, CellLeverage)
        return self.leverage.project(self.contrasts)

    def hotelling(self, C: FloatArray) -> float:
        """eta of the approximate Hotelling test of contrasts of the parameters; G - 1 without leverages."""
        if self.leverage is None:
            return self._fixed_dof
        return self.leverage.hotelling(C if self.contrasts is None else dense(C @ self.contrasts))

    def linear(self, C: FloatArray) -> Term:
        """The same term for contrasts of the parameters."""
        contrasts = None if self.contrasts is None else C @ self.contrasts
        blind = None if self.blind is None else _moved(C, self.blind)
        leverage = self.leverage.linear() if isinstance(self.leverage, CellLeverage) else self.leverage
        return replace(
            self,
            matrix=C @ self.matrix @ C.T,
            leverage=leverage,
            contrasts=contrasts,
            lost=(C != 0) @ self.lost,
            blind=blind,
        )

    def undetermined(self, C: Matrix) -> BoolArray:
        """Contrasts of a regression that some cluster alone determines, wholly or in part, shape (m,)."""
        if self.blind is None:
            return np.zeros(C.shape[0], dtype=bool)
        return np.asarray(np.any(_moved(C, self.blind) != 0, axis=1))


def _moved(C: Matrix, directions: FloatArray) -> FloatArray:
    """C D, zero where it cancels."""
    moved = C @ directions
    moved[np.abs(moved) <= ROOT_OF_ROUNDING * (abs(C) @ np.abs(directions))] = 0.0
    return np.asarray(moved)


@dataclass(frozen=True, eq=False)
class Covariance:
    """Covariance of parameters, with its terms by axis; made by `covariance`.

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
    pieces : tuple of Term
        Terms of inclusion-exclusion, axes first.
    independent : callable
        Returns `naive`, the covariance for independent rows, shape (n_params, n_params), which may need the rows.
    smallest_dof : float
        min over axes of G - 1 (G - S with strata, of the mean with the fewest); n - k without groups.
    most_naive : ndarray, shape (n_params,), optional
        What the variances for independent rows are at most, where that is known without them.
    bounded : bool
        Whether the parameters are means of scores in [0, 1].
    repaired : ndarray, shape (n_params, n_params), optional
        The matrix after "eigen", "two-term" or "none"; None where variances come from the terms.
    change : str
        What the repair changed, in words; empty if nothing.
    fixed : ndarray of bool, shape (n_params,), optional
        Parameters that are constants, such as the rating of the reference; their variance is zero.
    floor : MoverFloor, optional
        Below which no variance may lie: another covariance of the same parameters, say.
    withheld : ndarray of bool, shape (n_params,), optional
        Parameters whose rows are too thinly spread to say anything of them.
    means : bool
        Whether the parameters are made of means of cells: one that rests on a single cluster of some axis has no
        variance then, even where another axis gives one.
    paired : Paired, optional
        Scores in [0, 1] of models on the same questions, whose differences have a null variance.
    single : SingleMeans, optional
        Means of scores in [0, 1], which have one too.
    ends : Ends, optional
        Means of scores in [0, 1] without a variance, of models that lost all say; differences from them allow for the
        ends of their intervals.
    within : str
        Where scores that give no variance do not vary, if they may differ elsewhere: within pairs, strata or means.
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
    pieces: tuple[Term, ...]
    independent: Callable[[], FloatArray]
    smallest_dof: float
    most_naive: FloatArray | None = None
    bounded: bool = False
    repaired: FloatArray | None = None
    change: str = ""
    fixed: BoolArray | None = None
    floor: MoverFloor | None = None
    withheld: BoolArray | None = None
    means: bool = False
    paired: Paired | None = None
    single: SingleMeans | None = None
    ends: Ends | None = None
    within: str = ""
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_clusters", MappingProxyType(dict(self.n_clusters)))
        hold(self)

    def __getstate__(self) -> dict[str, Any]:
        # Views of mappings cannot be pickled, and what is in the cache can be made again.
        fields = {name: value for name, value in self.__dict__.items() if name not in ("cache", "_memo")}
        return {**fields, "n_clusters": dict(self.n_clusters), "independent": partial(np.array, self.naive)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays come out of a pickle as ones that can be written.
        self.__dict__.update(state | {"n_clusters": MappingProxyType(state["n_clusters"])})
        hold(self)

    @cached_property
    def cache(self) -> dict[str, Any]:
        """What statements about many contrasts make of it, each thing once, by name; neither pickled nor copied."""
        return {}

    @cached_property
    def _memo(self) -> dict[str, Any]:
        return {}

    @property
    def naive(self) -> FloatArray:
        """The covariance for independent rows, shape (n_params, n_params)."""

        def made() -> FloatArray:
            matrix = frozen(self.independent())
            # The rows, which it may have needed, are let go.
            object.__setattr__(self, "independent", partial(np.array, matrix))
            return matrix

        return self._once("naive", None, made)

    def _once(self, name: str, contrasts: Matrix | None, make: Callable[[], T]) -> T:
        """What is made of contrasts; of the parameters themselves, for which nearly every statement asks, once."""
        if contrasts is not None:
            return make()
        if name not in self._memo:
            self._memo[name] = make()
            hold(self._memo[name])
        return cast("T", self._memo[name])

    @property
    def crossed(self) -> bool:
        """Whether there are two or more axes."""
        return len(self.axes) > 1

    @property
    def summed(self) -> bool:
        """Whether widths are sums of t^2 V over terms, so that no single t serves all levels."""
        return self.crossed and self.options.dof_by_axis

    @property
    def raw(self) -> FloatArray:
        """The sum of the terms with their signs, before any repair, shape (n_params, n_params)."""
        return frozen(sum(term.sign * term.matrix for term in self.pieces))

    @property
    def one_way(self) -> tuple[Term, ...]:
        """The terms of single axes (or the naive term)."""
        return tuple(term for term in self.pieces if len(term.dims) <= 1)

    @property
    def sum_one_way(self) -> FloatArray:
        """Sum over axes of V_d, positive semi-definite, shape (n_params, n_params)."""
        return np.asarray(sum(term.matrix for term in self.one_way))

    @property
    def matrix(self) -> FloatArray:
        """The covariance shown, shape (n_params, n_params); its diagonal is the square of the standard errors.

        Under ``repair="max"`` it is D R D, D^2 the variances and R the correlation of the summed one-way terms.
        """
        variance = self.variance()
        if self.repaired is not None:
            matrix = self.repaired.copy()
        else:
            scale = quotient(np.sqrt(variance), np.sqrt(np.diag(self.sum_one_way)), 0.0)
            matrix = self.sum_one_way * np.outer(scale, scale)
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
        if self.ends is not None:
            return self._plain_widths(contrasts).variance.copy()
        return self._once("variance", contrasts, lambda: self._seen(self._contrasts(contrasts), None)).copy()

    def _seen(self, C: Matrix, reach: Reach | None) -> FloatArray:
        """Variances from the terms alone."""
        value = self._unsettled(C)
        if self.most_naive is not None and np.all(value > LAST_DIGITS * (squared_entries(C) @ self.most_naive)):
            return np.where(self._fixed(C), 0.0, np.where(self._undetermined(C) | self._withheld(C), np.nan, value))
        scale = squared_entries(C) @ np.diag(self.naive)
        # Without a cluster other opponents are left, so that verdicts of 0 and 1 vary though none does within its pair.
        least = np.where(self.options.kind.leaves_out & (scale == 0), LAST_DIGITS**2, LAST_DIGITS * scale)
        none = ~(value > least) | ((scale == 0) & (least == 0))
        # Zero is a variance only where the bounds of the scores give an interval in its place.
        flat = (scale == 0) | ((value >= 0) & (not self.crossed))
        ends = np.full(value.size, self.bounded)
        if reach is not None:
            ends[reach.row] = True
        for source in self._sources if none.any() else ():
            ends[source.sides(C).rows] = True
        constant = none & flat & ends & ~self._lost(C)
        undetermined = touching(C, self.lost) & (none | self.means | self.options.kind.leaves_out)
        undetermined |= self._undetermined(C)
        unknown = none | undetermined | self._withheld(C)
        if self.floor is not None:
            value = np.fmax(value, self.floor.variance(C))
        settled = (constant & ~self._withheld(C)) | self._fixed(C)
        return np.where(settled, 0.0, np.where(unknown, np.nan, value))

    def _unsettled(self, C: Matrix) -> FloatArray:
        if self.repaired is not None:
            return quadratic(C, self.repaired)
        # MNW 2024: from the stored terms, never from a repaired matrix; no set of fewer axes gives more.
        each = np.array([term.variance(C) for term in self.pieces])
        return crossed_variance(each, [term.dims for term in self.pieces], "max")

    @property
    def lost(self) -> BoolArray:
        """Parameters with cells that rest on a single cluster of some axis, shape (n_params,)."""
        return np.asarray(np.any([term.lost for term in self.one_way], axis=0))

    def _lost(self, C: Matrix) -> BoolArray:
        return touching(C, self.lost) | self._undetermined(C)

    def _undetermined(self, C: Matrix) -> BoolArray:
        return np.asarray(np.any([term.undetermined(C) for term in self.one_way], axis=0))

    def _fixed(self, C: Matrix) -> BoolArray:
        return np.zeros(C.shape[0], dtype=bool) if self.fixed is None else ~touching(C, ~self.fixed)

    def _withheld(self, C: Matrix) -> BoolArray:
        return touching(C, self.withheld)

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
        variance = self.variance(contrasts)
        if np.all(variance > 0):
            return [""] * variance.size
        lost, scale = self._lost(C), squared_entries(C) @ np.diag(self.naive)
        totals_vary = np.max([term.variance(C) for term in self.one_way], axis=0) > LAST_DIGITS * scale
        reasons = {
            "": (variance > 0) | ((variance == 0) & (self.fixed is not None)),
            f"it rests on a single {'cluster' if self.axes else 'row'}": lost,
            "it rests on too few clusters": self._withheld(C),
            f"the scores do not vary{self.within}": scale == 0,
            "the cluster totals do not vary": ~totals_vary,
        }
        last = f"the crossed variance is not positive under {passed(repair=self.options.repair)}"
        return list(map(str, np.select(list(reasons.values()), list(reasons), last)))

    def half_width(self, contrasts: FloatArray | None = None, alpha: float | FloatArray = 0.05) -> FloatArray:
        """Half-widths of two-sided t intervals of contrasts of the parameters: estimate +- half-width.

        Crossed, H with H^2 = sum over terms of t^2 V, each term with its own degrees of freedom, and never less than
        any set of fewer axes gives.

        Parameters
        ----------
        contrasts : ndarray, shape (n_contrasts, n_params), optional
            The parameters themselves by default.
        alpha : float or ndarray, shape (n_contrasts,), default 0.05
            Level; 0.05 gives 95% intervals.

        Returns
        -------
        ndarray, shape (n_contrasts,)
            0 where the variance is, NaN where there is none.

        References
        ----------
        Banerjee (1960), Sankhya 22, 359-362; Cameron, Gelbach and Miller (2011), JBES 29(2), eq. 2.13.
        """
        return self._plain_widths(contrasts).half(alpha)

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
        alpha : float or ndarray, shape (n_contrasts,), default 0.05
            Level; 0.05 gives 95% intervals.

        Returns
        -------
        ndarray, shape (n_contrasts, 2)
            Estimate +- half-width, NaN without a variance; of means of scores in [0, 1] and of paired differences the
            values that a score test keeps.
        """
        return self.widths(contrasts).limits(np.asarray(estimate, dtype=np.float64), alpha)

    def pvalues(self, contrasts: FloatArray | None, distance: FloatArray) -> FloatArray:
        """Two-sided p-values of contrasts, given their distances from the values under the null.

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
        alpha : float or ndarray, shape (n_contrasts,), default 0.05
            Level.

        Returns
        -------
        ndarray, shape (n_contrasts,)
            Without units.
        """
        return self._plain_widths(contrasts).critical(alpha)

    def dof(self, contrasts: FloatArray | None = None, alpha: float | FloatArray = 0.05) -> FloatArray:
        """Degrees of freedom of contrasts of the parameters.

        Crossed they depend a little on the level: t with so many has the half-width of that level.

        Parameters
        ----------
        contrasts : ndarray, shape (n_contrasts, n_params), optional
            The parameters themselves by default.
        alpha : float or ndarray, shape (n_contrasts,), default 0.05
            Level, for crossed clusters.

        Returns
        -------
        ndarray, shape (n_contrasts,)
            inf where the normal is the reference.
        """
        at_level = partial(self._plain_widths(contrasts).dof, alpha)
        usual = np.ndim(alpha) == 0 and alpha == USUAL_LEVEL
        return self._once("dof", contrasts, at_level).copy() if usual else at_level()

    def widths(self, contrasts: Matrix | None = None) -> Widths:
        """Variances and degrees of freedom of contrasts, from which every interval and p-value comes.

        Parameters
        ----------
        contrasts : ndarray or sparse array, shape (n_contrasts, n_params), optional
            The parameters themselves by default. Of differences of many models a sparse array is far smaller.

        Returns
        -------
        Widths
            With `half(alpha)`, `limits(estimate, alpha)`, `pvalues(distance)`, `critical(alpha)` and `dof(alpha)`.
        """
        plain = self._plain_widths(contrasts)
        return self._once("all", contrasts, lambda: replace(plain, scored=self._scored(contrasts, plain.variance)))

    def _plain_widths(self, contrasts: Matrix | None) -> Widths:
        """Widths by standard errors alone."""
        return self._once("plain", contrasts, lambda: self._widths(contrasts))

    def _scored(self, contrasts: Matrix | None, variance: FloatArray) -> Scored | None:
        """Contrasts whose variance depends on the value tested; it grows on the axis with the most clusters."""
        if not self._sources:
            return None
        term = max(range(len(self.axes) or 1), key=lambda d: self.pieces[d].n_clusters)
        C, parts = None if contrasts is None else self._contrasts(contrasts), []
        for source in self._sources:
            sides = source.sides(C)
            scored_C = self._contrasts(C)[sides.rows]
            lost = self._lost(scored_C) | self._withheld(scored_C)
            seen = variance[sides.rows]
            held = (seen > 0) | (~lost if source.signed else seen == 0)
            sides, scored_C = sides.chosen(held), scored_C[held]
            if not sides.rows.size:
                continue
            V = self.pieces[term].variance(scored_C) / sides.scale**2
            V = np.where(LAST_DIGITS * np.abs(squared_entries(scored_C) @ np.diag(self.naive)) < V, V, 0.0)
            null = source.null_variance(sides, V, self.main_axis)
            parts.append(Scored(sides.rows, sides.scale, term if self.summed else 0, null))
        return Scored.joined(parts) if parts else None

    @property
    def main_axis(self) -> Axis | None:
        """The axis with the most clusters; None of independent rows."""
        return max(self.axes, key=lambda axis: self.n_clusters[axis_name(axis)], default=None)

    @property
    def _unpaired(self) -> UnpairedMeans | None:
        return None if self.single is None or self.single.opposed else UnpairedMeans(self.single, self.paired)

    @property
    def _sources(self) -> list[SingleMeans | Paired | UnpairedMeans]:
        """Scores in [0, 1] that give contrasts a score interval."""
        return [source for source in (self.single, self.paired, self._unpaired) if source is not None]

    def _widths(self, contrasts: Matrix | None) -> Widths:
        C = self._contrasts(contrasts)
        reach = self.reach(C)
        seen = self.variance(contrasts) if self.ends is None else self._seen(C, reach)
        if self.summed:
            dims = [term.dims for term in self.pieces]
            variances, dofs = np.array([(term.variance(C), term.dof(C)) for term in self.pieces]).swapaxes(0, 1)
            widths = crossed_widths(seen, variances, dofs, dims, self.options.repair)
        else:
            widths = Widths.one_t(seen, self._one_dof(C))
        return widths if reach is None else widths.allowing(reach)

    def reach(self, contrasts: Matrix, *, together: bool = False) -> Reach | None:
        """What contrasts allow for beyond their variance, where a mean in them has none; None where none does.

        Parameters
        ----------
        contrasts : ndarray or sparse array, shape (n_contrasts, n_params)
            C.
        together : bool, default False
            For a joint test, which has no score interval of means or of unpaired differences.

        Returns
        -------
        Reach or None
            Not of means and differences that have a score interval, which allows for what was not seen.
        """
        reach = None if self.ends is None else self.ends.reach(contrasts)
        every = np.arange(contrasts.shape[0])
        for scored in self._sources if not together else (self.paired,):
            if reach is not None and scored is not None:
                reach = reach.within(np.setdiff1d(every, scored.sides(contrasts).rows))
        return reach

    def _one_dof(self, C: Matrix) -> FloatArray:
        """Degrees of freedom where one t serves all levels."""
        rule = self.options.dof
        if rule == "satterthwaite" or (rule == "min" and not self.axes):
            return self.pieces[0].dof(C)
        if rule == "min" and all(isinstance(term.leverage, CountedDof) for term in self.one_way):
            return np.asarray(np.min([term.dof(C) for term in self.one_way], axis=0))
        return np.full(C.shape[0], fixed_dof(rule, self.smallest_dof))

    def linear(self, contrasts: FloatArray, names: Sequence[str]) -> Covariance:
        """The covariance of C theta, from the same terms.

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
        naive = C @ self.naive @ C.T
        # Win rates and centred ratings have sums that are constants: what is left of their variances is rounding.
        scale = squared_entries(C) @ np.diag(self.naive)
        constant = (scale > 0) & (np.diag(naive) <= LAST_DIGITS * scale)
        naive[constant] = naive[:, constant] = 0.0
        fixed = None if self.fixed is None else self._fixed(C)

        def of(part: Any) -> Any:
            return None if part is None else part.linear(C)

        return replace(
            self,
            names=tuple(names),
            pieces=tuple(term.linear(C) for term in self.pieces),
            independent=partial(np.array, naive),
            most_naive=None,
            bounded=self.bounded and selects(C),
            fixed=constant | self._fixed(C) if constant.any() else fixed,
            floor=of(self.floor),
            withheld=None if self.withheld is None else self._withheld(C),
            paired=of(self.paired),
            single=of(self.single),
            ends=of(self.ends),
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

    def _contrasts(self, contrasts: Matrix | None) -> Matrix:
        if contrasts is None:
            return np.eye(len(self.names))
        C = compressed(contrasts) if sparse.issparse(contrasts) else contrast_matrix(contrasts)
        return with_width(C, len(self.names))


def contrast_matrix(contrasts: Any) -> FloatArray:
    """Contrasts that are written as numbers, one a row."""
    try:
        return np.atleast_2d(real_numbers(contrasts))
    except (TypeError, ValueError):
        raise ArgumentError(
            "a contrast as an array must hold numbers; got "
            f"{listed(contrasts) if isinstance(contrasts, list | tuple) else repr(contrasts)[:200]}. Several "
            "hypotheses as text go into one string, with commas between them."
        ) from None


def with_width(contrasts: Matrix, n_params: int) -> Matrix:
    """The contrasts, which must be a matrix with a column for each parameter."""
    if contrasts.shape[1:] != (n_params,):
        raise ArgumentError(
            f"contrasts must have one column for each parameter, here {n_params}; got shape {contrasts.shape}."
        )
    return contrasts


# A parameter that moves by more than this share of the one that moves most is what a cluster alone determines; others
# are measured from it.
MOSTLY = 0.6


def term_notes(cov: Covariance) -> Iterator[Note]:
    """What to say about parameters that a single cluster determines, those measured from them, and about a repair."""
    size = np.zeros(len(cov.names))
    for term in cov.one_way:
        if term.blind is not None:
            moved = np.abs(term.blind)
            size = np.maximum(size, np.max(moved / np.max(moved, axis=0), axis=1))
    alone, rest = (list(compress(cov.names, part)) for part in (size > MOSTLY, (size > 0) & (size <= MOSTLY)))
    if alone:
        which = "cluster" if cov.crossed else cov.one_way[0].name
        it, has = ("it", "it has no error bar") if len(alone) == 1 else ("them", "they have no error bars")
        text = f"{listed(alone)}: only one {which} determines {it} (leverage 1), so that {has}."
        if rest:
            verbs = ("is", "has") if len(rest) == 1 else ("are", "have")
            text += f" {listed(rest)} {verbs[0]} measured from there and {verbs[1]} none either."
        text += " Differences without it have theirs. Merge it with another level, or leave its rows out."
        yield LeverageWarning, text
    lost = list(compress(cov.names, cov.lost))
    if lost:
        which = "it" if len(lost) == 1 else "each of them"
        text = f"{listed(lost)}: some cluster alone determines {which} (leverage 1){cov.options.kind.single}."
        yield LeverageWarning, text
    if cov.change and cov.options.repair == "eigen":
        yield RepairWarning, f"the crossed covariance was not positive semi-definite: {cov.change}."

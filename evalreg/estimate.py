"""The immutable Estimate, params + scores + bread: its algebra, what it was drawn from, and what is behind it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, Names, frozen, hold, listed, nearest_or_all, repeated
from evalreg.data.clusters import Axes, Axis
from evalreg.errors import ArgumentError, ArgumentTypeError, MissingColumnError, NotAvailableError
from evalreg.numerics.limits import LAST_DIGITS, ROUNDING
from evalreg.numerics.matrices import Matrix, compressed, dense, scale_columns, transposed, with_entries
from evalreg.scores.base import EVERY_ROW, with_every_row
from evalreg.scores.differences import PairedMeans
from evalreg.scores.score_interval import ICC_DIFFERENCE
from evalreg.scores.stacking import ConcatScores, StackedScores

if TYPE_CHECKING:
    from evalreg.scores.base import Block, Cells, Scores
    from evalreg.scores.rows import Absorbed
    from evalreg.scores.score_interval import Paired, SingleMeans


@dataclass(frozen=True, eq=False)
class Population:
    """How much of a population was drawn, and what does not become less by it.

    Parameters
    ----------
    scale : ndarray, shape (n_columns,)
        sqrt(1 - n/N) of what each column of the scores was drawn from.
    noise : ndarray or sparse array, shape (n_columns, n_columns), optional
        n/N times the covariance of the totals of the columns that the answers alone make; with `scale` they are whole.
    axes : tuple of str
        The clustering whose whole clusters were drawn; empty for questions drawn one by one.
    """

    scale: FloatArray
    noise: Matrix | None = None
    axes: Names = ()

    @property
    def factor(self) -> float:
        """The largest 1 - n/N, by which the variance of a draw with replacement is multiplied; Cochran, eq. 2.8."""
        return float(np.max(self.scale) ** 2)

    def beside(self, other: Population, same_rows: bool) -> Population:
        """Both, of estimates side by side; those of the same rows must be of one sampling."""
        if same_rows and (self.axes, {*self.scale}) != (other.axes, {*other.scale}):
            raise NotAvailableError(
                "of a finite benchmark only estimates of one sampling can be stacked. Give both the same `target`, "
                "`groups` and `n_population`."
            )
        noise = None
        if self.noise is not None or other.noise is not None:
            noise = _diagonal(
                *(sparse.csr_array((p.scale.size,) * 2) if p.noise is None else p.noise for p in (self, other))
            )
        axes = tuple(dict.fromkeys((*self.axes, *other.axes)))
        return Population(np.concatenate([self.scale, other.scale]), noise, axes)


@dataclass(frozen=True, eq=False)
class Ratings:
    """Which parameters are ratings, of which only differences are known."""

    names: Names
    # The one that is zero; None where they sum to zero.
    zero: str | None
    # A log-odds in the units of each parameter, (n_params,); of what differs between sides, for a usual difference.
    units: FloatArray


@dataclass(frozen=True, eq=False)
class Refit:
    """What leaving clusters out needs besides the scores' grams."""

    # (n_columns,) or (n_columns, n_columns): M = (X'WX)^-1; a vector where it is diagonal (cells)
    inverse_gram: FloatArray
    linear: bool = True  # whether leaving out a cluster is exact (least squares, means) rather than one Newton step
    # solves again without each cluster, where that is more than the leverages tell: the `Schedule` of win rates
    leave_out: Any = None
    # (n_params, n_solved): the parameters as contrasts of those that `leave_out` solves for; None where they are the
    # same
    contrasts: Matrix | None = None
    delta: bool = False  # whether the parameters are a smooth function of what is solved for, by the delta method
    # whether one Newton step stands for solving again, as for likelihoods of comparisons
    step: bool = False
    ratings: Ratings | None = None

    @property
    def exact(self) -> bool:
        """Whether leaving out a cluster is solving again without its rows, or the step that stands for it."""
        return (self.linear or self.step or self.leave_out is not None) and not self.delta

    def without(self, block: Block) -> Matrix:
        """theta_(g) - theta by `leave_out`, (n_clusters, n_params); NaN where nothing is left to solve one from."""
        change: Matrix = self.leave_out(block)
        C = self.contrasts
        if C is None:
            return change
        change = dense(change)
        unsolved = np.asarray(np.isnan(change).astype(float) @ (abs(C) > 0).T) > 0
        return np.where(unsolved, np.nan, np.asarray(np.nan_to_num(change) @ C.T))

    def map(self, C: Matrix) -> Refit:
        """The same for contrasts of the parameters."""
        if self.leave_out is None:
            return self if self.ratings is None else replace(self, ratings=None)
        return replace(self, contrasts=C if self.contrasts is None else C @ self.contrasts)


# The outcome of an estimate that was made elsewhere.
NOT_GIVEN = "not given"


@dataclass(frozen=True)
class About:
    """What is said of an estimate in a summary."""

    model: str = "estimate"  # what was estimated, "OLS" say
    outcome: str = "score"  # the score's name
    formula: str = ""  # where there is one
    # how intervals are built by standard errors, where they are
    interval: Literal["wald", "logit"] = "wald"
    lines: Names = ()  # further sentences
    n_models: int = 0  # how many of the first parameters are models, which can be ranked
    unit: bool = False  # whether the scores lie in [0, 1]
    one_board: bool = False  # whether these are all the models of one leaderboard, whose differences the log is about
    subset: str = ""  # the filter of `subset`, and how many rows it kept of how many
    null: float = 0.0  # what t and p test each parameter against
    # whether these are levels of scores that all lie on one side of 0, so that a test against 0 tells nothing
    levels: bool = False
    contrast: bool = False  # whether the parameters are contrasts of those that `model` names
    subject: str = ""  # of what the score is, as a log names it: "gpt-x on gsm8k (exact_match)"
    icc: float | None = None  # what means in [0, 1] grant to failures not seen, in their score interval

    def linear(self, C: Matrix) -> About:
        """What is said of C theta: the same of some of the parameters, otherwise of contrasts."""
        if selects(C):
            places = np.argmax(dense(C) != 0, axis=1)
            others = np.flatnonzero(places >= self.n_models)
            return replace(self, n_models=int(others[0]) if others.size else places.size, one_board=False)
        about = self._new(self.model if self.contrast else f"Contrast of {self.model}", contrast=True)
        # Sums of what lies on one side of 0 do so too.
        return replace(about, levels=self.levels and on_one_side(dense(C), dense(C)))

    def transform(self, J: FloatArray) -> About:
        """What is said of a function of theta; models stay models where each value is of one parameter, in order."""
        diagonal = J.shape[0] == J.shape[1] and np.count_nonzero(J - np.diag(np.diag(J))) == 0
        return self._new(f"Function of {self.model}", self.n_models if diagonal else 0)

    def _new(self, model: str, n_models: int = 0, contrast: bool = False) -> About:
        """What is said of parameters that are made of these."""
        about = replace(self, model=model, n_models=n_models, contrast=contrast, interval="wald", lines=())
        return replace(about, one_board=False, null=0.0, levels=False)

    def beside(self, other: About, n_params: tuple[int, int]) -> About:
        """What is said of two estimates side by side."""
        words: dict[str, Any] = {
            name: " and ".join(dict.fromkeys(filter(None, (getattr(self, name), getattr(other, name)))))
            for name in ("model", "outcome", "formula", "subset")
        }
        alike = (self.model, self.outcome, self.formula) == (other.model, other.outcome, other.formula)
        # Models of two boards are one list to be ranked only where the boards are of the same thing.
        first = self.n_models + (other.n_models if self.n_models == n_params[0] else 0)
        return About(
            **words,
            interval=self.interval if self.interval == other.interval else "wald",
            lines=tuple(line for line in self.lines if line in other.lines),
            n_models=first if alike else 0,
            unit=self.unit and other.unit,
            null=self.null if self.null == other.null else 0.0,
            levels=self.levels and other.levels,
            contrast=self.contrast,
        )


def on_one_side(low: FloatArray, high: FloatArray) -> bool:
    """Whether no value is below 0, or none above."""
    return bool(np.min(low) >= 0 or np.max(high) <= 0)


def selects(C: Matrix) -> bool:
    """Whether every row of C picks one parameter."""
    rows = dense(C)
    return bool(np.all((np.count_nonzero(rows, axis=1) == 1) & (rows.sum(axis=1) == 1)))


EstimateKind: TypeAlias = Literal["mean", "board", "least squares", "likelihood"]
"""Which small-sample conventions apply; a board is a map of means of pairs, whose rows count together."""


class Family:
    """What the estimates of one kind know besides parameters, scores and bread; this one knows nothing more.

    `interval_rule` names the default intervals where a rule of its own makes them. `own_range` says whether those in
    [0, 1] need what is held here, and `not_resolved` why the estimate is not solved again without a cluster (empty
    where it can be).
    """

    interval_rule: str = ""
    own_range: ClassVar[bool] = False
    not_resolved: ClassVar[str] = ""
    # The clustering whose clusters count as rows do elsewhere; None where rows count.
    unit: Names | None = None
    # Scores in [0, 1] that have null variances: on the same questions those of differences; and those of means.
    paired: Paired | None = None
    single: SingleMeans | None = None

    def ends(self, estimate: Estimate, cov: Any, alpha: float | FloatArray) -> FloatArray | None:
        """Ends of default intervals, (n_params, 2), of parameters that have a rule of their own; None of others.

        At one level, or each at its own. An interval holds those of higher levels: p-values are the levels at which
        they end at the value tested.
        """
        return None

    def without_variance(self, estimate: Estimate, cov: Any) -> Any:
        """Parameters without a variance for whose ends differences allow, of a rule of their own; None of others."""
        return None

    def drawn(self, scale: FloatArray) -> Family:
        """The same of columns whose variances fall by a factor, sqrt(1 - n/N), in a finite population."""
        return self

    def linear(self, whole: Estimate, C: Matrix) -> Family:
        """What C theta keeps of it; contrasts of means of which one is 0 or 1 all of these, whose ends they need."""
        at_end = whole.bounded and not self.own_range and bool(np.any((whole.params <= 0) | (whole.params >= 1)))
        return Contrasted(whole, C) if at_end and not selects(C) else self

    def transform(self) -> Family:
        """What a smooth function of theta keeps; made from what `linear` keeps."""
        return PLAIN

    def moved(self, constant: FloatArray) -> Family:
        """What the parameters keep when constants are added to them."""
        return self

    def leverage(self, estimate: Estimate, leverage: Any) -> Any:
        """What gives degrees of freedom, from leverages under the working model that rows vary alike in all cells."""
        return leverage

    def source(self, estimate: Estimate) -> tuple[Estimate, Matrix | None]:
        """The estimate whose limits bound variances, and these parameters as contrasts of its own (None: they are)."""
        return estimate, None

    def with_labels(self, more: dict[str, Any]) -> Family:
        """The same where the rows have further columns of labels, given as arrays or Series."""
        return self


PLAIN = Family()


@dataclass(frozen=True, eq=False)
class ScoredFamily(Family):
    """Means of scores in [0, 1], or differences of models on the same questions: what has a score interval.

    Some models may share no questions with others: contrasts of these need what `behind` knows of the means.
    """

    paired: Paired | None = None
    single: SingleMeans | None = None
    behind: Family = PLAIN

    def linear(self, whole: Estimate, C: Matrix) -> Family:
        """The same scores, for contrasts."""
        return self._each(lambda scored: scored.linear(C), self.behind.linear(whole, C))

    def source(self, estimate: Estimate) -> tuple[Estimate, Matrix | None]:
        """Of contrasts the means and C, where a mean is 0 or 1."""
        return self.behind.source(estimate)

    def with_labels(self, more: dict[str, Any]) -> Family:
        """The same answers in further clusters."""
        behind = self.behind.with_labels(more)
        return self._each(lambda scored: replace(scored, scores=scored.scores.with_labels(more)), behind)

    def moved(self, constant: FloatArray) -> Family:
        """The same scores: a constant moves both ends of intervals."""
        return replace(self, behind=self.behind.moved(constant))

    def drawn(self, scale: FloatArray) -> Family:
        """The same where columns were drawn without replacement from a finite population."""
        return self._each(lambda scored: scored.drawn(scale**2), self.behind)

    def _each(self, change: Callable[[Any], Any], behind: Family) -> ScoredFamily:
        return ScoredFamily(self.paired and change(self.paired), self.single and change(self.single), behind)


def same_questions(paired: Paired | None, single: SingleMeans | None = None, behind: Family = PLAIN) -> Family:
    """The family of an estimate with such scores; `behind` where there are none."""
    return behind if paired is None and single is None else ScoredFamily(paired, single, behind)


@dataclass(frozen=True, eq=False)
class Inverted(Family):
    """Parameters whose intervals come from turning around those of something else, as Woodruff's for quantiles.

    `each` makes both ends of a parameter of its half-width by the standard error; None is the estimate -/+ that.
    """

    each: tuple[Callable[[float], tuple[float, float]] | None, ...]
    theta: FloatArray
    constant: FloatArray  # what was added to parameters
    interval_rule: str = ""

    @classmethod
    def of(cls, estimate: Estimate) -> Inverted:
        """The family of an estimate, as one of these."""
        if isinstance(estimate.family, cls):
            return estimate.family
        return cls((None,) * estimate.n_params, np.array(estimate.params), np.zeros(estimate.n_params))

    def beside(self, other: Inverted) -> Inverted:
        """Both, of two estimates side by side."""
        theta, constant = (
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("theta", "constant")
        )
        return Inverted((*self.each, *other.each), theta, constant)

    def ends(self, estimate: Estimate, cov: Any, alpha: float | FloatArray) -> FloatArray:
        """The limits; NaN without a variance."""
        se = np.sqrt(cov.variance())
        return np.where((se > 0)[:, None], self.limits(se, cov.critical(alpha=alpha)), np.nan)

    def limits(self, se: FloatArray, critical: FloatArray) -> FloatArray:
        """Lower and upper end for each parameter's standard error and critical value, shape (n_params, 2)."""
        half = critical * se
        ends = np.column_stack([self.theta - half, self.theta + half])
        for place, inverse in enumerate(self.each):
            if inverse is not None:
                ends[place] = np.array(inverse(half[place])) + self.constant[place]
        return ends

    def linear(self, whole: Estimate, C: Matrix) -> Family:
        """Some of them; contrasts have intervals by their standard errors, which the limits of all bound from below."""
        if not selects(C):
            return Contrasted(whole, C)
        places = np.argmax(dense(C) != 0, axis=1)
        each = tuple(self.each[place] for place in places)
        return replace(self, each=each, theta=self.theta[places], constant=self.constant[places])

    def moved(self, constant: FloatArray) -> Family:
        """The same, with constants added."""
        return replace(self, theta=self.theta + constant, constant=self.constant + constant)


@dataclass(frozen=True, eq=False)
class Contrasted(Family):
    """Contrasts C of the parameters of an estimate whose intervals are inverted."""

    whole: Estimate
    C: Matrix

    def linear(self, whole: Estimate, C: Matrix) -> Family:
        """Contrasts of the same."""
        return Contrasted(self.whole, C @ self.C)

    def transform(self) -> Family:
        """The delta method is a contrast."""
        return self

    def source(self, estimate: Estimate) -> tuple[Estimate, Matrix | None]:
        """The estimate, and C."""
        return self.whole, self.C

    def with_labels(self, more: dict[str, Any]) -> Family:
        """The same, with the labels in what the whole knows; its scores are those of the contrasts."""
        return replace(self, whole=replace(self.whole, family=self.whole.family.with_labels(more)))


@dataclass(frozen=True, eq=False)
class Estimate:
    """Parameters with the scores and the bread that give their covariance under any clustering.

    theta_hat - theta is approximately the sum over rows of B's_r, with s_r the scores of a row and B the bread.

    Parameters
    ----------
    names : tuple of str
        Names of the parameters.
    params : ndarray, shape (n_params,)
        Estimates.
    scores : Scores
        The rows' contributions to the estimating equations, summed within clusters on request.
    bread : ndarray or sparse array, shape (n_columns, n_params)
        Maps scores to influence; already divided by the number of rows.
    kind : {"mean", "board", "least squares", "likelihood"}
        Which small-sample conventions apply.
    n_coefficients : int
        K of the factor (n - 1)/(n - K); 1 for means.
    coefficient_map : ndarray or sparse array, shape (n_params, n_columns), optional
        Params as a linear function of the coefficients, one a column of the scores.
    refit : Refit, optional
        What CR2, CR3 and the jackknife need; None where they are not available.
    cells : Cells, optional
        The cells of an estimate made from cells.
    bounded : bool
        Whether every parameter is a mean of scores that all lie in [0, 1].
    dropped : dict of str to int
        Rows dropped by reason.
    about : About
        Notes on the estimate in a summary.
    fitted : callable, optional
        Gives the statsmodels fit that the estimate was made from.
    r_squared : (float, bool), optional
        R-squared of least squares, and whether it is about the mean.
    family : Family
        What only estimates of its kind know: the human labels of a rectified mean, how a quantile's interval is made,
        the answers of models to the same questions.
    item : tuple of str
        Column of the questions, where it was named: rows that share it are answers to one question. Empty otherwise.
    lost : str
        Why `refit`, which what it was made from had, is no longer there; empty otherwise.
    absorbed : Absorbed, optional
        Factors whose levels a regression absorbed: the columns of its scores are orthogonal to their dummies.
    population : Population, optional
        The finite population that the rows were drawn from without replacement; None is one without end.
    apart : tuple of str
        Columns whose values share no cluster: models that are taken to be independent. Every clustering is joint with
        them.
    default_groups : str or list of str
        Clusters where no groups are named, as in the call that made the estimate; none where rows are independent.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=20, seed=1)
    >>> estimate = er.mean(log, by="model", item="question").estimate
    >>> estimate.names, estimate.linear([[1, -1]], ["new - old"]).params.round(3).tolist()
    (('new', 'old'), [0.05])
    """

    names: Names
    params: FloatArray
    scores: Scores
    bread: Matrix
    kind: EstimateKind
    n_coefficients: int = 1
    coefficient_map: Matrix | None = None
    refit: Refit | None = None
    cells: Cells | None = None
    bounded: bool = False
    dropped: dict[str, int] = field(default_factory=dict)
    about: About = field(default_factory=About)
    fitted: Callable[[], Any] | None = None
    r_squared: tuple[float, bool] | None = None
    family: Family = PLAIN
    item: Axis = ()
    lost: str = ""
    absorbed: Absorbed | None = None
    population: Population | None = None
    apart: Axis = ()
    default_groups: str | list[str] = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", frozen(self.params))
        hold(self)
        if isinstance(self.coefficient_map, sparse.csr_array):
            # In order once, as scipy may do it at any time, and sums depend on it in the last digit.
            self.coefficient_map.sum_duplicates()
        if twice := repeated(self.names):
            raise ArgumentError(f"parameters need distinct names; {listed(twice)} occurs twice.")

    def __getstate__(self) -> dict[str, Any]:
        # A copy holds no rows; an estimate behind ratios is copied with them.
        return {**self.__dict__, "fitted": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays come out of a pickle as ones that can be written.
        self.__dict__.update(state)
        hold(self)

    @property
    def n_params(self) -> int:
        """Number of parameters."""
        return len(self.names)

    @property
    def n_rows(self) -> int:
        """Rows in use."""
        return self.scores.n_rows

    def linear(self, contrasts: Matrix, names: Sequence[str]) -> Estimate:
        """C theta, with its scores: the covariance becomes C V C'.

        Parameters
        ----------
        contrasts : array_like, shape (n_contrasts, n_params)
            C.
        names : sequence of str
            A name for each row of C.

        Returns
        -------
        Estimate
            Of the contrasts.

        Raises
        ------
        ArgumentError
            If the shape does not fit.
        """
        C: Matrix = contrasts if sparse.issparse(contrasts) else np.atleast_2d(np.asarray(contrasts, dtype=float))
        if C.shape != (len(names), self.n_params):
            raise ArgumentError(
                "contrasts must have one row for each name and one column for each parameter, shape "
                f"{(len(names), self.n_params)}; got shape {C.shape}."
            )
        about, family = self.about.linear(C), self.family.linear(self, C)
        if isinstance(self.family, Inverted) and not isinstance(family, Inverted):
            about = replace(about, lines=())  # contrasts have other intervals
        return replace(
            self,
            names=tuple(names),
            params=np.asarray(C @ self.params),
            bread=_without_rounding(C, self.bread.T).T,
            coefficient_map=None if self.coefficient_map is None else _without_rounding(C, self.coefficient_map),
            refit=self.refit and self.refit.map(C),
            bounded=self.bounded and selects(C),
            about=about,
            fitted=None,
            r_squared=None,
            family=family,
        )

    def transform(
        self, function: Callable[[FloatArray], FloatArray], jacobian: FloatArray, names: Sequence[str]
    ) -> Estimate:
        """A smooth function of theta, by the delta method: the covariance becomes J V J'.

        Parameters
        ----------
        function : callable
            Takes params, returns the transformed values, shape (n_out,).
        jacobian : array_like, shape (n_out, n_params)
            J, its derivative at params.
        names : sequence of str
            A name for each value.

        Returns
        -------
        Estimate
            The transformed parameters.
        """
        J = np.atleast_2d(np.asarray(jacobian, dtype=float))
        moved = self.linear(J, names)
        refit = moved.refit and replace(moved.refit, linear=False, delta=True, ratings=None)
        params = np.asarray(function(np.array(self.params)))
        about = self.about.transform(J)
        family = moved.family.transform()
        return replace(moved, params=params, refit=refit, bounded=False, about=about, family=family)

    def moved(self, constant: FloatArray) -> Estimate:
        """The parameters with constants added: no longer means of scores in [0, 1] themselves.

        Parameters
        ----------
        constant : ndarray, shape () or (n_params,)
            What is added.

        Returns
        -------
        Estimate
            The moved parameters.
        """
        about = self.about if self.about.contrast else self.about.transform(np.eye(self.n_params))
        params, family = np.array(self.params) + constant, self.family.moved(constant)
        return replace(self, params=params, bounded=False, about=about, family=family)

    def select(self, names: Sequence[str]) -> Estimate:
        """Some of the parameters, in the order asked.

        Parameters
        ----------
        names : sequence of str
            Parameters to keep.

        Returns
        -------
        Estimate
            Of those parameters.

        Raises
        ------
        MissingColumnError
            If a name is not a parameter.
        """
        for name in names:
            if name not in self.names:
                hint = nearest_or_all(name, self.names)
                raise MissingColumnError(f'"{name}" is not a parameter.{hint}', column=str(name))
        where = [self.names.index(name) for name in names]
        return self.linear(np.eye(self.n_params)[where], names)

    def stack(self, other: Estimate) -> Estimate:
        """Parameters of two estimates of the same rows, with their joint covariance.

        Parameters
        ----------
        other : Estimate
            An estimate of the same rows in the same order.

        Returns
        -------
        Estimate
            Parameters of both; `refit` is kept where both have cells.

        Raises
        ------
        ArgumentError
            If the rows differ in number, or a name occurs in both.
        """
        check_estimate(other, "other")
        if not (self.scores.stackable and other.scores.stackable):
            raise NotAvailableError("`stack` needs means, win rates or regressions whose rows are in memory.")
        scores = StackedScores(self.scores, other.scores)
        if not scores.same_rows():
            raise ArgumentError(
                f"stacked estimates must use the same rows in the same order; got {self.n_rows} and {other.n_rows} "
                "that differ in place or index. Leave out the rows that either has not and bring both to one order "
                "and index, or pass estimates of independent rows to `concat`."
            )
        return self._beside(other, scores, same_rows=True)

    def concat(self, other: Estimate) -> Estimate:
        """Parameters of two estimates of independent rows; their covariance is zero.

        Parameters
        ----------
        other : Estimate
            An estimate of other rows; clusters of the two are different clusters, whatever their labels.

        Returns
        -------
        Estimate
            Parameters of both; `refit` is kept where both have cells.
        """
        check_estimate(other, "other")
        return self._beside(other, ConcatScores(self.scores, other.scores), same_rows=False)

    def _beside(self, other: Estimate, scores: Scores, same_rows: bool) -> Estimate:
        (first, A), (second, B) = (part.family.source(part) for part in (self, other))
        if A is not None or B is not None:
            numbered = [
                replace(part, names=tuple(f"{place}: {name}" for name in part.names))
                for place, part in enumerate((first, second), 1)
            ]
            both = numbered[0]._beside(numbered[1], scores, same_rows)
            maps = (sparse.eye_array(part.n_params) if C is None else C for part, C in ((first, A), (second, B)))
            return both.linear(_diagonal(*maps), (*self.names, *other.names))
        refit, pair = None, [part.refit for part in (self, other) if part.refit and part.refit.inverse_gram.ndim == 1]
        if len(pair) == 2:
            # Of what `leave_out` solves, the two know nothing together.
            exact = all(part.linear and part.leave_out is None for part in pair)
            refit = Refit(np.concatenate([part.inverse_gram for part in pair]), exact)
        coefficient_map = None
        if self.coefficient_map is not None and other.coefficient_map is not None:
            coefficient_map = _diagonal(self.coefficient_map, other.coefficient_map)
        about = self.about.beside(other.about, (self.n_params, other.n_params))
        family = _scored_beside(self, other, scores)
        if isinstance(self.family, Inverted) or isinstance(other.family, Inverted):
            family = Inverted.of(self).beside(Inverted.of(other))
        # The same rows were dropped by both; of independent rows each has dropped its own.
        dropped = {
            reason: self.dropped.get(reason, 0) + (0 if same_rows else other.dropped.get(reason, 0))
            for reason in {**self.dropped, **other.dropped}
        }
        return Estimate(
            names=(*self.names, *other.names),
            params=np.concatenate([self.params, other.params]),
            scores=scores,
            bread=_diagonal(self.bread, other.bread),
            kind=self.kind if self.kind == other.kind else "likelihood",
            n_coefficients=max(self.n_coefficients, other.n_coefficients),
            coefficient_map=coefficient_map,
            refit=refit,
            cells=None if self.cells is None or other.cells is None else self.cells.beside(other.cells),
            bounded=self.bounded and other.bounded and not (self.family.own_range or other.family.own_range),
            dropped=dropped,
            about=about,
            lost="" if refit else _lost_beside(self, other, same_rows),
            item=self.item if same_rows and self.item == other.item else (),
            family=family,
            population=_drawn_beside(self, other, same_rows),
            apart=tuple(dict.fromkeys((*self.apart, *other.apart))),
            default_groups=self.default_groups if self.default_groups == other.default_groups else "",
        )


def _scored_beside(first: Estimate, second: Estimate, scores: Scores) -> Family:
    """What has a score interval of two estimates side by side; of the same questions that of one estimate alone."""
    every = sparse.eye_array(first.n_params + second.n_params, format="csr")
    places, families = (every[:, : first.n_params], every[:, first.n_params :]), (first.family, second.family)
    paired = [of.paired.linear(at) for of, at in zip(families, places, strict=True) if of.paired is not None]
    single = [of.single.linear(at) for of, at in zip(families, places, strict=True) if of.single is not None]
    left, right = (of.single for of in families)
    if left is None or right is None:
        return same_questions(paired[0] if len(paired) == 1 else None, next(iter(single), None))
    both = left.beside(right, scores)
    if scores.stackable and both is not None and np.array_equal(both.weight, both.count):
        items = {of.paired.item for of in families if isinstance(of.paired, PairedMeans) and of.paired.once}
        item = items.pop() if len(items) == 1 else EVERY_ROW  # where questions have no name, rows are the same
        rows = with_every_row(both.scores) if item == EVERY_ROW else both.scores
        return same_questions(PairedMeans(rows, both.means, both.count, both.contrasts, ICC_DIFFERENCE, item), both)
    return same_questions(paired[0] if len(paired) == 1 else None, both)


def _drawn_beside(first: Estimate, second: Estimate, same_rows: bool) -> Population | None:
    """The populations of two estimates side by side; None where both are without end."""
    if first.population is None and second.population is None:
        return None
    # Of one without end no variance falls.
    left, right = (part.population or Population(np.ones(part.bread.shape[0])) for part in (first, second))
    return left.beside(right, same_rows)


def _lost_beside(first: Estimate, second: Estimate, same_rows: bool) -> str:
    """Why two estimates side by side have no design, where one of them had."""
    if not (first.refit or second.refit):
        return first.lost or second.lost
    names = listed(list(dict.fromkeys((first.about.model, second.about.model))), joiner=" and ")
    if not same_rows:
        return f"estimates of independent rows ({names}) are put side by side"
    for part in (first, second):
        if part.refit is None:
            return f'"{part.about.model}" has no design' if not part.lost else part.lost
    return f"estimates side by side ({names}) have no design in common"


def _without_rounding(combinations: Matrix, matrix: Matrix) -> Matrix:
    """The product, zero in rows that cancel to rounding, as of the sum of ratings that sum to zero."""
    product = combinations @ matrix
    # Sparse ones are of equal shares, which cancel exactly.
    if isinstance(combinations, np.ndarray) and isinstance(matrix, np.ndarray):
        largest = np.max(np.abs(combinations) @ np.abs(matrix), axis=1, initial=0.0)
        product[np.max(np.abs(product), axis=1, initial=0.0) <= LAST_DIGITS * largest] = 0.0
    return product


def _diagonal(first: Matrix, second: Matrix) -> Matrix:
    return sparse.block_array([[compressed(first), None], [None, compressed(second)]]).tocsr()


def rows_behind(estimate: Estimate) -> FloatArray | None:
    """Rows that each estimate is made of, (n_params,): those of its cells, or all rows of a regression.

    Of contrasts and functions of coefficients those that move them. None where the parameters are not a map of the
    cells (ratings).
    """
    cells, A, scores = estimate.cells, estimate.coefficient_map, estimate.scores
    moving = scores.rows_moving(dense(estimate.bread)) if of_coefficients(estimate) else None
    if moving is not None:
        return moving
    used = None if A is None else touches(A)
    together = None if used is None or used.shape[1] != scores.n_columns else scores.rows_in(used)
    if used is not None and cells is not None and used.shape[1] == cells.count.size:
        # Scores that do not tell their cells count all rows; some rows are in several cells.
        each = np.asarray(used @ cells.count, dtype=np.float64)
        return each if together is None else np.minimum(together, each)
    if together is not None or cells is not None:
        return together
    return None if estimate.kind == "board" else np.full(estimate.n_params, float(estimate.n_rows))


def cells_behind(estimate: Estimate) -> Estimate | None:
    """The estimate with one parameter made of all cells that any is made of; None where that is every cell."""
    A = estimate.coefficient_map
    used = None if A is None or estimate.cells is None else np.asarray(touches(A).sum(axis=0)).reshape(1, -1) > 0
    if used is None or used.all():
        return None
    return replace(estimate, coefficient_map=used.astype(np.float64))


def of_coefficients(estimate: Estimate) -> bool:
    """Whether parameters are contrasts or functions of a regression's coefficients, which some rows may not move."""
    delta = estimate.refit is not None and estimate.refit.delta
    return estimate.kind in ("least squares", "likelihood") and (estimate.about.contrast or delta)


def of_means(names: Names, A: Matrix, cells: Cells, scores: Scores, *, linear: bool = True, **more: Any) -> Estimate:
    """The estimate A m of the means m of cells, whose rows have the influence A/W times their residuals.

    `linear` is whether the means without a cluster are what its leverage says; `more` are further fields.
    """
    return Estimate(
        names=names,
        params=np.asarray(A @ cells.mean),
        scores=scores,
        bread=transposed(scale_columns(A, 1.0 / cells.weight)) if sparse.issparse(A) else (A / cells.weight).T,
        kind="mean",
        coefficient_map=A,
        refit=Refit(1.0 / cells.weight, linear=linear),
        cells=cells,
        **more,
    )


def check_estimate(value: object, argument: str = "estimate") -> None:
    """Raise unless it is an Estimate."""
    if not isinstance(value, Estimate):
        hint = " Pass its `.estimate`." if hasattr(value, "estimate") else ""
        raise ArgumentTypeError(f"`{argument}` must be an Estimate; got {type(value).__name__}.{hint}")


def touches(A: Matrix) -> Matrix:
    """One where a parameter is made of a cell, shape (n_params, n_cells); what rounding left of a zero is none."""
    rows = compressed(A)
    row, size = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr)), np.abs(rows.data)
    largest = np.zeros(rows.shape[0])
    np.maximum.at(largest, row, size)
    return with_entries(rows, (size > ROUNDING * largest[row]).astype(np.float64))


def effective_clusters(estimate: Estimate, axes: Axes) -> FloatArray:
    """Kish's effective number of clusters of each mean, 1/sum_g share_g^2, the smallest over axes; rows without axes.

    share_g is the weight of cluster g in the mean. Kish (1965), Survey Sampling.
    """
    A, cells = estimate.coefficient_map, estimate.cells
    if A is None or cells is None:
        return np.full(estimate.n_params, np.nan)
    # A win rate has pairs in which its model is the second, with a minus; they count all the same.
    A = abs(compressed(A))
    if not axes:
        return np.asarray(touches(A) @ cells.count, dtype=np.float64)
    smallest = np.full(estimate.n_params, np.inf)
    for axis in axes:
        share = transposed(scale_columns(A, 1.0 / cells.weight))
        smallest = np.minimum(smallest, 1.0 / estimate.scores.column_sums(axis, share).squares)
    return smallest


@dataclass(frozen=True)
class SizeSummary:
    """What the sizes of the clusters say.

    Parameters
    ----------
    n_clusters : int
        G.
    effective_clusters : float
        Kish's G* = (sum n_g)^2 / sum n_g^2.
    largest_share : float
        Share of the largest cluster.
    mean_size : float
        Rows per cluster.
    """

    n_clusters: int
    effective_clusters: float
    largest_share: float
    mean_size: float


def cluster_sizes(estimate: Estimate, axis: Axis) -> SizeSummary:
    """Number of clusters, Kish's G*, the largest share and the mean size; weights count where there are any.

    References
    ----------
    Kish (1965); Carter, Schnepel and Steigerwald (2017), REStat 99(4), with a working correlation of 0.
    """
    sizes = estimate.scores.sizes(axis)
    total = float(sizes.sum())
    return SizeSummary(
        n_clusters=sizes.size,
        effective_clusters=total**2 / float(sizes @ sizes),
        largest_share=float(np.max(sizes)) / total,
        mean_size=estimate.n_rows / sizes.size,
    )

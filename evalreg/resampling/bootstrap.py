"""The cluster bootstrap: draws, sums, intervals and its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, get_args

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import scipy

from evalreg.checks import BoolArray, FloatArray, IntArray, fraction, frozen, keeps, listed, option
from evalreg.covariance.leverage import HELD
from evalreg.covariance.options import Groups, check_two_clusters, drop_nested, resolve_groups
from evalreg.covariance.special import FEW_CLUSTERS
from evalreg.covariance.terms import naive_term
from evalreg.data.clusters import Axis, Labels, axis_name
from evalreg.data.engine import Query
from evalreg.data.frame import Table, UsedRows, open_frame
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    EvalregWarning,
    FewClustersWarning,
    NotAvailableError,
    Note,
    TooFewClustersError,
    issue,
)
from evalreg.inference.simultaneous import base_seed, block_stream
from evalreg.numerics.fitting import ROUNDING, Progress
from evalreg.numerics.matrices import dense
from evalreg.report.tables import Grid, Summary, number
from evalreg.resampling.solvers import meetings, solver_of
from evalreg.scores.rows import RowScores

if TYPE_CHECKING:
    from evalreg.estimate import Estimate
    from evalreg.inference.simultaneous import Seed

WildWeightsName: TypeAlias = Literal["auto", "rademacher", "webb", "mammen"]
BootWeightsName: TypeAlias = Literal["multinomial", "bayesian"]
WILD_WEIGHTS: tuple[WildWeightsName, ...] = get_args(WildWeightsName)
BOOT_WEIGHTS: tuple[BootWeightsName, ...] = get_args(BootWeightsName)

# Each block of draws has a random stream of its own, so that the draws do not depend on who makes them.
BLOCK = 128
WILD_BLOCK = 256
# The identity stands first, so that it is vector 0 of an enumeration.
RADEMACHER = np.array([1.0, -1.0])
WEBB = np.array([1.0, -1.0, np.sqrt(1.5), -np.sqrt(1.5), np.sqrt(0.5), -np.sqrt(0.5)])
MAMMEN = np.array([(1 + np.sqrt(5)) / 2, (1 - np.sqrt(5)) / 2])
MAMMEN_FIRST = (np.sqrt(5) - 1) / (2 * np.sqrt(5))
WEBB_UP_TO = 12

Result = TypeVar("Result")


def seed_text(seed: int | None) -> str:
    """The seed of some draws in words; None where a Generator was given, whose state is not known."""
    return "from a Generator" if seed is None else f"seed {seed}"


def whole_number(name: str, value: object) -> int:
    """A number of draws or workers, at least 1."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ArgumentTypeError(f"`{name}` must be a whole number; got {value!r}.")
    if value < 1:
        raise ArgumentError(f"`{name}` must be 1 or more; got {value}.")
    return int(value)


def vectors(weights: WildWeightsName, n_clusters: int, most: int) -> int | None:
    """Number of equally likely weight vectors, where there are no more than `most`; None otherwise."""
    points = {"rademacher": RADEMACHER.size, "webb": WEBB.size}.get(weights)
    # Compared by logarithm first, as the power of a large G has more digits than anyone needs.
    if points is None or n_clusters * np.log(points) > np.log(most) + 1e-6:
        return None
    return int(points**n_clusters)


def wild_blocks(
    weights: WildWeightsName, n_clusters: int, draws: int, enumerated: bool, base: int
) -> Iterator[FloatArray]:
    """Weights of clusters for the wild bootstrap, mean 0 and variance 1, block by block.

    Cameron, Gelbach and Miller (2008), REStat 90(3), for Rademacher weights; Webb (2023), Canadian Journal of Economics
    56(3); Mammen (1993), Annals of Statistics 21(1). Shapes: returns (n_draws, n_clusters).
    """
    points = WEBB if weights == "webb" else RADEMACHER
    for block, first in enumerate(range(0, draws, WILD_BLOCK)):
        n = min(WILD_BLOCK, draws - first)
        if enumerated:
            # Digits of the vector's number, written with as many digits as there are points.
            places = points.size ** np.arange(n_clusters - 1, -1, -1)
            yield np.asarray(points[(np.arange(first, first + n)[:, None] // places) % points.size])
        else:
            yield _wild(weights, (n, n_clusters), block_stream(base, block))


def _wild(weights: WildWeightsName, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    if weights == "rademacher":
        # One random bit a weight.
        octets = rng.integers(0, 256, size=(WILD_BLOCK, -(-shape[1] // 8)), dtype=np.uint8)
        signs = np.unpackbits(octets[: shape[0]], axis=1, count=shape[1]).astype(np.float64)
        signs *= -2.0
        signs += 1.0
        return signs
    if weights == "webb":
        return np.asarray(WEBB[rng.integers(0, WEBB.size, size=(WILD_BLOCK, shape[1]), dtype=np.uint8)[: shape[0]]])
    return np.asarray(np.where(rng.random((WILD_BLOCK, shape[1]))[: shape[0]] < MAMMEN_FIRST, MAMMEN[0], MAMMEN[1]))


def boot_chunks(
    weights: BootWeightsName, n_clusters: Sequence[int], n: int, rng: np.random.Generator
) -> Iterator[list[FloatArray]]:
    """Weights of the clusters of each axis for the cluster bootstrap, some draws at a time.

    Rubin (1981), Annals of Statistics 9(1), for "bayesian". Shapes: returns (n_some, n_clusters).
    """
    # As many rows as do not take much memory: a matter of the clusters alone, so that draws do not depend on `n`.
    rows = min(BLOCK, max(1, HELD // sum(n_clusters)))
    for first in range(0, n, rows):
        drawn = [_boot(weights, (rows, n_axis), rng) for n_axis in n_clusters]
        yield [one[: n - first] for one in drawn]


def _boot(weights: BootWeightsName, shape: tuple[int, int], rng: np.random.Generator) -> FloatArray:
    if weights == "bayesian":
        drawn = rng.standard_exponential(shape)
        return np.asarray(drawn / drawn.mean(axis=1, keepdims=True))
    chosen = rng.integers(0, shape[1], size=shape)
    chosen += shape[1] * np.arange(shape[0])[:, None]
    return np.bincount(chosen.ravel(), minlength=chosen.size).reshape(shape).astype(np.float64)


def run_blocks(
    draws: int, base: int, work: Callable[[int, int, np.random.Generator], Result], workers: int = 1
) -> list[Result]:
    """What `work` makes of each block of draws, in order; an error is that of the first block that fails."""
    blocks = [(i, first, min(BLOCK, draws - first)) for i, first in enumerate(range(0, draws, BLOCK))]

    def one(block: tuple[int, int, int]) -> Any:
        number, first, n = block
        return work(first, n, block_stream(base, number))

    if workers == 1:
        return [one(block) for block in blocks]
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, blocks))


# Statistics this close are ties, and ties count as at least as extreme (tolerance).
SLACK = 1e-9
# Standard errors of draws below this fraction of that of the estimate are the root of rounding.
NO_SPREAD = 1e-6


def percentile_interval(draws: FloatArray, alpha: float) -> FloatArray:
    """Quantiles of the draws.

    Infinite where the draws are at that place; NaN where too few draws have a value for the level. Davison and Hinkley
    (1997), Bootstrap Methods and their Application, section 5.3.1. Shapes: draws (n_draws, n_estimates); returns
    (n_estimates, 2).
    """
    return np.array([_quantiles(column, np.array([alpha / 2, 1 - alpha / 2])) for column in draws.T])


def basic_interval(values: FloatArray, draws: FloatArray, alpha: float) -> FloatArray:
    """Twice the estimate less the quantiles of the draws.

    NaN where too few draws have a value for the level. Davison and Hinkley (1997), Bootstrap Methods and their
    Application, equation 5.6. Shapes: values (n_estimates,), draws (n_draws, n_estimates); returns (n_estimates, 2).
    """
    return np.asarray(2 * values[:, None] - percentile_interval(draws, alpha)[:, ::-1])


def studentized_interval(
    values: FloatArray, se: FloatArray, draws: FloatArray, draws_se: FloatArray, alpha: float
) -> FloatArray:
    """The estimate less quantiles of (draw - estimate)/se(draw) times its standard error.

    NaN where too few draws have a value for the level. `draws, draws_se`: the same of the draws; one that is away from
    the estimate without a standard error is infinitely far. Davison and Hinkley (1997), Bootstrap Methods and their
    Application, equation 5.7. Shapes: values, se (n_estimates,), draws, draws_se (n_draws, n_estimates); returns
    (n_estimates, 2).
    """
    away, least = draws - values, NO_SPREAD * se
    none = np.where(np.abs(away) <= least, np.nan, np.copysign(np.inf, away))
    spread = (draws_se > least) & np.isfinite(away)
    t = np.divide(away, draws_se, out=np.where(np.isnan(away), np.nan, none), where=spread)
    return np.asarray(values[:, None] - percentile_interval(t, alpha)[:, ::-1] * se[:, None])


def bca_interval(values: FloatArray, draws: FloatArray, without: FloatArray, alpha: float) -> FloatArray:
    """Quantiles of the draws at levels corrected for bias and acceleration.

    NaN where all draws lie on one side of the estimate, it does not exist without some cluster, the acceleration is too
    large for the level, or the corrected level lies beyond the draws. Efron (1987), JASA 82, equations 2.3 and 2.8;
    Davison and Hinkley (1997), equations 5.20 to 5.26. Shapes: values (n_estimates,), draws (n_draws, n_estimates),
    without (n_clusters, n_estimates); returns (n_estimates, 2).
    """
    columns = zip(draws.T, values, without.T, strict=True)
    return np.array([_quantiles(one, bca_levels(one, value, left, alpha)) for one, value, left in columns])


def bca_levels(draws: FloatArray, value: float, without: FloatArray, alpha: float) -> FloatArray:
    """Levels of the quantiles that end a bias-corrected and accelerated interval.

    NaN where all draws lie on one side of the estimate, it does not exist without some cluster, or the acceleration is
    too large for the level. Efron (1987), JASA 82, equations 2.3 and 2.8; Davison and Hinkley (1997), equations 5.20 to
    5.26. Shapes: draws (n_draws,), without (n_clusters,); returns (2,).
    """
    known, finite = draws[~np.isnan(draws)], draws[np.isfinite(draws)]
    # Draws at the estimate count as half below it, as statistics of few clusters are discrete; rounding aside.
    room = SLACK * float(np.ptp(finite)) if finite.size else 0.0
    below = (np.count_nonzero(known < value - room) + np.count_nonzero(known <= value + room)) / 2
    bias = float(scipy.special.ndtri(below / max(known.size, 1)))
    if not (np.isfinite(bias) and np.isfinite(without).all()):
        return np.full(2, np.nan)
    change = without.mean() - without
    squares = float(np.sum(change**2))
    acceleration = float(np.sum(change**3)) / (6 * squares**1.5) if squares > 0 else 0.0
    shifted = bias + scipy.special.ndtri(np.array([alpha / 2, 1 - alpha / 2]))
    below_one = 1 - acceleration * shifted
    levels = scipy.special.ndtr(bias + shifted / np.where(below_one > 0, below_one, 1.0))
    return np.where(below_one > 0, levels, np.nan)


def least_draws(alpha: float) -> int:
    """Draws below which no quantile at alpha/2 is among them: (n + 1) alpha/2 is at least 1."""
    return int(np.ceil(2 / alpha * (1 - ROUNDING))) - 1


def _quantiles(draws: FloatArray, level: FloatArray) -> FloatArray:
    """Lower and upper quantile at (n + 1) p; between a number and infinity the outer one; NaN beyond the draws."""
    known = np.sort(draws[~np.isnan(draws)])
    place = (known.size + 1) * level
    if known.size == 0 or not np.isfinite(level).all():
        return np.full(level.size, np.nan)
    if place[0] < 1 - ROUNDING * known.size or place[-1] > known.size * (1 + ROUNDING):
        return np.full(level.size, np.nan)
    below = np.clip(np.floor(place + ROUNDING * known.size).astype(int), 1, known.size)
    share = np.clip(place - below, 0.0, 1.0)
    low, high = known[below - 1], known[np.minimum(below, known.size - 1)]
    with np.errstate(invalid="ignore"):
        between = low + share * (high - low)
    outer = np.where(np.arange(level.size) == 0, low, high)
    finite = np.isfinite(low) & np.isfinite(high)
    return np.asarray(np.where(finite, between, np.where(share <= ROUNDING * known.size, low, outer)))


@dataclass(frozen=True, eq=False)
class Drawn:
    """Statistics of the draws of one hypothesis, polynomials in the gap d between estimate and hypothesised value."""

    numerator: FloatArray  # (2, n_draws): constant and slope
    # (n_rules, 3, n_draws): constant, half the slope and square of each variance whose largest is taken
    squares: FloatArray
    variance: float  # of the data
    enumerated: bool  # whether these are all draws there are, that of the data among them

    def at(self, d: float) -> tuple[FloatArray, FloatArray]:
        """Numerators and variances at a value of d, shape (n_draws,) each."""
        constant, half, square = self.squares[:, 0], self.squares[:, 1], self.squares[:, 2]
        variance = constant + d * (2 * half + d * square)
        # One rule for one clustering: nothing to compare.
        largest = variance[0] if variance.shape[0] == 1 else np.max(variance, axis=0)
        return self.numerator[0] + d * self.numerator[1], np.maximum(largest, 0.0)

    def share(self, count: int) -> float:
        """A p-value from the draws that are as extreme; those of a sample leave out the one of the data."""
        n = len(self.numerator[0])
        return count / n if self.enumerated else (1 + count) / (n + 1)

    def p(self, gap: float) -> float:
        """Two-sided p-value of the value that lies `gap` below the estimate: |t| is at least that of the data."""
        numerator, spread = self.at(gap)
        return self.share(_count(numerator**2 * self.variance >= (gap * (1 - SLACK)) ** 2 * spread))

    def p_far(self) -> float:
        """Where p ends however far the hypothesised value lies from the estimate.

        The t of the data grows without bound; that of a draw does so only where its variance does not grow with the
        gap.
        """
        grows = np.max(self.squares[:, 2], axis=0) > 0
        constant = np.max(self.squares[:, 0], axis=0)
        slope = self.numerator[1]
        stays = ~grows & (slope != 0) & (slope**2 * self.variance >= (1 - SLACK) ** 2 * constant)
        return self.share(_count(stays))

    def p_equal_tailed(self, d: float, t: float) -> float:
        """Twice the smaller tail; ties count in both."""
        below, above = tails(*self.at(d), t)
        return min(1.0, 2 * min(self.share(below), self.share(above)))

    def gaps(self, scale: float, alpha: float, marks: Sequence[float]) -> tuple[float, float]:
        """The lowest and the highest gap whose p-value is above alpha; infinite where p never falls to it."""
        if self.p_far() > alpha:
            return -np.inf, np.inf
        low = find_end(lambda gap: self.p(-gap), scale, alpha, [-mark for mark in marks])
        return -low, find_end(self.p, scale, alpha, marks)


def _count(which: BoolArray) -> int:
    return int(np.count_nonzero(which))


def find_end(p: Callable[[float], float], se: float, alpha: float, marks: Sequence[float] = ()) -> float:
    """The largest gap whose p-value is above alpha, by bisection.

    Where it meets one of the gaps in `marks` (that of the value 0, say), it is that gap and not a number beside it.
    """
    far = 2.0 * se
    # Rejected at three doublings in a row, so that a single dip of a step function does not end the search.
    while any(p(far * factor) > alpha for factor in (1.0, 2.0, 4.0)):
        far *= 2
        if far > 1e12 * se:  # an interval so many standard errors wide is infinite
            return np.inf
    grid = np.linspace(0.0, 4.0 * far, 65)
    last = max(i for i, gap in enumerate(grid) if i == 0 or p(float(gap)) > alpha)
    low, high = float(grid[last]), float(grid[last + 1])
    for _ in range(40):  # each halves what is left
        middle = (low + high) / 2
        low, high = (middle, high) if p(middle) > alpha else (low, middle)
    end = (low + high) / 2
    # Ties that are not exact move an end by a few of their width.
    return next((mark for mark in marks if abs(end - mark) <= 100 * SLACK * abs(end) and p(mark) > alpha), end)


def tails(numerator: FloatArray, variance: FloatArray, t: float) -> tuple[int, int]:
    """Draws whose t is at most, and at least, that of the data; ties count in both. Shapes: (n_draws,)."""
    room = abs(t) * SLACK
    se = np.sqrt(variance)
    below = np.count_nonzero(numerator <= (t + room) * se)
    return int(below), int(np.count_nonzero(numerator >= (t - room) * se))


KindName: TypeAlias = Literal["percentile", "basic", "bca", "studentized"]


KINDS: tuple[KindName, ...] = get_args(KindName)

# Draws that notes advise, as in Davison and Hinkley (1997), section 2.5.2, for intervals at 95%.
FEW_DRAWS = 999


@keeps("n_clusters")
@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Estimates with the values that they take when clusters are drawn again.

    Made by `bootstrap` and `Results.bootstrap`.

    Parameters
    ----------
    names : tuple of str
        Names of the estimates.
    values : ndarray, shape (n_estimates,)
        Estimates of the data.
    draws : ndarray, shape (n_draws, n_estimates)
        Estimates of the draws, read-only; NaN where a draw has none, infinite where it is lost on one side
        (a model that never won).
    kind : {"percentile", "basic", "bca", "studentized"}
        Interval that was asked for.
    weights : {"multinomial", "bayesian"}
        How clusters are drawn.
    alpha : float
        One minus the level of the interval.
    seed : int or None
        Of the draws; None for a Generator.
    n_clusters : dict of str to int
        Clusters by dimension; empty where rows are drawn one by one.
    jackknife : ndarray, shape (n_clusters, n_estimates), optional
        Estimates without each cluster, for "bca".
    se : ndarray, shape (n_estimates,), optional
        CR0 standard errors of the data, for "studentized".
    draws_se : ndarray, shape (n_draws, n_estimates), optional
        The same of the draws.
    notes : tuple of (category, text)
        What was warned of.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, seed=1)
    >>> boot = er.mean(log, groups="passage").bootstrap(draws=999)
    >>> boot.draws.shape, list(boot.conf_int().columns)
    ((999, 1), [0, 1])
    """

    names: tuple[str, ...]
    values: FloatArray
    draws: FloatArray
    kind: KindName
    weights: BootWeightsName
    alpha: float
    seed: int | None
    n_clusters: dict[str, int]
    jackknife: FloatArray | None = None
    se: FloatArray | None = None
    draws_se: FloatArray | None = None
    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        for name in ("values", "draws", "jackknife", "se", "draws_se"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, frozen(getattr(self, name)))

    @property
    def estimate(self) -> pd.Series:
        """Estimates of the data, by name."""
        return pd.Series(self.values, index=list(self.names))

    @property
    def bse(self) -> pd.Series:
        """Standard deviation of the draws, by name."""
        return pd.Series(_spread(self.draws), index=list(self.names))

    def conf_int(self, alpha: float | None = None, kind: KindName | None = None) -> pd.DataFrame:
        """Confidence intervals.

        Parameters
        ----------
        alpha : float, optional
            One minus the level; that of the bootstrap by default.
        kind : {"percentile", "basic", "bca", "studentized"}, optional
            That of the bootstrap by default; "bca" and "studentized" only where they were asked for there.

        Returns
        -------
        DataFrame
            Columns 0 and 1, one row an estimate.

        Raises
        ------
        NotAvailableError
            If the bootstrap did not keep what that interval needs.
        ArgumentError
            If there are too few draws for the level.
        """
        ends = intervals(self, self.alpha if alpha is None else alpha, self.kind if kind is None else kind)
        return pd.DataFrame(ends, index=list(self.names), columns=[0, 1])

    def summary(self) -> Summary:
        """Estimates, standard errors and intervals.

        Returns
        -------
        Summary
            Prints as text; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        return summarize_bootstrap(self)

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def __repr__(self) -> str:
        return self.summary().as_text()


def _spread(draws: FloatArray) -> FloatArray:
    """Standard deviation of the draws of each column that have a value; infinite where some are."""
    finite = np.isfinite(draws)
    n = finite.sum(axis=0)
    centre = np.where(finite, draws, 0.0).sum(axis=0) / np.maximum(n, 1)
    squares = np.where(finite, draws - centre, 0.0) ** 2
    spread = np.where(n > 1, np.sqrt(squares.sum(axis=0) / np.maximum(n - 1, 1)), np.nan)
    return np.where(np.isinf(draws).any(axis=0), np.inf, spread)


def summarize_bootstrap(boot: Bootstrap) -> Summary:
    """The summary of a bootstrap."""
    clusters = ", ".join(f"{n} by {name}" for name, n in boot.n_clusters.items()) or "each row"
    facts = (
        ("Draws", f"{boot.draws.shape[0]} ({boot.weights}, {seed_text(boot.seed)})"),
        ("Clusters", clusters),
        ("Interval", f"{1 - boot.alpha:.4g} {boot.kind}"),
    )
    ends, bse = boot.conf_int().to_numpy(), boot.bse.to_numpy()
    rows = tuple(
        (name, number(value), number(se), number(low), number(high))
        for name, value, se, (low, high) in zip(boot.names, boot.values, bse, ends, strict=True)
    )
    grid = Grid(("", "estimate", "se", "lower", "upper"), rows)
    return Summary("Cluster bootstrap", facts, (grid,), tuple(text for _, text in boot.notes))


def intervals(boot: Bootstrap, alpha: float, kind: KindName) -> FloatArray:
    """Ends of the intervals of a bootstrap. NaN where no draw is finite. Shapes: returns (n_estimates, 2)."""
    option("kind", kind, KINDS)
    alpha = fraction("alpha", alpha)
    refuse_few(boot.draws.shape[0], alpha)
    if kind == "percentile":
        return percentile_interval(boot.draws, alpha)
    if kind == "basic":
        return basic_interval(boot.values, boot.draws, alpha)
    if kind == "studentized" and boot.se is not None and boot.draws_se is not None:
        return studentized_interval(boot.values, boot.se, boot.draws, boot.draws_se, alpha)
    if kind == "bca" and boot.jackknife is not None:
        return bca_interval(boot.values, boot.draws, boot.jackknife, alpha)
    raise NotAvailableError(
        f'this bootstrap did not keep what the "{kind}" interval needs. Pass kind="{kind}" when drawing; "percentile" '
        'and "basic" are always available.'
    )


def refuse_few(draws: int, alpha: float) -> None:
    """Raise if the ends of an interval lie beyond so few draws."""
    least = least_draws(alpha)
    if draws < least:
        raise ArgumentError(
            f"`draws` must be at least {least} for a {1 - alpha:.4g} interval, whose ends are the draws at "
            f"(draws + 1) alpha/2 from either side; got {draws}. Take {FEW_DRAWS} or more, or a larger `alpha`.",
            count=draws,
        )


@dataclass(frozen=True)
class Asked:
    """Options of a bootstrap, checked."""

    draws: int  # how many
    kind: KindName  # interval
    weights: BootWeightsName  # how clusters are drawn
    alpha: float  # one minus the level
    base: int  # root of the random streams
    seed: int | None  # to print


def check_options(draws: Any, kind: Any, weights: Any, alpha: Any, seed: Any) -> Asked:
    """Options of a bootstrap as passed by the user, checked."""
    option("kind", kind, KINDS)
    option("weights", weights, BOOT_WEIGHTS)
    base, printed = base_seed(seed)
    draws, alpha = whole_number("draws", draws), fraction("alpha", alpha)
    refuse_few(draws, alpha)
    return Asked(draws, kind, weights, alpha, base, printed)


def check_crossed(kind: KindName, n_axes: int) -> None:
    """Raise if an interval for one clustering is asked of several."""
    if n_axes > 1 and kind in ("bca", "studentized"):
        raise NotAvailableError(
            f'the "{kind}" interval is available for one clustering; got {n_axes} crossed ones. Use kind="percentile" '
            'or "basic".'
        )


def bootstrap_results(
    estimate: Estimate,
    axes: tuple[Axis, ...],
    *,
    draws: int = 1999,
    kind: KindName = "percentile",
    weights: BootWeightsName = "multinomial",
    alpha: float = 0.05,
    seed: Seed = 0,
) -> Bootstrap:
    """Cluster bootstrap of means or a least-squares regression, solved again from sums within clusters.

    Cameron, Gelbach and Miller (2008), REStat 90(3), for whole clusters; Owen (2007), Annals of Applied Statistics
    1(2), for crossed ones.
    """
    asked = check_options(draws, kind, weights, alpha, seed)
    if not axes:
        raise ArgumentError(
            "a cluster bootstrap needs clusters; this result takes rows as independent. Pass `groups=` to the "
            "estimator, or use `evalreg.bootstrap` with a function, which draws rows where `groups` is None."
        )
    for axis in axes:
        check_two_clusters(estimate, axis, axes)
    axes = drop_nested(estimate.scores, axes)[0]
    check_crossed(kind, len(axes))
    by, codes, n_clusters = meetings(estimate, axes)
    solver = solver_of(estimate, by)

    def work(first: int, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        found, errors = [], []
        for V in _products(boot_chunks(weights, n_clusters, n, rng), codes):
            found.append(solver.solve(V))
            errors.append(solver.errors(V) if kind == "studentized" else found[-1])
            progress.advance(V.shape[0])
        return np.concatenate(found), np.concatenate(errors)

    with Progress(asked.draws) as progress:
        parts = run_blocks(asked.draws, asked.base, work)
    flat, found = _flat(estimate), np.concatenate([part[0] for part in parts])
    # What is left of draws that are all alike is rounding.
    found[:, flat] = np.nan
    one = np.ones((1, codes[0].size))
    studentized = kind == "studentized"
    return assembled(
        estimate.names,
        np.array(estimate.params),
        found,
        asked,
        {axis_name(axis): n for axis, n in zip(axes, n_clusters, strict=True)},
        solver.without() if kind == "bca" else None,
        solver.errors(one)[0] if studentized else None,
        np.concatenate([part[1] for part in parts]) if studentized else None,
        flat,
    )


def _flat(estimate: Estimate) -> BoolArray:
    """Parameters that are alike in every draw because their scores do not vary, shape (n_params,)."""
    known = np.zeros(estimate.n_params, dtype=bool)
    if estimate.coefficient_map is not None:
        known = ~np.any(dense(estimate.coefficient_map) != 0, axis=1)
    return np.asarray((np.diag(naive_term(estimate).matrix) <= 0) & ~known)


def _products(chunks: Iterator[list[FloatArray]], codes: list[IntArray]) -> Iterator[FloatArray]:
    """Weights of the joint values of the axes, as many at a time as are held."""
    held = max(1, HELD // codes[0].size)
    for each in chunks:
        for rows in (slice(first, first + held) for first in range(0, each[0].shape[0], held)):
            if len(each) == 1:
                yield each[0][rows]
            else:
                yield np.prod([one[rows][:, code] for one, code in zip(each, codes, strict=True)], axis=0)


def _draw_notes(names: tuple[str, ...], draws: FloatArray, asked: Asked, flat: BoolArray | None) -> list[Note]:
    """What to say about few draws, about draws without a value or all alike, and about infinite ones."""
    n, alpha, notes = draws.shape[0], asked.alpha, list[str]()
    outside = (n + 1) * alpha / 2
    # With fewer the ends depend on the seed.
    if outside < 2.5:
        notes.append(
            f"{n} draws are few for a {1 - alpha:.4g} interval: its ends are the draws at place {outside:.3g} from "
            f"either side, and another seed moves them. Take {FEW_DRAWS} or more."
        )
    flat = np.zeros(len(names), dtype=bool) if flat is None else flat
    if flat.any():
        alike = listed([name for name, is_flat in zip(names, flat, strict=True) if is_flat])
        notes.append(
            f"the scores behind {alike} do not vary, so that every draw would be alike: there is no standard error and "
            "no interval by drawing clusters again."
        )
    failed = np.count_nonzero(np.isnan(draws), axis=0) * ~flat
    if failed.any():
        worst = int(np.argmax(failed))
        notes.append(
            f"{failed[worst]} of {n} draws have no value of {listed([names[worst]])} and are left out of its standard "
            "error and interval, which speak of the other draws only."
        )
    lost = np.count_nonzero(np.isinf(draws), axis=0)
    if lost.any():
        worst = int(np.argmax(lost))
        low, high = (int(np.count_nonzero(draws[:, worst] == side)) for side in (-np.inf, np.inf))
        notes.append(
            f"{lost[worst]} of {n} draws of {listed([names[worst]])} are infinite ({low} below, {high} above). They "
            "count as the most extreme draws in its interval; its standard error is infinite."
        )
    return [(EvalregWarning, text) for text in notes]


def _jackknife_notes(names: tuple[str, ...], jackknife: FloatArray | None) -> list[Note]:
    """Which estimates have no BCa interval, because they do not exist without some cluster."""
    if jackknife is None or np.isfinite(jackknife).all():
        return []
    lost = [name for name, left in zip(names, jackknife.T, strict=True) if not np.isfinite(left).all()]
    text = f'no "bca" interval of {listed(lost)}: without one of the clusters there is no finite estimate. '
    return [(EvalregWarning, text + 'Use kind="percentile".')]


def assembled(
    names: tuple[str, ...],
    values: FloatArray,
    draws: FloatArray,
    asked: Asked,
    n_clusters: dict[str, int],
    jackknife: FloatArray | None = None,
    se: FloatArray | None = None,
    draws_se: FloatArray | None = None,
    flat: BoolArray | None = None,
) -> Bootstrap:
    """Put a bootstrap together, and issue its warnings."""
    notes: list[Note] = []
    for name, n in n_clusters.items():
        if n < FEW_CLUSTERS:  # the draws are too much alike
            text = f"{n} {name} clusters: the draws are much alike, and their spread is too small. Prefer `wild_test`"
            notes.append((FewClustersWarning, text + " or CR2 where they are available."))
    notes += _draw_notes(names, draws, asked, flat)
    notes += _jackknife_notes(names, jackknife)
    issue(notes)
    return Bootstrap(
        names=names,
        values=values,
        draws=draws,
        kind=asked.kind,
        weights=asked.weights,
        alpha=asked.alpha,
        seed=asked.seed,
        n_clusters=n_clusters,
        jackknife=jackknife,
        se=se,
        draws_se=draws_se,
        notes=tuple(notes),
    )


def bootstrap(
    data: Any,
    statistic: Callable[..., Any],
    *,
    groups: Groups = None,
    draws: int = 1999,
    kind: KindName = "percentile",
    weights: BootWeightsName = "multinomial",
    alpha: float = 0.05,
    seed: Seed = 0,
    workers: int = 1,
) -> Bootstrap:
    """Cluster bootstrap of any function of the data.

    Clusters are taken to be independent draws, those of crossed clusterings on each axis for itself. A sample holds all
    rows of each cluster drawn, and a cluster drawn twice stands in it as two: its column of ids is numbered again.

    Parameters
    ----------
    data : data frame or dict of arrays
        Rows in memory: pandas, polars, pyarrow.
    statistic : callable
        Takes a frame of the same library and returns a number, an array, a Series or a dict of numbers. With
        ``weights="bayesian"`` it takes the frame as it is and an array of weights, one a row.
    groups : str, list of str, array, Series or dict, optional
        Clusters as in `fit`; crossed ones are drawn on each axis (pigeonhole). None draws single rows.
    draws : int, optional
        How many.
    kind : {"percentile", "basic", "bca"}, optional
        Interval; "bca" also computes the statistic without each cluster, and needs one clustering.
    weights : {"multinomial", "bayesian"}, optional
        Whole clusters with replacement, or exponential weights.
    alpha : float, optional
        One minus the level.
    seed : int or Generator, optional
        Of the draws.
    workers : int, optional
        Threads. They help where the statistic spends its time in compiled code that lets others run; the draws do not
        depend on their number.

    Returns
    -------
    Bootstrap
        `estimate`, `draws`, `bse` and `conf_int()`.

    Raises
    ------
    ArgumentError
        If the statistic raises or changes its shape, which names the first draw that does; if an option is unknown.
    ArgumentTypeError
        If the statistic returns no numbers.
    MissingLabelsError
        If a row has no cluster id.
    TooFewClustersError
        If a dimension has one cluster.
    NotAvailableError
        If the rows live in an engine, or the interval is not available.

    References
    ----------
    Davison and Hinkley (1997), Bootstrap Methods and their Application; Cameron, Gelbach and Miller (2008), REStat
    90(3); Owen (2007), Annals of Applied Statistics 1(2), for crossed clusters; Rubin (1981), Annals of Statistics
    9(1), for "bayesian".

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, seed=1)
    >>> def middle(frame):
    ...     return frame.groupby("passage")["score"].mean().median()
    >>> boot = er.bootstrap(log, middle, groups="passage", draws=200)
    >>> float(boot.estimate["middle"]), boot.draws.shape
    (0.875, (200, 1))
    """
    asked = check_options(draws, kind, weights, alpha, seed)
    if kind == "studentized":
        raise NotAvailableError(
            'the "studentized" interval needs standard errors of the draws, which a function does not give. Use '
            'kind="percentile", "basic" or "bca".'
        )
    if not callable(statistic):
        raise ArgumentTypeError(f"`statistic` must be a function of a data frame; got {type(statistic).__name__}.")
    workers = whole_number("workers", workers)
    sampler = _sampler(data, groups, weights)
    check_crossed(kind, len(sampler.codes))
    call = _Statistic(statistic)
    whole = call.first(sampler.whole())

    def work(first: int, n: int, rng: np.random.Generator) -> FloatArray:
        found: list[FloatArray] = []
        for each in boot_chunks(weights, sampler.n_clusters, n, rng):
            for drawn in zip(*each, strict=True):
                found.append(call.again(sampler.sample(list(drawn)), f"draw {first + len(found)}", whole.size))
                progress.advance(1)
        return np.array(found)

    with Progress(asked.draws) as progress:
        drawn = np.concatenate(run_blocks(asked.draws, asked.base, work, workers))
    without = None
    if kind == "bca":
        clusters = range(sampler.n_clusters[0])
        texts = [f"the sample without cluster {g}" for g in clusters]
        without = np.array([call.again(sampler.without(g), texts[g], whole.size) for g in clusters])
    return assembled(call.names(whole.size), whole, drawn, asked, sampler.named_clusters(), without)


@dataclass(frozen=True, eq=False)
class _Sampler:
    """Samples of a frame for weights of its clusters."""

    table: Table
    axes: tuple[Axis, ...]
    codes: list[IntArray]
    n_clusters: list[int]
    weighted: bool

    def named_clusters(self) -> dict[str, int]:
        """Clusters by dimension."""
        return {axis_name(axis): n for axis, n in zip(self.axes, self.n_clusters, strict=False)}

    def whole(self) -> tuple[Any, ...]:
        """The data as they are, as arguments of the statistic."""
        return self._arguments(self._own(), np.ones(self.table.n_rows))

    def without(self, cluster: int) -> tuple[Any, ...]:
        """The data without a cluster of the first axis."""
        rows = np.flatnonzero(self.codes[0] != cluster)
        return self._arguments(_taken(self.table.frame, rows, {}), np.ones(rows.size))

    def sample(self, each: list[FloatArray]) -> tuple[Any, ...]:
        """The data under weights of the clusters of each axis."""
        by_row = [weight[code] for weight, code in zip(each, self.codes, strict=True)]
        product = np.prod(by_row, axis=0)
        if self.weighted:
            return self._arguments(self._own(), product)
        times = product.astype(np.intp)
        rows = np.repeat(np.arange(times.size), times)
        # Number of each copy among those of its row, from 0.
        copy = np.arange(rows.size) - np.repeat(np.cumsum(times) - times, times)
        columns: dict[str, IntArray] = {}
        for axis, code, weight, own in zip(self.axes, self.codes, each, by_row, strict=False):
            name = axis[-1]
            own_rows = own.astype(np.intp)[rows]
            if name in self.table.columns:
                starts = np.cumsum(weight) - weight
                columns[name] = starts.astype(np.intp)[code[rows]] + copy % own_rows
            copy = copy // own_rows
        return self._arguments(_taken(self.table.frame, rows, columns), np.ones(rows.size))

    def _own(self) -> Any:
        """The data themselves, of which columns that the function sets are its own."""
        native = self.table.frame.to_native()
        return native.copy(deep=False) if isinstance(native, pd.DataFrame) else native

    def _arguments(self, native: Any, weights: FloatArray) -> tuple[Any, ...]:
        return (native, weights) if self.weighted else (native,)


def _taken(frame: nw.DataFrame[Any], rows: IntArray, columns: Mapping[str, IntArray]) -> Any:
    """A new frame of these rows, with other columns in the place of those of the same name, in its own library."""
    native = frame.to_native()
    if isinstance(native, pd.DataFrame):
        taken = native.take(rows)
        for name, values in columns.items():
            taken[name] = values
        return taken
    made = nw.get_native_namespace(frame)
    return (
        frame[rows].with_columns(*(nw.new_series(name, new, backend=made) for name, new in columns.items())).to_native()
    )


def _sampler(data: Any, groups: Groups, weights: BootWeightsName) -> _Sampler:
    table = open_frame(data)
    if isinstance(table, Query):
        raise NotAvailableError("a bootstrap of a function needs rows in memory; collect the frame first.")
    weighted, n = weights == "bayesian", table.n_rows
    # Rows without columns: only their labels are wanted.
    rows: Any = RowScores(np.empty((n, 0)), Labels(n, {}, UsedRows(table, None)))
    rows, axes = resolve_groups(rows, groups)
    if not axes:
        return _Sampler(table, (), [np.arange(n)], [n], weighted)
    for axis in axes:
        if rows.n_clusters(axis) < 2:
            raise TooFewClustersError(
                f'`groups="{axis_name(axis)}"` has {rows.n_clusters(axis)} distinct value; at least 2 are needed. '
                "Pass groups=None to draw single rows.",
                column=axis_name(axis),
                count=rows.n_clusters(axis),
            )
    axes, notes = drop_nested(rows, axes)
    issue(notes)
    found = [rows.labels.codes(axis) for axis in axes]
    return _Sampler(table, axes, [one.codes for one in found], [one.n_clusters for one in found], weighted)


class _Statistic:
    """A function of a sample as an array of numbers, with errors that say where it failed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._names: tuple[str, ...] | None = None

    def first(self, arguments: tuple[Any, ...]) -> FloatArray:
        """Its value for the data, which fixes names and number."""
        value = self._called(arguments, "the data as they are")
        if isinstance(value, pd.Series):
            self._names = tuple(map(str, value.index))
        elif isinstance(value, Mapping):
            self._names = tuple(map(str, value))
        return self._numbers(value, "the data as they are")

    def again(self, arguments: tuple[Any, ...], where: str, size: int) -> FloatArray:
        """Its value for a sample."""
        value = self._called(arguments, where)
        if self._names is not None and isinstance(value, pd.Series | Mapping):
            # By name, as a sample may lack a model altogether.
            named = {str(name): one for name, one in value.items()}
            if not set(named) <= set(self._names):
                more = [name for name in named if name not in self._names]
                raise ArgumentError(
                    f"`statistic` must return the same names for every sample; {listed(more)} of {where} is not among "
                    "those of the data."
                )
            value = [named.get(name, np.nan) for name in self._names]
        numbers = self._numbers(value, where)
        if numbers.size != size:
            raise ArgumentError(
                f"`statistic` must return as many numbers for every sample; got {size} for the data and {numbers.size} "
                f"for {where}. Return a Series or a dict, which is matched by name, or NaN for what is missing."
            )
        return numbers

    def names(self, size: int) -> tuple[str, ...]:
        """One for each number."""
        if self._names is not None:
            return self._names
        name = getattr(self._function, "__name__", "statistic")
        name = "statistic" if name == "<lambda>" else name
        return (name,) if size == 1 else tuple(f"{name}[{i}]" for i in range(size))

    def _called(self, arguments: tuple[Any, ...], where: str) -> Any:
        try:
            return self._function(*arguments)
        except Exception as error:
            # The function is the user's, and may raise anything.
            raise ArgumentError(f"`statistic` failed for {where}: {type(error).__name__}: {error}") from error

    def _numbers(self, value: Any, where: str) -> FloatArray:
        try:
            values = list(value.values()) if isinstance(value, Mapping) else value
            # None alone is a function without a return.
            numbers = np.atleast_1d(np.asarray("" if value is None else values, dtype=np.float64))
        except (TypeError, ValueError):
            numbers = np.empty((0, 0))
        if numbers.ndim != 1 or numbers.size == 0:
            raise ArgumentTypeError(
                f"`statistic` must return a number, or an array, Series or dict of numbers; got {type(value).__name__} "
                f"for {where}."
            )
        return numbers

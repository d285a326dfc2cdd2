"""The cluster bootstrap: draws, sums, intervals and its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import scipy

from evalreg.checks import (
    BoolArray,
    FloatArray,
    IntArray,
    fraction,
    hold,
    issue,
    keeps,
    listed,
    option,
    real_numbers,
    whole_number,
)
from evalreg.covariance.options import Groups, check_two_clusters, drop_nested, resolve_groups
from evalreg.covariance.special import FEW_CLUSTERS
from evalreg.covariance.terms import naive_term
from evalreg.data.clusters import Axis, Labels, axis_name
from evalreg.data.frame import Table, UsedRows, rows_in_memory
from evalreg.errors import ArgumentError, ArgumentTypeError, EvalregWarning, FewClustersWarning, NotAvailableError, Note
from evalreg.estimate import Estimate
from evalreg.inference.simultaneous import Seed, base_seed
from evalreg.numerics.fitting import Progress
from evalreg.numerics.limits import EQUAL, HELD, ROOT_OF_ROUNDING, ROUNDING
from evalreg.numerics.matrices import dense
from evalreg.report.tables import Grid, Shown, Summary, number
from evalreg.resampling.draws import (
    BootWeightsName,
    blocks,
    boot_chunks,
    meetings,
    refuse_without_sums,
    seed_text,
    solver_of,
)
from evalreg.scores.rows import InfluenceScores

KindName: TypeAlias = Literal["percentile", "basic", "bca", "studentized"]
# Draws that notes advise, times alpha: 999 for intervals at 95%, as in Davison and Hinkley (1997), section 2.5.2.
FEW_DRAWS = 50


@keeps("n_clusters")
@dataclass(frozen=True, eq=False, repr=False)
class Bootstrap(Shown):
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
        hold(self)

    @property
    def estimate(self) -> pd.Series:
        """Estimates of the data, by name."""
        return pd.Series(self.values, index=list(self.names))

    @property
    def bse(self) -> pd.Series:
        """Standard deviation of the draws, by name."""
        finite = pd.DataFrame(np.where(np.isfinite(self.draws), self.draws, np.nan), columns=list(self.names))
        return finite.std().mask(np.asarray(np.isinf(self.draws).any(axis=0)), np.inf)

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
        clusters = ", ".join(f"{n} by {name}" for name, n in self.n_clusters.items()) or "each row"
        facts = (
            ("Draws", f"{self.draws.shape[0]} ({self.weights}, {seed_text(self.seed)})"),
            ("Clusters", clusters),
            ("Interval", f"{1 - self.alpha:.4g} {self.kind}"),
        )
        ends = self.conf_int()
        columns: dict[str, Any] = {"estimate": self.values, "se": self.bse, "lower": ends[0], "upper": ends[1]}
        grid = Grid.of({"": self.names} | {name: list(map(number, column)) for name, column in columns.items()})
        return Summary("Cluster bootstrap", facts, (grid,), tuple(text for _, text in self.notes))


def intervals(boot: Bootstrap, alpha: float, kind: KindName) -> FloatArray:
    """Ends of the intervals of a bootstrap. NaN where too few draws have a value. Shapes: returns (n_estimates, 2).

    Davison and Hinkley (1997), Bootstrap Methods and their Application: section 5.3.1 for percentiles, equations 5.6
    for "basic" and 5.7 for "studentized", where a draw away from the estimate without an error is infinitely far.
    """
    option("kind", kind, KindName)
    alpha = fraction("alpha", alpha)
    refuse_few(boot.draws.shape[0], alpha)
    values, draws, level = boot.values[:, None], boot.draws, np.array([alpha / 2, 1 - alpha / 2])
    if kind in ("percentile", "basic"):
        ends = np.array([_quantiles(column, level) for column in draws.T])
        return ends if kind == "percentile" else 2 * values - ends[:, ::-1]
    if kind == "studentized" and boot.se is not None and boot.draws_se is not None:
        away, least = draws - boot.values, ROOT_OF_ROUNDING * boot.se
        none = np.where(np.abs(away) <= least, np.nan, np.copysign(np.inf, away))
        spread = (boot.draws_se > least) & np.isfinite(away)
        t = np.divide(away, boot.draws_se, out=np.where(np.isnan(away), np.nan, none), where=spread)
        return values - np.array([_quantiles(column, level) for column in t.T])[:, ::-1] * boot.se[:, None]
    if kind == "bca" and boot.jackknife is not None:
        columns = zip(draws.T, boot.values, boot.jackknife.T, strict=True)
        return np.array([_quantiles(drawn, _bca_levels(drawn, value, left, level)) for drawn, value, left in columns])
    raise NotAvailableError(
        f'this bootstrap did not keep what the "{kind}" interval needs. Pass kind="{kind}" when drawing; "percentile" '
        'and "basic" are always available.'
    )


def _bca_levels(draws: FloatArray, value: float, without: FloatArray, level: FloatArray) -> FloatArray:
    """Levels of the quantiles that end a bias-corrected and accelerated interval.

    NaN where all draws lie on one side of the estimate, it does not exist without some cluster, or the acceleration is
    too large for the level. Efron (1987), JASA 82, equations 2.3 and 2.8; Davison and Hinkley (1997), equations 5.20 to
    5.26. Shapes: draws (n_draws,), without (n_clusters,); returns (2,).
    """
    known, finite = draws[~np.isnan(draws)], draws[np.isfinite(draws)]
    # Draws at the estimate count as half below it, as statistics of few clusters are discrete; rounding aside.
    room = EQUAL * float(np.ptp(finite)) if finite.size else 0.0
    below = (np.count_nonzero(known < value - room) + np.count_nonzero(known <= value + room)) / 2
    bias = float(scipy.special.ndtri(below / max(known.size, 1)))
    if not (np.isfinite(bias) and np.isfinite(without).all()):
        return np.full(2, np.nan)
    change = without.mean() - without
    squares = float(np.sum(change**2))
    acceleration = float(np.sum(change**3)) / (6 * squares**1.5) if squares > 0 else 0.0
    shifted = bias + scipy.special.ndtri(level)
    below_one = 1 - acceleration * shifted
    levels = scipy.special.ndtr(bias + shifted / np.where(below_one > 0, below_one, 1.0))
    return np.where(below_one > 0, levels, np.nan)


def _quantiles(draws: FloatArray, level: FloatArray) -> FloatArray:
    """Lower and upper quantile at (n + 1) p; between a number and infinity the outer one; NaN beyond the draws."""
    known = np.sort(draws[~np.isnan(draws)])
    place = (known.size + 1) * level
    whole = np.rint(place)
    place = np.where(np.abs(place - whole) <= ROUNDING * known.size, whole, place)
    if not np.all((place >= 1) & (place <= known.size)):
        return np.full(2, np.nan)
    below = np.floor(place).astype(int)
    low, high = known[below - 1], known[np.ceil(place).astype(int) - 1]
    with np.errstate(invalid="ignore"):
        between = low + (place - below) * (high - low)
    return np.where(np.isfinite(low) & np.isfinite(high), between, [low[0], high[1]])


def refuse_few(draws: int, alpha: float) -> None:
    """Raise if the ends of an interval lie beyond so few draws: unless (n + 1) alpha/2 is at least 1."""
    least = int(np.ceil(2 / alpha * (1 - ROUNDING))) - 1
    if draws < least:
        raise ArgumentError(
            f"`draws` must be at least {least} for a {1 - alpha:.4g} interval, whose ends are the draws at "
            f"(draws + 1) alpha/2 from either side; got {draws}. Take more, or a larger `alpha`.",
            count=draws,
        )


def _checked(draws: Any, kind: Any, weights: Any, alpha: Any, seed: Any) -> tuple[int, int, dict[str, Any]]:
    """How many draws, the root of their random streams, and the options that the result keeps."""
    option("kind", kind, KindName)
    option("weights", weights, BootWeightsName)
    base, printed = base_seed(seed)
    draws, alpha = whole_number("draws", draws), fraction("alpha", alpha)
    refuse_few(draws, alpha)
    return draws, base, {"kind": kind, "weights": weights, "alpha": alpha, "seed": printed}


def check_crossed(kind: KindName, n_axes: int) -> None:
    """Raise if an interval for one clustering is asked of several."""
    if n_axes > 1 and kind in ("bca", "studentized"):
        raise NotAvailableError(
            f'the "{kind}" interval is available for one clustering; got {n_axes} crossed ones. Use kind="percentile" '
            'or "basic".'
        )


class Bootstrapped:
    """Results whose estimates can be solved again from sums within clusters."""

    estimate: Estimate
    axes: tuple[Axis, ...]

    def bootstrap(
        self,
        draws: int = 1999,
        kind: KindName = "percentile",
        weights: BootWeightsName = "multinomial",
        alpha: float = 0.05,
        seed: Seed = 0,
    ) -> Bootstrap:
        """Estimates solved again from whole clusters drawn with replacement, with the intervals that they give.

        Parameters
        ----------
        draws : int, default 1999
            How many.
        kind : {"percentile", "basic", "bca", "studentized"}, optional
            Interval; the last two for one clustering.
        weights : {"multinomial", "bayesian"}, optional
            Whole clusters with replacement, or exponential weights of all clusters (the Bayesian bootstrap).
        alpha : float, default 0.05
            One minus the level of the intervals.
        seed : int or Generator, default 0
            Of the draws.

        Returns
        -------
        Bootstrap
            `draws`, `bse` and `conf_int()`. Crossed clusterings are drawn independently of each other (pigeonhole).

        Raises
        ------
        NotAvailableError
            If the estimate is not of means, ratings or least squares (`evalreg.bootstrap` takes any function), if it is
            a function of them (which is to be taken of `draws`), or of a finite benchmark.
        ArgumentError
            If rows are taken as independent, or an option is unknown.

        References
        ----------
        Cameron, Gelbach and Miller (2008), REStat 90(3), for whole clusters; Owen (2007), Annals of Applied Statistics
        1(2), for crossed ones.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=30, unequal=True, seed=4)
        >>> results = er.mean(log, groups="passage")
        >>> results.bootstrap(draws=999).conf_int().round(2).values.tolist()
        [[0.49, 0.71]]
        """
        estimate, axes = self.estimate, self.axes
        draws, base, options = _checked(draws, kind, weights, alpha, seed)
        for axis in axes:
            check_two_clusters(estimate.scores, axis, axes)
        axes = drop_nested(estimate.scores, axes)[0]
        instead = "`evalreg.bootstrap` with a function, which draws rows where `groups` is None"
        refuse_without_sums(estimate, axes, "a cluster bootstrap", instead)
        check_crossed(kind, len(axes))
        by, codes, n_clusters = meetings(estimate, axes)
        solver = solver_of(estimate, by)

        def work(n: int, rng: np.random.Generator) -> FloatArray:
            parts = list[FloatArray]()
            for V in _products(boot_chunks(weights, n_clusters, n, rng), codes):
                parts.append(np.hstack(solver.with_errors(V)) if kind == "studentized" else solver.solve(V))
                progress.advance(len(V))
            return np.concatenate(parts)

        with Progress(draws) as progress:
            params = np.concatenate([work(n, rng) for _, n, rng in blocks(draws, base)])
        if kind == "bca":
            options["jackknife"] = solver.without()
        if kind == "studentized":
            params, errors = np.hsplit(params, 2)
            options |= {"se": solver.with_errors(np.ones((1, codes[0].size)))[1][0], "draws_se": errors}
        options["n_clusters"] = dict(zip(map(axis_name, axes), n_clusters, strict=True))
        # Where scores do not vary all draws are alike; of what no score enters that is so by itself.
        flat = np.diag(naive_term(estimate).matrix) <= 0
        if estimate.coefficient_map is not None:
            flat &= np.any(dense(estimate.coefficient_map) != 0, axis=1)
        return _with_notes(Bootstrap(estimate.names, np.array(estimate.params), params, **options), flat)


def _products(chunks: Iterator[list[FloatArray]], codes: list[IntArray]) -> Iterator[FloatArray]:
    """Weights of the joint values of the axes, as many at a time as are held."""
    held = max(1, HELD // codes[0].size)
    for each in chunks:
        for rows in (slice(first, first + held) for first in range(0, each[0].shape[0], held)):
            if len(each) == 1:
                yield each[0][rows]
            else:
                yield np.prod([weight[rows][:, code] for weight, code in zip(each, codes, strict=True)], axis=0)


def _with_notes(boot: Bootstrap, flat: BoolArray, n_rows: int = 0) -> Bootstrap:
    """The same with warnings of few clusters, rows or draws, and of draws without a value, all alike or infinite."""
    # What is left of draws that are all alike is rounding.
    boot = replace(boot, draws=np.where(flat, np.nan, boot.draws))
    draws, n, outside = boot.draws, len(boot.draws), (len(boot.draws) + 1) * boot.alpha / 2
    failed, lost = np.isnan(draws).sum(axis=0) * ~flat, np.isinf(draws).sum(axis=0)
    unsolved = np.zeros(flat.size) if boot.jackknife is None else (~np.isfinite(boot.jackknife)).sum(axis=0)
    low, high = (int(np.count_nonzero(draws[:, np.argmax(lost)] == side)) for side in (-np.inf, np.inf))

    def named(counts: FloatArray | BoolArray) -> str:
        return listed(compress(boot.names, counts))

    def worst(counts: FloatArray) -> str:
        return listed([boot.names[int(np.argmax(counts))]])

    said = (
        # With fewer the ends depend on the seed.
        (
            outside < 2.5,
            f"{n} draws are few for a {1 - boot.alpha:.4g} interval: its ends are the draws at place {outside:.3g} "
            f"from either side, and another seed moves them. Take {round(FEW_DRAWS / boot.alpha) - 1} or more.",
        ),
        (
            flat.any(),
            f"the draws of {named(flat)} are all alike: there is no standard error and no interval by drawing again.",
        ),
        (
            failed.any(),
            f"{np.max(failed)} of {n} draws have no value of {worst(failed)} and are left out of its standard error "
            "and interval, which speak of the other draws only.",
        ),
        (
            lost.any(),
            f"{np.max(lost)} of {n} draws of {worst(lost)} are infinite ({low} below, {high} above). They count as the "
            "most extreme draws in its interval; its standard error is infinite.",
        ),
        (
            unsolved.any(),
            f'no "bca" interval of {named(unsolved)}: without one of the clusters there is no finite estimate. Use '
            'kind="percentile".',
        ),
    )
    notes: list[Note] = [
        (
            FewClustersWarning,
            f"{count} {name}: the draws are much alike, and their spread is too small. Prefer `wild_test` or CR2 where "
            "they are available.",
        )
        for name, count in {"rows": n_rows, **{f"{name} clusters": n for name, n in boot.n_clusters.items()}}.items()
        if 1 < count < FEW_CLUSTERS
    ]
    notes += [(EvalregWarning, text) for applies, text in said if applies]
    issue(notes)
    return replace(boot, notes=tuple(notes))


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
) -> Bootstrap:
    """Cluster bootstrap of any function of the data.

    Clusters are taken to be independent draws, those of crossed clusterings on each axis for itself. A sample has all
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
    draws : int, default 1999
        How many.
    kind : {"percentile", "basic", "bca"}, optional
        Interval; "bca" also computes the statistic without each cluster, and needs one clustering.
    weights : {"multinomial", "bayesian"}, optional
        Whole clusters with replacement, or exponential weights.
    alpha : float, default 0.05
        One minus the level.
    seed : int or Generator, default 0
        Of the draws.

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
    draws, base, options = _checked(draws, kind, weights, alpha, seed)
    if kind == "studentized":
        raise NotAvailableError(
            'the "studentized" interval needs standard errors of the draws, which a function does not give. Use '
            'kind="percentile", "basic" or "bca".'
        )
    if not callable(statistic):
        raise ArgumentTypeError(f"`statistic` must be a function of a data frame; got {type(statistic).__name__}.")
    table, axes, codes, n_clusters = _clusters(data, groups)
    check_crossed(kind, len(codes))
    weighted = weights == "bayesian"

    def sample(each: Sequence[FloatArray]) -> tuple[Any, ...]:
        """Arguments of the statistic under weights of the clusters of each axis."""
        if weighted:
            row_weights = np.prod([weight[code] for weight, code in zip(each, codes, strict=True)], axis=0)
            return _native(table.frame), row_weights
        rows, ids = _copies(codes, each)
        named = {axis[-1]: of_axis for axis, of_axis in zip(axes, ids, strict=False) if axis[-1] in table.columns}
        return (_taken(table.frame, rows, named),)

    def without(cluster: int) -> tuple[Any, ...]:
        rows = np.flatnonzero(codes[0] != cluster)
        return (_taken(table.frame, rows, {}), np.ones(rows.size))[: 1 + weighted]

    everything = (_native(table.frame), np.ones(table.n_rows))[: 1 + weighted]
    whole, names = _numbers(statistic, everything, "the data as they are")

    def again(arguments: tuple[Any, ...], where: str) -> FloatArray:
        return _numbers(statistic, arguments, where, whole.size, names)[0]

    def work(first: int, n: int, rng: np.random.Generator) -> FloatArray:
        values: list[FloatArray] = []
        for each in boot_chunks(weights, n_clusters, n, rng):
            for drawn in zip(*each, strict=True):
                values.append(again(sample(drawn), f"draw {first + len(values)}"))
                progress.advance(1)
        return np.array(values)

    with Progress(draws) as progress:
        values = np.concatenate([work(*block) for block in blocks(draws, base)])
    if kind == "bca":
        left = [again(without(g), f"the sample without cluster {g}") for g in range(n_clusters[0])]
        options["jackknife"] = np.array(left)
    if names is None:
        name = getattr(statistic, "__name__", "statistic").replace("<lambda>", "statistic")
        names = (name,) if whole.size == 1 else tuple(f"{name}[{i}]" for i in range(whole.size))
    options["n_clusters"] = dict(zip(map(axis_name, axes), n_clusters, strict=False))
    flat = np.isclose(values, whole, rtol=EQUAL, atol=0.0).all(axis=0)
    return _with_notes(Bootstrap(names, whole, values, **options), flat, 0 if axes else table.n_rows)


def _copies(codes: list[IntArray], each: Sequence[FloatArray]) -> tuple[IntArray, list[IntArray]]:
    """Rows of a sample, and on each axis an id of its own for every copy of a cluster."""
    by_row = [weight.astype(np.intp)[code] for weight, code in zip(each, codes, strict=True)]
    times = np.prod(by_row, axis=0)
    rows = np.repeat(np.arange(times.size), times)
    # Number of each copy among those of its row, from 0; its digits are the copies of the clusters.
    copy, ids = np.arange(rows.size) - np.repeat(np.cumsum(times) - times, times), []
    for code, weight, count in zip(codes, each, by_row, strict=True):
        starts = (np.cumsum(weight) - weight).astype(np.intp)
        ids.append(starts[code[rows]] + copy % count[rows])
        copy = copy // count[rows]
    return rows, ids


def _native(frame: nw.DataFrame[Any]) -> Any:
    """The data themselves, of which columns that the function sets are its own."""
    native = frame.to_native()
    return native.copy(deep=False) if isinstance(native, pd.DataFrame) else native


def _taken(frame: nw.DataFrame[Any], rows: IntArray, columns: Mapping[str, IntArray]) -> Any:
    """A new frame of these rows, with other columns in the place of those of the same name, in its own library."""
    native = frame.to_native()
    if isinstance(native, pd.DataFrame):
        taken = native.take(rows)
        for name, values in columns.items():
            taken[name] = values
        return taken
    backend = nw.get_native_namespace(frame)
    series = [nw.new_series(name, values, backend=backend) for name, values in columns.items()]
    return frame[rows].with_columns(*series).to_native()


def _clusters(data: Any, groups: Groups) -> tuple[Table, tuple[Axis, ...], list[IntArray], list[int]]:
    """The rows, the clusterings, and the cluster of each row on every one (itself without any) with their numbers."""
    table = rows_in_memory(data, "a bootstrap of a function")
    # Rows without columns: only their labels are wanted.
    rows: Any = InfluenceScores(np.empty((table.n_rows, 0)), Labels(table.n_rows, {}, UsedRows(table, None)))
    rows, axes = resolve_groups(rows, groups)
    if not axes:
        return table, (), [np.arange(table.n_rows)], [table.n_rows]
    for axis in axes:
        check_two_clusters(rows, axis, axes)
    axes, notes = drop_nested(rows, axes)
    issue(notes)
    labels = [rows.labels.codes(axis) for axis in axes]
    return table, axes, [of_axis.codes for of_axis in labels], [of_axis.n_clusters for of_axis in labels]


def _numbers(
    statistic: Callable[..., Any],
    sample: tuple[Any, ...],
    where: str,
    size: int | None = None,
    names: tuple[str, ...] | None = None,
) -> tuple[FloatArray, tuple[str, ...] | None]:
    """Value of a function of a sample as numbers, and their names if it has any; errors say where it failed.

    `size, names`: those of the data. A sample may lack a name altogether, such as a model; its number is NaN.
    """
    try:
        value = statistic(*sample)
    except Exception as error:
        # The function is the user's, and may raise anything.
        raise ArgumentError(f"`statistic` failed for {where}: {type(error).__name__}: {error}") from error
    kind, labels = type(value).__name__, None
    if isinstance(value, pd.Series | Mapping):
        by_name = {str(name): number for name, number in value.items()}
        labels, value = tuple(map(str, value.keys())), list(value.values() if isinstance(value, Mapping) else value)
        if names is not None:
            more = [name for name in by_name if name not in names]
            if more:
                raise ArgumentError(
                    f"`statistic` must return the same names for every sample; {listed(more)} of {where} is not among "
                    "those of the data."
                )
            value = [by_name.get(name, np.nan) for name in names]
    try:
        # None alone is a function without a return.
        numbers = np.atleast_1d(real_numbers("" if value is None else value))
    except (TypeError, ValueError):
        numbers = np.empty((0, 0))
    if numbers.ndim != 1 or numbers.size == 0:
        raise ArgumentTypeError(
            f"`statistic` must return a number, or an array, Series or dict of numbers; got {kind} for {where}."
        )
    if size not in (None, numbers.size):
        raise ArgumentError(
            f"`statistic` must return as many numbers for every sample; got {size} for the data and {numbers.size} "
            f"for {where}. Return a Series or a dict, which is matched by name, or NaN for what is missing."
        )
    return numbers, labels

"""The cluster bootstrap of any function of a data frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.covariance.options import Groups, drop_nested, resolve_groups
from evalreg.data.clusters import Axis, axis_name
from evalreg.data.engine import LazyTable
from evalreg.data.frame import Table, UsedRows
from evalreg.data.labels import Labels
from evalreg.data.opening import open_frame
from evalreg.errors import ArgumentError, ArgumentTypeError, NotAvailableError, TooFewClustersError, issue
from evalreg.inference.simultaneous import Seed
from evalreg.numerics.progress import Progress
from evalreg.resampling.bootstrap import Bootstrap, KindName
from evalreg.resampling.draws import BootWeightsName, boot_chunks, run_blocks, whole_number
from evalreg.resampling.resample import assembled, check_crossed, check_options
from evalreg.scores.rows import RowScores


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
    if isinstance(table, LazyTable):
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

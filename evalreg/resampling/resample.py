"""The cluster bootstrap: what comes back, its intervals, and estimates solved again from cluster sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, fraction, frozen, listed, option
from evalreg.covariance.groups import check_two_clusters, drop_nested
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import (
    ArgumentError,
    EvalregWarning,
    FewClustersWarning,
    NotAvailableError,
    Note,
    issue,
)
from evalreg.estimate import AtInfinity, Estimate
from evalreg.inference.multiplicity import base_seed
from evalreg.inference.simultaneous import Seed
from evalreg.report.tables import Grid, Summary, number
from evalreg.resampling.boot_sums import meetings, solver_of
from evalreg.resampling.draws import BOOT_WEIGHTS, BootWeightsName, Progress, boot_chunks, run_blocks, whole_number
from evalreg.resampling.intervals import (
    basic_interval,
    bca_interval,
    least_draws,
    percentile_interval,
    studentized_interval,
)

KindName: TypeAlias = Literal["percentile", "basic", "bca", "studentized"]
KINDS: tuple[KindName, ...] = get_args(KindName)
# Below this many clusters the draws are too much alike, and their spread is too small.
FEW_CLUSTERS = 10
# Fewer draws than this outside an end, and it depends on the seed; what is advised instead.
FEW_OUTSIDE = 2.5
FEW_DRAWS = 999
# Models that a note names.
MOST_NAMED = 5
# Entries of the (draws, meetings) array that is held at a time.
MOST_ENTRIES = 1 << 23


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
        ("Draws", f"{boot.draws.shape[0]} ({boot.weights}, seed {boot.seed})"),
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
    _refuse_few(boot.draws.shape[0], alpha)
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
    _refuse_few(draws, alpha)
    return Asked(draws, kind, weights, alpha, base, printed)


def _refuse_few(draws: int, alpha: float) -> None:
    """Raise if the ends of an interval lie beyond so few draws."""
    least = least_draws(alpha)
    if draws < least:
        raise ArgumentError(
            f"`draws` must be at least {least} for a {1 - alpha:.4g} interval, whose ends are the draws at "
            f"(draws + 1) alpha/2 from either side; got {draws}. Take {FEW_DRAWS} or more, or a larger `alpha`.",
            count=draws,
        )


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
    one = np.ones((1, codes[0].size))
    studentized = kind == "studentized"
    return assembled(
        estimate.names,
        np.array(estimate.params),
        np.concatenate([part[0] for part in parts]),
        asked,
        {axis_name(axis): n for axis, n in zip(axes, n_clusters, strict=True)},
        solver.without() if kind == "bca" else None,
        solver.errors(one)[0] if studentized else None,
        np.concatenate([part[1] for part in parts]) if studentized else None,
        None if estimate.refit is None else estimate.refit.at_infinity,
    )


def _products(chunks: Iterator[list[FloatArray]], codes: list[IntArray]) -> Iterator[FloatArray]:
    """Weights of the joint values of the axes, as many at a time as are held."""
    held = max(1, MOST_ENTRIES // codes[0].size)
    for each in chunks:
        for rows in (slice(first, first + held) for first in range(0, each[0].shape[0], held)):
            if len(each) == 1:
                yield each[0][rows]
            else:
                yield np.prod([one[rows][:, code] for one, code in zip(each, codes, strict=True)], axis=0)


def _draw_notes(names: tuple[str, ...], draws: FloatArray, asked: Asked, at_infinity: AtInfinity | None) -> list[Note]:
    """What to say of few draws, of draws without a value, and of infinite ones."""
    alpha = asked.alpha
    notes: list[Note] = []
    n = draws.shape[0]
    outside = (n + 1) * alpha / 2
    if outside < FEW_OUTSIDE:
        text = (
            f"{n} draws are few for a {1 - alpha:.4g} interval: its ends are the draws at place {outside:.3g} from "
            f"either side, and another seed moves them. Take {FEW_DRAWS} or more."
        )
        notes.append((EvalregWarning, text))
    failed = np.count_nonzero(np.isnan(draws), axis=0)
    if failed.any():
        worst = int(np.argmax(failed))
        text = (
            f"{failed[worst]} of {n} draws have no value of {listed([names[worst]])} and are left out of its standard "
            "error and interval, which speak of the other draws only."
        )
        notes.append((EvalregWarning, text))
    rated = np.isin(names, at_infinity.rated) if at_infinity else np.zeros(len(names), dtype=bool)
    if at_infinity:
        rest = (names, draws, rated, at_infinity.zero, asked.kind)
        notes += [(EvalregWarning, text) for side in (-np.inf, np.inf) for text in _lost_ratings(side, *rest)]
    lost = np.count_nonzero(np.isinf(draws), axis=0) * ~rated
    if lost.any():
        worst = int(np.argmax(lost))
        low, high = (int(np.count_nonzero(draws[:, worst] == side)) for side in (-np.inf, np.inf))
        text = (
            f"{lost[worst]} of {n} draws of {listed([names[worst]])} are infinite ({low} below, {high} above). They "
            "stand at the end of their side in its interval; its standard error is infinite."
        )
        notes.append((EvalregWarning, text))
    return notes


def _jackknife_notes(names: tuple[str, ...], jackknife: FloatArray | None) -> list[Note]:
    """Which estimates have no BCa interval, because they do not exist without some cluster."""
    if jackknife is None or np.isfinite(jackknife).all():
        return []
    lost = [name for name, left in zip(names, jackknife.T, strict=True) if not np.isfinite(left).all()]
    text = f'no "bca" interval of {listed(lost)}: without one of the clusters there is no finite estimate. '
    return [(EvalregWarning, text + 'Use kind="percentile".')]


def _lost_ratings(
    side: float, names: tuple[str, ...], draws: FloatArray, rated: BoolArray, zero: str | None, kind: KindName
) -> Iterator[str]:
    """In how many draws each model never won (never lost, for infinity above), and where its interval has them."""
    count = np.count_nonzero(draws == side, axis=0) * rated
    order = [j for j in np.argsort(-count, kind="stable") if count[j]]
    if not order:
        return
    below = side < 0
    of_draws = [f" of {draws.shape[0]} draws", *[""] * len(order)]
    each = ", ".join(
        f"in {count[j]}{of} {listed([names[j]])}" for j, of in zip(order[:MOST_NAMED], of_draws, strict=False)
    )
    more = f" and, in fewer, {len(order) - MOST_NAMED} more models" if len(order) > MOST_NAMED else ""
    what, own = f"never {'won' if below else 'lost'} against the rest", "its" if len(order) == 1 else "each one's"
    rest = " In such a draw the ratings of the rest sum to zero without it."
    if zero is not None:
        what, rest = f"{'fell' if below else 'rose'} infinitely far from {listed([zero])}, which is 0", ""
    limit, far = "lower" if below == (kind != "basic") else "upper", "below" if below else "above"
    text = f"{each}{more} {what}; {own} {limit} limit counts them as {far} all others. The standard error is infinite."
    yield text + rest


def assembled(
    names: tuple[str, ...],
    values: FloatArray,
    draws: FloatArray,
    asked: Asked,
    n_clusters: dict[str, int],
    jackknife: FloatArray | None = None,
    se: FloatArray | None = None,
    draws_se: FloatArray | None = None,
    at_infinity: AtInfinity | None = None,
) -> Bootstrap:
    """Put a bootstrap together, and issue its warnings."""
    notes: list[Note] = []
    for name, n in n_clusters.items():
        if n < FEW_CLUSTERS:
            text = f"{n} {name} clusters: the draws are much alike, and their spread is too small. Prefer `wild_test`"
            notes.append((FewClustersWarning, text + " or CR2 where they are available."))
    notes += _draw_notes(names, draws, asked, at_infinity)
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

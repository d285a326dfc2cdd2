"""Looks at a growing log: from rows in the order of complete clusters to intervals that hold at every look."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from evalreg import errors
from evalreg.checks import BoolArray, FloatArray, IntArray, fraction, issue, listed, nearest_or_all, whole_number
from evalreg.choices import MissingName
from evalreg.data.clusters import Codes, Groups, axis_name, joint, with_roles
from evalreg.data.frame import Table, rows_in_memory
from evalreg.data.rows import ReadRows, cells_of, read_rows
from evalreg.inference.sequential import bounds, mixture_rho, path_of_totals, roughness

# Above this skewness of the mean, or share of one cluster, sequences miss too often (docs/guide/resampling.md).
SKEWED, DOMINANT = 0.3, 0.4


def confidence_sequence(
    data: Any,
    score: str = "score",
    *,
    groups: Groups = None,
    model: str | None = None,
    pair: Sequence[Any] | None = None,
    alpha: float = 0.05,
    t0: int = 50,
    start: int = 30,
    missing: MissingName = "drop",
) -> pd.DataFrame:
    """Intervals of a mean, or of a difference of two models, valid at every number of clusters together.

    A growing log may be looked at after every cluster, and stopped at any look for any reason: the probability that any
    interval shown misses the true value is about alpha. Clusters are taken to be independent draws from one population,
    in an order that has nothing to do with their scores. The statement is asymptotic, as that of an ordinary interval.

    Parameters
    ----------
    data : data frame or dict of arrays
        One row an answer, in memory.
    score : str, default "score"
        Column of scores; for a difference also one of paired differences already formed.
    groups : str, array or Series, optional
        One clustering: a column, several joined as in "language:question", or labels; each row is a cluster by default.
        The rows of a cluster come together, and only complete clusters are passed.
    model : str, optional
        Column of the models, for a difference; a cluster's rows of both models come together.
    pair : (first, second), optional
        The two models of `model` whose difference, first minus second, is wanted.
    alpha : float, default 0.05
        Probability of a miss over all looks.
    t0 : int, optional
        Number of clusters at which intervals are to be narrowest, fixed before the first look; 50 by default.
    start : int, optional
        First number of clusters shown, 30 by default: earlier intervals miss too often.
    missing : {"drop", "raise"}, optional
        Rows without a score, model or cluster: dropped and counted in `.attrs["dropped"]`, or an error.

    Returns
    -------
    DataFrame
        Indexed by the number of clusters, from `start`; columns estimate, se (as at a single look fixed beforehand),
        lower, upper, n (rows). Intervals of the mean of scores in [0, 1] are made on the logit scale. `.attrs` has
        alpha, t0, rho, dropped and `rule`, what is true at that level. While clusters are all alike, the interval is
        all that is possible: [0, 1], or [-1, 1] for a difference, of scores in [0, 1], and infinite otherwise. A
        `SkewedScoresWarning` says where scores are too skewed, a `DominantClusterWarning` where one cluster is too big.

    Raises
    ------
    TooFewClustersError
        If there are fewer clusters than `start`.
    DataError
        If the rows of some clusters do not come together.
    ConstantScoreError
        If scores outside [0, 1] are all alike (in their means by cluster) at every look.
    MissingColumnError, ArgumentError, ArgumentTypeError, NotAvailableError
        If columns, numbers or models are not there or not fit, or the rows are in an engine.

    References
    ----------
    Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024), Time-uniform central limit theory and asymptotic confidence
    sequences, Annals of Statistics 52(6), theorem 2.2; with totals of clusters for observations.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=60, seed=1)  # simulated
    >>> log = log.sort_values("passage", kind="stable")
    >>> looks = er.confidence_sequence(log, groups="passage", model="model", pair=("new", "old"))
    >>> looks.loc[[30, 60], ["estimate", "lower", "upper"]].round(3).values.tolist()
    [[-0.067, -0.212, 0.079], [-0.02, -0.112, 0.072]]
    """
    alpha, t0, start = fraction("alpha", alpha), whole_number("t0", t0), whole_number("start", start, 2)
    table, _ = with_roles(rows_in_memory(data, "`confidence_sequence`"), {"score": score}, model=model)
    models, within = _pair(table, model, pair)
    # Rows of other models are none of this comparison's, and are not counted as dropped.
    labels = {} if model is None else {model: "model"}
    used = read_rows(table, {"score": score}, labels=labels, groups=groups, missing=missing, within=within)
    totals, counts = _totals(used, model, models)
    scores = used.values["score"]
    low, high = float(np.min(scores, initial=np.inf)), float(np.max(scores, initial=-np.inf))
    in_unit, n_clusters = low >= 0 and high <= 1, totals.shape[0]
    logit = in_unit and model is None
    if n_clusters < start:
        what = "rows, each its own" if groups is None else "complete ones"
        raise errors.TooFewClustersError(
            f"a confidence sequence starts at {start} clusters; there are {n_clusters} {what}. Look again when there "
            "are more: earlier intervals would miss too often.",
            column=groups if isinstance(groups, str) else None,
            count=n_clusters,
        )
    # Between which the truth lies: of scores in [0, 1], of their differences, formed already or not, or of neither.
    limits = (0.0, 1.0) if in_unit and model is None else (-1.0, 1.0)
    bounded = in_unit or (model is None and low >= -1 and high <= 1)
    path = path_of_totals(totals, counts, np.array([1.0, -1.0])[: totals.shape[1]])
    if np.isnan(path.estimate[start - 1]):
        raise errors.DataError(
            f"both models must have rows by the first look; one has none in the first {start} clusters. Put the "
            "clusters in the order in which they were complete, or raise `start`."
        )
    if not bounded and not path.spread[-1] > 0:
        raise errors.ConstantScoreError(
            f"`score` must vary; the clusters' means of {score!r} are alike in all {n_clusters} clusters, and scores "
            "outside [0, 1] have no bounds to show in place of an interval. Look again when there are more.",
            column=score,
        )
    lower, upper = bounds(path, start, alpha=alpha, t0=t0, logit=logit, limits=limits if bounded else (-np.inf, np.inf))
    issue(_rough_notes(totals, counts, start, score, bounded))
    looks, shown = np.arange(start, n_clusters + 1), slice(start - 1, None)
    columns = {"estimate": path.estimate[shown], "se": path.spread[shown] / np.sqrt(looks), "lower": lower}
    frame = pd.DataFrame(columns, index=pd.Index(looks, name="n_clusters"))
    frame = frame.assign(upper=upper, n=path.n_rows[shown])
    frame.attrs = {"alpha": alpha, "t0": t0, "rho": mixture_rho(t0, alpha), "method": "logit" if logit else "wald"}
    rule = "asymptotic confidence sequence (Waudby-Smith and others 2024): intervals of all looks hold together"
    frame.attrs |= {"rule": rule, "dropped": used.dropped}
    return frame


def _rough_notes(totals: FloatArray, counts: FloatArray, start: int, score: str, bounded: bool) -> list[errors.Note]:
    """Warn where the normal approximation is far off: skewed scores without bounds, or one dominant cluster."""
    contrast = np.array([1.0, -1.0])[: totals.shape[1]]
    skew, share = roughness(totals, counts, contrast, start)
    if not bounded and skew > SKEWED:
        text = (
            f"the clusters of {score!r} are too skewed for a confidence sequence: at the worst look the mean has a "
            f"skewness of {skew:.2g} (safe is {SKEWED}). Simulated sequences of such scores miss in 8% to 45% of logs. "
            "Take logarithms of costs and times, or a share above a threshold."
        )
        return [(errors.SkewedScoresWarning, text)]
    size = counts.sum(axis=1)
    sizes = np.maximum.accumulate(size**2) / np.cumsum(size**2)
    share = float(sizes[start - 1 :].max()) if bounded else share
    if share > DOMINANT:
        text = (
            f"one cluster has up to {share:.0%} of the squared influence on {score!r} ({DOMINANT:.0%} is safe). "
            "A confidence sequence needs many that are alike. Take finer clusters, or start later."
        )
        return [(errors.DominantClusterWarning, text)]
    return []


def _totals(used: ReadRows, model: str | None, models: tuple[str, ...]) -> tuple[FloatArray, FloatArray]:
    """Sums and numbers of rows of each cluster in order, a column a model."""
    axes = used.axes or ()
    if len(axes) > 1:
        raise errors.ArgumentError(
            f"`groups` must name one clustering, since clusters are complete one after another; got {len(axes)}. "
            f'Use the one whose clusters come in one by one, such as groups="{axis_name(axes[0])}".'
        )
    cluster, part = np.arange(used.n_rows), np.zeros(used.n_rows, dtype=np.intp)
    if axes:
        cluster = _in_order(joint([used.used[name] for name in used.held]), axis_name(axes[0]))
    if model is not None:
        keys, cell = cells_of(used.used, (model,))
        part = np.array([models.index(name) for (name,) in keys])[cell]
    width, values = max(len(models), 1), (used.values["score"], np.ones(used.n_rows))
    size, number = (int(cluster.max(initial=-1)) + 1) * width, cluster * width + part
    totals, counts = (np.bincount(number, of_rows, size).astype(float).reshape(-1, width) for of_rows in values)
    return totals, counts


def _pair(table: Table, model: str | None, pair: Sequence[Any] | None) -> tuple[tuple[str, ...], BoolArray | None]:
    """The two models of the difference, none of a mean; and which rows are theirs.

    A row without a model is one of the pair's: it is dropped and counted, whichever it was.
    """
    if model is None:
        if pair is not None:
            raise errors.ArgumentError("`pair` names two models; name their column in `model`.")
        return (), None
    codes, names = table.labels(model, "model")
    known = [str(name) for name in names]
    models = tuple(map(str, pair)) if isinstance(pair, list | tuple) else ()
    if len(models) != 2 or models[0] == models[1]:
        raise errors.ArgumentError(
            f"`pair` must be two different models of {model!r}, of which the second is subtracted from the first; got "
            f"{pair!r}. The models are {listed(known)}."
        )
    for name in models:
        if name not in known:
            hint = nearest_or_all(name, known, "model")
            raise errors.MissingColumnError(
                f'`pair` names "{name}", which is not in column {model!r}.{hint}', column=model
            )
    return models, np.append(np.isin(known, models), True)[codes]


def _in_order(cluster: Codes, name: str) -> IntArray:
    """Clusters of the rows, numbered as they come; an error if the rows of one do not come together."""
    number, codes = pd.factorize(cluster.codes)
    runs = np.bincount(number[np.flatnonzero(np.diff(number, prepend=-1))])
    split = np.sort(codes[runs > 1])
    if split.size:
        labels = listed(cluster.label(int(code)) for code in split)
        raise errors.DataError(
            f"the rows of a cluster must come together, one cluster after another; {split.size} of {runs.size} "
            f"clusters of {name!r} are split ({labels}). Sort by cluster in the order in which clusters were complete, "
            "and leave incomplete ones out.",
            column=name,
            count=split.size,
        )
    return number

"""The winner of several models, corrected for having been chosen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse, special

from evalreg.checks import FloatArray, fraction, listed, option
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import ArgumentError, NotAvailableError
from evalreg.inference.selection import SHARE, corrected, hybrid_level, winning_values
from evalreg.numerics.limits import EQUAL
from evalreg.numerics.matrices import compressed, dense
from evalreg.report.tables import Grid, Shown, Summary, limits, number
from evalreg.scores.score_interval import FEW_EXPECTED

if TYPE_CHECKING:
    from evalreg.covariance.covariance import Covariance
    from evalreg.estimate import Estimate
    from evalreg.inference.simultaneous import Seed


# `MultipleModels`, whose module imports this one.
AnyModels: TypeAlias = Any

WinnerName: TypeAlias = Literal["hybrid", "conditional", "projection"]
BestName: TypeAlias = Literal["largest", "smallest"]
METHODS: tuple[WinnerName, ...] = ("hybrid", "conditional", "projection")
BEST: tuple[BestName, ...] = ("largest", "smallest")
# Equal clusters on every crossed axis from which the hybrid holds the truth often enough (benchmarks/winner.py); of
# so many cells with unlike rows a little of one is lost.
ENOUGH = 9.0
# Clusters that strong effects of theirs are worth, (sum h^2)^2 / sum h^4 with h their shares of the rows. Below it the
# corrected estimate is too high in up to .81 of the logs, and the hybrid holds the truth in as few as .92; with two
# equal clusters, which are worth just that, it holds it in .81.
ALONE = 2.0

_WORDS = {
    "hybrid": "is conditional on who came first, within one that holds for all at once (hybrid)",
    "conditional": "is conditional on who came first, and can be very long where others are near",
    "projection": "is one that holds for all of them at once, whichever comes first (projection)",
}


@dataclass(frozen=True, repr=False)
class Winner(Shown):
    """The best of several models with an interval that allows for the choice; made by `winner`, immutable.

    Parameters
    ----------
    name : str
        The model whose estimate is best.
    n_models : int
        How many it was chosen from.
    estimate, se : float
        As measured, and its standard error.
    corrected : float
        About as often above the truth as below it, roughly so with few clusters; NaN where nothing but a projection is
        known.
    lower, upper : float
        The interval of `method`.
    single_lower, single_upper : float
        The interval shown in tables, which does not allow for the choice.
    method : {"hybrid", "conditional", "projection"}
        How the interval was made.
    alpha : float
        Level.
    tied : tuple of str
        Other models with the same estimate.
    reason : str
        Why there is no other interval than the projection; empty otherwise.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.judge_log(n_models=6, n_prompts=60, seed=1)
    >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
    >>> found = board.winner()
    >>> found.name, round(found.estimate, 3), round(found.corrected, 3)
    ('model-01', 0.602, 0.585)
    """

    name: str
    n_models: int
    estimate: float
    se: float
    corrected: float
    lower: float
    upper: float
    single_lower: float
    single_upper: float
    method: WinnerName
    alpha: float
    tied: tuple[str, ...] = ()
    reason: str = ""

    def to_frame(self) -> pd.DataFrame:
        """One row, indexed by the model.

        Returns
        -------
        DataFrame
            Columns estimate, se, corrected, lower, upper, single_lower, single_upper, n_models, method and alpha.
        """
        names = ("estimate", "se", "corrected", "lower", "upper", "single_lower", "single_upper")
        columns = {name: getattr(self, name) for name in (*names, "n_models", "method", "alpha")}
        return pd.DataFrame(columns, index=pd.Index([self.name], name="model"))

    def summary(self) -> Summary:
        """Estimate and interval with the correction and without, and what they mean.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        facts = (("Winner", self.name), ("Chosen from", f"{self.n_models} models"))
        return Summary("the winner", facts, (winner_grid(self),), winner_sentences(self))


def winner_grid(winner: Winner, reach: float = np.inf) -> Grid:
    """The winner as measured, and corrected; limits further away than `reach` are none."""
    ends = (f"[{winner.alpha / 2:.3g}", f"{1 - winner.alpha / 2:.3g}]")
    plain = (number(winner.estimate), *limits(winner.single_lower, winner.single_upper, winner.estimate, reach))
    known = "unknown" if np.isnan(winner.corrected) else number(winner.corrected)
    fixed = (known, *limits(winner.lower, winner.upper, winner.estimate, reach))
    return Grid(("winner", "estimate", *ends), (("as measured", *plain), ("corrected for the choice", *fixed)))


def winner_sentences(winner: Winner) -> tuple[str, ...]:
    """What the correction is, and what stood in its way."""
    text = (
        f"{winner.name} came first of {winner.n_models}. Coming first takes luck too: the estimate as measured is too "
        "good on average, and its interval misses too often."
    )
    how = f"The corrected interval {_WORDS[winner.method]}."
    if not winner.reason:
        how = (
            "The corrected estimate is about as often too high as too low; with few clusters one of the two may come "
            f"nearly twice as often as the other. {how}"
        )
    ties = f"{listed(list(winner.tied))} came out equal with {winner.name}." if winner.tied else ""
    reason = f"No other interval is known here, and no corrected estimate: {winner.reason}." if winner.reason else ""
    return tuple(filter(None, (text, how, ties, reason)))


def find_winner(models: AnyModels, alpha: float, method: WinnerName | None, best: BestName, seed: Seed) -> Winner:
    """The winner of `MultipleModels.winner`."""
    alpha = fraction("alpha", alpha)
    option("best", best, BEST)
    if method is not None:
        option("method", method, METHODS)
    if models._behind is not None:
        return _carried(models, find_winner(models._behind[1], alpha, method, best, seed))
    params, cov = models._compared
    theta, variance = _checked(params, cov)
    sign = 1.0 if best == "largest" else -1.0
    w, names, se = int(np.argmax(sign * theta)), [str(label) for label in params.index], np.sqrt(variance)
    tied = [int(i) for i in np.flatnonzero(np.abs(theta - theta[w]) <= EQUAL * max(se[w], EQUAL)) if i != w]
    reason = _why_not(models.estimate, cov, w, names, tied)
    if method in ("hybrid", "conditional") and reason:
        raise NotAvailableError(f'method="{method}" is not known here: {reason}. Use method="projection".')
    chosen: WinnerName = method or ("projection" if reason else "hybrid")
    mean = low = high = float("nan")
    if not reason:
        level, reach = alpha, np.inf
        if chosen != "conditional":
            joint = models.simultaneous(SHARE * alpha, seed=seed).attrs["level"]
            level, reach = hybrid_level(alpha), float(cov.critical(alpha=joint)[w])
        logit = models.estimate.bounded and models.estimate.about.interval != "wald"
        mean, low, high = _conditional(theta, cov, w, sign, logit, level, reach)
    if chosen == "projection":
        low, high = _ends(models.simultaneous(alpha, seed=seed)[["lower", "upper"]], names[w])
        if not np.isfinite(low + high):  # a winner that does not vary is outside the family of joint intervals
            low, high = _ends(models.conf_int(alpha / len(names)), names[w])
    single = _ends(models.conf_int(alpha), names[w])
    return Winner(
        name=names[w],
        n_models=theta.size,
        estimate=float(theta[w]),
        se=float(se[w]),
        corrected=mean,
        lower=low,
        upper=high,
        single_lower=single[0],
        single_upper=single[1],
        method=chosen,
        alpha=alpha,
        tied=tuple(names[i] for i in tied),
        reason=reason,
    )


def _carried(models: AnyModels, first: Winner) -> Winner:
    """The winner of increasing functions of parameters, from that of the parameters."""
    fields = ("estimate", "corrected", "lower", "upper", "single_lower", "single_upper")
    values = models._behind[0].forward(np.array([getattr(first, name) for name in fields])).tolist()
    return replace(first, **dict(zip(fields, values, strict=True)), se=float(models.bse[first.name]))


def _checked(params: pd.Series[float], cov: Covariance) -> tuple[FloatArray, FloatArray]:
    """Estimates and variances of two or more models."""
    if len(params) < 2:
        raise ArgumentError(f"a winner is chosen from two or more models; got {len(params)}.")
    if "Intercept" in params.index:
        raise ArgumentError(
            "a winner is the largest of parameters that mean the same; an intercept and coefficients do not. Use "
            '`mean` with `by`, or a formula without intercept, such as "score ~ 0 + C(model)".'
        )
    theta, variance = np.array(params, dtype=np.float64), cov.variance()
    unknown = [str(name) for name, value in zip(params.index, variance, strict=True) if np.isnan(value)]
    if unknown:
        raise NotAvailableError(
            f"a winner needs the variance of every model; {listed(unknown)} has none "
            f"({next(filter(None, cov.reasons()), 'it is not known')}). Leave such models out of the data."
        )
    return theta, variance


def _why_not(estimate: Estimate, cov: Covariance, w: int, names: list[str], tied: list[int]) -> str:
    """Why the conditional distribution is not known; empty where it is."""
    if cov.variance()[w] == 0:
        if cov.fixed is not None and cov.fixed[w]:
            raise NotAvailableError(
                f"{names[w]} came first and is the reference, whose rating is set and not estimated. "
                "Use reference=None, which centres the ratings."
            )
        return f"the scores of {names[w]} do not vary"
    if cov.crossed and (crossed := _crossed_reason(cov, w)):
        return crossed
    if alone := _alone_reason(estimate, cov, w):
        return alone
    # A model that moves as the winner does is no rival.
    gaps = np.eye(len(names))[tied] - np.eye(len(names))[w]
    if rivals := [names[i] for i, variance in zip(tied, cov.variance(gaps), strict=True) if variance > 0]:
        others = listed(rivals)
        return f"{others} came out equal with {names[w]}, and the data do not decide which of them is first"
    scored = cov.widths().scored
    if scored is not None and w in scored.rows:
        # Cochran's rule for the normal approximation of a count: five of the rarer kind are expected, after clustering.
        null, at = scored.null, int(np.flatnonzero(scored.rows == w)[0])
        if null.rarer[at] / null.design_effect[at] < FEW_EXPECTED:
            return f"{names[w]} has so few rows of the rarer kind that its estimate is not near normal"
    return ""


def _crossed_reason(cov: Covariance, w: int) -> str:
    """Why a normal given who won is not known to hold over crossed clusters; empty where it does."""
    if not cov.summed or cov.options.repair != "max" or cov.options.alike is not None:
        return "clusters are crossed, where the other interval (conditional on who won) needs their default covariance"
    C = np.eye(len(cov.names))[[w]]
    worth = {term.name: float(term.dof(C)[0]) + 1 for term in cov.one_way}
    fewest = min(worth, key=lambda name: worth[name])
    if worth[fewest] >= ENOUGH:
        return ""
    return (
        f'clusters are crossed, and those of "{fewest}" are worth {worth[fewest]:.1f} equal ones; with fewer than '
        f"{ENOUGH:g} the other interval (conditional on who won) misses the truth too often"
    )


def _alone_reason(estimate: Estimate, cov: Covariance, w: int) -> str:
    """Why one cluster of an axis makes nearly all of the covariance; empty where none does."""
    for axis in cov.axes:
        share = _shares(estimate, axis, w)
        if share is None or np.sum(share**2) ** 2 > ALONE * np.sum(share**4) * (1 + EQUAL):
            continue
        second, first = np.argsort(share)[-2:]
        return (
            f'"{estimate.scores.label(axis, int(first))}" weighs {share[first]:.0%} in the estimate of '
            f"{estimate.names[w]} and the next of {share.size} {axis_name(axis)} clusters {share[second]:.0%}, so that "
            "few clusters tell how the models vary together"
        )
    return ""


def _shares(estimate: Estimate, axis: Axis, w: int) -> FloatArray | None:
    """Share of each cluster in the weight of an estimate: of its rows, where the scores tell no weights.

    None where they tell no rows either.
    """
    column, scores = estimate.bread[:, [w]], estimate.scores
    b, parts = dense(column).ravel(), list[Any]()
    for block in scores.cells(axis):
        gram = block.gram
        if isinstance(gram, np.ndarray) and gram.shape[1:] == (b.size, b.size):
            parts.append((gram @ b) @ b)
        elif sparse.issparse(gram) and compressed(gram).shape[1] == b.size:
            parts.append(np.asarray(compressed(gram) @ np.abs(b), dtype=np.float64))
        elif (labels := scores.row_labels()) is not None:
            codes = labels.codes(axis)
            parts = [np.bincount(codes.codes, scores.row_influence(column).ravel() != 0, codes.n_clusters)]
            break
        else:
            return None
    share = np.concatenate(parts)
    return np.asarray(share / share.sum())


def _conditional(
    theta: FloatArray, cov: Covariance, w: int, sign: float, logit: bool, level: float, reach: float
) -> tuple[float, float, float]:
    """Estimate and interval given who won, with t for the normal; never further than `reach` standard errors."""
    # A mean of 0 or 1 has no logit, and did not win.
    inside = (theta > 0) & (theta < 1) if logit else np.ones(theta.size, dtype=bool)
    x, V, winner = theta[inside], np.array(cov.matrix)[np.ix_(inside, inside)], int(np.count_nonzero(inside[:w]))
    if logit:
        V = V / np.outer(x * (1 - x), x * (1 - x))
        x = special.logit(x)
    x, se = sign * x, float(np.sqrt(V[winner, winner]))
    stretch = float(cov.critical(alpha=level)[w] / -special.ndtri(level / 2))
    ends = winning_values(x, V, winner)
    conditional = corrected(float(x[winner]), se, ends, level, stretch=stretch, reach=se * reach)
    values = sign * np.array([conditional.estimate, conditional.lower, conditional.upper])
    mean, *both = (special.expit(values) if logit else values).tolist()
    return mean, min(both), max(both)


def _ends(table: pd.DataFrame, name: str) -> tuple[float, float]:
    """The two numbers of a row."""
    low, high = table.loc[[name]].to_numpy(np.float64)[0].tolist()
    return low, high

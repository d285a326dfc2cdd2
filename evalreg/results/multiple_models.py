"""What results say about many models at once: pairs, simultaneous bands, ranks, groups not separated, the winner."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from scipy import special

from evalreg.checks import FloatArray, fraction, listed, option
from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import Axis, axis_name
from evalreg.errors import ArgumentError, NotAvailableError
from evalreg.estimate import Estimate
from evalreg.inference.intervals import Carried, intervals
from evalreg.inference.simultaneous import (
    PairAdjustName,
    Seed,
    base_seed,
    pairwise_table,
    rank_sets,
    separated,
    simultaneous,
)
from evalreg.numerics.limits import EQUAL, LAST_DIGITS
from evalreg.numerics.matrices import dense
from evalreg.numerics.roots import crossings
from evalreg.report.summaries import choice_sentence, rating_reach
from evalreg.report.tables import Grid, Shown, Summary, limits, number
from evalreg.results.algebra import Algebra
from evalreg.scores.score_interval import FEW_EXPECTED

WinnerName: TypeAlias = Literal["hybrid", "conditional", "projection"]
# Equal clusters on every crossed axis from which the hybrid holds the truth often enough (benchmarks/winner.py); of
# so many cells with unlike rows a little of one is lost.
ENOUGH = 9.0
# Clusters that strong effects of theirs are worth, (sum h^2)^2 / sum h^4 with h their shares of the rows. Below it the
# corrected estimate is too high in up to .81 of the logs, and the hybrid holds the truth in as few as .92; with two
# equal clusters, which are worth just that, it holds it in .81.
ALONE = 2.0
Together: TypeAlias = "tuple[pd.Series[float], Covariance]"
"""Parameters and their covariance."""


class MultipleModels(Algebra):
    """Methods that need parameters and their joint covariance, nothing else."""

    @property
    def _compared(self) -> Together:
        """Models and their covariance."""
        return self.params, self.cov

    @property
    def _ranked(self) -> Together:
        """Models and their covariance, from which ranks are told; of increasing functions of others those others."""
        if not isinstance(self.estimate.family, Carried):
            return self._compared
        behind, cov = self.estimate.family.arguments(self.estimate.names, self.cov)
        return pd.Series(behind.params, index=list(behind.names)), cov

    def pairwise(self, adjust: PairAdjustName | None = None, alpha: float = 0.05, seed: Seed = 0) -> pd.DataFrame:
        """Differences between all pairs of parameters.

        Parameters
        ----------
        adjust : {"holm", "fdr_bh", "bonferroni", "single-step", "step-down"}, optional
            How `p_adjusted` allows for the number of pairs ("bh" is "fdr_bh"); not at all by default, and the column is
            left out. "step-down" decides ranks and letters.
        alpha : float, default 0.05
            Level of the intervals.
        seed : int or Generator, default 0
            For "single-step".

        Returns
        -------
        DataFrame
            Indexed by (left, right), columns difference, se, lower, upper and p_value; p_adjusted where `adjust` is
            given. Otherwise `attrs["note"]` says how many pairs there are.

        Raises
        ------
        ArgumentError
            If `adjust` is none of these, or `alpha` is not between 0 and 1.

        References
        ----------
        Holm (1979), Scandinavian Journal of Statistics 6, 65-70; Benjamini and Hochberg (1995), JRSS B 57, 289-300;
        Hothorn, Bretz and Westfall (2008), Biometrical Journal 50(3), 346-363, for the last two.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.judge_log(n_models=3, n_prompts=40, n_judges=3, seed=2)
        >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
        >>> board.pairwise(adjust="holm")[["difference", "se", "p_adjusted"]].round(3).values.tolist()
        [[0.308, 0.085, 0.002], [0.379, 0.074, 0.0], [0.071, 0.082, 0.393]]
        """
        return pairwise_table(*self._compared, adjust, alpha, seed=seed)

    def simultaneous(
        self, alpha: float = 0.05, contrasts: Any = None, stepdown: bool = False, seed: Seed = 0
    ) -> pd.DataFrame:
        """Intervals valid for all contrasts at once, and single-step adjusted p-values.

        Parameters
        ----------
        alpha : float, default 0.05
            Family-wise level.
        contrasts : None, "pairs", str, dict or array_like, shape (n_contrasts, n_params), optional
            The parameters themselves by default; means of scores in [0, 1] and win rates then have intervals by the
            rule of single ones.
        stepdown : bool, optional
            Whether p-values are adjusted step by step.
        seed : int or Generator, default 0
            Of the simulation.

        Returns
        -------
        DataFrame
            Columns estimate, se, lower, upper and p_adjusted; `attrs` has critical_value and monte_carlo_error.

        Raises
        ------
        ArgumentError, FormulaError
            If `contrasts` name no parameter, do not fit them in shape, or cannot be read.

        References
        ----------
        Hothorn, Bretz and Westfall (2008), Biometrical Journal 50(3), 346-363, sections 3 and 4.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=20, seed=1)
        >>> results = er.mean(log, by="model", item="question", groups="passage")
        >>> results.simultaneous(contrasts="pairs")[["lower", "upper"]].round(3).values.tolist()
        [[-0.096, 0.196]]
        """
        params, cov = self._compared
        bands = simultaneous(params, cov, contrasts=contrasts, alpha=alpha, stepdown=stepdown, seed=seed)
        level = bands.attrs["level"]
        if contrasts is not None or not np.isfinite(level):
            return bands
        # Each an interval at the joint level by the rule of single ones; models stand before other parameters.
        ends = intervals(self.estimate, self.cov, level, None)[: len(bands)]
        ends = np.where(bands[["lower"]].notna(), ends, np.nan)
        return bands.assign(lower=ends[:, 0], upper=ends[:, 1])

    def ranks(self, alpha: float = 0.05, joint: bool = True, seed: Seed = 0) -> pd.DataFrame:
        """Ranks with confidence sets: the ranks that the data do not exclude.

        Parameters
        ----------
        alpha : float, default 0.05
            Level at which all sets (or each, if not `joint`) cover the true ranks.
        joint : bool, default True
            Whether the level is for all models at once.
        seed : int or Generator, default 0
            Of the simulation.

        Returns
        -------
        DataFrame
            Indexed by model, integer columns rank, lower and upper.

        Raises
        ------
        ArgumentError
            If one of the parameters is an intercept, which is not of the same kind as the others.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.judge_log(n_models=3, n_prompts=40, n_judges=3, seed=2)
        >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
        >>> board.ranks().values.tolist()
        [[1, 1, 1], [2, 2, 3], [3, 2, 3]]
        """
        _refuse_intercept(self.params.index, "ranks are")
        return rank_sets(*self._ranked, alpha=alpha, joint=joint, seed=seed)

    def winner(self, alpha: float = 0.05, method: WinnerName | None = None, *, seed: Seed = 0) -> Winner:
        """The best of the parameters, corrected for having been chosen for its estimate.

        The largest of several estimates is too large on average, and its interval misses too often: with 12 equal
        models and 30 clusters .74 of the usual 95% intervals hold the winner's truth when its rivals are independent,
        .88 when they correlate by .7. In simulated logs of 2, 5 and 12 models with 5 to 200 clusters the hybrid holds
        it in .937 to .965, the conditional in .932 to .960, the projection in .966 to .995; the corrected estimate was
        above the truth in .471 to .544 of the logs (2,000 each). Of 0/1 scores of 2 to 12 equal models the default
        interval held it in .957 or more, and the corrected estimate, where there is one, was above the truth in .49 to
        .60 of the logs with 30 clusters, in .35 to .65 with 10 (300 each).

        Parameters
        ----------
        alpha : float, default 0.05
            Level; 0.05 gives a 95% interval.
        method : {"hybrid", "conditional", "projection"}, optional
            "conditional" is right given which model won, and very long where others are near. "projection" is the
            winner's part of intervals for all at once. "hybrid", the default, is conditional within a projection at
            alpha/10. Where an axis of crossed clusters is worth fewer than nine equal ones (Satterthwaite degrees of
            freedom of the winner, plus one), one cluster outweighs all others, the winner is tied, or its estimate is
            not near normal, only the projection is known, and is the default; the result says so.
        seed : int or Generator, default 0
            Of the simulation behind the projection.

        Returns
        -------
        Winner
            With estimate, corrected, lower, upper, `to_frame()` and `summary()`. It is about the model that came first
            here, whether or not it is best in truth.

        Raises
        ------
        ArgumentError
            If there are fewer than two models, parameters that are not comparable, or an unknown option.
        NotAvailableError
            If a model has no variance, or the method asked for is not known.

        References
        ----------
        Andrews, Kitagawa and McCloskey (2024), Quarterly Journal of Economics 139(1), 305-358, sections 3 and 5. With
        few clusters the standard error in each tail is stretched so that t takes the place of the normal, or the width
        of crossed clusters.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.judge_log(n_models=3, n_prompts=40, n_judges=3, seed=2)
        >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
        >>> board.winner().to_frame()[["estimate", "corrected", "lower", "upper"]].round(3).values.tolist()
        [[0.729, 0.729, 0.625, 0.812]]
        """
        return find_winner(self, alpha, method, seed)

    def leaderboard(self, alpha: float = 0.05, seed: Seed = 0) -> pd.DataFrame:
        """Models from the best down, with intervals of one and of all, ranks and groups that are not separated.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals of single models, and family-wise level of everything else.
        seed : int or Generator, default 0
            Of the simulations.

        Returns
        -------
        DataFrame
            Indexed by model, best first; columns rank, rank_lower, rank_upper (the ranks not excluded, for all models
            at once), estimate, se, lower, upper, joint_lower, joint_upper, letters, which models share exactly if they
            are not separated, tier, which begins where every model above is separated from every model below, and n,
            the rows of each model. All rest on the adjusted p-values of pairs, "step-down". `attrs["note"]` says that
            the first of three or more is rated too high on average. It prints every column.

        Raises
        ------
        ArgumentError
            As `ranks`.

        Notes
        -----
        Tiers are hard to earn: of 12 equal models none of 2,400 simulated logs (8 to 40 passages) had a second tier;
        nor had any of 2,000 two tiers where six were better by 3.1 standard errors of a difference.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.judge_log(n_models=3, n_prompts=40, n_judges=3, seed=2)
        >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
        >>> board.leaderboard()[["rank", "rank_lower", "rank_upper", "letters", "tier"]].values.tolist()
        [[1, 1, 1, 'a', 1], [2, 2, 3, 'b', 2], [3, 2, 3, 'b', 2]]
        """
        return leaderboard_table(self, alpha, seed)


def leaderboard_table(models: MultipleModels, alpha: float, seed: Seed) -> pd.DataFrame:
    """The table of `MultipleModels.leaderboard`, of two or more models."""
    params, cov = models._compared
    base, printed = base_seed(seed)  # one for all statements, which then rest on the same draws
    joint, ranks = models.simultaneous(alpha, seed=base), models.ranks(alpha, seed=base)
    # Models stand before other parameters.
    single = intervals(models.estimate, models.cov, alpha, None)[: params.size]
    table = ranks.rename(columns={"lower": "rank_lower", "upper": "rank_upper"}).assign(
        estimate=params,
        se=np.sqrt(cov.variance()),
        lower=single[:, 0],
        upper=single[:, 1],
        joint_lower=joint["lower"],
        joint_upper=joint["upper"],
    )
    table = table.join(separated(*models._ranked, alpha=alpha, seed=base))
    if models._counts is not None:
        table["n"] = models._counts[: params.size].astype(np.intp)
    table = table.sort_values("estimate", ascending=False, kind="stable")
    table.attrs = {"alpha": alpha, "seed": printed, "monte_carlo_error": joint.attrs["monte_carlo_error"]}
    table.attrs |= {"reach": rating_reach(models.estimate)}
    table.attrs["note"] = choice_sentence(models.estimate)
    return table


# The winner

# Estimates of the largest of several parameters, by Andrews, Kitagawa and McCloskey (2024): normal estimates X have the
# covariance S, and the winner w has the largest. Given Z = X - S[:, w]/S[w, w] X[w], which does not depend on X[w], the
# winner's estimate is a normal truncated to the values at which w still wins.
# Means are looked for as far as sinh of this many standard errors away, 1e17; an end beyond is infinite.
FARTHEST = 40.0
# The share of alpha that the hybrid spends on the interval that it never leaves, as the authors recommend.
SHARE = 0.1


def winning_values(estimates: FloatArray, covariance: FloatArray, winner: int) -> tuple[float, float]:
    """Least and largest estimate with which the winner still wins, given what is independent of it.

    Andrews, Kitagawa and McCloskey (2024), equations for L and U of section 3.1 with X = Y. Shapes: estimates (K,),
    covariance (K, K).
    """
    coefficients = covariance[:, winner] / covariance[winner, winner]
    rest = estimates - coefficients * estimates[winner]
    slope = 1.0 - coefficients
    # A model that moves as the winner does neither bounds it nor is bounded by it.
    moves = np.abs(slope) > 1e-12
    moves[winner] = False
    ends = rest[moves] / slope[moves]
    lower, upper = ends[slope[moves] > 0], ends[slope[moves] < 0]
    x = float(estimates[winner])
    return min(float(np.max(lower, initial=-np.inf)), x), max(float(np.min(upper, initial=np.inf)), x)


def _tail_ratio(u: FloatArray, gap: FloatArray) -> FloatArray:
    """log of P(Z > u + gap) / P(Z > u), for gap >= 0; exact far in the tail, where both are too small to be held."""
    near = np.maximum(u, -1.0)
    scaled = special.erfcx((near + gap) / np.sqrt(2)) / special.erfcx(near / np.sqrt(2))
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.log(scaled) - gap * (near + gap / 2)
        left = np.minimum(u, -1.0)
        value = np.where(u > -1.0, far, special.log_ndtr(-(left + gap)) - special.log_ndtr(-left))
    return np.where(np.isinf(gap), -np.inf, value)


def truncated_log_odds(
    x: FloatArray, mean: FloatArray, se: FloatArray, lower: FloatArray, upper: FloatArray
) -> FloatArray:
    """log of F/(1 - F), F the distribution at x of a normal truncated to [lower, upper]; falls in the mean."""
    z = (x - mean) / se
    below, above = np.maximum(x - lower, 0.0) / se, np.maximum(upper - x, 0.0) / se
    # Seen from the side on which x lies in the upper tail, where ratios of tails are exact.
    turned = z < 0
    first, second = np.where(turned, above, below), np.where(turned, below, above)
    z = np.abs(z)
    open_end = np.isinf(first)
    gap = np.where(open_end, 0.0, first)
    inside = np.where(open_end, special.log_ndtr(-z), _tail_ratio(z - gap, gap))
    with np.errstate(divide="ignore"):
        odds = np.log(-np.expm1(inside)) - inside - np.log(-np.expm1(_tail_ratio(z, second)))
    return np.where(turned, -odds, odds)


def quantile_unbiased(
    x: FloatArray,
    se: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    probability: FloatArray | float,
    *,
    stretch: FloatArray | float = 1.0,
    reach: FloatArray | float = np.inf,
) -> FloatArray:
    """The mean that is above the truth with that probability: F(x; mean) = 1 - probability.

    `reach`: half-width of the interval to which the mean is held, by which the truncation is narrowed as well (the
    hybrid). `stretch` multiplies the standard error of the normal, and so makes t of it where nothing is truncated.
    Andrews, Kitagawa and McCloskey (2024), sections 3.1 and 5. All arguments broadcast.
    """
    arguments = np.broadcast_arrays(x, se, lower, upper, probability, stretch, reach)
    x, se, lower, upper, p, stretch, reach = (np.asarray(value, dtype=np.float64) for value in arguments)
    target = np.log1p(-p) - np.log(p)
    edge = np.minimum(np.arcsinh(reach / se), FARTHEST)

    def past(place: FloatArray) -> FloatArray:
        mean = x + se * np.sinh(place)
        ends = np.maximum(lower, mean - reach), np.minimum(upper, mean + reach)
        return target - truncated_log_odds(x, mean, stretch * se, *ends)

    at_low = past(-edge)
    place = np.where(at_low > 0, -edge, crossings(past, -edge, edge, at_low, past(edge), LAST_DIGITS))
    gone = np.isinf(reach) & (np.abs(place) > FARTHEST - 1e-6)
    return np.where(gone, np.copysign(np.inf, place), x + se * np.sinh(place))


def hybrid_level(alpha: float) -> float:
    """Level of the hybrid's conditional part, which spends what the outer interval leaves of alpha."""
    beta = SHARE * alpha
    return (alpha - beta) / (1 - beta)


def corrected(
    x: float, se: float, ends: tuple[float, float], level: float, *, stretch: float = 1.0, reach: float = np.inf
) -> FloatArray:
    """Median-unbiased estimate of a winner that wins between two ends, and its equal-tailed interval, shape (3,).

    With `reach` those of the hybrid, whose `level` is that of `hybrid_level`.
    """
    probability, stretches = np.array([0.5, level / 2, 1 - level / 2]), np.array([1.0, stretch, stretch])
    where, error, low, high = (np.asarray(value) for value in (x, se, *ends))
    return quantile_unbiased(where, error, low, high, probability, stretch=stretches, reach=reach)


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
        ends = (f"[{self.alpha / 2:.3g}", f"{1 - self.alpha / 2:.3g}]")
        single = limits(self.single_lower, self.single_upper, self.estimate)
        known = "unknown" if np.isnan(self.corrected) else number(self.corrected)
        rows = (
            ("as measured", number(self.estimate), *single),
            ("corrected for the choice", known, *limits(self.lower, self.upper, self.estimate)),
        )
        facts = (("Winner", self.name), ("Chosen from", f"{self.n_models} models"))
        return Summary("the winner", facts, (Grid(("winner", "estimate", *ends), rows),), self._sentences())

    def _sentences(self) -> tuple[str, ...]:
        """What the correction is, and what stood in its way."""
        text = (
            f"{self.name} came first of {self.n_models}. Coming first takes luck too: the estimate as measured is too "
            "good on average, and its interval misses too often."
        )
        how = f"The corrected interval {_WORDS[self.method]}."
        if not self.reason:
            how = (
                "The corrected estimate is about as often too high as too low; with few clusters one of the two may "
                f"come nearly twice as often as the other. {how}"
            )
        ties = f"{listed(list(self.tied))} came out equal with {self.name}." if self.tied else ""
        reason = f"No other interval is known here, and no corrected estimate: {self.reason}." if self.reason else ""
        return tuple(filter(None, (text, how, ties, reason)))


def find_winner(models: MultipleModels, alpha: float, method: WinnerName | None, seed: Seed) -> Winner:
    """The winner of `MultipleModels.winner`."""
    alpha = fraction("alpha", alpha)
    if method is not None:
        option("method", method, WinnerName)
    params, cov = models._compared
    names, theta = [str(label) for label in params.index], np.array(params, dtype=np.float64)
    se, w = _errors(names, cov), int(np.argmax(theta))
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
        mean, low, high = _conditional(theta, cov, w, logit, level, reach)
    place = models.estimate.names.index(names[w])
    if chosen == "projection":
        low, high = models.simultaneous(alpha, seed=seed)[["lower", "upper"]].to_numpy()[w].tolist()
        if not np.isfinite(low + high):  # a winner that does not vary is outside the family of joint intervals
            low, high = intervals(models.estimate, models.cov, alpha / len(names), None)[place].tolist()
    single = intervals(models.estimate, models.cov, alpha, None)[place].tolist()
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


def _refuse_intercept(names: Iterable[str], rule: str) -> None:
    """Raise where parameters do not mean the same: an intercept and what others add to it."""
    if "Intercept" in names:
        raise ArgumentError(
            f"{rule} of parameters that mean the same; an intercept and coefficients do not. Use "
            '`mean` with `by`, or a formula without intercept, such as "score ~ 0 + C(model)".'
        )


def _errors(names: list[str], cov: Covariance) -> FloatArray:
    """Standard errors of two or more models."""
    if len(names) < 2:
        raise ArgumentError(f"a winner is chosen from two or more models; got {len(names)}.")
    _refuse_intercept(names, "a winner is the largest")
    se = np.sqrt(cov.variance())
    unknown = list(compress(names, np.isnan(se)))
    if unknown:
        raise NotAvailableError(
            f"a winner needs the variance of every model; {listed(unknown)} has none "
            f"({next(filter(None, cov.reasons()), 'it is not known')}). Leave such models out of the data."
        )
    return se


def _why_not(estimate: Estimate, cov: Covariance, w: int, names: list[str], tied: list[int]) -> str:
    """Why the conditional distribution is not known; empty where it is."""
    if cov.variance()[w] == 0:
        if cov.fixed is not None and cov.fixed[w]:
            raise NotAvailableError(
                f"{names[w]} came first and is the reference, whose rating is set and not estimated. "
                "Use reference=None, which centres the ratings."
            )
        return f"the scores of {names[w]} do not vary"
    if isinstance(estimate.family, Carried):
        return "functions of win rates are not near normal; ask the board itself for its winner"
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
            "few clusters determine how the models vary together"
        )
    return ""


def _shares(estimate: Estimate, axis: Axis, w: int) -> FloatArray | None:
    """Share of each cluster in the weight of an estimate: of its rows, where the scores tell no weights.

    None where they tell no rows either.
    """
    column, scores, parts = estimate.bread[:, [w]], estimate.scores, list[Any]()
    b = dense(column).ravel()
    for block in scores.cells(axis):
        gram: Any = block.gram
        if gram is None or gram.shape[1] != b.size:
            labels = scores.row_labels()
            if labels is None:
                return None
            codes = labels.codes(axis)
            parts = [np.bincount(codes.codes, scores.row_influence(column).ravel() != 0, codes.n_clusters)]
            break
        parts.append((gram @ b) @ b if gram.ndim == 3 else gram @ np.abs(b))
    share = np.concatenate(parts)
    return np.asarray(share / share.sum())


def _conditional(
    theta: FloatArray, cov: Covariance, w: int, logit: bool, level: float, reach: float
) -> tuple[float, float, float]:
    """Estimate and interval given who won, with t for the normal; never further than `reach` standard errors."""
    # A mean of 0 or 1 has no logit, and did not win.
    inside = (theta > 0) & (theta < 1) if logit else np.ones(theta.size, dtype=bool)
    x, V, winner = theta[inside], np.array(cov.matrix)[np.ix_(inside, inside)], int(np.count_nonzero(inside[:w]))
    if logit:
        V = V / np.outer(x * (1 - x), x * (1 - x))
        x = special.logit(x)
    se = float(np.sqrt(V[winner, winner]))
    stretch = float(cov.critical(alpha=level)[w] / -special.ndtri(level / 2))
    ends = winning_values(x, V, winner)
    values = corrected(float(x[winner]), se, ends, level, stretch=stretch, reach=se * reach)
    mean, *both = (special.expit(values) if logit else values).tolist()
    return mean, min(both), max(both)

"""What results say about many models at once: all pairs, simultaneous bands, ranks, groups that are not separated."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from evalreg.covariance.covariance import Covariance
from evalreg.estimate import Estimate
from evalreg.hints import whole
from evalreg.inference.intervals import intervals
from evalreg.inference.ranks import PairAdjustName, letters, pairwise_table, rank_sets, tiers
from evalreg.inference.simultaneous import Seed, simultaneous
from evalreg.report.summaries import choice_sentence, rating_reach
from evalreg.results.algebra import Algebra
from evalreg.results.winner import BestName, Winner, WinnerName, find_winner

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
        return (self.params, self.cov) if self._behind is None else self._behind[1]._ranked

    def pairwise(self, adjust: PairAdjustName | None = None, alpha: float = 0.05, seed: Seed = 0) -> pd.DataFrame:
        """Differences between all pairs of parameters.

        Parameters
        ----------
        adjust : {"holm", "fdr_bh", "bonferroni", "single-step", "step-down"}, optional
            How `p_adjusted` allows for the number of pairs ("bh" is "fdr_bh"); not at all by default, and the column is
            left out. "step-down" decides ranks and letters.
        alpha : float, optional
            Level of the intervals.
        seed : int or Generator, optional
            For "single-step".

        Returns
        -------
        DataFrame
            Indexed by (left, right), columns difference, se, lower, upper and p_value; p_adjusted where `adjust` is
            given. Otherwise `attrs["note"]` says how many pairs there are.
        """
        return whole(pairwise_table(*self._compared, adjust, alpha, seed=seed))

    def simultaneous(
        self, alpha: float = 0.05, contrasts: Any = None, stepdown: bool = False, seed: Seed = 0
    ) -> pd.DataFrame:
        """Intervals that hold for all contrasts at once, and single-step adjusted p-values.

        Parameters
        ----------
        alpha : float, optional
            Family-wise level.
        contrasts : None, "pairs", str, dict or array_like, optional
            The parameters themselves by default; means of scores in [0, 1] and win rates then have intervals on the
            logit scale, as single ones have.
        stepdown : bool, optional
            Whether p-values are adjusted step by step.
        seed : int or Generator, optional
            Of the simulation.

        Returns
        -------
        DataFrame
            Columns estimate, se, lower, upper and p_adjusted; `attrs` holds critical_value and monte_carlo_error.
        """
        params, cov = self._compared
        bands = simultaneous(params, cov, contrasts=contrasts, alpha=alpha, stepdown=stepdown, seed=seed)
        return bands if contrasts is not None else on_scale(bands, self.estimate, cov, self.cov)

    def ranks(self, alpha: float = 0.05, joint: bool = True, seed: Seed = 0) -> pd.DataFrame:
        """Ranks with the sets of ranks that the data leave open.

        Parameters
        ----------
        alpha : float, optional
            Level at which all sets (or each, if not `joint`) cover the true ranks.
        joint : bool, optional
            Whether the level holds for all models at once.
        seed : int or Generator, optional
            Of the simulation.

        Returns
        -------
        DataFrame
            Indexed by model, integer columns rank, lower and upper.
        """
        return rank_sets(*self._ranked, alpha=alpha, joint=joint, seed=seed)

    def winner(
        self,
        alpha: float = 0.05,
        method: WinnerName | None = None,
        *,
        best: BestName = "largest",
        seed: Seed = 0,
    ) -> Winner:
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
        alpha : float, optional
            Level; 0.05 gives a 95% interval.
        method : {"hybrid", "conditional", "projection"}, optional
            "conditional" is right given which model won, and very long where others are near. "projection" is the
            winner's part of intervals for all at once. "hybrid", the default, is conditional within a projection at
            alpha/10. Where an axis of crossed clusters is worth fewer than nine equal ones (Satterthwaite degrees of
            freedom of the winner, plus one), one cluster outweighs all others, the winner is tied, or its estimate is
            not near normal, only the projection is known, and is the default; the result says so.
        best : {"largest", "smallest"}, optional
            Which estimate wins; "smallest" suits costs and error rates.
        seed : int or Generator, optional
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
        """
        return find_winner(self, alpha, method, best, seed)

    def leaderboard(self, alpha: float = 0.05, seed: Seed = 0) -> pd.DataFrame:
        """Models from the best down, with intervals of one and of all, ranks and groups that are not separated.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals of single models, and family-wise level of everything else.
        seed : int or Generator, optional
            Of the simulations.

        Returns
        -------
        DataFrame
            Indexed by model, best first; columns rank, rank_lower, rank_upper (the ranks not excluded, for all models
            at once), estimate, se, lower, upper, joint_lower, joint_upper, letters, which models share exactly if they
            are not separated, tier, which begins where every model above is separated from every model below, and n,
            the rows of each model. All rest on the adjusted p-values of pairs, "step-down". `attrs["note"]` says that
            the first of three or more is rated too high on average. It prints every column.

        Notes
        -----
        Tiers are hard to earn: of 12 equal models none of 2,400 simulated logs (8 to 40 passages) had a second tier;
        nor had any of 2,000 two tiers where six were better by 3.1 standard errors of a difference.
        """
        return whole(leaderboard_table(self, alpha, seed))


def on_scale(bands: pd.DataFrame, estimate: Estimate, cov: Covariance, whole_cov: Covariance) -> pd.DataFrame:
    """Bands of parameters, each an interval at the joint level by the rule of single ones; NaN outside the family.

    `cov` is that of the parameters with bands; where a model of verdicts has others too, `whole_cov` is that of all.
    """
    level = bands.attrs["level"]
    if not np.isfinite(level):
        return bands
    if len(bands) == estimate.n_params:
        ends = intervals(estimate, cov, level, None)
    else:
        ends = intervals(estimate, whole_cov, level, None)[[estimate.names.index(name) for name in bands.index]]
    known = bands["lower"].notna().to_numpy()
    return bands.assign(**{name: np.where(known, ends[:, i], np.nan) for i, name in enumerate(("lower", "upper"))})


def leaderboard_table(models: MultipleModels, alpha: float, seed: Seed) -> pd.DataFrame:
    """The table of `MultipleModels.leaderboard`.

    Parameters
    ----------
    models : MultipleModels
        Results with two or more models.
    alpha : float
        Level.
    seed : int or Generator
        Of the simulations.

    Returns
    -------
    DataFrame
        Best first.
    """
    names, cov = models._compared[0].index, models._compared[1]
    joint, ranks = models.simultaneous(alpha, seed=seed), models.ranks(alpha, seed=seed)
    ends = intervals(models.estimate, models.cov, alpha, None)
    single = pd.DataFrame(ends, index=models.params.index).loc[names]
    table = pd.DataFrame(
        {
            "rank": ranks["rank"],
            "rank_lower": ranks["lower"],
            "rank_upper": ranks["upper"],
            "estimate": models.params[names],
            "se": np.sqrt(cov.variance()),
            "lower": single[0],
            "upper": single[1],
            "joint_lower": joint["lower"],
            "joint_upper": joint["upper"],
            "letters": letters(*models._ranked, alpha=alpha, seed=seed),
            "tier": tiers(*models._ranked, alpha=alpha, seed=seed),
        },
        index=names,
    )
    if models._counts is not None:
        table["n"] = pd.Series(models._counts.astype(np.intp), index=models.params.index)[names]
    table = table.sort_values("estimate", ascending=False, kind="stable")
    table.attrs = {"alpha": alpha, "seed": joint.attrs["seed"], "monte_carlo_error": joint.attrs["monte_carlo_error"]}
    table.attrs |= {"reach": rating_reach(models.estimate)}
    table.attrs["note"] = choice_sentence(models.estimate)
    return table

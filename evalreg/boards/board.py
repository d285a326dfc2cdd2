"""Boards: results of models that were compared in pairs, what only they can say, and how thinly they are spread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
import pandas as pd

from evalreg.boards.judges import Judging, judging_of
from evalreg.boards.pairs import Pairs, condorcet_cycles, head_to_head
from evalreg.checks import FloatArray
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.special import TOO_FEW_EFFECTIVE, sparsity
from evalreg.data.clusters import axis_name
from evalreg.errors import NotAvailableError
from evalreg.estimate import NET_BENEFIT, ODDS, Estimate, Monotone, Scale
from evalreg.results.multiple_models import Together
from evalreg.results.results import Results


@dataclass(frozen=True, eq=False, repr=False)
class Board(Results):
    """Results of models compared in pairs: a leaderboard with its error bars; immutable.

    Made by `win_rate` and `bradley_terry`.

    Parameters
    ----------
    estimate : Estimate
        Parameters and scores.
    cov : Covariance
        Their covariance.
    axes : tuple of Axis
        Clusterings as asked.
    requested : CovOptions
        Covariance options as asked.
    notes : tuple of (category, text)
        What was warned of.
    pairs : Pairs, optional
        The comparisons by pair of models; None of contrasts of a board.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.judge_log(n_models=4, n_prompts=60, seed=1)
    >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
    >>> board.head_to_head().loc[("model-01", "model-04"), "n"].item()
    180
    """

    pairs: Pairs | None = None
    _rows_word: ClassVar[str] = "comparisons"

    @property
    def _counts(self) -> FloatArray | None:
        """Comparisons behind each parameter: of a model its own, of a covariate all."""
        pairs, names = self.pairs, self.estimate.names
        if pairs is None or not set(names) & set(pairs.models):
            return super()._counts
        sides = np.concatenate([pairs.first, pairs.second])
        each = np.bincount(sides, np.tile(pairs.sums.count, 2), len(pairs.models))
        of_model = dict(zip(pairs.models, each, strict=True))
        return np.array([of_model.get(name, float(self.estimate.n_rows)) for name in names])

    def head_to_head(self, alpha: float | None = None) -> pd.DataFrame:
        """How often each model beat each other one, a tie being one half.

        Parameters
        ----------
        alpha : float, optional
            Adds intervals at this level, one by one, on the logit scale; none by default.

        Returns
        -------
        DataFrame
            Indexed by (left, right), or (stratum, left, right); columns psi, se, n and n_clusters (of the first axis),
            and with `alpha` dof, lower and upper. The errors are those of one pair at a time, NaN where it met under
            one cluster only or where its scores do not vary.

        Raises
        ------
        NotAvailableError
            If these are contrasts of a board, which have no pairs.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.judge_log(n_models=3, n_prompts=40, n_judges=3, seed=2)
        >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
        >>> board.head_to_head()[["psi", "n"]].round(3).values.tolist()
        [[0.717, 120.0], [0.742, 120.0], [0.283, 120.0], [0.558, 120.0], [0.258, 120.0], [0.442, 120.0]]
        """
        return self._head_to_head(alpha).drop(columns="p_value")

    def odds(self) -> Results:
        """Win odds S/(1 - S) of each model.

        Returns
        -------
        Results
            Parameters keep their names. Intervals, tests of single odds, bands of all models, ranks and the winner are
            those of the win rates, turned into odds; t and p test odds against 1. Standard errors are by the delta
            method, and so are differences of odds, what `stack` and `concat` make of them, and `method="wald"`. With
            rates near 1 and few prompts those are too sure; ask for differences of win rates or of ratings.

        Raises
        ------
        NotAvailableError
            For anything but win rates, and where one is 1.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.judge_log(n_models=3, n_prompts=40, n_judges=3, seed=2)
        >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
        >>> board.odds().params.round(3).to_dict()
        {'model-01': 2.692, 'model-02': 0.727, 'model-03': 0.538}
        """
        S = np.array(self._rates.params)
        if np.any(S >= 1):
            raise NotAvailableError("win odds are infinite where a model won every comparison.")
        odds = self.transform(lambda _: ODDS.forward(S), self.estimate.names, derivative=np.diag(ODDS.slope(S)))
        return self._on_scale("Win odds", odds, ODDS, null=1.0)

    def net_benefit(self) -> Results:
        """Net benefit 2 S - 1 of each model: how much more often it wins than it loses.

        Returns
        -------
        Results
            Parameters keep their names; zero is no difference. Intervals, tests of single models, bands of all, ranks
            and the winner are those of the win rates, turned into net benefits; differences are twice those of rates.

        Raises
        ------
        NotAvailableError
            For anything but win rates.
        """
        names = self._rates.names
        benefit = self.contrast(2.0 * np.eye(len(names)), names, constant=-1.0)
        return self._on_scale("Net benefit", benefit, NET_BENEFIT)

    @property
    def _rates(self) -> Estimate:
        """The win rates; raises where the parameters are something else."""
        if self.pairs is None or not self.estimate.bounded:
            raise NotAvailableError("win odds and net benefit are those of win rates, which these parameters are not.")
        return self.estimate

    def _on_scale(self, model: str, moved: Board, scale: Scale, null: float = 0.0) -> Board:
        """An increasing function of each rate under its own name, whose models and intervals are those of the rates."""
        rates = self.estimate
        about = replace(rates.about, model=model, interval="wald", lines=(), one_board=False, null=null)
        family = Monotone(scale, rates.params, rates.about, rates.family, moved.estimate.family)
        return replace(moved, estimate=replace(moved.estimate, about=about, family=family), notes=())

    def cycles(self, alpha: float = 0.05) -> pd.DataFrame:
        """Condorcet cycles: a beats b, b beats c, and c beats a.

        Parameters
        ----------
        alpha : float, default 0.05
            Family-wise level over all pairs (Holm) at which the edges of a cycle must stand.

        Returns
        -------
        DataFrame
            One row a cycle, columns a, b, c, psi_ab, psi_bc, psi_ca, p_adjusted (the largest of the three, NaN where
            an edge has no error) and stands.

        Raises
        ------
        NotAvailableError
            For boards of several strata.
        """
        if (n_strata := len(self._pairs.strata)) > 1:
            raise NotAvailableError(
                f"cycles are those of one board, and this one has {n_strata} strata, in which pairs differ. Call "
                "`win_rate` without `by`, or on the rows of one stratum."
            )
        return condorcet_cycles(self._head_to_head(), alpha)

    def judges(
        self, judge: str = "judge", prompt: str | None = None, *, min_shared: int = 20, alpha: float = 0.05
    ) -> Judging:
        """Judges set against each other: agreement, a board each, tastes, position bias, shares of variance.

        Errors are clustered by prompt, for these judges; the covariance is of the kind that the board has.

        Parameters
        ----------
        judge, prompt : str, optional
            Columns of judges and prompts; several joined by colons are one, as "language:question". The prompts are
            "prompt" by default; without such a column, the one clustering that the board has beside the judges.
        min_shared : int, default 20
            Comparisons that two judges must share, and one must have made, for estimates of their own.
        alpha : float, default 0.05
            Family-wise level (Holm) at which position biases, and judge-by-model effects, stand.

        Returns
        -------
        Judging
            Tables agreement, overall, boards, ranks, effects, position and variance, and a `summary()`.

        Raises
        ------
        MissingColumnError
            If a column is not there.
        NotAvailableError
            If there is one judge.
        TooFewClustersError
            If there is one prompt.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.judge_log(n_models=3, n_prompts=40, n_judges=3, seed=2)
        >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
        >>> board.judges(judge="judge", prompt="prompt").agreement["agreement"].round(3).to_dict()
        {('judge-1', 'judge-2'): 0.583, ('judge-1', 'judge-3'): 0.733, ('judge-2', 'judge-3'): 0.65}
        """
        others = [name for name in map(axis_name, self.axes or ()) if name != str(judge)]
        if prompt is None:
            prompt = others[0] if len(others) == 1 and "prompt" not in self.estimate.scores.columns else "prompt"
        return judging_of(self._pairs, replace(self.cov.options, alike=None), judge, prompt, min_shared, alpha)

    @property
    def _compared(self) -> Together:
        return self._models("compared", lambda: self.cov)

    @property
    def _ranked(self) -> Together:
        if self.pairs is None:
            return super()._ranked if self._behind is not None else self._compared
        return self._models("ranked", lambda: ranked_cov(self))

    def _models(self, name: str, make: Callable[[], Covariance]) -> Together:
        """The models alone, without covariates, under a covariance; once, so that statements share their draws."""
        held = self.cov.cache.get(name)
        if held is None or held[0] is not self.estimate:
            params, cov, n = self.params, make(), self.estimate.about.n_models
            if n not in (0, len(params)):
                params, cov = params.iloc[:n], cov.linear(np.eye(len(params))[:n], self.estimate.names[:n])
            held = self.cov.cache[name] = (self.estimate, (params, cov))
        return cast("Together", held[1])

    @property
    def _pairs(self) -> Pairs:
        if self.pairs is None:
            raise NotAvailableError("contrasts of a board have no pairs of models; ask the board itself.")
        return self.pairs.with_labels(self.estimate.scores.row_labels())

    def _head_to_head(self, alpha: float | None = None) -> pd.DataFrame:
        return head_to_head(self._pairs, self._pairs.errors(self.cov.axes, self.cov.options), alpha)


def ranked_cov(board: Results) -> Covariance:
    """The covariance from which ranks are told, that of bands; unknown for models that rest on too few clusters."""
    estimate, cov = board.estimate, board.cov
    if not cov.axes or estimate.cells is None or estimate.coefficient_map is None:
        return cov
    finest = max(cov.axes, key=estimate.scores.n_clusters)
    few = sparsity(estimate, finest).effective < TOO_FEW_EFFECTIVE
    known = np.zeros(estimate.n_params, dtype=bool) if cov.withheld is None else cov.withheld
    return replace(cov, withheld=known | few) if few.any() else cov

"""What `compare` returns: differences between models with their tables, exact tests and margins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from evalreg.checks import CovName, DofName, RepairName, SscName, listed
from evalreg.data.groups import Groups
from evalreg.errors import ArgumentError, ArgumentTypeError, FewCarriersWarning, issue
from evalreg.estimate import same_questions
from evalreg.estimators.comparison_text import ComparisonText
from evalreg.estimators.difference_report import Reported
from evalreg.estimators.pair_facts import Facts
from evalreg.estimators.pair_tables import (
    difference_frame,
    joint_contrasts,
    joint_note,
    mcnemar_frame,
    sign_frame,
    wild_frame,
)
from evalreg.hints import Hinting, with_hints
from evalreg.inference.equivalence import EquivalenceName
from evalreg.inference.ranks import PairAdjustName
from evalreg.inference.simultaneous import Seed
from evalreg.report.summaries import covariance_text
from evalreg.report.tables import whole_columns
from evalreg.report.whole import whole
from evalreg.resampling.draws import WildWeightsName
from evalreg.results.gate import Gate, decided
from evalreg.results.planned import Planned
from evalreg.results.results import KEPT, Results, _Kept
from evalreg.results.winner import BestName, Winner, WinnerName
from evalreg.scores.paired import checked_icc

if TYPE_CHECKING:
    from statsmodels.stats.contrast import ContrastResults


@dataclass(frozen=True, eq=False)
class Comparison(Planned, Reported, ComparisonText, Hinting):
    """Differences between models on the same questions; made by `compare`, immutable.

    Parameters
    ----------
    results : Results
        The differences, with everything that results can do; a row is a question.
    facts : Facts
        Counts and correlations of the pairs.
    adjust : {"holm", "fdr_bh", "bonferroni", "single-step"} or None
        How p-values allow for the number of pairs.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=30, seed=1)
    >>> comparison = er.compare(log, item="question", groups="passage", baseline="old")
    >>> comparison.table[["difference", "n", "n_clusters"]].round(3).to_dict("records")
    [{'difference': 0.127, 'n': 150, 'n_clusters': 30}]
    """

    results: Results
    facts: Facts
    adjust: PairAdjustName | None = None

    _called: ClassVar[str] = "comparison"
    _inner: ClassVar[type | None] = Results

    @property
    def table(self) -> pd.DataFrame:
        """The differences with 95% intervals, indexed by (model, baseline); see `to_frame` for the columns."""
        return self._table.copy()

    @cached_property
    def _table(self) -> pd.DataFrame:
        return whole(difference_frame(self.results, self.facts, self.adjust, 0.05))

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """The differences, one row a pair.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals; 0.05 gives 95%.

        Returns
        -------
        DataFrame
            Indexed by (model, baseline). Columns difference, se, lower, upper, p_value, p_adjusted (where `adjust` is
            given), correlation (over the shared questions), n (questions), n_clusters (of the axis with fewest), then
            dof, variance_saved (by pairing, for independent questions), n_unpaired (questions that only one of the two
            answered) and paired.
            Intervals hold one at a time, except under "single-step", where they hold together.
        """
        return whole(difference_frame(self.results, self.facts, self.adjust, alpha))

    @with_hints
    def with_cov(
        self,
        *,
        groups: Groups | _Kept = KEPT,
        cov: CovName | _Kept | None = KEPT,
        ssc: SscName | _Kept | None = KEPT,
        dof: DofName | float | _Kept | None = KEPT,
        repair: RepairName | _Kept | None = KEPT,
        icc: float | _Kept | None = KEPT,
    ) -> Comparison:
        """The same differences with another covariance.

        Parameters
        ----------
        groups : str, list of str, array, Series, dict or None, optional
            Clusters of the questions; None is the questions themselves, as in `compare`; left out keeps those in use.
        cov, ssc, dof, repair : str, float or None, optional
            As in `compare`; left out keeps what was asked.
        icc : float, optional
            As in `compare`; left out keeps what was asked.

        Returns
        -------
        Comparison
            New.
        """
        results = self.results
        if groups is None:
            groups = list(results.estimate.item)
        if not isinstance(icc, _Kept):
            given = self.facts.family(results.estimate, checked_icc(icc))
            estimate = replace(results.estimate, family=same_questions(given))
            results = replace(results, estimate=estimate)
        return replace(self, results=results.with_cov(groups=groups, cov=cov, ssc=ssc, dof=dof, repair=repair))

    def sign_test(self) -> pd.DataFrame:
        """Which model wins more questions, exactly and robust to clusters.

        Returns
        -------
        DataFrame
            Indexed as `table`. Columns wins, losses, ties, p_value (exact, two-sided, by statsmodels' McNemar test:
            questions independent), clustered_statistic and clustered_p_value (with the clusters in use). Pairs without
            shared questions are NaN.
        """
        return sign_frame(self.results, self.facts)

    def mcnemar(self) -> pd.DataFrame:
        """McNemar's tests of scores of 0 and 1.

        Returns
        -------
        DataFrame
            Indexed as `table`. Columns both, model_only, baseline_only, neither (questions answered right), statistic
            and p_value (chi-squared), corrected_statistic and corrected_p_value (with continuity correction),
            exact_p_value, clustered_statistic and clustered_p_value. NaN for pairs without shared questions.

        Raises
        ------
        ScoreRangeError
            If a score is neither 0 nor 1; `sign_test` takes any.
        """
        return mcnemar_frame(self.results, self.facts)

    def wild_test(
        self,
        null: float = 0.0,
        draws: int = 9999,
        weights: WildWeightsName = "auto",
        impose_null: bool = True,
        alpha: float = 0.05,
        seed: Seed = 0,
    ) -> pd.DataFrame:
        """Wild cluster bootstrap tests of the differences, for few clusters or unequal ones, with their intervals.

        Each difference is tested by itself, as `results.wild_test("`new - old` = 0")` does; that also tests several
        at once. Where few questions differ it warns: it does not allow for differences that were not seen, which
        `to_frame` does.

        Parameters
        ----------
        null : float, optional
            The difference that each is tested against, in units of the score.
        draws : int, optional
            Weight vectors for each pair; all are taken, once each, where there are no more.
        weights : {"auto", "rademacher", "webb", "mammen"}, optional
            As in `Results.wild_test`.
        impose_null : bool, optional
            Whether residuals satisfy the null.
        alpha : float, optional
            One minus the level of the intervals.
        seed : int or Generator, optional
            Of the draws; a number is that of every pair.

        Returns
        -------
        DataFrame
            Indexed as `table`. Columns difference, statistic (the CR1 t), p_value, p_adjusted (where `adjust` is given:
            by Holm, Bonferroni or Benjamini and Hochberg over these p-values), p_equal_tailed, lower, upper (the values
            that are not rejected, each difference by itself), draws, enumerated (whether these are all there are), by
            (the clusters that carry the weights) and n_clusters. A pair that cannot be tested is NaN, with a warning.

        Raises
        ------
        NotAvailableError
            If `adjust` is "single-step", or the differences are of a finite benchmark.
        ArgumentError
            If an option is unknown or out of its range.

        References
        ----------
        Cameron, Gelbach and Miller (2008), REStat 90(3); MacKinnon, Nielsen and Webb (2023), J. Applied Econometrics
        38.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=10, questions_per_passage=15, seed=1)
        >>> comparison = er.compare(log, item="question", groups="passage", baseline="old")
        >>> comparison.wild_test(weights="rademacher")[["difference", "p_value", "draws"]].round(3).to_dict("records")
        [{'difference': 0.067, 'p_value': 0.25, 'draws': 1024}]
        """
        if isinstance(null, bool) or not isinstance(null, int | float | np.integer | np.floating):
            raise ArgumentTypeError(f"`null` must be a number, the difference under the null; got {null!r}.")
        asked = {"draws": draws, "weights": weights, "impose_null": impose_null, "alpha": alpha, "seed": seed}
        if not np.isfinite(null):
            raise ArgumentError(f"`null` must be a finite number; got {null!r}.")
        return wild_frame(self.results, self.facts, self.adjust, float(null), **asked)

    def joint_test(self) -> ContrastResults:
        """Test that no model differs: all score alike, or with a baseline all as it does.

        One test of all differences at once, which needs no adjustment. It does not say which models differ; the
        adjusted p-values of the table do. Where few questions differ it warns: it does not allow for differences that
        were not seen, as the table does.

        Of models that are alike it rejected at 5% in .038 to .050 of 600 simulated logs each: 4 or 8 models, 12 or 30
        clusters, alike or very unequal in size.

        Returns
        -------
        ContrastResults
            As of `Results.wald_test`: under CR2 the approximate Hotelling test HTZ (Pustejovsky and Tipton 2018), F
            with its degrees of freedom. Without a baseline it has one degree of freedom less than there are models.

        Raises
        ------
        ArgumentError
            If there is one difference only.
        NotAvailableError
            If pairs without a baseline are about unlike questions, as some models did not answer all.

        References
        ----------
        Pustejovsky and Tipton (2018), Journal of Business and Economic Statistics 36(4), 672-683.

        Examples
        --------
        >>> import evalreg as er
        >>> import pandas as pd
        >>> log = er.datasets.paired(n_passages=30, seed=1)
        >>> other = er.datasets.paired(n_passages=30, seed=2).query("model == 'new'").assign(model="other")
        >>> comparison = er.compare(pd.concat([log, other]), item="question", groups="passage")
        >>> test = comparison.joint_test()
        >>> int(test.df_num), round(float(test.pvalue), 4)
        (2, 0.008)
        """
        C = joint_contrasts(self.results, self.facts)
        if text := joint_note(self.results):
            issue([(FewCarriersWarning, text)])
        return self.results.wald_test(C)

    def equivalence(
        self, margin: float | tuple[float, float], *, kind: EquivalenceName = "equivalence", alpha: float = 0.05
    ) -> pd.DataFrame:
        """Whether differences lie within a margin.

        Parameters
        ----------
        margin : float or (float, float)
            The largest difference that does not matter, positive; or two bounds around zero.
        kind : {"equivalence", "non-inferiority"}, optional
            Between -margin and margin, or above -margin.
        alpha : float, optional
            Level of each one-sided test.

        Returns
        -------
        DataFrame
            As `Results.equivalence`, indexed by (model, baseline).
        """
        frame = self.results.equivalence(margin, kind=kind, alpha=alpha)
        return frame.rename(columns={"estimate": "difference"}).set_axis(self.facts.index)

    def gate(self, claim: str, *, alpha: float = 0.05) -> Gate:
        """Whether the data show a claim on a difference, show that it fails, or cannot tell; as `Results.gate`.

        Parameters
        ----------
        claim : str
            "new - old > -0.01", the models by their names.
        alpha : float, optional
            Level of each of the two one-sided tests.

        Returns
        -------
        Gate
            With `verdict`, `status` and `line`.

        Raises
        ------
        FormulaError
            If the claim does not read so.
        MissingColumnError
            If it names something that was not compared.
        """
        models = [f"{model} - {baseline}" for model, baseline in self.facts.index]
        models += [f"{baseline} - {model}" for model, baseline in self.facts.index]
        n = dict(zip(models, [*self._table["n"]] * 2, strict=True))
        return decided(self.results, claim, alpha, lambda name: int(n.get(name, self.results.nobs)))

    def winner(
        self,
        alpha: float = 0.05,
        method: WinnerName | None = None,
        *,
        best: BestName = "largest",
        seed: Seed = 0,
    ) -> Winner:
        """The model that gains most over the baseline, corrected for having been chosen for it.

        The best of several prompts or models gains too much on average. `Results.winner` says how this is corrected.

        Parameters
        ----------
        alpha : float, optional
            Level; 0.05 gives a 95% interval.
        method : {"hybrid", "conditional", "projection"}, optional
            As in `Results.winner`; "hybrid" by default, "projection" where only that is known.
        best : {"largest", "smallest"}, optional
            Which difference wins; "smallest" suits costs and error rates.
        seed : int or Generator, optional
            Of the simulation behind the projection.

        Returns
        -------
        Winner
            Of the difference; it is the choice among the models besides the baseline.

        Raises
        ------
        ArgumentError
            If the pairs have no baseline in common, or there is one pair only.
        NotAvailableError
            If a difference has no variance, or the method asked for is not known.
        """
        baselines = list(dict.fromkeys(str(name) for name in self.facts.index.get_level_values(1)))
        if len(baselines) > 1:
            raise ArgumentError(
                f"a winner needs one baseline; these pairs have {listed(baselines)}. Name it in `baseline`, or take "
                "`mean` with `by`, whose `winner()` is the best score."
            )
        return self.results.winner(alpha, method, best=best, seed=seed)

    def __repr__(self) -> str:
        questions = f"{self.results.nobs} questions, {covariance_text(self.results.cov)}"
        return f"<Comparison: {self.results.estimate.about.outcome}, {questions}>\n{whole_columns(self._table)}"

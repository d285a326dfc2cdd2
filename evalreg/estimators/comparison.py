"""What `compare` returns: differences between models with their tables, exact tests and margins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalreg.checks import CovName, DofName, RepairName, SscName, listed
from evalreg.data.groups import Groups
from evalreg.errors import ArgumentError, ArgumentTypeError, FewCarriersWarning, issue
from evalreg.estimate import same_questions
from evalreg.estimators.difference_report import Reported
from evalreg.estimators.pair_tables import (
    Facts,
    comparison_summary,
    difference_frame,
    joint_contrasts,
    joint_note,
    mcnemar_frame,
    sign_frame,
    wild_frame,
)
from evalreg.hints import with_hints
from evalreg.inference.equivalence import EquivalenceName
from evalreg.inference.ranks import PairAdjustName, unadjusted_text
from evalreg.inference.simultaneous import Seed
from evalreg.report.plots import estimates_axes
from evalreg.report.sentences import MarkupName, caption_text, difference_sentences, sample_of
from evalreg.report.summaries import covariance_text
from evalreg.report.tables import Printed, Summary, whole_columns
from evalreg.resampling.draws import WildWeightsName
from evalreg.results.document import checked_levels, results_document, written
from evalreg.results.planned import Planned
from evalreg.results.results import KEPT, Results, _Kept
from evalreg.results.sources import methods_text
from evalreg.results.winner import BestName, Winner, WinnerName
from evalreg.scores.paired import checked_icc
from evalreg.scores.paired_differences import paired_differences

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from statsmodels.stats.contrast import ContrastResults


@dataclass(frozen=True, eq=False)
class Comparison(Planned, Reported, Printed):
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

    @property
    def table(self) -> pd.DataFrame:
        """The differences with 95% intervals, indexed by (model, baseline); see `to_frame` for the columns."""
        return self._table.copy()

    @cached_property
    def _table(self) -> pd.DataFrame:
        return difference_frame(self.results, self.facts, self.adjust, 0.05)

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
        return difference_frame(self.results, self.facts, self.adjust, alpha)

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
            Clusters of the questions; left out keeps those in use.
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
        if not isinstance(icc, _Kept):
            given = paired_differences(results.estimate, checked_icc(icc), self.facts.pairs, self.facts.paired)
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

    def summary(self, alpha: float = 0.05) -> Summary:
        """The table of differences as a paper prints it: standard errors in parentheses, questions and clusters.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals.

        Returns
        -------
        Summary
            Prints as text of 80 columns.

        References
        ----------
        Miller (2024), arXiv:2411.00640, table 5.
        """
        return comparison_summary({"": (self.results, self.facts, self.adjust)}, alpha)

    def sentence(self, name: str | None = None, *, alpha: float = 0.05, markup: MarkupName = "text") -> str:
        r"""Each difference in words: with its interval, what it rests on, p, and whether it settles who is higher.

        Percentage points where the scores lie in [0, 1]. What is said of "higher" is decided by the p-value shown,
        which is the adjusted one where `adjust` was given.

        Parameters
        ----------
        name : str, optional
            One of the differences, "new - old"; by default all of them, one a line.
        alpha : float, optional
            Level of the interval and of the decision.
        markup : {"text", "markdown", "latex", "html"}, optional
            In which of these names and signs are escaped; "text" by default.

        Returns
        -------
        str
            One line for each difference; a last one where the p-values of several are not adjusted.

        Raises
        ------
        ArgumentError
            If there is no such difference, or an option is unknown.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=30, seed=1)
        >>> said = er.compare(log, item="question", groups="passage", baseline="old").sentence()
        >>> print(said.replace("; ", ";\n"))
        new - old: 12.7 percentage points (95% CI 3.3 to 22.7;
        150 questions in 30 passage clusters;
        CR2, t with 29 degrees of freedom;
        p = 0.0097). new has the higher score (at the 5% level).
        """
        results, table = self.results, self.to_frame(alpha)
        sample = sample_of(results.estimate, results.cov, "questions", table["n"].to_numpy(np.float64))
        note = unadjusted_text(len(table)) if self.adjust is None else ""
        return difference_sentences(table, results.estimate, results.cov, sample, note, markup, name)

    def caption(self, *, alpha: float = 0.05, markup: MarkupName = "text") -> str:
        """What to write below the table of differences: which they are, their intervals, questions and clusters.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals.
        markup : {"text", "markdown", "latex", "html"}, optional
            In which of these names and signs are escaped; "text" by default.

        Returns
        -------
        str
            A few short sentences on one line.
        """
        results, joint = self.results, " joint" if self.adjust == "single-step" else ""
        sample = sample_of(results.estimate, results.cov, "questions", None)
        what = f"Differences in {results.estimate.about.outcome}, model less baseline,"
        text = caption_text(results.estimate, results.cov, sample, alpha, what, markup, joint)
        n, adjust = len(self.facts.index), self.adjust
        if n == 1:
            return text
        return (
            f"{text} p-values are {'not adjusted' if adjust is None else f'adjusted ({adjust})'} for {n} differences."
        )

    def plot(self, *, alpha: float = 0.05, ax: Axes | None = None) -> Axes:
        """The differences with their intervals and a line at zero.

        Needs matplotlib, the extra `evalreg[plot]`.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals, which are those of `to_frame`.
        ax : Axes, optional
            To draw into; a new figure of fitting size by default.

        Returns
        -------
        Axes
            One row a pair; where there is one baseline, a row a model.
        """
        table, adjusted = self.to_frame(alpha), self.adjust
        level = f"{100 * (1 - alpha):.4g}%"
        how = f"{level} interval of each difference by itself"
        if adjusted == "single-step":
            how = f"{level} intervals that hold for all differences at once"
        note = f"Bars: {how}. Standard errors: {covariance_text(self.results.cov)}."
        if bool(table["lower"].isna().any()):
            note += " Hollow: no standard error can be computed."
        baselines, outcome = set(table.index.get_level_values(1)), self.results.estimate.about.outcome
        names, xlabel = [f"{model} - {baseline}" for model, baseline in table.index], f"difference in {outcome}"
        if len(baselines) == 1:
            # Names of differences would be cut where the models' own are not.
            names, xlabel = list(map(str, table.index.get_level_values(0))), f"{xlabel} from {baselines.pop()}"
        drawn = table.rename(columns={"difference": "estimate"})[["estimate", "lower", "upper"]].set_axis(names)
        return estimates_axes(drawn, zero=True, xlabel=xlabel, note=note, ax=ax)

    def methods(self, *, alpha: float = 0.05, markup: MarkupName = "text") -> str:
        """How the differences were made, as a paragraph for a paper; see `Results.methods`.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals.
        markup : {"text", "markdown", "latex", "html"}, optional
            "latex" cites by key, whose entries `results.bibliography()` has; the others end in a list of sources.

        Returns
        -------
        str
            A paragraph that also says how p-values allow for the number of pairs.
        """
        n = len(self.facts.index)
        how = f"adjusted ({self.adjust})" if self.adjust else "not adjusted"
        more = (f"The p-values are {how} for the number of differences ({n}).",) if n > 1 else ()
        return methods_text(self.results, alpha, markup, more)

    def to_json(self, path: str | PathLike[str] | None = None, *, alpha: float | Sequence[float] = 0.05) -> str:
        """The table of differences, their covariance and the summary, as strict JSON; `read_results` reads it.

        Parameters
        ----------
        path : str or path, optional
            A file to write it to as well.
        alpha : float or list of float, optional
            Levels of the intervals; the first is that of the table.

        Returns
        -------
        str
            Numbers to the last digit; a missing one is null, an infinity "inf" or "-inf".

        Raises
        ------
        ArgumentError
            If a level is not between 0 and 1, or the file cannot be written.
        """
        return written(self._document(checked_levels(alpha)), path)

    def _document(self, levels: Sequence[float], table: pd.DataFrame | None = None) -> dict[str, Any]:
        """What the JSON holds; of a table that several evals share its own part."""
        table = self.to_frame(levels[0]) if table is None else table
        more = {"adjust": self.adjust, "seed": 0 if self.adjust == "single-step" else None, "kind": "comparison"}
        return results_document(self.results, levels, self, table) | more

    def __repr__(self) -> str:
        questions = f"{self.results.nobs} questions, {covariance_text(self.results.cov)}"
        return f"<Comparison: {self.results.estimate.about.outcome}, {questions}>\n{whole_columns(self._table)}"

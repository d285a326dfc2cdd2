"""Differences between models: their table, tests, figure and words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
from scipy import special

from evalreg import errors
from evalreg.checks import (
    BoolArray,
    FloatArray,
    Hinting,
    IntArray,
    checked_count,
    checked_number,
    fraction,
    issue,
    listed,
    repeated,
    with_hints,
)
from evalreg.choices import CovName, DofName, RepairName, SscName
from evalreg.covariance.crossed import crossed_variance, subsets, t_pvalues
from evalreg.data.answers import Answers, ModelPairs, in_set
from evalreg.data.clusters import Codes, Groups, as_codes, joint
from evalreg.data.frame import restrict
from evalreg.estimators.comparison_page import adjusted_text, comparison_brief, comparison_summary, difference_page
from evalreg.inference.dependence import clusters_behind
from evalreg.inference.intervals import EquivalenceName
from evalreg.inference.simultaneous import PairAdjustName, Seed, adjust_pvalues, family_of, unadjusted_text
from evalreg.inference.wald import Contrasts
from evalreg.report.axes import FigSize, estimates_axes
from evalreg.report.rendering import MarkupName, Page, ReportFormat
from evalreg.report.sentences import caption_text, difference_sentences
from evalreg.report.summaries import covariance_text, not_allowed_for, short
from evalreg.report.tables import Printed, Summary, level_text
from evalreg.resampling.draws import WildWeightsName
from evalreg.results.document import checked_levels, results_document, written
from evalreg.results.gate import Gate, decided
from evalreg.results.multiple_models import Winner, WinnerName
from evalreg.results.reporting import write_report
from evalreg.results.results import KEPT, Results
from evalreg.results.sources import methods_text
from evalreg.scores.differences import by_set, chunks, differences

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from matplotlib.axes import Axes
    from statsmodels.stats.contrast import ContrastResults


@dataclass(frozen=True, eq=False)
class Comparison(Printed, Hinting):
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
        return self.to_frame()

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """The differences, one row a pair.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals; 0.05 gives 95%.

        Returns
        -------
        DataFrame
            Indexed by (model, baseline). Columns difference, se, lower, upper, p_value, p_adjusted (where `adjust` is
            given), correlation (over the shared questions), n (questions), n_clusters (of the axis with fewest), then
            dof, variance_saved (by pairing, for independent questions), n_unpaired (questions that only one of the two
            answered) and paired.
            Intervals are one at a time, except under "single-step", where they are joint.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=20, seed=1)
        >>> comparison = er.compare(log, item="question", groups="passage")
        >>> comparison.to_frame()[["difference", "se", "lower", "upper", "n"]].round(3).values.tolist()
        [[0.05, 0.066, -0.096, 0.196, 100.0]]
        """
        fraction("alpha", alpha)
        results, facts, adjust = self.results, self.facts, self.adjust
        cov, theta, variance = results.cov, np.array(results.estimate.params), results.cov.variance()
        p, ends = cov.pvalues(None, theta), cov.limits(theta, None, alpha)
        se = np.where(variance > 0, np.sqrt(variance), np.nan)
        columns = {"difference": theta, "se": se, "lower": ends[:, 0], "upper": ends[:, 1], "p_value": p}
        if adjust == "single-step" or adjust == "step-down":
            family = family_of(results.params, cov)
            columns["p_adjusted"] = family.adjusted() if adjust == "single-step" else family.stepdown()
            if adjust == "single-step":
                columns["lower"], columns["upper"] = family.widths.limits(theta, family.level(alpha)).T
        elif adjust is not None:
            columns["p_adjusted"] = adjust_pvalues(p, adjust)
        correlation, saved = facts.correlations
        fewest = np.min([*clusters_behind(results.estimate, cov).values()] or [facts.n], axis=0)
        columns |= {"correlation": correlation, "n": facts.n, "n_clusters": fewest, "dof": cov.dof()}
        columns |= {"variance_saved": saved, "n_unpaired": facts.n_unpaired, "paired": facts.paired}
        table = pd.DataFrame(columns, index=facts.index)
        table.attrs = {"adjust": adjust, "alpha": alpha}
        return table

    def summary(self, alpha: float = 0.05, *, details: bool = False) -> Summary:
        """The differences, a line each: wins, losses and ties, standard error in parentheses, interval, test.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals.
        details : bool, optional
            Whether to add everything: correlations, questions and clusters of each, all notes.

        Returns
        -------
        Summary
            Prints as text of 80 columns.

        References
        ----------
        Miller (2024), arXiv:2411.00640, table 5.
        """
        if details:
            return comparison_summary({"": self}, {"": self.to_frame(alpha)}, alpha)
        return comparison_brief(self, alpha)

    def sentence(self, name: str | None = None, *, alpha: float = 0.05, markup: MarkupName = "text") -> str:
        r"""Each difference in words: with its interval, what it rests on, p, and whether it settles who is higher.

        Percentage points where the scores lie in [0, 1]. What is said of "higher" is decided by the p-value shown,
        which is the adjusted one where `adjust` was given.

        Parameters
        ----------
        name : str, optional
            One of the differences, "new - old"; by default all of them, one a line.
        alpha : float, default 0.05
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
        new - old: 12.7 percentage points (95% CI 3.2 to 22.5;
        150 questions in 30 passage clusters;
        CR2, t with 29 degrees of freedom, score interval;
        p = 0.013). new has the higher score (at the 5% level).
        """
        results, table = self.results, self.to_frame(alpha)
        note = unadjusted_text(len(table)) if self.adjust is None else ""
        return difference_sentences(table, results.estimate, results.cov, note, markup, name)

    def _caption(self, alpha: float) -> str:
        """What to write below the table of differences, as LaTeX."""
        results, joint = self.results, " joint" if self.adjust == "single-step" else ""
        what = f"Differences in {results.estimate.about.outcome}, model less baseline,"
        text = caption_text(results.estimate, results.cov, "questions", alpha, what, joint)
        return f"{text} {adjusted_text(self.adjust, len(self.facts.index))}".rstrip()

    def plot(self, *, alpha: float = 0.05, figsize: FigSize = None, ax: Axes | None = None) -> Axes:
        """The differences with their intervals and a line at zero.

        Needs matplotlib, the extra `evalreg[plot]`.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals, which are those of `to_frame`.
        figsize : float or (float, float), optional
            Inches of a new figure: its width, such as 3.3 for a column of a paper, or width and height. By default what
            fits.
        ax : Axes, optional
            To draw into; a new figure by default.

        Returns
        -------
        Axes
            One row a pair; where there is one baseline, a row a model.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        table, adjusted = self.to_frame(alpha), self.adjust
        level = level_text(alpha)
        how = f"{level} interval of each difference by itself"
        if adjusted == "single-step":
            how = f"{level} intervals that hold for all differences at once"
        note = f"Bars: {how}. Standard errors: {covariance_text(self.results.cov)}."
        if bool(table["lower"].isna().any()):
            note += " Hollow: no standard error can be computed."
        baselines, outcome = set(table.index.get_level_values(1)), self.results.estimate.about.outcome
        drawn, xlabel = table.rename(columns={"difference": "estimate"}), f"difference in {outcome}"
        if len(baselines) == 1:
            drawn, xlabel = drawn.droplevel(1), f"{xlabel} from {baselines.pop()}"
        drawn = drawn[["estimate", "lower", "upper"]]
        return estimates_axes(drawn, zero=True, xlabel=xlabel, note=note, figsize=figsize, ax=ax)

    def methods(self, *, alpha: float = 0.05, markup: MarkupName = "text") -> str:
        """How the differences were made, as a paragraph for a paper; see `Results.methods`.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals.
        markup : {"text", "markdown", "latex", "html"}, optional
            "latex" cites by key, whose entries are `results.methods(markup="bibtex")`; the others end in a list of
            sources.

        Returns
        -------
        str
            A paragraph that also says how p-values allow for the number of pairs.
        """
        more = filter(None, [adjusted_text(self.adjust, len(self.facts.index))])
        return methods_text(self.results, alpha, markup, tuple(more))

    def to_json(self, path: str | PathLike[str] | None = None, *, alpha: float | Sequence[float] = 0.05) -> str:
        """The table of differences, their covariance and the summary, as strict JSON; `read_results` reads it.

        Parameters
        ----------
        path : str or path, optional
            A file to write it to as well.
        alpha : float or list of float, default 0.05
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

    def report(
        self,
        path: str | PathLike[str] | None = None,
        *,
        format: ReportFormat | None = None,
        alpha: float = 0.05,
        title: str | None = None,
    ) -> str:
        r"""A report of the differences in one file: `sentence`, the table of `summary`, figures, methods, how to redo.

        Its intervals are those of `to_frame`: under "single-step" they are joint. Needs jinja2,
        the extra `evalreg[report]`; figures need `evalreg[plot]`.

        Parameters
        ----------
        path : str or path, optional
            A file to write it to as well.
        format : {"html", "md", "json"}, optional
            As in `Results.report`.
        alpha : float, default 0.05
            Level of the intervals, and of which models count as separated.
        title : str, optional
            The headline; what was compared by default.

        Returns
        -------
        str
            The report.

        Raises
        ------
        ArgumentError
            If an option is unknown, the end of `path` says no format, or the file cannot be written.
        NotAvailableError
            If jinja2 is not installed, or the Markdown is too long for a comment.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=30, seed=1)
        >>> text = er.compare(log, item="question", groups="passage", baseline="old").report(format="md")
        >>> print(text.split("\n\n")[2])
        | model - baseline | difference (SE) | 95% interval | p | corr | n | G |
        | :---|---:|---:|---:|---:|---:|---: |
        | `new - old` | 0.1267 (0.0455) | [0.0317, 0.2254] | 0.013 | 0.21 | 150 | 30 |
        """
        return write_report(self, path, format, alpha, 0, title)

    def _page(self, alpha: float, seed: Seed, *, pictures: bool) -> Page:
        return difference_page(self, alpha, seed, pictures=pictures)

    @with_hints
    def with_cov(
        self,
        *,
        groups: Groups = KEPT,
        cov: CovName | None = KEPT,
        ssc: SscName | None = KEPT,
        dof: DofName | float | None = KEPT,
        repair: RepairName | None = KEPT,
    ) -> Comparison:
        """The same differences with another covariance.

        Parameters
        ----------
        groups : str, list of str, array, Series, dict or None, optional
            Clusters of the questions; None is the questions themselves, as in `compare`; left out keeps those in use.
        cov, ssc, dof, repair : str, float or None, optional
            As in `compare`; left out keeps what was asked.

        Returns
        -------
        Comparison
            New.

        Raises
        ------
        MissingColumnError, MissingLabelsError, NotAvailableError
            As `Results.with_cov`.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=20, seed=1)
        >>> comparison = er.compare(log, item="question", groups="passage")
        >>> comparison.with_cov(groups=None).table["se"].round(4).to_dict()
        {('new', 'old'): 0.0539}
        """
        groups = list(self.results.estimate.item) if groups is None else groups
        results = self.results.with_cov(groups=groups, cov=cov, ssc=ssc, dof=dof, repair=repair)
        return replace(self, results=results)

    def sign_test(self) -> pd.DataFrame:
        """Which model wins more questions, exactly and robust to clusters.

        Returns
        -------
        DataFrame
            Indexed as `table`. Columns wins, losses, ties, p_value (exact, two-sided, as of `er.sign_test`:
            questions independent), clustered_statistic and clustered_p_value (with the clusters in use). Pairs without
            shared questions are NaN.

        Raises
        ------
        NotAvailableError
            If the comparison was made with ``paired=False``.

        References
        ----------
        Dixon and Mood (1946), Journal of the American Statistical Association 41, 557-566.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=20, seed=1)
        >>> comparison = er.compare(log, item="question", groups="passage")
        >>> comparison.sign_test()[["wins", "losses", "ties", "p_value"]].round(3).values.tolist()
        [[17.0, 12.0, 71.0, 0.458]]
        """
        clustered, table = self._clustered_sign(), self.facts.outcomes.drop(columns="right")
        return table.assign(p_value=sign_pvalues(table["wins"], table["losses"]), **clustered)

    def _clustered_sign(self) -> dict[str, FloatArray]:
        """The sign test with the clusters in use."""
        scores = self.results.estimate.scores
        if not scores.paired:
            raise errors.NotAvailableError(
                "a test of wins and losses needs paired questions, and this comparison was made with paired=False. "
                "Compare again without it."
            )
        labels: Any = scores.row_labels()
        return self.facts.clustered_sign([labels.codes(axis) for axis in self.results.cov.axes])

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
        NotAvailableError
            If the comparison was made with ``paired=False``.

        References
        ----------
        McNemar (1947), Psychometrika 12, 153-157.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=20, seed=1)
        >>> comparison = er.compare(log, item="question", groups="passage")
        >>> comparison.mcnemar()[["model_only", "baseline_only", "exact_p_value"]].round(3).values.tolist()
        [[17.0, 12.0, 0.458]]
        """
        facts, column = self.facts, self.results.estimate.about.outcome
        others = facts.values[(facts.values != 0) & (facts.values != 1)]
        if others.size:
            raise errors.ScoreRangeError(
                f"`mcnemar` needs scores of 0 and 1; {others.size} of the answers have another {column!r}, such as "
                f"{others[0]:g} (answers averaged over samples do). Use `sign_test`, which takes any scores.",
                column=column,
                count=others.size,
            )
        clustered, outcomes = self._clustered_sign(), facts.outcomes
        both = outcomes["right"].astype(outcomes["wins"].dtype) - outcomes["wins"]
        table = pd.DataFrame({"both": both, "model_only": outcomes["wins"], "baseline_only": outcomes["losses"]})
        table["neither"] = outcomes["ties"] - both
        squares = table.to_numpy().reshape(-1, 2, 2)
        for name, correction in (("statistic", False), ("corrected_statistic", True)):
            tests = np.array([_mcnemar(square, correction) for square in squares])
            table[name], table[name.replace("statistic", "p_value")] = tests.T
        exact = sign_pvalues(outcomes["wins"], outcomes["losses"])
        return table.assign(exact_p_value=exact, **clustered)

    def wild_test(
        self,
        null: float = 0.0,
        draws: int = 9999,
        weights: WildWeightsName = "auto",
        alpha: float = 0.05,
        seed: Seed = 0,
    ) -> pd.DataFrame:
        """Wild cluster bootstrap tests of the differences, for few clusters or unequal ones, with their intervals.

        Each difference is tested by itself, as `results.wild_test("`new - old` = 0")` does; that also tests several
        at once. Where few questions differ it warns: it does not allow for differences that were not seen, which
        `to_frame` does.

        Parameters
        ----------
        null : float, default 0
            The difference that each is tested against, in units of the score.
        draws : int, default 9999
            Weight vectors for each pair; all are taken, once each, where there are no more.
        weights : {"auto", "rademacher", "webb"}, optional
            As in `Results.wild_test`.
        alpha : float, default 0.05
            One minus the level of the intervals.
        seed : int or Generator, default 0
            Of the draws; a number is that of every pair.

        Returns
        -------
        DataFrame
            Indexed as `table`. Columns difference, statistic (the CR1 t), p_value, p_adjusted (where `adjust` is given:
            by Holm, Bonferroni or Benjamini and Hochberg over these p-values), p_equal_tailed, lower, upper (the values
            that are not rejected, each difference by itself), draws, enumerated (whether these are all there are), by
            (the clusters that were given the weights) and n_clusters. A pair without a test is NaN, with a warning.

        Raises
        ------
        NotAvailableError
            If `adjust` is "single-step", or the differences are of a finite benchmark.
        ArgumentError, ArgumentTypeError
            If an option is unknown, out of its range or of another type.

        References
        ----------
        Cameron, Gelbach and Miller (2008), REStat 90(3); MacKinnon, Nielsen and Webb (2023), J. Applied Econometrics
        38.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=10, questions_per_passage=15, seed=1)
        >>> comparison = er.compare(log, item="question", groups="passage", baseline="old")
        >>> table = comparison.wild_test(weights="rademacher")
        >>> table[["difference", "p_value", "draws"]].round(3).to_dict("records")
        [{'difference': 0.067, 'p_value': 0.25, 'draws': 1024}]
        """
        null = checked_number("null", null)
        if self.adjust == "single-step":
            raise errors.NotAvailableError(
                'the wild test has no "single-step" adjustment. Compare again with adjust="holm", or without `adjust`.'
            )
        results, adjust = self.results, "holm" if self.adjust == "step-down" else self.adjust
        if text := not_allowed_for(results.cov):
            issue([(errors.FewCarriersWarning, text)])
        options: dict[str, Any] = {"draws": draws, "weights": weights, "alpha": alpha}
        each = [
            Contrasts(row[None], np.array([null]), (name,))
            for row, name in zip(np.eye(len(self.facts.index)), results.estimate.names, strict=True)
        ]
        tests = [results.wild_test(contrast, seed=seed, **options) for contrast in each]
        table = pd.DataFrame([vars(test) for test in tests], index=self.facts.index)
        table[["lower", "upper"]] = [test.interval or (np.nan, np.nan) for test in tests]
        columns = ["estimate", "statistic", "p_value", "p_equal_tailed", "lower", "upper"]
        table = table[[*columns, "draws", "enumerated", "by", "n_clusters"]].rename(columns={"estimate": "difference"})
        if adjust is not None:
            table.insert(3, "p_adjusted", adjust_pvalues(table["p_value"].to_numpy(), adjust))
        first = tests[0]
        table.attrs = {"adjust": self.adjust, "null": null, "seed": first.seed, "weights": first.weights}
        table.attrs["alpha"] = first.alpha
        return table

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
        Pustejovsky and Tipton (2018), Journal of Business and Economic Statistics 36(4), 672-683, section 3.2.

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
        facts, chosen = self.facts, np.eye(len(self.facts.index))
        n, (left, right) = len(chosen), (facts.index.get_level_values(side) for side in (0, 1))
        if n < 2:
            raise errors.ArgumentError(
                "a joint test is of two or more differences; here is one, which the table tests by itself."
            )
        if len(set(right)) > 1:
            if facts.differ_in_questions:
                raise errors.NotAvailableError(
                    "a joint test of all pairs needs models that answered the same questions: here "
                    f"{np.count_nonzero(facts.n_unpaired)} of {n} pairs leave some out, so that each pair is about "
                    "questions of its own. Name a `baseline`, from which the others differ, or keep the questions that "
                    "all answered."
                )
            # Those from one model fix all others: A - C is (A - B) - (C - B).
            chosen = chosen[(left == left[0]) | (right == left[0])]
        consequence = "its p-value may be too small; the table allows for them"
        if text := not_allowed_for(self.results.cov, "The joint test", consequence):
            issue([(errors.FewCarriersWarning, text)])
        return self.results.wald_test(chosen)

    def equivalence(
        self, margin: float | tuple[float, float], *, kind: EquivalenceName = "equivalence", alpha: float = 0.05
    ) -> pd.DataFrame:
        """Whether differences lie within a margin.

        Parameters
        ----------
        margin : float or (float, float)
            The largest difference that does not matter, positive; or two bounds around zero.
        kind : {"equivalence", "non-inferiority"}, optional
            Whether the claim is between -margin and margin (the default), or above -margin.
        alpha : float, default 0.05
            Level of each one-sided test.

        Returns
        -------
        DataFrame
            As `Results.equivalence`, indexed by (model, baseline).

        Raises
        ------
        ArgumentError, ArgumentTypeError
            If the margin is not positive.

        References
        ----------
        Schuirmann (1987), Journal of Pharmacokinetics and Biopharmaceutics 15, 657-680.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=20, seed=1)
        >>> comparison = er.compare(log, item="question", groups="passage")
        >>> comparison.equivalence(0.2, kind="non-inferiority")[["p_value", "verdict"]].round(4).values.tolist()
        [[0.0016, 'shown']]
        """
        frame = self.results.equivalence(margin, kind=kind, alpha=alpha)
        return frame.rename(columns={"estimate": "difference"}).set_axis(self.facts.index)

    def gate(self, claim: str, *, alpha: float = 0.05) -> Gate:
        """Whether the data show a claim on a difference, show that it fails, or cannot tell; as `Results.gate`.

        Parameters
        ----------
        claim : str
            "new - old > -0.01", the models by their names: two that were compared, or two that were compared with a
            third where all answered the same questions.
        alpha : float, default 0.05
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

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=20, seed=1)
        >>> comparison = er.compare(log, item="question", groups="passage")
        >>> gate = comparison.gate("new - old > -0.2")
        >>> gate.verdict, gate.status
        ('shown', 0)
        """
        models = [f"{model} - {baseline}" for model, baseline in self.facts.index]
        models += [f"{baseline} - {model}" for model, baseline in self.facts.index]
        n = dict(zip(models, [*self._table["n"]] * 2, strict=True))
        by_third = not self.facts.differ_in_questions
        return decided(self.results, claim, alpha, lambda name: int(n.get(name, self.results.nobs)), by_third)

    def winner(self, alpha: float = 0.05, method: WinnerName | None = None, *, seed: Seed = 0) -> Winner:
        """The model that gains most over the baseline, corrected for having been chosen for it.

        The best of several prompts or models gains too much on average. `Results.winner` says how this is corrected.

        Parameters
        ----------
        alpha : float, default 0.05
            Level; 0.05 gives a 95% interval.
        method : {"hybrid", "conditional", "projection"}, optional
            As in `Results.winner`; "hybrid" by default, "projection" where only that is known.
        seed : int or Generator, default 0
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
            raise errors.ArgumentError(
                f"a winner needs one baseline; these pairs have {listed(baselines)}. Name it in `baseline`, or take "
                "`mean` with `by`, whose `winner()` is the best score."
            )
        return self.results.winner(alpha, method, seed=seed)

    def __repr__(self) -> str:
        return short(self.summary()).as_text()


def _mcnemar(square: FloatArray, correction: bool) -> tuple[float, float]:
    """Statistic and p-value by statsmodels; without a question that tells the two apart 0 and 1."""
    from statsmodels.stats.contingency_tables import mcnemar

    apart = square[0, 1] + square[1, 0]
    if not apart > 0:
        return (np.nan, np.nan) if np.isnan(apart) else (0.0, 1.0)
    test = mcnemar(square, exact=False, correction=correction)
    return float(test.statistic), float(test.pvalue)


@dataclass(frozen=True)
class SignTest:
    """What `sign_test` found.

    Parameters
    ----------
    statistic : int
        Wins.
    p_value : float
        Two-sided, exact.
    n : int
        Wins and losses; ties are not among them.
    """

    statistic: int
    p_value: float
    n: int

    @property
    def smallest_p(self) -> float:
        """The smallest p-value that n allows, 2^(1 - n): above 0.05 where n is below 6."""
        return 2.0 ** min(1 - self.n, 0)


def sign_test(wins: int, losses: int) -> SignTest:
    """Exact two-sided test that a win is as likely as a loss.

    Wins are the questions (or comparisons) that went to one model, losses those that went to the other; where they
    did equally well they say nothing and are left out. For scores of 0 and 1 on the same questions this is the exact
    form of McNemar's test. Wins and losses are taken to be independent of each other: questions of one passage are
    not, and the clustered interval of the difference is then the better guide.

    Parameters
    ----------
    wins, losses : int
        Counts, from 0 to 2^53.

    Returns
    -------
    SignTest
        With `statistic` (the wins), `p_value`, `n`, and `smallest_p`, below which no p-value of n can fall: five wins
        and no loss have 0.0625. The p-value is Pr[X <= min or X >= max] for X binomial with n trials of probability
        1/2, and so 1 where wins equal losses.

    Raises
    ------
    ArgumentError
        If a count is negative, not whole or above 2^53.
    ArgumentTypeError
        If a count is not a number.

    References
    ----------
    McNemar (1947), Psychometrika 12, 153-157; Dixon and Mood (1946), Journal of the American Statistical Association
    41, 557-566.

    Examples
    --------
    >>> import evalreg as er
    >>> er.sign_test(8, 2)
    SignTest(statistic=8, p_value=0.109375, n=10)
    """
    wins, losses = (
        checked_count(name, value, 0, "questions without ties") for name, value in (("wins", wins), ("losses", losses))
    )
    return SignTest(wins, float(sign_pvalues(wins, losses)), wins + losses)


def sign_pvalues(wins: Any, losses: Any) -> FloatArray:
    """Exact two-sided p-values of as many wins as losses, 1 where there are none.

    Twice the smaller tail: both are equal at 1/2. By the incomplete beta function, which takes any counts.
    """
    fewer, n = np.minimum(wins, losses), np.add(wins, losses)
    tail = special.betainc(np.maximum(n - fewer, 1), fewer + 1.0, 0.5)
    return np.where(np.equal(wins, losses), 1.0, np.minimum(1.0, 2 * tail))


@dataclass(frozen=True, eq=False)
class Facts:
    """What is known of each pair of models whatever the covariance, one entry for each pair."""

    index: pd.MultiIndex  # (model, baseline)
    names: tuple[str, ...]  # of the differences
    # Questions that the difference is over, and those that one of the two answered and the other did not.
    n: IntArray
    n_unpaired: IntArray
    paired: BoolArray  # whether it is over shared questions
    values: FloatArray  # (n_models, n_questions): scores of the questions in use
    pairs: ModelPairs

    @property
    def differ_in_questions(self) -> bool:
        """Whether pairs are about questions of their own, so that A - C less B - C is not A - B."""
        return bool(self.paired.any() and (self.n_unpaired.any() or not self.paired.all()))

    @cached_property
    def correlations(self) -> tuple[FloatArray, FloatArray]:
        """Pearson's r of the scores of a pair over its questions, and the variance that pairing saves.

        2 Cov/(Var + Var), were questions independent; NaN where scores do not vary or fewer than two are shared.
        """
        r, saved = np.full((2, len(self.index)), np.nan)
        # Squares below this are rounding.
        least = 1e-24 * np.max(np.abs(self.values), initial=0.0) ** 2
        for columns, member in by_set(self.pairs):
            shared = in_set(self.values, member)
            if not columns.size or shared.shape[1] < 2:
                continue
            models, place = np.unique([self.pairs.left[columns], self.pairs.right[columns]], return_inverse=True)
            scores, (a, b) = shared[models], place.reshape(2, -1)
            scores = scores - scores.mean(axis=1, keepdims=True)
            products, floor = scores @ scores.T, least * shared.shape[1]
            xx, yy, xy = products[a, a], products[b, b], products[a, b]
            varies, total = (xx > floor) & (yy > floor), xx + yy
            r[columns] = np.clip(xy / np.sqrt(np.where(varies, xx * yy, np.nan)), -1.0, 1.0)
            saved[columns] = 2 * xy / np.where(total > floor, total, np.nan)
        return r, np.where(self.paired, saved, np.nan)

    @cached_property
    def outcomes(self) -> pd.DataFrame:
        """Wins, losses and ties of each pair, and the sum of the first model's scores; NaN without shared questions."""
        table = np.full((len(self.index), 4), np.nan)
        for columns, member in self._shared():
            sign = np.sign(differences(self.values, self.pairs, columns, member))
            counts = [np.count_nonzero(sign == value, axis=1) for value in (1, -1, 0)]
            scored = in_set(self.values, member)[self.pairs.left[columns]].sum(axis=1)
            table[columns] = np.column_stack([*counts, scored])
        kinds = dict.fromkeys(("wins", "losses", "ties"), "int64" if self.paired.all() else "float64")
        return pd.DataFrame(table, self.index, [*kinds, "right"]).astype(kinds)

    def clustered_sign(self, axes: Sequence[Codes]) -> dict[str, FloatArray]:
        """Statistic of each pair and its two-sided p-value by t with the fewest clusters less one; NaN where none is.

        That wins are as likely as losses. With every question its own cluster, the statistic is McNemar's
        (wins - losses)^2/(wins + losses). McNemar (1947), Psychometrika 12, 153-157. In clusters, the square of the sum
        of the clusters' surplus of wins over the sum of their squares; crossed as any variance is.
        """
        z, p = np.full((2, len(self.index)), np.nan)
        for columns, member in self._shared():
            sign = np.sign(differences(self.values, self.pairs, columns, member))
            every = [codes.codes for codes in axes] or [np.arange(self.values.shape[1])]
            inside = [as_codes(restrict(codes, member)) for codes in every]
            terms, axes_of_terms = [], subsets(len(inside))
            for dims in axes_of_terms:
                cluster = joint([inside[d] for d in dims]).codes
                terms.append([np.sum(np.bincount(cluster, of_pair) ** 2) for of_pair in sign])
            variance = crossed_variance(np.array(terms), axes_of_terms, "max")
            dof = min(codes.n_clusters for codes in inside) - 1.0
            z[columns] = sign.sum(axis=1) / np.sqrt(np.where((variance > 0) & (dof > 0), variance, np.nan))
            p[columns] = t_pvalues(z[columns], np.full(len(sign), dof))
        return {"clustered_statistic": z**2, "clustered_p_value": p}

    def _shared(self) -> list[tuple[IntArray, BoolArray | None]]:
        parts = chunks(self.pairs, self.values.shape[1])
        return [(columns, member) for columns, member in parts if self.paired[columns].all()]


def facts_of(answers: Answers, pairs: ModelPairs, paired: bool) -> Facts:
    """The facts of pairs, from the answers of all models; unless `paired`, no pair counts as sharing questions."""
    sides = [[answers.models[i] for i in side] for side in (pairs.left, pairs.right)]
    names = tuple(map(" - ".join, zip(*sides, strict=True)))
    if alike := repeated(names):
        raise errors.DataError(
            f"differences need distinct names; {listed(alike)} would name two pairs of models. Rename models that have "
            '" - " in their names.',
            count=len(alike),
        )
    present = answers.present.astype(np.float64)
    shared = (present @ present.T)[pairs.left, pairs.right].round().astype(np.intp)
    n_answered = answers.present.sum(axis=1)
    either, is_paired = n_answered[pairs.left] + n_answered[pairs.right], (shared > 0) & paired
    n = np.where(is_paired, shared, either)
    index = pd.MultiIndex.from_arrays(sides, names=["model", "baseline"])
    return Facts(index, names, n, either - 2 * shared, is_paired, answers.values, pairs)

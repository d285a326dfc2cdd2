"""Differences between models: their table, tests, figure and words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import special

from evalreg.checks import CovName, DofName, RepairName, SscName, fraction, listed
from evalreg.errors import ArgumentError, ArgumentTypeError, FewCarriersWarning, issue, muted
from evalreg.estimate import same_questions
from evalreg.estimators.pair_tables import (
    comparison_brief,
    comparison_summary,
    difference_frame,
    joint_contrasts,
    joint_note,
    mcnemar_frame,
    sign_frame,
    wild_frame,
)
from evalreg.hints import Hinting, with_hints
from evalreg.inference.ranks import PairAdjustName, unadjusted_text
from evalreg.inference.wald import POWER
from evalreg.planning.power import detectable
from evalreg.report.answer import short
from evalreg.report.axes import estimates_axes
from evalreg.report.documents import as_compact_json, versions
from evalreg.report.rendering import Page, named
from evalreg.report.sentences import (
    MarkupName,
    caption_text,
    difference_sentences,
    direction,
    p_text,
    sample_of,
    unit_of,
    with_interval,
)
from evalreg.report.shown import whole
from evalreg.report.summaries import covariance_text
from evalreg.report.tables import Grid, Printed, Summary, ends_text, number, p_value
from evalreg.results.document import checked_levels, results_document, written
from evalreg.results.gate import Gate, Planned, decided
from evalreg.results.reporting import (
    MOST_NAMED,
    asked_format,
    design_sentences,
    drawing,
    dropped_told,
    further_grids,
    inflation_figures,
    level_of,
    options_told,
    write_page,
)
from evalreg.results.results import KEPT, Results, _Kept
from evalreg.results.sources import all_sources, formulas_of, methods_of, methods_text, sources_of
from evalreg.scores.score_interval import checked_icc

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    import pandas as pd
    from matplotlib.axes import Axes
    from statsmodels.stats.contrast import ContrastResults

    from evalreg.data.clusters import Groups
    from evalreg.estimators.pair_tables import Facts
    from evalreg.inference.simultaneous import Seed
    from evalreg.inference.wald import EquivalenceName
    from evalreg.report.axes import FigSize
    from evalreg.report.rendering import ReportFormat
    from evalreg.resampling.draws import WildWeightsName
    from evalreg.results.winner import BestName, Winner, WinnerName


@dataclass(frozen=True, eq=False)
class Comparison(Planned, Printed, Hinting):
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

    def summary(self, alpha: float = 0.05, *, details: bool = False) -> Summary:
        """The differences, a line each: wins, losses and ties, standard error in parentheses, interval, test.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals.
        details : bool, optional
            Whether everything is told: correlations, questions and clusters of each, all notes.

        Returns
        -------
        Summary
            Prints as text of 80 columns.

        References
        ----------
        Miller (2024), arXiv:2411.00640, table 5.
        """
        if details:
            return comparison_summary({"": (self.results, self.facts, self.adjust)}, alpha)
        return comparison_brief(self.results, self.facts, self.adjust, alpha)

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
        new - old: 12.7 percentage points (95% CI 3.2 to 22.5;
        150 questions in 30 passage clusters;
        CR2, t with 29 degrees of freedom, score interval;
        p = 0.013). new has the higher score (at the 5% level).
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

    def plot(self, *, alpha: float = 0.05, figsize: FigSize = None, ax: Axes | None = None) -> Axes:
        """The differences with their intervals and a line at zero.

        Needs matplotlib, the extra `evalreg[plot]`.

        Parameters
        ----------
        alpha : float, optional
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
        drawn, xlabel = table.rename(columns={"difference": "estimate"}), f"difference in {outcome}"
        if len(baselines) == 1:
            drawn, xlabel = drawn.droplevel(1), f"{xlabel} from {baselines.pop()}"
        drawn = drawn[["estimate", "lower", "upper"]]
        return estimates_axes(drawn, zero=True, xlabel=xlabel, note=note, figsize=figsize, ax=ax)

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

    def report(
        self,
        path: str | PathLike[str] | None = None,
        *,
        format: ReportFormat | None = None,
        alpha: float = 0.05,
        title: str | None = None,
    ) -> str:
        r"""A report of the differences in one file: answer, table, figures, design, methods, how to redo it.

        Its intervals are those of `to_frame`: under "single-step" they hold for all differences at once. Needs jinja2,
        the extra `evalreg[report]`; figures need `evalreg[plot]`.

        Parameters
        ----------
        path : str or path, optional
            A file to write it to as well.
        format : {"html", "md", "json"}, optional
            As in `Results.report`.
        alpha : float, optional
            Level of the intervals, and of what is said to be told apart.
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
            If jinja2 is not installed, or so much has to be said that no comment holds it as Markdown.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=30, seed=1)
        >>> text = er.compare(log, item="question", groups="passage", baseline="old").report(format="md")
        >>> print(text.split("\n\n")[1])
        `new` less `old` is 12.7 percentage points (95% CI 3.2 to 22.5).
        `new` has the higher `score` (at the 5% level); p = 0.013.
        """
        fraction("alpha", alpha)
        form = asked_format(format, path)
        return write_page(difference_page(self, alpha, title=title, pictures=form == "html"), path, form)

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
        >>> table = comparison.wild_test(weights="rademacher")
        >>> table[["difference", "p_value", "draws"]].round(3).to_dict("records")
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
        return short(self.summary()).as_text()


_JOINT = "joint: c in place of t, with P(max over differences of |T| <= c) = 1 - alpha"


def difference_page(
    comparison: Comparison,
    alpha: float,
    *,
    title: str | None = None,
    left_out: tuple[str, ...] = (),
    command: str = "",
    code: str = "",
    more: dict[str, Any] | None = None,
    pictures: bool = True,
) -> Page:
    """What a report says about differences; `left_out` are sentences on how the log was read.

    `pictures` is whether figures are drawn, which HTML alone shows.
    """
    results, adjust, missing = comparison.results, comparison.adjust, list[str]()
    draw = drawing(missing, pictures)
    with muted():
        table, summary = comparison.to_frame(alpha), comparison.summary(alpha, details=True)
        intervals = draw(
            "intervals", "Differences with their intervals", None, "", lambda: comparison.plot(alpha=alpha)
        )
        figures = (*([intervals] if intervals.image else []), *inflation_figures(results, draw, missing))
        design = (*design_sentences(results, "questions"), _pairing(table), *_detectable(comparison, table))
        grids = further_grids(results, None, results.summary(alpha, details=True).grids, table, alpha)
    joint, n, baselines = adjust == "single-step", len(table), table.index.get_level_values(1).unique()
    baseline = named(baselines[0]) if len(baselines) == 1 else None
    adjusted, note = "", f"Each difference is the model less {baseline or 'the baseline'}."
    if n > 1:
        both = "p-values and intervals are" if joint or adjust is None else "p-values, not intervals, are"
        how = "not adjusted" if adjust is None else f"adjusted ({adjust})"
        adjusted = f"{both} {how} for the number of differences ({n})."
        each = (
            f"Each {level_of(alpha)} interval is that of one difference by itself; it does not allow for their number."
        )
        note += f" The intervals hold for all {n} differences at once, at {level_of(alpha)}." if joint else f" {each}"
    from_baseline = "" if baseline is None else f" from {baseline}"
    redo = (
        "import evalreg as er\n\n"
        f"# comparison: what er.compare gave, with adjust={adjust!r} and the options listed under Methods\n"
        f'comparison.report("report.html", alpha={alpha:g})'
    )
    return Page(
        title=title or f"Differences in {named(results.estimate.about.outcome)}{from_baseline}",
        answer=_answer(comparison, table),
        scores=_grid(table, adjust, baseline is None),
        scores_note=(note,),
        figures=figures,
        missing=tuple(missing),
        left_out=(*left_out, *_unpaired(table), dropped_told(results, "questions")),
        design=design,
        notes=tuple(summary.sentences),
        grids=grids,
        methods=(*methods_of(results, alpha, False), *filter(None, [adjusted])),
        formulas=(*formulas_of(results, False), *([_JOINT] if joint else [])),
        sources=(*sources_of(results, False), *([all_sources()["joint"].text] if joint else [])),
        options=(*options_told(results, alpha, 0, joint), ("adjust", str(adjust))),
        versions=tuple(versions().items()),
        command=command,
        code=code or redo,
        document=as_compact_json({**comparison._document((alpha,)), **(more or {})}),
        heading="Differences",
    )


def _answer(comparison: Comparison, table: pd.DataFrame) -> tuple[str, str]:
    """Two sentences: the difference with its interval, and what it settles; of several, how many and the largest."""
    alpha, n, estimate = table.attrs["alpha"], len(table), comparison.results.estimate
    pairs = [f"{named(model)} less {named(baseline)}" for model, baseline in table.index]
    p = table["p_adjusted" if "p_adjusted" in table else "p_value"].to_numpy(dtype=float)
    size = np.where(table["lower"].isna(), -1.0, table["difference"].abs())
    most = int(np.argmax(size))
    row, together = table.iloc[most], comparison.adjust == "single-step" and n > 1
    ends = row[["lower", "upper"]].to_numpy(dtype=float)
    # The bracket is still open.
    value = with_interval(float(row["difference"]), ends, unit_of(estimate), alpha, together=together)
    largest = f"{pairs[most]}, is {value})"
    if n == 1:
        model, baseline = (named(name) for name in table.index[0])
        decided = direction(model, baseline, named(estimate.about.outcome), float(row["difference"]), p[0], alpha)
        end = f"; p {p_text(p[0], alpha)}." if np.isfinite(p[0]) else "."
        return f"{pairs[0]} is {value}).", decided.removesuffix(".") + end
    apart = [pair for pair, each in zip(pairs, p, strict=True) if each <= alpha]
    how = "each judged by itself" if comparison.adjust is None else f"p-values adjusted by {comparison.adjust}"
    which = f" ({', '.join(apart)})" if 0 < len(apart) <= MOST_NAMED else ""
    counted = f"{len(apart)} of {n} differences {'is' if len(apart) == 1 else 'are'} told apart from zero"
    first = f"{counted} at the {100 * alpha:g}% level, {how}{which}."
    if size[most] < 0:
        return first, "None has an error bar."
    return first, f"The largest, {largest}; as the largest of several it is likely to be too far from zero."


def _grid(table: pd.DataFrame, adjust: PairAdjustName | None, several: bool) -> Grid:
    """The differences; a column of baselines where there are `several`."""
    alpha = table.attrs["alpha"]
    joint = "joint " if adjust == "single-step" and len(table) > 1 else ""
    ps = ("p",) if adjust is None else ("p", f"p, {adjust}")
    headers = ("difference", "standard error", f"{joint}{level_of(alpha)} interval", *ps, "questions", "clusters")
    rows = []
    for names, row in zip(table.index, table.to_dict("records"), strict=True):
        ends = ends_text(row["lower"], row["upper"], row["difference"])
        p = [p_value(row[name], alpha) for name in ("p_value", "p_adjusted") if name in row]
        values = (number(row["difference"]), number(row["se"]), ends, *p, f"{row['n']:,}", f"{row['n_clusters']:,}")
        rows.append((*map(str, names if several else names[:1]), *values))
    return Grid(("model", "baseline", *headers) if several else ("model", *headers), tuple(rows))


def _pairing(table: pd.DataFrame) -> str:
    """How alike the models of a pair answer, and what that is worth."""
    if not table["paired"].any():
        return "The models are compared as if they had answered different questions (not paired)."
    r, saved = (_span(table.loc[table["paired"], name].dropna(), ".2f") for name in ("correlation", "variance_saved"))
    alike = f" The scores of two models correlate by {r} over their questions." if r else ""
    worth = f" Were questions independent, {saved} of the variance would be saved by this." if saved else ""
    return f"Differences are taken question by question (paired).{alike}{worth}"


def _span(values: Any, form: str) -> str:
    """The smallest and the largest, or one number; empty of none."""
    if not len(values):
        return ""
    low, high = f"{values.min():{form}}", f"{values.max():{form}}"
    return low if low == high else f"{low} to {high}"


def _unpaired(table: pd.DataFrame) -> tuple[str, ...]:
    """Questions that only one model of a pair answered."""
    most = int(table.loc[table["paired"], "n_unpaired"].max()) if table["paired"].any() else 0
    where = "of the pair" if len(table) == 1 else "of a pair (the most of any pair)"
    return (f"{most:,} questions that only one model {where} answered are left out of the difference.",) * (most > 0)


def _detectable(comparison: Comparison, table: pd.DataFrame) -> tuple[str, ...]:
    """The true difference that a log like this one would show, from its own standard errors or null variances."""
    se, dof, alpha = table["se"].to_numpy(float), table["dof"].to_numpy(float), table.attrs["alpha"]
    if alpha >= POWER:
        return ()
    each = detectable(se, dof, comparison.results.cov.widths(), alpha, POWER)
    known = np.isfinite(each)
    if not known.any():
        return ()
    low, high = number(each[known].min()), number(each[known].max())
    size = low if low == high else f"{low} to {high}, by pair,"
    by_itself = "" if len(table) == 1 else ", each tested by itself"
    text = (
        f"A log like this one shows a true difference of {size} with a probability of {POWER:.0%}, if its standard "
        f"errors are right ({100 * alpha:g}% level{by_itself}); it is likely to miss a smaller one."
    )
    fewest = float(dof[known].min())
    if fewest < 30:
        # By how much a standard error may be wrong, nine times in ten.
        low, high = (f"{np.sqrt(fewest / special.chdtri(fewest, above)):.2f}" for above in (0.05, 0.95))
        text += (
            f" With {fewest:.3g} degrees of freedom this is rough: the true standard error may be {low} to {high} "
            "times the one seen, and this difference with it."
        )
    return (text,)

"""Results: an Estimate and its Covariance under statsmodels' names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeVar, cast

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, Hinting, P, T, issue, muted, option, with_hints
from evalreg.choices import BoardOptions, CovName, DofName, EstimatorOptions, IntervalName, RepairName, SscName
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.crossed import subsets
from evalreg.covariance.options import CovOptions, Groups, check_cov_options, documented, grouped, takes_ssc
from evalreg.data.clusters import Axis, axis_name, union
from evalreg.data.where import open_subset
from evalreg.errors import EvalregError, Note
from evalreg.estimate import Estimate, cells_behind, check_estimate, rows_behind
from evalreg.inference.dependence import assembled, clusters_on, design_effect, effective_rows
from evalreg.inference.intervals import EquivalenceName, against_null, equivalence_table, intervals, joint_test, t_tests
from evalreg.inference.rectification import human_labels, rectification_table
from evalreg.inference.simultaneous import PairAdjustName, Seed
from evalreg.inference.wald import as_contrast_results, few_notes, parse_contrasts
from evalreg.report.axes import FigSize
from evalreg.report.figures import FigureName, plot_results
from evalreg.report.rendering import MarkupName, Page, ReportFormat
from evalreg.report.sentences import caption_text, named, result_sentences
from evalreg.report.summaries import brief, coefficient_frame, covariance_text, short, summarize
from evalreg.report.tables import Printed, Summary
from evalreg.resampling.bootstrap import Bootstrapped
from evalreg.resampling.wild import WildTested
from evalreg.results.algebra import Diagnosed
from evalreg.results.bridge import line_of, to_statsmodels
from evalreg.results.document import board_of, checked_levels, dropped_counts, results_document, written
from evalreg.results.gate import Gate, decided
from evalreg.results.multiple_models import MultipleModels
from evalreg.results.predictions import Predicted, plot_predictions
from evalreg.results.reporting import report_page, write_report
from evalreg.results.sources import methods_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from statsmodels.stats.contrast import ContrastResults


# Left out: as it was.
KEPT: Any = ...


@dataclass(frozen=True, eq=False)
class Results(Bootstrapped, WildTested, Predicted, Diagnosed, MultipleModels, Printed, Hinting):
    """Estimates with standard errors, tests and intervals, under statsmodels' names; immutable.

    Made by `fit`, `mean` and `infer`.

    Parameters
    ----------
    estimate : Estimate
        Parameters and scores.
    cov : Covariance
        Their covariance.
    axes : tuple of Axis
        Clusterings as asked, before nested ones are left out; empty for independent rows.
    requested : CovOptions
        Covariance options as asked; None is a default.
    notes : tuple of (category, text)
        What was warned of.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> results = er.fit("score ~ 1", log, groups="passage")
    >>> results.with_cov(cov="CR1").dof.to_dict()
    {'Intercept': 39.0}
    """

    estimate: Estimate
    cov: Covariance
    axes: tuple[Axis, ...]
    requested: CovOptions
    notes: tuple[Note, ...]
    _rows_word: ClassVar[str] = "rows"  # what a row is

    def _verdict(self) -> str:
        """What they say beyond estimates, in a sentence; most say nothing."""
        return ""

    @property
    def bse(self) -> pd.Series:
        """Standard errors; 0 where bounded scores do not vary, NaN where the data give none (`notes` says why)."""
        return self._series(np.sqrt(self.cov.variance()))

    @property
    def dof(self) -> pd.Series:
        """Degrees of freedom of t (crossed, those of 95% intervals); inf where the normal is the reference."""
        return self._series(self.cov.dof())

    @property
    def tvalues(self) -> pd.Series:
        """t of the tests of `pvalues`, as a rule the distance over the standard error; NaN where that is 0 or NaN."""
        return self._series(against_null(self.estimate, self.cov)[0])

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values of each parameter: win rates against a half, odds against 1, everything else against 0.

        NaN without an interval, and of means, areas and shares in [0, 1], of which no interval contains 0: give
        `t_test` a value for them.
        """
        return self._series(against_null(self.estimate, self.cov)[1])

    @property
    def nobs(self) -> int:
        """Rows in use; of contrasts of means those behind them."""
        part = self._in_part
        behind = None if part is None else rows_behind(part)
        return self.estimate.n_rows if behind is None else int(behind[0])

    @property
    def n_clusters(self) -> dict[str, int]:
        """Clusters by dimension, the intersections as "prompt:judge"; of contrasts of means those behind them."""
        part, counts = self._in_part, dict(self.cov.n_clusters)
        if part is not None:
            axes = [union(*(self.cov.axes[i] for i in place)) for place in subsets(len(self.cov.axes))]
            counts |= {axis_name(axis): int(clusters_on(axis, part, self.cov)[0]) for axis in axes}
        return counts

    @property
    def _in_part(self) -> Estimate | None:
        """What the parameters are made of, where that is a part of the rows; human labels are of all of them."""
        return None if human_labels(self.estimate) is not None else cells_behind(self.estimate)

    @property
    def dropped(self) -> pd.Series:
        """Rows left out by reason, each counted once: score, then covariate, then group."""
        return dropped_counts(self.estimate.dropped)

    @property
    def statsmodels(self) -> Any:
        """A statsmodels results object with this covariance and the smallest degrees of freedom of the parameters.

        Its `get_prediction` has the degrees of freedom of each row where the model is least squares. What statsmodels
        would compute with others raises, and names what has them: `predict` and `avg_slopes`.
        """
        if self.estimate.absorbed is not None:
            raise AttributeError(
                "`statsmodels` has no model whose factors are absorbed: its degrees of freedom and its predictions "
                "would leave out the levels. Write them as C(...) among the covariates, where they are few."
            )
        if self.estimate.fitted is None:
            raise AttributeError(
                "`statsmodels` exists for results of `fit` and of `from_statsmodels` that still hold their fit "
                "(contrasts, means, copies and unpickled results do not)."
            )
        return to_statsmodels(self.estimate.fitted(), self.cov, covariance_text(self.cov))

    def to_stata(self) -> str:
        """The lines of Stata that give these standard errors, or a sentence why none do.

        Returns
        -------
        str
            Of means and least squares by rows; the columns keep their names. CR2 with its degrees of freedom needs
            Stata 18, two clusterings the package vcemway. Written from the manuals, and not run.

        Notes
        -----
        ``vce(cluster g)`` multiplies by G/(G - 1) (n - 1)/(n - k) and reads t with G - 1 degrees of freedom, as CR1
        here; ``vce(robust)`` by n/(n - k), with n - k. ``dfadjust`` has those of Bell and McCaffrey, and
        ``vce(jackknife)`` the factor (G - 1)/G. Intervals there are by t, where means of scores in [0, 1] have score
        intervals here.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> er.fit("score ~ n_words", log, groups="passage").to_stata()
        'regress score n_words, vce(hc2 passage, dfadjust)'
        """
        return line_of(self.estimate, self.cov, "Stata")

    def to_r(self) -> str:
        """The lines of R that give these standard errors, or a sentence why none do.

        Returns
        -------
        str
            As `to_stata`, by sandwich and clubSandwich, with the rows as the data frame `log`; such calls are the
            source of the values that the tests compare with.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> print(er.fit("score ~ n_words", log, groups="passage").to_r())
        fit <- lm(score ~ n_words, data = log)
        clubSandwich::coef_test(fit, vcov = "CR2", cluster = with(log, passage), test = "Satterthwaite")
        """
        return line_of(self.estimate, self.cov, "R")

    def conf_int(self, alpha: float = 0.05, method: IntervalName | None = None) -> pd.DataFrame:
        """Confidence intervals.

        Parameters
        ----------
        alpha : float, default 0.05
            Level; 0.05 gives 95% intervals.
        method : {"wald", "logit", "wilson", "clopper-pearson", "jeffreys"}, optional
            By default score intervals with a design effect: Wilson's for means of scores in [0, 1], ratios there and
            win rates, at whose ends odds and net benefits of a board have theirs; Tango's for differences on the same
            questions. Rectified means, F1, AUC and controlled win rates have "logit"; everything else has "wald". The
            last three treat the mean as a proportion of the effective number of rows, at most the rows there are (Korn
            and Graubard).

        Returns
        -------
        DataFrame
            Columns 0 and 1, one row a parameter. Where a mean of scores in [0, 1] has no variance, Clopper-Pearson on
            the effective number of clusters.

        Raises
        ------
        ScoreRangeError
            If a proportion's interval is wanted of something that is not a mean of scores in [0, 1].

        References
        ----------
        Wilson (1927), JASA 22, 209-212; Tango (1998), Statistics in Medicine 17, 891-908; Miettinen and Nurminen
        (1985), Statistics in Medicine 4, 213-226; Korn and Graubard (1998), Survey Methodology 24, 193-201.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=30, unequal=True, seed=4)
        >>> results = er.mean(log, groups="passage")
        >>> results.conf_int().round(3).values.tolist()
        [[0.472, 0.719]]
        >>> results.conf_int(0.1, method="wald").round(3).values.tolist()
        [[0.497, 0.707]]
        """
        return pd.DataFrame(
            intervals(self.estimate, self.cov, alpha, method), index=list(self.estimate.names), columns=[0, 1]
        )

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the parameters, both axes named.

        Returns
        -------
        DataFrame
            Its diagonal is the square of `bse`.
        """
        return self.cov.to_frame()

    @with_hints
    def with_cov(
        self,
        *,
        groups: Groups = KEPT,
        cov: CovName | None = KEPT,
        ssc: SscName | None = KEPT,
        dof: DofName | float | None = KEPT,
        repair: RepairName | None = KEPT,
        alike: str | None = KEPT,
    ) -> Self:
        """The same estimates with another covariance, without refitting.

        Parameters
        ----------
        groups : str, list of str, array, Series, dict or None, optional
            Clusters as in `fit`; None as in the call, or independent rows; left out keeps those in use.
        cov, ssc, dof, repair : str, float or None, optional
            As in `fit`; None is the default; left out keeps what was asked.
        alike : str or None, optional
            For leaderboards, as in `win_rate`; left out keeps what was asked where `groups` still crosses that axis.

        Returns
        -------
        Results
            New; this one stays as it is.

        Raises
        ------
        MissingColumnError
            If `groups` names no column of the data.
        MissingLabelsError
            If a row in use has no cluster id.
        NotAvailableError
            If the source of the labels is gone (after copying or unpickling).

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=30, unequal=True, seed=4)
        >>> results = er.mean(log, groups="passage")
        >>> results.with_cov(cov="CR1").bse.round(4).to_dict(), results.with_cov(groups=None).bse.round(4).to_dict()
        ({'mean': 0.0584}, {'mean': 0.0284})
        """
        return rederive(self, groups, {"cov": cov, "ssc": ssc, "dof": dof, "repair": repair, "alike": alike})

    def t_test(
        self, contrasts: str | dict[str, float] | Any, *, method: Literal["wald", "logit"] | None = None
    ) -> ContrastResults:
        """t tests of linear combinations, as statsmodels' ContrastResults.

        Parameters
        ----------
        contrasts : str, dict or array_like, shape (n_contrasts, n_params)
            "A - B", "A = 0.5", {"A": 1, "B": -1}, or an array with one column a parameter, alone or as statsmodels'
            pair (array, values under the null). A Series or DataFrame is matched by its labels.
        method : {"wald", "logit"}, optional
            By default by the interval: p < alpha where `conf_int(alpha)` leaves the value out, whatever that interval
            is, and p is 1 where the interval of every level contains it. With "wald" estimate less value over the
            standard error.

        Returns
        -------
        ContrastResults
            `df_denom` has one entry a contrast. Where a test is by the interval, `tvalue` is the t with its p-value.

        Raises
        ------
        ScoreRangeError
            If "logit" is asked for what is not a mean of scores in [0, 1] against a value between 0 and 1.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=20, seed=1)
        >>> results = er.mean(log, by="model", item="question", groups="passage")
        >>> test = results.t_test("new - old = 0.02")
        >>> round(float(test.pvalue), 3), round(float(test.df_denom[0]))
        (0.656, 19)
        """
        if method is not None:
            option("method", method, ("wald", "logit"))
        return t_tests(self.estimate, self.cov, parse_contrasts(contrasts, self.estimate.names), method)

    def wald_test(self, contrasts: str | dict[str, float] | Any) -> ContrastResults:
        """Joint test of linear combinations, as statsmodels' ContrastResults.

        Under CR2 the approximate Hotelling test HTZ (Pustejovsky and Tipton 2018); crossed, on the sum of the one-way
        terms with the smallest of their degrees of freedom. Otherwise F(q, G - 1). A single hypothesis has the test of
        `t_test`.

        Parameters
        ----------
        contrasts : str, dict or array_like, shape (q, n_params)
            Hypotheses, such as "A = B, B = C".

        Returns
        -------
        ContrastResults
            NaN with a `reason` where too few degrees of freedom are left. Where they are so few that the test shows
            less than half of the effects of which many clusters would show 80%, a warning and `note` say so, and
            name the axis. So they do where F(q, G - 1) at 5% rejects more than 10% of the time though all hypotheses
            hold.

        Raises
        ------
        TooFewClustersError
            If there are more hypotheses than clusters less one, and the reference is F(q, G - 1).

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> results = er.fit("score ~ n_words", log, groups="passage")
        >>> test = results.wald_test("Intercept = 0.7, n_words = 0")
        >>> test.df_num, round(float(test.df_denom), 1), round(float(test.pvalue), 3)
        (2, 24.4, 0.928)
        """
        test = joint_test(self.estimate, self.cov, contrasts)
        issue(few_notes(test))
        return as_contrast_results(test)

    def equivalence(
        self, margin: float | tuple[float, float], *, kind: EquivalenceName = "equivalence", alpha: float = 0.05
    ) -> pd.DataFrame:
        """Whether parameters lie within a margin of zero, by one-sided tests, as the intervals are built.

        Parameters
        ----------
        margin : float or (float, float)
            The largest difference that does not matter, positive; or two bounds around zero.
        kind : {"equivalence", "non-inferiority"}, optional
            "equivalence", the default, asks for -margin < parameter < margin (two one-sided tests); "non-inferiority"
            for parameter > -margin, higher being better.
        alpha : float, optional
            Level of each one-sided test, 0.05 by default.

        Returns
        -------
        DataFrame
            By parameter: estimate, se, dof, lower and upper (the 1 - 2 alpha interval), p_value, and verdict: "shown",
            "shown to fail" (the parameter is beyond a bound), or "cannot tell".

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
        >>> results = er.mean(log, by="model", item="question", groups="passage")
        >>> results.contrast("new - old").equivalence(0.3)[["p_value", "verdict"]].round(4).values.tolist()
        [[0.0014, 'shown']]
        """
        return equivalence_table(self.params, self.estimate, self.cov, margin, kind, alpha)

    def gate(self, claim: str, *, alpha: float = 0.05) -> Gate:
        """Whether the data show a claim, show that it fails, or cannot tell, by one-sided tests.

        Parameters
        ----------
        claim : str
            "NAME > NUMBER" or "NAME < NUMBER" of an estimate, or "A - B > NUMBER" of two; backticks go around a name
            with spaces or signs.
        alpha : float, default 0.05
            Level of each of the two one-sided tests.

        Returns
        -------
        Gate
            `verdict` is "shown", "shown to fail" or "cannot tell", `status` 0, 1 or 2, and `line` says it with its
            reason. It is that of `conf_int(2 * alpha)`: on the claimed side of the number, on the other, on both.

        Raises
        ------
        FormulaError
            If the claim does not read so.
        MissingColumnError
            If it names something that is not estimated.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> er.mean(log, groups="passage").gate("mean > 0.5").verdict
        'shown'
        """
        return decided(self, claim, alpha)

    def summary(self, alpha: float = 0.05, *, details: bool = False, ranks: bool = False, seed: Seed = 0) -> Summary:
        """The answer in a sentence, its table, and at most three notes, worst first.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals.
        details : bool, optional
            Whether to add everything: naive standard errors, design effects, clusters, all notes.
        ranks : bool, optional
            Of several models: the ranks that are not excluded and joint intervals, a line a model.
        seed : int or Generator, default 0
            Of the joint intervals.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_text(width)`, `as_markdown()`, `as_latex()`, `as_html()`.
        """
        if details:
            return summarize(self, alpha)
        return brief(self, alpha, self.leaderboard(alpha, seed) if ranks else None)

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Estimates, standard errors, tests and intervals, one row a parameter.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals.

        Returns
        -------
        DataFrame
            Columns estimate, se, naive_se, t, dof, p_value, lower, upper; n, the rows behind each estimate (of a model
            its own, of a regression all); design_effect, (se / naive_se) squared; and n_eff, the number of independent
            rows with the same variance: of a mean by the variance of one of its rows, of anything else n (of a
            difference of two the rows of both) over its design effect. t and p_value are those of `pvalues`.
            Of `rectified_mean` also lambda, n_labelled, n_unlabelled, human_mean and human_se (from the human labels
            alone), and effective_labels, the number of human labels that alone would be as informative.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=30, unequal=True, seed=4)
        >>> results = er.mean(log, groups="passage")
        >>> results.to_frame()[["estimate", "se", "dof", "design_effect"]].round(3).values.tolist()
        [[0.602, 0.06, 15.386, 4.473]]
        """
        estimate, cov, counts = self.estimate, self.cov, self._counts
        table = coefficient_frame(estimate, cov, alpha, counts)
        table = table.assign(design_effect=design_effect(cov), n_eff=effective_rows(estimate, cov, counts))
        if human_labels(estimate) is None:
            return table
        return table.join(rectification_table(estimate, cov).drop(columns="se"))

    def sentence(self, name: str | None = None, *, alpha: float = 0.05, markup: MarkupName = "text") -> str:
        r"""The result in words, to be pasted into a text: estimate, interval, what it rests on, how it was made.

        Per cent only where the parameters are means of scores in [0, 1] or win rates. Numbers have two digits of the
        interval's half-width, and more where rounding would make an end 0 or 100%. Where there is no error bar, or
        fewer than 10 clusters, the sentence says so.

        Parameters
        ----------
        name : str, optional
            A parameter; by default all of them, one a line, models from the best down.
        alpha : float, default 0.05
            Level of the interval.
        markup : {"text", "markdown", "latex", "html"}, optional
            In which of these names and signs are escaped; "text" by default.

        Returns
        -------
        str
            One line for each parameter; of ratings a last line that names their scale.

        Raises
        ------
        ArgumentError
            If there is no such parameter, or an option is unknown.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> print(er.mean(log, groups="passage").sentence().replace("; ", ";\n"))
        Mean of score: 68.5% (95% CI 59.3% to 76.4%;
        200 rows in 40 passage clusters;
        CR2, t with 39 degrees of freedom, score interval).
        """
        return result_sentences(self, alpha, name, markup)

    def _caption(self, alpha: float) -> str:
        """What to write below the table, as LaTeX."""
        about = self.estimate.about
        what = f"{about.model} of {about.formula}" if about.formula else named(self.estimate)
        what += " by model" if about.n_models > 1 else ""
        return caption_text(self.estimate, self.cov, self._rows_word, alpha, what)

    def methods(self, *, alpha: float = 0.05, markup: MarkupName | Literal["bibtex"] = "text") -> str:
        r"""How the results were made, as a paragraph for a paper: estimates, clusters, degrees of freedom, sources.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of statements about several models at once.
        markup : {"text", "markdown", "latex", "html", "bibtex"}, optional
            "latex" cites by key with ``\cite``, and "bibtex" gives the entries, for a ``.bib`` file; the others
            end in a list of sources.

        Returns
        -------
        str
            A paragraph, of several models two.

        Raises
        ------
        ArgumentError
            If an option is unknown.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> print(er.mean(log, groups="passage").methods(markup="latex").split(". ")[0])
        The estimates are: Mean of score~\cite{miller2024}
        >>> entries = er.mean(log, groups="passage").methods(markup="bibtex").splitlines()
        >>> [line.split("{")[1] for line in entries if line.startswith("@")]
        ['miller2024,', 'liang1986,', 'bell2002,', 'pustejovsky2018,', 'wilson1927,', 'rao1992,']
        """
        return methods_text(self, alpha, markup)

    def to_json(
        self, path: str | PathLike[str] | None = None, *, alpha: float | Sequence[float] = 0.05, seed: Seed = 0
    ) -> str:
        """All of the results that needs no rows, as strict JSON; `read_results` reads it.

        Parameters
        ----------
        path : str or path, optional
            A file to write it to as well.
        alpha : float or list of float, default 0.05
            Levels of the intervals; the first is that of the summary and of the leaderboard.
        seed : int or Generator, default 0
            Of the simulation behind the leaderboard, where there are several models.

        Returns
        -------
        str
            Numbers to the last digit; a missing one is null, an infinity "inf" or "-inf".

        Raises
        ------
        ArgumentError
            If a level is not between 0 and 1, or the file cannot be written.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=20, seed=1)
        >>> stored = er.read_results(er.mean(log, by="model", item="question").to_json(alpha=[0.05, 0.1]))
        >>> stored.conf_int(0.1).round(3).loc["new"].tolist()
        [0.726, 0.858]
        """
        levels = checked_levels(alpha)
        return written(results_document(self, levels, board=board_of(self, levels[0], seed)[0]), path)

    def report(
        self,
        path: str | PathLike[str] | None = None,
        *,
        format: ReportFormat | None = None,
        alpha: float = 0.05,
        seed: int = 0,
        title: str | None = None,
    ) -> str:
        """A report of the results in one file: answer, tables, figures, what was left out, methods, how to redo it.

        HTML needs no network and no scripts, is light or dark as the reader's screen is, and prints. Same results, same
        bytes. Needs jinja2, the extra `evalreg[report]`; figures need `evalreg[plot]`, and the report says so where
        they are missing.

        Parameters
        ----------
        path : str or path, optional
            A file to write it to as well.
        format : {"html", "md", "json"}, optional
            By default what the end of `path` says, and "html" without a path. "md" is the answer and its table, for a
            comment on a merge request. "json" is that of `to_json` on one line.
        alpha : float, default 0.05
            Level of the intervals; family-wise for joint intervals, ranks and groups.
        seed : int, default 0
            Of the simulation behind joint intervals, ranks and groups.
        title : str, optional
            The headline; what was estimated by default.

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
        >>> log = er.datasets.paired(n_passages=20, seed=1)
        >>> report = er.mean(log, by="model", item="question").report(format="md", title="New against old")
        >>> print(report.splitlines()[0])
        ## New against old
        """
        return write_report(self, path, format, alpha, seed, title)

    def _page(self, alpha: float, seed: Seed, *, pictures: bool) -> Page:
        return report_page(self, alpha, seed, pictures=pictures)

    def plot(
        self,
        kind: FigureName = "estimates",
        *,
        alpha: float = 0.05,
        adjust: PairAdjustName | None = "single-step",
        ranks: bool | None = None,
        by: str | list[str] | dict[str, Any] | None = None,
        seed: Seed = 0,
        figsize: FigSize = None,
        ax: Axes | None = None,
    ) -> Axes:
        """A figure of the estimates, of their differences, or of what clustering does to standard errors.

        Needs matplotlib, the extra `evalreg[plot]`.

        Parameters
        ----------
        kind : {"estimates", "pairs", "inflation", "dependence", "predictions"}, optional
            "estimates", the default: intervals of each and of all at once, and the ranks that are not excluded.
            "pairs": the differences of all pairs. "inflation": standard errors by clustering, over naive ones.
            "dependence": those against intraclass correlations, the table of `dependence`. "predictions": the
            averages of `avg_predictions` along a covariate of a regression.
        alpha : float, default 0.05
            Level of intervals, ranks and marks.
        adjust : {"single-step", "holm", "fdr_bh", "bonferroni"} or None, optional
            How "pairs" allows for the number of pairs; "bh" is "fdr_bh".
        ranks : bool, optional
            Whether "estimates" is sorted from the best down with ranks beside it; by default it is for means by model,
            while coefficients and contrasts stay in their order with a line at zero.
        by : str, list of str or dict, optional
            Of "predictions": one covariate of the formula, or two: the first along the axis, the second in colour, with
            at most six levels. Every row is put at its values, the other covariates as they are. A number along the
            axis is shown at 25 values between its smallest and its largest; a dict gives the values.
        seed : int or Generator, default 0
            Of the simulation behind simultaneous intervals, ranks and "single-step".
        figsize : float or (float, float), optional
            Inches of a new figure: its width, such as 3.3 for a column of a paper, or width and height. By default what
            fits.
        ax : Axes, optional
            To draw into; by default a new pyplot figure.

        Returns
        -------
        Axes
            Their `figure` is the figure.

        Raises
        ------
        ArgumentError
            If an option is unknown, or belongs to another kind.
        NotAvailableError
            If matplotlib is not installed, or there is nothing to compare.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> results = er.fit("score ~ n_words + subject", log, groups="passage")
        >>> ax = results.plot("predictions", by=["n_words", "subject"])
        >>> [text.get_text() for text in ax.get_legend().get_texts()]
        ['history', 'law', 'medicine', 'physics']
        """
        if by is not None and kind == "predictions":
            return plot_predictions(self, by, alpha, figsize, ax)
        return plot_results(self, kind, alpha, adjust, ranks, by, seed, figsize=figsize, ax=ax)

    def _series(self, values: FloatArray) -> pd.Series:
        # A view each, so that who names the index of one names that alone.
        return pd.Series(values, index=self._index.view())

    @cached_property
    def _index(self) -> pd.Index:
        return pd.Index(list(self.estimate.names))

    def __repr__(self) -> str:
        with muted():
            return short(self.summary()).as_text()

    def __getstate__(self) -> dict[str, Any]:
        estimate = replace(self.estimate, scores=self.estimate.scores.detached(), fitted=None)
        return {**self.__dict__, "estimate": estimate}


ResultsT = TypeVar("ResultsT", bound=Results)


@documented
def infer(
    estimate: Estimate,
    *,
    groups: Groups = None,
    cov: CovName | None = None,
    ssc: SscName | None = None,
    dof: DofName | float | None = None,
    repair: RepairName | None = None,
) -> Results:
    """Results of an estimate under a clustering.

    Rows in different clusters are taken to be independent.

    Parameters
    ----------
    estimate : Estimate
        From `from_statsmodels`, or another result's `estimate`.
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `fit`.
    <cov>
        "CR2" by default with groups ("CR1" where the model has no design that CR2 could use), "naive" without.
    <ssc>
    <dof>
        Degrees of freedom; Satterthwaite under CR2, min over dimensions of G - 1 otherwise.
    <repair>

    Returns
    -------
    Results
        Parameters keep their names.

    Raises
    ------
    EvalregError
        As in `covariance`.

    Examples
    --------
    >>> import evalreg as er, statsmodels.formula.api as smf
    >>> log = er.datasets.passages(n_passages=30, seed=2)
    >>> fitted = smf.ols("score ~ n_words", log).fit()
    >>> er.infer(er.from_statsmodels(fitted), groups="passage", cov="CR1").dof.tolist()
    [29.0, 29.0]
    """
    requested = check_cov_options(cov, ssc, dof, repair)
    check_estimate(estimate)
    estimate, axes = grouped(estimate, groups)
    return results_of(estimate, None if groups is None else axes, requested)


def results_of(
    estimate: Estimate, axes: tuple[Axis, ...] | None, requested: CovOptions, notes: tuple[Note, ...] = ()
) -> Results:
    """Results with the covariance and all notes of an estimate, which are issued. Without axes rows are independent."""
    cov, all_notes = assembled(estimate, axes, requested, notes)
    return Results(estimate, cov, axes or (), requested, all_notes)


def estimator(function: Callable[P, T]) -> Callable[P, T]:
    """An estimator, its docstring with the entries of options of the covariance, which takes `subset`.

    Rows of its `data` are chosen first, and results say how many of how many.
    """
    signature = _with_shared_options(inspect.signature(function))

    @wraps(documented(function))
    def chosen(*args: Any, subset: Any = None, **options: Any) -> T:
        bound = signature.bind_partial(*args, **options) if subset is not None else None
        if bound is None or "data" not in bound.arguments:
            return cast(Callable[..., T], function)(*args, **options)
        bound.arguments["data"], condition, n_others = open_subset(bound.arguments["data"], subset)
        try:
            return cast(T, _of_subset(function(*bound.args, **bound.kwargs), condition, n_others))
        except EvalregError as error:
            if error.rows and "in use" not in str(error):
                error.add_note("(Row 0 is the first of those that `subset` keeps.)")
            raise

    vars(chosen)["__signature__"] = signature
    return cast(Callable[P, T], chosen)


def _with_shared_options(signature: inspect.Signature) -> inspect.Signature:
    """The signature with the options that estimators share in place of the stars that stand for them."""
    *parameters, stars = signature.parameters.values()
    if stars.kind is not stars.VAR_KEYWORD:
        return signature
    shared = BoardOptions if "Board" in str(stars.annotation) else EstimatorOptions
    subset, *last = (
        inspect.Parameter(name, stars.KEYWORD_ONLY, default=None, annotation=kind.__forward_arg__)
        for name, kind in shared.__annotations__.items()
    )
    at = list(signature.parameters).index("missing")
    return signature.replace(parameters=[*parameters[:at], subset, *parameters[at:], *last])


def _of_subset(results: Any, condition: str, n_others: int) -> Any:
    """The same results, or the same with results, that say how many rows were left out by which condition."""
    if not isinstance(results, Results):
        return replace(results, results=_of_subset(results.results, condition, n_others))
    estimate = results.estimate
    dropped = {**estimate.dropped, "subset": n_others}
    return replace(
        results, estimate=replace(estimate, about=replace(estimate.about, subset=condition), dropped=dropped)
    )


def rederive(results: ResultsT, groups: Any, options: dict[str, Any]) -> ResultsT:
    """The same estimate under another covariance, by cov, ssc, dof, repair and alike; KEPT keeps what was asked."""
    changes = {name: value for name, value in options.items() if value is not KEPT}
    requested = vars(results.requested) | changes
    if "cov" in changes and "ssc" not in changes and not takes_ssc(requested["cov"]):
        # The factor belongs to CR1, and has no meaning for another covariance.
        requested["ssc"] = None
    estimate, axes = results.estimate, results.axes or None
    if groups is None:
        groups = estimate.default_groups or None
    if groups is not KEPT:
        estimate, new_axes = grouped(estimate, groups)
        axes = None if groups is None else new_axes
        names = [axis_name(axis) for axis in new_axes]
        if "alike" not in changes and not (len(names) == 2 and requested["alike"] in names):
            # Nothing is left to be pooled where that axis is not crossed.
            requested["alike"] = None
    checked = check_cov_options(**requested)
    if groups is None and checked.needs_clusters and "cov" not in changes:
        checked = replace(checked, cov=None, ssc=None, dof=None if checked.dof == "satterthwaite" else checked.dof)
    cov, notes = assembled(estimate, axes, checked)
    return replace(results, estimate=estimate, cov=cov, axes=axes or (), requested=checked, notes=notes)

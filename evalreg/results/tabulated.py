"""Results as tables: what is read of them, in a terminal, a notebook or a paper."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import ClassVar, Literal

import pandas as pd

from evalreg.errors import Note
from evalreg.inference.dependence import design_effect, effective_rows
from evalreg.inference.rectification import human_labels, rectification_table
from evalreg.inference.simultaneous import Seed
from evalreg.report.answer import brief
from evalreg.report.rendering import MarkupName, Page, ReportFormat
from evalreg.report.sentences import caption_text, named, result_sentences
from evalreg.report.summaries import coefficient_frame, summarize
from evalreg.report.tables import Printed, Summary
from evalreg.results.document import board_of, checked_levels, results_document, written
from evalreg.results.multiple_models import MultipleModels
from evalreg.results.reporting import report_page, write_report
from evalreg.results.sources import bibliography_of, methods_text, source_names


class Tabulated(MultipleModels, Printed):
    """Methods that put an estimate and its covariance into tables."""

    notes: tuple[Note, ...]
    _rows_word: ClassVar[str] = "rows"  # what a row is

    def summary(self, alpha: float = 0.05, *, details: bool = False, ranks: bool = False, seed: Seed = 0) -> Summary:
        """The answer in a sentence, its table, and at most three notes, worst first.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals.
        details : bool, optional
            Whether everything is told: naive standard errors, design effects, clusters, all notes.
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
            Level of what is said of several models at once.
        markup : {"text", "markdown", "latex", "html", "bibtex"}, optional
            "latex" cites by key with ``\cite``, and "bibtex" gives the entries, what a ``.bib`` file holds; the others
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
        if markup == "bibtex":
            return bibliography_of(source_names(self, self.estimate.about.n_models > 1))
        return methods_text(self, alpha, markup)

    def to_json(
        self, path: str | PathLike[str] | None = None, *, alpha: float | Sequence[float] = 0.05, seed: Seed = 0
    ) -> str:
        """Everything that can be said of the results without their rows, as strict JSON; `read_results` reads it.

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
            If jinja2 is not installed, or so much has to be said that no comment holds it as Markdown.

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

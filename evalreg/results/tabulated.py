"""Results as tables: what is read of them, in a terminal, a notebook or a paper."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike

import pandas as pd

from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import Axis
from evalreg.errors import Note
from evalreg.estimate import Estimate
from evalreg.inference.questions import Counted
from evalreg.inference.simultaneous import Seed
from evalreg.report.bibliography import bibliography_of
from evalreg.report.rendering import ReportFormat
from evalreg.report.sentences import MarkupName, RestsOn, caption_text, named, result_sentences, sample_of
from evalreg.report.summaries import coefficient_frame, summarize
from evalreg.report.tables import Printed, Summary
from evalreg.results.document import board_document, checked_levels, results_document, written
from evalreg.results.hub import HubFormName, hub_text
from evalreg.results.reporting import write_report
from evalreg.results.sources import methods_text, source_names


class Tabulated(Counted, Printed):
    """Methods that put an estimate and its covariance into tables."""

    estimate: Estimate
    cov: Covariance
    axes: tuple[Axis, ...]
    notes: tuple[Note, ...]

    def summary(self, alpha: float = 0.05) -> Summary:
        """Tables of estimates and of dependence, and what a careful reader asks.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_text(width)`, `as_markdown()`, `as_latex()`, `as_html()`.
        """
        return summarize(self.estimate, self.cov, self.axes, self.notes, alpha, self._counts)

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Estimates, standard errors, tests and intervals, one row a parameter.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals.

        Returns
        -------
        DataFrame
            Columns estimate, se, naive_se, t, dof, p_value, lower, upper and n, the rows behind each estimate (of a
            model its own, of a regression all). t and p_value are those of `pvalues`.
        """
        return coefficient_frame(self.estimate, self.cov, alpha, self._counts)

    @property
    def _sample(self) -> RestsOn:
        """What the parameters rest on."""
        return sample_of(self.estimate, self.cov, self._rows_word, self._counts)

    @property
    def _rows_word(self) -> str:
        """What a row is."""
        return "rows"

    def sentence(self, name: str | None = None, *, alpha: float = 0.05, markup: MarkupName = "text") -> str:
        r"""The result in words, to be pasted into a text: estimate, interval, what it rests on, how it was made.

        Per cent only where the parameters are means of scores in [0, 1] or win rates. Numbers have two digits of the
        interval's half-width, and more where rounding would make an end 0 or 100%. Where there is no error bar, or
        fewer than 10 clusters, the sentence says so.

        Parameters
        ----------
        name : str, optional
            A parameter; by default all of them, one a line, models from the best down.
        alpha : float, optional
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
        return result_sentences(self.estimate, self.cov, self._sample, alpha, name, markup)

    def caption(self, *, alpha: float = 0.05, markup: MarkupName = "text") -> str:
        r"""What to write below the table: what is estimated, which intervals, how many rows and clusters.

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

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=20, seed=1)
        >>> said = er.mean(log, by="model", item="question", groups="passage").caption()
        >>> print(said.replace(". ", ".\n"))
        Mean of score by model with 95% confidence intervals.
        Standard errors: CR2, clustered by passage (20 clusters); t with 19 degrees of freedom.
        Intervals are built on the logit scale.
        200 rows; none left out.
        """
        about = self.estimate.about
        what = f"{about.model} of {about.formula}" if about.formula else named(self.estimate)
        what += " by model" if about.n_models > 1 else ""
        return caption_text(self.estimate, self.cov, self._sample, alpha, what, markup)

    def methods(self, *, alpha: float = 0.05, markup: MarkupName = "text") -> str:
        r"""How the results were made, as a paragraph for a paper: estimates, clusters, degrees of freedom, sources.

        Parameters
        ----------
        alpha : float, optional
            Level of what is said of several models at once.
        markup : {"text", "markdown", "latex", "html"}, optional
            "latex" cites by key with ``\cite``, whose entries `bibliography` has; the others end in a list of sources.

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
        """
        return methods_text(self, alpha, markup)

    def bibliography(self) -> str:
        """The sources that `methods` cites, as BibTeX.

        Returns
        -------
        str
            What a ``.bib`` file holds.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> found = er.mean(log, groups="passage").bibliography()
        >>> [line for line in found.splitlines() if line.startswith("@")]
        ['@misc{miller2024,', '@article{liang1986,', '@article{bell2002,', '@article{pustejovsky2018,']
        """
        return bibliography_of(source_names(self, self.estimate.about.n_models > 1))

    def hub_metadata(
        self,
        name: str | None = None,
        *,
        dataset: str,
        task: str,
        form: HubFormName = "eval_results",
        model: str | None = None,
        metric: str | None = None,
        dataset_name: str | None = None,
        config: str | None = None,
        split: str | None = None,
        revision: str | None = None,
        date: str | None = None,
        source_url: str | None = None,
        source_name: str | None = None,
        alpha: float = 0.05,
    ) -> str:
        """The result as YAML for the card of a model on the Hugging Face Hub.

        Neither form has a key for an interval, and none is invented. In "eval_results" the value is the estimate and
        `notes` is the result's `sentence`. In "model-index" the value is a text such as "72.4 ± 1.7", and the name of
        the metric says that this is one standard error, and what the interval is.

        Parameters
        ----------
        name : str, optional
            The estimate, where there are several.
        dataset : str
            Identifier of the dataset, such as "openai/gsm8k".
        task : str
            The task's identifier: of the benchmark in "eval_results", such as "gsm8k"; the kind of task in
            "model-index", such as "text-generation".
        form : {"eval_results", "model-index"}, optional
            "eval_results", the default, is a file in the folder ``.eval_results``; "model-index" is the older part of
            the header of ``README.md``.
        model, metric : str, optional
            Name of the model, and identifier of the metric, such as "accuracy"; needed by "model-index".
        dataset_name, config, split : str, optional
            More on the dataset, for "model-index"; the name is the identifier by default.
        revision : str, optional
            Revision of the dataset.
        date : str, optional
            When the eval was run, as ISO 8601; for "eval_results".
        source_url, source_name : str, optional
            Where the result is from; a name needs an address.
        alpha : float, optional
            Level of the interval.

        Returns
        -------
        str
            YAML.

        Raises
        ------
        ArgumentError
            If something is missing, has no place in the form, or is no text; if the estimate is not finite.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
        >>> text = er.mean(log, groups="passage").hub_metadata(dataset="me/passages", task="default")
        >>> print(text.partition("  notes")[0].rstrip())
        - dataset:
            id: "me/passages"
            task_id: "default"
          value: 0.685
        """
        required = {"dataset": dataset, "task": task, "model": model, "metric": metric}
        more = {"dataset_name": dataset_name, "config": config, "split": split, "revision": revision, "date": date}
        more |= {"source_url": source_url, "source_name": source_name}
        return hub_text(self, name, form, required, more, alpha)

    def to_json(
        self, path: str | PathLike[str] | None = None, *, alpha: float | Sequence[float] = 0.05, seed: Seed = 0
    ) -> str:
        """Everything that can be said of the results without their rows, as strict JSON; `read_results` reads it.

        Parameters
        ----------
        path : str or path, optional
            A file to write it to as well.
        alpha : float or list of float, optional
            Levels of the intervals; the first is that of the summary and of the leaderboard.
        seed : int or Generator, optional
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
        return written(results_document(self, levels) | board_document(self, levels[0], seed), path)

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
        format : {"html", "md", "tex", "json"}, optional
            By default what the end of `path` says, and "html" without a path. "md" fits a comment on a merge request:
            at most 65,000 characters, with details that open on demand. "json" is that of `to_json` on one line.
        alpha : float, optional
            Level of the intervals; family-wise for joint intervals, ranks and groups.
        seed : int, optional
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

"""How a comparison is told: its summary, sentences, caption, methods, figure and document."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evalreg.estimators.pair_facts import Facts
from evalreg.estimators.pair_tables import comparison_summary
from evalreg.inference.ranks import PairAdjustName, unadjusted_text
from evalreg.report.canvas import FigSize
from evalreg.report.plots import estimates_axes
from evalreg.report.sentences import MarkupName, caption_text, difference_sentences, sample_of
from evalreg.report.summaries import covariance_text
from evalreg.report.tables import Printed, Summary
from evalreg.results.document import checked_levels, results_document, written
from evalreg.results.results import Results
from evalreg.results.sources import methods_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class ComparisonText(Printed):
    """Differences between models in words and as a figure, from their results and the facts of the pairs."""

    results: Results
    facts: Facts
    adjust: PairAdjustName | None

    @abstractmethod
    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """The differences, one row a pair."""

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
        names, xlabel = [f"{model} - {baseline}" for model, baseline in table.index], f"difference in {outcome}"
        if len(baselines) == 1:
            # Names of differences would be cut where the models' own are not.
            names, xlabel = list(map(str, table.index.get_level_values(0))), f"{xlabel} from {baselines.pop()}"
        drawn = table.rename(columns={"difference": "estimate"})[["estimate", "lower", "upper"]].set_axis(names)
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

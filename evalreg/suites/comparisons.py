"""Differences between models on several evals, in one table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from evalreg.checks import keeps
from evalreg.estimators.comparison import Comparison
from evalreg.estimators.pair_tables import comparison_summary
from evalreg.report.canvas import FigSize
from evalreg.report.documents import SCHEMA_VERSION, summary_document, versions
from evalreg.report.tables import Printed, Summary, whole_columns
from evalreg.results.document import checked_levels, written
from evalreg.suites.average import TasksName, Weights, WeightsName, average_differences
from evalreg.suites.averages import EvalAverage, SuiteAdjustName, adjusted_over
from evalreg.suites.forest import forest_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@keeps("parts")
@dataclass(frozen=True, eq=False)
class Comparisons(Printed):
    """Comparisons on several evals side by side; made by `join_evals`, immutable.

    Parameters
    ----------
    parts : dict of str to Comparison
        By eval.
    adjust : {"fdr_bh", "fdr_by", "holm", "bonferroni"} or None
        How p-values allow for all differences on all evals; None where each comparison keeps its own.

    Examples
    --------
    >>> import evalreg as er
    >>> comparison = er.compare(er.datasets.paired(n_passages=20, seed=1), item="question")
    >>> er.join_evals({"reading": comparison}).table.index.names
    FrozenList(['eval', 'model', 'baseline'])
    """

    parts: dict[str, Comparison]
    adjust: SuiteAdjustName | None = None

    @property
    def table(self) -> pd.DataFrame:
        """The tables of all with 95% intervals, indexed by (eval, model, baseline)."""
        return self.to_frame()

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """The differences on all evals, one row each.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals.

        Returns
        -------
        DataFrame
            Indexed by (eval, model, baseline), columns as in `Comparison.to_frame`.
        """
        return pd.concat(self._frames(alpha), names=["eval"])

    def _frames(self, alpha: float) -> dict[str, pd.DataFrame]:
        """The tables by eval, with p-values adjusted over all of them where that is asked for."""
        frames = {name: part.to_frame(alpha) for name, part in self.parts.items()}
        if self.adjust is None:
            return frames
        p = adjusted_over(np.concatenate([frame["p_value"].to_numpy() for frame in frames.values()]), self.adjust)
        starts = np.cumsum([len(frame) for frame in frames.values()])[:-1]
        for frame, own in zip(frames.values(), np.split(p, starts), strict=True):
            frame.insert(list(frame).index("p_value") + 1, "p_adjusted", own)
        return frames

    def average(
        self,
        weights: Weights | WeightsName | None = None,
        *,
        tasks: TasksName = "fixed",
        models: list[str] | None = None,
    ) -> EvalAverage:
        """Average of each difference over the evals, with its error.

        Parameters
        ----------
        weights : dict of str to float or "precision", optional
            As in `Evals.average`.
        tasks : {"fixed", "drawn"}, optional
            As in `Evals.average`.
        models : list of str, optional
            Differences to average, such as "new - old", where some evals lack others.

        Returns
        -------
        EvalAverage
            With `table`, `to_frame(alpha)` and `summary()`.

        Raises
        ------
        ArgumentError, NotAvailableError
            As in `Evals.average`.

        Warns
        -----
        FewClustersWarning
            If there are fewer than five drawn tasks.
        """
        return average_differences({name: part.results for name, part in self.parts.items()}, weights, tasks, models)

    def plot(
        self,
        name: str | None = None,
        *,
        average: EvalAverage | Literal[False] | None = None,
        alpha: float = 0.05,
        figsize: FigSize = None,
        ax: Axes | None = None,
    ) -> Axes:
        """A forest plot: a row for each eval, and their average at the foot, with a line at zero.

        Needs matplotlib, the extra `evalreg[plot]`.

        Parameters
        ----------
        name : str, optional
            The difference, such as "new - old"; may be left out where there is one.
        average : EvalAverage or False, optional
            What `average()` returned; by default that of equal weights and fixed tasks. False leaves it out.
        alpha : float, optional
            Level of the intervals, which are those of `to_frame` and of the average.
        figsize : float or (float, float), optional
            Inches of a new figure: its width, such as 3.3 for a column of a paper, or width and height. By default what
            fits.
        ax : Axes, optional
            To draw into; a new figure by default.

        Returns
        -------
        Axes
            Row i is eval i, in the order given; names are whole.

        Raises
        ------
        ArgumentError
            If there is no such name, several and none was given, or the average is not of these evals.
        """
        return forest_axes(self, name, average, alpha, figsize, ax)

    def summary(self, alpha: float = 0.05) -> Summary:
        """One table for all evals.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        parts = {name: (part.results, part.facts, part.adjust) for name, part in self.parts.items()}
        return comparison_summary(parts, alpha, self._frames(alpha), self.adjust)

    def to_json(self, path: str | PathLike[str] | None = None, *, alpha: float | Sequence[float] = 0.05) -> str:
        """All comparisons and their table, as strict JSON; `read_results` reads it.

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
        levels = checked_levels(alpha)
        frames = self._frames(levels[0])
        document = {
            "adjust": self.adjust,
            "kind": "comparisons",
            "parts": {name: part._document(levels, frames[name]) for name, part in self.parts.items()},
            "schema_version": SCHEMA_VERSION,
            "summary": summary_document(self.summary(levels[0])),
            "versions": versions(),
        }
        return written(document, path)

    def __repr__(self) -> str:
        return f"<Comparisons: {', '.join(self.parts)}>\n{whole_columns(self.table)}"

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
from evalreg.report.summaries import coefficient_frame, summarize
from evalreg.report.tables import Printed, Summary
from evalreg.results.document import board_document, checked_levels, results_document, written


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
            model its own, of a regression all).
        """
        return coefficient_frame(self.estimate, self.cov, alpha, self._counts)

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
        [0.725, 0.859]
        """
        levels = checked_levels(alpha)
        return written(results_document(self, levels) | board_document(self, levels[0], seed), path)

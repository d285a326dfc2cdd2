"""Results as tables: what is read of them, in a terminal, a notebook or a paper."""

from __future__ import annotations

import pandas as pd

from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import Axis
from evalreg.errors import Note
from evalreg.estimate import Estimate
from evalreg.inference.questions import Counted
from evalreg.report.summaries import coefficient_frame, summarize
from evalreg.report.tables import Printed, Summary


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

"""Averages over evals, with what follows from them: intervals, differences of pairs, ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, adjustment, fraction
from evalreg.errors import NotAvailableError, Note
from evalreg.inference.multiplicity import adjust_pvalues
from evalreg.inference.random_effects import Averaged
from evalreg.numerics.student import t_pvalues, t_quantile
from evalreg.report.tables import Grid, Printed, Summary, dof_texts, error_text, interval_text, number, p_value
from evalreg.report.whole import whole
from evalreg.results.tiers import ranks_text

SuiteAdjustName: TypeAlias = Literal["fdr_bh", "bh", "fdr_by", "holm", "bonferroni"]
SUITE_ADJUSTMENTS: tuple[SuiteAdjustName, ...] = ("fdr_bh", "fdr_by", "holm", "bonferroni")


def adjusted_over(p: FloatArray, method: SuiteAdjustName) -> FloatArray:
    """P-values adjusted for their number; "fdr_by" is "fdr_bh" times 1 + 1/2 + ... + 1/m, right under any dependence.

    Benjamini and Yekutieli (2001), Annals of Statistics 29, 1165-1188, theorem 1.3.
    """
    if method != "fdr_by":
        return adjust_pvalues(p, method)
    m = np.count_nonzero(~np.isnan(p))
    found: FloatArray = np.minimum(adjust_pvalues(p, "fdr_bh") * np.sum(1 / np.arange(1, m + 1)), 1.0)
    return found


@dataclass(frozen=True, eq=False)
class EvalAverage(Printed):
    """Averages over several evals; made by `average` of what `join_evals` returns, immutable.

    Parameters
    ----------
    names : tuple of str
        Models, or differences.
    evals : tuple of str
        What was averaged over.
    weights : tuple of float
        By eval; empty where they differ by model ("precision").
    tasks : {"fixed", "drawn"}
        Whether the evals are all that is asked about, or a sample.
    each : Averaged
        The averages.
    pairs : Averaged or None
        Of all pairs of models, the first less the second; None where the averages are differences.
    bounds : (float, float)
        Between which the averages lie.
    notes : tuple of (category, text)
        What was warned of.

    Examples
    --------
    >>> import evalreg as er
    >>> logs = {name: er.datasets.paired(n_passages=20, seed=i) for i, name in enumerate(["reading", "maths"])}
    >>> evals = er.join_evals({name: er.mean(log, by="model", item="question") for name, log in logs.items()})
    >>> evals.average({"reading": 0.25, "maths": 0.75}).table["estimate"].round(4).to_dict()
    {'new': 0.8, 'old': 0.735}
    """

    names: tuple[str, ...]
    evals: tuple[str, ...]
    weights: tuple[float, ...]
    tasks: Literal["fixed", "drawn"]
    each: Averaged
    pairs: Averaged | None
    bounds: tuple[float, float]
    notes: tuple[Note, ...] = ()

    @property
    def table(self) -> pd.DataFrame:
        """The averages with 95% intervals; see `to_frame` for the columns."""
        return self.to_frame()

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """The averages, one row each.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals, and family-wise level of the ranks.

        Returns
        -------
        DataFrame
            Of models, best first: columns estimate, se, dof, lower, upper, rank, rank_lower and rank_upper (the ranks
            that the pairs leave open, all at once, by Holm). Of differences p_value in place of the ranks. Of drawn
            tasks also tau (the spread of true values over tasks), new_lower and new_upper (for one more task).
        """
        fraction("alpha", alpha)
        table = pd.DataFrame(_columns(self.each, self.bounds, alpha), index=pd.Index(self.names))
        if self.pairs is None:
            table.insert(5, "p_value", _p(self.each))
        else:
            for place, (name, ranks) in enumerate(self._ranks(alpha).items(), 5):
                table.insert(place, name, ranks)
            table = table.sort_values("estimate", ascending=False, kind="stable")
        return table if self.tasks == "drawn" else table.drop(columns=["tau", "new_lower", "new_upper"])

    def pairwise(self, adjust: SuiteAdjustName | None = "holm", alpha: float = 0.05) -> pd.DataFrame:
        """Differences between the averages of all pairs of models.

        Parameters
        ----------
        adjust : {"holm", "fdr_bh", "fdr_by", "bonferroni"}, optional
            How `p_adjusted` allows for the number of pairs, "holm" by default, "bh" is "fdr_bh"; None leaves the
            column out.
        alpha : float, optional
            Level of the intervals, each by itself.

        Returns
        -------
        DataFrame
            Indexed by (left, right); columns difference, se, dof, lower, upper, p_value and p_adjusted; of drawn tasks
            also tau, new_lower and new_upper.

        Raises
        ------
        NotAvailableError
            If the averages are differences already.
        """
        fraction("alpha", alpha)
        if self.pairs is None:
            raise NotAvailableError("these averages are differences; `pairwise` is of averages of scores.")
        left, right = np.triu_indices(len(self.names), 1)
        names = np.array(self.names, dtype=object)
        low, high = self.bounds
        columns = _columns(self.pairs, (low - high, high - low), alpha)
        index = pd.MultiIndex.from_arrays([names[left], names[right]], names=["left", "right"])
        table = pd.DataFrame(columns, index=index).rename(columns={"estimate": "difference"})
        table.insert(5, "p_value", _p(self.pairs))
        adjust = adjustment("adjust", adjust, SUITE_ADJUSTMENTS)
        if adjust is not None:
            table.insert(6, "p_adjusted", adjusted_over(table["p_value"].to_numpy(), adjust))
        return whole(table if self.tasks == "drawn" else table.drop(columns=["tau", "new_lower", "new_upper"]))

    def _ranks(self, alpha: float) -> dict[str, FloatArray]:
        """Ranks, and those that no pair excludes at a family-wise level."""
        M, theta = len(self.names), self.each.estimate
        above = np.zeros((M, M), dtype=bool)
        if self.pairs is not None and M > 1:
            left, right = np.triu_indices(M, 1)
            decided = adjust_pvalues(_p(self.pairs), "holm") <= alpha
            above[left, right] = decided & (self.pairs.estimate > 0)
            above[right, left] = decided & (self.pairs.estimate < 0)
        return {
            "rank": 1 + np.count_nonzero(theta > theta[:, None], axis=1),
            "rank_lower": 1 + above.sum(axis=0),
            "rank_upper": M - above.sum(axis=1),
        }

    def summary(self, alpha: float = 0.05) -> Summary:
        """The averages, what they are averages of, and what their errors allow for.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        frame, drawn = self.to_frame(alpha), self.tasks == "drawn"
        percent = f"{100 * (1 - alpha):g}%"
        end = ("ranks",) if self.pairs is not None else ("p",)
        more = ("tau", "new task") if drawn else ()
        headers = ("", "average (SE)", f"{percent} interval", "dof", *end, *more)
        rows, dofs = [], dof_texts(frame["dof"], "normal")
        for name, row, dof in zip(frame.index, frame.to_dict("records"), dofs, strict=True):
            ends = interval_text(row["lower"], row["upper"], row["estimate"])
            cells = [f"{number(row['estimate'])} ({error_text(row['se'])})", ends, dof]
            if self.pairs is None:
                cells.append(p_value(row["p_value"], alpha))
            else:
                cells.append(ranks_text(row))
            if drawn:
                cells += [number(row["tau"]), interval_text(row["new_lower"], row["new_upper"], row["estimate"])]
            rows.append((str(name), *cells))
        grid = Grid(headers, tuple(rows), blocks=True)
        return Summary("average over evals", self._facts(), (grid,), tuple(self._sentences()))

    def _facts(self) -> tuple[tuple[str, str], ...]:
        equal = len(set(self.weights)) == 1
        weights = ", ".join(f"{name} {weight:.4g}" for name, weight in zip(self.evals, self.weights, strict=False))
        said = "by precision" if not self.weights else f"equal, 1/{len(self.evals)} each" if equal else weights
        return (("Evals", f"{len(self.evals)}: {', '.join(self.evals)}"), ("Tasks", self.tasks), ("Weights", said))

    def _sentences(self) -> list[str]:
        if self.tasks == "fixed":
            text = (
                "These averages are about these evals: their errors are those of the questions. Other evals of the "
                'same kind would give other averages, which tasks="drawn" allows for.'
            )
        else:
            text = (
                f"The {len(self.evals)} evals are taken as a random sample of tasks, and the averages are about all "
                "such tasks. tau is the spread of true values over tasks, new task the interval for one more."
            )
        sentences = [
            text,
            "The evals are taken to share no questions. Standard errors in parentheses. Where the 95% interval of an "
            "eval is wider than its standard error says, the interval counts.",
        ]
        if self.pairs is not None and len(self.names) > 1:
            sentences.append("ranks: those that no difference between two models excludes, all at once (Holm).")
        elif self.pairs is None and len(self.names) > 1:
            sentences.append(f"p is of each of {len(self.names)} differences by itself.")
        return sentences + [text for _, text in self.notes]

    def __repr__(self) -> str:
        return self.summary().as_text()


def _p(averaged: Averaged) -> FloatArray:
    """Two-sided p-values against 0; NaN without a variance."""
    se = np.where(averaged.se > 0, averaged.se, np.nan)
    return t_pvalues(averaged.estimate / se, averaged.dof)


def _columns(averaged: Averaged, bounds: tuple[float, float], alpha: float) -> dict[str, FloatArray]:
    """Estimates with intervals, within what is possible."""
    t = t_quantile(alpha, averaged.dof)
    half, new = t * averaged.se, t * averaged.new_se
    return {
        "estimate": averaged.estimate,
        "se": averaged.se,
        "dof": averaged.dof,
        "lower": np.maximum(averaged.estimate - half, bounds[0]),
        "upper": np.minimum(averaged.estimate + half, bounds[1]),
        "tau": averaged.tau,
        "new_lower": np.maximum(averaged.estimate - new, bounds[0]),
        "new_upper": np.minimum(averaged.estimate + new, bounds[1]),
    }

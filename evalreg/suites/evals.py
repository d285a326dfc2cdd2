"""Several evals of the same models: their tables, as papers print them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import fraction, keeps, listed
from evalreg.data.clusters import axis_name
from evalreg.errors import Note
from evalreg.estimators.pair_tables import by_part
from evalreg.inference.dependence import design_effect
from evalreg.report.canvas import FigSize
from evalreg.report.summaries import covariance_text
from evalreg.report.tables import Grid, Printed, Summary, error_text, fixed, number
from evalreg.results.results import Results
from evalreg.suites.average import TasksName, Weights, WeightsName, average_means
from evalreg.suites.averages import EvalAverage
from evalreg.suites.forest import forest_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FormName: TypeAlias = Literal["scores", "counts", "clustered"]
FORMS: tuple[FormName, ...] = ("scores", "counts", "clustered")
NOT_POOLED = "Standard errors in parentheses. Nothing is pooled over evals: `average()` does that."


@keeps("parts")
@dataclass(frozen=True, eq=False)
class Evals(Printed):
    """Scores of models on several evals side by side; made by `join_evals`, immutable.

    Parameters
    ----------
    parts : dict of str to Results
        Means by model, by eval.
    form : {"scores", "counts", "clustered"}
        What `summary` prints.
    notes : tuple of (category, text)
        What was warned of.

    Examples
    --------
    >>> import evalreg as er
    >>> logs = {name: er.datasets.paired(n_passages=20, seed=i) for i, name in enumerate(["reading", "maths"])}
    >>> evals = er.join_evals({name: er.mean(log, by="model", item="question") for name, log in logs.items()})
    >>> evals.table["estimate"].round(2).to_dict()
    {('reading', 'new'): 0.8, ('reading', 'old'): 0.69, ('maths', 'new'): 0.8, ('maths', 'old'): 0.75}
    """

    parts: dict[str, Results]
    form: FormName = "counts"
    notes: tuple[Note, ...] = ()

    @property
    def table(self) -> pd.DataFrame:
        """Scores with 95% intervals, indexed by (eval, model); see `to_frame` for the columns."""
        return self.to_frame()

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """Scores of all models on all evals, one row each.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals.

        Returns
        -------
        DataFrame
            Indexed by (eval, model); columns estimate, se, lower, upper, naive_se, ratio (of se to naive_se), dof, n
            and n_clusters (of the axis with fewest; n where rows are independent).
        """
        frames = {name: _eval_frame(part, alpha) for name, part in self.parts.items()}
        return pd.concat(frames, names=["eval", "model"])

    def average(
        self,
        weights: Weights | WeightsName | None = None,
        *,
        tasks: TasksName = "fixed",
        models: list[str] | None = None,
    ) -> EvalAverage:
        """Average of each model over the evals, with its error, differences of all pairs and ranks.

        The evals are taken to have different questions, so that their errors are independent; within an eval the models
        share questions, which the differences use.

        Parameters
        ----------
        weights : dict of str to float or "precision", optional
            Weight of each eval, with sum 1; equal weights by default. "precision", for `tasks="drawn"` only, weighs by
            1/(SE^2 + tau^2).
        tasks : {"fixed", "drawn"}, optional
            "fixed", the default, is about these evals: only their questions are a sample. "drawn" is about the tasks of
            which these evals are a sample, and adds the interval of a new task.
        models : list of str, optional
            The models to average, where some evals lack others.

        Returns
        -------
        EvalAverage
            With `table`, `pairwise()`, `to_frame(alpha)` and `summary()`.

        Raises
        ------
        ArgumentError
            If there is one eval, one is there twice, one lacks a model, or weights do not fit or do not sum to 1.
        NotAvailableError
            If a model has no standard error on some eval.

        Warns
        -----
        UnlikeScalesWarning
            If the evals' scores are not on one scale.
        FewClustersWarning
            If there are fewer than five drawn tasks.

        References
        ----------
        Fixed: dof by Welch and Satterthwaite (1946). An eval's SE is at least the half-length of its 95% interval over
        t, so that a model that solves all questions counts with the interval that this still has. Drawn: mean and
        spread of the evals' scores with t(k - 1), at least the error of their questions; "precision" has tau^2 by Paule
        and Mandel (1982) and the interval of Knapp and Hartung (2003), not below that of known tau^2. The guide says
        how often the intervals hold the truth.
        """
        return average_means(self.parts, weights, tasks, models, self.notes)

    def plot(
        self,
        name: str | None = None,
        *,
        average: EvalAverage | Literal[False] | None = None,
        alpha: float = 0.05,
        figsize: FigSize = None,
        ax: Axes | None = None,
    ) -> Axes:
        """A forest plot: a row for each eval, and their average at the foot.

        Needs matplotlib, the extra `evalreg[plot]`.

        Parameters
        ----------
        name : str, optional
            The model; may be left out where there is one.
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
        """The table in the form that was asked for.

        Parameters
        ----------
        alpha : float, optional
            Level of the intervals; none of these forms shows any.

        Returns
        -------
        Summary
            Prints as text of 80 columns, in blocks of columns where they are wider.

        References
        ----------
        Miller (2024), arXiv:2411.00640: "scores" is table 2, "counts" table 3, "clustered" table 4.
        """
        fraction("alpha", alpha)
        table = self.to_frame(alpha)
        grid = _clustered_grid(table) if self.form == "clustered" else self._score_grid(table)
        return Summary("evalreg evals", (), (grid,), tuple(self._sentences(table)))

    def _score_grid(self, table: pd.DataFrame) -> Grid:
        """Models by evals; below them questions and clusters."""
        models = list(dict.fromkeys(table.index.get_level_values(1)))
        cells = {
            key: f"{number(row['estimate'])} ({error_text(row['se'])})"
            for key, row in zip(table.index, table.to_dict("records"), strict=True)
        }
        rows = [(str(model), *(cells.get((name, model), "") for name in self.parts)) for model in models]
        rule = 0
        if self.form == "counts":
            rule = len(rows)
            rows += [
                (label, *(_range(table.loc[name, column]) for name in self.parts))
                for label, column in (("Questions or rows", "n"), ("Clusters", "n_clusters"))
            ]
            rows.append(("Covariance", *(covariance_text(part.cov) for part in self.parts.values())))
        return Grid(("model", *self.parts), tuple(rows), blocks=True, rule=rule)

    def _sentences(self, table: pd.DataFrame) -> list[str]:
        if self.form == "clustered":
            sentences = ["ratio = clustered SE / naive SE; naive takes rows to be independent."]
        else:
            sentences = [NOT_POOLED]
        models = set(table.index.get_level_values(1))
        for name, part in self.parts.items():
            absent = sorted(models - set(part.estimate.names))
            if absent:
                sentences.append(f"{name}: {listed(absent)} was not run.")
        sentences += by_part({name: [text for _, text in part.notes] for name, part in self.parts.items()})
        return sentences + [text for _, text in self.notes]

    def __repr__(self) -> str:
        return self.summary().as_text()


def _eval_frame(part: Results, alpha: float) -> pd.DataFrame:
    """The scores of one eval."""
    frame, estimate = part.to_frame(alpha), part.estimate
    n = np.full(len(frame), estimate.n_rows) if part._counts is None else part._counts.astype(np.intp)
    fewest = n
    maps = estimate.coefficient_map
    for axis in part.cov.axes:
        reached = (
            np.full(len(frame), part.n_clusters[axis_name(axis)])
            if maps is None
            else estimate.scores.clusters_reached(axis, maps)
        )
        fewest = np.minimum(fewest, reached)
    found = frame[["estimate", "se", "lower", "upper", "naive_se"]].copy()
    found["ratio"] = np.sqrt(design_effect(part.cov))
    return found.assign(dof=frame["dof"], n=n, n_clusters=fewest)


def _range(counts: Any) -> str:
    """One number, or the smallest and the largest."""
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"


def _clustered_grid(table: pd.DataFrame) -> Grid:
    """Clustered beside naive standard errors and their ratio."""
    headers = ("eval: model", "score", "clustered SE", "naive SE", "ratio", "n", "clusters")
    rows = []
    for (name, model), row in zip(table.index, table.to_dict("records"), strict=True):
        errors = (number(row["se"]), number(row["naive_se"]), fixed(row["ratio"], 2))
        rows.append((f"{name}: {model}", number(row["estimate"]), *errors, str(row["n"]), str(row["n_clusters"])))
    return Grid(headers, tuple(rows))

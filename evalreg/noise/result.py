"""What `noise` returns: tables of models and pairs, numbers for the benchmark, a summary and figures."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, fraction, option
from evalreg.errors import NotAvailableError, Note
from evalreg.estimators.comparison import Comparison
from evalreg.noise.answer_tables import ReadAnswers
from evalreg.noise.frames import OF_PAIRS, middle, noise_columns, shifts
from evalreg.noise.parts import Parts, sign_pvalues
from evalreg.noise.summary import noise_summary
from evalreg.planning.few_power import found_where_few_differ
from evalreg.planning.t_power import t_powers, t_shift
from evalreg.report.canvas import FigSize
from evalreg.report.curves import curve_axes
from evalreg.report.scatter import differences_axes, errors_axes
from evalreg.report.tables import Printed, Summary, whole_columns
from evalreg.results.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NoiseFigureName: TypeAlias = Literal["errors", "differences", "significance"]
NoiseTableName: TypeAlias = Literal["models", "pairs"]
# Points of a curve.
POINTS = 101


@dataclass(frozen=True, eq=False)
class Noise(Printed):
    """The noise of an eval, by model and by pair of models; made by `noise`, immutable.

    Parameters
    ----------
    results : Results
        Mean scores of the models.
    comparison : Comparison or None
        Differences of all pairs; None where there is one model.
    of_models, of_pairs : Parts
        What the answers say about each.
    read : ReadAnswers
        The answers.
    alpha, power : float
        Level of tests and intervals, and the chance with which detectable differences are found.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.sampled(n_questions=300, n_samples=4, n_models=2, correlation=0.5, seed=2)
    >>> found = er.noise(log, item="question", sample="sample")
    >>> found.pairs[["difference", "se_prediction", "se_data", "se_total"]].round(3).to_dict("records")
    [{'difference': 0.013, 'se_prediction': 0.016, 'se_data': 0.015, 'se_total': 0.023}]
    """

    results: Results
    comparison: Comparison | None
    of_models: Parts
    of_pairs: Parts | None
    read: ReadAnswers
    alpha: float
    power: float

    @property
    def models(self) -> pd.DataFrame:
        """One row a model, the best first; see `to_frame` for the columns."""
        return self._models.copy()

    @property
    def pairs(self) -> pd.DataFrame:
        """One row a pair of models, indexed by (model, baseline); see `to_frame` for the columns."""
        return self._pairs.copy()

    @cached_property
    def _models(self) -> pd.DataFrame:
        return self.to_frame()

    @cached_property
    def _pairs(self) -> pd.DataFrame:
        return self.to_frame("pairs")

    def to_frame(self, table: NoiseTableName = "models", alpha: float | None = None) -> pd.DataFrame:
        """The models, or the pairs.

        Parameters
        ----------
        table : {"models", "pairs"}, optional
            What a row is.
        alpha : float, optional
            Level of intervals and of `detectable`; that of `noise` by default.

        Returns
        -------
        DataFrame
            Columns of both tables, after `score` or `difference`:

            - `se_prediction`, `se_data`, `se_total`: standard errors from the sampling of answers, of questions, and of
              both. `se_data` is NaN where the variance left for it, `data_variance`, is 0 or less.
            - `prediction_share`, `share_lower`, `share_upper`: share of the total variance that is answers, as
              estimated, and its interval; NaN where fewer than 8 questions (clusters) differ from the usual mean.
            - `enough_answers`, `enough_lower`, `enough_upper`: answers to each question, of each model, from which on
              more hardly pay: noise then keeps 5% of the variance. Infinite where the data show no other noise.
            - `sigma2`, `data_variance`: variance of one answer (of a pair: added over both models); variance of the
              estimate that endless answers would leave.
            - `se_one_answer`: total standard error with one answer to each question.
            - `n`, `n_clusters`, `n_single`: questions, clusters, and questions with a single answer.

            Of pairs also `z` (difference over `se_total`), `p_value` (as `compare` has it), `wins`, `losses` (questions
            on which the first model has the higher or lower mean), `sign_p_value` (exact; with `groups` the clustered
            sign test), `detectable` (a true difference that a test of this pair finds with the power asked for; where
            few questions differ, that of the test of `compare`, which allows for differences not seen) and `paired`.

        Raises
        ------
        ArgumentError
            If there is no such table, or a level is not between 0 and 1.
        """
        option("table", table, get_args(NoiseTableName))
        alpha = self.alpha if alpha is None else fraction("alpha", alpha)
        return self._model_frame(alpha) if table == "models" else self._pair_frame(alpha)

    def _model_frame(self, alpha: float) -> pd.DataFrame:
        names = pd.Index(self.read.names, name="model")
        score = self.results.params.reindex(names).to_numpy()
        variance = self.results.bse.reindex(names).to_numpy() ** 2
        frame = pd.DataFrame({"score": score} | noise_columns(self.of_models, variance, alpha), index=names)
        return frame.sort_values("score", ascending=False, kind="stable")

    def _pair_frame(self, alpha: float) -> pd.DataFrame:
        if self.comparison is None or self.of_pairs is None:
            names = ["difference", *noise_columns(self.of_models, np.zeros(len(self.read.names)), alpha), *OF_PAIRS]
            index = pd.MultiIndex.from_arrays([[], []], names=["model", "baseline"])
            return pd.DataFrame(np.zeros((0, len(names))), index=index, columns=names)
        table, parts = self.comparison.to_frame(alpha), self.of_pairs
        se = table["se"].to_numpy()
        columns: dict[str, Any] = {"difference": table["difference"].to_numpy()} | noise_columns(parts, se**2, alpha)
        columns["n_clusters"] = table["n_clusters"].to_numpy()
        columns |= {"z": columns["difference"] / se, "p_value": table["p_value"].to_numpy()}
        columns |= {"wins": parts.wins, "losses": parts.losses, "sign_p_value": self._sign_pvalues(parts)}
        columns["detectable"] = self._detectable(table["dof"].to_numpy(), se, alpha)
        columns["paired"] = table["paired"].to_numpy()
        return pd.DataFrame(columns, index=table.index)

    def _detectable(self, dof: FloatArray, se: FloatArray, alpha: float) -> FloatArray:
        """True differences that the tests of the pairs find: where few questions differ, these allow for more."""
        assert self.comparison is not None
        found, few = shifts(dof, alpha, self.power) * se, self.comparison.results.cov.widths().few
        if few is not None:
            allowed = found_where_few_differ(few.unseen, dof[few.rows], alpha, self.power)
            found[few.rows] = np.fmax(found[few.rows], allowed)
        return found

    def _sign_pvalues(self, parts: Parts) -> FloatArray:
        assert self.comparison is not None
        if self.read.crossed:
            return self.comparison.sign_test()["clustered_p_value"].to_numpy()
        own = sign_pvalues(parts.wins, parts.losses) if self.read.cluster is None else parts.clustered_sign
        return np.where(self.comparison.facts.paired, own, np.nan)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Warnings of the means and of the differences, each once."""
        more = () if self.comparison is None else self.comparison.results.notes
        return tuple(dict.fromkeys([*self.results.notes, *more]))

    # Of the benchmark.

    @property
    def detectable(self) -> float:
        """The difference that this benchmark shows between two typical models: the median over pairs; NaN without."""
        return middle(self._pairs["detectable"])

    @property
    def smallest_shown(self) -> float:
        """The smallest difference of a pair with a p-value below `alpha`; NaN where there is none.

        The luckiest of many pairs: other models that differ by as much need not come out so.
        """
        shown = self._pairs["difference"][self._pairs["p_value"] < self.alpha].abs()
        return float(shown.min()) if len(shown) else float("nan")

    @property
    def enough_answers(self) -> float:
        """Answers to each question from which on more hardly pay: the median over pairs, or that of the one model."""
        return middle((self._pairs if len(self._pairs) else self._models)["enough_answers"])

    def curve(self, points: int = POINTS) -> pd.DataFrame:
        """The chance that a typical pair comes out significant, by its true difference.

        Parameters
        ----------
        points : int, optional
            Number of differences, from 0 to 1.5 times the largest that any of the lines needs for the power asked for.

        Returns
        -------
        DataFrame
            Indexed by the difference. Columns "one answer", "answers as here" and "endless answers", those that can be
            told. A typical pair has the median variances over pairs; where few questions differ it also allows for
            differences not seen, as `detectable` does.

        Raises
        ------
        NotAvailableError
            If there are fewer than two models.
        """
        self._needs_pairs()
        table, pairs = self._pairs, self._pairs[self._pairs["paired"]]
        pairs = pairs if len(pairs) else table
        errors = {"one answer": middle(pairs["se_one_answer"]), "answers as here": middle(pairs["se_total"])}
        left = middle(pairs["data_variance"])
        errors["endless answers"] = np.sqrt(left) if left > 0 else float("nan")
        allowed = self._allowed
        known = {name: se * allowed for name, se in errors.items() if np.isfinite(se) and se > 0}
        dof = float(np.nanmedian(self.comparison.results.dof)) if self.comparison is not None else np.inf
        most = 1.5 * t_shift(dof, self.alpha, self.power) * max(known.values())
        x = np.linspace(0, min(most, 1.0) if self._unit else most, points)
        lines = {name: t_powers(x / se, dof, self.alpha) for name, se in known.items()}
        return pd.DataFrame(lines, index=pd.Index(x, name="difference"))

    @property
    def _allowed(self) -> float:
        """How many times its standard error a typical pair is tested with: 1 but where few questions differ."""
        assert self.comparison is not None
        table = self.comparison.to_frame(self.alpha)
        plain = shifts(table["dof"].to_numpy(), self.alpha, self.power) * table["se"].to_numpy()
        ratio = self._pairs["detectable"].to_numpy() / plain
        known = ratio[np.isfinite(ratio)]
        return float(np.median(known)) if known.size else 1.0

    @property
    def _unit(self) -> bool:
        return self.results.estimate.about.unit

    def _needs_pairs(self) -> None:
        if self.comparison is None:
            raise NotAvailableError("this figure is of pairs, and there is one model. Add the answers of another one.")

    def summary(self, alpha: float | None = None) -> Summary:
        """Standard errors by model and by pair, their parts, and what this benchmark can show.

        Parameters
        ----------
        alpha : float, optional
            Level of intervals; that of `noise` by default.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        return noise_summary(self, self.alpha if alpha is None else alpha)

    def plot(self, kind: NoiseFigureName = "errors", *, figsize: FigSize = None, ax: Axes | None = None) -> Axes:
        """Draw a figure.

        Parameters
        ----------
        kind : {"errors", "differences", "significance"}, optional
            Standard errors of the models and their parts against their scores; the p-value of every pair against its
            difference; or the chance that a true difference comes out significant, with one answer to each question, as
            many as here, and endless ones.
        figsize : float or (float, float), optional
            Inches of a new figure: its width, such as 3.3 for a column of a paper, or width and height. By default what
            fits.
        ax : Axes, optional
            To draw into; a new figure by default.

        Returns
        -------
        Axes
            Drawn into.

        Raises
        ------
        ArgumentError
            If there is no such figure.
        NotAvailableError
            If a figure of pairs is asked for and there is one model, or matplotlib is not installed.
        """
        option("kind", kind, get_args(NoiseFigureName))
        if kind == "errors":
            n = self._models["n"]
            ceiling = int(n.iloc[0]) if self._unit and n.nunique() == 1 and self.read.cluster is None else None
            return errors_axes(self._models, xlabel=f"mean {self.read.score}", n=ceiling, figsize=figsize, ax=ax)
        self._needs_pairs()
        if kind == "differences":
            return differences_axes(self._pairs, alpha=self.alpha, detectable=self.detectable, figsize=figsize, ax=ax)
        ylabel = f"chance of p < {self.alpha:g}"
        note = "A typical pair: median variances over all pairs, each test two-sided."
        xlabel = "true difference of two models"
        ax = curve_axes(self.curve(), xlabel=xlabel, ylabel=ylabel, note=note, figsize=figsize, ax=ax)
        ax.axhline(self.power, color="#767676", lw=0.8, ls=(0, (4, 3)), zorder=1)
        return ax

    def __repr__(self) -> str:
        of = f"{self.read.table.mean.shape[1]} questions"
        return f"<Noise: {self.read.score}, {of}, {len(self.read.names)} models>\n{whole_columns(self._models)}"

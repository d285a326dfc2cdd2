"""Several evals of the same models side by side: scores, or differences between models; nothing is pooled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import adjustment, fraction, issue, keeps, listed, log_of_data, muted, option, passed
from evalreg.data.clusters import axis_name, known_column
from evalreg.data.frame import native_frame
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    EvalregWarning,
    IndependenceWarning,
    MissingColumnError,
    MissingLabelsError,
    NotAvailableError,
    Note,
    UnlikeScalesWarning,
)
from evalreg.estimators.comparison import Comparison
from evalreg.estimators.comparison_page import by_part, comparison_summary
from evalreg.inference.dependence import clusters_behind, design_effect
from evalreg.inference.simultaneous import adjust_pvalues
from evalreg.report.axes import INK, FigSize, estimates_axes
from evalreg.report.documents import SCHEMA_VERSION, versions
from evalreg.report.summaries import covariance_text
from evalreg.report.tables import Grid, Printed, Summary, error_text, fixed, in_lines, number, span, whole_columns
from evalreg.results.document import checked_levels, written
from evalreg.results.results import Results
from evalreg.suites import average as averages

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FormName: TypeAlias = Literal["counts", "scores", "clustered"]
# Scores of evals that differ by this factor are hardly on one scale: fractions beside per cent.
UNLIKE = 10.0
# A tolerance: numbers of the same rows, by another engine.
SAME = 1e-9


@keeps("parts")
@dataclass(frozen=True, eq=False)
class Evals(Printed):
    """Scores of models, or differences between them, on several evals; made by `join_evals`, immutable.

    Parameters
    ----------
    parts : dict of str to Results or Comparison
        Means by model, or comparisons, by eval.
    form : {"counts", "scores", "clustered"}
        What `summary` prints of scores.
    adjust : {"fdr_bh", "fdr_by", "holm", "bonferroni"} or None
        How p-values allow for all differences on all evals; None where each comparison keeps its own.
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

    parts: dict[str, Any]
    form: FormName = "counts"
    adjust: averages.SuiteAdjustName | None = None
    notes: tuple[Note, ...] = ()

    @property
    def differences(self) -> bool:
        """Whether these are differences between models."""
        return isinstance(next(iter(self.parts.values())), Comparison)

    @property
    def table(self) -> pd.DataFrame:
        """All with 95% intervals, indexed by (eval, model) or (eval, model, baseline); see `to_frame`."""
        return self.to_frame()

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """All scores, or all differences, one row each.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals.

        Returns
        -------
        DataFrame
            Of scores indexed by (eval, model); columns estimate, se, lower, upper, naive_se, ratio (of se to naive_se),
            dof, n and n_clusters (of the axis with fewest; n where rows are independent). Of differences indexed by
            (eval, model, baseline), columns as in `Comparison.to_frame`.
        """
        return pd.concat(self._tables(alpha), names=["eval"] if self.differences else ["eval", "model"])

    def _tables(self, alpha: float) -> dict[str, pd.DataFrame]:
        """The table of each eval, with p-values adjusted over all of them where that is asked for."""
        of_part = Comparison.to_frame if self.differences else _score_frame
        tables = {name: of_part(part, alpha) for name, part in self.parts.items()}
        if self.adjust is not None:
            ends = np.cumsum([len(table) for table in tables.values()])
            p = adjust_pvalues(np.concatenate([table["p_value"] for table in tables.values()]), self.adjust)
            for table, adjusted in zip(tables.values(), np.split(p, ends[:-1]), strict=True):
                table.insert(list(table).index("p_value") + 1, "p_adjusted", adjusted)
        return tables

    def average(
        self,
        weights: averages.Weights | averages.WeightsName | None = None,
        *,
        tasks: averages.TasksName = "fixed",
        models: list[str] | None = None,
    ) -> averages.EvalAverage:
        """Average of each model, or of each difference, over the evals, with its error; of models also all pairs.

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
            The models (or differences, such as "new - old") to average, where some evals lack others.

        Returns
        -------
        EvalAverage
            With `table`, `pairwise()`, `to_frame(alpha)` and `summary()`.

        Raises
        ------
        ArgumentError
            If there is one eval, one is there twice, one lacks a model, or weights do not fit or do not sum to 1.
        NotAvailableError
            If a model has neither a standard error nor an interval on some eval.

        Warns
        -----
        FewClustersWarning
            If there are fewer than five drawn tasks.

        References
        ----------
        Fixed: dof by Welch and Satterthwaite (1946); averages of means of scores in [0, 1] have the score interval of
        `mean` over strata, which the evals are. Drawn: mean and spread of the evals' scores with t(k - 1), at
        least the error of their questions; "precision" has tau^2 by Paule and Mandel (1982) and the interval of Knapp
        and Hartung (2003), not below that of known tau^2. An eval that shows no variance, as where a model solves all
        questions, counts with half the length of its 95% interval over t.
        """
        parts = _results_of(self.parts)
        _refuse_twice(parts)
        average = averages.average_over(parts, weights, tasks, models, self.differences)
        return replace(average, notes=(*self.notes, *average.notes))

    def plot(
        self,
        name: str | None = None,
        *,
        average: averages.EvalAverage | Literal[False] | None = None,
        alpha: float = 0.05,
        figsize: FigSize = None,
        ax: Axes | None = None,
    ) -> Axes:
        """A forest plot: a row for each eval, and their average at the foot; of differences with a line at zero.

        Needs matplotlib, the extra `evalreg[plot]`.

        Parameters
        ----------
        name : str, optional
            The model, or the difference such as "new - old"; may be left out where there is one.
        average : EvalAverage or False, optional
            What `average()` returned; by default that of equal weights and fixed tasks. False leaves it out.
        alpha : float, default 0.05
            Level of the intervals, which are those of `to_frame` and of the average.
        figsize : float or (float, float), optional
            Inches of a new figure: its width, such as 3.3 for a column of a paper, or width and height. By default what
            fits.
        ax : Axes, optional
            To draw into; a new figure by default.

        Returns
        -------
        Axes
            Row i is eval i, in the order of `parts`; names are whole.

        Raises
        ------
        ArgumentError
            If there is no such name, several and none was named, or the average is not of these evals.
        """
        fraction("alpha", alpha)
        frame, differences = self.to_frame(alpha), self.differences
        names = [" - ".join(map(str, key[1:])) for key in frame.index]
        known = list(dict.fromkeys(names))
        if name is None and len(known) == 1:
            name = known[0]
        if not isinstance(name, str) or name not in known:
            what, got = "difference" if differences else "model", "none" if name is None else repr(name)
            raise ArgumentError(f"`name` must be the {what} to draw, one of {listed(known)}; got {got}.")
        rows = frame[np.array(names) == name].rename(columns={"difference": "estimate"})
        table = rows[["estimate", "lower", "upper"]].set_axis(rows.index.get_level_values(0))
        parts = [self.parts[part] for part in table.index]
        joint = differences and any(part.adjust == "single-step" for part in parts)
        which = "that hold for all differences of an eval at once (single-step)" if joint else "of each eval by itself"
        note = f"Bars: {100 * (1 - alpha):.4g}% intervals {which}."
        if average is None and len(table) > 1:
            average = self.average(models=[name])
        foot = len(table) if average else None
        if average:
            table, said = _foot(average, name, table, alpha)
            note += said
        if bool(table["lower"].isna().any()):
            note += " Hollow: no standard error can be computed."
        outcomes = {part.estimate.about.outcome for part in _results_of(dict(enumerate(parts))).values()}
        what = outcomes.pop() if len(outcomes) == 1 else "score"
        label = "\n".join(in_lines(f"{name}: {'difference in ' if differences else ''}{what}", 60))
        ax = estimates_axes(table, zero=differences, xlabel=label, note=note, figsize=figsize, ax=ax)
        if figsize is None:
            _name_whole(ax, list(map(str, table.index)))
        if foot is not None:
            ax.axhline(foot - 0.5, color=INK, lw=0.8)
            ax.plot(
                table["estimate"].iloc[foot], foot, "D", color=INK, mec="white", mew=0.6, ms=7, zorder=5, gid="average"
            )
        return ax

    def summary(self, alpha: float = 0.05, *, averaged: bool = False) -> Summary:
        """One table for all evals; of scores in the form that was asked for.

        Parameters
        ----------
        alpha : float, default 0.05
            Level of the intervals, which the forms of scores do not show.
        averaged : bool, default False
            Whether the average over evals stands beside it, and need not be pointed to.

        Returns
        -------
        Summary
            Prints as text of 80 columns, in blocks of columns where they are wider.

        References
        ----------
        Miller (2024), arXiv:2411.00640: "scores" is table 2, "counts" table 3, "clustered" table 4, differences
        table 5.
        """
        if self.differences:
            return comparison_summary(self.parts, self._tables(alpha), alpha, self.adjust)
        fraction("alpha", alpha)
        table = self.to_frame(alpha)
        grid = _clustered_grid(table) if self.form == "clustered" else self._score_grid(table)
        return Summary("evalreg evals", (), (grid,), tuple(self._sentences(table, averaged)))

    def _score_grid(self, table: pd.DataFrame) -> Grid:
        """Models by evals; below them questions and clusters."""
        cells: dict[str, dict[str, str]] = {}
        for (name, model), row in zip(table.index, table.to_dict("records"), strict=True):
            cells.setdefault(model, {})[name] = f"{number(row['estimate'])} ({error_text(row['se'])})"
        rows = [(model, *(scores.get(name, "") for name in self.parts)) for model, scores in cells.items()]
        if self.form == "scores":
            return Grid(("model", *self.parts), tuple(rows), blocks=True)
        facts: list[tuple[str, ...]] = []
        for label, column in (("Questions or rows", "n"), ("Clusters", "n_clusters")):
            counts = table[column].groupby(level=0, sort=False)
            facts.append((label, *map(span, counts.min().astype(str), counts.max().astype(str))))
        facts.append(("Covariance", *(covariance_text(part.cov) for part in _results_of(self.parts).values())))
        return Grid(("model", *self.parts), (*rows, *facts), blocks=True, rule=len(rows))

    def _sentences(self, table: pd.DataFrame, averaged: bool) -> list[str]:
        pointer = "" if averaged else f": {passed('`average()`', average=True)} does that"
        sentences = [f"Standard errors in parentheses. Nothing in this table is pooled over evals{pointer}."]
        if self.form == "clustered":
            sentences = ["ratio = clustered SE / naive SE; naive takes rows to be independent."]
        models, parts = set(table.index.get_level_values(1)), _results_of(self.parts)
        for name, part in parts.items():
            absent = sorted(models - set(part.estimate.names))
            sentences += [f"{name}: {listed(absent)} was not run."] if absent else []
        sentences += by_part({name: [text for _, text in part.notes] for name, part in parts.items()})
        return sentences + [text for _, text in self.notes]

    def to_json(self, path: str | PathLike[str] | None = None, *, alpha: float | Sequence[float] = 0.05) -> str:
        """All comparisons and their table, as strict JSON; `read_results` reads it.

        Parameters
        ----------
        path : str or path, optional
            A file to write it to as well.
        alpha : float or list of float, default 0.05
            Levels of the intervals; the first is that of the table.

        Returns
        -------
        str
            Numbers to the last digit; a missing one is null, an infinity "inf" or "-inf".

        Raises
        ------
        ArgumentError
            If a level is not between 0 and 1, or the file cannot be written.
        NotAvailableError
            If these are scores, whose results have `to_json` each by itself.
        """
        if not self.differences:
            raise NotAvailableError("`to_json` is of differences on several evals; write each of `parts` of scores.")
        levels = checked_levels(alpha)
        tables = self._tables(levels[0])
        document = {
            "adjust": self.adjust,
            "kind": "comparisons",
            "parts": {name: part._document(levels, tables[name]) for name, part in self.parts.items()},
            "schema_version": SCHEMA_VERSION,
            "summary": asdict(self.summary(levels[0])),
            "versions": versions(),
        }
        return written(document, path)

    def __repr__(self) -> str:
        if self.differences:
            return f"<Evals: {', '.join(self.parts)}>\n{whole_columns(self.table)}"
        return self.summary().as_text()


def _results_of(parts: Mapping[Any, Any]) -> dict[Any, Results]:
    """The results of each eval, those behind a comparison too."""
    return {name: part.results if isinstance(part, Comparison) else part for name, part in parts.items()}


def _score_frame(part: Results, alpha: float) -> pd.DataFrame:
    """The scores of one eval."""
    frame = part.to_frame(alpha)[["estimate", "se", "lower", "upper", "naive_se", "dof"]]
    n = np.full(len(frame), part.nobs) if part._counts is None else part._counts.astype(np.intp)
    fewest = np.min([n, *clusters_behind(part.estimate, part.cov).values()], axis=0)
    frame.insert(5, "ratio", np.sqrt(design_effect(part.cov)))
    return frame.assign(n=n, n_clusters=fewest)


def _clustered_grid(table: pd.DataFrame) -> Grid:
    """Clustered beside naive standard errors and their ratio."""
    headers = ("eval: model", "score", "clustered SE", "naive SE", "ratio", "n", "clusters")
    rows = []
    for (name, model), row in zip(table.index, table.to_dict("records"), strict=True):
        errors = (number(row["se"]), number(row["naive_se"]), fixed(row["ratio"], 2))
        rows.append((f"{name}: {model}", number(row["estimate"]), *errors, str(row["n"]), str(row["n_clusters"])))
    return Grid(headers, tuple(rows))


def _refuse_twice(parts: Mapping[str, Results]) -> None:
    """Raise where one eval is there under two names: the same numbers in each of the same clusters.

    Small evals of 0/1 scores often have the same means by chance: without clusters that is warned of.
    """
    alike = []
    for (name, first), (other, second) in combinations(parts.items(), 2):
        alone = first.estimate.names != second.estimate.names or first.nobs != second.nobs
        if alone or not (_close(first.params, second.params) and _close(first.cov.naive, second.cov.naive)):
            continue
        # Scores that do not vary have no influence by which to tell a copy from another eval.
        if not (first.cov.axes and second.cov.axes and np.any(first.cov.naive)):
            alike.append(f"{name!r} and {other!r}")
            continue
        left, right = (part.influence(by=axis_name(part.cov.axes[0])).sort_index() for part in (first, second))
        if list(map(str, left.index)) == list(map(str, right.index)) and _close(left, right):
            raise ArgumentError(
                f"{name!r} and {other!r} hold the same numbers in the same clusters: one eval is there twice. Leave "
                "out one."
            )
    if alike:
        more = f"; so do {len(alike) - 1} further pairs" if len(alike) > 1 else ""
        text = (
            f"{alike[0]} have as many rows and the same scores{more}. They count as evals of their own: if one is a "
            "copy of the other, leave it out. With `groups` a copy is told from chance where scores vary."
        )
        issue([(IndependenceWarning, text)])


def _close(first: Any, second: Any) -> bool:
    return np.allclose(first, second, rtol=SAME, atol=SAME * float(np.max(np.abs(np.asarray(first)), initial=0.0)))


def said_once(parts: Mapping[Any, Any]) -> tuple[Note, ...]:
    """One note of each category: that of the first eval which has it, and how many others have such a one."""
    said: dict[type[EvalregWarning], dict[Any, str]] = {}
    for name, part in _results_of(parts).items():
        for category, text in part.notes:
            said.setdefault(category, {}).setdefault(name, f"{name}: {text}")
    notes = []
    for category, texts in said.items():
        n_others = len(texts) - 1
        more = f" ({n_others} more {'evals have' if n_others > 1 else 'eval has'} a warning of this kind.)"
        notes.append((category, next(iter(texts.values())) + more * (n_others > 0)))
    return tuple(notes)


def join_evals(
    evals: Mapping[str, Results] | Mapping[str, Comparison],
    *,
    form: FormName | None = None,
    adjust: averages.SuiteAdjustName | None = None,
) -> Evals:
    """Several evals in one table: scores of models, or differences between them; nothing is pooled.

    Parameters
    ----------
    evals : dict of str to Results or Comparison
        By the name of the eval: means by model, or what `compare` returns.
    form : {"counts", "scores", "clustered"}, optional
        Of scores: "counts", the default, prints models by evals with questions and clusters below; "scores" leaves
        these out; "clustered" puts clustered beside naive standard errors, with their ratio.
    adjust : {"fdr_bh", "fdr_by", "holm", "bonferroni"}, optional
        Of differences: how `p_adjusted` allows for all differences on all evals. By default each comparison keeps its
        own. "fdr_bh" (or "bh") and "fdr_by" bound the expected share of false discoveries, "fdr_by" under any
        dependence; the others bound the chance of a single one.

    Returns
    -------
    Evals
        With `table`, `summary()` and `average()`. The table of differences is indexed by (eval, model, baseline).

    Raises
    ------
    ArgumentTypeError, ArgumentError
        If it is not a dict of such results, is empty, mixes scores and differences, or an option does not fit.

    Warns
    -----
    UnlikeScalesWarning
        If the scores of the evals are not on one scale.

    References
    ----------
    Miller (2024), arXiv:2411.00640, tables 2 to 5. Benjamini and Hochberg (1995), JRSS B 57, 289-300; Benjamini and
    Yekutieli (2001), Annals of Statistics 29, 1165-1188.

    Examples
    --------
    >>> import evalreg as er
    >>> logs = {name: er.datasets.paired(n_passages=20, seed=i) for i, name in enumerate(["reading", "maths"])}
    >>> evals = er.join_evals({name: er.compare(log, item="question") for name, log in logs.items()})
    >>> evals.table["n"].to_dict()
    {('reading', 'new', 'old'): 100, ('maths', 'new', 'old'): 100}
    """
    parts = _checked(evals)
    if isinstance(next(iter(parts.values())), Comparison):
        if form is not None:
            raise ArgumentError(f"`form` is for scores; differences have one form. Got {form!r}; leave it out.")
        alone = [name for name, part in parts.items() if part.adjust] if adjust is not None else []
        if alone:
            raise ArgumentError(
                f"`adjust` is over all evals; {listed(alone)} is already adjusted. Compare without `adjust`."
            )
        return Evals(parts, adjust=adjustment("adjust", adjust, averages.SUITE_ADJUSTMENTS))
    if adjust is not None:
        raise ArgumentError("`adjust` is for differences, of which `compare` makes p-values; these are scores.")
    notes = tuple(_scale_notes(parts))
    issue(notes)
    return Evals(parts, "counts" if form is None else option("form", form, FormName), notes=notes)


def _checked(evals: Any) -> dict[str, Any]:
    """Evals by name, all scores or all differences."""
    if not isinstance(evals, Mapping):
        raise ArgumentTypeError('`evals` must be a dict by eval of what `mean` or `compare` return: {"MATH": ...}.')
    if not evals:
        raise ArgumentError("`evals` must hold at least one eval; got an empty dict.")
    parts = {str(name): part for name, part in evals.items()}
    if len(parts) < len(evals):
        raise ArgumentError(f"the names of evals must differ as text; got {listed(evals)}.")
    for name, part in parts.items():
        by_model = isinstance(part, Results) and part.estimate.about.n_models == part.estimate.n_params
        if not (by_model or isinstance(part, Comparison)):
            what = "results without models" if isinstance(part, Results) else type(part).__name__
            raise ArgumentTypeError(
                f'`evals` must hold what `compare` returns, or scores by model as er.mean(..., by="model") returns; '
                f"{name!r} is {what}."
            )
    if len({isinstance(part, Comparison) for part in parts.values()}) > 1:
        raise ArgumentError("`evals` must be all scores or all differences; got both. Join them in two calls.")
    return parts


def _scale_notes(parts: Mapping[str, Results]) -> list[Note]:
    """Whether the evals seem to be on scales of their own."""
    unit = [name for name, part in parts.items() if part.estimate.about.unit]
    other = [name for name in parts if name not in unit]
    if unit and other:
        text = f"Scores of {listed(unit)} lie in [0, 1], those of {listed(other)} do not"
    else:
        size = {name: float(np.max(np.abs(part.estimate.params))) for name, part in parts.items()}
        low, high = min(size, key=lambda name: size[name]), max(size, key=lambda name: size[name])
        if unit or size[high] < UNLIKE * size[low]:
            return []
        text = f"Scores of {high} reach {size[high]:.4g}, those of {low} {size[low]:.4g}"
    said = f"{text}: an average over unlike scales means little. Bring them to one scale first."
    return [(UnlikeScalesWarning, said)]


def by_eval(
    function: Callable[..., Any],
    data: Any,
    options: Mapping[str, Any],
    *,
    column: str = "eval",
    each: Mapping[str, Mapping[str, Any]] | None = None,
) -> Evals:
    """One result for each eval of a long frame, side by side.

    Parameters
    ----------
    function : callable
        What is done with each eval: `er.mean` (with `by`), `er.compare`, `er.pass_at_k` and the like.
    data : frame, Log or dict
        Rows of all evals, in memory; anything that narwhals reads. A dict has the rows of each eval by its name.
    options : dict
        Arguments of `function`, such as `{"by": "model", "item": "question"}`.
    column : str, optional
        The column that says which eval a row is of; "eval" by default.
    each : dict of str to dict, optional
        Options of single evals, such as `{"DROP": {"groups": "passage"}}`; they take the place of `options`.

    Returns
    -------
    Evals
        What `join_evals` makes of the results, in the order in which evals first appear.

    Raises
    ------
    MissingColumnError
        If there is no such column, or `each` names an eval that is not there.
    MissingLabelsError
        If a row does not say its eval.
    ArgumentTypeError
        If `options` is no dict, or rows are in an engine.

    Examples
    --------
    >>> import evalreg as er, pandas as pd
    >>> logs = {name: er.datasets.paired(n_passages=20, seed=i) for i, name in enumerate(["reading", "maths"])}
    >>> frame = pd.concat([log.assign(eval=name) for name, log in logs.items()])
    >>> evals = er.by_eval(
    ...     er.mean, frame, {"by": "model", "item": "question"}, each={"reading": {"groups": "passage"}}
    ... )
    >>> evals.table["n_clusters"].to_dict()
    {('reading', 'new'): 20, ('reading', 'old'): 20, ('maths', 'new'): 100, ('maths', 'old'): 100}
    """
    if not isinstance(options, Mapping):
        raise ArgumentTypeError(f'`options` must be a dict such as {{"by": "model", "item": "id"}}; got {options!r}.')
    parts = dict(data) if isinstance(data, Mapping) else _split(data, column)
    more = {str(name): dict(options_of_eval) for name, options_of_eval in (each or {}).items()}
    unknown = [name for name in more if name not in map(str, parts)]
    if unknown:
        raise MissingColumnError(f"`each` must name evals; {listed(unknown)} is none. The evals are {listed(parts)}.")
    with muted():
        results = {name: function(rows, **{**options, **more.get(str(name), {})}) for name, rows in parts.items()}
    issue(said_once(results))
    return join_evals(results)


def _split(data: Any, column: str) -> dict[Any, Any]:
    """The rows of each eval, without the column that names it; those of a log are logs."""
    log = log_of_data(data)
    frame = native_frame(data if log is None else log.frame)
    if isinstance(frame, nw.LazyFrame):
        raise ArgumentTypeError(
            "`data` must be rows in memory, for evals are taken one by one. Collect the query first."
        )
    known_column(column, frame.columns, "column")
    labels, missing = frame[column], int(frame[column].is_null().sum())
    if missing:
        raise MissingLabelsError(f"every row must say its eval; {missing} of column {column!r} do not.", column=column)
    names = labels.unique(maintain_order=True).to_list()
    parts = {name: frame.filter(labels == name).drop(column).to_native() for name in names}
    return parts if log is None else {name: log._with_rows(rows) for name, rows in parts.items()}


# Letters of a line of names of evals.
LINE = 40


def _foot(average: Any, name: str, table: pd.DataFrame, alpha: float) -> tuple[pd.DataFrame, str]:
    """The row of the average, which must be of this name over the evals that are drawn, and what it is."""
    fits = isinstance(average, averages.EvalAverage) and name in average.names
    if not fits or set(average.evals) != set(table.index):
        raise ArgumentError(
            f"`average` must be what `average()` returned, of {name!r} over these {len(table)} evals; False leaves it "
            "out."
        )
    row = average.to_frame(alpha).loc[[name], ["estimate", "lower", "upper"]].set_axis(["Average"])
    about = "about these evals only" if average.tasks == "fixed" else "about tasks of which these evals are a sample"
    return pd.concat([table, row]), f" Diamond: average (weights {average.weights_text}; {about})."


def _name_whole(ax: Axes, names: list[str]) -> None:
    """Names of evals in full: on two lines where rows are high enough, else on one."""
    few = len(names) <= 12
    whole = [" ".join(name.split()) for name in names]
    lines = ["\n".join(in_lines(name, max(LINE, -(-len(name) // 2) + 4))) if few else name for name in whole]
    size = ax.get_yticklabels()[0].get_fontsize()
    ax.set_yticks(np.arange(len(names)), lines, size=size, color=INK, parse_math=False, usetex=False, linespacing=1.0)

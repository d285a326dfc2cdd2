"""What is kept of results in JSON, all that can be said of them without the rows; and results read back from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, accessing, adjustment, fraction, keeps, muted
from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import axis_name
from evalreg.data.streams import is_stream, name_of, spooled
from evalreg.errors import ArgumentError, EvalregError, LogFormatError, NotAvailableError
from evalreg.inference.intervals import tested_against
from evalreg.inference.simultaneous import ADJUSTMENTS, AdjustName, Seed, adjust_pvalues
from evalreg.report.documents import SCHEMA_VERSION, as_json, numbers, read_summary, records, versions
from evalreg.report.summaries import short
from evalreg.report.tables import Printed, Summary, whole_columns

# `Results`, whose module imports this one.
AnyResults: TypeAlias = Any

# Of so many parameters the differences of all pairs are kept; there are n (n - 1)/2.
MOST_PAIRED = 64


def results_document(
    results: AnyResults,
    alphas: Sequence[float],
    printed: Any = None,
    table: pd.DataFrame | None = None,
    board: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """Everything that is kept.

    `printed` is what has the summary, `table` its rows (indexed as it indexes them), `board` the leaderboard.
    """
    cov, alpha = results.cov, alphas[0]
    with muted():
        summary, whole = ((printed or results).summary(alpha, details=details) for details in (False, True))
        frame = results.to_frame(alpha)
    more = {name: frame[name].array for name in ("naive_se", "t", "design_effect", "n_eff")}
    rows = (frame if table is None else table.reset_index().assign(**more)).reset_index(drop=True)
    rows.insert(0, "parameter", list(results.estimate.names))
    categories = {text: category.__name__ for category, text in results.notes}
    return {
        "covariance": _covariance(cov),
        "dropped": {str(reason): int(count) for reason, count in results.dropped.items()},
        "formula": results.estimate.about.formula,
        "intervals": _ends(results, alphas),
        "kind": "results" if board is None else "board",
        "model": results.estimate.about.model,
        "n_clusters": results.n_clusters,
        "nobs": results.nobs,
        "notes": [{"text": text, "warning": categories.get(text)} for text in whole.sentences],
        "options": resolved_options(cov),
        "pairs": None if table is not None else _pairs(results, alphas),
        "parameters": rows.to_dict("records"),
        "schema_version": SCHEMA_VERSION,
        "score": results.estimate.about.outcome,
        "seed": None if board is None else board.attrs["seed"],
        "summary": asdict(summary),
        "tested_against": tested_against(results.estimate),
        "versions": versions(),
    } | ({} if board is None else {"leaderboard": records(board, "model")})


def dropped_counts(counts: Mapping[str, int]) -> pd.Series:
    """Rows left out by reason, with those that none were left out for."""
    return pd.Series(dict.fromkeys(("score", "covariate", "group"), 0) | dict(counts), name="dropped", dtype="int64")


def resolved_options(cov: Covariance) -> dict[str, Any]:
    """Options of a covariance as they were resolved; None for what has no bearing on it."""
    return {
        "cov": cov.options.cov,
        "dof": cov.options.dof,
        "groups": " + ".join(map(axis_name, cov.axes)) or None,
        "repair": cov.options.repair if cov.crossed else None,
        "ssc": cov.options.ssc if cov.options.kind.takes_ssc else None,
    }


def _ends(results: AnyResults, alphas: Sequence[float]) -> list[dict[str, Any]]:
    """Intervals of all parameters at each level."""
    with muted():
        intervals = {alpha: results.conf_int(alpha) for alpha in alphas}
    return [{"alpha": alpha, "lower": list(ends[0]), "upper": list(ends[1])} for alpha, ends in intervals.items()]


def _covariance(cov: Covariance) -> dict[str, Any]:
    """The matrix, and the terms that it is made of."""
    terms = [
        {
            "clusters": term.name,
            "dof": term.dof(np.eye(len(cov.names))).tolist(),
            "matrix": term.matrix.tolist(),
            "n_clusters": term.n_clusters,
            "sign": term.sign,
        }
        for term in (cov.pieces if cov.crossed else ())
    ]
    return {"matrix": cov.matrix.tolist(), "naive": cov.naive.tolist(), "terms": terms}


def _pairs(results: AnyResults, alphas: Sequence[float]) -> list[dict[str, Any]] | None:
    """Differences of all pairs as `pairwise` has them at each level, column by column."""
    if not 2 <= len(results._compared[0]) <= MOST_PAIRED:
        return None
    with muted():
        try:
            tables = [results.pairwise(alpha=alpha) for alpha in alphas]
        except EvalregError:
            # Parameters that have no differences, such as ends of intervals that were inverted.
            return None
    columns = (table.reset_index().to_dict("list") for table in tables)
    return [{"alpha": alpha, **by_name} for alpha, by_name in zip(alphas, columns, strict=True)]


def board_of(results: AnyResults, alpha: float, seed: Seed) -> tuple[pd.DataFrame | None, str]:
    """The leaderboard of several models; where they have none, why not."""
    if results.estimate.about.n_models < 2:
        return None, ""
    with muted():
        try:
            return results.leaderboard(alpha, seed), ""
        except EvalregError as error:
            return None, str(error)


def checked_levels(alpha: float | Sequence[float]) -> tuple[float, ...]:
    """One level or several, each once."""
    levels = tuple(alpha) if isinstance(alpha, list | tuple | np.ndarray) else (alpha,)
    for level in levels:
        fraction("alpha", level)
    if not levels:
        raise ArgumentError("`alpha` must be a level such as 0.05, or a list of levels; got an empty list.")
    return tuple(dict.fromkeys(map(float, levels)))


def written(document: Mapping[str, Any], path: Any) -> str:
    """The document as text, in a file too where one is named."""
    text = as_json(document)
    if path is not None:
        with accessing("path", path):
            Path(path).write_text(text + "\n", encoding="utf-8", newline="\n")
    return text


# Read back

# Columns of tables that are text, and the order of columns, which JSON with sorted keys does not keep.
TEXT = ("parameter", "model", "baseline", "letters", "left", "right")
ORDER = (
    *("parameter", "model", "baseline", "rank", "rank_lower", "rank_upper", "estimate", "difference", "se"),
    *("lower", "upper", "joint_lower", "joint_upper", "letters", "tier", "p_value", "p_adjusted", "correlation", "n"),
    *("n_clusters", "dof", "variance_saved", "n_unpaired", "paired"),
)
# Further columns of `to_frame`, those of human labels last.
MORE = (
    *("n", "design_effect", "n_eff", "lambda", "n_labelled", "n_unlabelled"),
    *("human_mean", "human_se", "effective_labels"),
)
_ROWS = "Compute it from the log."


def read_matrix(rows: list[list[Any]], size: int) -> FloatArray:
    """A square matrix, with a row for each of `size` parameters."""
    matrix = np.array([numbers(row) for row in rows], dtype=np.float64)
    if matrix.shape != (size, size):
        raise LogFormatError("the covariance must have a row and a column for each parameter.")
    return matrix


def read_column(name: str, values: list[Any]) -> Any:
    """A column of a table: text, whole numbers or booleans as they are, other numbers maybe missing or infinite."""
    if name in TEXT:
        return [str(value) for value in values]
    return values if {type(value) for value in values} in ({int}, {bool}) else numbers(values)


def read_table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A table from its rows."""
    columns = dict.fromkeys(name for row in rows for name in row)
    names = [*(name for name in ORDER if name in columns), *(name for name in columns if name not in ORDER)]
    return pd.DataFrame({name: read_column(name, [row[name] for row in rows]) for name in names})


def _statistic(name: str, doc: str) -> property:
    """A property that has a column of the table of parameters."""

    def statistic(results: StoredResults) -> pd.Series:
        return results._statistics[name].rename(None)

    return property(statistic, doc=doc)


def _entry(name: str, doc: str, read: Callable[[Any], Any]) -> property:
    """A property that has an entry of the document, read."""

    def entry(results: StoredResults) -> Any:
        return read(results._held[name])

    return property(entry, doc=doc)


def _texts(notes: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(note["text"] for note in notes)


@keeps("document")
@dataclass(frozen=True, eq=False)
class StoredResults(Printed):
    """Results that were written as JSON, without the rows of their log; made by `read_results`, immutable.

    What needs the rows, such as another clustering or a bootstrap, is not there; `document` has all that is.

    Parameters
    ----------
    document : dict
        What the file contains.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> text = er.fit("score ~ 1", log, groups="passage").to_json()
    >>> er.read_results(text).n_clusters
    {'passage': 40}
    """

    document: Mapping[str, Any]

    @property
    def _held(self) -> Mapping[str, Any]:
        """The document itself, of which `document` is a copy."""
        return vars(self)["document"]  # type: ignore[no-any-return]

    kind = _entry("kind", 'What it is: "results", "board" (several models) or "comparison".', str)
    params = _statistic("estimate", "Estimates, by parameter.")
    bse = _statistic("se", "Standard errors.")
    dof = _statistic("dof", "Degrees of freedom of t; inf where the normal is the reference.")
    tvalues = _statistic("t", "t of the tests of `pvalues`, as they were when the results were written.")
    pvalues = _statistic("p_value", "Two-sided p-values, as they were when the results were written.")

    nobs = _entry("nobs", "Rows that were in use.", int)
    n_clusters = _entry("n_clusters", "Clusters by dimension.", dict)
    dropped = _entry("dropped", "Rows left out by reason.", dropped_counts)
    options = _entry("options", "Options as they were resolved.", dict)
    notes = _entry("notes", "Sentences below the summary, warnings among them.", _texts)

    @property
    def adjust(self) -> str | None:
        """How the p-values of a comparison allow for the number of pairs; None where they do not."""
        return self._held.get("adjust")

    @property
    def alphas(self) -> tuple[float, ...]:
        """Levels whose intervals are stored; the first is that of the summary and of the tables."""
        return tuple(self._ends)

    @property
    def table(self) -> pd.DataFrame:
        """Of a comparison the differences, indexed by (model, baseline), as `Comparison.to_frame` has them."""
        rows = read_table(self._held["parameters"])
        if self.kind != "comparison":
            raise NotAvailableError(
                "`table` is that of a comparison, and these are results of another kind. Use `to_frame`."
            )
        more = [name for name in ("parameter", "naive_se", "t", "design_effect", "n_eff") if name in rows]
        return rows.drop(columns=more).set_index(["model", "baseline"])

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the parameters, both axes named.

        Returns
        -------
        DataFrame
            Its diagonal is the square of `bse`.
        """
        names = self._statistics.index
        return pd.DataFrame(read_matrix(self._held["covariance"]["matrix"], len(names)), index=names, columns=names)

    def conf_int(self, alpha: float | None = None) -> pd.DataFrame:
        """Confidence intervals, as they were computed from the rows.

        Parameters
        ----------
        alpha : float, optional
            A level that is stored; the first of them by default.

        Returns
        -------
        DataFrame
            Columns 0 and 1, one row a parameter.

        Raises
        ------
        NotAvailableError
            If the level is not stored.
        """
        return pd.DataFrame(self._ends[self._level(alpha)].copy(), index=self._statistics.index, columns=[0, 1])

    def to_frame(self, alpha: float | None = None) -> pd.DataFrame:
        """Estimates, standard errors, tests and intervals, one row a parameter, each by itself.

        The intervals and p-values of a comparison that allow for the number of pairs are in `table`.

        Parameters
        ----------
        alpha : float, optional
            A level that is stored; the first of them by default.

        Returns
        -------
        DataFrame
            Columns as in `Results.to_frame`.
        """
        ends = self._ends[self._level(alpha)]
        table = self._statistics[["estimate", "se", "naive_se", "t", "dof", "p_value"]]
        more = [name for name in MORE if name in self._statistics]
        return table.assign(lower=ends[:, 0], upper=ends[:, 1]).join(self._statistics[more])

    def pairwise(self, adjust: AdjustName | None = None, alpha: float | None = None) -> pd.DataFrame:
        """Differences between all pairs of parameters.

        Parameters
        ----------
        adjust : {"holm", "fdr_bh", "bonferroni"}, optional
            How `p_adjusted` allows for the number of pairs; not at all by default. What is drawn needs the rows.
        alpha : float, optional
            A level that is stored; the first of them by default.

        Returns
        -------
        DataFrame
            Indexed by (left, right), columns difference, se, lower, upper, p_value, and p_adjusted where `adjust` is
            given, as `Results.pairwise` had them.

        Raises
        ------
        NotAvailableError
            If differences are not stored (of one parameter, or of very many), or not at this level.
        """
        level = self._level(alpha)
        if self._held.get("pairs") is None:
            raise NotAvailableError(f"differences of pairs are not stored: of one parameter, or of very many. {_ROWS}")
        table = self._pairs[level].copy()
        if adjust is not None:
            adjust = adjustment("adjust", adjust, ADJUSTMENTS)
            table["p_adjusted"] = adjust_pvalues(table["p_value"].to_numpy(), adjust)
        return table

    def leaderboard(self) -> pd.DataFrame:
        """Models from the best down, as they stood at the first level.

        Returns
        -------
        DataFrame
            As `Results.leaderboard`.

        Raises
        ------
        NotAvailableError
            If none is stored.
        """
        if self._held.get("leaderboard") is None:
            raise NotAvailableError(
                "no leaderboard is stored: these are not results of several models, or they were written without "
                "their ranks. `results.to_json()` writes them; `evalreg mean` does with --ranks."
            )
        return read_table(self._held["leaderboard"]).set_index("model").rename_axis(None)

    def summary(self, alpha: float | None = None) -> Summary:
        """The summary that the results had.

        Parameters
        ----------
        alpha : float, optional
            The first of the levels that are stored, the only one that has a summary.

        Returns
        -------
        Summary
            Prints as text of 80 columns.

        Raises
        ------
        NotAvailableError
            If the level is another one.
        """
        level = self._level(alpha)
        if level != self.alphas[0]:
            raise NotAvailableError(f"the summary is stored at alpha={self.alphas[0]:g}; use `to_frame({level:g})`.")
        return read_summary(self._held["summary"])

    def __repr__(self) -> str:
        return short(self.summary()).as_text()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say of what these results cannot do that it may need the rows."""
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}: a JSON file holds tables and a covariance, "
                f"and not the rows. {_ROWS}"
            )

    @cached_property
    def _statistics(self) -> pd.DataFrame:
        """By parameter: estimate, se, naive_se, t, dof, p_value."""
        table = read_table(self._held["parameters"]).rename(columns={"difference": "estimate"})
        return table.set_index("parameter").rename_axis(None)

    @cached_property
    def _ends(self) -> dict[float, FloatArray]:
        """Intervals by their level, each of shape (n_params, 2)."""
        ends = {
            float(row["alpha"]): np.column_stack([numbers(row["lower"]), numbers(row["upper"])])
            for row in self._held["intervals"]
        }
        if not ends or any(limits.shape != (len(self._statistics), 2) for limits in ends.values()):
            raise LogFormatError("`intervals` must have levels with an interval for each parameter.")
        return ends

    @cached_property
    def _pairs(self) -> dict[float, pd.DataFrame]:
        """Differences of all pairs of parameters, each once and in their order, by level."""
        tables = {}
        for entry in self._held["pairs"]:
            names = ("left", "right", "difference", "se", "lower", "upper", "p_value")
            columns = pd.DataFrame({name: read_column(name, entry[name]) for name in names})
            tables[float(entry["alpha"])] = columns.set_index(["left", "right"])
        return tables

    def _level(self, alpha: float | None) -> float:
        if alpha is None:
            return self.alphas[0]
        fraction("alpha", alpha)
        for level in self.alphas:
            if np.isclose(level, alpha, rtol=1e-12, atol=0.0):
                return level
        known = ", ".join(f"{level:g}" for level in self.alphas)
        raise NotAvailableError(
            f"intervals are stored at alpha={known}, not at {alpha:g}. {_ROWS} `to_json(alpha=[0.05, {alpha:g}])` "
            "stores both."
        )


@keeps("parts", "document")
@dataclass(frozen=True, eq=False)
class StoredComparisons(Printed):
    """Comparisons on several evals that were written as JSON; made by `read_results`, immutable.

    Parameters
    ----------
    parts : dict of str to StoredResults
        By eval.
    document : dict
        What the file contains.

    Examples
    --------
    >>> import evalreg as er
    >>> comparison = er.compare(er.datasets.paired(n_passages=20, seed=1), item="question")
    >>> list(er.read_results(er.join_evals({"reading": comparison}).to_json()).parts)
    ['reading']
    """

    parts: Mapping[str, StoredResults]
    document: Mapping[str, Any]

    @property
    def table(self) -> pd.DataFrame:
        """The tables of all, indexed by (eval, model, baseline)."""
        return pd.concat({name: part.table for name, part in self.parts.items()}, names=["eval"])

    def summary(self, alpha: float | None = None) -> Summary:
        """The table for all evals, as it was.

        Parameters
        ----------
        alpha : float, optional
            The level that is stored.

        Returns
        -------
        Summary
            Prints as text of 80 columns.
        """
        next(iter(self.parts.values())).summary(alpha)  # refuses another level
        return read_summary(self.document["summary"])

    def __repr__(self) -> str:
        return f"<StoredComparisons: {', '.join(self.parts)}>\n{whole_columns(self.table)}"


def read_results(path_or_text: str | PathLike[str]) -> StoredResults | StoredComparisons:
    """Results that `to_json` or a command with `--format json` wrote.

    Parameters
    ----------
    path_or_text : str or path
        A file, or the JSON itself (a text that begins with a brace).

    Returns
    -------
    StoredResults or StoredComparisons
        The numbers to the last digit; the second of what `join_evals` made.

    Raises
    ------
    LogFormatError
        If it is not JSON, is not results of evalreg, was cut off, or has a newer schema.
    ArgumentError
        If the file cannot be read.

    See Also
    --------
    Results.to_json : Writes them.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=20, seed=1)
    >>> results = er.mean(log, by="model", item="question", groups="passage")
    >>> stored = er.read_results(results.to_json())
    >>> bool(stored.pairwise().loc[("new", "old"), "se"] == results.contrast("new - old").bse.iloc[0])
    True
    """
    text, name = _text_of(path_or_text)
    try:
        document = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise LogFormatError(f"results are strict JSON; {name} is not: {error}. It may be cut off.") from None
    try:
        return _read(document, name)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, LogFormatError):
            raise
        what = f"lacks {error}" if isinstance(error, KeyError) else f"holds something else: {error}"
        raise LogFormatError(f"{name} does not hold results of evalreg that can be read back: it {what}.") from None


def _text_of(source: Any) -> tuple[str, str]:
    """The JSON, and what to call it in messages."""
    if isinstance(source, str) and source.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return source.lstrip("\ufeff"), "the text"
    if not isinstance(source, str | PathLike):
        raise ArgumentError(f"`path_or_text` must be a file or JSON; got {type(source).__name__}.")
    with accessing("path_or_text", source, "a file that can be read"):
        path = spooled(source) if is_stream(source) else Path(source)
        return path.read_text(encoding="utf-8-sig"), f'"{name_of(source)}"'


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _read(document: Any, name: str) -> StoredResults | StoredComparisons:
    document = document if isinstance(document, dict) else {}
    kind, known = document.get("kind"), {"schema_version", "versions"} <= document.keys()
    schema = document["schema_version"] if known else SCHEMA_VERSION
    if isinstance(schema, int) and schema > SCHEMA_VERSION:
        raise LogFormatError(
            f"{name} has schema_version {schema}; this evalreg reads up to {SCHEMA_VERSION}. It was written by evalreg "
            f"{document['versions'].get('evalreg', 'of a later release')}: install that or a later one."
        )
    if not known or kind not in ("results", "board", "comparison", "comparisons"):
        raise LogFormatError(
            f"{name} is not results that evalreg wrote: `kind` is {kind!r}. They are written by `to_json()` of "
            "results, boards and comparisons, and by evalreg mean, fit, compare and leaderboard with --format json. "
            "A log is read by `read_log`."
        )
    if kind == "comparisons":
        parts = {eval_name: _read(part, f"{name}, {eval_name!r}") for eval_name, part in document["parts"].items()}
        read_summary(document["summary"])
        return StoredComparisons(
            {key: part for key, part in parts.items() if isinstance(part, StoredResults)}, document
        )
    return _checked_results(document)


def _checked_results(document: dict[str, Any]) -> StoredResults:
    """Results of which all was looked at that may be read later, so that a damaged file is refused here."""
    results = StoredResults(document)
    read_matrix(document["covariance"]["naive"], len(results.params))
    _ = document["model"], document["score"], document["formula"]
    _ = repr(results), results.cov_params(), results.n_clusters, results.dropped, results.notes, results.options
    _ = document.get("pairs") is None or results.pairwise()
    _ = results.kind != "comparison" or results.table
    _ = (document.get("leaderboard") is None and results.kind != "board") or results.leaderboard()
    return results

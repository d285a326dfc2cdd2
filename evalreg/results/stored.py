"""Results read back from JSON: what was said of them, without the rows that would let them say more."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, fraction, keeps, listed
from evalreg.errors import ArgumentError, LogFormatError, NotAvailableError
from evalreg.estimate import selects
from evalreg.inference.wald import Contrasts, parse_contrasts
from evalreg.numerics.limits import LAST_DIGITS
from evalreg.numerics.student import t_pvalues, t_quantile
from evalreg.report.answer import short
from evalreg.report.documents import SCHEMA_VERSION, numbers, read_summary
from evalreg.report.shown import whole
from evalreg.report.summaries import coefficient_grid
from evalreg.report.tables import Printed, Summary, whole_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

# Columns of tables that are no numbers, and those that are whole ones.
TEXT = ("parameter", "model", "baseline", "letters")
WHOLE = ("n", "n_clusters", "n_unpaired", "rank", "rank_lower", "rank_upper", "tier")
# The order of columns, which JSON with sorted keys does not keep.
ORDER = (
    *("parameter", "model", "baseline", "rank", "rank_lower", "rank_upper", "estimate", "difference", "se"),
    *("lower", "upper", "joint_lower", "joint_upper", "letters", "tier", "p_value", "p_adjusted", "correlation", "n"),
    *("n_clusters", "dof", "variance_saved", "n_unpaired", "paired"),
)
STATISTICS = ("estimate", "se", "naive_se", "t", "dof", "p_value")


@dataclass(frozen=True, eq=False)
class PairTable:
    """Differences of pairs of parameters, by place."""

    places: np.ndarray[Any, np.dtype[np.intp]]
    frame: pd.DataFrame
    ends: dict[float, FloatArray]


def read_ends(entries: list[dict[str, Any]], size: int) -> dict[float, FloatArray]:
    """Intervals by their level, each of shape (size, 2)."""
    ends = {float(one["alpha"]): np.column_stack([numbers(one["lower"]), numbers(one["upper"])]) for one in entries}
    if not ends or any(one.shape != (size, 2) for one in ends.values()):
        raise LogFormatError(f"`intervals` must have levels with an interval for each of the {size} parameters.")
    return ends


def pairs_from(found: dict[str, Any], size: int) -> PairTable:
    """Differences of pairs, as they were written."""
    places = np.column_stack([np.array(found[side], dtype=np.intp) for side in ("left", "right")])
    if places.tolist() != [list(pair) for pair in combinations(range(size), 2)]:
        raise LogFormatError(f"`pairs` must hold each pair of the {size} parameters once, in their order.")
    frame = pd.DataFrame({name: numbers(found[name]) for name in STATISTICS})
    return PairTable(places, frame, read_ends(found["intervals"], len(frame)))


def read_matrix(rows: list[list[Any]], name: str, size: int | None = None) -> FloatArray:
    """A square matrix, with a row for each of `size` parameters."""
    matrix = np.array([numbers(row) for row in rows], dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or size not in (None, matrix.shape[0]):
        raise LogFormatError(f"`{name}` of the covariance must have a row and a column for each parameter.")
    return matrix


def table_from(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A table from its rows, with numbers where they were."""
    found_names = dict.fromkeys(name for row in rows for name in row)
    names = [*(name for name in ORDER if name in found_names), *(name for name in found_names if name not in ORDER)]
    columns: dict[str, Any] = {}
    for name in names:
        values = [row[name] for row in rows]
        if name in TEXT:
            columns[name] = [str(value) for value in values]
        elif name == "paired":
            columns[name] = pd.Series(values, dtype=bool)
        else:
            found = numbers(values)
            whole = name in WHOLE and bool(np.isfinite(found).all())
            columns[name] = found.astype(np.intp) if whole else found
    return pd.DataFrame(columns)


@keeps("document")
@dataclass(frozen=True, eq=False)
class StoredResults(Printed):
    """Results that were written as JSON, without the rows of their log; made by `read_results`, immutable.

    What needs the rows, such as another clustering or a bootstrap, raises `NotAvailableError`.

    Parameters
    ----------
    document : dict
        What the file holds.

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

    @property
    def kind(self) -> str:
        """What it is: "results", "board" (several models) or "comparison"."""
        return str(self._held["kind"])

    @property
    def params(self) -> pd.Series:
        """Estimates, by parameter."""
        return self._column("estimate")

    @property
    def bse(self) -> pd.Series:
        """Standard errors."""
        return self._column("se")

    @property
    def dof(self) -> pd.Series:
        """Degrees of freedom of t; inf where the normal is the reference."""
        return self._column("dof")

    @property
    def tvalues(self) -> pd.Series:
        """t of the tests of `pvalues`, as they were when the results were written."""
        return self._column("t")

    @property
    def pvalues(self) -> pd.Series:
        """Two-sided p-values, as they were when the results were written."""
        return self._column("p_value")

    @property
    def nobs(self) -> int:
        """Rows that were in use."""
        return int(self._held["nobs"])

    @property
    def n_clusters(self) -> dict[str, int]:
        """Clusters by dimension."""
        return dict(self._held["n_clusters"])

    @property
    def dropped(self) -> pd.Series:
        """Rows left out by reason."""
        counts = dict.fromkeys(("score", "covariate", "group"), 0) | dict(self._held["dropped"])
        return pd.Series(counts, name="dropped", dtype="int64")

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences below the summary, warnings among them."""
        return tuple(note["text"] for note in self._held["notes"])

    @property
    def options(self) -> dict[str, Any]:
        """Options as they were resolved."""
        return dict(self.document["options"])

    @property
    def versions(self) -> dict[str, str]:
        """Versions of the packages that the results were made with."""
        return dict(self._held["versions"])

    @property
    def seed(self) -> Any:
        """Seed of the simulations; None where there was none."""
        return self._held["seed"]

    @property
    def alphas(self) -> tuple[float, ...]:
        """Levels whose intervals are stored; the first is that of the summary and of the tables."""
        return tuple(self._ends)

    @property
    def adjust(self) -> str | None:
        """How the p-values of a comparison allow for the number of pairs; None where they do not."""
        return self._held.get("adjust")

    @property
    def results(self) -> StoredResults:
        """These results, which a comparison holds under this name."""
        return self

    @property
    def table(self) -> pd.DataFrame:
        """Of a comparison the differences, indexed by (model, baseline), as `Comparison.to_frame` has them."""
        rows = table_from(self._held["parameters"])
        if self.kind != "comparison":
            raise NotAvailableError(f"`table` is that of a comparison; this is {_article(self.kind)}. Use `to_frame`.")
        more = [name for name in ("parameter", "naive_se", "t", "design_effect", "n_eff") if name in rows]
        return rows.drop(columns=more).set_index(["model", "baseline"])

    def cov_params(self) -> pd.DataFrame:
        """Covariance of the parameters, both axes named.

        Returns
        -------
        DataFrame
            Its diagonal is the square of `bse`.
        """
        return pd.DataFrame(self._matrix, index=self._statistics.index, columns=self._statistics.index)

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
        table = self._statistics[list(STATISTICS)].assign(lower=ends[:, 0], upper=ends[:, 1])
        more = [name for name in ("n", "design_effect", "n_eff") if name in self._statistics]
        return table.join(self._statistics[more])

    def contrast(self, contrast: str | dict[str, float] | Any) -> StoredResults:
        """Linear combinations of the parameters, where the file knows their error bars.

        Single parameters and differences of two of them are stored. Others are c'Vc with the degrees of freedom that
        all contrasts share, where they do: one clustering under `dof="min"` or a number.

        Parameters
        ----------
        contrast : str, dict or array_like
            "A - B", {"A": 1, "B": -1}, or an array with one column a parameter.

        Returns
        -------
        StoredResults
            Of the combinations.

        Raises
        ------
        NotAvailableError
            If a combination has degrees of freedom of its own, which only the rows tell.
        """
        asked = parse_contrasts(contrast, tuple(self._statistics.index))
        if np.any(asked.value != 0):
            raise ArgumentError(f"a contrast is a combination of parameters; {contrast!r} compares it with a number.")
        if any(name in asked.names[:i] for i, name in enumerate(asked.names)):
            raise ArgumentError(f"combinations need distinct names; got {listed(asked.names)}.")
        found: StoredResults = combined_stored(self, asked)
        return found

    def pairwise(self, alpha: float | None = None) -> pd.DataFrame:
        """Differences between all pairs of parameters, one by one.

        Parameters
        ----------
        alpha : float, optional
            A level that is stored; the first of them by default.

        Returns
        -------
        DataFrame
            Indexed by (left, right), columns difference, se, dof, lower, upper and p_value, not adjusted for their
            number. Each is the difference that `contrast` has; on sparse boards `Results.pairwise` may be wider.
        """
        level, pairs = self._level(alpha), self._pairs
        if pairs is None:
            raise NotAvailableError("differences of pairs are not stored: of one parameter, or of very many. " + _ROWS)
        index = [self._statistics.index[pairs.places[:, side]] for side in (0, 1)]
        table = pairs.frame[["estimate", "se", "dof"]].rename(columns={"estimate": "difference"})
        table = table.assign(
            lower=pairs.ends[level][:, 0], upper=pairs.ends[level][:, 1], p_value=pairs.frame["p_value"]
        )
        return whole(table.set_axis(pd.MultiIndex.from_arrays(index, names=["left", "right"])))

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
        return whole(table_from(self._held["leaderboard"]).set_index("model").rename_axis(None))

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
        if self._held.get("summary") is None:
            return short_summary(self, level)
        if level != self.alphas[0]:
            raise NotAvailableError(f"the summary is stored at alpha={self.alphas[0]:g}; use `to_frame({level:g})`.")
        return read_summary(self._held["summary"])

    def __repr__(self) -> str:
        return short(self.summary()).as_text()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Say of what results can do, and these cannot, that it needs the rows."""
            if not name.startswith("_") and name in _offered():
                raise NotAvailableError(f"`{name}` needs the rows of the log, which a JSON file does not hold. {_ROWS}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @cached_property
    def _statistics(self) -> pd.DataFrame:
        """By parameter: estimate, se, naive_se, t, dof, p_value."""
        table = table_from(self._held["parameters"]).rename(columns={"difference": "estimate"})
        return table.set_index("parameter").rename_axis(None)

    @cached_property
    def _ends(self) -> dict[float, FloatArray]:
        """Intervals by their level."""
        return read_ends(self._held["intervals"], len(self._statistics))

    @cached_property
    def _matrix(self) -> FloatArray:
        """Covariance of the parameters."""
        return read_matrix(self._held["covariance"]["matrix"], "matrix", len(self._statistics))

    @cached_property
    def _pairs(self) -> PairTable | None:
        found = self._held.get("pairs")
        return None if found is None else pairs_from(found, len(self._statistics))

    def _column(self, name: str) -> pd.Series:
        return self._statistics[name].rename(None)

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


_ROWS = "Compute it from the log."
# What boards and comparisons offer beside results.
_OF_OTHERS: tuple[str, ...] = (
    "cycles",
    "equivalence",
    "facts",
    "head_to_head",
    "joint_test",
    "judges",
    "mcnemar",
    "net_benefit",
    "odds",
    "pairs",
    "sign_test",
    "sparsity",
)


def _offered() -> set[str]:
    """What results, boards and comparisons offer."""
    from evalreg.results.results import Results

    return {*_OF_OTHERS, *(name for name in dir(Results) if not name.startswith("_"))}


def _article(kind: str) -> str:
    return kind if kind == "results" else f"a {kind}"


# `StoredResults`, whose module imports this one.
AnyStored: TypeAlias = Any


def combined_stored(results: AnyStored, asked: Contrasts) -> AnyStored:
    """Contrasts with the error bars that are stored, or that follow from what is."""
    rows = [_one(results, c) for c in asked.matrix]
    frame = pd.DataFrame([row for row, _ in rows], columns=list(STATISTICS))
    frame.insert(0, "parameter", list(asked.names))
    intervals = []
    for level in results.alphas:
        ends = np.array([one[level] for _, one in rows])
        intervals.append({"alpha": level, "lower": ends[:, 0].tolist(), "upper": ends[:, 1].tolist()})
    C, own = asked.matrix, results._held["covariance"]
    matrix, lost = C @ np.nan_to_num(results._matrix) @ C.T, (C != 0) @ np.isnan(np.diag(results._matrix))
    matrix[lost, :] = matrix[:, lost] = np.nan
    np.fill_diagonal(matrix, frame["se"].to_numpy() ** 2)
    naive = C @ read_matrix(own["naive"], "naive") @ C.T
    model = str(results._held["model"])
    more = {
        "covariance": {**own, "matrix": matrix.tolist(), "naive": naive.tolist(), "terms": []},
        "intervals": intervals,
        "kind": "results",
        "leaderboard": None,
        "model": model if model.startswith("Contrast of ") else f"Contrast of {model}",
        "notes": [],
        "pairs": None,
        "parameters": frame.to_dict("records"),
        "summary": None,
        "tested_against": results._held.get("tested_against", 0) if selects(C) else 0,
    }
    return replace(results, document={**results._held, **more})


def _one(results: AnyStored, c: FloatArray) -> tuple[list[float], dict[float, FloatArray]]:
    """Statistics and limits of one contrast."""
    where, values = np.flatnonzero(c), c[np.flatnonzero(c)]
    if where.size == 1 and values[0] == 1:
        row = results._statistics[list(STATISTICS)].iloc[where[0]]
        return row.tolist(), {level: ends[where[0]] for level, ends in results._ends.items()}
    if where.size == 2 and set(values) == {1.0, -1.0} and results._pairs is not None:
        return _pair(results._pairs, where, float(values[0]))
    dof = results._held["covariance"]["contrast_dof"]
    if dof is None:
        raise NotAvailableError(
            "the degrees of freedom of this combination are not stored: they are its own, and come from the rows. "
            "Single parameters and differences of two are stored. Write it with what you need: "
            'results.contrast("...").to_json(); `cov_params()` has the covariance.'
        )
    return _by_matrix(results, c, float(numbers([dof])[0]))


def _pair(pairs: PairTable, where: Any, first: float) -> tuple[list[float], dict[float, FloatArray]]:
    """A difference that is stored, turned around where it is asked the other way."""
    at = int(np.flatnonzero((pairs.places == where).all(axis=1))[0])
    row = pairs.frame[list(STATISTICS)].iloc[at].copy()
    ends = {level: one[at] for level, one in pairs.ends.items()}
    if first < 0:
        row[["estimate", "t"]] = -row[["estimate", "t"]]
        ends = {level: -one[::-1] for level, one in ends.items()}
    return row.tolist(), ends


def _by_matrix(results: AnyStored, c: FloatArray, dof: float) -> tuple[list[float], dict[float, FloatArray]]:
    """A contrast by c'Vc, with the degrees of freedom that all contrasts share."""
    where = np.flatnonzero(c)
    part, naive = c[where], read_matrix(results._held["covariance"]["naive"], "naive")[np.ix_(where, where)]
    theta = float(part @ results._statistics["estimate"].to_numpy()[where])
    variance, scale = float(part @ results._matrix[np.ix_(where, where)] @ part), part**2 @ np.diag(naive)
    se = np.sqrt(variance) if variance > LAST_DIGITS * scale else np.nan
    p = float(t_pvalues(np.array([theta / se]), np.array([dof]))[0])
    half = {level: float(t_quantile(level, np.array([dof]))[0]) * se for level in results.alphas}
    ends = {level: np.array([theta - width, theta + width]) for level, width in half.items()}
    return [theta, float(se), float(np.sqrt(part @ naive @ part)), theta / se, dof, p], ends


def short_summary(results: AnyStored, alpha: float) -> Summary:
    """A table of estimates, for combinations that were made after reading."""
    table = results.to_frame(alpha)
    tests = results._held.get("tested_against", 0) is not None
    grid = coefficient_grid(table.drop(columns="n", errors="ignore"), range(len(table)), alpha, tests)
    facts = (
        ("Score", str(results._held["score"])),
        ("Rows", str(results.nobs)),
        ("Model", str(results._held["model"])),
        ("Covariance", str(results.options["cov"])),
    )
    sentence = "Made from results that were read back from JSON, which hold the error bars but not the rows."
    return Summary("evalreg results", facts, (grid,), (sentence,))


@keeps("parts", "document")
@dataclass(frozen=True, eq=False)
class StoredComparisons(Printed):
    """Comparisons on several evals that were written as JSON; made by `read_results`, immutable.

    Parameters
    ----------
    parts : dict of str to StoredResults
        By eval.
    document : dict
        What the file holds.

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
        level = next(iter(self.parts.values()))._level(alpha)
        if level != next(iter(self.parts.values())).alphas[0]:
            raise NotAvailableError(f"no summary is stored at alpha={level:g}.")
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
    >>> bool(stored.contrast("new - old").bse.iloc[0] == results.contrast("new - old").bse.iloc[0])
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


def _text_of(given: Any) -> tuple[str, str]:
    """The JSON, and what to call it in messages."""
    if isinstance(given, str) and given.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        return given.lstrip("\ufeff"), "the text"
    if not isinstance(given, str | PathLike):
        raise ArgumentError(f"`path_or_text` must be a file or JSON; got {type(given).__name__}.")
    try:
        return Path(given).read_text(encoding="utf-8-sig"), f'"{given}"'
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(f'`path_or_text` must be a file that can be read; "{given}" is not: {reason}.') from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


def _read(document: Any, name: str) -> StoredResults | StoredComparisons:
    kind = document.get("kind") if isinstance(document, dict) else None
    known = isinstance(document, dict) and "schema_version" in document and "versions" in document
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
    return _read_one(document)


def _read_one(document: dict[str, Any]) -> StoredResults:
    found = StoredResults(document)
    read_matrix(document["covariance"]["naive"], "naive", len(found.params))
    # Whatever is read later is looked at now, so that a damaged file is refused here.
    _ = (
        repr(found),
        found.cov_params(),
        found.n_clusters,
        found.dropped,
        found.notes,
        found.options,
        found.versions,
        found.summary(),
    )
    _ = document["model"], document["score"]
    _ = found.seed, document["covariance"]["contrast_dof"], None if found._pairs is None else found.pairwise()
    _ = found.table if found.kind == "comparison" else None
    _ = found.leaderboard() if document.get("leaderboard") is not None or found.kind == "board" else None
    return found

"""Reading results back from JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd

from evalreg.checks import keeps
from evalreg.errors import ArgumentError, LogFormatError, NotAvailableError
from evalreg.report.documents import SCHEMA_VERSION, read_summary
from evalreg.report.tables import Printed, Summary, whole_columns
from evalreg.results.stored import StoredResults
from evalreg.results.stored_tables import read_matrix


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
    _ = found.seed, document["covariance"]["contrast_dof"], None if found._pairs is None else found.pairwise()
    _ = found.table if found.kind == "comparison" else None
    _ = found.leaderboard() if document.get("leaderboard") is not None or found.kind == "board" else None
    return found

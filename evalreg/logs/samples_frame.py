"""Logs from frames of Inspect's samples, for those who have a frame and not the files."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import pandas as pd

from evalreg.checks import listed, option
from evalreg.errors import ArgumentError, LogFormatError, MissingColumnError
from evalreg.logs.inspect_values import as_column, as_number, printable, printable_cell, short_fields
from evalreg.logs.judged import chosen
from evalreg.logs.log import Log, log_of
from evalreg.logs.log_rows import as_pandas
from evalreg.logs.reading import FailedName, Reading, Reason, Run, counted
from evalreg.logs.records import settled

__all__ = ["log_frame"]

# What `SampleScores` of Inspect puts beside the value of a score.
_DETAILS = ("answer", "explanation", "reason", "metadata")
_ASK = "samples_df(logs, columns=EvalModel + EvalTask + SampleSummary)"


def log_frame(frame: Any, *, scorer: str | None = None, metric: str | None = None, failed: FailedName = "drop") -> Log:
    """The scores in a frame that `inspect_ai.analysis.samples_df` gives, as a log.

    A frame tells less than the log files: every score that is missing is NA there, and samples that a stopped run never
    came to are not rows. `read_log` on the files tells these apart; the notes of this log say what it cannot tell.

    Parameters
    ----------
    frame : data frame
        One row a sample and epoch, with the columns of Inspect's `SampleSummary`. For several runs also those of
        `EvalModel` and `EvalTask`, which name the models and tasks. With those of `SampleScores` the reasons of missing
        scores are counted.
    scorer : str, optional
        Whose scores to read: "match" for the column "score_match". Needed where there are several.
    metric : str, optional
        Which entry to read, where a score is a dict of several.
    failed : {"drop", "keep", "zero"}, optional
        Scores of samples that ended in error: left out (the default), kept as they are, or zero.

    Returns
    -------
    Log
        Fields of the samples' metadata are columns such as "metadata.passage".

    Raises
    ------
    MissingColumnError
        If the frame has no column "id", "epoch" or `score_...`, or no column "error" and `failed` is not "keep".
    ArgumentError
        If there are several scorers, entries, or runs of one model, and nothing says which is meant.
    LogFormatError
        If a score is not a number, or a sample has two scores.

    See Also
    --------
    read_log : From the files, which say more.

    Examples
    --------
    >>> import pandas as pd
    >>> import evalreg as er
    >>> rows = {"eval_id": "e1", "id": ["a", "b", "c"], "epoch": 1, "score_match": ["C", "I", None]}
    >>> log = er.log_frame(pd.DataFrame(rows | {"metadata_passage": ["p", "p", "q"], "error": ["", "", "no tool"]}))
    >>> log
    Log of 2 scores: item, sample, score
    >>> log.left_out.to_dict()
    {'errored': 1}
    """
    option("failed", failed, get_args(FailedName))
    rows = as_pandas(frame).reset_index(drop=True)
    _needed(rows, failed)
    name = _scorer(rows, scorer)
    rows, n_again = _without_repeats(rows, f"score_{name}")
    _one_content(rows)
    values = _values(_cells(rows, f"score_{name}"), name, metric)
    errors = _cells(rows, "error") if "error" in rows else [None] * len(rows)
    errored = pd.Series([bool(text) for text in errors], dtype=bool)
    score = pd.Series(values, dtype="float64")
    if failed != "keep":
        score = score.mask(errored, 0.0 if failed == "zero" else None)
    found = _identified(rows).assign(score=score)
    found = pd.concat([found, _metadata(rows)], axis=1)
    left_out: dict[Reason, int] = {
        "errored": int((errored & score.isna()).sum()),
        "unscored": int((~errored & score.isna()).sum()),
        "duplicate": n_again,
    }
    kept = found[score.notna()].reset_index(drop=True).dropna(axis="columns", how="all")
    if kept.empty:
        raise LogFormatError(f"A log needs at least one score; all {len(rows)} of {name!r} are missing.", count=0)
    notes = tuple(_notes(rows, name, ~errored & score.isna()))
    return log_of(Reading("inspect", kept, _runs(rows), {key: n for key, n in left_out.items() if n}, notes))


def _needed(rows: pd.DataFrame, failed: str) -> None:
    for column in ("id", "epoch"):
        if column not in rows:
            raise MissingColumnError(
                f'A frame of samples has a column "{column}"; found {listed(map(str, rows.columns))}. Make it with '
                f"{_ASK}, or name roles in er.Log(frame, score=..., item=...).",
                column=column,
            )
    if "error" not in rows and failed != "keep":
        raise MissingColumnError(
            'A frame of samples says in its column "error" which samples failed; there is none. Ask Inspect for it '
            '(SampleSummary), or pass failed="keep" to take every score as it is.',
            column="error",
        )


def _scorer(rows: pd.DataFrame, asked: str | None) -> str:
    """The scorer that was asked for, or the only one."""
    names = [str(column).removeprefix("score_") for column in rows.columns if str(column).startswith("score_")]
    if not names:
        raise MissingColumnError(
            f'A frame of samples has columns "score_..."; found {listed(map(str, rows.columns))}. Make it with {_ASK}.'
        )
    if asked in names:
        return str(asked)
    details = {f"{name}_{detail}" for name in names for detail in _DETAILS}
    counts = {name: int(rows[f"score_{name}"].notna().sum()) for name in names if name not in details}
    return chosen("scorer", asked, counts, "scorers")


def _without_repeats(rows: pd.DataFrame, score: str) -> tuple[pd.DataFrame, int]:
    """The rows without samples that occur again; one that has another score then is an error."""
    key = [column for column in ("eval_id", "model", "task_name", "id", "epoch") if column in rows]
    again = rows.duplicated(key)
    other = again & ~rows.duplicated([*key, score])
    if other.any():
        first = ", ".join(f"{column} {rows.loc[other, column].iloc[0]!r}" for column in key)
        raise LogFormatError(
            f"A sample of a run has one score; {int(other.sum())} occur again with another one, the first with {first}."
            ' Keep the rows of one run, or add "eval_id" where runs were joined.',
            count=int(other.sum()),
        )
    return rows[~again].reset_index(drop=True), int(again.sum())


def _cells(rows: pd.DataFrame, column: str) -> list[Any]:
    """The values of a column as Python has them; what is missing is None."""
    values = rows[column]
    return [None if missing else value for value, missing in zip(values.tolist(), values.isna(), strict=True)]


def _values(cells: list[Any], name: str, metric: str | None) -> list[float | None]:
    """Scores as numbers, by Inspect's own rules; entries of dicts by the metric."""
    parsed = [_parsed(cell) for cell in cells]
    dicts = [one for one in parsed if isinstance(one, dict)]
    if dicts:
        counts = Counter(key for one in dicts for key in one)
        entry = chosen("metric", metric, counts, f"entries of the scores {name!r}")
        parsed = [one.get(entry) if isinstance(one, dict) else one for one in parsed]
    elif metric is not None:
        raise ArgumentError(f"`metric` chooses among entries of a score; those of {name!r} are single values.")
    numbers = [None if one is None else as_number(one) for one in parsed]
    bad = Counter(
        repr(one)[:40] for one, number in zip(parsed, numbers, strict=True) if one is not None and number is None
    )
    if bad:
        several = ", ".join(f"{value} ({count})" for value, count in bad.most_common(10))
        raise LogFormatError(
            f"A score is a number or C, I, P, N; {name!r} has others: {several}. Make er.Log(frame, score=...) of a "
            "frame that says what each is worth.",
            count=bad.total(),
        )
    return numbers


def _parsed(cell: Any) -> Any:
    """A value, or the dict that a frame holds as JSON."""
    if isinstance(cell, str) and cell.startswith("{"):
        try:
            return json.loads(cell)
        except (ValueError, RecursionError):
            return cell
    return cell


def _identified(rows: pd.DataFrame) -> pd.DataFrame:
    """Model, task, item and sample of every row; runs that nothing tells apart are refused."""
    found = {
        role: _cells(rows, column) for role, column in (("model", "model"), ("task", "task_name")) if column in rows
    }
    names = {role: [printable(str(cell or "")) for cell in cells] for role, cells in found.items()}
    frame = pd.DataFrame(
        {**names, "item": [printable(str(one)) for one in _cells(rows, "id")], "sample": rows["epoch"].astype("int64")}
    )
    if "eval_id" in rows:
        roles = list(names)
        runs = rows["eval_id"].astype(str)
        keys = frame[roles].agg(" on ".join, axis=1) if roles else pd.Series("the frame", index=rows.index)
        several = runs.groupby(keys).unique()
        several = several[several.map(len) > 1]
        if len(several):
            counts = runs.value_counts()
            listing = ", ".join(f"{run} ({counts[run]} samples)" for run in several.iloc[0])
            raise ArgumentError(
                f"A log has one run of a model on a task; {several.index[0]!r} has {len(several.iloc[0])}: {listing}. "
                f'Keep rows of one "eval_id", or name models and tasks: {_ASK}.'
            )
    return frame


def _one_content(rows: pd.DataFrame) -> None:
    """Refuse a task of several versions, and questions with other contents under the same id."""
    task = rows["task_name"].astype(str) if "task_name" in rows else pd.Series("the task", index=rows.index)
    if "task_version" in rows:
        versions = rows["task_version"].groupby(task).nunique()
        if versions.max() > 1:
            raise ArgumentError(
                f"A log holds one version of a task; {versions.idxmax()!r} is there in {versions.max()}. Keep the rows "
                'of one "task_version".'
            )
    content = [column for column in ("input", "target") if column in rows]
    if content:
        ids = pd.DataFrame({"task": task, "id": rows["id"].astype(str)})
        several = rows[content].astype(str).agg("\0".join, axis=1).groupby([ids["task"], ids["id"]]).nunique()
        several = several[several > 1]
        if len(several):
            raise LogFormatError(
                f"A question has one content in all runs; {len(several)} differ under one id, such as "
                f"{several.index[0][1]!r}. The dataset was changed, or shuffled without ids of its own: make a log of "
                "each run.",
                count=len(several),
            )


def _metadata(rows: pd.DataFrame) -> pd.DataFrame:
    """Fields of metadata by their dots, nested ones out of their JSON."""
    table: dict[str, list[Any]] = {}
    for column in (str(name) for name in rows.columns if str(name).startswith("metadata_")):
        name = f"metadata.{column.removeprefix('metadata_')}"
        for row, cell in enumerate(map(_parsed, _cells(rows, column))):
            for field, value in short_fields(cell, f"{name}.") if isinstance(cell, dict) else [(name, cell)]:
                if isinstance(value, bool | int | float | str):
                    cells = table.setdefault(field, [None] * len(rows))
                    cells[row] = printable_cell(value)
    kept = {name: as_column(found) for name, cells in table.items() if (found := settled(cells)) is not None}
    return pd.DataFrame(kept, index=rows.index)


def _runs(rows: pd.DataFrame) -> tuple[Run, ...]:
    """A run for each evaluation, with the file that the frame says it came from."""
    if "eval_id" not in rows:
        return ()
    names = ("eval_id", "model", "task_name", "log")
    first = rows.drop_duplicates("eval_id")
    cells = [_cells(first, name) if name in rows else [""] * len(first) for name in names]
    texts = ([str(one or "") for one in values] for values in zip(*cells, strict=True))
    return tuple(Run(run, model, task, path) for run, model, task, path in texts)


def _notes(rows: pd.DataFrame, name: str, unscored: pd.Series[bool]) -> Iterator[str]:
    """What the frame cannot tell."""
    if unscored.any():
        column = f"score_{name}_reason"
        reasons = [str(one) for one in _cells(rows[unscored], column) if one] if column in rows else []
        said = ", ".join(f"{reason} ({count})" for reason, count in Counter(reasons).most_common(5))
        told = f"Inspect gives a reason for {len(reasons)} of them: {said}" if reasons else "the frame gives no reason"
        n = int(unscored.sum())
        yield (
            f"{counted(n, 'sample')} without an error {'has' if n == 1 else 'have'} no score of {name!r}; {told}. A "
            "scorer that gave nothing and one that gave NaN look alike in a frame."
        )
    if "error" not in rows:
        yield "The frame does not say which samples ended in error; their scores are among the others."
    yield "Samples that a stopped run never came to are not in a frame; er.read_log on the log files counts them."

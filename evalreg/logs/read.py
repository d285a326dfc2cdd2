"""From the files of a harness to a log: the table of formats, which one files are of, and what is read of them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalreg.checks import counted, listed, option, passed
from evalreg.errors import ArgumentError, EvalregError, LogFormatError
from evalreg.logs import reader
from evalreg.logs.files import Paths, Source, file_list, find_files
from evalreg.logs.folders import HELM, LIGHTEVAL, LM_EVAL
from evalreg.logs.inspect_log import INSPECT
from evalreg.logs.judged import JUDGED_FORMATS
from evalreg.logs.log import Log, log_of, together, within
from evalreg.logs.reading import ARGUMENTS, BrokenName, Choice, FailedName, Format
from evalreg.logs.scored import PROMPTFOO, SCORED_FORMATS
from evalreg.logs.table_log import TABLE, as_roles, read_tables
from evalreg.logs.tables import foreign, names

if TYPE_CHECKING:
    from evalreg.logs.doctor import Diagnosis

# In the order in which files are looked at; the last takes any table.
FORMATS: dict[str, Format] = {
    format.name: format
    for format in (INSPECT, LM_EVAL, PROMPTFOO, *JUDGED_FORMATS, *SCORED_FORMATS, HELM, LIGHTEVAL, TABLE)
}


def format_of(source: Source) -> str | None:
    """Name of the format of a file, by its content; None where none is recognised."""
    return next((name for name, format in FORMATS.items() if format.recognises(source)), None)


def sort_sources(sources: list[Source], format: str | None, path: Paths) -> tuple[Format, list[Source], list[Source]]:
    """The format that a log's files share, those files, and files that are not logs.

    In the folders of a harness lie tables of its own, such as lists of its logs; one that `path` names is a log.
    """
    if format is not None:
        option("format", format, tuple(FORMATS))
        chosen = FORMATS[format]
        files = [source for source in sources if len(sources) == 1 or chosen.recognises(source)]
        if not files:
            raise LogFormatError(f"None of the files is of the format {format!r}: {file_list(sources)}.")
        return chosen, files, [source for source in sources if source not in files]
    formats = [(source, format_of(source)) for source in sources]
    named = {Path(name) for name in ([path] if isinstance(path, str | os.PathLike) else path)}
    counts = Counter(name for _, name in formats if name is not None)
    if len(counts) == 2 and not any(name == "table" and source.path in named for source, name in formats):
        del counts["table"]
    if not counts:
        raise _unknown(sources)
    if len(counts) > 1:
        several = ", ".join(f"{name} ({counted(count, 'file')})" for name, count in counts.items())
        raise LogFormatError(
            f"All files of a log are of one format; found {several}. Name the files of one, or pass "
            f"{passed('`format`', log_format='NAME')}.",
            count=len(counts),
        )
    (name,) = counts
    files = [source for source, other in formats if other == name]
    return FORMATS[name], files, [source for source, other in formats if other != name]


def _unknown(sources: Sequence[Source]) -> LogFormatError:
    """The error of files that no format takes."""
    where = file_list(sources)
    if all(not source.head.strip() for source in sources):
        what = f"{where} {'is' if len(sources) == 1 else 'are'} empty"
        return LogFormatError(f"A log holds scores; {what}. Was the run that wrote it cut off, or has it just begun?")
    if what := next(filter(None, (foreign(source.head) for source in sources)), ""):
        advice = f"It is {what}. Unpack it first; gzip alone is read as it is."
    elif any(b"\0" in source.head for source in sources):
        advice = "It contains zero bytes: it is UTF-16, or not text. Save text as UTF-8."
    else:
        columns = passed("er.Log(frame, score=..., item=...)", roles="score=COLUMN,item=COLUMN")
        advice = f"Write its rows as a table (CSV, JSON lines, Parquet), and name the columns by {columns}."
    return LogFormatError(f"A log is one of {listed(FORMATS)}; none is recognised in {where}. {advice}")


# What is read of them


def read_log(
    path: Paths | Mapping[str, Paths],
    *,
    format: str | None = None,
    metric: str | None = None,
    filter: str | None = None,
    scorer: str | None = None,
    task: str | Sequence[str] | None = None,
    columns: list[str] | None = None,
    failed: FailedName = "drop",
    broken: BrokenName = "raise",
    roles: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    text_columns: Sequence[str] = (),
) -> Log:
    r"""The scores or verdicts in the files of an eval harness, with the roles of their columns.

    Nothing is chosen unasked: where a log has several metrics, filters or scorers and declares none as its own, the
    error lists them. What is not a score (a sample in error, say) is left out and counted by reason.

    Parameters
    ----------
    path : str, path-like, list of these, or mapping
        Files, patterns with `*`, or folders, all of one format; "-" is standard input. Links are not followed. A
        mapping of names to paths reads runs that are to be compared: each is a model of its name.
    format : str, optional
        Name of the format; by default it is recognised by content.
    metric, filter, scorer : str, optional
        Which one to read, where a log has several; of several tasks, for those that have it.
    task : str or list of str, optional
        Tasks to read; by default all.
    columns : list of str, optional
        Fields to keep besides the roles, with dots into nested ones ("metadata.subject"); by default the short ones.
    failed : {"drop", "keep", "zero"}, optional
        Scores of samples that ended in error: left out (the default), kept as they are, or zero.
    broken : {"raise", "skip"}, optional
        Records that cannot be read: an error (the default), or left out and counted.
    roles : path or mapping, optional
        For tables, the column of each role (`score = "correct"`), with `labels` for what verdicts mean and `key` for
        what identifies a comparison: a TOML file, or a mapping of the same entries.
    text_columns : list of str, optional
        Columns of tables to read as text, to the letter, besides the roles: a passage 01 is then not passage 1. Values
        in JSON have types of their own.

    Returns
    -------
    Log
        With `frame`, `roles`, `runs`, `left_out` and `notes`.

    Raises
    ------
    ArgumentError
        If there is no such file, or several things to choose from and none is chosen.
    LogFormatError
        If the files are of several formats or of none that is known, or a record cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import evalreg as er
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "scores.csv"
    ...     _ = file.write_text("model,item,score\nA,1,1\nA,2,0\nB,1,1\nB,2,1\n")
    ...     log = er.read_log(file)
    >>> log
    Log of 4 scores: model, item, score
    """
    options: dict[str, Any] = {"format": format, "metric": metric, "filter": filter, "scorer": scorer, "task": task}
    options |= {"columns": columns, "failed": failed, "broken": broken, "roles": roles, "text_columns": text_columns}
    if isinstance(path, Mapping):
        logs = {}
        for name, paths in path.items():
            with within(name):
                logs[name] = read_log(paths, **options)
        return together(logs)
    chosen, files, choice, notes = _opened(path, options)
    reading = read_tables(files, choice) if chosen is TABLE else reader.read(chosen, files, choice)
    return log_of(replace(reading, notes=(*reading.notes, *notes)))


def _opened(path: Paths, options: Mapping[str, Any]) -> tuple[Format, list[Source], Choice, tuple[str, ...]]:
    """The format and the files of a log, what is chosen of it, and what was passed over."""
    chosen = {name: value for name, value in options.items() if value is not None}
    format = chosen.pop("format", None)
    option("failed", options.get("failed", "drop"), FailedName)
    option("broken", options.get("broken", "raise"), BrokenName)
    if "roles" in chosen:
        chosen["roles"] = as_roles(chosen["roles"])
        if format not in (None, "table"):
            raise ArgumentError(
                f'`roles` names columns of tables; a log of format "{format}" names its own. Leave it out.'
            )
    if isinstance(chosen.get("task"), str):
        chosen["task"] = [chosen["task"]]
    for name in ("task", "columns", "text_columns"):
        if name in chosen:
            chosen[name] = tuple(names(name, chosen[name]))
    sources, links = find_files(path)
    form, files, others = sort_sources(sources, "table" if "roles" in chosen else format, path)
    passed_over = []
    if others:
        passed_over.append(f"Not read: {counted(len(others), 'file')} of no or of another format, {file_list(others)}.")
    if links:
        passed_over.append(
            f'Not followed: {counted(len(links), "link")}, such as "{links[0]}". Name the files that they lead to, if '
            "they are wanted."
        )
    idle = {*ARGUMENTS} - {*form.choose} | (
        {"failed"} if form is TABLE and chosen.get("failed", "drop") != "drop" else set()
    )
    for name in (name for name in chosen if name in idle):
        raise ArgumentError(f"`{name}` has nothing to choose from in {form.title}. Leave it out.", parameter=name)
    return form, files, Choice(**chosen), tuple(passed_over)


def survey_of(
    path: Paths, error: EvalregError, say: Callable[[str, list[str], list[str]], str], **options: Any
) -> Diagnosis | None:
    """A line for each score of a log, where an error is about a choice of them; of several files for each of theirs."""
    chosen, files, choice, notes = _opened(path, options)
    choosing = error.parameter in ARGUMENTS and options.get(error.parameter) is None
    if not choosing and (error.parameter is not None or len(files) < 2 or chosen is TABLE):
        return None
    from evalreg.logs.doctor import Diagnosis

    table, left_out = reader.survey(chosen, files, choice, not choosing)
    arguments = [name for name in ARGUMENTS if name in table and table[name].nunique() > 1]
    commands = []
    for row in table[table["scores"] > 1].to_dict("records"):  # of one there is no error bar
        named = [word for name in arguments if row[name] for word in (f"--{name}", str(row[name]))]
        task = ["--task", row["task"]] if "task" in table and table["task"].nunique() > 1 else []
        commands.append(say(row["verb"], [*named, *task], [row["file"]] if not choosing else []))
    counts: dict[str, int | str] = {"format": chosen.name, "files": len(files)}
    names_of = table[[n for n in table if n not in ("scores", "without", "mean", "verb") and table[n].nunique() > 1]]
    labels = [" ".join(filter(None, row)) for row in names_of.astype(str).itertuples(index=False)]
    return Diagnosis(
        counts,
        {str(reason): n for reason, n in left_out.items() if n},
        (str(error), *notes),
        tuple(dict.fromkeys(commands))[:10],
        choices=table[["scores", "without", "mean"]].set_axis(labels),
    )

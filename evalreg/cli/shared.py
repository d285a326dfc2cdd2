"""What the commands that read a file share: options, their checks, and the formats of what is printed."""

from __future__ import annotations

import argparse
import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pandas as pd
from pandas.api.types import is_numeric_dtype

from evalreg.checks import COVS, DOFS, MISSING, REPAIRS, SSCS, fraction, option
from evalreg.cli.logs import add_files, add_log_options, file_list, log_document, log_sentences
from evalreg.cli.parsing import Output, offering
from evalreg.cli.pooled import pooled_sentence
from evalreg.cli.selection import Outcome, Rows, split_names
from evalreg.cli.spelled import spelled
from evalreg.cli.sums import sums_document, sums_sentences
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.options import check_cov_options
from evalreg.errors import ArgumentError
from evalreg.estimators.comparison import Comparison
from evalreg.inference.standards import tested_against
from evalreg.report.documents import SCHEMA_VERSION, as_json, versions
from evalreg.report.summaries import choice_sentence, limit_sentence
from evalreg.report.tables import NO_LIMIT, Grid, Summary, spreadsheet
from evalreg.results.document import resolved_options, results_document
from evalreg.results.results import Results

_GROUPS_HELP = """\
clusters: rows that share a value may depend on each other in any way, rows that do not are independent. "prompt" is a
column; "prompt + judge" crosses two; "language:question" joins two into one id; backticks go around a column with + or
: in its name"""

_FORMAT_HELP = """\
what is printed: "json" is strict JSON with sorted keys: a missing number is null, an infinity is "inf" or "-inf", and
an option that does not affect the result is null; "csv" is the table of the parameters (default: text)"""

_SPREADSHEET_HELP = """\
CSV for a spreadsheet program: text that begins with = + - @ or a tab gets an apostrophe before it, so that a model's
name is not computed as a formula; numbers stay numbers. Without it, names are written as they are"""

_WHERE_HELP = """\
keep the rows for which this is true: columns against numbers and quoted text by == != < <= > >= `in` and `not in`,
joined by `and`, `or`, `not` and parentheses, such as 'model == "a" and turn in [1, 2]'; 'score == missing' finds empty
fields; backticks go around a column whose name is not one word. Columns read as text are compared with quoted text"""


# Options


T = TypeVar("T")


def add_shared(
    parser: argparse.ArgumentParser,
    *,
    groups: bool = True,
    weights: bool = True,
    covariance: bool = True,
    formats: Sequence[str] = (),
    format_help: str = "",
) -> None:
    """Add the file and the options that every command on a file has; some only where they have a meaning."""
    add_files(parser)
    add_rows(parser, groups=groups, weights=weights)
    add_log_options(parser)
    if covariance:
        _add_covariance(parser)
    add_output(parser, formats, format_help)


def add_rows(parser: argparse.ArgumentParser, *, groups: bool = True, weights: bool = True) -> None:
    """Add the options that say which rows and columns of a file are read."""
    rows = parser.add_argument_group("rows and columns")
    if groups:
        rows.add_argument("--groups", metavar="GROUPS", help=_GROUPS_HELP)
    if weights:
        rows.add_argument("--weights", metavar="X", help="the column of sampling weights")
    rows.add_argument("--where", metavar="FILTER", help=_WHERE_HELP)
    offering(
        rows.add_argument(
            "--missing",
            default="drop",
            metavar="RULE",
            help=f"{listed(MISSING)}: rows where something is missing are dropped and counted (the default), or an "
            "error",
        ),
        MISSING,
    )
    rows.add_argument(
        "--text",
        metavar="A,B",
        help="further columns to read as text, unchanged. Factors and the columns of clusters, models, questions and "
        "strata are read so anyway, except one that the formula uses as a number",
    )


def add_output(parser: argparse.ArgumentParser, formats: Sequence[str] = (), format_help: str = "") -> None:
    """Add the options of what is printed; a command with formats of its own names them, and has no default."""
    output = parser.add_argument_group("output")
    output.add_argument(
        "--alpha",
        type=float,
        default=0.05,
        metavar="A",
        help="0.05, the default, gives 95%% intervals; the level of a test that is planned",
    )
    if formats:
        output.add_argument("--format", choices=list(formats), help=format_help)
    else:
        output.add_argument("--format", choices=list(FORMATS), default="text", help=_FORMAT_HELP)
        output.add_argument("--spreadsheet", action="store_true", help=_SPREADSHEET_HELP)
    output.add_argument("-o", "--output", metavar="FILE", help="write there, in UTF-8, instead of standard output")


def _add_covariance(parser: argparse.ArgumentParser) -> None:
    cov = parser.add_argument_group("covariance")
    offering(
        cov.add_argument("--cov", metavar="NAME", help=f"{listed(COVS)} (default: CR2 with --groups, naive without)"),
        COVS,
    )
    offering(cov.add_argument("--ssc", metavar="NAME", help=f"factor of CR1: {listed(SSCS)}"), SSCS)
    offering(
        cov.add_argument(
            "--dof",
            type=_number_or_name,
            metavar="DOF",
            help=f"{listed(DOFS)} or a number (default: satterthwaite under CR2, min otherwise)",
        ),
        DOFS,
    )
    offering(
        cov.add_argument(
            "--repair",
            metavar="NAME",
            help=f"{listed(REPAIRS)}: what is done to a crossed covariance that is not positive semi-definite "
            "(default: max)",
        ),
        REPAIRS,
    )


POPULATION_HELP = """\
how many questions the full benchmark has, if these are a random sample of them; passage=896 if whole passages were
sampled, from 896; algebra=400,law=250 with --strata, if questions of each were sampled, and passage:algebra=90,law=40
if whole passages of each were: the result is then about that benchmark, and not about all questions like these"""


def _number_or_name(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def listed(names: Sequence[str]) -> str:
    """Names as a reader says them: a, b or c."""
    return f"{', '.join(names[:-1])} or {names[-1]}"


def check_shared(options: argparse.Namespace) -> None:
    """Refuse wrong options before a large file is read."""
    check_cov_options(**covariance_options(options))
    check_rows(options)


def check_rows(options: argparse.Namespace) -> None:
    """Refuse wrong options that have to do with rows and output."""
    option("missing", options.missing, MISSING)
    fraction("alpha", options.alpha)
    check_output(options)


def check_output(options: argparse.Namespace) -> None:
    """Refuse to write over what is read, and where nothing can be written."""
    for name in ("output", "summary", "figure"):
        check_files(options, getattr(options, name, None), name)


def check_files(options: argparse.Namespace, output: str | None, name: str = "output") -> None:
    """Refuse to write a file over one that is read, or in a folder that is not there."""
    if output in (None, "-"):
        return
    if any(_is_one_file(str(output), file) for file in file_list(options)):
        raise ArgumentError(f'`--{name}` must not be the file that is read; got "{output}" for both.')
    reason = _not_writable(str(output))
    if reason:
        verb = "draw" if name == "figure" else "write"
        raise ArgumentError(f'`--{name}` must be a file to {verb} to; "{output}" is not: {reason}.')


def _not_writable(file: str) -> str:
    """Why a file cannot be written, as far as that is known before it is tried; empty where it can."""
    folder = os.path.dirname(file) or "."
    if os.path.isdir(file):
        return os.strerror(errno.EISDIR)
    if not os.path.isdir(folder):
        return os.strerror(errno.ENOENT)
    return "" if os.access(file if os.path.exists(file) else folder, os.W_OK) else os.strerror(errno.EACCES)


def _is_one_file(first: str, second: str) -> bool:
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):
        return False


def target_options(options: argparse.Namespace) -> dict[str, Any]:
    """The keywords of a benchmark.

    From ``--population 2241`` or ``passage=896``, of strata ``algebra=400,law=250`` or, of their clusters,
    ``passage:algebra=90,law=40``.
    """
    text = options.population
    if text is None:
        return {}
    unit, given = "", text
    if getattr(options, "strata", None) is not None and text.startswith(f"{options.groups}:"):
        unit, given = options.groups, text.removeprefix(f"{options.groups}:")
    sizes: dict[str, int] = {}
    for part in [given] if given.isdecimal() else split_names(given, "--population"):
        name, _, size = part.rpartition("=")
        if not size.isdecimal() or not (name or given.isdecimal()) or name in sizes:
            raise ArgumentError(
                "`--population` must be the number of questions of the benchmark, of whole clusters as "
                '"passage=896", or with `--strata` of each, as "algebra=400,law=250" (of its whole clusters, '
                f'"passage:algebra=90,law=40"); got "{text}".'
            )
        sizes[name] = int(size)
    size_of_all = sizes.get("", sizes)
    return {"target": "the full benchmark", "n_population": {unit: size_of_all} if unit else size_of_all}


def covariance_options(options: argparse.Namespace) -> dict[str, Any]:
    """The keywords of a covariance; `alike` where the command has it."""
    names = ("cov", "ssc", "dof", "repair", "alike")
    return {name: getattr(options, name) for name in names if hasattr(options, name)}


def rendered(
    results: Results,
    rows: Rows,
    options: argparse.Namespace,
    asked: dict[str, object],
    *,
    comparison: Comparison | None = None,
    more: Mapping[str, object] | None = None,
    first: tuple[Grid, ...] = (),
    frame: pd.DataFrame | None = None,
    said: tuple[str, ...] = (),
    last: tuple[Grid, ...] = (),
) -> Output:
    """Results (or the comparison that they are of) in the format asked for; JSON with what else there is to say.

    What was left out of a log is said in every format: in CSV, which holds a table only, on standard error.
    """
    names = ("alpha", "command", "file", "missing", "text", "weights", "where")
    asked |= {name: getattr(options, name, None) for name in names}
    if rows.log is not None:
        more = {**(more or {}), "log": log_document(rows.log, log_notes(rows, options))}
    if rows.sums is not None:
        more = {**(more or {}), "sums": sums_document(rows.sums)}
    outcome = Outcome(results, rows, options, asked, comparison, more or {}, first, frame, said, last)
    text = FORMATS[options.format](outcome)
    return Output(text, messages=log_messages(rows, options))


def log_messages(rows: Rows, options: argparse.Namespace) -> tuple[str, ...]:
    """What goes to standard error: the notes on a log, where the format holds a table only."""
    return log_notes(rows, options) if options.format == "csv" else ()


def log_notes(rows: Rows, options: argparse.Namespace) -> tuple[str, ...]:
    """What was read of a log and what was left out, that tasks are taken together, that questions are alike."""
    return tuple(spelled(text, options) for text in _log_notes(rows, options))


def _log_notes(rows: Rows, options: argparse.Namespace) -> tuple[str, ...]:
    if rows.sums is not None:
        return sums_sentences(rows.sums)
    if rows.log is None:
        return ()
    pooled = [text for text in [pooled_sentence(rows, options)] if text]
    alone = getattr(options, "groups", "") is None and getattr(options, "strata", None) is None
    return (*log_sentences(rows.log), *pooled, *(rows.overlooked(options.command == "compare") if alone else ()))


def with_rows(summary: Summary, rows: Rows, options: argparse.Namespace) -> Summary:
    """A summary that says which rows the filter kept, and what was read of a log."""
    summary = replace(summary, sentences=(*log_notes(rows, options), *summary.sentences))
    if options.where is None:
        return summary
    kept = f"{options.where} ({len(rows.frame)} of {rows.n_read} rows)"
    return replace(summary, facts=(*summary.facts, ("Where", kept)))


# What is printed


def formats_of(
    summary: Callable[[T], Summary], as_json: Callable[[T], str], as_csv: Callable[[T], str]
) -> dict[str, Callable[[T], str]]:
    """What a command found, in every format; sentences name options as they are typed."""

    def own(found: T) -> Summary:
        made, options = summary(found), getattr(found, "options", None)
        if options is None:
            return made
        return replace(made, sentences=tuple(spelled(text, options) for text in made.sentences))

    return {
        "text": lambda found: own(found).as_text(),
        "json": as_json,
        "csv": as_csv,
        "md": lambda found: own(found).as_markdown(),
        "latex": lambda found: own(found).as_latex(),
        "html": lambda found: own(found).as_html(),
    }


def document_text(
    own: Mapping[str, object],
    notes: Iterable[tuple[str, str | None]],
    asked: Sequence[str],
    options: argparse.Namespace,
    rows: Rows | None = None,
) -> str:
    """JSON of what a command found, its notes (text, category), options as asked, and the rows that it read."""
    document = {
        **own,
        "notes": [{"text": spelled(text, options), "warning": category} for text, category in notes],
        "options": {name: getattr(options, name) for name in asked},
        "schema_version": SCHEMA_VERSION,
        "seed": getattr(options, "seed", None),
        "versions": versions(),
    }
    if rows is not None:
        document |= {"rows_kept": len(rows.frame), "rows_read": rows.n_read}
    if rows is not None and rows.log is not None:
        document["log"] = log_document(rows.log, log_notes(rows, options))
    return as_json(document)


def _summarized(outcome: Outcome) -> Summary:
    """The summary of the results, with what the filter kept."""
    summary, rows = outcome.printed.summary(outcome.options.alpha), outcome.rows
    # Tiers and the summary both speak of the first place.
    sentences = tuple(dict.fromkeys(_of_commands((*outcome.said, *summary.sentences), outcome)))
    said = () if NO_LIMIT in " ".join(sentences) else limit_sentence(outcome.first)
    summary = replace(summary, grids=(*outcome.first, *summary.grids, *outcome.last), sentences=(*said, *sentences))
    return with_rows(summary, rows, outcome.options)


def _of_commands(sentences: Iterable[str], outcome: Outcome) -> Iterator[str]:
    """The sentences of a summary; that on the luck of the first place only where it is not corrected for."""
    choice, corrected = choice_sentence(outcome.results.estimate), getattr(outcome.options, "best", False)
    yield from (text for text in sentences if text not in choice or not corrected)


def _as_csv(outcome: Outcome) -> str:
    """The table of the parameters; a missing number is an empty field."""
    if outcome.frame is not None:
        frame = outcome.frame
    elif outcome.comparison is None:
        frame = outcome.printed.to_frame(outcome.options.alpha).rename_axis("parameter")
        if tested_against(outcome.results.estimate) is None:
            frame = frame.drop(columns=["t", "p_value"])
    else:
        frame = outcome.printed.to_frame(outcome.options.alpha)
    return csv_text(frame.reset_index(), outcome.options.spreadsheet)


def csv_text(table: pd.DataFrame, for_spreadsheet: bool) -> str:
    """A table as CSV; for a spreadsheet program where that is asked for."""
    if for_spreadsheet:
        table = table.copy()
        for name in table.columns[~table.dtypes.map(is_numeric_dtype).to_numpy(dtype=bool)]:
            table[name] = [spreadsheet(cell) if isinstance(cell, str) else cell for cell in table[name]]
    return str(table.to_csv(index=False, lineterminator="\n"))


def _as_json(outcome: Outcome) -> str:
    """Strict JSON of everything that a program may ask of the results, as `to_json` writes it."""
    results, alpha, comparison = outcome.results, outcome.options.alpha, outcome.comparison
    document = results_document(
        results, (alpha,), comparison, None if comparison is None else comparison.to_frame(alpha)
    )
    kind = {} if comparison is None else {"kind": "comparison", "adjust": comparison.adjust}
    own = {
        "options": {**document["options"], **outcome.asked, **_resolved(document["options"])},
        "rows_kept": outcome.rows.n_kept,
        "rows_read": outcome.rows.n_read,
        "seed": 0 if outcome.asked.get("adjust") == "single-step" else None,
    }
    said = {entry["text"]: entry for entry in document["notes"]}
    notes = [{**said[text], "text": spelled(text, outcome.options)} for text in _of_commands(said, outcome)]
    sentences = (spelled(text, outcome.options) for text in _of_commands(document["summary"]["sentences"], outcome))
    own |= {"notes": notes, "summary": {**document["summary"], "sentences": list(sentences)}}
    return as_json({**document, **kind, **own, **outcome.more})


def resolved_of_each(
    covs: Mapping[str, Covariance], options: argparse.Namespace
) -> tuple[dict[str, dict[str, Any]], argparse.Namespace]:
    """The options of the covariance of each part as they were resolved, and the command's with what is alike in all."""
    resolved = {name: resolved_options(cov) for name, cov in covs.items()}
    first, *others = resolved.values()
    alike = {name: value for name, value in _resolved(first).items() if all(one[name] == value for one in others)}
    return resolved, argparse.Namespace(**{**vars(options), **alike})


def _resolved(options: dict[str, Any]) -> dict[str, Any]:
    """What was resolved, before which the options as asked stand back; groups stay as they were asked."""
    return {name: value for name, value in options.items() if name != "groups"}


FORMATS = formats_of(_summarized, _as_json, _as_csv)

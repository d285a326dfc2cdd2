"""``evalreg report``: one file that says what a log shows, how sure that is, and how to do it again."""

from __future__ import annotations

import argparse
import json
import shlex
from dataclasses import replace
from typing import Any

from pandas.api.types import is_numeric_dtype

from evalreg.checks import QUESTIONS, option
from evalreg.cli.leaderboard import METHODS, add_pairs, as_options, checked_roles, compared, meanings, of_pairs
from evalreg.cli.logs import choices, file_list, log_document, table_files
from evalreg.cli.parsing import Output, offering
from evalreg.cli.selection import Rows, counting, formula_names, group_names, read_rows, role_names, split_names
from evalreg.cli.shared import add_shared, check_shared, covariance_options, listed, log_notes
from evalreg.cli.spelled import spelled
from evalreg.data.where import parse
from evalreg.errors import ArgumentError, muted
from evalreg.estimators.difference import compare
from evalreg.estimators.difference_report import difference_page
from evalreg.estimators.mean import mean
from evalreg.inference.ranks import PAIR_ADJUSTMENTS
from evalreg.logs.fields import the_field
from evalreg.logs.log import Log
from evalreg.logs.table_log import is_text
from evalreg.report.documents import as_compact_json
from evalreg.report.pages import Page, words_of
from evalreg.report.rendering import REPORT_FORMATS, ReportFormat, check_renders, rendered_page
from evalreg.report.tables import visible
from evalreg.results.reporting import format_of, report_page
from evalreg.results.results import Results

EPILOG = """\
The file needs no network and no scripts, is light or dark as the screen is, and
prints. The same log and options give the same bytes.

Examples, on the simulated logs that `evalreg demo --write logs` makes:

  evalreg report logs/models.csv --item question --groups passage \\
      -o report.html
  evalreg report logs/models.csv --item question --groups passage \\
      --baseline old -o differences.html
  evalreg report logs/judge_log.csv --winner winner --groups prompt \\
      -o report.html
  evalreg report logs/judge_log.csv --winner winner --groups prompt \\
      --format md -o comment.md
"""

_FORMAT_HELP = """\
html, one page that opens from disk; md, which fits a comment on a merge request; tex, a document for LaTeX; json, the
results (default: what the end of --output says, or html)"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = "A report in one file: answer, tables, figures, methods, how to redo it."
    parser.add_argument("--title", metavar="TEXT", help="the headline (default: what was estimated)")
    scores = parser.add_argument_group("scores of single models")
    scores.add_argument("--model", metavar="X", help="the column of the models (default: model, where there is one)")
    scores.add_argument("--item", metavar="X", help="the column of the questions; without --groups the clusters")
    scores.add_argument(
        "--sample", metavar="X", help="the column of repeated answers, averaged in their question first"
    )
    offering(
        scores.add_argument(
            "--questions", default="own", metavar="WHICH", help="own (the default), or shared, those that all answered"
        ),
        QUESTIONS,
    )
    differences = parser.add_argument_group("differences from a baseline, over shared questions")
    differences.add_argument(
        "--baseline", metavar="NAME", help="report how the others differ from this model, as `evalreg compare` does"
    )
    offering(
        differences.add_argument(
            "--adjust",
            metavar="NAME",
            help=f"{listed(PAIR_ADJUSTMENTS)}: how p-values, and with single-step intervals, allow for their number",
        ),
        PAIR_ADJUSTMENTS,
    )
    add_pairs(parser.add_argument_group("models compared in pairs"))
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the joint intervals (default: 0)")
    add_shared(parser, formats=REPORT_FORMATS, format_help=_FORMAT_HELP)


def run(options: argparse.Namespace) -> Output:
    """The report as text."""
    check_shared(options)
    option("questions", options.questions, QUESTIONS)
    form = options.format or ("html" if options.output in (None, "-") else format_of(options.output, "--output"))
    check_renders(form)
    roles, key = checked_roles(options), [] if options.key is None else split_names(options.key, "--key")
    if options.adjust is not None:
        option("adjust", options.adjust, PAIR_ADJUSTMENTS)
        if options.baseline is None:
            raise ArgumentError("--adjust goes with --baseline. Without it scores are reported, with joint intervals.")
    text, numbers = _columns(options, key)
    rows = read_rows(options, text, numbers)
    pairs = "left" in rows.roles or (rows.log is None and (options.winner is not None or "left" in rows.frame))
    if pairs:
        _refuse_of_scores(options)
    options.kind = "pairs" if pairs else "models" if options.baseline is not None else "scores"
    if options.baseline is not None:
        page = _compared(rows, options, text, numbers, pairs, pictures=form == "html")
        return _written(page, form, options)
    asked: dict[str, object] = {"groups": options.groups, "key": key}
    with counting(rows), as_options():
        if pairs:
            results: Results = compared(rows, options, asked, key, roles)
            arguments = _asked_of_pairs(options, asked, roles)
            estimator, ranked = METHODS[options.method].__name__, True
        else:
            results, arguments = _scored(rows, options)
            estimator, ranked = "mean", arguments["by"] in ("model", options.model)
    if ranked and not pairs and results.estimate.about.n_models > 1 and (options.item or rows.item):
        options.kind = "models"
    more: dict[str, Any] = {"seed": options.seed} | _log(rows, options)
    page = report_page(
        results,
        options.alpha,
        options.seed,
        title=options.title,
        ranked=ranked and results.estimate.about.n_models > 1,
        left_out=_reading(rows, options),
        command=_command(options.words),
        code=_code(rows, options, text, numbers, estimator, arguments),
        more=more,
        pictures=form == "html",
    )
    return _written(page, form, options)


def _written(page: Page, form: ReportFormat, options: argparse.Namespace) -> Output:
    """The report, and for a person at a terminal what it lacks and where it is."""
    page = _as_typed(page, options)
    output = options.output
    text = rendered_page(page, form)
    if output in (None, "-"):
        return Output(text)
    size = max(1, round(len(text.encode("utf-8", "replace")) / 1000))
    said = f"Wrote {output} ({size:,} kB){'; a browser opens it from disk' if form == 'html' else ''}."
    return Output(text, messages=(*(words_of(line) for line in page.missing if form != "json"), said))


def _as_typed(page: Page, options: argparse.Namespace) -> Page:
    """The page with options named as they are typed."""
    notes, design, missing = (
        tuple(spelled(text, options) for text in texts) for texts in (page.notes, page.design, page.missing)
    )
    document = json.loads(page.document)
    for note in document["notes"]:
        note["text"] = spelled(note["text"], options)
    document["summary"]["sentences"] = [spelled(text, options) for text in document["summary"]["sentences"]]
    return replace(page, notes=notes, design=design, missing=missing, document=as_compact_json(document))


def _log(rows: Rows, options: argparse.Namespace) -> dict[str, Any]:
    """What the document says of the log of a harness."""
    return {} if rows.log is None else {"log": log_document(rows.log, log_notes(rows, options))}


def _compared(
    rows: Rows, options: argparse.Namespace, text: set[Any], numbers: set[Any], pairs: bool, *, pictures: bool
) -> Page:
    """The page of differences from a baseline."""
    if pairs:
        raise ArgumentError("--baseline goes with scores of single models; these rows compare two models each.")
    given = [*of_pairs(options), *(["--weights"] if options.weights is not None else [])]
    given += ["--questions"] if options.questions != "own" else []
    given += ["--seed"] if options.seed != 0 else []
    given += ["--alike"] if options.alike is not None and "--alike" not in given else []
    if given:
        verb, them = ("do", "them") if len(given) > 1 or given == ["--weights"] else ("does", "it")
        raise ArgumentError(f"{' and '.join(given)} {verb} not go with --baseline. Leave {them} out.")
    model = options.model or "model"
    rows.refuse_verdicts(options.score or "score")
    rows.refuse_averaging(model)
    asked: dict[str, Any] = {"score": options.score or "score", "model": model}
    asked |= {"item": options.item or rows.item or "item", "sample": options.sample or rows.sample}
    asked |= {"groups": options.groups, "baseline": options.baseline, "adjust": options.adjust}
    asked |= {"missing": options.missing} | covariance_options(options)
    asked = {name: value for name, value in asked.items() if value is not None}
    with counting(rows), as_options():
        comparison = compare(rows.frame, **asked)
    return difference_page(
        comparison,
        options.alpha,
        title=options.title,
        left_out=_reading(rows, options),
        command=_command(options.words),
        code=_code(rows, options, text, numbers, "compare", asked),
        more=_log(rows, options),
        pictures=pictures,
    )


# Options for scores of single models, and not for comparisons; with the default of each.
_OF_SCORES = {"model": None, "item": None, "sample": None, "questions": "own"}


def _refuse_of_scores(options: argparse.Namespace) -> None:
    """Refuse options that comparisons of two models would not use."""
    given = [f"--{name}" for name, default in _OF_SCORES.items() if getattr(options, name) != default]
    if given:
        verb = "go" if len(given) > 1 else "goes"
        raise ArgumentError(
            f"{' and '.join(given)} {verb} with scores of single models; these rows compare two models each. Their "
            'clusters are named by --groups, such as --groups "prompt + judge".'
        )


def _columns(options: argparse.Namespace, key: list[str]) -> tuple[set[Any], set[Any]]:
    """Names of the columns that are read as text, and of those that are read as they are."""
    factors, plain = formula_names(f"score ~ {options.formula}") if options.formula else (set(), set())
    text = role_names(options.left, options.right, options.winner, options.by, *key)
    text |= role_names(options.model or "model", options.item, options.sample)
    text |= {*group_names(options.groups), *factors}
    score = "score" if options.score is None and options.winner is None else options.score
    numbers = {score, options.weights, *plain}
    return text - numbers, numbers


def _scored(rows: Rows, options: argparse.Namespace) -> tuple[Results, dict[str, Any]]:
    """Means by model, and what was asked of `mean`."""
    given = of_pairs(options)
    if given:
        verb = "go" if len(given) > 1 else "goes"
        model = f" Name the column of the models by --model {shlex.quote(options.by)}." if given == ["--by"] else ""
        raise ArgumentError(f"{' and '.join(given)} {verb} with comparisons; these are scores of single models.{model}")
    rows.refuse_verdicts(options.score or "score")
    by: Any = options.model
    if by is None and "model" in rows.frame and (rows.log is None or rows.several("model")):
        by = "model"
    if by is None and rows.log is not None:
        by = [role for role in ("task", "prompt") if rows.several(role)] or None
    rows.refuse_averaging(*([by] if isinstance(by, str) else by or ()))
    found: dict[str, Any] = {"score": options.score or "score", "by": by}
    found |= {"item": options.item or rows.item, "sample": options.sample or rows.sample}
    found |= {"groups": options.groups, "weights": options.weights, "questions": options.questions}
    found |= {"missing": options.missing} | covariance_options(options)
    found.pop("alike", None)
    if options.alike is not None:
        raise ArgumentError("--alike goes with comparisons; these are scores of single models.")
    return mean(rows.frame, **found), found


def _reading(rows: Rows, options: argparse.Namespace) -> tuple[str, ...]:
    """What was read, and what was not used of it."""
    found = list(log_notes(rows, options))
    if rows.log is None:
        found.append(f"{rows.n_read:,} rows were read.")
    if options.where is not None:
        found.append(f"The filter kept {len(rows.frame):,} of {rows.n_read:,} rows: {visible(options.where)}")
    return tuple(found)


# How to do it again


def _command(words: list[str]) -> str:
    """The command line, for a shell that understands ``$'...'`` where a word holds what cannot be shown."""
    return " ".join(["evalreg", *map(_quoted, words)])


def _quoted(word: str) -> str:
    shown = visible(word)
    if shown == word:
        return shlex.quote(word)
    spelled = visible(word.replace("\\", "\\\\").replace("'", "\\'"))
    return f"$'{spelled}'"


def _asked_of_pairs(options: argparse.Namespace, asked: dict[str, object], roles: dict[str, Any]) -> dict[str, Any]:
    """What was asked of the estimator of a board."""
    found: dict[str, Any] = {"left": options.left, "right": options.right}
    found |= {name: asked[name] for name in ("winner", "score", "groups")} | {"key": asked["key"] or None}
    found |= roles | {"weights": options.weights, "missing": options.missing}
    found["labels"] = None if options.labels is None else meanings(options.labels)
    return found | covariance_options(options)


def _code(
    rows: Rows,
    options: argparse.Namespace,
    text: set[Any],
    numbers: set[Any],
    estimator: str,
    arguments: dict[str, Any],
) -> str:
    """The same in Python."""
    text = {*text, *([] if options.text is None else split_names(options.text, "--text"))} - {None}
    log = rows.log
    imports, lines = _of_tables(rows, options, text, numbers) if log is None else _of_a_log(log, rows, options, text)
    if options.where is not None:
        arguments = arguments | {"subset": options.where}
    lines.append(_call(estimator, arguments))
    title = "" if options.title is None else f", title={options.title!r}"
    seed = "" if options.baseline is not None else f", seed={options.seed}"
    lines.append(f'results.report("report.html", alpha={options.alpha!r}{seed}{title})')
    return "\n".join(map(visible, [*imports, "", *lines]))


def _of_a_log(log: Log, rows: Rows, options: argparse.Namespace, text: set[str]) -> tuple[list[str], list[str]]:
    """Imports, and lines that read the log of a harness as the command read it, before its filter."""
    made = "".join(f", {name}={value!r}" for name, value in (choices(options) | dict(rows.read_by)).items())
    lines = [f"rows = er.read_log({file_list(options)!r}{made}).frame.copy()"]
    for name in map(str, rows.frame.columns):
        column = the_field(name, log.frame.columns)
        if name != column:
            lines.append(f"rows[{name!r}] = rows[{column!r}]")
        if name in text and is_numeric_dtype(log.frame[column]):
            lines.append(f"rows[{name!r}] = rows[{name!r}].map(str, na_action='ignore')")
    return ["import evalreg as er"], lines


def _of_tables(
    rows: Rows, options: argparse.Namespace, text: set[str], numbers: set[Any]
) -> tuple[list[str], list[str]]:
    """Imports, and lines that read plain tables as the command read them, before its filter."""
    held, conditions = set(rows.frame.columns), () if options.where is None else parse(options.where).columns
    nested = sorted(name for name in ({*numbers, *conditions} - text) & held if "." in name)
    imports = ["import evalreg as er"]
    with muted():  # the command has said already what there is to warn of
        files = table_files(file_list(options))
    if len(files) > 1:  # text in one file and numbers in another has become text in all
        text = text | {name for name in held if is_text(rows.frame[name])}
    asked = f", text_columns={sorted(text & held)!r}" + (f", fields={nested!r}" if nested else "")
    if len(files) == 1:
        return imports, [f"rows = er.read_table({files[0]!r}{asked})"]
    every = f"rows = pd.concat([er.read_table(file{asked}) for file in files], ignore_index=True)"
    return ["import pandas as pd", "", *imports], [f"files = {files!r}", every]


_DEFAULTS = {"missing": "drop", "questions": "own", "opponents": "uniform", "ties": "half", "scale": "logit"}


def _call(name: str, arguments: dict[str, Any]) -> str:
    """A call of an estimator with the arguments that are not their defaults."""
    given = {key: value for key, value in arguments.items() if value is not None and _DEFAULTS.get(key) != value}
    score = given.pop("score", None)
    words = [] if score is None else [f"score={score!r}"]
    words += [f"{key}={value!r}" for key, value in given.items()]
    return f"results = er.{name}(rows, {', '.join(words)})"

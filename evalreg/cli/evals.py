"""``evalreg evals``: several evals side by side, their average, and a forest plot."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import Any, get_args

from evalreg.checks import adjustment, option
from evalreg.cli.logs import file_list, log_document, short_names
from evalreg.cli.parsing import Output, offering
from evalreg.cli.ranked import add_figure, save_figure
from evalreg.cli.selection import Rows, counting, group_names, read_rows, role_names, split_names
from evalreg.cli.shared import (
    add_shared,
    check_shared,
    covariance_options,
    csv_text,
    document_text,
    formats_of,
    listed,
    log_notes,
    resolved_of_each,
)
from evalreg.data.names import known_column
from evalreg.errors import ArgumentError, EvalregError
from evalreg.estimators.comparison import Comparison
from evalreg.estimators.difference import compare
from evalreg.estimators.mean import mean
from evalreg.report.documents import records
from evalreg.report.tables import Summary
from evalreg.suites.average import SUITE_ADJUSTMENTS, EvalAverage, TasksName
from evalreg.suites.evals import FORMS, Evals, join_evals

EPILOG = """\
Examples, on the simulated logs that `evalreg demo --write logs` makes, where
subjects stand in the place of evals:

  evalreg evals logs/passages.csv --eval subject --groups passage
  evalreg evals logs/passages.csv --eval subject --groups passage --average
  evalreg evals logs/passages.csv --eval subject --groups passage --average \\
      --tasks drawn --figure subjects.png

Of several models, each file an eval: evalreg evals A B --item question
--baseline old --average --figure evals.png --show "new - old"
"""

_ADJUST_HELP = f"{listed(SUITE_ADJUSTMENTS)}: with --baseline, how p-values allow for all differences on all evals"
_WEIGHTS_HELP = """\
with --average: the weight of each eval, such as "reading=0.25,maths=0.75" (default: equal); "precision", with --tasks
drawn, weighs evals by how well they are known"""


@dataclass(frozen=True, eq=False)
class Joined:
    """What the command found."""

    suite: Evals
    average: EvalAverage | None
    rows: dict[str, Rows]  # by eval
    asked: dict[str, argparse.Namespace]  # the options of each
    options: argparse.Namespace


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = (
        "Scores of models on several evals, or how they differ from a baseline, side by side; their average\n"
        "over evals; a forest plot. Nothing is pooled that was not asked for."
    )
    parser.add_argument(
        "--eval",
        metavar="X",
        help="the column that says which eval a row is of (default: the tasks of a log; of several files, each FILE is "
        "an eval)",
    )
    parser.add_argument("--names", metavar="A,B", help="of several files: the names of the evals (default: the files)")
    parser.add_argument("--score", default="score", metavar="X", help="the column of the scores (default: score)")
    parser.add_argument("--model", metavar="X", help="the column of the models (default: model, where there is one)")
    parser.add_argument(
        "--item", metavar="X", help="the column of the questions; without --groups they are the clusters"
    )
    parser.add_argument(
        "--sample", metavar="X", help="the column of repeated answers, which are averaged within their question first"
    )
    parser.add_argument("--baseline", metavar="NAME", help="show how the others differ from this model, paired")
    offering(parser.add_argument("--adjust", metavar="NAME", help=_ADJUST_HELP), SUITE_ADJUSTMENTS)
    parser.add_argument(
        "--form",
        choices=list(FORMS),
        help="of scores: models by evals with counts below (the default), without, or clustered beside naive errors",
    )
    average = parser.add_argument_group("average over evals")
    average.add_argument(
        "--average",
        action="store_true",
        help="also the average of each model, or of each difference; CSV holds it alone",
    )
    average.add_argument(
        "--tasks",
        choices=list(get_args(TasksName)),
        default="fixed",
        help="fixed: the average is about these evals (the default); drawn: about tasks of which they are a sample",
    )
    offering(average.add_argument("--eval-weights", metavar="W", help=_WEIGHTS_HELP), ("precision",))
    add_figure(parser, "a forest plot of one model, or of one difference,")
    parser.add_argument(
        "--show", metavar="NAME", help='with --figure: the model, or the difference such as "new - old"'
    )
    add_shared(parser, weights=False)


def run(options: argparse.Namespace) -> Output:
    """What ``evalreg evals`` prints."""
    check_shared(options)
    _check(options)
    rows, asked = _each(options)
    parts: dict[str, Any] = {}
    for name, one in rows.items():
        try:
            with counting(one):
                parts[name] = _estimated(one, options)
        except EvalregError as error:
            error.add_note(f"(In the eval {name!r}.)")
            raise
    suite: Any = (
        join_evals(parts, form=options.form) if options.baseline is None else join_evals(parts, adjust=options.adjust)
    )
    average = suite.average(_weights(options.eval_weights), tasks=options.tasks) if options.average else None
    if options.figure is not None:
        shown = options.show or _only(suite)
        save_figure(lambda: suite.plot(shown, average=average or False, alpha=options.alpha), options.figure)
    found = Joined(suite, average, rows, asked, options)
    return Output(FORMATS[options.format](found), messages=_log_sentences(found) if options.format == "csv" else ())


def _check(options: argparse.Namespace) -> None:
    """Refuse options that do not fit together, before files are read."""
    options.adjust = adjustment("adjust", options.adjust, SUITE_ADJUSTMENTS)
    if options.adjust is not None and options.baseline is None:
        raise ArgumentError("`--adjust` is of p-values, which differences have: name a --baseline.")
    if options.adjust is not None and options.average and options.format == "csv":
        raise ArgumentError(
            "`--adjust` is of the differences on each eval, which CSV does not hold beside --average. Leave out one of "
            "the two, or take another --format."
        )
    if options.form is not None and options.baseline is not None:
        raise ArgumentError("`--form` is of scores; differences have one form. Leave out one of --form and --baseline.")
    if not options.average and (options.eval_weights is not None or options.tasks != "fixed"):
        raise ArgumentError("`--eval-weights` and `--tasks` are of the average: add --average.")
    if options.show is not None and options.figure is None:
        raise ArgumentError("`--show` chooses what --figure draws: add --figure FILE.")
    option("tasks", options.tasks, get_args(TasksName))
    _weights(options.eval_weights)


def _weights(text: str | None) -> Any:
    """Weights by eval, a rule by its name, or None."""
    if text is None or "=" not in text:
        return text if text is None else option("eval_weights", text, ("precision",))
    weights: dict[str, float] = {}
    for part in split_names(text, "--eval-weights"):
        name, _, value = part.rpartition("=")
        try:
            weights[name] = float(value)
        except ValueError:
            raise ArgumentError(
                f'`--eval-weights` must be one number for each eval, such as "reading=0.25,maths=0.75"; got "{part}".'
            ) from None
    return weights


def _each(options: argparse.Namespace) -> tuple[dict[str, Rows], dict[str, argparse.Namespace]]:
    """The rows of each eval: of the values of a column, or of each file."""
    files = file_list(options)
    if len(files) > 1 and options.eval is None:
        names = (
            short_names(files, "Every FILE is an eval of its own")
            if options.names is None
            else split_names(options.names, "--names")
        )
        if len(names) != len(files) or len(set(names)) < len(names):
            raise ArgumentError(
                f"`--names` must be {len(files)} names that differ, one for each FILE; got {listed([*names])}."
            )
        own = {
            name: argparse.Namespace(**{**vars(options), "file": file}) for name, file in zip(names, files, strict=True)
        }
        return {name: _read(one) for name, one in own.items()}, own
    if options.names is not None:
        raise ArgumentError("`--names` is of several files, each an eval; the evals of a column have its values.")
    rows = _read(options)
    column = options.eval or ("task" if rows.several("task") else None)
    if column is None:
        raise ArgumentError(
            "`--eval` must name the column that says which eval a row is of; the file has no tasks of its own. Or name "
            "several files, each an eval."
        )
    labels = rows.frame[known_column(column, [str(name) for name in rows.frame.columns], "eval")]
    if labels.isna().any():
        raise ArgumentError(f"every row must say its eval; {int(labels.isna().sum())} of column {column!r} do not.")
    evals = [str(name) for name in labels.unique()]
    return {name: replace(rows, frame=rows.frame[labels.astype(str) == name]) for name in evals}, dict.fromkeys(
        evals, options
    )


def _read(options: argparse.Namespace) -> Rows:
    named = role_names(options.item, options.sample, options.eval, options.model or "model") | group_names(
        options.groups
    )
    rows = read_rows(options, named - {options.score}, {options.score})
    rows.refuse_verdicts(options.score)
    return rows


def _estimated(rows: Rows, options: argparse.Namespace) -> Any:
    """Scores by model on one eval, or differences from the baseline."""
    model, frame = options.model or "model", rows.frame
    if options.model is None and "model" not in frame and options.baseline is None:
        frame = frame.assign(model=options.score)  # one model, which the table has no column for
    rows.refuse_averaging(model)
    asked: dict[str, Any] = {"item": options.item or rows.item, "sample": options.sample or rows.sample}
    asked |= {"groups": options.groups, "missing": options.missing, **covariance_options(options)}
    if options.baseline is None:
        return mean(frame, options.score, by=model, **asked)
    asked["item"] = asked["item"] or "item"
    return compare(frame, options.score, model=model, baseline=options.baseline, **asked)


def _only(suite: Evals) -> str:
    """What there is to draw, where it is one thing; else the first is not guessed."""
    names = list(dict.fromkeys(" - ".join(map(str, key[1:])) for key in suite.to_frame().index))
    if len(names) > 1:
        raise ArgumentError(f'`--figure` draws one of {len(names)}: name it, as in --show "{names[0]}".')
    return names[0]


def _log_sentences(found: Joined) -> tuple[str, ...]:
    """What was read of the logs, each sentence once."""
    said = (text for name, rows in found.rows.items() for text in log_notes(rows, found.asked[name]))
    return tuple(dict.fromkeys(said))


def _summarized(found: Joined) -> Summary:
    summary, alpha = found.suite.summary(found.options.alpha), found.options.alpha
    facts, grids, sentences = summary.facts, summary.grids, summary.sentences
    if found.average is not None:
        own = found.average.summary(alpha)
        (grid,) = own.grids
        facts, sentences = (*facts, *own.facts), (*sentences, *own.sentences)
        grids = (*grids, replace(grid, headers=("average over evals", *grid.headers[1:])))
        sentences = tuple(
            text for text in sentences if "Nothing is pooled" not in text
        )  # the average says what is left of it
    sentences = tuple(text.replace("`average()` does that", "--average does that") for text in sentences)
    if found.options.where is not None:
        kept = sum(len(rows.frame) for rows in found.rows.values())
        facts = (*facts, ("Where", f"{found.options.where} ({kept} rows kept)"))
    return replace(summary, facts=facts, grids=grids, sentences=(*_log_sentences(found), *sentences))


def _as_csv(found: Joined) -> str:
    alpha = found.options.alpha
    frame = found.suite.to_frame(alpha) if found.average is None else found.average.to_frame(alpha).rename_axis("name")
    return csv_text(frame.reset_index(), found.options.spreadsheet)


def _as_json(found: Joined) -> str:
    alpha, options = found.options.alpha, found.options
    table, suite = found.suite.to_frame(alpha), found.suite.parts
    own: dict[str, object] = {"kind": "evals", "table": records(table, *map(str, table.index.names))}
    if found.average is not None:
        own["average"] = _average_document(found.average, alpha)
    own["logs"] = {
        name: log_document(rows.log, log_notes(rows, found.asked[name]))
        for name, rows in found.rows.items()
        if rows.log is not None
    }
    own |= {
        "rows_kept": {name: len(rows.frame) for name, rows in found.rows.items()},
        "rows_read": {name: rows.n_read for name, rows in found.rows.items()},
    }
    asked = ("adjust", "alpha", "average", "baseline", "command", "cov", "dof", "eval", "eval_weights", "file", "form")
    more = ("groups", "item", "missing", "model", "names", "repair", "sample", "score", "ssc", "tasks", "text", "where")
    covs = {name: (part.results if isinstance(part, Comparison) else part).cov for name, part in suite.items()}
    own["resolved"], options = resolved_of_each(covs, options)
    notes = ((text, None) for text in _summarized(found).sentences)
    return document_text(own, notes, (*asked, *more), options)


def _average_document(average: EvalAverage, alpha: float) -> dict[str, object]:
    own: dict[str, object] = {"table": records(average.to_frame(alpha), "name"), "tasks": average.tasks}
    own["weights"] = dict(zip(average.evals, average.weights, strict=False))
    if average.pairs is not None and len(average.names) > 1:
        own["pairwise"] = records(average.pairwise(alpha=alpha), "left", "right")
    return own


FORMATS = formats_of(_summarized, _as_json, _as_csv)

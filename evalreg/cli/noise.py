"""``evalreg noise``: how much of each error bar is the sampling of answers, how much that of questions."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pandas as pd

from evalreg.checks import fraction
from evalreg.cli.parsing import Output
from evalreg.cli.selection import Rows, counting, group_names, read_rows, role_names
from evalreg.cli.shared import (
    add_shared,
    check_rows,
    csv_text,
    document_text,
    formats_of,
    log_messages,
    with_rows,
)
from evalreg.errors import ArgumentError, MissingColumnError
from evalreg.noise.noise import Noise, noise
from evalreg.report.tables import Summary

EPILOG = """\
Examples, on the simulated pilot that `evalreg demo --write logs` makes:

  evalreg noise logs/pilot.csv --item question --sample sample
  evalreg noise logs/pilot.csv --item question --sample sample --groups passage
  evalreg noise logs/pilot.csv --item question --sample sample \\
      --table pairs --format csv

Of a table with one row for each model and question, and counts of answers:

  evalreg noise counts.csv --passes right --n-samples answers
"""


@dataclass(frozen=True, eq=False)
class Found:
    """What the command found."""

    noise: Noise
    rows: Rows
    options: argparse.Namespace


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = "How much of each error bar is the sampling of answers, and how much that of questions."
    roles = parser.add_argument_group("columns")
    roles.add_argument("--score", default="score", metavar="X", help="the column of the scores (default: score)")
    roles.add_argument(
        "--model", default="model", metavar="X", help='the column of the models (default: model); "none": one model'
    )
    roles.add_argument(
        "--item",
        default="item",
        metavar="X",
        help='the column of the questions (default: item), or "task:question" where ids repeat between tasks',
    )
    roles.add_argument("--sample", metavar="X", help="the column that numbers the answers of a model to a question")
    roles.add_argument("--passes", metavar="X", help="the column of counts of right answers, in place of single ones")
    roles.add_argument(
        "--n-samples",
        metavar="X",
        help="the column of counts of answers; without --passes, the scores are shares of right ones",
    )
    parser.add_argument(
        "--power", type=float, default=0.8, metavar="P", help="the chance of finding a detectable difference (0.8)"
    )
    parser.add_argument(
        "--table", choices=("models", "pairs"), default="models", help="what a row of CSV is (default: models)"
    )
    add_shared(parser, weights=False, covariance=False)


def run(options: argparse.Namespace) -> Output:
    """What ``evalreg noise`` prints."""
    check_rows(options)
    fraction("power", options.power)
    if options.table != "models" and options.format != "csv":
        raise ArgumentError(f'`--table` goes with --format csv; "{options.format}" holds both tables. Leave it out.')
    counts = {options.passes, options.n_samples}
    model = None if options.model.lower() == "none" else options.model
    roles = role_names(model, options.item, options.sample) | group_names(options.groups)
    # Counts stand in the place of scores.
    numbers = (counts if options.passes is not None else {*counts, options.score}) - {None}
    rows = read_rows(options, roles - numbers, numbers)
    if options.passes is None:
        rows.refuse_verdicts(options.score)
    if rows.log is not None and model == "model" and model not in rows.frame:
        model = None
    rows.refuse_averaging(*(() if model is None else (model,)))
    options.item = rows.item or options.item if options.item == "item" else options.item
    options.sample = options.sample or (rows.sample if options.n_samples is None else None)
    with counting(rows), _with_one_model(rows, model):
        found = noise(
            rows.frame,
            options.score,
            model=model,
            item=options.item,
            sample=options.sample,
            passes=options.passes,
            n_samples=options.n_samples,
            groups=options.groups,
            alpha=options.alpha,
            power=options.power,
            missing=options.missing,
        )
    return Output(FORMATS[options.format](Found(found, rows, options)), messages=log_messages(rows, options))


@contextmanager
def _with_one_model(rows: Rows, model: str | None) -> Iterator[None]:
    """Say of a table without models what it needs."""
    try:
        yield
    except MissingColumnError as error:
        if model is None or model in rows.frame:
            raise
        text = str(error).replace("write model=None", "write --model none")
        raise MissingColumnError(text, column=error.column) from None


def _summary(found: Found) -> Summary:
    summary, rows, options = found.noise.summary(), found.rows, found.options
    return with_rows(summary, rows, options)


def _as_csv(found: Found) -> str:
    return csv_text(found.noise.to_frame(found.options.table).reset_index(), found.options.spreadsheet)


def _as_json(found: Found) -> str:
    first = ("alpha", "command", "file", "groups", "item", "missing", "model", "n_samples", "passes", "power")
    names = (*first, "sample", "score", "text", "where")
    of = found.noise
    categories = {text: category.__name__ for category, text in of.notes}
    own = {
        "benchmark": {name: getattr(of, name) for name in ("detectable", "enough_answers", "smallest_shown")},
        "dropped": {str(reason): int(count) for reason, count in of.results.dropped.items()},
        "kind": "noise",
        "models": _records(of.models),
        "pairs": _records(of.pairs),
    }
    notes = ((text, categories.get(text)) for text in of.summary().sentences)
    return document_text(own, notes, names, found.options, found.rows)


def _records(frame: pd.DataFrame) -> list[dict[str, object]]:
    return [{str(key): value for key, value in row.items()} for row in frame.reset_index().to_dict("records")]


FORMATS = formats_of(_summary, _as_json, _as_csv)

"""``evalreg table``: several results side by side, one column for each log or for each formula."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace

from evalreg.checks import FAMILIES
from evalreg.cli.fit import fitted
from evalreg.cli.logs import file_list, log_document, short_names
from evalreg.cli.mean import averaged
from evalreg.cli.parsing import Output, offering
from evalreg.cli.selection import Rows, split_names
from evalreg.cli.shared import (
    add_shared,
    check_shared,
    csv_text,
    document_text,
    formats_of,
    listed,
    log_notes,
    resolved_of_each,
)
from evalreg.errors import ArgumentError, EvalregError
from evalreg.estimators.pair_tables import by_part
from evalreg.report.tables import Summary
from evalreg.results.results import Results
from evalreg.suites.table import BENEATH, ResultsTable, fact_rows, table

EPILOG = """\
Examples, on the simulated logs that `evalreg demo --write logs` makes:

  evalreg table logs/passages.csv --groups passage --formula "score ~ 1" \\
      --formula "score ~ n_words" --formula "score ~ n_words + C(subject)"
  evalreg table logs/models.csv logs/pilot.csv --groups passage --by model
  evalreg table logs/passages.csv --groups passage --formula "score ~ n_words" \\
      --stars --format latex
"""

_FORMULA_HELP = """\
a formula as in evalreg fit, such as "score ~ C(model) + tokens"; may be repeated, with one column of the table for each
(default: means, as in evalreg mean)"""

# Options of means that have no place here, as evalreg mean has them by default.
_OF_MEANS = {"questions": "own", "strata": None, "strata_weights": "micro", "population": None}


@dataclass(frozen=True, eq=False)
class ColumnsFound:
    """What the command found."""

    table: ResultsTable
    rows: dict[str, Rows]  # by the header of the column
    asked: dict[str, argparse.Namespace]  # the options of each column
    options: argparse.Namespace


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = (
        "Several results in one table, one column for each log or for each formula.\n"
        "Every FILE is a column of its own: a file, a folder or a pattern."
    )
    parser.add_argument("--formula", action="append", default=[], metavar="FORMULA", help=_FORMULA_HELP)
    parser.add_argument(
        "--score", metavar="X", help='the column of the scores, which "score" means in a formula (default: score)'
    )
    offering(
        parser.add_argument("--family", default="gaussian", metavar="NAME", help=f"{listed(FAMILIES)}, with --formula"),
        FAMILIES,
    )
    parser.add_argument("--by", metavar="A,B", help="means: the columns of the models")
    parser.add_argument("--item", metavar="X", help="means: the column of the questions")
    parser.add_argument("--sample", metavar="X", help="means: the column of repeated answers")
    shown = parser.add_argument_group("what is shown")
    shown.add_argument("--names", metavar="A,B", help="headers of the columns (default: formulas, or names of files)")
    shown.add_argument("--keep", metavar="A,B", help="the parameters shown (default: all)")
    shown.add_argument(
        "--beneath", choices=list(BENEATH), default="se", help="what is below each coefficient (default: se)"
    )
    shown.add_argument("--stars", action="store_true", help="mark p-values below .05, .01 and .001")
    add_shared(parser)


def run(options: argparse.Namespace) -> Output:
    """What ``evalreg table`` prints."""
    check_shared(options)
    _check_means(options)
    files, formulas = file_list(options), options.formula or [None]
    columns = [(file, formula) for file in files for formula in formulas]
    names = _headers(files, formulas) if options.names is None else split_names(options.names, "--names")
    if len(names) != len(columns) or len(set(names)) < len(names):
        raise ArgumentError(
            f"`--names` must be {len(columns)} names that differ, one for each column ({len(files)} x {len(formulas)} "
            f'logs by formulas); got "{options.names}".'
        )
    found = [_column(options, *column, name) for column, name in zip(columns, names, strict=True)]
    made = table(
        [results for results, _ in found],
        names,
        beneath=options.beneath,
        stars=options.stars,
        keep=None if options.keep is None else split_names(options.keep, "--keep"),
    )
    asked = ColumnsFound(
        made,
        {name: rows for name, (_, rows) in zip(names, found, strict=True)},
        {name: _of_column(options, *column) for name, column in zip(names, columns, strict=True)},
        options,
    )
    messages = _log_sentences(asked) if options.format == "csv" else ()
    return Output(FORMATS[options.format](asked), messages=messages)


def _check_means(options: argparse.Namespace) -> None:
    """Refuse options of means beside formulas, and of regressions without."""
    given = [f"--{name}" for name in ("by", "item", "sample") if getattr(options, name) is not None]
    if options.formula and given:
        raise ArgumentError(f"{listed(given) if len(given) > 1 else given[0]} and --formula exclude each other.")
    if not options.formula and options.family != "gaussian":
        raise ArgumentError("`--family` goes with --formula; means have none.")


def _headers(files: list[str], formulas: list[str | None]) -> list[str]:
    """Headers that tell the columns apart: files, formulas, or both; of files the end that tells them apart."""
    short = short_names(files, "Every log is a column of its own")
    if formulas == [None]:
        return short
    if len(set(formulas)) < len(formulas):
        raise ArgumentError("Every `--formula` is a column of its own; the same one is given twice. Give it once.")
    return [f"{name}: {formula}" if len(files) > 1 else f"{formula}" for name in short for formula in formulas]


def _column(options: argparse.Namespace, file: str, formula: str | None, name: str) -> tuple[Results, Rows]:
    """The results of one column, and the rows that they are of; an error says in which column it is."""
    try:
        return _estimated(options, file, formula)
    except EvalregError as error:
        error.add_note(f"(In the column {name!r} of the table.)")
        raise


def _estimated(options: argparse.Namespace, file: str, formula: str | None) -> tuple[Results, Rows]:
    own = _of_column(options, file, formula)
    if formula is not None:
        return fitted(own)[:2]
    vars(own).update(_OF_MEANS, score="score" if options.score is None else options.score)
    return averaged(own)[:2]


def _of_column(options: argparse.Namespace, file: str, formula: str | None) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(options), "file": file, "formula": formula, "strata": None})


def _log_sentences(found: ColumnsFound) -> tuple[str, ...]:
    """What was read of each log; what all columns share once."""
    return tuple(by_part({name: log_notes(rows, found.asked[name]) for name, rows in found.rows.items()}))


def _summarized(found: ColumnsFound) -> Summary:
    summary = found.table.summary(found.options.alpha)
    facts = []
    if found.options.where is not None:
        kept = dict.fromkeys(f"{len(rows.frame)} of {rows.n_read} rows" for rows in found.rows.values())
        facts = [("Where", f"{found.options.where} ({', '.join(kept)})")]
    return replace(summary, facts=tuple(facts), sentences=(*_log_sentences(found), *summary.sentences))


def _as_csv(found: ColumnsFound) -> str:
    return csv_text(found.table.to_frame(found.options.alpha).reset_index(), found.options.spreadsheet)


def _as_json(found: ColumnsFound) -> str:
    names = list(found.table.parts)
    facts = {row[0]: dict(zip(names, row[1:], strict=True)) for row in fact_rows(found.table.parts)}
    own: dict[str, object] = {
        "coefficients": found.table.to_frame(found.options.alpha).reset_index().to_dict("records"),
        "columns": names,
        "facts": facts,
        "kind": "table",
        "logs": {
            name: log_document(rows.log, log_notes(rows, found.asked[name]))
            for name, rows in found.rows.items()
            if rows.log is not None
        },
    }
    own["rows_kept"] = {name: len(rows.frame) for name, rows in found.rows.items()}
    own["rows_read"] = {name: rows.n_read for name, rows in found.rows.items()}
    first = ("alpha", "beneath", "by", "command", "cov", "dof", "family", "file", "formula", "groups", "item", "keep")
    more = ("missing", "names", "repair", "sample", "score", "ssc", "stars", "text", "weights", "where")
    covs = {name: part.cov for name, part in found.table.parts.items() if isinstance(part, Results)}
    own["resolved"], options = resolved_of_each(covs, found.options)
    notes = ((text, None) for text in found.table.summary(found.options.alpha).sentences)
    return document_text(own, notes, (*first, *more), options)


FORMATS = formats_of(_summarized, _as_json, _as_csv)

"""``evalreg components``: how much items, judges, templates and their interactions vary."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from typing import get_args

import pandas as pd

from evalreg.checks import fraction, option
from evalreg.cli.parsing import Output, offering
from evalreg.cli.pooled import facet_names
from evalreg.cli.selection import Rows, counting, read_rows, split_names
from evalreg.cli.shared import (
    add_shared,
    check_rows,
    csv_text,
    document_text,
    formats_of,
    listed,
    log_messages,
    with_rows,
)
from evalreg.errors import ArgumentError
from evalreg.planning.facet_components import FacetMethodName, components
from evalreg.planning.facet_result import FacetComponents
from evalreg.report.tables import Grid, Summary, number

EPILOG = """\
Examples, on the simulated logs that `evalreg demo --write logs` makes:

  evalreg components logs/pilot.csv --facets "model x question x sample"
  evalreg components logs/models.csv --facets "model x question" \\
      --design model=2,question=400 --design model=2,question=1600
  evalreg components logs/models.csv \\
      --facets "model x passage x question:passage" --format csv
"""

METHODS = get_args(FacetMethodName)

_FACETS_HELP = """\
columns joined by " x " where they are crossed, such as "item x judge x template"; "judge:item" where each item has
judges of its own; at most five"""

_DESIGN_HELP = """\
how many levels of each facet another log would have, such as "item=400,judge=3": the standard error of its mean score;
may be repeated. "repeats=2" is scores of each combination"""


@dataclass(frozen=True, eq=False)
class FacetsFound:
    """What the command found."""

    result: FacetComponents
    designs: pd.DataFrame  # one row a design, with its standard error; empty where none was asked for
    rows: Rows
    options: argparse.Namespace


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = "Variance components of a log by its facets: how much each of them moves a score."
    parser.add_argument("--facets", required=True, metavar="FACETS", help=_FACETS_HELP)
    parser.add_argument("--score", default="score", metavar="X", help="the column of the scores (default: score)")
    offering(
        parser.add_argument(
            "--method",
            default="anova",
            metavar="NAME",
            help=f"{listed(METHODS)}: Henderson's method 1 (the default) or MINQUE(0); the same on balanced logs",
        ),
        METHODS,
    )
    parser.add_argument("--design", action="append", default=[], metavar="DESIGN", help=_DESIGN_HELP)
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the intervals (default: 0)")
    add_shared(parser, groups=False, weights=False, covariance=False)


def run(options: argparse.Namespace) -> Output:
    """What ``evalreg components`` prints."""
    check_rows(options)
    fraction("alpha", options.alpha)
    option("method", options.method, METHODS)
    asked = [_design(text) for text in options.design]
    facets = facet_names(options.facets)
    rows = read_rows(options, set(facets) - {options.score}, {options.score})
    rows.refuse_verdicts(options.score)
    rows.refuse_averaging(*facets)
    if rows.several("model") and "model" not in facets:
        raise ArgumentError(
            f"The log has {rows.frame['model'].nunique()} models. Make them a facet, as in --facets "
            f'"model x {options.facets}", or keep one by --where.'
        )
    with counting(rows):
        result = components(
            rows.frame,
            options.score,
            facets=options.facets,
            method=options.method,
            alpha=options.alpha,
            missing=options.missing,
            seed=options.seed,
        )
    designs = pd.DataFrame([{**design, "standard_error": result.standard_error(**design)} for design in asked])
    found = FacetsFound(result, designs, rows, options)
    messages = _of_designs(designs) if options.format == "csv" else ()
    return Output(FORMATS[options.format](found), messages=(*messages, *log_messages(rows, options)))


def _of_designs(designs: pd.DataFrame) -> tuple[str, ...]:
    """The standard errors of designs as sentences, for CSV, which has no place for them."""
    return tuple(
        f"Design {', '.join(f'{name}={row[name]:.0f}' for name in designs.columns[:-1])}: standard error "
        f"{row['standard_error']:.6g}."
        for row in designs.to_dict("records")
    )


def _design(text: str) -> dict[str, int]:
    """Levels by facet, from ``item=400,judge=3``."""
    design: dict[str, int] = {}
    for part in split_names(text, "--design"):
        name, _, count = part.rpartition("=")
        if not name or not count.isdecimal() or name in design:
            raise ArgumentError(
                '`--design` must be one whole number for each facet, such as "item=400,judge=3"; '
                f'got "{part}" in "{text}".'
            )
        design[name] = int(count)
    return design


def _summarized(found: FacetsFound) -> Summary:
    summary = with_rows(found.result.summary(), found.rows, found.options)
    if found.designs.empty:
        return summary
    names = [str(name) for name in found.designs.columns[:-1]]
    rows = tuple(
        (f"design {place + 1}", *(f"{row[name]:.0f}" for name in names), number(row["standard_error"]))
        for place, row in enumerate(found.designs.to_dict("records"))
    )
    text = "standard error: of the mean score of a balanced log of that design, all its facets drawn anew."
    grid = Grid(("", *names, "standard error"), rows)
    return replace(summary, grids=(*summary.grids, grid), sentences=(text, *summary.sentences))


def _as_csv(found: FacetsFound) -> str:
    return csv_text(found.result.table.reset_index(), found.options.spreadsheet)


def _as_json(found: FacetsFound) -> str:
    result = found.result
    own = {
        "components": result.table.reset_index().to_dict("records"),
        "designs": found.designs.to_dict("records"),
        "dropped": {str(reason): int(count) for reason, count in result.dropped.items()},
        "facets": list(result.facets),
        "kind": "components",
        "mean": result.mean,
        "n_rows": result.n_rows,
    }
    asked = ("alpha", "command", "design", "facets", "file", "method", "missing", "score", "seed", "text", "where")
    notes = ((text, None) for text in result.summary().sentences)
    return document_text(own, notes, asked, found.options, found.rows)


FORMATS = formats_of(_summarized, _as_json, _as_csv)

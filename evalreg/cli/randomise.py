"""``evalreg randomise``: the exact test of a treatment that was assigned to whole clusters at random."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass

import pandas as pd

from evalreg.checks import option
from evalreg.cli.parsing import Output, offering
from evalreg.cli.selection import Rows, counting, group_names, read_rows, role_names, split_names
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
from evalreg.report.tables import Summary
from evalreg.resampling.assignments import STATISTICS
from evalreg.resampling.randomisation import randomisation_test
from evalreg.resampling.randomisation_result import RandomisationTest

EPILOG = """\
Examples, on the simulated logs that `evalreg demo --write logs` makes; a column
of prompts that were assigned to passages would stand in the place of subject:

  evalreg randomise logs/passages.csv --treatment subject --groups passage \\
      --levels medicine,history
  evalreg randomise logs/passages.csv --treatment subject --groups passage \\
      --levels medicine,history --statistic difference --draws 99999
"""


@dataclass(frozen=True, eq=False)
class LotsFound:
    """What the command found."""

    test: RandomisationTest
    rows: Rows
    options: argparse.Namespace


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = (
        "Test of a treatment that was assigned to whole clusters (or rows) at random,\n"
        "by the assignments there could have been: exact with however few clusters."
    )
    parser.add_argument(
        "--treatment",
        required=True,
        metavar="X",
        help="the column of the treatment, one label a cluster",
    )
    parser.add_argument("--score", default="score", metavar="X", help="the column of the scores (default: score)")
    parser.add_argument(
        "--levels",
        metavar="A,B",
        help="the treated label and the one it is compared with; needed if more than two",
    )
    parser.add_argument("--strata", metavar="X", help="the column of strata within which treatment was assigned")
    offering(
        parser.add_argument(
            "--statistic",
            default="t",
            metavar="NAME",
            help=f"{listed(STATISTICS)}: the difference over its error by clusters (the default), or the difference "
            "alone",
        ),
        STATISTICS,
    )
    parser.add_argument(
        "--draws",
        type=int,
        default=9999,
        metavar="N",
        help="all assignments up to so many, otherwise so many (9999)",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the draws (default: 0)")
    add_shared(parser, weights=False, covariance=False)


def run(options: argparse.Namespace) -> Output:
    """What ``evalreg randomise`` prints."""
    check_rows(options)
    option("statistic", options.statistic, STATISTICS)
    levels = None if options.levels is None else split_names(options.levels, "--levels")
    if levels is not None and len(levels) != 2:
        raise ArgumentError(f'`--levels` must be two labels, the treated one first; got "{options.levels}".')
    roles = role_names(options.treatment, options.strata) | group_names(options.groups)
    rows = read_rows(options, roles - {options.score}, {options.score})
    rows.refuse_verdicts(options.score)
    rows.refuse_averaging(options.treatment)
    with counting(rows):
        test = randomisation_test(
            rows.frame,
            options.score,
            treatment=options.treatment,
            groups=options.groups,
            levels=levels,
            strata=options.strata,
            statistic=options.statistic,
            draws=options.draws,
            alpha=options.alpha,
            seed=options.seed,
            missing=options.missing,
        )
    return Output(FORMATS[options.format](LotsFound(test, rows, options)), messages=log_messages(rows, options))


def _summarized(found: LotsFound) -> Summary:
    return with_rows(found.test.summary(), found.rows, found.options)


def _as_csv(found: LotsFound) -> str:
    test = found.test
    names = ("name", "estimate", "se", "t", "p_value")
    row = {name: getattr(test, name) for name in names}
    row |= {"lower": test.interval[0], "upper": test.interval[1], "alpha": test.alpha, "statistic": test.statistic}
    row |= {"n_assignments": test.n_assignments, "draws": test.draws, "smallest_p": test.smallest_p}
    for arm, label in zip(("treated", "reference"), test.n_clusters, strict=True):
        row |= {f"{arm}_clusters": test.n_clusters[label], f"{arm}_rows": test.n_rows[label]}
    return csv_text(pd.DataFrame([row]), found.options.spreadsheet)


def _as_json(found: LotsFound) -> str:
    test = asdict(found.test)
    notes = [(text, category.__name__) for category, text in test.pop("notes")]
    asked = ("alpha", "command", "draws", "file", "groups", "levels", "missing", "score", "seed", "statistic", "strata")
    own = {"kind": "randomisation test", "test": test}
    return document_text(own, notes, (*asked, "text", "treatment", "where"), found.options, found.rows)


FORMATS = formats_of(_summarized, _as_json, _as_csv)

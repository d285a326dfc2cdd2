"""``evalreg ratio``: ratios of two sums, by model."""

from __future__ import annotations

import argparse

from evalreg.cli.parsing import Output
from evalreg.cli.ranked import add_figure, draw
from evalreg.cli.selection import counting, group_names, read_rows, role_names, split_names
from evalreg.cli.shared import add_shared, check_shared, covariance_options, rendered
from evalreg.cli.sums import add_sums
from evalreg.errors import ArgumentError
from evalreg.estimators.ratio import ratio

EPILOG = """\
The sum of one column over the sum of another: errors per word, cost per solved
task, a micro average. It is not the mean of the rows' own ratios.

Examples, on the simulated logs that `evalreg demo --write logs` makes:

  evalreg ratio logs/passages.csv --numerator score --denominator n_words \\
      --groups passage
  evalreg ratio logs/passages.csv --numerator score --denominator n_words \\
      --by subject --groups passage --figure words.png
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = "Ratios of two sums, with errors that hold when rows in a cluster are alike."
    parser.add_argument("--numerator", metavar="X", help="the column that is summed above the line")
    parser.add_argument("--denominator", metavar="X", help="the column that is summed below it, nowhere negative")
    parser.add_argument("--by", metavar="A,B", help="columns of the models: one ratio for each, with their covariance")
    add_figure(parser, "the ratios")
    add_sums(parser)
    add_shared(parser)


def run(options: argparse.Namespace) -> Output:
    """What ``evalreg ratio`` prints."""
    check_shared(options)
    by = split_names(options.by, "--by") if options.by is not None else None
    numbers = {options.numerator, options.denominator, options.weights}
    rows = read_rows(options, (role_names(*(by or ())) | group_names(options.groups)) - numbers, numbers)
    for name in ("numerator", "denominator"):
        if getattr(options, name) is None:
            raise ArgumentError(f"`--{name}` must name a column: a ratio is a sum of one column over that of another.")
    by = by or rows.summed_by or [role for role in ("model", "task", "prompt") if rows.several(role)] or None
    rows.refuse_averaging(*(by or ()))
    groups = options.groups or rows.item
    with counting(rows):
        results = ratio(
            rows.data,
            options.numerator,
            options.denominator,
            by=by,
            groups=groups,
            weights=options.weights,
            missing=options.missing,
            **covariance_options(options),
        )
    asked: dict[str, object] = {name: getattr(options, name) for name in ("numerator", "denominator")}
    if options.figure is not None:
        draw(results, options)
    return rendered(results, rows, options, asked | {"by": by, "groups": groups})

"""``evalreg plan precision``: from a half-width to a number of rows."""

from __future__ import annotations

import argparse
import math
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd

from evalreg.cli.shared import add_output, csv_text, document_text, formats_of
from evalreg.errors import ArgumentError
from evalreg.numerics.student import t_quantile
from evalreg.planning.half_width import Precision, precision
from evalreg.report.tables import Grid, Summary, number

EPILOG = """\
Examples:

  evalreg plan precision --half-width 0.03 --rate 0.7
  evalreg plan precision --half-width 0.03 --rate 0.7 --deff 2.5
  evalreg plan precision --half-width 0.03 --rate 0.7 --icc 0.2 --cluster-size 5
  evalreg plan precision --half-width 0.1 --variance 1.4 --format json
"""
ASKED = ("half_width", "rate", "variance", "deff", "icc", "cluster_size", "alpha")


@dataclass(frozen=True)
class PlannedPrecision:
    """What the command found."""

    plan: Precision
    options: argparse.Namespace


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = "Rows that the interval of a single score needs to have a half-width."
    asked = parser.add_argument_group("what is planned")
    asked.add_argument(
        "--half-width", type=float, required=True, metavar="H", help="half of the length of the interval"
    )
    asked.add_argument("--rate", type=float, metavar="P", help="the expected share of right answers; 0.5 is safe")
    asked.add_argument("--variance", type=float, metavar="V", help="the variance of one row, for other scores")
    asked.add_argument("--deff", type=float, metavar="D", help="the design effect (default: 1, independent rows)")
    asked.add_argument("--icc", type=float, metavar="R", help="the correlation of two rows of a cluster")
    asked.add_argument("--cluster-size", type=float, metavar="M", help="the rows of a cluster")
    add_output(parser)


def run(options: argparse.Namespace) -> str:
    """What ``evalreg plan precision`` prints."""
    if (options.rate is None) == (options.variance is None):
        raise ArgumentError(
            "`evalreg plan precision` needs one of --rate (of 0/1 scores) and --variance (of one row); got "
            f"{'neither' if options.rate is None else 'both'}. --rate 0.5 is the safe side."
        )
    found = PlannedPrecision(precision(**{name: getattr(options, name) for name in ASKED}), options)
    return FORMATS[options.format](found)


def summarized(found: PlannedPrecision) -> Summary:
    """The plan as a table and sentences."""
    plan, options = found.plan, found.options
    what = f"rate {options.rate:g}" if options.rate is not None else f"variance of a row {options.variance:g}"
    facts = (
        ("Half-width", f"{plan.half_width:g}"),
        ("Interval", f"{100 * (1 - plan.alpha):g}%"),
        ("Expected", what),
        ("Design effect", f"{plan.deff:g}"),
    )
    clusters = "not named" if plan.n_clusters is None else f"{plan.n_clusters}"
    grid = Grid(
        ("", "rows", "effective rows", "clusters", "half-width"),
        (("needed", f"{plan.n}", f"{plan.effective:.0f}", clusters, number(plan.expected)),),
    )
    said = [
        "effective rows: how many independent rows would say as much (rows divided by the design effect)."
        if plan.deff > 1
        else "Rows are taken to be independent. Where they share passages or repositories, give --deff, or --icc with "
        "--cluster-size."
    ]
    if plan.n_clusters is None and plan.deff > 1:
        said.append(
            "Without --cluster-size the number of clusters is not known, and the interval is taken to be normal: with "
            "20 clusters it is 7% wider, with 8 clusters 21%."
        )
    if options.rate is not None and plan.expected > 1.01 * _half_by_t(plan, options.rate):
        said.append(
            "This close to 0 or 1 an interval is wider than the normal formula says. The number is the one at which "
            "Wilson's interval has this half-width."
        )
    return Summary("evalreg plan precision", facts, (grid,), tuple(said))


def _half_by_t(plan: Precision, rate: float) -> float:
    """The half-width of the planned rows by t, or by the normal; that of Wilson's interval may be larger."""
    return float(t_quantile(plan.alpha, np.array([plan.dof]))[0]) * math.sqrt(rate * (1 - rate) / plan.effective)


def _as_json(found: PlannedPrecision) -> str:
    own = {"kind": "plan precision", "plan": asdict(found.plan)}
    return document_text(own, ((text, None) for text in summarized(found).sentences), ASKED, found.options)


FORMATS = formats_of(summarized, _as_json, lambda found: csv_text(pd.DataFrame([asdict(found.plan)]), False))

"""``evalreg mean``: means of scores, by model."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from evalreg.checks import QUESTIONS, STRATA_WEIGHTS, option
from evalreg.cli.parsing import Output, offering
from evalreg.cli.ranked import add_figure, add_ranked, ranked
from evalreg.cli.selection import Rows, counting, group_names, read_rows, role_names, split_names
from evalreg.cli.shared import POPULATION_HELP, add_shared, check_shared, covariance_options, target_options
from evalreg.cli.sums import add_sums
from evalreg.errors import ArgumentError, NotAvailableError
from evalreg.estimators.mean import mean
from evalreg.results.results import Results

EPILOG = """\
Examples, on the simulated logs that `evalreg demo --write logs` makes:

  evalreg mean logs/passages.csv --groups passage
  evalreg mean logs/passages.csv --by subject --groups passage
  evalreg mean logs/passages.csv --by subject --groups passage --ranks \\
      --figure subjects.png
  evalreg mean logs/passages.csv --strata subject --strata-weights macro \\
      --groups passage
  evalreg mean logs/judge_log.csv --score best_score --groups "prompt + judge" \\
      --where 'left == "model-01" or right == "model-01"'
"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = "Means of scores, with errors that hold when rows in a cluster are alike."
    parser.add_argument("--score", default="score", metavar="X", help="the column of the scores (default: score)")
    parser.add_argument("--by", metavar="A,B", help="columns of the models: one mean for each, with their covariance")
    parser.add_argument(
        "--item", metavar="X", help="the column of the questions; without --groups they are the clusters"
    )
    parser.add_argument(
        "--sample", metavar="X", help="the column of repeated answers, which are averaged within their question first"
    )
    offering(
        parser.add_argument(
            "--questions",
            default="own",
            metavar="WHICH",
            help="with --by and --item: own, each model's mean over the questions that it answered (the default), or "
            "shared, those that all models answered",
        ),
        QUESTIONS,
    )
    parser.add_argument("--population", metavar="N", help=POPULATION_HELP)
    parser.add_argument("--strata", metavar="X", help="the column of subjects that are a fixed list, not a sample")
    offering(
        parser.add_argument(
            "--strata-weights",
            default="micro",
            metavar="W",
            help='weights of the strata: "micro", by their rows, shares known (the default); "as_sampled", by their '
            'rows, shares estimated; "macro", equal; or "law=1,math=2"',
        ),
        STRATA_WEIGHTS,
    )
    parser.add_argument(
        "--ranks", action="store_true", help="with --by: also the ranks that are open, joint intervals and groups"
    )
    add_ranked(parser)
    add_figure(parser, "the means")
    add_sums(parser)
    add_shared(parser)


def run(options: argparse.Namespace) -> Output:
    """What ``evalreg mean`` prints."""
    check_shared(options)
    results, rows, asked = averaged(options)
    return ranked(results, rows, options, asked, with_ranks=options.ranks)


def averaged(options: argparse.Namespace) -> tuple[Results, Rows, dict[str, object]]:
    """The means of the options, the rows that were read, and what was asked."""
    by = split_names(options.by, "--by") if options.by is not None else None
    option("questions", options.questions, QUESTIONS)
    strata_weights = _weights_by_name(options.strata_weights)
    if isinstance(strata_weights, str):
        option("strata_weights", strata_weights, STRATA_WEIGHTS)
    roles = role_names(*(by or ()), options.item, options.sample, options.strata) | group_names(options.groups)
    numbers = {options.score, options.weights}
    rows = read_rows(options, roles - numbers, numbers)
    by = by or rows.summed_by or [role for role in ("model", "task", "prompt") if rows.several(role)] or None
    rows.refuse_verdicts(options.score)
    rows.refuse_averaging(*(by or ()))
    item, sample = options.item or rows.item, options.sample or rows.sample
    with counting(rows), _population_spelled():
        results = mean(
            rows.data,
            options.score,
            by=by,
            item=item,
            sample=sample,
            groups=options.groups,
            strata=options.strata,
            **target_options(options),
            strata_weights=strata_weights,
            weights=options.weights,
            questions=options.questions,
            missing=options.missing,
            **covariance_options(options),
        )
    options.kind = "models" if item and by == ["model"] and results.estimate.about.n_models > 1 else "scores"
    asked: dict[str, object] = {name: getattr(options, name) for name in ("questions", "score", "strata")}
    asked |= {"by": by, "item": item, "sample": sample, "groups": item if options.groups is None else options.groups}
    asked["strata_weights"] = strata_weights if options.strata is not None else None
    return results, rows, asked


@contextmanager
def _population_spelled() -> Iterator[None]:
    """Say of the clusters of each stratum how they are written here."""
    try:
        yield
    except NotAvailableError as error:
        if 'n_population={"' in str(error) and '": {' in str(error):
            error.add_note("(On the command line: --population CLUSTERS:A=40,B=90.)")
        raise


def _weights_by_name(text: str) -> Any:
    """Weights of strata: a rule by its name, or a mapping from ``a=1,b=2``."""
    if "=" not in text:
        return text
    weights: dict[str, float] = {}
    for part in split_names(text, "--strata-weights"):
        name, _, value = part.rpartition("=")
        try:
            weight = float(value)
        except ValueError:
            weight = math.nan
        if not name or math.isnan(weight) or name in weights:
            raise ArgumentError(
                '`--strata-weights` must be "micro", "macro", "as_sampled" or one number for each stratum, such as '
                f'"law=1,math=2"; got "{part}" in "{text}".'
            )
        weights[name] = weight
    return weights

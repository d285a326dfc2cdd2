"""``evalreg plan separate``: prompts and judges until two named models of a log come apart."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields

from evalreg.cli.leaderboard import add_pairs, board_of, checked_roles, of_pairs
from evalreg.cli.parsing import Output
from evalreg.cli.selection import Rows, counting, group_names, read_rows, role_names, split_names
from evalreg.cli.shared import (
    add_shared,
    check_shared,
    covariance_options,
    csv_text,
    document_text,
    formats_of,
    log_messages,
    with_rows,
)
from evalreg.errors import ArgumentError
from evalreg.estimators.mean import mean
from evalreg.planning.separation import Separation, sentences
from evalreg.planning.two_models import separate
from evalreg.report.tables import Summary
from evalreg.results.results import Results

EPILOG = """\
Examples, on the simulated logs that `evalreg demo --write logs` makes:

  evalreg plan separate logs/judge_log.csv --winner winner \\
      --groups "prompt + judge" --models model-01,model-02 --judges 5,10,20
  evalreg plan separate logs/models.csv --model model --item question \\
      --groups passage --models new,old --delta 0.05 --format json
"""
ASKED = ("models", "judges", "judge_axis", "delta", "assurance", "alpha", "power", "groups", "model", "item", "where")


@dataclass(frozen=True, eq=False)
class SeparatePlan:
    """What the command found."""

    plan: Separation
    rows: Rows
    options: argparse.Namespace


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = "Prompts and judges at which two models of a log come apart, and the power of this log."
    asked = parser.add_argument_group("what is planned")
    asked.add_argument("--models", required=True, metavar="A,B", help="the two models")
    asked.add_argument(
        "--judges", metavar="J,J", help="numbers of judges (default: as here, twice and three times that)"
    )
    asked.add_argument(
        "--judge-axis", metavar="X", help='which of the two crossed clusterings --judges counts (default: "judge")'
    )
    asked.add_argument(
        "--delta", type=float, metavar="D", help="the true difference to be found (default: that seen, a guess)"
    )
    asked.add_argument("--power", type=float, default=0.8, metavar="P", help="the chance of finding it (default: 0.8)")
    asked.add_argument("--assurance", type=float, metavar="P", help="the share of such logs whose plan has that power")
    scored = parser.add_argument_group("a log with a score of one model in each row")
    scored.add_argument("--model", metavar="X", help="the column of the models; without it rows compare two models")
    scored.add_argument("--item", metavar="X", help="the column of the questions")
    scored.add_argument("--sample", metavar="X", help="the column of the ids of the answers to a question")
    add_pairs(parser)
    add_shared(parser)


def run(options: argparse.Namespace) -> Output:
    """What ``evalreg plan separate`` prints."""
    names = split_names(options.models, "--models")
    if len(names) != 2:
        raise ArgumentError(f'`--models` must be two names separated by a comma; got "{options.models}".')
    if options.model is None and (options.item is not None or options.sample is not None):
        raise ArgumentError("`--item` and `--sample` go with `--model`, the column of the models; give it too.")
    judges = None if options.judges is None else _whole(options.judges)
    options.kind = "pairs" if options.model is None else "models"
    results, rows = _means(options) if options.model is not None else board_of(options)[:2]
    plan = separate(
        results,
        *names,
        judges=judges,
        judge=options.judge_axis,
        delta=options.delta,
        assurance=options.assurance,
        alpha=options.alpha,
        power=options.power,
    )
    found = SeparatePlan(plan, rows, options)
    return Output(FORMATS[options.format](found), messages=log_messages(rows, options))


def _whole(text: str) -> list[int]:
    """Whole numbers separated by commas."""
    parts = split_names(text, "--judges")
    if not all(part.isdecimal() for part in parts):
        raise ArgumentError(f'`--judges` must be whole numbers separated by commas, such as "3,5,10"; got "{text}".')
    return [int(part) for part in parts]


def _means(options: argparse.Namespace) -> tuple[Results, Rows]:
    """Means by model of a log of scores."""
    given = of_pairs(options)
    if given:
        raise ArgumentError(f"`--model` is of scores of single models, and {' and '.join(given)} of comparisons.")
    checked_roles(options)
    check_shared(options)
    score = options.score or "score"
    roles = role_names(options.model, options.item, options.sample) | group_names(options.groups)
    rows = read_rows(options, roles - {score, options.weights}, {score, options.weights})
    rows.refuse_averaging(options.model)
    with counting(rows):
        results = mean(
            rows.frame,
            score,
            by=options.model,
            item=options.item or rows.item,
            sample=options.sample or rows.sample,
            groups=options.groups,
            weights=options.weights,
            missing=options.missing,
            **{name: value for name, value in covariance_options(options).items() if name != "alike"},
        )
    return results, rows


def _summarized(found: SeparatePlan) -> Summary:
    return with_rows(found.plan.summary(), found.rows, found.options)


def _as_json(found: SeparatePlan) -> str:
    own = {one.name: getattr(found.plan, one.name) for one in fields(found.plan)}
    table = found.plan.table.astype(object).where(found.plan.table.notna(), None)
    own |= {
        "design": dict(found.plan.design),
        "parts": None if found.plan.parts is None else dict(found.plan.parts),
        "table": table.to_dict("records"),
    }
    document = {"kind": "plan separate", "plan": own}
    return document_text(document, ((text, None) for text in sentences(found.plan)), ASKED, found.options, found.rows)


FORMATS = formats_of(_summarized, _as_json, lambda found: csv_text(found.plan.table, for_spreadsheet=False))

"""``evalreg plan``: from a pilot to a number of questions."""

from __future__ import annotations

import argparse
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import fraction
from evalreg.cli.parsing import Output
from evalreg.cli.plan_single import SINGLE_FORMATS, SinglePlan
from evalreg.cli.selection import Rows, counting, group_names, read_rows, role_names, split_names
from evalreg.cli.shared import (
    add_shared,
    check_rows,
    csv_text,
    document_text,
    formats_of,
    log_messages,
    with_rows,
)
from evalreg.data.joint_ids import joint_parts
from evalreg.errors import ArgumentError, DataError
from evalreg.estimators.difference import compare
from evalreg.planning import answers, components, enough_answers, from_pilot
from evalreg.report.tables import Grid, Summary, number

EPILOG = """\
Examples, on the simulated pilot that `evalreg demo --write logs` makes:

  evalreg plan logs/pilot.csv --item question --delta 0.05
  evalreg plan logs/pilot.csv --item question --groups passage --delta 0.05
  evalreg plan logs/pilot.csv --item question --delta 0.05 --k 1,4,2:8
  evalreg plan logs/pilot.csv --item question --groups passage --delta 0.03 \\
      --power 0.9 --cost-question 2 --cost-answer 0.1 --format json
"""

# Answers to each question that are planned where none are named.
DEFAULT_K = "1,2,5,10"
# Below this many clusters the variance components of a pilot say little.
FEW_CLUSTERS = 30


@dataclass(frozen=True, eq=False)
class Plan:
    """What the command found."""

    found: pd.DataFrame  # variance components
    table: pd.DataFrame  # one row for each clustering and number of answers
    rows: Rows  # rows of the pilot
    options: argparse.Namespace  # as parsed
    notes: tuple[str, ...]  # sentences below the tables


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = "Questions that a comparison of two models needs, from a pilot with repeats."
    roles = parser.add_argument_group("columns of the pilot")
    for name, what in (
        ("score", "scores"),
        ("model", "models, two of them"),
        ("item", "questions"),
        ("sample", "ids of the answers to a question"),
    ):
        roles.add_argument(f"--{name}", default=name, metavar="X", help=f"the column of the {what} (default: {name})")
    roles.add_argument("--baseline", metavar="NAME", help="the model called B (default: the second by name)")
    asked = parser.add_argument_group("what is planned")
    asked.add_argument(
        "--delta", type=float, required=True, metavar="D", help="the difference of mean scores that should be detected"
    )
    asked.add_argument(
        "--power", type=float, default=0.8, metavar="P", help="the chance of detecting it (default: 0.8)"
    )
    asked.add_argument(
        "--assurance",
        type=float,
        metavar="P",
        help="the share of such pilots whose plan really has that power (default: it has it on average)",
    )
    asked.add_argument(
        "--k",
        default=DEFAULT_K,
        metavar="K,K",
        help="answers to each question, of both models, or of A and B as in 2:8 (default: 1,2,5,10)",
    )
    asked.add_argument(
        "--uncorrected",
        action="store_true",
        help="leave the noise of the pilot's own answers in omega2, which errs upwards",
    )
    asked.add_argument("--cost-question", type=float, metavar="C", help="cost of one more question")
    asked.add_argument("--cost-answer", type=float, metavar="C", help="cost of one more answer")
    add_shared(parser, weights=False, covariance=False)


def run(options: argparse.Namespace) -> Output:
    """What ``evalreg plan`` prints."""
    check_rows(options)
    fraction("power", options.power)
    if options.assurance is not None:
        fraction("assurance", options.assurance)
    numbers = _numbers(options.k)
    if (options.cost_question is None) != (options.cost_answer is None):
        raise ArgumentError("`--cost-question` and `--cost-answer` go together; got one of them.")
    roles = role_names(options.model, options.item, options.sample) | group_names(options.groups)
    rows = read_rows(options, roles - {options.score}, {options.score})
    rows.refuse_verdicts(options.score)
    rows.refuse_averaging(options.model)
    if options.item == "item" and rows.item is not None:
        options.item = rows.item
    with _of_two_models(options):
        return _planned_from(rows, options, numbers)


@contextmanager
def _of_two_models(options: argparse.Namespace) -> Iterator[None]:
    """Say where the rows are of one model what plans the interval of one."""
    try:
        yield
    except DataError as error:
        if error.column == options.model and error.count == 1:
            error.add_note(
                "(For the interval of one model: evalreg plan precision --half-width H --rate P --deff D, with the "
                "mean and the deff that evalreg mean prints.)"
            )
        raise


def _planned_from(rows: Rows, options: argparse.Namespace, numbers: list[tuple[float, float]]) -> Output:
    """The plan from a pilot of two models or more."""
    if _one_answer(rows.frame, options):
        return _of_single(rows, options, numbers)
    with counting(rows):
        found = components(
            rows.frame,
            options.score,
            model=options.model,
            item=options.item,
            sample=options.sample,
            groups=options.groups,
            baseline=options.baseline,
            missing=options.missing,
        )
    table = pd.concat([_planned(found, k, options) for k in numbers], ignore_index=True)
    table = table.sort_values("clustering", ascending=False, kind="stable", ignore_index=True)
    cheapest = [] if options.cost_question is None else [_cheapest(found, *_basis(found, options), options)]
    plan = Plan(found, table, rows, options, tuple(_notes(found, cheapest, options)))
    # CSV holds the table alone.
    said = cheapest if options.format == "csv" else []
    return Output(FORMATS[options.format](plan), messages=(*said, *log_messages(rows, options)))


def _one_answer(frame: pd.DataFrame, options: argparse.Namespace) -> bool:
    """Whether the pilot has one answer of each model to each question, which hides the noise of answers."""
    names = [options.model, *([options.item] if options.item in frame else joint_parts(options.item))]
    return set(names) <= set(frame.columns) and not frame.dropna(subset=names).duplicated(names).any()


def _of_single(rows: Rows, options: argparse.Namespace, numbers: list[tuple[float, float]]) -> Output:
    """The plan of a pilot without repeats: with one answer each, by the total variance of the differences."""
    asked = options.k != DEFAULT_K
    if (asked and numbers != [(1.0, 1.0)]) or options.cost_question is not None or options.uncorrected:
        raise ArgumentError(
            "`--k` above 1, `--uncorrected` and costs need a pilot with at least 2 answers of each model to each "
            "question, to separate the noise of answers from the rest; this one has 1. Leave them out to plan for one "
            "answer to each."
        )
    with counting(rows):
        difference = compare(
            rows.frame,
            options.score,
            model=options.model,
            item=options.item,
            groups=options.groups,
            baseline=options.baseline,
            missing=options.missing,
        )
    if len(difference.results.params) != 1:
        raise ArgumentError(f"a plan needs exactly 2 models; column {options.model!r} holds more. Keep two by --where.")
    planned = {name: getattr(options, name) for name in ("delta", "assurance", "alpha", "power")}
    table = from_pilot(difference, **planned)
    table.insert(0, "clustering", table.index)
    table = table.reset_index(drop=True)
    plan = SinglePlan(table, rows, options, difference.results.estimate.names[0], _promise(options))
    return Output(SINGLE_FORMATS[options.format](plan), messages=log_messages(rows, options))


def _numbers(text: str) -> list[tuple[float, float]]:
    """Pairs of numbers of answers from ``1,4,2:8``."""
    found = []
    for part in split_names(text, "--k"):
        sides = part.split(":")
        if len(sides) > 2 or not all(side.isdecimal() and int(side) > 0 for side in sides):
            raise ArgumentError(
                f'`--k` must be whole numbers of answers separated by commas, such as "1,4" or "2:8" for A and B; got '
                f'"{part}" in "{text}".'
            )
        found.append((float(sides[0]), float(sides[-1])))
    return found


def _planned(found: pd.DataFrame, k: tuple[float, float], options: argparse.Namespace) -> pd.DataFrame:
    asked = {name: getattr(options, name) for name in ("delta", "assurance", "alpha", "power")}
    try:
        table = from_pilot(found, k_a=k[0], k_b=k[1], corrected=not options.uncorrected, **asked)
    except ArgumentError as error:
        if "corrected=False" in str(error):
            error.add_note("(On the command line that is --uncorrected.)")
        raise
    table.insert(0, "clustering", table.index)
    table.insert(1, "k_a", int(k[0]))
    table.insert(2, "k_b", int(k[1]))
    return table


def _basis(found: pd.DataFrame, options: argparse.Namespace) -> tuple[str, float]:
    """The clustering that plans rest on, and omega2 there."""
    name = "clustered" if options.groups is not None else "plain"
    row = _numbers_of(found, name)
    # Appendix C leaves out the factor G/(G - 1), which the plan has.
    factor = row["omega2_uncorrected"] / (row["n_clusters"] - 1) if name == "clustered" else 0.0
    return name, row["omega2_uncorrected" if options.uncorrected else "omega2"] + factor


def _numbers_of(found: pd.DataFrame, name: str) -> dict[str, float]:
    """The components of one clustering."""
    return {column: float(found[column][name]) for column in found.columns}


def _notes(found: pd.DataFrame, cheapest: list[str], options: argparse.Namespace) -> list[str]:
    """What a careful reader asks; `cheapest` is what the costs say."""
    name, omega2 = _basis(found, options)
    row = _numbers_of(found, name)
    enough = enough_answers(omega2=omega2, sigma2=row["sigma2_a"] + row["sigma2_b"])
    notes = [
        "n (eq. 9) has normal quantiles and takes the pilot's variance as known. n and clusters are for the t test, "
        f"and allow for the error of that variance: {_promise(options)}. Detectable is what the pilot's own questions "
        "would show with that many answers, in the same sense.",
        f"From {enough} answers on, answer noise is at most 5% of the variance ({name}).",
    ]
    notes += cheapest
    if row["n_clusters"] < FEW_CLUSTERS:
        notes.append(
            f"{row['n_clusters']:.0f} {'clusters' if name == 'clustered' else 'questions'} in the pilot: its "
            "variances may well be off by half or more."
            + (" --assurance 0.8 plans for that." if options.assurance is None else "")
        )
    if found.attrs["left_out"]:
        notes.append(f"{found.attrs['left_out']} questions that only one model answered were left out.")
    return notes


def _cheapest(found: pd.DataFrame, name: str, omega2: float, options: argparse.Namespace) -> str:
    """The numbers of answers that are cheapest, with the questions that the table would give them."""
    row = {column: float(found[column][name]) for column in found.columns}
    asked = {key: getattr(options, key) for key in ("delta", "alpha", "power")}
    best = answers(
        omega2=omega2,
        sigma2_a=row["sigma2_a"],
        sigma2_b=row["sigma2_b"],
        cost_question=options.cost_question,
        cost_a=options.cost_answer,
        cluster_size=row["n"] / row["n_clusters"],
        **asked,
    )
    kind = name if name in _planned(found, (1.0, 1.0), options)["clustering"].tolist() else "plain"

    def planned(k: tuple[int, int]) -> tuple[float, int]:
        """What a plan costs, and its questions."""
        n = int(_planned(found, (float(k[0]), float(k[1])), options).set_index("clustering")["n"][kind])
        return n * (options.cost_question + sum(k) * options.cost_answer), n

    # That is the best for components that are known. The table also allows for the error of the pilot's, which more
    # answers add to: what is left of omega2 without their noise is the less certain, the more it is relied on.
    tried = {k: planned(k) for k in _fewer(int(best.k_a), int(best.k_b))}
    k_a, k_b = min(tried, key=lambda k: tried[k])
    price, n = tried[k_a, k_b]
    return (
        f"At these costs the cheapest plan has {_counted(k_a)} of A and {k_b} of B to each of {n} questions, for "
        f"{price:.6g}; one answer each would cost {tried[1, 1][0]:.6g} ({name})."
    )


def _fewer(k_a: int, k_b: int) -> list[tuple[int, int]]:
    """Numbers of answers of A and B, in about the same proportion, from 1 each up to these."""
    shares = np.geomspace(1 / max(k_a, k_b), 1.0, 40)
    return sorted({(1, 1)} | {(max(1, round(k_a * share)), max(1, round(k_b * share))) for share in shares})


def _counted(k: int) -> str:
    return f"{k} answer{'' if k == 1 else 's'}"


def _promise(options: argparse.Namespace) -> str:
    if options.assurance is None:
        return f"over pilots like this one the power is {options.power:g} on average"
    return f"in {options.assurance:g} of pilots like this one the power is at least {options.power:g}"


# What is printed


def summarized(plan: Plan) -> Summary:
    """The plan as tables and sentences."""
    found, options = plan.found, plan.options
    a, b = found.attrs["models"]
    n, dropped = int(found["n"]["plain"]), sum(found.attrs["dropped"].values())
    clusters = "none" if options.groups is None else f"{int(found['n_clusters']['clustered'])} {options.groups}"
    facts = [
        ("Score", options.score),
        ("Questions", f"{n}"),
        ("A", a),
        ("B", b),
        ("Clusters", clusters),
        ("Rows dropped", f"{dropped}" if dropped else "none"),
        ("Difference", f"{options.delta:g}"),
        ("Level, power", f"{options.alpha:g}, {options.power:g}"),
    ]
    if options.assurance is not None:
        facts.append(("Assurance", f"{options.assurance:g}"))
    printed = [name for name in found.index if name == "plain" or options.groups is not None]
    variances = ("omega2", "omega2_uncorrected", "sigma2_a", "sigma2_b", "k_a", "k_b")
    first = Grid(
        ("variances of the pilot", "omega2", "uncorrected", "sigma2 A", "sigma2 B", "K A", "K B"),
        tuple((name, *(f"{found[column][name]:.4g}" for column in variances)) for name in printed),
    )
    second = Grid(
        ("answers A, B", "n (eq. 9)", "n", "clusters", "detectable"),
        tuple(_cells(row) for row in plan.table.to_dict("records")),
    )
    return with_rows(Summary("evalreg plan", tuple(facts), (first, second), plan.notes), plan.rows, options)


def _cells(row: dict[Hashable, Any]) -> tuple[str, ...]:
    """One row of the table of plans."""
    other = f", {row['k_b']}" if row["k_b"] != row["k_a"] else ""
    clusters = f"{row['n_clusters']}" if row["clustering"] == "clustered" else "-"
    name = f"{row['clustering']}, K = {row['k_a']}{other}"
    return name, f"{row['n_eq9']}", f"{row['n']}", clusters, number(row["mde"])


def _as_json(plan: Plan) -> str:
    asked = (
        "alpha",
        "assurance",
        "baseline",
        "command",
        "cost_answer",
        "cost_question",
        "delta",
        "file",
        "groups",
        "item",
        "k",
    )
    names = (*asked, "missing", "model", "power", "sample", "score", "text", "uncorrected", "where")
    own = {
        "components": plan.found.rename_axis("clustering").reset_index().to_dict("records"),
        "dropped": plan.found.attrs["dropped"],
        "kind": "plan",
        "left_out": plan.found.attrs["left_out"],
        "models": plan.found.attrs["models"],
        "plan": plan.table.to_dict("records"),
    }
    return document_text(own, ((text, None) for text in plan.notes), names, plan.options, plan.rows)


FORMATS = formats_of(summarized, _as_json, lambda plan: csv_text(plan.table, for_spreadsheet=False))

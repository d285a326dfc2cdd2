"""What ``evalreg plan`` prints of a pilot with one answer to each question."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from evalreg.cli.logs import log_document
from evalreg.cli.selection import Rows
from evalreg.cli.shared import log_notes, with_log
from evalreg.report.documents import SCHEMA_VERSION, as_json, versions
from evalreg.report.tables import Grid, Summary, number


@dataclass(frozen=True, eq=False)
class SinglePlan:
    """What the command found of a pilot without repeats."""

    table: pd.DataFrame  # one row for each clustering
    rows: Rows
    options: argparse.Namespace
    difference: str  # its name
    promise: str  # what the plan holds, in words

    @property
    def notes(self) -> tuple[str, ...]:
        """What a careful reader asks."""
        return (
            "The pilot has one answer of each model to each question, which does not tell the noise of answers from "
            "what "
            "questions do. The plan is for one answer to each, with the total variance of the differences, which "
            "holds both; "
            "two answers or more would tell what more answers are worth.",
            "n (eq. 9) has normal quantiles and takes the pilot's variance as known. n and clusters are for the t "
            "test, "
            f"and allow for the error of that variance: {self.promise}. Detectable is what the pilot's own "
            "questions would show.",
        )


def _summarized_single(plan: SinglePlan) -> Summary:
    options = plan.options
    facts = (
        ("Score", options.score),
        ("Difference", plan.difference),
        ("Clusters", options.groups or "none"),
        ("To be detected", f"{options.delta:g}"),
        ("Level, power", f"{options.alpha:g}, {options.power:g}"),
    )
    cells = tuple(
        (
            f"{row['clustering']}, K = 1",
            f"{row['variance']:.4g}",
            f"{row['n_eq9']}",
            f"{row['n']}",
            f"{row['n_clusters']}" if row["clustering"] == "clustered" else "-",
            number(row["mde"]),
        )
        for row in plan.table.to_dict("records")
    )
    grid = Grid(("answers A, B", "total variance", "n (eq. 9)", "n", "clusters", "detectable"), cells)
    return with_log(Summary("evalreg plan", facts, (grid,), plan.notes), plan.rows, options)


def _single_json(plan: SinglePlan) -> str:
    asked = (
        "alpha",
        "assurance",
        "baseline",
        "command",
        "delta",
        "file",
        "groups",
        "item",
        "missing",
        "model",
        "power",
    )
    document: dict[str, object] = {
        "components": None,
        "difference": plan.difference,
        "kind": "plan",
        "notes": [{"text": text, "warning": None} for text in plan.notes],
        "options": {name: getattr(plan.options, name) for name in (*asked, "score", "text", "where")},
        "plan": plan.table.to_dict("records"),
        "rows_kept": len(plan.rows.frame),
        "rows_read": plan.rows.n_read,
        "schema_version": SCHEMA_VERSION,
        "seed": None,
        "versions": versions(),
    }
    if plan.rows.log is not None:
        document["log"] = log_document(plan.rows.log, log_notes(plan.rows, plan.options))
    return as_json(document)


SINGLE_FORMATS: dict[str, Callable[[SinglePlan], str]] = {
    "text": lambda plan: _summarized_single(plan).as_text(),
    "json": _single_json,
    "csv": lambda plan: str(plan.table.to_csv(index=False, lineterminator="\n")),
    "md": lambda plan: _summarized_single(plan).as_markdown(),
    "latex": lambda plan: _summarized_single(plan).as_latex(),
    "html": lambda plan: _summarized_single(plan).as_html(),
}

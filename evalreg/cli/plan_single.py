"""What ``evalreg plan`` prints of a pilot with one answer to each question."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import pandas as pd

from evalreg.cli.selection import Rows
from evalreg.cli.shared import csv_text, document_text, formats_of, with_rows
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
            "The pilot has one answer of each model to each question, so the noise of answers cannot be told from "
            "that of questions. The plan is for one answer to each, with the total variance of the differences, "
            "which includes both. Two answers or more would tell what more answers are worth.",
            "n (eq. 9) has normal quantiles and takes the pilot's variance as known. n and clusters are for the t "
            f"test, and allow for the error of that variance: {self.promise}. Detectable is what the pilot's own "
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
    return with_rows(Summary("evalreg plan", facts, (grid,), plan.notes), plan.rows, options)


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
    own = {
        "components": None,
        "difference": plan.difference,
        "kind": "plan",
        "plan": plan.table.to_dict("records"),
    }
    notes, names = ((text, None) for text in plan.notes), (*asked, "score", "text", "where")
    return document_text(own, notes, names, plan.options, plan.rows)


SINGLE_FORMATS = formats_of(_summarized_single, _single_json, lambda plan: csv_text(plan.table, for_spreadsheet=False))

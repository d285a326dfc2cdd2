"""What a command says where it takes the rows of several tasks together."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable

from evalreg.cli.selection import Rows, formula_names, role_names, split_names

# What keeps tasks apart in the commands whose options can; the others name the command that does.
_APART = {
    "mean": "write --by {by}",
    "fit": "put C(task) into the formula",
    "components": 'write --facets "{facets}"',
    "randomise": "write --strata task, if the treatment was assigned within tasks",
}


def pooled_sentence(rows: Rows, options: argparse.Namespace) -> str:
    """A sentence where rows of several tasks make one estimate that no option keeps apart; empty otherwise."""
    if not rows.pooled:
        return ""
    command = options.command
    if command == "table":
        command = "mean" if not options.formula else "fit"
    if command not in _APART:
        return rows.pooled
    if "task" in _separating(command, options):
        return ""
    by = ",".join([*([] if getattr(options, "by", None) is None else split_names(options.by, "--by")), "task"])
    weighted = command == "components" or getattr(options, "weights", None) is not None
    pooled = f"Rows of {rows.frame['task'].nunique()} tasks are taken together"
    weight = "" if weighted else ", each row weighing the same"
    advice = _APART[command].format(by=by, facets=_with_tasks(getattr(options, "facets", "")))
    return f"{pooled}{weight}. Name one by --where, or {advice}.{_merged(rows, command, options)}"


def _with_tasks(facets: str) -> str:
    """Facets with the task beside them, and questions within tasks."""
    parts = re.split(r"\s+x\s+", facets.strip())
    return " x ".join(["task", *("item:task" if part == "item" else part for part in parts)])


def facet_names(facets: str) -> list[str]:
    """The columns in a text for ``--facets``."""
    return [name for name in re.split(r"\s+x\s+|[\s:*+]+", facets) if name]


def _separating(command: str, options: argparse.Namespace) -> set[str]:
    """Columns that tell rows apart, or say how they are taken together."""
    if command == "fit":
        formulas = [options.formula] if isinstance(options.formula, str) else options.formula
        return set().union(*(names for formula in formulas for names in formula_names(formula)))
    if command == "components":
        return set(facet_names(options.facets))
    if command == "randomise":
        return role_names(options.treatment, options.strata)
    # Without --by, means are by all that a log has several of.
    return {"task"} if options.by is None else role_names(*split_names(options.by, "--by"), options.strata)


def _merged(rows: Rows, command: str, options: argparse.Namespace) -> str:
    """What to say of questions of several tasks that have one name, where the command goes by that name."""
    groups = getattr(options, "groups", None) or ""
    used: Iterable[str] = [axis.strip(" `") for axis in groups.split("+")]
    joint, write = "task:item", "--groups"
    if command == "components":
        used, joint, write = facet_names(options.facets), _with_tasks(options.facets), "--facets"
    if "item" not in used:
        return ""
    n_shared = int((rows.frame.groupby("item", observed=True)["task"].nunique() > 1).sum())
    if n_shared == 0:
        return ""
    return (
        f" {n_shared} {'name' if n_shared == 1 else 'names'} of questions occur in several tasks and count as one "
        f'question each: write {write} "{joint}" if they are not the same.'
    )

"""Files of sums on the command line: told by their content, added up, with the roles that they were summed by."""

from __future__ import annotations

import argparse
import glob
from dataclasses import asdict
from pathlib import Path

from evalreg.cli.logs import file_list
from evalreg.data.shard_files import holds_sums
from evalreg.data.summed import SummedLog
from evalreg.data.summed_roles import SummedPairRoles, SummedRatioRoles
from evalreg.errors import ArgumentError
from evalreg.estimators.shards import merged
from evalreg.report.documents import records

# Commands that take sums.
TAKERS = ("mean", "compare", "leaderboard", "ratio")
# Options that choose rows or columns, which sums no longer have.
_OF_ROWS = ("where", "text", "metric", "filter", "scorer", "failed", "broken", "log_format", "roles")


def add_sums(parser: argparse.ArgumentParser) -> None:
    """Add what is known of shards beforehand."""
    group = parser.add_argument_group("sums of `evalreg summarise`")
    group.add_argument(
        "--cells",
        choices=["same", "any"],
        default="same",
        help="whether all shards must hold the same models, or pairs of models (default: same)",
    )
    group.add_argument("--n-shards", type=int, metavar="N", help="how many shards there are; a missing one is refused")
    group.add_argument(
        "--n-questions",
        metavar="N",
        help="how many questions each model has (or how many comparisons there are) in all, or their hash; a lost "
        "shard is refused",
    )


def open_sums(options: argparse.Namespace) -> SummedLog | None:
    """The sums that the files hold, added up; None where they hold something else.

    Options that were left out become what the log was summed by; without ``--groups`` all of its clusters.
    """
    paths = [path for name in file_list(options) for path in _files(name)]
    if not any(holds_sums(path) for path in paths):
        expected = [name for name in ("n_shards", "n_questions") if getattr(options, name, None) is not None]
        if expected or getattr(options, "cells", "same") != "same":
            name = (expected or ["cells"])[0].replace("_", "-")
            raise ArgumentError(f"`--{name}` goes with files of sums, which `evalreg summarise` writes.")
        return None
    if options.command not in TAKERS:
        raise ArgumentError(
            f"`evalreg {options.command}` needs rows; {paths[0]} holds sums, which `evalreg "
            f"{'`, `evalreg '.join(TAKERS)}` take. Name the log itself."
        )
    for name in _OF_ROWS:
        if getattr(options, name, None) is not None:
            raise ArgumentError(
                f"`--{name.replace('_', '-')}` chooses rows or columns, which sums no longer have: give it to "
                "`evalreg summarise`."
            )
    asked = options.n_questions
    questions = int(asked) if asked is not None and asked.isdecimal() and len(asked) < 16 else asked
    sums = merged(paths, cells=options.cells, n_shards=options.n_shards, questions=questions)
    _fill(options, sums)
    return sums


def _files(name: str) -> list[str]:
    """A file, the files of a pattern, or those of Parquet in a folder."""
    if Path(name).is_dir():
        return sorted(map(str, Path(name).glob("*.parquet")))
    return [name] if Path(name).exists() else sorted(glob.glob(name)) or [name]


def _fill(options: argparse.Namespace, sums: SummedLog) -> None:
    """Options as the log was summed, where they were left out."""
    own = sums.roles
    if options.groups is None:
        options.groups = " + ".join(f"`{name}`" if set(name) & set("+:`") else name for name in own.groups)
    if isinstance(own, SummedPairRoles):
        if options.command != "leaderboard":
            return
        options.weights = options.weights or own.weights
        if options.winner is None and options.score is None:
            options.winner, options.score = own.winner, own.score
        options.left = own.left if options.left == "left" else options.left
        options.right = own.right if options.right == "right" else options.right
        return
    if isinstance(own, SummedRatioRoles):
        if options.command == "ratio":
            options.weights = options.weights or own.weights
            options.numerator, options.denominator = (
                options.numerator or own.numerator,
                options.denominator or own.denominator,
            )
        return
    if options.command == "ratio":
        return
    options.score = own.score if options.score in (None, "score") else options.score
    if options.command == "compare":
        options.item = own.item if options.item == "item" and own.item is not None else options.item
        options.model = own.by[0] if options.model == "model" and len(own.by) == 1 else options.model


def sums_sentences(sums: SummedLog) -> tuple[str, ...]:
    """What was added up, in words."""
    n, what = len(sums.shards), counted(sums)
    hashed = ""
    if sums.roles.hashed:
        hashes = sums.questions["hash"].unique()
        hashed = f" The {sums.roles.unit}s have the hash {hashes[0]}." if len(hashes) == 1 else ""
    files = f"{n} file{'s' if n > 1 else ''} of sums"
    return (f"{sums.n_rows} {what} of {sums.roles.outcome} were read from {files}, {len(sums.lines)} lines.{hashed}",)


def counted(sums: SummedLog) -> str:
    """What the rows that were summed are called."""
    if isinstance(sums.roles, SummedPairRoles):
        return "comparisons"
    return "rows" if isinstance(sums.roles, SummedRatioRoles) else "scores"


def sums_document(sums: SummedLog) -> dict[str, object]:
    """The same for JSON."""
    questions = sums.questions if sums.roles.hashed else None
    by = list(sums.roles.by) or ["all"]
    return {
        "lines": len(sums.lines),
        "questions": None if questions is None else records(questions, *by),
        "roles": asdict(sums.roles),
        "rows": sums.n_rows,
        "shards": list(sums.shards),
    }

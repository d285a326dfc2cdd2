"""``evalreg summarise``: the sums of a log, which add up over nights and machines."""

from __future__ import annotations

import argparse
from typing import Any

from evalreg.cli.leaderboard import LABELS_HELP, as_options, meanings
from evalreg.cli.logs import add_files, add_log_options
from evalreg.cli.parsing import Output
from evalreg.cli.selection import Rows, counting, group_names, read_rows, role_names, split_names
from evalreg.cli.shared import add_rows, check_files, csv_text, document_text, formats_of, log_notes
from evalreg.cli.sums import counted, sums_document
from evalreg.data.summed import SummedLog
from evalreg.data.summed_roles import SummedPairRoles, SummedRatioRoles, SummedRoles
from evalreg.errors import ArgumentError
from evalreg.estimators.shards import summarise
from evalreg.report.tables import Grid, Summary

EPILOG = """\
The file holds no row: a line for each cluster and model, or pair of models.
`evalreg mean`, `compare`, `ratio` and `leaderboard` take such files, one or
many, and add them up. They are Parquet, which needs evalreg[parquet].

Examples, on the simulated logs that `evalreg demo --write logs` makes:

  evalreg summarise logs/models.csv --by model --item question \\
      --groups passage -o monday.parquet
  evalreg mean monday.parquet --groups passage
  evalreg summarise logs/judge_log.csv --winner winner \\
      --groups "prompt + judge" -o duels.parquet
  evalreg leaderboard duels.parquet --groups prompt
  evalreg summarise logs/passages.csv --numerator score --denominator n_words \\
      --groups passage -o words.parquet
  evalreg ratio words.parquet
"""
_OF_PAIRS = ("left", "right", "winner", "labels", "key")
_OF_RATIOS = ("numerator", "denominator")
_TAKEN: dict[type, str] = {
    SummedRoles: "mean, or to evalreg compare where the questions are among the groups.",
    SummedPairRoles: "leaderboard.",
    SummedRatioRoles: "ratio.",
}


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = "Sums of a log by cluster and model, in a file that adds up with others."
    parser.add_argument("--score", metavar="X", help="the column of the scores (default: score)")
    parser.add_argument("--by", metavar="A,B", help="columns of the models; of comparisons, a column of strata")
    parser.add_argument("--item", metavar="X", help="the column of the questions, of which a hash is kept")
    parser.add_argument("--strata", metavar="X", help="the column of subjects that are a fixed list, not a sample")
    parser.add_argument("--left", metavar="X", help="of comparisons: the column of one model (default: left)")
    parser.add_argument("--right", metavar="X", help="of comparisons: the column of the other (default: right)")
    parser.add_argument("--winner", metavar="X", help="of comparisons: the column of the verdicts; this or --score")
    parser.add_argument("--labels", metavar="A=B,..", help=LABELS_HELP)
    parser.add_argument(
        "--key", metavar="A,B", help="of comparisons: columns that, with the two models, identify one; a hash is kept"
    )
    parser.add_argument("--numerator", metavar="X", help="of a ratio: the column of the numerators; see evalreg ratio")
    parser.add_argument("--denominator", metavar="X", help="of a ratio: the column of the denominators")
    add_files(parser)
    add_rows(parser)
    add_log_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument("-o", "--output", dest="sums", metavar="FILE", required=True, help="the file of the sums")
    output.add_argument(
        "--format", choices=list(FORMATS), default="text", help="of what is said about the sums (default: text)"
    )


def run(options: argparse.Namespace) -> Output:
    """What ``evalreg summarise`` prints, after the sums were written."""
    check_files(options, options.sums)
    by = None if options.by is None else split_names(options.by, "--by")
    key = None if options.key is None else split_names(options.key, "--key")
    names = role_names(*(by or ()), options.item, options.strata, options.left, options.right, options.winner)
    of_ratio = [name for name in _OF_RATIOS if getattr(options, name) is not None]
    score = options.score or (None if options.winner or of_ratio else "score")
    numbers = {score, options.weights, options.numerator, options.denominator}
    given = [name for name in _OF_PAIRS if getattr(options, name) is not None]
    sides = {"left", "right"} if given else set()
    text = {*names, *sides, *role_names(*(key or ())), *group_names(options.groups)}
    rows = read_rows(options, text - numbers, numbers)
    if of_ratio:
        roles = _of_ratio(rows, options, by)
    elif rows.log is not None and "left" in rows.roles:
        roles = _of_log_pairs(rows, options, key)
    elif given:
        roles = _of_pairs(options, key)
    else:
        roles = _of_scores(rows, options, by)
    if given and "left" not in roles and not of_ratio:
        raise ArgumentError(f"`--{given[0]}` goes with comparisons; this log has scores of single models.")
    if "left" in roles and not of_ratio:
        roles["by"] = by
    with counting(rows), as_options():
        sums = summarise(rows.frame, **roles, missing=options.missing, path=options.sums)
    return Output(FORMATS[options.format]((sums, rows, options)))


def _of_pairs(options: argparse.Namespace, key: list[str] | None) -> dict[str, Any]:
    """Roles of a table of comparisons."""
    return {
        "left": options.left or "left",
        "right": options.right or "right",
        "winner": options.winner,
        "score": options.score,
        "labels": None if options.labels is None else meanings(options.labels),
        "key": key,
        "weights": options.weights,
        "item": options.item,
        "strata": options.strata,
        "groups": _named(options.groups),
    }


def _of_log_pairs(rows: Rows, options: argparse.Namespace, key: list[str] | None) -> dict[str, Any]:
    """The same of a log of a harness, which says itself what its columns are."""
    assert rows.log is not None
    options.groups = options.groups or " + ".join(role for role in ("prompt", "judge") if rows.several(role)) or None
    roles = _of_pairs(options, key or rows.log.key or None)
    if options.winner is None and options.score is None:
        roles["winner" if "winner" in rows.roles else "score"] = "winner" if "winner" in rows.roles else "score"
    return roles


def _of_scores(rows: Rows, options: argparse.Namespace, by: list[str] | None) -> dict[str, Any]:
    """Roles of a table, or a log, of scores."""
    by = by or [role for role in ("model", "task", "prompt") if rows.several(role)] or None
    rows.refuse_averaging(*(by or ()))
    if rows.sample is not None:
        raise ArgumentError(
            "The log has repeated answers to a question, which are averaged before they are summed, and sums cannot "
            "be. Keep one by --where, or average them in a table first."
        )
    item = options.item or rows.item
    roles = {"score": options.score, "by": by, "item": item, "strata": options.strata, "weights": options.weights}
    return roles | {"groups": _named(options.groups or rows.item)}


def _of_ratio(rows: Rows, options: argparse.Namespace, by: list[str] | None) -> dict[str, Any]:
    """Roles of numerators and denominators; those of comparisons are refused by name."""
    by = by or [role for role in ("model", "task", "prompt") if rows.several(role)] or None
    names = ("numerator", "denominator", "score", "strata", "weights", *_OF_PAIRS)
    roles = {name: getattr(options, name) for name in names}
    return roles | {"by": by, "item": options.item, "groups": _named(options.groups or rows.item)}


def _named(groups: str | None) -> str:
    if groups is None:
        raise ArgumentError("`--groups` must name the clusters that the sums are by, all that may be crossed later.")
    return groups


def _summary(found: tuple[SummedLog, Rows, argparse.Namespace]) -> Summary:
    sums, rows, options = found
    dropped = ", ".join(f"{count} without {reason}" for reason, count in sums.dropped.items() if count)
    facts = [
        (counted(sums).capitalize(), str(sums.n_rows)),
        ("Of", sums.roles.outcome),
        ("Lines", str(len(sums.lines))),
        ("Rows dropped", dropped or "none"),
        ("Summed by", ", ".join(sums.roles.labels)),
        ("File", str(options.sums)),
    ]
    if options.where is not None:
        facts.append(("Where", f"{options.where} ({len(rows.frame)} of {rows.n_read} rows)"))
    grids: tuple[Grid, ...] = ()
    if sums.roles.hashed:
        table = sums.questions
        names = [":".join(map(str, one)) if isinstance(one, tuple) else str(one) for one in table.index]
        shown = zip(names, table["n"].astype(str), table["hash"], strict=True)
        grids = (Grid(("", f"{sums.roles.unit}s", "hash"), tuple(shown)),)
    said = "The file adds up with others: name them together to evalreg "
    said += _TAKEN[type(sums.roles)]
    return Summary("evalreg sums", tuple(facts), grids, (*log_notes(rows, options), said))


def _as_json(found: tuple[SummedLog, Rows, argparse.Namespace]) -> str:
    sums, rows, options = found
    own: dict[str, object] = {"kind": "sums", "file": options.sums, **sums_document(sums), "dropped": sums.dropped}
    return document_text(own, (), ("groups", "key", "missing", "where"), options, rows)


def _as_csv(found: tuple[SummedLog, Rows, argparse.Namespace]) -> str:
    """The lines themselves."""
    return csv_text(found[0].lines, False)


FORMATS = formats_of(_summary, _as_json, _as_csv)

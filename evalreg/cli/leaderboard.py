"""``evalreg leaderboard``: models compared in pairs, from a log of verdicts to ranks with error bars."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from evalreg.boards.board import Board
from evalreg.checks import OPPONENTS, SCALES, TIES, option
from evalreg.cli.parsing import Output, offering
from evalreg.cli.ranked import add_figure, add_ranked, ranked
from evalreg.cli.selection import Rows, counting, formula_names, group_names, read_rows, role_names, split_names
from evalreg.cli.shared import add_shared, check_shared, covariance_options, listed
from evalreg.cli.sums import add_sums
from evalreg.errors import ArgumentError, UnknownLabelError
from evalreg.estimators.bradley_terry import bradley_terry
from evalreg.estimators.controlled import controlled_win_rate
from evalreg.estimators.mean import mean
from evalreg.estimators.win_rate import win_rate
from evalreg.results.results import Results

METHODS: dict[str, Callable[..., Board]] = {
    "win-rate": win_rate,
    "bradley-terry": bradley_terry,
    "controlled": controlled_win_rate,
}

EPILOG = """\
Examples, on the simulated logs that `evalreg demo --write logs` makes:

  evalreg leaderboard logs/judge_log.csv --left left --right right \\
      --winner winner --groups "prompt + judge"
  evalreg leaderboard logs/judge_log.csv --left left --right right \\
      --winner winner --groups prompt --method bradley-terry --formula 1 \\
      --scale elo
  evalreg leaderboard logs/judge_log.csv --winner winner --groups prompt --tiers
  evalreg leaderboard logs/judge_log.csv --winner winner --groups prompt \\
      --opponents as_sampled --cov jackknife --format md
  evalreg leaderboard logs/judge_log.csv --left left --right right \\
      --winner winner --key prompt,judge --groups "prompt + judge" --format json
"""

LABELS_HELP = """\
what verdicts mean, such as "A=left,B=right,C=tie,error=": left, right, tie, the name of a model, or nothing for no
verdict"""

_FORMULA_HELP = """\
what differs between the two sides, left minus right, such as "length_difference" (with the advantage of the left side)
or "0 + length_difference" (without), or 1 for the side alone; for bradley-terry and controlled"""


_ALIKE_HELP = """\
one of two crossed clusterings, such as judge, that has few clusters. They are taken to differ as much on every model,
so that all models together show how much they differ; too sure for a model on which they differ more"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = "Models compared in pairs: win rates or ratings, and ranks with their error bars."
    add_pairs(parser)
    add_ranked(parser)
    add_figure(parser, "the board")
    add_sums(parser)
    add_shared(parser)


def add_pairs(parser: argparse._ActionsContainer) -> None:
    """Add the options that say what a board is made of."""
    parser.add_argument("--left", default="left", metavar="X", help="the column of one model (default: left)")
    parser.add_argument("--right", default="right", metavar="X", help="the column of the other (default: right)")
    parser.add_argument("--winner", metavar="X", help="the column of the verdicts; this or --score")
    parser.add_argument("--score", metavar="X", help="the column of the left model's score, in [0, 1]")
    parser.add_argument("--labels", metavar="A=B,..", help=LABELS_HELP)
    parser.add_argument(
        "--key", metavar="A,B", help="columns that, with the two models, identify a comparison; repeats are refused"
    )
    offering(
        parser.add_argument(
            "--method", default="win-rate", metavar="NAME", help=f"{listed(tuple(METHODS))} (default: win-rate)"
        ),
        METHODS,
    )
    offering(
        parser.add_argument(
            "--opponents",
            default="uniform",
            metavar="NAME",
            help=f"{listed(OPPONENTS)}: how a win rate weighs opponents (default: uniform)",
        ),
        OPPONENTS,
    )
    parser.add_argument("--by", metavar="X", help="a column of strata, each with win rates of its own")
    offering(
        parser.add_argument(
            "--standardise",
            metavar="W",
            help='with --by: one win rate a model over the strata, in "uniform" or "observed" shares, or "en=1,ko=2"',
        ),
        ("uniform", "observed"),
    )
    parser.add_argument("--formula", metavar="FORMULA", help=_FORMULA_HELP)
    offering(
        parser.add_argument(
            "--ties", default="half", metavar="NAME", help=f"{listed(TIES)}, for bradley-terry (default: half)"
        ),
        TIES,
    )
    parser.add_argument("--reference", metavar="NAME", help="the model whose rating is 0 (default: they sum to zero)")
    offering(
        parser.add_argument(
            "--scale", default="logit", metavar="NAME", help=f"{listed(SCALES)}, for bradley-terry (default: logit)"
        ),
        SCALES,
    )
    parser.add_argument("--alike", metavar="X", help=_ALIKE_HELP)


def run(options: argparse.Namespace) -> Output:
    """What ``evalreg leaderboard`` prints."""
    board, rows, asked = board_of(options)
    return ranked(board, rows, options, asked, with_ranks=True)


def board_of(options: argparse.Namespace) -> tuple[Board | Results, Rows, dict[str, object]]:
    """The board of the options, the rows that were read, and what was asked."""
    check_shared(options)
    roles = checked_roles(options)
    key = [] if options.key is None else split_names(options.key, "--key")
    factors, plain = formula_names(f"score ~ {options.formula}") if options.formula else (set(), set())
    text = role_names(options.left, options.right, options.winner, options.by, *key)
    text |= {*group_names(options.groups), *factors}
    numbers = {options.score, options.weights, *plain}
    rows = read_rows(options, text - numbers, numbers)
    named = ("left", "right", "winner", "score", "labels", "groups", "method", "alike")
    asked: dict[str, object] = {name: getattr(options, name) for name in named} | {"key": key, **roles}
    with counting(rows), as_options():
        if ("model" in rows.roles and "left" not in rows.roles) or rows.holds_scores:
            board: Board | Results = _scored(rows, options, asked)
        else:
            rows.refuse_unnamed_pairs(options.left, options.winner, options.score)
            board = compared(rows, options, asked, key, roles)
    return board, rows, asked


def compared(
    rows: Rows, options: argparse.Namespace, asked: dict[str, object], key: list[str], roles: dict[str, Any]
) -> Board:
    """The board of models that were compared in pairs; a log says itself what its columns are."""
    outcome = {"winner": options.winner, "score": options.score}
    if rows.log is not None:
        key = key or rows.log.key
        if set(outcome.values()) == {None}:
            outcome["winner" if "winner" in rows.roles else "score"] = "winner" if "winner" in rows.roles else "score"
    groups = options.groups or " + ".join(role for role in ("prompt", "judge") if rows.several(role)) or None
    asked |= {"groups": groups, "key": key, **outcome}
    return METHODS[options.method](
        rows.data,
        left=options.left,
        right=options.right,
        labels=None if options.labels is None else meanings(options.labels),
        key=key or None,
        groups=groups,
        weights=options.weights,
        missing=options.missing,
        **outcome,
        **roles,
        **covariance_options(options),
    )


# Options for comparisons, and not for scores; with the default of each.
_OF_PAIRS = {"winner": None, "labels": None, "key": None, "method": "win-rate", "opponents": "uniform", "by": None}
_OF_PAIRS |= {"standardise": None, "formula": None, "alike": None, "left": "left", "right": "right"}


def of_pairs(options: argparse.Namespace) -> list[str]:
    """Options that were given and go with comparisons only."""
    return [f"--{name}" for name, default in _OF_PAIRS.items() if getattr(options, name) != default]


def _scored(rows: Rows, options: argparse.Namespace, asked: dict[str, object]) -> Results:
    """The models of a log of scores, by their means."""
    given = of_pairs(options)
    if given:
        raise ArgumentError(f"{' and '.join(given)} go with comparisons; this log has scores of single models.")
    if rows.sums is not None and not rows.summed_by:
        raise ArgumentError("A leaderboard needs models; the sums are of one. See evalreg mean.")
    rows.refuse_averaging()
    score = "score" if options.score is None else options.score
    asked |= {"groups": options.groups or rows.item, "method": "mean", "score": score, "left": None, "right": None}
    asked["opponents"] = None
    cov = {name: value for name, value in covariance_options(options).items() if name != "alike"}
    return mean(
        rows.data,
        score,
        by=rows.summed_by or "model",
        item=rows.item,
        sample=rows.sample,
        groups=options.groups,
        weights=options.weights,
        missing=options.missing,
        **cov,
    )


def checked_roles(options: argparse.Namespace) -> dict[str, Any]:
    """Options that one method has and others have not, checked."""
    option("method", options.method, tuple(METHODS))
    own: dict[str, dict[str, Any]] = {
        "win-rate": {"opponents": "uniform", "by": None, "standardise": None},
        "bradley-terry": {"formula": None, "ties": "half", "reference": None, "scale": "logit"},
        "controlled": {"formula": None},
    }
    mine = own[options.method]
    for name, default in {**own["win-rate"], **own["bradley-terry"]}.items():
        given = getattr(options, name)
        if name not in mine and given != default:
            takers = " and ".join(method for method, names in own.items() if name in names)
            raise ArgumentError(f"`--{name}` goes with --method {takers}; got --method {options.method}.")
    if options.method == "controlled" and options.formula is None:
        raise ArgumentError("`--method controlled` needs `--formula`, what is held equal between the two sides.")
    for name, known in (("opponents", OPPONENTS), ("ties", TIES), ("scale", SCALES)):
        if name in mine:
            option(name, getattr(options, name), known)
    roles = {name: getattr(options, name) for name in mine}
    if options.standardise is not None and "=" in options.standardise and "standardise" in roles:
        roles["standardise"] = _shares(options.standardise)
    return roles


@contextmanager
def as_options() -> Iterator[None]:
    """Spell what an error offers for labels as the command line takes it."""
    try:
        yield
    except UnknownLabelError as error:
        error.message = error.message.replace("None for no verdict", "and nothing for no verdict")
        if error.labels is not None:
            pairs = ",".join(_quoted(f"{verdict}={meaning or ''}") for verdict, meaning in error.labels.items())
            error.message = error.message.replace(f"labels={error.labels!r}", f"--labels {shlex.quote(pairs)}")
        raise


def _quoted(part: str) -> str:
    """A part of a list with commas between its parts, in double quotes where it holds one of either."""
    return '"' + part.replace('"', '""') + '"' if "," in part or '"' in part else part


def meanings(text: str) -> dict[str, str | None]:
    """Meaning of each verdict, from ``A=left,B=right,error=``."""
    labels: dict[str, str | None] = {}
    for part in split_names(text, "--labels"):
        verdict, sign, meaning = part.rpartition("=")
        if not sign or not verdict or verdict in labels:
            problem = "appears twice" if verdict in labels else "has no verdict before an equals sign"
            raise ArgumentError(
                f'`--labels` must hold one meaning for each verdict, such as "A=left,error="; "{part}" {problem}.'
            )
        labels[verdict] = meaning or None
    return labels


def _shares(text: str) -> dict[str, float]:
    """Shares of the strata, from ``en=1,ko=2``."""
    shares: dict[str, float] = {}
    for part in split_names(text, "--standardise"):
        name, _, value = part.rpartition("=")
        try:
            shares[name] = float(value)
        except ValueError:
            name = ""
        if not name:
            raise ArgumentError(
                f'`--standardise` must be "uniform", "observed" or one number for each stratum, such as "en=1,ko=2"; '
                f'got "{part}" in "{text}".'
            )
    return shares

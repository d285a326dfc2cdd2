"""``evalreg compare``: differences between models on shared questions, and a gate on one of them."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from evalreg.checks import adjustment
from evalreg.cli.difference_tests import add_tests, check_tests, tested
from evalreg.cli.gates import EXAMPLE, Decision, check_models, decide, parse_gate
from evalreg.cli.parsing import Output, offering
from evalreg.cli.ranked import add_figure, save_figure
from evalreg.cli.selection import counting, group_names, read_rows, role_names
from evalreg.cli.shared import (
    POPULATION_HELP,
    add_shared,
    check_shared,
    covariance_options,
    listed,
    rendered,
    target_options,
)
from evalreg.cli.spelled import spelled
from evalreg.cli.sums import add_sums
from evalreg.data.summed import SummedLog
from evalreg.errors import ArgumentError
from evalreg.estimators.difference import compare
from evalreg.inference.ranks import PAIR_ADJUSTMENTS, unadjusted_text
from evalreg.report.tables import html_strong, latex_strong
from evalreg.scores.paired import checked_icc
from evalreg.scores.unseen import ICC

EPILOG = """\
With --gate the exit status is 0 when the claim is shown, 1 when it is shown to
fail, 2 when the data cannot tell; 3 and 4 are errors, as for every command.

Examples, on the simulated logs that `evalreg demo --write logs` makes:

  evalreg compare logs/models.csv --item question --groups passage
  evalreg compare logs/models.csv --item question --baseline old --format md
  evalreg compare logs/models.csv --item question --figure differences.png
  evalreg compare logs/models.csv --item question --groups passage --wild
  evalreg compare logs/models.csv --item question --groups passage \\
      --gate "new - old > -0.05"
  evalreg compare logs/models.csv --item question --groups passage \\
      --gate "new - old > -0.05" --format json --summary summary.md
"""

# Formats in which nobody sees the decision when the table goes to a file; the line is on standard error too.
WITHOUT_SENTENCES = ("csv", "latex", "html")
STRONG = {"latex": latex_strong, "html": html_strong}

_GATE_HELP = f"""\
a claim such as "{EXAMPLE}", decided by a one-sided test at --alpha; one line is printed (csv, latex and html:
on standard error). Backticks go around a model's
name with spaces or signs, and spaces around the minus sign"""


_ICC_HELP = f"""\
correlation, within a cluster, of differences that were not seen; it matters where few questions differ (default:
{ICC:g}, which is careful); "none" allows for what was seen only"""


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the command and add its options."""
    parser.description = "Differences between models over the questions that both answered, paired."
    parser.add_argument("--score", default="score", metavar="X", help="the column of the scores (default: score)")
    parser.add_argument("--model", default="model", metavar="X", help="the column of the models (default: model)")
    parser.add_argument(
        "--item",
        default="item",
        metavar="X",
        help='the column of the questions (default: item), or "task:question" where ids repeat between tasks; without '
        "--groups they are the clusters",
    )
    parser.add_argument(
        "--sample", metavar="X", help="the column of repeated answers, which are averaged within their question first"
    )
    parser.add_argument("--population", metavar="N", help=POPULATION_HELP)
    parser.add_argument("--strata", metavar="X", help="the column of subjects that are a fixed list, not a sample")
    parser.add_argument("--baseline", metavar="NAME", help="compare all others with this model (default: all pairs)")
    parser.add_argument("--unpaired", action="store_true", help="ignore that the questions are the same")
    offering(
        parser.add_argument(
            "--adjust", metavar="NAME", help=f"{listed(PAIR_ADJUSTMENTS)}: how p-values allow for the number of pairs"
        ),
        PAIR_ADJUSTMENTS,
    )
    parser.add_argument("--icc", type=_number_or_none, default=ICC, metavar="R", help=_ICC_HELP)
    add_tests(parser)
    add_figure(parser, "the differences")
    parser.add_argument("--gate", metavar="CLAIM", help=_GATE_HELP)
    parser.add_argument("--summary", metavar="FILE", help="append the result to this file too, as Markdown")
    add_sums(parser)
    add_shared(parser, weights=False)


def _number_or_none(text: str) -> float | None:
    return None if text.lower() == "none" else float(text)


def run(options: argparse.Namespace) -> Output:
    """What ``evalreg compare`` prints, and the status of its gate."""
    check_shared(options)
    options.adjust = adjustment("adjust", options.adjust, PAIR_ADJUSTMENTS)
    checked_icc(options.icc)
    check_tests(options)
    if options.unpaired and options.icc != ICC:
        raise ArgumentError("`--icc` is of questions that two models share, which `--unpaired` ignores. Leave out one.")
    gate = None if options.gate is None else parse_gate(options.gate)
    if gate is not None and options.baseline not in (None, gate.baseline):
        raise ArgumentError(
            f'`--baseline` and `--gate` must name the same baseline; got "{options.baseline}" and "{gate.baseline}". '
            "Leave out `--baseline`."
        )
    roles = role_names(options.model, options.item, options.sample, options.strata)
    rows = read_rows(options, {*roles, *group_names(options.groups)} - {options.score}, {options.score})
    rows.refuse_verdicts(options.score)
    rows.refuse_averaging(options.model)
    item, sample = rows.item or options.item if options.item == "item" else options.item, options.sample or rows.sample
    models = rows.data.lines if isinstance(rows.data, SummedLog) else rows.frame
    if gate is not None and options.model in models:
        check_models(gate, models[options.model].dropna().unique())
    baseline = options.baseline if gate is None else gate.baseline
    with counting(rows):
        comparison = compare(
            rows.data,
            options.score,
            model=options.model,
            item=item,
            sample=sample,
            groups=options.groups,
            strata=options.strata,
            **target_options(options),
            baseline=baseline,
            paired=not options.unpaired,
            adjust=options.adjust,
            icc=options.icc,
            missing=options.missing,
            **covariance_options(options),
        )
    decision = None if gate is None else decide(gate, comparison, options.alpha)
    if decision is not None:
        decision = replace(decision, few=spelled(decision.few, options))
    if options.figure is not None:
        save_figure(lambda: comparison.plot(alpha=options.alpha), options.figure)
    asked: dict[str, object] = {name: getattr(options, name) for name in ("adjust", "icc", "model", "score")}
    asked |= {"item": item, "sample": sample}
    asked |= {"strata": options.strata, "baseline": baseline, "paired": not options.unpaired}
    asked["groups"] = item if options.groups is None else options.groups
    plain = spelled(unadjusted_text(len(comparison.facts.index)), options) if options.adjust is None else ""
    more: dict[str, object] = {"unadjusted": plain or None}
    if decision is not None:
        more["gate"] = decision.as_dict()
    tests = tested(comparison, options)
    frame = None if tests.columns is None else comparison.to_frame(options.alpha).join(tests.columns)
    own: dict[str, Any] = {"comparison": comparison, "more": more | tests.document, "frame": frame}
    own |= {"said": tests.sentences, "last": tests.grids}
    printed = rendered(comparison.results, rows, options, asked, **own)
    text = printed.text
    if options.summary is not None:
        as_markdown = argparse.Namespace(**{**vars(options), "format": "md"})
        markdown = rendered(comparison.results, rows, as_markdown, asked, **own).text
        _append(options.summary, _markdown(decision, markdown))
    csv = options.format == "csv"
    lines = ("" if decision is None else decision.line, plain if csv else "", *(tests.messages if csv else ()))
    messages = tuple(filter(None, lines)) if options.format in WITHOUT_SENTENCES else ()
    messages += printed.messages
    if decision is None:
        return Output(text, messages=messages)
    above = {"text": decision.line, "md": _markdown(decision, text)}
    above |= {name: f"{mark(decision.line)}\n\n{text}" for name, mark in STRONG.items()}
    return Output(above.get(options.format, text), decision.status, messages)


def _markdown(decision: Decision | None, table: str) -> str:
    return table if decision is None else f"**{decision.line}**\n\n{table}"


def _append(file: str, markdown: str) -> None:
    """Add to the end of a file, which other steps may have written to."""
    try:
        with Path(file).open("a", encoding="utf-8", errors="replace", newline="\n") as stream:
            stream.write(markdown.rstrip("\n") + "\n\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ArgumentError(f'`--summary` must be a file to write to; "{file}" is not: {reason}.') from error

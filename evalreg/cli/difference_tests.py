"""Tests of differences beside those of their table: of all at once, and by the wild cluster bootstrap."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from evalreg.checks import fraction
from evalreg.errors import ArgumentError
from evalreg.estimators.comparison import Comparison
from evalreg.estimators.pair_tables import joint_note
from evalreg.report.documents import records
from evalreg.report.summaries import not_allowed_for
from evalreg.report.tables import UNKNOWN, Grid, fixed, interval_text, p_value
from evalreg.resampling.draws import seed_text


@dataclass(frozen=True)
class Tested:
    """What further tests have to say, in every format."""

    grids: tuple[Grid, ...] = ()
    sentences: tuple[str, ...] = ()
    document: dict[str, object] = field(default_factory=dict)  # for JSON
    columns: pd.DataFrame | None = None  # for CSV, beside the differences
    messages: tuple[str, ...] = ()  # what CSV has no place for


def add_tests(parser: argparse.ArgumentParser) -> None:
    """Add the options of further tests."""
    parser.add_argument(
        "--joint", action="store_true", help="also one test of all differences at once: whether any model differs"
    )
    parser.add_argument(
        "--wild",
        action="store_true",
        help="also the wild cluster bootstrap: p-values and intervals for few clusters or unequal ones",
    )
    parser.add_argument(
        "--draws", type=int, default=9999, metavar="N", help="with --wild: draws of each test (default: 9999)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="with --wild: seed of the draws (default: 0)")


def check_tests(options: argparse.Namespace) -> None:
    """Refuse wrong options before a large file is read."""
    if options.wild and options.adjust == "single-step":
        raise ArgumentError(
            "`--wild` has no single-step adjustment, which is of other p-values. Write --adjust holm, or leave it out."
        )
    for name, default in (("draws", 9999), ("seed", 0)):
        if not options.wild and getattr(options, name) != default:
            raise ArgumentError(f"`--{name}` goes with --wild, whose draws it is of.")


def tested(comparison: Comparison, options: argparse.Namespace) -> Tested:
    """The tests that were asked for."""
    joint = _joint(comparison) if options.joint else Tested()
    wild = _wild(comparison, options) if options.wild else Tested()
    return Tested(
        joint.grids + wild.grids,
        joint.sentences + wild.sentences,
        joint.document | wild.document,
        wild.columns,
        joint.messages,
    )


def _joint(comparison: Comparison) -> Tested:
    test = comparison.joint_test()
    p = float(np.squeeze(test.pvalue))
    if test.distribution == "chi2":
        q, dof = int(test.df_denom), np.inf
        F = float(np.squeeze(test.statistic)) / q
    else:
        q, dof, F = int(test.df_num), float(test.df_denom), float(np.squeeze(test.fvalue))
    degrees = f"{q}, {'infinite' if np.isinf(dof) else _known(dof, 1).removesuffix('.0')}"
    grid = Grid(
        ("all differences at once", "F", "dof", "p"),
        (("joint test", _known(F, 2), degrees, UNKNOWN if np.isnan(p) else p_value(p)),),
    )
    text = "The joint test asks whether any of the models differs; it does not say which."
    reason = str(getattr(test, "reason", "") or "")
    unseen, few = ("", "") if reason else (joint_note(comparison.results), str(test.note))
    note = "; ".join(filter(None, (unseen, few)))
    if reason:
        text = f"The joint test cannot be made: {reason}."
    if unseen:
        text = f"{text} It does not allow for differences that were not seen, and its p may be too small."
    if few:
        text = f"{text} {few[0].upper()}{few[1:]}"
    message = f"Joint test of all differences: F({degrees}) = {fixed(F, 2)}, p {p_value(p)}."
    document = {"F": F, "df_num": q, "df_denom": dof, "p_value": p, "reason": reason or None, "note": note or None}
    return Tested((grid,), (text,), {"joint": document}, None, (message if not reason else text,))


def _known(statistic: float, digits: int) -> str:
    return UNKNOWN if np.isnan(statistic) else fixed(statistic, digits)


def _wild(comparison: Comparison, options: argparse.Namespace) -> Tested:
    alpha = fraction("alpha", options.alpha)
    table = comparison.wild_test(draws=options.draws, alpha=alpha, seed=options.seed)
    adjusted = "p_adjusted" in table
    rows = []
    for (model, baseline), row in zip(table.index, table.to_dict("records"), strict=True):
        p = row["p_adjusted" if adjusted else "p_value"]
        ends = interval_text(row["lower"], row["upper"], row["difference"])
        how = f"{row['draws']}{' (all)' if row['enumerated'] else ''}"
        rows.append(
            (
                f"{model} - {baseline}",
                _known(row["statistic"], 2),
                UNKNOWN if np.isnan(p) else p_value(p, alpha),
                ends,
                how,
            )
        )
    headers = ("wild bootstrap", "t (CR1)", "adj. p" if adjusted else "p", f"{100 * (1 - alpha):g}% interval", "draws")
    by = ", ".join(dict.fromkeys(f"{row['by']} ({row['n_clusters']} clusters)" for row in table.to_dict("records")))
    drawn = "" if table["enumerated"].all() else f", {seed_text(table.attrs['seed'])}"
    text = (
        f"Wild cluster bootstrap by {by}: {table.attrs['weights']} weights under the null{drawn}. Its "
        "intervals hold one at a time."
    )
    note = not_allowed_for(comparison.results.cov)
    if note:
        text = f"{text} They do not allow for differences that were not seen, and may be too short."
    columns = table.drop(columns=["difference"]).add_prefix("wild_")
    document = {name: table.attrs[name] for name in ("adjust", "alpha", "null", "weights")} | {"seed": options.seed}
    document["note"] = note or None
    document["differences"] = records(table.reset_index().set_index("model"), "model")
    return Tested((Grid(headers, tuple(rows)),), (text,), {"wild": document}, columns)

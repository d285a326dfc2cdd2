"""Ranks, the corrected winner and figures, for the commands that print models beside each other."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from evalreg.cli.parsing import Output
from evalreg.cli.selection import Rows
from evalreg.cli.shared import rendered
from evalreg.errors import ArgumentError, EvalregWarning, NotAvailableError
from evalreg.report.documents import records
from evalreg.report.summaries import rating_reach
from evalreg.report.tables import Grid, limits, number
from evalreg.results.results import Results
from evalreg.results.tiers import Tiers, first_sentence, group_column, ranks_text, ranks_told, tier_grid
from evalreg.results.winner import Winner, winner_grid, winner_sentences

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# Dots an inch of a picture, and how many dots high it is at the most, though it has hundreds of rows.
DPI, HIGHEST = 150, 4000


def add_ranked(parser: argparse.ArgumentParser) -> None:
    """Add the options of ranks and of the best model."""
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the joint intervals (default: 0)")
    parser.add_argument(
        "--tiers",
        action="store_true",
        help="the tiers: models that are separated from all below, and whether the first is separated from the second",
    )
    parser.add_argument(
        "--best",
        action="store_true",
        help="also the estimate of the best model, corrected for the luck of coming first",
    )


def add_figure(parser: argparse.ArgumentParser, what: str) -> None:
    """Add the option of a figure."""
    parser.add_argument(
        "--figure", metavar="FILE", help=f"draw {what} there (.png, .svg, .pdf), with matplotlib of evalreg[plot]"
    )


def ranked(
    results: Results, rows: Rows, options: argparse.Namespace, asked: dict[str, object], *, with_ranks: bool
) -> Output:
    """Results as printed, after their ranks and the corrected winner where these are asked for."""
    first: list[Grid] = []
    said: tuple[str, ...] = ()
    more: dict[str, object] = {}
    frame = None
    if (with_ranks or options.tiers or options.best) and results.estimate.about.n_models < 2:
        flag = next((f"--{name}" for name in ("best", "tiers", "ranks") if getattr(options, name, False)), None)
        if flag is None:
            raise ArgumentError("A leaderboard is for two or more models; here is one. See evalreg mean.")
        raise ArgumentError(f"`{flag}` is for two or more models; here is one mean. Name their column in `--by`.")
    if with_ranks or options.tiers:
        frame = results.leaderboard(options.alpha, options.seed).rename_axis("model")
        more |= {"kind": "board", "leaderboard": records(frame, "model"), "seed": options.seed}
        first.append(board_grid(results, frame))
        said = (ranks_told(frame, options.alpha),)
    if options.tiers and frame is not None:
        tiers = results.tiers(options.alpha, seed=options.seed)
        first, said = [tier_grid(frame, tiers.reach)], (first_sentence(tiers), *tiers.sentences)
        more["tiers"] = _tiers_document(tiers)
    if options.best:
        found = results.winner(options.alpha, seed=options.seed)
        first.append(winner_grid(found, rating_reach(results.estimate)))
        more["winner"] = {**asdict(found), "tied": list(found.tied)}
        frame = _with_winner(_estimates(results, options.alpha) if frame is None else frame, found)
        said = (*said, *winner_sentences(found))
    if options.figure is not None:
        draw(results, options)
    return rendered(results, rows, options, asked, first=tuple(first), frame=frame, more=more, said=said)


def _estimates(results: Results, alpha: float) -> pd.DataFrame:
    return results.to_frame(alpha).rename_axis("parameter")


def _with_winner(table: pd.DataFrame, found: Winner) -> pd.DataFrame:
    """The board with the corrected estimate and interval of the first place; empty for the others."""
    own = found.to_frame()[["corrected", "lower", "upper"]]
    return table.join(own.rename(columns={"lower": "corrected_lower", "upper": "corrected_upper"}))


def board_grid(board: Results, table: pd.DataFrame) -> Grid:
    """The board: ranks that are not excluded, joint intervals, and letters where they are few."""
    alpha = table.attrs["alpha"]
    header, groups = group_column(table)
    headers = ("", "rank", "ranks open", "estimate", f"joint [{alpha / 2:.3g}", f"{1 - alpha / 2:.3g}]")
    rows, reach = [], rating_reach(board.estimate)
    for i, (name, row) in enumerate(table.iterrows()):
        ends = limits(row["joint_lower"], row["joint_upper"], row["estimate"], reach)
        group = groups[i : i + 1]
        count = (str(row["n"]),) if "n" in table else ()
        rows.append((str(name), str(row["rank"]), ranks_text(row), number(row["estimate"]), *ends, *group, *count))
    more = (*([header] if header else []), *(("n",) if "n" in table else ()))
    return Grid((*headers, *more), tuple(rows))


def _tiers_document(found: Tiers) -> dict[str, object]:
    """What JSON says of tiers beside the column of the leaderboard."""
    names = ("first", "second", "separated", "difference", "p_adjusted", "n_tiers", "n_pairs", "alpha")
    return {**{name: getattr(found, name) for name in names}, "undecided": [list(pair) for pair in found.undecided]}


def draw(results: Results, options: argparse.Namespace) -> None:
    """The figure of models with their ranks in a file."""
    save_figure(lambda: results.plot(alpha=options.alpha, seed=getattr(options, "seed", 0)), options.figure)


def save_figure(plotted: Callable[[], Axes], path: str) -> None:
    """A figure in the file that `--figure` names."""
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise NotAvailableError(
            '`--figure` needs matplotlib, which is not installed: pip install "evalreg[plot]".'
        ) from None
    figure = plotted().figure
    assert isinstance(figure, Figure)
    try:
        dpi = min(DPI, HIGHEST / float(figure.get_size_inches()[1]))
        # In an SVG text stays text, which the reader's fonts show.
        with rc_context({"svg.fonttype": "none"}), warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            figure.savefig(Path(path), bbox_inches="tight", dpi=dpi)
    except (OSError, ValueError) as error:
        raise ArgumentError(f'`--figure` must be a file to draw to; "{path}" is not: {error}.') from error
    texts = [str(warning.message) for warning in said]
    lacking = any("missing from font" in text for text in texts)
    for text in dict.fromkeys(text for text in texts if "missing from font" not in text):
        warnings.warn(text, EvalregWarning, stacklevel=2)
    if lacking and not str(path).lower().endswith(".svg"):
        warnings.warn(
            f"matplotlib's font lacks letters of some names, and {path} has boxes in their place. Name a file that "
            "ends in .svg: it shows them in the fonts of its reader.",
            EvalregWarning,
            stacklevel=2,
        )

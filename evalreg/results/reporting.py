"""From results to a report: the answer, tables, figures, methods and how to redo it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import accessing, fraction, muted, option
from evalreg.data.clusters import axis_name
from evalreg.errors import ArgumentError, EvalregError, UnequalQuestionsWarning
from evalreg.inference.dependence import standard_error_ratios
from evalreg.inference.simultaneous import Seed
from evalreg.report.axes import as_image
from evalreg.report.documents import as_compact_json
from evalreg.report.rendering import REPORT_FORMATS, Figure, Page, ReportFormat, check_renders, named, rendered_page
from evalreg.report.sentences import PERCENT, PLAIN, POINTS, best_first, reference_text, unit_of, with_interval
from evalreg.report.summaries import (
    answer_text,
    board_grid,
    dropped_lines,
    limit_sentence,
    ranks_sentences,
    separating_column,
)
from evalreg.report.tables import Grid, Summary, ends_text, fixed, level_text, number, p_value
from evalreg.results.document import AnyResults, board_of, resolved_options, results_document
from evalreg.results.sources import formulas_of, methods_of, sources_of

# Of so many models all pairs are drawn; and of so many they are listed one below the other.
MOST_DRAWN, MOST_LISTED = 60, 12
FORMAT_OF: dict[str, ReportFormat] = {".html": "html", ".htm": "html", ".md": "md", ".markdown": "md", ".json": "json"}


def write_report(
    subject: Any,
    path: Any,
    form: ReportFormat | None,
    alpha: float,
    seed: Seed,
    title: str | None,
    read: tuple[str, ...] = (),
    command: str = "",
) -> str:
    """The report of results or of a comparison as text in a format, in a file too where one is named.

    `read` is what was read of files and left out there; `command` makes the report again.
    """
    fraction("alpha", alpha)
    form = chosen_format(form, path)
    if isinstance(seed, np.random.Generator):
        raise ArgumentError("`seed` of a report must be a number, so that the report can be made again.")
    page = subject._page(alpha, seed, pictures=form == "html")
    text = rendered_page(replace(page, read=read, command=command, **({"title": title} if title else {})), form)
    if path is not None:
        with accessing("path", path):
            Path(path).write_text(text, encoding="utf-8", errors="replace", newline="\n")
    return text


def chosen_format(form: ReportFormat | None, path: Any) -> ReportFormat:
    """The format asked for, by its name or by the end of a file's name; HTML without either.

    What cannot be written is refused before figures are drawn.
    """
    if path is not None and not isinstance(path, str | os.PathLike):
        raise ArgumentError(f"`path` must be a file to write to; got {path!r}.")
    end = ".html" if path is None else Path(path).suffix.lower()
    if form is None and end not in FORMAT_OF:
        raise ArgumentError(
            f'`path` must end in one of {", ".join(FORMAT_OF)}, or `format` must be given; got "{path}".'
        )
    chosen: ReportFormat = option("format", FORMAT_OF[end] if form is None else form, REPORT_FORMATS)
    check_renders(chosen)
    if path is not None and not Path(path).parent.is_dir():
        with accessing("path", path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    return chosen


def report_page(results: AnyResults, alpha: float, seed: Seed, *, pictures: bool) -> Page:
    """What a report says about results.

    `pictures` is whether figures are drawn, which HTML alone shows; their tables are there either way.
    """
    missing = list[str]()
    with muted():
        board, why = board_of(results, alpha, seed)
        if why:
            missing.append(f"There are no ranks and no joint intervals: {why}")
        summary, frame = results.summary(alpha, details=True), results.to_frame(alpha)
        figures = _figures(results, board, alpha, seed, drawing(missing, pictures), missing)
        document = results_document(results, (alpha,), board=board)
        answer = [
            answer_text(results.estimate, results.cov, frame, alpha, board, results._rows_word),
            *filter(None, [results._verdict()]),
        ]
        unequal = [text for category, text in results.notes if category is UnequalQuestionsWarning]
        answer += [_gap(results, board, alpha)] if board is not None and len(board) == 2 and not unequal else []
    level = level_text(alpha)
    if board is None:
        scores = _estimate_grid(frame, alpha)
        note = f"Each {level} interval is that of one estimate by itself; it does not allow for their number."
    else:
        scores = board_grid(board, separating_column(board))
        note = f"The {level} interval is that of one model by itself. {ranks_sentences(board)}"
    page = common_page(results, alpha, summary, frame, board)
    return replace(
        page,
        title=f"{results.estimate.about.model} of {named(results.estimate.about.outcome)}",
        answer=tuple(answer),
        scores=scores,
        scores_note=tuple(filter(None, [note * (len(frame) > 1), *unequal, limit_sentence([scores])])),
        figures=figures,
        missing=tuple(missing),
        options=option_texts(results, alpha, seed if board is not None else None),
        document=as_compact_json(document),
    )


def common_page(
    results: AnyResults, alpha: float, summary: Summary, frame: pd.DataFrame, board: Any, rows: str = "rows"
) -> Page:
    """What reports of scores and of differences both say: rows, clusters, notes, methods and their sources."""
    (dropped,) = dropped_lines(results.estimate.dropped) or ("No row was dropped for a missing value.",)
    return Page(
        left_out=(f"{dropped[:-1]}; {results.nobs:,} {rows} are in use.",),
        design=design_sentences(results, rows),
        notes=tuple(summary.sentences),
        grids=further_grids(results, board, summary.grids, frame, alpha),
        methods=methods_of(results, alpha, board is not None),
        formulas=formulas_of(results, board is not None),
        sources=sources_of(results, board is not None),
    )


# The answer


def _gap(results: Any, board: pd.DataFrame, alpha: float) -> str:
    """By how much two models differ."""
    difference = results.contrast({board.index[0]: 1.0, board.index[1]: -1.0})
    unit = POINTS if unit_of(results.estimate) is PERCENT else PLAIN
    value = with_interval(float(difference.params.iloc[0]), difference.conf_int(alpha).to_numpy()[0], unit, alpha)
    return f"The difference, {named(board.index[0])} less {named(board.index[1])}, is {value})."


def design_sentences(results: Any, rows: str) -> tuple[str, ...]:
    """Rows, clusters and the reference of intervals; sizes and what clusters do stand in tables."""
    cov, n = results.cov, results.nobs
    if not cov.axes:
        what = "a passage, a prompt or a judge" if rows == "questions" else "a question, a passage, a prompt or a judge"
        shared = f"If some share {what}, the error bars are too short."
        return (f"{n:,} {rows} are treated as independent of each other. {shared}",)
    clusters = [f"{cov.n_clusters[axis_name(axis)]:,} clusters of {named(axis_name(axis))}" for axis in cov.axes]
    return (
        f"{n:,} {rows} are in {' crossed with '.join(clusters)}. {rows.capitalize()} of one cluster may depend on each "
        "other in any way.",
        f"Reference of the intervals: {reference_text(cov.dof(), 'about ' if cov.summed else '')}.",
    )


# Tables


def _estimate_grid(frame: pd.DataFrame, alpha: float) -> Grid:
    ends = frame[["lower", "upper", "estimate"]].to_numpy(float)
    columns: dict[str, Iterable[str]] = {
        "name": map(str, frame.index),
        "estimate": map(number, frame["estimate"]),
        "standard error": map(number, frame["se"]),
        f"{level_text(alpha)} interval": (ends_text(*row) for row in ends),
    }
    return Grid.of(columns | ({"rows": map(str, frame["n"])} if "n" in frame else {}))


def further_grids(
    results: AnyResults, board: pd.DataFrame | None, grids: tuple[Grid, ...], frame: pd.DataFrame, alpha: float
) -> tuple[tuple[str, Grid], ...]:
    """What the summary has below the estimates, and estimates that are not models."""
    titled = []
    if board is not None and len(frame) > len(board):
        others = frame.loc[[name for name in frame.index if name not in set(board.index)]]
        titled.append(("Other estimates", _estimate_grid(others, alpha)))
    for grid in grids[1:]:
        if grid.headers[0] == "clusters":
            spelled = ("clusters", "number", "worth how many equal ones", "largest share", "mean size")
            titled.append(("Clusters", Grid(spelled, grid.rows)))
        else:
            titled.append(("Standard errors with and without clusters" if "deff" in grid.headers else "Labels", grid))
    return tuple(titled)


def option_texts(results: AnyResults, alpha: float, seed: Seed | None) -> tuple[tuple[str, str], ...]:
    """The options of a covariance as resolved, and those of the report; with a seed where something was drawn."""
    options = {**resolved_options(results.cov), "alpha": f"{alpha:g}", "seed": seed}
    return tuple((name, str(value)) for name, value in options.items() if value is not None)


# Figures


def drawing(missing: list[str], pictures: bool) -> Callable[..., tuple[Figure, ...]]:
    """What makes a figure of a page out of a table and axes; `missing` says why where one cannot be made."""
    can_draw = pictures
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        can_draw = False
        missing.append(
            'The figures are missing: matplotlib is not installed. Run: pip install "evalreg[plot]". The tables hold '
            "what they would show."
        )

    def draw(
        title: str, axes: Callable[[], Any], table: Callable[[], Grid] | None = None, note: str = ""
    ) -> tuple[Figure, ...]:
        image, grid = "", None
        try:
            grid = None if table is None else table()
            image = as_image(axes()) if can_draw else ""
        except EvalregError as error:
            missing.append(f"There is no figure of {title[0].lower()}{title[1:]}: {error}")
        return (Figure(title, image, grid, note),) if image or grid else ()

    return draw


def _figures(
    results: AnyResults,
    board: pd.DataFrame | None,
    alpha: float,
    seed: Seed,
    draw: Callable[..., tuple[Figure, ...]],
    missing: list[str],
) -> tuple[Figure, ...]:
    """Intervals with ranks, the differences of all pairs, and what clustering does."""
    names = [] if board is None else list(board.index)
    ranks = None if names else False
    figures = draw(f"Intervals{' and ranks' * bool(names)}", lambda: results.plot(alpha=alpha, seed=seed, ranks=ranks))
    if len(names) > MOST_DRAWN:
        missing.append(
            f"The differences of all pairs are left out: of {len(names)} models there are "
            f"{len(names) * (len(names) - 1) // 2:,}, and up to {MOST_DRAWN} models are drawn. "
            "`results.pairwise()` has them all."
        )
    elif len(names) > 2:
        figures += draw(
            "Differences of all pairs",
            lambda: results.plot("pairs", alpha=alpha, seed=seed, adjust="step-down"),
            lambda: _pair_grid(results, names, alpha, seed),
            "Better model less the other. Intervals and p-values allow for the number of pairs. The sign of a "
            "difference is told where p is below alpha. With clusters as few as here, p-values go step by step "
            "(Holm), as ranks and groups do. So they can separate a pair whose joint interval still holds zero.",
        )
    return (*figures, *inflation_figures(results, draw))


def inflation_figures(results: AnyResults, draw: Callable[..., tuple[Figure, ...]]) -> tuple[Figure, ...]:
    """What clustering does to standard errors, where there are clusters."""
    if not results.cov.axes:
        return ()
    note = "1 is the standard error of independent rows. Each column takes rows to depend within one clustering."
    title = "What clustering does to standard errors"
    return draw(title, lambda: results.plot("inflation"), lambda: _inflation_grid(results), note)


def _pair_grid(results: AnyResults, order: list[str], alpha: float, seed: Seed) -> Grid:
    """Differences of all pairs, better model first: a list, or of many models a square; p decides as ranks do."""
    table = results.pairwise("single-step", alpha, seed=seed)
    table["p_adjusted"] = results.pairwise("step-down", alpha, seed=seed)["p_adjusted"]
    columns = ["difference", "lower", "upper", "p_adjusted"]
    differences = {pair: tuple(row) for pair, row in zip(table.index, table[columns].to_numpy(), strict=True)}
    differences |= {(right, left): (-d, -high, -low, p) for (left, right), (d, low, high, p) in differences.items()}
    if len(order) <= MOST_LISTED:
        headers = ("better", "other", "difference", f"joint {level_text(alpha)}", "p, adjusted")
        rows = [(*pair, *differences[pair]) for pair in combinations(order, 2)]
        cells = [
            (better, other, number(d), ends_text(low, high, d), "none" if np.isnan(p) else p_value(p, alpha))
            for better, other, d, low, high, p in rows
        ]
        return Grid(headers, tuple(cells))

    def cell(better: str, other: str) -> str:
        d, _, _, p = differences[better, other]
        return "none" if np.isnan(p) else f"{fixed(d, 3)}{'*' * bool(p <= alpha)}"

    square = {"row less column; * separated": [f"{i}. {name}" for i, name in enumerate(order[:-1], 1)]}
    for j, other in enumerate(order[1:], 1):
        square[f"{j + 1}. {other}"] = [cell(name, other) if i < j else "" for i, name in enumerate(order[:-1])]
    return Grid.of(square)


def _inflation_grid(results: AnyResults) -> Grid:
    table = standard_error_ratios(results.cov).iloc[best_first(results.estimate)]
    columns: dict[str, Iterable[str]] = {"standard error / that of independent rows": map(str, table.index)}
    for name, ratios in table.items():
        columns[str(name)] = ["none" if np.isnan(ratio) else fixed(ratio, 2) for ratio in ratios]
    return Grid.of(columns)

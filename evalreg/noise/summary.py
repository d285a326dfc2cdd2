"""The summary of the noise of an eval."""

from __future__ import annotations

from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd

from evalreg.checks import listed
from evalreg.data.clusters import axis_name
from evalreg.errors import Note
from evalreg.estimators.comparison import Comparison
from evalreg.noise.answer_tables import ReadAnswers
from evalreg.noise.parts import FEWEST_APART
from evalreg.report.tables import Grid, Summary, fixed, number, p_value
from evalreg.results.results import Results


class Summarized(Protocol):
    """What the summary asks of a noise."""

    @property
    def results(self) -> Results:
        """Means."""

    @property
    def comparison(self) -> Comparison | None:
        """Differences."""

    @property
    def read(self) -> ReadAnswers:
        """Answers."""

    @property
    def alpha(self) -> float:
        """Level."""

    @property
    def power(self) -> float:
        """Of detectable differences."""

    def to_frame(self, table: Literal["models", "pairs"] = ..., alpha: float | None = ...) -> pd.DataFrame:
        """Return the models or the pairs."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """Warnings."""

    @property
    def detectable(self) -> float:
        """Of a typical pair."""

    @property
    def smallest_shown(self) -> float:
        """Of the pairs at hand."""


# More pairs than this are told by their median and range.
MOST_PAIRS = 15
NONE_SEEN, ABOVE_ALL = "none seen", "> 100%"
HEADERS = ("answers", "questions", "total SE", "answers' share", "enough K")


def noise_summary(found: Summarized, alpha: float) -> Summary:
    """Tables of models and pairs, and sentences on what they mean."""
    models, pairs = found.to_frame("models", alpha), found.to_frame("pairs", alpha)
    grids = [Grid(("model", "score", *HEADERS), tuple((str(name), *_cells(row)) for name, row in _rows(models)))]
    if 0 < len(pairs) <= MOST_PAIRS:
        rows = tuple((" - ".join(map(str, name)), *_cells(row)) for name, row in _rows(pairs))
        grids += [Grid(("pair", "difference", *HEADERS), rows), _tests(pairs, alpha)]
    elif len(pairs):
        grids.append(_typical(pairs))
    cells = {cell for grid in grids for row in grid.rows for cell in row}
    said = _sentences(found, models, pairs, alpha, cells)
    return Summary("evalreg noise", tuple(_facts(found)), tuple(grids), tuple(said))


def _rows(frame: pd.DataFrame) -> list[tuple[Any, dict[Any, Any]]]:
    return list(zip(frame.index, frame.to_dict("records"), strict=True))


def _cells(row: dict[Any, Any]) -> tuple[str, ...]:
    """One row of the tables of parts: estimate, standard errors, share with its interval, answers that are enough."""
    estimate = row["score"] if "score" in row else row["difference"]
    data = NONE_SEEN if row["data_variance"] <= 0 else _known(row["se_data"])
    parts = (_known(row["se_prediction"]), data, _known(row["se_total"]))
    # Of pairs there is no room for the interval of K on 80 columns; `to_frame` has it.
    enough = _enough(row) if "score" in row else _whole(row["enough_answers"])
    return number(estimate), *parts, _share(row), enough


def _known(value: float) -> str:
    return "unknown" if np.isnan(value) else number(value)


def _share(row: dict[Any, Any]) -> str:
    if np.isnan(row["prediction_share"]):
        return "unknown"
    share = _percent(row["prediction_share"])
    ends = row["share_lower"], row["share_upper"]
    return share if np.isnan(ends).any() else f"{share} [{ends[0]:.0%}, {ends[1]:.0%}]"


def _has_intervals(*tables: pd.DataFrame) -> bool:
    return any(bool(table[end].notna().any()) for table in tables for end in ("share_lower", "enough_lower"))


def _percent(share: float) -> str:
    """A share, which as an estimate without bias can come out above the whole."""
    return ABOVE_ALL if share > 1 else f"{share:.0%}"


def _enough(row: dict[Any, Any]) -> str:
    if np.isnan(row["enough_answers"]):
        return "unknown"
    ends = row["enough_lower"], row["enough_upper"]
    return _whole(row["enough_answers"]) + ("" if np.isnan(ends).any() else f" [{_whole(ends[0])}, {_whole(ends[1])}]")


def _whole(k: float) -> str:
    return "unknown" if np.isnan(k) else "inf" if np.isinf(k) else f"{k:.0f}"


def _tests(pairs: pd.DataFrame, alpha: float) -> Grid:
    rows = []
    for name, row in _rows(pairs):
        signs = "" if not row["paired"] else f"{row['wins']:.0f}:{row['losses']:.0f}"
        p = (p_value(row["p_value"], alpha), signs, p_value(row["sign_p_value"], alpha))
        rows.append((" - ".join(map(str, name)), fixed(row["z"], 2), *p, number(row["detectable"]), f"{row['n']:.0f}"))
    return Grid(("model - baseline", "z", "p", "wins:losses", "sign p", "detectable", "n"), tuple(rows))


def _typical(pairs: pd.DataFrame) -> Grid:
    """Quantiles over pairs, each column by itself."""
    columns = ("se_prediction", "se_data", "se_total", "prediction_share", "enough_answers", "detectable")
    rows = []
    for name, q in (("lowest", 0.0), ("quarter", 0.25), ("median", 0.5), ("three quarters", 0.75), ("highest", 1.0)):
        cells = []
        for column in columns:
            known = pairs[column].dropna().to_numpy(dtype=float)
            value = float(np.quantile(known, q, method="higher")) if known.size else float("nan")
            share, whole = column == "prediction_share", column == "enough_answers"
            text = _percent(value) if share else _whole(value) if whole else number(value)
            cells.append("unknown" if np.isnan(value) else text)
        rows.append((name, *cells))
    return Grid((f"{len(pairs)} pairs", *HEADERS, "detectable"), tuple(rows))


def _facts(found: Summarized) -> list[tuple[str, str]]:
    answers = found.read.table.count[found.read.table.count > 0]
    low, high = int(answers.min()), int(answers.max())
    axes = found.read.axes
    dropped = int(found.results.dropped.drop("subset", errors="ignore").sum())
    subset = found.results.estimate.about.subset
    facts = [
        ("Score", found.read.score),
        ("Questions", f"{found.read.table.count.shape[1]}"),
        ("Models", f"{len(found.read.names)}"),
        ("Answers to each", f"{low}" if low == high else f"{low} to {high}"),
        ("Clusters", " + ".join(axis_name(axis) for axis in axes) or "none (each question its own)"),
        ("Rows dropped", f"{dropped}" if dropped else "none"),
        *([("Subset", subset)] if subset else []),
    ]
    if found.comparison is not None:
        facts.append(("Detectable", f"{number(found.detectable)} (power {found.power:g}, level {found.alpha:g})"))
    return facts


def _sentences(
    found: Summarized, models: pd.DataFrame, pairs: pd.DataFrame, alpha: float, cells: set[str]
) -> list[str]:
    """What a careful reader asks; `cells` are those of the tables, whose words are explained."""
    known = bool(models["prediction_share"].notna().any())
    said = [
        "answers and questions: the standard error from other answers to the same questions, and from other questions. "
        "Their squares add up to that of the total SE."
        if known
        else "There is one answer to each question, so the noise of answers cannot be told from that of questions. "
        "The total SE includes both. With two answers or more to each question it can be split."
    ]
    if known:
        said.append(
            "enough K: with this many answers to each question their noise is 5% of the variance or less."
            + (f" In brackets {100 * (1 - alpha):g}% intervals." if _has_intervals(models, pairs) else "")
        )
    said += _benchmark(found, pairs)
    said += _single(models) if known else []
    said += [] if found.read.crossed else _too_few(models, pairs)
    if NONE_SEEN in cells:
        said.append(
            f"{NONE_SEEN}: the noise of the answers is all the variance that shows. The noise of questions "
            "need not be zero: there is too little data to see it."
        )
    if any(cell.startswith(ABOVE_ALL) for cell in cells):
        said.append(
            f"{ABOVE_ALL}: the noise of the answers is estimated by itself, and came out larger than all the variance "
            "that shows. Take it as nearly all; no number of answers is known to be enough (inf)."
        )
    if found.read.axes and known:
        said.append("Answers to different questions are taken to be independent of each other given the questions.")
    if found.comparison is not None:
        said += found.comparison.results.estimate.about.lines
    return list(dict.fromkeys([*said, *(text for _, text in found.notes)]))


def _benchmark(found: Summarized, pairs: pd.DataFrame) -> list[str]:
    """What this benchmark can show."""
    if not len(pairs) or np.isnan(found.detectable):
        return []
    which = "this pair" if len(pairs) == 1 else f"a typical pair (the median of {len(pairs)})"
    text = (
        f"A true difference of {number(found.detectable)} between two models comes out at p < {found.alpha:g} with a "
        f"chance of {found.power:g}, for {which}."
    )
    if len(pairs) > 1 and not np.isnan(found.smallest_shown):
        text += (
            f" The smallest difference with p < {found.alpha:g} here is {number(found.smallest_shown)}: the luckiest "
            f"of {len(pairs)} pairs, not a promise for others."
        )
    return [text]


def _too_few(models: pd.DataFrame, pairs: pd.DataFrame) -> list[str]:
    """Which shares have no interval, and why."""
    none = [frame.index[frame["prediction_share"].notna() & frame["share_lower"].isna()] for frame in (models, pairs)]
    of_pairs = int(pairs["paired"].reindex(none[1]).sum()) if len(pairs) else 0
    names = listed(map(str, none[0])) if len(none[0]) else ""
    which = " and of ".join(filter(None, (names, f"{of_pairs} of {len(pairs)} pairs" if of_pairs else "")))
    if not which:
        return []
    return [
        f"The answers' share of {which} has no interval: fewer than {FEWEST_APART} questions or clusters have another "
        "mean than the usual one. The share, and enough K, may be far off there."
    ]


def _single(models: pd.DataFrame) -> list[str]:
    """Of which models the parts are unknown, and why."""
    some = models[models["n_single"] > 0]
    if some.empty:
        return []
    name, worst = max(_rows(some), key=lambda row: row[1]["n_single"])
    return [
        f"unknown: {listed(map(str, some.index))} gave a single answer to some questions (to {worst['n_single']:.0f} "
        f"of {worst['n']:.0f} in the case of {name}), which does not tell the "
        "noise of that answer. The total SE is valid. Sample those again, or leave them out if they are like the rest."
    ]

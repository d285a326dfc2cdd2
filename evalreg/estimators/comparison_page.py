"""What is said of differences between models: the summary of a comparison, short or in full, and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import special

from evalreg.checks import few_of, muted
from evalreg.data.clusters import axis_name
from evalreg.inference.simultaneous import PairAdjustName, Seed, unadjusted_text
from evalreg.inference.wald import POWER
from evalreg.planning.power import detectable
from evalreg.report.documents import as_compact_json
from evalreg.report.rendering import Page, named
from evalreg.report.sentences import difference_lines
from evalreg.report.summaries import (
    MOST_NOTES,
    covariance_text,
    dropped_text,
    few,
    few_seen,
    notes_of,
    rather_few,
    rests_on,
    rule_text,
    score_text,
    value_text,
)
from evalreg.report.tables import (
    UNKNOWN,
    Grid,
    Summary,
    dof_texts,
    error_text,
    fixed,
    interval_text,
    level_text,
    number,
    p_value,
    span,
)
from evalreg.results.reporting import common_page, drawing, inflation_figures, option_texts
from evalreg.results.sources import all_sources

# `Comparison`, whose module imports this one.
Compared: TypeAlias = Any


def comparison_brief(comparison: Compared, alpha: float) -> Summary:
    """The differences as an answer: the first in words where there is one, a line each, at most three notes."""
    results, facts, adjust = comparison.results, comparison.facts, comparison.adjust
    frame, estimate, cov = comparison.to_frame(alpha), results.estimate, results.cov
    outcome = estimate.about.outcome
    wins: list[list[str]] = [[] for _ in frame.index]
    if facts.paired.all():
        wins = [["/".join(map(str, row))] for row in facts.outcomes[["wins", "losses", "ties"]].to_numpy()]
    baselines = frame.index.get_level_values(1).unique()
    common = len(frame) > 1 and len(baselines) == 1
    rows = []
    for pair, row, t, dof, counts in zip(
        frame.index, frame.to_dict("records"), results.tvalues, dof_texts(frame["dof"], whole=False), wins, strict=True
    ):
        value, interval, p = _texts(row, alpha)
        tested = UNKNOWN if np.isnan(t) else fixed(t, 2)
        rows.append((str(pair[0]) if common else " - ".join(pair), *counts, value, interval, tested, dof, p))
    level, p = f"{100 * (1 - alpha):g}%", "p" if adjust is None else "adj. p"
    counted = ("win/lose/tie",) if wins[0] else ()
    headers = ("", *counted, "difference (SE)", f"{level} interval", "t", "dof", p)
    rests = rests_on(estimate, cov, facts.values.shape[1], "questions")
    first = frame.iloc[0]
    if len(frame) == 1:
        value = value_text(first["difference"], first["lower"], first["upper"], alpha)
        answer = f"{estimate.names[0]} in {outcome}: {value}; {rests}."
    else:
        shown = int(np.sum(frame.get("p_adjusted", frame["p_value"]) <= alpha))
        how = "not adjusted for their number" if adjust is None else f"adjusted by {adjust}"
        which = f"{outcome} from {baselines[0]}" if common else outcome
        answer = f"{shown} of {len(frame)} differences in {which} {'is' if shown == 1 else 'are'} shown at the "
        answer += f"{100 * alpha:g}% level ({how}); {rests}."
    notes = [few_seen(cov), *estimate.about.lines]
    said = few(notes_of(cov, results.notes, list(filter(None, notes))), MOST_NOTES)
    grid = Grid(headers, tuple(rows), spare=("dof", "t", "win/lose/tie"))
    return Summary(answer, (), (grid,), said, rule=rule_text(estimate, cov))


def comparison_summary(
    parts: Mapping[str, Compared], tables: Mapping[str, pd.DataFrame], alpha: float, together: str | None = None
) -> Summary:
    """The summary of one comparison (under an empty name) or of several, by eval.

    `together` is how the p-values of the tables are adjusted over all of them.
    """
    rows: list[tuple[str, ...]] = []
    facts: dict[str, dict[str, str]] = {}
    said: dict[str, list[str]] = {}
    for name, part in parts.items():
        frame = tables[name]
        for pair, row in zip(frame.index, frame.to_dict("records"), strict=True):
            correlation = "" if np.isnan(row["correlation"]) else fixed(row["correlation"], 2)
            label = f"{name}: {' - '.join(pair)}" if name else " - ".join(pair)
            rows.append((label, *_texts(row, alpha), correlation, str(row["n"]), str(row["n_clusters"])))
        for label, value in _printed_facts(part):
            facts.setdefault(label, {})[name] = value
        estimate, cov = part.results.estimate, part.results.cov
        few_rows = filter(None, [score_text(cov), rather_few(estimate, cov)])
        said[name] = [*estimate.about.lines, *few_rows, *(text for _, text in part.results.notes)]
    sentences = by_part(said)
    adjusted = together is not None or any(part.adjust for part in parts.values())
    n_plain = sum(len(part.facts.index) for part in parts.values() if part.adjust is None)
    if together is not None:
        sentences.append(f"adj. p allows for all {n_plain} differences on all evals ({together}).")
    elif n_plain > 1:
        sentences.append(unadjusted_text(n_plain))
    interval = f"{100 * (1 - alpha):g}% interval"
    headers = ("model - baseline", "difference (SE)", interval, "adj. p" if adjusted else "p", "corr", "n", "G")
    sentences.append(
        "SE in parentheses. corr is the correlation of the two models' scores over the questions that both answered, n "
        "the number of questions, G that of clusters."
    )
    shown = tuple((label, _together(values, len(parts))) for label, values in facts.items())
    return Summary(
        "evalreg comparison", shown, (Grid(headers, tuple(rows), spare=("G", "n", "corr")),), tuple(sentences)
    )


def _texts(row: Mapping[Any, Any], alpha: float) -> tuple[str, str, str]:
    """A difference with its standard error, its interval, and the p-value that decides."""
    p = row.get("p_adjusted", row["p_value"])
    value = f"{number(row['difference'])} ({error_text(row['se'])})"
    interval = interval_text(row["lower"], row["upper"], row["difference"])
    return value, interval, UNKNOWN if np.isnan(p) else p_value(p, alpha)


def by_part(said: Mapping[str, Sequence[str]]) -> list[str]:
    """Sentences on each eval, one that is said of several once, with the names of the evals where it is not of all."""
    names = {text: [name for name, texts in said.items() if text in texts] for texts in said.values() for text in texts}
    return [text if len(evals) == len(said) else f"{few_of(evals)}: {text}" for text, evals in names.items()]


def _together(values: Mapping[str, str], n_parts: int) -> str:
    """A fact of all evals once; where it differs, each with the name of its eval."""
    if len(values) == n_parts and len(set(values.values())) == 1:
        return next(iter(values.values()))
    return "; ".join(f"{name} {value}" for name, value in values.items())


def _printed_facts(comparison: Compared) -> list[tuple[str, str]]:
    results, n = comparison.results, comparison.facts.values.shape[1]
    dropped = {reason: count for reason, count in results.estimate.dropped.items() if count and reason != "subset"}
    names = ", ".join(f"{results.n_clusters[axis_name(axis)]} {axis_name(axis)}" for axis in results.cov.axes)
    facts = {
        "Score": results.estimate.about.outcome,
        "Questions": str(n),
        "Covariance": covariance_text(results.cov),
        "Rows dropped": f"{sum(dropped.values())} ({dropped_text(dropped)})" if dropped else "none",
        "Subset": results.estimate.about.subset,
        "Clusters": names if results.cov.crossed else "",
        "Adjusted": f"{comparison.adjust}, {len(comparison.facts.index)} differences" if comparison.adjust else "",
    }
    return [(label, value) for label, value in facts.items() if value]


def adjusted_text(adjust: PairAdjustName | None, n: int) -> str:
    """How p-values, and joint intervals, allow for the number of differences; nothing of one."""
    what = "p-values and intervals" if adjust == "single-step" else "p-values"
    how = "not adjusted" if adjust is None else f"adjusted ({adjust})"
    return f"The {what} are {how} for the number of differences ({n})." if n > 1 else ""


_JOINT = "joint: c in place of t, with P(max over differences of |T| <= c) = 1 - alpha"


def difference_page(comparison: Compared, alpha: float, seed: Seed, *, pictures: bool) -> Page:
    """What a report says about differences; `pictures` is whether figures are drawn, which HTML alone shows."""
    results, adjust, missing = comparison.results, comparison.adjust, list[str]()
    draw = drawing(missing, pictures)
    with muted():
        table, summary = comparison.to_frame(alpha), comparison.summary(alpha, details=True)
        intervals = draw("Differences with their intervals", lambda: comparison.plot(alpha=alpha))
        figures = (*intervals, *inflation_figures(results, draw))
        of_results = results.summary(alpha, details=True)
    *sentences, legend = summary.sentences
    said = replace(summary, grids=of_results.grids, sentences=tuple(sentences))
    page = common_page(results, alpha, said, table, None, "questions")
    joint, n, baselines = adjust == "single-step", len(table), table.index.get_level_values(1).unique()
    baseline = named(baselines[0]) if len(baselines) == 1 else None
    methods, note = page.methods, f"Each difference is the model less {baseline or 'the baseline'}."
    if n > 1:
        methods = (*methods, adjusted_text(adjust, n))
        level = level_text(alpha)
        each = f" Each {level} interval is that of one difference by itself; it does not allow for their number."
        note += f" The intervals hold for all {n} differences at once, at {level}." if joint else each
    return replace(
        page,
        heading="Differences",
        title=f"Differences in {named(results.estimate.about.outcome)}{f' from {baseline}' if baseline else ''}",
        answer=_answer(comparison, table),
        scores=summary.grids[0],
        scores_note=(note, legend),
        figures=figures,
        missing=tuple(missing),
        design=(*page.design, _pairing(table), *_detectable(comparison, table)),
        methods=methods,
        formulas=(*page.formulas, *([_JOINT] if joint else [])),
        sources=(*page.sources, *([all_sources()["joint"].text] if joint else [])),
        options=(*option_texts(results, alpha, seed if joint else None), ("adjust", str(adjust))),
        document=as_compact_json(comparison._document((alpha,))),
    )


def _answer(comparison: Compared, table: pd.DataFrame) -> tuple[str, ...]:
    """The difference in words; of several how many are shown, and the largest."""
    estimate, cov = comparison.results.estimate, comparison.results.cov
    said = table.set_axis(pd.MultiIndex.from_tuples([tuple(map(named, pair)) for pair in table.index]))
    lines = difference_lines(said, estimate, cov)
    if len(lines) == 1:
        return (lines[0],)
    counted, size = comparison_brief(comparison, table.attrs["alpha"]).title, table["difference"].abs()
    largest = lines[int(np.argmax(size.where(table["lower"].notna(), -1.0)))]
    return counted, f"The largest is likely to be too far from zero, as it is that of several. {largest}"


def _pairing(table: pd.DataFrame) -> str:
    """How alike the models of a pair answer, and what that is worth."""
    if not table["paired"].any():
        return "The models are compared as if they had answered different questions (not paired)."
    known = [table.loc[table["paired"], name].dropna() for name in ("correlation", "variance_saved")]
    r, saved = (span(f"{some.min():.2f}", f"{some.max():.2f}") if len(some) else "" for some in known)
    alike = f" The scores of two models correlate by {r} over their questions." if r else ""
    worth = f" Were questions independent, {saved} of the variance would be saved by this." if saved else ""
    return f"Differences are taken question by question (paired).{alike}{worth}"


def _detectable(comparison: Compared, table: pd.DataFrame) -> tuple[str, ...]:
    """The true difference that a log like this one would show, from its own standard errors or null variances."""
    se, dof, alpha = table["se"].to_numpy(float), table["dof"].to_numpy(float), table.attrs["alpha"]
    if alpha >= POWER:
        return ()
    each = detectable(se, dof, comparison.results.cov.widths(), alpha, POWER)
    known = np.isfinite(each)
    if not known.any():
        return ()
    low, high = number(each[known].min()), number(each[known].max())
    size = low if low == high else f"{low} to {high}, by pair,"
    by_itself = "" if len(table) == 1 else ", each tested by itself"
    text = (
        f"A log like this one shows a true difference of {size} with a probability of {POWER:.0%}, if its standard "
        f"errors are right ({100 * alpha:g}% level{by_itself}); it is likely to miss a smaller one."
    )
    fewest = float(dof[known].min())
    if fewest < 30:
        # By how much a standard error may be wrong, nine times in ten.
        low, high = (f"{np.sqrt(fewest / special.chdtri(fewest, above)):.2f}" for above in (0.05, 0.95))
        text += (
            f" With {fewest:.3g} degrees of freedom this is rough: the true standard error may be {low} to {high} "
            "times the one seen, and this difference with it."
        )
    return (text,)

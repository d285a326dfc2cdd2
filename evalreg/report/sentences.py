"""Results in a sentence and tables in a caption, to be pasted into a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, counted, fraction, listed, visible
from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import axis_name
from evalreg.errors import ArgumentError
from evalreg.estimate import NOT_GIVEN, Estimate
from evalreg.inference.dependence import clusters_behind
from evalreg.inference.intervals import intervals
from evalreg.inference.rectification import human_labels, rectification_table
from evalreg.report.rendering import MarkupName, marked_up
from evalreg.report.tables import p_value, span

# Fewer clusters of some axis make a sentence say that its interval is rough.
ROUGH = 10
# More decimals than these are never printed.
MOST_DECIMALS = 8
# No rounding may put a number on these lines: nothing, a half and all of a percentage; no difference.
SHARE_LINES, ZERO_LINE = (0.0, 50.0, 100.0), (0.0,)
# Decimals that an end of an interval near nothing or all may ask for; nearer to it, it is "under 0.1%".
MORE_DECIMALS = 2


@dataclass(frozen=True)
class Unit:
    """In what numbers are printed."""

    factor: float = 1.0
    mark: str = ""  # behind every number
    word: str = ""  # behind the estimate
    least: int = 0  # decimals at least
    lines: tuple[float, ...] = ZERO_LINE  # which no rounding may reach


PERCENT = Unit(100.0, "%", least=1, lines=SHARE_LINES)
POINTS = Unit(100.0, word=" percentage points", least=1)
PLAIN = Unit()


def unit_of(estimate: Estimate) -> Unit:
    """Per cent for means of scores in [0, 1], percentage points for their differences, else plain numbers."""
    about = estimate.about
    if estimate.bounded:
        return PERCENT
    apart = about.model == "Difference" or about.model.startswith("Contrast of Mean")
    return POINTS if about.unit and apart and estimate.kind == "mean" else PLAIN


def printed(values: Sequence[float], unit: Unit) -> list[str]:
    """An estimate and the ends of its interval, with two digits of the half-width and one number of decimals.

    More decimals where rounding would put a number on a line that it is not on, such as 0 or 100%; an end that would
    need many is "under 0.1%" or "over 99.9%".
    """
    scaled = unit.factor * np.asarray(values, dtype=np.float64)
    scaled = np.where(np.abs(scaled) < 1e-12, 0.0, scaled)
    ends = scaled[1:][np.isfinite(scaled[1:])]
    half = float(np.ptp(ends)) / 2 if ends.size == 2 else 0.0
    size = half if half > 0 else abs(float(scaled[0])) / 100
    digits = unit.least if size == 0 else max(unit.least, 1 - int(np.floor(np.log10(size))))
    digits = min(digits, MOST_DECIMALS)
    whole = (unit.lines[0], unit.lines[-1]) if unit.lines == SHARE_LINES else ()
    inner = tuple(line for line in unit.lines if line not in whole)
    most = min(digits + MORE_DECIMALS, MOST_DECIMALS)
    while digits < MOST_DECIMALS and not (
        _keeps_sides(scaled[:1], digits, unit.lines) and _keeps_sides(scaled[1:], digits, inner)
    ):
        digits += 1
    enough = next((d for d in range(digits, most + 1) if _keeps_sides(scaled[1:], d, whole)), digits)
    ends_shown = (_beyond(value, enough, unit.mark, whole) for value in scaled[1:])
    return [_rounded(scaled[0], enough, unit.mark), *ends_shown]


def _beyond(value: float, digits: int, mark: str, whole: tuple[float, ...]) -> str:
    """An end of an interval; "under 0.1%" or "over 99.9%" where rounding would make it nothing or all."""
    for line, word, side in zip(whole, ("under", "over"), (1.0, -1.0), strict=False):
        if value != line and np.round(value, digits) == line:
            return f"{word} {_rounded(line + side * 10.0**-digits, digits, mark)}"
    return _rounded(value, digits, mark)


def _keeps_sides(values: FloatArray, digits: int, lines: tuple[float, ...]) -> bool:
    near = np.round(values, digits)
    return all(np.array_equal(np.sign(near - line), np.sign(values - line), equal_nan=True) for line in lines)


def _rounded(value: float, digits: int, mark: str) -> str:
    if not np.isfinite(value):
        return "unknown" if np.isnan(value) else "infinity" if value > 0 else "-infinity"
    return f"{round(float(value), digits) + 0.0:,.{digits}f}{mark}"


def result_sentences(results: Any, alpha: float, name: str | None, markup: MarkupName) -> str:
    """A sentence for each parameter, models from the best down; of `name` alone where it is given."""
    estimate, cov = results.estimate, results.cov
    fraction("alpha", alpha)
    ends, theta = intervals(estimate, cov, alpha, None), np.array(estimate.params)
    chosen = [_place(estimate.names, name)] if name is not None else best_first(estimate)
    about, what, unit, lines = estimate.about, named(estimate), unit_of(estimate), []
    several = estimate.n_params > 1 or about.n_models > 0 or bool(about.contrast or about.formula)
    rests, rough = _rests_on(estimate, cov, results._rows_word, results._counts)
    for i in chosen:
        quantity = what if i < about.n_models or not about.n_models else "Coefficient"
        lead = f"{estimate.names[i]}: {_lowered(quantity)} " if several else f"{what}: "
        if cov.fixed is not None and cov.fixed[i]:
            lines.append(f"{lead}{printed((theta[i],) * 3, unit)[0]}, which the others are relative to.")
        else:
            lines.append(f"{lead}{with_interval(theta[i], ends[i], unit, alpha)}; {rests[i]}).{rough[i]}")
    scale = [line for line in about.lines if line.startswith("Ratings in")]
    return "\n".join(marked_up(visible(line), markup) for line in [*lines, *scale])


def difference_sentences(
    table: pd.DataFrame, estimate: Estimate, cov: Covariance, note: str, markup: MarkupName, name: str | None
) -> str:
    """A sentence for each row of the table of `Comparison.to_frame`, and what is to be said of all of them."""
    lines = difference_lines(table, estimate, cov)
    lines = [lines[_place(estimate.names, name)]] if name is not None else [*lines, *filter(None, [note])]
    return "\n".join(marked_up(visible(line), markup) for line in lines)


def difference_lines(table: pd.DataFrame, estimate: Estimate, cov: Covariance) -> list[str]:
    """The differences in words, a sentence each, with the names of the models as the table has them."""
    alpha, adjusted, unit, lines = table.attrs["alpha"], table.attrs["adjust"], unit_of(estimate), []
    rests, rough = _rests_on(estimate, cov, "questions", table["n"].to_numpy(np.float64))
    for (model, baseline), row, rest, warning in zip(table.index, table.to_dict("records"), rests, rough, strict=True):
        ends = np.array([row["lower"], row["upper"]])
        value = with_interval(row["difference"], ends, unit, alpha, together=adjusted == "single-step")
        p = row["p_value"] if adjusted is None else row["p_adjusted"]
        word = "p" if adjusted is None else f"{adjusted}-adjusted p"
        test = f"; {word} {p_text(p, alpha)}" if np.isfinite(p) else ""
        said = direction(model, baseline, estimate.about.outcome, row["difference"], p, alpha)
        lines.append(f"{model} - {baseline}: {value}; {rest}{test}). {said}{warning}")
    return lines


def p_text(p: float, alpha: float) -> str:
    """A p-value behind its letter: "= 0.012" or "< .001"."""
    text = p_value(p, alpha)
    return f"< {text[1:]}" if text.startswith("<") else f"= {text}"


def direction(model: str, baseline: str, outcome: str, difference: float, p: float, alpha: float) -> str:
    """What the test decides, in words that hold for accuracies and for costs."""
    if not np.isfinite(p):
        return "Nothing can be said about which is higher."
    if p > alpha:
        return f"Which of the two has the higher {outcome} is not settled."
    return f"{model} has the {'higher' if difference > 0 else 'lower'} {outcome} (at the {100 * alpha:g}% level)."


def with_interval(theta: float, ends: FloatArray, unit: Unit, alpha: float, *, together: bool = False) -> str:
    """An estimate with its interval, the bracket still open: 72.4% (95% CI 68.9% to 75.7%."""
    value, low, high = printed((theta, *ends), unit)
    if not np.isfinite(theta) or np.isnan(ends).any():
        return f"{value}{unit.word} (no error bar"
    joint = "joint " if together else ""
    return f"{value}{unit.word} ({100 * (1 - alpha):g}% {joint}CI {low} to {high}"


def _how(cov: Covariance) -> list[str]:
    """How each interval was made: "CR2, t with 59 degrees of freedom"; where there is none, why."""
    variance, dof, scored, texts = cov.variance(), cov.dof(), cov.widths().scored, []
    for i, reason in enumerate(cov.reasons()):
        few = scored is not None and i in scored.rows
        text = f"{cov.options.cov}, {reference_text(dof[i : i + 1], 'about ' if cov.summed else '')}"
        if cov.bounded and variance[i] == 0 and not few:
            where = " on the effective number of clusters" if cov.axes else ""
            text = f"{reason}, so the interval is Clopper and Pearson's{where}"
        elif not variance[i] > 0:
            text = f"{reason}, and the interval is a score interval" if few else reason
        elif few:
            text += ", score interval"
        texts.append(text)
    return texts


def reference_text(dofs: FloatArray, about: str = "") -> str:
    """The reference of intervals: "t with 59 degrees of freedom", or with a range of them, or the normal."""
    known = dofs[~np.isnan(dofs)]
    if not known.size:
        return "no degrees of freedom"
    if np.isinf(known).all():
        return "normal"
    dofs_text = span(_dof_text(known.min()), _dof_text(known.max()))
    return f"t with {about}{dofs_text} degree{'s' * (dofs_text != '1')} of freedom"


def _dof_text(dof: float) -> str:
    return f"{dof:,.0f}" if np.isinf(dof) or dof >= 10 or abs(dof - round(dof)) < 0.05 else f"{dof:.1f}"


def _rests_on(estimate: Estimate, cov: Covariance, rows: str, counts: FloatArray | None) -> tuple[list[str], list[str]]:
    """What each estimate rests on and how its interval was made; and a sentence more where few clusters are behind it.

    "480 rows in 60 passage clusters; CR2, t with 59 degrees of freedom".
    """
    counts = np.full(estimate.n_params, float(estimate.n_rows)) if counts is None else counts
    behind = [counted(count, rows[:-1]) for count in counts]
    if human_labels(estimate) is not None:
        labels = rectification_table(estimate, cov)[["n_labelled", "n_unlabelled"]].to_numpy()
        behind = [f"{counted(a, 'human label')} and {counted(b, 'row')} that the judge alone scored" for a, b in labels]
    rests, rough, reached = [], [], clusters_behind(estimate, cov)
    for i, (text, how) in enumerate(zip(behind, _how(cov), strict=True)):
        clusters = {axis: int(some[i]) for axis, some in reached.items()}
        few = " and ".join(f"{count} {axis}" for axis, count in clusters.items() if 1 < count < ROUGH)
        rests.append(f"{text}{in_clusters(clusters) or ', taken to be independent'}; {how}")
        rough.append(f" With only {few} clusters the interval is rough." if few else "")
    return rests, rough


def axis_counts(cov: Covariance) -> dict[str, int]:
    """The number of clusters of each axis, by its name."""
    return {name: cov.n_clusters[name] for name in map(axis_name, cov.axes)}


def in_clusters(counts: Mapping[str, int]) -> str:
    """Where rows lie: " in 60 passage clusters", " in 80 prompt and 3 judge clusters, crossed"; empty without axes."""
    each = " and ".join(f"{count:,} {axis}" for axis, count in counts.items())
    plural, crossed = "s" * (list(counts.values()) != [1]), ", crossed" * (len(counts) > 1)
    return f" in {each} cluster{plural}{crossed}" if counts else ""


def named(estimate: Estimate) -> str:
    """What is estimated, as a reader says it: "Mean of score", "Win rate", "Coefficient"."""
    about = estimate.about
    model = about.model.split(" by ")[0]
    if about.contrast:
        return f"Contrast of {_lowered(model.removeprefix('Contrast of '))}"
    if any(line.startswith("Ratings in") for line in about.lines):
        return f"{model} rating"
    if about.formula and not about.n_models:
        return "Coefficient"
    if estimate.kind in ("board", "likelihood") or about.outcome in ("", NOT_GIVEN):
        return model
    return f"{model} of {about.outcome}"


def _lowered(text: str) -> str:
    """A text inside a sentence: its first word lower, but for names and abbreviations."""
    first = text.split()[0]
    keeps = first in ("F1", "Brier") or "-" in first or first[1:] != first[1:].lower()
    return text if keeps else text[:1].lower() + text[1:]


def best_first(estimate: Estimate, n: int | None = None) -> list[int]:
    """Models (or the first n) from the best down, ties by name and NaN last; everything else as it is."""
    n_models = estimate.about.n_models if n is None else n
    value = np.where(np.isnan(estimate.params), -np.inf, estimate.params)
    best = sorted(range(n_models), key=lambda i: (-value[i], estimate.names[i]))
    return [*best, *range(n_models, estimate.n_params)]


def _place(names: Sequence[str], name: object) -> int:
    if not isinstance(name, str) or name not in names:
        raise ArgumentError(f"`name` must be one of the estimates {listed(list(names))}; got {name!r}.")
    return list(names).index(name)


def interval_rule(estimate: Estimate, cov: Covariance) -> str:
    """Which intervals parameters have by default; empty for estimate +- t times the standard error."""
    if not estimate.bounded or estimate.about.interval == "wald":
        return estimate.family.interval_rule
    scored = cov.widths().scored
    if cov.single is None or scored is None:
        return "on the logit scale"
    return "Wilson's" + ", with a design effect" * scored.null.multiplied


def caption_text(estimate: Estimate, cov: Covariance, rows: str, alpha: float, what: str, joint: str = "") -> str:
    """What is below a table, as LaTeX: what is estimated, with which intervals, from how many rows and clusters."""
    level = 100 * (1 - fraction("alpha", alpha))
    axes = [f"{axis} ({count:,} clusters)" for axis, count in axis_counts(cov).items()]
    by = f"clustered by {' and '.join(axes)}" if axes else f"{rows} taken to be independent"
    t = reference_text(cov.dof(), "about " if cov.summed else "")
    lines = [f"{what} with{joint} {level:g}% confidence intervals.", f"Standard errors: {cov.options.cov}, {by}; {t}."]
    if rule := interval_rule(estimate, cov):
        lines.append(f"Intervals are {rule}.")
    lines += [line for line in estimate.about.lines if line.startswith("Ratings in")]
    left = sum(count for reason, count in estimate.dropped.items() if reason != "subset")
    lines.append(f"{estimate.n_rows:,} {rows}; {f'{left:,} left out' if left else 'none left out'}.")
    return marked_up(visible(" ".join(lines)), "latex")

"""Results in a sentence and tables in a caption, to be pasted into a text."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, fraction, listed, option, visible
from evalreg.covariance.covariance import Covariance
from evalreg.data.clusters import axis_name
from evalreg.errors import ArgumentError
from evalreg.estimate import NOT_GIVEN, Estimate, clusters_behind
from evalreg.inference.intervals import intervals
from evalreg.inference.rectification import human_labels, rectification_table
from evalreg.report.tables import latex_text, markdown_text, p_value, span

MarkupName: TypeAlias = Literal["text", "markdown", "latex", "html"]
MARKUPS: tuple[MarkupName, ...] = ("text", "markdown", "latex", "html")
_ESCAPES: dict[MarkupName, Callable[[str], str]] = {
    "text": str,
    "markdown": markdown_text,
    "latex": latex_text,
    "html": html.escape,
}
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


@dataclass(frozen=True)
class RestsOn:
    """What estimates rest on; one entry a parameter."""

    rows: str  # what a row is: "rows", "questions", "comparisons"
    counts: FloatArray | None  # rows behind each; None where that is not known
    clusters: dict[str, IntArray]  # by axis, those with rows behind each


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
    texts = [_one(value, enough, unit.mark) for value in scaled]
    if _keeps_sides(scaled[1:], enough, whole):
        return texts
    return [texts[0], *(_beyond(value, enough, unit.mark, whole) for value in scaled[1:])]


def _beyond(value: float, digits: int, mark: str, whole: tuple[float, ...]) -> str:
    """An end of an interval; "under 0.1%" or "over 99.9%" where rounding would make it nothing or all."""
    for line, word, side in zip(whole, ("under", "over"), (1.0, -1.0), strict=True):
        if value != line and np.round(value, digits) == line:
            return f"{word} {_one(line + side * 10.0**-digits, digits, mark)}"
    return _one(value, digits, mark)


def _keeps_sides(values: FloatArray, digits: int, lines: tuple[float, ...]) -> bool:
    near = np.round(values, digits)
    return all(np.array_equal(np.sign(near - line), np.sign(values - line), equal_nan=True) for line in lines)


def _one(value: float, digits: int, mark: str) -> str:
    if not np.isfinite(value):
        return "unknown" if np.isnan(value) else "infinity" if value > 0 else "-infinity"
    return f"{round(float(value), digits) + 0.0:,.{digits}f}{mark}"


def sample_of(estimate: Estimate, cov: Covariance, rows: str, counts: FloatArray | None) -> RestsOn:
    """What the parameters rest on: of a mean its own rows and clusters, of a regression all."""
    names = {axis_name(axis): axis for axis in cov.axes}
    clusters = {name: clusters_behind(estimate, axis, cov.n_clusters[name]) for name, axis in names.items()}
    return RestsOn(rows, counts, clusters)


def result_sentences(
    estimate: Estimate, cov: Covariance, sample: RestsOn, alpha: float, name: str | None, markup: MarkupName
) -> str:
    """A sentence for each parameter, models from the best down; of `name` alone where it is given."""
    fraction("alpha", alpha)
    escape = _ESCAPES[option("markup", markup, MARKUPS)]
    ends, theta = intervals(estimate, cov, alpha, None), np.array(estimate.params)
    fixed = np.zeros(theta.size, dtype=bool) if cov.fixed is None else cov.fixed
    chosen = [_place(estimate.names, name)] if name is not None else best_first(estimate)
    about = estimate.about
    several = estimate.n_params > 1 or about.n_models > 0 or bool(about.contrast or about.formula)
    what = named(estimate)
    unit, how, lines = unit_of(estimate), _how(estimate, cov), []
    details, rough = _details(estimate, cov, sample), _rough(sample, estimate.n_params)
    for i in chosen:
        own = what if i < about.n_models or not about.n_models else "Coefficient"
        lead = f"{estimate.names[i]}: {_lowered(own)} " if several else f"{what}: "
        if fixed[i]:
            lines.append(f"{lead}{printed((theta[i],) * 3, unit)[0]}, which the others are relative to.")
            continue
        value = with_interval(theta[i], ends[i], unit, alpha)
        lines.append(f"{lead}{value}; {details[i]}; {how[i]}).{rough[i]}")
    scale = [line for line in about.lines if line.startswith("Ratings in")]
    return "\n".join(escape(visible(line)) for line in [*lines, *scale])


def difference_sentences(
    table: pd.DataFrame,
    estimate: Estimate,
    cov: Covariance,
    sample: RestsOn,
    note: str,
    markup: MarkupName,
    name: str | None,
) -> str:
    """A sentence for each row of the table of `Comparison.to_frame`, and what is to be said of all of them."""
    escape, alpha = _ESCAPES[option("markup", markup, MARKUPS)], table.attrs["alpha"]
    adjusted, unit, lines = table.attrs["adjust"], unit_of(estimate), []
    how, details, rough = _how(estimate, cov), _details(estimate, cov, sample), _rough(sample, estimate.n_params)
    outcome = estimate.about.outcome
    chosen = range(len(table)) if name is None else [_place(estimate.names, name)]
    note = note if name is None else ""
    for i, ((model, baseline), row) in enumerate(zip(table.index, table.to_dict("records"), strict=True)):
        if i not in chosen:
            continue
        ends = np.array([row["lower"], row["upper"]])
        value = with_interval(row["difference"], ends, unit, alpha, together=adjusted == "single-step")
        p = row["p_value"] if adjusted is None else row["p_adjusted"]
        word = "p" if adjusted is None else f"{adjusted}-adjusted p"
        test = f"; {word} {p_text(p, alpha)}" if np.isfinite(p) else ""
        said = direction(model, baseline, outcome, row["difference"], p, alpha)
        lines.append(f"{model} - {baseline}: {value}; {details[i]}; {how[i]}{test}). {said}{rough[i]}")
    return "\n".join(escape(visible(line)) for line in [*lines, *([note] if note else [])])


def escaped(text: str, markup: MarkupName) -> str:
    """A sentence with names and signs escaped for a markup."""
    return _ESCAPES[option("markup", markup, MARKUPS)](visible(text))


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


def _how(estimate: Estimate, cov: Covariance) -> list[str]:
    """How each interval was made: "CR2, t with 59 degrees of freedom"; where there is none, why."""
    variance, dof, reasons = cov.variance(), cov.dof(), cov.reasons()
    few = score_rows(cov)
    boundary = cov.bounded & (variance == 0)
    texts = []
    for i, (v, d, reason) in enumerate(zip(variance, dof, reasons, strict=True)):
        about = "about " if cov.summed else ""
        text = f"{cov.options.cov}, {reference_text(np.array([d]), about)}"
        if boundary[i] and not few[i]:
            text = f"{reason}, so the interval is Clopper and Pearson's on the effective number of clusters"
            text = text if cov.axes else f"{reason}, so the interval is Clopper and Pearson's"
        elif not v > 0:
            text = f"{reason}, and the interval is a score interval" if few[i] else reason
        elif few[i]:
            text += ", score interval"
        texts.append(text)
    return texts


def score_rows(cov: Covariance) -> BoolArray:
    """Parameters that have a score interval."""
    scored, chosen = cov.widths().scored, np.zeros(len(cov.names), dtype=bool)
    if scored is not None:
        chosen[scored.rows] = True
    return chosen


def reference_text(dofs: FloatArray, about: str = "") -> str:
    """The reference of intervals: "t with 59 degrees of freedom", or with a range of them, or the normal."""
    known = dofs[~np.isnan(dofs)]
    if not known.size:
        return "no degrees of freedom"
    if np.isinf(known).all():
        return "normal"
    return f"t with {about}{span(_dof_text(known.min()), _dof_text(known.max()))} degrees of freedom"


def _dof_text(dof: float) -> str:
    return f"{dof:,.0f}" if np.isinf(dof) or dof >= 10 or abs(dof - round(dof)) < 0.05 else f"{dof:.1f}"


def _details(estimate: Estimate, cov: Covariance, sample: RestsOn) -> list[str]:
    """What each estimate rests on: "480 rows in 60 passage clusters"."""
    n = estimate.n_params
    counts = np.full(n, float(estimate.n_rows)) if sample.counts is None else sample.counts
    rows = [f"{count:,.0f} {sample.rows if count != 1 else sample.rows[:-1]}" for count in counts]
    if human_labels(estimate) is not None:
        table = rectification_table(estimate, cov)
        labels = table[["n_labelled", "n_unlabelled"]].to_numpy()
        rows = [f"{a:,.0f} human labels and {b:,.0f} rows that the judge alone scored" for a, b in labels]
    texts = []
    for i, text in enumerate(rows):
        held = [(axis, int(some[i])) for axis, some in sample.clusters.items()]
        if not held:
            texts.append(f"{text}, taken to be independent")
        elif len(held) == 1:
            axis, count = held[0]
            texts.append(f"{text} in {count:,} {axis} cluster{'' if count == 1 else 's'}")
        else:
            parts = " and ".join(f"{count:,} {axis}" for axis, count in held)
            texts.append(f"{text} in {parts} clusters, crossed")
    return texts


def _rough(sample: RestsOn, n_params: int) -> list[str]:
    """A further sentence where there are few clusters behind an estimate; else nothing."""
    if not sample.clusters:
        return [""] * n_params
    texts = []
    for counts in zip(*sample.clusters.values(), strict=True):
        few = [f"{c} {axis}" for axis, c in zip(sample.clusters, counts, strict=True) if 1 < c < ROUGH]
        texts.append(f" With only {' and '.join(few)} clusters the interval is rough." if few else "")
    return texts


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
    return text if first.lower() != first[:1].lower() + first[1:] or "-" in first else text[:1].lower() + text[1:]


def best_first(estimate: Estimate, n: int | None = None) -> list[int]:
    """Models (or the first n) from the best down, ties by name and NaN last; everything else as it is."""
    n_models = estimate.about.n_models if n is None else n
    value = np.where(np.isnan(estimate.params), -np.inf, estimate.params)
    best = sorted(range(n_models), key=lambda i: (-value[i], estimate.names[i]))
    return [*best, *range(n_models, estimate.n_params)]


def _place(names: Sequence[str], name: str) -> int:
    if name not in names:
        raise ArgumentError(f"`name` must be one of the estimates {listed(list(names))}; got {name!r}.")
    return list(names).index(name)


def carried_text(estimate: Estimate) -> str:
    """Where intervals come from that are those of other parameters; empty where they are not."""
    family = estimate.family.monotone
    return "" if family is None else f"Intervals are those of the {family.scale.of}, turned into {family.scale.into}"


def interval_text(estimate: Estimate, cov: Covariance) -> str:
    """Which intervals parameters in [0, 1] have by default; empty for estimate +- t times the standard error."""
    if not estimate.bounded or estimate.about.interval == "wald":
        return ""
    return "on the logit scale" if cov.single is None else "Wilson's, with a design effect"


def caption_text(estimate: Estimate, cov: Covariance, sample: RestsOn, alpha: float, what: str, joint: str = "") -> str:
    """What is below a table, as LaTeX: what is estimated, with which intervals, from how many rows and clusters."""
    level = 100 * (1 - fraction("alpha", alpha))
    axes = [f"{axis_name(axis)} ({cov.n_clusters[axis_name(axis)]:,} clusters)" for axis in cov.axes]
    by = f"clustered by {' and '.join(axes)}" if axes else f"{sample.rows} taken to be independent"
    t = reference_text(cov.dof(), "about " if cov.summed else "")
    lines = [f"{what} with{joint} {level:g}% confidence intervals.", f"Standard errors: {cov.options.cov}, {by}; {t}."]
    if carried_text(estimate):
        lines.append(f"{carried_text(estimate)}.")
    elif rule := interval_text(estimate, cov):
        lines.append(f"Intervals are {rule}.")
    lines += [line for line in estimate.about.lines if line.startswith("Ratings in")]
    left = sum(count for reason, count in estimate.dropped.items() if reason != "subset")
    lines.append(f"{estimate.n_rows:,} {sample.rows}; {f'{left:,} left out' if left else 'none left out'}.")
    return latex_text(visible(" ".join(lines)))

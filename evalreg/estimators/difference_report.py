"""A report of differences between models: with the intervals that `adjust` asked for, as their table has them."""

from __future__ import annotations

from os import PathLike
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import special

from evalreg.checks import fraction
from evalreg.errors import muted
from evalreg.planning.few_power import found_where_few_differ
from evalreg.planning.t_power import t_shift
from evalreg.report.bibliography import SOURCES
from evalreg.report.documents import as_compact_json, versions
from evalreg.report.pages import Figure, Page, named
from evalreg.report.rendering import ReportFormat
from evalreg.report.sentences import direction, p_text, unit_of, with_interval
from evalreg.report.tables import Grid, number, p_value
from evalreg.results.answers import MOST_NAMED, design_sentences
from evalreg.results.reporting import (
    asked_format,
    drawing,
    dropped_told,
    ends_text,
    further_grids,
    inflation_figures,
    level_of,
    options_told,
    write_page,
)
from evalreg.results.sources import formulas_of, methods_of, sources_of

# `Comparison`, whose module imports this one.
AnyComparison: TypeAlias = Any

# The power of which the smallest difference that is found is told.
POWER = 0.8
# With fewer degrees of freedom a standard error is said to be rough.
ROUGH = 30


class Reported:
    """Reports of a comparison."""

    def report(
        self: Any,
        path: str | PathLike[str] | None = None,
        *,
        format: ReportFormat | None = None,
        alpha: float = 0.05,
        title: str | None = None,
    ) -> str:
        r"""A report of the differences in one file: answer, table, figures, design, methods, how to redo it.

        Its intervals are those of `to_frame`: under "single-step" they hold for all differences at once. Needs jinja2,
        the extra `evalreg[report]`; figures need `evalreg[plot]`.

        Parameters
        ----------
        path : str or path, optional
            A file to write it to as well.
        format : {"html", "md", "tex", "json"}, optional
            As in `Results.report`.
        alpha : float, optional
            Level of the intervals, and of what is said to be told apart.
        title : str, optional
            The headline; what was compared by default.

        Returns
        -------
        str
            The report.

        Raises
        ------
        ArgumentError
            If an option is unknown, the end of `path` says no format, or the file cannot be written.
        NotAvailableError
            If jinja2 is not installed, or so much has to be said that no comment holds it as Markdown.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.paired(n_passages=30, seed=1)
        >>> text = er.compare(log, item="question", groups="passage", baseline="old").report(format="md")
        >>> print(text.split("\n\n")[1])
        `new` less `old` is 12.7 percentage points (95% CI 3.2 to 22.5).
        `new` has the higher `score` (at the 5% level); p = 0.013.
        """
        fraction("alpha", alpha)
        form = asked_format(format, path)
        return write_page(difference_page(self, alpha, title=title, pictures=form == "html"), path, form)


def difference_page(
    comparison: AnyComparison,
    alpha: float,
    *,
    title: str | None = None,
    left_out: tuple[str, ...] = (),
    command: str = "",
    code: str = "",
    more: dict[str, Any] | None = None,
    pictures: bool = True,
) -> Page:
    """What a report says about differences; `left_out` are sentences on how the log was read.

    `pictures` is whether figures are drawn, which HTML alone shows.
    """
    results, missing = comparison.results, list[str]()
    with muted():
        table, summary = comparison.to_frame(alpha), comparison.summary(alpha)
        figures, document = _figures(comparison, alpha, missing, pictures), comparison._document((alpha,))
        answer = difference_answer(comparison, table)
        design = (*design_sentences(results, "questions"), *_pairing(table), *_detectable(comparison, table))
        grids = further_grids(results, None, results.summary(alpha).grids, table, alpha)
    joint = comparison.adjust == "single-step"
    return Page(
        title=title or _title(comparison),
        answer=answer,
        scores=_grid(comparison, table),
        scores_note=_notes(comparison, table),
        figures=figures,
        missing=tuple(missing),
        left_out=(*left_out, *_unpaired(table), dropped_told(results, "questions")),
        design=design,
        notes=tuple(summary.sentences),
        grids=grids,
        methods=(*methods_of(results, alpha, False), *_adjusted(comparison)),
        formulas=(*formulas_of(results, False), *([_JOINT] if joint else [])),
        sources=(*sources_of(results, False), *([SOURCES["joint"].text] if joint else [])),
        options=(*options_told(results, alpha, 0, joint), ("adjust", str(comparison.adjust))),
        versions=tuple(versions().items()),
        command=command,
        code=code or _code(comparison, alpha),
        document=as_compact_json({**document, **(more or {})}),
        heading="Differences",
    )


_JOINT = "joint: c in place of t, with P(max over differences of |T| <= c) = 1 - alpha"


def _baseline(comparison: AnyComparison) -> str | None:
    """The model that all others are compared with; None where there are several."""
    found = list(dict.fromkeys(comparison.facts.index.get_level_values(1)))
    return str(found[0]) if len(found) == 1 else None


def _title(comparison: AnyComparison) -> str:
    baseline, outcome = _baseline(comparison), named(comparison.results.estimate.about.outcome)
    return f"Differences in {outcome}" + ("" if baseline is None else f" from {named(baseline)}")


# The answer


def difference_answer(comparison: AnyComparison, table: pd.DataFrame) -> tuple[str, str]:
    """Two sentences: the difference with its interval, and what it settles; of several, how many and the largest."""
    alpha = table.attrs["alpha"]
    pairs = [f"{named(model)} less {named(baseline)}" for model, baseline in table.index]
    if len(table) == 1:
        p, what = _deciding(table)[0], comparison.results.estimate.about.outcome
        model, baseline = (named(name) for name in table.index[0])
        decided = direction(model, baseline, named(what), float(table["difference"].iloc[0]), p, alpha)
        end = f"; p {p_text(p, alpha)}." if np.isfinite(p) else "."
        return f"{pairs[0]} is {_value(comparison, table, 0)}).", decided.removesuffix(".") + end
    p = _deciding(table)
    told = [i for i in range(len(table)) if p[i] <= alpha]
    how = "each judged by itself" if comparison.adjust is None else f"p-values adjusted by {comparison.adjust}"
    which = f" ({', '.join(pairs[i] for i in told)})" if 0 < len(told) <= MOST_NAMED else ""
    counted = f"{len(told)} of {len(table)} differences {'is' if len(told) == 1 else 'are'} told apart from zero"
    first = f"{counted} at the {100 * alpha:g}% level, {how}{which}."
    size = np.where(table["lower"].isna(), -1.0, table["difference"].abs())
    if not (size >= 0).any():
        return first, "None has an error bar."
    most = int(np.argmax(size))
    chosen = "as the largest of several it is likely to be too far from zero"
    return first, f"The largest, {pairs[most]}, is {_value(comparison, table, most)}); {chosen}."


def _value(comparison: AnyComparison, table: pd.DataFrame, i: int) -> str:
    """A difference with its interval, the bracket still open."""
    row = table.iloc[i]
    ends = row[["lower", "upper"]].to_numpy(dtype=float)
    together = comparison.adjust == "single-step" and len(table) > 1
    unit = unit_of(comparison.results.estimate)
    return with_interval(float(row["difference"]), ends, unit, table.attrs["alpha"], together=together)


def _deciding(table: pd.DataFrame) -> Any:
    """The p-values that decide."""
    return table["p_adjusted" if "p_adjusted" in table else "p_value"].to_numpy(dtype=float)


# Tables and figures


def _grid(comparison: AnyComparison, table: pd.DataFrame) -> Grid:
    alpha, adjust = table.attrs["alpha"], comparison.adjust
    joint = "joint " if adjust == "single-step" and len(table) > 1 else ""
    several = _baseline(comparison) is None
    headers: tuple[str, ...] = (
        "model",
        *(("baseline",) if several else ()),
        "difference",
        "standard error",
        f"{joint}{level_of(alpha)} interval",
        "p",
    )
    headers += (*(() if adjust is None else (f"p, {adjust}",)), "questions", "clusters")
    rows = []
    for (model, baseline), row in zip(table.index, table.to_dict("records"), strict=True):
        ends = ends_text(row["lower"], row["upper"], row["difference"])
        p = [p_value(row[name], alpha) for name in ("p_value", "p_adjusted") if name in row]
        counts = (f"{row['n']:,}", f"{row['n_clusters']:,}")
        names = (str(model), str(baseline)) if several else (str(model),)
        rows.append((*names, number(row["difference"]), number(row["se"]), ends, *p, *counts))
    return Grid(headers, tuple(rows))


def _notes(comparison: AnyComparison, table: pd.DataFrame) -> tuple[str, ...]:
    level, n = level_of(table.attrs["alpha"]), len(table)
    baseline = _baseline(comparison)
    found = [f"Each difference is the model less {'the baseline' if baseline is None else named(baseline)}."]
    if n > 1 and comparison.adjust == "single-step":
        found.append(f"The intervals hold for all {n} differences at once, at {level}.")
    elif n > 1:
        found.append(f"Each {level} interval is that of one difference by itself; it does not allow for their number.")
    return (" ".join(found),)


def _figures(comparison: AnyComparison, alpha: float, missing: list[str], pictures: bool) -> tuple[Figure, ...]:
    draw = drawing(missing, pictures)
    made = draw(
        "intervals",
        "Differences with their intervals",
        None,
        "",
        lambda size: comparison.plot(alpha=alpha, figsize=size),
    )
    return (*([made] if made.svg else []), *inflation_figures(comparison.results, draw, missing))


# In plain words


def _pairing(table: pd.DataFrame) -> tuple[str, ...]:
    """How alike the models of a pair answer, and what that is worth."""
    if not table["paired"].any():
        return ("The models are compared as if they had answered different questions (not paired).",)
    r, saved = (_span(table.loc[table["paired"], name].to_numpy(float)) for name in ("correlation", "variance_saved"))
    told = f" The scores of two models correlate by {r} over their questions." if r else ""
    worth = f" Were questions independent, {saved} of the variance would be saved by this." if saved else ""
    return (f"Differences are taken question by question (paired).{told}{worth}",)


def _span(values: Any) -> str:
    known = values[np.isfinite(values)]
    if not known.size:
        return ""
    low, high = f"{known.min():.2f}", f"{known.max():.2f}"
    return low if low == high else f"{low} to {high}"


def _unpaired(table: pd.DataFrame) -> tuple[str, ...]:
    """Questions that only one model of a pair answered."""
    left = table.loc[table["paired"], "n_unpaired"]
    if not len(left) or not left.any():
        return ()
    most = int(left.max())
    where = "of the pair" if len(table) == 1 else "of a pair (the most of any pair)"
    return (f"{most:,} questions that only one model {where} answered are left out of the difference.",)


def _detectable(comparison: AnyComparison, table: pd.DataFrame) -> tuple[str, ...]:
    """The true difference that a log like this one would show, from its own standard errors or null variances."""
    se, dof, alpha = table["se"].to_numpy(float), table["dof"].to_numpy(float), table.attrs["alpha"]
    each = np.array([t_shift(float(d), alpha, POWER) if d > 0 else np.nan for d in dof]) * se if alpha < POWER else se
    scored = comparison.results.cov.widths().scored
    if scored is not None and alpha < POWER:
        each[scored.rows] = found_where_few_differ(scored.null, dof[scored.rows], alpha, POWER)
    known = np.isfinite(each) & (dof > 0)
    if not known.any() or alpha >= POWER:
        return ()
    low, high = number(each[known].min()), number(each[known].max())
    size = low if low == high else f"{low} to {high}, by pair,"
    by_itself = "" if len(table) == 1 else ", each tested by itself"
    return (
        f"A log like this one shows a true difference of {size} with a probability of {POWER:.0%}, if its standard "
        f"errors are right ({100 * alpha:g}% level{by_itself}); it is likely to miss a smaller one."
        f"{_how_rough(float(dof[known].min()))}",
    )


def _how_rough(dof: float) -> str:
    """By how much a standard error from few degrees of freedom may be wrong, nine times in ten; empty for many."""
    if dof >= ROUGH:
        return ""
    low, high = (float(np.sqrt(dof / special.chdtri(dof, above))) for above in (0.05, 0.95))
    return (
        f" With {dof:.3g} degrees of freedom this is rough: the true standard error may be {low:.2f} to {high:.2f} "
        "times the one seen, and this difference with it."
    )


def _adjusted(comparison: AnyComparison) -> tuple[str, ...]:
    """How p-values, and under "single-step" intervals, allow for the number of differences."""
    n, adjust = len(comparison.facts.index), comparison.adjust
    if n == 1:
        return ()
    if adjust is None:
        return (f"p-values and intervals are not adjusted for the number of differences ({n}).",)
    both = "p-values and intervals are" if adjust == "single-step" else "p-values, not intervals, are"
    return (f"{both} adjusted ({adjust}) for the number of differences ({n}).",)


def _code(comparison: AnyComparison, alpha: float) -> str:
    """What can be said of the code without the data."""
    return (
        "import evalreg as er\n\n"
        f"# comparison: what er.compare gave, with adjust={comparison.adjust!r} and the options listed under Methods\n"
        f'comparison.report("report.html", alpha={alpha:g})'
    )

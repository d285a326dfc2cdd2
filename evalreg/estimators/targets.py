"""Which questions a mean is about: some like these, these alone, or all of a benchmark that they were drawn from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from evalreg.checks import TargetName
from evalreg.data.clusters import Axis, axis_name, find_axis
from evalreg.errors import ArgumentError, DataError, IndependenceWarning, NotAvailableError, issue, muted
from evalreg.estimate import Estimate, Population
from evalreg.inference.questions import rows_behind
from evalreg.results.results import Results

PopulationSize: TypeAlias = int | Mapping[str, int]
FULL: TargetName = "the full benchmark"
THESE: TargetName = "these questions"


def check_target(target: TargetName, n_population: PopulationSize | None, refused: Mapping[str, bool]) -> None:
    """Refuse what does not go together; `refused` says which other arguments are given."""
    if (target == FULL) != (n_population is not None):
        raise ArgumentError(
            f'target="{FULL}" and `n_population` go together: the number of its questions, or of whole clusters as '
            f'{{"passage": 896}}; got target="{target}" and n_population={n_population!r}.'
        )
    given = [name for name, is_given in refused.items() if is_given]
    if target == FULL and given:
        raise NotAvailableError(
            f'target="{FULL}" is not defined with {" and ".join(f"`{name}`" for name in given)}. Shares of strata and '
            "weights need the size of each; answers that were sampled leave noise however many questions there are: "
            "average them first, and the result speaks of the answers as they came."
        )


def refuse_beside_answers(item: str | None, sample: str | None, **others: object) -> None:
    """Only the answers vary: they must be named, and clusters, strata and weights have no place."""
    if item is None or sample is None:
        raise ArgumentError(
            f'target="{THESE}" needs `item`, the column of the questions, and `sample`, that of the answers to each.'
        )
    given = [f"`{name}`" for name, value in others.items() if value is not None]
    if given:
        raise ArgumentError(
            f'target="{THESE}" holds the questions fixed, so that {" and ".join(given)} cannot matter. Leave out '
            f"{'it' if len(given) == 1 else 'them'}."
        )


def these_questions(of: Callable[..., Results], item: str, sample: str) -> Results:
    """Means with the error that the answers alone make: each question is a stratum, and all count alike."""
    with muted():
        of(item=item, sample=sample)  # refuses what is no answer to a question
        try:
            found = of(strata=item, strata_weights="macro")
        except DataError as error:
            raise NotAvailableError(
                f'target="{THESE}" needs two answers or more of every model to every question, because the noise of an '
                f"answer shows only next to another one ({error.message}) Leave out such questions for all models."
            ) from None
    line = (
        f"Target: these questions. Only the answers ({sample}) vary, independently of each other; the error bar says "
        f"nothing about other questions. A row is an answer; each {item} counts alike."
    )
    about = replace(found.estimate.about, lines=(line,))
    notes = tuple(note for note in found.notes if note[0] is not IndependenceWarning)
    issue(notes)
    return replace(found, estimate=replace(found.estimate, about=about), notes=notes)


def with_population(
    estimate: Estimate,
    axes: tuple[Axis, ...] | None,
    n_population: PopulationSize,
    item: str | None,
    n_questions: float | None = None,
) -> Estimate:
    """The estimate of a sample from so many questions, or from so many clusters that were drawn whole.

    `n_questions`: those in the sample, by default the fewest rows of a parameter.
    """
    if isinstance(n_population, Mapping):
        if len(n_population) != 1:
            raise ArgumentError(f"`n_population` names one clustering; got {dict(n_population)!r}.")
        (name, size), *_ = n_population.items()
        axis = find_axis(name, axes or ())
        drawn, what = float(estimate.scores.n_clusters(axis)), f"{name} clusters"
        unit = axis_name(axis)
    else:
        size, unit, what = n_population, "", "questions"
        behind = rows_behind(estimate) if n_questions is None else np.array([n_questions])
        drawn = float(estimate.n_rows if behind is None else np.min(behind))
    if not _is_count(size) or size <= drawn:
        raise ArgumentError(
            f"`n_population` must be a whole number above the sample, which has {drawn:.0f} {what}; got {size!r}. If "
            "the sample is all of them, the score is known and has no error bar for questions."
        )
    population = Population(float(size), drawn, unit)
    how = "whole clusters drawn" if unit else "questions drawn one by one"
    line = (
        f"Target: the full benchmark of {size} {what}, of which {drawn:.0f} are here ({how} at random). Variances are "
        f"those of questions like these times {population.factor:.3f}. The answers are taken as they came: how "
        "much new answers would change the score is not included."
    )
    if not unit and axes and axis_name(axes[0]) != (item or ""):
        line += (
            " For questions drawn one by one the clusters of the benchmark do not matter, and the interval is longer "
            "than necessary; leave `groups` out."
        )
    about = replace(estimate.about, lines=(*estimate.about.lines, line))
    return replace(estimate, about=about, population=population)


def _is_count(value: object) -> bool:
    """Whether it is a whole number."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)

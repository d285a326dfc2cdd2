"""Which questions a mean is about: these alone, or a finite benchmark from which a sample was drawn (Cochran 1977)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import FULL, THESE, FloatArray, IntArray, StrataWeightsName, listed
from evalreg.data.clusters import Axis, axis_name, find_axis
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    DataError,
    IndependenceWarning,
    NotAvailableError,
    issue,
    muted,
)
from evalreg.estimate import Estimate, Family, Population, Samples, same_questions
from evalreg.numerics.matrices import Matrix, compressed, dense
from evalreg.scores.differences import paired_answers
from evalreg.scores.stacking import SampledShares

if TYPE_CHECKING:
    from evalreg.data.answers import ModelPairs
    from evalreg.data.clusters import Groups
    from evalreg.data.rows import CellRows
    from evalreg.results.results import Results

PopulationSize: TypeAlias = int | Mapping[str, int] | Mapping[str, Mapping[str, int]]
Shares: TypeAlias = StrataWeightsName | Mapping[str, float]
# Strata of models differ in their shares where more than one question and this share of all are out of place.
ROUNDING_SHARE = 0.01


def _no_place(beside: list[str]) -> ArgumentError:
    """What is wrong with arguments beside fixed questions."""
    return ArgumentError(
        f'target="{THESE}" holds the questions fixed, so that {" and ".join(beside)} cannot matter. Leave out '
        f"{'it' if len(beside) == 1 else 'them'}."
    )


class OfAnswers(Family):
    """Estimates of fixed questions, of which only the answers vary."""

    not_clustered = str(_no_place(["`groups`"]))

    def transform(self) -> Family:
        """A function of them is about the same questions."""
        return self


def these_questions(of: Callable[..., Results], item: str | None, sample: str | None, **beside: object) -> Results:
    """Means with the error that the answers alone make: each question is a stratum, and all count alike."""
    if item is None or sample is None:
        raise ArgumentError(
            f'target="{THESE}" needs `item`, the column of the questions, and `sample`, that of the answers to each.'
        )
    if refused := [f"`{name}`" for name, value in beside.items() if value is not None]:
        raise _no_place(refused)
    with muted():
        of(item=item, sample=sample)  # refuses what is no answer to a question
        try:
            results = of(strata=item, strata_weights="macro")
        except DataError as error:
            raise NotAvailableError(
                f'target="{THESE}" needs two answers or more of every model to every question, because the noise of an '
                f"answer shows only next to another one ({error.message}) Leave out such questions for all models."
            ) from None
    line = (
        f"Target: these questions. Only the answers ({sample}) vary, independently of each other; the error bar says "
        f"nothing about other questions. A row is an answer; each {item} counts alike."
    )
    about = replace(results.estimate.about, lines=(line,))
    notes = tuple(note for note in results.notes if note[0] is not IndependenceWarning)
    issue(notes)
    return replace(results, estimate=replace(results.estimate, about=about, family=OfAnswers()), notes=notes)


# A finite benchmark.


def noise_of_means(read: CellRows) -> Matrix:
    """Variance of the total of each cell that the answers alone make: of each question s^2/k, summed."""
    cell = np.zeros(read.values.size, dtype=np.intp) if read.cell is None else read.cell
    return sparse.diags_array(np.bincount(cell, read.values, len(read.keys)), format="csr")


def noise_of_differences(noise: FloatArray, pairs: ModelPairs) -> Matrix:
    """Covariance of the totals of differences that the answers alone make; each model has answers of its own.

    `noise` is s^2/k of each question, shape (n_models, n_questions).
    """
    members = np.array([np.ones(noise.shape[1], dtype=bool) if m is None else m for m in pairs.sets], dtype=float)
    total = np.zeros((pairs.n_columns, pairs.n_columns))
    for model, of_questions in enumerate(noise):
        columns = np.flatnonzero((pairs.left == model) | (pairs.right == model))
        sign = np.where(pairs.left[columns] == model, 1.0, -1.0)
        sets, place = np.unique(pairs.of_set[columns], return_inverse=True)
        shared = (members[sets] * of_questions) @ members[sets].T
        total[np.ix_(columns, columns)] += np.outer(sign, sign) * shared[np.ix_(place, place)]
    return total


@dataclass(frozen=True)
class Draw:
    """How a sample was drawn from a benchmark: its columns, and what its parameters are of."""

    item: str | None
    sample: str | None = None
    # Whether whole clusters were drawn, or questions one by one.
    whole: bool = False
    # How strata count where one number is the size of all of them.
    shares: Shares = "micro"
    apiece: str = "model"
    # Covariance of the totals of the columns that the answers alone make, (n_columns, n_columns).
    noise: Matrix | None = None


@dataclass(frozen=True, eq=False)
class UnitsDrawn:
    """Units behind the columns of the scores of an estimate: questions, or clusters that were drawn whole."""

    # (n_columns,): units of each column, and the stratum that they were drawn within.
    n: FloatArray
    part: IntArray
    # (n_parts,): units of all columns of a stratum together; the most of one where those in common are not known.
    of_all: FloatArray
    # Units of each distinct sample, (n_units, n_samples), and the sample of each column; None where all columns of a
    # stratum have the same.
    members: Matrix | None = None
    of: IntArray | None = None
    # Whether the units that columns have in common are known.
    known: bool = True


def counts_clusters(n_population: PopulationSize | None, groups: Groups, strata: str | None) -> bool:
    """Whether the sizes are those of the clusters: {"passage": {"law": 40, ...}}, or {"passage": 896} in all."""
    if not isinstance(n_population, Mapping) or strata is None:
        return isinstance(n_population, Mapping)
    if any(isinstance(size, Mapping) for size in n_population.values()):
        return True
    names = [groups] if isinstance(groups, str) else groups if isinstance(groups, list | dict) else ()
    return list(n_population) == (list(names) or [getattr(groups, "name", None)])


def of_benchmark(
    estimate: Estimate, axes: tuple[Axis, ...] | None, n_population: PopulationSize, draw: Draw
) -> Estimate:
    """The estimate of a sample from a benchmark of so many questions, or clusters, within its strata or not.

    Variances are multiplied by 1 - n/N: Cochran (1977), eq. 2.8, within strata 5.6, of clusters 9.10. Where clusters
    are drawn within strata whose shares are not stated, one of stratum s stands for N_s/G_s of them, which makes the
    mean a ratio of two estimated totals (section 6.12, combined ratio; survey's `svymean` with `fpc`); with stated ones
    each stratum has a ratio of its own (6.10).
    """
    cells = estimate.cells
    assert cells is not None
    strata, stratum = cells.strata, cells.stratum
    part = np.zeros(estimate.scores.n_columns, dtype=np.intp) if stratum is None else stratum
    size: Any = n_population
    if isinstance(n_population, Mapping) and draw.whole:
        if len(n_population) != 1:
            raise ArgumentError(
                f"`n_population` names one clustering, or with `strata` each of them; got {dict(n_population)!r}."
            )
        ((name, size),) = n_population.items()
        axis = find_axis(name, axes or ())
        units = clusters_drawn(estimate, axis, part, refuse_spanning=stratum is not None)
        drawn_by: tuple[str, ...] = (axis_name(axis),)
        what = f"{axis_name(axis)} clusters"
    else:
        if stratum is not None:
            _refuse_clusters(axes, draw, strata)
        units = questions_drawn(estimate, axes, draw.item, part)
        drawn_by, what = (), "questions"
        if stratum is not None and draw.shares == "micro" and not isinstance(size, Mapping):
            _refuse_unlike(estimate, strata, stratum, units.n)
    sizes = _sizes(size, units.of_all, strata, draw, what)
    # Of a stratum that is here as a whole the answers still vary.
    if not (strata and draw.noise is not None) or np.any(sizes < units.of_all):
        _refuse_known(estimate, units, sizes, size, strata, what)
    factor = 1.0 - units.n / sizes[part]
    if draw.whole and stratum is not None and draw.shares in ("micro", "as_sampled"):
        plain = estimate.scores
        estimate = estimated_shares(estimate, sizes[part] / units.n * cells.weight)
        # Differences of models on the same questions are those of the rows only where all rows count alike.
        if estimate.family.paired is not None:
            answers = paired_answers(replace(estimate, scores=plain), axis if draw.item is None else (draw.item,))
            estimate = replace(estimate, family=same_questions(answers))
    samples = None
    if units.members is not None and units.of is not None:
        samples = Samples(units.members, units.of, part, sizes[part])
    noise = draw.noise
    if noise is not None and samples is not None:
        noise = samples.answered(noise)
    elif noise is not None:  # n/N of it
        rest = sparse.diags_array(np.sqrt(units.n / sizes[part]))
        noise = compressed(rest @ compressed(noise) @ rest)
    line = _line(units, sizes, factor, strata, draw, what)
    if not draw.whole and stratum is None and axes and axis_name(axes[0]) != (draw.item or ""):
        line += (
            " For questions drawn one by one the clusters of the benchmark do not matter, and the interval is longer "
            "than need be; leave `groups` out."
        )
    about = replace(estimate.about, lines=(*estimate.about.lines, line))
    return replace(estimate, about=about, population=Population(np.sqrt(factor), noise, drawn_by, samples))


def questions_drawn(estimate: Estimate, axes: tuple[Axis, ...] | None, item: str | None, part: IntArray) -> UnitsDrawn:
    """Questions behind each column, which have a row each; in common where they or the clusters tell them apart."""
    assert estimate.cells is not None
    n, scores = estimate.cells.count.astype(float), estimate.scores
    most = np.zeros(int(part.max()) + 1)
    np.maximum.at(most, part, n)
    if np.all(np.bincount(part) == 1):
        return UnitsDrawn(n, part, most)
    by = (item,) if item is not None else max(axes, key=scores.n_clusters) if axes else None
    if by is not None:
        if np.array_equal(n, most[part]) and most.sum() == scores.n_distinct(by):
            return UnitsDrawn(n, part, most)
        units = clusters_drawn(estimate, by, part)
        if np.array_equal(units.n, n):
            return units
    ends = np.concatenate([[0.0], np.cumsum(n)]).astype(np.intp)
    of_unit = np.repeat(np.arange(n.size), n.astype(np.intp))
    members = sparse.csr_array((np.ones(ends[-1]), of_unit, np.arange(ends[-1] + 1)), (ends[-1], n.size))
    return UnitsDrawn(n, part, most, members, np.arange(n.size), known=False)


def clusters_drawn(estimate: Estimate, by: Axis, part: IntArray, refuse_spanning: bool = False) -> UnitsDrawn:
    """Clusters behind each column; those that were drawn within strata lie in one of them."""
    members, of = estimate.scores.samples(by)
    n = np.asarray(members.sum(axis=0), dtype=np.float64).ravel()[of]
    of_part = sparse.csr_array((np.ones(of.size), (of, part)), (members.shape[1], int(part.max()) + 1))
    inside = dense(members @ of_part) > 0
    spans = inside.sum(axis=1) > 1
    if refuse_spanning and spans.any():
        name, first = axis_name(by), estimate.scores.label(by, int(np.argmax(spans)))
        raise AlignmentError(
            f"clusters drawn whole within strata lie in one stratum each; {np.count_nonzero(spans)} of {spans.size} "
            f"{name} clusters ({first!r}) have rows in several. Where ids are used again in another stratum, a joint "
            f'id tells them apart, as groups="subject:{name}".',
            column=name,
            count=int(np.count_nonzero(spans)),
        )
    of_all = inside.sum(axis=0).astype(float)
    alike = np.array_equal(n, of_all[part])
    return UnitsDrawn(n, part, of_all) if alike else UnitsDrawn(n, part, of_all, members, of)


def estimated_shares(estimate: Estimate, weight: FloatArray | None = None) -> Estimate:
    """Means whose strata have the shares that the clusters drawn from each give; `weight` is that of the cells."""
    cells, A = estimate.cells, dense(estimate.coefficient_map)
    assert cells is not None
    if weight is not None:
        A = (A != 0) * weight
        A = A / A.sum(axis=1, keepdims=True)
        estimate = replace(estimate, params=A @ cells.mean, bread=(A / cells.weight).T, coefficient_map=A)
    away = cells.mean - estimate.params[np.argmax(A != 0, axis=0)]
    # Without a cluster the shares would be others, which no leverage tells.
    refit = estimate.refit and replace(estimate.refit, linear=False)
    scores, family = SampledShares(estimate.scores, away, cells.weight), same_questions(estimate.family.paired)
    return replace(estimate, scores=scores, refit=refit, family=family)


def _sizes(given: Any, n: FloatArray, strata: tuple[str, ...], draw: Draw, what: str) -> FloatArray:
    """Units of each stratum of the benchmark, or of all of it; `n` are those here."""
    if isinstance(given, Mapping):
        named = {str(name): size for name, size in given.items()}
        if not strata:
            raise ArgumentError(f"`n_population` has sizes by stratum ({listed(named)}); name the column in `strata`.")
        if set(named) != set(strata) or not all(map(_is_count, named.values())):
            raise ArgumentError(
                f"`n_population` must name each stratum once, with the number of its {what}; the strata are "
                f"{listed(strata)}; got {dict(given)!r}."
            )
        return np.array([float(named[name]) for name in strata])
    if not strata:
        return np.array([float(given) if _is_count(given) else 0.0])
    stated = isinstance(draw.shares, Mapping)
    if not _is_count(given) or draw.shares == "macro" or (stated and draw.whole):
        raise ArgumentError(
            f"`n_population` must say how many {what} each stratum has, as {{{listed(strata[:1])}: 40, ...}}; one "
            f"whole number is enough where they were drawn in the proportions of the benchmark; got {given!r}."
        )
    if isinstance(draw.shares, Mapping):
        shares = {str(name): share for name, share in draw.shares.items()}
        n = np.array([float(shares[name]) for name in strata])
    return np.asarray(given * n / n.sum())


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _refuse_clusters(axes: tuple[Axis, ...] | None, draw: Draw, strata: tuple[str, ...]) -> None:
    """Questions that were drawn one by one within strata have known sizes, and no clusters."""
    if draw.shares == "as_sampled":
        raise NotAvailableError(
            f'target="{FULL}" is not defined with strata_weights="as_sampled": the sizes of a finite benchmark are '
            'known. Give them as n_population={"algebra": 400, "law": 250} and leave `strata_weights` out.'
        )
    if axes is not None and [axis_name(axis) for axis in axes] != [draw.item]:
        name = axis_name(axes[0])
        raise NotAvailableError(
            f'target="{FULL}" with `strata` is defined for questions that were drawn one by one within them, where '
            f"clusters of questions do not matter. Leave `groups` out; or, of {name} clusters drawn whole, say how "
            f'many each stratum has: n_population={{"{name}": {{{listed(strata[:1])}: 40, ...}}}}.'
        )


def _refuse_known(
    estimate: Estimate, units: UnitsDrawn, sizes: FloatArray, size: object, strata: tuple[str, ...], what: str
) -> None:
    """Refuse benchmarks below the sample, and those of which a parameter has all."""
    n, left = units.of_all, abs(compressed(estimate.coefficient_map)) @ (units.n < sizes[units.part]).astype(float)
    known = [name for name, some in zip(estimate.names, left, strict=True) if some == 0]
    short = [f"{s} ({has:.0f} of {size:g})" for s, has, size in zip(strata, n, sizes, strict=False) if size < has]
    if not (known or np.any(sizes < n)):
        return
    whose = "this sample is" if len(known) == estimate.n_params else f"that of {listed(known)} is"
    text = (
        f"must be a whole number above the sample, which has {n[0]:.0f} {what}; got {size!r}"
        if not strata
        else "must not be below the sample in any stratum, and above it in one; "
        + (f"{what} of {listed(short)}" if short else f"{whose} all of it")
    )
    leave = f" Leave out {listed(known)}." if 0 < len(known) < estimate.n_params else ""
    raise ArgumentError(
        f"`n_population` {text}. Of a sample that is all of it the score is known, and has no error bar for "
        f"questions.{leave}"
    )


def _refuse_unlike(estimate: Estimate, strata: tuple[str, ...], stratum: IntArray, n: FloatArray) -> None:
    """Refuse one number where models have strata in unlike proportions, which cannot all be those of the benchmark."""
    counts = np.zeros((estimate.n_params, len(strata)))
    model, cell = compressed(estimate.coefficient_map).nonzero()
    counts[model, stratum[cell]] = n[cell]
    of_model = counts.sum(axis=1, keepdims=True)
    away = np.abs(counts - of_model * counts.sum(axis=0) / counts.sum())
    worst, where = np.unravel_index(int(np.argmax(away - ROUNDING_SHARE * of_model)), away.shape)
    if away[worst, where] <= 1.0 + ROUNDING_SHARE * of_model[worst, 0]:
        return
    share, every = counts[worst, where] / of_model[worst, 0], counts[:, where].sum() / counts.sum()
    raise ArgumentError(
        "one `n_population` takes the strata to be here in the proportions of the benchmark, but models differ in "
        f"these: {strata[where]!r} is {share:.1%} of the questions of {estimate.names[worst]!r} and {every:.1%} of all "
        f'together. Give the questions of each stratum in the benchmark, as n_population={{"{strata[0]}": 400, ...}}.'
    )


def _line(
    units: UnitsDrawn, sizes: FloatArray, factor: FloatArray, strata: tuple[str, ...], draw: Draw, what: str
) -> str:
    """What a summary says of the benchmark, of what is here of it, and by how much variances fall."""
    low, high = np.min(units.n), np.max(units.n)
    some, here = f"{low:.0f} to {high:.0f} of each {draw.apiece}", f"{units.of_all.sum():.0f} are here"
    if not strata and low < high:
        here = f"{here}, {some}" if units.known else f"{some} are here"
    low, high = np.min(factor), np.max(factor)
    times = f"{low:.3f} to {high:.3f}, by {'stratum' if strata else draw.apiece}" if low < high else f"{low:.3f}"
    how = "whole clusters drawn" if draw.whole else "questions drawn one by one"
    many, within = (f" in {len(strata)} strata", " within strata") if strata else ("", "")
    variances = "Variances are those of questions like these"
    answers = "The answers are taken as they came: what sampling them anew would change is not in it."
    if draw.sample is not None:
        variances = "The variance between questions counts"
        answers = (
            f"The noise of the answers ({draw.sample}) is in it whole, as new answers to every question would have it."
        )
    return (
        f"Target: the full benchmark of {sizes.sum():.0f} {what}{many}, of which {here} ({how} at random{within}). "
        f"{variances} times {times}. {answers}{_in_common(units, sizes, what)}"
    )


def _in_common(units: UnitsDrawn, sizes: FloatArray, what: str) -> str:
    """What is said of the covariances of models with different samples; empty where there are none."""
    if units.members is None or units.of is None:
        return ""
    if not units.known:
        return (
            f" Which {what} models have in common is not known (name the questions in `item`), so that covariances are "
            "taken as they are without any, and the error bar of a difference is its widest."
        )
    together = dense(units.members.T @ units.members)[np.ix_(units.of, units.of)]
    few = (units.part[:, None] == units.part) & (together < np.outer(units.n, units.n) / sizes[units.part])
    return f" Covariances count the {what} in common." + (
        " Of two with none in common, or fewer than by chance, it is not known and may be as small as none or as large "
        "as can be: the widest error bar is taken."
        if np.any(few)
        else ""
    )

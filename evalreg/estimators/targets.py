"""Which questions a mean is about: a finite benchmark from which a sample was drawn (Cochran 1977)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, listed, option, passed
from evalreg.choices import FULL, StrataWeightsName
from evalreg.data.answers import AnswerTable, ModelPairs, answers_of
from evalreg.data.clusters import Axis, axis_name, find_axis
from evalreg.data.frame import UsedRows, restrict
from evalreg.data.rows import CellRows, Roles
from evalreg.errors import AlignmentError, ArgumentError, NotAvailableError
from evalreg.estimate import Estimate, Population, Samples, same_questions
from evalreg.numerics.matrices import Matrix, compressed, dense
from evalreg.scores.differences import paired_answers
from evalreg.scores.stacking import SampledShares

if TYPE_CHECKING:
    from evalreg.data.clusters import Groups

PopulationSize: TypeAlias = int | Mapping[str, int] | Mapping[str, Mapping[str, int]]
Shares: TypeAlias = StrataWeightsName | Mapping[str, float]
# Strata of models differ in their shares where more than one question and this share of all are out of place.
ROUNDING_SHARE = 0.01


def checked_shares(strata: str | None, weights: Shares) -> Shares | None:
    """How strata count; None without any."""
    if not isinstance(weights, Mapping):
        option("strata_weights", weights, StrataWeightsName)
    if strata is None and weights != "micro":
        raise ArgumentError("`strata_weights` needs `strata`, the column that it weights.")
    return None if strata is None else weights


# A finite benchmark.


def noise_of_answers(source: UsedRows, score: str) -> FloatArray:
    """s^2/k of the k answers to each question (of each model), in the order of the rows that they were averaged to."""
    if source.item is None:
        raise NotAvailableError(
            '`target="the full benchmark"` with `sample` needs the variance of the answers to each question, and so '
            "rows in memory: collect the columns first."
        )
    values = restrict(source.table.floats(score, "score"), source.keep)
    code, counts = source.item.codes, source.item.counts
    if np.min(counts) < 2:
        raise NotAvailableError(
            '`target="the full benchmark"` with `sample` needs two answers or more of every model to every question, '
            "because the noise of an answer shows only beside another; of "
            f"{np.count_nonzero(counts < 2)} of {counts.size} there is one. Leave out such questions for all "
            "models; or average the answers first and leave `sample` out: the result then speaks of the answers as "
            "they came."
        )
    return np.asarray(AnswerTable.of(code, (1, counts.size), values).noise[0])


def noise_of_means(scores: Any, score: str) -> Matrix:
    """Variance of the total of each cell that the answers alone make: that of each question, summed."""
    noise = noise_of_answers(scores.row_labels().source, score)
    cell = np.zeros(noise.size, dtype=np.intp) if scores.cell is None else scores.cell
    return sparse.diags_array(np.bincount(cell, noise, scores.n_columns), format="csr")


def noise_of_differences(read: CellRows, roles: Roles, pairs: ModelPairs) -> Matrix:
    """Covariance of the totals of differences that the answers alone make; each model has answers of its own."""
    squares = {"score": noise_of_answers(read.rows.source, roles.score)}
    noise = answers_of(replace(read, rows=replace(read.rows, values=squares)), roles).values
    members = np.array([np.ones(noise.shape[1], dtype=bool) if m is None else m for m in pairs.sets], dtype=float)
    total = np.zeros((pairs.n_columns, pairs.n_columns))
    for model, of_questions in enumerate(noise):
        columns = np.flatnonzero((pairs.left == model) | (pairs.right == model))
        sign = np.where(pairs.left[columns] == model, 1.0, -1.0)
        sets, place = np.unique(pairs.of_set[columns], return_inverse=True)
        shared = (members[sets] * of_questions) @ members[sets].T
        total[np.ix_(columns, columns)] += np.outer(sign, sign) * shared[np.ix_(place, place)]
    return total


@dataclass(frozen=True, eq=False)
class Units:
    """Units behind the columns of the scores of an estimate: questions, or clusters that were drawn whole."""

    what: str  # what they are called
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
    estimate: Estimate,
    axes: tuple[Axis, ...] | None,
    n_population: PopulationSize,
    *,
    item: str | None,
    sample: str | None,
    whole: bool,
    shares: Shares = "micro",
    noise: Matrix | None = None,
) -> Estimate:
    """The estimate of a sample from a benchmark of so many questions, or `whole` clusters, within its strata or not.

    Variances are multiplied by 1 - n/N: Cochran (1977), eq. 2.8, within strata 5.6, of clusters 9.10. Where clusters
    are drawn within strata whose shares are not stated, one of stratum s stands for N_s/G_s of them, which makes the
    mean a ratio of two estimated totals (section 6.12, combined ratio; survey's `svymean` with `fpc`); with stated ones
    each stratum has a ratio of its own (6.10). `shares` says how strata count where one number is the size of all;
    `noise` is the covariance of the totals of the columns that the answers (`sample`) alone make.
    """
    cells = estimate.cells
    assert cells is not None
    strata, stratum, size = cells.strata, cells.stratum, n_population
    part = np.zeros(estimate.scores.n_columns, dtype=np.intp) if stratum is None else stratum
    drawn_by: tuple[str, ...] = ()
    if whole:
        assert isinstance(n_population, Mapping)
        if len(n_population) != 1:
            raise ArgumentError(
                f"`n_population` names one clustering, or with `strata` each of them; got {dict(n_population)!r}."
            )
        ((name, size),) = n_population.items()
        axis = find_axis(name, axes or ())
        drawn_by = (axis_name(axis),)
        drawn = clusters_drawn(estimate, axis, part, refuse_spanning=stratum is not None)
    else:
        drawn = questions_drawn(estimate, axes, item, part)
        if stratum is not None:
            _refuse_strata(estimate, axes, drawn, item, shares, sized=isinstance(size, Mapping))
    sizes = _sizes(size, drawn, strata, shares, whole)
    # Of a stratum that is here as a whole the answers still vary.
    if not (strata and noise is not None) or np.any(sizes < drawn.of_all):
        _refuse_known(estimate, drawn, sizes, size, strata)
    factor = 1.0 - drawn.n / sizes[part]
    if whole and stratum is not None and shares in ("micro", "as_sampled"):
        plain = estimate.scores
        estimate = estimated_shares(estimate, sizes[part] / drawn.n * cells.weight)
        # Differences of models on the same questions are those of the rows only where all rows count alike.
        if estimate.family.paired is not None:
            answers = paired_answers(replace(estimate, scores=plain), axis if item is None else (item,))
            estimate = replace(estimate, family=same_questions(answers))
    samples = None
    if drawn.members is not None and drawn.of is not None:
        samples = Samples(drawn.members, drawn.of, part, sizes[part])
    if noise is not None:  # n/N of it
        rest = sparse.diags_array(np.sqrt(drawn.n / sizes[part]))
        noise = samples.answered(noise) if samples else compressed(rest @ compressed(noise) @ rest)
    apiece = "pair" if estimate.scores.paired else "model"
    line = _line(drawn, sizes, factor, len(strata), sample, whole, apiece) + _in_common(drawn, samples)
    if not whole and stratum is None and axes and axis_name(axes[0]) != (item or ""):
        line += (
            " For questions drawn one by one the clusters of the benchmark do not matter, and the interval is longer "
            "than need be; leave `groups` out."
        )
    about = replace(estimate.about, lines=(*estimate.about.lines, line))
    return replace(estimate, about=about, population=Population(np.sqrt(factor), noise, drawn_by, samples))


def questions_drawn(estimate: Estimate, axes: tuple[Axis, ...] | None, item: str | None, part: IntArray) -> Units:
    """Questions behind each column, which have a row each; in common where they or the clusters tell them apart."""
    assert estimate.cells is not None
    n, scores = estimate.cells.count.astype(float), estimate.scores
    most = np.zeros(int(part.max()) + 1)
    np.maximum.at(most, part, n)
    alike = Units("questions", n, part, most)
    by = (item,) if item is not None else max(axes, key=scores.n_clusters) if axes else None
    if np.all(np.bincount(part) == 1):
        return alike
    if by is not None:
        if np.array_equal(n, most[part]) and most.sum() == scores.n_distinct(by):
            return alike
        units = clusters_drawn(estimate, by, part)
        if np.array_equal(units.n, n):
            return replace(units, what="questions")
    starts = np.concatenate([[0], np.cumsum(n)]).astype(np.intp)
    members = sparse.csc_array((np.ones(starts[-1]), np.arange(starts[-1]), starts), (starts[-1], n.size)).tocsr()
    return replace(alike, members=members, of=np.arange(n.size), known=False)


def clusters_drawn(estimate: Estimate, by: Axis, part: IntArray, refuse_spanning: bool = False) -> Units:
    """Clusters behind each column; those that were drawn within strata lie in one of them."""
    members, of = estimate.scores.samples(by)
    n, name = np.asarray(members.sum(axis=0), dtype=np.float64).ravel()[of], axis_name(by)
    of_part = sparse.csr_array((np.ones(of.size), (of, part)), (members.shape[1], int(part.max()) + 1))
    inside = dense(members @ of_part) > 0
    spans = inside.sum(axis=1) > 1
    if refuse_spanning and spans.any():
        first, count = estimate.scores.label(by, int(np.argmax(spans))), int(np.count_nonzero(spans))
        text = (
            f"clusters drawn whole within strata lie in one stratum each; {count} of {spans.size} {name} clusters "
            f"({first!r}) have rows in several. A joint id tells ids apart: {passed(groups=f'subject:{name}')}."
        )
        raise AlignmentError(text, column=name, count=count)
    drawn = Units(f"{name} clusters", n, part, inside.sum(axis=0).astype(float))
    return drawn if np.array_equal(n, drawn.of_all[part]) else replace(drawn, members=members, of=of)


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
    scores, of = SampledShares(estimate.scores, away, cells.weight), estimate.family
    family = same_questions(of.paired, of.single if weight is None else None)
    return replace(estimate, scores=scores, refit=refit, family=family)


def _sizes(n_population: Any, drawn: Units, strata: tuple[str, ...], shares: Shares, whole: bool) -> FloatArray:
    """Units of each stratum of the benchmark, or of all of it."""
    if isinstance(n_population, Mapping):
        named = {str(name): size for name, size in n_population.items()}
        if not strata:
            raise ArgumentError(f"`n_population` has sizes by stratum ({listed(named)}); name the column in `strata`.")
        if set(named) != set(strata) or not all(map(_is_count, named.values())):
            raise ArgumentError(
                f"`n_population` must name each stratum once, with the number of its {drawn.what}; the strata are "
                f"{listed(strata)}; got {dict(n_population)!r}."
            )
        return np.array([float(named[name]) for name in strata])
    if not strata:
        return np.array([float(n_population) if _is_count(n_population) else 0.0])
    n = drawn.of_all
    if isinstance(shares, Mapping):
        stated = {str(name): share for name, share in shares.items()}
        n = np.array([float(stated[name]) for name in strata])
    if not _is_count(n_population) or shares == "macro" or (isinstance(shares, Mapping) and whole):
        raise ArgumentError(
            f"`n_population` must say how many {drawn.what} each stratum has, as {{{listed(strata[:1])}: 40, ...}}; "
            f"one number is enough where they were drawn in the proportions of the benchmark; got {n_population!r}."
        )
    return np.asarray(n_population * n / n.sum())


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _refuse_strata(
    estimate: Estimate, axes: tuple[Axis, ...] | None, drawn: Units, item: str | None, shares: Shares, sized: bool
) -> None:
    """Refuse questions drawn one by one within strata that have clusters, or no known sizes.

    One number (not `sized` by stratum) is that of strata in the proportions of the benchmark, which those of unlike
    models cannot all be.
    """
    cells, names = estimate.cells, estimate.names
    assert cells is not None
    assert cells.stratum is not None
    strata = cells.strata
    if shares == "as_sampled":
        raise NotAvailableError(
            f"`{passed(target=FULL, strata_weights=shares)}` is not defined: the sizes of a finite benchmark are "
            f"known. Give them as {passed(n_population={'algebra': 400, 'law': 250})} and leave `strata_weights` out."
        )
    if axes is not None and [axis_name(axis) for axis in axes] != [item]:
        name = axis_name(axes[0])
        raise NotAvailableError(
            f'`target="{FULL}"` with `strata` is defined for questions that were drawn one by one within them, where '
            f"clusters of questions do not matter. Leave `groups` out; or, of {name} clusters drawn whole, say how "
            f'many each stratum has: n_population={{"{name}": {{{listed(strata[:1])}: 40, ...}}}}.'
        )
    if sized or shares != "micro":
        return
    model, cell = compressed(estimate.coefficient_map).nonzero()
    counts = np.zeros((len(names), len(strata)))
    counts[model, cells.stratum[cell]] = drawn.n[cell]
    of_model, every = counts.sum(axis=1, keepdims=True), counts.sum(axis=0) / counts.sum()
    away = np.abs(counts - of_model * every) - ROUNDING_SHARE * of_model
    worst, where = np.unravel_index(int(np.argmax(away)), away.shape)
    if away[worst, where] > 1.0:
        share = counts[worst, where] / of_model[worst, 0]
        raise ArgumentError(
            "one `n_population` takes the strata to be here in the proportions of the benchmark, but models differ in "
            f"these: {strata[where]!r} is {share:.1%} of the questions of {names[worst]!r} and {every[where]:.1%} of "
            f'all together. Give the questions of each stratum in the benchmark, as n_population={{"{strata[0]}": 400, '
            "...}."
        )


def _refuse_known(estimate: Estimate, drawn: Units, sizes: FloatArray, size: object, strata: tuple[str, ...]) -> None:
    """Refuse benchmarks below the sample, and those of which a parameter has all."""
    n, left = drawn.of_all, abs(compressed(estimate.coefficient_map)) @ (drawn.n < sizes[drawn.part]).astype(float)
    known = [name for name, some in zip(estimate.names, left, strict=True) if some == 0]
    if not (known or np.any(sizes < n)):
        return
    short = [f"{s} ({has:.0f} of {size:g})" for s, has, size in zip(strata, n, sizes, strict=False) if size < has]
    text = f"must be a whole number above the sample, which has {n[0]:.0f} {drawn.what}; got {size!r}"
    if strata:
        whose = "this sample is" if len(known) == estimate.n_params else f"that of {listed(known)} is"
        text = "must not be below the sample in any stratum, and above it in one; "
        text += f"{drawn.what} of {listed(short)}" if short else f"{whose} all of it"
    leave = f" Leave out {listed(known)}." if 0 < len(known) < estimate.n_params else ""
    raise ArgumentError(
        f"`n_population` {text}. Of a sample that is all of it the score is known, and has no error bar for "
        f"questions.{leave}"
    )


def _line(
    drawn: Units, sizes: FloatArray, factor: FloatArray, n_strata: int, sample: str | None, whole: bool, apiece: str
) -> str:
    """What a summary says of the benchmark, of what is here of it, and by how much variances fall."""
    low, high = np.min(drawn.n), np.max(drawn.n)
    some, here = f"{low:.0f} to {high:.0f} of each {apiece}", f"{drawn.of_all.sum():.0f} are here"
    if not n_strata and low < high:
        here = f"{here}, {some}" if drawn.known else f"{some} are here"
    low, high = np.min(factor), np.max(factor)
    times = f"{low:.3f} to {high:.3f}, by {'stratum' if n_strata else apiece}" if low < high else f"{low:.3f}"
    how = "whole clusters drawn" if whole else "questions drawn one by one"
    many, within = (f" in {n_strata} strata", " within strata") if n_strata else ("", "")
    variances = "Variances are those of questions like these"
    answers = "The answers are taken as they came: what sampling them anew would change is not in it."
    if sample is not None:
        variances = "The variance between questions counts"
        answers = f"The noise of the answers ({sample}) is in it whole, as new answers to every question would have it."
    return (
        f"Target: the full benchmark of {sizes.sum():.0f} {drawn.what}{many}, of which {here} ({how} at "
        f"random{within}). {variances} times {times}. {answers}"
    )


def _in_common(drawn: Units, samples: Samples | None) -> str:
    """What is said of the covariances of models with different samples; empty where there are none."""
    if samples is None:
        return ""
    if not drawn.known:
        return (
            f" Which {drawn.what} models have in common is not known (name the questions in `item`), so that "
            "covariances are taken as they are without any, and the error bar of a difference is its widest."
        )
    together = samples.together[np.ix_(samples.of, samples.of)]
    few = (drawn.part[:, None] == drawn.part) & (together < np.outer(drawn.n, drawn.n) / samples.size)
    text = (
        " Of two with none in common, or fewer than by chance, it is not known and may be as small as none or as large "
        "as can be: the widest error bar is taken."
    )
    return f" Covariances count the {drawn.what} in common.{text if np.any(few) else ''}"

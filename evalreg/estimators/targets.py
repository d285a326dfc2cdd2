"""Which questions a mean is about: a finite benchmark from which a sample was drawn (Cochran 1977)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, listed, option, passed
from evalreg.choices import FULL, StrataWeightsName
from evalreg.data.answers import AnswerTable, ModelPairs, answers_of, in_set
from evalreg.data.clusters import Axis, axis_name, find_axis
from evalreg.data.frame import UsedRows, restrict
from evalreg.data.rows import CellRows, Roles
from evalreg.errors import AlignmentError, ArgumentError, NotAvailableError
from evalreg.estimate import Estimate, Population, same_questions
from evalreg.numerics.matrices import Matrix, compressed, dense
from evalreg.scores.differences import paired_answers
from evalreg.scores.stacking import SampledShares

if TYPE_CHECKING:
    from evalreg.data.clusters import Groups

PopulationSize: TypeAlias = int | Mapping[str, int] | Mapping[str, Mapping[str, int]]
Shares: TypeAlias = StrataWeightsName | Mapping[str, float]


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
    """Covariance of the totals of differences over the same questions that the answers of each model alone make."""
    squares = {"score": noise_of_answers(read.rows.source, roles.score)}
    noise = answers_of(replace(read, rows=replace(read.rows, values=squares)), roles).values
    of_model = in_set(noise, pairs.sets[pairs.of_set[0]]).sum(axis=1)
    models = np.eye(of_model.size)
    differences = models[pairs.left] - models[pairs.right]
    return (differences * of_model) @ differences.T


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
    part = np.zeros(estimate.scores.n_columns, dtype=np.intp) if cells.stratum is None else cells.stratum
    size: Any = n_population
    drawn_by: tuple[str, ...] = ()
    if whole:
        assert isinstance(n_population, Mapping)
        if len(n_population) != 1:
            raise ArgumentError(
                f"`n_population` names one clustering, or with `strata` each of them; got {dict(n_population)!r}."
            )
        ((name, size),) = n_population.items()
        axis = find_axis(name, axes or ())
        what, drawn_by = f"{name} clusters", (axis_name(axis),)
        n = clusters_drawn(estimate, axis, part, within=cells.stratum is not None)
    else:
        what = "questions"
        n = questions_drawn(estimate, axes, item, part)
        if cells.stratum is not None:
            _refuse_strata(axes, item, cells.strata, shares)
    sizes = _sizes(size, n, what, cells.strata, shares, whole)
    _refuse_known(n, sizes, what, size, cells.strata, varies=bool(cells.strata) and noise is not None)
    factor, fraction = 1.0 - n / sizes, (n / sizes)[part]
    if whole and cells.stratum is not None and shares in ("micro", "as_sampled"):
        plain = estimate.scores
        estimate = estimated_shares(estimate, cells.weight / fraction)
        # Differences of models on the same questions are those of the rows only where all rows count alike.
        if estimate.family.paired is not None:
            answers = paired_answers(replace(estimate, scores=plain), axis if item is None else (item,))
            estimate = replace(estimate, family=same_questions(answers))
    if noise is not None:  # n/N of it
        rest = sparse.diags_array(np.sqrt(fraction))
        noise = compressed(rest @ compressed(noise) @ rest)
    line = _line(what, n, sizes, len(cells.strata), sample, whole)
    if not whole and cells.stratum is None and axes and axis_name(axes[0]) != (item or ""):
        line += (
            " For questions drawn one by one the clusters of the benchmark do not matter, and the interval is longer "
            "than need be; leave `groups` out."
        )
    about = replace(estimate.about, lines=(*estimate.about.lines, line))
    return replace(estimate, about=about, population=Population(np.sqrt(factor[part]), noise, drawn_by))


def questions_drawn(estimate: Estimate, axes: tuple[Axis, ...] | None, item: str | None, part: IntArray) -> FloatArray:
    """Questions of each stratum, which have a row each in every column; the finest clusters may tell them apart."""
    assert estimate.cells is not None
    count = estimate.cells.count
    n = np.zeros(int(part.max()) + 1)
    n[part] = count
    if np.all(np.bincount(part) == 1):
        return n
    by = (item,) if item is not None else max(axes or (), key=estimate.scores.n_clusters, default=None)
    if by is None or not np.array_equal(clusters_drawn(estimate, by, part)[part], count):
        raise NotAvailableError(
            f'`target="{FULL}"` is of the same questions for all models; name the column of the questions in `item`.'
        )
    return n


def clusters_drawn(estimate: Estimate, by: Axis, part: IntArray, within: bool = False) -> FloatArray:
    """Clusters of each stratum, in all columns the same; those that were drawn `within` strata lie in one of them."""
    members, of = estimate.scores.samples(by)
    name, n_parts = axis_name(by), int(part.max()) + 1
    inside = np.zeros((members.shape[0], n_parts), dtype=bool)
    for number in range(n_parts):
        samples = np.unique(of[part == number])
        if samples.size > 1:
            raise NotAvailableError(
                f'`target="{FULL}"` is of the same questions for all models, and some lack a {name} that others have. '
                f"Keep those of all: {passed(item='question', questions='shared')} in `mean`; or take one model, or "
                "one pair, at a time."
            )
        inside[:, number] = dense(members[:, samples]).ravel() > 0
    spans = inside.sum(axis=1) > 1
    if within and spans.any():
        first, count = estimate.scores.label(by, int(np.argmax(spans))), int(np.count_nonzero(spans))
        text = (
            f"clusters drawn whole within strata lie in one stratum each; {count} of {spans.size} {name} clusters "
            f"({first!r}) have rows in several. A joint id tells ids apart: {passed(groups=f'subject:{name}')}."
        )
        raise AlignmentError(text, column=name, count=count)
    return np.asarray(inside.sum(axis=0), dtype=np.float64)


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


def _sizes(
    n_population: Any, n: FloatArray, what: str, strata: tuple[str, ...], shares: Shares, whole: bool
) -> FloatArray:
    """Units of each stratum of the benchmark, or of all of it."""
    if isinstance(n_population, Mapping):
        named = {str(name): size for name, size in n_population.items()}
        if not strata:
            raise ArgumentError(f"`n_population` has sizes by stratum ({listed(named)}); name the column in `strata`.")
        if set(named) != set(strata) or not all(map(_is_count, named.values())):
            raise ArgumentError(
                f"`n_population` must name each stratum once, with the number of its {what}; the strata are "
                f"{listed(strata)}; got {dict(n_population)!r}."
            )
        return np.array([float(named[name]) for name in strata])
    if not strata:
        return np.array([float(n_population) if _is_count(n_population) else 0.0])
    if isinstance(shares, Mapping):
        stated = {str(name): share for name, share in shares.items()}
        n = np.array([float(stated[name]) for name in strata])
    if not _is_count(n_population) or shares == "macro" or (isinstance(shares, Mapping) and whole):
        raise ArgumentError(
            f"`n_population` must say how many {what} each stratum has, as {{{listed(strata[:1])}: 40, ...}}; "
            f"one number is enough where they were drawn in the proportions of the benchmark; got {n_population!r}."
        )
    return np.asarray(n_population * n / n.sum())


def _is_count(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _refuse_strata(axes: tuple[Axis, ...] | None, item: str | None, strata: tuple[str, ...], shares: Shares) -> None:
    """Refuse questions drawn one by one within strata that have clusters, or no known sizes."""
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


def _refuse_known(
    n: FloatArray, sizes: FloatArray, what: str, size: object, strata: tuple[str, ...], varies: bool
) -> None:
    """Refuse benchmarks below the sample, and one that is here as a whole, unless its answers still vary."""
    if not np.any(sizes < n) and (varies or np.any(sizes > n)):
        return
    text = f"must be a whole number above the sample, which has {n[0]:.0f} {what}; got {size!r}"
    if strata:
        short = [f"{s} ({has:.0f} of {of:g})" for s, has, of in zip(strata, n, sizes, strict=True) if of < has]
        text = "must not be below the sample in any stratum, and above it in one; "
        text += f"{what} of {listed(short)}" if short else "this sample is all of it"
    raise ArgumentError(
        f"`n_population` {text}. Of a sample that is all of it the score is known, and has no error bar for questions."
    )


def _line(what: str, n: FloatArray, sizes: FloatArray, n_strata: int, sample: str | None, whole: bool) -> str:
    """What a summary says of the benchmark, of what is here of it, and by how much variances fall."""
    low, high = np.min(1 - n / sizes), np.max(1 - n / sizes)
    times = f"{low:.3f} to {high:.3f}, by stratum" if low < high else f"{low:.3f}"
    how = "whole clusters drawn" if whole else "questions drawn one by one"
    many, within = (f" in {n_strata} strata", " within strata") if n_strata else ("", "")
    variances = "Variances are those of questions like these"
    answers = "The answers are taken as they came: what sampling them anew would change is not in it."
    if sample is not None:
        variances = "The variance between questions counts"
        answers = f"The noise of the answers ({sample}) is in it whole, as new answers to every question would have it."
    return (
        f"Target: the full benchmark of {sizes.sum():.0f} {what}{many}, of which {n.sum():.0f} are here ({how} at "
        f"random{within}). {variances} times {times}. {answers}"
    )

"""Finite benchmarks: Cochran's factor for samples of rows, of clusters and within strata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, StrataWeightsName, TargetName, listed
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
from evalreg.estimate import Cells, Estimate, Family, Population, Samples, same_questions
from evalreg.numerics.matrices import Matrix, compressed, dense
from evalreg.scores.paired_means import paired_answers
from evalreg.scores.strata import SampledShares

if TYPE_CHECKING:
    from evalreg.data.clusters import Groups
    from evalreg.results.results import Results


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

    def samples(self, size: FloatArray) -> Samples | None:
        """The samples, of strata that have so many units (n_parts,); None where columns do not differ in them."""
        if self.members is None or self.of is None:
            return None
        return Samples(self.members, self.of, self.part, size[self.part])

    def whole(self, estimate: Estimate, size: FloatArray) -> list[str]:
        """Parameters of models that were asked all of their populations, which have so many units (n_parts,)."""
        left = compressed(abs(compressed(estimate.coefficient_map))) @ (self.n < size[self.part]).astype(float)
        return [name for name, some in zip(estimate.names, left, strict=True) if some == 0]

    def here(self, apiece: str) -> str:
        """How many of the units are here, and of each model where that is not the same."""
        low, high = np.min(self.n), np.max(self.n)
        some = f"{low:.0f} to {high:.0f} of each {apiece}"
        total = f"{self.of_all.sum():.0f} are here"
        if self.of_all.size > 1 or low == high:
            return total
        return f"{total}, {some}" if self.known else f"{some} are here"

    def in_common(self, unit: str, size: FloatArray) -> str:
        """What is said of the covariances of models with different samples; empty where there are none."""
        if self.members is None:
            return ""
        if not self.known:
            return (
                f" Which {unit} models have in common is not known (name the questions in `item`), so that covariances "
                "are taken as they are without any, and the error bar of a difference is its widest."
            )
        assert self.of is not None
        together = (self.members.T @ self.members).toarray()[np.ix_(self.of, self.of)]
        few = (self.part[:, None] == self.part) & (together < np.outer(self.n, self.n) / size[self.part])
        none = (
            " Of two with none in common, or fewer than by chance, it is not known and may be as small as none or as "
            "large as can be: the widest error bar is taken."
            if np.any(few)
            else ""
        )
        return f" Covariances count the {unit} in common.{none}"


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
        if np.array_equal(n, most[part]) and most.sum() == _n_distinct(estimate, by):
            return UnitsDrawn(n, part, most)
        found = clusters_drawn(estimate, by, part)
        if np.array_equal(found.n, n):
            return found
    ends = np.concatenate([[0.0], np.cumsum(n)]).astype(np.intp)
    of_unit = np.repeat(np.arange(n.size), n.astype(np.intp))
    members = sparse.csr_array((np.ones(ends[-1]), of_unit, np.arange(ends[-1] + 1)), (ends[-1], n.size))
    return UnitsDrawn(n, part, most, members, np.arange(n.size), known=False)


def _n_distinct(estimate: Estimate, by: Axis) -> int:
    return estimate.scores.n_distinct(by)


def clusters_drawn(estimate: Estimate, by: Axis, part: IntArray) -> UnitsDrawn:
    """Clusters behind each column."""
    members, of = estimate.scores.samples(by)
    n = np.asarray(members.sum(axis=0), dtype=np.float64).ravel()[of]
    of_part = sparse.csr_array((np.ones(of.size), (of, part)), (members.shape[1], int(part.max()) + 1))
    inside = compressed(members @ of_part)
    of_all = np.bincount(inside.indices[inside.data > 0], minlength=inside.shape[1]).astype(float)
    alike = np.array_equal(n, of_all[part])
    return UnitsDrawn(n, part, of_all) if alike else UnitsDrawn(n, part, of_all, members, of)


def counts_clusters(n_population: PopulationSize | None, groups: Groups) -> bool:
    """Whether the sizes are those of the clusters: {"passage": {"law": 40, ...}}, or {"passage": 896} in all."""
    if not isinstance(n_population, Mapping):
        return False
    if any(isinstance(size, Mapping) for size in n_population.values()):
        return True
    (name, *others) = n_population or ("",)
    named = groups in (name, [name]) if isinstance(groups, str | list) else getattr(groups, "name", None) == name
    return not others and (named or (isinstance(groups, dict) and list(groups) == [name]))


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


def with_clusters_in_strata(
    estimate: Estimate,
    axes: tuple[Axis, ...] | None,
    n_population: PopulationSize,
    shares: StrataWeightsName | Mapping[str, float],
    drawn: SampleFacts,
) -> Estimate:
    """The estimate of clusters drawn whole, so many of those of each stratum of the benchmark.

    With shares of the strata that are not stated, a cluster of stratum s stands for N_s/G_s of them, which makes the
    mean a ratio of two estimated totals: Cochran (1977), section 6.12 (combined ratio), 9.10 and 5.6; survey's
    `svymean` with `fpc`. With stated ones each stratum has a ratio of its own (section 6.10).
    """
    cells = estimate.cells
    assert isinstance(n_population, Mapping)
    assert cells is not None
    assert cells.stratum is not None
    if len(n_population) != 1:
        raise ArgumentError(f"`n_population` names one clustering; got {dict(n_population)!r}.")
    (name, given), *_ = n_population.items()
    axis = find_axis(name, axes or ())
    unit = axis_name(axis)
    _refuse_spanning(estimate, axis, _within_strata(_clusters_of_cells(estimate, axis), cells))
    own = clusters_drawn(estimate, axis, cells.stratum)
    n = own.of_all
    sizes = _sizes(cells.strata, n, given, shares, unit)
    short = [f"{s} ({has:.0f} of {size:g})" for s, has, size in zip(cells.strata, n, sizes, strict=True) if size < has]
    whole = own.whole(estimate, sizes) if drawn.noise is None else []
    if short or whole:
        raise ArgumentError(
            f"`n_population` must not be below the sample in any stratum, and above it in one; "
            f"{f'{unit} clusters of {listed(short)}' if short else whole_words(estimate, whole)}. Of a sample that is "
            "all of it the score is known, and has no error bar for questions."
        )
    factor = 1.0 - own.n / sizes[cells.stratum]
    if shares in ("micro", "as_sampled"):
        plain = estimate.scores
        estimate = estimated_shares(estimate, sizes[cells.stratum] / own.n * cells.weight)
        # Differences of models on the same questions are those of the rows only where all rows count alike.
        if estimate.family.paired is not None:
            item = axis if drawn.item is None else (drawn.item,)
            answers = paired_answers(replace(estimate, scores=plain), item)
            estimate = replace(estimate, family=same_questions(answers))
    line = (
        f"Target: the full benchmark of {sizes.sum():g} {unit} clusters in {n.size} strata, of which "
        f"{own.here(drawn.apiece)} (whole clusters drawn at random within strata). {factor_words(drawn)} times "
        f"{factor.min():.3f} to {factor.max():.3f}, by stratum. {answer_words(drawn)}"
        f"{own.in_common(f'{unit} clusters', sizes)}"
    )
    return populated(estimate, np.sqrt(factor), drawn.noise, (unit,), line, own.samples(sizes))


def _clusters_of_cells(estimate: Estimate, axis: Axis) -> sparse.csr_array:
    """Whether a cluster has rows in a cell, shape (n_clusters, n_cells)."""
    return sparse.csr_array(sparse.vstack([compressed(block.gram) > 0 for block in estimate.scores.cells(axis)]))


def _within_strata(member: Matrix, cells: Cells) -> sparse.csr_array:
    """Whether a cluster has rows in a stratum, shape (n_clusters, n_strata)."""
    assert cells.stratum is not None
    of = sparse.coo_array((np.ones(cells.stratum.size), (np.arange(cells.stratum.size), cells.stratum)))
    return sparse.csr_array((member.astype(float) @ of.tocsr()) > 0)


def _refuse_spanning(estimate: Estimate, axis: Axis, within: Matrix) -> None:
    """Clusters that were drawn within strata lie in one of them."""
    spans: BoolArray = np.asarray(within.sum(axis=1)).ravel() > 1
    if not spans.any():
        return
    first, name = estimate.scores.label(axis, int(np.argmax(spans))), axis_name(axis)
    raise AlignmentError(
        f"clusters drawn whole within strata lie in one stratum each; {np.count_nonzero(spans)} of {spans.size} "
        f"{name} clusters ({first!r}) have rows in several. Where ids are used again in another stratum, a joint id "
        f'tells them apart, as groups="subject:{name}".',
        column=name,
        count=int(np.count_nonzero(spans)),
    )


def _sizes(
    strata: tuple[str, ...],
    n: FloatArray,
    given: int | Mapping[str, int],
    shares: StrataWeightsName | Mapping[str, float],
    unit: str,
) -> FloatArray:
    """Clusters of each stratum of the benchmark."""
    if isinstance(given, Mapping):
        named = {str(name): size for name, size in given.items()}
        if set(named) != set(strata) or not all(map(is_count, named.values())):
            raise ArgumentError(
                f"`n_population` must name each stratum once, with the number of its {unit} clusters; the strata are "
                f"{listed(strata)}; got {dict(given)!r}."
            )
        return np.array([float(named[name]) for name in strata])
    if not is_count(given) or isinstance(shares, Mapping) or shares == "macro":
        raise ArgumentError(
            f"`n_population` must say how many {unit} clusters each stratum has, as "
            f'{{"{unit}": {{"{strata[0]}": 40, ...}}}}; one whole number is enough where they were drawn in the '
            f"proportions of the benchmark and no shares are stated; got {given!r}."
        )
    return np.asarray(given * n / n.sum())


PopulationSize: TypeAlias = int | Mapping[str, int] | Mapping[str, Mapping[str, int]]
FULL: TargetName = "the full benchmark"
THESE: TargetName = "these questions"
# Strata of models differ in their shares where more than one question and this share of all are out of place.
ROUNDING_SHARE = 0.01


def check_target(target: TargetName, n_population: PopulationSize | None, refused: Mapping[str, str]) -> None:
    """Refuse what does not go together; `refused` has the other arguments that are given, and why they do not fit."""
    if (target == FULL) != (n_population is not None):
        raise ArgumentError(
            f'target="{FULL}" and `n_population` go together: the number of its questions, or of whole clusters as '
            f'{{"passage": 896}}; got target="{target}" and n_population={n_population!r}.'
        )
    if target == FULL and refused:
        raise NotAvailableError(f'target="{FULL}" is not defined with {" ".join(refused.values())}')


def refuse_beside_answers(item: str | None, sample: str | None, **others: object) -> None:
    """Only the answers vary: they must be named, and clusters, strata and weights have no place."""
    if item is None or sample is None:
        raise ArgumentError(
            f'target="{THESE}" needs `item`, the column of the questions, and `sample`, that of the answers to each.'
        )
    given = [f"`{name}`" for name, value in others.items() if value is not None]
    if given:
        raise _no_place(given)


def _no_place(given: list[str]) -> ArgumentError:
    """What is wrong with arguments beside fixed questions."""
    return ArgumentError(
        f'target="{THESE}" holds the questions fixed, so that {" and ".join(given)} cannot matter. Leave out '
        f"{'it' if len(given) == 1 else 'them'}."
    )


class OfAnswers(Family):
    """Estimates of fixed questions, of which only the answers vary."""

    not_clustered = str(_no_place(["`groups`"]))

    def transform(self) -> Family:
        """A function of them is about the same questions."""
        return self


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
    return replace(found, estimate=replace(found.estimate, about=about, family=OfAnswers()), notes=notes)


@dataclass(frozen=True)
class SampleFacts:
    """What is said of a sample from a benchmark: its columns, and what its parameters are of."""

    item: str | None
    sample: str | None = None
    strata: str | None = None
    apiece: str = "model"
    # Covariance of the totals of the columns that the answers alone make, (n_columns, n_columns).
    noise: Matrix | None = None


def with_population(
    estimate: Estimate, axes: tuple[Axis, ...] | None, n_population: PopulationSize, drawn: SampleFacts
) -> Estimate:
    """The estimate of a sample from so many questions, or from so many clusters that were drawn whole."""
    part = np.zeros(estimate.scores.n_columns, dtype=np.intp)
    if isinstance(n_population, Mapping):
        if len(n_population) != 1:
            raise ArgumentError(
                f"`n_population` names one clustering, or with `strata` each of them; got {dict(n_population)!r}."
            )
        (name, size), *_ = n_population.items()
        if isinstance(size, Mapping):
            raise ArgumentError(
                f"`n_population` has sizes by stratum ({listed(list(map(str, size)))}); name the column in `strata`."
            )
        axis = find_axis(name, axes or ())
        own, what, unit = clusters_drawn(estimate, axis, part), f"{name} clusters", axis_name(axis)
    else:
        size, unit, what = n_population, "", "questions"
        own = questions_drawn(estimate, axes, drawn.item, part)
    if not is_count(size) or size < own.of_all[0] or size <= np.max(own.n):
        known = own.whole(estimate, np.array([float(size)])) if is_count(size) and size == own.of_all[0] else []
        leave = f" Leave out {listed(known)}." if 0 < len(known) < estimate.n_params else ""
        raise ArgumentError(
            f"`n_population` must be a whole number above the sample, which has {own.of_all[0]:.0f} {what}; got "
            f"{size!r}. Of a sample that is all of it the score is known, and has no error bar for questions.{leave}"
        )
    factor = 1.0 - own.n / float(size)
    how = "whole clusters drawn" if unit else "questions drawn one by one"
    line = (
        f"Target: the full benchmark of {size} {what}, of which {own.here(drawn.apiece)} ({how} at random). "
        f"{factor_words(drawn)} times {_range(factor, f', by {drawn.apiece}')}. {answer_words(drawn)}"
        f"{own.in_common(what, np.array([float(size)]))}"
    )
    if not unit and axes and axis_name(axes[0]) != (drawn.item or ""):
        line += (
            " For questions drawn one by one the clusters of the benchmark do not matter, and the interval is longer "
            "than need be; leave `groups` out."
        )
    samples = own.samples(np.array([float(size)]))
    return populated(estimate, np.sqrt(factor), drawn.noise, (unit,) if unit else (), line, samples)


def with_strata(
    estimate: Estimate,
    axes: tuple[Axis, ...] | None,
    n_population: PopulationSize,
    shares: StrataWeightsName | Mapping[str, float],
    drawn: SampleFacts,
) -> Estimate:
    """The estimate of questions that were drawn one by one within strata of known sizes; Cochran (1977), eq. 5.6."""
    if shares == "as_sampled":
        raise NotAvailableError(
            f'target="{FULL}" is not defined with strata_weights="as_sampled": the sizes of a finite benchmark are '
            'known. Give them as n_population={"algebra": 400, "law": 250} and leave `strata_weights` out.'
        )
    strata = () if estimate.cells is None else estimate.cells.strata
    if axes is not None and [axis_name(axis) for axis in axes] != [drawn.item]:
        raise NotAvailableError(
            f'target="{FULL}" with `strata` is defined for questions that were drawn one by one within them, where '
            f"clusters of questions do not matter. Leave `groups` out; or, of {axis_name(axes[0])} clusters drawn "
            f'whole, say how many each stratum has: n_population={{"{axis_name(axes[0])}": {{{listed(strata[:1])}: '
            "40, ...}}."
        )
    cells = estimate.cells
    assert cells is not None
    assert cells.stratum is not None
    own = questions_drawn(estimate, axes, drawn.item, cells.stratum)
    n = own.of_all
    if shares == "micro" and not isinstance(n_population, Mapping):
        _refuse_unlike(estimate, cells.strata, cells.stratum, own.n)
    sizes, total = _sizes_targets(cells.strata, n, n_population, shares)
    short = [
        f"{name} ({has:.0f} of {size:g})" for name, has, size in zip(cells.strata, n, sizes, strict=True) if size < has
    ]
    whole = own.whole(estimate, sizes) if drawn.noise is None else []
    if short or whole:
        raise ArgumentError(
            "`n_population` must not be below the sample in any stratum, and above it in one; "
            f"{listed(short) if short else whole_words(estimate, whole)}. Of a sample that is all of it the score is "
            "known, and has no error bar for questions."
        )
    factor = 1.0 - own.n / sizes[cells.stratum]
    line = (
        f"Target: the full benchmark of {total:g} questions in {n.size} strata, of which {own.here(drawn.apiece)} "
        f"(questions drawn one by one at random within strata). {factor_words(drawn)} times "
        f"{factor.min():.3f} to {factor.max():.3f}, by stratum. {answer_words(drawn)}"
        f"{own.in_common('questions', sizes)}"
    )
    return populated(estimate, np.sqrt(factor), drawn.noise, (), line, own.samples(sizes))


def _sizes_targets(
    strata: tuple[str, ...],
    n: FloatArray,
    n_population: PopulationSize,
    shares: StrataWeightsName | Mapping[str, float],
) -> tuple[FloatArray, float]:
    """Questions of each stratum of the benchmark, and of all."""
    if isinstance(n_population, Mapping):
        named = {str(name): size for name, size in n_population.items()}
        if set(named) != set(strata) or not all(map(is_count, named.values())):
            raise ArgumentError(
                f"`n_population` must name each stratum once, with the number of its questions; the strata are "
                f"{listed(strata)}; got {dict(n_population)!r}."
            )
        sizes = np.array([named[name] for name in strata], dtype=np.float64)
        return sizes, float(sizes.sum())
    if not is_count(n_population):
        raise ArgumentError(f"`n_population` must be a whole number or a size for each stratum; got {n_population!r}.")
    if isinstance(shares, Mapping):
        weight = np.array([float({str(k): v for k, v in shares.items()}[name]) for name in strata])
    elif shares == "micro":
        weight = n
    else:
        raise ArgumentError(
            f'one `n_population` does not say how large each stratum is, which strata_weights="{shares}" does not '
            f'either; give their sizes, as n_population={{"{strata[0]}": 400, ...}}.'
        )
    return n_population * weight / weight.sum(), float(n_population)


def _refuse_unlike(estimate: Estimate, strata: tuple[str, ...], stratum: IntArray, n: FloatArray) -> None:
    """Refuse one number where models have strata in unlike proportions, which cannot all be those of the benchmark."""
    found = np.zeros((estimate.n_params, len(strata)))
    model, cell = compressed(estimate.coefficient_map).nonzero()
    found[model, stratum[cell]] = n[cell]
    of_model = found.sum(axis=1, keepdims=True)
    away = np.abs(found - of_model * found.sum(axis=0) / found.sum())
    worst, where = np.unravel_index(int(np.argmax(away - ROUNDING_SHARE * of_model)), away.shape)
    if away[worst, where] <= 1.0 + ROUNDING_SHARE * of_model[worst, 0]:
        return
    share, every = found[worst, where] / of_model[worst, 0], found[:, where].sum() / found.sum()
    raise ArgumentError(
        "one `n_population` takes the strata to be here in the proportions of the benchmark, but models differ in "
        f"these: {strata[where]!r} is {share:.1%} of the questions of {estimate.names[worst]!r} and {every:.1%} of all "
        f'together. Give the questions of each stratum in the benchmark, as n_population={{"{strata[0]}": 400, ...}}.'
    )


def whole_words(estimate: Estimate, whole: list[str]) -> str:
    """Whose sample is all of the benchmark."""
    return "this sample is all of it" if len(whole) == estimate.n_params else f"that of {listed(whole)} is all of it"


def factor_words(drawn: SampleFacts) -> str:
    """Of what the variances are multiplied."""
    return (
        "Variances are those of questions like these"
        if drawn.sample is None
        else "The variance between questions counts"
    )


def answer_words(drawn: SampleFacts) -> str:
    """Whether the answers are a draw as well."""
    if drawn.sample is None:
        return "The answers are taken as they came: what sampling them anew would change is not in it."
    return f"The noise of the answers ({drawn.sample}) is in it whole, as new answers to every question would have it."


def populated(
    estimate: Estimate,
    scale: FloatArray,
    noise: Matrix | None,
    axes: tuple[str, ...],
    line: str,
    samples: Samples | None,
) -> Estimate:
    """The estimate with its population, the answers' part being n/N of their noise."""
    if noise is not None and samples is not None:
        noise = samples.answered(noise)
    elif noise is not None:
        rest = sparse.diags_array(np.sqrt(1.0 - scale**2))
        noise = compressed(rest @ compressed(noise) @ rest)
    about = replace(estimate.about, lines=(*estimate.about.lines, line))
    return replace(estimate, about=about, population=Population(scale, noise, axes, samples))


def _range(factor: FloatArray, what: str) -> str:
    """A number, or the smallest and the largest."""
    low, high = float(np.min(factor)), float(np.max(factor))
    return f"{low:.3f}" if low == high else f"{low:.3f} to {high:.3f}{what}"


def is_count(value: object) -> bool:
    """Whether it is a whole number."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)

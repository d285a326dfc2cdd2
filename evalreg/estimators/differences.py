"""Estimates of differences between models, paired and not."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.answers import Answers, answers_of
from evalreg.data.cells import CellRows
from evalreg.data.clusters import Axis
from evalreg.data.groups import Groups
from evalreg.data.model_pairs import NOBODY, ModelPairs, compared_pairs, in_use, overlap_of
from evalreg.data.rows import Roles
from evalreg.data.spelling import spelled_alike
from evalreg.estimate import PLAIN, About, Cells, Estimate, Refit, same_questions
from evalreg.estimators.cells import estimate_read
from evalreg.estimators.mean import solve as solve_means
from evalreg.estimators.pair_facts import HeldFacts, facts_of
from evalreg.numerics.matrices import Matrix, scale_columns, transposed
from evalreg.scores.differences import PairScores, pair_sums
from evalreg.scores.sums import CellSums

# A range of differences below this fraction of the largest score is rounding.
ROUNDING = 1e-13


Made: TypeAlias = tuple[Estimate, tuple[Axis, ...] | None]
"""Differences, and the clusterings asked for."""


@dataclass(frozen=True, eq=False)
class HeldCompared:
    """Answers of models in memory, and the pairs of these that are compared."""

    read: CellRows
    # The questions that some difference is over.
    answers: Answers
    facts: HeldFacts
    # The pairs over all questions that were read.
    pairs: ModelPairs
    paired: bool

    @property
    def absent(self) -> tuple[str, ...]:
        """Models of which every row was dropped."""
        return self.answers.absent

    @property
    def samples(self) -> tuple[int, int] | None:
        """Fewest and most answers of a model to a question, where they were averaged."""
        return self.answers.samples

    @property
    def unit(self) -> bool:
        """Whether all scores lie in [0, 1]."""
        return bool(np.min(self.answers.values) >= 0 and np.max(self.answers.values) <= 1)

    @property
    def spellings(self) -> list[tuple[str, str]]:
        """Ids of questions that differ by blanks or case alone."""
        item = self.read.item
        return [] if item is None or item.labels is None else spelled_alike(item.labels)

    @property
    def ranges(self) -> tuple[tuple[str, ...], FloatArray, FloatArray]:
        """The models, and the smallest and the largest score of each."""
        values, present = self.answers.values, self.answers.present
        low = np.min(values, axis=1, where=present, initial=np.inf)
        return self.answers.models, low, np.max(values, axis=1, where=present, initial=-np.inf)

    def estimate(self, roles: Roles, groups: Groups, about: About, icc: float | None) -> Made:
        """The differences."""
        if self.paired:
            return paired_estimate(self.answers, self.facts, about, icc), self.answers.axes
        return unpaired_estimate(self.read, roles, self.facts, about)


def compared_in_memory(read: CellRows, roles: Roles, baseline: str | None, paired: bool) -> HeldCompared:
    """Pairs of models from their answers, each over the questions that both answered."""
    answers = answers_of(read, roles)
    pairs = compared_pairs(answers, roles.by[0], baseline, paired=paired)
    overlap = overlap_of(answers, pairs, paired)
    answers, own = in_use(answers, pairs, overlap.paired) if paired else (answers, pairs)
    return HeldCompared(read, answers, facts_of(answers, own, overlap), pairs, paired)


def paired_estimate(answers: Answers, facts: HeldFacts, about: About, icc: float | None) -> Estimate:
    """Differences over shared questions; of models that share none, two means in columns of their own."""
    columns, coefficients, stratum = _columns(answers, facts)
    sums, flat = _sums(answers, columns)
    mean = np.where(flat, sums.low, sums.total / sums.weight)
    estimate = Estimate(
        names=facts.names,
        params=np.asarray(coefficients @ mean),
        scores=PairScores(answers.values, columns, mean, answers.labels, flat),
        bread=transposed(scale_columns(coefficients, 1.0 / sums.weight)),
        kind="mean",
        coefficient_map=coefficients,
        refit=Refit(1.0 / sums.weight),
        cells=Cells(
            count=sums.count,
            weight=sums.weight,
            mean=mean,
            squares=sums.squares,
            low=sums.low,
            high=sums.high,
            stratum=stratum,
            strata=() if answers.stratum is None else tuple(str(name) for name in answers.stratum.labels),
        ),
        dropped=answers.dropped,
        about=about,
    )
    return replace(estimate, family=same_questions(facts.family(estimate, icc)))


def _sums(answers: Answers, columns: ModelPairs) -> tuple[CellSums, BoolArray]:
    """Sums of the differences, and whether they are all alike but for rounding."""
    sums = pair_sums(answers.values, columns)
    largest = np.abs(answers.values).max(axis=1)
    scale = np.maximum(largest[columns.left], np.where(columns.right == NOBODY, 0.0, largest[columns.right]))
    flat = sums.high - sums.low <= ROUNDING * scale
    high = np.where(flat, sums.low, sums.high)
    return replace(sums, squares=np.where(flat, 0.0, sums.squares), high=high), flat


def _columns(answers: Answers, facts: HeldFacts) -> tuple[ModelPairs, Matrix, IntArray | None]:
    """Columns of the scores, the differences as a linear function of their means, and the stratum of each column."""
    pairs, stratum = facts.pairs, answers.stratum
    if facts.paired.all() and stratum is None:
        return pairs, sparse.eye_array(pairs.n_columns, format="csr"), None
    number: dict[tuple[int, int, int], int] = {}
    sets: dict[tuple[int, int], tuple[int, BoolArray]] = {}
    entries: list[tuple[int, int, float]] = []
    every = np.ones(answers.values.shape[1], dtype=bool)
    for p, (left, right, of_set) in enumerate(zip(pairs.left, pairs.right, pairs.of_set, strict=True)):
        shared = pairs.sets[of_set]
        sides = [(left, right, of_set, every if shared is None else shared, 1.0)]
        if not facts.paired[p]:
            alone = ((left, 1.0), (right, -1.0))
            sides = [(one, NOBODY, NOBODY - 1 - one, answers.present[one], sign) for one, sign in alone]
        for first, second, name, member, sign in sides:
            counts = [member.sum()] if stratum is None else np.bincount(stratum.codes[member], minlength=1)
            for s in np.flatnonzero(counts):
                # The strata weigh as many questions as they have among those of the pair.
                inside = member if stratum is None else member & (stratum.codes == s)
                place = sets.setdefault((int(name), int(s)), (len(sets), inside))[0]
                column = number.setdefault((int(first), int(second), place), len(number))
                entries.append((p, column, sign * float(counts[s]) / float(member.sum())))
    firsts, seconds, places = np.array(list(number), dtype=np.intp).T
    members = tuple(None if member.all() else member for _, member in sets.values())
    row, col, weight = (np.array(part) for part in zip(*entries, strict=True))
    coefficients = sparse.csr_array((weight, (row, col)), shape=(pairs.n_columns, len(number)))
    of_stratum = np.array([s for _, s in sets], dtype=np.intp)[places]
    return ModelPairs(firsts, seconds, places, members), coefficients, None if stratum is None else of_stratum


def unpaired_estimate(read: CellRows, roles: Roles, facts: HeldFacts, about: About) -> Made:
    """Differences of the models' own means; clusters of two models are different clusters."""
    weights: Any = None if roles.strata is None else "micro"
    estimate, axes = estimate_read(
        read, roles, lambda keys, sums: solve_means(keys, sums, n_by=1, strata_weights=weights), about
    )
    return of_means(estimate, axes, roles, facts.names, (facts.pairs.left, facts.pairs.right))


def of_means(
    estimate: Estimate,
    axes: tuple[Axis, ...] | None,
    roles: Roles,
    names: tuple[str, ...],
    sides: tuple[IntArray, IntArray],
) -> Made:
    """The same from the means of the models, `sides` being those of each pair."""
    contrasts = np.zeros((len(names), estimate.n_params))
    for side, sign in zip(sides, (1.0, -1.0), strict=True):
        contrasts[np.arange(len(names)), side] += sign
    own = None if axes is None else tuple((*axis, *roles.by) if roles.by[0] not in axis else axis for axis in axes)
    # Clusters of two models are different ones: nothing is paired.
    made = replace(estimate.linear(contrasts, names), about=estimate.about, family=PLAIN, apart=roles.by)
    return made, own

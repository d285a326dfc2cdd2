"""Differences between models whose answers stay in Spark: what leaves has a line for each pair of models."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, listed
from evalreg.data.answers import differing_text, refuse_single
from evalreg.data.clusters import Axis, union
from evalreg.data.engine import aggregated, as_pandas
from evalreg.data.engine_answers import ANSWERS, COPIES, UsedAnswers
from evalreg.data.engine_groups import grouped_sorted
from evalreg.data.engine_spark import keep_native
from evalreg.data.engine_spark_answers import (
    SparkAnswers,
    answer_lines,
    refuse_differing,
    refuse_several,
    stays_in_spark,
)
from evalreg.data.engine_spark_pairs import (
    DIFFERENCE,
    ONE,
    PAIR,
    PairColumns,
    PairEntries,
    QuestionCounts,
    Sums,
    lines_of,
    pair_sums,
    questions_of,
    used_questions,
)
from evalreg.data.groups import Groups, parse_groups
from evalreg.data.model_pairs import asked_pairs, by_rank
from evalreg.data.rows import Roles
from evalreg.errors import AlignmentError
from evalreg.estimate import About, Cells, Estimate, Refit, same_questions
from evalreg.estimators.cells import Solved, estimate_cells
from evalreg.estimators.differences import ROUNDING, Made, of_means
from evalreg.estimators.mean import solve as solve_means
from evalreg.estimators.pair_facts import Facts, Wins, correlations_of_sums, difference_names
from evalreg.inference.discordance import sign_test_of_sums, subsets_of_axes
from evalreg.numerics.matrices import Matrix, compressed, scale_columns, transposed
from evalreg.scores.base import Scores
from evalreg.scores.lazy_spark import SparkScores
from evalreg.scores.lazy_spark import stays_in_spark as cells_stay
from evalreg.scores.paired import Paired
from evalreg.scores.spark_differences import PairedInSpark, SparkDifferences
from evalreg.scores.sums import CellSums

# Means that differ by less are those of sums in another order.
TIE, DIGITS = 1e-12, 12


@dataclass(frozen=True, eq=False)
class SparkFacts(Facts):
    """What is known of pairs whose questions stay in Spark."""

    # Sums over the questions that both of a pair answered, as `pair_sums` has them.
    sums: Sums
    counts: QuestionCounts
    # Whether all scores lie in [0, 1].
    unit: bool

    @property
    def n_questions(self) -> int:
        """Questions in use, of all pairs."""
        return self.counts.n

    @property
    def _correlations(self) -> tuple[FloatArray, FloatArray]:
        largest = np.maximum(np.abs(self.sums["least"]), np.abs(self.sums["greatest"]))
        return correlations_of_sums(self.sums["n"], self.sums, largest)

    def others(self) -> tuple[int, float]:
        """Scores in use that are neither 0 nor 1: how many, and the largest of them."""
        return self.counts.n_other, self.counts.other

    def each_pair(self, scores: Scores, axes: tuple[Axis, ...]) -> Iterator[Wins]:
        """Wins and losses of the pairs that share questions, with the clusters in use."""
        assert isinstance(scores, SparkDifferences)
        terms = {dims: scores.of_pairs(union(*(axes[d] for d in dims))) for dims in subsets_of_axes(len(axes))}
        for column, pair in enumerate(np.flatnonzero(self.paired)):
            wins, losses, n, right = (float(self.sums[name][pair]) for name in ("wins", "losses", "n", "first"))
            squares = {dims: float(term.surplus[column]) for dims, term in terms.items()} or {(0,): wins + losses}
            fewest = min((float(terms[d,].n_clusters[column]) for d in range(len(axes))), default=n)
            test = sign_test_of_sums(wins - losses, squares, fewest)
            yield Wins(int(pair), int(wins), int(losses), int(n), right, test)

    def family(self, estimate: Estimate, icc: float | None) -> Paired | None:
        """What the differences allow for that was not seen."""
        scores, cells = estimate.scores, estimate.cells
        if icc is None or not self.unit or not isinstance(scores, SparkDifferences) or not self.paired.any():
            return None
        assert cells is not None
        if cells.stratum is None:
            both = np.arange(cells.count.size) < np.count_nonzero(self.paired)
            maps = compressed(estimate.coefficient_map)
            return PairedInSpark(scores, cells.mean, cells.weight, cells.squares, maps, icc, both)
        # Strata weigh as their questions, which leaves a difference the plain mean over its questions.
        which = np.flatnonzero(self.paired)
        own = {name: values[which] for name, values in self.sums.items()}
        chosen = sparse.csr_array((np.ones(which.size), (which, np.arange(which.size))), (len(self.names), which.size))
        both = np.ones(which.size, dtype=bool)
        return PairedInSpark(scores, own["d"] / own["n"], own["n"], own["squares"], chosen, icc, both)


@dataclass(frozen=True, eq=False)
class SparkCompared:
    """Answers of models in Spark, and the pairs of these that are compared."""

    used: UsedAnswers
    answers: SparkAnswers
    # A line for each question in use.
    questions: SparkAnswers
    facts: SparkFacts
    # Models of each pair, by number.
    sides: tuple[IntArray, IntArray]
    # Of the paired differences, then of models alone: what scores are made of, and its sums, by stratum.
    columns: PairColumns
    entries: PairEntries
    axes: tuple[Axis, ...]
    # Fewest and most answers of a model to a question, where they were averaged.
    samples: tuple[int, int] | None
    # The models, and the smallest and the largest score of each.
    ranges: tuple[tuple[str, ...], FloatArray, FloatArray]

    @property
    def spellings(self) -> list[tuple[str, str]]:
        """None: ids of questions do not leave Spark."""
        return []

    @property
    def absent(self) -> tuple[str, ...]:
        """Models of which every row was dropped."""
        return self.used.absent

    @property
    def unit(self) -> bool:
        """Whether all scores lie in [0, 1]."""
        return self.facts.unit

    def estimate(self, roles: Roles, groups: Groups, about: About, icc: float | None) -> Made:
        """Differences over shared questions; of models that share none, or on request, of their own means."""
        if self.columns.left.size == 0:
            return self._of_means(roles, groups, about)
        scores, coefficients, cells = self._scores(roles)
        estimate = Estimate(
            names=self.facts.names,
            params=np.asarray(coefficients @ cells.mean),
            scores=scores,
            bread=transposed(scale_columns(coefficients, 1.0 / cells.weight)),
            kind="mean",
            coefficient_map=coefficients,
            refit=Refit(1.0 / cells.weight),
            cells=cells,
            dropped=self.used.dropped,
            about=about,
        )
        return replace(estimate, family=same_questions(self.facts.family(estimate, icc))), self.axes

    def _of_means(self, roles: Roles, groups: Groups, about: About) -> Made:
        weights: Literal["micro"] | None = None if roles.strata is None else "micro"

        def solved(keys: list[tuple[str, ...]], sums: CellSums) -> Solved:
            return solve_means(keys, sums, n_by=1, strata_weights=weights)

        estimate, axes = estimate_cells(self.answers, replace(roles, sample=None), groups, solved, about)
        return of_means(replace(estimate, dropped=self.used.dropped), axes, roles, self.facts.names, self.sides)

    def _scores(self, roles: Roles) -> tuple[SparkDifferences, Matrix, Cells]:
        """Scores, the differences as a linear function of the means of cells, and these."""
        assert roles.item is not None
        entries, n_columns = self.entries, self.columns.left.size
        by_column = entries.by_pair(n_columns)
        n, low, high = (entries.sums[name] for name in ("n", "low", "high"))
        scale = np.maximum(np.abs(by_column["least"]), np.abs(by_column["greatest"]))[entries.pair]
        flat = high - low <= ROUNDING * scale
        mean = np.where(flat, low, entries.sums["d"] / n)
        strata = tuple(sorted(set(entries.stratum)))
        cells = Cells(
            count=n,
            weight=n,
            mean=mean,
            squares=np.where(flat, 0.0, entries.sums["squares"]),
            low=low,
            high=np.where(flat, low, high),
            stratum=np.array([strata.index(one) for one in entries.stratum]) if strata else None,
            strata=strata,
        )
        keys = zip(entries.pair.tolist(), *([entries.stratum] if strata else []), strict=True)
        codes = {tuple(map(str, key)): code for code, key in enumerate(keys)}
        jointly, n_used = union(*self.axes), float(self.facts.n_questions)
        of_questions = CellSums(*np.array([[n_used], [n_used], [n_used], [0.0], [1.0], [1.0]]))
        scores = SparkDifferences(
            lines_of(self.questions, self.columns),
            DIFFERENCE,
            (PAIR,) if roles.strata is None else (PAIR, roles.strata),
            codes,
            mean,
            CellSums(n, n, entries.sums["d"], cells.squares, low, high),
            jointly=jointly,
            questions=SparkScores(self.questions, ONE, (), {(): 0}, np.ones(1), of_questions, jointly=jointly),
            item=(roles.item,),
            by_pair=by_column,
            flat=flat,
        )
        # The strata weigh as many questions as they have among those of the pair.
        share = n / by_column["n"][entries.pair]
        maps = sparse.csr_array((share, (entries.pair, np.arange(n.size))), (n_columns, n.size))
        return scores, compressed(self._of_columns() @ maps), cells

    def _of_columns(self) -> Matrix:
        """The differences as a linear function of the columns: those that are paired come first."""
        paired, (left, right) = self.facts.paired, self.sides
        n_paired = int(np.count_nonzero(paired))
        alone = {model: n_paired + i for i, model in enumerate(self.columns.left[n_paired:].tolist())}
        entries = [(pair, column, 1.0) for column, pair in enumerate(np.flatnonzero(paired).tolist())]
        for pair in np.flatnonzero(~paired).tolist():
            entries += [(pair, alone[int(left[pair])], 1.0), (pair, alone[int(right[pair])], -1.0)]
        row, column, value = (np.array(part) for part in zip(*entries, strict=True))
        return sparse.csr_array((value, (row, column)), (paired.size, self.columns.left.size))


def compared_in_spark(
    used: UsedAnswers, roles: Roles, groups: Groups, baseline: str | None, paired: bool
) -> SparkCompared | None:
    """Pairs of models whose answers stay in Spark; None where lines come to the driver.

    These are few, or of very many pairs, or models and strata are neither text nor whole numbers.
    """
    assert roles.item is not None
    if not stays_in_spark(used):
        return None
    answers = answer_lines(used, roles)
    models, own = _by_model(answers, roles)
    order = sorted(range(len(models)), key=lambda i: (-round(float(own["mean"][i]), DIGITS), models[i]))
    left, right = asked_pairs(models, order, roles.by[0], baseline)
    if not cells_stay(used.engine, (*roles.by, *roles.cell_columns), used.n_rows, left.size):
        return None
    named = [(name,) for name in models]
    made = questions_of(answers.frame, named, roles.by, (roles.item,), answers.labels, roles.score)
    every = replace(answers, frame=nw.from_native(keep_native(made)), key=(roles.item,))
    nobody = len(models)
    means = np.append(own["mean"], 0.0)
    entries = pair_sums(every, _about(left, right, means), roles.strata)
    if not cells_stay(used.engine, (*roles.by, *roles.cell_columns), used.n_rows, entries.pair.size):
        return None
    if paired and baseline is None:
        sums = entries.by_pair(left.size)
        worse = sums["first"] - sums["second"] < -TIE * sums["n"]
        left, right, entries = np.where(worse, right, left), np.where(worse, left, right), entries.turned(worse)
        place = by_rank(left, right, order)
        left, right, entries = left[place], right[place], entries.numbered(np.argsort(place))
    sums = entries.by_pair(left.size)
    is_paired = (sums["n"] > 0) & paired
    alone = np.unique(np.append(left[~is_paired], right[~is_paired])) if paired else np.arange(nobody)
    used_ones, counts = used_questions(
        every.frame.to_native(), None if baseline is None else models.index(str(baseline)), alone.tolist()
    )
    if counts.n_mixed:
        _refuse_mixed(answers, roles, counts.n_mixed)
    place = np.where(is_paired, np.cumsum(is_paired) - 1, -1)
    entries, columns = entries.numbered(place), _about(left[is_paired], right[is_paired], means)
    if paired and alone.size:
        single = _about(alone, np.full(alone.size, nobody), means)
        entries = entries.beside(
            pair_sums(every, single, roles.strata).numbered(np.arange(alone.size)), columns.left.size
        )
        columns = columns.beside(single)
    by_column = entries.by_pair(columns.left.size)
    columns = replace(columns, about=by_column["d"] / by_column["n"])
    low, high = (by_column["least"], by_column["greatest"]) if paired else (own["low"], own["high"])
    either = own["n"][left] + own["n"][right]
    sides = tuple(models[i] for i in left), tuple(models[i] for i in right)
    facts = SparkFacts(
        sides=sides,
        names=difference_names(*sides),
        n=np.where(is_paired, sums["n"], either).astype(np.intp),
        n_unpaired=(either - 2 * sums["n"]).astype(np.intp),
        paired=is_paired,
        sums=sums,
        counts=counts,
        unit=bool(np.min(low) >= 0 and np.max(high) <= 1),
    )
    questions = replace(every, frame=nw.from_native(used_ones))
    samples = None if roles.sample is None else (int(own["fewest"].min()), int(own["most"].max()))
    axes = parse_groups(groups, answers.columns)
    ranges = tuple(models), own["low"], own["high"]
    return SparkCompared(used, answers, questions, facts, (left, right), columns, entries, axes, samples, ranges)


def _by_model(answers: SparkAnswers, roles: Roles) -> tuple[list[str], Sums]:
    """Models, sorted as text, and by name the mean, low and high of each, its questions and answers to one of them."""
    score, of_one = nw.col(roles.score), nw.col(ANSWERS)
    asked = {"n": nw.len(), "mean": score.mean(), "low": score.min(), "high": score.max()}
    asked |= {"copies": nw.col(COPIES).max(), "fewest": of_one.min(), "most": of_one.max()}
    keys, found = grouped_sorted(answers.frame, roles.by, asked)
    refuse_several(answers, roles, int(found["copies"].max()))
    models = [key[0] for key in keys]
    refuse_single(models, roles.by[0])
    return models, found


def _about(left: IntArray, right: IntArray, means: FloatArray) -> PairColumns:
    """Differences of models, about those of their means."""
    return PairColumns(left, right, means[left], means[right], means[left] - means[right])


def _refuse_mixed(answers: SparkAnswers, roles: Roles, n_mixed: int) -> None:
    """Raise for labels that differ between the answers of a model to a question, or else between those of models."""
    refuse_differing(answers.frame, answers.key, answers.labels)
    for name in answers.labels:
        lines = nw.from_native(keep_native(aggregated(answers.frame, (str(roles.item), name)).to_native()))
        several = aggregated(lines, (str(roles.item),), nw.len().alias("__several")).filter(nw.col("__several") > 1)
        some = as_pandas(several.sort(str(roles.item)).head(3))
        if len(some):
            where = f"within {n_mixed} of {roles.item!r}, such as {listed(map(str, some[roles.item]))}"
            raise AlignmentError(differing_text(name, str(roles.item), where), column=name, count=n_mixed)

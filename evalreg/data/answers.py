"""Scores by model and question: what differences between models are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, Names, listed, nearest_or_all, without_none
from evalreg.choices import MissingName
from evalreg.data.clusters import (
    Axes,
    Axis,
    Codes,
    Labels,
    as_text,
    axis_name,
    joint,
    or_one_model,
    refuse_same,
    restricted,
    with_roles,
)
from evalreg.data.engine_rows import EngineAnswers
from evalreg.data.frame import Table, UsedRows, codes_of_items, restrict
from evalreg.data.rows import CellRows, ReadRows, Roles, read_rows, refuse_repeats
from evalreg.errors import ArgumentTypeError, DataError, MissingColumnError


@dataclass(frozen=True, eq=False)
class Answers:
    """Scores by model and question.

    Parameters
    ----------
    models : tuple of str
        Sorted as text.
    values : ndarray, shape (n_models, n_questions)
        Scores, averaged over samples; 0 where there is none.
    present : ndarray of bool, shape (n_models, n_questions)
        Whether there is a score.
    labels : Labels
        Of the questions.
    stratum : Codes, optional
        Of the questions.
    axes : tuple of Axis
        Clusterings asked for.
    dropped : dict of str to int
        Rows dropped by reason.
    samples : (int, int), optional
        Fewest and most answers of a model to a question, where they were averaged.
    absent : tuple of str
        Models of which every row was dropped.
    """

    models: Names
    values: FloatArray
    present: BoolArray
    labels: Labels
    stratum: Codes | None
    axes: Axes
    dropped: dict[str, int]
    samples: tuple[int, int] | None = None
    absent: Names = ()

    @property
    def means(self) -> FloatArray:
        """Mean of each model over its own questions, shape (n_models,)."""
        return np.asarray(self.values.sum(axis=1) / self.present.sum(axis=1))

    @property
    def order(self) -> list[int]:
        """Models from the best mean down, ties by name."""
        means = self.means
        return sorted(range(len(self.models)), key=lambda i: (-means[i], self.models[i]))

    def only(self, used: BoolArray) -> Answers:
        """The answers to some of the questions, shape (n_questions,)."""
        held = {name: restricted(codes, used) for name, codes in self.labels.held.items()}
        return replace(
            self,
            values=self.values[:, used],
            present=self.present[:, used],
            labels=Labels(int(used.sum()), held, self.labels.source.only(used)),
            stratum=None if self.stratum is None else restricted(self.stratum, used),
        )


def answers_of(read: CellRows, roles: Roles) -> Answers:
    """Scores of at least two models by question, and the labels of the questions, which all answers must share."""
    assert roles.item is not None
    assert read.cell is not None
    models = tuple(dict.fromkeys(key[0] for key in read.keys))
    refuse_single(models, roles.by[0])
    rows, source = read.rows, read.rows.source
    model = np.array([models.index(key[0]) for key in read.keys])[read.cell]
    item = rows.used[roles.item]
    values = np.zeros((len(models), item.n_clusters))
    present = np.zeros(values.shape, dtype=bool)
    values[model, item.codes], present[model, item.codes] = read.values, True
    places = source.positions()
    row_codes = rows.labels(roles.item, roles.strata).held
    held = {name: codes_of_items(name, codes, item, places, roles.item) for name, codes in row_codes.items()}
    stratum = None if roles.strata is None else held[roles.strata]
    labels, table = Labels(item.n_clusters, held, UsedRows(source.table, source.keep, read.item)), source.table
    counts = None if source.item is None else source.item.counts
    if isinstance(table, EngineAnswers):
        absent, counts = table.absent, table.answers
    else:
        absent = _absent(source, roles.by[0])
    samples = None if roles.sample is None or counts is None else (int(np.min(counts)), int(np.max(counts)))
    return Answers(models, values, present, labels, stratum, rows.axes or (), rows.dropped, samples, absent)


def _absent(source: UsedRows, model: str) -> Names:
    """Models of which no row is in use, told by code: a number of single precision has more than one spelling."""
    codes, labels = source.table.labels(model, "model")
    gone = np.ones(len(labels), dtype=bool)
    gone[np.unique(restrict(codes, source.keep))] = False
    return tuple(sorted(as_text(labels)[gone]))


def refuse_single(models: Sequence[str], column: str, argument: str = "model") -> None:
    """Raise unless there are two models, or templates."""
    if len(models) < 2:
        raise DataError(
            f"`{argument}` must have at least two values; column {column!r} holds {listed(models)} only. Add the "
            "rows to compare it with, or name another column.",
            column=column,
            count=len(models),
        )


@dataclass(frozen=True, eq=False)
class AnswerTable:
    """Answers of models to questions, shape (n_models, n_questions) each; zero where there is none."""

    mean: FloatArray
    count: IntArray  # answers K
    squares: FloatArray  # of answers about their mean

    @classmethod
    def of(cls, cell: IntArray, shape: tuple[int, int], values: FloatArray) -> AnswerTable:
        """That of single answers, `cell` numbering models and questions along the rows of the table."""
        size = shape[0] * shape[1]
        count = np.bincount(cell, minlength=size)
        mean = np.bincount(cell, values, size) / np.maximum(count, 1)
        squares = np.bincount(cell, (values - mean[cell]) ** 2, size).astype(np.float64)
        return cls(mean.reshape(shape), count.reshape(shape), squares.reshape(shape))

    @property
    def sigma2(self) -> FloatArray:
        """Variance of one answer, with K - 1; NaN where K is 1, which does not tell it."""
        below = np.where(self.count == 1, np.nan, np.maximum(self.count - 1, 1))
        return self.squares / below

    @property
    def noise(self) -> FloatArray:
        """Variance of the mean of the answers to a question; NaN where there is one answer."""
        return self.sigma2 / np.maximum(self.count, 1)


def read_single_answers(
    table: Table, score: str, labels: dict[str, str | None], groups: Any, missing: MissingName
) -> tuple[ReadRows, Roles]:
    """Rows of single answers, and the roles of their columns, which are `labels` of "model", "item" and "sample".

    Undeclared repeats are refused.
    """
    axes = groups if isinstance(groups, list | tuple) else () if groups is None else (groups,)
    if not all(isinstance(axis, str) for axis in axes):
        raise ArgumentTypeError(
            f"`groups` must name columns here; got {type(groups).__name__}. Add the labels to the data."
        )
    joined, _ = with_roles(table, {"score": score}, **labels)
    columns = {name: argument for argument, name in labels.items() if name is not None}
    refuse_same(labels)
    by = without_none(labels["model"])
    with or_one_model(labels["model"]):
        rows = read_rows(joined, {"score": score}, labels=columns, groups=groups, missing=missing, split=by)
    roles = Roles(score, by, labels["item"], labels["sample"], has_by=False)
    refuse_repeats(joint([rows.used[name] for name in columns]), rows.values["score"], roles, rows.source)
    return rows, roles


def clusters_of_questions(rows: ReadRows, axis: Axis, item: str) -> Codes:
    """The cluster of each question, which is the same in all its rows."""
    of_rows = joint([rows.used[name] for name in axis])
    return codes_of_items(axis_name(axis), of_rows, rows.used[item], rows.source.positions(), item)


# In the place of a model that nobody is compared with.
NOBODY = -1


@dataclass(frozen=True, eq=False)
class ModelPairs:
    """Which differences are taken, each over which questions."""

    # Models of each column; `right` is -1 where the column is the mean of `left` alone.
    left: IntArray
    right: IntArray
    # The set of questions of each column.
    of_set: IntArray
    # Questions of each set, (n_questions,); None is all of them.
    sets: tuple[BoolArray | None, ...]

    @property
    def n_columns(self) -> int:
        """Number of differences."""
        return self.left.size


def in_set(values: FloatArray, member: BoolArray | None) -> FloatArray:
    """Return the questions of a set, of values by model and question."""
    return values if member is None else values[:, member]


def compared_pairs(answers: Answers, model: str, baseline: str | None, *, paired: bool) -> ModelPairs:
    """The pairs of models with their shared questions, the better model on these first, or against the baseline."""
    names, ranked = answers.models, np.array(answers.order)
    if baseline is not None and str(baseline) not in names:
        hint = nearest_or_all(baseline, names, "model")
        raise MissingColumnError(
            f'`baseline` must be a model in column {model!r}; "{baseline}" is not.{hint}', column=model
        )
    if baseline is None:
        left, right = (ranked[place] for place in np.triu_indices(ranked.size, 1))
    else:
        against = names.index(str(baseline))
        left, right = ranked[ranked != against], np.full(ranked.size - 1, against)
    sets, of_set = _shared(answers.present, left, right)
    if not paired or baseline is not None:
        return ModelPairs(left, right, of_set, sets)
    totals = np.array([in_set(answers.values, member).sum(axis=1) for member in sets])
    worse = totals[of_set, left] < totals[of_set, right]
    left, right = np.where(worse, right, left), np.where(worse, left, right)
    rank = np.argsort(ranked)
    order = np.lexsort((rank[right], rank[left]))
    return ModelPairs(left[order], right[order], of_set[order], sets)


def in_use(answers: Answers, pairs: ModelPairs, is_paired: BoolArray) -> tuple[Answers, ModelPairs]:
    """Answers and pairs without the questions that no difference is over; the unpaired use all of both models."""
    apart = np.append(pairs.left[~is_paired], pairs.right[~is_paired])
    used = np.asarray(answers.present[apart].any(axis=0), dtype=bool)
    for member in pairs.sets:
        used = used | True if member is None else used | member
    if used.all():
        return answers, pairs
    sets = tuple(member if member is None else member[used] for member in pairs.sets)
    return answers.only(used), replace(pairs, sets=sets)


def _shared(present: BoolArray, left: IntArray, right: IntArray) -> tuple[tuple[BoolArray | None, ...], IntArray]:
    """Distinct sets of questions that both of a pair answered, and the set of each pair."""
    if present.all():
        return (None,), np.zeros(left.size, dtype=np.intp)
    kind, kinds = pd.factorize(np.array([row.tobytes() for row in np.packbits(present, axis=1)], dtype=object))
    n_kinds = len(kinds)
    low, high = np.minimum(kind[left], kind[right]), np.maximum(kind[left], kind[right])
    _, first, of_set = np.unique(low * n_kinds + high, return_index=True, return_inverse=True)
    members = [present[left[i]] & present[right[i]] for i in first]
    return tuple(None if member.all() else member for member in members), of_set.ravel()

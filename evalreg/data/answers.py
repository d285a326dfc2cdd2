"""Scores by model and question: what differences between models are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, MissingName, listed, nearest
from evalreg.data.clusters import (
    Axis,
    Codes,
    Labels,
    as_codes,
    as_text,
    axis_name,
    joint,
    or_one_model,
    parse_groups,
    restricted,
    with_joint_ids,
)
from evalreg.data.engine_rows import EngineAnswers
from evalreg.data.frame import Table, UsedRows, codes_of_items, open_frame, restrict
from evalreg.data.rows import CellRows, ReadRows, Roles, cells_of, read_rows, refuse_repeats
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    DataError,
    EmptyDataError,
    MissingColumnError,
    TooFewClustersError,
)


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

    models: tuple[str, ...]
    values: FloatArray
    present: BoolArray
    labels: Labels
    stratum: Codes | None
    axes: tuple[Axis, ...]
    dropped: dict[str, int]
    samples: tuple[int, int] | None = None
    absent: tuple[str, ...] = ()

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
        source = self.labels.source
        assert isinstance(source, UsedRows)
        assert source.item is not None
        kept = used[source.item.codes]
        keep = np.zeros(source.table.n_rows, dtype=bool)
        keep[replace(source, item=None).places()[kept]] = True
        item = as_codes(source.item.codes[kept], source.item.labels)
        held = {name: restricted(codes, used) for name, codes in self.labels.held.items()}
        return replace(
            self,
            values=self.values[:, used],
            present=self.present[:, used],
            labels=Labels(int(used.sum()), held, UsedRows(source.table, keep, item)),
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
    own = rows.labels(roles.item).held
    held = {name: codes_of_items(name, codes, item, places, roles.item) for name, codes in own.items()}
    stratum = None
    if roles.strata is not None:
        code = np.array([int(i) for i in pd.factorize(np.array([key[-1] for key in read.keys]), sort=True)[0]])
        names = sorted({key[-1] for key in read.keys})
        of_rows = Codes(code[read.cell], len(names), names)
        stratum = codes_of_items(roles.strata, of_rows, item, places, roles.item)
    samples = None
    of_engine = source.table if isinstance(source.table, EngineAnswers) else None
    counts = of_engine.answers if of_engine is not None else None if source.item is None else source.item.counts
    if roles.sample is not None and counts is not None:
        samples = int(np.min(counts)), int(np.max(counts))
    labels = Labels(item.n_clusters, held, UsedRows(source.table, source.keep, read.item))
    if of_engine is not None:
        absent = of_engine.absent
    else:
        absent = _absent(source, roles.by[0])
    return Answers(models, values, present, labels, stratum, rows.axes or (), rows.dropped, samples, absent)


def _absent(source: UsedRows, model: str) -> tuple[str, ...]:
    """Models of which no row is in use, told by code: a number of single precision has more than one spelling."""
    codes, labels = source.table.labels(model, "model")
    gone = np.ones(len(labels), dtype=bool)
    gone[np.unique(restrict(codes, source.keep))] = False
    return tuple(sorted(as_text(labels)[gone]))


def refuse_single(models: Sequence[str], column: str) -> None:
    """Raise unless there are two models."""
    if len(models) < 2:
        raise DataError(
            f"a comparison needs at least two models; column {column!r} holds {listed(models)} only. Name the "
            "column that tells the models apart in `model`.",
            column=column,
            count=len(models),
        )


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
        hint = nearest(baseline, names) or f" The models are {listed(names)}."
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


@dataclass(frozen=True, eq=False)
class PairedAnswers:
    """Answers of two models to the same questions, one row each."""

    score: FloatArray  # (n_rows,): scores without missing ones
    side: IntArray  # (n_rows,): 0 for model A, 1 for model B
    question: Codes  # of the rows
    sample: Codes
    cluster: Codes  # of the questions

    @property
    def cell(self) -> IntArray:
        """Model and question of each row: side * n_questions + question."""
        return np.asarray(self.side * self.question.n_clusters + self.question.codes, dtype=np.intp)

    @property
    def count(self) -> FloatArray:
        """Answers K of each model to each question, shape (2, n_questions)."""
        return np.bincount(self.cell, minlength=2 * self.question.n_clusters).astype(float).reshape(2, -1)


def read_paired_answers(
    data: Any,
    score: str,
    columns: tuple[str | None, str, str],
    groups: str | None,
    baseline: object,
    missing: MissingName,
) -> tuple[PairedAnswers, dict[str, Any]]:
    """The answers by the columns of model (None: there is one), item and sample; and what was left aside.

    Of two models those to questions that both answered. One stands beside as many answers of none that all score 0.
    """
    model, item, sample = columns
    table = open_frame(data)
    if not isinstance(table, Table):
        raise ArgumentError("`data` must be in memory for variance components: collect the frame first.")
    table = with_joint_ids(table, model=model, item=item, sample=sample)
    axis = _axis(groups, table.columns)
    labels = {name: role for role, name in zip(("model", "item", "sample"), columns, strict=True) if name is not None}
    if len(labels) < 3 - (model is None):
        raise ArgumentError(f"`model`, `item` and `sample` must be different columns; got {listed(columns)}.")
    if model is None and baseline is not None:
        raise ArgumentError(f"`baseline` names one of two models; got {baseline!r} with model=None. Leave it out.")
    roles = Roles(score, () if model is None else (model,), item, sample)
    with or_one_model(model):
        read = read_rows(table, {"score": score}, labels=labels, groups=groups, missing=missing, split=roles.by)
    models: tuple[str, ...] = ()
    used, side, n_left_out = read, np.zeros(read.n_rows, dtype=np.intp), 0
    if model is not None:
        models, side = _two_models(read, model, baseline)
        both, n_left_out = _both_answered(side, read.used[item], item, models)
        used, side = read.only(both), side[both]
    question, answer, values = used.used[item], used.used[sample], used.values["score"]
    if question.n_clusters < 2:
        raise DataError(f"variance over questions needs at least 2 questions; column {item!r} holds 1.", count=1)
    refuse_repeats(joint([Codes(side, 2), question, answer]), values, roles, used.source)
    cluster = Codes(np.arange(question.n_clusters), question.n_clusters)
    if axis is not None:
        codes = joint([used.used[name] for name in axis])
        cluster = codes_of_items(axis_name(axis), codes, question, used.source.positions(), item)
    if not models:
        question, answer = (replace(codes, codes=np.tile(codes.codes, 2)) for codes in (question, answer))
        values, side = np.concatenate([values, np.zeros(values.size)]), np.repeat([0, 1], values.size)
    answers = PairedAnswers(values, side, question, answer, cluster)
    _refuse_single(answers, models)
    if axis is not None and cluster.n_clusters < 2:
        raise TooFewClustersError(
            f'`groups="{axis_name(axis)}"` has 1 distinct value; at least 2 are needed. Use a finer column, or pass '
            "`groups=None` to treat questions as independent.",
            column=axis_name(axis),
            count=1,
        )
    return answers, {"models": models, "left_out": n_left_out, "dropped": read.dropped}


def _axis(groups: object, columns: tuple[str, ...]) -> Axis | None:
    """The columns whose joint values are the clusters."""
    if groups is None:
        return None
    if not isinstance(groups, str):
        raise ArgumentTypeError(
            f"`groups` must be the name of a column here; got {type(groups).__name__}. Add the labels to the data."
        )
    axes = parse_groups(groups, columns)
    if len(axes) > 1:
        raise ArgumentError(
            f"`groups` must name one clustering for variance components; got {listed(map(axis_name, axes))}. Appendix "
            'C has no crossed form: use the one that matters most, or a joint id such as "language:question".'
        )
    return axes[0]


def _two_models(rows: ReadRows, column: str, baseline: object) -> tuple[tuple[str, str], IntArray]:
    """Names of A and B, and the side of each row."""
    keys, cell = cells_of(rows.used, (column,))
    names = [name for (name,) in keys]
    if len(names) != 2:
        remedy = (
            f"Keep the rows of two of them, such as {listed(names[:2], joiner=' and ')}."
            if len(names) > 2
            else "Add the answers of a second model to the same questions, or pass model=None for its own components."
        )
        raise DataError(
            f"variance components of a difference need exactly 2 models; column {column!r} holds {len(names)} "
            f"({listed(names)}). {remedy}",
            column=column,
            count=len(names),
        )
    if baseline is not None and not isinstance(baseline, str):
        raise ArgumentTypeError(f"`baseline` must be the name of a model; got {type(baseline).__name__} {baseline!r}.")
    if baseline is not None and baseline not in names:
        raise MissingColumnError(
            f"`baseline` must be one of the two models, {listed(names, joiner=' and ')}; got {baseline!r}.",
            column=column,
        )
    a, b = names if baseline in (None, names[1]) else names[::-1]
    assert cell is not None
    return (a, b), cell if a == names[0] else 1 - cell


def _both_answered(side: IntArray, question: Codes, column: str, models: tuple[str, ...]) -> tuple[BoolArray, int]:
    """Rows of questions that both models answered, and the number of the other questions."""
    n = question.n_clusters
    answered = np.bincount(side * n + question.codes, minlength=2 * n).reshape(2, n) > 0
    both = answered[0] & answered[1]
    n_both = int(both.sum())
    if n_both < 2:
        counts = " and ".join(
            f"{name!r} answered {count}" for name, count in zip(models, answered.sum(axis=1), strict=True)
        )
        kind = DataError if n_both else EmptyDataError
        raise kind(
            f"at least 2 questions must have answers of both models; {n_both or 'none'} has ({counts}). A question "
            f"needs the same id in column {column!r} for both.",
            column=column,
            count=n_both,
        )
    return both[question.codes], n - n_both


def _refuse_single(answers: PairedAnswers, models: tuple[str, ...]) -> None:
    """Answer noise cannot be told from one answer."""
    single = answers.count[: max(len(models), 1)] < 2
    if not single.any():
        return
    side, question = (int(index[0]) for index in np.nonzero(single))
    first = f"{answers.question.label(question)!r}"
    each, units, scores = "each question", "questions", "the scores"
    if models:
        first = f"{models[side]!r}, {first}"
        each, units, scores = f"each model to {each}", "pairs of model and question", "the paired differences"
    raise DataError(
        f"variance components need at least 2 answers {'of ' if models else 'to '}{each}; {int(single.sum())} of "
        f"{single.size} {units} have 1 (the first: {first}). Sample them again or leave those questions out. With one "
        f"answer to every question, plan for k of 1 with the variance of {scores} as `omega2`, which holds the answer "
        "noise: neither part can be larger than it.",
        count=int(single.sum()),
    )

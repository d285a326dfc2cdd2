"""Repeated answers of two models to the same questions, or of one: what variance components are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray, MissingName, listed
from evalreg.data.clusters import Axis, Codes, axis_name, joint
from evalreg.data.frame import Table, or_one_model
from evalreg.data.groups import parse_groups, with_joint_ids
from evalreg.data.opening import open_frame
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.data.rows import ReadRows, read_rows
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    ArgumentTypeError,
    DataError,
    DuplicateRowsError,
    EmptyDataError,
    MissingColumnError,
    TooFewClustersError,
)


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
    """The answers by the columns of model (None: there is one), item and sample; and what was left aside."""
    model, item, sample = columns
    table = open_frame(data)
    if not isinstance(table, Table):
        raise ArgumentError("`data` must be in memory for variance components: collect the frame first.")
    table = with_joint_ids(table, model=model, item=item, sample=sample)
    axis = _axis(groups, table.columns)
    roles = tuple(name for name in (model, item, sample) if name is not None)
    if len(set(roles)) < len(roles):
        raise ArgumentError(
            f"`model`, `item` and `sample` must be different columns; got {listed((model, item, sample))}."
        )
    labels = {item: "item", sample: "sample"} | ({} if model is None else {model: "model"})
    split = () if model is None else (model,)
    with or_one_model(model):
        read = read_rows(table, {"score": score}, labels=labels, groups=groups, missing=missing, split=split)
    if model is None:
        answers, attrs = _answers_of_one(read, (item, sample), axis, baseline)
    else:
        answers, attrs = _answers(read, (model, item, sample), axis, baseline)
    _refuse_single(answers, attrs["models"])
    if axis is not None and answers.cluster.n_clusters < 2:
        raise TooFewClustersError(
            f'`groups="{axis_name(axis)}"` has 1 distinct value; at least 2 are needed. Use a finer column, or pass '
            "`groups=None` to treat questions as independent.",
            column=axis_name(axis),
            count=1,
        )
    return answers, attrs


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


def _answers(
    every: ReadRows, roles: tuple[str, str, str], axis: Axis | None, baseline: object
) -> tuple[PairedAnswers, dict[str, Any]]:
    """The answers to questions that both models answered, and what was left aside."""
    models, side = _two_models(every.used[roles[0]], roles[0], baseline)
    both, left_out = _shared(side, every.used[roles[1]], roles[1], models)
    used, side = every.only(both), side[both]
    values, rows = used.values["score"], used.source.positions()
    question, sample = used.used[roles[1]], used.used[roles[2]]
    _refuse_repeats(joint([Codes(side, 2), question, sample]), roles, rows)
    attrs = {"models": models, "left_out": left_out, "dropped": every.dropped}
    return PairedAnswers(values, side, question, sample, _clusters(used, question, axis)), attrs


def _answers_of_one(
    used: ReadRows, roles: tuple[str, str], axis: Axis | None, baseline: object
) -> tuple[PairedAnswers, dict[str, Any]]:
    """The answers of one model, beside as many answers of none that all score 0; and what was left aside."""
    if baseline is not None:
        raise ArgumentError(f"`baseline` names one of two models; got {baseline!r} with model=None. Leave it out.")
    question, sample, values = used.used[roles[0]], used.used[roles[1]], used.values["score"]
    if question.n_clusters < 2:
        raise DataError(f"variance over questions needs at least 2 questions; column {roles[0]!r} holds 1.", count=1)
    _refuse_repeats(joint([question, sample]), roles, used.source.positions())
    cluster = _clusters(used, question, axis)
    twice = [replace(codes, codes=np.tile(codes.codes, 2)) for codes in (question, sample)]
    scores, side = np.concatenate([values, np.zeros(values.size)]), np.repeat([0, 1], values.size)
    attrs = {"models": (), "left_out": 0, "dropped": used.dropped}
    return PairedAnswers(scores, side, twice[0], twice[1], cluster), attrs


def _clusters(used: ReadRows, question: Codes, axis: Axis | None) -> Codes:
    """Clusters of the questions; each its own without an axis."""
    if axis is None:
        return Codes(np.arange(question.n_clusters), question.n_clusters)
    return _of_questions(joint([used.used[name] for name in axis]), question, axis_name(axis), used.source.positions())


def _two_models(codes: Codes, column: str, baseline: object) -> tuple[tuple[str, str], IntArray]:
    """Names of A and B, and the side of each row."""
    names = sorted(codes.label(code) for code in range(codes.n_clusters))
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
    if names[0] == names[1]:
        raise DataError(
            f"labels must be distinct as text; both models of column {column!r} read {names[0]!r}. Convert the column "
            "to one type first.",
            column=column,
            count=2,
        )
    if baseline is not None and not isinstance(baseline, str):
        raise ArgumentTypeError(f"`baseline` must be the name of a model; got {type(baseline).__name__} {baseline!r}.")
    if baseline is not None and baseline not in names:
        raise MissingColumnError(
            f"`baseline` must be one of the two models, {listed(names, joiner=' and ')}; got {baseline!r}.",
            column=column,
        )
    a, b = names if baseline in (None, names[1]) else names[::-1]
    side = codes.codes if codes.label(0) == a else 1 - codes.codes
    return (a, b), np.asarray(side, dtype=np.intp)


def _shared(side: IntArray, question: Codes, column: str, models: tuple[str, str]) -> tuple[BoolArray, int]:
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


def _refuse_repeats(key: Codes, roles: tuple[str, ...], rows: IntArray) -> None:
    """Each answer of a model to a question has its own sample id."""
    if key.n_clusters == key.codes.size:
        return
    again = np.ones(key.codes.size, dtype=bool)
    again[key.first] = False
    count = int(again.sum())
    named = [int(row) for row in rows[np.flatnonzero(again)[:5]]]
    raise DuplicateRowsError(
        f"there must be one row for each {' and '.join(map(repr, roles))}; {count} row"
        f"{'s repeat' if count > 1 else ' repeats'} an earlier one ({rows_text(named, count)}). Remove the copies, or "
        "give each answer its own sample id.",
        column=roles[-1],
        rows=named,
        count=count,
    )


def _of_questions(codes: Codes, question: Codes, name: str, rows: IntArray) -> Codes:
    """Clusters of the questions, from those of their rows, which must agree."""
    by_question = codes.codes[question.first]
    differ = by_question[question.codes] != codes.codes
    if differ.any():
        where, count = row_list(differ)
        named = [int(row) for row in rows[where]]
        raise AlignmentError(
            f"`groups` must be the same in all answers to a question; {name!r} differs within a question in "
            f"{rows_text(named, count)}. Where ids of questions restart in each cluster, make them unique first; "
            "otherwise use a coarser cluster.",
            column=name,
            rows=named,
            count=count,
        )
    return Codes(by_question, codes.n_clusters)


def _refuse_single(answers: PairedAnswers, models: tuple[str, ...]) -> None:
    """Answer noise cannot be told from one answer."""
    single = answers.count[: max(len(models), 1)] < 2
    if not single.any():
        return
    if not models:
        count, first = int(single.sum()), int(np.flatnonzero(single[0])[0])
        raise DataError(
            f"variance components need at least 2 answers to each question; {count} of {single.size} questions have 1 "
            f"(the first: {answers.question.label(first)!r}). Sample them again or leave those questions out. With one "
            "answer to every question, plan for k of 1 with the variance of the scores as `omega2`, which holds the "
            "answer noise: neither part can be larger than it.",
            count=count,
        )
    count = int(single.sum())
    side, question = (int(index[0]) for index in np.nonzero(single))
    raise DataError(
        f"variance components need at least 2 answers of each model to each question; {count} of {single.size} pairs "
        f"of model and question have 1 (the first: {models[side]!r}, {answers.question.label(question)!r}). Sample "
        "them again or leave those questions out. With one answer to every question, plan for k of 1 with the variance "
        "of the paired differences as `omega2`, which holds the answer noise.",
        count=count,
    )

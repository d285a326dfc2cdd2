"""Scores by model and question: what differences between models are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, listed
from evalreg.data.cells import CellRows
from evalreg.data.clusters import Axis, Codes, as_codes
from evalreg.data.engine import as_text
from evalreg.data.engine_answers import EngineAnswers
from evalreg.data.frame import UsedRows, quoted_pair, restrict, spelled_alike
from evalreg.data.labels import Labels
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.data.rows import Roles
from evalreg.errors import AlignmentError, DataError


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
        held = {name: _restricted(codes, used) for name, codes in self.labels.held.items()}
        return replace(
            self,
            values=self.values[:, used],
            present=self.present[:, used],
            labels=Labels(int(used.sum()), held, UsedRows(source.table, keep, item)),
            stratum=None if self.stratum is None else _restricted(self.stratum, used),
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
    held = {name: _by_item(name, codes, item, roles.item) for name, codes in rows.labels(roles.item).held.items()}
    stratum = None
    if roles.strata is not None:
        code = np.array([int(i) for i in pd.factorize(np.array([key[-1] for key in read.keys]), sort=True)[0]])
        names = sorted({key[-1] for key in read.keys})
        stratum = _by_item(roles.strata, Codes(code[read.cell], len(names), names), item, roles.item)
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


def _by_item(name: str, codes: Codes, item: Codes, item_name: str) -> Codes:
    """Labels of the questions from those of the answers, which must agree."""
    by_item = codes.codes[item.first]
    differ = by_item[item.codes] != codes.codes
    if differ.any():
        rows, count = row_list(differ)
        text = differing_text(name, item_name, f"in {rows_text(rows, count)} of those in use")
        alike = [] if codes.labels is None else spelled_alike(codes.labels)
        if alike:
            text += f" First see to labels that differ by blanks or case alone, such as {quoted_pair(alike[0])}."
        raise AlignmentError(
            text,
            column=name,
            rows=rows,
            count=count,
        )
    return Codes(by_item, codes.n_clusters, codes.labels, codes.parts)


def differing_text(name: str, item: str, where: str) -> str:
    """What is wrong with labels that differ between the answers of models to one question."""
    return (
        f"a difference belongs to one question, so that {name!r} must be the same for all answers to one {item}; it "
        f"differs {where}. If ids of questions repeat between parts of the eval, join them, as in "
        f'item="{name}:{item}"; otherwise use a coarser cluster.'
    )


def _restricted(codes: Codes, used: BoolArray) -> Codes:
    return as_codes(codes.codes[used], codes.labels)

"""Scores by model and question: what differences between models are made of."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, listed, row_list, rows_text
from evalreg.covariance.groups import Groups
from evalreg.data.clusters import Axis, Codes, Labels, as_codes, used_codes
from evalreg.data.frame import Table, UsedRows, restrict
from evalreg.errors import AlignmentError, DataError
from evalreg.estimators.cells import Roles, gather
from evalreg.scores.differences import Pairs
from evalreg.scores.sums import CellScores


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


def gather_answers(table: Table, roles: Roles, groups: Groups) -> Answers:
    """Scores by model and question, and the labels of the questions.

    Parameters
    ----------
    table : Table
        The data.
    roles : Roles
        Which column is what; `by` is the column of the models.
    groups : str, list of str, array, Series, dict or None
        Clusters asked for.

    Returns
    -------
    Answers
        Of at least two models.

    Raises
    ------
    DataError
        If there is one model.
    AlignmentError
        If a cluster differs between the answers to one question.
    """
    keys, _, scores, axes, dropped, _ = gather(table, roles, groups)
    assert isinstance(scores, CellScores)
    assert isinstance(scores.labels.source, UsedRows)
    assert roles.item is not None
    models = tuple(dict.fromkeys(key[0] for key in keys))
    if len(models) < 2:
        raise DataError(
            f"a comparison needs at least two models; column {roles.by[0]!r} holds {listed(models)} only. Name the "
            "column that tells the models apart in `model`.",
            column=roles.by[0],
            count=len(models),
        )
    of_key = np.array([models.index(key[0]) for key in keys])
    model = of_key[scores.cell]
    item = scores.labels.held[roles.item]
    values = np.zeros((len(models), item.n_clusters))
    present = np.zeros(values.shape, dtype=bool)
    values[model, item.codes], present[model, item.codes] = scores.values, True
    held = {name: _by_item(name, codes, item, roles.item) for name, codes in scores.labels.held.items()}
    stratum = None
    if roles.strata is not None:
        code = np.array([int(i) for i in pd.factorize(np.array([key[-1] for key in keys]), sort=True)[0]])
        names = sorted({key[-1] for key in keys})
        stratum = _by_item(roles.strata, Codes(code[scores.cell], len(names), names), item, roles.item)
    source, samples = scores.labels.source, None
    if roles.sample is not None and source.item is not None:
        samples = int(np.min(source.item.counts)), int(np.max(source.item.counts))
    row_codes, row_labels = table.labels(roles.item, "item")
    rows = used_codes(roles.item, restrict(row_codes, source.keep), row_labels, every_row=source.keep is None)
    labels = Labels(item.n_clusters, held, UsedRows(table, source.keep, rows))
    absent = tuple(sorted({str(name) for name in table.labels(roles.by[0], "model")[1]} - set(models)))
    return Answers(models, values, present, labels, stratum, axes or (), dropped, samples, absent)


def _by_item(name: str, codes: Codes, item: Codes, item_name: str) -> Codes:
    """Labels of the questions from those of the answers, which must agree."""
    by_item = codes.codes[item.first]
    differ = by_item[item.codes] != codes.codes
    if differ.any():
        rows, count = row_list(differ)
        raise AlignmentError(
            f"a difference belongs to one question, so that {name!r} must be the same for all answers to one "
            f"{item_name}; it differs in {rows_text(rows, count)} of those in use. If ids of questions repeat between "
            f'parts of the eval, join them, as in item="{name}:{item_name}"; otherwise use a coarser cluster.',
            column=name,
            rows=rows,
            count=count,
        )
    return Codes(by_item, codes.n_clusters, codes.labels, codes.parts)


def in_use(answers: Answers, pairs: Pairs, is_paired: BoolArray) -> tuple[Answers, Pairs]:
    """Answers and pairs without the questions that no difference is over.

    Parameters
    ----------
    answers : Answers
        Of all questions.
    pairs : Pairs
        The two models of each pair, and the questions that they share.
    is_paired : ndarray of bool, shape (n_pairs,)
        Whether a pair shares any; the others use all questions of both models.

    Returns
    -------
    answers, pairs
        The same where every question is in use.
    """
    apart = np.append(pairs.left[~is_paired], pairs.right[~is_paired])
    used = np.asarray(answers.present[apart].any(axis=0), dtype=bool)
    for member in pairs.sets:
        used = used | True if member is None else used | member
    if used.all():
        return answers, pairs
    sets = tuple(member if member is None else member[used] for member in pairs.sets)
    labels = answers.labels
    source = labels.source
    assert isinstance(source, UsedRows)
    assert source.item is not None
    rows = np.arange(source.table.n_rows) if source.keep is None else np.flatnonzero(source.keep)
    kept = used[source.item.codes]
    keep = np.zeros(source.table.n_rows, dtype=bool)
    keep[rows[kept]] = True
    item = as_codes(source.item.codes[kept], source.item.labels)
    held = {name: _restricted(codes, used) for name, codes in labels.held.items()}
    smaller = replace(
        answers,
        values=answers.values[:, used],
        present=answers.present[:, used],
        labels=Labels(int(used.sum()), held, UsedRows(source.table, keep, item)),
        stratum=None if answers.stratum is None else _restricted(answers.stratum, used),
    )
    return smaller, replace(pairs, sets=sets)


def _restricted(codes: Codes, used: BoolArray) -> Codes:
    return as_codes(codes.codes[used], codes.labels)

"""From scores of answers to boards: who was better on which item, and abilities whatever the items (Rasch)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from evalreg.boards.board import Board
from evalreg.checks import IntArray, listed
from evalreg.choices import CovName, DofName, MissingName, RepairName, SscName
from evalreg.covariance.options import documented
from evalreg.data.clusters import Groups, joint_parts, names_of, parse_groups
from evalreg.data.rows import ReadRows
from evalreg.errors import AlignmentError, ArgumentError, DataError, DisconnectedError
from evalreg.estimators.cells import answers_of, refuse_values
from evalreg.estimators.ratings import bradley_terry
from evalreg.results.results import chooses_rows

# Columns of the frame of comparisons.
SIDES = ("left", "right", "score")


def wins(data: Any, score: str = "score", *, model: str = "model", item: str = "item") -> pd.DataFrame:
    """Comparisons of all pairs of models on the items that both answered, for `win_rate` and `bradley_terry`.

    `win_rate` of them, clustered by the item, is HELM's mean win rate; times the number of items and of other models it
    is Borda's count.

    Parameters
    ----------
    data : data frame
        In memory: pandas, polars, pyarrow; or a dict of arrays. One row for each answer.
    score : str
        Column of scores, of which more is better. Rows without one are left out.
    model, item : str
        Columns of the models and of the items; "task:question" joins two. One row for each model and item.

    Returns
    -------
    DataFrame
        One row for each item and pair of models: left, right, score (1 where left is better, 0.5 where they are equal,
        0), the item, and every further column that is the same in all answers to an item.

    Raises
    ------
    DuplicateRowsError
        If a model has several rows on an item.
    DataError
        If there is one model, or no item that two models answered.
    MissingColumnError, NonNumericError
        If a column is not there, or holds no numbers.

    References
    ----------
    Liang et al. (2023), Holistic Evaluation of Language Models, TMLR, section 6 (mean win rate).

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=20, seed=1)
    >>> pairs = er.wins(log, model="model", item="question")
    >>> pairs.columns.tolist()
    ['left', 'right', 'score', 'question', 'passage']
    >>> board = er.win_rate(pairs, left="left", right="right", score="score", groups="question")
    >>> board.params.round(3).to_dict()
    {'new': 0.525, 'old': 0.475}
    """
    return pairs_of(*answers_of(data, {"score": score}, {"model": model, "item": item}), item)


def pairs_of(rows: ReadRows, names: tuple[str, ...], cell: IntArray, item: str) -> pd.DataFrame:
    """The comparisons of all pairs of models on one item."""
    answer = np.full((rows.used[item].n_clusters, len(names)), np.nan)
    answer[rows.used[item].codes, cell] = rows.values["score"]
    first, second = np.triu_indices(len(names), 1)
    better = answer[:, first] - answer[:, second]
    place, pair = np.nonzero(~np.isnan(better))
    if not place.size:
        raise DataError(f"no {item!r} was answered by two models, so that there is nothing to compare.", column=item)
    label = np.asarray(names, dtype=object)
    sides = {"left": label[first[pair]], "right": label[second[pair]], "score": (np.sign(better[place, pair]) + 1) / 2}
    of_items = item_columns(rows, item)
    return pd.concat([pd.DataFrame(sides), of_items.iloc[place].reset_index(drop=True)], axis=1)


def item_columns(rows: ReadRows, item: str) -> pd.DataFrame:
    """The columns that are the same in all answers to an item, the item first; one row an item.

    Columns called as those of the comparisons are have no place beside these.
    """
    if {item, *joint_parts(item)} & set(SIDES):
        raise ArgumentError(f"`item` must not be one of {listed(SIDES)}, columns of the comparisons.", column=item)
    table, codes = rows.source.table, rows.used[item]
    first, alike = rows.source.places()[codes.first], [item] if item in table.columns else []
    for name in (name for name in table.columns if name not in (*SIDES, item)):
        try:
            labels = rows.restrict(table.labels(name, "item")[0])
        except (TypeError, ValueError):  # lists and the like are no labels
            continue
        if np.array_equal(labels, labels[codes.first][codes.codes]):
            alike.append(name)
    frame = table.to_pandas(alike, None).iloc[first].reset_index(drop=True)
    if item not in frame:  # a joint id
        frame.insert(0, item, [codes.label(code) for code in range(codes.n_clusters)])
    return frame


@chooses_rows
@documented
def ability(
    data: Any,
    score: str = "score",
    *,
    model: str = "model",
    item: str = "item",
    groups: Groups = None,
    subset: str | None = None,
    missing: MissingName = "drop",
    cov: CovName | None = None,
    ssc: SscName | None = None,
    dof: DofName | float | None = None,
    repair: RepairName | None = None,
) -> Board:
    """Rasch abilities of models, whose difficulties of items are conditioned out.

    logit P(model m solves item i) = theta_m - beta_i. Of two models of which one solved the item, it is a with
    probability 1/(1 + exp(theta_b - theta_a)), whatever beta_i: abilities are Bradley-Terry ratings on these pairs, so
    that models need not have answered the same items.

    Parameters
    ----------
    data : data frame
        In memory: pandas, polars, pyarrow; or a dict of arrays. One row for each answer.
    score : str
        Column of scores, 0 or 1.
    model, item : str
        Columns of the models and of the items; one row for each model and item.
    groups : str or list of str, optional
        Clusters: columns that are the same in all answers to an item. The items by default, since pairs of one item
        share answers.
    subset : str, optional
        Which rows to use, in the language of ``--where``; frames in memory only.
    missing : {"drop", "raise"}, optional
        What to do with rows where something is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default.
    <ssc>
    <dof>
        Degrees of freedom, as in `bradley_terry`.
    <repair>

    Returns
    -------
    Board
        Results: abilities in logits that sum to zero. `nobs` counts the pairs that an item separates.

    Raises
    ------
    ScoreRangeError
        If a score is neither 0 nor 1.
    DisconnectedError
        If a model meets no other in such a pair, or is right, or wrong, in all of its pairs.
    AlignmentError
        If a column of `groups` differs within an item.
    DuplicateRowsError, DataError, MissingColumnError
        If the data break another rule.

    References
    ----------
    Rasch (1960), Probabilistic Models for Some Intelligence and Attainment Tests; Zwinderman (1995), Applied
    Psychological Measurement 19, 369-375 (pairwise conditional estimation).

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=40, seed=1)
    >>> er.ability(log, item="question", groups="passage").params.round(3).to_dict()
    {'new': 0.161, 'old': -0.161}
    """
    rows, names, cell = answers_of(data, {"score": score}, {"model": model, "item": item}, missing)
    values, rule = rows.values["score"], "`score` must be 0 or 1 for abilities"
    refuse_values(~np.isin(values, (0.0, 1.0)), values, score, rule, "Compare it with a threshold first.")
    pairs, clusters = pairs_of(rows, names, cell, item), item if groups is None else groups
    for name in (name for axis in parse_groups(clusters, names_of(rows.source.table)) for name in axis):
        if name not in pairs:
            text = f"pairs of answers to an item have one cluster; {name!r} differs within items. Use a coarser column."
            raise AlignmentError(text, column=name)
    separated = pairs[pairs["score"] != 0.5]
    lone = [name for name in names if not (separated[["left", "right"]] == name).to_numpy().any()]
    if lone:
        text = f"a model needs items that it solved and another did not, or the reverse; {listed(lone)} has none."
        raise DisconnectedError(f"{text} Leave it out, or add items.", column=model, count=len(lone))
    options: dict[str, Any] = {"cov": cov, "ssc": ssc, "dof": dof, "repair": repair, "missing": missing}
    board = bradley_terry(separated, left="left", right="right", score="score", groups=clusters, **options)
    said = f"{len(separated)} of {len(pairs)} pairs of answers to one item differ; the others say nothing."
    lines = ("Abilities in logits; they sum to zero. Difficulties of items are conditioned out.", said)
    about = replace(board.estimate.about, model="Rasch", outcome=score, lines=lines)
    return replace(board, estimate=replace(board.estimate, about=about, dropped=board.estimate.dropped | rows.dropped))

"""From scores of answers to comparisons of models: who was better on which item."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import IntArray, MissingName, listed
from evalreg.data.cells import cells_of
from evalreg.data.frame import Table
from evalreg.data.groups import Groups
from evalreg.data.joint_ids import joint_parts, with_roles
from evalreg.data.names import refuse_same
from evalreg.data.opening import open_frame
from evalreg.data.repeats import Told, one_row_an_item
from evalreg.data.rows import ReadRows, read_rows
from evalreg.errors import ArgumentError, DataError
from evalreg.estimators.linearized import in_memory

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
    return pairs_of(*answers_of(data, {"score": score}, model, item), item)


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


def answers_of(
    data: Any,
    numbers: dict[str, str],
    model: str,
    item: str,
    missing: MissingName = "drop",
    groups: Groups = None,
    argument: str = "model",
) -> tuple[ReadRows, tuple[str, ...], IntArray]:
    """Rows in use, one for each model and item; the names of at least two models, and the model of each row."""
    roles = {argument: model, "item": item}
    table, _ = with_roles(in_memory(open_frame(data), "comparison of answers"), numbers, **roles)
    refuse_same(roles)
    labels = {name: role for role, name in roles.items()}
    rows = read_rows(table, numbers, labels=labels, groups=groups, missing=missing, split=(model, item))
    keys, cell = cells_of(rows.used, (model,))
    if len(keys) < 2 or cell is None:
        raise DataError(
            f"`{argument}` must have at least two values; column {model!r} holds {listed(keys[0])} alone.",
            column=model,
            count=1,
        )
    told = Told((model, item), None, next(iter(numbers.values())), "")
    one_row_an_item(ReadRows({"score": np.zeros(rows.n_rows)}, None, rows.used, (), rows.source, None, {}), told, None)
    return rows, tuple(key[0] for key in keys), cell


def item_columns(rows: ReadRows, item: str) -> pd.DataFrame:
    """The columns that are the same in all answers to an item, the item first; one row an item.

    Columns called as those of the comparisons are have no place beside these.
    """
    if {item, *joint_parts(item)} & set(SIDES):
        raise ArgumentError(
            f"`item` must not be called {listed(SIDES)}, as columns of the comparisons are.", column=item
        )
    table, codes = rows.source.table, rows.used[item]
    first = rows.source.places()[codes.first]
    named = [name for name in table.columns if name not in SIDES]
    alike = [name for name in named if name == item or _is_alike(rows, name, codes.codes, codes.first)]
    frame = table.to_pandas(sorted(alike, key=lambda name: name != item), None).iloc[first].reset_index(drop=True)
    if item not in frame:  # a joint id
        frame.insert(0, item, [codes.label(code) for code in range(codes.n_clusters)])
    return frame


def _is_alike(rows: ReadRows, name: str, item: IntArray, first: IntArray) -> bool:
    """Whether a column has one value, or none, in all rows of each item."""
    table: Table = rows.source.table
    try:
        codes = rows.restrict(table.labels(name, "item")[0])
    except (TypeError, ValueError):  # lists and the like are no labels
        return False
    return bool(np.array_equal(codes, codes[first][item]))

"""Abilities of models on items of unlike difficulty: Rasch's model, from the pairs of models that an item separates."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from evalreg.boards.board import Board
from evalreg.checks import MISSING, CovName, DofName, MissingName, RepairName, SscName, listed, option
from evalreg.covariance.options import documented
from evalreg.data.groups import Groups, parse_groups
from evalreg.errors import AlignmentError, DisconnectedError
from evalreg.estimators.bradley_terry import bradley_terry
from evalreg.estimators.functions_of_means import refuse_values
from evalreg.estimators.subsets import chooses_rows
from evalreg.estimators.wins import answers_of, pairs_of


@chooses_rows()
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
    option("missing", missing, MISSING)
    rows, names, cell = answers_of(data, {"score": score}, model, item, missing)
    values, rule = rows.values["score"], "`score` must be 0 or 1 for abilities"
    refuse_values(~np.isin(values, (0.0, 1.0)), values, score, rule, "Compare it with a threshold first.")
    pairs = pairs_of(rows, names, cell, item)
    for axis in () if groups is None else parse_groups(groups, rows.source.table.columns):
        for name in axis:
            if name not in pairs:
                raise AlignmentError(
                    f"pairs of answers to one item have one cluster, so {name!r} must be the same in all answers to an "
                    "item; it differs. Use a coarser column, or leave `groups` out for items as clusters.",
                    column=name,
                )
    separated = pairs[pairs["score"] != 0.5]
    lone = [name for name in names if not (separated[["left", "right"]] == name).to_numpy().any()]
    if lone:
        raise DisconnectedError(
            f"a model needs items that it solved and another did not, or the reverse; {listed(lone)} has none, so that "
            "it has no ability. Leave it out, or add items.",
            column=model,
            count=len(lone),
        )
    options: dict[str, Any] = {"cov": cov, "ssc": ssc, "dof": dof, "repair": repair, "missing": missing}
    board = bradley_terry(
        separated, left="left", right="right", score="score", groups=item if groups is None else groups, **options
    )
    lines = (
        "Abilities in logits; they sum to zero. Difficulties of items are conditioned out.",
        f"{len(separated)} of {len(pairs)} pairs of answers to one item differ; the others say nothing.",
    )
    about = replace(board.estimate.about, model="Rasch", outcome=score, lines=lines)
    dropped = board.estimate.dropped | rows.dropped
    return replace(board, estimate=replace(board.estimate, about=about, dropped=dropped))

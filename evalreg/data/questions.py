"""Which questions each model answered, and the rows of those that all answered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, IntArray, Names, listed
from evalreg.data.clusters import Codes
from evalreg.errors import DataError
from evalreg.numerics.matrices import compressed, transposed, with_entries

# Models named in advice that needs every one of them.
MOST_ADVISED = 20


@dataclass(frozen=True, eq=False)
class Answered:
    """Which questions each model answered."""

    names: Names  # models
    indicator: Any  # (n_items, n_models): one where the model answered
    family: IntArray  # (n_models,): models that are tied by shared questions have the same number
    n_items: IntArray  # (n_models,): questions that the models of its family answered

    @cached_property
    def count(self) -> IntArray:
        """Questions of each model, shape (n_models,)."""
        return np.bincount(self.indicator.indices, minlength=len(self.names))

    @property
    def lacking(self) -> IntArray:
        """Questions of its family that each model did not answer, shape (n_models,)."""
        return self.n_items - self.count

    @property
    def n_shared(self) -> int:
        """Questions that all models answered."""
        return int(np.sum(np.diff(self.indicator.indptr) == len(self.names)))


def answered(indicator: Any, names: Names) -> Answered:
    """Questions of each model, and which models share any.

    Models that no chain of shared questions ties together are families of their own, which lack nothing of each
    other's: means by subject have different questions by design. Shapes: indicator (n_items, n_models).
    """
    indicator = compressed(indicator)
    indicator = with_entries(indicator, np.ones(indicator.nnz))
    family = np.zeros(len(names), dtype=np.intp)
    # One question that all models answered ties them all.
    if not np.any(np.diff(indicator.indptr) == len(names)):
        from scipy.sparse.csgraph import connected_components

        family = connected_components(indicator.T @ indicator, directed=False)[1].astype(np.intp)
    # A question belongs to the family of any model that answered it.
    of_item = family[indicator.indices[indicator.indptr[:-1]]]
    return Answered(names, indicator, family, np.bincount(of_item, minlength=int(family.max()) + 1)[family])


def without_worst(answers: Answered) -> tuple[list[str], int] | None:
    """Models to leave out, until half of the questions are shared, and the questions that all others answered.

    Those that cost most shared questions go first; None where leaving out half, or all but two, does not help.
    """
    by_model, keep = transposed(answers.indicator), np.ones(len(answers.names), dtype=bool)
    held = answers.indicator.sum(axis=1)
    order = np.argsort(answers.count, kind="stable")
    left: list[str] = []
    n_models = len(answers.names)
    for worst in order[: min(n_models // 2, n_models - 2)]:
        held[by_model.indices[by_model.indptr[worst] : by_model.indptr[worst + 1]]] -= 1
        keep[worst] = False
        left.append(answers.names[worst])
        shared = int(np.sum(held == keep.sum()))
        if 2 * shared >= int(np.sum(held > 0)):
            return left, shared
    return None


def shared_rows(models: Codes, names: Names, items: Codes, item: str, over: bool = False) -> tuple[BoolArray, str]:
    """Rows of the questions that all models answered, shape (n_rows,), and what to say about them; some there must be.

    `items` are codes of the questions, in column `item`; `over` says that the models are templates.
    """
    where, n_items = (items.codes, models.codes), items.n_clusters
    indicator = sparse.coo_array((np.ones(items.codes.size), where), shape=(n_items, models.n_clusters)).tocsr()
    answers = answered(indicator, names)
    count, n_shared = answers.count, answers.n_shared
    option, who = ("`over`", "templates have") if over else ('`questions="shared"`', "models answered")
    if n_shared == 0:
        first = without_worst(answers)
        have = listed(f"{names[i]} ({count[i]})" for i in np.argsort(count, kind="stable")[:3])
        do = f"Leave out {quoted(first[0])}: the others share {first[1]}." if first else "Choose fewer of them."
        raise DataError(
            f"{option} keeps the questions that all {len(names)} {who}, and of {n_items} "
            f"there is none; fewest were answered by {have}. {do}",
            column=item,
            count=n_items,
        )
    line = f"Questions: the {n_shared} of {n_items} that all {len(names)} {who}"
    # A question that all answered ties them all, so that each lacks what it did not answer.
    if np.min(count) < n_items:
        worst = int(np.argmin(count))
        line += f"; {names[worst]} lacks {n_items - count[worst]} of the {n_items}"
    if 2 * n_shared < n_items and (first := without_worst(answers)) is not None:
        line += f". Without {quoted(first[0])} it would be {first[1]}"
    shared = np.diff(answers.indicator.indptr) == len(names)
    return np.asarray(shared[items.codes], dtype=bool), f"{line}."


def quoted(names: list[str]) -> str:
    """All names, where advice needs every one of them; the first few of very many."""
    return ", ".join(f'"{name}"' for name in names) if len(names) <= MOST_ADVISED else listed(names)

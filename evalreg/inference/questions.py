"""Which questions each model answered: how many, which it lacks, and those that all models answered."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, listed
from evalreg.data.clusters import Axis, Codes, as_codes
from evalreg.errors import DataError, Note, UnequalQuestionsWarning
from evalreg.estimate import Estimate
from evalreg.scores.lazy import LazyScores
from evalreg.scores.sums import Matrix, compressed

# Models named in a message.
MOST_NAMED = 3
MOST_ADVISED = 20


def rows_behind(estimate: Estimate) -> FloatArray | None:
    """Rows that each estimate is made of: those of its cells, or all rows of a regression.

    None where the parameters are not a map of the cells (ratings). Shapes: returns (n_params,).

    >>> import evalreg as er
    >>> log = er.datasets.paired(n_passages=20, seed=1)
    >>> rows_behind(er.mean(log, by="model", item="question").estimate).tolist()
    [100.0, 100.0]
    """
    cells, A = estimate.cells, estimate.coefficient_map
    if cells is None:
        return None if estimate.kind == "board" else np.full(estimate.n_params, float(estimate.n_rows))
    if A is None or A.shape[1] != cells.count.size:
        return None
    return np.asarray(_touches(A) @ cells.count, dtype=np.float64)


def _touches(A: Matrix) -> Matrix:
    """One where a parameter is made of a cell, shape (n_params, n_cells)."""
    rows = compressed(A)
    return sparse.csr_array(((rows.data != 0).astype(np.float64), rows.indices, rows.indptr), rows.shape)


class Counted:
    """Results that know how many rows are behind each parameter."""

    estimate: Estimate

    @property
    def _counts(self) -> FloatArray | None:
        """Rows behind each parameter; None where that is not known."""
        return rows_behind(self.estimate)


@dataclass(frozen=True, eq=False)
class Answered:
    """Which questions each model answered."""

    names: tuple[str, ...]  # models
    indicator: Matrix  # (n_items, n_models): one where the model answered
    family: IntArray  # (n_models,): models that are tied by shared questions have the same number
    n_items: IntArray  # (n_models,): questions that the models of its family answered

    @property
    def count(self) -> IntArray:
        """Questions of each model, shape (n_models,)."""
        return np.asarray(self.indicator.sum(axis=0), dtype=np.intp).ravel()

    @property
    def lacking(self) -> IntArray:
        """Questions of its family that each model did not answer, shape (n_models,)."""
        return self.n_items - self.count

    @property
    def n_shared(self) -> int:
        """Questions that all models answered."""
        return int(np.sum(np.diff(self.indicator.indptr) == len(self.names)))


def answered(indicator: Matrix, names: tuple[str, ...]) -> Answered:
    """Questions of each model, and which models share any.

    Models that no chain of shared questions ties together are families of their own, which lack nothing of each
    other's: means by subject have different questions by design. Shapes: indicator (n_items, n_models).
    """
    from scipy.sparse.csgraph import connected_components

    indicator = compressed(indicator)
    indicator = sparse.csr_array((np.ones(indicator.nnz), indicator.indices, indicator.indptr), indicator.shape)
    family = connected_components(indicator.T @ indicator, directed=False)[1].astype(np.intp)
    # A question belongs to the family of any model that answered it.
    of_item = family[indicator.indices[indicator.indptr[:-1]]]
    return Answered(names, indicator, family, np.bincount(of_item, minlength=int(family.max()) + 1)[family])


def unequal_notes(estimate: Estimate, item: str | None, axes: tuple[Axis, ...] | None) -> tuple[Note, ...]:
    """Warn of models whose means are over different questions, and name the one that lacks most.

    Empty where all models answered the same questions, or none shares any with another.
    """
    by = (item,) if item is not None else _questions_axis(estimate, axes)
    if by is None or estimate.n_params < 2 or estimate.coefficient_map is None:
        return ()
    if isinstance(estimate.scores, LazyScores) and not estimate.scores.is_known(by):
        return _lazy_notes(estimate, estimate.scores, by[0])
    blocks = list(estimate.scores.cells(by))
    weight = sparse.vstack([compressed(block.gram) for block in blocks]).tocsr()
    if item is None and weight.nnz and weight.data.max() > 1:
        return ()
    member = compressed(_touches(estimate.coefficient_map).T)
    found = answered(weight @ member, estimate.names)
    if not found.lacking.any():
        return ()
    totals = sparse.vstack([compressed(block.totals) for block in blocks]).tocsr()
    assert estimate.cells is not None
    totals = totals + weight @ sparse.diags_array(estimate.cells.mean).tocsr()
    text = unequal_text(found, _shift(found, totals @ member, weight @ member))
    if item is None:
        text += f" (Questions are the {':'.join(by)} clusters here; name them in `item`.)"
    return ((UnequalQuestionsWarning, text),)


def _lazy_notes(estimate: Estimate, scores: LazyScores, item: str) -> tuple[Note, ...]:
    """The same of rows in an engine, from counts of questions alone: no question leaves it."""
    counts, n_items = rows_behind(estimate), scores.n_distinct(item)
    # Where all questions of a model were answered by equally many models, none of its family lacks any.
    if counts is None or counts.min() == n_items or not scores.shares_unequally(item):
        return ()
    worst = int(np.argmin(counts))
    text = (
        f"models answered different questions: {estimate.names[worst]} has {counts[worst]:.0f} of {n_items}. Means "
        "over different questions do not rank models. Keep the questions that all answered in the engine, or collect "
        'the frame for questions="shared" or `compare`, which takes each pair over the questions that both answered.'
    )
    return ((UnequalQuestionsWarning, text),)


def _questions_axis(estimate: Estimate, axes: tuple[Axis, ...] | None) -> Axis | None:
    """The finest clustering, which may be that of the questions."""
    return max(axes, key=estimate.scores.n_clusters) if axes else None


def _shift(found: Answered, totals: Matrix, weight: Matrix) -> float:
    """By how much the other models score higher on the questions that the worst one answered than on all of theirs."""
    worst = int(np.argmax(found.lacking))
    has = np.asarray(found.indicator[:, [worst]].todense()).ravel() > 0
    others = (found.family == found.family[worst]) & (np.arange(found.count.size) != worst)
    on_its = np.asarray(has @ weight).ravel()
    others &= on_its > 0
    if not others.any():
        return float("nan")
    mean = np.asarray(totals.sum(axis=0)).ravel() / np.asarray(weight.sum(axis=0)).ravel()
    return float(np.mean((np.asarray(has @ totals).ravel()[others] / on_its[others]) - mean[others]))


def unequal_text(found: Answered, shift: float) -> str:
    """What is said of models that answered different questions.

    `shift`: what the other models score on the questions of the worst one, over what they score on all; NaN for
    unknown.
    """
    lacking, count = found.lacking, found.count
    worst = int(np.argmax(lacking))
    rest = int(np.count_nonzero(lacking)) - 1
    more = f" ({rest} other{'s lack' if rest > 1 else ' lacks'} some too)" if rest else ""
    harder = "higher" if shift > 0 else "lower"
    effect = (
        f" On the {count[worst]} that it answered the others score {abs(shift):.3g} {harder} than on all of theirs."
        if np.isfinite(shift) and shift != 0
        else ""
    )
    shared = found.n_shared
    first = without_worst(found)
    if 2 * shared >= int(found.indicator.shape[0]) or not first:
        remedy = f'Use questions="shared" for the {shared} that all {count.size} answered'
    else:
        named, left = first
        kept = f"only {shared} questions were" if shared else "no question was"
        remedy = (
            f"{kept} answered by all {count.size}: leave out {_quoted(named)} and use "
            f'questions="shared" for the {left} that the others all answered'
        )
    if shared == 0 and not first:
        remedy = "No question was answered by all of them: compare in pairs"
        return (
            f"{_who(found, worst)}{more}.{effect} Its mean and rank are over other questions. {remedy}, by `compare`."
        )
    remedy = remedy[0].upper() + remedy[1:]
    return (
        f"{_who(found, worst)}{more}.{effect} Means over different questions do not rank models. {remedy}, or "
        "`compare`, which takes each pair over the questions that both answered."
    )


def _quoted(names: list[str]) -> str:
    """All names, where advice needs every one of them; the first few of very many."""
    return ", ".join(f'"{name}"' for name in names) if len(names) <= MOST_ADVISED else listed(names)


def _who(found: Answered, worst: int) -> str:
    return (
        f"models answered different questions: {found.names[worst]} lacks {found.lacking[worst]} of "
        f"{found.n_items[worst]}"
    )


def without_worst(found: Answered) -> tuple[list[str], int] | None:
    """Models to leave out, those that cost most shared questions first, until half of the questions are shared.

    Questions that all others answered; None in place of both where leaving out half does not help.
    """
    by_model, keep = compressed(found.indicator.T), np.ones(len(found.names), dtype=bool)
    held = np.asarray(found.indicator.sum(axis=1)).ravel()
    order = np.argsort(found.count, kind="stable")
    left: list[str] = []
    for worst in order[: min(len(found.names) // 2, len(found.names) - 2)]:
        held[by_model.indices[by_model.indptr[worst] : by_model.indptr[worst + 1]]] -= 1
        keep[worst] = False
        left.append(found.names[worst])
        shared = int(np.sum(held == keep.sum()))
        if 2 * shared >= int(np.sum(held > 0)):
            return left, shared
    return None


def shared_rows(models: Codes, names: tuple[str, ...], items: Codes, item: str) -> tuple[BoolArray, str]:
    """Rows of the questions that all models answered, and what to say of them. Shapes: returns rows (n_rows,)."""
    where = (items.codes, models.codes)
    shape = (items.n_clusters, models.n_clusters)
    indicator = sparse.coo_array((np.ones(items.codes.size), where), shape=shape).tocsr()
    found = answered(indicator, names)
    shared = np.diff(found.indicator.indptr) == models.n_clusters
    n_shared, n_items = int(shared.sum()), items.n_clusters
    if n_shared == 0:
        first = without_worst(found)
        fewest = np.argsort(found.count, kind="stable")[:MOST_NAMED]
        have = listed(f"{names[i]} ({found.count[i]})" for i in fewest)
        what = f"Leave out {_quoted(first[0])}: the others share {first[1]}." if first else "Choose fewer models."
        raise DataError(
            f'`questions="shared"` keeps the questions that all {models.n_clusters} models answered, and of {n_items} '
            f"there is none; fewest were answered by {have}. {what}",
            column=item,
            count=n_items,
        )
    line = f"Questions: the {n_shared} of {n_items} that all {models.n_clusters} models answered"
    if found.lacking.any():
        worst = int(np.argmax(n_items - found.count))
        line += f"; {names[worst]} lacks {n_items - found.count[worst]} of the {n_items}"
    if 2 * n_shared < n_items and (first := without_worst(found)) is not None:
        line += f". Without {_quoted(first[0])} it would be {first[1]}"
    return np.asarray(shared[items.codes], dtype=bool), f"{line}."


def restricted(codes: Codes, rows: BoolArray) -> Codes:
    """Labels of some of the rows, every code present."""
    part = as_codes(codes.codes[rows], codes.labels)
    return replace(part, parts=tuple(restricted(one, rows) for one in codes.parts)) if codes.parts else part

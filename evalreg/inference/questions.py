"""Means that cannot be compared: models that answered different questions, or whose scores have unlike scales."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, listed, passed
from evalreg.covariance.special import FEW_CLUSTERS
from evalreg.data.clusters import Axis, Labels
from evalreg.data.questions import Answered, answered, quoted, without_worst
from evalreg.errors import Note, SkewedScoresWarning, UnequalQuestionsWarning, UnlikeScalesWarning
from evalreg.estimate import Estimate, touches
from evalreg.numerics.matrices import Matrix, compressed, scale_columns, stacked, times, transposed
from evalreg.scores.base import extremes
from evalreg.scores.score_interval import FEW_EXPECTED, ICC_MEAN, Unseen


def unequal_notes(
    estimate: Estimate, item: str | None, axes: tuple[Axis, ...] | None, of_mean: bool = True
) -> tuple[Note, ...]:
    """Warn of models whose means, or other estimates, are over different questions, and name the one that lacks most.

    Empty where all models answered the same questions, or none shares any with another.
    """
    if (item is None and not axes) or estimate.n_params < 2 or estimate.coefficient_map is None:
        return ()
    # Of several clusterings the finest may be that of the questions.
    by = (item,) if item is not None else max(axes or (), key=estimate.scores.n_clusters)
    assert estimate.cells is not None
    n_rows = estimate.cells.count.sum()
    # Where some model has several rows of a cluster, that is no question. It has where there are more rows than places.
    scores = estimate.scores
    n_places = (scores.n_clusters(by) if item is None else scores.n_distinct(by)) * scores.n_columns
    if n_rows > n_places if item is None else n_rows == n_places:
        return ()
    blocks = list(estimate.scores.cells(by))
    weight = stacked([compressed(block.gram) for block in blocks])
    if item is None and weight.nnz < n_rows:
        return ()
    member = transposed(touches(estimate.coefficient_map))
    answers = answered(times(weight, member), estimate.names)
    if not answers.lacking.any():
        return ()
    effect = None
    if of_mean:
        totals = stacked([compressed(block.totals) for block in blocks])
        totals = totals + scale_columns(weight, estimate.cells.mean)
        effect = _effect(answers, totals @ member, weight @ member)
    return _differing(answers, effect, by if item is None else ())


def unequal_rows(labels: Labels, by: Axis, models: IntArray, names: tuple[str, ...]) -> tuple[Note, ...]:
    """The same of rows in memory, of which each is one answer of a model."""
    questions = labels.codes(by)
    place = sparse.coo_array((np.ones(models.size), (questions.codes, models)), (questions.n_clusters, len(names)))
    answers = answered(place, names)
    if answers.indicator.nnz < models.size or not answers.lacking.any():
        return ()
    return _differing(answers, None, by)


def _effect(answers: Answered, totals: Matrix, weight: Matrix) -> str:
    """How much higher the other models score on the questions that the worst one answered than on all of theirs.

    Of models that answered enough of its questions; empty where there is none.
    """
    worst = int(np.argmax(answers.lacking))
    has = np.asarray(answers.indicator[:, [worst]].todense()).ravel()
    both = np.asarray(has @ answers.indicator).ravel()
    others = (answers.family == answers.family[worst]) & (np.arange(answers.count.size) != worst)
    # The mean of ten 0/1 scores has a standard error of up to .16.
    used = others & (both >= FEW_CLUSTERS)
    if not used.any():
        return ""
    mean = np.asarray(totals.sum(axis=0)).ravel() / np.asarray(weight.sum(axis=0)).ravel()
    on_its = np.asarray(has @ totals).ravel()[used] / np.asarray(has @ weight).ravel()[used]
    shift = float(np.mean(on_its - mean[used]))
    if not np.isfinite(shift) or shift == 0:
        return ""
    by_used = np.asarray(answers.indicator @ used.astype(float)).ravel() > 0
    n, count = int(np.count_nonzero(has * by_used)), int(answers.count[worst])
    n_used, n_others = int(np.count_nonzero(used)), int(np.count_nonzero(others))
    where = f"the {count} that it answered" if n == count else f"{n} of the {count} that it answered"
    if n_used == 1:
        who = f"{answers.names[int(np.flatnonzero(used)[0])]} scores"
    else:
        who = "the others score" if n_used == n_others else f"{n_used} others score"
    harder = "higher" if shift > 0 else "lower"
    return f" On {where} {who} {abs(shift):.3g} {harder} than on all {'its questions' if n_used == 1 else 'of theirs'}."


def _differing(answers: Answered, effect: str | None, by: Axis) -> tuple[Note, ...]:
    """The warning of models that answered different questions, which are the clusters `by` where these are named.

    `effect`: a sentence on what the other models score on the questions of the worst one, or nothing; None of estimates
    that are no means.
    """
    lacking, n, shared, first = answers.lacking, answers.count.size, answers.n_shared, without_worst(answers)
    worst, rest = int(np.argmax(lacking)), int(np.count_nonzero(lacking)) - 1
    more = f" ({rest} other{'s lack' if rest > 1 else ' lacks'} some too)" if rest else ""
    whom, of_shared = "both" if n == 2 else f"all {n}", f"`mean` with {passed(questions='shared')} for the"
    remedy = f"Use {of_shared} {shared} that {whom} answered"
    if first and 2 * shared < int(answers.indicator.shape[0]):
        few_shared = {0: "No question was", 1: "Only 1 question was"}.get(shared, f"Only {shared} questions were")
        remedy = (
            f"{few_shared} answered by all {n}: leave out {quoted(first[0])} and use {of_shared} {first[1]} that the "
            "others all answered"
        )
    text = (
        f"Means over different questions do not rank models. {remedy}, or `compare`, which takes each pair over the "
        "questions that both answered."
    )
    if effect is None:
        cure = f"Keep the rows of the {shared} that {whom} answered." if shared else f"None was answered by {whom}."
        text = f"Such estimates do not rank models. {cure}"
    elif shared == 0 and not first:
        text = (
            "Its mean and rank are over other questions. No question was answered by all of them: compare in pairs, by "
            "`compare`."
        )
    lacks = f"{answers.names[worst]} lacks {lacking[worst]} of {answers.n_items[worst]}{more}.{effect or ''}"
    named = "" if effect is None else "; name them in `item`"
    where = f" (Questions are the {':'.join(by)} clusters here{named}.)" if by else ""
    return ((UnequalQuestionsWarning, f"models answered different questions: {lacks} {text}{where}"),)


# Percentages end at 100, and of right and wrong answers some reach it; a rubric of 0 to 10 or 20 is none.
PERCENT, SURELY_PERCENT = 100.0, 20.0


def mixed_scales(names: Sequence[str], low: FloatArray, high: FloatArray) -> tuple[Note, ...]:
    """A warning where scores of some models lie in [0, 1] and of others in [0, 100].

    `low` and `high`, shape (n_models,), are the smallest and the largest score of each model.
    """
    share = (low >= 0) & (high > 0) & (high <= 1)
    percent = (low >= 0) & (high > SURELY_PERCENT) & (high <= PERCENT)
    if not (share.any() and percent.any()):
        return ()
    largest = f"{np.max(high[percent]):g}"
    text = (
        f"scores of {_of(names, percent)} reach {largest}, and those of {_of(names, share)} lie in [0, 1]. If the "
        "former are percentages, divide them by 100: on unlike scales differences and ranks mean nothing."
    )
    return ((UnlikeScalesWarning, text),)


def _of(names: Sequence[str], chosen: BoolArray) -> str:
    return listed(compress(names, chosen), joiner=" and ")


def scale_notes(estimate: Estimate, axes: Sequence[Axis]) -> tuple[Note, ...]:
    """Warn of means of which some seem to be shares and others percentages, and of percentages near 0 or 100."""
    A, cells = estimate.coefficient_map, estimate.cells
    if estimate.bounded or A is None or cells is None or A.shape[1] != cells.count.size:
        return ()
    touched = touches(A)
    row, column = touched.nonzero()
    low, high = extremes(row, cells.low[column], cells.high[column], touched.shape[0])
    n = touched @ cells.count
    rare = np.minimum(estimate.params, PERCENT - estimate.params) / PERCENT
    size = n / max([estimate.scores.n_clusters(axis) for axis in axes], default=n)
    # The design effect that `mean` would grant to shares, of clusters that each fail as often as all rows do.
    unseen = Unseen.of_clusters([(size[None], size[None], (size * rare)[None])])
    granted = unseen.design_effect(ICC_MEAN, np.ones(n.size))
    at_end = np.where(estimate.params > PERCENT / 2, high == PERCENT, low == 0)
    near = at_end & (low >= 0) & (high > SURELY_PERCENT) & (high <= PERCENT) & (n * rare < FEW_EXPECTED * granted)
    text = (
        f"{_of(estimate.names, near)}: scores lie in [0, 100] and near an end of it. If they are percentages, divide "
        "them by 100: shares have a score interval, which allows for failures that were not seen. The t interval does "
        "not, and may be far too short."
    )
    notes = ((SkewedScoresWarning, text),) if near.any() else ()
    return (*mixed_scales(estimate.names, low, high), *notes)

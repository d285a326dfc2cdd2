"""What `groups` may be: names, joint names and labels, to axes of clusters on the rows of an estimate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from evalreg.data.clusters import Axis, axis_name, union
from evalreg.data.groups import Groups as Groups
from evalreg.data.groups import as_label_dict, name_in_use, parse_groups, same_partition
from evalreg.data.labels import no_source
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    MissingColumnError,
    NestedClustersWarning,
    Note,
    TooFewClustersError,
)
from evalreg.estimate import Estimate
from evalreg.scores.base import Scores


def check_estimate(estimate: object) -> None:
    """Raise unless it is an Estimate."""
    if not isinstance(estimate, Estimate):
        hint = " Pass its `.estimate`." if hasattr(estimate, "estimate") else ""
        raise ArgumentTypeError(f"`estimate` must be an Estimate; got {type(estimate).__name__}.{hint}")


def grouped(estimate: Estimate, groups: Groups) -> tuple[Estimate, tuple[Axis, ...]]:
    """Axes named by `groups`, and the estimate with the labels that it may hold; models held apart share no cluster."""
    if groups is not None and estimate.family.not_clustered:
        raise ArgumentError(estimate.family.not_clustered)
    scores, axes = resolve_groups(estimate.scores, groups)
    family = estimate.family
    if scores is not estimate.scores:
        _refuse_other_questions(estimate, scores)
        family = family.with_labels(as_label_dict(groups))
    apart = tuple((*axis, *(name for name in estimate.apart if name not in axis)) for axis in axes)
    return replace(estimate, scores=scores, family=family), apart


def _refuse_other_questions(estimate: Estimate, scores: Scores) -> None:
    """Refuse labels that come under the name of the questions of an estimate, and are not theirs."""
    before, after = estimate.scores.row_labels(), scores.row_labels()
    if before is None or after is None:
        return
    for name in estimate.item:
        if after.held.get(name) is before.held.get(name):
            continue
        if before.source is None and name not in before.held:
            raise name_in_use(name, "item")
        if not same_partition(before.codes((name,)).codes, after.codes((name,)).codes):
            raise name_in_use(name, "item")


def resolve_groups(scores: Scores, groups: Groups) -> tuple[Scores, tuple[Axis, ...]]:
    """Axes named by `groups`, none for None; labels given as arrays become columns of the scores that come back."""
    if groups is None:
        return scores, ()
    if isinstance(groups, str) or (isinstance(groups, list | tuple) and all(isinstance(g, str) for g in groups)):
        try:
            return scores, parse_groups(groups, scores.columns)
        except MissingColumnError as error:
            if scores.has_source and not scores.columns:
                raise MissingColumnError(
                    f'`groups` names "{error.column}", and this estimate was made without a data frame. Pass the '
                    f'labels themselves, groups=data["{error.column}"], one for each row.',
                    column=error.column,
                ) from None
            if scores.has_source:
                raise
            raise no_source(error.column or str(groups), scores.columns) from None
    labels = as_label_dict(groups)
    return scores.with_labels(labels), tuple((name,) for name in labels)


def drop_nested(scores: Scores, axes: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], list[Note]]:
    """Leave out axes whose clusters each lie inside one cluster of another axis, and say which."""
    kept = list(axes)
    notes: list[Note] = []
    for axis in reversed(axes):
        for other in [other for other in kept if other != axis]:
            joint = union(*sorted((axis, other), key=axes.index))
            if scores.n_clusters(joint) == scores.n_clusters(axis):
                fine, coarse = scores.n_clusters(axis), scores.n_clusters(other)
                if fine == coarse:
                    text = f'"{axis_name(axis)}" and "{axis_name(other)}" are the same {fine} clusters; one is used.'
                else:
                    text = (
                        f'"{axis_name(axis)}" lies inside "{axis_name(other)}" ({fine} clusters in {coarse}): '
                        "clustering by the coarser one alone covers both."
                    )
                kept.remove(axis)
                notes.append((NestedClustersWarning, text))
                break
    return tuple(kept), notes


def check_two_clusters(estimate: Estimate, axis: Axis, axes: tuple[Axis, ...]) -> None:
    """Raise if an axis has a single cluster, offering what is left of the groups."""
    n_clusters = estimate.scores.n_clusters(axis)
    if n_clusters >= 2:
        return
    others = " + ".join(axis_name(other) for other in axes if other != axis)
    instead = f'Use groups="{others}", which holds this {axis_name(axis)} fixed' if others else "Name a finer column"
    raise TooFewClustersError(
        f'`groups="{axis_name(axis)}"` has {n_clusters} distinct value; at least 2 are needed. '
        f"{instead}, or pass groups=None to treat rows as independent.",
        column=axis_name(axis),
        count=n_clusters,
    )


@contextmanager
def clustered_by_items(estimate: Estimate, item: str | None) -> Iterator[None]:
    """Let the refusal of a single cluster speak of `item`, whose questions are the clusters for want of `groups`."""
    try:
        yield
    except TooFewClustersError as error:
        if item is None or estimate.scores.n_clusters((item,)) > 1:
            raise
        raise TooFewClustersError(
            f'all rows are of one question (`item="{item}"`), so there is no error bar: it comes from how scores '
            f"differ between questions. Read more questions; or, if {item!r} does not tell questions apart, name the "
            "column that does in `item`.",
            column=item,
            count=error.count,
        ) from None

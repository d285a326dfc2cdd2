"""What `groups` may be: names, joint names and labels, to axes of clusters on the rows of an estimate."""

from __future__ import annotations

from typing import Any, TypeAlias

import pandas as pd

from evalreg.data.clusters import Axis, axis_name, no_source, parse_groups
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    MissingColumnError,
    NestedClustersWarning,
    Note,
    TooFewClustersError,
)
from evalreg.estimate import Estimate
from evalreg.scores.sums import Scores

Groups: TypeAlias = Any


def check_estimate(estimate: object) -> None:
    """Raise unless it is an Estimate.

    Parameters
    ----------
    estimate : object
        As passed by the user.

    Raises
    ------
    ArgumentTypeError
        If it is something else.
    """
    if not isinstance(estimate, Estimate):
        hint = " Pass its `.estimate`." if hasattr(estimate, "estimate") else ""
        raise ArgumentTypeError(f"`estimate` must be an Estimate; got {type(estimate).__name__}.{hint}")


def resolve_groups(scores: Scores, groups: Groups) -> tuple[Scores, tuple[Axis, ...]]:
    """Axes named by `groups`; labels given as arrays become columns of the scores.

    Parameters
    ----------
    scores : Scores
        Of the rows in use.
    groups : str, list of str, array, Series, dict or None
        As in `covariance`.

    Returns
    -------
    scores : Scores
        With the labels given.
    axes : tuple of Axis
        Empty for None.

    Raises
    ------
    ArgumentError, MissingColumnError, AlignmentError
        If names are unknown or labels do not fit the rows.
    """
    if groups is None:
        return scores, ()
    if isinstance(groups, str) or (isinstance(groups, list | tuple) and all(isinstance(g, str) for g in groups)):
        try:
            return scores, parse_groups(groups, scores.columns)
        except MissingColumnError as error:
            if scores.has_source:
                raise
            raise no_source(error.column or str(groups), scores.columns) from None
    labels = as_label_dict(groups)
    return scores.with_labels(labels), tuple((name,) for name in labels)


def as_label_dict(groups: Groups) -> dict[str, Any]:
    """Labels by name: of an array, a Series, or a dict of them.

    Parameters
    ----------
    groups : array, Series or dict of str to them
        Cluster labels.

    Returns
    -------
    dict
        One entry for each dimension; an unnamed array is called "groups".

    Raises
    ------
    ArgumentError, ArgumentTypeError
        If there are none, or they are two-dimensional.
    """
    if isinstance(groups, pd.DataFrame):
        groups = {str(name): groups[name] for name in groups.columns}
    if isinstance(groups, dict):
        if not groups:
            raise ArgumentError("`groups` is an empty dict; pass groups=None for independent rows.")
        if any(isinstance(value, str) for value in groups.values()):
            names = [value for value in groups.values() if isinstance(value, str)]
            raise ArgumentTypeError(
                "a dict for `groups` holds labels, one a row, and not column names; got str. Name columns in a list: "
                f"groups={names[:3]}."
            )
        return {name: labels for one, value in groups.items() for name, labels in _named(str(one), value).items()}
    return _named("groups", groups)


def _named(name: str, labels: Any) -> dict[str, Any]:
    if isinstance(labels, pd.MultiIndex) or (isinstance(labels, pd.Index) and labels.nlevels > 1):
        raise ArgumentTypeError(
            "`groups` must hold one label a row; a MultiIndex holds several. Pass a dict of its levels to cross them, "
            'such as {"prompt": index.get_level_values(0), "judge": index.get_level_values(1)}.'
        )
    if isinstance(labels, str | bytes | dict) or not (hasattr(labels, "__len__") and hasattr(labels, "__getitem__")):
        raise ArgumentTypeError(f"`groups` must hold one label a row; got {type(labels).__name__} for {name!r}.")
    dimensions = getattr(labels, "ndim", 1)
    if dimensions != 1:
        raise ArgumentTypeError(
            f"`groups` must be one-dimensional; got {dimensions} dimensions. Pass a dict of one array each."
        )
    own = getattr(labels, "name", None)
    return {str(own) if name == "groups" and own is not None else name: labels}


def drop_nested(scores: Scores, axes: tuple[Axis, ...]) -> tuple[tuple[Axis, ...], list[Note]]:
    """Leave out axes whose clusters each lie inside one cluster of another axis.

    Parameters
    ----------
    scores : Scores
        Of the rows in use.
    axes : tuple of Axis
        Dimensions as asked.

    Returns
    -------
    axes : tuple of Axis
        Those that remain.
    notes : list of (category, text)
        Which were left out.
    """
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


def union(*axes: Axis) -> Axis:
    """Return the columns of several axes, each once."""
    return tuple(dict.fromkeys(name for axis in axes for name in axis))


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

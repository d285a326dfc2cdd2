"""What `groups` may be: names of columns or labels, to axes and the codes of the rows."""

from __future__ import annotations

from typing import Any, TypeAlias

import pandas as pd

from evalreg.checks import IntArray
from evalreg.data.clusters import Axis, factorize, parse_groups
from evalreg.data.frame import Table, align_labels
from evalreg.errors import ArgumentError, ArgumentTypeError

Groups: TypeAlias = Any


def group_labels(table: Table, groups: Groups) -> tuple[tuple[Axis, ...] | None, dict[str, tuple[IntArray, Any]]]:
    """Axes of the groups asked for, and the codes of all rows of each column, -1 where missing.

    Parameters
    ----------
    table : Table
        The data.
    groups : str, list of str, array, Series, dict or None
        As passed by the user.

    Returns
    -------
    axes : tuple of Axis or None
        None for no groups.
    labels : dict of str to (codes, labels)
        One entry a column.
    """
    if groups is None:
        return None, {}
    if isinstance(groups, str) or (isinstance(groups, list | tuple) and all(isinstance(g, str) for g in groups)):
        axes = parse_groups(groups, table.columns)
        return axes, {name: table.labels(name, "groups") for axis in axes for name in axis}
    given = as_label_dict(groups)
    labels = {name: factorize(align_labels(name, values, table.n_rows, table.index)) for name, values in given.items()}
    return tuple((name,) for name in given), labels


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

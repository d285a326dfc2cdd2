"""An Estimate of numbers that were computed elsewhere: parameters, and the influence of each row on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, counted, listed, real_numbers, whole_number
from evalreg.data.clusters import Labels, rows_where
from evalreg.data.frame import by_name, pandas_rows
from evalreg.errors import (
    AlignmentError,
    ArgumentError,
    ArgumentTypeError,
    DataError,
    MissingColumnError,
    NonFiniteError,
)
from evalreg.estimate import NOT_GIVEN, About, Estimate
from evalreg.numerics.limits import OFF
from evalreg.results.fitted import FittedRows
from evalreg.scores.rows import InfluenceScores


def from_influence(
    params: Any,
    influence: Any,
    *,
    names: Sequence[str] | None = None,
    data: Any = None,
    index: Any = None,
    n_coefficients: int = 1,
) -> Estimate:
    """The Estimate of parameters that were computed elsewhere, from the influence of each row on them.

    The estimate less the truth must be about the sum of the influence over rows: u_r = psi_r / n, where psi_r is the
    influence function of the row. On the scale of psi_r every standard error would be n times too large. A mean has
    u_r = (y_r - mean) / n. Rows in different clusters are taken to be independent.

    Parameters
    ----------
    params : Series, dict or array_like, shape (n_params,)
        Estimates; a Series or dict names them.
    influence : DataFrame or array_like, shape (n_rows, n_params)
        Influence of each row. Columns sum to zero. Columns of a frame are matched by name to those of `params`. That
        of `results.influence()` is matched by the position of its rows in `data`.
    names : sequence of str, optional
        Names of the parameters, where neither argument has them; "theta0", "theta1" and so on by default.
    data : DataFrame, optional
        Rows whose columns can be named in `groups`: any data frame in memory. Where the influence is a frame they are
        matched by index, and `data` may have more rows; otherwise by their order.
    index : array_like, shape (n_rows,), optional
        Labels of the rows of an array, by which `data` and a Series in `groups` are matched; their order by default.
    n_coefficients : int, optional
        k of the factors n/(n - k) of "naive" and (n - 1)/(n - k) of CR1; 1, the default, for means.

    Returns
    -------
    Estimate
        For `infer`: covariances "naive", "HC0", "HC1", "CR0" and "CR1" under any clustering. CR2, CR3 and what leaves
        clusters out need the design, and raise.

    Raises
    ------
    ArgumentError, ArgumentTypeError, MissingColumnError
        If shapes or names do not fit.
    DataError
        If a column does not sum to zero.
    NonFiniteError
        If a number is missing or infinite.
    AlignmentError
        If rows of the influence are not in `data`.

    References
    ----------
    Hampel, Ronchetti, Rousseeuw and Stahel (1986), Robust Statistics, section 2.1; Huber (1967), Proceedings of the
    Fifth Berkeley Symposium 1, 221-233.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=30, seed=2)
    >>> mean, n = log["score"].mean(), len(log)
    >>> estimate = er.from_influence({"mean": mean}, ((log["score"] - mean) / n).to_numpy()[:, None], data=log)
    >>> er.infer(estimate, groups="passage").bse.round(6).to_dict()
    {'mean': 0.044238}
    >>> er.mean(log, groups="passage", cov="CR1").bse.round(6).to_list()
    [0.044238]
    """
    values, theta, param_names = _matched(params, influence, names)
    _refuse_off(values, param_names)
    n_coefficients = whole_number("n_coefficients", n_coefficients)
    if values.shape[0] <= n_coefficients:
        raise DataError(
            f"there must be more rows than coefficients; got {values.shape[0]} rows and {n_coefficients} coefficients.",
            count=values.shape[0],
        )
    source = _rows_of(influence, values.shape[0], data, index)
    k = theta.size
    return Estimate(
        names=param_names,
        params=theta,
        scores=InfluenceScores(values, Labels(values.shape[0], {}, source)),
        bread=np.eye(k),
        kind="likelihood",
        n_coefficients=int(n_coefficients),
        coefficient_map=np.eye(k),
        about=About(model="Influence of rows, as given", outcome=NOT_GIVEN),
    )


def _matched(
    params: Any, influence: Any, names: Sequence[str] | None
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Influence with a column for each parameter, the parameters, and their names."""
    params = pd.Series(params) if isinstance(params, dict) else params
    theta = _numbers(np.atleast_1d(np.asarray(params)), "params")
    if theta.ndim != 1 or not theta.size:
        raise ArgumentError(f"`params` must be one number for each of at least 1 parameter; got shape {theta.shape}.")
    index_names = list(map(str, params.index)) if isinstance(params, pd.Series) else []
    argument_names = [] if names is None else list(map(str, names))
    influence = by_name(influence)
    columns = list(map(str, influence.columns)) if isinstance(influence, pd.DataFrame) else []
    param_names = index_names or argument_names or columns or [f"theta{i}" for i in range(theta.size)]
    if isinstance(influence, pd.DataFrame):
        if sorted(columns) != sorted(param_names):
            raise MissingColumnError(
                f"columns of `influence` must be the parameters; got {listed(columns)} for {listed(param_names)}."
            )
        influence = influence.to_numpy()[:, [columns.index(name) for name in param_names]]
    if names is not None and argument_names != param_names:
        raise ArgumentError(
            f"`names` must be those of `params`, {listed(param_names)}; got {listed(argument_names)}. Leave them out."
        )
    values = _numbers(np.asarray(influence), "influence")
    if values.ndim == 1 and theta.size == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] != theta.size or len(param_names) != theta.size:
        raise ArgumentError(
            "`influence` must have one row for each row of the data and one column for each parameter, here "
            f"{theta.size}; got shape {values.shape} and {counted(len(param_names), 'name')}."
        )
    return values, theta, tuple(param_names)


def _numbers(values: np.ndarray[Any, Any], argument: str) -> FloatArray:
    """Finite numbers, or an error that says where they are not."""
    try:
        numbers = real_numbers(values).copy()
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"`{argument}` must be numbers; got an array of {values.dtype}.") from None
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        rows = rows_where(wrong.reshape(len(numbers), -1).any(axis=1))
        raise NonFiniteError(
            f"`{argument}` must be finite; it is missing or infinite in {rows}. A row that does not "
            "enter a parameter has influence 0 on it.",
            column=argument,
            rows=rows,
        )
    return numbers


def _refuse_off(values: FloatArray, names: tuple[str, ...]) -> None:
    """Raise where influences add up to something: they would be those of another estimate."""
    total, size = values.sum(axis=0), np.sqrt(np.sum(values**2, axis=0))
    off = np.flatnonzero(np.abs(total) > OFF * size)
    if off.size:
        worst = off[np.argmax(np.abs(total[off]) / size[off])]
        raise DataError(
            f"`influence` must sum to zero in each column; that of {listed([names[i] for i in off])} does not. "
            f'"{names[worst]}" sums to {total[worst]:.4g}, {abs(total[worst]) / size[worst]:.2g} times its standard '
            "error for independent rows. Pass the influence on these parameters, of all rows that they were computed "
            "from: for a mean (y - mean) / n, with weights w (y - mean) / sum of w.",
            column=names[worst],
        )


def _rows_of(influence: Any, n_rows: int, data: Any, index: Any) -> FittedRows:
    """Where labels of the rows come from."""
    is_frame = isinstance(influence, pd.DataFrame)
    if is_frame and index is not None:
        raise ArgumentError("`index` labels the rows of an array; `influence` is a frame, which has its own index.")
    labels: pd.Index | None = influence.index if is_frame else None if index is None else pd.Index(index)
    if labels is not None and len(labels) != n_rows:
        raise ArgumentError(f"`index` must have one label for each row; got {len(labels)} for {n_rows}.")
    if data is None:
        return FittedRows(None, labels, None, n_rows)
    frame = pandas_rows(data)
    if labels is None:
        if len(frame) != n_rows:
            raise AlignmentError(
                f"`data` must have the rows of `influence`, in their order; got {len(frame)} for {n_rows}. Pass "
                "`index`, or influence as a frame with the index of `data`, where some rows were left out.",
                count=len(frame),
            )
        return FittedRows(frame, frame.index, None, n_rows)
    by_position = is_frame and influence.attrs.get("index") == "position in the data"
    data_index = pd.RangeIndex(len(frame)) if by_position else frame.index
    if not data_index.is_unique or not labels.is_unique:
        raise AlignmentError(
            "`influence` and `data` are matched by index, which has repeats. Pass arrays in one order."
        )
    at = data_index.get_indexer(labels)
    if (at < 0).any():
        rows = rows_where(at < 0)
        raise AlignmentError(
            f"every row of `influence` must be in `data`; {rows} ({listed(labels[at < 0][:3])}) not "
            "found in its index.",
            rows=rows,
        )
    used = frame.iloc[at]
    return FittedRows(used, used.index, None, n_rows)

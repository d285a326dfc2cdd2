"""Fitted means and rows of a regression."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import BoolArray, FloatArray, IntArray, listed, nearest_or_all
from evalreg.data.clusters import Codes, Labels, align_labels, factorize, no_source, used_codes
from evalreg.data.frame import held_pandas, rows_in_memory
from evalreg.errors import AlignmentError, ArgumentError, DataError, MissingColumnError, NotAvailableError
from evalreg.estimate import Estimate

# statsmodels' likelihood models whose mean is a function of X b, and that function's link.
LINKS = {"Logit": "Logit", "Probit": "Probit", "Poisson": "Log"}


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A statsmodels model whose mean is a function of X b, and what its formula says of covariates."""

    model: Any

    @cached_property
    def link(self) -> Any:
        """statsmodels' link between the mean and X b."""
        import statsmodels.api as sm
        from statsmodels.regression.linear_model import GLS, WLS

        if isinstance(self.model, GLS | WLS):
            return sm.families.links.Identity()
        if hasattr(self.model, "family"):
            return self.model.family.link
        name = LINKS.get(type(self.model).__name__)
        if name is None:
            raise NotAvailableError(
                f"predictions and slopes are those of least squares, GLM, {listed(list(LINKS))}; got "
                f"{type(self.model).__name__}. Use its own `predict`, and `t_test` for what is linear in the "
                "coefficients."
            )
        return getattr(sm.families.links, name)()

    @property
    def info(self) -> Any:
        """patsy's description of the columns of the design, under either name that statsmodels has for it."""
        return getattr(self.model.data, "design_info", None) or getattr(self.model.data, "model_spec", None)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The data of a formula, the rows in use."""
        frame = getattr(self.model.data, "frame", None)
        if not isinstance(frame, pd.DataFrame) or self.info is None:
            raise NotAvailableError(
                "slopes by covariate need a formula, which says what a covariate enters; this model was given columns "
                "of numbers. Fit it with `er.fit` or by formula."
            )
        gone = getattr(self.model.data, "missing_row_idx", None)
        return frame if gone is None or not len(gone) else frame.drop(index=frame.index[np.asarray(gone)])

    @cached_property
    def factors(self) -> dict[str, list[str]]:
        """By the code of each factor of the formula the columns of the data that it names."""
        return {factor.code: list(_columns_of(factor.code, self.frame.columns)) for factor in self.info.factor_infos}

    @property
    def covariates(self) -> list[str]:
        """Columns of the data that the terms of the formula name."""
        return list(dict.fromkeys(chain.from_iterable(self.factors.values())))

    def labels(self, name: str) -> bool:
        """Whether a covariate is text, categories, booleans, or numbers that the formula takes for labels by C(...)."""
        dtype = self.frame[name].dtype
        if not pd.api.types.is_numeric_dtype(dtype) or pd.api.types.is_bool_dtype(dtype):
            return True
        codes = [code for code, columns in self.factors.items() if name in columns]
        return bool(codes) and all(code.startswith("C(") for code in codes)

    def design(self, frame: pd.DataFrame) -> FloatArray:
        """Rows of the design; NaN where a covariate is missing."""
        import patsy

        keep = patsy.NAAction(on_NA="drop", NA_types=[])
        try:
            rows = np.asarray(patsy.dmatrix(self.info, frame, NA_action=keep), dtype=float)
        except patsy.PatsyError as error:
            raise DataError(f"the covariates do not fit the formula: {str(error).splitlines()[0]}") from None
        # A formula without covariates does not know how many rows there are.
        return np.repeat(rows, len(frame), axis=0) if rows.shape[0] == 1 != len(frame) else rows

    def new_rows(self, data: Any) -> tuple[FloatArray, pd.Index | None]:
        """Rows of the design for new covariates, and their index where they have one."""
        if self.info is None:
            raise NotAvailableError("predictions for new data need a formula; this model was given columns of numbers.")
        table = rows_in_memory(data, "a prediction for new data")
        for name in self.covariates:
            if name not in table.columns:
                hint = nearest_or_all(name, table.columns, "column")
                raise MissingColumnError(f'`data` lacks "{name}", a covariate of the formula.{hint}', column=name)
        columns = table.to_pandas(tuple(self.covariates))
        plain = {name: _plain(columns[name], self.labels(name)) for name in self.covariates}
        frame = pd.DataFrame(plain, index=range(table.n_rows))
        whole = frame.notna().all(axis=1).to_numpy()
        rows = np.full((table.n_rows, len(self.info.column_names)), np.nan)
        rows[whole] = self.design(frame[whole]) if whole.any() else np.nan
        return rows, data.index if isinstance(data, pd.DataFrame) else None

    def chosen(self, variables: Any) -> dict[str, Any]:
        """The covariates named, all without names, each with what a mapping says of it or None."""
        known = self.covariates
        if not known:
            raise ArgumentError("a regression on a constant has no covariates, and so no slopes.")
        values = variables if isinstance(variables, Mapping) else {}
        names = known if variables is None else [variables] if isinstance(variables, str) else values or variables
        is_list = isinstance(names, list | tuple | Mapping)
        if not is_list or len(set(map(str, names))) < max(len(names), 1):
            raise ArgumentError(f"`variables` must name covariates, each once: {listed(known)}; got {variables!r}.")
        for name in names:
            if name not in known:
                hint = nearest_or_all(name, known, "covariate")
                raise MissingColumnError(
                    f'`variables` names "{name}", which is not a covariate of the formula.{hint}', column=name
                )
        return {name: values.get(name) for name in names}


def model_of(estimate: Estimate) -> FittedModel:
    """The model that was fitted, if its mean is a function of X b."""
    if estimate.absorbed is not None:
        raise NotAvailableError(
            "predictions and slopes need the effects of the levels, which absorbing takes out without solving for "
            "them. A covariate's coefficient is its slope, and `t_test` compares coefficients; for predictions write "
            "the factor as C(...) among the covariates, where its levels are few."
        )
    if estimate.fitted is None:
        raise NotAvailableError(
            "predictions and slopes need a regression that still holds its fit: results of `fit` or of "
            "`from_statsmodels` (contrasts, means, copies, unpickled results and fits of rows in an engine do not)."
        )
    fitted = FittedModel(estimate.fitted().model)
    _ = fitted.link  # refuses others
    for name in ("offset", "exposure"):
        shift = getattr(fitted.model, name, None)
        if shift is not None and np.any(np.asarray(shift) != 0):
            raise NotAvailableError(f"predictions and slopes of a model with `{name}` are not available.")
    return fitted


def _plain(column: pd.Series, labels: bool) -> Any:
    """A covariate as patsy takes it: labels as they are, or floats, as whole numbers would wrap."""
    if labels:
        return column.array if isinstance(column.dtype, np.dtype) else column.to_numpy(dtype=object)
    if column.dtype.kind not in "biuf" and column.notna().any():
        raise DataError(
            f'`data` must hold numbers in "{column.name}", as the fit did; got {column.dtype}. Convert it first.',
            column=str(column.name),
        )
    return column.to_numpy(dtype=float, na_value=np.nan)


def _columns_of(code: str, columns: pd.Index) -> Iterator[str]:
    """Columns that one factor of a formula names."""
    for node in ast.walk(ast.parse(code, mode="eval")):
        name = getattr(node, "id", None)
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Q" and node.args:
            name = getattr(node.args[0], "value", None)
        if name in columns:
            yield str(name)


@dataclass(frozen=True, eq=False)
class FittedRows:
    """The rows of a fitted statsmodels model; the source of its labels."""

    frame: pd.DataFrame | None  # the data of a formula model, all rows, as they were when the model was fitted
    index: pd.Index | None  # index of the rows in use
    keep: BoolArray | None  # rows of the data in use, where some had missing values
    n_rows: int  # rows in use
    # whether the data are no longer those that were fitted, so that only the names of their columns are known
    changed: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the data."""
        return () if self.frame is None else tuple(str(name) for name in self.frame.columns)

    def positions(self) -> IntArray:
        """Positions of the rows in use in the data."""
        return np.arange(self.n_rows) if self.keep is None else np.flatnonzero(self.keep)

    def codes(self, column: str) -> Codes:
        """Codes of a column on the rows in use."""
        if self.frame is None:
            raise no_source(column, ())
        if self.changed:
            raise AlignmentError(
                "the data frame of the fitted statsmodels model has other rows, or rows in another order, than when it "
                f"was fitted, so that labels of {column!r} cannot be matched. Fit the model again, or pass the labels "
                "as an array in the order of the rows that were fitted.",
                column=column,
            )
        labels = self.frame[column]
        return used_codes(column, *factorize(labels if self.keep is None else labels[self.keep]))

    def align(self, name: str, labels: Any) -> Codes:
        """Codes of an array (by length, of the rows in use or of all) or a Series (by index)."""
        if isinstance(labels, pd.Series) and self.index is not None and self.index.isin(labels.index).all():
            labels = labels.loc[self.index] if labels.index.is_unique else labels
        if self.keep is not None and len(labels) == self.keep.size:
            labels = labels[self.keep]
        return used_codes(name, *factorize(align_labels(name, labels, self.n_rows, self.index)))


def labels_of(model: Any, n_rows: int) -> Labels:
    """Labels of the rows that a statsmodels model was fitted to, with its data as their source."""
    data = model.data
    dropped = getattr(data, "missing_row_idx", None)
    frame = getattr(data, "frame", None)
    keep = None
    if dropped is not None and len(dropped):
        keep = np.ones(n_rows + len(dropped), dtype=bool)
        keep[np.asarray(dropped)] = False
    row_labels = getattr(data, "row_labels", None)
    index = row_labels if isinstance(row_labels, pd.Index) and len(row_labels) == n_rows else None
    if not isinstance(frame, pd.DataFrame):
        return Labels(n_rows, {}, FittedRows(None, index, keep, n_rows))
    changed = not _is_as_fitted(frame, model, index, keep)
    return Labels(n_rows, {}, FittedRows(held_pandas(frame), index, keep, n_rows, changed))


def _is_as_fitted(frame: pd.DataFrame, model: Any, index: pd.Index | None, keep: BoolArray | None) -> bool:
    """Whether a frame still has the rows that a model was fitted to, in their order: statsmodels holds the caller's."""
    values = np.asarray(model.endog)
    if len(frame) != (values.shape[0] if keep is None else keep.size):
        return False
    used = frame if keep is None else frame.loc[keep]
    if index is not None and not used.index.equals(index):
        return False
    name = str(model.endog_names)
    if name not in used.columns or values.ndim != 1 or not pd.api.types.is_numeric_dtype(used[name]):
        return True
    return bool(np.array_equal(used[name].to_numpy(dtype=np.float64, na_value=np.nan), values))

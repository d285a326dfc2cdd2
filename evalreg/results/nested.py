"""The test of a regression against one nested in it: what the smaller one leaves out, jointly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, fraction, listed
from evalreg.data.clusters import axis_name
from evalreg.data.row_numbers import row_list, rows_text
from evalreg.errors import AlignmentError, ArgumentError, ArgumentTypeError, NotAvailableError, issue
from evalreg.estimate import Estimate
from evalreg.inference.joint_power import critical_value
from evalreg.inference.wald import JointTest, few_notes, joint_test, joint_test_p
from evalreg.report.summaries import covariance_text
from evalreg.report.tables import Grid, Printed, Summary, number, p_value
from evalreg.results.results import Results

# What is left of a column of the restricted design after that of the full one, as a share of its spread and of its
# size: less is rounding.
OUTSIDE, ROUNDING = 1e-8, 1e-13
# Entries of the coefficients of one design on the other below this share of the largest are zero.
ABSENT = 1e-8


@dataclass(frozen=True)
class NestedTest(Printed):
    """A joint test of what a restricted regression leaves out of a full one; made by `ftest`, immutable.

    Parameters
    ----------
    statistic : float
        F; NaN where the clusters leave no test (`reason`).
    df_num, df_denom : float
        Degrees of freedom; `df_denom` is inf where the reference is chi-squared over `df_num`.
    pvalue : float
        Of F(df_num, df_denom).
    left_out : tuple of str
        Coefficients of the full regression that the restricted one puts at zero; empty where it restricts combinations
        of them.
    full, restricted : str
        Their formulas.
    covariance : str
        That of the full regression, which the test uses.
    nobs : int
        Rows, the same in both.
    classical_statistic, classical_df_denom, classical_pvalue : float
        The F test for independent rows of equal variance, from the sums of squares; NaN for GLMs.
    reason : str
        Why there is no test; empty otherwise.
    note : str
        What so few clusters cannot tell; empty where they are enough.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> full = er.fit("score ~ n_words + subject", log, groups="passage")
    >>> er.ftest(full, er.fit("score ~ n_words", log, groups="passage")).left_out
    ('subject[T.law]', 'subject[T.medicine]', 'subject[T.physics]')
    """

    statistic: float
    df_num: int
    df_denom: float
    pvalue: float
    left_out: tuple[str, ...]
    full: str
    restricted: str
    covariance: str
    nobs: int
    classical_statistic: float
    classical_df_denom: float
    classical_pvalue: float
    reason: str = ""
    note: str = ""

    def to_frame(self, alpha: float = 0.05) -> pd.DataFrame:
        """One row a test: as the covariance says, and for independent rows of equal variance where there is one.

        Parameters
        ----------
        alpha : float, optional
            Level of `critical`.

        Returns
        -------
        DataFrame
            Columns F, df_num, df_denom, p_value and `critical`, the F from which the test rejects.
        """
        fraction("alpha", alpha)
        rows = {"as reported": (self.statistic, self.df_denom, self.pvalue)}
        if not np.isnan(self.classical_statistic):
            own = (self.classical_statistic, self.classical_df_denom, self.classical_pvalue)
            rows["independent rows"] = own
        made = [(F, self.df_num, dof, p, critical_value(self.df_num, dof, alpha)) for F, dof, p in rows.values()]
        columns = ["F", "df_num", "df_denom", "p_value", "critical"]
        return pd.DataFrame(made, index=list(rows), columns=columns)

    def summary(self, alpha: float = 0.05) -> Summary:
        """The test in words, beside the one for independent rows.

        Parameters
        ----------
        alpha : float, optional
            Level.

        Returns
        -------
        Summary
            Prints as text of 80 columns; also `as_markdown()`, `as_latex()` and `as_html()`.
        """
        facts = (
            ("Full", self.full),
            ("Restricted", self.restricted),
            ("Rows", str(self.nobs)),
            ("Covariance", self.covariance),
        )
        rows = tuple(
            (name, number(F), f"{q}", f"{dof:.1f}", p_value(p, alpha), number(critical))
            for name, F, q, dof, p, critical in self.to_frame(alpha).itertuples()
        )
        headers = ("test", "F", "df_num", "df_denom", "p", f"rejects from ({100 * alpha:.4g}%)")
        return Summary("the test of nested regressions", facts, (Grid(headers, rows),), self._sentences())

    def __repr__(self) -> str:
        return str(self.summary())

    def _sentences(self) -> tuple[str, ...]:
        what = f"that {listed(self.left_out)} {'is' if self.df_num == 1 else 'are'} zero"
        if not self.left_out:
            what = f"{self.df_num} restriction{'' if self.df_num == 1 else 's'} on combinations of the coefficients"
        said = [f"Tested: {what}.", *(["df_denom inf: chi-squared over df_num."] if np.isinf(self.df_denom) else [])]
        if self.reason:
            said.append(f"No test: {self.reason}.")
        if not np.isnan(self.classical_statistic):
            said.append(
                "Independent rows: the F test of the sums of squares, for rows that are independent and vary alike."
            )
        return (*said, self.note) if self.note else tuple(said)


def ftest(full: Results, restricted: Results) -> NestedTest:
    """Joint test of what a restricted regression leaves out of a full one, under the covariance of the full one.

    It is the `wald_test` of the full regression: under CR2 the approximate Hotelling test HTZ, otherwise F(q, G - 1).
    The restricted one says by its columns what is tested, which may be combinations of coefficients.

    Parameters
    ----------
    full, restricted : Results
        Regressions of the same scores on the same rows, with the same weights, clusters, family and absorbed factors.
        The columns of the restricted design must be combinations of those of the full one.

    Returns
    -------
    NestedTest
        Prints as a table. With few clusters its `note`, also a warning, names the axis and what it cannot tell.

    Raises
    ------
    ArgumentTypeError
        If one of them is not a result.
    AlignmentError
        If rows, scores, weights or clusters differ; the message counts them.
    ArgumentError
        If the restricted regression is not nested, or has as many columns as the full one.
    NotAvailableError
        If one of them does not hold its design: means, contrasts, copies and unpickled results.
    TooFewClustersError
        As in `Results.wald_test`.

    References
    ----------
    Pustejovsky and Tipton (2018), JBES 36(4), section 3.2, for HTZ. The test for independent rows is that of
    statsmodels' `compare_f_test`.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.passages(n_passages=40, questions_per_passage=5, seed=3)
    >>> full = er.fit("score ~ n_words + subject", log, groups="passage")
    >>> test = er.ftest(full, er.fit("score ~ n_words", log, groups="passage"))
    >>> print(test.to_frame().round(2).to_string())
                         F  df_num  df_denom  p_value  critical
    as reported       0.15       3     21.62     0.93      3.06
    independent rows  0.28       3    195.00     0.84      2.65
    """
    for name, one in (("full", full), ("restricted", restricted)):
        if not isinstance(one, Results):
            raise ArgumentTypeError(f"`{name}` must be results of a regression; got {type(one).__name__}.")
    big, small = _read(full.estimate, "full"), _read(restricted.estimate, "restricted")
    _check_alike(full, restricted, big, small)
    C, left_out = restrictions(big.design, small.design, full.estimate.names, restricted.estimate.names)
    test = joint_test(full.estimate, full.cov, C)
    issue(few_notes(test))
    classical = _classical(full.estimate, big, small, C.shape[0])
    return NestedTest(
        statistic=test.statistic,
        df_num=test.df_num,
        df_denom=test.df_denom,
        pvalue=joint_test_p(test),
        left_out=left_out,
        full=full.estimate.about.formula or full.estimate.about.model,
        restricted=restricted.estimate.about.formula or restricted.estimate.about.model,
        covariance=covariance_text(full.cov),
        nobs=full.nobs,
        classical_statistic=classical.statistic,
        classical_df_denom=classical.df_denom,
        classical_pvalue=joint_test_p(classical),
        reason=test.reason,
        note=test.note,
    )


@dataclass(frozen=True, eq=False)
class _Regression:
    """What two regressions are compared by."""

    design: FloatArray  # (n_rows, k); of what is left within levels where factors are absorbed
    outcome: FloatArray  # (n_rows,)
    weights: FloatArray | None
    residual: FloatArray | None  # times the root of the weights; None of GLMs
    family: str


def _read(estimate: Estimate, name: str) -> _Regression:
    """The design, scores and weights of a regression."""
    if estimate.absorbed is not None and not estimate.about.contrast:
        scores: Any = estimate.scores
        weights = estimate.absorbed.weights
        root = 1.0 if weights is None else np.sqrt(weights)[:, None]
        X = scores.design @ np.linalg.inv(np.asarray(estimate.coefficient_map)) / root
        residual = scores.residual if weights is None else scores.residual / np.sqrt(weights)
        return _Regression(X, X @ estimate.params + residual, weights, scores.residual, "least squares")
    if estimate.fitted is None:
        raise NotAvailableError(
            f"`{name}` does not hold the design that nested regressions are compared by: `ftest` takes results of "
            "`fit` and of `from_statsmodels` (means, contrasts, copies, unpickled results and fits of rows in an "
            "engine do not hold it). Fit it by formula, of rows in memory; `wald_test` tests coefficients by name."
        )
    from statsmodels.regression.linear_model import OLS, WLS

    model = estimate.fitted().model
    X, y = np.asarray(model.exog, dtype=float), np.asarray(model.endog, dtype=float)
    if X.shape[1] != estimate.n_params or y.ndim != 1:
        raise NotAvailableError(
            f"`{name}` has {estimate.n_params} parameters and a design of {X.shape[1]} columns; `ftest` is for models "
            "with one coefficient a column. Use `wald_test` on coefficients by name."
        )
    weights = getattr(model, "weights", None) if isinstance(model, WLS) else getattr(model, "var_weights", None)
    weights = None if weights is None or np.ndim(weights) == 0 else np.asarray(weights, dtype=float)
    if isinstance(model, OLS | WLS):
        residual = y - X @ estimate.params
        return _Regression(X, y, weights, residual if weights is None else residual * np.sqrt(weights), "least squares")
    family = getattr(model, "family", model)
    link = type(getattr(family, "link", None)).__name__
    return _Regression(X, y, weights, None, f"{type(family).__name__} ({link} link)")


def _check_alike(full: Results, restricted: Results, big: _Regression, small: _Regression) -> None:
    """Refuse regressions of other rows, scores, weights, clusters, families or absorbed factors."""
    _check_kind(full.estimate, restricted.estimate, big, small)
    _check_rows(full.estimate, restricted.estimate)
    scale = float(np.max(np.abs(big.outcome)))
    _refuse(np.abs(big.outcome - small.outcome) > 1e-9 * scale, "scores", "Fit both to the same scores.")
    one, other = (np.ones(big.outcome.size) if w is None else w / np.mean(w) for w in (big.weights, small.weights))
    _refuse(np.abs(one - other) > 1e-9 * np.maximum(one, other), "weights", "Fit both with the same `weights`.")
    _check_groups(full, restricted)


def _check_kind(full: Estimate, restricted: Estimate, big: _Regression, small: _Regression) -> None:
    if big.family != small.family:
        raise ArgumentError(f"nested regressions are of one family; got {big.family} and {small.family}.")
    pair = [one.absorbed.text if one.absorbed else "nothing" for one in (full, restricted)]
    if pair[0] != pair[1]:
        raise ArgumentError(
            f"nested regressions absorb the same factors; `full` absorbs {pair[0]}, `restricted` {pair[1]}. Put the "
            "same behind the bar of both, or write the factor as C(...) in `full` to test its levels."
        )


def _check_rows(full: Estimate, restricted: Estimate) -> None:
    labels = full.scores.row_labels(), restricted.scores.row_labels()
    places = [
        np.arange(one.n_rows) if own is None else own.positions()
        for one, own in zip((full, restricted), labels, strict=True)
    ]
    if places[0].size == places[1].size and np.array_equal(places[0], places[1]):
        return
    only = [np.setdiff1d(places[0], places[1]), np.setdiff1d(places[1], places[0])]
    first = [f" (the first is row {rows[0]})" if rows.size else "" for rows in only]
    raise AlignmentError(
        f"nested regressions use the same rows; `full` uses {places[0].size} and `restricted` {places[1].size}: "
        f"{only[0].size} are in `full` alone{first[0]} and {only[1].size} in `restricted` alone{first[1]}. Leave rows "
        "with a missing covariate of either formula out of the data before both fits, as in data.dropna(subset=[...]).",
        rows=[int(row) for row in np.concatenate(only)[:5]],
        count=int(only[0].size + only[1].size),
    )


def _refuse(differ: Any, what: str, advice: str) -> None:
    if differ.any():
        rows, count = row_list(differ)
        raise AlignmentError(
            f"nested regressions have the same {what}; they differ in {rows_text(rows, count)} of those in use. "
            f"{advice}",
            rows=rows,
            count=count,
        )


def _check_groups(full: Results, restricted: Results) -> None:
    """Refuse clusters that differ: a restricted model under other clusters was meant for another question."""
    sizes = [
        {axis_name(axis): one.estimate.scores.n_clusters(axis) for axis in one.cov.axes} for one in (full, restricted)
    ]
    same = sizes[0] == sizes[1]
    labels = full.estimate.scores.row_labels(), restricted.estimate.scores.row_labels()
    if same and labels[0] is not None and labels[1] is not None:
        pairs = [(labels[0].codes(axis).codes, labels[1].codes(axis).codes) for axis in full.cov.axes]
        same = all(len(np.unique(np.column_stack(pair), axis=0)) == len(np.unique(pair[0])) for pair in pairs)
    if not same:
        said = [", ".join(f"{count} {name}" for name, count in one.items()) or "none" for one in sizes]
        raise AlignmentError(
            f"nested regressions have the same clusters; `full` has {said[0]}, `restricted` {said[1]}"
            f"{' of the same name but with other rows' if said[0] == said[1] else ''}. Pass the same `groups` to both, "
            "or use `with_cov(groups=...)`."
        )


def restrictions(
    full: FloatArray, restricted: FloatArray, names: tuple[str, ...], own: tuple[str, ...]
) -> tuple[FloatArray, tuple[str, ...]]:
    """C with C b = 0 where the full design times b is in the restricted column space, and coefficients left out.

    X_r = X_f A where it is nested; what A leaves free is the orthogonal complement of its columns. Shapes: full (n, k),
    restricted (n, m), C (k - m, k).
    """
    k, m = full.shape[1], restricted.shape[1]
    sizes = np.linalg.norm(full, axis=0)
    Q, R = np.linalg.qr(full / sizes)
    A = np.linalg.solve(R, Q.T @ restricted)
    rest = np.linalg.norm(restricted - (full / sizes) @ A, axis=0)
    size = np.linalg.norm(restricted, axis=0)
    spread = np.linalg.norm(restricted - restricted.mean(axis=0), axis=0)
    spread = np.where(spread > ROUNDING * size, spread, size)
    outside = rest > OUTSIDE * spread + ROUNDING * size
    if outside.any():
        share = float(np.max(rest[outside] / spread[outside]))
        lost = [name for name, out in zip(own, outside, strict=True) if out]
        raise ArgumentError(
            f"`restricted` must be nested in `full`; {listed(lost)} {'is' if len(lost) == 1 else 'are'} no combination "
            f"of the columns of `full` ({share:.2g} of the spread is left). Add to `full` what `restricted` has, or "
            "compare regressions that are not nested by their predictions."
        )
    if k == m:
        raise ArgumentError(
            f"`full` must have more coefficients than `restricted`; both have {k}, of the same column space, so that "
            "nothing is left out. Pass the larger regression first."
        )
    A = A / size
    absent = np.max(np.abs(A), axis=1) <= ABSENT * np.max(np.abs(A))
    if np.count_nonzero(absent) == k - m:
        return np.eye(k)[absent], tuple(name for name, out in zip(names, absent, strict=True) if out)
    complement = np.linalg.svd(A, full_matrices=True)[0][:, m:].T
    # Of b itself: the columns above were scaled.
    return complement * sizes, ()


def _classical(estimate: Estimate, big: _Regression, small: _Regression, q: int) -> JointTest:
    """F of the sums of squares, n - k degrees of freedom."""
    if big.residual is None or small.residual is None:
        return JointTest(float("nan"), q, float("nan"))
    k = estimate.n_params if estimate.absorbed is None else estimate.n_coefficients
    left = float(big.residual @ big.residual)
    dof = float(estimate.n_rows - k)
    return JointTest((float(small.residual @ small.residual) - left) / q / (left / dof), q, dof)

"""What a panel of judges is worth: its effective number of judges, best weights, and what each of them adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evalreg.checks import MISSING, CovName, DofName, FloatArray, MissingName, RepairName, SscName, listed, option
from evalreg.covariance.options import check_cov_options, documented
from evalreg.data.groups import Groups
from evalreg.errors import ArgumentError, CollinearityError, DataError
from evalreg.estimate import About
from evalreg.estimators.cells import split_rows
from evalreg.estimators.functions_of_means import from_row_influence
from evalreg.estimators.subsets import chooses_rows
from evalreg.results.results import Results, results_of


@chooses_rows()
@documented
def panel(
    data: Any,
    *,
    judges: Sequence[str],
    human: str | None = None,
    groups: Groups = None,
    subset: str | None = None,
    missing: MissingName = "drop",
    cov: CovName | None = None,
    ssc: SscName | None = None,
    dof: DofName | float | None = None,
    repair: RepairName | None = None,
) -> Results:
    """What a panel of judges is worth, from the errors that they make together.

    Errors are verdict less label, centred by judge, with covariance S. J judges whose errors correlate by r on average
    are worth J/(1 + (J - 1) r) that err independently (Kish). Weights S^-1 1/(1'S^-1 1) give the mean verdict with the
    smallest error variance v = 1/(1'S^-1 1); judge j is worth 1 - v/v_(-j), the share of the error variance of the best
    panel without j that j takes away.

    Parameters
    ----------
    data : data frame
        One row an item, one column a judge, in memory: pandas, polars, pyarrow; or a dict of arrays.
    judges : list of str
        Columns of the verdicts, at least two, all on one scale.
    human : str, optional
        Column of the labels. Without it the verdicts stand for the errors: what judges share because it is right counts
        as shared error, so that the effective number is a lower bound.
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `mean`; independent rows by default.
    subset : str, optional
        Which rows to use, in the language of ``--where``; frames in memory only.
    missing : {"drop", "raise"}, optional
        What to do with rows that lack a verdict, a label or a cluster id; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default with groups, "naive" without.
    <ssc>
    <dof>
        Degrees of freedom, as in `mean`.
    <repair>

    Returns
    -------
    Results
        Named "n_eff", "correlation", "weight:JUDGE" and "worth:JUDGE".

    Raises
    ------
    ArgumentError, MissingColumnError
        If there are fewer than two judges, one is named twice, or is no column.
    DataError
        If a judge makes no error that varies. CollinearityError, which is one, if errors of one are a combination of
        those of others.

    References
    ----------
    Kish (1965), Survey Sampling, section 5.4; Kohli (2026), arXiv:2605.29800 (effective votes of judges); Bates and
    Granger (1969), Operational Research Quarterly 20, 451-468 (weights).

    Examples
    --------
    >>> import evalreg as er, numpy as np, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.normal(size=400)
    >>> log = pd.DataFrame({name: shared + rng.normal(size=400) for name in "abc"}).assign(label=0.0)
    >>> er.panel(log, judges=["a", "b", "c"], human="label").params[["n_eff", "correlation"]].round(2).to_dict()
    {'n_eff': 1.45, 'correlation': 0.53}
    """
    asked = check_cov_options(cov, ssc, dof, repair)
    option("missing", missing, MISSING)
    names = [judges] if isinstance(judges, str) else list(judges)
    columns = [*names, *([] if human is None else [human])]
    if len(names) < 2 or len(set(columns)) < len(columns):
        raise ArgumentError(f"`judges` and `human` must be at least two columns and another; got {listed(columns)}.")
    split = split_rows(data, dict(zip(columns, columns, strict=True)), None, groups, None, missing, "panel")
    verdicts = np.column_stack([split.rows.values[name] for name in names])
    errors = verdicts if human is None else verdicts - split.rows.values[human][:, None]
    errors = errors - errors.mean(axis=0)
    S = _covariance(errors, names)
    parts = [_effective(errors, S), *_shares(errors, S)]
    values, influence = np.concatenate([part[0] for part in parts]), np.column_stack([part[1] for part in parts])
    alone = "Without labels what judges share because it is right counts as shared error: n_eff is a lower bound."
    line = alone if human is None else f"{len(names)} judges; correlations are of their errors against {human}."
    labels = ("n_eff", "correlation", *(f"{kind}:{name}" for kind in ("weight", "worth") for name in names))
    about = About("Panel of judges", human or "verdicts", lines=(line,))
    estimate = from_row_influence(split, values, influence, labels, about)
    return results_of(estimate, split.rows.axes, asked)


def _covariance(errors: FloatArray, names: list[str]) -> FloatArray:
    """Covariance of the errors of judges, of which none is without, and none determined by others."""
    S: FloatArray = errors.T @ errors / len(errors)
    flat = [name for name, variance in zip(names, np.diag(S), strict=True) if not variance > 0]
    if flat:
        text = f"every judge must err; {listed(flat)} has no error that varies: the best panel is that judge alone."
        raise DataError(text, column=flat[0], count=len(flat))
    r = np.corrcoef(errors.T)
    if np.linalg.matrix_rank(r, hermitian=True) < len(names):
        alike = [names[i] for i in sorted(np.argsort(np.abs(np.linalg.eigh(r)[1][:, 0]))[-2:])]
        text = f"errors of judges must not determine each other; those of {listed(alike)} do. Leave one of them out."
        raise CollinearityError(text, column=alike[0])
    return S


def _effective(errors: FloatArray, S: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Kish's number and the mean correlation, (2,), and n times the influence of each row, (n_rows, 2)."""
    z = errors / np.sqrt(np.diag(S))
    n_judges, correlations = z.shape[1], z.T @ z / len(z)
    pairs = n_judges * (n_judges - 1) / 2
    r = float((correlations.sum() - n_judges) / 2 / pairs)
    # Of one correlation z_i z_j - r_ij (z_i^2 + z_j^2)/2, summed over pairs.
    products = (z.sum(axis=1) ** 2 - (z**2).sum(axis=1)) / 2
    of_r = (products - (z**2) @ (correlations.sum(axis=1) - 1) / 2) / pairs
    worth = 1 + (n_judges - 1) * r
    slope = -n_judges * (n_judges - 1) / worth**2
    return np.array([n_judges / worth, r]), np.column_stack([slope * of_r, of_r])


def _best(errors: FloatArray, S: FloatArray) -> tuple[FloatArray, float, FloatArray, FloatArray]:
    """Best weights w, the variance v that they leave, and n times the influence of each row on both.

    dw = -S^-1 dS w + w (w'dS w)/v and dv = w'dS w, with dS = e e' - S for a row of errors e.
    """
    inverse = np.linalg.inv(S)
    v = 1.0 / float(inverse.sum())
    w = v * inverse.sum(axis=1)
    along = errors @ w
    of_v = along**2 - v
    return w, v, w + np.outer(of_v / v, w) - along[:, None] * (errors @ inverse), of_v


def _shares(errors: FloatArray, S: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
    """Weights, and what each judge is worth, with n times the influence of each row."""
    w, v, of_w, of_v = _best(errors, S)
    worth, of_worth = np.empty(w.size), np.empty(errors.shape)
    for j in range(w.size):
        rest = np.delete(np.arange(w.size), j)
        _, without, _, of_without = _best(errors[:, rest], S[np.ix_(rest, rest)])
        worth[j] = 1 - v / without
        of_worth[:, j] = v * of_without / without**2 - of_v / without
    return [(w, of_w), (worth, of_worth)]

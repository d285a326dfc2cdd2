"""What judges' errors cost: prevalences corrected for them, and what a panel of judges is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, Unpack, cast

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import FloatArray, issue, listed
from evalreg.choices import EstimatorOptions, MissingName
from evalreg.covariance.options import CovOptions, requested_options, resolve_cov
from evalreg.covariance.terms import assemble
from evalreg.data.clusters import Groups, known_columns, parse_groups, refuse_same, with_roles
from evalreg.data.frame import Table, open_frame, rows_in_memory
from evalreg.data.rows import ReadRows, cells_of, joint_names, read_rows
from evalreg.errors import (
    ArgumentError,
    ArgumentTypeError,
    CollinearityError,
    DataError,
    EvalregError,
    Note,
    RectificationWarning,
    ZeroVarianceWarning,
)
from evalreg.estimate import About, Estimate, Family
from evalreg.estimators.cells import (
    Split,
    from_row_influence,
    function_of,
    independence_note,
    means_of_cells,
    refuse_unless_binary,
    split_rows,
    titled,
)
from evalreg.estimators.design import Design
from evalreg.estimators.solving import solve_linear
from evalreg.inference.intervals import Behind, Ratios
from evalreg.numerics.limits import CONSTANT
from evalreg.results.results import Results, estimator, results_of

OF_TRUTH = ("specificity", "sensitivity")


@estimator
def judge_corrected(
    data: Any,
    *,
    judge: str,
    calibration: Any,
    human: str,
    by: str | list[str] | None = None,
    groups: Groups = None,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Results:
    """Shares of positive answers, corrected for the errors of a judge that a calibration set shows.

    theta = (p + q0 - 1)/(q0 + q1 - 1), with p the share that the judge calls positive, q0 its specificity and q1 its
    sensitivity on the calibration set (Rogan and Gladen). The judge errs on the data as it does there. All values share
    q0 and q1, which is in their covariance: a difference of two models is surer than two intervals suggest.

    Parameters
    ----------
    data : data frame
        One row an answer, in memory: pandas, polars, pyarrow; or a dict of arrays.
    judge : str
        Column of the judge's verdicts, 0 or 1, in `data` and in `calibration`.
    calibration : data frame
        Rows with the verdict of the judge and the truth; other rows than those of `data`.
    human : str
        Column of the truth in `calibration`, 0 or 1.
    by : str or list of str, optional
        Columns of `data` (the model) whose joint values have a share each.
    groups : str or list of str, optional
        Clusters: columns of both frames. A label that is in both is one cluster.
    subset : str, optional
        Which rows of `data` to use, in the language of ``--where``; frames in memory only.
    missing : {"drop", "raise"}, optional
        What to do with rows of either frame where something is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default with groups, "naive" without.
    <ssc>
    <dof>
        Degrees of freedom, as in `mean`.
    <repair>

    Returns
    -------
    Results
        Named by the labels of `by`, or "mean". Estimates are not clipped; `conf_int()` is Fieller's, within [0, 1]. A
        share on which all verdicts agree has no variance; in `conf_int()` it counts with its own interval.

    Raises
    ------
    DataError
        If sensitivity + specificity - 1 may be 0 (its 95% interval contains 0), or no calibration row is truly
        positive, or none negative. ScoreRangeError, which is one, if a verdict is neither 0 nor 1.
    MissingColumnError, ArgumentTypeError, EmptyDataError, TooFewClustersError
        If columns or rows are not there.

    References
    ----------
    Rogan and Gladen (1978), American Journal of Epidemiology 107, 71-76; Lee et al. (2025), arXiv:2511.21140; Fieller
    (1954), JRSS B 16, 175-185. `plan.labels` splits the labels of a calibration set.

    Examples
    --------
    >>> import evalreg as er
    >>> truth = [1] * 50 + [0] * 50
    >>> calibration = {"label": truth, "verdict": [1] * 45 + [0] * 5 + [0] * 40 + [1] * 10}
    >>> log = {"verdict": [1] * 55 + [0] * 45}
    >>> results = er.judge_corrected(log, judge="verdict", calibration=calibration, human="label")
    >>> results.params.round(3).to_dict()
    {'mean': 0.5}
    """
    requested = requested_options(options)
    refuse_same({"judge": judge, "human": human})
    table, by_columns = with_roles(rows_in_memory(data, "`judge_corrected`"), {"judge": judge}, by=by)
    if groups is not None:
        parse_groups(groups, table.columns)
    answers = read_rows(table, {"judge": judge}, labels=dict.fromkeys(by_columns, "by"), groups=groups, missing=missing)
    _refuse_other(answers.values["judge"], judge)
    known = _labelled_rows(calibration, judge, human, groups, missing)
    split, values = _together(answers, known, judge, by_columns, groups)
    means, n = means_of_cells(split, values, judge), len(split.names) - 2
    _refuse_chance(means, split, requested)
    right = np.array(means.params)[n:]
    # (p + q0 - 1)/(q0 + q1 - 1)
    numerator = np.hstack([np.eye(n), np.tile([1.0, 0.0], (n, 1))])
    denominator = np.hstack([np.zeros((n, n)), np.ones((n, 2))])
    family = Ratios(means, np.arange(n), numerator, denominator, np.full((n, 2), -1.0), (0.0, 1.0))
    line = f"{human} against {judge}: specificity {right[0]:.3f}, sensitivity {right[1]:.3f}; Fieller's intervals."
    title, n_models = titled("Mean corrected for a judge", by_columns), n if by_columns else 0
    about = About(title, judge, lines=(line,), n_models=n_models, levels=True)
    estimate = function_of(means, *family.values(), split.names[:n], about, family)
    notes: list[Note] = list(independence_note(by, groups))
    if flat := list(compress(split.names, np.isin(means.params, (0.0, 1.0)))):
        text = f"the verdicts behind {listed(flat)} are all alike: standard errors take such a share for known"
        notes.append((ZeroVarianceWarning, f"{text}, conf_int() does not. Judge or label more answers there."))
    results = results_of(estimate, split.rows.axes, requested, tuple(notes))
    if outside := list(compress(split.names, np.ptp(results.conf_int().to_numpy(), axis=1) == 0)):
        text = f"no share of positive answers fits the verdicts on {listed(outside)}: the interval lies outside [0, 1]"
        note = (RectificationWarning, f"{text}. The judge seems to err otherwise here than on `calibration`.")
        issue([note])
        results = replace(results, notes=(*results.notes, note))
    return results


def _labelled_rows(calibration: Any, judge: str, human: str, groups: Groups, missing: MissingName) -> ReadRows:
    """Rows of the calibration set; errors say that they are about it."""
    try:
        table = rows_in_memory(calibration, "a calibration set")
        rows = read_rows(table, {"judge": judge, "human": human}, groups=groups, missing=missing)
        _refuse_other(rows.values["judge"], judge)
        _refuse_other(rows.values["human"], human)
        for value, what in enumerate(OF_TRUTH):
            if not (rows.values["human"] == value).any():
                text = f"sensitivity and specificity are of both truths; the {what} needs rows with {human!r} = {value}"
                raise DataError(f"{text}, and there are none. Label such answers too.", column=human, count=0)
    except EvalregError as error:
        error.message = error.message.replace("`data`", "`calibration`") + " (This is about `calibration`.)"
        raise
    return rows


def _refuse_other(values: FloatArray, column: str) -> None:
    """Refuse labels that are neither 0 nor 1."""
    refuse_unless_binary(values, column, "sensitivity and specificity are of labels 0 and 1")


def _together(
    answers: ReadRows, known: ReadRows, judge: str, by: tuple[str, ...], groups: Groups
) -> tuple[Split, FloatArray]:
    """Rows of both frames as one: verdicts in cells by model; and whether they are right, by the truth."""
    for name in answers.held:
        texts = [{isinstance(label, str) for label in rows.used[name].labels} for rows in (answers, known)]
        if texts[0].isdisjoint(texts[1]):
            text = f"{name!r} holds text in one of `data` and `calibration`, and numbers or the like in the other"
            raise ArgumentTypeError(f"{text}, so that no cluster could be in both. Make them alike first.", column=name)
    sides, verdicts, truth = (answers.source, known.source), answers.values["judge"], known.values["human"]
    shared = [name for name in sides[0].table.columns if name in sides[1].table.columns]
    both = pd.concat([side.table.to_pandas(shared).iloc[side.places()] for side in sides], ignore_index=True)
    keys, cell = cells_of(answers.used, by)
    part = np.append(np.zeros(verdicts.size) if cell is None else cell, len(keys) + truth).astype(np.intp)
    right = {judge: np.append(verdicts, known.values["judge"] == truth)}
    rows = read_rows(Table(nw.from_native(both)), right, groups=groups)
    rows = replace(rows, dropped={reason: count + known.dropped[reason] for reason, count in answers.dropped.items()})
    return Split(rows, (*joint_names(keys), *OF_TRUTH), part), rows.values[judge]


def _refuse_chance(means: Estimate, split: Split, requested: CovOptions) -> None:
    """Refuse a judge that may be no better than chance: the correction would divide by what may be 0."""
    axes = split.rows.axes
    cov = assemble(means, axes or (), resolve_cov(requested, axes is not None, default="CR2"))
    C = np.append(np.zeros(means.n_params - 2), [1.0, 1.0])[None]
    slope, half = float((C @ means.params)[0]) - 1.0, float(np.nan_to_num(cov.half_width(C)[0]))
    if not abs(slope) > half:
        text = f"sensitivity + specificity - 1 of the judge must differ from 0; it is {slope:.3f} +- {half:.3f} (95%)"
        raise DataError(f"{text}: nothing that could be corrected. Label more answers, or take another judge.")


@estimator
def panel(
    data: Any,
    *,
    judges: Sequence[str],
    human: str | None = None,
    groups: Groups = None,
    missing: MissingName = "drop",
    **options: Unpack[EstimatorOptions],
) -> Results:
    """How many independent judges a panel is worth, from the errors that its judges share.

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
        Named "n_eff", "correlation", "weight:JUDGE" and "worth:JUDGE". `conf_int()` of weights is that of a regression,
        of the others on Fisher's z scale; a judge is worth nothing where its weight may be 0.

    Raises
    ------
    ArgumentError, MissingColumnError
        If there are fewer than two judges, one is named twice, or is no column.
    DataError
        If a judge makes no error that varies. CollinearityError, which is one, if errors of one are a combination of
        those of others.

    References
    ----------
    Kish (1965), Survey Sampling, section 5.4; Kohli (2026), arXiv:2605.29800 (effective votes of judges); Fisher
    (1925), Statistical Methods for Research Workers, section 39 (z); Bates and Granger (1969), Operational Research
    Quarterly 20, 451-468 (weights).

    Examples
    --------
    >>> import evalreg as er, numpy as np, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> shared = rng.normal(size=400)
    >>> log = pd.DataFrame({name: shared + rng.normal(size=400) for name in "abc"}).assign(label=0.0)
    >>> er.panel(log, judges=["a", "b", "c"], human="label").params[["n_eff", "correlation"]].round(2).to_dict()
    {'n_eff': 1.45, 'correlation': 0.53}
    """
    requested = requested_options(options)
    table = open_frame(data)
    names = list(known_columns(list(judges) if np.ndim(judges) else judges, table.columns, "judges"))
    columns = [*names, *known_columns(human, table.columns, "human")]
    if len(names) < 2 or len(set(columns)) < len(columns):
        raise ArgumentError(f"`judges` and `human` must be at least two columns and another; got {listed(columns)}.")
    split = split_rows(table, dict(zip(columns, columns, strict=True)), None, groups, None, missing, "panel")
    verdicts = np.column_stack([split.rows.values[name] for name in names])
    errors = verdicts if human is None else verdicts - split.rows.values[human][:, None]
    errors = errors - errors.mean(axis=0)
    # What is left of an error that is the same in all rows is rounding.
    errors[:, np.ptp(errors, axis=0) <= CONSTANT * np.abs(verdicts).max(axis=0)] = 0.0
    S = _covariance(errors, names)
    values, influence = _values(S), _influence(errors, S)
    alone = "Without labels what judges share because it is right counts as shared error: n_eff is a lower bound."
    line = alone if human is None else f"{len(names)} judges; correlations are of their errors against {human}."
    labels = ("n_eff", "correlation", *(f"{kind}:{name}" for kind in ("weight", "worth") for name in names))
    about = About("Panel of judges", human or "verdicts", lines=(line,))
    behind = from_row_influence(split, values, influence, labels, about)
    # What judges are worth are squares of the last.
    is_root = np.arange(values.size) >= 2 + len(names)
    worth, moves = np.where(is_root, values**2, values), np.where(is_root, 2 * values, 1.0)
    estimate = from_row_influence(split, worth, influence * moves, labels, about)
    family = Panel(behind, np.arange(values.size), _regression(errors, names, split))
    return results_of(replace(estimate, family=family), split.rows.axes, requested)


@dataclass(frozen=True, eq=False)
class Panel(Behind):
    """What a panel is worth; behind it, in place of what judges are worth, the roots of that, signed as their weights.

    Weights are coefficients of a regression, and have its intervals: its leverages are those of several coefficients. A
    root is a partial correlation, whose error is that of the weight in proportion. Correlations are on Fisher's scale.
    """

    interval_rule = "on Fisher's z scale, of weights as in a regression"
    regression: Estimate

    def with_labels(self, more: dict[str, Any]) -> Family:
        """The same with further columns of labels."""
        scores = self.regression.scores.with_labels(more)
        return replace(cast(Panel, super().with_labels(more)), regression=replace(self.regression, scores=scores))

    def ends(self, estimate: Estimate, cov: Any, alpha: float | FloatArray) -> FloatArray:
        """Both ends of every value, shape (n_values, 2)."""
        behind, J, level = self.covariance(cov), self.regression.n_params, np.broadcast_to(alpha, self.at.shape)
        if "regression" not in behind.cache:
            # Independent rows may err unequally.
            options = replace(cov.options, cov="HC2") if cov.options.cov == "naive" else cov.options
            behind.cache["regression"] = assemble(self.regression, cov.axes, options)
        fitted, judge, se = behind.cache["regression"], np.eye(J)[(self.at - 2) % J], np.sqrt(behind.variance())
        plain, of_weight = cov.critical(alpha=level) * se[self.at], judge @ se[2 : 2 + J]
        half = fitted.critical(judge, level) * np.sqrt(fitted.variance(judge)) / of_weight * se[self.at]
        half = np.where((self.at < 2) | np.isnan(half), plain, half)
        value, reach = np.array(self.behind.params)[self.at, None], half[:, None] * [-1, 1]
        ends, (n_eff, r) = value + reach, self.behind.params[:2]
        # Fisher's z of intraclass correlations: twice that is the log of (1 + (J - 1) r)/(1 - r) = (J - 1)/(n_eff - 1).
        odds = (J - 1) / (n_eff - 1)
        number, correlation, is_root = self.at == 0, self.at == 1, self.at >= 2 + J
        ends[number] = 1 + (n_eff - 1) * np.exp(reach[number] / (n_eff - 1))
        ends[correlation] = 1 - J / (odds * np.exp(reach[correlation] * n_eff / (1 - r)) + J - 1)
        root = value[is_root]
        roots = np.tanh(np.arctanh(root) + reach[is_root] / (1 - root**2))
        least = np.where(roots[:, 0] * roots[:, 1] > 0, np.abs(roots).min(axis=1), 0.0)
        ends[is_root] = np.column_stack([least, np.abs(roots).max(axis=1)]) ** 2
        return np.asarray(ends)


def _regression(errors: FloatArray, names: list[str], split: Split) -> Estimate:
    """Best weights by least squares: the error of the last judge on what those of the others are below it."""
    less, J = errors[:, -1:] - errors[:, :-1], len(names)
    design = Design(
        ("", *names[:-1]), None, np.ones((1, J)), tuple(less.T), np.arange(J), (), (), errors[:, -1], names[-1]
    )
    coefficients = solve_linear(design, split.rows.labels(), None, About(outcome=names[-1]))
    others = np.eye(J)[1:]
    return coefficients.linear(np.vstack([others, -others.sum(axis=0)]), names)


def _covariance(errors: FloatArray, names: list[str]) -> FloatArray:
    """Covariance of the errors of judges, of which none is without, and none determined by others."""
    S: FloatArray = errors.T @ errors / len(errors)
    flat = list(compress(names, ~(np.diag(S) > 0)))
    if flat:
        text = f"every judge must err; the error of {listed(flat)} is the same in all rows. Leave such a judge out."
        raise DataError(text, column=flat[0], count=len(flat))
    r = np.corrcoef(errors.T)
    if np.linalg.matrix_rank(r, hermitian=True) < len(names):
        alike = [names[i] for i in sorted(np.argsort(np.abs(np.linalg.eigh(r)[1][:, 0]))[-2:])]
        text = f"errors of judges must not determine each other; those of {listed(alike)} do. Leave one of them out."
        raise CollinearityError(text, column=alike[0])
    return S


def _values(S: FloatArray) -> FloatArray:
    """Kish's number, the mean correlation, the best weights w, and the roots of what judges are worth.

    v = 1/(1'S^-1 1) is the variance that w leaves, s_j^2 = 1/(S^-1)_jj that of the error of a judge about those of the
    others, and 1 - v/v_(-j) = w_j^2 s_j^2/v.
    """
    J, inverse, scale = len(S), np.linalg.inv(S), np.sqrt(np.diag(S))
    r = ((S / np.outer(scale, scale)).sum() - J) / (J * (J - 1))
    v = 1 / inverse.sum()
    w = v * inverse.sum(axis=1)
    return np.hstack([J / (1 + (J - 1) * r), r, w, w / np.sqrt(v * np.diag(inverse))])


def _influence(errors: FloatArray, S: FloatArray) -> FloatArray:
    """n times the influence of each row of errors e, (n_rows, n_values): the derivatives of the values along ee' - S.

    Derivatives by an imaginary step lose no digits: Squire and Trapp (1998), SIAM Review 40, 110-112.
    """
    n_judges, step = len(S), 1e-100
    entries = np.eye(n_judges**2).reshape(-1, n_judges, n_judges)
    G = np.array([_values(S + 1j * step * entry).imag / step for entry in entries]).T.reshape(-1, *S.shape)
    return np.column_stack([np.einsum("ri,ri->r", errors @ M, errors) - np.sum(M * S) for M in G])

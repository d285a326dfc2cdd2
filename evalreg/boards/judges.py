"""Judges set against each other: agreement, a board each, tastes, position bias."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import BoolArray, FloatArray, IntArray, counted, fraction, keeps, listed, quotient, whole_number
from evalreg.covariance.crossed import USUAL_LEVEL, t_pvalues
from evalreg.covariance.options import CovOptions, ResolvedCov, resolve_cov
from evalreg.covariance.special import FEW_CLUSTERS, LARGEST_SINGLE, sparsity
from evalreg.covariance.terms import assemble, errors_by_cell
from evalreg.data.clusters import Axis, Codes, Labels, as_codes, joint_parts, no_source, parse_groups
from evalreg.data.pairs import PairCells
from evalreg.data.rows import cells_of, joint_names
from evalreg.errors import ArgumentError, NotAvailableError, TooFewClustersError
from evalreg.estimate import of_means
from evalreg.inference.simultaneous import adjust_pvalues
from evalreg.numerics.limits import EQUAL, FULL_LEVERAGE
from evalreg.numerics.matrices import Matrix, compressed, difference_rows, scale_rows, transposed
from evalreg.report.tables import MOST_ROWS, Shown, Summary, number, show
from evalreg.scores.base import Cells, CellScores, cell_sums
from evalreg.scores.stacking import GONE, SummedPairScores

# What the clusters are called in here, whatever their columns.
CLUSTERS: Axis = ("prompt",)
Errors: TypeAlias = tuple[FloatArray, FloatArray]
"""Standard errors and degrees of freedom."""


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """Comparisons with their judges and prompts, pairs of models pooled over the strata of the board."""

    models: tuple[str, ...]  # names, sorted as text
    judges: tuple[str, ...]
    first: IntArray  # models of each pair
    second: IntArray
    pair: IntArray  # of each row
    judge: IntArray
    prompt: Codes
    values: FloatArray  # scores of the first model of the pair
    side: FloatArray  # 1 where that model was shown on the left, -1 where on the right
    weights: FloatArray | None = None

    @property
    def n_rows(self) -> int:
        """Comparisons."""
        return int(self.values.size)

    @property
    def n_pairs(self) -> int:
        """Pairs of models that met."""
        return int(self.first.size)

    @property
    def unit(self) -> Codes:
        """The (prompt, pair) of each row."""
        return as_codes(pd.factorize(self.prompt.codes * np.int64(self.n_pairs) + self.pair)[0].astype(np.intp))

    def by_judge(self, unit: Codes) -> tuple[IntArray, IntArray, IntArray]:
        """The unit and the judge of each verdict, sorted by both, and the verdict of each row."""
        n_judges = len(self.judges)
        keys, number = np.unique(unit.codes * np.int64(n_judges) + self.judge, return_inverse=True)
        return keys // n_judges, keys % n_judges, number

    def ahead(self, number: IntArray, size: int, rows: BoolArray | slice = slice(None)) -> IntArray:
        """Of each verdict, by some rows: 1 for the first model of the pair, -1 for the second, 0 for a tie."""
        above = np.bincount(number[rows], self.values[rows] - 0.5, size)
        return np.sign(np.where(np.abs(above) > EQUAL, above, 0.0)).astype(np.intp)


def judged_rows(pairs: PairCells, scores: CellScores, judge: str, prompt: str) -> JudgedRows:
    """The comparisons of a board with the judge and prompt of each: columns, or several joined by colons."""
    if isinstance(scores, SummedPairScores):
        raise NotAvailableError(GONE.format(what="comparing judges"))
    labels = scores.labels
    by, prompts = _axis(judge, "judge", labels), labels.codes(_axis(prompt, "prompt", labels))
    keys, number = cells_of({name: labels.codes((name,)) for name in by}, by)
    judges = joint_names(keys)
    if len(judges) < 2 or number is None:
        raise NotAvailableError(
            f'`judge="{judge}"` must have at least 2 distinct values for judges to be set against each other; all '
            f'{scores.values.size} rows are by "{judges[0]}". What one judge says is the board itself: summary(), '
            "ranks() and head_to_head() remain available.",
            column=judge,
            count=1,
        )
    if prompts.n_clusters < 2:
        raise TooFewClustersError(
            f'`prompt="{prompt}"` must have at least 2 distinct values for error bars; it has 1 in '
            f"{prompts.codes.size} rows. Name the column of the prompts.",
            column=prompt,
            count=1,
        )
    size = len(pairs.models)
    met, pooled = np.unique(pairs.first * size + pairs.second, return_inverse=True)
    return JudgedRows(
        models=pairs.models,
        judges=judges,
        first=met // size,
        second=met % size,
        pair=pooled[pairs.cell],
        judge=number,
        prompt=Codes(prompts.codes, prompts.n_clusters),
        values=scores.values,
        side=np.where(pairs.swapped, -1.0, 1.0),
        weights=scores.weights,
    )


def _axis(name: object, argument: str, labels: Labels) -> Axis:
    """The columns that a name stands for."""
    parts = joint_parts(name) or (name,)
    if isinstance(name, str) and labels.source is None and not set(parts) <= set(labels.columns):
        raise no_source(name, tuple(labels.held), argument)
    axes = parse_groups(name, labels.columns, argument)
    if len(axes) > 1:
        raise ArgumentError(f'`{argument}` must name one clustering, a column or several joined; got "{name}".')
    return axes[0]


# Means of cells, and functions of them, with errors by prompt


def prompt_errors(
    values: FloatArray, sums: Cells, cell: IntArray, prompt: IntArray, options: ResolvedCov, weights: Any = None
) -> Errors:
    """Errors of each cell's mean alone: NaN where it rests on one prompt, or where its values do not vary."""
    scores = CellScores(values, sums.mean, _by_prompt(prompt), cell, weights)
    widths, _ = errors_by_cell(scores, sums, (CLUSTERS,), options)
    return np.sqrt(widths.variance), widths.dof(USUAL_LEVEL)


def _by_prompt(prompt: IntArray) -> Labels:
    return Labels(prompt.size, {CLUSTERS[0]: as_codes(prompt)})


def mapped_means(
    rows: JudgedRows, use: IntArray, values: FloatArray, cell: IntArray, coefficients: Matrix, options: ResolvedCov
) -> tuple[FloatArray, Errors]:
    """Linear functions of the means of some rows in cells, with errors by prompt; coefficients (n_params, n_cells).

    Errors are NaN where more than 2% of the weight lies on cells that rest on one prompt, whose residuals are zero by
    construction.
    """
    weights = None if rows.weights is None else rows.weights[use]
    cells = cell_sums(values, cell, coefficients.shape[1], weights)
    scores = CellScores(values, cells.mean, _by_prompt(rows.prompt.codes[use]), cell, weights)
    estimate = of_means(tuple(map(str, range(coefficients.shape[0]))), coefficients, cells, scores)
    params, n_prompts = np.array(estimate.params), scores.n_clusters(CLUSTERS)
    se, dof = np.full((2, params.size), np.nan)
    if n_prompts < 2:
        return params, (se, dof)
    thin = sparsity(estimate, CLUSTERS)
    known = np.flatnonzero(~(thin.unsafe if n_prompts >= FEW_CLUSTERS else thin.single > LARGEST_SINGLE))
    if known.size:
        cov = assemble(estimate.select([estimate.names[i] for i in known]), (CLUSTERS,), options)
        variance = np.where(cov.variance() > 0, cov.variance(), np.nan)
        se[known], dof[known] = np.sqrt(variance), np.where(np.isnan(variance), np.nan, cov.dof())
    return params, (se, dof)


def adjusted_tests(estimate: FloatArray, errors: Errors, alpha: float) -> dict[str, Any]:
    """p-values of zero, by themselves and by Holm over all that have one, and which stand at the family-wise level.

    NaN where there is no error.
    """
    p = t_pvalues(estimate / errors[0], errors[1])
    adjusted = adjust_pvalues(p, "holm")
    return {"p_value": p, "p_adjusted": adjusted, "stands": adjusted <= alpha}


# Agreement

# Verdicts are 0, 1 and 2: for the first model of the pair, a tie, for the second.


def agreement_table(rows: JudgedRows, options: ResolvedCov, min_shared: int) -> tuple[pd.DataFrame, pd.Series[float]]:
    """Agreement of all pairs of judges, and of all together: `Judging.agreement` and `Judging.overall`.

    Of each judge and (prompt, pair) one verdict: who had the higher mean score over the rows, both orders together; a
    tie where the mean is one half, as for a judge whose verdict turns with the order (Zheng et al. 2023,
    arXiv:2306.05685, section 3.4). Pairs of judges that share fewer than `min_shared` units are left out. Cohen (1960),
    Educational and Psychological Measurement 20, 37-46; Fleiss (1971), Psychological Bulletin 76, 378-382.
    """
    names, units = np.array(rows.judges, dtype=object), rows.unit
    unit, judge, number = rows.by_judge(units)
    verdict = 1 - rows.ahead(number, unit.size)
    # Verdicts of a unit lie together: those d apart, for every d up to the judges of a unit.
    apart = [np.flatnonzero(unit[:-lag] == unit[lag:]) for lag in range(1, int(np.max(np.bincount(unit))))]
    earlier = np.concatenate([np.zeros(0, dtype=np.intp), *apart])
    later = earlier + np.repeat(np.arange(1, len(apart) + 1), [part.size for part in apart])
    prompt = rows.prompt.codes[units.first][unit[earlier]]
    met, cell, shared = np.unique(judge[earlier] * names.size + judge[later], return_inverse=True, return_counts=True)
    index = pd.MultiIndex.from_arrays([names[side] for side in np.divmod(met, names.size)], names=["judge", "other"])
    every, columns = np.full((3, 1), np.nan), np.zeros((4, 0))
    if met.size:
        equal = (verdict[earlier] == verdict[later]).astype(float)
        every = _shares(equal, np.zeros(equal.size, dtype=np.intp), prompt, options)
        kappa = _kappas(verdict[earlier], verdict[later], cell, met.size)
        columns = np.vstack([_shares(equal, cell, prompt, options), kappa])
    table = pd.DataFrame(dict(zip(("agreement", "se", "dof", "kappa"), columns, strict=True)), index=index)
    table = table.assign(n=shared)[shared >= min_shared]
    counts = np.zeros((units.n_clusters, 3))
    np.add.at(counts, (unit, verdict), 1.0)
    per_unit = counts.sum(axis=1)
    overall = {
        **dict(zip(("agreement", "se", "dof"), every[:, 0].tolist(), strict=True)),
        "fleiss": _fleiss(counts, names.size),
        "n_shared": float(np.sum(per_unit > 1)),
        "n_units": float(units.n_clusters),
        "fewest_judges": float(np.min(per_unit)),
        "most_judges": float(np.max(per_unit)),
    }
    return table, pd.Series(overall)


def _shares(equal: FloatArray, cell: IntArray, prompt: IntArray, options: ResolvedCov) -> FloatArray:
    """Share of equal verdicts of each cell, its standard error and degrees of freedom by prompt, (3, n_cells)."""
    sums = cell_sums(equal, cell, int(cell.max()) + 1, None)
    return np.stack([sums.mean, *prompt_errors(equal, sums, cell, prompt, options)])


def _kappas(verdict: IntArray, other: IntArray, cell: IntArray, n_cells: int) -> FloatArray:
    """Cohen's kappa of each cell, (p_o - p_e)/(1 - p_e) (Cohen 1960, eq. 1); NaN where both only ever say tie.

    Which model of a pair is the first is a matter of names: every verdict counts from either side.
    """
    tables = np.zeros((n_cells, 3, 3), dtype=np.intp)
    np.add.at(tables, (cell, verdict, other), 1)
    tables = tables + tables[:, ::-1, ::-1]
    n = tables.sum(axis=(1, 2))
    alike = np.trace(tables, axis1=1, axis2=2) * n
    by_chance = np.sum(tables.sum(axis=1) * tables.sum(axis=2), axis=1)
    return quotient(alike - by_chance, n**2 - by_chance)


def _fleiss(counts: FloatArray, n_judges: int) -> float:
    """Fleiss' kappa by statsmodels, where every judge saw every unit; every verdict counts from either side."""
    from statsmodels.stats.inter_rater import fleiss_kappa

    both = np.vstack([counts, counts[:, ::-1]])
    if np.any(counts.sum(axis=1) != n_judges) or np.count_nonzero(both.sum(axis=0)) < 2:
        return np.nan
    return float(fleiss_kappa(both))


# A board of each judge, and how much more it gives a model than the others do


def board_table(rows: JudgedRows, has_board: BoolArray, options: ResolvedCov) -> pd.DataFrame:
    """Win rates by judge: each model's mean score against the opponents that it met under that judge, equal weights.

    Indexed by (judge, model), for judges with enough comparisons (`has_board`); columns estimate, se, dof, rank and n.
    """
    judges = np.flatnonzero(has_board).tolist()
    parts = {rows.judges[j]: _one_board(rows, np.flatnonzero(rows.judge == j), options) for j in judges}
    if parts:
        return pd.concat(parts, names=["judge"])
    index = pd.MultiIndex.from_arrays([[], []], names=["judge", "model"])
    return pd.DataFrame({name: [] for name in ("estimate", "se", "dof", "rank", "n")}, index=index, dtype=float)


def _one_board(rows: JudgedRows, use: IntArray, options: ResolvedCov) -> pd.DataFrame:
    """Win rates of the models on some rows."""
    pairs, cell = np.unique(rows.pair[use], return_inverse=True)
    models, place = np.unique([rows.first[pairs], rows.second[pairs]], return_inverse=True)
    sides = place.reshape(2, -1)
    met = np.bincount(sides.ravel())
    A = scale_rows(transposed(difference_rows(sides[0], sides[1], models.size)), 1.0 / met)
    rate, (se, dof) = mapped_means(rows, use, rows.values[use], cell, A, options)
    # A model that is second in a pair scores 1 - psi there.
    rate = rate + np.bincount(sides[1], minlength=models.size) / met
    frame = pd.DataFrame({"estimate": rate, "se": se, "dof": dof})
    # Rates that differ by rounding are tied.
    frame["rank"] = frame["estimate"].round(12).rank(ascending=False, method="min").astype(int)
    frame["n"] = np.bincount(sides.ravel(), np.tile(np.bincount(cell), 2)).astype(int)
    frame.index = pd.Index([rows.models[model] for model in models], name="model")
    return frame


def effect_table(rows: JudgedRows, has_board: BoolArray, options: ResolvedCov, alpha: float) -> pd.DataFrame:
    """Judge-by-model effects: a judge's win rate of a model minus the mean of the judges, opponent by opponent.

    For model a and judge j it is the mean, over the opponents b that j and another judge saw against a, of psi_ab by j
    minus the mean of psi_ab over the judges who saw that pair. Where every judge saw every pair that is the judge's win
    rate minus the mean win rate; elsewhere it takes out that judges saw different opponents. Judges without enough
    comparisons (`has_board`) are left out of the means; errors are joint over judges, and `alpha` is family-wise over
    all effects, by Holm.
    """
    use = np.flatnonzero(has_board[rows.judge])
    models = np.concatenate([rows.first[rows.pair[use]], rows.second[rows.pair[use]]])
    row, is_first = np.tile(use, 2), np.repeat([True, False], use.size)
    frames = {}
    for a, name in enumerate(rows.models):
        chosen = np.flatnonzero(models == a)
        frames[name] = _effects_of_model(rows, row[chosen], is_first[chosen], options)
    table = pd.concat(frames, names=["model"]).swaplevel().sort_index()
    effect, se, dof = (table[name].to_numpy() for name in ("effect", "se", "dof"))
    table = table.assign(**adjusted_tests(effect, (se, dof), alpha))
    return table[["effect", "se", "dof", "p_value", "p_adjusted", "stands", "opponents", "n"]]


def _effects_of_model(rows: JudgedRows, row: IntArray, is_first: BoolArray, options: ResolvedCov) -> pd.DataFrame:
    """Effects of all judges on one model, from the rows that it is in."""
    pair, n_judges = rows.pair[row], len(rows.judges)
    opponent = np.where(is_first, rows.second[pair], rows.first[pair])
    values = np.where(is_first, rows.values[row], 1.0 - rows.values[row])
    opponents, judges = np.divmod(np.unique(opponent * n_judges + rows.judge[row]), n_judges)
    names = [rows.judges[judge] for judge in np.unique(judges)]
    # A pair that one judge saw alone says nothing of how judges differ.
    shared = np.bincount(opponents)[opponents] > 1
    judges, opponents = judges[shared], opponents[shared]
    cells = opponents * n_judges + judges
    used = np.isin(opponent * n_judges + rows.judge[row], cells)
    cell = np.searchsorted(cells, (opponent * n_judges + rows.judge[row])[used])
    by_judge, by_opponent = (_one_hot(codes, np.ones(codes.size)) for codes in (judges, opponents))
    n_opponents, n_seen = by_judge.sum(axis=0), by_opponent.sum(axis=0)
    # Less the mean over the judges who saw the pair.
    A = by_judge - by_opponent @ scale_rows(by_opponent.T @ by_judge, 1 / n_seen)
    A = scale_rows(compressed(A.T), 1 / n_opponents)
    effect, (se, dof) = mapped_means(rows, row[used], values[used], cell, A, options)
    columns = {"effect": effect, "se": se, "dof": dof, "opponents": n_opponents}
    columns["n"] = np.bincount(rows.judge[row[used]])[pd.unique(judges)]
    frame = pd.DataFrame(columns, index=pd.Index([rows.judges[k] for k in pd.unique(judges)], name="judge"))
    return frame.reindex(names).fillna({"opponents": 0, "n": 0}).astype({"opponents": int, "n": int})


# Position: what the left side gains


def position_table(rows: JudgedRows, options: ResolvedCov, min_rows: int, alpha: float) -> pd.DataFrame:
    """Position bias of each judge, from pairs that the judge saw in both orders: `Judging.position`.

    A judge needs `min_rows` rows of such pairs; `alpha` is family-wise over judges, by Holm.
    """
    weights = np.ones(rows.n_rows) if rows.weights is None else rows.weights
    n_judges = len(rows.judges)
    keys, cell = np.unique(rows.judge * np.int64(rows.n_pairs) + rows.pair, return_inverse=True)
    net = np.bincount(cell, weights * rows.side)
    bias, se, dof, n_contrast = order_contrast(rows, cell, weights, options)
    left = np.where(rows.side > 0, rows.values, 1.0 - rows.values)
    bias, se, dof = (np.where(n_contrast >= min_rows, column, np.nan) for column in (bias, se, dof))
    # (prompt, pair) that a judge saw in both orders, and the share of them whose mean verdict was the same.
    unit, judge, number = rows.by_judge(rows.unit)
    orders = [rows.side > 0, rows.side < 0]
    seen = [np.bincount(number[order], minlength=unit.size) > 0 for order in orders]
    ahead = [rows.ahead(number, unit.size, order) for order in orders]
    both = seen[0] & seen[1]
    n_both = np.bincount(judge[both], minlength=n_judges)
    same = np.bincount(judge[both & (ahead[0] == ahead[1])], minlength=n_judges)
    columns = {
        "left": np.bincount(rows.judge, weights * left) / np.bincount(rows.judge, weights) - 0.5,
        "bias": bias,
        "se": se,
        "dof": dof,
        **adjusted_tests(bias, (se, dof), alpha),
        "n": np.bincount(rows.judge),
        "n_contrast": n_contrast,
        "balanced": np.bincount(keys // rows.n_pairs, np.abs(net), n_judges) < EQUAL,
        "n_both": n_both,
        "consistent": np.where(n_both > 0, same / np.maximum(n_both, 1), np.nan),
    }
    return pd.DataFrame(columns, index=pd.Index(rows.judges, name="judge"))


def order_contrast(
    rows: JudgedRows, cell: IntArray, weights: FloatArray, options: ResolvedCov
) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
    """What the left side gains, by least squares within each judge's pairs.

    The model is s = psi_ab + bias x by judge, x = 1 where the first model of the pair is on the left and -1 where it is
    on the right. By the theorem of Frisch, Waugh and Lovell its bias is the weighted mean of (s - mean s)/(x - mean x),
    means within pairs, with weights (x - mean x)^2, and its residuals are those of that mean. The leverages of the
    pairs' means act on the mean residual of each (prompt, pair), those of x on the total of a prompt; the two are
    applied one after the other, which is exact where they do not overlap within a prompt.

    `cell` is the (judge, pair) of each row. Returns bias, se, dof and rows of pairs seen in both orders, by judge: NaN
    for judges who saw none, and no more degrees of freedom than rows less pairs less one. Lovell (1963), Journal of the
    American Statistical Association 58, 993-1010; Bell and McCaffrey (2002), Survey Methodology 28, 169-181.
    """
    n_judges = len(rows.judges)
    total = np.bincount(cell, weights)
    x = rows.side - (np.bincount(cell, weights * rows.side) / total)[cell]
    s = rows.values - (np.bincount(cell, weights * rows.values) / total)[cell]
    use = np.flatnonzero(np.abs(x) > EQUAL)
    contrast = np.full((3, n_judges), np.nan)
    n_contrast = np.bincount(rows.judge[use], minlength=n_judges)
    if not use.size:
        return *contrast, n_contrast
    x, s, w, judge = x[use], s[use], weights[use], rows.judge[use]
    present, number = np.unique(judge, return_inverse=True)
    sums = cell_sums(s / x, number, present.size, w * x**2)
    bias = sums.mean
    prompt = rows.prompt.codes[use]
    residual = _adjusted(s - bias[number] * x, w, prompt, cell[use], total.astype(float), options.kind.power)
    se, dof = prompt_errors(bias[number] + residual / x, sums, number, prompt, options, w * x**2)
    pairs = np.unique(cell[use], return_index=True)[1]
    left_over = np.bincount(number) - np.bincount(number[pairs], minlength=present.size) - 1.0
    se = np.where((left_over > 0) & (se > EQUAL), se, np.nan)
    dof = np.minimum(dof, left_over) if options.dof == "satterthwaite" else dof
    contrast[:, present] = bias, se, np.where(np.isnan(se), np.nan, dof)
    return *contrast, n_contrast


def _adjusted(
    residual: FloatArray, weights: FloatArray, prompt: IntArray, cell: IntArray, total: FloatArray, power: float
) -> FloatArray:
    """Residuals with the mean of each (prompt, cell) divided by (1 - h)^power, h its share of the cell."""
    keys, block = np.unique(prompt * np.int64(total.size) + cell, return_inverse=True)
    weight = np.bincount(block, weights)
    rest = 1.0 - weight / total[keys % total.size]
    # A pair seen under one prompt has a mean residual of zero there, which stays.
    factor = np.where(rest > FULL_LEVERAGE, np.maximum(rest, FULL_LEVERAGE) ** -power, 1.0) - 1.0
    return residual + (factor * np.bincount(block, weights * residual) / weight)[block]


# Judges that are shown beside each other.
MOST_COLUMNS = 6


@keeps("agreement", "overall", "boards", "effects", "position")
@dataclass(frozen=True, eq=False, repr=False)
class Judging(Shown):
    """Judges of a board set against each other; immutable.

    Made by `Board.judges`. Standard errors are clustered by prompt and for these judges.

    Parameters
    ----------
    judge, prompt : str
        Columns that judges and prompts came from.
    n_judges, n_prompts, n_rows : int
        Numbers of them, and of comparisons.
    min_shared : int
        Comparisons that two judges must share, and one must have made, for estimates.
    alpha : float
        Family-wise level.
    options : ResolvedCov
        Covariance of the errors.
    agreement : DataFrame
        Indexed by (judge, other); columns agreement (share of (prompt, pair) with one verdict of the three), se, dof,
        kappa (Cohen) and n (shared), of judges who share `min_shared` or more.
    overall : Series
        agreement of all pairs of verdicts with se and dof, fleiss (Fleiss' kappa; NaN where not every judge saw all),
        n_shared ((prompt, pair) with two judges or more), n_units, fewest_judges and most_judges.
    boards : DataFrame
        Indexed by (judge, model); columns estimate (win rate), se, dof, rank and n. Rank correlations of judges are
        ``boards["estimate"].unstack("judge").corr("kendall")``.
    effects : DataFrame
        Indexed by (judge, model); columns effect, se, dof, p_value, p_adjusted, stands, opponents and n.
    position : DataFrame
        Indexed by judge; columns left (mean score of the left model minus 1/2), bias (the same with pairs adjusted
        for), se, dof, p_value, p_adjusted, stands, n (rows), n_contrast (rows of pairs seen in both orders), balanced
        (whether every pair was seen as often either way, so that left and bias are equal), n_both and consistent
        ((prompt, pair) seen in both orders, and the share of them whose verdict did not turn).

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.judge_log(n_models=4, n_prompts=60, judge_sd=0.5, seed=1)
    >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
    >>> judging = board.judges()
    >>> judging.agreement["n"].tolist()
    [360, 360, 360]
    """

    judge: str
    prompt: str
    n_judges: int
    n_prompts: int
    n_rows: int
    min_shared: int
    alpha: float
    options: ResolvedCov
    agreement: pd.DataFrame
    overall: pd.Series[float]
    boards: pd.DataFrame
    effects: pd.DataFrame
    position: pd.DataFrame

    def summary(self) -> Summary:
        """Tables of agreement, boards and position bias, and what a careful reader asks.

        Returns
        -------
        Summary
            Prints as text of 80 columns. Long tables are cut to their first rows; the sentences say so.
        """
        return summarize_judging(self)


def judging_of(
    pairs: PairCells, scores: CellScores, options: ResolvedCov, judge: str, prompt: str, min_shared: int, alpha: float
) -> Judging:
    """Judges of the comparisons of a board set against each other.

    The default covariance for clusters takes the place of "naive".
    """
    fraction("alpha", alpha)
    min_shared = whole_number("min_shared", min_shared)
    rows = judged_rows(pairs, scores, judge, prompt)
    if not options.kind.needs_clusters:
        options = resolve_cov(CovOptions(), clustered=True)
    has_board = np.bincount(rows.judge) >= min_shared
    agreement, overall = agreement_table(rows, options, min_shared)
    return Judging(
        judge=judge,
        prompt=prompt,
        n_judges=len(rows.judges),
        n_prompts=rows.prompt.n_clusters,
        n_rows=rows.n_rows,
        min_shared=int(min_shared),
        alpha=float(alpha),
        options=options,
        agreement=agreement,
        overall=overall,
        boards=board_table(rows, has_board, options),
        effects=effect_table(rows, has_board, options, alpha),
        position=position_table(rows, options, int(min_shared), alpha),
    )


def summarize_judging(judging: Judging) -> Summary:
    """Tables, of the rows that most comparisons are behind, and sentences on judges."""
    overall, effects = judging.overall, judging.effects
    facts = (
        ("Judges", f"{judging.n_judges} ({judging.judge})"),
        ("Prompts", f"{judging.n_prompts} ({judging.prompt})"),
        ("Comparisons", str(judging.n_rows)),
        ("Errors", f"{judging.options.cov} by {judging.prompt}"),
        ("Agreement", f"{number(overall['agreement'])} (se {number(overall['se'])})"),
        *([("Fleiss' kappa", number(overall["fleiss"], 3))] if np.isfinite(overall["fleiss"]) else []),
    )
    position, agreement, shown = (
        table.sort_values("n", ascending=False, kind="stable").head(MOST_ROWS)
        for table in (judging.position, judging.agreement, effects[effects["stands"]])
    )
    rates = judging.boards["estimate"].unstack("judge")
    tables = (
        position[["left", "bias", "se", "p_adjusted", "consistent", "n"]],
        agreement[["agreement", "se", "kappa", "n"]],
        rates[[name for name in position.index if name in rates][:MOST_COLUMNS]].head(MOST_ROWS),
        shown[["effect", "se", "p_adjusted", "n"]],
    )
    sentences = (*_on_agreement(judging), *_on_position(judging), *_on_effects(judging))
    grids = tuple(show(table).grids[0] for table in tables if table.size)
    return Summary("evalreg judges", facts, grids, sentences)


def _on_agreement(judging: Judging) -> Iterator[str]:
    least, n = judging.min_shared, judging.n_judges
    if judging.n_prompts < FEW_CLUSTERS:
        yield f"{judging.n_prompts} prompts are few for errors by prompt, which may be too small."
    yield (
        "Verdicts are compared by (prompt, pair of models), one a judge: the model with the higher mean score over the "
        "judge's rows, both orders together, and a tie where that is one half. kappa is Cohen's. Errors are for these "
        "judges."
    )
    if few := n * (n - 1) // 2 - len(judging.agreement):
        yield f"{few} of {n * (n - 1) // 2} pairs of judges share fewer comparisons than `min_shared`, {least}."


def _on_position(judging: Judging) -> Iterator[str]:
    table, n = judging.position, judging.n_judges
    few = f"comparisons of pairs seen in both orders, of which {judging.min_shared} are needed"
    without = list(table.index[table["bias"].isna()])
    if len(without) == n:
        yield f"No position bias: no judge has the {few}, so that left - 1/2 is also how good models on the left are."
        return
    balanced, stand = int(table["balanced"].sum()), int(table["stands"].sum())
    which, so = "every judge", ", so bias is the mean score of the left model minus 1/2"
    if balanced < n:
        which, so = f"{balanced} of {n} judges", "; bias compares both orders within a judge's pairs"
    yield (
        f"Position: {which} saw every pair as often either way{so}. {stand} of {n - len(without)} are significant at "
        f"{judging.alpha:g} (Holm)."
    )
    if np.isfinite(table["consistent"]).any():
        yield "consistent: the share of (prompt, pair) seen in both orders whose verdict did not turn."
    if without:
        yield f"No position bias of {listed(without)}: too few {few}."


def _on_effects(judging: Judging) -> Iterator[str]:
    effects, boards = judging.effects, judging.boards
    judges, models = (boards.index.get_level_values(level).nunique() for level in ("judge", "model"))
    if len(effects):
        yield (
            "effect is how much more a judge gives a model than the mean of the judges, opponent by opponent; "
            f"{int(effects['stands'].sum())} of {int(effects['p_adjusted'].notna().sum())} are significant at "
            f"{judging.alpha:g} (Holm over all), and shown."
        )
    if without := judging.n_judges - judges:
        few = f"fewer than {judging.min_shared} comparisons"
        yield f"No board and no effects of {counted(without, 'judge')} with {few}."
    if unknown := int(boards["se"].isna().sum()):
        yield (
            f"{unknown} of {len(boards)} win rates by judge have no error: over 2% of their weight lies on pairs that "
            "the judge saw under one prompt, or their pairs are concentrated on a few, or they do not vary."
        )
    if max(judging.n_judges, models, len(judging.agreement)) > MOST_ROWS or judges > MOST_COLUMNS:
        yield f"Tables show the first {MOST_ROWS} rows and {MOST_COLUMNS} judges; `agreement` and the others have all."


def _one_hot(keys: IntArray, values: FloatArray) -> Matrix:
    levels, names = pd.factorize(keys)
    return sparse.csr_array((values, levels, np.arange(keys.size + 1)), shape=(keys.size, len(names)))

"""Judges looked at: how far they agree, what each says about the models, what position and taste do, what varies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.boards.judged import (
    MOST_JUDGES,
    JudgedRows,
    agreement_table,
    board_table,
    effect_table,
    judged_rows,
    position_table,
    rank_table,
)
from evalreg.boards.pairs import Pairs
from evalreg.checks import FloatArray, IntArray, counted, fraction, keeps, listed, whole_number
from evalreg.covariance.options import CovOptions, ResolvedCov, resolve_cov
from evalreg.covariance.special import FEW_CLUSTERS
from evalreg.errors import NotAvailableError
from evalreg.numerics.limits import ROUNDING
from evalreg.numerics.matrices import Matrix, difference_rows
from evalreg.numerics.moments import moment_equations, solve_components
from evalreg.planning.facets import warn_of_negative
from evalreg.report.tables import MOST_ROWS, Grid, Shown, Summary, fixed, number, p_value

# Judges beside each other, and the longest name of one, that fit into 80 characters.
MOST_COLUMNS, LONGEST_NAME = 6, 8


def short_names(n: pd.Series[int]) -> dict[str, str]:
    """What judges are called in tables with several of them: a number each, where names are long.

    Numbered from the judge with most comparisons (`n`), in that order; the names themselves where all are short.
    """
    order = [str(name) for name in n.sort_values(ascending=False, kind="stable").index]
    if max(map(len, order)) <= LONGEST_NAME:
        return {name: name for name in sorted(order)}
    return {name: f"#{place}" for place, name in enumerate(order, 1)}


def first_rows(headers: tuple[str, ...], names: list[str], table: pd.DataFrame, digits: dict[str, int]) -> Grid:
    """The rows of a table that most comparisons are behind, under some names, columns with so many digits."""
    first = table.assign(shown=names).sort_values("n", ascending=False, kind="stable").head(MOST_ROWS)
    cells = [
        [p_value(value) if column == "p_adjusted" else fixed(value, places) for value in first[column]]
        for column, places in digits.items()
    ]
    return Grid(headers, tuple(zip(first["shown"], *cells, strict=True)))


def wide_grid(corner: str, values: pd.Series[float], stands: pd.Series[bool] | None, keys: dict[str, str]) -> Grid:
    """A value for each model and judge, models that most judges have first.

    `stands` marks values; without it models come in the order of their mean.
    """
    wide: pd.DataFrame = values.unstack("judge").dropna(how="all")
    wide = wide[[name for name in keys if name in wide.columns][:MOST_COLUMNS]].dropna(how="all")
    mean = wide.mean(axis=1) if stands is None else np.zeros(len(wide))
    wide = wide.iloc[np.lexsort((-mean, -wide.notna().sum(axis=1)))[:MOST_ROWS]]
    marks, space = np.full(wide.shape, ""), "" if stands is None else " "
    if stands is not None:
        marks = np.where(stands.unstack("judge", fill_value=False).loc[wide.index, wide.columns], "*", " ")
    cells = [
        [fixed(value, 3) + mark for value, mark in zip(*line, strict=True)]
        for line in zip(wide.to_numpy(), marks, strict=True)
    ]
    rows = tuple((str(model), *line) for model, line in zip(wide.index, cells, strict=True))
    return Grid((corner, *(keys[judge] + space for judge in wide.columns)), rows)


@keeps("agreement", "overall", "boards", "ranks", "effects", "position", "variance")
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
        kappa (Cohen) and n (shared).
    overall : Series
        agreement of all pairs of verdicts with se and dof, krippendorff, fleiss (NaN where not every judge saw all),
        n_shared ((prompt, pair) with two judges or more), n_units, fewest_judges and most_judges.
    boards : DataFrame
        Indexed by (judge, model); columns estimate (win rate), se, dof, rank and n.
    ranks : DataFrame
        Indexed by (judge, other); columns kendall, spearman and n_models, for at most 100 judges.
    effects : DataFrame
        Indexed by (judge, model); columns effect, se, dof, p_value, p_adjusted, stands, opponents and n.
    position : DataFrame
        Indexed by judge; columns left (mean score of the left model minus 1/2), bias (the same with pairs adjusted
        for), se, dof, p_value, p_adjusted, stands, n (rows), n_contrast (rows of pairs seen in both orders), balanced
        (whether every pair was seen as often either way, so that left and bias are equal), n_both and consistent
        ((prompt, pair) seen in both orders, and the share of them whose verdict did not turn).
    variance : DataFrame
        Indexed by component; columns variance (what it adds to the variance of one comparison), share, effect_sd (of
        one effect; NaN where negative) and levels.
    rows : JudgedRows
        The comparisons.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.judge_log(n_models=4, n_prompts=60, judge_sd=0.5, seed=1)
    >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
    >>> judging = board.judges()
    >>> judging.agreement["n"].tolist()
    [360, 360, 360]
    >>> judging.variance["share"].drop("residual").idxmax()
    'model x prompt'
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
    ranks: pd.DataFrame
    effects: pd.DataFrame
    position: pd.DataFrame
    variance: pd.DataFrame
    rows: JudgedRows

    def for_board(self) -> dict[str, float]:
        """What `plan.board` takes: variances behind the difference of two models' win rates.

        Of a board on which every judge compares every pair of models once on every prompt, with as many models as here;
        win rates are means over all opponents.

        Returns
        -------
        dict
            model_prompt, model_judge and residual. Negative components count as 0, and a warning names them.

        Raises
        ------
        NotAvailableError
            If the log does not separate what prompts add from what judges add.

        Notes
        -----
        They are estimates: `model_judge` of J judges has at most J - 1 degrees of freedom, as few as the judges are.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.judge_log(n_models=4, n_prompts=60, n_judges=10, judge_sd=0.4, seed=1)
        >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt + judge")
        >>> plan = er.plan.board(delta=0.2, judges=[10, 20], **board.judges().for_board())
        >>> plan["prompts"].tolist()
        [81, 44]
        """
        variances, negative = board_variances(self.rows, self.variance)
        warn_of_negative(negative)
        return variances

    def summary(self) -> Summary:
        """Tables of agreement, boards, position bias and variance, and what a careful reader asks.

        Returns
        -------
        Summary
            Prints as text of 80 columns. Long tables are cut to their first rows; the sentences say so.
        """
        return summarize_judging(self)


def judging_of(pairs: Pairs, options: ResolvedCov, judge: str, prompt: str, min_shared: int, alpha: float) -> Judging:
    """Judges of the comparisons of a board set against each other.

    The default covariance for clusters takes the place of "naive".
    """
    fraction("alpha", alpha)
    min_shared = whole_number("min_shared", min_shared)
    rows = judged_rows(pairs, judge, prompt)
    if not options.kind.needs_clusters:
        options = resolve_cov(CovOptions(), clustered=True)
    has_board = np.bincount(rows.judge) >= min_shared
    agreement, overall = agreement_table(rows, options, min_shared)
    boards = board_table(rows, has_board, options)
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
        boards=boards,
        ranks=rank_table(boards),
        effects=effect_table(rows, has_board, options, alpha),
        position=position_table(rows, options, int(min_shared), alpha),
        variance=variance_table(rows),
        rows=rows,
    )


def summarize_judging(judging: Judging) -> Summary:
    """Tables and sentences on judges."""
    overall, keys = judging.overall, short_names(judging.position["n"])
    facts = (
        ("Judges", f"{judging.n_judges} ({judging.judge})"),
        ("Prompts", f"{judging.n_prompts} ({judging.prompt})"),
        ("Comparisons", str(judging.n_rows)),
        ("Errors", f"{judging.options.cov} by {judging.prompt}"),
        ("Agreement", f"{number(overall['agreement'])} (se {number(overall['se'])})"),
        ("Krippendorff's alpha", number(overall["krippendorff"])),
    )
    agreement = judging.agreement.join(judging.ranks["kendall"]).dropna(subset=["agreement"])
    by_judge = first_rows(
        ("judge", "left - 1/2", "bias", "std err", "adj. p", "same both ways", "n"),
        [name if keys[name] == name else f"{keys[name]} {name}" for name in judging.position.index],
        judging.position,
        {"left": 3, "bias": 3, "se": 3, "p_adjusted": 3, "consistent": 2, "n": 0},
    )
    by_two = first_rows(
        ("two judges", "agree", "std err", "kappa", "tau", "n"),
        [f"{keys[judge]}, {keys[other]}" for judge, other in agreement.index],
        agreement,
        {"agreement": 3, "se": 3, "kappa": 3, "kendall": 2, "n": 0},
    )
    components = tuple(
        (str(name), number(variance), fixed(100.0 * share, 1), number(sd), f"{levels:.0f}")
        for name, variance, share, sd, levels in judging.variance.dropna(subset=["variance"]).itertuples()
    )
    grids = (
        by_judge,
        by_two,
        wide_grid("win rate", judging.boards["estimate"], None, keys),
        wide_grid("judge - mean", judging.effects["effect"], judging.effects["stands"], keys),
        Grid(("component", "variance", "share, %", "sd of an effect", "levels"), components),
    )
    sentences = (*_on_agreement(judging), *_on_position(judging), *_on_effects(judging), *_on_variance(judging))
    return Summary("evalreg judges", facts, tuple(grid for grid in grids if grid.rows), sentences)


def _on_agreement(judging: Judging) -> Iterator[str]:
    n, overall, least = judging.agreement["n"], judging.overall, judging.min_shared
    if judging.n_prompts < FEW_CLUSTERS:
        yield f"{judging.n_prompts} prompts are few for errors by prompt, which may be too small."
    yield (
        "Verdicts are compared by (prompt, pair of models), one a judge: the model with the higher mean score over the "
        "judge's rows, both orders together, and a tie where that is one half. kappa is Cohen's; tau is Kendall's "
        "between the judges' boards. Errors are for these judges."
    )
    none, few, enough = (int(np.sum(which)) for which in (n == 0, (n > 0) & (n < least), n >= least))
    if none or few:
        yield (
            f"{none} of {n.size} pairs of judges share no comparison and {few} share fewer than `min_shared`, {least}; "
            "their agreement is NaN."
        )
    if judging.n_judges > MOST_JUDGES:
        yield f"Of over {MOST_JUDGES} judges only pairs that share {least} are listed."
    if enough > MOST_ROWS:
        yield f"{MOST_ROWS} of {enough} pairs of judges are shown, those who share most; see `agreement`."
    if np.isfinite(overall["fleiss"]):
        yield f"Fleiss' kappa over all judges is {number(overall['fleiss'], 3)}."
    elif overall["fewest_judges"] < judging.n_judges:
        had = f"{overall['fewest_judges']:.0f} to {overall['most_judges']:.0f} of {judging.n_judges}"
        yield (
            f"No Fleiss' kappa, which needs every judge on every (prompt, pair): they had {had}. Krippendorff's alpha "
            "allows for that."
        )


def _on_position(judging: Judging) -> Iterator[str]:
    table, least, n = judging.position, judging.min_shared, judging.n_judges
    without = list(table.index[table["bias"].isna()])
    if len(without) == n:
        yield (
            f"No position bias: no judge has {least} comparisons of pairs seen in both orders, so that left - 1/2 is "
            "also how good the models on the left are."
        )
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
        yield "same both ways: the share of (prompt, pair) seen in both orders whose verdict did not turn."
    if without:
        few = f"they have fewer than {least} comparisons of pairs seen in both orders"
        yield f"No position bias of {listed(without)}: {few}."
    if n > MOST_ROWS:
        yield f"Position: {MOST_ROWS} of {n} judges are shown; see `position`."


def _on_effects(judging: Judging) -> Iterator[str]:
    effects, boards = judging.effects, judging.boards
    judges, models = (boards.index.get_level_values(level).nunique() for level in ("judge", "model"))
    if len(effects):
        yield (
            "judge - mean is how much more a judge gives a model than the mean of the judges, opponent by opponent; "
            f"{int(effects['stands'].sum())} of {int(effects['p_adjusted'].notna().sum())} are significant at "
            f"{judging.alpha:g} (Holm over all), marked *."
        )
    if without := judging.n_judges - judges:
        few = f"fewer than {judging.min_shared} comparisons"
        yield f"No board and no effects of {counted(without, 'judge')} with {few}."
    if unknown := int(boards["se"].isna().sum()):
        yield (
            f"{unknown} of {len(boards)} win rates by judge have no error: over 2% of their weight lies on pairs that "
            "the judge saw under one prompt, or their pairs are concentrated on a few, or they do not vary."
        )
    if min(judges, MOST_COLUMNS) < judging.n_judges or models > MOST_ROWS:
        yield f"At most {MOST_COLUMNS} judges and {MOST_ROWS} models are shown; see `boards` and `effects`."


def _on_variance(judging: Judging) -> Iterator[str]:
    variance = judging.variance["variance"]
    yield (
        "Shares are of the variance of one comparison around its pair's mean, by moments (MINQUE(0)): unbiased, so "
        "small ones may be negative. What a prompt or judge adds to all models alike cancels out of a comparison; "
        "prompt, judge and prompt x judge are by how much each favours the left side. There are no error bars; a "
        "component is known no better than its levels allow."
    )
    if variance.get(PAIR_BOTH, 0.0) < 0:
        yield f"{PAIR_BOTH} is negative where a judge's verdicts turn with the order."
    if together := [name for name in map(str, variance.index) if " + " in name]:
        yield f"This log determines only the sum of {'; of '.join(together)}."
    if unseen := ", ".join(map(str, variance.index[variance.isna()])):
        yield f"No shares of {unseen}: too few pairs were seen in both orders to separate position from models."


# Shares of variance by prompt, judge and model

PROMPT, JUDGE, PROMPT_JUDGE = "prompt", "judge", "prompt x judge"
MODEL_PROMPT, MODEL_JUDGE, MODEL_BOTH = "model x prompt", "model x judge", "model x prompt x judge"
PAIR_PROMPT, PAIR_JUDGE, PAIR_BOTH, RESIDUAL = "pair x prompt", "pair x judge", "pair x prompt x judge", "residual"
POSITION = (PROMPT, JUDGE, PROMPT_JUDGE)
OF_MODELS = (MODEL_PROMPT, MODEL_JUDGE, MODEL_BOTH)
# If every comparison came in both orders, half of the rows would repeat another. With fewer than half of that, what is
# special to a (pair, prompt, judge) is left in the residual (limit).
ENOUGH_REPEATS = 0.25
# Tolerance, 1 - R^2 of the side on the pairs, which is 1 where orders are balanced. Below it position is not separated
# from models: the variance of its effect is inflated by 1/tolerance, tenfold (Marquardt 1970, Technometrics 12,
# 591-612). And the share of (prompt, pair) that judges saw in several orders, below which the order is the prompt's
# (limit).
ENOUGH_ORDERS = 0.1


def components_of(rows: JudgedRows) -> dict[str, Matrix]:
    """The random effects of a log of comparisons, without the residual: what the levels of each add to every score.

    Those of position only where pairs were seen in both orders; those of a pair under one prompt and judge only where
    at least a quarter of the rows repeat another, as where judges see both orders. Shapes: (n_rows, n_levels).
    """
    prompt, judge = rows.prompt.codes, rows.judge
    groups = (prompt, judge, prompt * len(rows.judges) + judge)
    designs = dict[str, Matrix]()
    if np.mean(_side_within_pairs(rows) ** 2) >= ENOUGH_ORDERS:
        designs |= {name: _one_hot(group, rows.side) for name, group in zip(POSITION, groups, strict=True)}
    designs |= {name: _differences(group, rows) for name, group in zip(OF_MODELS, groups, strict=True)}
    ones = np.ones(rows.n_rows)
    for name, group in zip((PAIR_PROMPT, PAIR_JUDGE, PAIR_BOTH), groups, strict=True):
        designs[name] = _one_hot(group * rows.n_pairs + rows.pair, ones)
    if rows.n_rows - _n_levels(designs[PAIR_BOTH]) < ENOUGH_REPEATS * rows.n_rows:
        del designs[PAIR_BOTH]
    return designs


def _n_levels(design: Matrix) -> int:
    """Levels that occur."""
    return int(np.count_nonzero(np.bincount(design.indices)))


def _side_within_pairs(rows: JudgedRows) -> FloatArray:
    """The side less the mean of its pair, exactly zero where it does not vary."""
    deviation = rows.side - (np.bincount(rows.pair, rows.side) / np.bincount(rows.pair))[rows.pair]
    return np.where(np.abs(deviation) < ROUNDING, 0.0, deviation)


def _one_hot(keys: IntArray, values: FloatArray) -> Matrix:
    levels, names = pd.factorize(keys)
    return sparse.csr_array((values, levels, np.arange(keys.size + 1)), shape=(keys.size, len(names)))


def _differences(group: IntArray, rows: JudgedRows) -> Matrix:
    """The effect of the first model minus that of the second, each by group."""
    sides = np.column_stack([rows.first[rows.pair], rows.second[rows.pair]])
    levels, names = pd.factorize((group[:, None] * len(rows.models) + sides).ravel())
    design = difference_rows(levels[::2], levels[1::2], len(names))
    design.sort_indices()
    return design


def fixed_effects(rows: JudgedRows) -> Matrix:
    """Orthonormal columns Q that span the pairs' means and, where orders vary, a common position effect."""
    count = np.bincount(rows.pair).astype(float)
    pairs = sparse.csr_array(
        (1.0 / np.sqrt(count)[rows.pair], rows.pair, np.arange(rows.n_rows + 1)), shape=(rows.n_rows, rows.n_pairs)
    )
    x = _side_within_pairs(rows)
    if not x.any():
        return pairs
    return sparse.hstack([pairs, sparse.csr_array((x / np.linalg.norm(x))[:, None])]).tocsr()


def variance_table(rows: JudgedRows) -> pd.DataFrame:
    """Shares of the variance of one comparison around the mean score of its pair: `Judging.variance`.

    The model is s = psi_ab + (u_ap - u_bp) + (v_aj - v_bj) + (w_apj - w_bpj) + t_abp + t_abj + t_abpj + x (c + c_p +
    c_j + c_pj) + e, x = 1 where the first model is on the left and -1 on the right, all effects but psi and c random
    with mean zero. What a prompt or a judge adds to all models alike cancels out of a comparison; what is left of their
    main effects is c_p, c_j and c_pj, by how much the left side is favoured there. Components are covariances of
    comparisons that share something and nothing else, which can be negative in truth too: t_abpj is, where a judge's
    verdict turns with the order.

    Estimates are unbiased, so that small ones may be negative; they are not cut. Components that the log does not
    separate are one row, named by all of them; those that cannot be seen are NaN. Sampling weights are not used.
    Brennan (2001), Generalizability Theory, chapters 3 and 7; Rao (1972), JASA 67, 112-115.
    """
    designs = components_of(rows)
    variances, sets = solve_components(*moment_equations(rows.values, fixed_effects(rows), list(designs.values())))
    names = [*designs, RESIDUAL]
    # The effects of two models enter a comparison.
    multiples = np.array([2.0 if name in OF_MODELS else 1.0 for name in names])
    levels = [*map(_n_levels, designs.values()), rows.n_rows]
    total = float(multiples @ variances)
    table = {}
    for members in sets:
        added = float(multiples[members] @ variances[members])
        alone = len(members) == 1
        sd = np.sqrt(variances[members[0]]) if alone and variances[members[0]] >= 0 else np.nan
        share = added / total if total > 0 else np.nan
        table[" + ".join(names[i] for i in members)] = (added, share, sd, min(levels[i] for i in members))
    for name in POSITION:
        if name not in names:
            table[name] = (np.nan, np.nan, np.nan, 0)
    frame = pd.DataFrame.from_dict(table, orient="index", columns=["variance", "share", "effect_sd", "levels"])
    ranked = {name: place for place, name in enumerate([*POSITION, *names])}
    frame = frame.loc[sorted(frame.index, key=lambda name: ranked[name.split(" + ")[0]])]
    frame.index.name = "component"
    return frame


def board_variances(rows: JudgedRows, table: pd.DataFrame) -> tuple[dict[str, float], tuple[str, ...]]:
    """Variances as `plan.board` takes them, of win rates over all opponents, and components that were negative.

    With K models the difference of two win rates is K/(K - 1) (u_a - u_b) for an effect u of models, and has the
    variance 2K/(K - 1)^2 for one of pairs with variance 1. Where a prompt shows a pair in one order to all judges, by
    how much it favours a side is an effect of pair and prompt; otherwise the orders average out as single ratings do.
    """
    K = len(rows.models)
    of_models, of_pairs = K**2 / (2.0 * (K - 1) ** 2), K / (K - 1.0) ** 2
    counts = np.bincount(rows.unit.codes)
    one_order = np.abs(np.bincount(rows.unit.codes, rows.side)) == counts
    fixed = bool(np.mean(one_order[counts > 1]) > 1 - ENOUGH_ORDERS) if np.any(counts > 1) else True
    roles = {MODEL_PROMPT: "model_prompt", PAIR_PROMPT: "model_prompt", MODEL_JUDGE: "model_judge"}
    roles |= {PAIR_JUDGE: "model_judge", PROMPT: "model_prompt" if fixed else "residual"}
    variances, negative = {"model_prompt": 0.0, "model_judge": 0.0, "residual": 0.0}, []
    for label, added in table["variance"].dropna().items():
        names = str(label).split(" + ")
        held = sorted({roles.get(name, "residual") for name in names})
        if len(held) > 1:
            raise NotAvailableError(
                f"the log does not separate {' from '.join(names)}, and a plan needs each by itself. Add comparisons "
                "of the same pairs by other judges, or on other prompts."
            )
        factor = of_models if not set(names).isdisjoint(OF_MODELS) else of_pairs
        variances[held[0]] += factor * max(float(added), 0.0)
        negative += [str(label)] if added < 0 and not set(names) <= set(POSITION) else []
    return variances, tuple(negative)

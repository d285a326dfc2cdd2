"""Judges looked at: how far they agree, what each says about the models, what position and taste do, what varies."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evalreg.boards.judged import (
    MOST_JUDGES,
    JudgedRows,
    agreement_table,
    board_table,
    effect_table,
    judged_rows,
    rank_table,
)
from evalreg.boards.pairs import Pairs
from evalreg.boards.position import PAIR_BOTH, board_variances, position_table, variance_table
from evalreg.checks import fraction, keeps, listed
from evalreg.covariance.options import CovOptions, ResolvedCov, resolve_cov
from evalreg.covariance.special import FEW_CLUSTERS
from evalreg.errors import ArgumentError, ArgumentTypeError, EvalregWarning, NotAvailableError
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


def first_rows(headers: tuple[str, ...], table: pd.DataFrame, cells: Callable[[Any], tuple[str, ...]]) -> Grid:
    """The rows of a table that most comparisons are behind, each in some words; the names of the index are columns."""
    first = table.sort_values("n", ascending=False, kind="stable").head(MOST_ROWS).reset_index()
    return Grid(headers, tuple(cells(row) for row in first.to_dict("records")))


def wide_grid(corner: str, values: pd.Series[float], stands: pd.Series[bool] | None, keys: dict[str, str]) -> Grid:
    """A value for each model and judge, models that most judges have first.

    `stands` marks values; without it models come in the order of their mean.
    """
    wide: pd.DataFrame = values.unstack("judge").dropna(how="all")
    judges = [name for name in keys if name in wide.columns][:MOST_COLUMNS]
    wide = wide[judges].dropna(how="all")
    order = pd.DataFrame({"judges": wide.notna().sum(axis=1), "mean": wide.mean(axis=1) if stands is None else 0.0})
    wide = wide.loc[order.sort_values(["judges", "mean"], ascending=False, kind="stable").index].head(MOST_ROWS)
    marked = set() if stands is None else set(stands.index[stands])
    space = "" if stands is None else " "
    rows = [
        (
            str(model),
            *(
                fixed(value, 3) + ("*" if (judge, model) in marked else space)
                for judge, value in zip(judges, line, strict=True)
            ),
        )
        for model, line in zip(wide.index, wide.to_numpy(), strict=True)
    ]
    return Grid((corner, *(keys[judge] + space for judge in judges)), tuple(rows))


@keeps("agreement", "overall", "boards", "ranks", "effects", "position", "variance")
@dataclass(frozen=True, eq=False, repr=False)
class Judging(Shown):
    """Judges of a board set against each other; immutable.

    Made by `Board.judges`. Standard errors are clustered by prompt and hold for these judges.

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
    rows : JudgedRows, optional
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
    rows: JudgedRows | None = None

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
            If the log cannot tell what prompts add from what judges add, or the rows are not held any more.

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
        if self.rows is None:
            raise NotAvailableError("`for_board` needs the comparisons; call `judges` of the board again.")
        found, negative = board_variances(self.rows, self.variance)
        if negative:
            warnings.warn(
                f"Planned with 0 for {listed(negative)}, whose variance came out negative: too little data to see it.",
                EvalregWarning,
                stacklevel=2,
            )
        return found

    def summary(self) -> Summary:
        """Tables of agreement, boards, position bias and variance, and what a careful reader asks.

        Returns
        -------
        Summary
            Prints as text of 80 columns. Long tables are cut to their first rows; the sentences say so.
        """
        return summarize_judging(self)


def judging(pairs: Pairs, options: ResolvedCov, judge: str, prompt: str, min_shared: int, alpha: float) -> Judging:
    """Judges of the comparisons of a board set against each other.

    The default covariance for clusters takes the place of "naive".
    """
    fraction("alpha", alpha)
    if isinstance(min_shared, bool) or not isinstance(min_shared, int | np.integer):
        raise ArgumentTypeError(f"`min_shared` must be a whole number; got {min_shared!r}.")
    if min_shared < 1:
        raise ArgumentError(f"`min_shared` must be at least 1; got {min_shared}.")
    rows = judged_rows(pairs, judge, prompt)
    if not options.kind.needs_clusters:
        options = resolve_cov(CovOptions(), clustered=True)
    has_board = np.bincount(rows.judge) >= min_shared
    agreement, overall = agreement_table(rows, options, int(min_shared))
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


def summarize_judging(found: Judging) -> Summary:
    """Tables and sentences on judges."""
    overall, keys = found.overall, short_names(found.position["n"])
    facts = [
        ("Judges", f"{found.n_judges} ({found.judge})"),
        ("Prompts", f"{found.n_prompts} ({found.prompt})"),
        ("Comparisons", str(found.n_rows)),
        ("Errors", f"{found.options.cov} by {found.prompt}"),
        ("Agreement", f"{number(overall['agreement'])} (se {number(overall['se'])})"),
        ("Krippendorff's alpha", number(overall["krippendorff"])),
    ]
    by_judge = first_rows(
        ("judge", "left - 1/2", "bias", "std err", "adj. p", "same both ways", "n"),
        found.position,
        lambda row: (
            row["judge"] if keys[row["judge"]] == row["judge"] else f"{keys[row['judge']]} {row['judge']}",
            *(fixed(row[name], 3) for name in ("left", "bias", "se")),
            p_value(row["p_adjusted"]),
            fixed(row["consistent"], 2),
            f"{row['n']:.0f}",
        ),
    )
    agreement = found.agreement.join(found.ranks["kendall"])
    by_two = first_rows(
        ("two judges", "agree", "std err", "kappa", "tau", "n"),
        agreement[agreement["agreement"].notna()],
        lambda row: (
            f"{keys[row['judge']]}, {keys[row['other']]}",
            *(fixed(row[name], 3) for name in ("agreement", "se", "kappa")),
            fixed(row["kendall"], 2),
            f"{row['n']:.0f}",
        ),
    )
    components = tuple(
        (str(name), number(variance), fixed(100.0 * share, 1), number(sd), f"{levels:.0f}")
        for name, variance, share, sd, levels in found.variance.itertuples()
        if np.isfinite(variance)
    )
    grids = (
        by_judge,
        by_two,
        wide_grid("win rate", found.boards["estimate"], None, keys),
        wide_grid("judge - mean", found.effects["effect"], found.effects["stands"], keys),
        Grid(("component", "variance", "share, %", "sd of an effect", "levels"), components),
    )
    kept = tuple(grid for grid in grids if grid.rows)
    sentences = (*_on_agreement(found), *_on_position(found), *_on_effects(found), *_on_variance(found))
    return Summary("evalreg judges", tuple(facts), kept, sentences)


def _on_agreement(found: Judging) -> list[str]:
    n, overall = found.agreement["n"], found.overall
    lines = []
    if found.n_prompts < FEW_CLUSTERS:
        lines.append(f"{found.n_prompts} prompts are few for errors by prompt, which may be too small.")
    lines += [
        "Verdicts are compared by (prompt, pair of models), one a judge: the model with the higher mean score over the "
        "judge's rows, both orders together, and a tie where that is one half. kappa is Cohen's; tau is Kendall's "
        "between the judges' boards. Errors are for these judges."
    ]
    none, few = int(np.sum(n == 0)), int(np.sum((n > 0) & (n < found.min_shared)))
    if none or few:
        lines.append(
            f"{none} of {n.size} pairs of judges share no comparison and {few} share fewer than `min_shared`, "
            f"{found.min_shared}; their agreement is NaN."
        )
    if found.n_judges > MOST_JUDGES:
        lines.append(f"Of over {MOST_JUDGES} judges only pairs that share {found.min_shared} are listed.")
    shown = int(np.sum(n >= found.min_shared))
    if shown > MOST_ROWS:
        lines.append(f"{MOST_ROWS} of {shown} pairs of judges are shown, those who share most; see `agreement`.")
    if np.isfinite(overall["fleiss"]):
        lines.append(f"Fleiss' kappa over all judges is {number(overall['fleiss'], 3)}.")
    elif overall["fewest_judges"] < found.n_judges:
        lines.append(
            f"No Fleiss' kappa, which needs every judge on every (prompt, pair): they had "
            f"{overall['fewest_judges']:.0f} to {overall['most_judges']:.0f} of {found.n_judges}. Krippendorff's alpha "
            "allows for that."
        )
    return lines


def _on_position(found: Judging) -> list[str]:
    table = found.position
    without = list(table.index[table["bias"].isna()])
    if len(without) == found.n_judges:
        return [
            f"No position bias: no judge has {found.min_shared} comparisons of pairs seen in both orders, so that "
            "left - 1/2 is also how good the models on the left are."
        ]
    balanced = int(table["balanced"].sum())
    text = (
        "every judge saw every pair as often either way, so bias is the mean score of the left model minus 1/2"
        if balanced == found.n_judges
        else f"{balanced} of {found.n_judges} judges saw every pair as often either way; bias compares both orders "
        "within a judge's pairs"
    )
    stand = int(table["stands"].sum())
    lines = [f"Position: {text}. {stand} of {found.n_judges - len(without)} are significant at {found.alpha:g} (Holm)."]
    if np.isfinite(table["consistent"]).any():
        lines.append("same both ways: the share of (prompt, pair) seen in both orders whose verdict did not turn.")
    if without:
        lines.append(
            f"No position bias of {listed(without)}: they have fewer than {found.min_shared} comparisons of pairs "
            "seen in both orders."
        )
    if len(table) > MOST_ROWS:
        lines.append(f"Position: {MOST_ROWS} of {len(table)} judges are shown; see `position`.")
    return lines


def _on_effects(found: Judging) -> list[str]:
    table = found.effects
    lines = []
    if len(table):
        tested = int(table["p_adjusted"].notna().sum())
        lines.append(
            "judge - mean is how much more a judge gives a model than the mean of the judges, opponent by opponent; "
            f"{int(table['stands'].sum())} of {tested} are significant at {found.alpha:g} (Holm over all), marked *."
        )
    without = found.n_judges - found.boards.index.get_level_values("judge").nunique()
    if without:
        lines.append(f"{without} judges with fewer than {found.min_shared} comparisons have no board and no effects.")
    unknown = int(found.boards["se"].isna().sum())
    if unknown:
        lines.append(
            f"{unknown} of {len(found.boards)} win rates by judge have no error: over 2% of their weight lies on pairs "
            "that the judge saw under one prompt, or their pairs are concentrated on a few, or they do not vary."
        )
    shown = min(found.boards.index.get_level_values("judge").nunique(), MOST_COLUMNS)
    if shown < found.n_judges or found.boards.index.get_level_values("model").nunique() > MOST_ROWS:
        lines.append(f"At most {MOST_COLUMNS} judges and {MOST_ROWS} models are shown; see `boards` and `effects`.")
    return lines


def _on_variance(found: Judging) -> list[str]:
    table = found.variance
    lines = [
        "Shares are of the variance of one comparison around its pair's mean, by moments (MINQUE(0)): unbiased, so "
        "small ones may be negative. What a prompt or judge adds to all models alike cancels out of a comparison; "
        "prompt, judge and prompt x judge are by how much each favours the left side. There are no error bars; a "
        "component is known no better than its levels allow."
    ]
    if (table["variance"].reindex([PAIR_BOTH]) < 0).any():
        lines.append(f"{PAIR_BOTH} is negative where a judge's verdicts turn with the order.")
    together = [str(name) for name in table.index if " + " in str(name)]
    if together:
        lines.append(f"This log tells only the sum of {'; of '.join(together)}.")
    if table["variance"].isna().any():
        names = ", ".join(map(str, table.index[table["variance"].isna()]))
        lines.append(f"No shares of {names}: too few pairs were seen in both orders to tell position from models.")
    return lines

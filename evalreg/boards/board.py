"""Boards: comparisons by pair of models, what they say pair by pair, and results of models made of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.boards.judges import Judging, judging_of
from evalreg.checks import FloatArray, IntArray, counted, fraction, hold
from evalreg.covariance.covariance import Covariance
from evalreg.covariance.crossed import USUAL_LEVEL, Widths
from evalreg.covariance.options import ResolvedCov
from evalreg.covariance.proportions import logit_interval
from evalreg.covariance.special import TOO_FEW_EFFECTIVE, sparsity
from evalreg.covariance.terms import errors_by_cell
from evalreg.data.clusters import Axis, Codes, Groups, Labels, axis_name, union
from evalreg.data.engine import Query
from evalreg.data.engine_pairs import EXCHANGED, FIRST_SCORE, PairsInEngine, read_pairs_in_engine, read_summed_pairs
from evalreg.data.pairs import PairCells, PairRoles, open_pairs, read_pairs
from evalreg.data.sums import SummedLog, with_joint
from evalreg.errors import NotAvailableError
from evalreg.estimate import Estimate
from evalreg.inference.intervals import Carried
from evalreg.inference.simultaneous import adjust_pvalues
from evalreg.results.multiple_models import Together
from evalreg.results.results import Results
from evalreg.scores.base import Cells, CellScores, cell_sums, extremes
from evalreg.scores.engine import EngineScores, Measured
from evalreg.scores.stacking import SummedPairScores


@dataclass(frozen=True, eq=False, kw_only=True)
class Pairs(PairCells):
    """Comparisons by pair of models, scored for the first of the two; their arrays are read-only.

    Parameters
    ----------
    scores : CellScores or EngineScores
        Of the rows in their cells, fitted by the mean of each.
    sums : Cells
        Of the cells.
    axes : tuple of Axis or None
        The clusterings asked for.
    dropped : dict of str to int
        Rows dropped, by reason.
    lines : tuple of str
        What the schedule looks like, in words.
    """

    scores: CellScores | EngineScores
    sums: Cells
    axes: tuple[Axis, ...] | None
    dropped: dict[str, int]
    lines: tuple[str, ...]

    def __post_init__(self) -> None:
        hold(self)

    @property
    def mean(self) -> FloatArray:
        """psi of each cell: the mean score of its first model, shape (n_cells,)."""
        return self.scores.fitted

    @property
    def rows(self) -> CellScores:
        """The scores, of rows in memory."""
        assert isinstance(self.scores, CellScores)
        return self.scores

    def in_memory(self, what: str) -> CellScores:
        """The scores of rows in memory, which `what` needs."""
        if not isinstance(self.scores, CellScores):
            raise NotAvailableError(
                f"{what} needs rows in memory, but these rows are in an engine. Collect the columns of the sides, the "
                "verdicts, the groups and the judges, and make the board of that frame."
            )
        return self.scores

    def keys(self, *sides: IntArray) -> dict[str, Any]:
        """Names of the strata, where there are some, and of the left and right models, by column."""
        names = np.array(self.models, dtype=object)
        strata = {} if self.strata == ("",) else {"stratum": np.array(self.strata, dtype=object)[self.stratum]}
        return strata | dict(zip(("left", "right"), (names[side] for side in sides), strict=True))

    def errors(self, axes: tuple[Axis, ...], options: ResolvedCov) -> tuple[Widths, FloatArray]:
        """Errors of each cell's mean alone; NaN where a cell rests on a single cluster."""
        return errors_by_cell(self.scores, self.sums, axes, options)

    def with_labels(self, labels: Labels | None) -> Pairs:
        """The same with the cluster labels of the results that they belong to."""
        if labels is None or not isinstance(self.scores, CellScores):
            return self
        return replace(self, scores=replace(self.scores, labels=labels))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "scores": self.scores.detached()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        hold(self)


def gather_pairs(data: Any, roles: PairRoles, groups: Groups, needs_rows: str | None = None) -> Pairs:
    """Comparisons of a log, sorted into pairs of models, with the sums and the scores of the cells.

    Rows in an engine stay there, unless `needs_rows` says what needs them.
    """
    if isinstance(data, SummedLog):
        data = with_joint(data, roles.strata)
        return _of_lines(*read_summed_pairs(data, roles, groups, needs_rows), data.dropped)
    table, roles = open_pairs(data, roles, groups, needs_rows)
    if isinstance(table, Query):
        return _of_engine(read_pairs_in_engine(table, roles, groups), roles)
    cells, rows, values = read_pairs(table, roles, groups)
    sums = cell_sums(values, cells.cell, cells.first.size, rows.weights)
    scores = CellScores(values, sums.mean, rows.labels(), cells.cell, rows.weights)
    counts = {"n": np.ones(values.size), "tied": values == 0.5}
    return _pairs(cells, sums, scores, counts, rows.axes, rows.dropped)


def _pairs(
    read: PairCells,
    sums: Cells,
    scores: CellScores | EngineScores,
    counts: dict[str, Any],
    axes: tuple[Axis, ...] | None,
    dropped: dict[str, int],
) -> Pairs:
    """The cells; `counts` are rows and ties of each entry."""
    lines = _design_lines(read, sums.count, counts)
    return Pairs(**vars(read), scores=scores, sums=sums, axes=axes, dropped=dropped, lines=lines)


def _of_engine(read: PairsInEngine, roles: PairRoles) -> Pairs:
    """Rows that stay in an engine, from the sums of their kinds."""
    pairs, kinds, sums = read.pairs, read.sums, _added(read.pairs, read.sums)
    sign = np.where(pairs.swapped, -1.0, 1.0)
    moments = {"ee": kinds["wwvv"], "ed": sign * kinds["wwv"], "dd": kinds["ww"]}
    heaviest = extremes(pairs.cell, kinds["heaviest"], kinds["heaviest"], sums.count.size)[1]
    exchanged = None if roles.key else nw.col(EXCHANGED)
    scores = EngineScores(
        Measured(read.table, nw.col(FIRST_SCORE), weight=read.weight, exchanged=exchanged),
        read.cells,
        sums,
        sums.mean,
        centre=np.full(sums.count.size, 0.5),
        weighted=read.weight is not None,
        heaviest=heaviest,
        _moments=[{name: np.bincount(pairs.cell, values).astype(float) for name, values in moments.items()}],
    )
    alike = 0
    if not roles.key and (read.axes is not None or roles.strata is not None):
        n_ordered = np.unique(pairs.cell * 2 + pairs.swapped).size
        alike = scores.n_rows - (n_ordered if read.axes is None else scores.n_entries(union(*read.axes)))
    return _pairs(replace(pairs, alike=alike), sums, scores, kinds, read.axes, read.dropped)


def _of_lines(
    cells: PairCells,
    labels: dict[str, Codes],
    axes: tuple[Axis, ...] | None,
    lines: dict[str, FloatArray],
    dropped: dict[str, int],
) -> Pairs:
    """Lines that were summed of comparisons."""
    sums = _added(cells, lines)
    constant = lines["low"] == lines["high"]
    means, within = [], []
    for w, wv, wvv in (("w", "wv", "wvv"), ("ww", "wwv", "wwvv")):
        mean = np.where(constant, lines["low"], lines[wv] / lines[w] + 0.5)
        means.append(np.where(cells.swapped, 1.0 - mean, mean))
        within.append(np.where(constant, 0.0, np.maximum(lines[wvv] - lines[wv] ** 2 / lines[w], 0.0)))
    scores = SummedPairScores(
        values=means[0],
        fitted=sums.mean,
        labels=Labels(cells.cell.size, labels),
        cell=cells.cell,
        weights=lines["w"],
        within=within[0],
        count=lines["n"],
        weight2=lines["ww"],
        mean2=means[1],
        within2=within[1],
        heaviest=lines["heaviest"],
    )
    return _pairs(cells, sums, scores, lines, axes, dropped)


def _added(read: PairCells, kinds: dict[str, FloatArray]) -> Cells:
    """Sums of cells, as scores of their first models, from those of kinds or lines, v being the left score less 1/2."""
    swapped, n_cells = read.swapped, read.first.size
    turned = {**kinds, "wv": np.where(swapped, -kinds["wv"], kinds["wv"])}
    n, w, wv, wvv = (np.bincount(read.cell, turned[name], n_cells).astype(float) for name in ("n", "w", "wv", "wvv"))
    least = np.where(swapped, 1 - kinds["high"], kinds["low"])
    low, high = extremes(read.cell, least, np.where(swapped, 1 - kinds["low"], kinds["high"]), n_cells)
    return Cells.of_totals(n, w, wv + w / 2, np.maximum(wvv - wv**2 / w, 0.0), low, high)


def _design_lines(read: PairCells, count: FloatArray, counts: dict[str, Any]) -> tuple[str, ...]:
    """What the schedule of `count` comparisons of each pair looks like; `counts` are rows and ties of each entry."""
    n_models, n_strata, alike = len(read.models), len(read.strata), read.alike
    turned = np.bincount(read.cell, np.where(read.swapped, counts["n"], 0.0))
    # Shares of ties, and of rows in their pair's rarer order.
    tied, rarer = (part.sum() / count.sum() for part in (counts["tied"], np.minimum(turned, count - turned)))
    several = count.size > 1
    fewest, most = f"{np.min(count):.0f}", counted(np.max(count), "comparison")
    each = f"{most}{' each' if several else ''}"
    if fewest != f"{np.max(count):.0f}":
        each = f"{fewest} to {most} (median {np.median(count):.0f})"
    order = f"{rarer:.0%} with the models in the other order"
    if rarer == 0:
        order = f"{'each pair' if several else 'all'} in one order"
    pairs = counted(count.size, "pair") + (f" in {n_strata} strata" if n_strata > 1 else "")
    line = f"{n_models} models, {pairs} with {each}; {tied:.1%} tied, {order}."
    if not alike:
        return (line,)
    return line, (
        f"{alike} rows equal an earlier one in the models and in all columns named; name in `key` what identifies a "
        "comparison, and repeats are refused."
    )


def head_to_head(pairs: Pairs, errors: tuple[Widths, FloatArray], alpha: float | None = None) -> pd.DataFrame:
    """Table of all pairs that met, both ways round, indexed by (left, right), or (stratum, left, right).

    `alpha` adds dof and intervals on the logit scale: NaN without a standard error, and where psi is 0 or 1. `p_value`
    is of psi = 1/2.
    """
    widths, n_clusters = errors
    se, p = np.sqrt(widths.variance), widths.pvalues(pairs.mean - 0.5)
    sides = [(pairs.first, pairs.second, pairs.mean), (pairs.second, pairs.first, 1.0 - pairs.mean)]
    parts = []
    for left, right, psi in sides:
        counts = {"n": pairs.sums.count.astype(int), "n_clusters": n_clusters.astype(int)}
        columns = {"psi": psi, "se": se, **counts, "p_value": p}
        if alpha is not None:
            fraction("alpha", alpha)
            inside, ends = (se > 0) & (psi > 0) & (psi < 1), np.full((psi.size, 2), np.nan)
            half = widths.half(alpha)[inside]
            ends[inside] = logit_interval(psi[inside], se[inside], half / se[inside])
            columns |= {"dof": widths.dof(USUAL_LEVEL), "lower": ends[:, 0], "upper": ends[:, 1]}
        keys = pairs.keys(left, right)
        parts.append(pd.DataFrame({**keys, **columns}).set_index(list(keys)))
    return pd.concat(parts).sort_index()


def condorcet_cycles(table: pd.DataFrame, alpha: float) -> pd.DataFrame:
    """Cycles a beats b beats c beats a, and which of them stand once chance is allowed for.

    One row a cycle, from `head_to_head` without strata. `p_adjusted` is the largest of its edges, which are tested with
    the edges of all pairs by Holm at the family-wise level `alpha`.
    """
    fraction("alpha", alpha)
    models = list(dict.fromkeys(table.index.get_level_values("left")))
    psi = table["psi"].unstack("right").reindex(index=models, columns=models).to_numpy()
    p = table["p_value"][table.index.get_level_values("left") < table.index.get_level_values("right")]
    adjusted = pd.Series(adjust_pvalues(p.to_numpy(), "holm"), p.index).to_dict()
    rows = []
    for a, b, c in cycles_of(psi > 0.5):
        edges = [(models[a], models[b]), (models[b], models[c]), (models[c], models[a])]
        worst = float(np.max([adjusted.get(tuple(sorted(edge)), np.nan) for edge in edges]))
        values = [float(psi[i, j]) for i, j in ((a, b), (b, c), (c, a))]
        rows.append((models[a], models[b], models[c], *values, worst, bool(worst <= alpha)))
    columns = ["a", "b", "c", "psi_ab", "psi_bc", "psi_ca", "p_adjusted", "stands"]
    cycles = pd.DataFrame(rows, columns=columns).sort_values(["p_adjusted", "a", "b", "c"], ignore_index=True)
    cycles.attrs["alpha"] = alpha
    return cycles


def cycles_of(beats: Any) -> list[tuple[int, int, int]]:
    """All triples with a beats b beats c beats a, each once, its smallest number first; `beats` is (n, n)."""
    after = [beats[a + 1 :, a + 1 :] & beats[a, a + 1 :, None] & beats[a + 1 :, a] for a in range(len(beats))]
    return [(a, a + 1 + int(b), a + 1 + int(c)) for a, edges in enumerate(after) for b, c in np.argwhere(edges)]


@dataclass(frozen=True, eq=False, repr=False)
class Board(Results):
    """Results of models compared in pairs: a leaderboard with its error bars; immutable.

    Made by `win_rate` and `bradley_terry`.

    Parameters
    ----------
    estimate : Estimate
        Parameters and scores.
    cov : Covariance
        Their covariance.
    axes : tuple of Axis
        Clusterings as asked.
    requested : CovOptions
        Covariance options as asked.
    notes : tuple of (category, text)
        What was warned of.
    pairs : Pairs, optional
        The comparisons by pair of models; None of contrasts of a board.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.judge_log(n_models=4, n_prompts=60, seed=1)
    >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
    >>> board.head_to_head().loc[("model-01", "model-04"), "n"].item()
    180
    """

    pairs: Pairs | None = None
    _rows_word: ClassVar[str] = "comparisons"

    @property
    def _counts(self) -> FloatArray | None:
        """Comparisons behind each parameter: of a model its own, of a covariate all."""
        pairs, names = self.pairs, self.estimate.names
        if pairs is None or not set(names) & set(pairs.models):
            return super()._counts
        sides = np.concatenate([pairs.first, pairs.second])
        each = np.bincount(sides, np.tile(pairs.sums.count, 2), len(pairs.models))
        of_model = dict(zip(pairs.models, each, strict=True))
        return np.array([of_model.get(name, float(self.estimate.n_rows)) for name in names])

    def head_to_head(self, alpha: float | None = None) -> pd.DataFrame:
        """How often each model beat each other one, a tie being one half.

        Parameters
        ----------
        alpha : float, optional
            Adds intervals at this level, one by one, on the logit scale; none by default.

        Returns
        -------
        DataFrame
            Indexed by (left, right), or (stratum, left, right); columns psi, se, n and n_clusters (of the first axis),
            and with `alpha` dof, lower and upper. The errors are those of one pair at a time, NaN where it met under
            one cluster only or where its scores do not vary.

        Raises
        ------
        NotAvailableError
            If these are contrasts of a board, which have no pairs.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.judge_log(n_models=3, n_prompts=40, n_judges=3, seed=2)
        >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
        >>> board.head_to_head()[["psi", "n"]].round(3).values.tolist()
        [[0.717, 120.0], [0.742, 120.0], [0.283, 120.0], [0.558, 120.0], [0.258, 120.0], [0.442, 120.0]]
        """
        return self._head_to_head(alpha).drop(columns="p_value")

    def odds(self) -> Results:
        """Win odds S/(1 - S) of each model.

        Returns
        -------
        Results
            Parameters keep their names. Intervals, tests of single odds, bands of all models and ranks are those of the
            win rates, turned into odds; t and p test odds against 1. Standard errors are by the delta method, and so
            are differences of odds, what `stack` and `concat` make of them, and `method="wald"`. With rates near 1 and
            few prompts those are too sure; ask for differences of win rates or of ratings.

        Raises
        ------
        NotAvailableError
            For anything but win rates, and where one is 1.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.judge_log(n_models=3, n_prompts=40, n_judges=3, seed=2)
        >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
        >>> board.odds().params.round(3).to_dict()
        {'model-01': 2.692, 'model-02': 0.727, 'model-03': 0.538}
        """
        S = np.array(self._rates.params)
        if np.any(S >= 1):
            raise NotAvailableError("win odds are infinite where a model won every comparison.")
        odds = self.transform(lambda _: odds_of(S), self.estimate.names, derivative=np.diag((1 - S) ** -2))
        return self._carried("Win odds", odds, odds_of, null=1.0)

    def net_benefit(self) -> Results:
        """Net benefit 2 S - 1 of each model: how much more often it wins than it loses.

        Returns
        -------
        Results
            Parameters keep their names; zero is no difference. Intervals, tests of single models, bands of all and
            ranks are those of the win rates, turned into net benefits; differences are twice those of rates.

        Raises
        ------
        NotAvailableError
            For anything but win rates.
        """
        names = self._rates.names
        benefit = self.contrast(2.0 * np.eye(len(names)), names, constant=-1.0)
        return self._carried("Net benefit", benefit, net_benefit_of)

    @property
    def _rates(self) -> Estimate:
        """The win rates; raises where the parameters are something else."""
        if self.pairs is None or not self.estimate.bounded:
            raise NotAvailableError("win odds and net benefit are those of win rates, which these parameters are not.")
        return self.estimate

    def _carried(self, model: str, moved: Board, into: Callable[[FloatArray], FloatArray], null: float = 0) -> Board:
        """An increasing function of each rate under its own name, whose models and intervals are those of the rates."""
        rates, lines = self.estimate, (f"Intervals are {Carried.interval_rule}.",)
        about = replace(rates.about, model=model, interval="wald", lines=lines, one_board=False, null=null)
        family = Carried(rates, np.arange(rates.n_params), into, moved.estimate.family)
        return replace(moved, estimate=replace(moved.estimate, about=about, family=family), notes=())

    def cycles(self, alpha: float = 0.05) -> pd.DataFrame:
        """Condorcet cycles: a beats b, b beats c, and c beats a.

        Parameters
        ----------
        alpha : float, default 0.05
            Family-wise level over all pairs (Holm) at which the edges of a cycle must stand.

        Returns
        -------
        DataFrame
            One row a cycle, columns a, b, c, psi_ab, psi_bc, psi_ca, p_adjusted (the largest of the three, NaN where
            an edge has no error) and stands.

        Raises
        ------
        NotAvailableError
            For boards of several strata.
        """
        if (n_strata := len(self._pairs.strata)) > 1:
            raise NotAvailableError(
                f"cycles are those of one board, and this one has {n_strata} strata, in which pairs differ. Call "
                "`win_rate` without `by`, or on the rows of one stratum."
            )
        return condorcet_cycles(self._head_to_head(), alpha)

    def judges(
        self, judge: str = "judge", prompt: str | None = None, *, min_shared: int = 20, alpha: float = 0.05
    ) -> Judging:
        """Judges set against each other: agreement, a board each, tastes, position bias.

        Errors are clustered by prompt, for these judges; the covariance is of the kind that the board has.

        Parameters
        ----------
        judge, prompt : str, optional
            Columns of judges and prompts; several joined by colons are one, as "language:question". The prompts are
            "prompt" by default; without such a column, the one clustering that the board has beside the judges.
        min_shared : int, default 20
            Comparisons that two judges must share, and one must have made, for estimates of their own.
        alpha : float, default 0.05
            Family-wise level (Holm) at which position biases, and judge-by-model effects, stand.

        Returns
        -------
        Judging
            Tables agreement, overall, boards, effects and position, and a `summary()`.

        Raises
        ------
        MissingColumnError
            If a column is not there.
        NotAvailableError
            If there is one judge.
        TooFewClustersError
            If there is one prompt.

        Examples
        --------
        >>> import evalreg as er
        >>> log = er.datasets.judge_log(n_models=3, n_prompts=40, n_judges=3, seed=2)
        >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
        >>> board.judges(judge="judge", prompt="prompt").agreement["agreement"].round(3).to_dict()
        {('judge-1', 'judge-2'): 0.583, ('judge-1', 'judge-3'): 0.733, ('judge-2', 'judge-3'): 0.65}
        """
        others = [name for name in map(axis_name, self.axes or ()) if name != str(judge)]
        if prompt is None:
            prompt = others[0] if len(others) == 1 and "prompt" not in self.estimate.scores.columns else "prompt"
        pairs, options = self._pairs, replace(self.cov.options, alike=None)
        return judging_of(pairs, pairs.in_memory("comparing judges"), options, judge, prompt, min_shared, alpha)

    @property
    def _compared(self) -> Together:
        return self._models("compared", lambda: self.cov)

    @property
    def _ranked(self) -> Together:
        if self.pairs is None:
            return super()._ranked
        return self._models("ranked", lambda: ranked_cov(self))

    def _models(self, name: str, make: Callable[[], Covariance]) -> Together:
        """The models alone, without covariates, under a covariance; once, so that statements share their draws."""
        held = self.cov.cache.get(name)
        if held is None or held[0] is not self.estimate:
            params, cov, n = self.params, make(), self.estimate.about.n_models
            if n not in (0, len(params)):
                params, cov = params.iloc[:n], cov.linear(np.eye(len(params))[:n], self.estimate.names[:n])
            held = self.cov.cache[name] = (self.estimate, (params, cov))
        return cast("Together", held[1])

    @property
    def _pairs(self) -> Pairs:
        if self.pairs is None:
            raise NotAvailableError("contrasts of a board have no pairs of models; ask the board itself.")
        return self.pairs.with_labels(self.estimate.scores.row_labels())

    def _head_to_head(self, alpha: float | None = None) -> pd.DataFrame:
        return head_to_head(self._pairs, self._pairs.errors(self.cov.axes, self.cov.options), alpha)


def odds_of(S: FloatArray) -> FloatArray:
    """Win odds of win rates, infinite at 1."""
    with np.errstate(divide="ignore"):
        return S / (1 - S)


def net_benefit_of(S: FloatArray) -> FloatArray:
    """How much more often a model wins than it loses, from win rates."""
    return 2 * S - 1


def ranked_cov(board: Results) -> Covariance:
    """The covariance from which ranks are told, that of bands; unknown for models that rest on too few clusters."""
    estimate, cov = board.estimate, board.cov
    if not cov.axes or estimate.cells is None or estimate.coefficient_map is None:
        return cov
    finest = max(cov.axes, key=estimate.scores.n_clusters)
    few = sparsity(estimate, finest).effective < TOO_FEW_EFFECTIVE
    known = np.zeros(estimate.n_params, dtype=bool) if cov.withheld is None else cov.withheld
    return replace(cov, withheld=known | few) if few.any() else cov

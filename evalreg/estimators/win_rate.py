"""Win rates on a log of comparisons: each model's mean score against the others, whatever the matchmaking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any, TypeAlias, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from evalreg.boards.board import Board, Pairs, gather_pairs
from evalreg.checks import FloatArray, IntArray, by_stratum, checked_number, listed, nearest, option, passed
from evalreg.choices import BoardOptions, MissingName, OpponentsName
from evalreg.covariance.options import CovOptions, requested_options
from evalreg.data.clusters import Groups
from evalreg.data.pairs import PairRoles, as_name, as_names
from evalreg.data.rows import joint_names
from evalreg.errors import ArgumentError, ArgumentTypeError, DataError, IndependenceWarning, Note
from evalreg.estimate import About, Estimate, Refit, of_means, same_questions
from evalreg.numerics.limits import FULL_LEVERAGE
from evalreg.numerics.matrices import Matrix, compressed, dense, difference_rows, scale_columns, times, with_entries
from evalreg.results.results import estimator, results_of
from evalreg.scores.base import Block, Cells, extremes
from evalreg.scores.score_interval import ICC_MEAN, SingleMeans, rows_over_strata
from evalreg.scores.stacking import MappedScores

Mix: TypeAlias = str | Mapping[str, float] | None


@dataclass(frozen=True, eq=False)
class Schedule:
    """Win rates S = T (sum of w psi) over pairs, solved with all rows, and again without each cluster.

    A rate is that of a model in a stratum; T mixes the strata.
    """

    names: tuple[str, ...]
    # (n_rates, n_cells): w, the share of each pair in each rate; negative where the rate's model is the pair's second,
    # so that it moves with 1 - psi
    signed: Matrix
    mix: Matrix  # T, (n_params, n_rates); the identity without a mix
    mean: FloatArray  # (n_cells,): psi
    weight: FloatArray  # (n_cells,): of the rows

    @cached_property
    def shares_of_pairs(self) -> Matrix:
        """w, without the sign that tells the two models of a pair apart."""
        return abs(self.signed)

    @cached_property
    def oriented(self) -> Matrix:
        """psi of each rate's model in each of its cells, weighted; shape (n_rates, n_cells)."""
        of_first, share = self.mean[self.signed.indices], self.signed.data
        return with_entries(self.signed, np.where(share > 0, share * of_first, -share * (1.0 - of_first)))

    @cached_property
    def rates(self) -> FloatArray:
        """Win rates of the models in the strata, shape (n_rates,)."""
        return np.asarray(self.oriented.sum(axis=1))

    def _changes(self, moved: Matrix, gone: Matrix) -> Matrix:
        """By how much rates change where the means of pairs moved, or pairs are gone, both (m, n_cells).

        A sparse array, (m, n_rates), as a cluster changes the rates of its own models. The opponents that are left have
        all of the weight; NaN where none is.
        """
        lost = compressed(gone @ self.shares_of_pairs.T)
        unsolved = 1.0 - lost.data <= FULL_LEVERAGE
        # (S + x)/(1 - l) - S = (x + l S)/(1 - l)
        top = compressed(moved @ self.signed.T - gone @ self.oriented.T) + scale_columns(lost, self.rates)
        more = with_entries(lost, np.where(unsolved, 0.0, lost.data / np.where(unsolved, 1.0, 1.0 - lost.data)))
        return compressed(top + top.multiply(more) + with_entries(lost, np.where(unsolved, np.nan, 0.0)))

    def __call__(self, block: Block) -> Matrix:
        """S_(g) - S, shape (n_clusters, n_params); NaN where a model has no pair left."""
        gram, totals = compressed(block.gram), compressed(block.totals)
        if not (np.array_equal(totals.indptr, gram.indptr) and np.array_equal(totals.indices, gram.indices)):
            totals = (totals + with_entries(gram, np.zeros(gram.nnz))).tocsr()
        left = self.weight[gram.indices] - gram.data
        gone = left <= FULL_LEVERAGE * self.weight[gram.indices]
        # A pair's mean without a cluster differs from psi by -R_g/(n - n_g), R_g the residuals' sum in the cluster.
        moved = with_entries(gram, np.where(gone, 0.0, -totals.data / np.where(gone, 1.0, left)))
        return times(self._changes(moved, with_entries(gram, gone.astype(float))), self.mix.T)

    def resolve(self, moved: FloatArray, weight: FloatArray) -> FloatArray:
        """Win rates where the means of pairs moved and have these weights, both (n_cells, m): shape (m, n_params)."""
        gone = (weight <= FULL_LEVERAGE * self.weight[:, None]).T
        rates = self.rates + dense(self._changes(np.where(gone, 0.0, moved.T), gone.astype(float)))
        return np.asarray(rates @ self.mix.T)  # sparse: what is not solved counts where it has a share


def make_schedule(pairs: Pairs, opponents: str | pd.DataFrame, mix: Mix) -> tuple[Schedule, list[str]]:
    """Weights of the pairs in each win rate, and what to say about them: opponents never met, shares of the strata.

    `mix` None gives each stratum parameters of its own.
    """
    n_models, n_strata, n_cells = len(pairs.models), len(pairs.strata), pairs.first.size
    cell = np.tile(np.arange(n_cells), 2)
    model, other = np.append(pairs.first, pairs.second), np.append(pairs.second, pairs.first)
    weight = np.ones(2 * n_cells) if isinstance(opponents, str) else _opponent_weights(pairs, opponents)[model, other]
    present, row = np.unique(np.tile(pairs.stratum, 2) * n_models + model, return_inverse=True)
    of_stratum, of_model = present // n_models, present % n_models
    total = np.bincount(row, weight)
    if not np.all(total > 0):
        names = [pairs.models[m] for m in of_model[~(total > 0)]]
        raise ArgumentError(
            f"`opponents` must give each model some weight on an opponent that it met; {_each(names)} none.",
            count=len(names),
        )
    share = np.repeat([1.0, -1.0], n_cells) * weight / total[row]
    signed = sparse.coo_array((share, (row, cell)), (present.size, n_cells)).tocsr()
    lines, known = never_met(pairs, isinstance(opponents, str)), (pairs.mean, pairs.sums.weight)
    if mix is None:
        strata = [()] if pairs.strata == ("",) else [(name,) for name in pairs.strata]
        keys = [(pairs.models[m], *strata[s]) for m, s in zip(of_model, of_stratum, strict=True)]
        return Schedule(joint_names(keys), signed, sparse.eye_array(present.size, format="csr"), *known), lines
    shares = _shares(pairs, mix)
    compared = np.zeros((n_models, n_strata), dtype=bool)
    compared[of_model, of_stratum] = True
    lacking = np.flatnonzero(~compared.all(axis=1))
    if lacking.size:
        absent = [pairs.strata[s] for s in np.flatnonzero(~compared[lacking[0]])]
        raise DataError(
            f"`standardise` needs every model in every stratum; not so {listed(pairs.models[i] for i in lacking)} "
            f"({pairs.models[lacking[0]]!r} has no comparison in {listed(absent)}). Leave out these models or strata.",
            count=int(lacking.size),
        )
    T = sparse.coo_array((shares[of_stratum], (of_model, np.arange(present.size))), (n_models, present.size)).tocsr()
    T.eliminate_zeros()
    listing = ", ".join(f"{name} {value:.3g}" for name, value in list(zip(pairs.strata, shares, strict=True))[:6])
    lines.append(f"Standardised to a mix of strata that is held fixed: {listing}{', ...' if n_strata > 6 else ''}.")
    return Schedule(pairs.models, signed, T, *known), lines


def _each(names: list[str]) -> str:
    """Names and the verb that goes with as many of them."""
    return f"{listed(names)} {'has' if len(names) == 1 else 'have'}"


def _opponent_weights(pairs: Pairs, opponents: pd.DataFrame) -> FloatArray:
    """Weights of opponents as given, shape (n_models, n_models)."""
    if not isinstance(opponents, pd.DataFrame):
        raise ArgumentTypeError(
            '`opponents` must be "uniform", "as_sampled" or a pandas DataFrame of weights, models in rows and '
            f"opponents in columns; got a {type(opponents).__name__} of {type(opponents).__module__.partition('.')[0]}."
        )
    frame = opponents.rename(index=as_name, columns=as_name)
    for where, names in (("row", frame.index), ("column", frame.columns)):
        twice = list(dict.fromkeys(names[names.duplicated()]))
        absent = [model for model in pairs.models if model not in names]
        if wrong := twice or absent:
            problem, hint = ("more than one", "") if twice else ("none", nearest(absent[0], list(names)))
            raise ArgumentError(
                f"`opponents` must have one {where} for each model of the log; {_each(wrong)} {problem}.{hint}",
                count=len(wrong),
            )
    try:
        values = frame.loc[list(pairs.models), list(pairs.models)].to_numpy(dtype=np.float64).copy()
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"`opponents` must hold numbers ({error}).") from None
    np.fill_diagonal(values, 0.0)
    wrong_values = ~(values >= 0) | ~np.isfinite(values)
    if wrong_values.any():
        i, j = np.argwhere(wrong_values)[0]
        raise ArgumentError(
            f"`opponents` must hold weights of zero or more; that of {pairs.models[j]!r} for {pairs.models[i]!r} is "
            f"{values[i, j]:g} ({int(wrong_values.sum())} such).",
            count=int(wrong_values.sum()),
        )
    return values


def never_met(pairs: Pairs, alike: bool = True) -> list[str]:
    """Opponents that a model never met, in words; `alike` says that all of those met weigh the same."""
    n_models = len(pairs.models)
    met = np.eye(n_models, dtype=bool)
    met[pairs.first, pairs.second] = met[pairs.second, pairs.first] = True
    missing = {pairs.models[a]: list(compress(pairs.models, ~met[a])) for a in np.flatnonzero(~met.all(axis=1))}
    if not missing:
        return []
    if len(missing) <= 5:
        each = "; ".join(f"{name}: {', '.join(map(str, others[:5]))}" for name, others in missing.items())
    else:
        worst = sorted(missing, key=lambda name: -len(missing[name]))[:3]
        each = ", ".join(f"{name} {len(missing[name])} of {n_models - 1}" for name in worst) + ", ..."
    n_pairs = int(np.sum(~met)) // 2
    what = "the weights of the others" if alike else "the given weights of the others"
    met_not = "1 pair never met and has no weight" if n_pairs == 1 else f"{n_pairs} pairs never met and have no weight"
    return [f"{met_not}; {what} are scaled to sum to one ({each})."]


def _shares(pairs: Pairs, mix: str | Mapping[str, float]) -> FloatArray:
    """Shares of the strata, which sum to one."""
    if not isinstance(mix, Mapping):
        if not isinstance(mix, str):
            what = type(mix).__name__
            raise ArgumentTypeError(f'`standardise` must be "uniform" or a mapping; got {what}.')
        option("standardise", mix, ("uniform",), " Or give a mapping of shares.")
        return np.full(len(pairs.strata), 1 / len(pairs.strata))
    shares, rule = by_stratum("standardise", mix, pairs.strata, "share"), "hold shares of zero or more"
    share = np.array([checked_number("standardise", value, rule, least=0.0) for value in shares])
    if not share.sum() > 0:
        raise ArgumentError(f"`standardise` must {rule}, not all of them zero; got {dict(mix)}.")
    return np.asarray(share / share.sum())


def solve(pairs: Pairs, schedule: Schedule, about: About) -> Estimate:
    """Win rates with fixed weights: a linear map of the means of the pairs."""
    A, sums = times(compressed(schedule.mix), schedule.signed), pairs.sums
    means = of_means(schedule.names, A, sums, pairs.scores, dropped=pairs.dropped, about=about)
    # A model that is second in a pair scores 1 - psi there.
    params, refit = np.asarray(schedule.mix @ schedule.rates), Refit(1.0 / sums.weight, leave_out=schedule)
    return _over_pairs(replace(means, params=params, kind="board", bounded=True, refit=refit), pairs, A)


def model_means(
    first: IntArray, second: IntArray, score: FloatArray, weight: FloatArray, n_models: int
) -> tuple[FloatArray, FloatArray, Matrix, Matrix, Matrix]:
    """The mean of what a first model scores, or 1 less that, over the comparisons that each model happened to have.

    Means and weights of the models, and (n_cells, n_models): one for the first model and minus one for the second, one
    for both, and what a cell has beyond the mean of each of its models. First models score `score`, shape (n_cells,).
    """
    side = difference_rows(first, second, n_models)
    counted, psi = with_entries(side, np.abs(side.data)), np.repeat(score, 2)
    psi = np.where(side.data > 0, psi, 1.0 - psi)
    total = np.asarray(counted.T @ weight)
    params = np.asarray(with_entries(side, psi).T @ weight) / total
    return params, total, side, counted, with_entries(side, psi - params[side.indices])


def solve_as_sampled(pairs: Pairs, about: About) -> Estimate:
    """Each model's mean score over the comparisons that it happened to have; the schedule varies with the rows.

    A row's scores are s - S_a for its first model and (1 - s) - S_b for its second.
    """
    K, sums = len(pairs.models), pairs.sums
    params, weight, side, counted, beyond = model_means(pairs.first, pairs.second, pairs.mean, sums.weight, K)
    sides = np.append(sums.low, 1.0 - sums.high), np.append(sums.high, 1.0 - sums.low)
    low, high = extremes(np.append(pairs.first, pairs.second), *sides, K)
    squares = counted.T @ sums.squares + beyond.multiply(beyond).tocsr().T @ sums.weight
    cells = Cells(counted.T @ sums.count, weight, params, squares, low, high)
    scores = MappedScores(pairs.scores, side, offset=beyond, counted=counted)
    means = of_means(pairs.models, np.eye(K), cells, scores, dropped=pairs.dropped, about=about)
    n = weight**2 / (counted.T @ pairs.scores.row_moments()[2])
    return _scored(replace(means, kind="board", bounded=True), scores, n, cells.scatter * n, weight)


def _over_pairs(board: Estimate, pairs: Pairs, A: Matrix) -> Estimate:
    """Win rates with the score intervals of means over their pairs, as over strata, of what their models score.

    `A` is the share of each pair in each rate, (n_params, n_cells), negative where the rate's model is the second.
    """
    weight, count = pairs.sums.weight, pairs.sums.weight**2 / pairs.scores.row_moments()[2]
    row = scale_columns(A, 1.0 / weight)
    share, of_first = abs(row), pairs.mean[row.indices]
    beyond = np.where(row.data > 0, of_first, 1.0 - of_first) - np.repeat(np.array(board.params), np.diff(row.indptr))
    scores = MappedScores(pairs.scores, row.T, offset=with_entries(share, share.data * beyond).T, counted=share.T)
    n, squares = rows_over_strata(abs(compressed(A)), (pairs.mean, count, pairs.sums.scatter * count))
    return _scored(board, scores, n, squares, np.ones(n.size))


def _scored(board: Estimate, scores: MappedScores, *of: FloatArray) -> Estimate:
    """Win rates with score intervals, by n*, n* s^2 and weight of each, from what their models score in each row."""
    n, squares, weight = of
    every = sparse.eye_array(n.size, format="csr")
    single = SingleMeans(scores, board.params, n, every, ICC_MEAN, squares, weight, opposed=True)
    return replace(board, family=same_questions(None, single))


def board_of(estimate: Estimate, pairs: Pairs, requested: CovOptions, groups: Groups) -> Board:
    """A board with the covariance and all notes of an estimate; the warnings are issued."""
    results = results_of(estimate, pairs.axes, requested, independence_notes(groups))
    # What differs between the sides is in the scores already.
    held = replace(pairs, side_names=(), sides=pairs.sides[:0])
    return Board(results.estimate, results.cov, results.axes, results.requested, results.notes, held)


def independence_notes(groups: Groups) -> tuple[Note, ...]:
    """What to warn of where comparisons are treated as independent."""
    if groups is not None:
        return ()
    text = (
        "no `groups`: comparisons are treated as independent, which they are not where one answer meets several "
        f"others or one judge decides many. Name the prompts and judges, such as {passed(groups='prompt + judge')}."
    )
    return ((IndependenceWarning, text),)


@estimator
def win_rate(
    data: Any,
    *,
    left: str,
    right: str,
    score: str | None = None,
    winner: str | None = None,
    labels: Mapping[Any, str | None] | None = None,
    key: str | list[str] | None = None,
    groups: Groups = None,
    weights: str | npt.ArrayLike | None = None,
    opponents: OpponentsName | pd.DataFrame = "uniform",
    by: str | None = None,
    standardise: Mix = None,
    missing: MissingName = "drop",
    **options: Unpack[BoardOptions],
) -> Board:
    """Win rates of models from a log of comparisons, with error bars that allow for answers used many times.

    The win rate of model a is S_a = sum over opponents b of w_ab psi_ab, psi_ab the mean score of a against b (a tie
    is one half). With fixed weights it is a linear map of a saturated regression on pairs, so that every clustered
    covariance carries over. Comparisons that share no cluster are taken to be independent.

    Parameters
    ----------
    data : data frame
        One row a comparison. In memory; or in an engine (a polars LazyFrame, a DuckDB relation), which then makes the
        sums: one query for the pairs of models, one for all clusterings together, and no row comes out.
        Or sums of comparisons, of `summarise` and `merged`.
    left, right : str
        Columns of the two models.
    score : str, optional
        Column of the left model's score, in [0, 1].
    winner : str, optional
        Column of verdicts: "left", "right", "tie" or a model's name; exactly one of `score` and `winner`.
    labels : mapping, optional
        What other verdicts mean, such as {"A": "left", "B": "right", "error": None}, the last for no verdict.
    key : str or list of str, optional
        Columns that, with the two models, identify a comparison, which may then not be repeated.
    groups : str, list of str, array, Series or dict, optional
        Clusters, as in `fit`: "prompt + judge" crosses two.
    weights : str or array_like, shape (n_rows,), optional
        Sampling weights.
    opponents : {"uniform", "as_sampled"} or DataFrame, optional
        Weights of opponents: equal for all that a model met (the default), by the comparisons it happened to have (the
        schedule is then random too), or given, models in rows and opponents in columns, and held fixed.
    by : str, optional
        Column of strata (languages, say): a win rate for each model in each, named "model:stratum".
    standardise : {"uniform"} or mapping, optional
        With `by`: one win rate a model, over the strata in these shares, equal or given, which are held fixed.
    subset : str, optional
        Which rows to use, in the language of ``--where``: ``'language == "en" and tokens < 100'``. The summary and
        `dropped` count the others. Arrays of groups and weights are those of all rows.
    missing : {"drop", "raise"}, optional
        What to do with rows whose verdict, model or cluster id is missing; dropped rows are counted.
    <cov>
        Covariance; "CR2" by default with groups, "naive" without. Where pairs met under one cluster alone CR2 does not
        exist, and the default is "jackknife", which solves again without each cluster.
    <ssc>
    <dof>
        Degrees of freedom; Satterthwaite under CR2, min over dimensions of G - 1 otherwise.
    <repair>
    <alike>

    Returns
    -------
    Board
        Results, parameters named by model and sorted as text; with `head_to_head`, `odds`, `net_benefit`, `cycles`.

    Raises
    ------
    UnknownLabelError, SelfComparisonError, DuplicateRowsError, ScoreRangeError, TooFewClustersError
        If the log breaks a rule; the message says which rows, or how many in an engine.
    NotAvailableError
        If an option needs rows in memory and they are in an engine; the message names the columns to collect.
    ArgumentError
        If an option is unknown.

    References
    ----------
    Miller (2024), arXiv:2411.00640, section 2.2, for clusters; Cameron, Gelbach and Miller (2011), JBES 29(2), eq.
    2.13, for crossed ones; Bell and McCaffrey (2002), Survey Methodology 28, for CR2.

    Examples
    --------
    >>> import evalreg as er
    >>> log = er.datasets.judge_log(n_models=4, n_prompts=60, seed=1)
    >>> board = er.win_rate(log, left="left", right="right", winner="winner", groups="prompt")
    >>> board.ranks()["rank"].to_dict()
    {'model-01': 1, 'model-02': 2, 'model-03': 3, 'model-04': 4}
    """
    requested = requested_options(options)
    if isinstance(opponents, str):
        option("opponents", opponents, OpponentsName)
    if standardise is not None and by is None:
        raise ArgumentError("`standardise` needs `by`, the column of the strata that it mixes.")
    sampled = isinstance(opponents, str) and opponents == "as_sampled"
    if sampled and by is not None:
        raise ArgumentError('`by` goes with fixed weights of opponents: opponents="uniform", or a table of weights.')
    roles = PairRoles(left, right, score, winner, labels, as_names(key), by, weights, missing)
    pairs = gather_pairs(data, roles, groups)
    schedule, lines = make_schedule(pairs, "uniform" if sampled else opponents, standardise)
    model = "Win rate" if by is None else f"Win rate by {by}" if standardise is None else f"Win rate, {by} standardised"
    if sampled:
        model, lines = "Win rate, as sampled", ["Opponents weigh as often as they were met; the schedule varies too."]
    about = About(
        model,
        score or winner or "",
        interval="logit",
        lines=(*pairs.lines, *lines),
        n_models=len(schedule.names),
        one_board=by is None or standardise is not None,
        null=0.5,
    )
    estimate = solve_as_sampled(pairs, about) if sampled else solve(pairs, schedule, about)
    return board_of(estimate, pairs, requested, groups)

"""How win rates weigh opponents and strata, with all rows and without a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd
from scipy import sparse

from evalreg.checks import FloatArray, IntArray, listed, nearest
from evalreg.covariance.leverage import FULL_LEVERAGE
from evalreg.data.pairs import as_name
from evalreg.errors import ArgumentError, ArgumentTypeError, DataError
from evalreg.estimators.pairs import Pairs
from evalreg.numerics.matrices import Matrix, compressed, dense, scale_rows, times
from evalreg.scores.base import Block

Mix: TypeAlias = str | Mapping[str, float] | None
MIXES = ("uniform", "observed")


@dataclass(frozen=True, eq=False)
class Observed:
    """Strata whose shares are those of the rows, and vary with them."""

    # Stratum of each cell, and of each rate.
    of_cell: IntArray
    of_rate: IntArray
    n_strata: int

    @property
    def members(self) -> Matrix:
        """One where a cell is in a stratum, shape (n_cells, n_strata)."""
        n_cells = self.of_cell.size
        where = (np.arange(n_cells), self.of_cell)
        return sparse.coo_array((np.ones(n_cells), where), shape=(n_cells, self.n_strata)).tocsr()


@dataclass(frozen=True, eq=False)
class Schedule:
    """How win rates weigh the pairs: S = T (sum of w psi / sum of w). A rate is that of a model in a stratum."""

    names: tuple[str, ...]
    # Weight of each pair in each rate before it is divided by the sum, (n_rates, n_cells).
    weights: Matrix
    # One where the rate's model is the pair's first, minus one where it is the second; of the same shape.
    side: Matrix
    # T: the strata's shares, (n_params, n_rates); the identity without a mix.
    mix: Matrix
    observed: Observed | None = None

    def mixed(self, rates: FloatArray, weight: FloatArray) -> FloatArray:
        """Parameters from rates (n_rates, m), where cells have these weights, (n_cells, m)."""
        if self.observed is None:
            return np.asarray(self.mix @ rates)
        by_stratum = np.asarray(self.observed.members.T @ weight)
        share = by_stratum / by_stratum.sum(axis=0)
        pattern = _like(self.mix, np.ones(self.mix.nnz))
        return np.asarray(pattern @ (rates * share[self.observed.of_rate]))

    @property
    def total(self) -> FloatArray:
        """Sum of the weights of each rate, shape (n_rates,)."""
        return np.asarray(self.weights @ np.ones(self.weights.shape[1]))

    @property
    def coefficient_map(self) -> Matrix:
        """The parameters as a linear map of the cells' means, but for a constant; shape (n_params, n_cells)."""
        signed = _like(self.weights, self.weights.data * self.side.data)
        return times(compressed(self.mix), scale_rows(signed, 1.0 / self.total))

    def oriented(self, mean: FloatArray) -> Matrix:
        """psi of each rate's model in each of its cells, weighted; shape (n_rates, n_cells)."""
        of_first = np.asarray(mean)[self.weights.indices]
        psi = np.where(self.side.data > 0, of_first, 1.0 - of_first)
        return _like(self.weights, self.weights.data * psi)

    def rates(self, mean: FloatArray) -> FloatArray:
        """Win rates of the models in the strata, shape (n_rates,)."""
        oriented = self.oriented(mean)
        return np.asarray(oriented @ np.ones(oriented.shape[1])) / self.total


@dataclass(frozen=True, eq=False)
class WithoutCluster:
    """Win rates solved again without each cluster: the means of pairs, the opponents met and their weights."""

    schedule: Schedule
    # psi of each cell.
    mean: FloatArray
    weight: FloatArray

    def __call__(self, block: Block) -> FloatArray:
        """S_(g) - S, shape (n_clusters, n_params); NaN where a model has no pair left."""
        plan, gram = self.schedule, compressed(block.gram)
        left = self.weight[gram.indices] - gram.data
        gone = left <= FULL_LEVERAGE * self.weight[gram.indices]
        total = _on(compressed(block.totals), gram)

        # A pair's mean without a cluster differs from psi by -R_g/(n - n_g), R_g the residuals' sum in the cluster.
        moved = _like(gram, np.where(gone, 0.0, -total / np.where(gone, 1.0, left)))
        absent = _like(gram, gone.astype(float))
        signed = _like(plan.weights, plan.weights.data * plan.side.data)
        sums, rates = plan.total, plan.rates(self.mean)
        top = rates * sums + dense(moved @ signed.T) - dense(absent @ plan.oriented(self.mean).T)
        bottom = sums - dense(absent @ plan.weights.T)
        unsolved = bottom <= FULL_LEVERAGE * sums
        change = np.where(unsolved, 0.0, top / np.where(unsolved, 1.0, bottom) - rates)
        if plan.observed is None:
            result = np.asarray(change @ plan.mix.T)
        else:
            rest = self.weight[:, None] - dense(gram).T
            result = (plan.mixed((rates + change).T, rest) - plan.mixed(rates[:, None], self.weight[:, None])).T
        result[np.asarray(unsolved.astype(float) @ abs(plan.mix).T) > 0] = np.nan
        return result

    def resolve(self, moved: FloatArray, weight: FloatArray) -> FloatArray:
        """Win rates where the means of pairs moved and have these weights, both (n_cells, m): shape (m, n_params)."""
        plan, gone = self.schedule, weight <= FULL_LEVERAGE * self.weight[:, None]
        signed = _like(plan.weights, plan.weights.data * plan.side.data)
        absent = gone.astype(np.float64)
        top = (plan.rates(self.mean) * plan.total)[:, None] + signed @ np.where(gone, 0.0, moved)
        top = top - plan.oriented(self.mean) @ absent
        bottom = plan.total[:, None] - plan.weights @ absent
        unsolved = bottom <= FULL_LEVERAGE * plan.total[:, None]
        result = plan.mixed(np.where(unsolved, 0.0, top / np.where(unsolved, 1.0, bottom)), weight)
        result[np.asarray(abs(plan.mix) @ unsolved) > 0] = np.nan
        return result.T

    def shares(self, of: FloatArray, weight: FloatArray) -> FloatArray | None:
        """What each pair weighs in a combination: where pairs are gone, the others of a rate have their weight."""
        plan, gone = self.schedule, weight <= FULL_LEVERAGE * self.weight[:, None]
        if plan.observed is not None:
            return None
        signed = _like(plan.weights, plan.weights.data * plan.side.data)
        bottom = plan.total[:, None] - plan.weights @ gone.astype(np.float64)
        left = np.where(bottom <= FULL_LEVERAGE * plan.total[:, None], np.inf, bottom)
        return np.where(gone, 0.0, signed.T @ ((of @ plan.mix)[:, None] / left))


def _like(pattern: Matrix, data: FloatArray) -> Matrix:
    """A sparse array with other entries in the same places."""
    return sparse.csr_array((data, pattern.indices, pattern.indptr), pattern.shape)


def _on(matrix: Matrix, pattern: Matrix) -> FloatArray:
    """Entries of a sparse array in the places of another, which holds all of them."""
    if np.array_equal(matrix.indptr, pattern.indptr) and np.array_equal(matrix.indices, pattern.indices):
        return np.asarray(matrix.data)
    return np.asarray((matrix + _like(pattern, np.zeros(pattern.nnz))).tocsr().data)


def make_schedule(pairs: Pairs, opponents: str | pd.DataFrame, mix: Mix) -> tuple[Schedule, list[str]]:
    """Weights of the pairs in each win rate, and what to say about them: opponents never met, shares of the strata.

    `mix` None gives each stratum parameters of its own.
    """
    n_models, n_cells = len(pairs.models), pairs.n_cells
    cell = np.concatenate([np.arange(n_cells)] * 2)
    model = np.concatenate([pairs.first, pairs.second])
    other = np.concatenate([pairs.second, pairs.first])
    sign = np.repeat([1.0, -1.0], n_cells)
    weight = np.ones(2 * n_cells) if isinstance(opponents, str) else _given(pairs, opponents)[model, other]
    rate = np.concatenate([pairs.stratum] * 2) * n_models + model
    present, row = np.unique(rate, return_inverse=True)
    shape = (present.size, n_cells)
    order = np.lexsort((cell, row))
    starts = np.concatenate([[0], np.cumsum(np.bincount(row))])
    weights = sparse.csr_array((weight[order], cell[order], starts), shape)
    side = sparse.csr_array((sign[order], cell[order], starts), shape)
    of_stratum, of_model = present // n_models, present % n_models
    lines = _never_met(pairs, opponents)
    _refuse_weightless(pairs, np.asarray(weights.sum(axis=1), dtype=np.float64).ravel(), of_model)
    if mix is None:
        names = [pairs.models[m] for m in of_model]
        if len(pairs.strata) > 1 or pairs.strata != ("",):
            names = [f"{name}:{pairs.strata[s]}" for name, s in zip(names, of_stratum, strict=True)]
        _refuse_alike(names)
        return Schedule(tuple(names), weights, side, sparse.eye_array(present.size, format="csr")), lines
    share = _shares(pairs, mix)
    _refuse_absent(pairs, of_model, of_stratum)
    T = sparse.coo_array(
        (share[of_stratum], (of_model, np.arange(present.size))), shape=(n_models, present.size)
    ).tocsr()
    each = ", ".join(f"{name} {value:.3g}" for name, value in list(zip(pairs.strata, share, strict=True))[:6])
    listing = f"{each}{', ...' if len(share) > 6 else ''}"
    if mix == "observed":
        lines.append(f"Standardised to the strata as observed: {listing}. Their shares vary with the rows.")
        return Schedule(pairs.models, weights, side, T, Observed(pairs.stratum, of_stratum, len(pairs.strata))), lines
    lines.append(f"Standardised to a mix of strata that is held fixed: {listing}.")
    return Schedule(pairs.models, weights, side, T), lines


def _refuse_alike(names: list[str]) -> None:
    alike = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if alike:
        raise DataError(
            f"the joint labels of model and stratum must be distinct as text; {listed(alike)} would name different "
            "ones. Rename labels that contain a colon.",
            count=len(alike),
        )


def _given(pairs: Pairs, opponents: pd.DataFrame) -> FloatArray:
    """Weights of opponents as given, shape (n_models, n_models)."""
    if not isinstance(opponents, pd.DataFrame):
        raise ArgumentTypeError(
            '`opponents` must be "uniform", "as_sampled" or a pandas DataFrame of weights, models in rows and '
            f"opponents in columns; got a {type(opponents).__name__} of {type(opponents).__module__.partition('.')[0]}."
        )
    frame = opponents.copy()
    frame.index, frame.columns = frame.index.map(as_name), frame.columns.map(as_name)
    for where, names in (("row", frame.index), ("column", frame.columns)):
        if not names.is_unique:
            twice = list(dict.fromkeys(names[names.duplicated()]))
            raise ArgumentError(
                f"`opponents` must have one {where} for each model; {listed(twice)} "
                f"{'has' if len(twice) == 1 else 'have'} more than one.",
                count=len(twice),
            )
        absent = [model for model in pairs.models if model not in names]
        if absent:
            raise ArgumentError(
                f"`opponents` must have a {where} for every model of the log; {listed(absent)} "
                f"{'has' if len(absent) == 1 else 'have'} none."
                f"{nearest(absent[0], list(names))}",
                count=len(absent),
            )
    try:
        values = frame.loc[list(pairs.models), list(pairs.models)].to_numpy(dtype=np.float64).copy()
    except (TypeError, ValueError) as error:
        raise ArgumentTypeError(f"`opponents` must hold numbers ({error}).") from None
    np.fill_diagonal(values, 0.0)
    wrong = ~(values >= 0) | ~np.isfinite(values)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise ArgumentError(
            f"`opponents` must hold weights of zero or more; that of {pairs.models[j]!r} for {pairs.models[i]!r} is "
            f"{values[i, j]:g} ({int(wrong.sum())} such).",
            count=int(wrong.sum()),
        )
    return values


def _never_met(pairs: Pairs, opponents: str | pd.DataFrame) -> list[str]:
    """Opponents that a model never met, in words."""
    n_models = len(pairs.models)
    met = np.eye(n_models, dtype=bool)
    met[pairs.first, pairs.second] = met[pairs.second, pairs.first] = True
    missing = {pairs.models[a]: [pairs.models[b] for b in np.flatnonzero(~met[a])] for a in range(n_models)}
    missing = {name: others for name, others in missing.items() if others}
    if not missing:
        return []
    if len(missing) <= 5:
        each = "; ".join(f"{name}: {', '.join(map(str, others[:5]))}" for name, others in missing.items())
    else:
        worst = sorted(missing, key=lambda name: -len(missing[name]))[:3]
        each = ", ".join(f"{name} {len(missing[name])} of {n_models - 1}" for name in worst) + ", ..."
    n_pairs = int(np.sum(~met)) // 2
    what = "the weights of the others" if isinstance(opponents, str) else "the given weights of the others"
    met_not = "1 pair never met and has no weight" if n_pairs == 1 else f"{n_pairs} pairs never met and have no weight"
    return [f"{met_not}; {what} are scaled to sum to one ({each})."]


def _refuse_weightless(pairs: Pairs, total: FloatArray, model: IntArray) -> None:
    none = np.flatnonzero(~(total > 0))
    if none.size:
        names = [pairs.models[int(m)] for m in model[none]]
        raise ArgumentError(
            f"`opponents` must give each model some weight on an opponent that it met; {listed(names)} "
            f"{'has' if len(names) == 1 else 'have'} none.",
            count=int(none.size),
        )


def _refuse_absent(pairs: Pairs, model: IntArray, stratum: IntArray) -> None:
    """A model that was not compared in a stratum has no standardised rate."""
    compared = np.zeros((len(pairs.models), len(pairs.strata)), dtype=bool)
    compared[model, stratum] = True
    lacking = np.flatnonzero(~compared.all(axis=1))
    if lacking.size:
        first = int(lacking[0])
        where = [pairs.strata[s] for s in np.flatnonzero(~compared[first])]
        raise DataError(
            f"`standardise` needs every model in every stratum; {listed(pairs.models[i] for i in lacking)} "
            f"{'is' if lacking.size == 1 else 'are'} not ({pairs.models[first]!r} has no comparison in "
            f"{listed(where)}). Leave out these models or strata.",
            count=int(lacking.size),
        )


def _shares(pairs: Pairs, mix: str | Mapping[str, float]) -> FloatArray:
    """Shares of the strata, which sum to one."""
    if isinstance(mix, str):
        if mix not in MIXES:
            raise ArgumentError(f'`standardise` must be "uniform", "observed" or a mapping; got {mix!r}.')
        by_stratum = np.bincount(pairs.stratum, pairs.sums.weight, len(pairs.strata))
        share = np.ones(len(pairs.strata)) if mix == "uniform" else by_stratum
        return np.asarray(share / share.sum())
    if not isinstance(mix, Mapping):
        raise ArgumentTypeError(f'`standardise` must be "uniform", "observed" or a mapping; got {type(mix).__name__}.')
    given = {str(name): value for name, value in mix.items()}
    unknown = [name for name in given if name not in pairs.strata]
    absent = [name for name in pairs.strata if name not in given]
    if unknown or absent:
        problem = f"{listed(unknown)} is not among them" if unknown else f"{listed(absent)} has no share"
        raise ArgumentError(
            f"`standardise` must name each stratum once; they are {listed(pairs.strata)}, and {problem}."
        )
    if len(given) < len(mix):
        raise ArgumentError(f"`standardise` must name each stratum once; some of {listed(mix)} are the same as text.")
    try:
        share = np.array([float(given[name]) for name in pairs.strata])
    except (TypeError, ValueError):
        raise ArgumentTypeError(f"`standardise` must hold numbers; got {given}.") from None
    if not np.all(np.isfinite(share)) or np.any(share < 0) or not share.sum() > 0:
        raise ArgumentError(f"`standardise` must hold shares of zero or more, not all of them zero; got {given}.")
    return np.asarray(share / share.sum())

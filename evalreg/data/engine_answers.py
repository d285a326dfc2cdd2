"""One line for each model and question, made in an engine: what differences between models are read from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import IntArray, listed
from evalreg.data.clusters import Groups, factorize, repeated_rows, union
from evalreg.data.engine import KEY, ROWS, SUM, Measure, Query
from evalreg.data.engine_rows import EngineRows, read_in_engine
from evalreg.data.frame import Table, differing_labels, refuse_larger
from evalreg.data.rows import CellRows, Roles, read_cells
from evalreg.errors import (
    DataError,
    NonFiniteError,
    NotAvailableError,
)

# Bytes of a line while it is read, those that the engine sorts it in included: 640 on a million lines of DuckDB with
# ids of 13 characters.
LINE = 700
# Names of what is counted and summed; no label is called so.
ANSWERS, TOTAL, COPIES = "__answers", "__total", "__copies"


@dataclass(frozen=True, eq=False)
class EngineAnswers(Table):
    """One line for each model and question, from an engine; other columns are looked up there when asked for."""

    engine: Query | None = None
    # Columns of the models and of the questions, which tell lines apart.
    key: tuple[str, ...] = ()
    # Answers of each line, shape (n_rows,).
    answers: IntArray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    # Models of which every row was dropped.
    absent: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns in the engine."""
        assert self.engine is not None
        return self.engine.columns

    def labels(self, name: str, argument: str) -> tuple[IntArray, Any]:
        """Integer codes of a column with -1 for missing, and the label of each code."""
        if name not in self._labels and name not in self.frame.columns and name in self.columns:
            self._labels[name] = factorize(self._asked(name))
        return super().labels(name, argument)

    def _asked(self, name: str) -> pd.Series:
        """A column that was not read, one label a line, by one query."""
        assert self.engine is not None
        found = self.engine.table((*self.key, name), {})
        key, without = list(self.key), found[name].isna()
        refuse_differing(found[~without], self.key, (name,))
        own = self.to_pandas(self.key, None).reset_index(drop=True)
        counts = found.groupby(key, as_index=False, observed=True)[ROWS].sum()
        there = own.merge(counts, on=key, how="left")[ROWS].fillna(-1).to_numpy(dtype=int)
        changed = len(counts) != len(own) or not np.array_equal(there, self.answers)
        if changed:
            raise DataError(
                f"the rows in the engine have changed since the comparison was made: its {len(own)} answers by model "
                f"and question are now {len(counts)}, or different ones. Make the comparison again."
            )
        # A line of which some answers have no label has none.
        known = found[~found.set_index(key).index.isin(found[without].set_index(key).index)]
        return own.merge(known, on=key, how="left", validate="one_to_one")[name]


def refuse_differing(lines: pd.DataFrame, key: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Raise if one of some labels differs between the rows that a key tells apart."""
    again = lines.duplicated(list(key), keep=False)
    if not again.any():
        return
    parts = lines[again]
    # A column may be a stratum and a cluster at once.
    counts = parts.groupby(list(key), sort=False, observed=True)[list(dict.fromkeys(names))].nunique(dropna=False)
    name = next(one for one in counts.columns if (counts[one] > 1).any())
    where = counts.index[counts[name] > 1]
    shown = [":".join(map(str, one if isinstance(one, tuple) else (one,))) for one in where[:3]]
    of = f"{' and '.join(map(repr, key))}, such as {listed(shown)}"
    raise differing_labels(name, key[-1], f"within {len(where)} of {of}", len(where))


def used_answers(engine: Query, roles: Roles, groups: Groups) -> EngineRows:
    """The rows in use, of which one query counts what is missing, and by model the scores that are neither 0 nor 1."""
    if roles.weights is not None:
        named = [roles.score, *roles.labels, *([roles.weights] if isinstance(roles.weights, str) else [])]
        raise NotAvailableError(
            "`weights` of answers that are put together by question need rows in memory: collect the columns "
            f"{listed(named)} and those of `groups` first."
        )
    rows = read_in_engine(engine, roles, groups, measures=_ends, repeats=True)
    if np.isinf([rows.sums["lo"], rows.sums["hi"]]).any():
        raise NonFiniteError(
            f"`score` must be finite; column {roles.score!r} holds infinities. Set them to missing, or leave them out.",
            column=roles.score,
        )
    return rows


def _ends(score: nw.Expr, _: nw.Expr | None) -> dict[str, Measure]:
    other = nw.when((score == 0) | (score == 1)).then(nw.lit(0)).otherwise(nw.lit(1))
    return {"lo": (score, "min"), "hi": (score, "max"), "other": (other, "sum")}


def read_answers(engine: Query, roles: Roles, groups: Groups) -> CellRows:
    """Answers by model and question, averaged over samples, of which one query more makes the lines."""
    return read_used(used_answers(engine, roles, groups), roles, groups)


def read_used(used: EngineRows, roles: Roles, groups: Groups) -> CellRows:
    """The same of rows whose missing values are known."""
    assert roles.item is not None
    key, n_rows = (*roles.by, roles.item), int(used.sums["n"].sum())
    _refuse_many(used.table, n_rows, roles)
    names = tuple(dict.fromkeys((*key, *roles.cell_columns, *union(*(used.axes or ())))))
    lines = _lines(used.table, roles, names)
    refuse_differing(lines, key, tuple(name for name in names if name not in key))
    answers = lines[ANSWERS].to_numpy(dtype=np.intp)
    lines[roles.score] = lines[TOTAL].to_numpy(dtype=float) / answers
    frame = nw.from_native(lines.drop(columns=[TOTAL, ANSWERS]), eager_only=True)
    table = EngineAnswers(frame, engine=used.table, key=key, answers=answers, absent=used.absent)
    read = read_cells(table, replace(roles, sample=None), groups)
    dropped = dict(read.rows.dropped)
    if "unshared" in dropped:  # Of answers, not of lines.
        dropped["unshared"] = n_rows - int(answers[read.rows.source.places()].sum())
    return replace(read, rows=replace(read.rows, dropped=dropped | used.dropped))


def _refuse_many(used: Query, n_rows: int, roles: Roles) -> None:
    """Raise if the lines do not fit into memory; repeated answers are counted in the engine where they might not."""
    assert roles.item is not None
    if roles.sample is not None and n_rows * LINE > 2**28:
        n_rows = used.n_clusters((*roles.by, roles.item))
    remedy = 'Compare fewer models at a time, or take `er.mean(..., by="model", groups=...)` with coarser groups than '
    remedy += "the questions, whose `pairwise()` needs the sums of clusters alone."
    refuse_larger(n_rows * LINE, f"a comparison of {n_rows:,} answers by model and question", remedy)


def _lines(used: Query, roles: Roles, names: tuple[str, ...]) -> pd.DataFrame:
    """Sum and number of the answers of each joint value of some columns, sorted by the engine; each sample has one."""
    score: Measure = nw.col(roles.score).cast(nw.Float64), "sum"
    if roles.sample is None:
        lines = used.table(names, {TOTAL: score})
        lines = lines.rename(columns={ROWS: ANSWERS}).assign(**{COPIES: lines[ROWS]})
        key = [*roles.by, str(roles.item)]
        if lines.duplicated(key).any():
            # One row a question was to be; that its rows have several labels is the smaller fault.
            refuse_copies(lines.groupby(key, sort=False, observed=True)[[COPIES]].sum().reset_index(), roles)
    else:
        within = Query(used.grouped(tuple(dict.fromkeys((*names, roles.sample))), {TOTAL: score}))
        keys = {f"{KEY}{i}": name for i, name in enumerate(names)}
        total, rows = nw.col(f"{SUM}0"), nw.col(ROWS)
        lines = within.table(tuple(keys), {TOTAL: (total, "sum"), ANSWERS: (rows, "sum"), COPIES: (rows, "max")})
        lines = lines.rename(columns=keys).drop(columns=ROWS)
    if int(lines[COPIES].max()) > 1:
        refuse_copies(lines, roles)
    return lines.drop(columns=COPIES).reset_index(drop=True)


def refuse_copies(lines: pd.DataFrame, roles: Roles) -> None:
    """Raise for lines that hold the answer of one sample, or of one row where there is none, several times."""
    several = lines[lines[COPIES] > 1]
    key = [*roles.by, str(roles.item)]
    shown = [":".join(map(str, one)) for one in several[key].head(3).itertuples(index=False)]
    remedy = "Remove the copies in the engine."
    if roles.sample is None:
        remedy = "Name the column of repeated answers in `sample`, which averages them first, or remove copies in the "
        remedy += "engine."
    columns = key if roles.sample is None else [*key, roles.sample]
    raise repeated_rows(columns, roles.item, int((several[COPIES] - 1).sum()), remedy, shown=listed(shown))

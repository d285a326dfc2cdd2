"""One line for each model and question, made in an engine: what differences between models are read from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd

from evalreg.checks import IntArray, listed
from evalreg.data.clusters import Axis, Groups, factorize, parse_groups, union
from evalreg.data.dialects import refuse_text_among_numbers
from evalreg.data.engine import Query, aggregated, as_pandas, engine_answers, refuse_spark_names
from evalreg.data.engine_rows import REASONS, reason_number, refuse_missing
from evalreg.data.frame import Table, refuse_larger
from evalreg.data.rows import CellRows, Roles, read_cells, refuse_filters
from evalreg.errors import (
    AlignmentError,
    DataError,
    DuplicateRowsError,
    EmptyDataError,
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
    # Rows in use whose score is neither 0 nor 1.
    n_other: int = 0

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
        columns = (*self.key, name)
        with engine_answers(self.engine.frame, "take a query"):
            found = as_pandas(aggregated(self.engine.holding(columns), columns, nw.len().alias(ANSWERS)))
        key, without = list(self.key), found[name].isna()
        refuse_differing(found[~without], self.key, (name,))
        own = self.to_pandas(self.key, None).reset_index(drop=True)
        counts = found.groupby(key, as_index=False, observed=True)[ANSWERS].sum()
        there = own.merge(counts, on=key, how="left")[ANSWERS].fillna(-1).to_numpy(dtype=int)
        changed = len(counts) != len(own) or not np.array_equal(there, self.answers)
        if changed:
            raise DataError(
                f"the rows in the engine have changed since the comparison was made: its {len(own)} answers by model "
                f"and question are now {len(counts)}, or different ones. Make the comparison again."
            )
        # A line of which some answers have no label has none.
        known = found[~found.set_index(key).index.isin(found[without].set_index(key).index)]
        return own.merge(known, on=key, how="left", validate="one_to_one")[name]


def refuse_differing(
    lines: pd.DataFrame, key: tuple[str, ...], names: tuple[str, ...], n_keys: int | None = None
) -> None:
    """Raise if one of some labels differs between the rows that a key tells apart, in so many where it is known."""
    again = lines.duplicated(list(key), keep=False)
    if not again.any():
        return
    parts = lines[again]
    # A column may be a stratum and a cluster at once.
    counts = parts.groupby(list(key), sort=False, observed=True)[list(dict.fromkeys(names))].nunique(dropna=False)
    name = next(one for one in counts.columns if (counts[one] > 1).any())
    where = counts.index[counts[name] > 1]
    shown = [":".join(map(str, one if isinstance(one, tuple) else (one,))) for one in where[:3]]
    raise AlignmentError(
        f"answers to one item are averaged first, so {name!r} must be the same in all of them; it differs within "
        f"{n_keys or len(where)} of {' and '.join(map(repr, key))}, such as {listed(shown)}. Use a coarser cluster.",
        column=name,
        count=n_keys or len(where),
    )


@dataclass(frozen=True, eq=False)
class UsedAnswers:
    """Rows of answers in an engine, nothing missing in them, and what one query told of them."""

    engine: Query
    # The columns of the roles, by the reason for which a row without one is dropped, and those of the clusters.
    asked: dict[str, list[str]]
    groups: Axis
    n_rows: int
    dropped: dict[str, int]
    # As in `EngineAnswers`.
    absent: tuple[str, ...]
    n_other: int


def used_answers(engine: Query, roles: Roles, groups: Groups) -> UsedAnswers:
    """The rows in use, by one query that counts what is missing; with a `sample` a second looks at some questions."""
    assert roles.item is not None
    if roles.weights is not None:
        named = [roles.score, *roles.labels, *([roles.weights] if isinstance(roles.weights, str) else [])]
        raise NotAvailableError(
            "`weights` of answers that are put together by question need rows in memory: collect the columns "
            f"{listed(named)} and those of `groups` first."
        )
    engine.check_numeric(roles.score, "score")
    axes = parse_groups(groups, engine.columns)
    of_groups = union(*axes)
    asked = {
        "score": [roles.score],
        "covariate": [name for name in (*roles.cell_columns, roles.item, roles.sample) if name is not None],
        "group": list(of_groups),
    }
    names_in_use = [*roles.by, *(name for some in asked.values() for name in some)]
    refuse_text_among_numbers(engine, names_in_use)
    refuse_spark_names(engine.frame, names_in_use)
    n_rows, dropped, absent, n_other = _counted(engine, asked, roles)
    names = [name for some in asked.values() for name in some]
    used = engine.present(names) if any(dropped.values()) else engine
    refuse_filters(used, None, roles.cell_columns)
    return UsedAnswers(used, asked, of_groups, n_rows, dropped, absent, n_other)


def read_answers(engine: Query, roles: Roles, groups: Groups) -> CellRows:
    """Answers by model and question, averaged over samples, of which one query more makes the lines."""
    return read_used(used_answers(engine, roles, groups), roles, groups)


def read_used(found: UsedAnswers, roles: Roles, groups: Groups) -> CellRows:
    """The same of rows whose missing values are known."""
    assert roles.item is not None
    used, dropped, absent, n_other = found.engine, found.dropped, found.absent, found.n_other
    _refuse_many(used, found.n_rows, roles)
    key = (*roles.by, roles.item)
    lines = _lines(used, roles, tuple(dict.fromkeys((*key, *roles.cell_columns, *found.groups))))
    refuse_differing(lines, key, tuple(name for name in (*roles.cell_columns, *found.groups) if name not in key))
    answers = lines[ANSWERS].to_numpy(dtype=np.intp)
    lines[roles.score] = lines[TOTAL].to_numpy(dtype=float) / answers
    frame = nw.from_native(lines.drop(columns=[TOTAL, ANSWERS]), eager_only=True)
    table = EngineAnswers(frame, engine=used, key=key, answers=answers, absent=absent, n_other=n_other)
    read = read_cells(table, replace(roles, sample=None), groups)
    own = dict(read.rows.dropped)
    if "unshared" in own:  # Of answers, not of lines.
        own["unshared"] = found.n_rows - int(answers[read.rows.source.places()].sum())
    return replace(read, rows=replace(read.rows, dropped=own | dropped))


def _counted(
    engine: Query, asked: dict[str, list[str]], roles: Roles
) -> tuple[int, dict[str, int], tuple[str, ...], int]:
    """Rows in use; rows dropped by reason, each once with its first; models of which every row was dropped; n_other."""
    reason = reason_number(engine, asked.values())
    score = nw.col(roles.score).cast(nw.Float64)
    other = nw.when((score == 0) | (score == 1)).then(nw.lit(0)).otherwise(nw.lit(1))
    marked = engine.frame.select(
        *map(nw.col, roles.by), reason.alias("__reason"), score.alias("__score"), other.alias("__other")
    )
    value = nw.col("__score")
    totals = {ANSWERS: nw.len(), "__low": value.min(), "__high": value.max(), "__other": nw.col("__other").sum()}
    counts = Query(marked).group((*roles.by, "__reason"), totals)
    rows = counts[ANSWERS].to_numpy(dtype=np.intp)
    why = counts["__reason"].to_numpy(dtype=np.intp)
    dropped = {name: int(rows[why == number].sum()) for number, name in enumerate(REASONS, 1)}
    n_all = int(rows.sum())
    refuse_missing(dropped, asked, n_all, roles.missing)
    in_use = counts[why == 0]
    if in_use.empty:
        raise EmptyDataError("`data` has no rows, or none is left without missing values.")
    if np.isinf(in_use[["__low", "__high"]].to_numpy(dtype=float)).any():
        raise NonFiniteError(
            f"`score` must be finite; column {roles.score!r} holds infinities. Set them to missing, or leave them out.",
            column=roles.score,
        )
    gone = _models(counts, roles) - _models(in_use, roles)
    return n_all - sum(dropped.values()), dropped, tuple(sorted(gone)), int(in_use["__other"].sum())


def _models(counts: pd.DataFrame, roles: Roles) -> set[str]:
    """Joint labels of the models."""
    labels = counts[list(roles.by)].dropna()
    return {":".join(map(str, one)) for one in labels.itertuples(index=False)}


def _refuse_many(used: Query, n_rows: int, roles: Roles) -> None:
    """Raise if the lines do not fit into memory; repeated answers are counted in the engine where they might not."""
    assert roles.item is not None
    if roles.sample is not None and n_rows * LINE > 2**28:
        lines = Query(aggregated(used.frame, (*roles.by, roles.item), nw.len().alias(ANSWERS)))
        n_rows = int(lines.group((), {"n": nw.len()})["n"].iloc[0])
    remedy = 'Compare fewer models at a time, or take `er.mean(..., by="model", groups=...)` with coarser groups than '
    remedy += "the questions, whose `pairwise()` needs the sums of clusters alone."
    refuse_larger(n_rows * LINE, f"a comparison of {n_rows:,} answers by model and question", remedy)


def _lines(used: Query, roles: Roles, names: tuple[str, ...]) -> pd.DataFrame:
    """Sum and number of the answers of each line, sorted by the engine."""
    lines = as_pandas(grouped_answers(used, roles, names).sort(*names)).reset_index(drop=True)
    if roles.sample is None and lines.duplicated(key := [*roles.by, roles.item]).any():
        # One row a question was to be; that its rows have several labels is the smaller fault.
        refuse_copies(lines.groupby(key, sort=False, observed=True)[[COPIES]].sum().reset_index(), roles)
    if int(lines[COPIES].max()) > 1:
        refuse_copies(lines, roles)
    return lines.drop(columns=COPIES)


def grouped_answers(used: Query, roles: Roles, names: tuple[str, ...]) -> nw.LazyFrame[Any]:
    """Sum and number of the answers of each joint value of some columns, and the most answers of one sample."""
    score = nw.col(roles.score).cast(nw.Float64).alias(TOTAL)
    frame = used.frame.select(*dict.fromkeys((*names, *([] if roles.sample is None else [roles.sample]))), score)
    total, count = nw.col(TOTAL).sum(), nw.len()
    if roles.sample is None:
        lines = aggregated(frame, names, total.alias(TOTAL), count.alias(ANSWERS))
        return lines.with_columns(nw.col(ANSWERS).alias(COPIES))
    within = tuple(dict.fromkeys((*names, roles.sample)))
    single = aggregated(frame, within, total.alias(TOTAL), count.alias(ANSWERS))
    sums = total.alias(TOTAL), nw.col(ANSWERS).sum().alias(ANSWERS), nw.col(ANSWERS).max().alias(COPIES)
    return aggregated(single, names, *sums)


def refuse_copies(lines: pd.DataFrame, roles: Roles) -> None:
    """Raise for lines that hold the answer of one sample, or of one row where there is none, several times."""
    told = [*roles.by, roles.item, *([] if roles.sample is None else [roles.sample])]
    several = lines[lines[COPIES] > 1]
    count = int((several[COPIES] - 1).sum())
    shown = [":".join(str(one[name]) for name in told[: len(roles.by) + 1]) for one in several[:3].to_dict("records")]
    also = (
        "Remove the copies in the engine"
        if roles.sample is not None
        else (
            "Name the column of repeated answers in `sample`, which averages them first, or remove copies in the engine"
        )
    )
    raise DuplicateRowsError(
        f"there must be one row for each {' and '.join(map(repr, told))}; {'at least ' if roles.sample else ''}{count} "
        f"row{'s repeat' if count > 1 else ' repeats'} an earlier one, such as of {listed(shown)}. {also}.",
        column=roles.item,
        count=count,
    )

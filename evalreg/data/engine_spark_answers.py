"""Answers put together by question in Spark: one line for each model and question, which stays there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals.stable.v2 as nw

from evalreg.checks import FloatArray
from evalreg.data import engine_spark
from evalreg.data.engine import LazyTable, aggregated, as_pandas, schema_of
from evalreg.data.engine_answers import ANSWERS, COPIES, TOTAL, UsedAnswers, grouped_answers, refuse_copies
from evalreg.data.engine_answers import refuse_differing as refuse_some
from evalreg.data.engine_groups import grouped
from evalreg.data.engine_spark import is_spark, keep_native
from evalreg.data.rows import Roles

# Lines that are looked at where something is wrong with them.
SHOWN = 1000
_SEVERAL = "__several"


@dataclass(frozen=True, eq=False)
class SparkAnswers(LazyTable):
    """Lines of Spark; a column that was not read is looked up in the rows when it is asked for."""

    engine: LazyTable = field(kw_only=True)
    # Columns of the models and of the questions, which tell lines apart.
    key: tuple[str, ...] = field(kw_only=True)
    # Columns of labels that lines have beside it, the same in all answers of a line.
    labels: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the rows."""
        return self.engine.columns

    def each(self, change: Callable[[nw.LazyFrame[Any]], nw.LazyFrame[Any]]) -> SparkAnswers:
        """The same change made to the lines."""
        return replace(self, frame=change(self.frame))

    def holding(self, names: Sequence[str]) -> nw.LazyFrame[Any]:
        """The lines with some columns."""
        frame, there = self.frame, set(schema_of(self.frame))
        for name in dict.fromkeys(names):
            if name not in there:
                frame = frame.join(self._asked(name), on=list(self.key), how="left")
        return frame

    def _asked(self, name: str) -> nw.LazyFrame[Any]:
        """A column by the key; null where some answer has none."""
        rows = self.engine.holding((*self.key, name)).with_columns(
            nw.when(self.engine.absent((name,))).then(nw.lit(1)).otherwise(nw.lit(0)).alias("__no")
        )
        values = aggregated(rows, (*self.key, name, "__no"), nw.len().alias(ANSWERS))
        refuse_differing(values.filter(nw.col("__no") == 0), self.key, (name,))
        found = aggregated(values, self.key, nw.col(name).max().alias("__label"), nw.col("__no").max().alias("__no"))
        return found.select(*self.key, nw.when(nw.col("__no") == 0).then(nw.col("__label")).alias(name))


def refuse_differing(lines: nw.LazyFrame[Any], key: tuple[str, ...], names: tuple[str, ...]) -> None:
    """Raise if one of some labels differs between the lines of a key."""
    if not names:
        return
    several = aggregated(lines, key, nw.len().alias(_SEVERAL)).filter(nw.col(_SEVERAL) > 1)
    n = int(grouped(several, (), {"n": nw.len()}).numbers["n"][0])
    if n:
        some = as_pandas(lines.join(several.head(SHOWN), on=list(key)).select(*dict.fromkeys((*key, *names))))
        refuse_some(some, key, names, n)


def stays_in_spark(used: UsedAnswers) -> bool:
    """Whether lines stay in Spark: there are many rows."""
    return is_spark(used.engine.frame) and used.n_rows > engine_spark.FEW_ROWS


def answers_in_spark(used: UsedAnswers, roles: Roles) -> SparkAnswers:
    """One line for each model and question with its mean score, copies and labels that differ refused."""
    answers = answer_lines(used, roles)
    refuse_several(answers, roles, int(grouped(answers.frame, (), {COPIES: nw.col(COPIES).max()}).numbers[COPIES][0]))
    refuse_differing(answers.frame, answers.key, answers.labels)
    return answers


def answer_lines(used: UsedAnswers, roles: Roles) -> SparkAnswers:
    """The same, of which nothing was refused yet: a line for each model, question and joint value of their labels."""
    assert roles.item is not None
    key = (*roles.by, roles.item)
    names = tuple(dict.fromkeys((*key, *roles.cell_columns, *used.groups)))
    lines = nw.from_native(keep_native(grouped_answers(used.engine, roles, names).to_native()))
    mean = (nw.col(TOTAL) / nw.col(ANSWERS)).alias(roles.score)
    labels = tuple(name for name in names if name not in key)
    return SparkAnswers(lines.with_columns(mean), engine=used.engine, key=key, labels=labels)


def refuse_several(answers: SparkAnswers, roles: Roles, most: int) -> None:
    """Raise if a line holds the answer of one sample several times, `most` being how often at most."""
    if most > 1:
        refuse_copies(as_pandas(answers.frame.filter(nw.col(COPIES) > 1).head(SHOWN)), roles)


@dataclass(frozen=True, eq=False)
class FewAnswers:
    """Lines of fewer answers than some number: how many of all lines, the fewest answers, and the first of them."""

    n_few: int
    n_lines: int
    fewest: int
    first: list[str]


def few_answers(answers: SparkAnswers, least: int) -> FewAnswers:
    """Whether every model and question has so many answers."""
    few = nw.when(nw.col(ANSWERS) < least).then(nw.lit(1)).otherwise(nw.lit(0))
    counts = {"few": nw.col("__few").sum(), "n": nw.len(), "fewest": nw.col(ANSWERS).min()}
    found = grouped(answers.frame.with_columns(few.alias("__few")), (), counts).numbers
    n_few, n_lines, fewest = (int(found[name][0]) for name in counts)
    some = answers.frame.filter(nw.col(ANSWERS) < least).sort(*answers.key).select(*answers.key).head(3)
    first = as_pandas(some).astype(str).agg(":".join, axis=1).tolist() if n_few else []
    return FewAnswers(n_few, n_lines, fewest, first)


def with_shares(
    answers: SparkAnswers, score: str, shares: Callable[[FloatArray, FloatArray], FloatArray]
) -> SparkAnswers:
    """The same lines whose score is made of the sum and number of their answers, once for each two of these."""
    frame = answers.frame
    kinds = grouped(
        frame.select(TOTAL, ANSWERS).unique(), (), {name: nw.col(name) for name in (TOTAL, ANSWERS)}
    ).numbers
    columns = kinds[TOTAL], kinds[ANSWERS], shares(kinds[TOTAL], kinds[ANSWERS])
    made = [(float(total), int(n), float(one)) for total, n, one in zip(*columns, strict=True)]
    spark = frame.to_native().sparkSession
    table = nw.from_native(spark.createDataFrame(made, f"{TOTAL} double, {ANSWERS} long, __share double"))
    joined = frame.drop(score).join(table, on=[TOTAL, ANSWERS]).with_columns(nw.col("__share").alias(score))
    return replace(answers, frame=joined)

"""Questions that all models answered, found in Spark: what leaves it has a line for each two models."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import IntArray
from evalreg.data.engine_answers import ANSWERS
from evalreg.data.engine_groups import grouped_sorted
from evalreg.data.engine_spark import keep_native, quoted
from evalreg.data.engine_spark_answers import SparkAnswers
from evalreg.data.engine_spark_sums import ask
from evalreg.data.questions import WithoutWorst, most_left_out, shared_line
from evalreg.data.rows import Roles


def shared_answers(answers: SparkAnswers, roles: Roles) -> tuple[SparkAnswers, int, str]:
    """The lines of the questions that all models answered, the number of other answers, and what to say about it."""
    from pyspark.sql import functions as F

    item = answers.key[-1]
    keys, found = grouped_sorted(answers.frame, roles.by, {"n": nw.len()})
    count = found["n"].astype(np.intp)
    names, order = tuple(":".join(key) for key in keys), np.argsort(count, kind="stable")
    each = _by_question(answers, roles, [keys[i] for i in order])
    sums = ask(each.groupBy("lacking", "last").agg(F.count(F.lit(1)).alias("n"), F.sum("answers").alias("answers")))
    lacking, last, n = (sums[name].astype(np.intp) for name in ("lacking", "last", "n"))
    shared = lacking < 0
    line = shared_line(
        names, count, int(n.sum()), int(n[shared].sum()), item, lambda: _without_worst(names, order, lacking, last, n)
    )
    kept = nw.from_native(each.where(F.col("lacking") < 0).select(F.col("question").alias(item)))
    lines = answers.frame.join(kept, on=item, how="semi")
    return replace(answers, frame=lines), int(sums["answers"][~shared].sum()), line


def _by_question(answers: SparkAnswers, roles: Roles, ranked: list[tuple[str, ...]]) -> Any:
    """By question its answers, and the ranks of the last model that lacks it (-1: none) and of the last that has it."""
    from pyspark.sql import functions as F

    native, by = answers.frame.to_native(), [f"__m{i}" for i in range(len(roles.by))]
    schema = ", ".join([*(f"{name} string" for name in by), "rank int"])
    ranks = native.sparkSession.createDataFrame([(*key, rank) for rank, key in enumerate(ranked)], schema)
    chosen = native.select(
        quoted(answers.key[-1]).alias("question"),
        *(quoted(name).cast("string").alias(own) for name, own in zip(roles.by, by, strict=True)),
        F.col(ANSWERS).alias("answers"),
    ).join(F.broadcast(ranks), by)
    each = chosen.groupBy("question").agg(F.collect_set("rank").alias("ranks"), F.sum("answers").alias("answers"))
    every = F.sequence(F.lit(0), F.lit(len(ranked) - 1))
    lacking = F.coalesce(F.array_max(F.array_except(every, F.col("ranks"))), F.lit(-1))
    return keep_native(each.select("question", "answers", lacking.alias("lacking"), F.array_max("ranks").alias("last")))


def _without_worst(
    names: tuple[str, ...], order: IntArray, lacking: IntArray, last: IntArray, n: IntArray
) -> WithoutWorst | None:
    """As of questions in memory: a question is shared by the rest if only models left out lack it."""
    for worst in range(most_left_out(len(names))):
        shared = int(n[lacking <= worst].sum())
        if 2 * shared >= int(n[last > worst].sum()):
            return [names[i] for i in order[: worst + 1]], shared
    return None

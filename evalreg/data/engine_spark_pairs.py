"""Differences between models question by question in Spark: a line for each question with the scores of all models.

A line for each question and pair of models is made of it whenever one is asked for, which moves nothing between
workers; what leaves Spark has a line for each pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from evalreg.checks import BoolArray, FloatArray, IntArray
from evalreg.data.clusters import Axis
from evalreg.data.engine import LazyTable, as_text, fetched, numbers_of, schema_of
from evalreg.data.engine_groups import backend
from evalreg.data.engine_spark import quoted
from evalreg.data.engine_spark_sums import ask
from evalreg.data.model_pairs import TIED

# Scores of a question by model, one more than there are models, which is 0: nobody's. Whether its labels differ.
SCORES, MIXED = "__scores", "__mixed"
# What stands for a row in a sum of rows.
ONE = "__one"
# Number of a pair, and its difference.
PAIR, DIFFERENCE = "__pair", "__difference"
# Squares about a number that are at least this share of what they are a difference of keep all digits but a few.
KEPT = 1e-4
Sums = dict[str, FloatArray]


def questions_of(
    lines: nw.LazyFrame[Any],
    models: Sequence[tuple[str, ...]],
    by: Sequence[str],
    item: Axis,
    labels: Sequence[str],
    value: str,
) -> Any:
    """A frame of Spark with a line for each question: its labels and the scores of the models, null where none is.

    `models` are the joint values of the columns `by`, as text, in the order of the scores.
    """
    from pyspark.sql import functions as F

    native, keys = lines.to_native(), [f"__m{i}" for i in range(len(by))]
    rows = [(*model, code) for code, model in enumerate(models)]
    schema = ", ".join([*(f"{key} string" for key in keys), "__model int"])
    chosen = native.select(
        *(quoted(name).alias(f"__q{i}") for i, name in enumerate(item)),
        *(quoted(name).cast("string").alias(key) for name, key in zip(by, keys, strict=True)),
        F.struct(F.lit(0).alias("none"), *(quoted(name).alias(f"l{i}") for i, name in enumerate(labels))).alias("own"),
        quoted(value).cast("double").alias("__value"),
    ).join(F.broadcast(native.sparkSession.createDataFrame(rows, schema)), keys)
    scores = [F.max(F.when(F.col("__model") == code, F.col("__value"))) for code in range(len(models))]
    held = chosen.groupBy(*(f"__q{i}" for i in range(len(item)))).agg(
        F.array(*scores).alias(SCORES),
        F.min("own").alias("low"),
        F.max("own").alias("high"),
        F.count(F.lit(1)).alias("n"),
    )
    there = F.size(F.filter(SCORES, lambda one: one.isNotNull()))
    mixed = ~F.col("low").eqNullSafe(F.col("high")) | (F.col("n") != there)
    return held.select(
        *(F.col(f"__q{i}").alias(name) for i, name in enumerate(item)),
        *(F.col(f"low.l{i}").alias(name) for i, name in enumerate(labels)),
        F.concat(SCORES, F.array(F.lit(0.0))).alias(SCORES),
        F.when(mixed, F.lit(1)).otherwise(F.lit(0)).alias(MIXED),
        F.lit(1.0).alias(ONE),
    )


@dataclass(frozen=True, eq=False)
class PairColumns:
    """Which differences are taken: the models of each, and what their sums are taken about; one entry a difference."""

    left: IntArray
    # The number of models where the difference is the score of one of them alone.
    right: IntArray
    # Values near the scores of both, and near the difference.
    about_left: FloatArray
    about_right: FloatArray
    about: FloatArray

    def beside(self, other: PairColumns) -> PairColumns:
        """These and others."""
        return PairColumns(*(np.append(getattr(self, one.name), getattr(other, one.name)) for one in fields(self)))

    def table(self, session: Any) -> Any:
        """As a frame of Spark."""
        columns = (self.left, self.right, self.about_left, self.about_right, self.about)
        rows = list(zip(range(self.left.size), *(column.tolist() for column in columns), strict=True))
        own = "__left int, __right int, __about_left double, __about_right double, __about double"
        return session.createDataFrame(rows, f"{PAIR} int, {own}")


def pair_lines(questions: Any, columns: PairColumns) -> Any:
    """A line for each question and pair that both models of answered, with both scores `x` and `y`."""
    from pyspark.sql import functions as F

    scores = F.col(SCORES)
    lines = questions.crossJoin(F.broadcast(columns.table(questions.sparkSession)))
    lines = lines.withColumn("__x", scores[F.col("__left")]).withColumn("__y", scores[F.col("__right")]).drop(SCORES)
    lines = lines.where(F.col("__x").isNotNull() & F.col("__y").isNotNull())
    return lines.withColumn(DIFFERENCE, F.col("__x") - F.col("__y"))


@dataclass(frozen=True, eq=False)
class PairLines(LazyTable):
    """Lines of questions and pairs; a column that was not read is looked up by the question when it is asked for."""

    questions: LazyTable = field(kw_only=True)
    pairs: PairColumns = field(kw_only=True)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the rows."""
        return self.questions.columns

    def holding(self, names: Sequence[str]) -> nw.LazyFrame[Any]:
        """The lines with some columns."""
        if set(names) <= set(schema_of(self.frame)):
            return self.frame
        return lines_of(self.questions, self.pairs, [one for one in names if one not in (PAIR, DIFFERENCE)]).frame


def lines_of(questions: LazyTable, pairs: PairColumns, names: Sequence[str] = ()) -> PairLines:
    """Lines of pairs whose questions have some columns."""
    native = pair_lines(questions.holding(names).to_native(), pairs)
    return PairLines(nw.from_native(native), questions=questions, pairs=pairs)


@dataclass(frozen=True, eq=False)
class PairEntries:
    """Sums over questions, an entry for each pair and stratum; of a pair that shares none there is none."""

    pair: IntArray
    # Empty without strata.
    stratum: tuple[str, ...]
    sums: Sums

    def turned(self, which: BoolArray) -> PairEntries:
        """The same with the models of some pairs exchanged."""
        turned, sums, found = which[self.pair], self.sums, dict(self.sums)
        for one, other in _SIDES.items():
            found[one] = np.where(turned, sums[other], sums[one])
            found[other] = np.where(turned, sums[one], sums[other])
        for name in ("d", "low", "high"):
            found[name] = np.where(turned, -found[name], found[name])
        return replace(self, sums=found)

    def numbered(self, place: IntArray) -> PairEntries:
        """The same with other numbers of the pairs, those of number -1 left out, sorted by them and by the stratum."""
        number = place[self.pair]
        strata = self.stratum or ("",) * number.size
        order = sorted(np.flatnonzero(number >= 0).tolist(), key=lambda i: (int(number[i]), strata[i]))
        stratum = tuple(self.stratum[i] for i in order) if self.stratum else ()
        return PairEntries(number[order], stratum, {name: values[order] for name, values in self.sums.items()})

    def beside(self, other: PairEntries, first: int) -> PairEntries:
        """These and others, whose numbers begin at `first`."""
        sums = {name: np.append(values, other.sums[name]) for name, values in self.sums.items()}
        return PairEntries(np.append(self.pair, other.pair + first), self.stratum + other.stratum, sums)

    def by_pair(self, n_pairs: int) -> Sums:
        """Sums of each pair; zeros of one that shares no question."""
        found = {}
        for name, values in self.sums.items():
            if name in _ENDS:
                ends = np.full(n_pairs, -np.inf if _ENDS[name] is np.maximum else np.inf)
                _ENDS[name].at(ends, self.pair, values)
                found[name] = np.where(np.isinf(ends), 0.0, ends)
            else:
                found[name] = np.bincount(self.pair, values, n_pairs)
        n, d = (np.where(found["n"] > 0, found["n"], 1.0), found["d"])
        apart = self.sums["d"] / self.sums["n"] - (d / n)[self.pair]
        found["squares"] = found["squares"] + np.bincount(self.pair, self.sums["n"] * apart**2, n_pairs)
        return found


_SIDES = {"low": "high", "x": "y", "xx": "yy", "first": "second", "wins": "losses"}
_ENDS = {"low": np.minimum, "high": np.maximum, "least": np.minimum, "greatest": np.maximum}


def pair_sums(questions: LazyTable, columns: PairColumns, stratum: str | None) -> PairEntries:
    """Sums over the questions of each pair, within each value of a column where one is named, by one query.

    By name: questions n; of differences d their sum, size |d|, square, low, high, and squares about their mean; of the
    two scores x and y, less what these are about, sums x, y, xx, yy and xy, and as they are `first` and `second`;
    questions that d is above 0 on (wins), below (losses), away from 0 (differ), and 1 or -1 (whole); the least and the
    greatest of both scores.
    """
    found = _pair_sums(questions, columns, stratum)
    n, centred = found.sums["n"], found.sums["squares"]
    mean = found.sums["d"] / n
    squares = np.maximum(centred - n * (mean - columns.about[found.pair]) ** 2, 0.0)
    if np.any((squares < KEPT * centred) & (found.sums["low"] < found.sums["high"])):
        # Digits were lost, as a mean lies far from what its squares were taken about.
        about = columns.about.copy()
        about[found.pair] = mean
        return (
            found
            if np.array_equal(about, columns.about)
            else pair_sums(questions, replace(columns, about=about), stratum)
        )
    return replace(found, sums=found.sums | {"squares": squares})


def _pair_sums(questions: LazyTable, columns: PairColumns, stratum: str | None) -> PairEntries:
    """The same with squares about what differences are about."""
    from pyspark.sql import functions as F

    lines = pair_lines(questions.frame.to_native(), columns)
    d, one, none = F.col(DIFFERENCE), F.lit(1.0), F.lit(0.0)
    x, y = F.col("__x") - F.col("__about_left"), F.col("__y") - F.col("__about_right")
    away = d - F.col("__about")

    def count(which: Any) -> Any:
        return F.sum(F.when(which, one).otherwise(none))

    made = {
        "n": F.count(one),
        "d": F.sum(d),
        "size": F.sum(F.abs(d)),
        "square": F.sum(d * d),
        "low": F.min(d),
        "high": F.max(d),
        "squares": F.sum(away * away),
        "x": F.sum(x),
        "y": F.sum(y),
        "xx": F.sum(x * x),
        "yy": F.sum(y * y),
        "xy": F.sum(x * y),
        "first": F.sum("__x"),
        "second": F.sum("__y"),
        "wins": count(d > 0),
        "losses": count(d < 0),
        "differ": count(F.abs(d) > TIED),
        "whole": count(F.abs(d) > 1 - TIED),
        "least": F.min(F.least("__x", "__y")),
        "greatest": F.max(F.greatest("__x", "__y")),
    }
    keys = [F.col(PAIR), *([] if stratum is None else [quoted(stratum).cast("string").alias("__stratum")])]
    asked = lines.groupBy(*keys).agg(*(value.alias(name) for name, value in made.items()))
    found = fetched(nw.from_native(asked), backend())
    strata = () if stratum is None else tuple(as_text(found["__stratum"]))
    sums = {name: numbers_of(found[name]) for name in made}
    return PairEntries(numbers_of(found[PAIR]).astype(np.intp), strata, sums)


@dataclass(frozen=True, eq=False)
class PairClusters:
    """Sums over the clusters of each pair, one entry a pair."""

    n_clusters: FloatArray
    # Of their questions n: the sum of n^2, and of the n of clusters in which some difference is not 0, or not 1 or -1.
    squares: FloatArray
    telling: FloatArray
    not_whole: FloatArray
    # Of residuals r and of wins less losses w: the sums of r^2 / n and of w^2.
    between: FloatArray
    surplus: FloatArray
    # Questions whose labels differ between answers.
    mixed: FloatArray


def pair_clusters(lines: Any, by: Axis, n_pairs: int) -> PairClusters:
    """Sums over the clusters of each pair, by one query."""
    from pyspark.sql import functions as F

    d, one, none = F.col(DIFFERENCE), F.lit(1.0), F.lit(0.0)

    def count(which: Any) -> Any:
        return F.sum(F.when(which, one).otherwise(none))

    each = lines.groupBy(*(quoted(name).alias(f"__id{i}") for i, name in enumerate(by)), PAIR).agg(
        F.count(one).cast("double").alias("n"),
        F.sum(d - F.col("__about")).alias("r"),
        F.sum(F.signum(d)).alias("w"),
        count(F.abs(d) > TIED).alias("differ"),
        count(F.abs(d) > 1 - TIED).alias("whole"),
        F.sum(MIXED).alias("mixed"),
    )
    n, r, w = F.col("n"), F.col("r"), F.col("w")
    made = {
        "n_clusters": F.count(n),
        "squares": F.sum(n * n),
        "telling": F.sum(F.when(F.col("differ") > 0, n).otherwise(none)),
        "not_whole": F.sum(F.when(F.col("whole") < n, n).otherwise(none)),
        "between": F.sum(r * r / n),
        "surplus": F.sum(w * w),
        "mixed": F.sum("mixed"),
    }
    found = ask(each.groupBy(PAIR).agg(*(value.alias(name) for name, value in made.items())))
    at = found.pop(PAIR).astype(np.intp)
    placed = np.zeros((len(made), n_pairs))
    placed[:, at] = [found[name] for name in made]
    return PairClusters(*placed)


@dataclass(frozen=True, eq=False)
class QuestionCounts:
    """What is counted of questions."""

    # Those in use, and of all those whose labels differ between answers.
    n: int
    n_mixed: int
    # Scores of those in use that are neither 0 nor 1, and the largest of them.
    n_other: int
    other: float


def used_questions(questions: Any, baseline: int | None, alone: Sequence[int]) -> tuple[Any, QuestionCounts]:
    """Questions that some difference is over: of two models, or the baseline and another, or one of `alone`."""
    from pyspark.sql import functions as F

    scores = F.col(SCORES)
    used = F.size(F.filter(SCORES, lambda one: one.isNotNull())) > 2
    used = used if baseline is None else used & scores[baseline].isNotNull()
    for model in alone:
        used = used | scores[model].isNotNull()
    other = F.filter(SCORES, lambda one: one.isNotNull() & (one != 0) & (one != 1))
    one, none = F.lit(1), F.lit(0)
    made = {
        "n": F.sum(F.when(used, one).otherwise(none)),
        "n_mixed": F.sum(MIXED),
        "n_other": F.sum(F.when(used, F.size(other)).otherwise(none)),
        "other": F.max(F.when(used, F.array_max(other))),
    }
    found = ask(questions.agg(*(value.alias(name) for name, value in made.items())))
    n, n_mixed, n_other = (int(found[name][0]) for name in ("n", "n_mixed", "n_other"))
    return questions.where(used), QuestionCounts(n, n_mixed, n_other, float(found["other"][0]))

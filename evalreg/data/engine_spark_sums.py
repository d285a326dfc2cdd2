"""Sums by (cluster, cell) that stay in Spark: squares and products of them are made there, and clusters never leave.

A self join on the clusters makes the products of all pairs of cells. Measured on 1,000,000 comparisons of 190 pairs of
models (100 a prompt, local mode, two threads, a busy machine): 26 seconds by prompt, where lists of each cluster's
lines that are exploded twice took 35 and a join by hashing 52.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse

from evalreg.checks import FloatArray, IntArray
from evalreg.data.clusters import Axis
from evalreg.data.engine import fetched, numbers_of
from evalreg.data.engine_groups import backend
from evalreg.data.engine_spark import keep_native, quoted
from evalreg.data.engine_spark_work import OnWorkers, Work

CELL, ROWS, SIZE, TOTAL, ORDERED, ABSENT = "__cell", "__n", "__size", "__sum", "__ordered", "__absent"
SUMS = (ROWS, SIZE, TOTAL, ORDERED, ABSENT)
Lines = dict[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Products:
    """Sums over clusters for each pair of cells k <= l: of t_k t_l, and what degrees of freedom need of b and v.

    Shapes (n_cells, n_cells), symmetric, and (n_cells,).
    """

    totals: FloatArray
    # Of b_k b_l - b_k v_l^2 - v_k^2 b_l, of v_k v_l, and of b_k - v_k^2.
    squares: FloatArray
    products: FloatArray
    trace: FloatArray


@dataclass(frozen=True, eq=False)
class SparkLines:
    """One line for each (cluster, cell) in a frame of Spark.

    Its columns are one for each column of `by`, `__id0` and so on, the cell, rows, their weight, the sum of values, how
    many orders of two sides occur, rows without an id, and further sums, named in `more`.
    """

    native: Any
    by: Axis
    n_cells: int
    more: tuple[str, ...] = ()
    _coarser: dict[Axis, SparkLines] = field(default_factory=dict)

    @property
    def keys(self) -> list[str]:
        """Columns of the clusters."""
        return [f"__id{i}" for i in range(len(self.by))]

    def kept(self) -> SparkLines:
        """The same, which Spark keeps while an estimate or a covariance is made."""
        keep_native(self.native)
        return self

    def coarser(self, by: Axis) -> SparkLines:
        """The lines of the joint values of some of the columns, which Spark keeps."""
        from pyspark.sql import functions as F

        if by == self.by:
            return self
        if by not in self._coarser:
            own = [F.col(f"__id{self.by.index(name)}").alias(f"__id{i}") for i, name in enumerate(by)]
            sums = [F.sum(name).alias(name) for name in (*SUMS, *self.more)]
            frame = self.native.groupBy(*own, CELL).agg(*sums).repartition(*[f"__id{i}" for i in range(len(by))])
            self._coarser[by] = SparkLines(keep_native(frame), by, self.n_cells, self.more)
        return self._coarser[by]

    def by_cell(self) -> tuple[IntArray, dict[str, FloatArray]]:
        """Sums over the lines of each cell, -1 for those of none that is known, and their number."""
        from pyspark.sql import functions as F

        sums = [F.sum(name).alias(name) for name in (*SUMS, *self.more)]
        found = ask(self.native.groupBy(CELL).agg(*sums, F.count(F.lit(1)).alias("lines")))
        return found.pop(CELL).astype(np.intp), found

    def sizes(self) -> tuple[int, float, float, float]:
        """Clusters, and the sum, sum of squares and largest of their weights."""
        from pyspark.sql import functions as F

        size = self.native.groupBy(*self.keys).agg(F.sum(SIZE).alias("s")).select("s")
        found = ask(
            size.agg(
                F.count("s").alias("n"),
                F.sum("s").alias("total"),
                F.sum(F.col("s") * F.col("s")).alias("squares"),
                F.max("s").alias("largest"),
            )
        )
        n, total, squares, largest = (float(found[name][0]) for name in ("n", "total", "squares", "largest"))
        return int(n), total, squares, largest

    def added_up(self, names: tuple[str, ...], at_once: int, work: Work) -> tuple[int, FloatArray]:
        """How many clusters there are, and sums over them that workers make of some of the sums of each, in Python."""
        from pyspark.sql import functions as F

        # Lines of a cluster are in one partition already.
        lines = self.native.select(*self.keys, CELL, *names).sortWithinPartitions(*self.keys)
        made = lines.mapInArrow(OnWorkers(tuple(self.keys), (CELL, *names), at_once, work), "place int, value double")
        found = ask(made.groupBy("place").agg(F.sum("value").alias("value")))
        sums = _placed(found["value"], found["place"].astype(np.intp), found["place"].size)
        return int(sums[0]), sums[1:]

    def several(self) -> bool:
        """Whether some line is of more than one row."""
        from pyspark.sql import functions as F

        return bool(ask(self.native.agg(F.max(ROWS).alias("most")))["most"][0] > 1)

    def largest(self) -> str:
        """Label of the cluster of most weight, the first of them in the order of labels."""
        from pyspark.sql import functions as F

        size = self.native.groupBy(*self.keys).agg(F.sum(SIZE).alias("s"))
        text = [F.col(name).cast("string").alias(name) for name in self.keys]
        first = size.orderBy(F.desc("s"), *self.keys).limit(1).select(*text)
        held = fetched(nw.from_native(first), backend())
        return ":".join(str(np.asarray(held[name])[0]) for name in self.keys)

    def in_columns(self, maps: Sequence[Any], fitted: FloatArray, counted: str = SIZE) -> dict[str, FloatArray]:
        """Sums over clusters of what their lines add up to in each of some columns of cells.

        `maps`, sparse (n_cells, n_columns), are what a unit of weight (of the sums `counted`) counts there in s, a unit
        of residual in t and, where there is a third, one of weight in t. Of the s and t of clusters: how many s are
        above zero, the sum of s^2, the largest s, and the sum of t^2 / s.
        """
        from pyspark.sql import functions as F

        each = self._by_column(maps, fitted, counted).where(F.col("s") > 0)
        found = ask(
            each.groupBy("column").agg(
                F.count("s").alias("n"),
                F.sum(F.col("s") * F.col("s")).alias("squares"),
                F.max("s").alias("largest"),
                F.sum(F.col("t") * F.col("t") / F.col("s")).alias("between"),
            )
        )
        at = found.pop("column").astype(np.intp)
        n_columns = int(maps[0].shape[1])
        return {name: _placed(values, at, n_columns) for name, values in found.items()}

    def apart(self, other: str) -> FloatArray:
        """Sum over clusters of the squared difference of weight and another sum, in each cell."""
        from pyspark.sql import functions as F

        apart = F.col(SIZE) - F.col(other)
        found = ask(self.native.groupBy(CELL).agg(F.sum(apart * apart).alias("squares")))
        return _placed(found["squares"], found[CELL].astype(np.intp), self.n_cells)

    def powers(self, bread: Any, fitted: FloatArray) -> FloatArray:
        """Sums over clusters of u^2 and u^4, u being what residuals add up to in each column, shape (2, n_columns)."""
        from pyspark.sql import functions as F

        total = sparse.csr_array(bread)
        each = self._by_column([sparse.csr_array(total.shape), total], fitted).select("column", "t")
        each = each.withColumn("t", F.col("t") * F.col("t"))
        found = ask(each.groupBy("column").agg(F.sum("t").alias("u2"), F.sum(F.col("t") * F.col("t")).alias("u4")))
        at = found["column"].astype(np.intp)
        return np.array([_placed(found[name], at, total.shape[1]) for name in ("u2", "u4")])

    def residual_sums(self, fitted: FloatArray, total: str, of: Sequence[str]) -> tuple[float, ...]:
        """Clusters, their rows, residuals, squared rows, and squared residuals over rows, added up.

        Residuals are the sums `total` less `fitted`, shape (n_cells, len(of)), times the sums `of`.
        """
        from pyspark.sql import functions as F

        left = self._about(fitted).withColumn("r", _left(total, of))
        each = left.groupBy(*self.keys).agg(F.sum(ROWS).alias("n"), F.sum("r").alias("r"))
        n, r = F.col("n"), F.col("r")
        made = [F.count("n"), F.sum(n), F.sum(r), F.sum(n * n), F.sum(r * r / n)]
        found = ask(each.agg(*(one.alias(f"m{i}") for i, one in enumerate(made))))
        return tuple(float(column[0]) for column in found.values())

    def in_parts(self, fitted: FloatArray, totals: Sequence[str], of: Sequence[Sequence[str]]) -> SparkLines:
        """Lines of the residuals of each cell and part: sums `totals` less `fitted` times the sums `of` of a part.

        Shapes: fitted (n_cells, n_parts); part i of cell c becomes cell c n_parts + i.
        """
        from pyspark.sql import functions as F

        K = len(totals)
        made = [
            F.struct((F.col(CELL) * K + i).alias(CELL), _left(total, of[i]).alias(TOTAL))
            for i, total in enumerate(totals)
        ]
        parts = self._about(fitted).select(*self.keys, F.explode(F.array(*made)).alias("part"))
        none = F.lit(0.0)
        columns = dict.fromkeys(SUMS, none) | {CELL: F.col(f"part.{CELL}"), TOTAL: F.col(f"part.{TOTAL}")}
        frame = parts.select(*self.keys, *(one.alias(name) for name, one in columns.items()))
        return SparkLines(frame, self.by, self.n_cells * K)

    def _about(self, fitted: FloatArray) -> Any:
        """Lines with what their residuals are about, columns f0, f1 and so on of `fitted` (n_cells, n)."""
        from pyspark.sql import functions as F

        rows = [(cell, *own) for cell, own in enumerate(fitted.tolist())]
        schema = ", ".join([f"{CELL} int", *(f"f{i} double" for i in range(fitted.shape[1]))])
        return self.native.join(F.broadcast(self._table(rows, schema)), CELL)

    def heavy(self, leverage: FloatArray, of: Sequence[str], above: float) -> tuple[IntArray, int, Lines]:
        """The lines of clusters in which the sums `of` times `leverage`, (n_cells, len(of)), add up to more than that.

        They are as those of `around`.
        """
        from pyspark.sql import functions as F

        own = _times(of)
        each = self._about(leverage).groupBy(*self.keys).agg(F.sum(own).alias("h"))
        return self._lines_of(each.where(F.col("h") > above).select(*self.keys), of)

    def mapped(self, maps: Sequence[Any], fitted: FloatArray) -> SparkLines:
        """Lines of (cluster, column) whose sums are s and t, as `in_columns` has them, which Spark keeps."""
        from pyspark.sql import functions as F

        none = F.lit(0.0)
        made = {CELL: F.col("column"), ROWS: none, SIZE: F.col("s"), TOTAL: F.col("t"), ORDERED: none, ABSENT: none}
        frame = self._by_column(maps, fitted).select(*self.keys, *(one.alias(name) for name, one in made.items()))
        return SparkLines(keep_native(frame.repartition(*self.keys)), self.by, int(maps[0].shape[1]))

    def _by_column(self, maps: Sequence[Any], fitted: FloatArray, counted: str = SIZE) -> Any:
        """Sums s and t of each cluster in each column, as `in_columns` has them."""
        from pyspark.sql import functions as F

        some = abs(maps[0])
        for one in maps[1:]:
            some = some + abs(one)
        cell, column = some.tocoo().coords
        of = [np.asarray(one.tocsr()[cell, column]).ravel().tolist() for one in maps]
        of += [[0.0] * cell.size] * (3 - len(of))
        rows = zip(cell.tolist(), column.tolist(), *of, fitted[cell].tolist(), strict=True)
        map_ = self._table(list(rows), f"{CELL} int, column int, a double, c double, d double, f double")
        residual = F.col(TOTAL) - F.col("f") * F.col(SIZE)
        joined = self.native.join(F.broadcast(map_), CELL).select(
            *self.keys,
            "column",
            (F.col("a") * F.col(counted)).alias("s"),
            (F.col("c") * residual + F.col("d") * F.col(counted)).alias("t"),
        )
        return joined.groupBy(*self.keys, "column").agg(F.sum("s").alias("s"), F.sum("t").alias("t"))

    def adjusted(self, fitted: FloatArray, inverse: FloatArray, power: float, full: float) -> Any:
        """Lines with residual totals t adjusted for leverages h, and b and v of each, as columns `t`, `b`, `q`, `v`.

        `full` is what 1 - h is below where a cell rests on one cluster: such a line gives nothing.
        """
        from pyspark.sql import functions as F

        rows = list(zip(range(self.n_cells), fitted.tolist(), inverse.tolist(), strict=True))
        lines = self.native.join(F.broadcast(self._table(rows, f"{CELL} int, f double, i double")), CELL)
        residual = F.col(TOTAL) - F.col("f") * F.col(SIZE)
        lines = lines.select(*self.keys, CELL, "i", residual.alias("r"), (F.col(SIZE) * F.col("i")).alias("h"))
        alone = (F.lit(1.0) - F.col("h")) < F.lit(full)
        rest = F.when(alone, F.lit(1.0)).otherwise(F.lit(1.0) - F.col("h"))
        scaled = F.lit(1.0) if power == 0 else 1.0 / F.sqrt(rest) if power == 0.5 else 1.0 / rest
        lines = lines.withColumn("a", F.when(alone, F.lit(0.0)).otherwise(scaled))
        v = F.col("a") * F.col("h") * F.sqrt(F.col("i"))
        t = F.col("r") if power == 0 else F.col("r") * F.col("a")
        b = F.col("a") * F.col("a") * F.col("h") * F.col("i")
        return lines.select(*self.keys, CELL, t.alias("t"), b.alias("b"), (v * v).alias("q"), v.alias("v"))

    def products(self, adjusted: Any, leverages: bool) -> Products:
        """Sums over clusters of the products of adjusted lines; of their totals alone, without `leverages`."""
        from pyspark.sql import functions as F

        first, second = adjusted.alias("x"), adjusted.alias("y")

        def product(one: str, other: str) -> Any:
            return F.col(f"x.{one}") * F.col(f"y.{other}")

        same = [F.col(f"x.{name}") == F.col(f"y.{name}") for name in self.keys]
        pairs = first.join(second, [*same, F.col(f"x.{CELL}") <= F.col(f"y.{CELL}")])
        sums = [F.sum(product("t", "t")).alias("tt")]
        if leverages:
            squares = product("b", "b") - product("b", "q") - product("q", "b")
            sums += [F.sum(squares).alias("bb"), F.sum(product("v", "v")).alias("vv")]
            sums += [F.sum(F.col("x.b") - F.col("x.q")).alias("trace")]
        found = ask(pairs.groupBy(F.col(f"x.{CELL}").alias("k"), F.col(f"y.{CELL}").alias("l")).agg(*sums))
        k, l = (found.pop(name).astype(np.intp) for name in ("k", "l"))
        made = []
        for name in ("tt", "bb", "vv"):
            matrix = np.zeros((self.n_cells, self.n_cells))
            if name in found:
                matrix[k, l] = matrix[l, k] = found[name]
            made.append(matrix)
        trace = np.zeros(self.n_cells)
        if leverages:
            trace[k[k == l]] = found["trace"][k == l]
        return Products(made[0], made[1], made[2], trace)

    def _lines_of(self, some: Any, sums: Sequence[str]) -> tuple[IntArray, int, Lines]:
        """The cells and some sums of the lines of few clusters."""
        from pyspark.sql import functions as F

        found = fetched(nw.from_native(self.native.join(F.broadcast(some), self.keys, "left_semi")), backend())
        labels = list(zip(*(np.asarray(found[name]).tolist() for name in self.keys), strict=True))
        number = {label: code for code, label in enumerate(sorted(set(labels)))}
        numbers = {name: numbers_of(found[name]) for name in (CELL, *sums)}
        return np.array([number[label] for label in labels], dtype=np.intp), len(number), numbers

    def _table(self, rows: Sequence[tuple[Any, ...]], schema: str) -> Any:
        return self.native.sparkSession.createDataFrame(rows, schema)


def spark_lines(
    grouped: nw.LazyFrame[Any],
    by: Axis,
    cell_columns: Sequence[str],
    codes: dict[tuple[str, ...], int],
    turned: frozenset[tuple[str, ...]],
    units: tuple[FloatArray, FloatArray],
    more: tuple[str, ...] = (),
) -> SparkLines:
    """Lines of a table grouped by the clusters' columns and those of the cells, which Spark keeps for an estimate.

    `codes` and `turned` tell the cell of the joint values of the cells' columns, as text, and which of them count from
    the other side; `units`, by cell, multiply weights and sums of values. `more` are further sums of the table.
    """
    from pyspark.sql import functions as F

    native = grouped.to_native()
    keys = [f"__k{i}" for i in range(len(cell_columns))]
    rows = [(*key, cell, key in turned, *(float(unit[cell]) for unit in units)) for key, cell in codes.items()]
    own = [f"{CELL} int", "__turned boolean", "__of_size double", "__of_total double"]
    schema = ", ".join([*(f"{key} string" for key in keys), *own])
    table = F.broadcast(native.sparkSession.createDataFrame(rows, schema))

    lines = native.select(
        *(quoted(name).alias(f"__id{i}") for i, name in enumerate(by)),
        *(quoted(name).cast("string").alias(key) for name, key in zip(cell_columns, keys, strict=True)),
        *(F.col(name).cast("double").alias(name) for name in (*SUMS, *more)),
    )
    # Rows that are not told apart are one cell.
    lines = lines.join(table, keys, "left") if keys else lines.crossJoin(table)
    total = F.when(F.col("__turned"), F.col(SIZE) - F.col(TOTAL)).otherwise(F.col(TOTAL))
    # Rows of no cell that is known have no unit.
    made = {
        CELL: F.coalesce(CELL, F.lit(-1)),
        SIZE: F.col(SIZE) * F.coalesce("__of_size", F.lit(1.0)),
        TOTAL: total * F.coalesce("__of_total", F.lit(1.0)),
    }
    ids = [f"__id{i}" for i in range(len(by))]
    lines = lines.select(*ids, *(made.get(name, F.col(name)).alias(name) for name in (CELL, *SUMS, *more)))
    sums = [F.sum(name).alias(name) for name in (*SUMS, *more)]
    return SparkLines(keep_native(lines.groupBy(*ids, CELL).agg(*sums).repartition(*ids)), by, units[0].size, more)


def _times(of: Sequence[str]) -> Any:
    """Some sums times f0, f1 and so on, added up."""
    from pyspark.sql import functions as F

    made = F.col(of[0]) * F.col("f0")
    for i, name in enumerate(of[1:], 1):
        made = made + F.col(name) * F.col(f"f{i}")
    return made


def _left(total: str, of: Sequence[str]) -> Any:
    from pyspark.sql import functions as F

    return F.col(total) - _times(of)


def ask(frame: Any) -> dict[str, FloatArray]:
    """Columns of numbers that a query gives."""
    found = fetched(nw.from_native(frame), backend())
    return {name: numbers_of(found[name]) for name in frame.columns}


def _placed(values: FloatArray, at: IntArray, n: int) -> FloatArray:
    placed = np.zeros(n)
    placed[at] = values
    return placed

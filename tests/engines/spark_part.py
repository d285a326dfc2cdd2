"""Spark in local mode, several partitions: the numbers of pandas, and no row on the driver."""

from __future__ import annotations

import shutil
import sys

import cases
import numpy as np
import pandas as pd
from pyspark.sql import DataFrame, SparkSession, functions, types

import evalreg as er
from evalreg import errors
from evalreg.data.engine import Sums

OPTIONS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.ansi.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "512m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def session(builder: SparkSession.Builder, folder: str) -> SparkSession:
    """A session with strict types whose driver has 512 MB."""
    for name, value in {**OPTIONS, "spark.sql.warehouse.dir": folder}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def maker(spark: SparkSession) -> cases.Make:
    """Frames of Spark in four partitions; floats keep NaN, which Spark does not take for null."""

    def make(frame: pd.DataFrame) -> DataFrame:
        known = {"f": types.DoubleType(), "i": types.LongType(), "b": types.BooleanType()}
        fields, columns = [], []
        for name in frame.columns:
            column = frame[name]
            present = [one for one in column if one is not None]
            kind = known.get(column.dtype.kind) or types._infer_type(present[0])
            fields.append(types.StructField(name, kind, True))
            columns.append(column.tolist() if column.dtype.kind in known else list(column))
        rows = [tuple(None if one is pd.NA else one for one in row) for row in zip(*columns, strict=True)]
        made = spark.createDataFrame(rows, types.StructType(fields)).repartition(4)
        if "judge" in frame and "score" in frame:  # Null in some rows and NaN in others.
            null = functions.isnan("score") & (functions.col("judge") != "x")
            made = made.withColumn("score", functions.when(~null, functions.col("score")))
        return made

    return make


def squares(sums: Sums) -> np.ndarray:
    """Rows, and squares of the totals of clusters."""
    totals = np.bincount(sums.cluster, sums.totals["t"])
    return np.array([sums.n.sum(), totals @ totals])


def check_fold(make: cases.Make) -> None:
    """What executors make of whole clusters adds up to what the driver makes of them."""
    data = make(cases.answers().dropna(subset=["judge"]))
    scores = er.mean(data, by="model", groups="passage").estimate.scores
    values = scores.rows.summed(scores.of, scores.centre)
    engine = scores.rows.engine
    here = sum(map(squares, engine.sums(("passage", "judge"), scores.of, values)))
    np.testing.assert_allclose(engine.fold(("passage", "judge"), scores.of, values, squares), here, rtol=cases.SAME)
    print("sums over clusters by the executors", flush=True)


def check(spark: SparkSession, folder: str, engine: str) -> None:
    """All calls, ids and scores, and decimals."""
    make = maker(spark)
    cases.check_numbers(make, engine)
    check_fold(make)
    cases.check_labels(make)
    cases.check_scores(make)

    def collated(frame: pd.DataFrame) -> DataFrame:
        return make(frame).withColumn("label", functions.collate("label", "UTF8_LCASE_RTRIM"))

    assert collated(pd.DataFrame({"label": ["a", "A "]})).distinct().count() == 1
    cases.check_labels(collated, ["text"])
    dotted = make(cases.answers().rename(columns={"model": "meta.model"}))
    cases.refused(errors.ArgumentError, "Rename first", lambda: er.mean(dotted, by="meta.model", groups="passage"))
    renamed = dotted.withColumnRenamed("meta.model", "model")
    cases.assert_numbers(er.mean(renamed, by="model"), er.mean(cases.answers(), by="model"))
    broken = make(cases.answers()).withColumn("score", functions.col("model").cast("double"))
    cases.refused(errors.EngineError, "did not finish a query", lambda: er.mean(broken))
    make(cases.answers()).write.parquet(f"{folder}/lost")
    lost = spark.read.parquet(f"{folder}/lost")
    shutil.rmtree(f"{folder}/lost")
    cases.refused(errors.EngineError, "did not", lambda: er.mean(lost))
    cached = make(cases.answers()).persist()
    er.mean(cached, groups="passage")
    assert cached.storageLevel.useMemory, "a frame of the caller is no longer cached"
    cached.unpersist()
    print("text under a collation, values that cannot be cast, files that are gone", flush=True)
    frame = cases.answers()
    frame["score"] = frame["score"].round(3)
    exact = functions.col("score").cast("decimal(10, 3)")
    data = make(frame).withColumn("exact", functions.when(~functions.isnan("score"), exact))
    found, expected = er.mean(data, "exact", groups="passage"), er.mean(frame, groups="passage")
    np.testing.assert_allclose(found.bse, expected.bse, rtol=cases.SAME)
    print("scores in decimals", flush=True)


def main() -> None:
    cases.prepare()
    spark = session(SparkSession.builder.master("local[2]").appName("evalreg"), sys.argv[1])
    assert maker(spark)(cases.answers()).rdd.getNumPartitions() == 4
    check(spark, sys.argv[1], "Spark, local mode")
    spark.stop()


if __name__ == "__main__":
    main()

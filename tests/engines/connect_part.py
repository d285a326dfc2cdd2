"""Spark Connect: a server of its own on this machine, and the same calls as on Spark."""

from __future__ import annotations

import sys

import cases
import spark_part
from pyspark import cloudpickle
from pyspark.sql import SparkSession

# The server has no such module; what is folded goes to it by value.
cloudpickle.register_pickle_by_value(spark_part)


def main() -> None:
    cases.prepare()
    spark = spark_part.session(SparkSession.builder.remote("local[2]"), sys.argv[1])
    assert type(spark).__module__.startswith("pyspark.sql.connect"), type(spark).__module__
    spark_part.check(spark, sys.argv[1], "Spark Connect")
    spark.stop()


if __name__ == "__main__":
    main()

"""Runs statements on a Delta table with Spark and Delta's own package, then prints the rows of the table as JSON."""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession


def main(table: str, jars: str, statements: list[str]) -> None:
    builder = SparkSession.builder
    settings = {
        "spark.master": "local[1]",
        "spark.ui.enabled": "false",
        "spark.jars": jars,
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    for statement in statements:
        spark.sql(statement.replace("TABLE", f"delta.`{table}`", 1))
    rows = [row.asDict() for row in spark.read.format("delta").load(table).collect()]
    print(json.dumps({"spark": spark.version, "rows": rows}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])

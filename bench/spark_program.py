"""The same job in plain Spark, with Spark's own connector at both ends, which promises at-least-once.

    python -m bench.spark_program map|count SERVERS SOURCE OUT FOLDER

Its one micro-batch takes all that is there, so an interval would have nothing to wait for. State in RocksDB, as many
shuffle partitions as the topic has; all else as Spark has it.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.kafka_cluster import parsed
from tidegate.testing.kafka.jars import connector_jars


def main() -> None:
    work, servers, source, out, folder = sys.argv[1:]
    jars = ",".join(map(str, connector_jars(print)))
    spark = SparkSession.builder.master("local[*]").config("spark.jars", jars).getOrCreate()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
    events = parsed(records.option("subscribe", source).option("startingOffsets", "earliest").load())
    twice = events.select("id", "key", (F.col("amount") * 2).alias("twice"), "text")
    rows, mode = twice, "append"
    if work == "count":
        rows = twice.groupBy("key").agg(F.count("*").alias("count"), F.sum("twice").alias("sum"))
        mode = "update"
    query = (
        rows.selectExpr("key", "to_json(struct(*)) AS value")
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", out)
        .option("checkpointLocation", folder)
        .outputMode(mode)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()

"""The same job in plain PySpark with Spark's own Kafka connector: each epoch is written inside `foreachBatch`."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from until_told import watch

from tidegate.testing.demo.child import Child
from tidegate.testing.demo.places import Topic

child = Child()
places = child.places

spark = SparkSession.builder.config("spark.jars", child.jars).getOrCreate()
reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", child.servers)
reader = reader.option("subscribe", Topic.INPUT.value).option("startingOffsets", "earliest")
records = reader.option("kafka.isolation.level", "read_committed").load()
lines = records.selectExpr("from_json(string(value), 'number LONG, text STRING') AS line").select("line.*")
words = lines.selectExpr("explode(split(text, ' ')) AS word").where("word <> ''")


def send(rows: DataFrame, topic: Topic) -> None:
    values = rows.selectExpr("to_json(struct(*)) AS value")
    options = {"kafka.bootstrap.servers": child.servers, "topic": topic.value}
    values.write.format("kafka").options(**options).save()


def write_counts(counts: DataFrame, epoch: int) -> None:
    child.pass_point("A", epoch)
    counts.persist()
    send(counts, Topic.CHANGES)
    child.pass_point("B", epoch)
    rows = [(row["word"], row["count"]) for row in counts.collect()]
    with closing(sqlite3.connect(places.table)) as table, table:
        table.execute("CREATE TABLE IF NOT EXISTS counts(word TEXT PRIMARY KEY, count INTEGER)")
        table.executemany("INSERT OR REPLACE INTO counts VALUES (?, ?)", rows)
    counts.unpersist()
    child.pass_point("C", epoch)


def write_lines(copies: DataFrame, epoch: int) -> None:
    send(copies, Topic.LINES)
    child.pass_point("C", epoch)


def start(uid: str, rows: DataFrame, mode: str, write: Callable[[DataFrame, int], None]) -> StreamingQuery:
    writer = rows.writeStream.queryName(uid).outputMode(mode).foreachBatch(write)
    return writer.option("checkpointLocation", str(places.checkpoints / uid)).start()


places.table.parent.mkdir(parents=True, exist_ok=True)
queries = [
    start("counts", words.groupBy("word").count(), "update", write_counts),
    start("lines", lines, "append", write_lines),
]
watch(queries, child)

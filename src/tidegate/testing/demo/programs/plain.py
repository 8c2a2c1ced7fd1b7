"""The same job in plain PySpark, as it is written today: each epoch is written inside `foreachBatch`."""

import sqlite3
from collections.abc import Callable
from contextlib import closing

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from until_told import watch

from tidegate.testing.demo.child import Child

child = Child()
places = child.places

spark = SparkSession.builder.getOrCreate()
reader = spark.readStream.format("json").schema("number LONG, text STRING").option("maxFilesPerTrigger", 1)
lines = reader.load(str(places.input))
words = lines.selectExpr("explode(split(text, ' ')) AS word").where("word <> ''")


def write_counts(counts: DataFrame, epoch: int) -> None:
    child.pass_point("A", epoch)
    counts.persist()
    counts.write.mode("append").json(str(places.changes))
    child.pass_point("B", epoch)
    rows = [(row["word"], row["count"]) for row in counts.collect()]
    with closing(sqlite3.connect(places.table)) as table, table:
        table.execute("CREATE TABLE IF NOT EXISTS counts(word TEXT PRIMARY KEY, count INTEGER)")
        table.executemany("INSERT OR REPLACE INTO counts VALUES (?, ?)", rows)
    counts.unpersist()
    child.pass_point("C", epoch)


def write_lines(copies: DataFrame, epoch: int) -> None:
    copies.write.mode("append").json(str(places.lines))
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

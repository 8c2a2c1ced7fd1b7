"""The demo's job in plain PySpark as it is usually written: `foreachBatch` writes the rows of each epoch."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Literal

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from until_told import watch

from tidegate.testing.demo.child import Child


def count_words(
    child: Child,
    lines: DataFrame,
    *,
    write_changes: Callable[[DataFrame], None],
    write_copies: Callable[[DataFrame], None],
) -> None:
    """Run both queries until the program is told to end. The two functions write the changes and the copied lines."""
    places = child.places

    def write_counts(counts: DataFrame, epoch: int) -> None:
        child.pass_point("A", epoch)
        counts.persist()
        write_changes(counts)
        child.pass_point("B", epoch)
        rows = [(row["word"], row["count"]) for row in counts.collect()]
        with closing(sqlite3.connect(places.table)) as table, table:
            table.execute("CREATE TABLE IF NOT EXISTS counts(word TEXT PRIMARY KEY, count INTEGER)")
            table.executemany("INSERT OR REPLACE INTO counts VALUES (?, ?)", rows)
        counts.unpersist()
        child.pass_point("C", epoch)

    def write_lines(copies: DataFrame, epoch: int) -> None:
        write_copies(copies)
        child.pass_point("C", epoch)

    def start(
        uid: str, rows: DataFrame, mode: Literal["append", "update"], write: Callable[[DataFrame, int], None]
    ) -> StreamingQuery:
        writer = rows.writeStream.queryName(uid).outputMode(mode).foreachBatch(write)
        return writer.option("checkpointLocation", str(places.checkpoints / uid)).start()

    words = lines.selectExpr("explode(split(text, ' ')) AS word").where("word <> ''")
    places.table.parent.mkdir(parents=True, exist_ok=True)
    queries = [
        start("counts", words.groupBy("word").count(), "update", write_counts),
        start("lines", lines, "append", write_lines),
    ]
    watch(queries, child)

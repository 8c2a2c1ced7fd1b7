"""Word count of the lines in files, into a table. The settings name the state backend and the checkpoints' folder."""

from __future__ import annotations

from pyspark.sql import functions as F

import tidegate
from tests.support.session import small_session
from tidegate import FileSource, Job, SQLiteSink


def main() -> None:
    job = Job("words", spark=small_session(), checkpointing_interval="1s", checkpointing_retained=5, lease_timeout="6s")
    lines = job.source("lines", FileSource("in", format="text", settle=0))
    words = lines.select(F.explode(F.split("value", r"\s+")).alias("word")).where("word != ''")
    counts = tidegate.uid("by-word", words.groupBy("word").count())
    job.query("counts", counts, mode="update", sinks=[SQLiteSink("table", "words.db", table="counts", key=["word"])])
    job.run()


if __name__ == "__main__":
    main()

"""Two queries joined by a channel: one draws a number for each line, the other adds the numbers of each word.

Arguments: a folder with the input `in`, where the checkpoints are, the number of partitions if the channel has a key,
else 0, and the id of a fresh generation, if any. The drawn rows are in `drawn` as well, so that the sums can be
compared with exactly the rows that were published.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import functions as F

from tests.support.session import small_session
from tidegate import EmbeddedChannel, FileSink, FileSource, Job, SQLiteSink


def main(folder: Path, checkpoints: str, partitions: int, fresh: str | None = None) -> None:
    spark = None if checkpoints.startswith("s3:") else small_session()
    job = Job("chain", spark=spark, checkpointing_dir=checkpoints, checkpointing_interval=0, lease_timeout="8s")
    lines = job.source("lines", FileSource(str(folder / "in"), format="text", maxFilesPerTrigger=1))
    drawn = lines.select(F.col("value").alias("word"), (F.rand() * 2**40).cast("long").alias("drawn"))
    numbers = job.channel("numbers", EmbeddedChannel("word", partitions) if partitions else None)
    job.query("draw", drawn, sinks=[numbers, FileSink("drawn", str(folder / "drawn"), format="json")])
    rows = job.source("numbers-in", numbers)
    sums = rows.groupBy("word").agg(F.count("*").alias("seen"), F.sum("drawn").alias("total"))
    table = SQLiteSink("sums", str(folder / "out.db"), table="sums", key="word")
    job.query("add", sums, mode="update", sinks=[table])
    job.run(until="caught-up", fresh=fresh)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), *sys.argv[4:])

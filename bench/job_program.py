"""The program of the job that `./dev bench job` keeps alive, kills and looks at: counts by key, into SQLite.

`job_program.py FOLDER KEYS [breakable]`. The first epoch brings every key, each later one ten rows for keys that are
there, and the next one begins at once. A key has 92 characters that do not repeat and its count 8 bytes, so 100,000
keys are a state of 10 MB. A breakable one fails an epoch when the file `broken` appears in its folder.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from pyspark.sql import Column
from pyspark.sql import functions as F

from tidegate import Job, SparkSource, SQLiteSink

JOB, QUERY = "bench", "query"
ROWS = 10
KEY_BYTES, COUNT_BYTES = 92, 8

BROKEN, FAILED = "broken", "failed"
"""Whoever fails an epoch renames the one file to the other: it fails once, and when it did is known."""

LOOK, SIZE = "look", "size.json"
"""While the one file is there, the driver takes its own size, writes it to the other and removes the first."""

_SOURCE = {"rowsPerBatch": ROWS, "numPartitions": 2, "advanceMillisPerBatch": 1000}
_LOOK_SECONDS = 0.2


def main(folder: Path, keys: int, *, breakable: bool) -> None:
    job = Job(JOB, checkpointing_interval=0, checkpointing_dir=str(folder / "checkpoints"))
    job.spark.sparkContext.setLogLevel("OFF")
    rows = job.source("source", SparkSource("rate-micro-batch", schema=None, replayable=None, **_SOURCE))
    value = F.udf(_unless_broken(folder), "long")("value") if breakable else F.col("value")
    counts = rows.select(value.alias("value")).select(_number(keys).alias("number")).groupBy(_key().alias("k"))
    sink = SQLiteSink("sink", folder / "out.db", table="t", key="k")
    job.query(QUERY, counts.agg(F.count("*").alias("v")), mode="update", sinks=[sink])
    threading.Thread(target=_answer_looks, args=(job, folder), name="looks", daemon=True).start()
    job.run()


def _number(keys: int) -> Column:
    """The numbers of the keys that a row stands for: the first rows share all of them out."""
    value, share = F.col("value"), keys // ROWS
    first = value * share
    return F.explode(
        F.when(value < ROWS, F.sequence(first, first + (share - 1))).otherwise(F.array(value % F.lit(keys)))
    )


def _key() -> Column:
    number = F.col("number").cast("string")
    return F.concat(F.sha2(number, 256), F.substring(F.md5(number), 1, KEY_BYTES - 64))


def _unless_broken(folder: Path) -> Callable[[int], int]:
    broken, failed = str(folder / BROKEN), str(folder / FAILED)

    def unless_broken(value: int) -> int:
        import os

        try:
            os.rename(broken, failed)
        except FileNotFoundError:
            return value
        raise ValueError("broken on purpose")

    return unless_broken


def _answer_looks(job: Job, folder: Path) -> None:
    from bench.growth import size_of

    ledger = folder / "checkpoints" / JOB / "queries" / QUERY / "g1" / "ledger"
    while True:
        if (folder / LOOK).exists():
            hidden = folder / f".{SIZE}"
            hidden.write_bytes(msgspec.json.encode(size_of(job.spark, ledger)))
            hidden.rename(folder / SIZE)
            (folder / LOOK).unlink()
        time.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), breakable="breakable" in sys.argv[3:])

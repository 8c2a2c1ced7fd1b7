"""A million keys go from one state backend to the other and back: FOLDER. It prints what it has compared, as JSON.

It is a process of its own, because hashmap holds all of them in the driver, and a test session has no room for that.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.integration.place import setting, wait_until_finished
from tests.support.session import small_session
from tidegate import FileSource, Job, SQLiteSink
from tidegate.savepoints.folder import open_savepoint
from tidegate.settings.kinds import Backend
from tidegate.spark.query_conf import FORMAT_KEY, PROVIDER_KEY, STORES

KEYS = 1_000_000
AGAIN = 1_000
"""So many keys come once more after each move."""


class Compared(msgspec.Struct, frozen=True):
    """One move: rows of state before and after it, and those that are not the same."""

    before: int
    after: int
    gone: int
    new: int


def main(folder: Path) -> None:
    spark = small_session(spark_driver_memory="4g")
    found: list[Compared] = []
    _write(spark, folder, 0, KEYS)
    saved = _saved(spark, folder, "hashmap", None, 0)
    for generation, backend in ((2, "rocksdb"), (3, "hashmap")):
        _write(spark, folder, generation, AGAIN)
        moved_from, saved = saved, _saved(spark, folder, backend, saved, generation - 1)
        found.append(_compared(spark, folder, moved_from, backend, generation))
    print(msgspec.json.encode(found).decode(), flush=True)
    spark.stop()


def _saved(spark: SparkSession, folder: Path, backend: str, savepoint: Path | None, epoch: int) -> Path:
    handle = _job(spark, folder, backend).start(savepoint=savepoint)
    wait_until_finished(handle, epoch)
    return handle.stop_with_savepoint(folder / "saved", id=f"at-{epoch}")


def _job(spark: SparkSession, folder: Path, backend: str) -> Job:
    """Count and sum by key; the table gets the keys that have come again."""
    job = Job(
        "job",
        spark=spark,
        checkpointing_dir=str(folder / "checkpoints"),
        checkpointing_interval=0,
        state_backend=backend,
        parallelism=2,
    )
    source = FileSource(str(folder / "in"), format="parquet", schema="id long, n long", maxFilesPerTrigger=1)
    sums = job.source("numbers", source).groupBy("id").agg(F.count("*").alias("times"), F.sum("n").alias("n"))
    table = SQLiteSink("table", folder / "out.db", table="sums", key="id")
    job.query("query", sums.where("times > 1"), mode="update", sinks=[table])
    return job


def _write(spark: SparkSession, folder: Path, number: int, keys: int) -> None:
    """One file, under its own name at once."""
    rows = spark.range(keys).select("id", (F.col("id") * 7 + number).alias("n"))
    rows.coalesce(1).write.parquet(str(folder / f"written-{number}"))
    (written,) = (folder / f"written-{number}").glob("*.parquet")
    (folder / "in").mkdir(exist_ok=True)
    written.rename(folder / "in" / f"{number}.parquet")


def _compared(spark: SparkSession, folder: Path, savepoint: Path, backend: str, generation: int) -> Compared:
    (saved,) = open_savepoint(savepoint).record.queries
    other = next(each for each in Backend if each.value != backend)
    epoch, folder_now = saved.done.epoch, folder / "checkpoints/job/queries/query" / f"g{generation}" / "spark"
    before = _state(spark, folder / f"before-{generation}", savepoint / "queries/query/spark", other, epoch)
    after = _state(spark, folder / f"after-{generation}", folder_now, Backend(backend), epoch)
    return Compared(before.count(), after.count(), before.exceptAll(after).count(), after.exceptAll(before).count())


def _state(spark: SparkSession, kept: Path, checkpoint: Path, backend: Backend, epoch: int) -> DataFrame:
    """All keys and values behind an epoch, by Spark's own reader; kept, because it reads each backend in its form."""
    store = STORES[backend]
    with setting(spark, FORMAT_KEY, store.checkpoint_format), setting(spark, PROVIDER_KEY, store.provider):
        rows = spark.read.format("statestore").option("batchId", epoch).load(str(checkpoint))
        rows.select("key.*", F.to_json("value").alias("value")).write.parquet(str(kept))
    return spark.read.parquet(str(kept))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

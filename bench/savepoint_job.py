"""The job whose state `./dev bench savepoint` keeps and carries: counts by key (rocksdb), ten rows an epoch.

The first epochs bring all keys, each later one ten rows for keys that are there, and the next one begins at once. A key
has 192 characters that do not repeat, so five million of them are a state of 1 GB. The table gets only what has come
twice: how fast it takes five million rows is another question.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import partial
from pathlib import Path
from typing import Literal

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tidegate import Job, JobHandle, SparkSource, SQLiteSink
from tidegate.core.records import SavepointFormat
from tidegate.operate.place import open_job
from tidegate.savepoints.folder import open_savepoint
from tidegate.savepoints.hold import RunningQuery
from tidegate.savepoints.take import RunningJob, take
from tidegate.spark.state.parquet import tables_opened
from tidegate.storages.schemes import Folder

JOB, QUERY = "bench", "query"
KEYS, QUICK_KEYS = 5_000_000, 20_000
FILLED = 20
"""So many epochs bring all keys."""

_ROWS = 10
_SOURCE = {"rowsPerBatch": _ROWS, "numPartitions": 2, "advanceMillisPerBatch": 1000}
_LOOK_SECONDS = 0.05
_ALL = 1 << 62


def job_of(
    session: SparkSession, place: Path, keys: int, name: str = JOB, changelog: Literal["true", "false"] = "true"
) -> Job:
    """The job, with everything it leaves behind in `place`."""
    checkpoints = str(place / "checkpoints")
    job = Job(name, spark=session, checkpointing_interval=0, checkpointing_dir=checkpoints, state_changelog=changelog)
    rows = job.source("source", SparkSource("rate-micro-batch", schema=None, replayable=None, **_SOURCE))
    counts = rows.select(_number(keys).alias("number")).groupBy(_key().alias("k")).agg(F.count("*").alias("v"))
    table = SQLiteSink("sink", place / f"{name}.db", table="t", key="k")
    job.query(QUERY, counts.where("v > 1"), mode="update", sinks=[table])
    return job


def fill(session: SparkSession, place: Path, keys: int) -> None:
    """Run the job in a new folder until it has all keys."""
    place.mkdir()
    handle = job_of(session, place, keys).start()
    wait_for_done(handle, FILLED)
    handle.stop()


def take_ended(session: SparkSession, place: Path, form: SavepointFormat = SavepointFormat.NATIVE) -> Path:
    """As `tidegate stop -p` does of a job whose queries have ended."""
    return take(ended_job(session, place), "bench", place / "saved", form=form).folder


def ended_job(session: SparkSession, place: Path) -> RunningJob:
    """The job of a savepoint, when its queries have ended."""
    job = open_job(Folder.of(place / "checkpoints" / JOB))
    none: frozenset[str] = frozenset()
    queries = [RunningQuery(job.query(each, none, none), each.folder, _ALL) for each in job.queries()]
    return RunningJob(job.folder, job.record, queries, open_tables=partial(tables_opened, session, job.folder))


def start_from(session: SparkSession, place: Path, keys: int, saved: Path, name: str) -> None:
    """As another job, which reads the savepoint and leaves it as it is, until its first epoch is done."""
    done = open_savepoint(saved).record.queries[0].done.epoch
    handle = job_of(session, place, keys, name).start(savepoint=saved)
    wait_for_done(handle, done + 1)
    handle.stop()


def wait_for_done(handle: JobHandle, epoch: int) -> None:
    """Raises what made the job fail."""
    while handle.finished()[QUERY] < epoch:
        if handle.wait(_LOOK_SECONDS):
            raise RuntimeError("the job has ended")


def read_whole(folder: Path) -> None:
    """Bring the files of a folder into the page cache: whoever reads them next finds them there."""
    for parent, _, names in os.walk(folder):
        for name in names:
            with (Path(parent) / name).open("rb") as file:
                while file.read(1 << 20):
                    pass


def settle(place: Path) -> None:
    """Write to the disk what is not there yet, so that nobody pays for what another one has left."""
    subprocess.run(["sync", "-f", str(place)], check=True)


def remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder)


def remove_job(place: Path, name: str) -> None:
    """A job's checkpoints, and its table."""
    remove(place / "checkpoints" / name)
    for path in place.glob(f"{name}.db*"):
        remove(path) if path.is_dir() else path.unlink()


def _number(keys: int) -> Column:
    """The numbers of the keys that a row stands for: the first rows share all of them out."""
    value, rows = F.col("value"), FILLED * _ROWS
    share = keys // rows
    first = value * share
    return F.explode(
        F.when(value < rows, F.sequence(first, first + (share - 1))).otherwise(F.array(value % F.lit(share * rows)))
    )


def _key() -> Column:
    number = F.col("number").cast("string")
    return F.concat(*(F.sha2(F.concat(number, F.lit(salt)), 256) for salt in "abc"))

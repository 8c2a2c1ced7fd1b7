"""Where one test's job has its input, its checkpoints and its outputs, and how they are read."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.support.driver import numbers
from tidegate import FileSource, Job, JobHandle, JobStatus, TidegateError

Row = dict[str, Any]

NO_DATA_EPOCHS = "spark.sql.streaming.noDataMicroBatches.enabled"
"""Whether Spark itself runs the epoch without rows that a later watermark makes due."""

_BOUND_SECONDS = 180.0
_EPOCH = re.compile(r"-e(\d{12})-")


@dataclass
class Place:
    """A folder of a test; `copy` gives another one with the same input and copies of all the rest."""

    folder: Path
    spark: SparkSession
    input: Path = field(default=Path())

    def __post_init__(self) -> None:
        if self.input == Path():
            self.input = self.folder / "in"
            self.input.mkdir()

    # --- the job -------------------------------------------------------------------------------------------

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def job(self, name: str = "job", **settings: Any) -> Job:
        """A job in the suite's session, as fast as it can."""
        given: dict[str, Any] = {"checkpointing_interval": 0, "checkpointing_dir": str(self.checkpoints)}
        return Job(name, spark=self.spark, **{**given, **settings})

    def words(self, job: Job, uid: str = "words") -> DataFrame:
        """Rows (word) of the input, one file an epoch."""
        return self.source(job, uid, "word string")

    def source(self, job: Job, uid: str, schema: str) -> DataFrame:
        return job.source(uid, FileSource(str(self.input), format="json", schema=schema, maxFilesPerTrigger=1))

    def write(self, *rows: str | Row) -> None:
        """Add one file of rows; a text stands for a row (word). Files are read in the order they were written."""
        number = len(list(self.input.iterdir()))
        whole = [{"word": row} if isinstance(row, str) else row for row in rows]
        hidden = self.input / f".{number:03d}"
        hidden.write_text("".join(json.dumps(row) + "\n" for row in whole))
        os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
        hidden.rename(self.input / f"{number:03d}.json")

    # --- the files of a query ------------------------------------------------------------------------------

    def query(self, uid: str = "query", job: str = "job") -> Path:
        return self.checkpoints / job / "queries" / uid / "g1"

    def log(self, name: str, uid: str = "query", job: str = "job") -> list[int]:
        """The numbered entries of `spark/offsets`, `spark/commits`, `ledger/done` and so on."""
        return numbers(self.query(uid, job) / name)

    # --- what came out -------------------------------------------------------------------------------------

    def table(self, table: str = "words", path: str = "out.db") -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(self.folder / path)) as database:
            return sorted(tuple(row) for row in database.execute(f"SELECT * FROM {table}"))

    def files(self, name: str = "out") -> dict[int, list[Row]]:
        """The rows of a JSON `FileSink` by epoch, in the order of the tasks."""
        found: dict[int, list[Row]] = {}
        for path in sorted((self.folder / name).glob("*.json")):
            named = _EPOCH.search(path.name)
            assert named, path
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            found.setdefault(int(named[1]), []).extend(rows)
        return found

    def words_out(self, name: str = "out") -> dict[int, list[str]]:
        """The words of a JSON `FileSink` by epoch, sorted."""
        return {epoch: sorted(row["word"] for row in rows) for epoch, rows in self.files(name).items()}


def run(job: Job) -> JobStatus:
    """Run until the job has caught up."""
    handle = job.start(until="caught-up")
    handle.wait()
    return handle.status()


def evaluate(rows: DataFrame, _: int) -> None:
    """What a plain streaming query of the user's does with an epoch."""
    rows.collect()


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    """A setting of the session, for a while."""
    before = spark.conf.get(key, None)
    spark.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, before)


def error_of(call: Callable[[], object]) -> TidegateError:
    """The TidegateError that `call` raises."""
    try:
        call()
    except TidegateError as error:
        return error
    raise AssertionError("nothing was raised")


def wait_until(seen: Callable[[], object], what: str) -> None:
    """Wait for observed state; there is a bound."""
    end = time.monotonic() + _BOUND_SECONDS
    while not seen():
        assert time.monotonic() < end, f"not seen in {_BOUND_SECONDS} s: {what}"
        time.sleep(0.01)


def wait_until_finished(handle: JobHandle, epoch: int, query: int = 0) -> None:
    """Wait until an epoch is done in a job that runs on."""

    def finished() -> bool:
        status = handle.status()
        assert status.running, "the job has ended"
        return status.queries[query].finished >= epoch

    wait_until(finished, f"epoch {epoch} done")

"""`job.source(..., durable=True)`: any source that gives its rows once is exactly-once from the ingest log on."""

from __future__ import annotations

import sqlite3
import struct
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from tests.integration.durable_program import Once
from tests.integration.place import Place, error_of, wait_until
from tests.support.driver import Driver
from tests.support.today import turn
from tidegate import FileSource, Job, JobHandle, RateSource, SparkSource, SQLiteSink
from tidegate.core.errors import Code
from tidegate.source_api import Begins, Position, Range, Replay, RowSource, Traits
from tidegate.testing.memory_source import MemorySource

PROGRAM = Path(__file__).parent / "durable_program.py"
SCHEMA = pa.schema([("word", pa.string())])


@turn(3, of=4)
@pytest.mark.parametrize("kind", ["queue", pytest.param("stream", marks=pytest.mark.more)])
@pytest.mark.timeout(600)
def test_a_killed_job_loses_no_row_of_its_log_and_repeats_none(tmp_path: Path, kind: str):
    """kill -9 while the log grows; the next start computes what it holds. (An own reader of the log compares.)"""
    (tmp_path / "born").write_text(str(time.time()))
    with Driver(PROGRAM, str(tmp_path), kind, log=tmp_path / "log") as driver:
        end = time.monotonic() + 120
        while len(numbers(tmp_path)) <= 20:
            assert driver.process.poll() is None, driver.tail()
            assert time.monotonic() < end, driver.tail()
            time.sleep(0.02)
        driver.kill()
    with Driver(PROGRAM, str(tmp_path), kind, "caught-up", log=tmp_path / "log") as driver:
        assert driver.wait() == 0, driver.tail()
    logged = list(rows_in_the_log(tmp_path / "checkpoints" / "rows" / "ingest" / "rows"))
    print(f"{kind}: {len(logged)} rows in the log")
    assert len(logged) == len(set(logged)), "no row is in the log twice"
    assert sorted(numbers(tmp_path)) == sorted(logged), "the table has what the log has"
    if kind == "queue":
        assert logged == list(range(len(logged))), "the log leaves none out"


def test_rows_are_logged_and_shown_once_over_a_stop_and_the_log_is_in_savepoints(place: Place):
    """Rows that come while the job is stopped wait in the source. Another job restores from the savepoint."""
    source = MemorySource(SCHEMA)
    source.add([{"word": "sea"}, {"word": "sand"}])
    handle = started(place, source)
    wait_until(lambda: len(shown(place)) == 2, "two rows")
    savepoint = handle.savepoint(place.folder / "savepoints")
    handle.stop()
    source.add([{"word": "wind"}])
    handle = started(place, source)
    wait_until(lambda: len(shown(place)) == 3, "three rows")
    handle.stop()
    assert sorted(shown(place)) == ["sand", "sea", "wind"]
    assert source.oldest() == {"rows": 3}, "what is in the log was reported done"
    assert savepoint is not None
    other = declared(place, MemorySource(SCHEMA), name="other", output="other.db")
    other.start(savepoint=savepoint, until="caught-up").wait()
    assert shown(place, "other.db") == [], "the savepoint was behind the first two, and held no other"


@turn(0, of=2)
def test_a_python_data_source_is_refused_without_the_log_and_exact_with_it(place: Place):
    refused = error_of(lambda: place.job().source("lines", SparkSource(Once)))
    assert (refused.catalogue_entry, "durable=True" in refused.next_step) == (Code.SOURCE_NOT_REPLAYABLE, True)
    job = place.job()
    job.query("query", job.source("lines", SparkSource(Once), durable=True), sinks=[sink(place)])
    handle = job.start()
    wait_until(lambda: len(shown(place)) > 20, "rows")
    handle.stop()
    assert len(shown(place)) == len(set(shown(place)))


def test_a_source_that_can_be_read_again_needs_no_log(place: Place):
    for source in (RateSource(), FileSource(str(place.input), format="json", schema="word string"), Replayable()):
        error = error_of(lambda source=source: place.job().source("lines", source, durable=True))
        assert (error.catalogue_entry, "leave durable= out" in error.next_step) == (Code.SOURCE_OPTION, True)


def test_what_a_source_raises_while_it_is_logged_ends_the_job_and_names_it(place: Place):
    source = MemorySource(SCHEMA)
    source.newest = _fails  # pyright: ignore[reportAttributeAccessIssue]
    error = error_of(lambda: started(place, source).wait(60))
    assert error.catalogue_entry is Code.SOURCE_FAILED
    assert (error.found, error.where) == ("OSError: the queue is down", "job job, source lines")


# --- read directly -----------------------------------------------------------------------------------------


class Replayable(RowSource):
    """The numbers below 10, in two parts, at most three of each in an epoch."""

    traits: ClassVar[Traits] = Traits(Replay.EXACT, Begins.OLDEST)

    def schema(self) -> pa.Schema:
        return pa.schema([("word", pa.int64())])

    def oldest(self) -> Position:
        return {"even": 0, "odd": 0}

    def newest(self) -> Position:
        return {"even": 5, "odd": 5}

    def end(self, start: Position, newest: Position) -> Position:
        return {part: min(start[part] + 3, at) for part, at in newest.items()}

    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        numbers = [2 * number + (wanted.part == "odd") for number in range(wanted.begin, wanted.end)]
        yield pa.RecordBatch.from_pydict({"word": numbers}, schema=self.schema())


def test_a_row_source_is_read_in_epochs_as_it_wants_them(place: Place):
    status = finished(place, Replayable())
    assert sorted(shown(place)) == list(range(10))
    assert status.epochs == 2


@turn(0, of=2)
def test_a_query_over_a_finished_and_a_living_source_takes_savepoints_and_is_restored(place: Place):
    """The finished source holds up nothing: checkpoints go on, and a restore reads none of its rows again."""

    def counting(name: str) -> Job:
        job = place.job(name)
        ended = job.source("ended", Replayable()).select(F.col("word").cast("string").alias("word"))
        words = ended.union(place.source(job, "living", "word string"))
        counts = words.groupBy("word").agg(F.count("*").alias("n"))
        job.query(
            "query",
            counts,
            mode="update",
            sinks=[SQLiteSink("table", place.folder / f"{name}.db", table="n", key="word")],
        )
        return job

    def counted(name: str) -> dict[str, int]:
        path = place.folder / f"{name}.db"
        with closing(sqlite3.connect(path)) as database:
            return dict(database.execute("SELECT word, n FROM n"))

    place.write("sea")
    handle = counting("first").start()
    wait_until(lambda: place.log("ledger/done", job="first")[-1:] >= [1], "the finished source's epochs")
    before = place.log("ledger/done", job="first")[-1]
    place.write("sea")
    wait_until(lambda: place.log("ledger/done", job="first")[-1] > before, "an epoch of the living source alone")
    savepoint = handle.savepoint(place.folder / "saved")
    handle.stop()
    assert counted("first") == {**{str(number): 1 for number in range(10)}, "sea": 2}

    place.write("sea", "0")
    counting("second").start(savepoint=savepoint, until="caught-up").wait()
    assert counted("second") == {"sea": 3, "0": 2}


def test_an_at_most_once_job_refuses_a_row_source_that_begins_at_its_oldest(place: Place):
    job = place.job(checkpointing_mode="at-most-once")
    assert error_of(lambda: job.source("lines", Replayable())).catalogue_entry is Code.SOURCE_NOT_NEWEST


def test_a_row_source_that_went_back_ends_the_job_before_anything_is_written_down(place: Place):
    finished(place, Replayable())

    class Emptied(Replayable):
        def newest(self) -> Position:
            return {"even": 5, "odd": 1}

    error = error_of(lambda: finished(place, Emptied()))
    assert (error.catalogue_entry, error.found) == (Code.OFFSETS_BACKWARDS, "an older one: odd 5, now 1")


# --- what the tests stand on --------------------------------------------------------------------------------


def _fails() -> Position:
    raise OSError("the queue is down")


def sink(place: Place, output: str = "out.db") -> SQLiteSink:
    return SQLiteSink("table", place.folder / output, table="lines")


def declared(place: Place, source: RowSource, name: str = "job", output: str = "out.db") -> Job:
    job = place.job(name)
    rows = job.source("lines", source, durable=source.traits.replay is not Replay.EXACT)
    job.query("query", rows, sinks=[sink(place, output)])
    return job


def started(place: Place, source: RowSource) -> JobHandle:
    return declared(place, source).start()


def finished(place: Place, source: RowSource):
    handle = declared(place, source).start(until="caught-up")
    handle.wait()
    return handle.status().queries[0]


def shown(place: Place, output: str = "out.db") -> list[Any]:
    try:
        return [word for word, *_ in place.table("lines", output)]
    except sqlite3.OperationalError:  # there is no table yet
        return []


def numbers(folder: Path) -> list[int]:
    """What a reader of the table sees; nothing while there is no table yet."""
    with closing(sqlite3.connect(folder / "out.db", timeout=30)) as database:
        known = database.execute("SELECT 1 FROM sqlite_master WHERE name = 'numbers'").fetchone()
        return [number for (number,) in database.execute("SELECT n FROM numbers")] if known else []


def rows_in_the_log(log: Path) -> Iterator[int]:
    """Everything that ever arrived, by a reader of the files of its own."""
    for segment in sorted(log.glob("*.lines")):
        data = segment.read_bytes()
        while data:
            magic, _, _, _, _, count, length = struct.unpack(">4sI8sQQII", data[:40])
            with pa.ipc.open_stream(data[40 : 40 + length]) as stream:
                found: list[Any] = stream.read_all()["n"].to_pylist()
            assert (magic, len(found)) == (b"TGL1", count)
            yield from found
            data = data[40 + length :]

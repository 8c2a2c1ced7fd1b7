"""Event-time windows: the last ones come too, at the end of a bounded job and after a stop."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pyarrow.dataset as ds
import pytest
from pyspark.sql import functions as F

from tests.integration.place import NO_DATA_EPOCHS, Place, run, setting, wait_until_finished
from tests.support.today import turn
from tidegate import FileSink, Job, SQLiteSink


def windows_job(place: Place) -> Job:
    """Rows (start, words) once a window of ten seconds has closed; a row may be five seconds late."""
    job = place.job()
    events = place.source(job, "events", "at timestamp, word string").withWatermark("at", "5 seconds")
    windows = events.groupBy(F.window("at", "10 seconds")).count()
    closed = windows.select(F.date_format("window.start", "HH:mm:ss").alias("start"), F.col("count").alias("words"))
    job.query("query", closed, mode="append", sinks=[FileSink("files", place.folder / "out", format="json")])
    return job


def write_events(place: Place, *times: str) -> None:
    place.write(*({"at": f"2024-01-01T{time}Z", "word": "sea"} for time in times))


def closed_windows(place: Place) -> dict[int, list[tuple[str, int]]]:
    return {epoch: sorted((row["start"], row["words"]) for row in rows) for epoch, rows in place.files().items()}


def watermarks(place: Place, epoch: int) -> tuple[int, int]:
    """The watermark that the epoch was run with, and the one that Spark's log names for the next."""
    logs = place.query() / "spark"
    offsets, commits = ((logs / log / str(epoch)).read_text().splitlines()[1] for log in ("offsets", "commits"))
    return json.loads(offsets)["batchWatermarkMs"], json.loads(commits)["nextBatchWatermarkMs"]


@turn(0, of=4)
@pytest.mark.parametrize("by_spark", ["true", "false"], ids=["spark-runs-it", "spark-leaves-it"])
def test_a_bounded_job_ends_with_every_window_that_is_due(place: Place, by_spark: str):
    with setting(place.spark, NO_DATA_EPOCHS, by_spark):
        write_events(place, "00:00:01", "00:00:02", "00:00:11", "00:00:16")
        run(windows_job(place))
        assert closed_windows(place) == {1: [("00:00:00", 2)]}, "the watermark is 00:00:11: one window has closed"
        run(windows_job(place))
        assert closed_windows(place) == {1: [("00:00:00", 2)]}, "nothing was due at the second start"
        write_events(place, "00:00:03", "00:00:31")
        run(windows_job(place))
    assert closed_windows(place) == {1: [("00:00:00", 2)], 3: [("00:00:10", 2)]}, "00:00:03 came too late"


@turn(1, of=2)
def test_what_was_due_at_the_stop_comes_first_at_the_restart(place: Place):
    write_events(place, "00:00:01", "00:00:16")
    with setting(place.spark, NO_DATA_EPOCHS, "false"):  # so that the stop comes before the due epoch
        handle = windows_job(place).start()
        wait_until_finished(handle, 0)
        handle.stop()
    ran_with, following = watermarks(place, 0)
    assert (ran_with < following, place.log("spark/offsets"), closed_windows(place)) == (True, [0], {})

    write_events(place, "00:00:02", "00:00:17", "00:00:36")
    run(windows_job(place))
    assert closed_windows(place) == {1: [("00:00:00", 1)], 3: [("00:00:10", 2)]}, "00:00:02 came too late"
    assert watermarks(place, 1) == (following, following)


def test_timestamps_reach_the_sinks_as_they_are(place: Place):
    job = place.job()
    events = place.source(job, "events", "at timestamp, word string")
    job.query(
        "query",
        events,
        sinks=[
            SQLiteSink("table", place.folder / "out.db", table="events"),
            FileSink("files", place.folder / "out", format="parquet"),
        ],
    )
    write_events(place, "00:00:01.25")
    run(job)
    rows = ds.dataset(place.folder / "out", format="parquet").to_table().to_pylist()
    assert [row["at"].timestamp() for row in rows] == [1704067201.25]
    with closing(sqlite3.connect(place.folder / "out.db")) as database:
        assert database.execute("SELECT at FROM events").fetchall() == [("2024-01-01T00:00:01.250000Z",)]

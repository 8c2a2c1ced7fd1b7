"""Savepoints of a job with channels: a savepoint is one cut across them. The job resumes from it here and elsewhere."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run, wait_until, wait_until_finished
from tidegate import FileSink, Job, Restore, SQLiteSink
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.core.errors import Code
from tidegate.storages.schemes import Folder


def counting(place: Place, name: str = "job", out: str = "out.db", seconds: float = 0.0, **settings: object) -> Job:
    """One query passes words on; another one counts them, after this time for each word."""

    @F.udf("string")
    def after_a_while(word: str) -> str:
        time.sleep(seconds)
        return word

    job = place.job(name, **settings)
    words = job.channel("words")
    job.query("write", place.words(job, "lines"), sinks=[words, FileSink("seen", place.folder / f"seen-{name}")])
    read = job.source("words-in", words)
    slow = read.select(after_a_while("word").alias("word")) if seconds else read
    table = SQLiteSink("table", place.folder / out, table="words", key="word")
    job.query("count", slow.groupBy("word").count(), mode="update", sinks=[table])
    return job


def stopped_with_savepoint(place: Place) -> Path:
    """There are three files. The slow reader has read one of them when the stop is requested."""
    place.write("sea")
    handle = counting(place, seconds=1.5).start()
    wait_until(lambda: place.log("spark/offsets", "count"), "the first epoch of the reader")
    place.write("sea", "sand")
    place.write("ice")
    wait_until(lambda: len(place.log("ledger/done", "write")) == 3, "more rows behind it")
    saved = handle.stop_with_savepoint(place.folder / "saved")
    assert place.table() == [("ice", 1), ("sand", 1), ("sea", 2)]
    return Path(saved)


def test_a_job_resumes_elsewhere_from_the_savepoint_of_its_stop(place: Place) -> None:
    """Under another name, with other partitions and another backend; there its channel is empty."""
    saved = stopped_with_savepoint(place)
    place.write("sea", "wind")
    elsewhere = str(place.folder / "elsewhere")
    for _ in range(2):
        job = counting(place, "copy", "copy.db", checkpointing_dir=elsewhere, parallelism=3, state_backend="hashmap")
        job.start(until="caught-up", savepoint=saved).wait()
    assert place.table(path="copy.db") == [("sea", 3), ("wind", 1)], "the words that have come since"
    run(counting(place))
    assert place.table() == [("ice", 1), ("sand", 1), ("sea", 3), ("wind", 1)], (
        "the first job resumes from its own checkpoint"
    )


def test_rows_of_the_timeline_that_a_restore_gives_up_are_not_read(place: Place) -> None:
    saved = stopped_with_savepoint(place)
    for word in ("sea", "wind"):
        place.write(word)
        run(counting(place))
    assert place.table() == [("ice", 1), ("sand", 1), ("sea", 3), ("wind", 1)]
    for rewind in ("monday", "tuesday"):
        job = counting(place)
        job.start(until="caught-up", savepoint=Restore(str(saved), rewind=rewind)).wait()
        assert place.table() == [("ice", 1), ("sand", 1), ("sea", 3), ("wind", 1)], rewind
    place.write("sea")
    run(counting(place))
    assert place.table() == [("ice", 1), ("sand", 1), ("sea", 4), ("wind", 1)]


def test_while_rows_wait_in_a_channel_no_savepoint_is_taken_and_then_it_is(place: Place) -> None:
    place.write("sea")
    handle = counting(place, seconds=4.0).start()
    try:
        wait_until(lambda: handle.status().queries[1].rows == 1, "the first row behind the channel")
        before = place.log("spark/offsets", "count")[-1]
        place.write("sand")
        wait_until(lambda: place.log("spark/offsets", "count")[-1] > before, "the next epoch of the reader")
        error = error_of(lambda: handle.savepoint(place.folder / "saved"))
        assert (error.catalogue_entry, "query count" in error.expected) == (Code.SAVEPOINT_REFUSED, True)
        wait_until_finished(handle, before + 1, query=1)
        handle.savepoint(place.folder / "saved")
    finally:
        handle.cancel()


def test_a_cancel_takes_no_savepoint_of_a_job_with_channels_and_the_job_runs_on(place: Place) -> None:
    place.write("sea")
    handle = counting(place).start()
    try:
        error = error_of(lambda: handle.cancel_with_savepoint(place.folder / "saved"))
        assert (error.catalogue_entry, "tidegate stop job -p DIR" in error.next_step) == (Code.REQUEST_REFUSED, True)
        wait_until(lambda: handle.status().queries[1].rows == 1, "the row behind the channel")
    finally:
        handle.stop()


def test_a_retained_checkpoint_of_a_job_with_channels_is_no_cut(place: Place) -> None:
    place.write("sea")
    run(counting(place))
    (number, *_) = retained_numbers(Folder.of(place.checkpoints / "job"))
    checkpoint = place.checkpoints / "job" / "checkpoints" / str(number)
    error = error_of(lambda: counting(place).start(savepoint=checkpoint))
    assert (error.catalogue_entry, "no such cut" in error.found) == (Code.SAVEPOINT_REFUSED, True)
    run(counting(place))
    assert place.table() == [("sea", 1)]

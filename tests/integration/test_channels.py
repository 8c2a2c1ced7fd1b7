"""Jobs whose queries are joined by channels: who reads what, in which order, and what is refused."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run, wait_until
from tidegate import FileSink, Job, SQLiteSink
from tidegate.core.errors import Code


def chain(place: Place) -> Job:
    """One query writes a channel, two queries read it: one of them all rows, one of them those of long words."""
    job = place.job()
    words = job.channel("words")
    job.query("write", place.words(job, "lines"), sinks=[words])
    read = job.source("words-in", words)
    job.query("all", read, sinks=[FileSink("out", place.folder / "out", format="json")])
    long = read.where(F.length("word") > 3)
    job.query("long", long, sinks=[FileSink("long-out", place.folder / "long", format="json")])
    return job


def words_of(place: Place, name: str = "out") -> list[str]:
    return sorted(word for words in place.words_out(name).values() for word in words)


def test_each_reader_has_every_row_once_over_several_starts(place: Place) -> None:
    place.write("sea", "stone")
    run(chain(place))
    assert (words_of(place), words_of(place, "long")) == (["sea", "stone"], ["stone"])
    place.write("sand")
    place.write("wind", "ice")
    run(chain(place))
    assert words_of(place) == ["ice", "sand", "sea", "stone", "wind"]
    assert words_of(place, "long") == ["sand", "stone", "wind"]


def test_rows_pass_while_the_job_runs_and_those_that_a_stop_leaves_come_at_the_next_start(place: Place) -> None:
    place.write("sea")
    job = chain(place)
    handle = job.start()
    wait_until(lambda: words_of(place) == ["sea"], "the first row behind the channel")
    place.write("sand")
    wait_until(lambda: len(place.log("ledger/done", "write")) == 2, "the second epoch of the writer")
    handle.stop()
    run(chain(place))
    assert words_of(place) == ["sand", "sea"]


def test_two_channels_meet_in_one_query(place: Place) -> None:
    place.write("sea", "stone")
    job = place.job()
    short, long = job.channel("short"), job.channel("long")
    rows = place.words(job, "lines")
    job.query("short-words", rows.where(F.length("word") <= 3), sinks=[short])
    job.query("long-words", rows.where(F.length("word") > 3), sinks=[long])
    both = job.source("short-in", short).unionByName(job.source("long-in", long))
    counted = both.groupBy(F.length("word").alias("letters")).count()
    job.query(
        "count",
        counted,
        mode="update",
        sinks=[SQLiteSink("table", place.folder / "out.db", table="words", key="letters")],
    )
    run(job)
    assert place.table() == [(3, 1), (5, 1)]


def test_a_fresh_generation_reads_no_row_of_the_older_one(place: Place) -> None:
    place.write("sea")
    run(chain(place))
    handle = chain(place).start(until="caught-up", fresh="once")
    handle.wait()
    assert words_of(place) == ["sea", "sea"]
    place.write("sand")
    run(chain(place))
    assert words_of(place) == ["sand", "sea", "sea"]


def test_a_channel_is_read_behind_the_query_that_writes_it(place: Place) -> None:
    job = place.job()
    error = error_of(lambda: job.source("in", job.channel("words")))
    assert error.catalogue_entry is Code.CHANNEL_UNWRITTEN


def test_a_channel_has_one_writer(place: Place) -> None:
    job = place.job()
    words = job.channel("words")
    rows = place.words(job, "lines")
    job.query("one", rows, sinks=[words])
    assert error_of(lambda: job.query("another", rows, sinks=[words])).catalogue_entry is Code.UID_DUPLICATE


def test_an_at_most_once_job_has_no_channels(place: Place) -> None:
    job = place.job(checkpointing_mode="at-most-once")
    error = error_of(lambda: job.query("write", place.words(job, "lines"), sinks=[job.channel("words")]))
    assert error.catalogue_entry is Code.LEVEL_REFUSED


@pytest.mark.parametrize("restore", ["savepoint", "checkpoint"])
def test_no_savepoint_is_taken_and_no_checkpoint_restored(place: Place, restore: str) -> None:
    place.write("sea")
    handle = chain(place).start()
    wait_until(lambda: words_of(place) == ["sea"], "the first row behind the channel")
    try:
        if restore == "savepoint":
            error = error_of(lambda: handle.savepoint(place.folder / "savepoints"))
            assert error.catalogue_entry is Code.SAVEPOINT_REFUSED
    finally:
        handle.stop()
    if restore == "checkpoint":
        checkpoint = place.checkpoints / "job" / "checkpoints" / "1"
        error = error_of(lambda: chain(place).start(savepoint=checkpoint))
        assert error.catalogue_entry is Code.SAVEPOINT_REFUSED
    assert words_of(place) == ["sea"]

"""The end of a job with channels follows its graph: the first queries end first, and their readers read the rest."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.crash.channel_windows_program import drained_job, minutes, tens
from tests.integration.place import Place, error_of, run, wait_until
from tests.support.today import sampled, turn
from tidegate import FileSink, Job
from tidegate.core.errors import Code


def slow(words: DataFrame, seconds: float, go: Path | None = None) -> DataFrame:
    """The words, each after this time, or as soon as this file is there."""

    @F.udf("string")
    def after_a_while(word: str) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not (go is not None and go.exists()):
            time.sleep(0.01)
        return word

    return words.select(after_a_while("word").alias("word"))


def slow_chain(
    place: Place, seconds: float = 1.5, max_unread: int | None = None, go: Path | None = None, **settings: object
) -> Job:
    """A reader of a channel that another reader fills. The first reader is slow."""
    job = place.job("job", **settings)
    words, again = job.channel("words", max_unread=max_unread), job.channel("again", max_unread=max_unread)
    job.query("write", place.words(job, "lines"), sinks=[words])
    job.query("pass", slow(job.source("words-in", words), seconds, go), sinks=[again])
    job.query("end", job.source("again-in", again), sinks=[FileSink("out", place.folder / "out", format="json")])
    return job


def words_of(place: Place) -> list[str]:
    return sorted(word for words in place.words_out().values() for word in words)


def is_passing(place: Place) -> bool:
    """The slow reader is in an epoch, and the writer has published more."""
    return bool(place.log("spark/offsets", "pass")) and len(place.log("ledger/done", "write")) == 3


@turn(0, of=2)
def test_a_stop_leaves_no_row_in_a_channel(place: Place) -> None:
    place.write("sea")
    handle = slow_chain(place).start()
    wait_until(lambda: place.log("spark/offsets", "pass"), "the first epoch of the slow reader")
    place.write("sand")
    place.write("ice")
    wait_until(lambda: is_passing(place), "more rows behind it")
    handle.stop()
    assert words_of(place) == ["ice", "sand", "sea"]


@pytest.mark.parametrize("drain", sampled([pytest.param(False, id="stop"), pytest.param(True, id="drain")]))
def test_a_writer_waits_for_a_reader_that_is_too_far_behind_and_the_job_ends_all_the_same(
    place: Place, *, drain: bool
) -> None:
    """Each of eight files has a word. While the reader is in its first epoch, two words may wait in the channel."""
    for number in range(8):
        place.write(f"word-{number}")
    go = place.folder / "go"
    handle = slow_chain(place, seconds=60.0, max_unread=2, go=go).start()
    wait_until(lambda: len(place.log("ledger/done", "write")) == 3, "as many words as may wait, and one")
    time.sleep(3.0)
    written = len(place.log("ledger/done", "write"))
    go.touch()
    assert written == 3
    handle.stop(drain=drain)
    written = len(place.log("ledger/done", "write"))
    assert words_of(place) == [f"word-{number}" for number in range(written)]
    if not drain:
        run(slow_chain(place, max_unread=2, go=go))
        assert words_of(place) == [f"word-{number}" for number in range(8)]


@turn(0, of=4)
@pytest.mark.parametrize("end", ["stop without time", "cancel"])
def test_rows_that_an_end_leaves_come_at_the_next_start(place: Place, end: str) -> None:
    place.write("sea")
    handle = slow_chain(place, seconds=4.0).start()
    wait_until(lambda: place.log("spark/offsets", "pass"), "the first epoch of the slow reader")
    place.write("sand")
    place.write("ice")
    wait_until(lambda: is_passing(place), "more rows behind it")
    begun = time.monotonic()
    if end == "cancel":
        handle.cancel()
    else:
        handle.stop(0.0)
    assert len(words_of(place)) < 3
    assert time.monotonic() - begun < 30
    run(slow_chain(place, seconds=0.0))
    assert words_of(place) == ["ice", "sand", "sea"]


@turn(0, of=2)
def test_a_stop_reads_a_channel_out_whose_reader_is_between_two_epochs_with_state_in_hashmap(place: Place) -> None:
    """The epoch behind the pause has begun for Spark, and none of its tasks: its state is as it was."""
    place.write("sea")
    place.write("sand")
    handle = slow_chain(place, seconds=4.0, state_backend="hashmap", checkpointing_min_pause=8.0).start()
    wait_until(lambda: len(place.log("spark/offsets", "pass")) == 2, "the second epoch of the reader, in Spark's log")
    time.sleep(1.0)
    handle.stop()
    assert words_of(place) == ["sand", "sea"][-len(place.log("ledger/done", "write")) :]


@turn(0, of=4)
def test_what_a_reader_does_not_read_in_the_time_of_a_stop_comes_at_the_next_start(place: Place) -> None:
    place.write("sea")
    handle = slow_chain(place).start()
    wait_until(lambda: place.log("spark/offsets", "pass"), "the first epoch of the slow reader")
    place.write("sand")
    place.write(*(f"ice-{number}" for number in range(8)))
    wait_until(lambda: is_passing(place), "more rows behind it")
    begun = time.monotonic()
    handle.stop(5.0)
    assert len(words_of(place)) < 10
    assert 5.0 <= time.monotonic() - begun < 30
    run(slow_chain(place, seconds=0.0))
    assert len(words_of(place)) == len(set(words_of(place))) == 10


@turn(0, of=2)
def test_a_drain_ends_event_time_query_after_query(place: Place) -> None:
    """Two windows one behind the other: nothing of either is visible before, all of both afterwards."""
    place.write({"at": "2024-01-01T00:00:01Z"}, {"at": "2024-01-01T00:00:02Z"}, {"at": "2024-01-01T00:00:21Z"})
    handle = drained_job(place.folder, place.spark, place.input).start()
    wait_until(lambda: place.log("ledger/done", "tens", "windows"), "the first epoch of the writer")
    handle.stop(drain=True)
    assert tens(place.folder) == [("00:00:00", 2), ("00:00:20", 1)]
    assert minutes(place.folder) == [("00:00:00", 3)]
    again = error_of(drained_job(place.folder, place.spark, place.input).start)
    assert again.catalogue_entry is Code.JOB_DRAINED

"""The three delivery levels: what is repeated, what is missing, and what is refused."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager

import pyarrow as pa
import pytest

from tests.integration.place import Place, error_of, run, wait_until, wait_until_finished
from tests.integration.shelf import ShelfSink
from tidegate import (
    FileSink,
    FileSource,
    Job,
    JobHandle,
    RateSource,
    SocketSource,
    SparkSource,
    SQLiteSink,
    TidegateError,
)
from tidegate.core.errors import Code
from tidegate.core.records import Answer, Committable
from tidegate.sinks.write_ahead import DecidedEpoch
from tidegate.testing.memory import MemorySink


def refused(error: TidegateError) -> Code:
    return error.catalogue_entry


def table(place: Place, uid: str = "rows", delivery: str | None = None) -> SQLiteSink:
    return SQLiteSink(uid, place.folder / "out.db", table=uid, delivery=delivery)


def words_of(place: Place, name: str = "rows") -> list[str]:
    return [word for (word,) in place.table(name)]


class FailingSink(MemorySink):
    """Fails, while `broken`, when it should show its rows: after the sinks before it have shown theirs."""

    broken = False

    def publish(self, epoch: DecidedEpoch, batches: Iterable[pa.RecordBatch]) -> None:
        if self.broken:
            raise ValueError("it is broken")
        super().publish(epoch, batches)

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if self.broken:
            raise ValueError("it is broken")
        return super().commit(committables)


# --- at-least-once -----------------------------------------------------------------------------------------


def test_an_epoch_that_fails_repeats_the_rows_of_its_at_least_once_sinks_and_of_no_other(place: Place) -> None:
    failing = FailingSink("failing", delivery="at-least-once")

    def job() -> Job:
        made = place.job()
        files = FileSink("files", place.folder / "out", format="json", delivery="at-least-once")
        sinks = [table(place, "exact"), table(place, "loose", "at-least-once"), files, failing]
        made.query("query", place.words(made), sinks=sinks)
        return made

    place.write("sea")
    run(job())
    place.write("sand", "wind")
    failing.broken = True
    assert refused(error_of(lambda: run(job()))) is Code.EPOCH_FAILED
    assert words_of(place, "exact") == ["sea"]
    assert words_of(place, "loose") == ["sand", "sea", "wind"], "shown before Spark counts the epoch"
    assert place.log("spark/commits") == [0]
    failing.broken = False
    status = run(job())

    assert words_of(place, "exact") == ["sand", "sea", "wind"]
    assert words_of(place, "loose") == ["sand", "sand", "sea", "wind", "wind"]
    assert place.words_out() == {0: ["sea"], 1: ["sand", "sand", "wind", "wind"]}
    assert sorted(row["word"] for row in failing.rows) == ["sand", "sea", "wind"]
    assert status.queries[0].rows == 8
    assert not list(place.folder.rglob("*.stage"))


def test_an_at_least_once_sink_may_become_exact_and_loose_again(place: Place) -> None:
    for delivery, word in [("at-least-once", "sea"), (None, "sand"), ("at-least-once", "wind"), (None, "salt")]:
        place.write(word)
        job = place.job()
        job.query("query", place.words(job), sinks=[table(place, delivery=delivery)])
        run(job)
    assert words_of(place) == ["salt", "sand", "sea", "wind"]


# --- at-most-once ------------------------------------------------------------------------------------------


def test_each_start_of_an_at_most_once_job_begins_with_the_newest_input_and_empty_state(place: Place) -> None:
    def start(sink: MemorySink) -> JobHandle:
        job = place.job(checkpointing_mode="at-most-once")
        counts = place.words(job).groupBy("word").count()
        job.query("query", counts, mode="update", sinks=[table_of_counts(place), sink])
        return job.start()

    place.write("old")
    first = MemorySink("memory")
    handle = start(first)
    place.write("sea", "sea")
    wait_until(lambda: first.rows, "a row")
    handle.stop()
    assert first.rows == [{"word": "sea", "count": 2}]

    place.write("while it was down")
    second = MemorySink("memory")
    handle = start(second)
    place.write("sea")
    wait_until(lambda: second.rows, "a row")
    handle.stop()

    assert second.rows == [{"word": "sea", "count": 1}]
    assert place.table("counts") == [("sea", 1), ("sea", 2)]
    generations = [path.name for path in (place.checkpoints / "job" / "queries" / "query").iterdir()]
    assert generations == ["g2"]


def table_of_counts(place: Place) -> SQLiteSink:
    return SQLiteSink("counts", place.folder / "out.db", table="counts")


def test_rows_that_an_at_most_once_run_has_shown_never_come_again_after_a_failure(place: Place) -> None:
    """The epoch fails after the table has its rows; the next start leaves its input out."""
    failing = FailingSink("failing")

    def start() -> JobHandle:
        job = place.job(checkpointing_mode="at-most-once")
        job.query("query", place.words(job), sinks=[table(place), failing])
        return job.start()

    failing.broken = True
    handle = start()
    place.write("sea")
    assert refused(error_of(handle.wait)) is Code.EPOCH_FAILED
    assert words_of(place) == ["sea"]
    failing.broken = False
    handle = start()
    place.write("sand")
    wait_until(lambda: failing.rows, "a row")
    handle.stop()

    assert words_of(place) == ["sand", "sea"]
    assert failing.rows == [{"word": "sand"}], "what it did not show is lost"


def test_one_job_object_started_twice_does_not_read_a_file_twice(place: Place) -> None:
    """Each start leaves out what is there then, also what the one before it has read."""
    job = place.job(checkpointing_mode="at-most-once")
    job.query("query", place.words(job), sinks=[table(place)])
    for word in ("sea", "sand"):
        handle = job.start()
        place.write(word)
        wait_until_finished(handle, 0)
        handle.stop()
    assert words_of(place) == ["sand", "sea"]


def test_a_folder_pattern_that_fits_nothing_yet_is_no_reason_to_refuse(place: Place) -> None:
    job = place.job(checkpointing_mode="at-most-once")
    rows = job.source("words", FileSource(f"{place.input}/*.json", format="json", schema="word string"))
    memory = MemorySink("memory")
    job.query("query", rows, sinks=[memory])
    handle = job.start()
    place.write("sea")
    wait_until(lambda: memory.rows, "a row")
    handle.stop()


def test_lines_of_a_socket_arrive_in_an_at_most_once_job(place: Place) -> None:
    with line_server(["one", "two"]) as port:
        job = place.job(checkpointing_mode="at-most-once")
        memory = MemorySink("memory")
        job.query("query", job.source("lines", SocketSource("127.0.0.1", port)), sinks=[memory])
        handle = job.start()
        wait_until(lambda: len(memory.rows) == 2, "both lines")
        handle.stop()
    assert [row["value"] for row in memory.rows] == ["one", "two"]


@contextmanager
def line_server(lines: list[str]) -> Iterator[int]:
    """A server on the loopback that sends `lines` to everyone who connects, and keeps the connection open."""
    ended = threading.Event()
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        server.settimeout(0.1)

        def serve() -> None:
            connections: list[socket.socket] = []
            while not ended.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                connection.sendall("".join(f"{line}\n" for line in lines).encode())
                connections.append(connection)
            for connection in connections:
                connection.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        ended.set()
        thread.join()


def test_a_file_whose_name_has_odd_characters_counts_as_old_too(place: Place) -> None:
    odd = place.input / "a b%20ü#.json"
    odd.write_text('{"word": "old"}\n')
    os.utime(odd, (1_600_000_000, 1_600_000_000))
    job = place.job(checkpointing_mode="at-most-once")
    job.query("query", place.words(job), sinks=[table(place)])
    handle = job.start()
    place.write("new")
    wait_until_finished(handle, 0)
    handle.stop()
    assert words_of(place) == ["new"]


# --- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["exactly-once", "at-least-once"])
def test_a_socket_is_refused_where_rows_must_be_read_again(place: Place, mode: str) -> None:
    job = place.job(checkpointing_mode=mode)
    error = error_of(lambda: job.source("lines", SocketSource("127.0.0.1", 9)))
    assert refused(error) is Code.SOURCE_NOT_REPLAYABLE
    assert mode in error.found
    assert "at-most-once" in error.next_step


def test_a_source_that_cannot_begin_at_its_newest_input_is_refused_at_most_once(place: Place) -> None:
    job = place.job(checkpointing_mode="at-most-once")
    frame = place.spark.readStream.schema("word string").json(str(place.input))
    kafka = SparkSource("kafka", startingTimestamp=0, subscribe="topic")
    for source in (kafka, SparkSource("rate-micro-batch", rowsPerBatch=1), FileSource("/tmp", format="delta"), frame):
        assert refused(error_of(lambda source=source: job.source("source", source))) is Code.SOURCE_NOT_NEWEST


@pytest.mark.parametrize(
    ("mode", "delivery"),
    [
        ("exactly-once", "at-most-once"),
        ("at-least-once", "at-most-once"),
        ("at-most-once", "exactly-once"),
        ("at-most-once", "at-least-once"),
    ],
)
def test_at_most_once_does_not_mix_with_another_level(place: Place, mode: str, delivery: str) -> None:
    job = place.job(checkpointing_mode=mode)
    rows = job.source("rate", RateSource())
    error = error_of(lambda: job.query("query", rows, sinks=[table(place, delivery=delivery)]))
    assert refused(error) is Code.LEVEL_REFUSED


def test_a_sink_that_cannot_show_its_rows_straight_is_refused_at_least_once(place: Place) -> None:
    job = place.job(checkpointing_mode="at-least-once")
    error = error_of(lambda: job.query("query", place.words(job), sinks=[ShelfSink("shelf", place.folder)]))
    assert (refused(error), error.expected) == (Code.LEVEL_REFUSED, "one of exactly-once, at-most-once")


def test_an_at_most_once_job_has_nothing_to_catch_up_with(place: Place) -> None:
    job = place.job(checkpointing_mode="at-most-once")
    job.query("query", place.words(job), sinks=[table(place)])
    assert refused(error_of(lambda: job.start(until="caught-up"))) is Code.LEVEL_REFUSED


def test_a_checkpoint_of_another_level_is_refused_and_kept(place: Place) -> None:
    def job(mode: str) -> Job:
        made = place.job(checkpointing_mode=mode)
        made.query("query", place.words(made), sinks=[table(place)])
        return made

    place.write("sea")
    run(job("exactly-once"))
    assert refused(error_of(lambda: job("at-most-once").start())) is Code.LEVEL_CHANGED
    place.write("sand")
    run(job("at-least-once"))
    assert words_of(place) == ["sand", "sea"]


def test_what_was_shown_at_most_once_is_nothing_that_another_level_could_go_on_from(place: Place) -> None:
    def job(mode: str) -> Job:
        made = place.job(checkpointing_mode=mode)
        made.query("query", place.words(made), sinks=[table(place)])
        return made

    job("at-most-once").start().stop()
    for mode in ("exactly-once", "at-least-once"):
        assert refused(error_of(lambda mode=mode: job(mode).start())) is Code.LEVEL_CHANGED


def test_an_unknown_level_is_refused_by_name(place: Place) -> None:
    assert refused(error_of(lambda: place.job(checkpointing_mode="twice"))) is Code.SETTING_VALUE
    assert refused(error_of(lambda: table(place, delivery="twice"))) is Code.OPTION_UNKNOWN

"""A drain that something stands against: what is said, what is kept, and how the job goes on."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run, wait_until, wait_until_finished
from tests.integration.shelf import ShelfSink
from tests.integration.test_drain import (
    counts,
    drain,
    events,
    into_files,
    last_watermark,
    out,
    windows_job,
    write_events,
)
from tests.integration.test_supervised_line import under_supervision
from tests.jobs.folders import tidegate
from tests.support.driver import numbers
from tests.support.today import turn
from tidegate import Job, SQLiteSink
from tidegate.checkpoints.drained import is_drained, read_drain
from tidegate.core.drain import END_OF_TIME_MS
from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import Answer, Attempt, Committable, SinkIdentity
from tidegate.operate.beat import JobState, read_beat
from tidegate.sinks.base import Transaction, TwoPhaseSink
from tidegate.spark import finisher, query_run
from tidegate.spark.stream_thread import StreamThread
from tidegate.storages.schemes import Folder
from tidegate.supervise.line import Finished


def job_of(place: Place, sink: TwoPhaseSink, seconds: float = 0, *, stop_timeout: str = "5min") -> Job:
    """The starts of windows as words; each takes so long to be computed."""
    job = place.job(stop_timeout=stop_timeout)
    windows = counts(events(place, job).groupBy(F.window("at", "10 seconds")))
    job.query("query", slowly(windows, seconds), sinks=[sink])
    return job


def slowly(windows: DataFrame, seconds: float) -> DataFrame:
    def after_a_while(word: str) -> str:
        import time

        time.sleep(seconds)
        return word

    return windows.select(F.udf(after_a_while, "string")("start").alias("word") if seconds else F.expr("start as word"))


def state(place: Place) -> JobState:
    beat = read_beat(place.checkpoints / "job")
    assert beat is not None
    return beat.state


def drained(place: Place) -> bool:
    return is_drained(Folder.of(place.checkpoints / "job"))


def stop_by_command(place: Place) -> tuple[int, str]:
    return tidegate("stop", "job", "--drain", "--dir", str(place.checkpoints))


# --- what recovery meets -----------------------------------------------------------------------------------


class AwayShelf(ShelfSink):
    """Its server is away while the second run of the query recovers: that of the drain."""

    def __init__(self, uid: str, folder: Path, runs: Path) -> None:
        super().__init__(uid, folder)
        self.runs = runs

    def pending(self, identity: SinkIdentity) -> Sequence[str]:
        if numbers(self.runs)[-1] == 2:
            raise TidegateError(
                Code.SINK_UNAVAILABLE, expected="a shelf", found="it is away", where="the shelf", next_step="wait"
            )
        return super().pending(identity)


@turn(0, of=2)
def test_what_recovery_meets_in_a_drain_is_what_is_said_and_a_sink_is_only_waited_for(place: Place):
    write_events(place, "00:00:01")
    sink = AwayShelf("shelf", place.folder, place.query() / "ledger/runs")
    handle = job_of(place, sink).start()
    wait_until_finished(handle, 0)
    error = error_of(lambda: handle.stop(drain=True))
    assert (error.code, error.found, state(place)) == ("TG-SINK-UNAVAILABLE", "it is away", JobState.STOPPED)
    assert not drained(place)
    job_of(place, sink).start().wait()
    assert (sink.rows(), drained(place)) == (["00:00:00"], True)


@pytest.mark.more
def test_with_state_in_memory_an_epoch_that_was_cut_off_leaves_the_drain_to_another_process(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """And a supervisor gives it one: that somebody has asked for the drain is no reason to leave it undone."""
    busy = place.folder / "busy"

    def wait(word: str) -> str:
        import time

        while busy.exists():
            time.sleep(0.02)
        return word

    supervised, line = under_supervision(monkeypatch)
    job = place.job(state_backend="hashmap")
    rows = events(place, job).withColumn("word", F.udf(wait, "string")("word"))
    windows = counts(rows.where("word > ''").groupBy(F.window("at", "10 seconds")))
    job.query("query", windows.selectExpr("start as word"), sinks=[ShelfSink("shelf", place.folder)])
    write_events(place, "00:00:01")
    handle = job.start()
    wait_until_finished(handle, 0)
    busy.touch()
    write_events(place, "00:00:16")
    under_way = place.query() / "spark/offsets"
    wait_until(lambda: read(under_way) > 0 and handle.status().queries[0].epoch == max(numbers(under_way)), "an epoch")
    error = error_of(lambda: handle.stop(0.1, drain=True))
    busy.unlink()
    assert (error.code, state(place)) == ("TG-PROCESS-SPENT", JobState.FAILED)
    supervised.ended(None, 0)
    last = line.heard()[-1]
    assert isinstance(last, Finished)
    assert (last.job_ended, read_drain(Folder.of(place.checkpoints / "job")) is None) == (False, False)


def read(offsets: Path) -> int:
    """How many further files the newest epoch reads."""
    text = (offsets / str(max(numbers(offsets)))).read_text()
    return int(text.rpartition('"logOffset":')[2].partition(",")[0])


# --- a job that ends otherwise -----------------------------------------------------------------------------


@pytest.mark.more
def test_whoever_asks_for_a_drain_hears_when_the_job_has_ended_without_one(place: Place):
    write_events(place, "00:00:01")
    handle = windows_job(place).start(until="caught-up")
    handle.wait()
    handle.stop()  # that it has ended is all that a stop wants
    error = error_of(lambda: handle.stop(drain=True))
    assert (error.code, "it is FINISHED" in error.found) == ("TG-JOB-NOT-DRAINED", True)
    assert "request the drain while it runs" in error.next_step


def test_a_drain_that_is_canceled_is_no_success_and_goes_on_at_the_next_start(place: Place):
    write_events(place, "00:00:01")
    sink = ShelfSink("shelf", place.folder)
    handle = job_of(place, sink).start()
    wait_until_finished(handle, 0)
    sink.moods.busy = -1
    answers: list[tuple[int, str]] = []
    asker = threading.Thread(target=lambda: answers.append(stop_by_command(place)))
    asker.start()
    wait_until(lambda: sink.moods.commits, "a drain that waits for its sink")
    handle.cancel()
    asker.join()
    [(code, said)] = answers
    assert (code, "TG-JOB-NOT-DRAINED" in said, "the drain resumes" in said) == (1, True, True), said
    assert error_of(lambda: handle.stop(drain=True)).code == "TG-JOB-NOT-DRAINED"
    sink.moods.busy = 0
    job_of(place, sink).start().wait()
    assert (sink.rows(), drained(place)) == (["00:00:00"], True)


# --- what cannot be computed there -------------------------------------------------------------------------


@pytest.mark.more
def test_what_cannot_be_computed_at_the_end_of_time_takes_the_drain_back_and_the_job_goes_on(place: Place):
    broken, folder = place.folder / "broken", place.checkpoints / "job"

    def unless_broken(word: str) -> str:
        if broken.exists():
            raise OverflowError("the year 287169 is out of range")
        return word

    def windows() -> Job:
        job = place.job()
        rows = counts(events(place, job).groupBy(F.window("at", "10 seconds")))
        into_files(place, job, rows.select(F.udf(unless_broken, "string")("start").alias("start"), "count"))
        return job

    broken.touch()
    write_events(place, "00:00:01")
    handle = windows().start()
    wait_until_finished(handle, 0)
    tried_before = numbers(place.query() / "ledger/runs")[-1]
    error = error_of(lambda: handle.stop(drain=True))
    assert (error.code, "OverflowError: the year" in error.found) == ("TG-DRAIN-FAILS", True), error
    assert "the drain is withdrawn: the next start resumes where the job stopped" in error.next_step
    assert numbers(place.query() / "ledger/runs")[-1] - tried_before in (3, 4), "one more for what the stop cut off"
    assert (read_drain(Folder.of(folder)), out(place)) == (None, [])
    assert last_watermark(place)[1] < END_OF_TIME_MS

    broken.unlink()
    write_events(place, "00:00:02")
    run(windows())  # with this one the first file is not alone in its window
    drain(windows().start(), -1)
    assert (is_drained(Folder.of(folder)), out(place)) == (True, [("00:00:00", 2)])


@pytest.mark.more
def test_a_jvm_that_dies_at_the_end_of_time_does_not_take_the_drain_back(place: Place, monkeypatch: pytest.MonkeyPatch):
    """With state in memory there is one try, whose failure says nothing of the query here."""
    job = place.job(state_backend="hashmap")
    windows = counts(events(place, job).groupBy(F.window("at", "10 seconds")))
    job.query(
        "query",
        windows.select(F.udf(lambda _: 1 // 0)("start").alias("word")),
        sinks=[ShelfSink("shelf", place.folder)],
    )
    write_events(place, "00:00:01")
    handle = job.start()
    wait_until_finished(handle, 0)
    monkeypatch.setattr(query_run, "lives", lambda _: False)
    assert error_of(lambda: handle.stop(drain=True)).code == "TG-EPOCH-FAILED"
    assert read_drain(Folder.of(place.checkpoints / "job")) is not None


# --- a sink that is down -----------------------------------------------------------------------------------


def locked(place: Place) -> sqlite3.Connection:
    """Another one's transaction in the sink's database: until it ends the sink takes nothing."""
    other = sqlite3.connect(place.folder / "out.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    return other


@pytest.mark.more
def test_a_sink_that_is_down_in_a_drain_is_waited_for_and_only_the_waiting_counts(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """The last epoch takes longer than a sink is waited for; and then the sink is down, for less than that."""
    monkeypatch.setattr("tidegate.sinks.sqlite.disk.BUSY_TIMEOUT_SECONDS", 0.05)
    write_events(place, "00:00:01")
    table = SQLiteSink("table", place.folder / "out.db", table="words")
    handle = job_of(place, table, seconds=1.2, stop_timeout="1s").start()
    wait_until_finished(handle, 0)
    with closing(locked(place)) as other:

        def come_back() -> None:
            wait_until(lambda: last_watermark(place) == (place.log("ledger/decided")[-1], END_OF_TIME_MS), "a decision")
            time.sleep(0.1)
            other.execute("ROLLBACK")

        back = threading.Thread(target=come_back)
        back.start()
        try:
            handle.stop(drain=True)
        finally:
            back.join()
    assert (place.table(), drained(place)) == ([("00:00:00",)], True)


def test_a_drain_whose_sink_stays_down_has_an_exit_code_of_its_own_and_the_next_start_ends_it(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tidegate.sinks.sqlite.disk.BUSY_TIMEOUT_SECONDS", 0.05)
    write_events(place, "00:00:01")
    table = SQLiteSink("table", place.folder / "out.db", table="words")
    handle = job_of(place, table, stop_timeout="300ms").start()
    wait_until_finished(handle, 0)
    with closing(locked(place)):
        code, said = stop_by_command(place)
    assert (code, "sink table to take epoch" in said, state(place)) == (6, True, JobState.STOPPED), said
    assert error_of(handle.wait).code == "TG-SINK-UNAVAILABLE"
    assert not drained(place)
    job_of(place, table).start().wait()
    assert (place.table(), drained(place)) == ([("00:00:00",)], True)


class ClosedShelf(ShelfSink):
    """While there is a file `closed`, it takes no row, and says so in words of its own."""

    def begin(self, attempt: Attempt) -> Transaction:
        if (self.folder / "closed").exists():
            raise ConnectionResetError("the shelf is closed")
        return super().begin(attempt)


@turn(0, of=3)
def test_a_drain_that_fails_in_a_sink_is_a_supervisors_to_start_again_however_often(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """Whether this start was asked for it, or an earlier one; and whatever the sink does with the rows."""
    write_events(place, "00:00:01")
    closed, refuses = place.folder / "closed", place.folder / "refuses"
    sink = ClosedShelf("shelf", place.folder, refuses=refuses)
    for asked in (True, False):
        supervised, line = under_supervision(monkeypatch)
        handle = job_of(place, sink).start()
        if asked:
            wait_until_finished(handle, 0)
            closed.touch()
            handle.ask_to_drain()
        assert error_of(handle.wait).code == "TG-EPOCH-FAILED"
        if asked:
            closed.rename(refuses)  # from here on it takes the rows, and cannot keep them
        supervised.ended(None, 0)
        last = line.heard()[-1]
        assert isinstance(last, Finished)
        assert (last.job_ended, state(place)) == (False, JobState.FAILED)
    refuses.unlink()
    monkeypatch.undo()
    job_of(place, sink).start().wait()
    assert (sink.rows(), drained(place)) == (["00:00:00"], True)


class BrokenShelf(ShelfSink):
    """At-least-once: while there is a file `broken`, it shows its rows and does not come to say so."""

    levels: ClassVar[frozenset[Level]] = frozenset(Level)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        answers = [self._commit(each) for each in committables]
        if (self.folder / "broken").exists():
            raise RuntimeError("no answer")
        return answers


@pytest.mark.more
def test_at_least_once_what_was_shown_at_the_end_of_time_is_not_taken_back(place: Place):
    """The job would go on, and the window come out once more with other rows in it."""
    broken, folder = place.folder / "broken", place.checkpoints / "job"

    def windows() -> Job:
        job = place.job(checkpointing_mode="at-least-once")
        counted = counts(events(place, job).groupBy(F.window("at", "10 seconds")))
        words = counted.selectExpr("concat(start, ' ', count) as word")
        job.query("query", words, sinks=[BrokenShelf("shelf", place.folder)])
        return job

    write_events(place, "00:00:01")
    handle = windows().start()
    wait_until_finished(handle, 0)
    broken.touch()
    assert error_of(lambda: handle.stop(drain=True)).code == "TG-EPOCH-FAILED"
    assert read_drain(Folder.of(folder)) is not None
    broken.unlink()
    write_events(place, "00:00:02")
    windows().start().wait()
    assert (is_drained(Folder.of(folder)), set(BrokenShelf("shelf", place.folder).rows())) == (True, {"00:00:00 1"})


def test_a_commit_that_hangs_does_not_hold_up_a_drain(place: Place, monkeypatch: pytest.MonkeyPatch):
    """It may still commit, so the locks stay with this process."""
    monkeypatch.setattr(finisher, "COMMIT_RETURNS_WITHIN_SECONDS", 0.3)
    write_events(place, "00:00:01")
    sink = ShelfSink("shelf", place.folder)
    handle = job_of(place, sink, stop_timeout="200ms").start()
    wait_until_finished(handle, 0)
    sink.moods.gate = threading.Event()
    handle.ask_to_drain()
    wait_until(lambda: sink.moods.commits, "the commit that hangs")
    begun = time.monotonic()
    wait_until(lambda: handle.error() is not None or time.monotonic() - begun > 20, "the end")
    error = handle.error()
    sink.moods.gate.set()
    assert "has not returned" in str(error), "the drain waited for what hangs"
    assert (read_drain(Folder.of(place.checkpoints / "job")) is None, drained(place)) == (False, False)


# --- at-most-once ------------------------------------------------------------------------------------------


class SilentShelf(ShelfSink):
    """Takes the rows of its first epoch and does not say so: its answer is lost, when it may be."""

    def __init__(self, uid: str, folder: Path) -> None:
        super().__init__(uid, folder)
        self.may_answer = threading.Event()

    def __getstate__(self) -> dict[str, object]:
        return {**super().__getstate__(), "may_answer": None}

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        answers = super().commit(committables)
        if self.moods.commits == 1:
            self.may_answer.wait(60)
            raise ConnectionResetError("no answer")
        return answers


def test_at_most_once_an_epoch_that_was_cut_off_is_not_shown_again_by_a_drain(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    stop_stream = StreamThread.stop
    sink = SilentShelf("shelf", place.folder)

    def stop_and_answer(thread: StreamThread) -> None:
        stop_stream(thread)
        sink.may_answer.set()

    monkeypatch.setattr(StreamThread, "stop", stop_and_answer)
    job = place.job(checkpointing_mode="at-most-once")
    job.query("query", place.words(job), sinks=[sink])
    handle = job.start()
    place.write("sea")
    wait_until(sink.rows, "a row that is shown")
    handle.ask_to_drain(0)
    wait_until(lambda: not handle.status().running, "the end of the job")
    assert sink.rows() == ["sea"]
    error = error_of(handle.wait)
    assert (error.code, "may have been shown" in error.found) == ("TG-JOB-NOT-DRAINED", True)

"""What waits or hangs: it holds up nothing else, and what may still write keeps the job's locks."""

from __future__ import annotations

import gc
import shutil
import threading
import time
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F
from pyspark.sql.streaming import StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.integration.place import Place, error_of, run, wait_until
from tests.integration.shelf import FitfulShelfSink, ShelfSink
from tests.support.today import turn
from tidegate import FileSink, FileSource, Job
from tidegate.core.errors import Code
from tidegate.core.levels import Level
from tidegate.core.records import Answer, Committable, Outcome
from tidegate.operate.beat import JobState
from tidegate.spark import epoch_watch, finisher, stream_thread
from tidegate.spark.historian import Historian
from tidegate.spark.job_runs import JobRuns
from tidegate.spark.query_run import QueryRun
from tidegate.storages.local.checkpoint_sync import CheckpointSync
from tidegate.storages.local.locks import jvm_lock_is_free


def shelf_job(place: Place, **settings: Any) -> Job:
    job = place.job("job", **settings)
    job.query("query", place.words(job), sinks=[ShelfSink("shelf", place.folder)])
    return job


@pytest.mark.more
def test_an_epoch_is_cut_off_in_time_while_the_sink_of_another_query_is_down(place: Place):
    """The stream of the first query was stopped, and its end waits for the sink; the other one's task would sleep for
    an hour."""
    mined = str(place.folder / "mined")

    def step(word: str) -> str:
        import time
        from pathlib import Path

        if Path(mined).exists():
            Path(mined).unlink()
            time.sleep(3600)
        return word

    later = place.folder / "later"
    later.mkdir()
    (place.folder / "mined").touch()
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1
    job = place.job(checkpointing_timeout="10s", checkpointing_tolerable_failures=99)
    job.query("waits", place.words(job), sinks=[sink])
    words = job.source("later", FileSource(str(later), format="json", schema="word string"))
    slow = words.select(F.udf(step, "string")("word").alias("word"))
    job.query("sleeps", slow, sinks=[FileSink("files", place.folder / "out", format="json")])
    handle = job.start()
    wait_until(lambda: sink.moods.commits, "a commit that was put off")
    [waits] = [query for query in place.spark.streams.active if ".waits " in query.name]
    waits.stop()
    (later / "0.json").write_text('{"word": "sand"}\n')
    wait_until(lambda: not (place.folder / "mined").exists(), "the task that sleeps")
    begun = time.monotonic()
    wait_until(lambda: not place.spark.streams.active or time.monotonic() - begun > 30, "the end of the second query")
    in_time = not place.spark.streams.active
    sink.moods.busy = 0
    assert in_time
    wait_until(place.words_out, "the same input again")
    handle.stop()
    assert (sink.rows(), place.words_out()) == (["sea"], {0: ["sand"]})


def test_a_stop_does_not_wait_for_ever_for_an_epoch_that_hangs_in_a_sync(place: Place, monkeypatch: pytest.MonkeyPatch):
    hangs, goes_on = threading.Event(), threading.Event()
    sync = CheckpointSync.sync

    def hang(self: CheckpointSync) -> Any:
        hangs.set()
        goes_on.wait(60)
        return sync(self)

    monkeypatch.setattr(CheckpointSync, "sync", hang)
    monkeypatch.setattr(epoch_watch, "CUT_ENDS_WITHIN_SECONDS", 1.0)
    place.write("sea")
    handle = shelf_job(place).start()
    assert hangs.wait(60)
    begun = time.monotonic()
    handle.ask_to_stop(0.3)
    wait_until(lambda: handle.error() is not None or time.monotonic() - begun > 20, "the end")
    error = handle.error()
    goes_on.set()
    assert error is not None, "the stop waited for what hangs"
    assert "TG-EPOCH-STUCK" in str(error)
    assert "epoch 0" in str(error)
    assert "its record is being written" in str(error)
    wait_until(lambda: not place.spark.streams.active, "the end of the stream")
    assert error_of(shelf_job(place).start).catalogue_entry is Code.DRIVER_ALIVE


@turn(0, of=2)
def test_a_start_that_did_not_come_back_keeps_the_locks_for_the_life_of_the_process(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """Spark may start the query yet: its answer was lost. Nobody holds on to the job in this program."""

    def lose(self: DataStreamWriter) -> None:
        raise ConnectionResetError("no answer")

    place.write("sea")
    with monkeypatch.context() as patched:
        patched.setattr(DataStreamWriter, "start", lose)
        with pytest.raises(ConnectionResetError):
            shelf_job(place).start()
    cast("Any", place.spark)._jvm.System.gc()
    gc.collect()
    cast("Any", place.spark)._jvm.System.gc()
    time.sleep(0.5)
    folder = place.checkpoints / "job"
    assert error_of(shelf_job(place).start).catalogue_entry is Code.DRIVER_ALIVE
    assert not jvm_lock_is_free(folder)


def test_what_was_called_stuck_keeps_the_locks_although_it_ends_before_they_are_given_up(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """The stream ends between the error and the end of the job; who was told that the locks stay can count on it."""
    hangs, goes_on = threading.Event(), threading.Event()
    sync, ended = CheckpointSync.sync, Historian.ended

    def hang(self: CheckpointSync) -> Any:
        hangs.set()
        goes_on.wait(60)
        return sync(self)

    def end_the_stream(self: Historian, error: BaseException | None) -> None:
        goes_on.set()
        wait_until(lambda: not place.spark.streams.active, "the end of the stream")
        ended(self, error)

    monkeypatch.setattr(CheckpointSync, "sync", hang)
    monkeypatch.setattr(Historian, "ended", end_the_stream)
    monkeypatch.setattr(epoch_watch, "CUT_ENDS_WITHIN_SECONDS", 0.5)
    place.write("sea")
    handle = shelf_job(place).start()
    assert hangs.wait(60)
    assert error_of(lambda: handle.stop(0.1)).catalogue_entry is Code.EPOCH_STUCK
    assert error_of(shelf_job(place).start).catalogue_entry is Code.DRIVER_ALIVE


def test_a_commit_that_hangs_does_not_hold_up_a_stop_and_the_next_start_has_its_epoch(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """It may still commit: the locks stay with this process. The next one is played by a copy of everything."""
    monkeypatch.setattr(finisher, "COMMIT_RETURNS_WITHIN_SECONDS", 0.5)
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.gate = threading.Event()
    job = place.job("job")
    job.query("query", place.words(job), sinks=[sink])
    handle = job.start()
    wait_until(lambda: sink.moods.commits, "the commit that hangs")
    begun = time.monotonic()
    handle.ask_to_stop(0.3)
    wait_until(lambda: handle.error() is not None or time.monotonic() - begun > 20, "the end")
    error = handle.error()
    later = Place(place.folder / "later", place.spark, place.input)
    for name in ("checkpoints", "stage", "shelf"):
        shutil.copytree(place.folder / name, later.folder / name)
    refused = error_of(shelf_job(place).start)
    sink.moods.gate.set()
    assert error is not None, "the stop waited for what hangs"
    assert "TG-SINK-UNAVAILABLE" in str(error)
    assert "epoch 0" in str(error)
    assert "has not returned" in str(error)
    assert refused.catalogue_entry is Code.DRIVER_ALIVE
    assert (later.log("ledger/decided"), later.log("ledger/done")) == ([0], [])
    run(shelf_job(later))
    assert ShelfSink("shelf", later.folder).rows() == ["sea"]
    wait_until(lambda: place.log("ledger/done") == [0], "the late commit")
    assert sink.rows() == ["sea"]


def test_a_commit_that_hangs_does_not_hide_what_ended_the_query(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(finisher, "COMMIT_RETURNS_WITHIN_SECONDS", 0.5)
    place.write("sea")
    place.write("sand")
    sink = FitfulShelfSink("shelf", place.folder)
    sink.refusal_of(1).touch()
    sink.moods.gate = threading.Event()
    job = place.job(checkpointing_max_concurrent=2)
    job.query("query", place.words(job), sinks=[sink])
    handle = job.start()
    wait_until(lambda: sink.moods.commits and not place.spark.streams.active, "a commit that hangs, a failed epoch")
    error = error_of(lambda: handle.stop(0.1))
    refused = error_of(shelf_job(place).start)
    sink.moods.gate.set()
    assert error.catalogue_entry is Code.EPOCH_FAILED
    assert "epoch 1" in str(error)
    assert handle.outcome.end_state(error) is JobState.FAILED
    assert refused.catalogue_entry is Code.DRIVER_ALIVE


def test_a_query_that_runs_again_is_ended_with_its_job_when_the_next_one_cannot(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """Both have failed of one cause, and are due in the same look. Nobody is left to run for a job that has failed."""
    opens: list[str] = []
    again, opened = JobRuns._start_again, QueryRun.open

    def both_at_once(self: JobRuns, alive: list[QueryRun]) -> None:
        self._waiting.sort(key=lambda each: each.ended.plan.query.uid)
        if len(self._waiting) != 1:
            again(self, alive)

    def open_once(self: QueryRun) -> None:
        opens.append(self.plan.query.uid)
        if opens.count("second") > 1:
            raise RuntimeError("no recovery")
        opened(self)

    monkeypatch.setattr(JobRuns, "_start_again", both_at_once)
    monkeypatch.setattr(QueryRun, "open", open_once)
    place.write("sea")
    job = place.job(checkpointing_tolerable_failures=1)
    for uid in ("first", "second"):
        sink = FitfulShelfSink(f"{uid}-shelf", place.folder / uid)
        sink.folder.mkdir()
        sink.refusal_of(0).touch()
        job.query(uid, place.words(job, f"{uid}-words"), sinks=[sink])
    handle = job.start()
    with pytest.raises(RuntimeError, match="no recovery"):
        handle.wait()
    assert opens == ["first", "second"] * 2
    assert place.spark.streams.active == []
    assert not handle.outcome.may_still_write()


@turn(0, of=2)
def test_a_query_that_failed_runs_again_while_another_one_waits_for_its_sink(place: Place):
    """The first query has ended, but for its commit."""
    place.write("sea")
    later = place.folder / "later"
    later.mkdir()
    busy, fitful = ShelfSink("busy", place.folder / "busy"), FitfulShelfSink("fitful", place.folder / "fitful")
    busy.moods.busy = -1
    job = place.job(checkpointing_tolerable_failures=1)
    job.query("waits", place.words(job), sinks=[busy])
    words = job.source("later", FileSource(str(later), format="json", schema="word string"))
    job.query("fails", words, sinks=[fitful])
    handle = job.start()
    wait_until(lambda: busy.moods.commits, "a commit that was put off")
    [waits] = [query for query in place.spark.streams.active if ".waits " in query.name]
    waits.stop()
    fitful.refusal_of(0).touch()
    (later / "0.json").write_text('{"word": "sand"}\n')
    begun = time.monotonic()
    wait_until(lambda: fitful.rows() or time.monotonic() - begun > 20, "the rows of the second run")
    rows = fitful.rows()
    busy.moods.busy = 0
    handle.stop()
    assert rows == ["sand"], "it waited for the sink of the other query"
    assert busy.rows() == ["sea"]


class NeverTakingShelfSink(ShelfSink):
    """At-least-once: from its second epoch on it is not ready."""

    levels: ClassVar[frozenset[Level]] = frozenset(Level)

    def commit_straight(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if committables[0].attempt.epoch == 0:
            return [self._commit(each) for each in committables]
        self.moods.commits += 1
        return [Answer(outcome=Outcome.RETRY, detail="not now") for _ in committables]


def test_an_epoch_does_not_wait_for_a_sink_when_the_commits_before_it_have_failed(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """The second epoch waits for a sink that shows its rows inside it, while the first one turns out to be lost."""
    monkeypatch.setattr(epoch_watch, "CUT_ENDS_WITHIN_SECONDS", 8.0)
    place.write("sea")
    place.write("sand")
    exact, straight = ShelfSink("exact", place.folder / "exact"), NeverTakingShelfSink("straight", place.folder / "now")
    exact.moods.gate, exact.moods.unknown = threading.Event(), True
    straight.delivery = Level.AT_LEAST_ONCE
    job = place.job(checkpointing_max_concurrent=2)
    job.query("query", place.words(job), sinks=[exact, straight])
    handle = job.start()
    wait_until(lambda: straight.moods.commits, "the second epoch, which waits")
    exact.moods.gate.set()
    error = error_of(handle.wait)
    assert error.catalogue_entry is Code.TRANSACTION_UNKNOWN


def test_a_query_that_runs_but_would_not_be_looked_at_keeps_the_locks(place: Place, monkeypatch: pytest.MonkeyPatch):
    """Java has answered with an error, but not the start of the query: that one had come back before."""

    def look(*_: Any) -> None:
        cast("Any", place.spark)._jvm.java.util.ArrayList().get(5)

    place.write("sea")
    with monkeypatch.context() as patched:
        patched.setattr(stream_thread, "RunningStream", look)
        with pytest.raises(Py4JJavaError, match="IndexOutOfBounds"):
            shelf_job(place).start()
    assert error_of(shelf_job(place).start).catalogue_entry is Code.DRIVER_ALIVE


def test_a_start_whose_jvm_dies_says_so_and_gives_the_locks_up(place: Place, monkeypatch: pytest.MonkeyPatch):
    """Nothing of it can write any more. What only follows from the death does not cover what the start has met."""

    def die(self: DataStreamWriter) -> None:
        raise ConnectionResetError("no answer")

    def refuse(_: object) -> None:
        raise ConnectionRefusedError

    place.write("sea")
    with monkeypatch.context() as patched:
        patched.setattr(DataStreamWriter, "start", die)
        patched.setattr(StreamingQueryManager, "active", property(refuse))
        patched.setattr(stream_thread, "is_gone", lambda _: True)
        with pytest.raises(ConnectionResetError, match="no answer"):
            shelf_job(place).start()
    run(shelf_job(place))
    assert ShelfSink("shelf", place.folder).rows() == ["sea"]


def test_a_query_whose_calls_nobody_would_hear_is_not_started(place: Place, monkeypatch: pytest.MonkeyPatch):
    """Py4J's thread ends when it cannot take a connection. Spark would call, and the first epoch wait for ever."""
    ended = threading.Thread()
    ended.start()
    ended.join()
    place.write("sea")
    with monkeypatch.context() as patched:
        patched.setattr(cast("Any", place.spark)._sc._gateway._callback_server, "thread", ended)
        assert error_of(shelf_job(place).start).catalogue_entry is Code.PROCESS_SPENT
    assert place.spark.streams.active == []
    run(shelf_job(place))
    assert ShelfSink("shelf", place.folder).rows() == ["sea"]

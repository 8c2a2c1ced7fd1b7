"""A started job in the hands of its program: wait, look, stop, interrupt; and the session it was given."""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, evaluate, run, wait_until, wait_until_finished
from tests.integration.shelf import ShelfSink, TalkativeSink
from tests.support.logged import events
from tests.support.today import turn
from tidegate import FileSink, Job, JobHandle, PrintSink, RateSource, SQLiteSink
from tidegate.logs.lines import FORMS, LogFormat, line_of
from tidegate.operate.beat import JobState, read_beat
from tidegate.sinks.base import SinkPlan
from tidegate.spark.job_runs import JobRuns


def words_job(place: Place) -> Job:
    job = place.job()
    counts = place.words(job).groupBy("word").count()
    job.query("query", counts, mode="update", sinks=[FileSink("files", place.folder / "out", format="json")])
    return job


def test_no_thread_of_a_job_runs_on_when_the_wait_for_it_is_over(place: Place, monkeypatch: pytest.MonkeyPatch):
    """A daemon thread that wakes up while Python ends can crash it: the job is done, and its exit code says not."""
    keep_time = JobRuns.keep_time

    def slowly(runs: JobRuns) -> None:
        keep_time(runs)
        time.sleep(0.3)

    monkeypatch.setattr(JobRuns, "keep_time", slowly)
    before = set(threading.enumerate())
    place.write("sea")
    run(words_job(place))
    names = [each.name for each in set(threading.enumerate()) - before]
    assert [each for each in names if each.startswith("tidegate-")] == []


def settings_of(session: SparkSession) -> dict[str, str]:
    """What was set in the session by hand, defaults left out."""
    return dict(cast("Any", session._jsparkSession).sessionState().conf().settings())


def test_the_session_has_its_settings_back_afterwards(place: Place):
    session = place.spark.newSession()
    mine = {
        "spark.sql.streaming.minBatchesToRetain": "7",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    for key, value in mine.items():
        session.conf.set(key, value)
    before = settings_of(session)
    place.spark = session
    place.write("sea")
    run(words_job(place))
    assert settings_of(session) == before
    assert before.items() >= mine.items()
    assert [row["count"] for row in place.files()[0]] == [1]

    job = place.job("refused")
    job.query("query", place.words(job), sinks=[SQLiteSink("table", place.folder / "out.db", table="t", key="nothing")])
    error_of(job.start)
    assert settings_of(session) == before


def test_a_job_in_the_users_session_has_its_own_state_store_and_leaves_the_users_alone(place: Place):
    """A plain streaming query of the user's in the same session, before and after, has Spark's default store."""
    place.write("sea")
    run(words_job(place))
    frame = place.spark.readStream.schema("word string").json(str(place.input)).groupBy("word").count()
    checkpoint = place.folder / "plain"
    writer = (
        frame.writeStream.outputMode("update").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    )
    writer.foreachBatch(evaluate).start().awaitTermination(60)
    assert "HDFSBackedStateStoreProvider" in (checkpoint / "offsets" / "0").read_text()
    assert "RocksDBStateStoreProvider" in (place.query() / "spark" / "offsets" / "0").read_text()


def test_an_idle_job_says_how_it_is_and_stops(place: Place):
    place.write("sea", "sand")
    job = words_job(place)
    handle = job.start()
    wait_until_finished(handle, 0)
    assert handle.wait(timeout_seconds=0.05) is False
    status = handle.status()
    query = status.queries[0]
    assert (status.name, status.running, query.uid) == ("job", True, "query")
    assert (query.epoch, query.finished, query.epochs, query.rows, query.aborted, query.redone) == (0, 0, 1, 2, 0, 0)
    assert query.epoch_ms is not None
    assert query.commit_delay_ms is not None
    assert 0 <= query.commit_delay_ms <= query.epoch_ms

    handle.stop()
    assert handle.wait(timeout_seconds=0) is True
    assert handle.status().running is False
    handle.stop()  # a second stop is no error
    place.write("sea")
    assert run(job).queries[0].finished == 1
    assert [row["count"] for rows in place.files().values() for row in rows if row["word"] == "sea"] == [1, 2]


def test_a_stop_ends_with_the_epoch_under_way_done(place: Place):
    """The stop comes while the epoch is being committed."""
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.gate = threading.Event()
    job = place.job()
    job.query("query", place.words(job), sinks=[sink])
    handle = job.start()
    wait_until(lambda: sink.moods.commits, "the commit under way")
    assert handle.status().queries[0].finished == -1
    wait_until(lambda: open_seconds(place) is not None, "a beat that says for how long the transaction has been open")
    stopper = threading.Thread(target=handle.stop)
    stopper.start()
    assert not handle.wait(0.3)
    sink.moods.gate.set()
    stopper.join(60)
    assert handle.wait(0)
    assert (sink.rows(), place.log("ledger/done"), place.log("spark/commits")) == (["sea"], [0], [0])


def open_seconds(place: Place) -> float | None:
    beat = read_beat(place.checkpoints / "job")
    return None if beat is None else beat.queries[0].open_seconds


def numbers_job(place: Place) -> Job:
    """Numbers as they come, each once, in a table; the sum beside it has state."""
    job = place.job()
    rate = job.source("rate", RateSource(rows_per_second=40, numPartitions=2))
    job.query("query", rate.select("value"), sinks=[SQLiteSink("table", place.folder / "out.db", table="numbers")])
    return job


@turn(0, of=2)
def test_a_busy_job_is_stopped_and_goes_on_without_a_gap(place: Place):
    for epoch in (2, 5):
        handle = numbers_job(place).start()
        wait_until_finished(handle, epoch)
        handle.stop()
        done = place.log("ledger/done")
        assert done[-1] == max(place.log("spark/commits")) == handle.status().queries[0].finished
    values = [value for (value,) in place.table("numbers")]
    assert values == list(range(len(values)))
    assert len(values) > 0


def held_job(place: Place, name: str = "job") -> tuple[Job, Path, Path]:
    """A job whose task tells that it has begun, by a file, and waits for another one; and the two files."""
    begun, go = place.folder / "begun", place.folder / "go"

    def slow(word: str) -> str:
        from tests.integration.place import wait_until

        begun.touch()
        wait_until(go.exists, "the permission to go on")
        return word

    place.write("sea")
    job = place.job(name)
    rows = place.words(job).select(F.udf(slow, "string")("word").alias("word"))
    job.query("query", rows, sinks=[FileSink("files", place.folder / "out", format="json")])
    return job, begun, go


def test_an_interrupt_stops_the_job_cleanly(place: Place, monkeypatch: pytest.MonkeyPatch):
    """Ctrl-C while the tasks of an epoch run: the epoch is finished, `run` returns, nothing has failed."""
    job, begun, go = held_job(place)

    def ask_to_stop(handle: JobHandle, timeout_seconds: float | None = None) -> None:
        go.touch()
        original(handle, timeout_seconds)

    original = JobHandle.ask_to_stop
    monkeypatch.setattr(JobHandle, "ask_to_stop", ask_to_stop)

    def interrupt() -> None:
        wait_until(begun.exists, "a task under way")
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    job.run()
    interrupter.join()
    assert signal.getsignal(signal.SIGINT) is before
    assert (place.words_out(), place.log("ledger/done")) == ({0: ["sea"]}, [0])


class InterruptedShelfSink(ShelfSink):
    def open(self, plan: SinkPlan) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        super().open(plan)


def test_an_interrupt_before_a_job_recovers_cancels_no_epoch_of_another_one(place: Place):
    other, begun, go = held_job(place, "other")
    handle = other.start()
    wait_until(begun.exists, "a task under way")
    before: Any = signal.getsignal(signal.SIGINT)
    assert before.__class__.__module__.startswith("tidegate."), "pyspark's own cancels all jobs of the session"
    job = place.job()
    job.query("query", place.words(job), sinks=[InterruptedShelfSink("shelf", place.folder)])
    with pytest.raises(KeyboardInterrupt):
        job.run()
    assert signal.getsignal(signal.SIGINT) is before
    go.touch()
    handle.stop()
    assert place.words_out() == {0: ["sea"]}


@pytest.mark.parametrize("by", ["run", "start"])
def test_an_interrupt_while_the_job_recovers_is_a_stop(place: Place, by: str):
    """Recovery waits for a sink. What is decided is finished, and the job is called stopped, not failed."""
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1
    job = place.job()
    job.query("query", place.words(job), sinks=[sink])
    handle = job.start()
    wait_until(lambda: place.log("ledger/decided") == [0], "a decision")
    handle.cancel()
    place.write("sand")

    def interrupt() -> None:
        tries = sink.moods.commits
        wait_until(lambda: sink.moods.commits > tries, "a try of the recovery")
        os.kill(os.getpid(), signal.SIGINT)
        tries = sink.moods.commits
        wait_until(lambda: sink.moods.commits > tries, "a try after the interrupt")
        sink.moods.busy = 0

    before = signal.getsignal(signal.SIGINT)
    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    if by == "run":
        job.run()
    else:
        with pytest.raises(KeyboardInterrupt):
            job.start()
    interrupter.join()
    assert signal.getsignal(signal.SIGINT) is before
    beat = read_beat(place.checkpoints / "job")
    assert beat is not None
    assert (beat.state, beat.error) == (JobState.STOPPED, "")
    assert sink.moods.visible_after[0] == 0
    run(job)
    assert sink.rows() == ["sand", "sea"]


def test_an_interrupt_that_comes_twice_while_the_job_recovers_ends_it_at_once(place: Place):
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1
    job = place.job()
    job.query("query", place.words(job), sinks=[sink])
    handle = job.start()
    wait_until(lambda: place.log("ledger/decided") == [0], "a decision")
    handle.cancel()

    def interrupt() -> None:
        for _ in range(2):
            tries = sink.moods.commits
            wait_until(lambda: sink.moods.commits > tries, "a try of the recovery")  # noqa: B023 (used in this turn)
            os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):
        job.run()
    interrupter.join()
    beat = read_beat(place.checkpoints / "job")
    assert beat is not None
    assert beat.state is JobState.STOPPED
    sink.moods.busy = 0
    run(job)
    assert sink.rows() == ["sea"]


@pytest.mark.parametrize("thread", ["tidegate-job", "tidegate-clock"])
def test_a_job_that_nobody_can_watch_over_is_not_started(place: Place, thread: str, monkeypatch: pytest.MonkeyPatch):
    """A process has no more threads to give: no query is left to itself, and the locks are free."""
    start = threading.Thread.start

    def refuse(self: threading.Thread) -> None:
        if self.name == thread:
            raise RuntimeError("can't start new thread")
        start(self)

    place.write("sea")
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            words_job(place).start()
    assert place.spark.streams.active == []
    run(words_job(place))
    assert [row["word"] for row in place.files()[0]] == ["sea"]


def test_a_print_sink_shows_each_row_once(place: Place, capsys: pytest.CaptureFixture[str]):
    def job() -> Job:
        job = place.job()
        job.query("query", place.words(job), sinks=[PrintSink("console"), PrintSink("loud", select=[F.upper("word")])])
        return job

    place.write("sea", "sand")
    run(job())
    first = capsys.readouterr().out
    place.write("wind")
    run(job())
    second = capsys.readouterr().out
    assert [first.count(word) for word in ("sea", "sand", "wind", "SEA", "SAND")] == [1, 1, 0, 1, 1]
    assert [second.count(word) for word in ("sea", "sand", "wind", "SEA", "WIND")] == [0, 0, 1, 0, 1]
    assert "epoch 0: 2 rows" in first
    assert "epoch 1: 1 rows" in second


def test_what_happens_is_told_to_the_log(place: Place, caplog: pytest.LogCaptureFixture):
    place.write("sea")
    with caplog.at_level(logging.INFO, "tidegate"):
        run(words_job(place))
    assert [each for each in events(caplog) if each[0] is not None] == [
        ("EpochPrepared", {"epoch": 0, "rows": 1}),
        ("EpochDecided", {"epoch": 0, "run": 1}),
        ("EpochDone", {"epoch": 0, "rows": 1, "transactions": 1}),
    ]


def test_every_line_of_the_log_says_whom_it_is_about(place: Place):
    """Also what a sink says from deep inside, in the thread of an epoch, of the finisher, or at the start."""
    log = Lines()
    log.setLevel(logging.INFO)
    logger = logging.getLogger("tidegate")
    level = logger.level
    logger.addHandler(log)
    logger.setLevel(logging.INFO)
    try:
        place.write("sea")
        job = place.job()
        job.query("query", place.words(job), sinks=[TalkativeSink("shelf", place.folder / "shelf")])
        run(job)
    finally:
        logger.removeHandler(log)
        logger.setLevel(level)
    told = {line["message"]: (line["job"], line["query"], line["run"], line["epoch"]) for line in log.written}
    assert told["checked"] == ("job", "query", None, None)
    assert told["committing 1"] == ("job", "query", 1, 0)
    assert told["every sink of epoch 0 has committed, 1 rows"] == ("job", "query", 1, 0)
    assert all(line["job"] == "job" and line["query"] == "query" for line in log.written), log.written
    assert [line["event"] for line in log.written if line["event"]] == ["EpochPrepared", "EpochDecided", "EpochDone"]


class Lines(logging.Handler):
    """What would be written as JSON."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.written.append(json.loads(FORMS[LogFormat.JSON](line_of(record))))

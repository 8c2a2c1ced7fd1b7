"""What fails: a query, a pre-commit, a commit. Nothing undecided is seen, nothing decided is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from tests.integration.place import NO_DATA_EPOCHS, Place, error_of, run, setting, wait_until, wait_until_finished
from tests.integration.shelf import ShelfSink, StageOnlyShelfSink
from tests.support.today import turn
from tidegate import FileSink, Job, SQLiteSink, TidegateError
from tidegate.core.errors import Code
from tidegate.spark.job_runs import JobRuns
from tidegate.spark.no_data import DueEpoch
from tidegate.spark.query_run import QueryRun
from tidegate.spark.run_threads import RunThreads
from tidegate.testing.memory import MemorySink


def two_queries(place: Place) -> Job:
    """`calm` takes all words; `fragile` raises on "boom" while the file `mined` is there."""
    mined = str(place.folder / "mined")

    def step(word: str) -> str:
        from pathlib import Path

        if word == "boom" and Path(mined).exists():
            raise ValueError("stepped on a mine")
        return word

    job = place.job()
    calm = place.words(job, "calm-words")
    fragile = place.words(job, "fragile-words").select(F.udf(step, "string")("word").alias("word"))
    job.query("calm", calm, sinks=[FileSink("calm-out", place.folder / "calm", format="json")])
    job.query("fragile", fragile, sinks=[FileSink("fragile-out", place.folder / "fragile", format="json")])
    return job


def test_when_one_query_fails_the_other_ends_cleanly_and_both_go_on(place: Place):
    mine = place.folder / "mined"
    mine.touch()
    for word in ("sea", "boom", "sand", "wind"):
        place.write(word)
    error = error_of(lambda: run(two_queries(place)))

    assert error.code == "TG-EPOCH-FAILED"
    assert "query fragile" in error.where
    assert "epoch 1" in error.expected
    assert "stepped on a mine" in error.found
    assert place.words_out("fragile") == {0: ["sea"]}
    assert place.log("ledger/done", "fragile") == [0]
    assert place.log("ledger/done", "calm") == place.log("spark/commits", "calm") == [*place.words_out("calm")]

    mine.unlink()
    run(two_queries(place))  # at once, in the same process: the locks are free
    assert place.words_out("fragile") == {0: ["sea"], 1: ["boom"], 2: ["sand"], 3: ["wind"]}
    # Where the stop met Spark between its source log and `offsets/N`, two files come as one epoch.
    assert sorted(word for words in place.words_out("calm").values() for word in words) == [
        "boom",
        "sand",
        "sea",
        "wind",
    ]


def test_the_other_query_is_stopped_although_it_would_run_for_ever(place: Place):
    mine = place.folder / "mined"
    mine.touch()
    place.write("sea")
    handle = two_queries(place).start()
    wait_until_finished(handle, 0, query=0)
    wait_until_finished(handle, 0, query=1)
    place.write("boom")
    error = error_of(lambda: handle.wait(60))
    assert (error.code, handle.status().running) == ("TG-EPOCH-FAILED", False)
    mine.unlink()
    run(two_queries(place))
    assert place.words_out("fragile") == {0: ["sea"], 1: ["boom"]}
    assert sorted(word for words in place.words_out("calm").values() for word in words) == ["boom", "sea"]


def shelf_job(place: Place, sink: ShelfSink) -> Job:
    """A query into the sink under test and a table beside it."""
    job = place.job()
    table = SQLiteSink("table", place.folder / "out.db", table="words")
    job.query("query", place.words(job), sinks=[sink, table])
    return job


def test_a_failing_pre_commit_fails_the_epoch_and_not_the_data(place: Place):
    refusal = place.folder / "refusal"
    refusal.touch()
    place.write("sea", "sand")
    sink = ShelfSink("shelf", place.folder, refuses=refusal)
    error = error_of(lambda: run(shelf_job(place, sink)))

    assert error.code == "TG-EPOCH-FAILED"
    assert error.found == "ValueError: the shelf refuses"
    assert sink.rows() == []
    assert place.table() == []
    assert list((place.folder / "stage").iterdir()) == []
    assert place.log("ledger/prepared") == place.log("spark/commits") == []

    refusal.unlink()
    run(shelf_job(place, sink))
    assert sink.rows() == ["sand", "sea"]
    assert place.table() == [("sand",), ("sea",)]
    assert place.log("ledger/done") == [0]


def test_a_sink_that_is_busy_for_a_while_is_asked_again(place: Place):
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = 3
    run(shelf_job(place, sink))
    assert sink.moods.commits == 4
    assert sink.rows() == ["sea"]
    assert place.table() == [("sea",)]


def test_a_stop_does_not_wait_for_ever_for_a_sink_and_the_next_start_commits(place: Place):
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1
    handle = shelf_job(place, sink).start()
    wait_until(lambda: sink.moods.commits > 1, "commits that were put off")
    begun = time.monotonic()
    error = error_of(lambda: handle.stop(timeout_seconds=1))

    assert error.code == "TG-SINK-UNAVAILABLE"
    assert "sink shelf" in error.expected
    assert "epoch 0" in error.expected
    assert error.found == "the shelf is busy"
    assert time.monotonic() - begun < 20
    assert sink.rows() == place.table() == []
    assert (place.log("ledger/decided"), place.log("ledger/done")) == ([0], [])

    sink.moods.busy = 0
    run(shelf_job(place, sink))
    assert sink.moods.visible_after == [0]
    assert sink.rows() == ["sea"]
    assert place.table() == [("sea",)]
    assert place.log("ledger/done") == [0]


@turn(0, of=2)
def test_an_outage_that_lasted_long_does_not_make_the_stop_longer(place: Place):
    """The pauses between the tries have grown to seconds; a stop does not sit one out."""
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1
    handle = shelf_job(place, sink).start()
    wait_until(lambda: sink.moods.commits >= 8, "pauses of seconds")  # the eighth pause has 5 s
    begun = time.monotonic()
    assert error_of(lambda: handle.stop(timeout_seconds=0.2)).code == "TG-SINK-UNAVAILABLE"
    assert time.monotonic() - begun < 3
    sink.moods.busy = 0


def test_a_stop_reaches_a_query_that_has_ended_while_its_sink_is_down(place: Place):
    """The bounded query has nothing more to compute; only its last epoch waits for the sink."""
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1
    handle = shelf_job(place, sink).start(until="caught-up")
    wait_until(handle.runs[0].threads.has_ended, "the end of the query")
    assert error_of(lambda: handle.stop(timeout_seconds=0.2)).code == "TG-SINK-UNAVAILABLE"
    sink.moods.busy = 0
    run(shelf_job(place, sink))
    assert sink.rows() == ["sea"]


def test_a_stop_that_spark_answers_with_an_error_still_waits_for_the_stream(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    handle = shelf_job(place, sink).start()
    wait_until(lambda: sink.rows() == ["sea"], "the first epoch")
    stop = StreamingQuery.stop

    def stop_and_complain(self: StreamingQuery) -> None:
        stop(self)
        raise Py4JError("no answer")

    monkeypatch.setattr(StreamingQuery, "stop", stop_and_complain)
    assert error_of(lambda: handle.stop(timeout_seconds=5)).code == "TG-QUERY-FAILED"
    assert not any(thread.name == "tidegate-finisher" for thread in threading.enumerate())


def test_a_lost_transaction_is_written_again_from_the_journal(place: Place):
    place.write("sea", "sand")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.loses = True
    status = run(shelf_job(place, sink))
    assert status.queries[0].redone == 1
    assert sink.rows() == ["sand", "sea"]
    assert place.table() == [("sand",), ("sea",)]
    assert place.log("ledger/done") == [0]
    assert list((place.query() / "ledger" / "journal").glob("[0-9]*")) == []


@pytest.mark.parametrize(
    ("loses", "code"), [(True, "TG-TRANSACTION-LOST"), (False, "TG-TRANSACTION-UNKNOWN")], ids=["lost", "unknown"]
)
def test_what_nobody_can_prove_stops_the_job(place: Place, loses: bool, code: str):
    place.write("sea", "sand")
    sink = StageOnlyShelfSink("shelf", place.folder) if loses else ShelfSink("shelf", place.folder)
    sink.moods.loses, sink.moods.unknown = loses, not loses
    error = error_of(lambda: run(shelf_job(place, sink)))

    assert error.code == code
    assert "epoch 0" in error.expected
    assert "2 rows" in error.expected
    assert "sink shelf" in error.where
    assert "logOffset" in error.where
    assert (place.log("ledger/decided"), place.log("ledger/done")) == ([0], [])

    sink.moods.unknown = False
    if loses:
        assert error_of(lambda: run(shelf_job(place, sink))).code == code  # it is not forgotten
    else:
        run(shelf_job(place, sink))  # somebody has looked into the sink
        assert sink.rows() == ["sand", "sea"]
        assert place.table() == [("sand",), ("sea",)]


def test_a_journal_is_kept_for_what_is_decided_and_lost_between_two_runs(place: Place):
    place.write("sea", "sand")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.unknown = True
    error_of(lambda: run(shelf_job(place, sink)))
    for staged in (place.folder / "stage").iterdir():
        staged.unlink()
    sink.moods.unknown = False
    status = run(shelf_job(place, sink))
    assert status.queries[0].redone == 1
    assert sink.rows() == ["sand", "sea"]


def test_a_refused_recovery_leaves_the_locks_free(place: Place):
    """The error of `start` itself, not of a running job: the next start must not find its own locks."""
    place.write("sea")
    sink = StageOnlyShelfSink("shelf", place.folder)
    sink.moods.loses = True
    for _ in range(3):
        assert error_of(lambda: run(shelf_job(place, sink))).code == "TG-TRANSACTION-LOST"


def test_an_outage_of_more_than_a_thousand_tries_is_still_an_outage(place: Place, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tidegate.spark.finisher._RETRY_SECONDS_AT_MOST", 0.0)
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = 1100
    run(shelf_job(place, sink))
    assert sink.moods.commits == 1101
    assert sink.rows() == ["sea"]


def test_when_spark_does_not_start_the_second_query_the_first_is_ended(place: Place, monkeypatch: pytest.MonkeyPatch):
    place.write("sea")

    def start_but_not_the_second(self: QueryRun, trigger: Mapping[str, Any], due: DueEpoch) -> None:
        if self.plan.query.uid == "fragile":
            raise TidegateError(Code.QUERY_FAILED, expected="a start", found="none", where="fragile", next_step="mend")
        started.append(self)
        start(self, trigger, due)

    started: list[QueryRun] = []
    start = QueryRun.start
    with monkeypatch.context() as patched:
        patched.setattr(QueryRun, "start", start_but_not_the_second)
        assert error_of(lambda: two_queries(place).start(until="caught-up")).where == "fragile"
    assert [each.threads.has_ended() for each in started] == [True]
    run(two_queries(place))
    assert place.words_out("calm") == place.words_out("fragile") == {0: ["sea"]}


def test_a_bounded_query_that_cannot_run_its_due_epoch_does_not_leave_the_others_alone(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """The locks may go only when every query has ended."""
    place.write({"word": "sea", "at": "2024-01-01T00:00:00Z"})
    place.write({"word": "sand", "at": "2024-01-01T00:01:00Z"})
    sink = ShelfSink("shelf", place.folder)
    sink.moods.gate = threading.Event()
    job = place.job()
    events = place.source(job, "events", "word string, at timestamp").withWatermark("at", "1 second")
    windows = events.groupBy(F.window("at", "10 seconds")).count().select("count")
    job.query("windows", windows, sinks=[MemorySink("windows-out")])
    job.query("query", place.words(job), sinks=[sink])

    def fail(*_: object) -> None:
        failed.set()
        raise TidegateError(Code.QUERY_FAILED, expected="it runs", found="it fails", where="again", next_step="mend")

    failed = threading.Event()
    monkeypatch.setattr(JobRuns, "another_run_of", fail)
    with setting(place.spark, NO_DATA_EPOCHS, "false"):
        handle = job.start(until="caught-up")
        assert failed.wait(60)
        ended = handle.wait(0.3)
        sink.moods.gate.set()
        assert error_of(handle.wait).where == "again"
    assert not ended, "the job said it had ended, while a query of it was still committing"
    assert place.log("ledger/done") == place.log("spark/commits")


def spoilt_job(place: Place) -> Job:
    """While the file `spoils` is there, an epoch leaves an empty `commits/0`, over which Spark then stumbles."""
    spoils, entry = place.folder / "spoils", place.query() / "spark" / "commits" / "0"

    def spoil(word: str) -> str:
        if spoils.exists():
            entry.touch()
        return word

    job = place.job()
    rows = place.words(job).select(F.udf(spoil, "string")("word").alias("word"))
    job.query("query", rows, sinks=[FileSink("files", place.folder / "out", format="json")])
    return job


def test_a_query_that_dies_between_prepared_and_its_commits_entry_ends_the_job(place: Place):
    spoils = place.folder / "spoils"
    spoils.touch()
    place.write("sea")
    handle = spoilt_job(place).start()
    assert error_of(lambda: handle.wait(60)).code == "TG-QUERY-FAILED"
    assert (place.log("ledger/prepared"), place.log("ledger/decided"), place.words_out()) == ([0], [], {})
    spoils.unlink()
    run(spoilt_job(place))
    assert (place.log("ledger/done"), place.words_out()) == ([0], {0: ["sea"]})


def test_a_stop_does_not_wait_for_an_epoch_whose_query_is_dead(place: Place, monkeypatch: pytest.MonkeyPatch):
    """The stop comes after the query has died, and before anybody has noticed."""
    (place.folder / "spoils").touch()
    place.write("sea")
    monkeypatch.setattr(RunThreads, "has_ended", lambda _: False)
    handle = spoilt_job(place).start()
    wait_until(lambda: place.log("ledger/prepared"), "a prepared epoch")
    wait_until(lambda: not place.spark.streams.active, "a dead query")
    begun = time.monotonic()
    handle.stop(timeout_seconds=40)
    assert time.monotonic() - begun < 20

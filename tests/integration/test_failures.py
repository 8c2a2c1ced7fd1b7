"""What fails: a query, a pre-commit, a commit. Nothing undecided is seen, nothing decided is lost."""

from __future__ import annotations

import time

import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run, wait_until, wait_until_finished
from tests.integration.shelf import ShelfSink, StageOnlyShelfSink
from tidegate import FileSink, Job, JobHandle, SQLiteSink


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
    everything = {0: ["sea"], 1: ["boom"], 2: ["sand"], 3: ["wind"]}
    assert place.words_out("calm") == place.words_out("fragile") == everything


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
    assert place.words_out("calm") == place.words_out("fragile") == {0: ["sea"], 1: ["boom"]}


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


def test_a_failing_second_query_at_the_start_stops_the_first(place: Place):
    """Spark refuses the second query when it is started, after the first one runs."""
    place.write("sea")

    def job(mode: str) -> JobHandle:
        job = place.job()
        first = FileSink("first-out", place.folder / "first", format="json")
        second = FileSink("second-out", place.folder / "second", format="json")
        job.query("first", place.words(job, "first-words"), sinks=[first])
        counts = place.words(job, "second-words").groupBy("word").count()
        job.query("second", counts, mode=mode, sinks=[second])  # pyright: ignore[reportArgumentType]
        return job.start(until="caught-up")

    error = error_of(lambda: job("append"))  # no watermark: Spark takes no such aggregation in append mode
    assert "second" in error.where
    assert "watermark" in error.found
    job("update").wait()
    assert place.words_out("first") == place.words_out("second") == {0: ["sea"]}



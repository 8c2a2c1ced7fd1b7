"""A job that is drained: what waits for the watermark comes out once, and nothing goes on from its checkpoint."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pytest
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run, wait_until_finished
from tests.support.command import tidegate as run_command
from tidegate import FileSink, Job, JobHandle, read_savepoint
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.core.drain import END_OF_TIME_MS
from tidegate.core.errors import TidegateError
from tidegate.operate.beat import JobState, read_beat
from tidegate.operate.endings import EndMode
from tidegate.savepoints.folder import open_savepoint, verify
from tidegate.storages.schemes import Folder

Mode: TypeAlias = Literal["append", "update", "complete"]


def events(place: Place, job: Job, uid: str = "events", late: str = "5 seconds") -> DataFrame:
    return place.source(job, uid, "at timestamp, word string").withWatermark("at", late)


def write_events(place: Place, *times: str) -> None:
    place.write(*({"at": f"2024-01-01T{time}Z", "word": "sea"} for time in times))


def into_files(place: Place, job: Job, rows: DataFrame, mode: Mode = "append", uid: str = "query") -> None:
    sink = FileSink(f"{uid}-files", place.folder / f"out-{uid}", format="json")
    job.query(uid, rows, mode=mode, sinks=[sink])


def out(place: Place, uid: str = "query") -> list[tuple[Any, ...]]:
    """All rows, whatever their epoch; sorted, none left out that is there twice."""
    return sorted(tuple(row.values()) for rows in place.files(f"out-{uid}").values() for row in rows)


def counts(windows: GroupedData) -> DataFrame:
    return windows.count().select(F.date_format("window.start", "HH:mm:ss").alias("start"), "count")


def windows_job(place: Place, name: str = "job") -> Job:
    job = place.job(name)
    into_files(place, job, counts(events(place, job).groupBy(F.window("at", "10 seconds"))))
    return job


def drain(handle: JobHandle, epoch: int = 0) -> None:
    """Once an epoch is done."""
    wait_until_finished(handle, epoch)
    handle.stop(drain=True)


def command(place: Place, *arguments: str) -> dict[str, Any]:
    """What the command prints."""
    said = run_command(*arguments, "--dir", str(place.checkpoints), "--json")
    assert said.code == 0, said
    return json.loads(said.stdout)


def last_watermark(place: Place) -> tuple[int, int]:
    epoch = max(place.log("spark/offsets"))
    lines = (place.query() / "spark/offsets" / str(epoch)).read_text().splitlines()
    return epoch, json.loads(lines[1])["batchWatermarkMs"]


def test_windows_that_are_open_come_out_once_and_the_checkpoint_is_marked(place: Place):
    write_events(place, "00:00:01", "00:00:02", "00:00:11", "00:00:16")
    handle = windows_job(place).start()
    wait_until_finished(handle, 0)
    answer = command(place, "stop", "job", "--drain", "--id", "the-end")
    handle.wait()
    assert (answer["outcome"], answer["kind"], "drained" in answer["detail"]) == ("done", "drain", True)
    assert command(place, "stop", "job", "--drain", "--id", "the-end") == answer
    assert [bool(command(place, told, "job")["drained"]) for told in ("info", "history")] == [True, True]
    assert out(place) == [("00:00:00", 2), ("00:00:10", 2)]
    epoch, watermark = last_watermark(place)
    assert (watermark, max(place.log("ledger/done"))) == (END_OF_TIME_MS, epoch), "the last epoch is done"

    folder = place.checkpoints / "job"
    retained = [
        record
        for number in retained_numbers(Folder.of(folder))
        if (record := read_retained(Folder.of(folder), number)) is not None
    ]
    assert [record.drained for record in retained][-2:] in ([True], [False, True])
    assert [query.epoch for query in retained[-1].queries] == [epoch]
    beat = read_beat(folder)
    assert beat is not None
    assert beat.state is JobState.STOPPED


def test_a_drain_ends_with_a_savepoint_that_is_read_and_not_gone_on_from(place: Place):
    write_events(place, "00:00:01", "00:00:02", "00:00:11", "00:00:16")
    handle = windows_job(place).start()
    wait_until_finished(handle, 0)
    answer = command(place, "stop", "job", "--drain", "-p", str(place.folder / "saved"), "--id", "the-end")
    handle.wait()
    assert (answer["outcome"], answer["kind"], handle.is_drained) == ("done", "drain-with-savepoint", True)
    assert out(place) == [("00:00:00", 2), ("00:00:10", 2)], "every window came out before"

    saved = open_savepoint(Path(answer["savepoint"]))
    assert {query.done.epoch for query in saved.record.queries} == {last_watermark(place)[0]}
    assert verify(saved) == []
    state = read_savepoint(saved.folder).state("query", spark=place.spark)
    assert state.count() == 0, "nothing waits any more"
    error = error_of(partial(windows_job(place, "other").start, savepoint=saved.folder))
    assert error.code == "TG-JOB-DRAINED"
    assert out(place) == [("00:00:00", 2), ("00:00:10", 2)]


def test_who_wants_a_job_to_go_on_from_its_savepoint_has_none_of_a_drained_end(place: Place):
    """A drain that somebody else asks for, after a stop with a savepoint: the last of the two counts for the end."""
    write_events(place, "00:00:01")
    handle = windows_job(place).start()
    wait_until_finished(handle, 0)
    handle.ask_to_end_with_savepoint(EndMode.STOP, "one", place.folder / "saved")
    handle.ask_to_drain()
    handle.wait()
    assert handle.is_drained
    error = handle.last_savepoint.error
    assert isinstance(error, TidegateError)
    assert (error.code, "nothing resumes from its end" in error.found) == ("TG-SAVEPOINT-REFUSED", True)
    assert not list((place.folder / "saved").glob("savepoint-*"))


def test_a_drained_job_is_refused_and_a_bounded_one_has_nothing_to_do(place: Place, caplog: pytest.LogCaptureFixture):
    write_events(place, "00:00:01")
    drain(windows_job(place).start())
    manifests = retained_numbers(Folder.of(place.checkpoints / "job"))
    write_events(place, "00:00:02", "00:01:00")
    error = error_of(windows_job(place).start)
    assert (error.code, "job name or checkpointing.dir" in error.next_step) == ("TG-JOB-DRAINED", True)
    run(windows_job(place))
    assert out(place) == [("00:00:00", 1)], "nothing that came later is read"
    assert "it was drained at" in caplog.text
    assert retained_numbers(Folder.of(place.checkpoints / "job")) == manifests
    beat = read_beat(place.checkpoints / "job")
    assert beat is not None
    assert beat.state is JobState.FINISHED


def test_rows_that_arrive_after_the_drain_was_asked_for_stay_in_the_source(place: Place):
    write_events(place, "00:00:01")
    handle = windows_job(place).start()
    wait_until_finished(handle, 0)
    handle.ask_to_drain()
    handle.ask_to_stop()  # a stop beside it takes nothing back
    before = len(place.log("spark/offsets"))
    write_events(place, "00:00:03")
    handle.wait()
    assert out(place) in ([("00:00:00", 1)], [("00:00:00", 2)]), "two only if Spark had seen it before it stopped"
    assert len(place.log("spark/offsets")) <= before + 2
    assert handle.is_drained


@pytest.mark.more
def test_every_operator_behind_another_and_every_query_is_drained(place: Place):
    """Windows of windows; and rows without a watermark beside them."""
    write_events(place, "00:00:01", "00:00:02", "00:00:11", "00:00:16")
    job = place.job()
    inner = events(place, job).groupBy(F.window("at", "5 seconds")).count()
    into_files(place, job, counts(inner.groupBy(F.window("window", "20 seconds"))), uid="chained")
    into_files(place, job, place.source(job, "words", "word string"), uid="plain")
    handle = job.start()
    for number in range(2):
        wait_until_finished(handle, 0, number)
    handle.stop(drain=True)
    assert out(place, "chained") == [("00:00:00", 3)]
    assert out(place, "plain") == [("sea",)] * 4
    assert place.log("spark/offsets", "plain") == [0], "nothing of it waits for the end of time"
    assert error_of(windows_job(place).start).code == "TG-JOB-DRAINED"


@pytest.mark.more
def test_open_sessions_are_drained(place: Place):
    write_events(place, "00:00:01", "00:00:02", "00:00:11", "00:00:16")
    job = place.job()
    sessions = events(place, job).groupBy(F.session_window("at", "3 seconds"), "word").count()
    into_files(place, job, sessions.select(F.date_format("session_window.start", "HH:mm:ss"), "count"))
    drain(job.start())
    assert out(place) == [("00:00:01", 2), ("00:00:11", 1), ("00:00:16", 1)]


@pytest.mark.more
def test_rows_that_wait_for_their_match_in_a_range_are_drained(place: Place):
    """What has matched has come out before; what has not comes out alone, and only that."""
    write_events(place, "00:00:01", "00:00:02", "00:00:11", "00:00:16")
    job = place.job()
    left = events(place, job, "left").select(F.col("at").alias("a"), F.col("word").alias("w"))
    late = events(place, job, "right").where("second(at) > 10")
    right = late.select(F.col("at").alias("b"), F.col("word").alias("v"))
    near = F.expr("w = v and b >= a and b <= a + interval 3 seconds")
    shown = [F.date_format("a", "ss").alias("a"), F.ifnull(F.date_format("b", "ss"), F.lit("-")).alias("b")]
    into_files(place, job, left.join(right, near, "left_outer").select(*shown))
    drain(job.start())
    assert out(place) == [("01", "-"), ("02", "-"), ("11", "11"), ("16", "16")]


@pytest.mark.more
def test_what_updates_have_shown_is_not_shown_again(place: Place):
    write_events(place, "00:00:01", "00:00:16")
    job = place.job()
    into_files(place, job, counts(events(place, job).groupBy(F.window("at", "10 seconds"))), "update")
    drain(job.start())
    assert out(place) == [("00:00:00", 1), ("00:00:10", 1)]

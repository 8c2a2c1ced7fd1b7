"""Checkpoints whose barriers overtake rows: what is in the channels belongs to them, and a restore reads it first."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, wait_until
from tests.integration.test_channel_savepoints import counting, fed, words_of
from tests.support.today import turn
from tidegate import Job, Restore, SQLiteSink
from tidegate.checkpoints.job_layout import retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.core.errors import Code
from tidegate.core.records import CheckpointRecord
from tidegate.spark import starting
from tidegate.storages.schemes import Folder

MILLION = 1_000_000


def checkpoints(place: Place) -> list[CheckpointRecord]:
    job = Folder.of(place.checkpoints / "job")
    return [record for number in retained_numbers(job) if (record := read_retained(job, number)) is not None]


def folder_of(place: Place, record: CheckpointRecord) -> Path:
    return place.checkpoints / "job" / "checkpoints" / str(record.number)


def with_rows_in_flight(place: Place, *, aligned_timeout: float = 0.0) -> CheckpointRecord:
    """The newest such checkpoint of a job whose reader is far behind, after the job was canceled."""
    with fed(place, files=40, every_seconds=0.2):
        job = counting(
            place,
            seconds=0.3,
            checkpointing_retained=2,
            checkpointing_unaligned=True,
            checkpointing_aligned_timeout=aligned_timeout,
        )
        handle = job.start()
        try:
            wait_until(lambda: any(each.in_flight for each in checkpoints(place)), "a checkpoint with rows in flight")
        finally:
            handle.cancel()
    return [each for each in checkpoints(place) if each.in_flight][-1]


@turn(2, of=4)
def test_a_restore_reads_the_rows_in_flight_and_is_exact(place: Place) -> None:
    """Twice: also the second restore finds them, although the job has run behind them since."""
    checkpoint = with_rows_in_flight(place)
    assert checkpoint.alignment == "unaligned"
    assert checkpoint.taken["count"].rows_in_flight > 0 == checkpoint.taken["write"].rows_in_flight
    for rewind in ("monday", "tuesday"):
        place.write("sea", "wind")
        back = Restore(str(folder_of(place, checkpoint)), rewind=rewind)
        counting(place, checkpointing_retained=40).start(until="caught-up", savepoint=back).wait()
        assert dict(place.table()) == words_of(place)


@turn(0, of=2)
def test_a_checkpoint_that_aligns_for_too_long_overtakes_the_rows(place: Place) -> None:
    checkpoint = with_rows_in_flight(place, aligned_timeout=0.5)
    back = Restore(str(folder_of(place, checkpoint)), rewind="once")
    counting(place).start(until="caught-up", savepoint=back).wait()
    assert dict(place.table()) == words_of(place)


@turn(1, of=2)
def test_another_job_is_not_restored_from_a_checkpoint_with_rows_in_flight(place: Place) -> None:
    checkpoint = with_rows_in_flight(place)
    elsewhere = str(place.folder / "elsewhere")
    job = counting(place, "copy", "copy.db", checkpointing_dir=elsewhere)
    refused = error_of(lambda: job.start(until="caught-up", savepoint=folder_of(place, checkpoint)))
    assert refused.catalogue_entry is Code.SAVEPOINT_REFUSED
    assert "take a savepoint there" in refused.next_step


@pytest.mark.more
@pytest.mark.timeout(400)
def test_a_reader_that_is_a_million_rows_behind_takes_part_at_its_next_epoch(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One word keeps it in its epoch until a checkpoint is under way behind the million. A restore reads them first."""
    monkeypatch.setattr(starting, "CHECKPOINTS_APART_SECONDS", 60.0)
    go, held = place.folder / "go", place.checkpoints / "job" / "checkpoints" / "held"
    place.write("sea")
    handle = waiting(place, go).start()
    try:
        wait_until(lambda: checkpoints(place), "the first checkpoint")
        place.write("slow")
        wait_until(lambda: len(place.log("spark/offsets", "count")) == 2, "the epoch of the word that it waits for")
        for _ in range(5):
            place.write(*(f"stone {number % 10}" for number in range(MILLION // 5)))
        wait_until(lambda: len(place.log("ledger/done", "write")) == 7, "all rows behind the writer")
        wait_until(lambda: len(list(held.iterdir())) == 2, "the next checkpoint, under way")
        before = handle.status().queries[1].finished
        go.touch()
        wait_until(lambda: len(checkpoints(place)) == 2, "the next checkpoint, complete")
        checkpoint = checkpoints(place)[-1]
    finally:
        handle.cancel()
    [read] = [done for done in checkpoint.queries if done.query == "count"]
    assert (read.epoch, checkpoint.taken["count"].rows_in_flight) == (before + 1, MILLION)
    back = Restore(str(folder_of(place, checkpoint)), rewind="once")
    waiting(place, go).start(until="caught-up", savepoint=back).wait()
    assert dict(place.table()) == {"sea": 1, "slow": 1, **{f"stone {number}": MILLION // 10 for number in range(10)}}


def waiting(place: Place, go: Path) -> Job:
    """One query passes words on; another one counts them. It waits for a file when it sees the word `slow`."""

    @F.udf("string")
    def after_a_while(word: str) -> str:
        end = time.monotonic() + 150
        while word == "slow" and not go.exists() and time.monotonic() < end:
            time.sleep(0.05)
        return word

    job = place.job(checkpointing_retained=3, checkpointing_unaligned=True)
    words = job.channel("words")
    job.query("write", place.words(job, "lines"), sinks=[words])
    read = job.source("words-in", words).select(after_a_while("word").alias("word"))
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    job.query("count", read.groupBy("word").count(), mode="update", sinks=[table])
    return job

"""What each checkpoint setting does, seen from outside: times between files, files that are left, errors, rows."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pyspark.sql import functions as F

from tests.integration.place import Place, error_of, run, wait_until, wait_until_finished
from tests.integration.shelf import FitfulShelfSink, LosingShelfSink, ShelfSink
from tests.support.driver import Driver
from tests.support.logged import events, told
from tests.support.today import turn
from tidegate import FileSink, FileSource, Job, JobHandle, SQLiteSink
from tidegate.checkpoints.retention import delete_checkpoints
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import CheckpointRecord, JobRecord, decode
from tidegate.disk import durable as folders
from tidegate.spark.query_run import QueryRun
from tidegate.spark.starting import forget
from tidegate.storages.local.locks import acquire, jvm_lock_is_free
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder

STUCK_PROGRAM = Path(__file__).with_name("stuck_program.py")


def mined_counts(place: Place, **settings: Any) -> Job:
    """Running counts into a table and files. A task that meets "boom" while the file `mined` is there removes it and
    then sleeps far longer than any test."""
    mined = str(place.folder / "mined")

    def step(word: str) -> str:
        import time
        from pathlib import Path

        if word == "boom" and Path(mined).exists():
            Path(mined).unlink()
            time.sleep(3600)
        return word

    job = place.job("job", **settings)
    words = place.words(job).select(F.udf(step, "string")("word").alias("word"))
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    files = FileSink("files", place.folder / "out", format="json")
    job.query("query", words.groupBy("word").count(), mode="update", sinks=[table, files])
    return job


def counts_out(place: Place) -> dict[int, list[tuple[str, int]]]:
    return {epoch: sorted((row["word"], row["count"]) for row in rows) for epoch, rows in place.files().items()}


# --- timeout, tolerable_failures ---------------------------------------------------------------------------


@turn(1, of=3)
def test_an_epoch_that_takes_too_long_is_cancelled_and_comes_again_with_the_same_input(
    place: Place, caplog: pytest.LogCaptureFixture
):
    """On a slow machine other epochs may take too long, too: it makes no difference."""
    place.write("sea")
    run(mined_counts(place))
    (place.folder / "mined").touch()
    place.write("boom", "sea")
    place.write("sea")
    job = mined_counts(place, checkpointing_timeout="4s", checkpointing_tolerable_failures=9)
    with caplog.at_level(logging.INFO, "tidegate"):
        handle = job.start()
        wait_until(lambda: 1 in place.log("spark/offsets"), "the epoch that hangs")
        planned = (place.query() / "spark" / "offsets" / "1").read_bytes()
        wait_until_finished(handle, 2)
        handle.stop()

    assert (place.query() / "spark" / "offsets" / "1").read_bytes() == planned
    failed = [fields for event, fields in events(caplog) if event == "EpochFailed"]
    timeout = "not prepared within checkpointing.timeout"
    assert (failed[0]["epoch"], failed[0]["in_a_row"], failed[0]["tolerated"]) == (1, 1, True)
    assert f"epoch 1 has failed ({timeout}), 1 in a row: it runs again with the same input" in told(caplog)
    assert place.log("ledger/runs") == [*range(1, 3 + len(failed))]
    assert counts_out(place) == {0: [("sea", 1)], 1: [("boom", 1), ("sea", 2)], 2: [("sea", 3)]}
    assert place.table() == [("boom", 1), ("sea", 3)]


@turn(0, of=2)
def test_an_epoch_that_takes_too_long_fails_a_job_that_tolerates_none(place: Place):
    (place.folder / "mined").touch()
    place.write("boom", "sea")
    error = error_of(lambda: run(mined_counts(place, checkpointing_timeout="2s")))
    assert error.code == "TG-EPOCH-TIMEOUT"
    assert "epoch 0 to be prepared within 2 s" in error.expected
    assert (place.log("spark/offsets"), place.log("spark/commits"), place.log("ledger/prepared")) == ([0], [], [])
    run(mined_counts(place))  # at once, in the same process: the locks are free
    assert counts_out(place) == {0: [("boom", 1), ("sea", 1)]}


def slow_counts(place: Place, seconds: float, **settings: Any) -> Job:
    """Running counts into a table and files. The task that meets "boom" needs so long, at each try."""

    def step(word: str) -> str:
        import time

        if word == "boom":
            time.sleep(seconds)
        return word

    job = place.job("job", **settings)
    words = place.words(job).select(F.udf(step, "string")("word").alias("word"))
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    files = FileSink("files", place.folder / "out", format="json")
    job.query("query", words.groupBy("word").count(), mode="update", sinks=[table, files])
    return job


@turn(3, of=4)
def test_an_epoch_that_needs_three_times_the_timeout_has_more_time_at_each_try(
    place: Place, caplog: pytest.LogCaptureFixture
):
    """It is cut off twice at least, and comes again with the same input. Each cut is a failed epoch."""
    place.write("sea")
    run(slow_counts(place, 0))
    place.write("boom", "sea")
    place.write("sea")
    job = slow_counts(place, 4.5, checkpointing_timeout="1.5s", checkpointing_tolerable_failures=9)
    with caplog.at_level(logging.INFO, "tidegate"):
        run(job)
    failed = [fields["in_a_row"] for event, fields in events(caplog) if event == "EpochFailed" and fields["epoch"] == 1]
    assert failed[:2] == [1, 2]
    times = [fields["seconds"] for event, fields in events(caplog) if event == "EpochGetsMoreTime"]
    assert times[:2] == [3.0, 6.0]
    assert "epoch 1 was cut off before, after 1.5 s: it has 3 s when it runs again" in told(caplog)
    assert counts_out(place) == {0: [("sea", 1)], 1: [("boom", 1), ("sea", 2)], 2: [("sea", 3)]}
    assert place.table() == [("boom", 1), ("sea", 3)]
    assert place.log("ledger/overdue") == [], "what is kept of the tries goes when the epoch is done"


@turn(0, of=2)
def test_a_job_that_tolerates_no_failed_epoch_gives_it_more_time_when_it_is_started_again(place: Place):
    """What the tries had is durable: nothing else is left of the process that was started before."""
    place.write("boom", "sea")
    first = error_of(lambda: run(slow_counts(place, 2.5, checkpointing_timeout="2s")))
    assert (first.code, place.log("ledger/overdue")) == ("TG-EPOCH-TIMEOUT", [0])
    assert "the next start gives this epoch 4 s" in first.next_step
    while place.log("ledger/done") != [0]:  # once, unless the machine is slow
        with suppress(TidegateError):
            run(slow_counts(place, 2.5, checkpointing_timeout="2s"))
    assert len(place.log("ledger/runs")) <= 5
    assert counts_out(place) == {0: [("boom", 1), ("sea", 1)]}
    assert place.log("ledger/overdue") == []


@turn(0, of=2)
def test_what_an_epoch_had_prepared_when_it_took_too_long_is_aborted(place: Place):
    """One task has prepared its rows, another one hangs, in every run until the hold is lifted: what the first run had
    prepared goes although the epoch is not done. On a slow machine other runs may be cut off, too: no difference."""
    hold = place.folder / "hold"
    place.write("sea", "sand")
    run(held_words(place, hold))
    hold.touch()
    words = ["boom", *(f"word {number}" for number in range(20))]
    place.write(*words)
    handle = held_words(place, hold, checkpointing_timeout="4s", checkpointing_tolerable_failures=99).start()
    wait_until(lambda: of_a_job_that_runs(handle, staged(place)), "a task that has prepared its rows")
    prepared = staged(place)
    wait_until(lambda: of_a_job_that_runs(handle, not prepared & staged(place)), "what it had prepared aborted")
    assert (place.log("ledger/done"), place.table()) == ([0], [("sand",), ("sea",)])
    hold.unlink()
    wait_until_finished(handle, 1)
    handle.stop()
    assert len(place.log("ledger/runs")) > 2
    assert place.table() == sorted((word,) for word in ["sea", "sand", *words])
    assert not staged(place)


def held_words(place: Place, hold: Path, **settings: Any) -> Job:
    """Words into a table, by two tasks. The one that meets "boom" hangs while the file `hold` is there."""

    def step(word: str) -> str:
        import time

        while word == "boom" and hold.exists():
            time.sleep(0.05)
        return word

    job = place.job("job", **settings)
    rows = place.words(job).repartition(2, "word").select(F.udf(step, "string")("word").alias("word"))
    job.query("query", rows, sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
    return job


def staged(place: Place) -> set[Path]:
    """The tables of tasks whose epoch no reader sees. A folder may go while this looks."""
    folders = os.walk(place.folder / "out.db.tidegate")
    return {Path(folder, name) for folder, _, names in folders for name in names if name.endswith(".stage")}


def of_a_job_that_runs(handle: JobHandle, seen: object) -> object:
    assert handle.status().running, "the job has ended"
    return seen


def shelf_job(place: Place, sink: ShelfSink, **settings: Any) -> Job:
    job = place.job("job", **settings)
    table = SQLiteSink("table", place.folder / "out.db", table="words")
    job.query("query", place.words(job), sinks=[sink, table])
    return job


def test_one_failed_epoch_in_a_row_more_than_is_tolerated_fails_the_job(place: Place):
    refusal = place.folder / "refusal"
    refusal.touch()
    place.write("sea")
    sink = ShelfSink("shelf", place.folder, refuses=refusal)
    error = error_of(lambda: run(shelf_job(place, sink, checkpointing_tolerable_failures=2)))
    assert (error.code, error.found) == ("TG-EPOCH-FAILED", "ValueError: the shelf refuses")
    assert place.log("ledger/runs") == [1, 2, 3]
    assert (sink.rows(), place.table()) == ([], [])

    refusal.unlink()
    run(shelf_job(place, sink))
    assert (sink.rows(), place.table()) == (["sea"], [("sea",)])


def test_an_epoch_that_is_done_makes_the_count_of_failed_ones_begin_anew(place: Place):
    """Each of three epochs fails once, and one failure is tolerated."""
    sink = FitfulShelfSink("shelf", place.folder)
    for epoch, word in enumerate(("sea", "sand", "wind")):
        place.write(word)
        sink.refusal_of(epoch).touch()
    run(shelf_job(place, sink, checkpointing_tolerable_failures=1))
    assert place.log("ledger/runs") == [1, 2, 3, 4]
    assert sink.moods.visible_after == [0, 1, 2]
    assert sink.rows() == ["sand", "sea", "wind"]
    assert place.table() == [("sand",), ("sea",), ("wind",)]


def test_a_run_after_a_tolerated_failure_that_cannot_recover_asks_the_restart_strategy(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    sink = FitfulShelfSink("shelf", place.folder)
    place.write("sea")
    handle = shelf_job(place, sink, checkpointing_tolerable_failures=1).start()
    wait_until_finished(handle, 0)
    asked: list[str] = []
    opened = QueryRun.open

    def fail_once(self: QueryRun) -> None:
        if not asked:
            raise TidegateError(Code.LEDGER_HOLE, expected="it opens", found="it does not", where="it", next_step="go")
        opened(self)

    def pause_after(_: QueryRun, error: TidegateError) -> float:
        asked.append(error.code)
        return 0.0

    monkeypatch.setattr(QueryRun, "open", fail_once)
    monkeypatch.setattr(handle._runs, "_rules", replace(handle._runs._rules, pause_after=pause_after))
    sink.refusal_of(1).touch()
    place.write("sand")
    wait_until_finished(handle, 1)
    handle.stop()
    assert asked == ["TG-LEDGER-HOLE"]
    assert (sink.rows(), place.table()) == (["sand", "sea"], [("sand",), ("sea",)])


def test_a_record_that_cannot_be_written_is_a_failed_epoch(place: Place, monkeypatch: pytest.MonkeyPatch):
    full = [True, True]
    put = LocalStorage.put_if_absent

    def put_unless_full(self: LocalStorage, name: str, data: bytes) -> bool:
        if name.startswith("ledger/prepared/") and full and full.pop():
            raise TidegateError(Code.STORAGE_FULL, expected="space", found="none", where=name, next_step="make some")
        return put(self, name, data)

    monkeypatch.setattr(LocalStorage, "put_if_absent", put_unless_full)
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    run(shelf_job(place, sink, checkpointing_tolerable_failures=2))
    assert place.log("ledger/runs") == [1, 2, 3]
    assert (sink.rows(), place.table()) == (["sea"], [("sea",)])


def test_an_error_of_the_query_itself_is_never_tolerated(place: Place):
    def fail(word: str) -> str:
        raise ValueError(word)

    place.write("sea")
    job = place.job(checkpointing_tolerable_failures=10)
    words = place.words(job).select(F.udf(fail, "string")("word").alias("word"))
    job.query("query", words, sinks=[FileSink("files", place.folder / "out", format="json")])
    assert error_of(lambda: run(job)).code == "TG-EPOCH-FAILED"
    assert place.log("ledger/runs") == [1]


def test_a_sync_that_failed_is_never_tolerated_and_no_run_follows_in_the_same_process(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    """The next run would believe what a second sync says of the same files. Under a supervisor, too."""
    sink = LosingShelfSink("shelf", place.folder)
    handle = shelf_job(place, sink, checkpointing_tolerable_failures=10).start()
    monkeypatch.setattr(handle._runs, "_rules", replace(handle._runs._rules, pause_after=lambda *_: 0.0))
    place.write("sea")
    assert error_of(lambda: handle.wait(60)).code == "TG-STORAGE-UNUSABLE"
    assert place.log("ledger/runs") == [1]
    assert (sink.rows(), place.table()) == ([], [])


@turn(1, of=2)
def test_an_epoch_that_nothing_ends_ends_with_its_process(place: Place, tmp_path: Path):
    """The sink's own code hangs on the driver: no cancelling of tasks reaches it."""
    place.write("sea")
    with Driver(STUCK_PROGRAM, str(place.folder), log=tmp_path / "log") as driver:
        assert driver.wait(60) == 1
        assert "TG-EPOCH-STUCK" in driver.tail(100_000)
        wait_until(lambda: _is_free(place), "the JVM's end")
    job = place.job()
    job.query("query", place.words(job), sinks=[ShelfSink("shelf", place.folder)])
    run(job)
    assert ShelfSink("shelf", place.folder).rows() == ["sea"]


def _is_free(place: Place) -> bool:
    folder = place.checkpoints / "job"
    with acquire(folder, "job"):
        return jvm_lock_is_free(folder)


# --- min_pause ---------------------------------------------------------------------------------------------


def written_at(place: Place, folder: str, epoch: int) -> float:
    [file] = [file for file in (place.query() / folder).iterdir() if file.name.partition(".")[0] == str(epoch)]
    return file.stat().st_mtime


@turn(1, of=2)
def test_an_epoch_begins_no_sooner_than_the_pause_after_the_last_commits(place: Place):
    """The commits take their time: the pause is counted from their end."""
    for word in ("sea", "sand", "wind"):
        place.write(word)
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = 3
    started: list[float] = []

    class Noting(ShelfSink):
        def in_epoch(self, finished_through: int) -> ShelfSink:
            started.append(time.time())
            return sink

    noting = Noting("shelf", place.folder)
    noting.moods = sink.moods
    run(shelf_job(place, noting, checkpointing_min_pause="1500ms"))
    done = [written_at(place, "ledger/done", epoch) for epoch in range(3)]
    assert [started[epoch] - done[epoch - 1] >= 1.49 for epoch in (1, 2)] == [True, True], (started, done)
    assert sink.rows() == ["sand", "sea", "wind"]


def test_a_stop_does_not_wait_for_the_pause(place: Place):
    place.write("sea")
    place.write("sand")
    sink = ShelfSink("shelf", place.folder)
    handle = shelf_job(place, sink, checkpointing_min_pause="1h").start()
    wait_until(lambda: 1 in place.log("spark/offsets"), "the epoch that rests")
    begun = time.monotonic()
    handle.stop()
    assert time.monotonic() - begun < 20
    assert (place.log("ledger/done"), place.log("ledger/prepared")) == ([0], [0])
    run(shelf_job(place, sink))
    assert sink.rows() == ["sand", "sea"]


# --- max_concurrent ----------------------------------------------------------------------------------------


class PlacedShelfSink(ShelfSink):
    """As a sink whose prepared rows already stand in the target."""

    prepared_rows_have_their_place: ClassVar[bool] = True


@turn(0, of=2)
@pytest.mark.parametrize(("allowed", "ahead"), [(1, 0), (2, 1), (3, 2)])
def test_so_many_epochs_may_wait_for_their_commits(place: Place, allowed: int, ahead: int):
    for word in ("sea", "sand", "wind", "salt"):
        place.write(word)
    sink = ShelfSink("shelf", place.folder)
    sink.moods.gate = threading.Event()
    handle = shelf_job(place, sink, checkpointing_max_concurrent=allowed).start()
    wait_until(lambda: ahead in place.log("ledger/prepared"), "the epochs that may be prepared")
    wait_until(lambda: ahead + 1 in place.log("spark/offsets"), "the epoch that may not")
    time.sleep(1)
    assert place.log("ledger/prepared") == [*range(ahead + 1)]
    assert (place.log("ledger/done"), sink.rows()) == ([], [])
    sink.moods.gate.set()
    wait_until_finished(handle, 3)
    handle.stop()
    assert sink.moods.visible_after == [0, 1, 2, 3]
    assert sink.rows() == ["salt", "sand", "sea", "wind"]
    assert place.table() == [("salt",), ("sand",), ("sea",), ("wind",)]


def test_where_epochs_cannot_overlap_a_start_says_so(place: Place, caplog: pytest.LogCaptureFixture):
    place.write("sea")
    place.write("sand")
    sink = PlacedShelfSink("shelf", place.folder)
    sink.moods.gate = threading.Event()
    handle = shelf_job(place, sink, checkpointing_max_concurrent=4).start()
    wait_until(lambda: 1 in place.log("spark/offsets"), "the next epoch")
    time.sleep(1)
    assert place.log("ledger/prepared") == [0]
    sink.moods.gate.set()
    handle.stop()
    assert "checkpointing.max_concurrent is 1 and not 4" in caplog.text


def test_epochs_that_pause_in_between_do_not_overlap(place: Place, caplog: pytest.LogCaptureFixture):
    """As in Flink, a pause makes it one epoch at a time, and the start says so."""
    place.write("sea")
    place.write("sand")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.gate = threading.Event()
    handle = shelf_job(place, sink, checkpointing_max_concurrent=4, checkpointing_min_pause="1ms").start()
    wait_until(lambda: 1 in place.log("spark/offsets"), "the next epoch")
    time.sleep(1)
    assert place.log("ledger/prepared") == [0]
    sink.moods.gate.set()
    wait_until_finished(handle, 1)
    handle.stop()
    assert "checkpointing.max_concurrent is 1 where checkpointing.min_pause is above 0" in caplog.text
    assert sink.rows() == ["sand", "sea"]


# --- retained ----------------------------------------------------------------------------------------------


def manifests(place: Place) -> dict[int, CheckpointRecord]:
    """What stands under `checkpoints/`, by number; every folder there has a whole manifest."""
    folder = place.checkpoints / "job" / "checkpoints"
    found: dict[int, CheckpointRecord] = {}
    for each in folder.iterdir():
        file = each / "_metadata.json"
        found[int(each.name)] = decode(CheckpointRecord, file.read_bytes(), str(file))
    return dict(sorted(found.items()))


@turn(1, of=2)
@pytest.mark.parametrize("retained", [1, 3])
def test_so_many_of_the_newest_checkpoints_have_a_manifest(place: Place, retained: int):
    sink = ShelfSink("shelf", place.folder)
    for word in ("sea", "sand", "wind", "salt", "rain"):
        place.write(word)
    run(shelf_job(place, sink, checkpointing_retained=retained))
    first = manifests(place)
    assert list(first) == [*range(1, 6)][-retained:]
    place.write("snow")
    run(shelf_job(place, sink, checkpointing_retained=retained))
    found = manifests(place)
    assert list(found) == [*range(1, 7)][-retained:]
    for number, record in found.items():
        [query] = record.queries
        assert (record.number, record.job, query.query, query.generation) == (number, "job", "query", 1)
        assert query.epoch == number - 1
        assert query.run == (2 if query.epoch == 5 else 1)
        assert query.offsets == (place.query() / "spark" / "offsets" / str(query.epoch)).read_bytes()
        assert query.commits == (place.query() / "spark" / "commits" / str(query.epoch)).read_bytes()
        assert {sink: progress.epoch for sink, progress in query.progress.items()} == {
            "shelf": query.epoch,
            "table": query.epoch,
        }


def test_a_checkpoint_of_two_queries_names_both_although_one_has_nothing_more_to_do(place: Place):
    def job(words: Path) -> Job:
        job = place.job()
        job.query("query", place.words(job), sinks=[FileSink("files", place.folder / "out", format="json")])
        source = FileSource(str(words), format="json", schema="word string")
        job.query("other", job.source("others", source), sinks=[FileSink("more", place.folder / "o", format="json")])
        return job

    idle = place.folder / "idle"
    idle.mkdir()
    (idle / "0.json").write_text('{"word": "ice"}\n')
    place.write("sea")
    run(job(idle))
    place.write("sand")
    run(job(idle))
    [record] = manifests(place).values()
    assert [(query.query, query.epoch) for query in record.queries] == [("query", 1), ("other", 0)]


def test_what_a_kill_leaves_of_a_manifest_goes_with_the_next_one(place: Place):
    torn = place.checkpoints / "job" / "checkpoints" / "7"
    torn.mkdir(parents=True)
    (torn / "._metadata.json.0badc0de.tidegate.tmp").write_bytes(b"tidegate check")
    place.write("sea")
    run(shelf_job(place, ShelfSink("shelf", place.folder)))
    assert list(manifests(place)) == [1]


def test_a_manifest_that_cannot_be_written_is_told_and_tried_again_and_the_job_lives_on(
    place: Place, caplog: pytest.LogCaptureFixture
):
    """A file stands where their folder was."""
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    handle = shelf_job(place, sink).start()
    folder = place.checkpoints / "job" / "checkpoints"
    wait_until((folder / "1" / "_metadata.json").exists, "the first manifest")
    folder.rename(place.folder / "aside")
    folder.touch()
    place.write("sand")
    wait_until(lambda: "its record of retained checkpoints does not work" in caplog.text, "a word of it")
    place.write("wind")
    wait_until_finished(handle, 2)
    folder.unlink()
    wait_until((folder / "3" / "_metadata.json").exists, "the next try")
    handle.stop()
    assert [record.queries[0].epoch for record in manifests(place).values()] == [2]
    assert caplog.text.count("does not work") == 1
    assert sink.rows() == ["sand", "sea", "wind"]


# --- retention ---------------------------------------------------------------------------------------------


def durable(place: Place) -> list[str]:
    """What stands in the job's folder of what it goes on from: without what it says of itself."""
    beside = {"beat.json", "control", "history", "locks", "sinks.json", "sources.json", "guarantees.json"}
    return sorted(path.name for path in (place.checkpoints / "job").iterdir() if path.name not in beside)


def test_a_cancelled_job_keeps_its_checkpoints_and_goes_on(place: Place):
    place.write("sea")
    handle = mined_counts(place).start()
    wait_until_finished(handle, 0)
    handle.cancel()
    assert durable(place) == ["checkpoints", "job.json", "queries"]
    place.write("sea")
    run(mined_counts(place))
    assert counts_out(place) == {0: [("sea", 1)], 1: [("sea", 2)]}


def test_a_cancel_ends_at_once_and_what_is_undecided_is_aborted(place: Place):
    """An epoch is under way that would take an hour."""
    (place.folder / "mined").touch()
    place.write("boom")
    handle = mined_counts(place).start()
    wait_until(lambda: not (place.folder / "mined").exists(), "the epoch under way")
    begun = time.monotonic()
    handle.cancel()
    assert time.monotonic() - begun < 20
    assert (place.log("ledger/prepared"), place.log("spark/commits")) == ([], [])
    assert list(place.folder.glob("out.db.tidegate/**/*.stage")) == []


def test_a_cancel_waits_for_no_sink(place: Place):
    place.write("sea")
    sink = ShelfSink("shelf", place.folder)
    sink.moods.busy = -1
    handle = shelf_job(place, sink).start()
    wait_until(lambda: sink.moods.commits > 1, "commits that were put off")
    handle.cancel()
    assert (place.log("ledger/decided"), place.log("ledger/done")) == ([0], [])
    sink.moods.busy = 0
    run(shelf_job(place, sink))
    assert (sink.rows(), place.table()) == (["sea"], [("sea",)])


def test_a_cancelled_job_that_deletes_its_checkpoints_begins_anew(place: Place):
    """Also in its sinks: with what proves the commits of the old job in them, a start would be refused."""
    place.write("sea", "sand")
    handle = mined_counts(place, checkpointing_retention="delete").start()
    wait_until_finished(handle, 0)
    handle.cancel()
    assert durable(place) == []
    run(mined_counts(place))
    epochs = [sorted((row["word"], row["count"]) for row in rows) for rows in place.files().values()]
    assert epochs == [[("sand", 1), ("sand", 1), ("sea", 1), ("sea", 1)]], "both jobs have counted from nothing"
    assert place.table() == [("sand", 1), ("sea", 1)]


def test_a_failed_job_and_a_stopped_one_keep_their_checkpoints(place: Place):
    refusal = place.folder / "refusal"
    refusal.touch()
    place.write("sea")
    sink = ShelfSink("shelf", place.folder, refuses=refusal)
    handle = shelf_job(place, sink, checkpointing_retention="delete").start()
    error_of(handle.wait)
    error_of(handle.cancel)
    assert "queries" in durable(place)
    refusal.unlink()
    handle = shelf_job(place, sink, checkpointing_retention="delete").start()
    wait_until_finished(handle, 0)
    handle.stop()
    assert "queries" in durable(place)


class Killed(BaseException):
    """The process is gone."""


@turn(1, of=2)
@pytest.mark.parametrize(
    "killed_at", [0, 1, 4, 8, *(pytest.param(step, marks=pytest.mark.more) for step in (2, 3, 5, 6, 7))]
)
def test_a_deletion_that_was_killed_leaves_a_job_that_goes_on_or_begins_anew(
    place: Place, killed_at: int, monkeypatch: pytest.MonkeyPatch
):
    """Killed before one step of the deletion after the other: a record, a sink, a folder."""
    folder = place.checkpoints / "job"
    steps = 0

    def die_there(step: Callable[..., None]) -> Callable[..., None]:
        def stepped(*given: Any, **named: Any) -> None:
            nonlocal steps
            steps += 1
            if steps == killed_at + 1:
                raise Killed
            return step(*given, **named)

        return stepped

    place.write("sea")
    job = place.job()
    table = SQLiteSink("table", place.folder / "out.db", table="words")
    files = FileSink("files", place.folder / "out", format="json")
    job.query("query", place.words(job), sinks=[table, files])
    run(job)
    with monkeypatch.context() as patched:
        for owner, name in (
            (LocalStorage, "put_if_absent"),
            (LocalStorage, "delete"),
            (SQLiteSink, "forget"),
            (FileSink, "forget"),
            (folders.os, "rename"),
            (folders.shutil, "rmtree"),
        ):
            patched.setattr(owner, name, die_there(getattr(owner, name)))
        job_id = decode(JobRecord, (folder / "job.json").read_bytes(), "job.json").job_id
        with pytest.raises(Killed):
            delete_checkpoints(Folder.of(folder), job_id, partial(forget, job._declared()))
    run(job)
    counted = len(place.table())
    assert counted == (1 if killed_at == 0 else 2), "one life of the job, or two"
    assert sum(len(words) for words in place.words_out().values()) == counted
    assert durable(place) == ["checkpoints", "job.json", "queries"]


# --- the storage goes and comes back -----------------------------------------------------------------------


@pytest.fixture
def lent(place: Place) -> Iterator[Callable[..., None]]:
    """The checkpoints are on a mounted folder, which can be taken away and given back."""
    disk = place.folder / "disk"

    def lend(*, there: bool) -> None:
        how = ["mount", "--bind", str(disk)] if there else ["umount", "--lazy"]
        if subprocess.run([*how, str(place.checkpoints)], check=False).returncode:
            pytest.skip("no right to mount a folder")

    disk.mkdir()
    place.checkpoints.mkdir()
    lend(there=True)
    yield lend
    while not subprocess.run(["umount", "--lazy", str(place.checkpoints)], check=False, capture_output=True).returncode:
        pass  # a bind mount does not look like one to os.path.ismount


@pytest.mark.skipif(shutil.which("mount") is None, reason="needs mount")
def test_a_storage_that_goes_away_ends_the_job_and_when_it_is_back_nothing_is_lost(
    place: Place, lent: Callable[..., None]
):
    place.write("sea")
    handle = mined_counts(place, checkpointing_tolerable_failures=3).start()
    wait_until_finished(handle, 0)
    time.sleep(0.5)  # until nothing of the epoch is cleaned up any more: that would be told by the disk itself
    lent(there=False)
    place.write("sea", "sand")
    error = error_of(lambda: handle.wait(60))
    assert error.code == "TG-STORAGE-UNUSABLE"
    assert str(place.checkpoints) in error.where
    lent(there=True)
    run(mined_counts(place))
    assert counts_out(place) == {0: [("sea", 1)], 1: [("sand", 1), ("sea", 2)]}
    assert place.table() == [("sand", 1), ("sea", 2)]


# --- after_tasks_finish ------------------------------------------------------------------------------------


def test_a_bounded_job_leaves_the_due_epoch_to_the_next_start_where_it_is_told_to(place: Place):
    def windows(**settings: Any) -> Job:
        job = place.job("job", **settings)
        events = place.source(job, "events", "at timestamp").withWatermark("at", "5 seconds")
        closed = events.groupBy(F.window("at", "10 seconds")).count().select("count")
        job.query("query", closed, sinks=[FileSink("files", place.folder / "out", format="json")])
        return job

    place.write(*({"at": f"2024-01-01T00:00:{second}Z"} for second in ("01", "02", "16")))
    run(windows(checkpointing_after_tasks_finish="false"))
    assert (place.log("spark/commits"), place.files()) == ([0], {})
    run(windows())
    assert (place.log("ledger/done"), place.files()) == ([0, 1], {1: [{"count": 2}]})

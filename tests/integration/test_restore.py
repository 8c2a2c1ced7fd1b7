"""A job goes on from a savepoint: groups that were begun before it end after it, and no row is lost or repeated."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tests.integration.place import NO_DATA_EPOCHS, Place, Row, error_of, setting, wait_until, wait_until_finished
from tests.integration.shelf import ShelfSink
from tests.support.logged import told
from tests.support.today import turn
from tidegate import FileSink, FileSource, FunctionSink, Job, PrintSink, Restore, SQLiteSink, TidegateError
from tidegate.core.records import JobRecord, decode, encode
from tidegate.operate.app_check import CHECK_ONLY
from tidegate.savepoints.asked_restore import SAYS, Said
from tidegate.savepoints.claim import claim
from tidegate.savepoints.folder import CLAIM, MANIFEST, open_savepoint, verify
from tidegate.spark import restore_carried_out
from tidegate.storages.local.locks import acquire
from tidegate.storages.schemes import Folder


def counting(place: Place, name: str = "job", **settings: str | float) -> Job:
    """Running counts of words into a table, and windows of ten seconds, when they have closed, into files."""
    job = place.job(name, **settings)
    events = place.source(job, "events", "at timestamp, word string")
    table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
    job.query("counts", events.groupBy("word").count(), mode="update", sinks=[table])
    windows = events.withWatermark("at", "5 seconds").groupBy(F.window("at", "10 seconds")).count()
    closed = windows.select(F.date_format("window.start", "HH:mm:ss").alias("start"), F.col("count").alias("n"))
    job.query("windows", closed, sinks=[FileSink("files", place.folder / "out", format="json")])
    return job


def event(time: str, word: str = "sea") -> Row:
    return {"at": f"2024-01-01T00:00:{time}Z", "word": word}


def saved(place: Place, job: Job, epoch: int = 0) -> Path:
    """Run a job through an epoch of each query, take a savepoint, stop it."""
    handle = job.start()
    for query in range(len(handle.runs)):
        wait_until_finished(handle, epoch, query)
    path = handle.savepoint(place.folder / "saved", id=f"at-{epoch}")
    handle.stop()
    assert path is not None
    return path


def run_from(job: Job, savepoint: Path | Restore) -> None:
    job.start(until="caught-up", savepoint=savepoint).wait()


def windows_out(place: Place) -> dict[int, list[tuple[str, int]]]:
    return {epoch: [(row["start"], row["n"]) for row in rows] for epoch, rows in place.files().items()}


def job_record(place: Place, name: str = "job") -> JobRecord:
    return decode(JobRecord, (place.checkpoints / name / "job.json").read_bytes(), name)


def everything(place: Place) -> dict[str, bytes]:
    """Every file of the job and of its targets, but those that say who looks at it now."""
    files = [path for path in place.folder.rglob("*") if path.is_file() and "/locks/" not in str(path)]
    return {str(path.relative_to(place.folder)): path.read_bytes() for path in files}


@turn(1, of=2)
@pytest.mark.parametrize("backend", ["rocksdb", pytest.param("hashmap", marks=pytest.mark.more)])
def test_groups_that_were_begun_before_the_savepoint_end_after_it(
    place: Place, backend: str, caplog: pytest.LogCaptureFixture
):
    place.write(event("01"), event("02", "sand"))
    path = saved(place, counting(place, state_backend=backend))
    before = job_record(place)
    assert (place.table(), windows_out(place)) == ([("sand", 1), ("sea", 1)], {})

    place.write(event("03"), event("16", "wind"))
    with caplog.at_level(logging.INFO, "tidegate"):
        run_from(counting(place, state_backend=backend), path)
    assert place.table() == [("sand", 1), ("sea", 2), ("wind", 1)]
    assert list(windows_out(place).values()) == [[("00:00:00", 3)]]
    assert job_record(place) == msgspec.structs.replace(before, generation=2)
    assert [path.name for path in (place.query("counts").parent).iterdir()] == ["g2"]
    assert {"-g2-" in path.name for path in (place.folder / "out").glob("*.json")} == {True}
    (restored,) = [text for text in told(caplog) if "query counts resumes after epoch 0" in text]
    assert restored.endswith("rows of state: operator 0 (stateStoreSave): 2")

    place.write(event("31"))
    run_from(counting(place, state_backend=backend), path)  # as a supervisor starts it again: it does not go back
    assert place.table() == [("sand", 1), ("sea", 3), ("wind", 1)]
    assert list(windows_out(place).values()) == [[("00:00:00", 3)], [("00:00:10", 1)]]
    assert job_record(place).generation == 2


@turn(1, of=2)
def test_under_another_name_and_in_another_folder_what_was_due_comes_first(place: Place):
    place.write(event("01"), event("16"))
    with setting(place.spark, NO_DATA_EPOCHS, "false"):  # so that the savepoint comes before the due epoch
        path = saved(place, counting(place))
    first = job_record(place)
    shutil.rmtree(place.checkpoints)
    elsewhere = path.rename(place.folder / "moved")
    place.write(event("02"), event("17"), event("36"))
    run_from(counting(place, "copy"), elsewhere)
    assert windows_out(place) == {1: [("00:00:00", 1)], 3: [("00:00:10", 2)]}, "00:00:02 came too late"
    assert place.table() == [("sea", 5)]
    copy = job_record(place, "copy")
    assert (copy.generation, copy.job_id != first.job_id) == (2, True), "positions name generations of the first job"


def test_a_job_goes_back_behind_visible_rows_only_where_somebody_says_so_and_once(
    place: Place, caplog: pytest.LogCaptureFixture
):
    def words() -> Job:
        job = place.job()
        events = place.source(job, "events", "at timestamp, word string")
        job.query("words", events.select("word"), sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
        return job

    place.write(event("01"))
    path = saved(place, words())
    place.write(event("02", "sand"))
    words().start(until="caught-up").wait()
    before = everything(place)
    error = error_of(lambda: run_from(words(), path))
    assert (error.code, error.found) == (
        "TG-SINK-AHEAD",
        "epoch 1 of generation 1 is visible: rows of epoch 1 would come again",
    )
    assert everything(place) == before
    wish = Restore(str(path), rewind="monday")
    run_from(words(), wish)
    assert place.table() == [("sand",), ("sand",), ("sea",)]
    (warned,) = [text for text in told(caplog) if "would come again" in text]
    assert "query words, evidence in sink table: epoch 1 of generation 1 is visible" in warned
    assert '; read again: events from {"logOffset":0,"digest":' in warned
    run_from(words(), wish)  # as a supervisor starts it again
    assert (place.table(), job_record(place).generation) == ([("sand",), ("sand",), ("sea",)], 2)
    run_from(words(), Restore(str(path), rewind="friday"))
    assert (place.table(), job_record(place).generation) == ([("sand",)] * 3 + [("sea",)], 3)
    run_from(words(), wish)  # as a program that has it written in it
    assert (place.table(), job_record(place).generation) == ([("sand",)] * 3 + [("sea",)], 3)
    shutil.rmtree(place.checkpoints)
    run_from(words(), Restore(str(path), claim=True, rewind="sunday"))
    assert (place.table(), job_record(place).generation) == ([("sand",)] * 4 + [("sea",)], 4)


@turn(1, of=2)
def test_a_job_moves_with_a_savepoint_that_it_claims_and_no_other_job_takes_its_targets(place: Place):
    place.write(event("01"))
    path = saved(place, counting(place))
    first = job_record(place)
    shutil.rmtree(place.checkpoints)
    place.write(event("02"))
    error = error_of(lambda: run_from(counting(place), path))
    assert (error.code, "--claim" in error.next_step) == ("TG-SINK-OF-ANOTHER-JOB", True)
    run_from(counting(place), Restore(str(path), claim=True))
    assert place.table() == [("sea", 2)]
    assert job_record(place) == msgspec.structs.replace(first, generation=2)


@turn(1, of=2)
def test_of_two_folders_that_claim_one_savepoint_the_second_one_is_refused_and_stays_empty(
    place: Place, monkeypatch: pytest.MonkeyPatch
):
    place.write(event("01"))
    path = saved(place, counting(place))
    first = job_record(place)
    shutil.rmtree(place.checkpoints)
    wish, third = Restore(str(path), claim=True), place.folder / "third"

    def elsewhere() -> Job:
        return counting(place, checkpointing_dir=str(third))

    monkeypatch.setattr(restore_carried_out, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):  # dies when it has claimed the savepoint, and before its generation counts
        run_from(counting(place), wish)
    monkeypatch.undo()
    for again in (wish, Restore(str(path), claim=True, rewind="monday")):
        error = error_of(lambda again=again: run_from(elsewhere(), again))
        assert (error.code, str(place.checkpoints / "job") in error.found) == ("TG-SAVEPOINT-CLAIMED", True)
        assert [name for name in third.rglob("*") if name.is_file() and "locks" not in name.parts] == []
    place.write(event("02"))
    run_from(counting(place), wish)
    assert place.table() == [("sea", 2)]
    assert job_record(place) == msgspec.structs.replace(first, generation=2)
    assert [each.code for each in verify(open_savepoint(path))] == []


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_the_first_folder_does_not_go_on_from_a_savepoint_that_another_one_has_claimed(place: Place):
    """It needs no claim to go on under its own id, and nothing may be visible yet of where the job has gone."""
    place.write(event("01"))
    path = saved(place, counting(place))
    first, moved = job_record(place), place.folder / "moved"
    claim(open_savepoint(path), first, Folder.of(moved))
    for wish in (Restore(str(path)), Restore(str(path), rewind="monday")):
        error = error_of(lambda wish=wish: run_from(counting(place), wish))
        assert (error.code, str(moved) in error.found) == ("TG-SAVEPOINT-CLAIMED", True)
    assert job_record(place) == first
    run_from(counting(place, "fork"), Restore(str(path)))
    assert job_record(place, "fork").job_id != first.job_id


def test_a_job_that_has_moved_under_another_name_does_not_go_on_under_its_old_one(place: Place):
    def words(name: str) -> Job:
        job = place.job(name)
        events = place.source(job, "events", "at timestamp, word string")
        table = SQLiteSink("table", place.folder / "out.db", table="words")
        job.query("words", events.select("word"), sinks=[table, FileSink("files", place.folder / "out", format="json")])
        return job

    place.write(event("01"))
    path = saved(place, words("job"))
    place.write(event("02", "sand"))
    run_from(words("moved"), Restore(str(path), claim=True))
    assert job_record(place, "moved") == msgspec.structs.replace(job_record(place), name="moved", generation=2)
    error = error_of(lambda: words("job").start(until="caught-up").wait())
    assert (error.code, error.found) == ("TG-SINK-AHEAD", "epoch 1 of generation 2")
    assert place.table() == [("sand",), ("sea",)]
    run_from(words("moved"), path)
    assert len(place.words_out()[1]) == 1


def onto(place: Place, shelf: ShelfSink, **settings: str) -> Job:
    job = place.job(**settings)
    job.query("query", place.words(job), sinks=[shelf])
    return job


def decided_behind_a_savepoint(place: Place, shelf: ShelfSink) -> Path:
    """A job that has ended with a decided epoch, which the shelf did not take; and the savepoint before it."""
    place.write("sea")
    handle = onto(place, shelf).start()
    wait_until_finished(handle, 0)
    path = handle.savepoint(place.folder / "saved")
    assert path is not None
    shelf.moods.busy = -1
    place.write("sand")
    wait_until(lambda: 1 in place.log("ledger/decided"), "the epoch that the shelf does not take")
    assert error_of(lambda: handle.stop(0)).code == "TG-SINK-UNAVAILABLE"
    shelf.moods.busy = 0
    return path


def test_a_decided_epoch_that_waits_for_its_sink_is_not_left_behind(place: Place):
    """It would have to come twice, or never: with its record, and with the input behind the savepoint."""
    shelf = ShelfSink("shelf", place.folder)
    path = decided_behind_a_savepoint(place, shelf)
    before = everything(place)
    error = error_of(lambda: run_from(onto(place, shelf), path))
    assert (error.code, "decided" in error.found) == ("TG-RESTORE-PENDING", True)
    assert everything(place) == before
    onto(place, shelf).start(until="caught-up").wait()
    assert shelf.rows() == ["sand", "sea"]


def test_who_goes_back_has_what_was_decided_committed_first_and_once_more_behind_the_savepoint(place: Place):
    shelf = ShelfSink("shelf", place.folder)
    path = decided_behind_a_savepoint(place, shelf)
    back = Restore(str(path), rewind="monday")
    shelf.moods.busy = -1
    error = error_of(lambda: run_from(onto(place, shelf, stop_timeout="1s"), back))
    assert (error.code, job_record(place).generation) == ("TG-SINK-UNAVAILABLE", 1)
    shelf.moods.busy = 0
    run_from(onto(place, shelf), back)
    assert shelf.rows() == ["sand", "sand", "sea"], "of epoch 1 before it went back, and of epoch 1 since"
    run_from(onto(place, shelf), back)
    assert shelf.rows() == ["sand", "sand", "sea"]


@turn(0, of=2)
def test_a_check_tells_the_verdict_and_touches_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    place.write(event("01"))
    path = saved(place, counting(place))
    before = everything(place)

    def verdict(job: Callable[[], Job], wish: Restore | None = None) -> tuple[str, tuple[str, ...], list[str]]:
        codes: list[str] = []
        with monkeypatch.context() as patched:
            patched.setenv(CHECK_ONLY, "1")
            try:
                with pytest.raises(SystemExit):
                    job().start(savepoint=wish or path)
            except TidegateError as error:
                codes = [each.code for each in error.violations or (error,)]
        (line,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith(SAYS)]
        said = msgspec.json.decode(line.removeprefix(SAYS), type=Said)
        return said.verdict, said.changes, codes

    def renamed() -> Job:
        job = place.job()
        events = place.source(job, "events", "at timestamp, word string")
        table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
        job.query("words", events.groupBy("word").count(), mode="update", sinks=[table])
        return job

    assert verdict(lambda: counting(place)) == ("ok", (), [])
    allowed = Restore(str(path), renamed={"counts": "words"}, allow_non_restored_state=True)
    assert verdict(renamed, allowed) == (
        "migrate",
        ("query counts resumes as words", "query windows and its state are left behind"),
        [],
    )
    assert verdict(renamed) == ("impossible", (), ["TG-RESTORE-UNMATCHED"]), "nothing is left behind then"
    assert verdict(lambda: counting(place, parallelism="3")) == (
        "migrate",
        tuple(
            f"query {query}: its state is divided into 3 partitions instead of 2, row by row"
            for query in ("counts", "windows")
        ),
        [],
    )
    claim(
        open_savepoint(path),
        msgspec.structs.replace(job_record(place), name="moved"),
        Folder.of(place.folder / "third"),
    )
    claimed = everything(place)
    assert verdict(lambda: counting(place), Restore(str(path), claim=True)) == (
        "impossible",
        (),
        ["TG-SAVEPOINT-CLAIMED"],
    )
    assert everything(place) == claimed
    next(path.parent.glob(f"*{CLAIM}")).unlink()
    shutil.rmtree(place.folder / "third")
    with acquire(place.checkpoints / "job", "job"):
        assert verdict(lambda: counting(place))[::2] == ("impossible", ["TG-DRIVER-ALIVE"])
    state = next(file for file in sorted(path.glob("queries/counts/spark/state/0/0/*")) if file.is_file())
    data = state.read_bytes()
    state.write_bytes(bytes([data[0] ^ 1]) + data[1:])
    assert verdict(lambda: counting(place))[::2] == ("impossible", ["TG-SAVEPOINT-ALTERED"])
    assert error_of(lambda: run_from(counting(place), path)).code == "TG-SAVEPOINT-ALTERED"
    state.write_bytes(data)
    assert everything(place) == before


@pytest.mark.more  # how it is decided is in tests/unit/test_recover_plan.py and test_savepoint_restore.py
def test_a_table_put_back_from_an_older_copy_is_noticed_at_the_restore_and_before_the_first_write_behind_it(
    place: Place,
):
    def words() -> Job:
        job = place.job()
        events = place.source(job, "events", "at timestamp, word string")
        job.query("words", events.select("word"), sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
        return job

    def put_back(copy: Path) -> None:
        for left in place.folder.glob("out.db-*"):  # what SQLite has beside it
            left.unlink()
        shutil.copy(copy, place.folder / "out.db")

    place.write(event("01"))
    words().start(until="caught-up").wait()
    older, right = place.folder / "older.db", place.folder / "right.db"
    shutil.copy(place.folder / "out.db", older)
    place.write(event("02", "sand"))
    path = saved(place, words(), 1)
    shutil.copy(place.folder / "out.db", right)

    put_back(older)
    assert error_of(lambda: run_from(words(), path)).code == "TG-SINK-BEHIND"
    put_back(right)
    run_from(words(), path)
    assert job_record(place).generation == 2
    handle = words().start()
    again = handle.savepoint(place.folder / "saved", id="again")
    handle.stop()
    assert again is not None
    put_back(older)
    place.write(event("03", "wind"))
    error = error_of(lambda: words().start(until="caught-up").wait())
    assert (error.code, error.expected, error.found) == (
        "TG-SINK-BEHIND",
        "epoch 1 of generation 1",
        "epoch 0 of generation 1",
    )
    assert error_of(lambda: run_from(words(), again)).code == "TG-SINK-BEHIND"
    put_back(right)
    words().start(until="caught-up").wait()
    assert place.table() == [("sand",), ("sea",), ("wind",)]


@pytest.mark.more
def test_a_renamed_query_goes_on_and_a_left_one_is_gone(place: Place):
    place.write(event("01"))
    path = saved(place, counting(place))
    place.write(event("02"))
    job = place.job()
    events = place.source(job, "stream", "at timestamp, word string")
    table = SQLiteSink("words-table", place.folder / "out.db", table="words", key="word")
    job.query("words", events.groupBy("word").count(), mode="update", sinks=[table])
    names = {"counts": "words", "events": "stream", "table": "words-table"}
    run_from(job, Restore(str(path), renamed=names, allow_non_restored_state=True))
    assert place.table() == [("sea", 2)]
    assert [path.name for path in (place.checkpoints / "job/queries").iterdir()] == ["words"]


@pytest.mark.more  # the names it is looked for under are in tests/unit/test_restoring.py
def test_a_job_that_went_on_under_other_names_does_not_go_back_unasked(place: Place):
    """The evidence of its newer epochs stands under those; what the first names say is that nothing was shown since."""

    def words(sink: str) -> Job:
        job = place.job()
        events = place.source(job, "events", "at timestamp, word string")
        job.query("words", events.select("word"), sinks=[SQLiteSink(sink, place.folder / "out.db", table="words")])
        return job

    place.write(event("01"))
    path = saved(place, words("table"))
    other = place.folder / "another"  # as one that was taken a moment later
    shutil.copytree(path, other)
    record = msgspec.structs.replace(open_savepoint(other).record, id="another")
    (other / MANIFEST).write_bytes(encode(record))
    place.write(event("02", "sand"))
    run_from(words("renamed"), Restore(str(path), renamed={"table": "renamed"}))
    error = error_of(lambda: run_from(words("table"), other))
    assert (error.code, error.found) == (
        "TG-SINK-AHEAD",
        "epoch 1 of generation 2 is visible: rows of epochs 0 to 1 would come again",
    )
    assert place.table() == [("sand",), ("sea",)]


@pytest.mark.more  # what is decided is in tests/unit/test_recover_plan.py, and in the small world
def test_a_query_that_was_left_behind_does_not_repeat_its_rows_when_it_is_back_in_the_program(place: Place):
    def job(*uids: str) -> Job:
        wanted = place.job()
        events = place.source(wanted, "events", "at timestamp, word string").select("word")
        for uid in uids:
            wanted.query(uid, events, sinks=[SQLiteSink(f"{uid}-table", place.folder / "out.db", table=uid)])
        return wanted

    place.write(event("01"))
    path = saved(place, job("words", "copies"))
    run_from(job("words"), Restore(str(path), allow_non_restored_state=True))
    for _ in range(2):  # the first start has written where it begins
        error = error_of(lambda: job("words", "copies").start(until="caught-up").wait())
        assert (error.code, "query copies" in error.where) == ("TG-SINK-AHEAD", True)
    assert place.table("copies") == [("sea",)]


@pytest.mark.more  # who may repeat is in tests/unit/test_savepoint_restore.py
def test_who_goes_back_without_a_query_does_not_have_its_rows_repeated_when_it_is_back_in_the_program(place: Place):
    def job(*uids: str) -> Job:
        wanted = place.job()
        events = place.source(wanted, "events", "at timestamp, word string").select("word")
        for uid in uids:
            wanted.query(uid, events, sinks=[SQLiteSink(f"{uid}-table", place.folder / "out.db", table=uid)])
        return wanted

    place.write(event("01"))
    path = saved(place, job("words"))
    job("words", "younger").start(until="caught-up").wait()
    place.write(event("02", "sand"))
    job("words", "younger").start(until="caught-up").wait()
    run_from(job("words"), Restore(str(path), rewind="monday"))
    error = error_of(lambda: job("words", "younger").start(until="caught-up").wait())
    assert (error.code, "query younger" in error.where) == ("TG-SINK-AHEAD", True)
    assert place.table("younger") == [("sand",), ("sea",)]


@pytest.mark.more
def test_a_new_query_that_was_allowed_to_repeat_rows_does_under_the_uid_of_a_renamed_one(place: Place):
    def job(*uids: str) -> Job:
        wanted = place.job()
        events = place.source(wanted, "events", "at timestamp, word string").select("word")
        for number, uid in enumerate(uids):
            table = SQLiteSink(f"table-{number}", place.folder / "out.db", table=f"t{number}")
            wanted.query(uid, events, sinks=[table])
        return wanted

    place.write(event("01"))
    path = saved(place, job("words"))
    renamed = {"words": "terms", "table-0": "table-1"}
    run_from(job("words", "terms"), Restore(str(path), rewind="monday", renamed=renamed))
    assert (place.table("t0"), place.table("t1")) == ([("sea",), ("sea",)], [])


def test_a_query_that_goes_on_under_another_name_does_not_begin_over_where_no_sink_could_tell(
    place: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    """The savepoint that it was restored from is named once more, and --map is forgotten: the check says so, too."""
    seen: list[str] = []

    def words(uid: str) -> Job:
        job = place.job()

        def show(rows: DataFrame, _: int) -> None:
            seen.extend(row["word"] for row in rows.collect())

        job.query(uid, place.words(job), sinks=[FunctionSink("seen", show)])
        return job

    place.write("sea")
    path = saved(place, words("before"))
    place.write("wind")
    both, whole = words("after"), everything(place)
    both.query("before", both.source("again", FileSource(str(place.input), format="text")), sinks=[PrintSink("shown")])
    error = error_of(lambda: run_from(both, Restore(str(path), renamed={"before": "after"})))
    assert (error.code, everything(place)) == ("TG-RESTORE-UNMATCHED", whole), "said before a generation is opened"
    run_from(words("after"), Restore(str(path), renamed={"before": "after"}))
    assert seen == ["sea", "wind"]
    error = error_of(lambda: run_from(words("before"), path))
    assert (error.code, "resumes as after" in error.found) == ("TG-RESTORE-UNMATCHED", True)
    assert error_of(lambda: words("before").start()).code == "TG-RESTORE-UNMATCHED"
    with monkeypatch.context() as patched:
        patched.setenv(CHECK_ONLY, "1")
        assert error_of(lambda: words("before").start(savepoint=path)).code == "TG-RESTORE-UNMATCHED"
    assert SAYS not in capfd.readouterr().err
    run_from(words("after"), path)
    assert seen == ["sea", "wind"]


def test_state_that_is_not_as_much_as_in_the_savepoint_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch):
    place.write(event("01"))
    path = saved(place, counting(place))
    before = everything(place)
    monkeypatch.setattr(restore_carried_out, "expected_state", lambda *_: {"operator 0": 2})
    monkeypatch.setattr(restore_carried_out, "count_state", lambda *_: {"operator 0": 1})
    steps: list[str] = []
    monkeypatch.setattr(restore_carried_out, "tell_start", lambda happening: steps.append(str(happening)))
    error = error_of(lambda: run_from(counting(place), path))
    assert (error.code, error.found) == ("TG-RESTORE-STATE", "{'operator 0': 1}")
    assert [step for step in steps if step.endswith("/counts/.restored-g2/spark/commits/0, restored")]
    assert everything(place) == before


def test_at_most_once_goes_on_from_nothing(place: Place):
    job = place.job(checkpointing_mode="at-most-once")
    job.query("query", place.words(job), sinks=[SQLiteSink("table", place.folder / "out.db", table="words")])
    assert error_of(lambda: job.start(savepoint=place.folder / "saved")).code == "TG-LEVEL-REFUSED"


@pytest.mark.more
def test_joins_and_deduplication_go_on(place: Place):
    """A row of each side that has met nothing yet, and a word that was seen, are in the savepoint."""

    def job() -> Job:
        wanted = place.job(state_backend="rocksdb")
        events = place.source(wanted, "events", "at timestamp, word string").withWatermark("at", "1 hour")
        sea, wind = (events.where(F.col("word").startswith(kind)) for kind in ("sea", "wind"))
        met = sea.alias("a").join(wind.alias("b"), F.expr("a.at = b.at AND b.at <= a.at + interval 1 minute"))
        pairs = met.select(F.col("a.word").alias("sea"), F.col("b.word").alias("wind"))
        wanted.query("pairs", pairs, sinks=[FileSink("pairs-out", place.folder / "pairs", format="json")])
        once = events.dropDuplicates(["word", "at"]).select("word")
        wanted.query("once", once, sinks=[FileSink("once-out", place.folder / "once", format="json")])
        return wanted

    place.write(event("01", "sea1"), event("02", "wind2"))
    path = saved(place, job())
    place.write(event("01", "wind1"), event("02", "sea2"), event("02", "wind2"))
    run_from(job(), path)
    pairs = [json.dumps(row, sort_keys=True) for rows in place.files("pairs").values() for row in rows]
    second = '{"sea": "sea2", "wind": "wind2"}'  # it meets both rows of wind2, that from before the savepoint too
    assert sorted(pairs) == ['{"sea": "sea1", "wind": "wind1"}', second, second]
    once = sorted(row["word"] for rows in place.files("once").values() for row in rows)
    assert once == ["sea1", "sea2", "wind1", "wind2"]


class Counter(StatefulProcessor):
    """Counts the rows of a word."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.seen = handle.getValueState("seen", "n long")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        before = self.seen.get()
        count = (0 if before is None else int(before[0])) + sum(len(each) for each in rows)
        self.seen.update((count,))
        yield pd.DataFrame({"word": [key[0]], "n": [count]})

    def close(self) -> None:
        pass


@pytest.mark.more
def test_custom_state_goes_on_where_nothing_is_left_of_the_first_job(place: Place, caplog: pytest.LogCaptureFixture):
    """Spark names the schemas of such state by absolute paths."""

    def job() -> Job:
        wanted = place.job(state_backend="rocksdb")
        counted = (
            place.words(wanted)
            .groupBy("word")
            .transformWithStateInPandas(Counter(), "word string, n long", "Update", "None")
        )
        table = SQLiteSink("table", place.folder / "out.db", table="words", key="word")
        wanted.query("query", counted, mode="update", sinks=[table])
        return wanted

    place.write("sea", "sea", "wind")
    path = saved(place, job())
    shutil.rmtree(place.checkpoints)
    place.write("sea")
    with caplog.at_level(logging.INFO, "tidegate"):
        run_from(job(), Restore(str(path.rename(place.folder / "moved")), claim=True))
    assert place.table() == [("sea", 3), ("wind", 1)]
    (restored,) = [text for text in told(caplog) if "query query resumes after epoch 0" in text]
    assert restored.endswith("rows of state: not counted")

"""The Delta sink: drivers that pause, other writers, VACUUM, RESTORE, tables that are replaced, the loss of power."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError

from tests.support.delta import Paused, ids_of, opened, other_writer, rows_of
from tests.support.fs_recorder import Event, FsRecorder
from tests.support.staged import committed, ids_from, of_attempt, outcome, plan, staged
from tidegate.core.records import Committable, Evidence, Outcome, Position, epoch_digest
from tidegate.disk.durable import SyncFailed
from tidegate.sinks import table_commits
from tidegate.sinks.delta import log_syncs
from tidegate.sinks.delta.committer import DeltaCommitter
from tidegate.sinks.delta.sink import DeltaSink
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def sink(path: Path) -> DeltaSink:
    return DeltaSink("numbers", path)


# --- drivers that pause ----------------------------------------------------------------------------------------


def test_a_driver_that_was_paused_before_its_commit_does_not_commit_twice(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committable, paused = staged(sink), Paused(monkeypatch)
    paused.begin(sink, committable)
    assert outcome(sink, committable) is Outcome.COMMITTED
    assert paused.resume() is Outcome.ALREADY
    assert ids_of(path) == ids_from(0)


@pytest.mark.parametrize(("epoch", "generation"), [(6, 1), (0, 2)])
def test_a_driver_that_was_paused_commits_nothing_behind_a_later_epoch(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch, epoch: int, generation: int
) -> None:
    """The library itself takes an application transaction with an older version."""
    old, new = staged(sink, 5), staged(sink, epoch, generation)
    paused = Paused(monkeypatch)
    paused.begin(sink, old)
    assert outcome(sink, new) is Outcome.COMMITTED
    assert paused.resume() is Outcome.UNKNOWN
    assert ids_of(path) == ids_from(epoch)
    assert sink.evidence(old) is Evidence.UNKNOWN


def test_a_second_timeline_that_was_paused_is_noticed(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = staged(sink), of_attempt(sink, attempt_of(run=2), rows_from(10, 2))
    paused = Paused(monkeypatch)
    paused.begin(sink, other)
    assert outcome(sink, mine) is Outcome.COMMITTED
    assert paused.resume() is Outcome.UNKNOWN
    assert sink.evidence(other) is Evidence.OTHER
    assert ids_of(path) == ids_from(0)


def test_drivers_that_open_an_empty_folder_at_once_find_one_table(path: Path) -> None:
    errors: list[BaseException] = []

    def opened_once() -> None:
        try:
            DeltaSink("numbers", path).open(plan())
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=opened_once) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert errors == []
    assert opened(path).version() == 0


def test_an_answer_that_is_lost_is_found_by_its_evidence(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committable, original = staged(sink), DeltaTable.create_write_transaction

    def lost(table: DeltaTable, *arguments: Any, **named: Any) -> None:
        original(table, *arguments, **named)
        raise OSError("the connection broke")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", lost)
        assert outcome(sink, committable) is Outcome.RETRY
    assert sink.evidence(committable) is Evidence.PRESENT
    assert outcome(sink, committable) is Outcome.ALREADY
    assert ids_of(path) == ids_from(0)


# --- other writers ---------------------------------------------------------------------------------------------


def test_another_writer_makes_a_commit_look_again_and_nothing_else(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committables, paused = [staged(sink, task=task) for task in range(2)], Paused(monkeypatch)
    paused.begin(sink, *committables)
    other_writer(path, [1])
    opened(path).optimize.compact()
    assert paused.resume() is Outcome.COMMITTED
    assert ids_of(path) == sorted([1, *_ids(0, 0), *_ids(0, 1)])
    assert [sink.evidence(each) for each in committables] == [Evidence.PRESENT] * 2, "its record is where it points"


def test_a_writer_that_is_always_faster_is_waited_for(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committable, original = staged(sink), DeltaTable.create_write_transaction
    tries: list[int] = []

    def late(table: DeltaTable, *arguments: Any, **named: Any) -> None:
        tries.append(table.version())
        opened(path).alter.set_table_properties({"delta.checkpointInterval": str(len(tries) + 1)})
        original(table, *arguments, **named)

    monkeypatch.setattr(table_commits, "TRIES", 3)
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", late)
        (answer,) = sink.commit([committable])
    assert (answer.outcome, tries) == (Outcome.RETRY, [0, 1, 2])
    assert outcome(sink, committable) is Outcome.COMMITTED


def test_others_append_and_compact_all_the_time(sink: DeltaSink, path: Path) -> None:
    sink.open(plan())
    end, written = threading.Event(), list[int]()

    def others() -> None:
        while not end.is_set():
            other_writer(path, [-1 - len(written)])
            written.append(-1 - len(written))
            if len(written) % 3 == 0:
                with suppress(CommitFailedError):  # the sink was faster
                    opened(path).optimize.compact(commit_properties=CommitProperties(max_commit_retries=0))

    thread = threading.Thread(target=others)
    thread.start()
    try:
        for epoch in range(12):
            committables = [staged(sink, epoch, task=task) for task in range(2)]
            while outcome(sink, *committables) is Outcome.RETRY:
                pass
            sink.clean(IDENTITY, epoch)
    finally:
        end.set()
        thread.join(60)
    mine = [row["id"] for row in rows_of(path) if row["id"] >= 0]
    assert sorted(mine) == sorted(number for epoch in range(12) for task in range(2) for number in _ids(epoch, task))
    assert sorted(row["id"] for row in rows_of(path) if row["id"] < 0) == sorted(written)


def _ids(epoch: int, task: int) -> Sequence[int]:
    first = (epoch * 10 + task) * 1000
    return [first, first + 1]


# --- VACUUM ----------------------------------------------------------------------------------------------------


def vacuum(path: Path) -> list[str]:
    return opened(path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)


@pytest.mark.parametrize("is_published", [False, True])
def test_vacuum_takes_nothing_that_an_epoch_needs(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch, is_published: bool
) -> None:
    """Staged files are in a hidden folder. A published file that the log does not name yet is published again."""
    committables = [staged(sink, task=task) for task in range(2)]
    if is_published:
        sink.files.publish(committables)
    assert len(vacuum(path)) == (2 if is_published else 0)
    assert outcome(sink, *committables) is Outcome.COMMITTED
    assert ids_of(path) == [*_ids(0, 0), *_ids(0, 1)]


def test_a_staged_file_that_is_gone_is_told_and_nothing_of_the_epoch_is_added(sink: DeltaSink, path: Path) -> None:
    committables = [staged(sink, task=task) for task in range(2)]
    (gone,) = path.rglob("*-t1-*.staged")
    gone.unlink()
    answers = sink.commit(committables)
    assert [answer.outcome for answer in answers] == [Outcome.RETRY, Outcome.LOST]
    assert gone.name in answers[1].detail
    assert ids_of(path) == []


def test_files_that_were_compacted_and_vacuumed_are_no_loss(sink: DeltaSink, path: Path) -> None:
    first, second = staged(sink, 0), staged(sink, 1)
    assert outcome(sink, first) is Outcome.COMMITTED
    assert outcome(sink, second) is Outcome.COMMITTED
    opened(path).optimize.compact()
    vacuum(path)
    assert outcome(sink, second) is Outcome.ALREADY
    assert ids_of(path) == ids_from(0, 1)


def test_a_file_system_without_links_gets_copies(sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committable = staged(sink)

    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refused)
        sink.files.publish([committable])
        sink.files.publish([committable])
    assert outcome(sink, committable) is Outcome.COMMITTED
    assert ids_of(path) == ids_from(0)
    sink.clean(IDENTITY, 0)
    assert [file for file in (path / ".tidegate").rglob("*") if file.is_file()] == []


# --- tables that go back ---------------------------------------------------------------------------------------


def test_a_table_that_is_restored_has_the_evidence_of_its_older_version(sink: DeltaSink, path: Path) -> None:
    committables = [staged(sink, epoch) for epoch in range(3)]
    for each in committables:
        assert outcome(sink, each) is Outcome.COMMITTED
    other_writer(path, [7])
    opened(path).restore(2)  # behind epoch 1
    assert ids_of(path) == ids_from(0, 1)
    assert sink.position(IDENTITY) == _position(committables[1])
    assert sink.evidence(committables[2]) is Evidence.UNKNOWN
    assert outcome(sink, committables[2]) is Outcome.UNKNOWN, "a running driver stops"
    assert outcome(sink, staged(sink, 3)) is Outcome.UNKNOWN
    assert outcome(sink, staged(sink, 0, generation=2)) is Outcome.COMMITTED, "a new generation begins"


def test_a_table_that_is_restored_and_put_back_has_its_evidence(sink: DeltaSink, path: Path) -> None:
    committables = [staged(sink, epoch) for epoch in range(2)]
    for each in committables:
        assert outcome(sink, each) is Outcome.COMMITTED
    opened(path).restore(1)
    assert sink.position(IDENTITY) == _position(committables[0])
    opened(path).restore(2)
    assert sink.position(IDENTITY) == _position(committables[1])
    assert outcome(sink, committables[1]) is Outcome.ALREADY
    assert outcome(sink, staged(sink, 2)) is Outcome.COMMITTED
    opened(path).restore(0)
    assert sink.position(IDENTITY) is None


def test_a_table_that_is_restored_by_time(sink: DeltaSink, path: Path) -> None:
    committed(sink, 0)
    time.sleep(0.02)
    between = time.time()
    time.sleep(0.02)
    committed(sink, 1)
    from datetime import datetime, timezone

    opened(path).restore(datetime.fromtimestamp(between, timezone.utc))
    found = sink.position(IDENTITY)
    assert found is not None
    assert found.epoch == 0


@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_a_table_that_is_another_one_has_no_evidence(sink: DeltaSink, path: Path, how: str) -> None:
    committed(sink, 0)
    if how == "deleted":
        shutil.rmtree(path)
        sink.open(plan())
    else:
        DeltaTable.create(str(path), opened(path).schema(), mode="overwrite")
    assert sink.position(IDENTITY) is None


def test_a_table_that_is_gone_at_the_commit_is_waited_for(sink: DeltaSink, path: Path) -> None:
    committable = staged(sink)
    (path / "_delta_log").rename(path / "_aside")
    assert outcome(sink, committable) is Outcome.RETRY
    assert sink.evidence(committable) is Evidence.UNKNOWN
    (path / "_aside").rename(path / "_delta_log")
    assert outcome(sink, committable) is Outcome.COMMITTED


def _position(*committables: Committable) -> Position:
    attempt = committables[0].attempt
    return Position(
        job_id=attempt.sink.job_id,
        generation=attempt.sink.generation,
        epoch=attempt.epoch,
        digest=epoch_digest(committables),
    )


# --- evidence --------------------------------------------------------------------------------------------------


def test_evidence_outlives_the_commits_of_the_log(sink: DeltaSink, path: Path) -> None:
    """A checkpoint keeps application transactions. The record of the epoch is in the commit alone."""
    committables = [staged(sink, 3, task=task) for task in range(2)]
    assert outcome(sink, *committables) is Outcome.COMMITTED
    other_writer(path, [-1])
    opened(path).create_checkpoint()
    for version in range(2):
        (path / "_delta_log" / f"{version:020}.json").unlink()
    assert sink.position(IDENTITY) == _position(*committables)
    assert outcome(sink, *committables) is Outcome.ALREADY
    assert sink.evidence(committables[0]) is Evidence.UNKNOWN
    assert outcome(sink, staged(sink, 3)) is Outcome.UNKNOWN, "another timeline"
    one = staged(sink, 4)
    assert outcome(sink, one) is Outcome.COMMITTED
    assert sink.evidence(one) is Evidence.PRESENT
    assert ids_of(path) == sorted([-1, *_ids(3, 0), *_ids(3, 1), *_ids(4, 0)])


def test_the_evidence_of_older_epochs_is_found(sink: DeltaSink, path: Path) -> None:
    committables = [staged(sink, epoch) for epoch in range(4)]
    for each in committables:
        assert outcome(sink, each) is Outcome.COMMITTED
        other_writer(path, [-1])
    assert [sink.evidence(each) for each in committables] == [Evidence.PRESENT] * 4
    assert outcome(sink, committables[1]) is Outcome.ALREADY
    assert outcome(sink, of_attempt(sink, attempt_of(epoch=1, run=2))) is Outcome.UNKNOWN


def test_an_application_transaction_of_another_tool_is_no_evidence(sink: DeltaSink, path: Path) -> None:
    sink.open(plan())
    write_deltalake(
        str(path),
        rows_of_one(),
        mode="append",
        commit_properties=CommitProperties(app_transactions=[Transaction("orders", 5)]),
    )
    assert sink.position(IDENTITY) is None


def rows_of_one() -> Any:
    import pyarrow as pa

    return pa.Table.from_batches([rows_from(0, 1)], schema=SCHEMA)


def test_evidence_of_a_job_that_moved_to_another_name_counts(sink: DeltaSink) -> None:
    import msgspec

    committed(sink, 4)
    moved = msgspec.structs.replace(IDENTITY, job="another name")
    found = sink.position(moved)
    assert found is not None
    assert found.epoch == 4
    sink.forget(moved)
    assert sink.position(moved) is None
    assert sink.position(IDENTITY) is None


def test_a_job_that_is_forgotten_leaves_its_rows_and_the_evidence_of_others(sink: DeltaSink, path: Path) -> None:
    import msgspec

    committed(sink, 0)
    other = msgspec.structs.replace(IDENTITY, sink="other")
    assert outcome(sink, of_attempt(sink, msgspec.structs.replace(attempt_of(), sink=other))) is Outcome.COMMITTED
    sink.forget(IDENTITY)
    sink.forget(IDENTITY)
    assert sink.position(IDENTITY) is None
    assert sink.position(other) is not None
    anew = msgspec.structs.replace(IDENTITY, job_id="beef")
    assert sink.position(anew) is None
    assert outcome(sink, of_attempt(sink, msgspec.structs.replace(attempt_of(), sink=anew))) is Outcome.COMMITTED
    sink.forget(IDENTITY)
    assert sink.position(anew) is not None
    assert len(ids_of(path)) == 6


# --- the loss of power -----------------------------------------------------------------------------------------


def test_what_a_commit_reports_survives_the_loss_of_power(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink.open(plan())
    disk = FsRecorder(monkeypatch, path.parent)
    committable = staged(sink)
    (staged_file,) = path.rglob("*.staged")
    chain = [staged_file, *(each for each in staged_file.parents if each.is_relative_to(path))]
    assert [each for each in disk.synced() if each in chain[:-1]] == chain[:-1], (
        "the task has synced its file, and each folder above it"
    )
    disk.forget()
    assert outcome(sink, committable) is Outcome.COMMITTED
    synced = disk.synced()
    entry = path / "_delta_log" / f"{1:020}.json"
    assert [each for each in synced if each in (path, entry, entry.parent)] == [path, entry, entry.parent]


def test_entries_of_other_writers_are_synced_because_a_log_with_a_hole_is_lost(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(sink, 0)
    other_writer(path, [1])
    committable, disk = staged(sink, 1), FsRecorder(monkeypatch, path)
    log_syncs._synced.clear()
    committed_log = path / "_delta_log"
    assert outcome(sink, committable) is Outcome.COMMITTED
    assert {committed_log / f"{version:020}.json" for version in range(4)} <= set(disk.synced())


def test_an_entry_of_another_process_is_written_again_before_it_counts(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process may have died at a sync that failed: a sync of ours would then prove nothing."""
    committable = staged(sink)
    assert outcome(sink, committable) is Outcome.COMMITTED
    disk = FsRecorder(monkeypatch, path)
    assert outcome(sink, committable) is Outcome.ALREADY
    entry = path / "_delta_log" / f"{1:020}.json"
    about = [event.what for event in disk.events if event.path == entry]
    assert about[:2] == ["write", "sync"]


@pytest.mark.parametrize("named", ["_delta_log", "00000000000000000001.json"])
def test_a_sync_that_fails_is_no_retry(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    committable = staged(sink)
    disk = FsRecorder(monkeypatch, path)
    disk.fail("sync", errno.EIO, named=named)
    for _ in range(2):
        with pytest.raises(SyncFailed):
            sink.commit([committable])


def test_the_names_of_files_are_durable_before_the_log_names_them(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committable = staged(sink)
    disk = FsRecorder(monkeypatch, path)
    names: list[Event] = []
    original = DeltaTable.create_write_transaction

    def looked_at(table: DeltaTable, *arguments: Any, **named: Any) -> None:
        names.extend(disk.events)
        original(table, *arguments, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", looked_at)
    assert outcome(sink, committable) is Outcome.COMMITTED
    assert [event.what for event in names] == ["link", "sync"]
    assert names[1].path == path


def test_a_driver_that_is_killed_after_its_commit_leaves_a_commit_that_the_next_one_finds(
    sink: DeltaSink, path: Path
) -> None:
    """In a process of its own: the library cannot be used behind a fork."""
    import multiprocessing

    committable = staged(sink)
    child = multiprocessing.get_context("spawn").Process(target=_commit_and_die, args=(sink, committable))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    assert outcome(sink, committable) is Outcome.ALREADY
    assert ids_of(path) == ids_from(0)


def _commit_and_die(sink: DeltaSink, committable: Committable) -> None:
    DeltaCommitter._settle = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # pyright: ignore[reportAttributeAccessIssue, reportPrivateUsage]
    sink.commit([committable])

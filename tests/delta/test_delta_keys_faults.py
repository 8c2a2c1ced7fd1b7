"""Rows that a Delta sink replaces by key: drivers that pause or die, VACUUM, files that are lost, the loss of power."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.support.delta import Paused, ids_of, opened, other_writer, rows_of
from tests.support.fs_recorder import FsRecorder
from tests.support.staged import committed, ids_from, outcome, staged
from tidegate.core.records import Committable, Outcome
from tidegate.sinks.delta.sink import DeltaSink
from tidegate.testing.contract import IDENTITY, SCHEMA


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def sink(path: Path) -> DeltaSink:
    return DeltaSink("numbers", path, key="id")


def again(sink: DeltaSink, epoch: int, word: str, *ids: int) -> Committable:
    """An epoch with these keys."""
    batch = pa.RecordBatch.from_pylist([{"id": number, "word": word} for number in ids], schema=SCHEMA)
    return staged(sink, epoch, rows=batch)


def words(path: Path) -> dict[int, str]:
    found = [(row["id"], row["word"]) for row in rows_of(path)]
    assert len(found) == len(dict(found))
    return dict(found)


def test_a_driver_that_was_paused_before_its_commit_takes_nothing_out(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(sink, 0)
    old, new, paused = again(sink, 1, "old", 0), again(sink, 2, "new", 0), Paused(monkeypatch)
    paused.begin(sink, old)
    assert outcome(sink, old) is Outcome.COMMITTED
    assert outcome(sink, new) is Outcome.COMMITTED
    assert paused.resume() is Outcome.ALREADY
    assert words(path)[0] == "new"
    assert ids_of(path) == ids_from(0)


def test_a_driver_of_an_older_generation_that_was_paused_replaces_no_row(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(sink, 0)
    old, paused = again(sink, 1, "old", 0), Paused(monkeypatch)
    batch = pa.RecordBatch.from_pylist([{"id": 0, "word": "new"}], schema=SCHEMA)
    new = staged(sink, 0, generation=2, rows=batch)
    paused.begin(sink, old)
    assert outcome(sink, new) is Outcome.COMMITTED
    assert paused.resume() is Outcome.UNKNOWN
    assert words(path)[0] == "new"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_driver_that_is_killed_at_its_commit_leaves_an_epoch_to_the_next_one(
    sink: DeltaSink, path: Path, moment: str
) -> None:
    """In a process of its own: the library cannot be used behind a fork."""
    committed(sink, 0, 1)
    committable = again(sink, 2, "new", 1, 10_000, 7)
    child = multiprocessing.get_context("spawn").Process(target=_commit_and_die, args=(sink, committable, moment))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    assert opened(path).version() == (3 if moment == "after" else 2)
    assert outcome(sink, committable) is (Outcome.ALREADY if moment == "after" else Outcome.COMMITTED)
    assert ids_of(path) == sorted([7, *ids_from(0, 1)])
    assert {number for number, word in words(path).items() if word == "new"} == {1, 7, 10_000}
    sink.clean(IDENTITY, 2)
    assert [file for file in (path / ".tidegate").rglob("*") if file.is_file()] == []


def _commit_and_die(sink: DeltaSink, committable: Committable, moment: str) -> None:
    original = DeltaTable.create_write_transaction

    def dies(table: DeltaTable, *arguments: Any, **named: Any) -> None:
        if moment == "after":
            original(table, *arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", dies)
        sink.commit([committable])


def test_vacuum_takes_no_file_that_was_written_again_and_is_not_in_the_log(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed(sink, 0)
    original, calls = DeltaTable.create_write_transaction, list[int]()

    def vacuumed(table: DeltaTable, *arguments: Any, **named: Any) -> None:
        if not calls:
            opened(path).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
            other_writer(path, [-1])
        calls.append(table.version())
        original(table, *arguments, **named)

    committable = again(sink, 1, "new", 0)
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", vacuumed)
        assert outcome(sink, committable) is Outcome.COMMITTED
    assert len(calls) == 2
    assert ids_of(path) == sorted([-1, *ids_from(0)])
    assert words(path)[0] == "new"


def test_a_staged_file_that_is_gone_is_told_and_nothing_is_replaced(sink: DeltaSink, path: Path) -> None:
    committed(sink, 0)
    committable = again(sink, 1, "new", 0)
    (gone,) = (each for each in path.rglob("*.staged") if "e1" in str(each.parent.name))
    gone.unlink()
    (answer,) = sink.commit([committable])
    assert answer.outcome is Outcome.LOST
    assert words(path)[0] != "new"


def test_a_file_of_the_table_that_is_gone_holds_the_epoch_up(sink: DeltaSink, path: Path) -> None:
    committed(sink, 0)
    committable = again(sink, 1, "new", 0)
    (file,) = path.glob("*.parquet")
    aside = file.rename(path / "_aside")
    assert outcome(sink, committable) is Outcome.RETRY
    aside.rename(file)
    assert outcome(sink, committable) is Outcome.COMMITTED
    assert words(path)[0] == "new"


def test_what_was_written_again_survives_the_loss_of_power(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's own MERGE syncs nothing: the log could remove a file whose other rows are lost."""
    committed(sink, 0)
    committable, disk = again(sink, 1, "new", 0), FsRecorder(monkeypatch, path)
    original = DeltaTable.create_write_transaction
    before: list[Path] = []

    def looked_at(table: DeltaTable, *arguments: Any, **named: Any) -> None:
        before.extend(disk.synced())
        original(table, *arguments, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", looked_at)
    assert outcome(sink, committable) is Outcome.COMMITTED
    made = [each for each in before if each.suffix == ".staged"]
    assert len(made) == 1, "the file with the rows that stay; the task has synced its own"
    assert before[-1] == path, "the names of both"
    assert disk.synced()[-2:] == [path / "_delta_log" / f"{2:020}.json", path / "_delta_log"]

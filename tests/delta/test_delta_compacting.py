"""Small files of a Delta table become one, behind done epochs: readers, evidence and other writers do not notice."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures

from tests.support.delta import ids_of, opened, other_writer, rows_of
from tests.support.fs_recorder import FsRecorder
from tests.support.staged import committed, ids_from, outcome, staged
from tidegate.core.errors import TidegateError
from tidegate.core.records import Evidence, Outcome
from tidegate.sinks.delta.sink import DeltaSink
from tidegate.testing.contract import IDENTITY, SCHEMA


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def sink(path: Path) -> DeltaSink:
    return DeltaSink("numbers", path, compact_at=3)


def done(sink: DeltaSink, *epochs: int) -> None:
    for epoch in epochs:
        committed(sink, epoch)
        sink.clean(IDENTITY, epoch)


def files(path: Path) -> int:
    return len(opened(path).file_uris())


def test_so_many_small_files_become_one_and_the_rows_stay(sink: DeltaSink, path: Path) -> None:
    done(sink, 0, 1)
    assert files(path) == 2
    done(sink, 2)
    assert (files(path), opened(path).version()) == (1, 4)
    done(sink, 3, 4)
    assert (files(path), opened(path).version()) == (1, 7)
    assert ids_of(path) == ids_from(*range(5))
    assert [file for file in (path / ".tidegate").rglob("*") if file.is_file()] == []


def test_each_partition_has_files_of_its_own(path: Path) -> None:
    sink = DeltaSink("numbers", path, partition_by="word", compact_at=3)
    for epoch, words in enumerate(["ab", "ac", "a", "b"]):
        batch = pa.RecordBatch.from_pylist([{"id": epoch, "word": word} for word in words], schema=SCHEMA)
        assert outcome(sink, staged(sink, epoch, rows=batch)) is Outcome.COMMITTED
        sink.clean(IDENTITY, epoch)
    counted = Counter(str(each["word"]) for each in opened(path).partitions())
    by_word = Counter(uri.rpartition("word=")[2][0] for uri in opened(path).file_uris())
    assert (by_word, set(counted)) == ({"a": 1, "b": 2, "c": 1}, set("abc"))
    assert sorted(row["id"] for row in rows_of(path)) == [0, 0, 1, 1, 2, 3]


def test_a_file_that_is_large_enough_is_left_alone(path: Path) -> None:
    sink = DeltaSink("numbers", path, target_file_bytes=1_000, compact_at=2)
    done(sink, 0, 1, 2)
    assert files(path) == 3, "each has more than half of the size"


def test_evidence_and_older_versions_are_as_they_were(sink: DeltaSink, path: Path) -> None:
    epochs = [staged(sink, epoch) for epoch in range(3)]
    for epoch, each in enumerate(epochs):
        assert outcome(sink, each) is Outcome.COMMITTED
        sink.clean(IDENTITY, epoch)
    assert files(path) == 1
    assert [sink.evidence(each) for each in epochs] == [Evidence.PRESENT] * 3
    assert outcome(sink, epochs[2]) is Outcome.ALREADY
    older: list[Any] = DeltaTable(str(path), version=2).to_pyarrow_table()["id"].to_pylist()
    assert sorted(older) == ids_from(0, 1)
    position = sink.position(IDENTITY)
    assert position is not None
    assert position.epoch == 2


def test_the_commit_says_that_no_data_changed(path: Path) -> None:
    """So a stream that reads the table does not see the rows again, and a table for appending allows it."""
    sink = DeltaSink("numbers", path, compact_at=3, properties={"delta.appendOnly": "true"})
    done(sink, 0, 1, 2)
    entry = (path / "_delta_log" / f"{4:020}.json").read_text()
    actions = [json.loads(line) for line in entry.splitlines()]
    changes = [each[what]["dataChange"] for each in actions for what in ("add", "remove") if what in each]
    assert changes == [False] * 4


def test_another_writer_that_is_faster_wins(sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(sink, 0, 1, 2)
    original = DeltaTable.create_write_transaction

    def late(table: DeltaTable, *arguments: Any, **named: Any) -> None:
        opened(path).delete("id = 0")
        original(table, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", late)
        sink.clean(IDENTITY, 2)
    assert ids_of(path) == ids_from(0, 1, 2)[1:]
    assert [file for file in (path / ".tidegate").rglob("*") if file.is_file()] == []
    sink.clean(IDENTITY, 2)
    assert (files(path), ids_of(path)) == (1, ids_from(0, 1, 2)[1:])


def test_a_table_whose_files_may_hold_deleted_rows_is_left_alone(sink: DeltaSink, path: Path) -> None:
    committed(sink, 0, 1, 2)
    opened(path).alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    sink.clean(IDENTITY, 2)
    assert files(path) == 3


def test_a_file_that_cannot_be_read_is_no_reason_to_stop(
    sink: DeltaSink, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    committed(sink, 0, 1, 2)
    next(path.glob("*.parquet")).write_bytes(b"torn")
    sink.clean(IDENTITY, 2)
    assert "untidy" in caplog.text
    assert files(path) == 3


def test_the_new_file_survives_the_loss_of_power(sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is durable, with its name, before the log removes the old ones."""
    committed(sink, 0, 1, 2)
    disk = FsRecorder(monkeypatch, path)
    original = DeltaTable.create_write_transaction
    synced: list[Path] = []

    def looked_at(table: DeltaTable, *arguments: Any, **named: Any) -> None:
        synced.extend(disk.synced())
        original(table, *arguments, **named)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", looked_at)
    sink.clean(IDENTITY, 2)
    assert synced[0].suffix == ".staged"
    assert synced[-1] == path
    assert disk.synced()[-2:] == [path / "_delta_log" / f"{4:020}.json", path / "_delta_log"]


def test_one_file_is_none_too_many() -> None:
    with pytest.raises(TidegateError, match="TG-OPTION-UNKNOWN"):
        DeltaSink("numbers", "t", compact_at=1)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("epochs", [pytest.param(40, id="40"), pytest.param(2_000, id="2000", marks=pytest.mark.more)])
def test_files_log_and_stages_stay_bounded(path: Path, epochs: int) -> None:
    """With another writer of the same table, and a log that has checkpoints and forgets what is old."""
    properties = {"delta.checkpointInterval": "10", "delta.logRetentionDuration": "interval 0 seconds"}
    sink = DeltaSink("numbers", path, key="id", compact_at=10, properties=properties)
    most = {"files": 0, "entries": 0, "staged": 0}
    others = list[int]()
    for epoch in range(epochs):
        done(sink, epoch)
        if epoch % 7 == 0:
            others.append(-epoch - 1)
            other_writer(path, others[-1:])
        if epoch % 5 == 0:
            found = {
                "files": files(path),
                "entries": len(list((path / "_delta_log").iterdir())),
                "staged": sum(1 for file in (path / ".tidegate").rglob("*") if file.is_file()),
            }
            most = {name: max(most[name], number) for name, number in found.items()}
    assert most["files"] <= 12
    assert most["entries"] <= 60
    assert most["staged"] == 0
    assert ids_of(path) == sorted([*others, *ids_from(*range(epochs))])
    position = sink.position(IDENTITY)
    assert position is not None
    assert position.epoch == epochs - 1

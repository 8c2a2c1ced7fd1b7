"""The Iceberg sink and the loss of power: what is synced before the catalog points to it."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy.orm import Session

from tests.support.fs_recorder import FsRecorder
from tests.support.iceberg import ids_of, opened, sink_in
from tests.support.staged import committed, ids_from, outcome, plan, staged
from tidegate.core.records import Outcome
from tidegate.disk.durable import SyncFailed
from tidegate.sinks.iceberg.sink import IcebergSink


@pytest.fixture
def sink(tmp_path: Path) -> IcebergSink:
    found = sink_in(tmp_path)
    found.open(plan())
    return found


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "warehouse" / "lake" / "numbers"


def test_all_of_a_commit_is_durable_before_the_catalog_points_to_it(
    sink: IcebergSink, tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, before = FsRecorder(monkeypatch, tmp_path), list[Path]()
    committable = staged(sink)
    (staged_file,) = root.rglob("*.staged")
    chain = [staged_file, *(each for each in staged_file.parents if each.is_relative_to(root / ".tidegate"))]
    assert [each for each in disk.synced() if each in chain] == chain, "the task has synced its file and its name"
    disk.forget()
    original = Session.commit

    def commit(session: Session) -> None:
        before.extend(disk.synced())
        original(session)

    monkeypatch.setattr(Session, "commit", commit)
    assert outcome(sink, committable) is Outcome.COMMITTED
    table = opened(tmp_path)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifests = [each.manifest_path for each in snapshot.manifests(table.io)]
    named = [table.metadata_location, snapshot.manifest_list, *manifests]
    wanted = {Path(each.removeprefix("file://")) for each in cast("list[str]", named)}
    assert wanted | {root / "data", root / "metadata"} <= set(before)
    assert before[-1] == root / "metadata", "the name of the metadata file is the last"


@pytest.mark.parametrize("named", [".avro", ".metadata.json", "/metadata", "/data"])
def test_a_sync_that_fails_is_no_retry(
    sink: IcebergSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    committed(sink, 0)
    committable = staged(sink, 1)
    with monkeypatch.context() as patch:
        disk = FsRecorder(patch, tmp_path)
        disk.fail("sync", errno.EIO, named=named)
        with pytest.raises(SyncFailed):
            sink.commit([committable])
    assert ids_of(tmp_path) == ids_from(0)


def test_a_full_disk_is_waited_for(sink: IcebergSink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed(sink, 0)
    committable = staged(sink, 1)
    with monkeypatch.context() as patch:
        disk = FsRecorder(patch, tmp_path)
        disk.fail("sync", errno.ENOSPC, named=".avro")
        assert outcome(sink, committable) is Outcome.RETRY
    assert outcome(sink, committable) is Outcome.COMMITTED
    assert ids_of(tmp_path) == ids_from(0, 1)

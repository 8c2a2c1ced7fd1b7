"""What Spark did not sync is synced before an epoch is decided: everything new, once, and cheaply."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from tests.support.failing_syncs import begin_a_process
from tests.support.fs_recorder import Event, FsRecorder
from tidegate.core.errors import TidegateError
from tidegate.disk.durable import SyncFailed
from tidegate.storages.local.checkpoint_sync import CheckpointSync

LONG_AGO_NS = 1_000_000_000_000_000_001


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (
        "metadata",
        "offsets/0",
        "commits/0",
        "sources/0/0",
        "state/0/_metadata/metadata",
        "state/0/0/1_a.zip",
    ):
        write(tmp_path / name)
    return tmp_path


@pytest.fixture
def disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> FsRecorder:
    return FsRecorder(monkeypatch, below=root)


def test_the_first_sync_takes_every_file_and_every_folder_but_commits(root: Path, disk: FsRecorder):
    synced = CheckpointSync(root).sync()
    assert names(root, synced) == [
        *("metadata", "offsets/0", "sources/0/0", "state/0/0/1_a.zip", "state/0/_metadata/metadata"),
        *(".", "offsets", "sources", "sources/0", "state", "state/0", "state/0/0", "state/0/_metadata"),
    ]
    assert sorted(disk.synced()) == sorted(synced)


def test_what_is_synced_once_is_not_synced_again(root: Path):
    sync = CheckpointSync(root)
    sync.sync()
    assert sync.sync() == []


def test_a_new_file_is_synced_with_its_folder(root: Path):
    sync = CheckpointSync(root)
    sync.sync()
    write(root / "state/0/0/2_b.changelog")
    assert names(root, sync.sync()) == ["state/0/0/2_b.changelog", "state/0/0"]


def test_a_new_folder_is_synced_with_the_one_above_it(root: Path):
    sync = CheckpointSync(root)
    sync.sync()
    write(root / "state/0/1/left/2_b.changelog")
    assert names(root, sync.sync()) == ["state/0/1/left/2_b.changelog", "state/0", "state/0/1", "state/0/1/left"]


def test_a_file_that_was_replaced_is_synced_again(root: Path):
    sync = CheckpointSync(root)
    sync.sync()
    write(root / "offsets/new")
    os.replace(root / "offsets/new", root / "offsets/0")
    assert names(root, sync.sync()) == ["offsets/0", "offsets"]


def test_a_file_that_has_grown_is_synced_again_but_not_its_folder(root: Path):
    sync = CheckpointSync(root)
    sync.sync()
    with open(root / "state/0/0/1_a.zip", "ab") as file:
        file.write(b"more")
    assert names(root, sync.sync()) == ["state/0/0/1_a.zip"]


def test_a_rocksdb_file_that_grew_behind_an_old_folder_is_synced_when_its_snapshot_appears(root: Path):
    write(root / "state/0/0/SSTs/000008.sst")
    make_old(root)
    sync = CheckpointSync(root)
    sync.sync()
    with open(root / "state/0/0/SSTs/000008.sst", "ab") as file:
        file.write(b"the rest of the copy")
    write(root / "state/0/0/2_b.zip")
    assert names(root, sync.sync()) == ["state/0/0/2_b.zip", "state/0/0/SSTs/000008.sst", "state/0/0"]


def test_a_change_within_the_same_clock_tick_is_not_missed(root: Path):
    """The folder's time does not move, as when a file comes within one tick of the scan."""
    sync = CheckpointSync(root)
    sync.sync()
    status = os.stat(root / "state/0/0")
    write(root / "state/0/0/2_b.changelog")
    os.utime(root / "state/0/0", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert names(root, sync.sync()) == ["state/0/0/2_b.changelog", "state/0/0"]


def test_a_folder_made_within_the_same_clock_tick_is_not_missed(root: Path):
    sync = CheckpointSync(root)
    sync.sync()
    status = os.stat(root / "state/0")
    write(root / "state/0/1/2_b.changelog")
    os.utime(root / "state/0", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert names(root, sync.sync()) == ["state/0/1/2_b.changelog", "state/0", "state/0/1"]


def test_a_folder_that_goes_within_the_same_clock_tick_is_no_error(root: Path):
    sync = CheckpointSync(root)
    sync.sync()
    make_old(root)
    sync.sync()
    shutil.rmtree(root / "state/0/0")
    make_old(root)
    assert sync.sync() == []


def test_only_spark_s_own_commits_are_left_out(root: Path):
    write(root / "sources/0/commits/0")
    assert root / "sources/0/commits/0" in CheckpointSync(root).sync()


def test_a_clock_of_whole_seconds_is_given_whole_seconds(root: Path, monkeypatch: pytest.MonkeyPatch):
    make_old(root)
    second = 2_000_000_000_000_000_000
    os.utime(root / "offsets", ns=(second, second))
    monkeypatch.setattr("tidegate.storages.local.checkpoint_sync.time.time_ns", lambda: second + 900_000_000)
    sync = CheckpointSync(root)
    sync.sync()
    write(root / "offsets/1")
    os.utime(root / "offsets", ns=(second, second))
    assert names(root, sync.sync()) == ["offsets/1", "offsets"]


def test_folders_that_rest_are_not_even_listed(root: Path, monkeypatch: pytest.MonkeyPatch):
    sync = CheckpointSync(root)
    sync.sync()
    make_old(root)
    sync.sync()
    monkeypatch.setattr(os, "scandir", None)
    assert sync.sync() == []


def test_what_spark_is_still_writing_needs_no_sync(root: Path):
    sync = CheckpointSync(root)
    sync.sync()
    write(root / "offsets/.1.3f-4a.tmp")
    write(root / "offsets/..1.3f-4a.tmp.crc")
    assert names(root, sync.sync()) == ["offsets"]


def test_checksum_files_are_synced(root: Path):
    sync = CheckpointSync(root)
    sync.sync()
    write(root / "offsets/.0.crc")
    assert names(root, sync.sync()) == ["offsets/.0.crc", "offsets"]


def test_files_and_folders_that_vanish_meanwhile_are_no_error(root: Path, disk: FsRecorder):
    for number in range(20):
        write(root / f"state/0/{number}/2_b.changelog")

    def maintenance(event: Event) -> None:
        if event == Event("sync", root / "metadata"):
            shutil.rmtree(root / "state/0/7")

    disk.before_each = maintenance
    sync = CheckpointSync(root)
    assert root / "state/0/7" not in sync.sync()
    assert names(root, sync.sync()) == ["state/0"]
    assert sync.sync() == []


def test_a_folder_that_was_removed_and_made_again_is_synced_with_the_one_above(root: Path):
    sync = CheckpointSync(root)
    sync.sync()
    shutil.rmtree(root / "state/0/0")
    write(root / "state/0/0/2_b.changelog")
    assert names(root, sync.sync()) == ["state/0/0/2_b.changelog", "state/0", "state/0/0"]


def test_a_checkpoint_that_does_not_exist_yet_has_nothing_to_sync(tmp_path: Path):
    assert CheckpointSync(tmp_path / "spark").sync() == []


def test_after_a_failed_sync_no_later_one_claims_success(root: Path, disk: FsRecorder):
    sync = CheckpointSync(root)
    disk.fail("sync", errno.EIO, named="changelog")
    write(root / "state/0/0/2_b.changelog")
    for _ in range(2):
        with pytest.raises(TidegateError, match="TG-STORAGE-UNUSABLE"):
            sync.sync()
        disk.before_each = lambda event: None


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_what_a_failed_sync_may_have_lost_is_written_again_by_the_next_process(
    root: Path, disk: FsRecorder, monkeypatch: pytest.MonkeyPatch, number: int
):
    """Spark's files stay, so a full disk is no exception: the pages are clean whether they are on the disk or not."""
    disk.fail("sync", number, named="1_a.zip")
    with pytest.raises(SyncFailed):
        CheckpointSync(root).sync()
    disk.before_each = lambda event: None
    with pytest.raises(SyncFailed, match="after an earlier sync failed"):
        CheckpointSync(root).sync()

    begin_a_process(monkeypatch)
    disk.forget()
    assert root / "state/0/0/1_a.zip" in CheckpointSync(root).sync()
    written = [event.path for event in disk.events if event.what == "write"]
    assert root / "state/0/0/1_a.zip" in written
    assert disk.synced().index(root / "state/0/0/1_a.zip") >= 0
    assert (root / "state/0/0/1_a.zip").read_bytes() == b"content"

    begin_a_process(monkeypatch)
    disk.forget()
    CheckpointSync(root).sync()
    assert not [event for event in disk.events if event.what == "write"], "once is enough"


def write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"content")


def make_old(root: Path) -> None:
    for folder in [root, *(path for path in root.glob("**/*") if path.is_dir())]:
        os.utime(folder, ns=(LONG_AGO_NS, LONG_AGO_NS))


def names(root: Path, paths: list[Path]) -> list[str]:
    """Files first, then folders, each in order."""
    files = sorted(str(path.relative_to(root)) for path in paths if not path.is_dir())
    return files + sorted(str(path.relative_to(root)) for path in paths if path.is_dir())

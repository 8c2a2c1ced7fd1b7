"""Makes the files durable that Spark wrote into a checkpoint folder. Spark itself syncs nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tidegate.disk.durable import (
    SyncFailed,
    Trust,
    change_folder,
    ensure_folder,
    is_clearly_older,
    rewrite,
    sync_folder,
    sync_kept_file,
)
from tidegate.disk.side_by_side import side_by_side
from tidegate.storages.checkpoint_files import LEFT_OUT, is_temporary

SyncedVersion: TypeAlias = tuple[int, int, int]
"""The identity of a file's content: inode, size, time of change."""


_DOUBTFUL = ".sync-failed.tmp"
"""Marks that a sync of this checkpoint has failed. A file with this name is no part of a checkpoint."""


class CheckpointSync:
    """Syncs a Spark checkpoint folder repeatedly, each file once. One thread at a time.

    `commits/` is left out: *decided* keeps the bytes of its entries. Checksum files (`.x.crc`) are synced too: a torn
    one makes a whole file unreadable for Spark.
    """

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root).absolute()
        self._trust = Trust()
        self._known: dict[str, _ScannedFolder] = {}

    def sync(self) -> list[Path]:
        """Make all files below the root durable that exist at the call. Returns the synced paths.

        Files that vanish during the call (Spark's maintenance) are no error. After a failed sync every further call
        raises: a second sync would succeed without the lost bytes. A mark in the folder then makes the next process
        write every file again. The mark need not survive a power loss, because after one a read shows the contents of
        the disk.
        """
        with self._trust.over(self._root, "sync Spark's checkpoint"):
            if not self._root.exists():
                return []
            ensure_folder(self._root)
            note = self._root / _DOUBTFUL
            is_doubtful = note.exists()
            found = _ToSync()
            self._look(str(self._root), must_scan=False, found=found)
            try:
                files = _each(_rewrite if is_doubtful else _sync_file, found.files)
                folders = _each(_sync_folder, found.folders)
            except SyncFailed:
                with suppress(OSError):  # a disk that takes no more data; the error that counts is raised
                    note.touch()
                raise
            self._known.update(found.scanned)
            if is_doubtful:
                note.unlink()
        return [Path(path) for path in (*files, *folders)]

    def _look(self, folder: str, *, must_scan: bool, found: _ToSync) -> None:
        known = self._known.get(folder)
        try:
            if known is None:
                change_folder(Path(folder))
            status = os.stat(folder)
            if known and not must_scan and known.is_unchanged(status):
                subfolders, changed = known.subfolders, False
            else:
                scanned = _scan(folder, status)
                subfolders, changed = scanned.subfolders, found.add(folder, known, scanned)
        except FileNotFoundError:
            self._known.pop(folder, None)
            return
        for name in subfolders:
            if folder != str(self._root) or name != LEFT_OUT:
                # RocksDB's files are copied into SSTs/ and logs/ in place, so they can grow without a change of the
                # folder's time. The .zip that names them appears in the folder above, and only after they are complete.
                self._look(f"{folder}/{name}", must_scan=changed, found=found)


@dataclass(frozen=True, slots=True)
class _ScannedFolder:
    """The result of one scan of a folder."""

    inode: int
    mtime_ns: int
    is_clean: bool
    files: dict[str, SyncedVersion]
    subfolders: list[str]

    def is_unchanged(self, status: os.stat_result) -> bool:
        return self.is_clean and (status.st_ino, status.st_mtime_ns) == (self.inode, self.mtime_ns)


@dataclass(slots=True)
class _ToSync:
    """The files that one call has to sync, and its results."""

    files: list[str] = field(default_factory=list[str])
    folders: list[str] = field(default_factory=list[str])
    scanned: dict[str, _ScannedFolder] = field(default_factory=dict[str, _ScannedFolder])

    def add(self, folder: str, known: _ScannedFolder | None, scanned: _ScannedFolder) -> bool:
        """Note the new files in `folder`, and whether a name in it may be new."""
        before: dict[str, SyncedVersion] = known.files if known else {}
        new = [name for name, version in scanned.files.items() if before.get(name) != version]
        self.files.extend(f"{folder}/{name}" for name in new)
        self.scanned[folder] = scanned
        has_changed = (
            known is None
            or (known.inode, known.mtime_ns) != (scanned.inode, scanned.mtime_ns)
            or any(name not in before for name in new)
            or scanned.subfolders != known.subfolders
        )
        if has_changed:
            self.folders.append(folder)
        return has_changed


def _scan(folder: str, status: os.stat_result) -> _ScannedFolder:
    """List a folder. `status`: the folder's status from before the call.

    A file that is added during the listing changes the folder's time, so the next sync lists the folder again.
    """
    now = time.time_ns()
    files: dict[str, SyncedVersion] = {}
    subfolders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                subfolders.append(entry.name)
            elif not is_temporary(entry.name):
                _note(entry, files)
    return _ScannedFolder(
        inode=status.st_ino,
        mtime_ns=status.st_mtime_ns,
        is_clean=is_clearly_older(status.st_mtime_ns, now),
        files=files,
        subfolders=sorted(subfolders),
    )


def _note(entry: os.DirEntry[str], files: dict[str, SyncedVersion]) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return
    files[entry.name] = (status.st_ino, status.st_size, status.st_mtime_ns)


def _each(sync: Callable[[str], bool], paths: list[str]) -> list[str]:
    """The paths that `sync` found and made durable."""
    return [path for path, was_there in zip(paths, side_by_side(sync, paths), strict=True) if was_there]


def _sync_file(path: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        sync_kept_file(descriptor)
    finally:
        os.close(descriptor)
    return True


def _rewrite(path: str) -> bool:
    try:
        rewrite(Path(path))
    except FileNotFoundError:
        return False
    return True


def _sync_folder(path: str) -> bool:
    try:
        sync_folder(Path(path))
    except FileNotFoundError:
        return False
    return True

"""Makes the log of a table durable on a disk: the library syncs nothing.

An entry proves nothing while an older one may be lost: readers refuse a log with a hole. So every entry up to a version
is synced, also those of other writers. Each process syncs each entry once; an entry never changes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tidegate.disk.durable import Identity, rewrite, sync_folder, sync_kept_file

ENTRY = re.compile(r"(\d{20})\.json")
HINT = "_last_checkpoint"
"""The file that names the newest checkpoint of the table."""

_synced: dict[Identity, int] = {}
"""By the folder of a log: the newest version that this process has synced."""


def sync_log(folder: Path, version: int, doubtful: Iterable[int] = ()) -> None:
    """Make all entries up to `version` durable, with their names and the name of the folder.

    `doubtful`: entries that another process may have synced in vain. They are written again, unchanged.
    """
    status = folder.stat()
    identity = status.st_dev, status.st_ino
    first = _synced.get(identity, -1) + 1
    for name in sorted(os.listdir(folder)):
        entry = ENTRY.fullmatch(name)
        if entry is not None and first <= int(entry[1]) <= version:
            _sync(folder / name)
    for each in doubtful:
        with suppress(FileNotFoundError):  # the log does not keep it any more
            rewrite(folder / f"{each:020}.json")
    sync_folder(folder)
    if first == 0:
        sync_folder(folder.parent)
    _synced[identity] = max(version, first - 1)


def sync_checkpoint(folder: Path, version: int) -> None:
    """Make a checkpoint of the table durable, and the note that names it."""
    for name in sorted(os.listdir(folder)):
        if name == HINT or name.startswith(f"{version:020}.checkpoint"):
            _sync(folder / name)
    sync_folder(folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync_kept_file(descriptor)
    finally:
        os.close(descriptor)

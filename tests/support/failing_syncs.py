"""Syncs that fail, and a disk that has then lost what they were for: the page cache calls it clean. Linux only.

    disk = FailingSyncs(monkeypatch, below=tmp_path)
    disk.fail(3, errno.EIO)          # the fourth sync from now on
    ...
    begin_a_process(monkeypatch)     # what only the memory of a process knew is gone
    ...
    disk.lose_power()                # names and contents that no sync has written are as before

After a failed sync a later one of the same file or folder succeeds, as on Linux. It writes only what was changed in
between: a file whose bytes were written again, a folder that was changed.
"""

from __future__ import annotations

import os
import stat
import time
from collections import OrderedDict
from pathlib import Path

import pytest

from tests.simulation.saved.watched import _Platter
from tidegate.disk import durable

_FSYNC = os.fsync
_TICK_SECONDS = 0.02
"""More than the step by which a file's time moves."""


class FailingSyncs:
    """Counts the syncs below one folder that go through `os.fsync`, and lets chosen ones fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, below: Path) -> None:
        self.synced: list[Path] = []
        self.failed: list[Path] = []
        self._below = below.resolve()
        self._failing: dict[int, int] = {}
        self._failing_paths: dict[Path, int] = {}
        self._lost: dict[int, int] = {}
        self._platter = _Platter(self._below)
        self._platter.settle()
        monkeypatch.setattr(os, "fsync", self._sync)

    def fail(self, at: int, number: int, *further: int) -> None:
        """Let the sync number `at` from now on (and those of `further`) fail with this errno."""
        self.synced.clear()
        self.failed.clear()
        self._failing = dict.fromkeys((at, *further), number)

    def fail_path(self, path: Path, number: int) -> None:
        """Let the next sync of `path`, and no other, fail with this errno."""
        self.fail(-1, 0)
        self._failing_paths = {path: number}

    def lose_power(self) -> None:
        """Leave what a power loss leaves."""
        self._platter.lose(names_stay=False)
        self._lost.clear()

    def _sync(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if not path.is_relative_to(self._below):
            _FSYNC(descriptor)
            return
        number = self._failing.pop(len(self.synced) + len(self.failed), self._failing_paths.pop(path, None))
        status = os.fstat(descriptor)
        changed = status.st_ctime_ns if stat.S_ISDIR(status.st_mode) else status.st_mtime_ns
        if number is not None:
            self.failed.append(path)
            self._lost[status.st_ino] = changed
            time.sleep(_TICK_SECONDS)
            raise OSError(number, os.strerror(number))
        self.synced.append(path)
        if self._lost.get(status.st_ino) != changed:
            self._lost.pop(status.st_ino, None)
            self._platter.sync(descriptor)


def begin_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what the process knows of folders and failed syncs, as a new one does not know it."""
    monkeypatch.setattr(durable, "_failed", {})
    monkeypatch.setattr(durable, "_settled", {})
    monkeypatch.setattr(durable, "_changed", OrderedDict())

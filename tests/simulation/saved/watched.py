"""A real folder whose changes are counted: before any of them the process, or the power, may go.

The interpreter tells of every call that opens, makes, links, renames or removes something (`sys.addaudithook`); a sync
is seen because `os.fsync` is replaced. Once the process is dead nothing changes any more, whatever is unwound.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Final


class Hit(Enum):
    """What strikes before a change, or in its place."""

    KILL = "kill"  # the process is gone
    TORN = "torn"  # a file has its name and no content yet, then the process is gone
    DROP = "drop"  # a power loss: names and contents that were not synced are as before
    EMPTY = "empty"  # a power loss: names are there, contents that were not synced are not
    BURST = "burst"  # no harm: while the change waits, the job's queries go on to the end of their input


POWER: Final = frozenset({Hit.DROP, Hit.EMPTY})


class Killed(BaseException):
    """The process is dead. No `except Exception` holds it up."""


@dataclass(frozen=True, slots=True)
class Strike:
    """`hit` strikes at the change number `at`, counted from the begin."""

    hit: Hit
    at: int

    def __str__(self) -> str:
        return f"{self.hit.value}@{self.at}"


class Watched:
    """The changes below `root`. `changes` counts them; a strike is taken from `strikes` when its turn has come."""

    def __init__(self, root: Path, strikes: tuple[Strike, ...] = ()) -> None:
        self.root = root
        self.changes = 0
        self.creates: set[int] = set()
        self.burst: Callable[[], None] | None = None
        self._below = f"{root}/"
        self._strikes = list(strikes)
        self._platter = _Platter(root)
        self._death: Hit | None = None
        self._is_quiet = False

    @contextmanager
    def __call__(self) -> Generator[None, None, None]:
        """Watch while the body runs."""
        fsync = os.fsync
        _WATCHED.append(self)
        os.fsync = self._fsync
        try:
            yield
        finally:
            os.fsync = fsync
            _WATCHED.pop()

    def step(self, made: str | None = None) -> None:
        """A change is about to be made; `made` is the file that it would create."""
        if self._death is not None:
            raise Killed
        if self._is_quiet:
            return
        self.changes += 1
        if made is not None:
            self.creates.add(self.changes)
        if not self._strikes or self._strikes[0].at != self.changes:
            return
        hit = self._strikes.pop(0).hit
        if hit is Hit.BURST:
            with self._quiet():
                if self.burst is not None:
                    self.burst()
            return
        if hit is Hit.TORN and made is not None:
            with self._quiet():
                os.close(os.open(made, os.O_WRONLY | os.O_CREAT, 0o666))
        self._death = hit
        raise Killed

    def revive(self) -> None:
        """The next process begins, on what the last one has left."""
        death, self._death = self._death, None
        if death in POWER:
            with self._quiet():
                self._platter.lose(names_stay=death is Hit.EMPTY)

    def settle(self) -> None:
        """Everything that stands below `root` is durable."""
        with self._quiet():
            self._platter.settle()

    def seen(self, event: str, args: tuple[Any, ...]) -> None:
        """What the interpreter tells."""
        path = _path(event, args)
        if path is None or not path.startswith(self._below):
            return
        if self._death is not None:
            raise Killed
        if event == "open":
            if args[2] & _WRITES:
                self.step(path if args[2] & os.O_CREAT and not os.path.lexists(path) else None)
        elif event not in _READS:
            self.step()

    def _fsync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if f"{path}/".startswith(self._below):
            self.step()
            self._platter.sync(descriptor)

    @contextmanager
    def _quiet(self) -> Generator[None, None, None]:
        before, self._is_quiet = self._is_quiet, True
        try:
            yield
        finally:
            self._is_quiet = before


_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_READS: Final = frozenset({"os.listdir", "os.scandir"})
_PATHS: Final = {
    **dict.fromkeys(("open", "os.listdir", "os.scandir", "os.truncate"), (0, None)),
    **dict.fromkeys(("os.remove", "os.rmdir"), (0, 1)),
    "os.mkdir": (0, 2),
    "os.rename": (1, 3),
    "os.link": (1, 3),
}
"""Where an event has the path that changes, and the descriptor of the folder that it is relative to."""

_WATCHED: list[Watched] = []


def _told(event: str, args: tuple[Any, ...]) -> None:
    if _WATCHED and event in _PATHS:
        _WATCHED[-1].seen(event, args)


sys.addaudithook(_told)


def _path(event: str, args: tuple[Any, ...]) -> str | None:
    at, folder = _PATHS[event]
    if not isinstance(args[at], str | bytes | os.PathLike):
        return None
    path = os.fsdecode(args[at])
    descriptor = -1 if folder is None else args[folder]
    if os.path.isabs(path) or descriptor == -1:
        return os.path.abspath(path)
    return os.path.join(os.readlink(f"/proc/self/fd/{descriptor}"), path)


@dataclass(slots=True)
class _Platter:
    """What has reached the disk: the names in each folder, and the contents of files, by the number of their inode."""

    root: Path
    names: dict[int, dict[str, int]] = field(default_factory=dict[int, dict[str, int]])
    contents: dict[int, bytes] = field(default_factory=dict[int, bytes])
    folders: dict[int, set[str]] = field(default_factory=dict[int, set[str]])

    def sync(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if not stat.S_ISDIR(status.st_mode):
            self.contents[status.st_ino] = Path(f"/proc/self/fd/{descriptor}").read_bytes()
            return
        with os.scandir(os.readlink(f"/proc/self/fd/{descriptor}")) as found:
            entries = list(found)
        self.names[status.st_ino] = {entry.name: entry.inode() for entry in entries}
        self.folders[status.st_ino] = {entry.name for entry in entries if entry.is_dir(follow_symlinks=False)}

    def lose(self, *, names_stay: bool) -> None:
        """Leave what a power loss leaves; all of it is durable then."""
        tree = self._standing(self.root) if names_stay else self._durable(self.root.stat().st_ino)
        for path in self.root.iterdir():
            shutil.rmtree(path)
        self._write(tree, self.root)
        self.names.clear()
        self.contents.clear()
        self.folders.clear()
        self.settle()

    def settle(self) -> None:
        """All that is there is durable."""
        for path in (self.root, *self.root.rglob("*")):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                self.sync(descriptor)
            finally:
                os.close(descriptor)

    def _durable(self, folder: int) -> dict[str, Any]:
        return {
            name: self._durable(inode) if name in self.folders[folder] else self.contents.get(inode, b"")
            for name, inode in self.names.get(folder, {}).items()
        }

    def _standing(self, folder: Path) -> dict[str, Any]:
        return {
            path.name: self._standing(path) if path.is_dir() else self.contents.get(path.stat().st_ino, b"")
            for path in folder.iterdir()
        }

    def _write(self, tree: dict[str, Any], folder: Path) -> None:
        for name, content in tree.items():
            if isinstance(content, bytes):
                (folder / name).write_bytes(content)
            else:
                (folder / name).mkdir()
                self._write(content, folder / name)

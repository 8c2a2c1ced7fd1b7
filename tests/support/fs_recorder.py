"""Records what code does to the disk, in order, and tells what a power loss would leave of it. Linux only.

    disk = FsRecorder(monkeypatch, below=tmp_path)
    storage.put_if_absent("done/3", b"...")
    assert disk.survives(tmp_path / "done/3")

The model is the strictest disk that POSIX allows: content stays only when the file was synced after its last write,
a name only when its folder was synced after the name was given, and that holds for every folder above it.
It sees what goes through `os`: open, write, pwrite, fsync, link, rename, replace, unlink, mkdir; not `open()`, and
under Python 3.10 not the methods of `Path`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Event:
    """One successful call. `what`: create, write, sync, link, rename, unlink or mkdir; `to` for link and rename."""

    what: str
    path: Path
    to: Path | None = None


class FsRecorder:
    """Wraps the functions of `os` for the length of a test and keeps the events below one folder."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, below: Path) -> None:
        self.events: list[Event] = []
        self.before_each: Callable[[Event], None] = lambda event: None
        """Called before every recorded call, with its event: the place for faults and kills."""
        self._below = below.resolve()
        self._install(monkeypatch)

    def fail(self, what: str, error_number: int, *, named: str = "") -> None:
        """Let every later call of this kind fail, if its path contains `named`."""

        def before(event: Event) -> None:
            if event.what == what and named in str(event.path):
                raise OSError(error_number, os.strerror(error_number), str(event.path))

        self.before_each = before

    def forget(self) -> None:
        """Drop the events so far; a file that was written before them is unknown to `survives`."""
        self.events.clear()

    def synced(self) -> list[Path]:
        """The files and folders that were synced, in order."""
        return [event.path for event in self.events if event.what == "sync"]

    def survives(self, path: Path) -> bool:
        """Whether a power loss now leaves `path` with its whole content."""
        disk = _PowerLossModel()
        for event in self.events:
            disk.apply(event)
        return disk.keeps(path.resolve(), self._below)

    def _install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def wrap(name: str, event_of: Callable[..., Event | None]) -> None:
            original = getattr(os, name)

            def wrapped(*args: Any, **kwargs: Any) -> Any:
                event = event_of(*args, **kwargs)
                if event is None or not event.path.is_relative_to(self._below):
                    return original(*args, **kwargs)
                self.before_each(event)
                result = original(*args, **kwargs)
                self.events.append(event)
                return result

            monkeypatch.setattr(os, name, wrapped)

        wrap("open", _creation)
        wrap("write", lambda descriptor, data: Event("write", _path_of(descriptor)))
        wrap("pwrite", lambda descriptor, *_: Event("write", _path_of(descriptor)))
        wrap("fsync", lambda descriptor: Event("sync", _path_of(descriptor)))
        wrap("link", lambda path, to, **_: Event("link", _absolute(path), _absolute(to)))
        wrap("rename", lambda path, to, **_: Event("rename", _absolute(path), _absolute(to)))
        wrap("replace", lambda path, to, **_: Event("rename", _absolute(path), _absolute(to)))
        wrap("unlink", lambda path, **_: Event("unlink", _absolute(path)))
        wrap("mkdir", lambda path, *_, **__: Event("mkdir", _absolute(path)))


def in_a_killed_child(disk: FsRecorder, step: int, action: Callable[[], object]) -> None:
    """Run `action` in a forked process that is killed before its call number `step` to the disk."""
    child = os.fork()
    if child == 0:
        countdown = [step]

        def kill_at_zero(event: Event) -> None:
            if countdown[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            countdown[0] -= 1

        disk.before_each = kill_at_zero
        try:
            action()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


class _PowerLossModel:
    """Names point to files by number; beside that, what of both has reached the disk."""

    def __init__(self) -> None:
        self._names: dict[Path, int] = {}
        self._names_on_disk: dict[Path, int] = {}
        self._made: set[Path] = set()
        self._unsynced: set[int] = set()
        self._files = 0

    def apply(self, event: Event) -> None:
        match event:
            case Event("create" | "mkdir", path):
                self._files += 1
                self._names[path] = self._files
                self._made.add(path)
                if event.what == "create":
                    self._unsynced.add(self._files)
            case Event("write", path):
                self._unsynced.add(self._names[path])
            case Event("sync", path):
                self._sync(path)
            case Event("link", path, Path() as to):
                self._names[to] = self._names[path]
                self._made.add(to)
            case Event("rename", path, Path() as to) if path in self._names:
                self._names[to] = self._names.pop(path)
                self._made.add(to)
            case Event("unlink", path):
                self._names.pop(path, None)
            case _:
                pass

    def keeps(self, path: Path, below: Path) -> bool:
        chain = [each for each in (path, *path.parents) if each != below and each.is_relative_to(below)]
        made_here = [each for each in chain if each in self._made]
        return path in self._names_on_disk and all(
            self._names_on_disk.get(each) is not None and self._names_on_disk[each] not in self._unsynced
            for each in made_here
        )

    def _sync(self, path: Path) -> None:
        self._unsynced.discard(self._names.get(path, 0))
        for name in [name for name in self._names_on_disk if name.parent == path]:
            del self._names_on_disk[name]
        self._names_on_disk.update({name: file for name, file in self._names.items() if name.parent == path})


def _creation(path: Any, flags: int, *_: Any, **__: Any) -> Event | None:
    if not isinstance(path, (str, Path)) or not flags & os.O_CREAT or os.path.exists(path):
        return None
    return Event("create", _absolute(path))


def _path_of(descriptor: int) -> Path:
    return Path(os.readlink(f"/proc/self/fd/{descriptor}"))


def _absolute(path: str | Path) -> Path:
    return Path(path).parent.resolve() / Path(path).name

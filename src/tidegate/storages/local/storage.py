"""`Storage` on a local disk."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeAlias, TypeVar

from tidegate.disk.durable import Trust, ensure_folder, outlasting_removals, remove_folder, sync_folder, write_synced
from tidegate.storages.storage import Names, RecordStat, demand_below

FileVersion: TypeAlias = tuple[int, int, int, int]
"""The identity of a file under a name: inode, size, times of its content and of its last rename or link."""


_Given = TypeVar("_Given")


class LocalStorage:
    """`Storage` on a local disk. Threads and processes may share a folder."""

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root).absolute()
        self._trust = Trust()
        self._durable: dict[Path, dict[str, FileVersion]] = {}

    def path(self, name: str) -> Path:
        """The path of `name`. Names outside of the root are refused."""
        demand_below(name)
        return self._root / name

    def where(self, name: str = "") -> str:
        return str(self.path(name))

    def below(self, folder: str) -> LocalStorage:
        return LocalStorage(self.path(folder))

    def put_if_absent(self, name: str, data: bytes) -> bool:
        target = self.path(name)
        with self._trust.over(target, "create a file"):
            created = outlasting_removals(lambda: _written(target, data, _link))
            self._settle(target)  # also on False: the other process may have been killed before its sync
        return created

    def replace(self, name: str, data: bytes) -> None:
        target = self.path(name)
        with self._trust.over(target, "replace a file"):
            outlasting_removals(lambda: _written(target, data, os.replace))
            self._settle(target)

    def note(self, name: str, data: bytes) -> None:
        target = self.path(name)
        temporary = target.with_name(f".{target.name}{_TEMPORARY_SUFFIX}")
        with self._trust.over(target, "write a file"):
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                temporary.write_bytes(data)
                os.replace(temporary, target)
            except OSError:
                with suppress(OSError):  # a failed write must not hide the original error
                    temporary.unlink()
                raise

    def read(self, name: str) -> bytes | None:
        target = self.path(name)
        with self._trust.over(target, "read a file"):
            try:
                with target.open("rb") as file:
                    data, version = file.read(), _version(os.fstat(file.fileno()))
            except FileNotFoundError:
                return None
            if self._durable.get(target.parent, {}).get(target.name) != version:
                sync_folder(target.parent)
                self._durable.setdefault(target.parent, {})[target.name] = version
        return data

    def peek(self, name: str) -> bytes | None:
        target = self.path(name)
        with Trust().over(target, "read a file"):
            try:
                return target.read_bytes()
            except FileNotFoundError:
                return None

    def look(self, name: str) -> RecordStat | None:
        target = self.path(name)
        with Trust().over(target, "look at a file"):
            try:
                status = os.stat(target)
            except (FileNotFoundError, NotADirectoryError):
                return None
        return RecordStat(status.st_size, status.st_mtime)

    def list(self, folder: str) -> Names:
        path = self.path(folder)
        with self._trust.over(path, "list a folder"):
            try:
                found = _versions(path)
                if not found.items() <= self._durable.get(path, {}).items():
                    sync_folder(path)
            except FileNotFoundError:
                return []
            self._durable[path] = found
        return sorted(found)

    def peek_names(self, folder: str) -> Names:
        path = self.path(folder)
        with Trust().over(path, "list a folder"):
            try:
                return sorted(_versions(path))
            except (FileNotFoundError, NotADirectoryError):
                return []

    def folders(self, folder: str) -> Names:
        path = self.path(folder)
        with Trust().over(path, "list a folder"):
            try:
                with os.scandir(path) as entries:
                    return sorted(entry.name for entry in entries if entry.is_dir())
            except (FileNotFoundError, NotADirectoryError):
                return []

    def delete(self, name: str) -> None:
        target = self.path(name)
        with self._trust.over(target, "remove a file"):
            self._durable.get(target.parent, {}).pop(target.name, None)
            target.unlink(missing_ok=True)

    def delete_all(self, names: Sequence[str]) -> None:
        for name in names:
            self.delete(name)

    def delete_folder(self, folder: str) -> None:
        path = self.path(folder)
        with suppress(OSError):  # there is something in it, or it is gone
            path.rmdir()

    def clear(self, folder: str) -> None:
        path = self.path(folder)
        with self._trust.over(path, "remove a folder"):
            remove_folder(path)

    def settle(self, folder: str) -> None:
        path = self.path(folder)
        with self._trust.over(path, "remove files"):
            sync_folder(path)

    def set_aside(self, name: str) -> str | None:
        target = self.path(name)
        with self._trust.over(target, "set a file aside"):
            if not target.exists():
                return None
            aside = _reserve_aside(target)
            try:
                os.rename(target, aside)
            except FileNotFoundError:
                aside.unlink()
                return None
            sync_folder(target.parent)
        return str(Path(name).with_name(aside.name))

    def remove_leftovers(self, folder: str, of: str = "") -> None:
        path = self.path(folder)
        with self._trust.over(path, "clean a folder"), suppress(FileNotFoundError):
            for name in os.listdir(path):
                if _is_temporary(name) and name.startswith(f".{of}"):
                    (path / name).unlink(missing_ok=True)

    def _settle(self, target: Path) -> None:
        """Make the name of a file durable, and remember the file: until another file takes its place, reads and lists
        in this process need no sync.
        """
        try:
            version = _version(os.stat(target))
        except FileNotFoundError:  # removed by another process
            version = None
        sync_folder(target.parent)
        if version is not None:
            self._durable.setdefault(target.parent, {})[target.name] = version


_TEMPORARY_SUFFIX = ".tidegate.tmp"


@contextmanager
def _temporary_file(target: Path, data: bytes) -> Generator[Path, None, None]:
    """A synced file with `data` beside `target`, removed at the end (unless it was renamed)."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_TEMPORARY_SUFFIX}")
    try:
        write_synced(temporary, data)
        yield temporary
    finally:
        with suppress(OSError):  # a leftover is hidden, and must not hide the error that left it
            temporary.unlink(missing_ok=True)


def _written(target: Path, data: bytes, give_name: Callable[[Path, Path], _Given]) -> _Given:
    """Write `data` into the folder of `target`, and give the finished file that name."""
    ensure_folder(target.parent)
    with _temporary_file(target, data) as temporary:
        return give_name(temporary, target)


def _link(temporary: Path, target: Path) -> bool:
    """Give the finished file its name unless the name exists: the one atomic step of a put-if-absent."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    return True


def _versions(folder: Path) -> dict[str, FileVersion]:
    """The files in `folder` without temporary ones."""
    found: dict[str, FileVersion] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file() and not _is_temporary(entry.name):
                with suppress(FileNotFoundError):
                    found[entry.name] = _version(entry.stat())
    return found


def _version(status: os.stat_result) -> FileVersion:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(_TEMPORARY_SUFFIX)


def _reserve_aside(target: Path) -> Path:
    """A free name, reserved by creating it: a rename would silently replace a file that another process set aside."""
    number = 0
    while True:
        aside = target.with_name(f".aside-{target.name}-{number}")
        try:
            os.close(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            number += 1
        else:
            return aside

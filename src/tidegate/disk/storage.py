"""The storage port, and the local disk behind it: records appear whole or not at all, and stay."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TypeAlias

from tidegate.core.errors import Code, TidegateError
from tidegate.disk.durable import Trust, ensure_folder, sync_folder, write_synced

Names: TypeAlias = list[str]
Version: TypeAlias = tuple[int, int, int, int]
"""What tells one file of a name from the next: inode, size, times of its content and of its last rename or link."""


class Storage(Protocol):
    """Where the durable records of a job are kept. Names are relative, with `/` between folders.

    What a put wrote, and what `read` and `list` gave out, survives a power loss: whoever obeys a record that
    another process left behind must not lose it again.
    """

    def put_if_absent(self, name: str, data: bytes) -> bool:
        """Create `name` with `data`, whole or not at all, durable at return. True when this call created it.

        Of two calls at once exactly one creates. On False the content that stands there is untouched and durable.
        """
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Give `name` the content `data`, at once and durably; a reader sees the old content or the new one."""
        ...

    def read(self, name: str) -> bytes | None:
        """The content of `name`, None when it is absent."""
        ...

    def list(self, folder: str) -> Names:
        """The names of the files directly in `folder`, sorted, without temporary files. [] when it is absent."""
        ...

    def delete(self, name: str) -> None:
        """Remove `name`; no error when it is absent. Not durable: after a power loss the file may be back."""
        ...

    def set_aside(self, name: str) -> str | None:
        """Rename `name` to a free `.aside-<name>-<n>` in its folder, durably, and give the new name.

        None when the file was gone. Spark takes only names that are numbers for log entries, so never this one.
        """
        ...


class LocalStorage:
    """`Storage` on a local disk. Threads and processes may share a folder.

    Raises TidegateError STORAGE_FULL or STORAGE_UNUSABLE for whatever the disk answers.
    """

    def __init__(self, root: str | Path) -> None:
        self._root = Path(root).absolute()
        self._trust = Trust()
        self._durable: dict[Path, dict[str, Version]] = {}

    def path(self, name: str) -> Path:
        """Where `name` lies. Names that leave the root are refused."""
        if name.startswith("/") or ".." in name.split("/"):
            raise ValueError(f"not a name below the storage's root: {name!r}")
        return self._root / name

    def put_if_absent(self, name: str, data: bytes) -> bool:
        target = self.path(name)
        with self._trust.over(target, "create a file"):
            ensure_folder(target.parent)
            with _temporary_file(target, data) as temporary:
                created = _link(temporary, target)
            self._settle(target)  # also on False: the other one may have been killed before its sync
        return created

    def replace(self, name: str, data: bytes) -> None:
        target = self.path(name)
        with self._trust.over(target, "replace a file"):
            ensure_folder(target.parent)
            with _temporary_file(target, data) as temporary:
                os.replace(temporary, target)
            self._settle(target)

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

    def delete(self, name: str) -> None:
        target = self.path(name)
        with self._trust.over(target, "remove a file"):
            self._durable.get(target.parent, {}).pop(target.name, None)
            target.unlink(missing_ok=True)

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
        """Remove the temporary files that killed processes left in `folder`; with `of` those of the file of that name.

        Only while the lease proves that nobody else writes there; who does nevertheless fails, and harms nothing.
        """
        path = self.path(folder)
        with self._trust.over(path, "clean a folder"), suppress(FileNotFoundError):
            for name in os.listdir(path):
                if _is_temporary(name) and name.startswith(f".{of}"):
                    (path / name).unlink(missing_ok=True)

    def _settle(self, target: Path) -> None:
        """Make the name of a file durable, and remember which file has it: until another one takes its place, whoever
        reads or lists it here needs no sync."""
        try:
            version = _version(os.stat(target))
        except FileNotFoundError:  # somebody has removed it again
            version = None
        sync_folder(target.parent)
        if version is not None:
            self._durable.setdefault(target.parent, {})[target.name] = version


def check_folder(folder: str | Path) -> TidegateError | None:
    """Try everything that `Storage` promises in `folder` (made if missing) on a scratch file; None when it works."""
    storage = LocalStorage(folder)
    name = f".check-{secrets.token_hex(4)}"
    try:
        for what, attempt, wanted in _trials(storage, name):
            found = attempt()
            if found != wanted:
                return _broken_promise(what, wanted, found, storage.path(name))
    except TidegateError as error:
        return error
    return None


_TEMPORARY_SUFFIX = ".tidegate.tmp"


@contextmanager
def _temporary_file(target: Path, data: bytes) -> Generator[Path, None, None]:
    """A synced file with `data` beside `target`, removed at the end (unless it was renamed)."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_TEMPORARY_SUFFIX}")
    try:
        write_synced(temporary, data)
        yield temporary
    finally:
        with suppress(OSError):  # a leftover is hidden, and must not cover the error that left it
            temporary.unlink(missing_ok=True)


def _link(temporary: Path, target: Path) -> bool:
    """Give the finished file its name unless the name is taken: the one atomic step of a put-if-absent."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        return False
    return True


def _versions(folder: Path) -> dict[str, Version]:
    """The files in `folder` without temporary ones."""
    found: dict[str, Version] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file() and not _is_temporary(entry.name):
                with suppress(FileNotFoundError):
                    found[entry.name] = _version(entry.stat())
    return found


def _version(status: os.stat_result) -> Version:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith(_TEMPORARY_SUFFIX)


def _reserve_aside(target: Path) -> Path:
    """A free name, made ours by creating it: a rename would silently replace a file set aside by another."""
    number = 0
    while True:
        aside = target.with_name(f".aside-{target.name}-{number}")
        try:
            os.close(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        except FileExistsError:
            number += 1
        else:
            return aside


def _trials(storage: LocalStorage, name: str) -> Iterator[tuple[str, Callable[[], object], object]]:
    yield "a first put", lambda: storage.put_if_absent(name, b"first"), True
    yield "a second put of the same name", lambda: storage.put_if_absent(name, b"second"), False
    yield "reading what was put", lambda: storage.read(name), b"first"
    yield "replacing it", lambda: storage.replace(name, b"third"), None
    yield "reading what replaced it", lambda: storage.read(name), b"third"
    yield "finding it in the list", lambda: name in storage.list(""), True
    yield "deleting it", lambda: storage.delete(name), None
    yield "reading what was deleted", lambda: storage.read(name), None


def _broken_promise(what: str, wanted: object, found: object, where: Path) -> TidegateError:
    return TidegateError(
        Code.STORAGE_UNUSABLE,
        expected=f"{what} gives {wanted!r}",
        found=repr(found),
        where=str(where),
        next_step="choose a folder on a local file system with hard links (checkpointing.dir)",
    )

"""A savepoint as one stream, for a pipe or a store of objects: a tar archive whose first member is the manifest.

So a reader knows every file, its length and its checksum before the first file arrives. Both sides compare each file
with the manifest. Import takes only files that the manifest names, into a hidden folder, and renames the folder after
all of it is durable.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from lzma import LZMAError
from pathlib import Path
from typing import IO, cast

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import FileFlaw, SavedFile, SavepointRecord, decode, digest_of
from tidegate.disk.blocks import Readable
from tidegate.disk.durable import Trust, ensure_folder, storage_error, sync_file, sync_folder
from tidegate.disk.walking import files_below
from tidegate.savepoints.folder import (
    MANIFEST,
    Savepoint,
    open_savepoint,
)
from tidegate.savepoints.place import check_place
from tidegate.savepoints.proof import copy_verified
from tidegate.savepoints.saved_bytes import manifest_of, names_wrong, opened_file, where_is
from tidegate.storages.schemes import Folder

MANIFEST_AT_MOST_BYTES = 1 << 30
"""Enough for some seven million files. A longer first member is not a manifest."""

_NO_ARCHIVE = (tarfile.TarError, EOFError, ValueError, zlib.error, LZMAError)
"""The errors of `tarfile` for invalid bytes: ValueError comes from a number or a text in an extended header."""

_EXPORT_AGAIN = "use a complete copy of the savepoint (`tidegate savepoint verify`), and export it again"

BytesPassed = Callable[[int, int], None]
"""Receives the number of new bytes, and of all bytes."""


def export_stream(savepoint: Savepoint, into: IO[bytes], passed: BytesPassed = lambda _more, _total: None) -> None:
    """Write a savepoint as an archive. If that fails, the archive has no end, and every reader refuses it.

    Raises SAVEPOINT_ALTERED, SAVEPOINT_INCOMPLETE or SAVEPOINT_UNSAFE if the savepoint has changed since it was taken,
    a storage error if it cannot be read, and OSError if the archive cannot be written.
    """
    for error in names_wrong(savepoint):
        raise error
    total = savepoint.size_bytes
    with tarfile.open(fileobj=into, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        manifest = manifest_of(savepoint)
        archive.addfile(_member(savepoint, MANIFEST, len(manifest)), BytesIO(manifest))
        for file in savepoint.record.files:
            _export_file(archive, savepoint, file)
            passed(file.size_bytes, total)


def export_file(savepoint: Savepoint, target: Path, passed: BytesPassed = lambda _more, _total: None) -> None:
    """Write a savepoint as an archive of this name, which is complete or absent. Raises REQUEST_REFUSED if the name is
    taken, or another process writes it."""
    partial = target.with_name(f".{target.name}.export")
    with Trust().over(target, "export a savepoint"), _alone(partial, os.O_RDWR | os.O_CREAT) as descriptor:
        with open(os.dup(descriptor), "wb") as file:
            try:
                if os.path.lexists(target):
                    raise name_taken(target)
                file.truncate()  # the rest of a killed export
                export_stream(savepoint, file, passed)
                file.flush()
                sync_file(file.fileno())
                os.rename(partial, target)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
        sync_folder(target.parent)


def import_stream(
    source: IO[bytes], into: Path, passed: BytesPassed = lambda _more, _total: None, *, called: str = ""
) -> Savepoint:
    """Extract the savepoint in an archive into a folder of its own below `into`; the archive may be compressed.
    `called`: the name of the archive in errors, if it is no tar or has no end.

    Raises SAVEPOINT_INCOMPLETE, SAVEPOINT_ALTERED, SAVEPOINT_UNSAFE, the errors of a manifest, and REQUEST_REFUSED if
    its name is taken.
    """
    check_place(into)
    with Trust().over(into, "import a savepoint"), reading(source, called or str(into)) as archive:
        return _import(archive, into, passed)


@contextmanager
def reading(source: IO[bytes], called: str) -> Generator[tarfile.TarFile]:
    """The archive in a stream. Raises SAVEPOINT_INCOMPLETE for bytes that are no archive, or a part of one. `called`:
    its name in that error.
    """
    try:
        with tarfile.open(fileobj=source, mode="r|*") as archive:
            yield archive
    except _NO_ARCHIVE as error:
        found = str(error) or type(error).__name__
        raise _incomplete("a whole archive of a savepoint, from export", found, called) from None


# --- out ---------------------------------------------------------------------------------------------------


def _export_file(archive: tarfile.TarFile, savepoint: Savepoint, file: SavedFile) -> None:
    where = where_is(savepoint, file)
    with opened_file(savepoint, file) as (source, size):
        hashing = _Hashing(source, Path(where))
        _refuse(file.shortage(size), where)
        archive.addfile(_member(savepoint, file.name, file.size_bytes), hashing)
    _refuse(file.flaw(size, hashing.digest()), where)


def _member(savepoint: Savepoint, name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(f"{savepoint.folder.name}/{name}")
    member.size = size
    return member


class _Hashing:
    """Reads a file, and records the size and checksum of the read part."""

    def __init__(self, source: IO[bytes], where: Path) -> None:
        self._source = source
        self._where = where
        self._digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        try:
            block = self._source.read(size)
        except OSError as error:
            raise storage_error(error, self._where, "read a file of a savepoint") from error
        self._digest.update(block)
        return block

    def digest(self) -> str:
        return self._digest.hexdigest()


# --- in ----------------------------------------------------------------------------------------------------


def _import(archive: tarfile.TarFile, into: Path, passed: BytesPassed) -> Savepoint:
    name, manifest = first_member(archive, into)
    record = decode(SavepointRecord, manifest, f"{name}/{MANIFEST} in the archive")
    target, hidden = into / name, into / f".{name}.import"
    ensure_folder(into)
    hidden.mkdir(exist_ok=True)
    with _alone(hidden, os.O_RDONLY | os.O_DIRECTORY):
        try:
            if os.path.lexists(target):
                raise name_taken(target)
            _empty(hidden)
            (hidden / MANIFEST).write_bytes(manifest)
            open_savepoint(hidden)  # before any of its paths is used
            unpack(archive, name, record, into, partial(_into, hidden), passed)
            _sync(hidden)
            os.rename(hidden, target)
        except BaseException:
            _tidy(hidden)
            raise
    sync_folder(into)
    return Savepoint(target, record, digest_of(manifest))


def first_member(archive: tarfile.TarFile, into: Path | Folder) -> tuple[str, bytes]:
    """The name of the savepoint's folder, and the manifest. Raises SAVEPOINT_INCOMPLETE and SAVEPOINT_UNSAFE."""
    member = archive.next()
    name, _, file = ("", "", "") if member is None else member.name.partition("/")
    if member is None or file != MANIFEST or not member.isreg():
        found = "an empty one" if member is None else f"one that begins with {member.name!r}"
        raise _incomplete(f"an archive of a savepoint, which begins with its {MANIFEST}", found, into)
    if name in ("", ".", "..") or name.startswith(".") or "\0" in name:
        raise _unsafe("a savepoint with a plain name", repr(name), into)
    if member.size > MANIFEST_AT_MOST_BYTES:
        raise _unsafe(f"a manifest of at most {MANIFEST_AT_MOST_BYTES} bytes", f"{member.size} bytes", into)
    return name, _content(archive, member).read()


def unpack(
    archive: tarfile.TarFile,
    name: str,
    record: SavepointRecord,
    into: Path | Folder,
    take: Callable[[SavedFile, Readable], FileFlaw | None],
    passed: BytesPassed,
) -> None:
    """The other members, which must be the files of the manifest. `take` writes one, and returns how it differs.
    `into`: the folder above the savepoint, for messages. Raises SAVEPOINT_INCOMPLETE, SAVEPOINT_ALTERED and
    SAVEPOINT_UNSAFE.
    """
    missing = {file.name: file for file in record.files}
    total = sum(file.size_bytes for file in record.files)
    while (member := archive.next()) is not None:
        file = missing.pop(member.name.removeprefix(f"{name}/"), None)
        where = f"{into}/{member.name}"
        if file is None or not member.name.startswith(f"{name}/"):
            raise _altered("only files that the savepoint names, once each", repr(member.name), where)
        if not member.isreg():
            raise _unsafe("plain files only", f"a member of type {member.type!r}", where)
        if member.size != file.size_bytes:
            raise _altered(f"{file.size_bytes} bytes", f"{member.size} bytes", where)
        _refuse(take(file, cast("Readable", _content(archive, member))), where)
        passed(file.size_bytes, total)
    for file in missing.values():
        _refuse(file.absent, f"{into}/{name}/{file.name}")


def _into(hidden: Path, file: SavedFile, content: Readable) -> FileFlaw | None:
    target = hidden / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    return copy_verified(content, target, file)


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    content = archive.extractfile(member)
    if content is None:
        raise tarfile.ReadError(f"{member.name!r} has no content")
    return content


def _sync(folder: Path) -> None:
    with (folder / MANIFEST).open("rb") as file:
        sync_file(file.fileno())
    for below, _ in files_below(folder):
        sync_folder(below)


def _tidy(folder: Path) -> None:
    """The next import removes the remaining files: this clean-up must not hide the first error."""
    shutil.rmtree(folder, ignore_errors=True)


def _empty(folder: Path) -> None:
    """Remove the files of a killed import."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


# --- exclusion ---------------------------------------------------------------------------------------------


@contextmanager
def _alone(path: Path, flags: int) -> Generator[int, None, None]:
    """A context with the open file or folder of this name, locked against other writers.

    The lock ends with the process that holds it. Raises REQUEST_REFUSED if another process holds the lock.
    """
    descriptor = os.open(path, flags | os.O_NOFOLLOW, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _in_use(path) from None
        if not path.exists() or not os.path.samestat(os.fstat(descriptor), path.stat()):
            raise _in_use(path)  # it has its final name by now
        yield descriptor
    finally:
        os.close(descriptor)


def _in_use(path: Path) -> TidegateError:
    return _refused("to be the only one that writes it", "another process that does, or did a moment ago", path)


# --- errors ------------------------------------------------------------------------------------------------


def name_taken(target: Path | Folder) -> TidegateError:
    """The error of an export or an import to a name that is not free."""
    return _refused("a name that is free", "a file, a savepoint or something else that is there already", target)


def _incomplete(expected: str, found: str, where: Path | Folder | str) -> TidegateError:
    return _error(Code.SAVEPOINT_INCOMPLETE, expected, found, where)


def _altered(expected: str, found: str, where: str) -> TidegateError:
    return _error(Code.SAVEPOINT_ALTERED, expected, found, where)


def _unsafe(expected: str, found: str, where: Path | Folder | str) -> TidegateError:
    return _error(Code.SAVEPOINT_UNSAFE, expected, found, where)


def _error(code: Code, expected: str, found: str, where: Path | Folder | str) -> TidegateError:
    return FileFlaw(code, expected, found).error(str(where), _EXPORT_AGAIN)


def _refuse(flaw: FileFlaw | None, where: Path | str) -> None:
    if flaw is not None:
        raise flaw.error(str(where), _EXPORT_AGAIN) from None


def _refused(expected: str, found: str, where: Path | Folder) -> TidegateError:
    return TidegateError(
        Code.REQUEST_REFUSED,
        expected=expected,
        found=found,
        where=str(where),
        next_step="choose another place, or see whether it is there already (`tidegate savepoint ls DIR`)",
    )

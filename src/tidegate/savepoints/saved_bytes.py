"""The bytes of a savepoint's files, on a disk or on another storage, as streams for an archive."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from typing import IO, cast

from tidegate.core.errors import TidegateError
from tidegate.core.records import SavedFile
from tidegate.disk.blocks import Readable
from tidegate.disk.durable import Trust, storage_error
from tidegate.savepoints import folder as on_a_disk
from tidegate.savepoints.at_a_place import sizes_wrong_at, strangers_at
from tidegate.savepoints.folder import MANIFEST, Savepoint
from tidegate.savepoints.refusals import COPY_AGAIN
from tidegate.storages.checkpoint_files import OpenFile
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage

_BUFFER_BYTES = 4 << 20


def names_wrong(savepoint: Savepoint) -> list[TidegateError]:
    """The errors of a savepoint's names: files that it does not name, and links. On another storage than a disk also
    those of missing files, and of sizes. Reads no file.
    """
    if savepoint.place is None:
        return on_a_disk.names_wrong(savepoint)
    return [*strangers_at(savepoint), *sizes_wrong_at(savepoint)]


def manifest_of(savepoint: Savepoint) -> bytes:
    """The bytes of the manifest."""
    if savepoint.place is not None:
        return open_storage(savepoint.place).peek(MANIFEST) or b""
    with Trust().over(savepoint.folder / MANIFEST, "read a savepoint"):
        return (savepoint.folder / MANIFEST).read_bytes()


def where_is(savepoint: Savepoint, file: SavedFile) -> str:
    """The place of a file, for messages."""
    return f"{savepoint.place or savepoint.folder}/{file.name}"


@contextmanager
def opened_file(savepoint: Savepoint, file: SavedFile) -> Generator[tuple[IO[bytes], int]]:
    """A file of the savepoint and its size. Raises SAVEPOINT_INCOMPLETE if it is absent, and storage errors."""
    where = where_is(savepoint, file)
    if savepoint.place is None:
        try:
            opened = (savepoint.folder / file.name).open("rb")
        except FileNotFoundError:
            raise file.absent.error(where, COPY_AGAIN) from None
        except OSError as error:
            raise storage_error(error, savepoint.folder / file.name, "read a file of a savepoint") from error
        with opened:
            yield opened, os.fstat(opened.fileno()).st_size
        return
    found = open_checkpoint_files(savepoint.place).open(file.name)
    if found is None:
        raise file.absent.error(where, COPY_AGAIN)
    with closing(found):
        yield as_stream(found), file.size_bytes


def as_stream(file: OpenFile) -> IO[bytes]:
    """A file of a storage, as an ordinary stream that is read once."""
    return cast("IO[bytes]", io.BufferedReader(_Raw(file), _BUFFER_BYTES))


class _Raw(io.RawIOBase):
    def __init__(self, file: OpenFile) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._file.readinto(buffer) or 0

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def written_by(write: Callable[[IO[bytes]], None]) -> Generator[Readable]:
    """What `write` writes, to be read at the same time: it runs in a thread, behind a pipe. The end of the content is
    the end of `write`; its error is raised there. `write` ends with a BrokenPipeError if the reader ends first.
    """
    descriptors = os.pipe()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            with open(descriptors[1], "wb") as into:
                write(into)
        except BaseException as error:  # noqa: BLE001 (raised to the reader)
            failed.append(error)

    thread = threading.Thread(target=run, name="tidegate-archive", daemon=True)
    thread.start()
    try:
        with open(descriptors[0], "rb", buffering=0) as read:
            yield _Piped(read, thread, failed)
    finally:
        thread.join()


class _Piped:
    def __init__(self, read: io.FileIO, thread: threading.Thread, failed: list[BaseException]) -> None:
        self._read = read
        self._thread = thread
        self._failed = failed

    def readinto(self, buffer: memoryview, /) -> int:
        length = self._read.readinto(buffer)
        if length == 0:
            self._thread.join()
            if self._failed:
                raise self._failed[0]
        return length

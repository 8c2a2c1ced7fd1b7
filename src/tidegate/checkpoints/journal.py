"""The journal: the rows of each attempt, kept in the ledger until their epoch is done.

One Arrow IPC stream file an attempt, `<epoch>/<sink>.<attempt name>.arrow` below the journal folder, compressed.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Attempt, JournalRef
from tidegate.disk.durable import Trust, ensure_folder, sync_file, sync_folder

if TYPE_CHECKING:
    from typing_extensions import Buffer


def journal_name(attempt: Attempt) -> str:
    """The journal file of one attempt, relative to the journal folder."""
    return f"{attempt.epoch}/{attempt.sink.sink}.{attempt.name}.arrow"


class JournalWriter:
    """Writes the journal of one attempt: `write` any number of times, then `close` or `abort`.

    The file is written in place: the reference that `close` gives is the only pointer to it, so a torn file has
    none. It is created anew, never opened again: a repeated attempt cannot cut the journal that a record names.
    """

    def __init__(self, folder: str | Path, name: str) -> None:
        self._name = name
        self._path = Path(folder).absolute() / name
        self._trust = Trust()
        self._open: _OpenJournal | None = None
        self._is_closed = False

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of `batch`. All batches have one schema; the first one creates the file."""
        if batch.num_rows == 0:
            return
        with self._trust.over(self._path, "write the journal"):
            if self._open is None:
                self._open = _OpenJournal(self._path, batch.schema)
            self._open.write(batch)

    def close(self) -> JournalRef | None:
        """Make the rows durable and give what proves them whole; None when no row came (then there is no file)."""
        if self._open is None:
            return None
        with self._trust.over(self._path, "sync the journal"):
            reference = self._open.close(self._name)
            sync_folder(self._path.parent)
        self._is_closed = True
        return reference

    def abort(self) -> None:
        """Remove the file, unless `close` gave a reference to it: a prepared record may name that one."""
        if self._open is None or self._is_closed:
            return
        with Trust().over(self._path, "remove the journal of a failed attempt"):
            self._open.drop()
            self._path.unlink(missing_ok=True)


class JournalMissing(TidegateError):
    """The file that a journal reference names is not there."""

    def __init__(self, reference: JournalRef, where: Path) -> None:
        super().__init__(
            Code.TRANSACTION_LOST,
            expected=f"a journal with {reference.rows} rows",
            found="no file",
            where=str(where),
            next_step="put the file back from a copy, then start again; without it these rows cannot be written again",
        )


def read_journal(folder: str | Path, reference: JournalRef) -> Iterator[pa.RecordBatch]:
    """The rows of one attempt. Size and checksum are verified here, before any row is given.

    Raises RECORD_CORRUPT for a torn or altered file, JournalMissing when there is none.
    """
    path = Path(folder) / reference.name
    with Trust().over(path, "read the journal"):
        try:
            file = open(path, "rb")  # noqa: SIM115 (closed by the rows' iterator)
        except FileNotFoundError:
            raise JournalMissing(reference, path) from None
        try:
            _verify(file, reference, path)
        except BaseException:
            file.close()
            raise
    return _rows(file)


def list_epochs(folder: str | Path) -> list[int]:
    """The epochs that have journals, ascending."""
    with Trust().over(Path(folder), "list the journals"):
        try:
            return sorted(int(name) for name in os.listdir(folder) if name.isdigit())
        except FileNotFoundError:
            return []


def delete_through(folder: str | Path, epoch: int) -> None:
    """Remove the journals of all epochs up to and with `epoch`. Idempotent; not durable."""
    _delete(Path(folder), lambda each: each <= epoch)


def delete_from(folder: str | Path, epoch: int) -> None:
    """Remove the journals of `epoch` and of all later ones. Idempotent; not durable."""
    _delete(Path(folder), lambda each: each >= epoch)


_BUFFER_BYTES = 1 << 20
_TRASH = ".trash"


class _OpenJournal:
    """The file of an attempt that is not closed yet."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        ensure_folder(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        self._file = os.fdopen(descriptor, "wb", _BUFFER_BYTES)
        self._checksummed = _Checksummed(self._file)
        self._stream = pa.ipc.new_stream(
            pa.PythonFile(self._checksummed, mode="w"),
            schema,
            options=pa.ipc.IpcWriteOptions(compression="lz4"),
        )
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._stream.write_batch(batch)  # pyright: ignore[reportUnknownMemberType]
        self._rows += batch.num_rows

    def close(self, name: str) -> JournalRef:
        self._stream.close()
        self._file.flush()
        sync_file(self._file.fileno())
        self._file.close()
        return JournalRef(
            name=name,
            rows=self._rows,
            size_bytes=self._checksummed.size_bytes,
            checksum=self._checksummed.checksum(),
        )

    def drop(self) -> None:
        with suppress(OSError):  # what a full disk did not take; the file goes anyway
            self._file.close()


class _Checksummed(io.RawIOBase):
    """A file for Arrow that takes the checksum and the size of all that goes through it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size_bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        self._hash.update(data)
        size_bytes = self._file.write(data)
        self.size_bytes += size_bytes
        return size_bytes

    def checksum(self) -> str:
        return _checksum(self._hash.hexdigest())


def _verify(file: io.BufferedReader, reference: JournalRef, path: Path) -> None:
    """Compare size and checksum, and go back to the start: the same open file is read afterwards."""
    size_bytes = os.fstat(file.fileno()).st_size
    if size_bytes != reference.size_bytes:
        raise _corrupt(f"{reference.size_bytes} bytes", f"{size_bytes} bytes", path)
    content = hashlib.sha256()
    while block := file.read(_BUFFER_BYTES):
        content.update(block)
    checksum = _checksum(content.hexdigest())
    if checksum != reference.checksum:
        raise _corrupt(reference.checksum, checksum, path)
    file.seek(0)


def _rows(file: io.BufferedReader) -> Iterator[pa.RecordBatch]:
    with file, pa.ipc.open_stream(file) as stream:
        yield from stream


def _delete(folder: Path, concerns: Callable[[int], bool]) -> None:
    """Move whole epochs to the trash by one rename each, then empty it (also of what a killed process left)."""
    trash = folder / _TRASH
    with Trust().over(folder, "remove journals"):
        for epoch in filter(concerns, list_epochs(folder)):
            trash.mkdir(exist_ok=True)
            with suppress(FileNotFoundError):  # another finisher was faster
                os.rename(folder / str(epoch), trash / f"{epoch}-{secrets.token_hex(4)}")
        for each in _entries(trash):
            for file in _entries(each):
                with suppress(FileNotFoundError):
                    os.unlink(file)
            with suppress(FileNotFoundError):
                os.rmdir(each)


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []


def _checksum(hex_digits: str) -> str:
    return f"sha256:{hex_digits}"


def _corrupt(expected: str, found: str, path: Path) -> TidegateError:
    return TidegateError(
        Code.RECORD_CORRUPT,
        expected=f"a journal with {expected}",
        found=found,
        where=str(path),
        next_step="put the file back from a copy; do not delete it: its rows are decided and nowhere else",
    )

"""The format of one attempt's rows, for every storage: a compressed Arrow IPC stream, and its SHA-256."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import JournalRef

if TYPE_CHECKING:
    from typing_extensions import Buffer


class RowStream:
    """Writes rows into an open binary file, which the caller syncs and closes."""

    def __init__(self, file: BinaryIO, schema: pa.Schema) -> None:
        self._checksummed = _Checksummed(file)
        self._stream = pa.ipc.new_stream(
            pa.PythonFile(self._checksummed, mode="w"),
            schema,
            options=pa.ipc.IpcWriteOptions(compression="lz4"),
        )
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of `batch`."""
        self._stream.write_batch(batch)  # pyright: ignore[reportUnknownMemberType]
        self._rows += batch.num_rows

    def end(self, name: str) -> JournalRef:
        """Write the end of the stream. Returns the reference to the rows, under this name."""
        self._stream.close()
        return JournalRef(
            name=name,
            rows=self._rows,
            size_bytes=self._checksummed.size_bytes,
            checksum=self._checksummed.checksum(),
        )


def verify(file: BinaryIO, reference: JournalRef, where: str) -> None:
    """Compare size and checksum of an open file with the reference, and seek back to the start: the same open file is
    read afterwards. Raises RECORD_CORRUPT.
    """
    size_bytes = file.seek(0, io.SEEK_END)
    if size_bytes != reference.size_bytes:
        raise _corrupt(f"{reference.size_bytes} bytes", f"{size_bytes} bytes", where)
    file.seek(0)
    content = hashlib.sha256()
    while block := file.read(_BLOCK_BYTES):
        content.update(block)
    checksum = _checksum(content.hexdigest())
    if checksum != reference.checksum:
        raise _corrupt(reference.checksum, checksum, where)
    file.seek(0)


def rows(file: io.BufferedIOBase) -> Iterator[pa.RecordBatch]:
    """The rows of an open file. Closes the file at the end."""
    with file, pa.ipc.open_stream(file) as stream:
        yield from stream


_BLOCK_BYTES = 1 << 20


class _Checksummed(io.RawIOBase):
    """A file for Arrow that counts size and checksum of all data written through it."""

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


def _checksum(hex_digits: str) -> str:
    return f"sha256:{hex_digits}"


def _corrupt(expected: str, found: str, where: str) -> TidegateError:
    return TidegateError(
        Code.RECORD_CORRUPT,
        expected=f"a journal with {expected}",
        found=found,
        where=where,
        next_step="put the file back from a copy; do not delete it: it holds the only copy of decided rows",
    )

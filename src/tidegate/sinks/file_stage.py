"""The stage of the file sink: one file per task attempt, in its final format."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

import pyarrow as pa

from tidegate.core.records import Attempt, Committable, committable_digest
from tidegate.sinks.base import Transaction
from tidegate.sinks.file_formats import Format, RowWriter
from tidegate.sinks.staging import Seal, Stage

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class FileTransaction(Transaction):
    """Writes one attempt's staged file. Nothing is on the disk before the first row."""

    def __init__(self, stage: Stage, attempt: Attempt, format: Format) -> None:
        self._stage = stage
        self._attempt = attempt
        self._format = format
        self._open: tuple[_Measured, RowWriter] | None = None
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        if self._open is None:
            self._open = self._create(batch.schema)
        self._open[1].write(batch)
        self._rows += batch.num_rows

    def pre_commit(self) -> Committable | None:
        if self._open is None:
            return None
        file, writer = self._open
        writer.close()
        file.close()
        self._stage.sync(self._attempt)
        seal = file.seal()
        return Committable(
            attempt=self._attempt,
            rows=self._rows,
            digest=committable_digest(self._attempt, seal.checksum),
            handle={**seal.as_handle(), "suffix": self._format.suffix},
        )

    def abort(self) -> None:
        if self._open is None:
            return
        file, writer = self._open
        file.abandon()
        writer.abandon()
        self._stage.file(self._attempt).unlink(missing_ok=True)

    def _create(self, schema: pa.Schema) -> tuple[_Measured, RowWriter]:
        path = self._stage.file(self._attempt)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)  # the same attempt, begun again
        file = _Measured(path)
        return file, self._format.writer(cast("IO[bytes]", file), schema)


class _Measured(io.RawIOBase):
    """A new file that measures what is written through it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("xb", buffering=0)
        self._found = hashlib.sha256()
        self._size_bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        content = memoryview(data).cast("B")
        if not self._file.closed:
            self._write_all(content)
        return content.nbytes

    def tell(self) -> int:
        return self._size_bytes

    def close(self) -> None:
        super().close()
        self._file.close()

    def abandon(self) -> None:
        """Give the file up: what a writer still has to say at its end goes nowhere, not even to a full disk."""
        self._file.close()

    def seal(self) -> Seal:
        return Seal(self._size_bytes, self._found.hexdigest())

    def _write_all(self, content: memoryview) -> None:
        self._found.update(content)
        self._size_bytes += content.nbytes
        while content:
            content = content[self._file.write(content) :]

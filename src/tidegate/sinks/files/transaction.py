"""The transaction of the file sink, in a task: it stages files in their final format, under staging names.

Of an attempt only so many files are open at once. For one more, the file with the oldest last row is closed. Later rows
for the same folder begin another file.
"""

from __future__ import annotations

import hashlib
import io
from collections import OrderedDict
from typing import IO, TYPE_CHECKING, cast

import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Attempt, Committable
from tidegate.sinks.base import Transaction
from tidegate.sinks.files.parts import AttemptPart, committable_of
from tidegate.sinks.files.shape import FileShape
from tidegate.sinks.files.stage import FileStage, NewStagedFile
from tidegate.sinks.rows import RowWriter
from tidegate.sinks.staging import Seal

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

FILES_AT_MOST = 10_000
"""Files of one attempt: the ledger lists each of them."""

HELD_BYTES_AT_MOST = 256 * 1024 * 1024
"""Most bytes that the writers of one attempt buffer together, in Arrow's count."""

_STEP_ROWS = 1_000
"""Rows between two checks of the size of a file with a size limit."""


class FileTransaction(Transaction):
    """Writes one attempt's staged files. Creates nothing in the stage before the first row."""

    def __init__(self, stage: FileStage, attempt: Attempt, shape: FileShape) -> None:
        self._stage = stage
        self._attempt = attempt
        self._shape = shape.with_files_of(stage.file_bytes_at_most)
        self._created: list[NewStagedFile] = []
        self._open: OrderedDict[str, _OpenStagedFile] = OrderedDict()
        self._ended: list[AttemptPart] = []
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> None:
        refused = self._shape.refused(batch, self._stage.limits)
        if refused:
            raise refused[0]
        for folder, rows in self._shape.pieces(self._shape.prepared(batch)):
            self._write(folder, rows)
        self._rows += batch.num_rows
        self._let_go()

    def pre_commit(self) -> Committable | None:
        for folder in list(self._open):
            self._end(folder)
        if not self._ended:
            return None
        self._stage.sync(self._attempt, len(self._created))
        parts = sorted(self._ended, key=lambda part: part.number)
        return committable_of(self._attempt, self._rows, parts, self._shape.format.suffix)

    def abort(self) -> None:
        for file in self._open.values():
            file.abandon()
        for staged in self._created:
            staged.abandon()

    def _write(self, folder: str, rows: pa.RecordBatch) -> None:
        while rows.num_rows:
            file = self._open.get(folder) or self._begin(folder, rows.schema)
            self._open.move_to_end(folder)
            taken = rows.slice(0, file.room(self._shape))
            file.write(taken)
            rows = rows.slice(taken.num_rows)
            if file.is_full(self._shape):
                self._end(folder)

    def _begin(self, folder: str, schema: pa.Schema) -> _OpenStagedFile:
        number = len(self._created)
        if number == FILES_AT_MOST:
            raise TidegateError(
                Code.SCHEMA_MISMATCH,
                expected=f"at most {FILES_AT_MOST} files from one task in one epoch",
                found="rows for one more",
                where=f"sink {self._attempt.sink.sink!r}, epoch {self._attempt.epoch}",
                next_step="repartition the rows by the columns of partition_by=, choose columns with fewer values, or "
                "let files grow larger",
            )
        if len(self._open) == self._stage.open_at_most:
            self._end(next(iter(self._open)))
        self._open[folder] = _OpenStagedFile(number, *self._create(number, schema))
        return self._open[folder]

    def _create(self, number: int, schema: pa.Schema) -> tuple[_MeasuredFile, RowWriter]:
        staged = self._stage.create(self._attempt, number)
        self._created.append(staged)
        file = _MeasuredFile(staged)
        return file, self._shape.format.writer(cast("IO[bytes]", file), schema)

    def _end(self, folder: str) -> None:
        file = self._open[folder]
        self._ended.append(AttemptPart(file.number, folder, file.close(), self._created[file.number].token))
        del self._open[folder]

    def _let_go(self) -> None:
        """Flush the writers with the largest buffers, until all buffers together are small enough."""
        held = sum(file.writer.held_bytes for file in self._open.values())
        for file in sorted(self._open.values(), key=lambda file: file.writer.held_bytes, reverse=True):
            if held <= HELD_BYTES_AT_MOST:
                return
            held -= file.writer.held_bytes
            file.writer.flush()


class _OpenStagedFile:
    """A staged file that takes rows."""

    def __init__(self, number: int, file: _MeasuredFile, writer: RowWriter) -> None:
        self.number = number
        self.writer = writer
        self._file = file
        self._rows = 0

    def room(self, shape: FileShape) -> int:
        """The number of rows until the next check."""
        left = [
            *([] if shape.max_rows is None else [shape.max_rows - self._rows]),
            *([] if shape.target_bytes is None else [_STEP_ROWS]),
        ]
        return min(left, default=2**63 - 1)

    def is_full(self, shape: FileShape) -> bool:
        if shape.max_rows is not None and self._rows >= shape.max_rows:
            return True
        return shape.target_bytes is not None and self._file.tell() + self.writer.held_bytes >= shape.target_bytes

    def write(self, rows: pa.RecordBatch) -> None:
        self.writer.write(rows)
        self._rows += rows.num_rows

    def close(self) -> Seal:
        self.writer.close()
        self._file.end()
        return self._file.seal()

    def abandon(self) -> None:
        self._file.abandon()
        self.writer.abandon()


class _MeasuredFile(io.RawIOBase):
    """A new file that counts the bytes written through it."""

    def __init__(self, file: NewStagedFile) -> None:
        super().__init__()
        self._file = file
        self._takes_more = True
        self._found = hashlib.sha256()
        self._size_bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        content = memoryview(data).cast("B")
        if self._takes_more:
            self._found.update(content)
            self._size_bytes += content.nbytes
            self._file.write(content)
        return content.nbytes

    def tell(self) -> int:
        return self._size_bytes

    def end(self) -> None:
        """Close the staged file. Not in `close`: the interpreter also calls that, for an object without references."""
        self._takes_more = False
        self._file.close()

    def abandon(self) -> None:
        """Abandon the file. A writer's footer goes nowhere, not even to a full disk."""
        self._takes_more = False

    def seal(self) -> Seal:
        return Seal(self._size_bytes, self._found.hexdigest())

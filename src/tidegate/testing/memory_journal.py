"""A `Journal` in the memory of this process."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tidegate.core.records import JournalRef
from tidegate.storages.journal import JournalMissing
from tidegate.storages.journal_format import RowStream, rows, verify
from tidegate.storages.refusals import name_taken


@dataclass(slots=True)
class JournalFiles:
    """The files of one journal, by name. All `MemoryJournal` objects with the same `JournalFiles` share them."""

    files: dict[str, io.BytesIO] = field(default_factory=dict[str, io.BytesIO])
    lock: threading.Lock = field(default_factory=threading.Lock)


class MemoryJournal:
    """A `Journal` in `JournalFiles`.

    Bytes are stored when they are written, as on a disk; `close` returns the reference.
    """

    def __init__(self, kept: JournalFiles) -> None:
        self._kept = kept

    def where(self, name: str = "") -> str:
        return f"memory:/journal/{name}"

    def writer(self, name: str) -> MemoryJournalWriter:
        return MemoryJournalWriter(self._kept, name)

    def read(self, reference: JournalRef) -> Iterator[pa.RecordBatch]:
        file = self._kept.files.get(reference.name)
        if file is None:
            raise JournalMissing(reference, self.where(reference.name))
        copy = io.BytesIO(file.getvalue())
        verify(copy, reference, self.where(reference.name))
        return rows(copy)

    def epochs(self) -> list[int]:
        with self._kept.lock:
            return sorted({_epoch(name) for name in self._kept.files})

    def delete_through(self, epoch: int) -> None:
        self._delete(lambda each: each <= epoch)

    def delete_epoch(self, epoch: int, names: Sequence[str]) -> None:
        with self._kept.lock:
            for name in names:
                self._kept.files.pop(name, None)

    def delete_from(self, epoch: int) -> None:
        self._delete(lambda each: each >= epoch)

    def _delete(self, concerns: Callable[[int], bool]) -> None:
        with self._kept.lock:
            for name in [each for each in self._kept.files if concerns(_epoch(each))]:
                del self._kept.files[name]


class MemoryJournalWriter:
    """Writes the rows of one attempt."""

    def __init__(self, kept: JournalFiles, name: str) -> None:
        self._kept = kept
        self._name = name
        self._file: io.BytesIO | None = None
        self._stream: RowStream | None = None
        self._is_closed = False

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        if self._stream is None:
            self._file = io.BytesIO()
            with self._kept.lock:
                if self._kept.files.setdefault(self._name, self._file) is not self._file:
                    raise name_taken(f"memory:/journal/{self._name}")
            self._stream = RowStream(self._file, batch.schema)
        self._stream.write(batch)

    def close(self) -> JournalRef | None:
        if self._stream is None:
            return None
        self._is_closed = True
        return self._stream.end(self._name)

    def abort(self) -> None:
        if self._stream is None or self._is_closed:
            return
        with self._kept.lock:
            if self._kept.files.get(self._name) is self._file:
                del self._kept.files[self._name]


def _epoch(name: str) -> int:
    return int(name.partition("/")[0])

"""`Journal` on a local disk: a folder for each epoch, and in it a file for each attempt of a task."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from tidegate.core.records import JournalRef
from tidegate.disk.durable import Trust, ensure_folder, sync_file, sync_folder
from tidegate.storages.journal import JournalMissing
from tidegate.storages.journal_format import RowStream, rows, verify


class LocalJournal:
    """The journal in one folder. A finished epoch is moved to a trash folder as a whole, then removed."""

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder).absolute()

    def where(self, name: str = "") -> str:
        return str(self._folder / name)

    def writer(self, name: str) -> LocalJournalWriter:
        return LocalJournalWriter(self._folder, name)

    def read(self, reference: JournalRef) -> Iterator[pa.RecordBatch]:
        path = self._folder / reference.name
        with Trust().over(path, "read the journal"):
            try:
                file = open(path, "rb")  # noqa: SIM115 (closed by the rows' iterator)
            except FileNotFoundError:
                raise JournalMissing(reference, str(path)) from None
            try:
                verify(file, reference, str(path))
            except BaseException:
                file.close()
                raise
        return rows(file)

    def epochs(self) -> list[int]:
        with Trust().over(self._folder, "list the journals"):
            try:
                return sorted(int(name) for name in os.listdir(self._folder) if name.isdigit())
            except FileNotFoundError:
                return []

    def delete_through(self, epoch: int) -> None:
        self._delete(lambda each: each <= epoch)

    def delete_epoch(self, epoch: int, names: Sequence[str]) -> None:
        self._delete(lambda each: each == epoch)

    def delete_from(self, epoch: int) -> None:
        self._delete(lambda each: each >= epoch)

    def _delete(self, concerns: Callable[[int], bool]) -> None:
        """Move whole epochs to the trash by one rename each, then empty it (also the trash of a killed process)."""
        trash = self._folder / _TRASH
        with Trust().over(self._folder, "remove journals"):
            for epoch in filter(concerns, self.epochs()):
                trash.mkdir(exist_ok=True)
                with suppress(FileNotFoundError):  # another finisher was faster
                    os.rename(self._folder / str(epoch), trash / f"{epoch}-{secrets.token_hex(4)}")
            for each in _entries(trash):
                for file in _entries(each):
                    with suppress(FileNotFoundError):
                        os.unlink(file)
                with suppress(FileNotFoundError):
                    os.rmdir(each)


class LocalJournalWriter:
    """Writes the file of one attempt.

    The file is written in place: only the reference that `close` returns points to it, so a torn file has no reference.
    A file is always new, never opened again: a repeated attempt cannot truncate the rows that a record names.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._name = name
        self._path = folder / name
        self._trust = Trust()
        self._open: _OpenJournalFile | None = None
        self._is_closed = False

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        with self._trust.over(self._path, "write the journal"):
            if self._open is None:
                self._open = _OpenJournalFile(self._path, batch.schema)
            self._open.rows.write(batch)

    def close(self) -> JournalRef | None:
        if self._open is None:
            return None
        with self._trust.over(self._path, "sync the journal"):
            reference = self._open.close(self._name)
            sync_folder(self._path.parent)
        self._is_closed = True
        return reference

    def abort(self) -> None:
        if self._open is None or self._is_closed:
            return
        with Trust().over(self._path, "remove the journal of a failed attempt"):
            self._open.drop()
            self._path.unlink(missing_ok=True)


_BUFFER_BYTES = 1 << 20
_TRASH = ".trash"


class _OpenJournalFile:
    """The file of an attempt that is not closed yet."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        ensure_folder(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        self._file = os.fdopen(descriptor, "wb", _BUFFER_BYTES)
        self.rows = RowStream(self._file, schema)

    def close(self, name: str) -> JournalRef:
        reference = self.rows.end(name)
        self._file.flush()
        sync_file(self._file.fileno())
        self._file.close()
        return reference

    def drop(self) -> None:
        with suppress(OSError):  # data that a full disk did not take; the file is removed anyway
            self._file.close()


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:
        return []

"""`Journal` on HDFS: a folder for each epoch, and in it a file for each attempt of a task."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, cast

from tidegate.core.records import JournalRef
from tidegate.storages.hdfs.client import HdfsClient, Waits, client_of
from tidegate.storages.hdfs.failures import HdfsFailure, Trouble, translated
from tidegate.storages.hdfs.publish import NewFile
from tidegate.storages.hdfs.reading import opened
from tidegate.storages.journal import JournalMissing
from tidegate.storages.journal_format import RowStream, rows, verify
from tidegate.storages.schemes import Folder

if TYPE_CHECKING:
    from typing import BinaryIO

    import pyarrow as pa


class HdfsJournal:
    """The journal in one folder. A finished epoch is removed as a whole, in one step of the NameNode."""

    def __init__(self, folder: Folder, waits: Waits | None = None) -> None:
        self._folder = folder
        self._waits = Waits() if waits is None else waits

    def where(self, name: str = "") -> str:
        return str(self._folder / name) if name else str(self._folder)

    def writer(self, name: str) -> HdfsJournalWriter:
        return HdfsJournalWriter(self._folder / name, name, self._waits)

    def read(self, reference: JournalRef) -> Iterator[pa.RecordBatch]:
        where = self.where(reference.name)
        with translated(where, "read the journal"):
            file = opened(self._client(), (self._folder / reference.name).path, where)
        if file is None:
            raise JournalMissing(reference, where)
        try:
            verify(cast("BinaryIO", file), reference, where)
        except BaseException:
            file.close()
            raise
        return rows(file)

    def epochs(self) -> list[int]:
        with translated(self.where(), "list the journals"):
            entries = self._client().children(self._folder.path) or []
        return sorted(int(each.name) for each in entries if each.is_folder and each.name.isdigit())

    def delete_through(self, epoch: int) -> None:
        self._delete(lambda each: each <= epoch)

    def delete_epoch(self, epoch: int, names: Sequence[str]) -> None:
        if names:
            self._delete_folder(epoch)

    def delete_from(self, epoch: int) -> None:
        self._delete(lambda each: each >= epoch)

    def _delete(self, concerns: Callable[[int], bool]) -> None:
        for epoch in filter(concerns, self.epochs()):
            self._delete_folder(epoch)

    def _delete_folder(self, epoch: int) -> None:
        with translated(self.where(str(epoch)), "remove journals"):
            self._client().delete(posixpath.join(self._folder.path, str(epoch)), recursive=True)

    def _client(self) -> HdfsClient:
        return client_of(self._folder, self._waits)


class HdfsJournalWriter:
    """Writes the file of one attempt. It gets its name when it is whole and synced: a torn file has none.

    The file is closed before `close` returns its reference: a file that is still open reads as empty on HDFS. Up to 4
    MiB of rows are kept in memory until then, and written at once.
    """

    def __init__(self, place: Folder, name: str, waits: Waits) -> None:
        self._place = place
        self._name = name
        self._waits = waits
        self._file: NewFile | None = None
        self._rows: RowStream | None = None
        self._is_closed = False

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        with translated(str(self._place), "write the journal"):
            if self._rows is None:
                self._file = NewFile(client_of(self._place, self._waits), self._place.path)
                self._rows = RowStream(cast("BinaryIO", self._file), batch.schema)
            self._rows.write(batch)

    def close(self) -> JournalRef | None:
        if self._rows is None or self._file is None:
            return None
        with translated(str(self._place), "write the journal"):
            reference = self._rows.end(self._name)
            if not self._file.publish():
                raise HdfsFailure(Trouble.EXISTS, "a file of another writer")
        self._is_closed = True
        return reference

    def abort(self) -> None:
        if self._file is None or self._is_closed:
            return
        self._file.abandon()

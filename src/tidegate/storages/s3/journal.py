"""`Journal` in a bucket of S3: an object for each attempt of a task, below a prefix for each epoch."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from tidegate.core.errors import TidegateError
from tidegate.core.records import JournalRef
from tidegate.disk.blocks import read_blocks
from tidegate.disk.durable import storage_error
from tidegate.storages.journal import JournalMissing
from tidegate.storages.journal_format import RowStream, rows, verify
from tidegate.storages.refusals import name_taken
from tidegate.storages.s3.bucket import S3Bucket
from tidegate.storages.s3.names import ObjectKeys
from tidegate.storages.s3.reading import ObjectFile, opened
from tidegate.storages.s3.uploads import Upload, abort_below
from tidegate.storages.schemes import Folder

_IN_MEMORY_BYTES = 32 << 20
"""Rows that are read up to this size are kept in memory, larger ones in a temporary file."""


class S3Journal:
    """The journal below one folder. Rows appear with the reference to them: an attempt that was killed leaves none."""

    def __init__(self, folder: Folder) -> None:
        self._keys = ObjectKeys(folder)
        self._bucket = S3Bucket(folder.authority)

    def where(self, name: str = "") -> str:
        return self._keys.where(name)

    def writer(self, name: str) -> S3JournalWriter:
        return S3JournalWriter(self._bucket, self._keys.key(name), name)

    def read(self, reference: JournalRef) -> Iterator[pa.RecordBatch]:
        """All of the rows are fetched before the first one is returned."""
        where = self.where(reference.name)
        source = opened(self._bucket, self._keys.key(reference.name), "read the journal")
        if source is None:
            raise JournalMissing(reference, where)
        with closing(source):
            fetched = _fetched(source)
        try:
            verify(fetched, reference, where)
        except BaseException:
            fetched.close()
            raise
        return rows(cast("io.BufferedIOBase", fetched))

    def epochs(self) -> list[int]:
        prefix = self._keys.prefix()
        found = self._bucket.directly_below(prefix, "list the journals").prefixes
        names = [each.removeprefix(prefix).removesuffix("/") for each in found]
        return sorted(int(name) for name in names if name.isdigit())

    def delete_through(self, epoch: int) -> None:
        self._delete(lambda each: each <= epoch)

    def delete_epoch(self, epoch: int, names: Sequence[str]) -> None:
        if names:  # and the folder of the epoch, which some stores keep
            keys = [*(self._keys.key(name) for name in names), self._keys.prefix(str(epoch))]
            self._bucket.delete_all(keys, "remove journals")

    def delete_from(self, epoch: int) -> None:
        """Parts of uploads that killed tasks have left go, too."""
        self._delete(lambda each: each >= epoch)
        abort_below(self._bucket, self._keys.prefix(), "remove journals")

    def _delete(self, concerns: Callable[[int], bool]) -> None:
        def is_concerned(key: str) -> bool:
            epoch, slash, _ = self._keys.name(key).partition("/")
            return bool(slash) and epoch.isdigit() and concerns(int(epoch))

        self._bucket.delete_below(self._keys.prefix(), "remove journals", is_concerned)


class S3JournalWriter:
    """Writes the object of one attempt: in memory up to one part, and then in parts."""

    def __init__(self, bucket: S3Bucket, key: str, name: str) -> None:
        self._bucket = bucket
        self._key = key
        self._name = name
        self._open: tuple[Upload, RowStream] | None = None
        self._is_closed = False

    def write(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        if self._open is None:
            upload = Upload(self._bucket, self._key, "write the journal")
            self._open = upload, RowStream(cast("BinaryIO", upload), batch.schema)
        self._open[1].write(batch)

    def close(self) -> JournalRef | None:
        if self._open is None:
            return None
        upload, stream = self._open
        reference = stream.end(self._name)
        if not upload.end():
            raise name_taken(self._bucket.where(self._key))
        self._is_closed = True
        return reference

    def abort(self) -> None:
        if self._open is None or self._is_closed:
            return
        upload, _ = self._open
        self._open = None
        upload.abort()


def _fetched(source: ObjectFile) -> BinaryIO:
    """All of the object, in a place that can be read twice."""
    try:
        file = io.BytesIO() if source.size_bytes <= _IN_MEMORY_BYTES else tempfile.TemporaryFile()  # noqa: SIM115 (closed by the rows' iterator)
        try:
            read_blocks(source, file.write)
        except BaseException:
            file.close()
            raise
    except TidegateError:
        raise
    except OSError as error:
        raise storage_error(error, Path(tempfile.gettempdir()), "fetch the journal") from error
    return cast("BinaryIO", file)

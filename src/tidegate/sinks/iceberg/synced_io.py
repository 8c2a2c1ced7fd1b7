"""The files of a table's metadata on a disk, made durable when they are written.

The library writes a manifest, a list of manifests and a metadata file, and then asks the catalog to point to the last
one. It syncs nothing. So each of these files is synced when it is closed, with its name: the catalog never points to a
file that a power loss can take.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pyiceberg.io import OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from tidegate.disk.durable import ensure_folder, sync_file, sync_folder

if TYPE_CHECKING:
    from typing_extensions import Buffer


class SyncedFileIO(PyArrowFileIO):
    """The library's own access to storages; new files on a disk are synced."""

    def new_output(self, location: str) -> Any:
        scheme, _, path = self.parse_location(location, self.properties)
        found = super().new_output(location)
        return _SyncedFile(found, Path(path)) if scheme == "file" else found


class _SyncedFile(OutputFile):
    """A new file on a disk."""

    def __init__(self, file: PyArrowFile, path: Path) -> None:
        super().__init__(location=file.location)
        self._file = file
        self._path = path

    def __len__(self) -> int:
        return len(self._file)

    def exists(self) -> bool:
        return self._file.exists()

    def to_input_file(self) -> PyArrowFile:
        return self._file.to_input_file()

    def create(self, overwrite: bool = False) -> Any:
        ensure_folder(self._path.parent)
        return _SyncedStream(self._path, overwrite=overwrite)


class _SyncedStream:
    """Bytes that are written from the begin to the end of a file."""

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self._path = path
        self._file = path.open("wb" if overwrite else "xb")

    def write(self, data: Buffer, /) -> int:
        return self._file.write(data)

    def tell(self) -> int:
        return self._file.tell()

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if self._file.closed:
            return
        try:
            self._file.flush()
            sync_file(self._file.fileno())
        finally:
            self._file.close()
        sync_folder(self._path.parent)

    def __enter__(self) -> _SyncedStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


REFERENCE = f"{SyncedFileIO.__module__}.{SyncedFileIO.__qualname__}"
"""The name of the class for the library's property `py-io-impl`."""

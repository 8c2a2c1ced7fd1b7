"""Reads a file of HDFS in parts."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from tidegate.storages.hdfs.client import HdfsClient
from tidegate.storages.hdfs.connections import OpenHdfsFile
from tidegate.storages.hdfs.failures import HdfsFailure, Trouble, translated

if TYPE_CHECKING:
    from hdfs_native import AsyncFileReader

BUFFER_BYTES = 4 << 20
"""What one request to a DataNode reads."""


class HdfsReader(io.RawIOBase):
    """An open file. It has the size that it had when it was opened. Raises STORAGE_UNUSABLE."""

    def __init__(self, client: HdfsClient, file: OpenHdfsFile[AsyncFileReader], path: str, where: str) -> None:
        self._client = client
        self._file = file
        self._path = path
        self._where = where
        self._at = 0
        self.size_bytes = len(file.file)

    def close(self) -> None:
        self._file.end()
        super().close()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.size_bytes}[whence]
        self._at = max(0, begin + offset)
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: memoryview | bytearray, /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        length = min(len(buffer), self.size_bytes - self._at)
        if length <= 0:
            return 0
        with translated(self._where, "read a file"):
            data = self._block(length)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def _block(self, length: int) -> bytes:
        """Retried while the file is there. Of one that was removed the DataNodes remove the blocks a little later."""
        tries = self._client.tries()
        while True:
            try:
                return self._file.transfer(lambda file: file.read_range(self._at, length))
            except HdfsFailure as failure:
                if self._client.status(self._path, tries=tries) is None:
                    raise HdfsFailure(Trouble.ABSENT, "the file was removed") from failure
                if not tries.again(failure):
                    raise


def opened(client: HdfsClient, path: str, where: str) -> io.BufferedReader | None:
    """A file with a buffer; None if it is absent. Raises HdfsFailure."""
    file = client.open(path)
    return None if file is None else io.BufferedReader(HdfsReader(client, file, path, where), BUFFER_BYTES)

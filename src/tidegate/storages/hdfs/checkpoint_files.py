"""`CheckpointFiles` on HDFS."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from contextlib import closing
from io import BufferedReader

from tidegate.core.errors import TidegateError
from tidegate.disk.blocks import Readable, read_blocks
from tidegate.storages.checkpoint_files import (
    CheckpointFile,
    CheckpointFiles,
    Measured,
    copy_by_reading,
    is_of_a_dead_engine,
    is_temporary,
)
from tidegate.storages.hdfs import publish
from tidegate.storages.hdfs.client import HdfsClient, Waits, client_of
from tidegate.storages.hdfs.failures import HdfsFailure, Trouble, translated
from tidegate.storages.hdfs.publish import NewFile
from tidegate.storages.hdfs.reading import opened
from tidegate.storages.schemes import Folder


class HdfsCheckpointFiles:
    """The files below a folder.

    **What Spark writes is not synced here.** Spark's checkpoint file manager for HDFS closes a file and renames it: the
    name is in the NameNode's log of edits, and every DataNode of the pipeline has received the content. That survives
    the death of any process, and a power loss of fewer machines than a block has replicas. For a power loss of all of
    them at once, set `dfs.datanode.synconclose` to true on the DataNodes. A client cannot sync a closed file: it would
    have to open it for append, and until it is closed again a reader may see a shorter one.

    **Holding costs a copy.** HDFS has no hard links, and no copy on the server: every held byte comes through this
    process once, and takes room until the held folder is removed.
    """

    def __init__(self, root: Folder, waits: Waits | None = None) -> None:
        self._root = root
        self._waits = Waits() if waits is None else waits

    def where(self, name: str = "") -> str:
        return str(self._root / name) if name else str(self._root)

    def list(self, folder: str = "") -> list[CheckpointFile]:
        with translated(self.where(folder), "list the files of a checkpoint"):
            found = [each for each in self._below(folder) if not is_temporary(posixpath.basename(each.name))]
        return sorted(found, key=lambda each: each.name)

    def unfinished(self) -> list[str]:
        with translated(self.where(), "list the files of a checkpoint"):
            names = [each.name for each in self._below("")]
        return sorted(name for name in names if is_of_a_dead_engine(posixpath.basename(name)))

    def open(self, name: str) -> BufferedReader | None:
        with translated(self.where(name), "read a file of a checkpoint"):
            return opened(self._client(), self._path(name), self.where(name))

    def write(self, name: str, data: bytes) -> None:
        with translated(self.where(name), "write a file of a checkpoint"):
            if not publish.put(self._client(), self._path(name), data):
                raise _exists()

    def hold(self, name: str, into: str) -> bool:
        target = HdfsCheckpointFiles(Folder.of(into), self._waits)
        file = self.open(name)
        if file is None:
            return False
        with closing(file):
            try:
                target.create(name, file, lambda _: None)
            except TidegateError:
                if self._is_there(name):
                    raise
                return False
        return True

    def copy(self, name: str, to: CheckpointFiles, passed: Callable[[int], object]) -> Measured | None:
        return copy_by_reading(self, name, to, passed)

    def create(self, name: str, source: Readable, passed: Callable[[int], object]) -> Measured:
        with translated(self.where(name), "copy a file of a checkpoint"):
            file = NewFile(self._client(), self._path(name))

            def take(block: memoryview) -> None:
                file.write(block)
                passed(len(block))

            try:
                found = Measured(*read_blocks(source, take))
                if not file.publish():
                    raise _exists()
            except BaseException:
                file.abandon()
                raise
        return found

    def delete(self, name: str) -> None:
        with translated(self.where(name), "remove a file of a checkpoint"):
            self._client().delete(self._path(name))

    def clear(self, folder: str) -> None:
        with translated(self.where(folder), "clear a folder of a checkpoint"):
            self._client().delete(self._path(folder), recursive=True)

    def sync(self) -> list[str]:
        return []

    def _is_there(self, name: str) -> bool:
        with translated(self.where(name), "look at a file of a checkpoint"):
            return self._client().status(self._path(name)) is not None

    def _below(self, folder: str) -> list[CheckpointFile]:
        found: list[CheckpointFile] = []
        folders = [folder]
        while folders:
            at = folders.pop()
            for each in self._client().children(self._path(at)) or []:
                name = posixpath.join(at, each.name)
                if each.is_folder:
                    folders.append(name)
                else:
                    found.append(CheckpointFile(name, each.size_bytes, each.written_at))
        return found

    def _path(self, name: str) -> str:
        return posixpath.join(self._root.path, name) if name else self._root.path

    def _client(self) -> HdfsClient:
        return client_of(self._root, self._waits)


def _exists() -> HdfsFailure:
    return HdfsFailure(Trouble.EXISTS, "a file of this name is there")

"""`Storage` on HDFS."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from tidegate.storages.hdfs.client import HdfsClient, Waits, client_of
from tidegate.storages.hdfs.failures import HdfsFailure, Trouble, translated
from tidegate.storages.hdfs.moving import Renaming, moved
from tidegate.storages.hdfs.publish import is_temporary, put, replace
from tidegate.storages.schemes import Folder
from tidegate.storages.storage import Names, RecordStat, demand_below


class HdfsStorage:
    """`Storage` on HDFS. Threads and processes, on any machine, may share a folder.

    What a put has made durable: the content is synced on every DataNode of its pipeline, the name is in the NameNode's
    log of edits. `publish.py` says how a record gets its name. A record never has its name while it is open, so no
    reader sees a part of it. `delete` is durable at return; `clear` is one step of the NameNode.
    """

    def __init__(self, root: Folder, waits: Waits | None = None) -> None:
        self._root = root
        self._waits = Waits() if waits is None else waits

    def where(self, name: str = "") -> str:
        demand_below(name)
        return str(self._root / name) if name else str(self._root)

    def below(self, folder: str) -> HdfsStorage:
        demand_below(folder)
        return HdfsStorage(self._root / folder if folder else self._root, self._waits)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        target = self._path(name)
        with translated(self.where(name), "create a record"):
            return put(self._client(), target, data)

    def replace(self, name: str, data: bytes) -> None:
        target = self._path(name)
        with translated(self.where(name), "replace a record"):
            replace(self._client(), target, data, is_synced=True)

    def note(self, name: str, data: bytes) -> None:
        target = self._path(name)
        with translated(self.where(name), "write a note"):
            replace(self._client(), target, data, is_synced=False)

    def read(self, name: str) -> bytes | None:
        path = self._path(name)
        with translated(self.where(name), "read a record"):
            data = self._client().read(path)
            if data is not None and not self._client().is_own(path):
                self._client().log_edit(posixpath.dirname(path))
            return data

    def peek(self, name: str) -> bytes | None:
        path = self._path(name)
        with translated(self.where(name), "read a record"):
            return self._client().read(path)

    def look(self, name: str) -> RecordStat | None:
        path = self._path(name)
        with translated(self.where(name), "look at a record"):
            found = self._client().status(path)
        return None if found is None else RecordStat(found.size_bytes, found.written_at)

    def list(self, folder: str) -> Names:
        names, path = self.peek_names(folder), self._path(folder)
        if not self._all_own(path, names):
            with translated(self.where(folder), "list a folder"):
                self._client().log_edit(path)
        return names

    def peek_names(self, folder: str) -> Names:
        path = self._path(folder)
        with translated(self.where(folder), "list a folder"):
            entries = self._client().children(path) or []
        return sorted(each.name for each in entries if not each.is_folder and not is_temporary(each.name))

    def folders(self, folder: str) -> Names:
        path = self._path(folder)
        with translated(self.where(folder), "list a folder"):
            return sorted(each.name for each in self._client().children(path) or [] if each.is_folder)

    def delete(self, name: str) -> None:
        path = self._path(name)
        with translated(self.where(name), "remove a record"):
            self._client().delete(path)

    def delete_all(self, names: Sequence[str]) -> None:
        for name in names:  # HDFS has no request for several
            self.delete(name)

    def delete_folder(self, folder: str) -> None:
        path = self._path(folder)
        with translated(self.where(folder), "remove a folder"):
            try:
                self._client().delete(path)
            except HdfsFailure as failure:
                if failure.trouble is not Trouble.NOT_EMPTY:
                    raise

    def clear(self, folder: str) -> None:
        path = self._path(folder)
        with translated(self.where(folder), "remove a folder"):
            self._client().delete(path, recursive=True)

    def settle(self, folder: str) -> None:
        self._path(folder)  # deletes are durable

    def set_aside(self, name: str) -> str | None:
        path = self._path(name)
        folder, own_name = posixpath.split(name)
        with translated(self.where(name), "set a record aside"):
            for number in range(_ASIDES_AT_MOST):
                aside = posixpath.join(folder, f".aside-{own_name}-{number}")
                match moved(self._client(), path, self._path(aside)):
                    case Renaming.YES:
                        return aside
                    case Renaming.GONE:
                        return None
                    case Renaming.TAKEN:
                        continue
            raise HdfsFailure(Trouble.EXISTS, f"{_ASIDES_AT_MOST} records of this name are set aside")

    def remove_leftovers(self, folder: str, of: str = "") -> None:
        path = self._path(folder)
        with translated(self.where(folder), "clean a folder"):
            for each in self._client().children(path) or []:
                if is_temporary(each.name) and each.name.startswith(f".{of}"):
                    self._client().delete(posixpath.join(path, each.name))

    def _path(self, name: str) -> str:
        demand_below(name)
        return posixpath.join(self._root.path, name) if name else self._root.path

    def _client(self) -> HdfsClient:
        return client_of(self._root, self._waits)

    def _all_own(self, folder: str, names: Iterable[str]) -> bool:
        return all(self._client().is_own(posixpath.join(folder, name)) for name in names)


_ASIDES_AT_MOST = 1000

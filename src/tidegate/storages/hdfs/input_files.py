"""`InputFiles` on HDFS."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator
from hashlib import blake2b

from tidegate.storages.hdfs.client import HdfsClient, NameEntry, Waits, client_of
from tidegate.storages.hdfs.failures import translated
from tidegate.storages.hdfs.moving import Renaming, moved
from tidegate.storages.input_files import InputFile
from tidegate.storages.schemes import Folder

ENDS_BYTES = 4096


class HdfsInputFiles:
    """The files below a folder. A file that is written in place can be seen, empty or short. One folder after another
    is listed; the NameNode's times have milliseconds.
    """

    appear_whole = False
    can_move = True
    time_unit_ns = 1_000_000

    def __init__(self, root: Folder, waits: Waits | None = None) -> None:
        self._root = root
        self._waits = Waits() if waits is None else waits

    def where(self, name: str = "") -> str:
        return str(self._root / name) if name else str(self._root)

    def below(self, enters: Callable[[str], bool]) -> Iterator[InputFile]:
        folders = [""]
        while folders:
            at = folders.pop()
            with translated(self.where(at), "list a folder"):
                entries = self._client().children(self._path(at)) or []
            for each in entries:
                name = posixpath.join(at, each.name)
                if not each.is_folder:
                    yield _input(name, each)
                elif enters(name):
                    folders.append(name)

    def look(self, name: str) -> InputFile | None:
        with translated(self.where(name), "look at a file"):
            found = self._client().status(self._path(name))
        return None if found is None or found.is_folder else _input(name, found)

    def digest(self, name: str) -> str | None:
        with translated(self.where(name), "read a file"):
            ends = self._client().ends(self._path(name), ENDS_BYTES)
        return None if ends is None else blake2b(ends, digest_size=16).hexdigest()

    def move(self, name: str, into: Folder, known_as: str) -> bool:
        client, target = self._client(), (into / known_as).path
        with translated(self.where(name), "move a file"):
            client.make_folder(posixpath.dirname(target))
            outcome = moved(client, self._path(name), target)
        if outcome is Renaming.GONE:
            raise FileNotFoundError(self.where(name))
        return outcome is Renaming.YES

    def remove(self, name: str) -> None:
        with translated(self.where(name), "remove a file"):
            self._client().delete(self._path(name))

    def _path(self, name: str) -> str:
        return posixpath.join(self._root.path, name) if name else self._root.path

    def _client(self) -> HdfsClient:
        return client_of(self._root, self._waits)


def _input(name: str, found: NameEntry) -> InputFile:
    return InputFile(name, found.size_bytes, round(found.written_at * 1000) * 1_000_000)

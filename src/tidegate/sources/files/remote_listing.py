"""`Files` on HDFS and S3: listed and looked at by the storage's client in this process, read by Spark's own readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidegate.sources.files.globs import FileSelection
from tidegate.sources.files.listing import FileStamp, SeenFile
from tidegate.sources.files.names import why_folded
from tidegate.storages.input_files import InputFile
from tidegate.storages.inputs import open_input_files
from tidegate.storages.schemes import Folder


class RemoteFiles:
    """The files of a source on a storage. `root`: as Spark names it. `is_closed`: whether no program writes a file."""

    on_this_clock = False

    def __init__(
        self, folder: Folder, root: str, selection: FileSelection, is_closed: Callable[[str], bool] = lambda _: True
    ) -> None:
        self._folder = folder
        self._files = open_input_files(folder)
        self._root = root.rstrip("/")
        self._selection = selection
        self._is_closed = is_closed
        self.appear_whole = self._files.appear_whole
        self.time_unit_ns = self._files.time_unit_ns

    def list(self) -> Iterator[SeenFile]:
        selects = self._selection.selects
        return (_seen(each) for each in self._files.below(self._selection.enters) if selects(each.name))

    def look(self, name: str) -> SeenFile | None:
        found = self._files.look(name)
        return None if found is None else _seen(found)

    def mark(self, name: str) -> FileStamp | None:
        return None

    def ends(self, name: str) -> str | None:
        return self._files.digest(name)

    def is_whole(self, name: str) -> bool:
        return self.appear_whole or self._is_closed(self.path(name))

    def why_unreadable(self, name: str, names_in: str) -> str | None:
        return why_folded(name)

    def path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def rename(self, name: str, to: str) -> None:
        if not self._files.move(name, self._folder, to):
            raise FileExistsError(self._files.where(to))

    def put_back(self, name: str, to: str) -> bool:
        return self._files.move(name, self._folder, to)

    def remove(self, name: str) -> None:
        self._files.remove(name)

    def move(self, name: str, into: str, known_as: str) -> None:
        number, wanted = 1, known_as
        while not self._files.move(name, Folder.of(into), known_as):
            known_as = f"{wanted}.{number}"
            number += 1


def _seen(found: InputFile) -> SeenFile:
    return SeenFile(found.name, found.size_bytes, found.written_at_ns)

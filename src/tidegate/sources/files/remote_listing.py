"""`Files` on HDFS and S3: listed and looked at by the storage's client in this process, read by Spark's own readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidegate.core.errors import Code, TidegateError
from tidegate.sources.files.globs import FileSelection
from tidegate.sources.files.listing import FileStamp, SeenFile
from tidegate.storages.input_files import InputFile
from tidegate.storages.inputs import open_input_files
from tidegate.storages.schemes import Folder


class RemoteFiles:
    """The files of a source on a storage. `root`: as Spark names it. `is_closed`: whether no program writes a file.

    None of them is renamed or removed: `after_done` is refused.
    """

    on_this_clock = False

    def __init__(
        self, folder: Folder, root: str, selection: FileSelection, is_closed: Callable[[str], bool] = lambda _: True
    ) -> None:
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

    def path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def rename(self, name: str, to: str) -> None:
        raise self._unchanged()

    def put_back(self, name: str, to: str) -> bool:
        raise self._unchanged()

    def remove(self, name: str) -> None:
        raise self._unchanged()

    def move(self, name: str, into: str, known_as: str) -> None:
        raise self._unchanged()

    def _unchanged(self) -> TidegateError:
        return TidegateError(
            Code.SOURCE_OPTION,
            expected='after_done="keep": files of this storage are never changed',
            found="a file to remove or to move",
            where=self._root,
            next_step='pass after_done="keep"',
        )


def _seen(found: InputFile) -> SeenFile:
    return SeenFile(found.name, found.size_bytes, found.written_at_ns)

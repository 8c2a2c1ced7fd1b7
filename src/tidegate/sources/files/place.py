"""The folder and the selection of a file source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidegate.core.errors import Code, TidegateError
from tidegate.sources.files.globs import FileSelection
from tidegate.sources.files.listing import Files, LocalFiles
from tidegate.sources.files.remote_listing import RemoteFiles
from tidegate.storages.schemes import Folder


@dataclass(frozen=True, slots=True)
class FilesPlace:
    """The root folder of a source, as a URI with a scheme, and the selection of files below it.

    `is_closed`: whether no program writes a file, which only the client of some storages in the JVM can tell.
    """

    root: str
    selection: FileSelection
    is_pattern: bool
    is_closed: Callable[[str], bool] = lambda _: True

    def files(self) -> Files:
        folder = Folder.of(self.root)
        if folder.is_local:
            return LocalFiles(Path(self._path), self.selection)
        return RemoteFiles(folder, self.root, self.selection, self.is_closed)

    @property
    def _path(self) -> str:
        folder = Folder.of(self.root)
        return unquote(urlsplit(self.root).path) if folder.is_local else folder.path

    def name_of(self, uri: str) -> str:
        """The path below the root for a URI that Spark's own file source has recorded.

        Raises SOURCES_CHANGED for another root.
        """
        path, root = unquote(urlsplit(uri).path), self._path.rstrip("/") + "/"
        if not path.startswith(root):
            raise TidegateError(
                Code.SOURCES_CHANGED,
                expected=f"files below {root}, as they were when Spark's own file source read them",
                found=path,
                where="the checkpoint",
                next_step="put the folder back where it was for one start: from then on it may be moved",
            )
        return path[len(root) :]

"""The folder and the selection of a file source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tidegate.core.errors import Code, TidegateError
from tidegate.sources.files.globs import FileSelection
from tidegate.sources.files.listing import Files, LocalFiles


@dataclass(frozen=True, slots=True)
class FilesPlace:
    """The root folder of a source, as a URI with a scheme, and the selection of files below it."""

    root: str
    selection: FileSelection
    is_pattern: bool

    def files(self) -> Files:
        return LocalFiles(Path(unquote(urlsplit(self.root).path)), self.selection)

    def name_of(self, uri: str) -> str:
        """The path below the root for a URI that Spark's own file source has recorded.

        Raises SOURCES_CHANGED for another root.
        """
        path, root = unquote(urlsplit(uri).path), unquote(urlsplit(self.root).path).rstrip("/") + "/"
        if not path.startswith(root):
            raise TidegateError(
                Code.SOURCES_CHANGED,
                expected=f"files below {root}, as they were when Spark's own file source read them",
                found=path,
                where="the checkpoint",
                next_step="put the folder back where it was for one start: from then on it may be moved",
            )
        return path[len(root) :]

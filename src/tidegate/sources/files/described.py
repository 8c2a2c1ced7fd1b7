"""The description of a file source that each start writes, and the checks that a command makes from it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote, urlsplit

from tidegate.core.errors import TidegateError
from tidegate.core.health import Finding, failed, ok
from tidegate.sources.base import Begins, Replay, Source, Traits
from tidegate.sources.files.globs import FileSelection, split
from tidegate.sources.files.listing import LocalFiles
from tidegate.sources.files.remote_listing import RemoteFiles
from tidegate.storages.schemes import Folder


class DescribedFiles(Source):
    """A source of files: all files in a folder, or all files that match a pattern."""

    kind: ClassVar[str] = "files"
    traits = Traits(Replay.EXACT, Begins.EITHER)

    def __init__(self, path: str, format: str) -> None:
        self.path = path
        self.format = format

    def describe(self) -> Mapping[str, object]:
        """The description of the source. Its path is absolute, because a command may run in another folder."""
        path = self.path if urlsplit(self.path).scheme else os.path.abspath(self.path)
        return {"path": path, "format": self.format}

    @classmethod
    def from_description(cls, described: Mapping[str, object], options: Mapping[str, str]) -> Source:
        return DescribedFiles(str(described["path"]), str(described["format"]))

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        return f"{described['format']} files in {described['path']}"

    def probe(self, what: str) -> Sequence[Finding]:
        """Test whether the folder can be listed, and count its files."""
        root, patterns = split(self.path)
        if urlsplit(root).scheme not in ("", "file"):
            return [_probed(what, root, FileSelection(patterns, recursive=True))]
        folder = Path(unquote(urlsplit(root).path))
        if not folder.is_dir():
            return [failed(what, f"no folder {folder}", "put the folder back, or make it")]
        try:
            found = LocalFiles(folder, FileSelection(patterns, recursive=True)).list()
        except OSError as error:
            return [failed(what, f"{folder}: {error}", "give this user the right to read there")]
        return [ok(what, f"{len(found)} files in {self.path}")]


def _probed(what: str, root: str, selection: FileSelection) -> Finding:
    """One file is enough: a bucket may have millions."""
    try:
        folder = Folder.of(root)
        first = next(iter(RemoteFiles(folder, root, selection).list()), None)
    except TidegateError as error:
        return failed(what, error.found, error.next_step)
    return ok(what, f"{folder} can be listed, and has {'files' if first else 'no file yet'}")

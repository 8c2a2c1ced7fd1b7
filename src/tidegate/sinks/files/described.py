"""The description of a file sink that a start writes."""

from __future__ import annotations

import msgspec

from tidegate.sinks.files.declared import DeclaredFileSink


class FileTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a `FileSink`: the folder alone, because staged files carry their format in their names."""

    path: str

    def __str__(self) -> str:
        return f"files in {self.path}"


def target_of(sink: DeclaredFileSink) -> FileTarget:
    return FileTarget(path=str(sink.folder))

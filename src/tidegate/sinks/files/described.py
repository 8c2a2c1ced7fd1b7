"""The description of a file sink that a start writes, and the check of its folder without the job's program."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidegate.core.health import Finding, failed, ok
from tidegate.sinks.files.declared import DeclaredFileSink
from tidegate.sinks.staging import unwritable


class FileTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a `FileSink`: the folder alone, because staged files carry their format in their names."""

    path: str

    def __str__(self) -> str:
        return f"files in {self.path}"


def target_of(sink: DeclaredFileSink) -> FileTarget:
    return FileTarget(path=str(sink.path))


def probed(sink: DeclaredFileSink, what: str) -> Sequence[Finding]:
    """Check the rights on the sink's folder, for `tidegate check`. Writes nothing."""
    flaw = unwritable(sink.path)
    if flaw is not None:
        return [failed(what, flaw, "give this user the right to write there")]
    return [ok(what, f"{sink.path} can be written")]

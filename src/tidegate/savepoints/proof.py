"""Files of a savepoint, compared with what its manifest says of them while they are read or copied."""

from __future__ import annotations

from pathlib import Path

from tidegate.core.records import FileFlaw, SavedFile
from tidegate.disk.blocks import Readable, copy_measured, measured


def flaw_at(path: Path, file: SavedFile) -> FileFlaw | None:
    """How the file at this path differs from the saved one. The whole file is read."""
    try:
        return file.flaw(*measured(path))
    except FileNotFoundError:
        return file.shortage(None)


def copy_verified(source: Readable, target: Path, file: SavedFile) -> FileFlaw | None:
    """Copy a saved file, or a copy of it, into a new file, which is synced; how what was read differs from it.

    Each file is synced when it is written, while others are read: a sync of the whole folder then finds little to
    write.
    """
    return file.flaw(*copy_measured(source, target))

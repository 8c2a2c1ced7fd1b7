"""Compares files of a savepoint with its manifest while they are read or copied."""

from __future__ import annotations

from pathlib import Path

from tidegate.core.records import FileFlaw, SavedFile
from tidegate.disk.blocks import Readable, copy_measured, measured


def flaw_at(path: Path, file: SavedFile) -> FileFlaw | None:
    """The difference between the file at this path and the saved one, or None. Reads the whole file."""
    try:
        return file.flaw(*measured(path))
    except FileNotFoundError:
        return file.shortage(None)


def copy_verified(source: Readable, target: Path, file: SavedFile) -> FileFlaw | None:
    """Copy a saved file, or a copy of it, into a new file, and sync it. Returns the difference from the saved one, or
    None.

    Each file is synced when it is written, while others are read: a sync of the whole folder then has little to write.
    """
    return file.flaw(*copy_measured(source, target))

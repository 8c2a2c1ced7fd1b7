"""The files of a restored checkpoint with rewritten state: all other files are carried over.

    <hidden>/before/   the restored files of the savepoint
    <hidden>/spark/    the same without the partitions of its state, which Spark writes again

Both are below a hidden folder that does not count until it is renamed. So nothing here needs an undo: the hidden folder
of a killed restore is removed as a whole.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from tidegate.checkpoints.spark_layout import (
    STATE,
    checksum_of,
    commits_entry,
    entry_numbers,
    is_state,
    offsets_entry,
)
from tidegate.checkpoints.sync import sync_whole
from tidegate.disk.walking import files_below
from tidegate.savepoints.operator_metadata import counts_partitions, divided, moved_to, names_schemas


def begin(checkpoint: Path, partitions: int) -> Path:
    """Rename a checkpoint folder, and create one without state under its name.

    Returns the new path of the renamed folder.
    """
    before = checkpoint.with_name("before")
    os.rename(checkpoint, before)
    checkpoint.mkdir()
    for name in _names(before):
        if names_schemas(name):
            _replace(before, name, moved_to((before / name).read_bytes(), before, name))
        if not is_state(name):
            (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(before / name, checkpoint / name)
    for name in _names(checkpoint):
        if names_schemas(name):
            _replace(checkpoint, name, moved_to((checkpoint / name).read_bytes(), checkpoint, name))
        if counts_partitions(name):
            _replace(checkpoint, name, divided((checkpoint / name).read_bytes(), partitions, name))
    return before


def offsets_of(checkpoint: Path, epoch: int) -> bytes:
    """The entry of the epoch in the log of offsets."""
    return (checkpoint / offsets_entry(epoch)).read_bytes()


def commits_of(checkpoint: Path, epoch: int) -> bytes:
    """The entry of the epoch in the log of commits."""
    return (checkpoint / commits_entry(epoch)).read_bytes()


def replace_offsets(checkpoint: Path, epoch: int, data: bytes) -> None:
    """Replace the epoch's entry in the log of offsets by `data`."""
    _replace(checkpoint, offsets_entry(epoch), data)


def replace_commits(checkpoint: Path, epoch: int, data: bytes) -> None:
    """Replace the epoch's entry in the log of commits by `data`."""
    _replace(checkpoint, commits_entry(epoch), data)


def state_partitions(checkpoint: Path, operator: int) -> list[int]:
    """The partitions of an operator that have files. An aggregation without keys has one, for any number of
    partitions.
    """
    folder = checkpoint / STATE / str(operator)
    return entry_numbers(path.name for path in folder.iterdir()) if folder.is_dir() else []


def as_snapshots(checkpoint: Path, operator: int, version: int) -> None:
    """Make `1.delta`, the only file that HDFSBackedStateStore has written into an empty store, the snapshot of the
    version.

    The two have one format: pairs of key and value. Before the first change a delta holds nothing else. A series of
    empty versions up to it would work as well, but needs as many files.
    """
    for name in [each for each in _names(checkpoint) if each.startswith(f"{STATE}/{operator}/")]:
        path = checkpoint / name
        if path.name == "1.delta":
            os.rename(path, path.with_name(f"{version}.snapshot"))
        elif "1.delta" in path.name:
            path.unlink()  # a checksum, by Hadoop or by Spark, for a file of that name


def end(checkpoint: Path, before: Path, final: Path | str) -> None:
    """Remove the checkpoint that was set aside, and make its replacement durable. `final`: its final place."""
    shutil.rmtree(before)
    for name in _names(checkpoint):
        if names_schemas(name):
            _replace(checkpoint, name, moved_to((checkpoint / name).read_bytes(), final, name))
    sync_whole(checkpoint)


def _names(root: Path) -> Iterator[str]:
    """The current files below a folder, by their paths in it."""
    found = [(folder / name).relative_to(root).as_posix() for folder, names in files_below(root) for name in names]
    yield from sorted(found)


def _replace(root: Path, name: str, data: bytes) -> None:
    """Replace the file, never its bytes: it may be a link to the savepoint's file. Its checksum is removed, too."""
    for stale in (name, checksum_of(name)):
        (root / stale).unlink(missing_ok=True)
    (root / name).write_bytes(data)

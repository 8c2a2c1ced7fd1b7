"""The history of completed checkpoints, newest first: `history/checkpoints/`. It survives restarts and is bounded.

The history is JSON lines in numbered files of at most 250 entries. The newest 1,000 entries stay, in a few files at
most. Entries are written in batches and not synced: a power loss may remove the newest ones, which the ledger still
has. Only one process writes at a time, the job's driver.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tidegate.core.json_formats import Unreadable, parsed
from tidegate.disk.durable import storage_error

ENTRIES_KEPT = 1_000

_FOLDER = "history/checkpoints"
_SUFFIX = ".jsonl"
_ENTRIES_A_FILE = 250
_FILES_KEPT = ENTRIES_KEPT // _ENTRIES_A_FILE + 1


class DoneCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One epoch that is done in all its sinks."""

    query: str
    epoch: int
    run: int
    """Number of the run; 0 if recovery completed an epoch that an earlier run had decided."""
    at: float
    """Time of completion, in seconds since 1970."""
    duration_ms: float | None
    """Milliseconds from Spark's choice of the input to the last commit; None in recovery."""
    rows: int
    aborted: int = 0
    """Transactions of dead runs aborted since the epoch before."""
    redone: int = 0
    """Lost transactions that were written again."""


class CheckpointsHistory:
    """Writes the history of one job."""

    def __init__(self, job_folder: str | Path) -> None:
        self._folder = Path(job_folder) / _FOLDER
        self._number, self._entries = _resume(self._folder)

    def add(self, checkpoints: Sequence[DoneCheckpoint]) -> None:
        """Append checkpoints in the order in which they completed."""
        rest = list(checkpoints)
        while rest:
            if self._entries >= _ENTRIES_A_FILE:
                self._number, self._entries = self._number + 1, 0
            batch, rest = rest[: _ENTRIES_A_FILE - self._entries], rest[_ENTRIES_A_FILE - self._entries :]
            self._append(b"".join(msgspec.json.encode(each) + b"\n" for each in batch))
            self._entries += len(batch)

    def _append(self, lines: bytes) -> None:
        new = self._entries == 0
        if new:
            self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / f"{self._number}{_SUFFIX}").open("ab") as file:
            file.write(lines)
        if new:
            for path in _files(self._folder)[:-_FILES_KEPT]:
                path.unlink(missing_ok=True)


def read_checkpoints(job_folder: str | Path, at_most: int = ENTRIES_KEPT) -> list[DoneCheckpoint]:
    """The newest completed checkpoints of a job, newest first. A partly written line is left out.

    Raises STORAGE_UNUSABLE if the history cannot be read.
    """
    found: list[DoneCheckpoint] = []
    for path in reversed(_files(Path(job_folder) / _FOLDER)):
        if len(found) >= at_most:
            break
        found.extend(reversed(_read(path)))
    return found[:at_most]


def _resume(folder: Path) -> tuple[int, int]:
    """Remove a line that a kill left half written; return the number of the newest file and its number of entries."""
    files = _files(folder)
    if not files:
        return 1, 0
    newest = files[-1]
    data = newest.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(newest, whole)
    return _number(newest), data.count(b"\n")


def _read(path: Path) -> list[DoneCheckpoint]:
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:  # removed meanwhile
        return []
    except OSError as error:
        raise storage_error(error, path, "read the history of checkpoints") from error
    return [entry for line in lines if (entry := _decoded(line)) is not None]


def _decoded(line: bytes) -> DoneCheckpoint | None:
    try:
        return parsed(line, DoneCheckpoint)
    except Unreadable:
        return None


def _files(folder: Path) -> list[Path]:
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        names = []
    except OSError as error:
        raise storage_error(error, folder, "list a folder") from error
    return sorted((folder / name for name in names if name.removesuffix(_SUFFIX).isdigit()), key=_number)


def _number(path: Path) -> int:
    return int(path.name.removesuffix(_SUFFIX))

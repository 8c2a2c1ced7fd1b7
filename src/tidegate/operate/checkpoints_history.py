"""The history of completed checkpoints, newest first: `history/checkpoints/`. It survives restarts and is bounded.

The history is JSON lines in numbered files of at most 250 entries. The newest 1,000 entries stay, in a few files at
most. Entries are written in batches and not synced: a power loss may remove the newest ones, which the ledger still
has. Only one process writes at a time, the job's driver.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from tidegate.core.json_formats import Unreadable, parsed
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Where
from tidegate.storages.storage import Storage

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
    shown_again: int = 0
    """Rows that a sink without evidence may have shown twice."""


class CheckpointsHistory:
    """Writes the history of one job, from the driver that holds the job."""

    def __init__(self, job_folder: Where) -> None:
        """Removes what a killed driver was writing."""
        self._storage = open_storage(job_folder)
        self._storage.remove_leftovers(_FOLDER)
        self._number, self._lines = _resume(self._storage)

    def add(self, checkpoints: Sequence[DoneCheckpoint]) -> None:
        """Append checkpoints in the order in which they completed."""
        rest = list(checkpoints)
        while rest:
            if len(self._lines) >= _ENTRIES_A_FILE:
                self._number, self._lines = self._number + 1, []
            free, begins = _ENTRIES_A_FILE - len(self._lines), not self._lines
            lines = [*self._lines, *(msgspec.json.encode(each) for each in rest[:free])]
            self._storage.note(_file(self._number), b"".join(line + b"\n" for line in lines))
            self._lines, rest = lines, rest[free:]
            if begins:
                for number in _numbers(self._storage)[:-_FILES_KEPT]:
                    self._storage.delete(_file(number))


def read_checkpoints(job_folder: Where, at_most: int = ENTRIES_KEPT) -> list[DoneCheckpoint]:
    """The newest completed checkpoints of a job, newest first. A torn line is left out.

    Raises STORAGE_UNUSABLE if the history cannot be read.
    """
    found: list[DoneCheckpoint] = []
    storage = open_storage(job_folder)
    for number in reversed(_numbers(storage)):
        if len(found) >= at_most:
            break
        entries = (_decoded(line) for line in _whole_lines(storage, number))
        found.extend(reversed([entry for entry in entries if entry is not None]))
    return found[:at_most]


def _resume(storage: Storage) -> tuple[int, list[bytes]]:
    """The number of the newest file, and its whole lines."""
    numbers = _numbers(storage)
    return (numbers[-1], _whole_lines(storage, numbers[-1])) if numbers else (1, [])


def _whole_lines(storage: Storage, number: int) -> list[bytes]:
    """The lines of a file, without one that a power loss has torn; none if it was removed meanwhile."""
    data = storage.peek(_file(number)) or b""
    return data[: data.rfind(b"\n") + 1].splitlines()


def _decoded(line: bytes) -> DoneCheckpoint | None:
    try:
        return parsed(line, DoneCheckpoint)
    except Unreadable:
        return None


def _numbers(storage: Storage) -> list[int]:
    """The numbers of the files, rising."""
    return sorted(int(name.removesuffix(_SUFFIX)) for name in storage.peek_names(_FOLDER) if _NAME.fullmatch(name))


def _file(number: int) -> str:
    return f"{_FOLDER}/{number}{_SUFFIX}"


_NAME = re.compile(rf"[0-9]+{re.escape(_SUFFIX)}")

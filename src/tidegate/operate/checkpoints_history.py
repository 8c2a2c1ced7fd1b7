"""The history of completed checkpoints, newest first: `history/checkpoints/`. It survives restarts and is bounded.

The history is JSON lines in numbered files of at most 200 entries. The newest 10,000 entries stay, in 51 files at
most. Entries are written in batches and not synced: a power loss may remove the newest ones, which the ledger still
has. Only one process writes at a time, the job's driver.

How it is laid out, and why. No storage but a disk can append, so a batch replaces the newest file: at most 200 entries,
70 kB, however long the history is. A file begins with the totals of all epochs before it, which no longer depend on
what the history keeps; so the newest file alone gives the counts of the whole job. The name of a file has the time of
its first entry: a reader that wants the epochs of some time opens only the files with them. Files of older releases
have neither, and are older than all others.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec

from tidegate.core.json_formats import Unreadable, parsed, readable
from tidegate.operate.done_checkpoint import DoneCheckpoint
from tidegate.operate.epoch_totals import QueryTotals, epochs_in, totals_with
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Where
from tidegate.storages.storage import Storage

ENTRIES_KEPT = 10_000

_FOLDER = "history/checkpoints"
_SUFFIX = ".jsonl"
_ENTRIES_A_FILE = 200
_FILES_KEPT = ENTRIES_KEPT // _ENTRIES_A_FILE + 1


class CheckpointsHistory:
    """Writes the history of one job, from the driver that holds the job."""

    def __init__(self, job_folder: Where) -> None:
        """Removes what a killed driver was writing, and reads on from where it stopped."""
        self._storage = open_storage(job_folder)
        self._storage.remove_leftovers(_FOLDER)
        files = _files(self._storage)
        self._totals = _totals(self._storage, files)
        self._number, self._name = (files[-1].number, files[-1].name) if files else (0, "")
        newest = _read(self._storage, files[-1]) if files else _Content(None, ())
        self._lines = [] if newest.before is None else _lines(newest.before, newest.entries)

    def add(self, checkpoints: Sequence[DoneCheckpoint]) -> None:
        """Append checkpoints, oldest first. This numbers them."""
        first = epochs_in(self._totals) + 1
        rest = [msgspec.structs.replace(each, number=number) for number, each in enumerate(checkpoints, first)]
        while rest:
            begins = not 0 < len(self._lines) <= _ENTRIES_A_FILE  # the first line has the totals
            if begins:
                self._number += 1
                self._name = f"{self._number}.{int(rest[0].at * 1000)}{_SUFFIX}"
                self._lines = _lines(self._totals, ())
            now = rest[: _ENTRIES_A_FILE + 1 - len(self._lines)]
            lines = [*self._lines, *(msgspec.json.encode(each) for each in now)]
            self._storage.note(f"{_FOLDER}/{self._name}", b"".join(line + b"\n" for line in lines))
            self._lines, self._totals, rest = lines, totals_with(self._totals, now), rest[len(now) :]
            if begins:
                for old in _files(self._storage)[:-_FILES_KEPT]:
                    self._storage.delete(f"{_FOLDER}/{old.name}")


def read_checkpoints(
    job_folder: Where,
    at_most: int = ENTRIES_KEPT,
    *,
    before: float = math.inf,
    since: float = -math.inf,
    behind: int = -1,
) -> list[DoneCheckpoint]:
    """The newest completed checkpoints of a job, newest first. A torn line is left out.

    `at_most`: how many. `before`, `since`: only those that were completed before the one time, and not before the other
    one, in seconds since 1970 by the clocks of the drivers. `behind`: only those with a higher number. Reads only the
    files that these bounds leave. Raises STORAGE_UNUSABLE if the history cannot be read.
    """
    return list(islice(_newest(open_storage(job_folder), before, since, behind), at_most))


def read_totals(job_folder: Where) -> dict[str, QueryTotals]:
    """The totals of a job by query, over all its epochs; empty before the first one. Reads one file, and all of them if
    an older release has written the newest one. Raises STORAGE_UNUSABLE.
    """
    storage = open_storage(job_folder)
    return _totals(storage, _files(storage))


def _newest(storage: Storage, before: float, since: float, behind: int) -> Iterator[DoneCheckpoint]:
    """The entries within these bounds, newest first. What is not asked for is neither read nor parsed."""
    for file in reversed(_files(storage)):
        if file.begins >= before:
            continue
        for each in readable(reversed(_lines_of(storage, file)), DoneCheckpoint):
            if each.number <= behind:
                return
            if since <= each.at < before:
                yield each
        if file.begins < since:
            return


def _totals(storage: Storage, files: Sequence[_File]) -> dict[str, QueryTotals]:
    later: list[DoneCheckpoint] = []
    for file in reversed(files):
        content = _read(storage, file)
        later = [*content.entries, *later]
        if content.before is not None:
            return totals_with(content.before, later)
    return totals_with({}, later)


@dataclass(frozen=True, slots=True, order=True)
class _File:
    """A file of the history. `begins`: the time of its first entry; of an older release, before all times."""

    number: int
    begins: float
    name: str


@dataclass(frozen=True, slots=True)
class _Content:
    """The entries of a file, oldest first, and the totals before them; None in a file of an older release."""

    before: Mapping[str, QueryTotals] | None
    entries: tuple[DoneCheckpoint, ...]


class _Head(msgspec.Struct, frozen=True):
    """The first line of a file. An older release takes it for a torn line."""

    before: Mapping[str, QueryTotals]


def _lines(before: Mapping[str, QueryTotals], entries: Sequence[DoneCheckpoint]) -> list[bytes]:
    return [msgspec.json.encode(each) for each in (_Head(before), *entries)]


def _read(storage: Storage, file: _File) -> _Content:
    lines = _lines_of(storage, file)
    return _Content(_before(lines[0]) if lines else None, tuple(readable(lines, DoneCheckpoint)))


def _lines_of(storage: Storage, file: _File) -> list[bytes]:
    """The lines of a file, without one that a power loss has torn; none if it was removed meanwhile."""
    data = storage.peek(f"{_FOLDER}/{file.name}") or b""
    return data[: data.rfind(b"\n") + 1].splitlines()


def _before(line: bytes) -> Mapping[str, QueryTotals] | None:
    try:
        return parsed(line, _Head).before
    except Unreadable:
        return None


def _files(storage: Storage) -> list[_File]:
    """The files, oldest first."""
    found = (_NAME.fullmatch(name) for name in storage.peek_names(_FOLDER))
    return sorted(_File(int(each[1]), int(each[2]) / 1000 if each[2] else -math.inf, each[0]) for each in found if each)


_NAME = re.compile(rf"([0-9]+)(?:\.([0-9]+))?{re.escape(_SUFFIX)}")

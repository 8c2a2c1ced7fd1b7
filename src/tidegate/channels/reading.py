"""The reading end of an embedded channel: in a task, the rows between two positions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd
from threading import Lock

import pyarrow as pa

from tidegate.channels.log import PublishedRows, rows_folder
from tidegate.core.channel_parts import ChannelPosition, number_of
from tidegate.sources.logged import with_schema
from tidegate.sources.sharing import shared_whole
from tidegate.storages.journals import open_journal
from tidegate.storages.schemes import Folder


class DonePositions:
    """The ends of the newest done epochs of every reader of a channel, through whichever of its sources. Rows before
    all of them are not needed any more, unless a checkpoint that is under way holds them.

    For each reader counting begins at the start: until it has done enough epochs in this run, no row is removed.
    """

    def __init__(self) -> None:
        self._ends: dict[str, deque[ChannelPosition]] = {}
        self._held: list[ChannelPosition] = []
        self._lock = Lock()

    @property
    def held(self) -> Sequence[ChannelPosition]:
        """The checkpoint that is under way needs the rows behind each of these positions."""
        with self._lock:
            return tuple(self._held)

    def hold(self, position: ChannelPosition) -> None:
        """The checkpoint that is under way needs the rows behind this position, until `release`."""
        with self._lock:
            self._held.append(position)

    def trim(self, act: Callable[[Sequence[ChannelPosition]], None]) -> None:
        """Call `act` with the positions that are held. No other one is held before it returns: the record that a
        checkpoint compares its cut with is the newest one when it is held, and a trim leaves that.
        """
        with self._lock:
            act(tuple(self._held))

    def release(self) -> None:
        """The checkpoint has ended. What it needs then is in its manifest."""
        with self._lock:
            self._held.clear()

    def begin(self, readers: frozenset[str], epochs: int) -> None:
        """A start opens a source. `readers`: the names of its readers. `epochs`: how many epochs of each count."""
        with self._lock:
            self._ends.update({reader: deque[ChannelPosition](maxlen=epochs) for reader in readers})

    def done(self, reader: str, end: ChannelPosition) -> Sequence[ChannelPosition]:
        """Record the end of a reader's epoch. Returns a position that each reader has passed for good; nothing if one
        of them is not known, also while a reader has no live part.
        """
        with self._lock:
            self._ends[reader].append(end)
            if any(len(ends) != ends.maxlen or not ends[0] for ends in self._ends.values()):
                return []
            return [ends[0] for ends in self._ends.values()]


def shared_by_tasks(rows: Sequence[PublishedRows], tasks: int) -> list[tuple[PublishedRows, ...]]:
    """The rows divided among at most `tasks` tasks, so that each has about as many. Rows with the same key are in one
    task, in the order of publication.
    """
    if all(each.key is None for each in rows):
        return _in_order(rows, tasks)
    shares = shared_whole(_inseparable(rows), _count, tasks)
    return [tuple(each for group in share for each in group) for share in shares]


def _in_order(rows: Sequence[PublishedRows], tasks: int) -> list[tuple[PublishedRows, ...]]:
    wanted = _count(rows) / max(tasks, 1)
    shares: list[list[PublishedRows]] = []
    taken = 0
    for each in rows:
        if not shares or taken >= wanted * len(shares):
            shares.append([])
        shares[-1].append(each)
        taken += each.rows
    return [tuple(share) for share in shares]


def _inseparable(rows: Sequence[PublishedRows]) -> list[list[PublishedRows]]:
    """The rows in groups: two rows with the same key are in one group.

    A group is a partition, as long as all rows were parted in the same way. A key with the hash h is in partition h
    modulo the number of partitions. So if that number was changed between the rows, the partitions that can have the
    same key are those whose numbers are equal modulo the greatest common divisor. If the column was changed, those are
    all partitions.
    """
    keys = {each.key for each in rows}
    columns = {None if key is None else key.column for key in keys}
    divisor = gcd(*(key.partitions for key in keys if key is not None)) if len(columns) == 1 else 1
    groups: dict[int, list[PublishedRows]] = {}
    for each in rows:
        groups.setdefault(number_of(each.part) % divisor, []).append(each)
    return list(groups.values())


def _count(rows: Sequence[PublishedRows]) -> int:
    return sum(each.rows for each in rows)


@dataclass(frozen=True, slots=True)
class ChannelRowsOfTask:
    """Reads the rows of a task. Pickled to the tasks. `where`: the name of the channel in errors."""

    folder: Folder
    schema: pa.Schema
    where: str

    def __call__(self, wanted: Sequence[PublishedRows]) -> Iterator[pa.RecordBatch]:
        for each in wanted:
            skip, left = each.skip, each.rows
            for batch in open_journal(rows_folder(self.folder, each.job_id, each.generation)).read(each.journal):
                found = batch.slice(skip, left)
                skip, left = max(skip - batch.num_rows, 0), left - found.num_rows
                if found.num_rows:
                    yield with_schema(found, self.schema, self.where)
                if not left:
                    break

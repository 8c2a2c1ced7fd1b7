"""The reading end of an embedded channel: in a task, the rows between two positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.channels.log import PublishedRows, part_of, rows_folder
from tidegate.sources.logged import with_schema
from tidegate.storages.journals import open_journal
from tidegate.storages.schemes import Folder

ChannelPosition = Mapping[str, int]
"""For each part of a channel, the number of the next row."""


def least(positions: Sequence[ChannelPosition]) -> ChannelPosition:
    """For each part, the least number in any of the positions."""
    parts = {part for each in positions for part in each}
    return {part: min(each[part] for each in positions if part in each) for part in parts}


def begin_of(generation: int) -> ChannelPosition:
    """Where a query begins that has no checkpoint: at the first row of this generation of the writer."""
    return {part_of(generation): 0}


def shared_by_tasks(rows: Sequence[PublishedRows], tasks: int) -> list[tuple[PublishedRows, ...]]:
    """The rows in their order, divided among at most `tasks` tasks, so that each has about as many."""
    wanted = sum(each.rows for each in rows) / max(tasks, 1)
    shares: list[list[PublishedRows]] = []
    taken = 0
    for each in rows:
        if not shares or taken >= wanted * len(shares):
            shares.append([])
        shares[-1].append(each)
        taken += each.rows
    return [tuple(share) for share in shares]


@dataclass(frozen=True, slots=True)
class ChannelRowsOfTask:
    """Reads the rows of a task. Pickled to the tasks. `where`: the name of the channel in errors."""

    folder: Folder
    schema: pa.Schema
    where: str

    def __call__(self, wanted: Sequence[PublishedRows]) -> Iterator[pa.RecordBatch]:
        for each in wanted:
            skip, left = each.skip, each.rows
            for batch in open_journal(rows_folder(self.folder, each.generation)).read(each.journal):
                found = batch.slice(skip, left)
                skip, left = max(skip - batch.num_rows, 0), left - found.num_rows
                if found.num_rows:
                    yield with_schema(found, self.schema, self.where)
                if not left:
                    break

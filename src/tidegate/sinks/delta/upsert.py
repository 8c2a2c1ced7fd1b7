"""Rows that replace those with the same key: what one epoch takes out of a table, and puts into it, in one commit.

Of the rows of an epoch the last one of each key counts, in the order of tasks and rows. Each file of the table that has
a row with one of the keys leaves the table; its other rows come back in a new file, in the same commit. Files whose
statistics or partition values exclude the keys are not read.

Memory: the keys come in portions (`keys.py`). For each portion of the epoch all older rows are looked at, portion by
portion: the rows of the epoch before it, and the table's files that may hold one of its keys. Only a bit for each row
remains: for the rows of the epoch, and for those of files that change. Then the rows that stay are copied, batch by
batch. So an epoch of P portions reads the keys of the table P times, and holds two portions, whatever its size.

A file never changes. So what was written stays right when another writer was faster, as long as all files that were
taken are still in the table: only files that are new are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from tidegate.core.records import Committable
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.data_files import final_path
from tidegate.sinks.delta.actions import FileAction, added, removed
from tidegate.sinks.delta.declared import DeclaredDeltaSink
from tidegate.sinks.delta.keys import Portion, RowMarks, newest, portions, with_keys
from tidegate.sinks.delta.live_files import LiveFile, live_files, schema_of
from tidegate.sinks.delta.reading import FileRows
from tidegate.sinks.delta.rewriting import file_bytes_of, written_again
from tidegate.sinks.delta.transaction import keyed_of
from tidegate.sinks.files.hive_folders import folders_of
from tidegate.sinks.files.parts import parts_of
from tidegate.sinks.keyed import deletes

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Field

_FILES_AT_ONCE = 1_000
"""Files whose rows are written again as one transaction: it may have 10,000 new files."""

_Item = TypeVar("_Item")
_compute = cast("Any", pc)


class Replacement:
    """What one epoch does to a table. It is used for one call of `commit`, with each snapshot that the call sees."""

    def __init__(self, sink: DeclaredDeltaSink, committables: Sequence[Committable]) -> None:
        self._sink = sink
        self._committables = sorted(committables, key=lambda each: each.attempt.task)
        self._keyed = keyed_of(committables[0])
        self._files = FileRows(sink.place)
        self._marks = self._no_marks()
        self._table: tuple[object, list[str]] | None = None
        self._judged: set[str] = set()
        self._taken: dict[str, LiveFile] = {}
        self._made: list[Committable] = []

    def actions(self, table: DeltaTable) -> list[FileAction]:
        """The files that leave this snapshot, and those that come into it; these are published."""
        live = {each.path: each for each in live_files(table, self._keyed.key)}
        found = table.metadata().id, table.metadata().partition_columns
        if self._table != found or not self._taken.keys() <= live.keys():
            self._table, self._judged, self._taken, self._made = found, set(), {}, []
        mine = {final_path(each, part) for each in self._committables for part in parts_of(each)}
        self._take(table, [each for path, each in live.items() if path not in self._judged | mine])
        whole = self._whole(table)
        self._sink.files.publish([*whole, *self._made])
        return [*removed(self._taken.values(), str(self._sink.place.folder)), *added([*whole, *self._made])]

    # --- which rows go -------------------------------------------------------------------------------------

    def _take(self, table: DeltaTable, files: Sequence[LiveFile]) -> None:
        """Look at files that were not looked at, and write their rows that stay; first of all those of the epoch."""
        is_first = not self._judged and not self._made
        marks = self._marked(table, files, is_first=is_first)
        taken = [each for each in files if each.path in marks]
        attempt, partitions = self._committables[0].attempt, table.metadata().partition_columns
        groups = [self._staying(table, some, marks) for some in _groups(taken, _FILES_AT_ONCE)]
        new = self._new_groups(table) if is_first else iter(())
        for rows in chain(groups, new):
            made = written_again(
                self._sink, attempt.sink, attempt.epoch, partitions, rows, file_bytes=file_bytes_of(self._sink)
            )
            self._made += [made] if made is not None else []
        self._judged |= {each.path for each in files}
        self._taken |= {each.path: each for each in taken}

    def _marked(self, table: DeltaTable, files: Sequence[LiveFile], *, is_first: bool) -> dict[str, RowMarks]:
        """The rows of these files that go, by path; only of files with such rows."""
        found: dict[str, RowMarks] = {}
        if is_first:
            self._marks = self._no_marks()
        elif not files:
            return found
        for portion in self._portions(table):
            keys, older = newest(portion)
            if is_first:
                self._marks.add(older)
                self._mark_before(table, portion, keys)
            self._mark(table, [each for each in files if each.may_hold(keys)], keys, found)
        return found

    def _mark_before(self, table: DeltaTable, portion: Portion, keys: pa.Table) -> None:
        """Mark the rows of the epoch before this portion that have one of its keys."""
        if portion.first:
            for earlier in self._portions(table):
                if earlier.first == portion.first:
                    return
                self._marks.add(with_keys(earlier, keys))

    def _mark(self, table: DeltaTable, files: Sequence[LiveFile], keys: pa.Table, found: dict[str, RowMarks]) -> None:
        """Mark the rows of these files that have one of the keys. A portion spans as many files as it has room for."""
        firsts: list[int] = []
        for portion in portions(self._keys_of(table, files, firsts)):
            numbers = np.sort(with_keys(portion, keys))
            of_files = np.split(numbers, np.searchsorted(numbers, firsts[1:]))
            for file, first, some in zip(files, firsts, of_files, strict=False):
                if len(some):
                    if file.path not in found:
                        found[file.path] = RowMarks(self._files.count(file.path))
                    found[file.path].add(some - first)

    def _keys_of(self, table: DeltaTable, files: Sequence[LiveFile], firsts: list[int]) -> Iterator[pa.RecordBatch]:
        """The keys of files one after the other. `firsts` gets the number of the first row of each."""
        schema, number = self._key_schema(table), 0
        for file in files:
            firsts.append(number)
            for batch in self._files.of(file.path, schema, file.partition):
                number += batch.num_rows
                yield batch

    def _portions(self, table: DeltaTable) -> Iterator[Portion]:
        """The keys of the epoch's rows, which are numbered in the order of tasks and rows."""
        schema = self._key_schema(table)
        return portions(batch for each in self._committables for batch in self._staged(each, schema))

    def _no_marks(self) -> RowMarks:
        return RowMarks(sum(each.rows for each in self._committables))

    # --- which rows stay -----------------------------------------------------------------------------------

    def _whole(self, table: DeltaTable) -> list[Committable]:
        """The transactions whose staged files are files of the table as they are."""
        if self._keyed.deleted is not None or table.metadata().partition_columns:
            return []
        return [each for each, first in self._numbered() if not self._marks.is_any(first, each.rows)]

    def _new(self, table: DeltaTable) -> Iterator[pa.RecordBatch]:
        """The rows of the epoch that stay, of transactions whose files are written again."""
        schema, mark = schema_of(table), self._keyed.deleted
        flag: list[Field] = [] if mark is None else [pa.field(mark, pa.bool_())]
        whole = {each.digest for each in self._whole(table)}
        for committable, first in self._numbered():
            if committable.digest not in whole:
                batches = self._staged(committable, pa.schema([*fields_of(schema), *flag]))
                for batch, stays in _with_marks(batches, self._marks, first):
                    if mark is not None:
                        stays &= ~cast("Any", deletes(batch, mark)).to_numpy(zero_copy_only=False)
                    yield _where(batch.select(schema.names), stays)

    def _new_groups(self, table: DeltaTable) -> Iterator[Iterator[pa.RecordBatch]]:
        """The same rows, with no more partitions in a group than can have an open file: so each has one file."""
        partitions = table.metadata().partition_columns
        if not partitions:
            yield self._new(table)
            return
        folders: dict[str, None] = {}
        for batch in self._new(table):
            folders |= dict.fromkeys(cast("list[str]", folders_of(batch, partitions).unique().to_pylist()))
        for some in _groups(list(folders), self._sink.files.stage.open_at_most):
            yield _in_folders(self._new(table), partitions, some)

    def _staying(
        self, table: DeltaTable, files: Sequence[LiveFile], marks: Mapping[str, RowMarks]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of these files that stay."""
        schema = schema_of(table)
        for file in (each for each in files if not marks[each.path].are_all):
            for batch, stays in _with_marks(self._files.of(file.path, schema, file.partition), marks[file.path], 0):
                yield _where(batch, stays)

    def _staged(self, committable: Committable, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for part in parts_of(committable):
            yield from self._files.of(self._sink.files.staged(committable, part), schema, {})

    def _numbered(self) -> Iterator[tuple[Committable, int]]:
        """Each transaction with the number of its first row."""
        first = 0
        for each in self._committables:
            yield each, first
            first += each.rows

    def _key_schema(self, table: DeltaTable) -> pa.Schema:
        schema = schema_of(table)
        return pa.schema([field for field in fields_of(schema) if field.name in self._keyed.key])


def _with_marks(
    batches: Iterable[pa.RecordBatch], marks: RowMarks, first: int
) -> Iterator[tuple[pa.RecordBatch, np.ndarray[Any, np.dtype[np.bool_]]]]:
    """Each batch with what is true for the rows that stay. `first`: the number of the first row."""
    for batch in batches:
        yield batch, ~marks.of(first, batch.num_rows)
        first += batch.num_rows


def _where(batch: pa.RecordBatch, stays: np.ndarray[Any, np.dtype[np.bool_]]) -> pa.RecordBatch:
    return batch if stays.all() else cast("Any", batch).filter(pa.array(stays))


def _in_folders(
    batches: Iterable[pa.RecordBatch], partitions: Sequence[str], folders: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    wanted = pa.array(folders, pa.string())
    for batch in batches:
        yield _where(batch, _compute.is_in(folders_of(batch, partitions), wanted).to_numpy(zero_copy_only=False))


def _groups(items: Sequence[_Item], size: int) -> list[Sequence[_Item]]:
    return [items[first : first + size] for first in range(0, len(items), size)]

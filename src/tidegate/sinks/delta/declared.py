"""The options of a Delta sink as the program declares them: what its checks, description and commit phase read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.data_files import DataFiles
from tidegate.sinks.delta.place import TablePlace
from tidegate.sinks.files.shape import FileShape
from tidegate.sinks.keyed import deletes
from tidegate.sinks.row_values import refused_nulls, rows_where
from tidegate.sinks.rows import RowRefused, one_for_each_row
from tidegate.sinks.schema_change import SchemaChange

CHECKPOINT_INTERVAL = 100
"""Where a table does not say it: the library's own default."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """Which rows replace others: the options `key=` and `deleted=`.

    `key`: a row replaces those with the same values in these columns; empty if rows are appended. `deleted`: a boolean
    column that is not written, and is true in a row that only deletes its key.
    """

    key: tuple[str, ...] = ()
    deleted: str | None = None

    def written(self, schema: pa.Schema) -> pa.Schema:
        """The columns that the table has for rows of this schema."""
        return pa.schema([field for field in fields_of(schema) if field.name != self.deleted])


@dataclass(frozen=True, slots=True)
class TableRules:
    """What the table itself says. `needed`: its columns that are NOT NULL. `checkpoint_interval`: commits between two
    checkpoints of its log.
    """

    needed: tuple[str, ...] = ()
    checkpoint_interval: int = CHECKPOINT_INTERVAL

    def refused(self, batch: pa.RecordBatch, keyed: Keyed) -> Iterator[RowRefused]:
        """Nulls that may not be. A row that only deletes its key needs no other value."""
        yield from refused_nulls(batch, keyed.key, "key column")
        names = [name for name in self.needed if name in batch.schema.names and name not in keyed.key]
        gone = set[int]() if keyed.deleted is None else set(rows_where(deletes(batch, keyed.deleted)))
        for each in refused_nulls(batch, names, "NOT NULL column"):
            if each.row not in gone:
                yield each


class DeclaredDeltaSink(Protocol):
    """The options of a `DeltaSink`. `rules`: of the table, once it was read."""

    uid: str
    place: TablePlace
    files: DataFiles
    shape: FileShape
    keyed: Keyed
    properties: Mapping[str, str]
    schema: SchemaChange
    rules: TableRules


def at_least_two(uid: str, compact_at: int | None) -> int | None:
    """The option `compact_at`, or OPTION_UNKNOWN: one file does not become another one."""
    if compact_at is not None and compact_at < 2:
        raise TidegateError(
            Code.OPTION_UNKNOWN,
            expected="compact_at=2 or more, or none",
            found=f"compact_at={compact_at!r}",
            where=f"sink {uid!r}",
            next_step="give the number of small files that are too many, for instance 20",
        )
    return compact_at


def refused_by(sink: DeclaredDeltaSink, batch: pa.RecordBatch) -> list[RowRefused]:
    """The first refusal of each row that the table cannot take."""
    found = sink.shape.refused(batch, sink.files.stage.limits)
    return one_for_each_row([*found, *sink.rules.refused(batch, sink.keyed)])

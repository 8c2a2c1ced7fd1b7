"""The options of a Delta sink as the program declares them: what its checks, description and commit phase read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from tidegate.sinks.data_files import DataFiles
from tidegate.sinks.delta.place import TablePlace
from tidegate.sinks.files.shape import FileShape
from tidegate.sinks.row_values import refused_nulls
from tidegate.sinks.rows import RowRefused, one_for_each_row
from tidegate.sinks.schema_change import SchemaChange

CHECKPOINT_INTERVAL = 100
"""Where a table does not say it: the library's own default."""


@dataclass(frozen=True, slots=True)
class TableRules:
    """What the table itself says. `needed`: its columns that are NOT NULL. `checkpoint_interval`: commits between two
    checkpoints of its log.
    """

    needed: tuple[str, ...] = ()
    checkpoint_interval: int = CHECKPOINT_INTERVAL

    def refused(self, batch: pa.RecordBatch) -> list[RowRefused]:
        names = [name for name in self.needed if name in batch.schema.names]
        return one_for_each_row(list(refused_nulls(batch, names, "NOT NULL column")))


class DeclaredDeltaSink(Protocol):
    """The options of a `DeltaSink`. `rules`: of the table, once it was read."""

    uid: str
    place: TablePlace
    files: DataFiles
    shape: FileShape
    properties: Mapping[str, str]
    schema: SchemaChange
    rules: TableRules

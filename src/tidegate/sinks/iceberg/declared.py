"""The options of an Iceberg sink as the program declares them: what its checks, description and commit phase read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tidegate.sinks.iceberg.columns import TableShape
from tidegate.sinks.iceberg.place import CataloguedTable
from tidegate.sinks.schema_change import SchemaChange


class DeclaredIcebergSink(Protocol):
    """The options of an `IcebergSink`. `shape`: with the table's columns, once it was opened. `partition_by`: a column
    or a transform of one for each partition field.
    """

    uid: str
    place: CataloguedTable
    shape: TableShape
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]
    schema: SchemaChange

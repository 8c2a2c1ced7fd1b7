"""The table as a start needs it: created if it is missing, with all columns of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.sinks.iceberg.declared import DeclaredIcebergSink
from tidegate.sinks.iceberg.partitions import spec_for
from tidegate.sinks.iceberg.place import CataloguedTable, Overtaken, TableError, in_library
from tidegate.sinks.iceberg.types import iceberg_schema
from tidegate.sinks.table_refusals import always_overtaken

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

_TRIES = 20


def made_ready(sink: DeclaredIcebergSink, schema: pa.Schema) -> Table:
    """The table, created and evolved. Other drivers and writers may do the same at the same time. Raises TableError."""
    for _ in range(_TRIES):
        table = sink.place.read()
        try:
            if table is None:
                _create(sink, schema)
            elif missing := lacking(table, schema):
                _add(table, missing)
            else:
                return table
        except Overtaken:  # another one was faster: look again
            continue
    raise always_overtaken(_TRIES, f"sink {sink.uid!r}: {sink.place}")


def lacking(table: Table, schema: pa.Schema) -> list[NestedField]:
    """The columns of the rows that the table lacks. A start without `schema="evolve"` was refused if there are some."""
    known = table.schema().column_names
    return [field for field in iceberg_schema(schema).fields if field.name not in known]


def _create(sink: DeclaredIcebergSink, schema: pa.Schema) -> None:
    place, columns = sink.place, iceberg_schema(schema)
    _create_namespace(place)
    try:
        with in_library():
            place.opened().create_table(
                place.table,
                columns,
                location=place.location,
                partition_spec=spec_for(sink.partition_by, columns),
                properties=dict(sink.properties),
            )
    except TableError:
        if place.read() is None:  # else another driver has created it
            raise


def _create_namespace(place: CataloguedTable) -> None:
    namespace = place.table[:-1]
    with in_library():
        if place.opened().namespace_exists(namespace):
            return
    try:
        with in_library():
            place.opened().create_namespace(namespace)
    except TableError:
        with in_library():
            if not place.opened().namespace_exists(namespace):  # else another driver has created it
                raise


def _add(table: Table, columns: list[NestedField]) -> None:
    with in_library():
        change = table.update_schema()
        for column in columns:
            change = change.add_column((column.name,), column.field_type)
        change.commit()

"""The table as a start needs it: created if it is missing, with all columns of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError

from tidegate.core.json_formats import parsed
from tidegate.sinks.delta.declared import CHECKPOINT_INTERVAL, DeclaredDeltaSink, TableRules
from tidegate.sinks.delta.place import NO_HOOKS, alone
from tidegate.sinks.delta.types import delta_schema, fields_by_name
from tidegate.sinks.table_refusals import always_overtaken

_TRIES = 20


def made_ready(sink: DeclaredDeltaSink, schema: pa.Schema) -> DeltaTable:
    """The table, created and evolved. Other drivers and writers may do the same at the same time."""
    for _ in range(_TRIES):
        table = sink.place.table()
        try:
            if table is None:
                _create(sink, schema)
            elif missing := _missing(table, schema):
                table.alter.add_columns(missing.fields, commit_properties=alone(), post_commithook_properties=NO_HOOKS)
            else:
                return table
        except CommitFailedError:  # another one was faster: look again
            continue
    raise always_overtaken(_TRIES, f"sink {sink.uid!r}: {sink.place.folder}")


def rules_of(table: DeltaTable) -> TableRules:
    needed = (name for name, column in columns_of(table).items() if not column["nullable"])
    interval = table.metadata().configuration.get("delta.checkpointInterval", CHECKPOINT_INTERVAL)
    return TableRules(tuple(needed), int(interval))


def columns_of(table: DeltaTable) -> dict[str, Mapping[str, Any]]:
    """The columns of a table by name, as its schema describes them."""
    return fields_by_name(parsed(table.schema().to_json(), dict[str, Any]))


def _create(sink: DeclaredDeltaSink, schema: pa.Schema) -> None:
    try:
        DeltaTable.create(
            str(sink.place.folder),
            _of(delta_schema(schema)),
            partition_by=list(sink.shape.partition_by),
            configuration=dict(sink.properties),
            storage_options=sink.place.options(),
            commit_properties=alone(),
            post_commithook_properties=NO_HOOKS,
        )
    except DeltaError:
        if sink.place.table() is None:  # else another driver has created it
            raise


def _missing(table: DeltaTable, schema: pa.Schema) -> Schema | None:
    """The columns that the table lacks. A start without `schema="evolve"` was refused if there are some."""
    known = columns_of(table)
    rows = delta_schema(schema)
    lacking = [field for field in rows["fields"] if field["name"] not in known]
    return _of({**rows, "fields": lacking}) if lacking else None


def _of(schema: Mapping[str, Any]) -> Schema:
    return Schema.from_json(msgspec.json.encode(schema).decode())

"""The checks before a start of a Delta sink. They check everything, and create and change nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from deltalake import DeltaTable

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.delta.declared import DeclaredDeltaSink
from tidegate.sinks.delta.features import expiring, rules_against
from tidegate.sinks.delta.key_check import key_rules_against, key_violations
from tidegate.sinks.delta.place import SCHEMES, TABLE_ERRORS, unusable
from tidegate.sinks.delta.table import columns_of
from tidegate.sinks.delta.types import delta_schema, fields_by_name, flaws_of
from tidegate.sinks.files.check import row_violations
from tidegate.sinks.refusals import complete_without_key, would_change_values
from tidegate.sinks.schema_change import lacking_violations
from tidegate.sinks.table_refusals import folder_violations, other_partitions
from tidegate.sinks.value_table import Target, names_in, violations

_UNFIT = frozenset(" ,;{}()\n\t=")
"""Characters that a column of a Delta table cannot have in its name, unless names are mapped."""

_NTZ = "timestamp_ntz"
_RENAME = "give it another name in select=[...]"


def violations_of(sink: DeclaredDeltaSink, plan: SinkPlan) -> list[TidegateError]:
    """Every violation, for rows of `plan.schema`."""
    where = f"sink {sink.uid!r}: {sink.place.folder}"
    return [*_rows(sink, plan, where), *place_violations(sink, plan, where), *_table(sink, plan.schema, where)]


def place_violations(sink: DeclaredDeltaSink, plan: SinkPlan, where: str) -> Iterator[TidegateError]:
    """Violations of the place of the table. The rows of `plan` and the table are not checked."""
    yield from folder_violations(sink.place.folder, SCHEMES, plan, "another path", where)


def _rows(sink: DeclaredDeltaSink, plan: SinkPlan, where: str) -> Iterator[TidegateError]:
    if plan.mode == "complete" and not sink.keyed.key:
        yield complete_without_key(where)
    yield from key_violations(sink, plan.schema, where)
    schema = sink.keyed.written(plan.schema)
    yield from row_violations(schema, sink.shape, where)
    for place, names in names_in(schema):
        for name in (name for name in names if not name or _UNFIT & set(name)):
            yield _violation(
                Code.SCHEMA_MISMATCH,
                "column names without spaces and without any of ,;{}()=",
                f"{name!r}{f' in {place!r}' if place else ''}",
                _RENAME,
                where,
            )
    yield from expiring(sink.properties, where)


def _table(sink: DeclaredDeltaSink, schema: pa.Schema, where: str) -> list[TidegateError]:
    if sink.place.folder.scheme not in SCHEMES:
        return []
    try:
        table = sink.place.table()
    except TABLE_ERRORS as error:
        return [unusable(error, sink.place, sink.uid)]
    except TidegateError as error:
        return [error]
    if table is None:
        return []
    written = sink.keyed.written(schema)
    return [
        *rules_against(table, where),
        *key_rules_against(sink, table, written, where),
        *_columns(sink, table, written, where),
    ]


def _columns(sink: DeclaredDeltaSink, table: DeltaTable, schema: pa.Schema, where: str) -> Iterator[TidegateError]:
    partitions, wanted = table.metadata().partition_columns, sink.shape.partition_by
    if list(wanted) != partitions:
        yield other_partitions(wanted, partitions, "another path", where)
    columns = columns_of(table)
    known = [field for field in fields_of(schema) if not list(violations(pa.schema([field]), Target.DELTA, ""))]
    rows = fields_by_name(delta_schema(pa.schema(known)))
    yield from lacking_violations(sorted(rows.keys() - columns.keys()), columns, sink.schema, where)
    if any(rows[name]["type"] == _NTZ for name in rows.keys() - columns.keys()) and not _has_ntz(table):
        yield _violation(
            Code.SCHEMA_MISMATCH,
            "a table with the feature timestampNtz, for a new column of type timestamp_ntz",
            "one without it",
            "ALTER TABLE ... SET TBLPROPERTIES ('delta.feature.timestampNtz' = 'supported'), or cast it to timestamp in"
            " select=[...]",
            where,
        )
    for name in rows.keys() & columns.keys():
        for path, held, in_table in flaws_of(rows[name]["type"], columns[name]["type"], name):
            yield would_change_values(path, held, "the rows", in_table, where)
    if unfilled := sorted(name for name in columns.keys() - rows.keys() if not columns[name]["nullable"]):
        yield _violation(
            Code.SCHEMA_MISMATCH,
            "rows with a value for each column that is NOT NULL",
            f"not in the rows: {unfilled}",
            "add them in select=[...], or ALTER TABLE ... DROP NOT NULL",
            where,
        )


def _has_ntz(table: DeltaTable) -> bool:
    return "timestampNtz" in (table.protocol().writer_features or ())


def _violation(code: Code, expected: str, found: str, next_step: str, where: str) -> TidegateError:
    return TidegateError(code, expected=expected, found=found, where=where, next_step=next_step)

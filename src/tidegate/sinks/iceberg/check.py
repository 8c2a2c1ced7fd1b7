"""The checks before a start of an Iceberg sink. They check everything, and create and change nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.types import DoubleType, FloatType

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.files.check import row_violations
from tidegate.sinks.iceberg.declared import DeclaredIcebergSink
from tidegate.sinks.iceberg.partitions import WORDS, normal, parted_by, words_of
from tidegate.sinks.iceberg.place import SCHEMES, TableError, folder_at, unusable
from tidegate.sinks.iceberg.table import lacking
from tidegate.sinks.iceberg.types import flaws_of, iceberg_schema
from tidegate.sinks.refusals import complete_without_key, would_change_values
from tidegate.sinks.schema_change import lacking_violations
from tidegate.sinks.table_refusals import folder_violations, other_partitions
from tidegate.sinks.value_table import Target, violations

if TYPE_CHECKING:
    from pyiceberg.table import Table

_FORMAT_AT_LEAST = 2
_ENCRYPTED = "encryption.key-id"


def violations_of(sink: DeclaredIcebergSink, plan: SinkPlan) -> list[TidegateError]:
    """Every violation, for rows of `plan.schema`."""
    where = f"sink {sink.uid!r}: {sink.place}"
    found = list(_rows(sink, plan, where))
    try:
        table = sink.place.read()
    except TableError as error:
        return [*found, unusable(str(error), sink.place, sink.uid)]
    location = sink.place.planned_location() if table is None else table.location()
    found += location_violations(location, plan, where)
    return found if table is None else [*found, *rules_against(table, where), *_columns(sink, table, plan, where)]


def without_namespace(uid: str, table: str) -> TidegateError:
    """The refusal of a table's name without a namespace."""
    return _violation(
        Code.OPTION_UNKNOWN,
        "a table with its namespace, as in 'sales.orders'",
        f"{table!r}",
        "give namespace.table",
        f"sink {uid!r}",
    )


def location_violations(location: str | None, plan: SinkPlan, where: str) -> Iterator[TidegateError]:
    """Violations of the place where the table stands, or would stand; of None there are none yet."""
    if location is None:
        return
    try:
        folder = folder_at(location)
    except TidegateError as error:
        yield error
        return
    yield from folder_violations(folder, SCHEMES, plan, "another location=", where)


def rules_against(table: Table, where: str) -> Iterator[TidegateError]:
    """Every rule of the table that the sink would break."""
    if table.format_version < _FORMAT_AT_LEAST:
        yield _violation(
            Code.SINK_UNUSABLE,
            f"a table of format version {_FORMAT_AT_LEAST} or above, whose snapshots have sequence numbers",
            f"version {table.format_version}",
            f"ALTER TABLE ... SET TBLPROPERTIES ('format-version' = '{_FORMAT_AT_LEAST}')",
            where,
        )
    if _ENCRYPTED in table.properties:
        yield _violation(
            Code.SINK_UNUSABLE,
            "a table whose files are not encrypted by their writers",
            f"{_ENCRYPTED}={table.properties[_ENCRYPTED]!r}",
            "write to a table without it, and copy from there",
            where,
        )


def _rows(sink: DeclaredIcebergSink, plan: SinkPlan, where: str) -> Iterator[TidegateError]:
    if plan.mode == "complete":
        yield complete_without_key(where)
    yield from row_violations(plan.schema, sink.shape, where)
    known = _known(plan.schema)
    types = {field.name: field.field_type for field in iceberg_schema(known).fields}
    for word, times in Counter(normal(sink.partition_by, plan.schema.names)).items():
        if times > 1:
            yield _mismatch("each partition once in partition_by=", f"{word!r} more than once", "name it once", where)
    for word in sink.partition_by:
        parted = parted_by(word, plan.schema.names)
        if parted.column not in plan.schema.names:
            told = f"columns of the rows in partition_by=, or {', '.join(WORDS)} of one: {', '.join(plan.schema.names)}"
            yield _mismatch(told, f"{word!r}", "write for example day, days(ts) or bucket(16, id)", where)
        elif parted.column in types:
            kind = types[parted.column]
            if not parted.transform.can_transform(kind) or isinstance(kind, FloatType | DoubleType):
                yield _mismatch(
                    f"a column that partitions can be made of by {word!r}",
                    f"{parted.column!r} is {kind}",
                    "choose another column, or cast it in select=[...]",
                    where,
                )


def _columns(sink: DeclaredIcebergSink, table: Table, plan: SinkPlan, where: str) -> Iterator[TidegateError]:
    schema = table.schema()
    wanted, parts = normal(sink.partition_by, plan.schema.names), words_of(table.spec(), schema)
    if wanted != parts:
        yield other_partitions(wanted, parts, "another table", where)
    columns = {field.name: field for field in schema.fields}
    rows = {field.name: field for field in iceberg_schema(_known(plan.schema)).fields}
    missing = [field.name for field in lacking(table, _known(plan.schema))]
    yield from lacking_violations(missing, columns, sink.schema, where)
    for name in rows.keys() & columns.keys():
        for path, held, in_table in flaws_of(rows[name].field_type, columns[name].field_type, name):
            yield would_change_values(path, held, "the rows", in_table, where)
    unfilled = sorted(name for name in columns.keys() - set(plan.schema.names) if columns[name].required)
    if unfilled:
        yield _mismatch(
            "rows with a value for each required column",
            f"not in the rows: {unfilled}",
            "add them in select=[...], or ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL",
            where,
        )


def _known(schema: pa.Schema) -> pa.Schema:
    """The columns whose types a table can have."""
    return pa.schema(
        [field for field in fields_of(schema) if not list(violations(pa.schema([field]), Target.ICEBERG, ""))]
    )


def _mismatch(expected: str, found: str, next_step: str, where: str) -> TidegateError:
    return _violation(Code.SCHEMA_MISMATCH, expected, found, next_step, where)


def _violation(code: Code, expected: str, found: str, next_step: str, where: str) -> TidegateError:
    return TidegateError(code, expected=expected, found=found, where=where, next_step=next_step)

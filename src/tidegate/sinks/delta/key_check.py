"""The checks before a start of a Delta sink that replaces rows by key: of its options, its rows and its table."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from deltalake import DeltaTable

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.delta.declared import DeclaredDeltaSink
from tidegate.sinks.delta.features import rules_against_replacing, rules_against_rewriting
from tidegate.sinks.delta.table import columns_of
from tidegate.sinks.keyed import keys_not_in_rows, unfit_mark
from tidegate.sinks.refusals import mark_without_key
from tidegate.sinks.value_table import SparkType, kind_of

_KEYS = frozenset(
    {
        SparkType.BOOLEAN,
        SparkType.INTEGER,
        SparkType.DECIMAL,
        SparkType.STRING,
        SparkType.BINARY,
        SparkType.DATE,
        SparkType.TIMESTAMP,
        SparkType.TIMESTAMP_NTZ,
    }
)
"""Types whose values are equal exactly if Arrow's join takes them for equal."""

_KEYS_IN_FOLDERS = frozenset({SparkType.BOOLEAN, SparkType.INTEGER, SparkType.DATE})
"""Of these types each value of a partition column is read back. An empty text is read back as a null."""


def key_violations(sink: DeclaredDeltaSink, schema: pa.Schema, where: str) -> Iterator[TidegateError]:
    """Violations of `key=` and `deleted=`, for rows of this schema."""
    keyed = sink.keyed
    if keyed.deleted is not None:
        if not keyed.key or keyed.deleted in keyed.key:
            yield mark_without_key(keyed.key, keyed.deleted, where)
        yield from unfit_mark(keyed.deleted, schema, where)
    if not keyed.key:
        return
    yield from keys_not_in_rows(keyed.key, schema, where)
    yield from rules_against_replacing(sink.properties, where)
    for field in (field for field in fields_of(schema) if field.name in keyed.key):
        if kind_of(field.type) not in _KEYS:
            yield _unfit_key(
                field.name, "a whole number, a decimal, a text, bytes, a date or a time", field.type, where
            )
        elif field.name in sink.shape.partition_by and kind_of(field.type) not in _KEYS_IN_FOLDERS:
            expected = "a whole number, a date or a boolean, because it is a partition column, too"
            yield _unfit_key(field.name, expected, field.type, where)


def key_rules_against(
    sink: DeclaredDeltaSink, table: DeltaTable, schema: pa.Schema, where: str
) -> Iterator[TidegateError]:
    """Violations of an existing table, if rows of this schema replace others. `schema`: without the mark."""
    if not sink.keyed.key:
        return
    yield from rules_against_rewriting(table, where)
    yield from rules_against_replacing(table.metadata().configuration, where)
    if more := sorted(columns_of(table).keys() - set(schema.names)):
        yield TidegateError(
            Code.SCHEMA_MISMATCH,
            expected="with key=, a table that has only columns of the rows: a row is replaced as a whole",
            found=f"not in the rows: {more}",
            where=where,
            next_step="add these columns in select=[...], or give another path",
        )


def _unfit_key(name: str, expected: str, kind: pa.DataType, where: str) -> TidegateError:
    return TidegateError(
        Code.KEY_COLUMN,
        expected=f"key column {name!r} of a type that can be compared: {expected}",
        found=str(kind),
        where=where,
        next_step="give another column as key, or cast it in select=[...]",
    )

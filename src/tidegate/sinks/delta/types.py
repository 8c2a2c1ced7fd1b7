"""The types of a Delta table, as its schema writes them, and whether a table holds rows of a schema unchanged.

Source: the section "Schema Serialization Format" of delta-io/delta, PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias, cast

import msgspec
import pyarrow as pa

from tidegate.sinks.arrow import fields_in, fields_of
from tidegate.sinks.nested import element_of, is_list
from tidegate.sinks.value_table import SparkType, kind_of

DeltaType: TypeAlias = "str | Mapping[str, Any]"
"""A name, or the JSON object of a nested type."""

TypeFlaw: TypeAlias = tuple[str, str, str]
"""A place in the rows, the type that it has, and what the table has there."""


def delta_schema(schema: pa.Schema) -> Mapping[str, Any]:
    """The schema of a table for rows of this schema. Every column may be null: a later program may leave it out."""
    return {"type": "struct", "fields": [_field(field.name, field.type, nullable=True) for field in fields_of(schema)]}


def delta_type(kind: pa.DataType) -> DeltaType:
    """The type of a table's column for values of an Arrow type that `Target.DELTA` takes."""
    found = kind_of(kind)
    if found is SparkType.STRUCT:
        fields = [_field(field.name, field.type, nullable=field.nullable) for field in fields_in(kind)]
        return {"type": "struct", "fields": fields}
    if pa.types.is_map(kind):
        nulls = cast("Any", kind).item_field.nullable
        keys, values = delta_type(kind.key_type), delta_type(kind.item_type)
        return {"type": "map", "keyType": keys, "valueType": values, "valueContainsNull": nulls}
    if is_list(kind):
        nulls = cast("Any", kind).value_field.nullable
        return {"type": "array", "elementType": delta_type(element_of(kind)), "containsNull": nulls}
    if found is SparkType.DECIMAL:
        return f"decimal({cast('Any', kind).precision},{cast('Any', kind).scale})"
    return _INTEGERS[cast("Any", kind).bit_width] if found is SparkType.INTEGER else _NAMES[found]


def flaws_of(rows: DeltaType, table: DeltaType, path: str) -> Iterator[TypeFlaw]:
    """The places where a table's column would change values of the rows, or be left without a value that it needs."""
    if isinstance(rows, str) or isinstance(table, str) or rows["type"] != table["type"]:
        if rows != table:
            yield path, _told(rows), _told(table)
    elif rows["type"] == "struct":
        yield from _of_structs(rows, table, path)
    elif rows["type"] == "array":
        yield from flaws_of(rows["elementType"], table["elementType"], f"{path}[]")
        yield from _of_nulls(rows["containsNull"], table["containsNull"], f"{path}[]")
    else:
        yield from flaws_of(rows["keyType"], table["keyType"], f"{path}.key")
        yield from flaws_of(rows["valueType"], table["valueType"], f"{path}.value")
        yield from _of_nulls(rows["valueContainsNull"], table["valueContainsNull"], f"{path}.value")


def fields_by_name(struct: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {field["name"]: field for field in struct["fields"]}


def _of_structs(rows: Mapping[str, Any], table: Mapping[str, Any], path: str) -> Iterator[TypeFlaw]:
    mine, theirs = fields_by_name(rows), fields_by_name(table)
    for name in sorted(mine.keys() ^ theirs.keys()):
        held = [_told(each[name]["type"]) if name in each else "no such field" for each in (mine, theirs)]
        yield f"{path}.{name}", held[0], held[1]
    for name in mine.keys() & theirs.keys():
        yield from flaws_of(mine[name]["type"], theirs[name]["type"], f"{path}.{name}")
        yield from _of_nulls(mine[name]["nullable"], theirs[name]["nullable"], f"{path}.{name}")


def _of_nulls(in_rows: bool, in_table: bool, path: str) -> Iterator[TypeFlaw]:
    if in_rows and not in_table:
        yield path, "a value that may be null", "NOT NULL"


def _field(name: str, kind: pa.DataType, *, nullable: bool) -> Mapping[str, Any]:
    return {"name": name, "type": delta_type(kind), "nullable": nullable, "metadata": {}}


def _told(kind: DeltaType) -> str:
    return kind if isinstance(kind, str) else msgspec.json.encode(kind).decode()


_INTEGERS = {8: "byte", 16: "short", 32: "integer", 64: "long"}
_NAMES = {
    SparkType.BOOLEAN: "boolean",
    SparkType.FLOAT: "float",
    SparkType.DOUBLE: "double",
    SparkType.STRING: "string",
    SparkType.BINARY: "binary",
    SparkType.DATE: "date",
    SparkType.TIMESTAMP: "timestamp",
    SparkType.TIMESTAMP_NTZ: "timestamp_ntz",
}

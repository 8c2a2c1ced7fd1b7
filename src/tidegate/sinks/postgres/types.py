"""Which types of PostgreSQL hold which values, unchanged: for a table that the sink creates, and for one that exists.

| Spark | created as | exists as |
|---|---|---|
| boolean | boolean | |
| tinyint, smallint, int, bigint | smallint, smallint, integer, bigint | a wider integer, or numeric |
| float, double | real, double precision | for a float: double precision |
| decimal(p, s) | numeric(p, s) | a numeric with at least as many digits on both sides of the point |
| string | text | varchar, citext, an enum, uuid, json, jsonb: the text of such a value |
| binary | bytea | |
| date | date | |
| timestamp | timestamp with time zone | |
| timestamp_ntz | timestamp without time zone | |
| time | time without time zone | |
| array of a type above | an array of its type | |
| struct, map, array of these or of arrays | jsonb | json, text |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from tidegate.sinks.nested import element_of, is_list
from tidegate.sinks.postgres.table import TableColumn
from tidegate.sinks.value_table import SparkType, kind_of

if TYPE_CHECKING:
    Decimals = pa.Decimal128Type[Any, Any]

JSON_TYPES = frozenset({"json", "jsonb"})
NESTED = frozenset({SparkType.STRUCT, SparkType.MAP, SparkType.ARRAY})


def goes_as_json(kind: pa.DataType) -> bool:
    """True for nested values that are no plain array: they are written as JSON."""
    found = kind_of(kind)
    return found in NESTED and not is_plain_array(kind)


def is_plain_array(kind: pa.DataType) -> bool:
    return is_list(kind) and kind_of(element_of(kind)) not in NESTED


def created_as(kind: pa.DataType) -> str:
    """The type of a column that the sink creates, in SQL."""
    if goes_as_json(kind):
        return "jsonb"
    if is_plain_array(kind):
        return f"{created_as(element_of(kind))}[]"
    if pa.types.is_decimal(kind):
        precision, scale = _digits(kind)
        return f"numeric({precision}, {scale})"
    return _SQL[own_type(kind)]


def own_type(kind: pa.DataType) -> str:
    """The name in `pg_type` of the type that stands for a plain type."""
    if pa.types.is_integer(kind):
        return _INTEGERS[cast("Any", kind).bit_width]
    return _PLAIN[kind_of(kind)]


def holds(column: TableColumn, kind: pa.DataType) -> bool:
    """True if a column of the table keeps each value of this type unchanged, or refuses it."""
    if goes_as_json(kind):
        return column.type in (*JSON_TYPES, "text")
    if is_plain_array(kind):
        element = element_of(kind)
        return column.element == own_type(element) and _is_precise(column.element, column.type_modifier, element)
    if kind_of(kind) is SparkType.STRING and column.is_enum:
        return True
    return column.type in _also(kind) and _is_precise(column.type, column.type_modifier, kind)


def _also(kind: pa.DataType) -> tuple[str, ...]:
    own = own_type(kind)
    return (own, *_WIDER.get(own, ()))


def _is_precise(name: str, modifier: int, kind: pa.DataType) -> bool:
    """True if the type's own parameters cut off nothing. A varchar that is too short refuses the row."""
    if modifier < 0 or name == "varchar":
        return True
    if name == "numeric":
        precision, scale = _declared_digits(modifier)
        wanted, places = _digits(kind) if pa.types.is_decimal(kind) else (_DIGITS_OF_INTEGER[own_type(kind)], 0)
        return scale >= places and precision - scale >= wanted - places
    return name in _TIMES and modifier >= _MICROSECONDS


def _declared_digits(modifier: int) -> tuple[int, int]:
    """Precision and scale of a numeric, as its type modifier has them (`make_numeric_typmod` of the server)."""
    packed = modifier - 4
    scale = packed & 0x7FF
    return packed >> 16 & 0xFFFF, scale - 0x800 if scale & 0x400 else scale


def _digits(kind: pa.DataType) -> tuple[int, int]:
    decimals = cast("Decimals", kind)
    return decimals.precision, decimals.scale


_MICROSECONDS = 6
_TIMES = frozenset({"time", "timestamp", "timestamptz"})
_INTEGERS: Mapping[int, str] = {8: "int2", 16: "int2", 32: "int4", 64: "int8"}
_DIGITS_OF_INTEGER: Mapping[str, int] = {"int2": 5, "int4": 10, "int8": 19}
_PLAIN: Mapping[SparkType, str] = {
    SparkType.BOOLEAN: "bool",
    SparkType.FLOAT: "float4",
    SparkType.DOUBLE: "float8",
    SparkType.DECIMAL: "numeric",
    SparkType.STRING: "text",
    SparkType.BINARY: "bytea",
    SparkType.DATE: "date",
    SparkType.TIMESTAMP: "timestamptz",
    SparkType.TIMESTAMP_NTZ: "timestamp",
    SparkType.TIME: "time",
}
_WIDER: Mapping[str, tuple[str, ...]] = {
    "int2": ("int4", "int8", "numeric"),
    "int4": ("int8", "numeric"),
    "int8": ("numeric",),
    "float4": ("float8",),
    "text": ("varchar", "citext", "uuid", *JSON_TYPES),
}
_SQL: Mapping[str, str] = {
    "bool": "boolean",
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "text": "text",
    "bytea": "bytea",
    "date": "date",
    "timestamptz": "timestamp with time zone",
    "timestamp": "timestamp without time zone",
    "time": "time without time zone",
}

"""One table of types and targets: how a value of each Spark type is written, or why it is refused.

It is complete: each Spark type is a `SparkType`, each place of a value is a `Target`, and each pair has a cell. A
refusal in this table is raised before a query starts. `tidegate.sinks.row_values` holds the refusals that depend on a
row (a text that is not UTF-8, a NaN in SQLite, a null in a key).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias, cast

import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.arrow import fields_in, fields_of
from tidegate.sinks.nested import element_of, is_list


class SparkType(Enum):
    """Spark's types, by Spark's names. A user-defined type counts as the type in which Spark stores it."""

    BOOLEAN = "boolean"
    INTEGER = "tinyint, smallint, int, bigint"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    STRING = "string, char, varchar"
    BINARY = "binary"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMP_NTZ = "timestamp_ntz"
    TIME = "time"
    ARRAY = "array"
    STRUCT = "struct"
    EMPTY_STRUCT = "struct without fields"
    MAP = "map"
    VARIANT = "variant"
    DAY_TIME_INTERVAL = "interval day to second"
    YEAR_MONTH_INTERVAL = "interval year to month"
    CALENDAR_INTERVAL = "interval"
    VOID = "void"
    GEOMETRY = "geometry"
    GEOGRAPHY = "geography"
    OTHER = "any other"


class Target(Enum):
    """The places of a value. JSON: a JSON file, a message of `format="json"`, and the console."""

    SQLITE = "SQLite"
    POSTGRES = "PostgreSQL"
    MYSQL = "MySQL"
    JSON = "JSON"
    JSON_KEY = "key of a map in JSON"
    PARQUET = "Parquet"
    DELTA = "Delta"
    DELTA_NESTED = "in a nested column of Delta"
    ICEBERG = "Iceberg"
    CSV = "CSV"
    TEXT = "text file"
    BYTES = "Kafka key, raw value"
    REDIS = "field of a Redis hash"
    FOLDER = "folder of `partition_by`"


@dataclass(frozen=True, slots=True)
class RefusedType:
    """A type that is refused. `instead`: the change that the program can make."""

    instead: str


Cell: TypeAlias = str | RefusedType
"""The form in which a value is written, in words, or the refusal."""

_TO_JSON = RefusedType("make it a string with F.to_json")
_TO_STRING = RefusedType('make it a string with .cast("string")')
_BASE64 = RefusedType("make it a string with F.base64 or F.hex")
_KEYS = RefusedType("make the keys strings, or the map an array with F.map_entries")
_NO_FIELDS = RefusedType("leave the column out of select=[...], or give the struct a field")
_TYPELESS = RefusedType(
    'cast it to the type that it stands for, for instance .cast("string") or .cast("map<string,int>")'
)

_NOWHERE: Mapping[SparkType, RefusedType] = {
    SparkType.EMPTY_STRUCT: _NO_FIELDS,
    SparkType.VARIANT: RefusedType("make it a string with F.to_json, or take values out of it with F.variant_get"),
    SparkType.DAY_TIME_INTERVAL: _TO_STRING,
    SparkType.YEAR_MONTH_INTERVAL: _TO_STRING,
    SparkType.CALENDAR_INTERVAL: _TO_STRING,
    SparkType.VOID: _TYPELESS,
    SparkType.GEOMETRY: RefusedType("make it binary with ST_AsBinary"),
    SparkType.GEOGRAPHY: RefusedType("make it binary with ST_AsBinary"),
    SparkType.OTHER: RefusedType('cast it to another type, for instance with .cast("string")'),
}
"""Types that no target takes. Arrow does not show most of them, or shows another type (a variant as its two halves)."""


_SAME = "the same type"
_DAY, _TIME = "2026-01-31", "23:59:59.000001"
_LOCAL = f"{_DAY}T{_TIME}"
_UTC = f"{_LOCAL}Z"
_ZONED = RefusedType('cast it with .cast("timestamp"), or take it out of the nested column')
"""The library creates no table with such a column: it gives the table the feature for other columns only."""
_TEXTS = ("true", "-5", "0.1, NaN", "0.1, NaN", "1.50")
_WRITTEN = (
    *(SparkType.BOOLEAN, SparkType.INTEGER, SparkType.FLOAT, SparkType.DOUBLE, SparkType.DECIMAL),
    *(SparkType.STRING, SparkType.BINARY, SparkType.DATE, SparkType.TIMESTAMP, SparkType.TIMESTAMP_NTZ, SparkType.TIME),
    *(SparkType.ARRAY, SparkType.STRUCT, SparkType.MAP),
)
"""The types that at least one target takes: each target says how it writes them, in this order."""

_COLUMNS: Mapping[Target, tuple[Cell, ...]] = {
    Target.SQLITE: (
        *("INTEGER 0, 1", "INTEGER", "REAL", "REAL", "TEXT 1.50", "TEXT", "BLOB"),
        *(f"TEXT {_DAY}", f"TEXT {_UTC}", f"TEXT {_LOCAL}", f"TEXT {_TIME}"),
        *(_TO_JSON, _TO_JSON, _TO_JSON),
    ),
    Target.POSTGRES: (
        *("boolean", "smallint, integer, bigint", "real", "double precision", "numeric(p, s)", "text", "bytea"),
        *("date", "timestamp with time zone", "timestamp", "time"),
        *("array; jsonb if nested", "jsonb", "jsonb"),
    ),
    Target.MYSQL: (
        *("tinyint(1)", "tinyint, smallint, int, bigint", "float", "double", "decimal(p, s)", "longtext", "longblob"),
        *("date", "datetime(6), UTC", "datetime(6)", "time(6)"),
        *("longtext with JSON", "longtext with JSON", "longtext with JSON"),
    ),
    Target.JSON: (
        *("true", "-5", '0.1, "NaN"', '0.1, "NaN"', "1.50", "string", "base64"),
        *(f'"{_DAY}"', f'"{_UTC}"', f'"{_LOCAL}"', f'"{_TIME}"'),
        *("array", "object", "object"),
    ),
    Target.JSON_KEY: (
        *('"true"', '"-5"', _KEYS, _KEYS, '"1.50"', "itself", "base64"),
        *(f'"{_DAY}"', f'"{_UTC}"', f'"{_LOCAL}"', f'"{_TIME}"'),
        *(_KEYS, _KEYS, _KEYS),
    ),
    Target.PARQUET: (*(_SAME,) * 10, _TO_STRING, _SAME, _SAME, _SAME),
    Target.DELTA: (*(_SAME,) * 10, _TO_STRING, _SAME, _SAME, _SAME),
    Target.DELTA_NESTED: (*(_SAME,) * 9, _ZONED, _TO_STRING, _SAME, _SAME, _SAME),
    Target.ICEBERG: (_SAME, "int, long", *(_SAME,) * 8, _TO_STRING, _SAME, _SAME, _SAME),
    Target.CSV: (*_TEXTS, "in quotes", _BASE64, _DAY, _UTC, _LOCAL, _TIME, _TO_JSON, _TO_JSON, _TO_JSON),
    Target.TEXT: (*(_TO_STRING,) * 5, "a line", _BASE64, *(_TO_STRING,) * 4, _TO_JSON, _TO_JSON, _TO_JSON),
    Target.BYTES: (*_TEXTS, "UTF-8", "itself", _DAY, _UTC, _LOCAL, _TIME, _TO_JSON, _TO_JSON, _TO_JSON),
    Target.REDIS: (*_TEXTS, "UTF-8", "itself", _DAY, _UTC, _LOCAL, _TIME, "JSON", "JSON", "JSON"),
    Target.FOLDER: (
        *("true", "-5", _TO_STRING, _TO_STRING, _TO_STRING, "itself", _BASE64),
        *(_DAY, _TO_STRING, _TO_STRING, _TO_STRING),
        *(_TO_JSON, _TO_JSON, _TO_JSON),
    ),
}

TABLE: Mapping[SparkType, Mapping[Target, Cell]] = {
    kind: dict.fromkeys(Target, _NOWHERE[kind])
    if kind in _NOWHERE
    else {target: _COLUMNS[target][_WRITTEN.index(kind)] for target in Target}
    for kind in SparkType
}


def violations(schema: pa.Schema, target: Target, where: str) -> Iterator[TidegateError]:
    """One violation for each place in the rows, at any depth, with a type that `target` does not take."""
    for field in fields_of(schema):
        for path, kind, instead in _refused(field.type, field.name, target):
            yield refusal(path, kind, target.value, instead, where)


def names_in(schema: pa.Schema) -> Iterator[tuple[str, list[str]]]:
    """The names that must be unique among each other: those of the columns (with the place ""), and of each struct's
    fields.
    """
    yield "", list(schema.names)
    for field in fields_of(schema):
        yield from _names(field.type, field.name)


def refusal(path: str, kind: str, target: str, instead: str, where: str) -> TidegateError:
    """The violation of one column or one place in it, in the same words for Arrow's types and for types that only Spark
    has.
    """
    return TidegateError(
        Code.SCHEMA_MISMATCH,
        expected=f"a type that is written as {target}",
        found=f"{path!r} is {kind}",
        where=where,
        next_step=f"in select=[...]: {instead}",
    )


def nowhere(kind: SparkType) -> RefusedType | None:
    """The refusal of a type that no target takes."""
    return _NOWHERE.get(kind)


def kind_of(kind: pa.DataType) -> SparkType:
    """The Spark type of an Arrow type."""
    if pa.types.is_struct(kind) and kind.num_fields == 0:
        return SparkType.EMPTY_STRUCT
    return next((found for fits, found in _ARROW if fits(kind)), SparkType.OTHER)


def _refused(kind: pa.DataType, path: str, target: Target) -> Iterator[tuple[str, str, str]]:
    cell = TABLE[kind_of(kind)][target]
    if isinstance(cell, RefusedType):
        yield path, str(kind), cell.instead
        return
    of_values = _inner_target(kind, target)
    for inner, name in _inside(kind, path):
        is_key = pa.types.is_map(kind) and name == f"{path}.key"
        yield from _refused(inner, name, _KEYS_IN.get(of_values, of_values) if is_key else of_values)


def _inside(kind: pa.DataType, path: str) -> list[tuple[pa.DataType, str]]:
    """The types inside a nested type, and their places."""
    if pa.types.is_struct(kind):
        return [(field.type, f"{path}.{field.name}") for field in fields_in(kind)]
    if pa.types.is_map(kind):
        return [(kind.key_type, f"{path}.key"), (kind.item_type, f"{path}.value")]
    return [(element_of(kind), f"{path}[]")] if is_list(kind) else []


def _names(kind: pa.DataType, path: str) -> Iterator[tuple[str, list[str]]]:
    if pa.types.is_struct(kind):
        yield path, [field.name for field in fields_in(kind)]
    for inner, name in _inside(kind, path):
        yield from _names(inner, name)


def _inner_target(kind: pa.DataType, target: Target) -> Target:
    """The place of the values inside a nested type: JSON in a database, but for PostgreSQL's arrays of plain values."""
    if target is Target.DELTA and pa.types.is_nested(kind):
        return Target.DELTA_NESTED
    is_plain = target is Target.POSTGRES and is_list(kind) and not pa.types.is_nested(element_of(kind))
    return Target.JSON if target in _NESTED_AS_JSON and pa.types.is_nested(kind) and not is_plain else target


_NESTED_AS_JSON = {Target.POSTGRES, Target.MYSQL, Target.REDIS}
_KEYS_IN = {Target.JSON: Target.JSON_KEY}
_Fits: TypeAlias = Callable[[pa.DataType], bool]
_ARROW: tuple[tuple[_Fits, SparkType], ...] = (
    (pa.types.is_boolean, SparkType.BOOLEAN),
    (lambda kind: pa.types.is_integer(kind) and not pa.types.is_uint64(kind), SparkType.INTEGER),
    (pa.types.is_float32, SparkType.FLOAT),
    (pa.types.is_float64, SparkType.DOUBLE),
    (pa.types.is_decimal128, SparkType.DECIMAL),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind), SparkType.STRING),
    (lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind), SparkType.BINARY),
    (pa.types.is_date32, SparkType.DATE),
    (lambda kind: pa.types.is_timestamp(kind) and cast("Any", kind).tz is not None, SparkType.TIMESTAMP),
    (pa.types.is_timestamp, SparkType.TIMESTAMP_NTZ),
    (pa.types.is_time64, SparkType.TIME),
    (pa.types.is_map, SparkType.MAP),
    (pa.types.is_struct, SparkType.STRUCT),
    (is_list, SparkType.ARRAY),
    (pa.types.is_duration, SparkType.DAY_TIME_INTERVAL),
    (pa.types.is_interval, SparkType.CALENDAR_INTERVAL),
    (pa.types.is_null, SparkType.VOID),
)

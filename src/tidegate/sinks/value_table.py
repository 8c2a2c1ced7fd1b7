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
    JSON = "JSON"
    JSON_KEY = "key of a map in JSON"
    PARQUET = "Parquet"
    DELTA = "Delta"
    DELTA_NESTED = "in a nested column of Delta"
    CSV = "CSV"
    TEXT = "text file"
    BYTES = "Kafka key, raw value"
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

_ZONED = RefusedType('cast it with .cast("timestamp"), or take it out of the nested column')
"""The library creates no table with such a column: it gives the table the feature for other columns only."""

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


def _cells(
    sqlite: Cell,
    postgres: Cell,
    json: Cell,
    json_key: Cell,
    parquet: Cell,
    delta: Cell,
    delta_nested: Cell,
    csv: Cell,
    text: Cell,
    bytes_: Cell,
    folder: Cell,
) -> Mapping[Target, Cell]:
    return dict(
        zip(
            Target,
            (sqlite, postgres, json, json_key, parquet, delta, delta_nested, csv, text, bytes_, folder),
            strict=True,
        )
    )


_SAME = "the same type"
_DAY, _TIME = "2026-01-31", "23:59:59.000001"
_LOCAL = f"{_DAY}T{_TIME}"
_UTC = f"{_LOCAL}Z"
_REST: Mapping[SparkType, Mapping[Target, Cell]] = {
    SparkType.BOOLEAN: _cells(
        "INTEGER 0, 1", "boolean", "true", '"true"', _SAME, _SAME, _SAME, "true", _TO_STRING, "true", "true"
    ),
    SparkType.INTEGER: _cells(
        "INTEGER", "smallint, integer, bigint", "-5", '"-5"', _SAME, _SAME, _SAME, "-5", _TO_STRING, "-5", "-5"
    ),
    SparkType.FLOAT: _cells(
        "REAL", "real", '0.1, "NaN"', _KEYS, _SAME, _SAME, _SAME, "0.1, NaN", _TO_STRING, "0.1, NaN", _TO_STRING
    ),
    SparkType.DOUBLE: _cells(
        "REAL",
        "double precision",
        '0.1, "NaN"',
        _KEYS,
        _SAME,
        _SAME,
        _SAME,
        "0.1, NaN",
        _TO_STRING,
        "0.1, NaN",
        _TO_STRING,
    ),
    SparkType.DECIMAL: _cells(
        "TEXT 1.50", "numeric(p, s)", "1.50", '"1.50"', _SAME, _SAME, _SAME, "1.50", _TO_STRING, "1.50", _TO_STRING
    ),
    SparkType.STRING: _cells(
        "TEXT", "text", "string", "itself", _SAME, _SAME, _SAME, "in quotes", "a line", "UTF-8", "itself"
    ),
    SparkType.BINARY: _cells(
        "BLOB", "bytea", "base64", "base64", _SAME, _SAME, _SAME, _BASE64, _BASE64, "itself", _BASE64
    ),
    SparkType.DATE: _cells(
        f"TEXT {_DAY}", "date", f'"{_DAY}"', f'"{_DAY}"', _SAME, _SAME, _SAME, _DAY, _TO_STRING, _DAY, _DAY
    ),
    SparkType.TIMESTAMP: _cells(
        f"TEXT {_UTC}",
        "timestamp with time zone",
        f'"{_UTC}"',
        f'"{_UTC}"',
        _SAME,
        _SAME,
        _SAME,
        _UTC,
        _TO_STRING,
        _UTC,
        _TO_STRING,
    ),
    SparkType.TIMESTAMP_NTZ: _cells(
        f"TEXT {_LOCAL}",
        "timestamp",
        f'"{_LOCAL}"',
        f'"{_LOCAL}"',
        _SAME,
        _SAME,
        _ZONED,
        _LOCAL,
        _TO_STRING,
        _LOCAL,
        _TO_STRING,
    ),
    SparkType.TIME: _cells(
        f"TEXT {_TIME}",
        "time",
        f'"{_TIME}"',
        f'"{_TIME}"',
        _TO_STRING,
        _TO_STRING,
        _TO_STRING,
        _TIME,
        _TO_STRING,
        _TIME,
        _TO_STRING,
    ),
    SparkType.ARRAY: _cells(
        _TO_JSON, "array; jsonb if nested", "array", _KEYS, _SAME, _SAME, _SAME, _TO_JSON, _TO_JSON, _TO_JSON, _TO_JSON
    ),
    SparkType.STRUCT: _cells(
        _TO_JSON, "jsonb", "object", _KEYS, _SAME, _SAME, _SAME, _TO_JSON, _TO_JSON, _TO_JSON, _TO_JSON
    ),
    SparkType.MAP: _cells(
        _TO_JSON, "jsonb", "object", _KEYS, _SAME, _SAME, _SAME, _TO_JSON, _TO_JSON, _TO_JSON, _TO_JSON
    ),
}

TABLE: Mapping[SparkType, Mapping[Target, Cell]] = {
    kind: _REST[kind] if kind in _REST else dict.fromkeys(Target, _NOWHERE[kind]) for kind in SparkType
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
    """The place of the values inside a nested type. In PostgreSQL it is jsonb, but for an array of plain values."""
    if target is Target.DELTA and pa.types.is_nested(kind):
        return Target.DELTA_NESTED
    is_plain = is_list(kind) and not pa.types.is_nested(element_of(kind))
    return Target.JSON if target is Target.POSTGRES and pa.types.is_nested(kind) and not is_plain else target


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

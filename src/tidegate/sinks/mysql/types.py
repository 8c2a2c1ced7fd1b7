"""Which types of MySQL hold which values, unchanged: for a table that the sink creates, and for one that exists.

| Spark | created as | exists as |
|---|---|---|
| boolean | tinyint(1) | |
| tinyint, smallint, int, bigint | tinyint, smallint, int, bigint | a wider integer, also unsigned, or a decimal |
| float, double | float, double | for a float: double |
| decimal(p, s), s up to 30 | decimal(p, s) | a decimal with at least as many digits on both sides of the point |
| string | longtext; varchar in a key | varchar, tinytext, text, mediumtext, json |
| binary | longblob; varbinary in a key | varbinary, tinyblob, blob, mediumblob |
| date | date | |
| timestamp | datetime(6), in UTC | timestamp(6) |
| timestamp_ntz | datetime(6) | |
| time | time(6) | |
| array, struct, map | longtext with JSON | mediumtext, text; json where no decimal is inside |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from tidegate.sinks.arrow import fields_in
from tidegate.sinks.mysql.table import MySQLColumn
from tidegate.sinks.nested import element_of, is_list
from tidegate.sinks.value_table import SparkType, kind_of

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Field

    Decimals = pa.Decimal128Type[Any, Any]

MOST_PLACES = 30
"""Of a DECIMAL (dev.mysql.com/doc/refman/8.4/en/precision-math-decimal-characteristics.html)."""
_NESTED = frozenset({SparkType.STRUCT, SparkType.MAP, SparkType.ARRAY})
_OF_ANY_LENGTH = frozenset({SparkType.STRING, SparkType.BINARY})
_KEY_LENGTH = 255
_KEY_LENGTHS = 700
"""An index has room for 3072 bytes, which is 768 characters, less those of other columns."""


def is_nested(kind: pa.DataType) -> bool:
    """True for values that are written as JSON."""
    return kind_of(kind) in _NESTED


def created_as(kind: pa.DataType, key_length: int = 0) -> str:
    """The type of a column that the sink creates, in SQL. `key_length`: of a text or binary in the key."""
    found = kind_of(kind)
    if found in _OF_ANY_LENGTH and key_length:
        return f"{'varchar' if found is SparkType.STRING else 'varbinary'}({key_length})"
    if found is SparkType.DECIMAL:
        decimals = cast("Decimals", kind)
        return f"decimal({decimals.precision}, {decimals.scale})"
    return _INTEGERS[cast("Any", kind).bit_width] if found is SparkType.INTEGER else _CREATED[found]


def key_length_of(fields: Sequence[Field], key: Sequence[str]) -> int:
    """The length of each text and binary in the key, so that the whole key fits into an index."""
    texts = [field for field in fields if field.name in key and kind_of(field.type) in _OF_ANY_LENGTH]
    return min(_KEY_LENGTH, _KEY_LENGTHS // len(texts)) if texts else 0


def has_too_many_places(kind: pa.DataType) -> bool:
    return kind_of(kind) is SparkType.DECIMAL and cast("Decimals", kind).scale > MOST_PLACES


def holds(column: MySQLColumn, kind: pa.DataType) -> bool:
    """True if a column of the table keeps each value of this type unchanged, or refuses it."""
    found = kind_of(kind)
    if is_nested(kind):
        return column.type in _JSON_TEXTS or (column.type == "json" and not _has_decimals(kind))
    if column.type == "decimal" and found in (SparkType.INTEGER, SparkType.DECIMAL):
        return _has_digits(column, kind)
    if found is SparkType.INTEGER:
        return _WIDTHS.get(column.type, 0) >= cast("Any", kind).bit_width
    if column.type in ("float", "double") and column.places is not None:
        return False  # FLOAT(7, 4) rounds
    if column.type in _TIMES:
        return column.type in _EXISTS[found] and column.fraction == _MICROSECONDS
    return column.type in _EXISTS[found]


def _has_digits(column: MySQLColumn, kind: pa.DataType) -> bool:
    digits, places = column.digits or 0, column.places or 0
    if kind_of(kind) is SparkType.INTEGER:
        wanted, wanted_places = _DIGITS[cast("Any", kind).bit_width], 0
    else:
        decimals = cast("Decimals", kind)
        wanted, wanted_places = decimals.precision, decimals.scale
    return places >= wanted_places and digits - places >= wanted - wanted_places


def _has_decimals(kind: pa.DataType) -> bool:
    """MySQL's JSON keeps such numbers as doubles only."""
    if pa.types.is_struct(kind):
        return any(_has_decimals(field.type) for field in fields_in(kind))
    if pa.types.is_map(kind):
        return _has_decimals(kind.key_type) or _has_decimals(kind.item_type)
    return _has_decimals(element_of(kind)) if is_list(kind) else pa.types.is_decimal(kind)


_MICROSECONDS = 6
_TIMES = frozenset({"time", "datetime", "timestamp"})
_JSON_TEXTS = frozenset({"text", "mediumtext", "longtext"})
_INTEGERS: Mapping[int, str] = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}
_DIGITS: Mapping[int, int] = {8: 3, 16: 5, 32: 10, 64: 19}
_WIDTHS: Mapping[str, int] = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
_CREATED: Mapping[SparkType, str] = {
    SparkType.BOOLEAN: "tinyint(1)",
    SparkType.FLOAT: "float",
    SparkType.DOUBLE: "double",
    SparkType.STRING: "longtext",
    SparkType.BINARY: "longblob",
    SparkType.DATE: "date",
    SparkType.TIMESTAMP: "datetime(6)",
    SparkType.TIMESTAMP_NTZ: "datetime(6)",
    SparkType.TIME: "time(6)",
    **dict.fromkeys(_NESTED, "longtext"),
}
_EXISTS: Mapping[SparkType, frozenset[str]] = {
    SparkType.BOOLEAN: frozenset({"tinyint"}),
    SparkType.FLOAT: frozenset({"float", "double"}),
    SparkType.DOUBLE: frozenset({"double"}),
    SparkType.DECIMAL: frozenset(),
    SparkType.STRING: frozenset({"varchar", "tinytext", *_JSON_TEXTS, "json"}),
    SparkType.BINARY: frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"}),
    SparkType.DATE: frozenset({"date"}),
    SparkType.TIMESTAMP: frozenset({"datetime", "timestamp"}),
    SparkType.TIMESTAMP_NTZ: frozenset({"datetime"}),
    SparkType.TIME: frozenset({"time"}),
}

"""Columns of values of every type in every container, and what a sink must make of them.

Values are neutral here: days and microseconds as whole numbers (Python's datetime cannot hold them all), a map as a
list of pairs, a struct as a dict, a text as the bytes that Spark has for it (any bytes). What a reader must give of
them (`expected`) is decided by code of this module alone, never by the product's.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

UTC, LOCAL = pa.timestamp("us", "America/Los_Angeles"), pa.timestamp("us")
TYPES: Mapping[str, tuple[pa.DataType | None, Sequence[Any]]] = {
    "boolean": (pa.bool_(), [True, False]),
    "tinyint": (pa.int8(), [-128, 127]),
    "smallint": (pa.int16(), [-(2**15), 2**15 - 1]),
    "int": (pa.int32(), [-(2**31), 2**31 - 1]),
    "bigint": (pa.int64(), [-(2**63), 2**63 - 1]),
    "float": (
        pa.float32(),
        [struct.unpack("f", struct.pack("f", 0.1))[0], math.inf, -math.inf, -0.0, math.nan, 2.0**-149],
    ),
    "double": (pa.float64(), [0.1, math.inf, -math.inf, -0.0, math.nan, 5e-324, 1.7976931348623157e308]),
    "decimal(1,0)": (pa.decimal128(1, 0), [Decimal(-9), Decimal(9)]),
    "decimal(10,2)": (pa.decimal128(10, 2), [Decimal("1.50"), Decimal("-99999999.99")]),
    "decimal(38,18)": (pa.decimal128(38, 18), [Decimal("1E-18"), Decimal("99999999999999999999.999999999999999999")]),
    "decimal(38,38)": (pa.decimal128(38, 38), [Decimal("1E-38"), Decimal("0." + "9" * 38)]),
    "string": (
        pa.string(),
        [
            each.encode()
            for each in ("", 'a"ä€😀\\', "\0\t", "null", "2026-01-01", "%41=/", " a ", ":smile:", "[b]x[/]")
        ],
    ),
    "binary": (pa.binary(), [b"", b"\0\xff\xfe"]),
    "date": (pa.date32(), [0, -719_529, 2_932_896, 2_932_897, 2**31 - 1, -(2**31)]),
    "timestamp": (UTC, [0, 253_402_300_799_999_999, 253_402_300_800_000_000, 2**63 - 1, -(2**63)]),
    "timestamp_ntz": (LOCAL, [1, -62_135_596_800_000_001, 2**63 - 1, -(2**63)]),
    "time": (pa.time64("ns"), [0, 1, 86_399_999_999_000]),
    "struct<>": (pa.struct([]), []),
    "variant": (None, []),
    "interval day to second": (pa.duration("us"), []),
    "interval year to month": (None, []),
    "interval": (pa.month_day_nano_interval(), []),
    "void": (pa.null(), []),
    "geometry": (None, []),
    "geography": (None, []),
    "any other": (pa.uint64(), []),
}
"""Every type of Spark's as it arrives in Arrow (None: not as itself, so it is refused before) and its edges."""

Column = Any  # Arrow's arrays are mostly unknown to a type checker
_IN: Mapping[str, tuple[Callable[[pa.DataType], pa.DataType], Callable[[Any], Any]]] = {
    "itself": (lambda kind: kind, lambda value: value),
    "array": (pa.list_, lambda value: [value]),
    "struct": (lambda kind: pa.struct([("f", kind)]), lambda value: {"f": value}),
    "map value": (lambda kind: pa.map_(pa.string(), kind), lambda value: [(b"k", value)]),
    "map key": (lambda kind: pa.map_(kind, pa.int32()), lambda value: None if value is None else [(value, 7)]),
}
CONTAINERS = tuple(_IN)


def contained(type_name: str, container: str) -> tuple[pa.DataType, list[Any]] | None:
    """A type in a container, and its edges in it, one a row and a null behind them (a null in a key: no map). None for
    what Arrow does not show."""
    kind, edges = TYPES[type_name]
    if kind is None or (pa.types.is_null(kind) and container == "map key"):
        return None
    of_kind, of_value = _IN[container]
    return of_kind(kind), [of_value(each) for each in [*edges, None]]


def all_edges(is_taken: Callable[[pa.DataType], bool]) -> dict[str, tuple[pa.DataType, list[Any]]]:
    """A column for each type in each container that is taken, all of the same length: nulls stand behind the edges."""
    cells = {f"{name}, {place}": contained(name, place) for name in TYPES for place in CONTAINERS}
    taken = {name: cell for name, cell in cells.items() if cell is not None and is_taken(cell[0])}
    longest = max(len(values) for _, values in taken.values())
    return {name: (kind, values + [None] * (longest - len(values))) for name, (kind, values) in taken.items()}


def column_of(kind: pa.DataType, values: Sequence[Any]) -> Column:
    """A column of Arrow's, as Spark hands it over: texts of any bytes, times of any year."""
    return pa.array(values, _stored(kind)).view(kind)


def neutral(kind: pa.DataType, column: Column) -> list[Any]:
    """The values of a column that a reader gives, its texts as texts."""
    return [_read(kind, value) for value in column.view(_stored(kind)).to_pylist()]


def _stored(kind: pa.DataType) -> pa.DataType:
    """The type whose bytes are the same, and which takes every value from Python."""
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _stored(field.type)) for field in fields_of(kind)])
    if pa.types.is_map(kind):
        return pa.map_(_stored(kind.key_type), _stored(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_stored(kind.value_type))
    if pa.types.is_string(kind):
        return pa.binary()
    if pa.types.is_date(kind):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(kind) or pa.types.is_time(kind) else kind


def _read(kind: pa.DataType, value: Any) -> Any:
    return mapped(kind, value, lambda plain, each: each.decode() if pa.types.is_string(plain) else each)


def mapped(kind: pa.DataType, value: Any, change: Callable[[pa.DataType, Any], Any]) -> Any:
    """A value with every plain value in it changed."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: mapped(field.type, value[field.name], change) for field in fields_of(kind)}
    if pa.types.is_map(kind):
        return [(mapped(kind.key_type, key, change), mapped(kind.item_type, item, change)) for key, item in value]
    if pa.types.is_list(kind):
        return [mapped(kind.value_type, each, change) for each in value]
    return change(kind, value)


def fields_of(kind: pa.DataType) -> Iterator[pa.Field[Any]]:
    return (kind.field(number) for number in range(kind.num_fields))


# --- what a reader must give -------------------------------------------------------------------------------


class Unwritable(Exception):
    """The row must be refused."""


def expected(kind: pa.DataType, value: Any, *, replace: bool) -> Any:
    """The value with its texts as a reader gives them. Raises Unwritable where a text is not UTF-8 and may not be
    replaced, or would replace another key of its map."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: expected(field.type, value[field.name], replace=replace) for field in fields_of(kind)}
    if pa.types.is_list(kind):
        return [expected(kind.value_type, each, replace=replace) for each in value]
    if pa.types.is_map(kind):
        replace_keys = replace and not pa.types.is_nested(kind.key_type)
        keys = [expected(kind.key_type, key, replace=replace_keys) for key, _ in value]
        if len(set(map(repr, keys))) < len(keys):
            raise Unwritable
        return [
            (key, expected(kind.item_type, item, replace=replace)) for key, (_, item) in zip(keys, value, strict=True)
        ]
    return _text(value, replace=replace) if pa.types.is_string(kind) else value


def _text(content: bytes, *, replace: bool) -> str:
    try:
        return content.decode("utf-8", "replace" if replace else "strict")
    except UnicodeDecodeError:
        raise Unwritable from None


def same(left: Any, right: Any) -> bool:
    """Equal values of one type; a NaN is equal to a NaN, and zero is not negative zero."""
    if isinstance(left, list | tuple) and type(left) is type(right):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, float) and isinstance(right, float):
        both_nan = math.isnan(left) and math.isnan(right)
        return both_nan or (left == right and math.copysign(1, left) == math.copysign(1, right))
    return isinstance(left, Decimal) == isinstance(right, Decimal) and left == right

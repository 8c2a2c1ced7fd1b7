"""Arrow columns as SQLite values.

| Arrow | SQLite | value |
|---|---|---|
| integers, boolean | INTEGER | a boolean as 0 or 1 |
| floats | REAL | NaN as NULL: SQLite has none |
| string | TEXT | |
| binary | BLOB | |
| decimal | TEXT | exact, all decimal places, no exponent |
| date | TEXT | 2026-01-31; sorts by time |
| timestamp | TEXT | 2026-01-31T23:59:59.000001, with Z where it has a zone (then in UTC); sorts by time |
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from tidegate.sinks.arrow import nan_as_null, timestamps_as_text

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column


def affinity_of(kind: pa.DataType) -> str | None:
    """The SQLite type that holds `kind`, or None where SQLite has none for it (nested types, intervals)."""
    return next((affinity for fits, affinity, _ in _KINDS if fits(kind)), None)


def values_of(column: Column) -> list[Any]:
    """The column as what sqlite3 binds. Its type must have an affinity."""
    return next(convert for fits, _, convert in _KINDS if fits(column.type))(column)


def _plain(column: Column) -> list[Any]:
    return column.to_pylist()


def _numbers(column: Column) -> list[Any]:
    return nan_as_null(column).to_pylist()


def _dates(column: Column) -> list[Any]:
    return column.cast(pa.string()).to_pylist()


def _timestamps(column: Column) -> list[Any]:
    return timestamps_as_text(column).to_pylist()


def _decimals(column: Column) -> list[Any]:
    found = cast("list[Decimal | None]", column.to_pylist())
    return [None if value is None else format(value, "f") for value in found]


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], str, Callable[[Column], list[Any]]], ...] = (
    (lambda kind: pa.types.is_integer(kind) and not pa.types.is_uint64(kind), "INTEGER", _plain),
    (pa.types.is_boolean, "INTEGER", _plain),
    (pa.types.is_floating, "REAL", _numbers),
    (pa.types.is_string, "TEXT", _plain),
    (pa.types.is_large_string, "TEXT", _plain),
    (pa.types.is_binary, "BLOB", _plain),
    (pa.types.is_large_binary, "BLOB", _plain),
    (pa.types.is_decimal, "TEXT", _decimals),
    (pa.types.is_date, "TEXT", _dates),
    (pa.types.is_timestamp, "TEXT", _timestamps),
)

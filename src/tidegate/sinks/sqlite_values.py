"""Arrow columns as SQLite values.

| Arrow | SQLite | value |
|---|---|---|
| integers, boolean | INTEGER | a boolean as 0 or 1 |
| floats | REAL | infinities as they are; a NaN, which SQLite does not have, is refused, or NULL |
| string | TEXT | |
| binary | BLOB | |
| decimal | TEXT | exact, all decimal places, no exponent |
| date | TEXT | 2026-01-31; sorts by time |
| timestamp | TEXT | 2026-01-31T23:59:59.000001, with Z where it has a zone (then in UTC); sorts by time |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from tidegate.sinks.arrow import nan_as_null, timestamps_as_text
from tidegate.sinks.row_values import InvalidText, NaN, refused_nans, refused_nulls, refused_texts
from tidegate.sinks.rows import RowRefused, one_for_each_row

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column


@dataclass(frozen=True, slots=True)
class SQLiteRules:
    """Which rows a table cannot hold because of a value: a text that is not UTF-8, a NaN, a null in the key."""

    key: tuple[str, ...]
    invalid_text: InvalidText
    nan: NaN

    def refused(self, batch: pa.RecordBatch) -> list[RowRefused]:
        """Here and not at commit: a decided epoch must not be refused by the table. (SQLite itself would take every
        NULL for a key of its own and append the row again and again.)"""
        others = set(batch.schema.names).difference(self.key)
        nans = refused_nans(batch, spared=() if self.nan is NaN.REFUSE else others)
        nulls = refused_nulls(batch, self.key, "key column")
        return one_for_each_row([*refused_texts(batch, self.invalid_text), *nans, *nulls])


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

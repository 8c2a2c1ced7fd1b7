"""Converts Arrow columns to SQLite values.

| Arrow | SQLite | value |
|---|---|---|
| integers, boolean | INTEGER | a boolean as 0 or 1 |
| floats | REAL | the same number, infinities too; a NaN, which SQLite does not have, is refused, or NULL |
| string | TEXT | |
| binary | BLOB | |
| decimal | TEXT | exact, all decimal places, no exponent |
| date | TEXT | 2026-01-31 |
| timestamp | TEXT | 2026-01-31T23:59:59.000001; in UTC and with Z if the type has a time zone |
| time | TEXT | 23:59:59.000001 |

The module `tidegate.sinks.value_texts` makes the texts. SQLite does not store the sign of a zero: -0.0 becomes 0.0.
Texts of dates and timestamps from the year 0 to 9999 sort by time. Other years have a sign and more digits, and do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidegate.arrays import integers
from tidegate.sinks.arrow import columns_of
from tidegate.sinks.row_values import InvalidText, NaN, refused_nans, refused_nulls, refused_texts, with_valid_texts
from tidegate.sinks.rows import RowRefused, one_for_each_row
from tidegate.sinks.sqlite.constraints import Constraints
from tidegate.sinks.value_texts import texts_of

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column


@dataclass(frozen=True, slots=True)
class SQLiteRules:
    """The rules by which a table refuses rows: a text that is not UTF-8, a NaN, a null in the key, and the table's own
    constraints.
    """

    key: tuple[str, ...]
    invalid_text: InvalidText
    nan: NaN
    constraints: Constraints | None = None

    def refused(self, batch: pa.RecordBatch) -> list[RowRefused]:
        """Refuses rows before the commit, because the table must not refuse a decided epoch. (SQLite itself treats
        every NULL as a different key, and would append the row again and again.)
        """
        not_null = [] if self.constraints is None else self.constraints.not_null_of(batch.schema.names)
        others = set(batch.schema.names).difference(self.key, not_null)
        nans = refused_nans(batch, spared=() if self.nan is NaN.REFUSE else others)
        nulls = [*refused_nulls(batch, self.key, "key column"), *refused_nulls(batch, not_null, "NOT NULL column")]
        found = one_for_each_row([*refused_texts(batch, self.invalid_text), *nans, *nulls])
        return found if self.constraints is None else one_for_each_row([*found, *self._tried(batch, found)])

    def _tried(self, batch: pa.RecordBatch, refused: Sequence[RowRefused]) -> Iterator[RowRefused]:
        """The rows that the table's own constraints refuse, among the rows that are not refused yet."""
        constraints = self.constraints
        if constraints is None or not constraints.must_be_tried:
            return
        gone = {each.row for each in refused}
        rows = [row for row in range(batch.num_rows) if row not in gone]
        left = self.prepared(batch if not gone else batch.take(integers(rows, pa.int64())))
        values = list(zip(*(values_of(column) for column in columns_of(left)), strict=True))
        for each in constraints.refused(left.schema.names, values):
            each.row = rows[each.row or 0]
            yield each

    def prepared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as the sink writes them. The caller has removed refused rows."""
        return with_valid_texts(batch) if self.invalid_text is InvalidText.REPLACE else batch


def affinity_of(kind: pa.DataType) -> str | None:
    """The SQLite type that holds `kind`, or None if SQLite has none (nested types, intervals)."""
    return next((affinity for fits, affinity, _ in _KINDS if fits(kind)), None)


def values_of(column: Column) -> list[Any]:
    """The column as values that sqlite3 binds. Its type must have an affinity."""
    return next(convert for fits, _, convert in _KINDS if fits(column.type))(column)


def _plain(column: Column) -> list[Any]:
    return column.to_pylist()


def _texts(column: Column) -> list[Any]:
    return texts_of(column).to_pylist()


_KINDS: tuple[tuple[Callable[[pa.DataType], bool], str, Callable[[Column], list[Any]]], ...] = (
    (lambda kind: pa.types.is_integer(kind) and not pa.types.is_uint64(kind), "INTEGER", _plain),
    (pa.types.is_boolean, "INTEGER", _plain),
    (pa.types.is_floating, "REAL", _plain),
    (pa.types.is_string, "TEXT", _plain),
    (pa.types.is_large_string, "TEXT", _plain),
    (pa.types.is_binary, "BLOB", _plain),
    (pa.types.is_large_binary, "BLOB", _plain),
    (pa.types.is_decimal, "TEXT", _texts),
    (pa.types.is_date, "TEXT", _texts),
    (pa.types.is_timestamp, "TEXT", _texts),
    (pa.types.is_time, "TEXT", _texts),
)

"""The rows that a table refuses, as far as the rows alone and the table's description show it.

The staging table has the table's own types and CHECK. So what is not found here (a CHECK, a text that its column's
character set does not have, a text that is no JSON) is found by the server when a task writes its rows, before anything
of the epoch is decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import integers
from tidegate.core.telling import shortened
from tidegate.sinks.arrow import columns_of
from tidegate.sinks.keyed import deletes
from tidegate.sinks.mysql.fields import TUPLES, row_texts
from tidegate.sinks.mysql.table import MySQLColumn, MySQLTable
from tidegate.sinks.mysql.types import is_nested
from tidegate.sinks.row_values import (
    InvalidText,
    is_text,
    refused_nulls,
    refused_texts,
    rows_where,
    with_valid_texts,
)
from tidegate.sinks.rows import RowRefused, one_for_each_row

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column

_compute = cast("Any", pc)

BESIDE_A_ROW = 65_536
"""Most bytes of a statement beside the values of its rows: the names of all columns, numbers, the protocol."""


@dataclass(frozen=True, slots=True)
class MySQLRules:
    """The rules by which rows are refused. `deleted`: the column that marks a key as deleted. `table`: the target, if
    it is known.
    """

    key: tuple[str, ...]
    deleted: str | None
    invalid_text: InvalidText
    table: MySQLTable | None = None

    def refused(self, batch: pa.RecordBatch) -> list[RowRefused]:
        found = [*refused_texts(batch, self.invalid_text), *refused_nulls(batch, self.key, "key column")]
        found += self._nulls(batch)
        prepared = self.prepared(batch)
        for name, column in zip(batch.schema.names, columns_of(prepared), strict=True):
            if name != self.deleted:
                found += _unfit(name, column, None if self.table is None else self.table.column(name))
        if self.table is not None and _may_be_long(prepared, self.table.largest_packet):
            bad = {each.row for each in found}
            found += self._too_long(prepared, self.table.largest_packet, bad)
        return one_for_each_row(found)

    def prepared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as the sink writes them. The caller has removed refused rows."""
        return with_valid_texts(batch) if self.invalid_text is InvalidText.REPLACE else batch

    def _nulls(self, batch: pa.RecordBatch) -> Iterator[RowRefused]:
        """Nulls for NOT NULL columns. A row that only deletes its key needs no other value."""
        if self.table is None:
            return
        of_table = [(name, self.table.column(name)) for name in batch.schema.names if name not in self.key]
        names = [name for name, column in of_table if column is not None and column.not_null]
        gone = set[int]() if self.deleted is None else set(rows_where(deletes(batch, self.deleted)))
        for each in refused_nulls(batch, names, "NOT NULL column"):
            if each.row not in gone:
                yield each

    def _too_long(self, batch: pa.RecordBatch, largest: int, bad: set[int | None]) -> Iterator[RowRefused]:
        rows = [row for row in range(batch.num_rows) if row not in bad]
        if not rows:
            return
        sizes = row_texts(batch.take(integers(rows, pa.int64())), (), TUPLES).sizes
        for row, size in zip(rows, sizes, strict=True):
            if size <= largest - BESIDE_A_ROW:
                continue
            yield RowRefused(
                row=row,
                expected=f"a row that fits into one statement: max_allowed_packet of the server is {largest} bytes",
                found=f"{size} bytes of values",
                next_step="raise max_allowed_packet on the server, shorten the values in select=[...], or leave such"
                " rows out with where=",
            )


def _may_be_long(batch: pa.RecordBatch, largest: int) -> bool:
    """False if each row surely fits: the texts of a value have at most four times its bytes, and 64."""
    longest = 0
    for column in columns_of(batch):
        if is_nested(column.type):
            longest += 4 * column.nbytes
        elif _has_bytes(column.type):
            longest += 4 * (_compute.max(_compute.binary_length(column)).as_py() or 0)
    return longest + 64 * batch.num_columns > largest - BESIDE_A_ROW


def _unfit(name: str, column: Column, of_table: MySQLColumn | None) -> Iterator[RowRefused]:
    kind = column.type
    if pa.types.is_floating(kind):
        odd = rows_where(_compute.invert(_compute.is_finite(column)))
        yield from _refusals(name, column, odd, f"a finite number in {name!r}: MySQL has no NaN and no infinity", _NAN)
    elif pa.types.is_date(kind):
        yield from _outside(name, column, _whole(column, pa.int32()), _DAYS, _YEARS)
    elif pa.types.is_timestamp(kind):
        moments = _whole(cast("Any", column).view(pa.timestamp("us")), pa.int64())
        is_timestamp = of_table is not None and of_table.type == "timestamp"
        bounds, told = (_SECONDS_OF_1970, _UNTIL_2038) if is_timestamp else (_MOMENTS, _YEARS)
        yield from _outside(name, column, moments, bounds, told)
    elif pa.types.is_time(kind):
        odd = np.flatnonzero(_whole(column, pa.int64()) % 1000).tolist()
        yield from _refusals(name, column, odd, f"a time of day in whole microseconds, in {name!r}", _FINER)
    if of_table is not None:
        yield from _unlike_declared(name, column, of_table)


def _unlike_declared(name: str, column: Column, of_table: MySQLColumn) -> Iterator[RowRefused]:
    if of_table.is_unsigned and not is_nested(column.type):
        negative = rows_where(_compute.less(_compute.sign(column), 0))
        yield from _refusals(name, column, negative, f"no negative number in {name!r}, which is unsigned", _LEAVE_OUT)
    if of_table.type == "varchar" and of_table.characters is not None and is_text(column.type):
        long = rows_where(_compute.greater(_compute.utf8_length(column), of_table.characters))
        yield from _refusals(name, column, long, f"at most {of_table.characters} characters in {name!r}", _SHORTER)
    elif of_table.bytes is not None and _has_bytes(column.type) and not of_table.charset_converts:
        long = rows_where(_compute.greater(_compute.binary_length(column), of_table.bytes))
        yield from _refusals(name, column, long, f"at most {of_table.bytes} bytes in {name!r}", _SHORTER)


def _outside(
    name: str, column: Column, numbers: Any, bounds: tuple[int, int], told: tuple[str, str]
) -> Iterable[RowRefused]:
    first, last = bounds
    odd = np.flatnonzero(((numbers < first) | (numbers > last)) & _valid(column)).tolist()
    return _refusals(name, column, odd, f"{told[0]}, in {name!r}", told[1])


def _valid(column: Column) -> Any:
    return cast("Any", column.is_valid()).to_numpy(zero_copy_only=False)


def _whole(column: Column, kind: pa.DataType) -> Any:
    return cast("Any", column).view(kind).fill_null(0).to_numpy(zero_copy_only=False)


def _has_bytes(kind: pa.DataType) -> bool:
    return is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _refusals(name: str, column: Column, rows: Sequence[int], expected: str, next_step: str) -> Iterator[RowRefused]:
    for row in rows:
        yield RowRefused(row=row, column=name, expected=expected, found=_text_of(column[row]), next_step=next_step)


def _text_of(value: Any) -> str:
    """A value of Arrow as text. Python has none for a time in a far year."""
    try:
        return shortened(repr(value.as_py()), _FOUND_AT_MOST)
    except (ValueError, OverflowError, LookupError):
        return str(value.cast(pa.string()) if not pa.types.is_timestamp(value.type) else value.value)


_FOUND_AT_MOST = 60
_DAY_MICROSECONDS = 86_400_000_000
_DAYS = (-719_162, 2_932_896)
"""0001-01-01 and 9999-12-31, in days from 1970-01-01."""
_MOMENTS = (_DAYS[0] * _DAY_MICROSECONDS, (_DAYS[1] + 1) * _DAY_MICROSECONDS - 1)
_SECONDS_OF_1970 = (1_000_000, (2**31 - 1) * 1_000_000 + 999_999)
_CAST = 'leave such rows out with where=, or make the column a string with .cast("string")'
_YEARS = ("a date or time of the years 1 to 9999", _CAST)
_UNTIL_2038 = (
    "a time from 1970-01-01 00:00:01 to 2038-01-19 03:14:07 UTC, which a TIMESTAMP column has",
    "make the column DATETIME(6), or leave such rows out with where=",
)
_FINER = 'cast it to TIME(6) in select=[...], or make it a string with .cast("string")'
_NAN = "give it a value with F.nanvl in select=[...], or a null; leave infinities out with where="
_LEAVE_OUT = "leave such rows out with where=, give the query dead_letters=, or ALTER TABLE"
_SHORTER = "shorten it with F.substring in select=[...], leave such rows out with where=, or ALTER TABLE"

"""The rows that a table refuses, as far as the rows alone and the table's description show it.

The staging table has the table's own types, NOT NULL and CHECK. So what is not found here (a CHECK, a text that is no
JSON) is found by the server when a task copies its rows, before anything of the epoch is decided.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.telling import shortened
from tidegate.sinks.arrow import columns_of
from tidegate.sinks.keyed import deletes
from tidegate.sinks.nested import Leaf, leaves_of
from tidegate.sinks.postgres.copy_format import EPOCH_DAYS, EPOCH_MICROSECONDS
from tidegate.sinks.postgres.table import TableColumn, TargetTable
from tidegate.sinks.postgres.types import goes_as_json
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


@dataclass(frozen=True, slots=True)
class PostgresRules:
    """The rules by which rows are refused. `deleted`: the column that marks a key as deleted. `table`: the target, if
    it is known.
    """

    key: tuple[str, ...]
    deleted: str | None
    invalid_text: InvalidText
    table: TargetTable | None = None

    def refused(self, batch: pa.RecordBatch) -> list[RowRefused]:
        found = [*refused_texts(batch, self.invalid_text), *refused_nulls(batch, self.key, "key column")]
        found += self._nulls(batch)
        for name, column in zip(batch.schema.names, columns_of(self.prepared(batch)), strict=True):
            of_table = None if self.table is None else self.table.column(name)
            found += _unfit(name, column, of_table)
        return one_for_each_row(found)

    def prepared(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows as the sink writes them. The caller has removed refused rows."""
        return with_valid_texts(batch) if self.invalid_text is InvalidText.REPLACE else batch

    def _nulls(self, batch: pa.RecordBatch) -> Iterator[RowRefused]:
        """Nulls for NOT NULL columns. A row that only deletes its key needs no other value."""
        if self.table is None:
            return
        names = [each.name for each in self.table.of(batch.schema.names) if each.not_null and each.name not in self.key]
        gone = set[int]() if self.deleted is None else set(rows_where(deletes(batch, self.deleted)))
        for each in refused_nulls(batch, names, "NOT NULL column"):
            if each.row not in gone:
                yield each


def _unfit(name: str, column: Column, of_table: TableColumn | None) -> Iterator[RowRefused]:
    for leaf in leaves_of(column, name):
        if is_text(leaf.values.type):
            yield from _refusals(name, leaf, _with_zero_byte(leaf.values), *_ZERO_BYTE)
        elif not goes_as_json(column.type):
            yield from _out_of_range(name, leaf)
    if of_table is not None and is_text(column.type):
        yield from _unlike_declared(name, column, of_table)


def _with_zero_byte(texts: Column) -> list[int]:
    return rows_where(_compute.match_substring(cast("Any", texts).cast(pa.large_binary()), b"\0"))


_ZERO_BYTE = (
    "a text without the character U+0000, which PostgreSQL's texts do not have",
    "remove it with F.translate(column, '\\u0000', '') in select=[...], or cast the column to binary",
)


def _out_of_range(name: str, leaf: Leaf) -> Iterator[RowRefused]:
    kind = leaf.values.type
    if pa.types.is_date(kind):
        numbers, (first, last) = _whole(leaf.values, pa.int32()), _DAYS
    elif pa.types.is_timestamp(kind):
        numbers, (first, last) = _whole(cast("Any", leaf.values).view(pa.timestamp("us")), pa.int64()), _MOMENTS
    elif pa.types.is_time(kind):
        numbers = _whole(leaf.values, pa.int64())
        yield from _refusals(name, leaf, np.flatnonzero(numbers % 1000).tolist(), *_MICROSECONDS)
        return
    else:
        return
    outside = np.flatnonzero((numbers < first) | (numbers > last)).tolist()
    yield from _refusals(name, leaf, outside, *_YEARS)


def _whole(column: Column, kind: pa.DataType) -> Any:
    return cast("Any", column).view(kind).fill_null(0).to_numpy(zero_copy_only=False)


# From `IS_VALID_DATE` and `IS_VALID_TIMESTAMP` of the server (src/include/datatype/timestamp.h), which count from 2000.
_DAYS = (-2_451_545 + EPOCH_DAYS, 2_147_483_494 - 2_451_545 - 1 + EPOCH_DAYS)
_MOMENTS = (-211_813_488_000_000_000 + EPOCH_MICROSECONDS, 2**63 - 1)
"""Spark's last moment lies before the server's."""
_YEARS = (
    "a date or time that PostgreSQL has: from the year 4714 BC on, dates up to 5874897, times up to 294276",
    'leave such rows out with where=, or make the column a string with .cast("string")',
)
_MICROSECONDS = (
    "a time of day in whole microseconds, which is as fine as PostgreSQL's is",
    'cast it to TIME(6) in select=[...], or make it a string with .cast("string")',
)


def _unlike_declared(name: str, texts: Column, of_table: TableColumn) -> Iterator[RowRefused]:
    if of_table.length is not None:
        too_long = rows_where(_compute.greater(_compute.utf8_length(texts), of_table.length))
        for row in too_long:
            yield _refusal(name, row, texts[row], f"at most {of_table.length} characters in {name!r}", _SHORTER)
    if of_table.type == "uuid":
        values: list[str | None] = texts.to_pylist()
        for row, value in enumerate(values):
            if value is not None and not _is_uuid(value):
                yield _refusal(name, row, texts[row], f"the text of a UUID in {name!r}", _LEAVE_OUT)


_SHORTER = "shorten it with F.substring in select=[...], leave such rows out with where=, or ALTER TABLE"
_LEAVE_OUT = "leave such rows out with where=, or give the query dead_letters="


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _refusals(name: str, leaf: Leaf, places: Sequence[int], expected: str, next_step: str) -> Iterable[RowRefused]:
    if not places:
        return
    rows = leaf.rows()
    for place in places:
        yield _refusal(name, int(rows[place]), leaf.values[place], f"{expected}, in {leaf.path!r}", next_step)


def _refusal(name: str, row: int, value: Any, expected: str, next_step: str) -> RowRefused:
    return RowRefused(row=row, column=name, expected=expected, found=_text_of(value), next_step=next_step)


def _text_of(value: Any) -> str:
    """A value of Arrow as text. Python has none for a time in a far year."""
    try:
        return shortened(repr(value.as_py()), _FOUND_AT_MOST)
    except (ValueError, OverflowError):
        return str(value.cast(pa.string()) if not pa.types.is_timestamp(value.type) else value.value)


_FOUND_AT_MOST = 60

"""Rows as Kafka messages: the columns of Spark's own Kafka sink without conversion, or one JSON object for each row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.sinks.arrow import batch_of, columns_of, fields_in
from tidegate.sinks.json_lines import json_objects
from tidegate.sinks.nested import element_of, is_list, leaves_of
from tidegate.sinks.row_values import InvalidText, refused_nulls, refused_texts, rows_where, with_valid_texts
from tidegate.sinks.rows import RowRefused, one_for_each_row
from tidegate.sinks.value_table import SparkType, kind_of
from tidegate.sinks.value_texts import as_bytes

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column


_compute = cast("Any", pc)
_LAST_PARTITION = 2**31 - 1


class MessageFormat(Enum):
    """The contents of a message's value."""

    JSON = "json"
    RAW = "raw"


class _KeyAndValue(TypedDict):
    key: bytes | None
    value: bytes | None


class Message(_KeyAndValue, total=False):
    """One message, with the client's names. A `value` of None is a tombstone. A `partition` of -1 (or none) leaves the
    choice to the partitioner.
    """

    partition: int
    headers: list[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class Layout:
    """The role of each column. `topic`: the topic of all rows; otherwise the column `topic_column` names it for each
    row.

    `values`: the columns of the JSON object, or the one raw column. `invalid_text`: the treatment of texts that are not
    UTF-8.
    """

    format: MessageFormat
    topic: str | None
    topic_column: str | None
    key: str | None
    values: tuple[str, ...]
    partition: str | None
    headers: str | None
    invalid_text: InvalidText = InvalidText.REFUSE

    @property
    def is_plain(self) -> bool:
        """True if messages have only a key and a value. Only such messages can go to the client's batch call."""
        return self.partition is None and self.headers is None

    def refused(self, batch: pa.RecordBatch) -> list[RowRefused]:
        """The rows that cannot become a message because of a value."""
        used = {self.topic_column, self.key, self.partition, self.headers, *self.values}
        rows = batch.select([name for name in batch.schema.names if name in used])
        nulls = refused_nulls(rows, filter(None, [self.topic_column]), "the topic column")
        found = [*refused_texts(rows, self.invalid_text), *nulls]
        if self.partition is not None:
            found += _refused_numbers(_column(batch, self.partition), self.partition)
        if self.headers is not None:
            found += _refused_headers(_column(batch, self.headers), self.headers)
        return one_for_each_row(found)

    def messages(self, batch: pa.RecordBatch) -> dict[str, list[Message]]:
        """The rows of `batch` as messages, by topic, in the order of `batch`. `refused(batch)` must be empty."""
        batch = with_valid_texts(batch) if self.invalid_text is InvalidText.REPLACE else batch
        keys = repeat(None, batch.num_rows) if self.key is None else as_bytes(_column(batch, self.key))
        messages: list[Message] = [
            {"key": key, "value": value} for key, value in zip(keys, self._values(batch), strict=True)
        ]
        if self.partition is not None:
            for message, number in zip(messages, _numbers(_column(batch, self.partition)), strict=True):
                message["partition"] = number
        if self.headers is not None:
            for message, headers in zip(messages, _headers(_column(batch, self.headers)), strict=True):
                if headers is not None:
                    message["headers"] = headers
        return {self.topic or "": messages} if self.topic_column is None else self._by_topic(batch, messages)

    def rows_to(self, batch: pa.RecordBatch, topic: str) -> Sequence[int]:
        """The indexes of the rows in `batch` that become messages to this topic, ascending."""
        if self.topic_column is None:
            return range(batch.num_rows)
        return [row for row, name in enumerate(_texts(_column(batch, self.topic_column))) if name == topic]

    def largest(self, batch: pa.RecordBatch, row: int) -> str:
        """The name of the value column that has the most bytes in the row with the index `row`."""
        one = batch.slice(row, 1)
        return max(self.values, key=lambda name: len(json_objects(batch_of([_column(one, name)], [name]))[0]))

    def _by_topic(self, batch: pa.RecordBatch, messages: list[Message]) -> dict[str, list[Message]]:
        found: dict[str, list[Message]] = {}
        for topic, message in zip(_texts(_column(batch, self.topic_column or "")), messages, strict=True):
            found.setdefault(topic or "", []).append(message)
        return found

    def _values(self, batch: pa.RecordBatch) -> Sequence[bytes | None]:
        columns = [_column(batch, name) for name in self.values]
        if self.format is MessageFormat.RAW:
            return as_bytes(columns[0])
        return json_objects(batch_of(columns, self.values))


def are_headers(kind: pa.DataType) -> bool:
    """True if a column of this type is Spark's `array<struct<key:string,value:binary>>`."""
    if not is_list(kind) or not pa.types.is_struct(element_of(kind)):
        return False
    fields = {field.name: kind_of(field.type) for field in fields_in(element_of(kind))}
    return fields == {"key": SparkType.STRING, "value": SparkType.BINARY}


def _texts(column: Column) -> list[str | None]:
    return column.to_pylist()


def _numbers(column: Column) -> list[int]:
    return [-1 if number is None else number for number in cast("list[int | None]", column.to_pylist())]


def _headers(column: Column) -> list[list[tuple[str, bytes | None]] | None]:
    """Spark's array of (key, value) structs."""
    rows = cast("list[list[dict[str, Any]] | None]", column.to_pylist())
    return [None if row is None else [(each["key"], each["value"]) for each in row] for row in rows]


def _refused_numbers(column: Column, name: str) -> Iterator[RowRefused]:
    outside = _compute.or_(_compute.less(column, -1), _compute.greater(column.cast(pa.int64()), _LAST_PARTITION))
    for row in rows_where(outside):
        yield RowRefused(
            row=row,
            column=name,
            expected=f"the number of a partition in {name!r}, or a null",
            found=str(column[row].as_py()),
            next_step="mend the column in select=[...], or leave such rows out with where=",
        )


def _refused_headers(column: Column, name: str) -> Iterator[RowRefused]:
    for leaf in leaves_of(column, name):
        if leaf.path == f"{name}[].key" and leaf.values.null_count:
            rows = leaf.rows()
            for place in rows_where(leaf.values.is_null()):
                yield RowRefused(
                    row=int(rows[place]),
                    column=name,
                    expected=f"a key in every header of {name!r}",
                    found="a null",
                    next_step="leave such headers out with F.filter in select=[...]",
                )


def _column(batch: pa.RecordBatch, name: str) -> Column:
    return columns_of(batch)[batch.schema.names.index(name)]

"""Rows as Kafka messages: the columns of Spark's own Kafka sink as they are, or a JSON object a row."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import repeat
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from tidegate.sinks.arrow import batch_of, columns_of, timestamps_as_text
from tidegate.sinks.json_lines import JSONLinesWriter

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column


class Format(Enum):
    """What a message's value is made of."""

    JSON = "json"
    RAW = "raw"


@dataclass(frozen=True, slots=True)
class Message:
    """One message. A `value` of None is a tombstone, a `partition` of -1 leaves the choice to the partitioner."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int
    headers: list[tuple[str, bytes | None]] | None


@dataclass(frozen=True, slots=True)
class Layout:
    """Which column is what. `topic` fixes the topic; else the column `topic_column` names it, row by row.

    `values`: the columns of the JSON object (none: all but topic, partition and headers), or the one raw column.
    """

    format: Format
    topic: str | None
    topic_column: str | None
    key: str | None
    values: tuple[str, ...]
    partition: str | None
    headers: str | None

    def messages(self, batch: pa.RecordBatch) -> Iterator[Message]:
        """The rows of `batch`, in their order."""
        rows = batch.num_rows
        topics = repeat(self.topic, rows) if self.topic_column is None else _texts(_column(batch, self.topic_column))
        parts = zip(
            topics,
            repeat(None, rows) if self.key is None else as_bytes(_column(batch, self.key)),
            self._values(batch),
            repeat(-1, rows) if self.partition is None else _numbers(_column(batch, self.partition)),
            repeat(None, rows) if self.headers is None else _headers(_column(batch, self.headers)),
            strict=True,
        )
        for topic, key, value, partition, headers in parts:
            yield Message(topic or "", key, value, partition, headers)

    def _values(self, batch: pa.RecordBatch) -> Sequence[bytes | None]:
        if self.format is Format.RAW:
            return as_bytes(_column(batch, self.values[0]))
        lines = io.BytesIO()
        columns = [_column(batch, name) for name in self.values]
        JSONLinesWriter(lines, batch.schema if not columns else _schema(self.values, columns)).write(
            batch_of(columns, self.values)
        )
        return lines.getvalue().split(b"\n")[:-1]


def can_be_bytes(kind: pa.DataType) -> bool:
    """Whether `as_bytes` takes columns of this type."""
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind))


def as_bytes(column: Column) -> list[bytes | None]:
    """Binary as it is; everything else as its text in UTF-8, a timestamp as in JSON."""
    if pa.types.is_timestamp(column.type):
        column = timestamps_as_text(column)
    elif not (_is_binary(column.type) or _is_text(column.type)):
        column = column.cast(pa.string())
    return column.cast(pa.large_binary()).to_pylist()


def _is_binary(kind: pa.DataType) -> bool:
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _texts(column: Column) -> list[str | None]:
    return column.to_pylist()


def _numbers(column: Column) -> list[int]:
    return [-1 if number is None else number for number in cast("list[int | None]", column.to_pylist())]


def _headers(column: Column) -> list[list[tuple[str, bytes | None]] | None]:
    """Spark's array of (key, value) structs."""
    rows = cast("list[list[dict[str, Any]] | None]", column.to_pylist())
    return [None if row is None else [(each["key"], each["value"]) for each in row] for row in rows]


def _column(batch: pa.RecordBatch, name: str) -> Column:
    return columns_of(batch)[batch.schema.names.index(name)]


def _schema(names: Sequence[str], columns: Sequence[Column]) -> pa.Schema:
    return batch_of(columns, names).schema

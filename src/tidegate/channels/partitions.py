"""The partition of a row of a keyed channel: a number from its key alone, the same in every process and release.

Rows that Spark's `groupBy` takes for one group of the key are in one partition. The key is taken as its text
(`tidegate.sinks.value_texts`), so a column that gets a wider type keeps its partitions: 7 is one key as `int`, `bigint`
and `decimal(10,0)`. Binary is taken as it is. 0.0 and -0.0 are one key, and so are all NaN. A null is in partition 0.

The numbers are a format: rows in a channel may have been put there by an older release.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import ChannelKey
from tidegate.sinks.arrow import columns_of, fields_of
from tidegate.sinks.value_table import TABLE, RefusedType, Target, kind_of
from tidegate.sinks.value_texts import as_bytes

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column

MOST_PARTITIONS: Final = 256
_OF_NULL: Final = 0
_compute = cast("Any", pc)


def by_partition(batch: pa.RecordBatch, key: ChannelKey) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each partition that has any, in the order of `batch`, with its number."""
    numbers = partitions_of(columns_of(batch)[batch.schema.names.index(key.column)], key.partitions)
    order = _compute.sort_indices(numbers)  # a stable sort
    ordered = cast("Any", batch).take(order)
    begin = 0
    for counted in _compute.value_counts(numbers.take(order)):
        count = counted["counts"].as_py()
        yield counted["values"].as_py(), ordered.slice(begin, count)
        begin += count


def partitions_of(column: Column, partitions: int) -> Column:
    """The partition of each value. Each distinct value is hashed once."""
    encoded = cast("Any", _without_negative_zero(column)).dictionary_encode()
    numbers = pa.array([_hashed(each) % partitions for each in as_bytes(encoded.dictionary)], pa.int32())
    return _compute.fill_null(numbers.take(encoded.indices), _OF_NULL)


def refused_key(key: ChannelKey, schema: pa.Schema, where: str) -> Iterator[TidegateError]:
    """The violation of a key that the rows do not have, or whose type has no text."""
    if key.column not in schema.names:
        yield TidegateError(
            Code.KEY_COLUMN,
            expected=f"the column {key.column!r}, which is the key of the channel",
            found=f"columns {', '.join(schema.names)}",
            where=where,
            next_step="name a column of the rows with key=",
        )
        return
    kind = fields_of(schema)[schema.names.index(key.column)].type
    cell = TABLE[kind_of(kind)][Target.BYTES]
    if isinstance(cell, RefusedType):
        yield TidegateError(
            Code.SCHEMA_MISMATCH,
            expected="a key of a plain type: a number, a string, binary, a boolean, a date or a time",
            found=f"{key.column!r} is {kind}",
            where=where,
            next_step=f"add a column for the key: {cell.instead}",
        )


def _without_negative_zero(column: Column) -> Column:
    return _compute.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column


def _hashed(value: bytes | None) -> int:
    return int.from_bytes(hashlib.sha256(value or b"").digest()[:8], "big")

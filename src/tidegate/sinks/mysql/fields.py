"""Rows as MySQL reads them: as the tuples of an INSERT, or as the lines of a file for LOAD DATA.

Each value is a text that the server converts by the type of its column, exactly: numbers with all digits, times with
microseconds, binary as hexadecimal digits. Fields and rows are joined in Arrow; only decimals near zero, binary and
nested values pass through Python.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import binaries
from tidegate.sinks.arrow import columns_of
from tidegate.sinks.json_lines import json_text, json_values
from tidegate.sinks.mysql.types import is_nested
from tidegate.sinks.row_values import is_text
from tidegate.sinks.value_texts import texts_of

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column

_compute = cast("Any", pc)
_BYTES = pa.large_binary()


@dataclass(frozen=True, slots=True)
class RowLayout:
    """How fields stand in a row. `escapes`: what must not stand in a text as it is."""

    before_row: bytes
    between: bytes
    after_row: bytes
    null: bytes
    quote: bytes
    before_hex: bytes
    escapes: tuple[tuple[bytes, bytes], ...]


TUPLES = RowLayout(b"(", b",", b"),", b"NULL", b"'", b"x'", ((b"\\", b"\\\\"), (b"'", b"\\'")))
"""Of an INSERT. The last comma is cut off."""
LINES = RowLayout(b"", b"\t", b"\n", b"\\N", b"", b"", ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n")))
"""Of a file for LOAD DATA with its default separators. Binary columns are read into variables and go through UNHEX."""


@dataclass(frozen=True, slots=True)
class RowTexts:
    """Rows in a layout, one after the other. `ends`: where each of them begins, and where the last one ends."""

    data: memoryview
    ends: Any

    @property
    def sizes(self) -> list[int]:
        """The bytes of each row."""
        ends: list[int] = self.ends.tolist()
        return [behind - first for first, behind in pairwise(ends)]

    def parts(self, at_most: int) -> Iterator[tuple[int, int]]:
        """The rows in parts of so many bytes; at least one row each: first row, and the row behind the last."""
        ends: list[int] = self.ends.tolist()
        first, count = 0, len(ends) - 1
        while first < count:
            behind = bisect_right(ends, ends[first] + at_most) - 1
            behind = max(behind, first + 1)
            yield first, behind
            first = behind

    def bytes_of(self, first: int, behind: int) -> bytes:
        return bytes(self.data[int(self.ends[first]) : int(self.ends[behind])])


def row_texts(batch: pa.RecordBatch, beside: Sequence[Column], layout: RowLayout) -> RowTexts:
    """The rows of a batch with columns `beside` behind them: booleans and integers without nulls."""
    fields = [_field(column, layout) for column in (*columns_of(batch), *beside)]
    between = pa.scalar(layout.between, _BYTES)
    joined = _compute.binary_join_element_wise(*fields, between)
    ends = [pa.scalar(each, _BYTES) for each in (layout.before_row, layout.after_row, b"")]
    rows = _compute.binary_join_element_wise(ends[0], joined, ends[1], ends[2])
    offsets = np.frombuffer(rows.buffers()[1], np.int64)[rows.offset : rows.offset + len(rows) + 1]
    return RowTexts(memoryview(rows.buffers()[2] or b""), offsets)


def _field(column: Column, layout: RowLayout) -> Column:
    is_binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
    texts = _hex(column) if is_binary else _texts(column).cast(_BYTES)
    if is_text(column.type) or is_nested(column.type):
        for found, instead in layout.escapes:
            texts = _compute.replace_substring(texts, found, instead)
    before, after = (layout.before_hex, layout.quote) if is_binary else (layout.quote, layout.quote)
    if before or after:
        empty = pa.scalar(b"", _BYTES)
        texts = _compute.binary_join_element_wise(pa.scalar(before, _BYTES), texts, pa.scalar(after, _BYTES), empty)
    return texts.fill_null(pa.scalar(layout.null, _BYTES)) if texts.null_count else texts


def _texts(column: Column) -> Any:
    """The values as texts that the server reads exactly; nulls stay."""
    kind, values = column.type, cast("Any", column)
    if pa.types.is_boolean(kind):
        return values.cast(pa.int8()).cast(pa.string())
    if pa.types.is_float32(kind):
        return values.cast(pa.float64()).cast(pa.string())  # all digits: the server parses a double, and rounds it
    if pa.types.is_timestamp(kind):
        return values.view(pa.timestamp(kind.unit)).cast(pa.timestamp("us")).cast(pa.string())
    if is_nested(kind):
        found = [None if value is None else json_text(value).encode() for value in json_values(column)]
        return binaries(found)
    return texts_of(column)


def _hex(column: Column) -> Any:
    values: list[bytes | None] = cast("Any", column).to_pylist()
    return binaries([None if value is None else value.hex().encode() for value in values]).cast(_BYTES)

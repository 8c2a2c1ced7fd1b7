"""Rows in the binary format of COPY (postgresql.org/docs/current/sql-copy.html, "Binary Format").

Each field is its length in four bytes and its content; a null has the length -1 and no content. No value passes through
Python, except those of numeric, uuid and JSON. Most of the time goes into joining parts of rows, so there are few: all
parts of a fixed width that stand side by side are one record of numpy, and Arrow joins only what lies between them.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from psycopg.types.numeric import DecimalBinaryDumper

from tidegate.sinks.arrow import columns_of
from tidegate.sinks.json_lines import json_text, json_values
from tidegate.sinks.nested import bounds_of, elements_of
from tidegate.sinks.postgres.table import TableColumn
from tidegate.sinks.postgres.types import goes_as_json, is_plain_array

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column

    Numbers = np.ndarray[Any, Any]

HEADER = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
"""The signature, no flags, no extension."""
TRAILER = b"\xff\xff"

_compute = cast("Any", pc)
_BYTES = pa.large_binary()


@dataclass(frozen=True, slots=True)
class _Fixed:
    """A part of a fixed width in every row. `kind`: numpy's name of it. `values`: one a row, or one for all of them."""

    kind: str
    values: Numbers | int


_Part: TypeAlias = "_Fixed | Column"
"""A column is of binary values without nulls."""


def rows_of(batch: pa.RecordBatch, columns: Sequence[TableColumn], extra: Sequence[Column] = ()) -> bytes | memoryview:
    """The rows of `batch`, whose columns go into `columns` of the table. `extra`: columns behind them, without nulls:
    booleans and 64-bit integers.
    """
    fields = [_field(values, column) for values, column in zip(columns_of(batch), columns, strict=True)]
    fields += [_ENCODERS["bool" if pa.types.is_boolean(values.type) else "int8"](values) for values in extra]
    count = _Fixed(">i2", len(fields))
    return _content(_joined([count, *(part for field in fields for part in field)], batch.num_rows))


def _field(values: Column, column: TableColumn) -> list[_Part]:
    """The parts of a field, in each row."""
    if is_plain_array(values.type) and column.element:
        return _arrays(values, column)
    if goes_as_json(values.type):
        texts = [None if value is None else json_text(value).encode() for value in json_values(values)]
        return _ENCODERS["jsonb" if column.type == "jsonb" else "bytea"](_binaries(texts))
    return _ENCODERS["text" if column.is_enum else column.type](values)


# --- parts of rows -------------------------------------------------------------------------------------------


def _joined(parts: Iterable[_Part], rows: int) -> Column:
    """All parts of each row, one behind the other, as binary values without nulls."""
    columns = list(_side_by_side(parts, rows))
    return columns[0] if len(columns) == 1 else _compute.binary_join_element_wise(*columns, _scalar(b""))


def _side_by_side(parts: Iterable[_Part], rows: int) -> Iterator[Column]:
    for is_fixed, group in groupby(parts, lambda part: isinstance(part, _Fixed)):
        if is_fixed:
            yield _records([part for part in group if isinstance(part, _Fixed)], rows)
        else:
            yield from (part for part in group if not isinstance(part, _Fixed))


def _records(parts: Sequence[_Fixed], rows: int) -> Column:
    content: Any = np.empty(rows, [(str(number), part.kind) for number, part in enumerate(parts)])
    for number, part in enumerate(parts):
        content[str(number)] = part.values
    ends = np.arange(rows + 1, dtype=np.int64) * content.dtype.itemsize
    return _of_buffers(ends, content.view(np.uint8))


def _binaries(values: Sequence[bytes | None]) -> Column:
    contents = [value or b"" for value in values]
    there = np.packbits(np.fromiter((value is not None for value in values), bool, len(values)), bitorder="little")
    return _of_buffers(np.cumsum([0, *map(len, contents)], dtype=np.int64), b"".join(contents), there)


def _of_buffers(ends: Any, content: Any, there: Any = None) -> Column:
    """Binary values that end at `ends`, which begins with 0. `there`: a bit a value, if some are null."""
    whole: Any = pa.Array
    valid = None if there is None else pa.py_buffer(there)
    return whole.from_buffers(_BYTES, len(ends) - 1, [valid, pa.py_buffer(ends), pa.py_buffer(content)])


def _scalar(content: bytes) -> Any:
    return _binaries([content])[0]


def _content(joined: Any) -> bytes | memoryview:
    """The bytes of all values of a binary column, one after the other."""
    if not len(joined):
        return b""
    offsets = _offsets(joined)
    return memoryview(joined.buffers()[2])[int(offsets[0]) : int(offsets[-1])]


def _offsets(joined: Any) -> Numbers:
    return np.frombuffer(joined.buffers()[1], np.int64)[joined.offset : joined.offset + len(joined) + 1]


# --- fields of a fixed width -------------------------------------------------------------------------------


def _fixed(kind: str, convert: Callable[[Column], Numbers]) -> Callable[[Column], list[_Part]]:
    """Fields of one big-endian number each."""
    length = _Fixed(">i4", np.dtype(kind).itemsize)

    def encode(column: Column) -> list[_Part]:
        parts: list[_Part] = [length, _Fixed(kind, convert(column))]
        return [_with_nulls(_joined(parts, len(column)), column)] if column.null_count else parts

    return encode


def _with_nulls(fields: Column, column: Column) -> Column:
    return _compute.if_else(column.is_valid(), fields, _scalar(b"\xff\xff\xff\xff"))


def _numbers(column: Column) -> Numbers:
    return _filled(column, 0).to_numpy(zero_copy_only=False)


def _booleans(column: Column) -> Numbers:
    return _filled(column, False).to_numpy(zero_copy_only=False)


def _filled(column: Column, instead: object) -> Any:
    return cast("Any", column).fill_null(instead) if column.null_count else column


def _whole(column: Column, kind: pa.DataType) -> Numbers:
    """Times and days, as the numbers that Arrow has for them. (numpy's own times have no room for each of them.)"""
    return _numbers(cast("Any", column).view(kind))


EPOCH_DAYS = 10_957
"""From 1970-01-01 to 2000-01-01, where PostgreSQL counts from."""
EPOCH_MICROSECONDS = EPOCH_DAYS * 86_400_000_000


def _microseconds(column: Column) -> Numbers:
    # Rows are refused where this has no room.
    return _whole(cast("Any", column).view(pa.timestamp("us")), pa.int64()) - EPOCH_MICROSECONDS


# --- fields of any length ----------------------------------------------------------------------------------


def _varying(column: Column) -> list[_Part]:
    content = cast("Any", column).cast(_BYTES)
    lengths = _compute.binary_length(content)
    if column.null_count:
        content, lengths = content.fill_null(_scalar(b"")), lengths.fill_null(-1)
    return [_Fixed(">i4", lengths.to_numpy()), content]


def _texts(column: Column) -> list[_Part]:
    return _varying(_bytes_of(column))


def _bytes_of(column: Column) -> Column:
    return cast("Any", column).cast(pa.binary() if pa.types.is_string(column.type) else _BYTES)


def _jsonb(column: Column) -> list[_Part]:
    content = cast("Any", column).cast(_BYTES)
    version = _scalar(b"\x01")  # of the format
    return _varying(_compute.binary_join_element_wise(version, content, _scalar(b"")))


def _numerics(column: Column) -> list[_Part]:
    values: list[Any] = cast("Any", column).to_pylist()
    dump = DecimalBinaryDumper(Decimal).dump
    return _varying(_binaries([None if each is None else bytes(dump(Decimal(each)) or b"") for each in values]))


def _uuids(column: Column) -> list[_Part]:
    values: list[str | None] = cast("Any", column).to_pylist()
    return _varying(_binaries([None if each is None else uuid.UUID(each).bytes for each in values]))


def _arrays(column: Column, of: TableColumn) -> list[_Part]:
    """Arrays of one dimension, which begin at 1. An empty one has no dimension."""
    inner = elements_of(column)
    elements = _joined(_ENCODERS[of.element](inner), len(inner))
    bounds = bounds_of(column).astype(np.int64)
    counts = np.diff(bounds)
    ends = (_offsets(elements) - _offsets(elements)[0])[bounds] if len(elements) else np.zeros(len(bounds), np.int64)
    content = _of_buffers(ends, _content(elements))
    head = [_Fixed(">i4", each) for each in (20 + np.diff(ends), 1, 0, of.element_oid, counts, 1)]
    empty = np.array([12, 0, 0, of.element_oid], ">i4").tobytes()
    whole = _compute.if_else(counts > 0, _joined([*head, content], len(column)), _scalar(empty))
    return [_with_nulls(whole, column) if column.null_count else whole]


_ENCODERS: dict[str, Callable[[Column], list[_Part]]] = {
    "bool": _fixed(">i1", _booleans),
    "int2": _fixed(">i2", _numbers),
    "int4": _fixed(">i4", _numbers),
    "int8": _fixed(">i8", _numbers),
    "float4": _fixed(">f4", _numbers),
    "float8": _fixed(">f8", _numbers),
    "date": _fixed(">i4", lambda column: _whole(column, pa.int32()) - EPOCH_DAYS),
    "timestamp": _fixed(">i8", _microseconds),
    "timestamptz": _fixed(">i8", _microseconds),
    "time": _fixed(">i8", lambda column: _whole(column, pa.int64()) // 1000),
    "numeric": _numerics,
    "bytea": _varying,
    "uuid": _uuids,
    "jsonb": _jsonb,
    **dict.fromkeys(("text", "varchar", "citext", "json"), _texts),
}
"""By the name of the type in `pg_type`."""

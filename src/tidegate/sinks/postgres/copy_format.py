"""Rows in the binary format of COPY (postgresql.org/docs/current/sql-copy.html, "Binary Format").

Each field is its length in four bytes and its content; a null has the length -1 and no content. Fields, and then rows,
are joined in Arrow: no value passes through Python, except those of numeric, uuid and JSON.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

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
_NULL = pa.scalar(b"\xff\xff\xff\xff", _BYTES)


def rows_of(batch: pa.RecordBatch, columns: Sequence[TableColumn], extra: Sequence[Column] = ()) -> bytes:
    """The rows of `batch`, whose columns go into `columns` of the table. `extra`: columns behind them, without nulls:
    booleans and 64-bit integers.
    """
    fields = [field_of(values, column) for values, column in zip(columns_of(batch), columns, strict=True)]
    fields += [_ENCODERS["bool" if pa.types.is_boolean(values.type) else "int8"](values) for values in extra]
    count = pa.scalar(np.array([len(fields)], ">i2").tobytes(), _BYTES)
    return _content(_joined(count, *fields))


def field_of(values: Column, column: TableColumn) -> Column:
    """The fields of a column of Arrow, as binary values."""
    if is_plain_array(values.type) and column.element:
        return _arrays(values, column)
    if goes_as_json(values.type):
        texts = [None if value is None else json_text(value) for value in json_values(values)]
        return _ENCODERS["jsonb" if column.type == "jsonb" else "text"](pa.array(texts, pa.large_string()))
    return _ENCODERS["text" if column.is_enum else column.type](values)


def _joined(*parts: Any) -> Column:
    return _compute.binary_join_element_wise(*parts, pa.scalar(b"", _BYTES))


def _content(joined: Any) -> bytes:
    """The bytes of all values of a binary column, one after the other."""
    if not len(joined):
        return b""
    offsets = _offsets(joined)
    return memoryview(joined.buffers()[2])[int(offsets[0]) : int(offsets[-1])].tobytes()


def _offsets(joined: Any) -> Numbers:
    return np.frombuffer(joined.buffers()[1], np.int64)[joined.offset : joined.offset + len(joined) + 1]


# --- fields of a fixed width -------------------------------------------------------------------------------


def _fixed(kind: str, convert: Callable[[Column], Numbers]) -> Callable[[Column], Column]:
    """Fields of one big-endian number each."""

    def encode(column: Column) -> Column:
        content = np.empty(len(column), [("length", ">i4"), ("value", kind)])
        content["length"] = np.dtype(kind).itemsize
        content["value"] = convert(column)
        return _with_nulls(_of_records(content), column)

    return encode


def _of_records(records: Numbers) -> Column:
    """An array of numpy's records, as binary values."""
    kind = cast("Any", pa.binary)(records.dtype.itemsize)
    return _of_buffers(kind, len(records), [None, records.tobytes()]).cast(_BYTES)


def _of_buffers(kind: pa.DataType, length: int, buffers: Sequence[Any]) -> Any:
    whole: Any = pa.Array
    return whole.from_buffers(kind, length, [each if each is None else pa.py_buffer(each) for each in buffers])


def _with_nulls(fields: Column, column: Column) -> Column:
    return _compute.if_else(column.is_valid(), fields, _NULL) if column.null_count else fields


def _numbers(column: Column) -> Numbers:
    return cast("Any", column).fill_null(0).to_numpy(zero_copy_only=False)


def _booleans(column: Column) -> Numbers:
    return cast("Any", column).fill_null(False).to_numpy(zero_copy_only=False)


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


def _varying(column: Column, before: bytes = b"") -> Column:
    content = cast("Any", column).cast(_BYTES)
    lengths = _numbers(_compute.binary_length(content)).astype(np.int64) + len(before)
    sizes = np.empty(len(column), [("length", ">i4")])
    sizes["length"] = lengths
    filled = content.fill_null(b"") if column.null_count else content
    return _with_nulls(_joined(_of_records(sizes), pa.scalar(before, _BYTES), filled), column)


def _bytes_of(column: Column) -> Column:
    return cast("Any", column).cast(pa.binary() if pa.types.is_string(column.type) else _BYTES)


def _jsonb(column: Column) -> Column:
    return _varying(_bytes_of(column), b"\x01")  # the version of the format


def _numerics(column: Column) -> Column:
    values: list[Any] = cast("Any", column).to_pylist()
    dump = DecimalBinaryDumper(Decimal).dump
    return _varying(pa.array([None if each is None else bytes(dump(Decimal(each)) or b"") for each in values], _BYTES))


def _uuids(column: Column) -> Column:
    values: list[str | None] = cast("Any", column).to_pylist()
    return _varying(pa.array([None if each is None else uuid.UUID(each).bytes for each in values], _BYTES))


def _arrays(column: Column, of: TableColumn) -> Column:
    """Arrays of one dimension, which begin at 1. An empty one has no dimension."""
    elements = _ENCODERS[of.element](elements_of(column))
    bounds = bounds_of(column).astype(np.int64)
    counts = np.diff(bounds)
    ends = (_offsets(elements) - _offsets(elements)[0])[bounds] if len(elements) else np.zeros(len(bounds), np.int64)
    content = _of_buffers(_BYTES, len(column), [None, ends.tobytes(), _content(elements)])
    head = np.empty(
        len(column), [(name, ">i4") for name in ("length", "dimensions", "flags", "type", "count", "first")]
    )
    head["length"], head["dimensions"], head["flags"], head["type"] = 20 + np.diff(ends), 1, 0, of.element_oid
    head["count"], head["first"] = counts, 1
    empty = np.array([12, 0, 0, of.element_oid], ">i4").tobytes()
    whole = _compute.if_else(pa.array(counts > 0), _joined(_of_records(head), content), pa.scalar(empty, _BYTES))
    return _with_nulls(whole, column)


_ENCODERS: dict[str, Callable[[Column], Column]] = {
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
    **dict.fromkeys(("text", "varchar", "citext", "json"), lambda column: _varying(_bytes_of(column))),
}
"""By the name of the type in `pg_type`."""

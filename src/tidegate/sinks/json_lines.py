"""Rows as JSON lines, as Spark's own writer gives them where that loses nothing.

Nulls are left out (not in arrays and maps), binary is base64, dates and timestamps ISO 8601, NaN and infinities are
texts. Different from Spark: timestamps keep their microseconds and are in UTC, decimals are exact numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime, timezone
from typing import IO, TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from tidegate.sinks.arrow import all_finite, columns_of, fields_in, timestamps_as_text
from tidegate.sinks.rows import StraightWriter

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column

_Convert = Callable[[Any], Any]


class JSONLinesWriter(StraightWriter):
    """One line a row."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file = file
        self._names: list[str] = schema.names
        self._encoder = msgspec.json.Encoder(decimal_format="number")

    def write(self, batch: pa.RecordBatch) -> None:
        columns = columns_of(batch)
        rows = zip(*(_values(column) for column in columns), strict=True)
        as_object = self._without_nulls if any(column.null_count for column in columns) else self._whole
        self._file.write(self._encoder.encode_lines([as_object(row) for row in rows]))

    def _whole(self, row: tuple[Any, ...]) -> dict[str, Any]:
        return dict(zip(self._names, row, strict=True))

    def _without_nulls(self, row: tuple[Any, ...]) -> dict[str, Any]:
        return {name: value for name, value in zip(self._names, row, strict=True) if value is not None}


def _values(column: Column) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        return timestamps_as_text(column).to_pylist()
    if pa.types.is_floating(column.type) and all_finite(column):
        return column.to_pylist()
    convert = _conversion(column.type)
    values: list[Any] = column.to_pylist()
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _conversion(kind: pa.DataType) -> _Convert | None:
    """What a Python value of this type needs before it can be encoded; None when nothing."""
    if pa.types.is_floating(kind):
        return _number
    if pa.types.is_timestamp(kind):
        return _timestamp
    if pa.types.is_struct(kind):
        return _struct({field.name: _conversion(field.type) for field in fields_in(kind)})
    if pa.types.is_map(kind):
        return _map(_conversion(kind.item_type))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list(_conversion(kind.value_type))
    return None


def _number(value: float) -> float | str:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _timestamp(value: datetime) -> str:
    if value.tzinfo is None:
        return value.isoformat(timespec="microseconds")
    return value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _struct(fields: dict[str, _Convert | None]) -> _Convert:
    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return {name: _apply(fields[name], part) for name, part in value.items() if part is not None}

    return convert


def _map(item: _Convert | None) -> _Convert:
    def convert(value: list[tuple[Any, Any]]) -> dict[Any, Any]:
        return {key: _apply(item, part) for key, part in value}

    return convert


def _list(item: _Convert | None) -> _Convert | None:
    if item is None:
        return None
    return lambda value: [_apply(item, part) for part in value]


def _apply(convert: _Convert | None, value: Any) -> Any:
    return value if convert is None or value is None else convert(value)

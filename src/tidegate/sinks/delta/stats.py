"""Statistics of a data file, as the log has them: readers leave out files by them, and count rows.

They are those of the Parquet file's own footer, for the columns whose least and greatest value both formats write
exactly: whole numbers, dates, timestamps, short texts. Source: "Per-file Statistics" of delta-io/delta, PROTOCOL.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pyarrow as pa

from tidegate.sinks.arrow import fields_of
from tidegate.sinks.value_table import SparkType, kind_of

if TYPE_CHECKING:
    import pyarrow.parquet as pq

COLUMNS_AT_MOST = 32
"""As other writers do by default (delta.dataSkippingNumIndexedCols)."""

_TEXT_AT_MOST = 64


def stats_of(footer: pq.FileMetaData, schema: pa.Schema) -> str:
    """The statistics as JSON."""
    columns = {field.name: field.type for field in list(fields_of(schema))[:COLUMNS_AT_MOST]}
    places = [number for number in range(footer.num_columns) if footer.schema.column(number).path in columns]
    found: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for place in places:
        name = footer.schema.column(place).path
        chunks: list[Any] = [footer.row_group(number).column(place) for number in range(footer.num_row_groups)]
        _add(found, name, columns[name], [(chunk.num_values, chunk.statistics) for chunk in chunks])
    return msgspec.json.encode({"numRecords": footer.num_rows, **found}).decode()


def _add(found: dict[str, dict[str, Any]], name: str, kind: pa.DataType, groups: list[tuple[int, Any]]) -> None:
    """The statistics of one column. A group of rows without them leaves all of them out."""
    if pa.types.is_nested(kind) or not all(each is not None and each.has_null_count for _, each in groups):
        return
    found["nullCount"][name] = sum(each.null_count for _, each in groups)
    valued = [each for values, each in groups if values > each.null_count]
    text = _TEXTS.get(kind_of(kind))
    if text is None or not valued or not all(each.has_min_max for each in valued):
        return
    least = text(min(each.min_raw for each in valued))
    greatest = text(max(each.max_raw for each in valued))
    if least is not None and greatest is not None:
        found["minValues"][name], found["maxValues"][name] = least, greatest


def _moment(microseconds: int) -> str | None:
    try:
        return (datetime(1970, 1, 1) + timedelta(microseconds=microseconds)).isoformat(timespec="microseconds")  # noqa: DTZ001
    except OverflowError:  # a year that Python does not have
        return None


def _utc(microseconds: int) -> str | None:
    moment = _moment(microseconds)
    return None if moment is None else f"{moment}Z"


def _day(days: int) -> str | None:
    try:
        return (date(1970, 1, 1) + timedelta(days=days)).isoformat()
    except OverflowError:
        return None


def _text(value: str | bytes) -> str | None:
    text = value if isinstance(value, str) else value.decode()
    return text if len(text) <= _TEXT_AT_MOST else None


_TEXTS: Mapping[SparkType, Callable[[Any], object]] = {
    SparkType.INTEGER: lambda number: cast("int", number),
    SparkType.DATE: _day,
    SparkType.TIMESTAMP: _utc,
    SparkType.TIMESTAMP_NTZ: _moment,
    SparkType.STRING: _text,
}

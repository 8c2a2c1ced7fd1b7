"""The closed table of file formats: how rows become bytes, and which types a format has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import IO

import pyarrow as pa

from tidegate.sinks.arrow import fields_in
from tidegate.sinks.csv_rows import CSVRows, CSVRowsWithHeader, refused_in_csv
from tidegate.sinks.json_lines import JSONLinesWriter
from tidegate.sinks.parquet import ParquetRows
from tidegate.sinks.rows import RowRefused, RowWriter
from tidegate.sinks.text_lines import TextLines, refused_as_lines

_Fits = Callable[[pa.DataType], bool]


def _none(batch: pa.RecordBatch) -> Iterable[RowRefused]:
    return ()


@dataclass(frozen=True, slots=True)
class Format:
    """One format.

    `name` is what the user says, `suffix` that of the final names; `has` tells whether the format holds values of a
    type, nested ones included, as Spark reads them back, and `types` says it in words. `refuses` finds the rows whose
    values, though of such types, a reader would not give back.
    """

    name: str
    suffix: str
    writer: Callable[[IO[bytes], pa.Schema], RowWriter]
    has: _Fits
    types: str
    columns_at_most: int | None = None
    refuses: Callable[[pa.RecordBatch], Iterable[RowRefused]] = _none


def _any(kind: pa.DataType) -> bool:
    return True


def _as_json_name(kind: pa.DataType) -> bool:
    return _is_text(kind) or pa.types.is_integer(kind)


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _is_plain(kind: pa.DataType) -> bool:
    return any(fits(kind) for fits in _PLAIN)


_PLAIN: tuple[_Fits, ...] = (
    lambda kind: pa.types.is_integer(kind) and not pa.types.is_uint64(kind),
    pa.types.is_boolean,
    pa.types.is_floating,
    _is_text,
    pa.types.is_decimal,
    pa.types.is_date,
    pa.types.is_timestamp,
)


def _is_nested(kind: pa.DataType, map_keys: _Fits) -> bool:
    """Plain values, binary, and structs, maps and lists of these."""
    has = partial(_is_nested, map_keys=map_keys)
    if pa.types.is_struct(kind):
        return kind.num_fields > 0 and all(has(field.type) for field in fields_in(kind))
    if pa.types.is_map(kind):
        return map_keys(kind.key_type) and has(kind.key_type) and has(kind.item_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return has(kind.value_type)
    return pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or _is_plain(kind)


_ALL = (
    Format(
        name="parquet",
        suffix=".parquet",
        writer=ParquetRows,
        has=partial(_is_nested, map_keys=_any),
        types="what Spark reads from Parquet",
    ),
    Format(
        name="json",
        suffix=".json",
        writer=JSONLinesWriter,
        has=partial(_is_nested, map_keys=_as_json_name),
        types="what Spark reads from JSON; a map's keys are its names, so texts or integers",
    ),
    Format(
        name="csv",
        suffix=".csv",
        writer=CSVRows,
        has=_is_plain,
        types="single values: a CSV field can hold no array, map or struct, and no bytes",
        refuses=refused_in_csv,
    ),
    Format(
        name="text",
        suffix=".txt",
        writer=TextLines,
        has=_is_text,
        types="string: a line of text has no other",
        columns_at_most=1,
        refuses=refused_as_lines,
    ),
)

FORMATS = {format.name: format for format in _ALL}

CSV_WITH_HEADER = replace(FORMATS["csv"], writer=CSVRowsWithHeader)

"""Rows of one text column as the lines of a file, UTF-8, each ended by a line feed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.sinks.arrow import columns_of
from tidegate.sinks.row_values import refused_nulls, rows_where
from tidegate.sinks.rows import RowRefused, StraightWriter

_compute = cast("Any", pc)


class TextLines(StraightWriter):
    """Writes one line for each row."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        self._file.write("".join(f"{line}\n" for line in columns_of(batch)[0].to_pylist()).encode())


def refused_as_lines(batch: pa.RecordBatch) -> Iterator[RowRefused]:
    """Refuses values that a reader would not return as one equal row: a null (read as an empty text), a line break
    (line feed or carriage return), a byte order mark at the start (readers drop it).
    """
    name = batch.schema.names[0]
    yield from refused_nulls(batch, [name], "column")
    for row in rows_where(_compute.match_substring_regex(columns_of(batch)[0], "[\n\r]|^\ufeff")):
        yield RowRefused(
            row=row,
            column=name,
            expected=f"values of column {name!r} that are one line each",
            found="a line break, or a byte order mark at its start",
            next_step="take them out with F.regexp_replace in select=[...], or write json",
        )

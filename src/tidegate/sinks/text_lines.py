"""Rows of one text column as the lines of a file, UTF-8, each ended by a line feed."""

from __future__ import annotations

from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.sinks.arrow import columns_of
from tidegate.sinks.rows import RowRefused, StraightWriter

_compute = cast("Any", pc)


class TextLines(StraightWriter):
    """One line a row. What a reader would not give back as the same one row is refused: a line break (line feed or
    carriage return), a null (it would come back as an empty text), a byte order mark at the start (readers drop it).
    """

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file = file
        self._name: str = schema.names[0]

    def write(self, batch: pa.RecordBatch) -> None:
        column = columns_of(batch)[0]
        if column.null_count:
            raise self._refused("a null", "leave such rows out with where=, or give them a value with F.coalesce")
        if _compute.any(_compute.match_substring_regex(column, "[\n\r]|^\ufeff")).as_py():
            raise self._refused(
                "a line break, or a byte order mark at its start",
                "take them out with F.regexp_replace in select=[...], or write json",
            )
        self._file.write("".join(f"{line}\n" for line in column.to_pylist()).encode())

    def _refused(self, found: str, next_step: str) -> RowRefused:
        return RowRefused(
            expected=f"values of column {self._name!r} that are one line each", found=found, next_step=next_step
        )

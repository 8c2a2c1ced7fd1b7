"""Rows as CSV (RFC 4180), UTF-8, one line feed after each row.

A text is written in quotes; quotes in the text are doubled, line breaks in the text stay unchanged. For a null nothing
is written between the two commas, for an empty text `""`. Timestamps, times of day, dates outside of the years 0 to
9999, NaN and infinities are the texts of `tidegate.sinks.value_texts`.

Spark reads every row back with these options: `escape` = `"` (doubled quotes), `multiLine` = true and `lineSep` = line
feed (a text may have line breaks; a carriage return does not end a row), `nullValue` = a text that no row has, for
example "\\0" (otherwise Spark reads an empty text as null, too).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv

from tidegate.sinks.arrow import batch_of, columns_of
from tidegate.sinks.row_values import refused_nulls
from tidegate.sinks.rows import RowRefused, StraightWriter
from tidegate.sinks.value_texts import all_finite, is_in_range, texts_of

if TYPE_CHECKING:
    from tidegate.sinks.arrow import Column


class CSVRows(StraightWriter):
    """Writes one line for each row, without a header line."""

    _names_are_due = False

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        rows = batch_of([_plain(column) for column in columns_of(batch)], batch.schema.names)
        options = pyarrow.csv.WriteOptions(include_header=self._names_are_due, quoting_style="needed")
        pyarrow.csv.write_csv(rows, self._file, options)
        self._names_are_due = False


class CSVRowsWithHeader(CSVRows):
    """The first line of each file holds the names of the columns."""

    _names_are_due = True


def refused_in_csv(batch: pa.RecordBatch) -> Iterator[RowRefused]:
    """Refuses a null in the only column: its line would be empty, and readers ignore an empty line."""
    return refused_nulls(batch, batch.schema.names if batch.num_columns == 1 else (), "the only column")


def _plain(column: Column) -> Column:
    """The column in the form that Arrow's writer needs."""
    kind = column.type
    as_text = (
        pa.types.is_timestamp(kind)
        or pa.types.is_time(kind)
        or (pa.types.is_floating(kind) and not all_finite(column))
        or (pa.types.is_date(kind) and not is_in_range(column))
    )
    return texts_of(column) if as_text else column

"""Rows as CSV (RFC 4180), UTF-8, one line feed a row.

Texts stand in quotes, a quote in them is doubled, line breaks stay as they are. A null is nothing between two commas,
an empty text is `""`. Timestamps are texts, as `tidegate.sinks.value_texts` says, and so are times of day, dates
outside of the years 0 to 9999, and NaN and infinities.

Spark reads every row back with these options: `escape` = `"` (a quote is doubled), `multiLine` = true and `lineSep` =
line feed (a text may have line breaks, a carriage return is none), `nullValue` = a text that no row has, for instance
"\\0" (else Spark takes an empty text for a null, too).
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
    """One line a row, no line with the names."""

    _names_are_due = False

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        rows = batch_of([_plain(column) for column in columns_of(batch)], batch.schema.names)
        options = pyarrow.csv.WriteOptions(include_header=self._names_are_due, quoting_style="needed")
        pyarrow.csv.write_csv(rows, self._file, options)
        self._names_are_due = False


class CSVRowsWithHeader(CSVRows):
    """The first line of each file has the names of the columns."""

    _names_are_due = True


def refused_in_csv(batch: pa.RecordBatch) -> Iterator[RowRefused]:
    """A null in the only column: the line would be empty, and readers take an empty line for none."""
    return refused_nulls(batch, batch.schema.names if batch.num_columns == 1 else (), "the only column")


def _plain(column: Column) -> Column:
    """The column as Arrow's writer puts it down."""
    kind = column.type
    as_text = (
        pa.types.is_timestamp(kind)
        or pa.types.is_time(kind)
        or (pa.types.is_floating(kind) and not all_finite(column))
        or (pa.types.is_date(kind) and not is_in_range(column))
    )
    return texts_of(column) if as_text else column

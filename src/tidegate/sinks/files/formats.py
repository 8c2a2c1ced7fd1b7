"""The table of file formats. Each converts rows into the bytes of a file. A user cannot add a format."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import IO

import pyarrow as pa

from tidegate.sinks.files.csv_rows import CSVRows, CSVRowsWithHeader, refused_in_csv
from tidegate.sinks.files.parquet import ParquetRows
from tidegate.sinks.files.text_lines import TextLines, refused_as_lines
from tidegate.sinks.json_lines import JSONLinesWriter
from tidegate.sinks.rows import RowRefused, RowWriter
from tidegate.sinks.value_table import Target


def _none(batch: pa.RecordBatch) -> Iterable[RowRefused]:
    return ()


@dataclass(frozen=True, slots=True)
class FormatOfFiles:
    """One format.

    `name`: the user's name for it. `suffix`: the end of file names. `target`: its column in the table of types.
    `refuses` finds rows of allowed types whose values a reader would not return unchanged.
    """

    name: str
    suffix: str
    writer: Callable[[IO[bytes], pa.Schema], RowWriter]
    target: Target
    columns_at_most: int | None = None
    refuses: Callable[[pa.RecordBatch], Iterable[RowRefused]] = _none


_ALL = (
    FormatOfFiles(
        name="parquet",
        suffix=".parquet",
        writer=ParquetRows,
        target=Target.PARQUET,
    ),
    FormatOfFiles(
        name="json",
        suffix=".json",
        writer=JSONLinesWriter,
        target=Target.JSON,
    ),
    FormatOfFiles(
        name="csv",
        suffix=".csv",
        writer=CSVRows,
        target=Target.CSV,
        refuses=refused_in_csv,
    ),
    FormatOfFiles(
        name="text",
        suffix=".txt",
        writer=TextLines,
        target=Target.TEXT,
        columns_at_most=1,
        refuses=refused_as_lines,
    ),
)

FORMATS = {format.name: format for format in _ALL}

CSV_WITH_HEADER = replace(FORMATS["csv"], writer=CSVRowsWithHeader)

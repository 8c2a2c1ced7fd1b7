"""The Parquet files of the sinks: what gets a dictionary, and a file without rows."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.sinks.files.parquet import ParquetRows

NESTED = pa.struct([("tags", pa.list_(pa.string())), ("counts", pa.map_(pa.string(), pa.int64()))])


def test_only_columns_whose_values_repeat_have_a_dictionary() -> None:
    """A dictionary of values that differ costs more CPU than the rest of the file."""
    rows = pa.record_batch(
        {
            "id": pa.array(range(1_000)),
            "a.b": [f"order {number}" for number in range(1_000)],
            "country": ["NL", None, "DE", "NL"] * 250,
            "nested": pa.array([{"tags": ["a", "b"], "counts": {"a": 1}}] * 1_000, NESTED),
        }
    )
    file = io.BytesIO()
    writer = ParquetRows(file, rows.schema)
    writer.write(rows)
    writer.close()
    group = pq.read_metadata(file).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    assert [column.path_in_schema for column in columns if not column.has_dictionary_page] == ["id", "a.b"]
    assert pq.read_table(file).to_batches() == [rows]


ROWS = 140_000
LONG = {
    "unique": (range(ROWS), False),
    "shuffled": ((number * 48_271 % 140_009 for number in range(ROWS)), False),
    "a half as many, in turns": ((number % (ROWS // 2) for number in range(ROWS)), False),
    "an eighth as many, in turns": ((number % (ROWS // 8) for number in range(ROWS)), True),
    "in runs of two": ((number // 2 for number in range(ROWS)), False),
    "in runs of eight": ((number // 8 for number in range(ROWS)), True),
    "unique, a tenth of it null": ((number if number % 10 else None for number in range(ROWS)), False),
    "unique, a fifth of it zero": ((number if number % 5 else 0 for number in range(ROWS)), False),
    "two": ((number % 2 for number in range(ROWS)), True),
    "nulls": ((None for _ in range(ROWS)), True),
}


@pytest.mark.parametrize("name", LONG)
def test_a_long_column_is_judged_by_samples(name: str) -> None:
    values, repeats = LONG[name]
    rows = pa.record_batch({"x": pa.array(values, pa.int64())})
    file = io.BytesIO()
    writer = ParquetRows(file, rows.schema)
    writer.write(rows)
    writer.close()
    assert pq.read_metadata(file).row_group(0).column(0).has_dictionary_page == repeats


def test_a_file_without_rows_is_a_file() -> None:
    file = io.BytesIO()
    writer = ParquetRows(file, pa.schema({"id": pa.int64()}))
    writer.close()
    assert pq.read_table(file).to_pydict() == {"id": []}

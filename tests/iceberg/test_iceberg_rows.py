"""The Iceberg sink and rows: each type, partition and file, as readers find them."""

from __future__ import annotations

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table
from pyiceberg.types import (
    StringType,
)

from tests.support.iceberg import ID, catalog_in, found, ids_of, opened, rows_of, sink_in, table_with
from tests.support.lake_rows import every_type
from tests.support.staged import committed, outcome, plan, staged
from tidegate.core.records import Outcome
from tidegate.sinks.rows import RowRefused
from tidegate.testing.contract import SCHEMA, attempt_of, rows_from


def test_each_type_is_created_accepted_again_and_read_back(tmp_path: Path) -> None:
    schema, rows = every_type()
    sink = sink_in(tmp_path)
    assert found(sink, schema) == []
    sink.open(plan(schema))
    assert found(sink, schema) == []
    assert outcome(sink, staged(sink, rows=pa.RecordBatch.from_pylist(rows, schema=schema))) is Outcome.COMMITTED
    table = opened(tmp_path)
    wanted = {row["i8"]: {**row, "m": row["m"] or []} for row in rows}  # the library reads a null map as an empty one
    assert {row["i8"]: row for row in rows_of(table)} == wanted
    assert table.scan("dec < 0").to_arrow().num_rows == 1
    assert table.scan(f"i64 > {2**62}").to_arrow().num_rows == 1
    assert table.scan("short > 0").to_arrow().num_rows == 0


def test_another_reader_than_the_library_reads_each_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """polars takes the list of files from the library, and reads them itself."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    schema, rows = every_type()
    sink = sink_in(tmp_path, partition_by=["s", "days(ts)"])
    assert outcome(sink, staged(sink, rows=pa.RecordBatch.from_pylist(rows, schema=schema))) is Outcome.COMMITTED
    frame = opened(tmp_path).to_polars().collect(engine="in-memory")
    by_key = {row["i8"]: row for row in frame.to_dicts()}
    assert by_key[None] == rows[1]
    assert by_key[-128] == {**rows[0], "m": dict(rows[0]["m"])}


def test_files_have_the_types_and_ids_that_the_format_demands(tmp_path: Path) -> None:
    schema, rows = every_type()
    sink = sink_in(tmp_path)
    assert outcome(sink, staged(sink, rows=pa.RecordBatch.from_pylist(rows, schema=schema))) is Outcome.COMMITTED
    (file,) = (tmp_path / "warehouse" / "lake" / "numbers" / "data").glob("*.parquet")
    footer = pq.ParquetFile(file)
    columns = {footer.schema.column(place).path: footer.schema.column(place) for place in range(len(footer.schema))}
    physical = [columns[name].physical_type for name in ("i8", "short", "middle", "dec")]
    assert physical == ["INT32", "INT32", "INT64", "FIXED_LEN_BYTE_ARRAY"]
    assert json.loads(columns["ts"].logical_type.to_json())["isAdjustedToUTC"] is True
    assert json.loads(columns["ntz"].logical_type.to_json())["isAdjustedToUTC"] is False
    assert pq.read_table(file).column("m").to_pylist()[1] is None
    ids = {field.name: int((field.metadata or {})[b"PARQUET:field_id"]) for field in footer.schema_arrow}
    assert ids == {field.name: field.field_id for field in opened(tmp_path).schema().fields}


# --- rows ------------------------------------------------------------------------------------------------------


def test_a_null_for_a_required_column_is_refused_in_its_task(tmp_path: Path) -> None:
    table_with(tmp_path, ID, ("word", StringType(), True))
    sink = sink_in(tmp_path)
    sink.open(plan())
    batch = pa.RecordBatch.from_pylist([{"id": 1, "word": "w"}, {"id": 2, "word": None}], schema=SCHEMA)
    assert [each.row for each in sink.refused(batch)] == [1]
    with pytest.raises(RowRefused, match="required"):
        sink.begin(attempt_of()).write(batch)
    committed(sink, 0)


def test_partitions_have_their_values_whatever_they_are(tmp_path: Path) -> None:
    words = ["plain", "with space", "a/b=c%d", "é✓#?", None, "null", "percent%2F", "", "x" * 500, "x" * 501, "."]
    batch = pa.RecordBatch.from_pylist([{"id": n, "word": word} for n, word in enumerate(words)], schema=SCHEMA)
    sink = sink_in(tmp_path, partition_by="word")
    assert outcome(sink, staged(sink, rows=batch)) is Outcome.COMMITTED
    table = opened(tmp_path)
    assert {row["id"]: row["word"] for row in rows_of(table)} == dict(enumerate(words))
    assert table.scan("word == 'a/b=c%d'").to_arrow().column("id").to_pylist() == [2]
    assert table.scan("word is null").to_arrow().column("id").to_pylist() == [4]
    assert len(list(table.scan("word == 'null'").plan_files())) == 1


def test_each_transform_makes_the_partitions_that_the_library_makes(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("word", pa.string()),
            ("day", pa.date32()),
            ("ts", pa.timestamp("us", tz="UTC")),
            ("ntz", pa.timestamp("us")),
            ("n", pa.decimal128(9, 2)),
            ("by", pa.binary()),
        ]
    )
    start = datetime(1969, 12, 30, 22, 30, tzinfo=timezone.utc)
    rows: list[dict[str, Any]] = [
        {
            "id": number,
            "word": f"wörd {number % 3}",
            "day": date(1969, 12, 30) + timedelta(days=number),
            "ts": start + timedelta(hours=17 * number),
            "ntz": (start + timedelta(days=40 * number)).replace(tzinfo=None),
            "n": Decimal(number - 3) / 4,
            "by": bytes([number % 2, 7]),
        }
        for number in range(8)
    ]
    rows.append({**dict.fromkeys(schema.names), "id": 8})
    parts = ["truncate(3, word)", "day", "hours(ts)", "months(ntz)", "n", "bucket(4, id)", "by"]
    sink = sink_in(tmp_path, partition_by=parts)
    assert found(sink, schema) == []
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    assert outcome(sink, staged(sink, rows=batch)) is Outcome.COMMITTED
    table = opened(tmp_path)
    assert sorted(rows_of(table), key=lambda row: row["id"]) == rows
    mine = partitions(table)
    twin = catalog_in(tmp_path).create_table("lake.twin", table.schema(), partition_spec=table.spec())
    twin.append(table.scan().to_arrow())
    assert mine == partitions(twin)
    for row in rows[:8]:
        assert table.scan(f"ts == '{row['ts'].isoformat()}'").to_arrow().num_rows == 1
        assert table.scan(f"day == '{row['day']}'").to_arrow().column("id").to_pylist() == [row["id"]]


def partitions(table: Table) -> list[tuple[str, int]]:
    files = [task.file for task in table.scan().plan_files()]
    return sorted((repr([each.partition[place] for place in range(7)]), each.record_count) for each in files)


def test_readers_leave_out_files_by_their_statistics(tmp_path: Path) -> None:
    sink = sink_in(tmp_path)
    committed(sink, 0, 1, 2)
    table = opened(tmp_path)
    assert table.scan("id >= 20000").count() == 2
    assert len(list(table.scan("id >= 20000").plan_files())) == 1
    files = [task.file for task in table.scan().plan_files()]
    assert {(each.record_count, each.null_value_counts[1], len(each.column_sizes)) for each in files} == {(2, 0, 2)}


def test_large_rows_go_into_several_files(tmp_path: Path) -> None:
    sink = sink_in(tmp_path, target_file_bytes=1)
    assert outcome(sink, staged(sink, rows=rows_from(0, 2500))) is Outcome.COMMITTED
    assert len(list(opened(tmp_path).scan().plan_files())) == 3
    assert ids_of(tmp_path) == list(range(2500))


def test_moments_that_python_does_not_have_cost_bounds_or_are_refused(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("day", pa.date32()), ("ts", pa.timestamp("us", tz="UTC"))])
    days, moments = pa.array([-719_529, 0], pa.int32()), pa.array([-(2**62), 0], pa.int64())
    ids = pa.array([1, 2], pa.int64())
    columns: Any = [ids, days.cast(pa.date32()), moments.cast(pa.timestamp("us", tz="UTC"))]
    batch = cast("Any", pa.RecordBatch).from_arrays(columns, schema=schema)
    sink = sink_in(tmp_path)
    assert outcome(sink, staged(sink, rows=batch)) is Outcome.COMMITTED
    read = opened(tmp_path).scan().to_arrow()
    assert read.column("day").cast(pa.int32()).to_pylist() == [-719_529, 0]
    assert read.column("ts").cast(pa.int64()).to_pylist() == [-(2**62), 0]
    for part in ("day", "hours(ts)"):
        parted = sink_in(tmp_path / part, partition_by=part)
        (tmp_path / part).mkdir()
        parted.open(plan(schema))
        assert [each.row for each in parted.refused(batch)] == [0]
        assert outcome(parted, staged(parted, rows=batch.slice(1))) is Outcome.COMMITTED

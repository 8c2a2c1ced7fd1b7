"""DataFusion reads the tables of the sink by the Rust implementation of Iceberg, which parses metadata, manifests and
files itself. Of the library it only gets the path of the newest metadata file."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from datafusion import SessionContext

from tests.iceberg.test_iceberg_rows import every_type
from tests.support.iceberg import opened, other_writer, sink_in
from tests.support.staged import committed, ids_from, outcome, staged
from tidegate.core.records import Outcome
from tidegate.sinks.iceberg.sink import IcebergSink
from tidegate.testing.contract import IDENTITY, SCHEMA


def rust(folder: Path, query: str = "SELECT * FROM numbers") -> list[dict[str, Any]]:
    """The answer of the Rust implementation about the table as it is now."""
    context = SessionContext()
    context.register_table("numbers", opened(folder))
    return context.sql(query).to_arrow_table().to_pylist()


def ids(folder: Path, condition: str = "true") -> list[int]:
    return sorted(row["id"] for row in rust(folder, f"SELECT id FROM numbers WHERE {condition}"))


def epoch(sink: IcebergSink, number: int, rows: list[dict[str, Any]], schema: pa.Schema, tasks: int = 1) -> None:
    """One commit with the rows of several tasks."""
    shares = [pa.RecordBatch.from_pylist(rows[task::tasks], schema=schema) for task in range(tasks)]
    committables = [staged(sink, number, rows=share, task=task) for task, share in enumerate(shares)]
    assert outcome(sink, *committables) is Outcome.COMMITTED
    sink.clean(IDENTITY, number)


@pytest.mark.parametrize("partition_by", [(), ["s", "days(ts)"]], ids=["whole", "parts"])
def test_another_implementation_reads_each_type(tmp_path: Path, partition_by: list[str]) -> None:
    schema, rows = every_type()
    epoch(sink_in(tmp_path, partition_by=partition_by), 0, rows, schema)
    assert {row["i8"]: row for row in rust(tmp_path)} == {row["i8"]: row for row in rows}


def test_another_implementation_finds_each_row_of_many_epochs_by_its_partition(tmp_path: Path) -> None:
    """Every kind of partition, three epochs of two tasks, and nulls. Conditions leave out manifests and files."""
    moment, number, amount = pa.timestamp("us", tz="UTC"), pa.int64(), pa.decimal128(9, 2)
    schema = pa.schema([("id", number), ("word", pa.string()), ("day", pa.date32()), ("ts", moment), ("n", amount)])
    start = datetime(1969, 12, 30, 22, 30, tzinfo=timezone.utc)
    rows: list[dict[str, Any]] = [
        {
            "id": each,
            "word": f"wörd/{each % 4}={each}",
            "day": date(1969, 12, 30) + timedelta(days=each % 5),
            "ts": start + timedelta(hours=17 * each),
            "n": Decimal(each - 3) / 4,
        }
        for each in range(11)
    ]
    rows.append({**dict.fromkeys(schema.names), "id": 11})
    sink = sink_in(tmp_path, partition_by=["truncate(6, word)", "day", "months(ts)", "bucket(4, id)"])
    for place in range(3):
        epoch(sink, place, rows[place * 4 : place * 4 + 4], schema, tasks=2)
    assert sorted(rust(tmp_path), key=lambda row: row["id"]) == rows
    for row in rows[:11]:
        assert ids(tmp_path, f"day = date '{row['day']}'") == [each["id"] for each in rows if each["day"] == row["day"]]
        assert ids(tmp_path, f"word = '{row['word']}' AND ts <= timestamp '{row['ts'].isoformat()}'") == [row["id"]]
    assert ids(tmp_path, "word IS NULL") == ids(tmp_path, "day IS NULL") == [11]
    assert ids(tmp_path, "id >= 4 AND n < 1") == [4, 5, 6]


def test_another_implementation_reads_a_table_that_was_widened_and_whose_snapshots_expired(tmp_path: Path) -> None:
    """With epochs from before and after the change, and a file of another writer between them. The new column is
    no list: the Rust implementation does not fill in nested columns that older files lack."""
    committed(sink_in(tmp_path), 0, 1)
    other_writer(tmp_path, [7])
    wide = pa.schema([*SCHEMA, pa.field("more", pa.date32())])
    epoch(sink_in(tmp_path, schema="evolve"), 2, [{"id": 8, "word": "w", "more": date(2026, 1, 2)}], wide)
    table = opened(tmp_path)
    newest = table.metadata.current_snapshot_id
    older = [each.snapshot_id for each in table.snapshots() if each.snapshot_id != newest]
    table.maintenance.expire_snapshots().by_ids(older).commit()
    assert len(opened(tmp_path).snapshots()) == 1
    assert ids(tmp_path) == sorted([7, 8, *ids_from(0, 1)])
    assert {row["id"]: row["more"] for row in rust(tmp_path) if row["more"]} == {8: date(2026, 1, 2)}

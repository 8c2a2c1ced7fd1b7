"""The Iceberg sink and tables: created, compared with the rows, evolved, partitioned, read; and what is refused."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.types import (
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
)

from tests.support.iceberg import ID, WORD, found, ids_of, opened, properties_in, rows_of, sink_in, table_with
from tests.support.staged import committed, ids_from, outcome, plan, staged
from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import Outcome
from tidegate.operate.sinks import describe, open_sink
from tidegate.sinks.iceberg.sink import IcebergSink
from tidegate.testing.contract import IDENTITY, SCHEMA, rows_from

WIDE = pa.schema([*SCHEMA, pa.field("more", pa.list_(pa.int32()))])


# --- tables that are created -----------------------------------------------------------------------------------


def test_a_missing_table_is_created_as_the_program_says(tmp_path: Path) -> None:
    properties = {"write.metadata.delete-after-commit.enabled": "true", "owner": "shop"}
    place = f"file://{tmp_path}/elsewhere"
    sink = sink_in(tmp_path, partition_by="word", properties=properties, location=place)
    assert found(sink) == []
    with pytest.raises(NoSuchTableError):
        opened(tmp_path)
    sink.open(plan())
    made = opened(tmp_path)
    assert made.properties == properties
    assert made.location() == place
    assert [field.name for field in made.spec().fields] == ["word"]
    assert [(field.name, field.required) for field in made.schema().fields] == [("id", False), ("word", False)]
    assert found(sink) == []
    committed(sink, 0)
    assert ids_of(tmp_path) == ids_from(0)
    assert len(list((tmp_path / "elsewhere" / "data").rglob("*.parquet"))) == 2


# --- tables that exist -----------------------------------------------------------------------------------------


def test_a_table_may_have_more_columns_in_another_order(tmp_path: Path) -> None:
    table_with(tmp_path, WORD, ("extra", DateType(), False), ID)
    sink = sink_in(tmp_path)
    assert found(sink) == []
    committed(sink, 0)
    assert [row["extra"] for row in rows_of(opened(tmp_path))] == [None, None]
    assert ids_of(tmp_path) == ids_from(0)


def test_a_wider_column_holds_the_values(tmp_path: Path) -> None:
    table_with(tmp_path, ID, ("x", DoubleType(), False), ("n", DecimalType(20, 2), False), ("k", LongType(), False))
    schema = pa.schema([("id", pa.int32()), ("x", pa.float32()), ("n", pa.decimal128(9, 2)), ("k", pa.int8())])
    row = {"id": 1, "x": 0.5, "n": Decimal("1.25"), "k": -3}
    sink = sink_in(tmp_path)
    assert found(sink, schema) == []
    assert outcome(sink, staged(sink, rows=pa.RecordBatch.from_pylist([row], schema=schema))) is Outcome.COMMITTED
    assert rows_of(opened(tmp_path)) == [row]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        pytest.param([ID], "it lacks ['word']", id="a column is missing"),
        pytest.param([ID, ("Word", StringType(), False)], "'word'", id="another case"),
        pytest.param([("id", IntegerType(), False), WORD], "int, which would change the values", id="a narrower type"),
        pytest.param([ID, WORD, ("x", LongType(), True)], "not in the rows: ['x']", id="a value missing"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(
    tmp_path: Path, fields: list[tuple[str, IcebergType, bool]], told: str
) -> None:
    table_with(tmp_path, *fields)
    assert ("TG-SCHEMA-MISMATCH", told) in found(sink_in(tmp_path))


def test_nested_types_are_compared_at_any_depth(tmp_path: Path) -> None:
    table = pa.schema([("s", pa.struct([("a", pa.list_(pa.int32())), ("b", pa.map_(pa.string(), pa.int64()))]))])
    rows = pa.schema([("s", pa.struct([("a", pa.list_(pa.int64())), ("c", pa.string())]))])
    sink_in(tmp_path).open(plan(table))
    violations = sink_in(tmp_path).check(plan(rows))
    assert sorted(each.expected.split(" of type")[0] for each in violations) == [
        "column 's.a[]'",
        "column 's.b'",
        "column 's.c'",
    ]


def test_other_partitions_are_refused(tmp_path: Path) -> None:
    sink_in(tmp_path, partition_by=["word", "bucket(4, id)"]).open(plan())
    expected = "one that is partitioned by ['word', 'bucket(4, id)']"
    assert found(sink_in(tmp_path)) == [("TG-SCHEMA-MISMATCH", expected)]
    assert found(sink_in(tmp_path, partition_by=["word", "bucket( 4,id )"])) == []


@pytest.mark.parametrize(
    ("properties", "told"), [({"format-version": "1"}, "version 1"), ({"encryption.key-id": "k"}, "encryption.key-id")]
)
def test_a_table_with_a_rule_that_the_sink_would_break_is_refused(
    tmp_path: Path, properties: dict[str, str], told: str
) -> None:
    table_with(tmp_path, ID, WORD, properties=properties)
    (violation,) = found(sink_in(tmp_path))
    assert violation[0] == "TG-SINK-UNUSABLE"
    assert told in violation[1]


def test_rows_that_no_table_takes_are_refused(tmp_path: Path) -> None:
    sink = sink_in(tmp_path, partition_by=["x", "days(word)", "nothing", "bucket(id)"])
    schema = pa.schema([("x", pa.float64()), ("word", pa.string()), ("t", pa.time64("us")), ("T", pa.int64())])
    violations = found(sink, schema, mode="complete", local_master=False)
    assert [code for code, _ in violations] == [
        "TG-OUTPUT-MODE",
        *["TG-SCHEMA-MISMATCH"] * 6,
        "TG-SINK-LOCAL-ONLY",
    ]
    assert {"'x' is double", "'word' is string", "'nothing'", "'bucket(id)'"} <= {told for _, told in violations}
    (tmp_path / "file").write_text("")
    assert found(sink_in(tmp_path, location=f"{tmp_path}/file/t"))[0][0] == "TG-SINK-UNUSABLE"
    assert found(sink_in(tmp_path, location="hdfs://h:1/t"))[0] == ("TG-SINK-UNUSABLE", "one on `hdfs:`")
    assert found(sink_in(tmp_path, location="gs://bucket/t"))[0][0] == "TG-SETTING-VALUE"
    with pytest.raises(TidegateError, match="schema"):
        sink_in(tmp_path, schema="merge")
    with pytest.raises(TidegateError, match="namespace"):
        IcebergSink("numbers", "orders")
    with pytest.raises(TidegateError, match="TG-OPTION-UNKNOWN") as raised:
        sink_in(tmp_path, key="id")
    assert "PostgresSink" in raised.value.next_step


# --- columns and partitions that change ------------------------------------------------------------------------


def test_new_columns_are_added_where_the_program_says_so(tmp_path: Path) -> None:
    committed(sink_in(tmp_path), 0)
    assert found(sink_in(tmp_path), WIDE) == [("TG-SCHEMA-MISMATCH", "it lacks ['more']")]
    sink = sink_in(tmp_path, schema="evolve")
    assert found(sink, WIDE) == []
    narrow = staged(sink_in(tmp_path), 1)
    batch = pa.RecordBatch.from_pylist([{"id": 7, "word": "w", "more": [1, None]}], schema=WIDE)
    wide = staged(sink, 2, rows=batch)
    assert outcome(sink, narrow) is Outcome.COMMITTED, "an epoch from before the change"
    assert outcome(sink, wide) is Outcome.COMMITTED
    assert [row["more"] for row in rows_of(opened(tmp_path)) if row["more"]] == [[1, None]]
    assert ids_of(tmp_path) == sorted([7, *ids_from(0, 1)])


def test_an_epoch_from_before_a_change_of_the_table_is_committed(tmp_path: Path) -> None:
    """Its files have the ids of the columns, and the partitions of their own spec."""
    sink = sink_in(tmp_path, partition_by="word")
    committed(sink, 0)
    committable = staged(sink, 1)
    table = opened(tmp_path)
    table.update_schema().rename_column("word", "term").commit()
    table.update_spec().remove_field("word").add_field("id", "bucket[4]", "id_bucket").commit()
    assert outcome(sink, committable) is Outcome.COMMITTED
    assert sorted((row["id"], row["term"]) for row in rows_of(opened(tmp_path))) == [
        (number, f"word {number}") for number in ids_from(0, 1)
    ]
    assert opened(tmp_path).scan("term == 'word 10001'").to_arrow().column("id").to_pylist() == [10_001]
    after = sink_in(tmp_path, partition_by="bucket(4, id)")
    renamed = rows_from(20, 2).rename_columns(["id", "term"])
    assert found(after, renamed.schema) == []
    assert outcome(after, staged(after, 2, rows=renamed)) is Outcome.COMMITTED
    assert ids_of(tmp_path) == ids_from(0, 1, 2)


# --- without the program ---------------------------------------------------------------------------------------


def test_commands_open_the_sink_by_its_description(tmp_path: Path) -> None:
    sink = sink_in(tmp_path)
    described = describe("q", sink, Level.EXACTLY_ONCE)
    assert described.told == "Iceberg table lake.numbers in catalog 'tests'"
    again = open_sink(described, {})
    assert isinstance(again, IcebergSink)
    (finding,) = again.probe("sink", plan())
    assert "does not exist yet" in finding.detail
    assert again.pending(IDENTITY) == ()
    committed(sink, 3)
    (finding,) = again.probe("sink", plan())
    assert "1 snapshots" in finding.detail
    position = again.position(IDENTITY)
    assert position is not None
    assert position.epoch == 3
    again.clean(IDENTITY, 3)
    assert [path for path in tmp_path.rglob("*.staged") if path.is_file()] == []


def test_no_secret_is_described_recorded_or_shown(tmp_path: Path) -> None:
    secret = "hunter2-and-more"
    properties = {
        **properties_in(tmp_path),
        "s3.secret-access-key": secret,
        "token": secret,
        "uri": f"postgresql+nodriver://me:{secret}@nowhere/db",
    }
    sink = sink_in(tmp_path, catalog_properties=properties)
    described = describe("q", sink, Level.EXACTLY_ONCE)
    assert secret not in msgspec.json.encode(described).decode()
    assert described.target["left_out"] == ["s3.secret-access-key", "token", "uri"]
    with pytest.raises(TidegateError) as raised:
        sink.position(IDENTITY)
    assert secret not in str(raised.value)
    other = sink_in(tmp_path, catalog_properties={**properties_in(tmp_path), "token": secret})
    committable = staged(other)
    assert secret not in msgspec.json.encode(committable).decode()
    assert outcome(other, committable) is Outcome.COMMITTED
    assert secret not in opened(tmp_path).metadata.model_dump_json()

"""The Delta sink and tables: created, compared with the rows, evolved, partitioned, kept short; and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, Field, Schema
from deltalake.schema import PrimitiveType

from tests.support.delta import ids_of, opened, rows_of
from tests.support.lake_rows import every_type
from tests.support.staged import committed, ids_from, outcome, plan, staged
from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import Outcome
from tidegate.operate.sinks import describe, open_sink
from tidegate.sinks.delta.features import EXPIRES
from tidegate.sinks.delta.sink import DeltaSink
from tidegate.sinks.rows import RowRefused
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from

WIDE = pa.schema([*SCHEMA, pa.field("more", pa.list_(pa.int32()))])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


def found(sink: DeltaSink, schema: pa.Schema = SCHEMA, **options: Any) -> list[tuple[str, str]]:
    return [(each.code, each.found) for each in sink.check(plan(schema, **options))]


def table_with(path: Path, *fields: Field, **options: Any) -> DeltaTable:
    return DeltaTable.create(str(path), Schema(list(fields)), **options)


ID, WORD = Field("id", PrimitiveType("long")), Field("word", PrimitiveType("string"))


# --- tables that are created -----------------------------------------------------------------------------------


def test_a_missing_table_is_created_as_the_program_says(path: Path) -> None:
    properties = {"delta.appendOnly": "true", "delta.logRetentionDuration": "interval 60 days"}
    sink = DeltaSink("numbers", path, partition_by="word", properties=properties)
    assert found(sink) == []
    sink.open(plan())
    made = opened(path)
    assert made.metadata().configuration == properties
    assert made.metadata().partition_columns == ["word"]
    assert [(field.name, field.nullable) for field in made.schema().fields] == [("id", True), ("word", True)]
    assert found(sink) == []


def test_each_type_is_created_accepted_again_and_read_back_also_by_polars(path: Path) -> None:
    schema, rows = every_type("ls")
    sink = DeltaSink("numbers", path)
    assert found(sink, schema) == []
    sink.open(plan(schema))
    assert found(sink, schema) == []
    assert outcome(sink, staged(sink, rows=pa.RecordBatch.from_pylist(rows, schema=schema))) is Outcome.COMMITTED
    assert {each["i8"]: each for each in rows_of(path)} == {each["i8"]: each for each in rows}
    by_polars = {each["i8"]: each for each in pl.read_delta(str(path)).to_dicts()}
    row, nulls = rows
    assert by_polars == {-128: {**row, "m": dict(row["m"])}, None: nulls}


# --- tables that exist -----------------------------------------------------------------------------------------


def test_a_table_may_have_more_columns_in_another_order(path: Path) -> None:
    table_with(path, WORD, Field("extra", PrimitiveType("date")), ID)
    sink = DeltaSink("numbers", path)
    assert found(sink) == []
    committed(sink, 0)
    assert [row["extra"] for row in rows_of(path)] == [None, None]
    assert ids_of(path) == ids_from(0)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        pytest.param([ID], "it lacks ['word']", id="a column is missing"),
        pytest.param([ID, Field("Word", PrimitiveType("string"))], "'word'", id="another case"),
        pytest.param(
            [Field("id", PrimitiveType("integer")), WORD], "integer, which would change the values", id="another type"
        ),
        pytest.param(
            [ID, WORD, Field("x", PrimitiveType("long"), nullable=False)],
            "not in the rows: ['x']",
            id="a value missing",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused(path: Path, fields: list[Field], told: str) -> None:
    table_with(path, *fields)
    violations = found(DeltaSink("numbers", path))
    assert ("TG-SCHEMA-MISMATCH", told) in violations


def test_nested_types_are_compared_at_any_depth(path: Path) -> None:
    table = pa.schema([("s", pa.struct([("a", pa.list_(pa.int32())), ("b", pa.map_(pa.string(), pa.int64()))]))])
    rows = pa.schema([("s", pa.struct([("a", pa.list_(pa.int64())), ("c", pa.string())]))])
    DeltaSink("numbers", path).open(plan(table))
    violations = DeltaSink("numbers", path).check(plan(rows))
    assert sorted(each.expected.split(" of type")[0] for each in violations) == [
        "column 's.a[]'",
        "column 's.b'",
        "column 's.c'",
    ]


def test_other_partitions_are_refused(path: Path) -> None:
    table_with(path, ID, WORD, partition_by=["word"])
    assert found(DeltaSink("numbers", path)) == [("TG-SCHEMA-MISMATCH", "one that is partitioned by ['word']")]
    assert found(DeltaSink("numbers", path, partition_by="word")) == []


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({EXPIRES: "interval 7 days"}, "delta.setTransactionRetentionDuration="),
        ({"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2", "delta.minWriterVersion": "5"}, "mode"),
    ],
)
def test_a_table_with_a_property_that_the_sink_would_break_is_refused(
    path: Path, properties: dict[str, str], told: str
) -> None:
    table_with(path, ID, WORD, configuration=properties, raise_if_key_not_exists=False)
    (violation,) = found(DeltaSink("numbers", path))
    assert violation[0] == "TG-SINK-UNUSABLE"
    assert told in violation[1]


def test_a_table_is_not_made_with_a_property_by_which_its_evidence_expires(path: Path) -> None:
    sink = DeltaSink("numbers", path, properties={EXPIRES: "interval 1 day"})
    assert found(sink) == [("TG-SINK-UNUSABLE", f"{EXPIRES}='interval 1 day'")]
    assert not path.exists()


@pytest.mark.parametrize("key", [(), "id"], ids=["appended", "by key"])
def test_a_table_whose_evidence_begins_to_expire_meanwhile_holds_the_epoch_up(path: Path, key: str) -> None:
    sink = DeltaSink("numbers", path, key=key)
    committed(sink, 0)
    waiting = staged(sink, 1)
    opened(path).alter.set_table_properties({EXPIRES: "interval 7 days"}, raise_if_not_exists=False)
    (answer,) = sink.commit([waiting])
    assert (answer.outcome, f"{EXPIRES}='interval 7 days'" in answer.detail) == (Outcome.RETRY, True)
    assert ids_of(path) == ids_from(0)


def test_a_table_with_a_constraint_is_refused(path: Path) -> None:
    table_with(path, ID, WORD).alter.add_constraint({"positive": "id > 0"})
    assert found(DeltaSink("numbers", path)) == [("TG-SINK-UNUSABLE", "positive: id > 0")]


@pytest.mark.parametrize("feature", ["rowTracking", "identityColumns", "clustering", "ofTheFuture"])
def test_a_table_with_a_feature_that_the_sink_does_not_know_is_refused(path: Path, feature: str) -> None:
    table_with(path, ID, WORD)
    entry = path / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in entry.read_text().splitlines()]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", feature]}
    entry.write_text("\n".join(json.dumps({"protocol": protocol} if "protocol" in each else each) for each in lines))
    (violation,) = found(DeltaSink("numbers", path))
    assert violation == ("TG-SINK-UNUSABLE", feature) or feature in violation[1]


@pytest.mark.parametrize(
    "metadata",
    [
        {"delta.invariants": '{"expression": {"expression": "id > 3"}}'},
        {"delta.generationExpression": "id + 1"},
        {"CURRENT_DEFAULT": "7"},
    ],
)
def test_a_column_with_a_rule_is_refused(path: Path, metadata: dict[str, str]) -> None:
    table_with(path, Field("id", PrimitiveType("long"), metadata=metadata), WORD)
    (violation,) = found(DeltaSink("numbers", path))
    assert violation[0] == "TG-SINK-UNUSABLE"
    assert "'id' is " in violation[1]


def test_rows_that_no_table_takes_are_refused(path: Path, tmp_path: Path) -> None:
    sink = DeltaSink("numbers", path, properties={"delta.setTransactionRetentionDuration": "interval 1 day"})
    schema = pa.schema([("a b", pa.int64()), ("t", pa.time64("us")), ("T", pa.int64())])
    codes = found(sink, schema, mode="complete", local_master=False)
    assert [code for code, _ in codes] == [
        "TG-OUTPUT-MODE",
        "TG-SCHEMA-MISMATCH",
        "TG-SCHEMA-MISMATCH",
        "TG-SCHEMA-MISMATCH",
        "TG-SINK-UNUSABLE",
        "TG-SINK-LOCAL-ONLY",
    ]
    (tmp_path / "file").write_text("")
    assert found(DeltaSink("numbers", tmp_path / "file"))[0][0] == "TG-SINK-UNUSABLE"
    assert found(DeltaSink("numbers", "hdfs://h:1/t"))[0] == ("TG-SINK-UNUSABLE", "one on `hdfs:`")
    with pytest.raises(TidegateError, match="schema"):
        DeltaSink("numbers", path, schema="merge")


# --- columns that are added ------------------------------------------------------------------------------------


def test_new_columns_are_added_where_the_program_says_so(path: Path) -> None:
    committed(DeltaSink("numbers", path), 0)
    assert found(DeltaSink("numbers", path), WIDE) == [("TG-SCHEMA-MISMATCH", "it lacks ['more']")]
    sink = DeltaSink("numbers", path, schema="evolve")
    assert found(sink, WIDE) == []
    narrow = staged(DeltaSink("numbers", path), 1)
    batch = pa.RecordBatch.from_pylist([{"id": 7, "word": "w", "more": [1, None]}], schema=WIDE)
    wide = staged(sink, 2, rows=batch)
    assert outcome(sink, narrow) is Outcome.COMMITTED, "an epoch from before the change"
    assert outcome(sink, wide) is Outcome.COMMITTED
    assert [row["more"] for row in rows_of(path) if row["more"]] == [[1, None]]
    assert ids_of(path) == sorted([7, *ids_from(0, 1)])


def test_a_new_column_of_a_type_that_the_table_cannot_have_is_refused(path: Path) -> None:
    table_with(path, ID, WORD)
    schema = pa.schema([*SCHEMA, pa.field("local", pa.timestamp("us"))])
    assert found(DeltaSink("numbers", path, schema="evolve"), schema) == [("TG-SCHEMA-MISMATCH", "one without it")]


def test_a_column_that_was_dropped_meanwhile_holds_the_epoch_up(path: Path) -> None:
    sink = DeltaSink("numbers", path)
    committable = staged(sink)
    DeltaTable.create(str(path), Schema([ID]), mode="overwrite")
    (answer,) = sink.commit([committable])
    assert (answer.outcome, "lacks ['word']" in answer.detail) == (Outcome.RETRY, True)


# --- rows ------------------------------------------------------------------------------------------------------


def test_a_null_for_a_column_that_is_not_null_is_refused_in_its_task(path: Path) -> None:
    table_with(path, ID, Field("word", PrimitiveType("string"), nullable=False))
    sink = DeltaSink("numbers", path)
    sink.open(plan())
    batch = pa.RecordBatch.from_pylist([{"id": 1, "word": "w"}, {"id": 2, "word": None}], schema=SCHEMA)
    assert [each.row for each in sink.refused(batch)] == [1]
    with pytest.raises(RowRefused, match="NOT NULL"):
        sink.begin(attempt_of()).write(batch)


def test_partitions_have_their_values_whatever_they_are(path: Path) -> None:
    words = ["plain", "with space", "a/b=c%d", "é✓", None, "percent%2F"]
    batch = pa.RecordBatch.from_pylist([{"id": n, "word": word} for n, word in enumerate(words)], schema=SCHEMA)
    sink = DeltaSink("numbers", path, partition_by="word")
    assert outcome(sink, staged(sink, rows=batch)) is Outcome.COMMITTED
    assert {row["id"]: row["word"] for row in rows_of(path)} == dict(enumerate(words))
    assert opened(path).to_pyarrow_table(filters=[("word", "=", "a/b=c%d")]).column("id").to_pylist() == [2]


def test_readers_leave_out_files_by_their_statistics(path: Path) -> None:
    sink = DeltaSink("numbers", path)
    committed(sink, 0, 1, 2)
    actions = pa.table(opened(path).get_add_actions(flatten=True)).to_pylist()
    assert sorted((each["num_records"], each["min.id"], each["max.id"]) for each in actions) == [
        (2, epoch * 10_000, epoch * 10_000 + 1) for epoch in range(3)
    ]
    dataset = opened(path).to_pyarrow_dataset()
    wanted = ds.field("id") >= 20_000
    assert len(list(dataset.get_fragments(wanted))) == 1
    assert dataset.to_table(filter=wanted).num_rows == 2


# --- the log ---------------------------------------------------------------------------------------------------


def test_the_log_gets_checkpoints_behind_done_epochs_and_forgets_what_it_may(path: Path) -> None:
    properties = {"delta.checkpointInterval": "5", "delta.logRetentionDuration": "interval 0 seconds"}
    sink = DeltaSink("numbers", path, properties=properties)
    for epoch in range(12):
        committed(sink, epoch)
        sink.clean(IDENTITY, epoch)
    log = path / "_delta_log"
    assert len(list(log.glob("*.checkpoint*.parquet"))) >= 1
    assert len(list(log.glob("*.json"))) <= 7
    position = sink.position(IDENTITY)
    assert position is not None
    assert position.epoch == 11
    assert ids_of(path) == ids_from(*range(12))


# --- without the program ---------------------------------------------------------------------------------------


def test_commands_open_the_sink_by_its_description(path: Path) -> None:
    sink = DeltaSink("numbers", path)
    described = describe("q", sink, Level.EXACTLY_ONCE)
    assert described.told == f"Delta table {path}"
    again = open_sink(described, {})
    assert isinstance(again, DeltaSink)
    (finding,) = again.probe("sink", plan())
    assert "no table yet" in finding.detail
    committed(sink, 3)
    (finding,) = again.probe("sink", plan())
    assert "version 1" in finding.detail
    position = again.position(IDENTITY)
    assert position is not None
    assert position.epoch == 3


def test_a_damaged_log_is_told(path: Path) -> None:
    sink = DeltaSink("numbers", path)
    committed(sink, 0)
    (path / "_delta_log" / f"{1:020}.json").write_text("{ torn")
    (violation,) = sink.check(plan())
    assert violation.code == "TG-SINK-UNUSABLE"
    with pytest.raises(TidegateError, match="TG-SINK-UNUSABLE"):
        sink.position(IDENTITY)
    assert outcome(sink, staged_elsewhere(sink)) is Outcome.RETRY


def staged_elsewhere(sink: DeltaSink) -> Any:
    transaction = sink.begin(attempt_of(epoch=1))
    transaction.write(rows_from(1, 2))
    return transaction.pre_commit()

"""The Delta sink replaces and deletes rows by key: which rows stay, other writers, small portions, kept promises."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, TableFeatures, write_deltalake
from deltalake.schema import PrimitiveType

from tests.support.delta import opened, rows_of
from tests.support.staged import of_attempt, outcome, plan, staged
from tests.support.today import sampled
from tidegate.core.errors import TidegateError
from tidegate.core.records import Committable, Evidence, Outcome
from tidegate.sinks.delta import keys
from tidegate.sinks.delta.sink import DeltaSink
from tidegate.sinks.rows import RowRefused
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of

MARKED = pa.schema([*SCHEMA, pa.field("gone", pa.bool_())])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def sink(path: Path) -> DeltaSink:
    return DeltaSink("numbers", path, key="id")


def rows(*pairs: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(zip(schema.names, pair, strict=True)) for pair in pairs], schema=schema)


def prepared(
    sink: DeltaSink, epoch: int, *tasks: Sequence[tuple[Any, ...]], schema: pa.Schema = SCHEMA
) -> list[Committable]:
    return [staged(sink, epoch, rows=rows(*each, schema=schema), task=task) for task, each in enumerate(tasks)]


def committed(sink: DeltaSink, epoch: int, *tasks: Sequence[tuple[Any, ...]], schema: pa.Schema = SCHEMA) -> None:
    assert outcome(sink, *prepared(sink, epoch, *tasks, schema=schema)) is Outcome.COMMITTED


def held(path: Path) -> dict[Any, Any]:
    """The words of a table by their keys. Each key is there once."""
    found = [(row["id"], row["word"]) for row in rows_of(path)]
    assert len(found) == len(dict(found)), f"a key is there twice: {sorted(found)}"
    return dict(found)


# --- which rows stay -------------------------------------------------------------------------------------------


def test_a_row_replaces_the_one_with_its_key_and_others_stay(sink: DeltaSink, path: Path) -> None:
    committed(sink, 0, [(1, "a"), (2, "b")], [(3, "c")])
    committed(sink, 1, [(2, "B"), (4, "d")])
    assert held(path) == {1: "a", 2: "B", 3: "c", 4: "d"}
    assert opened(path).version() == 2, "an epoch is one commit"


def test_the_last_row_of_a_key_wins_in_the_order_of_tasks_and_rows(sink: DeltaSink, path: Path) -> None:
    tasks = prepared(sink, 0, [(1, "a"), (2, "b"), (1, "c")], [(2, "d"), (3, "e"), (3, "f")])
    assert outcome(sink, *reversed(tasks)) is Outcome.COMMITTED
    assert held(path) == {1: "c", 2: "d", 3: "f"}


def test_a_marked_row_deletes_its_key_and_a_later_row_brings_it_back(path: Path) -> None:
    sink = DeltaSink("numbers", path, key="id", deleted="gone")
    committed(sink, 0, [(1, "a", False), (2, "b", None), (3, "c", False)], schema=MARKED)
    committed(sink, 1, [(1, None, True), (2, None, True), (9, None, True)], [(2, "B", False)], schema=MARKED)
    assert held(path) == {2: "B", 3: "c"}
    assert opened(path).schema().to_arrow().names == ["id", "word"]
    committed(sink, 2, [(2, None, True), (3, None, True)], schema=MARKED)
    assert held(path) == {}
    assert opened(path).version() == 3


def test_an_epoch_that_deletes_nothing_leaves_its_evidence(path: Path) -> None:
    sink = DeltaSink("numbers", path, key="id", deleted="gone")
    epoch = prepared(sink, 0, [(1, None, True)], schema=MARKED)
    assert outcome(sink, *epoch) is Outcome.COMMITTED
    assert outcome(sink, *epoch) is Outcome.ALREADY
    assert sink.evidence(epoch[0]) is Evidence.PRESENT


def test_a_row_leaves_the_partition_in_which_its_key_was(path: Path) -> None:
    sink = DeltaSink("numbers", path, key="id", partition_by="word")
    words = ["plain", "with space", "a/b=c%d", "é✓", None, "percent%2F"]
    committed(sink, 0, [(number, word) for number, word in enumerate(words)])
    committed(sink, 1, [(1, "plain"), (2, "é✓")], [(2, "a/b=c%d"), (5, "new"), (4, "with space")])
    assert held(path) == {0: "plain", 1: "plain", 2: "a/b=c%d", 3: "é✓", 4: "with space", 5: "new"}
    committed(sink, 2, [(number, words[-1 - number]) for number in range(6)])
    assert held(path) == dict(enumerate(reversed(words)))


def test_a_key_may_be_a_partition_column(path: Path) -> None:
    schema = pa.schema([("day", pa.date32()), ("id", pa.int64()), ("word", pa.string())])
    sink = DeltaSink("numbers", path, key=["day", "id"], partition_by="day")
    for epoch, word in enumerate("ab"):
        batch = rows((1, 1, word), (1 + epoch, 2, word), (3, 3, word), schema=schema)
        assert outcome(sink, staged(sink, epoch, rows=batch)) is Outcome.COMMITTED
    found = sorted((row["day"].day, row["id"], row["word"]) for row in rows_of(path))
    assert found == [(2, 1, "b"), (2, 2, "a"), (3, 2, "b"), (4, 3, "b")]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int8(), [1, -1, 0]),
        (pa.string(), ["", "a", "é" * 80]),
        (pa.binary(), [b"", b"\0", b"\xff"]),
        (pa.bool_(), [True, False]),
        (pa.date32(), [-800_000, 0, 20_000]),
        (pa.decimal128(20, 3), [Decimal("1.000"), Decimal("-1.001"), Decimal(0)]),
        (pa.timestamp("us", tz="Europe/Berlin"), [-1, 0, 1]),
        (pa.timestamp("us"), [-1, 0, 1]),
    ],
    ids=str,
)
def test_each_type_of_key_is_compared_exactly(path: Path, kind: pa.DataType, values: list[Any]) -> None:
    schema = pa.schema([("id", kind), ("n", pa.int64())])
    sink = DeltaSink("numbers", path, key="id")
    assert sink.check(plan(schema)) == []
    for epoch in range(2):
        columns = [pa.array(values, kind), pa.array(range(epoch * 10, epoch * 10 + len(values)))]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        assert outcome(sink, staged(sink, epoch, rows=batch)) is Outcome.COMMITTED
    numbers: list[Any] = opened(path).to_pyarrow_table(columns=["n"])["n"].to_pylist()
    assert sorted(numbers) == list(range(10, 10 + len(values)))


PORTIONS = [
    pytest.param(portion, partition_by, id=f"{portion} {partition_by}")
    for portion in (1, 2, 7, 1_000_000)
    for partition_by in ("", "part")
]
"""How many keys a portion has, and whether the table has partitions."""


@pytest.mark.parametrize(("portion", "partition_by"), sampled(PORTIONS, 3))
def test_many_epochs_leave_what_a_dictionary_has(
    path: Path, monkeypatch: pytest.MonkeyPatch, portion: int, partition_by: str
) -> None:
    """Whatever a portion of keys holds: the epochs have more rows than most of them."""
    monkeypatch.setattr(keys, "PORTION_ROWS", portion)
    monkeypatch.setattr("tidegate.sinks.delta.reading.BATCH_ROWS", max(portion, 3))
    draw = random.Random(f"{portion} {partition_by}")
    schema = pa.schema([("id", pa.int64()), ("word", pa.string()), ("part", pa.int32()), ("gone", pa.bool_())])
    sink = DeltaSink("numbers", path, key="id", deleted="gone", partition_by=partition_by or (), target_file_bytes=300)
    wanted: dict[int, tuple[str, int]] = {}
    for epoch in range(6):
        tasks: list[list[tuple[int, str, int, bool]]] = []
        for task in range(3):
            tasks.append([])
            for number in range(draw.randrange(1, 12)):
                row = draw.randrange(20), f"{epoch} {task} {number}", draw.randrange(3), draw.random() < 0.3
                tasks[-1].append(row)
                wanted.pop(row[0], None)
                if not row[3]:
                    wanted[row[0]] = row[1:3]
        committed(sink, epoch, *tasks, schema=schema)
        sink.clean(IDENTITY, epoch)
        found = rows_of(path)
        assert {row["id"]: (row["word"], row["part"]) for row in found} == wanted
        assert len(found) == len(wanted)
    assert [file for file in (path / ".tidegate").rglob("*") if file.is_file()] == []


def test_each_partition_of_an_epoch_gets_one_file_however_many_there_are(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sinks.delta.reading.BATCH_ROWS", 50)
    schema = pa.schema([("id", pa.int64()), ("part", pa.int32())])
    sink = DeltaSink("numbers", path, key="id", partition_by="part")
    numbers = list(range(150))
    for epoch in range(2):
        columns = [pa.array(numbers * 2), pa.array([(each + epoch) % 75 for each in numbers] * 2, pa.int32())]
        batch = pa.RecordBatch.from_arrays(columns, schema=schema)
        assert outcome(sink, staged(sink, epoch, rows=batch)) is Outcome.COMMITTED
        assert len(opened(path).file_uris()) == 75
        assert {row["id"]: row["part"] for row in rows_of(path)} == {each: (each + epoch) % 75 for each in numbers}


# --- which files are touched -----------------------------------------------------------------------------------


def test_files_that_cannot_have_a_key_stay_as_they_are(sink: DeltaSink, path: Path) -> None:
    for epoch in range(3):
        committed(sink, epoch, [(epoch * 10, "a"), (epoch * 10 + 5, "b")])
    before = set(opened(path).file_uris())
    committed(sink, 3, [(10, "A")])
    assert len(before & set(opened(path).file_uris())) == 2
    committed(sink, 4, [(13, "new")])
    assert len(before & set(opened(path).file_uris())) == 2, "between the bounds, and not there"
    assert held(path) == {0: "a", 5: "b", 10: "A", 13: "new", 15: "b", 20: "a", 25: "b"}


def test_a_file_without_statistics_is_read(sink: DeltaSink, path: Path) -> None:
    sink.open(plan())
    table = pa.table({"id": pa.array([1, None], pa.int64()), "word": ["other", "no key"]})
    write_deltalake(str(path), table, mode="append", configuration=None)
    entry = path / "_delta_log" / f"{1:020}.json"
    entry.write_text("\n".join(line.replace("numRecords", "x") for line in entry.read_text().splitlines()))
    committed(sink, 0, [(1, "mine")])
    assert held(path) == {1: "mine", None: "no key"}


@pytest.mark.parametrize("steps", [("append",), ("delete",), ("compact",), ("append", "delete", "compact", "append")])
def test_what_other_writers_do_meanwhile_is_looked_at_again(
    sink: DeltaSink, path: Path, monkeypatch: pytest.MonkeyPatch, steps: Sequence[str]
) -> None:
    committed(sink, 0, [(1, "a"), (2, "b"), (3, "c")])
    committed(sink, 1, [(4, "d"), (5, "e")])
    original, others = DeltaTable.create_write_transaction, iter(steps)

    def late(table: DeltaTable, *arguments: Any, **named: Any) -> None:
        what = next(others, None)
        if what == "append":
            write_deltalake(
                str(path), pa.table({"id": pa.array([2, 7], pa.int64()), "word": ["x", "y"]}), mode="append"
            )
        elif what == "delete":
            opened(path).delete("id = 3")
        elif what == "compact":
            opened(path).optimize.compact()
        original(table, *arguments, **named)

    epoch = prepared(sink, 2, [(2, "B"), (4, "D")])
    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create_write_transaction", late)
        assert outcome(sink, *epoch) is Outcome.COMMITTED
    wanted = {1: "a", 2: "B", 3: "c", 4: "D", 5: "e"}
    if "delete" in steps:
        del wanted[3]
    assert sorted((row["id"], row["word"]) for row in rows_of(path) if row["id"] != 7) == sorted(wanted.items())
    assert outcome(sink, *epoch) is Outcome.ALREADY


def test_time_travel_shows_each_epoch(sink: DeltaSink, path: Path) -> None:
    for epoch in range(3):
        committed(sink, epoch, [(1, f"epoch {epoch}")])
    words = [DeltaTable(str(path), version=version).to_pyarrow_table()["word"].to_pylist() for version in (1, 2, 3)]
    assert words == [["epoch 0"], ["epoch 1"], ["epoch 2"]]


def test_rows_at_least_once_are_shown_again_without_a_second_row_of_a_key(sink: DeltaSink, path: Path) -> None:
    epoch = prepared(sink, 0, [(1, "a"), (2, "b")], [(2, "c")])
    for _ in range(3):
        assert {answer.outcome for answer in sink.commit_straight(epoch)} == {Outcome.COMMITTED}
    assert held(path) == {1: "a", 2: "c"}
    again = [of_attempt(sink, attempt_of(epoch=0, run=2), rows((2, "d")))]
    assert {answer.outcome for answer in sink.commit_straight(again)} == {Outcome.COMMITTED}
    assert held(path) == {1: "a", 2: "d"}


def test_the_commit_needs_no_program(sink: DeltaSink, path: Path) -> None:
    """The committable says what its rows replace, also if the program has another key by now."""
    committed(sink, 0, [(1, "a"), (2, "b")])
    epoch = prepared(sink, 1, [(1, "A")])
    assert outcome(DeltaSink("numbers", path), *epoch) is Outcome.COMMITTED
    assert held(path) == {1: "A", 2: "b"}


# --- what is refused -------------------------------------------------------------------------------------------


def found(sink: DeltaSink, schema: pa.Schema = SCHEMA, **options: Any) -> list[tuple[str, str]]:
    return [(each.code, each.found) for each in sink.check(plan(schema, **options))]


def test_a_null_in_a_key_is_refused_in_its_task(path: Path) -> None:
    DeltaTable.create(
        str(path), Schema([Field("id", PrimitiveType("long")), Field("word", PrimitiveType("string"), nullable=False)])
    )
    sink = DeltaSink("numbers", path, key="id", deleted="gone")
    sink.open(plan(MARKED))
    batch = rows((1, "a", False), (None, "b", False), (3, None, True), (4, None, False), schema=MARKED)
    assert [(each.row, each.column) for each in sink.refused(batch)] == [(1, "id"), (3, "word")]
    with pytest.raises(RowRefused, match="key column"):
        sink.begin(attempt_of()).write(batch)


def test_options_that_do_not_fit_are_refused(path: Path) -> None:
    assert found(DeltaSink("numbers", path, key="id"), mode="complete") == []
    assert found(DeltaSink("numbers", path, key="none")) == [("TG-KEY-COLUMN", "columns ['id', 'word']")]
    assert found(DeltaSink("numbers", path, deleted="gone"), MARKED)[0][0] == "TG-KEY-COLUMN"
    assert found(DeltaSink("numbers", path, key="id", deleted="word")) == [("TG-SCHEMA-MISMATCH", "string")]
    floats = pa.schema([("id", pa.float64()), ("word", pa.string())])
    assert found(DeltaSink("numbers", path, key="id"), floats) == [("TG-KEY-COLUMN", "double")]
    assert found(DeltaSink("numbers", path, key=["id", "word"], partition_by="word")) == [("TG-KEY-COLUMN", "string")]


@pytest.mark.parametrize("name", ["delta.appendOnly", "delta.enableChangeDataFeed"])
def test_a_table_whose_rows_cannot_be_replaced_is_refused(path: Path, name: str) -> None:
    refusal = [("TG-SINK-UNUSABLE", f"{name}=true")]
    assert found(DeltaSink("numbers", path, key="id", properties={name: "true"})) == refusal
    DeltaSink("numbers", path, properties={name: "true"}).open(plan())
    assert found(DeltaSink("numbers", path, key="id")) == refusal
    assert found(DeltaSink("numbers", path)) == []


def test_a_table_with_deletion_vectors_is_refused_and_one_that_gets_them_holds_the_epoch_up(
    sink: DeltaSink, path: Path
) -> None:
    committed(sink, 0, [(1, "a")])
    epoch = prepared(sink, 1, [(1, "A")])
    opened(path).alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    ((code, told),) = found(sink)
    assert (code, "deletionVectors" in told) == ("TG-SINK-UNUSABLE", True)
    assert found(DeltaSink("numbers", path)) == []
    (answer,) = sink.commit(epoch)
    assert (answer.outcome, "deletionVectors" in answer.detail) == (Outcome.RETRY, True)


def test_a_table_with_more_columns_is_refused_because_a_row_is_replaced_as_a_whole(sink: DeltaSink, path: Path) -> None:
    committed(sink, 0, [(1, "a"), (2, "b")])
    epoch = prepared(sink, 1, [(1, "A")])
    opened(path).alter.add_columns([Field("more", PrimitiveType("long"))])
    opened(path).update({"more": "7"})
    assert found(sink) == [("TG-SCHEMA-MISMATCH", "not in the rows: ['more']")]
    assert outcome(sink, *epoch) is Outcome.COMMITTED, "the epoch is decided: the next start is refused"
    assert sorted((row["id"], row["word"], row["more"]) for row in rows_of(path)) == [(1, "A", None), (2, "b", 7)]


def test_an_epoch_from_before_new_columns_is_committed_behind_them(sink: DeltaSink, path: Path) -> None:
    wide = pa.schema([*SCHEMA, pa.field("more", pa.list_(pa.int32()))])
    committed(sink, 0, [(1, "a"), (2, "b")])
    narrow = prepared(sink, 1, [(1, "A")])
    later = DeltaSink("numbers", path, key="id", schema="evolve")
    assert found(later, wide) == []
    epoch = prepared(later, 2, [(2, "B", [1, None])], schema=wide)
    assert outcome(later, *narrow) is Outcome.COMMITTED
    assert outcome(later, *epoch) is Outcome.COMMITTED
    assert sorted((row["id"], row["word"], row["more"]) for row in rows_of(path)) == [
        (1, "A", None),
        (2, "B", [1, None]),
    ]


def test_a_path_that_the_library_would_write_otherwise_is_refused(sink: DeltaSink, path: Path) -> None:
    """A removal under another path would leave the file in the table, beside its rows in a new file."""
    committed(sink, 0, [(1, "a")])
    entry = path / "_delta_log" / f"{1:020}.json"
    first = next(path.glob("*.parquet")).name[0]
    entry.write_text(entry.read_text().replace(f'"path":"{first}', f'"path":"%{ord(first):02X}'))
    assert held(path) == {1: "a"}
    with pytest.raises(TidegateError, match="TG-SINK-UNUSABLE"):
        sink.commit(prepared(sink, 1, [(1, "A")]))

"""A row that a target cannot hold is refused in the task, by its place and column, and the batch is left alone."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.kafka_rows import RowsOfKafka
from tidegate.core.errors import Code, TidegateError
from tidegate.sinks.base import SinkPlan, TwoPhaseSink
from tidegate.sinks.files.sink import FileSink
from tidegate.sinks.kafka.declared import layout_of
from tidegate.sinks.printing import PrintSink
from tidegate.sinks.row_values import InvalidText, refused_texts, with_valid_texts
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.testing.contract import IDENTITY, attempt_of

Make = Callable[..., TwoPhaseSink]

SINKS: dict[str, Make] = {
    "sqlite": lambda folder, **options: SQLiteSink("out", folder / "t.db", table="t", **options),
    "parquet": lambda folder, **options: FileSink("out", folder / "out", **options),
    "json": lambda folder, **options: FileSink("out", folder / "out", format="json", **options),
    "csv": lambda folder, **options: FileSink("out", folder / "out", format="csv", **options),
    "text": lambda folder, **options: FileSink("out", folder / "out", format="text", **options),
    "folders": lambda folder, **options: FileSink("out", folder / "out", partition_by="x", **options),
    "kafka": lambda folder, **options: RowsOfKafka("out", "none:1", topic="t", **options),
    "kafka raw": lambda folder, **options: RowsOfKafka("out", "none:1", topic="t", format="raw", value="x", **options),
    "print": lambda folder, **options: PrintSink("out", **options),
}
NESTED = ("parquet", "json", "kafka", "print")


def texts(*contents: bytes | None) -> pa.Array[Any]:
    """A column of texts that Spark would hand over: of any bytes."""
    plain = pa.array(contents, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(contents), plain.buffers())


def nested(*contents: bytes | None) -> dict[str, pa.Array[Any]]:
    """The same texts in each container, one a row."""
    offsets: Any = pa.array(range(len(contents) + 1), pa.int32())
    of_texts, ones = texts(*contents), pa.array([1] * len(contents))
    keys = texts(*(content or b"" for content in contents))
    return {
        "array": pa.ListArray.from_arrays(offsets, of_texts),
        "struct": pa.StructArray.from_arrays([of_texts], ["field"]),
        "map value": pa.MapArray.from_arrays(offsets, ones, of_texts),
        "map key": pa.MapArray.from_arrays(offsets, keys, ones),
        "deep": pa.ListArray.from_arrays(
            offsets, pa.StructArray.from_arrays([pa.MapArray.from_arrays(offsets, ones, of_texts)], ["map"])
        ),
    }


def batch_of(kind: str, values: pa.Array[Any]) -> pa.RecordBatch:
    columns = {"x": values, "id": pa.array(range(len(values)))}
    if kind == "text":
        del columns["id"]
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def plan(schema: pa.Schema) -> SinkPlan:
    return SinkPlan(identity=IDENTITY, schema=schema, mode="append", local_master=True, read_journal=lambda _: ())


def without(batch: pa.RecordBatch, refused: list[RowRefused]) -> pa.RecordBatch:
    left_out = {each.row for each in refused}
    return batch.take(pa.array([row for row in range(batch.num_rows) if row not in left_out], pa.int64()))


# --- text that is not UTF-8 --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", SINKS)
def test_text_that_is_not_utf8_is_refused_by_row_and_column(tmp_path: Path, kind: str) -> None:
    batch = batch_of(kind, texts(b"one", b"two\xff", None if kind != "text" else b"", b"\xc3", "ä€😀".encode()))
    refused = list(SINKS[kind](tmp_path).refused(batch))
    assert [(each.row, each.column, each.catalogue_entry) for each in refused] == [
        (1, "x", Code.RECORD_REFUSED),
        (3, "x", Code.RECORD_REFUSED),
    ]
    assert all("invalid_text=" in each.next_step for each in refused)


@pytest.mark.parametrize("container", nested())
@pytest.mark.parametrize("kind", NESTED)
def test_nested_text_that_is_not_utf8_is_refused_too(tmp_path: Path, kind: str, container: str) -> None:
    batch = batch_of(kind, nested(b"one", b"\xff", None, b"two")[container])
    sink = SINKS[kind](tmp_path)
    assert [(each.row, each.column) for each in sink.refused(batch)] == [(1, "x")]
    assert [each.row for each in sink.refused(batch.slice(1))] == [0]
    assert list(sink.refused(batch.slice(2))) == []


@pytest.mark.parametrize("kind", [kind for kind in SINKS if "kafka" not in kind])
def test_a_write_that_refuses_a_row_has_taken_none_and_takes_the_others(tmp_path: Path, kind: str) -> None:
    sink = SINKS[kind](tmp_path)
    batch = batch_of(kind, texts(b"one", b"\xff", b"two"))
    sink.open(plan(batch.schema))
    transaction = sink.begin(attempt_of())
    with pytest.raises(RowRefused) as caught:
        transaction.write(batch)
    assert (caught.value.row, caught.value.column) == (1, "x")
    transaction.write(without(batch, [caught.value]))
    committable = transaction.pre_commit()
    assert committable is not None
    assert committable.rows == 2


@pytest.mark.parametrize("kind", SINKS)
def test_with_replace_no_text_is_refused(tmp_path: Path, kind: str) -> None:
    batch = batch_of(kind, texts(b"a\xffb", b"two"))
    assert list(SINKS[kind](tmp_path, invalid_text="replace").refused(batch)) == []


def test_what_is_replaced_is_text_in_every_container() -> None:
    batch = pa.RecordBatch.from_pydict(nested(b"a\xff", None, b"b"))
    whole = with_valid_texts(batch).slice(1).to_pylist()
    assert with_valid_texts(batch).to_pylist() == [
        {
            "array": ["a�"],
            "struct": {"field": "a�"},
            "map value": [(1, "a�")],
            "map key": [("a�", 1)],
            "deep": [{"map": [(1, "a�")]}],
        },
        *whole,
    ]
    assert with_valid_texts(batch.slice(1)).to_pylist() == whole
    assert with_valid_texts(batch.slice(1)) is not None


def test_a_replaced_text_arrives_in_sqlite_in_parquet_and_in_a_message(tmp_path: Path) -> None:
    batch = batch_of("", texts(b"a\xffb"))
    for kind in ("sqlite", "parquet"):
        sink = SINKS[kind](tmp_path, invalid_text="replace")
        sink.open(plan(batch.schema))
        transaction = sink.begin(attempt_of())
        transaction.write(batch)
        committable = transaction.pre_commit()
        assert committable is not None
        sink.commit([committable])
    with closing(sqlite3.connect(tmp_path / "t.db")) as reader:
        assert reader.execute("SELECT x FROM t").fetchall() == [("a�b",)]
    (file,) = (tmp_path / "out").glob("*.parquet")
    assert pq.ParquetFile(file).read().column("x").to_pylist() == ["a�b"]
    sink = RowsOfKafka("out", "none:1", topic="t", invalid_text="replace")
    (message,) = layout_of(sink, batch.schema).messages(batch)["t"]
    assert json.loads(message["value"] or b"") == {"x": "a�b", "id": 0}


def test_a_replaced_key_that_would_hide_another_of_its_map_is_refused() -> None:
    keys = texts(b"\xff", b"\xfe", b"\xff", b"x", b"\xff", "�".encode())
    offsets: Any = pa.array([0, 2, 4, 6], pa.int32())
    maps = pa.MapArray.from_arrays(offsets, keys, pa.array(range(6)))
    batch = pa.RecordBatch.from_arrays([maps], names=["m"])
    assert sorted({each.row or 0 for each in refused_texts(batch, InvalidText.REPLACE)}) == [0, 2]


@pytest.mark.parametrize("kind", SINKS)
def test_no_other_word_is_taken_for_invalid_text(tmp_path: Path, kind: str) -> None:
    with pytest.raises(TidegateError, match=r"TG-OPTION-UNKNOWN[\s\S]*'refuse', 'replace'[\s\S]*invalid_text='drop'"):
        SINKS[kind](tmp_path, invalid_text="drop")


# --- NaN and nulls -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_a_nan_is_refused_where_the_table_has_none(tmp_path: Path, kind: pa.DataType) -> None:
    batch = pa.RecordBatch.from_pydict({"v": pa.array([1.0, math.nan, None, math.inf], kind)})
    (refused,) = SQLiteSink("out", tmp_path / "t.db", table="t").refused(batch)
    assert (refused.row, refused.column, refused.catalogue_entry) == (1, "v", Code.RECORD_REFUSED)
    assert 'nan="null"' in refused.next_step
    assert SQLiteSink("out", tmp_path / "t.db", table="t", nan="null").refused(batch) == []


def test_a_nan_becomes_null_where_the_program_says_so_and_never_in_a_key(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"k": [1.0, 2.0], "v": [math.nan, math.inf]})
    sink = SQLiteSink("out", tmp_path / "t.db", table="t", key="k", nan="null")
    sink.open(plan(batch.schema))
    transaction = sink.begin(attempt_of())
    transaction.write(batch)
    committable = transaction.pre_commit()
    assert committable is not None
    sink.commit([committable])
    with closing(sqlite3.connect(tmp_path / "t.db")) as reader:
        assert reader.execute("SELECT * FROM t ORDER BY k").fetchall() == [(1.0, None), (2.0, math.inf)]
    (refused,) = sink.refused(pa.RecordBatch.from_pydict({"k": [math.nan], "v": [1.0]}))
    assert (refused.row, refused.column) == (0, "k")


def test_no_other_word_is_taken_for_nan(tmp_path: Path) -> None:
    with pytest.raises(TidegateError, match=r"TG-OPTION-UNKNOWN[\s\S]*nan one of 'refuse', 'null'"):
        SQLiteSink("out", tmp_path / "t.db", table="t", nan="keep")


# --- what only some targets cannot hold --------------------------------------------------------------------

REFUSED = [
    (SQLiteSink("s", "t.db", table="t", key="k"), {"k": [1, None], "v": [1, 2]}, [(1, "k")]),
    (FileSink("s", "out", format="csv"), {"x": ["", None, "a", None]}, [(1, "x"), (3, "x")]),
    (FileSink("s", "out", format="text"), {"x": ["a", None, "b\n", "\ufeffc", "\r"]}, [(n, "x") for n in (1, 2, 3, 4)]),
    (FileSink("s", "out", partition_by="d"), {"d": ["a", "ä" * 127, None, ""], "v": [1] * 4}, [(1, "d")]),
    (
        FileSink("s", "out", partition_by="d"),
        {"d": ["__HIVE_DEFAULT_PARTITION__", "a"], "v": [1, 2]},
        [(0, "d")],
    ),
    (RowsOfKafka("s", "none:1"), {"topic": ["t", None], "v": [1, 2]}, [(1, "topic")]),
    (
        RowsOfKafka("s", "none:1", topic="t", partition="p"),
        {"p": [0, None, -1, -2, 2**31], "v": [1] * 5},
        [(3, "p"), (4, "p")],
    ),
    (
        RowsOfKafka("s", "none:1", topic="t", headers="h"),
        {"h": [[{"key": "a", "value": b""}], [], None, [{"key": None, "value": b""}]], "v": [1] * 4},
        [(3, "h")],
    ),
]


@pytest.mark.parametrize(("sink", "rows", "expected"), REFUSED)
def test_each_row_is_refused_once_with_its_place(
    sink: TwoPhaseSink, rows: dict[str, list[object]], expected: list[tuple[int, str]]
) -> None:
    batch = pa.RecordBatch.from_pydict(rows)
    refused = list(sink.refused(batch))
    assert [(each.row, each.column) for each in refused] == expected
    assert list(sink.refused(without(batch, refused))) == []

"""What stands against a start of the SQLite sink."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from tidegate.core.errors import TidegateError
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.sqlite.check import column_affinity
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.testing.contract import IDENTITY

ROWS = pa.schema([("k", pa.int64()), ("v", pa.string())])


def violations(
    path: Path,
    *,
    key: str | Sequence[str] | None = None,
    schema: pa.Schema = ROWS,
    mode: str = "append",
    local_master: bool = True,
    table: str = "t",
) -> list[str]:
    plan = SinkPlan(identity=IDENTITY, schema=schema, mode=mode, local_master=local_master, read_journal=lambda _: [])
    return [error.code for error in SQLiteSink("numbers", path, table=table, key=key).check(plan)]


def made(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as owner:
        for statement in statements:
            owner.execute(statement)
    return path


def test_a_new_database_is_fine_and_stays_unmade(tmp_path: Path) -> None:
    assert violations(tmp_path / "new" / "t.db", key="k") == []
    assert list(tmp_path.iterdir()) == []


def test_everything_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    schema = pa.schema([("a", pa.int64()), ("A", pa.list_(pa.int64()))])
    found = violations(tmp_path / "file" / "t.db", key="k", schema=schema, local_master=False, table="sqlite_master")
    assert found == [
        "TG-SINK-LOCAL-ONLY",
        "TG-SINK-UNUSABLE",
        "TG-SINK-UNUSABLE",
        "TG-KEY-COLUMN",
        "TG-SCHEMA-MISMATCH",
        "TG-SCHEMA-MISMATCH",
    ]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.int64()),
        pa.struct([("x", pa.int64())]),
        pa.map_(pa.string(), pa.int64()),
        pa.duration("us"),
        pa.uint64(),
    ],
    ids=str,
)
def test_a_type_that_sqlite_lacks_is_refused_with_advice(tmp_path: Path, kind: pa.DataType) -> None:
    sink = SQLiteSink("numbers", tmp_path / "t.db", table="t")
    schema = pa.schema([("x", kind)])
    plan = SinkPlan(identity=IDENTITY, schema=schema, mode="append", local_master=True, read_journal=lambda _: [])
    (error,) = sink.check(plan)
    assert error.code == "TG-SCHEMA-MISMATCH"
    assert ("F.to_json" if pa.types.is_nested(kind) else '.cast("string")') in error.next_step


@pytest.mark.parametrize(
    ("mode", "key", "codes"),
    [
        ("append", None, []),
        ("update", None, []),
        ("update", "k", []),
        ("complete", "k", []),
        ("complete", None, ["TG-OUTPUT-MODE"]),
    ],
)
def test_complete_output_needs_a_key(tmp_path: Path, mode: str, key: str | None, codes: list[str]) -> None:
    assert violations(tmp_path / "t.db", mode=mode, key=key) == codes


@pytest.mark.parametrize(
    ("statement", "codes"),
    [
        ("CREATE TABLE t (k INTEGER, v TEXT)", []),
        ("CREATE TABLE T (V, K BIGINT)", []),
        ("CREATE TABLE t (k INTEGER)", ["TG-SCHEMA-MISMATCH"]),
        ("CREATE TABLE t (k INTEGER, v TEXT, more TEXT)", ["TG-SCHEMA-MISMATCH"]),
        ("CREATE TABLE t (k INTEGER, v INTEGER)", ["TG-SCHEMA-MISMATCH"]),
        ("CREATE TABLE t (k INTEGER, v NUMERIC)", ["TG-SCHEMA-MISMATCH"]),
        ("CREATE TABLE t (k TEXT, v TEXT)", ["TG-SCHEMA-MISMATCH"]),
        ("CREATE VIEW t AS SELECT 1 AS k, '' AS v", ["TG-SCHEMA-MISMATCH"]),
    ],
)
def test_an_existing_table_must_fit(tmp_path: Path, statement: str, codes: list[str]) -> None:
    assert violations(made(tmp_path / "t.db", statement)) == codes


@pytest.mark.parametrize(
    ("statements", "key", "codes"),
    [
        (["CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT)"], "k", []),
        (["CREATE TABLE t (k INTEGER, v TEXT UNIQUE)"], "v", []),
        (["CREATE TABLE t (k INTEGER, v TEXT, PRIMARY KEY (k, v))"], ["v", "k"], []),
        (["CREATE TABLE t (k INTEGER, v TEXT)", "CREATE UNIQUE INDEX i ON t (K)"], "k", []),
        (["CREATE TABLE t (k INTEGER, v TEXT)"], "k", ["TG-KEY-COLUMN"]),
        (["CREATE TABLE t (k INTEGER, v TEXT, PRIMARY KEY (k, v))"], "k", ["TG-KEY-COLUMN"]),
        (["CREATE TABLE t (k INTEGER, v TEXT)", "CREATE INDEX i ON t (k)"], "k", ["TG-KEY-COLUMN"]),
        (
            ["CREATE TABLE t (k INTEGER, v TEXT)", "CREATE UNIQUE INDEX i ON t (k) WHERE k > 0"],
            "k",
            ["TG-KEY-COLUMN"],
        ),
    ],
)
def test_a_key_needs_a_unique_index_over_exactly_its_columns(
    tmp_path: Path, statements: list[str], key: str | list[str], codes: list[str]
) -> None:
    assert violations(made(tmp_path / "t.db", *statements), key=key) == codes


def test_the_ledger_is_no_target(tmp_path: Path) -> None:
    assert violations(tmp_path / "t.db", table="_TIDEGATE_ledger") == ["TG-SINK-UNUSABLE"]


@pytest.mark.parametrize("declared", ["INT", "VARCHAR(9)", "CLOB", "BLOB", "", "DOUBLE", "DECIMAL(9, 2)", "POINT"])
def test_the_affinity_is_the_one_that_sqlite_gives(declared: str) -> None:
    with closing(sqlite3.connect(":memory:")) as judge:
        judge.execute(f"CREATE TABLE t (x {declared})")
        judge.execute("INSERT INTO t VALUES ('1.0')")
        judge.execute("INSERT INTO t VALUES (1)")
        (text,), (number,) = judge.execute("SELECT typeof(x) FROM t").fetchall()
    stored = {
        ("integer", "integer"): {"INTEGER", "NUMERIC"},
        ("real", "real"): {"REAL"},
        ("text", "text"): {"TEXT"},
        ("text", "integer"): {"BLOB"},
    }
    assert column_affinity(declared) in stored[text, number]


def test_an_unknown_delivery_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TidegateError, match="TG-OPTION-UNKNOWN"):
        SQLiteSink("numbers", tmp_path / "t.db", table="t", delivery="at-least-twice")

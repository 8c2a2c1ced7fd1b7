"""Values of the upsert sink: what its table holds is what the plain sink of the database writes, also in each key."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.mariadb import MariaDBServer
from tests.support.today import turn
from tests.upsert.places import ALL, OnMySQL, OnPostgres, OnSQLite, Place, place_on, plan
from tests.upsert.places import prepared as upserted
from tidegate.core.records import Outcome
from tidegate.sinks.arrow import fields_of
from tidegate.sinks.base import TwoPhaseSink
from tidegate.sinks.mysql.sink import MySQLSink
from tidegate.sinks.postgres.sink import PostgresSink
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.testing.contract import attempt_of

UTC = datetime.timezone.utc
PLAIN = pa.schema(
    [
        ("text", pa.string()),
        ("50% of 'it'", pa.bool_()),
        ("small", pa.int8()),
        ("large", pa.int64()),
        ("half", pa.float32()),
        ("double", pa.float64()),
        ("price", pa.decimal128(20, 5)),
        ("raw", pa.binary()),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("hour", pa.time64("ns")),
    ]
)
NESTED = pa.schema(
    [
        *fields_of(PLAIN),
        pa.field("list", pa.list_(pa.int64())),
        pa.field("part", pa.struct([("a", pa.int64()), ("b", pa.string())])),
    ]
)
MOMENT = datetime.datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC)
FULL: dict[str, Any] = {
    "text": "ü'\"\\%s \t\n 🙂",
    "50% of 'it'": True,
    "small": -128,
    "large": 2**63 - 1,
    "half": 0.1,
    "double": 0.1,
    "price": Decimal("-123456789012345.67891"),
    "raw": b"\x00\xff'\\",
    "day": datetime.date(9999, 12, 31),
    "at": MOMENT,
    "local": MOMENT.replace(tzinfo=None),
    "hour": datetime.time(23, 59, 59, 999_999),
    "list": [1, None, 3],
    "part": {"a": 1, "b": "x"},
}
OTHER: dict[str, Any] = {
    "text": "",
    "50% of 'it'": False,
    "small": 0,
    "large": -(2**63),
    "half": -1.5,
    "double": 1e300,
    "price": Decimal("0.00000"),
    "raw": b"",
    "day": datetime.date(1970, 1, 1),
    "at": datetime.datetime(1970, 1, 1, tzinfo=UTC),
    "local": datetime.datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None),
    "hour": datetime.time(0),
    "list": [],
    "part": {"a": None, "b": ""},
}


@pytest.fixture(params=ALL)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place_on(request.param, request, tmp_path)


def schema_of(place: Place) -> pa.Schema:
    return PLAIN if place.word == "sqlite" else NESTED


def test_values_are_those_of_the_plain_sink(place: Place) -> None:
    schema = pa.schema([pa.field("id", pa.int64()), *fields_of(schema_of(place))])
    names = schema.names[1:]
    rows = [{"id": 1, **FULL}, {"id": 2, **OTHER}, {"id": 3, **dict.fromkeys(names)}]
    given = [{name: each.get(name) for name in schema.names} for each in rows]
    sink = place.sink(key="id", deleted=None)
    assert list(sink.check(plan(schema))) == []
    sink.open(plan(schema))
    upserted(sink, [{**each, "text": "replaced"} for each in given], schema)
    upserted(sink, given, schema, epoch=1)
    written(plain_sink(place), given, schema)
    wanted = place.execute("SELECT * FROM @plain@ ORDER BY id")
    assert len(wanted) == 3
    assert place.execute("SELECT * FROM @the totals@ ORDER BY id") == wanted


@pytest.mark.parametrize("name", PLAIN.names)
def test_each_type_can_be_a_key(place: Place, name: str) -> None:
    """Each key is found again, so that its row is replaced and then deleted."""
    schema = pa.schema([PLAIN.field(name), pa.field("v", pa.int64()), pa.field("gone", pa.bool_())])
    sink = place.sink(key=name, deleted="gone")
    assert list(sink.check(plan(schema))) == []
    sink.open(plan(schema))
    for epoch, gone in enumerate((False, False, True)):
        rows = [{name: each[name], "v": epoch, "gone": gone} for each in (FULL, OTHER)]
        upserted(sink, rows, schema, epoch=epoch)
        found = place.execute("SELECT v FROM @the totals@")
        assert found == ([] if gone else [(epoch,), (epoch,)])


def test_a_key_of_several_columns_is_compared_by_all_of_them(place: Place) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.int64()), ("v", pa.string()), ("gone", pa.bool_())])
    sink = place.sink(key=["a", "b"])
    sink.open(plan(schema))
    rows = [("x", 1, "1"), ("x", 2, "2"), ("y", 1, "3")]
    upserted(sink, [{"a": a, "b": b, "v": v, "gone": False} for a, b, v in rows], schema)
    later = [{"a": "x", "b": 2, "v": None, "gone": True}, {"a": "y", "b": 1, "v": "4", "gone": False}]
    upserted(sink, later, schema, epoch=1)
    assert place.execute("SELECT a, b, v FROM @the totals@ ORDER BY a, b") == [("x", 1, "1"), ("y", 1, "4")]


def test_a_table_of_nothing_but_its_key_takes_rows_again(place: Place) -> None:
    schema = pa.schema([("k", pa.int64())])
    sink = place.sink(deleted=None)
    sink.open(plan(schema))
    for epoch in range(2):
        upserted(sink, [{"k": 1}, {"k": 2}], schema, epoch=epoch)
    assert place.execute("SELECT k FROM @the totals@ ORDER BY k") == [(1,), (2,)]


def test_many_rows_of_several_batches_replace_many(place: Place) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.string()), ("gone", pa.bool_())])
    sink = place.sink()
    sink.open(plan(schema))
    for epoch in range(2):
        transaction = sink.begin(attempt_of(epoch=epoch)) if epoch else begun_first(sink)
        for first in range(0, 3_000, 1_000):
            rows = [{"k": key, "v": f"{epoch}", "gone": key % 3 == epoch} for key in range(first, first + 1_000)]
            transaction.write(pa.RecordBatch.from_pylist(rows, schema=schema))
        assert transaction.pre_commit() is not None
    assert place.execute("SELECT count(*), min(v), max(v) FROM @the totals@") == [(2_000, "1", "1")]


@turn(1, of=4)
def test_mysql_takes_rows_by_load_data_too(mariadb: MariaDBServer) -> None:
    place = OnMySQL(mariadb, mariadb.database())
    schema = pa.schema([("k", pa.string()), ("v", pa.binary()), ("gone", pa.bool_())])
    sink = place.sink(options={"local_infile": True})
    sink.open(plan(schema))
    for epoch in range(2):
        upserted(sink, [{"k": "a\tb\\", "v": b"\x00\n", "gone": False}], schema, epoch=epoch)
    assert place.rows() == {"a\tb\\": b"\x00\n"}


def begun_first(sink: TwoPhaseSink) -> Any:
    attempt = attempt_of()
    assert sink.begin_run(attempt.sink, attempt.run, attempt.run_token) is None
    return sink.begin(attempt)


def plain_sink(place: Place) -> TwoPhaseSink:
    if isinstance(place, OnSQLite):
        return SQLiteSink("plain", place.path, table="plain", key="id")
    if isinstance(place, OnPostgres):
        return PostgresSink("plain", place.server.conninfo, schema=place.schema, table="plain", key="id")
    assert isinstance(place, OnMySQL)
    options = place.server.options()
    return MySQLSink("plain", "127.0.0.1", database=place.database, table="plain", key="id", options=options)


def written(sink: TwoPhaseSink, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    sink.open(plan(schema))
    transaction = sink.begin(attempt_of())
    transaction.write(pa.RecordBatch.from_pylist(rows, schema=schema))
    committable = transaction.pre_commit()
    assert committable is not None
    assert [each.outcome for each in sink.commit([committable])] == [Outcome.COMMITTED]

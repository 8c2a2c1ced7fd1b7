"""Tables of all shapes under the MySQL sink: upserts, deletions, collations, names, generated columns, types."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pymysql
import pytest

from tests.support.mariadb import PASSWORD, USER, MariaDBServer, quoted
from tests.support.staged import plan
from tidegate.core.errors import TidegateError
from tidegate.core.records import Committable, Outcome
from tidegate.sinks.mysql.sink import MySQLSink
from tidegate.sinks.rows import RowRefused
from tidegate.testing.contract import IDENTITY, attempt_of

Rows = Sequence[dict[str, Any]]
KEYED = pa.schema([("k", pa.int64()), ("v", pa.string()), ("gone", pa.bool_())])
TEXT_KEYED = pa.schema([("k", pa.string()), ("v", pa.int64())])
BOTH_WAYS = pytest.mark.parametrize(
    "by_file", [False, pytest.param(True, marks=pytest.mark.more)], ids=["INSERT", "LOAD DATA"]
)


@dataclasses.dataclass(frozen=True)
class Place:
    """A database of a server."""

    server: MariaDBServer
    database: str

    def sink(self, *, options: dict[str, Any] | None = None, **others: Any) -> MySQLSink:
        given: dict[str, Any] = {"table": "t", "database": self.database, **others}
        return MySQLSink("out", "127.0.0.1", options=self.server.options(**(options or {})), **given)

    def make(self, statement: str) -> None:
        self.server.execute(statement, database=self.database)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.server.execute(query, database=self.database)

    def tables(self) -> list[str]:
        return sorted(name for (name,) in self.rows("SHOW TABLES"))

    def stages(self) -> list[str]:
        return [name for name in self.tables() if name.startswith("_tidegate_stage_")]


@pytest.fixture
def place(mariadb: MariaDBServer) -> Place:
    return Place(mariadb, mariadb.database())


def prepared(sink: MySQLSink, schema: pa.Schema, rows: Rows, *, epoch: int = 0, task: int = 0) -> Committable:
    transaction = sink.begin(attempt_of(epoch=epoch, task=task))
    try:
        transaction.write(pa.RecordBatch.from_pylist(list(rows), schema=schema))
        committable = transaction.pre_commit()
    except BaseException:
        transaction.abort()
        raise
    assert committable is not None
    return committable


def written(sink: MySQLSink, schema: pa.Schema, *tasks: Rows, epoch: int = 0) -> None:
    """One epoch of these tasks, checked, opened and committed; its stages are dropped."""
    assert [str(each) for each in sink.check(plan(schema))] == []
    sink.open(plan(schema))
    committables = [prepared(sink, schema, rows, epoch=epoch, task=task) for task, rows in enumerate(tasks)]
    assert [str(answer) for answer in sink.commit(committables) if answer.outcome is not Outcome.COMMITTED] == []
    sink.clean(IDENTITY, epoch)


def keyed(k: int, v: str | None = None, *, gone: bool | None = None) -> dict[str, Any]:
    return {"k": k, "v": v, "gone": gone}


def codes(sink: MySQLSink, schema: pa.Schema, mode: str = "append") -> list[str]:
    return [error.code for error in sink.check(plan(schema, mode=mode))]


# --- keys and deletions --------------------------------------------------------------------------------------


@BOTH_WAYS
def test_the_last_row_of_a_key_wins_in_the_order_of_tasks_and_rows(place: Place, by_file: bool) -> None:
    sink = place.sink(key="k", deleted="gone", options={"local_infile": by_file})
    first = [keyed(1, "a"), keyed(1, "b"), keyed(2, "c"), keyed(3, "d"), keyed(3, gone=True)]
    second = [keyed(2, "e"), keyed(4, "f", gone=True), keyed(4, "g")]
    written(sink, KEYED, first, second)
    assert place.rows("SELECT k, v FROM t ORDER BY k") == [(1, "b"), (2, "e"), (4, "g")]
    written(sink, KEYED, [keyed(1, gone=True), keyed(9, gone=True)], [keyed(1, "back"), keyed(2, gone=True)], epoch=1)
    assert place.rows("SELECT k, v FROM t ORDER BY k") == [(1, "back"), (4, "g")]
    assert place.stages() == []


def test_keys_are_equal_where_the_collation_of_the_column_takes_them_for_equal(place: Place) -> None:
    """'a' and 'A ' in a table of the user's; they are two keys in one that the sink creates."""
    place.make("CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v BIGINT)")
    rows: Rows = [{"k": "a", "v": 1}, {"k": "A ", "v": 2}, {"k": "ä", "v": 3}, {"k": "b", "v": 4}]
    written(place.sink(key="k"), TEXT_KEYED, rows, [{"k": "B", "v": 5}])
    assert place.rows("SELECT k, v FROM t ORDER BY v") == [("ä", 3), ("B", 5)]
    written(place.sink(key="k", table="own"), TEXT_KEYED, rows, [{"k": "B", "v": 5}], epoch=1)
    assert place.rows("SELECT v FROM own ORDER BY v") == [(1,), (2,), (3,), (4,), (5,)]


def test_long_keys_that_differ_only_at_their_ends_are_different(place: Place) -> None:
    """The server sorts by the first max_sort_length bytes only, 1024 by default."""
    place.make("CREATE TABLE t (k VARCHAR(760) COLLATE utf8mb4_bin PRIMARY KEY, v BIGINT)")
    rows = [{"k": "ä" * 700 + str(number % 20), "v": number} for number in range(200)]
    written(place.sink(key="k"), TEXT_KEYED, rows)
    assert place.rows("SELECT COUNT(*), MIN(v), MAX(v) FROM t") == [(20, 180, 199)]


def test_a_row_never_replaces_one_with_another_key(place: Place) -> None:
    """ON DUPLICATE KEY UPDATE and REPLACE would: they look at every unique index."""
    place.make("CREATE TABLE t (k BIGINT PRIMARY KEY, v VARCHAR(9) UNIQUE)")
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    sink = place.sink(key="k")
    written(sink, schema, [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
    waiting = prepared(sink, schema, [{"k": 3, "v": "a"}], epoch=1)
    with pytest.raises(TidegateError, match="Duplicate entry 'a'") as raised:
        sink.commit([waiting])
    assert raised.value.code == "TG-ROW-CONFLICT"
    assert place.rows("SELECT k, v FROM t ORDER BY k") == [(1, "a"), (2, "b")]
    place.make("DELETE FROM t WHERE k = 1")
    assert [answer.outcome for answer in sink.commit([waiting])] == [Outcome.COMMITTED]


def test_a_row_that_deletes_needs_no_values_and_breaks_no_constraint(place: Place) -> None:
    place.make("CREATE TABLE t (k BIGINT PRIMARY KEY, v VARCHAR(20) NOT NULL CHECK (v <> ''))")
    sink = place.sink(key="k", deleted="gone")
    written(sink, KEYED, [keyed(1, "a"), keyed(2, "b")])
    written(sink, KEYED, [keyed(1, None, gone=True), keyed(2, "", gone=True), keyed(3, "c")], epoch=1)
    assert place.rows("SELECT k, v FROM t") == [(3, "c")]
    with pytest.raises(RowRefused, match="NOT NULL"):
        prepared(sink, KEYED, [keyed(4)], epoch=2)
    with pytest.raises(RowRefused, match=r"error (4025|3819|3140)"):
        prepared(sink, KEYED, [keyed(4, "")], epoch=2)


def test_a_key_alone_and_keys_of_several_columns(place: Place) -> None:
    alone = pa.schema([("k", pa.int64())])
    written(place.sink(key="k"), alone, [{"k": 1}, {"k": 1}], [{"k": 1}])
    assert place.rows("SELECT k FROM t") == [(1,)]
    several = pa.schema([("a", pa.string()), ("b", pa.date32()), ("c", pa.binary()), ("n", pa.int32())])
    sink = place.sink(table="u", key=["b", "a", "c"])
    written(sink, several, [{"a": "x", "b": 0, "c": b"\0", "n": 0}], epoch=1)
    rows = [{"a": "x", "b": 0, "c": b"\0", "n": 1}, {"a": "y", "b": 0, "c": b"", "n": 2}]
    written(sink, several, rows, epoch=2)
    assert place.rows("SELECT a, n FROM u ORDER BY a") == [("x", 1), ("y", 2)]


# --- tables that exist -----------------------------------------------------------------------------------------


@BOTH_WAYS
def test_names_of_any_kind(place: Place, by_file: bool) -> None:
    names = ["a `quoted` name", "SELECT", "ünïcode", "a.b;--", "'x'", "%s", "\\"]
    schema = pa.schema([(name, pa.int64()) for name in names])
    sink = place.sink(table="The `Table`; DROP", key=names[:2], options={"local_infile": by_file})
    written(sink, schema, [dict.fromkeys(names, 1)], [dict.fromkeys(names, 2)])
    assert place.rows("SELECT * FROM `The ``Table``; DROP` ORDER BY 1") == [(1,) * 7, (2,) * 7]


def test_a_table_may_have_columns_that_fill_themselves(place: Place) -> None:
    place.make(
        "CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, k INT UNIQUE, at TIMESTAMP NOT NULL DEFAULT NOW(),"
        " twice INT GENERATED ALWAYS AS (k * 2) STORED, note TEXT, state VARCHAR(9) NOT NULL DEFAULT 'new')"
    )
    schema = pa.schema([("K", pa.int32())])
    written(place.sink(key="K"), schema, [{"K": 4}, {"K": 5}])
    written(place.sink(key="K"), schema, [{"K": 5}], epoch=1)
    assert place.rows("SELECT id, k, twice, note, state, at IS NULL FROM t ORDER BY k") == [
        (1, 4, 8, None, "new", 0),
        (2, 5, 10, None, "new", 0),
    ]


def test_a_zero_is_a_zero_also_where_the_server_counts(place: Place) -> None:
    place.make("CREATE TABLE t (id BIGINT AUTO_INCREMENT PRIMARY KEY, n INT)")
    schema = pa.schema([("id", pa.int64()), ("n", pa.int32())])
    written(place.sink(key="id"), schema, [{"id": 0, "n": 1}, {"id": 7, "n": 2}])
    assert place.rows("SELECT id, n FROM t ORDER BY id") == [(0, 1), (7, 2)]
    with pytest.raises(RowRefused, match="a null"):
        prepared(place.sink(key="id"), schema, [{"id": None, "n": 3}], epoch=1)


def test_partitions_and_a_row_without_one(place: Place) -> None:
    place.make(
        "CREATE TABLE t (k BIGINT PRIMARY KEY, v TEXT) PARTITION BY RANGE (k)"
        " (PARTITION low VALUES LESS THAN (10), PARTITION high VALUES LESS THAN (20))"
    )
    sink, schema = place.sink(key="k"), pa.schema([("k", pa.int64()), ("v", pa.string())])
    written(sink, schema, [{"k": 1, "v": "a"}, {"k": 11, "v": "b"}])
    assert place.rows("SELECT k FROM t PARTITION (high)") == [(11,)]
    beyond = prepared(sink, schema, [{"k": 2, "v": "c"}, {"k": 99, "v": "d"}], epoch=1)
    with pytest.raises(TidegateError, match="no partition") as raised:
        sink.commit([beyond])
    assert raised.value.code == "TG-ROW-CONFLICT"
    assert place.rows("SELECT COUNT(*) FROM t") == [(2,)]
    place.make("ALTER TABLE t ADD PARTITION (PARTITION rest VALUES LESS THAN MAXVALUE)")
    assert [answer.outcome for answer in sink.commit([beyond])] == [Outcome.COMMITTED]


@BOTH_WAYS
def test_types_of_the_table_that_hold_the_values(place: Place, by_file: bool) -> None:
    place.make(
        "CREATE TABLE t (i BIGINT, n DECIMAL(20), d DECIMAL(12, 4), f DOUBLE, s VARCHAR(3), l VARCHAR(5) CHARACTER SET"
        " latin1, j JSON, st TEXT, b VARBINARY(4), ts TIMESTAMP(6) NULL, u INT UNSIGNED)"
    )
    schema = pa.schema(
        [
            *(("i", pa.int32()), ("n", pa.int64()), ("d", pa.decimal128(10, 2)), ("f", pa.float32())),
            *((name, pa.string()) for name in ("s", "l", "j")),
            *(("st", pa.struct([("a", pa.int32())])), ("b", pa.binary()), ("ts", pa.timestamp("us", "UTC"))),
            ("u", pa.int32()),
        ]
    )
    row: dict[str, Any] = {"i": -1, "n": 2**63 - 1, "d": Decimal("1.50"), "f": 0.5, "s": "äöü", "l": "äöüß"}
    row |= {"j": '{"b": [1]}', "st": {"a": 7}, "b": b"\0\xff", "ts": 1_500_000, "u": 2**31 - 1}
    sink = place.sink(options={"local_infile": by_file})
    written(sink, schema, [row])
    found = place.rows("SELECT i, n, d, f, s, l, j, st, b, UNIX_TIMESTAMP(ts), u FROM t")
    numbers, texts = (-1, Decimal(2**63 - 1), Decimal("1.5000"), 0.5), ("äöü", "äöüß", row["j"], '{"a":7}')
    assert found == [(*numbers, *texts, b"\0\xff", Decimal("1.500000"), 2**31 - 1)]
    for name, value, refusal in (
        ("s", "long", "at most 3 characters"),
        ("l", "日本", "error 1366"),
        ("j", "{", r"error (4025|3819|3140)"),
        ("b", b"12345", "at most 4 bytes"),
        ("ts", 0, "TIMESTAMP column"),
        ("ts", 2**31 * 1_000_000, "TIMESTAMP column"),
        ("u", -1, "unsigned"),
    ):
        with pytest.raises(RowRefused, match=refusal):
            prepared(sink, schema, [row, {**row, name: value}], epoch=1)


@pytest.mark.parametrize(
    ("table", "options", "found"),
    [
        pytest.param("(k BIGINT, v TEXT)", {"key": "k"}, ["TG-KEY-COLUMN"], id="no unique index"),
        pytest.param("(k BIGINT, v TEXT, UNIQUE (v(9)))", {"key": "v"}, ["TG-KEY-COLUMN"], id="a part of a column"),
        pytest.param("(k BIGINT)", {}, ["TG-SCHEMA-MISMATCH"], id="a column is missing"),
        pytest.param("(k BIGINT, v TEXT, w INT NOT NULL)", {}, ["TG-SCHEMA-MISMATCH"], id="a column without a value"),
        pytest.param("(k INT, v TEXT)", {}, ["TG-SCHEMA-MISMATCH"], id="too narrow"),
        pytest.param("(k DECIMAL(10, 0), v TEXT)", {}, ["TG-SCHEMA-MISMATCH"], id="too few digits"),
        pytest.param("(k BIGINT, v CHAR(5))", {}, ["TG-SCHEMA-MISMATCH"], id="char pads"),
        pytest.param("(k BIGINT, v ENUM('a'))", {}, ["TG-SCHEMA-MISMATCH"], id="enum changes the case"),
        pytest.param("(k BIGINT AS (1) STORED, v TEXT)", {}, ["TG-SCHEMA-MISMATCH"], id="a generated column"),
        pytest.param("(k BIGINT, v TEXT) ENGINE=MyISAM", {}, ["TG-SINK-UNUSABLE"], id="MyISAM"),
        pytest.param("(k BIGINT, v TEXT) ENGINE={plain}", {}, ["TG-SINK-UNUSABLE"], id="plain engine"),
        pytest.param("(k BIGINT, v TEXT)", {"deleted": "v"}, ["TG-KEY-COLUMN", "TG-SCHEMA-MISMATCH"], id="no mark"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_before_the_start(
    place: Place, table: str, options: dict[str, Any], found: list[str]
) -> None:
    place.make(f"CREATE TABLE t {table.replace('{plain}', place.server.plain_engine)}")
    assert codes(place.sink(**options), pa.schema([("k", pa.int64()), ("v", pa.string())])) == found


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("FLOAT(7, 4)", pa.float32()),
        ("FLOAT", pa.float64()),
        ("DATETIME(3)", pa.timestamp("us")),
        ("TIMESTAMP(6) NULL", pa.timestamp("us")),
        ("TIME", pa.time64("us")),
        ("BIT(1)", pa.bool_()),
        ("BINARY(3)", pa.binary()),
        ("MEDIUMINT", pa.int32()),
        ("DECIMAL(10, 1)", pa.decimal128(10, 2)),
    ],
)
def test_a_column_that_would_change_values_is_refused(place: Place, column: str, kind: pa.DataType) -> None:
    place.make(f"CREATE TABLE t (v {column})")
    assert codes(place.sink(), pa.schema([("v", kind)])) == ["TG-SCHEMA-MISMATCH"]


def test_what_is_no_table_is_refused(place: Place) -> None:
    place.make("CREATE VIEW t AS SELECT 1 AS k, '' AS v")
    assert codes(place.sink(), KEYED) == ["TG-SCHEMA-MISMATCH"]


def test_everything_is_said_at_once_and_nothing_is_created(place: Place) -> None:
    schema = pa.schema(
        [
            *(("x" * 65, pa.int64()), ("_tidegate_row", pa.int64()), ("ends ", pa.int64())),
            *(("d", pa.duration("us")), ("e", pa.decimal128(38, 38)), ("E", pa.list_(pa.int64()))),
        ]
    )
    sink = place.sink(table="_tidegate_ledger", key=["k", "E"])
    wanted = ["TG-SINK-UNUSABLE", "TG-KEY-COLUMN", *["TG-SCHEMA-MISMATCH"] * 6, "TG-KEY-COLUMN"]
    assert codes(sink, schema, "complete") == wanted
    assert codes(place.sink(), schema, "complete")[0] == "TG-OUTPUT-MODE"
    assert place.tables() == []


@pytest.mark.parametrize("deleted", [None, "gone"])
def test_rows_that_only_the_server_can_test_are_found_each_by_itself(place: Place, deleted: str | None) -> None:
    """For a query with dead letters. Nothing of the trial stays, and what is left is taken."""
    place.make(
        "CREATE TABLE t (k BIGINT PRIMARY KEY CHECK (k < 100), j JSON, l VARCHAR(9) CHARACTER SET latin1,"
        " v VARCHAR(20) NOT NULL, CHECK (v <> 'bad'))"
    )
    schema = pa.schema([("k", pa.int64()), *((name, pa.string()) for name in "jlv"), ("gone", pa.bool_())])
    if deleted is None:
        schema = schema.remove(4)
    good: dict[str, Any] = {"j": "{}", "l": "ä", "v": "a", "gone": None}
    flaws: dict[int, dict[str, Any]] = {2: {"v": "bad"}, 3: {"j": "{"}, 7: {"l": "日"}, 8: {"v": None}}
    rows: list[dict[str, Any]] = [{"k": number, **good, **flaws.get(number, {})} for number in range(10)]
    rows.append({"k": 100, **good})
    gone_and_bad = {"k": 11, "j": None, "l": None, "v": "bad", "gone": True}
    batch = pa.RecordBatch.from_pylist([*rows, *([] if deleted is None else [gone_and_bad])], schema=schema)
    sink = place.sink(key="k", deleted=deleted)
    sink.open(plan(schema))
    assert [each.row for each in sink.refused(batch)] == [2, 3, 7, 8, 10]
    assert place.tables() == ["_tidegate_evidence", "_tidegate_ledger", "_tidegate_owners", "t"]
    kept = [row for number, row in enumerate(batch.to_pylist()) if number not in (2, 3, 7, 8, 10)]
    written(sink, schema, kept)
    assert place.rows("SELECT COUNT(*) FROM t") == [(6,)]


@pytest.mark.more
@BOTH_WAYS
def test_a_row_that_fits_into_no_statement_is_refused_with_its_number(place: Place, by_file: bool) -> None:
    """16 MiB in MariaDB by default, 64 in MySQL: a task must not find it at an INSERT, which would fail for ever."""
    [(longest,)] = place.rows("SELECT @@global.max_allowed_packet")
    short, long = longest * 7 // 16, longest * 9 // 16
    schema = pa.schema([("k", pa.int64()), ("v", pa.string()), ("b", pa.binary())])
    sink = place.sink(options={"local_infile": by_file})
    sink.open(plan(schema))
    fits = {"k": 1, "v": "'" * short, "b": b"\xff"}
    rows = [fits, {"k": 2, "v": "'" * long, "b": None}, {"k": 3, "v": "", "b": b"x" * long}]
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    assert [each.row for each in sink.refused(batch)] == [1, 2]
    with pytest.raises(RowRefused, match="max_allowed_packet"):
        prepared(sink, schema, rows)
    written(sink, schema, [fits])
    assert place.rows("SELECT k, LENGTH(v), HEX(b) FROM t") == [(1, short, "FF")]


# --- the session -----------------------------------------------------------------------------------------------


@BOTH_WAYS
def test_the_sink_sets_what_it_relies_on(place: Place, by_file: bool) -> None:
    """The defaults of this user's sessions would truncate, shift times, read old snapshots and hide rows."""
    defaults = {
        "sql_mode": "'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH'",
        "time_zone": "'+05:00'",
        place.server.isolation: "'SERIALIZABLE'",
        "sql_safe_updates": "1",
        "completion_type": "1",
        "autocommit": "0",
    }
    before = {name: place.rows(f"SELECT @@global.{name}")[0][0] for name in defaults}
    try:
        for name, value in defaults.items():
            place.make(f"SET GLOBAL {name} = {value}")
        schema = pa.schema([("k", pa.string()), ("at", pa.timestamp("us", "UTC")), ("v", pa.int64())])
        place.make("CREATE TABLE t (k VARCHAR(9) PRIMARY KEY, at TIMESTAMP(6) NULL, v BIGINT)")
        sink = place.sink(key="k", options={"local_infile": by_file})
        written(sink, schema, [{"k": "it's \\ \t\n", "at": 1_000_001, "v": 1}])
        written(sink, schema, [{"k": "it's \\ \t\n", "at": 1_000_001, "v": 2}], epoch=1)
    finally:
        for name, value in before.items():
            place.server.execute(f"SET GLOBAL {name} = %s", (value,))
    assert place.rows("SELECT k, at, v FROM t")[0][0::2] == ("it's \\ \t\n", 2)
    assert place.rows("SELECT UNIX_TIMESTAMP(at) FROM t") == [(Decimal("1.000001"),)]


def test_a_server_that_may_lose_commits_is_warned_about(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.sink().open(plan(KEYED))
    assert "innodb_flush_log_at_trx_commit=2" in caplog.text
    findings = place.sink().probe("sink", plan(KEYED))
    assert ["innodb_flush" in each.detail for each in findings] == [False, True]


# --- the commit ------------------------------------------------------------------------------------------------


def test_a_unique_index_that_is_broken_ends_the_job_and_the_epoch_waits(place: Place) -> None:
    place.make("CREATE TABLE t (k BIGINT UNIQUE, v TEXT)")
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    sink = place.sink()
    written(sink, schema, [{"k": 1, "v": "a"}])
    waiting = prepared(sink, schema, [{"k": 2, "v": "b"}, {"k": 1, "v": "c"}], epoch=1)
    with pytest.raises(TidegateError, match="Duplicate entry '1'") as raised:
        sink.commit([waiting])
    assert raised.value.code == "TG-ROW-CONFLICT"
    assert place.rows("SELECT k FROM t") == [(1,)]
    place.make("DELETE FROM t")
    assert [answer.outcome for answer in sink.commit([waiting])] == [Outcome.COMMITTED]


def test_a_table_that_changed_while_an_epoch_waits_is_waited_for(place: Place) -> None:
    sink, schema = place.sink(), pa.schema([("k", pa.int64()), ("v", pa.string())])
    sink.open(plan(schema))
    waiting = prepared(sink, schema, [{"k": 1, "v": "a"}])
    place.make("ALTER TABLE t DROP COLUMN v")
    (answer,) = sink.commit([waiting])
    assert (answer.outcome, "error 1054" in answer.detail) == (Outcome.RETRY, True)
    with pytest.raises(TidegateError, match="a table without 'v'") as raised:
        prepared(sink.in_epoch(-1), schema, [{"k": 2, "v": "b"}], epoch=1)  # pyright: ignore[reportArgumentType]
    assert raised.value.code == "TG-SCHEMA-MISMATCH"
    place.make("DROP TABLE t")
    assert sink.commit([waiting])[0].outcome is Outcome.RETRY
    sink.open(plan(schema))
    assert sink.commit([waiting])[0].outcome is Outcome.COMMITTED


def test_a_column_that_became_narrower_while_an_epoch_waits_changes_no_value(place: Place) -> None:
    """A decimal is rounded with a mere note, in strict mode too."""
    sink, schema = place.sink(), pa.schema([("d", pa.decimal128(10, 2))])
    sink.open(plan(schema))
    waiting = prepared(sink, schema, [{"d": Decimal("1.25")}])
    place.make("ALTER TABLE t MODIFY d DECIMAL(10, 1)")
    with pytest.raises(TidegateError, match="truncated") as raised:
        sink.commit([waiting])
    assert raised.value.code == "TG-ROW-CONFLICT"
    assert place.rows("SELECT * FROM t") == []


def test_a_stage_that_was_altered_is_lost_and_never_taken(place: Place) -> None:
    sink, schema = place.sink(), pa.schema([("k", pa.int64())])
    sink.open(plan(schema))
    kept, altered = (prepared(sink, schema, [{"k": task}], task=task) for task in range(2))
    place.make(f"DELETE FROM {altered.handle['stage']}")
    answers = sink.commit([altered, kept])
    assert [answer.outcome for answer in answers] == [Outcome.LOST, Outcome.RETRY]
    assert place.rows("SELECT * FROM t") == []


def test_the_ledger_stays_bounded_and_stages_of_dead_attempts_go(place: Place) -> None:
    sink, schema = place.sink(), pa.schema([("k", pa.int64())])
    sink.open(plan(schema))
    for epoch in range(3):
        prepared(sink, schema, [{"k": epoch}], epoch=epoch, task=9)  # an attempt that died
    sink.commit([prepared(sink, schema, [{"k": 0}], epoch=0)])
    place.make(
        "INSERT INTO _tidegate_ledger"
        " WITH RECURSIVE numbers AS (SELECT 0 AS seq UNION ALL SELECT seq + 1 FROM numbers WHERE seq < 148)"
        " SELECT owner, mine, job, query, sink, job_id, 0, seq, '', '', 'staged', 0 FROM _tidegate_ledger, numbers"
    )
    sink.commit([prepared(sink, schema, [{"k": 0}], epoch=1)])
    assert place.rows("SELECT COUNT(*), MIN(generation), MAX(epoch) FROM _tidegate_ledger") == [(100, 0, 148)]
    other = msgspec.structs.replace(IDENTITY, job_id="another")
    sink.clean(other, 99)
    assert len(place.stages()) == 5
    sink.clean(IDENTITY, 0)
    assert len(place.stages()) == 3
    assert sink.discard(IDENTITY, 2) == 1
    sink.clean(msgspec.structs.replace(IDENTITY, generation=2), -1)
    assert place.stages() == []


def test_an_attempt_that_fails_leaves_no_stage(place: Place) -> None:
    sink, schema = place.sink(), pa.schema([("k", pa.int64())])
    sink.open(plan(schema))
    transaction = sink.begin(attempt_of())
    transaction.write(pa.RecordBatch.from_pylist([{"k": 1}], schema=schema))
    assert len(place.stages()) == 1
    transaction.abort()
    assert place.stages() == []


def test_a_job_that_is_forgotten_leaves_its_rows_and_what_others_have(place: Place) -> None:
    sink, schema = place.sink(), pa.schema([("k", pa.int64())])
    written(sink, schema, [{"k": 1}])
    prepared(sink, schema, [{"k": 2}], epoch=1)
    other = msgspec.structs.replace(IDENTITY, query="another")
    foreign = sink.begin(msgspec.structs.replace(attempt_of(epoch=7), sink=other))
    foreign.write(pa.RecordBatch.from_pylist([{"k": 3}], schema=schema))
    committable = foreign.pre_commit()
    assert committable is not None
    sink.commit([committable])
    sink.forget(IDENTITY)
    sink.forget(IDENTITY)
    assert sink.position(IDENTITY) is None
    left = sink.position(other)
    assert left is not None
    assert left.epoch == 7
    assert place.stages() == [committable.handle["stage"]]
    assert place.rows("SELECT k FROM t ORDER BY k") == [(1,), (3,)]


def test_a_backup_that_holds_a_stage_holds_up_no_commit(place: Place) -> None:
    """mysqldump --single-transaction keeps the tables that it has read."""
    sink, schema = place.sink(), pa.schema([("k", pa.int64())])
    sink.open(plan(schema))
    committable = prepared(sink, schema, [{"k": 1}])
    login: dict[str, Any] = {"host": "127.0.0.1", "port": place.server.port, "user": USER, "password": PASSWORD}
    with pymysql.connect(database=place.database, **login) as backup:
        backup.cursor().execute(f"SELECT * FROM {quoted(committable.handle['stage'])}")
        assert sink.commit([committable])[0].outcome is Outcome.COMMITTED
        sink.clean(IDENTITY, 0)
        assert len(place.stages()) == 1
    sink.clean(IDENTITY, 0)
    assert place.stages() == []

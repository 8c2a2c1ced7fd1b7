"""Tables of all shapes under the PostgreSQL sink: upserts, deletions, names, partitions, generated columns, types."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import psycopg
import pyarrow as pa
import pytest

from tests.support.postgres import PostgresServer, quoted
from tests.support.staged import plan
from tidegate.core.errors import TidegateError
from tidegate.core.records import Committable, Outcome
from tidegate.sinks.postgres.sink import PostgresSink
from tidegate.sinks.rows import RowRefused
from tidegate.testing.contract import IDENTITY, attempt_of

Rows = Sequence[dict[str, Any]]
KEYED = pa.schema([("k", pa.int64()), ("v", pa.string()), ("gone", pa.bool_())])


@dataclasses.dataclass(frozen=True)
class Place:
    """A schema of a server."""

    server: PostgresServer
    schema: str

    def sink(self, **options: Any) -> PostgresSink:
        given: dict[str, Any] = {"table": "t", "schema": self.schema, **options}
        return PostgresSink("out", self.server.conninfo, **given)

    def make(self, statement: str) -> None:
        """Run a statement: `@` stands for the schema."""
        self.server.execute(statement.replace("@", quoted(self.schema)))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.server.execute(query.replace("@", quoted(self.schema)))

    def tables(self) -> list[str]:
        found = self.server.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (self.schema,))
        return sorted(name for (name,) in found)

    def stages(self) -> list[str]:
        return [name for name in self.tables() if name.startswith("_tidegate_stage_")]


@pytest.fixture
def place(postgres: PostgresServer) -> Place:
    return Place(postgres, postgres.schema())


def prepared(sink: PostgresSink, schema: pa.Schema, rows: Rows, *, epoch: int = 0, task: int = 0) -> Committable:
    transaction = sink.begin(attempt_of(epoch=epoch, task=task))
    try:
        transaction.write(pa.RecordBatch.from_pylist(list(rows), schema=schema))
        committable = transaction.pre_commit()
    except BaseException:
        transaction.abort()
        raise
    assert committable is not None
    return committable


def written(sink: PostgresSink, schema: pa.Schema, *tasks: Rows, epoch: int = 0) -> None:
    """One epoch of these tasks, checked, opened and committed; its stages are dropped."""
    assert [str(each) for each in sink.check(plan(schema))] == []
    sink.open(plan(schema))
    committables = [prepared(sink, schema, rows, epoch=epoch, task=task) for task, rows in enumerate(tasks)]
    assert {answer.outcome for answer in sink.commit(committables)} == {Outcome.COMMITTED}
    sink.clean(IDENTITY, epoch)


def keyed(k: int, v: str | None = None, *, gone: bool | None = None) -> dict[str, Any]:
    return {"k": k, "v": v, "gone": gone}


def codes(sink: PostgresSink, schema: pa.Schema, mode: str = "append") -> list[str]:
    return [error.code for error in sink.check(plan(schema, mode=mode))]


# --- keys and deletions --------------------------------------------------------------------------------------


def test_the_last_row_of_a_key_wins_in_the_order_of_tasks_and_rows(place: Place) -> None:
    sink = place.sink(key="k", deleted="gone")
    first = [keyed(1, "a"), keyed(1, "b"), keyed(2, "c"), keyed(3, "d"), keyed(3, gone=True)]
    second = [keyed(2, "e"), keyed(4, "f", gone=True), keyed(4, "g")]
    written(sink, KEYED, first, second)
    assert place.rows("SELECT k, v FROM @.t ORDER BY k") == [(1, "b"), (2, "e"), (4, "g")]
    written(sink, KEYED, [keyed(1, gone=True), keyed(9, gone=True)], [keyed(1, "back"), keyed(2, gone=True)], epoch=1)
    assert place.rows("SELECT k, v FROM @.t ORDER BY k") == [(1, "back"), (4, "g")]
    assert place.stages() == []


def test_a_row_that_deletes_needs_no_values_and_breaks_no_constraint(place: Place) -> None:
    place.make("CREATE TABLE @.t (k bigint PRIMARY KEY, v text NOT NULL CHECK (v <> ''))")
    sink = place.sink(key="k", deleted="gone")
    written(sink, KEYED, [keyed(1, "a"), keyed(2, "b")])
    written(sink, KEYED, [keyed(1, None, gone=True), keyed(2, "", gone=True), keyed(3, "c")], epoch=1)
    assert place.rows("SELECT k, v FROM @.t") == [(3, "c")]
    with pytest.raises(RowRefused, match="NOT NULL"):
        prepared(sink, KEYED, [keyed(4)], epoch=2)
    with pytest.raises(RowRefused, match="SQLSTATE 23514"):
        prepared(sink, KEYED, [keyed(4, "")], epoch=2)


def test_a_key_alone_and_keys_of_several_columns(place: Place) -> None:
    alone = pa.schema([("k", pa.int64())])
    written(place.sink(key="k"), alone, [{"k": 1}, {"k": 1}], [{"k": 1}])
    assert place.rows("SELECT k FROM @.t") == [(1,)]
    several = pa.schema([("a", pa.string()), ("b", pa.date32()), ("n", pa.int32())])
    sink = place.sink(table="u", key=["b", "a"])
    written(sink, several, [{"a": "x", "b": 0, "n": 0}], epoch=1)
    written(sink, several, [{"a": "x", "b": 0, "n": 1}, {"a": "y", "b": 0, "n": 2}], epoch=2)
    assert place.rows("SELECT a, n FROM @.u ORDER BY a") == [("x", 1), ("y", 2)]


# --- tables that exist -----------------------------------------------------------------------------------------


def test_names_of_any_kind(place: Place) -> None:
    names = ['a "quoted" name', "SELECT", "ünïcode", "a.b;--", "xmin ", "%s", " "]
    schema = pa.schema([(name, pa.int64()) for name in names])
    sink = place.sink(table='The "Table"; DROP', key=names[:2])
    written(sink, schema, [dict.fromkeys(names, 1)], [dict.fromkeys(names, 2)])
    assert place.rows('SELECT * FROM @."The ""Table""; DROP" ORDER BY 1') == [(1,) * 7, (2,) * 7]


def test_a_table_may_have_columns_that_fill_themselves(place: Place) -> None:
    place.make(
        "CREATE TABLE @.t (id bigint GENERATED ALWAYS AS IDENTITY, k int UNIQUE, at timestamptz NOT NULL DEFAULT now(),"
        " twice int GENERATED ALWAYS AS (k * 2) STORED, note text, state text DEFAULT 'new' CHECK (state IS NOT NULL))"
    )
    schema = pa.schema([("k", pa.int32())])
    written(place.sink(key="k"), schema, [{"k": 4}, {"k": 5}])
    written(place.sink(key="k"), schema, [{"k": 5}], epoch=1)
    assert place.rows("SELECT k, twice, note, state, at IS NULL FROM @.t ORDER BY k") == [
        (4, 8, None, "new", False),
        (5, 10, None, "new", False),
    ]


def test_partitions_and_a_row_without_one(place: Place) -> None:
    place.make("CREATE TABLE @.t (k bigint PRIMARY KEY, v text) PARTITION BY RANGE (k)")
    place.make("CREATE TABLE @.low PARTITION OF @.t FOR VALUES FROM (0) TO (10)")
    place.make("CREATE TABLE @.high PARTITION OF @.t FOR VALUES FROM (10) TO (20)")
    sink, schema = place.sink(key="k"), pa.schema([("k", pa.int64()), ("v", pa.string())])
    written(sink, schema, [{"k": 1, "v": "a"}, {"k": 11, "v": "b"}])
    assert (place.rows("SELECT k FROM @.low"), place.rows("SELECT k FROM @.high")) == ([(1,)], [(11,)])
    beyond = prepared(sink, schema, [{"k": 2, "v": "c"}, {"k": 99, "v": "d"}], epoch=1)
    with pytest.raises(TidegateError, match="no partition of relation") as raised:
        sink.commit([beyond])
    assert raised.value.code == "TG-ROW-CONFLICT"
    assert place.rows("SELECT count(*) FROM @.t") == [(2,)]
    place.make("CREATE TABLE @.rest PARTITION OF @.t DEFAULT")
    assert [answer.outcome for answer in sink.commit([beyond])] == [Outcome.COMMITTED]


def test_types_of_the_table_that_hold_the_values(place: Place) -> None:
    place.make("CREATE DOMAIN @.positive AS int CHECK (VALUE > 0)")
    place.make("CREATE TYPE @.mood AS ENUM ('sad', 'happy')")
    place.make(
        "CREATE TABLE @.t (i bigint, n numeric, d numeric(12, 4), f float8, s varchar(3), u uuid, j jsonb, x json,"
        " m @.mood, p @.positive, st text)"
    )
    schema = pa.schema(
        [
            *(("i", pa.int32()), ("n", pa.int64()), ("d", pa.decimal128(10, 2)), ("f", pa.float32())),
            *((name, pa.string()) for name in ("s", "u", "j", "x", "m")),
            *(("p", pa.int32()), ("st", pa.struct([("a", pa.int32())]))),
        ]
    )
    row: dict[str, Any] = {"i": -1, "n": 2**63 - 1, "d": Decimal("1.50"), "f": 0.5, "s": "äöü", "m": "happy", "p": 1}
    row |= {"u": "00000000-0000-0000-0000-00000000002a", "j": '{"b": [1]}', "x": "[ 1]", "st": {"a": 7}}
    written(place.sink(), schema, [row])
    found = place.rows("SELECT i, n, d, f, s, u::text, j::text, x::text, m::text, p, st FROM @.t")
    assert found == [
        *[(-1, Decimal(2**63 - 1), Decimal("1.5000"), 0.5, "äöü", row["u"], row["j"], row["x"], "happy", 1, '{"a":7}')]
    ]
    for name, value, refusal in (
        ("s", "long", "at most 3 characters"),
        ("u", "no uuid", "the text of a UUID"),
        ("j", "{", "SQLSTATE 22P02"),
        ("m", "angry", "SQLSTATE 22P02"),
        ("p", 0, "SQLSTATE 23514"),
    ):
        with pytest.raises(RowRefused, match=refusal):
            prepared(place.sink(), schema, [{**row, name: value}], epoch=1)


@pytest.mark.parametrize(
    ("table", "options", "found"),
    [
        pytest.param("(k bigint, v text)", {"key": "k"}, ["TG-KEY-COLUMN"], id="no unique index"),
        pytest.param(
            "(k bigint, v text, UNIQUE (k) DEFERRABLE)", {"key": "k"}, ["TG-KEY-COLUMN"], id="a deferred index"
        ),
        pytest.param("(k bigint)", {}, ["TG-SCHEMA-MISMATCH"], id="a column is missing"),
        pytest.param("(k bigint, v text, w int NOT NULL)", {}, ["TG-SCHEMA-MISMATCH"], id="a column without a value"),
        pytest.param("(k int, v text)", {}, ["TG-SCHEMA-MISMATCH"], id="too narrow"),
        pytest.param("(k numeric(10, 0), v text)", {}, ["TG-SCHEMA-MISMATCH"], id="too few digits"),
        pytest.param("(k bigint, v char(5))", {}, ["TG-SCHEMA-MISMATCH"], id="char pads"),
        pytest.param(
            "(k bigint GENERATED ALWAYS AS IDENTITY, v text)", {}, ["TG-SCHEMA-MISMATCH"], id="a generated column"
        ),
        pytest.param("(k bigint, v text)", {"deleted": "v"}, ["TG-KEY-COLUMN", "TG-SCHEMA-MISMATCH"], id="no mark"),
    ],
)
def test_a_table_that_does_not_fit_is_refused_before_the_start(
    place: Place, table: str, options: dict[str, Any], found: list[str]
) -> None:
    place.make(f"CREATE TABLE @.t {table}")
    assert codes(place.sink(**options), pa.schema([("k", pa.int64()), ("v", pa.string())])) == found


def test_what_is_no_table_is_refused(place: Place) -> None:
    place.make("CREATE VIEW @.t AS SELECT 1::bigint AS k, ''::text AS v")
    assert codes(place.sink(), KEYED) == ["TG-SCHEMA-MISMATCH"]


def test_a_table_that_a_crash_empties_is_refused(place: Place) -> None:
    place.make("CREATE UNLOGGED TABLE @.t (k bigint)")
    place.make("CREATE TABLE @.u (k bigint) PARTITION BY LIST (k)")
    place.make("CREATE UNLOGGED TABLE @.some PARTITION OF @.u FOR VALUES IN (1)")
    place.make("CREATE TABLE @.logged (k bigint)")
    schema = pa.schema([("k", pa.int64())])
    found = {table: codes(place.sink(table=table), schema) for table in ("t", "u", "logged")}
    assert found == {"t": ["TG-SINK-UNUSABLE"], "u": ["TG-SINK-UNUSABLE"], "logged": []}


def test_everything_is_said_at_once_and_nothing_is_created(place: Place) -> None:
    schema = pa.schema([("x" * 64, pa.int64()), ("_tidegate_row", pa.int64()), ("d", pa.duration("us"))])
    sink = place.sink(table="_tidegate_ledger", key="k")
    assert codes(sink, schema, "complete") == [
        *("TG-SINK-UNUSABLE", "TG-KEY-COLUMN", "TG-SCHEMA-MISMATCH", "TG-SCHEMA-MISMATCH", "TG-SCHEMA-MISMATCH")
    ]
    assert codes(place.sink(), schema, "complete")[0] == "TG-OUTPUT-MODE"
    assert place.tables() == []


@pytest.mark.parametrize("deleted", [None, "gone"])
def test_rows_that_only_the_server_can_test_are_found_each_by_itself(place: Place, deleted: str | None) -> None:
    """For a query with dead letters. Nothing of the trial stays, and what is left is taken."""
    place.make("CREATE TYPE @.mood AS ENUM ('sad', 'happy')")
    place.make("CREATE DOMAIN @.small AS bigint CHECK (VALUE < 100)")
    place.make("CREATE TABLE @.t (k @.small PRIMARY KEY, j jsonb, m @.mood, v text NOT NULL CHECK (v <> 'bad'))")
    schema = pa.schema([("k", pa.int64()), *((name, pa.string()) for name in "jmv"), ("gone", pa.bool_())])
    if deleted is None:
        schema = schema.remove(4)
    good: dict[str, Any] = {"j": "{}", "m": "sad", "v": "a", "gone": None}
    flaws: dict[int, dict[str, Any]] = {2: {"v": "bad"}, 3: {"j": "{"}, 7: {"m": "angry"}, 8: {"v": None}}
    rows: list[dict[str, Any]] = [{"k": number, **good, **flaws.get(number, {})} for number in range(10)]
    rows.append({"k": 100, **good})
    gone_and_bad = {"k": 11, "j": None, "m": None, "v": "bad", "gone": True}
    batch = pa.RecordBatch.from_pylist([*rows, *([] if deleted is None else [gone_and_bad])], schema=schema)
    sink = place.sink(key="k", deleted=deleted)
    sink.open(plan(schema))
    assert [each.row for each in sink.refused(batch)] == [2, 3, 7, 8, 10]
    assert place.tables() == ["_tidegate_evidence", "_tidegate_ledger", "_tidegate_owners", "t"]
    kept = [row for number, row in enumerate(batch.to_pylist()) if number not in (2, 3, 7, 8, 10)]
    written(sink, schema, kept)
    assert place.rows("SELECT count(*) FROM @.t") == [(6,)]


def test_a_key_that_is_too_long_for_the_index_is_refused_in_its_task(place: Place) -> None:
    """The index of the table would refuse it at the commit, for ever. One that can be compressed is taken."""
    schema = pa.schema([("k", pa.string()), ("v", pa.int64())])
    sink = place.sink(key="k")
    sink.open(plan(schema))
    rng = random.Random(1)
    too_long, fits = "".join(chr(rng.randrange(0x4E00, 0x9FFF)) for _ in range(3_000)), "a" * 9_000
    rows = [{"k": key, "v": 1} for key in ("short", too_long, fits)]
    with pytest.raises(RowRefused, match="SQLSTATE 54000"):
        prepared(sink, schema, rows)
    assert [each.row for each in sink.refused(pa.RecordBatch.from_pylist(rows, schema=schema))] == [1]
    written(sink, schema, [rows[0], rows[2]])
    assert place.rows("SELECT length(k) FROM @.t ORDER BY 1") == [(5,), (9000,)]


# --- the commit ------------------------------------------------------------------------------------------------


def test_a_unique_index_that_is_broken_ends_the_job_and_the_epoch_waits(place: Place) -> None:
    place.make("CREATE TABLE @.t (k bigint UNIQUE, v text)")
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    sink = place.sink()
    written(sink, schema, [{"k": 1, "v": "a"}])
    waiting = prepared(sink, schema, [{"k": 2, "v": "b"}, {"k": 1, "v": "c"}], epoch=1)
    with pytest.raises(TidegateError, match=r"Key \(k\)=\(1\) already exists") as raised:
        sink.commit([waiting])
    assert raised.value.code == "TG-ROW-CONFLICT"
    assert place.rows("SELECT k FROM @.t") == [(1,)]
    place.make("DELETE FROM @.t")
    assert [answer.outcome for answer in sink.commit([waiting])] == [Outcome.COMMITTED]


def test_a_table_that_changed_while_an_epoch_waits_is_waited_for(place: Place) -> None:
    sink, schema = place.sink(), pa.schema([("k", pa.int64()), ("v", pa.string())])
    sink.open(plan(schema))
    waiting = prepared(sink, schema, [{"k": 1, "v": "a"}])
    place.make("ALTER TABLE @.t DROP COLUMN v")
    (answer,) = sink.commit([waiting])
    assert (answer.outcome, "SQLSTATE 42703" in answer.detail) == (Outcome.RETRY, True)
    with pytest.raises(TidegateError, match="a table without 'v'") as raised:
        prepared(sink.in_epoch(-1), schema, [{"k": 2, "v": "b"}], epoch=1)  # pyright: ignore[reportArgumentType]
    assert raised.value.code == "TG-SCHEMA-MISMATCH"
    place.make("DROP TABLE @.t")
    assert sink.commit([waiting])[0].outcome is Outcome.RETRY
    sink.open(plan(schema))
    assert sink.commit([waiting])[0].outcome is Outcome.COMMITTED


def test_a_stage_that_was_altered_is_lost_and_never_taken(place: Place) -> None:
    sink, schema = place.sink(), pa.schema([("k", pa.int64())])
    sink.open(plan(schema))
    kept, altered = (prepared(sink, schema, [{"k": task}], task=task) for task in range(2))
    place.make(f"DELETE FROM @.{altered.handle['stage']}")
    answers = sink.commit([altered, kept])
    assert [answer.outcome for answer in answers] == [Outcome.LOST, Outcome.RETRY]
    assert place.rows("SELECT * FROM @.t") == []


def test_rows_that_a_trigger_leaves_out_are_not_missed(place: Place) -> None:
    sink, schema = place.sink(), pa.schema([("k", pa.int64())])
    sink.open(plan(schema))
    place.make(
        "CREATE FUNCTION @.even() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF NEW.k % 2 = 1 THEN RETURN NULL; END IF; RETURN NEW; END $$;"
        " CREATE TRIGGER even BEFORE INSERT ON @.t FOR EACH ROW EXECUTE FUNCTION @.even()"
    )
    tasks = [prepared(sink, schema, [{"k": 2 * task}, {"k": 2 * task + 1}], task=task) for task in range(2)]
    assert [answer.outcome for answer in sink.commit(tasks)] == [Outcome.COMMITTED] * 2
    assert place.rows("SELECT k FROM @.t ORDER BY k") == [(0,), (2,)]
    assert [answer.outcome for answer in sink.commit(tasks)] == [Outcome.ALREADY] * 2


def test_the_ledger_stays_bounded_and_stages_of_dead_attempts_go(place: Place) -> None:
    sink, schema = place.sink(), pa.schema([("k", pa.int64())])
    sink.open(plan(schema))
    for epoch in range(3):
        prepared(sink, schema, [{"k": epoch}], epoch=epoch, task=9)  # an attempt that died
    place.make(
        "INSERT INTO @._tidegate_ledger SELECT 'orders', 'by-day', 'numbers', '5f0c', 1, n - 150, '', '', 'staged'"
        " FROM generate_series(0, 148) n"
    )
    sink.commit([prepared(sink, schema, [{"k": 0}], epoch=0)])
    assert place.rows("SELECT count(*), max(epoch) FROM @._tidegate_ledger") == [(100, 0)]
    other = msgspec.structs.replace(IDENTITY, job_id="another")
    sink.clean(other, 99)
    assert len(place.stages()) == 4
    sink.clean(IDENTITY, 0)
    assert len(place.stages()) == 2
    assert sink.discard(IDENTITY, 2) == 1
    sink.clean(msgspec.structs.replace(IDENTITY, generation=2), -1)
    assert place.stages() == []


def test_a_job_that_is_forgotten_leaves_its_rows_and_what_others_have(place: Place) -> None:
    sink, schema = place.sink(), pa.schema([("k", pa.int64())])
    written(sink, schema, [{"k": 1}])
    prepared(sink, schema, [{"k": 2}], epoch=1)
    other = msgspec.structs.replace(IDENTITY, query="another")
    place.make("INSERT INTO @._tidegate_ledger SELECT 'orders', 'another', 'numbers', '5f0c', 1, 7, 'd', '', 'staged'")
    sink.forget(IDENTITY)
    sink.forget(IDENTITY)
    assert sink.position(IDENTITY) is None
    left = sink.position(other)
    assert left is not None
    assert left.epoch == 7
    assert place.stages() == []
    assert place.rows("SELECT k FROM @.t") == [(1,)]


def test_a_backup_that_holds_a_stage_holds_up_no_commit(place: Place) -> None:
    sink, schema = place.sink(), pa.schema([("k", pa.int64())])
    sink.open(plan(schema))
    committable = prepared(sink, schema, [{"k": 1}])
    with psycopg.connect(place.server.conninfo) as backup:
        backup.execute(f"LOCK TABLE {quoted(place.schema)}.{committable.handle['stage']} IN ACCESS SHARE MODE".encode())
        assert sink.commit([committable])[0].outcome is Outcome.COMMITTED
        sink.clean(IDENTITY, 0)
        assert len(place.stages()) == 1
    sink.clean(IDENTITY, 0)
    assert place.stages() == []

"""The SQLite sink beyond the contract: what it does with odd names, many tasks, faults and power losses."""

from __future__ import annotations

import resource
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from tests.support.fs_recorder import FsRecorder
from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Committable, Evidence, Outcome, epoch_digest
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.sqlite import disk as sqlite_disk
from tidegate.sinks.sqlite import ledger as sqlite_ledger
from tidegate.sinks.sqlite.ledger import LEDGER
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from


def plan(schema: pa.Schema = SCHEMA) -> SinkPlan:
    return SinkPlan(identity=IDENTITY, schema=schema, mode="append", local_master=True, read_journal=lambda _: [])


def opened(path: Path, *, table: str = "t", key: str | Sequence[str] | None = None, schema: pa.Schema = SCHEMA):
    sink = SQLiteSink("numbers", path, table=table, key=key)
    sink.open(plan(schema))
    return sink


def prepared(sink: SQLiteSink, batch: pa.RecordBatch, *, epoch: int = 0, task: int = 0, run: int = 1) -> Committable:
    transaction = sink.begin(attempt_of(epoch=epoch, task=task, run=run))
    transaction.write(batch)
    committable = transaction.pre_commit()
    assert committable is not None
    return committable


def outcomes(sink: SQLiteSink, *committables: Committable) -> list[Outcome]:
    return [answer.outcome for answer in sink.commit(committables)]


def query(path: Path, statement: str) -> list[tuple]:
    with closing(sqlite3.connect(path)) as reader:
        return reader.execute(statement).fetchall()


def staged(sink: SQLiteSink, committable: Committable) -> Path:
    return sink.stage.file(committable.attempt)


def table_of(**columns: list) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(columns)


# --- rows and names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tasks", [8, 9, 23])
def test_more_tasks_than_sqlite_attaches_arrive_in_task_order(tmp_path: Path, tasks: int) -> None:
    sink = opened(tmp_path / "t.db")
    committables = [prepared(sink, rows_from(100 - task, 2), task=task) for task in range(tasks)]
    assert outcomes(sink, *reversed(committables)) == [Outcome.COMMITTED] * tasks
    arrived = [number for (number,) in query(sink.path, "SELECT id FROM t ORDER BY rowid")]
    assert arrived == [(100 - task) * 1000 + row for task in range(tasks) for row in range(2)]
    left = {file.name for file in staged(sink, committables[0]).parent.iterdir()}
    assert left == {staged(sink, each).name for each in committables}


def test_any_name_will_do(tmp_path: Path) -> None:
    batch = table_of(**{'say "hi"; --': [1], "rowid": [2], "select": [3], "ä?%": [4]})
    table = 'a"b; DROP TABLE x'
    sink = opened(tmp_path / "we?ird #1 %20.db", table=table, key='say "hi"; --', schema=batch.schema)
    assert outcomes(sink, prepared(sink, batch)) == [Outcome.COMMITTED]
    assert not sink.check(plan(batch.schema))
    assert query(sink.path, 'SELECT * FROM "a""b; DROP TABLE x"') == [(1, 2, 3, 4)]


def test_more_columns_than_old_sqlite_takes_values(tmp_path: Path) -> None:
    batch = table_of(**{f"column {number}": [number, -number] for number in range(1200)})
    sink = opened(tmp_path / "t.db", schema=batch.schema)
    assert outcomes(sink, prepared(sink, batch)) == [Outcome.COMMITTED]
    assert query(sink.path, "SELECT * FROM t") == [
        tuple(range(1200)),
        tuple(-number for number in range(1200)),
    ]


def test_every_type_keeps_its_value(tmp_path: Path) -> None:
    moment = datetime(2026, 1, 31, 23, 59, 59, 1)  # noqa: DTZ001  a timestamp without zone
    values = {
        "long": (pa.int64(), 2**63 - 1, 2**63 - 1),
        "byte": (pa.int8(), -128, -128),
        "yes": (pa.bool_(), True, 1),
        "double": (pa.float64(), 0.1, 0.1),
        "infinite": (pa.float32(), float("-inf"), float("-inf")),
        "text": (pa.string(), "ä\0b", "ä\0b"),
        "large": (pa.large_string(), "x", "x"),
        "bytes": (pa.binary(), b"\0\xff", b"\0\xff"),
        "tiny": (pa.decimal128(38, 18), Decimal("0.000000000000000001"), "0.000000000000000001"),
        "price": (pa.decimal128(10, 2), Decimal("1.10"), "1.10"),
        "day": (pa.date32(), date(1, 1, 1), "0001-01-01"),
        "local": (pa.timestamp("us"), moment, "2026-01-31T23:59:59.000001"),
        "utc": (pa.timestamp("us", "UTC"), moment, "2026-01-31T23:59:59.000001Z"),
        "berlin": (
            pa.timestamp("us", "Europe/Berlin"),
            moment.replace(tzinfo=timezone.utc),
            "2026-01-31T23:59:59.000001Z",
        ),
        "ancient": (pa.timestamp("us"), moment.replace(year=1), "0001-01-31T23:59:59.000001"),
    }
    schema = pa.schema([pa.field(name, kind) for name, (kind, _, _) in values.items()])
    batch = pa.RecordBatch.from_pylist(
        [{name: given for name, (_, given, _) in values.items()}, dict.fromkeys(values)], schema=schema
    )
    sink = opened(tmp_path / "t.db", schema=schema)
    assert not sink.check(plan(schema))
    assert outcomes(sink, prepared(sink, batch)) == [Outcome.COMMITTED]
    assert query(sink.path, "SELECT * FROM t ORDER BY rowid") == [
        tuple(wanted for _, _, wanted in values.values()),
        (None,) * len(values),
    ]


def test_the_last_row_of_a_key_wins_over_rows_tasks_and_epochs(tmp_path: Path) -> None:
    first = table_of(k=["a", "b", "a"], v=[1, 2, 3])
    sink = opened(tmp_path / "t.db", key=["k"], schema=first.schema)
    tasks = [prepared(sink, first, task=0), prepared(sink, table_of(k=["b"], v=[4]), task=1)]
    assert outcomes(sink, tasks[1], tasks[0]) == [Outcome.COMMITTED] * 2
    assert query(sink.path, "SELECT k, v FROM t ORDER BY k") == [("a", 3), ("b", 4)]
    assert outcomes(sink, prepared(sink, table_of(k=["a"], v=[5]), epoch=1)) == [Outcome.COMMITTED]
    assert query(sink.path, "SELECT k, v FROM t ORDER BY k") == [("a", 5), ("b", 4)]


def test_a_table_of_keys_only_takes_a_key_once(tmp_path: Path) -> None:
    batch = table_of(k=["a", "a"])
    sink = opened(tmp_path / "t.db", key="k", schema=batch.schema)
    assert outcomes(sink, prepared(sink, batch)) == [Outcome.COMMITTED]
    assert query(sink.path, "SELECT * FROM t") == [("a",)]


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_row_without_key_fails_in_the_task_and_not_after_the_decision(tmp_path: Path, missing: float | None) -> None:
    batch = pa.RecordBatch.from_pydict({"k": pa.array([1.0, missing]), "v": pa.array([1, 2])})
    sink = opened(tmp_path / "t.db", key="k", schema=batch.schema)
    transaction = sink.begin(attempt_of())
    with pytest.raises(RowRefused, match="'k'"):
        transaction.write(batch)
    transaction.abort()


# --- the ledger --------------------------------------------------------------------------------------------


def test_the_ledger_row_proves_the_epoch_and_each_of_its_transactions(tmp_path: Path) -> None:
    sink = opened(tmp_path / "t.db")
    committables = [prepared(sink, rows_from(task, 1), epoch=7, task=task) for task in range(3)]
    sink.commit(committables)
    digests = "\n".join(sorted(committable.digest for committable in committables))
    row = ("orders", "by-day", "numbers", "5f0c", 1, 7, epoch_digest(committables), digests)
    assert query(sink.path, f"SELECT * FROM {LEDGER}") == [row]


def test_only_the_newest_rows_of_a_sink_are_kept_and_older_epochs_are_not_committed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_ledger, "KEPT_ROWS", 5)
    sink = opened(tmp_path / "t.db")
    epochs = [prepared(sink, rows_from(epoch, 1), epoch=epoch) for epoch in range(8)]
    for committable in epochs:
        assert outcomes(sink, committable) == [Outcome.COMMITTED]
    assert query(sink.path, f"SELECT count(*), min(epoch) FROM {LEDGER}") == [(5, 3)]
    assert sink.evidence(epochs[2]) is Evidence.UNKNOWN
    assert outcomes(sink, epochs[2]) == [Outcome.UNKNOWN]
    assert outcomes(sink, epochs[3]) == [Outcome.ALREADY]
    assert query(sink.path, "SELECT count(*) FROM t") == [(8,)]


def test_trimming_spares_the_other_sinks_of_the_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_ledger, "KEPT_ROWS", 1)
    sink = opened(tmp_path / "t.db")
    query_of_other = msgspec.structs.replace(IDENTITY, query="other")
    other = msgspec.structs.replace(attempt_of(), sink=query_of_other)
    transaction = sink.begin(other)
    transaction.write(rows_from(0, 1))
    of_other = transaction.pre_commit()
    assert of_other is not None
    sink.commit([of_other])
    for epoch in range(3):
        sink.commit([prepared(sink, rows_from(epoch, 1), epoch=epoch)])
    assert sink.evidence(of_other) is Evidence.PRESENT


def test_a_stale_finisher_is_told_that_a_later_epoch_is_there(tmp_path: Path) -> None:
    sink = opened(tmp_path / "t.db")
    stale = prepared(sink, rows_from(1, 1), epoch=1)
    sink.commit([prepared(sink, rows_from(2, 1), epoch=2)])
    (answer,) = sink.commit([stale])
    assert answer.outcome is Outcome.UNKNOWN
    assert "a later one is there (epoch 2 of generation 1)" in answer.detail
    assert sink.evidence(stale) is Evidence.UNKNOWN
    assert query(sink.path, "SELECT id FROM t") == [(2000,)]


def test_a_finisher_of_an_older_generation_commits_nothing(tmp_path: Path) -> None:
    sink = opened(tmp_path / "t.db")
    stale = prepared(sink, rows_from(1, 1), epoch=5)
    newer = sink.begin(attempt_of(generation=2, epoch=0))
    newer.write(rows_from(2, 1))
    committable = newer.pre_commit()
    assert committable is not None
    assert outcomes(sink, committable) == [Outcome.COMMITTED]
    assert outcomes(sink, stale) == [Outcome.UNKNOWN]


def test_a_job_that_has_moved_to_another_name_is_found_under_both_and_forgotten_under_both(tmp_path: Path):
    sink = opened(tmp_path / "out.db")
    moved = msgspec.structs.replace(IDENTITY, job="moved", generation=2)
    assert outcomes(sink, prepared(sink, rows_from(0, 2), epoch=5)) == [Outcome.COMMITTED]
    transaction = sink.begin(msgspec.structs.replace(attempt_of(epoch=6), sink=moved))
    transaction.write(rows_from(2, 2))
    further = transaction.pre_commit()
    assert further is not None
    assert outcomes(sink, further) == [Outcome.COMMITTED]
    for identity in (IDENTITY, moved):
        position = sink.position(identity)
        assert position is not None
        assert (position.generation, position.epoch) == (2, 6)
    assert outcomes(sink, prepared(sink, rows_from(2, 2), epoch=7)) == [Outcome.UNKNOWN], "its old driver, still alive"
    assert sink.position(msgspec.structs.replace(moved, job="third", job_id="another")) is None
    sink.forget(moved)
    assert sink.position(IDENTITY) is None


def test_another_job_under_the_same_name_is_another_timeline(tmp_path: Path) -> None:
    sink = opened(tmp_path / "t.db")
    theirs = msgspec.structs.replace(attempt_of(), sink=msgspec.structs.replace(IDENTITY, job_id="other"))
    transaction = sink.begin(theirs)
    transaction.write(rows_from(0, 1))
    committable = transaction.pre_commit()
    assert committable is not None
    sink.commit([committable])
    position = sink.position(IDENTITY)
    assert position is not None
    assert position.job_id == "other"
    ours = prepared(sink, rows_from(1, 1))
    assert outcomes(sink, ours) == [Outcome.UNKNOWN]
    assert sink.evidence(ours) is Evidence.OTHER


def test_a_part_of_an_epoch_is_not_the_epoch(tmp_path: Path) -> None:
    sink = opened(tmp_path / "t.db")
    tasks = [prepared(sink, rows_from(task, 1), task=task) for task in range(2)]
    sink.commit(tasks)
    assert outcomes(sink, tasks[0]) == [Outcome.UNKNOWN]
    assert sink.evidence(tasks[0]) is Evidence.PRESENT


# --- faults ------------------------------------------------------------------------------------------------


def test_a_busy_database_is_tried_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_disk, "BUSY_TIMEOUT_SECONDS", 0.01)
    sink = opened(tmp_path / "t.db")
    committable = prepared(sink, rows_from(0, 1))
    with closing(sqlite3.connect(sink.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        (answer,) = sink.commit([committable])
        other.execute("ROLLBACK")
    assert answer.outcome is Outcome.RETRY
    assert "locked" in answer.detail
    assert outcomes(sink, committable) == [Outcome.COMMITTED]


def test_a_lost_stage_is_said_and_its_siblings_wait(tmp_path: Path) -> None:
    sink = opened(tmp_path / "t.db")
    tasks = [prepared(sink, rows_from(task, 1), task=task) for task in range(2)]
    staged(sink, tasks[1]).unlink()
    answers = sink.commit(tasks)
    assert [answer.outcome for answer in answers] == [Outcome.RETRY, Outcome.LOST]
    assert "is gone" in answers[1].detail
    assert sink.evidence(tasks[1]) is Evidence.ABSENT
    assert query(sink.path, "SELECT * FROM t") == []


@pytest.mark.parametrize(("damage", "told"), [(b"", "bytes instead of"), (b"x", "another checksum")])
def test_a_torn_or_altered_stage_is_lost_and_not_read(tmp_path: Path, damage: bytes, told: str) -> None:
    sink = opened(tmp_path / "t.db")
    committable = prepared(sink, rows_from(0, 1))
    whole = staged(sink, committable).read_bytes()
    staged(sink, committable).write_bytes(whole[:-1] + damage)
    (answer,) = sink.commit([committable])
    assert answer.outcome is Outcome.LOST
    assert told in answer.detail


def test_a_stage_that_is_gone_after_the_commit_is_not_lost(tmp_path: Path) -> None:
    sink = opened(tmp_path / "t.db")
    committable = prepared(sink, rows_from(0, 1))
    sink.commit([committable])
    shutil.rmtree(sink.stage.root)
    assert outcomes(sink, committable) == [Outcome.ALREADY]


def test_a_target_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    sink = opened(tmp_path / "t.db")
    committable = prepared(sink, rows_from(0, 1))
    sink.path.rename(tmp_path / "elsewhere")
    assert outcomes(sink, committable) == [Outcome.RETRY]
    assert sink.evidence(committable) is Evidence.UNKNOWN
    assert sink.position(IDENTITY) is None
    assert not sink.path.exists()
    (tmp_path / "elsewhere").rename(sink.path)
    assert outcomes(sink, committable) == [Outcome.COMMITTED]


def test_a_target_that_is_no_database_is_left_alone(tmp_path: Path) -> None:
    sink = opened(tmp_path / "t.db")
    committable = prepared(sink, rows_from(0, 1))
    sink.path.write_text("a letter to my aunt" * 100)
    assert outcomes(sink, committable) == [Outcome.RETRY]
    assert sink.evidence(committable) is Evidence.UNKNOWN
    with pytest.raises(TidegateError, match="TG-SINK-UNUSABLE"):
        sink.position(IDENTITY)
    assert [error.code for error in sink.check(plan())] == ["TG-SINK-UNUSABLE"]


def test_a_constraint_of_the_users_table_takes_back_the_whole_epoch(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "t.db")) as owner:
        owner.execute("CREATE TABLE t (id INTEGER CHECK (id < 1000), word TEXT)")
    sink = opened(tmp_path / "t.db")
    tasks = [prepared(sink, rows_from(task, 2), task=task) for task in range(2)]
    with pytest.raises(TidegateError) as caught:
        sink.commit(tasks)
    assert caught.value.catalogue_entry is Code.ROW_CONFLICT
    assert query(sink.path, f"SELECT * FROM t, {LEDGER}") == []


def test_a_moved_folder_still_has_its_transactions(tmp_path: Path) -> None:
    committable = prepared(opened(tmp_path / "here" / "t.db"), rows_from(0, 1))
    (tmp_path / "here").rename(tmp_path / "there")
    assert outcomes(SQLiteSink("numbers", tmp_path / "there" / "t.db", table="t"), committable) == [Outcome.COMMITTED]


# --- the disk ----------------------------------------------------------------------------------------------


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """As on a full disk: no file of this process grows beyond this."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_fails_the_task_and_leaves_nothing_of_it(tmp_path: Path) -> None:
    sink = opened(tmp_path / "t.db")
    transaction = sink.begin(attempt_of())
    rows = rows_from(0, 200_000)  # more than SQLite holds back in memory
    with files_of_at_most(64 * 1024), pytest.raises(sqlite3.OperationalError):
        transaction.write(rows)
    transaction.abort()
    assert [file for file in sink.stage.root.rglob("*") if file.is_file()] == []


def test_a_full_disk_delays_the_commit_and_takes_nothing_half(tmp_path: Path) -> None:
    sink = opened(tmp_path / "t.db")
    tasks = [prepared(sink, rows_from(task, 20_000), task=task) for task in range(12)]
    with files_of_at_most(64 * 1024):
        assert outcomes(sink, *tasks) == [Outcome.RETRY] * 12
    assert query(sink.path, "SELECT count(*) FROM t") == [(0,)]
    assert outcomes(sink, *tasks) == [Outcome.COMMITTED] * 12
    assert query(sink.path, "SELECT count(DISTINCT id), count(*) FROM t") == [(31_000, 240_000)]


def test_what_is_prepared_is_synced_file_first_then_every_folder_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(tmp_path / "t.db")
    disk = FsRecorder(monkeypatch, below=tmp_path)
    committable = prepared(sink, rows_from(0, 1))
    file = staged(sink, committable)
    above = [folder for folder in file.parents if folder.is_relative_to(tmp_path)]
    assert disk.synced() == [file, *above]


def test_what_another_finisher_committed_is_synced_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(tmp_path / "t.db")
    committable = prepared(sink, rows_from(0, 1))
    with closing(sqlite3.connect(sink.path)) as reader:  # it keeps the write-ahead log in being
        reader.execute("PRAGMA journal_mode = WAL")
        reader.execute("SELECT * FROM t").fetchall()
        sink.commit([committable])
        assert rows_without_a_log(sink.path, tmp_path / "0") == [(0,)]
        disk = FsRecorder(monkeypatch, below=tmp_path)
        assert outcomes(sink, committable) == [Outcome.ALREADY]
        assert rows_without_a_log(sink.path, tmp_path / "1") == [(1,)], "the database itself was written and synced"
        assert disk.synced() == [tmp_path]
        second = prepared(sink, rows_from(1, 1), epoch=2)
        sink.commit([second])
        disk.forget()
        assert sink.evidence(second) is Evidence.PRESENT
        assert rows_without_a_log(sink.path, tmp_path / "2") == [(2,)]
        assert disk.synced() == [tmp_path]


def test_a_reader_that_holds_up_the_write_ahead_log_delays_what_another_finisher_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_disk, "BUSY_TIMEOUT_SECONDS", 0.01)
    sink = opened(tmp_path / "t.db")
    committable = prepared(sink, rows_from(0, 1))
    with closing(sqlite3.connect(sink.path, isolation_level=None)) as reader:
        reader.execute("PRAGMA journal_mode = WAL")
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM t").fetchall()
        sink.commit([committable])
        assert outcomes(sink, committable) == [Outcome.RETRY]
        reader.execute("COMMIT")
        assert outcomes(sink, committable) == [Outcome.ALREADY]


def rows_without_a_log(database: Path, copy: Path) -> list[tuple[int]]:
    """What a power loss that takes the write-ahead log would leave."""
    shutil.copy(database, copy)
    with closing(sqlite3.connect(copy)) as reader:
        return reader.execute("SELECT count(*) FROM t").fetchall()


def test_a_commit_syncs_the_folder_after_its_journal_is_gone(tmp_path: Path) -> None:
    with sqlite_disk.connected(opened(tmp_path / "t.db").path) as target:
        assert target.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA


def test_clean_up_finishes_what_a_killed_one_left(tmp_path: Path) -> None:
    sink = opened(tmp_path / "t.db")
    committable = prepared(sink, rows_from(0, 1), epoch=1)
    folder = staged(sink, committable).parent
    sink.commit([committable])
    folder.rename(folder.with_name("trash-e1-0badcafe"))
    sink.clean(IDENTITY, 1)
    assert list(folder.parent.iterdir()) == []

"""What a SQLite table demands of its rows: by themselves in the task, among each other at the commit."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import Committable, Evidence, Outcome
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.rows import RowRefused
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.testing.contract import IDENTITY, attempt_of

LETTERS = 'CREATE TABLE letters ("query" TEXT, sink TEXT, epoch INTEGER, code TEXT, reason TEXT, "row" TEXT)'


def rows(*pairs: tuple[int | None, str | None]) -> pa.RecordBatch:
    ids, words = zip(*pairs, strict=True)
    return pa.RecordBatch.from_pydict({"id": pa.array(ids, pa.int64()), "word": pa.array(words, pa.string())})


def over(path: Path, create: str, **options: Any) -> SQLiteSink:
    """A sink over an existing table `t`."""
    with closing(sqlite3.connect(path)) as target:
        target.execute(create)
        target.execute(LETTERS)
    sink = SQLiteSink("numbers", path, table="t", **options)
    if sink.on_conflict.value == "dead-letter":
        sink.conflicts_into = "letters"
    schema = rows((1, "a")).schema
    sink.open(SinkPlan(identity=IDENTITY, schema=schema, mode="append", local_master=True, read_journal=lambda _: []))
    sink.in_epoch(-1)
    return sink


def prepared(sink: SQLiteSink, *batches: pa.RecordBatch, epoch: int = 0) -> list[Committable]:
    """One task a batch."""
    found: list[Committable] = []
    for task, batch in enumerate(batches):
        transaction = sink.begin(attempt_of(epoch=epoch, task=task))
        transaction.write(batch)
        committable = transaction.pre_commit()
        assert committable is not None
        found.append(committable)
    return found


def outcomes(sink: SQLiteSink, committables: Sequence[Committable]) -> set[Outcome]:
    return {answer.outcome for answer in sink.commit(committables)}


def read(path: Path, statement: str = "SELECT id, word FROM t ORDER BY rowid") -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as target:
        return target.execute(statement).fetchall()


# --- by themselves -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("create", "bad", "found"),
    [
        ("CREATE TABLE t (id INTEGER, word TEXT NOT NULL)", (2, None), "a null"),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT NOT NULL DEFAULT 'x')", (2, None), "a null"),
        ("CREATE TABLE t (id INTEGER, word TEXT CHECK (length(word) < 4))", (2, "storm"), "CHECK constraint failed"),
        ("CREATE TABLE t (id INTEGER UNIQUE, word TEXT, CHECK (id < 9))", (10, "sea"), "CHECK constraint failed"),
        ("CREATE TABLE t (id INTEGER, Word TEXT NOT NULL, CHECK (id < 9))", (2, None), "a null"),
    ],
)
def test_a_row_that_the_table_never_takes_is_refused_in_its_task(
    tmp_path: Path, create: str, bad: tuple[int | None, str | None], found: str
) -> None:
    sink = over(tmp_path / "t.db", create)
    batch = rows((1, "sea"), bad, (3, "bay"))
    [refused] = sink.refused(batch)
    assert (refused.row, found in refused.found) == (1, True), refused
    with pytest.raises(RowRefused):
        sink.begin(attempt_of()).write(batch)
    good = rows((1, "sea"), (3, "bay"), (4, "cay"))
    assert not sink.refused(good)
    assert outcomes(sink, prepared(sink, good)) == {Outcome.COMMITTED}


def test_rows_with_one_key_and_what_the_table_fills_itself_are_not_refused(tmp_path: Path) -> None:
    create = "CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT NOT NULL ON CONFLICT REPLACE DEFAULT 'none')"
    sink = over(tmp_path / "t.db", create, key="id")
    batch = rows((1, "sea"), (1, "bay"), (2, None))
    assert not sink.refused(batch)
    assert outcomes(sink, prepared(sink, batch)) == {Outcome.COMMITTED}
    assert read(sink.path) == [(1, "bay"), (2, "none")]


def test_a_constraint_that_comes_while_the_job_runs_counts_from_the_next_epoch_on(tmp_path: Path) -> None:
    sink = over(tmp_path / "t.db", "CREATE TABLE t (id INTEGER, word TEXT)")
    with closing(sqlite3.connect(sink.path)) as target:
        target.executescript("DROP TABLE t; CREATE TABLE t (id INTEGER, word TEXT NOT NULL)")
    assert not sink.refused(rows((1, None)))
    sink.in_epoch(0)
    assert len(sink.refused(rows((1, None)))) == 1


# --- among each other --------------------------------------------------------------------------------------

UNIQUE = "CREATE TABLE t (id INTEGER, word TEXT UNIQUE)"
BATCHES = (rows((1, "sea"), (2, "bay")), rows((3, "sea"), (4, "cay")))


def test_a_broken_unique_ends_the_job_with_the_row_named_and_nothing_of_its_epoch_is_taken(tmp_path: Path) -> None:
    sink = over(tmp_path / "t.db", UNIQUE)
    committables = prepared(sink, *BATCHES)
    with pytest.raises(TidegateError) as caught:
        sink.commit(committables)
    assert caught.value.catalogue_entry is Code.ROW_CONFLICT
    assert "UNIQUE constraint failed: t.word" in caught.value.found
    assert '{"id":3,"word":"sea"}' in caught.value.found
    assert read(sink.path) == []
    assert sink.evidence(committables[0]) is Evidence.ABSENT


def test_a_changed_policy_applies_to_the_epoch_that_waits(tmp_path: Path) -> None:
    sink = over(tmp_path / "t.db", UNIQUE)
    committables = prepared(sink, *BATCHES)
    with pytest.raises(TidegateError):
        sink.commit(committables)
    changed = SQLiteSink("numbers", sink.path, table="t", on_conflict="ignore")
    assert outcomes(changed, committables) == {Outcome.COMMITTED}
    assert read(sink.path) == [(1, "sea"), (2, "bay"), (4, "cay")]


@pytest.mark.parametrize("policy", ["ignore", "dead-letter"])
def test_a_second_finisher_comes_to_the_same_rows_and_the_same_dead_letters(tmp_path: Path, policy: str) -> None:
    sink = over(tmp_path / "t.db", UNIQUE, on_conflict=policy)
    committables = prepared(sink, *BATCHES)
    assert outcomes(sink, committables) == {Outcome.COMMITTED}
    assert outcomes(sink, committables) == {Outcome.ALREADY}
    assert read(sink.path) == [(1, "sea"), (2, "bay"), (4, "cay")]
    letters = read(sink.path, "SELECT sink, epoch, code, reason, row FROM letters")
    if policy == "ignore":
        assert letters == []
        return
    [(name, epoch, code, reason, row)] = letters
    assert (name, epoch, code) == ("numbers", 0, Code.ROW_CONFLICT.label)
    assert reason == "UNIQUE constraint failed: t.word"
    assert json.loads(row) == {"id": 3, "word": "sea"}


def test_ignore_is_for_unique_alone(tmp_path: Path) -> None:
    """A CHECK that came between task and commit: the row is not left out in silence."""
    sink = over(tmp_path / "t.db", UNIQUE, on_conflict="ignore")
    committables = prepared(sink, rows((1, "sea"), (2, "storm")))
    with closing(sqlite3.connect(sink.path)) as target:
        target.executescript("DROP TABLE t; CREATE TABLE t (id INTEGER, word TEXT UNIQUE CHECK (length(word) < 4))")
    with pytest.raises(TidegateError) as caught:
        sink.commit(committables)
    assert "CHECK constraint failed" in caught.value.found
    assert "storm" in caught.value.found
    assert read(sink.path) == []


def test_another_unique_index_of_a_table_with_a_key_ends_the_job_too(tmp_path: Path) -> None:
    sink = over(tmp_path / "t.db", "CREATE TABLE t (id INTEGER PRIMARY KEY, word TEXT UNIQUE)", key="id")
    with pytest.raises(TidegateError) as caught:
        sink.commit(prepared(sink, *BATCHES))
    assert caught.value.catalogue_entry is Code.ROW_CONFLICT


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"on_conflict": "ignore", "key": "id"}, "no key"),
        ({"on_conflict": "dead-letter"}, "dead_letters=SQLiteSink"),
    ],
)
def test_a_policy_that_cannot_be_kept_is_refused_at_the_start(tmp_path: Path, options: Any, says: str) -> None:
    sink = SQLiteSink("numbers", tmp_path / "t.db", table="t", **options)
    schema = rows((1, "a")).schema
    plan = SinkPlan(identity=IDENTITY, schema=schema, mode="append", local_master=True, read_journal=lambda _: [])
    assert [says in error.expected for error in sink.check(plan)] == [True]

"""SQLite's own syncs fail, one descriptor after the other: no later look takes such a commit for durable."""

from __future__ import annotations

import gc
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.support.refused_syncs import refuse_syncs_of
from tests.support.today import sampled
from tidegate.core.records import Committable, Outcome
from tidegate.disk.durable import SyncFailed
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from

DESCRIPTORS = 6
"""The first free ones: the database, its journal or log, the stage, the folder."""


def opened(place: Path) -> SQLiteSink:
    sink = SQLiteSink("numbers", place / "t.db", table="t")
    sink.open(SinkPlan(identity=IDENTITY, schema=SCHEMA, mode="append", local_master=True, read_journal=lambda _: []))
    return sink


def prepared(sink: SQLiteSink) -> Committable:
    transaction = sink.begin(attempt_of())
    transaction.write(rows_from(0, 2))
    committable = transaction.pre_commit()
    assert committable is not None
    return committable


def first_free(count: int) -> list[int]:
    """The descriptors that the next opened files get. No object of an earlier test may close one meanwhile."""
    gc.collect()
    gc.disable()
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(count)]
    for descriptor in opened:
        os.close(descriptor)
    return opened


def end_in_a_fork(sink: SQLiteSink, committable: Committable, number: int, told: Path) -> None:
    """Commit three times in a process whose kernel refuses to sync the free descriptor of this number."""
    answers: list[str] = []
    refuse_syncs_of(first_free(DESCRIPTORS)[number])
    for _ in range(3):
        try:
            answers += [answer.outcome.value for answer in sink.commit([committable])]
        except SyncFailed:
            answers.append("SyncFailed")
    told.write_bytes(msgspec.json.encode(answers))


def answers_where(sink: SQLiteSink, committable: Committable, number: int, told: Path) -> list[str]:
    child = os.fork()
    if child == 0:
        try:
            end_in_a_fork(sink, committable, number, told)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    return msgspec.json.decode(told.read_bytes(), type=list[str])


def changes_of(database: Path) -> int:
    """How often the file was changed by a transaction, as its header says."""
    return int.from_bytes(database.read_bytes()[24:28], "big")


def rows_of(database: Path, copy: Path) -> int:
    """What the database holds without its journal and its log."""
    copy.write_bytes(database.read_bytes())
    with closing(sqlite3.connect(copy)) as reader:
        return reader.execute("SELECT count(*) FROM t").fetchone()[0]


@pytest.mark.parametrize(
    "mode", sampled([pytest.param(mode, id=mode) for mode in ("DELETE", "TRUNCATE", "PERSIST", "WAL")])
)
def test_a_commit_whose_sync_failed_is_no_commit_before_another_process_has_written_it_again(
    tmp_path: Path, mode: str
) -> None:
    seen: set[str] = set()
    for number in range(DESCRIPTORS):
        place = tmp_path / str(number)
        place.mkdir()
        sink = opened(place)
        committable = prepared(sink)
        with closing(sqlite3.connect(sink.path)) as setting:
            setting.execute(f"PRAGMA journal_mode = {mode}")
        first, *further = answers = answers_where(sink, committable, number, place / "told")
        seen.add(first)
        if "SyncFailed" in answers:
            after = answers[answers.index("SyncFailed") :]
            assert set(after) == {"SyncFailed"}, "the same process never comes to believe it"
        else:
            assert set(further) == {Outcome.ALREADY.value}

        before = changes_of(sink.path)
        (answer,) = sink.commit([committable])
        assert answer.outcome in (Outcome.COMMITTED, Outcome.ALREADY)
        assert rows_of(sink.path, place / "copy.db") == 2 or mode == "WAL"
        if first == "SyncFailed":
            assert changes_of(sink.path) > before or mode == "WAL", (
                "the look alone would have believed the memory of the machine"
            )
            if answer.outcome is Outcome.ALREADY:
                assert rows_of(sink.path, place / "copy.db") == 2, "the database has what only the log had"
    assert seen == {"SyncFailed", Outcome.COMMITTED.value}

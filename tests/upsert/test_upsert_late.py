"""Runs and tasks of the upsert sink that were paused, anywhere, and wake up beside their successors."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.pgbouncer import pooler
from tests.support.postgres import PostgresServer
from tests.support.today import turn
from tests.upsert.places import ALL, SERVERS, Place, batch_of, begun, opened, place_on, prepared, row
from tidegate.core.errors import TidegateError
from tidegate.core.records import Outcome
from tidegate.sinks.base import Transaction
from tidegate.sinks.sqlite import disk
from tidegate.sinks.stamps import place_of_run
from tidegate.sinks.upsert.fences import Fences, short_owner_of
from tidegate.sinks.upsert.sink import UpsertSink
from tidegate.sinks.upsert.stamps_table import StampsTable
from tidegate.testing.contract import IDENTITY, attempt_of
from tidegate.testing.contract_parts import processes

BEHIND_A_POOLER = [*SERVERS, pytest.param("pgbouncer", marks=pytest.mark.more)]
"""A run is ended by the process id of its backend: a pooler gives each transaction another one."""


@pytest.fixture(scope="module")
def pooled(postgres: PostgresServer) -> Iterator[int]:
    with pooler(postgres) as port:
        yield port


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return place_on(request.param, request, tmp_path)


class Stalled:
    """A task that stands still inside its transaction, with its locks, in a thread of its own."""

    def __init__(self, patch: pytest.MonkeyPatch, kind: type[Any], method: str) -> None:
        self._reached, self._go_on = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self.error: TidegateError | None = None
        original = getattr(kind, method)

        def stand_still(here: Any, *arguments: Any) -> Any:
            found = original(here, *arguments)
            if threading.current_thread() is self._thread:
                self._reached.set()
                assert self._go_on.wait(60)
            return found

        patch.setattr(kind, method, stand_still)

    def begin(self, transaction: Transaction, *rows: dict[str, Any]) -> None:
        self._thread = threading.Thread(target=self._prepare, args=(transaction, batch_of(rows)))
        self._thread.start()
        assert self._reached.wait(60)

    def resume(self) -> None:
        assert self._thread is not None
        self._go_on.set()
        self._thread.join(60)

    def _prepare(self, transaction: Transaction, batch: pa.RecordBatch) -> None:
        try:
            transaction.write(batch)
            transaction.pre_commit()
        except TidegateError as error:
            self.error = error
            transaction.abort()


@pytest.fixture(
    params=[
        pytest.param((Fences, "hold"), id="behind the look at the fence"),
        pytest.param((StampsTable, "stranger"), id="behind the stamps"),
        pytest.param((Fences, "mark"), id="before the commit"),
    ]
)
def stalled(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stalled]:
    found = Stalled(monkeypatch, *request.param)
    yield found
    found.resume()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("place", BEHIND_A_POOLER, indirect=True)
def test_a_task_that_stands_still_inside_its_transaction_is_ended_by_the_next_run(
    place: Place, stalled: Stalled
) -> None:
    """Otherwise the next run would wait for it; and without its lock it would write the key 9."""
    sink = opened(place)
    late = begun(sink, run=1)
    stalled.begin(late, row(1, "late"), row(9, "late"))
    prepared(sink, [row(1, "successor"), row(2, "successor")], run=2)
    stalled.resume()
    assert stalled.error is not None
    assert place.rows() == {1: "successor", 2: "successor"}
    assert place.stamps() == [1, 2]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("place", BEHIND_A_POOLER, indirect=True)
def test_a_driver_of_an_older_generation_is_ended_too(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its run and its epoch are later ones than those of the restored job."""
    stalled = Stalled(monkeypatch, StampsTable, "stranger")
    sink = opened(place)
    late = begun(sink, generation=1, run=9, epoch=7)
    stalled.begin(late, row(1, "late"), row(9, "late"))
    prepared(sink, [row(1, "restored")], generation=2, run=1, epoch=3)
    stalled.resume()
    assert stalled.error is not None
    assert place.rows() == {1: "restored"}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("place", BEHIND_A_POOLER, indirect=True)
def test_an_outdated_driver_ends_no_task_of_its_successor(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    stalled = Stalled(monkeypatch, Fences, "hold")
    sink = opened(place)
    task = begun(sink, run=5)
    stalled.begin(task, row(1, "x"))
    with sink.database.connected() as session:  # what it would do while it waits for the lock
        sink.database.end_writers(session, short_owner_of(IDENTITY), place_of_run(1, 4))
    stalled.resume()
    assert stalled.error is None
    assert place.rows() == {1: "x"}


@turn(3, of=4)
@pytest.mark.parametrize("place", ["mysql"], indirect=True)
def test_the_name_of_a_task_that_has_died_is_removed(place: Place) -> None:
    sink = opened(place)
    prepared(sink, [row(1, "x")])
    owner = short_owner_of(IDENTITY)
    place.execute(f"INSERT INTO @_tidegate_writers@ VALUES ('tidegate-dead', '{owner}', '0101')")
    sink.clean(IDENTITY, 0)
    assert place.execute("SELECT name FROM @_tidegate_writers@") == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_process_that_stands_still_with_the_lock_of_sqlite_is_named_by_the_start(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "BUSY_TIMEOUT_SECONDS", 0.2)
    stalled = Stalled(monkeypatch, StampsTable, "stranger")
    sink = opened(place)
    late = begun(sink, run=1)
    stalled.begin(late, row(1, "late"), row(9, "late"))
    with pytest.raises(TidegateError) as raised:
        sink.begin_run(IDENTITY, 2, attempt_of(run=2).run_token)
    assert (raised.value.code, "fuser" in raised.value.next_step) == ("TG-SINK-UNUSABLE", True)
    stalled.resume()
    prepared(sink, [row(1, "successor")], run=2)
    assert place.rows() == {1: "successor", 9: "late"}, "its transaction came first"


@pytest.mark.parametrize("place", ALL, indirect=True)
def test_a_commit_that_was_paused_leaves_no_evidence_behind_a_later_epoch(place: Place) -> None:
    sink = opened(place)
    first, second = (prepared(sink, [row(1, "x")], epoch=epoch) for epoch in (0, 1))
    assert [each.outcome for each in sink.commit([first])] == [Outcome.COMMITTED]
    assert [each.outcome for each in sink.commit([second])] == [Outcome.COMMITTED]
    assert [each.outcome for each in sink.commit([first])] == [Outcome.ALREADY]
    older = prepared(sink, [row(1, "y")], epoch=0, generation=2)
    assert [each.outcome for each in sink.commit([older])] == [Outcome.COMMITTED]
    (answer,) = sink.commit([second])
    assert answer.outcome in (Outcome.ALREADY, Outcome.UNKNOWN)
    position = sink.position(IDENTITY)
    assert position is not None
    assert (position.generation, position.epoch) == (2, 0)


# --- other processes -------------------------------------------------------------------------------------------


def write_for_ever(pipe: Connection, sink: UpsertSink) -> None:
    """Writes the same keys in one task after the other until it is refused; then sends the code of the error."""
    for tried in range(1_000_000):
        transaction = sink.begin(attempt_of(run=1, epoch=5, task_attempt=tried))
        try:
            transaction.write(batch_of([row(number, "paused") for number in range(200)]))
            transaction.pre_commit()
        except TidegateError as error:
            transaction.abort()
            pipe.send(error.code)
            return
        if tried == 3:
            pipe.send("writing")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("place", BEHIND_A_POOLER, indirect=True)
def test_a_process_that_is_stopped_while_it_writes_overwrites_nothing_of_its_successor(place: Place) -> None:
    """SIGSTOP strikes anywhere: also between a request and its answer."""
    sink = opened(place)
    assert sink.begin_run(IDENTITY, 1, attempt_of(run=1).run_token) is None
    mine, theirs = processes().Pipe()
    child = processes().Process(target=write_for_ever, args=(theirs, sink))
    child.start()
    assert mine.poll(60)
    assert mine.recv() == "writing"
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    prepared(sink, [row(number, "successor") for number in range(200)], epoch=5, run=2)
    wanted = place.rows()
    os.kill(child.pid, signal.SIGCONT)
    assert mine.poll(60)
    assert mine.recv() in ("TG-RUN-SUPERSEDED", "TG-SINK-UNUSABLE")
    child.join()
    assert place.rows() == wanted
    assert set(wanted.values()) == {"successor"}

"""PostgreSQL by prepared transactions: what is lost, ended by hand, paused, or asked for by two."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from tests.postgres.prepared_place import ROWS, PreparedPlace, task_of
from tests.support.postgres import PostgresServer, end_prepared, started
from tests.support.proxy import Proxy
from tests.support.staged import outcome, plan
from tidegate.core.errors import TidegateError
from tidegate.core.records import Answer, Committable, Evidence, Outcome
from tidegate.sinks.postgres import prepared_committer
from tidegate.sinks.postgres.evidence import EvidenceRows
from tidegate.sinks.postgres.ledger import Ledger
from tidegate.sinks.postgres.sink import PostgresSink
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from


@pytest.fixture
def place(preparing: PostgresServer) -> Iterator[PreparedPlace]:
    yield PreparedPlace(preparing, preparing.schema())
    end_prepared(preparing)


# --- what was ended by hand --------------------------------------------------------------------------------------


def test_a_transaction_that_an_administrator_rolled_back_is_lost_and_is_written_again(place: PreparedPlace) -> None:
    """That the server does not know it any more proves no commit."""
    sink = place.opened()
    committable = task_of(sink)
    place.roll_back_all()
    (answer,) = sink.commit([committable])
    assert (answer.outcome, place.count()) == (Outcome.LOST, 0)
    assert "no evidence of it" in answer.detail
    sink.fence(committable)
    assert sink.evidence(committable) is Evidence.ABSENT
    assert sink.redo(committable, [ROWS]).outcome is Outcome.COMMITTED
    assert sink.redo(committable, [ROWS]).outcome is Outcome.ALREADY
    assert outcome(sink, committable) is Outcome.ALREADY
    assert (place.count(), place.gids()) == (2, [])


@pytest.mark.parametrize("is_claimed", [False, True])
def test_a_transaction_that_an_administrator_committed_is_found_by_its_evidence(
    place: PreparedPlace, *, is_claimed: bool
) -> None:
    sink = place.opened()
    first, second = task_of(sink), task_of(sink, attempt_of(task=1), rows_from(2, 2))
    if is_claimed:
        place.roll_back(second)
        assert {each.outcome for each in sink.commit([first, second])} == {Outcome.COMMITTED, Outcome.LOST}
        second = task_of(sink, attempt_of(task=1), rows_from(2, 2))
        place.commit(second)
        assert sink.evidence(second) is Evidence.PRESENT
    else:
        place.commit(first)
        assert [sink.evidence(each) for each in (first, second)] == [Evidence.PRESENT, Evidence.ABSENT]
        assert [each.outcome for each in sink.commit([first, second])] == [Outcome.ALREADY, Outcome.COMMITTED]
    assert outcome(sink, first, second) is Outcome.ALREADY
    assert place.count() == 4


def test_the_position_is_proved_and_not_claimed(place: PreparedPlace) -> None:
    """A copy of the database from between the claim and the commits has less than the claim says."""
    sink = place.opened()
    assert outcome(sink, task_of(sink)) is Outcome.COMMITTED
    before = sink.position(IDENTITY)
    tasks = [task_of(sink, attempt_of(epoch=1, task=task), rows_from(5 + task, 2)) for task in range(2)]
    place.roll_back_all()
    assert outcome(sink, *tasks) is Outcome.LOST
    assert sink.position(IDENTITY) == before
    assert sink.redo(tasks[0], [rows_from(5, 2)]).outcome is Outcome.COMMITTED
    half = sink.position(IDENTITY)
    assert sink.redo(tasks[1], [rows_from(6, 2)]).outcome is Outcome.COMMITTED
    whole = sink.position(IDENTITY)
    found = [position for position in (before, half, whole) if position is not None]
    assert [each.epoch for each in found] == [0, 1, 1]
    assert half != whole


def test_an_epoch_that_nobody_claimed_is_not_published_by_a_redo(place: PreparedPlace) -> None:
    sink = place.opened()
    committable = task_of(sink)
    place.roll_back_all()
    assert sink.redo(committable, [ROWS]).outcome is Outcome.RETRY
    assert place.count() == 0
    assert outcome(sink, committable) is Outcome.COMMITTED


# --- answers and requests that are lost ----------------------------------------------------------------------------


def test_an_answer_to_commit_that_is_lost_is_settled_by_the_evidence(place: PreparedPlace) -> None:
    with Proxy(place.server.port) as proxy:
        sink = place.opened(options={"port": proxy.port})
        committable = task_of(sink)
        lost = proxy.lose_answer(b"COMMIT PREPARED")
        assert outcome(sink, committable) is Outcome.RETRY
        assert lost.struck == 1
        assert sink.evidence(committable) is Evidence.PRESENT
        assert outcome(sink, committable) is Outcome.ALREADY
    assert place.count() == 2


@pytest.mark.parametrize("request_", [b"BEGIN", b"_tidegate_ledger", b"COMMIT\0", b"COMMIT PREPARED"])
def test_a_commit_that_fails_is_never_taken_for_one(place: PreparedPlace, request_: bytes) -> None:
    with Proxy(place.server.port) as proxy:
        sink = place.opened(options={"port": proxy.port})
        committables = [task_of(sink, attempt_of(task=task), rows_from(task, 2)) for task in range(2)]
        proxy.lose_request(request_)
        assert outcome(sink, *committables) is Outcome.RETRY
        assert place.count() == 0
        assert outcome(sink, *committables) is Outcome.COMMITTED
    assert place.count() == 4


def test_rows_that_are_shown_straight_are_settled_in_the_same_way(place: PreparedPlace) -> None:
    with Proxy(place.server.port) as proxy:
        sink = place.opened(options={"port": proxy.port})
        committable = task_of(sink)
        proxy.lose_request(b"COMMIT PREPARED")
        assert [each.outcome for each in sink.commit_straight([committable])] == [Outcome.RETRY]
        assert place.count() == 0
        proxy.lose_answer(b"COMMIT PREPARED")
        assert [each.outcome for each in sink.commit_straight([committable])] == [Outcome.RETRY]
        assert [each.outcome for each in sink.commit_straight([committable])] == [Outcome.ALREADY]
    assert place.count() == 2
    assert place.sink().position(IDENTITY) is None, "a replayed epoch must not find its own evidence"


def test_a_pre_commit_whose_answer_is_lost_leaves_nothing_behind(place: PreparedPlace) -> None:
    with Proxy(place.server.port) as proxy:
        sink = place.opened(options={"port": proxy.port})
        transaction = sink.begin(attempt_of())
        transaction.write(ROWS)
        proxy.lose_answer(b"PREPARE TRANSACTION")
        with pytest.raises(TidegateError, match="TG-SINK-UNUSABLE"):
            transaction.pre_commit()
        assert len(place.gids()) == 1
        transaction.abort()
        assert place.gids() == []


# --- processes that were paused ------------------------------------------------------------------------------------


def test_a_writer_that_was_paused_is_ended_by_the_fence(place: PreparedPlace) -> None:
    """It has copied its rows and not prepared them, while another process writes the attempt from the journal."""
    sink = place.opened()
    committable = task_of(sink)
    place.roll_back_all()
    assert outcome(sink, committable) is Outcome.LOST
    paused = sink.begin(attempt_of())
    paused.write(ROWS)
    assert sink.redo(committable, [ROWS]).outcome is Outcome.COMMITTED
    with pytest.raises(TidegateError, match="SQLSTATE 57P01"):
        paused.pre_commit()
    paused.abort()
    assert (place.count(), place.gids()) == (2, [])


@pytest.mark.parametrize("is_connected", [False, True])
def test_a_writer_that_no_fence_has_found_cannot_write_the_rows_twice(
    place: PreparedPlace, monkeypatch: pytest.MonkeyPatch, *, is_connected: bool
) -> None:
    """The key of the evidence row keeps it out: it is needed for that, and the fence is not."""
    monkeypatch.setattr("tidegate.sinks.postgres.prepared._END_WRITERS", "SELECT 1 WHERE %s = ''")
    sink = place.opened()
    committable = task_of(sink)
    place.roll_back_all()
    assert outcome(sink, committable) is Outcome.LOST
    paused = sink.begin(attempt_of())
    if is_connected:
        paused.write(ROWS)
    assert sink.redo(committable, [ROWS]).outcome is Outcome.COMMITTED
    if not is_connected:
        paused.write(ROWS)
    with pytest.raises(TidegateError, match="another process has committed the attempt"):
        paused.pre_commit()
    paused.abort()
    assert (place.count(), place.gids()) == (2, [])


def test_a_writer_that_was_paused_just_before_it_prepares_keeps_the_next_one_waiting(
    place: PreparedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sinks.postgres.prepared._END_WRITERS", "SELECT 1 WHERE %s = ''")
    short_locks(monkeypatch)
    sink = place.opened()
    committable = task_of(sink)
    place.roll_back_all()
    assert outcome(sink, committable) is Outcome.LOST
    paused = sink.begin(attempt_of())
    paused.write(ROWS)
    with standing_still(monkeypatch, EvidenceRows, "record", paused.pre_commit) as resumed:
        assert sink.redo(committable, [ROWS]).outcome is Outcome.RETRY, "its own evidence row waits for the other one"
    assert len(resumed) == 1
    assert outcome(sink, committable) is Outcome.COMMITTED, "the paused writer has prepared the same rows"
    assert (place.count(), place.gids()) == (2, [])


def short_locks(patch: pytest.MonkeyPatch) -> None:
    short = "SELECT pg_catalog.set_config('lock_timeout', '200ms', true)"
    patch.setattr("tidegate.sinks.postgres.server._FOR_THIS_TRANSACTION", short)


@contextmanager
def standing_still(
    patch: pytest.MonkeyPatch, place: object, name: str, act: Callable[[], Any], *, behind: bool = True
) -> Iterator[list[Any]]:
    """`act` runs in a thread and stands still at a call of this function, during the block. Yields its results."""
    reached, go_on, found = threading.Event(), threading.Event(), list[Any]()
    original: Callable[..., Any] = getattr(place, name)

    def stand_still(*arguments: Any) -> Any:
        if threading.current_thread() is not thread:
            return original(*arguments)
        given = original(*arguments) if behind else None
        reached.set()
        assert go_on.wait(60)
        return given if behind else original(*arguments)

    thread = threading.Thread(target=lambda: found.append(act()))
    patch.setattr(place, name, stand_still)
    thread.start()
    assert reached.wait(60)
    try:
        yield found
    finally:
        go_on.set()
        thread.join(60)


def committing(sink: PostgresSink, committable: Committable) -> Callable[[], Answer]:
    return lambda: sink.commit([committable])[0]


def test_a_driver_that_was_paused_before_its_commit_finds_that_of_its_successor(
    place: PreparedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.opened()
    committable = task_of(sink)
    paused = committing(sink, committable)
    with standing_still(monkeypatch, prepared_committer, "commit_prepared", paused, behind=False) as answers:
        assert outcome(sink, committable) is Outcome.COMMITTED
    assert [each.outcome for each in answers] == [Outcome.ALREADY]
    assert place.count() == 2


def test_no_other_timeline_gets_between_the_claim_and_the_commit(
    place: PreparedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.opened()
    ours = task_of(sink, attempt_of(run=1))
    theirs = task_of(sink, attempt_of(run=2), rows_from(7, 2))
    with standing_still(
        monkeypatch, prepared_committer, "commit_prepared", committing(sink, ours), behind=False
    ) as answers:
        assert outcome(sink, theirs) is Outcome.UNKNOWN
        assert sink.evidence(theirs) is Evidence.OTHER
        assert sink.evidence(ours) is Evidence.ABSENT
    assert [each.outcome for each in answers] == [Outcome.COMMITTED]
    assert place.count() == 2


def test_a_driver_of_an_older_generation_that_was_paused_before_its_lock_commits_nothing(
    place: PreparedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.opened()
    old, new = task_of(sink, attempt_of(epoch=5)), task_of(sink, attempt_of(generation=2), rows_from(7, 2))
    with standing_still(monkeypatch, Ledger, "lock", committing(sink, old), behind=False) as answers:
        assert outcome(sink, new) is Outcome.COMMITTED
    assert [each.outcome for each in answers] == [Outcome.UNKNOWN]
    assert place.count() == 2


# --- retries and orphans -------------------------------------------------------------------------------------------


def test_a_retry_does_not_wait_for_its_own_orphan(place: PreparedPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither at the evidence, whose key has the attempt, nor at the entries of a unique index."""
    short_locks(monkeypatch)
    place.make("CREATE TABLE @.t (id bigint PRIMARY KEY, word text)")
    sink = place.opened()
    task_of(sink, attempt_of(task_attempt=0))
    again = task_of(sink, attempt_of(task_attempt=1))
    assert place.gids() == [again.handle["gid"]]
    assert outcome(sink, again) is Outcome.COMMITTED
    assert place.count() == 2


def test_what_stays_open_over_two_starts_of_epochs_is_aborted(
    place: PreparedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sinks.orphans.LOOK_FOR_ORPHANS_SECONDS", 0.0)
    sink = place.opened()
    task_of(sink)
    sink.in_epoch(0)
    assert len(place.gids()) == 1
    sink.in_epoch(1)
    assert place.gids() == []


def test_two_attempts_at_once_do_not_disturb_each_other(place: PreparedPlace) -> None:
    """As with speculation: the driver takes the committable of one of them."""
    sink = place.opened()
    first, second = (sink.begin(attempt_of(task_attempt=number)) for number in range(2))
    first.write(ROWS)
    second.write(ROWS)
    kept, loser = first.pre_commit(), second.pre_commit()
    assert kept is not None
    assert loser is not None
    assert outcome(sink, kept) is Outcome.COMMITTED
    assert sink.pending(IDENTITY) == [loser.handle["gid"]]
    sink.abort(sink.pending(IDENTITY))
    assert (place.count(), place.gids()) == (2, [])


# --- a server of its own -------------------------------------------------------------------------------------------


@pytest.mark.timeout(120)
def test_prepared_rows_outlive_the_server_and_room_that_is_used_up_fails_the_task() -> None:
    server = started(max_prepared_transactions="2")
    try:
        place = PreparedPlace(server, server.schema())
        sink = place.opened()
        committables = [task_of(sink, attempt_of(task=task), rows_from(task, 2)) for task in range(2)]
        with pytest.raises(TidegateError, match="SQLSTATE 53200") as raised:
            task_of(sink, attempt_of(task=2), rows_from(2, 2))
        assert raised.value.code == "TG-SINK-UNUSABLE"
        assert "max_prepared_transactions" in raised.value.next_step
        server.stop(signal.SIGQUIT)  # all its processes die; the next start recovers
        assert outcome(sink, *committables) is Outcome.RETRY
        assert sink.evidence(committables[0]) is Evidence.UNKNOWN
        server.resume()
        assert len(place.gids()) == 2
        assert outcome(sink, *committables) is Outcome.COMMITTED
        server.stop(signal.SIGQUIT)
        server.resume()
        assert outcome(sink, *committables) is Outcome.ALREADY
        assert place.count() == 4
        last = task_of(sink, attempt_of(epoch=1, task=2), rows_from(9, 2))
        assert outcome(sink, last) is Outcome.COMMITTED
    finally:
        server.remove()


# --- locks ---------------------------------------------------------------------------------------------------------


def test_a_table_that_another_session_has_locked_fails_the_task_in_time(
    place: PreparedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_locks(monkeypatch)
    sink = place.opened()
    with psycopg.connect(place.server.conninfo) as other:
        other.execute(f"""LOCK TABLE "{place.schema.replace('"', '""')}".t""".encode())
        with pytest.raises(TidegateError, match="SQLSTATE 55P03") as raised:
            task_of(sink)
    assert "pg_locks" in raised.value.next_step
    assert outcome(sink, task_of(sink)) is Outcome.COMMITTED


def test_two_tasks_with_the_same_value_of_a_unique_index_fail_in_time(
    place: PreparedPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second waits for the first, whose commit waits for the second: so `key` is refused for this protocol."""
    short_locks(monkeypatch)
    place.make("CREATE TABLE @.t (id bigint PRIMARY KEY, word text)")
    sink = place.opened()
    task_of(sink)
    with pytest.raises(TidegateError, match="SQLSTATE 55P03") as raised:
        task_of(sink, attempt_of(task=1))
    assert "unique index" in raised.value.next_step
    for options in ({"key": "id"}, {"key": "id", "deleted": "gone"}):
        (violation,) = place.sink(table="u", **options).check(plan(SCHEMA.append(pa.field("gone", pa.bool_()))))
        assert violation.code == "TG-KEY-COLUMN"
        assert "'staged' replaces" in violation.next_step

"""MySQL by XA: what is lost, ended by hand, paused, or asked for by two."""

from __future__ import annotations

import dataclasses
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pymysql
import pytest

from tests.mysql.test_mysql_tables import Place
from tests.support.mariadb import MariaDBServer, started
from tests.support.proxy import Proxy
from tests.support.staged import outcome, plan
from tidegate.core.errors import TidegateError
from tidegate.core.records import Answer, Attempt, Committable, Evidence, Outcome
from tidegate.sinks.mysql import xa_committer
from tidegate.sinks.mysql.evidence import BranchEvidence
from tidegate.sinks.mysql.ledger import MySQLLedger
from tidegate.sinks.mysql.server import LOCK_SECONDS
from tidegate.sinks.mysql.sink import MySQLSink
from tidegate.sinks.mysql.xids import Xid
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from

ROWS = rows_from(1, 2)


@dataclasses.dataclass(frozen=True)
class XaPlace(Place):
    """Its sinks are by XA, unless the options say otherwise."""

    def sink(self, *, options: dict[str, Any] | None = None, **others: Any) -> MySQLSink:
        return super().sink(options=options, **{"protocol": "xa", **others})

    def opened(self, **options: Any) -> MySQLSink:
        sink = self.sink(**options)
        sink.open(plan(SCHEMA))
        return sink

    def end(self, committable: Committable, verb: str) -> None:
        """By hand."""
        xid = Xid.parsed_text(committable.handle["gid"])
        assert xid is not None
        self.server.execute(f"XA {verb} {xid.in_sql}")

    def count(self) -> int:
        ((count,),) = self.rows("SELECT COUNT(*) FROM t")
        return count


@pytest.fixture
def place(mariadb: MariaDBServer) -> Iterator[XaPlace]:
    yield XaPlace(mariadb, mariadb.database())
    mariadb.end_branches()


def task_of(sink: MySQLSink, attempt: Attempt | None = None, rows: pa.RecordBatch = ROWS) -> Committable:
    """The committable of one task."""
    transaction = sink.begin(attempt or attempt_of())
    try:
        transaction.write(rows)
        committable = transaction.pre_commit()
    except BaseException:
        transaction.abort()
        raise
    assert committable is not None
    return committable


# --- what was ended by hand --------------------------------------------------------------------------------------


def test_a_branch_that_an_administrator_rolled_back_is_lost_and_is_written_again(place: XaPlace) -> None:
    """That the server does not know it any more proves no commit."""
    sink = place.opened()
    committable = task_of(sink)
    place.end(committable, "ROLLBACK")
    (answer,) = sink.commit([committable])
    assert (answer.outcome, place.count()) == (Outcome.LOST, 0)
    assert "no evidence of it" in answer.detail
    sink.fence(committable)
    assert sink.evidence(committable) is Evidence.ABSENT
    assert sink.redo(committable, [ROWS]).outcome is Outcome.COMMITTED
    assert sink.redo(committable, [ROWS]).outcome is Outcome.ALREADY
    assert outcome(sink, committable) is Outcome.ALREADY
    assert (place.count(), place.server.branches()) == (2, [])


def test_a_branch_that_an_administrator_committed_is_found_by_its_evidence(place: XaPlace) -> None:
    sink = place.opened()
    first, second = task_of(sink), task_of(sink, attempt_of(task=1), rows_from(2, 2))
    place.end(first, "COMMIT")
    assert [sink.evidence(each) for each in (first, second)] == [Evidence.PRESENT, Evidence.ABSENT]
    assert [each.outcome for each in sink.commit([first, second])] == [Outcome.ALREADY, Outcome.COMMITTED]
    assert outcome(sink, first, second) is Outcome.ALREADY
    assert place.count() == 4


def test_the_position_is_proved_and_not_claimed(place: XaPlace) -> None:
    """A copy of the database from between the claim and the commits has less than the claim says."""
    sink = place.opened()
    assert outcome(sink, task_of(sink)) is Outcome.COMMITTED
    before = sink.position(IDENTITY)
    tasks = [task_of(sink, attempt_of(epoch=1, task=task), rows_from(5 + task, 2)) for task in range(2)]
    for each in tasks:
        place.end(each, "ROLLBACK")
    assert outcome(sink, *tasks) is Outcome.LOST
    assert sink.position(IDENTITY) == before
    assert sink.redo(tasks[0], [rows_from(5, 2)]).outcome is Outcome.COMMITTED
    half = sink.position(IDENTITY)
    assert sink.redo(tasks[1], [rows_from(6, 2)]).outcome is Outcome.COMMITTED
    whole = sink.position(IDENTITY)
    found = [position for position in (before, half, whole) if position is not None]
    assert [each.epoch for each in found] == [0, 1, 1]
    assert half != whole


def test_an_epoch_that_nobody_claimed_is_not_published_by_a_redo(place: XaPlace) -> None:
    sink = place.opened()
    committable = task_of(sink)
    place.end(committable, "ROLLBACK")
    assert sink.redo(committable, [ROWS]).outcome is Outcome.RETRY
    assert place.count() == 0
    assert outcome(sink, committable) is Outcome.COMMITTED


# --- answers and requests that are lost ----------------------------------------------------------------------------


def test_an_answer_to_commit_that_is_lost_is_settled_by_the_evidence(place: XaPlace) -> None:
    with Proxy(place.server.port) as proxy:
        sink = place.opened(options={"port": proxy.port})
        committable = task_of(sink)
        lost = proxy.lose_answer(b"XA COMMIT")
        assert outcome(sink, committable) is Outcome.RETRY
        assert lost.struck == 1
        assert sink.evidence(committable) is Evidence.PRESENT
        assert outcome(sink, committable) is Outcome.ALREADY
    assert place.count() == 2


@pytest.mark.parametrize(
    "request_", [b"START TRANSACTION", b"INSERT INTO _tidegate_ledger", b"\x03COMMIT", b"XA COMMIT"]
)
def test_a_commit_that_fails_is_never_taken_for_one(place: XaPlace, request_: bytes) -> None:
    with Proxy(place.server.port) as proxy:
        sink = place.opened(options={"port": proxy.port})
        committables = [task_of(sink, attempt_of(task=task), rows_from(task, 2)) for task in range(2)]
        proxy.lose_request(request_)
        assert outcome(sink, *committables) is Outcome.RETRY
        assert place.count() == 0
        assert outcome(sink, *committables) is Outcome.COMMITTED
    assert place.count() == 4


def test_a_pre_commit_whose_answer_is_lost_leaves_nothing_behind(place: XaPlace) -> None:
    with Proxy(place.server.port) as proxy:
        sink = place.opened(options={"port": proxy.port})
        transaction = sink.begin(attempt_of())
        transaction.write(ROWS)
        proxy.lose_answer(b"XA PREPARE")
        with pytest.raises(TidegateError, match="TG-SINK-UNUSABLE"):
            transaction.pre_commit()
        assert len(place.server.branches()) == 1
        transaction.abort()
        assert place.server.branches() == []


# --- processes that were paused ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_connected", [False, True])
def test_a_writer_that_was_paused_cannot_write_the_rows_twice(place: XaPlace, *, is_connected: bool) -> None:
    """While another process writes the attempt from the journal: the key of the evidence row keeps it out."""
    sink = place.opened()
    committable = task_of(sink)
    place.end(committable, "ROLLBACK")
    assert outcome(sink, committable) is Outcome.LOST
    paused = sink.begin(attempt_of())
    if is_connected:
        paused.write(ROWS)
        assert sink.redo(committable, [ROWS]).outcome is Outcome.RETRY, "the paused session has the identifier"
        assert place.count() == 0
        again = paused.pre_commit()
        assert again is not None
        assert outcome(sink, committable) is Outcome.COMMITTED, "it has prepared the same rows under the same name"
    else:
        assert sink.redo(committable, [ROWS]).outcome is Outcome.COMMITTED
        paused.write(ROWS)
        with pytest.raises(TidegateError, match="another process has committed the attempt"):
            paused.pre_commit()
        paused.abort()
    assert (place.count(), place.server.branches()) == (2, [])


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


def committing(sink: MySQLSink, committable: Committable) -> Callable[[], Answer]:
    return lambda: sink.commit([committable])[0]


def test_a_driver_that_was_paused_before_its_commit_finds_that_of_its_successor(
    place: XaPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.opened()
    committable = task_of(sink)
    paused = committing(sink, committable)
    with standing_still(monkeypatch, xa_committer, "commit_branch", paused, behind=False) as answers:
        assert outcome(sink, committable) is Outcome.COMMITTED
    assert [each.outcome for each in answers] == [Outcome.ALREADY]
    assert place.count() == 2


def test_no_other_timeline_gets_between_the_claim_and_the_commit(
    place: XaPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.opened()
    ours = task_of(sink, attempt_of(run=1))
    theirs = task_of(sink, attempt_of(run=2), rows_from(7, 2))
    with standing_still(monkeypatch, xa_committer, "commit_branch", committing(sink, ours), behind=False) as answers:
        assert outcome(sink, theirs) is Outcome.UNKNOWN
        assert sink.evidence(theirs) is Evidence.OTHER
        assert sink.evidence(ours) is Evidence.ABSENT
    assert [each.outcome for each in answers] == [Outcome.COMMITTED]
    assert place.count() == 2


def test_a_driver_of_an_older_generation_that_was_paused_before_its_lock_commits_nothing(
    place: XaPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.opened()
    old, new = task_of(sink, attempt_of(epoch=5)), task_of(sink, attempt_of(generation=2), rows_from(7, 2))
    with standing_still(monkeypatch, MySQLLedger, "lock", committing(sink, old), behind=False) as answers:
        assert outcome(sink, new) is Outcome.COMMITTED
    assert [each.outcome for each in answers] == [Outcome.UNKNOWN]
    assert place.count() == 2


def test_a_writer_that_was_paused_just_before_it_prepares_keeps_the_next_one_waiting(
    place: XaPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.opened()
    committable = task_of(sink)
    place.end(committable, "ROLLBACK")
    assert outcome(sink, committable) is Outcome.LOST
    paused = sink.begin(attempt_of())
    paused.write(ROWS)
    with standing_still(monkeypatch, BranchEvidence, "record", paused.pre_commit) as resumed:
        assert sink.redo(committable, [ROWS]).outcome is Outcome.RETRY
    assert len(resumed) == 1
    assert outcome(sink, committable) is Outcome.COMMITTED, "the paused writer has prepared the same rows"
    assert (place.count(), place.server.branches()) == (2, [])


# --- retries and orphans -------------------------------------------------------------------------------------------


def test_a_branch_that_a_dead_attempt_left_prepared_holds_up_no_cleaning(place: XaPlace) -> None:
    """It locks its evidence. The driver rolls it back at one of the next epochs; the cleaning comes before that."""
    sink = place.opened()
    task_of(sink, attempt_of(task=9))
    assert outcome(sink, task_of(sink)) is Outcome.COMMITTED
    began = time.monotonic()
    sink.clean(IDENTITY, 0)
    assert time.monotonic() - began < LOCK_SECONDS / 2, "an epoch waits for no lock that it does not need"


def test_a_retry_does_not_wait_for_its_own_orphan(place: XaPlace) -> None:
    """Neither at the evidence, whose key has the attempt, nor at the entries of a unique index."""
    place.make("CREATE TABLE t (id BIGINT PRIMARY KEY, word TEXT)")
    sink = place.opened()
    task_of(sink, attempt_of(task_attempt=0))
    again = task_of(sink, attempt_of(task_attempt=1))
    assert sink.pending(IDENTITY) == [again.handle["gid"]]
    assert outcome(sink, again) is Outcome.COMMITTED
    assert place.count() == 2


def test_what_stays_open_over_two_starts_of_epochs_is_aborted(place: XaPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.sinks.orphans.LOOK_FOR_ORPHANS_SECONDS", 0.0)
    sink = place.opened()
    task_of(sink)
    sink.in_epoch(0)
    assert len(place.server.branches()) == 1
    sink.in_epoch(1)
    assert place.server.branches() == []


def test_what_others_have_prepared_is_left_alone(place: XaPlace) -> None:
    """Also under a name that begins as ours does, and what is no text."""
    sink = place.opened()
    mine = task_of(sink)
    xid = Xid.parsed_text(mine.handle["gid"])
    assert xid is not None
    for other in (f"'{xid.gtrid}','{xid.bqual}0',1", f"'{xid.gtrid}0','{xid.bqual}',{0x7469}", "X'ff00','x',7"):
        prepare(place.server, other)
    assert sink.pending(IDENTITY) == [mine.handle["gid"]]
    sink.abort(sink.pending(IDENTITY))
    assert len(place.server.branches()) == 3


def prepare(server: MariaDBServer, xid: str) -> None:
    login: dict[str, Any] = {"host": "127.0.0.1", **server.options()}
    with pymysql.connect(**login) as connection, connection.cursor() as cursor:
        for statement in (f"XA START {xid}", f"XA END {xid}", f"XA PREPARE {xid}"):
            cursor.execute(statement)


def test_two_attempts_at_once_do_not_disturb_each_other(place: XaPlace) -> None:
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
    assert (place.count(), place.server.branches()) == (2, [])


# --- a server of its own -------------------------------------------------------------------------------------------


@pytest.mark.more
@pytest.mark.timeout(120)
def test_prepared_rows_outlive_the_server() -> None:
    server = started()
    try:
        place = XaPlace(server, server.database())
        sink = place.opened()
        committables = [task_of(sink, attempt_of(task=task), rows_from(task, 2)) for task in range(2)]
        server.stop(signal.SIGKILL)
        assert outcome(sink, *committables) is Outcome.RETRY
        assert sink.evidence(committables[0]) is Evidence.UNKNOWN
        server.resume()
        assert len(server.branches()) == 2
        assert outcome(sink, *committables) is Outcome.COMMITTED
        server.stop(signal.SIGKILL)
        server.resume()
        assert outcome(sink, *committables) is Outcome.ALREADY
        assert place.count() == 4
    finally:
        server.remove()


# --- what is refused -----------------------------------------------------------------------------------------------


def test_a_key_is_refused(place: XaPlace) -> None:
    """Of two tasks with one key the second would wait for the first one's commit, which waits for the second."""
    schema = SCHEMA.append(pa.field("gone", pa.bool_()))
    refused: list[dict[str, Any]] = [{"key": "id"}, {"key": "id", "deleted": "gone"}]
    for options in refused:
        (violation,) = place.sink(**options).check(plan(schema))
        assert violation.code == "TG-KEY-COLUMN"
        assert "'staged' replaces" in violation.next_step
    with pytest.raises(TidegateError, match="protocol='xb'"):
        place.sink(protocol="xb")


def test_an_attempt_with_a_long_name_has_an_identifier_that_fits(place: XaPlace) -> None:
    sink = place.opened()
    attempt = attempt_of(run=10**9, epoch=10**12, task=10**6, task_attempt=10**6)
    long = Xid.of(sink, attempt)
    assert len(long.bqual) <= 64
    assert Xid.parsed_text(str(long)) == long
    assert outcome(sink, task_of(sink, attempt)) is Outcome.COMMITTED

"""The MySQL sink: drivers that pause, answers that are lost, servers that are down, logins that fail."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.mysql.test_mysql_tables import Place
from tests.support.mariadb import PASSWORD, MariaDBServer, started
from tests.support.proxy import Proxy
from tests.support.staged import outcome, plan
from tests.support.variables import variables
from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import Answer, Committable, Evidence, Outcome
from tidegate.operate.sinks import describe, open_sink
from tidegate.sinks.mysql.ledger import MySQLLedger
from tidegate.sinks.mysql.server import run
from tidegate.sinks.mysql.sink import MySQLSink
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from

COMMIT = b"\x03COMMIT"
"""The request itself."""
_LOOK_SECONDS = 0.2


@pytest.fixture
def place(mariadb: MariaDBServer) -> Place:
    return Place(mariadb, mariadb.database())


def staged(sink: MySQLSink, epoch: int = 0, generation: int = 1) -> Committable:
    sink.open(plan(SCHEMA))
    transaction = sink.begin(attempt_of(epoch=epoch, generation=generation))
    transaction.write(rows_from(epoch * 10 + generation, 2))
    committable = transaction.pre_commit()
    assert committable is not None
    return committable


class Paused:
    """A driver that commits in a thread of its own, and stands still at a method of the ledger."""

    def __init__(self, patch: pytest.MonkeyPatch, method: str, *, behind: bool) -> None:
        self._reached, self._go_on = threading.Event(), threading.Event()
        self._answers: list[Answer] = []
        self._thread: threading.Thread | None = None
        original: Callable[..., Any] = getattr(MySQLLedger, method)

        def stand_still(ledger: MySQLLedger, *arguments: Any) -> None:
            if threading.current_thread() is not self._thread:
                original(ledger, *arguments)
                return
            if behind:
                original(ledger, *arguments)
            self._reached.set()
            assert self._go_on.wait(60)
            if not behind:
                original(ledger, *arguments)

        patch.setattr(MySQLLedger, method, stand_still)

    def begin(self, sink: MySQLSink, committable: Committable) -> None:
        self._thread = threading.Thread(target=lambda: self._answers.extend(sink.commit([committable])))
        self._thread.start()
        assert self._reached.wait(60)

    def resume(self) -> Outcome:
        assert self._thread is not None
        self._go_on.set()
        self._thread.join(60)
        (answer,) = self._answers
        return answer.outcome


# --- drivers that pause ----------------------------------------------------------------------------------------


def test_a_driver_that_was_paused_before_its_lock_does_not_commit_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.sink()
    committable = staged(sink)
    paused = Paused(monkeypatch, "lock", behind=False)
    paused.begin(sink, committable)
    assert outcome(sink, committable) is Outcome.COMMITTED
    assert paused.resume() is Outcome.ALREADY
    assert place.rows("SELECT COUNT(*) FROM t") == [(2,)]


def test_a_driver_that_was_paused_before_its_lock_does_not_commit_behind_a_later_generation(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.sink()
    old, new = staged(sink, epoch=5), staged(sink, epoch=0, generation=2)
    paused = Paused(monkeypatch, "lock", behind=False)
    paused.begin(sink, old)
    assert outcome(sink, new) is Outcome.COMMITTED
    assert paused.resume() is Outcome.UNKNOWN
    assert place.rows("SELECT COUNT(*) FROM t") == [(2,)]


def test_the_next_driver_waits_for_one_that_is_paused_with_its_lock(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.sink()
    committable = staged(sink)
    paused = Paused(monkeypatch, "record", behind=True)
    paused.begin(sink, committable)
    with waiting_for_a_lock(place, lambda: outcome(sink, committable)) as answers:
        assert paused.resume() is Outcome.COMMITTED
    assert answers == [Outcome.ALREADY]
    assert place.rows("SELECT COUNT(*) FROM t") == [(2,)]


def test_a_later_generation_waits_for_a_commit_that_is_under_way(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the older one, which has looked already, would commit behind it."""
    sink = place.sink()
    assert outcome(sink, staged(sink, epoch=4)) is Outcome.COMMITTED, "the row of the owner is there"
    old, new = staged(sink, epoch=5), staged(sink, epoch=0, generation=2)
    paused = Paused(monkeypatch, "record", behind=True)
    paused.begin(sink, old)
    with waiting_for_a_lock(place, lambda: outcome(sink, new)) as answers:
        assert paused.resume() is Outcome.COMMITTED
    assert answers == [Outcome.COMMITTED]
    assert place.rows("SELECT COUNT(*) FROM t") == [(6,)]


@contextmanager
def waiting_for_a_lock(place: Place, commit: Callable[[], Outcome]) -> Iterator[list[Outcome]]:
    """Another driver commits, and is held up; its answer stands behind the block. The server renews this view only if
    nobody has read it for 0.1 s.
    """
    answers: list[Outcome] = []
    successor = threading.Thread(target=lambda: answers.append(commit()))
    successor.start()
    while not place.rows("SELECT 1 FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"):
        assert successor.is_alive(), "it waits for no lock"
        time.sleep(_LOOK_SECONDS)
    yield answers
    successor.join(60)


def test_the_server_ends_a_commit_that_stands_still_and_the_next_driver_commits(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's own limit on idle connections, shortened where the driver stands still and not before."""
    record: Callable[..., None] = MySQLLedger.record

    def record_and_shorten(ledger: MySQLLedger, *arguments: Any) -> None:
        record(ledger, *arguments)
        run(ledger._connection, "SET SESSION wait_timeout = 1")

    monkeypatch.setattr(MySQLLedger, "record", record_and_shorten)
    sink = place.sink()
    committable = staged(sink)
    paused = Paused(monkeypatch, "record", behind=True)
    paused.begin(sink, committable)
    while outcome(sink, committable) is Outcome.RETRY:
        pass
    assert paused.resume() is Outcome.RETRY
    assert outcome(sink, committable) is Outcome.ALREADY
    assert place.rows("SELECT COUNT(*) FROM t") == [(2,)]


def test_two_drivers_that_lock_a_row_that_is_there_end_in_no_deadlock(place: Place) -> None:
    """A plain INSERT would give both a shared lock, and each would wait for the other's."""
    sink = place.sink()
    assert outcome(sink, staged(sink)) is Outcome.COMMITTED
    for epoch in range(1, 4):
        committable = staged(sink, epoch=epoch)
        answers: list[Outcome] = []
        drivers = [threading.Thread(target=_committed, args=(sink, committable, answers)) for _ in range(4)]
        for each in drivers:
            each.start()
        for each in drivers:
            each.join(60)
        assert sorted(each.name for each in answers) == ["ALREADY"] * 3 + ["COMMITTED"]


def _committed(sink: MySQLSink, committable: Committable, answers: list[Outcome]) -> None:
    answers.append(outcome(sink, committable))


def test_drivers_that_open_an_empty_database_at_once_all_find_their_tables(place: Place) -> None:
    errors: list[BaseException] = []

    def opened() -> None:
        try:
            place.sink(key="id").open(plan(SCHEMA))
        except TidegateError as error:
            errors.append(error)

    threads = [threading.Thread(target=opened) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert errors == []
    assert place.tables() == ["_tidegate_evidence", "_tidegate_ledger", "_tidegate_owners", "t"]


# --- answers and requests that are lost ------------------------------------------------------------------------


def test_an_answer_to_commit_that_is_lost_is_found_by_its_evidence(place: Place) -> None:
    with Proxy(place.server.port) as proxy:
        sink = place.sink(options={"port": proxy.port})
        committable = staged(sink)
        lost = proxy.lose_answer(COMMIT)
        assert outcome(sink, committable) is Outcome.RETRY
        assert lost.struck == 1
        assert sink.evidence(committable) is Evidence.PRESENT
        assert outcome(sink, committable) is Outcome.ALREADY
    assert place.rows("SELECT COUNT(*) FROM t") == [(2,)]


@pytest.mark.parametrize("request_", [b"START TRANSACTION", b"INSERT INTO `t`", COMMIT])
def test_a_request_that_is_lost_leaves_nothing(place: Place, request_: bytes) -> None:
    with Proxy(place.server.port) as proxy:
        sink = place.sink(options={"port": proxy.port})
        committable = staged(sink)
        proxy.lose_request(request_)
        assert outcome(sink, committable) is Outcome.RETRY
        assert place.rows("SELECT COUNT(*) FROM t") == [(0,)]
        assert outcome(sink, committable) is Outcome.COMMITTED
    assert place.rows("SELECT COUNT(*) FROM t") == [(2,)]


def test_a_pre_commit_whose_answer_is_lost_fails_its_task_and_leaves_a_stage_that_is_cleaned(place: Place) -> None:
    with Proxy(place.server.port) as proxy:
        sink = place.sink(options={"port": proxy.port})
        sink.open(plan(SCHEMA))
        transaction = sink.begin(attempt_of())
        transaction.write(rows_from(1, 2))
        proxy.lose_answer(COMMIT)
        with pytest.raises(TidegateError) as raised:
            transaction.pre_commit()
        transaction.abort()
        assert raised.value.code == "TG-SINK-UNUSABLE"
    assert len(place.stages()) == 1
    again = staged(place.sink())
    assert outcome(place.sink(), again) is Outcome.COMMITTED
    place.sink().clean(IDENTITY, 0)
    assert place.stages() == []


# --- servers that are down -------------------------------------------------------------------------------------


@pytest.mark.timeout(120)
def test_a_server_that_is_down_at_any_time_loses_nothing_and_is_waited_for() -> None:
    server = started()
    try:
        place = Place(server, server.database())
        sink = place.sink()
        first = staged(sink)
        half = sink.begin(attempt_of(epoch=1))
        half.write(rows_from(7, 2))
        crash(server)
        with pytest.raises(TidegateError) as raised:
            half.pre_commit()
        half.abort()
        assert raised.value.code == "TG-SINK-UNUSABLE"
        (violation,) = sink.check(plan(SCHEMA))
        assert (violation.code, "Connection refused" in violation.found) == ("TG-SINK-UNUSABLE", True)
        with pytest.raises(TidegateError, match="TG-SINK-UNUSABLE"):
            sink.begin(attempt_of(epoch=1)).write(rows_from(7, 2))
        assert outcome(sink, first) is Outcome.RETRY
        assert sink.evidence(first) is Evidence.UNKNOWN
        sink.clean(IDENTITY, 0)  # a later call does it
        server.resume()
        assert outcome(sink, first) is Outcome.COMMITTED
        crash(server)
        server.resume()
        assert outcome(sink, first) is Outcome.ALREADY
        assert place.rows("SELECT COUNT(*) FROM t") == [(2,)]
        sink.clean(IDENTITY, 1)
        assert place.stages() == []
    finally:
        server.remove()


def crash(server: MariaDBServer) -> None:
    """The server dies; its next start recovers from the log."""
    server.stop(signal.SIGKILL)


# --- logins, rights, secrets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param({"password": "wr0ng-and-hidden"}, "Access denied for user", id="password"),
        pytest.param({"ssl_disabled": False, "ssl_verify_identity": True}, "SSL", id="TLS"),
        pytest.param({"ssl_disabled": False, "ssl_ca": "/no/such/file"}, "No such file", id="certificate"),
        pytest.param({"unix_socket": "/no/such/socket"}, "No such file", id="socket"),
    ],
)
def test_a_server_that_refuses_the_login_is_told_without_the_password(
    place: Place, options: dict[str, Any], told: str
) -> None:
    (violation,) = place.sink(options=options).check(plan(SCHEMA))
    assert violation.code == "TG-SINK-UNUSABLE"
    assert told in violation.found
    assert not any(each in str(violation) for each in (PASSWORD, "wr0ng-and-hidden"))


def test_a_socket_leads_to_the_server(place: Place) -> None:
    assert place.sink(options={"unix_socket": place.server.socket}).check(plan(SCHEMA)) == []


def test_a_user_without_rights_is_refused_with_the_rights_that_are_missing(place: Place) -> None:
    place.make("CREATE USER 'reader'@'%' IDENTIFIED BY 'hidden too'")
    database = place.database.replace("`", "``")
    place.make(f"GRANT SELECT, INSERT ON `{database}`.* TO 'reader'@'%'")
    sink = place.sink(options={"user": "reader", "password": "hidden too"})
    found = [(each.code, each.found) for each in sink.check(plan(SCHEMA))]
    assert found == [("TG-SINK-UNUSABLE", "'reader'@'%' lacks UPDATE, DELETE, CREATE, DROP")]
    with pytest.raises(TidegateError, match="error 1142") as raised:
        sink.open(plan(SCHEMA))
    assert "GRANT" in raised.value.next_step
    (violation,) = place.sink(database="nowhere").check(plan(SCHEMA))
    assert "Unknown database" in violation.found


def test_a_password_is_in_no_description_and_no_text(place: Place) -> None:
    by_hand = place.sink()
    assert PASSWORD not in f"{by_hand.server!r}{by_hand.describe()}"
    assert describe("q", by_hand, Level.EXACTLY_ONCE).target["left_out"] == ["password"]
    kept = place.sink(options={"password": "env:THE_PASSWORD"})
    described = describe("q", kept, Level.EXACTLY_ONCE)
    assert described.target["settings"]["password"] == "env:THE_PASSWORD"
    assert described.told == f"MySQL 127.0.0.1:{place.server.port}/{place.database}, table t"
    opened = open_sink(described, {})
    with pytest.raises(TidegateError, match="THE_PASSWORD") as raised:
        opened.position(IDENTITY)
    assert raised.value.code == "TG-OPTION-UNREADABLE"
    with variables({"THE_PASSWORD": PASSWORD}):
        assert opened.position(IDENTITY) is None
        assert "answers, version" in opened.probe("sink", plan(SCHEMA))[0].detail


@pytest.mark.parametrize("options", [{"passwrd": "s3cret-and-wrong"}, {"port": "s3cret-and-wrong"}])
def test_an_option_that_is_none_is_not_quoted(options: dict[str, str]) -> None:
    with pytest.raises(TidegateError) as raised:
        MySQLSink("out", "h", database="d", table="t", options=options)
    assert raised.value.code == "TG-OPTION-UNKNOWN"
    assert "s3cret" not in str(raised.value)

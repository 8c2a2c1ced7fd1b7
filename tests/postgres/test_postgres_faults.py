"""The PostgreSQL sink: drivers that pause, answers that are lost, servers that are down, logins that fail, poolers."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.postgres.test_postgres_tables import Place
from tests.support.pgbouncer import pooler
from tests.support.postgres import DATABASE, PASSWORD, PostgresServer, quoted, started
from tests.support.proxy import Proxy
from tests.support.staged import outcome, plan
from tests.support.variables import variables
from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import Answer, Committable, Evidence, Outcome
from tidegate.operate.sinks import describe, open_sink
from tidegate.sinks.postgres.ledger import Ledger
from tidegate.sinks.postgres.server import run
from tidegate.sinks.postgres.sink import PostgresSink
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from

COMMIT = b"COMMIT\0"
"""The request itself, and not the READ COMMITTED of a BEGIN."""


@pytest.fixture
def place(postgres: PostgresServer) -> Place:
    return Place(postgres, postgres.schema())


def staged(sink: PostgresSink, epoch: int = 0, generation: int = 1) -> Committable:
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
        original: Callable[..., Any] = getattr(Ledger, method)

        def stand_still(ledger: Ledger, *arguments: Any) -> None:
            if threading.current_thread() is not self._thread:
                original(ledger, *arguments)
                return
            if behind:
                original(ledger, *arguments)
            self._reached.set()
            assert self._go_on.wait(60)
            if not behind:
                original(ledger, *arguments)

        patch.setattr(Ledger, method, stand_still)

    def begin(self, sink: PostgresSink, committable: Committable) -> None:
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


@pytest.mark.parametrize("defaults", ["", "-c default_transaction_isolation=serializable -c synchronous_commit=off"])
def test_a_driver_that_was_paused_before_its_lock_does_not_commit_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch, defaults: str
) -> None:
    """Also where the user's transactions have an older snapshot by default."""
    sink = place.sink(options={"options": defaults} if defaults else {})
    committable = staged(sink)
    paused = Paused(monkeypatch, "lock", behind=False)
    paused.begin(sink, committable)
    assert outcome(sink, committable) is Outcome.COMMITTED
    assert paused.resume() is Outcome.ALREADY
    assert place.rows("SELECT count(*) FROM @.t") == [(2,)]


def test_a_driver_that_was_paused_before_its_lock_does_not_commit_behind_a_later_generation(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = place.sink()
    old, new = staged(sink, epoch=5), staged(sink, epoch=0, generation=2)
    paused = Paused(monkeypatch, "lock", behind=False)
    paused.begin(sink, old)
    assert outcome(sink, new) is Outcome.COMMITTED
    assert paused.resume() is Outcome.UNKNOWN
    assert place.rows("SELECT count(*) FROM @.t") == [(2,)]


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
    assert place.rows("SELECT count(*) FROM @.t") == [(2,)]


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
    assert place.rows("SELECT count(*) FROM @.t") == [(6,)]


@contextmanager
def waiting_for_a_lock(place: Place, commit: Callable[[], Outcome]) -> Iterator[list[Outcome]]:
    """Another driver commits, and is held up; its answer stands behind the block."""
    answers: list[Outcome] = []
    successor = threading.Thread(target=lambda: answers.append(commit()))
    successor.start()
    while not place.rows("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
        assert successor.is_alive(), "it waits for no lock"
    yield answers
    successor.join(60)


def test_the_server_ends_a_commit_that_stands_still_and_the_next_driver_commits(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's own limit on idle transactions, shortened where the driver stands still and not before."""
    record: Callable[..., None] = Ledger.record

    def record_and_shorten(ledger: Ledger, *arguments: Any) -> None:
        record(ledger, *arguments)
        run(ledger._connection, "SET LOCAL idle_in_transaction_session_timeout = '100ms'")

    monkeypatch.setattr(Ledger, "record", record_and_shorten)
    sink = place.sink()
    committable = staged(sink)
    paused = Paused(monkeypatch, "record", behind=True)
    paused.begin(sink, committable)
    while outcome(sink, committable) is Outcome.RETRY:
        pass
    assert paused.resume() is Outcome.RETRY
    assert outcome(sink, committable) is Outcome.ALREADY
    assert place.rows("SELECT count(*) FROM @.t") == [(2,)]


def test_drivers_that_open_an_empty_schema_at_once_all_find_their_tables(place: Place) -> None:
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
    assert place.rows("SELECT count(*) FROM @.t") == [(2,)]


@pytest.mark.parametrize("request_", [b"BEGIN", b"INSERT INTO", COMMIT])
def test_a_request_that_is_lost_leaves_nothing(place: Place, request_: bytes) -> None:
    with Proxy(place.server.port) as proxy:
        sink = place.sink(options={"port": proxy.port})
        committable = staged(sink)
        proxy.lose_request(request_)
        assert outcome(sink, committable) is Outcome.RETRY
        assert place.rows("SELECT count(*) FROM @.t") == [(0,)]
        assert outcome(sink, committable) is Outcome.COMMITTED
    assert place.rows("SELECT count(*) FROM @.t") == [(2,)]


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


# --- poolers ---------------------------------------------------------------------------------------------------


def test_a_pooler_that_gives_each_transaction_another_backend_is_no_hindrance(place: Place) -> None:
    """Tasks of one epoch at once, several epochs, and no setting of ours is left in a backend."""
    with pooler(place.server, backends=3) as port:
        sink = place.sink(options={"port": port}, key="id")
        assert sink.check(plan(SCHEMA)) == []
        sink.open(plan(SCHEMA))
        for epoch in range(3):
            tasks = [sink.begin(attempt_of(epoch=epoch, task=task)) for task in range(2)]
            for task, each in enumerate(tasks):
                each.write(rows_from(epoch * 10 + task, 3))
            committables = [each.pre_commit() for each in tasks]
            assert {answer.outcome for answer in sink.commit([each for each in committables if each])} == {
                Outcome.COMMITTED
            }
            sink.clean(IDENTITY, epoch)
        assert place.rows("SELECT count(*) FROM @.t") == [(18,)]
        assert place.stages() == []
        for name, default in (("lock_timeout", "0"), ("statement_timeout", "0"), ("synchronous_commit", "on")):
            assert {place.server.execute(f"SHOW {name}", port=port)[0][0] for _ in range(6)} == {default}


# --- servers that are down -------------------------------------------------------------------------------------


@pytest.mark.timeout(120)
def test_a_server_that_is_down_at_any_time_loses_nothing_and_is_waited_for() -> None:
    server = started()
    try:
        place = Place(server, server.schema())
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
        assert place.rows("SELECT count(*) FROM @.t") == [(2,)]
        sink.clean(IDENTITY, 1)
        assert place.stages() == []
    finally:
        server.remove()


def crash(server: PostgresServer) -> None:
    """All processes of the server die at once; its next start recovers from the log."""
    server.stop(signal.SIGQUIT)


# --- logins, rights, secrets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param({"password": "wr0ng-and-hidden"}, "password authentication failed", id="password"),
        pytest.param({"dbname": "nowhere"}, 'database "nowhere" does not exist', id="database"),
        pytest.param({"sslmode": "require"}, "does not support SSL", id="TLS"),
        pytest.param({"host": "no.such.host.invalid"}, "no.such.host.invalid", id="host"),
    ],
)
def test_a_server_that_refuses_the_login_is_told_without_the_password(
    place: Place, options: dict[str, Any], told: str
) -> None:
    (violation,) = place.sink(options=options).check(plan(SCHEMA))
    assert violation.code == "TG-SINK-UNUSABLE"
    assert told in violation.found
    assert not any(each in str(violation) for each in (PASSWORD, "wr0ng-and-hidden"))


def test_a_user_without_rights_is_refused_with_the_rights_that_are_missing(place: Place) -> None:
    user = f"reader of {place.schema}"
    place.make(f"CREATE ROLE {quoted(user)} LOGIN PASSWORD 'reader'")
    place.make(f"GRANT USAGE ON SCHEMA @ TO {quoted(user)}")
    place.make("CREATE TABLE @.t (id bigint, word text)")
    place.make(f"GRANT SELECT ON @.t TO {quoted(user)}")
    sink = place.sink(options={"user": user, "password": "reader"})
    found = [(each.code, each.found) for each in sink.check(plan(SCHEMA))]
    assert found == [
        ("TG-SINK-UNUSABLE", f"{user!r} lacks CREATE"),
        ("TG-SINK-UNUSABLE", f"{user!r} lacks INSERT"),
    ]
    with pytest.raises(TidegateError, match="SQLSTATE 42501") as raised:
        sink.open(plan(SCHEMA))
    assert "GRANT" in raised.value.next_step
    assert [each.code for each in place.sink(schema="nowhere").check(plan(SCHEMA))] == ["TG-SINK-UNUSABLE"]


def test_a_password_is_in_no_description_and_no_text(place: Place) -> None:
    by_hand = place.sink()
    assert PASSWORD not in f"{by_hand.server!r}{by_hand.describe()}"
    assert describe("q", by_hand, Level.EXACTLY_ONCE).target["left_out"] == ["password"]
    kept = PostgresSink(
        "out",
        f"postgresql://owner@127.0.0.1:{place.server.port}/{DATABASE}",
        table="t",
        schema=place.schema,
        options={"password": "env:THE_PASSWORD", "sslmode": "prefer"},
    )
    described = describe("q", kept, Level.EXACTLY_ONCE)
    assert described.target["settings"]["password"] == "env:THE_PASSWORD"
    assert described.told == f"PostgreSQL 127.0.0.1:{place.server.port}/{DATABASE}, table {place.schema}.t"
    opened = open_sink(described, {})
    with pytest.raises(TidegateError, match="THE_PASSWORD") as raised:
        opened.position(IDENTITY)
    assert raised.value.code == "TG-OPTION-UNREADABLE"
    with variables({"THE_PASSWORD": PASSWORD}):
        assert opened.position(IDENTITY) is None
        (finding, warning) = opened.probe("sink", plan(SCHEMA))
    assert "answers, version" in finding.detail
    assert "fsync" in warning.detail


@pytest.mark.parametrize("conninfo", ["host=h passwrd=s3cret-and-wrong", "s3cret-and-wrong"])
def test_a_connection_string_that_libpq_does_not_know_is_not_quoted(conninfo: str) -> None:
    with pytest.raises(TidegateError) as raised:
        PostgresSink("out", conninfo, table="t")
    assert raised.value.code == "TG-OPTION-UNKNOWN"
    assert "s3cret" not in str(raised.value)

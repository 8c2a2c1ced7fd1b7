"""The Redis sink: runs that wake up late, answers that are lost, servers that die, forget, or refuse."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa
import pytest

from tests.redis.test_redis_keys import KEYED, Place, prepared, row
from tests.support.proxy import Proxy
from tests.support.redis import PASSWORD, RedisServer, chosen, packages, running
from tests.support.staged import outcome, plan
from tests.support.variables import variables
from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import Evidence, Outcome
from tidegate.operate.sinks import describe, open_sink
from tidegate.sinks.redis.sink import RedisSink
from tidegate.testing.contract import IDENTITY, attempt_of
from tidegate.testing.contract_parts import processes

SCRIPT = b"EVALSHA"


@pytest.fixture
def place(redis_server: RedisServer) -> Place:
    return Place(redis_server, redis_server.prefix())


@contextmanager
def own_place(**settings: str) -> Iterator[Place]:
    """On a server of this test's own."""
    server = RedisServer(packages(), **settings)
    with running(server):
        yield Place(server, server.prefix())


# --- runs that wake up late ------------------------------------------------------------------------------------


def write_for_ever(pipe: Connection, sink: RedisSink) -> None:
    """Writes the same keys until it is refused; then sends the code of the error."""
    transaction = sink.begin(attempt_of(run=1, epoch=5))
    batch = pa.RecordBatch.from_pylist([row(number, "paused") for number in range(400)], schema=KEYED)
    turns = 0
    while True:
        try:
            transaction.write(batch)
        except TidegateError as error:
            pipe.send(error.code)
            return
        turns += 1
        if turns == 3:
            pipe.send("writing")


@pytest.mark.timeout(120)
def test_a_process_that_is_stopped_while_it_writes_overwrites_nothing_of_its_successor(place: Place) -> None:
    """SIGSTOP strikes anywhere: also between a request and its answer."""
    sink = place.sink()
    assert sink.begin_run(IDENTITY, 1, attempt_of(run=1).run_token) is None
    mine, theirs = processes().Pipe()
    child = processes().Process(target=write_for_ever, args=(theirs, sink))
    child.start()
    assert mine.poll(60)
    assert mine.recv() == "writing"
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    prepared(sink, [row(number, "successor") for number in range(400)], epoch=5, run=2)
    wanted = place.rows()
    os.kill(child.pid, signal.SIGCONT)
    assert mine.poll(60)
    assert mine.recv() == "TG-RUN-SUPERSEDED"
    child.join()
    assert place.rows() == wanted
    assert {each["v"] for each in wanted.values()} == {"successor"}


def test_an_answer_or_a_request_that_is_lost_is_repeated_and_changes_nothing(place: Place) -> None:
    with Proxy(place.server.port) as proxy:
        sink = place.sink(options={"password": PASSWORD, "port": proxy.port})
        first = prepared(sink, [row(0, "the server knows the scripts from now on")])
        assert outcome(sink, first) is Outcome.COMMITTED
        lost = [proxy.lose_answer(SCRIPT), proxy.lose_request(SCRIPT)]
        committable = prepared(sink, [row(number, "x") for number in range(300)], epoch=1)
        assert [each.struck for each in lost] == [1, 1]
        lost = [proxy.lose_answer(SCRIPT)]
        assert outcome(sink, committable) is Outcome.ALREADY
        assert lost[0].struck == 1
    assert len(place.rows()) == 300


def test_a_server_that_has_forgotten_the_scripts_gets_them_again(place: Place) -> None:
    sink = place.sink()
    prepared(sink, [row(1, "x")])
    with place.server.client() as client:
        client.script_flush()
    prepared(sink, [row(number, "y") for number in range(250)], epoch=1)
    assert len(place.rows()) == 250


# --- servers that die or forget --------------------------------------------------------------------------------


@pytest.mark.timeout(120)
def test_a_server_that_is_killed_keeps_what_it_has_answered_and_is_waited_for() -> None:
    with own_place() as place:
        sink = place.sink()
        first = prepared(sink, [row(1, "x")])
        half = sink.begin(attempt_of(epoch=1))
        half.write(pa.RecordBatch.from_pylist([row(2, "half")], schema=KEYED))
        place.server.kill()
        with pytest.raises(TidegateError, match="TG-SINK-UNUSABLE"):
            half.write(pa.RecordBatch.from_pylist([row(3, "half")], schema=KEYED))
        half.abort()
        assert outcome(sink, first) is Outcome.RETRY
        assert sink.evidence(first) is Evidence.UNKNOWN
        sink.clean(IDENTITY, 0)  # a later call does it
        (violation,) = sink.check(plan(KEYED))
        assert (violation.code, "refused" in violation.found.lower()) == ("TG-SINK-UNUSABLE", True)
        place.server.start()
        assert outcome(sink, first) is Outcome.COMMITTED
        place.server.kill()
        place.server.start()
        assert outcome(sink, first) is Outcome.ALREADY
        assert sink.evidence(first) is Evidence.PRESENT
        assert list(place.rows()) == ["1", "2"]


@pytest.mark.timeout(120)
def test_a_target_that_was_put_back_from_an_older_copy_is_behind() -> None:
    with own_place() as place:
        sink = place.sink()
        assert outcome(sink, prepared(sink, [row(1, "x")], epoch=0)) is Outcome.COMMITTED
        place.server.kill()
        kept = place.server.keep()
        place.server.start()
        second, third = (prepared(sink, [row(1, "y")], epoch=epoch) for epoch in (1, 2))
        assert outcome(sink, second) is Outcome.COMMITTED
        place.server.kill()
        place.server.put_back(kept)
        place.server.start()
        position = sink.position(IDENTITY)
        assert position is not None
        assert position.epoch == 0, "a start compares it with the epoch that it has finished"
        assert outcome(sink, third) is Outcome.LOST, "its rows were written after the copy"


def test_a_database_that_was_emptied_is_noticed_by_the_run_that_writes(place: Place) -> None:
    sink = place.sink()
    committable = prepared(sink, [row(1, "x")])
    late = sink.begin(attempt_of(epoch=1))
    with place.server.client() as client:
        client.delete(*place.names())
    with pytest.raises(TidegateError) as raised:
        late.write(pa.RecordBatch.from_pylist([row(2, "x")], schema=KEYED))
    assert (raised.value.code, "none" in raised.value.found) == ("TG-EPOCH-FAILED", True)
    assert outcome(sink, committable) is Outcome.LOST
    assert place.names() == []


def test_a_full_server_fails_the_epoch_and_loses_nothing() -> None:
    with own_place(maxmemory="4mb") as place:
        sink = place.sink()
        committable = prepared(sink, [row(1, "x")])
        with pytest.raises(TidegateError) as raised:
            prepared(sink, [row(number, "x" * 1_000) for number in range(5_000)], epoch=1)
        assert (raised.value.code, "maxmemory" in raised.value.next_step) == ("TG-SINK-UNUSABLE", True)
        with place.server.client() as client:
            client.config_set("maxmemory", "0")
        assert outcome(sink, committable) is Outcome.COMMITTED


# --- what a start warns of -------------------------------------------------------------------------------------


def test_a_start_warns_of_a_server_that_may_lose_what_it_has_answered(caplog: pytest.LogCaptureFixture) -> None:
    with own_place(appendfsync="everysec", **{"maxmemory-policy": "allkeys-lru"}) as place:
        sink = place.sink()
        sink.open(plan(KEYED))
        assert [("appendfsync everysec" in text, "allkeys-lru" in text) for text in caplog.messages] == [
            (True, False),
            (False, True),
        ]
        found = sink.probe("sink", plan(KEYED))
        assert [each.health.value for each in found] == ["OK", "WARN", "WARN"]
        with place.server.client() as client:
            client.config_set("appendonly", "no")
        assert "appendonly no" in sink.probe("sink", plan(KEYED))[1].detail


def test_a_start_warns_of_nothing_where_each_write_is_synced(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.sink().open(plan(KEYED))
    assert caplog.messages == []
    (finding,) = place.sink().probe("sink", plan(KEYED))
    assert {"redis": "version 7.0.", "valkey": "Valkey 8.0."}[chosen()] in finding.detail


# --- logins, rights, secrets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "told"),
    [
        pytest.param({"password": "wr0ng-and-hidden"}, "invalid username-password", id="password"),
        pytest.param({}, "authenticated", id="none"),
        pytest.param({"password": PASSWORD, "host": "no.such.host.invalid"}, "no.such.host.invalid", id="host"),
        pytest.param(
            {"password": PASSWORD, "ssl": True, "socket_timeout": 1},
            "timeout",
            id="TLS",
            marks=pytest.mark.more,
        ),
    ],
)
def test_a_server_that_refuses_the_login_is_told_without_the_password(
    place: Place, options: dict[str, Any], told: str
) -> None:
    (violation,) = place.sink(options=options).check(plan(KEYED))
    assert violation.code == "TG-SINK-UNUSABLE"
    assert told in violation.found.lower()
    assert not any(each in str(violation) for each in (PASSWORD, "wr0ng-and-hidden"))


def test_a_user_with_the_rights_of_the_documents_is_enough_and_one_without_is_told(place: Place) -> None:
    name, secret = f"user-{place.prefix}", "s3cret-of-the-user"
    rights = ["+@read", "+@write", "+@scripting", "+@connection", "+info", "+config|get", "+cluster"]
    with place.server.client() as client:
        client.execute_command("ACL", "SETUSER", name, "on", f">{secret}", f"~{place.prefix}:*", *rights)
    sink = place.sink(options={"username": name, "password": secret})
    assert sink.check(plan(KEYED)) == []
    sink.open(plan(KEYED))
    assert outcome(sink, prepared(sink, [row(1, "x")])) is Outcome.COMMITTED
    sink.clean(IDENTITY, 0)
    with place.server.client() as client:
        client.execute_command("ACL", "SETUSER", name, "-@write")
    with pytest.raises(TidegateError) as raised:
        prepared(sink, [row(1, "y")], epoch=1)
    assert (raised.value.code, "ACL SETUSER" in raised.value.next_step) == ("TG-SINK-UNUSABLE", True)
    with place.server.client() as client:
        client.execute_command("ACL", "DELUSER", name)


def test_a_password_is_in_no_description_and_no_text(place: Place) -> None:
    by_hand = RedisSink("out", f"redis://:{PASSWORD}@127.0.0.1:{place.server.port}/0", prefix=place.prefix, key="k")
    assert PASSWORD not in f"{by_hand.server!r}{by_hand.server}{by_hand.describe()}"
    assert describe("q", by_hand, Level.EXACTLY_ONCE).target["left_out"] == ["password"]
    kept = place.sink(options={"password": "env:THE_PASSWORD"}, expire=90, format="json", deleted="gone")
    described = describe("q", kept, Level.EXACTLY_ONCE)
    assert described.target["settings"]["password"] == "env:THE_PASSWORD"
    assert described.told == f"Redis 127.0.0.1:{place.server.port}, prefix {place.prefix}"
    opened = open_sink(described, {})
    with pytest.raises(TidegateError, match="THE_PASSWORD") as raised:
        opened.position(IDENTITY)
    assert raised.value.code == "TG-OPTION-UNREADABLE"
    with variables({"THE_PASSWORD": PASSWORD}):
        assert opened.position(IDENTITY) is None
        assert describe("q", opened, Level.EXACTLY_ONCE) == described


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://user:s3cret-and-wrong@host", {}),
        ("redis://host", {"pasword": "s3cret-and-wrong"}),
        ("redis://host", {"port": "s3cret-and-wrong"}),
    ],
)
def test_a_url_or_an_option_that_the_client_does_not_know_is_not_quoted(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(TidegateError) as raised:
        RedisSink("out", url, prefix="p", key="k", options=options)
    assert raised.value.code == "TG-OPTION-UNKNOWN"
    assert "s3cret" not in str(raised.value)


@pytest.mark.more
def test_a_server_that_stands_still_is_given_up_after_its_timeout(place: Place) -> None:
    sink = place.sink(options={"password": PASSWORD, "socket_timeout": 0.2})
    prepared(sink, [row(1, "x")])
    place.server.signal(signal.SIGSTOP)
    try:
        begun = time.monotonic()
        with pytest.raises(TidegateError, match="TG-SINK-UNUSABLE"):
            prepared(sink, [row(1, "y")], epoch=1)
        assert time.monotonic() - begun < 30
    finally:
        place.server.signal(signal.SIGCONT)
    prepared(sink, [row(1, "z")], epoch=1)
    assert place.rows()["1"]["v"] == "z"

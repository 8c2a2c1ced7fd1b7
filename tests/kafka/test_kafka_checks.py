"""What stands against a start, on a broker with users and an access list: said before the first epoch, by name."""

from __future__ import annotations

import dataclasses
import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from confluent_kafka.admin._acl import AclOperation as May
from kafka import KafkaAdminClient

from tests.kafka.rights import On, deny, grant
from tests.support.logged import told
from tests.support.today import turn
from tidegate.core.errors import TidegateError
from tidegate.core.records import Attempt, Committable, Evidence, Outcome
from tidegate.kafka.brokers import TopicSeen, missing_requests, on_one_disk, versions
from tidegate.kafka.clients import Clients
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.sinks.kafka.wires import wire_of
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import make_topic

MAX_TIMEOUT_SECONDS = 60
USERS = ("poor", "denied", "plain", "no-write", "no-read", "no-id", "no-group", "column")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """`admin` may do everything; each other user what the test that it is for has granted."""
    settings = {"transaction.max.timeout.ms": str(MAX_TIMEOUT_SECONDS * 1000)}
    users = {"admin": "over-all", **dict.fromkeys(USERS, "very-secret")}
    with Broker.start(tmp_path_factory.mktemp("broker"), users=users, settings=settings) as broker:
        yield broker


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_PLACE", str(tmp_path / "place"))


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    return make_topic(broker.servers, options=broker.options("admin"))


def sink_of(
    broker: Broker, topic: str | None, user: str = "admin", prefix: str | None = None, **given: Any
) -> KafkaSink:
    """A sink of this user; its prefix is the user's name."""
    options = {**broker.options(user), **given.pop("options", {})}
    settings: dict[str, Any] = {"transaction_timeout": float(MAX_TIMEOUT_SECONDS), **given}
    prefix = user if prefix is None else prefix
    return KafkaSink(
        "numbers", broker.servers, topic=topic, transactional_id_prefix=prefix, options=options, **settings
    )


def plan_of(interval_seconds: float = 0.0, schema: pa.Schema = SCHEMA) -> SinkPlan:
    return SinkPlan(
        identity=IDENTITY,
        schema=schema,
        mode="append",
        local_master=True,
        read_journal=lambda _: (),
        interval_seconds=interval_seconds,
    )


def refused(sink: KafkaSink, interval_seconds: float = 0.0) -> list[TidegateError]:
    return list(sink.check(plan_of(interval_seconds)))


def prepared(sink: KafkaSink, attempt: Attempt, batch: pa.RecordBatch, finished: int = -1) -> Committable:
    transaction = sink.in_epoch(finished).begin(attempt)
    transaction.write(batch)
    committable = transaction.pre_commit()
    assert committable is not None
    return committable


# --- rights ------------------------------------------------------------------------------------------------


def grant_as_told(broker: Broker, user: str, error: TidegateError) -> None:
    """Do what a refusal says is next."""
    told = re.search(r"--operation (\w+) --([a-z-]+) (\S+)( --resource-pattern-type prefixed)?$", error.next_step)
    assert told is not None, error.next_step
    on, operation = On[told[2].replace("-", "_").upper()], May[told[1].upper()]
    grant(broker, user, on, told[3], operation, prefix=told[4] is not None)


def test_a_user_who_may_do_nothing_hears_of_all_rights_at_once_and_they_are_all_that_is_needed(
    broker: Broker, topic: str
) -> None:
    """Also of a whole epoch, its commit, its proof, and of writing a lost one again."""
    sink = sink_of(broker, topic, "poor")
    found = refused(sink)
    assert [error.expected.removesuffix(" for the sink's user") for error in found] == [
        "DESCRIBE on transactional ids that begin with 'poor.tg.'",
        "WRITE on transactional ids that begin with 'poor.tg.'",
        "DESCRIBE on groups that begin with 'poor.tg.'",
        "READ on groups that begin with 'poor.tg.'",
        f"DESCRIBE on topic '{topic}'",
        f"WRITE on topic '{topic}'",
        f"READ on topic '{topic}'",
    ]
    for error in found:
        grant_as_told(broker, "poor", error)
    assert refused(sink) == []
    sink.open(plan_of())
    assert sink.position(IDENTITY) is None
    first = prepared(sink, attempt_of(epoch=0), rows_from(0, 2))
    assert len(sink.pending(IDENTITY)) == 1
    assert sink.commit([first])[0].outcome is Outcome.COMMITTED
    assert sink.evidence(first) is Evidence.PRESENT
    found = sink.position(IDENTITY)
    assert found is not None
    assert found.epoch == 0
    lost = prepared(sink, attempt_of(epoch=1), rows_from(1, 2), finished=0)
    sink.abort(sink.pending(IDENTITY))
    assert sink.commit([lost])[0].outcome is Outcome.LOST
    sink.fence(lost)
    assert sink.redo(lost, [rows_from(1, 2)]).outcome is Outcome.COMMITTED


@pytest.mark.parametrize(
    ("user", "left_out", "told"),
    [
        ("no-write", (On.TOPIC, May.WRITE), "WRITE on topic"),
        ("no-read", (On.TOPIC, May.READ), "READ on topic"),
        ("no-id", (On.TRANSACTIONAL_ID, May.WRITE), "WRITE on transactional ids that begin with 'no-id.tg.'"),
        ("no-group", (On.GROUP, May.READ), "READ on groups that begin with 'no-group.tg.'"),
    ],
)
def test_one_right_that_is_missing_is_named(
    broker: Broker, topic: str, user: str, left_out: tuple[On, May], told: str
) -> None:
    for on, operations in {
        On.TOPIC: (May.DESCRIBE, May.WRITE, May.READ),
        On.TRANSACTIONAL_ID: (May.DESCRIBE, May.WRITE),
        On.GROUP: (May.DESCRIBE, May.READ),
    }.items():
        given = [each for each in operations if (on, each) != left_out]
        name = topic if on is On.TOPIC else f"{user}.tg."
        grant(broker, user, on, name, *given, prefix=on is not On.TOPIC)
    (error,) = refused(sink_of(broker, topic, user))
    assert error.code == "TG-SINK-UNUSABLE"
    assert told in error.expected


def test_the_rights_on_a_topic_that_a_column_names_show_with_its_first_row(broker: Broker, topic: str) -> None:
    """Before it the start cannot ask. Without WRITE the row is refused; READ is needed for the proof of its commit."""
    grant(broker, "column", On.TRANSACTIONAL_ID, "column.tg.", May.WRITE, prefix=True)
    grant(broker, "column", On.GROUP, "column.tg.", May.READ, prefix=True)
    sink = sink_of(broker, None, "column")
    rows = rows_from(0, 2).append_column("topic", pa.array([topic] * 2))
    assert list(sink.check(plan_of(schema=rows.schema))) == []
    sink.open(plan_of(schema=rows.schema))
    with pytest.raises(TidegateError) as unwritten:
        prepared(sink, attempt_of(epoch=0), rows)
    assert unwritten.value.code == "TG-SINK-UNUSABLE"
    assert f"topic '{topic}'" in unwritten.value.expected
    assert "WRITE on the topic" in unwritten.value.next_step
    grant(broker, "column", On.TOPIC, topic, May.WRITE)
    with pytest.raises(TidegateError) as unread:
        prepared(sink, attempt_of(epoch=0), rows)
    assert unread.value.code == "TG-SINK-UNUSABLE"
    assert f"topic '{topic}'" in unread.value.expected
    assert "READ on the topic" in unread.value.next_step
    grant(broker, "column", On.TOPIC, topic, May.READ)
    sink.abort(sink.pending(IDENTITY))
    assert sink.commit([prepared(sink, attempt_of(epoch=0), rows)])[0].outcome is Outcome.COMMITTED


def test_a_right_that_is_denied_is_missing_although_a_larger_one_is_given(broker: Broker, topic: str) -> None:
    """To an access list WRITE has DESCRIBE in it: only who asks learns of the denial."""
    grant(broker, "denied", On.TRANSACTIONAL_ID, "denied.tg.", May.WRITE, prefix=True)
    grant(broker, "denied", On.GROUP, "denied.tg.", May.READ, prefix=True)
    grant(broker, "denied", On.TOPIC, topic, May.WRITE, May.READ)
    deny(broker, "denied", On.TRANSACTIONAL_ID, "denied.tg.", May.DESCRIBE, prefix=True)
    (error,) = refused(sink_of(broker, topic, "denied"))
    assert "DESCRIBE on transactional ids that begin with 'denied.tg.'" in error.expected


def test_asking_leaves_nothing_behind(broker: Broker, topic: str) -> None:
    assert refused(sink_of(broker, topic, prefix="asks")) == []
    options = broker.options("admin")
    admin: Any = KafkaAdminClient(
        bootstrap_servers=broker.servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="admin",
        sasl_plain_password=options["sasl.password"],
    )
    try:
        ids = [each.transactional_id for found in admin.list_transactions().values() for each in found]
    finally:
        admin.close()
    groups = wire_of(Clients(broker.servers, options)).groups()
    assert [name for name in (*ids, *groups) if name.startswith("asks.")] == []


def test_a_login_that_is_refused_is_told_as_that_and_without_the_password(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.kafka.cluster._CONTACT_SECONDS", 2.0)
    (error,) = refused(sink_of(broker, topic, options={"sasl.password": "guessed-wrongly"}))
    assert "Authentication failed" in error.found
    assert "guessed-wrongly" not in str(error)


def test_what_would_reach_the_producers_and_not_the_driver_is_refused(broker: Broker, topic: str) -> None:
    options = {"ssl.keystore.location": "keys.p12", "ssl.keystore.password": "very-secret", "linger.ms": "1"}
    found = refused(sink_of(broker, topic, options=options))
    assert [error.found for error in found] == [
        "SASL_PLAINTEXT: the connection would not be encrypted",
        "options={'ssl.keystore.location': ...}",
        "options={'ssl.keystore.password': ...}",
    ]
    (error,) = refused(sink_of(broker, topic, options={"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}))[
        :1
    ]
    assert "sasl.mechanism" in error.expected
    assert error.found == "GSSAPI"


# --- times -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [float(MAX_TIMEOUT_SECONDS), None])
def test_an_interval_as_long_as_a_transaction_may_be_open_is_refused(
    broker: Broker, topic: str, timeout: float | None
) -> None:
    sink = sink_of(broker, topic, transaction_timeout=timeout)
    (error,) = refused(sink, MAX_TIMEOUT_SECONDS)
    assert error.code == "TG-SETTING-VALUE"
    for part in ("checkpointing.interval", "transaction_timeout", "60 s", "transaction.max.timeout.ms"):
        assert part in str(error)
    assert refused(sink, MAX_TIMEOUT_SECONDS - 1) == []


def test_the_longest_timeout_is_tried_where_the_user_may_not_see_it(broker: Broker, topic: str) -> None:
    grant(broker, "plain", On.TRANSACTIONAL_ID, "plain.tg.", May.WRITE, prefix=True)
    grant(broker, "plain", On.GROUP, "plain.tg.", May.READ, prefix=True)
    grant(broker, "plain", On.TOPIC, topic, May.WRITE, May.READ)
    (error,) = refused(sink_of(broker, topic, "plain", transaction_timeout=None))
    assert "transaction.max.timeout.ms" in error.expected
    assert "DESCRIBE_CONFIGS" in error.next_step
    assert refused(sink_of(broker, topic, "plain")) == []
    grant(broker, "plain", On.CLUSTER, "kafka-cluster", May.DESCRIBE_CONFIGS)
    assert refused(sink_of(broker, topic, "plain", transaction_timeout=None)) == []


def test_transactions_open_for_half_of_their_timeout_are_told_once(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "tidegate")
    sink = sink_of(broker, topic, prefix="slow", transaction_timeout=6.0)
    sink.open(plan_of())
    slow = [prepared(sink, attempt_of(task=task), rows_from(task, 1)) for task in range(2)]
    end = time.monotonic() + 60
    while not told(caplog) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)
    (warning,) = [each for each in told(caplog) if "transaction_timeout" in each]
    assert "2 transactions are still open 3 s after" in warning
    assert "sink numbers" in warning
    assert {each.outcome for each in sink.commit(slow)} == {Outcome.COMMITTED}


@turn(0, of=2)
def test_epochs_that_are_done_in_time_are_told_nothing_of(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One after the other for longer than half of the timeout, each shorter; the last one has no rows."""
    caplog.set_level(logging.WARNING, "tidegate")
    sink = sink_of(broker, topic, prefix="quick", transaction_timeout=6.0)
    sink.open(plan_of())
    end, epoch = time.monotonic() + 3.5, 0
    while time.monotonic() < end:
        sink.commit([prepared(sink, attempt_of(epoch=epoch), rows_from(epoch, 1), finished=epoch - 1)])
        epoch += 1
        time.sleep(0.1)
    sink.in_epoch(epoch - 1)
    time.sleep(3.5)
    assert told(caplog) == []
    assert epoch > 1


# --- brokers and topics ------------------------------------------------------------------------------------


def test_brokers_that_are_too_old_are_refused_with_what_they_lack(
    broker: Broker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of this broker, cut down to what Kafka 2.8 offers; and one of a time when old versions have gone."""
    offered = versions(wire_of(Clients(broker.servers, broker.options("admin"))))
    assert missing_requests(offered) == []
    describe_transactions, list_transactions, offset_fetch, end_txn = 65, 66, 9, 26
    old = {key: each for key, each in offered.items() if key not in (describe_transactions, list_transactions)}
    old[offset_fetch] = (0, 7)
    assert missing_requests(old) == ["DescribeTransactions 0", "ListTransactions 0 to 2", "OffsetFetch 8"]
    assert missing_requests({**offered, end_txn: (5, 6)}) == ["EndTxn 0 to 4"]
    monkeypatch.setattr("tidegate.sinks.kafka.check.versions", lambda _: old)
    (error,) = refused(sink_of(broker, topic))
    assert "Kafka 3.0 or newer" in error.expected
    assert "DescribeTransactions" in error.found


def test_a_topic_that_takes_no_row_because_of_its_replicas_is_refused(broker: Broker) -> None:
    config = {"min.insync.replicas": "2"}
    narrow = make_topic(broker.servers, config=config, options=broker.options("admin"))
    (error,) = refused(sink_of(broker, narrow))
    assert "min.insync.replicas" in error.expected
    assert error.found.startswith("1:")


def test_one_replica_on_the_only_broker_is_no_reason_to_warn(
    broker: Broker, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert refused(sink_of(broker, topic)) == []
    assert told(caplog) == []


@pytest.mark.parametrize(
    ("brokers", "copies", "in_sync", "warns"),
    [(3, 3, 2, False), (3, 3, 1, True), (3, 1, 1, True), (3, 2, 2, False), (1, 1, 1, False)],
)
def test_a_row_that_only_one_of_several_brokers_must_have_is_worth_a_warning(
    brokers: int, copies: int, in_sync: int, warns: bool
) -> None:
    seen = TopicSeen(exists=True, operations=None, copies=copies, brokers=brokers)
    assert on_one_disk(seen, in_sync) is warns


# --- names -------------------------------------------------------------------------------------------------


def test_jobs_with_one_prefix_and_prefixes_that_begin_alike_never_meet(broker: Broker, topic: str) -> None:
    """Same names of job, query and sink, same place, same topic. What one recovers, aborts and proves is its own."""
    identities = [msgspec.structs.replace(IDENTITY, job_id=job_id) for job_id in ("aaaa0001", "aaaa0002")]
    prefixes = ["", "p", "pp", "p.p", "p.tg.aaaa0001", "tg"]
    lives = [(sink_of(broker, topic, prefix=prefix), identity) for prefix in prefixes for identity in identities]
    committables: list[Committable] = []
    for number, (sink, identity) in enumerate(lives):
        sink.open(dataclasses.replace(plan_of(), identity=identity))
        attempt = msgspec.structs.replace(attempt_of(), sink=identity)
        committables.append(prepared(sink, attempt, rows_from(number, 1)))
    names = [sink.pending(identity) for sink, identity in lives]
    assert [len(found) for found in names] == [1] * len(lives)
    assert len({name for found in names for name in found}) == len(lives)
    for (sink, identity), (own,) in zip(lives[::2], names[::2], strict=True):
        sink.abort([own])
        assert sink.pending(identity) == []
    outcomes = [sink.commit([each])[0].outcome for (sink, _), each in zip(lives, committables, strict=True)]
    assert outcomes == [Outcome.LOST, Outcome.COMMITTED] * len(prefixes)
    assert [sink.evidence(each) for (sink, _), each in zip(lives, committables, strict=True)] == [
        Evidence.ABSENT,
        Evidence.PRESENT,
    ] * len(prefixes)

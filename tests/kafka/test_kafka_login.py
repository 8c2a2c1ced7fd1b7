"""Users, passwords and certificates: they reach every client, are never shown, and rights may go while rows wait."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin._acl import AclOperation as May

from tests.kafka.listeners import Doors, certify, start_with_doors
from tests.kafka.rights import On, grant, revoke
from tests.kafka.seen import open_transactions, visible_now
from tests.support.driver import Driver
from tests.support.today import turn
from tidegate.core.errors import TidegateError
from tidegate.core.records import Attempt, Committable, Outcome
from tidegate.kafka.clients import Clients
from tidegate.kafka.cluster import cluster_of
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.kafka.sink import KafkaSink
from tidegate.sources.kafka.topics import Topics, TopicSelection
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from
from tidegate.testing.kafka.topics import TopicRecord, make_topic, produce, read_all

PROGRAM = Path(__file__).with_name("login_program.py")
LOUD = """
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
logger.spark.name = org.apache.spark
logger.spark.level = info
appender.out.type = Console
appender.out.name = out
appender.out.target = SYSTEM_ERR
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %p %c: %m%n%ex
"""
"""What makes Spark say all that it says at all."""
SECRETS = {"reader": "hush-reader-7d1f", "writer": "hush-writer-93ab", "poor": "hush-poor-e04c"}


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with start_with_doors(tmp_path_factory.mktemp("doors"), {"admin": "over-all", **SECRETS}) as doors:
        yield doors


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "place"
    monkeypatch.setenv("TIDEGATE_PLACE", str(place))
    return place


def let_write(doors: Doors, user: str, topic: str, prefix: str = "tg.") -> None:
    grant(doors.broker, user, On.TOPIC, topic, May.WRITE, May.READ)
    grant(doors.broker, user, On.TRANSACTIONAL_ID, prefix, May.WRITE, prefix=True)
    grant(doors.broker, user, On.GROUP, prefix, May.READ, prefix=True)


def plan() -> SinkPlan:
    return SinkPlan(identity=IDENTITY, schema=SCHEMA, mode="append", local_master=True, read_journal=lambda _: ())


def prepared(sink: KafkaSink, attempt: Attempt) -> Committable:
    transaction = sink.in_epoch(attempt.epoch - 1).begin(attempt)
    transaction.write(rows_from(attempt.epoch, 3))
    committable = transaction.pre_commit()
    assert committable is not None
    return committable


def ids(doors: Doors, topic: str) -> list[int]:
    return sorted(json.loads(row.value or b"")["id"] for row in visible_now(doors.open, topic))


@turn(0, of=4)
def test_a_job_logs_in_at_both_ends_and_shows_no_secret(
    doors: Doors, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user who lacks one right is refused by name, with nothing begun; the next start copies every row once."""
    topic, target = (make_topic(doors.open, name=name) for name in ("lines", "copies"))
    count = produce(
        doors.open, topic, [TopicRecord(str(number).encode(), partition=number % 8) for number in range(400)]
    )
    grant(doors.broker, "reader", On.TOPIC, topic, May.READ)
    grant(doors.broker, "reader", On.GROUP, "tidegate.", May.READ, prefix=True)
    for user in ("writer", "poor"):
        let_write(doors, user, target)
    revoke(doors.broker, "poor", On.GROUP, "tg.", May.READ, prefix=True)
    checkpoints, told = tmp_path / "checkpoints", tmp_path / "told.json"
    (tmp_path / "writer").write_text(SECRETS["writer"] + "\n")
    monkeypatch.setenv("READER_PASSWORD", SECRETS["reader"])
    monkeypatch.setenv("POOR_PASSWORD", SECRETS["poor"])
    given = {
        "servers": doors.broker.servers,
        "tls": doors.tls,
        "topic": topic,
        "target": target,
        "checkpoints": str(checkpoints),
        "told": str(told),
        "logging": f"-Dlog4j2.configurationFile=file:{tmp_path}/loud.properties",
        "reader": {**doors.broker.options("reader"), "sasl.password": "env:READER_PASSWORD"},
        "poor": {**doors.options("poor"), "sasl.password": "env:POOR_PASSWORD"},
        "writer": {**doors.options("writer"), "sasl.password": f"file:{tmp_path}/writer"},
    }
    (tmp_path / "loud.properties").write_text(LOUD)
    (tmp_path / "given.json").write_text(json.dumps(given))
    log = tmp_path / "log"
    with Driver(PROGRAM, str(tmp_path / "given.json"), log=log) as driver:
        deadline = time.monotonic() + 240
        while driver.process.poll() is None and time.monotonic() < deadline:
            assert shown_in(checkpoints, place) == []
            time.sleep(0.2)
        assert driver.wait(1) == 0, driver.tail()
    found = json.loads(told.read_text())
    assert found["refused"] == [
        f"{operation} on groups that begin with 'tg.' for the sink's user" for operation in ("DESCRIBE", "READ")
    ]
    assert [name for name in found["left"] if name != "holder.json" and not name.endswith("lock")] == []
    rows = read_all(doors.open, target)
    assert sorted(int(row.value or b"") for row in rows) == list(range(count))
    assert shown_in(checkpoints, place) == []
    printed = log.read_text(errors="replace")
    assert "INFO org.apache.spark" in printed
    assert [secret for secret in SECRETS.values() if secret in printed] == []


def shown_in(*folders: Path) -> list[tuple[Path, str]]:
    """The files that have a secret in them."""
    shown: list[tuple[Path, str]] = []
    for file in (file for folder in folders for file in folder.rglob("*")):
        try:
            data = file.read_bytes()
        except (FileNotFoundError, IsADirectoryError):  # it went while it was looked for
            continue
        shown += [(file, secret) for secret in SECRETS.values() if secret.encode() in data]
    return shown


def test_a_right_that_is_taken_away_while_rows_wait_loses_nothing(doors: Doors) -> None:
    """The commit is tried again and the start is refused by name; once it is granted, the very transaction commits."""
    topic = make_topic(doors.open)
    let_write(doors, "writer", topic, "taken.tg.")
    sink = KafkaSink(
        "numbers",
        doors.broker.servers,
        topic=topic,
        transactional_id_prefix="taken",
        transaction_timeout=60,
        options=doors.broker.options("writer"),
    )
    sink.open(plan())
    waiting = [prepared(sink, attempt_of(epoch=4))]
    revoke(doors.broker, "writer", On.TRANSACTIONAL_ID, "taken.tg.", May.WRITE, prefix=True)
    for _ in range(3):
        (answer,) = sink.commit(waiting)
        assert answer.outcome is Outcome.RETRY
        assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in answer.detail
    revoke(doors.broker, "writer", On.GROUP, "taken.tg.", May.READ, prefix=True)
    with pytest.raises(TidegateError, match="AUTHORIZATION_FAILED"):
        sink.evidence(waiting[0])
    assert {error.expected.split(" that ")[0] for error in sink.check(plan())} == {
        "DESCRIBE on transactional ids",
        "WRITE on transactional ids",
        "DESCRIBE on groups",
        "READ on groups",
    }
    assert ids(doors, topic) == []
    let_write(doors, "writer", topic, "taken.tg.")
    assert list(sink.check(plan())) == []
    assert sink.commit(waiting)[0].outcome is Outcome.COMMITTED
    assert ids(doors, topic) == [4000, 4001, 4002]
    assert open_transactions(doors.open) == []


def test_a_row_that_may_not_be_read_is_refused_before_it_is_needed(doors: Doors) -> None:
    topic = make_topic(doors.open)
    grant(doors.broker, "poor", On.TOPIC, topic, May.DESCRIBE)
    source = Topics(Clients(doors.broker.servers, doors.broker.options("poor")), "job j, source s")
    with pytest.raises(TidegateError) as refused:
        source.find(TopicSelection((topic,)))
    assert refused.value.expected == f"READ on topic '{topic}' for the source's user"
    assert refused.value.next_step.endswith(f"--operation Read --topic {topic}")
    grant(doors.broker, "poor", On.TOPIC, topic, May.READ)
    assert len(source.find(TopicSelection((topic,))).partitions) == 8


@turn(1, of=2)
def test_a_source_whose_login_is_refused_says_so_and_not_the_password(doors: Doors) -> None:
    options = {**doors.broker.options("reader"), "sasl.password": "guessed-wrongly"}
    with pytest.raises(TidegateError) as refused:
        Topics(Clients(doors.broker.servers, options), "job j, source s").find(TopicSelection(("any",)))
    assert "Authentication failed" in refused.value.found
    assert "guessed-wrongly" not in str(refused.value)


WRONG_DOORS = {
    "nothing at TLS": ("tls", {}, "speaks TLS: set security.protocol to "),
    "TLS without a certificate of its own": ("tls", {"security.protocol": "SSL"}, "wants a certificate of the client"),
    "TLS at a login without": (
        "users",
        {"security.protocol": "SSL"},
        "no TLS: set security.protocol to SASL_PLAINTEXT",
    ),
    "nothing at a login": ("users", {}, "wants a login by PLAIN: set security.protocol to SASL_PLAINTEXT"),
    "a login by what is not offered": ("users", {"sasl.mechanism": "SCRAM-SHA-256"}, "takes logins by PLAIN"),
    "a wrong password": ("users", {"sasl.mechanism": "PLAIN"}, "do not know this user or password"),
    "a login where none is taken": (
        "open",
        {"sasl.mechanism": "PLAIN"},
        "takes no login: set security.protocol to PLAINT",
    ),
}


@turn(3, of=4)
@pytest.mark.parametrize("case", WRONG_DOORS)
def test_a_client_at_the_wrong_door_is_told_which_one_it_is(
    doors: Doors, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client itself says no more than that its connection was closed."""
    monkeypatch.setattr("tidegate.kafka.cluster._CONTACT_SECONDS", 2.0)
    monkeypatch.setattr("tidegate.sources.kafka.topics._ANSWER_SECONDS", 2.0)
    door, given, told = WRONG_DOORS[case]
    servers = {"tls": doors.tls, "users": doors.broker.servers, "open": doors.open}[door]
    options = {**given, "enable.ssl.certificate.verification": "false"} if "security.protocol" in given else dict(given)
    if "sasl.mechanism" in given:
        options |= {"security.protocol": "SASL_PLAINTEXT", "sasl.username": "reader", "sasl.password": "guessed"}
    with pytest.raises(TidegateError) as refused:
        Topics(Clients(servers, options), "job j, source s").find(TopicSelection(("any",)))
    assert told in refused.value.next_step
    with pytest.raises(TidegateError) as refused:
        cluster_of(KafkaSink("numbers", servers, topic="any", options=options))
    assert told in refused.value.next_step
    assert "guessed" not in str(refused.value)


def test_the_command_that_grants_what_the_source_lacks_is_said(doors: Doors) -> None:
    topic = make_topic(doors.open)
    source = Topics(Clients(doors.broker.servers, doors.broker.options("poor")), "job j, source s")
    grant = "kafka-acls --bootstrap-server ... --add --allow-principal User:... --operation Read"
    with pytest.raises(TidegateError) as refused:
        source.find(TopicSelection((topic,)))
    assert refused.value.next_step == f"{grant} --topic {topic}"
    with pytest.raises(TidegateError) as refused:
        source.committed(frozenset({(topic, 0)}), "readers")
    assert refused.value.next_step == f"{grant} --group readers"


def test_a_server_that_another_authority_has_signed_is_told_as_that(
    doors: Doors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.kafka.cluster._CONTACT_SECONDS", 2.0)
    certify(tmp_path)
    topic = make_topic(doors.open)
    options = {**doors.options("admin"), "ssl.ca.location": str(tmp_path / "ca.pem")}
    (error,) = KafkaSink("numbers", doors.tls, topic=topic, options=options).check(plan())
    assert "certificate" in error.found
    assert list(KafkaSink("numbers", doors.tls, topic=topic, options=doors.options("admin")).check(plan())) == []

"""The broker for tests and demos: what it is after each thing that can happen to it, on real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclOperation
from kafka import KafkaAdminClient
from typer.testing import CliRunner

from tests.integration.place import wait_until
from tests.kafka.rights import On, grant
from tests.support.today import sampled, turn
from tidegate.cli import main
from tidegate.core.errors import Code, TidegateError
from tidegate.testing.kafka import Broker, BrokerState, status
from tidegate.testing.kafka import process as processes
from tidegate.testing.kafka.topics import NotReadToTheEnd, make_topic, produce, read_all

COMMAND = [sys.executable, "-m", "tidegate.cli.main", "broker"]


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One that the tests of this file may ill-treat, if they leave it running."""
    with Broker.start(tmp_path_factory.mktemp("own")) as broker:
        yield broker


def values(servers: str, topic: str) -> list[bytes | None]:
    return sorted((row.value for row in read_all(servers, topic)), key=repr)


def refused(action) -> TidegateError:
    with pytest.raises(TidegateError) as raised:
        action()
    return raised.value


def test_what_was_written_is_read_back(broker: Broker) -> None:
    topic = make_topic(broker.servers)
    assert produce(broker.servers, topic, (b"%d" % number for number in range(1000))) == 1000
    assert values(broker.servers, topic) == sorted(b"%d" % number for number in range(1000))


def test_an_open_transaction_is_no_end_of_a_topic(broker: Broker) -> None:
    topic = make_topic(broker.servers, partitions=1)
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open")
    assert producer.flush(30) == 0
    with pytest.raises(NotReadToTheEnd):
        read_all(broker.servers, topic, seconds=1)
    assert [row.value for row in read_all(broker.servers, topic, isolation="read_uncommitted")] == [b"open"]
    producer.abort_transaction(30)
    assert read_all(broker.servers, topic) == []


def test_two_brokers_at_once_know_nothing_of_each_other(broker: Broker, own: Broker) -> None:
    topic = make_topic(broker.servers)
    assert broker.servers != own.servers
    assert topic not in topics_of(own)
    assert topic in topics_of(broker)


def topics_of(broker: Broker) -> set[str]:
    return set(AdminClient({"bootstrap.servers": broker.servers}).list_topics(timeout=10).topics)


def test_it_listens_on_the_loopback_only(own: Broker) -> None:
    listening = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    pid = own.processes()[0].pid
    addresses = {line.split()[3].rpartition(":")[0] for line in listening.splitlines() if f"pid={pid}," in line}
    assert addresses
    assert addresses <= {"127.0.0.1", "[::ffff:127.0.0.1]"}


def test_a_second_start_is_refused(own: Broker) -> None:
    error = refused(lambda: Broker.start(own.folder))
    assert error.code == Code.BROKER_REFUSED.label
    assert error.found == f"process {own.processes()[0].pid} at {own.servers}"
    assert status(own.folder).state is BrokerState.RUNNING


@turn(0, of=3)
def test_a_killed_broker_is_noticed_and_its_data_are_still_there(own: Broker) -> None:
    topic = make_topic(own.servers)
    produce(own.servers, topic, [b"before"])
    own.kill()
    seen = status(own.folder)
    assert (seen.state, seen.nodes[0].pid) == (BrokerState.DIED, None)
    servers = own.servers
    again = Broker.start(own.folder)
    assert again.servers == servers
    assert status(own.folder).state is BrokerState.RUNNING
    produce(again.servers, topic, [b"after"])
    assert values(again.servers, topic) == [b"after", b"before"]


@turn(0, of=2)
def test_a_restart_keeps_the_data(own: Broker) -> None:
    topic = make_topic(own.servers)
    produce(own.servers, topic, [b"kept"])
    before, servers = own.processes(), own.servers
    own.restart()
    assert own.processes() != before
    assert own.servers == servers
    assert values(own.servers, topic) == [b"kept"]


def test_a_paused_broker_is_told_apart_from_a_dead_one(own: Broker) -> None:
    own.pause()
    try:
        assert status(own.folder).state is BrokerState.PAUSED
    finally:
        own.resume()
    assert status(own.folder).state is BrokerState.RUNNING


def test_a_paused_broker_can_be_stopped_and_started_as_the_same_version_only(own: Broker) -> None:
    own.pause()
    own.stop()
    assert status(own.folder).state is BrokerState.STOPPED
    assert own.processes() == []
    assert refused(lambda: Broker.start(own.folder, version="3.9.1")).code == Code.SETTING_VALUE.label
    own.restart()
    assert status(own.folder).state is BrokerState.RUNNING


def test_a_broker_that_cannot_start_shows_its_log_and_leaves_nothing(tmp_path: Path) -> None:
    error = refused(lambda: Broker.start(tmp_path, settings={"num.io.threads": "none"}))
    assert error.code == Code.BROKER_FAILED.label
    assert "num.io.threads" in error.found
    assert status(tmp_path).state is not BrokerState.RUNNING


def test_a_port_in_use_is_refused(tmp_path: Path, own: Broker) -> None:
    port = int(own.servers.rpartition(":")[2])
    error = refused(lambda: Broker.start(tmp_path, port=port))
    assert error.code == Code.BROKER_REFUSED.label
    assert str(port) in error.found
    assert status(tmp_path).state is BrokerState.ABSENT


def test_without_java_it_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    assert refused(lambda: Broker.start(tmp_path)).code == Code.JAVA_MISSING.label
    assert status(tmp_path).state is BrokerState.ABSENT


@pytest.mark.parametrize(
    "options", [{"brokers": 4}, {"version": "4"}, {"settings": {"listeners": "PLAINTEXT://0.0.0.0:9092"}}]
)
def test_what_does_not_fit_is_refused(tmp_path: Path, options) -> None:
    assert refused(lambda: Broker.start(tmp_path, **options)).code == Code.SETTING_VALUE.label
    assert status(tmp_path).state is BrokerState.ABSENT


@pytest.mark.more
def test_of_three_brokers_one_may_die(tmp_path: Path) -> None:
    with Broker.start(tmp_path, brokers=3) as cluster:
        assert len(cluster.servers.split(",")) == 3
        topic = make_topic(cluster.servers)
        produce(cluster.servers, topic, [b"all three"])
        cluster.kill(2)
        seen = status(tmp_path)
        assert seen.state is BrokerState.DIED
        assert [node.state for node in seen.nodes] == [BrokerState.RUNNING, BrokerState.DIED, BrokerState.RUNNING]
        produce(cluster.servers, topic, [b"two of three"])
        cluster.restart(2)
        assert status(tmp_path).state is BrokerState.RUNNING
        assert values(cluster.servers, topic) == [b"all three", b"two of three"]


@pytest.mark.parametrize(
    ("version", "transaction_version"), sampled([pytest.param("3.9.1", None), pytest.param("4.1.1", 0)])
)
def test_the_older_transaction_version_is_the_wanted_one(tmp_path: Path, version: str, transaction_version) -> None:
    with Broker.start(tmp_path, version=version, transaction_version=transaction_version) as broker:
        assert status(tmp_path).version == version
        assert finalized_features(broker).get("transaction.version", 0) == 0


def test_the_newer_transaction_version_is_usual(broker: Broker) -> None:
    assert finalized_features(broker)["transaction.version"] == 2


@turn(0, of=4)
def test_a_user_may_do_what_the_access_list_says(tmp_path: Path) -> None:
    with Broker.start(tmp_path, users={"admin": "over-all", "alice": "secret"}) as broker:
        topic = make_topic(broker.servers, options=broker.options("admin"))
        with pytest.raises(KafkaException, match="AUTHORIZATION"):
            produce(broker.servers, topic, [b"not yet"], options=broker.options("alice"))
        grant(broker, "alice", On.TOPIC, topic, AclOperation.WRITE)
        assert produce(broker.servers, topic, [b"now"], options=broker.options("alice")) == 1
        wrong = {**broker.options("alice"), "sasl.password": "guessed"}
        with pytest.raises(KafkaException):
            AdminClient({**wrong, "bootstrap.servers": broker.servers, "log_level": "0"}).list_topics(timeout=3)
        assert "secret" not in (tmp_path / "node-1" / "broker.log").read_text()


def finalized_features(broker: Broker) -> dict[str, int]:
    admin = KafkaAdminClient(bootstrap_servers=broker.servers)
    try:
        features = admin.describe_features()  # pyright: ignore[reportAttributeAccessIssue]
    finally:
        admin.close()
    return {name: levels["finalized"][1] for name, levels in features.items() if "finalized" in levels}


# ---- the process, without a broker


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[processes.Process]:
    process = processes.spawn(["sleep", "60"], tmp_path, tmp_path / "log")
    yield process
    processes.kill([process])


def test_a_process_number_used_again_is_not_ours(sleeper: processes.Process) -> None:
    stranger = processes.Process(pid=sleeper.pid, since="another time")
    assert not stranger.is_alive()
    processes.kill([stranger])
    assert sleeper.is_alive()


def test_a_dead_child_is_not_alive_as_a_zombie(sleeper: processes.Process) -> None:
    os.kill(sleeper.pid, signal.SIGKILL)
    assert processes._gone([sleeper], 10)


def test_without_the_proc_folder_ps_tells_the_same(
    sleeper: processes.Process, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(processes, "_BOOT", tmp_path / "none")
    other = processes.spawn(["sleep", "60"], tmp_path, tmp_path / "log")
    assert other.is_alive()
    other.send(signal.SIGSTOP)
    wait_until(other.is_paused, "the process stands still")
    processes.kill([other])
    assert not other.is_alive()


# ---- the command


def run(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


@turn(2, of=3)
def test_the_command_starts_shows_and_stops_a_broker(tmp_path: Path) -> None:
    folder = str(tmp_path / "broker")
    assert run("status", "--folder", folder)[0] == 1
    code, output, _ = run("start", "--folder", folder, "--port", "0", "--json")
    assert code == 0
    started = json.loads(output)
    assert started["state"] == "running"
    try:
        topic = make_topic(started["servers"])
        produce(started["servers"], topic, [b"through the command"])
        code, _, complaint = run("start", "--folder", folder, "--port", "0")
        assert (code, "TG-BROKER-REFUSED" in complaint) == (1, True)
        assert run("status", "--folder", folder)[0] == 0
    finally:
        code, output, _ = run("stop", "--folder", folder, "--json")
    assert (code, json.loads(output)["state"]) == (0, "stopped")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(started["servers"].rpartition(":")[2])), 2)
    assert run("status", "--folder", folder)[0] == 1
    code, _, complaint = run("stop", "--folder", folder)
    assert (code, "TG-BROKER-REFUSED" in complaint) == (1, True)
    assert "Traceback" not in complaint


@pytest.mark.parametrize(
    "arguments", [["start", "--port", "-1"], ["start", "--version", "newest"], ["begin"], ["status", "--nonsense"]]
)
def test_wrong_usage(arguments: list[str]) -> None:
    assert CliRunner().invoke(main.commands, ["broker", *arguments]).exit_code == 2

"""The settings of a broker for demos and tests: loopback only, small, and quick to start."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tidegate.testing.kafka.record import ADMIN, OWN_USER, ClusterRecord, NodeRecord

DATA = "data"
FILE = "server.properties"

# A broker that was killed may come back only when the session of the one before it has run out. Records are kept
# without a limit of time: a test gives them times of its own, and by those they would expire while the test runs.
_SMALL = {
    "auto.create.topics.enable": "false",
    "background.threads": "2",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "4000",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "log.retention.ms": "-1",
    "num.io.threads": "4",
    "num.network.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "num.replica.fetchers": "1",
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "4",
}


def server_properties(record: ClusterRecord, node: NodeRecord) -> str:
    """The text of one node's properties file. Its paths are relative to the working folder of the process."""
    lines = {**_SMALL, **_replication(len(record.nodes)), **record.settings, **place(record, node), **security(record)}
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in lines.items())


def place(record: ClusterRecord, node: NodeRecord) -> Mapping[str, str]:
    """The settings that make this node a member of this cluster at its ports. The user cannot override them."""
    controllers = _controllers(record)
    is_controller = node in controllers
    listeners = {"CLIENTS": node.port, **({"CONTROLLER": node.controller_port} if is_controller else {})}
    advertised = {"CLIENTS": node.port}
    protocols = {"CLIENTS": record.protocol, "CONTROLLER": "PLAINTEXT"}
    if node.detour is not None:
        listeners["DETOUR"], advertised["DETOUR"] = node.detour.port, node.detour.proxy_port
        protocols["DETOUR"] = record.protocol
    return {
        "node.id": str(node.number),
        "process.roles": "broker,controller" if is_controller else "broker",
        "controller.quorum.voters": ",".join(f"{one.number}@127.0.0.1:{one.controller_port}" for one in controllers),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENTS",
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "listeners": _addresses(listeners),
        "advertised.listeners": _addresses(advertised),
        "log.dirs": DATA,
    }


def security(record: ClusterRecord) -> Mapping[str, str]:
    """The settings for a cluster with users: passwords, and access control lists that decide what each user may do.

    The brokers log in as a user of their own. At the controllers' port no login is needed.
    """
    if not record.users:
        return {}
    passwords = " ".join(f'user_{name}="{password}"' for name, password in record.users.items())
    own = f'username="{OWN_USER}" password="{record.users[OWN_USER]}"'
    login = f"org.apache.kafka.common.security.plain.PlainLoginModule required {own} {passwords};"
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "listener.name.clients.plain.sasl.jaas.config": login,
        "listener.name.detour.plain.sasl.jaas.config": login,
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "super.users": f"User:{OWN_USER};User:{ADMIN};User:ANONYMOUS",
    }


def _replication(brokers: int) -> Mapping[str, str]:
    """Replication settings: every partition has a replica on each broker. With three brokers, one may be down."""
    copies, needed = str(brokers), str(max(1, brokers - 1))
    return {
        "default.replication.factor": copies,
        "min.insync.replicas": needed,
        "offsets.topic.replication.factor": copies,
        "share.coordinator.state.topic.min.isr": needed,
        "share.coordinator.state.topic.replication.factor": copies,
        "transaction.state.log.min.isr": needed,
        "transaction.state.log.replication.factor": copies,
    }


def _addresses(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())


def _controllers(record: ClusterRecord) -> tuple[NodeRecord, ...]:
    """The nodes that are controllers: all three of three brokers, else one, because two controllers tolerate no
    failure.
    """
    return record.nodes[: 3 if len(record.nodes) >= 3 else 1]


def _escaped(text: str) -> str:
    """Escape text for a Java properties file.

    JSON's escapes fit: a backslash, and a number for characters outside ASCII.
    """
    return json.dumps(text)[1:-1]

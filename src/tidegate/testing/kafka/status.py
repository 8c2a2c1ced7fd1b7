"""The state of a broker in a folder: whether its processes are alive, and whether they answer."""

from __future__ import annotations

import socket
from enum import Enum
from pathlib import Path

import msgspec

from tidegate.testing.kafka.record import OWN_USER, ClusterRecord, NodeRecord, load

_ANSWER_SECONDS = 2.0


class BrokerState(str, Enum):
    """The state of a broker.

    The state of a cluster is that of its worst broker: the one that comes last in this list.
    """

    RUNNING = "running"
    ABSENT = "absent"
    STOPPED = "stopped"
    PAUSED = "paused"
    SILENT = "silent"
    DIED = "died"


_MEANINGS = {
    BrokerState.RUNNING: "it answers",
    BrokerState.ABSENT: "no broker was ever started in this folder",
    BrokerState.STOPPED: "it was stopped",
    BrokerState.PAUSED: "its process stands still (SIGSTOP)",
    BrokerState.SILENT: "its process is alive but does not answer",
    BrokerState.DIED: "its process has ended without a stop",
}


class NodeStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One broker of the cluster. `pid`: None if its process is not alive."""

    number: int
    state: BrokerState
    server: str
    pid: int | None
    log: str


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The broker in a folder: the address for clients, and the state of each process."""

    state: BrokerState
    meaning: str
    folder: str
    version: str | None = None
    transaction_version: int | None = None
    servers: str | None = None
    nodes: tuple[NodeStatus, ...] = ()


def status(folder: str | Path) -> Status:
    """The present state of the broker in this folder, also if another process started it.

    Takes up to 2 s for each broker that does not answer.
    """
    root = Path(folder).absolute()
    record = load(root)
    if record is None:
        return Status(state=BrokerState.ABSENT, meaning=_MEANINGS[BrokerState.ABSENT], folder=str(root))
    nodes = tuple(_node_status(root, record, node) for node in record.nodes)
    order = list(BrokerState)
    worst = max((node.state for node in nodes), key=order.index)
    return Status(
        state=worst,
        meaning=_MEANINGS[worst],
        folder=str(root),
        version=record.version,
        transaction_version=record.transaction_version,
        servers=record.servers,
        nodes=nodes,
    )


def answers(record: ClusterRecord, node: NodeRecord) -> bool:
    """True if a Kafka broker answers at this node's port and is a member of this cluster."""
    from confluent_kafka import KafkaException  # here: a command that asks no broker does not wait for the client
    from confluent_kafka.admin import AdminClient

    try:
        socket.create_connection(("127.0.0.1", node.port), _ANSWER_SECONDS).close()
        options = record.client_options(OWN_USER)
        client = AdminClient({**options, "bootstrap.servers": node.server, "log_level": 0})
        metadata = client.list_topics(timeout=_ANSWER_SECONDS)
    except (OSError, KafkaException):
        return False
    return str(metadata.cluster_id) == record.cluster_id and node.number in metadata.brokers


def _node_status(root: Path, record: ClusterRecord, node: NodeRecord) -> NodeStatus:
    state = _state(record, node)
    alive = state in {BrokerState.RUNNING, BrokerState.PAUSED, BrokerState.SILENT}
    return NodeStatus(
        number=node.number,
        state=state,
        server=node.server,
        pid=node.process.pid if alive and node.process is not None else None,
        log=str(node.log(root)),
    )


def _state(record: ClusterRecord, node: NodeRecord) -> BrokerState:
    if node.process is None:
        return BrokerState.STOPPED
    if not node.process.is_alive():
        return BrokerState.DIED
    if node.process.is_paused():
        return BrokerState.PAUSED
    return BrokerState.RUNNING if answers(record, node) else BrokerState.SILENT

"""The file in a broker's folder that describes the broker, so that a later command finds it."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.testing.kafka.process import Process

OWN_USER = "broker"
"""As whom the brokers of a cluster with users, and the questions about how it is, log in."""
ADMIN = "admin"
"""The user who, if there is one of this name, may do everything."""

_NAME = "broker.json"


class Detour(msgspec.Struct, frozen=True, kw_only=True):
    """A second listener of a broker: at `port`. It tells its clients to connect to `proxy_port`."""

    port: int
    proxy_port: int


class NodeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One broker of the cluster.

    `process` is None before the first start and after a stop; after a crash it is a dead process.
    """

    number: int
    port: int
    controller_port: int
    process: Process | None = None
    detour: Detour | None = None

    @property
    def server(self) -> str:
        return f"127.0.0.1:{self.port}"

    def folder(self, root: Path) -> Path:
        return root / f"node-{self.number}"

    def log(self, root: Path) -> Path:
        return self.folder(root) / "broker.log"


class ClusterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster: its properties, which were set when it was formatted, and its brokers as of the last start."""

    version: str
    cluster_id: str
    transaction_version: int | None
    settings: dict[str, str]
    nodes: tuple[NodeRecord, ...]
    jvm: tuple[str, ...] = ()
    users: dict[str, str] = {}
    """Passwords by user, that of the brokers among them; empty: everybody may do everything."""

    @property
    def servers(self) -> str:
        return ",".join(node.server for node in self.nodes)

    @property
    def protocol(self) -> str:
        return "SASL_PLAINTEXT" if self.users else "PLAINTEXT"

    def client_options(self, user: str) -> dict[str, str]:
        """The client options that log in as this user. The address of the servers is not among them."""
        if not self.users:
            return {}
        return {
            "security.protocol": self.protocol,
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": self.users[user],
        }

    def replaced(self, *changed: NodeRecord) -> ClusterRecord:
        """A copy of the record. The given nodes replace those with the same numbers."""
        new = {node.number: node for node in changed}
        return msgspec.structs.replace(self, nodes=tuple(new.get(node.number, node) for node in self.nodes))


def load(folder: Path) -> ClusterRecord | None:
    """Read the record in this folder; None if no broker was ever started there."""
    path = folder / _NAME
    try:
        return parsed(path.read_bytes(), ClusterRecord)
    except FileNotFoundError:
        return None
    except Unreadable as error:
        raise TidegateError(
            Code.RECORD_CORRUPT,
            expected="the record of a broker",
            found=str(error),
            where=str(path),
            next_step="end the broker's process if there is one, then use another folder or remove this one",
        ) from error


def save(folder: Path, record: ClusterRecord) -> None:
    """Write the record of this folder, and replace an older one."""
    aside = folder / f".{_NAME}"
    aside.touch(mode=0o600)  # it may hold passwords
    aside.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2))
    os.replace(aside, folder / _NAME)

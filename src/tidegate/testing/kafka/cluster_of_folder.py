"""The cluster of a folder (nodes, ports, users): existing or to be created, and the checks before a start."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from tidegate.core.errors import Code, TidegateError
from tidegate.testing.kafka.ports import free_port, require_free
from tidegate.testing.kafka.properties import DATA, place, security
from tidegate.testing.kafka.record import OWN_USER, ClusterRecord, Detour, NodeRecord, load

MOST_BROKERS = 3
_PLAIN = re.compile(r"[\w.-]+", re.ASCII)


def new_nodes(brokers: int, port: int) -> tuple[NodeRecord, ...]:
    """Nodes with free ports: the numbers from `port` on, or any free ports if `port` is 0."""
    if not 1 <= brokers <= MOST_BROKERS:
        raise bad_value(f"1 to {MOST_BROKERS} brokers", str(brokers), "brokers")
    taken = {port + offset for offset in range(brokers)} if port else set[int]()
    nodes: list[NodeRecord] = []
    for number in range(1, brokers + 1):
        own = port + number - 1 if port else free_port(taken)
        controller = free_port({*taken, own})
        taken |= {own, controller}
        nodes.append(NodeRecord(number=number, port=own, controller_port=controller))
    return tuple(nodes)


def with_detours(nodes: Sequence[NodeRecord]) -> tuple[NodeRecord, ...]:
    """The nodes, each with free ports for a proxy before it."""
    taken = {port for node in nodes for port in (node.port, node.controller_port)}
    found: list[NodeRecord] = []
    for node in nodes:
        behind = free_port(taken)
        shown = free_port({*taken, behind})
        taken |= {behind, shown}
        found.append(replace(node, detour=Detour(port=behind, proxy_port=shown)))
    return tuple(found)


def users_of(given: Mapping[str, str] | None) -> dict[str, str]:
    """The given users, and a user for the connections between brokers. Empty if no users are given."""
    if given is None:
        return {}
    for name, password in given.items():
        if name == OWN_USER or not (_PLAIN.fullmatch(name) and _PLAIN.fullmatch(password)):
            raise bad_value(f"letters, digits and `._-`, and no user {OWN_USER}", f"the user {name!r}", "users")
    return {OWN_USER: secrets.token_hex(16), **given}


def continued(known: ClusterRecord, wanted: ClusterRecord, port: int) -> ClusterRecord:
    """The existing cluster with the changes that are allowed: the wanted settings and, if `port` is not 0, the wanted
    ports.
    """
    ports = [port + node.number - 1 if port else node.port for node in known.nodes]
    nodes = tuple(replace(node, port=own, process=None) for node, own in zip(known.nodes, ports, strict=True))
    users = wanted.users or known.users
    return replace(
        known, nodes=nodes, settings={**known.settings, **wanted.settings}, jvm=wanted.jvm or known.jvm, users=users
    )


def refuse_other(
    known: ClusterRecord,
    *,
    version: str | None,
    brokers: int | None,
    transaction_version: int | None,
    detour: bool | None,
) -> None:
    """Raise if a wanted property differs from the existing cluster and cannot be changed after the first start.

    None means: no particular value is wanted.
    """
    for what, old, new in (
        ("version", known.version, version),
        ("brokers", len(known.nodes), brokers),
        ("transaction version", known.transaction_version, transaction_version),
        ("detour", known.nodes[0].detour is not None, detour),
    ):
        if new is not None and new != old:
            raise bad_value(f"{what} {old}, with which the folder was begun", str(new), what)


def refuse_our_settings(record: ClusterRecord) -> None:
    """Raise if the user's settings contain one that tidegate sets itself, such as a port or a data folder."""
    ours = place(record, record.nodes[0]).keys() | security(record).keys()
    for name in sorted(record.settings.keys() & ours):
        raise bad_value("settings beside those that make the broker run here", name, "settings")


def refuse_running(record: ClusterRecord, root: Path) -> None:
    """Raise if a broker of this folder is running."""
    for node in record.nodes:
        if node.process is not None and node.process.is_alive():
            raise refused(
                "no broker that runs in this folder",
                f"process {node.process.pid} at {node.server}",
                root,
                "use that one, stop it first, or name another folder",
            )


def refuse_taken_ports(record: ClusterRecord) -> None:
    """Raise if another program listens on one of the cluster's ports."""
    for node in record.nodes:
        require_free(node.port)
        require_free(node.controller_port)
        if node.detour is not None:
            require_free(node.detour.port)


def formatted(root: Path) -> ClusterRecord | None:
    """The cluster record of this folder; None if no data folder was formatted.

    A failed first start thus counts as none.
    """
    record = load(root)
    return record if record is not None and any(is_formatted(root, node) for node in record.nodes) else None


def is_formatted(root: Path, node: NodeRecord) -> bool:
    """True if the node's data folder exists."""
    return (node.folder(root) / DATA / "meta.properties").exists()


def refused(expected: str, found: str, where: Path, next_step: str) -> TidegateError:
    """The error for an action that the folder's broker does not allow in its present state."""
    return TidegateError(Code.BROKER_REFUSED, expected=expected, found=found, where=str(where), next_step=next_step)


def bad_value(expected: str, found: str, where: str) -> TidegateError:
    """The error for an invalid argument."""
    return TidegateError(
        Code.SETTING_VALUE, expected=expected, found=found, where=where, next_step="change it, or use another folder"
    )

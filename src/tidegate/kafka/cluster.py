"""Asks a cluster for its limits when a sink connects for the first time, with the sink's own login."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tidegate.kafka.clients import Clients, Refusals
from tidegate.kafka.options import OWNED_BY_SINK
from tidegate.kafka.refusals import cluster_unusable, remedy

_CONTACT_SECONDS = 15.0
_MAX_TIMEOUT_MS = 900_000
"""`transaction.max.timeout.ms` as brokers have it, where it cannot be read."""
_EVIDENCE_KEPT_MS = 86_400_000
"""Where `offsets.retention.minutes` cannot be read: less than brokers usually have."""


_OWNED = frozenset(each.name for each in OWNED_BY_SINK) - {"bootstrap.servers"}


class Reaching(Protocol):
    """The sink that asks. Its uid is named in errors; its clients make the connection."""

    uid: str
    clients: Clients


@dataclass(frozen=True, slots=True)
class Cluster:
    """Limits of a cluster: the longest transaction, and how long evidence (committed group offsets) is kept.

    `tells`: False if the user may not see them (needs DESCRIBE_CONFIGS on the cluster); they are then Kafka's defaults.
    """

    max_timeout_ms: int
    evidence_kept_ms: int
    tells: bool

    def timeout_ms(self, wanted_seconds: float | None) -> int:
        """The transaction timeout in milliseconds: the wanted one, limited to the longest that the broker allows."""
        return self.max_timeout_ms if wanted_seconds is None else int(wanted_seconds * 1000)


def cluster_of(sink: Reaching) -> Cluster:
    """Ask the cluster for its limits. Raises SINK_UNUSABLE if it cannot be reached."""
    refusals = Refusals()
    admin: Any = None
    try:
        given = {name: value for name, value in sink.clients.settings().items() if name not in _OWNED}
        given["error_cb"] = refusals.note
        admin = AdminClient(given)
        metadata = admin.list_topics(timeout=_CONTACT_SECONDS)
        found = _broker_settings(admin, next(iter(metadata.brokers)))
    except KafkaException as error:
        if admin is not None:
            admin.poll(0)
        cause = refusals.take() or error
        otherwise = "start the broker, or mend servers= and options=; then start again"
        raise cluster_unusable(
            str(cause.args[0].str()),
            f"sink {sink.uid!r}: {sink.clients.servers}",
            remedy(cause, sink.clients) or otherwise,
        ) from None
    return Cluster(
        max_timeout_ms=int(found.get("transaction.max.timeout.ms", _MAX_TIMEOUT_MS)),
        evidence_kept_ms=int(found.get("offsets.retention.minutes", _EVIDENCE_KEPT_MS // 60_000)) * 60_000,
        tells=bool(found),
    )


def _broker_settings(admin: AdminClient, broker: int) -> Mapping[str, str]:
    """The settings of a broker; empty if the user may not see them."""
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    try:
        found: Mapping[str, Any] = admin.describe_configs([resource])[resource].result(_CONTACT_SECONDS)
    except KafkaException:
        return {}
    return {name: str(entry.value) for name, entry in found.items()}

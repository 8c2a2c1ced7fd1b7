"""What stands against a Kafka sink before its query starts, all of it at once; and what its cluster allows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tidegate.core.errors import Code, TidegateError
from tidegate.kafka.clients import Clients
from tidegate.kafka.messages import Format, Layout, can_be_bytes
from tidegate.sinks.base import SinkPlan

_CONTACT_SECONDS = 15.0
_MAX_TIMEOUT_MS = 900_000
"""`transaction.max.timeout.ms` as brokers have it, where it cannot be read."""
_EVIDENCE_KEPT_MS = 86_400_000
"""Where `offsets.retention.minutes` cannot be read: less than brokers usually have."""
PROTECTED = ("acks", "request.required.acks", "enable.idempotence", "transactional.id", "transaction.timeout.ms")
"""What the protocol stands on: not for the user to set."""


class Described(Protocol):
    """What the checks need of a sink."""

    uid: str
    topic: str | None
    key: str | None
    value: tuple[str, ...]
    headers: str | None
    partition: str | None
    format: str
    transaction_timeout: float | None
    clients: Clients


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a cluster says of itself: its topics, the longest transaction, how long evidence is kept."""

    topics: frozenset[str]
    max_timeout_ms: int
    evidence_kept_ms: int

    def timeout_ms(self, wanted_seconds: float | None) -> int:
        """The transaction timeout: the longest that the broker allows, unless less is wanted."""
        return self.max_timeout_ms if wanted_seconds is None else int(wanted_seconds * 1000)


def cluster_of(sink: Described) -> Cluster:
    """Ask the cluster. Raises SINK_UNUSABLE where it cannot be reached."""
    try:
        given = sink.clients.settings().items()
        admin = AdminClient({name: value for name, value in given if name not in PROTECTED})
        metadata = admin.list_topics(timeout=_CONTACT_SECONDS)
        settings = _broker_settings(admin, next(iter(metadata.brokers)))
    except KafkaException as error:
        raise TidegateError(
            Code.SINK_UNUSABLE,
            expected="a Kafka cluster that answers",
            found=str(error.args[0].str() if error.args else error),
            where=f"sink {sink.uid!r}: {sink.clients.servers}",
            next_step="start the broker, or mend servers= and options=; then start again",
        ) from None
    return Cluster(
        topics=frozenset(metadata.topics),
        max_timeout_ms=int(settings.get("transaction.max.timeout.ms", _MAX_TIMEOUT_MS)),
        evidence_kept_ms=int(settings.get("offsets.retention.minutes", _EVIDENCE_KEPT_MS // 60_000)) * 60_000,
    )


def _broker_settings(admin: AdminClient, broker: int) -> Mapping[str, str]:
    """The settings of a broker; empty where the user has no right to see them."""
    resource = ConfigResource(ResourceType.BROKER, str(broker))
    try:
        found: Mapping[str, Any] = admin.describe_configs([resource])[resource].result(_CONTACT_SECONDS)
    except KafkaException:
        return {}
    return {name: str(entry.value) for name, entry in found.items()}


def layout_of(sink: Described, schema: pa.Schema) -> Layout:
    """Which column is what, for rows of this schema."""
    format_ = Format(sink.format)
    names = list(schema.names)
    by_itself = format_ is Format.RAW

    def column(given: str | None, name: str) -> str | None:
        return given if given is not None else name if by_itself and name in names else None

    topic_column = None if sink.topic is not None else "topic"
    partition, headers = column(sink.partition, "partition"), column(sink.headers, "headers")
    left_out = {topic_column, partition, headers}
    values = sink.value or (("value",) if by_itself else tuple(name for name in names if name not in left_out))
    return Layout(
        format=format_,
        topic=sink.topic,
        topic_column=topic_column,
        key=column(sink.key, "key"),
        values=values,
        partition=partition,
        headers=headers,
    )


def violations_of(sink: Described, plan: SinkPlan) -> list[TidegateError]:
    """Every violation, for rows of `plan.schema`."""
    check = _Check(sink, plan)
    return [*check.settings(), *check.rows(), *check.cluster()]


class _Check:
    def __init__(self, sink: Described, plan: SinkPlan) -> None:
        self._sink = sink
        self._plan = plan

    def settings(self) -> Iterator[TidegateError]:
        if self._sink.format not in {each.value for each in Format}:
            yield self._violation(
                Code.OPTION_UNKNOWN,
                f"format one of {', '.join(repr(each.value) for each in Format)}",
                f"format={self._sink.format!r}",
                "choose one of these",
            )
        for name in sorted(set(PROTECTED) & set(self._sink.clients.options)):
            yield self._violation(
                Code.OPTION_UNKNOWN,
                "acks, idempotence and transactions as the protocol needs them",
                f"options={{{name!r}: ...}}",
                "take it out; transaction_timeout= and transactional_id_prefix= are the sink's own",
            )

    def rows(self) -> Iterator[TidegateError]:
        if self._sink.format not in {each.value for each in Format}:
            return
        layout, schema = layout_of(self._sink, self._plan.schema), self._plan.schema
        used = [layout.topic_column, layout.key, *layout.values, layout.partition, layout.headers]
        missing = sorted({name for name in used if name is not None and name not in schema.names})
        if missing:
            yield self._violation(
                Code.KEY_COLUMN if missing == [layout.key] else Code.SCHEMA_MISMATCH,
                f"columns {', '.join(missing)} in the rows",
                f"columns {', '.join(schema.names)}",
                "name columns that the rows have, or give select=[...]; topic= names one topic for all rows",
            )
            return
        yield from self._types(layout, schema)

    def _types(self, layout: Layout, schema: pa.Schema) -> Iterator[TidegateError]:
        as_bytes = [layout.key, *(layout.values if layout.format is Format.RAW else ())]
        for name in (name for name in as_bytes if name is not None):
            if not can_be_bytes(schema.field(name).type):
                yield self._mistyped(name, schema, "a text, binary or plain value", 'F.to_json(), or format="json"')
        if layout.partition is not None and not pa.types.is_integer(schema.field(layout.partition).type):
            yield self._mistyped(layout.partition, schema, "an integer", '.cast("int")')
        if layout.topic_column is not None and not pa.types.is_string(schema.field(layout.topic_column).type):
            yield self._mistyped(layout.topic_column, schema, "a string", '.cast("string")')
        if layout.headers is not None and not pa.types.is_list(schema.field(layout.headers).type):
            yield self._mistyped(
                layout.headers, schema, "array<struct<key:string,value:binary>>", "F.array(F.struct())"
            )

    def _mistyped(self, name: str, schema: pa.Schema, expected: str, mend: str) -> TidegateError:
        return self._violation(
            Code.SCHEMA_MISMATCH,
            f"{expected} in column {name!r}",
            str(schema.field(name).type),
            f"convert the column, for example with {mend}",
        )

    def cluster(self) -> Iterator[TidegateError]:
        try:
            cluster = cluster_of(self._sink)
        except TidegateError as error:
            yield error
            return
        if self._sink.topic is not None and self._sink.topic not in cluster.topics:
            yield self._violation(
                Code.SINK_UNUSABLE, f"topic {self._sink.topic!r}", "no such topic", "create the topic, or give another"
            )
        wanted = cluster.timeout_ms(self._sink.transaction_timeout)
        if not 0 < wanted <= cluster.max_timeout_ms:
            yield self._violation(
                Code.OPTION_UNKNOWN,
                f"transaction_timeout up to {cluster.max_timeout_ms / 1000:g} s (transaction.max.timeout.ms)",
                f"{wanted / 1000:g} s",
                "give less, or none: then it is the broker's maximum",
            )

    def _violation(self, code: Code, expected: str, found: str, next_step: str) -> TidegateError:
        return TidegateError(
            code, expected=expected, found=found, where=f"sink {self._sink.uid!r}", next_step=next_step
        )

"""The checks before a start of a Kafka sink. All violations are reported at once."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa

from tidegate.core.errors import Code, TidegateError
from tidegate.kafka.brokers import OLDEST, look_at, min_in_sync, missing_requests, on_one_disk, versions
from tidegate.kafka.cluster import Cluster, cluster_of
from tidegate.kafka.option_names import NAMES
from tidegate.kafka.options import OWNED_BY_SINK, End, option_violations
from tidegate.kafka.refusals import cluster_unusable
from tidegate.kafka.replies import KafkaRefused, Reply
from tidegate.kafka.right import Right
from tidegate.kafka.wire import Wire
from tidegate.kafka.wire_options import CONNECTS, MECHANISMS
from tidegate.sinks.base import SinkPlan
from tidegate.sinks.kafka.declared import DeclaredKafkaSink, layout_of
from tidegate.sinks.kafka.messages import Layout, MessageFormat, are_headers
from tidegate.sinks.kafka.names import ids_begin, sink_part
from tidegate.sinks.kafka.rights import missing_by_name, missing_on_topic
from tidegate.sinks.kafka.wires import wire_of
from tidegate.sinks.value_table import Target, violations

_LOG = logging.getLogger("tidegate")


def violations_of(sink: DeclaredKafkaSink, plan: SinkPlan) -> list[TidegateError]:
    """Every violation, for rows of `plan.schema`."""
    check = _KafkaCheck(sink, plan)
    return [*check.settings(), *check.rows(), *check.cluster()]


def cluster_violations_of(sink: DeclaredKafkaSink, plan: SinkPlan) -> list[TidegateError]:
    """The violations that the cluster reports. The rows of `plan` are not checked."""
    return list(_KafkaCheck(sink, plan).cluster())


class _KafkaCheck:
    def __init__(self, sink: DeclaredKafkaSink, plan: SinkPlan) -> None:
        self._sink = sink
        self._plan = plan

    def settings(self) -> Iterator[TidegateError]:
        if self._sink.format not in {each.value for each in MessageFormat}:
            yield self._violation(
                Code.OPTION_UNKNOWN,
                f"format one of {', '.join(repr(each.value) for each in MessageFormat)}",
                f"format={self._sink.format!r}",
                "choose one of these",
            )
        yield from option_violations(self._sink.clients, _SINK, self._where)

    def rows(self) -> Iterator[TidegateError]:
        if self._sink.format not in {each.value for each in MessageFormat}:
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
        if not layout.values:
            yield self._violation(
                Code.SCHEMA_MISMATCH,
                "a column for the value",
                f"columns {', '.join(schema.names)}, which are topic, partition and headers",
                "name the columns of the value with value=[...]",
            )
        yield from self._types(layout, schema)

    def _types(self, layout: Layout, schema: pa.Schema) -> Iterator[TidegateError]:
        as_bytes = [layout.key, *(layout.values if layout.format is MessageFormat.RAW else ())]
        as_json = layout.values if layout.format is MessageFormat.JSON else ()
        for target, names in ((Target.BYTES, as_bytes), (Target.JSON, as_json)):
            columns = [schema.field(name) for name in names if name is not None]
            yield from violations(pa.schema(columns), target, f"sink {self._sink.uid!r}")
        if layout.partition is not None and not pa.types.is_integer(schema.field(layout.partition).type):
            yield self._mistyped(layout.partition, schema, "an integer", '.cast("int")')
        if layout.topic_column is not None and not pa.types.is_string(schema.field(layout.topic_column).type):
            yield self._mistyped(layout.topic_column, schema, "a string", '.cast("string")')
        if layout.headers is not None and not are_headers(schema.field(layout.headers).type):
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
            yield from self._connecting()
            cluster = cluster_of(self._sink)
            yield from self._timeout(cluster)
            yield from self._brokers(wire_of(self._sink.clients), cluster)
        except TidegateError as error:
            yield error
        except KafkaRefused as error:
            repair = "repair the cluster or correct options=, then start again"
            yield cluster_unusable(str(error), self._where, repair)

    def _connecting(self) -> Iterator[TidegateError]:
        """The driver connects to the brokers through a client of its own, with the same login."""
        given = self._sink.clients.options
        for name in sorted((given.keys() & NAMES) - CONNECTS):
            if name.startswith(_OF_A_LOGIN):
                yield self._violation(
                    Code.OPTION_UNKNOWN,
                    f"of logins and TLS: {', '.join(sorted(CONNECTS - {'bootstrap.servers', 'client.id'}))}",
                    f"options={{{name!r}: ...}}",
                    "remove it, or use one of these: other options reach the producers but not the driver",
                )

    def _timeout(self, cluster: Cluster) -> Iterator[TidegateError]:
        wanted = cluster.timeout_ms(self._sink.transaction_timeout)
        if not 0 < wanted <= cluster.max_timeout_ms:
            yield self._violation(
                Code.OPTION_UNKNOWN,
                f"transaction_timeout up to {cluster.max_timeout_ms / 1000:g} s (transaction.max.timeout.ms)",
                f"{wanted / 1000:g} s",
                "give less, or none: then it is the broker's maximum",
            )
        elif self._plan.interval_seconds * 1000 >= wanted:
            yield self._violation(
                Code.SETTING_VALUE,
                f"checkpointing.interval below transaction_timeout, which is {wanted / 1000:g} s here",
                f"checkpointing.interval {self._plan.interval_seconds:g} s",
                "make the interval shorter, or transaction_timeout= longer (up to the broker's"
                " transaction.max.timeout.ms): an epoch's transactions are open for as long as the epoch takes",
            )

    # --- answers of the brokers ----------------------------------------------------------------------------

    def _brokers(self, wire: Wire, cluster: Cluster) -> Iterator[TidegateError]:
        missing = missing_requests(versions(wire))
        if missing:
            yield self._violation(
                Code.SINK_UNUSABLE,
                f"brokers of Kafka {OLDEST} or newer",
                f"brokers that do not understand {', '.join(missing)}",
                "upgrade the brokers, then start again",
            )
            return
        name = f"{ids_begin(self._sink.prefix)}{sink_part(self._plan.identity)}.check"
        rights = list(missing_by_name(wire, name, ids_begin(self._sink.prefix)))
        yield from map(self._lacks, rights)
        if not cluster.tells and not rights:
            yield from self._hidden_timeout(wire, name, cluster)
        if self._sink.topic is not None:
            yield from self._topic(wire, self._sink.topic)

    def _hidden_timeout(self, wire: Wire, name: str, cluster: Cluster) -> Iterator[TidegateError]:
        """If the broker's maximum cannot be read, the timeout is tried, under an id that is used for nothing else."""
        wanted = cluster.timeout_ms(self._sink.transaction_timeout)
        try:
            wire.fence(name, wanted)
        except KafkaRefused as error:
            if error.code != Reply.INVALID_TRANSACTION_TIMEOUT:
                raise
            yield self._violation(
                Code.OPTION_UNKNOWN,
                "a transaction timeout that the broker allows (transaction.max.timeout.ms)",
                f"{wanted / 1000:g} s, which it does not",
                "give transaction_timeout=, or the user DESCRIBE_CONFIGS on the cluster: then it is the maximum",
            )

    def _topic(self, wire: Wire, topic: str) -> Iterator[TidegateError]:
        seen = look_at(wire, topic)
        if not seen.exists:
            yield self._violation(
                Code.SINK_UNUSABLE,
                f"topic {topic!r} at {self._sink.clients.servers}",
                "no such topic",
                f"name an existing topic with topic=, or create it: kafka-topics --create --topic {topic}"
                f" --bootstrap-server {self._sink.clients.servers}",
            )
            return
        rights = missing_on_topic(topic, seen)
        yield from map(self._lacks, rights)
        needed = None if rights else min_in_sync(wire, topic)
        if needed is None:
            return
        if needed > seen.copies:
            yield self._violation(
                Code.SINK_UNUSABLE,
                f"{needed} replicas of topic {topic!r} (its min.insync.replicas)",
                f"{seen.copies}: the brokers refuse every row",
                f"add replicas (kafka-reassign-partitions), or set min.insync.replicas of {topic!r} to less",
            )
        elif on_one_disk(seen, needed):
            _LOG.warning(
                "sink %s: a row in topic %s counts as written when one broker has it (replicas %d, min.insync.replicas"
                " %d): with that broker's disk, committed rows are lost. Usual are 3 and 2",
                self._sink.uid,
                topic,
                seen.copies,
                needed,
                extra={"event": "OneCopyOnly"},
            )

    def _lacks(self, right: Right) -> TidegateError:
        return self._violation(
            Code.SINK_UNUSABLE, f"{right} for the sink's user", "the brokers refuse it", f"kafka-acls {right.grant()}"
        )

    def _violation(self, code: Code, expected: str, found: str, next_step: str) -> TidegateError:
        return TidegateError(code, expected=expected, found=found, where=self._where, next_step=next_step)

    @property
    def _where(self) -> str:
        return f"sink {self._sink.uid!r}"


_SINK = End(OWNED_BY_SINK, Code.OPTION_UNKNOWN, MECHANISMS)


_OF_A_LOGIN = ("sasl.", "security.", "ssl.", "enable.sasl.", "enable.ssl.")

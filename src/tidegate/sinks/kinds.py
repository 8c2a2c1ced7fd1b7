"""Finds the class of a sink by its kind, so that a command can open the sink without the job's program.

A package registers its classes as entry points in the group `tidegate.sinks`; the name is the class's `kind`.
"""

from __future__ import annotations

from typing import Final

from tidegate.core.errors import Code
from tidegate.settings.entry_points import Kinds
from tidegate.sinks.base import TwoPhaseSink

_KINDS: Final = Kinds(
    "tidegate.sinks",
    "sink",
    {
        "channel": "tidegate.channels.sink:ChannelSink",
        "delta": "tidegate.sinks.delta.sink:DeltaSink",
        "files": "tidegate.sinks.files.sink:FileSink",
        "iceberg": "tidegate.sinks.iceberg.sink:IcebergSink",
        "kafka": "tidegate.sinks.kafka.sink:KafkaSink",
        "kafka-channel": "tidegate.channels.kafka:KafkaChannelSink",
        "mysql": "tidegate.sinks.mysql.sink:MySQLSink",
        "postgres": "tidegate.sinks.postgres.sink:PostgresSink",
        "redis": "tidegate.sinks.redis.sink:RedisSink",
        "sqlite": "tidegate.sinks.sqlite.sink:SQLiteSink",
        "upsert": "tidegate.sinks.upsert.sink:UpsertSink",
    },
    Code.SINK_OUT_OF_REACH,
)


def kind_of(sink: TwoPhaseSink) -> str:
    """The kind under which the very class of the sink is registered; empty where only the program can open it."""
    kind = vars(type(sink)).get("kind", "")
    return kind if kind and _KINDS.reference_of(kind) == f"{type(sink).__module__}:{type(sink).__qualname__}" else ""


def sink_class(kind: str) -> type[TwoPhaseSink]:
    """The class that is registered for a kind.

    Raises SINK_OUT_OF_REACH if no installed package registers it, or if what is registered is not a sink.
    """
    found = _KINDS.load(kind)
    if not (isinstance(found, type) and issubclass(found, TwoPhaseSink)):
        raise _KINDS.out_of_reach(kind, f"{_KINDS.reference_of(kind)}, which is no TwoPhaseSink")
    return found

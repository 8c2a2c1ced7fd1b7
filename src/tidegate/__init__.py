"""Exactly-once sinks, checkpoints and savepoints for PySpark Structured Streaming."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidegate import operate as operate
    from tidegate.channels.kafka import KafkaChannel
    from tidegate.channels.sink import EmbeddedChannel
    from tidegate.core import happenings
    from tidegate.core.errors import TidegateError
    from tidegate.savepoints.restoring import Restore
    from tidegate.sinks.base import TwoPhaseSink
    from tidegate.sinks.delta.sink import DeltaSink
    from tidegate.sinks.files.sink import FileSink
    from tidegate.sinks.iceberg.sink import IcebergSink
    from tidegate.sinks.kafka.sink import KafkaSink
    from tidegate.sinks.mysql.sink import MySQLSink
    from tidegate.sinks.postgres.sink import PostgresSink
    from tidegate.sinks.printing import PrintSink
    from tidegate.sinks.redis.sink import RedisSink
    from tidegate.sinks.rows import RowRefused
    from tidegate.sinks.sqlite.sink import SQLiteSink
    from tidegate.sinks.two_phase_commit import TwoPhaseCommitSink
    from tidegate.sinks.upsert.sink import UpsertSink
    from tidegate.sinks.write_ahead import WriteAheadSink
    from tidegate.spark.function_sink import FunctionSink
    from tidegate.spark.handle import JobHandle
    from tidegate.spark.job import Job
    from tidegate.spark.job_status import JobStatus
    from tidegate.spark.listeners import JobEvent
    from tidegate.spark.operator_uids import uid
    from tidegate.spark.parsing import only_parsed, parsed_or_dead
    from tidegate.spark.read_savepoint import SavedState, read_savepoint
    from tidegate.spark.sources.files import FileSource
    from tidegate.spark.sources.kafka import KafkaSource
    from tidegate.spark.sources.socket import SocketSource
    from tidegate.spark.sources.spark_source import RateSource, SparkSource
    from tidegate.spark.sources.value_formats import CSV, JSON, Text

__version__: str

__all__ = [
    "CSV",
    "JSON",
    "DeltaSink",
    "EmbeddedChannel",
    "FileSink",
    "FileSource",
    "FunctionSink",
    "IcebergSink",
    "Job",
    "JobEvent",
    "JobHandle",
    "JobStatus",
    "KafkaChannel",
    "KafkaSink",
    "KafkaSource",
    "MySQLSink",
    "PostgresSink",
    "PrintSink",
    "RateSource",
    "RedisSink",
    "Restore",
    "RowRefused",
    "SQLiteSink",
    "SavedState",
    "SocketSource",
    "SparkSource",
    "Text",
    "TidegateError",
    "TwoPhaseCommitSink",
    "TwoPhaseSink",
    "UpsertSink",
    "WriteAheadSink",
    "happenings",
    "only_parsed",
    "operate",
    "parsed_or_dead",
    "read_savepoint",
    "uid",
]

_HOMES = {
    "CSV": "tidegate.spark.sources.value_formats",
    "JSON": "tidegate.spark.sources.value_formats",
    "DeltaSink": "tidegate.sinks.delta.sink",
    "EmbeddedChannel": "tidegate.channels.sink",
    "FileSink": "tidegate.sinks.files.sink",
    "FileSource": "tidegate.spark.sources.files",
    "FunctionSink": "tidegate.spark.function_sink",
    "IcebergSink": "tidegate.sinks.iceberg.sink",
    "Job": "tidegate.spark.job",
    "JobEvent": "tidegate.spark.listeners",
    "JobHandle": "tidegate.spark.handle",
    "JobStatus": "tidegate.spark.job_status",
    "KafkaChannel": "tidegate.channels.kafka",
    "KafkaSink": "tidegate.sinks.kafka.sink",
    "KafkaSource": "tidegate.spark.sources.kafka",
    "MySQLSink": "tidegate.sinks.mysql.sink",
    "PostgresSink": "tidegate.sinks.postgres.sink",
    "PrintSink": "tidegate.sinks.printing",
    "RateSource": "tidegate.spark.sources.spark_source",
    "RedisSink": "tidegate.sinks.redis.sink",
    "Restore": "tidegate.savepoints.restoring",
    "RowRefused": "tidegate.sinks.rows",
    "SQLiteSink": "tidegate.sinks.sqlite.sink",
    "SavedState": "tidegate.spark.read_savepoint",
    "SocketSource": "tidegate.spark.sources.socket",
    "SparkSource": "tidegate.spark.sources.spark_source",
    "Text": "tidegate.spark.sources.value_formats",
    "TidegateError": "tidegate.core.errors",
    "TwoPhaseCommitSink": "tidegate.sinks.two_phase_commit",
    "TwoPhaseSink": "tidegate.sinks.base",
    "UpsertSink": "tidegate.sinks.upsert.sink",
    "WriteAheadSink": "tidegate.sinks.write_ahead",
    "only_parsed": "tidegate.spark.parsing",
    "parsed_or_dead": "tidegate.spark.parsing",
    "read_savepoint": "tidegate.spark.read_savepoint",
    "uid": "tidegate.spark.operator_uids",
}
_MODULES = {"happenings": "tidegate.core.happenings", "operate": "tidegate.operate"}
"""Where each public name lives: loaded when first used, so that the command never imports pyspark."""


def __getattr__(name: str) -> object:
    if name == "__version__":  # reading it costs as much as a whole command without it
        from importlib.metadata import version

        return version("tidegate")
    if name in _MODULES:
        return import_module(_MODULES[name])
    if name not in _HOMES:
        raise AttributeError(f"module 'tidegate' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

"""Extras: what the base installation leaves out, and the one command that installs it. A test compares the table with
`pyproject.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from importlib.util import find_spec

from tidegate.core.errors import Code, TidegateError


class Extra(Enum):
    """Every extra: (name, its packages and the module that each one gives, what needs them)."""

    def __init__(self, label: str, modules: Mapping[str, str], needed_by: str) -> None:
        self.label = label
        self.modules = modules
        self.needed_by = needed_by

    KAFKA = (
        "kafka",
        {"confluent-kafka": "confluent_kafka", "kafka-python": "kafka"},
        "KafkaSource, KafkaSink, the broker for tests and `tidegate check --kafka`",
    )
    HDFS = ("hdfs", {"hdfs-native": "hdfs_native"}, "a folder of checkpoints, savepoints or files on HDFS")
    S3 = ("s3", {"boto3": "boto3"}, "a folder of checkpoints, savepoints or files on S3")
    POSTGRES = ("postgres", {"psycopg": "psycopg"}, "PostgresSink, UpsertSink into PostgreSQL")
    MYSQL = ("mysql", {"pymysql": "pymysql"}, "MySQLSink, UpsertSink into MySQL")
    REDIS = ("redis", {"redis": "redis"}, "RedisSink")
    DELTA = ("delta", {"deltalake": "deltalake"}, "DeltaSink")
    ICEBERG = ("iceberg", {"pyiceberg": "pyiceberg"}, "IcebergSink")
    UI = (
        "ui",
        {"prometheus-client": "prometheus_client", "starlette": "starlette", "uvicorn": "uvicorn"},
        "tidegate ui, tidegate run --ui, Job(ui=True)",
    )

    @property
    def command(self) -> str:
        """The command that installs the extra."""
        return f"pip install 'tidegate[{self.label}]'"

    @property
    def missing(self) -> list[str]:
        """The packages of the extra that are not installed here. Loads none of them."""
        return [package for package, module in self.modules.items() if not _is_there(module)]


ALL = "all"
"""The name of the extra that holds all others."""


def require(extra: Extra) -> None:
    """Raise EXTRA_MISSING unless every package of the extra is installed."""
    if missing := extra.missing:
        raise TidegateError(
            Code.EXTRA_MISSING,
            expected=f"{', '.join(extra.modules)}: needed by {extra.needed_by}",
            found=f"{', '.join(missing)} not installed",
            where="the Python environment that runs tidegate",
            next_step=extra.command,
        )


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False

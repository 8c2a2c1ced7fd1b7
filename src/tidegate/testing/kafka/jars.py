"""The jars of Kafka."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tidegate.core.errors import Code, TidegateError
from tidegate.machine.jars import Bundle, fetched

DEFAULT_VERSION = "4.1.1"

_SCALA = "2.13"
_SLF4J = "2.0.17"
_CONNECTOR = "4.2.0"
_NOT_IN_SPARK = ("spark-sql-kafka", "spark-token-provider-kafka", "kafka-clients", "commons-pool2")
_TOKEN_PROVIDER = "4.0.0"  # of the connector's dependencies the one that few mirrors have in all versions


def kafka_jars(version: str, tell: Callable[[str], None]) -> Path:
    """The folder with Kafka's jars of that version, downloaded if missing. Calls `tell` before a download, which takes
    long.

    Jars are downloaded into a temporary folder, which is renamed when complete. So two processes may do this at once.
    """
    require_version(version)
    # Beside the broker what writes its log: a binding of slf4j 2, which also serves programs made for slf4j 1.
    modules = (
        ("org.apache.kafka", f"kafka_{_SCALA}", version),
        ("org.slf4j", "slf4j-api", _SLF4J),
        ("org.slf4j", "slf4j-simple", _SLF4J),
    )
    return fetched(Bundle(f"Kafka {version}", f"kafka-{version}", modules, f"kafka_{_SCALA}-{version}.jar"), tell)


def tool_jars(version: str, tell: Callable[[str], None]) -> Path:
    """The folder with the jars of Kafka's command line tools of that version, downloaded if missing."""
    require_version(version)
    name = f"kafka-tools-{version}"
    modules = (("org.apache.kafka", "kafka-tools", version), ("org.slf4j", "slf4j-simple", _SLF4J))
    return fetched(Bundle(f"the tools of Kafka {version}", name, modules, f"{name}.jar"), tell)


def connector_jars(tell: Callable[[str], None]) -> list[Path]:
    """The jars of Spark's own Kafka connector, for comparisons.

    They work with every Spark version that tidegate supports.
    """
    name = f"spark-sql-kafka-0-10_{_SCALA}"
    modules = (
        ("org.apache.spark", name, _CONNECTOR),
        ("org.apache.spark", f"spark-token-provider-kafka-0-10_{_SCALA}", _TOKEN_PROVIDER),
    )
    bundle = Bundle(
        f"Spark's Kafka connector {_CONNECTOR}", f"connector-{_CONNECTOR}", modules, f"{name}-{_CONNECTOR}.jar"
    )
    jars = sorted(fetched(bundle, tell).glob("*.jar"))
    return [jar for jar in jars if jar.name.startswith(_NOT_IN_SPARK)]


def require_version(version: str) -> None:
    """Raise if the text is not the version number of a Kafka release."""
    if re.fullmatch(r"\d+\.\d+\.\d+", version) is None:
        raise TidegateError(
            Code.SETTING_VALUE,
            expected=f"a released version of Kafka, like {DEFAULT_VERSION}",
            found=repr(version),
            where="version of the broker",
            next_step="name a version of three numbers",
        )

"""The jars by which Spark reads and writes `s3a:`: Hadoop's connector and the parts of AWS's SDK that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tidegate.core.errors import Code, TidegateError
from tidegate.machine.jars import Bundle, fetched, spark_jars

HADOOP_VERSION = "3.5.0"
"""Of the Hadoop client in the jars of every pyspark that tidegate supports (4.2 and 4.3). The connector must have the
version of its client.
"""

_SDK_VERSION = "2.35.4"  # of AWS's SDK for Java, in the project file of that Hadoop
_SDK = "software.amazon.awssdk"
_CONNECTOR = "hadoop-aws"

S3A = Bundle(
    f"Hadoop's connector for S3 {HADOOP_VERSION}",
    f"s3a-{HADOOP_VERSION}-{_SDK_VERSION}",
    (
        ("org.apache.hadoop", _CONNECTOR, HADOOP_VERSION),
        *(
            (_SDK, name, _SDK_VERSION)
            for name in ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
        ),
    ),
    f"{_CONNECTOR}-{HADOOP_VERSION}.jar",
    without=(
        (_SDK, "bundle"),  # the whole SDK, 600 MB
        ("org.wildfly.openssl", "*"),  # a way of encryption that is off
        ("org.apache.httpcomponents", "*"),  # this and what follows is in Spark's own jars
        ("io.netty", "*"),
        ("org.slf4j", "*"),
        ("commons-codec", "*"),
        ("commons-logging", "*"),
        ("commons-io", "*"),
    ),
)

_NAMING_JARS = ("spark.jars", "spark.jars.packages", "spark.driver.extraClassPath")


def s3a_jars(settings: Mapping[str, str], tell: Callable[[str], None]) -> list[Path]:
    """The jars to add to Spark's class path, downloaded if missing; [] if Spark has the connector: in its folder of
    jars, or by these settings of its session.

    Raises JARS_UNAVAILABLE if the download fails, or if Spark has another version of Hadoop.
    """
    folder = spark_jars()
    if _has(folder, f"{_CONNECTOR}-*.jar") or any(_CONNECTOR in settings.get(name, "") for name in _NAMING_JARS):
        return []
    if not _has(folder, f"hadoop-client-api-{HADOOP_VERSION}.jar"):
        raise _other_hadoop(folder)
    return sorted(fetched(S3A, tell).glob("*.jar"))


def _has(folder: Path | None, pattern: str) -> bool:
    return folder is not None and any(folder.glob(pattern))


def _other_hadoop(folder: Path | None) -> TidegateError:
    found = sorted(each.name for each in folder.glob("hadoop-client-api-*.jar")) if folder is not None else []
    return TidegateError(
        Code.JARS_UNAVAILABLE,
        expected=f"a pyspark with the client of Hadoop {HADOOP_VERSION}, or {_CONNECTOR} on Spark's class path",
        found=", ".join(found) or "no client of Hadoop",
        where=str(folder) if folder is not None else "pyspark, which is not installed",
        next_step=f"add org.apache.hadoop:{_CONNECTOR} in the version of that client to spark.jars.packages",
    )

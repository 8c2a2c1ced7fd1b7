"""Checks the option names of Spark's own sources. Spark itself ignores an unknown name without an error.

Spark lists the options of its file formats itself (`DataSourceOptions`). A name with a dot may be an option of a
library below the source (Hadoop's file systems, a plug-in of a Kafka client): it is refused only if it is almost a
known name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tidegate.core.errors import Code, TidegateError
from tidegate.core.spelling import did_you_mean
from tidegate.spark.sources.java_option_names import JAVA_NAMES

_CATALYST = "org.apache.spark.sql.catalyst"
_SOURCES = "org.apache.spark.sql.execution.datasources"
_LISTED_BY: Mapping[str, str] = {
    "csv": f"{_CATALYST}.csv.CSVOptions",
    "json": f"{_CATALYST}.json.JSONOptions",
    "orc": f"{_SOURCES}.orc.OrcOptions",
    "parquet": f"{_SOURCES}.parquet.ParquetOptions",
    "text": f"{_SOURCES}.text.TextOptions",
}
_OF_EVERY_FILE = f"{_SOURCES}.FileIndexOptions"
_OF_FILES = frozenset(
    [
        "path",
        "cleanSource",
        "discardCachedInputRatio",
        "fileNameOnly",
        "ignoreCorruptFiles",
        "latestFirst",
        "maxBytesPerTrigger",
        "maxCachedFiles",
        "maxFileAge",
        "maxFilesPerTrigger",
        "sourceArchiveDir",
    ]
)
"""Of Spark's stream of files (`FileStreamOptions`)."""

_OTHERS: Mapping[str, frozenset[str]] = {
    "kafka": frozenset(
        [
            "assign",
            "subscribe",
            "subscribePattern",
            "startingOffsets",
            "startingTimestamp",
            "startingOffsetsByTimestamp",
            "startingOffsetsByTimestampStrategy",
            "endingOffsets",
            "endingTimestamp",
            "endingOffsetsByTimestamp",
            "failOnDataLoss",
            "kafkaConsumer.pollTimeoutMs",
            "fetchOffset.numRetries",
            "fetchOffset.retryIntervalMs",
            "maxOffsetsPerTrigger",
            "minOffsetsPerTrigger",
            "maxTriggerDelay",
            "minPartitions",
            "maxRecordsPerPartition",
            "groupIdPrefix",
            "includeHeaders",
        ]
    )
    | {f"kafka.{name}" for name in JAVA_NAMES},
    "rate": frozenset(["rowsPerSecond", "rampUpTime", "numPartitions"]),
    "rate-micro-batch": frozenset(["rowsPerBatch", "numPartitions", "startTimestamp", "advanceMillisPerBatch"]),
    "socket": frozenset(["host", "port", "includeTimestamp", "numPartitions"]),
}


def unknown_options(session: SparkSession, format: str, given: Iterable[str], where: str) -> Iterator[TidegateError]:
    """An error for each unknown option name of a source. None for a format whose options are not known here."""
    known = _known(session, format.lower())
    folded = {name.lower() for name in known}
    for name in given if known else ():
        if name.lower() in folded:
            continue
        meant = did_you_mean(name, known, "")
        if meant or "." not in name:
            yield TidegateError(
                Code.OPTION_UNKNOWN,
                expected=f"options of Spark's source {format}",
                found=f"{name}=...",
                where=where,
                next_step=meant
                or f"take it out; there are {', '.join(sorted(each for each in known if '.' not in each))}",
            )


def _known(session: SparkSession, format: str) -> frozenset[str]:
    if format not in _LISTED_BY:
        return _OTHERS.get(format, frozenset())
    try:
        return _OF_FILES | _listed(session, _LISTED_BY[format]) | _listed(session, _OF_EVERY_FILE)
    except Py4JError:  # a Spark that keeps its lists elsewhere
        return frozenset()


def _listed(session: SparkSession, of: str) -> frozenset[str]:
    classic: Any = session._jsparkSession  # pyright: ignore[reportPrivateUsage]
    listing: Any = classic.getClass().getClassLoader().loadClass(f"{of}$").getField("MODULE$").get(None)
    jvm: Any = session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    return frozenset(map(str, jvm.scala.jdk.javaapi.CollectionConverters.asJava(listing.getAllOptions())))

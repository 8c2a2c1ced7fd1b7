"""The sources of a job: ordinary streaming DataFrames, and which of them a query reads, in Spark's order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidegate.core.errors import Code, TidegateError

REPLAYABLE_FORMATS = frozenset(
    {"rate", "rate-micro-batch", "parquet", "json", "csv", "text", "orc", "delta", "iceberg", "kafka"}
)
"""Formats that give the same rows again for the same offsets."""


class Source(Protocol):
    """Something that `Job.source` can read."""

    def load(self, session: SparkSession, where: str) -> DataFrame:
        """The streaming DataFrame; `where` names the source in errors."""
        ...


class SparkSource:
    """Any of Spark's streaming formats. `replayable=True` vouches for a format that tidegate does not know."""

    def __init__(
        self,
        format: str,
        *,
        schema: str | StructType | None = None,
        replayable: bool | None = None,
        **options: str | int | bool,
    ) -> None:
        self.format = format
        self.schema = schema
        self.replayable = replayable
        self.options: Mapping[str, str | int | bool] = options

    def load(self, session: SparkSession, where: str) -> DataFrame:
        known = self.format.lower() in REPLAYABLE_FORMATS
        if not (known if self.replayable is None else self.replayable):
            raise TidegateError(
                Code.SOURCE_NOT_REPLAYABLE,
                expected=f"one of {', '.join(sorted(REPLAYABLE_FORMATS))}, or replayable=True",
                found=f"format {self.format}",
                where=where,
                next_step="read it through a log that keeps rows, or pass replayable=True if it gives the same rows"
                " again for the same offsets",
            )
        reader = session.readStream.format(self.format).options(**self.options)
        try:
            return (reader if self.schema is None else reader.schema(self.schema)).load()
        except PySparkException as error:
            raise TidegateError(
                Code.SOURCE_REFUSED,
                expected=f"what Spark's format {self.format} needs",
                found=str(error).split("\n")[0],
                where=where,
                next_step="mend the source's path, schema= or options",
            ) from None


class FileSource(SparkSource):
    """Files that appear in a folder; any of Spark's file formats. `schema` is needed, except for text."""

    def __init__(
        self, path: str, *, format: str, schema: str | StructType | None = None, **options: str | int | bool
    ) -> None:
        super().__init__(format, schema=schema)
        self.options = {"path": str(path), **options}


class RateSource(SparkSource):
    """Rows (timestamp, value) at a steady rate, for demos and tests."""

    def __init__(self, *, rows_per_second: int = 1, **options: str | int | bool) -> None:
        super().__init__("rate")
        self.options = {"rowsPerSecond": rows_per_second, **options}


class SourceRegistry:
    """Which uid stands behind each stream of a plan; Spark's offsets go by position, so the order counts."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._uids: dict[int, str] = {}
        # Identities are those of living JVM objects: keep them alive.
        self._alive: list[Any] = []

    def add(self, uid: str, rows: DataFrame, where: str) -> None:
        """Know the stream behind `rows` as `uid`. Refuses what is not one stream."""
        streams = _streams(rows)
        if len(streams) != 1:
            raise TidegateError(
                Code.QUERY_NOT_STREAMING,
                expected="a DataFrame that reads one stream",
                found=f"one that reads {len(streams)}",
                where=where,
                next_step="register each stream by itself with job.source(uid, ...), then join or union them",
            )
        self._alive.append(streams[0])
        self._uids[self._identity(streams[0])] = uid

    def uids_of(self, rows: DataFrame, where: str) -> tuple[str, ...]:
        """The uids of the streams that a query reads, by Spark's position."""
        streams = _streams(rows)
        uids = [self._uids.get(self._identity(stream)) for stream in streams]
        if not uids or None in uids:
            raise TidegateError(
                Code.SOURCE_UNKNOWN if uids else Code.QUERY_NOT_STREAMING,
                expected="a streaming DataFrame made from job.source(...)",
                found="a stream that is no source of the job" if uids else "a DataFrame that is not streaming",
                where=where,
                next_step='wrap the stream: rows = job.source("uid", stream)',
            )
        return tuple(uid for uid in uids if uid is not None)

    def _identity(self, stream: Any) -> int:
        jvm: Any = self._session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
        return jvm.java.lang.System.identityHashCode(stream)


def vouch_for(rows: DataFrame, where: str) -> None:
    """Refuse a stream of the user's own whose format is not known to give the same rows again."""
    names = [str(leaf.sourceName()).lower() for leaf in _stream_leaves(rows)]
    known = [name in REPLAYABLE_FORMATS or name.startswith("filesource[") for name in names]
    if not all(known):
        raise TidegateError(
            Code.SOURCE_NOT_REPLAYABLE,
            expected=f"a stream of one of {', '.join(sorted(REPLAYABLE_FORMATS))}",
            found=", ".join(names),
            where=where,
            next_step="read it with SparkSource(format, replayable=True) if it gives the same rows again",
        )


def _streams(rows: DataFrame) -> list[Any]:
    """The JVM object behind each stream of the plan; it is the same in every DataFrame made from the stream."""
    return [
        leaf.table() if leaf.getClass().getSimpleName() == "StreamingRelationV2" else leaf.dataSource()
        for leaf in _stream_leaves(rows)
    ]


def _stream_leaves(rows: DataFrame) -> list[Any]:
    frame = cast("Any", rows._jdf)  # pyright: ignore[reportPrivateUsage]
    leaves = frame.queryExecution().analyzed().collectLeaves()
    found = [leaves.apply(index) for index in range(leaves.size())]
    return [leaf for leaf in found if leaf.getClass().getSimpleName().startswith("StreamingRelation")]

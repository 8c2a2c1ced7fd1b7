"""Finds which sources a query reads, in Spark's order, and checks streams that the program has made itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from pyspark.sql import DataFrame, SparkSession

from tidegate.core.errors import Code, TidegateError
from tidegate.core.levels import Level
from tidegate.sources.base import Absence, Begins, Replay, Traits
from tidegate.sources.used_columns import UsedColumns
from tidegate.spark.columns_read import columns_read
from tidegate.spark.graft import graft
from tidegate.spark.sources.formats import format_in_plan, is_of_files
from tidegate.spark.sources.refusals import not_newest, not_replayable


class SourceRegistry:
    """The uid of each stream in a query plan. Spark stores offsets by position, so the order is important."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._uids: dict[int, str] = {}
        # Identities are those of living JVM objects: keep them alive.
        self._alive: list[Any] = []

    def add(self, uid: str, rows: DataFrame, where: str) -> None:
        """Register the stream of `rows` under a uid. Raises if `rows` is not exactly one stream."""
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
        """The uids of the streams that a query reads, in Spark's order."""
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

    def columns_read(self, rows: DataFrame) -> Mapping[str, UsedColumns]:
        """The columns that a query uses of each of its sources, by uid."""
        found: dict[str, UsedColumns] = {}
        for leaf, columns in zip(_leaves(rows), columns_read(self._session, rows), strict=True):
            uid = self._uids.get(self._identity(_stream(leaf))) if _is_stream(leaf) else None
            if uid is not None:
                found[uid] = found[uid] | columns if uid in found else columns
        return found

    def put_in_place(self, rows: DataFrame, streams: Mapping[str, DataFrame]) -> DataFrame:
        """`rows` with the stream of each uid in `streams` replaced by the given one."""

        def stream_for(leaf: Any) -> DataFrame | None:
            uid = self._uids.get(self._identity(_stream(leaf))) if _is_stream(leaf) else None
            return None if uid is None else streams.get(uid)

        return graft(self._session, rows, stream_for) if streams else rows

    def _identity(self, stream: Any) -> int:
        jvm: Any = self._session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
        return jvm.java.lang.System.identityHashCode(stream)


def vouch_for(rows: DataFrame, where: str, level: Level) -> None:
    """Raise if a stream that the program has made itself has a format that does not allow the job's level."""
    names = [str(leaf.sourceName()).lower() for leaf in _stream_leaves(rows)]
    formats = {name: format_in_plan(name) for name in names}
    if level is Level.AT_MOST_ONCE:
        for name, found in formats.items():
            # A stream that is made already gets no options, so it must begin at its newest row without them.
            if found is None or found.newest or found.traits.begins is Begins.OLDEST:
                raise not_newest(name, where)
    elif any(found is None or found.traits.replay is not Replay.EXACT for found in formats.values()):
        raise not_replayable(", ".join(names), where, level)


def traits_of(rows: DataFrame) -> list[Traits]:
    """The traits of the formats in a stream's plan. Formats without known traits are left out."""
    found = [format_in_plan(str(leaf.sourceName())) for leaf in _stream_leaves(rows)]
    return [each.traits for each in found if each is not None]


def loses_what_arrives(rows: DataFrame) -> bool:
    """True if rows that arrive while no job reads the stream are lost."""
    return any(traits.absence is Absence.LOST for traits in traits_of(rows))


def reads_files(rows: DataFrame) -> tuple[bool, ...]:
    """For each stream of a plan, in Spark's order: True if it is Spark's file source."""
    return tuple(is_of_files(str(leaf.sourceName())) for leaf in _stream_leaves(rows))


def _streams(rows: DataFrame) -> list[Any]:
    """The JVM object of each stream in the plan. It is the same in every DataFrame that is made from the stream."""
    return [_stream(leaf) for leaf in _stream_leaves(rows)]


def _stream(leaf: Any) -> Any:
    return leaf.table() if leaf.getClass().getSimpleName() == "StreamingRelationV2" else leaf.dataSource()


def _is_stream(leaf: Any) -> bool:
    return leaf.getClass().getSimpleName().startswith("StreamingRelation")


def _stream_leaves(rows: DataFrame) -> list[Any]:
    return [leaf for leaf in _leaves(rows) if _is_stream(leaf)]


def _leaves(rows: DataFrame) -> list[Any]:
    frame = cast("Any", rows._jdf)  # pyright: ignore[reportPrivateUsage]
    leaves = frame.queryExecution().analyzed().collectLeaves()
    return [leaves.apply(index) for index in range(leaves.size())]

"""Reads a `RowSource` for Spark, as a stream reader of Spark's Python Data Source API.

The position where a query begins is asked once, on the driver, and recorded in *start*.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from tidegate.core.json_formats import Unreadable, parsed
from tidegate.core.levels import Level
from tidegate.sources.base import Begins, Position, Range, Replay, RowSource, ranges
from tidegate.sources.ends import RowEnds
from tidegate.sources.logged import with_schema
from tidegate.sources.refusals import other_source
from tidegate.spark.sources.refusals import not_newest, not_replayable, outside_a_job, refused_by_spark
from tidegate.spark.sources.source import Ground, Monitor, OpenedSource, PositionedSource, SourceUse
from tidegate.spark.telling import WORD, told_by_source


class RowsOfSource(PositionedSource, OpenedSource):
    """A `RowSource` that can be read again, as the job uses it."""

    def __init__(self, source: RowSource) -> None:
        self._source = source

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        refuse_unfit(self._source, where, level)
        return frame_of(session, RowsReader, self._source.schema(), where, source=self._source, begin=None)

    def opened(self, ground: Ground) -> OpenedSource:
        return self

    def begin(self, where: str, level: Level) -> str:
        begins = self._source.traits.begins
        newest = begins is Begins.NEWEST or level is Level.AT_MOST_ONCE
        return msgspec.json.encode(dict(self._source.newest() if newest else self._source.oldest())).decode()

    def bound(self, session: SparkSession, use: SourceUse) -> DataFrame:
        begin = position_of(use.position, use.where)
        return frame_of(session, RowsReader, self._source.schema(), use.where, source=self._source, begin=begin)

    def monitor(self, name: str) -> Monitor:
        return RowsMonitor(self._source)

    def close(self) -> None:
        self._source.close()


class RowsMonitor:
    """Counts the rows that are not done yet."""

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self._done: Position | None = None

    def tell(self, position: str) -> None:
        self._done = parsed(position, dict[str, int])

    def behind(self) -> int | None:
        """None before the first epoch is done, and if the source does not answer."""
        if self._done is None:
            return None
        try:
            newest = self._source.newest()
        except Exception:  # noqa: BLE001 (the query itself meets what is wrong with the source, and tells it)
            return None
        return sum(max(0, at - self._done.get(part, at)) for part, at in newest.items())

    def close(self) -> None:
        """Does nothing: there is nothing to close."""


class RowsReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Finds positions in a process that Spark keeps for the query; `read` runs in the tasks."""

    def __init__(self, where: str, word: str, source: RowSource, begin: Position | None) -> None:
        self._where = where
        self._word = word
        self._source = source
        self._begin = begin
        self._ends = RowEnds(source, where)

    def initialOffset(self) -> dict[str, Any]:
        with told_by_source(self._word):
            if self._begin is None:
                raise outside_a_job(self._where)
            return dict(self._begin)

    def prepareForTriggerAvailableNow(self) -> None:
        with told_by_source(self._word):
            self._ends.catch_up()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with told_by_source(self._word):
            return dict(self._ends.after(start))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with told_by_source(self._word):
            return [InputPartition(part) for each in ranges(start, end) for part in self._source.split(each)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        wanted: Range = partition.value
        schema = self._source.schema()
        with told_by_source(self._word):
            for batch in self._source.read(wanted):
                yield with_schema(batch, schema, self._where)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: Spark calls it before the epoch is decided."""


class BoundDataSource(DataSource):
    """A stream that Python reads, as Spark registers it.

    Each use has its own subclass, so that no option holds a secret.
    """

    label: ClassVar[str]
    columns: ClassVar[StructType]
    made_by: ClassVar[type[Any]]
    given: ClassVar[dict[str, Any]]

    @classmethod
    def name(cls) -> str:
        return cls.label

    def schema(self) -> StructType:
        return self.columns

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return self.made_by(**self.given)


def frame_of(session: SparkSession, reader: type[Any], schema: pa.Schema, where: str, **given: object) -> DataFrame:
    """The stream that `reader` provides.

    The reader is made with `where`, this driver's key, and the `given` arguments.
    """
    label = f"tidegate-{reader.__name__.lower()}-{next(_labels)}"
    members = {
        "label": label,
        "columns": from_arrow_schema(schema),
        "made_by": reader,
        "given": {"where": where, "word": WORD, **given},
    }
    try:
        session.dataSource.register(type("BoundDataSource", (BoundDataSource,), members))
        return session.readStream.format(label).load()
    except PySparkException as error:
        look = "see whether the workers' Python (PYSPARK_PYTHON) has tidegate, and the package of the source"
        raise refused_by_spark("Spark to take tidegate's source", error, where, look) from None


def refuse_unfit(source: RowSource, where: str, level: Level) -> None:
    """Raise if a source that is read without an ingest log does not allow the level.

    Every level needs `Replay.EXACT` here, because several processes read the source.
    """
    name = type(source).__name__
    if source.traits.replay is not Replay.EXACT:
        raise not_replayable(name, where, level)
    if level is Level.AT_MOST_ONCE and source.traits.begins is Begins.OLDEST:
        raise not_newest(name, where)


def position_of(position: str, where: str) -> Position:
    """The position in a text of *start*. Raises SOURCES_CHANGED if another kind of source wrote it."""
    try:
        return parsed(position, dict[str, int])
    except Unreadable:
        raise other_source("this source", position, where) from None


_labels = itertools.count(1)

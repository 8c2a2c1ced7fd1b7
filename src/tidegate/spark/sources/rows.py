"""Reads a `RowSource` for Spark.

The position where a query begins is asked once, on the driver, and recorded in *start*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tidegate.core.json_formats import Unreadable, parsed
from tidegate.core.levels import Level
from tidegate.sources.base import Begins, Position, Range, Replay, RowSource, ranges
from tidegate.sources.ends import RowEnds
from tidegate.sources.logged import with_schema
from tidegate.sources.refusals import other_source
from tidegate.spark.sources.python_stream import Place, StreamPositions, python_stream
from tidegate.spark.sources.refusals import not_newest, not_replayable, outside_a_job
from tidegate.spark.sources.source import Ground, Monitor, OpenedSource, PositionedSource, SourceUse
from tidegate.spark.telling import WORD, told_by_source


class RowsOfSource(PositionedSource, OpenedSource):
    """A `RowSource` that can be read again, as the job uses it."""

    def __init__(self, source: RowSource) -> None:
        self._source = source

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        refuse_unfit(self._source, where, level)
        return self._stream(session, where, None)

    def opened(self, ground: Ground) -> OpenedSource:
        return self

    def begin(self, where: str, level: Level, generation: int) -> str:
        begins = self._source.traits.begins
        newest = begins is Begins.NEWEST or level is Level.AT_MOST_ONCE
        return msgspec.json.encode(dict(self._source.newest() if newest else self._source.oldest())).decode()

    def bound(self, session: SparkSession, use: SourceUse) -> DataFrame:
        return self._stream(session, use.where, position_of(use.position, use.where))

    def monitor(self, name: str) -> Monitor:
        return RowsMonitor(self._source)

    def close(self) -> None:
        self._source.close()

    def _stream(self, session: SparkSession, where: str, begin: Position | None) -> DataFrame:
        source = self._source
        schema = from_arrow_schema(source.schema())
        positions = partial(RowPositions, source, where, begin)
        return python_stream(
            session, f"tidegate-{type(source).__name__}", schema, positions, RowsOfTask(source, where, WORD)
        )


class RowsMonitor:
    """Counts the rows that are not done yet."""

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self._done: Position | None = None

    def tell(self, positions: Sequence[str]) -> None:
        found = [parsed(position, dict[str, int]) for position in positions]
        self._done = {part: min(each.get(part, 0) for each in found) for part in dict.fromkeys(chain(*found))}

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


class RowPositions(StreamPositions):
    """The positions of a `RowSource`. `begin`: where the query begins; None outside of a query."""

    def __init__(self, source: RowSource, where: str, begin: Position | None) -> None:
        """Raises SOURCE_OPTION for a query that is not of a job."""
        if begin is None:
            raise outside_a_job(where)
        self._source = source
        self._begin = begin
        self._ends = RowEnds(source, where)

    def first(self) -> Place:
        return self._begin

    def catch_up(self) -> None:
        self._ends.catch_up()

    def after(self, start: Place) -> Place:
        return self._ends.after(start)

    def parts(self, start: Place, end: Place) -> Sequence[Range]:
        return [part for each in ranges(start, end) for part in self._source.split(each)]


@dataclass(frozen=True, slots=True)
class RowsOfTask:
    """Reads one range of a `RowSource` in a task. `word`: the random word of the driver's mark for errors."""

    source: RowSource
    where: str
    word: str

    def __call__(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        schema = self.source.schema()
        with told_by_source(self.word):
            for batch in self.source.read(wanted):
                yield with_schema(batch, schema, self.where)


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

"""What `Job.source` makes of a source: its stream, the object that opens it at a start, and its description."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from pyspark.sql import DataFrame, SparkSession

from tidegate.core.levels import Level
from tidegate.operate.sources import DescribedSource, describe_source, only_the_program_opens
from tidegate.sources.base import Absence, RowSource, Source
from tidegate.spark.sources.channel import ChannelSource
from tidegate.spark.sources.durable import durable
from tidegate.spark.sources.ingest import IngestedSource
from tidegate.spark.sources.rows import RowsOfSource
from tidegate.spark.sources.socket import SocketSource
from tidegate.spark.sources.source import PositionedSource, StreamLoader
from tidegate.spark.sources.spark_source import SparkSource
from tidegate.spark.sources.streams import loses_what_arrives, vouch_for
from tidegate.storages.schemes import Folder


class Through(Enum):
    """The place that queries read: the source itself, or an ingest log. tidegate first writes the rows to that log."""

    SOURCE = "the source itself"
    LOG = "an ingest log that keeps the source's rows"


@dataclass(frozen=True, slots=True)
class DeclaredSource:
    """A source that a program has declared.

    `rows`: the DataFrame that the program builds its queries on. `positioned`: the object that opens the source at a
    start; None for a stream that only Spark handles. `loses_what_arrives`: True if rows that arrive while no job runs
    are lost.
    """

    rows: DataFrame
    positioned: PositionedSource | None
    loses_what_arrives: bool
    described: DescribedSource


def declare_source(
    uid: str,
    given: StreamLoader | RowSource | DataFrame,
    session: SparkSession,
    where: str,
    level: Level,
    through: Through,
    folder: Folder,
    recall: Callable[[PositionedSource], None],
) -> DeclaredSource:
    """Declare a source. Raises if the source does not allow the job's level.

    `where`: the name of the source in errors. `folder`: that of the job. `recall`: called for a source of tidegate's
    own, to give it its position in the job's newest *start*.
    """
    positioned = durable(given, where) if through is Through.LOG else _positioned(given)
    if isinstance(positioned, IngestedSource):
        positioned.require_reach(session, folder, where)
    if positioned is not None:
        recall(positioned)
        rows = positioned.load(session, where, level)
    else:
        rows = _loaded(given, session, where, level)
    return DeclaredSource(rows, positioned, _loses(given, rows, positioned), _described(uid, given))


def _described(uid: str, given: StreamLoader | RowSource | DataFrame) -> DescribedSource:
    shown = given.channel.as_source() if isinstance(given, ChannelSource) else given
    return describe_source(uid, shown) if isinstance(shown, Source) else only_the_program_opens(uid, shown)


def _loaded(given: StreamLoader | RowSource | DataFrame, session: SparkSession, where: str, level: Level) -> DataFrame:
    match given:
        case DataFrame():
            vouch_for(given, where, level)
            return given
        case RowSource():
            return RowsOfSource(given).load(session, where, level)
        case _:
            return given.load(session, where, level)


def _loses(given: object, rows: DataFrame, positioned: PositionedSource | None) -> bool:
    if positioned is not None:  # it keeps a log, or its rows can be read again
        return False
    declared = given.declared if isinstance(given, SparkSource) else None
    return loses_what_arrives(rows) if declared is None else declared.absence is Absence.LOST


def _positioned(given: StreamLoader | RowSource | DataFrame) -> PositionedSource | None:
    match given:
        case SocketSource():
            return given.ingested
        case PositionedSource():
            return given
        case RowSource():
            return RowsOfSource(given)
        case _:
            return None

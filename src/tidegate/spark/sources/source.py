"""The interface between a source and a job: a source is loaded when it is declared, opened at a start, and then
monitored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar

from pyspark.sql import DataFrame, SparkSession

from tidegate.checkpoints.tempo import Tempo
from tidegate.core.channel_parts import ALL_LIVE, LiveParts
from tidegate.core.levels import Level
from tidegate.savepoints.ingest_join import JoinedLog, SavedLog
from tidegate.sources.used_columns import UsedColumns
from tidegate.spark.companions import Companion
from tidegate.storages.schemes import Folder


class StreamLoader(Protocol):
    """A source that `Job.source` can load."""

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        """The streaming DataFrame for a job of this level. `where`: the name of the source in errors."""
        ...


class Monitor(Protocol):
    """Receives how far a source was processed, to report this outside the job. No method may raise or block."""

    def tell(self, positions: Sequence[str]) -> None:
        """Called behind each done epoch. `positions`: where the epoch has ended, one for each place at which the plan
        of the query reads the source. Only what is before all of them is done.
        """
        ...

    def behind(self) -> int | None:
        """The lag: rows that exist in the source and are not done yet; None if it is not known."""
        ...

    def close(self) -> None:
        """Called when the query has ended. Must return quickly."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a source of tidegate's own needs for one start of its job.

    `session`: the job's Spark session. `folder`: the source's folder in the job's folder. `where`: the name of the
    source in errors. `readers`: the names for calls of `monitor`, one for each query. `retained`: the number
    of retained checkpoints of the job; a restore can go back to each of them. `epochs_kept`: for how many epochs a
    query's files are kept. `bounded`: True in a run until `caught-up`. `oldest`: for each reader, the positions of its
    query's sources in the job's oldest retained checkpoint. `saved`: the part of an ingest log in a savepoint from
    which the source resumes. `live`: returns the parts of channels that the job reads; in a check of a restore, those
    that it would read.
    """

    session: SparkSession
    folder: Folder
    where: str
    readers: frozenset[str]
    retained: int
    epochs_kept: int
    bounded: bool
    oldest: Callable[[], Mapping[str, Sequence[str | None]]]
    saved: SavedLog | None = None
    live: Callable[[], LiveParts] = lambda: ALL_LIVE


def query_of(reader: str) -> str:
    """The uid of the query in the name of a reading."""
    return reader.split(".")[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceUse:
    """The use of a source by one query.

    `where`: the name of the source in errors. `position`: the position where the query begins, from *start*. `tempo`:
    the durations to which the size of epochs adapts. `reader`: the name of the query's reading, as in `monitor`.
    `columns`: returns the columns that the query uses; a source that asks may return nulls in the others.
    """

    where: str
    position: str
    tempo: Tempo
    reader: str
    columns: Callable[[], UsedColumns]


class OpenedSource(ABC):
    """A source of tidegate's own during one start of its job. The job's locks are held."""

    @abstractmethod
    def begin(self, where: str, level: Level, generation: int) -> str:
        """The position where a query without a *start* begins. `generation`: the query's.

        Asks the external system; the answer is recorded and final.
        """

    def compare(self, where: str, reached: str) -> None:
        """Raise if the checkpoint's position `reached` is a position of another source, for example of another log.

        Called before any row is read: otherwise new rows could get positions that other rows have in the checkpoint.
        `where`: the name of the source in errors.
        """

    @abstractmethod
    def bound(self, session: SparkSession, use: SourceUse) -> DataFrame:
        """The stream for one query, with the columns of `load`. It begins at the position of `use`."""

    @abstractmethod
    def monitor(self, name: str) -> Monitor | None:
        """The object that receives each done epoch, or None. `name`: the names of the job, the query and the source."""

    def verify(self, reader: str) -> None:
        """Raise if the tasks of an epoch have read other rows than the epoch's input.

        Called after the tasks have ended and before *prepared* is written. `reader`: the name of the query's reading,
        as in `SourceUse`.
        """

    def companion(self) -> Companion | None:
        """An object that runs beside the job, or None."""
        return None

    def joined(self) -> JoinedLog | None:
        """For a source that is only inspected: the ingest log that a restored job resumes from; None for all others."""
        return None

    def end_input(self) -> None:
        """Stop taking in new rows. Called when every query has ended."""

    def keep_input(self) -> AbstractContextManager[None]:
        """While a savepoint collects its files, no row behind the newest done epoch is removed."""
        return nullcontext()

    def close(self) -> None:
        """Close the source. Called when the job has ended or has failed to start; its locks are still held."""


ResultT = TypeVar("ResultT")


def verified(verify: Callable[[], None], compute: Callable[[], ResultT]) -> ResultT:
    """Call `compute` and then `verify`, and return what `compute` returned.

    If `compute` fails, `verify` is called too, because its error may name the cause better.
    """
    try:
        found = compute()
    except BaseException:
        verify()
        raise
    verify()
    return found


class PositionedSource(ABC):
    """A source of tidegate's own: the position where it begins is recorded in *start* before Spark starts the query."""

    writes: ClassVar[bool] = False
    """True if opening the source writes into the job's folder. A mere check then does not open the source."""

    @abstractmethod
    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        """As `StreamLoader.load`: the DataFrame that the program builds its queries on.

        When a query is started, it reads the DataFrame that `OpenedSource.bound` returns instead.
        """

    def recall(self, position: str) -> None:
        """Called before `load` with the position of this source in the job's newest *start*."""

    @abstractmethod
    def opened(self, ground: Ground) -> OpenedSource:
        """Open this source for one start of a job. `ground`: the session, the folder and the settings of that start."""

    def looked_at(self, ground: Ground) -> OpenedSource:
        """Open this source only to inspect it, while a restore is checked. Must write nothing."""
        return self.opened(ground)

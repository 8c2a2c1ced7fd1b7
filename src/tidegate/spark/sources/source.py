"""What a source is for a job: it is loaded when it is declared, opened at a start, and told how far its readers are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar

from pyspark.sql import DataFrame, SparkSession

from tidegate.checkpoints.tempo import Tempo
from tidegate.core.levels import Level
from tidegate.savepoints.ingest_restore import JoinedLog, SavedLog
from tidegate.spark.companions import Companion


class StreamLoader(Protocol):
    """Something that `Job.source` can read."""

    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        """The streaming DataFrame for a job of this level; `where` names the source in errors."""
        ...


class Monitor(Protocol):
    """Is told how far a source is, for those who only watch. It never raises, and holds nothing up."""

    def tell(self, position: str) -> None:
        """Everything up to this position is done."""
        ...

    def behind(self) -> int | None:
        """Rows that are there and not done yet; None while nobody can tell."""
        ...

    def close(self) -> None:
        """The query has ended; there is little time."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What one start of a job gives a source of tidegate's own.

    `session`: the job's. `folder`: its own in the job's folder. `readers`: the names under which `monitor` will be
    asked, one by query. `retained`: the done epochs of a query that can be gone back to. `epochs_kept`: of how many
    epochs a query's files stay. `bounded`: the job ends when it has caught up. `oldest`: by reader, where the sources
    of its query stand in the job's oldest retained checkpoint. `saved`: what a savepoint holds of an ingest log that
    the source resumes from.
    """

    session: SparkSession
    folder: Path
    where: str
    readers: frozenset[str]
    retained: int
    epochs_kept: int
    bounded: bool
    oldest: Callable[[], Mapping[str, Sequence[str | None]]]
    saved: SavedLog | None = None


class OpenedSource(ABC):
    """A source of tidegate's own during one start of its job, whose locks are held."""

    @abstractmethod
    def begin(self, where: str, level: Level) -> str:
        """Where a query begins that has no *start* yet. Asks the outside world; the answer never moves again."""

    def compare(self, where: str, reached: str) -> None:
        """Raise when this is not the source in which a checkpoint has reached that position. Called before anything
        is taken in: what came meanwhile could stand where the checkpoint means other rows."""

    @abstractmethod
    def bound(self, session: SparkSession, where: str, position: str, tempo: Tempo, reader: str) -> DataFrame:
        """The stream for one query, with the columns of `load`, that begins at what *start* says. `reader` is the name
        of the query's reading, as for `monitor`."""

    @abstractmethod
    def monitor(self, name: str) -> Monitor | None:
        """What is told when an epoch is done; `name` is that of the job, the query and the source."""

    def verify(self, reader: str) -> None:
        """Behind the tasks of an epoch of a reading, before the epoch is prepared: raise when the tasks have not read
        what the epoch has."""

    def companion(self) -> Companion | None:
        """What goes along with the job."""
        return None

    def joined(self) -> JoinedLog | None:
        """The ingest log that a restore resumes from, of a source that was only looked at."""
        return None

    def end_input(self) -> None:
        """Every query has ended: nothing more is taken in."""

    def close(self) -> None:
        """The job has ended, or did not start; its locks are still held."""


ResultT = TypeVar("ResultT")


def verified(verify: Callable[[], None], compute: Callable[[], ResultT]) -> ResultT:
    """What `compute` gives, if it has read what the epoch has. Where it fails, `verify` may say better why."""
    try:
        found = compute()
    except BaseException:
        verify()
        raise
    verify()
    return found


class PositionedSource(ABC):
    """A source of tidegate's own: *start* records the position where it begins, before Spark starts the query."""

    writes: ClassVar[bool] = False
    """Whether opening it writes into the job's folder, which a mere check must not."""

    @abstractmethod
    def load(self, session: SparkSession, where: str, level: Level) -> DataFrame:
        """As `StreamLoader.load`: what the program builds its queries on. No query reads it as it is: see `bound`."""

    def recall(self, position: str) -> None:
        """Before `load`: what the newest *start* of the job says of this source."""

    @abstractmethod
    def opened(self, ground: Ground) -> OpenedSource:
        """What answers for this source during one start of a job."""

    def looked_at(self, ground: Ground) -> OpenedSource:
        """What answers for it while a restore is judged. Writes nothing."""
        return self.opened(ground)

"""The contract between a source and a job: the properties that a source declares, and the methods that read its rows.

Every source declares three properties (`Traits`): whether a range of rows can be read again, where a query can begin,
and whether rows that arrive while no job runs are kept. The job derives its guarantees from them. A start is refused if
the source does not allow the job's level.

`RowSource` is the base class of a source that reads its rows in Python:

    on the driver, once for each query:   oldest() or newest() -> where the query begins
    in a process that Spark keeps:        newest(), end(start, newest) -> where an epoch ends
                                          split(range) -> the tasks of an epoch
    in a task:                            read(range) -> the rows

With `job.source(uid, source, durable=True)` a thread of the driver calls all of these methods. It writes the rows to
the job's ingest log, and the tasks of an epoch read the log.

A source object is pickled and sent to other processes. Store only settings in it, no connection.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, ClassVar

from tidegate.core.health import Finding, warn

if TYPE_CHECKING:  # a command that only asks a source does not wait for it
    import pyarrow as pa


class Replay(Enum):
    """Whether the rows between two positions can be read again."""

    EXACT = "the same rows again, in every process, any number of times"
    FORWARD = "positions outlive the process, but rows are given once, or differ when they are read again"
    NONE = "rows are given once, and positions count from the start of the process"


class Begins(Enum):
    """Where a query that has no checkpoint can begin."""

    OLDEST = "at the oldest row only"
    EITHER = "at the oldest row, or behind the newest one"
    NEWEST = "behind the newest row only"


class Absence(Enum):
    """Whether rows that arrive while no job runs are kept until the next start.

    Only a job whose sources keep such rows can be stopped, because a stop is followed by a resume. Otherwise the job
    can only be canceled.
    """

    KEPT = "they wait for the next start"
    LOST = "they are lost, so the job cannot be stopped, only canceled"


@dataclass(frozen=True, slots=True)
class Traits:
    """The properties that a source declares.

    `replay`: exactly-once and at-least-once need `Replay.EXACT`, or `durable=True`. `begins`: at-most-once needs
    `Begins.EITHER` or `Begins.NEWEST`. `absence`: `tidegate stop` needs `Absence.KEPT`, or `durable=True`.
    """

    replay: Replay
    begins: Begins = Begins.EITHER
    absence: Absence = Absence.KEPT


class Source:
    """The base of every source: its traits and its description. A command opens the source from the description."""

    traits: Traits
    """What the source declares of itself. A source whose class does not say it sets it in its `__init__`."""

    kind: ClassVar[str] = ""
    """The name of this very class among the entry points `tidegate.sources`. With it, `tidegate check --job` opens the
    source without the job's program. Without it, and for a subclass that does not say its own, only the program can."""

    def describe(self) -> Mapping[str, object]:
        """Return what `from_description` needs to open the same source: a mapping from names to JSON values.

        It is written to *sources.json* in the job's folder at every start, so it must not hold a secret. Leave out an
        option that may be a secret, and put its name into the list `left_out`: a command asks for it with `--option
        NAME=...`.
        """
        return {}

    @classmethod
    def from_description(cls, described: Mapping[str, object], options: Mapping[str, str]) -> Source:
        """Open the source again for `probe` and `tidegate info`. No job reads rows from this object.

        `described`: what `describe` returned, possibly in an older release. `options`: a value for each name in
        `left_out`.
        """
        raise NotImplementedError(f"{cls.__name__} has a kind and no from_description")

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        """A short text that describes the source, for the output of commands. `described`: what `describe` returned."""
        return cls.__name__

    def probe(self, what: str) -> Sequence[Finding]:
        """Test whether the source can be read, for `tidegate check`. Must change nothing.

        `what`: the subject of each finding. Make findings with `ok`, `warn` and `failed` of `tidegate.source_api`.
        """
        return [warn(what, "nothing is known of how to look at it", "start the job")]


Position = Mapping[str, int]
"""How far a source was read: by the name of each of its parts (a partition, a shard, a file), the number of the next
row. A number never becomes smaller, and a part never goes. A source without parts has one, with any name."""


@dataclass(frozen=True, slots=True)
class Range:
    """A range of rows of one part: from number `begin` up to, but not including, `end`. It can be pickled."""

    part: str
    begin: int
    end: int


class RowSource(Source, ABC):
    """The base class of a source that reads its rows in Python. Declare `traits`, and define schema, oldest, newest and
    read.

    With `Replay.EXACT` the methods are called on copies of the object in several processes, so each call must ask the
    external system itself. Otherwise one thread of the driver calls all methods on the object that the program made.
    """

    traits: ClassVar[Traits]  # pyright: ignore[reportIncompatibleVariableOverride]

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of the rows. They must stay the same during the life of a checkpoint."""

    @abstractmethod
    def oldest(self) -> Position:
        """Return, for each part that exists, the number of the oldest row that can still be read.

        Called once when a query begins; the answer is kept in the checkpoint. With `Replay.NONE` it is called at each
        start.
        """

    @abstractmethod
    def newest(self) -> Position:
        """Return, for each part that exists, the number after the newest row that can be read.

        Called about twenty times a second while the source is idle, so cache an answer that is expensive. A part that
        earlier answers did not contain begins at the number that `oldest` returns for it, or at 0. If a number is
        smaller than in an earlier answer, the job fails with TG-OFFSETS-BACKWARDS, because the source was restored from
        a backup or emptied.
        """

    @abstractmethod
    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a range, as batches with the columns of `schema`.

        Called in a task. `wanted` is one of the ranges that `split` returned. With `Replay.EXACT` it is called again
        after a crash, in another process, and must yield the same rows. If a row is missing, raise an exception: never
        skip it.
        """

    def end(self, start: Position, newest: Position) -> Position:
        """Return where the epoch that begins at `start` ends; at most `newest`. Override it to limit the rows of an
        epoch.

        `newest`: the present answer of `newest()`; in a run until `caught-up`, the answer at the start of the run.
        Return a number for each part in `newest`, none smaller than in `start`.
        """
        return newest

    def split(self, wanted: Range) -> Sequence[Range]:
        """Divide the range of one part among tasks.

        The ranges together must be `wanted`, in order. Default: one task.
        """
        return [wanted]

    def done(self, position: Position) -> None:
        """Called when all rows before `position` are in the ingest log. The source may delete them, or acknowledge them
        to a queue.

        It may be called twice for the same position. After a crash, it may not have been called for rows that are in
        the log. Without `durable=True` it is never called.
        """

    def close(self) -> None:
        """Close what the object has opened in the driver.

        Called when the job ends; the same object may be used at a later start.
        """


def goes_back(before: Position, now: Position) -> str:
    """A text that lists the parts that went back: `now` lacks the part, or its position in `now` is smaller than in
    `before`. Empty if no part went back.
    """
    gone = [f"{part} {at}, now {now.get(part, 'gone')}" for part, at in before.items() if now.get(part, -1) < at]
    return ", ".join(gone)


def ranges(start: Position, end: Position) -> list[Range]:
    """The range of each part between two positions.

    A part that is not in `start` has no rows yet: it begins at `end`.
    """
    return [Range(part, start[part], at) for part, at in end.items() if start.get(part, at) < at]

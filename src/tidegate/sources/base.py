"""The contract between a source and a job: what the source declares, and how its rows are read.

Every source declares three things (`Traits`): whether a range of rows can be read again, where it can begin, and what
becomes of rows that arrive while no job runs. The job takes its guarantees from the declaration, and refuses a start
that the source cannot serve.

`RowSource` is the base of a source that reads its rows in Python:

On the driver, once for a query:    oldest() or newest() -> where the query begins
In a process that Spark keeps:      newest(), end(start, newest) -> where an epoch ends; split(range) -> its tasks
In a task:                          read(range) -> the rows

With `job.source(uid, source, durable=True)` a thread of the driver calls all of them. It writes the rows to the ingest
log of the job before an epoch has them; the tasks then read the log.

A source object is pickled to other processes: what it holds must be settings only, never a connection.
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
    """What becomes of rows that arrive while no job runs. A job is stopped in order to be resumed, so it is stopped
    only if they are kept; otherwise it is canceled."""

    KEPT = "they wait for the next start"
    LOST = "they are lost, so the job cannot be stopped, only canceled"


@dataclass(frozen=True, slots=True)
class Traits:
    """What a source declares of itself.

    `replay`: exactly-once and at-least-once need `Replay.EXACT`, or `durable=True`. `begins`: at-most-once needs
    `Begins.EITHER` or `Begins.NEWEST`. `absence`: `tidegate stop` needs `Absence.KEPT`, or `durable=True`.
    """

    replay: Replay
    begins: Begins = Begins.EITHER
    absence: Absence = Absence.KEPT


class Source:
    """What every source has: traits, and a description by which a command opens it without the job's program."""

    traits: Traits
    """What the source declares of itself. A source whose class does not say it sets it in its `__init__`."""

    kind: ClassVar[str] = ""
    """The name of this very class among the entry points `tidegate.sources`. With it, `tidegate check --job` opens the
    source without the job's program. Without it, and for a subclass that does not say its own, only the program can."""

    def describe(self) -> Mapping[str, object]:
        """What `from_description` needs to open the same source: values of JSON by name.

        It is written into *sources.json* in the job's folder at every start, so it holds no secret. An option that may
        be one is left out, and its name stands in the list `left_out`: a command asks for it with `--option NAME=...`.
        """
        return {}

    @classmethod
    def from_description(cls, described: Mapping[str, object], options: Mapping[str, str]) -> Source:
        """The source again, to be looked at; no job reads through it.

        `described` is what `describe` returned, possibly in an older release. `options` has a value for each name in
        `left_out`.
        """
        raise NotImplementedError(f"{cls.__name__} has a kind and no from_description")

    @classmethod
    def told(cls, described: Mapping[str, object]) -> str:
        """The source in a few words, for the lists of commands. `described` is what `describe` returned."""
        return cls.__name__

    def probe(self, what: str) -> Sequence[Finding]:
        """How the source is, for `tidegate check`: each finding with `what` as its subject. Changes nothing.

        `ok`, `warn` and `failed` of `tidegate.source_api` make findings.
        """
        return [warn(what, "nothing is known of how to look at it", "start the job")]


Position = Mapping[str, int]
"""How far a source was read: by the name of each of its parts (a partition, a shard, a file), the number of the next
row. A number never becomes smaller, and a part never goes. A source without parts has one, with any name."""


@dataclass(frozen=True, slots=True)
class Range:
    """The rows of one part from the number `begin` on, below the number `end`. It can be pickled."""

    part: str
    begin: int
    end: int


class RowSource(Source, ABC):
    """The base of a source that reads its rows in Python. Its author writes four methods: schema, oldest, newest and
    read, and declares `traits`.

    With `Replay.EXACT` the methods are called in several processes, so that each call must find out by itself how the
    source is. Otherwise one thread of the driver calls them all, on the object that the program made.
    """

    traits: ClassVar[Traits]  # pyright: ignore[reportIncompatibleVariableOverride]

    @abstractmethod
    def schema(self) -> pa.Schema:
        """The columns of the rows. The same for the life of a checkpoint."""

    @abstractmethod
    def oldest(self) -> Position:
        """Before the oldest row that can still be read, for every part that there is.

        Asked when a query begins, and its answer is kept in the checkpoint. With `Replay.NONE` asked at each start.
        """

    @abstractmethod
    def newest(self) -> Position:
        """Behind the newest row that can be read, for every part that there is.

        Called some twenty times a second while the source is idle, so an answer that costs much is kept for a while. A
        part that an earlier answer did not name begins at the number that `oldest` gives for it, or at 0. A number
        that is smaller than an earlier one ends the job with TG-OFFSETS-BACKWARDS: the source was put back or emptied.
        """

    @abstractmethod
    def read(self, wanted: Range) -> Iterator[pa.RecordBatch]:
        """The rows of a range, in batches with the columns of `schema`.

        Called in a task. `wanted` is a range of `split`. With `Replay.EXACT` it comes again after a crash, in another
        process, and must give the same rows. A row that is gone is an error: raise it, and never leave the row out.
        """

    def end(self, start: Position, newest: Position) -> Position:
        """Where the epoch that begins at `start` ends: at most at `newest`. Override it to limit the rows of an epoch.

        `newest` was asked just now; in a run until `caught-up` it is the one of the start of the run. Return a number
        for each part of `newest`, none below the one in `start`.
        """
        return newest

    def split(self, wanted: Range) -> Sequence[Range]:
        """The ranges that the tasks of an epoch read for one part: together `wanted`, in order. One task by default."""
        return [wanted]

    def done(self, position: Position) -> None:
        """All rows before `position` are safe: with `durable=True` they are in the ingest log. The source may forget
        them, for instance acknowledge them to a queue. It may be called again for the same position, and after a crash
        it may not have been called for rows that are safe. Without `durable=True` it is never called."""

    def close(self) -> None:
        """The job has ended. Close what the object has opened in the driver; it may be asked again at another start."""


def goes_back(before: Position, now: Position) -> str:
    """The parts that `now` lacks, or where it is below `before`, in words; empty where there are none."""
    gone = [f"{part} {at}, now {now.get(part, 'gone')}" for part, at in before.items() if now.get(part, -1) < at]
    return ", ".join(gone)


def ranges(start: Position, end: Position) -> list[Range]:
    """What lies between two positions, part by part. A part that `start` does not name begins at `end`."""
    return [Range(part, start[part], at) for part, at in end.items() if start.get(part, at) < at]

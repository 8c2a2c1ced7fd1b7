"""The effects that the protocol requests. A generator yields effects and receives their results.

One runner executes them for real, another in a single-threaded world that can die before and after each. The small
functions below give every effect its result type: `data = yield from get(name)`.

`point` names the place in the protocol; a runner passes the failpoints `<point>.before` and `<point>.after`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from tidegate.core.records import Answer, Committable, Evidence, Position, StateFile


@dataclass(frozen=True, slots=True)
class Get:
    """Read a file of the query's folder. Result: its bytes, or None when it is absent."""

    name: str
    point: str = "read"


@dataclass(frozen=True, slots=True)
class Peek:
    """Like `Get`, but a power loss may lose what was read, until a later put has returned that holds it."""

    name: str
    point: str = "read"


@dataclass(frozen=True, slots=True)
class Recall:
    """Read a record that no other run writes while this one is the newest: its content may come from memory, if this
    process itself has written it. Otherwise like `Get`.
    """

    name: str
    point: str = "read"


@dataclass(frozen=True, slots=True)
class List:
    """List a folder. Result: the names of its files (not paths), in any order."""

    folder: str
    point: str = "read"


@dataclass(frozen=True, slots=True)
class PutIfAbsent:
    """Create a file, whole and durable, unless it exists. Result: whether this call created it."""

    name: str
    data: bytes
    point: str


@dataclass(frozen=True, slots=True)
class Replace:
    """Write a file, whole and durable. Replaces an existing file."""

    name: str
    data: bytes
    point: str


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a file; no error when it is absent. A power loss may bring it back."""

    name: str
    point: str


@dataclass(frozen=True, slots=True)
class DeleteAll:
    """Like `Delete`, of several files, in few requests."""

    names: tuple[str, ...]
    point: str


@dataclass(frozen=True, slots=True)
class SetAside:
    """Rename a file so that Spark no longer finds it. Result: its new name, or None when it was gone."""

    name: str
    point: str


@dataclass(frozen=True, slots=True)
class SyncCheckpoint:
    """Make Spark's unsynced files durable: `offsets/N`, source logs, state files, metadata, folders."""

    point: str = "sync"


@dataclass(frozen=True, slots=True)
class OwnPlan:
    """An epoch as the run itself has planned it, whatever stands in Spark's log: the end of each source, the watermark
    in milliseconds, and the ids of the state that the epoch began with (None without state).
    """

    ends: tuple[str | None, ...]
    watermark_ms: int
    base_ids: str | None


@dataclass(frozen=True, slots=True)
class Computed:
    """The result of the tasks of an epoch: committables, the earlier position of Spark, the ids of the state files, and
    by operator the number of rows of state and the uid in the program. `own` and `state_files`: needed where
    another driver may be alive and can overwrite Spark's log, and state files without unique names.
    """

    committables: tuple[Committable, ...]
    start_positions: tuple[str | None, ...] | None
    state_ids: str | None
    state_rows: dict[str, int] = field(default_factory=dict[str, int])
    operator_uids: dict[str, str] = field(default_factory=dict[str, str])
    own: OwnPlan | None = None
    state_files: tuple[StateFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Compute:
    """Let the tasks compute epoch `epoch` once for all sinks. Result: `Computed`."""

    epoch: int
    run: int
    run_token: str
    finished_through: int
    point: str = "compute"


@dataclass(frozen=True, slots=True)
class AwaitFinished:
    """Wait until the finisher of this run has finished epoch `epoch`; raises what stopped the finisher. Result: the
    newest epoch that recovery has found finished, or that the finisher has finished: at least `epoch`.
    """

    epoch: int
    point: str = "wait"


@dataclass(frozen=True, slots=True)
class AwaitCommits:
    """Wait for an entry in Spark's commit log above `epoch`. Result: False when the run has ended instead. Spark's call
    with a later epoch is a sign of an entry, too: if there is none then, the log has a hole.
    """

    epoch: int
    point: str = "commits.seen"


@dataclass(frozen=True, slots=True)
class Introduce:
    """Result: (random token, host, process id, UTC time) of this run."""

    point: str = "run"


@dataclass(frozen=True, slots=True)
class Hesitate:
    """Wait before the `attempt`-th (from 0) next try of a sink that is not ready. May raise when a stop is due."""

    sink: str
    epoch: int
    attempt: int
    detail: str
    point: str = "hesitate"


@dataclass(frozen=True, slots=True)
class CommitSink:
    """`TwoPhaseSink.commit`. Result: one answer per committable."""

    sink: str
    committables: tuple[Committable, ...]
    point: str = "commit"


@dataclass(frozen=True, slots=True)
class CommitStraight:
    """`TwoPhaseSink.commit_straight`, inside the epoch. Result: one answer per committable."""

    sink: str
    committables: tuple[Committable, ...]
    point: str = "straight"


@dataclass(frozen=True, slots=True)
class LookForEvidence:
    """`TwoPhaseSink.evidence`. Result: Evidence."""

    sink: str
    committable: Committable
    point: str = "redo.looked"


@dataclass(frozen=True, slots=True)
class FenceTransaction:
    """`TwoPhaseSink.fence`."""

    sink: str
    committable: Committable
    point: str = "redo.fenced"


@dataclass(frozen=True, slots=True)
class RedoTransaction:
    """`TwoPhaseSink.redo` with the rows of the committable's journal. Result: Answer."""

    sink: str
    committable: Committable
    point: str = "redo.written"


@dataclass(frozen=True, slots=True)
class ListOpen:
    """`TwoPhaseSink.pending`. Result: the names of the transactions that are open."""

    sink: str
    point: str = "recover.listed"


@dataclass(frozen=True, slots=True)
class AbortOpen:
    """`TwoPhaseSink.abort`."""

    sink: str
    transactions: tuple[str, ...]
    point: str = "recover.aborted"


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """`TwoPhaseSink.position`. Result: Position or None."""

    sink: str
    point: str = "recover.position"


@dataclass(frozen=True, slots=True)
class BeginRun:
    """`TwoPhaseSink.begin_run`. Result: a later run that the target names, in words; None if there is none."""

    sink: str
    run: int
    run_token: str
    point: str = "recover.begun"


@dataclass(frozen=True, slots=True)
class CleanThrough:
    """Remove the journals and stages of epochs at or below `epoch`. `journals`: of the journals only these, all of
    `epoch`; None: all that a list shows.
    """

    epoch: int
    journals: tuple[str, ...] | None = None
    point: str = "gc.clean"


@dataclass(frozen=True, slots=True)
class DiscardFrom:
    """Remove the journals and stages that dead runs left for undecided epochs from `epoch` on.

    Result: the number of removed staged attempts.
    """

    epoch: int
    point: str = "recover.discarded"


class Happening:
    """Base of the events for listeners. They change nothing."""


@dataclass(frozen=True, slots=True)
class Tell:
    """Notify listeners. Never part of a decision."""

    happening: Happening
    point: str = "tell"


Effect: TypeAlias = (
    Get
    | Peek
    | Recall
    | List
    | PutIfAbsent
    | Replace
    | Delete
    | DeleteAll
    | SetAside
    | SyncCheckpoint
    | Compute
    | AwaitFinished
    | AwaitCommits
    | Introduce
    | Hesitate
    | CommitSink
    | CommitStraight
    | LookForEvidence
    | FenceTransaction
    | RedoTransaction
    | ListOpen
    | AbortOpen
    | ReadPosition
    | BeginRun
    | CleanThrough
    | DiscardFrom
    | Tell
)

ResultT = TypeVar("ResultT")
Steps: TypeAlias = Generator[Effect, Any, ResultT]
"""A part of the protocol: yields effects, receives their results, returns a `ResultT`."""


def get(name: str) -> Steps[bytes | None]:
    return (yield Get(name))


def peek(name: str) -> Steps[bytes | None]:
    return (yield Peek(name))


def recall(name: str) -> Steps[bytes | None]:
    return (yield Recall(name))


def list_names(folder: str) -> Steps[Sequence[str]]:
    return (yield List(folder))


def put_if_absent(name: str, data: bytes, point: str) -> Steps[bool]:
    return (yield PutIfAbsent(name, data, point))


def set_aside(name: str, point: str) -> Steps[str | None]:
    return (yield SetAside(name, point))


def compute(effect: Compute) -> Steps[Computed]:
    return (yield effect)


def await_finished(epoch: int) -> Steps[int]:
    return (yield AwaitFinished(epoch))


def await_commits(epoch: int) -> Steps[bool]:
    return (yield AwaitCommits(epoch))


def introduce() -> Steps[tuple[str, str, int, str]]:
    return (yield Introduce())


def commit_sink(sink: str, committables: tuple[Committable, ...]) -> Steps[Sequence[Answer]]:
    return (yield CommitSink(sink, committables))


def look_for_evidence(sink: str, committable: Committable) -> Steps[Evidence]:
    return (yield LookForEvidence(sink, committable))


def redo_transaction(sink: str, committable: Committable) -> Steps[Answer]:
    return (yield RedoTransaction(sink, committable))


def list_open(sink: str) -> Steps[Sequence[str]]:
    return (yield ListOpen(sink))


def discard_from(epoch: int) -> Steps[int]:
    return (yield DiscardFrom(epoch))


def read_position(sink: str) -> Steps[Position | None]:
    return (yield ReadPosition(sink))


def begin_run(sink: str, run: int, run_token: str) -> Steps[str | None]:
    return (yield BeginRun(sink, run, run_token))

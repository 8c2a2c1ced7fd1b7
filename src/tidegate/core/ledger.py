"""The names of a query's durable records, and the protocol's reads of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidegate.core.effects import Steps, get, list_names, recall
from tidegate.core.errors import Code, TidegateError
from tidegate.core.fingerprints import NOTHING_ALLOWED, Allowed
from tidegate.core.ledger_names import DONE, FINISHED_THROUGH, START, entry
from tidegate.core.levels import Level
from tidegate.core.records import (
    Committable,
    Decided,
    FinishedThrough,
    OperatorFingerprint,
    Prepared,
    Run,
    Sealed,
    SinkIdentity,
    Start,
    decode,
    is_of_kind,
)
from tidegate.core.spark_log import parse_commits

LEDGER = "ledger"
RUNS = "ledger/runs"
PREPARED = "ledger/prepared"
DECIDED = "ledger/decided"
OPERATORS = "ledger/operators"
OVERDUE = "ledger/overdue"
OFFSETS = "spark/offsets"
COMMITS = "spark/commits"
SOURCES = "spark/sources"
RECORD_FOLDERS = (LEDGER, RUNS, PREPARED, DECIDED, DONE, OPERATORS, OVERDUE, OFFSETS, COMMITS)
"""The folders of the protocol's files. Each file is first written under a temporary name."""

LOGGED_BY_SPARK = "logged by Spark"
NEWEST = "the newest at the start"
"""The positions of the sources at the begin of a generation: those in *start*; a source of tidegate's own adds its
position.
"""

KEPT_AT_LEAST = 3
"""*decided* and *done* of this many newest epochs are always kept."""
RUNS_KEPT = 10
"""Records of this many newest runs are kept, so that a restart loop stays bounded."""
RUNS_KEPT_WITHOUT_PROOF = 1_000
"""The same where older runs may be alive: a run finds its successor by the next number. Each of these records is a
restart after a lease that the older run knows to be lost, by its own clock.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The protocol's view of a query.

    `local_lease`: only one run can be alive, proved by the job's lease (`Lease.proves_the_engine_dead`). `forgetful`:
    the sinks whose target keeps no evidence over a restart (a console). `expiring`: those whose evidence expires.
    `repeating`: those that may show an interrupted epoch again (`Shows.AGAIN`).
    `levels`: of the sinks that are not exactly-once. `positions`: the begin of tidegate's own sources, if this start is
    the first of its generation. `may_repeat`: a rewind allows this generation to show rows of older ones again.
    `fingerprints`: of the stateful operators of the program; None without a program, or if they cannot be read.
    `allowed`: the operators that may differ from those of the state. `dead_letters`: the sink for rows that other sinks
    refuse, if there is one. `fencing`: the sinks whose rows are visible inside their epoch: each run fences the
    earlier ones there. `cleaned_together`: the finisher removes the old records of so many epochs at once.
    """

    job: str
    job_id: str
    generation: int
    uid: str
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    forgetful: frozenset[str] = frozenset()
    expiring: frozenset[str] = frozenset()
    repeating: frozenset[str] = frozenset()
    max_concurrent: int = 1
    local_lease: bool = True
    levels: Mapping[str, Level] = field(default_factory=dict[str, Level])
    positions: Mapping[str, str] = field(default_factory=dict[str, str])
    may_repeat: bool = False
    fingerprints: tuple[OperatorFingerprint, ...] | None = None
    allowed: Allowed = NOTHING_ALLOWED
    dead_letters: str | None = None
    fencing: tuple[str, ...] = ()
    cleaned_together: int = 20

    def sink(self, uid: str, generation: int | None = None) -> SinkIdentity:
        """The identity in transaction names and evidence of one sink; of this generation or another."""
        number = self.generation if generation is None else generation
        return SinkIdentity(job=self.job, job_id=self.job_id, generation=number, query=self.uid, sink=uid)

    def level(self, sink: str) -> Level:
        """The delivery level of one sink."""
        return self.levels.get(sink, Level.EXACTLY_ONCE)

    @property
    def weakest(self) -> Level:
        """The weakest level among the sinks."""
        return max((self.level(sink) for sink in self.sinks), key=list(Level).index, default=Level.EXACTLY_ONCE)

    def begins_at(self, source: str) -> str:
        """The begin of a source in a new generation."""
        newest = NEWEST if Level.AT_MOST_ONCE in self.levels.values() else None
        return ": ".join(filter(None, [newest, self.positions.get(source)])) or LOGGED_BY_SPARK

    def start(self, first_epoch: int) -> Start:
        """*start* of a generation of this query that begins with this epoch."""
        return Start(
            job_id=self.job_id,
            generation=self.generation,
            first_epoch=first_epoch,
            sources=self.sources,
            sinks=self.sinks,
            positions={source: self.begins_at(source) for source in self.sources},
            fingerprints=self.fingerprints,
        )

    def __str__(self) -> str:
        return f"job {self.job}, query {self.uid}, generation {self.generation}"


def is_newest(begins_at: str) -> bool:
    """True if a source began at its newest input: its job is at-most-once."""
    return begins_at.startswith(NEWEST)


def position_of(begins_at: str) -> str:
    """The source position in an entry of *start*. Only tidegate's own sources have one."""
    return begins_at.removeprefix(f"{NEWEST}: ")


def prepared_name(epoch: int, run: int) -> str:
    """`prepared/N.R`."""
    return f"{PREPARED}/{epoch}.{run}"


def overdue_name(epoch: int, run: int) -> str:
    """`overdue/N.R`."""
    return f"{OVERDUE}/{epoch}.{run}"


def of_sink(committables: Iterable[Committable], sink: str) -> tuple[Committable, ...]:
    """The committables of one sink, in the order of their tasks."""
    mine = [committable for committable in committables if committable.attempt.sink.sink == sink]
    return tuple(sorted(mine, key=lambda committable: committable.attempt.task))


def numbers(folder: str) -> Steps[list[int]]:
    """The numbers of a folder's numbered files, ascending. Other names are not its entries."""
    return sorted(int(name) for name in (yield from list_names(folder)) if name.isdigit())


def read_start() -> Steps[Start]:
    """*start*, which exists after the query has been opened."""
    data = yield from recall(START)
    if data is None:
        raise start_missing("no such file", START)
    return decode(Start, data, START)


def start_missing(found: str, where: str) -> TidegateError:
    """The error for a generation without its record *start*."""
    return TidegateError(
        Code.RECORD_CORRUPT,
        expected="the record `start`, with which a generation is opened",
        found=found,
        where=where,
        next_step="put the folder `ledger` of the query back from a copy, or go back to a savepoint:"
        " tidegate run -s PATH APP",
    )


def read_finished_through() -> Steps[FinishedThrough | None]:
    """The content of *finished_through* now.

    A finisher that was paused may have written an older value: see `read_finished`.
    """
    data = yield from get(FINISHED_THROUGH)
    return None if data is None else decode(FinishedThrough, data, FINISHED_THROUGH)


def recall_finished_through() -> Steps[FinishedThrough | None]:
    """The same, as this process has written it last. A newer run may have written a later one: then this run puts an
    older one in its place, as any finisher can that was paused.
    """
    data = yield from recall(FINISHED_THROUGH)
    return None if data is None else decode(FinishedThrough, data, FINISHED_THROUGH)


def read_finished() -> Steps[int]:
    """The newest finished epoch: the larger of *finished_through* and the newest *done*, otherwise the one in
    *start*.
    """
    record = yield from read_finished_through()
    done = yield from numbers(DONE)
    start = yield from read_start()
    return max([start.first_epoch - 1, *done, *([] if record is None else [record.epoch])])


def read_decided(epoch: int) -> Steps[Decided | None]:
    """*decided/N*, or None. Raises GENERATION_SEALED if it is a seal."""
    name = entry(DECIDED, epoch)
    data = yield from get(name)
    return None if data is None else decode_decided(data, name)


def decode_decided(data: bytes, where: str) -> Decided:
    """The decision in `data`. Raises GENERATION_SEALED if it is a seal."""
    if is_of_kind(Sealed, data):
        raise sealed(where, decode(Sealed, data, where))
    return decode(Decided, data, where)


def sealed(where: str, seal: Sealed) -> TidegateError:
    """The error of a run whose generation has ended."""
    return TidegateError(
        Code.GENERATION_SEALED,
        expected=f"a generation whose epoch {seal.epoch} can be decided",
        found="its seal: a restore or a fresh start ends this generation",
        where=where,
    )


def recall_decided(epoch: int) -> Steps[Decided | None]:
    """*decided/N*, which may be what this process has written itself; or None."""
    name = entry(DECIDED, epoch)
    data = yield from recall(name)
    return None if data is None else decode_decided(data, name)


def read_prepared(epoch: int) -> Steps[list[tuple[bytes, Prepared]]]:
    """All prepared records of an epoch with their bytes, in the order of their runs."""
    found: list[tuple[bytes, Prepared]] = []
    for number, run in sorted((yield from prepared_entries())):
        if number == epoch:
            name = prepared_name(epoch, run)
            data = yield from get(name)
            if data is not None:
                found.append((data, decode(Prepared, data, name)))
    return found


def prepared_entries() -> Steps[list[tuple[int, int]]]:
    """(epoch, run) of every prepared record."""
    return (yield from numbered_by_run(PREPARED))


def numbered_by_run(folder: str) -> Steps[list[tuple[int, int]]]:
    """(epoch, run) of every record in a folder of files `N.R`."""
    names = yield from list_names(folder)
    pairs = [name.split(".") for name in names]
    return [(int(pair[0]), int(pair[1])) for pair in pairs if len(pair) == 2 and all(p.isdigit() for p in pair)]


def newest_committed() -> Steps[int | None]:
    """The newest readable entry of Spark's commit log: every epoch up to it is decided."""
    for number in reversed((yield from numbers(COMMITS))):
        if parse_commits((yield from get(entry(COMMITS, number)))) is not None:
            return number
    return None


def stop_if_superseded(query: Query, run: Run) -> Steps[None]:
    """Raise if a newer run of the query exists: two finishers would fence each other for ever."""
    if (yield from has_successor(run)):
        raise superseded(query, run, f"run {run.run + 1} exists")


def has_successor(run: Run) -> Steps[bool]:
    """True if a newer run exists. Runs are numbered without gaps, and the newest records stay."""
    return (yield from get(entry(RUNS, run.run + 1))) is not None


def superseded(query: Query, run: Run, found: str) -> TidegateError:
    """The error of a run that is no longer the newest."""
    return TidegateError(
        Code.RUN_SUPERSEDED,
        expected=f"run {run.run} to be the newest",
        found=found,
        where=str(query),
    )

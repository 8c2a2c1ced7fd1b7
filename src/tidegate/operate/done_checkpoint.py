"""One epoch that is done in all its sinks, and where its time went."""

from __future__ import annotations

from enum import Enum

import msgspec


class TimedPhase(Enum):
    """The phases of an epoch, in their order. Each ends with what its comment says; the next one begins there.

    What an epoch waits before its tasks begin (for older epochs, a pause, readers that are too far behind) is in no
    phase: it is the rest of its `duration_ms`.
    """

    COMPUTE = "compute"  # the tasks have written their rows into the open transactions
    PRE_COMMIT = "pre_commit"  # every sink has pre-committed: the longest of the tasks
    SYNC = "sync"  # Spark's files are durable
    PREPARED = "prepared"  # prepared/N.R is durable
    COMMITS = "commits"  # Spark's commits/N was seen
    DECIDED = "decided"  # decided/N is durable
    COMMIT = "commit"  # every sink has committed
    DONE = "done"  # done/N and finished_through are durable


class DoneCheckpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One epoch that is done in all its sinks."""

    query: str
    epoch: int
    run: int
    """Number of the run; 0 if recovery completed an epoch that an earlier run had decided."""
    at: float
    """Time of completion, in seconds since 1970."""
    duration_ms: float | None
    """Milliseconds from Spark's choice of the input to the last commit; None in recovery."""
    rows: int
    aborted: int = 0
    """Transactions of dead runs aborted since the epoch before."""
    redone: int = 0
    """Lost transactions that were written again."""
    shown_again: int = 0
    """Rows that a sink without evidence may have shown twice."""
    number: int = 0
    """Its place among all done epochs of the job, from 1 on; it never goes back. 0 in files of older releases."""
    committed: int = 0
    """Transactions of this epoch that the sinks have committed."""
    dead_letters: int = 0
    """Rows that a sink refused, among those of this epoch."""
    failed: int = 0
    """Tries of an epoch that have failed since the epoch before, and after which it ran again in the same process."""
    phases: dict[TimedPhase, float] = {}
    """Milliseconds of each phase. Empty in recovery, and in files of older releases."""
    read: int | None = None
    """Rows that the sources have given, as Spark counts them: a source that the query reads twice counts twice, rows
    that the reader itself has filtered out do not count. None in recovery, and in files of older releases."""

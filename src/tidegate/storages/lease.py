"""The port `Lease`: at most one process drives a job.

A lease excludes a second driver in the common case. It is not the reason why the output is exact. If a driver is paused
and continues beside its successor, create-if-absent records, state ids and the evidence in the sinks keep the output
exact.
"""

from __future__ import annotations

from enum import Enum
from types import TracebackType
from typing import Protocol

import msgspec

from tidegate.core.errors import TidegateError

LEASE_TIMEOUT_SECONDS = 30.0
"""`lease.timeout`, if it is not set: of commands, too."""


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """The current or last holder of a job's lease."""

    job: str
    host: str
    process: int
    since: str

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}, since {self.since}"


class LeaseState(Enum):
    """The state of a lease as an observer sees it. If holders prove their life by a beat, an observer that has watched
    for less than the lease's timeout treats the holder as alive. ENDING exists only where the engine has a lock.
    """

    FREE = "no driver of the job can write anything"
    ENDING = "the driver has ended, and the engine that it started can still write"
    HELD = "a driver holds it"


class HeldLease(Protocol):
    """A lease that this process has taken. It holds until `release`, until `lost` returns a reason, or until the
    process ends in any way.
    """

    @property
    def holder(self) -> Holder:
        """This process, as recorded at the take."""
        ...

    @property
    def predecessor(self) -> Holder | None:
        """The previous holder, for messages; None if unknown."""
        ...

    def engine_lock(self) -> str | None:
        """The file that the engine's own process (Spark's JVM) locks while it can write: the engine can outlive its
        driver. None if a lease has no such lock; then the protocol's other rules make a late engine harmless.
        """
        ...

    @property
    def renewal_seconds(self) -> float | None:
        """How often the holder must call `renew`: every third of the timeout. None for a lease that the operating
        system supervises.
        """
        ...

    def renew(self) -> None:
        """Prove that this process is alive. The holder calls it every `renewal_seconds`, from a thread that does
        nothing else (`storages/renewal.py`). A lease that the operating system supervises needs no proof.

        Raises the error that `lost` returns, or an error of the storage. After an error of the storage the caller
        retries.
        """
        ...

    def lost(self) -> TidegateError | None:
        """The reason why this process no longer holds the lease; None while it holds it. A lost lease stays lost.

        A lease with a beat is lost in two cases. A newer term exists. Or two thirds of the timeout have passed since
        the last successful renewal was SENT, by this process's own monotonic clock. The holder then starts nothing,
        stops its queries, and commits nothing. The call may read from the storage, so it can take as long as a read.
        """
        ...

    def lost_here(self) -> TidegateError | None:
        """Like `lost`, as far as this process knows already: it reads nothing from the storage, and takes no time. A
        holder calls it before each step that others can see.
        """
        ...

    def age_seconds(self) -> float | None:
        """Seconds since the last renewal that counted was sent, for display: after two thirds of the timeout the lease
        is lost. None for a lease that the operating system supervises.
        """
        ...

    def release(self) -> None:
        """Release the lease, when nothing of this driver can write any more. A second call does nothing; neither does a
        call in a forked child, or after another process has taken the lease. `Lease.holder` still returns this process.
        """
        ...

    def __enter__(self) -> HeldLease: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Lease(Protocol):
    """The lease of one job, seen by any process: drivers take it, commands inspect it."""

    @property
    def proves_the_engine_dead(self) -> bool:
        """True if a process that has taken the lease knows that no engine (Spark's JVM) of an earlier driver can write
        any more. If False, a paused driver and its engine may continue beside their successor: what has no decision
        (at-most-once) is refused, and what a dead run prepared stays until its epoch is decided.
        """
        ...

    def where(self) -> str:
        """The place of the lease's records or lock files, for messages."""
        ...

    def take(self, job: str, patience_seconds: float) -> HeldLease:
        """Take the lease for this process. The folder or record of the lease is created if it is missing.

        `job`: the job's name, for the record of the holder and for messages. `patience_seconds`: the longest wait, in
        seconds, until a dead driver can no longer write: until the engine that it started (Spark's JVM) has ended, or
        until its last beat has timed out. There is no wait for a driver that is known to live.

        Raises DRIVER_ALIVE, with the holder, if another process holds the lease, or if this process already holds it,
        also under another path to the same place. Of several calls at the same time at most one takes the lease.
        """
        ...

    def holder(self) -> Holder | None:
        """The current or last holder, for messages; None if there never was one, or its record cannot be read. Use
        `standing` to find out if the lease is held.
        """
        ...

    def standing(self) -> LeaseState:
        """Whether a driver holds the lease.

        If holders prove their life by a beat, a process that has not watched yet treats the holder as alive. Each call
        adds to what this process has seen: one that asks again and again learns of a death after the timeout. The check
        never disturbs a holder, or a process that takes the lease at the same time. It changes nothing, and needs no
        right to write.
        """
        ...

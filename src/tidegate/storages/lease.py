"""The port `Lease`: of all processes that could drive a job, one does.

A lease keeps a second driver out in the common case. It is not what makes the output exact: where a driver is paused
and wakes up beside its successor, create-if-absent records, state ids and the evidence in the sinks do that.
"""

from __future__ import annotations

from enum import Enum
from types import TracebackType
from typing import Protocol

import msgspec

from tidegate.core.errors import TidegateError


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds the lease of a job, or held it last."""

    job: str
    host: str
    process: int
    since: str

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}, since {self.since}"


class Standing(Enum):
    """What an observer sees of a lease. Where a holder proves its life by a beat, an observer that has watched for less
    than the lease's timeout takes it for alive."""

    FREE = "no driver of the job can write anything"
    ENDING = "the driver has ended, and the engine that it started can still write"
    HELD = "a driver holds it"


class Held(Protocol):
    """A lease that this process has taken. It holds until `release`, until `lost` says otherwise, or until the process
    ends, however it ends."""

    @property
    def holder(self) -> Holder:
        """This process, as it took the lease."""
        ...

    @property
    def predecessor(self) -> Holder | None:
        """Who held it before; None if that is unknown. For messages."""
        ...

    def engine_lock(self) -> str | None:
        """The file that the engine's own process (Spark's JVM) locks for as long as it can write: it can outlive its
        driver. None where a lease has no such lock; then the protocol's other rules make a late engine harmless."""
        ...

    def renew(self) -> None:
        """Prove that this process is alive. The holder calls it every third of the timeout, from a thread that does
        nothing else. A lease that the operating system watches needs no proof.

        Raises what `lost` gives, and what the storage has to say; the caller tries the latter again.
        """
        ...

    def lost(self) -> TidegateError | None:
        """Why this process no longer holds the lease; None while it does. Once lost, it stays lost.

        With a beat it is lost when a newer term is there, or when two thirds of the timeout have passed, by this
        process's own monotonic clock, since the last renewal that succeeded was SENT. The holder then starts nothing,
        stops its queries, and commits nothing. It may ask for the storage, so it can take as long as a read.
        """
        ...

    def release(self) -> None:
        """Give the lease up, when nothing of this driver can write any more. A second call does nothing, and so does
        one in a forked child, or after another process has taken the lease. `Lease.holder` still names this process."""
        ...

    def __enter__(self) -> Held: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Lease(Protocol):
    """The lease of one job, seen by any process: drivers take it, commands look at it."""

    def where(self) -> str:
        """Where its records or locks are, as a person would look for them."""
        ...

    def take(self, job: str, patience_seconds: float) -> Held:
        """Take the lease for this process; the place of the job is made if missing.

        `job`: the job's name, for the record of the holder and for messages. `patience_seconds`: how long what is left
        of a driver that has ended is waited for: an engine that outlives it, or a beat that has to be watched. A
        driver that is known to live is not waited for.

        Raises DRIVER_ALIVE, which names the holder: also for a second call in one process, whatever name of the place
        it came by. Of several calls at once at most one takes the lease.
        """
        ...

    def holder(self) -> Holder | None:
        """Who holds it, or held it last; None if there never was one, or its record cannot be read. It names a process
        in a message; whether the lease is held, `standing` tells."""
        ...

    def standing(self) -> Standing:
        """Whether a driver holds it. Looking never disturbs a holder, or a process that takes it in the same instant.
        It changes nothing, and needs no right to write."""
        ...

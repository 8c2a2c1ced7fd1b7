"""A `Lease` in memory. It uses terms and heartbeats, as a storage without locks does, and a simulated clock."""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass, field
from types import TracebackType

from tidegate.core.errors import TidegateError
from tidegate.storages.lease import Holder, LeaseState
from tidegate.storages.refusals import driver_alive


@dataclass(slots=True)
class Term:
    """One time that a process took the lease.

    A term's number is its index in `Terms.taken`; no term is ever removed.
    """

    holder: Holder
    beaten_at: float
    released: bool = False


@dataclass(slots=True)
class Terms:
    """The terms and the clock that all simulated processes share.

    Waiting for a lease advances the clock: no test waits.
    """

    timeout_seconds: float = 10.0
    now: float = 0.0
    taken: list[Term] = field(default_factory=list[Term])
    lock: threading.RLock = field(default_factory=threading.RLock)

    def standing(self) -> LeaseState:
        """The state of the newest term."""
        if not self.taken or self.taken[-1].released:
            return LeaseState.FREE
        return LeaseState.FREE if self.now - self.taken[-1].beaten_at >= self.timeout_seconds else LeaseState.HELD


class MemoryLease:
    """A `Lease` in `Terms`, used by the simulated process `process`."""

    def __init__(self, terms: Terms, process: int | None = None) -> None:
        self._terms = terms
        self._process = os.getpid() if process is None else process

    def where(self) -> str:
        return f"memory:/lease/{len(self._terms.taken)}"

    def take(self, job: str, patience_seconds: float) -> MemoryHeld:
        terms = self._terms
        with terms.lock:
            last = terms.taken[-1] if terms.taken else None
            if last is not None and terms.standing() is LeaseState.HELD and last.holder.process != self._process:
                terms.now += patience_seconds  # the beat is watched for so long
            if last is not None and terms.standing() is LeaseState.HELD:
                ours = ": this same process" if last.holder.process == self._process else ""
                raise driver_alive(job, f"{last.holder}{ours}", self.where())
            holder = Holder(job=job, host=socket.gethostname(), process=self._process, since=str(terms.now))
            terms.taken.append(Term(holder, terms.now))
            return MemoryHeld(terms, len(terms.taken) - 1)

    def holder(self) -> Holder | None:
        return self._terms.taken[-1].holder if self._terms.taken else None

    def standing(self) -> LeaseState:
        return self._terms.standing()


class MemoryHeld:
    """The lease as held by one term."""

    def __init__(self, terms: Terms, number: int) -> None:
        self._terms = terms
        self._number = number

    @property
    def holder(self) -> Holder:
        return self._terms.taken[self._number].holder

    @property
    def predecessor(self) -> Holder | None:
        return self._terms.taken[self._number - 1].holder if self._number else None

    def engine_lock(self) -> str | None:
        return None

    def renew(self) -> None:
        with self._terms.lock:
            if (lost := self.lost()) is not None:
                raise lost
            self._terms.taken[self._number].beaten_at = self._terms.now

    def lost(self) -> TidegateError | None:
        terms = self._terms
        with terms.lock:
            term = terms.taken[self._number]
            late = terms.now - term.beaten_at >= terms.timeout_seconds * 2 / 3
            if not (late or term.released or self._number + 1 < len(terms.taken)):
                return None
            return driver_alive(term.holder.job, str(terms.taken[-1].holder), f"memory:/lease/{self._number + 1}")

    def release(self) -> None:
        self._terms.taken[self._number].released = True

    def __enter__(self) -> MemoryHeld:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

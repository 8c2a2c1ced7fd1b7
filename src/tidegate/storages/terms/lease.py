"""`Lease` on any `Storage`, without locks: the process that creates the record of the next term holds the lease.

The holder replaces its beat every third of its timeout. An observer that has seen the same beat for the whole timeout
may take the next term; the holder itself gives up after two thirds. Each measures on its own clock, so no two clocks
are compared. `decisions.py` decides, this file reads and writes. A holder that was paused may act once more before it
looks: the rules of the protocol make that harmless, not the lease.
"""

from __future__ import annotations

import logging
import secrets
import threading
from types import TracebackType

from tidegate.core.errors import Code, TidegateError
from tidegate.storages.lease import LEASE_TIMEOUT_SECONDS, Holder, LeaseState
from tidegate.storages.refusals import driver_alive, lease_lost
from tidegate.storages.storage import Storage
from tidegate.storages.terms.decisions import (
    Look,
    Loss,
    Proof,
    Sighting,
    Step,
    is_too_late,
    living,
    proof_of,
    step_of,
)
from tidegate.storages.terms.here import HERE, Here
from tidegate.storages.terms.records import (
    LEASE,
    Released,
    Term,
    TermBeat,
    encoded,
    name_of,
    newest_of,
    read_record,
    remove_below,
)

_LOG = logging.getLogger("tidegate")
_LOOKS_IN_A_TIMEOUT = 10
_LOOKS_AT_A_MOVING_TERM = 10


class TermsLease:
    """The lease of one job, below the job's folder in a storage. `timeout_seconds`: of the terms that are taken here;
    an observer uses that of the holder.
    """

    proves_the_engine_dead = False

    def __init__(
        self, job_folder: Storage, timeout_seconds: float = LEASE_TIMEOUT_SECONDS, *, here: Here = HERE
    ) -> None:
        self._storage = job_folder.below(LEASE)
        self._timeout_seconds = timeout_seconds
        self._here = here

    def where(self) -> str:
        return self._storage.where()

    def take(self, job: str, patience_seconds: float) -> HeldTerm:
        deadline: float | None = None
        changes_before = 0
        while True:
            sent_at, watched = self._watch()
            if deadline is None:
                deadline, changes_before = self._here.now() + patience_seconds, watched.changes
            proof = self._proof(watched, sent_at, changes_before)
            match step_of(proof, patience_is_over=sent_at >= deadline):
                case Step.TAKE:
                    held = self._taken(job, watched.look)
                    if held is not None:
                        return held
                case Step.WATCH:
                    self._here.sleep(self._pause(watched, sent_at, deadline))
                case Step.REFUSE:
                    raise driver_alive(job, living(watched, proof, sent_at), self.where())

    def holder(self) -> Holder | None:
        try:
            look = self._look()
        except TidegateError as error:
            if error.catalogue_entry in (Code.RECORD_CORRUPT, Code.RECORD_NEWER):
                return None
            raise
        return None if look.term is None else look.term.holder

    def standing(self) -> LeaseState:
        sent_at, watched = self._watch()
        return LeaseState.FREE if self._proof(watched, sent_at, watched.changes).is_free else LeaseState.HELD

    # --- looking -------------------------------------------------------------------------------------------

    def _watch(self) -> tuple[float, Sighting]:
        sent_at = self._here.now()
        look = self._look()
        return sent_at, self._here.watch(self.where(), look, self._here.now())

    def _look(self) -> Look:
        for _ in range(_LOOKS_AT_A_MOVING_TERM):
            names = self._storage.list("")
            number = newest_of(names)
            if number == 0:
                return Look(0)
            term = read_record(self._storage, Term, number)
            if term is None:
                continue  # a successor has removed it, and its own term is there
            beat = read_record(self._storage, TermBeat, number) if name_of(TermBeat, number) in names else None
            released = name_of(Released, number) in names and read_record(self._storage, Released, number) is not None
            return Look(number, term, 0 if beat is None else beat.count, released)
        raise TidegateError(
            Code.STORAGE_UNUSABLE,
            expected="the record of the newest term, which the list of the folder names",
            found=f"no such record, in {_LOOKS_AT_A_MOVING_TERM} looks",
            where=self.where(),
            next_step="use a storage whose list and reads agree (`tidegate check` tries it)",
        )

    def _proof(self, watched: Sighting, sent_at: float, changes_before: int) -> Proof:
        term = watched.look.term
        ours = term is not None and self._here.holds(term.token)
        return proof_of(watched, sent_at, ours=ours, changes_before=changes_before)

    def _pause(self, watched: Sighting, sent_at: float, deadline: float) -> float:
        timeout = self._timeout_seconds if watched.look.term is None else watched.look.term.timeout_seconds
        until = min(watched.since + timeout, deadline, sent_at + timeout / _LOOKS_IN_A_TIMEOUT)
        return max(until - self._here.now(), 0)

    # --- taking --------------------------------------------------------------------------------------------

    def _taken(self, job: str, before: Look) -> HeldTerm | None:
        """The next term, or None if another process has it."""
        holder = self._here.holder(job)
        term = Term(holder=holder, token=secrets.token_hex(8), timeout_seconds=self._timeout_seconds)
        predecessor = None if before.term is None else before.term.holder
        number = before.number + 1
        held = HeldTerm(self._storage, number, term, predecessor, self._here)  # its clock runs from here
        self._here.held[term.token] = held.is_held_here
        try:
            created = self._storage.put_if_absent(name_of(Term, number), encoded(term))
        except BaseException:
            del self._here.held[term.token]
            raise
        if not created:
            del self._here.held[term.token]
            return None
        try:
            if newest_of(self._storage.list("")) == number:
                remove_below(self._storage, number)
                if before.term is not None and not before.released:
                    _LOG.warning(
                        "job %s: this driver takes term %s of the lease; %s has not released term %s, and if it still"
                        " runs, it stops at its next look",
                        *(job, number, before.term.holder, before.number),
                    )
                return held
        except BaseException:
            held.release()
            raise
        held.release()
        return None


class HeldTerm:
    """One term, held by this process."""

    def __init__(self, storage: Storage, number: int, term: Term, predecessor: Holder | None, here: Here) -> None:
        self.holder = term.holder
        self.predecessor = predecessor
        self.renewal_seconds = term.timeout_seconds / 3
        self._storage = storage
        self._number = number
        self._term = term
        self._here = here
        self._process = here.process()
        self._sent_at = here.now()
        self._count = 0
        self._loss: Loss | None = None
        self._newer = ""
        self._lock = threading.Lock()

    def engine_lock(self) -> None:
        return None

    def renew(self) -> None:
        if (lost := self.lost()) is not None:
            raise lost
        with self._lock:
            self._count += 1
            beat = TermBeat(token=self._term.token, count=self._count)
        sent_at = self._here.now()
        self._storage.replace(name_of(TermBeat, self._number), encoded(beat))
        with self._lock:
            if not is_too_late(self._sent_at, self._here.now(), self._term.timeout_seconds):
                self._sent_at = max(self._sent_at, sent_at)
        if (lost := self.lost_here()) is not None:
            raise lost

    def lost(self) -> TidegateError | None:
        if (lost := self.lost_here()) is not None:
            return lost
        newest = newest_of(self._storage.list(""))
        if newest != self._number:
            newer = read_record(self._storage, Term, newest)
            self._newer = f": number {newest}" if newer is None else f": number {newest} has {newer.holder}"
            self._lose(Loss.NEWER_TERM)
        return self.lost_here()

    def lost_here(self) -> TidegateError | None:
        if is_too_late(self._sent_at, self._here.now(), self._term.timeout_seconds):
            self._lose(Loss.TOO_LATE)
        loss = Loss.ELSEWHERE if self._here.process() != self._process else self._loss
        if loss is None:
            return None
        found = f"{loss.value}{self._newer if loss is Loss.NEWER_TERM else ''}"
        where = self._storage.where(name_of(Term, self._number))
        return lease_lost(self.holder.job, found, where)

    def age_seconds(self) -> float:
        with self._lock:
            return self._here.now() - self._sent_at

    def is_held_here(self) -> bool:
        """True if this process still holds the term, as far as it knows without a look."""
        return self.lost_here() is None

    def release(self) -> None:
        if self._here.process() != self._process or self._here.held.pop(self._term.token, None) is None:
            return
        self._lose(Loss.RELEASED)
        try:
            self._storage.put_if_absent(name_of(Released, self._number), encoded(Released(token=self._term.token)))
        except TidegateError as error:
            _LOG.warning(
                "the end of the lease of job %s was not written: the next start waits for %g s (lease.timeout): %s",
                self.holder.job,
                self._term.timeout_seconds,
                error.found,
            )

    def _lose(self, loss: Loss) -> None:
        with self._lock:
            self._loss = self._loss or loss

    def __enter__(self) -> HeldTerm:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

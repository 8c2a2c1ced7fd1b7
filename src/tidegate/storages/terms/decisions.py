"""Decides from what was seen of a lease of terms, and when. Pure: no storage, no clock.

All times are seconds of the monotonic clock of the process that has seen them. Times of two processes are never
compared: an observer waits for the whole timeout of the holder on its own clock, and the holder gives up after two
thirds of it on its own clock.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from tidegate.storages.terms.records import Term


class Proof(Enum):
    """What an observer knows about the holder of the newest term."""

    NONE_EVER = "there is no term"
    RELEASED = "the holder has ended"
    TIMED_OUT = "the same beat was seen for the holder's timeout"
    OURS = "this process holds it"
    ALIVE = "another beat or another term has come while this process watched"
    UNPROVED = "the same beat was seen, for less than the timeout"

    @property
    def is_free(self) -> bool:
        """True if the next term may be taken."""
        return self in (Proof.NONE_EVER, Proof.RELEASED, Proof.TIMED_OUT)


@dataclass(frozen=True, slots=True)
class Look:
    """The newest term as one look has found it. `number` is 0 if there is no term."""

    number: int
    term: Term | None = None
    count: int = 0
    """The beat; 0 if there is none."""
    released: bool = False


@dataclass(frozen=True, slots=True)
class Sighting:
    """What an observer has seen so far. `since`: when the first look that saw the present beat had returned. `changes`:
    how often a look has found another beat or another term than the look before it.
    """

    look: Look
    since: float
    changes: int = 0

    def then(self, look: Look, returned_at: float) -> Sighting:
        """After one more look."""
        if (look.number, look.count) == (self.look.number, self.look.count):
            return replace(self, look=look)
        return Sighting(look, returned_at, self.changes + 1)


def proof_of(watched: Sighting, sent_at: float, *, ours: bool, changes_before: int) -> Proof:
    """What an observer knows. `sent_at`: when its last look was sent; the beat was still the same then. `ours`: whether
    this process holds the newest term. `changes_before`: those that do not count as a sign of life, because the holder
    may have died after them.
    """
    look = watched.look
    if look.term is None:
        return Proof.NONE_EVER
    if look.released:
        return Proof.RELEASED
    if ours:
        return Proof.OURS
    if sent_at >= watched.since + look.term.timeout_seconds:
        return Proof.TIMED_OUT
    return Proof.ALIVE if watched.changes > changes_before else Proof.UNPROVED


class Step(Enum):
    """What a process that wants the lease does next."""

    TAKE = "take the next term"
    WATCH = "look again"
    REFUSE = "give up: a driver lives, or may live"


def step_of(proof: Proof, *, patience_is_over: bool) -> Step:
    """The next step of a take."""
    if proof.is_free:
        return Step.TAKE
    return Step.WATCH if proof is Proof.UNPROVED and not patience_is_over else Step.REFUSE


def living(watched: Sighting, proof: Proof, sent_at: float) -> str:
    """The process that prevents a take, in words."""
    term = watched.look.term
    if term is None:
        return "a process that left no name"
    if proof is Proof.OURS:
        return f"{term.holder}: this same process"
    if proof is Proof.ALIVE:
        return str(term.holder)
    rest = watched.since + term.timeout_seconds - sent_at
    return f"{term.holder}; if it has died, its lease is free in {rest:.1f} s (lease.timeout)"


class Loss(Enum):
    """Why a process no longer holds its term."""

    RELEASED = "this process has released it"
    ELSEWHERE = "it was taken by the parent of this process"
    NEWER_TERM = "a newer term exists"
    TOO_LATE = "two thirds of its timeout have passed since its last successful renewal was sent"


def is_too_late(sent_at: float, now: float, timeout_seconds: float) -> bool:
    """True if the holder must give up. `sent_at`: when its last successful renewal was sent; the take is the first."""
    return now - sent_at >= timeout_seconds * 2 / 3

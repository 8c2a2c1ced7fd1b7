"""Transactional ids that take turns: `<query>.<sink>.<place>.<slot>.<turn>`.

A *place* is a folder on a host's local disk with a lock and a state file per slot. A slot serves one task attempt of
an epoch; of its two turns the next one's producer is opened while the other's transaction waits to be committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulator.processes import Actor, Process
from tidegate.core.records import Attempt


@dataclass(slots=True)
class Turn:
    """One transactional id. `used` is in the slot's state file: (generation, run, epoch); the rest is in memory."""

    name: str
    used: tuple[int, int, int] | None = None
    opener: Process | None = None
    opened: tuple[Process, int] | None = None

    def is_free(self, attempt: Attempt, worker: Process, finished: int) -> bool:
        """Whether its last epoch is finished, or was prepared by an older run; and nobody is opening it."""
        if self.opener is not None and self.opener.alive:
            return False
        if self.used is None:
            return True
        generation, run, epoch = self.used
        return (generation, run) < (attempt.sink.generation, attempt.run) or epoch <= finished

    def open(self, worker: Process, producer: int) -> None:
        """The producer of its next transaction is there."""
        self.opener, self.opened = None, (worker, producer)


@dataclass(slots=True)
class Slot:
    """Two turns under one lock: `holder` is the process that has it, `task` the attempt that works there now."""

    turns: tuple[Turn, Turn]
    holder: Process | None = None
    task: Actor | None = None

    def is_open_to(self, worker: Process) -> bool:
        if self.holder is not None and self.holder is not worker and self.holder.alive:
            return False
        return self.task is None or not self.task.alive


@dataclass(slots=True)
class Lease:
    """A turn that one attempt has taken; `producer` is None until one is opened."""

    slot: Slot
    turn: Turn
    producer: int | None

    @property
    def name(self) -> str:
        return self.turn.name

    def note_use(self, attempt: Attempt) -> None:
        """Into the slot's state file, synced."""
        self.turn.used = attempt.sink.generation, attempt.run, attempt.epoch

    def next_turn(self, attempt: Attempt, worker: Process, finished: int) -> Turn | None:
        """The other turn, to be opened in the background; None when it is not free, or open already."""
        other = self.slot.turns[1] if self.turn is self.slot.turns[0] else self.slot.turns[0]
        if other.opened is not None and other.opened[0] is worker:
            return None
        return other if other.is_free(attempt, worker, finished) else None


@dataclass(slots=True)
class Place:
    """The slots of one folder, by query and sink."""

    name: str
    slots: dict[str, list[Slot]] = field(default_factory=dict[str, list[Slot]])

    def take(self, attempt: Attempt, worker: Process, task: Actor | None, finished: int) -> Lease:
        """A free turn: of a slot that nobody else has locked, or of a new one."""
        sink = f"{attempt.sink.query}.{attempt.sink.sink}"
        slots = self.slots.setdefault(sink, [])
        for slot in slots:
            if slot.is_open_to(worker):
                for turn in sorted(slot.turns, key=_not_open_yet):
                    if turn.is_free(attempt, worker, finished):
                        return _lease(slot, turn, worker, task)
        number = len(slots)
        turns = Turn(f"{sink}.{self.name}.{number}.0"), Turn(f"{sink}.{self.name}.{number}.1")
        slots.append(Slot(turns))
        return _lease(slots[-1], turns[0], worker, task)


def _not_open_yet(turn: Turn) -> bool:
    return turn.opened is None


def _lease(slot: Slot, turn: Turn, worker: Process, task: Actor | None) -> Lease:
    slot.holder, slot.task = worker, task
    opened, turn.opened = turn.opened, None
    return Lease(slot, turn, opened[1] if opened is not None and opened[0] is worker else None)

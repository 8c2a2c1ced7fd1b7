"""The producers of one worker process: each serves one transaction, and the next one is opened ahead of its time.

Opening a producer takes tens of milliseconds of waiting (InitProducerId aborts and fences what its id served before).
So when a transaction is prepared, a thread opens the producer of the slot's other turn, and the next epoch finds it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tidegate.core.records import Attempt, SinkIdentity
from tidegate.kafka.clients import Clients
from tidegate.kafka.names import TransactionalId
from tidegate.kafka.slots import TURNS, Slot, Use, take_slot
from tidegate.kafka.wire import Wire

_FIRST_CONTACT_SECONDS = 30.0


@dataclass(frozen=True)
class Settings:
    """How the producers of a sink are opened. Pickled to the tasks; secrets are read where a producer is opened."""

    clients: Clients
    prefix: str
    timeout_ms: int
    root: Path

    def open(self, transactional_id: str) -> Producer:
        """A producer that has fenced every older one of this id. Raises KafkaException."""
        producer = Producer(
            self.clients.settings(
                transactional_id=transactional_id,
                transaction_timeout_ms=self.timeout_ms,
                **_defaults_beside(self.clients.options),
            )
        )
        # Without it the first InitProducerId often waits half a second for a timer that starts before a broker is up.
        producer.list_topics(timeout=_FIRST_CONTACT_SECONDS)
        producer.init_transactions(_FIRST_CONTACT_SECONDS)
        return producer


_DEFAULTS: Mapping[str, Any] = {
    "partitioner": "murmur2_random",  # a key goes where Java clients put it
    "linger.ms": 5,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 200_000,
}


def _defaults_beside(options: Mapping[str, str]) -> dict[str, Any]:
    return {name: value for name, value in _DEFAULTS.items() if name not in options}


@dataclass(slots=True)
class _Held:
    """A slot of this process: the turns whose producers are open or being opened, and whether a task works with it."""

    slot: Slot
    open: dict[int, Producer] = field(default_factory=dict[int, Producer])
    opening: dict[int, threading.Thread] = field(default_factory=dict[int, threading.Thread])
    busy: bool = True


@dataclass(frozen=True, slots=True)
class Lease:
    """A turn that one attempt has taken, with its producer."""

    transactional_id: str
    producer: Producer
    prepared: Callable[[], None]
    """Note the use, durably. Only after it may the attempt's transaction count as prepared."""
    give_back: Callable[[], None]
    """The producer has served. What its transaction becomes is not this process's to say."""


class Producers:
    """The slots that this process holds for one sink of one job."""

    def __init__(self, settings: Settings, identity: SinkIdentity) -> None:
        self._settings = settings
        self._identity = identity
        self._held: list[_Held] = []
        self._lock = threading.Lock()

    def take(self, attempt: Attempt, finished: int) -> Lease:
        """An identity for this attempt alone. Raises KafkaException, OSError."""
        use = Use.by(attempt)
        held, turn = self._choose(use, finished)
        name = str(self._name(held.slot, turn))
        if (thread := held.opening.pop(turn, None)) is not None:
            thread.join()
        try:
            producer = held.open.pop(turn, None) or self._settings.open(name)
        except BaseException:
            held.busy = False
            raise

        def give_back() -> None:
            self._open_other(held, turn, use, finished, producer)
            held.busy = False

        return Lease(name, producer, lambda: held.slot.note(turn, use), give_back)

    def _choose(self, use: Use, finished: int) -> tuple[_Held, int]:
        with self._lock:
            for held in self._held:
                free = [turn for turn in range(TURNS) if held.slot.is_free(turn, use, finished)]
                if free and not held.busy and not held.slot.serves(use):
                    held.busy = True
                    return held, min(free, key=lambda turn: turn not in held.open and turn not in held.opening)
            while True:
                numbers = frozenset(each.slot.number for each in self._held)
                held = _Held(take_slot(self._settings.root, self._identity, numbers))
                self._held.append(held)
                for turn in range(TURNS):
                    if held.slot.is_free(turn, use, finished) and not held.slot.serves(use):
                        return held, turn
                held.busy = False

    def _open_other(self, held: _Held, turn: int, use: Use, finished: int, served: Producer) -> None:
        """Open the next turn's producer in a thread, which also lets go of the one that has served."""
        other = 1 - turn
        if other in held.open or other in held.opening or not held.slot.is_free(other, use, finished):
            return

        def open_it() -> None:
            nonlocal served
            del served
            try:
                held.open[other] = self._settings.open(str(self._name(held.slot, other)))
            except Exception:  # noqa: BLE001 (the task that needs it opens one itself, and says what is wrong)
                held.open.pop(other, None)

        thread = threading.Thread(target=open_it, name=f"tidegate-producer-{held.slot.number}.{other}", daemon=True)
        held.opening[other] = thread
        thread.start()

    def _name(self, slot: Slot, turn: int) -> TransactionalId:
        mine = self._identity
        return TransactionalId(self._settings.prefix, mine.job_id, mine.query, mine.sink, slot.place, slot.number, turn)


def producers_of(settings: Settings, identity: SinkIdentity) -> Producers:
    """This process's producers for a sink; they outlive the task that asks."""
    key = (str(os.getpid()), repr(settings), identity.job_id, identity.query, identity.sink)
    with _LOCK:
        if key not in _PRODUCERS:
            _PRODUCERS[key] = Producers(settings, identity)
        return _PRODUCERS[key]


def wire_of(clients: Clients) -> Wire:
    """This process's connections for requests that no client offers. Raises KafkaRefused."""
    key = repr((os.getpid(), clients.servers, sorted(clients.options.items())))
    with _LOCK:
        if key not in _WIRES:
            _WIRES[key] = Wire(clients)
        return _WIRES[key]


_PRODUCERS: dict[tuple[str, ...], Producers] = {}
_WIRES: dict[str, Wire] = {}
_LOCK = threading.Lock()

"""The producers of one worker process. Each serves one transaction; the next one is opened in advance.

To open a producer takes tens of milliseconds of waiting (InitProducerId aborts and fences the older transaction of its
id). So when a transaction is prepared, a thread opens the producer of the slot's other turn for the next epoch.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Producer as Client

from tidegate.core.records import Attempt, SinkIdentity
from tidegate.kafka.clients import Clients
from tidegate.kafka.replies import KafkaRefused, Reply
from tidegate.kafka.transactions import Producer
from tidegate.sinks.kafka.names import TransactionalId
from tidegate.sinks.kafka.slots import TURNS, Slot, Use, take_slot
from tidegate.sinks.kafka.wires import wire_of

_FIRST_CONTACT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Opened:
    """A client that has fenced every older client of its id, and the identity that it received for this."""

    client: Client
    identity: Producer


@dataclass(frozen=True)
class ProducerSettings:
    """How the producers of a sink are opened. It is pickled to the tasks; secrets are read when a producer is
    opened.
    """

    clients: Clients
    prefix: str
    timeout_ms: int
    root: Path

    def open(self, transactional_id: str) -> Opened:
        """A producer that has fenced every older one of this id. Raises KafkaException, KafkaRefused.

        The client does not report its identity, so the coordinator is asked. If another process opened the id in
        between, the answer is the identity of that process. This client is then fenced, and none of its messages is
        confirmed.
        """
        client = Client(
            self.clients.settings(
                transactional_id=transactional_id,
                transaction_timeout_ms=self.timeout_ms,
                **_defaults_beside(self.clients.options),
            )
        )
        # Without it the first InitProducerId often waits half a second for a timer that starts before a broker is up.
        client.list_topics(timeout=_FIRST_CONTACT_SECONDS)
        client.init_transactions(_FIRST_CONTACT_SECONDS)
        described = wire_of(self.clients).describe([transactional_id]).get(transactional_id)
        if described is None:
            raise KafkaRefused("DescribeTransactions", Reply.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
        return Opened(client, described.producer)


_DEFAULTS: Mapping[str, Any] = {
    "partitioner": "murmur2_random",  # the partition of a key is the same as for Java clients
    "linger.ms": 5,
    "compression.type": "lz4",
    "queue.buffering.max.messages": 200_000,
}


_OTHER_NAMES: Mapping[str, str] = {"compression.codec": "compression.type"}
"""Aliases of options. Of two names for one option the client would use the last."""


def sending(clients: Clients) -> dict[str, str]:
    """How a producer of these clients compresses and cuts batches: the sink's defaults, and the program's options."""
    given = {_OTHER_NAMES.get(name, name): str(value) for name, value in clients.settings().items()}
    return {name: given.get(name, str(usual)) for name, usual in _SENDING.items()}


_SENDING: Mapping[str, Any] = {
    "compression.type": _DEFAULTS["compression.type"],
    "compression.level": -1,
    "message.max.bytes": 1_000_000,
    "batch.size": 1_000_000,
}


def _defaults_beside(options: Mapping[str, str]) -> dict[str, Any]:
    given = {_OTHER_NAMES.get(name, name) for name in options}
    return {name: value for name, value in _DEFAULTS.items() if name not in given}


@dataclass(slots=True)
class _HeldSlot:
    """A slot of this process: the turns with open or opening producers, and whether a task uses it."""

    slot: Slot
    open: dict[int, tuple[ProducerSettings, Opened]] = field(default_factory=dict[int, tuple[ProducerSettings, Opened]])
    opening: dict[int, threading.Thread] = field(default_factory=dict[int, threading.Thread])
    busy: bool = True

    def take(self, turn: int, settings: ProducerSettings, name: str) -> Opened:
        """The producer that was opened in advance, if its settings are the same; otherwise a new one."""
        if (thread := self.opening.pop(turn, None)) is not None:
            thread.join()
        given, opened = self.open.pop(turn, (None, None))
        return settings.open(name) if opened is None or given != settings else opened


@dataclass(frozen=True, slots=True)
class ProducerTurn:
    """A turn that one attempt has taken, with its producer."""

    opened: Opened
    prepared: Callable[[], None]
    """Record the use, durably. The attempt's transaction may count as prepared only after this call."""
    give_back: Callable[[], None]
    """The producer is no longer needed. Another process decides about its transaction."""


class Producers:
    """The slots that this process holds for one sink of one job, below one root."""

    def __init__(self, identity: SinkIdentity) -> None:
        self._identity = identity
        self._held: list[_HeldSlot] = []
        self._lock = threading.Lock()

    def take(self, settings: ProducerSettings, attempt: Attempt, finished: int) -> ProducerTurn:
        """An identity for this attempt alone. Raises KafkaException, KafkaRefused, OSError."""
        use = Use.by(attempt)
        held, turn = self._choose(settings, use, finished)
        try:
            opened = held.take(turn, settings, self._name(settings, held.slot, turn))
        except BaseException:
            held.busy = False
            raise

        def give_back() -> None:
            self._open_other(settings, held, turn, use, finished, opened)
            held.busy = False

        return ProducerTurn(opened, lambda: held.slot.note(turn, use), give_back)

    def _choose(self, settings: ProducerSettings, use: Use, finished: int) -> tuple[_HeldSlot, int]:
        with self._lock:
            for held in self._held:
                free = [turn for turn in range(TURNS) if held.slot.is_free(turn, use, finished)]
                if free and not held.busy and not held.slot.serves(use) and held.slot.is_there():
                    held.busy = True
                    return held, min(free, key=lambda turn: turn not in held.open and turn not in held.opening)
            while True:
                numbers = frozenset(each.slot.number for each in self._held if each.slot.is_there())
                held = _HeldSlot(take_slot(settings.root, self._identity, numbers))
                self._held.append(held)
                for turn in range(TURNS):
                    if held.slot.is_free(turn, use, finished) and not held.slot.serves(use):
                        return held, turn
                held.busy = False

    def _open_other(
        self, settings: ProducerSettings, held: _HeldSlot, turn: int, use: Use, finished: int, served: Opened | None
    ) -> None:
        """Open the producer of the slot's other turn in a thread.

        The thread also closes the producer that is no longer needed.
        """
        other = 1 - turn
        if other in held.open or other in held.opening or not held.slot.is_free(other, use, finished):
            return

        def open_it() -> None:
            nonlocal served
            served = None
            try:
                held.open[other] = settings, settings.open(self._name(settings, held.slot, other))
            except Exception:  # noqa: BLE001 (the next task opens one itself, and reports the error)
                held.open.pop(other, None)

        thread = threading.Thread(target=open_it, name=f"tidegate-producer-{held.slot.number}.{other}", daemon=True)
        held.opening[other] = thread
        thread.start()

    def _name(self, settings: ProducerSettings, slot: Slot, turn: int) -> str:
        mine = self._identity
        return str(TransactionalId(settings.prefix, mine.job_id, mine.query, mine.sink, slot.place, slot.number, turn))


def producers_of(settings: ProducerSettings, identity: SinkIdentity) -> Producers:
    """This process's producers for a sink. They outlive the task."""
    key = (os.getpid(), str(settings.root), identity.job_id, identity.query, identity.sink)
    with _LOCK:
        if key not in _PRODUCERS:
            _PRODUCERS[key] = Producers(identity)
        return _PRODUCERS[key]


_PRODUCERS: dict[tuple[object, ...], Producers] = {}
_LOCK = threading.Lock()

"""Each operation on both brokers, and both answers compared: what differs is an AssertionError."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass
from itertools import chain, count

from tests.kafka.conformance.real import PARTITIONS, RealBroker
from tests.kafka.conformance.simulated import SimulatedBroker
from tests.simulator.kafka import Reply
from tidegate.kafka.replies import Reply as Code
from tidegate.kafka.transactions import Producer

ALL = range(PARTITIONS)
LONG_MS, SHORT_MS = 120_000, 1_000
"""Timeouts of transactions: one that no sequence reaches, and one that is waited for."""
NEVER_USED = "never-used"

SAME = {
    Code.NONE: Reply.NONE,
    Code.PRODUCER_FENCED: Reply.FENCED,
    Code.INVALID_PRODUCER_ID_MAPPING: Reply.NO_MAPPING,
    Code.INVALID_TXN_STATE: Reply.INVALID_STATE,
}
"""What both answer to EndTxn, code by code: any other answer of a broker is a difference. Beside it the simulator
leaves out on purpose:

- CONCURRENT_TRANSACTIONS while markers are on their way: the product asks again, as `RealBroker.commit` does, and
  reads evidence stable.
- The codes of refused writes and of refused evidence: whatever it was, the attempt fails.
- That a stable look at pending evidence waits: in the simulator it gives what stood before.
- That a write to a partition that is not added again is refused once its transaction has ended: in the simulator
  every write of a current producer opens one. So its workers can do more harm than real ones.
- How far producer epochs go up (by two where a transaction was open): only which identities are the same counts.
- That deleting a group takes pending evidence with it: evidence that expires by its age is never pending.
- That late evidence of a fenced producer, though refused, takes the evidence that a later producer of the same id has
  pending (Kafka 3; mended in Kafka 4): the sequences leave this out on Kafka 3.
- An abort past the coordinator: Kafka's tool for it is for transactions that no coordinator knows any more.
"""


@dataclass(frozen=True)
class Identity:
    """One producer on both sides. On the real one a producer id with an epoch, in the simulator a number."""

    name: str
    real: Producer
    simulated: int

    def __repr__(self) -> str:
        return f"{self.name[-1]}@{self.real.producer_id}:{self.real.producer_epoch}={self.simulated}"


class Both:
    """One comparison: transactional ids of its own, numbers that say which row and which evidence is which."""

    def __init__(self, real: RealBroker) -> None:
        self.real = real
        self.simulated = SimulatedBroker()
        self.met = Counter[str]()
        """How often each answer came, the same on both."""
        self._prefix = uuid.uuid4().hex[:12]
        self._names = set[str]()
        self._identities: dict[tuple[str, int], Identity] = {}
        self._numbers = count(1)
        real.forget_clients()
        real.begin_here()

    def close(self) -> None:
        """End what is open, on the real broker too, and compare what was committed in all."""
        for name in sorted(self._names):
            self._init(name)
        self.compare()
        committed = self.simulated.committed(ALL)
        _same("what is visible at the end", self.real.visible(), committed)
        _same("what the simulator said it shows", sorted(self.simulated.shown), sorted(chain(*committed.values())))

    def abandon(self) -> None:
        """After a difference: leave nothing open in which the next comparison would be stuck."""
        for name in sorted(self._names):
            self.real.init_producer(name, by_client=False, timeout_ms=LONG_MS)

    # --- what a worker does --------------------------------------------------------------------------------

    def init(self, letter: str, *, by_client: bool = False, timeout_ms: int = LONG_MS) -> Identity:
        return self._init(self._name(letter), by_client=by_client, timeout_ms=timeout_ms)

    def _init(self, name: str, *, by_client: bool = False, timeout_ms: int = LONG_MS) -> Identity:
        real = self.real.init_producer(name, by_client=by_client, timeout_ms=timeout_ms)
        identity = Identity(name, real, self.simulated.init_producer(name))
        _same("an identity that was given before", real in {each.real for each in self._identities.values()}, False)
        self._identities[name, identity.simulated] = identity
        return identity

    def write(self, identity: Identity, partition: int, *, late: bool = False) -> int | None:
        """The row's number, or None where both refuse it. `late`: as a request that comes when the transaction that
        it belongs to has ended."""
        number = next(self._numbers)
        taken = self.real.write(identity.real, partition, b"%d" % number, adds=not late)
        wanted = self.simulated.write(identity.name, identity.simulated, partition, number)
        _same(f"write of {identity}", taken, wanted)
        self.met["write taken" if taken else "write refused"] += 1
        return number if taken else None

    def prove(self, identity: Identity, *, late: bool = False) -> int | None:
        number = next(self._numbers)
        taken = self.real.prove(identity.real, number, adds=not late)
        _same(f"evidence of {identity}", taken, self.simulated.prove(identity.name, identity.simulated, number))
        self.met["evidence taken" if taken else "evidence refused"] += 1
        return number if taken else None

    # --- how transactions end ------------------------------------------------------------------------------

    def commit(self, identity: Identity) -> Reply:
        code = self.real.commit(identity.real)
        answer = SAME.get(code)
        _same(f"EndTxn of {identity} ({code.name})", answer, self.simulated.commit(identity.name, identity.simulated))
        if answer is None:
            raise AssertionError(f"EndTxn of {identity}: {code.name} is none of the simulator's answers")
        self.met[answer.value] += 1
        return answer

    def of_another(self, identity: Identity, other: Identity) -> Identity:
        """One id's name with another id's producer: what a broken handle would send."""
        mixed = Producer(identity.name, other.real.producer_id, other.real.producer_epoch)
        return Identity(identity.name, mixed, other.simulated)

    def unknown(self, identity: Identity) -> Identity:
        """A producer under a name that no producer was ever opened for."""
        return self.of_another(Identity(self._name(NEVER_USED, known=False), identity.real, 0), identity)

    def abort_by_hand(self, identity: Identity) -> None:
        """Somebody sends EndTxn(abort) for an open transaction: its producer is not fenced."""
        _same(f"EndTxn(abort) of {identity}", self.real.abort_by_hand(identity.real), Code.NONE)
        self.simulated.abort_by_hand(identity.name)
        self.met["aborted by hand"] += 1

    def time_out(self, identity: Identity) -> None:
        """The coordinator's own doing; nothing else may be open, for the simulator's hour strikes for all."""
        self.real.await_timeout(identity.name)
        self.simulated.time_out()
        self.met["timed out"] += 1

    def delete_evidence(self) -> None:
        """Groups that are deleted leave what an expired one leaves: nothing."""
        self.real.hands.delete_groups(self._names)
        self.simulated.expire_groups()
        self.met["evidence deleted"] += 1

    def expire_ids(self) -> None:
        """Those of which nothing is open."""
        self.real.await_expiry(self._names - self.simulated.open_ids())
        self.simulated.expire_ids()

    # --- how things stand ----------------------------------------------------------------------------------

    def open_identities(self) -> list[Identity]:
        """Those whose transactions are open, of those that were given here."""
        return [each for each in self._identities.values() if self.is_open(each)]

    def is_open(self, identity: Identity) -> bool:
        found = self.simulated.open_under(identity.name)
        return found is not None and found[0] == identity.simulated

    def is_stale(self, identity: Identity) -> bool:
        """Whether it was fenced: by a later producer of its id, or by the coordinator."""
        return not self.simulated.is_current(identity.name, identity.simulated)

    def may_prove_late(self, identity: Identity) -> bool:
        """Whether late evidence does no harm on this broker, as it does none in the simulator."""
        return not (self.real.loses_pending_evidence and self.simulated.pending_evidence(identity.name))

    def has_settled_evidence(self) -> bool:
        """Some stands, and none is pending: to delete a group takes what is pending with it, time does not."""
        pending = any(map(self.simulated.pending_evidence, self._names))
        return not pending and any(self.simulated.evidence(name) is not None for name in self._names)

    def compare(self) -> None:
        """Every state that the product looks at."""
        _same("open transactions", self.real.open_ids(self._names), self.simulated.open_ids())
        for name in sorted(self._names):
            self._compare_id(name)
        _same("partitions whose readers wait", self.real.blocked(), self.simulated.blocked())

    def compare_visible(self) -> dict[int, list[int]]:
        seen = self.real.visible()
        _same("visible rows", seen, self.simulated.visible(ALL))
        if any(seen.values()):
            self.met["rows seen"] += 1
        return seen

    def _compare_id(self, name: str) -> None:
        described, wanted = self.real.open_under(name), self.simulated.open_under(name)
        expected = wanted and (self._identities[name, wanted[0]].real, wanted[1])
        _same(f"the open transaction of {name}", described, expected)
        pending = self.simulated.pending_evidence(name)
        evidence = self.real.evidence(name, stable=not pending)
        _same(f"evidence of {name}", evidence, self.simulated.evidence(name))
        _same(f"pending evidence of {name}", self.real.hands.mark_pending(name, self.real.topic), pending)

    def _name(self, letter: str, *, known: bool = True) -> str:
        name = f"{self._prefix}.{letter}"
        if known:
            self._names.add(name)
        return name


def _same(what: str, real: object, simulated: object) -> None:
    if real != simulated:
        raise AssertionError(f"{what}: the broker has {real!r}, the simulator {simulated!r}")

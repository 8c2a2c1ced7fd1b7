"""The simulator's broker behind the operations of the comparison: each partition is one of its topics."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from tests.simulator.kafka import Broker, IdState, Record, Reply
from tests.world.engine import TaskFailed
from tests.world.rows import Row
from tests.world.sinks import Rows
from tidegate.core.records import Attempt, Committable, SinkIdentity

_QUERY = "q"


class SimulatedBroker:
    """Producers are numbers, as the simulator has them."""

    def __init__(self) -> None:
        self.shown: list[int] = []
        self._broker = Broker(self._show)

    def _show(self, _attempt: Attempt, rows: Rows) -> None:
        self.shown += [row.record for row in rows]

    # --- what a worker does --------------------------------------------------------------------------------

    def init_producer(self, name: str) -> int:
        return self._broker.init_producer(name)

    def write(self, name: str, producer: int, partition: int, number: int) -> bool:
        row = Row(record=number, epoch=0, execution=0, task=0, counted=0, before=0, after=0)
        try:
            self._broker.produce(name, producer, _attempt(partition), (row,))
        except TaskFailed:
            return False
        return True

    def prove(self, name: str, producer: int, number: int) -> bool:
        try:
            self._broker.send_evidence(name, producer, Committable(attempt=_attempt(0), rows=0, digest=str(number)))
        except TaskFailed:
            return False
        return True

    # --- how transactions end ------------------------------------------------------------------------------

    def commit(self, name: str, producer: int) -> Reply:
        return self._broker.end_transaction(name, producer)

    def abort_by_hand(self, name: str) -> None:
        ongoing = [each for each, _ in self._broker.open_attempts()]
        self._broker.abort_one(ongoing.index(name))

    def time_out(self) -> None:
        self._broker.time_out()

    def expire_ids(self) -> None:
        self._broker.expire_ids()

    def expire_groups(self) -> None:
        self._broker.expire_groups()

    # --- how things stand ----------------------------------------------------------------------------------

    def open_ids(self) -> set[str]:
        return {name for name, _ in self._broker.open_attempts()}

    def open_under(self, name: str) -> tuple[int, set[int]] | None:
        """The number of the open transaction's producer, and the partitions it has written."""
        known = self._broker.ids.get(name)
        if known is None or known.state is not IdState.ONGOING:
            return None
        written = known.written or []
        held = {at for at, log in self._logs().items() if any(one is record for one in log for record in written)}
        if self._broker.holds_rows(name, known.producer) != bool(held):
            raise AssertionError(f"{name}: holds_rows and the written partitions {held} say different things")
        return known.producer, held

    def is_current(self, name: str, producer: int) -> bool:
        known = self._broker.ids.get(name)
        return known is not None and known.producer == producer

    def evidence(self, name: str) -> int | None:
        standing = self._broker.groups.get(name)
        return None if standing is None else int(standing.digest)

    def pending_evidence(self, name: str) -> bool:
        known = self._broker.ids.get(name)
        return known is not None and known.state is IdState.ONGOING and known.evidence is not None

    def blocked(self) -> set[int]:
        return {int(line.split()[0]) for line in self._broker.blocked()}

    def visible(self, partitions: Iterable[int]) -> dict[int, list[int]]:
        """Of each partition, what is committed before the first open transaction."""
        logs = self._logs()
        return {at: _readable(logs.get(at, [])) for at in partitions}

    def committed(self, partitions: Iterable[int]) -> dict[int, list[int]]:
        """Of each partition, what is committed in all."""
        logs = self._logs()
        return {at: _numbers(each for each in logs.get(at, []) if each.committed) for at in partitions}

    def _logs(self) -> dict[int, list[Record]]:
        return {int(sink): log for (_, sink), log in self._broker.topics.items()}


def _attempt(partition: int) -> Attempt:
    sink = SinkIdentity(job="j", job_id="0", generation=1, query=_QUERY, sink=str(partition))
    return Attempt(sink=sink, run=0, run_token="", epoch=0, task=0, task_attempt=0)


def _readable(log: Iterable[Record]) -> list[int]:
    stable = takewhile(lambda record: record.committed is not None, log)
    return _numbers(record for record in stable if record.committed)


def _numbers(records: Iterable[Record]) -> list[int]:
    return [row.record for record in records for row in record.rows]

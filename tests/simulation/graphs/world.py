"""One seed: `python -m tests.simulation.graphs.world --seeds N`."""

from __future__ import annotations

import json
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from tests.simulation.graphs import graph
from tests.simulation.graphs.driver import Driver
from tests.simulation.graphs.graph import Flow
from tests.simulation.graphs.query import JOB, JOB_ID, AnyChannel, Around, folder_of
from tests.simulation.graphs.rows import Rows, State, wrong
from tests.simulation.graphs.topic import PlayedChannel, Topic
from tests.simulation.graphs.turns import TurnCondition, TurnLock, Turns
from tests.simulation.openers_memory import in_memory
from tests.simulation.seeds import main_of
from tidegate.channels import coordinator, gate, log, reading, topic
from tidegate.channels.sink import ChannelSink
from tidegate.checkpoints.job_layout import CHANNELS, retained_numbers
from tidegate.checkpoints.manifests import read_retained
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.barriers import Alignment
from tidegate.core.channel_parts import ALL_LIVE, ChannelPosition, LiveParts, in_flight, is_part_of
from tidegate.core.errors import TidegateError
from tidegate.core.ledger import DONE, FINISHED_THROUGH, entry
from tidegate.core.records import (
    ChannelKey,
    CheckpointRecord,
    Done,
    DoneEpoch,
    FinishedThrough,
    JobRecord,
    decode,
    encode,
)
from tidegate.core.spark_log import positions_of
from tidegate.savepoints.cut import EPOCHS, demand_cut
from tidegate.testing.memory_storage import Memory, MemoryStorage

_STRIKES: Final = ("kill", "fail", "fail", "close", "restore")
_STRIKES_MEANWHILE: Final = (*_STRIKES, "pause", "pause", "pause", "late", "late", "abort")
_MEANWHILE: Final = 3
"""So many times more often while a checkpoint is under way."""
_TURNS_AT_REST: Final = 5_000
_ROWS_AT_MOST: Final = 60
_GOES_BACK: Final = 0.6
_RECORDS_KEPT: Final = 2


class World:
    """The story of one graph."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.turns = Turns(self.rng)
        self.nodes = graph.drawn(self.rng)
        self.memory = Memory()
        self.figures: Counter[str] = Counter()
        self.is_healed = False
        self._flows = {source: flow for node in self.nodes for source, flow in node.flows.items()}
        self._arrived = Counter({source: self.rng.randint(1, 3) for source in self._flows})
        self._rows: dict[str, Rows] = {}
        self._consumed: dict[tuple[str, int, int, int], list[Rows]] = {}
        self.record = JobRecord(name="job", job_id=JOB_ID, generation=1)
        self._begins: dict[tuple[str, int], tuple[int, State]] = {(node.uid, 1): (-1, ()) for node in self.nodes}
        """By query and generation: the epoch before its first one, and the state behind it."""
        self._drivers: list[Driver] = []
        self._troubles: list[str] = []
        self._slowness = {node.uid: self.rng.choice((0.0, 0.0, 0.5, 2.0)) for node in self.nodes}
        self._harshness = self.rng.choice((0.0, 0.01, 0.02))
        channels = sorted({channel for node in self.nodes for channel in node.writes})
        over_topics = random.Random(-seed - 1)  # apart: worlds of embedded channels stay as they were
        self._topics = {
            each: Topic(self.turns.step, self.turns.linger) for each in channels if over_topics.random() < 0.4
        }
        self._of_keys = random.Random(f"keys of {seed}")  # apart, too
        self._keyed = [each for each in channels if each not in self._topics and self._of_keys.random() < 0.3]

    def run(self) -> list[str]:
        """What is wrong at the end; nothing if all is well."""
        turns = self.turns
        with ExitStack() as stack:
            stack.enter_context(in_memory(self.memory, turns.step))
            here = SimpleNamespace(monotonic=lambda: turns.now)
            stepping = type("Stepping", (_Stepping,), {"turns": turns})
            for module, name, made in (
                (coordinator, "Lock", lambda: TurnLock(turns)),
                (coordinator, "Condition", lambda: TurnCondition(turns)),
                (coordinator, "time", here),
                (coordinator, "Participant", stepping),
                (log, "side_by_side", map),
                (log, "threading", SimpleNamespace(Lock=lambda: TurnLock(turns))),
                (reading, "Lock", lambda: TurnLock(turns)),
                (log, "TRIMMED_TOGETHER", 1),
                (log.ChannelLog.__init__, "__defaults__", (_RECORDS_KEPT,)),
                (topic, "Lock", lambda: TurnLock(turns)),
                (topic, "time", here),
                (topic, "Topics", lambda _clients, where: self._topics[where.removeprefix("channel ")]),
                (gate.ChannelGate, "bounded", _lingering(turns, gate.ChannelGate.bounded)),
            ):
                stack.enter_context(mock.patch.object(module, name, made))
            self._begin()
            for _ in range(self.rng.randint(100, 900)):
                self._strike()
                if self._drivers[-1].is_dead:
                    self._begin()
                self._feed()
                turns.give()
            self._troubles += self._comes_to_rest()
            for driver in self._drivers:
                driver.is_dead = True
            while any(not task.is_over for task in turns.tasks):
                turns.give()
        self._troubles += [repr(task.error) for task in turns.tasks if task.error is not None]
        return self._troubles

    # --- what happens ---------------------------------------------------------------------------------------

    def _begin(self, checkpoint: CheckpointRecord | None = None) -> None:
        self._drivers.append(Driver(self, checkpoint))

    def _strike(self) -> None:
        """Sometimes. The newest driver dies, is paused beside a successor, or one of its queries fails."""
        newest, rng = self._drivers[-1], self.rng
        if newest.is_restoring or rng.random() > self._harshness * (_MEANWHILE if newest.is_taking else 1):
            return
        match rng.choice(_STRIKES_MEANWHILE if newest.is_taking else _STRIKES):
            case "kill":
                newest.is_dead = True
                self.figures["a driver has died"] += 1
            case "pause":
                newest.sleeps_until = self.turns.now + rng.uniform(0.1, 2)
                self._begin()
                self.figures["a driver was paused beside its successor"] += 1
            case "close":
                newest.close()
            case "restore":
                self._go_back()
            case "abort":
                newest.abort()
            case "late":
                self._write_late(rng.choice(self.nodes).uid)
            case _:
                newest.fail()
        for older in self._drivers[:-1]:
            if self.rng.random() < 0.3:
                older.is_dead = True

    def _go_back(self) -> bool:
        """To a retained checkpoint that repeats no rows. The driver before is dead, or paused meanwhile."""
        found = [read_retained(JOB, number) for number in retained_numbers(JOB)]
        exact = [each for each in found if each is not None and each.alignment != Alignment.AT_LEAST_ONCE.value]
        if exact:
            older = self._drivers[-1]
            older.is_dead = self.rng.random() < 0.5
            older.sleeps_until = self.turns.now + self.rng.uniform(0.1, 2)
            self._begin(self.rng.choice(exact))
        return bool(exact)

    def has_restored(self, record: JobRecord, checkpoint: CheckpointRecord) -> None:
        self.record = record
        for done in checkpoint.queries:
            state = self._state(done.query, done.generation, done.epoch)
            self._begins[done.query, record.generation] = done.epoch, state
        self.figures["a checkpoint was restored"] += 1
        self.figures["a checkpoint with rows in flight was restored"] += bool(checkpoint.in_flight)

    def _write_late(self, uid: str) -> None:
        """A finisher that was paused, of an older driver, says what it has finished: *finished_through* goes back."""
        finished = self._finished(uid)
        if len(self._drivers) > 1 and finished > max(0, self._begins[uid, self.record.generation][0]):
            late = encode(FinishedThrough(epoch=finished - 1))
            MemoryStorage.replace(self._ledger(uid, self.record.generation), FINISHED_THROUGH, late)
            self.figures["a paused finisher has written late"] += 1

    def _feed(self) -> None:
        source = self.rng.choice(list(self._flows))
        if self._arrived[source] < _ROWS_AT_MOST and self.rng.random() < _OFTEN[self._flows[source]]:
            self._arrived[source] += self.rng.randint(1, 3)

    def around(
        self,
        sinks: Mapping[str, AnyChannel],
        record: JobRecord,
        live: LiveParts,
        fails: Callable[[], bool],
        keys: Mapping[str, ChannelKey],
    ) -> Around:
        around = self.turns, self._slowness, sinks, self._arrived, self._rows, self._consumed, fails, record, live, keys
        return Around(*around)

    def keys(self) -> Mapping[str, ChannelKey]:
        """What parts the rows of each keyed channel in a driver: each may have another number of partitions."""
        return {each: ChannelKey(column="number", partitions=self._of_keys.randint(1, 4)) for each in self._keyed}

    def channel(self, uid: str) -> AnyChannel:
        """A channel, in the process of a driver."""
        folder = JOB / CHANNELS / uid
        return PlayedChannel(uid, folder, self._topics[uid]) if uid in self._topics else ChannelSink(uid, folder)

    def counts(self, what: str) -> None:
        self.figures[what] += 1

    def is_newest(self, driver: Driver) -> bool:
        return driver is self._drivers[-1]

    # --- what must hold -------------------------------------------------------------------------------------

    def judge(self, driver: Driver, snapshots: Mapping[str, DoneEpoch], alignment: Alignment) -> None:
        """All queries have taken part. Compare the records, as a checkpoint does, and the values of the rows."""
        refused, ends, flying = "", dict[str, int](), dict[tuple[str, int], Rows]()
        try:
            ends = dict(demand_cut(JOB, driver.record, list(snapshots.values()), alignment).ends)
            flying = self._in_flight(snapshots.values(), ends)
        except TidegateError as error:
            refused = f"{error.expected}: {error.found}"
        states = {uid: self._state(uid, done.generation, done.epoch) for uid, done in snapshots.items()}
        troubles = wrong(self.nodes, states, alignment, flying, self._keyed)
        if troubles and not refused:
            self._troubles.append(f"a checkpoint is no cut ({alignment.value}): {troubles[0]}")
        elif refused and self.is_newest(driver):
            what = "the driver of the job has made no cut" if troubles else "a cut was refused"
            self._troubles.append(f"{what} ({alignment.value}): {refused}")
        else:
            if not refused:
                self._retain(driver, list(snapshots.values()), ends, alignment)
            self.figures["a checkpoint was refused: no cut" if refused else f"complete: {alignment.value}"] += 1
            self.figures["a checkpoint has rows in flight"] += any(flying.values())
            self.figures["a checkpoint repeats rows"] += bool(
                wrong(self.nodes, states, in_flight=flying, keyed=self._keyed)
            )

    def _retain(
        self, driver: Driver, snapshots: Sequence[DoneEpoch], ends: dict[str, int], alignment: Alignment
    ) -> None:
        """The checkpoint counts from its manifest on."""
        manifests = driver.manifests
        if manifests is None or not self.is_newest(driver):
            return
        number = manifests.next_number()
        record = CheckpointRecord(
            number=number,
            job="job",
            job_id=JOB_ID,
            at="",
            queries=tuple(snapshots),
            in_flight=ends,
            alignment=alignment.value,
        )
        if manifests.put(record):
            manifests.remove_older()
            self._check_retained()

    def _check_retained(self) -> None:
        """A restore finds the rows in flight of every retained checkpoint."""
        for number in retained_numbers(JOB):
            record = read_retained(JOB, number)
            try:
                _ = {} if record is None else self._in_flight(record.queries, record.in_flight)
            except TidegateError as error:
                self._troubles.append(f"rows of a retained checkpoint are gone: {error.expected}")

    def _in_flight(self, snapshots: Iterable[DoneEpoch], ends: ChannelPosition) -> dict[tuple[str, int], Rows]:
        """By query and place in its plan, what a checkpoint has in flight."""
        reads = {node.uid: node.reads for node in self.nodes}
        return {
            (done.query, place): self._flying(reads[done.query][source], text, ends)
            for done in snapshots
            for place, (source, text) in enumerate(positions_of(done.sources, done.offsets))
            if source in reads[done.query] and text is not None
        }

    def _flying(self, channel: str, position: str, ends: ChannelPosition) -> Rows:
        barrier = {part: at for part, at in ends.items() if is_part_of(channel, part)}
        begin = in_flight(json.loads(position), barrier)
        at = self.channel(channel)
        shares = at.shares(begin, {part: barrier[part] for part in begin}, 1, "")
        return self.around({}, self.record, ALL_LIVE, lambda: False, {}).rows_of(
            at, [row for share in shares for row in share]
        )

    def _comes_to_rest(self) -> Iterator[str]:
        """Nothing strikes any more. A checkpoint completes under load, another one is aborted, and all rows flow on.
        Then, sometimes, the job goes back to a checkpoint once more, and flows on from there.
        """
        self.is_healed = True
        while self._drivers[-1].is_restoring:
            self.turns.give()
        for older in self._drivers:
            older.is_dead = True
        self._begin()
        yield from self._rests()
        if self.rng.random() < _GOES_BACK and self._go_back():
            yield from self._rests()
        self._check_retained()
        channels = {channel for node in self.nodes for channel in node.writes}
        names = [MemoryStorage(self.memory, f"{JOB.path}/{CHANNELS}/{each}/").list(EPOCHS) for each in channels]
        self.figures["rows were removed"] += any(each and min(map(int, each)) for each in names)

    def _rests(self) -> Iterator[str]:
        for _ in range(_TURNS_AT_REST):
            if self._drivers[-1].is_quiet or not self.turns.give():
                break
            self._feed_all()
        if not self._drivers[-1].is_quiet:
            yield "no checkpoint is complete at the end"
            return
        for turn in range(_TURNS_AT_REST):
            if not self.turns.give() or (turn % 20 == 0 and not self._left()):
                break
        left = self._left()
        if left:
            yield f"rows are held: {left}"

    def _feed_all(self) -> None:
        if self.rng.random() < 0.05:
            for source, flow in self._flows.items():
                self._arrived[source] += flow is not Flow.ENDED

    def _left(self) -> str:
        """What the done epochs of the queries have not read yet, by the values of the rows."""
        states = {
            node.uid: self._state(node.uid, self.record.generation, self._finished(node.uid)) for node in self.nodes
        }
        for node in self.nodes:
            for place, source in enumerate(node.sources):
                count = sum(len(epoch[place]) for epoch in states[node.uid])
                if source in node.flows and count != self._arrived[source]:
                    return f"query {node.uid} has read {count} of {self._arrived[source]} rows of {source}"
        return "; ".join(wrong(self.nodes, states, keyed=self._keyed))

    def _finished(self, uid: str) -> int:
        generation = self.record.generation
        return max(entry_numbers(self._ledger(uid, generation).list(DONE)), default=self._begins[uid, generation][0])

    def _state(self, uid: str, generation: int, through: int) -> State:
        ledger, (before, state) = self._ledger(uid, generation), self._begins[uid, generation]
        found = [(epoch, ledger.read(entry(DONE, epoch))) for epoch in range(before + 1, through + 1)]
        runs = [(epoch, decode(Done, data, uid).run) for epoch, data in found if data is not None]
        return [*state, *(self._consumed[uid, generation, epoch, run] for epoch, run in runs)]

    def _ledger(self, uid: str, generation: int) -> MemoryStorage:
        return MemoryStorage(self.memory, f"{folder_of(uid, generation).path}/")


def _lingering(turns: Turns, bounded: Callable[..., ChannelPosition]) -> Callable[..., ChannelPosition]:
    """Another thread can get between the two questions of a reader: for the end, and for the gate."""

    def after_a_while(self: gate.ChannelGate, reader: str, end: ChannelPosition) -> ChannelPosition:
        turns.linger()
        return bounded(self, reader, end)

    return after_a_while


_OFTEN: Final = {Flow.BUSY: 0.06, Flow.IDLE: 0.01, Flow.ENDED: 0.0}


class _Stepping(coordinator.Participant):
    """Another thread can get between the calls of the coordinator, also where no request is sent."""

    turns: Turns

    def positions(self, done: DoneEpoch) -> Any:
        self.turns.linger()
        return super().positions(done)

    def ends(self) -> Any:
        self.turns.linger()
        return super().ends()

    def move_gates(self, barriers: Any) -> None:
        self.turns.linger()
        super().move_gates(barriers)


if __name__ == "__main__":
    sys.exit(main_of("tests.simulation.graphs.world", World))

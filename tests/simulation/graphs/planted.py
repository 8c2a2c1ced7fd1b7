"""The rules of a checkpoint over a graph, each broken by a few lines: the world of graphs sees it.

`python -m tests.simulation.graphs.planted` tries them all.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FunctionType
from typing import Final

from tests.simulation.graphs.world import World

_COORDINATOR: Final = "tidegate.channels.coordinator"
_READING: Final = "tidegate.channels.reading"


@dataclass(frozen=True, slots=True)
class PlantedGraphBug:
    """A broken rule: in a module these lines become those. `near`: the first bad seed."""

    rule: str
    module: str
    old: str
    new: str
    near: int = 0


@contextmanager
def planted(bug: PlantedGraphBug) -> Generator[None]:
    """Inside of the block the functions of the module have the broken code."""
    module = importlib.import_module(bug.module)
    text = inspect.getsource(module)
    if text.count(bug.old) != 1:
        raise ValueError(f"{bug.rule}: {bug.module} has these lines {text.count(bug.old)} times:\n{bug.old}")
    broken = dict(vars(module))
    exec(compile(text.replace(bug.old, bug.new), module.__file__ or bug.module, "exec"), broken)
    ours, theirs = dict(_functions(bug.module, vars(module))), dict(_functions(bug.module, broken))
    whole = {name: function.__code__ for name, function in ours.items()}
    for name, function in ours.items():
        function.__code__ = theirs[name].__code__
    try:
        yield
    finally:
        for name, function in ours.items():
            function.__code__ = whole[name]


def first_bad(bug: PlantedGraphBug, *, first: int, seeds: int) -> tuple[int, str] | None:
    """The first bad seed, and what it says."""
    with planted(bug):
        for seed in range(first, first + seeds):
            troubles = World(seed).run()
            if troubles:
                return seed, troubles[0]
    return None


def _functions(module: str, found: Mapping[str, object]) -> Iterator[tuple[str, FunctionType]]:
    """The functions that are written in a module, by qualified name."""
    for each in found.values():
        if getattr(each, "__module__", "") != module:
            continue
        parts = vars(each).values() if isinstance(each, type) else [each]
        for part in parts:
            function = inspect.unwrap(part) if callable(part) else part
            if isinstance(function, FunctionType) and function.__module__ == module:
                yield function.__qualname__, function


PLANTED_GRAPH_BUGS: Final = (
    PlantedGraphBug(
        "a reader asks for the end of the channel first, and for the gate second",
        "tidegate.spark.sources.channel",
        "        end = self._live.of(self._channel.readable() if self._last is None else self._last)\n"
        "        ends = self._channel.gate.bounded(self._reader, end)\n",
        "        anywhere = {f'{self._channel.uid}.1.{number}': 1 << 30 for number in range(4)}\n"
        "        far = self._channel.gate.bounded(self._reader, anywhere)\n"
        "        ends = {part: min(at, far.get(part, 0)) for part, at in self._channel.readable().items()}\n",
    ),
    PlantedGraphBug(
        "the gate is shut before the next epoch is let in",
        _COORDINATOR,
        "                participant.move_gates(barriers)\n                self._snapshots[query] = done\n",
        "                self._snapshots[query] = done\n",
    ),
    PlantedGraphBug(
        "a query takes part between two of its epochs",
        _COORDINATOR,
        "        return None if reached is None or reached.epoch < self._let_in else self._done(reached)\n",
        "        return self._done(reached)\n",
        near=16,
    ),
    PlantedGraphBug(
        "a query looks alone, or lets an epoch in alone",
        _COORDINATOR,
        "        with self._lock:\n            self._coordinator.look(",
        "        if True:\n            self._coordinator.look(",
        near=10,
    ),
    PlantedGraphBug(
        "an input that is held is released after the own snapshot",
        _COORDINATOR,
        "        participant = self._participants[query]\n        with self._changed:\n            positions",
        "        participant = self._participants[query]\n"
        "        waits = barriers.waits_for(query, participant.positions(done))\n"
        "        for channel in participant._joined.reads.values():\n"
        "            if channel.uid not in waits:\n"
        "                channel.gate.let_pass(query)\n"
        "        with self._changed:\n            positions",
        near=9,
    ),
    PlantedGraphBug(
        "a reader takes part when it stands at the barriers of all channels",
        "tidegate.core.barriers",
        "        for source, channel in self._graph[query].reads.items():\n",
        "        for source, channel in list(self._graph[query].reads.items())[:1]:\n",
        near=4,
    ),
    PlantedGraphBug(
        "a source that a query reads twice stands at the barrier at both places",
        _COORDINATOR,
        "                found[uid].append({} if position is None else position)\n",
        "                found[uid] = [{} if position is None else position]\n",
        near=26,
    ),
    PlantedGraphBug(
        "every older epoch is done when an epoch is let in",
        "tidegate.core.epoch",
        "await_finished(epoch - query.max_concurrent)",
        "await_finished(epoch - 2)",
        near=20,
    ),
    PlantedGraphBug(
        "a look counts only for the checkpoint that it has looked at",
        _COORDINATOR,
        "            if self._barriers is barriers and not barriers.waits_for(",
        "            if not barriers.waits_for(",
        near=154,
    ),
    PlantedGraphBug(
        "the gates are opened at the end of a checkpoint, also of an aborted one",
        _COORDINATOR,
        "            self._barriers = None\n            for channel in self._channels:\n",
        "            complete, self._barriers = self._barriers is None or self._barriers.is_complete, None\n"
        "            for channel in self._channels if complete else []:\n",
    ),
    PlantedGraphBug(
        "unaligned, the rows that each reader has left belong to the checkpoint",
        "tidegate.savepoints.cut",
        "for part in in_flight(position, barrier)})\n",
        "for part in in_flight(position, barrier) if query is queries[-1]})\n",
    ),
    PlantedGraphBug(
        "unaligned, what is in flight ends with the snapshot of the writer",
        "tidegate.savepoints.cut",
        "            if record.at == saved or (",
        "            if True or (",
    ),
    PlantedGraphBug(
        "at-least-once, a reader takes part when it is past all barriers",
        "tidegate.core.barriers",
        "                if not alignment.allows(left):\n",
        "                if self._alignment is Alignment.ALIGNED and left:\n",
    ),
    PlantedGraphBug(
        "at-least-once, a reader of one channel is held at its barrier",
        "tidegate.core.barriers",
        "if len(set(query.reads.values())) > 1)\n",
        "if len(set(query.reads.values())) > 0)\n",
        near=20,
    ),
    PlantedGraphBug(
        "a reader reads up to the recorded end, not on to markers behind it",
        "tidegate.channels.kafka",
        "min(end, readable.get(part, 0))",
        "readable.get(part, 0)",
    ),
    PlantedGraphBug(
        "the rows of a part are read in their order",
        "tidegate.channels.log",
        'to {to} of part {part}", where)\n        return found\n',
        'to {to} of part {part}", where)\n        return found[::-1]\n',
    ),
    PlantedGraphBug(
        "a checkpoint holds the rows behind its snapshots until it ends",
        _COORDINATOR,
        "            for position in places:\n                self._joined.reads[uid].passed.hold(position)\n",
        "            pass\n",
        near=10,
    ),
    PlantedGraphBug(
        "a checkpoint holds the records that its cut is compared with",
        _COORDINATOR,
        "            channel.passed.hold({part: at - 1 for part, at in ends.items()})\n",
        "            pass\n",
    ),
    PlantedGraphBug(
        "what a checkpoint holds is asked for before the manifests",
        "tidegate.spark.sources.channel",
        "                needed = [*passed, *held, *self._retained()]\n",
        "                needed = [*passed, *self._retained()]\n",
        near=10,
    ),
    PlantedGraphBug(
        "the rows in flight of a retained checkpoint stay",
        "tidegate.spark.sources.channel",
        "                needed = [*passed, *held, *self._retained()]\n",
        "                needed = [*passed, *held]\n",
    ),
    PlantedGraphBug(
        "a row is needed until each place of a plan has read it",
        "tidegate.spark.sources.channel",
        "        end = least([parsed(position, dict[str, int]) for position in positions])\n",
        "        end = parsed(positions[-1], dict[str, int])\n",
        near=114,
    ),
    PlantedGraphBug(
        "after a restore readers skip what the older generations have written behind it",
        "tidegate.savepoints.restored",
        "    return LiveParts(since, newest.in_flight)\n",
        "    return ALL_LIVE\n",
    ),
    PlantedGraphBug(
        "after a restore readers first read what was in flight",
        "tidegate.savepoints.restored",
        "    return LiveParts(since, newest.in_flight)\n",
        "    return LiveParts(since)\n",
    ),
    PlantedGraphBug(
        "one task reads what was in flight in a partition before what comes behind it",
        "tidegate.sources.kafka.offsets",
        "for found in partitions[each])",
        "for found in partitions[each][::-1])",
        near=27,
    ),
    PlantedGraphBug(
        "a generation begins behind what the older ones have written to its topic",
        "tidegate.channels.topic",
        "                self._begin(generation, found.topic_ids[self._topic], at)\n",
        "                self._begin(generation, found.topic_ids[self._topic], dict.fromkeys(at, 0))\n",
    ),
    PlantedGraphBug(
        "a partition of a keyed channel is read by one task",
        _READING,
        "    if all(each.key is None for each in rows):\n",
        "    if True:\n",
    ),
    PlantedGraphBug(
        "the rows of a partition are read in the order of publication",
        _READING,
        "        groups.setdefault(number_of(each.part) % divisor, []).append(each)\n",
        "        groups.setdefault(number_of(each.part) % divisor, []).insert(0, each)\n",
    ),
    PlantedGraphBug(
        "partitions that can have the same key are read by one task when their number was changed",
        _READING,
        "        groups.setdefault(number_of(each.part) % divisor, []).append(each)\n",
        "        groups.setdefault(number_of(each.part), []).append(each)\n",
    ),
    PlantedGraphBug(
        "an epoch is published as its rows were parted",
        "tidegate.channels.log",
        "            key=staged[0].key,\n",
        "            key=None,\n",
    ),
)


def main() -> int:
    logging.disable()
    missed = 0
    for bug in PLANTED_GRAPH_BUGS:
        found = first_bad(bug, first=0, seeds=1000)
        missed += found is None
        seed, told = found or (-1, "NOT CAUGHT")
        print(f"{bug.rule:70} {seed:4} {told[:150]}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

"""What must hold when a seed is over."""

from __future__ import annotations

from tests.simulator.processes import FillableDisk
from tests.simulator.swarm import Swarm
from tests.world.checker import History, check
from tests.world.configurations import TASKS, Configuration, Work
from tests.world.disk import COMMITS, OFFSETS
from tests.world.engine import SparkStopped, load_state, parsed_offsets, read_commits, read_offsets
from tests.world.rows import Row, event_time
from tests.world.sinks import SimSink
from tidegate.core.ledger import DECIDED, DONE, PREPARED, RUNS, RUNS_KEPT, RUNS_KEPT_WITHOUT_PROOF
from tidegate.core.records import Decided, Sealed, decode, is_of_kind

MOST_SLOTS = 10
"""Slots of one sink in one place, whatever was retried, speculated or left behind."""
MOST_RECORDS = 24
"""Records of one kind that may stand in a ledger at rest: as many as Spark's log keeps, and a few."""


def audit(world: Swarm) -> list[str]:
    """Everything that is wrong with a seed; empty when nothing is."""
    found = list(world.troubles)
    for index in range(len(world.plan.queries)):
        for generation in range(world.generation + 1):
            found += _audit_generation(world, index, generation)
    if not world.declared_stop:
        found += [f"read_committed readers wait: {each}" for each in world.broker.blocked()]
        found += _audit_bounds(world)
    return found


def _audit_generation(world: Swarm, index: int, generation: int) -> list[str]:
    history = _history(world, index, generation)
    if not world.declared_stop:
        return [f"query {index}, generation {generation}: {each}" for each in check(history)]
    repeated = [each for each in check(history) if "repeated" in each or "torn: rows" in each]
    return [f"after a declared stop: {each}" for each in repeated]


def _history(world: Swarm, index: int, generation: int) -> History:
    configuration = world.plan.queries[index]
    disk, sinks = world.checkpoint(index, generation), world.sinks_of(index, generation)
    newest = generation == world.generation
    visible = {sink.identity.sink: _of_generation(world, sink, generation) for sink in sinks}
    finished = max(map(int, disk.names(DONE)), default=-1)
    if not newest:
        finished = world.closed[index, generation]
    troubles: list[str] = []
    logged = _logged(disk, configuration.retain, troubles) if newest else _decided(disk, finished)
    return History(
        wanted=_wanted(configuration, logged, finished, newest=newest),
        visible=visible,
        surviving=_surviving(configuration, disk, troubles) if newest else (),
        logged=logged,
        finished=finished,
        kept=configuration.retain + 1,
        evidence={
            uid: _evidence(sink, rows, newest=newest) for sink, (uid, rows) in zip(sinks, visible.items(), strict=True)
        },
        leftovers=[each for sink in sinks for each in _leftovers(sink)] if newest else [],
        troubles=troubles,
    )


def _leftovers(sink: SimSink) -> list[str]:
    """An abandoned generation is not cleaned again: a power loss may bring back what was just removed there."""
    older = [f"/stage/{generation}/" for generation in range(sink.identity.generation)]
    return [each for each in sink.leftovers() if not any(stage in each for stage in older)]


def _of_generation(world: Swarm, sink: SimSink, generation: int) -> list[Row]:
    return [row for row in sink.visible() if world.generation_of[row.execution] == generation]


def _decided(disk: FillableDisk, through: int) -> dict[int, tuple[int, int]]:
    """What an abandoned generation has decided: nobody mends its log any more."""
    found: dict[int, tuple[int, int]] = {}
    for name in disk.names(DECIDED):
        data = disk.read_bytes(f"{DECIDED}/{name}")
        if data is not None and int(name) <= through and not is_of_kind(Sealed, data):
            found[int(name)] = parsed_offsets(decode(Decided, data, name).offsets)
    return found


def _logged(disk: FillableDisk, retain: int, troubles: list[str]) -> dict[int, tuple[int, int]]:
    """What Spark still goes by: a run that stood still for long may write an entry that was purged long ago."""
    found: dict[int, tuple[int, int]] = {}
    for name in disk.names(OFFSETS):
        if name.isdigit():
            try:
                found[int(name)] = read_offsets(disk, int(name))
            except SparkStopped as error:
                troubles.append(str(error))
    newest = max(found, default=0)
    return {epoch: entry for epoch, entry in found.items() if epoch >= newest - retain}


def _wanted(
    configuration: Configuration, logged: dict[int, tuple[int, int]], finished: int, *, newest: bool
) -> frozenset[int]:
    """All records; of an abandoned generation those up to its newest finished epoch."""
    if newest:
        return frozenset(range(configuration.records)) - configuration.filtered
    end, watermark = logged.get(finished, (0, 0))
    windowed = configuration.work is Work.WINDOWED
    reached = [record for record in range(end) if not windowed or event_time(record) <= watermark]
    return frozenset(reached) - configuration.filtered


def _evidence(sink: SimSink, rows: list[Row], *, newest: bool) -> int | None:
    """The newest epoch that the sink proves; what an abandoned generation proved is covered by its successor's."""
    shown = max((row.epoch for row in rows), default=None)
    position = sink.position()
    if not newest or position is None or position.generation != sink.identity.generation:
        return shown if not newest or shown is None else None
    return position.epoch


def _surviving(configuration: Configuration, disk: FillableDisk, troubles: list[str]) -> tuple[int, ...]:
    """The state that Spark would go on from: by the ids in the newest commits entry."""
    numbers = [int(name) for name in disk.names(COMMITS) if name.isdigit()]
    if configuration.work is Work.STATELESS or not numbers:
        return ()
    try:
        _, ids = read_commits(disk.read_bytes(f"{COMMITS}/{max(numbers)}") or b"")
        return tuple(load_state(disk, max(numbers) + 1, task, ids).accumulator for task in range(TASKS))
    except (SparkStopped, ValueError) as error:
        troubles.append(f"the state that survived: {error}")
        return ()


def _audit_bounds(world: Swarm) -> list[str]:
    found: list[str] = []
    for place in world.places:
        found += [f"{len(slots)} slots of {name}" for name, slots in place.slots.items() if len(slots) > MOST_SLOTS]
    for index in range(len(world.plan.queries)):
        disk = world.checkpoint(index, world.generation)
        for folder, most in (
            (RUNS, RUNS_KEPT + 1 if world.plan.local_lease else RUNS_KEPT_WITHOUT_PROOF + 1),
            (DECIDED, MOST_RECORDS),
            (DONE, MOST_RECORDS),
            (PREPARED, MOST_RECORDS),
        ):
            if len(disk.names(folder)) > most:
                found.append(f"{len(disk.names(folder))} records in {folder}")
    return found

"""When faults strike, and what each does. Every choice comes from the seed, and is kept so that it can be repeated."""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from tests.simulator.faults import Fault, Injection
from tests.simulator.kafka import SlottedSink
from tests.simulator.processes import Actor, DiskFull, FillableDisk
from tests.world.disk import COMMITS, OFFSETS
from tests.world.engine import TaskFailed
from tests.world.sinks import SimSink
from tidegate.core import effects as asked
from tidegate.core.ledger import DECIDED, SOURCES
from tidegate.core.records import Answer, Committable, Outcome
from tidegate.core.spark_log import parse_commits

if TYPE_CHECKING:
    from tests.simulator.driver import Driver
    from tests.simulator.swarm import Swarm

_SALTS: Final = 1 << 20


class Injector:
    """Decides before each step of the chaos whether a fault strikes; `kept` is what struck."""

    def __init__(self, world: Swarm, given: Sequence[Injection] | None) -> None:
        plan = world.plan
        self.kept: list[Injection] = []
        self.struck: set[Fault] = set()
        self._world = world
        self._plan = plan
        self._given = None if given is None else {injection.step: injection for injection in given}
        self._rng = random.Random(plan.seed + 2)
        self._late: list[tuple[SimSink, Committable]] = []
        self._faults = [fault for fault, _ in plan.general]
        self._bounds = list(accumulate(weight for _, weight in plan.general))

    def strikes(self, actor: Actor) -> bool:
        """Let a fault strike, if one does; then the thread has not done its step."""
        if self._late and self._world.steps & 63 == 0:
            self._deliver()
        injection = self._next(actor) if self._given is None else self._given.get(self._world.steps)
        if injection is None:
            return False
        acted = _ACTS[injection.fault](self, actor, injection.salt)
        if not acted:
            return False
        self.kept.append(injection)
        self.struck.add(injection.fault)
        self._world.count(f"fault: {injection.fault.value}")
        self._world.say(f"**** {injection}")
        self._world.fingerprint(str(injection))
        return True

    def end(self) -> None:
        """The faults are over: what was late arrives, who stood still goes on, what was full has room."""
        world = self._world
        self._deliver()
        world.down_until = world.full_until = 0
        for disk in world.checkpoints():
            disk.full = False
        for sleeper in [*world.actors, *(actor.process for actor in world.actors)]:
            if sleeper.asleep_until > world.now:
                sleeper.asleep_until = world.now + self._plan.wakes_after
        for driver in world.drivers:
            for part in driver.parts:
                part.goes_back = False

    def look_at_the_clock(self) -> None:
        """A disk that was full has room again, in time."""
        world = self._world
        if world.full_until and world.full_until <= world.now:
            world.full_until = 0
            for disk in world.checkpoints():
                disk.full = False

    def _next(self, actor: Actor) -> Injection | None:
        plan, effect, rng = self._plan, actor.effect, self._rng
        chance = rng.random()
        if isinstance(effect, asked.CommitSink) and plan.at_commit and chance < plan.commit_rate:
            return self._injection(rng.choice(plan.at_commit))
        if effect.point in plan.stalls and chance < plan.stall_rate:
            return self._injection(Fault.STALL)
        if chance < plan.rate and self._faults:
            return self._injection(self._faults[bisect(self._bounds, rng.random() * self._bounds[-1])])
        return None

    def _injection(self, fault: Fault) -> Injection:
        return Injection(self._world.steps, fault, int(self._rng.random() * _SALTS))

    # --- processes -----------------------------------------------------------------------------------------

    def kill_driver(self, actor: Actor, salt: int) -> bool:
        driver = self._driver(salt)
        if driver is None:
            return False
        self._world.kill_python(driver)
        self._world.kill_jvm(driver, _zombies(salt))
        return True

    def kill_python(self, actor: Actor, salt: int) -> bool:
        driver = self._driver(salt)
        if driver is None or not driver.python.alive:
            return False
        self._world.kill_python(driver)
        return True

    def kill_jvm(self, actor: Actor, salt: int) -> bool:
        driver = self._driver(salt)
        if driver is None or not driver.jvm.alive:
            return False
        self._world.kill_jvm(driver, _zombies(salt))
        return True

    def kill_executor(self, actor: Actor, salt: int) -> bool:
        driver = self._driver(salt)
        if driver is None:
            return False
        worker = driver.workers[salt % len(driver.workers)]
        worker.alive = False
        for each in [each for each in self._world.actors if each.process is worker]:
            self._world.end(each)
        return True

    def lose_task(self, actor: Actor, salt: int) -> bool:
        tasks = [each for each in self._world.actors if each.label.startswith("task")]
        if not tasks:
            return False
        lost = tasks[salt % len(tasks)]
        lost.throw(TaskFailed())
        self._world.ended(lost)
        return True

    def speculate(self, actor: Actor, salt: int) -> bool:
        engines = [part.engine for driver in self._world.drivers if driver.jvm.alive for part in driver.parts]
        return any(engine is not None and engine.speculate(salt) for engine in engines)

    def lose_power(self, actor: Actor, salt: int) -> bool:
        self._end_everything()
        for number, disk in enumerate(self._world.checkpoints()):
            losses = disk.losses()
            loss = losses[(salt >> number) % len(losses)]
            self._world.say(f"     {loss.value}")
            if salt >> 8 & 1:
                disk.tear(SOURCES)
            disk.lose_power(loss)
        return True

    def stall(self, actor: Actor, salt: int) -> bool:
        """The thread stands still; where runs may be side by side its whole driver may, and another one starts.

        At times everybody who stood still goes on at this very moment.
        """
        if salt >> 10 & 1:
            self._wake_all()
        actor.asleep_until = self._world.now + _span(salt)
        part = actor.part
        if not self._plan.local_lease and part is not None and salt % 3:
            self._fall_asleep(part.driver, salt >> 4, _span(salt))
            self._succeed(salt >> 6)
        return True

    def pause(self, actor: Actor, salt: int) -> bool:
        driver = self._driver(salt)
        if driver is None:
            return False
        self._fall_asleep(driver, salt >> 4, _span(salt >> 2))
        if not self._plan.local_lease:
            self._succeed(salt >> 6)
        return True

    def second_driver(self, actor: Actor, salt: int) -> bool:
        return self._succeed(0)

    def restart_run(self, actor: Actor, salt: int) -> bool:
        driver = self._driver(salt)
        if driver is None or driver.opening:
            return False
        driver.end_runs()
        return True

    def new_generation(self, actor: Actor, salt: int) -> bool:
        world = self._world
        if world.wanted_generation > world.generation or world.generation == 2:
            return False
        driver = self._driver(salt)
        if not self._plan.local_lease and salt & 1 and driver is not None:
            self._fall_asleep(driver, salt >> 4, _span(salt >> 2))
            world.wanted_generation += 1
            self._succeed(0)
            return True
        if self._has_others():
            return False
        self._end_everything()
        world.wanted_generation += 1
        return True

    # --- commits -------------------------------------------------------------------------------------------

    def _at_commit(self, actor: Actor, act: Callable[[SimSink, asked.CommitSink], None]) -> bool:
        effect, part = actor.effect, actor.part
        if not isinstance(effect, asked.CommitSink) or part is None or not part.driver.python.alive:
            return False
        try:
            act(part.sink(effect.sink), effect)
        except DiskFull:
            return False
        if actor.alive:
            actor.send([Answer(outcome=Outcome.RETRY, detail="no answer") for _ in effect.committables])
        return True

    def lose_request(self, actor: Actor, salt: int) -> bool:
        return self._at_commit(actor, _forget)

    def lose_answer(self, actor: Actor, salt: int) -> bool:
        return self._at_commit(actor, _send)

    def delay_request(self, actor: Actor, salt: int) -> bool:
        return self._at_commit(actor, self._delay)

    def repeat_request(self, actor: Actor, salt: int) -> bool:
        def act(sink: SimSink, effect: asked.CommitSink) -> None:
            sink.commit(effect.committables)
            self._delay(sink, effect)

        return self._at_commit(actor, act)

    def half_commit(self, actor: Actor, salt: int) -> bool:
        def act(sink: SimSink, effect: asked.CommitSink) -> None:
            sink.commit_half(effect.committables[0])
            if actor.part is not None:
                self._world.kill_python(actor.part.driver)
                self._world.kill_jvm(actor.part.driver, _zombies(salt))

        effect = actor.effect
        many = isinstance(effect, asked.CommitSink) and len(effect.committables) > 1 and effect.sink[0] != "s"
        return many and self._at_commit(actor, act)

    def _delay(self, sink: SimSink, effect: asked.CommitSink) -> None:
        """Only a Kafka-like sink has requests that outlive their sender."""
        if isinstance(sink, SlottedSink):
            self._late += [(sink, committable) for committable in effect.committables]

    def _deliver(self) -> None:
        for sink, committable in self._late:
            if isinstance(sink, SlottedSink):
                answer = sink.end_transaction(committable)
                self._world.count(f"late commit: {answer.outcome.value}")
        self._late.clear()

    # --- sinks and disks -----------------------------------------------------------------------------------

    def take_down(self, actor: Actor, salt: int) -> bool:
        self._world.down_until = self._world.now + _span(salt)
        return True

    def time_out(self, actor: Actor, salt: int) -> bool:
        self._deliver()
        waiting = bool(self._world.broker.open_attempts())
        self._world.broker.time_out()
        return waiting

    def roll_back(self, actor: Actor, salt: int) -> bool:
        databases = [each for each in self._world.databases() if each.branches]
        for database in databases:
            database.branches.pop(next(iter(database.branches)))
        return self._world.broker.abort_one(salt) or bool(databases)

    def expire_ids(self, actor: Actor, salt: int) -> bool:
        self._world.broker.expire_ids()
        return bool(self._world.broker.ids)

    def expire_evidence(self, actor: Actor, salt: int) -> bool:
        if not self._world.broker.groups:
            return False
        self._world.broker.expire_groups()
        if salt & 1:
            self._world.broker.expire_ids()
        return True

    def fill_disk(self, actor: Actor, salt: int) -> bool:
        self._world.full_until = self._world.now + _span(salt) // 2
        for disk in self._world.checkpoints():
            disk.full = True
        return True

    def damage_log(self, actor: Actor, salt: int) -> bool:
        """Entries that the protocol can do without: decided ones, and the newest."""
        if self._has_others():
            return False
        self._end_everything()
        index = salt % len(self._plan.queries)
        disk = self._world.checkpoint(index, self._world.generation)
        candidates = _expendable(disk)
        if not candidates or disk.full:
            return True
        name = candidates[(salt >> 3) % len(candidates)]
        data = disk.read_bytes(name) or b""
        match (salt >> 8) % 3:
            case 0:
                disk.delete(name)
            case 1:
                disk.put(name, b"")
            case _:
                disk.put(name, data[: len(data) * (salt >> 10 & 7) // 8])
        disk.sync_all()
        return True

    # --- steps ---------------------------------------------------------------------------------------------

    def fail(self, actor: Actor, salt: int) -> bool:
        if isinstance(actor.effect, asked.Tell) or actor.label == "opener":
            return False
        self._world.fail(actor)
        return True

    def fail_after(self, actor: Actor, salt: int) -> bool:
        if isinstance(actor.effect, asked.Tell) or actor.label == "opener":
            return False
        self._world.do_quietly(actor)
        self._world.fail(actor)
        return True

    def send_source_back(self, actor: Actor, salt: int) -> bool:
        parts = [part for driver in self._world.drivers if driver.jvm.alive for part in driver.parts]
        for part in parts:
            part.goes_back = True
        return bool(parts)

    # --- helpers -------------------------------------------------------------------------------------------

    def _driver(self, salt: int) -> Driver | None:
        alive = [driver for driver in self._world.drivers if driver.alive]
        return alive[(salt >> 12) % len(alive)] if alive else None

    def _has_others(self) -> bool:
        """Whether threads of a driver stand still that is not the newest one."""
        return sum(driver.alive for driver in self._world.drivers) > 1

    def _end_everything(self) -> None:
        world = self._world
        for driver in world.drivers:
            if driver.alive:
                world.kill_python(driver)
                world.kill_jvm(driver, lambda _: False)
        for actor in list(world.actors):
            world.end(actor)

    def _wake_all(self) -> None:
        for sleeper in [*self._world.actors, *(actor.process for actor in self._world.actors)]:
            sleeper.asleep_until = 0

    def _succeed(self, salt: int) -> bool:
        """Another driver starts beside, at most three at once."""
        world = self._world
        alive = [driver for driver in world.drivers if driver.alive]
        if salt & 1 or len(alive) > 2 or (self._plan.local_lease and world.is_raising_generation()):
            return False
        world.start()
        return True

    def _fall_asleep(self, driver: Driver, salt: int, span: int) -> None:
        until = self._world.now + span
        if salt % 4 != 0:
            driver.python.asleep_until = until
        if salt % 4 != 1:
            driver.jvm.asleep_until = until
        if salt % 4 == 2:
            for worker in driver.workers:
                worker.asleep_until = until


def _send(sink: SimSink, effect: asked.CommitSink) -> None:
    sink.commit(effect.committables)


def _forget(sink: SimSink, effect: asked.CommitSink) -> None:
    """Nothing reaches the sink."""


def _zombies(salt: int) -> Callable[[Actor], bool]:
    """Which attempts outlive their JVM: all, none."""
    return lambda _: bool(salt & 1)


def _span(salt: int) -> int:
    """How long something lasts, in steps: mostly short, at times longer than a successor's whole run."""
    return (10, 40, 120, 400)[salt & 3] + (salt >> 2 & 31)


def _expendable(disk: FillableDisk) -> list[str]:
    decided = set(disk.names(DECIDED))
    found = [f"{folder}/{n}" for folder in (OFFSETS, COMMITS) for n in disk.names(folder) if n in decided]
    committed = [int(n) for n in disk.names(COMMITS) if n.isdigit()]
    newest = max(committed, default=-1)
    if newest >= 0 and parse_commits(disk.read_bytes(f"{COMMITS}/{newest}")) is not None:
        found.append(f"{COMMITS}/{newest}")
    undecided = [n for n in disk.names(OFFSETS) if n.isdigit() and int(n) > newest]
    return found + [f"{OFFSETS}/{n}" for n in undecided]


_ACTS: Final[dict[Fault, Callable[[Injector, Actor, int], bool]]] = {
    Fault.KILL_DRIVER: Injector.kill_driver,
    Fault.KILL_PYTHON: Injector.kill_python,
    Fault.KILL_JVM: Injector.kill_jvm,
    Fault.KILL_EXECUTOR: Injector.kill_executor,
    Fault.LOSE_TASK: Injector.lose_task,
    Fault.SPECULATE: Injector.speculate,
    Fault.POWER_LOSS: Injector.lose_power,
    Fault.STALL: Injector.stall,
    Fault.PAUSE: Injector.pause,
    Fault.SECOND_DRIVER: Injector.second_driver,
    Fault.RESTART_RUN: Injector.restart_run,
    Fault.REQUEST_LOST: Injector.lose_request,
    Fault.ANSWER_LOST: Injector.lose_answer,
    Fault.REQUEST_LATE: Injector.delay_request,
    Fault.REQUEST_TWICE: Injector.repeat_request,
    Fault.HALF_COMMIT: Injector.half_commit,
    Fault.SINK_DOWN: Injector.take_down,
    Fault.TIME_OUT: Injector.time_out,
    Fault.ROLL_BACK: Injector.roll_back,
    Fault.EXPIRE_IDS: Injector.expire_ids,
    Fault.EXPIRE_EVIDENCE: Injector.expire_evidence,
    Fault.DAMAGE_LOG: Injector.damage_log,
    Fault.DISK_FULL: Injector.fill_disk,
    Fault.ERROR: Injector.fail,
    Fault.ERROR_AFTER: Injector.fail_after,
    Fault.SOURCE_BACK: Injector.send_source_back,
    Fault.NEW_GENERATION: Injector.new_generation,
}

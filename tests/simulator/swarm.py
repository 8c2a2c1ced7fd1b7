"""The world of one seed: processes, disks and sinks, one thread at a time, faults between the steps, then a heal."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from tests.simulator.branches import BranchSink, Database
from tests.simulator.driver import Driver, Part, do, is_ready
from tests.simulator.faults import Fault, Injection
from tests.simulator.injections import Injector
from tests.simulator.kafka import Broker, SlottedSink
from tests.simulator.plan import Plan
from tests.simulator.processes import Actor, DiskFull, FillableDisk, Until
from tests.simulator.slots import Place
from tests.world.engine import Do, Reason, SparkStopped, TaskFailed
from tests.world.sinks import FilesSink, Rows, SimSink, StagedSink, Table
from tidegate.core.effects import Tell
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import DECIDED, DONE, entry
from tidegate.core.next_steps import Remedy
from tidegate.core.records import Attempt, Decided, Sealed, decode, is_of_kind

MOST_STARTS: Final = 10
"""Drivers during the chaos."""
MOST_HEAL_STEPS: Final = 8_000
"""Steps within which everything must come to rest once the faults are over."""

ResultT = TypeVar("ResultT")


class Swarm:
    """One seed. With `injections` these faults strike, and no others."""

    def __init__(
        self, plan: Plan, *, injections: Sequence[Injection] | None = None, trace: list[str] | None = None
    ) -> None:
        self.plan = plan
        self.figures: Counter[str] = Counter()
        self.troubles: list[str] = []
        self.declared: list[str] = []
        self.stops: list[Exception] = []
        self.generation = 0
        self.wanted_generation = 0
        self.closed: dict[tuple[int, int], int] = {}
        self.generation_of: dict[int, int] = {}
        self._run_of: dict[int, int] = {}
        self.places = (Place("p0"), Place("p1"))
        self.broker = Broker(self._shown_by_broker)
        self.drivers: list[Driver] = []
        self.actors: list[Actor] = []
        self.now = 0
        self.steps = 0
        self.healing = False
        self.down_until = 0
        self.full_until = 0
        self.target = FillableDisk()
        self._tables: dict[tuple[int, str], Table] = {}
        self._databases: dict[tuple[int, str], Database] = {}
        self._checkpoints: dict[tuple[int, int], FillableDisk] = {}
        self._sinks: dict[tuple[int, int], list[SimSink]] = {}
        self._rng = random.Random(plan.seed + 1)
        self._trace = trace
        self._digest = hashlib.blake2b(digest_size=8)
        self._last: Actor | None = None
        self._starts = 0
        self._tokens = 0
        self.injector = Injector(self, injections)

    # --- the two phases ------------------------------------------------------------------------------------

    def run(self) -> None:
        """Chaos, then a heal."""
        while self.steps < self.plan.chaos_steps:
            self._step()
        self.injector.end()
        self.healing = True
        self.say("---- the faults are over")
        limit = self.steps + MOST_HEAL_STEPS
        if not self.plan.local_lease:
            self.start()
        self._go_on(limit)
        for _ in range(3):
            self.start()
            fresh = self.drivers[-1]
            self._go_on(limit)
            self._judge_fresh(fresh)
            if fresh.completed or self.declared_stop:
                return
        self.troubles.append("three fresh drivers did not come to rest")

    @property
    def declared_stop(self) -> bool:
        """Whether the job has ended with an error that the faults of this seed call for."""
        return bool(self.declared)

    @property
    def digest(self) -> str:
        """Of the whole trace: the same seed gives the same one."""
        return self._digest.hexdigest()

    def _go_on(self, limit: int) -> None:
        """Until every thread has ended."""
        while (self.actors or self._has_orphans()) and self.steps < limit and not self.troubles:
            self._step()
        if self.actors and not self.troubles:
            self.troubles.append(f"no end after {self.steps} steps: {self.actors[0].label} goes on")

    # --- one step ------------------------------------------------------------------------------------------

    def _step(self) -> None:
        self.steps += 1
        self.now += 1
        if not self.healing and not self._is_driven() and (not self.actors or self._rng.random() < 0.2):
            self.start()
        actor = self._pick()
        if actor is None:
            self._idle()
        elif self.healing or not self.injector.strikes(actor):
            self.perform(actor)
        self._reap()
        if self.full_until:
            self.injector.look_at_the_clock()

    def _pick(self) -> Actor | None:
        """A thread that can go on; often the one that went last."""
        actors, rng = self.actors, self._rng
        last = self._last
        if last is not None and rng.random() < self.plan.bursts and last.alive and self._is_awake(last):
            return last
        count = len(actors)
        if not count:
            return None
        begin = int(rng.random() * count)
        for index in range(begin, begin + count):
            actor = actors[index % count]
            if self._is_awake(actor):
                self._last = actor
                return actor
        return None

    def _is_awake(self, actor: Actor) -> bool:
        return actor.asleep_until <= self.now and actor.process.asleep_until <= self.now and is_ready(actor)

    def _idle(self) -> None:
        """Nobody can go on: time passes until somebody wakes, or a driver is started."""
        wakes = [
            wake for actor in self.actors if (wake := max(actor.asleep_until, actor.process.asleep_until)) > self.now
        ]
        orphans = [driver.jvm for driver in self.drivers if driver.jvm.alive]
        wakes += [max(jvm.dies_at, jvm.asleep_until) for jvm in orphans if jvm.dies_at is not None]
        wakes += [until for until in (self.down_until, self.full_until) if until > self.now]
        if wakes:
            self.now = max(self.now, min(wakes))
        elif not self._is_driven() and not self.healing:
            self.start()
        elif self.actors:
            waiting = ", ".join(f"{actor.label} at {actor.effect.point}" for actor in self.actors)
            self.troubles.append(f"every thread waits: {waiting}")
            self.actors.clear()

    def perform(self, actor: Actor) -> None:
        """Do the effect that the thread stands before."""
        effect = actor.effect
        if self._trace is not None:
            self.say(f"{self.steps:4} {actor.label:18} {_words(effect)}")
        self._digest.update(f"{actor.label}{effect.point}".encode())
        try:
            result = self._do(actor)
        except (TidegateError, SparkStopped, TaskFailed) as error:
            actor.throw(error)
        except DiskFull as error:
            actor.throw(failure(actor, str(error)))
        else:
            actor.send(result)
        if not actor.alive:
            self.ended(actor)

    def _do(self, actor: Actor) -> Any:
        effect = actor.effect
        if isinstance(effect, Do):
            return effect.act()
        if isinstance(effect, Until) or actor.part is None:
            return None
        if not actor.part.driver.python.alive:
            raise SparkStopped(Reason.STRUCK, "the Python part is gone")
        return do(actor.part, effect)

    def do_quietly(self, actor: Actor) -> None:
        """Do the effect, and keep its result from the thread."""
        try:
            self._do(actor)
        except (TidegateError, SparkStopped, TaskFailed, DiskFull):
            self.count("an effect that failed by itself")

    def fail(self, actor: Actor) -> None:
        """The effect raises."""
        actor.throw(failure(actor, "struck"))
        if not actor.alive:
            self.ended(actor)

    # --- threads and processes -----------------------------------------------------------------------------

    def add(self, actor: Actor) -> None:
        self.actors.append(actor)

    def ended(self, actor: Actor) -> None:
        """A thread has come to its end, well or badly."""
        if actor in self.actors:
            self.actors.remove(actor)
        for driver in self.drivers:
            if driver.main is actor:
                if actor.error is not None:
                    self.say(f"driver {driver.number} stopped: {str(actor.error).splitlines()[0]}")
                    self.judge([actor.error], driver)
                self.kill_python(driver)
                self.kill_jvm(driver, keeps=lambda _: False)
            elif actor.error is not None and isinstance(actor.error, TidegateError | SparkStopped):
                self.say(f"{actor.label}: {str(actor.error).splitlines()[0]}")
        if not isinstance(actor.error, TidegateError | SparkStopped | TaskFailed | None):
            self.troubles.append(f"{actor.label}: {type(actor.error).__name__}: {actor.error}")

    def end(self, actor: Actor) -> None:
        """The thread is gone with its process."""
        actor.end()
        if actor in self.actors:
            self.actors.remove(actor)

    def kill_python(self, driver: Driver) -> None:
        """Its threads are gone; the JVM goes on until it needs them, but not for long."""
        driver.python.alive = False
        for actor in [each for each in self.actors if each.process is driver.python]:
            self.end(actor)
        if driver.jvm.alive and driver.jvm.dies_at is None:
            driver.jvm.dies_at = self.now + (40, 300)[driver.number % 2]

    def kill_jvm(self, driver: Driver, keeps: Callable[[Actor], bool]) -> None:
        """Its threads are gone, but what Python is doing for them; some attempts go on without it."""
        driver.jvm.alive = False
        for actor in list(self.actors):
            in_jvm = isinstance(actor.effect, Do | Until) or not driver.python.alive
            if in_jvm if actor.process is driver.jvm else actor.process in driver.workers and not keeps(actor):
                self.end(actor)
        for worker in driver.workers:
            worker.alive = any(actor.process is worker for actor in self.actors)

    def _reap(self) -> None:
        """What waits for a process that is gone is gone too."""
        for driver in self.drivers:
            jvm = driver.jvm
            if jvm.alive and jvm.dies_at is not None and max(jvm.dies_at, jvm.asleep_until) <= self.now:
                self.kill_jvm(driver, keeps=lambda _: False)
            if not jvm.alive:
                for part in driver.parts:
                    stream = part.stream
                    if stream is not None and stream.alive and isinstance(stream.effect, Do | Until):
                        self.end(stream)
                for worker in driver.workers:
                    worker.alive = worker.alive and any(actor.process is worker for actor in self.actors)

    def _has_orphans(self) -> bool:
        return any(driver.jvm.alive and not driver.python.alive for driver in self.drivers)

    def _is_driven(self) -> bool:
        return any(driver.python.alive for driver in self.drivers) or (not self.healing and self._starts >= MOST_STARTS)

    def start(self) -> None:
        """Start a driver, unless the locks of another one say that it is alive."""
        self.drivers = [driver for driver in self.drivers if driver.alive or driver is self.drivers[-1]]
        if self.plan.local_lease and any(driver.python.alive or driver.jvm.alive for driver in self.drivers):
            self.count("start refused")
            return
        self._starts += 1
        self.say(f"---- driver {self._starts} starts")
        self.drivers.append(Driver(self, self._starts))

    # --- what the parts of the world ask for ----------------------------------------------------------------

    def checkpoint(self, index: int, generation: int) -> FillableDisk:
        """The folder of one query in one generation."""
        return self._checkpoints.setdefault((index, generation), FillableDisk())

    def checkpoints(self) -> list[FillableDisk]:
        return [*self._checkpoints.values(), self.target]

    def sinks_of(self, index: int, generation: int) -> list[SimSink]:
        """The sinks of one query in one generation: the targets are the same in all."""
        key = index, generation
        if key not in self._sinks:
            query = self.plan.query(index, generation)
            self._sinks[key] = [self._open_sink(index, generation, uid, query.local_lease) for uid in query.sinks]
        return self._sinks[key]

    def _open_sink(self, index: int, generation: int, uid: str, one_run: bool) -> SimSink:
        query = self.plan.query(index, generation)
        identity, disk = query.sink(uid), self.checkpoint(index, -1)
        key = index, uid

        def show(sink: str, epoch: int, rows: Rows) -> None:
            self._shown(index, generation, sink, epoch, rows)

        match uid[0]:
            case "s":
                table = self._tables.setdefault(key, Table())
                return StagedSink(identity, disk, show, one_run=one_run, table=table)
            case "k":
                return SlottedSink(identity, disk, show, one_run=one_run, broker=self.broker)
            case "x":
                database = self._databases.setdefault(key, Database())
                return BranchSink(identity, disk, show, one_run=one_run, database=database)
            case _:
                return FilesSink(identity, disk, show, one_run=one_run)

    def databases(self) -> list[Database]:
        return list(self._databases.values())

    def served(self, act: Callable[[], ResultT]) -> ResultT:
        """A task's step that needs a server."""
        if self.is_down:
            raise TaskFailed
        return act()

    @property
    def is_down(self) -> bool:
        return self.down_until > self.now

    def new_token(self) -> str:
        self._tokens += 1
        return f"{self._tokens:08x}"

    def new_execution(self, part: Part) -> int:
        """A number for one computing of an epoch: not while too many decided ones are unfinished."""
        done = max((int(name) for name in part.disk.names(DONE)), default=-1)
        unfinished = [name for name in part.disk.names(DECIDED) if int(name) > done and not _is_seal(part.disk, name)]
        if len(unfinished) > part.configuration.max_concurrent:
            self.troubles.append(f"an epoch is computed while {len(unfinished)} decided ones are unfinished")
        number = len(self.generation_of) + 1
        self.generation_of[number] = part.query.generation
        self._run_of[number] = -1 if part.run is None else part.run.run
        return number

    def is_raising_generation(self) -> bool:
        return self.wanted_generation > self.generation

    def opening_generation(self, older: int) -> Do:
        """The step that makes the generation after `older` the job's: a put-if-absent."""

        def act() -> None:
            if self.generation != older:
                self.count("put came second: generation")
                raise opened_by_another(older)
            for index in range(len(self.plan.queries)):
                disk = self.checkpoint(index, older)
                decided = [int(name) for name in disk.names(DECIDED) if not _is_seal(disk, name)]
                self.closed[index, older] = max([*map(int, disk.names(DONE)), *decided], default=-1)
            self.generation = older + 1
            self.count("generation opened")

        return Do("generation", act)

    def count(self, word: str, times: int = 1) -> None:
        self.figures[word] += times

    # --- what an onlooker sees -----------------------------------------------------------------------------

    def _shown_by_broker(self, attempt: Attempt, rows: Rows) -> None:
        self._shown(len(attempt.sink.query) - 1, attempt.sink.generation, attempt.sink.sink, attempt.epoch, rows)

    def _shown(self, index: int, generation: int, sink: str, epoch: int, rows: Rows) -> None:
        name = entry(DECIDED, epoch)
        decided = self.checkpoint(index, generation).read_bytes(name)
        if decided is not None and is_of_kind(Sealed, decided):
            self.troubles.append(f"{sink}: {len(rows)} rows of epoch {epoch} shown, which is sealed")
        elif decided is None:
            self.troubles.append(f"{sink}: {len(rows)} rows of epoch {epoch} shown before it was decided")
        elif {self._run_of[row.execution] for row in rows} != {run := decode(Decided, decided, name).run}:
            self.troubles.append(f"{sink}: rows of epoch {epoch} shown that are not those of run {run}, decided on")

    def judge(self, errors: Sequence[Exception], driver: Driver) -> None:
        """A run may stop with a declared error, and with those that its faults call for."""
        for error in errors:
            self.stops.append(error)
            label = error.code if isinstance(error, TidegateError) else "Spark"
            self.count(f"stop: {label}")
            if not self._is_declared(error):
                self.troubles.append(f"driver {driver.number}: {type(error).__name__}: {error}")

    def _judge_fresh(self, driver: Driver) -> None:
        if driver.main.error is not None and not self.declared_stop:
            self.troubles.append(f"the fresh driver {driver.number} stopped: {driver.main.error}")

    def _is_declared(self, error: Exception) -> bool:
        if isinstance(error, SparkStopped):
            # Beside a driver that still mends the log an entry may be away for a moment: the next start finds it.
            beside = (Reason.CONCURRENT, Reason.LOG_HOLE)
            return error.reason in (Reason.STRUCK, Reason.TASK_FAILED) or (
                error.reason in beside and not self.plan.local_lease
            )
        if not isinstance(error, TidegateError):
            return False
        code = error.catalogue_entry
        if any(fault in self.injector.struck for fault in _CALLED_FOR.get(code, ())):
            if code is not Code.OFFSETS_BACKWARDS:
                self.declared.append(error.code)
            return True
        return code.remedy in (Remedy.RESTART, Remedy.SURROUNDINGS)

    def fingerprint(self, text: str) -> None:
        """Make `text` part of the digest."""
        self._digest.update(text.encode())

    def say(self, text: str) -> None:
        """A line of the trace, if one is kept."""
        if self._trace is not None:
            self._trace.append(text)


def _is_seal(disk: FillableDisk, name: str) -> bool:
    data = disk.read_bytes(entry(DECIDED, int(name)))
    return data is not None and is_of_kind(Sealed, data)


def opened_by_another(older: int) -> TidegateError:
    """What a driver raises that wanted to open the generation after `older`, and was slower than another one."""
    return TidegateError(
        Code.GENERATION_SEALED,
        expected=f"to open the generation after {older}",
        found="another driver has opened it",
        where="the world",
    )


_CALLED_FOR: Final[dict[Code, tuple[Fault, ...]]] = {
    Code.OFFSETS_BACKWARDS: (Fault.SOURCE_BACK,),
    Code.TRANSACTION_UNKNOWN: (Fault.EXPIRE_EVIDENCE,),
    Code.SINK_BEHIND: (Fault.EXPIRE_EVIDENCE,),
    Code.SECOND_TIMELINE: (Fault.EXPIRE_EVIDENCE,),
}
"""Errors that somebody has to decide on, each with the faults without which it must not come up."""


def failure(actor: Actor, found: str) -> Exception:
    """What a step raises that cannot be done: in a task, in Spark, in the protocol."""
    if isinstance(actor.effect, Do | Until):
        return TaskFailed() if actor.effect.point.startswith("task.") else SparkStopped(Reason.STRUCK, found)
    return TidegateError(
        Code.STORAGE_UNUSABLE, expected="an answer", found=found, where="the world", next_step="start again"
    )


def _words(effect: Any) -> str:
    """An effect in one line of a trace."""
    if isinstance(effect, Do | Until):
        return effect.point
    if isinstance(effect, Tell):
        return f"Tell {effect.happening}"[:100]
    fields = (f"{name}={getattr(effect, name)!r}"[:60] for name in effect.__dataclass_fields__ if name != "data")
    return f"{type(effect).__name__} {' '.join(fields)}"

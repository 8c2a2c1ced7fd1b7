"""One run: drivers one after another (or side by side), strikes at their steps, a heal, and what was seen."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Final

from tests.world.cases import POWER, POWER_OF, Case, Hit, Strike
from tests.world.checker import History, check
from tests.world.configurations import CONFIGURATIONS, TIMEOUT_SECONDS, Configuration, Work
from tests.world.disk import OFFSETS, Disk
from tests.world.driver import READS, Driver, Thread
from tests.world.engine import Do, Reason, SparkStopped, TaskFailed, read_offsets, surviving
from tests.world.sinks import KafkaSink, Rows, SimSink, open_sinks
from tidegate.core import effects as asked
from tidegate.core.effects import Effect
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import DECIDED, DONE, OVERDUE, START
from tidegate.core.next_steps import Remedy
from tidegate.core.records import Answer, Committable, Outcome

MOST_STEPS: Final = 6000
MOST_STARTS: Final = 12


@dataclass(frozen=True, slots=True)
class Point:
    """One step of a run: what could have struck there."""

    at: int
    hits: tuple[Hit, ...]
    changes: bool


def run_case(case: Case, trace: list[str] | None = None) -> list[str]:
    """Run one case; what is wrong with it."""
    world = World(CONFIGURATIONS[case.configuration], case.strikes, trace=trace)
    return check(world.run())


def points_of(case: Case) -> list[Point]:
    """The steps after the last strike of a case, up to the heal, at which one more could strike."""
    world = World(CONFIGURATIONS[case.configuration], case.strikes, points=[])
    world.run()
    return world.points or []


class World:
    """A disk, two sinks, and the drivers of one query."""

    def __init__(
        self,
        configuration: Configuration,
        strikes: tuple[Strike, ...] = (),
        *,
        trace: list[str] | None = None,
        points: list[Point] | None = None,
    ) -> None:
        self.configuration = configuration
        self.query = configuration.query
        self.disk = Disk()
        self.sinks: list[SimSink] = open_sinks(self.query, self.disk, self._show)
        self.drivers: list[Driver] = []
        self.points = points
        self._trace = trace
        self._strikes = list(strikes)
        self._countdown = strikes[0].at if strikes else -1
        self._steps = 0
        self._starts = 0
        self._executions = 0
        self._delayed: list[tuple[KafkaSink, Committable]] = []
        self._in_turns = False
        self._healing = False
        self._premature: list[str] = []
        self._troubles: list[str] = []
        self._cut_offs = 0
        self._most_cut_offs = _cut_offs_needed(configuration) + len(strikes) * (1 if self.query.local_lease else 2)
        self._disturbed: set[int] = set()
        self.stops: list[Exception] = []

    def run(self) -> History:
        """The strikes, then the heal: one fresh driver, which must come to rest with everything done."""
        self._go_on()
        self._deliver()
        self._strikes, self._countdown, self._healing = [], -1, True
        self._start()
        self._go_on()
        return self.observe()

    def sink(self, uid: str) -> SimSink:
        return self.sinks[self.query.sinks.index(uid)]

    def new_execution(self) -> int:
        """A number for one computing of an epoch: not while too many decided ones are unfinished."""
        done = max((int(name) for name in self.disk.names(DONE)), default=-1)
        unfinished = [name for name in self.disk.names(DECIDED) if int(name) > done]
        if len(unfinished) > self.configuration.max_concurrent:
            self._premature.append(f"an epoch is computed while {len(unfinished)} decided ones are unfinished")
        self._executions += 1
        return self._executions

    def after_recovery(self) -> Generator[Do, Any, None]:
        """Nothing: there is one generation."""
        yield from ()

    # --- drivers -------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Let the drivers run, and start the next one, until the newest has come to its end."""
        while self._steps < MOST_STEPS:
            chosen = self._pick()
            if chosen is not None:
                self._step(*chosen)
            elif any(driver.paused for driver in self.drivers):
                self._resume()
            elif any(driver.alive for driver in self.drivers):
                self._troubles.append("every driver waits, and none can go on")
                return
            else:
                self._bury()
                if self.drivers[-1:] and self.drivers[-1].completed:
                    return
                if self._starts == MOST_STARTS:
                    break
                self._start()
        self._troubles.append(f"no end after {self._steps} steps and {self._starts} starts")

    def _start(self) -> None:
        self._starts += 1
        self.drivers = [driver for driver in self.drivers if driver.alive]
        self._disturbed |= {driver.number for driver in self.drivers}
        if self.drivers:
            self._disturbed.add(self._starts)
        self.drivers.append(Driver(self, self._starts))
        self._say(f"---- driver {self._starts} starts")

    def _bury(self) -> None:
        """Look at how the drivers have ended: with declared errors, and never without a reason."""
        for driver in self.drivers:
            self.stops += driver.errors
            for error in driver.errors:
                self._say(f"driver {driver.number} stopped: {str(error).splitlines()[0]}")
                if not self._is_declared(error):
                    self._troubles.append(f"driver {driver.number}: {type(error).__name__}: {error}")
                elif isinstance(error, SparkStopped) and error.reason is Reason.OVERDUE:
                    self._cut_offs += 1
                elif driver.number not in self._disturbed:
                    self._troubles.append(f"driver {driver.number} stopped without a reason: {error}")

    def _is_declared(self, error: Exception) -> bool:
        if isinstance(error, TidegateError):
            return error.catalogue_entry.remedy is Remedy.RESTART or error is _STRUCK
        if isinstance(error, SparkStopped):
            concurrent = error.reason is Reason.CONCURRENT and not self.configuration.local_lease
            return concurrent or error.reason in (Reason.STRUCK, Reason.TASK_FAILED, Reason.OVERDUE)
        return False

    def _pick(self) -> tuple[Driver, Thread] | None:
        """The next step: of the driver that goes first, or of the other one when it waits."""
        for driver in self.drivers:
            if not driver.paused and driver.alive:
                thread = driver.pick()
                if thread is not None:
                    if self._in_turns:
                        self.drivers.remove(driver)
                        self.drivers.append(driver)
                    return driver, thread
        return None

    def _resume(self) -> None:
        for driver in self.drivers:
            driver.paused = False
        self.drivers.sort(key=lambda driver: driver.number)

    # --- steps ---------------------------------------------------------------------------------------------

    def _step(self, driver: Driver, thread: Thread) -> None:
        if self._countdown == 0:
            strike = self._strikes.pop(0)
            self._countdown = self._strikes[0].at if self._strikes else -1
            self._say(f"**** {strike}")
            self._strike(strike.hit, driver, thread)
            return
        self._countdown -= 1
        if self.points is not None and self._countdown < 0 and not self._healing:
            self._record(driver, thread)
        self._steps += 1
        if self._trace is not None:
            self._say(f"{self._steps:4} {driver.number} {thread.name:8} {_words(thread.effect)}")
        driver.perform(thread)

    def _strike(self, hit: Hit, driver: Driver, thread: Thread) -> None:
        if hit not in _HARMLESS:
            self._disturbed.add(driver.number)
        if hit in _AT_A_COMMIT:
            self._strike_commit(hit, driver, thread)
        elif hit in POWER:
            self._lose_power(hit)
        elif hit in (Hit.ERROR, Hit.LOST, Hit.TASK):
            self._strike_step(hit, driver, thread)
        else:
            self._strike_driver(hit, driver)

    def _strike_driver(self, hit: Hit, driver: Driver) -> None:
        match hit:
            case Hit.KILL:
                driver.kill()
            case Hit.JVM:
                driver.kill_python()
                if not self.query.local_lease:
                    self._pause(driver)
            case Hit.PAUSE:
                self._pause(driver)
            case Hit.RUSH | Hit.TURNS:
                self._in_turns = hit is Hit.TURNS
                self._resume()
            case Hit.TIMEOUT:
                for sink in self.sinks:
                    sink.time_out()
            case _:
                self._deliver()

    def _strike_step(self, hit: Hit, driver: Driver, thread: Thread) -> None:
        """The step raises; with LOST it is done nevertheless."""
        effect = thread.effect
        try:
            if hit is Hit.LOST:
                driver.do(effect)
        except (TidegateError, SparkStopped) as error:
            driver.throw(thread, error)
        else:
            error = _SPARK_STRUCK if isinstance(effect, Do) else _STRUCK
            driver.throw(thread, TaskFailed() if hit is Hit.TASK else error)

    def _lose_power(self, hit: Hit) -> None:
        for driver in self.drivers:
            self._disturbed.add(driver.number)
            driver.kill()
        self.disk.lose_power(POWER[hit])

    def _strike_commit(self, hit: Hit, driver: Driver, thread: Thread) -> None:
        effect = thread.effect
        if not isinstance(effect, asked.CommitSink):
            return
        sink = self.sink(effect.sink)
        match hit:
            case Hit.MUTE:
                sink.commit(effect.committables)
            case Hit.DELAY if isinstance(sink, KafkaSink):
                self._delayed += [(sink, committable) for committable in effect.committables]
            case Hit.HALF | Hit.HALF_POWER:
                sink.commit_half(effect.committables[0])
                driver.kill()
                if hit is Hit.HALF_POWER:
                    self._lose_power(Hit.POWER_DROP)
                return
            case _:
                pass
        driver.send(thread, [Answer(outcome=Outcome.RETRY, detail="no answer") for _ in effect.committables])

    def _deliver(self) -> None:
        for sink, committable in self._delayed:
            sink.end_transaction(committable)
        self._delayed.clear()

    def _pause(self, driver: Driver) -> None:
        """The driver stands still, long enough for a successor to start."""
        driver.paused = True
        self._start()

    def _record(self, driver: Driver, thread: Thread) -> None:
        effect = thread.effect
        if isinstance(effect, asked.Tell) or (isinstance(effect, asked.Get | asked.Recall) and effect.name == START):
            return  # nothing to lose, nothing that could have changed
        changes = not isinstance(effect, READS)
        hits = [Hit.KILL, Hit.ERROR]
        if changes:
            hits += [Hit.LOST, *(POWER_OF[loss] for loss in self.disk.losses())]
            hits += self._special(effect, driver)
        if not self.query.local_lease and not any(each.paused for each in self.drivers):
            hits.append(Hit.PAUSE)
        at = -1 - self._countdown - 1
        if self.points is not None:
            self.points.append(Point(at, tuple(hits), changes))

    def _special(self, effect: Effect | Do, driver: Driver) -> list[Hit]:
        hits: list[Hit] = []
        if isinstance(effect, asked.CommitSink):
            hits += [Hit.RETRY, Hit.MUTE]
            sink = self.sink(effect.sink)
            if isinstance(sink, KafkaSink):
                hits.append(Hit.DELAY)
            if len(effect.committables) > 1 and effect.sink[0] != "s":
                hits += [Hit.HALF, Hit.HALF_POWER]
        if isinstance(effect, Do):
            hits.append(Hit.JVM)
            if effect.point.startswith("task."):
                hits.append(Hit.TASK)
        if any(sink.pending() for sink in self.sinks):
            hits.append(Hit.TIMEOUT)
        return hits

    # --- what an onlooker sees -----------------------------------------------------------------------------

    def _show(self, sink: str, epoch: int, rows: Rows) -> None:
        if str(epoch) not in self.disk.names(DECIDED):
            self._premature.append(f"{sink}: {len(rows)} rows of epoch {epoch} shown before it was decided")

    def observe(self) -> History:
        """What stands there now."""
        if self._cut_offs > self._most_cut_offs:
            self._troubles.append(f"an epoch was cut off {self._cut_offs} times")
        logged: dict[int, tuple[int, int]] = {}
        for name in self.disk.names(OFFSETS):
            if name.isdigit():
                try:
                    logged[int(name)] = read_offsets(self.disk, int(name))
                except SparkStopped as error:
                    self._troubles.append(str(error))
        return History(
            wanted=frozenset(range(self.configuration.records)) - self.configuration.filtered,
            visible={sink.identity.sink: sink.visible() for sink in self.sinks},
            surviving=self._surviving(),
            logged=logged,
            finished=max((int(name) for name in self.disk.names(DONE)), default=-1),
            kept=self.configuration.retain + 1,
            evidence={sink.identity.sink: _epoch_of(sink) for sink in self.sinks},
            leftovers=[*(each for sink in self.sinks for each in sink.leftovers()), *self.disk.names(OVERDUE)],
            premature=self._premature,
            troubles=self._troubles,
        )

    def _surviving(self) -> tuple[int, ...]:
        if self.configuration.work is Work.STATELESS:
            return ()
        try:
            return surviving(self.disk)
        except SparkStopped as error:
            self._troubles.append(str(error))
            return ()

    def _say(self, text: str) -> None:
        if self._trace is not None:
            self._trace.append(text)


_HARMLESS: Final = frozenset({Hit.RETRY, Hit.MUTE, Hit.DELAY, Hit.DELIVER, Hit.TASK, Hit.RUSH, Hit.TURNS})
_AT_A_COMMIT: Final = frozenset({Hit.RETRY, Hit.MUTE, Hit.DELAY, Hit.HALF, Hit.HALF_POWER})
_STRUCK: Final = TidegateError(
    Code.STORAGE_UNUSABLE, expected="an answer", found="an error", where="the world", next_step="start again"
)
_SPARK_STRUCK: Final = SparkStopped(Reason.STRUCK, "the world")


def _cut_offs_needed(configuration: Configuration) -> int:
    """So often a slow epoch is cut off until it has the time that it needs, which doubles each time. A driver that dies
    before it has kept how long its try was, and two side by side, add a try."""
    _, needed = configuration.slow or (0, TIMEOUT_SECONDS)
    return math.ceil(math.log2(needed / TIMEOUT_SECONDS))


def _epoch_of(sink: SimSink) -> int | None:
    position = sink.position()
    return None if position is None else position.epoch


def _words(effect: Effect | Do) -> str:
    """An effect in one line of a trace."""
    if isinstance(effect, Do):
        return effect.point
    fields = (f"{name}={getattr(effect, name)!r}"[:60] for name in effect.__dataclass_fields__ if name != "data")
    return f"{type(effect).__name__} {' '.join(fields)}"

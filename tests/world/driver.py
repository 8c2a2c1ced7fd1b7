"""A driver of the query: the protocol's generators in two threads, and how the world does their effects."""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, Protocol

from tests.world.configurations import TIMEOUT_SECONDS, Configuration, Schedule
from tests.world.disk import COMMITS, Disk
from tests.world.engine import Do, Engine, Reason, SparkSteps, SparkStopped
from tests.world.sinks import Fences, SimSink
from tidegate.core import effects as asked
from tidegate.core.effects import Effect
from tidegate.core.epoch import run_epoch
from tidegate.core.epoch_time import note_overdue, times_by_epoch
from tidegate.core.errors import TidegateError
from tidegate.core.finish_steadily import finish_as_they_come
from tidegate.core.happenings import EpochDone
from tidegate.core.ledger import Query, read_finished
from tidegate.core.records import Run
from tidegate.core.recover import close_run, open_run
from tidegate.core.spark_log import parse_commits


class Surroundings(Protocol):
    """What a driver finds when it starts, and leaves behind."""

    configuration: Configuration
    sinks: list[SimSink]

    @property
    def query(self) -> Query: ...
    @property
    def disk(self) -> Disk: ...
    def sink(self, uid: str) -> SimSink: ...
    def new_execution(self) -> int:
        """A number for one computing of an epoch."""
        ...

    def after_recovery(self) -> Generator[Do, Any, None]:
        """What a start does between recovery and Spark."""
        ...


class Life(Enum):
    """How a thread stands."""

    ALIVE = "alive"
    ENDED = "ended"
    FAILED = "failed"


class Thread:
    """A generator that stands before its next effect."""

    __slots__ = ("_steps", "effect", "error", "life", "name")

    def __init__(self, name: str, steps: Generator[Effect | Do, Any, None]) -> None:
        self.name = name
        self.life = Life.ALIVE
        self.error: Exception | None = None
        self._steps = steps
        self.effect: Effect | Do = next(steps)

    def send(self, result: object) -> None:
        """Hand the effect's result over, and go on to the next effect."""
        try:
            self.effect = self._steps.send(result)
        except StopIteration:
            self.life = Life.ENDED
        except Exception as error:  # noqa: BLE001 (kept: the checker says whether it was a declared one)
            self._fail(error)

    def throw(self, error: Exception) -> None:
        """Let the effect raise."""
        try:
            self.effect = self._steps.throw(error)
        except Exception as raised:  # noqa: BLE001
            self._fail(raised)

    def _fail(self, error: Exception) -> None:
        self.life = Life.FAILED
        self.error = error


class Driver:
    """One start of the query: a stream thread (recovery, then Spark), and a finisher beside it."""

    def __init__(self, world: Surroundings, number: int) -> None:
        self.number = number
        self.paused = False
        self.fences: Fences = {}
        self.finished = -1
        """The newest epoch that this driver knows to be finished."""
        self.written: dict[str, bytes] = {}
        """What this driver has written last, by name."""
        self.run: Run | None = None
        self.engine: Engine | None = None
        self.world = world
        self._configuration: Configuration = world.configuration
        self._query: Query = world.query
        self.stream = Thread("stream", self._stream())
        self.finisher: Thread | None = None
        self._closing: Thread | None = None
        self._is_epoch_due = False
        self._python_gone = False
        self._in_turns = world.configuration.schedule is Schedule.TURNS
        self._alive = [self.stream]

    @property
    def completed(self) -> bool:
        """Whether the run has come to its own end: everything finished, nothing due."""
        closed = self._closing is not None and self._closing.life is Life.ENDED
        return closed and not self._is_epoch_due and self.overdue is None

    @property
    def overdue(self) -> tuple[int, float] | None:
        """The epoch that was cut off, and the seconds that it had."""
        return None if self.engine is None else self.engine.overdue

    @property
    def errors(self) -> list[Exception]:
        return [thread.error for thread in self._threads() if thread.error is not None]

    def kill(self) -> None:
        for thread in self._alive:
            thread.life = Life.FAILED
        self._look_who_lives()

    def kill_python(self) -> None:
        """The JVM lives on until it needs the Python part."""
        self._python_gone = True
        for thread in self._alive:
            if thread is not self.stream:
                thread.life = Life.FAILED
        self._look_who_lives()

    def pick(self) -> Thread | None:
        """The thread whose turn it is, None when all wait for another driver or have ended."""
        for index, thread in enumerate(self._alive):
            if self._is_ready(thread.effect):
                if self._in_turns and len(self._alive) > 1:
                    self._alive.append(self._alive.pop(index))
                return thread
        return None

    def perform(self, thread: Thread) -> None:
        """Do the effect that the thread stands before."""
        effect = thread.effect
        if self._python_gone and not isinstance(effect, Do):
            self.kill()
            return
        try:
            result = _DO[type(effect)](self, effect)
        except (TidegateError, SparkStopped) as error:
            self.throw(thread, error)
        else:
            self.send(thread, result)

    def send(self, thread: Thread, result: object) -> None:
        """Let the effect give `result`."""
        thread.send(result)
        if thread.life is not Life.ALIVE:
            self._look_who_lives()

    def throw(self, thread: Thread, error: Exception) -> None:
        """Let the effect raise."""
        thread.throw(error)
        if thread.life is not Life.ALIVE:
            self._look_who_lives()

    @property
    def alive(self) -> bool:
        return bool(self._alive)

    def do(self, effect: Effect | Do) -> Any:
        """Do an effect outside of its thread."""
        return _DO[type(effect)](self, effect)

    # --- the threads ---------------------------------------------------------------------------------------

    def _stream(self) -> SparkSteps:
        run = yield from open_run(self._query)
        self.run = run
        self.finished = yield from read_finished()
        yield from self.world.after_recovery()
        times: dict[int, float] = {}
        if self._configuration.slow is not None:
            times = yield from times_by_epoch(TIMEOUT_SECONDS)
        self.finisher = Thread("finisher", finish_as_they_come(self._query, run, times))
        self._look_who_lives()
        self.engine = Engine(
            self._configuration,
            self.world.disk,
            self.world.sinks,
            run,
            self.world.new_execution,
            lambda epoch: run_epoch(self._query, run, epoch),
            times,
        )
        yield from self.engine.run()

    def _threads(self) -> list[Thread]:
        return [thread for thread in (self.stream, self.finisher, self._closing) if thread is not None]

    def _look_who_lives(self) -> None:
        """A run whose threads have come to their ends is closed, and so is one whose epoch was cut off; one that
        failed otherwise, or was killed, is not."""
        threads = self._threads()
        if self._closing is None and self.finisher is not None and all(map(self._has_ended, threads)):
            self._closing = Thread("closing", self._close())
            threads.append(self._closing)
        if self._configuration.schedule is Schedule.FINISHER_FIRST:
            threads.reverse()
        self._alive = [thread for thread in threads if thread.life is Life.ALIVE]

    def _has_ended(self, thread: Thread) -> bool:
        cut_off = isinstance(thread.error, SparkStopped) and thread.error.reason is Reason.OVERDUE
        return thread.life is Life.ENDED or cut_off

    def _close(self) -> Generator[Effect, Any, None]:
        if self.run is not None:
            if self.overdue is not None:
                yield from note_overdue(self._query, self.run, *self.overdue)
            self._is_epoch_due = yield from close_run(self._query, self.run)

    def _is_ready(self, effect: Effect | Do) -> bool:
        if isinstance(effect, asked.AwaitCommits):
            return self.stream.life is not Life.ALIVE or self.sees_commits_above(effect.epoch)
        if isinstance(effect, asked.AwaitFinished):
            return self._finisher_failed() or self.finished >= effect.epoch
        return True

    def _finisher_failed(self) -> bool:
        return self.finisher is not None and self.finisher.life is not Life.ALIVE

    def sees_commits_above(self, epoch: int) -> bool:
        """Whether there is a whole commits entry of a later epoch, or Spark has begun an epoch behind it."""
        waits = self.stream.effect
        if isinstance(waits, asked.AwaitFinished) and self.stream.life is Life.ALIVE and waits.epoch > epoch:
            return True
        disk = self.world.disk
        later = [name for name in disk.names(COMMITS) if name.isdigit() and int(name) > epoch]
        return any(parse_commits(disk.read_bytes(f"{COMMITS}/{name}")) is not None for name in later)

    def sink(self, uid: str) -> SimSink:
        return self.world.sink(uid)


# --- the effects -------------------------------------------------------------------------------------------


def _await_finished(driver: Driver, effect: asked.AwaitFinished) -> int:
    finisher = driver.finisher
    if driver.finished < effect.epoch and finisher is not None and finisher.error is not None:
        raise finisher.error
    return driver.finished


def _put_if_absent(driver: Driver, effect: asked.PutIfAbsent) -> bool:
    created = driver.world.disk.put_if_absent(effect.name, effect.data)
    if created:
        driver.written[effect.name] = effect.data
    return created


def _replace(driver: Driver, effect: asked.Replace) -> None:
    driver.world.disk.put(effect.name, effect.data)
    driver.written[effect.name] = effect.data


def _delete(driver: Driver, effect: asked.Delete) -> None:
    driver.written.pop(effect.name, None)
    driver.world.disk.delete(effect.name)


def _delete_all(driver: Driver, effect: asked.DeleteAll) -> None:
    for name in effect.names:
        _delete(driver, asked.Delete(name, effect.point))


def _tell(driver: Driver, effect: asked.Tell) -> None:
    if isinstance(effect.happening, EpochDone):
        driver.finished = effect.happening.epoch


def _introduce(driver: Driver, effect: asked.Introduce) -> tuple[str, str, int, str]:
    return f"token{driver.number}", "host", driver.number, "now"


def _clean(driver: Driver, effect: asked.CleanThrough) -> None:
    for sink in driver.world.sinks:
        sink.clean(effect.epoch)


def _discard(driver: Driver, effect: asked.DiscardFrom) -> int:
    for sink in driver.world.sinks:
        sink.discard(effect.epoch)
    return 0


_DO: dict[type[Effect | Do], Callable[[Driver, Any], Any]] = {
    Do: lambda driver, effect: effect.act(),
    asked.Get: lambda driver, effect: driver.world.disk.read_bytes(effect.name),
    asked.Peek: lambda driver, effect: driver.world.disk.read_bytes(effect.name),
    asked.Recall: lambda driver, effect: driver.written.get(effect.name) or driver.world.disk.read_bytes(effect.name),
    asked.List: lambda driver, effect: driver.world.disk.names(effect.folder),
    asked.PutIfAbsent: _put_if_absent,
    asked.Replace: _replace,
    asked.Delete: _delete,
    asked.DeleteAll: _delete_all,
    asked.SetAside: lambda driver, effect: driver.world.disk.set_aside(effect.name),
    asked.SyncCheckpoint: lambda driver, effect: driver.world.disk.sync_checkpoint(),
    asked.AwaitFinished: _await_finished,
    asked.AwaitCommits: lambda driver, effect: driver.sees_commits_above(effect.epoch),
    asked.Introduce: _introduce,
    asked.Hesitate: lambda driver, effect: None,
    asked.CommitSink: lambda driver, effect: driver.sink(effect.sink).commit(effect.committables),
    asked.LookForEvidence: lambda driver, effect: driver.sink(effect.sink).evidence(effect.committable),
    asked.FenceTransaction: lambda driver, effect: driver.sink(effect.sink).fence(effect.committable, driver.fences),
    asked.RedoTransaction: lambda driver, effect: driver.sink(effect.sink).redo(effect.committable, driver.fences),
    asked.ListOpen: lambda driver, effect: driver.sink(effect.sink).pending(),
    asked.AbortOpen: lambda driver, effect: driver.sink(effect.sink).abort(effect.transactions),
    asked.ReadPosition: lambda driver, effect: driver.sink(effect.sink).position(),
    asked.BeginRun: lambda driver, effect: None,
    asked.CleanThrough: _clean,
    asked.DiscardFrom: _discard,
    asked.Tell: _tell,
}
READS = (
    asked.Get,
    asked.Peek,
    asked.Recall,
    asked.List,
    asked.LookForEvidence,
    asked.ListOpen,
    asked.ReadPosition,
    asked.BeginRun,
    asked.Tell,
)
"""Effects that leave the world as it is."""

"""Spark in the simulation: tasks as threads of executors (retries, speculation, zombies), and logs of file sources."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.simulator.branches import BranchSink
from tests.simulator.kafka import SlottedSink
from tests.simulator.processes import Actor, ActorSteps, Process, Until
from tests.simulator.slots import Lease, Turn
from tests.world.configurations import TASKS, Work
from tests.world.disk import STATE
from tests.world.engine import NO_STATE, Batch, Do, Engine, Reason, SparkStopped
from tests.world.rows import compute
from tests.world.sinks import Rows, SimSink
from tidegate.core.effects import Compute, Computed, Steps
from tidegate.core.ledger import SOURCES
from tidegate.core.records import Committable, Prepared, Run

if TYPE_CHECKING:
    from tests.simulator.driver import Part

MOST_ATTEMPTS: Final = 4
"""`spark.task.maxFailures`."""
_SOURCE_ENTRY: Final = b"v1\n{}"


@dataclass(slots=True)
class Task:
    """One task of an epoch: its attempts so far, and what the first one that came back has given."""

    number: int
    attempts: list[Actor] = field(default_factory=list[Actor])
    written: list[Committable] | None = None
    state_id: str = NO_STATE

    def needs_retry(self) -> bool:
        return self.written is None and not any(actor.alive for actor in self.attempts)

    def report(self, written: list[Committable], state_id: str) -> None:
        """The first attempt that comes back counts."""
        if self.written is None:
            self.written, self.state_id = written, state_id


@dataclass(slots=True)
class TaskSet:
    """The tasks of one computing of an epoch."""

    batch: Batch
    execution: int
    finished: int
    tasks: list[Task]

    def has_news(self) -> bool:
        return any(task.needs_retry() for task in self.tasks) or self.is_complete()

    def is_complete(self) -> bool:
        return all(task.written is not None for task in self.tasks)


class SwarmEngine(Engine):
    """One start of a query in one JVM."""

    def __init__(self, part: Part, run: Run, run_epoch: Callable[[int], Steps[Prepared]]) -> None:
        super().__init__(
            part.configuration, part.disk, part.sinks, run, lambda: part.driver.world.new_execution(part), run_epoch
        )
        self._part = part
        self._pending: tuple[str, bytes] | None = None
        self.tasks: TaskSet | None = None

    # --- the logs ------------------------------------------------------------------------------------------

    def _write_entry(self, name: str, data: bytes) -> None:
        """An object store has no create-if-absent for Spark: it has looked, and the put comes later."""
        if self._part.driver.world.plan.overwrites:
            self._pending = name, data
        else:
            super()._write_entry(name, data)

    def _put_late(self) -> Generator[Do, Any, None]:
        if self._pending is not None:
            (name, data), self._pending = self._pending, None
            yield Do("spark.put", lambda: self._put(name, data))

    def _put(self, name: str, data: bytes) -> None:
        """Whatever stands there is overwritten; an object is durable."""
        world = self._part.driver.world
        before = self._disk.read_bytes(name)
        if before is not None:
            world.count("a log entry was overwritten" + (" by others" if before != data else ""))
        self._disk.put(name, data)

    # --- sources -------------------------------------------------------------------------------------------

    def _latest_end(self) -> int:
        """A file source counts on from its own log, whatever Spark's says; any source may be told to go back."""
        if self._part.goes_back and self._end:
            self._part.goes_back = False
            return self._end - 1
        end = super()._latest_end()
        for folder in self._logged_sources():
            logged = max(self._numbers(folder), default=-1)
            end = max(end, logged)
            for number in range(logged + 1, end + 1):
                self._disk.write(f"{folder}/{number}", _SOURCE_ENTRY)
        return end

    def _read_logs(self) -> Batch | None:
        """A file source reads its whole log when it is made; the entries that an epoch takes must be there."""
        for folder in self._logged_sources():
            for number in self._numbers(folder):
                if self._disk.read_bytes(f"{folder}/{number}") != _SOURCE_ENTRY:
                    raise SparkStopped(Reason.LOG_TORN, f"{folder}/{number}")
        batch = super()._read_logs()
        if batch is not None:
            for folder in self._logged_sources():
                missing = set(range(batch.start + 1 if batch.epoch else 0, batch.end + 1)) - set(self._numbers(folder))
                if missing:
                    raise SparkStopped(Reason.LOG_HOLE, f"{folder}/{min(missing)}")
        return batch

    def _logged_sources(self) -> list[str]:
        return [f"{SOURCES}/{n}" for n, form in enumerate(self._configuration.positions) if form == "files"]

    # --- tasks ---------------------------------------------------------------------------------------------

    def _compute(self, batch: Batch, ids: list[str], asked: Compute) -> Generator[Any, Any, Computed]:
        tasks = TaskSet(batch, self._new_execution(), asked.finished_through, [Task(n) for n in range(TASKS)])
        yield Do("spark.tasks", lambda: self._launch(tasks))
        while not tasks.is_complete():
            yield Until("spark.await", lambda: self._part.stopping or tasks.has_news())
            self._look(tasks)
        self.tasks = None
        ids += [task.state_id for task in tasks.tasks]
        return self._computed(batch, [each for task in tasks.tasks for each in task.written or ()], ids)

    def speculate(self, number: int) -> bool:
        """A second attempt of a task that is running; whether there was one."""
        running = [] if self.tasks is None else [task for task in self.tasks.tasks if task.written is None]
        if self.tasks is None or not running:
            return False
        self._attempt_task(self.tasks, running[number % len(running)])
        return True

    def _launch(self, tasks: TaskSet) -> None:
        self.tasks = tasks
        for task in tasks.tasks:
            self._attempt_task(tasks, task)

    def _look(self, tasks: TaskSet) -> None:
        """Lost tasks are tried again; a cancelled or failed job ends the query."""
        if self._part.stopping:
            raise SparkStopped(Reason.STRUCK, "the job is cancelled")
        for task in tasks.tasks:
            if task.needs_retry():
                if len(task.attempts) >= MOST_ATTEMPTS:
                    raise SparkStopped(Reason.TASK_FAILED, f"task {task.number}, {MOST_ATTEMPTS} attempts")
                self._attempt_task(tasks, task)

    def _attempt_task(self, tasks: TaskSet, task: Task) -> None:
        number = len(task.attempts)
        driver = self._part.driver
        worker = driver.worker(task.number + number)
        steps = _Attempt(self, self._part, tasks, task, number, worker)
        actor = Actor(f"task {task.number}.{number}", worker, steps.run(), self._part)
        steps.actor = actor
        task.attempts.append(actor)
        driver.world.add(actor)

    # --- what an attempt needs ------------------------------------------------------------------------------

    def rows_of(self, tasks: TaskSet, task: int, attempt: int) -> tuple[Rows, object]:
        """The rows of one attempt and the state after it."""
        batch = tasks.batch
        return compute(
            self._configuration,
            epoch=batch.epoch,
            execution=tasks.execution,
            attempt=attempt,
            task=task,
            records=range(batch.start, batch.end),
            watermark=batch.watermark,
            state=self._load(batch.epoch, task),
        )

    def named(self, sink: SimSink, tasks: TaskSet, task: int, attempt: int) -> Any:
        return self._attempt(sink, tasks.batch.epoch, task, attempt)


class _Attempt:
    """One attempt of a task in an executor. It goes on as a zombie when nobody waits for it any more."""

    def __init__(
        self, engine: SwarmEngine, part: Part, tasks: TaskSet, task: Task, number: int, worker: Process
    ) -> None:
        self._engine = engine
        self._part = part
        self._tasks = tasks
        self._task = task
        self._number = number
        self._worker = worker
        self._rows, self._state = engine.rows_of(tasks, task.number, number)
        self.actor: Actor | None = None

    def run(self) -> ActorSteps:
        rows, state = self._rows, self._state
        written: list[Committable] = []
        leases: list[tuple[SlottedSink, Lease]] = []
        for sink in self._part.sinks if rows else ():
            committable = yield from self._write(sink, rows, leases)
            written.append(committable)
        state_id = NO_STATE
        if self._part.configuration.work is not Work.STATELESS:
            state_id = f"{self._tasks.execution}-{self._number}"
            name = f"{STATE}/{self._task.number}/{self._tasks.batch.epoch + 1}_{state_id}"
            yield Do("task.state", lambda: self._part.disk.write(name, state))
        yield Do("task.report", lambda: self._task.report(written, state_id))
        for sink, lease in leases:
            self._open_next(sink, lease)

    def _write(
        self, sink: SimSink, rows: Rows, leases: list[tuple[SlottedSink, Lease]]
    ) -> Generator[Any, Any, Committable]:
        attempt = self._engine.named(sink, self._tasks, self._task.number, self._number)
        if isinstance(sink, SlottedSink):
            place, finished = self._part.driver.place, self._tasks.finished
            opening = lambda: sink.open(attempt, place, self._worker, self.actor, finished)  # noqa: E731
            lease: Lease = yield self._served("task.open", opening)
            yield self._served("task.write", lambda: sink.write(attempt, rows, lease))
            leases.append((sink, lease))
            return (yield self._served("task.prepare", lambda: sink.prepare(attempt, rows, 0)))
        handle = yield Do("task.open", lambda: sink.begin(attempt))
        if isinstance(sink, BranchSink):
            yield Until("task.lock", lambda: not sink.is_locked(attempt))
            committable = yield self._served("task.prepare", lambda: sink.prepare(attempt, rows, handle))
            if sink.beside:
                self._part.driver.world.count("two branches of a task")
            return committable
        return (yield Do("task.prepare", lambda: sink.prepare(attempt, rows, handle)))

    def _served(self, point: str, act: Callable[[], Any]) -> Do:
        """A step that needs a server."""
        return Do(point, lambda: self._part.driver.world.served(act))

    def _open_next(self, sink: SlottedSink, lease: Lease) -> None:
        """The producer of the next turn, in the background."""
        attempt = self._engine.named(sink, self._tasks, self._task.number, self._number)
        turn = lease.next_turn(attempt, self._worker, self._tasks.finished)
        if turn is not None:
            turn.opener = self._worker
            self._part.driver.world.add(Actor("opener", self._worker, self._opening(sink, turn), self._part))

    def _opening(self, sink: SlottedSink, turn: Turn) -> ActorSteps:
        yield self._served("task.opener", lambda: turn.open(self._worker, sink.open_producer(turn.name)))

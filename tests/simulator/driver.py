"""A driver: a Python process and a JVM, the queries that they run, and how the world does their effects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from tests.simulator.processes import Actor, ActorSteps, FillableDisk, Process, Until
from tests.simulator.slots import Place
from tests.simulator.spark import SwarmEngine
from tests.world.configurations import Configuration, Work
from tests.world.disk import COMMITS
from tests.world.sinks import Fences, SimSink
from tidegate.core import effects as asked
from tidegate.core.effects import Effect, Happening
from tidegate.core.epoch import run_epoch
from tidegate.core.errors import Code, TidegateError
from tidegate.core.finish_steadily import finish_as_they_come
from tidegate.core.happenings import (
    DueEpochAdded,
    EpochDecided,
    EpochDone,
    LogRestored,
    LogSetAside,
    TransactionsAborted,
)
from tidegate.core.ledger import DECIDED, PREPARED, Query, read_finished
from tidegate.core.records import Answer, Outcome, Run
from tidegate.core.recover import close_run, open_run
from tidegate.core.seal import find_seal, seal_generation
from tidegate.core.spark_log import parse_commits

if TYPE_CHECKING:
    from tests.simulator.swarm import Swarm


class Part:
    """One query in one driver."""

    def __init__(self, driver: Driver, index: int, generation: int) -> None:
        self.driver = driver
        self.index = index
        self.query: Query = driver.world.plan.query(index, generation)
        self.configuration: Configuration = driver.world.plan.queries[index]
        self.disk: FillableDisk = driver.world.checkpoint(index, generation)
        self.sinks: list[SimSink] = driver.world.sinks_of(index, generation)
        self.run: Run | None = None
        self.finished = -1
        """The newest epoch that this run knows to be finished."""
        self.written: dict[str, bytes] = {}
        """What this run has written last, by name."""
        self.engine: SwarmEngine | None = None
        self.stream: Actor | None = None
        self.finisher: Actor | None = None
        self.stopping = False
        self.goes_back = False

    def sink(self, uid: str) -> SimSink:
        return self.sinks[self.query.sinks.index(uid)]

    def start(self, run: Run) -> None:
        """Spark's stream thread in the JVM, the finisher in Python."""
        self.run = run
        self.engine = SwarmEngine(self, run, lambda epoch: run_epoch(self.query, run, epoch))
        driver = self.driver
        self.stream = Actor(f"{driver.number}/{self.query.uid} stream", driver.jvm, self.engine.run(), self)
        steps = finish_as_they_come(self.query, run)
        self.finisher = Actor(f"{driver.number}/{self.query.uid} finisher", driver.python, steps, self)
        driver.world.add(self.stream)
        driver.world.add(self.finisher)

    def stream_has_ended(self) -> bool:
        return self.stream is None or not self.stream.alive

    def has_ended(self) -> bool:
        return self.stream_has_ended() and (self.finisher is None or not self.finisher.alive)

    def errors(self) -> list[Exception]:
        actors = (self.stream, self.finisher)
        return [actor.error for actor in actors if actor is not None and actor.error is not None]

    def sees_commits_above(self, epoch: int) -> bool:
        """Whether there is a whole commits entry of a later epoch, or Spark has begun an epoch behind it."""
        waits = None if self.stream is None or not self.stream.alive else self.stream.effect
        if isinstance(waits, asked.AwaitFinished) and waits.epoch > epoch:
            return True
        later = [name for name in self.disk.names(COMMITS) if name.isdigit() and int(name) > epoch]
        return any(parse_commits(self.disk.read_bytes(f"{COMMITS}/{name}")) is not None for name in later)


class Driver:
    """One start of the job."""

    def __init__(self, world: Swarm, number: int) -> None:
        self.world = world
        self.number = number
        self.python = Process(f"{number}/python")
        self.jvm = Process(f"{number}/jvm")
        self.workers = [Process(f"{number}/worker {index}") for index in range(world.plan.workers)]
        self.place: Place = world.places[0 if world.plan.local_lease else number % 2]
        self.fences: Fences = {}
        self.parts: list[Part] = []
        self.completed = False
        self.opening = True
        self.goes_on = not world.plan.local_lease and not world.healing and number % 2 == 0
        self._restarts_left = world.plan.in_process_restarts
        self.main = Actor(f"{number}/main", self.python, self._main())
        world.add(self.main)

    @property
    def alive(self) -> bool:
        return self.python.alive or self.jvm.alive

    def worker(self, number: int) -> Process:
        """The executor for an attempt; one that was killed is replaced."""
        index = number % len(self.workers)
        if not self.workers[index].alive:
            self.workers[index] = Process(f"{self.workers[index].name}'")
        return self.workers[index]

    def end_runs(self) -> None:
        """Ask Spark to end every query: what waits is cancelled, what is being written is written."""
        for part in self.parts:
            part.stopping = True

    # --- the main thread -----------------------------------------------------------------------------------

    def _main(self) -> ActorSteps:
        yield Until("start", lambda: True)
        yield from self._raise_generation()
        while True:
            yield from self._open_runs()
            yield Until("main.wait", self._something_ended)
            errors = [error for part in self.parts for error in part.errors()]
            if errors:
                self.end_runs()
            if any(not part.stream_has_ended() for part in self.parts):
                self.world.count("waited for an old stream thread")
            yield Until("main.join", self._runs_have_ended)
            errors += [error for part in self.parts for error in part.errors() if error not in errors]
            if not errors and not any(part.stopping for part in self.parts):
                break
            if self._restarts_left == 0:
                raise errors[0] if errors else SPARK_STOPPED
            self._restarts_left -= 1
            self.world.count("run started in a living process")
            self.world.judge(errors, self)
        due = False
        for part in self.parts:
            self.main.part = part
            if part.run is not None:
                due |= yield from close_run(part.query, part.run)
        self.completed = not due

    def _open_runs(self) -> ActorSteps:
        self.opening = True
        self.parts = [Part(self, index, self.world.generation) for index in range(len(self.world.plan.queries))]
        runs: list[Run] = []
        for part in self.parts:
            self.main.part = part
            if _is_decided_without_commits(part.disk):
                self.world.count("decided without a whole commits entry")
            runs.append((yield from open_run(part.query)))
            part.finished = yield from read_finished()
        for part, run in zip(self.parts, runs, strict=True):
            part.start(run)
        self.opening = False

    def _raise_generation(self) -> ActorSteps:
        """A new generation is opened when the older one is sealed. Beside a driver that is about to open it, another
        start may want nothing but to go on: it does, unless it finds a seal."""
        older = self.world.generation
        if self.world.wanted_generation == older:
            return
        parts = [Part(self, index, older) for index in range(len(self.world.plan.queries))]
        if self.goes_on:
            seals: list[bool] = []
            for part in parts:
                self.main.part = part
                seals.append((yield from find_seal()) is not None)
            if not any(seals):
                self.world.count("a start beside a driver that opens a generation")
                return
        for part in parts:
            self.main.part = part
            yield from seal_generation(part.query)
        yield self.world.opening_generation(older)

    def _something_ended(self) -> bool:
        return any(part.errors() for part in self.parts) or self._runs_have_ended()

    def _runs_have_ended(self) -> bool:
        """A run has ended when its stream thread has ended: until then it can still write `commits/N`."""
        return all(part.stream_has_ended() for part in self.parts) and all(part.has_ended() for part in self.parts)


SPARK_STOPPED: Final = TidegateError(
    Code.QUERY_FAILED, expected="a query that runs", found="it was ended", where="the world", next_step="start again"
)


def is_ready(actor: Actor) -> bool:
    """Whether the effect that the thread stands before can be done now."""
    effect, part = actor.effect, actor.part
    if isinstance(effect, Until):
        return effect.ready()
    if part is not None:
        if isinstance(effect, asked.AwaitCommits):
            return part.stream_has_ended() or part.sees_commits_above(effect.epoch)
        if isinstance(effect, asked.AwaitFinished):
            return part.stopping or _finisher_failed(part) or part.finished >= effect.epoch
    return True


def _is_decided_without_commits(disk: FillableDisk) -> bool:
    """Whether the newest commits entry is torn, or older than the newest decision."""
    newest = max((int(name) for name in disk.names(COMMITS) if name.isdigit()), default=-1)
    torn = newest >= 0 and parse_commits(disk.read_bytes(f"{COMMITS}/{newest}")) is None
    return torn or max(map(int, disk.names(DECIDED)), default=-1) > newest


def _finisher_failed(part: Part) -> bool:
    return part.finisher is not None and not part.finisher.alive


def do(part: Part, effect: Effect) -> Any:
    """Do an effect of the protocol for one query of one driver."""
    return _DO[type(effect)](part, effect)


def _await_finished(part: Part, effect: asked.AwaitFinished) -> int:
    part.driver.world.count("waited for the finisher")
    if part.finished < effect.epoch:
        raise TidegateError(
            Code.RUN_SUPERSEDED,
            expected=f"epoch {effect.epoch} to be finished",
            found="the finisher has ended",
            where=str(part.query),
            next_step="start again",
        )
    return part.finished


def _introduce(part: Part, effect: asked.Introduce) -> tuple[str, str, int, str]:
    return part.driver.world.new_token(), "host", part.driver.number, ""


def _hesitate(part: Part, effect: asked.Hesitate) -> None:
    """A stop does not wait for a sink for ever."""
    if part.stopping and effect.attempt > 3:
        raise _unavailable(effect.sink)


def _commit(part: Part, effect: asked.CommitSink) -> list[Answer]:
    world = part.driver.world
    if world.is_down and effect.sink[0] != "f":
        answers = [Answer(outcome=Outcome.RETRY, detail="the server is down") for _ in effect.committables]
    else:
        answers = part.sink(effect.sink).commit(effect.committables)
    for answer in answers:
        world.count(f"answer: {answer.outcome.value}")
    return answers


def _served(act: Callable[[Part, Any], Any]) -> Callable[[Part, Any], Any]:
    """Needs the sink's server."""

    def checked(part: Part, effect: Any) -> Any:
        if part.driver.world.is_down and effect.sink[0] in "kx":
            raise _unavailable(effect.sink)
        return act(part, effect)

    return checked


def _unavailable(sink: str) -> TidegateError:
    return TidegateError(
        Code.SINK_UNAVAILABLE, expected=f"sink {sink}", found="no answer", where="the world", next_step="start again"
    )


def _look(part: Part, effect: asked.LookForEvidence) -> Any:
    found = part.sink(effect.sink).evidence(effect.committable)
    part.driver.world.count(f"evidence: {found.value}")
    return found


def _fence(part: Part, effect: asked.FenceTransaction) -> None:
    part.sink(effect.sink).fence(effect.committable, part.driver.fences)


def _redo(part: Part, effect: asked.RedoTransaction) -> Answer:
    answer = part.sink(effect.sink).redo(effect.committable, part.driver.fences)
    part.driver.world.count(f"redo: {answer.outcome.value}")
    return answer


def _abort(part: Part, effect: asked.AbortOpen) -> None:
    part.sink(effect.sink).abort(effect.transactions)


def _delete(part: Part, effect: asked.Delete) -> None:
    if effect.point != "heal.checksum":
        part.driver.world.count(f"removed: {effect.point}")
    part.written.pop(effect.name, None)
    part.disk.delete(effect.name)


def _delete_all(part: Part, effect: asked.DeleteAll) -> None:
    for name in effect.names:
        _delete(part, asked.Delete(name, effect.point))


def _replace(part: Part, effect: asked.Replace) -> None:
    part.disk.put(effect.name, effect.data)
    part.written[effect.name] = effect.data


def _put_if_absent(part: Part, effect: asked.PutIfAbsent) -> bool:
    created = part.disk.put_if_absent(effect.name, effect.data)
    if effect.point == "seal":
        part.driver.world.count("sealed" if created else "put came second: seal")
    elif created:
        part.written[effect.name] = effect.data
    if effect.point in ("heal.put_back", "decision") and (not created or effect.point == "heal.put_back"):
        part.driver.world.count("put back" if created else f"put came second: {effect.point}")
    return created


def _clean(part: Part, effect: asked.CleanThrough) -> None:
    for sink in part.sinks:
        sink.clean(effect.epoch)


def _discard(part: Part, effect: asked.DiscardFrom) -> int:
    before = sum(len(sink.leftovers()) for sink in part.sinks)
    for sink in part.sinks:
        sink.discard(effect.epoch)
    gone = before - sum(len(sink.leftovers()) for sink in part.sinks)
    if gone:
        part.driver.world.count("discarded", gone)
    return gone


_TOLD: Final[dict[type[Happening], str]] = {
    LogRestored: "log restored",
    LogSetAside: "log set aside",
    DueEpochAdded: "due epoch added",
    TransactionsAborted: "given up",
    EpochDecided: "decided",
}


def _tell(part: Part, effect: asked.Tell) -> None:
    word = _TOLD.get(type(effect.happening))
    if word is not None:
        part.driver.world.count(word)
    if isinstance(effect.happening, EpochDone):
        part.finished = effect.happening.epoch
    if isinstance(effect.happening, EpochDecided) and part.configuration.work is not Work.STATELESS:
        candidates = [name for name in part.disk.names(PREPARED) if name.startswith(f"{effect.happening.epoch}.")]
        if len(candidates) > 1:
            part.driver.world.count("decided by state ids")


_DO: Final[dict[type[Effect], Callable[[Part, Any], Any]]] = {
    asked.Get: lambda part, effect: part.disk.read_bytes(effect.name),
    asked.Peek: lambda part, effect: part.disk.read_bytes(effect.name),
    asked.Recall: lambda part, effect: part.written.get(effect.name) or part.disk.read_bytes(effect.name),
    asked.List: lambda part, effect: part.disk.names(effect.folder),
    asked.PutIfAbsent: _put_if_absent,
    asked.Replace: _replace,
    asked.Delete: _delete,
    asked.DeleteAll: _delete_all,
    asked.SetAside: lambda part, effect: part.disk.set_aside(effect.name),
    asked.SyncCheckpoint: lambda part, effect: part.disk.sync_checkpoint(),
    asked.AwaitFinished: _await_finished,
    asked.AwaitCommits: lambda part, effect: part.sees_commits_above(effect.epoch),
    asked.Introduce: _introduce,
    asked.Hesitate: _hesitate,
    asked.CommitSink: _commit,
    asked.LookForEvidence: _served(_look),
    asked.FenceTransaction: _served(_fence),
    asked.RedoTransaction: _served(_redo),
    asked.ListOpen: _served(lambda part, effect: part.sink(effect.sink).pending()),
    asked.AbortOpen: _served(_abort),
    asked.ReadPosition: _served(lambda part, effect: part.sink(effect.sink).position()),
    asked.BeginRun: lambda part, effect: None,
    asked.CleanThrough: _clean,
    asked.DiscardFrom: _discard,
    asked.Tell: _tell,
}

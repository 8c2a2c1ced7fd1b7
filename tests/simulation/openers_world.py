"""A world of starts, fresh starts and forgets of one job off a disk: `python -m tests.simulation.openers_world`.

Every process runs the functions that a job calls, in its own thread. It stops at each request to the storage or to a
sink, so that only one process runs at a time. A process can be paused anywhere and for any time, with a lease that it
has lost without a notice, and it can die. Spark is left out: an epoch is its records, one file of state and one row.
Two jobs of this name never begin without a `forget` in between, and within a job every epoch is visible once.
"""

from __future__ import annotations

import random
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, ClassVar, Final, cast

from tests.simulation.openers_memory import in_memory
from tests.simulation.seeds import main_of
from tidegate.checkpoints import retention
from tidegate.checkpoints.job_layout import GENERATIONS, QUERIES, generation_folder
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.checkpoints.succession import begin_job, demand_standing, standing
from tidegate.core.errors import Code, TidegateError
from tidegate.core.finish import finish_epoch
from tidegate.core.ledger import COMMITS, OFFSETS, Query, entry, prepared_name, read_finished, stop_if_superseded
from tidegate.core.levels import Level
from tidegate.core.records import (
    Answer,
    Attempt,
    Committable,
    Evidence,
    GenerationOpened,
    JobRecord,
    Outcome,
    Position,
    Prepared,
    Run,
    SinkIdentity,
    committable_digest,
    decode,
    encode,
    epoch_digest,
    is_of_kind,
)
from tidegate.core.recover import open_run
from tidegate.operate.runner import Runner
from tidegate.savepoints import continued, fresh, settled
from tidegate.savepoints.restored import goes_back
from tidegate.settings.config import Settings
from tidegate.spark import continuing
from tidegate.spark import fresh as fresh_start
from tidegate.storages import checkpoints, opening
from tidegate.storages.schemes import Folder
from tidegate.testing.memory_storage import Memory

FOLDER: Final = Folder.of("s3://bucket/job")
UIDS: Final = ("counts", "lines")
SINK: Final = "out"
_COMMITTED: Final = b'v1\n{"nextBatchWatermarkMs":0}'
_EXPECTED: Final = frozenset({Code.GENERATION_SEALED, Code.RUN_SUPERSEDED, Code.LEASE_LOST, Code.JOB_UNKNOWN})
"""What the newest process may meet, because an older one acts once more. Older ones may be refused in any way."""
_TRIES: Final = 3


class Killed(BaseException):
    """The process is gone."""


class Process:
    """One process: a thread that goes on only when the world lets it, for so many requests."""

    def __init__(self, world: World, name: str, act: Callable[[Process], None]) -> None:
        self.world, self.name = world, name
        self.number = len(world.processes)
        self.notices = world.rng.random() < 0.5
        """Whether it learns that it has lost the lease."""
        self.dies_behind = world.rng.choice(("", "", "seal.after", "restore.recorded"))
        self.over = self.dies = False
        self.error: BaseException | None = None
        self.beside_a_forget = any(each.name == "forget" and not each.over for each in world.processes)
        self._act, self._budget = act, 0
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self._run, daemon=True).start()

    def go_on(self, requests: int) -> None:
        """Let it run until it has sent so many requests, or has ended."""
        if not self.over:
            self._budget = requests
            self.world.current = self
            self._go.release()
            self._back.acquire()
            self.world.current = None

    def kill(self) -> None:
        self.dies = True
        self.go_on(1)

    def step(self) -> None:
        """It is about to send a request."""
        self._budget -= 1
        if self._budget < 0:
            self._back.release()
            self._go.acquire()
            self._budget -= 1
        if self.dies:
            raise Killed

    def reach(self, step: str) -> None:
        if step == self.dies_behind:
            raise Killed
        if self.notices and self.number != len(self.world.processes) - 1:
            raise TidegateError(Code.LEASE_LOST, expected="the lease", found="a newer term", where=self.name)

    def _run(self) -> None:
        self._go.acquire()
        try:
            self._act(self)
        except BaseException as error:  # noqa: BLE001 (the world judges it)
            self.error = error
        self.over = True
        self._back.release()


class Target:
    """The table of a sink of one query: its rows, and their evidence in the same transaction."""

    remembers: ClassVar[bool] = True
    evidence_expires: ClassVar[bool] = False
    delivery: ClassVar[Level | None] = None
    levels: ClassVar[frozenset[Level]] = frozenset({Level.EXACTLY_ONCE})

    def __init__(self, world: World) -> None:
        self._world = world
        self.shown: list[tuple[str, int, int]] = []
        """Job id, generation and epoch of each row, as they became visible."""
        self.staged: set[Attempt] = set()
        self.ledger: list[Position] = []

    def position(self, _identity: SinkIdentity) -> Position | None:
        self._world.step()
        return max(self.ledger, key=lambda each: (each.generation, each.epoch), default=None)

    def commit(self, committables: Sequence[Committable]) -> list[Answer]:
        self._world.step()
        attempt, digest = committables[0].attempt, epoch_digest(committables)
        if self._found(committables[0]) is not None:
            return [Answer(outcome=Outcome.ALREADY) for _ in committables]
        if attempt not in self.staged:
            return [Answer(outcome=Outcome.LOST) for _ in committables]
        sink = attempt.sink
        self.shown.append((sink.job_id, sink.generation, attempt.epoch))
        self.ledger.append(Position(job_id=sink.job_id, generation=sink.generation, epoch=attempt.epoch, digest=digest))
        return [Answer(outcome=Outcome.COMMITTED) for _ in committables]

    def evidence(self, committable: Committable) -> Evidence:
        self._world.step()
        found = self._found(committable)
        if found is None:
            return Evidence.ABSENT
        return Evidence.PRESENT if found.digest == epoch_digest([committable]) else Evidence.OTHER

    def pending(self, _identity: SinkIdentity) -> list[str]:
        return []

    def abort(self, _transactions: Sequence[str]) -> None: ...
    def clean(self, _identity: SinkIdentity, _finished_through: int) -> None: ...
    def discard(self, _identity: SinkIdentity, _from_epoch: int) -> int:
        return 0

    def forget(self, job_id: str) -> None:
        self._world.step()
        self.ledger = [each for each in self.ledger if each.job_id != job_id]
        self.staged = {each for each in self.staged if each.sink.job_id != job_id}

    def fence(self, _committable: Committable) -> None: ...

    def _found(self, committable: Committable) -> Position | None:
        attempt = committable.attempt
        at = (attempt.sink.job_id, attempt.sink.generation, attempt.epoch)
        return next((each for each in self.ledger if (each.job_id, each.generation, each.epoch) == at), None)


class World:
    """One seed. `often`: how often each kind of process is drawn."""

    often: ClassVar[tuple[int, ...]] = (5, 3, 2)

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.memory = Memory()
        self.targets = {uid: Target(self) for uid in UIDS}
        self.processes: list[Process] = []
        self.current: Process | None = None
        self.begins: dict[tuple[int, str], int] = {}
        """The first epoch of each query in a generation that does not continue the one before."""
        self.forgotten: set[str] = set()
        self.figures: Counter[str] = Counter()
        self._ids = map("{:08x}".format, range(1, 1000))

    def run(self) -> list[str]:
        """What is wrong at the end; nothing if all is well."""
        with in_memory(self.memory, self.step):
            for _ in range(self.rng.randint(2, 7)):
                self._begin()
                for each in self.processes[:-1]:
                    if self.rng.random() < 0.3:
                        each.go_on(self._some())
            while waiting := [each for each in self.processes if not each.over]:
                self.rng.choice(waiting).go_on(self._some())
            return [*self._refused(), *self._comes_to_rest(), *self._wrong()]

    def step(self) -> None:
        if self.current is not None:
            self.current.step()

    # --- the processes --------------------------------------------------------------------------------------

    def acts(self) -> Mapping[str, Callable[[Process], None]]:
        """What a process does, by name; `often` has as many numbers."""
        return {"start": self.start, "fresh": self.start_fresh, "forget": self.forget}

    def _begin(self) -> None:
        acts = self.acts()
        name = self.rng.choices(list(acts), self.often)[0]
        process = Process(self, name, acts[name])
        self.processes.append(process)
        if self.rng.random() < 0.35:
            process.go_on(_FOR_EVER)
        else:
            process.go_on(self._some())
            if self.rng.random() < 0.4:
                process.kill()
                self.figures["killed"] += 1

    def _some(self) -> int:
        return int(2 ** self.rng.uniform(0, 9))

    def start(self, process: Process) -> None:
        """As `spark.starting` does it."""
        record = self.locked()
        if record is None:
            record = JobRecord(name="job", job_id=next(self._ids), generation=fresh.first_generation(FOLDER))
        self.go_on_with(process, record)

    def start_fresh(self, process: Process) -> None:
        found, wish = self.locked(), fresh.Fresh(f"of {process.number}")
        target = fresh_start.fresh_target(wish, FOLDER, "job", found, Level.EXACTLY_ONCE)
        if target is None:
            raise RuntimeError("an id of its own was used before")
        plans = self.plan(target).queries

        def reach(step: str) -> None:
            if step == "restore.recorded":
                self.begins |= {(target.generation, uid): 0 for uid in UIDS}
            process.reach(step)

        fresh_start.carry_out(wish, target, found, FOLDER, plans, SETTINGS, reach)
        self.go_on_with(process, target)

    def forget(self, _process: Process) -> None:
        found = standing(FOLDER)
        if not retention.go_on_deleting(FOLDER, self._clear_sinks, UIDS):
            if found is None:
                raise TidegateError(Code.JOB_UNKNOWN, expected="a job", found="none", where="here")
            self.forgotten.add(found.job_id)
            retention.delete_checkpoints(FOLDER, found.job_id, self._clear_sinks, UIDS)
            self.figures["forgotten"] += 1

    def locked(self) -> JobRecord | None:
        retention.go_on_deleting(FOLDER, self._clear_sinks, UIDS)
        settled.settle(FOLDER)
        return standing(FOLDER)

    def go_on_with(self, process: Process, record: JobRecord) -> None:
        if continued.is_sealed(FOLDER, record):
            record = continuing.leave_sealed(record, self.plan(record), process.reach)
            self.figures["continued"] += 1
        settled.demand_starts(FOLDER, record)
        begin_job(FOLDER, record)
        demand_standing(FOLDER, record, record)
        for uid in UIDS:
            self._run_query(self.query(record, uid), process)

    def _run_query(self, query: Query, process: Process) -> None:
        folder = generation_folder(FOLDER / QUERIES / query.uid, query.generation)
        storage = opening.open_storage(folder)
        runner = Runner(
            query=query,
            storage=storage,
            sinks={SINK: cast(Any, self.targets[query.uid])},
            journal_folder=folder / "ledger" / "journal",
            checkpoint=checkpoints.open_checkpoint_files(folder / "spark"),
            port=cast(Any, SimpleNamespace(tell=lambda _happening: None)),
        )
        run = runner.run(open_run(query))
        first = max(entry_numbers(storage.list(COMMITS)), default=-1) + 1
        for epoch in range(runner.run(read_finished()) + 1, first):
            runner.run(finish_epoch(query, run, epoch))
        for epoch in range(first, first + self.rng.randint(1, 2)):
            process.reach("epoch")
            if epoch > 0 and storage.read(state_file(epoch - 1)) is None:
                raise TidegateError(Code.STATE_DAMAGED, expected="state", found="none", where=f"{query}, {epoch - 1}")
            offsets = b'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"logOffset":%d}' % epoch
            storage.put_if_absent(entry(OFFSETS, epoch), offsets)
            storage.replace(state_file(epoch), b"%d" % epoch)
            prepared = _prepared(query, run, epoch, offsets)
            self.targets[query.uid].staged.add(prepared.committables[0].attempt)
            runner.run(stop_if_superseded(query, run))
            storage.put_if_absent(prepared_name(epoch, run.run), encode(prepared))
            storage.put_if_absent(entry(COMMITS, epoch), _COMMITTED)
            runner.run(finish_epoch(query, run, epoch))

    def _clear_sinks(self, job_id: str) -> None:
        for target in self.targets.values():
            target.forget(job_id)

    def query(self, record: JobRecord, uid: str) -> Query:
        return Query(
            job="job",
            job_id=record.job_id,
            generation=record.generation,
            uid=uid,
            sources=("in",),
            sinks=(SINK,),
            local_lease=False,
            may_repeat=goes_back(FOLDER, record, uid),
        )

    def plan(self, record: JobRecord) -> Any:
        queries = [SimpleNamespace(query=self.query(record, uid), sinks={SINK: self.targets[uid]}) for uid in UIDS]
        return SimpleNamespace(record=record, folder=FOLDER, settings=SETTINGS, queries=queries)

    # --- what must hold -------------------------------------------------------------------------------------

    def _refused(self) -> Iterator[str]:
        for each in self.processes:
            error = each.error
            code = error.catalogue_entry if isinstance(error, TidegateError) else None
            self.figures[
                f"{each.name}: {'well' if error is None else code.name if code else type(error).__name__}"
            ] += 1
            is_newest = each.number == len(self.processes) - 1
            alone = is_newest and not each.beside_a_forget
            if not isinstance(error, Killed | None) and (code is None or (alone and code not in _EXPECTED)):
                yield f"{each.name} {each.number}: {error!r}"

    def _comes_to_rest(self) -> Iterator[str]:
        """With no other process, a plain start works, and again."""
        for _ in range(_TRIES):
            process = Process(self, "last", self.start)
            process.dies_behind = ""
            self.processes.append(process)
            process.go_on(_FOR_EVER)
        if (error := self.processes[-1].error) is not None:
            yield f"a plain start is refused at the end: {error!r}"

    def _wrong(self) -> Iterator[str]:
        jobs = list(self._jobs())
        for before, after in pairwise(jobs):
            if before.job_id not in self.forgotten:
                yield f"job {after.job_id} has begun, and {before.job_id} was not forgotten"
        chains = {(job.job_id, each) for job in jobs for each in self._chain(job)}
        for uid, target in self.targets.items():
            others = [each for each in target.shown if each[:2] not in chains]
            if others:
                yield f"{uid}: rows of generations that never counted: {others}"
            for job in jobs:
                yield from (f"{uid}: {each}" for each in self._timeline(job, uid, target))

    def _timeline(self, job: JobRecord, uid: str, target: Target) -> Iterator[str]:
        """Every epoch of every generation once, in its order, from where the generation before has ended. No row of a
        generation becomes visible behind one of the next.
        """
        order = [generation for job_id, generation, _ in target.shown if job_id == job.job_id]
        if order != sorted(order):
            yield f"rows became visible in the order of these generations: {order}"
        due = 0
        for generation in self._chain(job):
            due = self.begins.get((generation, uid), due)
            shown = [epoch for *at, epoch in target.shown if at == [job.job_id, generation]]
            if shown != list(range(due, due + len(shown))):
                yield f"generation {generation} shows epochs {shown}, and begins at {due}"
            due += len(shown)

    def _jobs(self) -> Iterator[JobRecord]:
        storage = opening.open_storage(FOLDER)
        for number in entry_numbers(storage.list(GENERATIONS)):
            yield decode(JobRecord, storage.read(entry(GENERATIONS, number)) or b"", "")

    def _chain(self, job: JobRecord) -> list[int]:
        storage, found = opening.open_storage(FOLDER), [job.generation]
        while data := storage.read(f"{GENERATIONS}/{job.job_id}.{found[-1] + 1}"):
            if not is_of_kind(GenerationOpened, data):
                break
            found.append(decode(GenerationOpened, data, "").generation)
        return found


_FOR_EVER: Final = 1 << 30
SETTINGS: Final = Settings()


def state_file(epoch: int) -> str:
    return f"spark/state/0/0/{epoch + 1}.zip"


def _prepared(query: Query, run: Run, epoch: int, offsets: bytes) -> Prepared:
    attempt = Attempt(sink=query.sink(SINK), run=run.run, run_token=run.token, epoch=epoch, task=0, task_attempt=0)
    committable = Committable(attempt=attempt, rows=1, digest=committable_digest(attempt, str(epoch)))
    return Prepared(
        epoch=epoch, run=run.run, committables=(committable,), start_positions=None, offsets=offsets, state_ids=None
    )


if __name__ == "__main__":
    sys.exit(main_of("tests.simulation.openers_world", World))

"""What an operator does with savepoints, told as far as the end whatever dies on the way, and what must hold then.

    upgrade:0:kill@57+drop@310

names the story, how many steps the job has made when its savepoint is taken, and the strikes.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest import mock

from tests.simulation.saved.disk import PLANNED, count_states
from tests.simulation.saved.job import SavedJob
from tests.simulation.saved.sinks import Targets
from tests.simulation.saved.watched import Hit, Killed, Strike, Watched
from tests.world.checker import History, check
from tests.world.configurations import Configuration, Schedule, Work
from tests.world.disk import OFFSETS
from tests.world.engine import SparkStopped, read_offsets, surviving
from tests.world.rows import Row
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import DONE
from tidegate.core.records import Position, SavedQuery
from tidegate.disk import side_by_side
from tidegate.savepoints.folder import CLAIM, Savepoint, open_savepoint, verify
from tidegate.savepoints.restoring import Restore
from tidegate.savepoints.take import HELD
from tidegate.spark import restore_carried_out, restore_judged

ResultT = TypeVar("ResultT")


class Story(Enum):
    """What the operator does. All input has come at the end, and every job has come to rest."""

    UPGRADE = "upgrade"  # stops with a savepoint, goes on from it, stops with another, goes on from that
    BACK = "back"  # goes back to an older savepoint: refused, then with --rewind
    CRASHED = "crashed"  # the same, of a job that has died in the middle of whatever it did
    FORK = "fork"  # starts a second job from a savepoint of the first, which runs on
    WINDOWED = "windowed"  # the same, of a job that has epochs without rows due
    QUICK = "quick"  # the same, of a job that commits behind its epochs, and whose Spark keeps little
    CLAIM = "claim"  # moves a job into another folder, under its own id
    CLAIM_TWICE = "claim-twice"  # the same, and into a third folder at once: one of the two is refused
    CLAIM_BACK = "claim-back"  # moves it back in time as well, behind generations that the savepoint does not know
    MOVED = "moved"  # moves a job that has died in the middle of whatever it did, as QUICK is
    AGAIN = "again"  # goes back to the savepoint that the job's generation was opened from


@dataclass(frozen=True, slots=True)
class Case:
    """One run: `moment` counts the steps of the job between its first done epoch and the savepoint (or its death)."""

    story: Story
    moment: int = 0
    strikes: tuple[Strike, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.story.value}:{self.moment}:{'+'.join(map(str, self.strikes))}"


def parse_case(key: str) -> Case:
    """The case that `key` names; ValueError for another text."""
    story, moment, rest = key.split(":")
    words = [word.partition("@") for word in rest.split("+") if word]
    return Case(Story(story), int(moment), tuple(Strike(Hit(hit), int(at)) for hit, _, at in words))


@dataclass(frozen=True, slots=True)
class Told:
    """How a story has ended.

    `first` and `last` are the numbers of the changes between the first command about savepoints and the end, `saved`
    that of the last one until the first savepoint is there; `creates` those that make a file. `steps`: how many the job
    has made behind its first done epoch.
    """

    complaints: list[str]
    first: int
    saved: int
    last: int
    creates: frozenset[int]
    steps: int


def tell(case: Case) -> Told:
    """Run a case."""
    with tempfile.TemporaryDirectory(prefix="tidegate-saved-", dir=_IN_MEMORY) as folder, worlds_spark():
        teller = Teller(case, Path(folder).resolve())
        with teller.watched():
            try:
                _STORIES[case.story](teller)
            except (TidegateError, SparkStopped) as error:
                teller.troubles.append(f"the story has stopped: {error}")
        watched = teller.watched
        complaints = list(teller.complaints())
        return Told(complaints, teller.first, teller.saved, watched.changes, frozenset(watched.creates), teller.steps)


_IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where no inode has the number of an earlier one."""

_CONFIGURATION = Configuration(name="saved", work=Work.STATEFUL, sinks="sk", records=8, chunks=(2,), retain=10)
_MOST_DEATHS = 8
_MOST_TRIES = 20
_SILENT = logging.getLogger(__name__)
_SILENT.setLevel(logging.CRITICAL)


class Segment(NamedTuple):
    """A part of a timeline: the epochs of one generation of a job, up to one that was saved."""

    job: SavedJob
    generation: int
    epoch: int


class Teller:
    """The operator, the jobs, and what was seen."""

    def __init__(self, case: Case, root: Path) -> None:
        self.case = case
        self.watched = Watched(root, case.strikes)
        self.first = self.saved = self.steps = 0
        self.given_up = 0
        """The newest generation whose rows may have been given up."""
        self.out_of_reach = set[tuple[int, int]]()
        """Epochs, by generation, that a process was committing which died in a folder that nobody starts again."""
        self.troubles: list[str] = []
        self._root = root
        self._targets = Targets({})
        self._jobs: list[SavedJob] = []
        self._past: dict[Path, list[Segment]] = {}
        self._deaths = 0

    # --- what an operator does ------------------------------------------------------------------------------

    def job(self, name: str = "job", place: str = "jobs", **changes: Any) -> SavedJob:
        """A job that has not begun; under another name it has targets of its own, on the same cluster."""
        targets = self._targets if name == "job" else Targets(self._targets.producers)
        job = SavedJob(name, self._root / place, targets, self.watched, replace(_CONFIGURATION, **changes))
        self._jobs.append(job)
        self._past[job.folder] = []
        return job

    def run(self, job: SavedJob, records: int, wish: Restore | None = None) -> None:
        """Let the job run to the end of so much input, started again as often as it dies."""
        job.configuration = replace(job.configuration, records=records)

        def act() -> None:
            for _ in range(_MOST_TRIES):
                job.start(wish)
                job.go_on()
                if job.driver is not None and job.driver.completed:
                    return
            self.troubles.append(f"{job.name}: does not come to its end")

        self._surely(act)

    def begin(self, job: SavedJob, moment: int) -> None:
        """Let it run until its first epoch is done, and `moment` steps on."""

        def act() -> None:
            job.start()
            job.recover()
            while not job.has_done(0):
                job.step()
            while self.steps < moment and job.step():
                self.steps += 1

        self._surely(act)

    def go_on(self, job: SavedJob) -> None:
        """The process that runs, or the next one, goes on to the end of the input."""

        def act() -> None:
            if job.driver is not None:
                job.go_on()
            if job.driver is None or not job.driver.completed:
                self.run(job, job.configuration.records)

        self._surely(act)

    def save(self, job: SavedJob, savepoint_id: str, *, last: bool = False) -> Savepoint:
        """Take a savepoint of a job that runs, or, with `last`, of one that has ended."""
        self.first = self.first or self.watched.changes + 1

        def act() -> Savepoint:
            if last:
                return job.take(savepoint_id, last=True)
            if job.driver is None:
                job.start()
            job.recover()
            while not job.has_done(0):
                job.step()
            goes_on = True
            while True:
                try:
                    return self._beside_its_epochs(job, savepoint_id)
                except TidegateError as error:
                    if error.catalogue_entry is not Code.SAVEPOINT_REFUSED or not goes_on:
                        raise
                    goes_on = job.step()

        savepoint = self._surely(act)
        self.saved = self.saved or self.watched.changes
        return savepoint

    def _beside_its_epochs(self, job: SavedJob, savepoint_id: str) -> Savepoint:
        """Taken while the job's queries may go on: in the midst of a step of theirs they do not."""
        self.watched.burst = job.go_on
        try:
            return job.take(savepoint_id)
        finally:
            self.watched.burst = None

    def restored(self, job: SavedJob, before: SavedJob, savepoint: Savepoint) -> None:
        """From here on the rows of `job` go on from those of `before` up to the savepoint."""
        done = savepoint.record.queries[0].done
        if job.query.generation <= max(self.given_up, done.generation if job.name == before.name else 0):
            self.troubles.append(f"{job.name}: generation {job.query.generation} is no new one")
        older = [each for each in self._past[before.folder] if each.generation < done.generation]
        self._past[job.folder] = [*older, Segment(before, done.generation, done.epoch)]

    def start_once(self, job: SavedJob, wish: Restore) -> None:
        """Start it; dead or alive, nobody starts it again for now."""
        try:
            job.start(wish)
        except Killed:
            self._revive()
        job.die()

    def is_refused(self, job: SavedJob, wish: Restore, code: Code) -> bool:
        """Whether a start is; of another refusal it complains."""
        try:
            self._surely(lambda: job.start(wish))
        except TidegateError as error:
            if any(each.catalogue_entry is not code for each in error.violations or (error,)):
                raise
            job.die()
            return True
        return False

    def _surely(self, act: Callable[[], ResultT]) -> ResultT:
        """Do it, and after a death do it again."""
        while True:
            try:
                return act()
            except Killed:
                self._revive()

    def _revive(self) -> None:
        self._deaths += 1
        if self._deaths > _MOST_DEATHS:
            raise RuntimeError(f"{self.case.key}: it dies and dies")
        for job in self._jobs:
            job.die()
        self.watched.revive()
        self.troubles += [f"after a death: {error}" for error in self._savepoints_wrong()]

    # --- what must hold -------------------------------------------------------------------------------------

    def complaints(self) -> Iterator[str]:
        """Everything that is wrong at the end."""
        yield from self.troubles
        yield from self._savepoints_wrong()
        for job in self._jobs:
            yield from job.troubles
            if job.driver is not None:
                yield from self._left_over(job)
            if job.driver is not None and not self.troubles:
                yield from (f"{job.name}: {each}" for each in check(self._history(job)))
                yield from self._abandoned(job)

    def _left_over(self, job: SavedJob) -> Iterator[str]:
        """What a job that has been started again would have had to remove."""
        for pattern in (HELD, ".restored-*", ".trash-*", ".*.tidegate.tmp"):
            yield from (f"left over: {path.relative_to(self._root)}" for path in job.folder.rglob(pattern))
        for path in self._root.rglob(".savepoint-*"):
            yield f"left over: {path.relative_to(self._root)}"

    def _savepoints_wrong(self) -> Iterator[str]:
        """Whatever has a savepoint's name is one, or the claim of one."""
        for place in self._root.glob("*/savepoints/savepoint-*"):
            if place.suffix == CLAIM:
                continue
            try:
                yield from (f"{place.name}: {error}" for error in verify(open_savepoint(place)))
            except TidegateError as error:
                yield f"{place.name}: {error}"

    def _history(self, job: SavedJob) -> History:
        """What an onlooker sees of the timeline that counts."""
        logged = {int(name): read_offsets(job.disk, int(name)) for name in job.disk.names(OFFSETS) if name.isdigit()}
        positions = {sink.identity.sink: sink.position() for sink in job.sinks}
        return History(
            wanted=frozenset(range(job.configuration.records)),
            visible={sink.identity.sink: self._that_count(job, sink.identity.sink) for sink in job.sinks},
            surviving=surviving(job.disk),
            logged=logged,
            finished=max((int(name) for name in job.disk.names(DONE)), default=max(logged, default=-1)),
            kept=job.configuration.retain + 1,
            evidence={uid: self._proven(job, uid, found) for uid, found in positions.items()},
            leftovers=[each for sink in job.sinks for each in sink.leftovers()],
        )

    def _that_count(self, job: SavedJob, sink: str) -> list[Row]:
        now = Segment(job, job.query.generation, 1 << 30)
        return [row for each in (*self._past[job.folder], now) for row in _rows(each, sink)]

    def _proven(self, job: SavedJob, sink: str, position: Position | None) -> int | None:
        """The epoch that a sink proves; where the job has shown nothing under its own name, that of the rows before."""
        if position is None and not job.shown(sink):
            return max((row.epoch for row in self._that_count(job, sink)), default=None)
        return None if position is None else position.epoch

    def _abandoned(self, job: SavedJob) -> Iterator[str]:
        """Rows of a timeline that was given up: none, unless somebody has allowed it; then whole epochs, once."""
        counted = {sink.identity.sink: set(self._that_count(job, sink.identity.sink)) for sink in job.sinks}
        others = {uid: sorted(row for row in job.shown(uid) if row not in rows) for uid, rows in counted.items()}
        if any(self._generation(row) > self.given_up for rows in others.values() for row in rows):
            yield f"{job.name}: rows of a timeline that was given up: {others}"
        for uid, rows in others.items():
            others[uid] = [row for row in rows if (self._generation(row), row.epoch) not in self.out_of_reach]
        if len(set(map(tuple, others.values()))) > 1:
            yield f"{job.name}: a timeline that was given up is not the same in all sinks: {others}"

    def _generation(self, row: Row) -> int:
        return next(job.executions[row.execution] for job in self._jobs if row.execution in job.executions)


def _rows(segment: Segment, sink: str) -> list[Row]:
    job, generation, epoch = segment
    return [row for row in job.shown(sink) if job.executions.get(row.execution) == generation and row.epoch <= epoch]


def _counted(_session: object, checkpoint: Path, saved: SavedQuery, *_: object) -> dict[str, int]:
    return count_states(checkpoint, saved.done.epoch)


@contextmanager
def worlds_spark() -> Generator[None, None, None]:
    """What a restore asks of Spark, answered by the world; and syncs one after another, so that each has its number."""
    with ExitStack() as stack:
        for file, name, answer in (
            (restore_judged, "reads_files", lambda rows: (False,)),
            (restore_judged, "operators_planned", lambda session, plan: (PLANNED,)),
            (restore_judged, "compare_operators", lambda session, plan, saved, savepoint, match: None),
            (restore_carried_out, "count_state", _counted),
            (restore_carried_out, "expected_state", _counted),
        ):
            stack.enter_context(mock.patch.object(file, name, answer))
        stack.enter_context(mock.patch.object(side_by_side, "THREADS", 1 << 30))
        stack.enter_context(mock.patch.object(restore_carried_out, "_LOG", _SILENT))
        yield


# --- the stories -------------------------------------------------------------------------------------------


def _upgrade(teller: Teller) -> None:
    job = teller.job()
    teller.run(job, 4)
    for number, records in enumerate((6, 8)):
        savepoint = teller.save(job, f"s{number}", last=True)
        teller.run(job, records, Restore(str(savepoint.folder)))
        teller.restored(job, job, savepoint)


def _back(teller: Teller) -> None:
    job = teller.job()
    teller.begin(job, teller.case.moment)
    savepoint = teller.save(job, "old")
    teller.go_on(job)
    _go_back(teller, job, job, savepoint)


def _crashed(teller: Teller) -> None:
    job = teller.job()
    teller.begin(job, 0)
    savepoint = teller.save(job, "old")
    teller.begin(job, teller.case.moment)
    job.die()
    wish = Restore(str(savepoint.folder), rewind="once")
    teller.given_up = job.query.generation
    teller.run(job, 8, wish)
    teller.restored(job, job, savepoint)


def _go_back(teller: Teller, job: SavedJob, before: SavedJob, savepoint: Savepoint, *, claim: bool = False) -> None:
    folder, done = str(savepoint.folder), savepoint.record.queries[0].done
    is_newest = before.query.generation == done.generation and not before.has_done(done.epoch + 1)
    before.die()
    teller.given_up = before.query.generation
    if not is_newest and not teller.is_refused(job, Restore(folder, claim=claim), Code.SINK_AHEAD):
        teller.troubles.append("a restore that repeats rows was not refused")
    teller.run(job, 8, Restore(folder, claim=claim, rewind="once"))
    teller.restored(job, before, savepoint)


def _fork(teller: Teller, **changes: Any) -> None:
    job, fork = teller.job(**changes), teller.job("fork", **changes)
    teller.begin(job, teller.case.moment)
    savepoint = teller.save(job, "shared")
    teller.run(fork, fork.configuration.records, Restore(str(savepoint.folder)))
    teller.restored(fork, job, savepoint)
    teller.go_on(job)


def _windowed(teller: Teller) -> None:
    _fork(teller, work=Work.WINDOWED)


def _quick(teller: Teller) -> None:
    _fork(teller, **_COMMITS_BEHIND)


_COMMITS_BEHIND: dict[str, Any] = {
    "max_concurrent": 2,
    "schedule": Schedule.STREAM_FIRST,
    "chunks": (1,),
    "retain": 5,
}


def _claim(teller: Teller) -> None:
    job, moved = teller.job(), teller.job(place="elsewhere")
    teller.run(job, 4)
    savepoint = teller.save(job, "moved", last=True)
    job.die()
    teller.run(moved, 8, Restore(str(savepoint.folder), claim=True))
    teller.restored(moved, job, savepoint)


def _claim_twice(teller: Teller) -> None:
    job = teller.job()
    moved, other = (teller.job(place=place) for place in ("elsewhere", "third"))
    teller.run(job, 4)
    savepoint = teller.save(job, "moved", last=True)
    job.die()
    wish = Restore(str(savepoint.folder), claim=True)
    teller.start_once(moved, wish)
    winner, loser = (moved, other) if teller.is_refused(other, wish, Code.SAVEPOINT_CLAIMED) else (other, moved)
    if loser is moved and not teller.is_refused(moved, wish, Code.SAVEPOINT_CLAIMED):
        teller.troubles.append("two jobs go on under one id")
    loser.die()
    teller.run(winner, 8, wish)
    teller.restored(winner, job, savepoint)


def _claim_back(teller: Teller) -> None:
    job, moved = teller.job(), teller.job(place="elsewhere")
    teller.run(job, 4)
    savepoint = teller.save(job, "old", last=True)
    teller.run(job, 6, Restore(str(savepoint.folder)))
    teller.restored(job, job, savepoint)
    _go_back(teller, moved, job, savepoint, claim=True)


def _moved(teller: Teller) -> None:
    job, moved = teller.job(**_COMMITS_BEHIND), teller.job(place="elsewhere", **_COMMITS_BEHIND)
    teller.begin(job, teller.case.moment)
    savepoint = teller.save(job, "moved")
    job.die()
    teller.out_of_reach = job.committing()
    wish = Restore(str(savepoint.folder), claim=True)
    if teller.is_refused(moved, wish, Code.SINK_AHEAD):
        teller.given_up = job.query.generation
        wish = Restore(str(savepoint.folder), claim=True, rewind="once")
    teller.run(moved, 8, wish)
    teller.restored(moved, job, savepoint)


def _again(teller: Teller) -> None:
    job = teller.job()
    teller.run(job, 4)
    savepoint = teller.save(job, "old", last=True)
    teller.run(job, 6, Restore(str(savepoint.folder)))
    teller.given_up = job.query.generation
    teller.run(job, 8, Restore(str(savepoint.folder), rewind="once"))
    teller.restored(job, job, savepoint)


_STORIES: dict[Story, Callable[[Teller], None]] = {
    Story.UPGRADE: _upgrade,
    Story.BACK: _back,
    Story.CRASHED: _crashed,
    Story.FORK: _fork,
    Story.WINDOWED: _windowed,
    Story.QUICK: _quick,
    Story.CLAIM: _claim,
    Story.CLAIM_TWICE: _claim_twice,
    Story.CLAIM_BACK: _claim_back,
    Story.MOVED: _moved,
    Story.AGAIN: _again,
}

"""A job of one query in one folder: it is started, restored, runs, is saved, and its process may die anywhere.

`start` does what `Job.start` does, in its order, with the world in the place of Spark.
"""

from __future__ import annotations

import itertools
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from pyspark.sql import SparkSession

from tests.simulation.saved.disk import FolderDisk
from tests.simulation.saved.sinks import PlanSink, Targets
from tests.simulation.saved.watched import Watched
from tests.world.configurations import Configuration
from tests.world.disk import Disk
from tests.world.driver import Driver
from tests.world.engine import Do
from tests.world.rows import Row
from tests.world.sinks import Rows, SimSink
from tidegate.checkpoints.job_layout import JOB_RECORD, QUERIES, generation_folder
from tidegate.core.ledger import DECIDED, DONE, RECORD_FOLDERS, Query
from tidegate.core.levels import Level
from tidegate.core.records import JobRecord, SinkIdentity, decode, encode
from tidegate.disk import durable
from tidegate.disk.strikes import STRIKES
from tidegate.savepoints.folder import Savepoint
from tidegate.savepoints.hold import RunningQuery
from tidegate.savepoints.restored import goes_back
from tidegate.savepoints.restoring import Restore
from tidegate.savepoints.running_job import RunningJob
from tidegate.savepoints.settled import settle
from tidegate.savepoints.take import remove_held, take, take_last
from tidegate.settings.config import Settings
from tidegate.spark.generations import remove_older_generations
from tidegate.spark.job_plan import JobPlan
from tidegate.spark.opens import Opens
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.restore_carried_out import carry_out
from tidegate.spark.restoring import JobRestore, open_restore
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder

QUERY = "query"
_SETTINGS = Settings()
_NO_SPARK = cast("SparkSession", None)
"""The functions that would ask it are the world's: `stories.worlds_spark`."""


class SavedJob:
    """What stays when its process dies: the folder, what its sinks keep beside it, and the rows in its targets.

    `executions` has, for each computing of an epoch, the generation that it belonged to.
    """

    def __init__(self, name: str, root: Path, targets: Targets, watched: Watched, configuration: Configuration) -> None:
        self.name = name
        self.folder = root / name
        self.configuration = configuration
        self.executions: dict[int, int] = {}
        self.driver: Driver | None = None
        self.troubles: list[str] = []
        self.starts = 0
        self._root = root
        self._targets = targets
        self._watched = watched
        self._staged = Disk()
        self._query: Query | None = None
        self._disk: FolderDisk | None = None
        self.sinks: list[SimSink] = []

    # --- what a driver of the world asks for ----------------------------------------------------------------

    @property
    def query(self) -> Query:
        if self._query is None:
            raise RuntimeError("the job has not been started")
        return self._query

    @property
    def disk(self) -> FolderDisk:
        if self._disk is None:
            raise RuntimeError("the job has not been started")
        return self._disk

    def sink(self, uid: str) -> SimSink:
        return self.sinks[self.query.sinks.index(uid)]

    def new_execution(self) -> int:
        """A number for one computing of an epoch: no other job's, and no other generation's."""
        number = next(_EXECUTIONS)
        self.executions[number] = self.query.generation
        return number

    def after_recovery(self) -> Generator[Do, Any, None]:
        place = self.folder / QUERIES / QUERY
        plan = self._plan(self.query)
        yield Do("older generations", lambda: remove_older_generations(Folder.of(place), self.query, plan.sinks))

    # --- a process ------------------------------------------------------------------------------------------

    def start(self, wish: Restore | None = None) -> None:
        """Raises what stands against it; nothing runs then."""
        self.driver = None
        self.starts += 1
        durable._settled.clear()  # pyright: ignore[reportPrivateUsage] (a new process knows nothing)
        self._watched.step()
        remove_held(Folder.of(self.folder))
        settle(Folder.of(self.folder))
        storage = LocalStorage(self.folder)
        data = storage.read(JOB_RECORD)
        record = JobRecord(name=self.name, job_id=next(_IDS), generation=1)
        if data is not None:
            record = decode(JobRecord, data, JOB_RECORD)
        with ExitStack() as aside:
            restore = open_restore(wish, Folder.of(self.folder), self.name, Level.EXACTLY_ONCE, aside, Opens.RESTORE)
            if restore is not None:
                record = self._restored(restore)
        storage.put_if_absent(JOB_RECORD, encode(record))
        self._query = self._query_of(record)
        self._disk = FolderDisk(self._generation(record.generation))
        for folder in RECORD_FOLDERS:
            LocalStorage(self._disk.folder).remove_leftovers(folder)
        self.sinks = [self._open(self._query.sink(uid)) for uid in self._query.sinks]
        self.driver = Driver(self, self.starts)

    def recover(self) -> None:
        """To where Spark starts: nothing is asked of a job before."""
        while self.driver is not None and self.driver.finisher is None:
            self.step()

    def die(self) -> None:
        """With everything that the process knew."""
        self.driver = None

    def step(self) -> bool:
        """One step of the driver; whether there was one. Raises what has ended a thread of it."""
        driver = self.driver
        thread = None if driver is None else driver.pick()
        if driver is None or thread is None:
            return False
        self._watched.step()
        driver.perform(thread)
        for error in driver.errors:
            raise error
        return True

    def go_on(self) -> None:
        """To the end of the input there is."""
        while self.step():
            pass
        if self.driver is not None and not self.driver.completed:
            self.troubles.append(f"{self.name}: every thread waits")

    def has_done(self, epoch: int) -> bool:
        return any(int(name) >= epoch for name in self.disk.names(DONE))

    def committing(self) -> set[tuple[int, int]]:
        """The epochs, by generation, that are decided and not done: some sinks may have them, and others not."""
        decided, done = (set(self.disk.names(each)) for each in (DECIDED, DONE))
        return {(self.query.generation, int(name)) for name in decided - done}

    # --- savepoints -----------------------------------------------------------------------------------------

    def take(self, savepoint_id: str, *, last: bool = False) -> Savepoint:
        """By the process that runs, or, with `last`, by one that finds the job ended."""
        record = decode(JobRecord, LocalStorage(self.folder).read(JOB_RECORD) or b"", JOB_RECORD)
        query = self._query_of(record)
        kept = self.configuration.retain
        running = RunningQuery(query, Folder.of(self._generation(record.generation)), kept)
        job = RunningJob(Folder.of(self.folder), record, [running])
        return (take_last if last else take)(job, savepoint_id, self._root / "savepoints")

    def _restored(self, restore: JobRestore) -> JobRecord:
        above = restore.above_evidence(self._plan_of(restore.target).queries, Level.EXACTLY_ONCE)
        carry_out(above, self._plan_of(above.target), lambda step: STRIKES.reach(step, None))
        return above.target

    def _plan_of(self, record: JobRecord) -> JobPlan:
        plans = (self._plan(self._query_of(record)),)
        return JobPlan(
            record=record, folder=Folder.of(self.folder), session=_NO_SPARK, settings=_SETTINGS, queries=plans
        )

    # --- its parts ------------------------------------------------------------------------------------------

    def _query_of(self, record: JobRecord) -> Query:
        query = replace(
            self.configuration.query, job=self.name, job_id=record.job_id, generation=record.generation, uid=QUERY
        )
        return replace(query, may_repeat=goes_back(Folder.of(self.folder), record, QUERY))

    def _plan(self, query: Query) -> QueryPlan:
        sinks = {uid: PlanSink(self._open) for uid in query.sinks}
        return cast("QueryPlan", SimpleNamespace(query=query, sinks=sinks, rows=None, conf={}))

    def _generation(self, number: int) -> Path:
        return generation_folder(Folder.of(self.folder / QUERIES / QUERY), number).local()

    def _open(self, identity: SinkIdentity) -> SimSink:
        def show(sink: str, epoch: int, rows: Rows) -> None:
            ledger = self._generation(identity.generation) / DECIDED / str(epoch)
            if not ledger.exists():
                self.troubles.append(f"{sink}: {len(rows)} rows of epoch {epoch} shown before it was decided")

        return self._targets.open(identity, self._staged, show)

    def shown(self, sink: str) -> list[Row]:
        return self._targets.shown(self.name, QUERY, sink)


_EXECUTIONS = itertools.count(1)
_IDS = map("{:08x}".format, itertools.count(1))

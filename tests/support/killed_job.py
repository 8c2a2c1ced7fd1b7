"""The folder of a job as a killed driver leaves it, made without Spark: a query into a table and into files."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from tidegate.core.finish import choose
from tidegate.core.ledger import COMMITS, DECIDED, OFFSETS, RUNS, START, Query, entry, prepared_name
from tidegate.core.levels import Level
from tidegate.core.records import Attempt, Committable, JobRecord, Prepared, Run, Start, encode
from tidegate.operate.place import JobPlace, open_job
from tidegate.operate.sinks import describe, write_sinks
from tidegate.sinks.base import SinkPlan, TwoPhaseSink
from tidegate.sinks.files.sink import FileSink
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import SCHEMA, rows_from

TASKS = 2
ROWS = 3
STATELESS = b'v1\n{"nextBatchWatermarkMs":0}'
QUERY = Query(job="job", job_id="0badcafe", generation=1, uid="counts", sources=("in",), sinks=("table", "files"))


class KilledJob:
    """Epochs are prepared one after the other, as far as the test wants each."""

    def __init__(self, folder: Path, extra: TwoPhaseSink | None = None) -> None:
        """`extra` takes the place of the files, under their uid."""
        self.root = folder / "checkpoints"
        self.folder = self.root / "job"
        self.storage = LocalStorage(self.folder / "queries" / "counts" / "g1")
        self.table = SQLiteSink("table", folder / "out.db", table="numbers")
        self.files = FileSink("files", folder / "out", format="json") if extra is None else extra
        job = LocalStorage(self.folder)
        job.put_if_absent("job.json", encode(JobRecord(name="job", job_id=QUERY.job_id, generation=1)))
        sinks = (self.table, self.files)
        write_sinks(job, [describe("counts", each, Level.EXACTLY_ONCE) for each in sinks], 0.0)
        start = Start(job_id=QUERY.job_id, generation=1, first_epoch=0, sources=QUERY.sources, sinks=QUERY.sinks)
        self.storage.put_if_absent(START, encode(start))
        run = Run(run=1, token="token1", host="here", process=1, since="then")
        self.storage.put_if_absent(entry(RUNS, 1), encode(run))
        for sink in sinks:
            sink.open(
                SinkPlan(
                    identity=QUERY.sink(sink.uid),
                    schema=SCHEMA,
                    mode="append",
                    local_master=True,
                    read_journal=lambda _: (),
                )
            )

    @property
    def place(self) -> JobPlace:
        return open_job(Folder.of(self.root / "job"))

    def prepare(self, epoch: int, *, run: int = 1, sinks: tuple[str, ...] = QUERY.sinks) -> tuple[Committable, ...]:
        """The epoch's tasks and *prepared*, and the offsets entry that came before."""
        offsets = self._offsets(epoch)
        self.storage.put_if_absent(entry(OFFSETS, epoch), offsets)
        committables = tuple(
            self._task(sink, epoch, run, task)
            for sink in (self.table, self.files)
            if sink.uid in sinks
            for task in range(TASKS)
        )
        record = Prepared(
            epoch=epoch, run=run, committables=committables, start_positions=None, offsets=offsets, state_ids=None
        )
        self.storage.put_if_absent(prepared_name(epoch, run), encode(record))
        return committables

    def log(self, epoch: int) -> None:
        """Spark's commits entry: the epoch is decided, whether anybody has written it down or not."""
        self.storage.put_if_absent(entry(COMMITS, epoch), STATELESS)

    def decide(self, epoch: int, run: int = 1) -> None:
        """*decided*, for the record of a run."""
        data = self.storage.read(prepared_name(epoch, run)) or b""
        record = Prepared(
            epoch=epoch, run=run, committables=(), start_positions=None, offsets=self._offsets(epoch), state_ids=None
        )
        decided = choose(QUERY, epoch, record.offsets, STATELESS, [(data, record)])
        self.storage.put_if_absent(entry(DECIDED, epoch), encode(decided))

    def in_table(self) -> list[int]:
        with closing(sqlite3.connect(self.table.path)) as database:
            return sorted(number for (number,) in database.execute("SELECT id FROM numbers"))

    def in_files(self) -> list[int]:
        folder = self.table.path.with_name("out")
        return sorted(json.loads(line)["id"] for path in folder.glob("*.json") for line in path.open())

    def _task(self, sink: TwoPhaseSink, epoch: int, run: int, task: int) -> Committable:
        attempt = Attempt(
            sink=QUERY.sink(sink.uid), run=run, run_token=f"token{run}", epoch=epoch, task=task, task_attempt=task
        )
        transaction = sink.begin(attempt)
        transaction.write(rows_from(epoch * TASKS + task, ROWS))
        committable = transaction.pre_commit()
        assert committable is not None
        return committable

    def _offsets(self, epoch: int) -> bytes:
        return b'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"logOffset":%d}' % epoch


def numbers_of(*epochs: int) -> list[int]:
    """The ids of the rows of these epochs."""
    return [(epoch * TASKS + task) * 1000 + row for epoch in epochs for task in range(TASKS) for row in range(ROWS)]

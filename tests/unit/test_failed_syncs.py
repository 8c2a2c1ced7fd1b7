"""A sync that failed is never taken for a success: each sync of an epoch fails once, in each sink and in the ledger.

The protocol is the real one, with real files; a small port stands for Spark. The disk forgets what a failed sync was
for, although every look shows it until the power is lost.
"""

from __future__ import annotations

import errno
import json
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from tests.support.failing_syncs import FailingSyncs, begin_a_process
from tests.support.today import turn
from tidegate.core import effects as fx
from tidegate.core.epoch import run_epoch
from tidegate.core.errors import TidegateError
from tidegate.core.finish import finish_epoch
from tidegate.core.ledger import COMMITS, DONE, OFFSETS, Query, entry, read_finished
from tidegate.core.records import Attempt, Committable, Evidence, Run
from tidegate.core.recover import open_run
from tidegate.disk.durable import SyncFailed, is_of_a_failed_sync
from tidegate.operate.runner import Runner
from tidegate.sinks.base import JournalKeeper, SinkPlan, TwoPhaseSink
from tidegate.sinks.files.sink import FileSink
from tidegate.sinks.sqlite.sink import SQLiteSink
from tidegate.sinks.write_ahead import DecidedEpoch, WriteAheadSink
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.journal import journal_name
from tidegate.storages.journals import open_journal
from tidegate.storages.local.storage import LocalStorage
from tidegate.storages.schemes import Folder
from tidegate.testing.contract import IDENTITY, SCHEMA, attempt_of, rows_from

QUERY = Query(job="orders", job_id="5f0c", generation=1, uid="by-day", sources=("source",), sinks=("numbers",))
FORGETFUL = replace(QUERY, forgetful=frozenset(QUERY.sinks))
EPOCHS = 2


class Lines(WriteAheadSink):
    """Each epoch's rows go to a file of its own, from the ledger's journal."""

    def __init__(self, uid: str, folder: Path) -> None:
        super().__init__(uid)
        self.folder = folder

    def open(self, plan: SinkPlan) -> None:
        super().open(plan)
        self.folder.mkdir(exist_ok=True)

    def publish(self, epoch: DecidedEpoch, batches: Iterable[pa.RecordBatch]) -> None:
        rows = [row for batch in batches for row in batch.to_pylist()]
        LocalStorage(self.folder).replace(f"{epoch.number}.json", json.dumps(rows).encode())

    def evidence(self, committable: Committable) -> Evidence:
        return Evidence.ABSENT


class Program:
    """One process of a job: its first call opens a run, which recovers what the processes before it have left."""

    def __init__(self, place: Path, make: Callable[[Path], TwoPhaseSink]) -> None:
        self.sink = make(place)
        self.query = QUERY if self.sink.remembers else FORGETFUL
        self.storage = LocalStorage(place / "job")
        self.journal_folder = place / "job/journal"
        self.run: Run | None = None
        self.finished = -1
        self.runner = Runner(
            query=self.query,
            storage=self.storage,
            sinks={"numbers": self.sink},
            journal_folder=Folder.of(self.journal_folder),
            checkpoint=open_checkpoint_files(place / "job/spark"),
            port=self,
        )

    def go(self) -> None:
        """Run epoch after epoch, as the driver, Spark and the finisher do together."""
        identity = QUERY.sink("numbers")
        self.sink.open(
            SinkPlan(
                identity=identity,
                schema=SCHEMA,
                mode="append",
                local_master=True,
                read_journal=self.runner.read_journal,
            )
        )
        self.run = self.runner.run(open_run(self.query))
        self.finished = self.runner.run(read_finished())
        for epoch in range(self.finished + 1, EPOCHS):
            self._spark_writes(OFFSETS, epoch, 'v1\n{"batchWatermarkMs":0,"conf":{}}\n' + str(epoch + 1))
            self.runner.run(run_epoch(self.query, self.run, epoch))
            self._spark_writes(COMMITS, epoch, 'v1\n{"nextBatchWatermarkMs":0}')
            self.runner.run(finish_epoch(self.query, self.run, epoch))
            self.finished = epoch

    def _spark_writes(self, folder: str, epoch: int, text: str) -> None:
        file = self.storage.path(entry(folder, epoch))
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_text(text)

    def compute(self, effect: fx.Compute) -> fx.Computed:
        attempt = Attempt(
            sink=QUERY.sink("numbers"),
            run=effect.run,
            run_token=effect.run_token,
            epoch=effect.epoch,
            task=0,
            task_attempt=0,
        )
        rows = rows_from(effect.epoch * 10, 2)
        transaction = self.sink.begin(attempt)
        transaction.write(rows)
        journal = open_journal(self.journal_folder).writer(journal_name(attempt))
        reference = None
        if self.sink.journal is JournalKeeper.LEDGER:
            journal.write(rows)
            reference = journal.close()
        committable = transaction.pre_commit()
        assert committable is not None
        return fx.Computed(
            (msgspec.structs.replace(committable, journal=reference),),
            (str(effect.epoch) if effect.epoch else None,),
            None,
        )

    def await_finished(self, epoch: int) -> int:
        return self.finished

    def await_commits(self, epoch: int) -> bool:
        raise AssertionError

    def hesitate(self, effect: fx.Hesitate) -> None:
        if effect.attempt == 3:
            raise AssertionError(f"it is tried again and again: {effect.detail}")

    def tell(self, happening: fx.Happening) -> None:
        pass


def rows_of_files(place: Path) -> list[int]:
    return [json.loads(line)["id"] for file in place.glob("out/*.json") for line in file.read_text().splitlines()]


def rows_of_lines(place: Path) -> list[int]:
    return [row["id"] for file in place.glob("out/*.json") for row in json.loads(file.read_text())]


def rows_of_partitions(place: Path) -> list[int]:
    return [int(file.parent.name.removeprefix("id=")) for file in place.glob("out/id=*/*.txt")]


def rows_of_table(place: Path) -> list[int]:
    with closing(sqlite3.connect(place / "t.db")) as reader:
        return [number for (number,) in reader.execute("SELECT id FROM t")]


Sink = tuple[Callable[[Path], TwoPhaseSink], Callable[[Path], list[int]]]

SINKS: dict[str, Sink] = {
    "files": (lambda place: FileSink("numbers", place / "out", format="json"), rows_of_files),
    "partitions": (
        lambda place: FileSink("numbers", place / "out", format="text", partition_by="id"),
        rows_of_partitions,
    ),
    "sqlite": (lambda place: SQLiteSink("numbers", place / "t.db", table="t"), rows_of_table),
    "write-ahead": (lambda place: Lines("numbers", place / "out"), rows_of_lines),
}
WHOLE = [row["id"] for epoch in range(EPOCHS) for row in rows_from(epoch * 10, 2).to_pylist()]


def syncs_of(place: Path, sink: str, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The syncs of a run without a fault, below its place."""
    place.mkdir()
    begin_a_process(monkeypatch)
    disk = FailingSyncs(monkeypatch, place)
    Program(place, SINKS[sink][0]).go()
    return [path.relative_to(place) for path in disk.synced]


@turn(0, of=4)
@pytest.mark.parametrize(
    ("sink", "number"), [*((sink, errno.EIO) for sink in SINKS), ("files", errno.ENOSPC), ("write-ahead", errno.ENOSPC)]
)
def test_no_epoch_counts_that_needed_a_sync_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sink: str, number: int
) -> None:
    make, rows = SINKS[sink]
    syncs = syncs_of(tmp_path / "without", sink, monkeypatch)
    whole = (sink, number) == ("files", errno.EIO)  # the ledger's own syncs are the same each time
    chosen = [at for at, path in enumerate(syncs) if whole or not path.is_relative_to("job/ledger")]
    assert len(chosen) > (40 if whole else 6)
    for at in chosen:
        place = _made(tmp_path / str(at))
        begin_a_process(monkeypatch)
        where = FailingSyncs(monkeypatch, place)
        where.fail(at, number)
        error = _error_of(Program(place, make))
        (failed,) = where.failed
        if error is None or not is_of_a_failed_sync(error):
            assert number == errno.ENOSPC, f"{failed}: {error}"
            assert not failed.is_dir(), "only a new file is dropped"
        if failed.is_dir():
            done = _done(place)
            assert _error_of(Program(place, make)), f"{failed}: a second look in the same process believes it"
            assert _done(place) == done, f"{failed}: an epoch counts after a second look"

        begin_a_process(monkeypatch)
        Program(place, make).go()
        assert sorted(rows(place)) == WHOLE, f"after the sync of {failed}"
        if sink != "sqlite":  # its own syncs are seen by no recorder in Python
            where.lose_power()
            assert sorted(rows(place)) == WHOLE, f"a power loss took what the sync of {failed} was for"
            begin_a_process(monkeypatch)
            Program(place, make).go()
            assert sorted(rows(place)) == WHOLE, "at the next start after the power loss"


@pytest.mark.parametrize("sink", ["files", "partitions"])
def test_a_sync_that_fails_in_two_processes_one_after_the_other_is_believed_by_neither(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sink: str
) -> None:
    make, rows = SINKS[sink]
    syncs = syncs_of(tmp_path / "without", sink, monkeypatch)
    targets = [at for at, path in enumerate(syncs) if path == Path("out")]
    place = _made(tmp_path / "twice")
    begin_a_process(monkeypatch)
    where = FailingSyncs(monkeypatch, place)
    where.fail(targets[-1], errno.EIO)
    with pytest.raises(SyncFailed):
        Program(place, make).go()
    assert _done(place) == ["0"]
    begin_a_process(monkeypatch)
    where.fail(0, errno.EIO, *range(1, 1000))
    with pytest.raises(SyncFailed):
        Program(place, make).go()
    assert _done(place) == ["0"]
    begin_a_process(monkeypatch)
    where.fail(-1, 0)
    Program(place, make).go()
    where.lose_power()
    assert sorted(rows(place)) == WHOLE


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
def test_a_file_sink_whose_folder_was_not_synced_never_says_already(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    sink, committable = _prepared(tmp_path)
    FailingSyncs(monkeypatch, tmp_path).fail_path(tmp_path / "out", number)
    with pytest.raises(SyncFailed, match="out"):
        sink.commit([committable])
    for look in (lambda: sink.commit([committable]), lambda: sink.evidence(committable)):
        with pytest.raises(SyncFailed, match="after an earlier sync failed"):
            look()


def _prepared(place: Path, epoch: int = 0) -> tuple[FileSink, Committable]:
    sink = FileSink("numbers", place / "out", format="json")
    sink.open(SinkPlan(identity=IDENTITY, schema=SCHEMA, mode="append", local_master=True, read_journal=lambda _: []))
    transaction = sink.begin(attempt_of(epoch=epoch))
    transaction.write(rows_from(0, 2))
    committable = transaction.pre_commit()
    assert committable is not None
    return sink, committable


def _error_of(program: Program) -> BaseException | None:
    try:
        program.go()
    except (TidegateError, OSError) as error:
        return error
    return None


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _done(place: Path) -> list[str]:
    folder = place / "job" / DONE
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".")) if folder.exists() else []

"""How an epoch grows over 2,000 epochs on HDFS and on S3: tidegate's own part of it.

The protocol runs as in a job: the same two threads, the same steps, every request to the storage, and a journal of ten
rows that is read at the commit and removed. Spark is left out, which would take 20 minutes: its entries in the log are
written here, and removed as Spark removes them. An epoch's time is that from its `offsets/N` to the next one.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median

import msgspec
import pyarrow as pa

from bench.figures import Better, Figure
from bench.storage_servers import storage_servers
from tidegate.core.effects import Compute, Computed, Happening, Hesitate, OwnPlan
from tidegate.core.epoch import run_epoch
from tidegate.core.finish_steadily import finish_as_they_come
from tidegate.core.happenings import EpochDone
from tidegate.core.ledger import COMMITS, OFFSETS, Query, entry
from tidegate.core.records import Attempt, Run
from tidegate.core.recover import open_run
from tidegate.operate.runner import Runner
from tidegate.sinks.base import SinkPlan
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.journal import journal_name
from tidegate.storages.journals import open_journal
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder
from tidegate.testing.memory import MemorySink

EPOCHS, PART, WARM_UP = 2_000, 200, 50
_QUICK_EPOCHS, _QUICK_PART, _QUICK_WARM_UP = 80, 20, 10
_GOAL_PERCENT = 10.0
"""The medians of two such parts of a job that does not grow differ by some percent."""
_KEPT_BY_SPARK = 10
_BOUND_SECONDS = 60.0
_ROWS = pa.RecordBatch.from_pydict({"k": list(range(10)), "v": list(range(10))})
_COMMITTED = b'v1\n{"nextBatchWatermarkMs":0}'


def measure(rounds: int, *, quick: bool) -> list[Figure]:
    """A figure for each storage. One round: what is measured is the age, not the noise between two runs."""
    epochs, part, warm_up = (_QUICK_EPOCHS, _QUICK_PART, _QUICK_WARM_UP) if quick else (EPOCHS, PART, WARM_UP)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, storage_servers(Path(folder)) as servers:
        return [
            growth_of(name, AgingQuery(place).epochs_ms(epochs), part, warm_up, has_goal=not quick)
            for name, place in servers.folders().items()
        ]


def growth_of(storage: str, epochs_ms: Sequence[float], part: int, warm_up: int, *, has_goal: bool) -> Figure:
    """The median of the last `part` epochs against that of the first ones behind the warm-up."""
    first, last = median(epochs_ms[warm_up : warm_up + part]), median(epochs_ms[-part:])
    return Figure(
        name=f"storage-growth-{storage}",
        what=f"growth of an epoch without Spark over {len(epochs_ms):,} epochs on {storage.upper()}",
        value=round((last / first - 1) * 100, 1),
        unit="%",
        better=Better.LOWER,
        goal=_GOAL_PERCENT if has_goal else None,
        samples={"early ms": [round(first, 2)], "late ms": [round(last, 2)]},
    )


class AgingQuery:
    """One run of one query whose checkpoint is in `folder`. It stands for Spark, and for the tasks."""

    def __init__(self, folder: Folder) -> None:
        self._query = Query(
            job="bench",
            job_id="0" * 12,
            generation=1,
            uid="query",
            sources=("source",),
            sinks=("sink",),
            local_lease=False,
        )
        self._storage = open_storage(folder)
        self._journal = open_journal(folder / "journal")
        self._sink = MemorySink("sink")
        self._runner = Runner(
            query=self._query,
            storage=self._storage,
            sinks={"sink": self._sink},
            journal_folder=folder / "journal",
            checkpoint=open_checkpoint_files(folder / "spark"),
            port=self,
        )
        self._changed = threading.Condition()
        self._logged = self._finished = -1
        self._error: BaseException | None = None
        self._is_over = False

    def epochs_ms(self, epochs: int) -> list[float]:
        """How long each of these epochs takes."""
        identity = self._query.sink("sink")
        plan = SinkPlan(
            identity=identity,
            schema=_ROWS.schema,
            mode="append",
            local_master=True,
            read_journal=self._runner.read_journal,
        )
        self._sink.open(plan)
        run = self._runner.run(open_run(self._query))
        finisher = threading.Thread(target=self._finish, args=(run,), name="bench-finisher", daemon=True)
        finisher.start()
        begun: list[float] = []
        for epoch in range(epochs + 1):
            begun.append(time.perf_counter())
            self._take(run, epoch)
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        finisher.join(_BOUND_SECONDS)
        if self._finished != epochs:
            raise RuntimeError(f"epoch {self._finished} of {epochs} is the last that was finished") from self._error
        return [(after - before) * 1000 for before, after in pairwise(begun)]

    def _take(self, run: Run, epoch: int) -> None:
        """As Spark does: the entry of its log, the call with the epoch, the other entry, the removal of old ones."""
        offsets = f'v1\n{{"batchWatermarkMs":0,"conf":{{}}}}\n{epoch}'
        self._storage.note(entry(OFFSETS, epoch), offsets.encode())
        self._runner.run(run_epoch(self._query, run, epoch))
        self._storage.note(entry(COMMITS, epoch), _COMMITTED)
        with self._changed:
            self._logged = epoch
            self._changed.notify_all()
        if (old := epoch - _KEPT_BY_SPARK) >= 0:
            self._storage.delete_all([entry(OFFSETS, old), entry(COMMITS, old)])

    def _finish(self, run: Run) -> None:
        try:
            self._runner.run(finish_as_they_come(self._query, run))
        except BaseException as error:  # noqa: BLE001 (raised in the other thread)
            with self._changed:
                self._error = error
                self._changed.notify_all()

    # --- calls of the protocol -----------------------------------------------------------------------------

    def compute(self, effect: Compute) -> Computed:
        """One task, with ten rows."""
        attempt = Attempt(
            sink=self._query.sink("sink"),
            run=effect.run,
            run_token=effect.run_token,
            epoch=effect.epoch,
            task=0,
            task_attempt=effect.epoch,
        )
        writer, transaction = self._journal.writer(journal_name(attempt)), self._sink.begin(attempt)
        transaction.write(_ROWS)
        writer.write(_ROWS)
        reference, committable = writer.close(), transaction.pre_commit()
        if committable is None:
            raise RuntimeError("no committable for ten rows")
        before = str(effect.epoch - 1) if effect.epoch else None
        own = OwnPlan(ends=(str(effect.epoch),), watermark_ms=0, base_ids=None)
        return Computed((msgspec.structs.replace(committable, journal=reference),), (before,), None, own=own)

    def await_finished(self, epoch: int) -> int:
        self._wait(lambda: self._finished >= epoch)
        return self._finished

    def await_commits(self, epoch: int) -> bool:
        self._wait(lambda: self._logged > epoch or self._is_over)
        return self._logged > epoch

    def hesitate(self, effect: Hesitate) -> None:
        raise RuntimeError(f"sink {effect.sink} is not ready: {effect.detail}")

    def tell(self, happening: Happening) -> None:
        if isinstance(happening, EpochDone):
            with self._changed:
                self._finished = happening.epoch
                self._changed.notify_all()

    def _wait(self, has_come: Callable[[], bool]) -> None:
        with self._changed:
            if not self._changed.wait_for(lambda: has_come() or self._error is not None, _BOUND_SECONDS):
                raise TimeoutError("the other thread does not come on")
            if self._error is not None:
                raise self._error

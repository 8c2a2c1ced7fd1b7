"""One run of one query in one process, from recovery to its end.

How it works. A run is *open* while it may take epochs, *ending* when its end was requested, and *ended* or *stopped*
when Spark's stream thread is gone (`run_state.RUN`). Two states are for good: *lost*, if Spark's start does not return,
and *stuck*, if its thread does not end. Such a run keeps what the job holds, as long as Spark's thread may write
`commits/N`. These states are in memory alone. A process may die in any of them, and the next run knows only the
records.

A run goes through these steps, and each needs the ones before it:

1. `open` claims *runs/R* and recovers (`core/recover`): the decided epochs of dead runs are done, and Spark's log holds
   the decisions. It comes before Spark's start, because Spark believes its log. Then it removes what only a dead run
   could need: older generations, checksums, the state of an epoch that never began. After a death here the next `open`
   does the same again.
2. `start` starts the finisher first, then Spark: the finisher has nothing to do until an epoch is prepared, and an
   epoch needs it. A death between them leaves no record.
3. In Spark's stream thread, for each epoch N (`epoch_thread`, `core/epoch`): Spark has written `offsets/N`. The epochs
   below are decided, the rows are computed and pre-committed in one action, Spark's state files are synced, then
   *prepared/N.R* is written, and only then the call returns to Spark. A sink below exactly-once shows its rows just
   before *prepared* (`core/straight`). Before *prepared* a death leaves open transactions, which the next run aborts;
   Spark runs the epoch again with the same input.
4. Spark writes `commits/N`, and may call with epoch N+1 at once. After a death between *prepared* and `commits/N` the
   epoch is undecided: the next run gives it up, and Spark runs it again. After `commits/N` it is decided by what the
   records say.
5. In the finisher's thread (`finisher`, `core/finish`): it sees `commits/N`, and decides, commits and finishes the
   epoch beside the computation of the next one. After a death here the next run finishes it.
6. The end, from the job's thread (`run_threads`). A request lets the current epoch become done, for as long as the stop
   may wait, because the epoch would otherwise be computed twice. Then Spark's query is stopped and its thread awaited,
   then the finisher. This order matters: an epoch that Spark logs last is finished, too, and nothing else writes after
   it.
7. `close` raises the error that ended the run, its cause before its consequences (`run_failure`). Without an error it
   decides and gives up what is left (`close_run`): open transactions of an undecided epoch are aborted now and not only
   at the next start. After a death before it, or an error, the next `open` does this.

An error in any thread is kept in `shared_state` and ends the run; it is raised by `close`, after both threads have
ended. An epoch that takes too long is cut off: its input comes again, and its time is recorded, so that the next run
can give it more (`overdue_note`). A thread that refuses an epoch never returns to Spark normally: Spark would write
`commits/N` for an epoch without *prepared*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from tidegate.checkpoints.checksums import drop_checksums
from tidegate.checkpoints.overwritten import state_overwritten
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.checkpoints.state_proof import StateFiles, open_state
from tidegate.checkpoints.unbegun import clear_unbegun
from tidegate.checkpoints.undecided_state import clear_undecided_state
from tidegate.checkpoints.way_back import with_way_back
from tidegate.core.effects import Compute, Computed, Happening, Hesitate
from tidegate.core.epoch_time import note_overdue, times_by_epoch
from tidegate.core.errors import TidegateError
from tidegate.core.happenings import EpochDone
from tidegate.core.ledger import COMMITS, RECORD_FOLDERS, RUNS, entry, read_finished, read_start
from tidegate.core.records import NOTHING_FINISHED, Run, StateFile
from tidegate.core.recover import close_run, open_run
from tidegate.core.tolerance import EpochFault
from tidegate.disk.durable import ensure_folder
from tidegate.disk.strikes import STRIKES
from tidegate.operate.runner import Runner
from tidegate.spark.callbacks import refuse_if_deaf
from tidegate.spark.epoch_thread import EpochThread
from tidegate.spark.epoch_watch import EpochRefused, EpochWatch
from tidegate.spark.figures import Figures
from tidegate.spark.finisher import Finisher, hesitate
from tidegate.spark.generations import remove_older_generations
from tidegate.spark.no_data import DueEpoch
from tidegate.spark.query_id import mend_query_id
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.run_failure import fail_with
from tidegate.spark.run_progress import RunProgress
from tidegate.spark.run_threads import RunThreads
from tidegate.spark.session import lives
from tidegate.spark.shared_state import SharedState
from tidegate.spark.spent import note_cut_off, refuse_if_spent
from tidegate.spark.stream_thread import StreamThread
from tidegate.spark.supervised import start_moves
from tidegate.spark.vanished import vanished
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage


class QueryRun:
    """A run of a query: `open` (recovery), `start`, wait until its `threads` have ended; then `close` in any case."""

    def __init__(
        self,
        plan: QueryPlan,
        session: SparkSession,
        figures: Figures,
        listener: Callable[[str, int, Happening], None],
        lost_lease: Callable[[], TidegateError | None],
    ) -> None:
        self.plan = plan
        self.figures = figures
        self._lost_lease = lost_lease
        self._session = session
        self._storage = open_storage(plan.folder)
        self._checkpoint = open_checkpoint_files(plan.folder / "spark")
        self.runner = Runner(
            query=plan.query,
            storage=self._storage,
            sinks=plan.sinks,
            journal_folder=plan.journal,
            checkpoint=self._checkpoint,
            port=self,
            reach=self._reach,
        )
        self._run: Run | None = None
        self._state: StateFiles | None = None
        self._shared = shared = SharedState(EpochWatch(plan.timeout_seconds, plan.min_pause_seconds))
        self._thread = thread = StreamThread(plan, session, shared, self._keep_overdue)
        self._epochs = EpochThread(
            plan, self.runner, shared, thread, figures, plan.journal, self._opened, self._named_state
        )
        self._finisher = Finisher(plan.query, self.runner, shared, thread.has_logged)
        self.threads = RunThreads(shared, thread, self._finisher)
        self.progress = RunProgress(plan, self.runner, shared, figures, listener)

    def sweep(self) -> None:
        """Remove what Spark was writing when an earlier driver died. Only before the first run of this process: the
        state stores of an ended run may still write snapshots.
        """
        for name in self._checkpoint.unfinished():
            self._checkpoint.delete(name)

    def open(self) -> None:
        """Recover: all decided epochs are finished, and Spark's log is in order. Only with the job's locks held."""
        refuse_if_spent(self.plan.folder, str(self.plan.query))
        if self.plan.folder.is_local:
            ensure_folder(self.plan.folder.local() / "spark")
        for folder in RECORD_FOLDERS:
            self._storage.remove_leftovers(folder)
        try:
            self._run = self.runner.run(open_run(self.plan.query))
        except TidegateError as error:
            raise with_way_back(error, self.plan.folder.parent.parent.parent) from None
        self.runner.is_of_run(self._run.run)
        remove_older_generations(self.plan.folder.parent, self.plan.query, self.plan.sinks)
        drop_checksums(self.plan.folder / "spark")
        self._shared.finished = self.figures.finished = self.runner.run(read_finished())
        self.plan.stands(self._shared.finished)
        if self._shared.finished == NOTHING_FINISHED:
            clear_unbegun(self.plan.folder / "spark")
        if not self.plan.store.names_files:
            self._open_state()
        mend_query_id(open_storage(self.plan.folder / "spark"))
        self._shared.watch.times = self.runner.run(times_by_epoch(self.plan.timeout_seconds))

    def _open_state(self) -> None:
        """State files without unique names: nothing that a dead run has left counts, and a late writer is detected."""
        if self.plan.folder.is_local:
            clear_undecided_state(self.plan.folder / "spark")
            return
        self._state, flaws = open_state(self.plan.folder, self._shared.finished)
        if flaws:
            raise state_overwritten(flaws, self.plan.folder.parent.parent.parent)

    def start(self, trigger: Mapping[str, Any], due: DueEpoch = DueEpoch.RUNS) -> None:
        """Start Spark's query and its finisher."""
        run = self._opened()
        name = f"{self.plan.query.job}.{self.plan.query.uid} (run {run.run}, {run.token})"
        refuse_if_deaf(self._session)
        positions = self.runner.run(read_start()).positions
        with self.runner.told():
            rows, self.progress.monitors = (
                self.plan.begun_at(positions, self.figures.newest_epoch_seconds),
                self.plan.monitors(),
            )
        writer = (
            rows.writeStream.outputMode(self.plan.mode)
            .option("checkpointLocation", (self.plan.folder / "spark").for_spark())
            .queryName(name)
            .foreachBatch(self._epochs.on_epoch)
            .trigger(**trigger)
        )
        self._epochs.waits_for_readers = "processingTime" in trigger
        self._finisher.begin(run)
        self._thread.start(writer, name, due)

    # --- its state -----------------------------------------------------------------------------------------

    def place(self) -> dict[str, Any]:
        """The query, the run and its epoch, for the history of failures."""
        epoch = self.figures.epoch
        return {
            "query": self.plan.query.uid,
            "epoch": epoch if epoch >= 0 else None,
            "run": None if self._run is None else self._run.run,
        }

    @property
    def failed_epoch(self) -> tuple[int, EpochFault] | None:
        """The epoch whose failure alone ended the run, and the reason; None for every other end."""
        failed = self._shared.failed
        if failed is None or failed.fault is None or not self._shared.errors.is_one:
            return None
        return failed.epoch, failed.fault

    @property
    def failed_at(self) -> float | None:
        """When the run began to end with an error, by the monotonic clock; None if only Spark knows its error."""
        return self._shared.failed_at

    @property
    def failed_computing(self) -> bool:
        """True if the query's own work on an epoch has failed: not a sink or a dead JVM, and before its rows could be
        shown.
        """
        failed = self._shared.failed
        return failed is not None and failed.in_computing and lives(self._session)

    @property
    def cut_off(self) -> int | None:
        """The epoch that began in this run and is not in Spark's log: it is undecided, even if rows were shown."""
        logged = max(entry_numbers(self._storage.list(COMMITS)), default=-1)
        return self._shared.begun if self._shared.begun > logged else None

    # --- its end -------------------------------------------------------------------------------------------

    def close(self) -> bool:
        """Wait for both threads, finish decided epochs, abort the rest. Raises the error that ended the run.

        Returns True if a no-data epoch is due.
        """
        self.threads.await_end(self._raise_failure)
        self.progress.close()
        self._thread.overdue_note.wait()
        if not self.plan.store.names_files and self.cut_off == self._shared.watch.let_in_newest:
            note_cut_off(self.plan.folder)  # its state is not safe in this process: the files have no unique names
        self._raise_failure()
        return self.runner.run(close_run(self.plan.query, self._opened()))

    def _named_state(self, epoch: int) -> tuple[StateFile, ...]:
        return () if self._state is None else self._state.of_epoch(epoch)

    def _keep_overdue(self, epoch: int, seconds: float) -> None:
        self.runner.run(note_overdue(self.plan.query, self._opened(), epoch, seconds))

    def _raise_failure(self) -> None:
        """Raise the error that ended the run: the cause before its consequences."""
        error = self._shared.errors.first_to_tell() or self._thread.failure()
        if error is None:
            return
        if self._run is not None and not self._shared.errors.are_of_the_storage():
            gone = vanished(self._storage, entry(RUNS, self._run.run))
            if gone is not None:
                raise gone from error
        fail_with(error, self.plan, self._thread)

    # --- calls of the protocol -----------------------------------------------------------------------------

    def compute(self, effect: Compute) -> Computed:
        """In the epoch's thread: its rows."""
        return self._epochs.compute(effect)

    def await_finished(self, epoch: int) -> int:
        """In the epoch's thread."""
        return self._epochs.await_finished(epoch)

    def await_commits(self, epoch: int) -> bool:
        """In the finisher's thread."""
        return self._finisher.await_commits(epoch)

    def hesitate(self, effect: Hesitate) -> None:
        """In any thread: a sink is not ready."""
        hesitate(self.plan.query, self._shared, effect)

    def tell(self, happening: Happening) -> None:
        """In any thread: an event of the protocol."""
        if isinstance(happening, EpochDone):
            self.plan.stands(happening.epoch)
        self.progress.tell(0 if self._run is None else self._run.run, happening)

    def _reach(self, point: str, epoch: int | None) -> None:
        self.figures.clock.passes(point, epoch)
        STRIKES.reach(point, epoch)
        if (lost := self._lost_lease()) is not None:
            raise lost
        start_moves(f"query {self.plan.query.uid}, {point}{'' if epoch is None else f' of epoch {epoch}'}")

    def _opened(self) -> Run:
        if self._run is None:
            raise EpochRefused("the run was not opened")
        return self._run

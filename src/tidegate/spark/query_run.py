"""One run of one query, from recovery to its end: it opens, starts and ends its threads.

The core defines the order of the protocol's steps, `run_state` the states of a run. The work of each thread is in
`epoch_thread`, `finisher` and `stream_thread`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from tidegate.checkpoints.checksums import drop_checksums
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.checkpoints.unbegun import clear_unbegun
from tidegate.checkpoints.undecided_state import clear_undecided_state
from tidegate.core import happenings as hp
from tidegate.core.effects import Compute, Computed, Happening, Hesitate
from tidegate.core.epoch_time import note_overdue, times_by_epoch
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import COMMITS, OFFSETS, RECORD_FOLDERS, RUNS, entry, read_decided, read_finished, read_start
from tidegate.core.levels import AT_THE_NEXT_START
from tidegate.core.records import NOTHING_FINISHED, Run
from tidegate.core.recover import close_run, open_run
from tidegate.core.spark_log import parse_offsets
from tidegate.core.tolerance import EpochFault
from tidegate.disk.durable import ensure_folder
from tidegate.disk.strikes import STRIKES
from tidegate.operate.runner import Runner
from tidegate.spark.callbacks import refuse_if_deaf
from tidegate.spark.epoch_thread import EpochThread
from tidegate.spark.epoch_watch import EpochPhase, EpochRefused, EpochWatch
from tidegate.spark.failed_epoch import cause_of
from tidegate.spark.figures import Figures, keep_age
from tidegate.spark.finisher import Finisher, hesitate
from tidegate.spark.generations import remove_older_generations
from tidegate.spark.jvm_output import see_the_cause
from tidegate.spark.query_id import mend_query_id
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.run_state import RunEvent
from tidegate.spark.session import lives
from tidegate.spark.shared_state import SharedState
from tidegate.spark.sources.source import Monitor
from tidegate.spark.spent import note_cut_off, refuse_if_spent
from tidegate.spark.state.fault import state_fault
from tidegate.spark.stream_thread import StreamThread
from tidegate.spark.supervised import start_moves
from tidegate.spark.telling import heard_in
from tidegate.spark.vanished import vanished
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage

_LOOK_SECONDS = 0.05


class QueryRun:
    """A run of a query: `open` (recovery), `start`, wait until it `has_ended`; then `close` in any case."""

    def __init__(
        self, plan: QueryPlan, session: SparkSession, figures: Figures, listener: Callable[[str, int, Happening], None]
    ) -> None:
        self.plan = plan
        self.figures = figures
        self._session = session
        self._listener = listener
        self._storage = open_storage(plan.folder)
        self.runner = Runner(
            query=plan.query,
            storage=self._storage,
            sinks=plan.sinks,
            journal_folder=plan.journal,
            checkpoint=open_checkpoint_files(plan.folder / "spark"),
            port=self,
            reach=self._reach,
        )
        self._run: Run | None = None
        self._monitors: Mapping[str, Monitor] = {}
        self._shared = shared = SharedState(EpochWatch(plan.timeout_seconds, plan.min_pause_seconds))
        self._thread = thread = StreamThread(plan, session, shared, self._keep_overdue)
        self._epochs = EpochThread(plan, self.runner, shared, thread, figures, plan.journal, self._opened)
        self._finisher = Finisher(plan.query, self.runner, self._storage, shared)

    def open(self) -> None:
        """Recover: all decided epochs are finished, and Spark's log is in order. Only with the job's locks held."""
        refuse_if_spent(self.plan.folder, str(self.plan.query))
        ensure_folder(self.plan.folder / "spark")
        for folder in RECORD_FOLDERS:
            self._storage.remove_leftovers(folder)
        self._run = self.runner.run(open_run(self.plan.query))
        self.runner.is_of_run(self._run.run)
        remove_older_generations(self.plan.folder.parent, self.plan.query, self.plan.sinks)
        drop_checksums(self.plan.folder / "spark")
        self._shared.finished = self.figures.finished = self.runner.run(read_finished())
        if self._shared.finished == NOTHING_FINISHED:
            clear_unbegun(self.plan.folder / "spark")
        if not self.plan.store.names_files:
            clear_undecided_state(self.plan.folder / "spark")
        mend_query_id(open_storage(self.plan.folder / "spark"))
        self._shared.watch.times = self.runner.run(times_by_epoch(self.plan.timeout_seconds))

    def start(self, trigger: Mapping[str, Any], *, leaves_due_epoch: bool = False) -> None:
        """Start Spark's query and its finisher. With `leaves_due_epoch` Spark runs no epoch without rows."""
        run = self._opened()
        name = f"{self.plan.query.job}.{self.plan.query.uid} (run {run.run}, {run.token})"
        refuse_if_deaf(self._session)
        positions = self.runner.run(read_start()).positions
        with self.runner.told():
            rows, self._monitors = self.plan.begun_at(positions), self.plan.monitors()
        writer = (
            rows.writeStream.outputMode(self.plan.mode)
            .option("checkpointLocation", str(self.plan.folder / "spark"))
            .queryName(name)
            .foreachBatch(self._epochs.on_epoch)
            .trigger(**trigger)
        )
        self._finisher.begin(run)
        self._thread.start(writer, name, leaves_due_epoch=leaves_due_epoch)

    # --- its state -----------------------------------------------------------------------------------------

    def place(self) -> dict[str, Any]:
        """The query, the run and its epoch, for the history of failures."""
        epoch = self.figures.epoch
        return {
            "query": self.plan.query.uid,
            "epoch": epoch if epoch >= 0 else None,
            "run": None if self._run is None else self._run.run,
        }

    def has_ended(self) -> bool:
        """True if Spark's stream thread has ended. Stops it if the finisher has failed or an epoch takes too long;
        raises if it cannot be stopped.
        """
        if self._thread.has_ended():
            return True
        if self._thread.cut_if_overdue():
            self._thread.refuse_if_stuck()
            self._thread.cancel_tasks()
        elif self._shared.errors:
            self._thread.stop()
            self._thread.refuse_if_stuck()
        else:
            return False
        return self._thread.has_ended()

    def has_come_to_rest(self) -> bool:
        """True if the stream has ended, and `close` will not wait: the last commits have ended, too."""
        if not self.has_ended():
            return False
        self._shared.happens(RunEvent.STREAM_OVER)
        return not self._finisher.is_alive()

    def may_still_write(self) -> bool:
        """True if a thread of the run may live that cannot be stopped: Spark's thread can write `commits/N`, and the
        finisher commits decided epochs.
        """
        return self._finisher.is_alive() or self._thread.may_live()

    @property
    def epoch_seconds(self) -> float:
        """Longest remaining time of the current epoch, including its cut-off; 0 if there is none."""
        return self._shared.watch.seconds_to_the_end()

    @property
    def failed_epoch(self) -> tuple[int, EpochFault] | None:
        """The epoch whose failure alone ended the run, and the reason; None for every other end."""
        failed = self._shared.failed
        if failed is None or failed.fault is None or not self._shared.errors.is_one:
            return None
        return failed.epoch, failed.fault

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

    @property
    def left_behind(self) -> TidegateError | None:
        """The error of the sink because of which a cancel has left a decided epoch to the next start; None if it left
        none.
        """
        return self._shared.errors.left_behind

    def behind(self) -> int | None:
        """Rows of its sources that are not done yet; None if no source can tell."""
        told = [rows for monitor in self._monitors.values() if (rows := monitor.behind()) is not None]
        return sum(told) if told else None

    # --- its end -------------------------------------------------------------------------------------------

    def keep_time(self) -> None:
        """Cut off the current epoch after its time is over. From any thread, also while another waits for a sink."""
        if self._thread.stream is not None and self._thread.cut_if_overdue():
            self._thread.cancel_tasks()

    def limit_waiting(self, timeout_seconds: float) -> None:
        """From now on wait no longer than this for a sink that is not ready; the shortest of several limits counts."""
        with self._shared.changed:
            self._shared.patience.end_in(timeout_seconds)
            self._shared.changed.notify_all()

    def allow_waiting(self, timeout_seconds: float) -> None:
        """Wait no longer than this for the sinks of an epoch, counted from the first answer that a sink is not
        ready.
        """
        with self._shared.changed:
            self._shared.patience.allow(timeout_seconds)
            self._shared.changed.notify_all()

    def cancel(self) -> None:
        """From now on do not wait for sinks: an epoch that a sink does not take at once is left to the next start,
        without an error.
        """
        self._shared.errors.leave_unready_sinks()
        self.limit_waiting(0)

    def stop(self, timeout_seconds: float) -> None:
        """End after the current epoch. Decided epochs are finished, for at most `timeout_seconds`."""
        self.limit_waiting(timeout_seconds)
        shared = self._shared
        with shared.changed:
            shared.happens(RunEvent.END_ASKED)
            while self._is_under_way() and not shared.patience.is_over():
                shared.changed.wait(_LOOK_SECONDS)
                self._thread.cut_if_overdue()
        if shared.watch.phase is not EpochPhase.CUT:
            self._thread.stop()

    def close(self) -> bool:
        """Wait for both threads, finish decided epochs, abort the rest. Raises the error that ended the run.

        Returns True if a no-data epoch is due.
        """
        try:
            self._thread.await_end()
        finally:
            self._shared.happens(RunEvent.STREAM_OVER)
        self._thread.await_stopper()
        self._finisher.await_end(self._raise_failure)
        for monitor in self._monitors.values():
            monitor.close()
        self._thread.await_overdue_note()
        self._note_cut_off()
        self._raise_failure()
        return self.runner.run(close_run(self.plan.query, self._opened()))

    def _is_under_way(self) -> bool:
        """True if there is a current epoch: begun, not done, with a live stream."""
        if self._shared.current is None or self._shared.errors:
            return False
        return not self._thread.has_ended()

    def _note_cut_off(self) -> None:
        """True if the last epoch of this run is undecided: state without unique file names is then not safe in this
        process.
        """
        if not self.plan.store.names_files and self.cut_off is not None:
            note_cut_off(self.plan.folder)

    def _keep_overdue(self, epoch: int, seconds: float) -> None:
        self.runner.run(note_overdue(self.plan.query, self._opened(), epoch, seconds))

    def _raise_failure(self) -> None:
        """Raise the error that ended the run: the cause before its consequences."""
        error = self._shared.errors.first_to_tell() or self._thread.failure()
        if error is None:
            return
        gone = self._vanished()
        if gone is not None:
            raise gone from error
        if isinstance(error, TidegateError):
            raise error
        said = heard_in(error)
        if said is not None:
            raise said.error from said
        plan = self.plan  # no restart helps: the checkpoint and the program's state do not match
        unfit = state_fault(self._thread.thrown(), str(plan.query), plan.folder, plan.operator_uids)
        if unfit is not None:
            raise unfit from error
        raise TidegateError(
            Code.QUERY_FAILED,
            expected="a query that runs",
            found=cause_of(error),
            where=str(self.plan.query),
            next_step=f"{see_the_cause()}, then start again: {AT_THE_NEXT_START[self.plan.query.weakest]}",
        ) from error

    def _vanished(self) -> TidegateError | None:
        if self._run is None or self._shared.errors.are_of_the_storage():
            return None
        return vanished(self._storage, entry(RUNS, self._run.run))

    # --- calls of the protocol -----------------------------------------------------------------------------

    def compute(self, effect: Compute) -> Computed:
        """In the epoch's thread: its rows."""
        return self._epochs.compute(effect)

    def await_finished(self, epoch: int) -> None:
        """In the epoch's thread."""
        self._epochs.await_finished(epoch)

    def await_commits(self, epoch: int) -> bool:
        """In the finisher's thread."""
        return self._finisher.await_commits(epoch)

    def hesitate(self, effect: Hesitate) -> None:
        """In any thread: a sink is not ready."""
        hesitate(self.plan.query, self._shared, effect)

    def tell(self, happening: Happening) -> None:
        """Record the event, wake waiting threads, and notify the job's listener."""
        with self._shared.changed:
            self._note(happening)
            self._shared.changed.notify_all()
        start_moves(f"query {self.plan.query.uid}, {happening}")
        self._listener(self.plan.query.uid, 0 if self._run is None else self._run.run, happening)
        if isinstance(happening, hp.EpochDone) and self._monitors:
            self._tell_monitors(happening.epoch)

    def _reach(self, point: str, epoch: int | None) -> None:
        STRIKES.reach(point, epoch)
        start_moves(f"query {self.plan.query.uid}, {point}{'' if epoch is None else f' of epoch {epoch}'}")

    def _note(self, happening: Happening) -> None:
        match happening:
            case hp.EpochPrepared(epoch):
                self._shared.watch.prepared()
                self._shared.prepared = epoch
            case hp.EpochDone(epoch, rows):
                self._note_done(epoch, rows)
            case hp.RowsShown(_, _, rows):
                self.figures.rows += rows
            case hp.RowsGivenUp(_, _, rows):
                self.figures.given_up += rows
            case hp.DeadLettersWritten(_, _, rows):
                self.figures.dead_letters += rows
            case hp.TransactionsAborted(count):
                self.figures.aborted += count
            case hp.TransactionRedone():
                self.figures.redone += 1
            case _:
                pass

    def _note_done(self, epoch: int, rows: int) -> None:
        shared = self._shared
        shared.finished = self.figures.finished = epoch
        if shared.current == epoch:
            shared.current = None
        shared.watch.done()
        shared.patience.has_served()
        self.figures.epochs += 1
        self.figures.rows += rows
        if self._thread.stream is not None:
            keep_age(self.figures.epoch_ms, self._storage.look(entry(OFFSETS, epoch)))
            keep_age(self.figures.commit_delay_ms, self._storage.look(entry(COMMITS, epoch)))

    def _tell_monitors(self, epoch: int) -> None:
        decided = self.runner.run(read_decided(epoch))
        offsets = None if decided is None else parse_offsets(decided.offsets)
        for uid, position in zip(self.plan.query.sources, () if offsets is None else offsets.positions, strict=False):
            if uid in self._monitors and position is not None:
                self._monitors[uid].tell(position)

    def _opened(self) -> Run:
        if self._run is None:
            raise EpochRefused("the run was not opened")
        return self._run

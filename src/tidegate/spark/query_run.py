"""One run of one query: Spark's stream thread calls in with each epoch, a finisher thread commits behind it.

The order of the protocol's steps is in the core; here are the threads, and how a run ends.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidegate.checkpoints.checksums import drop_checksums
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.checkpoints.sync import CheckpointSync
from tidegate.checkpoints.unbegun import clear_unbegun
from tidegate.checkpoints.undecided_state import clear_undecided_state
from tidegate.core import happenings as hp
from tidegate.core.effects import Compute, Computed, Happening, Hesitate
from tidegate.core.epoch import run_epoch
from tidegate.core.epoch_time import note_overdue, times_by_epoch
from tidegate.core.errors import Code, Remedy, TidegateError
from tidegate.core.finish import finish_as_they_come
from tidegate.core.ledger import (
    COMMITS,
    OFFSETS,
    RECORD_FOLDERS,
    RUNS,
    entry,
    read_decided,
    read_finished,
    read_start,
)
from tidegate.core.levels import AT_THE_NEXT_START
from tidegate.core.records import NOTHING_FINISHED, Run
from tidegate.core.recover import close_run, open_run
from tidegate.core.spark_log import parse_offsets
from tidegate.core.telling import Told
from tidegate.core.tolerance import EpochFault
from tidegate.disk.durable import ensure_folder, is_of_a_failed_sync
from tidegate.disk.storage import LocalStorage
from tidegate.disk.strikes import STRIKES
from tidegate.operate.runner import Runner
from tidegate.spark.callbacks import refuse_if_deaf
from tidegate.spark.dead_letters import projection_of
from tidegate.spark.epoch_watch import EpochRefused, EpochWatch, Phase
from tidegate.spark.failed_epoch import cause_of, failed_epoch, is_of_a_sink, may_pre_commit_yet
from tidegate.spark.figures import Figures, keep_age
from tidegate.spark.generations import remove_older_generations
from tidegate.spark.jvm_output import see_the_cause
from tidegate.spark.no_data import no_data_epochs
from tidegate.spark.overdue_note import OverdueNote
from tidegate.spark.patience import Patience
from tidegate.spark.plan_check import refused_by_spark
from tidegate.spark.query_id import mend_query_id
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.session import lives, query_settings
from tidegate.spark.sources.source import Monitor, verified
from tidegate.spark.spent import note_cut_off, refuse_if_spent
from tidegate.spark.state.fault import state_fault
from tidegate.spark.stream import JVM_IS_GONE, RunningStream, is_gone
from tidegate.spark.supervised import start_moves
from tidegate.spark.telling import WORD, heard_in
from tidegate.spark.vanished import vanished
from tidegate.spark.writer import (
    RESULT_SCHEMA,
    EpochTask,
    SinkTask,
    read_results,
)

_LOG = logging.getLogger("tidegate")
_COMMIT_POLL_SECONDS = 0.001
_COMMIT_POLL_SECONDS_AT_MOST = 0.1
_COMMIT_POLL_GROWTH = 1.05  # a pause is then about a twentieth of what has been waited
_LOOK_SECONDS = 0.05
_RETRY_SECONDS_AT_MOST = 5.0
_LOST_START_SECONDS = 10.0
COMMIT_RETURNS_WITHIN_SECONDS = 10.0
"""A commit that is under way when waiting for sinks is over may come to its end; one that hangs is left. The supervisor
of a driver ends it 30 seconds after `stop_timeout`."""


class QueryRun:
    """A run of a query; `open` (recovery), `start`, then until it `has_ended`; `close` in any case."""

    def __init__(
        self, plan: QueryPlan, session: SparkSession, figures: Figures, listener: Callable[[str, int, Happening], None]
    ) -> None:
        self.plan = plan
        self._session = session
        self.figures = figures
        self._listener = listener
        self._storage = LocalStorage(plan.folder)
        self._projection = projection_of(plan.sinks, plan.dead_letters)
        self._journal_folder = plan.folder / "ledger" / "journal"
        self.runner = Runner(
            query=plan.query,
            storage=self._storage,
            sinks=plan.sinks,
            journal_folder=self._journal_folder,
            checkpoint=CheckpointSync(plan.folder / "spark"),
            port=self,
            reach=self._reach,
        )
        self._run: Run | None = None
        self._stream: RunningStream | None = None
        self._start_was_lost = False
        """Whether the query may run although nothing is known of its stream: Spark's start ended without an answer of
        Spark's, or the query would not be looked at."""
        self._is_stuck = False
        """Whether it was said that only the end of the process ends the run: it keeps what it holds, whatever ends."""
        self._stopper: threading.Thread | None = None
        self._stream_known = threading.Event()
        self._finisher: threading.Thread | None = None
        self._changed = threading.Condition()
        self._epoch_rows: DataFrame | None = None
        self._begun = self._prepared = self._finished = -1
        self._current: int | None = None
        self._stopping = self._cancelled = False
        self.left_behind: TidegateError | None = None
        """Which decided epoch a cancel has left to the next start, because a sink did not take it at once."""
        self._stream_ended = False
        self._patience = Patience()
        self._errors: list[BaseException] = []
        self._monitors: Mapping[str, Monitor] = {}
        self._watch = EpochWatch(plan.timeout_seconds, plan.min_pause_seconds)
        self._overdue_note = OverdueNote(self._keep_overdue, self._leave)
        self._fault: tuple[int, EpochFault] | None = None
        self._computing_failed = False

    # --- life ----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Recover: everything decided is finished, Spark's log is in order. Only with the job's locks held."""
        refuse_if_spent(self.plan.folder, str(self.plan.query))
        ensure_folder(self.plan.folder / "spark")
        for folder in RECORD_FOLDERS:
            self._storage.remove_leftovers(folder)
        self._run = self.runner.run(open_run(self.plan.query))
        self.runner.is_of_run(self._run.run)
        remove_older_generations(self.plan.folder.parent, self.plan.query, self.plan.sinks)
        drop_checksums(self.plan.folder / "spark")
        self._finished = self.figures.finished = self.runner.run(read_finished())
        if self._finished == NOTHING_FINISHED:
            clear_unbegun(LocalStorage(self.plan.folder / "spark"))
        if not self.plan.store.names_files:
            clear_undecided_state(LocalStorage(self.plan.folder / "spark"))
        mend_query_id(LocalStorage(self.plan.folder / "spark"))
        self._watch.times = self.runner.run(times_by_epoch(self.plan.timeout_seconds))

    def start(self, trigger: Mapping[str, Any], *, leaves_due_epoch: bool = False) -> None:
        """Start Spark's query and the finisher behind it. With `leaves_due_epoch` Spark runs no epoch without rows."""
        run = self._opened()
        name = f"{self.plan.query.job}.{self.plan.query.uid} (run {run.run}, {run.token})"
        refuse_if_deaf(self._session)
        positions = self.runner.run(read_start()).positions
        with self.runner.told():
            rows, self._monitors = self.plan.begun_at(positions), self.plan.monitors()
        writer: DataStreamWriter = (
            rows.writeStream.outputMode(self.plan.mode)
            .option("checkpointLocation", str(self.plan.folder / "spark"))
            .queryName(name)
            .foreachBatch(self._on_epoch)
            .trigger(**trigger)
        )
        self._finisher = threading.Thread(target=self._finish, args=(run,), name="tidegate-finisher", daemon=True)
        self._finisher.start()
        query: StreamingQuery | None = None
        try:
            no_data = no_data_epochs(self._session, not leaves_due_epoch)
            with query_settings(self._session, self.plan.conf), no_data:
                query = writer.start()
            self._stream = RunningStream(query, self._jvm)
        except BaseException as error:
            refused = isinstance(error, (PySparkException, Py4JJavaError))
            self._start_was_lost = query is not None or not refused
            if isinstance(error, PySparkException) and query is None:
                raise refused_by_spark(error, str(self.plan.query)) from error
            raise
        finally:
            self._stopping = self._stopping or self._stream is None
            self._stream_known.set()
            if self._stream is None:
                self._stop_by_name(name)

    def place(self) -> dict[str, Any]:
        """Which run of which query this is, and at which epoch it was: for the history of failures."""
        epoch = self.figures.epoch
        return {
            "query": self.plan.query.uid,
            "epoch": epoch if epoch >= 0 else None,
            "run": None if self._run is None else self._run.run,
        }

    def has_ended(self) -> bool:
        """Whether Spark's stream thread has ended. It is made to where the finisher has failed or an epoch takes too
        long; raises when even that does not end it."""
        if self._stream is None or self._stream.has_ended():
            return True
        if self._cut_if_overdue():
            self._refuse_if_stuck()
            self._cancel_tasks(self._stream)
        elif self._errors:
            self._stop_stream()
            self._refuse_if_stuck()
        else:
            return False
        return self._stream.has_ended()

    def has_come_to_rest(self) -> bool:
        """Whether the stream has ended, and `close` will wait for nobody: the last commits have ended, too."""
        if not self.has_ended():
            return False
        self._tell_finisher_of_the_end()
        return self._finisher is None or not self._finisher.is_alive()

    def keep_time(self) -> None:
        """Cut the epoch under way off when its time is over. From any thread, while another waits for a sink."""
        if self._stream is not None and self._cut_if_overdue():
            self._cancel_tasks(self._stream)

    def may_still_write(self) -> bool:
        """Whether a thread of the run lives, or may, that nothing has ended: Spark's can write `commits/N`, and the
        finisher commits what is decided. Of a run that was given up as stuck it is so for good."""
        if self._is_stuck or (self._finisher is not None and self._finisher.is_alive()):
            return True
        if self._stream is None:
            return self._start_was_lost and not is_gone(self._jvm)
        return not self._stream.has_ended()

    @property
    def epoch_seconds(self) -> float:
        """How long the epoch under way may take until it has ended, or was cut off and has ended; 0 where none is."""
        return self._watch.seconds_to_the_end()

    @property
    def failed_epoch(self) -> tuple[int, EpochFault] | None:
        """The epoch whose failure, and nothing else, ended the run, and why; None for every other end."""
        return self._fault if len(self._errors) == 1 else None

    @property
    def failed_computing(self) -> bool:
        """Whether an epoch has failed in what the query itself does: in no sink and no JVM that died, and before any of
        its rows could be shown."""
        return self._computing_failed and lives(self._session)

    @property
    def cut_off(self) -> int | None:
        """The epoch that was begun here and that Spark's log does not have: it is undecided, whatever it has shown."""
        logged = max(entry_numbers(self._storage.list(COMMITS)), default=-1)
        return self._begun if self._begun > logged else None

    def behind(self) -> int | None:
        """Rows that its sources have and that are not done yet; None where none of them can tell."""
        told = [rows for monitor in self._monitors.values() if (rows := monitor.behind()) is not None]
        return sum(told) if told else None

    def limit_waiting(self, timeout_seconds: float) -> None:
        """From now on wait no longer than this for a sink that is not ready; the shortest of several counts."""
        with self._changed:
            self._patience.end_in(timeout_seconds)
            self._changed.notify_all()

    def allow_waiting(self, timeout_seconds: float) -> None:
        """Wait no longer than this for the sinks of an epoch, counted from when one of them is not ready."""
        with self._changed:
            self._patience.allow(timeout_seconds)
            self._changed.notify_all()

    def cancel(self) -> None:
        """From now on wait for no sink: what one does not take at once is left to the next start, and is no error."""
        self._cancelled = True
        self.limit_waiting(0)

    def stop(self, timeout_seconds: float) -> None:
        """End after the epoch that is under way; what is decided is finished, for at most `timeout_seconds`."""
        self.limit_waiting(timeout_seconds)
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
            while self._is_under_way() and not self._patience.is_over():
                self._changed.wait(_LOOK_SECONDS)
                self._cut_if_overdue()
        if self._stream is not None and self._watch.phase is not Phase.CUT:
            self._stop_stream()

    def close(self) -> bool:
        """Wait for both threads, finish what is decided, give up the rest. Raises what ended the run badly.

        Returns whether a no-data epoch is due.
        """
        try:
            self._await_stream()
        finally:
            self._tell_finisher_of_the_end()
        if self._stopper is not None:
            self._stopper.join()
        self._await_finisher()
        for monitor in self._monitors.values():
            monitor.close()
        self._overdue_note.wait()
        self._note_cut_off()
        self._raise_failure()
        return self.runner.run(close_run(self.plan.query, self._opened()))

    def _tell_finisher_of_the_end(self) -> None:
        """It finishes what the stream has left, and ends."""
        with self._changed:
            self._stream_ended = True
            self._changed.notify_all()

    def _await_finisher(self) -> None:
        """Wait for what it has begun. A sink that is not ready is asked again as long as the job may wait; one whose
        commit does not come back hears nothing of that: it is left, with the epoch, to the next start. What ended the
        run is raised all the same."""
        over_since = math.inf
        while self._finisher is not None and self._finisher.is_alive():
            with self._changed:
                self._patience.waits()  # nothing is computed any more: whatever lasts, it is a sink's
            self._finisher.join(_LOOK_SECONDS)
            if self._patience.is_over():
                over_since = min(over_since, time.monotonic())
            if self._finisher.is_alive() and time.monotonic() >= over_since + COMMIT_RETURNS_WITHIN_SECONDS:
                hangs = self._hangs_in_a_sink()
                _LOG.error("%s", hangs)
                self._raise_failure()
                raise hangs

    def _hangs_in_a_sink(self) -> TidegateError:
        epoch = self._finished + 1
        return TidegateError(
            Code.SINK_UNAVAILABLE,
            expected=f"the sinks to take epoch {epoch}",
            found=f"a commit that has not come back, {COMMIT_RETURNS_WITHIN_SECONDS:g} s after waiting was over",
            where=str(self.plan.query),
            next_step="end this process, which keeps the job's locks until then; see what holds up the sink, and start"
            " again: the epoch is decided, and committed first",
        )

    def _note_cut_off(self) -> None:
        """Whether the last epoch that was begun here is undecided: state without file names is then not safe here."""
        if not self.plan.store.names_files and self.cut_off is not None:
            note_cut_off(self.plan.folder)

    def _stop_stream(self) -> None:
        """Ask Spark to stop the query, once, and in a thread: its `stop` waits for the stream thread without an end."""
        if self._stream is None or self._stopper is not None:
            return
        with self._changed:
            self._watch.end()
        ask = partial(self._ask_to_stop, self._stream.query)
        self._stopper = threading.Thread(target=ask, name="tidegate-stopper", daemon=True)
        self._stopper.start()

    def _ask_to_stop(self, query: StreamingQuery) -> None:
        """Whatever Spark answers, only the end of the stream thread ends the run. A new thread has a connection of its
        own to make: where the JVM is gone that is an OSError."""
        try:
            query.stop()
        except (PySparkException, Py4JError, OSError) as error:
            self._leave(error)

    def _stop_by_name(self, name: str) -> None:
        """Spark may have started the query although its start did not come back; its epochs are refused."""
        try:
            started = [query for query in self._session.streams.active if query.name == name]
        except JVM_IS_GONE:  # and the query with it: what the start raised is said
            return
        for query in started:
            stopper = threading.Thread(target=partial(self._ask_to_stop, query), daemon=True)
            stopper.start()
            stopper.join(_LOST_START_SECONDS)

    def _is_under_way(self) -> bool:
        """Whether an epoch is: begun, not done, and its stream lives."""
        if self._current is None or self._errors or self._stream is None:
            return False
        return not self._stream.has_ended()

    def _await_stream(self) -> None:
        if self._stream is None:
            return
        while not self._stream.await_end(timeout_seconds=0.2):
            self._refuse_if_stuck()
            if self._watch.phase is Phase.CUT:
                self._cancel_tasks(self._stream)

    def _cut_if_overdue(self) -> bool:
        """Whether the epoch under way is cut off, now or before: its input comes again."""
        with self._changed:
            epoch = self._watch.cut_if_overdue()
            if epoch is not None:
                self._fault, self._computing_failed = (epoch, EpochFault.TIMEOUT), not self._watch.was_computed
                self._leave(self._watch.timeout_error(epoch, self.plan.query))
                self._overdue_note.begin(epoch, self._watch.seconds)
            return self._watch.phase is Phase.CUT

    def _keep_overdue(self, epoch: int, seconds: float) -> None:
        self.runner.run(note_overdue(self.plan.query, self._opened(), epoch, seconds))

    def _refuse_if_stuck(self) -> None:
        with self._changed:
            if self._watch.is_stuck():
                self._is_stuck = True
                raise self._watch.stuck_error(str(self.plan.query))

    def _cancel_tasks(self, stream: RunningStream) -> None:
        """Of an epoch that was cut off, again and again: it may just be starting them. Not by Spark's `stop`, which
        also interrupts the stream thread."""
        self._session.sparkContext.cancelJobGroup(str(stream.query.runId))

    def _raise_failure(self) -> None:
        errors = [error for error in self._errors if not self._is_left_behind(error)]
        error = next(iter(errors), None) or self._spark_failure()
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
        unfit = None if self._stream is None else self._unfit(self._stream.thrown())
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
        of_the_storage = (isinstance(each, TidegateError) and is_of_the_storage(each) for each in self._errors)
        if self._run is None or any(of_the_storage):
            return None
        return vanished(self._storage.path(entry(RUNS, self._run.run)))

    def _unfit(self, thrown: Any) -> TidegateError | None:
        """What no restart cures: the checkpoint, and what the program wants of its state, do not fit."""
        return state_fault(thrown, str(self.plan.query), self.plan.folder, self.plan.operator_uids)

    def _is_left_behind(self, error: BaseException) -> bool:
        """Whether it only says that a sink did not take at once what a cancel leaves to the next start."""
        if self._cancelled and isinstance(error, TidegateError) and _is_unavailable(error):
            self.left_behind = self.left_behind or error
            return True
        return False

    def _spark_failure(self) -> BaseException | None:
        if self._stopping or self._stream is None:
            return None
        return self._stream.query.exception()

    # --- the epoch thread (Spark's) ------------------------------------------------------------------------

    def _on_epoch(self, rows: DataFrame, epoch: int) -> None:
        """What Spark calls for each epoch. Returns only when the epoch is prepared."""
        self._stream_known.wait()
        self._enter(epoch)
        self._epoch_rows = rows
        try:
            self.runner.run(run_epoch(self.plan.query, self._opened(), epoch))
        except EpochRefused:
            self._leave(None)
            raise
        except BaseException as error:  # noqa: BLE001 (kept, and raised by `close`)
            if self._watch.phase is Phase.CUT:  # what follows from cutting an epoch off is no error of its own
                self._leave(None)
                raise EpochRefused(f"epoch {epoch} was cut off") from None
            if self._stopping and self._patience.is_over() and not _is_told_in_any_case(error):
                self._leave(None)  # cut off by a stop that has waited long enough: its input comes again
                raise EpochRefused("the run is ending") from None
            said = None if isinstance(error, TidegateError) else heard_in(error)
            self._note_fault(epoch, error, said)
            self._leave(self._failed(epoch, error, said))
            raise EpochRefused(f"epoch {epoch} failed: {type(error).__name__}") from None
        finally:
            self._epoch_rows = None
            with self._changed:
                self._watch.left()

    def _enter(self, epoch: int) -> None:
        with self._changed:
            if self._stopping or self._errors:
                raise EpochRefused("the run is ending")
            self._current = self._begun = self.figures.epoch = epoch

    def _leave(self, error: BaseException | None) -> None:
        with self._changed:
            if error is not None:
                self._errors.append(error)
            self._current = None
            self._changed.notify_all()

    def _note_fault(self, epoch: int, error: BaseException, said: Told | None) -> None:
        computing = self._watch.phase is Phase.COMPUTING
        self._computing_failed = computing and not is_of_a_sink(said)
        if self._watch.phase is Phase.PREPARING and is_of_the_storage(error):
            self._fault = epoch, EpochFault.PREPARED
        elif computing and may_pre_commit_yet(said):
            self._fault = epoch, EpochFault.PRE_COMMIT

    def _failed(self, epoch: int, error: BaseException, said: Told | None) -> TidegateError:
        if said is None:
            unfit = self._unfit(getattr(error, "java_exception", None) or getattr(error, "_origin", None))
            if unfit is not None:
                return unfit
        return failed_epoch(self.plan.query, epoch, error, said)

    def compute(self, effect: Compute) -> Computed:
        """One action: all sinks' rows through one projection and one `mapInArrow`."""
        stream, rows = self._stream, self._epoch_rows
        if stream is None or rows is None:
            raise EpochRefused("no epoch is under way")
        self._let_in(effect.epoch)
        finished = effect.finished_through
        task = EpochTask(
            epoch=effect.epoch,
            run=effect.run,
            run_token=effect.run_token,
            word=WORD,
            journal_folder=str(self._journal_folder),
            sinks=tuple(
                SinkTask(
                    self._projection.channel_of[uid],
                    self.plan.query.sink(uid),
                    sink.in_epoch(finished),
                    takes_dead=uid == self.plan.query.dead_letters,
                )
                for uid, sink in self.plan.sinks.items()
            ),
        )
        starts = stream.start_positions()
        output = self._projection.apply(rows).mapInArrow(task.function(), RESULT_SCHEMA)
        results = verified(self.plan.verify, output.collect)
        done = read_results([bytes(result[0]) for result in results])
        if self.plan.dead_letters is not None:
            self.plan.dead_letters.judge(self.plan.query, effect.epoch, done)
        committables = tuple(committable for result in done for committable in result.committables)
        state_ids, state_rows = stream.state(names_files=self.plan.store.names_files)
        computed = Computed(committables, starts, state_ids, state_rows, dict(self.plan.operator_uids))
        with self._changed:
            self._watch.computed()
        return computed

    def _let_in(self, epoch: int) -> None:
        """Rest for what is left of the pause since the last commits. A stop does not wait for an epoch that rests."""
        with self._changed:
            while (left := self._watch.rest_seconds()) > 0:
                if self._stopping or self._errors:
                    raise EpochRefused("the run is ending")
                self._changed.wait(left)
            self._watch.let_in(epoch)

    def await_finished(self, epoch: int) -> None:
        """Wait for the finisher of this run."""
        with self._changed:
            self._changed.wait_for(lambda: self._finished >= epoch or self._errors or self._stopping)
            if self._finished < epoch:
                raise EpochRefused("the run is ending")

    # --- the finisher thread -------------------------------------------------------------------------------

    def _finish(self, run: Run) -> None:
        try:
            self.runner.run(finish_as_they_come(self.plan.query, run, self._watch.times))
        except BaseException as error:  # noqa: BLE001 (kept, and raised by `close`)
            self._leave(error)

    def await_commits(self, epoch: int) -> bool:
        """Wait for `commits/N` of the next epoch. The storage is asked only while a prepared epoch waits for it."""
        awaited = self._storage.path(entry(COMMITS, epoch + 1))
        pause = _COMMIT_POLL_SECONDS
        with self._changed:
            while not self._stream_ended:
                if self._prepared <= epoch:
                    self._changed.wait()
                    pause = _COMMIT_POLL_SECONDS
                elif awaited.exists():
                    return True
                else:
                    self._changed.wait(pause)
                    pause = min(pause * _COMMIT_POLL_GROWTH, _COMMIT_POLL_SECONDS_AT_MOST)
        return False  # the finisher looks once more; a torn entry would be there for ever

    def hesitate(self, effect: Hesitate) -> None:
        """Wait before the next try of a sink; give up when a stop has waited long enough."""
        text = "sink %s, epoch %d: not ready (%s)"
        _LOG.warning(text, effect.sink, effect.epoch, effect.detail, extra={"event": "SinkNotReady"})
        end = time.monotonic() + min(0.05 * 2 ** min(effect.attempt, 10), _RETRY_SECONDS_AT_MOST)
        with self._changed:
            self._patience.waits()
            while (left := min(end, self._patience.ends_at) - time.monotonic()) > 0:
                self._changed.wait(left)
                self._watch.refuse_if_cut(effect.epoch)
                if self._errors and self._watch.has_within(effect.epoch):
                    raise EpochRefused("the run is ending")
            gives_up = self._patience.is_over()
        if gives_up:
            raise TidegateError(
                Code.SINK_UNAVAILABLE,
                expected=f"sink {effect.sink} to take epoch {effect.epoch}",
                found=effect.detail or "it is not ready",
                where=str(self.plan.query),
                next_step="mend what the sink says above (`tidegate check --job JOB` tries its sinks), then"
                " start again: the"
                " epoch comes again, or is committed if it is decided",
            )

    # --- both ----------------------------------------------------------------------------------------------

    def _reach(self, point: str, epoch: int | None) -> None:
        STRIKES.reach(point, epoch)
        start_moves(f"query {self.plan.query.uid}, {point}{'' if epoch is None else f' of epoch {epoch}'}")

    def tell(self, happening: Happening) -> None:
        """Note what happened, wake whoever waits for it, and tell the job's listener."""
        with self._changed:
            match happening:
                case hp.EpochPrepared(epoch):
                    self._watch.prepared()
                    self._prepared = epoch
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
            self._changed.notify_all()
        start_moves(f"query {self.plan.query.uid}, {happening}")
        self._listener(self.plan.query.uid, 0 if self._run is None else self._run.run, happening)
        if isinstance(happening, hp.EpochDone) and self._monitors:
            self._tell_monitors(happening.epoch)

    def _tell_monitors(self, epoch: int) -> None:
        decided = self.runner.run(read_decided(epoch))
        offsets = None if decided is None else parse_offsets(decided.offsets)
        for uid, position in zip(self.plan.query.sources, () if offsets is None else offsets.positions, strict=False):
            if uid in self._monitors and position is not None:
                self._monitors[uid].tell(position)

    def _note_done(self, epoch: int, rows: int) -> None:
        self._finished = self.figures.finished = epoch
        if self._current == epoch:
            self._current = None
        self._watch.done()
        self._patience.has_served()
        self.figures.epochs += 1
        self.figures.rows += rows
        if self._stream is not None:
            keep_age(self.figures.epoch_ms, self._storage.path(entry(OFFSETS, epoch)))
            keep_age(self.figures.commit_delay_ms, self._storage.path(entry(COMMITS, epoch)))

    @property
    def _jvm(self) -> Any:
        return self._session.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]

    def _opened(self) -> Run:
        if self._run is None:
            raise EpochRefused("the run was not opened")
        return self._run


_TO_BE_DECIDED = frozenset(code for code in Code if code.remedy is Remedy.DECIDE)
"""What may end an epoch, and a new start would only find again."""


def is_of_the_storage(error: BaseException) -> bool:
    """Whether a durable record could not be written. A sync that failed is not among them: what the disk lost then
    may be of any record, and nothing here would say so a second time."""
    if is_of_a_failed_sync(error):
        return False
    if isinstance(error, TidegateError):
        return error.catalogue_entry in (Code.STORAGE_FULL, Code.STORAGE_UNUSABLE)
    return isinstance(error, OSError)


def _is_told_in_any_case(error: BaseException) -> bool:
    """Whether somebody has to hear of it although the job was to end: a sink that was not ready, or what a new start
    would only find again."""
    to_be_decided = isinstance(error, TidegateError) and error.catalogue_entry in _TO_BE_DECIDED
    return to_be_decided or _is_unavailable(error)


def _is_unavailable(error: BaseException) -> bool:
    """Whether a sink that shows its rows inside the epoch was not ready until the end: whoever stops hears of it."""
    return isinstance(error, TidegateError) and error.catalogue_entry is Code.SINK_UNAVAILABLE

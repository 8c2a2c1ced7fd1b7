"""The code inside `foreachBatch`, in Spark's stream thread: one epoch, until it is prepared.

The core defines the order of the steps (`run_epoch`). Here is the work that only this thread can do: compute the rows
of Spark's current epoch, and report the result to Spark. Spark writes `commits/N` when this returns, so it returns only
for a prepared epoch. In every other case it raises `EpochRefused`, and keeps the error for the end of the run.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from tidegate.core.effects import Compute, Computed
from tidegate.core.epoch import run_epoch
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import RUNS, entry
from tidegate.core.records import Run, StateFile
from tidegate.core.telling import ToldError
from tidegate.core.tolerance import EpochFault
from tidegate.operate.runner import Runner
from tidegate.spark.dead_letters import projection_of
from tidegate.spark.epoch_watch import EpochPhase, EpochRefused
from tidegate.spark.failed_epoch import failed_epoch, is_of_a_sink, may_pre_commit_yet
from tidegate.spark.figures import Figures
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.run_errors import is_of_the_storage, is_told_in_any_case
from tidegate.spark.shared_state import FailedEpoch, SharedState
from tidegate.spark.sources.source import verified
from tidegate.spark.state.fault import state_fault
from tidegate.spark.stream_thread import StreamThread
from tidegate.spark.telling import WORD, heard_in
from tidegate.spark.writer import RESULT_SCHEMA, EpochTask, SinkTask, read_results
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

_LOOK_SECONDS = 0.1
"""So often a writer looks for its readers. Off a disk each look is some requests."""


class EpochThread:
    """The epochs of one run. `opened` returns the run's record, and raises while there is none. `named_state`: the
    state files that the record of an epoch names.
    """

    def __init__(
        self,
        plan: QueryPlan,
        runner: Runner,
        shared: SharedState,
        thread: StreamThread,
        figures: Figures,
        journal_folder: Folder,
        opened: Callable[[], Run],
        named_state: Callable[[int], tuple[StateFile, ...]],
    ) -> None:
        self._plan = plan
        self._runner = runner
        self._shared = shared
        self._thread = thread
        self._figures = figures
        self._journal_folder = journal_folder
        self._opened = opened
        self._named_state = named_state
        self._projection = projection_of(plan.sinks, plan.dead_letters)
        self._rows: DataFrame | None = None
        self.waits_for_readers = False
        """True in an unbounded run: a bounded one has ended before its readers start."""

    def on_epoch(self, rows: DataFrame, epoch: int) -> None:
        """Called by Spark for each epoch. Returns only when the epoch is prepared."""
        shared = self._shared
        self._thread.await_known()
        self._enter(epoch)
        self._rows = rows
        try:
            self._demand_folder()
            self._runner.run(run_epoch(self._plan.query, self._opened(), epoch))
        except EpochRefused:
            shared.leave(None)
            raise
        except BaseException as error:  # noqa: BLE001 (kept, and raised at the end of the run)
            if shared.watch.phase is EpochPhase.CUT:  # an error that only follows from the cut-off is not recorded
                shared.leave(None)
                raise EpochRefused(f"epoch {epoch} was cut off") from None
            if shared.is_to_end and shared.patience.is_over() and not is_told_in_any_case(error):
                shared.leave(None)  # cut off by a stop that has waited long enough: its input comes again
                raise EpochRefused("the run is ending") from None
            shared.fails()
            said = None if isinstance(error, TidegateError) else heard_in(error)
            shared.failed = self._failed(epoch, error, said)
            shared.leave(self._error_of(epoch, error, said))
            raise EpochRefused(f"epoch {epoch} failed: {type(error).__name__}") from None
        finally:
            self._rows = None
            with shared.changed:
                shared.watch.left()

    def compute(self, effect: Compute) -> Computed:
        """One action: all sinks' rows through one projection and one `mapInArrow`."""
        stream, rows = self._thread.stream, self._rows
        if stream is None or rows is None:
            raise EpochRefused("no epoch is under way")
        self._let_in(effect.epoch)
        stream.begins()
        starts = stream.start_positions()
        output = self._projection.apply(rows).mapInArrow(self._task(effect).function(), RESULT_SCHEMA)
        results = verified(self._plan.verify, output.collect)
        self._demand_folder()
        done = read_results([bytes(result[0]) for result in results])
        self._figures.clock.pre_committed(effect.epoch, max((each.pre_commit_seconds for each in done), default=0.0))
        if self._plan.dead_letters is not None:
            self._plan.dead_letters.judge(self._plan.query, effect.epoch, done)
        committables = tuple(committable for result in done for committable in result.committables)
        state = stream.state(names_files=self._plan.store.names_files)
        self._figures.clock.has_read(effect.epoch, state.read)
        own = None if self._plan.query.local_lease else stream.own_plan(state.base_ids)
        files = self._named_state(effect.epoch)
        computed = Computed(committables, starts, state.ids, state.rows, dict(self._plan.operator_uids), own, files)
        with self._shared.changed:
            self._shared.watch.computed()
        return computed

    def _demand_folder(self) -> None:
        """Raise if the folder of this run is gone. On a disk a mounted folder can be taken away, and all later records
        would go to the folder below it. Any other storage answers with an error.
        """
        if not self._plan.folder.is_local:
            return
        storage, name = open_storage(self._plan.folder), entry(RUNS, self._opened().run)
        if storage.look(name) is None:
            raise TidegateError(
                Code.STORAGE_UNUSABLE,
                expected="the record of this run, in the folder of the query",
                found="no such file: the folder was removed, or its disk is not mounted any more",
                where=storage.where(name),
                next_step="mount the disk, or put the folder back; then start again",
            )

    def await_finished(self, epoch: int) -> int:
        """Wait for the finisher of this run. Returns the newest finished epoch."""
        shared = self._shared
        with shared.changed:
            shared.changed.wait_for(lambda: shared.finished >= epoch or shared.takes_no_epoch)
            if shared.finished < epoch:
                raise EpochRefused("the run is ending")
            return shared.finished

    def _task(self, effect: Compute) -> EpochTask:
        return EpochTask(
            epoch=effect.epoch,
            run=effect.run,
            run_token=effect.run_token,
            word=WORD,
            journal_folder=str(self._journal_folder),
            sinks=tuple(
                SinkTask(
                    self._projection.column_of[uid],
                    self._plan.query.sink(uid),
                    sink.in_epoch(effect.finished_through),
                    takes_dead=uid == self._plan.query.dead_letters,
                )
                for uid, sink in self._plan.sinks.items()
            ),
        )

    def _enter(self, epoch: int) -> None:
        with self._shared.changed:
            self._shared.refuse_if_ending()
            self._shared.current = self._shared.begun = self._figures.epoch = epoch
            self._figures.clock.begins(epoch)

    def _let_in(self, epoch: int) -> None:
        """Wait for the rest of the pause since the last commits, and for readers that are too far behind. A stop ends
        this wait.
        """
        shared = self._shared
        with shared.changed:
            while (left := shared.watch.rest_seconds()) > 0:
                shared.refuse_if_ending()
                shared.changed.wait(left)
        while self.waits_for_readers and not self._plan.may_begin():
            with shared.changed:
                shared.refuse_if_ending()
                shared.changed.wait(_LOOK_SECONDS)
        self._plan.lets_in(epoch)
        with shared.changed:
            shared.watch.let_in(epoch)
        self._figures.clock.let_in(epoch)

    def _failed(self, epoch: int, error: BaseException, said: ToldError | None) -> FailedEpoch:
        phase, fault = self._shared.watch.phase, None
        computing = phase is EpochPhase.COMPUTING
        if phase is EpochPhase.PREPARING and is_of_the_storage(error):
            fault = EpochFault.PREPARED
        elif computing and may_pre_commit_yet(said):
            fault = EpochFault.PRE_COMMIT
        return FailedEpoch(epoch, fault, in_computing=computing and not is_of_a_sink(said))

    def _error_of(self, epoch: int, error: BaseException, said: ToldError | None) -> TidegateError:
        if said is None:
            thrown = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
            unfit = state_fault(thrown, str(self._plan.query), self._plan.folder, self._plan.operator_uids)
            if unfit is not None:
                return unfit
        return failed_epoch(self._plan.query, epoch, error, said)

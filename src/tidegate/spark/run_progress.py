"""How far a run has come: each event of the protocol, entered where the run's threads, its figures and its sources
look for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidegate.core import happenings as hp
from tidegate.core.effects import Happening
from tidegate.core.ledger import recall_decided
from tidegate.core.spark_log import positions_of
from tidegate.operate.positions import skipped_lines
from tidegate.operate.runner import Runner
from tidegate.spark.figures import Figures
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.shared_state import SharedState
from tidegate.spark.sources.source import Monitor
from tidegate.spark.supervised import start_moves


class RunProgress:
    """The progress of one run. `listener` is notified of each event, with the query and the run."""

    def __init__(
        self,
        plan: QueryPlan,
        runner: Runner,
        shared: SharedState,
        figures: Figures,
        listener: Callable[[str, int, Happening], None],
    ) -> None:
        self._plan = plan
        self._runner = runner
        self._shared = shared
        self._figures = figures
        self._listener = listener
        self.monitors: Mapping[str, Monitor] = {}
        """The sources that are told of done epochs, by uid; none before the run reads."""

    def tell(self, run: int, happening: Happening) -> None:
        """Record the event of run `run` (0: not opened yet), wake waiting threads, and notify the listener."""
        with self._shared.changed:
            self._note(happening)
            self._shared.changed.notify_all()
        start_moves(f"query {self._plan.query.uid}, {happening}")
        self._listener(self._plan.query.uid, run, happening)
        if isinstance(happening, hp.EpochDone) and (self.monitors or run == 0):  # a recovery has no monitors yet
            self._tell_of_sources(run, happening.epoch)

    def behind(self) -> int | None:
        """Rows of the sources that are not done yet; None if no source can tell."""
        told = [rows for monitor in self.monitors.values() if (rows := monitor.behind()) is not None]
        return sum(told) if told else None

    def close(self) -> None:
        """The run has ended: release what watches its sources."""
        for monitor in self.monitors.values():
            monitor.close()

    def _note(self, happening: Happening) -> None:
        match happening:
            case hp.EpochPrepared(epoch):
                self._shared.watch.prepared()
                self._shared.prepared = epoch
                self._figures.is_prepared(epoch)
            case hp.EpochDone(epoch, rows):
                self._note_done(epoch, rows)
            case hp.RowsShown(_, _, rows):
                self._figures.rows += rows
            case hp.RowsShownAgain(_, _, rows):
                self._figures.shown_again += rows
            case hp.RowsGivenUp(_, _, rows):
                self._figures.given_up += rows
            case hp.DeadLettersWritten(_, _, rows):
                self._figures.dead_letters += rows
            case hp.TransactionsAborted(count):
                self._figures.aborted += count
            case hp.TransactionRedone():
                self._figures.redone += 1
            case _:
                pass

    def _note_done(self, epoch: int, rows: int) -> None:
        shared, figures = self._shared, self._figures
        shared.finished = figures.finished = epoch
        if shared.current == epoch:
            shared.current = None
        shared.watch.done()
        shared.patience.has_served()
        figures.epochs += 1
        figures.rows += rows
        figures.is_done(epoch)

    def _tell_of_sources(self, run: int, epoch: int) -> None:
        ends = self._ends(epoch)
        for uid, monitor in self.monitors.items():
            positions = [position for source, position in ends if source == uid and position is not None]
            if positions:
                monitor.tell(positions)
        for source, what in self._skipped(epoch, ends):
            self.tell(run, hp.RecordsSkipped(epoch, source, what))

    def _skipped(self, epoch: int, ends: Sequence[tuple[str, str | None]]) -> Mapping[tuple[str, str], None]:
        """What this epoch has skipped, by source and text. An epoch without news of a source ends at the position of
        the epoch before it, which says what that one has skipped.
        """
        found = [(source, position, "; ".join(skipped_lines(position))) for source, position in ends]
        if not any(what for _, _, what in found):
            return {}
        before = self._ends(epoch - 1)
        return {(source, what): None for source, position, what in found if what and (source, position) not in before}

    def _ends(self, epoch: int) -> list[tuple[str, str | None]]:
        decided = self._runner.run(recall_decided(epoch))
        return [] if decided is None else positions_of(self._plan.query.sources, decided.offsets)

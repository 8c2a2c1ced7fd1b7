"""The waiting transactions of a generation that a restore replaces. Decided ones must not be lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from tidegate.checkpoints.job_layout import QUERIES, generation_folder, query_names
from tidegate.core.errors import Code, TidegateError
from tidegate.core.ledger import Query, read_finished
from tidegate.core.levels import Level
from tidegate.disk.strikes import STRIKES
from tidegate.operate.finishing import finish, seal
from tidegate.operate.place import JobPlace, QueryPlace
from tidegate.operate.reading import read_only
from tidegate.operate.transactions import Recorded, name_of, recorded
from tidegate.operate.verdicts import Named, Runs
from tidegate.sinks.base import TwoPhaseSink
from tidegate.spark.levels import leaves_evidence
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.supervised import start_moves

_OF_A_RESTORE = (
    "start the job once without a savepoint: it commits decided epochs and aborts the rest. Then take a savepoint,"
    " which has those rows; or go back with --rewind, which commits decided epochs first; or see `tidegate txn ls`"
)


class GivenUp:
    """The transactions of a job without a live run, and the sinks of the program to restore.

    With `goes_back` decided transactions are committed first, if the program has their sinks. Otherwise a start without
    a savepoint must commit them: a savepoint without those rows would repeat them.
    """

    def __init__(
        self, job: JobPlace, plans: Sequence[QueryPlan], *, goes_back: bool, next_step: str = _OF_A_RESTORE
    ) -> None:
        self._job = job
        self._goes_back = goes_back
        self._next_step = next_step
        self._sinks = {plan.query.uid: plan.sinks for plan in plans}
        self._records = [(place, recorded(job, place, Runs.NO)) for place in job.queries()]

    def against(self, goes_on: Collection[str]) -> Iterator[TidegateError]:
        """The violations against the new generation. Undecided transactions are aborted when it begins, if the program
        still has the query and the sink under their names. Decided ones are not. `goes_on`: the queries that keep their
        uid.
        """
        for place, records in self._records:
            yield from records.problems
            same = place.uid in goes_on
            first = self._finished_first(place)
            for each in records.waiting:
                goes = same and _sink_of(each) in self._sinks.get(place.uid, {})
                if each not in first if each.named is Named.DECIDED else not goes:
                    yield self._waits(place.uid, each)

    def told(self) -> tuple[str, ...]:
        """Messages about the transactions that are committed first."""
        return tuple(
            f"query {place.uid}, sink {_sink_of(each)}: {name_of(each.committable)} of {each.committable.rows} rows was"
            " decided before, and is committed first"
            for place, _ in self._records
            for each in self._finished_first(place)
        )

    def finish(self, level: Level, patience_seconds: float) -> bool:
        """Commit them. True if there were any. Only with the job's locks held. Raises SINK_UNAVAILABLE for a sink that
        is not ready in time, and errors of a commit; the job is then as after any other start.
        """
        due = [(place, first) for place, _ in self._records if (first := self._finished_first(place))]
        for place, first in due:
            through = max(each.committable.attempt.epoch for each in first)
            sinks = {uid: sink for uid, sink in self._sinks[place.uid].items() if uid in place.start.sinks}
            compared = {uid for uid, sink in sinks.items() if leaves_evidence(sink, level)}
            expiring = frozenset(uid for uid, sink in sinks.items() if sink.evidence_expires)
            query = self._job.query(place, frozenset(place.start.sinks) - compared, expiring)
            finish(place, query, sinks, through, patience_seconds, STRIKES.reach)
            start_moves(f"query {place.uid}, finished through epoch {through}")
        return bool(due)

    def seal(self, level: Level, patience_seconds: float, reach: Callable[[str], None]) -> bool:
        """End the generation that the job stands in: nothing is decided in it any more. True if a driver that was
        paused has decided an epoch since `against`: it counts, and is finished now. Raises like `finish`.

        On a disk the locks prove that no other driver lives. There it does nothing, so that a job whose restore was
        killed starts as before.

        A query of the program that has no folder yet is sealed, too: a driver that was paused may be about to begin it.

        reach: called at each step. It raises an error if this driver has lost its lease.
        """
        if self._job.folder.is_local:
            return False
        moved = False
        for uid in sorted({*query_names(self._job.folder), *self._sinks}):
            folder = generation_folder(self._job.folder / QUERIES / uid, self._job.record.generation)
            place = next((each for each, _ in self._records if each.folder == folder), None)
            sinks = _SinksOfTheProgram(self._sinks.get(uid, {}), f"job {self._job.name}, query {uid}", self._next_step)
            query = self._unbegun(uid)
            if place is not None:
                here = {name for name, sink in sinks.items() if leaves_evidence(sink, level)}
                query = self._job.query(place, frozenset(place.start.sinks) - here, frozenset())
            before = -1 if place is None else read_only(place.storage, read_finished())
            last = seal(folder, query, sinks, patience_seconds, lambda step, _epoch: reach(step))
            moved |= last != before
            start_moves(f"query {uid}, sealed behind epoch {last}")
        return moved

    def _unbegun(self, uid: str) -> Query:
        """A query without *start* in the job's generation: it has decided nothing in it."""
        record = self._job.record
        return Query(job=record.name, job_id=record.job_id, generation=record.generation, uid=uid, sources=(), sinks=())

    def _finished_first(self, place: QueryPlace) -> list[Recorded]:
        """The decided transactions of a query: all of them, or none if the program lacks one of their sinks."""
        records = next(found for each, found in self._records if each is place)
        decided = [each for each in records.waiting if each.named is Named.DECIDED]
        has_sinks = {_sink_of(each) for each in decided} <= self._sinks.get(place.uid, {}).keys()
        return decided if self._goes_back and has_sinks and not records.problems else []

    def _waits(self, query: str, waiting: Recorded) -> TidegateError:
        committable = waiting.committable
        return TidegateError(
            Code.RESTORE_PENDING,
            expected="no transaction that a restore would leave behind",
            found=f"{name_of(committable)} of {committable.rows} rows ({waiting.named.value})",
            where=f"job {self._job.name}, query {query}, sink {_sink_of(waiting)}",
            next_step=self._next_step,
        )


class _SinksOfTheProgram(dict[str, TwoPhaseSink]):
    """The sinks of a query of the program."""

    def __init__(self, sinks: Mapping[str, TwoPhaseSink], where: str, next_step: str) -> None:
        super().__init__(sinks)
        self._where = where
        self._next_step = next_step

    def __missing__(self, uid: str) -> TwoPhaseSink:
        """The program has it no more, and an epoch was decided since the restore was judged."""
        raise TidegateError(
            Code.RESTORE_PENDING,
            expected="only decided epochs whose sinks the program has",
            found="an epoch that was decided a moment ago, in a sink that the program no longer has",
            where=f"{self._where}, sink {uid}",
            next_step=self._next_step,
        )


def _sink_of(waiting: Recorded) -> str:
    return waiting.committable.attempt.sink.sink

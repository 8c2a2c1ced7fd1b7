"""The errors and changes of a restore, collected from the job, its sinks and sources. Nothing is written.

The judgement itself is pure, and in `savepoints`: `judgement`, `restoring_sinks`, `state_change`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import msgspec

from tidegate.checkpoints.drained import DrainRecord
from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.core.records import Position, SavedQuery, SinkIdentity
from tidegate.core.start_happenings import RestoreMoved
from tidegate.operate.place import JobPlace
from tidegate.savepoints.claim import against_claim, claimed_by_another
from tidegate.savepoints.folder import (
    names_wrong,
)
from tidegate.savepoints.judgement import Judgement, judge
from tidegate.savepoints.operator_match import operators_refused
from tidegate.savepoints.restored import all_restored, begins_over, would_begin_over
from tidegate.savepoints.restoring import Scope
from tidegate.savepoints.restoring_program import Program, ProgramQuery
from tidegate.savepoints.restoring_sinks import SinkSeen, judge_sink, later_names
from tidegate.savepoints.restoring_sources import places_of
from tidegate.sinks.base import TwoPhaseSink
from tidegate.spark.given_up import GivenUp
from tidegate.spark.job_plan import JobPlan
from tidegate.spark.levels import leaves_evidence
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.refusals import other_backend, rest_was_shown
from tidegate.spark.restoring import JobRestore
from tidegate.spark.sources.streams import reads_files
from tidegate.spark.state.plan import compare_operators, operators_planned
from tidegate.spark.supervised import tell_start


def judged(restore: JobRestore, plan: JobPlan, given_up: GivenUp | None) -> Judgement:
    """The errors and changes of a restore. Only reads. `given_up`: the waiting transactions of the job; None if it has
    none, or if they change because a run may be alive.
    """
    return _Gathered(restore, plan).judged(given_up)


def unopposed(restore: JobRestore, plan: JobPlan, given_up: GivenUp | None) -> Judgement:
    """Check a restore with `judged`, and raise its errors.

    Call it only while holding the job's locks.
    """
    found = judged(restore, plan, given_up)
    raise_all(found.errors, f"job {restore.target.name}, savepoint {restore.savepoint.found_at}")
    return found


def given_up_by(restore: JobRestore, plan: JobPlan) -> GivenUp | None:
    """The waiting transactions of the generation that the restore replaces; None for a new job."""
    if restore.found is None:
        return None
    return GivenUp(JobPlace(restore.job_folder, restore.found), plan.queries, goes_back=bool(restore.wish.rewind))


@dataclass(frozen=True, slots=True)
class _Gathered:
    """One restore, and the program in the new generation."""

    restore: JobRestore
    plan: JobPlan

    def judged(self, given_up: GivenUp | None) -> Judgement:
        plans, settings = self.plan.queries, self.plan.settings
        program = Program(
            name=self.restore.target.name,
            queries=[self._declared(plan) for plan in plans],
            backend=settings.state_backend,
            partitions=settings.parallelism,
            allowed=plans[0].query.allowed,
        )
        found = judge(self.restore.savepoint.record, program, self.restore.wish)
        of_sinks = list(self._sinks_judged(found))
        allowed = [each for each in of_sinks if self.restore.wish.rewind and each[1].catalogue_entry is Code.SINK_AHEAD]
        against = [
            *names_wrong(self.restore.savepoint),
            *self._against_claim(),
            *self._drained(),
            *self._begun_over(found),
            *self._sources_compared(found),
            *self._backend_of_checkpoint(found),
            *self._operators_compared(found),
            *(() if given_up is None else given_up.against(_same_uid(found.matched))),
            *(each[1] for each in of_sinks if each not in allowed),
        ]
        again = [f"{error.where}: {error.found}{_read_again(found.matched.get(uid))}" for uid, error in allowed]
        first = () if given_up is None else given_up.told()
        return replace(found, changes=(*found.changes, *first, *again), errors=(*found.errors, *against))

    def _declared(self, plan: QueryPlan) -> ProgramQuery:
        query = plan.query
        operators = () if self.restore.wish.scope is Scope.OFFSETS_ONLY else operators_planned(self.plan.session, plan)
        tell_start(RestoreMoved(f"query {query.uid}, planned"))
        return ProgramQuery(
            query.uid, query.sources, query.sinks, reads_files(plan.rows), operators, query.fingerprints
        )

    def _against_claim(self) -> Iterator[TidegateError]:
        """The job's own folder needs no claim to continue under the job's id. Another folder may hold it."""
        if self.restore.target.job_id != self.restore.savepoint.record.job_id:
            return
        found = against_claim if self.restore.is_claimed else claimed_by_another
        error = found(self.restore.savepoint, self.restore.target, self.restore.job_folder)
        if error is not None:
            yield error

    def _begun_over(self, found: Judgement) -> Iterator[TidegateError]:
        """Queries of the program that are missing in the savepoint although an epoch of them was shown. It is the check
        of every start of the new generation, for queries whose sinks have no evidence.
        """
        for plan in self.plan.queries:
            uid = plan.query.uid
            if self.restore.wish.rewind or uid in found.matched or not plan.query.forgetful:
                continue
            if uid in found.left_behind:
                now, generation = self.restore.wish.renamed.get(uid), self.restore.target.generation
                yield would_begin_over(self.restore.target, uid, now, generation, str(self.restore.savepoint.found_at))
            elif (error := begins_over(self.restore.job_folder, self.restore.target, uid)) is not None:
                yield error

    def _drained(self) -> Iterator[TidegateError]:
        drain = (
            None
            if self.restore.found is None
            else DrainRecord(self.restore.job_folder, self.restore.found.job_id).read()
        )
        if drain is not None:
            elsewhere = "restore under another job name or checkpointing.dir"
            yield rest_was_shown(drain, str(self.restore.job_folder), elsewhere)

    def _sources_compared(self, found: Judgement) -> Iterator[TidegateError]:
        for plan in self.plan.queries:
            saved = found.matched.get(plan.query.uid)
            places = () if saved is None else places_of(plan.query.sources, saved, self.restore.wish)
            for uid, place in zip(plan.query.sources, places, strict=False):
                position = None if saved is None or place is None else saved.ends[saved.done.sources[place]]
                try:
                    if position is not None:
                        self.plan.compare_source(plan, uid, position)
                except TidegateError as error:
                    yield error

    def _backend_of_checkpoint(self, found: Judgement) -> Iterator[TidegateError]:
        """A retained checkpoint keeps its backend; a savepoint may change it."""
        for uid, change in found.rewritten.items() if self.restore.savepoint.origin is not None else ():
            before, after = change.before.backend, change.after.backend
            if before is not after and found.matched[uid].operators:
                yield other_backend(
                    after.value,
                    f"state of {before.value} in a retained checkpoint, whose backend stays",
                    f"job {self.restore.target.name}, query {uid}",
                    f"-D state.backend={before.value}, as its files are restored as they are;"
                    " a savepoint may change it",
                )

    def _operators_compared(self, found: Judgement) -> Iterator[TidegateError]:
        for plan in self.plan.queries:
            saved, match = found.matched.get(plan.query.uid), found.operators.get(plan.query.uid)
            unmatched = match is not None and any(operators_refused(match, may_leave=True, where=str(plan.query)))
            if unmatched or plan.query.uid in found.changed:
                continue  # Spark would report the same in other words
            if saved is not None and plan.query.uid not in found.emptied:
                error = compare_operators(self.plan.session, plan, saved, self.restore.savepoint, match)
                if error is not None:
                    yield error
                tell_start(RestoreMoved(f"query {plan.query.uid}, operators compared with the savepoint"))

    def _sinks_judged(self, found: Judgement) -> Iterator[tuple[str, TidegateError]]:
        """With the uid of the query. A sink that stays in the job shows nothing of what a restore gives up. Its query
        must be in the savepoint: one that begins again would write all of its rows a second time.
        """
        for plan in self.plan.queries:
            saved = found.matched.get(plan.query.uid)
            for uid, sink in plan.sinks.items():
                resumes_in_job = sink.stays_in_job and saved is not None
                if not resumes_in_job and leaves_evidence(sink, self.plan.settings.checkpointing_mode):
                    seen = self._seen(plan, saved, uid, sink)
                    error = judge_sink(self.restore.savepoint.record, self.restore.target, seen)
                    if error is not None:
                        yield plan.query.uid, error
                tell_start(RestoreMoved(f"sink {uid}, compared with the savepoint"))

    def _seen(self, plan: QueryPlan, saved: SavedQuery | None, uid: str, sink: TwoPhaseSink) -> SinkSeen:
        record = self.restore.savepoint.record
        before = uid if saved is None else self._name_before(uid, saved)
        new = plan.query.sink(uid)
        old = None
        if saved is not None:
            old = SinkIdentity(
                job=record.job,
                job_id=record.job_id,
                generation=saved.done.generation,
                query=saved.done.query,
                sink=before,
            )
        same_names = (
            old is not None
            and (old.query, old.sink) == (new.query, new.sink)
            and (old.job == new.job or old.job_id == new.job_id)  # evidence of one id is found under both names
        )
        return SinkSeen(
            query=plan.query.uid,
            sink=uid,
            saved=saved,
            progress=None if saved is None else saved.done.progress.get(before),
            under_saved=None if old is None else sink.position(old),
            under_new=None if same_names else sink.position(new),
            under_later=() if old is None else self._under_later(old, new, sink),
            same_names=same_names,
            expires=sink.evidence_expires,
        )

    def _under_later(self, old: SinkIdentity, new: SinkIdentity, sink: TwoPhaseSink) -> tuple[Position, ...]:
        """The evidence of the job's later generations, in which it had other names than then and now."""
        if self.restore.found is None or self.restore.found.job_id != old.job_id:
            return ()
        since = [
            each.renamed
            for each in all_restored(self.restore.job_folder, self.restore.found)
            if each.generation > old.generation
        ]
        names = later_names(old.query, old.sink, since) - {(new.query, new.sink)}
        under = [msgspec.structs.replace(new, query=query, sink=uid) for query, uid in sorted(names)]
        return tuple(found for each in under if (found := sink.position(each)) is not None)

    def _name_before(self, uid: str, saved: SavedQuery) -> str:
        renamed = {now: before for before, now in self.restore.wish.renamed.items() if before in saved.done.sinks}
        return renamed.get(uid, uid)


def _same_uid(matched: Mapping[str, SavedQuery]) -> frozenset[str]:
    return frozenset(uid for uid, saved in matched.items() if saved.done.query == uid)


def _read_again(saved: SavedQuery | None) -> str:
    """The positions from which the input of such rows is read again; empty if it is read from its beginning."""
    ends = [f"{uid} from {end}" for uid, end in ({} if saved is None else saved.ends).items() if end is not None]
    return f"; read again: {', '.join(ends)}" if ends else ""

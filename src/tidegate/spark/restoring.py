"""A start that goes on from a savepoint: what is compared before anything is touched, and what is done then."""

from __future__ import annotations

import logging
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from pyspark.sql import SparkSession

from tidegate.checkpoints.drained import DrainRecord
from tidegate.checkpoints.ingest_layout import INGEST
from tidegate.checkpoints.job_layout import JOB_RECORD, QUERIES, generation_folder, generations, query_names
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.core.ledger import RUNS
from tidegate.core.levels import Level
from tidegate.core.records import JobRecord, Position, Run, SavedQuery, SavepointFormat, SinkIdentity, decode
from tidegate.disk.durable import ensure_folder
from tidegate.disk.strikes import STRIKES
from tidegate.operate.place import JobPlace
from tidegate.operate.runner import introduce
from tidegate.savepoints.asked_restore import SAYS, Said
from tidegate.savepoints.claim import against_claim, claim, claimed_by_another
from tidegate.savepoints.folder import (
    MANIFEST,
    Savepoint,
    manifest_digest,
    names_wrong,
    open_savepoint,
    verify,
)
from tidegate.savepoints.ingest_restore import JoinedLog, SavedLog
from tidegate.savepoints.judgement import Judgement, Verdict, judge
from tidegate.savepoints.operator_match import OperatorMatch, operators_refused
from tidegate.savepoints.restore import (
    RestoredQuery,
    Restoring,
    all_restored,
    begins_over,
    commit,
    prepare,
    read_restored,
    settle,
    would_begin_over,
)
from tidegate.savepoints.restoring import Restore, Scope
from tidegate.savepoints.restoring_program import Program, ProgramQuery
from tidegate.savepoints.restoring_sinks import SinkSeen, judge_sink, later_names
from tidegate.savepoints.restoring_sources import places_of
from tidegate.savepoints.retained import as_savepoint, retained_in
from tidegate.savepoints.rewritten import offsets_of
from tidegate.savepoints.state_change import StateChange, lives_by_rows, state_form
from tidegate.savepoints.state_tables import SavedTables
from tidegate.savepoints.take import HELD
from tidegate.settings.config import Settings
from tidegate.sinks.base import TwoPhaseSink
from tidegate.spark.fresh import above_evidence
from tidegate.spark.given_up import GivenUp
from tidegate.spark.levels import leaves_evidence
from tidegate.spark.query_conf import FORMAT_KEY, PROVIDER_KEY, STORES
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.sources.source import reads_files
from tidegate.spark.state.empty import begin_empty
from tidegate.spark.state.plan import compare_operators, describe_new, operators_planned
from tidegate.spark.state.rewrite import begin_operators, rewrite_state
from tidegate.spark.state.rows import count_state, count_tables, expected_state, recorded_tables
from tidegate.spark.supervised import start_moves
from tidegate.storages.leases import driver_or_engine_lives
from tidegate.storages.opening import open_storage

_LOG = logging.getLogger("tidegate")

CompareSource = Callable[[QueryPlan, str, str], None]
"""Raises where the source of that uid is not the one in which the savepoint has reached the position."""


def open_restore(
    wish: Restore | None, job_folder: Path, job: str, level: Level, stack: ExitStack, *, only_look: bool = False
) -> JobRestore | None:
    """None where nothing is wished, and where the job was opened from this very savepoint: then it goes on as ever,
    so a program that is started again, by whomever, does not go back. A retained checkpoint is put together aside until
    `stack` ends; with `only_look` not in the job's folder.

    Raises SAVEPOINT_..., RECORD_..., and what makes a restore impossible in this folder.
    """
    if wish is None:
        return None
    if level is Level.AT_MOST_ONCE:
        raise _nothing_is_kept(job)
    storage = open_storage(job_folder)
    data = storage.read(JOB_RECORD)
    found = None if data is None else decode(JobRecord, data, storage.where(JOB_RECORD))
    folder = Path(wish.path).absolute()
    if found is not None and _was_opened_from(folder, wish.rewind, job_folder, found):
        _LOG.warning(
            "job %s: generation %d was opened from %s before, and goes on from its newest checkpoint",
            *(job, found.generation, folder),
        )
        return None
    savepoint = _opened(folder, job_folder, stack, only_look=only_look)
    return JobRestore(wish, savepoint, job_folder, found, _target(wish, savepoint, job, job_folder, found))


def _opened(folder: Path, job_folder: Path, stack: ExitStack, *, only_look: bool) -> Savepoint:
    retained = retained_in(folder)
    if retained is None:
        return open_savepoint(folder)
    held = None if only_look else job_folder / HELD
    if held is not None:
        ensure_folder(held)
    aside = stack.enter_context(TemporaryDirectory(prefix="tidegate-checkpoint-", dir=held))
    return as_savepoint(folder, retained, Path(aside).resolve(), job_folder)


def say_verdict(
    restore: JobRestore | None,
    plans: Sequence[QueryPlan],
    settings: Settings,
    compare: CompareSource,
    session: SparkSession,
) -> None:
    """For `tidegate savepoint check`: on the standard error. Reads every file. Raises what makes it impossible."""
    if restore is None:
        _say(Said(verdict=Verdict.OK.value, changes=("the job was opened from it before, and goes on as ever",)))
        return
    alone = not driver_or_engine_lives(restore.job_folder)
    found = restore.judged(plans, settings, compare, session, alone=alone)
    errors = [*found.errors, *verify(restore.savepoint), *([] if alone else [_runs(restore)])]
    # Names that do not fit are told by both.
    different = list({(error.code, error.found, error.where): error for error in errors}.values())
    epochs = {uid: saved.done.epoch for uid, saved in found.matched.items()}
    verdict = replace(found, errors=tuple(different)).verdict
    # Where it is impossible nothing changes, so nothing of that is told.
    _say(Said(verdict=verdict.value, changes=() if different else found.changes, epochs=epochs))
    raise_all(different, f"job {restore.target.name}, savepoint {restore.savepoint.found_at}")


def _say(said: Said) -> None:
    print(f"{SAYS}{msgspec.json.encode(said).decode()}", file=sys.stderr, flush=True)


def _runs(restore: JobRestore) -> TidegateError:
    return TidegateError(
        Code.DRIVER_ALIVE,
        expected="a job that does not run, so that another generation of it can begin",
        found="its driver, or the JVM of one, is alive",
        where=str(restore.job_folder),
        next_step=f"`tidegate stop {restore.target.name}`, then start it again with the savepoint",
    )


def _was_opened_from(folder: Path, rewind: str, job_folder: Path, found: JobRecord) -> bool:
    current = read_restored(job_folder, found)
    if rewind:  # it went back once under this id, whatever the job was restored from since
        opened = [each for each in all_restored(job_folder, found) if each.rewind == rewind]
    else:
        opened = [] if current is None else [current]
    if not (folder / MANIFEST).is_file():  # disposed of since: nothing needs it any more
        return any(each.savepoint == str(folder) for each in opened)
    return any(each.digest == manifest_digest(folder) for each in opened)


def _target(wish: Restore, savepoint: Savepoint, job: str, job_folder: Path, found: JobRecord | None) -> JobRecord:
    """*job.json* as it will be: a job keeps its id; a new one gets one, unless it claims the savepoint's."""
    saved = savepoint.record
    opened = [number for uid in query_names(job_folder) for number in generations(job_folder / QUERIES / uid)]
    if found is not None:
        if wish.claim and found.job_id != saved.job_id:
            raise TidegateError(
                Code.JOB_MISMATCH,
                expected=f"no job, or the savepoint's own (id {saved.job_id}), where a savepoint is claimed",
                found=f"job {found.name} of id {found.job_id}",
                where=str(savepoint.found_at),
                next_step="restore without --claim, or under another job name or checkpointing.dir",
            )
        # The job may have lived in another folder meanwhile: what its sinks have of then is of older generations, too.
        begun = [found.generation, *opened, *([saved.generation] if found.job_id == saved.job_id else [])]
        return JobRecord(name=found.name, job_id=found.job_id, generation=max(begun) + 1)
    if wish.claim:
        return JobRecord(name=job, job_id=saved.job_id, generation=max([saved.generation, *opened]) + 1)
    return JobRecord(name=job, job_id=secrets.token_hex(4), generation=max([0, *opened]) + 1)


@dataclass(frozen=True, slots=True)
class JobRestore:
    """One restore into one job. `found` is *job.json* as it stands, `target` as it will be."""

    wish: Restore
    savepoint: Savepoint
    job_folder: Path
    found: JobRecord | None
    target: JobRecord
    logs: tuple[JoinedLog, ...] = ()
    """The ingest logs that its sources resume from."""

    def saved_log(self, source: str) -> SavedLog | None:
        """What the savepoint holds of the ingest log of a source of the program. Raises SOURCES_CHANGED where two logs
        would become one."""
        files = (file.name.split("/") for file in self.savepoint.record.files)
        names = sorted({parts[1] for parts in files if parts[0] == INGEST})
        found = [name for name in names if self.wish.renamed.get(name, name) == source]
        if not found or self.wish.scope is Scope.STATE_ONLY:
            return None
        if len(found) > 1:
            raise TidegateError(
                Code.SOURCES_CHANGED,
                expected="one durable socket source of the savepoint for each of the program",
                found=f"{', '.join(found)} as {source}",
                where=f"job {self.target.name}, source {source}",
                next_step="give each of them a source of its own",
            )
        return SavedLog(self.savepoint.folder / INGEST / found[0], self._is_ours)

    @property
    def _is_ours(self) -> bool:
        """Whether the job took the savepoint, or was opened from it."""
        opened = [] if self.found is None else all_restored(self.job_folder, self.found)
        digest = manifest_digest(self.savepoint.folder)
        return self.target.job_id == self.savepoint.record.job_id or any(each.digest == digest for each in opened)

    def above_evidence(self, plans: Sequence[QueryPlan], level: Level) -> JobRestore:
        """The same, in a generation above all that the sinks have evidence of. Going back in another folder, a claimed
        savepoint does not know which generations the job has opened behind it; in one of those no start would go on."""
        if not self.wish.rewind:
            return self
        return replace(self, target=above_evidence(self.target, plans, level))

    def judged(
        self,
        plans: Sequence[QueryPlan],
        settings: Settings,
        compare: CompareSource,
        session: SparkSession,
        *,
        alone: bool = True,
    ) -> Judgement:
        """What stands against it, and what changes. Only reads. `alone`: the locks prove that no run is alive; else
        what waits of the job's transactions is not looked at, as it moves."""
        program = Program(
            name=self.target.name,
            queries=[self._declared(plan, session) for plan in plans],
            backend=settings.state_backend,
            partitions=settings.parallelism,
            allowed=plans[0].query.allowed,
        )
        found = judge(self.savepoint.record, program, self.wish)
        of_sinks = list(self._sinks_judged(found, plans, settings.checkpointing_mode))
        given_up = self._given_up(plans) if alone else None
        allowed = [each for each in of_sinks if self.wish.rewind and each[1].catalogue_entry is Code.SINK_AHEAD]
        against = [
            *names_wrong(self.savepoint),
            *self._against_claim(),
            *self._drained(),
            *self._begun_over(found, plans),
            *self._sources_compared(found, plans, compare),
            *self._backend_of_checkpoint(found),
            *self._operators_compared(found, plans, session),
            *(() if given_up is None else given_up.against(_same_uid(found.matched))),
            *(each[1] for each in of_sinks if each not in allowed),
        ]
        again = [f"{error.where}: {error.found}{_read_again(found.matched.get(uid))}" for uid, error in allowed]
        first = () if given_up is None else given_up.told()
        return replace(found, changes=(*found.changes, *first, *again), errors=(*found.errors, *against))

    def _declared(self, plan: QueryPlan, session: SparkSession) -> ProgramQuery:
        query = plan.query
        operators = () if self.wish.scope is Scope.OFFSETS_ONLY else operators_planned(session, plan)
        start_moves(f"query {query.uid}, planned")
        return ProgramQuery(
            query.uid, query.sources, query.sinks, reads_files(plan.rows), operators, query.fingerprints
        )

    def carry_out(
        self, plans: Sequence[QueryPlan], settings: Settings, compare: CompareSource, session: SparkSession
    ) -> None:
        """Open the new generation. Only with the job's locks held. Whatever stands against it, the job is as it was;
        but where it goes back, what it had decided has been committed."""
        found = self._unopposed(plans, settings, compare, session)
        given_up = self._given_up(plans)
        if given_up is not None and given_up.finish(settings.checkpointing_mode, settings.stop_timeout):
            found = self._unopposed(plans, settings, compare, session)  # the sinks are further ahead now
        self._open(found, plans, session)

    def _unopposed(
        self, plans: Sequence[QueryPlan], settings: Settings, compare: CompareSource, session: SparkSession
    ) -> Judgement:
        found = self.judged(plans, settings, compare, session)
        raise_all(found.errors, f"job {self.target.name}, savepoint {self.savepoint.found_at}")
        return found

    def _open(self, found: Judgement, plans: Sequence[QueryPlan], session: SparkSession) -> None:
        restoring = self._restoring(found, plans, session)
        try:
            rewrite = partial(self._rewritten, found, {plan.query.uid: plan for plan in plans}, session)
            checkpoints = prepare(replace(restoring, rewrite=rewrite))
            start_moves("a savepoint's files, restored")
            rows = self._state_compared(found, plans, session, checkpoints)
            restoring.reach("restore.counted")
            if self._is_claimed:
                claim(self.savepoint, self.target, self.job_folder)
            commit(restoring)
        except BaseException:
            with suppress(TidegateError):  # what is left, every start removes; the error that left it is the one
                settle(self.job_folder)
            raise
        self._tell(found, rows)

    # --- what stands against it ----------------------------------------------------------------------------

    def _against_claim(self) -> Iterator[TidegateError]:
        """The job's own folder needs no claim to go on under the job's id; another one may have it."""
        if self.savepoint.origin is not None or self.target.job_id != self.savepoint.record.job_id:
            return
        found = against_claim if self._is_claimed else claimed_by_another
        error = found(self.savepoint, self.target, self.job_folder)
        if error is not None:
            yield error

    @property
    def _is_claimed(self) -> bool:
        """Whether a savepoint belongs to the job from now on; the files of a retained checkpoint are its job's own."""
        return self.wish.claim and self.savepoint.origin is None

    def _begun_over(self, found: Judgement, plans: Sequence[QueryPlan]) -> Iterator[TidegateError]:
        """Queries that the program has and the savepoint has not, though an epoch was shown of them: as every start of
        the new generation would say of those whose sinks cannot tell."""
        for plan in plans:
            uid = plan.query.uid
            if self.wish.rewind or uid in found.matched or not plan.query.forgetful:
                continue
            if uid in found.left_behind:
                now, generation = self.wish.renamed.get(uid), self.target.generation
                yield would_begin_over(self.target, uid, now, generation, self.savepoint.found_at)
            elif (error := begins_over(self.job_folder, self.target, uid)) is not None:
                yield error

    def _drained(self) -> Iterator[TidegateError]:
        drain = None if self.found is None else DrainRecord(self.job_folder, self.found.job_id).read()
        if drain is not None:
            yield TidegateError(
                Code.JOB_DRAINED,
                expected="a job that was not drained",
                found=f"a drain of {drain.since}, which has shown what waited for the end of time",
                where=str(self.job_folder),
                next_step="restore under another job name or checkpointing.dir",
            )

    def _sources_compared(
        self, found: Judgement, plans: Sequence[QueryPlan], compare: CompareSource
    ) -> Iterator[TidegateError]:
        for plan in plans:
            saved = found.matched.get(plan.query.uid)
            places = () if saved is None else places_of(plan.query.sources, saved, self.wish)
            for uid, place in zip(plan.query.sources, places, strict=False):
                position = None if saved is None or place is None else saved.ends[saved.done.sources[place]]
                try:
                    if position is not None:
                        compare(plan, uid, position)
                except TidegateError as error:
                    yield error

    def _backend_of_checkpoint(self, found: Judgement) -> Iterator[TidegateError]:
        """A retained checkpoint goes on in the backend it was written by; a savepoint may change it."""
        for uid, change in found.rewritten.items() if self.savepoint.origin is not None else ():
            before, after = change.before.backend, change.after.backend
            if before is not after and found.matched[uid].operators:
                yield TidegateError(
                    Code.STATE_FORMAT,
                    expected=f"state of {after.value}, as state.backend says",
                    found=f"state of {before.value} in a retained checkpoint, whose backend stays",
                    where=f"job {self.target.name}, query {uid}",
                    next_step=f"-D state.backend={before.value}, as its files are restored as they are;"
                    " a savepoint may change it",
                )

    def _operators_compared(
        self, found: Judgement, plans: Sequence[QueryPlan], session: SparkSession
    ) -> Iterator[TidegateError]:
        for plan in plans:
            saved, match = found.matched.get(plan.query.uid), found.operators.get(plan.query.uid)
            unmatched = match is not None and any(operators_refused(match, may_leave=True, where=str(plan.query)))
            if unmatched or plan.query.uid in found.changed:
                continue  # Spark could say the same in other words only
            if saved is not None and plan.query.uid not in found.emptied:
                error = compare_operators(session, plan, saved, self.savepoint, match)
                if error is not None:
                    yield error
                start_moves(f"query {plan.query.uid}, operators compared with the savepoint")

    def _given_up(self, plans: Sequence[QueryPlan]) -> GivenUp | None:
        if self.found is None:
            return None
        return GivenUp(JobPlace(self.job_folder, self.found), plans, goes_back=bool(self.wish.rewind))

    def _sinks_judged(
        self, found: Judgement, plans: Sequence[QueryPlan], level: Level
    ) -> Iterator[tuple[str, TidegateError]]:
        """With the uid of the query."""
        for plan in plans:
            for uid, sink in plan.sinks.items():
                if leaves_evidence(sink, level):
                    seen = self._seen(plan, found.matched.get(plan.query.uid), uid, sink)
                    error = judge_sink(self.savepoint.record, self.target, seen)
                    if error is not None:
                        yield plan.query.uid, error
                start_moves(f"sink {uid}, compared with the savepoint")

    def _seen(self, plan: QueryPlan, saved: SavedQuery | None, uid: str, sink: TwoPhaseSink) -> SinkSeen:
        record = self.savepoint.record
        new = plan.query.sink(uid)
        before = uid if saved is None else self._name_before(uid, saved)
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
        """The evidence of the job's own generations since, in which it had other names than then and than now."""
        if self.found is None or self.found.job_id != old.job_id:
            return ()
        since = [each.renamed for each in all_restored(self.job_folder, self.found) if each.generation > old.generation]
        names = later_names(old.query, old.sink, since) - {(new.query, new.sink)}
        under = [msgspec.structs.replace(new, query=query, sink=uid) for query, uid in sorted(names)]
        return tuple(found for each in under if (found := sink.position(each)) is not None)

    def _name_before(self, uid: str, saved: SavedQuery) -> str:
        renamed = {now: before for before, now in self.wish.renamed.items() if before in saved.done.sinks}
        return renamed.get(uid, uid)

    # --- what is done --------------------------------------------------------------------------------------

    def _restoring(self, found: Judgement, plans: Sequence[QueryPlan], session: SparkSession) -> Restoring:
        queries = [(plan, found.matched[plan.query.uid]) for plan in plans if plan.query.uid in found.matched]
        return Restoring(
            job_folder=self.job_folder,
            savepoint=self.savepoint,
            record=self.target,
            queries=[self._restored(plan, saved, session, found) for plan, saved in queries],
            left_behind=found.left_behind,
            link=self.wish.claim,
            rewind=self.wish.rewind,
            renamed=self.wish.renamed,
            program=tuple(plan.query.uid for plan in plans),
            logs=self.logs,
            reach=_reach,
            passed=_passed,
        )

    def _restored(self, plan: QueryPlan, saved: SavedQuery, session: SparkSession, found: Judgement) -> RestoredQuery:
        query, empty, accepted = plan.query, plan.query.uid in found.emptied, found.accepted.get(plan.query.uid)
        match, places = found.operators.get(query.uid), places_of(query.sources, saved, self.wish)
        token, host, process, since = introduce()
        number = max([saved.done.run, *self._runs(query.uid)])
        return RestoredQuery(
            uid=query.uid,
            saved=saved,
            start=query.start(first_epoch=1 if empty else saved.done.epoch + 1),
            accepted=None if accepted is None else msgspec.structs.replace(accepted, at=since),
            run=Run(run=number, token=token, host=host, process=process, since=since),
            places=places,
            operators=match.places if match is not None and match.moves_files else None,
            make_empty=partial(begin_empty, session, plan, saved, places) if empty else None,
        )

    def _runs(self, uid: str) -> Iterator[int]:
        folder = self.job_folder / QUERIES / uid
        for number in generations(folder):
            yield from entry_numbers(open_storage(generation_folder(folder, number)).list(RUNS))

    def _rewritten(
        self,
        found: Judgement,
        plans: Mapping[str, QueryPlan],
        session: SparkSession,
        query: RestoredQuery,
        checkpoint: Path,
    ) -> None:
        plan, change, match = plans[query.uid], found.rewritten.get(query.uid), found.operators.get(query.uid)
        tables, form = self._tables(query.saved, match), state_form(query.saved)
        if change is None and tables is not None and form is not None and query.make_empty is None:
            change = StateChange(form, form)
        if change is not None:
            final = generation_folder(self.job_folder / QUERIES / query.uid, self.target.generation) / "spark"
            rewrite_state(session, plan.conf, checkpoint, final, query.saved, change, start_moves, tables)
        form = form if change is None else change.after
        if match is not None and match.new and form is not None:
            describe_new(session, plan, offsets_of(checkpoint, query.epoch), match.new, checkpoint)
            begin_operators(session, plan.conf, checkpoint, query.saved, match.new, form, start_moves)

    def _state_compared(
        self, found: Judgement, plans: Sequence[QueryPlan], session: SparkSession, checkpoints: Mapping[str, Path]
    ) -> Mapping[str, Mapping[str, int]]:
        """The rows of state by query and operator, which are as many as in the saved epoch."""
        counted: dict[str, Mapping[str, int]] = {}
        for plan in plans:
            saved = found.matched.get(plan.query.uid)
            if saved is None or not saved.operators or plan.query.uid in found.emptied:
                continue
            match = found.operators.get(plan.query.uid)
            tables = self._tables(saved, match)
            if tables is not None:
                from tidegate.savepoints.canonical import count_rows  # loads what no other start needs

                wanted = {**count_rows(tables, saved), **recorded_tables(saved)}
                rows = count_tables(session, checkpoints[plan.query.uid], saved, plan.conf)
            else:
                before = self.savepoint.folder / QUERIES / saved.done.query / "spark"
                change = found.rewritten.get(plan.query.uid)
                numbers = {} if match is None else match.numbers
                wanted = expected_state(session, before, saved, _conf_before(plan.conf, change), numbers)
                rows = count_state(session, checkpoints[plan.query.uid], saved, plan.conf)
            if rows != wanted:
                raise TidegateError(
                    Code.RESTORE_STATE,
                    expected=f"rows of state: {wanted}",
                    found=f"{rows}",
                    where=str(plan.query),
                    next_step=f"`tidegate savepoint verify {self.savepoint.folder}` tells whether it is whole;"
                    " if so restore"
                    " another one (`tidegate savepoint ls DIR`); nothing of the job was changed",
                )
            counted[plan.query.uid] = rows
            start_moves(f"query {plan.query.uid}, state compared with the savepoint")
        return counted

    def _tables(self, saved: SavedQuery, match: OperatorMatch | None) -> SavedTables | None:
        """The query's state as tables; None where Spark's files have it, or there is none. What a savepoint keeps as
        tables depends on all of the query's operators, also on those that are left behind."""
        is_canonical = self.savepoint.record.format is SavepointFormat.CANONICAL
        every = [*saved.operators, *(() if match is None else match.left)]
        if not is_canonical or not saved.operators or not lives_by_rows(every):
            return None
        return SavedTables(str(self.savepoint.folder), {} if match is None else match.numbers)

    def _tell(self, found: Judgement, rows: Mapping[str, Mapping[str, int]]) -> None:
        job, where = f"job {self.target.name}, generation {self.target.generation}", self.savepoint.found_at
        for uid, saved in found.matched.items():
            uncounted = "not counted" if saved.operators and uid not in found.emptied else "none"
            state = ", ".join(f"{name}: {count}" for name, count in rows.get(uid, {}).items()) or uncounted
            _LOG.info(
                "%s: query %s goes on behind epoch %d of savepoint %s; rows of state: %s",
                *(job, uid, saved.done.epoch, where, state),
            )
        for change in found.changes:
            _LOG.warning("%s: %s", job, change)


def _same_uid(matched: Mapping[str, SavedQuery]) -> frozenset[str]:
    return frozenset(uid for uid, saved in matched.items() if saved.done.query == uid)


def _conf_before(conf: Mapping[str, str], change: StateChange | None) -> Mapping[str, str]:
    """The settings that the state in the savepoint is read with."""
    if change is None:
        return conf
    store = STORES[change.before.backend]
    return {**conf, PROVIDER_KEY: store.provider, FORMAT_KEY: store.checkpoint_format}


def _read_again(saved: SavedQuery | None) -> str:
    """From where on the input of such rows is read again: nothing where it is read from its beginning."""
    ends = [f"{uid} from {end}" for uid, end in ({} if saved is None else saved.ends).items() if end is not None]
    return f"; read again: {', '.join(ends)}" if ends else ""


def _reach(step: str) -> None:
    STRIKES.reach(step, None)


def _passed(file: Path) -> None:
    start_moves(f"{file}, restored")


def _nothing_is_kept(job: str) -> TidegateError:
    return TidegateError(
        Code.LEVEL_REFUSED,
        expected="a job at exactly-once or at-least-once, which goes on from something",
        found="checkpointing.mode = at-most-once: each start begins with empty state, at the newest input",
        where=f"job {job}",
        next_step="choose another level, or start without a savepoint",
    )

"""Starts a declared job: its locks, the generation that it resumes in, checks, and the threads of its queries.

The order counts. Errors that prevent a start are raised before anything is written for it. A restore or a fresh
generation is carried out before the queries of the new generation are planned. Sinks are opened after all checks have
passed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from tidegate.channels.coordinator import Coordinator
from tidegate.checkpoints.drained import DrainRecord
from tidegate.checkpoints.job_layout import JOB_RECORD, QUERIES, generations
from tidegate.checkpoints.retained import QueryFolder, RetainedCheckpoints
from tidegate.checkpoints.retention import delete_checkpoints, go_on_deleting
from tidegate.checkpoints.succession import begin_job, demand_standing, standing
from tidegate.core.errors import Code, TidegateError
from tidegate.core.guarantees import Guarantee
from tidegate.core.levels import Level
from tidegate.core.records import JobRecord, SinkIdentity
from tidegate.disk.strikes import STRIKES
from tidegate.operate.forgetting import clear_sink
from tidegate.operate.guarantees import write_guarantees
from tidegate.operate.left_open import give_up_what_is_left
from tidegate.operate.place import JobPlace
from tidegate.operate.rhythm import rhythm_of
from tidegate.operate.sinks import Sinks, describe, write_sinks
from tidegate.operate.sources import write_sources
from tidegate.savepoints.continued import is_sealed
from tidegate.savepoints.folder import Savepoint
from tidegate.savepoints.fresh import Fresh, first_generation
from tidegate.savepoints.graph_checkpoints import GraphCheckpoints
from tidegate.savepoints.hold import RunningQuery
from tidegate.savepoints.restoring import Restore
from tidegate.savepoints.running_job import RunningJob
from tidegate.savepoints.scratch import left_by_drivers, remove_left
from tidegate.savepoints.settled import demand_starts, settle
from tidegate.savepoints.take import remove_held
from tidegate.settings.kinds import Retention
from tidegate.spark.advice import Advice, advice_for
from tidegate.spark.checkpointing import Checkpointing
from tidegate.spark.clearing import Clearing
from tidegate.spark.clerk import Clerk
from tidegate.spark.companions import Companion
from tidegate.spark.continuing import leave_sealed
from tidegate.spark.coordinated import alignment_of, coordinated
from tidegate.spark.draining import drain_of
from tidegate.spark.fresh import above_evidence, fresh_target
from tidegate.spark.fresh import carry_out as open_fresh
from tidegate.spark.function_sink import FunctionSink
from tidegate.spark.guarantees import guarantees_of, rows_of
from tidegate.spark.handle import JobHandle
from tidegate.spark.historian import Historian
from tidegate.spark.interrupts import StoppedByInterrupt, interrupts_ask, main_thread_waits, obey_signals
from tidegate.spark.job_plan import DeclaredJob, JobPlan
from tidegate.spark.job_runs import RunRules
from tidegate.spark.job_sources import JobSources
from tidegate.spark.jvm_output import is_own_jvm
from tidegate.spark.lease_watch import LeaseWatch
from tidegate.spark.levels import level_of
from tidegate.spark.listeners import Delivery
from tidegate.spark.milestones import MilestoneWriter
from tidegate.spark.noted_on_yarn import NotedOnYarn
from tidegate.spark.opens import Opens
from tidegate.spark.operator_checks import check_operators
from tidegate.spark.planning import plan_job
from tidegate.spark.pulse import Pulse
from tidegate.spark.query_conf import epochs_kept
from tidegate.spark.reported_settings import savepoints_folder, shown_settings
from tidegate.spark.restore_carried_out import carry_out
from tidegate.spark.restoring import JobRestore, open_restore
from tidegate.spark.retaining import Retaining
from tidegate.spark.savepointing import SavepointTaker
from tidegate.spark.session import is_in_container, lock_engine
from tidegate.spark.start_checks import check_start
from tidegate.spark.state.parquet import tables_opened
from tidegate.spark.supervised import current, start_moves
from tidegate.spark.until import Until
from tidegate.storages.check import check_storage
from tidegate.storages.lease import HeldLease
from tidegate.storages.leases import taken_lease
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

CHECKPOINTS_APART_SECONDS = 1.0
"""The shortest time between two checkpoints across the queries of a job: readers are held while one is taken."""


def start(job: DeclaredJob, wish: Restore | Fresh | None, *, until: Until) -> JobHandle:
    """Start the job: recovery of every query first, then their runs."""
    unusable = check_storage(open_storage(job.folder))
    if unusable is not None:
        raise unusable
    supervised = current()
    if supervised is not None:
        supervised.declare(job.folder, job.settings, own_jvm=is_own_jvm())
    with ExitStack() as stack:
        handle, record = _ready(Starting(job, until, _lock(job, stack)), wish, stack)
        if supervised is not None:
            supervised.starting(handle)
        else:
            obey_signals(handle)
        with interrupts_ask(handle.ask_to_stop) as interrupts, main_thread_waits():
            handle.start(at_end=stack.pop_all().close)
    if interrupts:
        handle.wait()
        raise StoppedByInterrupt
    if supervised is not None:
        supervised.started(record.job_id)
    return handle


def _lock(job: DeclaredJob, stack: ExitStack) -> HeldLease:
    """The job's locks, until `stack` ends. Then the half-done work of killed processes is completed."""
    timeout, left = job.settings.lease_timeout, left_by_drivers(job.folder)
    lease = stack.enter_context(taken_lease(job.folder, job.name, timeout, timeout))
    stack.callback(lock_engine(job.session, lease))
    start_moves("the job's locks")
    go_on_deleting(job.folder, partial(forget, job), _uids(job))
    remove_held(job.folder)
    remove_left(left)
    settle(job.folder)
    return lease


def _ready(starting: Starting, wish: Restore | Fresh | None, stack: ExitStack) -> tuple[JobHandle, JobRecord]:
    """The checked job, with its sinks opened, and its record. No thread of it runs yet."""
    job, until = starting.job, starting.until
    record = recorded(job)
    supervised = current()
    if supervised is not None:
        demand_resumed(record, supervised.resumes, job.folder)
    if isinstance(wish, Fresh):
        sources = JobSources(job, stack, until=until)
        record = starting.begun_anew(wish, record, sources)
    else:
        record = starting.restored(wish, record)
        sources = JobSources(job, stack, until=until)
    record = starting.continued(record, sources)
    demand_starts(job.folder, record)
    drain = drain_of(job.folder, record, job.settings.checkpointing_mode, until=until)
    plan = plan_job(job, record, sources)
    sink_plans = check_start(plan)
    check_operators(plan)
    sources.compare_with_logs(plan.queries)
    begin_job(job.folder, record)
    _describe_sinks(job, record)
    demand_standing(job.folder, record, record)  # the end of a job seals the queries that it finds described
    for sink, sink_plan in sink_plans:
        sink.open(sink_plan)
        start_moves(f"sink {sink.uid}, opened")
    return starting.handle(*coordinated(job, plan), sources, drain), record


@dataclass(frozen=True, slots=True)
class Starting:
    """One start of a job."""

    job: DeclaredJob
    until: Until
    lease: HeldLease

    def restored(self, wish: Restore | None, record: JobRecord) -> JobRecord:
        """*job.json* after the savepoint is restored, if a restore was requested and not done before."""
        job = self.job
        with ExitStack() as aside:
            restore = open_restore(wish, job.folder, job.name, job.settings.checkpointing_mode, aside, Opens.RESTORE)
            if restore is None:
                return record
            sources = JobSources(job, aside, until=self.until, opens=Opens.RESTORE, restore=restore)
            return self._carried_out(restore, sources)

    def _carried_out(self, restore: JobRestore, sources: JobSources) -> JobRecord:
        """Carry out a restore after all checks of the restore and of the start."""
        plan = self._looked_at(restore.target, sources)
        above = restore.above_evidence(plan.queries, self.job.settings.checkpointing_mode)
        if above.target != restore.target:
            restore, plan = above, self._looked_at(above.target, sources)
        restore = replace(restore, logs=sources.joined())
        carry_out(restore, plan, self._reach)
        return restore.target

    def begun_anew(self, fresh: Fresh, record: JobRecord, sources: JobSources) -> JobRecord:
        """Open a new, empty generation, after all checks have passed. Returns the new content of *job.json*."""
        job, mode = self.job, self.job.settings.checkpointing_mode
        found = record if standing(job.folder) is not None else None
        target = fresh_target(fresh, job.folder, job.name, found, mode)
        if target is None:
            return record
        plan = self._looked_at(target, sources)
        above = above_evidence(target, plan.queries, mode)
        if above != target:
            target, plan = above, self._looked_at(above, sources)
        open_fresh(fresh, target, found, job.folder, plan.queries, job.settings, self._reach)
        return target

    def continued(self, record: JobRecord, sources: JobSources) -> JobRecord:
        """*job.json* after the job has left a generation that an opener has sealed and not replaced."""
        if not is_sealed(self.job.folder, record):
            return record
        return leave_sealed(record, self._looked_at(record, sources), self._reach)

    def _reach(self, step: str) -> None:
        """A step of opening a generation, or of a savepoint, is done. A driver that was paused for too long goes no
        further.
        """
        STRIKES.reach(step, None)
        if (lost := self.lease.lost_here()) is not None:
            raise lost

    def _looked_at(self, target: JobRecord, sources: JobSources) -> JobPlan:
        plan = plan_job(self.job, target, sources)
        check_start(plan)
        return plan

    def handle(
        self, plan: JobPlan, coordinator: Coordinator | None, sources: JobSources, drain: DrainRecord | None
    ) -> JobHandle:
        job, settings, supervised = self.job, self.job.settings, current()
        milestones = MilestoneWriter(job.folder)
        return JobHandle(
            name=job.name,
            session=job.session,
            plans=plan.queries,
            rules=RunRules(
                until=self.until,
                interval_seconds=settings.checkpointing_interval,
                runs_due_epoch=settings.checkpointing_after_tasks_finish,
                tolerable_failures=settings.checkpointing_tolerable_failures,
                failed_epochs={} if supervised is None else supervised.failed_epochs,
                pause_after=None if supervised is None else supervised.pause_after,
                lost_lease=self.lease.lost_here,
                abort_checkpoint=(lambda: None) if coordinator is None else coordinator.abort,
            ),
            stop_timeout_seconds=settings.stop_timeout,
            companions=[
                LeaseWatch(self.lease),
                *_companions(job, plan, coordinator, sources, self.lease.age_seconds, milestones),
            ],
            drain=drain,
            savepoints=_savepoints(job, plan, coordinator, sources, self._reach, milestones.saved),
            end_checkpoints=(lambda _why: None) if coordinator is None else coordinator.close,
        )


def recorded(job: DeclaredJob) -> JobRecord:
    """*job.json*, or its future contents at the first start. Refuses a folder of another job."""
    record = standing(job.folder)
    if record is None:
        return JobRecord(name=job.name, job_id=secrets.token_hex(4), generation=first_generation(job.folder))
    if record.name != job.name:
        raise TidegateError(
            Code.JOB_MISMATCH,
            expected=f"the checkpoint of job {job.name}",
            found=f"that of job {record.name}",
            where=open_storage(job.folder).where(JOB_RECORD),
            next_step="give this job another name or checkpointing.dir, or put its own checkpoint back",
        )
    return record


def demand_resumed(record: JobRecord, resumes: str, job_folder: Folder) -> None:
    """Raise JOB_MISMATCH if a driver that a supervisor or YARN has started again would not resume its job, of the id
    `resumes`, but begin it anew. `resumes` is empty for the first driver.
    """
    if resumes and record.job_id != resumes:
        raise TidegateError(
            Code.JOB_MISMATCH,
            expected=f"to resume job {record.name} of id {resumes}, which the drivers before this one have run",
            found="another job, or none: it was forgotten meanwhile (`tidegate forget`)",
            where=str(job_folder),
            next_step="nothing, if the job is to stay forgotten; to begin it anew: `tidegate run` again",
        )


def forget(job: DeclaredJob, job_id: str) -> None:
    """Make every sink forget the job with this id: open transactions, staged data, evidence."""
    for declared in job.queries:
        for sink in declared.sinks:
            if isinstance(sink, FunctionSink):
                continue  # all its data is in the checkpoint
            own = partial(SinkIdentity, job=job.name, job_id=job_id, query=declared.uid, sink=sink.uid)
            numbers = generations(job.folder / QUERIES / declared.uid) or [1]
            clear_sink(sink, [own(generation=number) for number in numbers])


def _uids(job: DeclaredJob) -> tuple[str, ...]:
    """The queries of the program, and those whose sinks the last start has described."""
    described = Sinks(open_storage(job.folder)).all()
    return tuple(dict.fromkeys([each.uid for each in job.queries] + [each.query for each in described]))


def _describe_sinks(job: DeclaredJob, record: JobRecord) -> None:
    """Record how commands can open the sinks without this process. Sinks of earlier starts are first checked for open
    transactions, because nothing else knows these sinks.
    """
    mode = job.settings.checkpointing_mode
    sinks = {(each.uid, sink.uid): sink for each in job.queries for sink in each.sinks}
    described = [describe(query, sink, level_of(sink, mode)) for (query, _), sink in sinks.items()]
    give_up_what_is_left(JobPlace(job.folder, record), sinks, described, start_moves)
    write_sinks(open_storage(job.folder), described, job.settings.checkpointing_interval)
    write_sources(open_storage(job.folder), [each.described for each in job.inputs.values()])
    write_guarantees(open_storage(job.folder), job_guarantees(job))


def job_guarantees(job: DeclaredJob) -> Sequence[Guarantee]:
    """The guarantee of each sink for its readers."""
    sources = rows_of(job.inputs)
    return guarantees_of(job.queries, sources, job.settings.checkpointing_mode)


def _companions(
    job: DeclaredJob,
    plan: JobPlan,
    coordinator: Coordinator | None,
    sources: JobSources,
    lease_age: Callable[[], float | None],
    milestones: MilestoneWriter,
) -> list[Companion]:
    """In the order of their notification at the end. The answers to requests come last: the state of the job is then
    known, and a cancel has deleted the checkpoints.
    """
    application = job.session.sparkContext.applicationId or ""
    has_taken_part = (lambda _query: None) if coordinator is None else coordinator.has_taken_part
    settings = shown_settings(job.settings, in_container=is_in_container(job.session))
    pulse = Pulse(job.folder, plan.record.job_id, settings, application, lease_age, has_taken_part)
    noted = [] if job.folder.is_local else [NotedOnYarn(job.session, job.folder.parent)]
    forgetful = [uid for uid, each in job.inputs.items() if each.loses_what_arrives]
    return [
        *sources.companions(),
        *(Delivery(job.name, each) for each in job.listeners),
        *job.beside,
        Advice(advice_for(job.name, job.settings, plan.queries, job.uids)),
        *_keeping(job, plan, coordinator, sources),
        *noted,
        milestones,
        Historian(job.folder),
        pulse,
        Clerk(job.folder, pulse.incarnation, forgetful),
    ]


def _keeping(
    job: DeclaredJob, plan: JobPlan, coordinator: Coordinator | None, sources: JobSources
) -> Iterator[Companion]:
    """The companion that retains checkpoints.

    None for an at-most-once job, because none of its starts resumes from one.
    """
    settings, record = job.settings, plan.record
    if coordinator is not None and all(each.folder.is_local or each.store.names_files for each in plan.queries):
        retained = settings.checkpointing_retained
        checkpoints = GraphCheckpoints(job.folder, record, _running(plan), retained)
        apart = max(CHECKPOINTS_APART_SECONDS, settings.checkpointing_interval, settings.checkpointing_min_pause)
        by_copies = not job.folder.is_local
        alignment = alignment_of(settings)
        yield Checkpointing(checkpoints, coordinator, alignment, apart, sources.keep_input, by_copies=by_copies)
    elif coordinator is None and settings.checkpointing_mode is not Level.AT_MOST_ONCE:
        queries = [QueryFolder(each.query, each.folder) for each in plan.queries]
        retained = settings.checkpointing_retained
        checkpoints = RetainedCheckpoints(job.folder, job.name, record.job_id, queries, retained)
        yield Retaining(checkpoints, rhythm_of(job.folder).retained)
    if settings.checkpointing_retention is Retention.DELETE:
        yield Clearing(partial(delete_checkpoints, job.folder, record.job_id, partial(forget, job), _uids(job)))


def _running(plan: JobPlan) -> list[RunningQuery]:
    return [RunningQuery(each.query, each.folder, epochs_kept(each.conf)) for each in plan.queries]


def _savepoints(
    job: DeclaredJob,
    plan: JobPlan,
    coordinator: Coordinator | None,
    sources: JobSources,
    reach: Callable[[str], None],
    told: Callable[[Savepoint], None],
) -> SavepointTaker | None:
    if job.settings.checkpointing_mode is Level.AT_MOST_ONCE:
        return None
    running = RunningJob(
        job.folder,
        plan.record,
        _running(plan),
        reach=reach,
        open_tables=partial(tables_opened, job.session, job.folder),
        end_input=sources.end_input,
        keep_input=sources.keep_input,
        checkpoint=None if coordinator is None else coordinator.checkpoint,
    )
    in_container = is_in_container(job.session)
    default = savepoints_folder(job.settings, in_container=in_container)
    return SavepointTaker(running, default, in_container=in_container, told=told)

"""All checks before a start, of all queries and sinks of a plan. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.core.errors import Code, TidegateError, raise_all
from tidegate.logs.subject import about
from tidegate.settings.kinds import Backend
from tidegate.sinks.base import SinkPlan, TwoPhaseSink
from tidegate.sinks.dead_letters import SCHEMA as DEAD_LETTERS
from tidegate.spark.executors import unfit_executors
from tidegate.spark.function_sink import FunctionSink
from tidegate.spark.job_plan import JobPlan
from tidegate.spark.lease_watch import check_lease
from tidegate.spark.operator_checks import check_allowed
from tidegate.spark.plan_check import check_for_hashmap, check_plan
from tidegate.spark.projection import sink_schema
from tidegate.spark.query_conf import PARTITIONS_KEY
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.session import is_local
from tidegate.spark.state.backend import check_state, partitions_kept
from tidegate.spark.supervised import start_moves
from tidegate.storages.journals import open_journal
from tidegate.storages.leases import open_lease


def check_start(job: JobPlan) -> list[tuple[TwoPhaseSink, SinkPlan]]:
    """The values with which each sink is opened. Raises all violations in one error."""
    plans: list[tuple[TwoPhaseSink, SinkPlan]] = []
    allowed = job.queries[0].query.allowed
    violations = [*check_allowed(job.queries, allowed, job.where), *_on_a_cluster(job), *_check_lease(job)]
    for plan in job.queries:
        violations.extend(check_plan(plan.rows, plan.mode, str(plan.query)))
        violations.extend(check_state(plan.folder / "spark", job.settings.state_backend, str(plan.query)))
        if job.settings.state_backend is Backend.HASHMAP:
            violations.extend(check_for_hashmap(plan.rows, str(plan.query)))
        for sink in plan.sinks.values():
            try:
                sink_plan = _sink_plan(job, plan, sink)
            except TidegateError as error:
                violations.append(error)
            else:
                plans.append((sink, sink_plan))
                with about(query=plan.query.uid):
                    violations.extend(sink.check(sink_plan))
            start_moves(f"sink {sink.uid}, checked")
    raise_all(violations, job.where)
    return plans


def _check_lease(job: JobPlan) -> Iterator[TidegateError]:
    lease, mode, backend = open_lease(job.folder), job.settings.checkpointing_mode, job.settings.state_backend
    return check_lease(lease, mode, backend, job.folder.scheme, job.where)


def _on_a_cluster(job: JobPlan) -> Iterator[TidegateError]:
    """A standby has a session of its own beside that of the driver: on a cluster it would hold executors."""
    if is_local(job.session):
        return
    if job.folder.is_local:
        yield TidegateError(
            Code.STORAGE_UNSHARED,
            expected="a checkpointing.dir that every executor reaches",
            found=f"{job.folder}, with spark.master = {job.session.sparkContext.master}",
            where=job.where,
        )
    elif (unfit := unfit_executors(job.session, job.folder)) is not None:
        yield unfit
    if job.settings.restart_standby:
        yield TidegateError(
            Code.SETTINGS_CLASH,
            expected="a local master with restart.standby = true, such as local[*]",
            found=f"spark.master = {job.session.sparkContext.master}",
            where=job.where,
            next_step="leave restart.standby out, or run the job with a local master",
        )


def _sink_plan(job: JobPlan, plan: QueryPlan, sink: TwoPhaseSink) -> SinkPlan:
    if isinstance(sink, FunctionSink):
        sink.attach(job.session, plan.folder / "ledger")
    is_dead = plan.dead_letters is not None and sink.uid == plan.dead_letters.sink
    return SinkPlan(
        identity=plan.query.sink(sink.uid),
        schema=DEAD_LETTERS if is_dead else sink_schema(plan.rows, sink, f"{plan.query}, sink {sink.uid}"),
        mode="append" if is_dead else plan.mode,
        local_master=is_local(job.session),
        read_journal=open_journal(plan.journal).read,
        interval_seconds=job.settings.checkpointing_interval,
        tasks=_tasks_of(job, plan),
    )


def _tasks_of(job: JobPlan, plan: QueryPlan) -> int:
    """The number of tasks that write an epoch of the query: with state it is that of its partitions. Otherwise it
    follows from the input.
    """
    if not plan.query.fingerprints:
        return 1
    kept = partitions_kept(plan.folder / "spark")
    if kept is not None:
        return kept
    return int(plan.conf.get(PARTITIONS_KEY) or job.session.conf.get(PARTITIONS_KEY) or 1)

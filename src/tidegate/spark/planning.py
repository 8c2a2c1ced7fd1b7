"""Plans one start from the declarations of a program. The plan is a value: it reads the job's folder, and starts
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from tidegate.checkpoints.job_layout import QUERIES
from tidegate.core.guarantees import Shows
from tidegate.core.ledger import Query
from tidegate.core.levels import Level
from tidegate.core.records import JobRecord, OperatorFingerprint
from tidegate.savepoints.restored import goes_back
from tidegate.settings.kinds import Backend
from tidegate.spark.advice import places_at_once
from tidegate.spark.connectors import storage_conf
from tidegate.spark.declared import DeclaredQuery
from tidegate.spark.generations import generation_of
from tidegate.spark.job_plan import DeclaredJob, JobPlan
from tidegate.spark.job_sources import JobSources
from tidegate.spark.levels import leaves_evidence, levels_of
from tidegate.spark.operator_fingerprints import fingerprints_of
from tidegate.spark.query_conf import STORES, partitions_of, query_conf
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.session import is_local
from tidegate.spark.state.plan import operators_planned
from tidegate.spark.supervised import start_moves
from tidegate.storages.leases import open_lease


def plan_job(job: DeclaredJob, record: JobRecord, sources: JobSources) -> JobPlan:
    """The plan of a job's start in the generation of `record`: all its queries, sources and sinks."""
    sources.begin_again()
    conf = _conf(job)
    return JobPlan(
        record=record,
        folder=job.folder,
        session=job.session,
        settings=job.settings,
        queries=tuple(_with_operators(job, _plan(job, each, record, sources, conf), each) for each in job.queries),
        compare_source=sources.compare,
    )


def _conf(job: DeclaredJob) -> Mapping[str, str]:
    """Spark's settings for each query of the job. They are read once, because that takes several calls into the JVM."""
    partitions = partitions_of(job.settings, job.session, local=is_local(job.session))
    return {**query_conf(job.settings, partitions), **storage_conf(job.session, job.folder)}


def _plan(
    job: DeclaredJob, declared: DeclaredQuery, record: JobRecord, sources: JobSources, conf: Mapping[str, str]
) -> QueryPlan:
    settings, mode = job.settings, job.settings.checkpointing_mode
    place = job.folder / QUERIES / declared.uid
    query = _query(job, declared, record, sources)
    folder = place / f"g{query.generation}"
    return QueryPlan(
        query=query,
        rows=declared.rows,
        begun_at=partial(sources.begun_at, declared, folder / "spark"),
        mode=declared.mode,
        sinks={sink.uid: sink for sink in declared.sinks},
        folder=folder,
        store=STORES[settings.state_backend],
        conf=conf,
        monitors=partial(sources.monitors, declared),
        verify=partial(sources.verify, declared),
        timeout_seconds=settings.checkpointing_timeout,
        min_pause_seconds=settings.checkpointing_min_pause,
        again_here=mode is not Level.AT_MOST_ONCE and settings.state_backend is Backend.ROCKSDB,
        dead_letters=declared.dead_letters,
        reads_from=job.written_for(declared),
    )


def _query(job: DeclaredJob, declared: DeclaredQuery, record: JobRecord, sources: JobSources) -> Query:
    """The protocol's view of the query."""
    place, mode = job.folder / QUERIES / declared.uid, job.settings.checkpointing_mode
    where = f"job {job.name}, query {declared.uid}"
    generation = generation_of(place, mode, record.generation, where)
    return Query(
        job=job.name,
        job_id=record.job_id,
        generation=generation,
        uid=declared.uid,
        sources=declared.sources,
        sinks=tuple(sink.uid for sink in declared.sinks),
        forgetful=frozenset(sink.uid for sink in declared.sinks if not leaves_evidence(sink, mode)),
        expiring=frozenset(sink.uid for sink in declared.sinks if sink.evidence_expires),
        repeating=frozenset(sink.uid for sink in declared.sinks if sink.shows is Shows.AGAIN),
        max_concurrent=_max_concurrent(job, declared),
        local_lease=open_lease(job.folder).proves_the_engine_dead,
        levels=levels_of(declared.sinks, mode),
        positions=sources.positions(declared, place / f"g{generation}"),
        may_repeat=goes_back(job.folder, record, declared.uid),
        fingerprints=_fingerprints_of(job, declared, where),
        allowed=job.allowed,
        fencing=tuple(sink.uid for sink in declared.sinks if sink.shows is Shows.INSIDE),
        dead_letters=None if declared.dead_letters is None else declared.dead_letters.sink,
    )


def _with_operators(job: DeclaredJob, plan: QueryPlan, declared: DeclaredQuery) -> QueryPlan:
    """With the uids of its operators by their number in Spark's plan. Only a query with uids is planned."""
    if not declared.operators:
        return plan
    operators = operators_planned(job.session, plan)
    start_moves(f"query {declared.uid}, planned")
    return replace(plan, operator_uids={str(each.number): each.uid for each in operators if each.uid})


def _fingerprints_of(job: DeclaredJob, declared: DeclaredQuery, where: str) -> tuple[OperatorFingerprint, ...] | None:
    if declared.uid not in job.fingerprints:
        job.fingerprints[declared.uid] = fingerprints_of(declared.rows, declared.mode, where)
        start_moves(f"query {declared.uid}, its operators read")
    return job.fingerprints[declared.uid]


def _max_concurrent(job: DeclaredJob, declared: DeclaredQuery) -> int:
    """The limit of decided epochs that are not committed yet; one if a sink does not allow more, or if the job has
    channels, which `advice` reports. Between two epochs of a query with channels nothing of it is in flight.
    """
    return 1 if job.has_channels or places_at_once(declared.sinks) else job.settings.max_concurrent

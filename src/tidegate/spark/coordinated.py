"""Joins the queries of a planned job to the coordinator of its checkpoints, if the job has channels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tidegate.channels.channel import Channel
from tidegate.channels.coordinator import Coordinator, JoinedQuery
from tidegate.core.barriers import ALWAYS_ALIGNED, Alignment, AlignmentRule
from tidegate.core.levels import Level
from tidegate.operate.rhythm import rhythm_of
from tidegate.savepoints.restored import live_parts
from tidegate.settings.config import Settings
from tidegate.spark.job_plan import DeclaredJob, JobPlan
from tidegate.spark.query_plan import QueryPlan
from tidegate.spark.sources.channel import ChannelSource


def coordinated(job: DeclaredJob, plan: JobPlan) -> tuple[JobPlan, Coordinator | None]:
    """The plan whose queries take part in the checkpoints of the coordinator; None for a job without channels: the
    newest done epoch of each query is its checkpoint.
    """
    if not job.has_channels:
        return plan, None
    coordinator = Coordinator(
        job.name,
        [_joined(job, each) for each in plan.queries],
        job.settings.checkpointing_timeout,
        partial(live_parts, job.folder, plan.record),
        rhythm_of(job.folder).request,
    )
    parts = ((each, coordinator.participant(each.query.uid)) for each in plan.queries)
    queries = tuple(
        replace(each, may_begin=part.may_begin, lets_in=part.let_in, stands=part.stands) for each, part in parts
    )
    return replace(plan, queries=queries), coordinator


def alignment_of(settings: Settings) -> AlignmentRule:
    """The alignment of a job's checkpoints. That of its savepoints is always `ALWAYS_ALIGNED`, as in Flink."""
    if settings.checkpointing_mode is Level.AT_LEAST_ONCE:
        return AlignmentRule(Alignment.AT_LEAST_ONCE)
    if not settings.checkpointing_unaligned:
        return ALWAYS_ALIGNED
    if settings.checkpointing_aligned_timeout > 0:
        return AlignmentRule(Alignment.ALIGNED, settings.checkpointing_aligned_timeout)
    return AlignmentRule(Alignment.UNALIGNED)


def _joined(job: DeclaredJob, plan: QueryPlan) -> JoinedQuery:
    sources = {uid: job.inputs[uid].positioned for uid in plan.query.sources if uid in job.inputs}
    return JoinedQuery(
        query=plan.query,
        folder=plan.folder,
        reads={uid: each.channel for uid, each in sources.items() if isinstance(each, ChannelSource)},
        writes=tuple(sink for sink in plan.sinks.values() if isinstance(sink, Channel)),
    )

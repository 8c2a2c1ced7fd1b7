"""Joins the queries of a planned job to the coordinator of its checkpoints, if the job has channels."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tidegate.channels.coordinator import Coordinator, JoinedQuery
from tidegate.channels.sink import ChannelSink
from tidegate.operate.rhythm import rhythm_of
from tidegate.savepoints.restored import restored_since
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
        partial(restored_since, job.folder, plan.record),
        rhythm_of(job.folder).request,
    )
    queries = (replace(each, lets_in=coordinator.participant(each.query.uid).let_in) for each in plan.queries)
    return replace(plan, queries=tuple(queries)), coordinator


def _joined(job: DeclaredJob, plan: QueryPlan) -> JoinedQuery:
    sources = {uid: job.inputs[uid].positioned for uid in plan.query.sources if uid in job.inputs}
    return JoinedQuery(
        query=plan.query,
        folder=plan.folder,
        reads={uid: each.sink for uid, each in sources.items() if isinstance(each, ChannelSource)},
        writes=tuple(sink for sink in plan.sinks.values() if isinstance(sink, ChannelSink)),
    )

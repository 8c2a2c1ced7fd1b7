"""Flink's views of jobs. A query is a vertex. A job without an id has not begun: Flink's clients do not see it."""

from __future__ import annotations

import time

import msgspec

from tidegate.operate import Beat, JobInfo, JobView, NodeKind, QueryView, graph_of
from tidegate.settings.kinds import COUNT_FROM_1, STRATEGY, optional
from tidegate.web.flink.causes import cause
from tidegate.web.flink.ids import vertex_id
from tidegate.web.flink.settings_of_jobs import reported, set_values
from tidegate.web.flink.shapes import (
    ExecutionConfig,
    IOMetrics,
    JobConfig,
    JobDetails,
    JobDetailsInfo,
    JobExecutionResult,
    JobIds,
    JobIdWithStatus,
    JobPlanInfo,
    JobResult,
    JobStatusInfo,
    MultipleJobsDetails,
    Plan,
    PlanInput,
    PlanNode,
    QueueStatus,
    Vertex,
)
from tidegate.web.flink.states import APPLICATION, HAS_ENDED, JOB_STATES, STATUS, TASK_STATES, tasks
from tidegate.web.own.live import described_sinks
from tidegate.web.routing import RouteRequest
from tidegate.web.site import Site, flink_id


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Of a job, in milliseconds since 1970: its newest driver's start, its end (-1: none yet), its newest report."""

    start: int
    end: int
    changed: int
    now: int

    @property
    def duration(self) -> int:
        """How long the driver has run; 0 if none has reported."""
        return max((self.now if self.end < 0 else self.end) - self.start, 0) if self.start > 0 else 0


def times_of(job: JobView) -> Times:
    """When the newest driver of a job has begun and ended."""
    now, beat = int(time.time() * 1_000), job.beat
    if beat is None:
        return Times(start=-1, end=-1, changed=-1, now=now)
    at = int(beat.at * 1_000)
    return Times(
        start=int(beat.started_at * 1_000), end=at if STATUS[job.state] in HAS_ENDED else -1, changed=at, now=now
    )


def get_jobs(asked: RouteRequest) -> JobIds:
    """`GET /jobs`."""
    return JobIds(
        jobs=tuple(JobIdWithStatus(id=flink_id(job.job_id), status=STATUS[job.state].name) for job in _begun(asked))
    )


def get_jobs_overview(asked: RouteRequest) -> MultipleJobsDetails:
    """`GET /jobs/overview`."""
    return MultipleJobsDetails(jobs=tuple(_details(job) for job in _begun(asked)))


def get_job(asked: RouteRequest) -> JobDetailsInfo:
    """`GET /jobs/:id`."""
    info = asked.site.info(asked.site.client(asked.path["job"]))
    job, status, times = info.job, STATUS[info.job.state], times_of(info.job)
    return JobDetailsInfo(
        jid=flink_id(job.job_id),
        name=job.name,
        isStoppable=job.state.alive,
        state=status.name,
        start_time=times.start,
        end_time=times.end,
        duration=times.duration,
        now=times.now,
        timestamps=dict.fromkeys(JOB_STATES, 0) | {status.name: max(times.changed, 0)},
        vertices=tuple(_vertex(info, query) for query in info.queries),
        status_counts=tasks(status, len(info.queries)),
        plan=_plan(asked.site, info),
    )


def get_plan(asked: RouteRequest) -> JobPlanInfo:
    """`GET /jobs/:id/plan`."""
    return JobPlanInfo(plan=_plan(asked.site, asked.site.info(asked.site.client(asked.path["job"]))))


def get_status(asked: RouteRequest) -> JobStatusInfo:
    """`GET /jobs/:id/status`."""
    return JobStatusInfo(status=STATUS[_view(asked).state].name)


def get_job_config(asked: RouteRequest) -> JobConfig:
    """`GET /jobs/:id/config`."""
    job = _view(asked)
    return JobConfig(
        jid=flink_id(job.job_id),
        name=job.name,
        execution_config=ExecutionConfig(
            restart_strategy=reported(job.beat, "restart.strategy", STRATEGY).value,
            job_parallelism=_parallelism(job.beat),
            user_config=set_values(job.beat),
        ),
    )


def get_execution_result(asked: RouteRequest) -> JobExecutionResult:
    """`GET /jobs/:id/execution-result`."""
    job = _view(asked)
    status = STATUS[job.state]
    if status not in HAS_ENDED:
        return JobExecutionResult(status=QueueStatus(id="IN_PROGRESS"))
    error = "" if job.beat is None else job.beat.error
    return JobExecutionResult(
        status=QueueStatus(id="COMPLETED"),
        result=JobResult(
            id=flink_id(job.job_id),
            application_status=APPLICATION[status],
            accumulator_results={},
            net_runtime=times_of(job).duration,
            failure_cause=None if APPLICATION[status] == "SUCCEEDED" else cause(job.state.label, error or job.problem),
        ),
    )


def _begun(asked: RouteRequest) -> list[JobView]:
    return [job for job in asked.site.jobs() if job.job_id]


def _view(asked: RouteRequest) -> JobView:
    return asked.site.info(asked.site.client(asked.path["job"])).job


def _details(job: JobView) -> JobDetails:
    status, times = STATUS[job.state], times_of(job)
    count = 0 if job.beat is None else len(job.beat.queries)
    in_states = {each.lower(): number for each, number in tasks(status, count).items()}
    return JobDetails(
        jid=flink_id(job.job_id),
        name=job.name,
        state=status.name,
        start_time=times.start,
        end_time=times.end,
        duration=times.duration,
        last_modification=times.changed,
        tasks={"total": count, **in_states},
    )


def _vertex(info: JobInfo, query: QueryView) -> Vertex:
    status, times = STATUS[info.job.state], times_of(info.job)
    return Vertex(
        id=vertex_id(query.uid),
        name=query.uid,
        parallelism=_parallelism(info.job.beat),
        status=status.value,
        start_time=times.start,
        end_time=times.end,
        duration=times.duration,
        tasks={each: int(each == status.value) for each in TASK_STATES},
        metrics=IOMetrics(write_records=0 if query.beat is None else query.beat.rows, write_records_complete=True),
        slotSharingGroupId=vertex_id(""),
    )


def _plan(site: Site, info: JobInfo) -> Plan:
    """The queries, and which query's channel each one reads."""
    graph = graph_of(info.queries, info.sources, described_sinks(site, info))
    channels = {node.id for node in graph.nodes if node.kind is NodeKind.CHANNEL}
    writers = {edge.end: edge.begin.removeprefix("query:") for edge in graph.edges if edge.end in channels}
    read: dict[str, list[str]] = {}
    for edge in graph.edges:
        if edge.begin in writers:
            read.setdefault(edge.end.removeprefix("query:"), []).append(writers[edge.begin])
    nodes = tuple(
        PlanNode(
            id=vertex_id(query.uid),
            parallelism=_parallelism(info.job.beat),
            operator=query.uid,
            operator_strategy="",
            description=f"{', '.join(query.sources)} -> {query.uid} -> {', '.join(query.sinks)}",
            inputs=tuple(
                PlanInput(num=number, id=vertex_id(writer), exchange="pipelined")
                for number, writer in enumerate(read.get(query.uid, []))
            ),
        )
        for query in info.queries
    )
    return Plan(jid=flink_id(info.job.job_id), name=info.job.name, nodes=nodes)


def _parallelism(beat: Beat | None) -> int:
    """1 where Spark decides."""
    return reported(beat, "parallelism", optional(COUNT_FROM_1)) or 1

"""The routes of Flink's interface that tidegate has. Fixed paths come before those with a part that varies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tidegate.web.flink import actions, checkpoints, cluster, exceptions, jars, jobs
from tidegate.web.flink.action_shapes import (
    CancelAsked,
    CheckpointTrigger,
    CheckpointTriggerStatus,
    DisposalStatus,
    DisposalTrigger,
    Empty,
    SavepointTrigger,
    SavepointTriggerStatus,
    StopTrigger,
    TriggerResponse,
)
from tidegate.web.flink.checkpoint_shapes import CheckpointConfig, CheckpointingStatistics, CheckpointStatistics
from tidegate.web.flink.exceptions import ExceptionsAsked
from tidegate.web.flink.jar_shapes import JarList, JarRun, JarRunAsked, JarRunQuery
from tidegate.web.flink.shapes import (
    ClusterOverview,
    DashboardConfiguration,
    JobConfig,
    JobDetailsInfo,
    JobExceptions,
    JobExecutionResult,
    JobIds,
    JobPlanInfo,
    JobStatusInfo,
    MultipleJobsDetails,
)
from tidegate.web.routing import ACCEPTED, Access, Method, Route, begins, reads

_read = partial(reads, flink=True)
_begin = partial(begins, flink=True)

FLINK: Sequence[Route] = (
    _read("/config", "What a page needs to know", cluster.get_config, DashboardConfiguration),
    _read("/overview", "The jobs of the storage, counted by state", cluster.get_overview, ClusterOverview),
    _read("/jobs", "The jobs, by id", jobs.get_jobs, JobIds),
    _read("/jobs/overview", "The jobs, with names and times", jobs.get_jobs_overview, MultipleJobsDetails),
    _read("/jobs/{job}", "One job: its queries as vertices, and a plan", jobs.get_job, JobDetailsInfo),
    Route(
        method=Method.PATCH,
        path="/jobs/{job}",
        summary="Cancel a job",
        access=Access.ACT,
        handler=actions.patch_cancel,
        answers=Empty,
        query=CancelAsked,
        status=ACCEPTED,
        flink=True,
    ),
    _read("/jobs/{job}/config", "How a job is executed", jobs.get_job_config, JobConfig),
    _read("/jobs/{job}/plan", "The queries of a job, and what joins them", jobs.get_plan, JobPlanInfo),
    _read("/jobs/{job}/status", "The state of a job", jobs.get_status, JobStatusInfo),
    _read("/jobs/{job}/execution-result", "How a job has ended", jobs.get_execution_result, JobExecutionResult),
    _read("/jobs/{job}/exceptions", "The failures of a job", exceptions.get_exceptions, JobExceptions, ExceptionsAsked),
    _read(
        "/jobs/{job}/checkpoints",
        "Checkpoints: counts, summary, the latest ones, history",
        checkpoints.get_checkpoints,
        CheckpointingStatistics,
    ),
    _begin("/jobs/{job}/checkpoints", "Take a checkpoint", actions.post_checkpoint, TriggerResponse, CheckpointTrigger),
    _read(
        "/jobs/{job}/checkpoints/config",
        "How checkpoints are taken",
        checkpoints.get_checkpoint_config,
        CheckpointConfig,
    ),
    _read(
        "/jobs/{job}/checkpoints/details/{checkpoint}",
        "One checkpoint",
        checkpoints.get_checkpoint,
        CheckpointStatistics,
    ),
    _read(
        "/jobs/{job}/checkpoints/{trigger}",
        "How a checkpoint goes that was asked for",
        actions.get_checkpoint_trigger,
        CheckpointTriggerStatus,
    ),
    _begin("/jobs/{job}/savepoints", "Take a savepoint", actions.post_savepoint, TriggerResponse, SavepointTrigger),
    _read(
        "/jobs/{job}/savepoints/{trigger}",
        "How a savepoint, or a stop, goes that was asked for",
        actions.get_savepoint_trigger,
        SavepointTriggerStatus,
    ),
    _begin("/jobs/{job}/stop", "Stop a job with a savepoint", actions.post_stop, TriggerResponse, StopTrigger),
    _begin("/savepoint-disposal", "Remove a savepoint", actions.post_disposal, TriggerResponse, DisposalTrigger),
    _read("/savepoint-disposal/{trigger}", "How a removal goes", actions.get_disposal, DisposalStatus),
    _read("/jars", "The programs that may be started", jars.get_jars, JarList),
    Route(
        method=Method.POST,
        path="/jars/{jar}/run",
        summary="Start a program",
        access=Access.ACT,
        handler=jars.post_run,
        answers=JarRun,
        query=JarRunQuery,
        body=JarRunAsked,
        flink=True,
    ),
)

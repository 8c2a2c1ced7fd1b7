"""Flink's views of checkpoints. Each epoch that is done is a completed checkpoint; each failed try of an epoch,
and each failure of the job in one, counts as a failed one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from http import HTTPStatus

from tidegate import operate
from tidegate.core.errors import TidegateError
from tidegate.operate import DoneCheckpoint, Failure, JobInfo, JobTotals, SavepointView
from tidegate.settings.kinds import (
    BACKEND,
    COUNT_FROM_0,
    COUNT_FROM_1,
    DURATION,
    FLAG,
    FOLDER,
    LEVEL,
    RETENTION,
    Retention,
    optional,
)
from tidegate.web.flink.checkpoint_shapes import (
    CheckpointConfig,
    CheckpointingStatistics,
    CheckpointStatistics,
    CheckpointTask,
    Counts,
    Externalization,
    LatestCheckpoints,
    StatsSummary,
    Summary,
)
from tidegate.web.flink.ids import checkpoint_id, vertex_id
from tidegate.web.flink.settings_of_jobs import reported
from tidegate.web.places import is_whole
from tidegate.web.problems import RequestProblem
from tidegate.web.routing import RouteRequest
from tidegate.web.site import Site

_SHOWN = 10
"""Flink's `web.checkpoints.history`, by default."""
_COUNTED = 1_000
"""The newest epochs, over which the summary goes."""


def get_checkpoints(asked: RouteRequest) -> CheckpointingStatistics:
    """`GET /jobs/:id/checkpoints`."""
    client = asked.site.client(asked.path["job"])
    info = asked.site.info(client)
    totals = asked.site.totals(info.job) or JobTotals(queries={}, failures=0, restarts=0, failures_of_epochs=0)
    queries, done = queries_of(info), _newest(asked)
    completed = sum(each.epochs for each in totals.queries.values())
    failed = next((each for each in asked.site.failures(client) if each.epoch is not None), None)
    in_progress = _in_progress(info)
    return CheckpointingStatistics(
        counts=Counts(
            restored=totals.restarts,
            total=completed + totals.failed_tries + in_progress,
            in_progress=in_progress,
            completed=completed,
            failed=totals.failed_tries,
        ),
        summary=Summary(end_to_end_duration=summary([each.duration_ms for each in done if each.duration_ms])),
        latest=LatestCheckpoints(
            completed=_completed(done[0], queries) if done else None,
            savepoint=_savepoint(asked.site, info, queries),
            failed=None if failed is None else _failed(failed, queries),
        ),
        history=tuple(_completed(each, queries) for each in done[:_SHOWN]),
    )


def get_checkpoint(asked: RouteRequest) -> CheckpointStatistics:
    """`GET /jobs/:id/checkpoints/details/:n`. Raises `RequestProblem` for one that is not among the newest."""
    info = asked.site.info(asked.site.client(asked.path["job"]))
    queries, number = queries_of(info), asked.path["checkpoint"]
    for each in _newest(asked):
        if str(checkpoint_id(each.query, each.epoch, queries)) == number:
            return _completed(each, queries)
    raise RequestProblem(
        HTTPStatus.NOT_FOUND, f"the newest {_COUNTED:,} epochs of job {info.job.name} have no checkpoint {number[:20]}"
    )


def get_checkpoint_config(asked: RouteRequest) -> CheckpointConfig:
    """`GET /jobs/:id/checkpoints/config`."""
    beat = asked.site.info(asked.site.client(asked.path["job"])).job.beat
    exactly_once = reported(beat, "checkpointing.mode", LEVEL).value == "exactly-once"
    deletes = reported(beat, "checkpointing.retention", RETENTION) is Retention.DELETE
    return CheckpointConfig(
        mode="exactly_once" if exactly_once else "at_least_once",
        interval=_ms(reported(beat, "checkpointing.interval", DURATION)),
        timeout=_ms(reported(beat, "checkpointing.timeout", DURATION)),
        min_pause=_ms(reported(beat, "checkpointing.min_pause", DURATION)),
        max_concurrent=reported(beat, "checkpointing.max_concurrent", COUNT_FROM_1),
        externalization=Externalization(enabled=True, delete_on_cancellation=deletes),
        state_backend=reported(beat, "state.backend", BACKEND).value,
        checkpoint_storage=reported(beat, "checkpointing.dir", FOLDER),
        unaligned_checkpoints=reported(beat, "checkpointing.unaligned", FLAG),
        tolerable_failed_checkpoints=reported(beat, "checkpointing.tolerable_failures", COUNT_FROM_0),
        aligned_checkpoint_timeout=_ms(reported(beat, "checkpointing.aligned_timeout", DURATION)),
        checkpoints_after_tasks_finish=reported(beat, "checkpointing.after_tasks_finish", FLAG),
        state_changelog_enabled=reported(beat, "state.changelog", FLAG),
    )


def queries_of(info: JobInfo) -> list[str]:
    """The queries of a job, sorted, as checkpoint ids count them."""
    return sorted(query.uid for query in info.queries)


def summary(milliseconds: Sequence[float]) -> StatsSummary:
    """Least, greatest, average, and percentiles: each the smallest value that so many percent do not exceed."""
    if not milliseconds:
        return StatsSummary()
    rising = sorted(milliseconds)

    def percentile(part: float) -> float:
        return rising[max(math.ceil(part * len(rising)) - 1, 0)]

    return StatsSummary(
        min=int(rising[0]),
        max=int(rising[-1]),
        avg=int(sum(rising) / len(rising)),
        p50=percentile(0.5),
        p90=percentile(0.9),
        p95=percentile(0.95),
        p99=percentile(0.99),
        p999=percentile(0.999),
    )


def _newest(asked: RouteRequest) -> tuple[DoneCheckpoint, ...]:
    return asked.site.epochs(asked.site.client(asked.path["job"]), _COUNTED)


def _in_progress(info: JobInfo) -> int:
    beat = info.job.beat
    if beat is None or not info.job.state.alive:
        return 0
    return sum(query.epoch > query.finished for query in beat.queries)


def _completed(each: DoneCheckpoint, queries: Sequence[str]) -> CheckpointStatistics:
    number, at, duration = checkpoint_id(each.query, each.epoch, queries), _ms(each.at), int(each.duration_ms or 0)
    task = CheckpointTask(id=number, status="COMPLETED", latest_ack_timestamp=at, end_to_end_duration=duration)
    return CheckpointStatistics(
        id=number,
        className="completed",
        status="COMPLETED",
        is_savepoint=False,
        trigger_timestamp=at - duration,
        latest_ack_timestamp=at,
        end_to_end_duration=duration,
        checkpoint_type="CHECKPOINT",
        tasks={vertex_id(each.query): task},
    )


def _failed(each: Failure, queries: Sequence[str]) -> CheckpointStatistics:
    return CheckpointStatistics(
        id=checkpoint_id(each.query or "", each.epoch or 0, queries),
        className="failed",
        status="FAILED",
        is_savepoint=False,
        trigger_timestamp=_ms(each.at),
        latest_ack_timestamp=-1,
        end_to_end_duration=-1,
        checkpoint_type="CHECKPOINT",
        tasks={},
        failure_timestamp=_ms(each.at),
        failure_message=each.told,
        num_acknowledged_subtasks=0,
    )


def _savepoint(site: Site, info: JobInfo, queries: Sequence[str]) -> CheckpointStatistics | None:
    """The newest savepoint of the job in its `savepoints.dir`; None if there is none, or if it cannot be read."""
    folder = reported(info.job.beat, "savepoints.dir", optional(FOLDER))
    if not folder or not is_whole(folder):
        return None
    try:
        found = site.watch.view(("savepoints", folder), lambda: operate.list_savepoints(folder), periods=10)
    except TidegateError:
        return None
    newest = next((each for each in found.savepoints if each.job_id == info.job.job_id), None)
    return None if newest is None else _of_savepoint(newest, queries)


def _of_savepoint(found: SavepointView, queries: Sequence[str]) -> CheckpointStatistics:
    at = iso_milliseconds(found.at)
    return CheckpointStatistics(
        id=max((checkpoint_id(query, epoch, queries) for query, epoch in found.epochs.items()), default=0),
        className="completed",
        status="COMPLETED",
        is_savepoint=True,
        trigger_timestamp=at,
        latest_ack_timestamp=at,
        end_to_end_duration=0,
        checkpoint_type="SAVEPOINT",
        tasks={},
        savepointFormat=found.format.upper(),
        external_path=found.path,
        checkpointed_size=found.bytes,
        state_size=found.bytes,
    )


def iso_milliseconds(text: str) -> int:
    """A time of a record, in milliseconds since 1970; -1 for a text that is no time."""
    try:
        return _ms(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return -1


def _ms(seconds: float) -> int:
    return int(seconds * 1_000)

"""The JSON of Flink's views of checkpoints. An epoch of a query is a checkpoint here."""

from __future__ import annotations

from tidegate.web.shapes import Shape


class Counts(Shape, frozen=True, kw_only=True):
    """How many checkpoints there were, within the history. `restored`: restarts of the job."""

    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class StatsSummary(Shape, frozen=True, kw_only=True):
    """One figure over the checkpoints of the history."""

    min: int = 0
    max: int = 0
    avg: int = 0
    p50: float = 0.0
    p90: float = 0.0
    p95: float = 0.0
    p99: float = 0.0
    p999: float = 0.0


class Summary(Shape, frozen=True, kw_only=True):
    """The figures of Flink's tab "Summary". Only the duration, in milliseconds, is known here."""

    end_to_end_duration: StatsSummary
    checkpointed_size: StatsSummary = StatsSummary()
    state_size: StatsSummary = StatsSummary()
    alignment_buffered: StatsSummary = StatsSummary()
    processed_data: StatsSummary = StatsSummary()
    persisted_data: StatsSummary = StatsSummary()


class CheckpointTask(Shape, frozen=True, kw_only=True):
    """The part of a query in a checkpoint."""

    id: int
    status: str
    latest_ack_timestamp: int
    end_to_end_duration: int
    checkpointed_size: int = 0
    state_size: int = 0
    alignment_buffered: int = 0
    processed_data: int = 0
    persisted_data: int = 0
    num_subtasks: int = 1
    num_acknowledged_subtasks: int = 1


class CheckpointStatistics(Shape, frozen=True, kw_only=True, omit_defaults=False):
    """One checkpoint. `id`: of `ids.checkpoint_id`. `className`: "completed" or "failed". `external_path`: of a
    savepoint, its path. `tasks`: by the id of its query's vertex."""

    id: int
    className: str
    status: str
    is_savepoint: bool
    trigger_timestamp: int
    latest_ack_timestamp: int
    end_to_end_duration: int
    checkpoint_type: str
    tasks: dict[str, CheckpointTask]
    savepointFormat: str | None = None
    external_path: str | None = None
    discarded: bool = False
    failure_timestamp: int | None = None
    failure_message: str | None = None
    checkpointed_size: int = 0
    state_size: int = 0
    alignment_buffered: int = 0
    processed_data: int = 0
    persisted_data: int = 0
    num_subtasks: int = 1
    num_acknowledged_subtasks: int = 1


class LatestCheckpoints(Shape, frozen=True, kw_only=True):
    """The newest checkpoint of each kind. `restored` is not known."""

    completed: CheckpointStatistics | None
    savepoint: CheckpointStatistics | None
    failed: CheckpointStatistics | None
    restored: None = None


class CheckpointingStatistics(Shape, frozen=True, kw_only=True):
    """`/jobs/:id/checkpoints`."""

    counts: Counts
    summary: Summary
    latest: LatestCheckpoints
    history: tuple[CheckpointStatistics, ...]


class Externalization(Shape, frozen=True, kw_only=True):
    """Whether checkpoints stay when a job is canceled."""

    enabled: bool
    delete_on_cancellation: bool


class CheckpointConfig(Shape, frozen=True, kw_only=True):
    """`/jobs/:id/checkpoints/config`. Durations are in milliseconds."""

    mode: str
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool
    changelog_storage: str = ""
    changelog_periodic_materialization_interval: int = 0

"""The JSON of Flink's views of a cluster and a job. Times are milliseconds since 1970; -1 means "not yet"."""

from __future__ import annotations

from tidegate.web.shapes import Shape


class Features(Shape, frozen=True, kw_only=True, rename="kebab"):
    """What the page may offer."""

    web_submit: bool
    web_cancel: bool
    web_rescale: bool = False
    web_history: bool = False


class DashboardConfiguration(Shape, frozen=True, kw_only=True, rename="kebab"):
    """`/config`. `flink_version`: that of tidegate."""

    refresh_interval: int
    timezone_name: str
    timezone_offset: int
    flink_version: str
    flink_revision: str
    features: Features


class ClusterOverview(Shape, frozen=True, kw_only=True, rename="kebab"):
    """`/overview`. There are no task managers and no slots: Spark has executors of its own."""

    jobs_running: int
    jobs_finished: int
    jobs_cancelled: int
    jobs_failed: int
    flink_version: str
    flink_commit: str
    taskmanagers: int = 0
    slots_total: int = 0
    slots_available: int = 0


class JobIdWithStatus(Shape, frozen=True, kw_only=True):
    """A job of `/jobs`."""

    id: str
    status: str


class JobIds(Shape, frozen=True, kw_only=True):
    """`/jobs`."""

    jobs: tuple[JobIdWithStatus, ...]


class JobDetails(Shape, frozen=True, kw_only=True, rename="kebab"):
    """A job of `/jobs/overview`. `tasks`: its queries by state, and their `total`."""

    jid: str
    name: str
    state: str
    start_time: int
    end_time: int
    duration: int
    last_modification: int
    tasks: dict[str, int]
    pending_operators: int = 0


class MultipleJobsDetails(Shape, frozen=True, kw_only=True):
    """`/jobs/overview`."""

    jobs: tuple[JobDetails, ...]


class IOMetrics(Shape, frozen=True, kw_only=True, rename="kebab"):
    """What a vertex has read and written. Bytes are not counted; rows are those that its driver has made visible."""

    write_records: int
    write_records_complete: bool
    read_bytes: int = 0
    read_bytes_complete: bool = False
    write_bytes: int = 0
    write_bytes_complete: bool = False
    read_records: int = 0
    read_records_complete: bool = False
    accumulated_backpressured_time: int = 0
    accumulated_idle_time: int = 0
    accumulated_busy_time: float = 0.0


class Vertex(Shape, frozen=True, kw_only=True, rename={"start_time": "start-time", "end_time": "end-time"}):
    """A vertex of `/jobs/:id`: one query."""

    id: str
    name: str
    parallelism: int
    status: str
    start_time: int
    end_time: int
    duration: int
    tasks: dict[str, int]
    metrics: IOMetrics
    slotSharingGroupId: str
    maxParallelism: int = -1


class PlanInput(Shape, frozen=True, kw_only=True):
    """A query whose channel another query reads."""

    num: int
    id: str
    exchange: str
    ship_strategy: str = ""


class PlanNode(Shape, frozen=True, kw_only=True):
    """A query in the plan."""

    id: str
    parallelism: int
    operator: str
    operator_strategy: str
    description: str
    inputs: tuple[PlanInput, ...]
    optimizer_properties: str = ""


class Plan(Shape, frozen=True, kw_only=True):
    """The queries of a job, and the channels between them."""

    jid: str
    name: str
    nodes: tuple[PlanNode, ...]
    type: str = "STREAMING"


class JobPlanInfo(Shape, frozen=True, kw_only=True):
    """`/jobs/:id/plan`."""

    plan: Plan


class JobDetailsInfo(
    Shape,
    frozen=True,
    kw_only=True,
    rename={
        "start_time": "start-time",
        "end_time": "end-time",
        "status_counts": "status-counts",
        "job_type": "job-type",
        "pending_operators": "pending-operators",
    },
):
    """`/jobs/:id`. `timestamps`: when the job came into its state; 0 for the others."""

    jid: str
    name: str
    isStoppable: bool
    state: str
    start_time: int
    end_time: int
    duration: int
    now: int
    timestamps: dict[str, int]
    vertices: tuple[Vertex, ...]
    status_counts: dict[str, int]
    plan: Plan
    maxParallelism: int = -1
    job_type: str = "STREAMING"
    pending_operators: int = 0


class JobStatusInfo(Shape, frozen=True, kw_only=True):
    """`/jobs/:id/status`."""

    status: str


class ExecutionConfig(Shape, frozen=True, kw_only=True, rename="kebab"):
    """How a job is executed. `user_config`: the settings that are not defaults; secrets are hidden."""

    restart_strategy: str
    job_parallelism: int
    user_config: dict[str, str]
    execution_mode: str = "PIPELINED"
    object_reuse_mode: bool = False


class JobConfig(Shape, frozen=True, kw_only=True, rename={"execution_config": "execution-config"}):
    """`/jobs/:id/config`."""

    jid: str
    name: str
    execution_config: ExecutionConfig


class FlinkFailureCause(
    Shape,
    frozen=True,
    kw_only=True,
    rename={"class_name": "class", "stack_trace": "stack-trace", "serialized": "serialized-throwable"},
):
    """An error as Flink's clients read it. `serialized`: the same for its older clients, as Java writes it, in
    base64."""

    class_name: str
    message: str
    stack_trace: str
    serialized: str


class QueueStatus(Shape, frozen=True, kw_only=True):
    """`id`: "IN_PROGRESS" or "COMPLETED"."""

    id: str


class JobResult(
    Shape,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    rename={
        "application_status": "application-status",
        "accumulator_results": "accumulator-results",
        "net_runtime": "net-runtime",
        "failure_cause": "failure-cause",
    },
):
    """How a job has ended. `application_status`: "SUCCEEDED", "FAILED", "CANCELED" or "UNKNOWN"."""

    id: str
    application_status: str
    accumulator_results: dict[str, str]
    net_runtime: int
    failure_cause: FlinkFailureCause | None = None


class JobExecutionResult(
    Shape, frozen=True, kw_only=True, omit_defaults=True, rename={"result": "job-execution-result"}
):
    """`/jobs/:id/execution-result`."""

    status: QueueStatus
    result: JobResult | None = None


class ExecutionException(Shape, frozen=True, kw_only=True):
    """An entry of `all-exceptions`, which Flink has deprecated."""

    exception: str
    task: str
    location: str
    timestamp: int


class RootException(Shape, frozen=True, kw_only=True):
    """A failure of a job. `exceptionName`: the code of tidegate."""

    exceptionName: str
    stacktrace: str
    timestamp: int
    taskName: str | None
    location: str
    failureLabels: dict[str, str]
    endpoint: str | None = None
    taskManagerId: str | None = None
    concurrentExceptions: tuple[str, ...] = ()


class ExceptionHistory(Shape, frozen=True, kw_only=True):
    """The failures, the newest first."""

    entries: tuple[RootException, ...]
    truncated: bool


class JobExceptions(
    Shape,
    frozen=True,
    kw_only=True,
    rename={"root_exception": "root-exception", "all_exceptions": "all-exceptions"},
):
    """`/jobs/:id/exceptions`."""

    root_exception: str | None
    timestamp: int | None
    all_exceptions: tuple[ExecutionException, ...]
    truncated: bool
    exceptionHistory: ExceptionHistory

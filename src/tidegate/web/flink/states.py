"""tidegate's states as Flink's: one total table."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from tidegate.operate import State


class FlinkStatus(Enum):
    """The states of Flink's jobs that occur here. The value: Flink's state of the tasks of such a job."""

    CREATED = "SCHEDULED"
    RUNNING = "RUNNING"
    RESTARTING = "DEPLOYING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
    SUSPENDED = "RECONCILING"


STATUS: Mapping[State, FlinkStatus] = {
    State.STARTING: FlinkStatus.CREATED,
    State.RUNNING: FlinkStatus.RUNNING,
    State.RESTARTING: FlinkStatus.RESTARTING,
    State.FINISHED: FlinkStatus.FINISHED,
    State.STOPPED: FlinkStatus.FINISHED,
    State.CANCELED: FlinkStatus.CANCELED,
    State.FAILED: FlinkStatus.FAILED,
    State.DIED: FlinkStatus.FAILED,
    State.UNKNOWN: FlinkStatus.SUSPENDED,
    State.UNREADABLE: FlinkStatus.FAILED,
}
"""A job that was stopped has ended well, as in Flink after `flink stop`."""

HAS_ENDED = frozenset({FlinkStatus.FINISHED, FlinkStatus.CANCELED, FlinkStatus.FAILED})
"""States that Flink calls globally terminal."""

APPLICATION: Mapping[FlinkStatus, str] = {
    FlinkStatus.CREATED: "UNKNOWN",
    FlinkStatus.RUNNING: "UNKNOWN",
    FlinkStatus.RESTARTING: "UNKNOWN",
    FlinkStatus.FINISHED: "SUCCEEDED",
    FlinkStatus.CANCELED: "CANCELED",
    FlinkStatus.FAILED: "FAILED",
    FlinkStatus.SUSPENDED: "UNKNOWN",
}
"""The same in the result of a job."""

JOB_STATES = (
    "INITIALIZING",
    "CREATED",
    "RUNNING",
    "FAILING",
    "FAILED",
    "CANCELLING",
    "CANCELED",
    "FINISHED",
    "RESTARTING",
    "SUSPENDED",
    "RECONCILING",
)
"""All of Flink's states of a job."""

TASK_STATES = (
    "CREATED",
    "SCHEDULED",
    "DEPLOYING",
    "RUNNING",
    "FINISHED",
    "CANCELING",
    "CANCELED",
    "FAILED",
    "RECONCILING",
    "INITIALIZING",
)
"""All of Flink's states of a task."""


def tasks(status: FlinkStatus, count: int) -> dict[str, int]:
    """How many tasks are in each state: all of a job are in the same one."""
    return {each: count if each == status.value else 0 for each in TASK_STATES}


def states_table() -> str:
    """For docs/reference/rest.md."""
    rows = [f"| {state.label} | {status.name} | {state.meaning} |" for state, status in STATUS.items()]
    return "\n".join(["| state | Flink's | meaning |", "|---|---|---|", *rows])

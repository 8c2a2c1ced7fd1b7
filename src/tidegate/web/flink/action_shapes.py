"""The JSON of Flink's long actions: what is asked, the id of a trigger, and how it goes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tidegate.web.flink.shapes import FlinkFailureCause, QueueStatus
from tidegate.web.shapes import Asks, Shape
from tidegate.web.ticket_shapes import FolderText

TriggerId = Annotated[str, msgspec.Meta(pattern="^[0-9a-fA-F]{32}$")]
"""Of the caller. The same id twice is the same request, also in capitals."""

FormatType = Literal["CANONICAL", "NATIVE"]


class CheckpointTrigger(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`checkpointType`: an epoch is an epoch, so all types do the same."""

    checkpointType: Literal["CONFIGURED", "FULL", "INCREMENTAL"] | None = None
    triggerId: TriggerId | None = None


class SavepointTrigger(
    Asks,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"target_directory": "target-directory", "cancel_job": "cancel-job"},
):
    """`target_directory`: without it the job's own `savepoints.dir`. `formatType`: without it native."""

    target_directory: FolderText | None = None
    cancel_job: bool | None = False
    formatType: FormatType | None = None
    triggerId: TriggerId | None = None


class StopTrigger(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`drain`: the job comes to its end, and all windows fire."""

    targetDirectory: FolderText | None = None
    drain: bool | None = False
    formatType: FormatType | None = None
    triggerId: TriggerId | None = None


class DisposalTrigger(
    Asks, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"savepoint_path": "savepoint-path"}
):
    """The savepoint to remove."""

    savepoint_path: FolderText
    triggerId: TriggerId | None = None


class CancelAsked(Asks, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Flink has had another mode once."""

    mode: Literal["cancel"] = "cancel"


class TriggerResponse(Shape, frozen=True, kw_only=True, rename={"request_id": "request-id"}):
    """The id under which the action is followed."""

    request_id: str


class Empty(Shape, frozen=True, kw_only=True):
    """`{}`."""


class SavepointOperation(Shape, frozen=True, kw_only=True, omit_defaults=True, rename={"cause": "failure-cause"}):
    """One of both, once the action has ended."""

    location: str | None = None
    cause: FlinkFailureCause | None = None


class SavepointTriggerStatus(Shape, frozen=True, kw_only=True):
    """`operation` is null while it is in progress."""

    status: QueueStatus
    operation: SavepointOperation | None


class CheckpointOperation(Shape, frozen=True, kw_only=True, omit_defaults=True, rename={"cause": "failureCause"}):
    """One of both, once the action has ended."""

    checkpointId: int | None = None
    cause: FlinkFailureCause | None = None


class CheckpointTriggerStatus(Shape, frozen=True, kw_only=True):
    """`operation` is null while it is in progress."""

    status: QueueStatus
    operation: CheckpointOperation | None


class DisposalOperation(Shape, frozen=True, kw_only=True, omit_defaults=True, rename={"cause": "failure-cause"}):
    """Empty if the savepoint is removed."""

    cause: FlinkFailureCause | None = None


class DisposalStatus(Shape, frozen=True, kw_only=True):
    """`operation` is null while it is in progress."""

    status: QueueStatus
    operation: DisposalOperation | None

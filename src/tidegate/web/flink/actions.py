"""Flink's long actions. A trigger id is the id of a request to the job, so its ticket outlives the page."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate import operate
from tidegate.core.errors import TidegateError
from tidegate.operate import Answer, JobClient, Kind, SavepointFormat, TicketState, TicketView
from tidegate.web.flink.action_shapes import (
    CheckpointOperation,
    CheckpointTrigger,
    CheckpointTriggerStatus,
    DisposalOperation,
    DisposalStatus,
    DisposalTrigger,
    Empty,
    FormatType,
    SavepointOperation,
    SavepointTrigger,
    SavepointTriggerStatus,
    StopTrigger,
    TriggerResponse,
)
from tidegate.web.flink.causes import cause, cause_of
from tidegate.web.flink.checkpoints import queries_of
from tidegate.web.flink.ids import checkpoint_id, trigger_id
from tidegate.web.flink.shapes import FlinkFailureCause, QueueStatus
from tidegate.web.places import allowed
from tidegate.web.problems import refusal
from tidegate.web.routing import RouteRequest
from tidegate.web.tickets import WantedAction

_IN_PROGRESS = QueueStatus(id="IN_PROGRESS")
_COMPLETED = QueueStatus(id="COMPLETED")
_DISPOSAL = "disposal"


def post_checkpoint(asked: RouteRequest) -> TriggerResponse:
    """`POST /jobs/:id/checkpoints`."""
    body: CheckpointTrigger = asked.body
    return _trigger(asked, Kind.CHECKPOINT, body.triggerId)


def post_savepoint(asked: RouteRequest) -> TriggerResponse:
    """`POST /jobs/:id/savepoints`."""
    body: SavepointTrigger = asked.body
    kind = Kind.CANCEL_WITH_SAVEPOINT if body.cancel_job else Kind.SAVEPOINT
    return _trigger(asked, kind, body.triggerId, body.target_directory, body.formatType)


def post_stop(asked: RouteRequest) -> TriggerResponse:
    """`POST /jobs/:id/stop`."""
    body: StopTrigger = asked.body
    kind = Kind.DRAIN_WITH_SAVEPOINT if body.drain else Kind.STOP_WITH_SAVEPOINT
    return _trigger(asked, kind, body.triggerId, body.targetDirectory, body.formatType)


def patch_cancel(asked: RouteRequest) -> Empty:
    """`PATCH /jobs/:id?mode=cancel`. One driver is canceled once, however often this is asked. Raises `RequestProblem`
    if the job does not run."""
    client = asked.site.client(asked.path["job"])
    beat = client.view().beat
    once = None if beat is None else f"cancel-{beat.process}-{int(beat.started_at * 1_000)}"
    view = asked.site.tickets.ask(client, WantedAction(kind=Kind.CANCEL, id=once))
    if view.state is TicketState.REFUSED and view.answer is not None:
        raise refusal(f"job {client.name} is not canceled: {view.answer.detail}", "see `tidegate list -a`")
    return Empty()


def get_savepoint_trigger(asked: RouteRequest) -> SavepointTriggerStatus:
    """`GET /jobs/:id/savepoints/:trigger`, also of a stop."""
    ended = _ended(asked)
    match ended:
        case None:
            return SavepointTriggerStatus(status=_IN_PROGRESS, operation=None)
        case Answer():
            operation = SavepointOperation(location=ended.savepoint or "")
        case _:
            operation = SavepointOperation(cause=ended)
    return SavepointTriggerStatus(status=_COMPLETED, operation=operation)


def get_checkpoint_trigger(asked: RouteRequest) -> CheckpointTriggerStatus:
    """`GET /jobs/:id/checkpoints/:trigger`."""
    ended = _ended(asked)
    match ended:
        case None:
            return CheckpointTriggerStatus(status=_IN_PROGRESS, operation=None)
        case Answer():
            queries = queries_of(asked.site.info(asked.site.client(asked.path["job"])))
            ids = [checkpoint_id(query, epoch, queries) for query, epoch in ended.epochs.items()]
            operation = CheckpointOperation(checkpointId=max(ids, default=0))
        case _:
            operation = CheckpointOperation(cause=ended)
    return CheckpointTriggerStatus(status=_COMPLETED, operation=operation)


@dataclass(frozen=True, slots=True)
class Disposed:
    """A savepoint is removed."""


def post_disposal(asked: RouteRequest) -> TriggerResponse:
    """`POST /savepoint-disposal`."""
    body: DisposalTrigger = asked.body
    place, trigger = allowed(asked.site, body.savepoint_path), trigger_id(body.triggerId)

    def dispose() -> Disposed:
        operate.dispose_savepoint(place)
        return Disposed()

    asked.site.works.begin(trigger, (_DISPOSAL, place), dispose)
    return TriggerResponse(request_id=trigger)


def get_disposal(asked: RouteRequest) -> DisposalStatus:
    """`GET /savepoint-disposal/:trigger`."""
    work = asked.site.works.known(trigger_id(asked.path["trigger"]), _DISPOSAL)
    if not work.result.done():
        return DisposalStatus(status=_IN_PROGRESS, operation=None)
    error = work.result.exception()
    if error is None:
        return DisposalStatus(status=_COMPLETED, operation=DisposalOperation())
    if not isinstance(error, TidegateError):
        raise error
    return DisposalStatus(status=_COMPLETED, operation=DisposalOperation(cause=cause_of(error)))


def _trigger(
    asked: RouteRequest, kind: Kind, trigger: str | None, folder: str | None = None, form: FormatType | None = None
) -> TriggerResponse:
    client = asked.site.client(asked.path["job"])
    into = None if folder is None else allowed(asked.site, folder)
    saved_as = SavepointFormat.CANONICAL if form == "CANONICAL" else SavepointFormat.NATIVE
    wanted = WantedAction(kind=kind, id=trigger_id(trigger), into=into, format=saved_as)
    return TriggerResponse(request_id=asked.site.tickets.ask(client, wanted).id)


def _ended(asked: RouteRequest) -> Answer | FlinkFailureCause | None:
    """The answer of a request that was done, or why it was not; None while it is open."""
    client = asked.site.client(asked.path["job"])
    view = _looked(asked, client)
    if isinstance(view, FlinkFailureCause):
        return view
    if view.state is TicketState.PENDING or view.answer is None:
        return None
    if view.state is TicketState.DONE:
        return view.answer
    return cause(f"tidegate: {view.answer.outcome.value}", view.answer.detail)


def _looked(asked: RouteRequest, client: JobClient) -> TicketView | FlinkFailureCause:
    """An error of the request itself is its end."""
    try:
        return asked.site.tickets.look(client, trigger_id(asked.path["trigger"]))
    except TidegateError as error:
        return cause_of(error)

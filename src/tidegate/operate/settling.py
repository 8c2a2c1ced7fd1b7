"""What became of a request whose driver has ended without a word about it: told by how the job ended, or unknown."""

from __future__ import annotations

from tidegate.core.errors import Code
from tidegate.operate.beat import Beat, JobState, Post
from tidegate.operate.control import WITH_SAVEPOINT, Answer, Kind, Outcome, Request

_WAS_DONE = {
    (Kind.STOP, JobState.STOPPED): "the job has stopped",
    (Kind.STOP, JobState.FINISHED): "the job had finished by itself",
    (Kind.CANCEL, JobState.CANCELED): "the job is canceled",
    (Kind.CHECKPOINT, JobState.STOPPED): "the job has stopped, and everything it had read is done",
    (Kind.CHECKPOINT, JobState.FINISHED): "the job has finished, and everything it had read is done",
}
"""The ends of a job that tell that a request was done; they say nothing when something is pending."""


def settle(request: Request, last: Beat | None, now: float, *, is_drained: bool = False) -> Answer:
    """The answer to a request that stands although its driver has ended; `last` is the job's newest beat, and
    `is_drained` what the job's folder says."""
    outcome, detail = _settled(request, last, is_drained)
    told = last is not None and last.incarnation == request.to and outcome in (Outcome.DONE, Outcome.PENDING)
    epochs = {query.uid: query.finished for query in last.queries} if last is not None and told else {}
    savepoint = last.savepoint if last is not None and told and request.kind in {Kind.STOP, *WITH_SAVEPOINT} else None
    return Answer(
        id=request.id,
        kind=request.kind,
        outcome=outcome,
        detail=detail,
        at=now,
        epochs=epochs,
        savepoint=savepoint or None,
        into=request.into,
        format=request.format,
    )


def _settled(request: Request, last: Beat | None, is_drained: bool) -> tuple[Outcome, str]:
    if request.to.post is Post.SUPERVISOR:
        return Outcome.TOO_LATE, f"it was meant for the job's supervisor ({request.to}), which has ended since"
    if request.kind is Kind.DRAIN and is_drained:
        return Outcome.DONE, "the job is drained"
    if last is None or last.incarnation != request.to:
        return Outcome.UNKNOWN, f"its driver ({request.to}) has ended, and another one has started the job since"
    if request.kind is Kind.SAVEPOINT:
        detail = "a savepoint is whole or is not there: `tidegate savepoint ls` shows it"
        return Outcome.UNKNOWN, f"its driver ({request.to}) ended before it answered; {detail}"
    if request.kind in WITH_SAVEPOINT:
        return _settled_with_savepoint(request, last)
    return _settled_by_the_end(request, last)


def _settled_by_the_end(request: Request, last: Beat) -> tuple[Outcome, str]:
    done = _WAS_DONE.get((request.kind, last.state))
    if done is not None and not last.error:
        return Outcome.DONE, done
    match last.state:
        case JobState.STOPPED if request.kind is Kind.STOP and not _waits_for_a_sink(last):
            return Outcome.FAILED, f"the job has stopped, and not all of it went well: {last.error}"
        case JobState.STOPPED if request.kind is Kind.STOP or (request.kind is Kind.DRAIN and last.error):
            return Outcome.PENDING, last.error
        case JobState.FAILED:
            return Outcome.FAILED, f"the job failed: {last.error}"
        case JobState.RUNNING | JobState.RESTARTING if request.kind is Kind.CHECKPOINT:
            return Outcome.UNKNOWN, f"its driver ({request.to}) died before it answered"
        case JobState.RUNNING | JobState.RESTARTING:
            return Outcome.FAILED, f"its driver ({request.to}) died before the job had ended: nothing is lost"
        case _:
            undrained = ", and was not drained" if request.kind is Kind.DRAIN else ""
            return Outcome.NOT_RUNNING, f"the job had ended before: {last.state.value}{undrained}"


def _settled_with_savepoint(request: Request, last: Beat) -> tuple[Outcome, str]:
    again = "asked again under its id it is ended, and saved"
    if last.state in (JobState.RUNNING, JobState.RESTARTING):
        return Outcome.FAILED, f"its driver ({request.to}) died before the job had ended: nothing is lost; {again}"
    if last.savepoint and not last.error:
        return Outcome.DONE, f"the job is {last.state.value}, with a savepoint of its end"
    why = f": {last.error}" if last.error else ""
    waits = last.state is JobState.STOPPED and _waits_for_a_sink(last)
    saved = f"the savepoint {last.savepoint}" if last.savepoint else "no savepoint"
    return Outcome.PENDING if waits else Outcome.FAILED, f"the job is {last.state.value}, with {saved}{why}; {again}"


def _waits_for_a_sink(last: Beat) -> bool:
    return last.error.startswith(Code.SINK_UNAVAILABLE.label)

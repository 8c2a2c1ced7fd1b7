"""The answer to a request whose driver ended without an answer, derived from the end of the job."""

from __future__ import annotations

from tidegate.operate.beat import Beat, Post, Wrong
from tidegate.operate.control import WITH_SAVEPOINT, Answer, Kind, Outcome, Request
from tidegate.operate.job_end import AFTERWARDS, LastSeen, Wish, last_seen


def settle(request: Request, last: Beat | None, now: float, *, drained_at: str | None = None) -> Answer:
    """The answer to an open request after its driver has ended. `last`: the job's newest beat. `drained_at`: time at
    which the job was drained, from its folder."""
    outcome, detail = _settled(request, last, drained_at)
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


def _settled(request: Request, last: Beat | None, drained_at: str | None) -> tuple[Outcome, str]:
    if request.to.post is Post.SUPERVISOR:
        return Outcome.TOO_LATE, f"it was meant for the job's supervisor ({request.to}), which has ended since"
    if request.kind is Kind.DRAIN and drained_at is not None:
        return Outcome.DONE, "the job is drained"
    if last is None or last.incarnation != request.to:
        return Outcome.UNKNOWN, f"its driver ({request.to}) has ended, and another one has started the job since"
    seen = last_seen(last.state, _wrong(last))
    outcome = AFTERWARDS.cell(_wish(request.kind, last), seen)
    if request.kind is Kind.SAVEPOINT:
        detail = "a savepoint is whole or is not there: `tidegate savepoint ls` shows it"
        return outcome, f"its driver ({request.to}) ended before it answered; {detail}"
    if request.kind in WITH_SAVEPOINT:
        return outcome, _told_with_savepoint(request, last, seen, outcome)
    return outcome, _told(request, last, seen, outcome)


def _wrong(last: Beat) -> Wrong:
    return last.wrong or (Wrong.OTHER if last.error else Wrong.NOTHING)


def _wish(kind: Kind, last: Beat) -> Wish:
    if kind in WITH_SAVEPOINT:
        return Wish.SAVED if last.savepoint else Wish.NOT_SAVED
    return _WISH[kind]


_WISH = {
    Kind.CHECKPOINT: Wish.CHECKPOINT,
    Kind.SAVEPOINT: Wish.SAVEPOINT,
    Kind.STOP: Wish.STOP,
    Kind.DRAIN: Wish.NOT_DRAINED,
    Kind.CANCEL: Wish.CANCEL,
}

_DONE = {
    (Kind.STOP, LastSeen.STOPPED): "the job has stopped",
    (Kind.STOP, LastSeen.FINISHED): "the job had finished by itself",
    (Kind.CANCEL, LastSeen.CANCELED): "the job is canceled",
    (Kind.CHECKPOINT, LastSeen.STOPPED): "the job has stopped, and everything it had read is done",
    (Kind.CHECKPOINT, LastSeen.FINISHED): "the job has finished, and everything it had read is done",
}


def _told(request: Request, last: Beat, seen: LastSeen, outcome: Outcome) -> str:
    match outcome:
        case Outcome.DONE:
            return _DONE[request.kind, seen]
        case Outcome.PENDING:
            return last.error
        case Outcome.UNKNOWN:
            return f"its driver ({request.to}) died before it answered"
        case Outcome.FAILED if seen is LastSeen.DIED:
            return f"its driver ({request.to}) died before the job had ended: nothing is lost"
        case Outcome.FAILED if seen is LastSeen.FAILED:
            return f"the job failed: {last.error}"
        case Outcome.FAILED:
            return f"the job has stopped, and not all of it went well: {last.error}"
        case _:
            undrained = ", and was not drained" if request.kind is Kind.DRAIN else ""
            return f"the job had ended before: {last.state.value}{undrained}"


def _told_with_savepoint(request: Request, last: Beat, seen: LastSeen, outcome: Outcome) -> str:
    again = "repeat the request with its id to end the job and save it"
    if seen is LastSeen.DIED:
        return f"its driver ({request.to}) died before the job had ended: nothing is lost; {again}"
    if outcome is Outcome.DONE:
        return f"the job is {last.state.value}, with a savepoint of its end"
    why = f": {last.error}" if last.error else ""
    saved = f"the savepoint {last.savepoint}" if last.savepoint else "no savepoint"
    return f"the job is {last.state.value}, with {saved}{why}; {again}"

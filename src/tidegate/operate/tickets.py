"""Tickets for requests to a job: poll them at any time, or wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.operate.asking import Asking, RequestOrder, RequestStep, Stage
from tidegate.operate.beat import Beat
from tidegate.operate.control import Answer, Desk, Kind, Outcome
from tidegate.operate.patience import patience_seconds
from tidegate.operate.rhythm import rhythm_of
from tidegate.storages.schemes import Folder


class TicketState(Enum):
    """The state of a request."""

    PENDING = "pending"
    """There is no answer yet."""
    DONE = "done"
    REFUSED = "refused"
    """Nothing was done: the job does not run, or the request would lose rows."""
    FAILED = "failed"
    """The job has ended, but not as requested. `answer.outcome` is PENDING if the next start commits the rest."""
    UNKNOWN = "unknown"
    """The job's driver died. It is unknown whether the request was done."""


_STATES: Mapping[Outcome, TicketState] = {
    Outcome.DONE: TicketState.DONE,
    Outcome.REFUSED: TicketState.REFUSED,
    Outcome.PENDING: TicketState.FAILED,
    Outcome.FAILED: TicketState.FAILED,
    Outcome.TOO_LATE: TicketState.REFUSED,
    Outcome.NOT_RUNNING: TicketState.REFUSED,
    Outcome.UNKNOWN: TicketState.UNKNOWN,
}


class TicketView(msgspec.Struct, frozen=True, kw_only=True):
    """A request at one look.

    `stage` and `waits_for` (text) are set while the request is pending. A request in stage ASKED may still be executed,
    even if no process polls it. `answer` is set once there is one.
    """

    id: str
    kind: Kind
    state: TicketState
    stage: Stage | None = None
    waits_for: str = ""
    answer: Answer | None = None


class Ticket:
    """One request to a job. Use it in one thread only.

    A request with the same `id`, from this process or another one, is the same request and has the same answer.
    """

    def __init__(self, job_folder: Folder, asked: RequestOrder, patience_seconds: float) -> None:
        self.id = asked.id
        self.kind = asked.kind
        self.into = asked.into
        self.format = asked.format
        self.patience_seconds = patience_seconds
        """Default time limit of `wait`, in seconds: the time that the job may need by its own settings."""
        self._look_seconds = rhythm_of(job_folder).request
        self._asking = Asking(job_folder, asked)
        self._steps = self._asking.steps()
        self._over: Answer | TidegateError | None = None

    def poll(self) -> TicketView:
        """Look once, without waiting. The first look that finds a process for the request sends it, so poll until the
        request is over.

        Raises REQUEST_REFUSED if the id belongs to a different request, and the error that prevents the savepoint of a
        job that has ended.
        """
        return self._view(self._step())

    def wait(
        self, timeout_seconds: float | None = None, progress: Callable[[str], None] = lambda _: None
    ) -> TicketView:
        """Look until the request is over, or for `timeout_seconds`; then return the last look, which is pending.

        `progress` receives the text of `waits_for` repeatedly. If this process itself copies the savepoint of a job
        that has ended, the timeout does not apply. Raises the errors of `poll`.
        """
        end = time.monotonic() + (self.patience_seconds if timeout_seconds is None else timeout_seconds)
        self._asking.patient_until = end
        try:
            while isinstance(step := self._step(), RequestStep):
                if step.stage in _BOUNDED and time.monotonic() >= end:
                    break
                progress(step.waits_for)
                time.sleep(self._look_seconds)
        except BaseException:
            self._steps.close()  # a copy by this process is canceled
            raise
        return self._view(step)

    def _step(self) -> RequestStep | Answer:
        match self._over:
            case None:
                return self._next_step()
            case TidegateError() as error:
                raise error
            case answer:
                return answer

    def _next_step(self) -> RequestStep | Answer:
        try:
            return next(self._steps)
        except StopIteration as stop:
            answer: Answer = stop.value
            self._over = answer
            return answer
        except TidegateError as error:
            self._over = error
            raise

    def _view(self, step: RequestStep | Answer) -> TicketView:
        if isinstance(step, Answer):
            return _answered(self.kind, step)
        return TicketView(
            id=self.id, kind=self.kind, state=TicketState.PENDING, stage=step.stage, waits_for=step.waits_for
        )


_BOUNDED = frozenset({Stage.UNASKED, Stage.ASKED})
"""Stages in which `wait` gives up at its timeout. The other stages always end."""


def ticket_of(job_folder: Folder, request_id: str, beat: Beat | None) -> Ticket | None:
    """The ticket of an earlier request of any process; None if the job has no request with this id.

    Raises REQUEST_REFUSED for an invalid id, RECORD_CORRUPT for an unreadable answer.
    """
    desk = Desk(job_folder)
    known = desk.standing(request_id) or desk.answer_to(request_id)
    if known is None or known.kind is None:
        return None
    asked = RequestOrder(kind=known.kind, id=known.id, into=known.into, format=known.format)
    return Ticket(job_folder, asked, patience_seconds(asked.kind, beat))


def look_at(job_folder: Folder, request_id: str) -> TicketView | None:
    """A request of any process as the job's folder shows it; None if the job has no request with this id.

    Only reads: unlike `Ticket.poll`, it never asks again for a savepoint that was removed since. Raises the errors of
    `ticket_of`.
    """
    desk = Desk(job_folder)
    answer = desk.answer_to(request_id)
    if answer is not None:
        return None if answer.kind is None else _answered(answer.kind, answer)
    standing = desk.standing(request_id)
    if standing is None:
        return None
    waits_for = f"the job to answer `{standing.kind.value}`"
    return TicketView(
        id=request_id, kind=standing.kind, state=TicketState.PENDING, stage=Stage.ASKED, waits_for=waits_for
    )


def _answered(kind: Kind, answer: Answer) -> TicketView:
    return TicketView(id=answer.id, kind=kind, state=_STATES[answer.outcome], answer=answer)

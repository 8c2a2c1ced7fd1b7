"""What was asked of a job, as a ticket: looked at again whenever the caller likes, or waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.operate.asking import Asked, Asking, Stage, Step
from tidegate.operate.beat import Beat
from tidegate.operate.control import Answer, Desk, Kind, Outcome
from tidegate.operate.patience import patience_seconds

_LOOK_SECONDS = 0.05


class TicketState(Enum):
    """How a request is."""

    PENDING = "pending"
    """It is not answered yet."""
    DONE = "done"
    REFUSED = "refused"
    """Nothing was done: the job does not run, or what was asked would lose rows."""
    FAILED = "failed"
    """The job has ended, and not as it was asked to; `answer.outcome` is PENDING where the next start commits the
    rest."""
    UNKNOWN = "unknown"
    """The job's driver died, and nothing tells whether it was done."""


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
    """How a request was at one look.

    `stage` and `waits_for` (in words) are there while it is pending: of a request that is ASKED the job may still do
    what was asked, also when nobody looks. `answer` is there when it is over.
    """

    id: str
    kind: Kind
    state: TicketState
    stage: Stage | None = None
    waits_for: str = ""
    answer: Answer | None = None


class Ticket:
    """One request to a job. It belongs to one thread.

    Asked again under the same `id`, in this process or another one, it is the same request and has the same answer.
    """

    def __init__(self, job_folder: Path, asked: Asked, patience_seconds: float) -> None:
        self.id = asked.id
        self.kind = asked.kind
        self.into = asked.into
        self.format = asked.format
        self.patience_seconds = patience_seconds
        """How long `wait` waits unless told: what the job may need by its own settings."""
        self._asking = Asking(job_folder, asked)
        self._steps = self._asking.steps()
        self._over: Answer | TidegateError | None = None

    def poll(self) -> TicketView:
        """Look once, without waiting. The request is put to the job by the first look that finds a process to take it,
        so look again until it is over.

        Raises REQUEST_REFUSED where the id stands for something else, and the error that keeps the savepoint of a job
        that has ended from being taken.
        """
        return self._view(self._step())

    def wait(
        self, timeout_seconds: float | None = None, progress: Callable[[str], None] = lambda _: None
    ) -> TicketView:
        """Look until it is over, at most `timeout_seconds` long; then the last look is given, which is pending.

        `progress` hears again and again what is waited for. A savepoint that this process copies, because the job has
        ended, is waited for to its end. Raises what `poll` raises.
        """
        end = time.monotonic() + (self.patience_seconds if timeout_seconds is None else timeout_seconds)
        self._asking.patient_until = end
        try:
            while isinstance(step := self._step(), Step):
                if step.stage in _BOUNDED and time.monotonic() >= end:
                    break
                progress(step.waits_for)
                time.sleep(_LOOK_SECONDS)
        except BaseException:
            self._steps.close()  # what this process copies is called off
            raise
        return self._view(step)

    def _step(self) -> Step | Answer:
        match self._over:
            case None:
                return self._next_step()
            case TidegateError() as error:
                raise error
            case answer:
                return answer

    def _next_step(self) -> Step | Answer:
        try:
            return next(self._steps)
        except StopIteration as stop:
            answer: Answer = stop.value
            self._over = answer
            return answer
        except TidegateError as error:
            self._over = error
            raise

    def _view(self, step: Step | Answer) -> TicketView:
        if isinstance(step, Answer):
            return TicketView(id=self.id, kind=self.kind, state=_STATES[step.outcome], answer=step)
        return TicketView(
            id=self.id, kind=self.kind, state=TicketState.PENDING, stage=step.stage, waits_for=step.waits_for
        )


_BOUNDED = frozenset({Stage.UNASKED, Stage.ASKED})
"""What `wait` gives up at its timeout. The other stages end by themselves."""


def ticket_of(job_folder: Path, request_id: str, beat: Beat | None) -> Ticket | None:
    """The ticket of a request that was asked before, by whichever process; None where the job knows none of this id.

    Raises REQUEST_REFUSED for what is no id, RECORD_CORRUPT for an answer that cannot be read.
    """
    desk = Desk(job_folder)
    known = desk.standing(request_id) or desk.answer_to(request_id)
    if known is None or known.kind is None:
        return None
    asked = Asked(kind=known.kind, id=known.id, into=known.into, format=known.format)
    return Ticket(job_folder, asked, patience_seconds(asked.kind, beat))

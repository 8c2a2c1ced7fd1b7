"""How a supervised job ends for good: one table, by what was wrong and whether the job was to end."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from tidegate.core.errors import Code
from tidegate.core.matrix import Matrix
from tidegate.operate.control import Outcome as Answered
from tidegate.operate.failures import Failure
from tidegate.supervise.cures import refuses


class Outcome(Enum):
    """How a supervised job ended, for good."""

    FINISHED = "finished"
    """The program came to its end."""
    STOPPED = "stopped"
    PENDING = "pending"
    """Stopped, and a decided epoch waits for its sink: the next start commits it."""
    FAILED = "failed"
    REFUSED = "refused"
    """Somebody has to decide, or has the job already; or the program does not fit what the job goes on from."""
    UNUSABLE = "unusable"
    """The program cannot be run as it is written."""
    INTERRUPTED = "interrupted"
    """Ended at once, with whatever was under way."""


class Fault(Enum):
    """What was wrong with a driver that is not started again."""

    NONE = "nothing"
    SINK = "sink not ready"
    TAKEN_OR_REFUSED = "somebody has to decide, or has the job already"
    UNUSABLE = "the program cannot be run as it is written"
    OTHER = "anything else"


class Stopped(Enum):
    """Whether the job was to end: somebody has stopped it, or its driver says that it has ended for good."""

    NO = "by itself"
    YES = "it was to end"

    @classmethod
    def of(cls, stopped: object) -> Stopped:
        """Of what was found: true if it was to end."""
        return cls.YES if stopped else cls.NO


OUTCOME = Matrix(
    Fault,
    Stopped,
    {
        #                       by itself         it was to end
        Fault.NONE: (Outcome.FINISHED, Outcome.STOPPED),
        Fault.SINK: (Outcome.FAILED, Outcome.PENDING),
        Fault.TAKEN_OR_REFUSED: (Outcome.REFUSED, Outcome.REFUSED),
        Fault.UNUSABLE: (Outcome.UNUSABLE, Outcome.UNUSABLE),
        Fault.OTHER: (Outcome.FAILED, Outcome.FAILED),
    },
)


def outcome_of(fault: Fault, stopped: Stopped) -> Outcome:
    """How the job has ended. A job that is ended at once, with whatever is under way, is INTERRUPTED in any case."""
    return OUTCOME.cell(fault, stopped)


def fault_of(codes: Iterable[Code]) -> Fault:
    """What was wrong, by all that was told of it: what needs a reader's decision comes before what only waits."""
    found = frozenset(codes)
    if found & _UNUSABLE:
        return Fault.UNUSABLE
    if found & _TAKEN or any(refuses(code) for code in found):
        return Fault.TAKEN_OR_REFUSED
    return Fault.SINK if Code.SINK_UNAVAILABLE in found else Fault.OTHER


_UNUSABLE = frozenset({Code.PROGRAM_UNREADABLE, Code.JOB_COUNT})
_TAKEN = frozenset({Code.DRIVER_ALIVE, Code.SUPERVISOR_ALIVE})


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a supervised job. `code`: the exit code that the program chose itself, when it finished."""

    outcome: Outcome
    job: str | None
    restarts: int
    code: int = 0
    failure: Failure | None = None


def answer_of(ending: Ending) -> tuple[Answered, str]:
    """What is said to whoever has asked for the end of a job that did not run."""
    failed = "" if ending.failure is None else f"; it had failed ({ending.failure.code})"
    if ending.outcome is Outcome.PENDING:
        return Answered.PENDING, f"the job has ended, and a decided epoch waits for its sink{failed}"
    return Answered.DONE, f"no driver ran; the job is not started again{failed}"

"""How a supervised job ends for good: one table, by the kind of problem and by whether the job was to end."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from tidegate.core.errors import Code
from tidegate.core.matrix import Matrix
from tidegate.operate.control import Outcome as Answered
from tidegate.operate.failures import Failure
from tidegate.supervise.cures import refuses


class JobOutcome(Enum):
    """How a supervised job has ended, after all restarts."""

    FINISHED = "finished"
    """The program came to its end."""
    STOPPED = "stopped"
    PENDING = "pending"
    """Stopped, and a decided epoch waits for its sink: the next start commits it."""
    FAILED = "failed"
    REFUSED = "refused"
    """A decision by the operator is needed, or another process has the job, or the program does not match the stored
    state of the job."""
    UNUSABLE = "unusable"
    """The program cannot be run as it is written."""
    INTERRUPTED = "interrupted"
    """Ended at once, in the middle of its work."""


class Fault(Enum):
    """The problem of a driver that is not restarted."""

    NONE = "nothing"
    SINK = "sink not ready"
    TAKEN_OR_REFUSED = "a decision is needed, or another process has the job"
    UNUSABLE = "the program cannot be run as it is written"
    OTHER = "anything else"


class Stopped(Enum):
    """Whether the job was to end: by a stop request, or because its driver reports a final end."""

    NO = "by itself"
    YES = "it was to end"

    @classmethod
    def of(cls, stopped: object) -> Stopped:
        """From the findings: true if the job was to end."""
        return cls.YES if stopped else cls.NO


OUTCOME = Matrix(
    Fault,
    Stopped,
    {
        #                       by itself         it was to end
        Fault.NONE: (JobOutcome.FINISHED, JobOutcome.STOPPED),
        Fault.SINK: (JobOutcome.FAILED, JobOutcome.PENDING),
        Fault.TAKEN_OR_REFUSED: (JobOutcome.REFUSED, JobOutcome.REFUSED),
        Fault.UNUSABLE: (JobOutcome.UNUSABLE, JobOutcome.UNUSABLE),
        Fault.OTHER: (JobOutcome.FAILED, JobOutcome.FAILED),
    },
)


def outcome_of(fault: Fault, stopped: Stopped) -> JobOutcome:
    """The outcome of a job, from the error and the request that ended it.

    After a request to end at once: INTERRUPTED.
    """
    return OUTCOME.cell(fault, stopped)


def fault_of(codes: Iterable[Code]) -> Fault:
    """The problem, from all its codes. A problem that needs a decision comes before one that only needs time."""
    found = frozenset(codes)
    if found & _UNUSABLE:
        return Fault.UNUSABLE
    if found & _TAKEN or any(refuses(code) for code in found):
        return Fault.TAKEN_OR_REFUSED
    return Fault.SINK if Code.SINK_UNAVAILABLE in found else Fault.OTHER


_UNUSABLE = frozenset({Code.PROGRAM_UNREADABLE, Code.JOB_COUNT})
_TAKEN = frozenset({Code.DRIVER_ALIVE, Code.SUPERVISOR_ALIVE})


class JobEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a supervised job. `code`: the exit code of the program itself, if it finished."""

    outcome: JobOutcome
    job: str | None
    restarts: int
    code: int = 0
    failure: Failure | None = None


def answer_of(ending: JobEnd) -> tuple[Answered, str]:
    """The answer to a request to end a job that did not run."""
    failed = "" if ending.failure is None else f"; it had failed ({ending.failure.code})"
    if ending.outcome is JobOutcome.PENDING:
        return Answered.PENDING, f"the job has ended, and a decided epoch waits for its sink{failed}"
    return Answered.DONE, f"no driver ran; the job is not started again{failed}"

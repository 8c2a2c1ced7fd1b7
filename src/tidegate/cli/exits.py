"""The exit codes of every command, and of a driver under the supervisor. They never change their meaning."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from tidegate.core.errors import Code
from tidegate.supervise.cures import refuses


class Exit(IntEnum):
    """What became of a command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNKNOWN_JOB = 3
    """No job of that name in `checkpointing.dir`, or no such folder."""
    REFUSED = 4
    """Nothing was done: it would lose or repeat rows, or it does not fit the job's state."""
    OUTCOME_UNKNOWN = 5
    """It was asked for, and nobody can tell whether it was done: look again."""
    PENDING = 6
    """The job has ended and a decided epoch waits for a sink: the next start commits it."""
    NO_ANSWER = 7
    """The job runs and did not answer in time; the request stands."""
    INTERRUPTED = 130
    """Ctrl-C, as shells have it."""


EXIT_OF: Mapping[Code, Exit] = {
    Code.UID_INVALID: Exit.USAGE,
    Code.JOB_UNKNOWN: Exit.UNKNOWN_JOB,
    Code.FOLDER_UNKNOWN: Exit.UNKNOWN_JOB,
    Code.REQUEST_REFUSED: Exit.REFUSED,
    Code.DRIVER_ALIVE: Exit.REFUSED,
    Code.SUPERVISOR_ALIVE: Exit.REFUSED,
    Code.TRANSACTION_UNNAMED: Exit.FAILED,
    Code.TRANSACTION_UNKNOWN: Exit.OUTCOME_UNKNOWN,
}
"""The exit codes of errors that have one of their own."""


def exit_of(code: Code) -> Exit:
    """With which exit code a command ends that an error of tidegate stops."""
    return EXIT_OF.get(code, Exit.REFUSED if refuses(code) else Exit.FAILED)

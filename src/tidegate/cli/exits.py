"""The exit codes of every command, and of a driver under the supervisor. They never change their meaning."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from tidegate.core.errors import Code
from tidegate.supervise.cures import refuses


class Exit(IntEnum):
    """The outcome of a command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNKNOWN_JOB = 3
    """`checkpointing.dir` has no job of that name, or there is no such folder."""
    REFUSED = 4
    """Nothing was done: it would lose or repeat rows, or it does not match the job's state."""
    OUTCOME_UNKNOWN = 5
    """The request was sent, and it is unknown whether it was executed: check again."""
    PENDING = 6
    """The job has ended and a decided epoch waits for a sink: the next start commits it."""
    NO_ANSWER = 7
    """The job runs and did not answer in time; the request is still open."""
    INTERRUPTED = 130
    """Ctrl-C, as in shells."""


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
    """The exit code of a command that ends with a tidegate error."""
    return EXIT_OF.get(code, Exit.REFUSED if refuses(code) else Exit.FAILED)

"""The connection between a supervisor and its driver: a socket pair, with one JSON message per line.

It closes when one of the two processes ends for any reason, so the other process notices at once.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.logs.writing import SUPERVISED
from tidegate.operate.reports import FailureReport
from tidegate.settings.kinds import WarmUp
from tidegate.supervise.restart import RestartPolicy

# --- messages of the driver --------------------------------------------------------------------------------


class StartAnnounced(msgspec.Struct, frozen=True, kw_only=True, tag="declared"):
    """The program is about to start its job; answered by GoOn or Refused."""

    job: str
    folder: str
    strategy: RestartPolicy
    progress_timeout: float
    stop_timeout: float
    warm_up: WarmUp = WarmUp.OFF
    standby: bool = False
    own_jvm: bool = False
    """True if tidegate has started the JVM of this process, and not the program."""


class Moved(msgspec.Struct, frozen=True, tag="moved"):
    """The start has reached this step for the first time. So a slow start differs from one that hangs."""

    step: str


class Running(msgspec.Struct, frozen=True, tag="running"):
    """The message that every query of the job with this id has recovered and runs."""

    job_id: str


class QueryFailed(msgspec.Struct, frozen=True, tag="query-failed"):
    """The message that one query has failed and the Spark session is alive. The answer is RestartQuery."""

    report: FailureReport


class Finished(msgspec.Struct, frozen=True, kw_only=True, tag="finished"):
    """The program has ended; its last message. `code`: the exit code of the program itself.

    `job_ended`: its job had ended for good, successfully or by request, so that the error is no reason to run the job
    again. `asked`: a signal, a command or the program requested the end. `failed_epochs`: by query, the number of
    consecutive failed epochs, if the last failure is tolerated and needs a new process.
    """

    report: FailureReport | None
    code: int = 0
    job_ended: bool = False
    asked: bool = False
    failed_epochs: dict[str, int] = {}


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The message of a standby that has run its program up to the start of its job. It waits for TakeOver."""


class CannotTakeOver(msgspec.Struct, frozen=True, tag="cannot-take-over"):
    """The message of a standby whose declaration is old and cannot be asked again. Then the process ends. `why`: what
    differs."""

    why: str


FromDriver: TypeAlias = StartAnnounced | Moved | Running | QueryFailed | Finished | Ready | CannotTakeOver


# --- messages of the supervisor ----------------------------------------------------------------------------


class GoOn(msgspec.Struct, frozen=True, tag="go-on"):
    """The job may start. `failed_epochs`: the value that the last driver reported, if it ended for that reason.
    `resumes`: the id of the job that earlier drivers have run; empty if none has.
    """

    failed_epochs: dict[str, int] = {}
    resumes: str = ""


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The message that the supervisor cannot run this job. Holds the parts of a TidegateError (`core.telling`)."""

    error: dict[str, Any]


class RestartQuery(msgspec.Struct, frozen=True, tag="restart-query"):
    """The pause before the query's next run, in seconds; None: the job ends with the error."""

    pause: float | None


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Stop after the current epoch. It may come at any time; the only answer is the end of the job."""


class TakeOver(msgspec.Struct, frozen=True, tag="take-over"):
    """The standby, or the process that has a head start, is the driver from now on. It may come before a standby is
    ready."""


FromSupervisor: TypeAlias = GoOn | Refused | RestartQuery | Stop | TakeOver

MessageT = TypeVar("MessageT")


class DriverLine(Protocol):
    """The driver's end of what decides about its restarts: a process, or records."""

    def say(self, message: FromDriver) -> None:
        """Send one message. Raises OSError if the other end is gone."""
        ...

    def hear(self) -> list[FromSupervisor] | None:
        """Wait for messages. Returns None if the other end is gone and all its messages were received."""
        ...


class Line(Generic[MessageT]):
    """One end of the line: sends any message, receives messages of one kind."""

    def __init__(self, end: socket.socket, hears: msgspec.json.Decoder[MessageT]) -> None:
        self._socket = end
        self._decoder = hears
        self._pending = b""
        self.ended = False
        """True if the other process is gone and all its messages were received."""

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def say(self, message: msgspec.Struct) -> None:
        """Send one message. Raises OSError if the other process is gone."""
        self._socket.sendall(msgspec.json.encode(message) + b"\n")

    def hear(self) -> list[MessageT] | None:
        """Wait for messages. Returns None if the other process is gone and all its messages were received."""
        while not self.ended:
            messages = self._receive(0)
            if messages:
                return messages
        return None

    def heard(self) -> list[MessageT]:
        """The messages received so far, without waiting."""
        messages: list[MessageT] = []
        while not self.ended:
            try:
                messages += self._receive(socket.MSG_DONTWAIT)
            except BlockingIOError:
                break
        return messages

    def _receive(self, flags: int) -> list[MessageT]:
        try:
            received = self._socket.recv(_BYTES_AT_ONCE, flags)
        except ConnectionError:  # it died with unread messages of ours
            received = b""
        self.ended = not received
        *whole, self._pending = (self._pending + received).split(b"\n")
        return [self._decoder.decode(line) for line in whole]


_BYTES_AT_ONCE = 65_536


def line_to_driver() -> tuple[Line[FromDriver], socket.socket]:
    """The supervisor's end, and the driver's end, which the driver inherits."""
    ours, theirs = socket.socketpair()
    return Line(ours, msgspec.json.Decoder(FromDriver)), theirs


def line_to_supervisor(environment: Mapping[str, str]) -> Line[FromSupervisor]:
    """The driver's end. No process that the driver starts inherits it."""
    try:
        end = socket.socket(fileno=int(environment[SUPERVISED]))
    except (KeyError, ValueError, OSError) as error:
        raise TidegateError(
            Code.OPTION_UNKNOWN,
            expected="to be started by a supervisor",
            found=f"{SUPERVISED} = {environment.get(SUPERVISED)!r}",
            where="the environment",
            next_step="run the program with `tidegate run APP`, or alone with `python APP`",
        ) from error
    os.set_inheritable(end.fileno(), False)
    return Line(end, msgspec.json.Decoder(FromSupervisor))

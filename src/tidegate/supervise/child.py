"""One driver as a child process of its supervisor: started in a session of its own, and ended with all its
processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from tidegate.logs.writing import SUPERVISED
from tidegate.machine.own_python import module_command
from tidegate.supervise.line import FromDriver, FromSupervisor, line_to_driver
from tidegate.supervise.session_processes import end_processes

GRACE_SECONDS = 3.0
"""A JVM ends 0.5 to 2.4 s after its Python, and removes its temporary files in that time."""


class DriverProcess:
    """A driver process. It has no standard input: it outlives the terminal, and the line to the supervisor tells it
    when to end."""

    def __init__(self, program: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None) -> None:
        self.line, theirs = line_to_driver()
        with theirs:
            self._process = subprocess.Popen(
                module_command("tidegate.spark.program", *program),
                stdin=subprocess.DEVNULL,
                stdout=output,
                env={**environment, SUPERVISED: str(theirs.fileno())},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.process = self._process.pid
        self._killed_at: float | None = None

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def said(self) -> list[FromDriver]:
        """The driver's messages since the last call."""
        return self.line.heard()

    def tell(self, message: FromSupervisor) -> None:
        """Send a message, if the driver is still alive."""
        with suppress(OSError):
            self.line.say(message)

    def kill(self) -> None:
        """Kill the driver's Python at once, even if it is stopped."""
        if not self.has_ended():
            self._killed_at = self._killed_at or time.monotonic()
            os.kill(self.process, signal.SIGKILL)

    def cannot_be_killed(self) -> bool:
        """True if the driver still lives long after it was killed: it waits in the kernel for a disk that does not
        answer."""
        return self._killed_at is not None and time.monotonic() - self._killed_at > _KILLED_SECONDS

    def close(self, grace_seconds: float | None = None) -> list[int]:
        """Wait `grace_seconds` for the processes of the driver's session to end, then kill the rest. Returns the
        processes that remain.

        Call it after the driver has ended, or if the driver cannot be killed.
        """
        stays = end_processes(self.process, GRACE_SECONDS if grace_seconds is None else grace_seconds)
        self.line.close()
        return stays

    def close_at_once(self) -> list[int]:
        """End the driver and all its processes at once. Returns the processes that remain."""
        self.kill()
        return self.close(0.0)

    @property
    def returned(self) -> int | None:
        """The exit code of the process; None while it is alive."""
        return self._process.poll()


_KILLED_SECONDS = 10.0

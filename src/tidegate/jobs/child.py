"""One driver as a child of its supervisor: started in a session of its own, and ended with all it has started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from tidegate.jobs.line import SUPERVISED, FromDriver, FromSupervisor, line_to_driver
from tidegate.jobs.session_processes import end_processes

GRACE_SECONDS = 3.0
"""A JVM outlives its Python by 0.5 to 2.4 s, and removes its temporary files in that time."""


class Child:
    """A driver process. It has no standard input: it outlives the terminal, and the line tells it when to end."""

    def __init__(self, program: Sequence[str], environment: Mapping[str, str], output: IO[bytes] | None) -> None:
        self.line, theirs = line_to_driver()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidegate.spark.program", *program],
                stdin=subprocess.DEVNULL,
                stdout=output,
                env={**environment, SUPERVISED: str(theirs.fileno())},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.process = self._process.pid

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def said(self) -> list[FromDriver]:
        """What the driver has said since the last call."""
        return self.line.heard()

    def tell(self, message: FromSupervisor) -> None:
        """Say something, if it still lives."""
        with suppress(OSError):
            self.line.say(message)

    def kill(self) -> None:
        """End the driver's Python at once, also one that stands still."""
        if not self.has_ended():
            os.kill(self.process, signal.SIGKILL)

    def close(self) -> int:
        """Wait for the driver's end, then end everything it has left behind. Returns what the process returned."""
        returned = self._process.wait()
        end_processes(self.process, GRACE_SECONDS)
        self.line.close()
        return returned

    def close_at_once(self) -> int:
        """End the driver and everything it has started, without any grace."""
        self.kill()
        returned = self._process.wait()
        end_processes(self.process, 0.0)
        self.line.close()
        return returned

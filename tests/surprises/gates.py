"""Places in a task where a test strikes: the first attempt that comes by takes the strike, all others pass."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark import TaskContext

from tests.integration.place import wait_until

_HELD_SECONDS = 240.0


@dataclass(frozen=True)
class Passage:
    """One attempt that came by a gate: Spark's partition and attempt number, and the executor's JVM."""

    partition: int
    attempt: int
    executor: int


@dataclass(frozen=True)
class Gate:
    """A named place in the tasks. Pickled to them; what happens there is said in files of `folder`."""

    folder: Path
    name: str

    # --- in a task -----------------------------------------------------------------------------------------

    def reach(self) -> None:
        """Come by: leave a line behind, and take the strike that waits, if any."""
        context = TaskContext.get()
        assert context is not None
        came = (context.partitionId(), context.attemptNumber(), _executor())
        self.folder.mkdir(exist_ok=True)
        with self._file("passed").open("a") as passed:
            passed.write(" ".join(map(str, came)) + "\n")
        try:
            self._file("strike").rename(self._file("taken"))
        except FileNotFoundError:
            return
        _STRIKES[self._file("taken").read_text()](self)

    def _file(self, what: str) -> Path:
        return self.folder / f"{self.name}.{what}"

    # --- in the test ---------------------------------------------------------------------------------------

    def post(self, strike: str) -> None:
        """Let one of "die", "raise", "hold" or "starve" wait for the first attempt that comes by."""
        assert strike in _STRIKES
        self.folder.mkdir(exist_ok=True)
        draft = self._file("draft")
        draft.write_text(strike)
        draft.rename(self._file("strike"))

    def is_held(self) -> bool:
        return self._file("held").exists()

    def wait_until_held(self) -> None:
        wait_until(self.is_held, f"an attempt held at {self.name}")

    def open(self) -> None:
        """Let the attempt that is held go on."""
        self._file("open").touch()

    def passages(self) -> list[Passage]:
        """Every attempt that came by, in their order."""
        if not self._file("passed").exists():
            return []
        lines = self._file("passed").read_text().splitlines()
        return [Passage(*(int(word) for word in line.split())) for line in lines]

    def held_in(self) -> int:
        """The executor (its process id) in which an attempt is held: strikes are taken by who came by first."""
        return int(self._file("held").read_text())

    # --- strikes -------------------------------------------------------------------------------------------

    def hold(self) -> None:
        draft = self._file("holding")
        draft.write_text(str(_executor()))
        draft.rename(self._file("held"))
        end = time.monotonic() + _HELD_SECONDS
        while not self._file("open").exists() and time.monotonic() < end:
            time.sleep(0.01)


def _die(_: Gate) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise(gate: Gate) -> None:
    raise OSError(f"struck at {gate.name}")


def _starve(_: Gate) -> None:
    """Ask for more memory than a worker may have."""
    bytearray(1 << 36)


_STRIKES: dict[str, Callable[[Gate], None]] = {"die": _die, "raise": _raise, "hold": Gate.hold, "starve": _starve}


def _executor() -> int:
    """The JVM whose daemon forked this worker."""
    daemon = os.getppid()
    return int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])

"""A driver process under test: started with failpoints, observed, killed by its own process id."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.machines import Machine

HOLD_SECONDS = 120.0

LOST = ("TG-LEASE-LOST", "TG-DRIVER-ALIVE", "TG-RUN-")
"""How the codes of a driver begin that ends because it has a successor."""

PYTHON_PATH = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
"""By which a program that is started by its path finds the tests' own modules."""


class Driver:
    """One start of a program. Its output goes to a file, so that a full pipe never holds it up."""

    def __init__(
        self, program: Path, *arguments: str, log: Path, failpoints: str = "", machine: Machine | None = None
    ) -> None:
        """`machine`: where it runs; None: here."""
        command = [sys.executable, str(program), *arguments]
        environment = {
            **os.environ,
            "PYTHONPATH": PYTHON_PATH,
            "PYTHONFAULTHANDLER": "1",  # a crash in a native library names its place
            "TIDEGATE_TESTING": "1",
            "TIDEGATE_FAILPOINTS": failpoints,
        }
        self._log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command if machine is None else machine.command(command),
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )

    def wait_for_hold(self, hold: Path) -> str:
        """Wait until a failpoint holds; what it wrote. The driver must not end before."""
        end = time.monotonic() + HOLD_SECONDS
        while not (hold.exists() and hold.read_text()):
            if self.process.poll() is not None:
                raise AssertionError(
                    f"the driver ended ({self.process.returncode}) before the failpoint:\n{self.tail()}"
                )
            if time.monotonic() > end:
                raise AssertionError(f"the failpoint was not reached:\n{self.tail()}")
            time.sleep(0.02)
        return hold.read_text()

    def wait_until_stopped(self) -> int:
        """Until SIGSTOP has stopped it or the driver that it supervises, by the failpoint `pause`; the process id."""
        end = time.monotonic() + HOLD_SECONDS
        while (stopped := next(filter(_is_stopped, _with_children(self.process.pid)), None)) is None:
            if self.process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"the driver was not stopped:\n{self.tail()}")
            time.sleep(0.05)
        return stopped

    def kill(self, *others: int) -> None:
        """SIGKILL to the driver's Python, and to `others`; its JVM is left to die by itself."""
        for process in (self.process.pid, *others):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.process.wait()

    def kill_all(self) -> None:
        """SIGKILL to the driver's whole process group, its JVM and Python workers included; idempotent."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        """Whatever became of the test, nothing of this driver stays behind."""
        self.kill_all()

    def wait(self, timeout_seconds: float = 180.0) -> int:
        """Wait until the driver has ended; its exit code."""
        try:
            return self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the driver did not end in {timeout_seconds} s:\n{self.tail()}") from None

    def tail(self, characters: int = 4000) -> str:
        """The end of what it printed."""
        return self._log.read_text(errors="replace")[-characters:]


def _with_children(pid: int) -> list[int]:
    """This process and its children."""
    found = [int(each.name) for each in Path("/proc").iterdir() if each.name.isdigit()]
    return [pid, *(each for each in found if _stat(each)[1:2] == [str(pid)])]


def _is_stopped(pid: int) -> bool:
    return _stat(pid)[:1] == ["T"]


def _stat(pid: int) -> list[str]:
    """The state of a process, its parent, and so on; [] if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def numbers(folder: Path) -> list[int]:
    """The numbered files of a folder: `7` and `7.2` both count as 7."""
    names = os.listdir(folder) if folder.is_dir() else []
    return sorted({int(name.partition(".")[0]) for name in names if name.partition(".")[0].isdigit()})


def json_rows(files: Sequence[Path]) -> list[dict[str, object]]:
    """The rows of JSON-lines files, in the order of the files."""
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]

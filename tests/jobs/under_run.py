"""A `tidegate run` under test: started for real, looked at from outside, ended with all it has started."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

from tests.support.driver import PYTHON_PATH
from tidegate.operate.failures import Failure, read_failures
from tidegate.storages.local.locks import read_holder

NUMBERS = Path(__file__).with_name("numbers_program.py")
_BOUND_SECONDS = 120.0


class UnderRun:
    """One `tidegate run` of a program. Everything it prints goes to a file."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        program: Path = NUMBERS,
        options: Sequence[str] = (),
        is_told_its_folder: bool = True,
    ) -> None:
        """The program gets the folder, which it also runs in, before its other arguments; an example does not."""
        self.folder = folder
        words = [*([str(folder)] if is_told_its_folder else []), *arguments]
        self.log = folder / "log"
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidegate.cli.main", "run", *options, str(program), *words],
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONPATH": PYTHON_PATH},
                cwd=folder,
                start_new_session=True,
            )
        self.sessions: set[int] = set()

    def __enter__(self) -> UnderRun:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for session in self.sessions:
            for process in in_session(session):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

    def driver(self) -> int | None:
        """The driver's Python: the supervisor's one child, which leads a session of its own."""
        listed = subprocess.run(
            ["ps", "--ppid", str(self.process.pid), "-o", "pid=,sid="], capture_output=True, text=True, check=False
        ).stdout.split()
        for process, session in zip(listed[::2], listed[1::2], strict=True):
            if process == session:
                self.sessions.add(int(process))
                return int(process)
        return None

    def new_driver(self, old: int | None = None) -> int:
        """Wait for a driver (another one than `old`)."""
        wait_until(lambda: self.driver() not in (None, old), "a driver", self)
        driver = self.driver()
        assert driver is not None
        return driver

    def holds_the_job(self, driver: int) -> bool:
        holder = read_holder(self.folder / "checkpoints" / "numbers")
        return holder is not None and holder.process == driver

    def wait(self, seconds: float = _BOUND_SECONDS) -> int:
        """Wait until it has ended; its exit code."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end in {seconds} s:\n{self.tail()}") from None

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-4_000:]

    def failures(self) -> list[Failure]:
        return read_failures(self.folder / "checkpoints" / "numbers")


def in_session(session: int) -> list[int]:
    """The living processes of a session, as `ps` sees them."""
    listed = subprocess.run(
        ["ps", "-s", str(session), "-o", "pid=,stat="], capture_output=True, text=True, check=False
    ).stdout.split()
    return [int(pid) for pid, state in zip(listed[::2], listed[1::2], strict=True) if not state.startswith("Z")]


def processes(session: int, command: str) -> list[int]:
    """Those of a session whose command has this in it."""
    listed = subprocess.run(["ps", "-s", str(session), "-o", "pid=,args="], capture_output=True, text=True, check=False)
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if command in line]


def write(folder: Path, first: int, files: int) -> None:
    """Files of one number each; they are read in this order."""
    (folder / "in").mkdir(exist_ok=True)
    for number in range(first, first + files):
        hidden = folder / "in" / f".{number:05d}"
        hidden.write_text(json.dumps({"number": number}) + "\n")
        os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
        hidden.rename(folder / "in" / f"{number:05d}.json")


def table(folder: Path) -> list[int]:
    """The numbers in the table, sorted, however often they are there."""
    if not (folder / "out.db").exists():
        return []
    with closing(sqlite3.connect(folder / "out.db")) as database, suppress(sqlite3.OperationalError):  # no table yet
        return sorted(number for (number,) in database.execute("SELECT number FROM numbers"))
    return []


def wait_until(seen: Callable[[], object], what: str, run: UnderRun, seconds: float = _BOUND_SECONDS) -> None:
    """Wait for what can be seen from outside, while the supervisor lives."""
    end = time.monotonic() + seconds
    while not seen():
        assert run.process.poll() is None, f"it ended ({run.process.returncode}) before {what}:\n{run.tail()}"
        assert time.monotonic() < end, f"not seen: {what}:\n{run.tail()}"
        time.sleep(0.02)

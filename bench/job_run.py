"""A job of its own processes, under `tidegate run` or alone, seen from outside: by its folder and by /proc."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.growth import Size, children_of
from bench.job_program import JOB, LOOK, QUERY, SIZE
from tidegate.storages.local.locks import read_holder
from tidegate.supervise.session_processes import end_processes

PROGRAM = Path(__file__).with_name("job_program.py")
_ROOT = PROGRAM.parents[1]
_LOOK_SECONDS = 0.01
_BOUND_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Again:
    """When a new run began, before its recovery, and when its first epoch was done; in seconds since 1970."""

    begun_at: float
    done_at: float


class JobRun:
    """The job of `job_program.py` in `place`, a folder that is there and empty. Ended with all it has started."""

    def __init__(
        self,
        place: Path,
        *arguments: str,
        supervised: bool = True,
        options: Sequence[str] = (),
        program: Path = PROGRAM,
    ) -> None:
        self.place = place
        self.folder = place / "checkpoints" / JOB
        self.query = self.folder / "queries" / QUERY / "g1"
        below_run = ["-m", "tidegate.cli.main", "run", *options] if supervised else []
        path = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        self._supervised = supervised
        self._log = place / "log"
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, *below_run, str(program), str(place), *arguments],
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONPATH": path},
                cwd=place,
                start_new_session=not supervised,  # Ctrl-C is for `tidegate run`, too
            )
        self._sessions = {self._process.pid}

    def __enter__(self) -> JobRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._remember_driver()
        self._process.kill()
        self._process.wait()
        for session in self._sessions:
            end_processes(session, 0.0)

    @property
    def supervisor(self) -> int:
        """The process of `tidegate run`."""
        return self._process.pid

    def driver(self) -> int:
        """The driver's Python: alone it is the process itself, under `tidegate run` its child that has the job."""
        self.wait(self._remember_driver, "a driver")
        return self._remember_driver() or self._process.pid

    def kill_driver(self) -> float:
        """`kill -9` of the driver's Python, whose JVM lives on for a moment; when it was, in seconds since 1970."""
        driver = self.driver()
        at = time.time()
        os.kill(driver, signal.SIGKILL)
        return at

    def wait_for_standby(self) -> None:
        """Wait until a process waits beside the driver that has it (`restart.standby`)."""
        driver = self.driver()
        self.wait(lambda: _ready_in(self._log) not in (None, driver), "a standby")

    def stop(self) -> None:
        """Ask `tidegate run` for a clean end."""
        self._remember_driver()
        self._process.send_signal(signal.SIGTERM)
        if self._process.wait(_BOUND_SECONDS) != 0:
            raise RuntimeError(f"it did not stop cleanly:\n{self._tail()}")

    def wait_for_done(self, epoch: int) -> None:
        """Wait until `epoch` is done; an epoch may take seconds, not more."""
        self.wait(lambda: newest(self.done()) >= epoch, f"epoch {epoch} done", _BOUND_SECONDS + epoch)

    def again(self, run: int) -> Again:
        """Wait for a newer run than `run` and for its first epoch to be done.

        An epoch that recovery finishes for an older run does not count: Spark's log had it when the new run began.
        """
        self.wait(lambda: self.run() > run, "a new run")
        logged = newest(numbers(self.query / "spark" / "commits"))
        self.wait(lambda: newest(self.done()) > logged, "an epoch of the new run")
        first = min(epoch for epoch in self.done() if epoch > logged)
        ledger = self.query / "ledger"
        return Again(
            begun_at=(ledger / "runs" / str(self.run())).stat().st_mtime,
            done_at=(ledger / "done" / str(first)).stat().st_mtime,
        )

    def done(self) -> list[int]:
        """The epochs whose *done* is kept."""
        return numbers(self.query / "ledger" / "done")

    def run(self) -> int:
        """The newest run of the query."""
        return newest(numbers(self.query / "ledger" / "runs"))

    def size(self) -> Size:
        """What the driver finds of itself, after collections."""
        (self.place / LOOK).touch()
        self.wait(lambda: not (self.place / LOOK).exists(), "the driver's size")
        return msgspec.json.decode((self.place / SIZE).read_bytes(), type=Size)

    def wait(self, seen: Callable[[], object], what: str, seconds: float = _BOUND_SECONDS) -> None:
        """Wait for something that can be seen from outside, while the job lives; there is a bound."""
        end = time.monotonic() + seconds
        while not seen():
            if self._process.poll() is not None or time.monotonic() > end:
                raise TimeoutError(f"not seen: {what} (exit code {self._process.returncode})\n{self._tail()}")
            time.sleep(_LOOK_SECONDS)

    def _remember_driver(self) -> int | None:
        if not self._supervised:
            return self._process.pid
        leaders: list[int] = []
        for child in children_of(self._process.pid):
            with suppress(ProcessLookupError):
                if os.getsid(child) == child:
                    leaders.append(child)
        self._sessions.update(leaders)
        holder = read_holder(self.folder)
        if holder is not None and holder.process in leaders:
            return holder.process
        return leaders[0] if len(leaders) == 1 else None

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-3000:]


def _ready_in(log: Path) -> int | None:
    """The process of the newest standby that is ready."""
    found = re.findall(r"a standby is ready: process (\d+)", log.read_text(errors="replace"))
    return int(found[-1]) if found else None


def numbers(folder: Path) -> list[int]:
    """The numbers among the names in a folder; none where it is not there yet."""
    with suppress(FileNotFoundError):
        return [int(name) for name in os.listdir(folder) if name.isdigit()]
    return []


def newest(found: Iterable[int]) -> int:
    """-1 where there is none."""
    return max(found, default=-1)

"""A terminal in which lines are typed, one after the other, and what stands on its screen."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.jobs.under_run import in_session
from tidegate.storages.local.locks import read_holder

_SECONDS = 600.0
_BIN = Path(sys.executable).parent


class Terminal:
    """Runs lines as a user types them, in one folder, and keeps what stands on the screen."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.screen = ""
        self._environment = {
            **os.environ,
            "PATH": f"{_BIN}{os.pathsep}{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
        }
        self._beside: list[subprocess.Popen[bytes]] = []

    def type(self, line: str) -> tuple[int, str]:
        """A line's exit code, and what it prints on both streams."""
        code, said = self.tried(line)
        ended = f"[exit code {code}]\n" if code else ""
        self.screen += f"$ {line}\n{said}{ended}\n"
        return code, said

    def tried(self, line: str) -> tuple[int, str]:
        """The same, and nothing stands on the screen."""
        done = subprocess.run(
            shlex.split(line),
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SECONDS,
        )
        return done.returncode, done.stdout

    def type_beside(self, line: str) -> None:
        """A line that ends in `&`."""
        self.screen += f"$ {line} &\n\n"
        process = subprocess.Popen(shlex.split(line), cwd=self.folder, env=self._environment, stdout=subprocess.DEVNULL)
        self._beside.append(process)

    def close(self) -> None:
        for process in self._beside:
            process.kill()
            process.wait()


@contextmanager
def opened(folder: Path, job: str) -> Iterator[Terminal]:
    """A terminal in which this job is run, which is not left behind. In the end its screen is printed,
    with the folder as `~`."""
    terminal = Terminal(folder)
    try:
        yield terminal
    finally:
        terminal.close()
        for supervisor in re.findall(rf"^job {job}: process (\d+)", terminal.screen, re.MULTILINE):
            with suppress(ProcessLookupError):
                os.kill(int(supervisor), signal.SIGKILL)
        holder = read_holder(folder / ".tidegate" / job)
        for process in [] if holder is None else in_session(holder.process):
            os.kill(process, signal.SIGKILL)
        (folder / "session.txt").write_text(terminal.screen)
        print(f"\n{terminal.screen.replace(str(folder), '~')}")


def shows(seen: tuple[int, str], *wanted: str, code: int = 0) -> bool:
    """Whether a line ended with this code and printed what matches each of these."""
    found = [each for each in wanted if not re.search(each, seen[1], re.MULTILINE)]
    assert (seen[0], found) == (code, []), seen[1]
    return True

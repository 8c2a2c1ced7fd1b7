"""What is seen by who runs an example and operates it from a second terminal: `pytest -m more -s` shows it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.jobs.under_run import in_session
from tests.support.archive import using_options
from tidegate.checkpoints.locks import read_holder

EXAMPLE = Path(__file__).parents[2] / "examples" / "checkpoint_config.py"
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
            **({"JDK_JAVA_OPTIONS": options} if (options := using_options()) else {}),
        }
        self._beside: list[subprocess.Popen[bytes]] = []

    def type(self, line: str) -> tuple[int, str]:
        """A line's exit code, and what it prints on both streams."""
        done = subprocess.run(
            shlex.split(line),
            cwd=self.folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=200,
        )
        ended = f"[exit code {done.returncode}]\n" if done.returncode else ""
        self.screen += f"$ {line}\n{done.stdout}{ended}\n"
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


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    shutil.copy(EXAMPLE, tmp_path)
    opened = Terminal(tmp_path)
    try:
        yield opened
    finally:
        opened.close()
        for supervisor in re.findall(r"^job counts: process (\d+)", opened.screen, re.MULTILINE):
            with suppress(ProcessLookupError):
                os.kill(int(supervisor), signal.SIGKILL)
        holder = read_holder(tmp_path / ".tidegate" / "counts")
        for process in [] if holder is None else in_session(holder.process):
            os.kill(process, signal.SIGKILL)
        (tmp_path / "session.txt").write_text(opened.screen)
        print(f"\n{opened.screen}")


@pytest.mark.more
def test_the_first_example_is_run_looked_at_asked_stopped_and_canceled(terminal: Terminal):
    port = _free_port()
    run = f"tidegate run -d checkpoint_config.py --port {port}"
    terminal.type_beside(f"python checkpoint_config.py --feed --port {port}")

    assert shows(terminal.type("tidegate list"), "0 of 0 jobs in")
    assert shows(terminal.type("tidegate check"), r"^OK +Java", r"^OK +storage")
    assert shows(terminal.type(run), r"^job counts: process \d+, log .+")

    assert shows(terminal.type("tidegate checkpoint counts"), "done", r"words: epoch \d+ is done")
    assert shows(terminal.type("tidegate list"), r"counts +RUNNING")
    assert shows(terminal.type("tidegate info counts"), "RUNNING", r"words +lines +table", r"^retained \d")
    assert shows(terminal.type("tidegate txn ls counts"), "nothing waits|in use")
    assert shows(terminal.type(run), "TG-SUPERVISOR-ALIVE", code=4)
    assert shows(terminal.type("tidegate info count"), "TG-JOB-UNKNOWN", "did you mean counts", code=3)

    assert shows(terminal.type("tidegate stop counts"), "stop counts: done")
    assert shows(terminal.type("tidegate list -a"), r"counts +STOPPED")
    assert shows(terminal.type("tidegate stop counts"), "not running", code=4)
    assert shows(terminal.type("tidegate txn ls"), "nothing waits")

    assert shows(terminal.type(run), "^job counts: process")
    assert shows(terminal.type("tidegate checkpoint counts"), "done")
    assert shows(terminal.type("tidegate cancel counts"), "cancel counts: done")
    assert shows(terminal.type("tidegate list -a"), r"counts +CANCELED")
    assert shows(terminal.type("tidegate history counts -n 5"), r"words +\d+ +\d+")
    assert "Traceback" not in terminal.screen


def shows(seen: tuple[int, str], *wanted: str, code: int = 0) -> bool:
    """Whether a line ended with this code and printed what matches each of these."""
    found = [each for each in wanted if not re.search(each, seen[1], re.MULTILINE)]
    assert (seen[0], found) == (code, []), seen[1]
    return True


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])

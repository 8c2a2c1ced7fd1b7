"""What is seen by who runs an example and operates it from a second terminal: `pytest -m more -s` shows it."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.terminal import Terminal, opened, shows

EXAMPLE = Path(__file__).parents[2] / "examples" / "checkpoint_config.py"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    shutil.copy(EXAMPLE, tmp_path)
    with opened(tmp_path, "counts") as terminal:
        yield terminal


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


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])

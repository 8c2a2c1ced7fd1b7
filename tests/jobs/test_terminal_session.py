"""What is seen by who runs an example and operates it from a second terminal: `pytest -m more -s` shows it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.terminal import Terminal, opened, shows
from tests.support.line_server import LineServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "savepoint.py"


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    shutil.copy(EXAMPLE, tmp_path)
    with opened(tmp_path, "words") as terminal:
        yield terminal


@pytest.fixture
def server() -> Iterator[LineServer]:
    with LineServer(lines_per_second=50) as server:
        yield server


@pytest.mark.more
@pytest.mark.timeout(600)
def test_the_first_example_is_run_looked_at_asked_stopped_and_canceled(terminal: Terminal, server: LineServer):
    run = f"tidegate run -d savepoint.py --port {server.port}"

    assert shows(terminal.type("tidegate list"), "0 of 0 jobs in")
    assert shows(terminal.type("tidegate check"), r"^OK +Java", r"^OK +storage")
    assert shows(terminal.type(run), r"^job words: process \d+, log .+")

    assert shows(terminal.type("tidegate checkpoint words"), "done", r"counts: epoch \d+ is done")
    assert shows(terminal.type("tidegate list"), r"words +RUNNING")
    assert shows(terminal.type("tidegate info words"), "RUNNING", r"counts +lines +table", r"^retained \d")
    assert shows(terminal.type("tidegate txn ls words"), "nothing waits|in use")
    assert shows(terminal.type(run), "TG-SUPERVISOR-ALIVE", code=4)
    assert shows(terminal.type("tidegate info word"), "TG-JOB-UNKNOWN", "did you mean words", code=3)

    assert shows(terminal.type("tidegate stop words"), "stop words: done")
    assert shows(terminal.type("tidegate list -a"), r"words +STOPPED")
    assert shows(terminal.type("tidegate stop words"), "not running", code=4)
    assert shows(terminal.type("tidegate txn ls"), "nothing waits")

    assert shows(terminal.type(run), "^job words: process")
    assert shows(terminal.type("tidegate checkpoint words"), "done")
    assert shows(terminal.type("tidegate cancel words"), "cancel words: done")
    assert shows(terminal.type("tidegate list -a"), r"words +CANCELED")
    assert shows(terminal.type("tidegate history words -n 5"), r"counts +\d+ +\d+")
    assert "Traceback" not in terminal.screen

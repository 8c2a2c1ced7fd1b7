"""`tidegate run --ui`: its page shows the job over the death of a driver, and ends with the supervisor."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.under_run import NUMBERS, UnderRun, wait_until, write
from tests.support.driver import PYTHON_PATH

pytestmark = pytest.mark.more


def test_the_page_outlives_a_driver_and_ends_with_the_job(tmp_path: Path) -> None:
    write(tmp_path, 0, 2)
    options = ["--ui", "-D", "ui.port=0", "-D", "restart.strategy=fixed-delay"]
    with UnderRun(tmp_path, "forever", program=NUMBERS, options=options) as run:
        first = run.new_driver()
        wait_until(lambda: "page: " in run.tail(), "its page", run)
        url = next(line for line in run.tail().splitlines() if line.startswith("page: ")).split()[1]
        wait_until(lambda: _states(url) == ["RUNNING"], "the job on the page", run)
        os.kill(first, signal.SIGKILL)
        run.new_driver(first)
        wait_until(lambda: _states(url) == ["RUNNING"], "the next driver on the page", run)
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 0
        with pytest.raises(OSError, match="refused"):
            _states(url)


def test_in_the_background_the_command_prints_the_token_and_the_log_has_none_of_it(tmp_path: Path) -> None:
    write(tmp_path, 0, 1)
    command = [sys.executable, "-m", "tidegate.cli.main", "run", "-d", "--ui", "-D", "ui.port=0", str(NUMBERS)]
    started = subprocess.run(
        [*command, str(tmp_path), "forever"],
        env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert started.returncode == 0, started.stderr
    running, page = started.stdout.splitlines()
    process = int(running.split("process ")[1].split(",")[0])
    try:
        url, token = page.split()[1::2]
        assert _states(url) == ["RUNNING"]
        asked = urllib.request.Request(f"{url}access", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(asked, timeout=20) as answer:
            assert json.load(answer)["may_act"] is True
    finally:
        os.kill(process, signal.SIGTERM)
        end = time.monotonic() + 60.0
        while os.path.exists(f"/proc/{process}/stat") and time.monotonic() < end:
            time.sleep(0.1)
    logs = list((tmp_path / "checkpoints" / "numbers" / "logs").iterdir())
    assert logs
    assert [log.name for log in logs if token in log.read_text(errors="replace")] == []


def _states(url: str) -> list[Any]:
    with urllib.request.urlopen(f"{url}jobs/cards", timeout=20) as answer:
        return [job["state"] for job in json.load(answer)["jobs"]]

"""`tidegate run --ui`: its page shows the job over the death of a driver, and ends with the supervisor."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.under_run import NUMBERS, UnderRun, wait_until, write

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


def _states(url: str) -> list[Any]:
    with urllib.request.urlopen(f"{url}jobs/cards", timeout=20) as answer:
        return [job["state"] for job in json.load(answer)["jobs"]]

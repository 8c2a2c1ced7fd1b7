"""`tidegate run`, struck twenty times at random: driver, JVM and Python workers. The supervisor alone is spared."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from tests.jobs.under_run import UnderRun, in_session, processes, table, wait_until, write

KILLS = 20
SEED = 7
OPTIONS = ["-D", "restart.exponential.initial=100ms", "-D", "restart.exponential.max=1s"]


@pytest.mark.more
@pytest.mark.timeout(1800)
def test_twenty_kills_lose_and_repeat_nothing_and_leave_nothing_behind(tmp_path: Path):
    chance = random.Random(SEED)
    kills: Counter[str] = Counter()
    written = 0
    with UnderRun(tmp_path, "for-ever", options=OPTIONS) as run:
        while kills.total() < KILLS:
            write(tmp_path, written, 4)
            written += 4
            expected = written - chance.randrange(4)
            wait_until(lambda: len(table(tmp_path)) >= expected, f"{expected} rows, {kills}", run, 180)  # noqa: B023
            time.sleep(chance.random())
            struck = strike(run, chance.choice(["driver", "JVM", "worker"]))
            kills.update([struck] if struck else [])
        wait_until(lambda: len(table(tmp_path)) >= written, "all rows", run, 180)
        run.new_driver()
        run.process.send_signal(signal.SIGTERM)
        assert run.wait() == 0, run.tail()
        assert {session: in_session(session) for session in run.sessions if in_session(session)} == {}
        left = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True).stdout
        assert [line for line in left.splitlines() if str(tmp_path) in line and "pytest" not in line] == []
        failures = run.failures()
    assert table(tmp_path) == list(range(written))
    assert len(failures) == run.log.read_text(errors="replace").count("\nrestart of "), "each restart is in the history"
    assert Counter(failure.code for failure in failures)["TG-DRIVER-DIED"] >= kills["driver"]
    assert len(failures) >= kills["driver"] + kills["JVM"]
    print(dict(kills), Counter(failure.code for failure in failures))


def strike(run: UnderRun, target: str) -> str | None:
    """SIGKILL to the driver's Python, its JVM or one of the Python workers; None when it was not there."""
    driver = run.new_driver()
    found = {
        "driver": [driver],
        "JVM": processes(driver, "java"),
        "worker": processes(driver, "pyspark.daemon") or processes(driver, "pyspark/daemon"),
    }[target]
    for process in found[-1:]:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
            return target
    return None

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

from tests.integration.test_socket import in_order_within, lines_in_the_log
from tests.jobs.test_savepoint_example import EXAMPLE, counts, words_in
from tests.jobs.under_run import UnderRun, in_session, processes, table, wait_until, write
from tests.support.line_server import LineServer
from tidegate.operate.failures import read_failures

KILLS = 20
SEED = 7
TARGETS = ("driver", "JVM", "writer", "reader")
WORKER_DAEMON, SPARKS_DAEMON = "tidegate.spark.worker_daemon", "pyspark.daemon"
"""Tasks of a session that tidegate has opened are computed in workers of the first; Python sources read in Spark's."""
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
            struck = strike(run, chance.choice(TARGETS))
            kills.update([struck] if struck else [])
        wait_until(lambda: len(table(tmp_path)) >= written, "all rows", run, 180)
        stop_and_leave_nothing(run)
    assert table(tmp_path) == list(range(written))
    every_restart_is_in_the_history(run, tmp_path / "checkpoints" / "numbers", kills)


@pytest.mark.more
@pytest.mark.timeout(1800)
def test_an_example_is_killed_twenty_times_and_counts_every_word_that_arrived_once(tmp_path: Path):
    """It counts the words of a socket; what has arrived stands in its ingest log."""
    chance = random.Random(SEED)
    kills: Counter[str] = Counter()
    folder = tmp_path / ".tidegate" / "words"
    log = folder / "ingest" / "lines"
    with LineServer(lines_per_second=50) as server:
        arguments, options = ["--port", str(server.port)], [*OPTIONS, "-D", "restart.exponential.attempts=1000"]
        with UnderRun(tmp_path, *arguments, program=EXAMPLE, options=options, is_told_its_folder=False) as run:
            while kills.total() < KILLS:
                before = counts(tmp_path).total()
                wait_until(lambda: counts(tmp_path).total() > before, f"new words, {kills}", run, 180)  # noqa: B023
                time.sleep(chance.random())
                struck = strike(run, chance.choice(TARGETS))
                kills.update([struck] if struck else [])
            before = counts(tmp_path).total()
            wait_until(lambda: counts(tmp_path).total() > before, f"new words, {kills}", run, 180)
            server.fall_silent()
            time.sleep(1)
            wait_until(lambda: counts(tmp_path) == words_in(log), "every word that arrived", run, 180)
            time.sleep(2)  # for an epoch more, which would count again
            stop_and_leave_nothing(run)
        assert counts(tmp_path) == words_in(log), "nothing came behind it"
        assert in_order_within(lines_in_the_log(log), server.sent)
    every_restart_is_in_the_history(run, folder, kills)


def stop_and_leave_nothing(run: UnderRun) -> None:
    run.new_driver()
    run.process.send_signal(signal.SIGTERM)
    assert run.wait() == 0, run.tail()
    assert {session: in_session(session) for session in run.sessions if in_session(session)} == {}
    left = subprocess.run(["ps", "-eo", "args="], capture_output=True, text=True, check=True).stdout
    assert [line for line in left.splitlines() if str(run.folder) in line and "pytest" not in line] == []


def every_restart_is_in_the_history(run: UnderRun, folder: Path, kills: Counter[str]) -> None:
    failures = read_failures(folder)
    assert len(failures) == run.log.read_text(errors="replace").count("\nrestart of ")
    assert Counter(failure.code for failure in failures)["TG-DRIVER-DIED"] >= kills["driver"]
    assert len(failures) >= kills["driver"] + kills["JVM"]
    print(dict(kills), Counter(failure.code for failure in failures))


def strike(run: UnderRun, target: str) -> str | None:
    """SIGKILL to the driver's Python, its JVM or a Python worker that writes or reads; None when it was not there."""
    driver = run.new_driver()
    found = {
        "driver": [driver],
        "JVM": processes(driver, "java"),
        "writer": processes(driver, WORKER_DAEMON) or processes(driver, SPARKS_DAEMON),
        "reader": processes(driver, SPARKS_DAEMON),
    }[target]
    for process in found[-1:]:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
            return target
    return None

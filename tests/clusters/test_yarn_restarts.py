"""Inside YARN the restart strategy decides when a job is given up: its attempts count those before them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import hdfs_native
import pytest

from tests.clusters.test_standalone import COMMAND
from tests.storages.test_remote_jobs import write_input
from tests.support.driver import Driver
from tests.support.yarn import YarnServer
from tidegate import operate
from tidegate.disk.strike_folder import StrikeFolder
from tidegate.operate import State

PROGRAM = Path(__file__).with_name("files_program.py")
RESTARTS = 2
DELAY_SECONDS = 3.0
LEASE_SECONDS = 20.0

pytestmark = [pytest.mark.more, pytest.mark.cluster, pytest.mark.timeout(1500)]


def test_a_job_that_is_killed_at_each_start_is_given_up_after_as_many_restarts_as_its_strategy_allows(
    yarn: YarnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster's own bound on attempts is lower. The history says why, and nothing of the application is left."""
    for name, value in yarn.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TIDEGATE_TESTING", "1")
    monkeypatch.setenv("TIDEGATE_STRIKES", str(tmp_path / "strikes"))
    strikes = StrikeFolder(tmp_path / "strikes")
    for number in range(RESTARTS + 2):
        strikes.post(str(number), "run.before=crash")
    checkpoints = f"{yarn.hdfs.uri}/{tmp_path.name}/checkpoints"
    write_input(checkpoints)
    strategy = ("restart.strategy=fixed-delay", f"restart.fixed_delay.attempts={RESTARTS}")
    settings = (*strategy, f"restart.fixed_delay.delay={DELAY_SECONDS}s", f"lease.timeout={LEASE_SECONDS}s")
    defined = [word for each in settings for word in ("-D", each)]
    run = ("run", "--master", "yarn", "--deploy-mode", "cluster", *defined, str(PROGRAM), checkpoints)
    with Driver(COMMAND, *run, log=tmp_path / "log") as driver:
        assert driver.wait(1200) == 1, f"{driver.tail()}\n{yarn.logs()}"
    newest = max(each["id"] for each in yarn.applications())
    assert f"{newest}: ended: FAILED" in driver.tail()
    assert [strikes.taken_by(str(number)) is not None for number in range(RESTARTS + 2)] == [True] * 3 + [False]
    failures = operate.open(checkpoints, "words").history(100).failures[::-1]
    assert [each.code for each in failures] == ["TG-DRIVER-DIED"] * (RESTARTS + 1)
    assert [each.restart_in_seconds for each in failures] == [DELAY_SECONDS] * RESTARTS + [None]
    assert [each.where.rpartition(" of ")[0] for each in failures] == [
        f"job words, application attempt {number}" for number in range(1, RESTARTS + 2)
    ]
    assert all(later.at - each.at > DELAY_SECONDS for each, later in pairwise(failures))
    (job,) = operate.jobs(checkpoints)
    assert job.state is State.FAILED
    assert f"restart.strategy: fixed-delay, {RESTARTS} attempts" in printed("info", "words", "--dir", checkpoints)
    shown = json.loads(printed("history", "words", "--dir", checkpoints, "--json"))
    assert [each["code"] for each in shown["failures"]] == ["TG-DRIVER-DIED"] * (RESTARTS + 1)
    assert left_of(yarn, newest) == []


def printed(*arguments: str) -> str:
    """What a command prints; it must end well."""
    command = [sys.executable, str(COMMAND), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout


def left_of(yarn: YarnServer, application: str) -> Sequence[str]:
    """The files that were sent with the program."""
    found = hdfs_native.Client(yarn.hdfs.uri).list_status("/user", recursive=True)
    return [each.path for each in found if f"/{application}/" in each.path]

"""A job on YARN: the driver runs here, the executors in containers, the checkpoints are on HDFS."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import hdfs_native
import pytest

from tests.clusters.test_standalone import COMMAND, NUMBERS, PROGRAM, ROWS_AT_MOST, counts_of, rows_of
from tests.support.driver import Driver
from tests.support.today import turn
from tests.support.yarn import YarnServer
from tidegate import operate
from tidegate.disk.strike_folder import StrikeFolder
from tidegate.operate import State
from tidegate.testing.kafka import Broker
from tidegate.testing.kafka.topics import TopicRecord, make_topic, produce

LAST_EPOCH = NUMBERS // ROWS_AT_MOST - 1


@turn(0, of=4)
@pytest.mark.timeout(600)
def test_a_job_on_yarn_is_exact_when_its_driver_is_killed(
    yarn: YarnServer, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It works as the user of HADOOP_USER_NAME, in the driver and in the executors."""
    for folder in ("/user/flink", f"/{tmp_path.name}"):
        make_writable(yarn, folder)
    monkeypatch.setenv("HADOOP_USER_NAME", "flink")
    for name, value in yarn.environment.items():
        monkeypatch.setenv(name, value)
    numbers, copies, counts = (make_topic(broker.servers, 2) for _ in range(3))
    produce(broker.servers, numbers, [TopicRecord(str(number).encode()) for number in range(NUMBERS)])
    checkpoints = f"{yarn.hdfs.uri}/{tmp_path.name}"
    run = ("run", "--master", "yarn", str(PROGRAM), broker.servers, numbers, copies, counts, checkpoints)
    log = tmp_path / "log"
    monkeypatch.setenv("TIDEGATE_STRIKES", str(tmp_path / "strikes"))
    StrikeFolder(tmp_path / "strikes").post("once", "prepared.before@1=crash")
    with Driver(COMMAND, *run, log=log) as driver:
        assert driver.wait(400) == 0, f"{driver.tail()}\n{yarn.logs()}"
    newest = max(each["id"] for each in yarn.applications())
    assert operate.open_anywhere(tmp_path, "cluster", newest).folder == f"{checkpoints}/cluster"
    is_exact(broker, copies, counts)
    files = hdfs_native.Client(yarn.hdfs.uri).list_status(f"/{tmp_path.name}", recursive=True)
    assert {each.owner for each in files} == {"flink"}


@pytest.mark.more
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_driver_inside_yarn_that_is_killed_is_started_again_by_yarn(
    yarn: YarnServer, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Submitted as with Flink; the application is followed until its end."""
    for name, value in yarn.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TIDEGATE_TESTING", "1")
    monkeypatch.setenv("TIDEGATE_STRIKES", str(tmp_path / "strikes"))
    StrikeFolder(tmp_path / "strikes").post("once", "prepared.before@1=crash")
    numbers, copies, counts = (make_topic(broker.servers, 2) for _ in range(3))
    produce(broker.servers, numbers, [TopicRecord(str(number).encode()) for number in range(NUMBERS)])
    checkpoints = f"{yarn.hdfs.uri}/{tmp_path.name}"
    line = ("run-application", "-t", "yarn-application", "-Dstate.backend=rocksdb", "-c", "Main", str(PROGRAM))
    with Driver(COMMAND, *line, broker.servers, numbers, copies, counts, checkpoints, log=tmp_path / "log") as driver:
        assert driver.wait(500) == 0, f"{driver.tail()}\n{yarn.logs()}"
    assert StrikeFolder(tmp_path / "strikes").taken_by("once") is not None
    newest = max(each["id"] for each in yarn.applications())
    assert f"{newest}: ended: SUCCEEDED" in driver.tail()
    assert operate.open(checkpoints, "cluster").runs_on_yarn(newest)
    is_exact(broker, copies, counts)


@pytest.mark.more
@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_a_job_inside_yarn_is_left_alone_and_stopped_by_its_application(
    yarn: YarnServer, broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command that submits it ends at once. The others find the job by its folder, or by its application."""
    for name, value in yarn.environment.items():
        monkeypatch.setenv(name, value)
    topics = [make_topic(broker.servers, 2) for _ in range(3)]
    produce(broker.servers, topics[0], [TopicRecord(str(number).encode()) for number in range(NUMBERS)])
    checkpoints = f"{yarn.hdfs.uri}/{tmp_path.name}"
    program = (str(PROGRAM), broker.servers, *topics, checkpoints, "for ever")
    submitted = tidegate("run", "-d", "--master", "yarn", "--deploy-mode", "cluster", "--json", *program)
    application = json.loads(submitted)["application"]
    wait_until(lambda: states(checkpoints) == [State.RUNNING], yarn)
    (job,) = operate.jobs(checkpoints)
    client = operate.open(checkpoints, job.job_id)
    wait_until(lambda: [each.finished for each in client.info().queries] == [LAST_EPOCH] * 2, yarn)
    assert f"spark    {application}" in tidegate("info", job.job_id, "--dir", checkpoints)
    tidegate("stop", job.job_id, "-yid", application)
    assert states(checkpoints) == [State.STOPPED]
    wait_until(
        lambda: [each["state"] for each in yarn.applications() if each["id"] == application] == ["FINISHED"], yarn
    )
    is_exact(broker, *topics[1:])


def tidegate(*arguments: str) -> str:
    """What the command prints; it must end well."""
    command = [sys.executable, str(COMMAND), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def states(checkpoints: str) -> list[State]:
    return [each.state for each in operate.jobs(checkpoints)]


def wait_until(holds: Callable[[], bool], yarn: YarnServer) -> None:
    end = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end, yarn.logs()
        time.sleep(0.5)


def make_writable(yarn: YarnServer, folder: str) -> None:
    """Make a folder of HDFS in which every user may write."""
    client = hdfs_native.Client(yarn.hdfs.uri)
    client.mkdirs(folder, create_parent=True)
    client.set_permission(folder, 0o777)


def is_exact(broker: Broker, copies: str, counts: str) -> None:
    assert sorted(int(row["number"]) for row in rows_of(broker, copies)) == list(range(NUMBERS))
    assert counts_of(rows_of(broker, counts)) == {str(digit): NUMBERS // 10 for digit in range(10)}

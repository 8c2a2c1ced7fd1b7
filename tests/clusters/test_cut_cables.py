"""A driver and its executors on several machines, and the network between them is cut for a while."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storages.test_remote_jobs import FILES, counts, write_input
from tests.support.driver import Driver
from tests.support.hdfs import HdfsServer
from tests.support.machines import Machines
from tests.support.remote_files import staged
from tests.support.standalone import StandaloneCluster, WorkerPlace
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("files_program.py")
CUT_SECONDS = 20.0
"""Longer than `spark.network.timeout`: the driver gives its executor up, which lives."""

pytestmark = [pytest.mark.more, pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster(machines: Machines, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """The driver is on the first machine, one worker on the second, and one beside the master."""
    first, second = machines
    defaults = {
        "spark.driver.host": first.address,
        "spark.driver.bindAddress": first.address,
        "spark.network.timeout": "8s",
        "spark.network.timeoutInterval": "2s",
        "spark.executor.heartbeatInterval": "2s",
        "spark.storage.blockManagerHeartbeatTimeoutMs": "8s",
    }
    workers = (WorkerPlace(machines.address), WorkerPlace(second.address, second))
    cluster = StandaloneCluster(tmp_path_factory.mktemp("standalone"), machines.address, workers, defaults)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.parametrize("point", ["prepared.before@1", "decision.before@1", "commit.before@1"])
def test_a_job_is_exact_when_an_executor_is_cut_off_and_comes_back(
    machines: Machines,
    cluster: StandaloneCluster,
    hdfs_for_machines: HdfsServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
) -> None:
    first, second = machines
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SPARK_LOCAL_IP", first.address)
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--master {cluster.url} pyspark-shell")
    checkpoints = f"{hdfs_for_machines.uri}/{tmp_path.name}/checkpoints"
    write_input(checkpoints)
    log = tmp_path / "log"
    with Driver(PROGRAM, checkpoints, log=log, failpoints=f"{point}=pause", machine=first) as driver:
        driver.wait_until_stopped()
        second.cut()
        try:
            os.kill(driver.process.pid, signal.SIGCONT)
            time.sleep(CUT_SECONDS)
        finally:
            second.mend()
        assert driver.wait() == 0, f"{driver.tail()}\n{cluster.logs()}"
    assert counts(checkpoints) == [{"sea": 2 * (number + 1), "bay": number + 1} for number in range(FILES)]
    assert staged(Folder.of(f"{checkpoints}-out")) == []

"""Executors that a cluster takes away and gives again, while a job runs on them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.clusters.test_cut_cables import PROGRAM
from tests.storages.test_remote_jobs import FILES, counts, write_input
from tests.support.driver import Driver
from tests.support.hdfs import HdfsServer
from tests.support.remote_files import staged
from tests.support.standalone import StandaloneCluster
from tidegate.storages.schemes import Folder

BOUND_SECONDS = 60.0
POINTS = ["prepared.before@1", "commit.before@1"]

pytestmark = [pytest.mark.more, pytest.mark.cluster, pytest.mark.timeout(400)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[StandaloneCluster]:
    """Of a test's own: a worker that was told to leave does not come back."""
    cluster = StandaloneCluster(tmp_path / "standalone")
    cluster.folder.mkdir()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.parametrize("point", POINTS)
def test_a_job_is_exact_when_the_cluster_takes_all_idle_executors_and_gives_new_ones(
    cluster: StandaloneCluster, hdfs: HdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    conf = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "0",
        "spark.dynamicAllocation.executorIdleTimeout": "2s",
        "spark.dynamicAllocation.shuffleTracking.timeout": "2s",
        "spark.dynamicAllocation.cachedExecutorIdleTimeout": "2s",
        "spark.dynamicAllocation.schedulerBacklogTimeout": "1s",
    }

    def until_none_is_left() -> None:
        assert wait_for(lambda: not cluster.executors()), f"still there: {cluster.executors()}"

    stays_exact(cluster, hdfs, tmp_path, monkeypatch, point, conf, until_none_is_left)


@pytest.mark.parametrize("point", POINTS)
def test_a_job_is_exact_when_a_machine_of_its_cluster_is_decommissioned(
    cluster: StandaloneCluster, hdfs: HdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    conf = {"spark.decommission.enabled": "true", "spark.storage.decommission.enabled": "true"}

    def until_it_has_left() -> None:
        executor = cluster.decommission_worker()
        assert wait_for(lambda: executor not in cluster.executors()), f"still there: {executor}"

    stays_exact(cluster, hdfs, tmp_path, monkeypatch, point, conf, until_it_has_left)


def stays_exact(
    cluster: StandaloneCluster,
    hdfs: HdfsServer,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    conf: dict[str, str],
    meanwhile: Callable[[], None],
) -> None:
    """`meanwhile` happens while the driver is stopped in the middle of an epoch."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    options = " ".join(f"--conf {name}={value}" for name, value in conf.items())
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--master {cluster.url} {options} pyspark-shell")
    checkpoints = f"{hdfs.uri}/{folder.name}/checkpoints"
    write_input(checkpoints)
    with Driver(PROGRAM, checkpoints, log=folder / "log", failpoints=f"{point}=pause") as driver:
        driver.wait_until_stopped()
        meanwhile()
        os.kill(driver.process.pid, signal.SIGCONT)
        assert driver.wait() == 0, f"{driver.tail()}\n{cluster.logs()}"
    assert counts(checkpoints) == [{"sea": 2 * (number + 1), "bay": number + 1} for number in range(FILES)]
    assert staged(Folder.of(f"{checkpoints}-out")) == []


def wait_for(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + BOUND_SECONDS
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True

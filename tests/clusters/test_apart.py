"""A cluster whose executors have no disk in common with the driver: what Spark's tasks read and write of savepoints and
restores is on the job's storage.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storages.test_remote_jobs import counts
from tests.support.driver import Driver
from tests.support.hdfs import HdfsServer
from tests.support.machines import OtherDisk
from tests.support.s3 import S3Server
from tests.support.standalone import StandaloneCluster, WorkerPlace
from tidegate.savepoints.scratch import FOR_TASKS, left_by_drivers
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("apart_program.py")

pytestmark = [pytest.mark.more, pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def unseen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that executors do not see."""
    return tmp_path_factory.mktemp("unseen")


@pytest.fixture(scope="module")
def apart(unseen: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    """A cluster with one worker."""
    try:
        subprocess.run(OtherDisk(unseen).command(["true"]), check=True, capture_output=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no mount namespaces for tests: {error}")
    place = WorkerPlace("127.0.0.1", OtherDisk(unseen))
    cluster = StandaloneCluster(tmp_path_factory.mktemp("apart"), workers=(place, place))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def test_a_canonical_savepoint_is_taken_and_restored(
    apart: StandaloneCluster, unseen: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on(apart, unseen, str(s3.folder()), monkeypatch, "canonical", "2", "whole")


def test_state_is_divided_among_other_partitions(
    apart: StandaloneCluster, unseen: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on(apart, unseen, str(s3.folder()), monkeypatch, "native", "3", "whole")


def test_a_job_resumes_from_positions_with_empty_state(
    apart: StandaloneCluster, unseen: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on(apart, unseen, str(s3.folder()), monkeypatch, "native", "2", "offsets-only")


def test_the_same_on_hdfs(
    apart: StandaloneCluster, unseen: Path, hdfs: HdfsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A canonical savepoint, into other partitions: the custom state in it is divided, the rest is written anew."""
    goes_on(apart, unseen, f"{hdfs.uri}/apart/checkpoints", monkeypatch, "canonical", "3", "whole")


def goes_on(
    cluster: StandaloneCluster, unseen: Path, checkpoints: str, patch: pytest.MonkeyPatch, *wanted: str
) -> None:
    for name, value in cluster.environment.items():
        patch.setenv(name, value)
    patch.setenv("PYSPARK_SUBMIT_ARGS", f"--master {cluster.url} pyspark-shell")
    folder = unseen / "-".join(wanted)
    (folder / "tmp").mkdir(parents=True)
    patch.setenv("TMPDIR", str(folder / "tmp"))
    with Driver(PROGRAM, checkpoints, str(folder / "saved"), *wanted, log=folder / "log") as driver:
        assert driver.wait(800) == 0, f"{driver.tail()}\n{cluster.logs()}"
    seen = [{"sea": 2, "bay": 1}, {"sea": 2, "bay": 1} if wanted[-1] == "offsets-only" else {"sea": 4, "bay": 2}]
    assert [counts(checkpoints), counts(f"{checkpoints}-custom")] == [seen, seen]
    job = Folder.of(checkpoints) / "words"
    assert left_by_drivers(job) == []
    assert all(
        FOR_TASKS not in open_storage(job / "queries" / uid / "g2").folders("") for uid in ("counts", "custom", "none")
    )

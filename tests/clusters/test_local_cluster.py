"""`local-cluster`: executors are processes of this machine, and the job's folder is on a storage off a disk."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pyspark
import pytest

from tests.clusters.test_standalone import COMMAND
from tests.storages.test_remote_jobs import FILES, counts, write_input
from tests.support.driver import Driver
from tests.support.hdfs import HdfsServer
from tests.support.remote_files import staged
from tests.support.s3 import S3Server
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("files_program.py")

pytestmark = [pytest.mark.more, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark keeps the files of its executors in `work` of its installation: here, in one of the test's own."""
    home = tmp_path / "spark"
    home.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    (home / "work").unlink(missing_ok=True)
    monkeypatch.setenv("SPARK_HOME", str(home))


def test_a_job_on_hdfs_is_exact(hdfs: HdfsServer, tmp_path: Path) -> None:
    is_exact_after_a_kill(f"{hdfs.uri}/{tmp_path.name}/checkpoints", tmp_path)


def test_a_job_on_s3_is_exact(s3: S3Server, tmp_path: Path) -> None:
    is_exact_after_a_kill(str(s3.folder() / "checkpoints"), tmp_path)


def is_exact_after_a_kill(checkpoints: str, folder: Path) -> None:
    """The driver is killed with its executors; the next one is that of `tidegate run`."""
    write_input(checkpoints)
    conf = ("spark.executor.memory=512m", "spark.ui.enabled=false", "spark.driver.host=127.0.0.1")
    options = [word for each in conf for word in ("--conf", each)]
    run = ("run", "--master", "local-cluster[2,1,512]", *options, "-D", "lease.timeout=6s", str(PROGRAM), checkpoints)
    with Driver(COMMAND, *run, log=folder / "log", failpoints="decision.before@1=pause") as killed:
        os.kill(killed.wait_until_stopped(), signal.SIGKILL)
        assert killed.wait(400) == 0, killed.tail()
    assert "TG-DRIVER-DIED" in killed.tail(20_000)
    assert counts(checkpoints) == [{"sea": 2 * (number + 1), "bay": number + 1} for number in range(FILES)]
    assert staged(Folder.of(f"{checkpoints}-out")) == []

"""`local-cluster`: executors are processes of this machine, and the job's folder is on a storage off a disk."""

from __future__ import annotations

from pathlib import Path

import pyspark
import pytest

from tests.clusters.test_standalone import COMMAND
from tests.storages.test_remote_jobs import FILES, counts, write_input
from tests.support.driver import Driver
from tests.support.hdfs import HdfsServer
from tests.support.remote_files import staged
from tests.support.s3 import S3Server
from tidegate.disk.strike_folder import StrikeFolder
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("files_program.py")

pytestmark = [pytest.mark.more, pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture(autouse=True)
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark keeps the files of its executors in `work` of its installation: here, in one of the test's own."""
    home = tmp_path / "spark"
    home.mkdir()
    for each in Path(pyspark.__file__).parent.iterdir():
        (home / each.name).symlink_to(each)
    (home / "work").unlink(missing_ok=True)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("TIDEGATE_STRIKES", str(tmp_path / "strikes"))


def test_a_job_on_hdfs_is_exact(hdfs: HdfsServer, tmp_path: Path) -> None:
    is_exact_after_a_kill(f"{hdfs.uri}/{tmp_path.name}/checkpoints", tmp_path)


def test_a_job_on_s3_is_exact(s3: S3Server, tmp_path: Path) -> None:
    is_exact_after_a_kill(str(s3.folder() / "checkpoints"), tmp_path)


def is_exact_after_a_kill(checkpoints: str, folder: Path) -> None:
    """The driver is killed, and its executors with it. `tidegate run` starts the next one."""
    write_input(checkpoints)
    conf = ("spark.executor.memory=512m", "spark.ui.enabled=false", "spark.driver.host=127.0.0.1")
    options = [word for each in conf for word in ("--conf", each)]
    run = ("run", "--master", "local-cluster[2,1,512]", *options, "-D", "lease.timeout=30s", str(PROGRAM), checkpoints)
    StrikeFolder(folder / "strikes").post("once", "decision.before@1=crash")
    with Driver(COMMAND, *run, log=folder / "log") as supervised:
        assert supervised.wait(800) == 0, supervised.tail()
    assert "TG-DRIVER-DIED" in supervised.tail(20_000)
    assert counts(checkpoints) == [{"sea": 2 * (number + 1), "bay": number + 1} for number in range(FILES)]
    assert staged(Folder.of(f"{checkpoints}-out")) == []

"""The disk of an executor is full for a while."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import hdfs_native
import pytest

from tests.jobs.under_run import UnderRun, wait_until
from tests.storages.test_bad_days import QUICKLY, told
from tests.storages.test_remote_jobs import counts, rows_by_word, write_input
from tests.support.hdfs import HdfsServer
from tests.support.remote_files import staged
from tests.support.small_disk import SmallDisk
from tests.support.standalone import StandaloneCluster, WorkerPlace
from tidegate.storages.hdfs.publish import TEMPORARY_SUFFIX
from tidegate.storages.schemes import Folder

PROGRAM = Path(__file__).with_name("files_program.py")
FILES = 16
FULL_SECONDS = 10.0
"""For several restarts of the query."""

pytestmark = [pytest.mark.more, pytest.mark.cluster, pytest.mark.timeout(900)]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with SmallDisk(tmp_path / "disk", megabytes=64) as disk:
        yield disk


@pytest.fixture
def cluster(disk: SmallDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandaloneCluster]:
    """Both workers keep their files on one small disk, and the driver does not."""
    places = [WorkerPlace(address, disk=disk.folder) for address in ("127.0.0.1", "127.0.0.2")]
    cluster = StandaloneCluster(tmp_path / "standalone", workers=places)
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def test_a_job_whose_executors_have_a_full_disk_says_so_and_goes_on_when_there_is_space(
    cluster: StandaloneCluster, disk: SmallDisk, hdfs: HdfsServer, tmp_path: Path
) -> None:
    checkpoints = f"{hdfs.uri}/{tmp_path.name}/checkpoints"
    write_input(checkpoints, range(FILES))
    with under_run(cluster, tmp_path, checkpoints) as run:
        wait_until(lambda: shown(checkpoints, run), "the first counts", run, 300)
        disk.fill()
        wait_until(lambda: told(run, "restart of query counts"), "a restart of the query", run, 240)
        said = error_in(run)
        assert "java.io.IOException: No space left on device" in said["found"]
        assert re.search(r"generation 1, executor \d on 127\.0\.0\.[12]$", said["where"])
        assert re.match(r"make space on 127\.0\.0\.[12]: in Spark's folders there", said["next"])
        time.sleep(FULL_SECONDS)
        disk.empty()
        assert run.wait(400) == 0, f"{run.tail()}\n{cluster.logs()}"
    assert not told(run, "restart of the driver"), run.tail()
    is_exact(checkpoints, hdfs, disk)


def test_a_job_whose_application_the_cluster_has_ended_goes_on_with_another_one(
    cluster: StandaloneCluster, disk: SmallDisk, hdfs: HdfsServer, tmp_path: Path
) -> None:
    """An executor is lost, and none can be started on a full disk: after ten tries the master ends the application."""
    checkpoints = f"{hdfs.uri}/{tmp_path.name}/checkpoints"
    write_input(checkpoints, range(FILES))
    with under_run(cluster, tmp_path, checkpoints) as run:
        wait_until(lambda: shown(checkpoints, run), "the first counts", run, 300)
        disk.fill()
        while cluster.executors():
            cluster.kill_executor()
        wait_until(lambda: told(run, "restart of the driver"), "the end of the driver", run, 100)
        disk.empty()
        assert run.wait(400) == 0, f"{run.tail()}\n{cluster.logs()}"
    is_exact(checkpoints, hdfs, disk)


def test_a_job_does_not_start_while_no_executor_begins_on_a_full_disk_and_says_so(
    cluster: StandaloneCluster, disk: SmallDisk, hdfs: HdfsServer, tmp_path: Path
) -> None:
    checkpoints = f"{hdfs.uri}/{tmp_path.name}/checkpoints"
    write_input(checkpoints, range(2))
    disk.fill()
    with under_run(cluster, tmp_path, checkpoints) as run:
        assert run.wait(200) == 1, run.tail()
    said = run.tail().partition("TG-APPLICATION-ENDED:")[2]
    assert f"spark.master = {cluster.url}" in said, run.tail()
    assert "a full disk" in said
    disk.empty()
    with under_run(cluster, tmp_path, checkpoints) as run:
        assert run.wait(200) == 0, f"{run.tail()}\n{cluster.logs()}"
    is_exact(checkpoints, hdfs, disk, 2)


def under_run(cluster: StandaloneCluster, folder: Path, checkpoints: str) -> UnderRun:
    options = ("--master", cluster.url, *QUICKLY)
    return UnderRun(folder, checkpoints, program=PROGRAM, options=options, is_told_its_folder=False)


def error_in(run: UnderRun) -> dict[str, str]:
    """The parts of the first failed epoch that the run has told."""
    text = run.log.read_text(errors="replace").partition("TG-EPOCH-FAILED:")[2]
    return dict(re.findall(r"^  (found|where|next): +(.*)$", text, re.MULTILINE)[:3])


def is_exact(checkpoints: str, hdfs: HdfsServer, disk: SmallDisk, files: int = FILES) -> None:
    """Every count is there once, and nothing else is left: on the storage, and on the disk of the executors, where
    workers keep empty folders."""
    assert counts(checkpoints) == [{"sea": 2 * (number + 1), "bay": number + 1} for number in range(files)]
    names = [
        each.path for each in hdfs_native.Client(hdfs.uri).list_status(Folder.of(checkpoints).path, recursive=True)
    ]
    assert [name for name in names if name.endswith(TEMPORARY_SUFFIX)] == []
    assert staged(Folder.of(f"{checkpoints}-out")) == []
    end = time.monotonic() + 60
    while left := [each for each in (disk.folder / "local").rglob("*") if each.is_file()]:
        assert time.monotonic() < end, left
        time.sleep(0.1)


def shown(checkpoints: str, run: UnderRun) -> bool:
    run.driver()  # it is ended with the test
    return bool(rows_by_word(checkpoints)["sea"])

"""Folders of a job's storage for tasks that do not see the disk of the driver: none of them stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.hdfs import HdfsServer
from tests.support.s3 import S3Server
from tidegate.checkpoints.succession import begin_job, reserve
from tidegate.core.errors import TidegateError
from tidegate.core.records import JobRecord
from tidegate.disk.durable import storage_error
from tidegate.operate.forgetting import forget
from tidegate.savepoints.scratch import FOR_TASKS, clear, left_by_drivers, remove_left
from tidegate.savepoints.settled import settle
from tidegate.savepoints.take import HELD
from tidegate.spark import task_files
from tidegate.spark.task_files import TaskFiles
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

RECORD = JobRecord(name="job", job_id="0f1e2d3c", generation=1)


def test_a_start_in_a_bucket_removes_what_is_older_than_its_lease(s3: S3Server) -> None:
    removes_what_is_older(s3.folder())


def test_a_start_on_hdfs_removes_what_is_older_than_its_lease(hdfs: HdfsServer) -> None:
    removes_what_is_older(Folder.of(f"{hdfs.uri}/scratch"))


def removes_what_is_older(job: Folder) -> None:
    """It may be paused behind its lease: then its successor takes a savepoint meanwhile."""
    write(job, "dead", "read/state/0/0/1.delta")
    write(job, "dead", "written/_temporary/0/part-0.parquet")
    left = left_by_drivers(job)
    write(job, "successor", "read/state/0/0/1.delta")
    remove_left(left)
    assert [each.name for each in left_by_drivers(job)] == ["successor"]
    remove_left(left_by_drivers(job))
    assert (left_by_drivers(job), open_storage(job).folders(HELD)) == ([], [])


def test_a_job_that_is_forgotten_leaves_none(s3: S3Server) -> None:
    job = s3.folder()
    begin_job(job, RECORD)
    write(job, "dead", "read/state/0/0/1.delta")
    forget(job)
    assert left_by_drivers(job) == []


def test_what_a_killed_restore_leaves_goes_with_its_generation(s3: S3Server) -> None:
    job = s3.folder()
    query = job / "queries/query"
    begin_job(job, RECORD)
    reserve(job, RECORD, replace(RECORD, generation=2))
    open_storage(query / "g2" / FOR_TASKS / "token").replace("state/0/0/1.delta", b"rows")
    settle(job)
    assert open_storage(query).folders("") == []


@pytest.mark.parametrize("work_fails", [False, True])
def test_a_folder_that_cannot_be_removed_is_an_error_and_hides_none_before_it(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work_fails: bool
) -> None:
    """Else a generation that counts would keep the folder."""

    def refuse(folder: Folder) -> None:
        raise storage_error(PermissionError("no right to remove"), Path(folder.path), "clear a folder")

    monkeypatch.setattr(task_files, "clear", refuse)
    (tmp_path / "1.delta").write_bytes(b"rows")
    expected = ZeroDivisionError if work_fails else TidegateError
    with pytest.raises(expected), TaskFiles(s3.folder()).read(tmp_path):
        assert 1 / (not work_fails)


def test_folders_that_sparks_client_has_marked_go_too_and_are_no_files(s3: S3Server) -> None:
    """This store keeps a folder as long as there is a folder in it."""
    job = s3.folder()
    folder = job / HELD / "token"
    for name in ("", "_temporary/", "_temporary/0/"):
        s3.client().put_object(Bucket=folder.authority, Key=f"{folder.path[1:]}/{name}", Body=b"")
    write(job, "token", "part-0.parquet")
    assert [each.name for each in open_checkpoint_files(folder).list()] == ["part-0.parquet"]
    clear(folder)
    assert open_storage(job).folders(HELD) == []


def write(job: Folder, token: str, name: str) -> None:
    open_storage(job / HELD / token).replace(name, b"rows")

"""Savepoints in a bucket: the manifest comes last, and every copy is compared with it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.s3 import S3Server
from tests.support.saved_job import write_job
from tidegate import operate
from tidegate.core.errors import TidegateError
from tidegate.core.records import SavepointFormat
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.elsewhere import brought_here, check_into, take_into, take_last_into
from tidegate.savepoints.folder import MANIFEST, Savepoint
from tidegate.savepoints.take import RunningJob
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

NATIVE = SavepointFormat.NATIVE


def taken(job: RunningJob, into: Folder) -> Savepoint:
    return take_into(job, "first", into, Copying(), NATIVE)


def test_a_savepoint_in_a_bucket_is_listed_verified_brought_back_and_removed(s3: S3Server, tmp_path: Path) -> None:
    job, into = write_job(tmp_path / "job"), s3.folder()
    savepoint = taken(job, into)
    assert savepoint.place == into / "savepoint-0f1e2d3c-first"
    path = str(savepoint.found_at)
    assert [each.path for each in operate.list_savepoints(str(into)).savepoints] == [path]
    assert operate.inspect_savepoint(path).epochs == {"query": 3}
    assert (operate.verify_savepoint(path).problems, taken(job, into)) == ((), savepoint)
    assert not (tmp_path / "job/savepoints-held").exists()
    assert savepoint.place is not None
    brought = brought_here(savepoint.place, tmp_path)
    assert operate.verify_savepoint(str(brought.folder)).problems == ()
    operate.dispose_savepoint(path)
    assert operate.list_savepoints(str(into)).savepoints == ()


def test_a_file_with_other_bytes_is_found_before_a_restore_uses_it(s3: S3Server, tmp_path: Path) -> None:
    savepoint = taken(write_job(tmp_path / "job"), s3.folder())
    assert savepoint.place is not None
    name = savepoint.record.files[0].name
    open_storage(savepoint.place).replace(name, b"other bytes")
    assert [error.where for error in operate.verify_savepoint(str(savepoint.place)).problems] == [
        f"{savepoint.place}/{name}"
    ]
    with pytest.raises(TidegateError) as raised:
        brought_here(savepoint.place, tmp_path)
    assert raised.value.code in ("TG-SAVEPOINT-ALTERED", "TG-SAVEPOINT-INCOMPLETE")


def test_what_a_killed_savepoint_has_left_is_none_and_the_next_one_removes_it(s3: S3Server, tmp_path: Path) -> None:
    job, into = write_job(tmp_path / "job"), s3.folder()
    left = open_storage(into / "savepoint-0f1e2d3c-first")
    left.replace("queries/query/spark/offsets/99", b"left")
    assert operate.list_savepoints(str(into)).savepoints == ()
    savepoint = taken(job, into)
    assert operate.verify_savepoint(str(savepoint.found_at)).problems == ()


def test_a_savepoint_of_the_end_stands_beside_an_older_one_of_its_id(s3: S3Server, tmp_path: Path) -> None:
    into = s3.folder()
    taken(write_job(tmp_path / "job", through=2), into)
    last = take_last_into(write_job(tmp_path / "job"), "first", into, Copying(), NATIVE)
    assert str(last.found_at).endswith("-first-2")


def test_no_savepoint_goes_into_the_folder_of_a_job_or_of_another_savepoint(s3: S3Server, tmp_path: Path) -> None:
    job, into = write_job(tmp_path / "job"), s3.folder()
    check_into(job, into)
    for name in ("job.json", MANIFEST):
        open_storage(into / name).replace(name, b"")
        with pytest.raises(TidegateError) as raised:
            check_into(job, into / name / "below")
        assert raised.value.code == "TG-REQUEST-REFUSED"

"""Retained checkpoints of a job in a bucket: assembled here for a restore, and refused while the job runs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.support.s3 import S3Server
from tests.support.saved_job import QUERY, RECORD, finish, query_folder, write_job
from tidegate.checkpoints.ingest_pieces import PieceLog
from tidegate.checkpoints.ingest_read import slices
from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.checkpoints.retained import QueryFolder, RetainedCheckpoints
from tidegate.core.errors import TidegateError
from tidegate.core.records import encode
from tidegate.savepoints.folder import Savepoint
from tidegate.savepoints.retained import as_savepoint, by_flinks_name, retained_in
from tidegate.storages.leases import taken_lease
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


@pytest.fixture
def job(s3: S3Server, tmp_path: Path) -> Folder:
    """A job in a bucket, with the retained checkpoint 1, of epoch 3."""
    return job_in(s3.folder() / "job", tmp_path / "job")


def job_in(job: Folder, here: Path, position: str = "") -> Folder:
    """The job, written here first. `position`: of its source, in its newest epoch."""
    write_job(here, through=2)
    finish(here, 3, position)
    retained = RetainedCheckpoints(
        Folder.of(here), "job", RECORD.job_id, [QueryFolder(QUERY, Folder.of(query_folder(here)))], 1
    )
    retained.note("query")
    retained.write()
    for path in here.rglob("*"):
        if path.is_file():
            open_storage(job).replace(path.relative_to(here).as_posix(), path.read_bytes())
    open_storage(job).replace(JOB_RECORD, encode(RECORD))
    return job


def assembled(job: Folder, into: Path, of_job: Folder | None = None) -> Savepoint:
    folder = by_flinks_name(job.parent / RECORD.job_id / "chk-1")
    record = retained_in(folder)
    assert record is not None
    into.mkdir()
    return as_savepoint(folder, record, into, of_job or job)


def test_a_retained_checkpoint_in_a_bucket_is_assembled_on_this_machine(job: Folder, tmp_path: Path) -> None:
    savepoint = assembled(job, tmp_path / "into")
    names = {file.name.removeprefix("queries/query/spark/") for file in savepoint.record.files}
    assert {"offsets/2", "offsets/3", "commits/3", "state/0/0/4.delta"} <= names
    assert savepoint.record.queries[0].done.epoch == 3
    assert savepoint.found_at == job / "checkpoints/1"


def test_one_with_an_ingest_log_has_the_rows_behind_it(s3: S3Server, tmp_path: Path) -> None:
    job = s3.folder() / "job"
    log = PieceLog(job / "ingest" / "in")
    position = log.append([b"0", b"1"])
    log.append([b"2"])
    log.append([b"3", b"4"])
    log.close()
    job_in(job, tmp_path / "job", msgspec.json.encode(position).decode())
    savepoint = assembled(job, tmp_path / "into")
    part = tmp_path / "into" / "ingest" / "in"
    rows = [
        line for piece in slices(part, position, log.end, "test") for frame in piece.frames() for line in frame.lines()
    ]
    assert rows == [b"2", b"3", b"4"]
    assert any(file.name.startswith("ingest/in/") for file in savepoint.record.files)


def test_one_whose_files_are_gone_is_refused(job: Folder, tmp_path: Path) -> None:
    open_storage(job).delete("queries/query/g1/spark/offsets/2")
    with pytest.raises(TidegateError) as raised:
        assembled(job, tmp_path / "into")
    assert raised.value.code == "TG-SAVEPOINT-INCOMPLETE"


def test_one_of_another_job_is_refused_while_that_job_runs(job: Folder, tmp_path: Path) -> None:
    other = Folder.of(tmp_path / "other")
    with taken_lease(job, "job", 1.0), pytest.raises(TidegateError) as raised:
        assembled(job, tmp_path / "refused", other)
    assert raised.value.code == "TG-DRIVER-ALIVE"
    assert assembled(job, tmp_path / "into", other).record.job == "job"

"""A retained checkpoint stands for a savepoint as long as the job has kept what Spark goes on from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.saved_job import QUERY, RECORD, finish, query_folder, write_job
from tidegate.checkpoints.job_layout import JOB_RECORD
from tidegate.checkpoints.retained import QueryFolder, RetainedCheckpoints
from tidegate.core.errors import TidegateError
from tidegate.core.records import JobRecord, encode
from tidegate.savepoints.folder import Savepoint
from tidegate.savepoints.retained import as_savepoint, by_flinks_name, retained_in
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


def restored(job: Path, epochs_since: int, epochs_kept: int) -> Savepoint:
    """From the checkpoint of epoch 3, when the job has gone on since, and Spark has kept so many of its log."""
    write_job(job)
    retained = RetainedCheckpoints(
        Folder.of(job), "job", RECORD.job_id, [QueryFolder(QUERY, Folder.of(query_folder(job)))], 1
    )
    retained.note("query")
    retained.write()
    newest = 3 + epochs_since
    for epoch in range(4, newest + 1):
        finish(job, epoch)
        for log in ("offsets", "commits"):
            (query_folder(job) / f"spark/{log}/{epoch - epochs_kept}").unlink(missing_ok=True)
    folder = job / "checkpoints/1"
    record = retained_in(Folder.of(folder))
    assert record is not None
    into = job / "aside"
    into.mkdir()
    return as_savepoint(Folder.of(folder), record, into, Folder.of(job))


def test_it_has_what_spark_goes_on_from(tmp_path: Path):
    savepoint = restored(tmp_path / "job", epochs_since=8, epochs_kept=10)
    names = {file.name.removeprefix("queries/query/spark/") for file in savepoint.record.files}
    assert {"offsets/2", "offsets/3", "commits/3", "state/0/0/4.delta"} <= names
    assert savepoint.record.queries[0].done.epoch == 3


def test_it_is_the_same_one_through_a_link(tmp_path: Path):
    job = tmp_path / "job"
    restored(job, epochs_since=1, epochs_kept=10)
    latest, into = tmp_path / "links/to/latest", tmp_path / "into"
    latest.parent.mkdir(parents=True)
    latest.symlink_to(job / "checkpoints/1")
    into.mkdir()
    record = retained_in(Folder.of(latest))
    assert record is not None
    savepoint = as_savepoint(Folder.of(latest), record, into, Folder.of(job))
    assert (savepoint.record.queries[0].done.epoch, savepoint.found_at) == (3, latest)


@pytest.mark.parametrize("epochs_since", [9, 10, 40])
def test_one_that_was_killed_far_behind_its_epochs_is_refused_where_spark_has_let_go_of_the_log(
    tmp_path: Path, epochs_since: int
):
    """Manifests are written beside the epochs, which do not wait. Without the entry before its own Spark never starts
    the query again, and by then the new generation would count."""
    with pytest.raises(TidegateError) as caught:
        restored(tmp_path / "job", epochs_since, epochs_kept=10)
    assert caught.value.code == "TG-SAVEPOINT-INCOMPLETE"


def test_flinks_name_of_a_checkpoint_is_found_by_the_id_of_its_job(tmp_path: Path) -> None:
    jobs = Folder.of(tmp_path)
    for name, job_id in (("other", "1f1e2d3c"), ("words", RECORD.job_id)):
        record = JobRecord(name=name, job_id=job_id, generation=1)
        open_storage(jobs / name).put_if_absent(JOB_RECORD, encode(record))
    assert by_flinks_name(jobs / RECORD.job_id / "chk-12") == jobs / "words/checkpoints/12"
    for name in ("0f0f0f0f/chk-12", f"{RECORD.job_id}/chk-x", "words/checkpoints/12", "words/chk-012"):
        assert by_flinks_name(jobs / name) == jobs / name


def test_a_damaged_neighbour_does_not_stop_a_restore_by_flinks_name(tmp_path: Path) -> None:
    """Unless it may be the job that is asked for: then it is named."""
    jobs = Folder.of(tmp_path)
    open_storage(jobs / "a-neighbour").put_if_absent(JOB_RECORD, b"tidegate job 1")
    asked = jobs / RECORD.job_id / "chk-12"
    with pytest.raises(TidegateError) as raised:
        by_flinks_name(asked)
    assert (raised.value.code, "a-neighbour/job.json" in raised.value.found) == ("TG-SAVEPOINT-INCOMPLETE", True)
    open_storage(jobs / "words").put_if_absent(JOB_RECORD, encode(RECORD))
    assert by_flinks_name(asked) == jobs / "words/checkpoints/12"

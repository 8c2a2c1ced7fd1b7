"""A retained checkpoint stands for a savepoint as long as the job has kept what Spark goes on from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.saved_job import QUERY, RECORD, finish, query_folder, write_job
from tidegate.checkpoints.retained import QueryFolder, RetainedCheckpoints
from tidegate.core.errors import TidegateError
from tidegate.savepoints.folder import Savepoint
from tidegate.savepoints.retained import as_savepoint, retained_in
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
    record = retained_in(folder)
    assert record is not None
    into = job / "aside"
    into.mkdir()
    return as_savepoint(folder, record, into, Folder.of(job))


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
    record = retained_in(latest)
    assert record is not None
    savepoint = as_savepoint(latest, record, into, Folder.of(job))
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

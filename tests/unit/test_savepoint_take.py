"""A savepoint is of one done epoch, and is whole or is not there, wherever whoever takes it is killed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.saved_job import (
    begin,
    finish,
    offsets,
    query_folder,
    running,
    write_job,
    write_where_nobody_can_list,
)
from tidegate.core.drain import END_OF_TIME_MS
from tidegate.core.errors import TidegateError
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.folder import Savepoint, open_savepoint, savepoints_in, verify
from tidegate.savepoints.take import HELD, STEPS, remove_held, take, take_last
from tidegate.storages.schemes import Folder

ROOT = Path(__file__).parents[2]


def names(savepoint: Savepoint) -> set[str]:
    prefix = "queries/query/spark/"
    return {file.name.removeprefix(prefix) for file in savepoint.record.files}


def test_it_has_what_spark_goes_on_from_and_nothing_of_a_later_epoch(tmp_path: Path):
    job = write_job(tmp_path / "job", through=2)
    begin(tmp_path / "job", 3)
    savepoint = take(job, "one", tmp_path / "saved")
    assert names(savepoint) == {
        "metadata",
        *(f"{log}/{epoch}" for log in ("offsets", "commits") for epoch in range(3)),
        "state/0/_metadata/metadata",
        *(f"state/0/0/{version}.delta" for version in (1, 2, 3)),
    }
    (query,) = savepoint.record.queries
    assert (query.done.epoch, query.ends, query.watermark_ms) == (2, {"in": '{"logOffset":2}'}, 2000)
    assert (query.backend, query.partitions, query.done.progress["out"].epoch) == ("hashmap", 1, 2)
    assert [(each.number, each.name, each.stores) for each in query.operators] == [(0, "stateStoreSave", ("default",))]
    assert verify(savepoint) == []
    assert not (tmp_path / "job" / HELD).exists()


def test_what_spark_removes_while_it_is_copied_is_in_it_all_the_same(tmp_path: Path):
    write_job(tmp_path / "job")

    def reach(step: str) -> None:
        if step == "held":
            shutil.rmtree(query_folder(tmp_path / "job") / "spark")

    savepoint = take(running(tmp_path / "job", reach), "one", tmp_path / "saved")
    assert verify(savepoint) == []
    assert (savepoint.folder / "queries/query/spark/offsets/3").read_text() == offsets(3)
    assert (savepoint.folder / "queries/query/spark/state/0/0/4.delta").read_text() == "state 4"


def test_it_changes_no_more_when_the_jobs_files_do(tmp_path: Path):
    job = write_job(tmp_path / "job")
    savepoint = take(job, "one", tmp_path / "saved")
    with (query_folder(tmp_path / "job") / "spark/state/0/0/4.delta").open("a") as file:
        file.write("more")
    assert verify(savepoint) == []


def test_a_job_whose_files_never_stay_long_enough_is_refused_and_nothing_stays_behind(tmp_path: Path):
    write_job(tmp_path / "job")
    begin(tmp_path / "job", 4)
    with pytest.raises(TidegateError) as caught:
        take(running(tmp_path / "job", epochs_kept=2), "one", tmp_path / "saved")
    assert caught.value.code == "TG-SAVEPOINT-REFUSED"
    assert list((tmp_path / "saved").iterdir()) == []
    assert not (tmp_path / "job" / HELD).exists()


def test_the_same_id_is_the_same_savepoint(tmp_path: Path):
    job = write_job(tmp_path / "job")
    first = take(job, "one", tmp_path / "saved")
    finish(tmp_path / "job", 4)
    assert take(job, "one", tmp_path / "saved") == open_savepoint(first.folder)
    assert take(job, "two", tmp_path / "saved").record.queries[0].done.epoch == 4


def test_one_that_somebody_has_begun_to_remove_is_not_given_for_whole_under_its_id(tmp_path: Path):
    job = write_job(tmp_path / "job")
    first = take(job, "one", tmp_path / "saved")
    (first.folder / first.record.files[-1].name).unlink()
    for again in (take, take_last):
        with pytest.raises(TidegateError) as caught:
            again(job, "one", tmp_path / "saved")
        assert (caught.value.code, "is gone" in caught.value.found) == ("TG-SAVEPOINT-INCOMPLETE", True)


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_it_is_whole_or_not_there_and_can_be_taken_again(tmp_path: Path, step: str):
    job, into = write_job(tmp_path / "job"), tmp_path / "saved"
    before = contents(query_folder(tmp_path / "job"))
    command = [sys.executable, "-m", "tests.support.saved_job", str(tmp_path / "job"), str(into), step]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
    found, wrong = savepoints_in(into)
    assert wrong == []
    assert [verify(each) for each in found] == ([[]] if step == "renamed" else [])
    remove_held(Folder.of(tmp_path / "job"))  # as the next start does
    assert not (tmp_path / "job" / HELD).exists()
    assert contents(query_folder(tmp_path / "job")) == before
    savepoint = take(job, "fixed" if step == "renamed" else "another", into)
    assert verify(savepoint) == []
    assert [path.name for path in into.iterdir()] == [savepoint.folder.name]


def test_a_savepoint_that_cannot_be_written_leaves_the_job_as_it_was(tmp_path: Path):
    job = write_job(tmp_path / "job")
    (tmp_path / "saved").write_text("no folder")
    with pytest.raises(TidegateError) as caught:
        take(job, "one", tmp_path / "saved")
    assert caught.value.code == "TG-STORAGE-UNUSABLE"
    assert not (tmp_path / "job" / HELD).exists()


def test_a_folder_of_state_that_cannot_be_listed_is_an_error_and_no_savepoint(tmp_path: Path):
    job = write_job(tmp_path / "job")
    write_where_nobody_can_list(query_folder(tmp_path / "job") / "spark/state/0/0")
    with pytest.raises(TidegateError) as caught:
        take(job, "one", tmp_path / "saved")
    assert caught.value.code == "TG-STORAGE-UNUSABLE"
    assert list((tmp_path / "saved").iterdir()) == []
    assert not (tmp_path / "job" / HELD).exists()


def test_a_held_folder_that_cannot_be_listed_when_it_is_copied_is_an_error_and_no_savepoint(tmp_path: Path):
    write_job(tmp_path / "job")

    def reach(step: str) -> None:
        if step == "held":
            write_where_nobody_can_list(next((tmp_path / "job" / HELD).rglob("state/0/0")))

    with pytest.raises(TidegateError) as caught:
        take(running(tmp_path / "job", reach), "one", tmp_path / "saved")
    assert caught.value.code == "TG-STORAGE-UNUSABLE"
    assert list((tmp_path / "saved").iterdir()) == []
    assert not (tmp_path / "job" / HELD).exists()


def test_a_file_that_somebody_clears_away_while_it_is_copied_is_an_error_and_no_savepoint(tmp_path: Path):
    write_job(tmp_path / "job")

    def reach(step: str) -> None:
        if step == "described":
            next((tmp_path / "saved").rglob("4.delta")).unlink()

    with pytest.raises(TidegateError) as caught:
        take(running(tmp_path / "job", reach), "one", tmp_path / "saved")
    assert (caught.value.code, "4.delta is gone" in caught.value.found) == ("TG-SAVEPOINT-REFUSED", True)
    assert list((tmp_path / "saved").iterdir()) == []


def test_of_a_query_that_a_drain_has_brought_to_the_end_of_time_there_is_no_savepoint(tmp_path: Path):
    job = write_job(tmp_path / "job")
    last = END_OF_TIME_MS // 1000  # its watermark
    begin(tmp_path / "job", last - 1)
    finish(tmp_path / "job", last)
    with pytest.raises(TidegateError) as caught:
        take(job, "one", tmp_path / "saved")
    assert (caught.value.code, "drained" in caught.value.found) == ("TG-SAVEPOINT-REFUSED", True)
    assert list((tmp_path / "saved").iterdir()) == []


def test_what_wakes_up_on_a_disk_that_hung_removes_nothing_that_came_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    job, into, copying = write_job(tmp_path / "job"), tmp_path / "saved", Copying()
    theirs = into / ".savepoint-0f1e2d3c-two.0a1b2c3d.partial"
    glob = Path.glob

    def hang(folder: Path, pattern: str) -> Iterator[Path]:
        copying.call_off("the job is STOPPED")
        theirs.mkdir()
        return glob(folder, pattern)

    monkeypatch.setattr(Path, "glob", hang)
    with pytest.raises(TidegateError, match="TG-SAVEPOINT-CUT-OFF"):
        take(job, "one", into, copying)
    assert theirs.is_dir()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

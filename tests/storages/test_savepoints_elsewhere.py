"""Savepoints in a bucket: the manifest comes last, and has what was sent."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Barrier

import msgspec
import pytest

from tests.support.hdfs import HdfsServer
from tests.support.s3 import S3Server
from tests.support.saved_job import RECORD, write_job
from tests.unit.test_canonical_take import open_rows
from tidegate import operate
from tidegate.core.errors import TidegateError
from tidegate.core.records import SavedFile, SavepointFormat, encode
from tidegate.savepoints import claim as savepoint_claim
from tidegate.savepoints.claim import claim, claimed_by_another, read_claim
from tidegate.savepoints.copying import Copying
from tidegate.savepoints.elsewhere import brought_here, check_into, take_into, take_last_into
from tidegate.savepoints.folder import MANIFEST, Savepoint
from tidegate.savepoints.running_job import RunningJob
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.hdfs.checkpoint_files import HdfsCheckpointFiles
from tidegate.storages.hdfs.storage import HdfsStorage
from tidegate.storages.opening import open_storage
from tidegate.storages.s3.checkpoint_files import S3CheckpointFiles
from tidegate.storages.s3.storage import S3Storage
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


def test_a_savepoint_in_a_bucket_takes_no_room_on_this_machine(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    left: dict[str, list[Path]] = {}

    def reach(step: str) -> None:
        left[step] = [path for path in scratch.rglob("*") if path.is_file()]

    for form in SavepointFormat:
        job = replace(write_job(tmp_path / form.value), reach=reach, open_tables=open_rows)
        savepoint = take_into(job, form.value, s3.folder(), Copying(), form)
        assert operate.verify_savepoint(str(savepoint.found_at)).problems == ()
        assert left == {"held": [], "copied": [], "described": [], "renamed": []}


def test_a_file_that_is_cut_while_others_are_copied_makes_no_savepoint(s3: S3Server, tmp_path: Path) -> None:
    into = s3.folder()
    target = open_storage(into / "savepoint-0f1e2d3c-first")

    def reach(step: str) -> None:
        if step == "copied":
            target.replace("queries/query/spark/metadata", b"")

    with pytest.raises(TidegateError) as raised:
        taken(replace(write_job(tmp_path / "job"), reach=reach), into)
    assert (raised.value.code, target.read(MANIFEST)) == ("TG-SAVEPOINT-REFUSED", None)
    assert "queries/query/spark/metadata" in raised.value.found


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


def test_a_driver_that_was_paused_leaves_the_savepoint_of_its_successor_alone(s3: S3Server, tmp_path: Path) -> None:
    """Both were asked for the same one. It resumes before it has sent a file."""
    job, into, theirs = write_job(tmp_path / "job"), s3.folder(), list[Savepoint]()

    def reach(step: str) -> None:
        if step == "held":
            theirs.append(taken(write_job(tmp_path / "successor"), into))

    assert code_of(lambda: taken(replace(job, reach=reach), into)) == "TG-SAVEPOINT-REFUSED"
    (savepoint,) = theirs
    assert operate.verify_savepoint(str(savepoint.found_at)).problems == ()


@pytest.mark.parametrize("lost", [0, 1])
def test_a_manifest_that_comes_first_is_answered_only_if_its_savepoint_is_whole(
    s3: S3Server, tmp_path: Path, lost: int
) -> None:
    """A driver that was paused puts its own, and another one has removed its files meanwhile."""
    job, into = write_job(tmp_path / "job"), s3.folder()
    files = [SavedFile(name="queries/query/spark/state/0/0/99.zip", size_bytes=1, sha256="0" * 64)] * lost
    its_own = taken(job, s3.folder()).record
    its_own = msgspec.structs.replace(its_own, at="2026-01-02T03:04:05.678+00:00", files=(*its_own.files, *files))

    def reach(step: str) -> None:
        if step == "described":
            open_storage(into / "savepoint-0f1e2d3c-first").put_if_absent(MANIFEST, encode(its_own))

    for each in (replace(job, reach=reach), job):
        if lost:
            assert code_of(partial(taken, each, into)) == "TG-SAVEPOINT-INCOMPLETE"
        else:
            assert taken(each, into).record == its_own


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


# --- claims -------------------------------------------------------------------------------------------------


def test_a_savepoint_in_a_bucket_is_claimed_by_one_job(s3: S3Server, tmp_path: Path) -> None:
    is_claimed_by_one_job(taken(write_job(tmp_path / "job"), s3.folder()), s3.folder(), tmp_path)


def test_a_savepoint_on_hdfs_is_claimed_by_one_job(hdfs: HdfsServer, tmp_path: Path) -> None:
    place = Folder.of(f"{hdfs.uri}/{tmp_path.name}")
    is_claimed_by_one_job(taken(write_job(tmp_path / "job"), place / "savepoints"), place, tmp_path)


def is_claimed_by_one_job(savepoint: Savepoint, jobs: Folder, tmp_path: Path) -> None:
    """At a start the savepoint is a copy on this machine; the claim stands beside the original. Of many jobs that claim
    it at once, one has it, and may ask again.
    """
    place = savepoint.place
    assert place is not None
    verdicts: dict[int, str] = {}
    ready = Barrier(4)

    def attempt(number: int) -> None:
        here = tmp_path / f"copy-{number}"
        here.mkdir()
        copy = brought_here(place, here)
        ready.wait()
        for _ in range(2):
            verdicts[number] = code_of(lambda: claim(copy, RECORD, jobs / f"jobs/{number}"))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(attempt, range(4)))
    (winner,) = (number for number, code in verdicts.items() if not code)
    assert set(verdicts.values()) == {"", "TG-SAVEPOINT-CLAIMED"}
    found = read_claim(savepoint)
    assert found is not None
    assert (found.folder, found.job_id) == (str(jobs / f"jobs/{winner}"), RECORD.job_id)
    (listed,) = operate.list_savepoints(str(place.parent)).savepoints
    assert listed.claimed_by is not None
    assert f"jobs/{winner}" in listed.claimed_by
    error = claimed_by_another(savepoint, RECORD, Folder.of(tmp_path / "here"))
    assert error is not None
    assert f"remove {place}." in error.next_step
    assert operate.verify_savepoint(str(place)).problems == ()
    operate.dispose_savepoint(str(place))
    assert open_storage(place.parent).list("") == []


@pytest.mark.parametrize(
    ("kind", "step"), [(S3Storage, "delete"), (S3Storage, "delete_all"), (S3CheckpointFiles, "clear")]
)
def test_the_removal_of_a_savepoint_in_a_bucket_is_completed_after_a_kill(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, step: str
) -> None:
    is_removed_after_a_kill(taken(write_job(tmp_path / "job"), s3.folder()), monkeypatch, kind, step)


@pytest.mark.parametrize(("kind", "step"), [(HdfsStorage, "delete"), (HdfsCheckpointFiles, "clear")])
def test_the_removal_of_a_savepoint_on_hdfs_is_completed_after_a_kill(
    hdfs: HdfsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, step: str
) -> None:
    savepoint = taken(write_job(tmp_path / "job"), Folder.of(f"{hdfs.uri}/{tmp_path.name}"))
    is_removed_after_a_kill(savepoint, monkeypatch, kind, step)


def is_removed_after_a_kill(savepoint: Savepoint, monkeypatch: pytest.MonkeyPatch, kind: type, step: str) -> None:
    place = savepoint.place
    assert place is not None
    claim(savepoint, RECORD, place.parent / "jobs/1")
    with monkeypatch.context() as killed:
        killed.setattr(kind, step, interrupted)
        with pytest.raises(KeyboardInterrupt):
            operate.dispose_savepoint(str(place))
    operate.dispose_savepoint(str(place))
    assert (open_storage(place.parent).list(""), open_checkpoint_files(place).list()) == ([], [])
    assert code_of(lambda: operate.dispose_savepoint(str(place))) == "TG-SAVEPOINT-INCOMPLETE"


def test_a_job_that_dies_between_the_token_of_its_folder_and_the_claim_claims_with_that_token(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    savepoint, job = taken(write_job(tmp_path / "job"), s3.folder()), s3.folder() / "job"
    with monkeypatch.context() as killed:
        killed.setattr(savepoint_claim, "_claim", interrupted)
        with pytest.raises(KeyboardInterrupt):
            claim(savepoint, RECORD, job)
    token = open_storage(job).read("folder-token")
    assert (token is not None, read_claim(savepoint)) == (True, None)
    claim(savepoint, RECORD, job)
    assert open_storage(job).read("folder-token") == token


def test_a_retained_checkpoint_in_a_bucket_is_claimed_by_one_job(s3: S3Server, tmp_path: Path) -> None:
    """Its own job does not go back to it any more, if another folder has claimed it."""
    savepoint, jobs = taken(write_job(tmp_path / "job"), s3.folder()), s3.folder()
    retained = replace(savepoint, place=None, origin=jobs / "words/checkpoints/7")
    claim(retained, RECORD, jobs / "there")
    assert code_of(lambda: claim(retained, RECORD, jobs / "words")) == "TG-SAVEPOINT-CLAIMED"
    (name,) = open_storage(jobs / "words/checkpoints").list("")
    assert (name.startswith("7."), name.endswith(".claim")) == (True, True)


def code_of(act: Callable[[], object]) -> str:
    try:
        act()
    except TidegateError as error:
        return error.code
    return ""


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt

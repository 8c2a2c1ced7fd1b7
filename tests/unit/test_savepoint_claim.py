"""A savepoint is claimed by one job: another folder is refused, the same one may ask again."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from threading import Barrier

import msgspec
import pytest

from tests.jobs.folders import tidegate
from tests.simulation.openers_memory import in_memory
from tests.support.saved_job import RECORD, write_job
from tidegate.checkpoints.retention import delete_checkpoints
from tidegate.checkpoints.succession import begin_job
from tidegate.core.errors import TidegateError
from tidegate.core.levels import Level
from tidegate.core.records import encode
from tidegate.savepoints import claim as savepoint_claim
from tidegate.savepoints import folder as savepoint_folder
from tidegate.savepoints.claim import against_claim, claim, read_claim
from tidegate.savepoints.folder import (
    CLAIM,
    Savepoint,
    dispose,
    finish_disposal,
    names_wrong,
    open_savepoint,
    verify,
)
from tidegate.savepoints.restoring import Restore
from tidegate.savepoints.take import take
from tidegate.spark.opens import Opens
from tidegate.spark.restoring import open_restore
from tidegate.storages.local import storage
from tidegate.storages.schemes import Folder
from tidegate.testing.memory_storage import Memory


@pytest.fixture
def saved(tmp_path: Path) -> Savepoint:
    return take(write_job(tmp_path / "job"), "one", tmp_path / "saved")


def beside(saved: Savepoint) -> list[str]:
    return sorted(path.suffix for path in saved.folder.parent.iterdir() if path != saved.folder)


def code_of(saved: Savepoint, folder: Path) -> str:
    with pytest.raises(TidegateError) as raised:
        claim(saved, RECORD, Folder.of(folder))
    return raised.value.code


def test_the_folder_that_has_claimed_a_savepoint_may_ask_again_and_another_one_is_refused(
    saved: Savepoint, tmp_path: Path
):
    here, there = tmp_path / "here", tmp_path / "there"
    assert against_claim(saved, RECORD, Folder.of(here)) is None
    claim(saved, RECORD, Folder.of(here))
    claim(saved, RECORD, Folder.of(here))
    assert code_of(saved, there) == "TG-SAVEPOINT-CLAIMED"
    error = against_claim(saved, RECORD, Folder.of(there))
    assert error is not None
    assert (str(here) in error.found, RECORD.job_id in error.found, str(beside_name(saved)) in error.next_step) == (
        True,
        True,
        True,
    )
    assert verify(saved) == [], "the savepoint is as it was taken"


def test_the_id_of_a_job_that_was_forgotten_off_a_disk_is_not_claimed_again_there(saved: Savepoint) -> None:
    """The record that it is removed would stay, and the next `forget` would remove nothing."""
    folder = Folder.of("s3://bucket/job")
    wish = Restore(path=str(saved.folder), claim=True)
    with in_memory(Memory()), ExitStack() as stack:
        begin_job(folder, RECORD)
        delete_checkpoints(folder, RECORD.job_id, lambda _job_id: None)
        with pytest.raises(TidegateError) as raised:
            open_restore(wish, folder, RECORD.name, Level.EXACTLY_ONCE, stack, Opens.CHECK)
        assert raised.value.code == "TG-JOB-MISMATCH"


def beside_name(saved: Savepoint) -> Path:
    return next(path for path in saved.folder.parent.iterdir() if path.suffix == CLAIM)


def test_a_pod_that_was_killed_behind_its_claim_comes_back_under_another_host_name_and_goes_on(
    saved: Savepoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The folder is what goes on; who has mounted it changes with every start."""
    here = tmp_path / "here"
    for name in ("job-7d9f8-abcde", "job-7d9f8-vwxyz"):
        monkeypatch.setattr(savepoint_claim.socket, "gethostname", lambda name=name: name)
        assert against_claim(saved, RECORD, Folder.of(here)) is None
        claim(saved, RECORD, Folder.of(here))
    found = read_claim(saved)
    assert found is not None
    assert found.host == "job-7d9f8-abcde", "who came back writes nothing"


def test_another_folder_of_the_same_path_and_host_name_is_another_one(saved: Savepoint, tmp_path: Path):
    """As two containers have it that were given one name: each has a disk of its own below the same path."""
    here = tmp_path / "here"
    claim(saved, RECORD, Folder.of(here))
    here.rename(tmp_path / "the disk of the first container")
    assert code_of(saved, here) == "TG-SAVEPOINT-CLAIMED"


def test_a_copy_of_the_folder_that_has_claimed_a_savepoint_is_refused(saved: Savepoint, tmp_path: Path):
    claim(saved, RECORD, Folder.of(tmp_path / "here"))
    shutil.copytree(tmp_path / "here", tmp_path / "copy")
    assert code_of(saved, tmp_path / "copy") == "TG-SAVEPOINT-CLAIMED"


def test_a_claim_of_an_older_release_knows_its_folder_by_path_and_host(
    saved: Savepoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    here = tmp_path / "here"
    claim(saved, RECORD, Folder.of(here))
    found = read_claim(saved)
    assert found is not None
    beside_name(saved).write_bytes(encode(msgspec.structs.replace(found, token="")))
    claim(saved, RECORD, Folder.of(here))
    monkeypatch.setattr(savepoint_claim.socket, "gethostname", lambda: "another")
    assert code_of(saved, here) == "TG-SAVEPOINT-CLAIMED"


def test_who_is_killed_between_the_token_of_its_folder_and_the_claim_claims_with_that_token(
    saved: Savepoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    here = tmp_path / "here"

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(savepoint_claim, "_claim", killed)
    with pytest.raises(KeyboardInterrupt):
        claim(saved, RECORD, Folder.of(here))
    monkeypatch.undo()
    (token,) = [path.read_bytes() for path in here.iterdir()]
    assert beside(saved) == []
    claim(saved, RECORD, Folder.of(here))
    assert [path.read_bytes() for path in here.iterdir()] == [token]


def test_a_savepoint_is_the_same_one_through_a_link(saved: Savepoint, tmp_path: Path):
    claim(saved, RECORD, Folder.of(tmp_path / "here"))
    link = tmp_path / "elsewhere" / "link"
    link.parent.mkdir()
    link.symlink_to(saved.folder)
    assert code_of(open_savepoint(link), tmp_path / "there") == "TG-SAVEPOINT-CLAIMED"
    assert list(link.parent.iterdir()) == [link]


def test_a_savepoint_on_a_disk_that_takes_no_claim_is_told_before_anything_is_copied(
    saved: Savepoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(savepoint_claim.os, "access", lambda folder, mode: folder != saved.folder.parent)
    error = against_claim(saved, RECORD, Folder.of(tmp_path / "here"))
    assert error is not None
    assert (error.code, "restore without --claim" in error.next_step) == ("TG-STORAGE-UNUSABLE", True)
    assert beside(saved) == []


def test_of_many_that_claim_it_at_once_one_has_it(saved: Savepoint, tmp_path: Path):
    ready = Barrier(8)

    def attempt(number: int) -> str:
        ready.wait()
        try:
            claim(saved, RECORD, Folder.of(tmp_path / str(number)))
        except TidegateError as error:
            return error.code
        return "claimed"

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(attempt, range(8)))
    assert outcomes.count("claimed") == 1
    assert set(outcomes) == {"claimed", "TG-SAVEPOINT-CLAIMED"}


def test_who_is_beaten_between_writing_a_claim_and_putting_it_is_told_by_whom(
    saved: Savepoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    link = storage.os.link

    def beaten(temporary: Path, target: Path) -> None:
        monkeypatch.setattr(storage.os, "link", link)
        claim(saved, RECORD, Folder.of(tmp_path / "here"))
        link(temporary, target)

    monkeypatch.setattr(storage.os, "link", beaten)
    assert code_of(saved, tmp_path / "there") == "TG-SAVEPOINT-CLAIMED"
    assert beside(saved) == [CLAIM]


def test_a_claim_goes_with_its_savepoint_and_counts_for_no_other_one_of_its_name(saved: Savepoint, tmp_path: Path):
    claim(saved, RECORD, Folder.of(tmp_path / "here"))
    dispose(saved)
    assert list(saved.folder.parent.iterdir()) == []

    again = take(write_job(tmp_path / "job-2"), "one", tmp_path / "saved")
    claim(again, RECORD, Folder.of(tmp_path / "here"))
    shutil.rmtree(again.folder)  # by somebody who does not know of claims
    third = take(write_job(tmp_path / "job-3"), "one", tmp_path / "saved")
    assert read_claim(third) is None


def test_what_a_killed_claim_has_left_beside_the_savepoint_goes_with_the_next_one(saved: Savepoint, tmp_path: Path):
    claim(saved, RECORD, Folder.of(tmp_path / "here"))
    left = beside_name(saved)
    left.rename(left.with_name(f".{left.name}.1a2b3c4d.tidegate.tmp"))
    claim(saved, RECORD, Folder.of(tmp_path / "here"))
    assert beside(saved) == [CLAIM]


def test_a_claim_is_shown(saved: Savepoint, tmp_path: Path):
    def shown() -> str | None:
        return json.loads(tidegate("savepoint", "inspect", str(saved.folder), "--json")[1])["claimed_by"]

    assert shown() is None
    claim(saved, RECORD, Folder.of(tmp_path / "here"))
    claimed = shown()
    assert claimed is not None
    assert claimed.startswith(f"job {RECORD.name} in {tmp_path / 'here'} on ")


def test_a_claim_that_cannot_be_read_hides_no_savepoint_and_goes_with_its_own(saved: Savepoint, tmp_path: Path):
    claim(saved, RECORD, Folder.of(tmp_path / "here"))
    beside_name(saved).write_bytes(b"torn")
    assert code_of(saved, tmp_path / "here") == "TG-RECORD-CORRUPT", "nobody goes on by it"
    other = take(write_job(tmp_path / "job"), "two", tmp_path / "saved")
    listed = tidegate("savepoint", "ls", str(saved.folder.parent), "--json")
    claims = {each["path"]: each["claimed_by"] for each in json.loads(listed[1])["savepoints"]}
    assert claims[str(other.folder)] is None
    assert "TG-RECORD-CORRUPT" in claims[str(saved.folder)]
    assert "TG-RECORD-CORRUPT" in tidegate("savepoint", "inspect", str(saved.folder))[1]
    dispose(saved)
    assert [path.suffix for path in saved.folder.parent.iterdir()] == [""]


def test_of_two_that_dispose_of_a_savepoint_at_once_both_have(saved: Savepoint, monkeypatch: pytest.MonkeyPatch):
    rename = savepoint_folder.os.rename

    def beaten(folder: Path, trash: Path) -> None:
        monkeypatch.setattr(savepoint_folder.os, "rename", rename)
        dispose(saved)
        rename(folder, trash)

    monkeypatch.setattr(savepoint_folder.os, "rename", beaten)
    dispose(saved)
    assert list(saved.folder.parent.iterdir()) == []


def test_a_savepoint_that_goes_while_it_is_looked_at_is_disposed_of(saved: Savepoint, monkeypatch: pytest.MonkeyPatch):
    def beaten(savepoint: Savepoint) -> list[TidegateError]:
        monkeypatch.setattr(savepoint_folder, "names_wrong", names_wrong)
        dispose(savepoint)
        return names_wrong(savepoint)

    monkeypatch.setattr(savepoint_folder, "names_wrong", beaten)
    dispose(saved)
    assert list(saved.folder.parent.iterdir()) == []


def test_a_removal_that_was_killed_takes_the_claim_along_when_it_is_finished(saved: Savepoint, tmp_path: Path):
    claim(saved, RECORD, Folder.of(tmp_path / "here"))
    saved.folder.rename(saved.folder.with_name(f".{saved.folder.name}.trash"))
    assert finish_disposal(saved.folder)
    assert list(saved.folder.parent.iterdir()) == []

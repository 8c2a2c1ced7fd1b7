"""What can be wrong with a savepoint is found, and named by a code of its own."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.support.saved_job import write_job
from tidegate.core.errors import TidegateError
from tidegate.core.records import CheckpointRecord, SavedFile, SavepointRecord, digest_of, encode
from tidegate.savepoints.folder import (
    MANIFEST,
    Savepoint,
    dispose,
    finish_disposal,
    open_savepoint,
    savepoints_in,
    verify,
)
from tidegate.savepoints.retained import retained_in
from tidegate.savepoints.take import take
from tidegate.storages.schemes import Folder

STATE = "queries/query/spark/state/0/0/4.delta"


@pytest.fixture
def saved(tmp_path: Path) -> Savepoint:
    return take(write_job(tmp_path / "job"), "one", tmp_path / "saved")


def flip(folder: Path) -> None:
    data = bytearray((folder / STATE).read_bytes())
    data[3] ^= 1
    (folder / STATE).write_bytes(data)


def lose(folder: Path) -> None:
    (folder / STATE).unlink()


def cut(folder: Path) -> None:
    (folder / STATE).write_bytes((folder / STATE).read_bytes()[:2])


def add(folder: Path) -> None:
    (folder / "queries/query/spark/state/0/0/5.delta").write_text("more")


def link_out(folder: Path) -> None:
    shutil.move(folder / STATE, folder.parent / "elsewhere")
    (folder / STATE).symlink_to(folder.parent / "elsewhere")


def link_folder_out(folder: Path) -> None:
    (folder / "queries/other").symlink_to(folder.parent)


WRONG: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "a flipped bit": (flip, ["TG-SAVEPOINT-ALTERED"]),
    "a missing file": (lose, ["TG-SAVEPOINT-INCOMPLETE"]),
    "a file that was copied in part": (cut, ["TG-SAVEPOINT-INCOMPLETE"]),
    "a file more": (add, ["TG-SAVEPOINT-ALTERED"]),
    "a link in place of a file": (link_out, ["TG-SAVEPOINT-UNSAFE"]),
    "a link to a folder": (link_folder_out, ["TG-SAVEPOINT-UNSAFE"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_with_a_file_is_found_in_a_copy_elsewhere(saved: Savepoint, tmp_path: Path, case: str):
    damage, codes = WRONG[case]
    copy = Path(shutil.copytree(saved.folder, tmp_path / "usb" / "copy"))
    assert verify(open_savepoint(copy)) == []
    damage(copy)
    assert [error.code for error in verify(open_savepoint(copy))] == codes
    assert verify(saved) == []


@pytest.mark.parametrize("name", ["../job/job.json", "/etc/hostname", "queries/../../x", "", "."])
def test_a_manifest_that_names_a_file_elsewhere_is_refused_before_anything_is_read(saved: Savepoint, name: str):
    stranger = SavedFile(name=name, size_bytes=1, sha256="0" * 64)
    record = msgspec.structs.replace(saved.record, files=(*saved.record.files, stranger))
    (saved.folder / MANIFEST).write_bytes(encode(record))
    assert code_of(lambda: open_savepoint(saved.folder)) == "TG-SAVEPOINT-UNSAFE"


def with_query(record: SavepointRecord, uid: str) -> SavepointRecord:
    saved = record.queries[0]
    other = msgspec.structs.replace(saved, done=msgspec.structs.replace(saved.done, query=uid))
    return msgspec.structs.replace(record, queries=(saved, other))


def with_store(record: SavepointRecord, store: str) -> SavepointRecord:
    operator = msgspec.structs.replace(record.queries[0].operators[0], stores=(store,))
    query = msgspec.structs.replace(record.queries[0], operators=(operator,))
    return msgspec.structs.replace(record, queries=(query,))


NAMES: dict[str, Callable[[SavepointRecord], SavepointRecord]] = {
    "a query of another job": lambda record: with_query(record, "../../other/queries/query"),
    "a query anywhere": lambda record: with_query(record, "/srv/jobs/other/queries/query"),
    "a job id": lambda record: msgspec.structs.replace(record, job_id="../x"),
    "a store of state": lambda record: with_store(record, "../../../../../elsewhere"),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_manifest_whose_names_lead_elsewhere_is_refused_for_folders_are_made_of_them(saved: Savepoint, case: str):
    (saved.folder / MANIFEST).write_bytes(encode(NAMES[case](saved.record)))
    assert code_of(lambda: open_savepoint(saved.folder)) == "TG-SAVEPOINT-UNSAFE"


def test_so_is_a_retained_checkpoint(saved: Savepoint):
    done = msgspec.structs.replace(saved.record.queries[0].done, query="../../../../elsewhere")
    record = CheckpointRecord(number=1, job="job", job_id="0f1e2d3c", at="now", queries=(done,))
    (saved.folder / MANIFEST).write_bytes(encode(record))
    assert code_of(lambda: retained_in(Folder.of(saved.folder))) == "TG-SAVEPOINT-UNSAFE"


def test_a_manifest_that_is_missing_torn_or_newer_is_told_apart(saved: Savepoint):
    manifest = saved.folder / MANIFEST
    whole = manifest.read_bytes()
    manifest.write_bytes(whole[:-10])
    assert code_of(lambda: open_savepoint(saved.folder)) == "TG-RECORD-CORRUPT"
    manifest.write_bytes(whole.replace(b"savepoint 1 ", b"savepoint 2 ", 1))
    assert code_of(lambda: open_savepoint(saved.folder)) == "TG-RECORD-NEWER"
    manifest.unlink()
    assert code_of(lambda: open_savepoint(saved.folder)) == "TG-SAVEPOINT-INCOMPLETE"


@pytest.mark.parametrize(
    "body", [b"{", b'{"id": "\xff"}', b'{"queries":' + b"[" * 100_000], ids=["cut", "text", "deep"]
)
def test_a_manifest_that_is_no_json_under_its_own_checksum_is_corrupt(saved: Savepoint, body: bytes):
    (saved.folder / MANIFEST).write_bytes(f"tidegate savepoint 1 sha256:{digest_of(body)}\n".encode() + body)
    assert code_of(lambda: open_savepoint(saved.folder)) == "TG-RECORD-CORRUPT"


def test_the_folder_of_a_retained_checkpoint_is_told_apart_with_what_works(saved: Savepoint):
    record = CheckpointRecord(number=1, job="job", job_id="0f1e2d3c", at="now", queries=())
    (saved.folder / MANIFEST).write_bytes(encode(record))
    with pytest.raises(TidegateError, match="a retained checkpoint") as raised:
        open_savepoint(saved.folder)
    assert raised.value.code == "TG-SAVEPOINT-INCOMPLETE"
    assert "start the job without -s" in raised.value.next_step


def test_one_that_cannot_be_read_hides_no_other(saved: Savepoint):
    other = Path(shutil.copytree(saved.folder, saved.folder.with_name("copy")))
    (other / MANIFEST).write_bytes(b"torn")
    found, wrong = savepoints_in(saved.folder.parent)
    assert [each.folder for each in found] == [saved.folder]
    assert [error.code for error in wrong] == ["TG-RECORD-CORRUPT"]


def test_it_is_disposed_of_but_not_with_what_somebody_else_has_put_there(saved: Savepoint):
    add(saved.folder)
    assert code_of(lambda: dispose(saved)) == "TG-SAVEPOINT-ALTERED"
    assert (saved.folder / STATE).exists()
    (saved.folder / "queries/query/spark/state/0/0/5.delta").unlink()
    dispose(saved)
    assert list(saved.folder.parent.iterdir()) == []


def test_a_removal_that_was_killed_is_finished_by_the_same_command(saved: Savepoint):
    saved.folder.rename(saved.folder.with_name(f".{saved.folder.name}.trash"))
    assert finish_disposal(saved.folder)
    assert list(saved.folder.parent.iterdir()) == []
    assert not finish_disposal(saved.folder)


def test_what_a_removal_has_left_does_not_take_a_new_savepoint_of_that_name_along(saved: Savepoint):
    shutil.copytree(saved.folder, saved.folder.with_name(f".{saved.folder.name}.trash"))
    assert not finish_disposal(saved.folder)
    assert verify(saved) == []


def test_a_folder_that_may_not_be_looked_into_hides_no_savepoint(saved: Savepoint, monkeypatch: pytest.MonkeyPatch):
    (saved.folder.parent / "private").mkdir()
    exists = Path.exists

    def refused(self: Path) -> bool:
        if self.parent.name == "private":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return exists(self)

    monkeypatch.setattr(Path, "exists", refused)
    found, wrong = savepoints_in(saved.folder.parent)
    assert [each.folder for each in found] == [saved.folder]
    assert [error.code for error in wrong] == ["TG-STORAGE-UNUSABLE"]


def code_of(act: Callable[[], object]) -> str:
    with pytest.raises(TidegateError) as caught:
        act()
    return caught.value.code

"""The local disk as storage: whole or not at all, and still there after a power loss."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.fs_recorder import Event, FsRecorder, in_a_killed_child
from tidegate.checkpoints.spark_layout import entry_numbers
from tidegate.core.errors import TidegateError
from tidegate.storages.check import check_storage
from tidegate.storages.local.storage import LocalStorage


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(tmp_path)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FsRecorder:
    return FsRecorder(monkeypatch, below=tmp_path)


# --- whole or not at all -----------------------------------------------------------------------------------


def test_a_put_creates_the_file_and_the_folders_above_it(storage: LocalStorage):
    assert storage.put_if_absent("prepared/7.1", b"record")
    assert storage.read("prepared/7.1") == b"record"
    assert storage.path("prepared/7.1").read_bytes() == b"record"


def test_a_second_put_of_the_same_name_does_not_replace_the_first(storage: LocalStorage):
    assert storage.put_if_absent("done/1", b"first")
    assert not storage.put_if_absent("done/1", b"second")
    assert storage.read("done/1") == b"first"


@pytest.mark.parametrize("round_number", range(20))
def test_of_many_puts_at_once_exactly_one_wins_and_its_content_stands(storage: LocalStorage, round_number: int):
    contents = [f"writer {writer}".encode() * 100 for writer in range(8)]
    with ThreadPoolExecutor(8) as pool:
        created = list(pool.map(lambda content: storage.put_if_absent("decided/4", content), contents))
    assert created.count(True) == 1
    assert storage.read("decided/4") == contents[created.index(True)]


@pytest.mark.parametrize("write", [LocalStorage.put_if_absent, LocalStorage.replace])
def test_folders_that_another_start_removes_while_they_are_empty_are_made_again(
    tmp_path: Path, write: Callable[[LocalStorage, str, bytes], object]
):
    jobs, ended = tmp_path / "jobs", threading.Event()

    def remove() -> None:
        while not ended.is_set():
            for folder in (jobs / "job", jobs):
                with suppress(OSError):
                    folder.rmdir()

    with ThreadPoolExecutor(1) as pool:
        removing = pool.submit(remove)
        try:
            for _ in range(60):
                storage = LocalStorage(jobs / "job")
                write(storage, "record", b"record")
                assert storage.read("record") == b"record"
                storage.delete("record")
        finally:
            ended.set()
        removing.result()


def test_a_put_that_is_killed_at_any_step_leaves_the_whole_content_or_no_name(
    storage: LocalStorage, disk: FsRecorder, tmp_path: Path
):
    content = b"x" * 100_000
    storage.put_if_absent("done/0", content)
    steps = len(disk.events)
    disk.forget()
    found: list[bytes | None] = []
    for step in range(steps + 1):
        storage.delete("done/1")
        in_a_killed_child(disk, step, lambda: storage.put_if_absent("done/1", content))
        found.append(storage.read("done/1"))
        assert storage.list("done") == (["0"] if found[-1] is None else ["0", "1"])
    assert found[0] is None
    assert found[-1] == content
    assert set(found) == {None, content}


def test_what_killed_puts_leave_is_hidden_and_can_be_removed(storage: LocalStorage, disk: FsRecorder, tmp_path: Path):
    storage.put_if_absent("done/0", b"record")
    in_a_killed_child(disk, 2, lambda: storage.put_if_absent("done/1", b"record"))
    assert len(os.listdir(tmp_path / "done")) == 2
    assert storage.list("done") == ["0"]
    storage.remove_leftovers("done")
    assert os.listdir(tmp_path / "done") == ["0"]
    storage.remove_leftovers("no such folder")


def test_a_put_leaves_nothing_beside_the_file(storage: LocalStorage, tmp_path: Path):
    storage.put_if_absent("1", b"record")
    storage.put_if_absent("1", b"record")
    storage.replace("1", b"record")
    assert os.listdir(tmp_path) == ["1"]


def test_a_disk_that_takes_only_a_part_at_a_time_gets_the_rest(storage: LocalStorage, monkeypatch: pytest.MonkeyPatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))
    storage.put_if_absent("done/1", b"ten bytes.")
    assert storage.read("done/1") == b"ten bytes."


def test_replacing_gives_the_new_content_and_needs_no_old_one(storage: LocalStorage):
    storage.replace("finished_through", b"3")
    storage.replace("finished_through", b"4")
    assert storage.read("finished_through") == b"4"


def test_what_is_absent_reads_as_none_lists_as_empty_and_deletes_without_an_error(storage: LocalStorage):
    assert storage.read("done/1") is None
    assert storage.list("done") == []
    storage.delete("done/1")


def test_a_list_has_the_files_of_one_folder_only_in_order(storage: LocalStorage):
    for name in ("runs/2", "runs/10", "runs/1", "runs/deeper/3"):
        storage.put_if_absent(name, b"")
    assert storage.list("runs") == ["1", "10", "2"]


def test_a_name_that_leaves_the_root_is_refused(storage: LocalStorage):
    for name in ("/etc/passwd", "../outside", "runs/../../outside"):
        with pytest.raises(ValueError, match="not a name below"):
            storage.read(name)


# --- set aside ---------------------------------------------------------------------------------------------


def test_a_file_set_aside_keeps_its_content_and_is_no_log_entry(storage: LocalStorage):
    storage.put_if_absent("commits/5", b"torn")
    aside = storage.set_aside("commits/5")
    assert aside == "commits/.aside-5-0"
    assert storage.read("commits/5") is None
    assert storage.read(aside) == b"torn"
    assert entry_numbers(storage.list("commits")) == []


def test_a_second_file_set_aside_does_not_replace_the_first(storage: LocalStorage):
    for content in (b"first", b"second"):
        storage.put_if_absent("commits/5", content)
        storage.set_aside("commits/5")
    assert storage.read("commits/.aside-5-0") == b"first"
    assert storage.read("commits/.aside-5-1") == b"second"


def test_a_file_that_is_gone_cannot_be_set_aside(storage: LocalStorage, tmp_path: Path, disk: FsRecorder):
    assert storage.set_aside("commits/5") is None
    storage.put_if_absent("commits/6", b"")

    def vanish(event: Event) -> None:
        if event.what == "rename":
            disk.before_each = lambda event: None
            storage.delete("commits/6")

    disk.before_each = vanish
    assert storage.set_aside("commits/6") is None
    assert os.listdir(tmp_path / "commits") == []


# --- after a power loss ------------------------------------------------------------------------------------


def test_what_was_put_survives_a_power_loss_with_all_folders_above(
    storage: LocalStorage, disk: FsRecorder, tmp_path: Path
):
    storage.put_if_absent("ledger/deep/done/3", b"record")
    assert disk.survives(tmp_path / "ledger/deep/done/3")


def test_at_no_moment_of_a_put_could_a_power_loss_leave_a_name_without_its_content(
    storage: LocalStorage, disk: FsRecorder, tmp_path: Path
):
    storage.put_if_absent("done/3", b"record")
    kinds = [event.what for event in disk.events]
    assert kinds.index("sync", kinds.index("write")) < kinds.index("link")
    assert disk.events[-1] == Event("sync", tmp_path / "done")


def test_what_was_replaced_survives_a_power_loss(storage: LocalStorage, disk: FsRecorder, tmp_path: Path):
    storage.replace("finished_through", b"3")
    assert disk.survives(tmp_path / "finished_through")
    kinds = [event.what for event in disk.events]
    assert kinds.index("sync") < kinds.index("rename")


def test_a_put_that_loses_makes_the_winner_durable(storage: LocalStorage, disk: FsRecorder, tmp_path: Path):
    _put_by_somebody_killed_before_the_sync(disk, tmp_path / "decided" / "4")
    assert not disk.survives(tmp_path / "decided/4")
    storage.put_if_absent("decided/4", b"other")
    assert disk.survives(tmp_path / "decided/4")


@pytest.mark.parametrize("look", ["read", "list"])
def test_what_is_read_or_listed_is_durable_even_if_its_writer_was_killed(
    look: str, storage: LocalStorage, disk: FsRecorder, tmp_path: Path
):
    _put_by_somebody_killed_before_the_sync(disk, tmp_path / "decided" / "4")
    if look == "read":
        assert storage.read("decided/4") == b"record"
    else:
        assert storage.list("decided") == ["4"]
    assert disk.survives(tmp_path / "decided/4")


def test_a_folder_that_somebody_else_made_gets_a_durable_name_too(
    storage: LocalStorage, disk: FsRecorder, tmp_path: Path
):
    os.mkdir(tmp_path / "ledger")
    os.mkdir(tmp_path / "ledger" / "done")
    storage.put_if_absent("ledger/done/1", b"record")
    assert disk.survives(tmp_path / "ledger/done/1")


def test_what_is_known_to_be_durable_is_not_synced_again(storage: LocalStorage, disk: FsRecorder, tmp_path: Path):
    _put_by_somebody_killed_before_the_sync(disk, tmp_path / "done" / "1")
    storage.list("done")
    storage.put_if_absent("done/2", b"record")
    storage.replace("done/through", b"2")
    disk.forget()
    assert storage.list("done") == ["1", "2", "through"]
    assert [storage.read(f"done/{name}") for name in ("1", "2", "through")] == [b"record", b"record", b"2"]
    assert disk.synced() == []


@pytest.mark.parametrize("look", ["read", "list"])
def test_a_file_that_takes_a_known_name_is_made_durable(
    look: str, storage: LocalStorage, disk: FsRecorder, tmp_path: Path
):
    """Also within the same clock tick, when the folder's time does not move."""
    storage.put_if_absent("done/1", b"record")
    status = os.stat(tmp_path / "done")
    _put_by_somebody_killed_before_the_sync(disk, tmp_path / "other" / "1")
    os.replace(tmp_path / "other" / "1", tmp_path / "done" / "1")
    os.utime(tmp_path / "done", ns=(status.st_atime_ns, status.st_mtime_ns))
    storage.read("done/1") if look == "read" else storage.list("done")
    assert disk.survives(tmp_path / "done/1")
    assert disk.synced()[-1] == tmp_path / "done"


def test_a_file_that_comes_beside_known_ones_is_made_durable(storage: LocalStorage, disk: FsRecorder, tmp_path: Path):
    storage.put_if_absent("done/1", b"record")
    descriptor = os.open(tmp_path / "done" / "2", os.O_WRONLY | os.O_CREAT)
    os.fsync(descriptor)
    os.close(descriptor)
    assert storage.list("done") == ["1", "2"]
    assert disk.survives(tmp_path / "done/2")


def test_what_is_deleted_and_comes_back_is_made_durable(storage: LocalStorage, disk: FsRecorder, tmp_path: Path):
    storage.put_if_absent("done/1", b"record")
    os.link(tmp_path / "done/1", tmp_path / "kept")
    storage.delete("done/1")
    os.link(tmp_path / "kept", tmp_path / "done/1")
    disk.forget()
    storage.read("done/1")
    assert disk.synced() == [tmp_path / "done"]


def test_of_many_files_that_came_and_went_only_those_that_stand_are_remembered(storage: LocalStorage):
    for number in range(50):
        storage.put_if_absent(f"done/{number}", b"record")
        storage.path(f"done/{number}").unlink()  # as Spark does it with its own log
    storage.list("done")
    assert storage._durable[storage.path("done")] == {}


def test_a_file_set_aside_is_gone_for_good_after_a_power_loss(storage: LocalStorage, disk: FsRecorder, tmp_path: Path):
    storage.put_if_absent("commits/5", b"torn")
    storage.set_aside("commits/5")
    assert not disk.survives(tmp_path / "commits/5")
    assert disk.survives(tmp_path / "commits/.aside-5-0")


# --- what the disk may answer ------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("step", ["write", "sync"])
def test_a_full_disk_is_told_apart_leaves_nothing_and_goes_on_when_space_returns(
    number: int, step: str, storage: LocalStorage, disk: FsRecorder, tmp_path: Path
):
    disk.fail(step, number, named=".tmp")
    assert _code_of(lambda: storage.put_if_absent("done-1", b"record")) == "TG-STORAGE-FULL"
    assert os.listdir(tmp_path) == []
    disk.before_each = lambda event: None
    assert storage.put_if_absent("done-1", b"record")


def test_after_a_failed_sync_the_storage_is_not_trusted_any_more(storage: LocalStorage, disk: FsRecorder):
    disk.fail("sync", errno.EIO)
    assert _code_of(lambda: storage.put_if_absent("done/1", b"record")) == "TG-STORAGE-UNUSABLE"
    disk.before_each = lambda event: None
    disk.forget()
    with pytest.raises(TidegateError, match="after an earlier sync failed"):
        storage.put_if_absent("done/1", b"record")
    assert _code_of(lambda: storage.read("done/1")) == "TG-STORAGE-UNUSABLE"
    assert disk.events == []


def test_a_file_system_without_hard_links_is_refused_with_what_to_do(storage: LocalStorage, disk: FsRecorder):
    disk.fail("link", errno.EPERM)
    with pytest.raises(TidegateError, match=r"(?s)TG-STORAGE-UNUSABLE.*errno 1.*done/1.*hard links"):
        storage.put_if_absent("done/1", b"record")


def test_a_file_in_the_place_of_a_folder_is_named(storage: LocalStorage):
    storage.put_if_absent("done", b"")
    for attempt in (lambda: storage.put_if_absent("done/1", b""), lambda: storage.read("done/1")):
        with pytest.raises(TidegateError, match=r"(?s)TG-STORAGE-UNUSABLE.*a file stands where a folder is needed"):
            attempt()


# --- checking a folder -------------------------------------------------------------------------------------


def test_a_folder_that_works_passes_the_check_and_is_left_empty(tmp_path: Path):
    assert check_storage(LocalStorage(tmp_path / "new")) is None
    assert os.listdir(tmp_path / "new") == []


def test_the_check_finds_a_folder_that_cannot_link(tmp_path: Path, disk: FsRecorder):
    disk.fail("link", errno.EOPNOTSUPP)
    error = check_storage(LocalStorage(tmp_path))
    assert error is not None
    assert error.code == "TG-STORAGE-UNUSABLE"


def test_the_check_finds_a_link_that_replaces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "link", os.replace)
    error = check_storage(LocalStorage(tmp_path))
    assert error is not None
    assert "a second put of the same name gives False" in error.expected
    assert error.found == "True"


# --- helpers -----------------------------------------------------------------------------------------------


def _code_of(attempt: Callable[[], object]) -> str:
    with pytest.raises(TidegateError) as caught:
        attempt()
    return caught.value.code


def _put_by_somebody_killed_before_the_sync(disk: FsRecorder, path: Path) -> None:
    """As a put does it, up to the link: the content is synced, the name is not."""
    os.mkdir(path.parent)
    descriptor = os.open(path.parent.parent, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b"record")
    os.fsync(descriptor)
    os.close(descriptor)


def test_a_peek_at_names_syncs_nothing_and_leaves_the_time_of_the_folder(
    storage: LocalStorage, disk: FsRecorder, tmp_path: Path
):
    storage.put_if_absent("ledger/done/7", b"")
    before = (tmp_path / "ledger/done").stat().st_mtime_ns
    disk.forget()
    assert LocalStorage(tmp_path).peek_names("ledger/done") == ["7"]
    assert disk.synced() == []
    assert (tmp_path / "ledger/done").stat().st_mtime_ns == before

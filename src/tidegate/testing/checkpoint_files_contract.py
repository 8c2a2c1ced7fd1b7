"""The contract of `CheckpointFiles` as a suite of tests. Needs pytest.

class TestMyFiles(CheckpointFilesContract):
    def open(self, root: str) -> CheckpointFiles: ...
    def as_spark(self, root: str, name: str, data: bytes) -> None: ...
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path

import pytest

from tidegate.core.errors import TidegateError
from tidegate.storages.checkpoint_files import CheckpointFiles
from tidegate.testing.contract_parts import demand

FILES = {
    "metadata": b'{"id":"0"}',
    ".metadata.crc": b"crc",
    "offsets/7": b"v1\n{}\n7",
    "offsets/10": b"v1\n{}\n10",
    "commits/7": b"v1\n{}",
    "sources/0/7": b"v1",
    "state/0/0/8_a.zip": bytes(range(256)) * 10_000,
    "state/0/0/_metadata/schema": b"",
}
"""What Spark writes, in kinds: entries with their checksums, deep folders, an empty file, one of several blocks."""

BEING_WRITTEN = ("offsets/.11.0b7c.tmp", "offsets/..11.0b7c.tmp.crc")


class CheckpointFilesContract(ABC):
    """The tests that every implementation of `CheckpointFiles` must pass.

    Inherit them in a test class named `Test...` that defines `open` and `as_spark`.
    """

    folder: Path
    """A folder of this test's own, for files that need one."""

    sync_is_needed = True
    """False for a storage that makes every written file durable by itself: its `sync` does nothing."""

    @abstractmethod
    def open(self, root: str) -> CheckpointFiles:
        """The files below this root, a word: `checkpoint`, `held`, `copied`. Each call gives another object. All are of
        one storage, and empty when the test begins."""

    @abstractmethod
    def as_spark(self, root: str, name: str, data: bytes) -> None:
        """Create this file, or give it this content, as Spark does below the same root."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def written(self) -> CheckpointFiles:
        """A checkpoint with `FILES`, and one file that Spark is still writing."""
        for name, data in FILES.items():
            self.as_spark("checkpoint", name, data)
        for name in BEING_WRITTEN:
            self.as_spark("checkpoint", name, b"half")
        return self.open("checkpoint")

    def content(self, files: CheckpointFiles, name: str) -> bytes | None:
        """All of a file; None if it is absent."""
        opened = files.open(name)
        if opened is None:
            return None
        buffer, content = memoryview(bytearray(1 << 16)), b""
        with closing(opened):  # pyright: ignore[reportArgumentType] (every open file can be closed)
            while length := opened.readinto(buffer):
                content += buffer[:length]
        return content

    # --- list, read ------------------------------------------------------------------------------------------

    def test_every_finished_file_is_listed_with_its_size(self) -> None:
        found = self.written().list()
        sizes = {each.name: each.size_bytes for each in found}
        demand(sizes == {name: len(data) for name, data in FILES.items()}, f"each file with its size: {sizes}")
        demand([each.name for each in found] == sorted(FILES), "sorted by name")

    def test_a_folder_is_listed_by_names_from_the_root(self) -> None:
        files = self.written()
        names = [each.name for each in files.list("state/0")]
        demand(names == ["state/0/0/8_a.zip", "state/0/0/_metadata/schema"], f"names begin at the root: {names}")
        demand(files.list("stat") == [], "the begin of a name is no folder")
        demand(files.list("none") == [] and self.open("none").list() == [], "an absent folder or root is empty")

    def test_what_a_dead_engine_has_left_is_told_apart_from_every_other_file(self) -> None:
        files = self.written()
        for name in ("state/0/0/.sync-failed.tmp", "offsets/.8.5a1f.tidegate.tmp"):
            self.as_spark("checkpoint", name, b"")
        demand(files.unfinished() == sorted(BEING_WRITTEN), f"what Spark was writing: {files.unfinished()}")
        demand(self.open("none").unfinished() == [], "an absent root is empty")

    @pytest.mark.parametrize("name", FILES)
    def test_a_file_is_read_as_spark_wrote_it(self, name: str) -> None:
        demand(self.content(self.written(), name) == FILES[name], f"{name} is read whole")
        demand(self.content(self.open("checkpoint"), "offsets/8") is None, "an absent file is None")

    def test_a_later_file_was_not_written_earlier(self) -> None:
        files = self.written()
        before = next(each.written_at for each in files.list("offsets") if each.name == "offsets/7")
        self.as_spark("checkpoint", "offsets/11", b"v1")
        after = next(each.written_at for each in files.list("offsets") if each.name == "offsets/11")
        demand(after >= before, f"times do not go back: {before}, {after}")

    # --- hold ------------------------------------------------------------------------------------------------

    def test_what_is_held_outlives_what_spark_removes(self) -> None:
        files, held = self.written(), self.open("held")
        for name in FILES:
            demand(files.hold(name, held.where()) is True, f"{name} is held")
            files.delete(name)
        demand({each.name for each in self.open("held").list()} == set(FILES), "every file is there under its name")
        for name, data in FILES.items():
            demand(self.content(held, name) == data, f"{name} is held as it was")

    def test_what_is_gone_cannot_be_held(self) -> None:
        files, held = self.written(), self.open("held")
        files.delete("offsets/7")
        files.delete("offsets/7")
        demand(files.hold("offsets/7", held.where()) is False, "a file that is gone is answered by False")
        demand(held.list() == [], "and leaves nothing")

    def test_clearing_what_is_held_takes_nothing_from_the_checkpoint(self) -> None:
        files, held = self.written(), self.open("held")
        files.hold("state/0/0/8_a.zip", held.where())
        held.clear("state")
        demand(held.list() == [], "what is held is gone")
        demand(self.content(files, "state/0/0/8_a.zip") == FILES["state/0/0/8_a.zip"], "the checkpoint is as it was")

    # --- copy ------------------------------------------------------------------------------------------------

    def test_a_copy_is_whole_measured_and_told_block_by_block(self) -> None:
        files, copied = self.written(), self.open("copied")
        for name, data in FILES.items():
            passed: list[int] = []
            found = files.copy(name, copied, passed.append)
            demand(found is not None and found.size_bytes == len(data) == sum(passed), f"{name}: each byte is told")
            demand(found is not None and found.sha256 == hashlib.sha256(data).hexdigest(), f"{name}: with its SHA-256")
            demand(self.content(self.open("copied"), name) == data, f"{name}: the copy is whole")
        demand(files.copy("offsets/8", copied, lambda _: None) is None, "an absent file is answered by None")

    def test_a_copy_never_takes_the_place_of_a_file(self) -> None:
        files, copied = self.written(), self.open("copied")
        copied.write("offsets/7", b"another")
        with pytest.raises(TidegateError):
            files.copy("offsets/7", copied, lambda _: None)
        with pytest.raises(TidegateError):
            copied.write("offsets/7", b"a third")
        demand(self.content(copied, "offsets/7") == b"another", "what is there stays")

    def test_who_is_told_of_a_block_can_end_the_copy(self) -> None:
        class CalledOff(Exception):
            pass

        def call_off(_: int) -> None:
            raise CalledOff

        with pytest.raises(CalledOff):
            self.written().copy("state/0/0/8_a.zip", self.open("copied"), call_off)

    # --- remove, sync ----------------------------------------------------------------------------------------

    def test_a_cleared_folder_is_gone_with_all_below(self) -> None:
        files = self.written()
        for _ in range(2):
            files.clear("state")
            files.clear("offsets")
        left = [each.name for each in self.open("checkpoint").list()]
        demand(left == [".metadata.crc", "commits/7", "metadata", "sources/0/7"], f"everything else stays: {left}")

    def test_each_file_is_synced_once_and_what_is_new_again(self) -> None:
        files = self.written()
        first = set(files.sync())
        wanted = {name for name in FILES if self.sync_is_needed and not name.startswith("commits/")}
        demand(wanted <= first, f"the first sync takes all but the log of commits: {wanted - first}")
        demand(not any(name.startswith("commits/") for name in first), "which the ledger keeps")
        self.as_spark("checkpoint", "offsets/11", b"v1")
        second = set(files.sync())
        demand(("offsets/11" in second) is self.sync_is_needed, f"a later sync takes what is new: {second}")
        demand(not wanted & second, f"and nothing that it has taken before: {wanted & second}")

    def test_a_sync_of_nothing_is_nothing(self) -> None:
        demand(self.open("none").sync() == [], "a root that is absent has nothing to sync")

    def test_every_name_has_a_place_that_a_person_can_look_for(self) -> None:
        files = self.open("checkpoint")
        demand(
            files.where("offsets/7").endswith("offsets/7"), f"a place ends with the name: {files.where('offsets/7')}"
        )
        demand(files.where("offsets/7").startswith(files.where()), "and begins with the place of the root")

"""The files of Spark's checkpoint, on each storage that there is, under the contract that is shipped."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tidegate.storages.checkpoint_files import CheckpointFile, CheckpointFiles, Measured
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.testing.checkpoint_files_contract import CheckpointFilesContract
from tidegate.testing.contract_parts import ContractBroken
from tidegate.testing.memory_checkpoint_files import Bucket, MemoryCheckpointFiles


class TestLocalCheckpointFiles(CheckpointFilesContract):
    def open(self, root: str) -> CheckpointFiles:
        return open_checkpoint_files((self.folder / root).as_uri())

    def as_spark(self, root: str, name: str, data: bytes) -> None:
        path = self.folder / root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


class InMemory(CheckpointFilesContract):
    bucket: Bucket

    @pytest.fixture(autouse=True)
    def _bucket(self) -> None:
        self.bucket = Bucket()

    def open(self, root: str) -> CheckpointFiles:
        return MemoryCheckpointFiles(self.bucket, f"memory:/{root}")

    def as_spark(self, root: str, name: str, data: bytes) -> None:
        self.bucket.files[f"memory:/{root}/{name}"] = data, time.time()


class TestMemoryCheckpointFiles(InMemory):
    pass


# --- the suite finds what is wrong -------------------------------------------------------------------------


class Shared(MemoryCheckpointFiles):
    """What is held is a second name that a delete takes along."""

    def delete(self, name: str) -> None:
        for each in [each for each in self._bucket.files if each.endswith(f"/{name}")]:
            del self._bucket.files[each]


class Eager(MemoryCheckpointFiles):
    """Lists what Spark is still writing."""

    def list(self, folder: str = "") -> list[CheckpointFile]:
        files = [(name, *self._bucket.files[self.where(name)]) for name in self.list_all(folder)]
        return [CheckpointFile(name, len(data), at) for name, data, at in files]

    def list_all(self, folder: str) -> list[str]:
        names = [name.removeprefix(f"{self._root}/") for name in self._bucket.files if name.startswith(self._root)]
        return sorted(name for name in names if not folder or name.startswith(f"{folder}/"))


class Silent(MemoryCheckpointFiles):
    """Tells nothing of a copy, so that nothing can end it."""

    def copy(self, name: str, to: CheckpointFiles, passed: Callable[[int], object]) -> Measured | None:
        return super().copy(name, to, lambda _: None)


class Forgetful(MemoryCheckpointFiles):
    """Syncs everything each time."""

    def sync(self) -> list[str]:
        self._synced = {}
        return super().sync()


@pytest.mark.parametrize(
    ("flawed", "test"),
    [
        (Shared, "test_what_is_held_outlives_what_spark_removes"),
        (Eager, "test_every_finished_file_is_listed_with_its_size"),
        (Silent, "test_a_copy_is_whole_measured_and_told_block_by_block"),
        (Silent, "test_who_is_told_of_a_block_can_end_the_copy"),
        (Forgetful, "test_each_file_is_synced_once_and_what_is_new_again"),
    ],
)
def test_the_suite_finds_files_that_break_it(flawed: type[MemoryCheckpointFiles], test: str) -> None:
    class Suite(InMemory):
        def open(self, root: str) -> CheckpointFiles:
            return flawed(self.bucket, f"memory:/{root}")

    suite = Suite()
    suite.bucket = Bucket()
    with pytest.raises((ContractBroken, pytest.fail.Exception)):
        getattr(suite, test)()

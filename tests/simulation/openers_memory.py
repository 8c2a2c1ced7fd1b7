"""Records and files of Spark in one memory, whose requests stop the process that sends them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, cast
from unittest import mock

from tidegate.disk.blocks import Readable, read_blocks
from tidegate.storages import checkpoints, journals, opening
from tidegate.storages.checkpoint_files import CheckpointFile, Measured, is_temporary
from tidegate.storages.schemes import Folder, Scheme
from tidegate.storages.storage import Names
from tidegate.testing.memory_journal import JournalFiles, MemoryJournal
from tidegate.testing.memory_storage import Memory, MemoryStorage


@contextmanager
def in_memory(memory: Memory, step: Callable[[], None] = lambda: None) -> Generator[None]:
    """Folders of S3 are in this memory, inside of the block."""
    made_by: tuple[tuple[object, Callable[..., object]], ...] = (
        (opening._STORAGES, lambda folder, _: WorldStorage(memory, f"{folder.path}/", step)),  # pyright: ignore[reportPrivateUsage]
        (checkpoints._CHECKPOINTS, lambda folder: WorldFiles(memory, folder, step)),  # pyright: ignore[reportPrivateUsage]
        (journals._JOURNALS, lambda _folder: MemoryJournal(JournalFiles())),  # pyright: ignore[reportPrivateUsage]
    )
    with ExitStack() as stack:
        for table, made in made_by:
            stack.enter_context(mock.patch.dict(cast(Any, table), {Scheme.S3: made}))
        yield


class WorldStorage(MemoryStorage):
    """`step` is called before each request that decides something. A folder is cleared record by record."""

    def __init__(self, memory: Memory, root: str, step: Callable[[], None]) -> None:
        super().__init__(memory, root)
        self._step = step

    def below(self, folder: str) -> WorldStorage:
        return WorldStorage(self._memory, f"{self._root}{folder}/", self._step)

    def put_if_absent(self, name: str, data: bytes) -> bool:
        self._step()
        return super().put_if_absent(name, data)

    def replace(self, name: str, data: bytes) -> None:
        self._step()
        super().replace(name, data)

    def read(self, name: str) -> bytes | None:
        self._step()
        return super().read(name)

    def list(self, folder: str) -> Names:
        self._step()
        return super().list(folder)

    def folders(self, folder: str) -> Names:
        self._step()
        return super().folders(folder)

    def delete(self, name: str) -> None:
        self._step()
        super().delete(name)

    def delete_all(self, names: Sequence[str]) -> None:
        for name in names:
            self.delete(name)

    def clear(self, folder: str) -> None:
        for name in self._below(folder):
            self.delete(f"{folder}/{name}")


class WorldFiles:
    """The files of Spark in the same memory."""

    def __init__(self, memory: Memory, root: Folder, step: Callable[[], None]) -> None:
        self._memory, self._root = memory, root.path
        self._storage = WorldStorage(memory, f"{root.path}/", step)
        self._step = step

    def where(self, name: str = "") -> str:
        return f"{self._root}/{name}" if name else self._root

    def list(self, folder: str = "") -> list[CheckpointFile]:
        self._step()
        prefix = f"{self.where(folder)}/"
        found = [(name, data) for name, (data, _) in self._memory.records.items() if name.startswith(prefix)]
        below = [(name.removeprefix(f"{self._root}/"), data) for name, data in found]
        return sorted(
            (CheckpointFile(name, len(data), 0.0) for name, data in below if not is_temporary(name.rpartition("/")[2])),
            key=lambda each: each.name,
        )

    def hold(self, name: str, into: str) -> bool:
        data = self._storage.read(name)
        if data is None:
            return False
        self._step()
        self._memory.records[f"{into}/{name}"] = data, 0.0
        return True

    def write(self, name: str, data: bytes) -> None:
        self._storage.replace(name, data)

    def create(self, name: str, source: Readable, passed: Callable[[int], object]) -> Measured:
        blocks: list[bytes] = []
        found = Measured(*read_blocks(source, lambda block: blocks.append(bytes(block))))
        self._storage.replace(name, b"".join(blocks))
        return found

    def sync(self) -> list[str]:
        return []

"""`CheckpointFiles` in the memory of this process. A hold copies the files, as an object store does."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tidegate.disk.blocks import Readable, read_blocks
from tidegate.storages.checkpoint_files import (
    LEFT_OUT,
    CheckpointFile,
    CheckpointFiles,
    Measured,
    copy_by_reading,
    is_of_a_dead_engine,
    is_temporary,
)
from tidegate.storages.refusals import name_taken


@dataclass(slots=True)
class Bucket:
    """The files of all roots, by their full names."""

    files: dict[str, tuple[bytes, float]] = field(default_factory=dict[str, tuple[bytes, float]])
    lock: threading.RLock = field(default_factory=threading.RLock)


class MemoryCheckpointFiles:
    """`CheckpointFiles` in a `Bucket`; names are relative to `root`."""

    def __init__(self, bucket: Bucket, root: str) -> None:
        self._bucket = bucket
        self._root = root
        self._synced: dict[str, tuple[bytes, float]] = {}

    def where(self, name: str = "") -> str:
        return f"{self._root}/{name}" if name else self._root

    def list(self, folder: str = "") -> list[CheckpointFile]:
        prefix = f"{self.where(folder)}/"
        with self._bucket.lock:
            found = [
                CheckpointFile(name.removeprefix(f"{self._root}/"), len(data), at)
                for name, (data, at) in self._bucket.files.items()
                if name.startswith(prefix) and not is_temporary(name.rpartition("/")[2])
            ]
        return sorted(found, key=lambda each: each.name)

    def unfinished(self) -> list[str]:
        prefix = f"{self._root}/"
        with self._bucket.lock:
            names = [name.removeprefix(prefix) for name in self._bucket.files if name.startswith(prefix)]
        return sorted(name for name in names if is_of_a_dead_engine(name.rpartition("/")[2]))

    def open(self, name: str) -> io.BytesIO | None:
        found = self._bucket.files.get(self.where(name))
        return None if found is None else io.BytesIO(found[0])

    def write(self, name: str, data: bytes) -> None:
        with self._bucket.lock:
            if self.where(name) in self._bucket.files:
                raise name_taken(self.where(name))
            self._bucket.files[self.where(name)] = data, time.time()

    def hold(self, name: str, into: str) -> bool:
        with self._bucket.lock:
            found = self._bucket.files.get(self.where(name))
            if found is None:
                return False
            if self._bucket.files.setdefault(f"{into}/{name}", found) is not found:
                raise name_taken(f"{into}/{name}")
        return True

    def copy(self, name: str, to: CheckpointFiles, passed: Callable[[int], object]) -> Measured | None:
        return copy_by_reading(self, name, to, passed)

    def create(self, name: str, source: Readable, passed: Callable[[int], object]) -> Measured:
        content = bytearray()

        def take(block: memoryview) -> None:
            content.extend(block)
            passed(len(block))

        found = read_blocks(source, take)
        self.write(name, bytes(content))
        return Measured(*found)

    def delete(self, name: str) -> None:
        with self._bucket.lock:
            self._bucket.files.pop(self.where(name), None)

    def clear(self, folder: str) -> None:
        for each in self.list_all(folder):
            self.delete(each)

    def list_all(self, folder: str) -> list[str]:
        """The names of all files below a folder, also of files that Spark is still writing."""
        with self._bucket.lock:
            names = [name.removeprefix(f"{self._root}/") for name in self._bucket.files]
        return [name for name in names if name.startswith(f"{folder}/")]

    def sync(self) -> list[str]:
        with self._bucket.lock:
            now = {each.name: self._bucket.files[self.where(each.name)] for each in self.list()}
        new = [
            name
            for name, found in now.items()
            if not name.startswith(f"{LEFT_OUT}/") and self._synced.get(name) is not found
        ]
        self._synced = now
        return new

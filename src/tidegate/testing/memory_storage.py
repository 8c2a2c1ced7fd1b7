"""A `Storage` in the memory of this process: for tests, and to prove that the interface does not depend on a disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.storages.storage import Names, RecordStat, demand_below


@dataclass(slots=True)
class Memory:
    """The records of one storage, by their names relative to its root.

    All `MemoryStorage` objects with it share them.
    """

    records: dict[str, tuple[bytes, float]] = field(default_factory=dict[str, tuple[bytes, float]])
    lock: threading.RLock = field(default_factory=threading.RLock)


class MemoryStorage:
    """A `Storage` in a `Memory`. Its records end with the process."""

    def __init__(self, memory: Memory, root: str = "") -> None:
        self._memory = memory
        self._root = root

    def where(self, name: str = "") -> str:
        return f"memory:/{self._name(name)}".removesuffix("/")

    def below(self, folder: str) -> MemoryStorage:
        return MemoryStorage(self._memory, f"{self._name(folder)}/")

    def put_if_absent(self, name: str, data: bytes) -> bool:
        key = self._name(name)
        with self._memory.lock:
            if key in self._memory.records:
                return False
            self._memory.records[key] = data, time.time()
            return True

    def replace(self, name: str, data: bytes) -> None:
        with self._memory.lock:
            self._memory.records[self._name(name)] = data, time.time()

    def note(self, name: str, data: bytes) -> None:
        self.replace(name, data)

    def read(self, name: str) -> bytes | None:
        found = self._memory.records.get(self._name(name))
        return None if found is None else found[0]

    def peek(self, name: str) -> bytes | None:
        return self.read(name)

    def look(self, name: str) -> RecordStat | None:
        found = self._memory.records.get(self._name(name))
        return None if found is None else RecordStat(len(found[0]), found[1])

    def list(self, folder: str) -> Names:
        return sorted(name for name in self._below(folder) if "/" not in name)

    def peek_names(self, folder: str) -> Names:
        return self.list(folder)

    def folders(self, folder: str) -> Names:
        return sorted({name.partition("/")[0] for name in self._below(folder) if "/" in name})

    def delete(self, name: str) -> None:
        with self._memory.lock:
            self._memory.records.pop(self._name(name), None)

    def delete_all(self, names: Sequence[str]) -> None:
        for name in names:
            self.delete(name)

    def delete_folder(self, folder: str) -> None:
        self._name(folder)  # there are no folders in memory

    def clear(self, folder: str) -> None:
        with self._memory.lock:
            for name in self._below(folder):
                self.delete(f"{folder}/{name}")

    def settle(self, folder: str) -> None:
        self._name(folder)

    def set_aside(self, name: str) -> str | None:
        folder, slash, file = name.rpartition("/")
        with self._memory.lock:
            content = self._memory.records.pop(self._name(name), None)
            if content is None:
                return None
            number = 0
            while self._name(aside := f"{folder}{slash}.aside-{file}-{number}") in self._memory.records:
                number += 1
            self._memory.records[self._name(aside)] = content
        return aside

    def remove_leftovers(self, folder: str, of: str = "") -> None:
        self._name(folder)  # a put in memory leaves nothing

    def _below(self, folder: str) -> Names:
        """The names of all records below `folder`, relative to it."""
        prefix = f"{self._name(folder)}/" if folder else self._root
        with self._memory.lock:
            return [key.removeprefix(prefix) for key in self._memory.records if key.startswith(prefix)]

    def _name(self, name: str) -> str:
        demand_below(name)
        return f"{self._root}{name}"

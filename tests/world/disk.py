"""A disk that forgets what was not synced, and a power loss in its variants."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final, TypeAlias

Content: TypeAlias = object
"""What a file holds: bytes where the protocol reads it, any value where only the world does."""


class _Absent(Enum):
    ABSENT = "absent"


ABSENT: Final = _Absent.ABSENT
COMMITS: Final = "spark/commits"
OFFSETS: Final = "spark/offsets"
STATE: Final = "spark/state"


class Loss(Enum):
    """What a power loss does to what was not synced."""

    KEEP = "keep"  # everything had reached the disk
    DROP = "drop"  # nothing had: new files vanish, deleted ones are back, renames are undone
    EMPTY = "empty"  # names are there, contents are not
    CUT = "cut"  # contents end after their first line
    COMMITS = "commits"  # only `commits/` is dropped
    OFFSETS = "offsets"  # only `offsets/` is dropped
    STATE = "state"  # only state files are dropped
    REORDER = "reorder"  # of `commits/` only the newest entry was written
    UNDELETE = "undelete"  # everything was written, deleted files are back


_ONLY: Final = {Loss.COMMITS: COMMITS, Loss.OFFSETS: OFFSETS, Loss.STATE: STATE}


class Disk:
    """Files by folder and name. `write` and `delete` are durable only after `sync`; the others at once."""

    def __init__(self) -> None:
        self._folders: dict[str, dict[str, Content]] = {}
        self._on_platter: dict[tuple[str, str], Content] = {}
        self._renamed: list[tuple[str, str]] = []

    def read(self, name: str) -> Content:
        """The content, or ABSENT."""
        folder, _, file = name.rpartition("/")
        return self._folders.get(folder, {}).get(file, ABSENT)

    def read_bytes(self, name: str) -> bytes | None:
        """The bytes of a file that the protocol reads, None when it is absent."""
        data = self.read(name)
        return data if isinstance(data, bytes) else None

    def names(self, folder: str) -> list[str]:
        return list(self._folders.get(folder, ()))

    def folders(self, below: str) -> list[str]:
        """The folders with files in them whose names begin with `below`."""
        return [folder for folder, files in self._folders.items() if files and folder.startswith(below)]

    def put(self, name: str, data: Content) -> None:
        """Write a whole file, durable at once."""
        folder, _, file = name.rpartition("/")
        self._folders.setdefault(folder, {})[file] = data
        self._on_platter.pop((folder, file), None)

    def put_if_absent(self, name: str, data: Content) -> bool:
        if self.read(name) is not ABSENT:
            return False
        self.put(name, data)
        return True

    def write(self, name: str, data: Content) -> None:
        """Write a file and do not sync it, as Spark does."""
        folder, _, file = name.rpartition("/")
        files = self._folders.setdefault(folder, {})
        self._on_platter.setdefault((folder, file), files.get(file, ABSENT))
        files[file] = data

    def delete(self, name: str) -> None:
        folder, _, file = name.rpartition("/")
        files = self._folders.get(folder, {})
        if file in files:
            key = folder, file
            if self._on_platter.setdefault(key, files[file]) is ABSENT:
                del self._on_platter[key]
            del files[file]

    def rename(self, old: str, new: str) -> None:
        """Rename a synced file; a power loss before `sync_renames` may undo it, as a whole."""
        self._move(old, new)
        self._renamed.append((old, new))

    def sync_renames(self) -> None:
        self._renamed.clear()

    def set_aside(self, name: str) -> str | None:
        """Rename durably to a name that is no number; None when the file is gone."""
        data = self.read(name)
        if data is ABSENT:
            return None
        folder, _, file = name.rpartition("/")
        taken = self.names(folder)
        number = 0
        while f".aside-{file}-{number}" in taken:
            number += 1
        aside = f"{folder}/.aside-{file}-{number}"
        self.put(aside, data)
        self.delete(name)
        self._on_platter.pop((folder, file), None)
        return aside

    def sync_checkpoint(self) -> None:
        """What `SyncCheckpoint` makes durable: all that is Spark's but `commits/`."""
        for key in [key for key in self._on_platter if key[0].startswith("spark/") and key[0] != COMMITS]:
            del self._on_platter[key]

    def sync_all(self) -> None:
        """Nothing that stands there now can be lost."""
        self._on_platter.clear()

    def losses(self) -> list[Loss]:
        """The variants of a power loss that differ from each other now."""
        kinds = {self._kind(folder) for folder, file in self._on_platter if file in self._folders[folder]}
        deleted = any(file not in self._folders[folder] for folder, file in self._on_platter)
        found = [Loss.KEEP]
        if kinds or deleted or self._renamed:
            found.append(Loss.DROP)
        if kinds:
            found += [Loss.EMPTY, Loss.CUT]
        if len(kinds) > 1 or (kinds and deleted):
            found += [loss for loss, folder in _ONLY.items() if folder in kinds]
        if len(self._unsynced_commits()) > 1:
            found.append(Loss.REORDER)
        if deleted and kinds:
            found.append(Loss.UNDELETE)
        return found

    def lose_power(self, loss: Loss) -> None:
        """Everything that is left afterwards is durable."""
        newest = max(self._unsynced_commits(), key=int, default="")
        for (folder, file), before in self._on_platter.items():
            files = self._folders[folder]
            after = _after(loss, self._kind(folder), before, files.get(file, ABSENT))
            if loss is Loss.REORDER and folder == COMMITS and file != newest:
                after = before
            if after is ABSENT:
                files.pop(file, None)
            else:
                files[file] = after
        self._on_platter.clear()
        if loss is Loss.DROP:
            for old, new in reversed(self._renamed):
                self._move(new, old)
        self._renamed.clear()

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self.delete(name)

    def _unsynced_commits(self) -> list[str]:
        here = self._folders.get(COMMITS, {})
        return [file for folder, file in self._on_platter if folder == COMMITS and file in here and file.isdigit()]

    def _move(self, old: str, new: str) -> None:
        folder, _, file = old.rpartition("/")
        data = self._folders[folder].pop(file)
        self.put(new, data)

    @staticmethod
    def _kind(folder: str) -> str:
        return STATE if folder.startswith(STATE) else folder


def _after(loss: Loss, kind: str, before: Content, now: Content) -> Content:
    if now is ABSENT:
        return before if loss in (Loss.DROP, Loss.UNDELETE) else ABSENT
    match loss:
        case Loss.DROP:
            return before
        case Loss.EMPTY:
            return b""
        case Loss.CUT:
            return now.split(b"\n")[0] + b"\n" if isinstance(now, bytes) else b""
        case Loss.COMMITS | Loss.OFFSETS | Loss.STATE:
            return before if kind == _ONLY[loss] else now
        case Loss.KEEP | Loss.UNDELETE | Loss.REORDER:
            return now

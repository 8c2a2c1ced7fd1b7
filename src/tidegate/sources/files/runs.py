"""A run of the index: the files of many lists as hashes, in one sorted file that is never changed.

    index/<first>-<last>.<token>   a header line with a checksum, then columns: the two halves of the hash of each path
                                   (the file is sorted by them), a stamp of size and time, and the number of the list

The token is random, so no two runs have the same name. Runs are mapped into memory, so only the parts that are searched
use memory. 28 bytes a file.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tidegate.core.json_formats import Flaw, HeaderLine, Unreadable
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder

INDEX = "index"
UNKNOWN = 0
"""The stamp of a file whose size was not noted: any file of that path is the one that was read."""

Unsigned = npt.NDArray[np.uint64]


class Key(NamedTuple):
    """The hash of a path."""

    high: int
    low: int


class ListedFile(NamedTuple):
    """A file in a list: the hash of its path, the stamp of its size and time, and the number of the list."""

    key: Key
    stamp: int
    number: int


def key_of(name: str) -> Key:
    return Key(*_HALVES.unpack(blake2b(name.encode("utf-8", "surrogateescape"), digest_size=16).digest()))


def stamp_of(size: int, mtime_ns: int) -> int:
    """A hash of size and time, which distinguishes two versions of one path."""
    packed = _SIZE_AND_TIME.pack(size, mtime_ns)
    return int.from_bytes(blake2b(packed, digest_size=8).digest(), "little") or 1


@dataclass(frozen=True, slots=True)
class ListRun:
    """The index entries of the lists with the numbers `first` to `last`, sorted by the hash of the path. `name`: of the
    run's file; no other run ever has it.
    """

    name: str
    first: int
    last: int
    highs: Unsigned
    lows: Unsigned
    stamps: Unsigned
    numbers: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.highs)

    def find(self, keys: Sequence[Key]) -> dict[Key, list[tuple[int, int]]]:
        """For each key that the run has: (stamp, number of the list) of every entry with that key."""
        if not keys or not len(self):
            return {}
        wanted = np.fromiter((key.high for key in keys), np.uint64, len(keys))
        left = np.searchsorted(self.highs, wanted, "left")
        right = np.searchsorted(self.highs, wanted, "right")
        found: dict[Key, list[tuple[int, int]]] = {}
        for at in map(int, np.flatnonzero(right > left)):
            key = keys[at]
            for index in range(int(left[at]), int(right[at])):
                if int(self.lows[index]) == key.low:
                    found.setdefault(key, []).append((int(self.stamps[index]), int(self.numbers[index])))
        return found

    def up_to(self, last: int) -> ListRun:
        """The run without the entries of lists after number `last`."""
        kept = self.numbers <= last
        return _new(self.first, last, self.highs[kept], self.lows[kept], self.stamps[kept], self.numbers[kept])

    def to_bytes(self) -> bytes:
        columns = (self.highs, self.lows, self.stamps, self.numbers)
        body = b"".join([_PADDING, *(column.tobytes() for column in columns)])
        return _HEADER.above(body) + body


def run_of(first: int, last: int, entries: Iterable[ListedFile]) -> ListRun:
    """A run with these entries, for the lists `first` to `last`."""
    rows = list(entries)
    count = len(rows)
    return _sorted(
        first,
        last,
        np.fromiter((row.key.high for row in rows), np.uint64, count),
        np.fromiter((row.key.low for row in rows), np.uint64, count),
        np.fromiter((row.stamp for row in rows), np.uint64, count),
        np.fromiter((row.number for row in rows), np.uint32, count),
    )


def merged(older: ListRun, newer: ListRun) -> ListRun:
    """One run with the entries of two consecutive runs."""
    return _sorted(
        older.first,
        newer.last,
        np.concatenate([older.highs, newer.highs]),
        np.concatenate([older.lows, newer.lows]),
        np.concatenate([older.stamps, newer.stamps]),
        np.concatenate([older.numbers, newer.numbers]),
    )


def open_run(log: Folder, name: str) -> ListRun:
    """Open the run of this name in a log. A file on a local disk is mapped into memory; any other one is read whole.
    Raises RECORD_CORRUPT, RECORD_NEWER, storage errors and OSError.
    """
    storage = open_storage(log)
    where = storage.where(f"{INDEX}/{name}")
    if log.is_local:
        path = Path(where)
        is_empty = path.stat().st_size == 0  # nothing to map
        data = memoryview(b"" if is_empty else cast("Any", np.memmap(path, np.uint8, "r")))
    else:
        data = memoryview(storage.read(f"{INDEX}/{name}") or b"")
    first, last = parsed_name(name) or (0, -1)
    line, newline, _ = bytes(data[:_BEGIN]).partition(b"\n")
    count, rest = divmod(len(data) - _BEGIN, _ROW_BYTES)
    try:
        _HEADER.demand(line + newline, data[len(line) + 1 :])
        if rest or count < 0:
            raise Unreadable(Flaw.FIELDS, f"rows of {_ROW_BYTES} bytes", f"{len(data)} bytes")
    except Unreadable as flaw:
        raise flaw.error(
            where, "put the file back from a copy; do not delete it: it says which files were read"
        ) from None
    highs, lows, stamps = (np.frombuffer(data, np.uint64, count, _BEGIN + index * 8 * count) for index in range(3))
    return ListRun(name, first, last, highs, lows, stamps, np.frombuffer(data, np.uint32, count, _BEGIN + 24 * count))


def parsed_name(name: str) -> tuple[int, int] | None:
    """The numbers of the first and the last list, from a run's file name; None for any other file name."""
    found = _NAME.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]))


def _sorted(
    first: int, last: int, highs: Unsigned, lows: Unsigned, stamps: Unsigned, numbers: npt.NDArray[np.uint32]
) -> ListRun:
    order = np.lexsort((lows, highs))
    return _new(first, last, highs[order], lows[order], stamps[order], numbers[order])


def _new(
    first: int, last: int, highs: Unsigned, lows: Unsigned, stamps: Unsigned, numbers: npt.NDArray[np.uint32]
) -> ListRun:
    return ListRun(f"{first}-{last}.{token_hex(8)}", first, last, highs, lows, stamps, numbers)


_HEADER = HeaderLine("file-index", 1)
_BEGIN = 128
_ROW_BYTES = 28
_PADDING = b" " * (_BEGIN - len(_HEADER.above(b"")))
_HALVES = struct.Struct("<QQ")
_SIZE_AND_TIME = struct.Struct("<qq")
_NAME = re.compile(r"(0|[1-9]\d*)-(0|[1-9]\d*)\.[0-9a-f]+")

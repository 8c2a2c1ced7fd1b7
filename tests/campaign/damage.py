"""What a power loss, a full disk or a hand can do to Spark's log between two runs. The promise covers all of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.campaign.footprint import Footprint


def _newest(log: str) -> Callable[[Footprint], Path]:
    """The entry of the newest decided epoch. What nobody has decided is not in the promise: Spark may need it."""
    return lambda query: query.folder / "spark" / log / str(query.newest("ledger/decided"))


def _delete(log: str) -> Callable[[Footprint], None]:
    def damage(query: Footprint) -> None:
        entry = _newest(log)(query)
        entry.unlink(missing_ok=True)
        _crc(entry).unlink(missing_ok=True)

    return damage


def _cut(log: str, kept: Callable[[bytes], bytes]) -> Callable[[Footprint], None]:
    """Only a part is left; the checksum file beside it stays as it was."""

    def damage(query: Footprint) -> None:
        entry = _newest(log)(query)
        if entry.exists():
            entry.write_bytes(kept(entry.read_bytes()))

    return damage


def _checksums(kept: Callable[[bytes], bytes | None]) -> Callable[[Footprint], None]:
    """Both entries stay as they are; beside them stands what is left of their checksum files."""

    def damage(query: Footprint) -> None:
        for log in ("offsets", "commits"):
            checksum = _crc(_newest(log)(query))
            left = kept(checksum.read_bytes() if checksum.exists() else b"crc\0\0\0\2\0")
            checksum.unlink(missing_ok=True)
            if left is not None:
                checksum.write_bytes(left)

    return damage


def _delete_both(query: Footprint) -> None:
    _delete("commits")(query)
    _delete("offsets")(query)


def leave_over(query: Footprint) -> None:
    """An entry of a future that is gone."""
    newest = query.newest("spark/offsets")
    offsets = query.folder / "spark" / "offsets"
    shutil.copy(offsets / str(newest), offsets / str(newest + 5))


def _nothing(_: bytes) -> bytes:
    return b""


def _half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _version(data: bytes) -> bytes:
    return data.partition(b"\n")[0] + b"\n"


DAMAGES: Mapping[str, Callable[[Footprint], None]] = {
    "the newest commits entry is deleted": _delete("commits"),
    "the newest commits entry is emptied": _cut("commits", _nothing),
    "the newest commits entry is cut in the middle": _cut("commits", _half),
    "the newest commits entry is cut behind its version": _cut("commits", _version),
    "the newest offsets entry is deleted": _delete("offsets"),
    "the newest offsets entry is emptied": _cut("offsets", _nothing),
    "the newest offsets entry is cut in the middle": _cut("offsets", _half),
    "the newest entries of both are deleted": _delete_both,
    "the checksum files are deleted": _checksums(lambda _: None),
    "the checksum files are emptied": _checksums(_nothing),
    "the checksum files are cut in the header": _checksums(lambda data: data[:6]),
    "the checksum files are cut behind the header": _checksums(lambda data: data[:8]),
    "the checksum files have other sums": _checksums(lambda data: data[:8] + bytes(max(0, len(data) - 8))),
    "an offsets entry of the future is left over": leave_over,
}


def _crc(entry: Path) -> Path:
    return entry.with_name(f".{entry.name}.crc")

"""The files of one attempt, as its committable names them.

The handle of a committable holds texts only: `size_bytes` and `checksum` list one word per file, in the order of the
files' numbers; `folders`, where the sink is partitioned, one line per file; `suffix` is that of the final names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.records import Attempt, Committable, committable_digest
from tidegate.sinks.staging import Seal, Stage

CHECKSUM_UP_TO_BYTES = 64 * 1024 * 1024
"""At commit the checksum of larger files is not computed again; their size is compared. They were synced."""


@dataclass(frozen=True, slots=True)
class Part:
    """One file of an attempt: its number there, its folder below the target ("" for the target itself), its seal."""

    number: int
    folder: str
    seal: Seal


def committable_of(attempt: Attempt, rows: int, parts: Sequence[Part], suffix: str) -> Committable:
    """The committable of an attempt that prepared `parts`, numbered from 0 on; there is at least one."""
    handle = {
        "size_bytes": " ".join(str(part.seal.size_bytes) for part in parts),
        "checksum": " ".join(part.seal.checksum for part in parts),
        "suffix": suffix,
    }
    if any(part.folder for part in parts):
        handle["folders"] = "\n".join(part.folder for part in parts)
    content = "\n".join([handle["checksum"], *([handle["folders"]] if "folders" in handle else [])])
    return Committable(attempt=attempt, rows=rows, digest=committable_digest(attempt, content), handle=handle)


def parts_of(committable: Committable) -> list[Part]:
    """The files that `committable_of` named."""
    handle = committable.handle
    sizes, checksums = handle["size_bytes"].split(" "), handle["checksum"].split(" ")
    folders = handle["folders"].split("\n") if "folders" in handle else [""] * len(sizes)
    return [
        Part(number, folder, Seal(int(size_bytes), checksum))
        for number, (folder, size_bytes, checksum) in enumerate(zip(folders, sizes, checksums, strict=True))
    ]


def flaws_of(stage: Stage, committable: Committable) -> dict[int, str]:
    """What is wrong with the staged files of a committable, in words, by their numbers."""
    found = {
        part.number: part.seal.flaw_of(
            stage.file(committable.attempt, part.number), checksum_up_to_bytes=CHECKSUM_UP_TO_BYTES
        )
        for part in parts_of(committable)
    }
    return {number: flaw for number, flaw in found.items() if flaw}

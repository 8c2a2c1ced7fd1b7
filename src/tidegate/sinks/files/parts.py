"""The files of one attempt, as its committable lists them.

The handle of a committable holds texts only. `size_bytes` and `checksum` have one word for each file, in the order of
the files' numbers. `folders` has one line for each file if the sink is partitioned, `tokens` one word for each file if
the staged names need one. `suffix` ends the final names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.records import Attempt, Committable, committable_digest
from tidegate.sinks.staging import Seal, StagedFiles

CHECKSUM_UP_TO_BYTES = 64 * 1024 * 1024
"""Above this size, the commit compares only the size of a file, not its checksum. The file was synced."""


@dataclass(frozen=True, slots=True)
class AttemptPart:
    """One file of an attempt: its number, its folder below the target ("" for the target itself), its size and
    checksum, and the token in its staged name ("" if it has none).
    """

    number: int
    folder: str
    seal: Seal
    token: str = ""


def committable_of(attempt: Attempt, rows: int, parts: Sequence[AttemptPart], suffix: str) -> Committable:
    """The committable of an attempt that prepared `parts`, numbered from 0 on; there is at least one."""
    handle = {
        "size_bytes": " ".join(str(part.seal.size_bytes) for part in parts),
        "checksum": " ".join(part.seal.checksum for part in parts),
        "suffix": suffix,
    }
    if any(part.folder for part in parts):
        handle["folders"] = "\n".join(part.folder for part in parts)
    if any(part.token for part in parts):
        handle["tokens"] = " ".join(part.token for part in parts)
    content = "\n".join([handle["checksum"], *([handle["folders"]] if "folders" in handle else [])])
    return Committable(attempt=attempt, rows=rows, digest=committable_digest(attempt, content), handle=handle)


def parts_of(committable: Committable) -> list[AttemptPart]:
    """The files of a committable: the inverse of `committable_of`."""
    handle = committable.handle
    sizes, checksums = handle["size_bytes"].split(" "), handle["checksum"].split(" ")
    folders = handle["folders"].split("\n") if "folders" in handle else [""] * len(sizes)
    tokens = handle["tokens"].split(" ") if "tokens" in handle else [""] * len(sizes)
    return [
        AttemptPart(number, folder, Seal(int(size_bytes), checksum), token)
        for number, (folder, size_bytes, checksum, token) in enumerate(
            zip(folders, sizes, checksums, tokens, strict=True)
        )
    ]


def flaws_of(stage: StagedFiles, committable: Committable) -> dict[int, str]:
    """The differences between the staged files and their committable, in words, by file number."""
    found = {
        part.number: part.seal.flaw_of(
            stage.file(committable.attempt, part.number), checksum_up_to_bytes=CHECKSUM_UP_TO_BYTES
        )
        for part in parts_of(committable)
    }
    return {number: flaw for number, flaw in found.items() if flaw}

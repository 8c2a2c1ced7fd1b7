"""Files of a savepoint on their way into a job: each is compared with what the manifest says of it."""

from __future__ import annotations

from pathlib import Path

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SavedFile
from tidegate.disk.blocks import measured, read_blocks
from tidegate.disk.durable import sync_file


def prove(source: Path, file: SavedFile) -> None:
    """Raises SAVEPOINT_INCOMPLETE or SAVEPOINT_ALTERED for a file that is read where it is."""
    try:
        compare(source, file, *measured(source))
    except FileNotFoundError:
        raise unlike(Code.SAVEPOINT_INCOMPLETE, f"a file of {file.size_bytes} bytes", "none", source) from None


def copied(source: Path, target: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file, which is copied on the way. It is synced now, while others are read: `sync_whole`
    then finds little to write."""
    with source.open("rb", buffering=0) as read, target.open("wb") as written:
        found = read_blocks(read, written.write)
        written.flush()
        sync_file(written.fileno())
    return found


def compare(source: Path, file: SavedFile, size: int, digest: str) -> None:
    if size < file.size_bytes:
        raise unlike(Code.SAVEPOINT_INCOMPLETE, f"{file.size_bytes} bytes", f"{size} bytes", source)
    if (size, digest) != (file.size_bytes, file.sha256):
        expected = f"{file.size_bytes} bytes of SHA-256 {file.sha256}"
        raise unlike(Code.SAVEPOINT_ALTERED, expected, f"{size} bytes of {digest}", source)


def unlike(code: Code, expected: str, found: str, where: Path) -> TidegateError:
    return TidegateError(
        code,
        expected=expected,
        found=found,
        where=str(where),
        next_step="copy the savepoint again from where it is whole; nothing of the job was changed",
    )

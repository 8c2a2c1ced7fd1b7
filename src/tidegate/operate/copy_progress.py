"""The progress of a savepoint copy: a small file beside the request desk, read by a command that waits in a terminal.

The file may be deleted, as the beat may: it is not synced, and no decision depends on it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from tidegate.core.json_formats import Unreadable, parsed
from tidegate.savepoints.copying import Copying

PROGRESS = "control/progress"


class CopyProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that are copied, and bytes in total."""

    copied_bytes: int
    total_bytes: int

    @classmethod
    def of(cls, copying: Copying) -> CopyProgress:
        """The current progress."""
        return cls(copied_bytes=copying.copied_bytes, total_bytes=copying.total_bytes)

    def __str__(self) -> str:
        return f"{_size(self.copied_bytes)} of {_size(self.total_bytes)}"


def write_progress(job_folder: Path, request_id: str, progress: CopyProgress) -> None:
    """Write the progress of a savepoint request. Disk errors are ignored: the figures are not essential."""
    target = _path(job_folder, request_id)
    with suppress(OSError):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.new")
        temporary.write_bytes(msgspec.json.encode(progress))
        os.replace(temporary, target)


def read_progress(job_folder: Path, request_id: str) -> CopyProgress | None:
    """The progress of a savepoint request; None if unknown."""
    try:
        return parsed(_path(job_folder, request_id).read_bytes(), CopyProgress)
    except (OSError, Unreadable):
        return None


def drop_progress(job_folder: Path, request_id: str) -> None:
    """Remove the progress of a completed savepoint request."""
    with suppress(OSError):
        _path(job_folder, request_id).unlink(missing_ok=True)


def drop_all_progress(job_folder: Path) -> None:
    """Remove the progress files of killed drivers."""
    with suppress(OSError):
        for path in (job_folder / PROGRESS).iterdir():
            path.unlink(missing_ok=True)


def _path(job_folder: Path, request_id: str) -> Path:
    return job_folder / PROGRESS / f"{request_id}.json"


def _size(count: int) -> str:
    for unit, bytes_of_it in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= bytes_of_it:
            return f"{count / bytes_of_it:.1f} {unit}"
    return f"{count} bytes"

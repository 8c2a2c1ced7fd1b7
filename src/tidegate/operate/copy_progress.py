"""The progress of a savepoint copy: a small file beside the request desk, read by a command that waits in a terminal.

The file may be deleted, as the beat may: it is not synced, and no decision depends on it.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from tidegate.core.errors import TidegateError
from tidegate.core.json_formats import Unreadable, parsed
from tidegate.savepoints.copying import Copying
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Where

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


def write_progress(job_folder: Where, request_id: str, progress: CopyProgress) -> None:
    """Write the progress of a savepoint request. Errors of the storage are ignored: the figures are not essential."""
    with suppress(TidegateError):
        open_storage(job_folder).note(_name(request_id), msgspec.json.encode(progress))


def read_progress(job_folder: Where, request_id: str) -> CopyProgress | None:
    """The progress of a savepoint request; None if unknown."""
    try:
        data = open_storage(job_folder).peek(_name(request_id))
        return None if data is None else parsed(data, CopyProgress)
    except (TidegateError, Unreadable):
        return None


def drop_progress(job_folder: Where, request_id: str) -> None:
    """Remove the progress of a completed savepoint request."""
    with suppress(TidegateError):
        open_storage(job_folder).delete(_name(request_id))


def drop_all_progress(job_folder: Where) -> None:
    """Remove the progress files of killed drivers."""
    storage = open_storage(job_folder)
    with suppress(TidegateError):
        for name in storage.peek_names(PROGRESS):
            storage.delete(f"{PROGRESS}/{name}")


def _name(request_id: str) -> str:
    return f"{PROGRESS}/{request_id}.json"


def _size(count: int) -> str:
    for unit, bytes_of_it in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= bytes_of_it:
            return f"{count / bytes_of_it:.1f} {unit}"
    return f"{count} bytes"

"""A checkpoint folder that is gone while its job runs."""

from __future__ import annotations

from tidegate.core.errors import Code, TidegateError
from tidegate.storages.storage import Storage


def vanished(storage: Storage, record: str) -> TidegateError | None:
    """Where the storage is gone, every other error only follows from it: Spark makes its folders anew, and then this or
    that is missing in them. `record`: what the run itself has written."""
    if storage.look(record) is not None:
        return None
    return TidegateError(
        Code.STORAGE_UNUSABLE,
        expected="the checkpoint folder to stay while the job runs",
        found="what this run itself has written is no longer there",
        where=storage.where(record),
        next_step="bring the storage back (a mount, a volume), then start again: nothing is lost",
    )

"""A checkpoint folder that vanishes while its job runs."""

from __future__ import annotations

from tidegate.core.errors import Code, TidegateError
from tidegate.storages.storage import Storage


def vanished(storage: Storage, record: str) -> TidegateError | None:
    """If the storage is gone, every other error only follows from it: Spark creates its folders again, and files in
    them are missing. `record`: a record that the run itself has written.
    """
    if storage.look(record) is not None:
        return None
    return TidegateError(
        Code.STORAGE_UNUSABLE,
        expected="the checkpoint folder to stay while the job runs",
        found="a record of this run no longer exists",
        where=storage.where(record),
        next_step="bring the storage back (a mount, a volume), then start again: nothing is lost",
    )

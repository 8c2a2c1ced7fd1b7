"""A checkpoint folder that is gone while its job runs."""

from __future__ import annotations

from pathlib import Path

from tidegate.core.errors import Code, TidegateError


def vanished(record: Path) -> TidegateError | None:
    """Where the storage is gone, every other error only follows from it: Spark makes its folders anew, and then this or
    that is missing in them. `record`: what the run itself has written."""
    if record.exists():
        return None
    return TidegateError(
        Code.STORAGE_UNUSABLE,
        expected="the checkpoint folder to stay while the job runs",
        found="what this run itself has written is no longer there",
        where=str(record),
        next_step="bring the storage back (a mount, a volume), then start again: nothing is lost",
    )

"""What keeps the log of a table short: checkpoints, and the removal of old entries, as the table's properties say.

The library would do both inside a commit. There an error would look like a failed commit, and a power loss could keep
the removal of old entries and lose the checkpoint that stands for them. So both come behind the epoch, in this order.
"""

from __future__ import annotations

from typing import Any

from tidegate.core.json_formats import parsed
from tidegate.sinks.delta.log_syncs import ENTRY, HINT, sync_checkpoint
from tidegate.sinks.delta.place import TablePlace


def tidy_log(place: TablePlace, interval: int) -> None:
    """Write a checkpoint if the newest one is so many commits old, then remove entries that the table need not keep."""
    if _newest_entry(place) - _newest_checkpoint(place) < interval:
        return
    table = place.table()
    if table is None:
        return
    table.create_checkpoint()
    folder = place.log_folder()
    if folder is not None:
        sync_checkpoint(folder, table.version())
    if table.metadata().configuration.get("delta.enableExpiredLogCleanup", "true") == "true":
        table.cleanup_metadata()


def _newest_entry(place: TablePlace) -> int:
    entries = map(ENTRY.fullmatch, place.log().peek_names(""))
    return max((int(entry[1]) for entry in entries if entry is not None), default=-1)


def _newest_checkpoint(place: TablePlace) -> int:
    hint = place.log().peek(HINT)
    return -1 if hint is None else int(parsed(hint, dict[str, Any])["version"])

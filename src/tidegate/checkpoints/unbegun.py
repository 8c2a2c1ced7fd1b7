"""Clears Spark's folder of a query whose first epoch was never completed.

Spark begins only with empty logs and empty state. A kill or a power loss may leave a draft of the first offsets entry,
a torn entry that recovery has set aside, or state of an epoch without an entry. Each of them would make every later
start fail.
"""

from __future__ import annotations

from tidegate.checkpoints.spark_layout import COMMITS, OFFSETS, STATE, entry_numbers
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


def clear_unbegun(checkpoint: Folder) -> None:
    """Empty the logs and the state of a checkpoint without an offsets entry. Call it only if nothing is finished, after
    recovery (which restores the entry of a decided epoch), and while no JVM writes there.
    """
    if entry_numbers(open_storage(checkpoint).list(OFFSETS)):
        return
    for name in (OFFSETS, COMMITS, STATE):
        open_checkpoint_files(checkpoint).clear(name)

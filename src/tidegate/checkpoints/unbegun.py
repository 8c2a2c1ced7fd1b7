"""A query whose first epoch never came to be: what is left of it in Spark's folder goes.

Spark begins only where its logs and its state are empty. A kill or a power loss leaves a draft of the first offsets
entry, a torn one that recovery has set aside, or state of an epoch whose entry is gone: with any of them every later
start would be refused.
"""

from __future__ import annotations

from pathlib import Path

from tidegate.checkpoints.spark_layout import COMMITS, OFFSETS, STATE, entry_numbers
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage


def clear_unbegun(checkpoint: Path) -> None:
    """Empty the logs and the state of a checkpoint that has no offsets entry. Only where nothing is finished, after
    recovery, which puts back the entry of a decided epoch, and while no JVM writes there."""
    if entry_numbers(open_storage(checkpoint).list(OFFSETS)):
        return
    for name in (OFFSETS, COMMITS, STATE):
        open_checkpoint_files(checkpoint).clear(name)

"""A query whose first epoch never came to be: what is left of it in Spark's folder goes.

Spark begins only where its logs and its state are empty. A kill or a power loss leaves a draft of the first offsets
entry, a torn one that recovery has set aside, or state of an epoch whose entry is gone: with any of them every later
start would be refused.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tidegate.checkpoints.durable import storage_error
from tidegate.checkpoints.spark_layout import COMMITS, OFFSETS, STATE, entry_numbers


def clear_unbegun(checkpoint: Path) -> None:
    """Empty the logs and the state of a checkpoint that has no offsets entry. Only after recovery, which would have put
    back the entry of a decided epoch, and while no JVM writes there."""
    try:
        offsets = checkpoint / OFFSETS
        if offsets.exists() and entry_numbers(os.listdir(offsets)):
            return
        for name in (OFFSETS, COMMITS, STATE):
            if (checkpoint / name).exists():
                shutil.rmtree(checkpoint / name)
    except OSError as error:
        raise storage_error(error, checkpoint, "clear what is left of a first epoch") from error

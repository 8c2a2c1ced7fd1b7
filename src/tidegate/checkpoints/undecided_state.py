"""State that a dead run left of an undecided epoch, if state files have no unique names (hashmap).

The epoch runs again and overwrites the dead run's delta. But a snapshot stays that Spark's maintenance made of the dead
run's version, and a later start would read it in place of that delta.
"""

from __future__ import annotations

import re

from tidegate.checkpoints.spark_layout import COMMITS, STATE, entry_numbers
from tidegate.storages.checkpoints import open_checkpoint_files
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


def clear_undecided_state(checkpoint: Folder) -> None:
    """Remove the state files of versions that no epoch in the commit log has made. Epoch N makes version N+1.

    Call it only after recovery (which restores the entry of a decided epoch), and while no JVM writes there. The next
    epoch syncs the folders before it is prepared.
    """
    newest = max(entry_numbers(open_storage(checkpoint).list(COMMITS)), default=-1) + 1
    files = open_checkpoint_files(checkpoint)
    for each in files.list(STATE):
        version = _FILE.fullmatch(each.name.rpartition("/")[2])
        if version is not None and int(version[1]) > newest:
            files.delete(each.name)


_FILE = re.compile(r"\.?(\d+)\.(?:delta|snapshot)(?:\.crc)*")

"""Makes a whole checkpoint durable that tidegate has written."""

from __future__ import annotations

from pathlib import Path

from tidegate.checkpoints.spark_layout import COMMITS
from tidegate.disk.durable import sync_folder, sync_kept_file
from tidegate.storages.checkpoints import open_checkpoint_files


def sync_whole(root: Path) -> None:
    """Make a checkpoint folder durable while no process writes to it, `commits/` included: *decided* holds only its
    newest entry.
    """
    open_checkpoint_files(root).sync()
    for path in (root / COMMITS).iterdir():
        with path.open("rb") as entry:
            sync_kept_file(entry.fileno())
    sync_folder(root / COMMITS)

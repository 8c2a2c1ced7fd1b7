"""Hadoop keeps a checksum file beside each log entry. A damaged one makes the entry unreadable, at every start.

The fast file manager fails on a wrong checksum. Recovery also makes checksums wrong, because it rewrites entries to
equal the decision. The contents of the entries are compared with the ledger, so it is safe to remove their checksums
before Spark starts.
"""

from __future__ import annotations

from tidegate.checkpoints.spark_layout import COMMITS, OFFSETS, SOURCES
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Folder


def drop_checksums(checkpoint: Folder) -> None:
    """Remove the checksum files of both logs and of the sources' own logs. Only while no JVM writes there."""
    if not checkpoint.is_local:
        return  # only Spark's file system for local disks keeps checksum files
    storage = open_storage(checkpoint)
    for folder in (OFFSETS, COMMITS, *(f"{SOURCES}/{each}" for each in storage.folders(SOURCES))):
        for name in storage.peek_names(folder):
            if name.startswith(".") and name.endswith(".crc"):
                storage.delete(f"{folder}/{name}")

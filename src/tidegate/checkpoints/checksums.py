"""Hadoop keeps a checksum file beside each log entry. A damaged one makes the entry unreadable, at every start.

The fast file manager fails on a wrong checksum. Recovery also makes checksums wrong, because it rewrites entries to
equal the decision. The contents of the entries are compared with the ledger, so it is safe to remove their checksums
before Spark starts.
"""

from __future__ import annotations

from pathlib import Path

from tidegate.checkpoints.spark_layout import COMMITS, OFFSETS, SOURCES


def drop_checksums(checkpoint: Path) -> None:
    """Remove the checksum files of both logs and of the sources' own logs. Only while no JVM writes there."""
    for folder in (checkpoint / OFFSETS, checkpoint / COMMITS, *(checkpoint / SOURCES).glob("*")):
        for file in folder.glob(".*.crc"):
            file.unlink(missing_ok=True)

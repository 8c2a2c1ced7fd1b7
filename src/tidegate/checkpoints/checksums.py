"""Hadoop keeps a checksum file beside each log entry. A damaged one makes a whole entry unreadable, at every start.

The fast file manager fails on a checksum that does not fit, and so does recovery's own work: an entry that is made
equal to the decision no longer fits an old one. What the entries hold is compared with the ledger, so nothing is lost
when their checksums go before Spark starts.
"""

from __future__ import annotations

from pathlib import Path

from tidegate.checkpoints.spark_layout import COMMITS, OFFSETS, SOURCES


def drop_checksums(checkpoint: Path) -> None:
    """Remove the checksum files of both logs and of the sources' own. Only while no JVM writes there."""
    for folder in (checkpoint / OFFSETS, checkpoint / COMMITS, *(checkpoint / SOURCES).glob("*")):
        for file in folder.glob(".*.crc"):
            file.unlink(missing_ok=True)

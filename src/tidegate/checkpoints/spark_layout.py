"""The folders and file names of a Spark checkpoint; what the entries say is parsed in `core.spark_log`."""

from __future__ import annotations

import re
from collections.abc import Iterable

OFFSETS = "offsets"
"""One entry per epoch, written before it is computed: where each source ends."""

COMMITS = "commits"
"""One entry per epoch, written when Spark has computed it: watermark and ids of the state files."""

SOURCES = "sources"
STATE = "state"
METADATA = "metadata"
"""The query's Spark id: one file, written at the first start."""


def offsets_entry(epoch: int) -> str:
    return f"{OFFSETS}/{epoch}"


def commits_entry(epoch: int) -> str:
    return f"{COMMITS}/{epoch}"


def source_folder(position: int) -> str:
    """The log that the source at this position keeps for itself (the file source: which files it has seen)."""
    return f"{SOURCES}/{position}"


def state_folder(operator: int, partition: int) -> str:
    """The state files of one partition of one stateful operator; a join keeps several stores below it."""
    return f"{STATE}/{operator}/{partition}"


def is_state(name: str) -> bool:
    """Whether this file of a checkpoint holds state, and not what schema it has: that stands in the folder of partition
    0, too."""
    return _STATE_FILE.fullmatch(name) is not None


def checksum_of(name: str) -> str:
    """The file in which Hadoop keeps the checksum of `name`: a stale one makes a whole file unreadable."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}.{file}.crc"


def entry_numbers(names: Iterable[str]) -> list[int]:
    """The numbers of the entries among the file names of a log folder, ascending.

    Everything else (temporary files, checksums, files set aside) is no entry, as for Spark.
    """
    return sorted(int(name) for name in names if _ENTRY.fullmatch(name))


_ENTRY = re.compile(r"0|[1-9][0-9]*")
_STATE_FILE = re.compile(r"state/\d+/\d+/(?!(.+/)?_metadata/).+")

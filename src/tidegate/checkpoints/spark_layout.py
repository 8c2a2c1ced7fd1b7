"""The folders and file names of a Spark checkpoint. `core.spark_log` parses the contents of the entries."""

from __future__ import annotations

import re
from collections.abc import Iterable

OFFSETS = "offsets"
"""One entry for each epoch, written before it is computed: the end position of each source."""

COMMITS = "commits"
"""One entry for each epoch, written after Spark has computed it: watermark and ids of the state files."""

SOURCES = "sources"
STATE = "state"
METADATA = "metadata"
"""The query's Spark id: one file, written at the first start."""


def offsets_entry(epoch: int) -> str:
    return f"{OFFSETS}/{epoch}"


def commits_entry(epoch: int) -> str:
    return f"{COMMITS}/{epoch}"


def source_folder(position: int) -> str:
    """The log that the source at this position of the query keeps itself (the file source: the files it has seen)."""
    return f"{SOURCES}/{position}"


def state_folder(operator: int, partition: int) -> str:
    """The folder with the state files of one partition of one stateful operator; a join has several stores below it."""
    return f"{STATE}/{operator}/{partition}"


def is_state(name: str) -> bool:
    """True if the file with this path in a Spark checkpoint holds state.

    False for files with the schema of the state, although the folder of partition 0 contains them beside its state.
    """
    return _STATE_FILE.fullmatch(name) is not None


def checksum_of(name: str) -> str:
    """The checksum file that Hadoop keeps for `name`. An outdated one makes the whole file unreadable."""
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}.{file}.crc"


def entry_numbers(names: Iterable[str]) -> list[int]:
    """The numbers of the entries among the file names of a log folder, ascending.

    All other files (temporary files, checksums, files set aside) are no entries, as for Spark.
    """
    return sorted(int(name) for name in names if _ENTRY.fullmatch(name))


_ENTRY = re.compile(r"0|[1-9][0-9]*")
_STATE_FILE = re.compile(r"state/\d+/\d+/(?!(.+/)?_metadata/).+")

"""How a record becomes bytes, and bytes a record.

A record is one header line and one JSON body:

    tidegate <kind> <format version> sha256:<64 hex digits of the body>
    {...}

The checksum covers the body, so a torn or altered record is an error that names the file, never a guess; a
format version above this release's is refused without reading on.
"""

from __future__ import annotations

from typing import TypeVar

from tidegate.core.json_formats import HeaderLine, RecordFormat, Unreadable
from tidegate.core.records.channel import ChannelBegin, ChannelEpoch
from tidegate.core.records.job import (
    CheckpointRecord,
    Closing,
    Drain,
    GenerationOpened,
    JobEnded,
    JobRecord,
    NotedFolder,
    PreparationEnded,
)
from tidegate.core.records.query import (
    Decided,
    Done,
    FinishedThrough,
    OperatorsAccepted,
    Overdue,
    Prepared,
    Run,
    Sealed,
    Start,
)
from tidegate.core.records.savepoint import FolderToken, Restored, SavepointClaim, SavepointRecord
from tidegate.core.records.value import Value

FORMAT = 1
"""The format version that this release writes. Every version up to it is read for ever."""

KINDS: dict[type[Value], str] = {
    Start: "start",
    OperatorsAccepted: "operators-accepted",
    Run: "run",
    Prepared: "prepared",
    Decided: "decided",
    Sealed: "sealed",
    Done: "done",
    Overdue: "overdue",
    FinishedThrough: "finished-through",
    JobRecord: "job",
    GenerationOpened: "generation",
    PreparationEnded: "preparation-ended",
    JobEnded: "job-ended",
    CheckpointRecord: "checkpoint",
    ChannelEpoch: "channel-epoch",
    ChannelBegin: "channel-begin",
    Closing: "closing",
    Drain: "drain",
    NotedFolder: "noted-folder",
    SavepointRecord: "savepoint",
    SavepointClaim: "savepoint-claim",
    FolderToken: "folder-token",
    Restored: "restored",
}

RecordT = TypeVar("RecordT", bound=Value)


def encode(record: Value) -> bytes:
    """A record of one of the `KINDS` as bytes: header line, then the body."""
    return _format_of(type(record)).encode(record)


def decode(kind: type[RecordT], data: bytes, where: str) -> RecordT:
    """The record in `data`. Torn, altered, unknown or newer bytes raise; `where` names the file in the error."""
    try:
        return _format_of(kind).decode(data)
    except Unreadable as flaw:
        raise flaw.error(where, _NEXT_STEP) from None


def is_of_kind(kind: type[Value], data: bytes) -> bool:
    """True if the first line says that `data` is a record of this kind; `decode` proves it."""
    return data.startswith(f"tidegate {KINDS[kind]} ".encode())


def _format_of(kind: type[RecordT]) -> RecordFormat[RecordT]:
    return RecordFormat(kind, HeaderLine(KINDS[kind], FORMAT))


_NEXT_STEP = (
    "put the file back from a copy, or go back to a savepoint (tidegate run -s PATH APP); do not delete it: what it"
    " says cannot be guessed"
)

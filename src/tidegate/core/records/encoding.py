"""How a record becomes bytes, and bytes a record.

A record is one header line and one JSON body:

    tidegate <kind> <format version> sha256:<64 hex digits of the body>
    {...}

The checksum covers the body, so a torn or altered record is an error that names the file, never a guess; a
format version above this release's is refused without reading on.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records.digests import sha256
from tidegate.core.records.job import CheckpointRecord, Closing, Drain, JobRecord
from tidegate.core.records.query import Decided, Done, FinishedThrough, OperatorsAccepted, Overdue, Prepared, Run, Start
from tidegate.core.records.savepoint import FolderToken, Restored, SavepointClaim, SavepointRecord
from tidegate.core.records.value import Value
from tidegate.core.spoilt import SPOILT

FORMAT = 1
"""The format version that this release writes. Every version up to it is read for ever."""

KINDS: dict[type[Value], str] = {
    Start: "start",
    OperatorsAccepted: "operators-accepted",
    Run: "run",
    Prepared: "prepared",
    Decided: "decided",
    Done: "done",
    Overdue: "overdue",
    FinishedThrough: "finished-through",
    JobRecord: "job",
    CheckpointRecord: "checkpoint",
    Closing: "closing",
    Drain: "drain",
    SavepointRecord: "savepoint",
    SavepointClaim: "savepoint-claim",
    FolderToken: "folder-token",
    Restored: "restored",
}

RecordT = TypeVar("RecordT", bound=Value)


def encode(record: Value) -> bytes:
    """A record of one of the `KINDS` as bytes: header line, then the body."""
    body = msgspec.json.encode(record, order="sorted") + b"\n"
    return f"tidegate {KINDS[type(record)]} {FORMAT} sha256:{sha256(body)}\n".encode() + body


def decode(kind: type[RecordT], data: bytes, where: str) -> RecordT:
    """The record in `data`. Torn, altered, unknown or newer bytes raise; `where` names the file in the error."""
    header, newline, body = data.partition(b"\n")
    words = header.decode("utf-8", "replace").split(" ")
    if len(words) != 4 or words[0] != "tidegate" or not _VERSION.fullmatch(words[2]) or not newline:
        raise _corrupt(f"a header `tidegate {KINDS[kind]} {FORMAT} sha256:...`", repr(header[:80]), where)
    if int(words[2]) > FORMAT:
        raise TidegateError(
            Code.RECORD_NEWER,
            expected=f"format version {FORMAT} or older",
            found=f"format version {words[2]}",
            where=where,
        )
    if words[1] != KINDS[kind]:
        raise _corrupt(f"a record of kind `{KINDS[kind]}`", f"kind `{words[1]}`", where)
    if words[3] != f"sha256:{sha256(body)}":
        raise _corrupt("a body that fits its checksum", f"{len(body)} bytes that do not", where)
    try:
        return msgspec.json.decode(body, type=kind)
    except SPOILT as error:
        raise _corrupt(f"the fields of `{KINDS[kind]}`", str(error), where) from None


_VERSION = re.compile("[1-9][0-9]{0,8}")


def _corrupt(expected: str, found: str, where: str) -> TidegateError:
    return TidegateError(
        Code.RECORD_CORRUPT,
        expected=expected,
        found=found,
        where=where,
        next_step="put the file back from a copy, or go back to a savepoint (tidegate run -s PATH APP); do not"
        " delete it: what"
        " it says cannot be guessed",
    )

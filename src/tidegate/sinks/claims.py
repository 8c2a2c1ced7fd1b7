"""Which timeline may make an epoch visible: one small file per sink and epoch, put if absent, beside the target.

    <root>/claims/<job>.<query>.<sink>/g<generation>-e<epoch>.claim

For a target that cannot take all rows of an epoch in one transaction. The claim is written, durably, before the
first of them becomes visible: so it comes before everything that a reader can see, the user may remove or compact
what is visible without changing it, and of two timelines one alone can have it. It is no evidence that anything was
committed; that is for the sink to prove, file by file.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tidegate.core.errors import Code, TidegateError
from tidegate.core.records import SinkIdentity
from tidegate.sinks.staging import file_name, make_folder, sync_file, sync_folder
from tidegate.sinks.standing import Entry

KEPT = 100
"""Per sink, the newest."""

FORMAT = 1

_NAME = re.compile(r"g(\d+)-e(\d+)\.claim")


class _AnyFormat(msgspec.Struct):
    format: int


class _Claim(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int = FORMAT
    entry: Entry


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims below `root`."""

    root: Path

    def put(self, identity: SinkIdentity, entry: Entry) -> Entry:
        """Claim the epoch unless it is claimed. Returns the claim that stands, durable, whoever wrote it."""
        folder = self._folder(identity)
        file = folder / _name(entry.generation, entry.epoch)
        make_folder(folder)
        draft = folder / f"{file.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
        try:
            draft.write_bytes(msgspec.json.encode(_Claim(entry=entry)))
            sync_file(draft)
            os.link(draft, file)
        except FileExistsError:
            pass
        finally:
            draft.unlink(missing_ok=True)
        sync_folder(folder)
        self._trim(folder)
        return _read(file)

    def get(self, identity: SinkIdentity, epoch: int) -> Entry | None:
        """The claim of an epoch in the identity's generation, of whatever job id."""
        file = self._folder(identity) / _name(identity.generation, epoch)
        try:
            return _read(file)
        except FileNotFoundError:
            return None

    def newest(self, identity: SinkIdentity) -> Entry | None:
        """The claim with the highest generation and epoch, of whatever job id."""
        folder = self._folder(identity)
        claimed = _claimed(folder)
        return _read(folder / _name(*claimed[-1])) if claimed else None

    def _folder(self, identity: SinkIdentity) -> Path:
        parts = (identity.job, identity.query, identity.sink)
        return self.root / "claims" / ".".join(file_name(part) for part in parts)

    def _trim(self, folder: Path) -> None:
        for old in _claimed(folder)[:-KEPT]:
            (folder / _name(*old)).unlink(missing_ok=True)


def _name(generation: int, epoch: int) -> str:
    return f"g{generation}-e{epoch}.claim"


def _claimed(folder: Path) -> list[tuple[int, int]]:
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    return sorted((int(found[1]), int(found[2])) for found in map(_NAME.fullmatch, names) if found)


def _read(file: Path) -> Entry:
    data = file.read_bytes()
    try:
        if msgspec.json.decode(data, type=_AnyFormat).format > FORMAT:
            raise _unreadable(Code.RECORD_NEWER, file, "a newer format")
        claim = msgspec.json.decode(data, type=_Claim)
    except msgspec.DecodeError as error:
        raise _unreadable(Code.RECORD_CORRUPT, file, str(error)) from None
    if hashlib.sha256("\n".join(claim.entry.committables).encode()).hexdigest() != claim.entry.digest:
        raise _unreadable(Code.RECORD_CORRUPT, file, "a digest that does not fit")
    return claim.entry


def _unreadable(code: Code, file: Path, found: str) -> TidegateError:
    return TidegateError(
        code,
        expected=f"a whole claim of format {FORMAT}",
        found=found,
        where=str(file),
        next_step="use the release that wrote it, or put it back from a copy; deleting it would admit another timeline",
    )

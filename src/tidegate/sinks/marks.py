"""A mark: a small file for one sink and one epoch, created only if absent, with the names of the epoch's transactions.

    <root>/<kind>s/<job>.<query>.<sink>/g<generation>-e<epoch>.<kind>

Sinks use marks if their target has no ledger; the sink defines what a mark means. A *claim* is written before the first
row of an epoch becomes visible: of two timelines only one can write it. It does not prove a commit. A *receipt* is
written after all rows of the epoch were delivered, and proves that.
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tidegate.core.digests import sha256
from tidegate.core.json_formats import Flaw, ObjectFormat, Unreadable
from tidegate.core.records import Position, SinkIdentity
from tidegate.disk.durable import ensure_folder, sync_folder, write_synced
from tidegate.sinks.staging import file_name
from tidegate.sinks.standing import Entry

KEPT = 100
"""Number of marks that are kept for each sink: the newest ones."""

FORMAT = 1

_NAME = re.compile(r"g(\d+)-e(\d+)\.(\w+)")


class _MarkRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int = FORMAT
    entry: Entry


_FORMAT = ObjectFormat(_MarkRecord, f"a whole record of format {FORMAT}", FORMAT)


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one kind in the folder `root`. A mark is a small file for one epoch of one sink."""

    root: Path
    kind: str

    def put(self, identity: SinkIdentity, entry: Entry) -> Entry:
        """Mark the epoch unless it has a mark. Returns the existing entry, which is durable, of any process."""
        folder = self._folder(identity)
        file = folder / self._name(entry.generation, entry.epoch)
        ensure_folder(folder)
        draft = folder / f"{file.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
        try:
            write_synced(draft, _FORMAT.encode(_MarkRecord(entry=entry)))
            os.link(draft, file)
        except FileExistsError:
            pass
        finally:
            draft.unlink(missing_ok=True)
        sync_folder(folder)
        self._trim(folder)
        return _read(file)

    def get(self, identity: SinkIdentity, epoch: int) -> Entry | None:
        """The entry of an epoch in the identity's generation, of any job id. It is durable, of any process."""
        file = self._folder(identity) / self._name(identity.generation, epoch)
        try:
            found = _read(file)
        except FileNotFoundError:
            return None
        sync_folder(file.parent)
        return found

    def newest(self, identity: SinkIdentity) -> Entry | None:
        """The entry with the highest generation and epoch. Under the job's name it may have any job id. Under another
        name it must have the same job id, because a job can move to another name.
        """
        newest = [
            (at[-1], _read(folder / self._name(*at[-1])), folder == self._folder(identity))
            for folder in self._folders(identity)
            if (at := self._marked(folder))
        ]
        mine = [(at, entry) for at, entry, is_named in newest if is_named or entry.job_id == identity.job_id]
        return max(mine, key=lambda each: each[0])[1] if mine else None

    def position(self, identity: SinkIdentity) -> Position | None:
        """The position of the sink's newest mark; None if it has none."""
        newest = self.newest(identity)
        return None if newest is None else newest.position

    def forget(self, identity: SinkIdentity) -> None:
        """Remove all marks of the identity's job id, in all generations."""
        for folder in self._folders(identity):
            marked = self._marked(folder)
            for file in (folder / self._name(*each) for each in marked):
                if _read(file).job_id == identity.job_id:
                    file.unlink(missing_ok=True)
            if marked:
                sync_folder(folder)

    def _folder(self, identity: SinkIdentity) -> Path:
        parts = (identity.job, identity.query, identity.sink)
        return self.root / f"{self.kind}s" / ".".join(file_name(part) for part in parts)

    def _folders(self, identity: SinkIdentity) -> list[Path]:
        """The marks of the sink, under any job name."""
        whose = self._folder(identity).name.partition(".")[2]
        try:
            names = os.listdir(self.root / f"{self.kind}s")
        except FileNotFoundError:
            return []
        return [self.root / f"{self.kind}s" / name for name in names if name.partition(".")[2] == whose]

    def _trim(self, folder: Path) -> None:
        for old in self._marked(folder)[:-KEPT]:
            (folder / self._name(*old)).unlink(missing_ok=True)

    def _name(self, generation: int, epoch: int) -> str:
        return f"g{generation}-e{epoch}.{self.kind}"

    def _marked(self, folder: Path) -> list[tuple[int, int]]:
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return []
        marks = (found for found in map(_NAME.fullmatch, names) if found and found[3] == self.kind)
        return sorted((int(found[1]), int(found[2])) for found in marks)


def _read(file: Path) -> Entry:
    try:
        entry = _FORMAT.decode(file.read_bytes()).entry
        if sha256("\n".join(entry.committables).encode()) != entry.digest:
            raise Unreadable(Flaw.ALTERED, _FORMAT.noun, "a digest that does not match")
    except Unreadable as flaw:
        raise flaw.error(str(file), _NEXT_STEP, newer_step=_NEXT_STEP) from None
    return entry


_NEXT_STEP = "use the release that wrote it, or put it back from a copy; deleting it would admit another timeline"

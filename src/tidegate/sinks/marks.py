"""A mark: a small file for one sink and one epoch, created only if absent, with the names of the epoch's transactions.

    <root>/<kind>s/<job>.<query>.<sink>/g<generation>-e<epoch>.<kind>

Sinks use marks if their target has no ledger; the sink defines what a mark means. A *claim* is written before the first
row of an epoch becomes visible: of two timelines only one can write it. It does not prove a commit. A *receipt* is
written after all rows of the epoch were delivered, and proves that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tidegate.core.digests import sha256
from tidegate.core.errors import Code, TidegateError
from tidegate.core.json_formats import Flaw, ObjectFormat, Unreadable
from tidegate.core.records import Committable, Position, SinkIdentity
from tidegate.disk.durable import SyncFailed
from tidegate.sinks.staging import file_name
from tidegate.sinks.standing import Entry, Standing, standing_of_epoch
from tidegate.storages.opening import open_storage
from tidegate.storages.schemes import Where
from tidegate.storages.storage import Storage

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
    """The marks of one kind in the folder `root`. A mark is a small file for one epoch of one sink.

    All methods raise TidegateError: STORAGE_FULL and STORAGE_UNUSABLE, and RECORD_CORRUPT and RECORD_NEWER for a mark
    that cannot be read.
    """

    root: Where
    kind: str

    def put(self, identity: SinkIdentity, entry: Entry) -> Entry:
        """Mark the epoch unless it has a mark. Returns the existing entry, which is durable, of any process."""
        storage, folder = self._storage(), self.folder(identity)
        name = f"{folder}/{self._name(entry.generation, entry.epoch)}"
        is_new = storage.put_if_absent(name, _FORMAT.encode(_MarkRecord(entry=entry)))
        for old in self._marked(storage, folder)[:-KEPT]:
            storage.delete(f"{folder}/{self._name(*old)}")
        return entry if is_new else _demanded(storage, name)

    def get(self, identity: SinkIdentity, epoch: int) -> Entry | None:
        """The entry of an epoch in the identity's generation, of any job id. It is durable, of any process."""
        storage = self._storage()
        name = f"{self.folder(identity)}/{self._name(identity.generation, epoch)}"
        data = storage.read(name)
        return None if data is None else _entry(data, storage.where(name))

    def claim(self, committables: Sequence[Committable]) -> Standing:
        """Mark the epoch of these committables, which are of one sink. SAME if its mark is theirs, otherwise OTHER."""
        wanted = Entry.of(committables)
        return Standing.SAME if self.put(committables[0].attempt.sink, wanted) == wanted else Standing.OTHER

    def standing(self, committables: Sequence[Committable]) -> Standing:
        """What the marks say of the epoch of these committables, which are of one sink."""
        wanted, identity = Entry.of(committables), committables[0].attempt.sink
        return standing_of_epoch(wanted, self.get(identity, wanted.epoch), self.position(identity))

    def newest(self, identity: SinkIdentity) -> Entry | None:
        """The entry with the highest generation and epoch. Under the job's name it may have any job id. Under another
        name it must have the same job id, because a job can move to another name.
        """
        storage = self._storage()
        newest = [
            (at[-1], _demanded(storage, f"{folder}/{self._name(*at[-1])}"), folder == self.folder(identity))
            for folder in self._folders(storage, identity)
            if (at := self._marked(storage, folder))
        ]
        mine = [(at, entry) for at, entry, is_named in newest if is_named or entry.job_id == identity.job_id]
        return max(mine, key=lambda each: each[0])[1] if mine else None

    def position(self, identity: SinkIdentity) -> Position | None:
        """The position of the sink's newest mark; None if it has none."""
        newest = self.newest(identity)
        return None if newest is None else newest.position

    def forget(self, identity: SinkIdentity) -> None:
        """Remove all marks of the identity's job id, in all generations."""
        storage = self._storage()
        for folder in self._folders(storage, identity):
            marked = self._marked(storage, folder)
            for name in (f"{folder}/{self._name(*each)}" for each in marked):
                if _demanded(storage, name).job_id == identity.job_id:
                    storage.delete(name)
            if marked:
                storage.settle(folder)

    def remove_leftovers(self, identity: SinkIdentity) -> None:
        """Remove the rest of marks whose process was killed. A driver that was paused and puts a mark at the same time
        puts it once more.
        """
        self._storage().remove_leftovers(self.folder(identity))

    def folder(self, identity: SinkIdentity) -> str:
        """The folder of the sink's marks below the root."""
        parts = (identity.job, identity.query, identity.sink)
        return f"{self.kind}s/{'.'.join(file_name(part) for part in parts)}"

    def _folders(self, storage: Storage, identity: SinkIdentity) -> list[str]:
        """The marks of the sink, under any job name."""
        whose = self.folder(identity).rpartition("/")[2].partition(".")[2]
        names = storage.folders(f"{self.kind}s")
        return [f"{self.kind}s/{name}" for name in names if name.partition(".")[2] == whose]

    def _name(self, generation: int, epoch: int) -> str:
        return f"g{generation}-e{epoch}.{self.kind}"

    def _marked(self, storage: Storage, folder: str) -> list[tuple[int, int]]:
        marks = (found for found in map(_NAME.fullmatch, storage.peek_names(folder)) if found and found[3] == self.kind)
        return sorted((int(found[1]), int(found[2])) for found in marks)

    def _storage(self) -> Storage:
        return open_storage(self.root)


def is_of_storage(error: TidegateError) -> bool:
    """True if the storage of the marks has failed, and another try may succeed. After a failed sync none can."""
    return error.code in _OF_STORAGE and not isinstance(error, SyncFailed)


def _demanded(storage: Storage, name: str) -> Entry:
    """The entry of a mark that has been listed, or that another process has put: it is durable."""
    return _entry(storage.peek(name) or b"", storage.where(name))


def _entry(data: bytes, where: str) -> Entry:
    try:
        entry = _FORMAT.decode(data).entry
        if sha256("\n".join(entry.committables).encode()) != entry.digest:
            raise Unreadable(Flaw.ALTERED, _FORMAT.noun, "a digest that does not match")
    except Unreadable as flaw:
        raise flaw.error(where, _NEXT_STEP, newer_step=_NEXT_STEP) from None
    return entry


_OF_STORAGE = frozenset({Code.STORAGE_FULL.label, Code.STORAGE_UNUSABLE.label})
_NEXT_STEP = "use the release that wrote it, or put it back from a copy; deleting it would admit another timeline"

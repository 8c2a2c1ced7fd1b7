"""The newest done epoch of a file sink, in a record beside its claims: `done.json`.

Where publishing copies, a published file may be compacted or removed only if its epoch is not above this one. Before
that a driver that recovers would copy the staged file again. The staged files of an epoch are removed before the record
says that it is done, so no copy of them comes later.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tidegate.core.json_formats import ObjectFormat, Unreadable
from tidegate.core.records import Attempt, SinkIdentity
from tidegate.sinks.marks import Marks
from tidegate.storages.opening import open_storage
from tidegate.storages.storage import Storage

FORMAT = 1


class _DoneRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int = FORMAT
    job_id: str
    generation: int
    epoch: int


_FORMAT = ObjectFormat(_DoneRecord, f"a whole record of format {FORMAT}", FORMAT)


@dataclass(frozen=True, slots=True)
class NewestDone:
    """The record beside these claims."""

    claims: Marks

    def covers(self, attempt: Attempt) -> bool:
        """True if the attempt's epoch is done: of this job, in this generation, at or below the record's epoch."""
        found = self._found(attempt.sink)
        if found is None:
            return False
        mine = (attempt.sink.job_id, attempt.sink.generation)
        return (found.job_id, found.generation) == mine and attempt.epoch <= found.epoch

    def raise_to(self, identity: SinkIdentity, epoch: int) -> None:
        """Record that all epochs up to `epoch` are done. A driver that was late changes nothing."""
        found = self._found(identity)
        is_newer = (
            found is None
            or found.job_id != identity.job_id
            or (found.generation, found.epoch) < (identity.generation, epoch)
        )
        if is_newer and epoch >= 0:
            record = _DoneRecord(job_id=identity.job_id, generation=identity.generation, epoch=epoch)
            self._storage().replace(self._name(identity), _FORMAT.encode(record))

    def forget(self, identity: SinkIdentity) -> None:
        """Remove the record if it is of the identity's job."""
        found = self._found(identity)
        if found is not None and found.job_id == identity.job_id:
            self._storage().delete(self._name(identity))

    def _found(self, identity: SinkIdentity) -> _DoneRecord | None:
        storage, name = self._storage(), self._name(identity)
        data = storage.read(name)
        try:
            return None if data is None else _FORMAT.decode(data)
        except Unreadable as flaw:
            raise flaw.error(storage.where(name), _NEXT_STEP, newer_step=_NEXT_STEP) from None

    def _name(self, identity: SinkIdentity) -> str:
        return f"{self.claims.folder(identity)}/done.json"

    def _storage(self) -> Storage:
        return open_storage(self.claims.root)


_NEXT_STEP = "use the release that wrote it, or put it back from a copy; it says which files may be compacted"

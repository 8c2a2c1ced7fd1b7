"""The evidence in a table: written in the commit that adds an epoch's files, so it is the only proof.

It stands in two places of that commit.

* The snapshot's summary has the whole record under the key `tidegate`. It is evidence as long as the snapshot is an
  ancestor of `main`.
* A table property, one for each sink, has the position of the newest epoch and the id of its snapshot. It counts if
  the snapshot has expired. The next epoch replaces it, so properties do not grow.

Both are read from the same metadata whose `main` the commit requires: of two drivers one is refused.

A table that is rolled back keeps its properties, though the rows are gone. So a property whose snapshot exists and is
no ancestor of `main` shows a rollback. If the snapshot does not exist, it may have been rolled back first and expired
later. Then `main` still has older ancestors: they are compared by their sequence numbers. Only if those have expired,
too, nothing shows it.

A summary cannot be changed. So a job that is forgotten leaves a mark, a table property, for its id. The mark goes when
no snapshot has evidence of the job any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from tidegate.core.digests import sha256
from tidegate.core.json_formats import Flaw, ObjectFormat, Unreadable
from tidegate.core.records import Position, SinkIdentity
from tidegate.sinks.staging import file_name
from tidegate.sinks.standing import Entry

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

KEY = "tidegate"
"""The key in a snapshot's summary."""

SHOWN = "tidegate.shown"
"""The key in a summary whose rows are at-least-once: the digest of what one call has added. No evidence."""

NEWEST, FORGOTTEN = "tidegate.newest.", "tidegate.forgotten."
"""What the names of the table properties begin with."""

MAIN = "main"
FORMAT = 1


class SnapshotRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a snapshot says of its epoch."""

    format: int = FORMAT
    job: str
    query: str
    sink: str
    entry: Entry


class NewestRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a table property says of the newest epoch of a sink. `snapshot`, `sequence`: id and sequence number of its
    snapshot.
    """

    format: int = FORMAT
    job: str
    query: str
    sink: str
    job_id: str
    generation: int
    epoch: int
    digest: str
    snapshot: int
    sequence: int

    @property
    def position(self) -> Position:
        return Position(job_id=self.job_id, generation=self.generation, epoch=self.epoch, digest=self.digest)


@dataclass(frozen=True)
class SnapshotLedger:
    """What one state of a table proves. A commit that relies on it must require the `main` of the same `metadata`."""

    metadata: TableMetadata
    where: str

    @property
    def main(self) -> int | None:
        """The snapshot that a commit must require."""
        found = self.metadata.refs.get(MAIN)
        return None if found is None else found.snapshot_id

    @cached_property
    def ancestors(self) -> Mapping[int, Snapshot]:
        """The snapshots from `main` back to where they have expired, by their ids, the newest first."""
        by_id = {each.snapshot_id: each for each in self.metadata.snapshots}
        found: dict[int, Snapshot] = {}
        number = self.main
        while number is not None and number in by_id and number not in found:
            found[number] = by_id[number]
            number = by_id[number].parent_snapshot_id
        return found

    def position(self, identity: SinkIdentity) -> Position | None:
        """The newest evidence whose rows are in the table, under this job's name or its id."""
        newest = next(self._of(identity), None)
        found = [] if newest is None else [newest.entry.position]
        found += [each.position for each in self._noted(identity) if self._stands(each)]
        return max(found, key=_place_of, default=None)

    def is_undone(self, identity: SinkIdentity) -> bool:
        """True if rows that this generation has committed were rolled back."""
        timeline = identity.job_id, identity.generation
        mine = (each for each in self._noted(identity) if (each.job_id, each.generation) == timeline)
        return any(not self._stands(each) for each in mine)

    def entry_of(self, identity: SinkIdentity, epoch: int) -> Entry | None:
        """The entry of one epoch in the identity's generation, of any job id. If its snapshot has expired, the digests
        of the single transactions are unknown.
        """
        wanted = identity.generation, epoch
        for each in self._of(identity):
            if _place_of(each.entry.position) == wanted:
                return each.entry
            if _place_of(each.entry.position) < wanted:
                break
        for each in self._noted(identity):
            if _place_of(each.position) == wanted and self._stands(each):
                return Entry(
                    job_id=each.job_id, generation=each.generation, epoch=epoch, digest=each.digest, committables=()
                )
        return None

    def has_shown(self, digest: str) -> bool:
        """True if a call has added what has this digest, without evidence."""
        return any(_said(each, SHOWN) == digest for each in self.ancestors.values())

    def property_of(self, identity: SinkIdentity, entry: Entry, snapshot: int, sequence: int) -> dict[str, str]:
        """The table property of the commit that adds this entry."""
        record = NewestRecord(
            job=identity.job,
            query=identity.query,
            sink=identity.sink,
            job_id=entry.job_id,
            generation=entry.generation,
            epoch=entry.epoch,
            digest=entry.digest,
            snapshot=snapshot,
            sequence=sequence,
        )
        return {_named(NEWEST, identity.job, identity): _NEWEST_FORMAT.encode(record).decode()}

    def forgetting(self, identity: SinkIdentity) -> tuple[dict[str, str], list[str]]:
        """The properties to set and to remove, so that the identity's job id has no evidence of this sink."""
        mine = [each for each in self._noted(identity) if each.job_id == identity.job_id]
        names = [_named(NEWEST, each.job, identity) for each in mine]
        mark = _named(FORGOTTEN, identity.job_id, identity)
        left = any(_is_of(each, identity) for each in self._records(self.metadata.snapshots))
        is_new = left and mark not in self.metadata.properties
        return ({mark: "true"} if is_new else {}), names

    def idle_marks(self) -> list[str]:
        """The marks of forgotten jobs that have no evidence in any snapshot."""
        marks = [name for name in self.metadata.properties if name.startswith(FORGOTTEN)]
        if not marks:
            return []
        used = {_named(FORGOTTEN, each.entry.job_id, each) for each in self._records(self.metadata.snapshots)}
        return [name for name in marks if name not in used]

    # --- what stands in the table --------------------------------------------------------------------------

    def _of(self, identity: SinkIdentity) -> Iterator[SnapshotRecord]:
        """The evidence of a sink in the ancestors of `main`, the newest first. Forgotten jobs have none."""
        for each in self._records(self.ancestors.values()):
            is_mine = each.job == identity.job or each.entry.job_id == identity.job_id
            if (each.query, each.sink) != (identity.query, identity.sink) or not is_mine:
                continue
            if _named(FORGOTTEN, each.entry.job_id, each) not in self.metadata.properties:
                yield each

    def _records(self, snapshots: Iterable[Snapshot]) -> Iterator[SnapshotRecord]:
        for each in snapshots:
            text = _said(each, KEY)
            if text is not None:
                yield _decoded(text, f"snapshot {each.snapshot_id} of {self.where}")

    def _noted(self, identity: SinkIdentity) -> list[NewestRecord]:
        """What table properties say of a sink: of this job's name, and of its id under other names."""
        found = (
            _noted(text, f"property {name} of {self.where}")
            for name, text in self.metadata.properties.items()
            if name.startswith(NEWEST)
        )
        return [
            each
            for each in found
            if (each.query, each.sink) == (identity.query, identity.sink)
            and (each.job == identity.job or each.job_id == identity.job_id)
        ]

    def _stands(self, noted: NewestRecord) -> bool:
        """True unless the table was rolled back behind this snapshot."""
        if noted.snapshot in self.ancestors:
            return True
        if any(each.snapshot_id == noted.snapshot for each in self.metadata.snapshots):
            return False
        # The library clears the parent of a snapshot whose parent expires: so numbers alone tell.
        oldest = list(self.ancestors.values())[-1:]
        return any(noted.sequence < (each.sequence_number or 0) for each in oldest)


def encoded(identity: SinkIdentity, entry: Entry) -> dict[str, str]:
    """What the snapshot of an epoch has in its summary."""
    record = SnapshotRecord(job=identity.job, query=identity.query, sink=identity.sink, entry=entry)
    return {KEY: _FORMAT.encode(record).decode()}


def _said(snapshot: Snapshot, key: str) -> str | None:
    return None if snapshot.summary is None else snapshot.summary.additional_properties.get(key)


def _decoded(text: str, where: str) -> SnapshotRecord:
    try:
        record = _FORMAT.decode(text.encode())
        if sha256("\n".join(record.entry.committables).encode()) != record.entry.digest:
            raise Unreadable(Flaw.ALTERED, _FORMAT.noun, "a digest that does not match")
    except Unreadable as flaw:
        raise flaw.error(where, _NEXT_STEP, newer_step=_NEXT_STEP) from None
    return record


def _noted(text: str, where: str) -> NewestRecord:
    try:
        return _NEWEST_FORMAT.decode(text.encode())
    except Unreadable as flaw:
        raise flaw.error(where, _NEXT_STEP, newer_step=_NEXT_STEP) from None


def _named(kind: str, whose: str, sink: SinkIdentity | SnapshotRecord) -> str:
    return kind + ".".join(file_name(part) for part in (whose, sink.query, sink.sink))


def _is_of(record: SnapshotRecord, identity: SinkIdentity) -> bool:
    mine = identity.job_id, identity.query, identity.sink
    return (record.entry.job_id, record.query, record.sink) == mine


def _place_of(position: Position) -> tuple[int, int]:
    return position.generation, position.epoch


_FORMAT = ObjectFormat(SnapshotRecord, f"a whole record of format {FORMAT}", FORMAT)
_NEWEST_FORMAT = ObjectFormat(NewestRecord, f"a whole record of format {FORMAT}", FORMAT)
_NEXT_STEP = "use the release that wrote it; what stands in the table must not be changed"

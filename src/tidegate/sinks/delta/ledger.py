"""The evidence in the log of a table: written in the commit that adds an epoch's files, so it is the only proof.

It stands in two places of that commit.

* `commitInfo` has the whole record under the key `tidegate`. It is read as long as the log keeps the commit (30 days by
  default), and names the commit with the evidence before it.
* Application transactions (`txn`) have the same in numbers: the version of the commit, generation, epoch, digest and
  job id, seven bytes in each number. They are part of each checkpoint of the table, so they stay when the commit is
  gone.

These stand under the name of the job, and again under its id: a job can move to another name. Their names also hold the
id of the table: a table that was replaced by another one has no evidence, as it has no rows.

A table that was restored to an older version keeps its application transactions, though the rows are gone. So a RESTORE
behind the newest evidence counts: the evidence is then that of the version that the table was restored to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import msgspec
from deltalake import DeltaTable, Transaction

from tidegate.core.digests import sha256
from tidegate.core.json_formats import Flaw, ObjectFormat, Unreadable
from tidegate.core.records import Position, SinkIdentity
from tidegate.disk.side_by_side import side_by_side
from tidegate.sinks.delta.place import TablePlace, entry_name
from tidegate.sinks.staging import file_name
from tidegate.sinks.standing import Entry

KEY = "tidegate"
"""The key in `commitInfo`."""

KEPT = 100
"""How many epochs back the commits are followed. Recovery needs only the last few."""

FORMAT = 1
_NO_VERSION = -1
_WORD_BYTES = 7


class EvidenceRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a commit says of its epoch. `before`: the version with the evidence before it."""

    format: int = FORMAT
    job: str
    query: str
    sink: str
    entry: Entry
    before: int | None


@dataclass(frozen=True, slots=True)
class TableEvidence:
    """Evidence that a table has. `record`: None if the log does not keep the commit any more."""

    version: int
    position: Position
    record: EvidenceRecord | None

    @property
    def entry(self) -> Entry:
        """The entry of the epoch. Without its commit the digests of the single transactions are unknown."""
        if self.record is not None:
            return self.record.entry
        found = self.position
        return Entry(
            job_id=found.job_id, generation=found.generation, epoch=found.epoch, digest=found.digest, committables=()
        )


class TableLedger:
    """What one snapshot of a table proves.

    A commit that relies on it must be made with the same `table`, as its next version: then nothing came in between.
    """

    def __init__(self, place: TablePlace, table: DeltaTable) -> None:
        self._place = place
        self._table = table
        self._records: dict[int, EvidenceRecord | None] = {}

    def newest(self, identity: SinkIdentity) -> TableEvidence | None:
        """The newest evidence of any generation, for this job's name or its id, whether its rows were restored away or
        not.
        """
        by_name = self._recorded(_by_name(identity), None)
        by_id = self._recorded(_by_id(identity), identity.job_id)
        found = [each for each in (by_name, by_id) if each is not None]
        return max(found, key=lambda each: (each.position.generation, each.position.epoch), default=None)

    def entry_of(self, identity: SinkIdentity, epoch: int, newest: TableEvidence | None) -> Entry | None:
        """The entry of one epoch in the identity's generation, of any job id."""
        wanted, recorded = (identity.generation, epoch), newest
        for _ in range(KEPT):
            if recorded is None or _place_of(recorded.entry) < wanted:
                return None
            if _place_of(recorded.entry) == wanted:
                return recorded.entry
            recorded = self._before(recorded)
        return None

    def position(self, identity: SinkIdentity) -> Position | None:
        """The newest evidence whose rows were not restored away."""
        newest = self.newest(identity)
        if newest is None:
            return None
        restore = self._restore_behind(newest.version)
        return newest.position if restore is None else self._position_after(restore, identity)

    def is_undone(self, identity: SinkIdentity, newest: TableEvidence | None) -> bool:
        """True if rows that this generation has committed were restored away."""
        if newest is None or (newest.position.job_id, newest.position.generation) != _timeline(identity):
            return False
        restore = self._restore_behind(newest.version)
        return restore is not None and self._position_after(restore, identity) != newest.position

    def transactions(self, identity: SinkIdentity, entry: Entry) -> list[Transaction]:
        """The application transactions of the next version of the table."""
        shared = {
            "version": [self._table.version() + 1],
            "generation": [entry.generation],
            "epoch": [entry.epoch],
            "digest": _words(bytes.fromhex(entry.digest)),
        }
        by_name = self._named(_by_name(identity), {**shared, "job": _words(entry.job_id.encode())})
        return [*by_name, *self._named(_by_id(identity), shared)]

    def without(self, identity: SinkIdentity) -> list[Transaction]:
        """The application transactions that remove the evidence of the identity's job id. Empty if there is none."""
        newest = self._recorded(_by_id(identity), identity.job_id)
        names = {identity.job}
        if newest is not None and newest.record is not None:
            names.add(newest.record.job)
        owners = [_by_name(msgspec.structs.replace(identity, job=name)) for name in sorted(names)]
        mine = [owner for owner in owners if self._job_id_of(owner) == identity.job_id]
        if newest is not None:
            mine.append(_by_id(identity))
        return [each for owner in mine for each in self._named(owner, {"version": [_NO_VERSION]})]

    # --- what stands in the table --------------------------------------------------------------------------

    def _recorded(self, owner: str, job_id: str | None) -> TableEvidence | None:
        version = self._number(owner, "version")
        if version is None or version == _NO_VERSION:
            return None
        record = self._record(version)
        if record is not None and owner in (_by_name_of(record), _by_id_of(record)):
            return TableEvidence(version, record.entry.position, record)
        position = Position(
            job_id=job_id or self._text(owner, "job").decode(),
            generation=self._number(owner, "generation") or 0,
            epoch=self._number(owner, "epoch") or 0,
            digest=self._text(owner, "digest").hex(),
        )
        return TableEvidence(version, position, None)

    def _before(self, recorded: TableEvidence) -> TableEvidence | None:
        version = None if recorded.record is None else recorded.record.before
        record = None if version is None else self._record(version)
        return None if version is None or record is None else TableEvidence(version, record.entry.position, record)

    def _job_id_of(self, owner: str) -> str | None:
        found = self._recorded(owner, None)
        return None if found is None else found.position.job_id

    def _record(self, version: int) -> EvidenceRecord | None:
        """The record in a commit. None if there is none, or no such commit any more."""
        if version not in self._records:
            self._records[version] = self._read(version)
        return self._records[version]

    def _read(self, version: int) -> EvidenceRecord | None:
        info = self._place.commit_info(version)
        if info is None or KEY not in info:
            return None
        return _decoded(info[KEY], self._place.log().where(entry_name(version)))

    # --- numbers -------------------------------------------------------------------------------------------

    def _named(self, owner: str, numbers: dict[str, list[int]]) -> list[Transaction]:
        return [
            Transaction(self._app_id(owner, name, place), number)
            for name, words in numbers.items()
            for place, number in enumerate(words)
        ]

    def _number(self, owner: str, name: str, place: int = 0) -> int | None:
        return self._table.transaction_version(self._app_id(owner, name, place))

    def _text(self, owner: str, name: str) -> bytes:
        return _joined(lambda place: self._number(owner, name, place))

    def _app_id(self, owner: str, name: str, place: int) -> str:
        return f"tidegate:{self._table.metadata().id}:{owner}#{name}{f'.{place}' if place else ''}"

    # --- a table that was restored -------------------------------------------------------------------------

    def _restore_behind(self, version: int) -> Mapping[str, Any] | None:
        """The newest RESTORE above this version, up to the snapshot: what its commit says of itself.

        The library's own history also has commits that are newer than the snapshot.
        """
        above = range(self._table.version(), version, -1)
        for info in side_by_side(self._place.commit_info, above):
            if info is not None and info.get("operation") == "RESTORE":
                return info
        return None

    def _position_after(self, restore: Mapping[str, Any], identity: SinkIdentity) -> Position | None:
        older = self._state_of(restore)
        return None if older is None else TableLedger(self._place, older).position(identity)

    def _state_of(self, restore: Mapping[str, Any]) -> DeltaTable | None:
        """The table as a RESTORE has left it; None if that cannot be told."""
        told = restore.get("operationParameters", {})
        version, moment = (str(told.get(name, "")) for name in ("version", "datetime"))
        table = self._place.table(int(version)) if version.isdigit() else None
        if table is None and moment.isdigit():
            table = self._place.table()
            if table is not None:
                table.load_as_version(_EPOCH + timedelta(milliseconds=int(moment)))
        return table


def encoded(identity: SinkIdentity, entry: Entry, newest: TableEvidence | None) -> dict[str, object]:
    """What a commit has in `commitInfo`."""
    record = EvidenceRecord(
        job=identity.job,
        query=identity.query,
        sink=identity.sink,
        entry=entry,
        before=None if newest is None else newest.version,
    )
    return {KEY: _FORMAT.encode(record).decode()}


def _decoded(text: object, where: str) -> EvidenceRecord:
    try:
        record = _FORMAT.decode(str(text).encode())
        if sha256("\n".join(record.entry.committables).encode()) != record.entry.digest:
            raise Unreadable(Flaw.ALTERED, _FORMAT.noun, "a digest that does not match")
    except Unreadable as flaw:
        raise flaw.error(where, _NEXT_STEP, newer_step=_NEXT_STEP) from None
    return record


def _words(text: bytes) -> list[int]:
    """Bytes as numbers of 63 bits. The last one holds less than seven bytes, so it is known as the last."""
    parts = [text[place : place + _WORD_BYTES] for place in range(0, len(text) + 1, _WORD_BYTES)]
    return [int.from_bytes(b"\1" + part, "big") for part in parts]


def _joined(word: Callable[[int], int | None]) -> bytes:
    return b"".join(_parts(word))


def _parts(word: Callable[[int], int | None]) -> Iterator[bytes]:
    for place in range(_WORDS_AT_MOST):
        number = word(place) or 1
        part = number.to_bytes((number.bit_length() + 7) // 8, "big")[1:]
        yield part
        if len(part) < _WORD_BYTES:
            return


def _by_name(identity: SinkIdentity) -> str:
    return _owner((identity.job, identity.query, identity.sink))


def _by_id(identity: SinkIdentity) -> str:
    return f"id:{_owner((identity.job_id, identity.query, identity.sink))}"


def _by_name_of(record: EvidenceRecord) -> str:
    return _owner((record.job, record.query, record.sink))


def _by_id_of(record: EvidenceRecord) -> str:
    return f"id:{_owner((record.entry.job_id, record.query, record.sink))}"


def _owner(parts: Sequence[str]) -> str:
    return ".".join(file_name(part) for part in parts)


def _timeline(identity: SinkIdentity) -> tuple[str, int]:
    return identity.job_id, identity.generation


def _place_of(entry: Entry) -> tuple[int, int]:
    return entry.generation, entry.epoch


_FORMAT = ObjectFormat(EvidenceRecord, f"a whole record of format {FORMAT}", FORMAT)
_NEXT_STEP = "use the release that wrote it; the commit itself must not be changed"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_WORDS_AT_MOST = 100

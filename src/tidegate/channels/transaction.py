"""The rows of one attempt of a task on their way into an embedded channel, and the committable that names them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

import msgspec
import pyarrow as pa

from tidegate.channels.log import StagedRows
from tidegate.channels.partitions import by_partition
from tidegate.core.json_formats import parsed
from tidegate.core.records import Attempt, ChannelKey, Committable, JournalRef, committable_digest
from tidegate.disk.side_by_side import side_by_side
from tidegate.sinks.base import Transaction
from tidegate.storages.journal import Journal, JournalWriter

_JOURNAL, _JOURNALS, _KEY = "journal", "journals", "key"
"""What the handle of a committable has: its journal; for a keyed channel the journals by partition, and the key."""


class ChannelTransaction(Transaction):
    """Writes a journal for each part that gets rows."""

    def __init__(self, attempt: Attempt, journal: Journal, key: ChannelKey | None) -> None:
        self._attempt = attempt
        self._journal = journal
        self._key = key
        self._begun = secrets.token_hex(8)  # each begin has files of its own
        self._parts: dict[int, JournalWriter] = {}

    def write(self, batch: pa.RecordBatch) -> None:
        for number, rows in [(0, batch)] if self._key is None else by_partition(batch, self._key):
            if number not in self._parts:
                self._parts[number] = self._journal.writer(self._name(number))
            self._parts[number].write(rows)

    def pre_commit(self) -> Committable | None:
        closed = side_by_side(lambda each: each.close(), list(self._parts.values()), at_least=2)
        found = dict(zip(self._parts, closed, strict=True))
        journals = {number: each for number, each in sorted(found.items()) if each is not None}
        if not journals:
            return None
        return Committable(
            attempt=self._attempt,
            rows=sum(each.rows for each in journals.values()),
            digest=committable_digest(self._attempt, _checksum(journals, self._key)),
            handle=handle_of(journals, self._key),
        )

    def abort(self) -> None:
        for each in self._parts.values():
            each.abort()

    def _name(self, number: int) -> str:
        part = "" if self._key is None else f".p{number}"
        return f"{self._attempt.epoch}/{self._attempt.name}.{self._begun}{part}.arrow"


def handle_of(journals: Mapping[int, JournalRef], key: ChannelKey | None) -> dict[str, str]:
    """The handle of a committable with these journals, by the number of their part. `key`: what has parted them."""
    if key is None:
        return {_JOURNAL: msgspec.json.encode(journals[0]).decode()}
    return {_KEY: msgspec.json.encode(key).decode(), _JOURNALS: msgspec.json.encode(journals).decode()}


def staged_rows(committable: Committable) -> StagedRows:
    """What the handle of a committable says. The program may have another key by now than the one in there."""
    handle = committable.handle
    if _KEY not in handle:
        return StagedRows(committable, {0: parsed(handle[_JOURNAL], JournalRef)})
    journals = parsed(handle[_JOURNALS], dict[int, JournalRef])
    return StagedRows(committable, journals, parsed(handle[_KEY], ChannelKey))


def _checksum(journals: Mapping[int, JournalRef], key: ChannelKey | None) -> str:
    if key is None:
        return journals[0].checksum
    return "\n".join(f"{number} {each.checksum}" for number, each in journals.items())

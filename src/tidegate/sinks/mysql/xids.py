"""The identifiers of XA branches, parsed and compared as a whole, never by their start.

    tg.<owner>.<target>   g<generation>.e<epoch>.<attempt>
    (gtrid)               (bqual)

Each of the two has at most 64 bytes. `owner` is a hash of job id, query and sink, `target` one of database and table:
what was prepared for another table is not taken for this one's. An attempt that does not fit stands as its hash, behind
a `+`, which no other attempt has.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from tidegate.core.records import Attempt, SinkIdentity
from tidegate.sinks.mysql.declared import DeclaredMySQLSink

FORMAT_ID = 0x7469
"""Of our branches, beside those of other transaction managers."""
_BYTES_AT_MOST = 64
_GTRID = re.compile(r"tg\.([0-9a-f]{40})\.([0-9a-f]{16})")
_BQUAL = re.compile(r"g(\d+)\.e(\d+)\.(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Xid:
    """The parts of an identifier: the sink that owns the branch, its table, and the attempt."""

    owner: str
    target: str
    generation: int
    epoch: int
    attempt: str

    @classmethod
    def of(cls, sink: DeclaredMySQLSink, attempt: Attempt) -> Xid:
        owner, place = _owner(attempt.sink), json.dumps([sink.server.database, sink.table])
        whole = cls(owner, _hash(place)[:16], attempt.sink.generation, attempt.epoch, attempt.name)
        if len(whole.bqual.encode()) <= _BYTES_AT_MOST and attempt.name.isascii():
            return whole
        room = _BYTES_AT_MOST - len(f"g{whole.generation}.e{whole.epoch}.+")
        return cls(whole.owner, whole.target, whole.generation, whole.epoch, f"+{_hash(attempt.name)[:room]}")

    @classmethod
    def parsed(cls, gtrid: str, bqual: str) -> Xid | None:
        """None if it is not an identifier of this library."""
        of_sink, of_attempt = _GTRID.fullmatch(gtrid), _BQUAL.fullmatch(bqual)
        if of_sink is None or of_attempt is None:
            return None
        return cls(of_sink[1], of_sink[2], int(of_attempt[1]), int(of_attempt[2]), of_attempt[3])

    @classmethod
    def parsed_text(cls, text: str) -> Xid | None:
        """From the text of an identifier, as in a committable and in lists."""
        gtrid, _, bqual = text.partition(":")
        return cls.parsed(gtrid, bqual)

    @property
    def gtrid(self) -> str:
        return f"tg.{self.owner}.{self.target}"

    @property
    def bqual(self) -> str:
        return f"g{self.generation}.e{self.epoch}.{self.attempt}"

    def __str__(self) -> str:
        return f"{self.gtrid}:{self.bqual}"

    @property
    def in_sql(self) -> str:
        """As XA statements have it: hexadecimal, so that no character needs a quote."""
        return f"X'{self.gtrid.encode().hex()}', X'{self.bqual.encode().hex()}', {FORMAT_ID}"

    def belongs_to(self, identity: SinkIdentity) -> bool:
        """True if it is of this sink, with any table, generation, epoch and attempt."""
        return self.owner == _owner(identity)

    def is_of_task(self, other: Xid) -> bool:
        """True if both are attempts of the same task of the same run and epoch."""
        return self._task == other._task

    @property
    def _task(self) -> tuple[object, ...]:
        task = self.attempt.rpartition("-a")[0] or self.attempt
        return self.owner, self.target, self.generation, self.epoch, task


def _owner(identity: SinkIdentity) -> str:
    return _hash(json.dumps([identity.job_id, identity.query, identity.sink]))[:40]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""The identifiers of prepared transactions (the server's "gid"), parsed and compared as a whole, never by their start.

    tidegate:<job id>:<query>:<sink>:<target>:g<generation>:e<epoch>:<attempt>

An identifier has fewer than 200 bytes. So a part that is long stands as its hash, behind a `+`, which no other part
has. `target` is a hash of schema and table: what was prepared for another table is not taken for this one's.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass

from tidegate.core.records import Attempt, SinkIdentity
from tidegate.sinks.postgres.declared import DeclaredPostgresSink
from tidegate.sinks.staging import file_name

BYTES_AT_MOST = 199
"""From `GIDSIZE` of the server (src/include/access/xact.h)."""
_PART_AT_MOST = 33
_NAME = re.compile(
    r"tidegate:(?P<job_id>[^:]+):(?P<query>[^:]+):(?P<sink>[^:]+):(?P<target>[0-9a-f]{12})"
    r":g(?P<generation>\d+):e(?P<epoch>\d+):(?P<attempt>[^:]+)"
)


@dataclass(frozen=True, slots=True)
class PreparedName:
    """The parts of an identifier: the sink that owns the transaction, its table, and the attempt. `job_id`, `query` and
    `sink` are as in the text.
    """

    job_id: str
    query: str
    sink: str
    target: str
    generation: int
    epoch: int
    attempt: str

    @classmethod
    def of(cls, sink: DeclaredPostgresSink, attempt: Attempt) -> PreparedName:
        owner = attempt.sink
        return cls(
            _part(owner.job_id),
            _part(owner.query),
            _part(owner.sink),
            _hash(json.dumps([sink.schema, sink.table]))[:12],
            owner.generation,
            attempt.epoch,
            attempt.name,
        )

    @classmethod
    def parsed(cls, text: str) -> PreparedName | None:
        """The parts of `text`, or None if it is not an identifier of this library."""
        found = _NAME.fullmatch(text)
        if found is None:
            return None
        return cls(
            found["job_id"],
            found["query"],
            found["sink"],
            found["target"],
            int(found["generation"]),
            int(found["epoch"]),
            found["attempt"],
        )

    def __str__(self) -> str:
        owner = f"{self.job_id}:{self.query}:{self.sink}:{self.target}"
        return f"tidegate:{owner}:g{self.generation}:e{self.epoch}:{self.attempt}"

    def belongs_to(self, identity: SinkIdentity) -> bool:
        """True if it is of this sink, with any table, generation, epoch and attempt."""
        mine = (_part(identity.job_id), _part(identity.query), _part(identity.sink))
        return (self.job_id, self.query, self.sink) == mine

    def has_uids_of(self, identity: SinkIdentity) -> bool:
        """True if query and sink have the identity's uids, in a job of any id."""
        return (self.query, self.sink) == (_part(identity.query), _part(identity.sink))

    def is_of_task(self, other: PreparedName) -> bool:
        """True if both are attempts of the same task of the same run and epoch."""
        return self._task == other._task

    @property
    def _task(self) -> tuple[object, ...]:
        task = self.attempt.rpartition("-a")[0]
        return self.job_id, self.query, self.sink, self.target, self.generation, self.epoch, task

    @property
    def application_name(self) -> str:
        """The `application_name` of the backend that writes the transaction. It has room for 63 bytes."""
        return f"tidegate {_hash(str(self))[:48]}"


def _part(uid: str) -> str:
    plain = file_name(uid)
    return plain if len(plain) <= _PART_AT_MOST else f"+{_hash(uid)[: _PART_AT_MOST - 1]}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""Transactional ids: `[<prefix>.]tg.<job id>.<query>.<sink>.<place>.<slot>.<turn>`, parsed, never matched by prefix."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from tidegate.core.records import SinkIdentity
from tidegate.sinks.staging import file_name

_NAME = re.compile(
    r"(?:(?P<prefix>.+)\.)?tg\.(?P<job_id>[^.]+)\.(?P<query>[^.]+)\.(?P<sink>[^.]+)"
    r"\.(?P<place>[0-9a-f]{8})\.(?P<slot>\d+)\.(?P<turn>[01])",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class TransactionalId:
    """The parts of a transactional id: the sink that owns it, and the id's place, slot and turn.

    One process at a time holds the lock of a slot, a file in the place (module `slots`). It alone uses the slot's two
    turns, 0 and 1.
    """

    prefix: str
    job_id: str
    query: str
    sink: str
    place: str
    slot: int
    turn: int

    def __str__(self) -> str:
        whose = _joined(self.job_id, self.query, self.sink)
        return f"{ids_begin(self.prefix)}{whose}.{self.place}.{self.slot}.{self.turn}"

    def belongs_to(self, prefix: str, identity: SinkIdentity) -> bool:
        """True if it is an id of this sink, with any generation, place, slot and turn."""
        mine = (prefix, identity.job_id, identity.query, identity.sink)
        return (self.prefix, self.job_id, self.query, self.sink) == mine

    @classmethod
    def parse(cls, name: str) -> TransactionalId | None:
        """The parts of `name`, or None if it is not an id of this library."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        return cls(
            prefix=found["prefix"] or "",
            job_id=unquote(found["job_id"]),
            query=unquote(found["query"]),
            sink=unquote(found["sink"]),
            place=found["place"],
            slot=int(found["slot"]),
            turn=int(found["turn"]),
        )


def ids_begin(prefix: str) -> str:
    """The common start of the ids of all sinks with this prefix: for access lists only, never to find an id's owner."""
    return f"{prefix}.tg." if prefix else "tg."


def sink_part(identity: SinkIdentity) -> str:
    """`<job id>.<query>.<sink>` as in the ids. It is also a safe name of a folder."""
    return _joined(identity.job_id, identity.query, identity.sink)


def _joined(*uids: str) -> str:
    return ".".join(map(file_name, uids))

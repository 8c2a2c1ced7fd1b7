"""The records of a lease of terms, in one folder. T is the number of a term; the highest one is the lease.

T            who took the term. Create-if-absent, and the newest one is never removed.
T.beat       replaced by the holder of T while it lives. No beat is an unchanged beat.
T.released   the holder of T has ended, and nothing of it can write any more.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from tidegate.core.json_formats import HeaderLine, RecordFormat, Unreadable
from tidegate.storages.lease import Holder
from tidegate.storages.storage import Names, Storage

LEASE = "lease"
"""The folder of the records, below the folder of the job."""


class Term(msgspec.Struct, frozen=True, kw_only=True):
    """One take of the lease. `token`: random, so that a writer recognizes its own record. `timeout_seconds`: how long
    an observer must see the same beat before it may take the next term.
    """

    holder: Holder
    token: str
    timeout_seconds: float


class TermBeat(msgspec.Struct, frozen=True, kw_only=True):
    """One proof of life. `count` only grows."""

    token: str
    count: int


class Released(msgspec.Struct, frozen=True, kw_only=True):
    """The clean end of a term."""

    token: str


RecordT = TypeVar("RecordT", Term, TermBeat, Released)


def name_of(kind: type[RecordT], number: int) -> str:
    """The name of a record of this term."""
    return f"{number}{_SUFFIXES[kind]}"


def newest_of(names: Names) -> int:
    """The number of the newest term in a list of the folder; 0 if there is none."""
    return max((int(name) for name in names if name.isdigit()), default=0)


def read_record(storage: Storage, kind: type[RecordT], number: int) -> RecordT | None:
    """A record of a term; None if it is absent. Raises RECORD_CORRUPT or RECORD_NEWER, with the name of the file."""
    name = name_of(kind, number)
    data = storage.read(name)
    if data is None:
        return None
    try:
        return _format_of(kind).decode(data)
    except Unreadable as flaw:
        raise flaw.error(storage.where(name), _NEXT_STEP) from None


def encoded(record: RecordT) -> bytes:
    """The bytes of a record."""
    return _format_of(type(record)).encode(record)


def remove_below(storage: Storage, number: int) -> None:
    """Remove the records of all terms below this one, and what their killed holders were writing. Only the holder of
    the term `number` calls it.
    """
    older: set[str] = set()
    for name in storage.list(""):
        term, _, kind = name.partition(".")
        if term.isdigit() and int(term) < number and kind in _KNOWN:
            storage.delete(name)
            older.add(term)
    for term in older:
        storage.remove_leftovers("", f"{term}.")


def _format_of(kind: type[RecordT]) -> RecordFormat[RecordT]:
    return RecordFormat(kind, HeaderLine(_KINDS[kind], 1))


_SUFFIXES: dict[type, str] = {Term: "", TermBeat: ".beat", Released: ".released"}
_KINDS: dict[type, str] = {Term: "lease-term", TermBeat: "lease-beat", Released: "lease-released"}
_KNOWN = frozenset(suffix.removeprefix(".") for suffix in _SUFFIXES.values())
_NEXT_STEP = (
    "make sure that no driver of the job runs, on any machine; then remove this folder `lease`, and start the job again"
)

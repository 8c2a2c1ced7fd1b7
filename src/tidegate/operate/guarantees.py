"""The guarantees of a job's sinks: *guarantees.json* in the job's folder, written at each start."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidegate.core.guarantees import Guarantee
from tidegate.core.health import Finding, Health
from tidegate.core.json_formats import ObjectFormat, Unreadable
from tidegate.storages.storage import Storage

GUARANTEES = "guarantees.json"
FORMAT = 1
"""The format that this release writes. A newer format is not read."""


class GuaranteeFinding(Finding, frozen=True, kw_only=True):
    """The line of `tidegate check` about the guarantee of one sink. It also has its parts as values, for programs."""

    guarantee: Guarantee


class _Guarantees(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    guarantees: tuple[Guarantee, ...]


_FORMAT = ObjectFormat(_Guarantees, "guarantees", FORMAT)


def write_guarantees(storage: Storage, guarantees: Sequence[Guarantee]) -> None:
    """Write *guarantees.json* into the job's folder, in place of an older one."""
    storage.replace(GUARANTEES, _FORMAT.encode(_Guarantees(format=FORMAT, guarantees=tuple(guarantees))))


def read_guarantees(storage: Storage) -> Sequence[Guarantee]:
    """The guarantees as the last start found them; empty if no start has written a readable file."""
    data = storage.read(GUARANTEES)
    try:
        return () if data is None else _FORMAT.decode(data).guarantees
    except Unreadable:
        return ()


def finding_of(guarantee: Guarantee) -> GuaranteeFinding:
    """The line of `tidegate check`."""
    what = f"sink {guarantee.query}/{guarantee.sink}"
    return GuaranteeFinding(what=what, health=Health.OK, detail=guarantee.text, guarantee=guarantee)

"""The guarantees of a job's sinks: *guarantees.json* in the job's folder, written at each start."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidegate.core.guarantees import Guarantee
from tidegate.core.health import Finding, Health
from tidegate.storages.storage import Storage

GUARANTEES = "guarantees.json"
FORMAT = 1
"""The format that this release writes. Other formats are not read."""


class GuaranteeFinding(Finding, frozen=True, kw_only=True):
    """The line of `tidegate check` for one sink, and its parts for programs."""

    guarantee: Guarantee


class _Guarantees(msgspec.Struct, frozen=True, kw_only=True):
    format: int
    guarantees: tuple[Guarantee, ...]


def write_guarantees(storage: Storage, guarantees: Sequence[Guarantee]) -> None:
    """Write *guarantees.json* into the job's folder, in place of an older one."""
    storage.replace(GUARANTEES, msgspec.json.encode(_Guarantees(format=FORMAT, guarantees=tuple(guarantees))))


def read_guarantees(storage: Storage) -> Sequence[Guarantee]:
    """The guarantees as the last start found them; empty if no start has written a readable file."""
    data = storage.read(GUARANTEES)
    try:
        found = None if data is None else msgspec.json.decode(data, type=_Guarantees)
    except msgspec.DecodeError:
        return ()
    return () if found is None or found.format != FORMAT else found.guarantees


def finding_of(guarantee: Guarantee) -> GuaranteeFinding:
    """The line of `tidegate check`."""
    what = f"sink {guarantee.query}/{guarantee.sink}"
    return GuaranteeFinding(what=what, health=Health.OK, detail=guarantee.text, guarantee=guarantee)

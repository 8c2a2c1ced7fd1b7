"""What a program declares, as far as a restore compares it with a savepoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.fingerprints import NOTHING_ALLOWED, Allowed
from tidegate.core.records import OperatorFingerprint, StatefulOperator
from tidegate.settings.kinds import Backend


@dataclass(frozen=True, slots=True)
class ProgramQuery:
    """A query as the program declares it. `reads_files` says of each source whether it is Spark's file source;
    `operators` are those with state, as Spark plans them; `fingerprints` say what they compute, or
    None where that cannot be read."""

    uid: str
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    reads_files: tuple[bool, ...]
    operators: tuple[StatefulOperator, ...] = ()
    fingerprints: tuple[OperatorFingerprint, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What is to resume. `partitions`: of keyed state, where the program or a command asks for a number.
    `allowed`: the operators that may be others."""

    name: str
    queries: Sequence[ProgramQuery]
    backend: Backend
    partitions: int | None
    allowed: Allowed = NOTHING_ALLOWED

"""The declarations of a program that a restore compares with a savepoint."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.fingerprints import NOTHING_ALLOWED, Allowed
from tidegate.core.records import OperatorFingerprint, StatefulOperator
from tidegate.settings.kinds import Backend


@dataclass(frozen=True, slots=True)
class ProgramQuery:
    """A query as the program declares it. `reads_files`: for each source, True if it is Spark's file source.
    `operators`: the stateful ones, as Spark plans them. `fingerprints`: their definitions, or None if they cannot be
    read.
    """

    uid: str
    sources: tuple[str, ...]
    sinks: tuple[str, ...]
    reads_files: tuple[bool, ...]
    operators: tuple[StatefulOperator, ...] = ()
    fingerprints: tuple[OperatorFingerprint, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The program to resume. `partitions`: the requested number for keyed state, if there is one. `allowed`: the
    operators that may differ.
    """

    name: str
    queries: Sequence[ProgramQuery]
    backend: Backend
    partitions: int | None
    allowed: Allowed = NOTHING_ALLOWED

"""The name of a staging table of a database: one for each attempt that wrote a row.

_tidegate_stage_<owner>_g<generation>_e<epoch>_<token>
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tidegate.core.records import Attempt, SinkIdentity

STAGE = "_tidegate_stage_"

_NAME = re.compile(rf"{STAGE}([0-9a-f]{{16}})_g(\d+)_e(\d+)_([0-9a-f]{{12}})")


@dataclass(frozen=True, slots=True)
class StageName:
    """What the name of a stage tells."""

    owner: str
    generation: int
    epoch: int
    token: str

    @classmethod
    def new(cls, attempt: Attempt) -> StageName:
        """A new name each time: an attempt that is begun again never meets what it left before."""
        return cls(owner_of(attempt.sink), attempt.sink.generation, attempt.epoch, secrets.token_hex(6))

    @classmethod
    def parsed(cls, name: str) -> StageName | None:
        found = _NAME.fullmatch(name)
        return None if found is None else cls(found[1], int(found[2]), int(found[3]), found[4])

    def __str__(self) -> str:
        return f"{STAGE}{self.owner}_g{self.generation}_e{self.epoch}_{self.token}"


def owner_of(identity: SinkIdentity) -> str:
    """The part of a name that stands for job id, query and sink. A table's name has 63 bytes (PostgreSQL) or 64
    characters (MySQL) at most.
    """
    whole = json.dumps([identity.job_id, identity.query, identity.sink])
    return hashlib.sha256(whole.encode()).hexdigest()[:16]


def pattern_of(identity: SinkIdentity) -> str:
    """The names of all stages of a sink, as a pattern for LIKE."""
    return f"{STAGE}{owner_of(identity)}_".replace("_", r"\_") + "%"


def chosen_of(names: Iterable[str], identity: SinkIdentity, chosen: Callable[[StageName], bool]) -> list[str]:
    """Those of `names` that are stages of a sink, and `chosen`."""
    parsed = {name: StageName.parsed(name) for name in names}
    owner = owner_of(identity)
    return [name for name, stage in parsed.items() if stage is not None and stage.owner == owner and chosen(stage)]


def comment_of(attempt: Attempt) -> str:
    """What the comment of a stage tells to the person that finds it."""
    sink = attempt.sink
    return (
        f"tidegate, rows that wait for their commit: job {sink.job} ({sink.job_id}), query {sink.query},"
        f" sink {sink.sink}, epoch {attempt.epoch}, {attempt.name}"
    )

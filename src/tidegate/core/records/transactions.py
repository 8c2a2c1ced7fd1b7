"""Values about one transaction of a sink: its name, its result, and the evidence of its commit."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

import msgspec

from tidegate.core.digests import sha256
from tidegate.core.records.value import Value


class SinkIdentity(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The identity of a sink: all parts of its transaction names and evidence keys."""

    job: str
    job_id: str
    generation: int
    query: str
    sink: str


class Attempt(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One execution of one task of an epoch for one sink; the name of one transaction."""

    sink: SinkIdentity
    run: int
    run_token: str
    epoch: int
    task: int
    task_attempt: int

    @property
    def name(self) -> str:
        """Unique among all attempts of the sink: `r<run>-<token>-t<task>-a<task attempt>`."""
        return f"r{self.run}-{self.run_token}-t{self.task}-a{self.task_attempt}"


class JournalRef(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The place of one attempt's rows: a file name below the ledger, with its size and checksum."""

    name: str
    rows: int
    size_bytes: int
    checksum: str


class Committable(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that another process needs to commit, abort or rewrite one transaction.

    `digest` is the evidence that the sink's own transaction stores. `handle` belongs to the sink.
    """

    attempt: Attempt
    rows: int
    digest: str
    handle: dict[str, str] = {}
    journal: JournalRef | None = None


class Outcome(Enum):
    """The closed set of answers to a commit."""

    COMMITTED = "committed"
    ALREADY = "already committed"
    RETRY = "retry later"
    LOST = "lost"
    UNKNOWN = "unknown"


class Answer(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A sink's answer for one committable. `detail` is the sink's finding in words."""

    outcome: Outcome
    detail: str = ""


class Evidence(Enum):
    """The proof of a sink about one committable."""

    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"
    OTHER = "other"  # the same epoch with another digest: a second timeline


class Position(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The newest evidence that a sink holds for one sink of one job."""

    job_id: str
    generation: int
    epoch: int
    digest: str


def committable_digest(attempt: Attempt, checksum: str) -> str:
    """The evidence of one transaction: its complete identity and its rows."""
    return sha256(msgspec.json.encode(attempt, order="sorted") + checksum.encode())


def epoch_digest(committables: Iterable[Committable]) -> str:
    """The evidence of all transactions of one sink in one epoch, in any order."""
    return digest_of_all(committable.digest for committable in committables)


def digest_of_all(digests: Iterable[str]) -> str:
    """`epoch_digest`, from the digests of the committables alone."""
    return sha256("\n".join(sorted(digests)).encode())

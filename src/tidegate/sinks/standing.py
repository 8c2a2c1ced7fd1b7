"""What a target's own ledger proves about an epoch before its commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from tidegate.core.records import Committable, Evidence, Position, SinkIdentity, epoch_digest


class Standing(Enum):
    """The closed set of findings."""

    OPEN = "no entry for this epoch or a later one"
    SAME = "exactly these transactions"
    OTHER = "the same epoch of another timeline"
    LATER = "nothing for this epoch, but a later one is there"


PROVES: Mapping[Standing, Evidence] = {
    Standing.OPEN: Evidence.ABSENT,
    Standing.SAME: Evidence.PRESENT,
    Standing.OTHER: Evidence.OTHER,
    Standing.LATER: Evidence.UNKNOWN,
}
"""The evidence that follows from a finding: if the entry is written in one step with the rows, or after them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One epoch in a target's ledger. `committables` keeps the digest of every transaction, so that a single
    transaction can be found without the others. All digests together give the epoch's digest.
    """

    job_id: str
    generation: int
    epoch: int
    digest: str
    committables: tuple[str, ...]

    @classmethod
    def of(cls, committables: Sequence[Committable]) -> Entry:
        """The entry of one epoch's transactions of one sink."""
        attempt = committables[0].attempt
        return cls(
            job_id=attempt.sink.job_id,
            generation=attempt.sink.generation,
            epoch=attempt.epoch,
            digest=epoch_digest(committables),
            committables=tuple(sorted(committable.digest for committable in committables)),
        )

    @classmethod
    def of_row(cls, job_id: str, generation: int, epoch: int, digest: str, committables: str) -> Entry:
        """The entry that a row of a database's ledger holds, by its columns."""
        return cls(
            job_id=job_id,
            generation=generation,
            epoch=epoch,
            digest=digest,
            committables=tuple(committables.split("\n")),
        )

    @property
    def row(self) -> tuple[str, int, int, str, str]:
        """What a row of a database's ledger holds: `of_row` reads it. The digests stand on a line each."""
        return self.job_id, self.generation, self.epoch, self.digest, "\n".join(self.committables)

    @property
    def position(self) -> Position:
        return Position(job_id=self.job_id, generation=self.generation, epoch=self.epoch, digest=self.digest)


def standing_of_epoch(wanted: Entry, found: Entry | None, newest: Position | None) -> Standing:
    """The finding for the whole epoch. `found`: the target's entry for the same generation and epoch."""
    if found is not None:
        return Standing.SAME if found == wanted else Standing.OTHER
    return _beside(newest, wanted.generation, wanted.epoch)


def standing_of_one(committable: Committable, found: Entry | None, newest: Position | None) -> Standing:
    """The finding for one transaction, without the others of its epoch."""
    attempt = committable.attempt
    if found is not None:
        # The digest covers the whole attempt, including the job id.
        return Standing.SAME if committable.digest in found.committables else Standing.OTHER
    return _beside(newest, attempt.sink.generation, attempt.epoch)


def in_words(standing: Standing, identity: SinkIdentity, epoch: int, newest: Position | None) -> str:
    """The finding as a sentence for an answer's detail."""
    told = f"epoch {epoch} of generation {identity.generation}: {standing.value}"
    if standing is Standing.LATER and newest is not None:
        return f"{told} (epoch {newest.epoch} of generation {newest.generation})"
    return told


def _beside(newest: Position | None, generation: int, epoch: int) -> Standing:
    # A sink commits its epochs in order, and a new generation opens only after the older one is finished. So a later
    # entry means that this epoch was committed and trimmed, or that the caller is an outdated driver.
    if newest is not None and (newest.generation, newest.epoch) > (generation, epoch):
        return Standing.LATER
    return Standing.OPEN

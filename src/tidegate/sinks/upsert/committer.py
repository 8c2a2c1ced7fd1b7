"""What a commit of an upsert sink does beside that of the plain sink. The rows are visible already; a commit looks for
their marks, and leaves its evidence: the ledger row of the plain sink.

Why it happens once: the plain sink's commit holds its lock, has looked for the epoch in the ledger, and writes the
ledger row by the same transaction. Why the rows are there: see `fences.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.records import Answer, Committable, Outcome
from tidegate.sinks.upsert.fences import Fences
from tidegate.sinks.upsert.session import UpsertSession


@dataclass(frozen=True, slots=True)
class UpsertCommitter:
    """Inside the open transaction of a commit."""

    session: UpsertSession

    def lost(self, committables: Sequence[Committable]) -> list[Answer]:
        """An answer for each committable if at least one has lost its rows; otherwise an empty list."""
        lost = {each.digest for each in Fences(self.session).unmarked(committables)}
        if not lost:
            return []
        waiting = Answer(outcome=Outcome.RETRY, detail="not taken: other rows of this epoch are lost")
        detail = "the mark of its rows is gone, so the database has lost its newest writes"
        gone = Answer(outcome=Outcome.LOST, detail=detail)
        return [gone if each.digest in lost else waiting for each in committables]

    def finish(self, committables: Sequence[Committable]) -> None:
        """Take no more rows of this epoch, and remove its marks."""
        attempt = committables[0].attempt
        Fences(self.session).finish(attempt.sink, attempt.epoch)

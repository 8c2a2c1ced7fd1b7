"""The commit phase of a Redis sink, on a driver. The rows are visible already; a commit leaves its evidence.

Why it happens once: the script compares the evidence that stands with the epoch, and writes only behind it. Why rows of
the epoch are there: see `evidence.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.records import Answer, Committable, Evidence, Outcome
from tidegate.sinks.base import answer_all
from tidegate.sinks.redis.declared import DeclaredRedisSink
from tidegate.sinks.redis.evidence import RedisLedger
from tidegate.sinks.redis.words import ERRORS, told
from tidegate.sinks.stamps import place_of_attempt
from tidegate.sinks.standing import PROVES, Entry


@dataclass(frozen=True, slots=True)
class RedisCommitter:
    """Records epochs in the ledger of a sink's target, and finds out which were recorded."""

    sink: DeclaredRedisSink

    def commit(self, committables: Sequence[Committable]) -> Sequence[Answer]:
        if not committables:
            return []
        try:
            with self.sink.server.connected() as session:
                ledger = RedisLedger(session, self.sink.names)
                found = ledger.record(committables[0].attempt.sink, Entry.of(committables), _by_bucket(committables))
        except ERRORS as error:
            return answer_all(committables, Outcome.RETRY, f"{self.sink.server}: {told(error)}")
        outcome, detail = next(answer for word, answer in _ANSWERS.items() if word in found)
        return answer_all(committables, outcome, f"{self.sink.server}: {detail}" if detail else "")

    def evidence(self, committable: Committable) -> Evidence:
        try:
            with self.sink.server.connected() as session:
                return PROVES[RedisLedger(session, self.sink.names).standing_of(committable)]
        except ERRORS:
            return Evidence.UNKNOWN


def _by_bucket(committables: Sequence[Committable]) -> dict[int, list[str]]:
    """The attempts that have rows in each bucket."""
    found: dict[int, list[str]] = {}
    for each in committables:
        for bucket in each.handle["buckets"].split(","):
            found.setdefault(int(bucket), []).append(place_of_attempt(each.attempt))
    return found


_ANSWERS: dict[str, tuple[Outcome, str]] = {
    "other": (Outcome.UNKNOWN, "the same epoch of another timeline"),
    "later": (Outcome.UNKNOWN, "a later epoch is there"),
    "lost": (Outcome.LOST, "a mark of its rows is gone, so the server has lost its newest writes"),
    "taken": (Outcome.COMMITTED, ""),
    "same": (Outcome.ALREADY, "the evidence is there"),
}
"""What a commit answers: the first of these words that a bucket has said."""

"""What a campaign must have seen: every fault, every verdict, every rule of the protocol at work."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from tests.simulator.faults import Fault

ENOUGH_SEEDS: Final = 50_000
"""From so many seeds on, what never fired is an error."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table: what fired, and how often."""

    kind: str
    name: str
    times: int


_VERDICTS: Final = (
    "answer: committed",
    "answer: already committed",
    "answer: retry later",
    "answer: lost",
    "answer: unknown",
    "evidence: present",
    "evidence: absent",
    "evidence: unknown",
    "redo: committed",
    "redo: retry later",
    "decided",
    "put came second: decision",
    "removed: decision.withdrawn",
    "log restored",
    "log set aside",
    "put back",
    "due epoch added",
    "given up",
    "removed: recover.dropped",
    "discarded",
    "removed: gc.record",
    "generation opened",
    "sealed",
    "put came second: seal",
    "put came second: generation",
    "a start beside a driver that opens a generation",
    "start refused",
    "stop: TG-RUN-SUPERSEDED",
    "stop: TG-GENERATION-SEALED",
    "stop: TG-EPOCH-FINISHED",
    "stop: TG-OFFSETS-BACKWARDS",
    "stop: TG-TRANSACTION-UNKNOWN",
    "stop: TG-SINK-BEHIND",
    "stop: TG-SINK-UNAVAILABLE",
    "stop: TG-EPOCH-TORN",
    "stop: TG-STORAGE-UNUSABLE",
)
"""What the protocol answered, found or did."""

_RULES: Final = {
    "1 decided is what log or ledger shows, not a file that exists": "decided without a whole commits entry",
    "2 Spark's log is made equal to the decisions": "log restored",
    "3 evidence inside the sink's transaction proves a commit": "evidence: present",
    "4 what is lost is written again, after fence and look": "redo: committed",
    "5 what is open and undecided is fenced": "given up",
    "6 a run stops when a newer one exists": "stop: TG-RUN-SUPERSEDED",
    "7 an attempt does not wait for its orphan's lock": "two branches of a task",
    "8 a late commit hits nothing": "late commit: lost",
    "9 state ids choose between two runs": "decided by state ids",
    "10 a due epoch is not forgotten": "due epoch added",
    "11 positions do not go back": "stop: TG-OFFSETS-BACKWARDS",
    "12 a run ends with its stream thread": "waited for an old stream thread",
    "13 what dead runs left goes": "discarded",
    "an epoch waits for the finisher": "waited for the finisher",
    "an overwritten entry of Spark's log does not count": "a log entry was overwritten by others",
}


def table(figures: Counter[str]) -> list[Line]:
    """Every line, in a fixed order."""
    faults = [Line("fault", fault.value, figures[f"fault: {fault.value}"]) for fault in Fault]
    verdicts = [Line("verdict", name, figures[name]) for name in _VERDICTS]
    return [*faults, *verdicts, *(Line("rule", rule, figures[name]) for rule, name in _RULES.items())]


def never_fired(figures: Counter[str]) -> list[Line]:
    """What a large campaign has not seen."""
    return [line for line in table(figures) if line.times == 0]

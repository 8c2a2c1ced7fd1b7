"""The three delivery levels, named like Flink's checkpointing modes: the state of a sink's rows after a failure.

exactly-once    rows become visible after the decision: each once, and always those of the surviving state
at-least-once   rows become visible inside the epoch, nothing waits: an epoch that runs again shows its rows again
at-most-once    rows become visible inside the epoch, and no epoch ever runs again: a restart begins with empty
                state and the newest input (a new generation), so a row may be missing and none is repeated
"""

from __future__ import annotations

from enum import Enum


class Level(Enum):
    """The closed set of delivery levels."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    AT_MOST_ONCE = "at-most-once"


AT_THE_NEXT_START = {
    Level.EXACTLY_ONCE: "nothing undecided became visible, and its input comes again",
    Level.AT_LEAST_ONCE: "its input comes again, and with it rows that at-least-once sinks have shown",
    Level.AT_MOST_ONCE: "rows that were shown stay, others are lost: the next start begins at the newest input",
}
"""The consequence for an epoch that failed before it was decided."""


def read_level(value: object) -> Level:
    """A level by its name. Case, `-` and `_` are ignored, so Flink's EXACTLY_ONCE is accepted. Raises ValueError."""
    if isinstance(value, Level):
        return value
    if not isinstance(value, str):
        raise ValueError
    return Level(value.strip().lower().replace("_", "-"))

"""What a sink's rows are worth after a failure: the three delivery levels, as Flink's checkpointing modes name them.

exactly-once    rows become visible after the decision: each once, and always those the surviving state came from
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
    Level.AT_MOST_ONCE: "what was shown stays, what was not is lost: the next start begins at the newest input",
}
"""What becomes of an epoch that failed before it was decided."""


def read_level(value: object) -> Level:
    """A level by its name; case, `-` and `_` do not count, so Flink's EXACTLY_ONCE is known. Raises ValueError."""
    if isinstance(value, Level):
        return value
    if not isinstance(value, str):
        raise ValueError
    return Level(value.strip().lower().replace("_", "-"))

"""What the settings of a job with channels promise, as the code decides it: the alignments, and what a sink shows.

`docs/guarantees.md` has both tables. Every combination is run by `tests/integration/test_graph_levels.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

from tidegate.channels.sink import ChannelSink
from tidegate.core.barriers import Alignment, Barriers, GraphQuery
from tidegate.core.guarantees import EndToEnd, Rows, Shows, end_to_end
from tidegate.core.levels import Level
from tidegate.settings.config import Settings
from tidegate.settings.rules import violations
from tidegate.spark.coordinated import alignment_of

_TIMEOUT_SECONDS = 0.2
DELIVERIES = (None, *Level)


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """The settings of a job that decide about the alignment of its checkpoints."""

    mode: Level
    unaligned: bool = False
    aligned_seconds: float = 0.0

    @property
    def given(self) -> Mapping[str, object]:
        """As a program gives them to `Job`."""
        return {
            "checkpointing_mode": self.mode.value,
            "checkpointing_unaligned": self.unaligned,
            "checkpointing_aligned_timeout": self.aligned_seconds,
        }

    @property
    def settings(self) -> Settings:
        return Settings(
            checkpointing_mode=self.mode,
            checkpointing_unaligned=self.unaligned,
            checkpointing_aligned_timeout=self.aligned_seconds,
        )

    @property
    def refused(self) -> str:
        """Why a job with channels does not start with them; empty if it does."""
        clashes = violations(self.settings, ())
        if clashes:
            return clashes[0].code
        [of_channels] = ChannelSink.levels
        found = self.shown_by(of_channels)
        return found.why if found.level is None else ""

    def shown_by(self, delivery: Level | None) -> EndToEnd:
        """What a sink shows that proves its commits. `delivery`: its own level, if it has one."""
        return end_to_end(Rows.REPLAYED, self.mode, Shows.ONCE, delivery)

    @property
    def may_be_in_flight(self) -> bool:
        """True if rows may be in the channels of a checkpoint."""
        return alignment_of(self.settings).end.allows(1)

    def repeats(self, channels: int) -> bool:
        """True if a reader of so many channels has rows twice after a restore: it is not held at a barrier, and may be
        behind it.
        """
        alignment = alignment_of(self.settings).begin
        names = [f"channel {number}" for number in range(channels)]
        graph = [GraphQuery("writer", {}, tuple(names)), GraphQuery("reader", {name: name for name in names}, ())]
        is_held_nowhere = all("reader" in Barriers(graph, alignment).passing(name) for name in names)
        return is_held_nowhere and alignment.allows(-1)


EVERY = [
    GraphSettings(mode, unaligned, seconds)
    for mode, unaligned, seconds in product(Level, (False, True), (0.0, _TIMEOUT_SECONDS))
]
COMBINATIONS = [
    (each, delivery)
    for each, delivery in product(EVERY, DELIVERIES)
    if not each.refused and each.shown_by(delivery).level is not None
]
"""The settings that a job with channels may have. Each comes with every `delivery` that it allows."""


def alignments_table() -> str:
    """By settings: the alignment, and a job that went back to a checkpoint."""
    head = (
        "| `checkpointing.mode` | `.unaligned` | `.aligned_timeout` | alignment | rows in flight "
        "| reader of one channel | reader of several |"
    )
    return "\n".join([head, "|---" * 7 + "|", *map(_alignment_row, EVERY)])


def deliveries_table() -> str:
    """By mode and delivery: what a sink of a job with channels shows after a crash."""
    head = "| `checkpointing.mode` | " + " | ".join(map(_delivery_named, DELIVERIES)) + " |"
    rows = [
        f"| {mode.value} | " + " | ".join(GraphSettings(mode).shown_by(each).text for each in DELIVERIES) + " |"
        for mode in Level
        if not GraphSettings(mode).refused
    ]
    return "\n".join([head, "|---" * (1 + len(DELIVERIES)) + "|", *rows])


def _alignment_row(each: GraphSettings) -> str:
    named = f"| {each.mode.value} | {str(each.unaligned).lower()} | {'set' if each.aligned_seconds else '0'} |"
    if each.refused:
        return f"{named} {each.refused if each.refused.startswith('refused') else f'refused ({each.refused})'} | | | |"
    flying = "belong to it" if each.may_be_in_flight else "none"
    readers = " | ".join("has rows twice" if each.repeats(channels) else "exact" for channels in (1, 2))
    return f"{named} {_alignment(each)} | {flying} | {readers} |"


def _alignment(each: GraphSettings) -> str:
    rule = alignment_of(each.settings)
    begins, ends = rule.begin.value, rule.end.value
    return begins if begins == ends else f"{begins}; {ends} when the time has passed"


def _delivery_named(delivery: Level | None) -> str:
    return "a sink without `delivery`" if delivery is None else f'`delivery="{delivery.value}"`'


def is_aligned(each: GraphSettings) -> bool:
    """True if each checkpoint is aligned from its begin to its end."""
    return alignment_of(each.settings).end is Alignment.ALIGNED

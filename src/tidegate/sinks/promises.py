"""What a sink promises to its readers, and what it needs for it: the rows of the table in docs/guarantees.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.core.guarantees import Rows, Shows, end_to_end
from tidegate.core.levels import Level


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One way of a sink to publish, at exactly-once.

    `option`: the argument that chooses it, as the user writes it; empty for the default. `page`: the page below docs/
    that explains it. `readers_see`: when the rows of an epoch become visible, and how many at once. `after_crash`: what
    stands in the target after a crash during the commit, and who ends it. `needs`: what the user has to set up in the
    target.
    """

    option: str = ""
    page: str = ""
    readers_see: str
    after_crash: str
    needs: str = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promising:
    """A sink class as the table needs it."""

    name: str
    shows: Shows
    levels: frozenset[Level]
    promises: Sequence[Promise]


EPOCH_AT_ONCE = "an epoch's rows all at once, in one transaction with its evidence"
ROLLED_BACK_OR_WHOLE = "rolled back or whole; the next start finishes it"
TASK_BY_TASK = "the rows of each task at once, one task after the other, after the decision"
WRITTEN_AGAIN = (
    "the next start commits what is prepared; what was rolled back by hand is written again from the journal"
)


def markdown_tables(sinks: Sequence[Promising]) -> str:
    """What each sink gives in each mode, over a source that can be read again; and what that means and needs."""
    modes = list(Level)
    got = [
        f"| {_named(sink, each)} | " + " | ".join(_gives(sink, mode) for mode in modes) + " |"
        for sink in sinks
        for each in sink.promises
    ]
    told = [
        f"| {_named(sink, each)} | {each.readers_see} | {each.after_crash} | {each.needs} |"
        for sink in sinks
        for each in sink.promises
    ]
    return "\n\n".join(
        [
            "\n".join(["| sink | " + " | ".join(mode.value for mode in modes) + " |", "|---" * 4 + "|", *got]),
            "\n".join(
                [
                    "| sink | exactly-once: what readers see | after a crash during the commit | what it needs |",
                    "|---" * 4 + "|",
                    *told,
                ]
            ),
        ]
    )


def _gives(sink: Promising, mode: Level) -> str:
    return end_to_end(Rows.REPLAYED, mode, sink.shows).text if mode in sink.levels else _REFUSED


_REFUSED = "refused"


def _named(sink: Promising, promise: Promise) -> str:
    name = f"[`{sink.name}`]({promise.page})" if promise.page else f"`{sink.name}`"
    return f"{name} with `{promise.option}`" if promise.option else name

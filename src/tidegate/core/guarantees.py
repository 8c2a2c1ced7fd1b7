"""The guarantee of a sink for its readers, end to end, and the part that limits it: source, engine or sink.

Three tables, one for each level of the engine, each total. `docs/guarantees.md` shows them as this module prints them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec

from tidegate.core.levels import Level
from tidegate.core.matrix import Matrix


class Rows(Enum):
    """The declaration of a source about its rows. The last one is the weakest."""

    REPLAYED = "can be read again"
    LOGGED = "are kept in a log"
    LIVE = "are given once"


class Shows(Enum):
    """The declaration of a sink about an epoch that was interrupted by the death of the process: in its commit, or
    before it if the sink's rows are visible inside the epoch.
    """

    ONCE = "shows it once"
    AGAIN = "may show it again"
    INSIDE = "shows rows inside the epoch, by key"
    EARLY = 'delivery="at-least-once"'


class Limit(Enum):
    """The part that limits the guarantee."""

    NOTHING = "nothing"
    SOURCE = "source"
    ENGINE = "engine"
    SINK = "sink"


class EndToEnd(Enum):
    """All combinations of source, engine and sink: (level, limit, reason)."""

    def __init__(self, level: Level | None, limit: Limit, why: str) -> None:
        self.level = level
        self.limit = limit
        self.why = why

    EXACT = (Level.EXACTLY_ONCE, Limit.NOTHING, "no row is missing and none is repeated")
    EXACT_FROM_THE_LOG = (
        Level.EXACTLY_ONCE,
        Limit.SOURCE,
        "it holds from the moment a row stands in the log; rows that are sent while no job runs do not arrive",
    )
    SHOWN_AGAIN = (
        Level.AT_LEAST_ONCE,
        Limit.SINK,
        "an epoch that was being committed when the process died is shown again, with the same rows",
    )
    REPLACED = (
        Level.AT_LEAST_ONCE,
        Limit.SINK,
        "rows are visible before their epoch is decided; an epoch that runs again replaces them by key, so the target"
        " ends exact if the query computes the same rows again",
    )
    SHOWN_EARLY_BY_THE_SINK = (
        Level.AT_LEAST_ONCE,
        Limit.SINK,
        "the sink's own `delivery` shows rows before their epoch is decided; an epoch that runs again repeats them",
    )
    SHOWN_EARLY = (
        Level.AT_LEAST_ONCE,
        Limit.ENGINE,
        "checkpointing.mode shows rows before their epoch is decided; an epoch that runs again repeats them",
    )
    NOT_REPLAYED = (
        Level.AT_MOST_ONCE,
        Limit.ENGINE,
        "checkpointing.mode runs no epoch again: a start begins with empty state, at the newest input",
    )
    NOT_KEPT = (
        Level.AT_MOST_ONCE,
        Limit.SOURCE,
        "the source gives a row once, so no other checkpointing.mode is possible",
    )
    REFUSED_SOURCE = (None, Limit.SOURCE, "refused (TG-SOURCE-NOT-REPLAYABLE): an epoch could not be run again")
    REFUSED_SINK = (None, Limit.SINK, "refused (TG-LEVEL-REFUSED): at-most-once is for all sinks of a job")

    @property
    def text(self) -> str:
        """In a few words: the level and its limit."""
        if self.level is None:
            return "refused"
        return self.level.value if self.limit is Limit.NOTHING else f"{self.level.value}, by the {self.limit.value}"


class Guarantee(msgspec.Struct, frozen=True, kw_only=True):
    """The guarantee of one sink of a query. `where`: the uid of the source or sink that limits it, or the setting."""

    query: str
    sink: str
    level: Level
    limited_by: Limit
    where: str
    why: str

    @property
    def text(self) -> str:
        """In one line."""
        if self.limited_by is Limit.NOTHING:
            return f"{self.level.value}: {self.why}"
        return f"{self.level.value}, limited by the {self.limited_by.value} ({self.where}): {self.why}"


_E = EndToEnd
TABLES: Mapping[Level, Matrix[Shows, Rows, EndToEnd]] = {
    Level.EXACTLY_ONCE: Matrix(
        Shows,
        Rows,
        {
            Shows.ONCE: (_E.EXACT, _E.EXACT_FROM_THE_LOG, _E.REFUSED_SOURCE),
            Shows.AGAIN: (_E.SHOWN_AGAIN, _E.SHOWN_AGAIN, _E.REFUSED_SOURCE),
            Shows.INSIDE: (_E.REPLACED, _E.REPLACED, _E.REFUSED_SOURCE),
            Shows.EARLY: (_E.SHOWN_EARLY_BY_THE_SINK, _E.SHOWN_EARLY_BY_THE_SINK, _E.REFUSED_SOURCE),
        },
    ),
    Level.AT_LEAST_ONCE: Matrix(
        Shows,
        Rows,
        {
            Shows.ONCE: (_E.SHOWN_EARLY, _E.SHOWN_EARLY, _E.REFUSED_SOURCE),
            Shows.AGAIN: (_E.SHOWN_EARLY, _E.SHOWN_EARLY, _E.REFUSED_SOURCE),
            Shows.INSIDE: (_E.REPLACED, _E.REPLACED, _E.REFUSED_SOURCE),
            Shows.EARLY: (_E.SHOWN_EARLY, _E.SHOWN_EARLY, _E.REFUSED_SOURCE),
        },
    ),
    Level.AT_MOST_ONCE: Matrix(
        Shows,
        Rows,
        {
            Shows.ONCE: (_E.NOT_REPLAYED, _E.NOT_REPLAYED, _E.NOT_KEPT),
            Shows.AGAIN: (_E.NOT_REPLAYED, _E.NOT_REPLAYED, _E.NOT_KEPT),
            Shows.INSIDE: (_E.NOT_REPLAYED, _E.NOT_REPLAYED, _E.NOT_KEPT),
            Shows.EARLY: (_E.REFUSED_SINK, _E.REFUSED_SINK, _E.REFUSED_SINK),
        },
    ),
}
"""By the level of the engine for the sink: `checkpointing.mode`, or exactly-once by the sink's own setting."""


def end_to_end(rows: Rows, mode: Level, shows: Shows, delivery: Level | None = None) -> EndToEnd:
    """The result of source, engine and sink. `delivery`: the sink's own level, if it has one."""
    if delivery not in (None, mode) and Level.AT_MOST_ONCE in (delivery, mode):
        return EndToEnd.REFUSED_SINK
    if delivery is Level.AT_LEAST_ONCE:
        return TABLES[mode].cell(Shows.EARLY, rows)
    return TABLES[delivery or mode].cell(shows, rows)


def guarantee_of(
    query: str, sink: str, sources: Mapping[str, Rows], mode: Level, shows: Shows, delivery: Level | None = None
) -> Guarantee | None:
    """The guarantee of a sink; None for a job that cannot start. The weakest of the query's sources counts."""
    weakest: Sequence[Rows] = list(Rows)
    uid = max(sources, key=lambda each: weakest.index(sources[each]))
    found = end_to_end(sources[uid], mode, shows, delivery)
    if found.level is None:
        return None
    where = {Limit.NOTHING: "", Limit.SOURCE: uid, Limit.SINK: sink, Limit.ENGINE: f"checkpointing.mode = {mode.value}"}
    return Guarantee(
        query=query, sink=sink, level=found.level, limited_by=found.limit, where=where[found.limit], why=found.why
    )


def markdown_tables() -> str:
    """The tables and the reasons for the documents."""
    shown = [f"**checkpointing.mode = {level.value}**\n\n{_markdown(table)}" for level, table in TABLES.items()]
    reasons = [f"| {each.text} | {each.why} |" for each in EndToEnd]
    return "\n\n".join([*shown, "\n".join(["| guarantee | reason |", "|---|---|", *reasons])])


def _markdown(table: Matrix[Shows, Rows, EndToEnd]) -> str:
    head = "| sink, after a crash in its epoch or commit | " + " | ".join(f"rows {each.value}" for each in Rows) + " |"
    lines = [
        f"| {shows.value} | " + " | ".join(table.cell(shows, rows).text for rows in Rows) + " |" for shows in Shows
    ]
    return "\n".join([head, "|---" * (len(Rows) + 1) + "|", *lines])

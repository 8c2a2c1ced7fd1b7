"""Spark's own streaming formats: what each would declare of itself if it were a source of tidegate's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate.sources.base import Absence, Begins, Replay, Traits


@dataclass(frozen=True, slots=True)
class SparkFormat:
    """`newest`: the options with which the format begins behind its newest row. `in_plans`: how its name ends in the
    plan of a query, where that is not the format."""

    traits: Traits
    newest: Mapping[str, str] = field(default_factory=dict[str, str])
    in_plans: str = ""


_TABLE = SparkFormat(Traits(Replay.EXACT, Begins.OLDEST))

FORMATS: Mapping[str, SparkFormat] = {
    "csv": _TABLE,
    "delta": _TABLE,
    "iceberg": _TABLE,
    "json": _TABLE,
    "kafka": SparkFormat(Traits(Replay.EXACT, Begins.EITHER), {"startingOffsets": "latest"}),
    "orc": _TABLE,
    "parquet": _TABLE,
    "rate": SparkFormat(Traits(Replay.EXACT, Begins.NEWEST)),
    "rate-micro-batch": _TABLE,
    "socket": SparkFormat(Traits(Replay.NONE, Begins.NEWEST, Absence.LOST), in_plans="textsocketsourceprovider"),
    "text": _TABLE,
}
"""By the name of the format in lower case. A format that is not here has declared nothing."""

_FILES = "filesource["


def is_of_files(name: str) -> bool:
    """Whether the name in a plan is that of Spark's file source."""
    return name.lower().startswith(_FILES)


def format_in_plan(name: str) -> SparkFormat | None:
    """The format behind a stream, by its name in the plan of a query; None where it has declared nothing."""
    if is_of_files(name):
        return _TABLE
    lower = name.lower()
    known = {each.in_plans: each for each in FORMATS.values() if each.in_plans}
    return FORMATS.get(lower) or next((each for end, each in known.items() if lower.endswith(end)), None)
